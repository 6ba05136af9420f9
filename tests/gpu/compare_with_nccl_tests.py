#!/usr/bin/env python3
"""Compares busbar with nccl-tests on one GPU: verdicts about the data and, with one rank, bandwidths and latencies within noise.

    tests/gpu/compare_with_nccl_tests.py NCCL_TESTS_BUILD [--build build] [--ranks 2,4] [--rounds 5] [--emulated]

Both programs have the same name (all_reduce_perf, ...) and options. NCCL_TESTS_BUILD is the build folder of nccl-tests, built with MPI=1.

 one     One rank, out of place: NCCL copies memory. The two programs run alternately. For large messages the bandwidths agree if their ranges
         over the rounds overlap, or if their medians differ by less than --tolerance. In place NCCL does nothing, so it is not compared.
         Latencies from 8 B to 64 KiB test the clocks: with GPU events only, busbar's latency would omit launch and wait. Each size must agree
         like the bandwidths, within --band, and the geometric mean of all ratios of an operation must be within --band.
 shared  Several ranks on the first GPU: sizes, counts and verdicts (#wrong, out of bounds) must be equal. Times are not meaningful there.

Exit status: 0 no difference; 1 a difference; 77 no build of nccl-tests, or a build without MPI, which runs each process as a separate job.
--emulated tests this script on emulated GPUs. There nccl-tests measures the host clock, so times are printed but not compared.
"""
import argparse
import os
import re
import statistics
import subprocess
import sys

OPERATIONS = "all_reduce all_gather reduce_scatter broadcast reduce alltoall gather scatter sendrecv".split()
ROW = re.compile(r"^\s+(\d+)\s+(\d+)\s+(\w+)\s+(\w+)?\s+(-?\d+)\s+([\d.e+]+)\s+([\d.e+]+)\s+([\d.e+]+)\s+(\d+|N/A)\s+[\d.e+]+\s+[\d.e+]+\s+[\d.e+]+\s+(\d+|N/A)",
                 re.M)
BOUNDS = re.compile(r"^# Out of bounds values\s*:\s*(\d+)\s+(OK|FAILED)", re.M)

# Environment that lets several processes use one GPU before NCCL 2.30.3; busbar sets the same with --share-gpu.
SHARED = {"NCCL_NET": "Socket", "NCCL_NET_PLUGIN": "none", "NCCL_IB_DISABLE": "1", "NCCL_SOCKET_IFNAME": "lo", "NCCL_P2P_DISABLE": "1",
          "NCCL_SHM_DISABLE": "1", "NCCL_NVLS_ENABLE": "0", "NCCL_CUMEM_ENABLE": "0", "NCCL_CUMEM_HOST_ENABLE": "0", "NCCL_RAS_ENABLE": "0",
          "NCCL_MAX_NCHANNELS": "2", "NCCL_TESTS_DEVICE": "0"}


class Program:
    """One of the two programs: folder of the *_perf executables, command in front of them, and additional options."""

    def __init__(self, name, folder, front, extra):
        self.name, self.folder, self.front, self.extra = name, folder, front, extra

    def run(self, options, operation, ranks, args, env):
        """Returns the table and the exit status. A run beyond --limit seconds fails."""
        # NCCL rejects two ranks on one GPU of one host; a separate NCCL_HOSTID per rank makes them appear as two hosts.
        shell = 'NCCL_HOSTID=r$OMPI_COMM_WORLD_RANK exec "$@"' if env else 'exec "$@"'
        command = ["timeout", "-k", "5", str(options.limit), "mpirun", "-n", str(ranks), "sh", "-c", shell, "sh", *self.front,
                   os.path.join(self.folder, f"{operation}_perf"), *args, *self.extra]
        if options.emulated:
            env = {**env, "EMU_QUIET": "1", "EMU_UNKNOWN_KERNELS": "pass", "EMU_TIME": "real", "EMU_DEVICES": "1"}
        done = subprocess.run(command, env={**os.environ, **env}, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
        if done.stdout.count("# Avg bus bandwidth") > 1:
            print(f"compare with nccl-tests: SKIPPED: {self.name} is built without MPI")
            sys.exit(77)
        if not ROW.search(done.stdout):
            print(f"{self.name}: {' '.join(command)}: exit {done.returncode}\n{done.stdout[-800:]}{done.stderr[-800:]}")
        return done.stdout, done.returncode


def verdicts(text, status):
    """The values that must be equal: sizes and counts with #wrong (N/A, which means not verified, counts as 0), the final verdict,
    and whether the exit status is 0."""
    rows = [(m[1], m[2], m[3], 0 if m[9] == "N/A" else int(m[9])) for m in ROW.finditer(text)]
    last = BOUNDS.search(text)
    return rows, last[2] if last else "no verdict", status == 0


def rates(text):
    """{size: algorithm bandwidth out of place in GB/s}"""
    return {int(m[1]): float(m[7]) for m in ROW.finditer(text)}


def times(text):
    """{size: time out of place in microseconds}"""
    return {int(m[1]): float(m[6]) for m in ROW.finditer(text)}


def agree(ours, theirs, tolerance):
    """Whether the ranges over the rounds overlap, or the medians differ by at most the tolerance."""
    a, b = statistics.median(ours), statistics.median(theirs)
    near = b > 0 and abs(a / b - 1) <= tolerance
    return near or (min(ours) <= max(theirs) and min(theirs) <= max(ours))


def compare_verdicts(options, sides, operation, ranks, args, env):
    """Whether both programs print the same rows and verdict, and both succeed or both fail."""
    ours, theirs = (verdicts(*side.run(options, operation, ranks, args, env)) for side in sides)
    same = ours == theirs and bool(ours[0])
    result = "same verdict" if same else f"DIFFERENT: busbar {ours}, nccl-tests {theirs}"
    print(f"{operation:>15} {ranks} ranks: {len(ours[0])} rows, {ours[1]}: {result}", flush=True)
    return same


def collect(options, sides, operation, args, metric):
    """[{size: [metric of each round]}] of both programs, which run alternately."""
    seen = [{}, {}]
    for _ in range(options.rounds):
        for side, by_size in zip(sides, seen):
            for size, value in metric(side.run(options, operation, 1, args, {})[0]).items():
                by_size.setdefault(size, []).append(value)
    return seen


def compare_metric(options, sides, operation, args, metric, unit, tolerance):
    """Whether all sizes agree and, for times, the geometric mean of their ratios is within the tolerance."""
    seen, good, ratios = collect(options, sides, operation, args, metric), True, []
    for size in sorted(seen[0].keys() | seen[1].keys()):
        ours, theirs = (by_size.get(size, [0.0]) for by_size in seen)
        same = agree(ours, theirs, tolerance)
        result = "not compared" if options.emulated else "within noise" if same else "DIFFERENT"
        print(f"{operation:>15} 1 rank, {size} B: busbar {statistics.median(ours):.2f} ({min(ours):.2f} - {max(ours):.2f}), nccl-tests "
              f"{statistics.median(theirs):.2f} ({min(theirs):.2f} - {max(theirs):.2f}) {unit}: {result}", flush=True)
        ratios.append(statistics.median(ours) / max(statistics.median(theirs), 1e-9))
        good = good and same
    mean = statistics.geometric_mean([max(ratio, 1e-9) for ratio in ratios]) if ratios else 0
    if metric is times:
        same = abs(mean - 1) <= tolerance
        result = "not compared" if options.emulated else "within the band" if same else "DIFFERENT"
        print(f"{operation:>15} 1 rank, latencies: busbar / nccl-tests {mean:.3f} in the geometric mean of {len(ratios)} sizes, band "
              f"{1 - tolerance:.2f} to {1 + tolerance:.2f}: {result}", flush=True)
        good = good and same
    return good or options.emulated


def one(options, sides):
    """One rank: verdicts of each operation, then bandwidths and latencies of the operations that copy memory."""
    args = ["-b", "8", "-e", "4M", "-f", "64", "-n", "5", "-w", "2"]
    good = all([compare_verdicts(options, sides, operation, 1, args, {}) for operation in options.operations])
    large = ["-b", options.large, "-e", options.large, "-n", "20", "-w", "5", "-c", "0"]
    small = ["-b", "8", "-e", "64K", "-f", "8", "-n", "100", "-w", "20", "-c", "0"]
    for operation in [name for name in ("all_reduce", "all_gather", "broadcast") if name in options.operations]:
        good &= compare_metric(options, sides, operation, large, rates, "GB/s", options.tolerance)
        good &= compare_metric(options, sides, operation, small, times, "us", options.band)
    return good


def shared(options, sides):
    """Ranks that share the GPU: verdicts only."""
    args = ["-b", "16", "-e", "256K", "-f", "16", "-n", "3", "-w", "1"]
    return all([compare_verdicts(options, sides, operation, ranks, args, SHARED)
                for ranks in options.ranks for operation in options.operations])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nccl_tests")
    parser.add_argument("--build", default="build")
    parser.add_argument("--ranks", default="2,4", type=lambda text: [int(number) for number in text.split(",") if number])
    parser.add_argument("--operations", default=OPERATIONS, type=lambda text: text.split(","))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--large", default="256M", help="message size of the bandwidth comparison with one rank")
    parser.add_argument("--tolerance", type=float, default=0.05, help="relative difference allowed between medians of bandwidths")
    parser.add_argument("--band", type=float, default=0.15, help="relative difference allowed between medians of latencies, and for the mean of their ratios")
    parser.add_argument("--limit", type=int, default=120, help="time limit of one run in seconds")
    parser.add_argument("--emulated", action="store_true")
    options = parser.parse_args()
    if not os.path.exists(os.path.join(options.nccl_tests, "all_reduce_perf")):
        print(f"compare with nccl-tests: SKIPPED: {options.nccl_tests} contains no all_reduce_perf")
        return 77
    front = [os.path.abspath(os.path.join(options.build, "emulator", "run"))] if options.emulated else []
    sides = (Program("busbar", os.path.abspath(options.build), front, ["--share-gpu"]),
             Program("nccl-tests", os.path.abspath(options.nccl_tests), front, []))
    good = all([one(options, sides), shared(options, sides)])
    print("compare with nccl-tests: no difference" if good else "compare with nccl-tests: DIFFERENT")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
