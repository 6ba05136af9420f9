"""--trace of `busbar proxy` and `busbar plan`: the trace of an emulated run equals the predicted trace."""
import collections
import json
import pathlib

import pytest

NO_DATA = {"EMU_DATA": "off"}
CLUSTER = pathlib.Path(__file__).resolve().parents[1] / "proxies" / "nominal_h100.json"
STEP = ("gpt2_large", 4, 2, 2, "--compute", "timed")


def traced(path):
    trace = json.loads(path.read_text())
    return trace["otherData"], trace["traceEvents"]


def slices(events):
    return {(e["pid"], e["tid"], e["name"], e["ts"], e["dur"]) for e in events if e["ph"] == "X"}


@pytest.mark.smoke
def test_run_trace_matches_predicted_trace(busbar, tmp_path):
    done = busbar.run("plan", *STEP, "--ranks", 4, "--cluster", CLUSTER, "--trace", tmp_path / "plan.json")
    assert done.returncode == 0, done.stderr
    done = busbar.run("proxy", *STEP, "--steps", 2, "--no-alone", "--trace", tmp_path / "run.json", ranks=4,
                      env={**NO_DATA, "EMU_CLUSTER": str(CLUSTER)})
    assert done.returncode == 0, done.stderr
    size = (tmp_path / "run.json").stat().st_size
    assert f"# wrote {tmp_path / 'run.json'}: the trace, {size / 1024:.1f} KiB\n" in done.stdout
    plan_head, plan = traced(tmp_path / "plan.json")
    run_head, run = traced(tmp_path / "run.json")
    assert slices(plan) == slices(run)
    assert plan_head["times"] == "predicted for nominal-h100" and run_head["times"].startswith("emulated")
    assert plan_head["clock"]["error_us"] == 0 and run_head["clock"]["error_us"] > 0
    assert run_head["ranks_shown"] == [0, 1, 2, 3]
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in run if e["name"] == "thread_name"}
    assert [names[0, tid] for tid in range(4)] == ["step", "compute", "pp", "dp"]
    assert all("gpu" in e["args"]["name"] for e in run if e["name"] == "process_name")
    ends = collections.Counter(e["id"] for e in run if e["ph"] in "sf" and e["name"] == "message")
    assert len(ends) == 8 and set(ends.values()) == {2}


@pytest.mark.parametrize("args,ranks", [
    (("gpt3_350m", "--pp", 4, "--micro-batches", 8), 4),
    (("gpt3_350m", "--pp", 2, "--tp", 2, "--sequence-parallel", "--micro-batches", 4, "--slow", "rank=1:1.5"), 8)], ids=["stages", "slow"])
def test_exposed_time_of_the_trace_is_that_of_the_report(busbar, tmp_path, args, ranks):
    """The slices by cause do not overlap, and each cause adds up to that of the report, also of the last stage, which waits for the first
    one in an all_reduce of the embedding."""
    done = busbar.run("plan", "transformer", "--model", *args, "--ranks", ranks, "--cluster", "h100-sxm-ib", "--trace", tmp_path / "trace.json",
                      "--json", "-", emulated=False)
    assert done.returncode == 0, done.stderr
    events = traced(tmp_path / "trace.json")[1]
    for role in json.loads(done.stdout)["predicted"]["breakdown_by_role"]:
        inside = sorted((e["ts"], e["dur"], e["name"]) for e in events if e["ph"] == "X" and (e["pid"], e["tid"]) == (role["rank"], 0) and
                        e["name"] != "step")
        assert all(a[0] + a[1] <= b[0] + 1e-6 for a, b in zip(inside, inside[1:]))
        for name, key in (("exposed transfer", "exposed_transfer_us"), ("bubble", "bubble_us"), ("waiting", "exposed_waiting_us")):
            assert sum(dur for _, dur, cause in inside if cause == name) == pytest.approx(role[key], abs=1e-3), (name, role["role"])


def memory(events):
    """{rank: [(time in us, {use: bytes})]} of the counters of the memory that a rank holds"""
    held = collections.defaultdict(list)
    for e in events:
        if e["ph"] == "C" and e["name"] in ("training memory", "buffers"):
            held[e["pid"]].append((e["ts"], e["args"]))
    return held


def peaks(held):
    return {rank: {use: max(args[use] for _, args in points) for use in points[0][1]} for rank, points in held.items()}


@pytest.mark.parametrize("args,ranks,field", [
    (("gems", "--splits", 4, "--compute", "timed"), 4, "training_memory_bytes"),
    (("transformer", "--model", "gpt2_small", "--pp", 2, "--vpp", 2, "--micro-batches", 4, "--recompute", "full", "--compute", "timed"), 4,
     "training_memory_bytes"),
    (("gpt2_large", 4, 2, 2, "--compute", "timed"), 4, "memory_bytes")], ids=["gems", "interleaved", "buffers"])
def test_peak_of_the_memory_counters_is_the_memory_of_the_plan(busbar, tmp_path, args, ranks, field):
    """A run has the same counters as the prediction, whose maxima are those of the plan."""
    done = busbar.run("plan", *args, "--ranks", ranks, "--cluster", CLUSTER, "--trace", tmp_path / "plan.json", "--json", tmp_path / "p.json")
    assert done.returncode == 0, done.stderr
    done = busbar.run("proxy", *args, "-n", 1, "--warmup", 1, "--no-alone", "--trace", tmp_path / "run.json", ranks=ranks,
                      env={**NO_DATA, "EMU_CLUSTER": str(CLUSTER)})
    assert done.returncode == 0, done.stderr
    plan, run = (memory(traced(tmp_path / name)[1]) for name in ("plan.json", "run.json"))
    roles = json.loads((tmp_path / "p.json").read_text())["roles"]
    uses = ("parameters", "gradients", "optimizer", "activations", "communication")
    expected = {rank: {use: role[field][use] for use in uses} for role in roles for rank in role["ranks"]}
    assert peaks(plan) == expected == peaks(run)
    assert {rank: [args for _, args in points] for rank, points in plan.items()} == {rank: [args for _, args in points] for rank, points in run.items()}


def test_gems_holds_the_activations_of_one_replica_at_a_time(busbar, tmp_path):
    """MAST: on every rank the activations rise in the forward and fall in the backward of the first replica, are 0, and then rise and fall
    for the second one. The second replica begins on the last rank, which ends its backward first."""
    done = busbar.run("plan", "gems", "--splits", 4, "--ranks", 4, "--forward-us", 1000, "--backward-us", 2000, "--cluster", CLUSTER,
                      "--trace", tmp_path / "t.json")
    assert done.returncode == 0, done.stderr
    _, events = traced(tmp_path / "t.json")
    passes = {(e["pid"], e["args"]["micro_batch"], e["args"]["phase"]): e for e in events if e["ph"] == "X" and e["cat"] == "compute"}
    begins = {}
    for rank, points in memory(events).items():
        values = [(at, args["activations"]) for at, args in points]
        turn, end = (e["ts"] + e["dur"] for e in (passes[rank, number, "backward"] for number in (0, 1)))
        for inside in ([v for at, v in values if at < turn - .01], [v for at, v in values if at > turn - .01]):
            top = inside.index(max(inside))
            assert len(inside) > 10 and inside[:top + 1] == sorted(inside[:top + 1]) and inside[top:] == sorted(inside[top:], reverse=True)
        begins[rank] = min(at for at, value in values if at > turn - .01 and value > 0)
        at_turn = [value for at, value in values if at == pytest.approx(turn, abs=.01)]
        assert at_turn == [0] or begins[rank] == pytest.approx(turn, abs=.01)
        assert values[-1] == (pytest.approx(end, abs=.01), 0)
    assert sorted(begins, key=begins.get) == [3, 2, 1, 0]


def critical(events):
    return {(e["pid"], e["tid"], e["name"], e["ts"]) for e in events if e.get("args", {}).get("critical")}


def test_critical_path_is_marked_and_sums_to_the_step(busbar, tmp_path):
    """The critical path of an emulated run is part of the predicted critical path. The parts of the path add up to the step time."""
    args = (*STEP, "--trace", tmp_path / "plan.json", "--json", tmp_path / "p.json")
    assert busbar.run("plan", *args, "--ranks", 4, "--cluster", CLUSTER).returncode == 0
    done = busbar.run("proxy", *STEP, "--steps", 2, "--no-alone", "--trace", tmp_path / "run.json", "--json", tmp_path / "r.json", ranks=4,
                      env={**NO_DATA, "EMU_CLUSTER": str(CLUSTER)})
    assert done.returncode == 0, done.stderr
    _, plan = traced(tmp_path / "plan.json")
    _, run = traced(tmp_path / "run.json")
    path = json.loads((tmp_path / "p.json").read_text())["predicted"]["critical_path"]
    run_path = json.loads((tmp_path / "r.json").read_text())["critical_path"]
    assert critical(run) < critical(plan) and run_path == path  # a plan marks all equal ranks, a run marks one of them
    step = max(e["dur"] for e in plan if e["ph"] == "X" and e["name"] == "step")
    parts = {k: v for k, v in path.items() if k.endswith("_us")}
    assert sum(parts.values()) == pytest.approx(step, abs=1e-3)
    assert parts["waiting_us"] == 0 and parts["compute_us"] > 0 < parts["transfer_us"]
    spans = {(e["pid"], e["tid"], e["ts"]): e["ts"] + e["dur"] for e in plan if e.get("args", {}).get("critical")}
    arrows = collections.defaultdict(dict)
    for e in plan:
        if e["name"] == "critical path":
            arrows[e["id"]][e["ph"]] = e
            assert any(pid == e["pid"] and tid == e["tid"] and ts <= e["ts"] <= end for (pid, tid, ts), end in spans.items())
    assert len(arrows) == path["operations"] - 1 and all(set(a) == {"s", "f"} and a["s"]["ts"] <= a["f"]["ts"] for a in arrows.values())


def test_trace_of_a_large_plan_contains_64_ranks(busbar, tmp_path):
    path = tmp_path / "t.json"
    done = busbar.run("plan", "gpt2_large", 8, 4, 2, "--ranks", 4096, "--cluster", CLUSTER, "--trace", path)
    assert done.returncode == 0, done.stderr
    head, events = traced(path)
    assert head["ranks"] == 4096 and len(head["ranks_shown"]) == 64
    assert {0, 4095} <= set(head["ranks_shown"])
    assert {e["pid"] for e in events} == set(head["ranks_shown"])
