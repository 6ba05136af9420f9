"""tests/gpu/compare_with_nccl_tests.py with programs that only print: what it calls alike, and what it does not."""
import pathlib
import subprocess
import sys

import pytest

SCRIPT = pathlib.Path(__file__).resolve().parents[1] / "gpu" / "compare_with_nccl_tests.py"

# Rank 0 prints a table; rate and latency of its large and small size, and the wrong elements, are the fake's.
FAKE = """#!/bin/sh
[ "$OMPI_COMM_WORLD_RANK" = 0 ] || exit 0
time=1.0
case "$*" in *256M*) size=268435456 wrong=N/A ;; *64K*) size=64 wrong=N/A time={latency} ;; *) size=4096 wrong={wrong} ;; esac
echo "#  Rank  0"
printf '%12s %12s float sum -1 %s {rate} 0.0 %s 1.0 1.0 0.0 N/A\\n' $size 1024 $time $wrong
echo "# Out of bounds values : 0 {word}"
echo "# Avg bus bandwidth    : 0"
exit {status}
"""


def fakes(folder, **values):
    folder.mkdir()
    values = {"rate": "100.0", "latency": "5.0", "wrong": 0, "word": "OK", "status": 0, **values}
    path = folder / "all_reduce_perf"
    path.write_text(FAKE.format(**values))
    path.chmod(0o755)
    return folder


def beside(busbar, ours, theirs):
    return subprocess.run([sys.executable, SCRIPT, theirs, "--build", ours, "--ranks", "2", "--rounds", "1", "--operations", "all_reduce"],
                          env=busbar.environment(), capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120, check=False)


@pytest.mark.parametrize("theirs,status,says", [
    ({}, 0, "no difference"),
    ({"rate": "97.0"}, 0, "no difference"),
    ({"rate": "80.0"}, 1, "1 rank, 268435456 B: busbar 100.00 (100.00 - 100.00), nccl-tests 80.00"),
    ({"latency": "5.6"}, 0, "all_reduce 1 rank, latencies: busbar / nccl-tests 0.893 in the geometric mean of 1 sizes, band 0.85 to 1.15: within the band"),
    ({"latency": "6.5"}, 1, "1 rank, 64 B: busbar 5.00 (5.00 - 5.00), nccl-tests 6.50 (6.50 - 6.50) us: DIFFERENT"),
    ({"wrong": 3, "word": "FAILED", "status": 1}, 1, "DIFFERENT"),
    ({"wrong": "N/A"}, 0, "no difference"),
])
def test_verdicts_and_rates(busbar, tmp_path, theirs, status, says):
    done = beside(busbar, fakes(tmp_path / "ours"), fakes(tmp_path / "theirs", **theirs))
    assert done.returncode == status and says in done.stdout, done.stdout + done.stderr


def test_both_wrong_is_alike(busbar, tmp_path):
    wrong = {"wrong": 3, "word": "FAILED", "status": 3}
    assert beside(busbar, fakes(tmp_path / "ours", **wrong), fakes(tmp_path / "theirs", **{**wrong, "status": 7})).returncode == 0


def test_without_a_build_it_is_skipped(busbar, tmp_path):
    assert beside(busbar, fakes(tmp_path / "ours"), tmp_path).returncode == 77
