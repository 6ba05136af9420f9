"""many_ranks.py - jobs of many ranks in one process each, without a launcher: how long one lasts from start to end, and what is said when a
rank in the middle is killed: one line, and nothing is left.

    sh tests/fault_injection/run.sh --many 64 256 1024
"""
import os
import subprocess
import sys
import tempfile
import time

from drill import BUILD, SHIM, busbar_lines, processes

START_S, END_S = 300, 20  # most that the busiest machine may take


def run(ranks, folder, **env):
    """Its seconds, its exit status, busbar's lines, whether the table is whole."""
    command = [BUILD + "/emulated/all_reduce_perf", "-g", str(ranks), "-b", "8", "-e", "8", "-n", "1", "-w", "0", "-T", str(START_S)]
    start_s = time.monotonic()
    done = subprocess.run(["timeout", "-k", "5", str(2 * START_S), *command], env=dict(os.environ, FAULT_MARK=folder, **env), text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    return time.monotonic() - start_s, done.returncode, busbar_lines(done.stderr), "test concluded" in done.stdout.lower()


def judge(ranks):
    """A line that says how it went, and whether it held."""
    with tempfile.TemporaryDirectory(prefix="drill-") as folder:
        whole_s, status, said, concluded = run(ranks, folder)
        held = status == 0 and concluded and not said
        deed = folder + "/deed"
        _, lost_status, lost, _ = run(ranks, folder, LD_PRELOAD=os.path.abspath(SHIM), FAULT=f"kill:ncclAllReduce:1:{ranks // 2}", FAULT_LOG=deed)
        end_s = time.monotonic()
        with open(deed, encoding="utf-8") as file:
            end_s -= float(file.readline())
        held = held and lost_status == 4 and len(lost) == 1 and f"rank {ranks // 2} " in lost[0] and end_s < END_S
        time.sleep(2)
        held = held and not processes(folder)
        return f"{ranks} ranks: {whole_s:.1f} s from start to end; one killed: {end_s:.1f} s to the end, {len(lost)} line: {lost[:1]}", held


def main(words):
    results = [judge(int(word)) for word in words]
    for text, held in results:
        print(text if held else "FAILED: " + text)
    failed = sum(not held for _, held in results)
    print(f"\n{len(results) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
