"""What a row tells besides its times: NCCL's choice. (The GPU's own state is told by NVML, never about emulated GPUs.)"""
import pytest


def rows(busbar, tmp_path, *words, ranks=2, env=None):
    run = busbar.json("bench", *words, "-b", "1K", "-e", "1K", ranks=ranks, env=env, tmp_path=tmp_path)
    return run["results"]


@pytest.mark.parametrize("mode", [[], ["-G", "2"], ["-z", "1"], ["-m", "4"]])
def test_the_choice_of_each_row(busbar, tmp_path, mode):
    for row in rows(busbar, tmp_path, "all_reduce", "broadcast", "--max-ctas", "3", *mode):
        assert (row["algorithm"], row["protocol"], row["channels"]) == ("RING", "SIMPLE", 3)
        assert row["gpu"] is None


def test_what_nvml_does_not_tell_is_null(busbar, tmp_path):
    run = busbar.json("bench", "all_reduce", "-b", "1K", "-e", "1K", ranks=2, tmp_path=tmp_path)
    assert run["mig"] is None and run["mps"] is None and run["shared_gpu"] is False


def test_transfers_have_channels_only(busbar, tmp_path):
    for row in rows(busbar, tmp_path, "alltoall", "sendrecv"):
        assert (row["algorithm"], row["protocol"], row["channels"]) == (None, None, 8)


def test_one_rank_chooses_nothing(busbar, tmp_path):
    for row in rows(busbar, tmp_path, "all_reduce", ranks=0):
        assert (row["algorithm"], row["protocol"], row["channels"]) == (None, None, None)


def test_groups_have_their_own(busbar, tmp_path):
    results = rows(busbar, tmp_path, "all_reduce", "--split", "%2", ranks=4)
    assert {row["algorithm"] for row in results} == {"RING"} and len(results) == 4


def test_a_users_own_plugin_is_left_alone(busbar, tmp_path):
    done = busbar.run("bench", "all_reduce", "-b", "1K", "-e", "1K", ranks=2, env={"NCCL_PROFILER_PLUGIN": "inspector"})
    assert done.returncode == 0 and done.stderr.count("NCCL_PROFILER_PLUGIN") == 1
    (row, _) = rows(busbar, tmp_path, "all_reduce", env={"NCCL_PROFILER_PLUGIN": "inspector"})
    assert row["algorithm"] is None and row["channels"] is None


def test_the_choice_in_the_other_modes(busbar, tmp_path):
    """Rows of overlap by limit of CTAs, of comm by step (heard in the life that does not count), links of p2p."""
    run = busbar.json("bench", "overlap", "--sizes", "1K", "--gemm", "16x16x16", "--ctas", "default,2", ranks=2, tmp_path=tmp_path)
    assert [(row["algorithm"], row["protocol"], row["channels"]) for row in run["results"]] == [
        ("RING", "SIMPLE", 8), ("RING", "SIMPLE", 2)]
    rows = {row["step"]: row for row in
            busbar.json("bench", "comm", "--ranks", "2", "--repeats", "1", ranks=2, tmp_path=tmp_path)["results"]}
    assert [rows[step]["algorithm"] for step in ("init", "first_all_reduce", "all_reduce", "sendrecv", "split")] == [
        None, "RING", "RING", None, None]
    assert [rows[step]["channels"] for step in ("init", "all_reduce", "sendrecv")] == [None, 8, 8]
    run = busbar.json("bench", "p2p", ranks=2, tmp_path=tmp_path)
    assert {row["channels"] for row in run["results"]} == {8} and run["mig"] is None
    for row in run["results"]:
        assert (row["gpu_from"], row["gpu_to"], row["flags"]) == (None, None, ["emulated"])


def test_without_a_warmup_the_choice_is_unknown(busbar, tmp_path):
    for words in (["p2p", "-w", "0"], ["comm", "-w", "0", "--repeats", "1"], ["overlap", "--sizes", "1K", "--gemm", "16x16x16", "-w", "0"]):
        run = busbar.json("bench", *words, ranks=2, tmp_path=tmp_path)
        assert {row["channels"] for row in run["results"]} == {None}
