"""Behaviour of real GPUs and NCCL that can block the host, enabled in the emulator: busbar avoids the hang, or its message names the
cause."""
import json
import re
import subprocess

import pytest

from conftest import ROOT

ONE_PIPE = ("proxy", "gpt3_one_pipe_step", 2, "--scale-counts", "0.0001", "--compute", "timed", "-n", 2,
            "--traced-steps", 0, "--no-alone")


def test_enough_queues_for_steps_that_require_concurrent_streams(busbar, tmp_path):
    run = busbar.json(*ONE_PIPE, "-T", 30, ranks=8, tmp_path=tmp_path,
                      env={"EMU_HARDWARE_QUEUES": "1", "EMU_RUNTIME_CONNECT": "1"})
    assert run["environment"]["CUDA_DEVICE_MAX_CONNECTIONS"] == "32"
    assert run["environment"]["NCCL_RUNTIME_CONNECT"] == "0"


@pytest.mark.parametrize("command,ranks", [(ONE_PIPE, 8), (("proxy", "all", "--quick", "-n", 1), 2)])
def test_steps_set_no_variable_while_other_threads_run(busbar, tmp_path, command, ranks):
    """Whether a step requires NCCL_RUNTIME_CONNECT=0 is known only after MPI has started its threads."""
    path = tmp_path / "r.json"
    program = " ".join(map(str, [busbar.build / "busbar-emulated", *command, "--json", path]))
    watch = f"LD_PRELOAD={busbar.build}/tests/setenv_watch.so EMU_DATA=off"
    done = busbar.run_program(busbar.mpirun, "-n", ranks, "sh", "-c", f"{watch} exec {program}")
    assert done.returncode == 0, done.stderr
    assert ("busbar: warning: gpt3_one_pipe_step: the step can deadlock if CUDA serializes the streams" in done.stderr) == (ranks == 8)
    written = re.findall(r"^written: (\w?CCL_\w+)=\S* with (\d+) other threads", done.stderr, re.M)
    assert sorted(written) == [("_CCL_LAUNCH_ORDER_IMPLICIT", "0")] * ranks + [("_CCL_RUNTIME_CONNECT", "0")] * ranks
    assert json.loads(path.read_text())["environment"]["NCCL_RUNTIME_CONNECT"] == "0"


@pytest.mark.parametrize("command,ranks,expected", [(("proxy", "gpt2_large", 2, 2, 2), 4, "1"), (("proxy", "resnet50"), 2, None),
                                                    (ONE_PIPE, 8, None)])
def test_launches_of_several_communicators_are_ordered(busbar, tmp_path, command, ranks, expected):
    """A step with one communicator needs no order, and the order would deadlock a step that requires concurrent streams."""
    run = busbar.json(*command, "--scale-counts", "0.0001", "-n", 1, "--traced-steps", 0, "--no-alone", ranks=ranks, tmp_path=tmp_path,
                      env={"EMU_DATA": "off"})
    assert run["environment"].get("NCCL_LAUNCH_ORDER_IMPLICIT") == expected


@pytest.mark.parametrize("variable,status", [({}, 0), ({"NCCL_LAUNCH_ORDER_IMPLICIT": "0"}, 4)])
def test_communicators_in_flight_exceed_the_sms(busbar, variable, status):
    """A GPU with the SMs of one operation, on which later calls begin first on odd ranks: without order of launches the ranks deadlock."""
    done = busbar.run("proxy", "transformer", "--model", "gpt2_small", "--pp", 2, "--scale-counts", "0.0001", "-n", 1, "--traced-steps", 0,
                      "--no-alone", "-T", 2 if status else 60, ranks=4, env={"EMU_SMS": "8", "EMU_DATA": "off", **variable})
    assert done.returncode == status, done.stderr
    assert ("did not end within 2 s" in done.stderr) == (status == 4)


def test_ranks_that_share_a_gpu_divide_the_connections_of_mps(busbar, tmp_path):
    """Four ranks with 32 connections each need 128. Eight ranks keep four queues each, which suffice for this step."""
    for start, gpus in ({"ranks": 4}, ()), ({"ranks": 4, "mpirun": ()}, ()), ({"ranks": 2, "mpirun": ()}, ("-g", 2)):
        run = busbar.json("proxy", "resnet50", "--scale-counts", "0.001", "-n", 1, "--traced-steps", 0, "--no-alone", "--share-gpu",
                          *gpus, tmp_path=tmp_path, env={"EMU_DEVICES": "1", "EMU_MPS_CONNECTIONS": "64"}, **start)
        assert run["ranks"] == 4 and run["environment"]["CUDA_DEVICE_MAX_CONNECTIONS"] == "8"
    run = busbar.json(*ONE_PIPE, "-T", 30, "--share-gpu", ranks=8, tmp_path=tmp_path,
                      env={"EMU_DEVICES": "1", "EMU_MPS_CONNECTIONS": "32", "EMU_HARDWARE_QUEUES": "1"})
    assert run["environment"]["CUDA_DEVICE_MAX_CONNECTIONS"] == "4"


def test_hang_with_too_few_queues_names_the_variable(busbar):
    done = busbar.run(*ONE_PIPE, "-T", 12, ranks=8,
                      env={"EMU_HARDWARE_QUEUES": "1", "CUDA_DEVICE_MAX_CONNECTIONS": "1"})
    assert done.returncode == 4
    assert "(requires concurrent streams: CUDA_DEVICE_MAX_CONNECTIONS=1, NCCL_RUNTIME_CONNECT=0) did not end within 12 s" in done.stderr


def test_steps_without_concurrent_streams_do_not_set_nccl_variables(busbar, tmp_path):
    run = busbar.json("proxy", "resnet50", "--scale-counts", "0.001", "-n", 1, "--traced-steps", 0, ranks=2, tmp_path=tmp_path)
    assert run["environment"]["CUDA_DEVICE_MAX_CONNECTIONS"] == "32"
    assert "NCCL_RUNTIME_CONNECT" not in run["environment"]


def row_of(busbar, tmp_path, *command, **env):
    """Returns the only row of a bench run with a start barrier timeout of one second."""
    run = busbar.json("bench", *command, "--placement", "out_of_place", "-c", 0, "--repeats", 3, "--start-barrier-limit", 1000, ranks=4,
                      tmp_path=tmp_path, env=env)
    (row,) = run["results"]
    return row


def test_start_barrier_opens_before_the_launch_queue_blocks_the_host(busbar, tmp_path):
    """300 operations with four queue entries each, including the record of -I, in a queue of 1000 entries."""
    row = row_of(busbar, tmp_path, "all_reduce", "--sizes", 1024, "-n", 300, "-I", 1, EMU_LAUNCH_QUEUE="1000")
    assert row["start_barrier"] and "start_barrier_expired" not in row["flags"]


def test_start_barrier_opens_before_copy_engine_collectives_block_the_host(busbar, tmp_path):
    """60 operations by copy engines with 3 x 4 + 2 queue entries each, in a queue of 512 entries."""
    row = row_of(busbar, tmp_path, "all_gather", "--sizes", 1024, "-n", 60, "-R", 2, "-x", 2, EMU_LAUNCH_QUEUE="512", EMU_NCCL_WINDOW="28")
    assert row["start_barrier"] and "start_barrier_expired" not in row["flags"]


@pytest.mark.parametrize("variable", [{}, {"NCCL_WORK_FIFO_BYTES": str(1 << 19)}])
def test_start_barrier_opens_before_the_work_fifo_blocks_the_host(busbar, tmp_path, variable):
    """An iteration has 512 x 4 messages in each direction: 98304 bytes of work. A FIFO of 1 MiB holds 10 iterations, of 512 KiB 5."""
    row = row_of(busbar, tmp_path, "alltoall", "--sizes", 1024, "-n", 12, "-m", 512, "-w", 1, EMU_WORK_FIFO=str(1 << 20), **variable)
    assert row["start_barrier"] and "start_barrier_expired" not in row["flags"]


def broadcast_us(busbar, tmp_path, poll_us):
    """Returns the time of a broadcast whose root may be eight operations ahead. Rank 2 polls the end of host waits every `poll_us`."""
    path = tmp_path / "late.json"
    command = busbar.command("bench", "broadcast", "--sizes", 1024, "-n", 20, "--repeats", 5, "-c", 0, "--mode", "stream",
                           "--placement", "out_of_place", "--json", path)
    only_on_rank_2 = f'[ "${{OMPI_COMM_WORLD_RANK:-$PMI_RANK}}" != 2 ] || export EMU_POLL_US={poll_us}; exec "$@"'
    done = busbar.run_program(busbar.mpirun, "-n", 3, "sh", "-c", only_on_rank_2, "sh", *command, env={"EMU_SEND_AHEAD": "8"})
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(path.read_text())["results"]
    return row["time_us"]["p50"]


def test_late_rank_does_not_delay_the_time_of_the_root(busbar, tmp_path):
    assert broadcast_us(busbar, tmp_path, 400) == pytest.approx(broadcast_us(busbar, tmp_path, 0), abs=0.1)


def test_timed_waits_do_not_sleep(busbar, tmp_path):
    """An all_reduce of two steps of 2200 us. A wait of 4.4 ms that may sleep does so at least five times: at
    least 300 times in 30 operations of two ranks."""
    cluster = json.loads((ROOT / "profiles/clusters/emulated-default.json").read_text())
    cluster["intra"]["latency_us"] = 2200
    path, sleeps = tmp_path / "slow.json", tmp_path / "sleeps"
    path.write_text(json.dumps(cluster))

    def count_sleeps(n):
        sleeps.write_bytes(b"")
        busbar.json("bench", "all_reduce", "--sizes", 8, "--mode", "sync", "-n", n, "-w", 1, "-c", 0, "--repeats", 1, "--placement", "in_place", ranks=2,
                    tmp_path=tmp_path, env={"EMU_TIME": "real", "EMU_CLUSTER": str(path), "SLEEP_WATCH": str(sleeps),
                                            "LD_PRELOAD": str(busbar.build / "tests" / "sleep_watch.so")})
        return sleeps.stat().st_size

    few, many = count_sleeps(10), count_sleeps(40)
    for _ in range(3):  # untimed waits sleep, too, until a busy machine runs the other rank
        many = many if many - few < 300 else min(many, count_sleeps(40))
    assert many - few < 300


def test_reaction_time_of_the_host_is_reported(busbar, tmp_path):
    """A rank that notices the common start 50 us late issues its operations late. The step contains this time, and reaction_us reports
    it."""
    prompt, slow = (busbar.json("proxy", "resnet50", "--scale-counts", "0.01", "-n", 3, "--traced-steps", 0, ranks=2,
                                tmp_path=tmp_path, env={"EMU_POLL_US": us}) for us in ("0", "50"))
    assert prompt["reaction_us"]["max"] == 0
    assert slow["reaction_us"]["min"] == slow["reaction_us"]["max"] == pytest.approx(50, abs=0.01)
    assert slow["step_us"]["p50"] == pytest.approx(prompt["step_us"]["p50"] + 50, abs=0.1)


def test_reports_the_sms_of_timed_kernels(busbar, tmp_path):
    """The emulated GPU has 100 SMs; NCCL may use 32 of them by default for each communicator, and half of them for several."""
    def occupied_sms(*command, proxy=("dlrm",), **env):
        path = tmp_path / "run.json"
        done = busbar.run("proxy", *proxy, *command, "--steps", 1, "--traced-steps", 1, "--json", path, ranks=2, env=env)
        assert done.returncode == 0, done.stderr
        run = json.loads(path.read_text())
        assert {row["compute_sms"] for row in run["breakdown_by_role"]} == {run["breakdown"]["compute_sms"]}
        (line,) = [line for line in done.stdout.splitlines() if "where the time goes" in line]
        return run["breakdown"]["compute_sms"], line.partition("; ")[2]

    assert occupied_sms("--compute", "timed") == (1, "each timed kernel occupies 1 of 100 SMs")
    assert occupied_sms("--compute", "timed", "--compute-sms", 999) == (100, "each timed kernel occupies 100 of 100 SMs")
    one = {"proxy": ("data_parallel", "--model", "resnet18_cifar", "--scale-counts", "0.01")}  # dlrm has two communicators
    for proxy, ctas, sms in ((one, None, 68), (one, "8", 92), (one, "60", 40), ({}, None, 50), ({}, "8", 84), ({}, "60", 40)):
        free = occupied_sms("--compute", "timed", "--compute-sms", "free", **proxy, **({"NCCL_MAX_CTAS": ctas} if ctas else {}))
        assert free == (sms, f"each timed kernel occupies {sms} of 100 SMs")
    assert occupied_sms("--compute", "gemm", "--scale-counts", "0.01") == (None, "")


@pytest.mark.parametrize("reserved", ["34209792", "100000000"])
def test_full_shm_is_named(busbar, reserved):
    """Two ranks reserve 68 MB of the 64 MiB of /dev/shm that a container has by default, or each rank more, while all of it is free."""
    mount = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs -o size=64m tmpfs /dev/shm && exec "$@"', "sh"]
    if subprocess.run([*mount, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("requires root with namespaces")
    done = busbar.run_program(*mount, *busbar.command("bench", "all_reduce", "--sizes", 8, "-n", 1, "--repeats", 1, "--share-gpu", ranks=2),
                              env={"EMU_SHM": reserved, "EMU_DEVICES": "1"})
    assert done.returncode == 1
    errors = re.findall(r"No space left on device(.*)", done.stderr)
    assert errors
    for error in errors:
        assert re.match(r"; now \d+ of 64 MiB of /dev/shm are free, NCCL takes 35 MiB for each rank and communicator over a network; "
                        r"try: docker run --shm-size=8g, or mount -o remount,size=8g /dev/shm", error), done.stderr


def test_nccl_system_error_with_enough_shm_has_no_hint(busbar):
    done = busbar.run("bench", "all_reduce", "--sizes", 8, ranks=2, env={"EMU_FAULT": "fail:rank=1,call=1,name=ncclCommInitRankConfig"})
    assert done.returncode == 1 and "unhandled system error" in done.stderr and "/dev/shm" not in done.stderr
