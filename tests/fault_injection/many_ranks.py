"""many_ranks.py - jobs with many ranks in one process each, without a launcher.

For each number of ranks: measures the duration of a whole run, then kills the middle rank of a second run and checks that one error line
names it and that no process is left.

    sh tests/fault_injection/run.sh --many 64 256 1024
"""
import os
import subprocess
import sys
import tempfile
import time

from inject import BUILD, SHIM, busbar_lines, processes

START_S, END_S = 300, 20  # limits that hold on a busy machine


def run(ranks, folder, **env):
    """Returns the duration in seconds, the exit status, busbar's error lines, and whether the table is complete."""
    command = [BUILD + "/emulated/all_reduce_perf", "-g", str(ranks), "-b", "8", "-e", "8", "-n", "1", "-w", "0", "-T", str(START_S)]
    start_s = time.monotonic()
    done = subprocess.run(["timeout", "-k", "5", str(2 * START_S), *command], env=dict(os.environ, FAULT_MARK=folder, **env), text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    return time.monotonic() - start_s, done.returncode, busbar_lines(done.stderr), "test concluded" in done.stdout.lower()


def judge(ranks):
    """Returns a line that describes the result, and whether all checks passed."""
    with tempfile.TemporaryDirectory(prefix="fault-") as folder:
        run_s, status, lines, concluded = run(ranks, folder)
        passed = status == 0 and concluded and not lines
        fault_time = folder + "/fault_time"
        _, lost_status, lost_lines, _ = run(ranks, folder, LD_PRELOAD=os.path.abspath(SHIM),
                                            FAULT=f"kill:ncclAllReduce:1:{ranks // 2}", FAULT_LOG=fault_time)
        end_s = time.monotonic()
        with open(fault_time, encoding="utf-8") as file:
            end_s -= float(file.readline())
        passed = passed and lost_status == 4 and len(lost_lines) == 1 and f"rank {ranks // 2} " in lost_lines[0] and end_s < END_S
        time.sleep(2)
        passed = passed and not processes(folder)
        return (f"{ranks} ranks: {run_s:.1f} s from start to end; after rank {ranks // 2} was killed: {end_s:.1f} s to the end, "
                f"error lines: {len(lost_lines)}, first: {lost_lines[:1]}"), passed


def main(counts):
    results = [judge(int(count)) for count in counts]
    for text, passed in results:
        print(text if passed else "FAILED: " + text)
    failed = sum(not passed for _, passed in results)
    print(f"\n{len(results) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
