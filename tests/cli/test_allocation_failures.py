"""Runs in which one allocation fails. Such a run either prints one error line and exits with status 1, or its output equals that of an
undisturbed run. It never leaves out part of the output."""
import json
import os
import re
import subprocess

import pytest

from conftest import ROOT

EXPORT = ["plan", "gpt2_large", "4", "2", "2", "--ranks", "2", "--cluster", "h100-sxm-ib", "--export"]
BENCH = ["bench", "all_reduce", "-b", "8", "-e", "8", "-n", "2", "-w", "1", "--repeats", "2", "--json", "r.json"]
COMMANDS = {
    "plan": ["plan", "gpt2_large", "4", "2", "2", "--ranks", "4", "--cluster", "h100-sxm-ib", "--json", "-"],
    "compare": ["compare", "a.json", "b.json", "--json", "-"],
    "sweep": ["sweep", "study.json", "--list"],
    "report": ["report", "a.json", "b.json", "-o", "page.html"],
    "calibrate": ["calibrate", "a.json", "b.json", "-o", "out.json", "--json", "-"],
    "printed": ["calibrate", "printed.txt", "-o", "out.json", "--json", "-"],
    "plan-collective": ["plan", "all_reduce", "-b", "8", "-e", "64", "--ranks", "16", "--cluster", "h100-sxm-ib", "--json", "-"],
    "plan-matrix": ["plan", "alltoallv", "-b", "8", "-e", "8", "--matrix", "matrix.txt", "--ranks", "2", "--cluster", "h100-sxm-ib"],
    "own-cluster": ["plan", "all_reduce", "-b", "8", "-e", "64", "--ranks", "16", "--cluster", "mine.json", "--json", "-"],
    "best-layout": ["plan", "transformer", "--model", "gpt2_small", "--ranks", "2", "--global-batch-size", "2", "--cluster", "h100-sxm-ib",
                    "--tp", "1", "--best-layout", "--threads", "1", "--json", "-"],
    **{form: [*EXPORT, form, "out.step"] for form in ("goal", "goal-bin", "chakra", "perfetto", "simai")},
    "bench-supervisor": BENCH,
    "bench-rank": BENCH,
}
# The processes whose allocations fail. busbar is the supervisor and the process that writes the results. report execs Python.
PROCESS = {"report": "busbar", "bench-supervisor": "busbar", "bench-rank": "busbar-rank"}
# Every n-th allocation fails, to limit the number of runs. A bench run takes a second. report makes few allocations before it execs Python.
STEP = {"bench-rank": 41, "bench-supervisor": 41, "report": 1, "best-layout": 211}
DEFAULT_STEP = 19  # BUSBAR_EVERY_CALL=1 in the environment tests every allocation
# The first allocations of these two runs open and read a file. The later ones are the same as in other rows, so they are not repeated.
MAX_ALLOCATIONS = {"printed": 30, "own-cluster": 8}


def run(busbar, args, folder, number=0, process=None):
    """Runs busbar with a failing allocation `number` in the processes with the name `process`. Returns the finished process and whether
    the run reached that allocation. With emulated GPUs only allocations of busbar and busbar-rank count, not those of libraries."""
    shim = busbar.build / "tests/bootstrap/libfailing_malloc.so"
    reached = folder / "allocation-failed"
    environment = {**os.environ, "LD_PRELOAD": str(shim), "FAIL_MALLOC": str(number), "FAIL_MALLOC_FILE": str(reached), "LC_ALL": "C"}
    program = "busbar"
    if args[0] == "bench":
        program = "busbar-emulated"
        environment |= {"FAIL_MALLOC_OURS": "1", "EMU_DEVICES": "1", "EMU_QUIET": "1"}
    if process:
        environment |= {"FAIL_MALLOC_PROGRAM": process}
    for old in (*folder.glob("out.*"), *folder.glob("r.json")):
        old.unlink()
    reached.unlink(missing_ok=True)
    done = subprocess.run([str(busbar.build / program), *args], cwd=folder, env=environment, timeout=60, capture_output=True, text=True)
    failed = reached.exists()
    if done.returncode == 0:
        done.stdout += "".join(f"{made.name} {made.read_bytes()}" for made in sorted(folder.glob("out.*")))
    done.stdout = re.sub(r'"started": "[^"]*"', "", re.sub(r"FAIL_MALLOC\w*", "", done.stdout))
    return done, failed


def result(factor):
    row = {"collective": "all_reduce", "start_barrier": True, "iterations": 20, "host_us": 3.0, "bytes": 8, "count": 2, "dtype": "float",
           "op": "sum", "root": None, "placement": "in_place", "mode": "stream"}
    time = {"min": 9.0, "p50": 10.0 * factor, "p90": 11.0, "p99": 11.0, "max": 12.0, "mean": 10.0, "ci95": [9.9 * factor, 10.1 * factor]}
    return {"schema": "busbar.bench/1", "ranks": 2, "nodes": 1, "devices": [{"name": "NVIDIA H100 80GB HBM3"}] * 2,
            "environment": {"NCCL_ALGO": "Ring"}, "results": [{**row, "time_us": time}], "status": "ok"}


@pytest.fixture
def files(tmp_path):
    for name, factor in ("a", 1), ("b", 2):
        (tmp_path / f"{name}.json").write_text(json.dumps(result(factor)))
    (tmp_path / "matrix.txt").write_text("0 8\n8 0\n")
    study = {"name": "s", "command": ["plan", "gpt2_large", "4", "2"], "ranks": 8, "options": {"ops": [True, False]},
             "environment": {"NCCL_ALGO": ["Ring", "Tree"]}}
    (tmp_path / "study.json").write_text(json.dumps(study))
    (tmp_path / "printed.txt").write_text((ROOT / "tests/fuzz/corpus/nccl_tests_text/h100").read_text())
    (tmp_path / "mine.json").write_text((ROOT / "profiles/clusters/h100-sxm-ib.json").read_text())
    return tmp_path


def find_status(path):
    """Returns the status in a file of results, or None if there is no file."""
    return json.loads(path.read_text())["status"] if path.exists() else None


@pytest.mark.parametrize("name", COMMANDS)
def test_failed_allocation_is_reported_or_has_no_effect(busbar, files, name):
    if b"__asan_init" in (busbar.build / "busbar").read_bytes():
        pytest.skip("the sanitizers make allocations of their own")
    args, process, limit = COMMANDS[name], PROCESS.get(name), MAX_ALLOCATIONS.get(name)
    whole, _ = run(busbar, args, files, process=process)
    assert whole.returncode == 0 or name == "report", whole.stderr  # report fails where plotly is missing
    step = 1 if os.environ.get("BUSBAR_EVERY_CALL") or limit else STEP.get(name, DEFAULT_STEP)
    number, failed, bad = 1, True, []
    while failed and number != limit:
        done, failed = run(busbar, args, files, number, process)
        unchanged = (done.returncode, done.stdout, done.stderr) == (whole.returncode, whole.stdout, whole.stderr)
        errors = [line for line in done.stderr.splitlines(True) if not line.startswith("busbar: warning: ")]
        reported = done.returncode == 1 and len(errors) == 1 and errors[0].startswith("busbar: ") and errors[0].endswith("\n")
        unfinished = [made.name for made in files.glob(".*")]  # temporary files; an output file is complete or does not exist
        wrong_status = args is BENCH and (done.returncode == 0) != (find_status(files / "r.json") == "ok")
        if not unchanged and not reported or unfinished or wrong_status:
            bad.append((number, done.returncode, done.stderr[-300:], unfinished))
        number += step
    assert number > 3 * step
    assert bad == []
