"""Assignment of GPUs to ranks: each rank sees all GPUs, one GPU or some GPUs, and two ranks must not share a GPU without --share-gpu."""
import json
import os
import re
import shlex

import pytest
from test_real_nccl import nccl_header

LOCAL = "${OMPI_COMM_WORLD_LOCAL_RANK:-$MPI_LOCALRANKID}"
SIZE = ["-b", "64", "-e", "64", "-n", "2", "--repeats", "1"]


def start(busbar, ranks, visible, *args, env=None):
    """Runs bench all_reduce. `visible` is a shell expression for CUDA_VISIBLE_DEVICES that each rank's shell evaluates."""
    program = " ".join([str(busbar.build / "busbar-emulated"), "bench", "all_reduce", *SIZE, *map(str, args)])
    return busbar.run_program(busbar.mpirun, "-n", ranks, "sh", "-c", f'CUDA_VISIBLE_DEVICES="{visible}" exec {program}', env=env)


def uuids_of(busbar, devices=4):
    """UUIDs of the emulated GPUs by device index."""
    done = busbar.run("bench", "all_reduce", *SIZE, "--json", "-", ranks=devices)
    return [device["uuid"] for device in json.loads(done.stdout)["devices"]]


@pytest.mark.smoke
def test_each_rank_sees_one_gpu(busbar, tmp_path):
    """With srun --gpus-per-task=1, wrapper scripts or containers each rank sees a different GPU as device 0."""
    path = tmp_path / "r.json"
    done = start(busbar, 4, LOCAL, "--json", path)
    assert done.returncode == 0, done.stderr
    run = json.loads(path.read_text())
    assert len({device["uuid"] for device in run["devices"]}) == 4 and run["shared_gpu"] is False
    assert [device["pci"] for device in run["devices"]] == [f"0000:0{n}:00.0" for n in (1, 2, 3, 4)]
    assert "warning" not in done.stderr and "share" not in done.stderr


def test_ranks_see_overlapping_sets_of_gpus(busbar, tmp_path):
    """Ranks 0 and 1 see the same pair of GPUs, as shortened UUIDs. Rank 2 sees two GPUs, and one of them is the only GPU of rank 3."""
    path, uuids = tmp_path / "r.json", uuids_of(busbar)
    short = [uuid[:12] for uuid in uuids]
    visible = f"$(case {LOCAL} in 0|1) echo {short[3]},{short[2]};; 2) echo {short[1]},{short[0]};; *) echo {short[1]};; esac)"
    done = start(busbar, 4, visible, "--json", path)
    assert done.returncode == 0, done.stderr
    assert [device["uuid"] for device in json.loads(path.read_text())["devices"]] == [uuids[3], uuids[2], uuids[0], uuids[1]]


def test_rejects_two_ranks_on_one_gpu(busbar):
    (uuid,) = uuids_of(busbar, 2)[1:]
    done = start(busbar, 4, f"$(({LOCAL} % 3 == 0 ? 1 : {LOCAL} + 1))")  # 1 2 3 1
    assert done.returncode == 2
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("busbar: ")]
    assert f"4 ranks on this host but only 3 GPUs: ranks 0 and 3 would share {uuid}" in line and "--share-gpu" in line
    # The host has enough GPUs, but ranks 0 and 1 see only device 1. Rank 2 sees devices 2 and 3.
    done = start(busbar, 3, f"$(({LOCAL} == 2 ? 2 : 1)),$(({LOCAL} == 2 ? 3 : 9))")
    assert done.returncode == 2
    assert re.search(rf"ranks 0 \(\S+\) and 1 would share {uuid}: make a separate GPU visible to each", done.stderr)


def test_share_gpu_allows_two_ranks_on_one_gpu(busbar, tmp_path):
    path = tmp_path / "r.json"
    assert start(busbar, 2, "1", "--share-gpu", "--json", path).returncode == 0
    assert json.loads(path.read_text())["shared_gpu"] is True
    assert start(busbar, 2, LOCAL, "--share-gpu", "--json", path).returncode == 0  # --share-gpu without need
    assert json.loads(path.read_text())["shared_gpu"] is True
    assert "omit --share-gpu" in start(busbar, 2, LOCAL, "--share-gpu").stderr
    assert "omit --share-gpu" not in start(busbar, 2, "0,1", "--share-gpu").stderr


@pytest.mark.parametrize("hidden", [[], ["OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"]])
def test_share_gpu_sets_environment_before_threads_start(busbar, hidden):
    """setenv of NCCL's variables happens before any thread starts, even if the launcher does not report the number of ranks per host."""
    program = " ".join([str(busbar.build / "busbar-emulated"), "bench", "all_reduce", *SIZE, "--share-gpu"])
    watch = f"LD_PRELOAD={busbar.build}/tests/setenv_watch.so"
    done = busbar.run_program(busbar.mpirun, "-n", 2, "sh", "-c", f"unset {' '.join(hidden)} NOTHING; {watch} exec {program}",
                              env={"EMU_DEVICES": "1"})
    assert done.returncode == 0 and "warning" not in done.stderr, done.stderr
    written = re.findall(r"^written: (\w+)=\S* with (\d+) other threads", done.stderr, re.M)
    # NCCL before 2.30 requires that the ranks pretend to be on hosts of their own.
    own_host = nccl_header() < (2, 30)
    assert len([name for name, _ in written if name == "NCCL_HOSTID"]) == 2 * own_host and {threads for _, threads in written} == {"0"}, written


def test_mig_instances_of_one_gpu_need_no_setenv(busbar, tmp_path):
    """Whether two MIG instances belong to one GPU is only known after MPI has started threads, so busbar sets NCCL's variables for every
    MIG instance, before."""
    path, (uuid, *_) = tmp_path / "r.json", uuids_of(busbar, 2)
    program = " ".join(map(str, [busbar.build / "busbar-emulated", "bench", "all_reduce", *SIZE, "--json", path]))
    visible = f"CUDA_VISIBLE_DEVICES=MIG-{uuid}/$(({LOCAL} + 1))/0 LD_PRELOAD={busbar.build}/tests/setenv_watch.so"
    done = busbar.run_program(busbar.mpirun, "-n", 2, "sh", "-c", f"{visible} exec {program}", env={"EMU_MIG": "2", "NCCL_PROTO": "LL"})
    assert done.returncode == 0, done.stderr
    written = re.findall(r"^written: (\w+)=\S* with (\d+) other threads", done.stderr, re.M)
    assert {name for name, threads in written if threads != "0"} == set(), written
    environment = json.loads(path.read_text())["environment"]
    assert environment["NCCL_NET"] == "Socket" and environment["NCCL_HOSTID"].startswith("busbar-0-")
    assert environment["NCCL_PROTO"] == "LL" and not any("LATE" in name for name in environment)


@pytest.mark.parametrize("second,devices,text", [
    (0, None, "but CUDA_VISIBLE_DEVICES names MIG instances; try: numbers or UUIDs of GPUs without MIG\n"),
    (1, None, "but CUDA_VISIBLE_DEVICES names MIG instances; try: numbers or UUIDs of GPUs without MIG\n"),
    (1, 0, " has none: no CUDA-capable device is detected\n")])
def test_health_names_mig_instances(busbar, second, devices, text):
    """Of one GPU, of two, and with a rank whose driver is down. Ranks with MIG instances of two GPUs do not share one."""
    uuids = uuids_of(busbar, 2)
    parts = [(":", "-n", 1, "env", f"CUDA_VISIBLE_DEVICES=MIG-{uuid}/{instance}/0", *((f"EMU_DEVICES={devices}",) if rank == 0 and devices is not None else ()),
              busbar.build / "busbar-emulated", "health", "--quick", "--only", "gpu")
             for rank, (uuid, instance) in enumerate(((uuids[0], 1), (uuids[second], 2)))]
    done = busbar.run_program(busbar.mpirun, *sum(parts, ())[1:], env={"EMU_MIG": "3", "EMU_DATA": "off"})
    assert done.returncode == 2 and text in done.stderr, done.stderr
    assert "ranks share" not in done.stderr and ("each rank has its own GPU" in done.stderr) == (second == 1 and devices is None), done.stderr


def test_health_rejects_one_mig_instance(busbar):
    """An instance has a part of the rates of its GPU, which the profile does not contain."""
    done = busbar.run("health", "--quick", "--only", "gpu", env={"EMU_MIG": "2", "EMU_DATA": "off"})
    assert done.returncode == 2 and re.search(r"health requires a whole GPU for each rank, but rank 0 \(\S+\) has a MIG instance; try: bench compute, ", done.stderr), done.stderr


def test_mig_instances_of_one_gpu_count_as_shared_gpu(busbar, tmp_path):
    path, (uuid, *_) = tmp_path / "r.json", uuids_of(busbar, 2)
    done = start(busbar, 2, f"MIG-{uuid}/$(({LOCAL} + 1))/0", "--json", path, env={"EMU_MIG": "2"})
    assert done.returncode == 0, done.stderr
    run = json.loads(path.read_text())
    assert len({device["uuid"] for device in run["devices"]}) == 2 and run["shared_gpu"] is True


def test_advice_gives_each_rank_a_mig_instance(busbar, tmp_path):
    """CUDA shows each process one instance. The advice reads the list of nvidia-smi."""
    (gpu,) = uuids_of(busbar, 1)
    env = {"EMU_MIG": "2", "EMU_DEVICES": "1", "EMU_DATA": "off"}
    done = busbar.run("bench", "compute", "gemm", "--size", "4K", "-n", 1, "--json", tmp_path / "r.json", ranks=2, env=env)
    shell = re.search(r"would share (MIG-[0-9a-f-]{36}); try: (sh -c '.*') busbar COMMAND\n", done.stderr)
    assert done.returncode == 2 and shell and "2 ranks on this host, but CUDA shows them only 1 MIG instance: " in done.stderr, done.stderr
    other = busbar.json("bench", "compute", "gemm", "--size", "4K", "-n", 1, env={**env, "CUDA_VISIBLE_DEVICES": f"MIG-{gpu}/2/0"}, tmp_path=tmp_path)
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\necho 'GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-0)'\n" + "".join(
        f"echo '  MIG 3g.40gb     Device  {i}: (UUID: {uuid})'\n" for i, uuid in enumerate((shell[1], other["devices"][0]["uuid"]))))
    (tmp_path / "nvidia-smi").chmod(0o755)
    program = [*shlex.split(shell[2]), busbar.build / "busbar-emulated", "bench", "compute", "gemm", "--size", "4K", "-n", 1, "--max-slow", 0, "--json", tmp_path / "r.json"]
    done = busbar.run_program(busbar.mpirun, "-n", 2, *program, env={**env, "PATH": f"{tmp_path}:{os.environ['PATH']}"})
    run = json.loads((tmp_path / "r.json").read_text())
    assert len({device["uuid"] for device in run["devices"]}) == 2 and run["shared_gpu"] is True and done.returncode == 5
    assert "--max-slow cannot be checked: ranks have MIG instances of one GPU\n" in done.stderr, done.stderr
    assert "\n# ranks have MIG instances of one GPU, with SMs and memory of their own: " in done.stdout and "meaningless" not in done.stdout


def test_mig_instances_of_two_gpus_do_not_share_one(busbar, tmp_path):
    """Their results are compared. busbar made NCCL use sockets between them, which are slower than NVLink."""
    path, (first, second) = tmp_path / "r.json", uuids_of(busbar, 2)
    visible = f"MIG-$(if [ {LOCAL} = 0 ]; then echo {first}; else echo {second}; fi)/1/0"
    program = f"CUDA_VISIBLE_DEVICES={visible} exec {busbar.build}/busbar-emulated bench"
    env = {"EMU_MIG": "2", "EMU_CLUSTER": "h100-sxm-ib", "EMU_DATA": "off"}
    expect = f"all_reduce -b 16M -e 16M -n 2 --repeats 2 --expect auto --min-of-expected 80% --json {path}"
    done = busbar.run_program(busbar.mpirun, "-n", 2, "sh", "-c", f"{program} {expect}", env=env)
    run = json.loads(path.read_text())
    assert done.returncode == 5 and run["shared_gpu"] is False and "of one GPU" not in done.stdout + done.stderr, done.stdout + done.stderr
    assert run["expected"]["results"] == 2 and " of the expected bus bandwidth (median of 2 results" in done.stdout
    assert re.search(r"; restricted by \$NCCL_PROTO=Simple, .* \(set by busbar, unless set before, for ranks that share a GPU or use MIG instances\)\n", done.stderr)
    done = busbar.run_program(busbar.mpirun, "-n", 2, "sh", "-c", f"{program} p2p -n 2 --repeats 2 --max-slow 0", env=env)
    assert done.returncode == 0 and "# no slow link" in done.stdout, done.stdout + done.stderr
    visible = f"CUDA_VISIBLE_DEVICES=MIG-{first}/$(({LOCAL} + 1))/0"
    done = busbar.run_program(busbar.mpirun, "-n", 2, "sh", "-c", f"{visible} exec {busbar.build}/busbar-emulated bench {expect}", env=env)  # of one GPU
    assert done.returncode == 5 and "cannot check the bus bandwidth (--min-of-expected, " in done.stderr
    assert re.search(r": not judged, because ranks have MIG instances of one GPU, required \d+\.?\d*: FAILED\n", done.stdout), done.stdout
    assert ": not compared, because ranks have MIG instances of one GPU\n" in done.stdout
    run = json.loads(path.read_text())
    assert run["mig"] is True and {row["expected_busbw_gbps"] for row in run["results"]} == {None}  # not compared
    assert not re.search(r"^ +16777216 .*%$", done.stdout, re.M), done.stdout
    assert "below in" not in done.stdout


def test_quotes_an_absent_mig_instance_in_full(busbar):
    (uuid,) = uuids_of(busbar, 1)
    env = {"EMU_MIG": "2", "EMU_DATA": "off", "CUDA_VISIBLE_DEVICES": f"MIG-{uuid}/5/0"}
    done = busbar.run("health", "--quick", "--only", "gpu", ranks=1, env=env)
    assert done.returncode == 2 and f"CUDA_VISIBLE_DEVICES has 'MIG-{uuid}/5/0', which CUDA does not find on " in done.stderr, done.stderr


def test_reports_a_rank_without_gpu(busbar):
    done = start(busbar, 2, f"$(({LOCAL} - 1))")
    assert done.returncode == 1
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("busbar: ")]
    assert "rank 0" in line and "no usable GPU on this host" in line
