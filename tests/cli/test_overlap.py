"""`busbar bench overlap`: times and metrics equal the formulas of the cost model (without contention), wrong data, and rejected input."""
import json
import math
import re

import pytest

LATENCY_US, GBPS, TFLOPS, KERNEL_US = 4, 200, {"float": 100, "half": 400, "bfloat16": 400}, 2  # the built-in cluster profile
NO_DATA = {"EMU_DATA": "off"}


def all_reduce_us(ranks, size):
    return 2 * math.ceil(math.log2(ranks)) * LATENCY_US + 2 * (ranks - 1) / ranks * size / GBPS / 1e3


def gemm_us(m, n, k, dtype):
    return max(KERNEL_US, 2 * m * n * k / TFLOPS[dtype] / 1e6)


def check_metrics(row, ranks):
    g = row["gemm"]
    compute = row["gemms"] * gemm_us(g["m"], g["n"], g["k"], row["dtype"])
    comm = row["collectives"] * all_reduce_us(ranks, row["bytes"])
    p50 = {key: row[key + "_us"]["p50"] for key in ("compute_alone", "comm_alone", "compute_in_both", "comm_in_both", "both")}
    assert p50["compute_alone"] == pytest.approx(compute, rel=1e-3) == p50["compute_in_both"]
    assert p50["comm_alone"] == pytest.approx(comm, rel=1e-3) == p50["comm_in_both"]
    assert p50["both"] == pytest.approx(max(compute, comm), rel=1e-3)
    assert row["compute_slowdown"] == pytest.approx(1, rel=1e-3) == row["comm_slowdown"]
    assert row["overlap_efficiency"] == pytest.approx(1, abs=1e-2)
    assert row["lost_to_comm_us"] == pytest.approx(max(0, comm - compute), abs=1e-2 * comm)
    busbw = row["collectives"] * row["bytes"] * 2 * (ranks - 1) / ranks / comm / 1e3
    assert row["busbw_alone_gbps"] == pytest.approx(busbw, rel=1e-3) == row["busbw_in_both_gbps"]
    assert row["tflops_alone"] == pytest.approx(row["gemms"] * 2 * g["m"] * g["n"] * g["k"] / compute / 1e6, rel=1e-3)


@pytest.mark.smoke
def test_one_row_per_size_and_cta_limit(busbar, tmp_path):
    result = busbar.json("bench", "overlap", "--sizes", "1M,64M", "--gemm", "4096x2048x1024", "--ctas", "default,8,2:4",
                         tmp_path=tmp_path, ranks=4, env=NO_DATA)
    rows = result["results"]
    assert result["schema"] == "busbar.bench/1" and result["emulated"]
    assert [(r["bytes"], r["min_ctas"], r["max_ctas"]) for r in rows] == [
        (size << 20, low, high) for size in (1, 64) for low, high in ((None, None), (None, 8), (2, 4))]
    for row in rows:
        assert (row["collective"], row["dtype"], row["op"], row["wrong"]) == ("all_reduce", "bfloat16", "sum", None)
        check_metrics(row, 4)
    # Without contention all limits give the same time, and the smallest limit leaves the most SMs to the GEMMs.
    assert [(b["bytes"], b["min_ctas"], b["max_ctas"]) for b in result["best"]] == [(1 << 20, 2, 4), (64 << 20, 2, 4)]
    assert [b["tied"] for b in result["best"]] == [["default", "8", "2:4"]] * 2


def test_default_counts_balance_compute_and_communication(busbar, tmp_path):
    result = busbar.json("bench", "overlap", "--sizes", "1M", "--gemm", "8192", "--ctas", "default", tmp_path=tmp_path,
                         ranks=2, env=NO_DATA)
    row, gemm_time_us = result["results"][0], gemm_us(8192, 8192, 8192, "bfloat16")  # 2.7 ms: longer than 10 collectives
    assert row["collectives"] == min(256, math.ceil(gemm_time_us / all_reduce_us(2, 1 << 20))) > 10
    assert row["gemms"] == 1
    result = busbar.json("bench", "overlap", "--sizes", "64M", "--gemm", "1024", "--ctas", "default", "-n", "3",
                         "-d", "float", tmp_path=tmp_path, ranks=2, env=NO_DATA)
    row, gemm_time_us = result["results"][0], gemm_us(1024, 1024, 1024, "float")
    assert row["collectives"] == 3 and row["gemms"] == round(3 * all_reduce_us(2, 64 << 20) / gemm_time_us)


def test_explicit_counts_of_gemms_and_collectives(busbar, tmp_path):
    result = busbar.json("bench", "overlap", "--sizes", "64M", "--gemm", "1024", "--ctas", "4", "-n", "2", "--gemms", "3",
                         tmp_path=tmp_path, ranks=2, env=NO_DATA)
    row = result["results"][0]
    assert (row["gemms"], row["collectives"]) == (3, 2)
    check_metrics(row, 2)


@pytest.mark.parametrize("collective", ["all_reduce", "all_gather", "reduce_scatter", "alltoall", "broadcast", "sendrecv"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float"])
def test_last_collective_overlapped_with_gemms_is_verified(busbar, tmp_path, collective, dtype):
    result = busbar.json("bench", "overlap", "--collective", collective, "--sizes", "48K", "--gemm", "32", "--gemms", "3",
                         "-n", "2", "--repeats", "2", "--ctas", "default,1", "-d", dtype, tmp_path=tmp_path, ranks=3)
    assert [row["wrong"] for row in result["results"]] == [0, 0]
    assert {row["collective"] for row in result["results"]} == {collective}


# Calls of ncclAllReduce on a rank: 1 of warm-up, then 1 + 0, 1 + 2 and 1 + 2. Only the last call is verified.
@pytest.mark.parametrize("call, wrong", [(7, False), (8, True)])
def test_corrupt_byte_of_the_last_collective_is_detected(busbar, tmp_path, call, wrong):
    path = tmp_path / "r.json"
    done = busbar.run("bench", "overlap", "--sizes", "4K", "--gemm", "32", "--gemms", "2", "-n", "2", "--repeats", "1", "-w",
                      "1", "--ctas", "1", "--json", path, ranks=2,
                      env={"EMU_FAULT": f"corrupt:rank=1,call={call},name=ncclAllReduce"})
    result = json.loads(path.read_text())
    assert done.returncode == (3 if wrong else 0), done.stderr
    assert [r["wrong"] for r in result["results"]] == [int(wrong)]
    line = r"^busbar: wrong data: all_reduce of 4096 bytes, concurrent with GEMMs \(CTAs: 1\): 1 wrong element, first on rank 1 \(\S+\) element \d+: got 0x\w{4}, expected 0x\w{4}$"
    assert bool(re.search(line, done.stderr, re.M)) == wrong, done.stderr
    assert bool(re.fullmatch(r"# WRONG DATA: 1 element, first on rank 1 \(\S+\)", done.stdout.splitlines()[-1])) == wrong, done.stdout


def test_gemm_leaves_sms_to_nccl(busbar, tmp_path):
    """A GEMM planned for 25 of the 100 emulated SMs takes four times as long."""
    times = []
    for sms in (0, 25):
        run = busbar.json("bench", "overlap", "--sizes", "1M", "--gemm", "1024", "--gemms", 1, "--ctas", "default", "--gemm-sms", sms,
                          tmp_path=tmp_path, ranks=2, env=NO_DATA)
        times.append(run["results"][0]["compute_alone_us"]["p50"])
    assert run["options"]["gemm_sms"] == 25 and times[1] == pytest.approx(4 * times[0], rel=1e-2)


def test_tie_between_cta_limits_is_reported(busbar, tmp_path):
    """Without contention all limits take the same time. The report names a tie and the limit with the fewest CTAs."""
    done = busbar.run("bench", "overlap", "--sizes", "1M", "--ctas", "default,2", "--json", tmp_path / "r.json", ranks=2, env=NO_DATA)
    assert done.returncode == 0 and done.stderr.startswith("emulated NCCL: limits of CTAs or channels change no times with profile ")
    assert [best["tied"] for best in json.loads((tmp_path / "r.json").read_text())["best"]] == [["default", "2"]]
    assert re.search(r"# 1 MiB: the CTA limit makes no difference: .* us for \d+ GEMMs? and \d+ collectives\n", done.stdout)
    assert "none is a measurement of hardware" in done.stdout
    rows = [line.split() for line in done.stdout.splitlines() if not line.startswith("#")]
    assert [row[1] for row in rows] == ["default", "2"] and {row[-1] for row in rows} == {"N/A"}


def test_prints_the_rows_of_all_limits_that_fit_in_25_lines(busbar):
    limits = ["default", "4", "8", "16"]
    for sizes, shown in (("64M", limits), ("1M,4M,64M", ["default", "4"] * 3)):
        lines = busbar.run("bench", "overlap", "--sizes", sizes, "--ctas", ",".join(limits), "--repeats", 2, ranks=2, env=NO_DATA).stdout.splitlines()
        assert [line.split()[1] for line in lines if not line.startswith("#")] == shown and len(lines) <= 25
        assert ("# rows: the first and the best CTA limit of each size; --full prints all" in lines) == (shown != limits)


def test_names_the_slow_gpu(busbar, tmp_path):
    args = ("bench", "overlap", "--sizes", "1M", "--ctas", "default,2", "--repeats", 2, "--json", tmp_path / "r.json")
    for slow, found in (("rank=2:1.3", [(2, pytest.approx(1.3, rel=1e-2))]), ("", [])):
        done = busbar.run(*args, ranks=3, env={**NO_DATA, "EMU_SLOW": slow})
        gpus = json.loads((tmp_path / "r.json").read_text())["slow_gpus"]
        assert [(gpu["rank"], gpu["slowdown"]) for gpu in gpus] == found and done.returncode == 0
        assert bool(re.match(r"# slow: rank 2 \(.*, GPU 2, 0000:03:00.0\): GEMMs alone take 1.30 x the typical time$", done.stdout.splitlines()[-1])) == bool(found)


def test_one_rank_has_no_bus_bandwidth(busbar, tmp_path):
    result = busbar.json("bench", "overlap", "--sizes", "1M", "--ctas", "default", tmp_path=tmp_path, env=NO_DATA)
    assert {row["busbw_alone_gbps"] for row in result["results"]} == {None}


def test_best_limit_is_the_smallest_that_is_as_fast(busbar):
    done = busbar.run("bench", "overlap", "-g", 4, "--sizes", "1M", "--ctas", "default,2,16", "--repeats", 2,
                      env={**NO_DATA, "EMU_CLUSTER": "h100-sxm-ib"})
    assert re.search(r"# best for 1 MiB: 16 CTAs; as fast: default: .* us for", done.stdout)
    assert "best" not in busbar.run("bench", "overlap", "-g", 4, "--sizes", "1M", "--ctas", "16", "--repeats", 2, env=NO_DATA).stdout


def test_counts_do_not_depend_on_the_order_of_the_limits(busbar):
    """The default counts balance compute with the fastest collective, not with that of the first limit."""
    outs = [busbar.run("bench", "overlap", "-g", 8, "--sizes", "64M", "--ctas", ctas, "--repeats", 2,
                       env={**NO_DATA, "EMU_CLUSTER": "h100-sxm-ib"}).stdout.splitlines()[-1] for ctas in ("4,16,32", "16,4,32")]
    assert outs[0] == outs[1] and outs[0].startswith("# best for 64 MiB: 16 CTAs; as fast: 32: ")


def test_without_ctas_measures_what_a_variable_of_nccl_leaves(busbar, tmp_path):
    run = busbar.json("bench", "overlap", "-g", 2, "--sizes", "1M", "--repeats", 2, tmp_path=tmp_path, env={**NO_DATA, "NCCL_MAX_CTAS": "4"})
    assert [row["max_ctas"] for row in run["results"]] == [None] and run["options"]["ctas"] == "default"


@pytest.mark.parametrize("gemms", [1, 40])
def test_a_slow_gpu_does_not_lengthen_communication_alone(busbar, tmp_path, gemms):
    """A sendrecv does not synchronize all ranks: before, its time alone contained the GEMMs that a slow GPU had yet to end. Without
    contention, 10 of them take 10 times the time of bench."""
    env = {**NO_DATA, "EMU_CLUSTER": "h100-sxm-ib", "EMU_SLOW": "rank=2:1.25"}
    one = busbar.json("bench", "sendrecv", "-g", 4, "--sizes", "8M", tmp_path=tmp_path, env=env)["results"][0]["time_us"]["p50"]
    row, = busbar.json("bench", "overlap", "-g", 4, "--sizes", "8M", "--collective", "sendrecv", "--ctas", "default", "--gemms", gemms,
                       "--repeats", 3, tmp_path=tmp_path, env=env)["results"]
    assert row["comm_alone_us"]["p50"] == pytest.approx(10 * one, rel=1e-3)
    assert row["comm_slowdown"] == pytest.approx(1, rel=1e-3) and row["overlap_efficiency"] <= 1


@pytest.mark.parametrize("function, code", [("cublasLtMatmul", 1), ("ncclAllReduce", 1), ("cudaStreamCreateWithPriority", 1)])
def test_failed_call_ends_the_run(busbar, function, code):
    done = busbar.run("bench", "overlap", "--sizes", "4K", "--gemm", "32", ranks=2,
                      env={"EMU_FAULT": f"fail:rank=1,call=1,name={function}"})
    assert done.returncode == code and "rank 1" in done.stderr


def test_stalled_rank_times_out(busbar):
    done = busbar.run("bench", "overlap", "--sizes", "4K", "--gemm", "32", "--timeout", "2", ranks=2,
                      env={"EMU_FAULT": "stall:rank=1,call=3,name=ncclAllReduce"})
    assert done.returncode == 4


def test_help_needs_no_gpu(busbar):
    done = busbar.run("bench", "overlap", "--help", emulated=False)
    assert done.returncode == 0 and "--ctas" in done.stdout
