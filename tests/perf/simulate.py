#!/usr/bin/env python3
"""Events per second of plan's simulation without merged ranks, compared with LogGOPSim on the same ring; then the time of plans with many
ranks, where equivalent ranks are merged. LogGOPSim and busbar run alternately.

    tests/perf/simulate.py LOGGOPSIM [--build build] [--ranks 1024] [--rounds 5]

LOGGOPSIM is the executable, built with -O3; with the -O0 of its Makefile it is five times slower. The ring consists of the six messages of
resnet50_ring from each rank to the next, exported by `plan --export goal-bin`. Events are counted as LogGOPSim counts them: two per send and
two per receive. Times are CPU times (user and system): the whole run of LogGOPSim; for busbar the difference between 101 steps and one.
--jitter makes all ranks differ, so that none are merged. Nothing is asserted. The targets: 10 M events/s; 60 s and 4 GiB for LLaMA-3 405B
on 16,384 ranks with one slow rank; 5 s for 1,048,576 ranks.
"""
import argparse
import json
import os
import re
import resource
import statistics
import subprocess
import tempfile

LLAMA = "transformer --model llama3_405b --tp 8 --pp 16 --micro-batches 16 --cluster h100-sxm-ib"
PLANS = [f"{LLAMA} --ranks 16384", f"{LLAMA} --ranks 16384 --slow rank=5:1.1", f"{LLAMA} --ranks 1048576"]
STEPS = 100


def seconds(*command):
    """CPU seconds of a command, peak resident KiB of all children so far, and the output of the command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, after.ru_maxrss, done.stdout


def rate_of_busbar(busbar, ranks, cluster, events):
    command = [busbar, "plan", "resnet50_ring", "--ranks", str(ranks), "--cluster", cluster, "--jitter", "1%", "--samples"]
    return STEPS * events / max(seconds(*command, str(STEPS + 1))[0] - seconds(*command, "1")[0], 1e-3)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("loggopsim")
    parser.add_argument("--build", default="build")
    parser.add_argument("--ranks", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    busbar = os.path.join(options.build, "busbar")
    with_sharing = "profiles/clusters/h100-sxm-ib.json"
    rates = {"LogGOPSim": [], "busbar": [], "busbar, sharing": []}
    with tempfile.TemporaryDirectory() as folder:
        without_sharing, goal = os.path.join(folder, "without_sharing.json"), os.path.join(folder, "ring.bin")
        with open(with_sharing, encoding="utf-8") as profile, open(without_sharing, "w", encoding="utf-8") as out:
            json.dump({key: value for key, value in json.load(profile).items() if key != "sharing"}, out)
        seconds(busbar, "plan", "resnet50_ring", "--ranks", str(options.ranks), "--export", "goal-bin", goal)
        for _ in range(options.rounds):
            took, _, text = seconds(options.loggopsim, "-f", goal, "--batchmode", "-L", "500", "-o", "0", "-g", "0", "-G", "1")
            events = int(re.search(r"Events: (\d+)", text).group(1))
            rates["LogGOPSim"].append(events / max(took, 1e-3))
            rates["busbar"].append(rate_of_busbar(busbar, options.ranks, without_sharing, events))
            rates["busbar, sharing"].append(rate_of_busbar(busbar, options.ranks, with_sharing, events))
    for name, all_rates in rates.items():
        print(f"{name:<16} {statistics.median(all_rates) / 1e6:6.2f} M events/s ({min(all_rates) / 1e6:.2f} - {max(all_rates) / 1e6:.2f})")
    for plan in PLANS:
        took, peak, _ = seconds(busbar, "plan", *plan.split())
        print(f"{took:7.2f} s, peak of all runs so far {peak / 1024:5.0f} MiB: {plan}")


if __name__ == "__main__":
    main()
