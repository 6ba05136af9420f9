"""busbar calibrate fits a cluster profile to measurements. Benchmarks run on emulated GPUs with a hidden profile, and the fitted
parameters must equal the hidden ones."""
import fcntl
import itertools
import json
import math
import random
import re

import pytest

import calibration_accuracy
from conftest import ROOT


# Unusual values, all far from those of emulated-default, which are the initial values of the fit.
HIDDEN = {"name": "hidden", "description": "unusual values", "source": "made up", "gpus_per_node": 8, "launch_us": 3.7,
          "nccl_launch_us": 6.3,
          "kernel_us": 2.9, "memory_gbps": 1777, "memory_bytes": 61e9, "sm_count": 97, "clock_khz": 1410000,
          "tflops": {"float32": 71, "float16": 523, "bfloat16": 487, "float64": 31},
          "intra": {"latency_us": 5.3, "gbps": 143}, "inter": {"latency_us": 13.1, "gbps": 31}}
FITTED = ["launch_us", "nccl_launch_us", "kernel_us", "memory_gbps", "tflops.float32", "tflops.float16", "tflops.bfloat16", "sm_count",
        "intra.latency_us", "intra.gbps"]
BENCHMARKS = {
    "collectives": (["bench", "all_reduce", "all_gather", "broadcast", "alltoall", "-b", "8", "-e", "256M", "-f", "8", "-c", "0"], 4),
    "p2p": (["bench", "p2p", "--bandwidth-sizes", "256K,32M", "-c", "0"], 4),
    # every message takes longer than its launch
    "messages": (["bench", "p2p", "--latency-sizes", "512K", "--bandwidth-sizes", "1M,32M", "-c", "0"], 4),
    "compute": (["bench", "compute"], 0),
    "launches": (["bench", "compute", "memory_kernels", "timed", "--size", "4K", "-n", "1"], 0),
    "variants": (["bench", "all_reduce", "all_gather", "-b", "8", "-e", "256M", "-f", "8", "-c", "0", "--sweep-algorithms", "-n", "2",
                  "-w", "1", "--repeats", "2"], 4),
    "overlap": (["bench", "overlap", "--sizes", "1M", "--ctas", "default", "-n", "2", "--repeats", "3"], 2),
    "comm": (["bench", "comm", "--repeats", "2"], 2),
}

OVERLAP = ["bench", "overlap", "--collective", "sendrecv", "--sizes", "256M", "--ctas", "default", "-n", "4", "--repeats", "3"]


@pytest.fixture(scope="module")
def measured(busbar, tmp_path_factory):
    """Returns measured(name): the result file of a benchmark on emulated GPUs with the hidden profile. Each benchmark runs once."""
    folder = tmp_path_factory.mktemp("measured")
    (folder / "hidden.json").write_text(json.dumps(HIDDEN))

    def file(name):
        path = folder / f"{name}.json"
        if not path.exists():
            args, ranks = BENCHMARKS[name]
            done = busbar.run(*args, "--json", path, "--quiet", ranks=ranks, env={"EMU_CLUSTER": "hidden.json", "EMU_DATA": "off"},
                              cwd=folder)
            assert done.returncode == 0, done.stderr
        return path

    return file


@pytest.fixture
def calibrate(busbar, tmp_path):
    """Returns calibrate(*args) -> (process, profile or None, summary or None)."""

    def run(*args):
        mine, summary = tmp_path / "mine.json", tmp_path / "summary.json"
        done = busbar.run("calibrate", *args, "-o", mine, "--json", summary, emulated=False, cwd=tmp_path)
        if done.returncode != 0:
            assert not mine.exists() and done.stdout == ""
            return done, None, None
        return done, json.loads(mine.read_text()), json.loads(summary.read_text())

    return run


def parameter(profile, key):
    for part in key.split("."):
        profile = profile[part]
    return profile


def assert_near(profile, keys, tolerance=0.02):
    off = {key: (parameter(profile, key), parameter(HIDDEN, key)) for key in keys
           if abs(parameter(profile, key) / parameter(HIDDEN, key) - 1) > tolerance}
    assert off == {}


def copy_of(path, to, change):
    data = json.loads(path.read_text())
    change(data)
    to.write_text(json.dumps(data))
    return to


# ---- round trip ----


def test_fits_a_hidden_profile_within_2_percent(busbar, measured, calibrate, tmp_path):
    files = [measured(name) for name in ("collectives", "p2p", "compute", "launches")]
    done, profile, summary = calibrate(*files)
    assert done.returncode == 0, done.stderr
    assert_near(profile, FITTED)
    assert {f["key"] for f in summary["parameters"] if f["from"]} == set(FITTED)
    for fit in summary["fits"]:
        assert fit["worst_error_percent"] < 2 and fit["outliers"] == 0, fit
    # The plan with the fitted profile predicts the measured times.
    plan = busbar.json("plan", *BENCHMARKS["collectives"][0][1:5], "-b", "8", "-e", "256M", "-f", "8", "--ranks", 4, "--cluster",
                       tmp_path / "mine.json",
                       tmp_path=tmp_path, emulated=False)
    rows = {(r["collective"], r["bytes"], r["placement"]): r["time_us"]["p50"] for r in plan["results"]}
    bench = json.loads(files[0].read_text())["results"]
    assert len(rows) == len(bench) > 60
    assert [r for r in bench if r["bytes"]
            and abs(rows[r["collective"], r["bytes"], r["placement"]] / r["time_us"]["p50"] - 1) > 0.02] == []


def test_p2p_messages_determine_the_links_without_collectives(measured, calibrate):
    done, profile, summary = calibrate(measured("messages"))
    assert_near(profile, ["intra.gbps", "intra.latency_us"])
    assert [f["name"] for f in summary["fits"]] == ["messages within a node"]
    # inter-node links were not measured and keep their nominal values
    assert profile["inter"] == {"latency_us": 10, "gbps": 25}


def test_fits_a_latency_that_the_initial_profile_hides_by_launch_time(measured, calibrate, tmp_path):
    """A message of 256 KiB takes 7.1 us. With the initial latency of 2 us instead of 5.3 us, the launch time of 6.3 us would determine
    the time for any rate."""
    (tmp_path / "quick.json").write_text(json.dumps({**HIDDEN, "intra": {"latency_us": 2, "gbps": 190}}))
    _, profile, summary = calibrate(measured("p2p"), "--from", tmp_path / "quick.json")
    assert_near(profile, ["intra.latency_us", "intra.gbps"])
    assert [fit["outliers"] for fit in summary["fits"]] == [0]


def test_gemms_of_bench_overlap_determine_their_rate(measured, calibrate):
    done, profile, _ = calibrate(measured("overlap"))
    assert_near(profile, ["tflops.bfloat16"])
    assert profile["memory_gbps"] == 2000


def test_undetermined_parameters_keep_their_nominal_value_and_are_listed(measured, calibrate):
    done, profile, summary = calibrate(measured("compute"))
    nominal = [f["key"] for f in summary["parameters"] if f["from"] is None]
    assert {"intra.latency_us", "intra.gbps", "inter.latency_us", "inter.gbps", "nccl_launch_us", "kernel_us"} <= set(nominal)
    listed = done.stdout.split("parameters that the measurements do not determine")[1]
    assert all(key in listed for key in nominal) and "intra.gbps" in listed
    assert profile["intra"] == {"latency_us": 4, "gbps": 200} and profile["nccl_launch_us"] == 3
    assert "All other parameters are those of emulated-default" in profile["source"] and "compute.json" in profile["source"]
    assert profile["name"] == "mine"


def test_parameters_of_the_host_are_listed_as_undetermined(measured, calibrate):
    done, _, _ = calibrate(measured("compute"), "--from", "b200-sxm-ib")
    listed = done.stdout.split("parameters that the measurements do not determine")[1]
    assert [key for key in ("host.op_us", "host.expert_us", "pcie_gbps", "peer_gbps", "tflops.float4") if key not in listed] == []


def test_outliers_are_ignored_and_listed(measured, calibrate, tmp_path):
    _, clean, _ = calibrate(measured("collectives"))

    def spoil(data):
        data["results"][10]["time_us"]["p50"] *= 3
        data["results"][21]["time_us"]["p50"] *= 0.4

    done, profile, summary = calibrate(copy_of(measured("collectives"), tmp_path / "spoiled.json", spoil))
    assert profile["intra"] == clean["intra"]
    assert [fit["outliers"] for fit in summary["fits"] if fit["name"] == "collectives within a node"] == [2]
    outliers = [r for r in summary["results"] if r["outlier"] and r["fit"] == "collectives within a node"]
    assert sorted(round(r["measured_us"] / r["fitted_us"], 2) for r in outliers) == [0.4, 3]
    assert "# outlier: " in done.stdout and "spoiled.json" in done.stdout

    def spoil_a_size(data):
        for row in data["results"]:
            row["time_us"]["p50"] *= 3 if (row["collective"], row["bytes"]) == ("all_reduce", 32 << 10) else 1

    done, _, _ = calibrate(copy_of(measured("collectives"), tmp_path / "size.json", spoil_a_size))
    lines = [line for line in done.stdout.splitlines() if line.startswith("# outlier: ")]
    assert [line.split(" in /")[0] for line in lines] == [
        "# outlier: all_reduce 32 KiB on 4 ranks", "# outlier: all_reduce 32 KiB in place on 4 ranks"]


def test_last_line_and_warnings_name_what_was_slow(busbar, calibrate, tmp_path):
    """A NIC at half its rate is in the results of bench p2p and not in those of the collectives, and a slow GPU is in those of bench
    compute: the profile has the rate of healthy links, and a warning and the last line name rank and host. Healthy results: neither."""
    healthy, slow = {"EMU_NODES": "2", "EMU_DATA": "off"}, {"link": "link=node1-nic1:0.5", "gpu": "rank=2:1.5"}
    runs = {"collectives": (["all_reduce", "-b", "8", "-e", "64M", "-f", "8", "-c", "0"], {}),
            "p2p": (["p2p", "--bandwidth-sizes", "256K,32M", "-c", "0"], {}),
            "slow_p2p": (["p2p", "--bandwidth-sizes", "256K,32M", "-c", "0"], {"EMU_SLOW": slow["link"]}),
            "slow_compute": (["compute", "--quick"], {"EMU_SLOW": slow["gpu"]})}
    for name, (args, more) in runs.items():
        done = busbar.run("bench", *args, "--quiet", "--json", tmp_path / f"{name}.json", ranks=4, env={**healthy, **more})
        assert done.returncode == 0, done.stderr
    done, profile, summary = calibrate("collectives.json", "p2p.json", "--gpus-per-node", 2)
    last = done.stdout.splitlines()[-1]
    assert done.stderr == "" and re.fullmatch(r"# accuracy: .*the measured times themselves: .*; measured times to which nothing was fitted: .* %; measured on 2 nodes only: "
                                              r"forecasts for other numbers of nodes may be far off, two other numbers of nodes would .*", last)
    assert summary["accuracy"]["doubtful_fit"] is None and summary["accuracy"]["other_rows"] > 0
    assert "--gpus-per-node" not in [fit["name"] for fit in summary["fits"]]
    rate = profile["inter"]["gbps"]
    busbar.run("bench", "all_reduce", "--sizes", "1K,1M", "-n", "2", "--quiet", "--json", tmp_path / "one.json", ranks=2, env={"EMU_DATA": "off"})
    done, _, _ = calibrate("one.json", "p2p.json", "--gpus-per-node", 2)
    assert done.stdout.splitlines()[-1].endswith("; collectives were measured on 1 node only: parameters between nodes are fitted to messages")
    done, profile, summary = calibrate("collectives.json", "slow_p2p.json", "--gpus-per-node", 2)
    assert profile["inter"]["gbps"] == pytest.approx(rate, rel=0.01)
    warnings, last = done.stderr.splitlines(), done.stdout.splitlines()[-1]
    assert warnings[0].startswith("busbar: warning: slow_p2p.json: slow when measured: rank 3 (vm-node1, 0000:02:00.0): bandwidth ")
    assert re.match(r"busbar: warning: messages between nodes: \d+ % of the times differ by more than 20 % from the fit, most of all "
                    r"message of 32 MiB between nodes in slow_p2p.json: measured 2\d+\.\d us, fitted 1\d+\.\d us$", warnings[1])
    plan = busbar.run("plan", "all_reduce", "--ranks", 4, "--sizes", "1K", "--cluster", tmp_path / "mine.json", emulated=False).stdout
    assert re.search(r"predicted for mine \(emulated\) \(DOES NOT HOLD for messages between nodes, sizes \d+ [KM]iB to 32 MiB\) \(modelled", plan)
    assert last.endswith("; another starting profile may hold, try: --from NAME (busbar list clusters)")
    assert re.match(r"# accuracy: DOES NOT HOLD for messages between nodes, sizes \d+ [KM]iB to 32 MiB; ", last) and "; slow when measured: rank 3 (vm-node1, 0000:02:00.0): " in last
    assert summary["accuracy"]["other_worst_percent"] == pytest.approx(50, abs=2) and summary["files"][1]["slow"] in last
    done, _, summary = calibrate("slow_compute.json")
    assert "slow_compute.json: slow when measured: rank 2 (vm-node1): GPU 0, kernels take up to 1.50 x" in done.stderr
    assert summary["files"][0]["slow"] in done.stdout.splitlines()[-1]


def test_the_last_line_states_the_error_at_sizes_that_the_fit_did_not_use(busbar, measured, calibrate, tmp_path):
    """The expected errors are those of two plans, each with a profile calibrated with every other size."""
    def disturb(data, keep=lambda size: True):
        data["results"] = [row for row in data["results"] if row["collective"] == "all_reduce" and keep(row["bytes"])]
        for row in data["results"]:
            row["time_us"]["p50"] *= 1 + 0.04 * (row["bytes"].bit_length() % 5)

    whole = copy_of(measured("collectives"), tmp_path / "whole.json", disturb)
    rows = json.loads(whole.read_text())["results"]
    sizes, errors = sorted({row["bytes"] for row in rows}), []
    for half in sizes[::2], sizes[1::2]:
        calibrate(copy_of(measured("collectives"), tmp_path / "half.json", lambda data: disturb(data, lambda size: size in half)))
        plan = busbar.json("plan", "all_reduce", "-b", "8", "-e", "256M", "-f", "8", "--ranks", 4, "--cluster", tmp_path / "mine.json",
                           tmp_path=tmp_path, emulated=False)
        us = {(row["bytes"], row["placement"]): row["time_us"]["p50"] for row in plan["results"]}
        errors += [100 * abs(us[row["bytes"], row["placement"]] / row["time_us"]["p50"] - 1) for row in rows if row["bytes"] not in half]
    done, _, summary = calibrate(whole)
    accuracy = summary["accuracy"]
    assert accuracy["left_out_rows"] == len(errors) == len(rows)
    assert accuracy["left_out_median_percent"] == pytest.approx(sorted(errors)[len(errors) // 2], rel=0.02)
    assert accuracy["left_out_worst_percent"] == pytest.approx(max(errors), rel=0.02) and max(errors) > 4
    last = done.stdout.splitlines()[-1]
    assert last.startswith(f"# accuracy: at sizes that were not measured, expect a median error of {accuracy['left_out_median_percent']:.2f} %, worst ")
    assert last.endswith("; collectives were measured on 1 node only: parameters between nodes are those of the starting profile")


# ---- NCCL variants ----


def profile_without_ring_channels(tmp_path):
    """The H100 profile without the channels of the ring: the alpha-beta model of emulated NCCL has no ring tail latency."""
    profile = json.loads((ROOT / "profiles/clusters/h100-sxm-ib.json").read_text())
    for variant in profile["nccl"]:
        variant.pop("channels", None)
    (tmp_path / "base.json").write_text(json.dumps(profile))
    return tmp_path / "base.json"


def test_fits_each_nccl_variant_separately(busbar, measured, calibrate, tmp_path):
    """Emulated RING SIMPLE has the latency and the rate of the link, RING LL 0.4 and 0.25 of them. Its trees do not follow NCCL's cost
    model."""
    def choose_fastest(data):  # forced rows that are faster than the choice of NCCL become the choice
        for row in data["results"]:
            chosen = [r for r in data["results"] if not r.get("forced") and r["collective"] == row["collective"]
                      and r["bytes"] == row["bytes"]
                   and r["placement"] == row["placement"]][0]
            if row.get("forced") and row["time_us"]["p50"] < chosen["time_us"]["p50"]:
                row["forced"] = False

    done, profile, summary = calibrate(copy_of(measured("variants"), tmp_path / "best.json", choose_fastest), "--from",
                                       profile_without_ring_channels(tmp_path))
    variants = {(w["algorithm"], w["protocol"]): w for w in profile["nccl"]}
    for variant, latency, rate in [(("ring", "Simple"), 1, 1), (("ring", "LL"), 0.4, 0.25), (("ring", "LL128"), 0.7, 0.9)]:
        # The emulator takes 2 x log2(4) latencies, a ring 2 x 3 steps; all_gather takes half of both.
        assert variants[variant]["gbps"] == pytest.approx(143 * rate, rel=0.02), variant
        assert variants[variant]["base_us"] + 6 * variants[variant]["intra_us"] == pytest.approx(4 * 5.3 * latency, rel=0.02), variant
        assert variants[variant]["base_us"] + 3 * variants[variant]["intra_us"] == pytest.approx(2 * 5.3 * latency, rel=0.02), variant
    assert {f["name"]: f["rows"] for f in summary["fits"]}["ring LL"] == 34
    # only all_reduce has trees
    assert {f["key"] for f in summary["parameters"] if f["correlated"]} >= {"nccl.tree.LL.base_us", "nccl.tree.LL.intra_us"}


def test_penalizes_variants_that_nccl_does_not_choose(busbar, measured, calibrate, tmp_path):
    """Emulated NCCL always chooses RING SIMPLE. In the fitted profile other variants are faster, but plan predicts the measured
    choice."""
    done, profile, summary = calibrate(measured("variants"), "--from", profile_without_ring_channels(tmp_path))
    assert done.returncode == 0, done.stderr
    assert set(summary["penalized_variants"]) >= {"ring LL", "ring LL128", "tree LL"} and "ring Simple" not in summary["penalized_variants"]
    assert "penalized: NCCL did not choose these variants" in done.stdout and len(profile["nccl"]) == 9
    plan = busbar.json("plan", "all_reduce", "all_gather", "-b", "8", "-e", "256M", "-f", "8", "--ranks", 4, "--cluster",
                       tmp_path / "mine.json",
                       tmp_path=tmp_path, emulated=False)
    bench = [r for r in json.loads(measured("variants").read_text())["results"] if not r.get("forced")]
    assert len(bench) == len(plan["results"]) > 30
    off = [(a["collective"], a["bytes"], a["time_us"]["p50"], b["time_us"]["p50"]) for a, b in zip(bench, plan["results"])
           if a["bytes"] and abs(b["time_us"]["p50"] / a["time_us"]["p50"] - 1) > 0.02]
    assert off == []
    # measurements on one node do not change the inter-node latency of a variant
    nominal = {(w["algorithm"], w["protocol"]): w for w in json.loads((ROOT / "profiles/clusters/h100-sxm-ib.json").read_text())["nccl"]}
    assert all(w["inter_us"] == nominal[w["algorithm"], w["protocol"]]["inter_us"] for w in profile["nccl"])


# ---- a machine of several nodes, with NCCL variants ----


@pytest.fixture(scope="module")
def cluster_files(busbar, tmp_path_factory):
    """Returns a hidden profile with changed H100 parameters, and the result files of benchmarks on 1, 2 and 4 nodes with it."""
    folder = tmp_path_factory.mktemp("cluster")
    hidden = json.loads((ROOT / "profiles/clusters/h100-sxm-ib.json").read_text())
    hidden |= {"name": "hidden", "gpus_per_node": 4, "nics_per_node": 4, "launch_us": 3.7, "nccl_launch_us": 6.3, "kernel_us": 2.9,
               "intra": {"latency_us": 7.4, "gbps": 271}, "inter": {"latency_us": 9.3, "gbps": 39.5}}
    hidden["achieved"] |= {"gemm": 0.58, "memory": 0.77}
    hidden["sharing"] |= {"collective_sms": 20, "message_sms": 3, "memory_bytes": 1.21}
    for i, variant in enumerate(hidden["nccl"]):
        for key, factor in [("base_us", 1.2 + 0.03 * i), ("intra_us", 0.8 + 0.02 * i), ("inter_us", 1.3 - 0.04 * i),
                            ("gbps", 0.83 + 0.01 * i),
                            ("nic", 0.93)]:
            variant[key] = round(variant[key] * factor, 4)
        if "chunk_us" in variant:
            variant["chunk_us"] = round(variant["chunk_us"] * (1.4 - 0.1 * i), 4)
    (folder / "hidden.json").write_text(json.dumps(hidden))
    collectives = ["bench", "all_reduce", "all_gather", "broadcast", "-b", "8", "-e", "1G", "-f", "8", "-c", "0", "--sweep-algorithms",
                   "-n", "1", "-w", "1", "--repeats", "1"]
    runs = {"one": (collectives, 4, 1), "two": (collectives, 8, 2), "four": (collectives, 4, 4),
            "p2p": (["bench", "p2p", "--bandwidth-sizes", "1M,32M", "-c", "0"], 8, 2), "compute": (["bench", "compute"], 0, 1),
            "gemms": (OVERLAP + ["--gemm", "32768x32768x512"], 4, 1), "memory": (OVERLAP + ["--gemm", "32768x32768x64"], 4, 1),
            "launches": (["bench", "compute", "memory_kernels", "timed", "--size", "4K", "-n", "1"], 0, 1)}
    for name, (args, ranks, nodes) in runs.items():
        done = busbar.run(*args, "--json", folder / f"{name}.json", "--quiet", ranks=ranks, cwd=folder,
                          env={"EMU_CLUSTER": "hidden.json", "EMU_DATA": "off", "EMU_NODES": str(nodes)})
        assert done.returncode == 0, done.stderr
    return hidden, {name: folder / f"{name}.json" for name in runs}


def test_fits_a_hidden_cluster_with_all_nccl_variants(busbar, cluster_files, calibrate, tmp_path):
    hidden, files = cluster_files
    done, profile, summary = calibrate(*files.values(), "--from", "h100-sxm-ib", "--gpus-per-node", 4)
    assert done.returncode == 0, done.stderr
    assert profile["gpus_per_node"] == profile["nics_per_node"] == 4 and "gpus_per_node is" not in done.stdout
    assert {f["key"]: f["from"] for f in summary["parameters"]}["nics_per_node"] == "--gpus-per-node"
    assert "gpus_per_node, nics_per_node: --gpus-per-node. " in profile["source"]
    assert [(f["ranks"], f["nodes"]) for f in summary["files"]][:3] == [(4, 1), (8, 2), (4, 4)]
    for fit in summary["fits"]:
        assert fit["worst_error_percent"] < 2 and fit["outliers"] == 0, fit
    independent = {f["key"]: f["value"] for f in summary["parameters"] if f["from"] and not f["correlated"] and not f["scaled"]}
    assert len(independent) > 45 and {"sharing.collective_sms", "sharing.message_sms", "sharing.memory_bytes", "nccl.nvls.Simple.chunk_us",
                                "nccl.nvls_tree.Simple.chunk_us"} <= set(independent)
    assert summary["penalized_variants"] == []
    variants = {f"{w['algorithm']}.{w['protocol']}": w for w in hidden["nccl"]}
    for key, value in independent.items():
        variant, _, part = key.removeprefix("nccl.").rpartition(".")
        assert value == pytest.approx(variants[variant][part] if key.startswith("nccl.") else parameter(hidden, key), rel=0.02), key
    # The fitted profile has the same node size, so plan predicts the times measured on two nodes.
    plan = busbar.json("plan", "all_reduce", "all_gather", "broadcast", "-b", "8", "-e", "1G", "-f", "8", "--ranks", 8, "--cluster",
                       tmp_path / "mine.json", tmp_path=tmp_path, emulated=False)
    bench = [r for r in json.loads(files["two"].read_text())["results"] if not r.get("forced")]
    assert len(bench) == len(plan["results"]) > 50
    assert [a["bytes"] for a, b in zip(bench, plan["results"])
            if a["bytes"] and abs(b["time_us"]["p50"] / a["time_us"]["p50"] - 1) > 0.02] == []


@pytest.mark.parametrize("message_sms,memory_bytes", [(1, 2.02), (5, 0.6), (7, 1.5)])
def test_fits_the_sms_and_memory_traffic_that_nccl_takes_from_gemms(busbar, calibrate, tmp_path, message_sms, memory_bytes):
    """One message in each direction occupies 2 or 3 of 132 SMs. A GEMM of 64 x 32768 x 32768 is slowed down by 2 us of memory
    traffic."""
    hidden = json.loads((ROOT / "profiles/clusters/h100-sxm-ib.json").read_text())
    hidden["sharing"] = {"collective_sms": 24, "message_sms": message_sms, "memory_bytes": memory_bytes}
    (tmp_path / "hidden.json").write_text(json.dumps(hidden))
    for name, k in (("gemms", 512), ("memory", 64)):
        done = busbar.run(*OVERLAP, "--gemm", f"32768x32768x{k}", "--json", f"{name}.json", "--quiet", ranks=2, cwd=tmp_path,
                          env={"EMU_CLUSTER": "hidden.json", "EMU_DATA": "off"})
        assert done.returncode == 0, done.stderr
    done, profile, summary = calibrate(tmp_path / "gemms.json", tmp_path / "memory.json", "--from", "h100-sxm-ib")
    assert profile["sharing"]["message_sms"] == message_sms
    assert profile["sharing"]["memory_bytes"] == pytest.approx(memory_bytes, rel=0.02)
    assert {f["name"]: f["rows"] for f in summary["fits"] if "during" in f["name"]} == {"GEMMs during sendrecv": 1, "GEMMs during NCCL": 2}
    assert all(fit["worst_error_percent"] < 2 for fit in summary["fits"])
    # memory-bound GEMMs do not determine SMs, and compute-bound GEMMs do not determine memory traffic
    _, profile, summary = calibrate(tmp_path / "memory.json", "--from", "h100-sxm-ib")
    assert profile["sharing"]["message_sms"] == 2 and profile["sharing"]["memory_bytes"] == pytest.approx(memory_bytes, rel=0.02)
    done, profile, summary = calibrate(tmp_path / "gemms.json", "--from", "h100-sxm-ib")
    assert profile["sharing"]["message_sms"] == message_sms and profile["sharing"]["memory_bytes"] == 1.5
    assert "sharing.memory_bytes" in done.stdout.split("parameters that the measurements do not determine")[1]


def test_gemms_of_few_tiles_do_not_determine_sms(busbar, calibrate, tmp_path):
    """16 tiles or fewer are one wave on 132 SMs and also on half of them; k is too small to be divided."""
    done = busbar.run(*OVERLAP, "--gemm", "256x256x2047", "--json", "few.json", "--quiet", ranks=2, cwd=tmp_path,
                      env={"EMU_CLUSTER": str(ROOT / "profiles/clusters/h100-sxm-ib.json"), "EMU_DATA": "off"})
    assert done.returncode == 0, done.stderr
    done, profile, summary = calibrate(tmp_path / "few.json", "--from", "h100-sxm-ib")
    assert [f["name"] for f in summary["fits"]] == ["kernels", "GEMMs during NCCL"]
    assert {f["key"] for f in summary["parameters"] if f["key"].startswith("sharing.") and f["from"]} == set()


def test_host_names_give_a_minimum_of_gpus_per_node(cluster_files, calibrate, tmp_path):
    """The run has two nodes of 4 ranks. This is more than the 2 GPUs per node of the small profile, which has half a NIC per GPU. With
    8 GPUs per node in the profile, the other GPUs may have been idle."""
    _, files = cluster_files
    base = json.loads((ROOT / "profiles/clusters/h100-sxm-ib.json").read_text())
    done, _, _ = calibrate(files["two"], "--gpus-per-node", 3)
    assert done.returncode == 2 and "two.json a host had 4 ranks" in done.stderr
    (tmp_path / "small.json").write_text(json.dumps(base | {"gpus_per_node": 2, "nics_per_node": 1}))
    done, profile, summary = calibrate(files["two"], "--from", tmp_path / "small.json")
    assert (profile["gpus_per_node"], profile["nics_per_node"]) == (4, 2)
    assert {f["key"]: f["from"] for f in summary["parameters"]}["gpus_per_node"] == "ranks per host"
    assert f"gpus_per_node, nics_per_node: {files['two']}, ranks per host. " in profile["source"]
    done, profile, summary = calibrate(files["two"], "--from", "h100-sxm-ib")
    assert (profile["gpus_per_node"], profile["nics_per_node"]) == (8, 8)
    assert "gpus_per_node is 8" in done.stdout and "--gpus-per-node 4" in done.stdout


def test_a_common_factor_of_all_variants_is_that_of_the_nics(cluster_files, calibrate, tmp_path):
    """The hidden profile has inter.gbps 39.5 of 48.5, and 0.93 of each nic: without messages only the product is measured."""
    hidden, files = cluster_files
    done, profile, _ = calibrate(files["one"], files["four"], "--from", "h100-sxm-ib", "--gpus-per-node", 4)
    assert done.returncode == 0 and profile["inter"]["gbps"] == pytest.approx(39.5 * 0.93, rel=0.01) and "NOT FITTED" not in done.stdout
    nominal = json.loads((ROOT / "profiles/clusters/h100-sxm-ib.json").read_text())
    assert [w["nic"] for w in profile["nccl"]] == pytest.approx([w["nic"] for w in nominal["nccl"]], rel=0.02)
    ring = json.loads(files["four"].read_text())
    ring["results"] = [row for row in ring["results"] if (row["algorithm"], row["protocol"]) == ("RING", "SIMPLE")]
    (tmp_path / "ring.json").write_text(json.dumps(ring))
    done, profile, _ = calibrate(tmp_path / "ring.json", "--from", "h100-sxm-ib", "--gpus-per-node", 4)
    assert profile["inter"]["gbps"] == pytest.approx(39.5 * 0.93, rel=0.01)  # also of one variant
    assert "; rates between nodes that were not measured are those of h100-sxm-ib x 0.757, as ring Simple;" in done.stdout.splitlines()[-1]


@pytest.fixture
def forty_gbps(busbar, tmp_path, monkeypatch):
    """Logs of all_reduce and all_gather on two and four nodes of H100, forecast with inter.gbps 40 of 48.5. Returns their names."""
    names = []
    for coll in ("all_reduce", "all_gather"):
        for nodes in (2, 4):
            us = {size: round(time, 2) for size, time in predicted(
                busbar, tmp_path, coll, [1024 << 2 * i for i in range(11)], 8 * nodes, "h100-sxm-ib", "--set", "inter.gbps=40").items()}
            names.append(f"{coll}{nodes}.log")
            (tmp_path / names[-1]).write_text(calibration_accuracy.table(
                {"coll": coll, "ranks": 8 * nodes, "gpn": 8, "dtype": "float", "dev": "NVIDIA H100 80GB HBM3", "us": us}, us))
    return names


def test_logs_show_variants_that_the_starting_profile_does_not_choose(busbar, calibrate, tmp_path):
    """With the hidden rates NCCL chooses ring LL128 for all_gather from 128 KiB on, with those of the starting profile LL up to 512 KiB:
    the sizes between are neither outliers of LL, nor show they that NCCL did not choose LL128. Truth: the forecast of the hidden profile."""
    (tmp_path / "hidden.json").write_text(json.dumps({"base": "h100-sxm-ib", "inter": {"gbps": 37}, "intra": {"gbps": 250}}))
    for coll, ranks in itertools.product(("all_reduce", "all_gather", "alltoall"), (8, 16)):
        us = predicted(busbar, tmp_path, coll, [8192 << 2 * i for i in range(9)], ranks, "hidden.json")
        (tmp_path / f"{coll}{ranks}.log").write_text(calibration_accuracy.table(
            {"coll": coll, "ranks": ranks, "gpn": 8, "dtype": "float", "dev": "NVIDIA H100 80GB HBM3", "us": us}, us))
    done, _, summary = calibrate(*sorted(path.name for path in tmp_path.glob("*.log")), "--from", "h100-sxm-ib")
    assert done.returncode == 0 and summary["penalized_variants"] == [] and not any(fit["outliers"] for fit in summary["fits"]), done.stdout
    profile = json.loads((tmp_path / "mine.json").read_text())  # also the latencies of LL128, as in the hidden profile
    assert [(v["base_us"], v["intra_us"], v["inter_us"]) for v in profile["nccl"] if v["protocol"] == "LL128" and "from" not in v] == [
        pytest.approx((14, 1.9, 4.2), rel=0.02)]  # without the launch of 20 operations, which the forecast does not have


def results_of_plan(busbar, tmp_path, coll, sizes, ranks, nodes, cluster="hidden.json"):
    """Writes the forecast as results of bench, with the variants that NCCL chose. Returns the name of the file."""
    plan = busbar.json("plan", coll, "--sizes", ",".join(map(str, sizes)), "--ranks", ranks, "--placement", "out_of_place", "--cluster",
                       tmp_path / cluster, tmp_path=tmp_path, emulated=False)
    (tmp_path / f"{coll}{ranks}.json").write_text(json.dumps({
        "schema": "busbar.bench/1", "command": ["bench", coll], "options": {}, "ranks": ranks, "nodes": nodes, "emulated": False,
        "devices": [{"rank": i, "host": f"h{i * nodes // ranks}", "name": "NVIDIA H100 80GB HBM3"} for i in range(ranks)], "status": "ok",
        "results": [row | {"start_barrier": True, "iterations": 20, "wall_us": None, "channels": 16} for row in plan["results"] if row["bytes"]]}))
    return f"{coll}{ranks}.json"


@pytest.mark.parametrize("protocols, factor, nodes", [("LL", 0.5, (2, 4)), ("LL LL128", 0.5, (2, 4)), ("LL128", 2, (2, 4)), ("LL", 0.5, (2,))])
def test_rates_of_protocols_that_latencies_cannot_replace_are_fitted(busbar, calibrate, tmp_path, protocols, factor, nodes):
    """NCCL uses LL and LL128 only where latencies take most of the time. Their rates of NICs were absorbed by latencies: 25 % too short and 45 % too long
    on 8 nodes. The rate of a protocol changes no other rate: 1 GiB, which is Simple, is as in the hidden profile."""
    hidden = json.loads((ROOT / "profiles/clusters/h100-sxm-ib.json").read_text())
    for variant in hidden["nccl"]:
        variant["nic"] *= factor if variant["protocol"] in protocols.split() else 1
    (tmp_path / "hidden.json").write_text(json.dumps(hidden))
    files = [results_of_plan(busbar, tmp_path, coll, [1024 << 2 * i for i in range(11)], 8 * n, n) for coll in ("all_reduce", "all_gather") for n in nodes]
    done, profile, _ = calibrate(*files, "--from", "h100-sxm-ib")
    assert done.returncode == 0, done.stderr
    sizes = [2048 << 2 * i for i in range(10)] if len(nodes) == 2 else [1 << 30]
    for coll in ("all_reduce", "reduce_scatter"):
        truth = predicted(busbar, tmp_path, coll, sizes, 64, "hidden.json")
        assert predicted(busbar, tmp_path, coll, sizes, 64) == pytest.approx(truth, rel=0.03), coll
    if len(nodes) == 2:
        assert {(v["algorithm"], v["protocol"]): v["nic"] for v in profile["nccl"] if v["algorithm"] == "ring"} == pytest.approx(
            {(v["algorithm"], v["protocol"]): v["nic"] for v in hidden["nccl"] if v["algorithm"] == "ring"}, rel=0.05)


@pytest.mark.parametrize("coll", ["all_reduce", "alltoall"])
def test_unmeasured_rates_between_nodes_have_the_factor_of_measured_ones(busbar, calibrate, tmp_path, forty_gbps, coll):
    """The logs determine the NIC's rate with ring and nvls_tree only; tree Simple, with 1.2 times this rate, was faster on 8 nodes than
    on 4. Truth: the forecast of the profile that the logs are from."""
    done, profile, summary = calibrate(*forty_gbps)
    assert done.returncode == 0, done.stderr
    assert "NCCL did not choose" not in done.stdout and (  # tables of nccl-tests do not record what it chose
        "penalized: the files do not record what NCCL chose" in done.stdout) == bool(summary["penalized_variants"])
    assert profile["inter"]["gbps"] == pytest.approx(40, rel=0.01)
    scaled = {p["key"]: p for p in summary["parameters"] if p["scaled"]}
    assert set(scaled) == {"inter.gbps"} and scaled["inter.gbps"]["from"] == "ring Simple"
    for ranks in (64, 256):
        truth = predicted(busbar, tmp_path, coll, [1 << 30], ranks, "h100-sxm-ib", "--set", "inter.gbps=40")
        assert predicted(busbar, tmp_path, coll, [1 << 30], ranks)[1 << 30] == pytest.approx(truth[1 << 30], rel=0.05), ranks


@pytest.mark.parametrize("colls", [["all_reduce"], ["all_reduce", "all_gather"]])
@pytest.mark.parametrize("slow, nodes", [("NICs", (2, 4)), ("NICs", (1, 2, 4)), ("links", (1, 2, 4))])
def test_slow_nics_and_slow_links_do_not_change_each_other(busbar, calibrate, tmp_path, colls, slow, nodes):
    """Either the NICs or all links have half of their rate. Slow NICs leave the rates of links and the times of one node unchanged; forecasts
    of other sizes, a collective and a number of nodes that were not measured are right. Slow links leave the rates of NICs unchanged."""
    hidden, files = json.loads((ROOT / "profiles/clusters/h100-sxm-ib.json").read_text()), []
    for section in [hidden["inter"]] if slow == "NICs" else [hidden["intra"], *hidden["nccl"]]:
        section["gbps"] /= 2
    (tmp_path / "hidden.json").write_text(json.dumps(hidden))
    for coll in colls:
        for n in nodes:
            us = predicted(busbar, tmp_path, coll, [1024 << 2 * i for i in range(12)], 8 * n, "hidden.json")
            files.append(f"{coll}{n}.log")
            (tmp_path / files[-1]).write_text(calibration_accuracy.table(
                {"coll": coll, "ranks": 8 * n, "gpn": 8, "dtype": "float", "dev": "NVIDIA H100 80GB HBM3", "us": us}, us))
    done, profile, _ = calibrate(*files, "--from", "h100-sxm-ib")
    assert done.returncode == 0, done.stderr
    assert profile["inter"]["gbps"] == pytest.approx(hidden["inter"]["gbps"], rel=0.02)
    assert [v["nic"] for v in profile["nccl"]] == pytest.approx([v["nic"] for v in hidden["nccl"]], rel=0.02)
    if slow == "NICs":
        assert profile["intra"]["gbps"] == pytest.approx(hidden["intra"]["gbps"], rel=0.02)
        assert [v["gbps"] for v in profile["nccl"]] == pytest.approx([v["gbps"] for v in hidden["nccl"]], rel=0.02)
        for coll, n in itertools.product(("all_reduce", "all_gather", "reduce_scatter"), (1, 2, 8)):
            truth = predicted(busbar, tmp_path, coll, [2048 << 3 * i for i in range(8)], 8 * n, "hidden.json")
            assert predicted(busbar, tmp_path, coll, truth, 8 * n) == pytest.approx(truth, rel=0.05), (coll, n)


def test_forced_variants_that_the_model_lacks_leave_the_rate_of_nics(busbar, calibrate, tmp_path):
    """The model has no NVLS for all_gather between nodes, so its time does not show the rate of the NICs, which is that of the starting profile."""
    run = busbar.json("bench", "all_reduce", "all_gather", "-b", "4K", "-e", "256M", "-f", "4", "-n", "2", "-w", "1", "--repeats", "1", ranks=16, tmp_path=tmp_path,
                      env={"EMU_CLUSTER": "h100-sxm-ib", "EMU_NODES": "2", "EMU_DATA": "off"})
    gathers = [row for row in run["results"] if row["collective"] == "all_gather"]
    for row in gathers:  # of --sweep-algorithms with an NCCL that has it
        row.update(forced=True, algorithm="NVLS", protocol="Simple")
    assert max(row["bytes"] for row in gathers) >= 1 << 28
    (tmp_path / "own.json").write_text(json.dumps(run))
    done, profile, _ = calibrate("own.json", "--from", "h100-sxm-ib")
    start = json.loads((ROOT / "profiles/clusters/h100-sxm-ib.json").read_text())
    assert done.returncode == 0 and profile["inter"]["gbps"] == pytest.approx(start["inter"]["gbps"], rel=0.02), done.stderr
    assert [v["nic"] for v in profile["nccl"]] == pytest.approx([v["nic"] for v in start["nccl"]], rel=0.02)


def test_plan_warns_of_unmeasured_messages(busbar, calibrate, tmp_path, forty_gbps):
    calibrate(*forty_gbps)
    note = "has no measurements that determine sends and receives between nodes; this prediction uses the values of h100-sxm-ib, rates x 0.825 as ring Simple"
    for args, expected in ((["alltoall", "--sizes", "1G"], True), (["all_reduce", "--sizes", "1G"], False),
                           (["transformer", "--model", "llama3_8b", "--tp", 8, "--pp", 2], True),
                           (["transformer", "--model", "llama3_8b", "--tp", 8], False)):
        done = busbar.run("plan", *args, "--ranks", 16, "--cluster", tmp_path / "mine.json", emulated=False)
        assert done.returncode == 0 and (note in done.stderr) == expected, (args, done.stderr)


@pytest.mark.parametrize("log", [False, True])
def test_sendrecv_determines_the_rate_of_messages(busbar, cluster_files, calibrate, tmp_path, log):
    """Each rank sends to the next one, so the slowest message of two nodes is that between the nodes."""
    hidden, files = cluster_files
    args = ("-b", "8", "-e", "64M", "-f", "8", "-g")
    for nodes in (1, 2):
        env = {"EMU_CLUSTER": files["one"].parent / "hidden.json", "EMU_DATA": "off", "EMU_NODES": str(nodes)}
        if log:
            done = busbar.run_program(busbar.build / "emulated" / "sendrecv_perf", *args, 4 * nodes, cwd=tmp_path, env=env)
            (tmp_path / f"{nodes}.json").write_text(done.stdout)
        else:
            done = busbar.run("bench", "sendrecv", *args, 4 * nodes, "--json", f"{nodes}.json", cwd=tmp_path, env=env)
        assert done.returncode == 0, done.stderr
    done, profile, _ = calibrate(tmp_path / "1.json", tmp_path / "2.json", "--from", "h100-sxm-ib", "--gpus-per-node", 4)
    assert done.returncode == 0 and "NOT FITTED" not in done.stdout
    for place in ("intra", "inter"):  # the log of the host clock also has the launches, which no row determines alone
        assert profile[place]["gbps"] == pytest.approx(hidden[place]["gbps"], rel=0.01)
        assert profile[place]["latency_us"] == pytest.approx(hidden[place]["latency_us"], rel=0.02)


def test_uncertainties_contain_the_hidden_values(busbar, calibrate, tmp_path):
    """Twelve logs of sendrecv between two nodes with 2 % noise. A 95 % interval misses at most 4 of 24 values with a probability of 0.99. The large
    sizes, about seven, determine the rate: 2.4 (Student) x 2 % / sqrt(7) = 1.8 %."""
    truth = predicted(busbar, tmp_path, "sendrecv", [1024 << i for i in range(17)], 16, "h100-sxm-ib", "--set", "inter.gbps=40", "--set", "inter.latency_us=20")
    inside, widths = 0, []
    for seed in range(12):
        noise = random.Random(seed)
        us = {size: time * math.exp(noise.gauss(0, 0.02)) for size, time in truth.items()}
        (tmp_path / "s.log").write_text(calibration_accuracy.table(
            {"coll": "sendrecv", "ranks": 16, "gpn": 8, "dtype": "float", "dev": "NVIDIA H100 80GB HBM3", "us": us}, us))
        done, _, summary = calibrate("s.log", "--from", "h100-sxm-ib")
        found = {p["key"]: p for p in summary["parameters"] if p["key"] in ("inter.gbps", "inter.latency_us")}
        assert done.returncode == 0 and re.search(r"inter\.gbps +48\.5 +\S+ +\d+\.\d +messages between nodes", done.stdout), done.stdout
        for key, value in (("inter.gbps", 40), ("inter.latency_us", 19.75)):  # the fit subtracts 5 us to launch 20 operations
            inside += abs(value / found[key]["value"] - 1) <= found[key]["uncertainty_percent"] / 100
        widths.append(found["inter.gbps"]["uncertainty_percent"])
        assert all(p["uncertainty_percent"] is None for p in summary["parameters"] if not p["from"] or p["correlated"])
    assert inside >= 20 and 1.2 < sum(widths) / 12 < 2.7, (inside, widths)


def group_files(busbar, tmp_path, inter, *colls, ranks=(8, 12, 16)):
    """Results on nodes of 4 GPUs, like H100 with these values between nodes."""
    hidden = json.loads((ROOT / "profiles/clusters/h100-sxm-ib.json").read_text()) | {"gpus_per_node": 4, "nics_per_node": 4}
    hidden["inter"] |= inter
    (tmp_path / "hidden.json").write_text(json.dumps(hidden))
    for n in ranks:
        done = busbar.run("bench", *colls, "-b", "128", "-e", "64M", "-f", "4", "-c", "0", "-n", "1", "-w", "1", "--repeats", "1", "--json",
                          tmp_path / f"{n}.json", "--quiet", ranks=n, cwd=tmp_path, env={"EMU_CLUSTER": "hidden.json", "EMU_DATA": "off"})
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("group_us,message_us", [(0, 5), (0, 1.2), (40, 4), (12, 0.8)])
def test_groups_of_messages_between_nodes_are_fitted(busbar, calibrate, tmp_path, group_us, message_us):
    """Two numbers of nodes and single messages separate latency, group and message; without the latter, latency + group is a sum.
    An alltoall on 16 ranks was not measured: 12 messages of a rank go to other nodes."""
    group_files(busbar, tmp_path, {"latency_us": 11, "group_us": group_us, "message_us": message_us}, "alltoall", "sendrecv")
    _, profile, _ = calibrate("8.json", "12.json", "--from", "h100-sxm-ib", "--gpus-per-node", 4)
    inter = profile["inter"]
    assert inter["latency_us"] == pytest.approx(11, rel=0.02) and inter.get("group_us", 0) == pytest.approx(group_us, rel=0.03, abs=0.2)
    assert inter["message_us"] == pytest.approx(message_us, rel=0.03)
    for name in ("8.json", "12.json"):
        copy_of(tmp_path / name, tmp_path / name, lambda data: data.update(results=[r for r in data["results"] if r["collective"] == "alltoall"]))
    for files in (["8.json", "12.json"], ["12.json"]):
        done, profile, summary = calibrate(*files, "--from", "h100-sxm-ib", "--gpus-per-node", 4)
        assert profile["inter"]["latency_us"] <= 16
        sums = [profile["inter"]["latency_us"] + profile["inter"].get("group_us", 0) + k * profile["inter"]["message_us"] for k in (8, 12)]
        assert sums[:len(files)] == pytest.approx([11 + group_us + k * message_us for k in (8, 12)][:len(files)], rel=0.03)
        separated = {p["key"]: not p["correlated"] for p in summary["parameters"]}
        assert separated["inter.message_us"] == (len(files) == 2) and not separated["inter.group_us"] and not separated["inter.latency_us"]
        listed = done.stdout.split("# the measurements determine only a combination of these parameters")[1].split("#\n")[0]
        assert all((f"inter.{key}_us" in listed) != separated[f"inter.{key}_us"] for key in ("latency", "group", "message"))
        advice = [text.split(",")[0] for text in summary["next_measurements"] if "inter.group_us" in text]
        assert advice == ["sendrecv between nodes" if len(files) == 2 else "alltoall on another number of nodes"]


def test_sizes_of_an_alltoall_for_which_the_model_is_wrong_are_no_outliers(busbar, calibrate, tmp_path):
    group_files(busbar, tmp_path, {}, "alltoall", "sendrecv", "all_reduce", ranks=(8, 12))

    def spoil(sizes):
        def change(data):
            for row in data["results"]:
                row["time_us"]["p50"] *= 3 if row["collective"] == "alltoall" and row["bytes"] in sizes else 1
        return change

    sizes = sorted({row["bytes"] for row in json.loads((tmp_path / "12.json").read_text())["results"] if row["collective"] == "alltoall"})
    copy_of(tmp_path / "12.json", tmp_path / "many.json", spoil(sizes[3:6]))
    copy_of(tmp_path / "12.json", tmp_path / "one.json", spoil(sizes[4:5]))
    done, profile, summary = calibrate("8.json", "one.json", "--from", "h100-sxm-ib", "--gpus-per-node", 4)
    assert summary["accuracy"]["outliers"] == 1 and summary["accuracy"]["doubtful_fit"] is None
    assert (profile["left_out"]["size_outliers"], profile["left_out"]["collective_outliers"]) == (1, 0)  # of alltoall
    assert done.stdout.count("# outlier: alltoall ") == 1 and re.search(r" worst \d+\.\d\d % without 1 outlier\b", done.stdout.splitlines()[-1])
    assert profile["inter"]["message_us"] == pytest.approx(2.4, rel=0.02)
    done, _, summary = calibrate("8.json", "many.json", "--from", "h100-sxm-ib", "--gpus-per-node", 4)
    assert summary["accuracy"]["outliers"] == 0 and summary["accuracy"]["doubtful_fit"] == "alltoall"
    assert summary["accuracy"]["fitted_worst_percent"] == pytest.approx(67, abs=1)
    assert re.match(r"# accuracy: DOES NOT HOLD for alltoall, sizes 7.9 KiB to 127.9 KiB; ", done.stdout.splitlines()[-1])
    copy_of(tmp_path / "8.json", tmp_path / "8.json", lambda data: data.update(results=[r for r in data["results"] if r["collective"] == "all_reduce"]))
    done, profile, _ = calibrate("8.json", "--from", "h100-sxm-ib", "--gpus-per-node", 4)
    listed = done.stdout.split("parameters that the measurements do not determine")[1]
    assert "inter.group_us" in listed and "inter.message_us" in listed and profile["inter"]["message_us"] == 2.4


def test_rows_of_one_node_leave_inter_node_parameters_unchanged(cluster_files, calibrate):
    hidden, files = cluster_files
    nominal = json.loads((ROOT / "profiles/clusters/h100-sxm-ib.json").read_text())
    _, profile, summary = calibrate(files["one"], "--from", "h100-sxm-ib")
    assert profile["inter"] == nominal["inter"] | {"from": "h100-sxm-ib"}
    assert [w["inter_us"] for w in profile["nccl"]] == [w["inter_us"] for w in nominal["nccl"]]
    assert [w["nic"] for w in profile["nccl"]] == [w["nic"] for w in nominal["nccl"]]


def test_plan_names_variants_that_the_calibration_did_not_measure(busbar, cluster_files, calibrate, tmp_path):
    """Two ranks do not use NVLS, eight do; and one node does not determine the latency between nodes."""
    def plan(*args):
        return busbar.run("plan", *args, "--cluster", tmp_path / "mine.json", "--quiet", emulated=False).stderr

    _, files = cluster_files
    done, profile, _ = calibrate(files["one"], files["two"], files["four"], "--from", "h100-sxm-ib", "--gpus-per-node", 4)
    assert "nodes only" not in done.stdout and plan("all_reduce", "--ranks", 4, "--sizes", "1G") == ""
    calibrate(files["one"], "--from", "h100-sxm-ib", "--gpus-per-node", 4)
    note = "busbar: warning: mine (emulated) has no measurements that determine {}; this prediction uses the values of h100-sxm-ib\n"
    assert plan("all_reduce", "--ranks", 8, "--sizes", "1G") == note.format("nvls_tree Simple between nodes")
    done = busbar.run("plan", "all_reduce", "reduce", "--ranks", 8, "--sizes", "1G", "--cluster", tmp_path / "mine.json", "--json", "plan.json",
                      emulated=False, cwd=tmp_path)
    assert re.findall("# accuracy: (.*)", done.stdout) == json.loads((tmp_path / "plan.json").read_text())["predicted"]["accuracy"]
    assert done.stdout.endswith("# accuracy: reduce, not measured on these ranks: error unknown with ring Simple between nodes, not measured\n")
    assert "ring Simple between nodes" in plan("transformer", "--model", "gpt2_small", "--ranks", 8, "--dp-sync", "zero3")
    (tmp_path / "mine.json").rename(tmp_path / "one.json")
    calibrate(files["one"], files["two"], files["four"], "--from", tmp_path / "one.json", "--gpus-per-node", 4)
    assert plan("all_reduce", "--ranks", 8, "--sizes", "1G") == ""
    busbar.run("bench", "all_reduce", "-b", "1M", "-e", "1G", "-f", "8", "--json", tmp_path / "pair.json", "--quiet", ranks=2,
               env={"EMU_CLUSTER": "h100-sxm-ib", "EMU_DATA": "off"}, cwd=tmp_path)
    done, _, _ = calibrate("pair.json")
    assert "# starting profile: h100-sxm-ib, selected by EMU_CLUSTER of the files\n" in done.stdout
    assert plan("all_reduce", "--ranks", 8, "--sizes", "1G") == note.format("nvls Simple within a node")


# ---- achieved fractions of nominal rates ----


def gemm_us(m, n, k, tflops, element_bytes, gbps, sms=132):
    """The cost model of profiles/clusters/README.md for GEMMs that fill tiles of 256 x 128."""
    waves = -(-(m // 256) * (n // 128) // sms)
    return max(2 * m * n * k, waves * 2 * 256 * 128 * k * sms / 1.2) / (tflops * 1e6) + 0.5 * element_bytes * m * n / (gbps * 1e3)


def compute_file(path, rates, copy_gbps):
    """Writes a result of bench compute on an H100: GEMMs of each type at the given rates, memory-bound kernels of 256 MiB."""
    def stats(us):
        return {"min": us, "p50": us, "p90": us, "p99": None, "max": us, "mean": us, "ci95": [us, us]}

    shapes = [(8192, 8192, 8192), (4096, 8192, 4096), (2048, 12288, 12288), (8192, 4096, 1024), (16384, 8192, 2048)]
    rows = [{"section": "gemm", "iterations": 20, "name": "x", "dtype": t, "m": m, "n": n, "k": k, "batch": 1,
             "time_us": stats(gemm_us(m, n, k, rate, 4 if t == "float" else 2, copy_gbps))}
            for t, rate in rates.items() for m, n, k in shapes]
    rows += [{"section": "memory_kernels", "iterations": 20, "name": "x", "dtype": "float", "bytes": 1 << 28,
              "time_us": stats((1 << 28) / copy_gbps / 1e3)}
             for _ in range(6)]
    path.write_text(json.dumps({"schema": "busbar.bench/1", "command": ["busbar", "bench", "compute"], "ranks": 1, "nodes": 1,
                                "emulated": False,
                                "devices": [{"rank": 0, "name": "NVIDIA H100 80GB HBM3"}], "results": rows, "status": "ok"}))
    return path


def test_fits_the_achieved_fraction_of_nominal_rates(calibrate, tmp_path):
    """bfloat16 keeps its nominal 989 TFLOP/s, and 700 of it is the achieved fraction. half and float get nominal rates for the same
    fraction."""
    file = compute_file(tmp_path / "c.json", {"bfloat16": 700, "half": 650, "float": 50}, 2800)
    done, profile, summary = calibrate(file)
    assert done.returncode == 0, done.stderr
    assert profile["tflops"]["bfloat16"] == 989 and profile["memory_gbps"] == 3350
    assert profile["achieved"]["gemm"] == pytest.approx(700 / 989, rel=0.01)
    assert profile["achieved"]["memory"] == pytest.approx(2800 / 3350, rel=0.01)
    assert profile["tflops"]["float16"] * 700 / 989 == pytest.approx(650, rel=0.01)
    assert profile["tflops"]["float32"] * 700 / 989 == pytest.approx(50, rel=0.01)
    assert profile["achieved"]["attention_forward"] == 0.58 and "achieved.attention_forward" in done.stdout.split("parameters that the measurements do not determine")[1]


def test_keeps_the_achieved_fraction_without_16_bit_gemms(calibrate, tmp_path):
    _, profile, _ = calibrate(compute_file(tmp_path / "c.json", {"float": 50}, 2800))
    assert profile["achieved"]["gemm"] == 0.675
    assert profile["tflops"]["float32"] * 0.675 == pytest.approx(50, rel=0.01) and profile["tflops"]["bfloat16"] == 989


def test_channels_determine_the_sms_of_collectives(measured, calibrate, tmp_path):
    base = json.loads((ROOT / "profiles/clusters/h100-sxm-ib.json").read_text())
    (tmp_path / "base.json").write_text(json.dumps(base | {"sharing": {"collective_sms": 9, "message_sms": 2, "memory_bytes": 1.5}}))

    def use_24(data):  # like NCCL: fewer channels for small messages
        for row in data["results"]:
            row["channels"] = 24 if row["bytes"] >= 1 << 20 else 2

    file = copy_of(measured("collectives"), tmp_path / "channels.json", use_24)
    _, profile, summary = calibrate(file, "--from", tmp_path / "base.json")
    assert profile["sharing"] == {"collective_sms": 24, "message_sms": 2, "memory_bytes": 1.5}
    _, profile, summary = calibrate(measured("p2p"), "--from", tmp_path / "base.json")
    assert profile["sharing"]["collective_sms"] == 9
    assert {f["key"] for f in summary["parameters"] if f["key"].startswith("sharing.") and not f["from"]} == {
        "sharing.collective_sms", "sharing.message_sms", "sharing.memory_bytes"}


# ---- nccl-tests ----


def test_nccl_tests_json_determines_the_links(busbar, measured, calibrate, tmp_path):
    """nccl-tests measures with the host clock: each sample contains one launch, 6.3 us for 20 operations."""
    measured("p2p")
    done = busbar.run_program(busbar.build / "emulated" / "all_reduce_perf", "-b", "8", "-e", "256M", "-f", "8", "-g", "4", "-c", "0",
                              "-J", "f.json",
                              cwd=tmp_path, env={"EMU_CLUSTER": str(measured("p2p").parent / "hidden.json"), "EMU_DATA": "off"})
    assert done.returncode == 0, done.stderr
    _, profile, summary = calibrate(tmp_path / "f.json")
    assert_near(profile, ["intra.latency_us", "intra.gbps"])
    assert [(f["what"], f["ranks"], f["rows"]) for f in summary["files"]] == [("nccl-tests", 4, 18)]
    assert profile["emulated"] is True  # busbar records this flag; nccl-tests does not


def test_nccl_tests_json_lists_one_device_per_process(busbar, measured, calibrate, tmp_path):
    """Published times of 8 H100 in the format of nccl-tests, one process with 8 GPUs: only small changes of the shipped profile are
    needed."""
    times = {8: 13.7, 1 << 20: 27.4, 1 << 30: 4029}
    file = {"version": 3, "args": ["./build/all_reduce_perf"], "env": [], "nccl_version": 22809, "start_time": "now",
            "config": {"nthreads": 1, "ngpus": 8, "iterations": 20, "graph": 0, "blocking_collectives": "false",
                       "devices": [{"rank": 0, "group": 0, "pid": 1, "hostname": "a", "device": 0,
                                    "device_info": "NVIDIA H100 80GB HBM3"}]},
            "results": [{"size": s, "count": s // 4, "type": "float", "redop": "sum", "root": "-1", "in_place": None,
                         "out_of_place": {"time": t, "alg_bw": 1, "bus_bw": 1, "nwrong": 0}} for s, t in times.items()]}
    (tmp_path / "f.json").write_text(json.dumps(file))
    _, profile, summary = calibrate(tmp_path / "f.json")
    assert [(f["ranks"], f["nodes"]) for f in summary["files"]] == [(8, 1)] and summary["from"] == "h100-sxm-ib"
    rejected = busbar.run("calibrate", tmp_path / "f.json", "--gpus-per-node", 4, "-o", tmp_path / "few.json", emulated=False)
    assert rejected.returncode == 2 and "f.json a host had 8 ranks" in rejected.stderr
    change = {f["key"]: f["value"] / f["nominal"] for f in summary["parameters"] if f["from"] and f["nominal"]}
    assert change and all(0.85 < factor < 1.15 for factor in change.values()), change
    plan = busbar.json("plan", "all_reduce", "--sizes", "8,1M,1G", "--ranks", 8, "--cluster", tmp_path / "mine.json", "--placement",
                       "out_of_place", tmp_path=tmp_path, emulated=False)
    assert [r["time_us"]["p50"] for r in plan["results"]] == pytest.approx(list(times.values()), rel=0.03)


def test_nccl_tests_text_determines_the_links(busbar, measured, calibrate, tmp_path):
    """The table of stdout: complete, tagged by mpirun, and without the line that names the operation. Times have two decimals."""
    measured("p2p")
    done = busbar.run_program(busbar.build / "emulated" / "all_gather_perf", "-b", "1K", "-e", "256M", "-f", "8", "-g", "4", "-c", "0",
                              cwd=tmp_path, env={"EMU_CLUSTER": str(measured("p2p").parent / "hidden.json"), "EMU_DATA": "off"})
    assert done.returncode == 0, done.stderr
    (tmp_path / "run.log").write_text(done.stdout)
    (tmp_path / "tagged.log").write_text("Warning: known hosts\n" + "".join(f"[1,0]<stdout>:{line}"
                                                                            for line in done.stdout.splitlines(True)))
    (tmp_path / "old.log").write_text(re.sub(r"# Collective test.*\n", "", done.stdout))
    for argument in (tmp_path / "run.log", tmp_path / "tagged.log", f"all_gather={tmp_path / 'old.log'}"):
        done, profile, summary = calibrate(argument)
        assert done.returncode == 0, done.stderr
        assert_near(profile, ["intra.latency_us", "intra.gbps"])
        assert [(f["what"], f["ranks"], f["nodes"], f["rows"], f["file"]) for f in summary["files"]] == [
            ("nccl-tests", 4, 1, 14, str(argument).removeprefix("all_gather="))]
        assert profile["emulated"] is True


H100_LOG = """# Collective test starting: all_reduce_perf
# nThread 1 nGpus 1 minBytes 8 maxBytes 1073741824 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0
#
# Using devices
{devices}#
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
{rows}# Out of bounds values : 0 OK
# Avg bus bandwidth    : 160
"""


def h100_log(hosts=("a",), name="NVIDIA H100 80GB HBM3", group=0, rows=((8, 13.7), (1 << 20, 27.4), (1 << 30, 4029))):
    devices = "".join(f"#  Rank {8 * h + i:2} Group {group:2} Pid {4000 + i:6} on {host:>10} device {i:2} [0000:{i:02x}:00] {name}\n"
                      for h, host in enumerate(hosts) for i in range(8))
    factor = 2 * (8 * len(hosts) - 1) / (8 * len(hosts))
    values = [(size, us, size / us / 1e3) for size, us in rows]
    return H100_LOG.format(devices=devices, rows="".join(
        f"{size:12}  {size // 4:12}     float     sum      -1  {us:7.2f}  {bw:6.2f}  {bw * factor:6.2f}      0  {us:7.2f}  {bw:6.2f}  "
        f"{bw * factor:6.2f}    N/A\n"
        for size, us, bw in values))


def test_nccl_tests_text_gives_ranks_nodes_and_the_initial_profile(calibrate, tmp_path):
    for hosts in (("a",), ("a", "b")):
        (tmp_path / "h.log").write_text(h100_log(hosts))
        done, profile, summary = calibrate(tmp_path / "h.log")
        assert done.returncode == 0, done.stderr
        assert [(f["ranks"], f["nodes"], f["rows"]) for f in summary["files"]] == [(8 * len(hosts), len(hosts), 6)]
        assert summary["from"] == "h100-sxm-ib" and "emulated" not in profile and summary["emulated"] is False


def test_fit_that_does_not_hold_promises_nothing_for_other_sizes(busbar, calibrate, tmp_path):
    """The emulated profile has no NCCL variants. A fit to half of the sizes is by chance closer to the others than the fit to all."""
    files = []
    for collective in ("all_reduce", "alltoall"):
        files.append(tmp_path / f"{collective}.json")
        busbar.run("bench", collective, "-b", "8", "-e", "512M", "-f", "4", "-n", "2", "-w", "1", "--repeats", "1", "--quiet", "--json", files[-1], ranks=16,
                   env={"EMU_DATA": "off", "EMU_CLUSTER": "h100-sxm-ib"})
    for count in (2, 1):
        (tmp_path / "mine.json").unlink(missing_ok=True)
        done, _, summary = calibrate(*files[:count], "--from", "emulated-default")
        accuracy, last = summary["accuracy"], done.stdout.splitlines()[-1]
        assert re.match(r"# accuracy: DOES NOT HOLD for collectives between nodes, sizes .* to .*; ", last)
        better = accuracy["left_out_median_percent"] < accuracy["fitted_median_percent"]
        assert better == (count == 2) and ("at sizes that were not measured, expect" in last) != better, last


@pytest.mark.parametrize("step,sizes,ends", [
    ("2(factor)", (0, 8, 1 << 15), "32 KiB"), ("2(factor)", (8, 1 << 29), "512 MiB"), ("4(factor)", (8, 1 << 29), None),
    ("134217728(bytes)", (8, 805306368), "768 MiB"), ("268435456(bytes)", (8, 805306369), None)])
def test_log_that_ends_before_its_largest_size_is_reported(calibrate, tmp_path, step, sizes, ends):
    """The header has maxBytes 1 GiB. The rows of the cut log are used, except those of 0 bytes."""
    rows = [(size, 13.7 + size / 260e3) for size in sizes]
    (tmp_path / "h.log").write_text(h100_log(rows=rows).replace("step: 2(factor)", f"step: {step}").split("# Out of bounds")[0])
    done, _, summary = calibrate("h.log")
    warning = f"busbar: warning: h.log: the table of all_reduce_perf ends at {ends}, before maxBytes 1 GiB of its header: the output is incomplete"
    assert done.returncode == 0 and (warning in done.stderr.splitlines()) == bool(ends), done.stderr
    assert "is incomplete" not in done.stderr or ends
    empty = 2 * (0 in sizes)
    assert (summary["files"][0]["rows"], summary["files"][0]["unused_rows"]) == (2 * len(sizes) - empty, empty)
    assert f", {empty} unused{' (0 bytes)' if empty else ''}\n" in done.stdout


def test_next_measurements_determine_what_was_missing(busbar, calibrate, tmp_path):
    """Eight A100 with other latencies than the shipped ones: all_reduce alone has twice the steps of the others at all sizes; with
    all_gather and alltoall of all sizes both latencies are exact, and nothing is advised."""
    slow = json.loads((ROOT / "profiles/clusters/a100-sxm-ib.json").read_text())
    for variant in slow["nccl"]:
        variant.update(base_us=variant["base_us"] + 9, intra_us=variant["intra_us"] * 1.2)
    (tmp_path / "slow.json").write_text(json.dumps(slow))
    sizes = [8 << 2 * i for i in range(16)]
    for coll in "all_reduce", "all_gather", "alltoall":
        us = {size: round(time, 2) for size, time in predicted(busbar, tmp_path, coll, sizes[3:], cluster="slow.json").items()}
        (tmp_path / f"{coll}.log").write_text(calibration_accuracy.table(
            {"coll": coll, "ranks": 8, "gpn": 8, "dtype": "float", "dev": "NVIDIA A100-SXM4-80GB", "us": us}, us))
    advice = {"ring": "all_gather, to separate the start of a ring (base_us) from its steps (intra_us)",
              "link": "alltoall, for messages inside a node (intra.latency_us, intra.gbps)"}
    for files, expected in ((["all_reduce.log"], ["ring", "link"]), (["all_reduce.log", "alltoall.log"], ["ring"]),
                            (["all_reduce.log", "all_gather.log"], ["link"]), (["all_reduce.log", "all_gather.log", "alltoall.log"], [])):
        done, profile, summary = calibrate(*files)
        assert summary["next_measurements"] == [advice[key] for key in expected]
        line = "".join(line for line in done.stdout.splitlines(True) if line.startswith("# to determine the rest, measure also: "))
        assert line == (f"# to determine the rest, measure also: {'; '.join(advice[key] for key in expected)}\n" if expected else "")
        correlated = [p["key"] for p in summary["parameters"] if p["correlated"]]
        assert any(re.match(r"nccl.ring.*intra_us", key) for key in correlated) == ("ring" in expected), correlated
    ring = {v["protocol"]: v for v in profile["nccl"] if v["algorithm"] == "ring"}
    assert all(ring[v["protocol"]][key] == pytest.approx(v[key], rel=0.1) for v in slow["nccl"] if v["algorithm"] == "ring"
               for key in ("base_us", "intra_us") if v["protocol"] == "Simple")


def test_left_out_collectives_are_in_the_report_the_profile_and_plan(busbar, calibrate, tmp_path):
    """The expected errors of left-out collectives are those of calibrations with the other one (SLOW_HOST)."""
    logs = {}
    for coll, times in SLOW_HOST.items():
        us = {mib << 20: time for mib, time in times.items()}
        logs[coll] = us
        (tmp_path / f"{coll}.log").write_text(calibration_accuracy.table(
            {"coll": coll, "ranks": 8, "gpn": 8, "dtype": "bfloat16", "dev": "NVIDIA H100 80GB HBM3", "us": us}, us))
    errors = []
    for coll, other in (("all_reduce", "reduce_scatter"), ("reduce_scatter", "all_reduce")):
        done, profile, summary = calibrate(f"{other}.log")
        assert summary["accuracy"]["left_out_collective_rows"] == 0 and profile["left_out"]["collective_rows"] == 0
        assert "for other collectives" not in done.stdout
        errors += [100 * abs(time / logs[coll][size] - 1) for size, time in predicted(busbar, tmp_path, coll, logs[coll]).items()]
    done, profile, summary = calibrate("all_reduce.log", "reduce_scatter.log")
    accuracy, left_out = summary["accuracy"], profile["left_out"]
    assert accuracy["left_out_collective_rows"] == left_out["collective_rows"] <= len(errors) == 16
    assert accuracy["left_out_collective_worst_percent"] <= max(errors) + 0.5
    assert accuracy["left_out_collective_median_percent"] == pytest.approx(sorted(errors)[8], rel=0.4)
    assert "for other collectives on these ranks, but not alltoall, gather and scatter: median " in done.stdout.splitlines()[-1]
    plan = busbar.json("plan", "all_reduce", "all_gather", "alltoall", "--ranks", 8, "--sizes", "1M", "--cluster", tmp_path / "mine.json",
                       tmp_path=tmp_path, emulated=False)
    assert plan["predicted"]["accuracy"] == [
        f"all_reduce, measured from 1 MiB to 128 MiB: median error {left_out['size_median_percent']:.2g}%, 90% within "
        f"{left_out['size_p90_percent']:.2g}%, of sizes that the calibration left out",
        f"all_gather, not measured on these ranks: median error {left_out['collective_median_percent']:.2g}%, 90% within "
        f"{left_out['collective_p90_percent']:.2g}%, of collectives that the calibration left out",
        "alltoall, not measured on these ranks: error unknown"]
    (tmp_path / "few.json").write_text(json.dumps(profile | {"left_out": left_out | {"size_rows": 0}}))
    (tmp_path / "one.json").write_text(json.dumps(profile | {"left_out": left_out | {"size_outliers": 1, "collective_outliers": 2}}))
    one = busbar.json("plan", "all_reduce", "all_gather", "--ranks", 8, "--sizes", "1M", "--cluster", tmp_path / "one.json", tmp_path=tmp_path, emulated=False)
    assert one["predicted"]["accuracy"] == [text + end for text, end in zip(plan["predicted"]["accuracy"], (", without 1 outlier", ", without 2 outliers"))]
    few = busbar.json("plan", "all_reduce", "--ranks", 8, "--sizes", "1M", "--cluster", tmp_path / "few.json", tmp_path=tmp_path, emulated=False)
    assert few["predicted"]["accuracy"] == ["all_reduce, measured from 1 MiB to 128 MiB: error unknown, because too few sizes were measured to leave some out"]


@pytest.mark.parametrize("line, what", [
    ("all_reduce --ranks 8 -b 1M -e 128M -f 8", "all_reduce, measured from 1 MiB to 128 MiB: "),
    ("all_reduce --ranks 8 -b 1M -e 1G -f 8", "all_reduce, measured from 1 MiB to 128 MiB, extrapolated up to 1 GiB: "),
    ("all_reduce --ranks 8 --sizes 1G,4K", "all_reduce, measured from 1 MiB to 128 MiB, extrapolated down to 4 KiB and up to 1 GiB: "),
    ("all_reduce --ranks 4 --sizes 1M", "all_reduce, not measured on these ranks, extrapolated from 8 ranks on 1 node: error unknown"),
    ("all_reduce --ranks 64 --sizes 1M", "all_reduce, not measured on these ranks, extrapolated from 1 to 8 nodes, may be far off: error unknown"),
    ("transformer --model gpt3_1_3b --ranks 8", " of the bytes are in collectives on numbers of ranks or of sizes that the calibration did not measure, "
                                              "for example all_reduce of 408.6 MiB on 8 ranks"),
    ("transformer --model gpt3_1_3b --ranks 16", "; extrapolated: 100% of the bytes are in collectives on"),
    ("transformer --model gpt3_1_3b --ranks 8 --tp 8", ""),  # other than the measured sizes: 4 KiB to 128 KiB of losses and norms, 0.1 % of the bytes
    ("transformer --model gpt2_small --ranks 1", "")])
def test_accuracy_states_what_is_extrapolated(busbar, calibrate, tmp_path, line, what):
    """The calibration measured all_reduce from 1 to 128 MiB on 8 ranks of one node."""
    us = {mib << 20: time for mib, time in SLOW_HOST["all_reduce"].items()}
    (tmp_path / "all_reduce.log").write_text(calibration_accuracy.table(
        {"coll": "all_reduce", "ranks": 8, "gpn": 8, "dtype": "bfloat16", "dev": "NVIDIA H100 80GB HBM3", "us": us}, us))
    calibrate("all_reduce.log")
    text = busbar.run("plan", *line.split(), "--cluster", tmp_path / "mine.json", emulated=False).stdout
    (accuracy,) = [row for row in text.splitlines() if re.match(r"# accuracy: |  accuracy ", row)] or [""]
    assert what in accuracy and ("extrapolated" in accuracy) == ("extrapolated" in what or "did not" in what)


def test_two_numbers_of_nodes_predict_no_other(busbar, calibrate, tmp_path):
    """Two numbers of nodes determine no latency per step: errors of sizes that were left out do not hold for four nodes."""
    for name, text in (("1.log", h100_log()), ("2.log", h100_log("ab", rows=((8, 23.7), (1 << 20, 67.4), (1 << 30, 4729))))):
        (tmp_path / name).write_text(text)
    calibrate("1.log", "2.log")
    for ranks, what in ((32, "extrapolated from 1 and 2 to 4 nodes, may be far off: error unknown"), (16, "measured from 8 B to 1 GiB: ")):
        plan = busbar.json("plan", "all_reduce", "--ranks", ranks, "--sizes", "1M", "--cluster", tmp_path / "mine.json", tmp_path=tmp_path, emulated=False)
        assert what in plan["predicted"]["accuracy"][0]


def test_runs_of_one_file_and_stated_ranks_give_the_profile_of_separate_files(busbar, calibrate, tmp_path):
    """A script's output with two runs; and logs of anonymous hosts with a shortened list of devices, whose ranks and nodes are stated."""
    one, two = h100_log(), h100_log("ab", rows=((8, 23.7), (1 << 20, 67.4), (1 << 30, 4729)))
    for name, text in (("1.log", one), ("2.log", two), ("both.log", one + "+ mpirun -n 16 all_reduce_perf\n" + two),
                       ("short.log", re.sub(r"#  Rank  [1-9].*\n", "", two).replace("on          a", "on xxxx"))):
        (tmp_path / name).write_text(text)
    _, profile, separate = calibrate("1.log", "2.log")
    for files in (["both.log"], ["1.log", "all_reduce:16x2=short.log"]):
        done, same, summary = calibrate(*files)
        assert [(f["ranks"], f["nodes"], f["rows"]) for f in summary["files"]] == [(8, 1, 6), (16, 2, 6)], done.stderr
        assert (same["nccl"], same["measured"]) == (profile["nccl"], profile["measured"])
    done = busbar.run("compare", "1.log", "both.log", emulated=False, cwd=tmp_path)
    assert done.returncode == 2 and "both.log: line 22: a second run of nccl-tests begins; expected one run per file" in done.stderr
    for word, message in (("all_reduce:16=1.log", "for example all_reduce:16x2=run.log"), ("all_reduce:2x16=1.log", "RANKSxNODES"),
                          ("all_reducer:16x2=1.log", "'all_reducer'")):
        done = busbar.run("calibrate", word, "-o", "x.json", emulated=False, cwd=tmp_path)
        assert done.returncode == 2 and done.stderr.count("\n") == 1 and message in done.stderr
    (tmp_path / "none.log").write_text(re.sub(r"#  Rank.*\n", "", two))
    done = busbar.run("calibrate", "all_reduce:16x2=none.log", "-o", "x.json", emulated=False, cwd=tmp_path)
    assert done.returncode == 2 and "no shipped profile is for GPUs 'unknown'" in done.stderr and "--from NAME" in done.stderr
    assert [m["ranks"] for m in calibrate("all_reduce:16x2=none.log", "--from", "h100-sxm-ib")[1]["measured"]] == [16]


def test_a_penalized_variant_keeps_a_plausible_latency(calibrate, tmp_path):
    """Two nodes with 8 H100 on EFA (AWS EKS): ring Simple, which all_gather needs, had got a latency of 1,071 us from all_reduce. The
    shipped profile has 1.4 x (8.4 + 28 x 3.4 + 2 x 14) us, and three times this is allowed."""
    us = {64 << 20: 996.0, 128 << 20: 1950.5, 256 << 20: 3010.8, 512 << 20: 3608.0, 1 << 30: 6426.3, 2 << 30: 9197.5}
    (tmp_path / "p5.log").write_text(h100_log("ab", rows=[(size, us[size]) for size in list(us)[1::2]]))
    _, profile, summary = calibrate("p5.log")
    assert "ring Simple" in summary["penalized_variants"] and max(v["base_us"] for v in profile["nccl"]) < 3 * 1.4 * 132


def predicted(busbar, tmp_path, coll, sizes, ranks=8, cluster="mine.json", *options):
    cluster = tmp_path / cluster if cluster.endswith(".json") else cluster
    rows = busbar.json("plan", coll, "--sizes", ",".join(map(str, sizes)), "--ranks", ranks, "--placement", "out_of_place", "--cluster",
                       cluster, *options, tmp_path=tmp_path, emulated=False)["results"]
    return {row["bytes"]: row["time_us"]["p50"] for row in rows}


def test_measurements_of_another_network_find_its_profile(busbar, calibrate, tmp_path):
    """RoCE (gcp-a3-ultra), whose ring LL128 has 0.68 of the NICs' rate, InfiniBand's 0.35. From InfiniBand, the fit reaches the rate of
    LL128, a warning names the better start, and plan prints the variants that NCCL chose; without --from, the better start is taken."""
    colls = ["all_reduce", "all_gather", "reduce_scatter"]
    bench = busbar.json("bench", *colls, "-b", "4K", "-e", "256M", "-f", "4", "-c", "0", "-n", "2", "-w", "1", "--repeats", "1", ranks=16,
                        env={"EMU_CLUSTER": "gcp-a3-ultra"}, tmp_path=tmp_path)
    done, profile, summary = calibrate("result.json", "--from", "h200-sxm-ib")
    warnings = re.findall("(?m)^busbar: warning: (.*)", done.stderr)
    assert re.fullmatch("the times between nodes differ by [2-9][0-9.]+ % from h200-sxm-ib, by 0.0 % from gcp-a3-ultra, which is the better "
                        "starting profile; try: --from gcp-a3-ultra", warnings[0]) and summary["better_from"] == "gcp-a3-ultra"
    fit, = (fit for fit in summary["fits"] if fit["name"] == "ring LL128")
    assert fit["worst_error_percent"] < 1 and not any("ring LL128" in warning for warning in warnings)
    chosen = {(row["collective"], row["bytes"]): f"{row['algorithm']} {row['protocol']}" for row in bench["results"] if row["bytes"]}
    plan = busbar.json("plan", *colls, "-b", "4K", "-e", "256M", "-f", "4", "--ranks", 16, "--cluster", tmp_path / "mine.json", tmp_path=tmp_path,
                       emulated=False)["results"]
    assert {(row["collective"], row["bytes"]): f"{row['algorithm']} {row['protocol']}" for row in plan if row["bytes"]} == chosen
    assert {choice for curve in profile["measured"] for choice in curve["choice"]} - {""} == {name.lower().replace("ll", "LL").replace(
        "simple", "Simple") for name in chosen.values()}
    bench["results"] = [row for row in bench["results"] if row["collective"] == "all_reduce"]
    (tmp_path / "one.json").write_text(json.dumps(bench))
    _, profile, _ = calibrate("one.json", "--from", "h200-sxm-ib")  # LL128 twice as fast: not the links, which Simple was not measured on
    assert profile["inter"]["gbps"] == 48.5
    logs = []
    for coll in colls[:2]:
        us = {size: time for size, time in predicted(busbar, tmp_path, coll, [4096 << 2 * i for i in range(9)], 16, "gcp-a3-ultra").items()}
        logs.append(tmp_path / f"{coll}.log")
        logs[-1].write_text(calibration_accuracy.table({"coll": coll, "ranks": 16, "gpn": 8, "dtype": "float", "dev": "NVIDIA H200", "us": us}, us))
    done, _, summary = calibrate(*logs)
    assert (summary["from"], summary["better_from"], done.stderr) == ("gcp-a3-ultra", None, "")
    assert re.search(r"(?m)^# starting profile: gcp-a3-ultra, selected by the GPU and the times between nodes, which differ from it by 0.\d % "
                     r"\(from h200-sxm-ib by [2-9][0-9.]+ %\)$", done.stdout)
    _, _, summary = calibrate(logs[0], "--from", "gcp-a3-ultra")
    assert summary["better_from"] is None


def test_no_profile_is_written_that_cannot_be_read(busbar, calibrate, tmp_path):
    """An operation of 60 ms fits no chunk latency that a profile may have; of six sizes, two of seconds are left out as outliers."""
    (tmp_path / "h.log").write_text(h100_log(rows=((1 << 20, 40), (1 << 22, 6e4))))
    done, *_ = calibrate(tmp_path / "h.log")
    assert re.search(r"(?m)^busbar: no profile written: fitted \S+: 'chunk_us' is \d+, expected at most 1000\n\Z", done.stderr)
    assert not (tmp_path / "mine.json").exists()
    sizes = ((20, 40), (21, 50), (22, 6e6), (23, 1e7), (24, 80), (25, 120))
    (tmp_path / "h.log").write_text(h100_log(rows=[(1 << log, us) for log, us in sizes]))
    calibrate(tmp_path / "h.log")
    times = predicted(busbar, tmp_path, "all_reduce", [1 << log for log, us in sizes])
    assert all(50 <= times[1 << log] <= 80 if us > 1e6 else times[1 << log] == pytest.approx(us, rel=0.01) for log, us in sizes)


def test_sizes_below_the_log_are_no_further_off_than_those_of_the_starting_profile(busbar, calibrate, tmp_path):
    """The published log of 8 H100 from 1 MiB on: its fits must not make the sizes below it faster than they were measured."""
    logs = json.loads((ROOT / "tests/cli/reference_data/collectives.json").read_text())["logs"]
    times = {int(size): us for size, us in next(log["us"] for log in logs if log["id"] == "8 H100").items()}
    (tmp_path / "h.log").write_text(h100_log(rows=[(size, us) for size, us in times.items() if size >= 1 << 20]))
    calibrate(tmp_path / "h.log")

    def errors(cluster):
        rows = busbar.json("plan", "all_reduce", "--sizes", ",".join(map(str, times)), "--ranks", 8, "--cluster", cluster,
                           "--placement", "out_of_place", tmp_path=tmp_path, emulated=False)["results"]
        return {row["bytes"]: abs(row["time_us"]["p50"] / times[row["bytes"]] - 1) for row in rows if row["bytes"] < 1 << 20}

    before, after = errors("h100-sxm-ib"), errors(tmp_path / "mine.json")
    assert len(after) == 3 and all(after[size] <= before[size] + 0.02 for size in after), (before, after)


def test_a_variant_that_nccl_chose_at_large_sizes_is_not_predicted_at_small_ones(busbar, calibrate, tmp_path):
    large = ((8 << 20, 83), (32 << 20, 199.3), (128 << 20, 586.4), (512 << 20, 2151), (2 << 30, 7939), (16 << 30, 62648))
    (tmp_path / "h.log").write_text(h100_log(rows=[*((size, 25) for size in (8, 64, 1024, 8192, 65536)), (1 << 20, 35), *large]))
    done, profile, _ = calibrate(tmp_path / "h.log")
    plan = busbar.json("plan", "all_reduce", "--sizes", "8,8M", "--ranks", 8, "--cluster", tmp_path / "mine.json", "--placement",
                       "out_of_place", tmp_path=tmp_path, emulated=False)
    assert [row["time_us"]["p50"] for row in plan["results"]] == [pytest.approx(25, rel=0.05), pytest.approx(83, rel=0.03)]
    nvls = next(v for v in profile["nccl"] if v["algorithm"] == "nvls")
    assert nvls["min_bytes"] == pytest.approx((1 << 20) * 8 ** 0.5, rel=1e-6) and nvls["base_us"] == 0
    assert "nvls Simple (not used below 2.8 MiB)" in done.stdout


def test_sizes_of_a_published_log_predict_the_others(busbar, calibrate, tmp_path):
    """Eight H100, all_gather from 1 MiB to 8 GiB (SimuMax). NCCL's choice at 1 to 4 MiB had led the rate of LL to 141 TB/s."""
    us = dict(zip((1 << i for i in range(20, 34)), (47.14, 45.69, 47.23, 48.87, 73.03, 128.2, 211.3, 386.4, 730.2, 1394.3, 2734.1, 5379, 10615,
                                                    21025)))
    log = {"m": "h100", "coll": "all_gather", "ranks": 8, "gpn": 8, "dtype": "float", "dev": "NVIDIA H100 80GB HBM3", "us": us}
    for given in (list(us)[::2], list(us)[1::2], list(us)[:7]):
        (tmp_path / "h.log").write_text(calibration_accuracy.table(log, given))
        done, profile, _ = calibrate("h.log")
        assert done.returncode == 0, done.stderr
        assert all(v["gbps"] <= 1.3 * 524 for v in profile["nccl"])
        (curve,) = profile["measured"]
        assert (curve["collective"], curve["ranks"], curve["nodes"]) == ("all_gather", 8, 1) and curve["bytes"][0] == given[0]
        for size, time in predicted(busbar, tmp_path, "all_gather", us).items():
            near = 0.01 if size in given else 0.03 if size > 64 << 20 else 0.08 if size > 1 << 20 else 0.2
            assert time == pytest.approx(us[size], rel=near), size


# published logs of single nodes, us: collectives of a host that needs 46 us to enqueue one (SimuMax), and all_reduce of 8 B200 (AWS P6)
SLOW_HOST = {"all_reduce": {1: 46.24, 2: 45.71, 4: 57.93, 8: 86.55, 16: 125.9, 32: 203.3, 64: 328.4, 128: 579.2},
             "reduce_scatter": {1: 43.62, 2: 44.87, 4: 59.15, 8: 54.41, 16: 75.44, 32: 117.8, 64: 205.3, 128: 385.5}}
SLOW_HOST_GATHERS = {1: 47.14, 2: 45.69, 4: 47.23, 8: 48.87, 16: 73.03, 32: 128.2, 64: 211.3, 128: 386.4}


def test_a_slow_host_bounds_the_times_of_other_collectives(busbar, calibrate, tmp_path):
    """all_gather was not measured: with the latencies of the fits alone it was predicted at 26 us for 1 MiB, measured 47."""
    for coll, times in SLOW_HOST.items():
        us = {mib << 20: time for mib, time in times.items()}
        (tmp_path / f"{coll}.log").write_text(calibration_accuracy.table(
            {"coll": coll, "ranks": 8, "gpn": 8, "dtype": "bfloat16", "dev": "NVIDIA H100 80GB HBM3", "us": us}, us))
    done, profile, summary = calibrate("all_reduce.log", "reduce_scatter.log")
    assert profile["collective_min_us"] == pytest.approx(45.3, rel=0.03)
    assert {fit["name"]: fit["rows"] for fit in summary["fits"]}["time to enqueue"] == 2
    times = predicted(busbar, tmp_path, "all_gather", [mib << 20 for mib in SLOW_HOST_GATHERS])
    assert all(times[mib << 20] == pytest.approx(us, rel=0.1) for mib, us in SLOW_HOST_GATHERS.items())
    (tmp_path / "all_reduce.log").write_text(h100_log())  # a measured time below this bound: the host is not that slow
    assert "collective_min_us" not in calibrate("all_reduce.log", "reduce_scatter.log")[1]


def test_sizes_above_the_log_grow_as_in_the_starting_profile(busbar, calibrate, tmp_path):
    """Eight B200 (AWS P6), all_reduce to 64 MiB: at these sizes the rate is half of that of larger ones, to which it had been kept (25 % off)."""
    us = dict(zip((1 << i for i in range(20, 35)), (50.89, 58.17, 95.97, 116.06, 115.16, 180.14, 293.16, 413.25, 727.06, 1363.63, 2597.74,
                                                    5113.27, 10148.24, 17915.53, 35551.42)))
    (tmp_path / "b.log").write_text(calibration_accuracy.table(
        {"coll": "all_reduce", "ranks": 8, "gpn": 8, "dtype": "float", "dev": "NVIDIA B200", "us": us}, [s for s in us if s <= 64 << 20]))
    calibrate("b.log")
    for size, time in predicted(busbar, tmp_path, "all_reduce", us).items():
        assert time == pytest.approx(us[size], rel=0.13), size


@pytest.mark.parametrize("ranks,device,start,us", [
    (2, "NVIDIA GeForce RTX 4090", "l40s-pcie-ib", {32 << 10: 19.5, 512 << 10: 70.2, 8 << 20: 712, 128 << 20: 10950}),
    (8, "NVIDIA A100-SXM4-80GB", "a100-sxm-ib", {size << 20: 20 + (size << 20) * 1.75 / 180e3 for size in (1, 4, 16, 64)})])
def test_sizes_above_a_log_that_reached_its_bandwidth_keep_this_bandwidth(busbar, calibrate, tmp_path, ranks, device, start, us):
    """The last two sizes have the same time per byte, so larger ones have it too: their rates rose by 23 % towards those of `start`."""
    (tmp_path / "x.log").write_text(calibration_accuracy.table(
        {"coll": "all_reduce", "ranks": ranks, "gpn": ranks, "dtype": "float", "dev": device, "us": us}, us))
    done, _, _ = calibrate("x.log", "--from", start)
    assert done.returncode == 0, done.stderr
    (x, y) = list(us)[-2:]
    rate = (y - x) / (us[y] - us[x])
    for size, time in predicted(busbar, tmp_path, "all_reduce", [256 << 20, 1 << 30, 16 << 30], ranks).items():
        assert 0.97 < size / time / rate < 1.005, size


def test_a_disturbed_size_is_not_kept(busbar, calibrate, tmp_path):
    """Eight H100 (dgxc): 32 bytes took 68 us, a larger size less; and a time that is too short does not drop the others."""
    us = {8: 13.67, 32: 68.14, 128: 15.87, 512: 16.7, 2048: 17.14, 8192: 9.0, 32768: 19.33, 131072: 19.89, 524288: 20.66, 2 << 20: 42.21}
    (tmp_path / "h.log").write_text(h100_log(rows=list(us.items())))
    calibrate("h.log")
    times = predicted(busbar, tmp_path, "all_reduce", us)
    assert 13.6 < times[32] < 15.9 and 17 < times[8192] < 19.4
    assert all(times[size] == pytest.approx(us[size], rel=0.02) for size in us if size not in (32, 8192))


def test_a_fitted_latency_is_zero_or_one_that_a_profile_may_have(busbar, calibrate, tmp_path):
    """Straight lines: the fits had an intra_us of 0.009 us and a base_us of 0.006 us, and plan warned of its own profile."""
    for coll, nodes, gbps, latency_us in (("all_reduce", 2, 330, 35), ("all_reduce", 4, 320, 60), ("all_gather", 2, 300, 40), ("all_gather", 4, 295, 70)):
        ranks = 8 * nodes
        factor = (2 if coll == "all_reduce" else 1) * (ranks - 1) / ranks
        us = {size: float(f"{latency_us + size * factor / gbps / 1e3:.4g}") for size in (1024 << 2 * i for i in range(12))}
        (tmp_path / f"{coll}{nodes}.log").write_text(calibration_accuracy.table(
            {"coll": coll, "ranks": ranks, "gpn": 8, "dtype": "float", "dev": "NVIDIA H100 80GB HBM3", "us": us}, us))
    _, profile, _ = calibrate("all_reduce2.log", "all_reduce4.log", "all_gather2.log", "all_gather4.log")
    assert [v for v in profile["nccl"] if 0 < v["base_us"] < 0.05 or 0 < v["intra_us"] < 0.01 or 0 < v["inter_us"] < 0.01] == []
    done = busbar.run("plan", "all_reduce", "--ranks", 8, "--sizes", "1M", "--cluster", tmp_path / "mine.json", emulated=False)
    assert done.returncode == 0 and "plausible for GPUs" not in done.stderr, done.stderr


def test_small_errors_have_one_form(busbar, tmp_path):
    profile = json.loads((ROOT / "profiles/clusters/h100-sxm-ib.json").read_text()) | {"left_out": {
        f"{kind}_{key}": value for kind in ("size", "collective") for key, value in
        (("rows", 9), ("median_percent", 2.8e-6), ("p90_percent", 3.14))}}
    (tmp_path / "mine.json").write_text(json.dumps(profile))
    done = busbar.run("plan", "all_reduce", "--ranks", 8, "--sizes", "1M", "--cluster", tmp_path / "mine.json", emulated=False)
    assert "median error below 0.1%, 90% within 3.1%, of collectives" in done.stdout
    profile["left_out"] |= {"collective_p90_percent": 3e-6}
    profile["nccl"] = [v | ({"from": "other"} if (v["algorithm"], v["protocol"]) == ("ring", "Simple") else {}) for v in profile["nccl"]]
    (tmp_path / "mine.json").write_text(json.dumps(profile))
    done = busbar.run("plan", "all_reduce", "all_gather", "--ranks", 8, "--sizes", "1M,1G", "--cluster", tmp_path / "mine.json", "--json", "r.json", emulated=False,
                      cwd=tmp_path)
    lines = re.findall("# accuracy: (.*)", done.stdout)
    assert lines == json.loads((tmp_path / "r.json").read_text())["predicted"]["accuracy"]
    error = "median error and 90% of errors below 0.1%, of collectives that the calibration left out"
    assert lines == [f"all_reduce, not measured on these ranks: {error}", f"all_gather, not measured on these ranks: error unknown with ring Simple within a node, not measured; otherwise {error}"], done.stdout


@pytest.mark.parametrize("change,message", [({"bytes": [8, 8]}, "ascending"), ({"factor": [1, 0]}, "factors"), ({"factor": [1]}, "factor"),
                                            ({"collective": "all_gater"}, "'all_gater'"), ({"ranks": 0}, "ranks"), ({"size": 1}, "size")])
def test_rejects_a_profile_with_invalid_measured_sizes(busbar, tmp_path, change, message):
    profile = json.loads((ROOT / "profiles/clusters/h100-sxm-ib.json").read_text())
    profile["measured"] = [{"collective": "all_gather", "ranks": 8, "nodes": 1, "bytes": [8, 16], "factor": [1, 2], **change}]
    (tmp_path / "mine.json").write_text(json.dumps(profile))
    done = busbar.run("plan", "all_gather", "--ranks", 8, "--cluster", tmp_path / "mine.json", emulated=False)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and message in done.stderr, done.stderr


def test_racks_are_nvlink_domains_of_several_hosts(calibrate, tmp_path):
    """72 and 144 GB200 (CoreWeave), four to a host, as nccl-tests lists them: one and two nodes, as if each rack were one host."""
    logs = [(72, {1 << 29: 1402, 1 << 30: 2624, 1 << 31: 5121, 1 << 32: 10094}), (144, {1 << 29: 1510, 1 << 30: 2790, 1 << 31: 5400, 1 << 32: 10600})]
    profiles = {}
    for per_host, options in ((4, ["--gpus-per-node", 72]), (72, []), (4, [])):
        for ranks, us in logs:
            (tmp_path / f"{ranks}.log").write_text(calibration_accuracy.table(
                {"coll": "all_reduce", "ranks": ranks, "gpn": per_host, "dtype": "float", "dev": "NVIDIA GB200", "us": us}, us))
        done, profile, summary = calibrate("72.log", "144.log", "--from", "gb200-nvl72", *options)
        assert done.returncode == 0, done.stderr
        profiles[per_host, bool(options)] = [profile[key] for key in ("gpus_per_node", "nics_per_node", "nccl", "inter", "measured")]
        nodes = [file["nodes"] for file in summary["files"]]
        assert nodes == ([2, 3] if not options and per_host == 4 else [1, 2])
        assert ("144.log: the 36 hosts of 144 ranks are 3 NVLink domains of 64 GPUs" in done.stderr) == (per_host == 4 and not options)
    assert profiles[4, True] == profiles[72, False]


def test_one_disturbed_size_does_not_spoil_the_profile(busbar, calibrate, tmp_path):
    """Logs with the times of the shipped profile, but three times the time of one size: the profile stays, and the warning names the size."""
    def plan(ranks, sizes, cluster):
        rows = busbar.json("plan", "all_reduce", "--ranks", ranks, "--sizes", sizes, "--placement", "in_place", "--cluster", cluster,
                           tmp_path=tmp_path, emulated=False)["results"]
        return [(row["bytes"], row["time_us"]["p50"]) for row in rows]

    sizes = ",".join(str(8 << 2 * i) for i in range(13))
    for hosts in ("a", "ab", "abcd"):
        rows = [(size, us * (3 if (hosts, size) == ("ab", 8 << 20) else 1)) for size, us in plan(8 * len(hosts), sizes, "h100-sxm-ib")]
        (tmp_path / f"{hosts}.log").write_text(h100_log(hosts, rows=rows))
    done, profile, _ = calibrate(*(tmp_path / f"{hosts}.log" for hosts in ("a", "ab", "abcd")))
    assert "most of all all_reduce 8 MiB on 16 ranks in " in done.stderr
    (measured,) = [v for v in profile["nccl"] if (v["algorithm"], v["protocol"]) == ("tree", "LL128")]
    assert "inter_from" not in measured  # it has rows, which the values of the starting profile fit best
    for size, us in plan(32, "8K,1M,64M", tmp_path / "mine.json"):
        assert us == pytest.approx(dict(plan(32, size, "h100-sxm-ib"))[size], rel=0.05), size


def test_one_size_of_a_variant_leaves_its_origin_in_the_profile(busbar, calibrate, tmp_path):
    """1 GiB on four nodes, the only size with ring Simple, is faster than with the starting profile: this determines no parameter of it."""
    def plan(collective, sizes, cluster="mine.json"):
        done = busbar.run("plan", collective, "--ranks", 32, "--sizes", sizes, "--placement", "in_place",
                          "--cluster", cluster, "--json", "plan.json", emulated=False, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        rows = json.loads((tmp_path / "plan.json").read_text())["results"]
        assert {(row["algorithm"], row["protocol"]) for row in rows if row["bytes"] >= 1 << 27} == {("RING", "SIMPLE")}
        return done, [(row["bytes"], row["time_us"]["p50"]) for row in rows]

    _, rows = plan("all_reduce", "1K,16K,1G", "h200-sxm-ib")
    (tmp_path / "four.log").write_text(h100_log("abcd", name="NVIDIA H200", rows=[(size, us * 0.99) for size, us in rows]))
    done, profile, summary = calibrate("four.log", "--from", "h200-sxm-ib")
    (ring,) = [v for v in profile["nccl"] if (v["algorithm"], v["protocol"]) == ("ring", "Simple")]
    (tree,) = [v for v in profile["nccl"] if (v["algorithm"], v["protocol"]) == ("tree", "LL")]
    assert not [f["key"] for f in summary["parameters"] if f["key"].startswith("nccl.ring.Simple.") and f["from"]] and "ring Simple" in done.stdout
    assert ring["inter_from"] == ring["from"] == "h200-sxm-ib" and "inter_from" not in tree
    note = "mine has no measurements that determine ring Simple between nodes; this prediction uses the values of h200-sxm-ib"
    assert note in plan("all_gather", "128M")[0].stderr
    done, ((_, us),) = plan("all_reduce", "1G")
    assert us == pytest.approx(0.99 * rows[-1][1], rel=0.003) and "ring Simple" not in done.stderr + done.stdout  # it was measured


@pytest.mark.parametrize("change,message", [
    (lambda t: t.replace("# Collective test starting: all_reduce_perf\n", ""), "all_reduce=h.log"),
    (lambda t: t[:t.rindex("  N/A")], "line 18: the row has 12 words"),
    (lambda t: t.replace("Group  0", "Group  1"), "NCCL_TESTS_SPLIT"), (lambda t: t.replace("agg iters: 1", "agg iters: 4"), "(-m)"),
    (lambda t: t.replace(" time ", "cputime"), "(-C 1)"), (lambda t: t.replace("[0000:03:00]", "[0000:04:00]"), "shared a GPU"),
    (lambda t: t.replace("[0000:07:00] NVIDIA H100", "[0000:07:00] NVIDIA H200"), "rank 7"),
    (lambda t: t.replace("Rank", "rank"), "no devices"),
    (lambda t: t.replace("NVIDIA H100", "AMD MI300X"), "--from"),
    (lambda t: "".join(t.splitlines(True)[:13]), "neither a JSON object nor nccl-tests output"),
    (lambda t: "".join(t.splitlines(True)[:14]), "no rows"), (lambda t: t.replace("graph: 0", "graph: 5"), "none of its 6 rows"),
    (lambda t: t.replace("     0 ", "     5 ").replace("N/A", "  7"), "none of its 6 rows"), (lambda t: "", "neither a JSON object"),
    (lambda t: t.replace("  13.70", "   0.00"), "line 16: '0.00' in column 6 is not a time in us"),
    (lambda t: t.replace("  13.70", "    inf"), "line 16: 'inf' in column 6 is not a time in us"),
    (lambda t: "hello\n", "neither a JSON object"), (lambda t: "\0\xff\n" * 9, "begins with a zero byte"),
])
def test_rejects_invalid_nccl_tests_text(busbar, calibrate, tmp_path, change, message):
    (tmp_path / "h.log").write_text(change(h100_log()), encoding="latin1")
    done = busbar.run("calibrate", "h.log", "-o", "mine.json", emulated=False, cwd=tmp_path)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and message in done.stderr, done.stderr
    assert not (tmp_path / "mine.json").exists() and done.stdout == ""


def test_profile_on_stdout_is_that_of_the_file(busbar, tmp_path):
    """It advised /dev/stdout, which does not end in .json."""
    (tmp_path / "h.log").write_text(h100_log())

    def run(*args):
        return busbar.run("calibrate", *args, emulated=False, cwd=tmp_path)
    assert run("h.log", "-o", "mine.json").returncode == 0
    done = run("h.log", "-o", "-")
    assert done.returncode == 0 and done.stdout == (tmp_path / "mine.json").read_text().replace('"mine"', '"calibrated"'), done.stderr
    for args, message in ((("h.log", "--json", "-"), "requires another file for --json"), (("--measure", "--ranks", 8), "requires files of measurements")):
        done = run(*args, "-o", "-")
        assert done.returncode == 2 and message in done.stderr and not done.stdout and len(list(tmp_path.iterdir())) == 2, done.stderr


def test_rejects_a_wrong_operation_of_nccl_tests_text(busbar, tmp_path):
    with_name, without_name = h100_log(), re.sub("# Collective test.*\n", "", h100_log())
    (tmp_path / "f.json").write_text("{}")
    for text, argument, message in [(with_name, "all_gather=h.log", "of all_reduce_perf"),
                                    (without_name, "all_gather=h.log", "busbw / algbw is 1.75"),
                             (without_name, "allreduce=h.log", "'all_reduce'"), (without_name, "all_reduce=no.log", "no.log"),
                             (without_name, "all_reduce=f.json", "leave out all_reduce=")]:
        (tmp_path / "h.log").write_text(text)
        done = busbar.run("calibrate", argument, "-o", "mine.json", emulated=False, cwd=tmp_path)
        assert done.returncode == 2 and done.stderr.count("\n") == 1 and message in done.stderr, done.stderr
    (tmp_path / "all_gather=h.log").write_text(with_name)  # an existing file with this name
    assert busbar.run("calibrate", "all_gather=h.log", "-o", "mine.json", emulated=False, cwd=tmp_path).returncode == 0


def test_rejects_nccl_tests_text_of_two_machines(busbar, tmp_path):
    (tmp_path / "a.log").write_text(h100_log())
    (tmp_path / "b.log").write_text(h100_log(name="NVIDIA A100-SXM4-80GB"))
    done = busbar.run("calibrate", "a.log", "b.log", "-o", "mine.json", emulated=False, cwd=tmp_path)
    assert done.returncode == 2 and "NVIDIA A100-SXM4-80GB" in done.stderr and "b.log" in done.stderr


# ---- measuring ----


@pytest.fixture
def measure(busbar, tmp_path):
    (tmp_path / "hidden.json").write_text(json.dumps(HIDDEN))

    def run(*args, **env):
        return busbar.run("calibrate", "--measure", "-o", "mine.json", *args, cwd=tmp_path, timeout=120,
                          env={"EMU_CLUSTER": "hidden.json", "EMU_DATA": "off", **env})

    return run


def test_measure_runs_all_benchmarks_and_resumes(measure, tmp_path):
    done = measure("--ranks", 2, "--", "-e", "16M", EMU_FAULT="fail:name=cublasLtMatmul,call=3")
    assert done.returncode == 1 and not (tmp_path / "mine.json").exists()
    assert done.stderr.splitlines()[-1] == "busbar: 3 of 6 combinations failed, 0 did not run"  # no option of sweep that calibrate lacks
    files = {p: p.stat().st_mtime_ns for p in (tmp_path / "mine.sweep").glob("*.run.json")}
    done = measure("--ranks", 2, "--", "-e", "16M")  # repeats the failed benchmarks
    assert done.returncode == 0, done.stderr
    assert len(files) == 6 and sum(p.stat().st_mtime_ns == ns for p, ns in files.items()) == 3
    assert_near(json.loads((tmp_path / "mine.json").read_text()), FITTED)
    rows = json.loads((tmp_path / "mine.sweep" / "sweep.json").read_text())
    sizes = {r["bytes"] for c in rows["combinations"] if "all_reduce" in c["command"] for r in c["result"]["results"]}
    assert max(sizes) <= 16 << 20
    written = (tmp_path / "mine.json").stat().st_mtime_ns
    assert "warning: 3 of 6 benches were measured before, the first at " in done.stderr
    first = min(c["result"]["started"] for c in rows["combinations"])
    again = measure("--ranks", 2, "--quiet", "--hosts", "other", "--", "-e", "16M")  # all results exist
    assert f"warning: 6 of 6 benches were measured before, the first at {first} on " in again.stderr
    assert again.returncode == 0 and again.stdout == "" and (tmp_path / "mine.json").stat().st_mtime_ns > written


@pytest.mark.parametrize("args,ranks,launch", [
    (["--ranks", 16], 8, None), (["--ranks", 8], None, None), (["--ranks", 8, "--gpus-per-node", 4], 4, None),
    (["--ranks", 144, "--from", "gb200-nvl72"], 64, None), (["--ranks", 16, "--launcher", "srun"], 8, "-N 1"),
    (["--ranks", 16, "--launcher", "srun", "--hosts", "a,b"], None, None)])
def test_measure_also_runs_the_collectives_of_one_node(measure, tmp_path, args, ranks, launch):
    done = measure(*args, *([] if "srun" in args else ["--launcher", "none"]))  # starts at most one rank
    assert done.returncode != 0
    cases = {case["name"]: case for case in json.loads((tmp_path / "mine.study.json").read_text())["cases"]}
    assert ("node" in cases) == (ranks is not None)
    if ranks:
        assert (cases["node"]["ranks"], cases["node"].get("launch_arguments")) == (ranks, launch)
        assert cases["node"]["command"] == cases["collectives"]["command"]


def test_measure_on_three_nodes_separates_a_group_from_its_messages(measure, tmp_path):
    hidden = json.loads((ROOT / "profiles/clusters/h100-sxm-ib.json").read_text()) | {"gpus_per_node": 2, "nics_per_node": 2}
    hidden["inter"] |= {"group_us": 35, "message_us": 5}
    (tmp_path / "hidden.json").write_text(json.dumps(hidden))
    done = measure("--ranks", 6, "--from", "h100-sxm-ib", "--gpus-per-node", 2, "--", "-f", "16", "--repeats", "1")
    assert done.returncode == 0, done.stderr
    inter = json.loads((tmp_path / "mine.json").read_text())["inter"]
    assert [inter[key] for key in ("latency_us", "group_us", "message_us")] == pytest.approx([16, 35, 5], rel=0.02)
    assert " without " not in done.stdout.splitlines()[-1] and "DOES NOT HOLD" not in done.stdout


def test_measure_on_two_nodes_determines_the_links_of_one(busbar, measure, tmp_path):
    """All rates of NVLink are 0.8 of the nominal ones; collectives of two nodes do not determine those within a node."""
    slow = json.loads((ROOT / "profiles/clusters/h100-sxm-ib.json").read_text()) | {"gpus_per_node": 2, "nics_per_node": 2}
    slow["intra"]["gbps"] *= 0.8
    for variant in slow["nccl"]:
        variant["gbps"] *= 0.8
    (tmp_path / "hidden.json").write_text(json.dumps(slow))
    done = measure("--ranks", 4, "--from", "h100-sxm-ib", "--gpus-per-node", 2, "--quiet", "--", "-f", "8", "--repeats", "1", EMU_NODES="2")
    assert done.returncode == 0, done.stderr
    sizes = [256 << 20]
    for coll in ("all_gather", "all_reduce"):
        assert predicted(busbar, tmp_path, coll, sizes, 2) == pytest.approx(predicted(busbar, tmp_path, coll, sizes, 2, "hidden.json"), rel=0.02)


def test_measure_with_one_rank_fits_gpu_parameters_only(measure, tmp_path):
    done = measure("--ranks", 1, "--launcher", "none")
    assert done.returncode == 0, done.stderr
    assert_near(json.loads((tmp_path / "mine.json").read_text()), [key for key in FITTED if "intra" not in key and "nccl" not in key])


def test_measure_ends_hanging_benchmarks_after_the_timeout(measure, tmp_path):
    """-T applies to every benchmark; options after -- apply to collectives only."""
    done = measure("--ranks", 1, "--launcher", "none", "-T", 0.5, EMU_FAULT="stall:name=cublasLtMatmul,call=3")
    assert done.returncode == 1 and not (tmp_path / "mine.json").exists()
    study = json.loads((tmp_path / "mine.study.json").read_text())
    assert len(study["cases"]) == 2 and all("--timeout=0.5" in case["command"] for case in study["cases"])
    message = [path.read_text() for path in (tmp_path / "mine.sweep").glob("*.err")]
    assert len(message) == 2 and any("did not end within 0.5 s" in text for text in message)


@pytest.mark.parametrize("args,message", [
    (["--measure"], "--ranks N"), (["x.json", "--ranks", "4"], "--ranks requires --measure"), (["--measure", "--ranks", "0"], "--ranks"),
    (["--measure", "--ranks", "2", "--", "--maxbytes", "1Q"], "1Q"), (["--measure", "--ranks", "2", "x.json"], "x.json"),
])
def test_measure_rejects_bad_arguments(busbar, tmp_path, args, message):
    done = busbar.run("calibrate", "-o", "mine.json", *args, emulated=False, cwd=tmp_path)
    assert done.returncode == 2 and message in done.stderr.splitlines()[-1] and not (tmp_path / "mine.json").exists(), done.stderr


def test_measure_keeps_the_study_of_a_sweep_that_is_running(measure, tmp_path):
    (tmp_path / "mine.sweep").mkdir()
    with (tmp_path / "mine.sweep" / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = measure("--ranks", 1, "--launcher", "none")
    assert done.returncode == 2 and "another sweep is running in mine.sweep" in done.stderr and not (tmp_path / "mine.study.json").exists(), done.stderr


# ---- the emulated flag and invalid files ----


def test_profile_of_emulated_gpus_is_flagged_in_forecasts(busbar, measured, calibrate, tmp_path):
    done, profile, summary = calibrate(measured("p2p"))
    assert profile["emulated"] is True and summary["emulated"] is True and "emulated GPUs" in done.stdout
    for args in (["plan", "all_reduce", "-e", "1K"], ["plan", "gpt2_large", "12", "4"]):
        plan = busbar.run(*args, "--ranks", 8, "--cluster", tmp_path / "mine.json", emulated=False)
        assert plan.returncode == 0 and "mine (emulated)" in plan.stdout


def test_profile_of_real_gpus_is_not_flagged_as_emulated(busbar, measured, calibrate, tmp_path):
    def make_real(data):
        data["emulated"] = False
        data["environment"] = {}
        for device in data["devices"]:
            device["name"] = "NVIDIA H100 80GB HBM3"

    done, profile, summary = calibrate(copy_of(measured("p2p"), tmp_path / "real.json", make_real))
    assert "emulated" not in profile and "emulated GPUs" not in done.stdout and summary["from"] == "h100-sxm-ib"
    plan = busbar.run("plan", "all_reduce", "-e", "1K", "--ranks", 8, "--cluster", tmp_path / "mine.json", emulated=False)
    assert plan.returncode == 0 and "emulated" not in plan.stdout


def rename(name):
    def change(data):
        data["emulated"] = name == "Emulated GPU"
        for device in data["devices"]:
            device["name"] = name
    return change


def test_rejects_files_of_two_machines(measured, calibrate, tmp_path):
    one = measured("p2p")
    h100 = copy_of(one, tmp_path / "h100.json", rename("NVIDIA H100 80GB HBM3"))
    a100 = copy_of(one, tmp_path / "a100.json", rename("NVIDIA A100-SXM4-80GB"))
    other = copy_of(one, tmp_path / "other.json", lambda d: d["environment"].update(EMU_CLUSTER="/other.json"))
    mixed = copy_of(one, tmp_path / "mixed.json", lambda d: d["devices"][3].update(name="Emulated GPU 2"))
    unknown = copy_of(one, tmp_path / "unknown.json", rename("NVIDIA T4"))
    for files, message in [((one, h100), "emulated"), ((h100, a100), "NVIDIA A100-SXM4-80GB"), ((one, other), "EMU_CLUSTER"),
                        ((mixed,), "rank 3"), ((unknown,), "--from")]:
        done, _, _ = calibrate(*files)
        assert done.returncode == 2 and done.stderr.count("\n") == 1 and message in done.stderr, done.stderr
        assert str(files[-1]) in done.stderr or message == "--from"


def test_rejects_files_without_usable_rows(busbar, measured, calibrate, tmp_path):
    plan, shared, empty = tmp_path / "plan.json", tmp_path / "shared.json", tmp_path / "empty.json"
    assert busbar.run("plan", "all_reduce", "--ranks", 4, "--cluster", "h100-sxm-ib", "--json", plan, emulated=False).returncode == 0
    copy_of(measured("p2p"), shared, lambda d: d.update(shared_gpu=True))
    empty.write_text("{}")
    for file, message in [(plan, "busbar.plan/1"), (shared, "shared a GPU"), (empty, "not a file of measurements"),
                          (tmp_path / "no.json", "no.json"),
                       (measured("comm"), "none of its"),
                       *((copy_of(measured("p2p"), tmp_path / f"{key}.json", lambda d: d["options"].update({key: value})), message)
                         for key, value, message in [("split", "MOD:2", "(--split)"), ("agg_iters", 4, "(-m)"), ("device", "lsa", "(--device)")])]:
        done, _, _ = calibrate(file)
        assert done.returncode == 2 and done.stderr.count("\n") == 1 and message in done.stderr, done.stderr


@pytest.mark.parametrize("together", [True, False])
def test_rows_of_alltoallv_are_skipped_and_counted(calibrate, tmp_path, together):
    """A script's output with runs of all_reduce and of alltoallv, in one file or in two. Each table has three sizes, in place and out of place."""
    one = h100_log()
    other = one.replace("all_reduce", "alltoallv")
    (tmp_path / "a.log").write_text(one + other if together else one)
    (tmp_path / "v.log").write_text(other)
    done, profile, summary = calibrate(*["a.log"] if together else ["v.log", "a.log"])
    name = "a.log" if together else "v.log"
    assert done.returncode == 0 and f"busbar: warning: {name}: all 6 rows of a run are skipped (alltoallv is not fitted)" in done.stderr.splitlines(), done.stderr
    assert sorted((f["rows"], f["unused_rows"]) for f in summary["files"]) == [(0, 6), (6, 0)]
    assert profile["measured"] == calibrate("a.log")[1]["measured"] and [m["collective"] for m in profile["measured"]] == ["all_reduce"]
    (tmp_path / "mine.json").unlink()
    done, _, _ = calibrate("v.log")
    assert done.returncode == 2 and done.stderr.startswith("busbar: v.log: none of its 6 rows can be used (alltoallv is not fitted); expected ")


def test_warns_of_measurements_with_restrictions(measured, calibrate, tmp_path):
    for change, text in [(lambda d: d["options"].update(max_ctas=2), "--max-ctas 2, which can lower the bandwidth"),
                         (lambda d: d["options"].update(local_register=2), "symmetric windows (-R 2), for which NCCL has faster kernels"),
                         (lambda d: d["options"].update(average=2), "-a 2, whose times are not those of the slowest rank, which plan predicts"),
                         (lambda d: d.update(restricted_by="$NCCL_ALGO=Ring"), "$NCCL_ALGO=Ring, which can lower the bandwidth")]:
        done, _, _ = calibrate(copy_of(measured("p2p"), tmp_path / "restricted.json", change))
        assert done.returncode == 0 and f"warning: {tmp_path}/restricted.json: measured with {text}" in done.stderr


def test_gemms_in_tf32_are_unused(measured, calibrate, tmp_path):
    def in_tf32(root):
        for row in root["results"]:
            row.update({"dtype": "tf32"} if row["section"] not in ("timed", "memory_kernels") else {})
    done, _, _ = calibrate(copy_of(measured("compute"), tmp_path / "tf32.json", in_tf32))
    assert done.returncode == 0 and re.search(r"tf32\.json: bench compute, .*\b[1-9]\d* unused \(no cost model\)\n", done.stdout), done.stderr


def test_unused_rows_are_counted_by_reason(measured, calibrate, tmp_path):
    """Five rows: of 0 bytes, with wrong data, of another mode (two), and of an operation without cost model."""
    def spoil(root):
        rows = root["results"] = [row for row in root["results"] if row["bytes"] > 0]
        for row, change in zip(rows, ({"bytes": 0}, {"wrong": 3}, {"mode": "sync"}, {"mode": "graph"}, {"collective": "hypercube"})):
            row.update(change)
    done, _, summary = calibrate(copy_of(measured("collectives"), tmp_path / "spoilt.json", spoil))
    assert done.returncode == 0 and summary["files"][0]["unused_rows"] == 5
    assert ", 5 unused (0 bytes: 1, wrong data: 1, mode sync or graph: 2, no cost model: 1)\n" in done.stdout, done.stdout


def test_invalid_rows_are_reported_by_index(measured, calibrate, tmp_path):
    for key, value in [("metric", 7), ("bytes", "x"), ("bytes", -1), ("time_us", {"p50": "y"})]:
        file = copy_of(measured("p2p"), tmp_path / "bad.json", lambda d, k=key, v=value: d["results"][4].update({k: v}))
        done, _, _ = calibrate(file)
        assert done.returncode == 2 and re.search(r"bad\.json: results\[4\]", done.stderr) and done.stderr.count("\n") == 1, done.stderr


def test_invalid_overlap_rows_are_reported_by_index(measured, calibrate, tmp_path):
    for key, value in [("collective", 7), ("collectives", 0), ("count", 1.5), ("comm_in_both_us", {"p50": "y"}),
                       ("compute_in_both_us", {"p50": -1})]:
        file = copy_of(measured("overlap"), tmp_path / "bad.json", lambda d, k=key, v=value: d["results"][0].update({k: v}))
        done, _, _ = calibrate(file)
        assert done.returncode == 2 and re.search(r"bad\.json: results\[0\]", done.stderr) and done.stderr.count("\n") == 1, done.stderr


def test_failed_calibration_keeps_the_existing_profile(busbar, tmp_path):
    (tmp_path / "mine.json").write_text("old")
    done = busbar.run("calibrate", "no.json", "-o", "mine.json", emulated=False, cwd=tmp_path)
    assert done.returncode == 2 and (tmp_path / "mine.json").read_text() == "old"


def test_warns_of_an_incomplete_run(calibrate, measured, tmp_path):
    (tmp_path / "cut.json").write_text(json.dumps(json.loads(measured("compute").read_text()) | {"status": "timeout"}))
    done, _, _ = calibrate("cut.json")
    assert "cut.json: the run ended with status 'timeout'; rows may be missing" in done.stderr


def test_help_documents_the_status_of_a_profile_that_does_not_hold(busbar):
    """Exit status 5 requires a requested threshold, which calibrate lacks."""
    text = " ".join(busbar.run("calibrate", "--help", emulated=False).stdout.split())
    assert "Exit status: 0 the profile is written, also if the last line reports that it DOES NOT HOLD" in text


@pytest.mark.parametrize("name,ratio,operation", [("all_gather_8.log", 0.5, "all_gather"), ("reduce_scatter.txt", 0.5, "reduce_scatter"),
                                                  ("run.log", 1, "all_reduce"), ("run.log", 0.5, "OPERATION")])
def test_a_log_without_operation_gets_that_of_its_name_or_ratio(busbar, tmp_path, name, ratio, operation):
    """On 2 ranks, only operations that reduce or move all data to all ranks have a busbw equal to algbw."""
    ranks = "".join(f"#  Rank  {i} Pid {i} on node0 device  {i} [0x0{i}] H100\n" for i in range(2))
    row = f"1048576 262144 float none -1 47.1 22.24 {22.24 * ratio:.2f} 0 47.1 22.24 {22.24 * ratio:.2f} 0\n"
    (tmp_path / name).write_text("# nThread 1 nGpus 1 minBytes 8 maxBytes 8 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0\n"
                                 f"# Using devices\n{ranks}#       size         count      type   redop    root     time   algbw   busbw #wrong     time   "
                                 f"algbw   busbw #wrong\n{row}")
    done = busbar.run("calibrate", name, "--output", "mine.json", cwd=tmp_path, emulated=False)
    assert done.returncode == 2 and done.stderr.endswith(f"(versions of nccl-tests before 2.16.7); try: {operation}={name}\n"), done.stderr
