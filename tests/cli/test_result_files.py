"""Files of results: what stands beside them is not written to, what a killed run leaves, no status but that of the exit, no secrets."""
import json
import os
import re
import shutil
import signal
import stat
import subprocess

import pytest
from conftest import ROOT

BENCH = ["bench", "all_reduce", "-b", "8", "-e", "64", "-n", "2", "--repeats", "2"]
PROXY = ["proxy", "gpt2_large", "4", "2", "2", "--scale-counts", "1e-4", "--steps", "2", "--warmup", "1"]
PLAN = ["plan", "gpt2_large", "4", "2", "2", "--ranks", "2"]
STATUS = {0: "ok", 1: "failed", 2: "failed", 3: "wrong data", 4: "timeout"}


def ours(text):
    return [line for line in text.splitlines() if line.startswith("busbar: ")]


def test_nothing_but_the_file_is_written(busbar, tmp_path):
    """Neither through a link of its name, nor of a name that might have been that of a temporary."""
    precious = tmp_path / "precious"
    precious.write_text("mine")
    for name in "out.json", "out.json.tmp", "trace.json", "trace.json.tmp":
        (tmp_path / name).symlink_to(precious)
    done = busbar.run(*PLAN, "--json", tmp_path / "out.json", "--trace", tmp_path / "trace.json", "--cluster", "h100-sxm-ib")
    assert done.returncode == 0, done.stderr
    assert precious.read_text() == "mine"
    for name in "out.json", "trace.json":
        assert not (tmp_path / name).is_symlink() and json.loads((tmp_path / name).read_text())
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out.json", "out.json.tmp", "precious", "trace.json", "trace.json.tmp"]


def test_a_terminal_s_name_is_a_stream(busbar):
    done = busbar.run(*PLAN, "--json", "/dev/stdout")
    assert done.returncode == 0 and '"schema": "busbar.plan/1"' in done.stdout


@pytest.mark.parametrize("words", [BENCH, PROXY, ["proxy", "all", "--quick"]], ids=["bench", "proxy", "all"])
def test_all_ranks_leave_when_results_cannot_be_opened(busbar, words):
    for _ in range(3):
        done = busbar.run(*words, "--json", "/nonexistent/x.json", "-T", 10, ranks=4)
        assert done.returncode == 2, done.stderr
        assert len(ours(done.stderr)) == 1 and "/nonexistent/x.json: No such file" in done.stderr and "MPI_ERR" not in done.stderr


def test_all_ranks_leave_when_one_cannot_build_the_step(busbar, tmp_path):
    """A file of a model that is not on every node: the first rank can go on, the other cannot."""
    for rank in "0", "1":
        (tmp_path / rank).mkdir()
    shutil.copy(ROOT / "profiles/models/gpt2_small.json", tmp_path / "0" / "m.json")
    words = busbar.command("proxy", "transformer", "--model", "./m.json", "--scale-counts", "1e-4", "-T", 10)
    in_own_folder = ["sh", "-c", 'cd "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" && exec "$0" "$@"']
    for _ in range(3):
        done = busbar.run_program(busbar.mpirun, "-n", 2, *in_own_folder, *words, cwd=tmp_path)
        assert done.returncode == 2, done.stderr
        assert len(ours(done.stderr)) == 1 and "rank 1" in done.stderr and "MPI_ERR" not in done.stderr


@pytest.mark.parametrize("fault,code", [
    ("fail:rank=1,name=ncclCommFinalize", 1), ("fail:rank=0,name=ncclCommFinalize", 1), ("stall:rank=1,name=ncclCommFinalize", 4),
    ("die:rank=1,name=ncclCommFinalize", 4), ("die:rank=1,name=ncclCommDestroy", 4), ("fail:rank=1,call=3,name=ncclAllReduce", 1),
    ("", 0)])
@pytest.mark.parametrize("words", [BENCH, PROXY], ids=["bench", "proxy"])
def test_status_is_that_of_the_exit(busbar, tmp_path, words, fault, code):
    if words is PROXY and "AllReduce" in fault:
        fault = fault.replace("ncclAllReduce", "ncclSend")
    path = tmp_path / "x.json"
    done = busbar.run(*words, "--json", path, "-T", 5, ranks=2, env={"EMU_FAULT": fault} if fault else {})
    assert done.returncode in ({code, 137} if fault.startswith("die") else {code}), done.stderr
    assert json.loads(path.read_text())["status"] == STATUS[code]


def test_a_killed_first_rank_leaves_every_row(busbar, tmp_path):
    """It dies in the call of an operation of the third size or later: what it had printed is in the file."""
    path = tmp_path / "x.json"
    for call in 30, 40, 50:
        done = busbar.run(*BENCH, "--json", path, "-T", 5, ranks=2, env={"EMU_FAULT": f"die:rank=0,call={call},name=ncclAllReduce"})
        assert done.returncode != 0
        rows = {r["bytes"] for r in json.loads(path.read_text())["results"]}
        printed = {int(line.split()[0]) for line in done.stdout.splitlines() if line[:1] == " "}
        assert printed and printed <= rows, (call, printed, rows)


def test_a_trace_that_cannot_be_written_costs_nothing_else(busbar, tmp_path):
    done = busbar.run(*PROXY, "--trace", "/dev/full", "--json", tmp_path / "x.json", ranks=2)
    assert done.returncode == 1, done.stderr
    assert len(ours(done.stderr)) == 1 and "No space left on device" in done.stderr
    assert "step" in done.stdout and json.loads((tmp_path / "x.json").read_text())["step_us"]


def test_a_full_disk_costs_nothing_else(busbar):
    done = busbar.run(*BENCH, "--json", "/dev/full", ranks=2)
    assert done.returncode == 1 and len(ours(done.stderr)) == 1 and "No space left" in done.stderr
    assert len([line for line in done.stdout.splitlines() if line[:1] == " "]) == 4


SECRET = {"NCCL_FOO_TOKEN": "geheim-1", "CUDA_X_KEY": "geheim-2", "BUSBAR_PASSWORD": "geheim-3", "HF_TOKEN": "geheim-4"}


def test_results_hold_no_secrets(busbar, tmp_path):
    path = tmp_path / "x.json"
    done = busbar.run(*BENCH, "--json", path, env={**SECRET, "NCCL_PROTO": "LL"})
    assert done.returncode == 0 and "geheim" not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    told = json.loads(path.read_text())["environment"]
    assert told["NCCL_PROTO"] == "LL" and told["NCCL_FOO_TOKEN"] == told["BUSBAR_PASSWORD"] == "set" and "HF_TOKEN" not in told


def test_gathered_results_hold_no_secrets(busbar, tmp_path):
    study = {"name": "s", "command": PLAN[:5], "ranks": 2, "environment": {"HF_TOKEN": "geheim-4", "NCCL_PROTO": "LL"},
             "choices": {"network": {"plain": {}, "key": {"environment": {"NCCL_FOO_TOKEN": "geheim-1"}}}}}
    (tmp_path / "s.json").write_text(json.dumps(study))
    done = busbar.run("sweep", "s.json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "s.sweep" / "sweep.json").read_text()
    assert "geheim" not in text and "LL" in text
    data = json.loads(text)
    assert data["study"]["environment"] == {"HF_TOKEN": "set", "NCCL_PROTO": "LL"}
    assert [c["environment"].get("NCCL_FOO_TOKEN") for c in data["combinations"]] == [None, "set"]
    assert stat.S_IMODE((tmp_path / "s.sweep" / "sweep.json").stat().st_mode) == 0o600
    assert not any("geheim" in p.read_text() for p in (tmp_path / "s.sweep").iterdir() if p.suffix in (".json", ".csv"))


def test_every_variable_that_the_code_reads_is_known():
    """Else results would not tell what a run was made with."""
    known = (ROOT / "bootstrap/base/environment.c").read_text()
    files = [f for room in ("bootstrap", "collectives", "proxies", "cuda", "tests/emulator") for f in (ROOT / room).rglob("*.[ch]*")]
    read = {name for f in files for name in re.findall(r'getenv\("((?:EMU|BUSBAR|NCCL|CUDA)_[A-Z0-9_]+)"', f.read_text())}
    assert len(read) > 10
    kept_back = {"NCCL_COMM_ID"}  # where strangers would join
    assert {name for name in read if f'"{name}"' not in known} <= kept_back


# ---- disks and folders that go while a run is under way ----


def table_rows(text):
    return [line for line in text.splitlines() if line[:1] == " "]


def test_a_file_that_may_not_grow(busbar, tmp_path):
    """A limit is an error of the write like any other, not a signal: one line, and nothing is left. (MPI's own files need more.)"""
    words = busbar.command(*PLAN, "--json", tmp_path / "x.json", emulated=False)
    done = busbar.run_program("sh", "-c", 'ulimit -f 1; exec "$0" "$@"', *words)
    assert done.returncode == 1 and len(ours(done.stderr)) == 1 and "File too large" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_removed(busbar, tmp_path):
    """It goes with its file as soon as that is there, and the rows that follow have no place: the table is whole all the same."""
    folder = tmp_path / "inner"
    folder.mkdir()
    words = busbar.command("bench", "all_reduce", "-b", "8", "-e", "16M", "-n", "20", "--json", folder / "x.json")
    remove = 'until [ -s "$0/x.json" ]; do sleep 0.02; done; rm -r "$0"'
    done = busbar.run_program("sh", "-c", f'{{ {remove}; }} & "$@"', folder, *words)
    if (folder / "x.json").exists():
        pytest.skip("the run was over before the folder was gone")
    assert done.returncode == 1 and len(ours(done.stderr)) == 1 and "x.json: No such file" in done.stderr
    assert len(table_rows(done.stdout)) == 22


def test_two_runs_with_one_file(busbar, tmp_path):
    """Each ends well, and the file is the whole of one of them."""
    words = [str(w) for w in busbar.command(*BENCH, "--json", tmp_path / "x.json")]
    both = '"$@" > 1.txt & a=$!; "$@" > 2.txt & b=$!; wait $a && wait $b'
    for _ in range(2):
        done = busbar.run_program("sh", "-c", both, "sh", *words, cwd=tmp_path)
        assert done.returncode == 0 and ours(done.stderr) == []
        data = json.loads((tmp_path / "x.json").read_text())
        assert data["status"] == "ok" and len(data["results"]) == 8
        assert sorted(p.name for p in tmp_path.iterdir()) == ["1.txt", "2.txt", "x.json"]


@pytest.mark.parametrize("mask,mode", [("022", 0o644), ("027", 0o640), ("077", 0o600)])
def test_modes_follow_the_umask(busbar, tmp_path, mask, mode):
    """Of files without an environment; one that has it is its owner's alone, whatever the mask says."""
    plan = busbar.command(*PLAN, "--json", tmp_path / "plan.json", "--trace", tmp_path / "trace.json", "--cluster", "h100-sxm-ib", emulated=False)
    bench = busbar.command("bench", "all_reduce", "-b", "8", "-e", "8", "-n", "1", "--repeats", "1", "--json", tmp_path / "bench.json")
    for words in plan, bench:
        done = busbar.run_program("sh", "-c", f'umask {mask}; exec "$0" "$@"', *words)
        assert done.returncode == 0, done.stderr
    modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in tmp_path.iterdir()}
    assert modes == {"plan.json": mode, "trace.json": mode, "bench.json": 0o600}


def test_an_array_job_is_its_owner_s_alone(busbar, tmp_path):
    """It sets the environment of its runs."""
    (tmp_path / "s.json").write_text(json.dumps({"name": "s", "command": PLAN[:5], "ranks": 2, "environment": {"HF_TOKEN": "geheim"}}))
    done = busbar.run("sweep", "s.json", "--slurm", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    holders = [p for p in (tmp_path / "s.sweep").iterdir() if p.is_file() and "geheim" in p.read_text()]
    assert holders and all(stat.S_IMODE(p.stat().st_mode) == 0o600 for p in holders)


def test_what_is_not_on_the_disk_has_no_name(busbar, tmp_path):
    """Before a file gets its name it is written to the disk: where that fails, nothing is there."""
    shim = busbar.build / "tests/fault_injection/libfault_shim.so"
    if not shim.exists() or b"__asan_init" in (busbar.build / "busbar").read_bytes():
        pytest.skip("no shim of the drills here")
    for function in "fsync", "rename":
        env = {"LD_PRELOAD": str(shim), "FAULT": f"fail:{function}:1:all", "FAULT_FROM_PROGRAM": "1"}
        done = busbar.run(*PLAN, "--json", tmp_path / "plan.json", env=env, emulated=False)
        assert done.returncode == 1 and len(ours(done.stderr)) == 1 and "Input/output error" in done.stderr
        assert list(tmp_path.iterdir()) == []


def test_a_run_is_ok_when_its_rows_are_on_the_disk(busbar, tmp_path):
    """SIGKILL in one fsync after the other, until the run has no more of them: none finds "ok" in the file. Where the last one fails, the
    run has failed; a signal amid it ends the run as any process, without a word."""
    shim = busbar.build / "tests/fault_injection/libfault_shim.so"
    if not shim.exists() or b"__asan_init" in (busbar.build / "busbar").read_bytes():
        pytest.skip("no shim of the drills here")
    words = busbar.command("bench", "all_reduce", "-b", "8", "-e", "8", "-n", "2", "-w", "1", "--json", str(tmp_path / "r.json"))

    def drilled(deed, call):
        done = busbar.run_program("sh", "-c", 'ulimit -c 0; exec "$@"', "sh", *words,
                                  env={"LD_PRELOAD": str(shim), "FAULT": f"{deed}:fsync:{call}:all", "FAULT_FROM_PROGRAM": "1"})
        return done, json.loads((tmp_path / "r.json").read_text())["status"] if (tmp_path / "r.json").exists() else ""

    statuses = []
    while len(statuses) < 9 and "ok" not in statuses:
        done, status = drilled("kill", len(statuses) + 1)
        statuses.append(status)
    assert statuses[-1] == "ok" and done.returncode == 0 and statuses[-2] == "running"
    last = len(statuses) - 1
    done, status = drilled("fail", last)
    assert done.returncode == 1 and status == "failed" and len(ours(done.stderr)) == 1 and "Input/output error" in done.stderr
    done, status = drilled("quit", last)
    assert abs(done.returncode) % 128 == signal.SIGQUIT and status == "running" and ours(done.stderr) == []


def test_results_are_not_mixed_with_what_is_printed(busbar, tmp_path):
    """With its standard streams closed outside, a run's file would be the first that is opened."""
    words = busbar.command("bench", "all_reduce", "-b", "8", "-e", "8", "-n", "2", "-w", "1", "--json", str(tmp_path / "r.json"))
    done = subprocess.run(["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *words], env=busbar.environment(), timeout=20, check=False)
    assert done.returncode == 1 and json.loads((tmp_path / "r.json").read_text())["status"] == "failed"


def test_closed_streams_are_filled_before_anything_is_opened(busbar, tmp_path):
    """As a program sees it that busbar becomes: a python3 of its own, which only looks at them."""
    python = tmp_path / "python/bin/python3"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\nseen=$(for fd in 0 1 2; do readlink "/proc/$$/fd/$fd"; done)\necho "$seen" > "${0%/*}/seen"\n')
    python.chmod(0o755)
    (tmp_path / "report").mkdir()
    (tmp_path / "report/report.py").touch()
    program = shutil.copy(busbar.build / "busbar", tmp_path)
    done = subprocess.run(["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", program, "report", program, "-o", tmp_path / "page.html"], timeout=20,
                          check=False)
    assert done.returncode == 0 and (python.parent / "seen").read_text().split() == ["/dev/null"] * 3


ENDLESS = ("bench", "all_reduce", "-b", "8", "-e", "16", "-n", "2", "-w", "1", "-N", "0")


def test_nobody_reads_what_is_printed(busbar):
    """`| head`: without a file there is nothing to go on for."""
    with subprocess.Popen(busbar.command(*ENDLESS), env=busbar.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
        assert run.stdout.readline().startswith(b"# busbar")
        run.stdout.close()
        said = run.stderr.read().decode()
        assert run.wait(20) == 1 and len(ours(said)) == 1 and "cannot write to stdout" in said


def test_nobody_reads_the_pipe(busbar, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    done = busbar.run("bench", "all_reduce", "-b", "8", "-e", "8", "-n", "2", "-w", "1", "-T", "1", "--json", tmp_path / "pipe", timeout=20)
    assert done.returncode == 4 and "the last write of the results did not end within 1 s" in done.stderr


def test_one_process_needs_few_files(busbar):
    """MPI, which would end the process without a line of ours, is not started for one."""
    words = busbar.command("bench", "all_reduce", "-b", "8", "-e", "8", "-n", "2", "-w", "1")
    limited = ["sh", "-c", 'ulimit -n 16; exec "$@"', "sh", *words]
    done = subprocess.run(limited, env=busbar.environment(), capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 0, done.stderr
