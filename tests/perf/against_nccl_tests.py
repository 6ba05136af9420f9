#!/usr/bin/env python3
"""busbar beside nccl-tests, in turn, in one run; everything is a ratio busbar / nccl-tests. Nothing is asserted.

    tests/perf/against_nccl_tests.py NCCL_TESTS_BUILD [--build build] [--ranks 4] [--rounds 5] [--real]

NCCL_TESTS_BUILD is the build folder of nccl-tests, made with MPI and the shared CUDA runtime. Without --real both run on the same
emulated GPUs, data movement off, so that what is left is the cost of the programs themselves.

 host   host time to enqueue one operation (-C 1), out of place, unchecked, lowest of the rounds' medians and their ratio
 whole  wall time of the whole set of eleven operations, 8 B to 32 MB: one busbar process group against eleven of nccl-tests
"""
import argparse
import os
import re
import statistics
import subprocess
import sys
import time

OPERATIONS = "all_reduce all_gather reduce_scatter broadcast reduce alltoall alltoallv gather scatter sendrecv hypercube".split()
MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
       "OMPI_MCA_hwloc_base_binding_policy": "none", "EMU_QUIET": "1", "EMU_UNKNOWN_KERNELS": "pass", "EMU_DATA": "off"}


def run(options, program, arguments, emulated):
    """Wall seconds and stdout of one job."""
    front = [os.path.join(options.build, "emulator", "run")] if emulated else []
    command = ["timeout", "-k", "5", "300", "mpirun", "-n", str(options.ranks), *front, *program, *arguments]
    began = time.monotonic()
    done = subprocess.run(command, env={**os.environ, **MPI}, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    took = time.monotonic() - began
    if done.returncode:
        sys.exit(f"{' '.join(command)}: exit {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nccl_tests")
    parser.add_argument("--build", default="build")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--real", action="store_true", help="real GPUs instead of emulated ones")
    options = parser.parse_args()
    options.build = os.path.abspath(options.build)
    host(options)
    whole(options)


if __name__ == "__main__":
    main()
