"""plan --export: the exported files are read back by the rules of their formats. The tests simulate GOAL with LogGP, build the binary
file from the text a second time, and decode the protobuf messages of Chakra and Perfetto field by field."""
import collections
import json
import os
import re
import struct

import pytest

STEPS = [("gpt2_large", "4", "2", "2", "--ranks", "8"), ("cosmoflow", "--ranks", "8"), ("dlrm", "--ranks", "8"),
         ("gpt3", "4", "2", "--ranks", "16"), ("resnet50_ring", "--ranks", "8"), ("gems", "--ranks", "8"), ("spatial", "--ranks", "8"),
         ("transformer", "--model", "gpt2_small", "--ranks", "16", "--tp", "2", "--pp", "4", "--vpp", "3", "--schedule", "interleaved",
          "--micro-batches", "8", "--compute", "timed"),
         ("transformer", "--model", "mixtral_8x7b", "--ranks", "16", "--tp", "2", "--sequence-parallel", "--pp", "2", "--ep", "4",
          "--micro-batches", "4", "--compute", "timed"),
         ("transformer", "--model", "gpt2_small", "--ranks", "8", "--tp", "2", "--compute", "gemm", "--cluster", "h100-sxm-ib")]
NAMES = [" ".join(s[:2]) + str(i) for i, s in enumerate(STEPS)]


def export(busbar, form, path, *args):
    done = busbar.run("plan", *args, "--export", form, path)
    assert done.returncode == 0, done.stderr
    return done


# ---- GOAL ----

Op = collections.namedtuple("Op", "kind size peer tag cpu")
STATEMENT = re.compile(r"(\w+): (?:(send|recv) (\d+)b (?:to|from) (\d+) tag (\d+) cpu (\d+) nic 0|calc (\d+) cpu (\d+))$")
EDGE = re.compile(r"(\w+) (requires|irequires) (\w+)$")


def read_goal(text):
    """Returns [(ops, [(after, before, started)])] by rank. Each line must follow the grammar and refer to earlier labels only."""
    lines = iter(text.splitlines())
    count = int(re.fullmatch(r"num_ranks (\d+)", next(lines))[1])
    ranks = []
    for line in lines:
        if line.startswith("//"):
            continue
        assert line == f"rank {len(ranks)} {{"
        ops, edges, position = [], [], {}
        for line in lines:
            if line == "}":
                break
            if statement := STATEMENT.match(line):
                label, kind, size, peer, tag, cpu, ns, calc_cpu = statement.groups()
                position[label] = len(ops)
                ops.append(Op(kind or "calc", int(size or ns), int(peer or 0), int(tag or 0), int(cpu or calc_cpu)))
            else:
                after, how, before = EDGE.match(line).groups()
                edges.append((position[after], position[before], how == "irequires"))
        ranks.append((ops, edges))
    assert len(ranks) == count
    return ranks


def simulate(ranks, latency, gap):
    """Returns the end time by LogGP with o = g = O = 0. A message of s bytes arrives latency + (s - 1) gap after its begin. The network
    interface sends one message at a time and receives one at a time. A calculation occupies its cpu. Every operation must run."""
    waits = [[0] * len(ops) for ops, _ in ranks]
    after = [collections.defaultdict(list) for _ in ranks]
    for r, (_, edges) in enumerate(ranks):
        for a, b, started in edges:
            after[r][b].append(a)
            waits[r][a] += 1
    ready_at = [[0] * len(ops) for ops, _ in ranks]
    sent, posted = collections.defaultdict(collections.deque), collections.defaultdict(collections.deque)
    free = collections.defaultdict(int)
    ready = [(r, i) for r, (ops, _) in enumerate(ranks) for i in range(len(ops)) if waits[r][i] == 0]
    end, done = 0, 0

    def finish(r, i, t):
        nonlocal end, done
        end, done = max(end, t), done + 1
        for a in after[r][i]:
            ready_at[r][a] = max(ready_at[r][a], t)
            waits[r][a] -= 1
            if waits[r][a] == 0:
                ready.append((r, a))

    while ready:
        ready.sort(key=lambda x: ready_at[x[0]][x[1]], reverse=True)
        r, i = ready.pop()
        op, t = ranks[r][0][i], ready_at[r][i]
        if op.kind == "calc":
            start = max(t, free["cpu", r, op.cpu]) if op.size else t
            free["cpu", r, op.cpu] = max(start + op.size, free["cpu", r, op.cpu]) if op.size else free["cpu", r, op.cpu]
            finish(r, i, start + op.size)
            continue
        if op.kind == "send":
            start = max(t, free["out", r])
            free["out", r] = start + (op.size - 1) * gap
            key = (r, op.peer, op.tag)
            sent[key].append((start, op.size))
            finish(r, i, start)
        else:
            key = (op.peer, r, op.tag)
            posted[key].append((r, i, t, op.size))
        while sent[key] and posted[key]:
            (start, size), (to, j, since, expected) = sent[key].popleft(), posted[key].popleft()
            assert size == expected
            finish(to, j, max(since, start + latency + (size - 1) * gap))
    assert done == sum(len(ops) for ops, _ in ranks), "operations that never ran"
    assert not any(sent.values()) and not any(posted.values())
    return end


def pack_goal(ranks):
    """Builds the binary file from the fields that Parser.hpp of LogGOPSim reads."""
    header, body = b"", b""
    first = 4 + 2 + 16 * len(ranks)
    for ops, edges in ranks:
        n_before = collections.Counter(a for a, _, _ in edges)
        waiting = [[[a for a, b, s in edges if b == i and s == started] for started in (False, True)] for i in range(len(ops))]
        roots = [i for i in range(len(ops)) if not n_before[i]]
        data = struct.pack(f"<II{len(roots)}I", len(ops), len(roots), *roots)
        listed = []
        for i, op in enumerate(ops):
            kind = {"send": 1, "recv": 2, "calc": 3}[op.kind]
            data += struct.pack("<IBIQIBB", n_before[i], kind, op.peer, op.size, op.tag, op.cpu, 0)
            for part in waiting[i]:
                data += struct.pack("<II", len(part), len(listed))
                listed += part
        data += struct.pack(f"<{len(listed)}I", *listed)
        header += struct.pack("<QQ", first + len(body), first + len(body) + len(data))
        body += data
    lanes = max(op.cpu for ops, _ in ranks for op in ops)
    return struct.pack("<QIBB", 4223, len(ranks), lanes, 0) + header + body


@pytest.mark.parametrize("args", STEPS, ids=NAMES)
def test_goal_simulation_completes(busbar, tmp_path, args):
    export(busbar, "goal", tmp_path / "step.goal", *args)
    text = (tmp_path / "step.goal").read_text()
    assert f"busbar plan {' '.join(args)}" in text
    assert simulate(read_goal(text), 1000, 1) > 0


def test_goal_simulation_detects_a_missing_receive(busbar, tmp_path):
    export(busbar, "goal", tmp_path / "step.goal", *STEPS[0])
    ranks = read_goal((tmp_path / "step.goal").read_text())
    ops = ranks[1][0]
    receive = next(i for i, op in enumerate(ops) if op.kind == "recv")
    ops[receive] = ops[receive]._replace(tag=7)
    with pytest.raises(AssertionError, match="never ran"):
        simulate(ranks, 1000, 1)


@pytest.mark.parametrize("args", STEPS[:3] + STEPS[5:6], ids=NAMES[:3] + NAMES[5:6])
def test_goal_binary_equals_the_text(busbar, tmp_path, args):
    export(busbar, "goal", tmp_path / "step.goal", *args)
    export(busbar, "goal-bin", tmp_path / "step.bin", *args)
    assert (tmp_path / "step.bin").read_bytes() == pack_goal(read_goal((tmp_path / "step.goal").read_text()))


@pytest.mark.parametrize("ranks", [2, 5, 8])
def test_goal_ring_takes_the_time_of_its_formula(busbar, tmp_path, ranks):
    """resnet50 without compute: sequential all-reduces of 2 (n - 1) steps of the largest slice. LogGOPSim gives the same time for this
    file."""
    args = ("resnet50", "--ranks", ranks, "--compute", "none")
    export(busbar, "goal", tmp_path / "step.goal", *args)
    plan = json.loads(busbar.run("plan", *args, "--ops", "--json", "-").stdout)
    sizes = [4 * op["count"] for op in plan["roles"][0]["program"] if op["kind"] == "all_reduce"]
    assert len(sizes) == 6
    expected = sum(2 * (ranks - 1) * (1000 + (-(-size // ranks) - 1) * 1) for size in sizes)
    measured = simulate(read_goal((tmp_path / "step.goal").read_text()), 1000, 1)
    assert measured == expected if all(size % ranks == 0 for size in sizes) else abs(measured - expected) <= 12 * ranks * len(sizes)


def test_goal_uses_separate_cpus_for_compute_and_communication(busbar, tmp_path):
    export(busbar, "goal", tmp_path / "step.goal", *STEPS[7])
    for ops, _ in read_goal((tmp_path / "step.goal").read_text()):
        assert {op.cpu for op in ops if op.kind == "calc" and op.size} == {0}
        assert 0 not in {op.cpu for op in ops if op.kind != "calc"}


# ---- Chakra ----


def varint(data, position):
    value = shift = 0
    while True:
        value |= (data[position] & 0x7F) << shift
        shift += 7
        position += 1
        if not data[position - 1] & 0x80:
            return value, position


def fields(data):
    """Returns {number: [values]} of a protobuf message: varints as integers, length-delimited fields as bytes."""
    actual, position = collections.defaultdict(list), 0
    while position < len(data):
        key, position = varint(data, position)
        value, position = varint(data, position)
        if key & 7 == 2:
            value, position = data[position:position + value], position + value
        else:
            assert key & 7 == 0
        actual[key >> 3].append(value)
    assert position == len(data)
    return actual


def messages(data):
    position = 0
    while position < len(data):
        length, position = varint(data, position)
        yield fields(data[position:position + length])
        position += length
    assert position == len(data)


def attributes(message, number):
    return {a[1][0].decode(): next(v[0] for k, v in a.items() if k != 1) for a in map(fields, message[number])}


def read_chakra(prefix, rank):
    """Returns [(id, type, deps, duration_us, attributes)] of the trace of a rank."""
    first, *nodes = messages((prefix.parent / f"{prefix.name}.{rank}.et").read_bytes())
    assert first[1] == [b"0.0.4"]
    read = []
    for node in nodes:
        deps, position = [], 0
        for packed in node[5]:
            while position < len(packed):
                dep, position = varint(packed, position)
                deps.append(dep)
        read.append((node[1][0], node[3][0], deps, node[7][0] if node[7] else 0, attributes(node, 10)))
    return read


COMPUTE, SEND, RECV, COLLECTIVE = 4, 5, 6, 7


@pytest.mark.smoke
@pytest.mark.parametrize("args", STEPS, ids=NAMES)
def test_chakra_equals_the_plan(busbar, tmp_path, args):
    wrote = export(busbar, "chakra", tmp_path / "step", *args).stdout.splitlines()[-1]
    assert "step.RANK.et" in wrote and "step.groups.json" in wrote
    plan = json.loads(busbar.run("plan", *args, "--ops", "--json", "-").stdout)
    groups = json.loads((tmp_path / "step.groups.json").read_text())
    ranks = plan["options"]["ranks"]
    sent, received = collections.Counter(), collections.Counter()
    collectives = collections.defaultdict(list)
    for rank in range(ranks):
        nodes = read_chakra(tmp_path / "step", rank)
        role = next(r for r in plan["roles"] if rank in r["ranks"])
        assert [n[0] for n in nodes] == list(range(len(nodes)))
        assert sum(not n[4]["is_cpu_op"] for n in nodes) == len(role["program"])
        assert any(n[4]["is_cpu_op"] for n in nodes) == ("--cluster" in args)
        for number, kind, deps, _, attribute in nodes:
            assert len(deps) == len(set(deps)) and all(d < number for d in deps)
            if kind in (SEND, RECV):
                message = (attribute["comm_src"], attribute["comm_dst"], attribute["comm_tag"], attribute["comm_size"])
                assert message[0 if kind == SEND else 1] == rank
                (sent if kind == SEND else received)[message] += 1
            if kind != COMPUTE:
                assert rank in groups[attribute["pg_name"].decode()]
            if kind == COLLECTIVE:
                collectives[attribute["pg_name"].decode(), rank].append((attribute["comm_type"], attribute["comm_size"]))
    assert sent == received
    for (group, rank), calls in collectives.items():
        for other in groups[group]:
            assert collectives[group, other] == calls
    assert sum(sent.values()) + len(collectives) > 0


def test_failed_chakra_export_leaves_no_file(busbar, tmp_path):
    (tmp_path / "step.2.et").mkdir()
    done = busbar.run("plan", *STEPS[7], "--export", "chakra", tmp_path / "step")
    assert done.returncode == 1 and "step.2.et: Is a directory" in done.stderr and os.listdir(tmp_path) == ["step.2.et"], done.stderr


def test_chakra_has_durations_in_microseconds_and_nanoseconds(busbar, tmp_path):
    export(busbar, "chakra", tmp_path / "step", *STEPS[7])
    for _, kind, _, us, attribute in read_chakra(tmp_path / "step", 3):
        if kind == COMPUTE:
            assert us == (attribute["duration_ns"] + 500) // 1000 and attribute["duration_ns"] > 0


# ---- the host ----

ONE_RANK = ("transformer", "--model", "gpt2_small", "--layers", "4", "--ranks", "1", "--cluster", "h100-sxm-ib", "--micro-batch-size")


@pytest.mark.parametrize("options,bound", [(("1", "--seq-length", "128"), True), (("16",), False)], ids=["host-bound", "long kernels"])
def test_host_launches_are_separate_from_gpu_compute(busbar, tmp_path, options, bound):
    """One rank without communication: the simulation of the GOAL file takes as long as the step of the plan, except for the launches
    that follow the first operation. The GPU is busy for the whole step, unless the host launches too slowly."""
    predicted = json.loads(busbar.run("plan", *ONE_RANK, *options, "--json", "-").stdout)["predicted"]
    export(busbar, "goal", tmp_path / "step.goal", *ONE_RANK, *options)
    ranks = read_goal((tmp_path / "step.goal").read_text())
    assert simulate(ranks, 1000, 1) == pytest.approx(1e3 * predicted["step_us"], rel=0.01 if bound else 1e-4)
    computes = sum(op.size for op in ranks[0][0] if op.cpu == 0)
    launches = [op.size for op in ranks[0][0] if op.cpu != 0]
    assert computes < 900 * predicted["step_us"] if bound else computes == pytest.approx(1e3 * predicted["step_us"] - launches[0], abs=1)
    # SimAI has no host: each operation takes the maximum of GPU and host time
    export(busbar, "simai", tmp_path / "step.txt", *ONE_RANK, *options)
    _, forward, backward = read_simai((tmp_path / "step.txt").read_text())
    assert 0.99 < sum(op[0] for op in forward + backward) / (1e3 * predicted["step_us"]) < (1.15 if bound else 1.01)


def test_chakra_host_launches_are_sequential(busbar, tmp_path):
    export(busbar, "chakra", tmp_path / "step", *STEPS[9])
    nodes = {node[0]: node for node in read_chakra(tmp_path / "step", 3)}
    launches = [number for number, *_, attribute in nodes.values() if attribute["is_cpu_op"]]
    assert [nodes[number][2] for number in launches] == [[]] + [[number] for number in launches[:-1]]
    assert abs(sum(nodes[n][3] for n in launches) - sum(nodes[n][4]["duration_ns"] for n in launches) / 1e3) <= 0.5
    for number, _, deps, _, attribute in nodes.values():
        if not attribute["is_cpu_op"]:
            assert sum(dep in launches for dep in deps) == 1, number


# ---- slow parts ----

@pytest.mark.parametrize("args", [STEPS[0][:-2] + ("--ranks", "8", "--compute", "timed", "--cluster", "h100-sxm-ib"), STEPS[9]],
                         ids=["timed", "gemm"])
def test_slow_rank_computes_longer_in_goal_and_chakra(busbar, tmp_path, args):
    def goal(*slow):
        export(busbar, "goal", tmp_path / "step.goal", *args, *slow)
        return [[op.size for op in ops if op.kind == "calc" and op.cpu == 0] for ops, _ in read_goal((tmp_path / "step.goal").read_text())]

    def chakra(*slow):
        export(busbar, "chakra", tmp_path / "step", *args, *slow)
        return [[a["duration_ns"] for _, kind, *_, a in read_chakra(tmp_path / "step", r) if kind == COMPUTE and not a["is_cpu_op"]]
                for r in range(8)]

    for durations in (goal, chakra):
        even, slow = durations(), durations("--slow", "rank=5:1.5")
        assert sum(even[5]) > 0
        for rank in range(8):
            assert slow[rank] == pytest.approx([(1.5 if rank == 5 else 1) * ns for ns in even[rank]], abs=0.5), rank


# ---- SimAI ----

SIMAI = [("transformer", "--model", "llama3_8b", "--layers", "8", "--ranks", "32", "--tp", "2", "--pp", "4", "--micro-batches", "4"),
         ("transformer", "--model", "llama3_8b", "--layers", "12", "--ranks", "16", "--tp", "2", "--pp", "2", "--vpp", "3", "--schedule",
          "interleaved", "--sequence-parallel", "--micro-batches", "4"),
         ("transformer", "--model", "mixtral_8x7b", "--layers", "4", "--ranks", "16", "--pp", "2", "--ep", "4", "--micro-batches", "2"),
         ("transformer", "--model", "llama3_8b", "--layers", "2", "--ranks", "8", "--dp-sync", "zero3", "--compute", "gemm", "--cluster",
          "h100-sxm-ib"),
         ("data_parallel", "--model", "resnet50", "--ranks", "8"), ("gpt2_large", "4", "2", "--ranks", "8"),
         ("gpt3_moe", "4", "2", "--ranks", "128")]
HEADER_KEYS = {"tp": "model_parallel_NPU_group:", "ep": "ep:", "pp": "pp:", "vpp": "vpp:", "ga": "ga:", "all": "all_gpus:",
               "message": "pp_comm:"}
COLLECTIVES = {"ALLREDUCE": "all_reduce", "ALLGATHER": "all_gather", "REDUCESCATTER": "reduce_scatter", "ALLTOALL": "alltoall"}


def read_simai(text):
    """Returns the header and the operations in the order of Workload.cc: rows forward, then the gradients from the last row to the
    first. An operation is (ns of compute,) or (collective, group, bytes)."""
    first, count, *rows = text.splitlines()
    tokens = first.split()
    assert tokens[0] == "HYBRID_TRANSFORMER_FWD_IN_BCKWD" and int(count) == len(rows)
    header = {key: int(tokens[tokens.index(token) + 1]) for key, token in HEADER_KEYS.items() if token in tokens}
    rows = [row.split() for row in rows]
    assert all(len(row) == 12 and row[1] == "-1" and int(row[11]) == 1 for row in rows)

    def run(row, column, plain):
        if int(row[column]):
            yield (int(row[column]),)
        if row[column + 1] != "NONE":
            token, _, suffix = row[column + 1].partition("_")
            yield (COLLECTIVES[token], {"": plain, "EP": "ep", "DP_EP": "edp"}[suffix], int(row[column + 2]))
    forward = [op for row in rows for op in run(row, 2, "tp")]
    return header, forward, [op for row in reversed(rows) for op in [*run(row, 5, "tp"), *run(row, 8, "dp")]]


def planned(busbar, args):
    """Returns the same operations of rank 0 from the plan (blocking ones first, others in their order), and the sizes of the groups."""
    plan = json.loads(busbar.run("plan", *args, "--ops", "--json", "-").stdout)
    sizes = {g["name"]: g["size"] for g in plan["groups"]}
    names = {"moe_ep": "ep", "moe_dp": "edp"}
    parts = {True: [], False: []}
    for op in next(r for r in plan["roles"] if 0 in r["ranks"])["program"]:
        forward = op["phase"] == "forward"
        if op["kind"] == "compute":
            parts[forward].append(None if op["kernel_list"] or op["moved_bytes"] else (round(op["compute_us"] * 1000),))
        elif op["kind"] in COLLECTIVES.values():
            group = names.get(op["group"], op["group"])
            size = {"float": 4, "bfloat16": 2,
                    "int32": 4}[op["dtype"]] * op["count"] * (1 if op["kind"] == "all_reduce" else sizes[op["group"]])
            if group in ("tp", "ep", "dp", "edp"):
                parts[forward and group in ("tp", "ep")].append((op["kind"], group, size))
            else:
                assert size < 64
    return plan, {names.get(k, k): v for k, v in sizes.items()}, parts


@pytest.mark.parametrize("args", SIMAI, ids=[" ".join(w[:3]) + str(i) for i, w in enumerate(SIMAI)])
def test_simai_equals_the_plan(busbar, tmp_path, args):
    export(busbar, "simai", tmp_path / "step.txt", *args)
    text = (tmp_path / "step.txt").read_text()
    assert f"busbar plan {' '.join(args)}" in text.splitlines()[0]
    header, forward, backward = read_simai(text)
    plan, sizes, parts = planned(busbar, args)
    assert (header["all"], header["tp"], header["ep"], header["pp"]) == (plan["options"]["ranks"],
                                                                         *(sizes.get(g, 1) for g in ("tp", "ep", "pp")))

    def equal(actual, expected):  # GEMM compute takes its time from the cluster: any time is accepted
        return len(actual) == len(expected) and all(len(g) == 1 if w is None else g == w for g, w in zip(actual, expected))

    replicas = [op for op in backward if op[1:2] in (("dp",), ("edp",))]
    assert equal(forward, [op for op in parts[True] if op != (0,)])
    assert collections.Counter(backward) == collections.Counter(parts[False]) or None in parts[False]
    if args[0] != "transformer" or "zero3" not in args:
        assert equal(backward, [op for op in parts[False] if op != (0,)])
    assert not replicas or header["all"] // (header["tp"] * header["pp"]) == sizes["dp"]


@pytest.mark.parametrize("i,expected", [(0, (1, 4)), (1, (3, 4)), (5, (1, 8)), (6, (1, 8))])
def test_simai_header_describes_the_pipeline(busbar, tmp_path, i, expected):
    export(busbar, "simai", tmp_path / "step.txt", *SIMAI[i])
    header, _, _ = read_simai((tmp_path / "step.txt").read_text())
    plan, _, _ = planned(busbar, SIMAI[i])
    size = {op["count"] * {"float": 4, "bfloat16": 2}[op["dtype"]] for r in plan["roles"] for op in r["program"] if op["kind"] == "send"}
    assert (header["vpp"], header["ga"]) == expected and size == {header["message"]}


# ---- invalid arguments ----


# ---- Perfetto ----

PLAN = ("gpt2_large", "4", "2", "2", "--ranks", "4", "--compute", "timed", "--cluster", "h100-sxm-ib")


def only(message, number, default=0):
    (value,) = message.get(number, [default])
    return value


def read_perfetto(data):
    """Returns {(process, track): [(begin ns, end ns, name)]}, and for counter tracks [(ns, bytes)]. Each packet sequence has its own
    incremental clock, interned names and default track."""
    processes, tracks, states, open_slices, slices = {}, {}, {}, {}, collections.defaultdict(list)
    counters = set()
    for packet in map(fields, fields(data)[1]):
        sequence = only(packet, 10)
        if 60 in packet:  # a track descriptor: a track or a process
            track = fields(only(packet, 60))
            if 3 in track:
                processes[only(track, 1)] = only(fields(only(track, 3)), 6).decode()
            else:
                tracks[only(track, 1)] = (processes[only(track, 5)], only(track, 2).decode())
            if 8 in track:
                assert only(fields(only(track, 8)), 3) == 3  # the unit: bytes
                counters.add(only(track, 1))
        if only(packet, 13) & 1:
            clocks = [fields(clock) for clock in fields(only(packet, 6))[1]]
            assert [(only(c, 1), only(c, 2), only(c, 3)) for c in clocks] == [(64, 0, 1), (6, 0, 0)]
            defaults = fields(only(packet, 59))
            assert only(defaults, 58) == 64
            states[sequence], open_slices[sequence] = {"ns": 0, "names": {}, "track": only(fields(only(defaults, 11)), 11)}, []
        if 11 in packet:
            assert only(packet, 13) & 2
            state, event = states[sequence], fields(only(packet, 11))
            state["ns"] += only(packet, 8)
            for name in map(fields, fields(only(packet, 12, b"")).get(2, [])):
                state["names"][only(name, 1)] = only(name, 2).decode()
            if only(event, 9) == 1:
                arguments = {only(a, 10).decode(): only(a, 2 if 2 in a else 3) for a in map(fields, event.get(4, []))}
                open_slices[sequence].append((state["ns"], state["names"][only(event, 10)], arguments))
            elif state["track"] in counters:
                assert only(event, 9) == 4
                slices[tracks[state["track"]]].append((state["ns"], only(event, 30)))
            else:
                assert only(event, 9) == 2
                begin, name, arguments = open_slices[sequence].pop()
                slices[tracks[state["track"]]].append((begin, state["ns"], name, *sorted(arguments.items())))
    assert not any(open_slices.values())
    return slices


@pytest.mark.parametrize("step", [PLAN, (*PLAN, "--slow", "rank=2:1.5"), ("gems", "--splits", 4, *PLAN[4:])],
                         ids=["even", "slow", "memory"])
def test_perfetto_equals_the_trace(busbar, tmp_path, step):
    done = busbar.run("plan", *step, "--trace", tmp_path / "t.json", "--export", "perfetto", "--export-ranks", "0-3",
                      tmp_path / "t.pftrace")
    assert done.returncode == 0, done.stderr
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    names = {(e["name"], e["pid"], e["tid"]): e["args"]["name"] for e in events if e["ph"] == "M" and e["name"].endswith("_name")}
    expected = collections.defaultdict(list)
    for e in events:
        if e["ph"] == "X" and e["cat"] not in ("transfer", "exposed"):
            track = names["process_name", e["pid"], 0], names["thread_name", e["pid"], e["tid"]]
            name = "step, predicted for h100-sxm-ib" if e["cat"] == "step" else e["name"]
            arguments = e.get("args", {})
            critical = (("critical", 1),) if arguments.get("critical") else ()
            moved = sum(o["bytes"] for o in arguments.get("operations", [arguments]) if "bytes" in o)
            more = (("bytes", moved), ("wait_ns", round(arguments["wait_us"] * 1000))) if "wait_us" in arguments else ()
            expected[track].append((round(e["ts"] * 1000), round((e["ts"] + e["dur"]) * 1000), name, *sorted(more + critical)))
    for e in events:
        if e["ph"] == "C" and e["name"] in ("training memory", "buffers"):
            for use, value in e["args"].items():
                changes = expected[names["process_name", e["pid"], 0], f"{e['name']}: {use}"]
                if not changes or changes[-1][1] != value:
                    changes.append((round(e["ts"] * 1000), value))
    actual = read_perfetto((tmp_path / "t.pftrace").read_bytes())
    assert {t: sorted(s) for t, s in actual.items()} == {t: sorted(s) for t, s in expected.items()}
    assert sum(map(len, actual.values())) > 50 and any(("critical", 1) in s for t in actual.values() for s in t)


def test_slow_rank_computes_longer_in_perfetto(busbar, tmp_path):
    def computes(*slow):
        export(busbar, "perfetto", tmp_path / "p.pftrace", *PLAN, *slow, "--export-ranks", "0-3")
        slices = read_perfetto((tmp_path / "p.pftrace").read_bytes())
        return {rank: sum(end - begin for begin, end, *_ in slices[track]) for track in slices if track[1] == "compute"
                for rank in ranks_of([track])}
    even, slow = computes(), computes("--slow", "rank=2:1.5")
    assert set(even) == {0, 1, 2, 3} and min(even.values()) > 0
    assert slow == {**even, 2: pytest.approx(1.5 * even[2], rel=1e-3)}  # launches take the same time


def ranks_of(slices):
    return sorted({int(process.split()[1]) for process, _ in slices})


def test_perfetto_of_selected_ranks_and_micro_batches(busbar, tmp_path):
    def slices(*args):
        export(busbar, "perfetto", tmp_path / "p.pftrace", *PLAN, *args)
        return read_perfetto((tmp_path / "p.pftrace").read_bytes())
    assert ranks_of(slices()) == [0, 1]  # the first rank of each role: two stages
    assert ranks_of(slices("--export-ranks", "3,1")) == [1, 3]
    complete, first = slices("--export-ranks", "0"), slices("--export-ranks", "0", "--export-micro-batches", "0")
    (compute,) = (track for track in complete if track[1] == "compute")
    assert len(complete[compute]) == 2 * len(first[compute]) and set(first[compute]) < set(complete[compute])


def test_perfetto_file_of_a_large_job_is_small(busbar, tmp_path):
    export(busbar, "perfetto", tmp_path / "p.pftrace", "transformer", "--model", "llama3_70b", "--ranks", "512", "--tp", "8", "--pp", "4",
           "--micro-batches", "16", "--cluster", "h100-sxm-ib")
    size = (tmp_path / "p.pftrace").stat().st_size
    assert 100_000 < size < 5_000_000
