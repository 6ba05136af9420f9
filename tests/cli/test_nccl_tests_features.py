"""Features of nccl-tests (host API) in busbar bench: every operation, type and option takes effect, and invalid input is rejected with one
line. Expected times are computed here again from the cost model of the emulated GPUs."""
import json
import re

import pytest

COLLECTIVES = ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "alltoall", "gather", "scatter",
               "sendrecv", "alltoallv", "hypercube"]
REDUCING = ["all_reduce", "reduce_scatter", "reduce"]
NOT_IN_PLACE = ["alltoall", "sendrecv", "alltoallv"]
TYPES = ["int8", "uint8", "int32", "uint32", "int64", "uint64", "half", "float", "double", "bfloat16", "f8e4m3", "f8e5m2"]
OPS = ["sum", "prod", "max", "min", "avg", "mulsum"]
PROFILE = {
    "name": "test", "gpus_per_node": 4, "launch_us": 2.0, "nccl_launch_us": 1.5, "kernel_us": 1.25,
    "memory_gbps": 1000.0, "memory_bytes": 1e9,
    "tflops": {"float32": 10.0, "float16": 20.0, "bfloat16": 20.0, "float64": 5.0}, "sm_count": 100,
    "clock_khz": 1000000, "intra": {"latency_us": 7.0, "gbps": 80.0}, "inter": {"latency_us": 11.0, "gbps": 20.0},
}
ONE = ["-n", "2", "-w", "1", "--repeats", "1"]
KB4 = ["-b", "4K", "-e", "4K", *ONE]


@pytest.fixture
def model(tmp_path):
    """Environment that selects the cluster profile above."""
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps(PROFILE))
    return {"EMU_CLUSTER": str(path)}


def us(kilobytes=4, steps=4, factor=1.5):
    """Time of an all_reduce over 4 ranks of one node according to the cost model."""
    return steps * 7.0 + factor * kilobytes * 1024 / 80.0 / 1e3


def rows_of(text):
    return [line.split() for line in text.splitlines() if re.match(r"\s*\d", line)]


# ---- verification of data --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ranks,root", [(3, "all"), (4, 2)])
def test_verifies_all_collectives_types_and_operations(busbar, tmp_path, ranks, root):
    """All collectives, types, operations, roots and placements in one process. Four ranks run the hypercube, too."""
    run = busbar.json("bench", "all", "-d", "all", "-o", "all", "-r", root, "-b", "3000", "-e", "3000", *ONE, "-c", "2",
                      ranks=ranks, tmp_path=tmp_path, timeout=300)
    collectives = [c for c in COLLECTIVES if c != "hypercube" or ranks == 4]
    roots = range(ranks) if root == "all" else [root]
    expected = {(c, d, o, r, p) for c in collectives for d in TYPES for o in (OPS if c in REDUCING else [None])
                for r in (roots if c in ("broadcast", "reduce", "gather", "scatter") else [None])
                for p in (["out_of_place"] if c in NOT_IN_PLACE else ["out_of_place", "in_place"])}
    seen = [(r["collective"], r["dtype"], r["op"], r["root"], r["placement"]) for r in run["results"]]
    assert len(seen) == len(set(seen)) and set(seen) == expected
    assert [r for r in run["results"] if r["wrong"] != 0] == []


@pytest.mark.parametrize("collective,place", [
    (c, p) for c in COLLECTIVES for p in ("out_of_place", "in_place") if p == "out_of_place" or c not in NOT_IN_PLACE])
def test_corrupt_byte_is_detected_in_every_collective(busbar, collective, place):
    """NCCL operations on a rank: one before the events, a synchronizing all_reduce for rooted collectives (their ranks finish at different
    times), and the timed operation, which is verified. A hypercube of 4 ranks has two rounds per operation. The fault of grouped sends
    and receives is injected into ncclRecv."""
    receives = {"sendrecv": 1, "alltoallv": 3, "hypercube": 2}.get(collective)
    rooted = collective in ("broadcast", "reduce", "gather", "scatter")
    where = f"call={2 * receives},name=ncclRecv" if receives else "call=3" if rooted else "call=2"
    rank = 0 if collective in ("reduce", "gather") else 2
    done = busbar.run("bench", collective, "-b", "1K", "-e", "1K", "-w", "0", "-n", "1", "--repeats", "1", "--placement", place,
                      ranks=4, env={"EMU_FAULT": f"corrupt:rank={rank},{where}"})
    assert done.returncode == 3, done.stdout + done.stderr
    assert f"wrong data: {collective} of " in done.stderr and f"first on rank {rank} (" in done.stderr


CORRUPT = ("bench", "all_reduce", "-b", "1K", "-e", "1K", "-w", "0", "-n", "1", "--repeats", "1", "--placement", "in_place")


def test_corrupt_byte_is_detected_in_every_type(busbar, tmp_path):
    """Four operations per row: one before the events, the timed one, which is verified, and two for the sample of the host clock."""
    faults = ";".join(f"corrupt:rank=1,call={4 * row + 2}" for row in range(len(TYPES)))
    done = busbar.run(*CORRUPT, "-d", "all", "-o", "mulsum", "--json", tmp_path / "r.json", ranks=2, env={"EMU_FAULT": faults})
    assert done.returncode == 3, done.stdout + done.stderr
    rows = json.loads((tmp_path / "r.json").read_text())["results"]
    assert [(row["dtype"], row["wrong"]) for row in rows] == [(dtype, 1) for dtype in TYPES]


@pytest.mark.parametrize("dtype,op", [("float", "avg"), ("half", "prod"), ("int8", "min")])
def test_corrupt_byte_is_detected_in_operations(busbar, dtype, op):
    done = busbar.run(*CORRUPT, "-d", dtype, "-o", op, ranks=2, env={"EMU_FAULT": "corrupt:rank=1,call=2"})
    assert done.returncode == 3, done.stdout + done.stderr


def test_each_verification_pass_uses_a_new_seed(busbar):
    """With -c N each of N verification passes runs one more operation with a new seed. The fault hits the third pass."""
    for passes, status in ((2, 0), (3, 3)):
        done = busbar.run("bench", "alltoallv", "-b", "1K", "-e", "1K", "-w", "0", "-n", "1", "--repeats", "1", "-c", passes,
                          ranks=2, env={"EMU_FAULT": "corrupt:rank=1,call=4,name=ncclRecv"})
        assert done.returncode == status, done.stderr


# ---- operations ------------------------------------------------------------------------------------------------------


def test_hypercube_requires_a_power_of_two(busbar):
    done = busbar.run("bench", "hypercube", *KB4, ranks=3)
    assert done.returncode == 0 and "not a power of 2, skipping" in done.stdout and rows_of(done.stdout) == []


def test_hypercube_bandwidth_counts_bytes_sent(busbar, model, tmp_path):
    """4 ranks: two rounds that send 1 and 2 slices of 1 KiB. In place there is no copy before the rounds."""
    run = busbar.json("bench", "hypercube", *KB4, ranks=4, env=model, tmp_path=tmp_path)
    row = next(r for r in run["results"] if r["placement"] == "in_place")
    time = 2 * 7.0 + 3 * 1024 / 80.0 / 1e3
    assert row["bytes"] == 4096 and row["count"] == 256 and row["busbw_factor"] == 1
    assert row["time_us"]["p50"] == pytest.approx(time, abs=0.01)
    assert row["algbw_gbps"] == pytest.approx(3 * 1024 / row["time_us"]["p50"] / 1e3, rel=1e-6)


def test_alltoallv_by_distance_and_imbalance(busbar, tmp_path):
    """6 KiB over 4 ranks: with imbalance 1 the peers get 0, 1, 2 and 3 KiB; with imbalance 0 all get the same."""
    for imbalance in (1, 0.5, 0):
        run = busbar.json("bench", "alltoallv", "-b", "6K", "-e", "6K", *ONE, "--imbalance", imbalance, ranks=4, tmp_path=tmp_path)
        row = run["results"][0]
        assert (row["bytes"], row["count"], row["wrong"]) == (6144, 384, 0)


def test_alltoallv_from_a_matrix_file(busbar, tmp_path):
    """The row sums are 448, 208 and 640, the column sums 432, 448 and 416, with each number rounded down to a multiple of 16."""
    path = tmp_path / "matrix"
    path.write_text("100 200 150\n 50 100 75\n\n300 150 200\n")
    run = busbar.json("bench", "alltoallv", *ONE, "--matrix", path, ranks=3, tmp_path=tmp_path)
    assert [(r["bytes"], r["count"], r["wrong"]) for r in run["results"]] == [(288 + 144 + 192, (288 + 144 + 192) / 4, 0)]
    size = run["results"][0]["bytes"]  # the size of a matrix can have a limit
    for limit, status in ((f"{size}:0", 0), (f"{size}:1e9", 5)):
        assert busbar.run("bench", "alltoallv", *ONE, "--matrix", path, "--min-busbw", limit, ranks=3).returncode == status
    run = busbar.json("bench", "alltoallv", *KB4, "--matrix", path, "--matrix-scale", "2", ranks=3, tmp_path=tmp_path)
    assert run["results"][0]["bytes"] == 592 + 288 + 400  # rows of 200 400 288 | 96 200 144 | 592 288 400
    for ranks in (2, 4):
        done = busbar.run("bench", "alltoallv", *KB4, "--matrix", path, ranks=ranks)
        assert done.returncode == 2 and f"is for 3 ranks, but there are {ranks}" in done.stderr


# ---- options ---------------------------------------------------------------------------------------------------------


def test_explicit_sizes_and_all_roots(busbar, tmp_path):
    run = busbar.json("bench", "broadcast", "--sizes", "2K,8,1.5K", "-r", "all", "--placement", "in_place", *ONE, ranks=3,
                      tmp_path=tmp_path)
    assert [(r["root"], r["bytes"]) for r in run["results"]] == [(root, s) for root in range(3) for s in (2048, 8, 1536)]


def test_grouped_operations_share_one_latency(busbar, model, tmp_path):
    """A single small sendrecv takes one latency. Five sendrecvs in a group share one latency."""
    times = [busbar.json("bench", "sendrecv", "-b", "64", "-e", "64", *ONE, "-m", m, ranks=4, env=model, tmp_path=tmp_path)
             ["results"][0]["time_us"]["p50"] for m in (1, 5)]
    assert times[0] == pytest.approx(7.0, rel=0.01) and times[1] == pytest.approx(7.0 / 5, rel=0.01)


@pytest.mark.parametrize("mode,waits", [(0, 0), (1, 1), (2, 1), (3, 1)])
def test_blocking_modes_wait_between_iterations(busbar, model, tmp_path, mode, waits):
    """Without waits only the first launch adds to the time. With waits every iteration adds its launch."""
    run = busbar.json("bench", "all_reduce", "-b", "4K", "-e", "4K", "-n", "10", "--repeats", "1", "-z", mode, ranks=4, env=model,
                      tmp_path=tmp_path)
    row = run["results"][0]
    assert row["time_us"]["p50"] == pytest.approx(us() + waits * 1.5, abs=0.16)
    assert row["mode"] == ("blocked" if mode else "stream") and row["wrong"] == 0


@pytest.mark.parametrize("options", [["-y", "1"], ["-u", "3"], ["-u", "1", "-d", "int8"], ["-R", "1"], ["-R", "2"]])
def test_null_stream_unaligned_and_registered_buffers(busbar, model, tmp_path, options):
    run = busbar.json("bench", "all", *KB4, *options, ranks=4, env=model, tmp_path=tmp_path)
    assert {r["collective"] for r in run["results"]} == set(COLLECTIVES) and all(r["wrong"] == 0 for r in run["results"])


@pytest.mark.parametrize("option,call", [
    (["-R", "1"], "ncclCommRegister"), (["-R", "2"], "ncclCommWindowRegister"), (["-o", "mulsum"], "ncclRedOpCreatePreMulSum"),
    (["-G", "1"], "cudaGraphLaunch"), (["-m", "2"], "ncclGroupEnd")])
def test_options_reach_nccl_and_cuda(busbar, option, call):
    """A fault is injected into the call that the option causes. The run fails only with the option."""
    env = {"EMU_FAULT": f"fail:rank=0,call=1,name={call}"}
    assert busbar.run("bench", "all_reduce", *KB4, *option, ranks=2, env=env).returncode == 1
    assert busbar.run("bench", "all_reduce", *KB4, ranks=2, env=env).returncode == 0


def test_symmetric_registration_falls_back_with_a_warning(busbar):
    done = busbar.run("bench", "all_reduce", *KB4, "-R", "2", ranks=2, env={"EMU_NCCL_WINDOW": "0"})
    assert done.returncode == 0 and len(re.findall("symmetric windows .* measured without", done.stderr)) == 1
    assert "# registration of buffers: none" in done.stdout
    assert "# registration of buffers: local" in busbar.run("bench", "all_reduce", *KB4, "-R", "1", ranks=2).stdout


@pytest.mark.parametrize("asked,env,kind", [
    (2, {"EMU_NCCL_WINDOW": "28"}, "symmetric"), (2, {"EMU_NCCL_WINDOW": "30"}, "symmetric"),
    (2, {"EMU_NCCL_WINDOW": "28", "EMU_NODES": "2"}, "local"), (2, {"EMU_NCCL_WINDOW": "30", "EMU_NODES": "2"}, "none"),
    (2, {"EMU_NCCL_WINDOW": "28", "NCCL_WIN_ENABLE": "0"}, "local"), (2, {"EMU_NCCL_WINDOW": "28", "NCCL_CUMEM_ENABLE": "0"}, "local"),
    (1, {"NCCL_LOCAL_REGISTER": "0"}, "none")])
def test_registration_is_what_nccl_can_use(busbar, tmp_path, asked, env, kind):
    """NCCL before 2.29 returns a window or a local handle also where symmetric kernels cannot run: across nodes, or if disabled."""
    path = tmp_path / "r.json"
    done = busbar.run("bench", "all_reduce", *KB4, "-R", asked, "--json", path, ranks=2, env=env)
    run = json.loads(path.read_text())
    assert done.returncode == 0 and f"# registration of buffers: {kind}" in done.stdout and run["registration"] == kind, done.stderr
    measured = {"symmetric": None, "local": "measured with local registration", "none": "measured without registration"}[kind]
    assert (measured in done.stderr) if measured else "registration" not in done.stderr
    assert ("not_symmetric" in run["results"][0]["flags"]) is (kind == "symmetric")  # the emulated NCCL runs ordinary kernels


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_graph_mode_times_warm_launches_and_verifies_data(busbar, model, tmp_path, collective):
    run = busbar.json("bench", collective, *KB4, "-G", "3", "--repeats", "2", "-c", "2", ranks=4, env=model, tmp_path=tmp_path)
    assert all(r["mode"] == "graph" and r["wrong"] == 0 for r in run["results"])
    if collective == "all_reduce":
        assert run["results"][0]["time_us"]["max"] == pytest.approx(us(), rel=1e-3)


@pytest.mark.parametrize("call,status", [(2, 0), (3, 3)])
def test_last_operation_of_a_graph_is_verified(busbar, call, status):
    """Calls of a rank: one of warm-up, then two that are captured into the graph, which is launched repeatedly."""
    done = busbar.run("bench", "all_reduce", *KB4, "-G", "2", "--placement", "in_place", ranks=2,
                      env={"EMU_FAULT": f"corrupt:rank=1,call={call},name=ncclAllReduce"})
    assert done.returncode == status and ("WRONG DATA" in done.stdout) == (status == 3)


def test_report_cputime_measures_host_time(busbar, model, tmp_path):
    env = dict(model)
    run = busbar.json("bench", "all_reduce", *KB4, "-C", "1", ranks=2, env=env, tmp_path=tmp_path)
    assert all(r["mode"] == "host" and r["time_us"]["p50"] > 0 for r in run["results"])
    assert all(r["busbw_gbps"] is r["algbw_gbps"] is None for r in run["results"])
    done = busbar.run("bench", "all_reduce", *KB4, "-C", "1", ranks=2)
    assert "cputime" in done.stdout and "bus bandwidth" not in done.stdout.splitlines()[-1]
    assert "a model (except the host's time to enqueue, measured on this machine)" in done.stdout


def test_average_over_ranks(busbar, model, tmp_path):
    """Ranks 0 and 1 exchange 64 KiB. Rank 2 sends and receives nothing, so its time is 0."""
    path = tmp_path / "matrix"
    path.write_text("0 65536 0\n65536 0 0\n0 0 0\n")
    line = ["bench", "alltoallv", "-b", "64K", "-e", "64K", "-n", "20", "--repeats", "1", "--matrix", path]
    times = [busbar.json(*line, "-a", a, ranks=3, env=model, tmp_path=tmp_path)["results"][0]["time_us"]["p50"] for a in range(4)]
    transfer_us = 7.0 + 65536 / 80.0 / 1e3
    assert times[0] == pytest.approx(transfer_us, rel=0.02) and times[3] == pytest.approx(transfer_us, rel=0.02)
    assert times[2] < 2 and times[1] == pytest.approx((2 * times[3] + times[2]) / 3, rel=0.02)
    default = busbar.run(*line, ranks=3, env=model).stdout
    assert "sample: time of the slowest rank;" in default and "sample: mean time of all ranks;" in busbar.run(*line, "-a", "1", ranks=3).stdout


def test_split_groups_run_concurrently(busbar, model, tmp_path):
    line = ["bench", "all_reduce", "broadcast", *KB4, "-r", "1", "--placement", "out_of_place"]
    run = busbar.json(*line, "--split", "MOD:2", ranks=4, env=model, tmp_path=tmp_path)
    assert [(r["collective"], r["group"]) for r in run["results"]] == [(c, g) for c in ("all_reduce", "broadcast") for g in (0, 1)]
    for r in run["results"]:
        assert r["wrong"] == 0 and r["busbw_gbps"] == pytest.approx(r["algbw_gbps"])  # factors 2(2-1)/2 and 1
    assert run["results"][0]["time_us"]["p50"] == pytest.approx(2 * 7.0 + 4096 / 80.0 / 1e3, rel=1e-3)
    table = busbar.run(*line, "--split", "DIV:2", "--full", ranks=4).stdout
    assert "group" in table and [row[-1] for row in rows_of(table)] == ["0", "1", "0", "1"]
    done = busbar.run(*line, "--split", "DIV:3", ranks=4)  # the second group has one rank, so root 1 does not exist
    assert done.returncode == 2 and "ranks are 0 to 0" in done.stderr


def test_wrong_data_in_one_split_group_exits_with_3(busbar, tmp_path):
    done = busbar.run("bench", "all_reduce", "-b", "1K", "-e", "1K", "-w", "0", "-n", "1", "--repeats", "1", "--split", "AND:0x1",
                      ranks=4, env={"EMU_FAULT": "corrupt:rank=3,call=2"})
    assert done.returncode == 3 and [row[8] for row in rows_of(done.stdout)] == ["0", "1"]


def test_cycles_timestamps_and_memory_report(busbar, tmp_path):
    run = busbar.json("bench", "all_reduce", *KB4, "--placement", "in_place", "-N", "3", "-S", "1", ranks=2, tmp_path=tmp_path)
    assert [r["cycle"] for r in run["results"]] == [0, 1, 2]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", r["timestamp"]) for r in run["results"])
    table = busbar.run("bench", "all_reduce", *KB4, "-N", "2", "-S", "1", "-M", "1", "--full", ranks=2).stdout
    assert [len(row) for row in rows_of(table)] == [16, 16]
    assert re.search(r"# GPU memory usage     : Initialization .* \| User-Allocated (?!0 B).* \| Collective .* \| Total ", table)


@pytest.mark.parametrize("waits", [[], ["-z", "3"]])
def test_per_iteration_statistics(busbar, model, tmp_path, waits):
    run = busbar.json("bench", "all_reduce", "-b", "4K", "-e", "4K", "-n", "30", "--repeats", "2", "-I", "1", "-K", "5", *waits, ranks=4,
                      env=model, tmp_path=tmp_path)
    for row in run["results"]:
        assert row["iteration_us"]["min"] == pytest.approx(us() + 1.5 * bool(waits), abs=0.01) and row["iteration_variation"] < 0.01
        assert row["iteration_us"]["max"] == pytest.approx(row["time_us"]["p50"], abs=0.2) and row["wrong"] == 0


def test_statistics_of_mode_sync(busbar, tmp_path):
    """Every sample is an iteration: the statistics of -I are those of all of them."""
    args = ("bench", "all_reduce", "--sizes", "4K", "-n", 60, "--repeats", 2, "--mode", "sync", "-I", 1)
    for row in busbar.json(*args, ranks=2, tmp_path=tmp_path)["results"]:
        assert row["iteration_us"] == row["time_us"] and row["iteration_us"]["p99"] and row["iteration_variation"] < 0.01
    assert "i_p99" in busbar.run(*args, ranks=2).stdout


def test_results_contain_memory_and_registration(busbar, tmp_path):
    run = busbar.json("bench", "all_reduce", *KB4, "-M", "1", "-R", "1", ranks=2, tmp_path=tmp_path)
    assert run["registration"] == "local"
    memory = run["memory_bytes"]
    assert memory["user_allocated"] > 4096 and memory["total"] >= memory["user_allocated"]
    assert "memory_bytes" not in busbar.json("bench", "all_reduce", *KB4, ranks=2, tmp_path=tmp_path)


def test_endless_run_keeps_its_rows_when_terminated(busbar, tmp_path):
    """The rows are written once to the JSON file and once as CSV to a stream."""
    path = tmp_path / "r.json"
    done = busbar.run("bench", "all_reduce", *KB4, "-N", "0", "--full", "--json", path, "--csv", "/dev/stderr", timeout=3)
    assert done.returncode != 0 and done.stdout.count("# cycle") > 0
    assert len([line for line in done.stderr.splitlines() if line.startswith("collective,")]) == 1
    run = json.loads(path.read_text())
    assert (run["status"], run["ended_by"]) == ("interrupted", "SIGTERM") and run["phase"].startswith("bench all_reduce")
    assert [r["cycle"] for r in run["results"]] == sorted(r["cycle"] for r in run["results"])


def test_exits_with_5_below_the_bandwidth_threshold(busbar, model, tmp_path):
    path = tmp_path / "r.json"
    for threshold, status in ((0.1, 0), (50, 5)):
        done = busbar.run("bench", "all_reduce", *KB4, "--min-busbw", threshold, "--json", path, ranks=4, env=model)
        assert done.returncode == status
        assert ("FAILED" in done.stdout) == (status == 5)
    run = json.loads(path.read_text())
    assert run["status"] == "below threshold" and "below the required 50 GB/s" in run["reason"] and run["reason"] in done.stderr


@pytest.mark.parametrize("ranks,call,text", [
    (4, "call=9,name=ncclAllReduce", r": ncclAllReduce: .*injected fault.* \(.*launch\.c:\d+\)"),
    (2, "call=80", r": cudaMalloc: unknown error: cudaErrorUnknown \(.*bench\.c:\d+\)"),
    (2, "call=2", ": cudaGetDeviceProperties: unknown error"),
])
def test_reason_of_a_failed_run_is_the_error_of_the_rank_that_failed(busbar, tmp_path, ranks, call, text):
    """A call of one rank fails: the process of rank 0, which writes the results, has printed nothing, and may end first."""
    path = tmp_path / "r.json"
    done = busbar.run("bench", "all_reduce", *KB4, "--json", path, ranks=ranks, env={"EMU_FAULT": f"fail:rank={ranks // 2},{call}"})
    run = json.loads(path.read_text())
    assert done.returncode == 1 and run["status"] == "failed"
    assert run["reason"].startswith(f"rank {ranks // 2} (") and re.search(text, run["reason"]) and run["reason"] in done.stderr


THRESHOLDS = [  # in the cost model 4K has less bandwidth than 64K, and the mean lies between both
    ("4K:{small},64K:{large},peak:{large}", 0, []),
    ("64K:{more}", 5, ["bus bandwidth at 64 KiB", "below the required"]),
    ("64K:{close:.15g}", 5, ["below the required"]),
    ("peak:{more}", 5, ["peak bus bandwidth", "below the required"]),
    ("4K:{large}", 5, ["bus bandwidth at 4 KiB", "below the required"]),
    ("{mean},peak:{large}", 0, []),
    ("{large}", 5, ["mean bus bandwidth", "below the required"]),
    ("all_reduce:{mean},all_reduce:64K:{more}", 5, ["bus bandwidth at 64 KiB", "below the required"]),
    ("8K:1", 5, ["cannot check the bus bandwidth (--min-busbw, 8 KiB): no result has this size"]),
]


def test_threshold_of_one_collective(busbar):
    args = ("bench", "all_gather", "all_reduce", "--sizes", "4K", *ONE)
    for limit, status in (("all_gather:4K:1e6", 5), ("all_reduce:1e-6,all_gather:peak:1e-6", 0)):
        done = busbar.run(*args, "--min-busbw", limit, ranks=2)
        assert done.returncode == status and "all_reduce:" not in done.stderr and (status == 0 or "all_gather: bus bandwidth at 4 KiB" in done.stderr), done.stderr
    assert "this run does not measure alltoall; try: bench all_gather alltoall" in busbar.run(*args, "--min-busbw", "alltoall:3", ranks=2).stderr


def test_thresholds_per_size_and_for_the_peak(busbar, model, tmp_path):
    args = ("bench", "all_reduce", "--sizes", "4K,64K", *ONE)
    seen = [r["busbw_gbps"] for r in busbar.json(*args, ranks=4, env=model, tmp_path=tmp_path)["results"]]
    small, large = min(seen), max(seen)
    for thresholds, status, message in THRESHOLDS:
        text = thresholds.format(small=0.99 * small, large=0.99 * large, more=1.01 * large, close=(1 + 1e-9) * large, mean=0.99 * (small + large) / 2)
        done = busbar.run(*args, "--min-busbw", text, ranks=4, env=model)
        assert done.returncode == status and ("FAILED" in done.stdout) == (status == 5), text
        assert not re.search(r"is ([0-9.]+) GB/s, below the required \1 GB/s", done.stderr), done.stderr
        assert not re.search(r": ([0-9.]+) GB/s, required \1: FAILED", done.stdout), done.stdout
        assert all(word in done.stderr for word in message) and (status == 5 or done.stderr == ""), text


def test_a_limit_outside_of_the_sizes_names_what_to_add(busbar):
    for sizes, advice in ((("--sizes", "1M,4M"), "--sizes with 8388608"), (("-b", "1M", "-e", "4M"), "-e 8388608")):
        done = busbar.run("bench", "all_reduce", *sizes, "--min-busbw", "8M:1", ranks=2)
        assert done.returncode == 2 and done.stderr.endswith(f"8 MiB is not among the sizes of this run, 1 MiB to 4 MiB; try: {advice}\n")


SPLIT = {"EMU_NODES": "8", "EMU_CLUSTER": "h100-sxm-ib", "EMU_DATA": "off", "EMU_SLOW": "link=node3-nic0:0.5"}


def test_verdict_names_the_group_of_the_slow_nic(busbar, tmp_path):
    """Pairs of nodes: the NIC of node 3 is at half rate, so group 1 (nodes 2 and 3) has half of about 48 GB/s."""
    path = tmp_path / "r.json"
    done = busbar.run("bench", "all_reduce", "--sizes", "256M", "--split", "DIV:2", "-c", 0, "-n", 2, "--min-busbw", "256M:45", "--json", path,
                      ranks=8, env=SPLIT)
    run = json.loads(path.read_text())
    hosts = [device["host"] for device in run["devices"]]
    assert run["groups"] == [{"group": g, "ranks": [2 * g, 2 * g + 1], "hosts": hosts[2 * g:2 * g + 2]} for g in range(4)]
    (below,) = run["below"]
    assert (below["bytes"], below["required_gbps"], below["group"], below["scope"]) == (2 ** 28, 45, 1, "size")
    assert below["measured_gbps"] == pytest.approx(24.13, rel=1e-3)
    assert f"in group 1 (ranks 2-3 on {hosts[2]}, {hosts[3]}) is 24.1304 GB/s, below the required 45 GB/s; below in 1 of 4 groups" in run["reason"]
    assert done.returncode == 5 and f"busbar: {run['reason']}\n" in done.stderr and hosts[0] not in done.stderr
    assert f"# Slowest group        : 24.1304 GB/s in group 1 (ranks 2-3 on {hosts[2]}, {hosts[3]})" in done.stdout
    assert "; to find slow links: busbar-emulated bench p2p --max-slow 0" in done.stderr and "# Bus bandwidth, all_reduce 256 MiB: 24.1304 GB/s" in done.stdout
    assert f"# group 3 (ranks 6-7 on {hosts[6]}, {hosts[7]})" in done.stdout and "not_checked" not in done.stdout


def test_a_mean_is_judged_in_each_group(busbar):
    """The mean of all groups, 42 GB/s, would hide the slow group."""
    done = busbar.run("bench", "all_reduce", "--sizes", "64M,256M", "--split", "MOD:4", "-c", 0, "-n", 2, "--min-busbw", "30", ranks=8, env=SPLIT)
    assert done.returncode == 5 and "mean bus bandwidth in group 3 (ranks 3,7 on " in done.stderr
    assert "(mean of sizes 64 MiB to 256 MiB, fastest result 24.13 GB/s); below in 1 of 4 groups" in done.stderr


def test_thresholds_from_a_prediction(busbar, tmp_path):
    plan, path = tmp_path / "plan.json", tmp_path / "r.json"
    args = ("all_reduce", "--sizes", "1M,16M")
    assert busbar.run("plan", *args, "--ranks", 2, "--gpus-per-node", 1, "--cluster", "h100-sxm-ib", "--json", plan, emulated=False).returncode == 0
    bench = ("bench", *args, "--split", "DIV:2", "-c", 0, *ONE, "--json", path, "--min-busbw")
    required = {row["bytes"]: 0.9 * row["busbw_gbps"] for row in json.loads(plan.read_text())["results"]}
    good = busbar.run(*bench, f"{plan}:90%", ranks=8, env={**SPLIT, "EMU_SLOW": ""})
    assert ": OK; the lowest against its limit among 16 results\n" in good.stdout
    assert good.returncode == 0 and good.stderr == "" and json.loads(path.read_text())["below"] == []
    slow = busbar.run(*bench, f"{plan}:90%", ranks=8, env=SPLIT)
    run = json.loads(path.read_text())
    assert slow.returncode == 5 and {(b["group"], b["bytes"], b["placement"]) for b in run["below"]} == {
        (1, bytes_, placement) for bytes_ in required for placement in ("out_of_place", "in_place")}
    assert all(b["required_gbps"] == pytest.approx(required[b["bytes"]], rel=1e-4) for b in run["below"])
    assert f"({plan}:90%); below in 4 of 16 results" in slow.stderr
    measured = tmp_path / "measured.json"  # a measured result is a reference, too
    assert busbar.run("bench", *args, "-c", 0, *ONE, "--json", measured, ranks=2, env={**SPLIT, "EMU_NODES": "2", "EMU_SLOW": ""}).returncode == 0
    assert busbar.run(*bench, f"{measured}:99%", ranks=8, env={**SPLIT, "EMU_SLOW": ""}).returncode == 0
    bench = tuple(arg if arg != path else tmp_path / "second.json" for arg in bench)
    refused = busbar.run(*bench, f"{path}:90%", ranks=8)
    assert refused.returncode == 2 and refused.stderr.startswith(f"busbar: --min-busbw: {path} was measured with --split; try: a run with the ranks of one group, without --split\n")


def test_rejects_a_reference_that_does_not_fit(busbar, tmp_path):
    plan = tmp_path / "plan.json"
    assert busbar.run("plan", "all_reduce", "--sizes", "1M", "--ranks", 2, "--cluster", "h100-sxm-ib", "--json", plan, emulated=False).returncode == 0
    for args, message in [(("all_reduce", "--sizes", "2M"), "has no result of all_reduce 2 MiB, float, sum, out_of_place, mode stream"),
                          (("all_gather", "--sizes", "1M"), "has no result of all_gather 1 MiB"),
                          (("all_reduce", "--sizes", "1M", "--split", "MOD:2"), "is for 2 ranks on 1 node, but group 0 (rank 0 on")]:
        done = busbar.run("bench", *args, "--min-busbw", f"{plan}:90%", ranks=2)
        assert done.returncode == 2 and done.stderr.startswith(f"busbar: --min-busbw: {plan} {message}")


@pytest.mark.parametrize("per_node, nodes, split, refusal", [
    (4, 2, [], "is for 4 ranks on 1 node, but this run has 4 ranks on 2 nodes"),
    (2, 1, [], "is for 4 ranks on 2 nodes, but this run has 4 ranks on 1 node"),
    (2, 4, [], "is for 4 ranks on 2 nodes, but this run has 4 ranks on 4 nodes"),
    (2, 2, ["--split", "DIV:2"], None),
    (2, 2, ["--split", "MOD:2"], "is for 2 ranks on 1 node, but group 0 (ranks 0,2 on"),
    (2, 2, [], None)])
def test_rejects_a_reference_for_another_number_of_nodes(busbar, tmp_path, per_node, nodes, split, refusal):
    """A reference for fewer nodes requires NVLink's bandwidth of a network; one for more nodes would accept a slow node."""
    plan = tmp_path / "plan.json"
    args = ("all_reduce", "--sizes", "1M")
    assert busbar.run("plan", *args, "--ranks", 2 if split else 4, "--gpus-per-node", per_node, "--cluster", "h100-sxm-ib", "--json", plan,
                      emulated=False).returncode == 0
    done = busbar.run("bench", *args, *split, "-c", 0, "-n", 2, "--min-busbw", f"{plan}:1%", ranks=4,
                      env={"EMU_NODES": str(nodes), "EMU_CLUSTER": "h100-sxm-ib", "EMU_DATA": "off"})
    if refusal:
        assert done.returncode == 2 and refusal in done.stderr and done.stderr.count("busbar: ") == 1 and "Avg bus" not in done.stdout
    else:
        assert done.returncode == 0, done.stderr


def test_threshold_fails_with_one_rank(busbar):
    done = busbar.run("bench", "all_reduce", *KB4, "--min-busbw", "1")
    assert done.returncode == 5 and "# Avg bus bandwidth    : N/A FAILED" in done.stdout
    assert done.stderr.count("cannot check the bus bandwidth (--min-busbw, mean): no result has a bus bandwidth") == 1


def test_threshold_fails_for_a_skipped_collective(busbar):
    done = busbar.run("bench", "hypercube", *KB4, "--min-busbw", "1", ranks=3)
    assert done.returncode == 5 and "skipping" in done.stdout and "hypercube" in done.stderr


def test_report_shows_ctas_and_policy(busbar, tmp_path):
    done = busbar.run("bench", "all_reduce", *KB4, "--min-ctas", "2", "--max-ctas", "4", "-x", "1", ranks=2)
    assert done.returncode == 0 and "# CTAs: minimum 2, maximum 4" in done.stdout and "policy 1" in done.stdout


def test_results_contain_every_option(busbar, tmp_path):
    run = busbar.json("bench", "all_reduce", *KB4, "-m", "2", "-T", "50", ranks=2, tmp_path=tmp_path)
    assert run["options"]["agg_iters"] == 2 and run["options"]["average"] == 3 and run["options"]["timeout"] == 50

