"""tests/gpu/compare_with_nccl_tests.py with fake programs that only print tables: what it reports as different and what it does not."""
import pathlib
import subprocess
import sys

import pytest

SCRIPT = pathlib.Path(__file__).resolve().parents[1] / "gpu" / "compare_with_nccl_tests.py"

# Rank 0 prints a table with the given rate for the large size, latency for the small size, and number of wrong elements.
FAKE = """#!/bin/sh
[ "$OMPI_COMM_WORLD_RANK" = 0 ] || exit 0
time=1.0
case "$*" in *256M*) size=268435456 wrong=N/A ;; *64K*) size=64 wrong=N/A time={latency} ;; *) size=4096 wrong={wrong} ;; esac
echo "#  Rank  0"
printf '%12s %12s float sum -1 %s {rate} 0.0 %s 1.0 1.0 0.0 N/A\\n' $size 1024 $time $wrong
echo "# Out of bounds values : 0 {verdict}"
echo "# Avg bus bandwidth    : 0"
exit {status}
"""


def fakes(folder, **values):
    """Writes a fake all_reduce_perf into a new folder and returns the folder."""
    folder.mkdir()
    values = {"rate": "100.0", "latency": "5.0", "wrong": 0, "verdict": "OK", "status": 0, **values}
    path = folder / "all_reduce_perf"
    path.write_text(FAKE.format(**values))
    path.chmod(0o755)
    return folder


def compare(busbar, ours, nccl_tests):
    return subprocess.run([sys.executable, SCRIPT, nccl_tests, "--build", ours, "--ranks", "2", "--rounds", "1", "--operations",
                           "all_reduce"],
                          env=busbar.environment(), capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120, check=False)


@pytest.mark.parametrize("nccl_tests,status,message", [
    ({}, 0, "no difference"),
    ({"rate": "97.0"}, 0, "no difference"),
    ({"rate": "80.0"}, 1, "1 rank, 268435456 B: busbar 100.00 (100.00 - 100.00), nccl-tests 80.00"),
    ({"latency": "5.6"}, 0,
     "all_reduce 1 rank, latencies: busbar / nccl-tests 0.893 in the geometric mean of 1 sizes, band 0.85 to 1.15: within the band"),
    ({"latency": "6.5"}, 1, "1 rank, 64 B: busbar 5.00 (5.00 - 5.00), nccl-tests 6.50 (6.50 - 6.50) us: DIFFERENT"),
    ({"wrong": 3, "verdict": "FAILED", "status": 1}, 1, "DIFFERENT"),
    ({"wrong": "N/A"}, 0, "no difference"),
])
def test_verdict_depends_on_rates_latencies_and_errors(busbar, tmp_path, nccl_tests, status, message):
    done = compare(busbar, fakes(tmp_path / "ours"), fakes(tmp_path / "theirs", **nccl_tests))
    assert done.returncode == status and message in done.stdout, done.stdout + done.stderr


def test_wrong_data_in_both_programs_is_no_difference(busbar, tmp_path):
    wrong = {"wrong": 3, "verdict": "FAILED", "status": 3}
    assert compare(busbar, fakes(tmp_path / "ours", **wrong), fakes(tmp_path / "theirs", **{**wrong, "status": 7})).returncode == 0


def test_missing_program_is_skipped(busbar, tmp_path):
    assert compare(busbar, fakes(tmp_path / "ours"), tmp_path).returncode == 77
