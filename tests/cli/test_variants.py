"""bench --sweep-variants. EMU_SYMMETRIC_PERCENT plants the time of symmetric kernels and copies; with CTA policy 2 copies need no SMs, so that they
do not slow a GEMM down on a machine whose profile has contention."""
import json
import re

import pytest

ALL = "plain,registered,symmetric,zero-sm,graph,device"
TIMES_ONLY = {"EMU_DATA": "off"}
WINDOWS = {"EMU_NCCL_WINDOW": "30", "EMU_SYMMETRIC_PERCENT": "50"}
H100 = {"EMU_CLUSTER": "h100-sxm-ib"}
FEW = ("-n", "2", "-w", "1", "--repeats", "2")
FEW_GEMMS = (*FEW, "--with-gemm", "--gemm", "16")


def variants(busbar, tmp_path, collective, *args, ranks=4, env=TIMES_ONLY, variants=ALL):
    done = busbar.run("bench", collective, "--sweep-variants", variants, "--json", "r.json", *args, ranks=ranks, env=env, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    run = json.loads((tmp_path / "r.json").read_text())
    return done.stdout.splitlines(), run, {row["variant"]: row for row in run["results"]}


def test_planted_variant_wins(busbar, tmp_path):
    lines, run, rows = variants(busbar, tmp_path, "all_gather", "--sizes", "1M", "-c", "0", variants="plain,registered,symmetric,graph",
                                env={**TIMES_ONLY, **WINDOWS})
    assert {name: row["verdict"] for name, row in rows.items()} == {
        "plain": "slower", "registered": "slower", "symmetric": "best", "graph": "slower"}
    assert rows["symmetric"]["gain"] == pytest.approx(2, rel=1e-3) and rows["registered"]["gain"] == pytest.approx(1, rel=1e-3)
    assert rows["symmetric"]["ran"] == "symmetric kernel" and rows["symmetric"]["algorithm"] is None
    assert rows["graph"]["mode"] == "graph" and rows["plain"]["ran"] == rows["graph"]["ran"] == "RING SIMPLE 8"
    assert lines[-1] == "# best: symmetric, 2.00 times as fast as plain at all_gather 1 MiB, symmetric in 1 of 1 cases"
    assert run["variants"]["alone"]["best"] == "symmetric" and run["variants"]["with_gemm"] is None


@pytest.mark.parametrize("variant", ["symmetric", "zero-sm"])
def test_bytes_on_links_keep_their_time(busbar, tmp_path, variant):
    """Half of the latency, but the same bytes over NVLink: of 1 GiB at 359 GB/s less than 2 % is latency."""
    _, _, rows = variants(busbar, tmp_path, "all_gather", "--sizes", "1G", "-c", "0", *FEW, ranks=8, env={**TIMES_ONLY, **WINDOWS, **H100},
                          variants=f"plain,{variant}")
    assert 1 < rows[variant]["gain"] < 1.02


def test_equal_variants_are_a_tie(busbar, tmp_path):
    lines, run, rows = variants(busbar, tmp_path, "all_gather", "--sizes", "1M", "-c", "0", variants="plain,registered,symmetric,zero-sm",
                                env={**TIMES_ONLY, **WINDOWS})
    assert (rows["symmetric"]["verdict"], rows["zero-sm"]["verdict"]) == ("tie", "tie")
    assert lines[-1] == "# best: symmetric, 2.00 times as fast as plain at all_gather 1 MiB, tie with zero-sm, no single best in 1 of 1 cases"
    assert set(run["variants"]["alone"]["wins"].values()) == {0}
    lines, _, rows = variants(busbar, tmp_path, "all_gather", "--sizes", "1M", "-c", "0", variants="plain,registered")
    assert {row["verdict"] for row in rows.values()} == {"tie"} and lines[-1] == "# best: plain, nothing is significantly faster"
    assert any(line.endswith("tie, ran as plain") and "registered" in line for line in lines)


@pytest.mark.parametrize("env,reason", [
    ({"EMU_NCCL_WINDOW": "30"}, "NCCL ran RING SIMPLE, as plain"), ({"EMU_NCCL_WINDOW": "0"}, "not supported by these GPUs or this NCCL")])
def test_variant_that_did_not_run_has_a_reason_and_no_rank(busbar, tmp_path, env, reason):
    lines, run, rows = variants(busbar, tmp_path, "all_gather", "--sizes", "1M", "-c", "0", env={**TIMES_ONLY, **env})
    for name in ("symmetric", "zero-sm"):
        assert (rows[name]["verdict"], rows[name]["gain"], rows[name]["reason"]) == (None, None, reason)
    expected = "busbar has no kernel for it" if env["EMU_NCCL_WINDOW"] != "0" else reason
    assert rows["device"]["reason"] == expected and rows["device"]["time_us"] is None
    (unranked,) = [line for line in lines if line.startswith("# not ranked: ")]
    assert f"symmetric ({reason}), zero-sm ({reason}), device (" in unranked
    assert len(lines) <= 25 and not any(line.startswith("# each row: ") for line in lines)


def test_own_kernels_are_a_variant(busbar, tmp_path):
    """A kernel of 2 us with two barriers of 4 us and 200 GB/s, faster than a ring of 6 steps; with GEMMs the kernel still delivers the right data."""
    lines, run, rows = variants(busbar, tmp_path, "all_reduce", "--sizes", "4K", *FEW_GEMMS, env={})
    device = rows["device"]
    assert (device["ran"], device["wrong"], device["reason"]) == ("DEVICE LSA 16", 0, None)
    assert device["time_us"]["p50"] == pytest.approx(2 + 2 * 4 + 1.5 * 4096 / 200e3, abs=0.01) and device["verdict"] == "best"
    assert run["variants"]["alone"]["best"] == "device" and "# best: device" in lines[-1]
    assert run["variants"]["alone"]["collective"] == "all_reduce"
    assert any("a model (not of device API kernels' SMs, CTAs and contention)" in line for line in lines)
    _, _, rows = variants(busbar, tmp_path, "all_reduce", "--sizes", "4K", "-o", "max", *FEW, variants="plain,device")
    assert rows["device"]["reason"] == "busbar has no kernel for it"
    _, _, rows = variants(busbar, tmp_path, "all_reduce", "--sizes", "4K", variants="plain,device", env={**TIMES_ONLY, "EMU_NCCL_WINDOW": "27"})
    assert "do not run with NCCL 2.27.9" in rows["device"]["reason"]


@pytest.mark.parametrize("version,ran", [("28", "copies or symmetric"), ("30", "copy engines")])
def test_copies_are_those_that_nccl_reports(busbar, tmp_path, version, ran):
    """NCCL reports copies to profilers since 2.30. With CTA policy 2 it runs symmetric kernels where it cannot copy."""
    _, _, rows = variants(busbar, tmp_path, "all_gather", "--sizes", "1M", "-c", "0", env={**TIMES_ONLY, **WINDOWS, "EMU_NCCL_WINDOW": version})
    assert rows["zero-sm"]["ran"] == ran and rows["symmetric"]["ran"] == "symmetric kernel"
    if version == "30":
        env = {**TIMES_ONLY, **WINDOWS, "EMU_NCCL_IGNORE": "COPIES"}
        _, _, rows = variants(busbar, tmp_path, "all_gather", "--sizes", "1M", "-c", "0", env=env)
        assert (rows["zero-sm"]["reason"], rows["zero-sm"]["verdict"]) == ("NCCL ran a symmetric kernel", None)


def test_the_newest_nccl_names_the_symmetric_kernel(busbar, tmp_path):
    _, _, rows = variants(busbar, tmp_path, "all_gather", "--sizes", "1M", "-c", "0", env={**TIMES_ONLY, **WINDOWS, "EMU_NCCL_WINDOW": "32"},
                          variants="plain,symmetric")
    assert (rows["symmetric"]["ran"], rows["symmetric"]["verdict"], rows["symmetric"]["algorithm"]) == ("SymmetricKernel_LSA", "best", "SymmetricKernel_LSA")


def test_unregistered_buffers_and_reductions_by_copies_have_a_reason(busbar, tmp_path):
    _, _, rows = variants(busbar, tmp_path, "all_reduce", "--sizes", "1M", "-c", "0", env={**TIMES_ONLY, **WINDOWS, "NCCL_LOCAL_REGISTER": "0"})
    assert rows["registered"]["reason"] == "NCCL does not register buffers (NCCL_LOCAL_REGISTER)"
    assert rows["zero-sm"]["reason"] == "copy engines do not reduce" and rows["symmetric"]["verdict"] == "best"


def test_copies_do_not_slow_a_gemm_down(busbar, tmp_path):
    env = {**TIMES_ONLY, **H100, "EMU_NCCL_WINDOW": "30", "EMU_SYMMETRIC_PERCENT": "100"}
    lines, run, rows = variants(busbar, tmp_path, "all_gather", "-c", "1", "--with-gemm", env=env)
    large = {row["variant"]: row for row in run["results"] if row["bytes"] == 16 << 20}
    assert large["zero-sm"]["verdict_with_gemm"] == "best" and large["zero-sm"]["compute_slowdown"] == pytest.approx(1, abs=1e-3)
    for name in ("plain", "registered", "symmetric", "graph"):
        assert large[name]["compute_slowdown"] > 1.05 and large[name]["verdict_with_gemm"] == "slower"
    plain = large["plain"]["gemm_and_collectives_us"]["p50"]
    assert large["graph"]["gemm_and_collectives_us"]["p50"] == pytest.approx(plain, rel=0.01)
    assert large["zero-sm"]["gain_with_gemm"] == pytest.approx(plain / large["zero-sm"]["gemm_and_collectives_us"]["p50"])
    assert len(lines) <= 25 and "with GEMMs: zero-sm" in lines[-1]
    assert "# each row: the fastest variant, plain if none is; --full prints all" in lines


@pytest.mark.parametrize("collective", ["all_gather", "alltoall", "broadcast"])
def test_all_variants_deliver_the_right_data(busbar, tmp_path, collective):
    _, _, rows = variants(busbar, tmp_path, collective, "--sizes", "64K", *FEW_GEMMS, ranks=3, env=WINDOWS)
    assert {row["wrong"] for name, row in rows.items() if row["time_us"]} == {0}


def test_wrong_data_of_a_variant_end_the_run_with_its_name(busbar, tmp_path):
    # The first round has 5 warm-up operations of plain, 6 x (1 + 20) timed ones, then those of graph: 5, 20 captured. The graph's last
    # operation is verified.
    done = busbar.run("bench", "all_gather", "--sweep-variants", "plain,graph", "--sizes", "1K", ranks=2, cwd=tmp_path,
                      env={"EMU_FAULT": f"corrupt:rank=0,call={131 + 25},name=ncclAllGather"})
    assert done.returncode == 3, done.stderr
    assert re.search(r"wrong data: all_gather of 1 KiB, variant graph: \d+ wrong elements?, first on rank \d \(\S+\) element \d+: got 0x\w+, expected 0x\w+$", done.stderr, re.M), done.stderr
    assert "# not ranked: graph (wrong data)" in done.stdout and done.stdout.splitlines()[-1].startswith("# WRONG DATA; best: plain")


def test_one_rank_runs_all_variants_without_verdict(busbar, tmp_path):
    lines, _, rows = variants(busbar, tmp_path, "all_gather", "--sizes", "1M", ranks=0, env={})
    assert lines[-1] == "# no verdict: one rank: NCCL only copies memory" and rows["graph"]["ran"] == "copy"


def test_compare_pairs_rows_by_variant(busbar, tmp_path):
    variants(busbar, tmp_path, "all_gather", "--sizes", "1M", "-c", "0", variants="plain,graph")
    done = busbar.run("compare", tmp_path / "r.json", tmp_path / "r.json")
    assert done.returncode == 0 and "all_gather graph" in done.stdout and done.stdout.count("no difference") == 2
