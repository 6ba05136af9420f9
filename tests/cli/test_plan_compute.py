"""busbar plan compute predicts the kernels of bench compute and kernels of given shapes."""
import json
import re

import kernel_accuracy
import pytest


@pytest.fixture
def compute(busbar, tmp_path):
    """Returns compute(*args) -> {name: row}."""

    def run(*args):
        done = busbar.run("plan", "compute", *args, "--json", tmp_path / "k.json", emulated=False, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return {row["name"]: row for row in json.loads((tmp_path / "k.json").read_text())["results"]}

    return run


def test_predicts_kernels_by_the_rates_of_the_profile(compute, tmp_path):
    """H100: 0.675 of 989 TFLOP/s, 132 SMs, 0.85 of 3,350 GB/s; attention 0.58 and 0.48; a kernel of at least 2 us."""
    (tmp_path / "shapes.txt").write_text("gemm:2816x1536x8192\nadam attention:2x8448x8x128")
    rows = compute("grouped:132x256x128x4096", "gemm:16x16x16", "attention_backward:2x8448x8x128", "wgrad:2816x1536x8192", "grouped_wgrad:8x8192x4096x256",
                   "--shapes", "shapes.txt", "--cluster", "h100-sxm-ib")
    assert len(rows) == 8
    work, result = 2 * 2816 * 1536 * 8192 / (0.675 * 989e6), 2816 * 1536 / (850 * 3.35)  # us; us per 1,000 elements of one byte
    assert rows["gemm:2816x1536x8192"]["time_us"] == pytest.approx(work + 0.5 * 2 * result / 1e3, rel=1e-3)
    assert rows["wgrad:2816x1536x8192"]["time_us"] == pytest.approx(work + 0.5 * 8 * result / 1e3, rel=1e-3)
    assert compute("wgrad:2816x1536x8192", "--cluster", "h100-sxm-ib", "--grad-dtype", "bfloat16")["wgrad:2816x1536x8192"]["time_us"] == pytest.approx(
        work + 0.5 * 4 * result / 1e3, rel=1e-3)
    assert rows["grouped:132x256x128x4096"]["time_us"] == 132 * 9 and rows["grouped:132x256x128x4096"]["limited_by"] == "launch"  # 9 us of host time each
    assert rows["grouped_wgrad:8x8192x4096x256"]["time_us"] == pytest.approx(
        8 * (2 * 8192 * 4096 * 256 / (0.675 * 989e6) + 0.8 * 8 * 8192 * 4096 / 850 / 3.35e3), rel=1e-3)
    assert rows["gemm:16x16x16"]["time_us"] == 2 and rows["gemm:16x16x16"]["limited_by"] == "launch"
    assert rows["adam"]["gbps"] == pytest.approx(0.85 * 3350, rel=1e-3) and rows["adam"]["limited_by"] == "memory"
    forward, backward = rows["attention:2x8448x8x128"], rows["attention_backward:2x8448x8x128"]
    blocks_us = 2 * 2 * 8448**2 * 8 * 128 / 989e6 * (1 + 2 * 0.35 * 132 / (66 * 16))  # scores and context, half of both; 66 x 16 blocks of 128 queries
    assert forward["time_us"] == pytest.approx(blocks_us / 0.58 + 32, rel=1e-3)
    assert backward["time_us"] == pytest.approx(2.5 * blocks_us / 0.48, rel=1e-3)
    assert compute("attention:1x128x1x128", "--cluster", "h100-sxm-ib")["attention:1x128x1x128"]["time_us"] == 90
    assert compute("gemm:16x16x16", "--cluster", "h100-sxm-ib", "--set", "kernel_us=3")["gemm:16x16x16"]["time_us"] == 3


def test_software_is_plain_unless_it_is_tuned(compute):
    """Plain software reaches 0.88 of the rate of tuned GEMMs on B200, and the same rate of a single memory-bound kernel."""
    plain, tuned = (compute("gemm:37888x37888x8192", "adam", "--cluster", "b200-sxm-ib", *more) for more in ([], ["--software", "megatron"]))
    assert tuned["gemm:37888x37888x8192"]["tflops"] / plain["gemm:37888x37888x8192"]["tflops"] == pytest.approx(1 / 0.88, rel=0.02)
    assert plain["adam"] == tuned["adam"]


def test_gemms_of_low_precision_have_their_own_rate(compute):
    """B200: 0.57 of 2,250 TFLOP/s, 0.535 of 4,500 in 8 bits and of 9,000 in 4 bits; options after the shapes count as well."""
    shape = "gemm:37888x37888x8192"
    of = {words: compute(shape, "--cluster", "b200-sxm-ib", "--software", "megatron", *words.split())[shape]["tflops"]
          for words in ("", "--fp8", "--gemm-precision mxfp8", "--gemm-precision nvfp4")}
    assert [rate / of[""] for rate in of.values()] == pytest.approx([1, 1.88, 1.88, 3.75], rel=0.03)


def test_rates_of_gb200_and_gb300_are_those_that_cublaslt_sustains(compute):
    """TFLOP/s of square GEMMs with random operands after 10,000 others: Azure/AI-benchmarking-guide, ND GB200 v6 and ND GB300 v6."""
    measured = {("gb200-nvl72", "fp8"): (2694.7, 2781.5, 2819.5), ("gb300-nvl72", "fp8"): (3257.0, 3286.3, 3308.5),
                ("gb200-nvl72", "nvfp4"): (None, None, 5604.0), ("gb300-nvl72", "nvfp4"): (None, 8155.9, 8640.3)}
    parts = {}
    for (cluster, precision), rates in measured.items():
        shapes = [f"gemm:{n}x{n}x{n}" for n in (4096, 8192, 16384)]
        rows = compute(*shapes, "--cluster", cluster, "--gemm-precision", precision, "--software", "megatron")
        parts[cluster, precision] = [rows[shape]["tflops"] / rate for shape, rate in zip(shapes, rates) if rate]
    assert {name: of for name, of in parts.items() if not all(0.82 < part < 1 for part in of)} == {}
    assert all(abs(a / b - 1) < 0.05 for a, b in zip(parts["gb300-nvl72", "fp8"], parts["gb200-nvl72", "fp8"]))


def test_matches_measured_kernels(busbar, golden, monkeypatch):
    """Half of the 611 rates that SimuMax publishes chose neither the rates of the profiles nor the constants of the cost model."""
    monkeypatch.setenv("BUSBAR_BUILD", str(busbar.build))
    rows = kernel_accuracy.read()
    golden("../../../proxies/offline/bench_plan/kernels.def", kernel_accuracy.table(rows))
    testing = [row for row in rows if kernel_accuracy.half(row) == 1]
    median, within, bias = kernel_accuracy.statistics_of(kernel_accuracy.errors(testing))
    assert len(testing) == 306 and median <= 8 and within <= 29 and abs(bias) <= 4, (median, within, bias)


def test_measured_rates_of_one_size_differ_on_b200():
    """The target of 20 % for 90 % of the GEMMs on B200 is missed (29 %) because of those below 600 us: of 23 sizes that were measured
    twice, the prediction between both is within 23.5 % for 90 %. On A100 it is within 3 % for all."""
    rows = kernel_accuracy.read()
    short, long = (kernel_accuracy.of_one_size(rows, "b200-sxm", limit) for limit in (600, float("inf")))
    assert len(short) == 46 and len(long) == 82 and kernel_accuracy.statistics_of(short)[1] > 23
    assert max(kernel_accuracy.of_one_size(rows, "a100-pcie")) < 0.03


def test_file_of_many_shapes(busbar, tmp_path):
    """The time is linear in the number of shapes. An unreadable or empty file is no request for all kernels."""
    (tmp_path / "shapes.txt").write_text("gemm:16x16x16\n" * 100000)
    (tmp_path / "empty").write_text(" \n")
    done = busbar.run("plan", "compute", "--shapes", tmp_path / "shapes.txt", "--cluster", "h100-sxm-ib", emulated=False)
    assert done.returncode == 0 and done.stdout.count("gemm:16x16x16 ") == 100000 and done.stdout.count("# accuracy: ") == 1
    for path, text in ((tmp_path / "empty", "contains no shape"), ("/proc/self/mem", "Input/output error")):
        done = busbar.run("plan", "compute", "--shapes", path, "--cluster", "h100-sxm-ib", emulated=False)
        assert done.returncode == 2 and text in done.stderr and done.stdout == "", done


def test_without_shapes_predicts_the_kernels_of_bench_compute(busbar, tmp_path, compute):
    names = {row["name"] for row in busbar.json("bench", "compute", "gemm", "memory_kernels", "-d", "bfloat16", "-n", "1", "--repeats", "1",
                                                "-w", "0", "--size", "1M", ranks=1, env={"EMU_DATA": "off"}, tmp_path=tmp_path)["results"]}
    predicted = compute("--cluster", "h100-sxm-ib")
    assert {name.rsplit(" ", 1)[0] if row["section"] == "gemm" else name for name, row in predicted.items()} == names


@pytest.mark.parametrize("args,message", [
    (["gemm:1x2x3"], "requires --cluster"), (["gem:1x2x3", "--cluster", "h100-sxm-ib"], "'gem:1x2x3' is not a kernel"),
    (["gemm:1x2", "--cluster", "h100-sxm-ib"], "'gemm:1x2'"), (["gemm:1x0x3", "--cluster", "h100-sxm-ib"], "'gemm:1x0x3'"),
    (["attention:1x2x3", "--cluster", "h100-sxm-ib"], "'attention:1x2x3'"), (["gemm:1x2x3x4x5", "--cluster", "h100-sxm-ib"], "'gemm:1x2x3x4x5'"),
    (["--shapes", "none", "--cluster", "h100-sxm-ib"], "--shapes: cannot read none"), (["--fp8", "--cluster", "a100-sxm-ib"], "its GPU has no FP8 "),
    (["--cluster", "h100"], "h100"), (["--ranks", "8", "--cluster", "h100-sxm-ib"], "--ranks")])
def test_rejects_invalid_kernels(busbar, args, message):
    done = busbar.run("plan", "compute", *args, emulated=False)
    assert done.returncode == 2 and done.stdout == "" and done.stderr.count("\n") == 1 and message in done.stderr


@pytest.mark.parametrize("more, gemm, attention", [("", "", ""), ("--datatype half", "", ""), ("--fp8", " in fp8", ""), ("--gemm-precision nvfp4", " in nvfp4", ""),
                                                   ("--datatype float", " in float", " in float")])
def test_published_errors_are_of_16_bit_operands(busbar, more, gemm, attention):
    done = busbar.run("plan", "compute", "gemm:8192x8192x8192", "attention:1x8192x32x128", "--cluster", "b200-sxm-ib", *more.split(), emulated=False)
    for section, other in (("gemm", gemm), ("attention", attention)):
        assert re.search(f"# accuracy: {section}{other}, Blackwell: {'no published timing' if other else '[0-9]+ kernels on B200: '}", done.stdout)


def test_published_errors_are_of_one_software(busbar):
    lines = {software: busbar.run("plan", "compute", "gemm:8192x8192x8192", "--cluster", "b200-sxm-ib", "--software", software, emulated=False).stdout.splitlines()[-1]
             for software in ("megatron-plain", "torch")}
    assert lines["torch"] == lines["megatron-plain"] + " (of software megatron-plain)"


def test_plans_of_kernels_are_compared_by_kernel(busbar, tmp_path):
    for name, cluster in (("a", "h100-sxm-ib"), ("b", "a100-sxm-ib")):
        busbar.run("plan", "compute", "gemm:8192x8192x8192", "adam", "--cluster", cluster, "--json", f"{name}.json", emulated=False, cwd=tmp_path)
    a, b = (json.loads((tmp_path / f"{name}.json").read_text())["results"] for name in "ab")
    done = busbar.run("compare", "a.json", "b.json", "--json", "-", emulated=False, cwd=tmp_path)
    assert [(r["collective"], r["ratio"]) for r in json.loads(done.stdout)["results"]] == [
        (f"{x['section']} {x['name']}", pytest.approx(y["time_us"] / x["time_us"])) for x, y in zip(a, b)]
    (tmp_path / "bench.json").write_text(json.dumps({"schema": "busbar.bench/1", "results": [{"m": 1, "collective": "x", "time_us": None}]}))
    done = busbar.run("compare", "a.json", "bench.json", emulated=False, cwd=tmp_path)
    assert done.returncode == 2 and "a.json has predicted kernels, bench.json has GEMMs and kernels; try: files of the same command" in done.stderr
