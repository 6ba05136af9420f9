"""How bench measures: modes, number of samples, order of sizes, arrival skew, verification. Emulated GPUs follow a documented cost
model."""
import json
import re

import pytest

# Round numbers, so times can be computed by hand: all_reduce of S bytes on 4 ranks takes 4 x 5 us + 1.5 S / 1 GB/s.
PROFILE = {
    "name": "measurement", "gpus_per_node": 8, "launch_us": 2.0, "nccl_launch_us": 30.0, "kernel_us": 1.0,
    "memory_gbps": 1000.0, "memory_bytes": 1e9,
    "tflops": {"float32": 10.0, "float16": 20.0, "bfloat16": 20.0, "float64": 5.0}, "sm_count": 100,
    "clock_khz": 1000000, "intra": {"latency_us": 5.0, "gbps": 1.0}, "inter": {"latency_us": 10.0, "gbps": 20.0},
}
SIZE = 4000
OPERATION_US = 4 * 5 + 1.5 * SIZE / 1e3  # 26 us: less than the host needs to enqueue one
LAUNCH_US = PROFILE["nccl_launch_us"]


@pytest.fixture
def measure(busbar, tmp_path):
    """Returns measure(*options, ranks=4, **profile): the results of all_reduce of one size, out of place."""
    path = tmp_path / "cluster.json"

    def run(*options, ranks=4, collective="all_reduce", env=None, **profile):
        path.write_text(json.dumps({**PROFILE, **profile}))
        return busbar.json("bench", collective, "-b", SIZE, "-e", SIZE, "--placement", "out_of_place", *options, ranks=ranks,
                           env={"EMU_CLUSTER": str(path), **(env or {})}, tmp_path=tmp_path)["results"]

    return run


def exactly(us):
    return pytest.approx(us, abs=0.002)


# ---- modes -----------------------------------------------------------------------------------------------------------


@pytest.mark.smoke
def test_modes_measure_different_times(measure):
    """stream: operations without launch time. sync: each operation with its launch. graph: all operations in one launch."""
    rows = measure("--mode", "all")
    assert [r["mode"] for r in rows] == ["stream", "sync", "graph"]
    stream, sync, graph = rows
    assert stream["time_us"]["p50"] == exactly(OPERATION_US) and stream["start_barrier"] is True
    assert sync["time_us"]["p50"] == exactly(OPERATION_US + LAUNCH_US) and sync["start_barrier"] is False
    assert graph["time_us"]["p50"] == exactly(OPERATION_US)
    assert [r["samples"] for r in rows] == [6, 120, 6]
    assert sync["time_us"]["p99"] == exactly(OPERATION_US + LAUNCH_US)  # 120 samples are enough for p99
    assert stream["time_us"]["p99"] is None and graph["time_us"]["p99"] is None
    assert all(r["wrong"] == 0 and r["stopped"] == "fixed" for r in rows)


def test_launch_rate_limits_the_result_without_a_start_barrier(measure):
    """The host enqueues an operation every 30 us, and an operation takes 26 us: only a start barrier hides the launch rate."""
    assert measure("--start-barrier", "0")[0]["time_us"]["p50"] == exactly(LAUNCH_US)
    assert measure("--start-barrier", "1")[0]["time_us"]["p50"] == exactly(OPERATION_US)


@pytest.mark.parametrize("options,env", [([], {"CUDA_LAUNCH_BLOCKING": "1"}), (["-z", "2"], {}),
                                         (["--share-gpu"], {"EMU_DEVICES": "1"})])
def test_no_start_barrier_where_it_would_deadlock(measure, options, env):
    row = measure(*options, env=env)[0]
    assert row["start_barrier"] is False and "start_barrier_expired" not in row["flags"] and row["wrong"] == 0


def test_expired_start_barrier_is_flagged(busbar, measure):
    """The timeout of 1 us expires before the host has enqueued 200 operations."""
    row = measure("-n", 200, "--repeats", 1, "--start-barrier-limit", "0.001")[0]
    assert row["start_barrier"] is False and "start_barrier_expired" in row["flags"] and row["wrong"] == 0
    done = busbar.run("bench", "all_reduce", "-b", "8", "-e", "8", "-n", "200", "--repeats", "1", "--start-barrier-limit", "0.001", ranks=2)
    assert "# warning start_barrier_expired, " in done.stdout and "--start-barrier 0" in done.stdout
    assert "start_barrier_expired" not in measure("--start-barrier-limit", "60000")[0]["flags"]


def test_more_operations_than_the_start_barrier_capacity(measure):
    """The start barrier holds 255 operations; the host enqueues the rest while these run."""
    row = measure("-n", "600", "--repeats", "1")[0]
    assert row["start_barrier"] is True and row["wrong"] == 0
    assert OPERATION_US < row["time_us"]["p50"] < LAUNCH_US


def test_rows_have_all_metrics(measure):
    for row in measure("--mode", "all"):
        assert row["host_us"] > 0 and row["first_us"] > row["host_us"]
        assert row["wall_us"]["p50"] >= (row["event_us"]["p50"] if row["mode"] != "graph" else 0)
        assert (row["skew"] is not None) == (row["mode"] == "sync")
        assert row["warmed"] == 5
    assert measure("-w", "0")[0]["first_us"] is None


def test_graphs_do_not_slow_down_the_rows_of_other_modes(busbar, tmp_path):
    """After a capture, NCCL's other operations take longer. The rows of the last collective are measured before the first capture."""
    rows = busbar.json("bench", "all_reduce", "reduce", "--sizes", 8, "-n", 2, "--mode", "all", ranks=2, tmp_path=tmp_path,
                       env={"EMU_MIXING_US": "50"})["results"]
    assert [row["mode"] for row in rows] == ["stream"] * 4 + ["sync"] * 4 + ["graph"] * 4
    assert max(row["time_us"]["p50"] for row in rows) < 15


def test_each_mode_has_its_own_table(busbar):
    done = busbar.run("bench", "all_reduce", "--full", "-b", "1K", "-e", "4K", "--mode", "all", ranks=2)
    assert done.returncode == 0, done.stderr
    assert re.findall(r"^# all_reduce \((\w+)\):", done.stdout, re.M) == ["stream", "sync", "graph"]
    assert done.stdout.count("# Avg bus bandwidth") == 3
    assert {len(line.split()) for line in done.stdout.splitlines() if re.match(r"\s*\d", line)} == {14, 16}


# ---- number of samples ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode,samples", [("stream", 6), ("graph", 6), ("sync", 120)])
def test_one_batch_is_enough_for_equal_samples(measure, mode, samples):
    row = measure("--mode", mode, "--confidence", "1%")[0]
    assert row["stopped"] == "confident" and row["samples"] == samples and row["wrong"] == 0


@pytest.mark.parametrize("args, shown", [(("--confidence", "50%"), True), ((), False)])
def test_table_has_the_confidence_interval_beside_the_times(busbar, tmp_path, args, shown):
    """Half of its width, as part of the median. -C 1: times of the host, which vary."""
    done = busbar.run("bench", "all_reduce", "--sizes", "1K", "-C", "1", "--json", tmp_path / "r.json", *args, ranks=2)
    heading, units, row = (line for line in done.stdout.splitlines() if re.match(r"#? +(size |\(B\)|1024 )", line))
    assert ("ci95" in heading.split()) == ("(+-%)" in units.split()) == shown
    assert "; shortest time of the host to enqueue " in done.stdout.splitlines()[-1]
    us = json.loads((tmp_path / "r.json").read_text())["results"][0]["time_us"]
    low, high = us["ci95"]
    assert not shown or float(row.split()[-1]) == pytest.approx(50 * (high - low) / us["p50"], abs=0.1)


def test_limits_end_sampling_without_confidence(measure):
    """Host times vary, so the interval never reaches a millionth of a per cent. 400 iterations are 20 samples."""
    row = measure("-C", "1", "--repeats", "2", "--confidence", "0.000001%", "--max-iters", "400", ranks=2)[0]
    assert row["stopped"] == "max_iters" and row["samples"] == 20 and "not_confident" in row["flags"]
    row = measure("-C", "1", "--repeats", "2", "--confidence", "0.000001%", "--max-seconds", "0", ranks=2)[0]
    assert row["stopped"] == "max_seconds" and row["samples"] == 2


def test_split_groups_stop_at_the_same_sample(busbar, tmp_path):
    run = busbar.json("bench", "all_reduce", "-b", "1K", "-e", "4K", "-C", "1", "--confidence", "2%", "--max-iters", "800",
                      "--split", "MOD:2", ranks=4, tmp_path=tmp_path)
    for group in zip(run["results"][:4], run["results"][4:]):
        assert all(r["wrong"] == 0 for r in group)
    rows = {}
    for r in run["results"]:
        rows.setdefault((r["bytes"], r["placement"]), []).append((r["samples"], r["stopped"]))
    assert all(len(pair) == 2 and pair[0] == pair[1] for pair in rows.values())


def test_automatic_warmup_ends_when_times_are_stable(measure):
    row = measure("--warmup", "auto", "-w", "3")[0]
    assert row["warmed"] == 13 and row["time_us"]["p50"] == exactly(OPERATION_US)  # 3 + 10 equal operations


def test_warnings_name_the_option_to_change(busbar):
    done = busbar.run("bench", "all_reduce", "-b", "1K", "-e", "4K", "-c", "0", "--repeats", "3", ranks=2)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^# warning few_samples, 6 of 6 results: .*; try: --repeats 6", done.stdout, re.M)
    assert "not_checked" not in done.stdout  # -c 0 asks for no check
    assert "warning noisy" not in done.stdout


def test_run_without_problems_has_no_warning(busbar):
    done = busbar.run("bench", "all_reduce", "-b", "1K", "-e", "4K", ranks=2)
    assert done.returncode == 0 and "warning" not in done.stdout


# ---- order -----------------------------------------------------------------------------------------------------------


def sizes_of(busbar, tmp_path, *options):
    run = busbar.json("bench", "all_reduce", "-b", "8", "-e", "8K", "--placement", "in_place", *options, ranks=2,
                      tmp_path=tmp_path)
    assert all(r["wrong"] == 0 for r in run["results"])
    return [r["bytes"] for r in run["results"]]


def test_sizes_are_shuffled_by_the_seed(busbar, tmp_path):
    ascending = [8 << i for i in range(11)]
    assert sizes_of(busbar, tmp_path) == ascending
    first = sizes_of(busbar, tmp_path, "--shuffle", "1")
    assert first != ascending and sorted(first) == ascending
    assert sizes_of(busbar, tmp_path, "--shuffle", "1") == first
    assert sizes_of(busbar, tmp_path, "--shuffle", "2") != first


# ---- skew ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("collective", ["all_reduce", "all_gather", "reduce_scatter", "alltoall"])
def test_skew_names_the_late_rank_and_excludes_waiting_from_transfer(measure, collective):
    """Rank 1 arrives 100 us late: its operation takes only the transfer time, and the others wait 100 us more."""
    alone = measure("--mode", "stream", collective=collective)[0]["time_us"]["p50"]
    row = measure("--mode", "sync", "--delay", "1:100", collective=collective)[0]
    assert row["skew"]["straggler"] == 1 and row["skew"]["straggler_share"] == 1.0
    assert row["skew"]["spread_us"]["p50"] == exactly(100) and row["skew"]["spread_us"]["max"] == exactly(100)
    assert row["skew"]["transfer_us"] == exactly(alone)
    assert row["time_us"]["p50"] == exactly(alone + 100)


def test_skew_names_the_last_of_several_late_ranks(measure):
    skew = measure("--mode", "sync", "--delay", "0:80,2:200,3:150")[0]["skew"]
    assert skew["straggler"] == 2 and skew["spread_us"]["p50"] == exactly(200)


def test_no_straggler_when_ranks_arrive_together(measure):
    skew = measure("--mode", "sync")[0]["skew"]
    assert skew["straggler"] is None and skew["spread_us"]["max"] == exactly(0)


@pytest.mark.parametrize("collective", ["broadcast", "reduce", "sendrecv", "gather"])
def test_skew_of_collectives_that_end_at_different_times(measure, collective):
    """A small all_reduce after each operation synchronizes the clocks of the ranks. The transfer time is unknown for these
    collectives."""
    skew = measure("--mode", "sync", "--delay", "0:80,1:200", collective=collective)[0]["skew"]
    assert skew["spread_us"]["min"] == exactly(200) and skew["spread_us"]["max"] == exactly(200)
    assert (skew["straggler"], skew["straggler_share"], skew["transfer_us"]) == (1, 1.0, None)
    skew = measure("--mode", "sync", collective=collective)[0]["skew"]
    assert skew["straggler"] is None and skew["spread_us"]["max"] == exactly(0)


def test_sync_barrier_only_after_collectives_that_end_at_different_times(busbar):
    """Emulated ranks always end together, so the test detects the barrier by its call: the only all_reduce of a broadcast, in the
    file of the sampler."""
    env = {"EMU_FAULT": "fail:rank=1,call=1,name=ncclAllReduce"}
    args = ["-b", "1K", "-e", "1K", "-n", 2, "--repeats", 1]
    for mode in "sync", "stream":
        done = busbar.run("bench", "broadcast", *args, "--mode", mode, ranks=2, env=env)
        assert done.returncode == 1 and re.search(r"ncclAllReduce: .*/measure/timing\.c:", done.stderr), done.stderr
        done = busbar.run("bench", "all_gather", *args, "--mode", mode, ranks=2, env=env)
        assert done.returncode == 0, done.stderr


def test_sync_barrier_is_not_timed(measure):
    """In sync mode an operation takes the same time with and without the barrier. Several operations in a group do not divide the
    spread."""
    row = measure("--mode", "sync", collective="broadcast")[0]
    alone = measure("--mode", "graph", collective="broadcast")[0]["time_us"]["p50"]
    assert row["time_us"]["p50"] == exactly(alone + LAUNCH_US)
    skew = measure("--mode", "sync", "-m", "4", "--delay", "1:200")[0]["skew"]
    assert skew["spread_us"]["p50"] == exactly(200)


def test_text_reports_no_straggler(busbar):
    done = busbar.run("bench", "all_reduce", "--mode", "sync", "-b", "1K", "-e", "1K", ranks=4)
    assert done.returncode == 0 and "# Straggler: none, ranks arrived within 0.0 us of each other" in done.stdout, done.stdout
    assert "Straggler" not in busbar.run("bench", "all_reduce", "--mode", "sync", "-b", "1K", "-e", "1K", ranks=1).stdout


def test_text_names_the_straggler(busbar):
    done = busbar.run("bench", "all_reduce", "-b", "1K", "-e", "4K", "--mode", "sync", "--delay", "1:100", ranks=3)
    assert done.returncode == 0, done.stderr
    assert "# Straggler: rank 1 arrived last in 6 of 6 results, by up to 100.0 us" in done.stdout
    rows = [line.split() for line in done.stdout.splitlines() if re.match(r"\s*\d", line)]
    assert [row[-2:] for row in rows] == [["100.00", "1"]] * 3
    args = ["-b", "1K", "-e", "1K", "--mode", "sync", "--split", "DIV:2", "--delay", "1:100,3:300"]
    done = busbar.run("bench", "all_reduce", *args, ranks=4)
    assert "# Straggler: rank 3 arrived last in 2 of 4 results, by up to 300.0 us; 1 other rank in others\n" in done.stdout


# ---- verification ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["stream", "sync"])
def test_verifies_the_last_operation(busbar, mode):
    """Only the last operation is verified: call 1 precedes the samples, calls 2 and 3 are the samples."""
    single = ("-b", "1K", "-e", "1K", "-w", "0", "-n", "2", "--repeats", "1", "--placement", "out_of_place", "--mode", mode)
    done = busbar.run("bench", "all_reduce", *single, ranks=2)
    assert done.returncode == 0, done.stderr
    for call, status in ((2, 0), (3, 3)):
        done = busbar.run("bench", "all_reduce", *single, ranks=2, env={"EMU_FAULT": f"corrupt:rank=0,call={call}"})
        assert done.returncode == status, done.stderr


def test_host_clock_includes_the_launch(busbar, tmp_path):
    """An operation takes 16 us and a launch 3 us. A start barrier hides the launch from GPU events. Both times are in the row."""
    args = ["bench", "all_reduce", "--sizes", "8", "-n", "5", "--repeats", "3"]
    both = busbar.json(*args, ranks=4, tmp_path=tmp_path)["results"]
    gpu = busbar.json(*args, "--clock", "gpu", ranks=4, tmp_path=tmp_path)["results"]
    host = busbar.json(*args, "--clock", "host", ranks=4, tmp_path=tmp_path)["results"]
    with_launch = pytest.approx(16 + 3 / 5)
    assert [row["placement"] for row in both] == ["out_of_place", "in_place"]
    for row in both + gpu:
        assert row["time_us"] == row["event_us"] and row["time_us"]["p50"] == pytest.approx(16)
        assert row["start_barrier"] and row["wrong"] == 0
    assert all(row["wall_us"]["p50"] == with_launch and row["wall_us"]["ci95"] is None and row["samples"] == 3 for row in both)
    assert all(row["wall_us"] is None for row in gpu)
    assert all(row["time_us"]["p50"] == row["wall_us"]["p50"] == with_launch and not row["start_barrier"] for row in host)


def test_wall_time_of_sync_mode_is_virtual(busbar, tmp_path):
    """The emulated time from the first call to the end of the wait, not the time of the machine that emulates it."""
    for row in busbar.json("bench", "all_reduce", "--sizes", "8", "-n", "3", "--repeats", "2", "--mode", "sync", ranks=2, tmp_path=tmp_path)["results"]:
        assert row["wall_us"] == row["time_us"]


def test_host_clock_of_graphs_includes_the_first_launch(busbar, tmp_path):
    """nccl-tests does not warm up its graph, so its time contains the first launch: 3 us in addition to five operations of 16 us."""
    args = ["bench", "all_reduce", "--sizes", "8", "-n", "5", "--repeats", "3", "--mode", "graph"]
    for row in busbar.json(*args, ranks=4, tmp_path=tmp_path)["results"]:
        assert row["time_us"]["p50"] == pytest.approx(16) and row["wrong"] == 0
        assert row["wall_us"]["p50"] > row["time_us"]["p50"]


def test_one_line_per_mode_has_the_wall_time(busbar):
    done = busbar.run("bench", "all_reduce", "--sizes", "8", "-n", "5", "--mode", "all", ranks=2)
    walls = {line.split()[1]: line.split()[5] for line in done.stdout.splitlines() if line.startswith(" all_reduce ")}
    assert float(walls["stream"]) > 0 and float(walls["graph"]) > 0 and walls["sync"] == "-", done.stdout


@pytest.mark.parametrize("args", [["--clock", "gpu"], ["-C", "1"], ["--mode", "sync"]])
def test_table_has_a_wall_column_only_with_two_clocks(busbar, args):
    done = busbar.run("bench", "all_reduce", "--sizes", "8", *args, ranks=2)
    assert done.returncode == 0 and "wall" not in done.stdout, done.stderr


def test_wrong_data_is_the_last_line_also_below_a_limit(busbar, tmp_path):
    path = tmp_path / "r.json"
    done = busbar.run("bench", "all_reduce", "-b", "1K", "-e", "1K", "-n", 1, "--repeats", 1, "-w", 0, "-c", 1, "--placement",
                      "out_of_place", "--min-busbw", 9999, "--json", path, ranks=2, env={"EMU_FAULT": "corrupt:rank=1,call=2"})
    lines = [line for line in done.stderr.splitlines() if line.startswith("busbar: ")]
    assert done.returncode == 3 and any("below the required 9999 GB/s" in line for line in lines[:-1])
    assert lines[-1].startswith("busbar: wrong data: ") and lines[-1] == "busbar: " + json.loads(path.read_text())["reason"]
