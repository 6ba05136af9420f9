"""Prints the error of busbar plan compute on measured rates of GEMMs, grouped GEMMs and attention.

    python3 tests/cli/kernel_accuracy.py [KERNELS.json]     (default: reference_data/kernels.json; BUSBAR_BUILD: the build folder)

KERNELS.json: {"rows": [{"gpu", "op", "shape", "of_peak", "peak_tflops"}]}, as SimuMax publishes them. The constants of the cost model and
the rates of the profiles are chosen by the fitting half of the rows, which the MD5 sum of a row determines; the errors of the testing half,
which plan compute prints (proxies/offline/bench_plan/kernels.def), are of rows that chose nothing. The second line of each kind has the
rate that fits best. The last lines are of GEMMs whose size was measured twice (see of_one_size)."""
import hashlib
import json
import math
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

from collective_accuracy import too

PROFILES = {"a100-pcie": "a100-pcie-ib", "b200-sxm": "b200-sxm-ib"}
GENERATIONS = {"a100-pcie": "BB_AMPERE", "b200-sxm": "BB_BLACKWELL"}
LONG_US = 600
SECTIONS = {"matmul": "gemm", "group_matmul": "grouped", "sdp_fwd": "attention", "sdp_bwd": "attention"}
KEYS = {"matmul": "gemm", "group_matmul": "gemm", "sdp_fwd": "attention_forward", "sdp_bwd": "attention_backward"}


def shape(row):
    """The kernel in the words of plan compute, and its FLOPs as the publisher counts them (attention: without the mask)."""
    p = dict(part.strip().split("=") for part in row["shape"].split(","))
    if row["op"] == "matmul":
        b, m, n, k = (int(p[key]) for key in "bmnk")
        return f"{'wgrad' if p['accumulate'] == 'True' else 'gemm'}:{m}x{n}x{k}x{b}", 2 * b * m * n * k
    if row["op"] == "group_matmul":
        g, m, n, k = (int(p[key]) for key in ("ng", "M", "N", "K"))
        m, n, k = {"bwd_grad_w": (n, k, m), "bwd_grad_act": (m, k, n)}.get(p["stage"], (m, n, k))
        return f"grouped{'_wgrad' * (p['stage'] == 'bwd_grad_w')}:{g}x{m}x{n}x{k}", 2 * g * m * n * k
    b, s, h, of_q, of_v = (int(p[key]) for key in ("batch", "seq_len", "head_num", "qk_head_dim", "v_head_dim"))
    back = row["op"] == "sdp_bwd"
    return f"attention{'_backward' * back}:{b}x{s}x{h}x{(of_q + of_v) // 2}", 2 * b * h * s * s * (of_q + of_v) * (2.5 if back else 1)


def errors(rows, values=None):
    """Returns the relative error of each row; values: rates of the profile instead of its own and those of the software."""
    program, results = pathlib.Path(os.environ.get("BUSBAR_BUILD", "build")) / "busbar", {}
    more = [word for key, value in (values or {}).items() for word in ("--software", "megatron", "--set", f"achieved.{key}={value}")]
    for gpu, dtype in dict.fromkeys((row["gpu"], gradients(row)) for row in rows):
        its = [row for row in rows if (row["gpu"], gradients(row)) == (gpu, dtype)]
        with tempfile.NamedTemporaryFile("w") as shapes:
            shapes.write("\n".join(shape(row)[0] for row in its))
            shapes.flush()
            done = subprocess.run([program, "plan", "compute", "--shapes", shapes.name, "--cluster", PROFILES[gpu], "--grad-dtype", dtype,
                                   "--json", "-", *more], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        results.update((id(row), result["time_us"]) for row, result in zip(its, json.loads(done.stdout)["results"], strict=True))
    return [results[id(row)] * row["of_peak"] * row["peak_tflops"] * 1e6 / shape(row)[1] - 1 for row in rows]


def gradients(row):
    """Returns the type of the gradients to which a weight gradient is added; other kernels do not depend on it."""
    p = dict(part.strip().split("=") for part in row["shape"].split(","))
    name = p.get("main_grad_dtype") or (p["out_dtype"] if p.get("accumulate") == "True" else "fp32")
    return {"fp32": "float", "bf16": "bfloat16"}[name]


def statistics_of(values):
    """Returns the median of the sizes of errors, the size that 90 % of them do not exceed, and the mean error, in percent."""
    sizes = sorted(map(abs, values))
    return 100 * statistics.median(sizes), 100 * sizes[-(-len(sizes) * 9 // 10) - 1], 100 * statistics.mean(values)


def of_one_size(rows, gpu, limit_us=math.inf):
    """Returns pairs of relative errors: of GEMMs of one size (layout or type of the result differ), the errors of the prediction between
    the two that is closest to both. No prediction from the size has smaller ones. limit_us: only pairs that take less time."""
    sizes = {}
    for row in rows:
        if (row["gpu"], row["op"]) == (gpu, "matmul"):
            sizes.setdefault(tuple(re.findall(r"\b[bmnk]=\d+", row["shape"])), []).append(row["of_peak"])
    pairs = [sorted(rates) for size, rates in sizes.items() if len(rates) == 2]
    flops = [2 * math.prod(int(edge[2:]) for edge in size) for size, rates in sizes.items() if len(rates) == 2]
    peak = next(row["peak_tflops"] for row in rows if row["gpu"] == gpu)
    return [sign * (high - low) / (high + low) for (low, high), n in zip(pairs, flops) if n / (low * peak * 1e6) < limit_us for sign in (1, -1)]


def summary(values):
    return "{:3} rows, median {:4.1f} %, 90 % within {:4.1f} %, bias {:+5.1f} %".format(len(values), *statistics_of(values))


def table(rows):
    """Returns the rows of proxies/offline/bench_plan/kernels.def: the errors of the testing half, of GEMMs also of long ones alone."""
    testing = [row for row in rows if half(row) == 1]
    kinds = {}
    for row, error in zip(testing, errors(testing)):
        time_us = shape(row)[1] / (row["of_peak"] * row["peak_tflops"] * 1e6) * (1 + error)
        kinds.setdefault((SECTIONS[row["op"]], row["gpu"]), []).append((error, time_us >= LONG_US))
    lines = []
    for (section, gpu), its in kinds.items():
        median, within, bias = statistics_of([error for error, _ in its])
        long = f", of {LONG_US} us or longer {statistics_of([error for error, is_long in its if is_long])[1]:.0f}%" if section == "gemm" else ""
        lines.append(f'{{"{section}", {GENERATIONS[gpu]}, KERNEL, "", "{len(its)} kernels on {gpu.split("-")[0].upper()}: median error '
                     f'{median:.0f}%, forecasts on average {too(bias / 100)}; 90% within {within:.0f}%{long}"}},\n')
    return "".join(lines)


def half(row):
    return hashlib.md5((row["gpu"] + row["op"] + row["shape"]).encode()).digest()[0] % 2


def read(path=pathlib.Path(__file__).parent / "reference_data/kernels.json"):
    return json.loads(pathlib.Path(path).read_text())["rows"]


def main(*path):
    rows = read(*path)
    for gpu, op in dict.fromkeys((row["gpu"], row["op"]) for row in rows):
        halves = [[row for row in rows if (row["gpu"], row["op"], half(row)) == (gpu, op, i)] for i in (0, 1)]
        of = "matmul" if op == "group_matmul" else op  # grouped GEMMs have the rate of GEMMs
        fitting = [row for row in rows if (row["gpu"], row["op"], half(row)) == (gpu, of, 0)]
        best = min((percent / 100 for percent in range(30, 90)), key=lambda part: statistics.median(map(abs, errors(fitting, {KEYS[op]: part}))))
        for name, values in (("profile", None), (f"{KEYS[op]} {best}", {KEYS[op]: best})):
            print(f"{gpu:10} {op:13} {name:24} fitting {summary(errors(halves[0], values))}; testing {summary(errors(halves[1], values))}")
    for gpu in PROFILES:
        for limit in (math.inf, LONG_US):
            print(f"{gpu:10} of one size, less than {limit} us: {summary(of_one_size(rows, gpu, limit))}")


if __name__ == "__main__":
    main(*sys.argv[1:])
