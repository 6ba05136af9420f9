"""plan --export: files of other tools, read back by what their formats say. GOAL is simulated here by LogGP's rules, its binary file is
made a second time from the text, and Chakra's messages are taken apart field by field."""
import collections
import json
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


def export(busbar, form, path, *words):
    done = busbar.run("plan", *words, "--export", form, path)
    assert done.returncode == 0, done.stderr
    return done


# ---- GOAL ----

Op = collections.namedtuple("Op", "kind size peer tag cpu")
STATEMENT = re.compile(r"(\w+): (?:(send|recv) (\d+)b (?:to|from) (\d+) tag (\d+) cpu (\d+) nic 0|calc (\d+) cpu (\d+))$")
EDGE = re.compile(r"(\w+) (requires|irequires) (\w+)$")


def read_goal(text):
    """[(ops, [(after, before, started)])] by rank; every line must be of the grammar, and name what stands above it."""
    lines = iter(text.splitlines())
    count = int(re.fullmatch(r"num_ranks (\d+)", next(lines))[1])
    ranks = []
    for line in lines:
        if line.startswith("//"):
            continue
        assert line == f"rank {len(ranks)} {{"
        ops, edges, at = [], [], {}
        for line in lines:
            if line == "}":
                break
            if statement := STATEMENT.match(line):
                label, kind, size, peer, tag, cpu, ns, calc_cpu = statement.groups()
                at[label] = len(ops)
                ops.append(Op(kind or "calc", int(size or ns), int(peer or 0), int(tag or 0), int(cpu or calc_cpu)))
            else:
                after, how, before = EDGE.match(line).groups()
                edges.append((at[after], at[before], how == "irequires"))
        ranks.append((ops, edges))
    assert len(ranks) == count
    return ranks


def simulate(ranks, latency, gap):
    """When all has ended, by LogGP with o = g = O = 0: a message of s bytes is there latency + (s - 1) gap after its begin; the network
    interface sends one after another, and takes one after another. A calculation holds its cpu. Every operation must run."""
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
    """The binary file, from the fields that Parser.hpp of LogGOPSim names."""
    head, body = b"", b""
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
        head += struct.pack("<QQ", first + len(body), first + len(body) + len(data))
        body += data
    lanes = max(op.cpu for ops, _ in ranks for op in ops)
    return struct.pack("<QIBB", 4223, len(ranks), lanes, 0) + head + body


@pytest.mark.parametrize("words", STEPS, ids=NAMES)
def test_goal_runs_to_its_end(busbar, tmp_path, words):
    export(busbar, "goal", tmp_path / "step.goal", *words)
    text = (tmp_path / "step.goal").read_text()
    assert f"busbar plan {' '.join(words)}" in text
    assert simulate(read_goal(text), 1000, 1) > 0


def test_a_receive_that_is_left_out_is_noticed(busbar, tmp_path):
    export(busbar, "goal", tmp_path / "step.goal", *STEPS[0])
    ranks = read_goal((tmp_path / "step.goal").read_text())
    ops = ranks[1][0]
    lost = next(i for i, op in enumerate(ops) if op.kind == "recv")
    ops[lost] = ops[lost]._replace(tag=7)
    with pytest.raises(AssertionError, match="never ran"):
        simulate(ranks, 1000, 1)


@pytest.mark.parametrize("words", STEPS[:3] + STEPS[5:6], ids=NAMES[:3] + NAMES[5:6])
def test_the_binary_file_is_the_text(busbar, tmp_path, words):
    export(busbar, "goal", tmp_path / "step.goal", *words)
    export(busbar, "goal-bin", tmp_path / "step.bin", *words)
    assert (tmp_path / "step.bin").read_bytes() == pack_goal(read_goal((tmp_path / "step.goal").read_text()))


@pytest.mark.parametrize("ranks", [2, 5, 8])
def test_a_ring_takes_what_its_formula_says(busbar, tmp_path, ranks):
    """resnet50 without compute: all-reduces one after another, each 2 (n - 1) steps of its largest part, none before the last has
    ended; LogGOPSim says the same time of this file."""
    words = ("resnet50", "--ranks", ranks, "--compute", "none")
    export(busbar, "goal", tmp_path / "step.goal", *words)
    plan = json.loads(busbar.run("plan", *words, "--ops", "--json", "-").stdout)
    sizes = [4 * op["count"] for op in plan["roles"][0]["program"] if op["kind"] == "all_reduce"]
    assert len(sizes) == 6
    wanted = sum(2 * (ranks - 1) * (1000 + (-(-size // ranks) - 1) * 1) for size in sizes)
    measured = simulate(read_goal((tmp_path / "step.goal").read_text()), 1000, 1)
    assert measured == wanted if all(size % ranks == 0 for size in sizes) else abs(measured - wanted) <= 12 * ranks * len(sizes)


def test_compute_and_communication_are_on_cpus_of_their_own(busbar, tmp_path):
    export(busbar, "goal", tmp_path / "step.goal", *STEPS[7])
    for ops, _ in read_goal((tmp_path / "step.goal").read_text()):
        assert {op.cpu for op in ops if op.kind == "calc" and op.size} == {0}
        assert 0 not in {op.cpu for op in ops if op.kind != "calc"}


# ---- Chakra ----


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if not data[at - 1] & 0x80:
            return value, at


def fields(data):
    """{number: [values]} of a message: varints as numbers, what has a length as bytes."""
    found, at = collections.defaultdict(list), 0
    while at < len(data):
        key, at = varint(data, at)
        value, at = varint(data, at)
        if key & 7 == 2:
            value, at = data[at:at + value], at + value
        else:
            assert key & 7 == 0
        found[key >> 3].append(value)
    assert at == len(data)
    return found


def messages(data):
    at = 0
    while at < len(data):
        length, at = varint(data, at)
        yield fields(data[at:at + length])
        at += length
    assert at == len(data)


def attributes(message, number):
    return {a[1][0].decode(): next(v[0] for k, v in a.items() if k != 1) for a in map(fields, message[number])}


def read_chakra(prefix, rank):
    """[(id, type, deps, duration_us, attributes)] of a rank's trace."""
    first, *nodes = messages((prefix.parent / f"{prefix.name}.{rank}.et").read_bytes())
    assert first[1] == [b"0.0.4"]
    read = []
    for node in nodes:
        deps, at = [], 0
        for packed in node[5]:
            while at < len(packed):
                dep, at = varint(packed, at)
                deps.append(dep)
        read.append((node[1][0], node[3][0], deps, node[7][0] if node[7] else 0, attributes(node, 10)))
    return read


COMPUTE, SEND, RECV, COLLECTIVE = 4, 5, 6, 7


@pytest.mark.smoke
@pytest.mark.parametrize("words", STEPS, ids=NAMES)
def test_chakra_says_what_the_plan_says(busbar, tmp_path, words):
    export(busbar, "chakra", tmp_path / "step", *words)
    plan = json.loads(busbar.run("plan", *words, "--ops", "--json", "-").stdout)
    groups = json.loads((tmp_path / "step.groups.json").read_text())
    ranks = plan["options"]["ranks"]
    sent, received = collections.Counter(), collections.Counter()
    collectives = collections.defaultdict(list)
    for rank in range(ranks):
        nodes = read_chakra(tmp_path / "step", rank)
        role = next(r for r in plan["roles"] if rank in r["ranks"])
        assert [n[0] for n in nodes] == list(range(len(nodes)))
        assert sum(not n[4]["is_cpu_op"] for n in nodes) == len(role["program"])
        assert any(n[4]["is_cpu_op"] for n in nodes) == ("--cluster" in words)
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


def test_chakra_counts_time_in_microseconds_and_tells_the_rest(busbar, tmp_path):
    export(busbar, "chakra", tmp_path / "step", *STEPS[7])
    for _, kind, _, us, attribute in read_chakra(tmp_path / "step", 3):
        if kind == COMPUTE:
            assert us == (attribute["duration_ns"] + 500) // 1000 and attribute["duration_ns"] > 0


# ---- the host ----

ALONE = ("transformer", "--model", "gpt2_small", "--layers", "4", "--ranks", "1", "--cluster", "h100-sxm-ib", "--micro-batch-size")


@pytest.mark.parametrize("samples,bound", [("1", True), ("16", False)], ids=["host-bound", "long kernels"])
def test_the_host_is_in_the_file_and_not_in_what_the_gpu_computes(busbar, tmp_path, samples, bound):
    """One rank without communication: what GOAL's rules make of the file is the plan's step, but for the launches of the last operation
    behind its first. The GPU is busy for all of it, or is not, where its host cannot keep up."""
    predicted = json.loads(busbar.run("plan", *ALONE, samples, "--json", "-").stdout)["predicted"]
    export(busbar, "goal", tmp_path / "step.goal", *ALONE, samples)
    ranks = read_goal((tmp_path / "step.goal").read_text())
    assert simulate(ranks, 1000, 1) == pytest.approx(1e3 * predicted["step_us"], rel=0.01 if bound else 1e-4)
    computes = sum(op.size for op in ranks[0][0] if op.cpu == 0)
    launches = [op.size for op in ranks[0][0] if op.cpu != 0]
    assert computes < 900 * predicted["step_us"] if bound else computes == pytest.approx(1e3 * predicted["step_us"] - launches[0], abs=1)
    export(busbar, "simai", tmp_path / "step.txt", *ALONE, samples)  # no host: each operation by the longer of the two
    _, forward, rest = read_simai((tmp_path / "step.txt").read_text())
    assert 0.99 < sum(op[0] for op in forward + rest) / (1e3 * predicted["step_us"]) < (1.15 if bound else 1.01)


def test_chakras_host_launches_one_after_another(busbar, tmp_path):
    export(busbar, "chakra", tmp_path / "step", *STEPS[9])
    nodes = {node[0]: node for node in read_chakra(tmp_path / "step", 3)}
    launches = [number for number, *_, attribute in nodes.values() if attribute["is_cpu_op"]]
    assert [nodes[number][2] for number in launches] == [[]] + [[number] for number in launches[:-1]]
    assert abs(sum(nodes[n][3] for n in launches) - sum(nodes[n][4]["duration_ns"] for n in launches) / 1e3) <= 0.5
    for number, _, deps, _, attribute in nodes.values():
        if not attribute["is_cpu_op"]:
            assert sum(dep in launches for dep in deps) == 1, number


# ---- what is slow ----

@pytest.mark.parametrize("words", [STEPS[0][:-2] + ("--ranks", "8", "--compute", "timed", "--cluster", "h100-sxm-ib"), STEPS[9]],
                         ids=["timed", "gemm"])
def test_a_slow_rank_computes_longer_in_the_file(busbar, tmp_path, words):
    def goal(*slow):
        export(busbar, "goal", tmp_path / "step.goal", *words, *slow)
        return [[op.size for op in ops if op.kind == "calc" and op.cpu == 0] for ops, _ in read_goal((tmp_path / "step.goal").read_text())]

    def chakra(*slow):
        export(busbar, "chakra", tmp_path / "step", *words, *slow)
        return [[a["duration_ns"] for _, kind, *_, a in read_chakra(tmp_path / "step", r) if kind == COMPUTE and not a["is_cpu_op"]]
                for r in range(8)]

    for durations in (goal, chakra):
        even, slow = durations(), durations("--slow", "rank=5:1.5")
        assert sum(even[5]) > 0
        for rank in range(8):
            assert slow[rank] == pytest.approx([(1.5 if rank == 5 else 1) * ns for ns in even[rank]], abs=0.5), rank


@pytest.mark.parametrize("form,slow,says", [
    ("goal", "link=node0-nic0:0.5", "the format has no links, so it cannot represent --slow link="),
    ("goal-bin", "rank=1:2,link=node0-nic0:0.5", "the format has no links"),
    ("chakra", "link=node0-nic0:0.5", "the format has no links"),
    ("simai", "rank=0:2", "the file has the times of rank 0 for all ranks, so it cannot represent --slow rank="),
    ("simai", "link=node0-nic0:0.5", "the format has no links")])
def test_what_is_slow_and_a_file_cannot_say_is_refused(busbar, tmp_path, form, slow, says):
    done = busbar.run("plan", *STEPS[9], "--slow", slow, "--export", form, "x", cwd=tmp_path)
    assert done.returncode == 2 and f"--export {form}: {says}" in done.stderr and list(tmp_path.iterdir()) == []


# ---- SimAI ----

SIMAI = [("transformer", "--model", "llama3_8b", "--layers", "8", "--ranks", "32", "--tp", "2", "--pp", "4", "--micro-batches", "4"),
         ("transformer", "--model", "llama3_8b", "--layers", "12", "--ranks", "16", "--tp", "2", "--pp", "2", "--vpp", "3", "--schedule",
          "interleaved", "--sequence-parallel", "--micro-batches", "4"),
         ("transformer", "--model", "mixtral_8x7b", "--layers", "4", "--ranks", "16", "--pp", "2", "--ep", "4", "--micro-batches", "2"),
         ("transformer", "--model", "llama3_8b", "--layers", "2", "--ranks", "8", "--dp-sync", "zero3", "--compute", "gemm", "--cluster", "h100-sxm-ib"),
         ("data_parallel", "--model", "resnet50", "--ranks", "8"), ("gpt2_large", "4", "2", "--ranks", "8"), ("gpt3_moe", "4", "2", "--ranks", "128")]
HEAD = {"tp": "model_parallel_NPU_group:", "ep": "ep:", "pp": "pp:", "vpp": "vpp:", "ga": "ga:", "all": "all_gpus:", "message": "pp_comm:"}
WORDS = {"ALLREDUCE": "all_reduce", "ALLGATHER": "all_gather", "REDUCESCATTER": "reduce_scatter", "ALLTOALL": "alltoall"}


def read_simai(text):
    """The head, and what is run in order, as Workload.cc does: rows forward, then from the last to the first their gradients. Of each
    operation (ns of compute), or (collective, group, bytes)."""
    first, count, *rows = text.splitlines()
    tokens = first.split()
    assert tokens[0] == "HYBRID_TRANSFORMER_FWD_IN_BCKWD" and int(count) == len(rows)
    head = {key: int(tokens[tokens.index(word) + 1]) for key, word in HEAD.items() if word in tokens}
    rows = [row.split() for row in rows]
    assert all(len(row) == 12 and row[1] == "-1" and int(row[11]) == 1 for row in rows)

    def run(row, column, plain):
        if int(row[column]):
            yield (int(row[column]),)
        if row[column + 1] != "NONE":
            word, _, suffix = row[column + 1].partition("_")
            yield (WORDS[word], {"": plain, "EP": "ep", "DP_EP": "edp"}[suffix], int(row[column + 2]))
    forward = [op for row in rows for op in run(row, 2, "tp")]
    return head, forward, [op for row in reversed(rows) for op in [*run(row, 5, "tp"), *run(row, 8, "dp")]]


def planned(busbar, words):
    """The same of rank 0 from the plan: what blocks, the rest in its order, and how large the groups are."""
    plan = json.loads(busbar.run("plan", *words, "--ops", "--json", "-").stdout)
    sizes = {g["name"]: g["size"] for g in plan["groups"]}
    names = {"moe_ep": "ep", "moe_dp": "edp"}
    parts = {True: [], False: []}
    for op in next(r for r in plan["roles"] if 0 in r["ranks"])["program"]:
        forward = op["phase"] == "forward"
        if op["kind"] == "compute":
            parts[forward].append(None if op["kernel_list"] or op["moved_bytes"] else (round(op["compute_us"] * 1000),))
        elif op["kind"] in WORDS.values():
            group = names.get(op["group"], op["group"])
            size = {"float": 4, "bfloat16": 2, "int32": 4}[op["dtype"]] * op["count"] * (1 if op["kind"] == "all_reduce" else sizes[op["group"]])
            if group in ("tp", "ep", "dp", "edp"):
                parts[forward and group in ("tp", "ep")].append((op["kind"], group, size))
            else:
                assert size < 64
    return plan, {names.get(k, k): v for k, v in sizes.items()}, parts


@pytest.mark.parametrize("words", SIMAI, ids=[" ".join(w[:3]) + str(i) for i, w in enumerate(SIMAI)])
def test_simai_runs_what_the_plan_says(busbar, tmp_path, words):
    export(busbar, "simai", tmp_path / "step.txt", *words)
    text = (tmp_path / "step.txt").read_text()
    assert f"busbar plan {' '.join(words)}" in text.splitlines()[0]
    head, forward, rest = read_simai(text)
    plan, sizes, parts = planned(busbar, words)
    assert (head["all"], head["tp"], head["ep"], head["pp"]) == (plan["options"]["ranks"], *(sizes.get(g, 1) for g in ("tp", "ep", "pp")))

    def alike(got, wanted):  # real work has its time from the cluster: any
        return len(got) == len(wanted) and all(len(g) == 1 if w is None else g == w for g, w in zip(got, wanted))

    replicas = [op for op in rest if op[1:2] in (("dp",), ("edp",))]
    assert alike(forward, [op for op in parts[True] if op != (0,)])
    assert collections.Counter(rest) == collections.Counter(parts[False]) or None in parts[False]
    if words[0] != "transformer" or "zero3" not in words:
        assert alike(rest, [op for op in parts[False] if op != (0,)])
    assert not replicas or head["all"] // (head["tp"] * head["pp"]) == sizes["dp"]


@pytest.mark.parametrize("i,wanted", [(0, (1, 4)), (1, (3, 4)), (5, (1, 8)), (6, (1, 8))])
def test_simai_counts_a_pipelines_messages(busbar, tmp_path, i, wanted):
    export(busbar, "simai", tmp_path / "step.txt", *SIMAI[i])
    head, _, _ = read_simai((tmp_path / "step.txt").read_text())
    plan, _, _ = planned(busbar, SIMAI[i])
    size = {op["count"] * {"float": 4, "bfloat16": 2}[op["dtype"]] for r in plan["roles"] for op in r["program"] if op["kind"] == "send"}
    assert (head["vpp"], head["ga"]) == wanted and size == {head["message"]}


@pytest.mark.parametrize("words,says", [
    (("dlrm", "--ranks", "8"), "SimAI has no alltoall of 'world' with 8 ranks"),
    (("cosmoflow", "--ranks", "8"), "SimAI has no send of 'mp' with 4 ranks"),
    (("transformer", "--model", "gpt2_small", "--ranks", "8", "--pp", "2"), "SimAI has no all_reduce of 'embedding' with 2 ranks"),
    (("transformer", "--model", "llama3_8b", "--ranks", "8", "--cp", "2"), "of 'cp' with 2 ranks"),
    (("resnet50_ring", "--ranks", "8"), "SimAI has no send of 'world' with 8 ranks"),
])
def test_what_simai_has_no_words_for_is_refused(busbar, tmp_path, words, says):
    done = busbar.run("plan", *words, "--export", "simai", "x", cwd=tmp_path)
    assert done.returncode == 2 and says in done.stderr and done.stderr.count("\n") == 1 and list(tmp_path.iterdir()) == []


# ---- what is refused ----


@pytest.mark.parametrize("words,says", [
    (("gpt2_large", "4", "2", "--ranks", "8", "--export", "goal"), "--export requires a file name: --export goal FILE; for a file of this name, write ./2"),
    (("gpt2_large", "--ranks", "8", "--export", "goal"), "--export requires a file name: --export goal FILE"),
    (("gpt2_large", "--ranks", "8", "--export", "gaol", "x"), "did you mean 'goal'"),
    (("gpt2_large", "--ranks", "8", "--export", "goal", "no/x"), "cannot write the GOAL text: no/x: No such file or directory"),
    (("gpt2_large", "--ranks", "8", "--export", "chakra", "no/x"), "cannot write the Chakra traces: no/x.0.et: No such file or directory"),
    (("transformer", "--model", "gpt2_small", "--ranks", "8", "--compute", "gemm", "--export", "chakra", "x"), "try: --cluster h100-sxm-ib"),
    (("resnet50", "--ranks", "65536", "--export", "goal", "x"), "sends, receives and calculations, at most 2e+09"),
])
def test_what_cannot_be_is_refused_and_leaves_nothing(busbar, tmp_path, words, says):
    done = busbar.run("plan", *words, cwd=tmp_path)
    assert done.returncode == 2 and says in done.stderr and done.stderr.count("\n") == 1 and done.stdout == ""
    assert list(tmp_path.iterdir()) == []


# ---- Perfetto ----

PLAN = ("gpt2_large", "4", "2", "2", "--ranks", "4", "--compute", "timed", "--cluster", "h100-sxm-ib")


def one(message, number, default=0):
    (value,) = message.get(number, [default])
    return value


def read_perfetto(data):
    """{(process, track): [(begin ns, end ns, name)]}: each sequence has its clock of differences, its names and its track."""
    processes, tracks, states, open_slices, slices = {}, {}, {}, {}, collections.defaultdict(list)
    for packet in map(fields, fields(data)[1]):
        sequence = one(packet, 10)
        if 60 in packet:  # a track, or the process that it belongs to
            track = fields(one(packet, 60))
            if 3 in track:
                processes[one(track, 1)] = one(fields(one(track, 3)), 6).decode()
            else:
                tracks[one(track, 1)] = (processes[one(track, 5)], one(track, 2).decode())
        if one(packet, 13) & 1:
            clocks = [fields(clock) for clock in fields(one(packet, 6))[1]]
            assert [(one(c, 1), one(c, 2), one(c, 3)) for c in clocks] == [(64, 0, 1), (6, 0, 0)]
            defaults = fields(one(packet, 59))
            assert one(defaults, 58) == 64
            states[sequence], open_slices[sequence] = {"ns": 0, "names": {}, "track": one(fields(one(defaults, 11)), 11)}, []
        if 11 in packet:
            assert one(packet, 13) & 2
            state, event = states[sequence], fields(one(packet, 11))
            state["ns"] += one(packet, 8)
            for name in map(fields, fields(one(packet, 12, b"")).get(2, [])):
                state["names"][one(name, 1)] = one(name, 2).decode()
            if one(event, 9) == 1:
                arguments = {one(a, 10).decode(): one(a, 2 if 2 in a else 3) for a in map(fields, event.get(4, []))}
                open_slices[sequence].append((state["ns"], state["names"][one(event, 10)], arguments))
            else:
                assert one(event, 9) == 2
                begin, name, arguments = open_slices[sequence].pop()
                slices[tracks[state["track"]]].append((begin, state["ns"], name, *sorted(arguments.items())))
    assert not any(open_slices.values())
    return slices


@pytest.mark.parametrize("slow", [(), ("--slow", "rank=2:1.5")], ids=["even", "slow"])
def test_perfetto_shows_what_the_trace_shows(busbar, tmp_path, slow):
    done = busbar.run("plan", *PLAN, *slow, "--trace", tmp_path / "t.json", "--export", "perfetto", "--export-ranks", "0-3",
                      tmp_path / "t.pftrace")
    assert done.returncode == 0, done.stderr
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    names = {(e["name"], e["pid"], e["tid"]): e["args"]["name"] for e in events if e["ph"] == "M" and e["name"].endswith("_name")}
    wanted = collections.defaultdict(list)
    for e in events:
        if e["ph"] == "X" and e["cat"] != "transfer":
            track = names["process_name", e["pid"], 0], names["thread_name", e["pid"], e["tid"]]
            name = "step, predicted for h100-sxm-ib" if e["cat"] == "step" else e["name"]
            arguments = e.get("args", {})
            hangs = (("critical", 1),) if arguments.get("critical") else ()
            moved = sum(o["bytes"] for o in arguments.get("operations", [arguments]) if "bytes" in o)
            more = (("bytes", moved), ("wait_ns", round(arguments["wait_us"] * 1000))) if "wait_us" in arguments else ()
            wanted[track].append((round(e["ts"] * 1000), round((e["ts"] + e["dur"]) * 1000), name, *sorted(more + hangs)))
    found = read_perfetto((tmp_path / "t.pftrace").read_bytes())
    assert {t: sorted(s) for t, s in found.items()} == {t: sorted(s) for t, s in wanted.items()}
    assert sum(map(len, found.values())) > 50 and any(("critical", 1) in s for t in found.values() for s in t)


def test_a_slow_rank_computes_longer_in_perfetto(busbar, tmp_path):
    def computes(*slow):
        export(busbar, "perfetto", tmp_path / "p.pftrace", *PLAN, *slow, "--export-ranks", "0-3")
        slices = read_perfetto((tmp_path / "p.pftrace").read_bytes())
        return {rank: sum(end - begin for begin, end, *_ in slices[track]) for track in slices if track[1] == "compute"
                for rank in ranks_of([track])}
    even, slow = computes(), computes("--slow", "rank=2:1.5")
    assert set(even) == {0, 1, 2, 3} and min(even.values()) > 0
    assert slow == {**even, 2: pytest.approx(1.5 * even[2], rel=1e-3)}  # but for its launches


def ranks_of(slices):
    return sorted({int(process.split()[1]) for process, _ in slices})


def test_perfetto_of_a_part(busbar, tmp_path):
    def slices(*words):
        export(busbar, "perfetto", tmp_path / "p.pftrace", *PLAN, *words)
        return read_perfetto((tmp_path / "p.pftrace").read_bytes())
    assert ranks_of(slices()) == [0, 1]  # the first of each role: two stages
    assert ranks_of(slices("--export-ranks", "3,1")) == [1, 3]
    whole, first = slices("--export-ranks", "0"), slices("--export-ranks", "0", "--export-micro-batches", "0")
    (compute,) = (track for track in whole if track[1] == "compute")
    assert len(whole[compute]) == 2 * len(first[compute]) and set(first[compute]) < set(whole[compute])


def test_perfetto_of_a_large_job_is_small(busbar, tmp_path):
    export(busbar, "perfetto", tmp_path / "p.pftrace", "transformer", "--model", "llama3_70b", "--ranks", "512", "--tp", "8", "--pp", "4",
           "--micro-batches", "16", "--cluster", "h100-sxm-ib")
    size = (tmp_path / "p.pftrace").stat().st_size
    assert 100_000 < size < 5_000_000


@pytest.mark.parametrize("words,message", [
    (("--ranks", "4", "--export", "perfetto", "x"), "requires --cluster"),
    (("--ranks", "4", "--export", "goal", "--export-ranks", "0", "x"), "--export-ranks requires --export perfetto"),
    (("--ranks", "4", "--export-micro-batches", "0"), "--export-micro-batches requires --export perfetto"),
    (("--ranks", "4", "--cluster", "h100-sxm-ib", "--export", "perfetto", "--export-ranks", "0,4", "x"), "'4' is not valid, expected ranks from 0 to 3"),
    (("--ranks", "4", "--cluster", "h100-sxm-ib", "--export", "perfetto", "--export-ranks", "3-1", "x"), "'3-1' is not valid"),
    (("--ranks", "4", "--cluster", "h100-sxm-ib", "--export", "perfetto", "--export-micro-batches", "two", "x"), "'two' is not valid, expected micro"),
])
def test_what_perfetto_cannot_show_is_refused(busbar, tmp_path, words, message):
    done = busbar.run("plan", "gpt2_large", "4", "2", "2", *words, cwd=tmp_path)
    assert done.returncode == 2 and message in done.stderr and list(tmp_path.iterdir()) == []
