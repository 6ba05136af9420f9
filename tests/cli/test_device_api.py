"""busbar bench --device: busbar's own kernels on NCCL's device API. The emulated GPUs run the kernels' source with NCCL's device headers, and the
ranks load and store each other's memory, so a result is right only if the kernels are. The times are computed by hand."""
import pathlib
import re

import pytest

from test_real_nccl import nccl_header

SMALL = ["-n", "2", "-w", "1", "--repeats", "2", "-V", "2"]
MULTICAST = {"EMU_MULTICAST_MIB": "2"}
KERNEL_US, LATENCY_US, GBPS = 2, 4, 200  # profiles/clusters/emulated-default.json


def kernel_us(gigabytes):
    return KERNEL_US + 2 * LATENCY_US + gigabytes / GBPS * 1e6


@pytest.mark.smoke
@pytest.mark.parametrize("ranks", [1, 2, 3])
@pytest.mark.parametrize("coll,device", [("all_reduce", "lsa"), ("all_reduce", "multimem"), ("alltoall", "lsa")])
def test_results_are_right_and_say_what_ran(busbar, tmp_path, ranks, coll, device):
    run = busbar.json("bench", coll, "--device", device, *SMALL, "--sizes", "4,1000,48K", ranks=ranks, tmp_path=tmp_path, env=MULTICAST)
    assert run["registration"] == "symmetric" and run["options"]["device"] == device
    for row in run["results"]:
        assert row["wrong"] == 0 and (row["algorithm"], row["protocol"], row["channels"]) == ("DEVICE", device.upper(), 2)
        assert "not_symmetric" not in row["flags"]
        buffers = {"lsa": 2 * (ranks - 1) / ranks, "multimem": 1 + 1 / ranks}[device] if coll == "all_reduce" else (ranks - 1) / ranks
        assert row["time_us"]["p50"] == pytest.approx(kernel_us(buffers * row["bytes"] / 1e9), abs=0.01)


@pytest.mark.parametrize("device,types", [("lsa", "int8 uint8 int32 uint32 int64 uint64 half float double bfloat16 f8e4m3 f8e5m2"),
                                          ("multimem", "int32 uint32 int64 uint64 half float double bfloat16")])
def test_all_types(busbar, tmp_path, device, types):
    """The buffers begin one element after a multiple of 16 bytes: the first and the last elements are accessed one by one."""
    rows = []
    for dtype in types.split():
        rows += busbar.json("bench", "all_reduce", "--device", device, *SMALL, "--sizes", "840", "-d", dtype, "-u", "1", "--repeats", "1", ranks=2,
                            tmp_path=tmp_path, env=MULTICAST)["results"]
    assert [row["dtype"] for row in rows[::2]] == types.split() and all(row["wrong"] == 0 for row in rows)


@pytest.mark.parametrize("options", [["-G", "2"], ["-m", "3"], ["--mode", "sync"], ["-z", "1"], ["-y", "1"], ["-c", "3"], ["--split", "MOD:2"]])
def test_options_of_bench_apply(busbar, tmp_path, options):
    run = busbar.json("bench", "all_reduce", "--device", "lsa", *SMALL, "--sizes", "1000", *options, ranks=4, tmp_path=tmp_path)
    assert all(row["wrong"] == 0 and row["algorithm"] == "DEVICE" for row in run["results"])


def test_ranks_that_busbar_forks(busbar):
    done = busbar.run("bench", "all_reduce", "--device", "lsa", "-g", "8", *SMALL, "--sizes", "1000", "--repeats", "1")
    assert done.returncode == 0 and ("# device API: 1 LSA team, no multimem, no GIN" in done.stdout) == (nccl_header() >= (2, 29)), done.stderr
    assert "# kernels: busbar's own on NCCL's device API (lsa), 2 CTAs of 512 threads" in done.stdout


def test_nccl_before_2_29_reports_nothing(busbar):
    done = busbar.run("bench", "all_reduce", "-g", "2", "--sizes", "8", "--full", env={"EMU_NCCL_WINDOW": "28", "EMU_DATA": "off"})
    assert done.returncode == 0 and "# device API" not in done.stdout


needs_gin = pytest.mark.skipif(not nccl_header() >= (2, 30, 7), reason="requires a build with the header of NCCL 2.30.7 or newer")
INTER_US, INTER_GBPS = 10, 25
NO_WINDOWS = r"--device \w+ requires symmetric windows( in one NVLink domain)?: "


@needs_gin
@pytest.mark.parametrize("nodes", [1, 2, 4])
@pytest.mark.parametrize("device", ["gin", "hybrid"])
def test_adverse_network(busbar, tmp_path, device, nodes):
    """The proxies delay each request and complete the last ones first."""
    run = busbar.json("bench", "all_reduce", "alltoall", "--device", device, *SMALL, "-V", "3", "--sizes", "4,1000,48K", ranks=4, tmp_path=tmp_path,
                      env={"EMU_GIN": "late", "EMU_NODES": str(nodes)})
    ends = nodes if device == "hybrid" else 4
    in_node, barriers_us = 4 // ends, 2 * LATENCY_US if device == "hybrid" else 0
    for row in run["results"]:
        us, gigabytes = KERNEL_US + barriers_us, row["bytes"] / 1e9
        if row["collective"] == "alltoall":
            us += 2 * INTER_US + 1e6 * max((4 - in_node) * gigabytes / 4 / INTER_GBPS, (in_node - 1) * gigabytes / 4 / GBPS)
        else:
            us += 3 * INTER_US + 2e6 * gigabytes * ((ends - 1) / ends / in_node / INTER_GBPS + (in_node - 1) / in_node / GBPS)
        assert row["wrong"] == 0 and (row["algorithm"], row["protocol"], row["channels"]) == ("DEVICE", device.upper(), 3)
        assert row["time_us"]["p50"] == pytest.approx(us, abs=0.01)


@needs_gin
def test_all_types_over_gin(busbar, tmp_path):
    rows = []
    for dtype in "int8 uint32 int64 half double bfloat16 f8e4m3 f8e5m2".split():
        rows += busbar.json("bench", "all_reduce", "--device", "hybrid", *SMALL, "--sizes", "840", "-d", dtype, "-u", "1", "-m", "2", "--repeats", "1",
                            ranks=4, tmp_path=tmp_path, env={"EMU_GIN": "on", "EMU_NODES": "2"})["results"]
    assert len(rows) == 16 and all(row["wrong"] == 0 for row in rows)


@needs_gin
def test_gin_of_nccl_tests(busbar):
    for number, device in ((3, "gin"), (4, "hybrid")):
        done = busbar.run("alltoall_perf", "-g", "2", "-D", number, "-V", "2", "-R", "2", "-b", "1000", "-e", "1000", "-n", "2",
                          env={"EMU_GIN": "on", "EMU_NODES": "2"})
        assert done.returncode == 0 and re.search(r"^# Out of bounds values : 0 OK", done.stdout, re.M), done.stderr


@needs_gin
@pytest.mark.parametrize("device,env,message", [
    ("gin", {}, r"--device: NCCL reports no GIN on rank 0 \(\S+\)"),
    ("hybrid", {}, r"--device: NCCL reports no GIN on rank 0 \(\S+\)"),
    ("hybrid", {"EMU_NODES": "2"}, NO_WINDOWS + "the ranks are on several nodes, and NCCL reports no network with GIN"),
    ("hybrid", {"EMU_NODES": "2", "EMU_GIN": "on", "EMU_NO_CUMEM": "1"}, NO_WINDOWS + "not supported by these GPUs or this NCCL"),
    ("gin", {"EMU_NODES": "2", "EMU_GIN": "on", "NCCL_WIN_ENABLE": "0"}, NO_WINDOWS + "NCCL_WIN_ENABLE=0 disables them"),
    ("lsa", {"EMU_NODES": "2", "EMU_GIN": "on"}, r"--device: each GPU must be able to access the memory of all 2 ranks \(LSA team\), but a team has only 1")])
def test_refuses_gin_without_support(busbar, device, env, message):
    done = busbar.run("bench", "alltoall", "--device", device, *SMALL, "--sizes", "1000", ranks=2, env=env)
    assert done.returncode == 2 and re.fullmatch(f"busbar: {message}\n", done.stderr), done.stderr


@pytest.mark.parametrize("fault,message", [
    ("fail", r"rank 1 \(.*?\): ncclDevCommCreate: .* injected fault .*"), ("die", r"rank 1 \(\S+\) .*")])
def test_failure_of_one_rank_ends_the_job(busbar, fault, message):
    """Rank 0 waits in ncclDevCommCreate for rank 1."""
    done = busbar.run("bench", "all_reduce", "--device", "lsa", *SMALL, "--sizes", "1000", ranks=2, timeout=20,
                      env={"EMU_FAULT": f"{fault}:rank=1,name=ncclDevCommCreate"})
    assert done.returncode == (1 if fault == "fail" else 4) and re.fullmatch(f"busbar: {message}\n", done.stderr), done.stderr


def test_values_of_the_emulated_network_are_checked(busbar):
    done = busbar.run("bench", "all_reduce", "--device", "lsa", *SMALL, "--sizes", "1000", ranks=2, env={"EMU_GIN": "yes"})
    assert done.returncode != 0 and "EMU_GIN=yes: expected off, on or late" in done.stderr


def test_refuses_multimem_without_multicast(busbar):
    done = busbar.run("bench", "all_reduce", "--device", "multimem", *SMALL, "--sizes", "1000", ranks=2)
    reason = "NCCL reports no multicast memory \\(multimem\\) on rank 0 \\(\\S+\\)" if nccl_header() >= (2, 29) else \
        "NCCL creates no communicator for multimem kernels: DevCommCreate : multicast is not available on this system"
    assert done.returncode == 2 and re.fullmatch(f"busbar: --device: {reason}\n", done.stderr), done.stderr


def test_gin_requires_its_header(busbar):
    if nccl_header() >= (2, 30, 7):
        pytest.skip("the header has GIN")
    done = busbar.run("bench", "alltoall", "--device", "gin", *SMALL, "--sizes", "1000", ranks=2)
    assert done.returncode == 2
    assert done.stderr == "busbar: --device: built with an NCCL header that has no GIN of this form; try: a build with the header of NCCL 2.30.7\n"


@pytest.mark.parametrize("coll,number,device", [("all_reduce", 1, "element by element"), ("all_reduce", 2, "threads"), ("all_reduce", 4, "multimem"),
                                                ("alltoall", 1, "element by element"), ("alltoall", 2, "threads")])
def test_numbers_of_nccl_tests(busbar, coll, number, device):
    done = busbar.run(f"{coll}_perf", "-g", "2", "-D", number, "-V", "2", "-R", "2", "-b", "1000", "-e", "1000", "-n", "2", env=MULTICAST)
    assert done.returncode == 0 and re.search(r"^# Out of bounds values : 0 OK", done.stdout, re.M), done.stderr


@pytest.mark.parametrize("device", ["lsa", pytest.param("gin", marks=needs_gin)])
def test_kernels_wait_for_the_last_rank(busbar, tmp_path, device):
    """Rank 1 arrives 100 us late, as in a collective of NCCL."""
    run = busbar.json("bench", "all_reduce", "--device", device, *SMALL, "--sizes", "1000", "--mode", "sync", "--delay", "1:100", "--placement", "out_of_place",
                      ranks=3, tmp_path=tmp_path, env={"EMU_GIN": "on"})
    skew, us = run["results"][0]["skew"], run["results"][0]["time_us"]["p50"]
    assert (skew["straggler"], skew["straggler_share"]) == (1, 1.0) and skew["spread_us"]["p50"] == pytest.approx(100, abs=0.01)
    assert skew["transfer_us"] == pytest.approx(us - 100, abs=0.01)


def test_a_lost_rank_ends_the_kernel(busbar):
    """Rank 1 dies before its second kernel. The kernel of rank 0 then polls until the process ends."""
    done = busbar.run("bench", "all_reduce", "--device", "lsa", *SMALL, "--sizes", "1000", ranks=2,
                      env={"EMU_FAULT": "die:rank=1,call=2,name=cudaLaunchKernel"})
    assert done.returncode == 4 and "rank 1" in done.stderr


@pytest.mark.parametrize("env,message", [
    ({"EMU_NCCL_WINDOW": "27"}, r"--device: kernels built with the header of NCCL \S+ do not run with NCCL 2.27.9; try: a build with the header of 2.27.9"),
    ({"EMU_NODES": "2"}, NO_WINDOWS + "the ranks are on several nodes, and NCCL reports no network with GIN"),
    ({"EMU_NO_CUMEM": "1"}, r"--device.*(not supported by these GPUs or this NCCL|symmetric memory is not supported)"),
    ({"EMU_NODES": "2", "NCCL_CUMEM_ENABLE": "0"}, NO_WINDOWS + "NCCL_CUMEM_ENABLE=0 disables them")])
def test_refuses_what_nccl_does_not_support(busbar, env, message):
    done = busbar.run("bench", "all_reduce", "--device", "lsa", *SMALL, "--sizes", "1000", ranks=2, env=env)
    lines = [line for line in done.stderr.splitlines() if "warning: built with NCCL" not in line]
    assert done.returncode == 2 and done.stdout == "" and len(lines) == 1 and re.fullmatch("busbar: " + message, lines[0]), done.stderr
