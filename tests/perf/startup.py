#!/usr/bin/env python3
"""Startup cost: wall time and memory of `busbar --version`, `list` and plans, compared with `true`.

    tests/perf/startup.py [--build build] [--rounds 30]

Prints median wall time and peak memory, and their ratios to those of `true`, which does nothing. Wall times are not asserted; the target
is 10 ms for --version. tests/cli/test_rank_program.py checks that --version needs at most 16 MiB and the plan at most 40 MiB.
"""
import argparse
import os
import statistics
import subprocess

COMMANDS = ["--version", "list", "plan gpt2_large 12 4 3 --ranks 8", "plan gpt3 --ranks 98304"]


def measure(build, *command):
    """Wall seconds and peak resident KiB of one command."""
    peak = os.path.join(build, "tests", "perf", "peak")
    done = subprocess.run([peak, *command], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr}")
    seconds, kib = done.stdout.split()
    return float(seconds), int(kib)


def show(name, runs, others):
    wall, kib = statistics.median(run[0] for run in runs), max(run[1] for run in runs)
    ratio = statistics.median(run[0] / other[0] for run, other in zip(runs, others))
    print(f"{name:<42} {wall * 1e3:>8.2f} {kib / 1024:>6.1f} {ratio:>12.1f} {kib / max(other[1] for other in others):>12.1f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build")
    parser.add_argument("--rounds", type=int, default=30)
    options = parser.parse_args()
    busbar = os.path.join(options.build, "busbar")
    print(f"{'':<42} {'wall ms':>8} {'MiB':>6} {'time / true':>12} {'memory / true':>12}")
    for arguments in COMMANDS:
        pairs = [(measure(options.build, busbar, *arguments.split()), measure(options.build, "true")) for _ in range(options.rounds)]
        show(f"busbar {arguments}", *zip(*pairs))
    alone = [measure(options.build, "true") for _ in range(options.rounds)]
    show("true", alone, alone)


if __name__ == "__main__":
    main()
