"""Without memory: a run in which one allocation fails says so and ends with an error, or ends as if nothing had happened. Never does it
leave something out."""
import json
import os
import re
import subprocess

import pytest

from conftest import ROOT

EVERY = {"bench": 41, "report": 1, "--best-layout": 211}  # a run on GPUs takes a second; report has few before it hands over to Python
EVERY_OF_OTHERS = 7  # BUSBAR_EVERY_CALL=1: every one
FIRST = {"printed.txt": 30, "mine.json": 8}  # the first of these runs open and read a file; those after them are others' rows
FORMS = ["goal", "goal-bin", "chakra", "perfetto", "simai"]
EXPORT = ["plan", "gpt2_large", "4", "2", "2", "--ranks", "2", "--cluster", "h100-sxm-ib", "--export"]


def run(busbar, words, folder, number=0):
    """The run in which allocation `number` fails, and whether there was one. On GPUs only the program's own allocations count."""
    seen, told = os.pipe()
    shim = next((busbar.build / "tests").rglob("libfailing_malloc.so"))
    environment = {**os.environ, "LD_PRELOAD": str(shim), "FAIL_MALLOC": str(number), "FAIL_MALLOC_FD": str(told), "LC_ALL": "C"}
    program = "busbar"
    if words[0] == "bench":
        program = "busbar-emulated"
        environment |= {"FAIL_MALLOC_OURS": "1", "EMU_DEVICES": "1", "EMU_QUIET": "1"}
    if words[0] == "report":
        environment |= {"FAIL_MALLOC_PROGRAM": "busbar"}
    for old in folder.glob("out.*"):
        old.unlink()
    try:
        done = subprocess.run([str(busbar.build / program), *words], cwd=folder, env=environment, pass_fds=[told], timeout=60,
                              capture_output=True, text=True)
    finally:
        os.close(told)
        failed = os.read(seen, 1) == b"x"
        os.close(seen)
    if done.returncode == 0:
        done.stdout += "".join(f"{made.name} {made.read_bytes()}" for made in sorted(folder.glob("out.*")))
    done.stdout = re.sub(r'"started": "[^"]*"', "", re.sub(r"FAIL_MALLOC\w*", "", done.stdout))
    return done, failed


def result(factor):
    row = {"collective": "all_reduce", "start_barrier": True, "iterations": 20, "host_us": 3.0, "bytes": 8, "count": 2, "dtype": "float", "op": "sum", "root": None, "placement": "in_place", "mode": "stream"}
    time = {"min": 9.0, "p50": 10.0 * factor, "p90": 11.0, "p99": 11.0, "max": 12.0, "mean": 10.0, "ci95": [9.9, 10.1]}
    return {"schema": "busbar.bench/1", "ranks": 2, "nodes": 1, "devices": [{"name": "NVIDIA H100 80GB HBM3"}] * 2, "environment": {"NCCL_ALGO": "Ring"}, "results": [{**row, "time_us": time}], "status": "ok"}


@pytest.fixture
def files(tmp_path):
    for name, factor in ("a", 1), ("b", 2):
        (tmp_path / f"{name}.json").write_text(json.dumps(result(factor)))
    (tmp_path / "matrix.txt").write_text("0 8\n8 0\n")
    study = {"name": "s", "command": ["plan", "gpt2_large", "4", "2"], "ranks": 8, "options": {"ops": [True, False]}, "environment": {"NCCL_ALGO": ["Ring", "Tree"]}}
    (tmp_path / "study.json").write_text(json.dumps(study))
    (tmp_path / "printed.txt").write_text((ROOT / "tests/fuzz/corpus/nccl_tests_text/h100").read_text())
    (tmp_path / "mine.json").write_text((ROOT / "profiles/clusters/h100-sxm-ib.json").read_text())
    return tmp_path


@pytest.mark.parametrize("words", [
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
], ids=["plan", "compare", "sweep", "report", "calibrate", "printed", "plan-collective", "plan-matrix", "own-cluster", "best-layout", *FORMS, "bench"])
def test_a_failing_allocation_hides_nothing(busbar, files, words):
    if b"__asan_init" in (busbar.build / "busbar").read_bytes():
        pytest.skip("the sanitizers allocate by themselves")
    whole, _ = run(busbar, words, files)
    assert whole.returncode == 0 or words[0] == "report", whole.stderr  # which may lack plotly
    every = 1 if os.environ.get("BUSBAR_EVERY_CALL") else next((n for word, n in EVERY.items() if word in words), EVERY_OF_OTHERS)
    most = next((n for word, n in FIRST.items() if word in words), None)
    every = 1 if most else every
    number, failed, bad = 1, True, []
    while failed and number != most:
        done, failed = run(busbar, words, files, number)
        alike = (done.returncode, done.stdout, done.stderr) == (whole.returncode, whole.stdout, whole.stderr)
        told = done.returncode == 1 and done.stderr.startswith("busbar: ") and done.stderr.count("\n") == 1
        unfinished = [made.name for made in files.glob(".*")]  # a file is there whole, or not at all
        if not alike and not told or unfinished:
            bad.append((number, done.returncode, done.stderr[-300:], unfinished))
        number += every
    assert number > 3 * every
    assert bad == []
