"""Columns with NCCL's choice of algorithm, protocol and channels. GPU state comes from NVML, so it is null on emulated GPUs."""
import shutil

import pytest


def rows(busbar, tmp_path, *args, ranks=2, env=None):
    run = busbar.json("bench", *args, "-b", "1K", "-e", "1K", ranks=ranks, env=env, tmp_path=tmp_path)
    return run["results"]


@pytest.mark.parametrize("mode", [[], ["-G", "2"], ["-z", "1"], ["-m", "4"]])
def test_bench_rows_contain_algorithm_protocol_and_channels(busbar, tmp_path, mode):
    for row in rows(busbar, tmp_path, "all_reduce", "broadcast", "--max-ctas", "3", *mode):
        assert (row["algorithm"], row["protocol"], row["channels"]) == ("RING", "SIMPLE", 3)
        assert row["gpu"] is None


def test_gpu_state_is_null_without_nvml(busbar, tmp_path):
    run = busbar.json("bench", "all_reduce", "-b", "1K", "-e", "1K", ranks=2, tmp_path=tmp_path)
    assert run["mig"] is None and run["mps"] is None and run["shared_gpu"] is False


def test_point_to_point_rows_have_only_channels(busbar, tmp_path):
    for row in rows(busbar, tmp_path, "alltoall", "sendrecv"):
        assert (row["algorithm"], row["protocol"], row["channels"]) == (None, None, 8)


def test_one_rank_has_no_algorithm(busbar, tmp_path):
    for row in rows(busbar, tmp_path, "all_reduce", ranks=0):
        assert (row["algorithm"], row["protocol"], row["channels"]) == (None, None, None)


def test_split_groups_contain_the_algorithm(busbar, tmp_path):
    results = rows(busbar, tmp_path, "all_reduce", "--split", "%2", ranks=4)
    assert {row["algorithm"] for row in results} == {"RING"} and len(results) == 4


def test_keeps_the_users_profiler_plugin(busbar, tmp_path):
    done = busbar.run("bench", "all_reduce", "-b", "1K", "-e", "1K", ranks=2, env={"NCCL_PROFILER_PLUGIN": "inspector"})
    assert done.returncode == 0 and done.stderr.count("NCCL_PROFILER_PLUGIN") == 1
    (row, _) = rows(busbar, tmp_path, "all_reduce", env={"NCCL_PROFILER_PLUGIN": "inspector"})
    assert row["algorithm"] is None and row["channels"] is None


def test_warns_that_a_profiler_plugin_of_the_library_path_is_not_used(busbar, tmp_path):
    """NCCL loads libnccl-profiler.so from the library path unless NCCL_PROFILER_PLUGIN is set."""
    shutil.copy(busbar.build / "tests" / "setenv_watch.so", tmp_path / "libnccl-profiler.so")
    found, named = ({"LD_LIBRARY_PATH": str(tmp_path), **more} for more in ({}, {"NCCL_PROFILER_PLUGIN": "STATIC_PLUGIN"}))
    assert busbar.run("bench", "all_reduce", "-e", 8, ranks=2, env=found).stderr.count("libnccl-profiler.so is not used") == 1
    assert "libnccl-profiler.so" not in busbar.run("bench", "all_reduce", "-e", 8, ranks=2, env=named).stderr


def test_overlap_comm_and_p2p_rows_contain_the_choice(busbar, tmp_path):
    """overlap has one row per CTA limit, comm one per step (recorded in the warm-up communicator), and p2p one per link."""
    run = busbar.json("bench", "overlap", "--sizes", "1K", "--gemm", "16x16x16", "--ctas", "default,2", ranks=2, tmp_path=tmp_path)
    assert [(row["algorithm"], row["protocol"], row["channels"]) for row in run["results"]] == [
        ("RING", "SIMPLE", 8), ("RING", "SIMPLE", 2)]
    rows = {row["step"]: row for row in
            busbar.json("bench", "comm", "--ranks", "2", "--repeats", "1", ranks=2, tmp_path=tmp_path)["results"]}
    assert [rows[step]["algorithm"] for step in ("init", "first_all_reduce", "all_reduce", "sendrecv", "split")] == [
        None, "RING", "RING", None, None]
    assert [rows[step]["channels"] for step in ("init", "all_reduce", "sendrecv")] == [None, 8, 8]
    run = busbar.json("bench", "p2p", "--bandwidth-sizes", "64K", ranks=2, tmp_path=tmp_path)
    assert {row["channels"] for row in run["results"]} == {8} and run["mig"] is None
    for row in run["results"]:
        assert (row["gpu_from"], row["gpu_to"], row["flags"]) == (None, None, ["emulated"])


def test_choice_is_null_without_warmup(busbar, tmp_path):
    for args in (["comm", "-w", "0", "--repeats", "1"], ["overlap", "--sizes", "1K", "--gemm", "16x16x16", "-w", "0"]):
        run = busbar.json("bench", *args, ranks=2, tmp_path=tmp_path)
        assert {row["channels"] for row in run["results"]} == {None}
    # p2p connects every pair with a ping-pong before its start barrier, also without warm-up; NCCL reports its channels
    run = busbar.json("bench", "p2p", "--bandwidth-sizes", "64K", "-w", "0", ranks=2, tmp_path=tmp_path)
    assert {row["channels"] for row in run["results"]} == {8}


def test_variable_of_nccl_limits_the_channels(busbar, tmp_path):
    """NCCL_MAX_CTAS takes precedence over the configuration of the communicator, NCCL_MAX_NCHANNELS limits it."""
    for args in ([], ["--max-ctas", "6"]):
        assert {row["channels"] for row in rows(busbar, tmp_path, "all_reduce", *args, env={"NCCL_MAX_CTAS": "4"})} == {4}
    for args, channels in ([], 4), (["--max-ctas", "6"], 4), (["--max-ctas", "3"], 3):
        assert {row["channels"] for row in rows(busbar, tmp_path, "all_reduce", *args, env={"NCCL_MAX_NCHANNELS": "4"})} == {channels}
