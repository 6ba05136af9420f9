#!/usr/bin/env python3
"""Cost of tracing: traced steps compared with timed steps of the same proxies. Nothing is asserted; the target is 2 %.

    tests/perf/traced.py [--build build] [--ranks 4] [--rounds 5] [--steps 100] [--wall-steps 2000] [--real]

 virtual  emulated GPUs in virtual time: time of a step. Recording an event takes no virtual time, so both times must be equal; this shows
          that tracing does not change the order of operations.
 real     emulated GPUs in real time (EMU_TIME=real, no data), or real GPUs: median GPU time of a step, timed and traced in one run. The
          host time to record events counts if the GPU has to wait for the host.
 issue    host time to issue one of these steps.
 wall     emulated GPUs in virtual time: wall time per step, from the duration of three runs: one step, --wall-steps timed steps and
          --wall-steps traced steps. It includes reading the events after a traced step, which is not part of the step.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

PROXIES = ["gpt2_large", "bert_large --compute timed", "cosmoflow", "dlrm"]
MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
       "OMPI_MCA_hwloc_base_binding_policy": "none", "EMU_QUIET": "1", "EMU_DATA": "off"}


def run(options, proxy, steps, traced, clock):
    """Wall seconds and JSON results of one job."""
    program = "busbar" if options.real else "busbar-emulated"
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "run.json")
        command = ["timeout", "-k", "5", "300", "mpirun", "-n", str(options.ranks), os.path.join(options.build, program), "proxy",
                   *proxy.split(), "--steps", str(steps), "--traced-steps", str(traced), "--no-alone", "--quiet", "--json", path]
        began = time.monotonic()
        done = subprocess.run(command, env={**os.environ, **MPI, "EMU_TIME": clock}, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL)
        took = time.monotonic() - began
        if done.returncode:
            sys.exit(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr[-2000:]}")
        with open(path) as file:
            return took, json.load(file)


def gpu_times(options, proxy, clock, steps):
    """Medians of timed and traced steps of one run in microseconds: [(GPU time timed, traced), (issue time timed, traced)]."""
    results = run(options, proxy, steps, steps, clock)[1]
    return [(results[key]["p50"], results[f"traced_{key}"]["p50"]) for key in ("step_us", "issue_us")]


def wall_times(options, proxy):
    """Wall microseconds of a timed and a traced step."""
    steps = options.wall_steps
    alone = run(options, proxy, 1, 0, "virtual")[0]
    timed = run(options, proxy, 1 + steps, 0, "virtual")[0]
    traced = run(options, proxy, 1, steps, "virtual")[0]
    return [(whole - alone) / steps * 1e6 for whole in (timed, traced)]


def show(proxy, what, pairs):
    ratios = [b / a for a, b in pairs]
    timed, traced = (statistics.median(x) for x in zip(*pairs))
    print(f"{proxy:<28} {what:<8} {timed:>11.1f} {traced:>11.1f} {statistics.median(ratios):>9.3f} {min(ratios):>7.3f} {max(ratios):>7.3f}",
          flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=100, help="timed and traced steps in a run")
    parser.add_argument("--wall-steps", type=int, default=2000, help="steps of the runs for the wall time, which must dominate the startup time")
    parser.add_argument("--real", action="store_true", help="real GPUs instead of emulated ones")
    options = parser.parse_args()
    options.build = os.path.abspath(options.build)
    print(f"{'':<37} {'timed us':>11} {'traced us':>11} {'ratio':>9} {'min':>7} {'max':>7}")
    for proxy in PROXIES:
        if not options.real:
            show(proxy, "virtual", gpu_times(options, proxy, "virtual", 3)[:1])
        steps, issues = zip(*[gpu_times(options, proxy, "real", options.steps) for _ in range(options.rounds)])
        show(proxy, "real", steps)
        show(proxy, "issue", issues)
        if not options.real:
            show(proxy, "wall", [wall_times(options, proxy) for _ in range(options.rounds)])


if __name__ == "__main__":
    main()
