"""The default output of each mode of `busbar bench` has at most 25 lines and ends with the verdict; --full and JSON have everything."""
import json
import re

import pytest

FEW = ("-n", 2, "--repeats", 2, "-w", 1)
MODES = {"all_reduce": (("all_reduce", *FEW), "# data not verified (EMU_DATA=off) in 24 of 24 results; shortest time "),
         "alltoall": (("alltoall", *FEW), "# data not verified (EMU_DATA=off) in "),
         "all": (("all", *FEW), "# data not verified (EMU_DATA=off) in "),
         "p2p": (("p2p", *FEW), "# no slow link (--slow 0.8) in messages of NCCL; for copies between GPUs of a node, try: busbar bench copy"),
         "comm": (("comm", "--repeats", 1, "--size", "8"), "# a communicator of 8 ranks costs "),
         "overlap": (("overlap", *FEW), "# 64 MiB: the CTA limit makes no difference: "),
         "compute": (("compute", *FEW), "# no slow rank; ")}


@pytest.mark.parametrize("mode", MODES)
def test_default_output_has_at_most_25_lines(busbar, tmp_path, mode):
    args, last = MODES[mode]
    ranks = 8 if mode in ("p2p", "comm") else 2  # the others have the same rows for every number of ranks
    run = lambda *more: busbar.run("bench", *args, *more, ranks=ranks, env={"EMU_DATA": "off"})
    done = run("--json", tmp_path / "r.json")
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and 8 <= len(lines) <= 25 and lines[-1].startswith(last), done.stdout + done.stderr
    if mode != "compute":
        assert len(run("--full").stdout.splitlines()) > 25
    rows = json.loads((tmp_path / "r.json").read_text())["results"]
    assert len(rows) >= {"all_reduce": 24, "all": 200, "p2p": 28 * 5, "comm": 3 * 20, "overlap": 3 * 7, "compute": 100}.get(mode, 12)


def test_default_sizes_have_factor_4_and_others_factor_2(busbar, tmp_path):
    sizes = lambda *args: [r["bytes"] for r in busbar.json("bench", "all_reduce", "--placement", "in_place", *FEW, *args, tmp_path=tmp_path,
                                                           ranks=2, env={"EMU_DATA": "off"})["results"]]
    assert sizes() == [8 * 4 ** i for i in range(12)]
    assert sizes("-e", "64") == [8, 16, 32, 64] and sizes("-f", 32)[:2] == [8, 256]


def test_several_collectives_take_one_line_each(busbar):
    """The line has the results of the smallest and of the largest size; --full has the row of each size."""
    args = ("bench", "all_gather", "reduce_scatter", "--sizes", "1K,64K,1M", *FEW)
    short, full = (busbar.run(*args, *more, ranks=2).stdout for more in ((), ("--full",)))
    rows = [line.split() for line in short.splitlines() if not line.startswith("#")]
    assert [row[0] for row in rows] == ["all_gather", "reduce_scatter"] and all(row[-1] == "0" for row in rows)
    long = [line.split() for line in full.splitlines() if not line.startswith("#")]
    assert len(long) == 6 and [row[4] for row in rows] == [long[0][5], long[3][5]] and [row[8:10] for row in rows] == [
        [long[i][5], long[i][7]] for i in (2, 5)]
    assert short.splitlines()[-1].startswith("# last operation of each row verified (more: -c N); shortest time ") and "(all_gather, 1 MiB)" in short


def test_last_line_names_wrong_data_and_missed_limits(busbar):
    """The fourth operation is the last timed one: warm-up, one before the events, two timed."""
    done = busbar.run("bench", "all_reduce", "--sizes", "1K", "--placement", "in_place", "-n", 2, "--repeats", 1, "-w", 1, "--clock", "gpu", ranks=2,
                      env={"EMU_FAULT": "corrupt:rank=1,call=4,name=ncclAllReduce"})
    assert done.returncode == 3 and done.stdout.splitlines()[-1].startswith("# WRONG DATA: 1 element, first on rank 1 (")
    done = busbar.run("bench", "all_reduce", "--sizes", "1K", *FEW, "--min-busbw", 1000, ranks=2)
    assert done.returncode == 5 and done.stdout.splitlines()[-1].startswith("# --min-busbw: FAILED; last operation of each row verified (more: -c N); ")
    done = busbar.run("bench", "all_reduce", "--sizes", "1K", *FEW, "-c", 5, "--expect", "auto", "--min-of-expected", "90%", ranks=2)
    assert done.returncode == 5 and "# Bus bandwidth, all_reduce 1 KiB: no result to judge, required " in done.stdout
    assert done.stdout.splitlines()[-1].startswith("# --min-of-expected: FAILED; last operation of each row and 4 more verified; ")
    done = busbar.run("bench", "all_reduce", "--sizes", "0", *FEW, ranks=2)
    assert done.returncode == 0 and done.stdout.splitlines()[-1] == "# last operation of each row verified (more: -c N)"
    done = busbar.run("bench", "all_reduce", "--sizes", "1K,4K", "--placement", "in_place", *FEW, ranks=1)  # launches nothing
    assert done.stdout.splitlines()[-1] == "# last operation of each row verified (more: -c N)"


def test_several_collectives_name_the_missed_limit_on_stdout(busbar):
    done = busbar.run("bench", "all_gather", "reduce_scatter", "--sizes", "1M,64M", *FEW, "--min-busbw", "peak:1,64M:1000", ranks=2, env={"EMU_DATA": "off"})
    assert done.returncode == 5
    for collective in ("all_gather", "reduce_scatter"):
        assert f"# Bus bandwidth, {collective} 64 MiB: " in done.stdout
    assert done.stdout.count(" GB/s, required 1000: FAILED") == 2 and ": OK" not in done.stdout


def test_bus_bandwidth_of_a_matrix_is_that_of_the_busiest_rank(busbar, tmp_path):
    """Rank 0 sends 2 x 1 MiB to others and nothing to itself: all of its 2 MiB use its link, not (n - 1) / n."""
    (tmp_path / "m.txt").write_text("0 1048576 1048576\n0 0 0\n0 0 0\n")
    args = ("bench", "alltoallv", "--matrix", tmp_path / "m.txt", "-b", "1M", "-e", "1M", "--placement", "out_of_place", *FEW)
    (row,) = busbar.json(*args, ranks=3, tmp_path=tmp_path, env={"EMU_DATA": "off"})["results"]
    assert row["bytes"] == 2 << 20 and row["busbw_factor"] == 1 and row["busbw_gbps"] == pytest.approx(row["algbw_gbps"])
    assert "# --matrix sets the size: the most bytes that a rank sends or receives\n" in busbar.run(*args, ranks=3, env={"EMU_DATA": "off"}).stdout


def test_compute_quick_does_not_judge_short_kernels(busbar):
    """Rank 1 is slower by a half, but no kernel of --quick is longer than its launch."""
    args, slow = ("bench", "compute", "gemm", "--quick", "-d", "half", *FEW), {"EMU_SLOW": "rank=1:1.5", "EMU_DATA": "off"}
    done = busbar.run(*args, ranks=2, env={**slow, "EMU_SLOW": ""})
    assert done.returncode == 0 and "too short to show a slow GPU" in done.stdout.splitlines()[-1]
    done = busbar.run(*args, "--max-slow", 0, ranks=2, env=slow)
    assert done.returncode == 2 and "--max-slow cannot judge the GEMMs and memory-bound kernels of --quick" in done.stderr


def test_one_rank_has_no_shortest_time(busbar):
    """A copy of a few bytes takes less than the 5 ns that two decimals show on emulated GPUs."""
    done = busbar.run("bench", "all_reduce", "-e", "1K", env={"EMU_DATA": "off"})
    assert done.returncode == 0 and re.search(r"# data not verified \(EMU_DATA=off\) in \d+ of \d+ results$", done.stdout.rstrip()), done.stdout


@pytest.mark.parametrize("more,given", [("-i 1M", "increment (-i) 1 MiB"), ("-f 1.000001", "step factor (-f) 1.000001")])
def test_too_many_sizes_are_named_as_typed(busbar, more, given):
    done = busbar.run("bench", "all_reduce", "-e", "1T", *more.split())
    assert done.returncode == 2 and f"{given} gives more than 100000 sizes from" in done.stderr, done.stderr


def test_advice_names_the_benchmark_of_another_tools_options(busbar):
    done = busbar.run("bench", "copy", "-g", 2, "-b", "1M", "-e", "1M")
    assert done.returncode == 2 and "; try: busbar-emulated bench copy -g 2\n" in done.stderr, done.stderr
