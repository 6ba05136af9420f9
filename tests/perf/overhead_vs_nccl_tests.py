#!/usr/bin/env python3
"""busbar beside nccl-tests, in turn, in one run; everything is a ratio busbar / nccl-tests. Nothing is asserted.

    tests/perf/overhead_vs_nccl_tests.py NCCL_TESTS_BUILD [--build build] [--ranks 4] [--rounds 5] [--real] [--only PART]

NCCL_TESTS_BUILD is the build folder of nccl-tests, made with MPI and the shared CUDA runtime. Without --real both run on the same
emulated GPUs, data movement off, so that what is left is the cost of the programs themselves.

 host   host time to enqueue one operation (-C 1), out of place, unchecked, lowest of the rounds' medians and their ratio
 whole  wall time of the whole set of eleven operations, 8 B to 32 MB: one busbar process group against eleven of nccl-tests
 sure   wall time of that set until the 95 % interval of each row's median is within +-CONFIDENCE % (--confidence). A sample is 20 operations
        back to back in both. busbar goes on by itself (bench --confidence); nccl-tests has one knob for all rows (-N cycles), so its run is
        repeated with 6, 12, 24 .. cycles until every row is narrow or --cap is reached. Counted is its last run alone, as if the right number
        had been known, and all of them, as for somebody who had to find out. Emulated GPUs run in real time here, since virtual time has no noise.
"""
import argparse
import json
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

OPERATIONS = "all_reduce all_gather reduce_scatter broadcast reduce alltoall alltoallv gather scatter sendrecv hypercube".split()
MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
       "OMPI_MCA_hwloc_base_binding_policy": "none", "EMU_QUIET": "1", "EMU_UNKNOWN_KERNELS": "pass", "EMU_DATA": "off"}


def run(options, program, arguments, emulated, env=None):
    """Wall seconds and stdout of one job."""
    front = [os.path.join(options.build, "emulator", "run")] if emulated else []
    command = ["timeout", "-k", "5", "300", "mpirun", "-n", str(options.ranks), *front, *program, *arguments]
    began = time.monotonic()
    done = subprocess.run(command, env={**os.environ, **MPI, **(env or {})}, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    took = time.monotonic() - began
    if done.returncode:
        sys.exit(f"{' '.join(command)}: exit {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    if "_perf" in program[0] and done.stdout.count("# Avg bus bandwidth") != 1:
        sys.exit(f"{program[0]}: every process is a job of its own: nccl-tests has to be built with MPI=1")
    return took, done.stdout


def times_us(table):
    """The out-of-place time column, by size."""
    rows = re.findall(r"^\s+(\d+)\s+\d+\s+\w+\s+\w+\s+-?\d+\s+([\d.]+)\s", table, re.M)
    return {int(size): float(us) for size, us in rows}


def host(options):
    common = ["-b", "8", "-e", "8M", "-f", "32", "-n", "200", "-w", "20", "-c", "0", "-C", "1", "-a", "1"]
    ours, theirs = {}, {}
    for _ in range(options.rounds):
        for size, us in times_us(run(options, [f"{options.build}/busbar", "bench", "all_reduce"],
                                     [*common, "--placement", "out_of_place", "--repeats", "6"], not options.real)[1]).items():
            ours.setdefault(size, []).append(us)
        for size, us in times_us(run(options, [f"{options.nccl_tests}/all_reduce_perf"], common, not options.real)[1]).items():
            theirs.setdefault(size, []).append(us)
    print(f"host time to enqueue one all_reduce, us, {options.ranks} ranks, {options.rounds} rounds in turn")
    print(f"{'size':>10} {'busbar':>9} {'nccl-tests':>11} {'ratio of medians':>17} {'lowest ratio':>13} {'highest':>8}")
    for size in sorted(ours):
        pairs = [a / b for a, b in zip(ours[size], theirs[size])]
        a, b = statistics.median(ours[size]), statistics.median(theirs[size])
        print(f"{size:>10} {a:>9.2f} {b:>11.2f} {a / b:>17.2f} {min(pairs):>13.2f} {max(pairs):>8.2f}")


def whole(options):
    sweep = ["-b", "8", "-e", "32M", "-f", "2"]
    ratios = []
    for _ in range(options.rounds):
        ours = run(options, [f"{options.build}/busbar", "bench", "all"], [*sweep, "--repeats", "1", "-w", "1", "-c", "0"], not options.real)[0]
        theirs = sum(run(options, [f"{options.nccl_tests}/{name}_perf"], [*sweep, "-c", "0"], not options.real)[0]
                     for name in OPERATIONS)
        ratios.append(ours / theirs)
        print(f"whole set, one sample of 20 per row, wall s: busbar {ours:.2f}, nccl-tests {theirs:.2f}, ratio {ours / theirs:.2f}")
    print(f"median ratio {statistics.median(ratios):.2f}")


def relative(low, high, median):
    """Rows too small for a slice each take no time at all."""
    return (high - low) / 2 / median if median else 0.0


def half_width(samples):
    """Of the median's 95 % interval from order statistics, over the median; inf below six samples."""
    below, rank = 0.0, 0
    while rank < len(samples):
        below += math.comb(len(samples), rank) / 2 ** len(samples)
        if below > 0.025:
            break
        rank += 1
    if rank == 0:
        return math.inf
    ordered = sorted(samples)
    return relative(ordered[rank - 1], ordered[-rank], statistics.median(ordered))


def their_rows(path):
    """Samples of each row and placement, one per cycle."""
    rows = {}
    with open(path, encoding="utf-8") as file:
        results = json.load(file)["results"]
    for row in results:
        for place in ("out_of_place", "in_place"):
            if row[place]:
                rows.setdefault((row["size"], place), []).append(row[place]["time"])
    return rows


def their_set(options, sweep, cycles, folder):
    """Wall seconds of the eleven programs with so many cycles, and the half widths of all rows."""
    took, widths = 0.0, []
    for name in OPERATIONS:
        path = os.path.join(folder, f"{name}-{cycles}-{time.monotonic_ns()}.json")
        took += run(options, [f"{options.nccl_tests}/{name}_perf"], [*sweep, "-w", "5", "-N", str(cycles), "-J", path], not options.real,
                    {"EMU_TIME": "real"})[0]
        widths += [half_width(samples) for samples in their_rows(path).values()]
    return took, widths


def narrow(widths, options):
    return sum(width <= options.confidence / 100 for width in widths)


def theirs_until_sure(options, sweep, folder):
    """Seconds of the last run, of all runs, and its widths."""
    everything, cycles = 0.0, 6
    while True:
        took, widths = their_set(options, sweep, cycles, folder)
        everything += took
        if narrow(widths, options) == len(widths) or 2 * cycles > options.cap:
            return took, everything, widths
        cycles *= 2


def ours_until_sure(options, sweep, folder):
    path = os.path.join(folder, "busbar.json")
    took, _ = run(options, [f"{options.build}/busbar", "bench", "all"],
                  [*sweep, "-w", "5", "--confidence", f"{options.confidence}%", "--max-iters", str(20 * options.cap), "--max-seconds", "1000",
                   "--json", path], not options.real, {"EMU_TIME": "real"})
    with open(path, encoding="utf-8") as file:
        times = [row["time_us"] for row in json.load(file)["results"]]
    return took, [relative(*t["ci95"], t["p50"]) if t["ci95"] else math.inf for t in times]


def sure(options):
    sweep = ["-b", "8", "-e", "32M", "-f", str(options.factor), "-n", "20", "-c", "0", "-a", "3"]
    print(f"until the median is known within {options.confidence:g} %, at most {options.cap} samples of 20 a row; wall s and narrow rows")
    alone, found = [], []
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory() as folder:
            ours, widths = ours_until_sure(options, sweep, folder)
            last, everything, other = theirs_until_sure(options, sweep, folder)
        alone.append(ours / last)
        found.append(ours / everything)
        print(f"busbar {ours:.2f} ({narrow(widths, options)} of {len(widths)}), nccl-tests last run {last:.2f}, all runs {everything:.2f} "
              f"({narrow(other, options)} of {len(other)}): ratio {ours / last:.2f}, {ours / everything:.2f}")
    print(f"median ratio to the last run {statistics.median(alone):.2f}, to all runs {statistics.median(found):.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nccl_tests")
    parser.add_argument("--build", default="build")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=["host", "whole", "sure"], help="this part alone")
    parser.add_argument("--confidence", type=float, default=5, help="of sure, percent")
    parser.add_argument("--cap", type=int, default=96, help="of sure, most samples of a row")
    parser.add_argument("--factor", type=int, default=8, help="of sure, between sizes")
    parser.add_argument("--real", action="store_true", help="real GPUs instead of emulated ones")
    options = parser.parse_args()
    options.build = os.path.abspath(options.build)
    for part in (host, whole, sure):
        if options.only in (None, part.__name__):
            part(options)


if __name__ == "__main__":
    main()
