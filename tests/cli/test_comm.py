"""busbar bench comm: every step in the life of a communicator has a row or a reason for its absence, and failures are reported.

The times are those of the emulator on the CPU, so no test checks their size.
"""
import json
import re

import pytest

STEPS = ["exchange", "init", "mem_alloc", "first_all_reduce", "all_reduce", "first_sendrecv", "sendrecv", "register", "deregister",
         "window_register", "window_deregister", "split", "first_all_reduce_part", "finalize_part", "destroy_part", "shrink",
         "destroy_shrunk", "mem_free", "finalize", "destroy"]
NO_WINDOWS = {"window_register", "window_deregister"}  # without symmetric windows


def check_row(row, absent=()):
    if row["step"] in absent:
        assert row["time_us"] is None and row["slowest_rank"] is None and row["fastest_rank_us"] is None and row["absent"]
        return
    t = row["time_us"]
    assert row["absent"] is None and 0 <= row["slowest_rank"] < row["ranks"]
    assert 0 <= t["min"] <= t["p50"] <= t["p90"] <= t["max"]
    assert 0 <= row["fastest_rank_us"] <= t["max"]


@pytest.mark.smoke
@pytest.mark.parametrize("extra", [(), ("--nonblocking",)])
def test_every_step_has_a_row_per_number_of_ranks(busbar, tmp_path, extra):
    result = busbar.json("bench", "comm", "--repeats", "3", "--size", "64K", *extra, tmp_path=tmp_path, ranks=4)
    assert result["schema"] == "busbar.bench/1" and result["emulated"] and result["clock"] == "host of the emulator"
    rows = result["results"]
    assert [(r["ranks"], r["step"]) for r in rows] == [(n, step) for n in (2, 4) for step in STEPS]
    for row in rows:
        assert row["clock"] == "host of the emulator" and row["blocking"] == (not extra) and row["repeats"] == 3
        check_row(row)
        if row["step"] == "shrink":
            assert row["slowest_rank"] < row["ranks"] - 1  # shrink excludes the last rank


def test_doubling_ends_with_all_ranks(busbar, tmp_path):
    result = busbar.json("bench", "comm", "--repeats", "1", "--size", "8", tmp_path=tmp_path, ranks=3)
    assert [r["ranks"] for r in result["results"]][::len(STEPS)] == [2, 3]


def test_one_rank_has_no_shrink(busbar, tmp_path):
    result = busbar.json("bench", "comm", "--repeats", "2", "--size", "8", tmp_path=tmp_path)
    assert {r["ranks"] for r in result["results"]} == {1}
    for row in result["results"]:
        check_row(row, {"shrink", "destroy_shrunk"})
    assert next(r for r in result["results"] if r["step"] == "shrink")["absent"] == "needs at least 2 ranks"


def test_ranks_and_parts_select_the_rows(busbar, tmp_path):
    result = busbar.json("bench", "comm", "--ranks", "3,1", "--parts", "3", "--repeats", "1", "-w", "0", "--size", "8",
                         tmp_path=tmp_path, ranks=3)
    assert [(r["ranks"], r["parts"]) for r in result["results"]][::len(STEPS)] == [(3, 3), (1, 1)]


def test_a_communicator_of_one_rank_is_singular(busbar):
    done = busbar.run("bench", "comm", "--full", "--repeats", "1", "--size", "8", "-w", "0")
    assert done.returncode == 0 and "# shrink, communicator of 1 rank: needs at least 2 ranks" in done.stdout


def test_windows_across_nodes_have_no_time(busbar, tmp_path):
    """NCCL 2.28 returns a handle on 2 nodes, too, but its operations cannot use the window."""
    for nodes in 1, 2:
        run = busbar.json("bench", "comm", "--repeats", "1", "--size", "8", ranks=2, tmp_path=tmp_path,
                          env={"EMU_NCCL_WINDOW": "28", "EMU_NODES": str(nodes)})
        steps = {row["step"]: row["time_us"] for row in run["results"]}
        assert [steps.get(step) is None for step in sorted(NO_WINDOWS)] == [nodes == 2] * 2


def test_text_labels_the_times_of_the_emulator(busbar):
    done = busbar.run("bench", "comm", "--full", "--repeats", "1", "--size", "8", ranks=2, env={"EMU_NCCL_WINDOW": "0"})
    assert done.returncode == 0 and done.stderr == ""
    assert "times of the emulator" in done.stdout and "no measurement of NCCL" in done.stdout
    rows = [line.split()[1] for line in done.stdout.splitlines() if not line.startswith("#")]
    assert rows == [step for step in STEPS if step not in NO_WINDOWS]
    assert "# window_register, communicator of 2 ranks: the GPUs" in done.stdout
    header = [line for line in done.stdout.splitlines() if line.startswith("# ")]
    assert "# ranks                    step       median          min          max   fastest rank  slowest rank" in header
    assert "#                                       (ms)         (ms)         (ms)           (ms)         (no.)" in header
    assert re.fullmatch(r"# a communicator of 2 ranks costs \S+ [um]?s, its first all_reduce [\d.]+ [um]?s (more|less) than a repeated one", header[-1])
    assert any("; fastest rank: shortest median of a rank" in line for line in header)
    for line in done.stdout.splitlines():
        if not line.startswith("#"):
            assert re.fullmatch(r"      2  [ a-z_]{22}(  [ \d]{7}\.\d{3}){3}  [ \d]{9}\.\d{3}  [ \d]{12}", line), line


@pytest.mark.parametrize("function,call", [("ncclCommInitRankConfig", 1), ("ncclCommSplit", 1), ("ncclCommShrink", 1), ("ncclSend", 1),
                                           ("ncclCommRegister", 1), ("ncclCommFinalize", 1), ("ncclMemAlloc", 2)])
def test_failed_call_is_reported_and_ends_the_run(busbar, tmp_path, function, call):
    """The first ncclMemAlloc detects the kind of memory before the results are opened; call 2 allocates buffers."""
    path = tmp_path / "r.json"
    done = busbar.run("bench", "comm", "--repeats", "1", "--size", "8", "--json", path, ranks=2,
                      env={"EMU_FAULT": f"fail:rank=0,call={call},name={function}"})
    assert done.returncode == 1 and "rank 0" in done.stderr
    assert json.loads(path.read_text())["status"] == "failed"


@pytest.mark.parametrize("extra", [(), ("--nonblocking",)])
def test_hanging_init_ends_with_a_timeout(busbar, extra):
    done = busbar.run("bench", "comm", "--timeout", "2", *extra, ranks=2,
                      env={"EMU_FAULT": "stall:rank=1,call=1,name=ncclCommInitRankConfig"})
    assert done.returncode == 4 and "init" in done.stderr  # in a blocking call the missing rank is unknown
    assert "rank 1" in done.stderr or not extra


@pytest.mark.parametrize("function,text", [
    ("ncclCommSplit", ": split of a communicator did not end within 3 s; all 3 ranks are in this call; which of them blocks it is unknown"),
    ("ncclCommShrink", " after 3 s: 2 of 3 ranks did not return from shrink; rank 2 ("),
    ("ncclCommFinalize", " after 3 s: rank 1 ("),
])
def test_hang_names_the_ranks_that_did_not_enter_a_call(busbar, tmp_path, function, text):
    """Rank 2 does not take part in the shrink and waits for the others; each rank finalizes alone."""
    done = busbar.run("bench", "comm", "--repeats", "1", "--ranks", 3, "-T", 3, "--json", tmp_path / "r.json", ranks=3,
                      env={"EMU_FAULT": f"stall:rank=1,call=1,name={function}"})
    assert done.returncode == 4 and f"busbar: timeout in bench comm: 3 ranks, after init{text}" in done.stderr, done.stderr
    assert json.loads((tmp_path / "r.json").read_text()).get("lost_ranks") == ([1] if function == "ncclCommFinalize" else None)


def test_help_needs_no_gpu(busbar):
    done = busbar.run("bench", "comm", "--help", emulated=False)
    assert done.returncode == 0 and "--nonblocking" in done.stdout


def test_rows_have_the_flag_not_checked(busbar, tmp_path):
    path = tmp_path / "r.json"
    done = busbar.run("bench", "comm", "--repeats", "1", "--size", "8", "-w", "0", "--json", path, ranks=2)
    assert "; data is not verified" in done.stdout
    assert all("not_checked" in row["flags"] for row in json.loads(path.read_text())["results"])
