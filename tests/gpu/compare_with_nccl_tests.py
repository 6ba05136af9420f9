#!/usr/bin/env python3
"""busbar and nccl-tests in turn on one GPU: the same verdicts about the data, and, with one rank, the same rates and latencies within noise.

    tests/gpu/compare_with_nccl_tests.py NCCL_TESTS_BUILD [--build build] [--ranks 2,4] [--rounds 5] [--emulated]

Both are called by the same names (all_reduce_perf ..) with the same options. NCCL_TESTS_BUILD is the build folder of nccl-tests, made with MPI.

 one     one rank, large messages, out of place: NCCL copies memory, which both must see at the same rate. Rounds alternate; the rates agree
         when their ranges over the rounds touch, or their medians differ by less than --tolerance. In place nothing happens: not compared.
         Latencies, 8 B to 64 KiB, are the clocks' proof: by events alone busbar's would lack launch and wait. Each size's agree as rates do,
         within --band, and the geometric mean of all ratios of an operation lies within --band even where single ones are noisy.
 shared  several ranks on the first GPU: sizes, counts and verdicts (#wrong, out of bounds) must be the same. Times mean nothing there.

Exit status: 0 all alike, 1 something differs, 77 no build of nccl-tests (or one without MPI, where every process is a job of its own). --emulated tries the script itself on emulated GPUs, where
nccl-tests' times are those of the machine's clock: rates are then shown and not judged.
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

# What lets several processes use one GPU before NCCL 2.30.3; busbar sets the same for itself (--share-gpu).
SHARED = {"NCCL_NET": "Socket", "NCCL_NET_PLUGIN": "none", "NCCL_IB_DISABLE": "1", "NCCL_SOCKET_IFNAME": "lo", "NCCL_P2P_DISABLE": "1",
          "NCCL_SHM_DISABLE": "1", "NCCL_NVLS_ENABLE": "0", "NCCL_CUMEM_ENABLE": "0", "NCCL_CUMEM_HOST_ENABLE": "0", "NCCL_RAS_ENABLE": "0",
          "NCCL_MAX_NCHANNELS": "2", "NCCL_TESTS_DEVICE": "0"}


class Program:
    """One side: the folder of its *_perf programs, and what stands before and behind them."""

    def __init__(self, name, folder, front, extra):
        self.name, self.folder, self.front, self.extra = name, folder, front, extra

    def run(self, options, operation, ranks, words, env):
        """The table and the exit status; a run that takes too long counts as failed."""
        # NCCL_HOSTID tells ranks on one GPU apart, so each has to have its own.
        shell = 'NCCL_HOSTID=r$OMPI_COMM_WORLD_RANK exec "$@"' if env else 'exec "$@"'
        command = ["timeout", "-k", "5", str(options.limit), "mpirun", "-n", str(ranks), "sh", "-c", shell, "sh", *self.front,
                   os.path.join(self.folder, f"{operation}_perf"), *words, *self.extra]
        if options.emulated:
            env = {**env, "EMU_QUIET": "1", "EMU_UNKNOWN_KERNELS": "pass", "EMU_TIME": "real", "EMU_DEVICES": "1"}
        done = subprocess.run(command, env={**os.environ, **env}, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
        if done.stdout.count("# Avg bus bandwidth") > 1:
            print(f"beside nccl-tests: SKIPPED: {self.name} is built without MPI")
            sys.exit(77)
        if not ROW.search(done.stdout):
            print(f"{self.name}: {' '.join(command)}: exit {done.returncode}\n{done.stdout[-800:]}{done.stderr[-800:]}")
        return done.stdout, done.returncode


def verdicts(text, status):
    """What must be alike: sizes and counts with their #wrong (an operation that is not verified says N/A in one of them), the last word."""
    rows = [(m[1], m[2], m[3], 0 if m[9] == "N/A" else int(m[9])) for m in ROW.finditer(text)]
    last = BOUNDS.search(text)
    return rows, last[2] if last else "nothing", status == 0


def rates(text):
    """GB/s out of place by size."""
    return {int(m[1]): float(m[7]) for m in ROW.finditer(text)}


def times(text):
    """Microseconds out of place by size."""
    return {int(m[1]): float(m[6]) for m in ROW.finditer(text)}


def alike(ours, theirs, tolerance):
    """Ranges over the rounds touch, or medians are near."""
    a, b = statistics.median(ours), statistics.median(theirs)
    near = b > 0 and abs(a / b - 1) <= tolerance
    return near or (min(ours) <= max(theirs) and min(theirs) <= max(ours))


def compare_verdicts(options, sides, operation, ranks, words, env):
    """True when both say the same, and say it before they end in the same way."""
    ours, theirs = (verdicts(*side.run(options, operation, ranks, words, env)) for side in sides)
    same = ours == theirs and bool(ours[0])
    word = "same verdict" if same else f"DIFFERENT: busbar {ours}, nccl-tests {theirs}"
    print(f"{operation:>15} {ranks} ranks: {len(ours[0])} rows, {ours[1]}: {word}", flush=True)
    return same


def gather(options, sides, operation, words, figures):
    """[{size: a figure of each round}] of both sides, which take turns."""
    seen = [{}, {}]
    for _ in range(options.rounds):
        for side, by_size in zip(sides, seen):
            for size, figure in figures(side.run(options, operation, 1, words, {})[0]).items():
                by_size.setdefault(size, []).append(figure)
    return seen


def compare_figures(options, sides, operation, words, figures, unit, tolerance):
    """True when all sizes are alike, and (times) their ratios in the mean."""
    seen, good, ratios = gather(options, sides, operation, words, figures), True, []
    for size in sorted(seen[0].keys() | seen[1].keys()):
        ours, theirs = (by_size.get(size, [0.0]) for by_size in seen)
        same = alike(ours, theirs, tolerance)
        word = "not judged" if options.emulated else "within noise" if same else "DIFFERENT"
        print(f"{operation:>15} 1 rank, {size} B: busbar {statistics.median(ours):.2f} ({min(ours):.2f} - {max(ours):.2f}), nccl-tests "
              f"{statistics.median(theirs):.2f} ({min(theirs):.2f} - {max(theirs):.2f}) {unit}: {word}", flush=True)
        ratios.append(statistics.median(ours) / max(statistics.median(theirs), 1e-9))
        good = good and same
    mean = statistics.geometric_mean([max(ratio, 1e-9) for ratio in ratios]) if ratios else 0
    if figures is times:
        same = abs(mean - 1) <= tolerance
        word = "not judged" if options.emulated else "within the band" if same else "DIFFERENT"
        print(f"{operation:>15} 1 rank, latencies: busbar / nccl-tests {mean:.3f} in the geometric mean of {len(ratios)} sizes, band "
              f"{1 - tolerance:.2f} to {1 + tolerance:.2f}: {word}", flush=True)
        good = good and same
    return good or options.emulated


def one(options, sides):
    """One rank: verdicts of each operation, then rates and latencies of those that move memory."""
    words = ["-b", "8", "-e", "4M", "-f", "64", "-n", "5", "-w", "2"]
    good = all([compare_verdicts(options, sides, operation, 1, words, {}) for operation in options.operations])
    large = ["-b", options.large, "-e", options.large, "-n", "20", "-w", "5", "-c", "0"]
    small = ["-b", "8", "-e", "64K", "-f", "8", "-n", "100", "-w", "20", "-c", "0"]
    for operation in [name for name in ("all_reduce", "all_gather", "broadcast") if name in options.operations]:
        good &= compare_figures(options, sides, operation, large, rates, "GB/s", options.tolerance)
        good &= compare_figures(options, sides, operation, small, times, "us", options.band)
    return good


def shared(options, sides):
    """Ranks that share the GPU: verdicts alone."""
    words = ["-b", "16", "-e", "256K", "-f", "16", "-n", "3", "-w", "1"]
    return all([compare_verdicts(options, sides, operation, ranks, words, SHARED)
                for ranks in options.ranks for operation in options.operations])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nccl_tests")
    parser.add_argument("--build", default="build")
    parser.add_argument("--ranks", default="2,4", type=lambda text: [int(word) for word in text.split(",") if word])
    parser.add_argument("--operations", default=OPERATIONS, type=lambda text: text.split(","))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--large", default="256M", help="bytes of the one-rank rates")
    parser.add_argument("--tolerance", type=float, default=0.05, help="part by which medians of rates may differ")
    parser.add_argument("--band", type=float, default=0.15, help="part by which medians of latencies may differ, and their ratios' mean")
    parser.add_argument("--limit", type=int, default=120, help="seconds for one run")
    parser.add_argument("--emulated", action="store_true")
    options = parser.parse_args()
    if not os.path.exists(os.path.join(options.nccl_tests, "all_reduce_perf")):
        print(f"beside nccl-tests: SKIPPED: {options.nccl_tests} holds no all_reduce_perf")
        return 77
    front = [os.path.abspath(os.path.join(options.build, "emulator", "run"))] if options.emulated else []
    sides = (Program("busbar", os.path.abspath(options.build), front, ["--share-gpu"]),
             Program("nccl-tests", os.path.abspath(options.nccl_tests), front, []))
    good = all([one(options, sides), shared(options, sides)])
    print("beside nccl-tests: all alike" if good else "beside nccl-tests: DIFFERENT")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
