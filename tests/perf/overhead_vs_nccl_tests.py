#!/usr/bin/env python3
"""Overhead of busbar compared with nccl-tests. The programs run alternately; results are ratios busbar / nccl-tests. Nothing is asserted.

    tests/perf/overhead_vs_nccl_tests.py NCCL_TESTS_BUILD [--build build] [--ranks 4] [--rounds 5] [--real] [--only PART]

NCCL_TESTS_BUILD is the build folder of nccl-tests, built with MPI=1 and the shared CUDA runtime. Without --real both programs run on the
same emulated GPUs without data movement, so that mostly the cost of the programs remains.

 host      host time to enqueue one operation (-C 1), out of place, unverified: median over the rounds and ratio
 full_set  wall time of all eleven operations, 8 B to 32 MB: one busbar job compared with eleven jobs of nccl-tests
 precise   wall time of this set until the 95 % confidence interval of each row's median is within +-CONFIDENCE % (--confidence). A sample
           is 20 operations back to back in both programs. busbar samples each row as long as needed (bench --confidence). nccl-tests has
           one number of cycles for all rows (-N), so its run is repeated with 6, 12, 24, ... cycles until every row is precise or --cap is
           reached. Two ratios: to its last run (as if the number of cycles had been known) and to the sum of all runs. Emulated GPUs run in
           real time for this part, because virtual time has no noise.
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
        sys.exit(f"{program[0]}: each process ran as a separate job: build nccl-tests with MPI=1")
    return took, done.stdout


def times_us(table):
    """{size: time of the out-of-place column in us}"""
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
    print(f"host time to enqueue one all_reduce, us, {options.ranks} ranks, {options.rounds} rounds")
    print(f"{'size':>10} {'busbar':>9} {'nccl-tests':>11} {'ratio of medians':>17} {'min ratio':>13} {'max':>8}")
    for size in sorted(ours):
        pairs = [a / b for a, b in zip(ours[size], theirs[size])]
        a, b = statistics.median(ours[size]), statistics.median(theirs[size])
        print(f"{size:>10} {a:>9.2f} {b:>11.2f} {a / b:>17.2f} {min(pairs):>13.2f} {max(pairs):>8.2f}")


def full_set(options):
    sweep = ["-b", "8", "-e", "32M", "-f", "2"]
    ratios = []
    for _ in range(options.rounds):
        ours = run(options, [f"{options.build}/busbar", "bench", "all"], [*sweep, "--repeats", "1", "-w", "1", "-c", "0"], not options.real)[0]
        theirs = sum(run(options, [f"{options.nccl_tests}/{name}_perf"], [*sweep, "-c", "0"], not options.real)[0]
                     for name in OPERATIONS)
        ratios.append(ours / theirs)
        print(f"full set, one sample of 20 per row, wall s: busbar {ours:.2f}, nccl-tests {theirs:.2f}, ratio {ours / theirs:.2f}")
    print(f"median ratio {statistics.median(ratios):.2f}")


def relative(low, high, median):
    """Relative half width of an interval; 0 for rows with time 0 (sizes too small for one element per rank)."""
    return (high - low) / 2 / median if median else 0.0


def half_width(samples):
    """Half width of the median's 95 % confidence interval (order statistics) relative to the median; inf below six samples."""
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


def nccl_tests_samples(path):
    """{(size, placement): [time of each cycle]} from the JSON of nccl-tests."""
    rows = {}
    with open(path, encoding="utf-8") as file:
        results = json.load(file)["results"]
    for row in results:
        for placement in ("out_of_place", "in_place"):
            if row[placement]:
                rows.setdefault((row["size"], placement), []).append(row[placement]["time"])
    return rows


def run_nccl_tests(options, sweep, cycles, folder):
    """Wall seconds of the eleven programs with this number of cycles, and the relative half widths of all rows."""
    took, widths = 0.0, []
    for name in OPERATIONS:
        path = os.path.join(folder, f"{name}-{cycles}-{time.monotonic_ns()}.json")
        took += run(options, [f"{options.nccl_tests}/{name}_perf"], [*sweep, "-w", "5", "-N", str(cycles), "-J", path], not options.real,
                    {"EMU_TIME": "real"})[0]
        widths += [half_width(samples) for samples in nccl_tests_samples(path).values()]
    return took, widths


def n_precise(widths, options):
    return sum(width <= options.confidence / 100 for width in widths)


def nccl_tests_until_precise(options, sweep, folder):
    """Wall seconds of the last run, of all runs, and the half widths of the last run."""
    total, cycles = 0.0, 6
    while True:
        took, widths = run_nccl_tests(options, sweep, cycles, folder)
        total += took
        if n_precise(widths, options) == len(widths) or 2 * cycles > options.cap:
            return took, total, widths
        cycles *= 2


def busbar_until_precise(options, sweep, folder):
    path = os.path.join(folder, "busbar.json")
    took, _ = run(options, [f"{options.build}/busbar", "bench", "all"],
                  [*sweep, "-w", "5", "--confidence", f"{options.confidence}%", "--max-iters", str(20 * options.cap), "--max-seconds", "1000",
                   "--json", path], not options.real, {"EMU_TIME": "real"})
    with open(path, encoding="utf-8") as file:
        times = [row["time_us"] for row in json.load(file)["results"]]
    return took, [relative(*t["ci95"], t["p50"]) if t["ci95"] else math.inf for t in times]


def precise(options):
    sweep = ["-b", "8", "-e", "32M", "-f", str(options.factor), "-n", "20", "-c", "0", "-a", "3"]
    print(f"until each median is known within {options.confidence:g} %, at most {options.cap} samples of 20 per row; wall s (precise rows)")
    to_last, to_all = [], []
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory() as folder:
            ours, widths = busbar_until_precise(options, sweep, folder)
            last, total, other = nccl_tests_until_precise(options, sweep, folder)
        to_last.append(ours / last)
        to_all.append(ours / total)
        print(f"busbar {ours:.2f} ({n_precise(widths, options)} of {len(widths)}), nccl-tests last run {last:.2f}, all runs {total:.2f} "
              f"({n_precise(other, options)} of {len(other)}): ratio {ours / last:.2f}, {ours / total:.2f}")
    print(f"median ratio to the last run {statistics.median(to_last):.2f}, to all runs {statistics.median(to_all):.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nccl_tests")
    parser.add_argument("--build", default="build")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=["host", "full_set", "precise"], help="run only this part")
    parser.add_argument("--confidence", type=float, default=5, help="precise: half width of the interval in percent")
    parser.add_argument("--cap", type=int, default=96, help="precise: maximum samples per row")
    parser.add_argument("--factor", type=int, default=8, help="precise: factor between sizes")
    parser.add_argument("--real", action="store_true", help="real GPUs instead of emulated ones")
    options = parser.parse_args()
    options.build = os.path.abspath(options.build)
    for part in (host, full_set, precise):
        if options.only in (None, part.__name__):
            part(options)


if __name__ == "__main__":
    main()
