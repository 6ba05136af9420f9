"""busbar bench on emulated GPUs. The expected times are computed here from the documented cost model of the emulated GPUs."""
import json
import math
import re

import pytest

COLLECTIVES = {  # busbw factor, has a reduction, has a root, count is per rank, supports in place
    "all_reduce": (lambda n: 2 * (n - 1) / n, True, False, False, True),
    "all_gather": (lambda n: (n - 1) / n, False, False, True, True),
    "reduce_scatter": (lambda n: (n - 1) / n, True, False, True, True),
    "broadcast": (lambda n: 1, False, True, False, True),
    "reduce": (lambda n: 1, True, True, False, True),
    "alltoall": (lambda n: (n - 1) / n, False, False, True, False),
    "gather": (lambda n: (n - 1) / n, False, True, True, True),
    "scatter": (lambda n: (n - 1) / n, False, True, True, True),
    "sendrecv": (lambda n: 1, False, False, False, False),
}
FIVE_COLLECTIVES = ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "sendrecv"]
TYPES = {"int8": 1, "uint8": 1, "int32": 4, "uint32": 4, "int64": 8, "uint64": 8, "half": 2, "float": 4, "double": 8,
         "bfloat16": 2, "f8e4m3": 1, "f8e5m2": 1}
OPS = ["sum", "prod", "max", "min", "avg", "mulsum"]

PROFILE = {
    "name": "test", "gpus_per_node": 4, "launch_us": 2.0, "nccl_launch_us": 1.5, "kernel_us": 1.25,
    "memory_gbps": 1000.0, "memory_bytes": 1e9,
    "tflops": {"float32": 10.0, "float16": 20.0, "bfloat16": 20.0, "float64": 5.0}, "sm_count": 100,
    "clock_khz": 1000000, "intra": {"latency_us": 7.0, "gbps": 80.0}, "inter": {"latency_us": 11.0, "gbps": 20.0},
}


@pytest.fixture
def profile(tmp_path):
    """Returns profile(**changes): the environment for a cluster profile of this test."""

    def write(**changes):
        path = tmp_path / "cluster.json"
        path.write_text(json.dumps({**PROFILE, **changes}))
        return {"EMU_CLUSTER": str(path)}

    return write


def model_us(kind, n, payload, link):
    """Returns the time of one operation by the cost model of the emulated GPUs, rounded to nanoseconds."""
    steps = math.ceil(math.log2(n)) * (2 if kind == "all_reduce" else 1)
    if kind == "sendrecv":
        steps = 1
    factor = {"all_reduce": 2 * (n - 1) / n, "broadcast": 1, "reduce": 1, "sendrecv": 1}.get(kind, (n - 1) / n)
    return round(1e3 * (steps * link["latency_us"] + factor * payload / link["gbps"] / 1e3)) / 1e3


def rows_of(text):
    """Returns the rows of the table as parsers of nccl-tests split them: 13 columns that begin with a number. Column 14 is wall."""
    rows = [line.split() for line in text.splitlines() if re.match(r"\s*\d", line)]
    assert all(len(row) == 14 for row in rows), text
    return [row[:13] for row in rows]


# ---- table and JSON --------------------------------------------------------------------------------------------------


@pytest.mark.smoke
def test_table_has_the_format_of_nccl_tests(busbar, profile):
    done = busbar.run("bench", "all_reduce", "--full", "-b", "1K", "-e", "4K", "-f", "2", ranks=4, env=profile())
    assert done.returncode == 0, done.stderr
    heading = next(line for line in done.stdout.splitlines() if re.match(r"#\s+size", line))
    assert heading.lstrip("#").split() == ["size", "count", "type", "redop", "root",
                                           "time", "algbw", "busbw", "#wrong", "time", "algbw", "busbw", "#wrong", "wall"]
    rows = rows_of(done.stdout)
    assert [row[:5] for row in rows] == [[str(s), str(s // 4), "float", "sum", "-1"] for s in (1024, 2048, 4096)]
    for row in rows:
        for time, algbw, busbw, wrong in (row[5:9], row[9:13]):
            expected = model_us("all_reduce", 4, int(row[0]), PROFILE["intra"])
            assert float(time) == pytest.approx(expected, abs=0.0051)
            assert float(algbw) == pytest.approx(int(row[0]) / expected / 1e3, abs=0.0051)
            assert float(busbw) == pytest.approx(1.5 * int(row[0]) / expected / 1e3, abs=0.0051)
            assert wrong == "0"
    assert re.search(r"^# Out of bounds values : 0 OK$", done.stdout, re.M)
    mean = sum(1.5 * s / model_us("all_reduce", 4, s, PROFILE["intra"]) / 1e3 for s in (1024, 2048, 4096)) / 3
    assert float(re.search(r"^# Avg bus bandwidth\s+: (\S+)", done.stdout, re.M)[1]) == pytest.approx(mean, rel=1e-4)
    for text in ("(built with 2.", "CUDA runtime ", "# 4 ranks on 1 node: Emulated GPU", "blocking communicator", "back to back",
                 "emulated GPUs: all times come from a model"):
        assert text in done.stdout


def test_json_follows_the_schema(busbar, profile, tmp_path):
    (version := tmp_path / "0/proc/driver/nvidia/version").parent.mkdir(parents=True)
    version.write_text("NVRM version: NVIDIA UNIX x86_64 Kernel Module  470.57.02  Tue Jul 13 16:14:05 UTC 2021\nGCC version:  gcc version 9.3.0\n")
    run = busbar.json("bench", "reduce", "-b", "64", "-e", "64", "-r", "2", "-d", "half", "-o", "max", ranks=4,
                      env=profile() | {"EMU_HOST_FILES": str(tmp_path)}, tmp_path=tmp_path)
    assert run["schema"] == "busbar.bench/1" and run["status"] == "ok"
    assert run["ranks"] == 4 and run["nodes"] == 1 and run["emulated"] is True and run["shared_gpu"] is False
    assert set(run["nccl"]) == {"header", "runtime"} and set(run["cuda"]) == {"runtime", "driver", "nvidia_driver"} and run["cuda"]["nvidia_driver"] == "470.57.02"
    assert [d["rank"] for d in run["devices"]] == [0, 1, 2, 3]
    assert all(set(d) == {"rank", "host", "name", "uuid", "pci"} for d in run["devices"])
    assert len({d["uuid"] for d in run["devices"]}) == 4
    assert [r["placement"] for r in run["results"]] == ["out_of_place", "in_place"]
    row = run["results"][0]
    assert {k: row[k] for k in ("collective", "bytes", "count", "dtype", "op", "root", "mode", "iterations", "wrong",
                                "busbw_factor", "algorithm", "protocol", "channels")} == {
        "collective": "reduce", "bytes": 64, "count": 32, "dtype": "half", "op": "max", "root": 2, "mode": "stream",
        "iterations": 20, "wrong": 0, "busbw_factor": 1.0, "algorithm": "RING", "protocol": "SIMPLE", "channels": 8}
    assert set(row["time_us"]) == {"min", "p50", "p90", "p99", "max", "mean", "ci95"}
    assert row["time_us"]["p99"] is None and len(row["time_us"]["ci95"]) == 2
    assert row["flags"] == ["emulated"]


def test_table_equals_the_golden_file(busbar, profile, golden):
    done = busbar.run("bench", "all_reduce", "sendrecv", "--full", "-b", "4K", "-e", "1M", "-f", "16", ranks=4, env=profile())
    table = [line for line in done.stdout.splitlines() if not re.match(r"# busbar |#  Rank |# device API: ", line)]
    golden("bench-table.txt", re.sub(r"NCCL [\d.]+ \(built with [\d.]+\)", "NCCL VERSION", "\n".join(table)) + "\n")


def test_help_equals_the_golden_file(busbar, golden):
    golden("bench-help.txt", busbar.run("bench", "--help", emulated=False).stdout)


def test_nvtx_ranges_name_every_row(busbar, tmp_path):
    """Ranges carry a readable name and the bytes. An NVTX injection library records them from the unmodified program."""
    env = {"NVTX_INJECTION64_PATH": str(busbar.build / "tests" / "nvtx_recorder.so"), "NVTX_RECORD": str(tmp_path / "nvtx")}
    done = busbar.run("bench", "all_reduce", "all_gather", "-b", "1M", "-e", "1M", "-o", "max", ranks=2, env=env)
    assert done.returncode == 0, done.stderr
    records = [p.read_text().splitlines() for p in tmp_path.glob("nvtx.*")]
    assert len(records) == 2
    for record in records:
        assert [line.split("\t")[1:] for line in record if line.startswith("push")] == [
            line for name in ("all_reduce 1 MiB float max ", "all_gather 1 MiB float ") for where in ("out_of_place", "in_place")
            for line in [["0", "busbar", "world", "1048576", name + where]] +
                        [["1", "busbar", "-", "0", part] for part in ("warm-up", "samples", "check")]]
        assert [line for line in record if line.startswith("string")] == ["string\twarm-up", "string\tsamples", "string\tcheck"]
        assert "stream\tbench" in record


@pytest.mark.parametrize("command, captures", [
    (("all_reduce", "-b", "1M", "-e", "2M", "-f", "2"), 4), (("overlap", "--sizes", "1M", "--ctas", "default", "--gemm", "64"), 2),
    (("p2p", "--latency-sizes", "8", "--bandwidth-sizes", "1K"), None),
    (("compute", "gemm", "--quick", "-d", "half"), 8 + 2), (("comm", "--ranks", "2"), 1)])
def test_profiler_captures_the_samples(busbar, tmp_path, command, captures):
    """nsys --capture-range=cudaProfilerApi records the samples of each row, and neither warm-up nor verification."""
    record = tmp_path / "nvtx"
    recorder = str(busbar.build / "tests" / "nvtx_recorder.so")
    env = {"NVTX_INJECTION64_PATH": recorder, "LD_PRELOAD": recorder, "EMU_DATA": "off", "NVTX_RECORD": str(record)}
    done = busbar.run("bench", *command, ranks=2, env=env)
    assert done.returncode == 0, done.stderr
    files = list(tmp_path.glob("nvtx.*"))
    assert len(files) == 2
    for path in files:
        lines = [line.split("\t") for line in path.read_text().splitlines()]
        calls = [i for i, line in enumerate(lines) if line[0] == "profiler"]
        assert len(calls) == 2 * captures if captures else calls
        for start, stop in zip(calls[::2], calls[1::2], strict=True):
            assert lines[start][1] == "start" and lines[start - 1][0::5] == ["push", "samples"]
            assert lines[stop][1] == "stop" and lines[stop + 1] == ["pop", "1", "busbar"]


def test_json_on_stdout_is_not_mixed_with_text(busbar):
    done = busbar.run("bench", "broadcast", "-b", "64", "-e", "64", "--json", "-", ranks=2)
    assert done.returncode == 0 and json.loads(done.stdout)["results"][0]["op"] is None


def test_quiet_prints_nothing(busbar):
    done = busbar.run("bench", "all_reduce", "-b", "64", "-e", "64", "--quiet", ranks=2)
    assert done.returncode == 0 and done.stdout == ""


# ---- times -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("per_node,link", [(4, "intra"), (2, "inter")])
def test_times_equal_the_cost_model(busbar, profile, tmp_path, per_node, link):
    """Operations run back to back, so each row is exactly the time of one operation."""
    run = busbar.json("bench", *COLLECTIVES, "-b", "96K", "-e", "96K", ranks=4, env=profile(gpus_per_node=per_node),
                      tmp_path=tmp_path)
    assert {r["collective"] for r in run["results"]} == set(COLLECTIVES)
    for r in run["results"]:
        factor, reduces, rooted, sliced, _ = COLLECTIVES[r["collective"]]
        expected = model_us(r["collective"], 4, 98304, PROFILE[link])
        assert r["bytes"] == 98304 and r["count"] == 24576 // (4 if sliced else 1)
        for statistic in ("min", "p50", "p90", "max", "mean"):
            assert r["time_us"][statistic] == pytest.approx(expected, rel=1e-6), r
        assert r["algbw_gbps"] == pytest.approx(98304 / expected / 1e3, rel=1e-6)
        assert r["busbw_gbps"] == pytest.approx(98304 / expected / 1e3 * factor(4), rel=1e-6)
        assert r["busbw_factor"] == pytest.approx(factor(4))
        assert (r["op"] is not None) == reduces and (r["root"] is not None) == rooted
        assert r["wrong"] == 0
    placements = {(r["collective"], r["placement"]) for r in run["results"]}
    assert placements == {(k, p) for k in COLLECTIVES for p in ("out_of_place", "in_place") if p == "out_of_place" or COLLECTIVES[k][4]}


def test_launch_time_bounds_short_operations(busbar, profile, tmp_path):
    """An operation that is shorter than its launch waits for the next launch, unless a start barrier holds all operations
        until the last one is launched."""
    env = profile(nccl_launch_us=40.0)
    run = busbar.json("bench", "all_gather", "-b", "1K", "-e", "1K", "--start-barrier", "0", ranks=4, env=env, tmp_path=tmp_path)
    assert run["results"][0]["time_us"]["p50"] == pytest.approx(40.0, rel=1e-6)


def test_one_rank_has_no_bus_bandwidth(busbar, profile, tmp_path):
    run = busbar.json("bench", "all_reduce", "-b", "64M", "-e", "64M", "-n", "2", env={**profile(), "EMU_DATA": "off"}, tmp_path=tmp_path)
    row = run["results"][0]
    assert row["busbw_gbps"] is None
    assert row["time_us"]["p50"] == pytest.approx(2 * 2**26 / 1000.0 / 1e3, rel=1e-5)  # a copy: read and write
    table = busbar.run("bench", "all_reduce", "-b", "1M", "-e", "1M", env=profile()).stdout
    assert rows_of(table)[0][7] == "N/A" and "# Avg bus bandwidth    : N/A" in table


# ---- sizes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("line,sizes", [
    ("all_gather -b 8 -e 256 -d float", [0, 0, 0, 64, 128, 256]),  # slices of 16 bytes
    ("reduce_scatter -b 100 -e 300 -i 100 -d int8", [64, 192, 256]),
    ("broadcast -b 10 -e 10 -d double", [8]),
])
def test_sizes_are_rounded_like_nccl_tests(busbar, tmp_path, line, sizes):
    run = busbar.json("bench", *line.split(), "--placement", "out_of_place", ranks=4, tmp_path=tmp_path)
    assert [r["bytes"] for r in run["results"]] == sizes
    assert all(r["wrong"] == 0 for r in run["results"])


def test_listed_size_of_no_element_is_warned_of_once(times_only):
    """3 bytes are no float, 8 bytes no slice of 16 bytes. Of -b 8 the first sizes of all_gather are 0, as in nccl-tests. -m is part of the divisor."""
    for args, warning in (("all_reduce --sizes 3,2,8", "all_reduce of 3 bytes sends nothing: sizes are rounded down, as in nccl-tests, to whole elements (float: 4 bytes)\n"),
                          ("all_gather --sizes 8,1K", "all_gather of 8 bytes sends nothing: "),
                          ("all_reduce --sizes 1,8", "all_reduce of 1 byte sends nothing: "), ("all_gather -b 8 -e 8", None)):
        done = times_only.run("bench", *args.split(), "-n", 5, "-m", 4, "--full", ranks=2, mpirun=())
        assert done.returncode == 0 and done.stderr.count("sends nothing") == bool(warning) and (warning or "") in done.stderr, done.stderr
        assert "\n# time: 5 iterations of 4 operations back to back on one stream between CUDA events, divided by 20 (" in done.stdout

# ---- data ------------------------------------------------------------------------------------------------------------


ONE = ("-b", "1K", "-e", "1K", "-w", "0", "-n", "1", "--repeats", "1")  # operation 1 precedes the events, operation 2 is timed


@pytest.mark.parametrize("dtype", ["f8e4m3", "f8e5m2"])
def test_wrong_f8_average_is_detected(busbar, dtype):
    """An error of two units in the last place, which is up to half of the value, is more than NCCL's rounding."""
    done = busbar.run("bench", "all_reduce", *ONE, "-d", dtype, "-o", "avg", "--placement", "out_of_place", ranks=3,
                      env={"EMU_FAULT": "corrupt:rank=2,call=2"})
    assert done.returncode == 3 and "1 wrong element," in done.stderr, done.stderr


@pytest.mark.parametrize("collective", FIVE_COLLECTIVES)
def test_wrong_data_exits_with_status_3(busbar, tmp_path, collective):
    path = tmp_path / "result.json"
    call = {"broadcast": "ncclBroadcast", "sendrecv": "ncclRecv"}.get(collective)  # the barrier between calls is not counted
    done = busbar.run("bench", collective, "--full", *ONE, "--placement", "out_of_place", "--json", path, ranks=4,
                      env={"EMU_FAULT": "corrupt:rank=2,call=2" + (f",name={call}" if call else "")})
    assert done.returncode == 3
    match = re.search(r"busbar: .*wrong data: %s of 1024 bytes out of place: 1 wrong element, first on rank 2 \(\S+\) element (\d+): "
                     r"got 0x([0-9a-f]{8}), expected 0x([0-9a-f]{8})" % collective, done.stderr)
    # One bit of the middle element of the output is flipped. The output of reduce_scatter is a quarter of the buffer.
    assert int(match[1]) == (32 if collective == "reduce_scatter" else 128) and int(match[2], 16) ^ int(match[3], 16) == 1 << 24
    assert rows_of(done.stdout)[0][8] == "1" and "# Out of bounds values : 1 FAILED" in done.stdout
    result = json.loads(path.read_text())
    assert result["status"] == "wrong data" and result["results"][0]["wrong"] == 1


def test_wrong_data_in_a_group_names_the_rank_of_the_job(busbar, tmp_path):
    """Rank 3 is the second rank of group 1. The process of rank 0 has no error of its own."""
    path = tmp_path / "result.json"
    done = busbar.run("bench", "all_reduce", *ONE, "--placement", "out_of_place", "--split", "DIV:2", "--json", path, ranks=4,
                      env={"EMU_FAULT": "corrupt:rank=3,call=2", "EMU_NODES": "4"})
    run = json.loads(path.read_text())
    host = run["devices"][3]["host"]
    assert done.returncode == 3 and f"first on rank 3 ({host}) element 128" in run["reason"] and run["reason"] in done.stderr


def test_verifies_the_last_timed_operation(busbar):
    """A byte corrupted in an earlier operation is overwritten before the verification."""
    done = busbar.run("bench", "all_reduce", *ONE, "--placement", "out_of_place", ranks=4,
                      env={"EMU_FAULT": "corrupt:rank=2,call=1"})
    assert done.returncode == 0 and rows_of(done.stdout)[0][8] == "0"


@pytest.mark.parametrize("checks,status", [(1, 0), (2, 0), (3, 3)])
def test_each_check_verifies_another_operation(busbar, checks, status):
    """Check 1 verifies the timed operation (2), check 2 operation 3, check 3 operation 4."""
    done = busbar.run("bench", "all_reduce", *ONE, "--placement", "out_of_place", "-c", checks, ranks=2,
                      env={"EMU_FAULT": "corrupt:rank=0,call=4"})
    assert done.returncode == status, done.stderr


def test_unverified_rows_report_no_error_count(busbar, tmp_path):
    for args, env in ((["-c", "0"], {}), ([], {"EMU_DATA": "off"})):
        done = busbar.run("bench", "all_reduce", "-b", "1K", "-e", "1K", *args, ranks=2, env=env)
        assert done.returncode == 0, done.stderr
        assert rows_of(done.stdout)[0][8] == "N/A" and "OK" not in done.stdout
        run = busbar.json("bench", "all_reduce", "-b", "1K", "-e", "1K", *args, ranks=2, env=env, tmp_path=tmp_path)
        assert run["results"][0]["wrong"] is None and "not_checked" in run["results"][0]["flags"]


# ---- invalid input and failures ---------------------------------------------------------------------------------------


def test_insufficient_memory_is_reported_in_bytes(busbar, profile):
    done = busbar.run("bench", "all_reduce", "-e", "256M", ranks=2, env=profile())  # 1 GB of memory, 2 x 2 x 256 MiB needed
    assert done.returncode == 2
    need, have = map(int, re.search(r"(\d+) bytes of GPU memory needed .* but (\d+) available", done.stderr).groups())
    assert 4 * 2**28 < need == 4 * 2**28 + 2**21 and have <= 10**9  # guard bytes, rounded up to the granularity of ncclMemAlloc


@pytest.mark.parametrize("last, status", [("210M", 0), ("228M", 2)])
def test_buffers_leave_memory_to_nccl(busbar, profile, last, status):
    """NCCL takes 30 MiB when the communicator is created, and again at the first operation. Of 1 GB, 968 MB are left for the buffers,
    which are four times as large as the last size: 881 or 956 MB. The second would fit, but not in addition to NCCL's next 31 MB."""
    done = busbar.run("bench", "all_reduce", "-b", last, "-e", last, "-n", 1, "--repeats", 1, ranks=2,
                      env={**profile(), "EMU_NCCL_MIB": "30", "EMU_DATA": "off"})
    assert done.returncode == status, done.stderr
    assert status == 0 or "bytes of GPU memory needed" in done.stderr


@pytest.mark.parametrize("args", ["bench all_reduce -b 8 -e 1M", "bench p2p --bandwidth-sizes 1M", "bench comm --size 1M",
                                   "bench overlap --sizes 1M --gemm 64", "proxy gpt2_large 2 2 2 --scale-counts 0.1"])
def test_memory_estimate_uses_the_granularity_of_ncclmemalloc(busbar, profile, args):
    """Buffers that fit into 1 GB by their bytes, but not with a granularity of 1 GiB, are rejected before they are allocated."""
    done = busbar.run(*args.split(), ranks=2, env={**profile(), "EMU_GRANULARITY_MIB": "1024"})
    assert done.returncode == 2 and re.search(r"\d+ bytes of GPU memory needed .* but \d+ available", done.stderr), done.stderr


@pytest.mark.parametrize("nccl,status", [("25", 2), ("28", 0)])
def test_old_nccl_rounds_memory_to_the_multicast_granularity(busbar, profile, nccl, status):
    """NCCL before 2.26 rounds ncclMemAlloc up to the granularity of multicast objects. The GPU has 1 GB."""
    done = busbar.run("bench", "all_reduce", "-b", "8", "-e", "1M", "-n", 1, ranks=2,
                      env={**profile(), "EMU_MULTICAST_MIB": "1024", "EMU_NCCL_WINDOW": nccl})
    assert done.returncode == status and ("bytes of GPU memory needed" in done.stderr) == (status == 2), done.stderr


@pytest.mark.parametrize("args", ["bench all_reduce -b 8 -e 8", "bench p2p --bandwidth-sizes 1K -n 2", "bench comm --repeats 2",
                                   "bench overlap --sizes 1K --ctas 1 --gemm 64 -n 1 --repeats 3", "proxy gpt2_large 2 2 2 --no-alone"])
def test_reports_the_cudamalloc_fallback_of_ncclmemalloc(busbar, tmp_path, args):
    path = tmp_path / "r.json"
    fallback = "nccl (cudaMalloc)", "# buffers: cudaMalloc, because ncclMemAlloc falls back to cudaMalloc here;"
    for more, buffers, note in (({}, "nccl", None), ({"NCCL_CUMEM_ENABLE": "0"}, *fallback), ({"EMU_NO_CUMEM": "1"}, *fallback)):
        done = busbar.run(*args.split(), "--json", path, ranks=2, env=more)
        assert done.returncode == 0 and json.loads(path.read_text())["buffers"] == buffers, done.stderr
        assert note in done.stdout if note else "# buffers: of" not in done.stdout


@pytest.mark.parametrize("args", [
    "bench all_reduce -b 8 -e 8", "bench all_reduce -b 8 -e 8 -R 1", "bench p2p --bandwidth-sizes 1K -n 2",
    "bench overlap --sizes 1K --ctas 1 --gemm 64 -n 1 --repeats 3", "proxy gpt2_large 2 2 2 --no-alone"])
def test_buffers_come_from_ncclmemalloc_by_default(busbar, tmp_path, args):
    """ncclMemAlloc fails in the emulator: the run fails, except with --buffers cuda."""
    path, broken = tmp_path / "r.json", {"EMU_FAULT": "fail:name=ncclMemAlloc,call=1"}
    done = busbar.run(*args.split(), ranks=2, env=broken)
    assert done.returncode == 1 and "ncclMemAlloc" in done.stderr
    done = busbar.run(*args.split(), "--buffers", "cuda", "--json", path, ranks=2, env=broken)
    if "-R" in args:
        assert done.returncode == 2 and "-R 1 registers memory of ncclMemAlloc" in done.stderr
    else:
        assert done.returncode == 0 and json.loads(path.read_text())["options"]["buffers"] == "cuda", done.stderr
        assert json.loads(path.read_text())["buffers"] == "cuda" and "# buffers: cudaMalloc\n" in done.stdout


def test_shared_gpu_is_flagged(busbar, tmp_path):
    env = {"EMU_DEVICES": "1"}
    run = busbar.json("bench", "all_reduce", "-b", "64", "-e", "64", "--share-gpu", ranks=2, env=env, tmp_path=tmp_path)
    assert run["shared_gpu"] is True and "shared_gpu" in run["results"][0]["flags"] and run["results"][0]["wrong"] == 0


def test_hang_names_the_rank_and_keeps_finished_rows(busbar, tmp_path):
    """Calls of a row: estimate, one untimed, one timed, one by the host clock. Call 6 is in the second row."""
    path = tmp_path / "result.json"
    done = busbar.run("bench", "all_reduce", "-b", "1K", "-e", "2K", *ONE[4:], "--placement", "out_of_place", "--timeout", "5",
                      "--json", path, ranks=4, env={"EMU_FAULT": "stall:rank=1,call=6,name=ncclAllReduce"})
    assert done.returncode == 4
    assert re.search(r" after 5 s: rank 1 \(\S+\) did not return from [^;]+; 3 of 4 ranks wait for ", done.stderr), done.stderr
    result = json.loads(path.read_text())
    assert result["reason"] in done.stderr
    assert result["status"] == "timeout" and [r["bytes"] for r in result["results"]] == [1024]


def test_stalled_call_in_a_further_check_times_out(busbar):
    """Calls of a row: warm-up, estimate, one untimed, one timed. Call 5 is the second check, on all ranks."""
    done = busbar.run("bench", "all_reduce", "-b", "1K", "-e", "1K", "-n", "1", "--repeats", "1", "-w", "1", "-c", "2", "--placement",
                      "out_of_place", "--timeout", "5", ranks=2, env={"EMU_FAULT": "stall:call=5,name=ncclAllReduce"})
    assert done.returncode == 4 and "an operation to be checked did not end" in done.stderr


def test_missing_gpu_is_reported_once(busbar):
    done = busbar.run("bench", "all_reduce", ranks=2, env={"EMU_DEVICES": "0"})
    assert done.returncode == 1 and "no usable GPU on this host" in done.stderr
    assert len(re.findall("^busbar: ", done.stderr, re.M)) == 1


def test_failed_call_ends_all_ranks(busbar):
    done = busbar.run("bench", "all_reduce", "-b", "1K", "-e", "1K", ranks=4,
                      env={"EMU_FAULT": "fail:rank=3,call=7,name=ncclAllReduce"})
    assert done.returncode == 1 and "ncclAllReduce" in done.stderr


@pytest.mark.parametrize("call", [*range(5, 40, 4), *range(41, 90, 9)])
def test_failure_of_any_call_is_reported_once(busbar, call):
    """Call k of CUDA or NCCL fails: one line, exit status 1, no hang."""
    done = busbar.run("bench", "all_reduce", "sendrecv", "-b", "64", "-e", "64", "-n", "1", "-w", "1", "--repeats", "2", "-c", "2",
                      env={"EMU_FAULT": f"fail:rank=0,call={call}"}, timeout=30)
    assert done.returncode == 1
    assert len(re.findall("^busbar: ", done.stderr, re.M)) == 1, done.stderr


def test_help_needs_neither_mpi_nor_gpu(busbar):
    done = busbar.run("bench", "--help", emulated=False)
    assert done.returncode == 0 and done.stderr == ""
    for letter in "befinwcdor":
        assert f"-{letter}," in done.stdout


@pytest.mark.parametrize("topic,names", [("collectives", COLLECTIVES), ("dtypes", TYPES), ("ops", OPS)])
def test_list_prints_all_names(busbar, topic, names):
    done = busbar.run("list", topic, emulated=False)
    assert done.returncode == 0
    lines = [line.split()[0] for line in done.stdout.splitlines()]
    assert sorted(line for line in lines if line in names) == sorted(names)


def test_sizes_of_the_same_count_have_one_row(busbar):
    """Floats of 4 bytes, slices of 16 bytes for each of 2 ranks: 0, 1 and 3 are 0; 32 and 40 are 32."""
    done = busbar.run("bench", "all_gather", "--sizes", "0,1,3,32,40,64", "--json", "-", ranks=2)
    assert [row["bytes"] for row in json.loads(done.stdout)["results"] if row["placement"] == "out_of_place"] == [0, 32, 64], done.stderr


def test_g_starts_the_ranks_that_mpirun_would_start(busbar, tmp_path):
    """Two processes with -g 2 are the same run as four processes; so is one process with -g 4."""
    runs = [busbar.json("bench", "all_reduce", "--sizes", "4K", *gpus, ranks=ranks, mpirun=(), tmp_path=tmp_path)
            for ranks, gpus in ((4, ()), (2, ("-g", 2)), (0, ("-g", 4)))]
    assert [run["ranks"] for run in runs] == [4, 4, 4]
    times = [[row["time_us"]["p50"] for row in run["results"]] for run in runs]
    assert len(times[0]) == 2 and times[1] == pytest.approx(times[0], rel=1e-6) and times[2] == pytest.approx(times[0], rel=1e-6)


def test_g_and_no_supervisor_exclude_each_other(busbar):
    done = busbar.run("bench", "all_reduce", "-g", 2, "--no-supervisor")
    assert done.returncode == 2 and done.stderr == ("busbar: --no-supervisor runs one rank per process, -g 2 starts 2; "
                                                    "try: mpirun -n 2, without -g\n")


def test_groups_say_what_the_times_of_iterations_are(busbar):
    for each, what in (("1", ", i_min, i_max and i_p99 per iteration"), ("0", "")):
        done = busbar.run("bench", "all_reduce", "-g", 2, "-b", "1K", "-e", "1K", "-m", 10, "-I", each)
        assert f"# agg iters: 10 operations in one NCCL group per iteration, times are per operation{what}\n" in done.stdout
