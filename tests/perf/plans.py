#!/usr/bin/env python3
"""Time and memory of `busbar plan` for large numbers of ranks, compared with the smallest plan of the same proxy.

    tests/perf/plans.py [--build build] [--rounds 5]

Prints the median wall time and the peak memory of each plan, and the ratio of its time to that of the small plan. Nothing is asserted. The
targets: 1 s for gpt3 on 384 ranks and gpt3_moe on 1536 ranks; 10 s and 1 GiB for 98,304 ranks and for LLaMA-3 405B on 16,384 ranks; 10 s
on all processors for the best layout of 512 GPUs.
"""
import argparse
import os
import statistics

from startup import measure

LLAMA = "transformer --model llama3_405b --tp 8 --pp 16"
SEARCH = "--global-batch-size 1024 --cluster h100-sxm-ib --best-layout"
PLANS = [("gpt3 --ranks 384", "gpt3 --stages 2 --ranks 8"), ("gpt3_moe --ranks 1536", "gpt3_moe --stages 2 --ranks 32"),
         ("gpt3 --ranks 98304", "gpt3 --stages 2 --ranks 8"), ("gpt3_moe --ranks 98304", "gpt3_moe --stages 2 --ranks 32"),
         ("gpt2_large --ranks 98304 --cluster h100-sxm-ib", "gpt2_large --ranks 4 --cluster h100-sxm-ib"),
         ("cosmoflow --ranks 4096", "cosmoflow --ranks 4"), ("resnet152 --ranks 98304", "resnet152 --ranks 2"),
         (f"{LLAMA} --dp 128 --ranks 16384", f"{LLAMA} --dp 1 --ranks 128"),
         (f"{LLAMA} --dp 128 --ranks 16384 --vpp 2", f"{LLAMA} --dp 1 --ranks 128 --vpp 2"),
         (f"{LLAMA} --dp 128 --ranks 16384 --sequence-parallel --dp-sync zero3",
          f"{LLAMA} --dp 1 --ranks 128 --sequence-parallel --dp-sync zero3"),
         (f"transformer --model llama3_70b --ranks 512 {SEARCH}", f"transformer --model llama3_8b --ranks 64 {SEARCH}")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    busbar = os.path.join(options.build, "busbar")
    print(f"{'plan':<110} {'wall s':>7} {'MiB':>6} {'ratio to small plan':>20}")
    for large, small in PLANS:
        pairs = [tuple(measure(options.build, busbar, "plan", *arguments.split()) for arguments in (large, small)) for _ in range(options.rounds)]
        wall = statistics.median(a[0] for a, _ in pairs)
        ratio = statistics.median(a[0] / b[0] for a, b in pairs)
        print(f"{large:<110} {wall:>7.2f} {max(a[1] for a, _ in pairs) / 1024:>6.0f} {ratio:>20.1f}")


if __name__ == "__main__":
    main()
