"""busbar plan compute predicts the kernels of bench compute and kernels of given shapes."""
import json

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
    """H100: 0.66 of 989 TFLOP/s, 132 SMs, 0.85 of 3,350 GB/s; attention 0.58 and 0.48; a kernel of at least 2 us."""
    (tmp_path / "shapes.txt").write_text("gemm:2816x1536x8192\nadam attention:2x8448x8x128")
    rows = compute("grouped:132x256x128x4096", "gemm:16x16x16", "attention_backward:2x8448x8x128", "--shapes", "shapes.txt", "--cluster",
                   "h100-sxm-ib")
    assert len(rows) == 6
    assert rows["gemm:2816x1536x8192"]["tflops"] == pytest.approx(0.66 * 989, rel=1e-3)  # 11 x 12 tiles of 256 x 128, one on each SM
    assert rows["grouped:132x256x128x4096"]["limited_by"] == "memory"
    assert rows["grouped:132x256x128x4096"]["time_us"] == pytest.approx(132 * 2 * (256 * 4096 + 128 * 4096 + 256 * 128) / (850 * 3.35e3), rel=1e-3)
    assert rows["gemm:16x16x16"]["time_us"] == 2 and rows["gemm:16x16x16"]["limited_by"] == "launch"
    assert rows["adam"]["gbps"] == pytest.approx(0.85 * 3350, rel=1e-3) and rows["adam"]["limited_by"] == "memory"
    forward, backward = rows["attention:2x8448x8x128"], rows["attention_backward:2x8448x8x128"]
    assert forward["tflops"] == pytest.approx(0.58 * 989, rel=1e-3)  # 8 waves of 132 blocks of 128 queries
    assert backward["tflops"] == pytest.approx(0.48 * 989, rel=1e-3)
    assert backward["time_us"] == pytest.approx(2.5 * forward["time_us"] * 0.58 / 0.48, rel=1e-3)
    assert compute("gemm:16x16x16", "--cluster", "h100-sxm-ib", "--set", "kernel_us=3")["gemm:16x16x16"]["time_us"] == 3


def test_without_shapes_predicts_the_kernels_of_bench_compute(busbar, tmp_path, compute):
    names = {row["name"] for row in busbar.json("bench", "compute", "gemm", "memory_kernels", "-d", "bfloat16", "-n", "1", "--repeats", "1",
                                                "-w", "0", "--size", "1M", ranks=1, env={"EMU_DATA": "off"}, tmp_path=tmp_path)["results"]}
    predicted = compute("--cluster", "h100-sxm-ib")
    assert {name.rsplit(" ", 1)[0] if row["section"] == "gemm" else name for name, row in predicted.items()} == names


@pytest.mark.parametrize("args,message", [
    (["gemm:1x2x3"], "requires --cluster"), (["gem:1x2x3", "--cluster", "h100-sxm-ib"], "'gem:1x2x3' is not a kernel"),
    (["gemm:1x2", "--cluster", "h100-sxm-ib"], "'gemm:1x2'"), (["gemm:1x0x3", "--cluster", "h100-sxm-ib"], "'gemm:1x0x3'"),
    (["attention:1x2x3", "--cluster", "h100-sxm-ib"], "'attention:1x2x3'"), (["gemm:1x2x3x4x5", "--cluster", "h100-sxm-ib"], "'gemm:1x2x3x4x5'"),
    (["--shapes", "none", "--cluster", "h100-sxm-ib"], "--shapes: cannot read none"), (["--fp8", "--cluster", "a100-sxm-ib"], "no FP8 rate"),
    (["--cluster", "h100"], "h100"), (["--ranks", "8", "--cluster", "h100-sxm-ib"], "--ranks")])
def test_rejects_invalid_kernels(busbar, args, message):
    done = busbar.run("plan", "compute", *args, emulated=False)
    assert done.returncode == 2 and done.stdout == "" and done.stderr.count("\n") == 1 and message in done.stderr
