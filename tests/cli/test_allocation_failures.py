"""Runs in which one allocation fails. Such a run either prints one error line and exits with status 1, or its output equals that of an
undisturbed run. It never leaves out part of the output."""
import json
import os
import re
import subprocess

import pytest

from conftest import ROOT

# Every n-th allocation fails, to limit the number of runs. A bench run takes a second. report makes few allocations before it execs Python.
STEP = {"bench": 41, "report": 1, "--best-layout": 211}
DEFAULT_STEP = 7  # BUSBAR_EVERY_CALL=1 in the environment tests every allocation
# The first allocations of these two runs open and read a file. The later ones are the same as in other rows, so they are not repeated.
MAX_ALLOCATIONS = {"printed.txt": 30, "mine.json": 8}
FORMS = ["goal", "goal-bin", "chakra", "perfetto", "simai"]
EXPORT = ["plan", "gpt2_large", "4", "2", "2", "--ranks", "2", "--cluster", "h100-sxm-ib", "--export"]


def run(busbar, args, folder, number=0):
    """Runs busbar with a failing allocation `number`. Returns the finished process and whether the run reached that allocation.
    With emulated GPUs the shim counts only allocations of busbar itself."""
    read_end, write_end = os.pipe()
    shim = next((busbar.build / "tests").rglob("libfailing_malloc.so"))
    environment = {**os.environ, "LD_PRELOAD": str(shim), "FAIL_MALLOC": str(number), "FAIL_MALLOC_FD": str(write_end), "LC_ALL": "C"}
    program = "busbar"
    if args[0] == "bench":
        program = "busbar-emulated"
        environment |= {"FAIL_MALLOC_OURS": "1", "EMU_DEVICES": "1", "EMU_QUIET": "1"}
    if args[0] == "report":
        environment |= {"FAIL_MALLOC_PROGRAM": "busbar"}
    for old in folder.glob("out.*"):
        old.unlink()
    try:
        done = subprocess.run([str(busbar.build / program), *args], cwd=folder, env=environment, pass_fds=[write_end], timeout=60,
                              capture_output=True, text=True)
    finally:
        os.close(write_end)
        failed = os.read(read_end, 1) == b"x"
        os.close(read_end)
    if done.returncode == 0:
        done.stdout += "".join(f"{made.name} {made.read_bytes()}" for made in sorted(folder.glob("out.*")))
    done.stdout = re.sub(r'"started": "[^"]*"', "", re.sub(r"FAIL_MALLOC\w*", "", done.stdout))
    return done, failed


def result(factor):
    row = {"collective": "all_reduce", "start_barrier": True, "iterations": 20, "host_us": 3.0, "bytes": 8, "count": 2, "dtype": "float",
           "op": "sum", "root": None, "placement": "in_place", "mode": "stream"}
    time = {"min": 9.0, "p50": 10.0 * factor, "p90": 11.0, "p99": 11.0, "max": 12.0, "mean": 10.0, "ci95": [9.9, 10.1]}
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


@pytest.mark.parametrize("args", [
    ["plan", "gpt2_large", "4", "2", "2", "--ranks", "4", "--cluster", "h100-sxm-ib", "--json", "-"],
    ["compare", "a.json", "b.json", "--json", "-"],
    ["sweep", "study.json", "--list"],
    ["report", "a.json", "b.json", "-o", "page.html"],
    ["calibrate", "a.json", "b.json", "-o", "out.json", "--json", "-"],
    ["calibrate", "printed.txt", "-o", "out.json", "--json", "-"],
    ["plan", "all_reduce", "-b", "8", "-e", "64", "--ranks", "16", "--cluster", "h100-sxm-ib", "--json", "-"],
    ["plan", "alltoallv", "-b", "8", "-e", "8", "--matrix", "matrix.txt", "--ranks", "2", "--cluster", "h100-sxm-ib"],
    ["plan", "all_reduce", "-b", "8", "-e", "64", "--ranks", "16", "--cluster", "mine.json", "--json", "-"],
    ["plan", "transformer", "--model", "gpt2_small", "--ranks", "2", "--global-batch-size", "2", "--cluster", "h100-sxm-ib", "--tp", "1",
     "--best-layout", "--threads", "1", "--json", "-"],
    *([*EXPORT, form, "out.step"] for form in FORMS),
    ["bench", "all_reduce", "-b", "8", "-e", "8", "-n", "2", "-w", "1", "--repeats", "2", "--json", "r.json"],
], ids=["plan", "compare", "sweep", "report", "calibrate", "printed", "plan-collective", "plan-matrix", "own-cluster", "best-layout",
        *FORMS, "bench"])
def test_failed_allocation_is_reported_or_has_no_effect(busbar, files, args):
    if b"__asan_init" in (busbar.build / "busbar").read_bytes():
        pytest.skip("the sanitizers make allocations of their own")
    whole, _ = run(busbar, args, files)
    assert whole.returncode == 0 or args[0] == "report", whole.stderr  # report fails where plotly is missing
    step = 1 if os.environ.get("BUSBAR_EVERY_CALL") else next((n for arg, n in STEP.items() if arg in args), DEFAULT_STEP)
    limit = next((n for arg, n in MAX_ALLOCATIONS.items() if arg in args), None)
    step = 1 if limit else step
    number, failed, bad = 1, True, []
    while failed and number != limit:
        done, failed = run(busbar, args, files, number)
        unchanged = (done.returncode, done.stdout, done.stderr) == (whole.returncode, whole.stdout, whole.stderr)
        reported = done.returncode == 1 and done.stderr.startswith("busbar: ") and done.stderr.count("\n") == 1
        unfinished = [made.name for made in files.glob(".*")]  # temporary files; an output file is complete or does not exist
        if not unchanged and not reported or unfinished:
            bad.append((number, done.returncode, done.stderr[-300:], unfinished))
        number += step
    assert number > 3 * step
    assert bad == []
