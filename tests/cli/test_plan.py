"""busbar plan: bytes equal those of the original programs, invalid layouts are rejected, and predicted times equal a reference simulator.

The simulator in this file runs every rank separately. It does not group ranks into roles or equivalence classes."""
import json
import math
import pathlib
import random
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CLUSTERS = ROOT / "profiles" / "clusters"


@pytest.fixture
def plan(busbar, tmp_path):
    """plan(args...) returns the parsed JSON of a plan that must succeed. It runs without mpirun and without emulated GPUs."""

    def run(*args):
        return busbar.json("plan", *args, tmp_path=tmp_path, emulated=False)

    return run


def rejected(busbar, *args):
    done = busbar.run("plan", *args, emulated=False)
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1
    return done.stderr


# ---- message sizes ----------------------------------------------------------------------------------------------------

I_GPT, FIRST_GPT, LAST_GPT, P2P_GPT = 19677440, 85317120, 84008960, 808960
I_BERT, FIRST_BERT, LAST_BERT, P2P_BERT = 12596224, 44379136, 45984572, 1049600
MODELS = {"gpt2_large": (I_GPT, FIRST_GPT, LAST_GPT, P2P_GPT), "bert_large": (I_BERT, FIRST_BERT, LAST_BERT, P2P_BERT)}


def expected_rank(proxy, ranks, layers, stages, micro_batches, rank):
    """Traffic of one rank in the original program: {(kind, group, count): (calls, {offset of the peer: calls})}."""
    inner, first, last, p2p = MODELS[proxy]
    stage, replicas = rank % stages, ranks // stages
    sends, recvs = {}, {}
    if stage < stages - 1:
        sends["+1"] = recvs["+1"] = micro_batches
    if stage > 0:
        sends["-1"] = recvs["-1"] = micro_batches
    rows = {("send", "pp", p2p): (sum(sends.values()), sends), ("recv", "pp", p2p): (sum(recvs.values()), recvs)}
    if replicas > 1:
        counts = [inner] * (layers // stages)
        if stage == 0:
            counts[0] = first
        if stage == stages - 1:
            counts[-1] = last
        for count in set(counts):
            rows["all_reduce", "dp", count] = (counts.count(count), None)
    return rows


@pytest.mark.parametrize("proxy", MODELS)
@pytest.mark.parametrize("ranks,layers,stages,micro_batches", [
    (4, 48, 4, 8), (8, 48, 4, 8), (12, 12, 2, 3), (16, 64, 8, 8), (30, 15, 15, 1), (6, 2, 2, 17), (64, 64, 64, 2)])
def test_traffic_of_every_rank_matches_the_original_program(plan, proxy, ranks, layers, stages, micro_batches):
    doc = plan(proxy, layers, stages, micro_batches, "--ranks", ranks)
    assert doc["schema"] == "busbar.plan/1"
    assert doc["ranks"] == ranks
    assert doc["checks"] == {"matched": True, "deadlock_free": True, "safe_serialised": True}
    seen = []
    for role in doc["roles"]:
        for rank in role["ranks"]:
            seen.append(rank)
            got = {(t["kind"], t["group"], t["count"]): (t["calls"], t["peers"]) for t in role["traffic"]}
            assert got == expected_rank(proxy, ranks, layers, stages, micro_batches, rank)
        for t in role["traffic"]:
            assert t["bytes"] == t["calls"] * t["count"] * 4
            assert t["group_size"] == (stages if t["group"] == "pp" else ranks // stages)
    assert sorted(seen) == list(range(ranks))
    groups = {g["name"]: g["members"] for g in doc["groups"]}
    assert groups["pp"] == [list(range(b, b + stages)) for b in range(0, ranks, stages)]
    assert groups["dp"] == [list(range(s, ranks, stages)) for s in range(stages)]


@pytest.mark.parametrize("args,first,middle,last", [
    (("gpt2_large", 48, 4), 1207075840, 944517120, 1201843200),
    (("gpt2_large", 64, 8), 892236800, 629678080, 887004160),
    (("bert_large", 24, 4), 429441024, 302309376, 435862768),
    (("bert_large",), 429441024, 302309376, 435862768)])
@pytest.mark.parametrize("per_tensor", [False, True])
def test_gradient_bytes_per_rank(plan, args, first, middle, last, per_tensor):
    doc = plan(*args, "--ranks", 16, *(["--per-tensor"] if per_tensor else []))
    totals = {role["name"]: sum(t["bytes"] for t in role["traffic"] if t["kind"] == "all_reduce") for role in doc["roles"]}
    assert totals == {"first stage": first, "middle stage": middle, "last stage": last}


@pytest.mark.parametrize("args,parameters", [
    (("gpt2_large",), "1,074,488,320"), (("gpt2_large", 64, 8), "1,389,327,360"),
    (("gpt2_large", 36, 4), "838,359,040"), (("bert_large", 24, 4), "367,480,636")])
def test_reports_parameter_count(busbar, args, parameters):
    done = busbar.run("plan", *args, "--ranks", 8, emulated=False)
    assert done.returncode == 0
    assert f"{parameters} parameters" in done.stdout


def test_per_tensor_order(plan):
    h, v = 1024, 30522
    weights, rest = [h * h] * 4 + [4 * h * h] * 2, [h] * 6 + [4 * h] + [h] * 3
    first = [v * h, 512 * h, 2 * h] + weights + [h, h] + rest
    last = weights + [h * h, h * h, v * h, 2 * h] + rest + [h, v] + [h] * 3 + [2]
    doc = plan("bert_large", 4, 2, 1, "--ranks", 4, "--per-tensor", "--ops")
    counts = {r["name"]: [o["count"] for o in r["program"] if o["kind"] == "all_reduce"] for r in doc["roles"]}
    assert counts == {"first stage": first + weights + rest, "last stage": weights + rest + last}


def test_bfloat16_halves_the_bytes(plan):
    whole, half = (plan("gpt2_large", "--ranks", 8, "--dtype", t)["roles"] for t in ("float", "bfloat16"))
    for a, b in zip(whole, half):
        assert b["memory_bytes"]["total"] * 2 == a["memory_bytes"]["total"]
        assert [t["bytes"] for t in a["traffic"]] == [2 * t["bytes"] for t in b["traffic"]]


def test_json_contains_the_resolved_options(plan):
    options = plan("gpt2_large", 64, 8, "--ranks", 16)["options"]
    assert (options["layers"], options["stages"], options["micro_batches"], options["ranks"]) == (64, 8, 8, 16)
    assert plan("bert_large", "--ranks", 4)["options"]["layers"] == 24
    assert plan("gpt2_large", "--layers", 6, "--stages", 3, "--micro-batches", 2, "--ranks", 3)["options"]["stages"] == 3


# ---- text output --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("args", [
    ("gpt2_large", "--ranks", 8, "--compute", "timed", "--cluster", "emulated-default"),
    ("bert_large", "--ranks", 98304, "--cluster", "h100-sxm-ib"),
    ("gpt2_large", 4, 2, 1, "--ranks", 2, "--ops", "--compute", "timed")])
def test_text_fits_100_columns(busbar, args):
    done = busbar.run("plan", *args, emulated=False)
    assert done.returncode == 0 and done.stderr == ""
    for line in done.stdout.splitlines():
        assert len(line) < 100, line
        assert line == line.rstrip()


def test_text_and_help_match_golden_files(busbar, golden):
    for name, more in ("plan_gpt2_large.txt", ()), ("plan_gpt2_large_full.txt", ("--full",)):
        golden(name, busbar.run("plan", "gpt2_large", "--ranks", 8, "--compute", "timed", "--cluster", "emulated-default", *more,
                                emulated=False).stdout)
    golden("plan_help.txt", busbar.run("plan", "--help", emulated=False).stdout)


@pytest.mark.parametrize("args,ranks", [(("transformer", "--model", "gpt2_small", "--dp-sync", "zero3"), 4),
                                        (("gpt2_large", 4, 2, 64), 2)], ids=["all_gather", "sendrecv"])
def test_full_plan_prints_how_to_measure_its_largest_row(busbar, tmp_path, args, ranks):
    """bench, with the printed command, calls NCCL with the count of the plan's row; the table has the size per call."""
    text = busbar.run("plan", *args, "--ranks", ranks, "--full", "--json", tmp_path / "p.json", emulated=False).stdout
    on, command = re.search(r"^# size: bytes per call; to measure the \w+ of group \w+, with its (\d+) ranks on equal nodes:\n#   busbar (bench .*)$", text, re.M).groups()
    traffic = [t for role in json.loads((tmp_path / "p.json").read_text())["roles"] for t in role["traffic"]]
    most = max(traffic, key=lambda t: t["bytes"])
    assert int(on) == most["group_size"] and all(t["call_bytes"] * t["calls"] == t["bytes"] for t in traffic)
    done = busbar.run(*command.split(), "-n", 1, "-w", 0, "--placement", "out_of_place", "--json", "-", ranks=int(on), env={"EMU_DATA": "off"})
    (row,) = json.loads(done.stdout)["results"]
    assert (row["count"], row["dtype"], row["bytes"]) == (most["count"], most["dtype"], most["call_bytes"])
    calls = {kind: max(sum(t["calls"] for t in role["traffic"] if (t["kind"], t["group"]) == (kind, most["group"])) for role in json.loads(
        (tmp_path / "p.json").read_text())["roles"]) for kind in {t["kind"] for t in traffic}}  # a message counts once, as in the payload
    short = busbar.run("plan", *args, "--ranks", ranks, emulated=False).stdout
    assert int(re.search(rf"^  {most['group']} +\d+ +\d+ +([\d,]+) ", short, re.M)[1]) == sum(calls[kind] for kind in calls if kind != "recv")
    assert row["collective"] == (most["kind"] if most["kind"] != "send" else "sendrecv")
    assert re.search(r"calls +size +payload", text)


def test_json_on_stdout_suppresses_text(busbar):
    done = busbar.run("plan", "gpt2_large", "--ranks", 4, "--json", "-", emulated=False)
    assert done.returncode == 0
    assert json.loads(done.stdout)["proxy"] == "gpt2_large"


# ---- rejected input -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("change,field", [
    (lambda p: p.pop("intra"), "intra"), (lambda p: p["inter"].update(gbps=0), "gbps"),
    (lambda p: p.update(gpus_per_node=0), "gpus_per_node"), (lambda p: p.update(gpus_per_node=2.5), "gpus_per_node"),
    (lambda p: p.update(launch="2"), "launch"), (lambda p: p.update(launch_us="2"), "launch_us"),
    (lambda p: p["tflops"].update(int8=1), "int8"), (lambda p: p.update(kernel_us=-1), "kernel_us")])
def test_rejects_invalid_cluster_files(busbar, tmp_path, change, field):
    profile = json.loads((CLUSTERS / "emulated-default.json").read_text())
    change(profile)
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps(profile))
    assert field in rejected(busbar, "gpt2_large", "--ranks", 8, "--cluster", path)


def test_cluster_file_without_section_nccl(busbar, tmp_path):
    """The alpha-beta model has no NICs, and its rate between nodes is that of a GPU: one above that within nodes is probably that of a NIC. One
    line names all missing keys."""
    whole = json.loads((CLUSTERS / "emulated-default.json").read_text())
    path = tmp_path / "cluster.json"

    def plan(ranks, **change):
        path.write_text(json.dumps({**whole, **change}))
        done = busbar.run("plan", "all_reduce", "--ranks", ranks, "--sizes", "1G", "--cluster", path, emulated=False)
        assert (done.returncode == 0) == done.stdout.startswith("# busbar")
        return done.stderr

    for gpus, rate, warns in ((4, 20, True), (4, 50, False), (1, 20, False)):
        stderr = plan(64, gpus_per_node=gpus, intra={"latency_us": 4, "gbps": rate}, inter={"latency_us": 5, "gbps": 50})
        assert stderr.startswith(f"busbar: warning: {path}: inter.gbps is 50, above intra.gbps, 20: ") == warns == (stderr != ""), stderr
    wrong = plan(64, gpus_per_node=4, nics_per_node=1)
    assert wrong == (f'busbar: {path}: keys are missing: nccl; to take them from another profile of `busbar list clusters`, for example: '
                     '"base": "h100-sxm-ib"\n')
    whole = {"name": "mine", "intra": {"gbps": 20}, "nccl": []}
    assert re.search(": keys are missing: gpus_per_node, .*, intra.latency_us, inter.latency_us, .*nics_per_node; to take", plan(8))
    whole["base"] = "h100-sxm-ib"
    whole.pop("nccl")
    assert plan(8) == ""


def test_rejects_cluster_files_that_are_not_json(busbar, tmp_path):
    path = tmp_path / "cluster.json"
    for text in ("", "{", "[]", '{"name": "a", "name": "b"}'):
        path.write_text(text)
        assert str(path) in rejected(busbar, "gpt2_large", "--ranks", 8, "--cluster", path)


def test_runs_without_mpi_and_gpu(busbar):
    """The environment contains a launcher's variables, but there is neither a launcher nor a GPU."""
    env = {"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_RANK": "1", "PMIX_RANK": "1", "SLURM_NTASKS": "4",
           "CUDA_VISIBLE_DEVICES": "", "EMU_DEVICES": "0"}
    assert busbar.run("plan", "gpt2_large", "--ranks", 8, env=env, emulated=False).returncode == 0


def test_plans_with_a_stack_of_200_kib(busbar):
    args = busbar.command("plan", "transformer", "--model", "llama3_8b", "--ranks", 8, emulated=False)
    done = busbar.run_program("sh", "-c", 'ulimit -s 200; exec "$0" "$@"', *args)
    assert done.returncode == 0, done.stderr


def test_plans_98304_ranks(busbar, plan):
    """A plan for 98,304 ranks finishes far below the time limit of the test, so that a loaded machine does not make the test flaky."""
    doc = plan("gpt2_large", 96, 96, "--ranks", 98304, "--cluster", "h100-sxm-ib", "--compute", "timed")
    assert sum(len(r["ranks"]) for r in doc["roles"]) == 98304
    assert doc["checks"]["safe_serialised"]


# ---- prediction ---------------------------------------------------------------------------------------------------------


def rounded(x):
    return math.floor(x + 0.5)


def test_omits_groups_without_traffic_from_the_prediction(plan):
    doc = plan("gpt2_large", 4, 2, 1, "--ranks", 2, "--cluster", "h100-sxm-ib")
    assert [(g["name"], g["size"]) for g in doc["groups"]] == [("pp", 2), ("dp", 1)]
    assert [g["name"] for g in doc["predicted"]["groups"]] == ["pp"]


class Simulator:
    """Simulates every rank of a plan with --ops, operation by operation, according to profiles/clusters/README.md."""

    def __init__(self, doc, cluster):
        self.c = cluster
        self.size = {g["name"]: g["size"] for g in doc["groups"]}
        self.position = {(g["name"], r): (i, k) for g in doc["groups"] for i, m in enumerate(g["members"]) for k, r in enumerate(m)}
        self.members = {(g["name"], i): m for g in doc["groups"] for i, m in enumerate(g["members"])}
        self.programs = {r: role["program"] for role in doc["roles"] for r in role["ranks"]}
        self.calls = {r: list(self.cut(p)) for r, p in self.programs.items()}
        self.end, self.arrival, self.begin = {}, {}, {}
        self.issue()
        self.match()

    FACTORS = {  # number of phases of ceil(log2 n) steps each, fraction of the payload that crosses a link
        "all_reduce": (2, lambda n: 2 * (n - 1) / n), "all_gather": (1, lambda n: (n - 1) / n),
        "reduce_scatter": (1, lambda n: (n - 1) / n), "alltoall": (1, lambda n: (n - 1) / n),
        "broadcast": (1, lambda n: 1), "reduce": (1, lambda n: 1)}
    SLICED = {"all_gather", "reduce_scatter", "alltoall"}

    @staticmethod
    def cut(program):
        call = []
        for op in program:
            if call and (op["call"] is None or op["call"] != call[-1]["call"]):
                yield call
                call = []
            call.append(op)
        if call:
            yield call

    def issue(self):
        """Computes the host time before and after each launch."""
        self.host = {}
        for rank, calls in self.calls.items():
            now = 0
            for i, call in enumerate(calls):
                before = now
                if call[0]["kind"] != "compute":
                    now += rounded(self.c["nccl_launch_us"] * 1000)
                elif rounded(call[0]["compute_us"] * 1000):
                    now += rounded(self.c["launch_us"] * 1000)
                self.host[rank, i] = before, now
            self.host[rank] = now

    def peer(self, rank, op):
        instance, index = self.position[op["group"], rank]
        base = index if op["peer"][0] in "+-" else 0
        return self.members[op["group"], instance][(base + int(op["peer"])) % self.size[op["group"]]]

    def match(self):
        sends, recvs = {}, {}
        self.collectives = {}
        for rank, calls in self.calls.items():
            order = {}
            for i, call in enumerate(calls):
                for op in call:
                    if op["kind"] == "send":
                        sends.setdefault((op["comm"], rank, self.peer(rank, op)), []).append((rank, i, op))
                    elif op["kind"] == "recv":
                        recvs.setdefault((op["comm"], self.peer(rank, op), rank), []).append((rank, i, op))
                    elif op["kind"] != "compute":
                        k = order[op["comm"]] = order.get(op["comm"], -1) + 1
                        key = op["comm"], self.position[op["group"], rank][0], k
                        self.collectives.setdefault(key, []).append((rank, i, op))
        assert {k: len(v) for k, v in sends.items()} == {k: len(v) for k, v in recvs.items()}
        self.messages = {}
        for key, operations in sends.items():
            for (s, i, op), (r, j, other) in zip(operations, recvs[key]):
                assert op["count"] == other["count"]
                for side in {(s, i), (r, j)}:
                    self.messages.setdefault(side, []).append((s, i, r, j, op["count"]))
        self.collective_of = {(rank, i): key for key, operations in self.collectives.items() for rank, i, _ in operations}

    def link(self, ranks):
        nodes = {r // self.c["gpus_per_node"] for r in ranks}
        return self.c["intra"] if len(nodes) == 1 else self.c["inter"]

    def load(self, rank, i):
        sides = {"send": 0.0, "recv": 0.0}
        for op in self.calls[rank][i]:
            if self.peer(rank, op) != rank:
                sides[op["kind"]] += op["count"] * 4 / self.link([rank, self.peer(rank, op)])["gbps"]
        return max(sides.values())

    def run(self):
        """Iterates over all ranks until all calls are finished. Each iteration advances each rank as far as possible."""
        self.needs = {r: self.predecessors(calls) for r, calls in self.calls.items()}
        open_calls = {r: list(range(len(calls))) for r, calls in self.calls.items()}
        while any(open_calls.values()):
            before = sum(map(len, open_calls.values())), len(self.arrival)
            for rank, waiting in open_calls.items():
                for i in waiting:
                    if (rank, i) not in self.arrival:
                        self.arrive(rank, i)
                open_calls[rank] = [i for i in waiting if (rank, i) not in self.arrival or not self.finish(rank, i)]
            assert (sum(map(len, open_calls.values())), len(self.arrival)) != before, "deadlock"
        return {r: max([self.host[r]] + [self.end[r, i] for i in range(len(c))]) for r, c in self.calls.items()}

    @staticmethod
    def predecessors(calls):
        """Predecessors of each call: the previous calls on its streams and communicators, and the operations in its `waits`."""
        last, where, needs = {}, {}, []
        for i, call in enumerate(calls):
            keys = {("stream", op["stream"]) for op in call} | {("comm", op["comm"]) for op in call if op["comm"]}
            needs.append({last[k] for k in keys if k in last} | {where[w] for op in call for w in op["waits"]})
            last.update(dict.fromkeys(keys, i))
            where.update((op["index"], i) for op in call)
        return needs

    def arrive(self, rank, i):
        needs = self.needs[rank][i]
        if all((rank, j) in self.end for j in needs):
            ready = max([self.end[rank, j] for j in needs], default=0)
            self.begin[rank, i] = max(ready, self.host[rank, i][0])
            self.arrival[rank, i] = max(ready, self.host[rank, i][1])

    def finish(self, rank, i):
        op = self.calls[rank][i][0]
        if op["kind"] == "compute":
            self.end[rank, i] = self.arrival[rank, i] + rounded(op["compute_us"] * 1000)
        elif op["kind"] in self.FACTORS:
            members = self.collectives[self.collective_of[rank, i]]
            n = self.size[op["group"]]
            if len(members) < n or any((r, j) not in self.arrival for r, j, _ in members):
                return False
            link, payload = self.link([r for r, _, _ in members]), op["count"] * 4 * (n if op["kind"] in self.SLICED else 1)
            rounds, factor = self.FACTORS[op["kind"]]
            duration = rounds * math.ceil(math.log2(n)) * link["latency_us"] * 1000 + factor(n) * payload / link["gbps"]
            if n == 1:
                duration = 2 * payload / self.c["memory_gbps"]
            self.end[rank, i] = max(self.arrival[r, j] for r, j, _ in members) + rounded(duration)
        else:
            if any((s, k) not in self.arrival or (r, j) not in self.arrival for s, k, r, j, _ in self.messages[rank, i]):
                return False
            self.end[rank, i] = max(self.message_end(*m) for m in self.messages[rank, i])
        return True

    def message_end(self, s, k, r, j, count):
        if s == r:
            return self.arrival[s, k] + rounded(2 * count * 4 / self.c["memory_gbps"])
        duration = self.link([s, r])["latency_us"] * 1000 + max(self.load(s, k), self.load(r, j))
        return max(self.arrival[s, k], self.arrival[r, j]) + rounded(duration)

    def breakdown(self, rank, length):
        """Computes compute, communication, exposed and idle time with a sweep over all start and end times."""
        spans = {True: [], False: []}
        for i, call in enumerate(self.calls[rank]):
            spans[call[0]["kind"] == "compute"].append((self.begin[rank, i], self.end[rank, i]))
        points = sorted({0, length} | {t for both in spans.values() for span in both for t in span})
        sums = {}
        for a, b in zip(points, points[1:]):
            state = tuple(any(s <= a and b <= e for s, e in spans[kind]) for kind in (True, False))
            sums[state] = sums.get(state, 0) + b - a
        compute, comm, both, none = sums.get((1, 0), 0), sums.get((0, 1), 0), sums.get((1, 1), 0), sums.get((0, 0), 0)
        return {"compute_us": compute + both, "comm_us": comm + both, "exposed_us": comm, "idle_us": none}

    def group_busy(self, rank, group):
        """Length of the union of the group's intervals."""
        spans = [(self.begin[rank, i], self.end[rank, i]) for i, call in enumerate(self.calls[rank]) if call[0]["group"] == group]
        points = sorted({t for span in spans for t in span})
        return sum(b - a for a, b in zip(points, points[1:]) if any(s <= a and b <= e for s, e in spans))


def random_layouts():
    rng = random.Random(5)
    for _ in range(12):
        stages, replicas, per_stage = rng.randint(2, 5), rng.randint(1, 4), rng.randint(1, 3)
        args = [rng.choice(list(MODELS)), stages * per_stage, stages, rng.randint(1, 5), "--ranks", stages * replicas]
        if rng.random() < 0.7:
            args += ["--compute", "timed", "--forward-us", rng.choice([0.5, 7.3, 120, 2000])]
        if rng.random() < 0.3:
            args += ["--per-tensor"]
        yield tuple(args), rng.choice([1, 2, 3, 8]), rng.choice([0, 2.5])


def other_proxies():
    """Each proxy with its minimum number of ranks and with several replicas."""
    for args in [("resnet50", "--ranks", 1), ("resnet50", "--ranks", 6), ("resnet50_ring", "--ranks", 7),
                 ("resnet50_ring", "--ranks", 1), ("resnet152", "--ranks", 5), ("cosmoflow", "--ranks", 4),
                 ("cosmoflow", "--ranks", 12), ("dlrm", "--ranks", 4), ("dlrm", "--ranks", 3),
                 ("gpt3", 2, 2, "--ranks", 8), ("gpt3", 3, 1, "--ranks", 24), ("gpt3_one_pipe_step", 4, "--ranks", 16),
                 ("gpt3_moe", 2, 1, "--ranks", 32), ("gpt3_moe", 2, 1, "--ranks", 64),
                 ("gpt3_moe_one_pipe_step", 2, "--ranks", 32)]:
        yield args, 3, 2.5
        yield args, 8, 0


@pytest.mark.parametrize("args,gpus_per_node,launch_us", [*random_layouts(), *other_proxies()])
def test_prediction_matches_reference_simulator(plan, tmp_path, args, gpus_per_node, launch_us):
    profile = json.loads((CLUSTERS / "emulated-default.json").read_text())
    profile.update(gpus_per_node=gpus_per_node, launch_us=launch_us)
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps(profile))
    doc = plan(*args, "--ops", "--cluster", path)
    simulator = Simulator(doc, profile)
    times = simulator.run()
    predicted = doc["predicted"]
    assert predicted["step_us"] == pytest.approx(max(times.values()) / 1000, abs=1e-6)
    for role, breakdown in zip(doc["roles"], predicted["breakdown_by_role"]):
        assert breakdown["step_us"] == pytest.approx(times[breakdown["rank"]] / 1000, abs=1e-6)
        assert breakdown["rank"] in role["ranks"] and times[breakdown["rank"]] >= 0.99 * max(times[r] for r in role["ranks"])
        expected = simulator.breakdown(breakdown["rank"], times[breakdown["rank"]])
        for key, ns in expected.items():
            assert breakdown[key] == pytest.approx(ns / 1000, abs=1e-6), key
        for group in breakdown["groups"]:
            busy = simulator.group_busy(breakdown["rank"], group["name"])
            assert group["busy_us"] == pytest.approx(busy / 1000, abs=1e-6)
            payload = {kind: sum(t["bytes"] for t in role["traffic"] if (t["group"], t["kind"] if t["kind"] in ("send", "recv") else "all") ==
                                 (group["name"], kind)) for kind in ("send", "recv", "all")}
            assert group["bytes"] == payload["all"] + max(payload["send"], payload["recv"])


@pytest.mark.parametrize("args", [
    ("gpt2_large", 8, 4, 3), ("gpt2_large", 8, 2, 4, "--compute", "timed", "--forward-us", 40),
    ("bert_large", 4, 2, 2, "--compute", "timed", "--per-tensor")])
def test_emulated_run_takes_the_predicted_time(busbar, plan, tmp_path, args):
    cluster = CLUSTERS / "emulated-default.json"
    predicted = plan(*args, "--ranks", 4, "--cluster", cluster)["predicted"]
    measured = busbar.json("proxy", *args, "-w", 1, "-n", 2, "--traced-steps", 1, ranks=4, tmp_path=tmp_path,
                           env={"EMU_CLUSTER": str(cluster), "EMU_DATA": "off"})
    assert measured["step_us"]["p50"] == pytest.approx(predicted["step_us"], abs=0.01)
    for key in ("compute_us", "comm_us", "exposed_us", "idle_us"):
        assert measured["breakdown"][key] == pytest.approx(predicted["breakdown"][key], abs=0.05)


def collective_us(busbar, collective, ranks, size, *args):
    done = busbar.run("plan", collective, "--ranks", ranks, "-b", size, "-e", size, "--placement", "out_of_place", *args, "--json", "-", emulated=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["results"][0]["time_us"]["p50"]


@pytest.mark.parametrize("collective, slow, slices", [
    ("alltoall", "link=node0-node2:0.5", 24), ("alltoall", "link=node0-node2:0.25", 32), ("alltoall", "link=node0-to-node2:0.1", 80),
    ("alltoall", "link=node0-node2:0.1,link=node0-node1:0.2", 120), ("gather", "link=node0-node2:0.1", 80), ("gather", "link=node0-to-node2:0.1", 24),
    ("scatter", "link=node0-to-node2:0.1", 80), ("scatter", "link=node1-node2:0.01", 24)])
def test_slow_path_lengthens_the_sends_over_it(busbar, collective, slow, slices):
    """32 ranks on 4 nodes: each GPU (gather, scatter: that of the root 0) exchanges slices with 24 GPUs of other nodes, 8 of them over a path."""
    nic = json.loads((CLUSTERS / "h100-sxm-ib.json").read_text())["inter"]["gbps"] * 1e3
    args = (busbar, collective, 32, "1G", "--cluster", "h100-sxm-ib")
    assert collective_us(*args, "--slow", slow) - collective_us(*args) == pytest.approx((slices - 24) * 2**30 / 32 / nic, abs=0.01)


@pytest.mark.parametrize("path, halves", [("0-4", 1), ("2-4", 1), ("4-6", 1), ("3-7", 1), ("0-1", 1), ("1-2", 2), ("3-4", 0), ("0-7", 0)])
def test_slow_path_lengthens_the_trees_that_use_it(busbar, path, halves):
    """ncclGetDtree (src/graph/trees.cc) on 8 nodes: 0-4 4-2 4-6 2-1 2-3 6-5 6-7, and mirrored 7-3 3-5 3-1 5-6 5-4 1-2 1-0. Each tree sends
    half of the data over an edge, and at most four halves through the NICs of a node."""
    profile = json.loads((CLUSTERS / "h200-sxm-ib.json").read_text())
    tree = next(v for v in profile["nccl"] if (v["algorithm"], v["protocol"]) == ("tree", "Simple"))
    half = 2**26 / 2 / (8 * profile["inter"]["gbps"] * 1e3 * tree["nic"])
    args = (busbar, "all_reduce", 64, "64M", "--cluster", "h200-sxm-ib")
    slow = collective_us(*args, "--slow", "link=node{}-node{}:0.1".format(*path.split("-")))
    links = 2 * 2**26 / tree["gbps"] / 1e3  # within a node
    assert slow - collective_us(*args) == pytest.approx(max(0, 10 * halves * half - max(links, 4 * half)), rel=1e-4, abs=0.01)


@pytest.mark.parametrize("path, times", [("0-to-1", 2), ("1-to-0", 1), ("0-1", 2), ("3-to-0", 2), ("0-to-3", 1), ("0-2", 1)])
def test_slow_path_lengthens_a_ring_in_its_direction(busbar, path, times):
    """NCCL's rings send from each node to the next one (connectRings in src/graph/connect.cc)."""
    args = (busbar, "all_reduce", 4, "1G", "--cluster", "h100-sxm-ib", "--gpus-per-node", 1)
    slow = collective_us(*args, "--slow", f"link=node{path.replace('-to-', '-to-node') if 'to' in path else path.replace('-', '-node')}:0.5")
    assert slow == pytest.approx(times * collective_us(*args), rel=0.01)


@pytest.mark.parametrize("collective, root, gpus, path, times", [
    ("broadcast", 0, 1, "3-to-node0", 1), ("broadcast", 0, 1, "0-to-node1", 2), ("broadcast", 2, 1, "1-to-node2", 1), ("broadcast", 2, 1, "3-to-node0", 2),
    ("reduce", 0, 1, "0-to-node1", 1), ("reduce", 0, 1, "3-to-node0", 2), ("reduce", 3, 1, "3-to-node0", 1), ("broadcast", 0, 2, "3-to-node0", 2)])
def test_slow_path_that_would_close_a_ring_does_not_lengthen_a_chain(busbar, collective, root, gpus, path, times):
    """NCCL's broadcast ends on the rank before the root, and its reduce begins on the rank after it. The ring of a second GPU enters the root's node."""
    args = (busbar, collective, 4 * gpus, "1G", "--cluster", "h100-sxm-ib", "--gpus-per-node", gpus, "--root", root * gpus)
    assert collective_us(*args, "--slow", f"link=node{path}:0.5") == pytest.approx(times * collective_us(*args), rel=0.01)


@pytest.mark.parametrize("collective, size", [("alltoall", "64M"), ("gather", "64M"), ("all_reduce", "4M")])
def test_slow_path_has_the_same_effect_on_emulated_gpus(busbar, tmp_path, collective, size):
    args = ("-b", size, "-e", size, "-n", 1, "-w", 0, "--placement", "out_of_place")
    cluster = ("--cluster", "h100-sxm-ib", "--gpus-per-node", 2)
    for slow in ("link=node0-node2:0.05", "link=node0-node2:0.05,link=node0-nic0:0.5"):
        measured = busbar.json("bench", collective, *args, "-c", 0, ranks=8, tmp_path=tmp_path, env={
            "EMU_CLUSTER": "h100-sxm-ib", "EMU_NODES": "4", "EMU_DATA": "off", "EMU_SLOW": slow})["results"][0]["time_us"]["p50"]
        assert measured == pytest.approx(collective_us(busbar, collective, 8, size, *cluster, "--slow", slow), rel=1e-3)
        assert measured > 1.5 * collective_us(busbar, collective, 8, size, *cluster)


def test_slow_path_delays_experts(busbar):
    """With equal numbers of tokens per expert the ranks call alltoall."""
    args = "plan transformer --model qwen3_30b_a3b --layers 4 --ranks 32 --ep 32 --capacity-factor 1 --cluster h200-sxm-ib --json -".split()
    step, slow = (json.loads(busbar.run(*args, *more, emulated=False).stdout)["predicted"]["step_us"] for more in ((), ("--slow", "link=node0-node2:0.1")))
    assert slow > 1.5 * step


def test_phases_without_work_have_no_bottleneck(busbar):
    """One replica reduces no gradients."""
    args = ("plan", "transformer", "--model", "gpt2_small", "--tp", 2, "--cluster", "h100-sxm-ib", "--global-batch-size", 64)
    one, two = (busbar.run(*args, "--ranks", ranks, emulated=False).stdout for ranks in (2, 4))
    assert "  bottleneck    forward: " in one and "gradients:" not in one and "gradients:" in two


@pytest.mark.parametrize("args", [("data_parallel", "--model", "resnet50", "--ranks", 1), ("transformer", "--model", "gpt2_small", "--ranks", 1),
                                  ("data_parallel", "--model", "resnet50", "--ranks", 2, "--micro-batch-size", 512), ("dlrm", "--ranks", 1)])
def test_answer_has_no_line_about_communication_that_is_not_there(busbar, args):
    """On one rank, dlrm copies its own block, which counts as communication."""
    text = busbar.run("plan", *args, "--cluster", "h100-sxm-ib", emulated=False).stdout
    values = dict(re.findall("^  (\\S+)  +(.*)$", text, re.M))
    communicates = args[-1] == 512 or args[0] == "dlrm"
    assert communicates == ("hidden" in values) == (" + exposed " in values["step"]) and not re.search("(^|: )(;|0 [mu]?s)", values.get("hidden", "")), text


@pytest.mark.parametrize("factor, longest", [(1, 3), (2.2, 3), (5, 1)])
def test_answer_names_the_rank_that_computes_longest(busbar, factor, longest):
    """The last of four stages of gpt2_small has 3 layers of 7.08 M parameters and the vocabulary head of 38.6 M: 2.8 times the parameters of
    the other stages. Attention, which is not counted in them, makes the ratio somewhat smaller."""
    args = ("plan", "transformer", "--model", "gpt2_small", "--ranks", "4", "--cluster", "emulated-default", "--compute", "timed")
    text = busbar.run(*args, "--pp", "4", "--micro-batches", "8", "--slow", f"rank=1:{factor}", emulated=False).stdout
    lines = {line[2:14].strip(): line[16:] for line in text.splitlines()}
    if f"; rank {longest} " in lines["step"]:
        assert "most compute" not in lines
    else:
        assert lines["most compute"].startswith(f"rank {longest} (last stage) computes ")
        ratio = float(lines["most compute"].split(" x ")[0].split()[-1])
        assert 2.2 < ratio < (38.6 + 3 * 7.08) / (3 * 7.08)
    assert "most compute" not in busbar.run(*args, emulated=False).stdout


def test_rank_that_computes_as_long_is_not_named(busbar):
    """The slow NIC changes which rank ends last, and the times of kernels by 0.3 %."""
    args = "--model llama3_8b --ranks 16 --tp 2 --pp 2 --cluster h100-sxm-ib --global-batch-size 64 --slow link=node0-nic0:0.2"
    text = busbar.run("plan", "transformer", *args.split(), emulated=False).stdout
    assert "# injected: node 0's NIC 0 (x0.2) costs " in text and "most compute" not in text


@pytest.mark.parametrize("first", [None, 5])
def test_step_line_names_the_rank_that_ends_last(busbar, tmp_path, first):
    """The parts of the step line are those of the busiest rank, which may end shortly before another one."""
    stages = ("--decoder-first-pipeline-num-layers", first, "--decoder-last-pipeline-num-layers", first) if first else ()
    done = busbar.run("plan", "transformer", "--model", "gpt3_1_3b", "--ranks", 4, "--pp", 4, "--micro-batches", 8, *stages, "--cluster",
                      "h100-sxm-ib", "--json", tmp_path / "p.json", emulated=False)
    predicted = json.loads((tmp_path / "p.json").read_text())["predicted"]
    shown, last = predicted["breakdown"]["rank"], predicted["critical_path"]["rank"]
    rest = (predicted["step_us"] - predicted["breakdown"]["step_us"]) / 1e3
    assert predicted["step_us"] == max(role["step_us"] for role in predicted["breakdown_by_role"]) and shown != last
    assert f" + {rest:.3f} ms by which rank {last} ends later; rank {shown} (" in done.stdout and " + idle " not in done.stdout, done.stdout
    assert ") has this compute and exposed time: of the ranks that end within 1% of the last, it computes and transfers longest\n" in done.stdout and "ends last" not in done.stdout


def test_bubble_is_no_exposed_transfer_of_a_group(busbar):
    """The first stage waits for the last one in the all-reduce of the tied embedding: part of the bubble, not of the group's transfer."""
    args = "transformer --model gpt2_xl --ranks 8 --pp 8 --micro-batches 8 --cluster h100-sxm-ib"
    text = busbar.run("plan", *args.split(), emulated=False).stdout
    whole, group = (float(re.search(pattern, text)[1]) for pattern in (r"exposed +([\d.]+) ms transfer", r"most exposed transfer in group \w+: ([\d.]+) ms"))
    assert 0 < group <= whole and " pipeline bubble" in text, text


def test_each_transport_describes_all_algorithms_between_nodes():
    """plan removes variants that a transport does not describe."""
    files = {path.stem: json.loads(path.read_text()) for path in (ROOT / "profiles/transports").glob("*.json")}
    variants = {name: {(v["algorithm"], v["protocol"]) for v in file["nccl"]} for name, file in files.items() if "nccl" in file}
    base = {(v["algorithm"], v["protocol"]) for v in json.loads((ROOT / "profiles/clusters/h100-sxm-ib.json").read_text())["nccl"]}
    assert set(files) - set(variants) == {"sharp"} and all(found == base - {("nvls", "Simple")} for found in variants.values())


def test_transport_without_its_values(busbar, tmp_path):
    """CollNet requires SHARP. A transport without base is only a name, unless busbar calibrate wrote the profile."""
    def variants(*args):
        done = busbar.run("plan", "all_reduce", "--ranks", "64", "--sizes", "256M", *args, "--json", "-", emulated=False)
        return json.loads(done.stdout)["results"][0]["algorithm"], done.stderr

    sharp = json.loads((ROOT / "profiles/clusters/h100-sxm-sharp.json").read_text())
    assert any(v["algorithm"].startswith("collnet") for v in sharp["nccl"])
    for transport in ("roce", "efa-v1"):
        name, stderr = variants("--cluster", "h100-sxm-sharp", "--set", f"transport={transport}")
        assert (name, stderr) == variants("--cluster", "h100-sxm-ib", "--set", f"transport={transport}") and (stderr == "") == (transport == "roce")
    mine = {**json.loads((ROOT / "profiles/clusters/h100-sxm-ib.json").read_text()), "transport": "efa-v2"}
    left_out = {f"{kind}_{key}": 1 for kind in ("size", "collective") for key in ("rows", "median_percent", "p90_percent")}
    for more, warns in (({}, True), ({"transport": "infiniband"}, False), ({"base": "aws-p5", "inter": {"latency_us": 150}, "nccl": []}, False), ({"transport": "Slingshot"}, False), ({"left_out": left_out}, False)):
        (tmp_path / "mine.json").write_text(json.dumps({**mine, **more}))
        _, stderr = variants("--cluster", tmp_path / "mine.json")
        assert (stderr == f"busbar: warning: {tmp_path}/mine.json: \"transport\": \"efa-v2\" only names the transport, none of its values are used "
                "without the key 'base'; try: --set transport=efa-v2\n") == warns == (stderr != ""), stderr
    assert variants("--cluster", tmp_path / "mine.json", "--set", "transport=roce")[1] == ""


@pytest.mark.parametrize("args, text", [
    # 8 ports of 100 Gb/s in place of 8 of 400 Gb/s
    (("transport=efa-v2",), "8 NICs, now of 10.4 GB/s each, together 83.2 GB/s (was: 388 GB/s); shipped with it: aws-p5 (32 NICs per node); "),
    (("transport=efa-v1-2021",), "8 NICs, now of 12.1 GB/s each, together 96.8 GB/s (was: 388 GB/s); for another number: --set nics_per_node=N"),
    (("transport=efa-v3",), "shipped with it: aws-p5en (16 NICs per node); "),
    (("transport=efa-v2", "nics_per_node=32"), None), (("transport=roce",), None), (("transport=efa-v2", "inter.gbps=48.5"), None)])
def test_slower_ports_of_another_transport_are_a_warning(busbar, args, text):
    done = busbar.run("plan", "all_reduce", "--ranks", 64, "--cluster", "h100-sxm-ib", *(word for change in args for word in ("--set", change)), emulated=False)
    assert done.returncode == 0 and (text in done.stderr if text else done.stderr == ""), done.stderr


def test_sustained_rate_is_a_lower_bound_without_latency(busbar):
    """gcp-a3-high: 15/16 of 1 GiB at 0.516 of four ports; 16 MiB takes longer by its latency, 660 us and less than 100 us within the nodes."""
    def us(size, *args):
        done = busbar.run("plan", "all_gather", "--ranks", "16", "--sizes", size, "--placement", "out_of_place", *args, "--json", "-", emulated=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["results"][0]["time_us"]["p50"]

    ports = 4 * 24.3e3
    assert us("1G", "--cluster", "gcp-a3-high") == pytest.approx(15 / 16 * 2**30 / (0.516 * ports), rel=1e-5)
    assert 660 < us("16M", "--cluster", "gcp-a3-high") - 15 / 16 * 2**24 / ports < 760
    roce = ("--set", "transport=roce")  # which has no sustained rate
    assert us("1G", "--cluster", "gcp-a3-high", *roce) == us("1G", "--cluster", "gcp-a3-ultra", "--set", "nics_per_node=4")
    done = busbar.run("plan", "all_gather", "--ranks", "16", "--cluster", "gcp-a3-high", "--set", "nccl.ring.Simple.sustained=1.5", emulated=False)
    assert done.returncode == 2 and "sustained" in done.stderr


def test_profile_with_base_has_the_values_of_its_base_and_transport(busbar, tmp_path):
    """aws-p5: its own number of NICs, the latencies of EFA v2, the GPUs of h100-sxm-ib. A variant that the base lacks is not added."""
    base, transport, own = (json.loads((ROOT / f"profiles/{name}.json").read_text())
                            for name in ("clusters/h100-sxm-ib", "transports/efa-v2", "clusters/aws-p5"))
    ring = {kind: next(v for v in file["nccl"] if (v["algorithm"], v["protocol"]) == ("ring", "LL"))
            for kind, file in (("base", base), ("transport", transport))}

    def plan(cluster, *args):
        done = busbar.run("plan", *args, "--cluster", cluster, "--placement", "out_of_place", "--json", "-", emulated=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["results"][0]["time_us"]["p50"]
    latency = ring["base"]["base_us"] + 14 * ring["base"]["intra_us"] + ring["transport"]["inter_us"]
    nics = own["nics_per_node"] * transport["inter"]["gbps"] * ring["transport"]["nic"] * 1e3
    transfer = 16 * max(1 / ring["base"]["gbps"] / 1e3, 1 / nics) * ring["base"]["channels"]  # 16 bytes by one channel
    assert plan("aws-p5", "broadcast", "--ranks", "16", "-b", "16", "-e", "16") == pytest.approx(latency + transfer, abs=0.01)
    assert plan("h100-sxm-ib", "all_reduce", "--ranks", "8", "-b", "1M", "-e", "1M") == plan("aws-p5", "all_reduce", "--ranks", "8", "-b", "1M", "-e", "1M")
    changed = ("all_gather", "--ranks", "16", "-b", "1K", "-e", "1K")
    assert plan("h100-sxm-ib", *changed, "--set", "transport=efa-v2", "--set", "nics_per_node=32") == plan("aws-p5", *changed)
    for name, has in (("h100-sxm-ib", "infiniband"), ("aws-p5", None), ("h100-sxm-sharp", "sharp")):  # infiniband and sharp are only those of profiles which have them
        done = busbar.run("plan", "broadcast", "--ranks", "16", "--cluster", name, "--set", "transport=rooce", emulated=False)
        assert done.returncode == 2 and done.stderr.startswith("busbar: unknown transport 'rooce', did you mean 'roce'?")
        assert {word for word in ("infiniband", "sharp") if word in done.stderr} == {has} - {None}
    names = {path.stem for path in (ROOT / "profiles/transports").glob("*.json")} - {"sharp"}  # accepted by every profile with NCCL's variants
    listed = re.search(r"--set transport=NAME, of (.*?) +--", " ".join(busbar.run("plan", "--help", emulated=False).stdout.split()))[1]
    assert set(listed.split()) == names
    for name, accepted in (("h100-sxm-ib", True), ("gb200-nvl72", True), ("aws-p5", False)):  # infiniband: the values of the base, no file
        (tmp_path / "mine.json").write_text(json.dumps({"name": "mine", "base": name, "transport": "infiniband"}))
        for args in ((tmp_path / "mine.json",), (name, "--set", "transport=infiniband")):
            done = busbar.run("plan", "broadcast", "--ranks", "16", "--cluster", *args, emulated=False)
            assert (done.returncode == 0) == accepted and ("try: --cluster h100-sxm-ib" in done.stderr) != accepted, done.stderr
        if accepted:
            assert plan(tmp_path / "mine.json", *changed) == plan(name, *changed)
    (tmp_path / "mine.json").write_text(json.dumps({**own, "base": str(tmp_path / "mine.json")}))
    done = busbar.run("plan", "broadcast", "--ranks", "16", "--cluster", tmp_path / "mine.json", emulated=False)
    assert done.returncode == 2 and "unknown cluster '" in done.stderr
    variants = [{**ring["base"], "protocol": f"P{i}"} for i in range(20000)]
    (tmp_path / "mine.json").write_text(json.dumps({"name": "mine", "base": "h100-sxm-ib", "nccl": variants}))
    done = busbar.run("plan", "broadcast", "--ranks", "16", "--cluster", tmp_path / "mine.json", emulated=False, timeout=20)
    assert done.returncode == 2 and "elements, expected 1 to " in done.stderr
    assert plan("h100-sxm-sharp", *changed, "--set", "transport=sharp") == plan("h100-sxm-sharp", *changed)
    pcie = busbar.run("plan", "all_reduce", "--ranks", "16", "--cluster", "l40s-pcie-ib", "--set", "transport=roce", emulated=False)
    assert pcie.returncode == 0 and "NVLS" not in pcie.stdout


def path_as_json(changes):
    """The profile that has the changes of --set as its keys."""
    profile = {}
    for change in changes:
        path, value = change.split("=")
        *sections, key = path.split(".")
        at = profile
        if sections[:1] == ["nccl"]:
            at = profile.setdefault("nccl", [{"algorithm": sections[1], "protocol": sections[2]}])[0]
        else:
            for section in sections:
                at = at.setdefault(section, {})
        at[key] = json.loads(value) if value[0].isdigit() else value
    return profile


@pytest.mark.parametrize("changes", [
    ("intra.gbps=120",), ("intra.latency_us=109",), ("intra.latency_us=3",), ("inter.latency_us=116",), ("inter.latency_us=8",), ("inter.gbps=24",),
    ("gpus_per_node=4",), ("gpus_per_node=4", "nics_per_node=8"), ("nics_per_node=4",), ("memory_gbps=2400",), ("tflops.bfloat16=900",), ("kernel_us=9",),
    ("transport=efa-v2",), ("transport=efa-v2", "inter.latency_us=140"), ("transport=roce", "nics_per_node=4"), ("inter.latency_us=140", "transport=efa-v2"),
    ("intra.gbps=165", "nccl.ring.Simple.gbps=370"), ("intra.gbps=165", "nccl.ring.Simple.base_us=9", "nccl.ring.Simple.gbps=200"), ("intra.latency_us=20", "nccl.nvls.Simple.intra_us=6"),
    ("fabric.nodes_per_leaf=2", "fabric.leaf_oversubscription=4")])
def test_profile_with_base_and_set_change_the_same_values(busbar, tmp_path, changes):
    """The same changes of h100-sxm-ib. Whatever the profile has itself is kept, also a value that the base has."""
    (tmp_path / "mine.json").write_text(json.dumps({"name": "mine", "base": "h100-sxm-ib", **path_as_json(changes)}))
    words = [word for change in changes for word in ("--set", change)]
    collectives = ("all_reduce", "all_gather", "alltoall", "broadcast", "sendrecv", "--sizes", "1K,8M,1G", "--ranks")
    different = False
    for args in ((*collectives, 32), (*collectives, 8), ("transformer", "--model", "gpt3_350m", "--ranks", 16, "--tp", 2, "--micro-batches", 2)):
        done = [busbar.run("plan", *args, "--cluster", *cluster, "--json", "-", emulated=False)
                for cluster in ((tmp_path / "mine.json",), ("h100-sxm-ib", *words), ("h100-sxm-ib",))]
        of_file, of_set, of_base = ([json.loads(d.stdout).get("results"), json.loads(d.stdout)["predicted"].get("step_us")] for d in done)
        assert of_file == of_set
        different |= of_set != of_base
        warnings = ["NICs, now of" in d.stderr for d in done[:2]]
        assert warnings[0] == warnings[1] and all(d.stderr.count("\n") == (warns or "nccl.ring.Simple.gbps=370" in changes) for d, warns in zip(done, warnings))
    assert different


@pytest.mark.parametrize("variant", [{"algorithm": "ring", "protocol": "LL12", "base_us": 9}, {"algorithm": "rings", "protocol": "LL"}, 5])
def test_changes_of_a_variant_that_the_profile_does_not_have_are_refused(busbar, tmp_path, variant):
    """Such an element has no effect."""
    text, mine = json.dumps(variant, separators=(",", ":")), tmp_path / "mine.json"
    mine.write_text(json.dumps({"name": "mine", "base": "h100-sxm-ib", "nccl": [variant]}))
    for where, cluster in ((f"{mine}", (mine,)), ("--set: h100-sxm-ib", ("h100-sxm-ib", "--set", f"nccl=[{text}]"))):
        done = busbar.run("plan", "all_reduce", "--ranks", 8, "--cluster", *cluster, emulated=False)
        assert done.returncode == 2 and done.stderr.startswith(f"busbar: {where}: 'nccl' has the element {text}, but the profile has no variant with this")
    known = "nccl=" + json.dumps([{"algorithm": "ring", "protocol": "LL", "base_us": 9}])
    assert "# Avg" in busbar.run("plan", "all_reduce", "--ranks", 8, "--cluster", "h100-sxm-ib", "--set", known, emulated=False).stdout


def test_slower_ports_of_the_transport_of_a_profile_with_base_are_a_warning(busbar, tmp_path):
    def stderr(**keys):
        (tmp_path / "mine.json").write_text(json.dumps({"name": "mine", "base": "h100-sxm-ib", **keys}))
        return busbar.run("plan", "all_reduce", "--ranks", 64, "--cluster", tmp_path / "mine.json", "--json", tmp_path / "out.json", emulated=False).stderr

    assert stderr(transport="efa-v2") == (f"busbar: warning: {tmp_path}/mine.json: \"transport\": \"efa-v2\": a node still has 8 NICs, now of 10.4 GB/s each, together "
                                          '83.2 GB/s (was: 388 GB/s); shipped with it: aws-p5 (32 NICs per node); for another number: "nics_per_node": N\n')
    assert stderr(transport="efa-v2", nics_per_node=32) == stderr(transport="efa-v2", inter={"gbps": 48.5}) == stderr(transport="roce") == ""


def test_longer_latency_of_a_link_delays_each_step(busbar):
    """100 us more per hop: an all_reduce of two ranks goes there and back. The wire's part of a shorter latency is unknown, so it is a factor."""
    def us(*args, size=64):
        done = busbar.run("plan", *args, "--sizes", size, "--placement", "out_of_place", "--cluster", "h100-sxm-ib", "--json", "-", emulated=False)
        return [row["time_us"]["p50"] for row in json.loads(done.stdout)["results"]]

    two = ("all_reduce", "all_gather", "broadcast", "alltoall", "--ranks", 2, "--gpus-per-node", 1)
    added = [after - before for before, after in zip(us(*two), us(*two, "--set", "inter.latency_us=116"))]
    assert added == pytest.approx([200, 100, 100, 100], abs=0.01)
    for link, was, ranks in (("inter", 16, 64), ("inter", 16, 512), ("intra", 9, 8)):
        for size in ("64K", "1M", "256M"):
            args = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "alltoall", "sendrecv", "--ranks", ranks)
            before, just, longer, shorter = (us(*args, "--set", f"{link}.latency_us={value}", size=size) for value in (was, was + 1e-4, was + 100, was / 2))
            assert all(b + 99.9 <= l and s <= b <= j <= b + 0.2 for b, j, l, s in zip(before, just, longer, shorter)), (link, ranks, size)
    ring = next(v for v in json.loads((ROOT / "profiles/clusters/h100-sxm-ib.json").read_text())["nccl"] if (v["algorithm"], v["protocol"]) == ("ring", "LL"))
    assert us(*two)[0] - us(*two, "--set", "inter.latency_us=8")[0] == pytest.approx(2 * ring["inter_us"] / 2, abs=0.01)


@pytest.mark.parametrize("change", [b"inter.gbps=\xff", b"inter.gb\xffps=1", b"\xff.x=1"])
def test_set_rejects_what_is_not_utf8(busbar, change):
    """JSON has no such key and no such value, so nothing would change."""
    command = busbar.command("plan", "all_reduce", "--ranks", "16", "--cluster", "h100-sxm-ib", "--set", emulated=False)
    done = subprocess.run([*command, change], capture_output=True)
    assert done.returncode == 2 and b"is not valid UTF-8" in done.stderr and done.stdout == b""


def test_memory_names_unfused_attention(busbar):
    """GPT-2 has dropout: the proxy's attention stores its scores. With a cluster, the line `rates` names the attention."""
    def memory(*args):
        done = busbar.run("plan", "transformer", "--model", "gpt2_small", "--ranks", 4, *args, emulated=False)
        return re.search(r"memory +training needs (.*)", done.stdout)[1]
    assert memory().endswith(" GiB (attention unfused)") and "attention" not in memory("--attention", "fused")
    assert memory() == memory("--attention", "unfused")  # as in the help
    assert memory("--model", "llama3_8b", "--tp", 2) == memory("--model", "llama3_8b", "--tp", 2, "--attention", "fused")
    assert memory("--attention", "fused") == memory("--cluster", "l40s-pcie-ib").split(" of ")[0]


@pytest.mark.parametrize("changes,shown", [(9, 9), (10, 8), (30, 8)])
def test_a_long_list_of_changes_ends_with_their_number(busbar, changes, shown):
    """255 characters are enough for 9 changes, or for 8 and the number of the others."""
    texts = [f"nccl.ring.LL.{key}={i:02}" for i, key in zip(range(10, 10 + changes), 20 * ("base_us", "intra_us"))]
    args = ("transformer", "--model", "gpt2_small", "--ranks", 16, "--cluster", "h100-sxm-ib", *(word for text in texts for word in ("--set", text)))
    done = busbar.run("plan", *args, emulated=False)
    name = f"h100-sxm-ib with {', '.join(texts[:shown])}{f' and {changes - shown} more' if changes > shown else ''}"
    assert f"# predicted for {name} (modelled, not measured), software megatron by default" in done.stdout and f"  rates         {name}, software megatron: 16-bit GEMMs 668 of 989 TFLOP/s, memory 2848 of 3350 GB/s; attention fused\n" in done.stdout
