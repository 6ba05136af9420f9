"""Every usual way to start ranks: all GPUs visible, one each, some; what two ranks may not share."""
import json
import re

import pytest

LOCAL = "${OMPI_COMM_WORLD_LOCAL_RANK:-$MPI_LOCALRANKID}"
SIZE = ["-b", "64", "-e", "64", "-n", "2", "--repeats", "1"]


def start(busbar, ranks, seen, *words, env=None):
    """bench all_reduce; `seen`: what the shell of each rank makes CUDA_VISIBLE_DEVICES."""
    program = " ".join([str(busbar.build / "busbar-emulated"), "bench", "all_reduce", *SIZE, *map(str, words)])
    return busbar.run_program(busbar.mpirun, "-n", ranks, "sh", "-c", f'CUDA_VISIBLE_DEVICES="{seen}" exec {program}', env=env)


def uuids_of(busbar, devices=4):
    """UUIDs of the machine's GPUs, by number."""
    done = busbar.run("bench", "all_reduce", *SIZE, "--json", "-", ranks=devices)
    return [device["uuid"] for device in json.loads(done.stdout)["devices"]]


@pytest.mark.smoke
def test_ranks_that_see_one_gpu_each(busbar, tmp_path):
    """srun --gpus-per-task=1, a wrapper around the program, containers: the number is 0 everywhere, the GPU is not."""
    path = tmp_path / "r.json"
    done = start(busbar, 4, LOCAL, "--json", path)
    assert done.returncode == 0, done.stderr
    run = json.loads(path.read_text())
    assert len({device["uuid"] for device in run["devices"]}) == 4 and run["shared_gpu"] is False
    assert [device["pci"] for device in run["devices"]] == [f"0000:0{n}:00.0" for n in (1, 2, 3, 4)]
    assert "warning" not in done.stderr and "share" not in done.stderr


def test_ranks_that_see_some_gpus(busbar, tmp_path):
    """A pair of GPUs for each pair of ranks, named by shortened UUIDs, and a rank whose only GPU another one could have had."""
    path, uuids = tmp_path / "r.json", uuids_of(busbar)
    short = [uuid[:12] for uuid in uuids]
    seen = f"$(case {LOCAL} in 0|1) echo {short[3]},{short[2]};; 2) echo {short[1]},{short[0]};; *) echo {short[1]};; esac)"
    done = start(busbar, 4, seen, "--json", path)
    assert done.returncode == 0, done.stderr
    assert [device["uuid"] for device in json.loads(path.read_text())["devices"]] == [uuids[3], uuids[2], uuids[0], uuids[1]]


def test_two_ranks_on_one_gpu_are_named(busbar):
    (uuid,) = uuids_of(busbar, 2)[1:]
    done = start(busbar, 4, f"$(({LOCAL} % 3 == 0 ? 1 : {LOCAL} + 1))")  # 1 2 3 1
    assert done.returncode == 2
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("busbar: ")]
    assert f"4 ranks on this host but only 3 GPUs: ranks 0 and 3 would share {uuid}" in line and "--share-gpu" in line
    done = start(busbar, 3, f"$(({LOCAL} == 2 ? 2 : 1)),$(({LOCAL} == 2 ? 3 : 9))")  # 1 1 2,3: enough GPUs, but not seen
    assert done.returncode == 2 and re.search(rf"ranks 0 \(\S+\) and 1 would share {uuid}: make a separate GPU visible to each", done.stderr)


def test_two_ranks_on_one_gpu_share_it_when_told(busbar, tmp_path):
    path = tmp_path / "r.json"
    assert start(busbar, 2, "1", "--share-gpu", "--json", path).returncode == 0
    assert json.loads(path.read_text())["shared_gpu"] is True
    assert start(busbar, 2, LOCAL, "--share-gpu", "--json", path).returncode == 0  # told in vain
    assert json.loads(path.read_text())["shared_gpu"] is True
    assert "leave it out" in start(busbar, 2, LOCAL, "--share-gpu").stderr
    assert "leave it out" not in start(busbar, 2, "0,1", "--share-gpu").stderr


@pytest.mark.parametrize("hidden", [[], ["OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"]])
def test_what_nccl_shall_know_of_shared_gpus_is_written_by_one_thread(busbar, hidden):
    """Also under a launcher that does not tell how many ranks it started on a host."""
    program = " ".join([str(busbar.build / "busbar-emulated"), "bench", "all_reduce", *SIZE, "--share-gpu"])
    watch = f"LD_PRELOAD={busbar.build}/tests/setenv_watch.so"
    done = busbar.run_program(busbar.mpirun, "-n", 2, "sh", "-c", f"unset {' '.join(hidden)} NOTHING; {watch} exec {program}",
                              env={"EMU_DEVICES": "1"})
    assert done.returncode == 0 and "warning" not in done.stderr, done.stderr
    written = re.findall(r"^written: (\w+)=\S* with (\d+) other threads", done.stderr, re.M)
    assert len([name for name, _ in written if name == "NCCL_HOSTID"]) == 2 and {beside for _, beside in written} == {"0"}, written


def test_what_only_the_ranks_together_know_of_instances_moves_no_environment(busbar, tmp_path):
    """That two instances are of one GPU is known when MPI and the watchdog have threads: no setenv, and NCCL sees it all the same."""
    path, (uuid, *_) = tmp_path / "r.json", uuids_of(busbar, 2)
    program = " ".join(map(str, [busbar.build / "busbar-emulated", "bench", "all_reduce", *SIZE, "--json", path]))
    seen = f"CUDA_VISIBLE_DEVICES=MIG-{uuid}/$(({LOCAL} + 1))/0 LD_PRELOAD={busbar.build}/tests/setenv_watch.so"
    done = busbar.run_program(busbar.mpirun, "-n", 2, "sh", "-c", f"{seen} exec {program}", env={"EMU_MIG": "2", "NCCL_PROTO": "LL"})
    assert done.returncode == 0, done.stderr
    written = re.findall(r"^written: (\w+)=\S* with (\d+) other threads", done.stderr, re.M)
    assert {name for name, beside in written if beside != "0"} == set(), written
    told = json.loads(path.read_text())["environment"]
    assert told["NCCL_NET"] == "Socket" and told["NCCL_HOSTID"].startswith("busbar-0-")
    assert told["NCCL_PROTO"] == "LL" and not any("LATE" in name for name in told)


def test_mig_instances_are_gpus_of_which_nccl_sees_one(busbar, tmp_path):
    path, (uuid, *_) = tmp_path / "r.json", uuids_of(busbar, 2)
    done = start(busbar, 2, f"MIG-{uuid}/$(({LOCAL} + 1))/0", "--json", path, env={"EMU_MIG": "2"})
    assert done.returncode == 0, done.stderr
    run = json.loads(path.read_text())
    assert len({device["uuid"] for device in run["devices"]}) == 2 and run["shared_gpu"] is True


def test_a_rank_without_a_gpu_says_so(busbar):
    done = start(busbar, 2, f"$(({LOCAL} - 1))")
    assert done.returncode == 1
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("busbar: ")]
    assert "rank 0" in line and "no usable GPU on this host" in line


def test_a_launcher_that_nobody_knows_starts_no_runs_of_one_rank(busbar):
    done = busbar.run("bench", "all_reduce", *SIZE, env={"FOO_RANK": "1", "FOO_SIZE": "2"})
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("busbar: ")]
    assert done.returncode == 2 and "a launcher sets FOO_SIZE=2, but MPI has 1 process" in line and done.stdout == ""
