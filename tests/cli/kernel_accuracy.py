"""Prints the error of busbar plan compute on measured rates of GEMMs, grouped GEMMs and attention.

    python3 tests/cli/kernel_accuracy.py KERNELS.json     (BUSBAR_BUILD: the build folder)

KERNELS.json: {"rows": [{"gpu", "op", "shape", "of_peak", "peak_tflops"}]}, as SimuMax publishes them. The rates of the profile are chosen by
the fitting half of the rows, which the MD5 sum of a row determines; the errors of the testing half are of rows that chose nothing."""
import hashlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

PROFILES = {"a100-pcie": "a100-pcie-ib", "b200-sxm": "b200-sxm-ib"}
KEYS = {"matmul": "gemm", "group_matmul": "gemm", "sdp_fwd": "attention_forward", "sdp_bwd": "attention_backward"}


def shape(row):
    """The kernel in the words of plan compute, and its FLOPs as the publisher counts them (attention: without the mask)."""
    p = dict(part.strip().split("=") for part in row["shape"].split(","))
    if row["op"] == "matmul":
        b, m, n, k = (int(p[key]) for key in "bmnk")
        return f"gemm:{m}x{n}x{k}x{b}", 2 * b * m * n * k
    if row["op"] == "group_matmul":
        g, m, n, k = (int(p[key]) for key in ("ng", "M", "N", "K"))
        m, n, k = {"bwd_grad_w": (n, k, m), "bwd_grad_act": (m, k, n)}.get(p["stage"], (m, n, k))
        return f"grouped:{g}x{m}x{n}x{k}", 2 * g * m * n * k
    b, s, h, of_q, of_v = (int(p[key]) for key in ("batch", "seq_len", "head_num", "qk_head_dim", "v_head_dim"))
    back = row["op"] == "sdp_bwd"
    return f"attention{'_backward' * back}:{b}x{s}x{h}x{(of_q + of_v) // 2}", 2 * b * h * s * s * (of_q + of_v) * (2.5 if back else 1)


def errors(rows, values):
    program = pathlib.Path(os.environ.get("BUSBAR_BUILD", "build")) / "busbar"
    with tempfile.NamedTemporaryFile("w") as shapes:
        shapes.write("\n".join(shape(row)[0] for row in rows))
        shapes.flush()
        done = subprocess.run([program, "plan", "compute", "--shapes", shapes.name, "--cluster", PROFILES[rows[0]["gpu"]], "--json", "-",
                               *(word for key, value in values.items() for word in ("--set", f"achieved.{key}={value}"))],
                              capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [result["time_us"] * row["of_peak"] * row["peak_tflops"] * 1e6 / shape(row)[1] - 1
            for row, result in zip(rows, json.loads(done.stdout)["results"])]


def summary(values):
    sizes = sorted(map(abs, values))
    return (f"{len(sizes):3} rows, median {100 * statistics.median(sizes):4.1f} %, 90 % within {100 * sizes[-(-len(sizes) * 9 // 10) - 1]:4.1f} %, "
            f"bias {100 * statistics.mean(values):+5.1f} %")


def half(row):
    return hashlib.md5((row["gpu"] + row["op"] + row["shape"]).encode()).digest()[0] % 2


def main(path):
    rows = json.loads(pathlib.Path(path).read_text())["rows"]
    for gpu, op in dict.fromkeys((row["gpu"], row["op"]) for row in rows):
        halves = [[row for row in rows if (row["gpu"], row["op"], half(row)) == (gpu, op, i)] for i in (0, 1)]
        of = "matmul" if op == "group_matmul" else op  # grouped GEMMs have the rate of GEMMs
        fitting = [row for row in rows if (row["gpu"], row["op"], half(row)) == (gpu, of, 0)]
        best = min((percent / 100 for percent in range(30, 90)), key=lambda part: statistics.median(map(abs, errors(fitting, {KEYS[op]: part}))))
        for name, values in (("profile", {}), (f"{KEYS[op]} {best}", {KEYS[op]: best})):
            print(f"{gpu:10} {op:13} {name:24} fitting {summary(errors(halves[0], values))}; testing {summary(errors(halves[1], values))}")


if __name__ == "__main__":
    main(*sys.argv[1:])
