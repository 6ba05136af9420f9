"""bench, proxy and failing jobs under the mpirun of each MPI implementation that has a build.

The builds are the build under test and build/mpich (made by `sh bootstrap/setup.sh mpich`; BUSBAR_MPICH_BUILD names another folder)."""
import json
import os
import pathlib
import re
import subprocess

import pytest
from conftest import BUILD, ROOT, Busbar

MPICH = pathlib.Path(os.environ.get("BUSBAR_MPICH_BUILD", BUILD / "mpich")).resolve()
SMALL = ("bench", "all_reduce", "-b", "1K", "-e", "64K", "-f", "8", "-n", "2", "--repeats", "2")


@pytest.fixture(params=[pytest.param(BUILD, id="build"), pytest.param(MPICH, id="mpich")])
def job(request):
    if not (request.param / "busbar-emulated").exists():
        pytest.skip(f"no build for MPICH in {request.param.name}: sh bootstrap/setup.sh mpich")
    return Busbar(request.param, launched=True)


def busbar_lines(done):
    """The lines that busbar prints to stderr. Launchers add lines of their own when a rank fails."""
    return [line for line in done.stderr.splitlines() if line.startswith("busbar:")]


def test_bench_verifies_data_and_writes_results(job, tmp_path):
    result = job.json(*SMALL, ranks=4, tmp_path=tmp_path)
    assert result["ranks"] == 4 and result["status"] == "ok"
    assert [r["bytes"] for r in result["results"] if r["placement"] == "in_place"] == [1024, 8192, 65536]
    assert all(r["wrong"] == 0 and r["busbw_gbps"] > 0 for r in result["results"])


def test_bench_prints_only_the_table(job):
    """Lines that a library prints would be mistaken for output of busbar."""
    done = job.run(*SMALL, ranks=4)
    assert done.returncode == 0 and done.stderr == ""
    assert re.search(r"^# 4 ranks on 1 node: Emulated GPU$", done.stdout, re.M)


def test_proxy_passes_the_data_check(job, tmp_path):
    result = job.json("proxy", "gpt2_large", "4", "4", "2", "--check", "--steps", "2", "--warmup", "1", ranks=4, tmp_path=tmp_path)
    assert result["ranks"] == 4 and result["check"] == {**result["check"], "enabled": True, "wrong": 0}


def test_usage_error_is_printed_once(job):
    done = job.run("bench", "all_reduec", ranks=4)
    assert done.returncode == 2
    (line,) = busbar_lines(done)
    assert "did you mean 'all_reduce'?" in line


def test_wrong_data_exits_with_3_and_names_the_rank(job, tmp_path):
    path = tmp_path / "result.json"
    once = ("-b", "1K", "-e", "1K", "-w", "0", "-n", "1", "--repeats", "1", "--placement", "out_of_place")
    done = job.run("bench", "all_reduce", *once, "--json", path, ranks=4, env={"EMU_FAULT": "corrupt:rank=2,call=2"})
    assert done.returncode == 3
    assert [line for line in busbar_lines(done) if "1 wrong element, first on rank 2" in line], done.stderr
    result = json.loads(path.read_text())
    assert result["status"] == "wrong data" and result["results"][0]["wrong"] == 1


def test_failed_nccl_call_ends_the_job(job):
    done = job.run(*SMALL, ranks=4, env={"EMU_FAULT": "fail:rank=3,call=7,name=ncclAllReduce"}, timeout=30)
    assert done.returncode == 1 and "rank 3" in done.stderr


@pytest.mark.parametrize("command", [SMALL, ("proxy", "gpt2_large", "4", "4", "2", "--steps", "2")], ids=["bench", "proxy"])
def test_reports_the_lost_rank(job, command, tmp_path):
    path = tmp_path / "result.json"
    done = job.run(*command, "--json", path, ranks=4, env={"EMU_FAULT": "die:rank=2,call=5"}, timeout=30)
    assert done.returncode == 4
    (line,) = busbar_lines(done)
    assert re.search(r"rank 2 \(.*\) is lost; last seen: ", line)
    assert not path.exists() or json.loads(path.read_text())["status"] == "timeout"


def test_reports_the_stalled_rank(job):
    done = job.run(*SMALL, "--timeout", "3", ranks=4, env={"EMU_FAULT": "stall:rank=1,call=4,name=ncclAllReduce"}, timeout=30)
    assert done.returncode == 4
    assert any("timeout in bench all_reduce" in line for line in busbar_lines(done))


def test_nccl_tests_program_starts_ranks_of_g(job):
    """-g starts the ranks without an MPI launcher. Under mpirun it starts several ranks per process."""
    done = subprocess.run([job.build / "emulated" / "all_reduce_perf", "-g", "3", "-b", "8", "-e", "64", "-n", "2"],
                          env=job.environment(), capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=90)
    assert done.returncode == 0, done.stderr
    assert len(re.findall(r"^# +Rank +\d", done.stdout, re.M)) == 3
    perf = [job.mpirun, "-n", "2", job.build / "emulated" / "all_reduce_perf", "-g", "2", "-b", "8", "-e", "8"]
    inside = subprocess.run(perf, env=job.environment(), capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=90)
    assert inside.returncode == 0 and len(re.findall(r"^# +Rank +\d", inside.stdout, re.M)) == 4, inside.stderr


def test_reports_a_lost_forked_rank(job):
    """Rank 2 is the main rank of the second process. Rank 3 is forked by that process."""
    perf = [job.mpirun, "-n", "2", job.build / "emulated" / "all_reduce_perf", "-g", "2", "-b", "8", "-e", "1K"]
    env = job.environment({"EMU_FAULT": "die:rank=3,call=6,name=ncclAllReduce"})
    lost = subprocess.run(perf, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=90)
    assert lost.returncode == 4 and any("rank 3 (" in line and "is lost" in line for line in busbar_lines(lost)), lost.stderr


def test_sweep_starts_its_runs_with_mpirun(job, tmp_path):
    """The study sets an environment variable. Open MPI forwards it only with -x; Hydra forwards all variables."""
    study = {"command": ["bench", "all_reduce", "-b", "1K", "-e", "1K", "-n", "2"], "ranks": [2, 3], "environment": {"NCCL_ALGO": "Ring"}}
    (tmp_path / "study.json").write_text(json.dumps(study))
    done = job.run("sweep", "study.json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr + done.stdout
    results = [c["result"] for c in json.loads((tmp_path / "study.sweep" / "sweep.json").read_text())["combinations"]]
    assert [r["ranks"] for r in results] == [2, 3] and results[0]["environment"]["NCCL_ALGO"] == "Ring"
    inside = job.run("sweep", "study.json", ranks=2, cwd=tmp_path)
    assert inside.returncode == 2 and "without mpirun" in inside.stderr
