"""Capacity planning with `busbar plan`: global batch sizes, training time, collectives offline, the search for the best layout, and
proxy runs compared with their predictions."""
import csv
import io
import json
import math
import pathlib
import random
import re
import shlex
import statistics

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]

H100 = "h100-sxm-ib"
LLAMA = ("transformer", "--model", "llama2_7b", "--ranks", 16, "--tp", 2, "--pp", 2)


@pytest.fixture
def plan(busbar, tmp_path):
    def run(*args):
        return busbar.json("plan", *args, tmp_path=tmp_path, emulated=False)

    return run


def rejection(busbar, *args):
    done = busbar.run(*args, emulated=False)
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stdout == "" and len(done.stderr.strip().splitlines()) == 1
    return done.stderr


def without_options(doc):
    return {k: v for k, v in doc.items() if k not in ("command", "options")}


# ---- batch size and training time ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("args,b,samples_at_once", [
    (LLAMA, 1, 4), (LLAMA, 2, 8),
    (("data_parallel", "--model", "resnet50", "--ranks", 8), 32, 256),
    (("data_parallel", "--model", "resnet50", "--ranks", 8, "--sync", "ps_sharded", "--servers", 2), 32, 192),
    (("spatial", "--ranks", 10, "--splits", 2), 4, 8),
    (("gems", "--ranks", 4, "--splits", 2, "--replications", 4), 2, 16),
    (("bert_large", 4, 2, "--ranks", 8), None, 32), (("gpt3", 2, "--ranks", 16), None, 2), (("gpt3_moe", 2, "--ranks", 64), None, 32)])
def test_global_batch_size_equals_its_micro_batches(busbar, plan, args, b, samples_at_once):
    args = (*args, "--micro-batch-size", b) if b else args  # the published mini-applications use the batch size of their model
    for m in (4, 6):
        by_batch = plan(*args, "--global-batch-size", m * samples_at_once)
        assert without_options(by_batch) == without_options(plan(*args, "--micro-batches", m))
    line = rejection(busbar, "plan", *args, "--global-batch-size", 5 * samples_at_once + 1)
    assert f"{5 * samples_at_once + 1} is not a multiple of {samples_at_once} samples" in line
    other = r"(, or --tp 8 \(1 replica\))?\n$"  # with which any batch is valid
    assert re.search(f"try: {5 * samples_at_once} or {6 * samples_at_once}{other}", line)
    if samples_at_once > 1:
        assert re.search(f"try: {samples_at_once}{other}", rejection(busbar, "plan", *args, "--global-batch-size", 1))


def test_tokens_give_the_training_time(busbar, plan):
    args = (*LLAMA, "--global-batch-size", 64, "--cluster", H100)
    doc = plan(*args, "--tokens", "2T")
    per_step, step_s = 64 * 4096, doc["predicted"]["step_us"] / 1e6
    training = doc["predicted"].pop("training")
    assert without_options(doc) == without_options(plan(*args))
    assert training["tokens"] == 2e12 and training["steps"] == math.ceil(2e12 / per_step)
    assert training["days"] == pytest.approx(training["steps"] * step_s / 86400, rel=1e-9)
    assert training["gpu_hours"] == pytest.approx(training["days"] * 24 * 16, rel=1e-9)
    text = busbar.run("plan", *args, "--tokens", "2e12", emulated=False).stdout
    days, hours = re.search(rf"^  training +2T tokens: {training['steps']:,} steps, ([0-9,.]+) days, ([0-9.]+)[KM] GPU hours "
                            "without failures, restarts and evaluation; with software megatron by default, see --software$", text, re.M).groups()
    assert float(days.replace(",", "")) == pytest.approx(training["days"], rel=5e-3)
    assert float(hours) in [pytest.approx(training["gpu_hours"] / unit, rel=5e-3) for unit in (1e3, 1e6)]
    assert re.search(r"^  training +1B tokens: 3,815 steps, [0-9.]+ h, [0-9.]+ GPU hours ",
                     busbar.run("plan", *args, "--tokens", "1B", emulated=False).stdout, re.M)  # below two days
    assert "busbar: warning: --tokens 15 is less than the 262144 tokens of one step; with a unit, for example: --tokens 15T" in \
        busbar.run("plan", *args, "--tokens", "15", emulated=False).stderr
    one = plan(*args, "--tokens", 1)["predicted"]["training"]
    assert one["steps"] == 1 and one["days"] * 86400 == pytest.approx(step_s, rel=1e-9)


def test_best_layout_has_the_training_time_of_its_plan(busbar, plan, tmp_path):
    """Also as columns of a sweep, without naming them."""
    options = ["--model", "gpt2_small", "--cluster", H100, "--tokens", "2T", "--mtbf-node", "20d", "--checkpoint", "40s", "--restart", "10m", "--spares", 1]
    args = ("transformer", *options, "--ranks", 16, "--global-batch-size", 64)
    doc = plan(*args, "--best-layout")
    training = plan(*shlex.split(doc["best_layout"]["layouts"][0]["command"])[2:])["predicted"]["training"]
    assert doc["predicted"]["training"] == training and training["with_failures"]["gpu_hours"] > training["gpu_hours"]
    text = busbar.run("plan", *args, "--best-layout", emulated=False).stdout
    assert re.search(rf"# training in layout 1: 2T tokens: {training['steps']:,} steps, .* GPU hours .*\n#   failures: one every 10 days; with .* with 1 spare node, .*\n"
                     "#   lost: steps since the last checkpoint ", text)
    study = {"name": "s", "command": "plan transformer", "ranks": 16, "options": {option[2:]: value for option, value in zip(options[::2], options[1::2])}
             | {"global-batch-size": 64, "best-layout": True}}
    (tmp_path / "s.json").write_text(json.dumps(study))
    done = busbar.run("sweep", "s.json", "--csv", "-", emulated=False, cwd=tmp_path)
    (row,) = csv.DictReader(done.stdout.splitlines())
    assert float(row["predicted.training.days"]) == pytest.approx(training["days"])
    assert float(row["predicted.training.with_failures.days"]) == pytest.approx(training["with_failures"]["days"])


def simulate_failures(rng, intervals, interval_s, checkpoint_s, restart_s, mtbf_s, repair_s=0, spares=None):
    """Event by event: the shares of the time of a training run (goodput, lost steps, checkpoints, restarts, waiting for nodes)."""
    now = lost = restarts = waits = 0.0
    repairs = []

    def fails_within(duration):
        """Passes `duration` or the time until a failure; after a failure waits for a node and restarts."""
        nonlocal now, waits, restarts
        until = rng.expovariate(1 / mtbf_s)
        if until >= duration:
            now += duration
            return None
        now += until
        if spares is not None:
            repairs[:] = sorted(t for t in repairs + [now + rng.expovariate(1 / repair_s)] if t > now)
            if len(repairs) > spares:
                waits += repairs[0] - now
                now = repairs.pop(0)
        return until

    for _ in range(intervals):
        while (until := fails_within(interval_s + checkpoint_s)) is not None:
            lost += until
            while (until := fails_within(restart_s)) is not None:
                restarts += until
            restarts += restart_s
    return [t / now for t in (intervals * interval_s, lost, intervals * checkpoint_s, restarts, waits)]


@pytest.mark.parametrize("mtbf,checkpoint,restart,more", [("3.125d", "27s", "30m", ()), ("1.25d", "13.5m", "10m", ()), ("10d", "4m", "2h", ()),
                                                          ("5d", "1m", "3m", ("--spares", 0, "--repair", "2h")),
                                                          ("2d", "1m", "3m", ("--spares", 3, "--repair", "9h"))])
def test_failures_cost_as_much_as_in_a_simulation(plan, mtbf, checkpoint, restart, more):
    """Checkpoints take 0.0001 to 0.18 of the mean time between failures."""
    in_s = {"d": 86400, "h": 3600, "m": 60, "s": 1}
    seconds = [float(text[:-1]) * in_s[text[-1]] for text in (mtbf, checkpoint, restart, *more[3:])]
    training = plan(*LLAMA, "--global-batch-size", 64, "--cluster", H100, "--tokens", "2T", "--mtbf-node", mtbf, "--checkpoint", checkpoint,
                    "--restart", restart, *more)["predicted"]["training"]
    found = training["with_failures"]
    assert found["mtbf_s"] == pytest.approx(seconds[0] / 2)  # two nodes
    shares = [found[key] for key in ("goodput", "lost_steps", "checkpoints", "restarts", "node_wait")]
    gpus = 16 + 8 * int(more[1] if more else 0)  # spare nodes have GPUs, too
    assert found["gpu_hours"] == pytest.approx(found["days"] * 24 * gpus)
    assert sum(shares) == pytest.approx(1) and found["days"] == pytest.approx(training["days"] / found["goodput"])
    failures = 30000
    simulated = simulate_failures(random.Random(1), int(failures * found["mtbf_s"] * found["goodput"] / found["interval_s"]),
                                  found["interval_s"], seconds[1], seconds[2], found["mtbf_s"], *seconds[3:], *more[1:2])
    assert shares == [pytest.approx(share, rel=0.02, abs=0.002) for share in simulated]
    assert shares[0] == pytest.approx(simulated[0], rel=0.01)
    # The interval is the best one: 3 % shorter and longer ones do not cost less in Daly's expected time, except for its approximation.
    cost = {interval_s: math.expm1((interval_s + seconds[1]) / found["mtbf_s"]) / interval_s
            for interval_s in (found["daly_interval_s"] * factor for factor in (0.9, 1, 1.1))}
    assert min(cost, key=cost.get) == found["daly_interval_s"]


def test_reliability_of_a_large_job(busbar, plan):
    """Daly 2006, equation 37, where sqrt(2 x 10 s x 6480 s) = 360 s; 16,384 GPUs that fail every 1.8 h lose less than 10 % of the time."""
    args = ("transformer", "--model", "llama3_8b", "--ranks", 16384, "--tp", 8, "--dp-sync", "zero1", "--global-batch-size", 16384,
            "--cluster", H100, "--tokens", "15T", "--mtbf-node", "153.6d", "--checkpoint", "10s", "--restart", "3m")
    found = plan(*args)["predicted"]["training"]["with_failures"]
    assert found["mtbf_s"] == pytest.approx(6480) and found["goodput"] > 0.9
    assert found["daly_interval_s"] == pytest.approx(360 + 360 * (1 / 36) / 3 + 360 * (1 / 1296) / 9 - 10)
    text = busbar.run("plan", *args, emulated=False).stdout
    assert "\n  failures      one every 1.8 h; with a checkpoint every 5.89 min: " in text and "GPU hours, goodput 92%\n" in text
    text = busbar.run("plan", *args, "--spares", 4, emulated=False).stdout
    assert re.search("^  failures .* GPU hours with 4 spare nodes, goodput [0-9.]+%$", text, re.M)
    racks = ("transformer", "--model", "llama3_8b", "--ranks", 144, "--cluster", "gb200-nvl72", "--tokens", "1T", "--mtbf-node", "72d", "--checkpoint", "10s",
             "--restart", "3m")  # 36 hosts of 4 GPUs: one fails every 2 days, and each is a spare node
    less, more = (plan(*racks, "--spares", spares, "--repair", "1s")["predicted"]["training"]["with_failures"] for spares in (0, 9))
    assert less["mtbf_s"] == pytest.approx(2 * 86400) and more["gpu_hours"] / less["gpu_hours"] == pytest.approx(45 / 36, rel=1e-3)
    for days, shown in ((1500, "1,500 days"), (999.8, "1,000 days"), (1, "1 day")):
        small = ("transformer", "--model", "gpt2_small", "--ranks", 8, "--cluster", H100, "--tokens", "1T", "--checkpoint", "10s", "--restart", "3m")
        assert f"one every {shown}; with" in busbar.run("plan", *small, "--mtbf-node", f"{days}d", emulated=False).stdout
    small = small[:small.index("--checkpoint")]
    tokens = 1e12 * 999800 / (plan(*small)["predicted"]["training"]["gpu_hours"])  # for 999,800 GPU hours
    assert " 1M GPU hours" in busbar.run("plan", *small, "--tokens", f"{tokens:.0f}", emulated=False).stdout


# ---- collectives, offline -----------------------------------------------------------------------------------------------

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


@pytest.mark.parametrize("ranks,args", [(8, ()), (3, ("-d", "half", "-o", "max")), (1, ())])
def test_predicted_collectives_equal_a_run_on_emulated_gpus(busbar, plan, machine, tmp_path, ranks, args):
    """All collectives, also over nodes of three GPUs: emulated GPUs with the same profile take the same times. The columns equal those
    of bench, except for the host clock, which is not predicted."""
    args = ("all", "-b", "8", "-e", "1M", "-f", "128", *args)
    run = busbar.run("bench", *args, "--full", "-n", 3, "--repeats", 2, "-c", 0, "--clock", "gpu", "--json", tmp_path / "run.json", ranks=ranks,
                     env={"EMU_CLUSTER": str(machine()), "EMU_DATA": "off"})
    assert run.returncode == 0, run.stderr
    offline = busbar.run("plan", *args, "--ranks", ranks, "--cluster", machine(), "--json", tmp_path / "plan.json", emulated=False)
    assert offline.returncode == 0, offline.stderr
    measured, predicted = (json.loads((tmp_path / f).read_text()) for f in ("run.json", "plan.json"))
    assert predicted["schema"] == "busbar.plan/1" and predicted["predicted"].items() >= {"cluster": "three", "slow": []}.items()
    assert (predicted["ranks"], predicted["nodes"]) == (ranks, -(-ranks // 3))
    assert [key(r) for r in predicted["results"]] == [key(r) for r in measured["results"]]
    for a, b in zip(measured["results"], predicted["results"]):
        assert b["time_us"]["p50"] == pytest.approx(a["time_us"]["p50"], abs=1.1e-3), key(a)
        for rate in ("algbw_gbps", "busbw_gbps", "busbw_factor"):
            assert b[rate] == (a[rate] if a[rate] is None else pytest.approx(a[rate], rel=1e-3, abs=1e-9)), key(a)
        assert b["flags"] == ["predicted"] and b["wrong"] is None
    headers = [[line for line in done.stdout.splitlines() if line.startswith(("#       size", "#        (B)"))] for done in (run, offline)]
    assert len(headers[0]) == len(headers[1]) >= 20  # a run has further columns for measured clocks
    assert all(measured.startswith(offline.rstrip()) for measured, offline in zip(*headers))
    assert "modelled, not measured" in offline.stdout


TWO_GPUS_PER_NIC = ("a100-pcie-ib", "h100-nvl-pcie-ib", "h100-pcie-ib", "l40s-pcie-ib")
ONE_GPU_PER_NIC = tuple(p.stem for p in sorted((ROOT / "profiles/clusters").glob("*.json"))
                        if p.stem not in TWO_GPUS_PER_NIC and "emulated" not in p.stem)
FABRIC = {"nodes_per_leaf": 2, "leaf_oversubscription": 4, "nodes_per_pod": 4, "pod_oversubscription": 3}


@pytest.mark.parametrize("clusters,ranks", [(ONE_GPU_PER_NIC, 12), (TWO_GPUS_PER_NIC, 12), (TWO_GPUS_PER_NIC, 16), (TWO_GPUS_PER_NIC, 20),
                                            ((H100,), 1), ((False, True), 20), ((False, True), 36)])
def test_simulated_collectives_equal_the_cost_model(plan, tmp_path, clusters, ranks):
    """The cost model predicts NCCL's collectives; with --slow the step simulator predicts them. A factor of 1 slows down nothing, so both
    agree to the nanosecond: with full and partial nodes, with and without leaf switches, pods and rails."""
    for cluster in clusters:
        if isinstance(cluster, bool):
            profile = json.loads((ROOT / f"profiles/clusters/{TWO_GPUS_PER_NIC[-1] if ranks == 20 else H100}.json").read_text())
            (tmp_path / "fabric.json").write_text(json.dumps(profile | {"fabric": FABRIC | {"rails": cluster}}))
            cluster = tmp_path / "fabric.json"
        args = ("all", "-b", "1K", "-e", "1G", "-f", "1024", "-r", ranks - 1, "--ranks", ranks, "--cluster", cluster)
        link = "node0-nic0" if cluster in TWO_GPUS_PER_NIC + ONE_GPU_PER_NIC else "leaf0"
        even, same = plan(*args), plan(*args, "--slow", f"link={link}:1")
        assert len(even["results"]) > 40
        for a, b in zip(even["results"], same["results"], strict=True):
            assert key(a) == key(b) and b["time_us"]["p50"] == a["time_us"]["p50"], (cluster, key(a))


@pytest.mark.parametrize("nics,sharing", [(3, 3), (5, 2)])
def test_hypercube_on_nics_that_different_numbers_of_gpus_share(plan, tmp_path, nics, sharing):
    """Nodes of 8 GPUs, of which up to `sharing` use one NIC. In a hypercube of 32 ranks, rounds of 1, 2 and 4 slices stay inside a node;
    rounds of 8 and 16 slices leave it on all GPUs, and the NIC with most GPUs ends last."""
    profile = json.loads((ROOT / "profiles/clusters/l40s-pcie-ib.json").read_text())
    (tmp_path / "odd.json").write_text(json.dumps(profile | {"nics_per_node": nics}))
    intra, inter, slice_bytes = profile["intra"], profile["inter"], (16 << 20) / 32
    wanted = 3 * intra["latency_us"] + 7 * slice_bytes / intra["gbps"] / 1e3
    wanted += 2 * inter["latency_us"] + sharing * 24 * slice_bytes / inter["gbps"] / 1e3
    (row,) = plan("hypercube", "--sizes", "16M", "--ranks", 32, "--cluster", tmp_path / "odd.json", "--placement", "in_place")["results"]
    assert profile["gpus_per_node"] == 8 and row["time_us"]["p50"] == pytest.approx(wanted, abs=0.01)


def test_gpus_that_share_a_nic_share_its_bandwidth(plan):
    """12 ranks of L40S on nodes of 8 and 4 GPUs, two GPUs per NIC, slices of 87,376 bytes. alltoall: the two GPUs of a NIC of the second
    node send 8 slices each. gather: the root has its NIC for itself and receives 7 slices over PCIe at the same time. Ring: one GPU
    of each node sends to the other node."""
    profile = json.loads((ROOT / "profiles/clusters/l40s-pcie-ib.json").read_text())
    inter, intra, size = profile["inter"]["gbps"] * 1e3, profile["intra"]["gbps"] * 1e3, 1048512
    where = ("--sizes", size, "--ranks", 12, "--cluster", "l40s-pcie-ib", "--placement", "out_of_place")
    rows = plan("alltoall", "gather", "sendrecv", *where)["results"]
    rows += plan("scatter", "-r", 11, *where)["results"]
    wanted = 2 * 8 * size / 12 / inter, 7 * size / 12 / intra, size / intra, 8 * size / 12 / inter  # this root has 3 ranks on its node
    latencies = [profile["inter"]["latency_us"] + profile["inter"]["message_us"] * messages for messages in (8, 4, 0, 8)]
    assert [r["time_us"]["p50"] - us for r, us in zip(rows, latencies)] == [pytest.approx(us, abs=1e-3) for us in wanted]


@pytest.mark.parametrize("ranks", [2, 8, 12, 72])
def test_alltoallv_with_equal_counts_takes_as_long_as_alltoall(plan, ranks):
    """The alpha-beta model of emulated-default has one latency and one bandwidth for a whole alltoall."""
    for profile in sorted((ROOT / "profiles/clusters").glob("*.json")):
        where = ("--sizes", "8K,8M", "--ranks", ranks, "--cluster", profile.stem, "--placement", "out_of_place")
        even = plan("alltoall", "alltoallv", "--imbalance", 0, *where)["results"]
        us = {name: [row["time_us"]["p50"] for row in even if row["collective"] == name] for name in ("alltoall", "alltoallv")}
        if profile.stem != "emulated-default":
            assert us["alltoallv"] == pytest.approx(us["alltoall"], abs=1.1e-3), profile.stem
        for imbalance in (0.001, 1):
            uneven = plan("alltoallv", "--imbalance", imbalance, *where)["results"]
            assert all(row["time_us"]["p50"] >= us * row["bytes"] / size - 1e-3  # the counts are rounded down
                       for row, us, size in zip(uneven, us["alltoallv"], (8192, 8 << 20), strict=True)), (profile.stem, imbalance)


def test_group_call_takes_time_for_each_message_to_another_node(plan, tmp_path):
    """Four nodes of one GPU on AWS. Rank 0 sends 1 MB to each other rank: three messages, which all end together. If it sends only one, this
    is a send."""
    inter = json.loads((ROOT / "profiles/transports/efa-v2.json").read_text())["inter"]
    for messages, group_us in ((3, inter["group_us"] + 3 * inter["message_us"]), (2, inter["group_us"] + 2 * inter["message_us"]), (1, 0)):
        (tmp_path / "counts").write_text("\n".join(" ".join(str(1000000 * (row == 0 < column <= messages)) for column in range(4)) for row in range(4)))
        (row,) = plan("alltoallv", "--matrix", tmp_path / "counts", "--ranks", 4, "--gpus-per-node", 1, "--cluster", "aws-p5")["results"]
        gbps = 4 * inter["gbps"]  # a GPU of p5 has four ports
        assert row["time_us"]["p50"] == pytest.approx(inter["latency_us"] + group_us + messages * 1e6 / gbps / 1e3, abs=2e-3)


def test_unequal_load_of_experts_does_not_shorten_a_step(plan):
    step = ("transformer", "--model", "qwen3_30b_a3b", "--layers", 2, "--ranks", 32, "--ep", 32, "--dp-sync", "distributed", "--global-batch-size", 64,
            "--seq-length", 1024, "--cluster")
    for cluster in (H100, "aws-p5"):
        even, *uneven = (plan(*step, cluster, "--moe-imbalance", z)["predicted"]["step_us"] for z in (0, 0.001, 0.5))
        assert [us >= even for us in uneven] == [True, True], cluster


def test_slow_link_delays_a_collective_as_it_delays_a_step(plan):
    """The step consists of six all-reduces in sequence."""
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


def changed(tmp_path, **changes):
    """Writes a copy of the H100 profile with other values."""
    profile = json.loads((ROOT / "profiles" / "clusters" / "h100-sxm-ib.json").read_text())
    path = tmp_path / "changed.json"
    path.write_text(json.dumps({**profile, **{k: {**profile[k], **v} if isinstance(v, dict) else v for k, v in changes.items()}}))
    return path


@pytest.mark.parametrize("args", [("all_reduce", "--ranks", 32), ("gpt2_large", 4, 2, 2, "--ranks", 16, "--compute", "timed")])
def test_set_equals_an_edited_profile(plan, tmp_path, args):
    edited = changed(tmp_path, inter={"gbps": 60}, nics_per_node=4)
    of_file = plan(*args, "--cluster", edited)
    of_set = plan(*args, "--cluster", H100, "--set", "inter.gbps=60", "--set", "nics_per_node=4")
    key = "results" if "results" in of_file else "predicted"
    without_name = [{k: v for k, v in doc[key].items() if k != "cluster"} if key == "predicted" else doc[key] for doc in (of_file, of_set)]
    assert without_name[0] == without_name[1] != plan(*args, "--cluster", H100)[key]
    assert of_set["options"]["set"] == ["inter.gbps=60", "nics_per_node=4"]
    assert of_set["predicted"]["cluster"] == "h100-sxm-ib with inter.gbps=60, nics_per_node=4"


def test_set_of_the_node_size_keeps_the_nics_of_each_gpu(plan):
    """A GPU of its own node has one NIC, not the eight of its profile; both keys together are taken as given."""
    args = ("all_reduce", "--ranks", 2, "--sizes", "1G", "--cluster", H100)
    one = plan(*args, "--set", "gpus_per_node=1")["results"]
    assert one == plan(*args, "--gpus-per-node", 1)["results"] == plan(*args, "--set", "gpus_per_node=1.0")["results"] and one[0]["busbw_gbps"] < 50
    assert plan(*args, "--set", "gpus_per_node=1", "--set", "nics_per_node=8")["results"][0]["busbw_gbps"] > 300


def test_slow_node_equals_its_slow_gpus_and_nics(plan):
    args = ("gpt2_large", 12, 4, 3, "--ranks", 16, "--compute", "timed", "--cluster", H100, "--slow")
    parts = [f"rank={r}:2" for r in range(8, 16)] + [f"link=node1-nic{n}:0.5" for n in range(8)]
    node, all_parts = plan(*args, "node1:0.5"), plan(*args, ",".join(parts))
    assert node["predicted"]["slow"] == ["node1:0.5"]
    assert node["predicted"]["step_us"] == all_parts["predicted"]["step_us"]
    collective = ("all_reduce", "--ranks", 16, "-b", "64M", "-e", "64M", "--cluster", H100, "--slow")
    assert plan(*collective, "node1:0.5")["results"] == plan(*collective, ",".join(parts[8:]))["results"]


@pytest.mark.parametrize("ranks", [2, 64])
def test_collective_jitter_is_that_of_its_slowest_rank(plan, ranks):
    """The maximum of n independent normal variables has the distribution function of one of them to the power of n."""
    args = ("all_reduce", "--sizes", "64M", "--placement", "in_place", "--ranks", ranks, "--cluster", H100)
    even = plan(*args)["results"][0]["time_us"]["p50"]
    doc, again, other = (plan(*args, "--jitter", "3%", "--samples", 2000, "--seed", seed) for seed in (7, 7, 8))
    times = doc["results"][0]["time_us"]
    assert doc["predicted"]["jitter"] == {"deviation": pytest.approx(0.03), "seed": 7, "samples": 2000}
    assert doc["results"] == again["results"] != other["results"]
    for name, part in (("p50", 0.5), ("p90", 0.9)):
        wanted = min(3, statistics.NormalDist().inv_cdf(part ** (1 / ranks)))
        assert (times[name] / even - 1) / 0.03 == pytest.approx(wanted, abs=0.12), name
    assert times["max"] <= 1.09 * even + 1e-3 and times["ci95"][0] <= times["p50"] <= times["ci95"][1]
    assert doc["results"][0]["algbw_gbps"] == pytest.approx(2 ** 26 / times["p50"] / 1e3, rel=1e-9)


def test_table_shows_algorithm_and_protocol(busbar, tmp_path):
    """Only for profiles with NCCL variants: small sizes use a low-latency protocol, large sizes do not; send/recv has no variant."""
    args = ("all_reduce", "sendrecv", "--sizes", "8,1G", "--ranks", 64, "--cluster", H100, "--json", tmp_path / "p.json")
    text = busbar.run("plan", *args, emulated=False).stdout
    rows = json.loads((tmp_path / "p.json").read_text())["results"]
    header = next(line for line in text.splitlines() if line.startswith("#       size"))
    assert header.split()[-2:] == ["algorithm", "protocol"]
    lines = [line.split() for line in text.splitlines() if line and line[0] == " "]
    reduced = {r["bytes"]: [r["algorithm"], r["protocol"]] for r in rows if r["collective"] == "all_reduce"}
    assert [line[-2:] for line in lines[:2]] == [reduced[8], reduced[1 << 30]] and all(reduced[8])
    assert reduced[8][1] == "LL" and reduced[1 << 30][1] != "LL"
    assert [line[-2:] for line in lines[2:]] == [["-", "-"]] * 2


def test_compare_finds_rows_slower_than_predicted(busbar, machine, tmp_path):
    """The links carry 80 GB/s and the profile assumes 100 GB/s: large messages are slower than predicted, small messages are not."""
    real, promised = machine("real.json", intra={"latency_us": 2, "gbps": 80}), machine()
    args = ("all_reduce", "--sizes", "1K,16M", "--placement", "out_of_place")
    assert busbar.run("bench", *args, "-n", 3, "--repeats", 6, "-c", 0, "--json", tmp_path / "a.json", ranks=3,
                      env={"EMU_CLUSTER": str(real), "EMU_DATA": "off"}).returncode == 0
    assert busbar.run("plan", *args, "--ranks", 3, "--cluster", promised, "--json", tmp_path / "b.json", emulated=False).returncode == 0
    done = busbar.run("compare", "a.json", "b.json", "--json", "c.json", emulated=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    bytes_ = 16 << 20
    small, large = ((8 + 4 / 3 * n / 80e3) / (8 + 4 / 3 * n / 100e3) for n in (1024, bytes_))
    assert "# A: predicted for three (modelled, not measured)" in done.stdout
    assert f"1 of 2 rows slower than predicted by more than 10 %, worst: all_reduce 16 MiB: {large:.3f} x" in done.stdout
    assert "differs: --" not in done.stdout and "differs: $" not in done.stdout
    against = json.loads((tmp_path / "c.json").read_text())["summary"]["against_prediction"]
    assert against["worst_ratio"] == pytest.approx(large, rel=1e-4)
    assert against["geometric_mean_ratio"] == pytest.approx(math.sqrt(small * large), rel=1e-4)
    assert (against["rows"], against["slower_rows"], against["measured"], against["threshold_percent"]) == (2, 1, "b", 10)
    swapped = busbar.run("compare", "b.json", "a.json", "--threshold", 30, emulated=False, cwd=tmp_path)
    assert swapped.returncode == 0 and "no row is slower than predicted by more than 30 %" in swapped.stdout
    assert busbar.run("compare", "b.json", "a.json", "--threshold", 20, emulated=False, cwd=tmp_path).returncode == 5
    assert "geometric mean; " not in busbar.run("compare", "a.json", "a.json", emulated=False, cwd=tmp_path).stdout


def test_plans_a_ring_of_4_million_ranks(busbar, plan):
    """Equivalent ranks are computed once: all ranks between the ends of the ring are equivalent."""
    doc = plan("sendrecv", "all_gather", "--sizes", "1M", "--ranks", 1 << 22, "--cluster", H100)
    ring, gather = doc["results"][0], doc["results"][1]
    assert ring["time_us"]["p50"] == pytest.approx(16 + 1.048576e6 / 48.5e3, rel=0.01) and gather["bytes"] >= 0


# ---- search for the best layout ----------------------------------------------------------------------------------------------------

SEARCH = ("transformer", "--model", "llama2_7b", "--layers", 8, "--ranks", 16, "--global-batch-size", 64, "--cluster", H100, "--best-layout")
COMPONENTS = ("compute_us", "exposed_transfer_us", "bubble_us", "exposed_waiting_us", "idle_us")


def test_gpus_per_node_changes_the_number_of_nodes_of_a_step(plan):
    """16 GPUs on one node communicate inside the node only. With nodes of 8 GPUs, the default of the profile, gradients cross nodes."""
    step = ("transformer", "--model", "gpt3_1_3b", "--ranks", 16, "--micro-batches", 1, "--cluster", "h100-sxm-ib")
    usual, eights, one_node = (plan(*step, *more)["predicted"] for more in ((), ("--gpus-per-node", 8), ("--gpus-per-node", 16)))
    assert usual["step_us"] == eights["step_us"] > one_node["step_us"]
    assert usual["sharing"]["nic_busy"] > 0 == one_node["sharing"]["nic_busy"]


def test_gpus_per_node_changes_the_number_of_nodes_of_a_collective(plan, tmp_path):
    """Eight ranks, one on each node: a ring with one NIC of 48.5 GB/s per rank. For 1 GiB the latency is less than 1 % of the time."""
    fours = json.loads((ROOT / "profiles/clusters/h100-sxm-ib.json").read_text()) | {"gpus_per_node": 4, "nics_per_node": 4}
    (tmp_path / "fours.json").write_text(json.dumps(fours))
    table = ("all_reduce", "alltoall", "-b", "64K", "-e", "1G", "-f", "16384", "--ranks", 8, "--cluster")
    given, written = plan(*table, H100, "--gpus-per-node", 4), plan(*table, tmp_path / "fours.json")
    assert given["results"] == written["results"] and given["nodes"] == 2
    step = ("gpt2_large", 8, 4, 2, "--ranks", 8, "--cluster")
    assert plan(*step, H100, "--gpus-per-node", 4)["predicted"]["step_us"] == plan(*step, tmp_path / "fours.json")["predicted"]["step_us"]
    alone = plan(*table, H100, "--gpus-per-node", 1)
    assert alone["nodes"] == 8 and alone["results"][2]["bytes"] == 1 << 30
    assert alone["results"][2]["busbw_gbps"] == pytest.approx(48.5, rel=0.01)


@pytest.mark.parametrize("algorithm,key,value,message", [
    ("ring", "chunk_us", 5, "'chunk_us' does not apply to algorithm 'ring', expected only with 'nvls' and 'nvls_tree'"),
    ("nvls", "chunk_us", -1, "chunk_us"), ("nvls_tree", "chunk_us", "5", "chunk_us"),
    ("tree", "channels", 5, "'channels' does not apply to algorithm 'tree', expected only with 'ring', 'nvls' and 'nvls_tree'"),
    ("ring", "channels", 0, "channels"), ("nvls", "channels", 1.5, "channels")])
def test_rejects_chunks_and_channels_of_other_algorithms(busbar, tmp_path, algorithm, key, value, message):
    profile = json.loads((ROOT / "profiles/clusters/h100-sxm-ib.json").read_text())
    next(row for row in profile["nccl"] if row["algorithm"] == algorithm)[key] = value
    (tmp_path / "odd.json").write_text(json.dumps(profile))
    done = busbar.run("plan", "all_reduce", "--ranks", 8, "--cluster", tmp_path / "odd.json", emulated=False)
    assert done.returncode == 2 and message in done.stderr and len(done.stderr.splitlines()) == 1


def test_best_layout_equals_the_plan_with_its_options(busbar, plan, tmp_path):
    """The predictions of the first layout equal the plan with the options of this layout."""
    saving = ("--grad-dtype", "bfloat16", "--overlap-param-gather", "--use-precision-aware-optimizer")
    done = busbar.run("plan", *SEARCH, "--layers", 32, *saving, "--tokens", "1B", "--full", "--top", 3, "--json", tmp_path / "best.json", "--csv", tmp_path / "best.csv",
                      emulated=False)
    text = done.stdout
    args = next(line for line in text.splitlines() if line.startswith("#   command: busbar plan ")).split()[4:]
    doc = json.loads((tmp_path / "best.json").read_text())
    best, rows = doc["best_layout"], doc["best_layout"]["layouts"]
    assert len(rows) == 3 and [r["step_us"] for r in rows] == sorted(r["step_us"] for r in rows)
    assert doc["predicted"]["step_us"] == rows[0]["step_us"]
    assert " ".join(saving[:2]) in text and "such as --grad-dtype, are not searched" in text
    alone = plan(*args)
    training = alone["predicted"]["training"]
    assert f"# training in layout 1: 1B tokens: {training['steps']:,} steps, {24 * training['days']:.3g} h, " in text
    assert alone["predicted"]["step_us"] == pytest.approx(rows[0]["step_us"], abs=1e-3)
    assert alone["predicted"]["tokens_per_s"] == pytest.approx(16 * rows[0]["tokens_per_s_per_gpu"], rel=1e-9)
    required = max(role["training_memory_bytes"]["total"] for role in alone["roles"])
    assert rows[0]["memory_bytes"] == pytest.approx(required, abs=8) and required <= best["available_bytes"]
    for row in rows:
        assert sum(row[part] for part in COMPONENTS) == pytest.approx(row["step_us"], abs=1e-2)
        assert row["tp"] * row["cp"] * row["pp"] * row["dp"] == 16
        assert row["dp"] * row["micro_batch_size"] * row["micro_batches"] == 64
    assert sum(best["rejected"].values()) + best["predicted"] == best["evaluated"]
    assert best["rejected"]["memory"] > 0 and best["fitting"] > best["predicted"]
    assert "#   why: compute " in text and "#   layout 2 takes " in text and "training does not fit" in text
    table = list(csv.DictReader(io.StringIO((tmp_path / "best.csv").read_text())))
    assert [float(r["step_us"]) for r in table] == pytest.approx([r["step_us"] for r in rows])
    assert table[0]["schedule"] == rows[0]["schedule"]


def options_of(row):
    options = [o for o in ("tp", "cp", "ep", "pp", "dp", "schedule", "micro_batch_size", "recompute", "dp_sync", "vpp")
               if o != "vpp" or row["vpp"] > 1]
    return [*["--sequence-parallel"] * row["sequence_parallel"], *["--tp-comm-overlap"] * row["tp_comm_overlap"],
            *["--overlap-param-gather"] * row["overlap_param_gather"],
            *["--recompute-num-layers", row["recompute_num_layers"]] * (row["recompute_num_layers"] is not None),
            *(w for option in options for w in ("--" + option.replace("_", "-"), row[option]))]


def test_best_layouts_with_jitter_are_sorted_by_median(busbar, plan):
    """The search returns the layouts that it returns without jitter. Their steps with jitter equal those of the plan of each layout."""
    given, jitter = ("--cp", 1, "--pp", 1, "--top", 3, "--tokens", "1T"), ("--jitter", "10%", "--samples", 20, "--seed", 4)
    steady, doc = plan(*SEARCH, *given), plan(*SEARCH, *given, *jitter)
    rows = doc["best_layout"]["layouts"]
    assert doc["predicted"]["jitter"] == {"deviation": pytest.approx(0.1), "seed": 4, "samples": 20}
    assert doc["predicted"]["step_us"] == rows[0]["step_us"] and len(rows) == 3
    without_jitter = [{k: v for k, v in row.items() if not k.startswith(("p50", "p95"))} for row in rows]
    assert sorted(without_jitter, key=lambda r: r["step_us"] * (1 + r["penalty"])) == steady["best_layout"]["layouts"]
    medians = [r["p50_step_us"] * (1 + r["penalty"]) for r in rows]
    assert medians == sorted(medians)
    days = doc["predicted"]["training"]["steps"] * rows[0]["p50_step_us"] / 86400e6
    assert doc["predicted"]["training"]["days"] == pytest.approx(days)
    for row in rows[:2]:
        steps = plan(*SEARCH[:-1], *options_of(row), *jitter)["predicted"]["jitter"]["step_us"]
        assert (row["p50_step_us"], row["p95_step_us"]) == (steps["p50"], steps["p95"]) and steps["p50"] > row["step_us"]
    text = busbar.run("plan", *SEARCH, *given, *jitter, emulated=False).stdout
    assert "# p50: the median of 20 steps with 10% jitter (seed 4); " in text and len(re.findall(r"\n# sorted by p50( \+ penalty:|\n)", text)) == 1
    assert text.count("sorted by") == 1


def test_best_layouts_are_an_answer_of_25_lines(busbar):
    """More options shorten the table, except with --top and with --full."""
    args = ("plan", *SEARCH, "--tokens", "1T", "--mtbf-node", "20d", "--checkpoint", "40s", "--restart", "10m",
            "--explain", "--tp 8", "--slow", "rank=3:1.3", "--jitter", "3%", "--samples", 6)
    texts = [busbar.run(*args, *more, emulated=False).stdout for more in ((), ("--full",), ("--top", 11))]
    rows = [len(re.findall(r"^ +\d+  +\d.*%", text, re.M)) for text in texts]
    assert len(texts[0].splitlines()) == 25 and 2 < rows[0] < rows[1] == 10 and rows[2] > 10, texts[0]
    assert f"; --full prints also {rows[1] - rows[0]} more layouts, the commands of " in texts[0]
    assert texts[0].splitlines()[2].startswith("# the best layouts of 16 ranks") and texts[0].splitlines()[-1].startswith(("# accuracy: ", "# step + penalty of layouts 1 "))


@pytest.mark.parametrize("ranks,batch,given,advice", [
    (704, 1024, "", "1012 or 1056"), (704, 1056, "", None), (96, 8, "", None), (96, 256, "--micro-batch-size 2", "252 or 264"), (96, 256, "--pp 3", None), (96, 256, "--dp 8", None)])
def test_search_names_batches_that_dp_divides(busbar, plan, ranks, batch, given, advice):
    """A factor of the ranks that does not divide the batch is left to pp; with an advised batch the best layout has it in dp, and more tokens per second."""
    search = (*"--layers 15 --tp 4 --cp 1 --micro-batch-size 1 --schedule 1f1b --vpp 1 --recompute none --dp-sync distributed --top 1".split(), *given.split())
    args = ("transformer", "--model", "llama3_8b", "--cluster", H100, "--best-layout", "--ranks", ranks, *search, "--global-batch-size")
    text = busbar.run("plan", *args, batch, emulated=False).stdout
    assert re.findall(r"^# the batch of .*; try: --global-batch-size (.*)$", text, re.M) == ([advice] if advice else [])
    if advice:
        factor = int(re.search(r"is no multiple of (\d+), a factor", text)[1])
        given, *others = (plan(*args, n) for n in (batch, *advice.split(" or ")))
        assert all(other["best_layout"]["layouts"][0]["dp"] % factor == 0 for other in others)
        assert max(other["predicted"]["tokens_per_s"] for other in others) > given["predicted"]["tokens_per_s"]


def test_best_layout_with_slow_parts_equals_its_plan(busbar, plan):
    """The time of each layout equals its plan with the same --slow, and its baseline equals the plan without --slow."""
    slow, given = ("--slow", "rank=3:1.3,link=node1-nic2:0.5"), ("--dp-sync", "zero1", "--tp", 2, "--pp", 2, "--top", 3)
    doc = plan(*SEARCH, *slow, *given)
    best = doc["best_layout"]["layouts"][0]
    assert doc["predicted"]["slow"] == slow[1].split(",")
    args = options_of(best)
    for more, key in ((slow, "step_us"), ((), "baseline_step_us")):
        assert plan(*SEARCH[:-1], *args, *more)["predicted"]["step_us"] == pytest.approx(best[key], abs=1e-3)
    assert best["baseline_step_us"] < best["step_us"] < 1.3 * best["baseline_step_us"]
    text = busbar.run("plan", *SEARCH, *slow, *given, "--full", emulated=False).stdout
    assert "# slow: rank=3:1.3\n# slow: link=node1-nic2:0.5\n" in text
    line = text.split("#   time added by the injected parts: layout 1")[1].splitlines()[0]
    assert f"({100 * (best['step_us'] / best['baseline_step_us'] - 1):+.1f}%)" in line
    assert "there is no rank 16" in rejection(busbar, "plan", *SEARCH, "--slow", "rank=16:2")


def test_search_keeps_the_given_options(plan):
    given = {"tp": 4, "pp": 2, "recompute": "full", "recompute_num_layers": 2, "dp_sync": "zero3", "micro_batch_size": 2}
    args = [w for k, v in given.items() for w in ("--" + k.replace("_", "-"), v)]
    rows = plan(*SEARCH, *args)["best_layout"]["layouts"]
    assert rows and all({k: r[k] for k in given} == given for r in rows)
    assert {r["dp"] for r in plan(*SEARCH, "--cp", 1, "--dp", 2)["best_layout"]["layouts"]} == {2}
    assert {r["schedule"] for r in plan(*SEARCH, "--cp", 1, "--vpp", 4)["best_layout"]["layouts"]} == {"interleaved"}


def test_threads_do_not_change_the_result(plan):
    one, many = (plan(*SEARCH, "--cp", 1, "--threads", n)["best_layout"] for n in (1, 5))
    assert one == many


@pytest.mark.parametrize("given,accepted", [("--vpp 3", ""), ("--vpp 2 --pp 1", "--pp 1"), ("--micro-batch-size 128", "--global-batch-size 128 --micro-batch-size 128"),
                                            ("--global-batch-size 10 --pp 4 --vpp 2", "--global-batch-size {} --pp 4 --vpp 2"),
                                            ("--global-batch-size 10 --vpp 3", "--global-batch-size 10")])
def test_the_advice_of_a_search_without_valid_layout_is_accepted(busbar, plan, given, accepted):
    line = rejection(busbar, "plan", *SEARCH, *given.split())
    (advice,) = re.findall(r"(?:try:|leave out) (--.*)$", line, re.M)
    batches = re.findall(r"--global-batch-size (\d+) or (\d+)$", advice)
    assert batches or advice in (given, accepted) or advice in f"{given} {accepted}"
    for batch in batches[0] if batches else [None]:
        assert plan(*SEARCH, *accepted.format(batch).split(), "--top", 1)["best_layout"]["layouts"]


def test_search_finds_interleaved_stages_of_unequal_layers(plan, tmp_path):
    """Dense layers are followed by the same number of MoE layers, which take longer. Interleaving distributes them evenly, so every
    stage computes less than a stage of consecutive layers."""
    model = tmp_path / "unlike.json"
    model.write_text(json.dumps({
        "model_type": "deepseek_v2", "hidden_size": 2048, "num_hidden_layers": 16, "first_k_dense_replace": 8, "intermediate_size": 2048,
        "moe_intermediate_size": 2048, "n_routed_experts": 16, "n_shared_experts": 2, "num_experts_per_tok": 6, "num_attention_heads": 16,
        "num_key_value_heads": 16, "kv_lora_rank": 512, "q_lora_rank": None, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
        "v_head_dim": 128, "vocab_size": 32000, "max_position_embeddings": 4096}))
    args = ("transformer", "--model", model, "--ranks", 16, "--seq-length", 4096, "--global-batch-size", 64, "--cluster", H100, "--pp", 4)
    best = plan(*args, "--best-layout")["best_layout"]["layouts"][0]["step_us"]
    interleaved = plan(*args, "--schedule", "interleaved", "--vpp", 4, "--micro-batch-size", 1, "--dp-sync",
                       "distributed")["predicted"]["step_us"]
    assert best <= interleaved


def test_the_first_layout_does_not_depend_on_top(plan):
    """No plan of one layout is faster, whatever the number of rows."""
    training = ("transformer", "--model", "llama3_8b", "--layers", 8, "--ranks", 32, "--global-batch-size", 128, "--cluster", H100)
    search = (*training, "--best-layout", "--tp", 1, "--recompute", "none", "--micro-batch-size", 1)
    few, many = (plan(*search, "--top", top)["best_layout"]["layouts"] for top in (1, 40))
    assert few[0] == many[0] and few[0]["step_us"] <= plan(*training, "--dp-sync", "zero3")["predicted"]["step_us"]


def test_search_includes_expert_parallelism(plan):
    rows = plan("transformer", "--model", "mixtral_8x7b", "--layers", 8, "--ranks", 32, "--global-batch-size", 128, "--cluster", H100, "--best-layout",
                "--seq-length", 4096, "--dp-sync", "zero1", "--cp", 1, "--tp", 1)["best_layout"]["layouts"]
    assert rows[0]["ep"] > 1 and all(8 % r["ep"] == 0 for r in rows)


# ---- a run compared with its prediction ----------------------------------------------------------------------------------------

STEPS = [("gpt2_large", 4, 2, 3, "--compute", "timed"), ("dlrm", "--compute", "gemm", "--dtype", "bfloat16"),
         ("transformer", "--model", "gpt2_small", "--layers", 4, "--tp", 2, "--pp", 2, "--global-batch-size", 8, "--compute", "gemm")]


def run_with_forecast(busbar, tmp_path, args, real, given, *more):
    doc = busbar.json("proxy", *args, "-n", 3, "--warmup", 1, "--no-alone", "--cluster", given, *more, tmp_path=tmp_path, ranks=4,
                      env={"EMU_CLUSTER": str(real), "EMU_DATA": "off"})
    return doc["forecast"], {(r["by"], r["name"]): r for r in doc["forecast"]["rows"]}


@pytest.mark.parametrize("args", STEPS)
def test_forecast_with_the_same_profile_equals_the_run(busbar, machine, tmp_path, args):
    real = machine()
    forecast, rows = run_with_forecast(busbar, tmp_path, args, real, real)
    assert forecast["cluster"] == "three" and {by for by, _ in rows} == {"part", "phase", "group", "kind"}
    for pair in (forecast["step"], forecast["traced_step"], *rows.values()):
        assert pair["predicted_us"] == pytest.approx(pair["measured_us"], rel=1e-6, abs=2e-3)
    assert forecast["step"]["measured_us"] > 0 and abs(forecast["step"]["error"]) < 1e-6


def test_forecast_of_a_proxy_uses_the_kernels_that_it_launches(busbar, plan, tmp_path):
    """Training fuses and masks attention and accumulates gradients in GEMMs; the proxy does not. With the same profile the forecast of
    the proxy is exact."""
    args = ("transformer", "--model", "llama3_8b", "--layers", 2, "--seq-length", 512, "--tp", 2, "--pp", 2, "--micro-batches", 4,
            "--compute", "gemm")
    profile = ROOT / "profiles/clusters/h100-sxm-ib.json"
    forecast, rows = run_with_forecast(busbar, tmp_path, args, profile, profile)
    assert rows["part", "compute"]["predicted_us"] == pytest.approx(rows["part", "compute"]["measured_us"], rel=1e-4)
    assert abs(forecast["step"]["error"]) < 1e-3
    (tmp_path / "result.json").rename(tmp_path / "run.json")
    offline = plan(*args, "--ranks", 4, "--cluster", H100)
    assert offline["predicted"]["step_us"] == pytest.approx(forecast["step"]["predicted_us"], rel=1e-9)
    training = plan(*args[:-2], "--ranks", 4, "--cluster", H100)
    runs = {how: json.dumps(json.loads((tmp_path / "run.json").read_text()) | {"options": {"compute": how}}) for how in ("gemm", "timed")}
    for how, doc, message in (
            ("gemm", offline, "versions, options and environment: equal where both files record them"),
            ("gemm", training, "differs: compute: A kernels of training, B kernels of the proxy (--compute gemm)\n"
                               "# for the same kernels: plan --compute gemm\n"),
            ("timed", offline, "differs: compute: A kernels of the proxy (--compute gemm), B kernels of the proxy (--compute timed)\n"
                               "# for the same kernels: plan --compute timed\n")):
        (tmp_path / "run.json").write_text(runs[how])
        (tmp_path / "paper.json").write_text(json.dumps(doc))
        done = busbar.run("compare", "run.json", "paper.json", emulated=False, cwd=tmp_path)
        assert done.returncode == 0 and message in done.stdout


def test_forecast_of_a_run_on_half_of_each_node(busbar, tmp_path):
    """Two nodes with eight GPUs and eight NICs each, two ranks per node: each rank has one NIC, not four."""
    profile = ROOT / "profiles/clusters/h100-sxm-ib.json"
    doc = busbar.json("proxy", "gpt2_large", 4, 2, 1, "-n", 2, "--warmup", 1, "--no-alone", "--cluster", profile, tmp_path=tmp_path,
                      ranks=4, env={"EMU_CLUSTER": str(profile), "EMU_NODES": "2", "EMU_DATA": "off"})
    step = doc["forecast"]["step"]
    assert doc["nodes"] == 2 and step["predicted_us"] == pytest.approx(step["measured_us"], rel=1e-6)


def union(spans):
    """Returns the length of the union of intervals (begin, end)."""
    total, reach = 0, -math.inf
    for begin, end in sorted(spans):
        total += max(0, end - max(begin, reach))
        reach = max(reach, end)
    return total


def test_measured_shares_are_unions_of_trace_spans(busbar, machine, tmp_path):
    trace = tmp_path / "trace.json"
    forecast, rows = run_with_forecast(busbar, tmp_path, STEPS[2], machine(), machine(), "--trace", trace)
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


def test_forecast_with_other_links_is_wrong_by_the_cost_model(busbar, machine, tmp_path):
    """The forecast assumes links with twice the real rate: only communication takes longer than predicted, as much as the cost model
    computes."""
    real, given = machine("real.json", intra={"latency_us": 2, "gbps": 50}, gpus_per_node=8), machine("profile.json", gpus_per_node=8)
    forecast, rows = run_with_forecast(busbar, tmp_path, ("resnet50", "--scale-counts", 0.1, "--compute", "none"), real, given)
    (kind,) = [r for (by, _), r in rows.items() if by == "kind"]
    doc = json.loads((tmp_path / "result.json").read_text())
    traffic = [t for role in doc["roles"] for t in role["traffic"]]
    # The first operation takes 2 us to launch.
    model = lambda gbps: 2 + sum(t["calls"] * 2 * 2 * 2 + 1.5 * t["bytes"] / gbps / 1e3 for t in traffic)
    assert kind["measured_us"] == pytest.approx(model(50), rel=1e-3)
    assert kind["predicted_us"] == pytest.approx(model(100), rel=1e-3)
    assert kind["error"] == pytest.approx(model(100) / model(50) - 1, abs=1e-3)
    assert forecast["step"]["error"] < -0.3


def test_compare_accepts_a_step_plan_and_a_run(busbar, machine, tmp_path):
    real, given = machine("real.json", intra={"latency_us": 2, "gbps": 50}, gpus_per_node=8), machine(gpus_per_node=8)
    args = (*STEPS[0], "--forward-us", 100)
    run_with_forecast(busbar, tmp_path, args, real, given)
    (tmp_path / "result.json").rename(tmp_path / "run.json")
    for name, profile in (("same.json", real), ("profile.json", given)):
        assert busbar.run("plan", *args, "--ranks", 4, "--cluster", profile, "--json", tmp_path / name, emulated=False).returncode == 0
    same = busbar.run("compare", "run.json", "same.json", emulated=False, cwd=tmp_path)
    assert same.returncode == 0 and "measured / predicted (three): 1.000, geometric mean; no row is slower" in same.stdout
    done = busbar.run("compare", "run.json", "profile.json", "--json", "c.json", emulated=False, cwd=tmp_path)
    against = json.loads((tmp_path / "c.json").read_text())["summary"]["against_prediction"]
    parts = {(p["by"], p["name"]): p["ratio"] for p in against["parts"]}
    assert against["rows"] == 1 and against["geometric_mean_ratio"] > 1.001
    assert parts["part", "compute"] == pytest.approx(1, abs=1e-5) and parts["group", "pp"] > 1.05
    assert parts["part", "idle"] is None and "nan" not in done.stdout
    printed = {(by, name): times for by, name, *times in
               re.findall(r"#   (\w+) +(\S+) +([\d.]+) [um]s, predicted +([\d.]+) [um]s: (.+)", done.stdout)}
    measured, predicted, ratio = printed["group", "pp"]
    assert float(measured) / float(predicted) == pytest.approx(parts["group", "pp"], rel=1e-2) and ratio == f"{parts['group', 'pp']:.3f} x"
    assert printed["part", "idle"][1:] == ["0.000", "-"]
    short = json.loads((tmp_path / "profile.json").read_text())
    for part in short["predicted"]["breakdown"], *short["predicted"].get("breakdown_by_role", []):
        part["idle_us"] = 500
    (tmp_path / "short.json").write_text(json.dumps(short))
    done = busbar.run("compare", "run.json", "short.json", emulated=False, cwd=tmp_path)
    assert re.search(r"part  idle .*predicted +0\.500 ms: 0\.000 x\n", done.stdout), done.stdout


def test_model_flops_beyond_64_bits(plan):
    doc = plan("transformer", "--model", "gpt2_xl", "--ranks", 1, "--micro-batches", 100, "--micro-batch-size", 100000, "--cluster", H100)
    assert 2**63 < doc["roles"][0]["flops"] == pytest.approx(doc["predicted"]["tflops_per_gpu"] * doc["predicted"]["step_us"] * 1e6)


MIXTRAL = ("transformer", "--model", "mixtral_8x7b", "--layers", 8, "--ranks", 32, "--ep", 8, "--seq-length", 2048, "--micro-batches", 2, "--cluster", H100)


def test_memory_of_imbalanced_experts_follows_their_tokens(plan):
    """Activations grow linearly with the tokens of a rank, and so do its FLOPs; all ranks together have the tokens of the balanced
    router."""
    even, uneven = plan(*MIXTRAL), plan(*MIXTRAL, "--moe-imbalance", 1)
    activations = [role["training_memory_bytes"]["activations"] for role in uneven["roles"]]
    flops = [role["flops"] for role in uneven["roles"]]
    assert len(activations) == 8 and max(activations) > 1.2 * min(activations)
    assert statistics.correlation(activations, flops) > 0.9999
    assert statistics.mean(activations) == pytest.approx(even["roles"][0]["training_memory_bytes"]["activations"], rel=0.001)
    needed = [max(role["training_memory_bytes"]["total"] for role in doc["roles"]) for doc in (even, uneven)]
    assert [doc["predicted"]["memory"]["needed_bytes"] for doc in (even, uneven)] == needed


def test_slower_links_scale_the_variants_of_nccl(plan):
    """Half the rate of all links within the node: an all_gather of 1 GiB takes twice as long; a changed variant keeps its value."""
    args = ("all_gather", "--ranks", 8, "--sizes", "1G", "--cluster", H100, "--placement", "in_place")
    full, half, kept = (plan(*args, *more)["results"][0] for more in (
        (), ("--set", "intra.gbps=165"), ("--set", "intra.gbps=165", "--set", "nccl.ring.Simple.gbps=360")))
    assert half["time_us"]["p50"] == pytest.approx(2 * full["time_us"]["p50"], rel=0.01)
    assert kept["time_us"]["p50"] == pytest.approx(370 / 360 * full["time_us"]["p50"], rel=0.01)


WHAT_SHOWS_A_KEY = [
    ("all_reduce", "alltoall", "--ranks", 8, "--sizes", "1K,64M"), ("all_reduce", "alltoall", "--ranks", 16, "--sizes", "1K,64M"),
    ("transformer", "--model", "gpt3_350m", "--ranks", 16, "--tp", 2, "--pp", 2, "--micro-batches", 2, "--dtype", "bfloat16"),
    ("transformer", "--model", "gpt3_350m", "--ranks", 2, "--micro-batches", 2, "--dtype", "half"),
    ("transformer", "--model", "gpt3_350m", "--ranks", 2, "--micro-batches", 2, "--dtype", "float"),
    ("transformer", "--model", "gpt3_350m", "--ranks", 2, "--micro-batches", 2, "--fp8"),
    ("transformer", "--model", "mixtral_8x7b", "--ranks", 4, "--ep", 4, "--micro-batches", 2, "--seq-length", 4096)]
# no proxy computes in double; only emulated GPUs report their clock; only `bench copy` and `health` copy over PCIe and from GPU to GPU
WITHOUT_EFFECT = {"tflops.float64", "clock_khz", "pcie_gbps", "peer_gbps"}


def numeric_keys():
    """Paths of the numbers of the profile, except those of NCCL's variants."""
    profile = json.loads((ROOT / "profiles" / "clusters" / f"{H100}.json").read_text())
    for key, value in profile.items():
        for path, number in [(f"{key}.{inner}", v) for inner, v in value.items()] if isinstance(value, dict) else [(key, value)]:
            if isinstance(number, (int, float)) and not isinstance(number, bool):
                yield path, number


def test_each_key_of_the_profile_changes_a_prediction(plan):
    def predict(args, *more):
        doc = plan(*args, "--cluster", H100, *more)
        return doc.get("results") or {k: v for k, v in doc["predicted"].items() if k != "cluster"}

    before = [predict(args) for args in WHAT_SHOWS_A_KEY]
    silent = set()
    for key, number in numeric_keys():
        change = f"{key}={number * (20 if key == 'sharing.message_sms' else 2)}"
        if all(predict(args, "--set", change) == was for args, was in zip(WHAT_SHOWS_A_KEY, before)):
            silent.add(key)
    assert silent == WITHOUT_EFFECT
