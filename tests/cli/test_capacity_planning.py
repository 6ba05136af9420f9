"""What people ask a plan before they buy, reserve or run: batches, a whole training, collectives on paper, the best layout."""
import csv
import io
import json
import math
import pathlib
import re
import statistics

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]

H100 = "h100-sxm-ib"
LLAMA = ("transformer", "--model", "llama2_7b", "--ranks", 16, "--tp", 2, "--pp", 2)


@pytest.fixture
def plan(busbar, tmp_path):
    def run(*words):
        return busbar.json("plan", *words, tmp_path=tmp_path, emulated=False)

    return run


def refused(busbar, *words):
    done = busbar.run(*words, emulated=False)
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stdout == "" and len(done.stderr.strip().splitlines()) == 1
    return done.stderr


def without_options(doc):
    return {k: v for k, v in doc.items() if k != "options"}


# ---- batches and trainings ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words,b,samples_at_once", [
    (LLAMA, 1, 4), (LLAMA, 2, 8),
    (("data_parallel", "--model", "resnet50", "--ranks", 8), 32, 256),
    (("data_parallel", "--model", "resnet50", "--ranks", 8, "--sync", "ps_sharded", "--servers", 2), 32, 192),
    (("spatial", "--ranks", 10, "--splits", 2), 4, 8),
    (("gems", "--ranks", 4, "--splits", 2, "--replications", 4), 2, 16),
    (("bert_large", 4, 2, "--ranks", 8), None, 32), (("gpt3", 2, "--ranks", 16), None, 2), (("gpt3_moe", 2, "--ranks", 64), None, 32)])
def test_a_global_batch_is_so_many_micro_batches(busbar, plan, words, b, samples_at_once):
    words = (*words, "--micro-batch-size", b) if b else words  # seeds have that of their model
    for m in (4, 6):
        by_batch = plan(*words, "--global-batch-size", m * samples_at_once)
        assert without_options(by_batch) == without_options(plan(*words, "--micro-batches", m))
    line = refused(busbar, "plan", *words, "--global-batch-size", 5 * samples_at_once + 1)
    assert f"{5 * samples_at_once + 1} is not a multiple of {samples_at_once} samples" in line
    assert line.strip().endswith(f"try: {5 * samples_at_once} or {6 * samples_at_once}")
    if samples_at_once > 1:
        assert refused(busbar, "plan", *words, "--global-batch-size", 1).strip().endswith(f"try: {samples_at_once}")


def test_a_batch_that_cannot_be_told(busbar):
    assert "leave one out" in refused(busbar, "plan", *LLAMA, "--global-batch-size", 64, "--micro-batches", 4)
    for words in (("resnet50", "--ranks", 4), ("gpt3_one_pipe_step", 2, "--ranks", 8)):
        assert "--global-batch-size" in refused(busbar, "plan", *words, "--global-batch-size", 64)
    assert "leave one out" in refused(busbar, "plan", "gpt3", 2, 2, "--ranks", 8, "--global-batch-size", 64)
    assert "1000000 micro-batches" in refused(busbar, "plan", *LLAMA, "--global-batch-size", 8_000_000)


def test_a_whole_training(busbar, plan):
    words = (*LLAMA, "--global-batch-size", 64, "--cluster", H100)
    doc = plan(*words, "--tokens", "2T")
    per_step, step_s = 64 * 4096, doc["predicted"]["step_us"] / 1e6
    training = doc["predicted"].pop("training")
    assert without_options(doc) == without_options(plan(*words))
    assert training["tokens"] == 2e12 and training["steps"] == math.ceil(2e12 / per_step)
    assert training["days"] == pytest.approx(training["steps"] * step_s / 86400, rel=1e-9)
    assert training["gpu_hours"] == pytest.approx(training["days"] * 24 * 16, rel=1e-9)
    text = busbar.run("plan", *words, "--tokens", "2e12", emulated=False).stdout.splitlines()[-1]
    assert text.split(":")[0] == "  2T tokens" and f"{training['steps']:,} steps" in text
    assert f"{training['days']:.1f} days" in text
    one = plan(*words, "--tokens", 1)["predicted"]["training"]
    assert one["steps"] == 1 and one["days"] * 86400 == pytest.approx(step_s, rel=1e-9)


@pytest.mark.parametrize("text", ["many", "-3T", "0", "15TB", "1e30", ""])
def test_tokens_that_are_none(busbar, text):
    line = refused(busbar, "plan", *LLAMA, "--cluster", H100, "--tokens", text)
    assert f"--tokens: '{text}' is not valid" in line and "try: 15T" in line


def test_tokens_where_they_mean_nothing(busbar):
    assert "--tokens requires --cluster" in refused(busbar, "plan", *LLAMA, "--tokens", "15T")
    assert "its samples have no tokens" in refused(busbar, "plan", "bert_large", "--ranks", 4, "--cluster", H100, "--tokens", "15T")


# ---- collectives on paper -----------------------------------------------------------------------------------------------

MACHINE = {"name": "three", "description": "-", "source": "-", "gpus_per_node": 3, "sm_count": 132, "clock_khz": 1000000, "launch_us": 1,
           "nccl_launch_us": 2, "kernel_us": 3, "memory_gbps": 1000, "memory_bytes": 8e10,
           "tflops": {"float32": 50, "float16": 900, "bfloat16": 900, "float64": 30}, "intra": {"latency_us": 2, "gbps": 100},
           "inter": {"latency_us": 5, "gbps": 10}}


@pytest.fixture
def machine(tmp_path):
    def write(name="machine.json", **changes):
        (tmp_path / name).write_text(json.dumps({**MACHINE, **changes}))
        return tmp_path / name

    return write


def key(row):
    return tuple(row[k] for k in ("collective", "bytes", "count", "dtype", "op", "root", "placement", "mode"))


@pytest.mark.parametrize("ranks,words", [(8, ()), (3, ("-d", "half", "-o", "max")), (1, ())])
def test_a_run_on_that_machine_prints_that_table(busbar, plan, machine, tmp_path, ranks, words):
    """All eleven, also over nodes of three GPUs: emulated GPUs with the same profile take the same times, the columns are
    bench's but for the host's clock, which nothing predicts."""
    words = ("all", "-b", "8", "-e", "1M", "-f", "128", *words)
    run = busbar.run("bench", *words, "-n", 3, "--repeats", 2, "-c", 0, "--clock", "gpu", "--json", tmp_path / "run.json", ranks=ranks,
                     env={"EMU_CLUSTER": str(machine()), "EMU_DATA": "off"})
    assert run.returncode == 0, run.stderr
    paper = busbar.run("plan", *words, "--ranks", ranks, "--cluster", machine(), "--json", tmp_path / "plan.json", emulated=False)
    assert paper.returncode == 0, paper.stderr
    measured, predicted = (json.loads((tmp_path / f).read_text()) for f in ("run.json", "plan.json"))
    assert predicted["schema"] == "busbar.plan/1" and predicted["predicted"] == {"cluster": "three", "slow": []}
    assert (predicted["ranks"], predicted["nodes"]) == (ranks, -(-ranks // 3))
    assert [key(r) for r in predicted["results"]] == [key(r) for r in measured["results"]]
    for a, b in zip(measured["results"], predicted["results"]):
        assert b["time_us"]["p50"] == pytest.approx(a["time_us"]["p50"], abs=1.1e-3), key(a)
        for rate in ("algbw_gbps", "busbw_gbps", "busbw_factor"):
            assert b[rate] == (a[rate] if a[rate] is None else pytest.approx(a[rate], rel=1e-3, abs=1e-9)), key(a)
        assert b["flags"] == ["predicted"] and b["wrong"] is None
    headings = [[line for line in done.stdout.splitlines() if line.startswith(("#       size", "#        (B)"))] for done in (run, paper)]
    assert len(headings[0]) == len(headings[1]) >= 20  # a run has columns behind them that only a clock tells
    assert all(measured.startswith(paper.rstrip()) for measured, paper in zip(*headings))
    assert "modelled, not measured" in paper.stdout


SHARED = ("a100-pcie-ib", "l40s-pcie-ib")  # two GPUs to a NIC
OTHERS = tuple(p.stem for p in sorted((ROOT / "profiles/clusters").glob("*.json")) if p.stem not in SHARED and "emulated" not in p.stem)
FABRIC = {"nodes_per_leaf": 2, "leaf_oversubscription": 4, "nodes_per_pod": 4, "pod_oversubscription": 3}


@pytest.mark.parametrize("clusters,ranks", [(OTHERS, 12), (SHARED, 12), (SHARED, 16), (SHARED, 20), ((H100,), 1), ((False, True), 20), ((False, True), 36)])
def test_a_slow_part_that_is_not_slow_changes_nothing(plan, tmp_path, clusters, ranks):
    """Even rows come from formulas, uneven ones from a step of the operation: both are the same machine, to the nanosecond. Nodes are full or
    not; with leaves, pods and rails or not."""
    for cluster in clusters:
        if isinstance(cluster, bool):
            profile = json.loads((ROOT / f"profiles/clusters/{SHARED[1] if ranks == 20 else H100}.json").read_text())
            (tmp_path / "fabric.json").write_text(json.dumps(profile | {"fabric": FABRIC | {"rails": cluster}}))
            cluster = tmp_path / "fabric.json"
        words = ("all", "-b", "1K", "-e", "1G", "-f", "1024", "-r", ranks - 1, "--ranks", ranks, "--cluster", cluster)
        even, same = plan(*words), plan(*words, "--slow", f"link={'node0-nic0' if cluster in SHARED + OTHERS else 'leaf0'}:1")
        assert len(even["results"]) > 40
        for a, b in zip(even["results"], same["results"], strict=True):
            assert key(a) == key(b) and b["time_us"]["p50"] == a["time_us"]["p50"], (cluster, key(a))


@pytest.mark.parametrize("gpus,nics", [(8, 3), (6, 4)])
def test_a_hypercube_of_nodes_that_are_no_power_of_two(plan, tmp_path, gpus, nics):
    """Of a NIC's two or three GPUs some have their partner on the same node, and those that do not have more of it: as a step of these rounds."""
    profile = json.loads((ROOT / "profiles/clusters/l40s-pcie-ib.json").read_text())
    (tmp_path / "odd.json").write_text(json.dumps(profile | {"gpus_per_node": gpus, "nics_per_node": nics}))
    words = ("hypercube", "--sizes", "16M", "--ranks", 32, "--cluster", tmp_path / "odd.json")
    even, same = plan(*words), plan(*words, "--slow", "link=node0-nic0:1")
    assert [r["time_us"]["p50"] for r in even["results"]] == [pytest.approx(r["time_us"]["p50"], rel=1e-4) for r in same["results"]]


def test_gpus_that_share_a_nic(plan):
    """12 ranks of L40S, 8 and 4, two GPUs on each NIC, slices of 87,376 bytes: a GPU of the second node and its mate send 8 each of an alltoall;
    a gather's root has its NIC for itself, and takes 7 slices over its PCIe meanwhile; of a ring one GPU of each node sends to the other."""
    profile = json.loads((ROOT / "profiles/clusters/l40s-pcie-ib.json").read_text())
    inter, intra, size = profile["inter"]["gbps"] * 1e3, profile["intra"]["gbps"] * 1e3, 1048512
    rows = plan("alltoall", "gather", "sendrecv", "--sizes", size, "--ranks", 12, "--cluster", "l40s-pcie-ib", "--placement", "out_of_place")["results"]
    rows += plan("scatter", "-r", 11, "--sizes", size, "--ranks", 12, "--cluster", "l40s-pcie-ib", "--placement", "out_of_place")["results"]
    wanted = 2 * 8 * size / 12 / inter, 7 * size / 12 / intra, size / intra, 8 * size / 12 / inter  # that root has 3 beside it
    assert [r["time_us"]["p50"] - profile["inter"]["latency_us"] for r in rows] == [pytest.approx(us, abs=1e-3) for us in wanted]


def test_a_slow_link_costs_a_collective_what_it_costs_a_step(plan):
    """The step's six all-reduces come one after another, and nothing else."""
    where = ("--ranks", 16, "--cluster", H100, "--slow", "link=node1-nic3:0.25")
    step = plan("resnet50", "--compute", "none", *where)
    (role,) = step["roles"]
    calls = [(t["bytes"] // t["calls"], t["calls"]) for t in role["traffic"]]
    rows = plan("all_reduce", "--sizes", ",".join(str(size) for size, _ in calls), "--placement", "in_place", *where)["results"]
    assert sum(n for _, n in calls) == 6 and [r["bytes"] for r in rows] == [size for size, _ in calls]
    launch = json.loads((ROOT / f"profiles/clusters/{H100}.json").read_text())["nccl_launch_us"]
    alone = sum(n * r["time_us"]["p50"] for (_, n), r in zip(calls, rows))
    assert step["predicted"]["step_us"] == pytest.approx(launch + alone, abs=0.02)
    assert alone > 1.2 * sum(n * r["time_us"]["p50"] for (_, n), r in zip(calls, plan("all_reduce", "--sizes", ",".join(
        str(size) for size, _ in calls), "--placement", "in_place", *where[:-2])["results"]))


@pytest.mark.parametrize("ranks", [2, 64])
def test_jitter_of_a_collective_is_that_of_its_slowest_rank(plan, ranks):
    """The largest of n normal numbers is below x as often as each of them, to the power of n."""
    words = ("all_reduce", "--sizes", "64M", "--placement", "in_place", "--ranks", ranks, "--cluster", H100)
    even = plan(*words)["results"][0]["time_us"]["p50"]
    doc, again, other = (plan(*words, "--jitter", "3%", "--samples", 2000, "--seed", seed) for seed in (7, 7, 8))
    times = doc["results"][0]["time_us"]
    assert doc["predicted"]["jitter"] == {"deviation": pytest.approx(0.03), "seed": 7, "samples": 2000}
    assert doc["results"] == again["results"] != other["results"]
    for name, part in (("p50", 0.5), ("p90", 0.9)):
        wanted = min(3, statistics.NormalDist().inv_cdf(part ** (1 / ranks)))
        assert (times[name] / even - 1) / 0.03 == pytest.approx(wanted, abs=0.12), name
    assert times["max"] <= 1.09 * even + 1e-3 and times["ci95"][0] <= times["p50"] <= times["ci95"][1]
    assert doc["results"][0]["algbw_gbps"] == pytest.approx(2 ** 26 / times["p50"] / 1e3, rel=1e-9)


def test_the_algorithm_stands_beside_the_figures(busbar, tmp_path):
    """Where the profile has NCCL's: small sizes take a low-latency protocol, large ones do not; exchanges have none."""
    words = ("all_reduce", "sendrecv", "--sizes", "8,1G", "--ranks", 64, "--cluster", H100, "--json", tmp_path / "p.json")
    text = busbar.run("plan", *words, emulated=False).stdout
    rows = json.loads((tmp_path / "p.json").read_text())["results"]
    heading = next(line for line in text.splitlines() if line.startswith("#       size"))
    assert heading.split()[-2:] == ["algorithm", "protocol"]
    lines = [line.split() for line in text.splitlines() if line and line[0] == " "]
    reduced = {r["bytes"]: [r["algorithm"], r["protocol"]] for r in rows if r["collective"] == "all_reduce"}
    assert [line[-2:] for line in lines[:2]] == [reduced[8], reduced[1 << 30]] and all(reduced[8])
    assert reduced[8][1] == "LL" and reduced[1 << 30][1] != "LL"
    assert [line[-2:] for line in lines[2:]] == [["-", "-"]] * 2


def test_compare_says_where_the_machine_falls_behind(busbar, machine, tmp_path):
    """The machine's links carry 80 of the 100 GB/s that were promised: large messages are behind, small ones are not."""
    real, promised = machine("real.json", intra={"latency_us": 2, "gbps": 80}), machine()
    words = ("all_reduce", "--sizes", "1K,16M", "--placement", "out_of_place")
    assert busbar.run("bench", *words, "-n", 3, "--repeats", 6, "-c", 0, "--json", tmp_path / "a.json", ranks=3,
                      env={"EMU_CLUSTER": str(real), "EMU_DATA": "off"}).returncode == 0
    assert busbar.run("plan", *words, "--ranks", 3, "--cluster", promised, "--json", tmp_path / "b.json", emulated=False).returncode == 0
    done = busbar.run("compare", "a.json", "b.json", "--json", "c.json", emulated=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    bytes_ = 16 << 20
    small, large = ((8 + 4 / 3 * n / 80e3) / (8 + 4 / 3 * n / 100e3) for n in (1024, bytes_))
    assert "# B: predicted for three: modelled, not measured" in done.stdout
    assert f"1 of 2 rows slower than predicted by more than 10 %, worst: all_reduce 16 MiB: {large:.3f} x" in done.stdout
    assert "differs: --" not in done.stdout and "differs: $" not in done.stdout
    against = json.loads((tmp_path / "c.json").read_text())["summary"]["against_prediction"]
    assert against["worst_ratio"] == pytest.approx(large, rel=1e-4)
    assert against["geometric_mean_ratio"] == pytest.approx(math.sqrt(small * large), rel=1e-4)
    assert (against["rows"], against["slower_rows"], against["measured"], against["threshold_percent"]) == (2, 1, "a", 10)
    swapped = busbar.run("compare", "b.json", "a.json", "--threshold", 30, emulated=False, cwd=tmp_path)
    assert swapped.returncode == 0 and "no row is slower than predicted by more than 30 %" in swapped.stdout
    assert busbar.run("compare", "b.json", "a.json", "--threshold", 20, emulated=False, cwd=tmp_path).returncode == 5
    assert "geometric mean; " not in busbar.run("compare", "a.json", "a.json", emulated=False, cwd=tmp_path).stdout


@pytest.mark.parametrize("words,said", [
    (("all_reduc", "--ranks", 4), "did you mean 'all_reduce'?"),
    (("all_reduce", "--cluster", H100), "plan requires --ranks N"),
    (("all_reduce", "--ranks", 4), "try: --cluster h100-sxm-ib"),
    (("all_reduce", "--ranks", 4, "--cluster", H100, "--tp", 2), "--tp applies only to training steps"),
    (("all_reduce", "--ranks", 4, "--cluster", H100, "--dtype", "half"), "try: --datatype"),
    (("all_reduce", "--ranks", 4, "--cluster", H100, "--ops"), "--ops applies only to training steps"),
    (("all_reduce", "--ranks", 4, "--cluster", H100, "--top", 3), "--top applies only to training steps"),
    (("all_reduce", "--ranks", 4, "--cluster", H100, "--seed", 3), "--seed requires --jitter; try: --jitter 3%"),
    (("all_reduce", "--ranks", 4, "--cluster", H100, "--samples", 3), "--samples requires --jitter; try: --jitter 3%"),
    (("all_reduce", "--ranks", 4, "--cluster", H100, "--jitter", "3"), "'3' is not a percentage above 0% and at most 100%; try: --jitter 3%"),
    (("all_reduce", "--ranks", 1 << 20, "--cluster", H100, "--jitter", "3%"), "exceed the limit of 30000000 random numbers per row; try: --samples 28"),
    (("all_reduce", "--ranks", 16, "--cluster", H100, "--slow", "rank=3:1.5"), "--slow rank=3:1.5 slows down kernels, which a collective does not have"),
    (("all_reduce", "--ranks", 16, "--cluster", H100, "--slow", "link=node2-nic0:0.5"), "there is no node 2, expected 0 to 1"),
    (("all_reduce", "--ranks", 16, "--cluster", H100, "--slow", "node1-nic0:0.5"), "'node1-nic0:0.5' is not valid, expected rank=R:TIMES"),
    (("all_reduce", "--ranks", 8, "--cluster", "emulated-default", "--slow", "link=node0-nic0:0.5"), "'emulated-default' has no 'sharing'"),
    (("all_reduce", "hypercube", "--ranks", 2048, "--cluster", H100, "--slow", "link=node0-nic0:0.5"),
     "hypercube on 2048 ranks, expected at most 1024 with --slow; try: --ranks 1024"),
    (("reduce", "-r", 4, "--ranks", 4, "--cluster", H100), "root 4 (-r) of reduce is not a rank: ranks are 0 to 3"),
    (("all_reduce", "-b", "8K", "-e", "4K", "--ranks", 4, "--cluster", H100), "first size 8192"),
    (("alltoallv", "--ranks", 5000, "--cluster", H100), "try: --ranks 4096"),
    (("all_reduce", "-n", 5, "--ranks", 4, "--cluster", H100), "unknown option '-n'"),
    (("gpt2_large", "--ranks", 4, "-b", 16), "--minbytes applies only to collectives"),
    (("gpt2_large", "all_reduce", "--ranks", 4), "gpt2_large: 'all_reduce' is not a valid number of layers, expected 1 to"),
    (("all_reduce", "--ranks", 4, "--cluster", "h100"), "h100")])
def test_collectives_that_cannot_be_planned(busbar, words, said):
    assert said in refused(busbar, "plan", *words)


def test_a_ring_of_a_million_ranks_is_quick(busbar, plan):
    """Ranks are folded: all that is between the ends is alike."""
    doc = plan("sendrecv", "all_gather", "--sizes", "1M", "--ranks", 1 << 24, "--cluster", H100)
    ring, gather = doc["results"][0], doc["results"][1]
    assert ring["time_us"]["p50"] == pytest.approx(16 + 1.048576e6 / 48.5e3, rel=0.01) and gather["bytes"] >= 0


# ---- the best layout ----------------------------------------------------------------------------------------------------

SEARCH = ("transformer", "--model", "llama2_7b", "--ranks", 16, "--global-batch-size", 64, "--cluster", H100, "--best-layout")
PARTS = ("compute_us", "exposed_transfer_us", "bubble_us", "exposed_waiting_us", "idle_us")


def test_a_job_has_as_many_gpus_of_a_node_as_it_says(plan):
    """16 GPUs of one node leave no node; of nodes of 8, as the profile has them, gradients cross."""
    step = ("transformer", "--model", "gpt3_1_3b", "--ranks", 16, "--micro-batches", 1, "--cluster", "h100-sxm-ib")
    usual, eights, one_node = (plan(*step, *more)["predicted"] for more in ((), ("--gpus-per-node", 8), ("--gpus-per-node", 16)))
    assert usual["step_us"] == eights["step_us"] > one_node["step_us"]
    assert usual["sharing"]["nic_busy"] > 0 == one_node["sharing"]["nic_busy"]


def test_so_does_a_collective(plan, tmp_path):
    """Eight ranks, one on each node: a ring over one NIC of 48.5 GB/s each; the latency of 1 GiB is less than 1 % of it."""
    fours = json.loads((ROOT / "profiles/clusters/h100-sxm-ib.json").read_text()) | {"gpus_per_node": 4, "nics_per_node": 4}
    (tmp_path / "fours.json").write_text(json.dumps(fours))
    table = ("all_reduce", "alltoall", "-b", "64K", "-e", "1G", "-f", "16384", "--ranks", 8, "--cluster")
    told, written = plan(*table, H100, "--gpus-per-node", 4), plan(*table, tmp_path / "fours.json")
    assert told["results"] == written["results"] and told["nodes"] == 2
    step = ("gpt2_large", 8, 4, 2, "--ranks", 8, "--cluster")
    assert plan(*step, H100, "--gpus-per-node", 4)["predicted"]["step_us"] == plan(*step, tmp_path / "fours.json")["predicted"]["step_us"]
    alone = plan(*table, H100, "--gpus-per-node", 1)
    assert alone["nodes"] == 8 and alone["results"][2]["bytes"] == 1 << 30
    assert alone["results"][2]["busbw_gbps"] == pytest.approx(48.5, rel=0.01)


@pytest.mark.parametrize("way,key,value,message", [
    ("ring", "chunk_us", 5, "'chunk_us' does not apply to algorithm 'ring', expected only with 'nvls' and 'nvls_tree'"), ("nvls", "chunk_us", -1, "chunk_us"),
    ("nvls_tree", "chunk_us", "5", "chunk_us"), ("tree", "channels", 5, "'channels' does not apply to algorithm 'tree', expected only with 'ring', 'nvls' and 'nvls_tree'"),
    ("ring", "channels", 0, "channels"), ("nvls", "channels", 1.5, "channels")])
def test_chunks_and_channels_of_other_ways_are_refused(busbar, tmp_path, way, key, value, message):
    profile = json.loads((ROOT / "profiles/clusters/h100-sxm-ib.json").read_text())
    next(row for row in profile["nccl"] if row["algorithm"] == way)[key] = value
    (tmp_path / "odd.json").write_text(json.dumps(profile))
    done = busbar.run("plan", "all_reduce", "--ranks", 8, "--cluster", tmp_path / "odd.json", emulated=False)
    assert done.returncode == 2 and message in done.stderr and len(done.stderr.splitlines()) == 1


def test_the_best_layout_is_a_plan_of_these_words(busbar, plan):
    """What the search says of its first layout is what a plan of that layout says."""
    text = busbar.run("plan", *SEARCH, emulated=False).stdout
    words = next(line for line in text.splitlines() if line.startswith("# options of layout 1:")).split(": ")[1].split()
    doc = plan(*SEARCH, "--top", 3)
    best, rows = doc["best_layout"], doc["best_layout"]["layouts"]
    assert len(rows) == 3 and [r["step_us"] for r in rows] == sorted(r["step_us"] for r in rows)
    assert doc["predicted"]["step_us"] == rows[0]["step_us"]
    alone = plan(*SEARCH[:-1], *words)
    assert alone["predicted"]["step_us"] == pytest.approx(rows[0]["step_us"], abs=1e-3)
    assert alone["predicted"]["tokens_per_s"] == pytest.approx(16 * rows[0]["tokens_per_s_per_gpu"], rel=1e-9)
    held = max(role["training_memory_bytes"]["total"] for role in alone["roles"])
    assert rows[0]["memory_bytes"] == pytest.approx(held, abs=8) and held <= best["available_bytes"]
    for row in rows:
        assert sum(row[part] for part in PARTS) == pytest.approx(row["step_us"], abs=1e-2)
        assert row["tp"] * row["cp"] * row["pp"] * row["dp"] == 16
        assert row["dp"] * row["micro_batch_size"] * row["micro_batches"] == 64
    assert sum(best["rejected"].values()) + best["predicted"] == best["evaluated"]
    assert best["rejected"]["memory"] > 0 and best["fitting"] > best["predicted"]
    assert "why layout 1 is fastest" in text and "training does not fit" in text
    table = list(csv.DictReader(io.StringIO(busbar.run("plan", *SEARCH, "--top", 3, "--csv", "-", emulated=False).stdout)))
    assert [float(r["step_us"]) for r in table] == pytest.approx([r["step_us"] for r in rows]) and table[0]["schedule"] == rows[0]["schedule"]


def words_of(row):
    options = [o for o in ("tp", "cp", "ep", "pp", "dp", "schedule", "micro_batch_size", "recompute", "dp_sync", "vpp") if o != "vpp" or row["vpp"] > 1]
    return [*["--sequence-parallel"] * row["sequence_parallel"],
            *["--recompute-num-layers", row["recompute_num_layers"]] * (row["recompute_num_layers"] is not None),
            *(w for option in options for w in ("--" + option.replace("_", "-"), row[option]))]


def test_the_best_layouts_when_kernels_vary(busbar, plan):
    """The layouts are those without jitter, with the steps that a plan of each has with it, in the order of their medians."""
    given, jitter = ("--tp", 1, "--cp", 1, "--pp", 1, "--top", 3), ("--jitter", "10%", "--samples", 18, "--seed", 4)
    steady, doc = plan(*SEARCH, *given), plan(*SEARCH, *given, *jitter)
    rows = doc["best_layout"]["layouts"]
    assert doc["predicted"]["jitter"] == {"deviation": pytest.approx(0.1), "seed": 4, "samples": 18}
    assert doc["predicted"]["step_us"] == rows[0]["step_us"] and len(rows) == 3
    alike = [{k: v for k, v in row.items() if not k.startswith(("p50", "p95"))} for row in rows]
    assert sorted(alike, key=lambda r: r["step_us"]) == steady["best_layout"]["layouts"] != alike
    assert [r["p50_step_us"] for r in rows] == sorted(r["p50_step_us"] for r in rows)
    for row in rows[:2]:
        steps = plan(*SEARCH[:-1], *words_of(row), *jitter)["predicted"]["jitter"]["step_us"]
        assert (row["p50_step_us"], row["p95_step_us"]) == (steps["p50"], steps["p95"]) and steps["p50"] > row["step_us"]
    assert "sorted by p50, the median of 18 steps with 10% jitter (seed 4)" in busbar.run("plan", *SEARCH, *given, *jitter, emulated=False).stdout


def test_the_best_layout_beside_a_slow_gpu(busbar, plan):
    """Every layout is as slow as its plan is with the same --slow, and as quick without it."""
    slow, given = ("--slow", "rank=3:1.3,link=node1-nic2:0.5"), ("--dp-sync", "zero1", "--tp", 2, "--pp", 2, "--top", 3)
    doc = plan(*SEARCH, *slow, *given)
    best = doc["best_layout"]["layouts"][0]
    assert doc["predicted"]["slow"] == slow[1].split(",")
    words = words_of(best)
    for more, key in ((slow, "step_us"), ((), "baseline_step_us")):
        assert plan(*SEARCH[:-1], *words, *more)["predicted"]["step_us"] == pytest.approx(best[key], abs=1e-3)
    assert best["baseline_step_us"] < best["step_us"] < 1.3 * best["baseline_step_us"]
    text = busbar.run("plan", *SEARCH, *slow, *given, emulated=False).stdout
    assert "# slow: rank=3:1.3\n# slow: link=node1-nic2:0.5\n" in text
    assert f"({100 * (best['step_us'] / best['baseline_step_us'] - 1):+.1f}%)" in text.split("# slow parts cost layout 1")[1].splitlines()[0]
    assert "there is no rank 16" in refused(busbar, "plan", *SEARCH, "--slow", "rank=16:2")


def test_what_is_given_stays(plan):
    given = {"tp": 4, "pp": 2, "recompute": "full", "recompute_num_layers": 2, "dp_sync": "zero3", "micro_batch_size": 2}
    words = [w for k, v in given.items() for w in ("--" + k.replace("_", "-"), v)]
    rows = plan(*SEARCH, *words)["best_layout"]["layouts"]
    assert rows and all({k: r[k] for k in given} == given for r in rows)
    assert {r["dp"] for r in plan(*SEARCH, "--dp", 2)["best_layout"]["layouts"]} == {2}
    assert {r["schedule"] for r in plan(*SEARCH, "--vpp", 4)["best_layout"]["layouts"]} == {"interleaved"}


def test_threads_do_not_change_the_answer(plan):
    one, many = (plan(*SEARCH, "--threads", n)["best_layout"] for n in (1, 5))
    assert one == many


def test_chunks_of_unlike_layers_are_found(plan, tmp_path):
    """Dense layers, then as many of experts, which take longer: chunks spread them, so no stage computes as much as one of whole quarters."""
    model = tmp_path / "unlike.json"
    model.write_text(json.dumps({
        "model_type": "deepseek_v2", "hidden_size": 2048, "num_hidden_layers": 16, "first_k_dense_replace": 8, "intermediate_size": 2048,
        "moe_intermediate_size": 2048, "n_routed_experts": 16, "n_shared_experts": 2, "num_experts_per_tok": 6, "num_attention_heads": 16,
        "num_key_value_heads": 16, "kv_lora_rank": 512, "q_lora_rank": None, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
        "vocab_size": 32000, "max_position_embeddings": 4096}))
    words = ("transformer", "--model", model, "--ranks", 16, "--seq-length", 4096, "--global-batch-size", 64, "--cluster", H100, "--pp", 4)
    found = plan(*words, "--best-layout")["best_layout"]["layouts"][0]["step_us"]
    known = plan(*words, "--schedule", "interleaved", "--vpp", 4, "--micro-batch-size", 1, "--dp-sync", "distributed")["predicted"]["step_us"]
    assert found <= known


def test_experts_are_laid_out_too(plan):
    rows = plan("transformer", "--model", "mixtral_8x7b", "--ranks", 32, "--global-batch-size", 128, "--cluster", H100, "--best-layout",
                "--seq-length", 4096, "--dp-sync", "zero1")["best_layout"]["layouts"]
    assert rows[0]["ep"] > 1 and all(8 % r["ep"] == 0 for r in rows)


@pytest.mark.parametrize("words,said", [
    (("transformer", "--model", "llama3_405b", "--ranks", 8, "--global-batch-size", 8, "--cluster", H100, "--best-layout"),
     "no layout of 8 ranks fits: training needs at least"),
    (("transformer", "--model", "llama2_7b", "--ranks", 8, "--cluster", H100, "--best-layout"), "try: --global-batch-size 8"),
    (("transformer", "--model", "llama2_7b", "--ranks", 8, "--global-batch-size", 8, "--best-layout"), "try: --cluster"),
    (("gpt2_large", "--ranks", 8, "--cluster", H100, "--best-layout"), "--best-layout applies only to transformer"),
    ((*SEARCH, "--recompute-num-layers", 2), "--recompute-num-layers 2 requires --recompute full; try: --recompute full"),
    ((*SEARCH, "--ops"), "--ops applies to one plan"), ((*SEARCH, "--samples", 3), "--samples requires --jitter"),
    ((*SEARCH, "--tp", 2, "--pp", 1, "--top", 1, "--jitter", "3%", "--samples", 100000), "try: --samples "),
    ((*SEARCH, "--seed", 3), "--seed requires --jitter or --moe-imbalance; try: --jitter 3%"),
    ((*SEARCH, "--tp", 3), "--tp 3 does not divide the 16 ranks; try: --tp 2"),
    ((*SEARCH, "--dp", 99), "--dp 99 does not divide the 16 ranks; try: --dp 16"), ((*SEARCH[:-1], "--top", 3), "--top requires --best-layout"),
    ((*SEARCH, "--global-batch-size", 7, "--tp", 1, "--cp", 1, "--pp", 1), "no valid layout for 16 ranks with global batch size 7"),
    ((*SEARCH, "--global-batch-size", 16, "--tp", 16, "--pp", 8), "with global batch size 16 and the given options")])
def test_layouts_that_cannot_be_searched(busbar, words, said):
    assert said in refused(busbar, "plan", *words)


# ---- a run beside its prediction ----------------------------------------------------------------------------------------

STEPS = [("gpt2_large", 4, 2, 3, "--compute", "timed"), ("dlrm", "--compute", "gemm", "--dtype", "bfloat16"),
         ("transformer", "--model", "gpt2_small", "--layers", 4, "--tp", 2, "--pp", 2, "--global-batch-size", 8, "--compute", "gemm")]


def run_beside(busbar, tmp_path, words, real, told, *more):
    doc = busbar.json("proxy", *words, "-n", 3, "--warmup", 1, "--no-alone", "--cluster", told, *more, tmp_path=tmp_path, ranks=4,
                      env={"EMU_CLUSTER": str(real), "EMU_DATA": "off"})
    return doc["forecast"], {(r["by"], r["name"]): r for r in doc["forecast"]["rows"]}


@pytest.mark.parametrize("words", STEPS)
def test_the_machine_that_is_told_is_predicted(busbar, machine, tmp_path, words):
    real = machine()
    forecast, rows = run_beside(busbar, tmp_path, words, real, real)
    assert forecast["cluster"] == "three" and {by for by, _ in rows} == {"part", "phase", "group", "kind"}
    for pair in (forecast["step"], forecast["traced_step"], *rows.values()):
        assert pair["predicted_us"] == pytest.approx(pair["measured_us"], rel=1e-6, abs=2e-3)
    assert forecast["step"]["measured_us"] > 0 and abs(forecast["step"]["error"]) < 1e-6


def test_what_a_run_launches_is_predicted(busbar, plan, tmp_path):
    """No training, whose attention is fused and masked and whose products add to gradients: on the very machine nothing is off."""
    words = ("transformer", "--model", "llama3_8b", "--layers", 2, "--seq-length", 512, "--tp", 2, "--pp", 2, "--micro-batches", 4, "--compute", "gemm")
    profile = ROOT / "profiles/clusters/h100-sxm-ib.json"
    forecast, rows = run_beside(busbar, tmp_path, words, profile, profile)
    assert rows["part", "compute"]["predicted_us"] == pytest.approx(rows["part", "compute"]["measured_us"], rel=1e-4)
    assert abs(forecast["step"]["error"]) < 1e-3
    (tmp_path / "result.json").rename(tmp_path / "run.json")
    paper = plan(*words, "--ranks", 4, "--cluster", H100)
    assert paper["predicted"]["step_us"] == pytest.approx(forecast["step"]["predicted_us"], rel=1e-9)
    training = plan(*words[:-2], "--ranks", 4, "--cluster", H100)
    for doc, said in ((paper, "recorded versions, options and environment are equal"), (training, "differs: compute: A as the proxy runs, B as in training")):
        (tmp_path / "paper.json").write_text(json.dumps(doc))
        done = busbar.run("compare", "run.json", "paper.json", emulated=False, cwd=tmp_path)
        assert done.returncode == 0 and said in done.stdout


def test_a_run_on_half_of_each_node_is_predicted(busbar, tmp_path):
    """Two nodes with two ranks each of a machine with eight GPUs and eight NICs: a NIC for each rank, not four."""
    profile = ROOT / "profiles/clusters/h100-sxm-ib.json"
    doc = busbar.json("proxy", "gpt2_large", 4, 2, 1, "-n", 2, "--warmup", 1, "--no-alone", "--cluster", profile, tmp_path=tmp_path, ranks=4,
                      env={"EMU_CLUSTER": str(profile), "EMU_NODES": "2", "EMU_DATA": "off"})
    assert doc["nodes"] == 2 and doc["forecast"]["step"]["predicted_us"] == pytest.approx(doc["forecast"]["step"]["measured_us"], rel=1e-6)


def union(spans):
    """Length of a union of (begin, end)."""
    total, reach = 0, -math.inf
    for begin, end in sorted(spans):
        total += max(0, end - max(begin, reach))
        reach = max(reach, end)
    return total


def test_shares_are_unions_of_what_the_trace_shows(busbar, machine, tmp_path):
    trace = tmp_path / "trace.json"
    forecast, rows = run_beside(busbar, tmp_path, STEPS[2], machine(), machine(), "--trace", trace)
    events = [e for e in json.loads(trace.read_text())["traceEvents"]
              if e["ph"] == "X" and e["pid"] == forecast["rank"] and "kind" in e.get("args", {})]
    spans = {}
    for e in events:
        at, args = (e["ts"], e["ts"] + e["dur"]), e["args"]
        for share in [("phase", args["phase"])] + ([("group", args["group"])] if args.get("group") else []):
            spans.setdefault(share, []).append(at)
        spans.setdefault(("part", "communication" if args.get("group") else "compute"), []).append(at)
    assert len(spans) > 6
    for share, at in spans.items():
        assert rows[share]["measured_us"] == pytest.approx(union(at), abs=0.01), share
    comm, compute = spans["part", "communication"], spans["part", "compute"]
    assert rows["part", "exposed"]["measured_us"] == pytest.approx(union(comm + compute) - union(compute), abs=0.01)
    assert rows["part", "idle"]["measured_us"] == pytest.approx(forecast["traced_step"]["measured_us"] - union(comm + compute), abs=0.01)


def test_another_machine_is_off_by_what_differs(busbar, machine, tmp_path):
    """Told links of twice the rate that there is: only what communicates takes longer than predicted, by the model's own formula."""
    real, told = machine("real.json", intra={"latency_us": 2, "gbps": 50}, gpus_per_node=8), machine("told.json", gpus_per_node=8)
    forecast, rows = run_beside(busbar, tmp_path, ("resnet50", "--scale-counts", 0.1, "--compute", "none"), real, told)
    (kind,) = [r for (by, _), r in rows.items() if by == "kind"]
    doc = json.loads((tmp_path / "result.json").read_text())
    traffic = [t for role in doc["roles"] for t in role["traffic"]]
    model = lambda gbps: 2 + sum(t["calls"] * 2 * 2 * 2 + 1.5 * t["bytes"] / gbps / 1e3 for t in traffic)  # 2: the first launch
    assert kind["measured_us"] == pytest.approx(model(50), rel=1e-3)
    assert kind["predicted_us"] == pytest.approx(model(100), rel=1e-3)
    assert kind["error"] == pytest.approx(model(100) / model(50) - 1, abs=1e-3)
    assert forecast["step"]["error"] < -0.3


def test_compare_takes_a_plan_of_a_step_beside_a_run(busbar, machine, tmp_path):
    real, told = machine("real.json", intra={"latency_us": 2, "gbps": 50}, gpus_per_node=8), machine(gpus_per_node=8)
    words = (*STEPS[0], "--forward-us", 100)
    run_beside(busbar, tmp_path, words, real, told)
    (tmp_path / "result.json").rename(tmp_path / "run.json")
    for name, profile in (("same.json", real), ("told.json", told)):
        assert busbar.run("plan", *words, "--ranks", 4, "--cluster", profile, "--json", tmp_path / name, emulated=False).returncode == 0
    same = busbar.run("compare", "run.json", "same.json", emulated=False, cwd=tmp_path)
    assert same.returncode == 0 and "measured / predicted (three): 1.000, geometric mean; no row is slower" in same.stdout
    done = busbar.run("compare", "run.json", "told.json", "--json", "c.json", emulated=False, cwd=tmp_path)
    against = json.loads((tmp_path / "c.json").read_text())["summary"]["against_prediction"]
    parts = {(p["by"], p["name"]): p["ratio"] for p in against["parts"]}
    assert against["rows"] == 1 and against["geometric_mean_ratio"] > 1.001
    assert parts["part", "compute"] == pytest.approx(1, abs=1e-5) and parts["group", "pp"] > 1.05
    assert parts["part", "idle"] is None and "nan" not in done.stdout
    printed = {(by, name): words for by, name, *words in re.findall(r"#   (\w+) +(\S+) +([\d.]+) us, predicted +([\d.]+) us: (.+)", done.stdout)}
    measured, predicted, ratio = printed["group", "pp"]
    assert float(measured) / float(predicted) == pytest.approx(parts["group", "pp"], rel=1e-2) and ratio == f"{parts['group', 'pp']:.3f} x"
    assert printed["part", "idle"][1:] == ["0.0", "-"]
    short = json.loads((tmp_path / "told.json").read_text())
    short["predicted"]["breakdown"]["idle_us"] = 0.5
    (tmp_path / "short.json").write_text(json.dumps(short))
    done = busbar.run("compare", "run.json", "short.json", emulated=False, cwd=tmp_path)
    assert re.search(r"part  idle .*predicted +0\.500 us: 0\.000 x\n", done.stdout), done.stdout


@pytest.mark.parametrize("words,said", [
    (("gpt2_large", "--cluster", "h1000-sxm-ib"), "h100-sxm-ib"), (("all", "--quick", "--cluster", H100), "name one instead of 'all'"),
    (("gpt2_large", "--cluster", "/nowhere/x.json"), "/nowhere/x.json")])
def test_clusters_that_a_run_cannot_be_held_against(busbar, words, said):
    assert said in refused(busbar, "proxy", *words)
