"""What real GPUs and NCCL do to a host, switched on in the emulated ones: busbar goes on, or says what the hang needs."""
import json

import pytest

from conftest import ROOT

ONE_PIPE = ("proxy", "gpt3_one_pipe_step", 2, "--scale-counts", "0.0001", "--compute", "timed", "-n", 2,
            "--traced-steps", 0, "--no-alone")


def test_a_step_that_needs_its_streams_side_by_side_has_queues_enough(busbar, tmp_path):
    run = busbar.json(*ONE_PIPE, "-T", 30, ranks=8, tmp_path=tmp_path,
                      env={"EMU_HARDWARE_QUEUES": "1", "EMU_RUNTIME_CONNECT": "1"})
    assert run["environment"]["CUDA_DEVICE_MAX_CONNECTIONS"] == "32"
    assert run["environment"]["NCCL_RUNTIME_CONNECT"] == "0"


def test_its_hang_says_what_it_needs(busbar):
    done = busbar.run(*ONE_PIPE, "-T", 12, ranks=8,
                      env={"EMU_HARDWARE_QUEUES": "1", "CUDA_DEVICE_MAX_CONNECTIONS": "1"})
    assert done.returncode == 4
    assert "(requires concurrent streams: CUDA_DEVICE_MAX_CONNECTIONS=1) did not end within 12 s" in done.stderr


def test_a_step_whose_streams_may_be_serialised_leaves_nccl_as_it_is(busbar, tmp_path):
    run = busbar.json("proxy", "resnet50", "--scale-counts", "0.001", "-n", 1, "--traced-steps", 0, ranks=2, tmp_path=tmp_path)
    assert run["environment"]["CUDA_DEVICE_MAX_CONNECTIONS"] == "32"
    assert "NCCL_RUNTIME_CONNECT" not in run["environment"]


def row_of(busbar, tmp_path, *words, **env):
    """The only row of a bench run with a start barrier timeout of one second."""
    run = busbar.json("bench", *words, "--placement", "out_of_place", "-c", 0, "--repeats", 3, "--start-barrier-limit", 1000, ranks=4,
                      tmp_path=tmp_path, env=env)
    (row,) = run["results"]
    return row


def test_start_barrier_opens_before_the_launch_queue_blocks_the_host(busbar, tmp_path):
    """300 operations of four entries each, the mark of -I among them, in a queue of 1000."""
    row = row_of(busbar, tmp_path, "all_reduce", "--sizes", 1024, "-n", 300, "-I", 1, EMU_LAUNCH_QUEUE="1000")
    assert row["start_barrier"] and "start_barrier_expired" not in row["flags"]


def test_start_barrier_opens_before_the_work_fifo_blocks_the_host(busbar, tmp_path):
    """An iteration has 512 x 4 messages each way: 98304 bytes of work, of which 10 fit into 1 MiB."""
    row = row_of(busbar, tmp_path, "alltoall", "--sizes", 1024, "-n", 12, "-m", 512, "-w", 1, EMU_WORK_FIFO=str(1 << 20))
    assert row["start_barrier"] and "start_barrier_expired" not in row["flags"]


def broadcast_us(busbar, tmp_path, late_us):
    """Time of a broadcast whose root is up to eight ahead of the others; rank 2 learns so late that the host waits are over."""
    path = tmp_path / "late.json"
    words = busbar.command("bench", "broadcast", "--sizes", 1024, "-n", 20, "--repeats", 5, "-c", 0, "--mode", "stream",
                           "--placement", "out_of_place", "--json", path)
    of_rank_2 = f'[ "${{OMPI_COMM_WORLD_RANK:-$PMI_RANK}}" != 2 ] || export EMU_POLL_US={late_us}; exec "$@"'
    done = busbar.run_program(busbar.mpirun, "-n", 3, "sh", "-c", of_rank_2, "sh", *words, env={"EMU_SEND_AHEAD": "8"})
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(path.read_text())["results"]
    return row["time_us"]["p50"]


def test_a_late_rank_is_not_charged_to_the_root(busbar, tmp_path):
    assert broadcast_us(busbar, tmp_path, 400) == pytest.approx(broadcast_us(busbar, tmp_path, 0), abs=0.1)


def test_a_wall_time_does_not_contain_the_sleep_of_the_wait(busbar, tmp_path):
    """An all_reduce of two steps of 2200 us, which a wait that sleeps in growing steps overshoots by some hundred us."""
    cluster = json.loads((ROOT / "profiles/clusters/emulated-default.json").read_text())
    cluster["intra"]["latency_us"] = 2200
    path = tmp_path / "slow.json"
    path.write_text(json.dumps(cluster))
    run = busbar.json("bench", "all_reduce", "--sizes", 8, "--mode", "sync", "-n", 10, "-w", 1, "-c", 0, "--placement", "in_place",
                      ranks=2, tmp_path=tmp_path, env={"EMU_TIME": "real", "EMU_CLUSTER": str(path)})
    (row,) = run["results"]
    assert row["time_us"]["min"] == pytest.approx(4400, rel=0.05)
    assert row["wall_us"]["min"] < 1.06 * row["time_us"]["min"]


def test_the_reaction_of_the_host_is_told_apart(busbar, tmp_path):
    """Who learns 50 us late of the common start begins to issue so late: it is in the step, and said."""
    prompt, slow = (busbar.json("proxy", "resnet50", "--scale-counts", "0.01", "-n", 3, "--traced-steps", 0, ranks=2,
                                tmp_path=tmp_path, env={"EMU_POLL_US": us}) for us in ("0", "50"))
    assert prompt["reaction_us"]["max"] == 0
    assert slow["reaction_us"]["min"] == slow["reaction_us"]["max"] == pytest.approx(50, abs=0.01)
    assert slow["step_us"]["p50"] == pytest.approx(prompt["step_us"]["p50"] + 50, abs=0.1)


def test_the_report_says_how_much_of_the_gpu_timed_kernels_hold(busbar, tmp_path):
    """The emulated GPU has 100 multiprocessors; NCCL may take 32 of them unless it is told otherwise."""
    def held(*words, **env):
        path = tmp_path / "held.json"
        done = busbar.run("proxy", "dlrm", *words, "--steps", 1, "--traced-steps", 1, "--json", path, ranks=2, env=env)
        assert done.returncode == 0, done.stderr
        run = json.loads(path.read_text())
        assert {row["compute_sms"] for row in run["breakdown_by_role"]} == {run["breakdown"]["compute_sms"]}
        (line,) = [line for line in done.stdout.splitlines() if "where the time goes" in line]
        return run["breakdown"]["compute_sms"], line.partition("; ")[2]

    assert held("--compute", "timed") == (1, "timed kernels hold 1 of 100 SMs")
    assert held("--compute", "timed", "--compute-sms", 999) == (100, "timed kernels hold 100 of 100 SMs")
    assert held("--compute", "timed", "--compute-sms", "free") == (68, "timed kernels hold 68 of 100 SMs")
    assert held("--compute", "timed", "--compute-sms", "free", NCCL_MAX_CTAS="8")[0] == 92
    assert held("--compute", "gemm", "--scale-counts", "0.01") == (None, "")
