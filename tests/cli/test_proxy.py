"""`busbar proxy` on emulated GPUs: traffic, metrics, data checks, NVTX ranges, injected faults, and rejected input."""
import collections
import json
import pathlib
import re

import pytest

from conftest import ROOT

QUICK = ("--warmup", 1, "--steps", 3, "--traced-steps", 1)
NO_DATA = {"EMU_DATA": "off"}
NOMINAL = pathlib.Path(__file__).resolve().parents[1] / "proxies" / "nominal_h100.json"
ROUND = pathlib.Path(__file__).resolve().parents[1] / "proxies" / "round.json"
LAYOUTS = [  # name, words, ranks
    ("gpt2_large", (4, 2, 3), 4),
    ("gpt2_large", (8, 4, 2), 8),
    ("gpt2_large", (6, 2), 2),
    ("bert_large", (4, 4), 4),
    ("bert_large", (8, 2, 4), 8),
]
NCCL_NAME = {"send": "ncclSend", "recv": "ncclRecv", "all_reduce": "ncclAllReduce", "all_gather": "ncclAllGather",
             "reduce_scatter": "ncclReduceScatter", "broadcast": "ncclBroadcast", "alltoall": "ncclAlltoAll"}


def planned(busbar, name, args, ranks, *options, env=None):
    done = busbar.run("plan", name, *args, "--ranks", ranks, *options, "--json", "-", env=env)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def traffic_by_rank(roles):
    """Traffic of a plan or a run: {rank: {(NCCL function, group size, count): calls}}."""
    traffic = collections.defaultdict(collections.Counter)
    for role in roles:
        for rank in role["ranks"]:
            for row in role["traffic"]:
                traffic[rank][NCCL_NAME[row["kind"]], row["group_size"], row["count"]] += row["calls"]
    return traffic


def recorded(prefix, rank, ranks, traced=1):
    """NCCL calls of one rank and its number of steps. One-element all-reduces are the barriers at the start of steps and do not count as
    calls. A traced step has two of them."""
    calls = collections.Counter()
    starts = 0
    for line in pathlib.Path(f"{prefix}.{rank}").read_text().splitlines():
        function, size, _own, _peer, count, _dtype = line.split()
        if function == "ncclAllReduce" and int(count) == 1 and int(size) == ranks:
            starts += 1
        elif function in ("ncclSend", "ncclRecv") and int(count) == 1:
            pass  # connects a pair before steps that cannot be serialised
        else:
            calls[function, int(size), int(count)] += 1
    return calls, starts - traced


def recorder(busbar, tmp_path):
    """The environment of a run without data that records the NCCL calls of each rank for assert_executed."""
    return {**NO_DATA, "NCCL_RECORD": str(tmp_path / "calls"), "LD_PRELOAD": str(busbar.build / "tests" / "nccl_recorder.so")}


def assert_executed(tmp_path, run, plan, expected_steps):
    """The traffic that each rank has executed equals the plan."""
    assert run["roles"] == plan["roles"]
    expected = traffic_by_rank(plan["roles"])
    assert sorted(expected) == list(range(run["ranks"]))
    for rank in expected:
        calls, steps = recorded(tmp_path / "calls", rank, run["ranks"])
        assert steps == expected_steps
        assert calls == {key: n * steps for key, n in expected[rank].items()}


@pytest.mark.parametrize("name,args,ranks", LAYOUTS)
def test_executed_traffic_per_tensor_matches_the_plan(busbar, tmp_path, name, args, ranks):
    plan = planned(busbar, name, args, ranks, "--per-tensor")
    run = busbar.json("proxy", name, *args, "--per-tensor", *QUICK, ranks=ranks, env=recorder(busbar, tmp_path), tmp_path=tmp_path)
    assert_executed(tmp_path, run, plan, 1 + 3 + 1)


def assert_same_breakdown(run, predicted):
    """The traced breakdown of each role equals the predicted breakdown."""
    keys = ("step_us", "compute_us", "comm_us", "exposed_us", "idle_us")
    traced = {row["role"]: row for row in run["breakdown_by_role"]}
    assert set(traced) == {row["role"] for row in predicted["breakdown_by_role"]}
    for row in predicted["breakdown_by_role"]:
        assert [traced[row["role"]][k] for k in keys] == pytest.approx([row[k] for k in keys], abs=1)
    for group in predicted["groups"]:
        measured = next(g for g in run["groups"] if g["name"] == group["name"])
        assert measured["bytes"] == group["bytes"]
        assert measured["busy_us"] == pytest.approx(group["busy_us"], abs=1)
        assert measured["exposed_us"] == pytest.approx(group["exposed_us"], abs=1)


@pytest.mark.parametrize("name,args,ranks", LAYOUTS)
@pytest.mark.parametrize("compute", [(), ("--compute", "timed", "--forward-us", 100)], ids=["none", "timed"])
def test_predicted_step_and_traffic_match_emulated_step(busbar, tmp_path, name, args, ranks, compute):
    for cluster in (ROUND, NOMINAL):
        env = {**recorder(busbar, tmp_path), "EMU_CLUSTER": str(cluster)}
        plan = planned(busbar, name, args, ranks, *compute, "--cluster", cluster)
        run = busbar.json("proxy", name, *args, *compute, *QUICK, "--no-alone", ranks=ranks, env=env, tmp_path=tmp_path)
        assert run["step_us"]["p50"] == pytest.approx(plan["predicted"]["step_us"], abs=1), cluster.name
        assert run["step_us"]["min"] == run["step_us"]["max"]
        assert_same_breakdown(run, plan["predicted"])
        assert_executed(tmp_path, run, plan, 1 + 3 + 1)


@pytest.mark.parametrize("name,args,ranks", [
    ("resnet50", (), 4),
    ("resnet50_ring", (), 3),
    ("resnet152", (), 4),
    ("cosmoflow", (), 8),
    ("dlrm", (), 4),
    ("gpt3", (2, 2), 8),
    ("gpt3_one_pipe_step", (2, 1), 8),
    ("gpt3_moe", (2, 1), 32),
    ("gpt3_moe_one_pipe_step", (2, 1), 32),
])
def test_every_proxy_matches_its_plan(busbar, tmp_path, name, args, ranks):
    cluster = NOMINAL
    env = {**recorder(busbar, tmp_path), "EMU_CLUSTER": str(cluster)}
    timed = () if name.startswith("resnet50") else ("--compute", "timed")
    plan = planned(busbar, name, args, ranks, *timed, "--cluster", cluster)
    run = busbar.json("proxy", name, *args, *timed, "--warmup", 0, "--steps", 1, "--traced-steps", 1, "--no-alone",
                      ranks=ranks, env=env, tmp_path=tmp_path)
    assert run["step_us"]["p50"] == pytest.approx(plan["predicted"]["step_us"], abs=1)
    assert_same_breakdown(run, plan["predicted"])
    assert_executed(tmp_path, run, plan, 2)


@pytest.mark.parametrize("line,compute,memory", [
    ("gpt2_large 4 2 2", r"none \(--compute none\); try: transformer --model gpt2_large", r"buffers of the proxy \(not of training\) need .*: fits"),
    ("gpt2_large 4 2 2 --compute timed", r"at a fixed 119.8 TFLOP/s \(--tflops, default\), NOT at the rate of Emulated GPU; at its own rate: --compute gemm", ""),
    ("gpt2_large 4 2 2 --compute timed --forward-us 9", r"times as given \(--forward-us, --backward-us\)", ""),
    ("transformer --model llama3_8b --tflops 400", r"at a fixed 400.0 TFLOP/s \(--tflops\), NOT at the rate of Emulated GPU",
     "training needs 172.1 GiB of 74.5 GiB per GPU: DOES NOT FIT; this run needs 30 GiB"),
    ("transformer --model gpt2_small --compute gemm", "the kernels of the layers, on these GPUs", "training needs .*: fits; .*"),
    ("transformer --model gpt2_small --compute none", r"none \(--compute none\)", "training needs .*")])
def test_report_begins_with_the_source_of_compute_times_and_the_memory_of_training(busbar, tmp_path, line, compute, memory):
    """172.1 GiB: as of plan; 74.5 GiB: the 80e9 bytes of the emulated GPU."""
    done = busbar.run("proxy", *line.split(), *ONE, "--json", tmp_path / "r.json", ranks=4, env=NO_DATA)
    run = json.loads((tmp_path / "r.json").read_text())
    assert re.search(f"^# compute: {compute}$", done.stdout, re.M) and re.search(f"^# memory: {memory or '.*'}$", done.stdout, re.M)
    assert run["memory"]["fits"] == ("DOES NOT FIT" not in done.stdout)
    assert run["compute"] is None if "gemm" in line else re.fullmatch(compute, run["compute"])


@pytest.mark.smoke
def test_result_contains_header_breakdown_and_metrics(busbar, tmp_path):
    run = busbar.json("proxy", "gpt2_large", 4, 2, 2, "--compute", "timed", *QUICK, ranks=4, env=NO_DATA,
                      tmp_path=tmp_path)
    assert run["schema"] == "busbar.proxy/1" and run["status"] == "ok" and run["emulated"] is True
    assert run["ranks"] == 4 and len(run["devices"]) == 4
    assert {"matched", "deadlock_free", "safe_serialised"} <= set(run["checks"])
    assert run["steps"] == 3 and run["traced_steps"] == 1
    b = run["breakdown"]
    assert b["step_us"] == pytest.approx(b["compute_us"] + b["exposed_us"] + b["idle_us"], abs=0.01)
    assert b["overlap_fraction"] == pytest.approx((b["comm_us"] - b["exposed_us"]) / b["comm_us"])
    groups = {g["name"]: g for g in run["groups"]}
    assert set(groups) == {"pp", "dp"} and groups["dp"]["busbw_gbps"] > 0
    assert all(g["busy_us"] >= g["exposed_us"] >= 0 for g in groups.values())
    lost = run["overlap"]["lost_to_comm"]
    assert lost["total_us"] == pytest.approx(lost["exposed_us"] + lost["slowdown_us"] + lost["idle_us"], abs=0.01)
    assert b["exposed_us"] == pytest.approx(b["exposed_transfer_us"] + b["exposed_waiting_us"], abs=0.01)
    assert lost["exposed_us"] == pytest.approx(lost["transfer_us"] + lost["waiting_us"], abs=0.01)
    o = run["overlap"]
    busy = o["compute_alone_us"]
    assert o["overlap_efficiency"] == pytest.approx((busy + o["comm_alone_us"] - o["both_us"]) / min(busy, o["comm_alone_us"]), abs=0.01)
    # The last stage computes after each shift, the first stage before, so the first stage waits for one micro-batch of two layers.
    assert b["exposed_waiting_us"] == pytest.approx(2 * (run["options"]["forward_us"] + run["options"]["backward_us"]), rel=0.001)
    assert {r["role"] for r in run["breakdown_by_role"]} == {r["name"] for r in run["roles"]}
    assert run["check"] == {"enabled": False, "wrong": None, "flags": ["not_checked"]}
    assert run["traced_step_us"]["min"] == run["traced_step_us"]["max"] == pytest.approx(run["step_us"]["p50"], abs=1)
    assert run["traced_issue_us"]["p50"] > 0 and run["communicators"] == "blocking"
    for role in run["breakdown_by_role"]:
        for group in role["groups"]:
            assert group["transfer_us"] > 0 and group["waiting_us"] >= 0
            assert group["name"] != "dp" or group["busy_us"] == pytest.approx(group["transfer_us"] + group["waiting_us"], abs=1)


def test_short_reports_contain_all_terms_of_their_lost_time(busbar):
    """The formulas of the README, from the printed numbers."""
    args = ("gpt3", 2, 1, "--forward-us", 500, "--backward-us", 1000, "--scale-counts", 1e-4)
    text = busbar.run("proxy", *args, "--compute", "timed", *QUICK, ranks=8, env={**NO_DATA, "EMU_CLUSTER": str(NOMINAL)}).stdout
    comm, both, efficiency = map(float, re.search(r"communication alone (.*) us, both (.*) us, overlap efficiency (\S+)", text).groups())
    step, alone, lost, causes = re.search(r"on rank 0 \(us\): (.*) - (.*) compute alone = (.*?) = (.*)", text).groups()
    bubble, *others = (float(cause.split()[0]) for cause in causes.split(" + "))
    assert float(lost) == pytest.approx(float(step) - float(alone), abs=0.2) == pytest.approx(bubble + sum(others), abs=0.3)
    assert efficiency == pytest.approx((float(alone) + bubble + comm - both) / min(float(alone) + bubble, comm), abs=0.002)
    text = busbar.run("plan", *args, "--ranks", 8, "--compute", "timed", "--cluster", NOMINAL, emulated=False).stdout
    step, compute, exposed = map(float, re.search(r"step +(.*) ms = compute (.*) ms \+ exposed (.*) ms;", text).groups())
    hidden, comm = map(float, re.search(r"hidden +(.*)% of (.*) ms communication", text).groups())
    parts = re.search(r"exposed  +(.*) ms transfer \+ (.*) ms pipeline bubble \+ (.*) ms waiting", text).groups()
    assert step == pytest.approx(compute + exposed, rel=0.01) and exposed == pytest.approx(sum(map(float, parts)), rel=0.01)
    assert hidden == pytest.approx(100 * (1 - exposed / comm), abs=1)


def test_only_dependent_stages_have_a_pipeline_bubble(busbar, tmp_path):
    """The bubble of GPipe is (stages - 1) x (forward + backward) of a micro-batch. Stages in lock step have no bubble: null."""
    cluster = ("--cluster", NOMINAL)
    for args, ranks, bubble in ((("bert_large", 4, 2, 2, "--forward-us", 500), 2, None), (("gpt3", 2, 1, "--forward-us", 500, "--backward-us", 1000, "--scale-counts", 1e-4), 8, 1500)):
        run = busbar.json("proxy", *args, "--compute", "timed", *cluster, *QUICK, ranks=ranks, env={**NO_DATA, "EMU_CLUSTER": str(NOMINAL)},
                          tmp_path=tmp_path)
        plan = busbar.json("plan", *args, "--compute", "timed", "--ranks", ranks, *cluster, tmp_path=tmp_path)["predicted"]
        for step in (run, plan):
            for row in [step["breakdown"], *step["breakdown_by_role"]]:
                assert (row["bubble_us"] is None) == (bubble is None) and row["imbalance_us"] == (None if bubble is None else pytest.approx(0, abs=3))
            assert bubble is None or step["breakdown"]["bubble_us"] == pytest.approx(bubble, rel=0.05)
        assert run["overlap"]["lost_to_comm"]["bubble_us"] == run["breakdown"]["bubble_us"]
        for text in (busbar.run("plan", *args, "--compute", "timed", "--ranks", ranks, *cluster).stdout,
                     busbar.run("proxy", *args, "--compute", "timed", *QUICK, ranks=ranks, env=NO_DATA).stdout):
            assert ("no pipeline bubble" in text) == (bubble is None)
            assert re.sub(r"\n  batch .*| \(the pipeline bubble counts as compute\)", "", text).count("pipeline bubble") == 1 and "unequal" not in text


def test_bubble_of_unequal_stages_names_their_imbalance(busbar, tmp_path):
    """With 1F1B, the last stage the longest, and m micro-batches, the bubble of stage i is m (t_max - t_i), its imbalance, plus the times of
    the other stages for one micro-batch: forwards before the last stage begins, backwards after it ends."""
    args, m = ("transformer", "--model", "gpt2_small", "--pp", 4, "--decoder-last-pipeline-num-layers", 6, "--micro-batches", 16), 16
    plan = busbar.json("plan", *args, "--ranks", 8, "--graph", "--cluster", "h100-sxm-ib", tmp_path=tmp_path, emulated=False)["predicted"]
    run = busbar.json("proxy", *args, *QUICK, ranks=8, env=NO_DATA, tmp_path=tmp_path)
    for step in (plan, run):
        rows = step["breakdown_by_role"]
        compute = [row["compute_us"] for row in rows]
        for row in rows:
            rest = row["bubble_us"] - row["imbalance_us"]
            assert rest == pytest.approx((sum(compute) - max(compute)) / m, rel=0.4), (row["role"], rest)
    args = ("plan", "transformer", "--model", "llama2_7b", "--layers", 7, "--pp", 4, "--decoder-last-pipeline-num-layers", 1, "--optimizer", "sgd",
            "--recompute", "full", "--ranks", 4, "--cluster", "h100-sxm-ib")
    text = busbar.run(*args, emulated=False).stdout
    shown = re.search(r"([0-9.]+) ms pipeline bubble \(([0-9.]+) ms of it from unequal stages\) \+ ", text)
    step = busbar.json(*args, tmp_path=tmp_path, emulated=False)["predicted"]["breakdown"]
    assert list(map(float, shown.groups())) == pytest.approx([step["bubble_us"] / 1e3, step["imbalance_us"] / 1e3], rel=0.01)


def test_transfers_of_a_stage_count_as_its_work(busbar, tmp_path):
    """The first stage has half of the experts of the others: it waits for them. 1F1B with twice the micro-batches adds the time of the longest
    stage for these: the rest of the step, which fill and drain take, is the bubble without the imbalance, in all stages."""
    args = ("--model deepseek_v3 --ranks 512 --pp 8 --ep 64 --dp-sync distributed --decoder-first-pipeline-num-layers 7 "
            "--decoder-last-pipeline-num-layers 6 --cluster h100-sxm-ib --recompute full --global-batch-size").split()
    step, longer = (busbar.json("plan", "transformer", *args, samples, tmp_path=tmp_path, emulated=False)["predicted"] for samples in (2048, 4096))
    rest = 2 * step["step_us"] - longer["step_us"]
    for row in step["breakdown_by_role"]:
        assert row["bubble_us"] - row["imbalance_us"] == pytest.approx(rest, rel=0.1), row["role"]
    shown, first = step["breakdown"], step["breakdown_by_role"][0]
    assert shown["rank"] > 0 and shown["imbalance_us"] < 0.1 * shown["bubble_us"] and first["imbalance_us"] > 0.5 * first["bubble_us"]
    assert shown["compute_us"] + shown["exposed_transfer_us"] == max(row["compute_us"] + row["exposed_transfer_us"] for row in step["breakdown_by_role"])


def test_breakdown_is_null_without_traced_steps(busbar, tmp_path):
    run = busbar.json("proxy", "gpt2_large", 4, 2, 2, *ONE, ranks=2, env=NO_DATA, tmp_path=tmp_path)
    assert run["traced_step_us"] is None and run["traced_issue_us"] is None and run["breakdown"] is None


@pytest.mark.parametrize("name,args,ranks", [("gpt2_large", (4, 2, 3), 2), ("bert_large", (8, 4, 3), 8),
                                             ("cosmoflow", (), 4), ("dlrm", (), 4), ("gpt3", (2, 2), 8)])
def test_emulated_gpus_have_no_overlap_slowdown(busbar, tmp_path, name, args, ranks):
    """Messages and collectives take the same time alone and concurrently with a kernel."""
    run = busbar.json("proxy", name, *args, "--compute", "timed", *QUICK, ranks=ranks,
                      env={**NO_DATA, "EMU_CLUSTER": str(ROUND)}, tmp_path=tmp_path)
    assert run["overlap"]["comm_slowdown"] == pytest.approx(1, abs=1e-3)
    assert run["overlap"]["compute_slowdown"] == pytest.approx(1, abs=1e-3)


def test_only_rank_0_prints_text(busbar):
    done = busbar.run("proxy", "gpt2_large", 4, 2, 2, *QUICK, "--full", ranks=4, env=NO_DATA)
    assert done.returncode == 0 and done.stderr == ""
    assert done.stdout.count("# busbar ") == 1
    assert "# emulated GPUs: " in done.stdout
    for text in ("step", "exposed", "hidden", "busbw", "first stage", "last stage"):
        assert text in done.stdout


def test_help_and_report_match_golden_files(busbar, golden):
    golden("proxy-help.txt", busbar.run("proxy", "--help").stdout)
    for name, more, lines in ("proxy-report.txt", ("--full",), 40), ("proxy-report-short.txt", (), 25):
        done = busbar.run("proxy", "gpt2_large", 4, 2, 2, "--compute", "timed", *QUICK, *more, ranks=4,
                          env={**NO_DATA, "EMU_CLUSTER": str(ROUND)})
        text = re.sub(r"busbar [0-9.]+ ", "busbar VERSION ", done.stdout)
        text = re.sub(r"CUDA [0-9.]+, NCCL [0-9.]+", "CUDA x, NCCL y", text)
        golden(name, re.sub(r"(?m)^  host issue .*$", "  host issue ...", text))
        assert len(text.splitlines()) <= lines


def test_two_times_of_compute_alone_name_their_rank(busbar):
    """A rank that starts late has the longest step without communication; another rank loses time to communication."""
    text = busbar.run("proxy", "gpt2_large", 4, 2, "--compute", "timed", *QUICK, "--delay", "rank=1:2ms", ranks=4, env=NO_DATA).stdout
    slowest, unit = re.search(r"slowest rank: compute alone (\S+) (\S+),", text).groups()
    rank, _, own, named = re.search(rf"on rank (\d+) \({unit}\): (\S+) - (\S+) compute alone( of rank \d+)? = ", text).groups()
    assert float(own) < float(slowest) and named == f" of rank {rank}", text


def test_report_with_every_option_has_25_lines(busbar):
    """Without --full, and with a slow GPU, which the last line names."""
    done = busbar.run("proxy", "transformer", "--model", "gpt2_small", "--layers", 2, "--dp", 4, "--scale-counts", 0.01, *QUICK, "--graph",
                      "--start-barrier", "--check", "--cluster", "h100-sxm-ib", "--peak-tflops", 989, ranks=4,
                      env={**NO_DATA, "EMU_SLOW": "rank=2:1.5"})
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and len(lines) <= 25 and lines[-1].startswith("# slow: rank 2 ("), done.stdout


def test_json_on_stdout_and_quiet(busbar):
    done = busbar.run("proxy", "gpt2_large", 4, 2, 2, *QUICK, "--json", "-", ranks=2, env=NO_DATA)
    assert done.returncode == 0 and json.loads(done.stdout)["status"] == "ok"
    done = busbar.run("proxy", "gpt2_large", 4, 2, 2, *QUICK, "--quiet", ranks=2, env=NO_DATA)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


ONE = ("--warmup", 0, "--steps", 1, "--traced-steps", 0)
PIPE = ("bert_large", 3, 3, 2)  # on 3 ranks: only sends and receives, with a middle stage
BOTH = ("bert_large", 2, 2, 1, "--scale-counts", 0.05)  # on 4 ranks: two replicas


@pytest.mark.parametrize("args,ranks", [pytest.param(PIPE, 3, marks=pytest.mark.smoke), (BOTH, 4)])
def test_correct_data_pass_the_check(busbar, tmp_path, args, ranks):
    run = busbar.json("proxy", *args, *ONE, "--dtype", "half", "--check", ranks=ranks, tmp_path=tmp_path)
    assert run["check"] == {"enabled": True, "wrong": 0, "flags": []}


def test_data_that_did_not_move_are_not_checked(busbar, tmp_path):
    """With EMU_DATA=off nothing is compared, so that 0 wrong elements must not be reported. A fault that needs data is refused."""
    run = busbar.json("proxy", *PIPE, *ONE, "--check", ranks=3, env=NO_DATA, tmp_path=tmp_path)
    assert run["check"] == {"enabled": True, "wrong": None, "flags": ["not_checked"]}
    done = busbar.run("proxy", *PIPE, *ONE, "--check", ranks=3, env={**NO_DATA, "EMU_FAULT": "corrupt:rank=1,call=2,name=ncclRecv"})
    assert done.returncode == 2 and "has no effect with EMU_DATA=off" in done.stderr
    done = busbar.run("proxy", *PIPE, *ONE, "--check", ranks=3, env=NO_DATA)
    assert "\n# data not checked: EMU_DATA=off moves no data" in done.stdout and "--check)" not in done.stdout
    rows = busbar.json("proxy", "all", "--quick", *FEW, "--compute", "none", "--check", env=NO_DATA, tmp_path=tmp_path)["results"]
    assert all(row["wrong"] is None and row["flags"] == ["not_checked"] for row in rows if row["fits"])


@pytest.mark.parametrize("args,ranks,fault,operation", [
    (PIPE, 3, "corrupt:rank=1,call=2,name=ncclRecv", "recv pp"),
    (BOTH, 4, "corrupt:rank=2,call=1,name=ncclAllReduce", "all_reduce dp"),
])
def test_corrupt_byte_exits_with_3(busbar, tmp_path, args, ranks, fault, operation):
    path = tmp_path / "r.json"
    done = busbar.run("proxy", *args, *ONE, "--check", "--json", path, ranks=ranks, env={"EMU_FAULT": fault})
    assert done.returncode == 3
    rank = re.search(r"rank=(\d)", fault)[1]
    assert re.search(rf"busbar: rank {rank} .*{operation} .*1 wrong element, the first at index \d+", done.stderr)
    result = json.loads(path.read_text())
    assert result["status"] == "wrong data" and result["check"] == {"enabled": True, "wrong": 1, "flags": []}
    assert re.search(rf"rank {rank} \(\S+, GPU {rank}, \S+\): .*{operation} ", result["reason"]) and "1 wrong element" in result["reason"]
    assert re.match(rf"# WRONG DATA: 1 wrong element, first on rank {rank} \(\S+, GPU {rank}, \S+\): {operation} ", done.stdout.splitlines()[-1])


@pytest.mark.smoke
def test_reports_the_killed_rank(busbar, tmp_path):
    path = tmp_path / "r.json"
    env = {**NO_DATA, "EMU_FAULT": "die:rank=2,call=9,name=ncclAllReduce"}
    done = busbar.run("proxy", "gpt2_large", 4, 2, 2, *QUICK, "--json", path, ranks=4, env=env, timeout=60)
    assert done.returncode not in (0, 124)
    assert re.search(r"rank 2 \(.*\) is lost", done.stderr)
    left = json.loads(path.read_text())
    assert left["status"] in ("running", "timeout") and left["roles"] and "step_us" not in left


def test_timeout_names_the_stalled_rank(busbar):
    env = {**NO_DATA, "EMU_FAULT": "stall:rank=1,call=9,name=ncclAllReduce"}
    done = busbar.run("proxy", "gpt2_large", 4, 2, 2, *QUICK, "--timeout", 2, ranks=4, mpirun=(), env=env, timeout=60)
    assert done.returncode == 4
    assert re.search(r"timeout.*: rank 1 \S+ did not return from all_reduce dp [\d.]+ MiB", done.stderr), done.stderr


@pytest.mark.parametrize("function,call", [("ncclAllReduce", 2), ("cudaMalloc", 1), ("cudaStreamWaitEvent", 2),
                                           ("cudaEventElapsedTime", 2), ("ncclCommFinalize", 2), ("cudaLaunchKernel", 2)])
def test_failed_call_exits_with_1(busbar, function, call):
    env = {**NO_DATA, "EMU_FAULT": f"fail:rank=1,call={call},name={function}"}
    done = busbar.run("proxy", "gpt2_large", 4, 2, 2, *QUICK, "--compute", "timed", ranks=4, env=env, timeout=60)
    assert done.returncode == 1, done.stderr
    assert "busbar: rank 1 " in done.stderr


def test_compute_none_launches_no_kernel(busbar):
    env = {**NO_DATA, "EMU_FAULT": "fail:call=1,name=cudaLaunchKernel"}
    assert busbar.run("proxy", "gpt2_large", 4, 2, 2, *QUICK, ranks=2, env=env).returncode == 0
    assert busbar.run("proxy", "gpt2_large", 4, 2, 2, *QUICK, "--compute", "timed", ranks=2, env=env).returncode == 1


@pytest.mark.parametrize("step, layout, alternative", [
    (("gpt2_large", 4, 2, 2), (), "fewer layers and more stages, or "),
    (("transformer", "--model", "gpt2_small"), ("--tp", 4), "larger --tp or --pp, smaller --layers, or "),
    (("resnet50",), None, "")])
def test_reports_insufficient_memory_before_the_run(busbar, tmp_path, step, layout, alternative):
    """The error proposes the layout before --scale-counts, whose exposed and hidden times are not those of the model."""
    cluster = json.loads(ROUND.read_text())
    cluster["memory_bytes"] = 100e6
    path = tmp_path / "small.json"
    path.write_text(json.dumps(cluster))
    env = {**NO_DATA, "EMU_CLUSTER": str(path)}
    done = busbar.run("proxy", *step, *QUICK, ranks=4, env=env)
    assert done.returncode == 2
    lines = [line for line in done.stderr.splitlines() if line.startswith("busbar:")]
    assert len(lines) == 1 and re.search(r"\d+ bytes of GPU memory needed .* but \d+ available", lines[0])
    factor = re.search(rf"try: {alternative}--scale-counts (\S+) \(exposed and hidden times are then not", lines[0])[1]
    done = busbar.run("proxy", *step, *QUICK, "--scale-counts", factor, ranks=4, env=env)
    assert done.returncode == 0 and "exposed and hidden times are NOT those of the model" in done.stdout, done.stderr
    if layout:
        done = busbar.run("proxy", *step, *layout, *QUICK, ranks=4, env=env)
        assert done.returncode == 0 and "NOT those of the model" not in done.stdout, done.stderr


# ---- NVTX ------------------------------------------------------------------------------------------------------------


def ranges(path):
    """The nested ranges of one process: (name, category, bytes, [children]) from a record of nvtx_recorder.c."""
    top, stack, names = [], [], collections.defaultdict(list)
    for line in path.read_text().splitlines():
        kind, *fields = line.split("\t")
        if kind == "push":
            depth, domain, category, size, name = fields
            assert domain == "busbar" and int(depth) == len(stack)
            node = (name, category, int(size), [])
            (stack[-1][3] if stack else top).append(node)
            stack.append(node)
        elif kind == "pop":
            stack.pop()
            assert int(fields[0]) == len(stack)
        else:
            names[kind].append(fields[0])
    assert not stack, "a range was left open"
    return top, names


def flat(nodes):
    for node in nodes:
        yield node
        yield from flat(node[3])


def test_nvtx_ranges_of_steps_phases_and_operations(busbar, tmp_path):
    env = {**NO_DATA, "NVTX_RECORD": str(tmp_path / "nvtx"),
           "NVTX_INJECTION64_PATH": str(busbar.build / "tests" / "nvtx_recorder.so")}
    run = busbar.json("proxy", "gpt2_large", 4, 2, 2, *QUICK, ranks=4, env=env, tmp_path=tmp_path)
    files = sorted(tmp_path.glob("nvtx.*"))
    assert len(files) == 4
    seen = collections.Counter()
    for path in files:
        top, names = ranges(path)
        assert [n[0] for n in top] == ["warm-up 0", "step 0", "step 1", "step 2", "traced step 0"]
        for step in top:
            sections = [n[0] for n in step[3]]
            assert sections == ["forward micro-batch 0", "forward micro-batch 1", "backward micro-batch 0",
                                "backward micro-batch 1", "gradients"]
            ops = collections.Counter(n[:3] for n in flat(step[3]) if n[1] != "-" and not n[0].startswith("group"))
            seen[frozenset(ops.items())] += 1
        assert "compute" in names["stream"] and "pp" in names["stream"] and "dp" in names["stream"]
        assert "step end" in names["event"] and names["thread"]
        assert "gradients" in names["string"] and not any("step" in text for text in names["string"])  # texts that occur once
    # Each micro-batch sends 808,960 floats in each direction. The gradients are those of the two layers of each stage of gpt2_large.
    inner, first, last = 19677440, 85317120, 84008960
    pairs = {("send pp 3.1 MiB", "pp", 3235840): 2, ("recv pp 3.1 MiB", "pp", 3235840): 2}
    stage0 = {**pairs, ("all_reduce dp 325.5 MiB", "dp", 4 * first): 1, ("all_reduce dp 75.1 MiB", "dp", 4 * inner): 1}
    stage1 = {**pairs, ("all_reduce dp 320.5 MiB", "dp", 4 * last): 1, ("all_reduce dp 75.1 MiB", "dp", 4 * inner): 1}
    assert seen == {frozenset(stage0.items()): 10, frozenset(stage1.items()): 10}
    total = sum(row["bytes"] for role in run["roles"] for row in role["traffic"] if role["name"].startswith("first"))
    assert total == sum(size * n for (_, _, size), n in stage0.items())


def test_nvtx_group_ranges_contain_their_operations(busbar, tmp_path):
    env = {**NO_DATA, "NVTX_RECORD": str(tmp_path / "nvtx"),
           "NVTX_INJECTION64_PATH": str(busbar.build / "tests" / "nvtx_recorder.so")}
    busbar.json("proxy", "bert_large", 4, 4, 2, *ONE, ranks=4, env=env, tmp_path=tmp_path)
    groups = [n for path in tmp_path.glob("nvtx.*") for n in flat(ranges(path)[0]) if n[0].startswith("group")]
    assert len(groups) == 2 * 2 * 2  # two middle stages, two micro-batches, forward and backward
    for name, category, size, ops in groups:
        # A message is counted once, as in the payload of JSON and text. Only the operations inside the group carry bytes.
        assert (name, category, size) == ("group pp 4 MiB", "pp", 0)
        assert sorted(op[0] for op in ops) == ["recv pp 4 MiB", "send pp 4 MiB"]


# ---- the step as a CUDA graph ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name,args,ranks", [
    ("gpt2_large", (4, 2, 2), 4),
    ("resnet50_ring", (), 3),
    ("cosmoflow", (), 8),
    ("dlrm", (), 4),
])
def test_graph_step_takes_the_time_of_the_step(busbar, tmp_path, name, args, ranks):
    env = {**NO_DATA, "EMU_CLUSTER": str(ROUND)}  # a cluster with zero launch cost
    run = busbar.json("proxy", name, *args, "--warmup", 0, "--steps", 2, "--traced-steps", 0, "--no-alone", "--graph",
                      ranks=ranks, env=env, tmp_path=tmp_path)
    assert run["graph"]["step_us"]["p50"] == pytest.approx(run["step_us"]["p50"], abs=0.1)
    assert run["graph"]["step_ratio"] == pytest.approx(1, abs=1e-3)
    assert run["graph"]["capture_ms"] > 0 and run["graph"]["issue_us"]["p50"] > 0


def test_capture_does_not_slow_down_the_other_steps(busbar, tmp_path):
    """After a capture, each of NCCL's other operations takes longer, so no other step is measured after it."""
    seen = [busbar.json("proxy", "gpt2_large", 4, 2, 2, *QUICK, "--graph", ranks=4, env={**NO_DATA, **env}, tmp_path=tmp_path)
            for env in ({}, {"EMU_MIXING_US": "500"})]
    for run in seen:
        assert run["graph"]["capture_ms"] > 0
    times = [[role["comm_us"] for role in run["breakdown_by_role"]] for run in seen]
    assert times[0] == pytest.approx(times[1], abs=1)


def test_graph_is_captured_once_and_reported_with_the_step(busbar, tmp_path):
    env = {**NO_DATA, "NCCL_RECORD": str(tmp_path / "calls"),
           "LD_PRELOAD": str(busbar.build / "tests" / "nccl_recorder.so")}
    plan = planned(busbar, "gpt2_large", (4, 2, 2), 4)
    done = busbar.run("proxy", "gpt2_large", 4, 2, 2, *QUICK, "--graph", ranks=4, env=env)
    assert done.returncode == 0 and "CUDA graph: step time" in done.stdout
    assert re.search(r"(?m)^  graph step +\d", done.stdout)
    expected = traffic_by_rank(plan["roles"])
    for rank in range(4):
        calls, steps = recorded(tmp_path / "calls", rank, 4)
        assert steps == 1 + 3 + 1 + 3 + 1  # warm-up 1, timed 3, graph warm-up 1, graph timed 3, traced 1
        assert calls == {key: n * (1 + 3 + 1 + 1) for key, n in expected[rank].items()}


@pytest.mark.parametrize("function", ["cudaStreamBeginCapture", "cudaStreamEndCapture", "cudaGraphInstantiate",
                                      "cudaGraphLaunch"])
def test_failed_graph_call_exits_with_1(busbar, function):
    env = {**NO_DATA, "EMU_FAULT": f"fail:rank=1,call=1,name={function}"}
    done = busbar.run("proxy", "gpt2_large", 4, 2, 2, *QUICK, "--graph", ranks=4, env=env, timeout=60)
    assert done.returncode == 1, done.stderr
    assert "busbar: rank 1 " in done.stderr and function in done.stderr


# ---- --compute gemm: real kernels ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name,args,dtype", [("gpt2_large", (4, 2, 2), "float"), ("bert_large", (4, 2, 3), "half"),
                                             ("bert_large", (8, 4, 2), "bfloat16")])
def test_gemm_compute_takes_the_predicted_time(busbar, tmp_path, name, args, dtype):
    shapes = {"gpt2_large": (1280, 632, 1), "bert_large": (1024, 128, 8)}
    h, s, batch = shapes[name]
    for cluster in (ROUND, NOMINAL):
        options = ("--compute", "gemm", "--dtype", dtype)
        plan = planned(busbar, name, args, 4, *options, "--cluster", cluster)
        run = busbar.json("proxy", name, *args, *options, *QUICK, "--no-alone", "--peak-tflops", 100, ranks=4,
                          env={**NO_DATA, "EMU_CLUSTER": str(cluster)}, tmp_path=tmp_path)
        assert run["step_us"]["p50"] == pytest.approx(plan["predicted"]["step_us"], abs=1), cluster.name
        assert_same_breakdown(run, plan["predicted"])
        layer = batch * (24 * s * h * h + 4 * s * s * h)  # FLOPs of the forward pass; the backward pass has twice as many
        assert run["model_flops"] == pytest.approx(3 * layer * args[0] * args[2] * (4 // args[1]), rel=1e-9)
        assert run["model_flops"] == pytest.approx(sum(r["flops"] * len(r["ranks"]) for r in plan["roles"]), rel=1e-9)
        assert run["model_flop_utilisation"] == pytest.approx(
            run["model_flops"] / (run["step_us"]["p50"] * 1e-6 * 4 * 100e12))
        peak = json.loads(cluster.read_text())["tflops"][{"float": "float32", "half": "float16"}.get(dtype, dtype)]
        assert plan["predicted"]["model_flop_utilisation"] == pytest.approx(
            run["model_flops"] / (plan["predicted"]["step_us"] * 1e-6 * 4 * peak * 1e12))


def test_gemm_compute_prints_tflops(busbar):
    done = busbar.run("proxy", "bert_large", 2, 2, 1, *ONE, "--compute", "gemm", "--scale-counts", 0.001, ranks=2,
                      env=NO_DATA)
    assert done.returncode == 0, done.stderr
    assert re.search(r"# model FLOPs: [0-9.e+]+ per step on all ranks, [0-9.]+ TFLOP/s per GPU\n", done.stdout)


@pytest.mark.parametrize("name,args,ranks,dtype", [
    ("resnet50", (), 3, "float"),
    ("resnet50_ring", (), 2, "half"),
    ("resnet152", (), 2, "bfloat16"),
    ("cosmoflow", (), 8, "bfloat16"),
    ("dlrm", (), 4, "float"),
    ("gpt3", (2, 2), 8, "bfloat16"),
    ("gpt3_one_pipe_step", (2, 1), 8, "half"),
    ("gpt3_moe", (2, 1), 32, "bfloat16"),
    ("gpt3_moe_one_pipe_step", (2, 1), 32, "float"),
])
def test_gemm_compute_of_every_proxy_takes_the_predicted_time(busbar, tmp_path, name, args, ranks, dtype):
    """With --compute gemm the NCCL calls equal those of --compute none."""
    cluster = NOMINAL
    env = {**NO_DATA, "EMU_CLUSTER": str(cluster), "NCCL_RECORD": str(tmp_path / "calls"),
           "LD_PRELOAD": str(busbar.build / "tests" / "nccl_recorder.so")}
    options = ("--compute", "gemm", "--dtype", dtype)
    plan = planned(busbar, name, args, ranks, *options, "--cluster", cluster)
    run = busbar.json("proxy", name, *args, *options, *FEW, "--no-alone", ranks=ranks, env=env, tmp_path=tmp_path)
    assert run["step_us"]["p50"] == pytest.approx(plan["predicted"]["step_us"], abs=1)
    assert_same_breakdown(run, plan["predicted"])
    assert run["model_flops"] == pytest.approx(sum(r["flops"] * len(r["ranks"]) for r in plan["roles"]), rel=1e-9)
    communication_plan = planned(busbar, name, args, ranks, "--dtype", dtype, "--compute", "none")
    expected = traffic_by_rank(communication_plan["roles"])
    for rank in range(ranks):
        calls, steps = recorded(tmp_path / "calls", rank, ranks)
        assert calls == {key: n * steps for key, n in expected[rank].items()}


def test_proxy_all_scales_gemm_compute_down(busbar, tmp_path):
    """The emulated GPU computes the GEMMs on the CPU, so counts are scaled down to almost nothing."""
    run = busbar.json("proxy", "all", "--quick", *FEW, "--compute", "gemm", "--scale-counts", 1e-8, "--check", ranks=8,
                      tmp_path=tmp_path)
    rows = {row["proxy"]: row for row in run["results"] if row["fits"] and row["proxy"] in NAMES}
    assert len(rows) == 10 and not any(row["wrong"] for row in rows.values())
    assert all(row["breakdown"]["compute_us"] > 0 for row in rows.values())


def test_plan_lists_flops_and_bytes_per_operation(busbar):
    plan = planned(busbar, "gpt2_large", (4, 2, 1), 2, "--compute", "gemm", "--ops")
    computes = [op for op in plan["roles"][0]["program"] if op["kind"] == "compute"]
    assert [op["flops"] for op in computes] == [53792604160, 2 * 53792604160, 0, 0]
    assert [op["phase"] for op in computes] == ["forward", "backward", "optimizer", "optimizer"]
    assert all(op["moved_bytes"] > 2 * 4 * 12 * 1280 * 1280 for op in computes[:2])  # two layers read their weights
    assert [op["moved_bytes"] for op in computes[2:]] == [28 * 19677440, 28 * 85317120]


@pytest.mark.parametrize("name,args,ranks", [("gpt2_large", (4, 2, 2), 4), ("resnet152", (), 1), ("cosmoflow", (), 4),
                                             ("gpt3_moe", (2, 1), 32)])
def test_plan_lists_gemms_and_memory_bound_kernels(busbar, name, args, ranks):
    plan = planned(busbar, name, args, ranks, "--compute", "gemm", "--ops")
    for role in plan["roles"]:
        for op in role["program"]:
            if op["kind"] != "compute":
                assert op["kernel_list"] is None and op["moved_bytes"] is None
                continue
            items = plan["kernel_lists"][op["kernel_list"]]
            assert items and all(item["moved_bytes"] > 0 for item in items)
            assert op["flops"] == op["kernel_list_runs"] * sum(item["flops"] for item in items)
            assert op["moved_bytes"] == op["kernel_list_runs"] * sum(item["moved_bytes"] for item in items)
            assert all(item["flops"] == 2 * item["m"] * item["n"] * item["k"] * item["batch"] if item["kind"] == "gemm"
                       else item["flops"] == 0 for item in items)


def test_plan_prints_bytes_of_memory_bound_kernels(busbar):
    done = busbar.run("plan", "cosmoflow", "--ranks", 4, "--compute", "gemm", "--ops", "--full", "--cluster", "h100-sxm-ib",
                      emulated=False)
    assert done.returncode == 0
    # the statistics of batch norm read the output of 0.5 GiB, norm and activation read and write it
    assert re.search(r"compute +29 GFLOP 4.7 GiB +forward, conv 0\n", done.stdout)
    assert re.search(r"compute +32 MiB moved +forward, halo pack\n", done.stdout)
    assert re.search(r"compute +67.5 MiB moved +optimizer, SGD, conv 4\n", done.stdout)
    assert "operands of real kernels 3.9 GiB" in done.stdout
    assert "buffers of the proxy (not of training) need 4 GiB of 79.1 GiB per GPU: fits" in done.stdout


@pytest.mark.parametrize("for_nccl, status", [(16, 2), (4 * 2 * 16, 0)])
def test_buffers_of_a_step_leave_memory_to_nccl(busbar, tmp_path, for_nccl, status):
    """Each communicator takes 16 MiB when it is created, before the memory is checked, and again at its first operation."""
    cluster = json.loads(ROUND.read_text())
    total = planned(busbar, "gpt2_large", (4, 2, 2), 4)["roles"][0]["memory_bytes"]["total"]
    cluster["memory_bytes"] = total * 16 / 15 + (for_nccl << 20)
    path = tmp_path / "small.json"
    path.write_text(json.dumps(cluster))
    done = busbar.run("proxy", "gpt2_large", 4, 2, 2, "-n", 1, "--traced-steps", 0, "--no-alone", ranks=4,
                      env={**NO_DATA, "EMU_CLUSTER": str(path), "EMU_NCCL_MIB": "16"})
    assert done.returncode == status, done.stderr
    assert status == 0 or "bytes of GPU memory needed" in done.stderr


def test_rejects_kernels_above_gpu_memory_with_an_alternative(busbar, tmp_path):
    plan = planned(busbar, "cosmoflow", (), 4, "--compute", "gemm")
    work, total = (plan["roles"][0]["memory_bytes"][key] for key in ("work", "total"))
    cluster = json.loads(ROUND.read_text())
    cluster["memory_bytes"] = total - work + 1e9  # enough memory without real kernels
    path = tmp_path / "small.json"
    path.write_text(json.dumps(cluster))
    env = {**NO_DATA, "EMU_CLUSTER": str(path)}
    predicted = planned(busbar, "cosmoflow", (), 4, "--compute", "gemm", "--cluster", path)["predicted"]["memory"]
    assert predicted == {"needed_bytes": total, "available_bytes": int(cluster["memory_bytes"]), "fits": False, "tight": False,
                         "of": "buffers", "buffers_bytes": total}
    done = busbar.run("proxy", "cosmoflow", *ONE, "--compute", "gemm", ranks=4, env=env)
    assert done.returncode == 2 and done.stdout == ""
    need = int(re.search(r"(\d+) bytes of GPU memory needed", done.stderr).group(1))
    assert total <= need < total + 2**20 * 200  # the difference is the buffers' guard zones
    assert "GEMMs and memory-bound kernels need 3.9 GiB of it" in done.stderr
    factor = re.search(r"try: --scale-counts ([0-9.e-]+)", done.stderr).group(1)
    for alternative in (("--compute", "gemm", "--scale-counts", factor), ("--compute", "timed")):
        done = busbar.run("proxy", "cosmoflow", *ONE, *alternative, ranks=4, env=env)
        assert done.returncode == 0, (alternative, done.stderr)


# ---- proxy all -------------------------------------------------------------------------------------------------------

NAMES = ["gpt2_large", "bert_large", "resnet50", "resnet50_ring", "resnet152", "resnet152_scal", "cosmoflow", "dlrm", "gpt3",
         "gpt3_one_pipe_step", "gpt3_moe", "gpt3_moe_one_pipe_step", "transformer"]
FEW = ("--warmup", 0, "--steps", 1, "--traced-steps", 1)


def test_proxy_all_prints_one_table_and_checks_data(busbar, tmp_path):
    path = tmp_path / "all.json"
    done = busbar.run("proxy", "all", "--quick", *FEW, "--check", "--graph", "--scale-counts", 1e-6, "--json", path,
                      ranks=8)
    assert done.returncode == 0, done.stderr
    result = json.loads(path.read_text())
    assert result["schema"] == "busbar.proxies/1" and result["status"] == "ok"
    rows = {row["proxy"]: row for row in result["results"] if row["proxy"] in NAMES}
    assert list(rows) == NAMES
    unsupported = {"resnet152_scal", "gpt3_moe", "gpt3_moe_one_pipe_step"}
    assert {name for name, row in rows.items() if not row["fits"]} == unsupported
    for name, row in rows.items():
        line = next(text for text in done.stdout.splitlines() if text.startswith(f"  {name} "))
        if name in unsupported:
            assert re.search("cannot run on 8 ranks; try: [0-9]+ ranks$", line) and set(row) == {"proxy", "fits"}
            continue
        assert row["wrong"] == 0
        assert row["step_us"]["p50"] > 0 and row["graph"]["step_us"]["p50"] > 0
        assert row["breakdown"]["step_us"] > 0 and "counts scaled by 1e-06" in row["summary"]
        time, unit = line.split()[1:3]
        assert float(time) * {"us": 1, "ms": 1e3}[unit] == pytest.approx(row["step_us"]["p50"], abs=0.6) and line.split()[-1] == "0"


def test_proxy_all_runs_without_mpirun_and_lists_unsupported_proxies(busbar):
    done = busbar.run("proxy", "all", "--quick", *FEW, "--compute", "none", env=NO_DATA)
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith("  ") and line.split()[0] in NAMES]
    assert [line.split()[0] for line in lines] == NAMES
    assert sum("cannot run on 1 rank" in line for line in lines) == 8


def test_moe_proxies_run_on_32_ranks(busbar, tmp_path):
    run = busbar.json("proxy", "all", "--quick", *FEW, "--compute", "none", ranks=32, env=NO_DATA, tmp_path=tmp_path)
    assert {row["proxy"] for row in run["results"] if row["fits"]} >= {"gpt3_moe", "gpt3_moe_one_pipe_step", "gpt3"}


def test_wrong_data_of_one_proxy_exits_with_3(busbar):
    env = {"EMU_FAULT": "corrupt:rank=1,call=1,name=ncclRecv"}
    done = busbar.run("proxy", "all", "--quick", *FEW, "--check", "--compute", "none", "--scale-counts", 1e-5, ranks=2,
                      env=env)
    assert done.returncode == 3 and "1 wrong element," in done.stderr
    assert sum(line.endswith(" 1") for line in done.stdout.splitlines() if line.startswith("  ")) == 1


ONE_STEP = ("proxy", "gpt3_one_pipe_step", 2, 1, *ONE, "--no-alone", "--check", "--scale-counts", 1e-5)


@pytest.mark.parametrize("fault,wrong", [(None, 0), ("corrupt:rank=1,call=2,name=ncclRecv", 1),
                                         ("corrupt:rank=3,call=2,name=ncclAllReduce", 1)])
def test_step_that_cannot_be_serialised_is_checked_concurrently(busbar, tmp_path, fault, wrong):
    path = tmp_path / "r.json"
    done = busbar.run(*ONE_STEP, "--json", path, ranks=8, env={"EMU_FAULT": fault} if fault else {})
    assert done.returncode == (3 if wrong else 0), done.stderr
    assert json.loads(path.read_text())["check"] == {"enabled": True, "wrong": wrong, "flags": []}
    assert not wrong or re.search(r"rank [13] .*operation [0-9]+, (recv pp|all_reduce tp) .*1 wrong element,", done.stderr)


def test_stalled_rank_in_concurrent_check_exits_with_4(busbar):
    done = busbar.run(*ONE_STEP, "--timeout", 3, ranks=8, env={"EMU_FAULT": "stall:rank=5,call=1,name=ncclSend"}, timeout=60)
    assert done.returncode == 4, done.stderr
    assert "rank 5" in done.stderr


def test_compute_sms_and_gbps_keep_the_compute_time(busbar, tmp_path):
    """More SMs and memory traffic only slow down concurrent communication, and the emulated GPU has no contention."""
    args = ["proxy", "dlrm", "--compute", "timed", "--steps", "2", "--no-alone"]
    plain = busbar.json(*args, ranks=2, tmp_path=tmp_path)
    heavy = busbar.json(*args, "--compute-sms", "16", "--compute-gbps", "200", ranks=2, tmp_path=tmp_path)
    assert heavy["breakdown"]["compute_us"] == pytest.approx(plain["breakdown"]["compute_us"], abs=0.1)
    assert (heavy["options"]["compute_sms"], heavy["options"]["compute_gbps"]) == ("16", 200)


# ---- start barrier --------------------------------------------------------------------------------------------------


def free_launches(tmp_path):
    """Writes a copy of the default cluster with zero launch cost."""
    cluster = json.loads((ROOT / "profiles/clusters/emulated-default.json").read_text())
    path = tmp_path / "free.json"
    path.write_text(json.dumps({**cluster, "launch_us": 0, "nccl_launch_us": 0}))
    return path


@pytest.mark.parametrize("args,ranks", [(("dlrm", "--compute", "timed"), 4), (("resnet50",), 3),
                                        (("transformer", "--model", "gpt2_small", "--pp", 2, "--tp", 2, "--compute", "timed"), 4)])
def test_start_barrier_excludes_launch_overhead(busbar, tmp_path, args, ranks):
    run = busbar.json("proxy", *args, "--start-barrier", "-n", 2, "--traced-steps", 0, "--no-alone", ranks=ranks, tmp_path=tmp_path,
                      env=NO_DATA)
    plan = json.loads(busbar.run("plan", *args, "--ranks", ranks, "--cluster", free_launches(tmp_path), "--json", "-").stdout)
    assert run["start_barrier"]["step_us"]["p50"] == pytest.approx(plan["predicted"]["step_us"], abs=0.1)
    assert run["start_barrier"]["step_us"]["p50"] < run["step_us"]["p50"]
    assert run["start_barrier"]["step_ratio"] == pytest.approx(run["start_barrier"]["step_us"]["p50"] / run["step_us"]["p50"])


def test_start_barrier_step_fits_the_launch_queues(busbar, tmp_path):
    env = {**NO_DATA, "EMU_LAUNCH_QUEUE": "1000", "EMU_HARDWARE_QUEUES": "1", "EMU_WORK_FIFO": str(1 << 20)}
    run = busbar.json("proxy", "resnet152", "--start-barrier", *ONE, ranks=2, tmp_path=tmp_path, env=env)
    assert 0 < run["start_barrier"]["step_us"]["p50"] <= run["step_us"]["p50"]


def test_warns_when_a_full_queue_blocks_before_the_start_barrier_opens(busbar, tmp_path):
    done = busbar.run("proxy", "resnet152", "--start-barrier", *ONE, "--json", tmp_path / "run.json", ranks=2,
                      env={**NO_DATA, "EMU_LAUNCH_QUEUE": "4"})
    assert done.returncode == 0
    assert done.stderr.count("a call blocked before the whole step was issued") == 1
    assert json.loads((tmp_path / "run.json").read_text())["start_barrier"] is None


def test_no_start_barrier_on_a_shared_gpu(busbar, tmp_path):
    done = busbar.run("proxy", "dlrm", "--start-barrier", "--share-gpu", *ONE, "--json", tmp_path / "run.json", ranks=2,
                      env={**NO_DATA, "EMU_DEVICES": "1"})
    assert done.returncode == 0 and "not available when ranks share a GPU" in done.stderr
    assert json.loads((tmp_path / "run.json").read_text())["start_barrier"] is None


def test_rejects_a_step_too_long_for_the_start_barrier(busbar):
    done = busbar.run("proxy", "transformer", "--model", "gpt2_small", "--pp", 2, "--micro-batches", 64, "--start-barrier", ranks=2)
    assert done.returncode == 2
    assert re.search(r"--start-barrier: the step needs \d+ launch queue entries, at most 512 are available; .*--graph", done.stderr)
    done = busbar.run("proxy", "dlrm", "--start-barrier", ranks=2, env={"CUDA_LAUNCH_BLOCKING": "1"})
    assert done.returncode == 2 and "but CUDA_LAUNCH_BLOCKING=1 makes them synchronous" in done.stderr


@pytest.mark.parametrize("layout", [(), ("--pp", 2)])
def test_ranks_run_the_same_algorithm_of_a_gemm(busbar, tmp_path, layout):
    """With two algorithms another one is the fastest on rank 1. All ranks use that of rank 0, so that rank 1 takes longer; also if only
    one stage has the GEMM of the head."""
    one, two = [busbar.json("proxy", "transformer", *layout, "--model", "gpt3_125m", "--layers", 2, "--compute", "gemm", "-n", 1,
                            "--traced-steps", 0, "--no-alone", ranks=2, tmp_path=tmp_path,
                            env={"EMU_DATA": "off", "EMU_GEMM_ALGORITHMS": algorithms})["step_us"]["p50"] for algorithms in ("1", "2")]
    assert 1.01 * one < two < 1.2 * one
