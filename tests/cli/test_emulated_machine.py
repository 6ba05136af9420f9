"""plan and the emulated GPUs use the same machine model: the prediction for a shipped profile equals the time of a run on emulated GPUs
with this profile, to the nanosecond resolution of events. tests/proxies/simulation/machine checks the model itself with closed formulas."""
import json
import math
import pathlib
import re
import subprocess

import pytest

CLUSTERS = pathlib.Path(__file__).resolve().parents[2] / "profiles" / "clusters"
H100 = "h100-sxm-ib"
ENV = {"EMU_CLUSTER": H100, "EMU_DATA": "off"}


def key(row):
    return tuple(row[k] for k in ("collective", "count", "dtype", "op", "root", "placement"))


@pytest.mark.parametrize("ranks,args", [(8, ("all",)), (12, ("all_reduce", "all_gather", "alltoall", "broadcast", "sendrecv"))])
def test_collectives_take_the_predicted_time(busbar, tmp_path, ranks, args):
    """Message sizes for which NCCL chooses different variants, on one node and on two."""
    args = (*args, "-b", "1K", "-e", "1G", "-f", "32")
    run = busbar.json("bench", *args, "-n", 2, "--repeats", 1, "-w", 1, "-c", 0, "--show-choice", ranks=ranks, env=ENV, tmp_path=tmp_path)
    done = busbar.run("plan", *args, "--ranks", ranks, "--cluster", H100, "--json", "-", emulated=False)
    assert done.returncode == 0, done.stderr
    predicted = json.loads(done.stdout)["results"]
    assert [key(r) for r in predicted] == [key(r) for r in run["results"]]
    for a, b in zip(run["results"], predicted):
        assert a["time_us"]["p50"] == pytest.approx(b["time_us"]["p50"], abs=1.1e-3), key(a)
        if b["algorithm"]:
            assert (a["algorithm"], a["protocol"]) == (b["algorithm"], b["protocol"]), key(a)
    protocols = {r["protocol"] for r in run["results"] if r["collective"] == "all_reduce"}
    assert protocols > {"LL"}  # the sizes cover more than one protocol


@pytest.mark.parametrize("ranks,nvls", [(8, "NVLS"), (16, "NVLS_TREE")])
def test_emulated_nccl_and_plan_reduce_on_nvswitches_what_nccl_does(busbar, tmp_path, ranks, nvls):
    """ncclNvlsSupported in src/include/device.h of NCCL: sums; extremes only of integers with 32 and 64 bits and of 16-bit floats."""
    args = ("all_reduce", "-d", "all", "-o", "all", "--sizes", "256M", "--placement", "in_place")
    run = busbar.json("bench", *args, "-g", ranks, "-n", 1, "--repeats", 1, "-w", 1, "-c", 0, "--show-choice", env=ENV, tmp_path=tmp_path)["results"]
    done = busbar.run("plan", *args, "--ranks", ranks, "--cluster", H100, "--json", "-", emulated=False)
    assert [(*key(r), r["algorithm"]) for r in run] == [(*key(r), r["algorithm"]) for r in json.loads(done.stdout)["results"]]
    integers = [sign + bits for sign in ("int", "uint") for bits in ("32", "64")]
    assert {(r["dtype"], r["op"]) for r in run if r["algorithm"] == nvls} == {
        *((dtype, op) for dtype in (*integers, "half", "bfloat16") for op in ("sum", "max", "min")), ("float", "sum"), ("double", "sum")}


STEPS = [("gpt2_large", 4, 2, 3, "--compute", "timed"), ("dlrm", "--compute", "gemm", "--dtype", "bfloat16"),
         ("data_parallel", "--model", "resnet50", "--compute", "gemm", "--dtype", "half")]


@pytest.fixture
def cluster_without_sharing(tmp_path):
    """The same machine without contention between kernels and communication."""
    profile = json.loads((CLUSTERS / f"{H100}.json").read_text())
    assert profile.pop("sharing")
    (tmp_path / "alone.json").write_text(json.dumps(profile))
    return tmp_path / "alone.json"


@pytest.mark.parametrize("args", STEPS, ids=lambda args: args[0])
@pytest.mark.parametrize("sharing", [False, True], ids=["alone", "shared"])
def test_steps_take_the_predicted_time(busbar, tmp_path, cluster_without_sharing, sharing, args):
    """Timed kernels, GEMMs by their shape, memory-bound kernels by the achieved bandwidth, messages and collectives. With contention,
    plan slows down a layer as a whole, and an emulated GPU slows down each kernel."""
    cluster = H100 if sharing else cluster_without_sharing
    doc = busbar.json("proxy", *args, "-n", 2, "--warmup", 1, "--no-alone", "--cluster", cluster, tmp_path=tmp_path, ranks=4,
                      env={**ENV, "EMU_CLUSTER": str(cluster)})
    forecast = doc["forecast"]
    assert forecast["cluster"] == H100 and forecast["step"]["measured_us"] > 100
    assert doc["step_us"]["min"] == pytest.approx(doc["step_us"]["max"], rel=1e-9)
    for pair in (forecast["step"], forecast["traced_step"], *(forecast["rows"] if not sharing else ())):
        assert pair["predicted_us"] == pytest.approx(pair["measured_us"], rel=2e-3 if sharing else 1e-6, abs=2e-3)


def step_of(busbar, tmp_path, *args, ranks, cluster):
    """Returns the predicted and the emulated time of a step."""
    doc = busbar.json("proxy", *args, "-g", ranks, "-n", 1, "--warmup", 1, "--no-alone", "--cluster", cluster, tmp_path=tmp_path,
                      env={**ENV, "EMU_CLUSTER": cluster})
    return doc["forecast"]["step"]["predicted_us"], doc["forecast"]["step"]["measured_us"]


def test_groups_that_other_links_limit_share_their_nics_as_planned(busbar, tmp_path):
    """The links within the nodes limit the gradients of 16 ranks, the NICs those of 2 ranks per node, and they need the NICs at the same time."""
    args = ("transformer", "--model", "gpt_oss_20b", "--seq-length", 512, "--layers", 1, "--compute", "none", "--tp", 4, "--micro-batches", 1,
            "--sequence-parallel", "--dp-sync", "all_reduce")
    planned_us, run_us = step_of(busbar, tmp_path, *args, ranks=16, cluster=H100)
    assert run_us == pytest.approx(planned_us, rel=1e-6)


def test_groups_on_nics_of_two_and_of_three_gpus_share_them_as_planned(busbar, tmp_path):
    """A member that is alone on a NIC transfers more than members that share one. With jitter the simulation takes no ranks as equivalent."""
    (cluster := tmp_path / "nics.json").write_text(json.dumps({"name": "x", "base": H100, "nics_per_node": 3}))
    args = ("transformer", "--model", "llama3_8b", "--layers", 2, "--compute", "none", "--tp", 2, "--pp", 2, "--micro-batches", 1, "--dp-sync", "distributed")
    planned_us, run_us = step_of(busbar, tmp_path, *args, ranks=32, cluster=str(cluster))
    distinct = busbar.run("plan", *args, "--ranks", 32, "--cluster", cluster, "--jitter", "0.001%", "--samples", 1, "--json", "-", emulated=False)
    jitter = json.loads(distinct.stdout)["predicted"]["jitter"]
    assert run_us == pytest.approx(planned_us, rel=1e-6) and jitter["step_us"]["p50"] == pytest.approx(planned_us, rel=1e-6)


def test_waiting_workers_of_a_parameter_server_use_no_link(busbar, tmp_path):
    """GPUs that share NICs have one emulated timeline, on which a broadcast begins when the server does. On a timeline per process it begins
    with its worker, and slows the reductions down while it waits: then the run is too slow (tests/emulator/README.md has the bound)."""
    args = ("data_parallel", "--model", "resnet50", "--compute", "none", "--sync", "ps")
    planned_us, run_us = step_of(busbar, tmp_path, *args, ranks=8, cluster="gcp-a3-high")
    assert run_us == pytest.approx(planned_us, rel=1e-6)
    planned_us, run_us = step_of(busbar, tmp_path, *args, ranks=8, cluster=H100)
    assert 1.01 * planned_us < run_us < 1.2 * planned_us


# Two GPUs per NIC, 4 ranks on 2 nodes. The profile has NICs with 24.3 GB/s and intra-node links with 20 GB/s.
TIMED = ("--compute", "timed", "--forward-us", 100, "--backward-us", 200)
GPT = ("transformer", "--model", "gpt2_small", "--layers", 4, "--global-batch-size", 8, *TIMED)
STEPS_ON_ONE_NIC = {"both replicas' groups": (*GPT, "--tp", 2), "both pipelines": (*GPT, "--pp", 2), "one pipeline": (*GPT, "--pp", 4),
              "unequal stages": ("gpt2_large", 4, 2, 2), "collectives of all ranks": ("dlrm", "--compute", "none")}


@pytest.fixture
def pcie(tmp_path):
    """Returns pcie(gpus, nics, **more): a profile with this number of GPUs and NICs per node."""
    def write(gpus, nics, **more):
        profile = json.loads((CLUSTERS / "a100-pcie-ib.json").read_text()) | {"gpus_per_node": gpus, "nics_per_node": nics, **more}
        path = tmp_path / f"pcie{gpus}{nics}{len(more)}.json"
        path.write_text(json.dumps(profile))
        return path
    return write


def planned(busbar, *args, ranks=4):
    done = busbar.run("plan", *args, "--ranks", ranks, "--json", "-", emulated=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("case", STEPS_ON_ONE_NIC)
def test_gpus_of_one_nic_share_its_bandwidth(busbar, tmp_path, pcie, case):
    """The run equals the plan, and is slower than with one NIC per GPU. Exception: in a single pipeline only one rank sends to another
    node."""
    args = STEPS_ON_ONE_NIC[case]
    shared, alone_us = (planned(busbar, *args, "--cluster", pcie(2, nics))["predicted"]["step_us"] for nics in (1, 2))
    run = busbar.json("proxy", *args, "-n", 2, "--warmup", 1, "--no-alone", tmp_path=tmp_path, ranks=4,
                      env={"EMU_CLUSTER": str(pcie(2, 1)), "EMU_DATA": "off"})
    assert run["step_us"]["p50"] == pytest.approx(shared, rel=1e-6, abs=2e-3)
    assert shared == alone_us if case == "one pipeline" else shared > 1.1 * alone_us


# Oversubscribed uplinks of leaf switches, of one rail of a leaf, of pods; nodes of one or two GPUs.
LEAVES = {"nodes_per_leaf": 2, "leaf_oversubscription": 4}
RAILS = {"nodes_per_leaf": 1, "leaf_oversubscription": 3, "rails": True}
PODS = {"nodes_per_leaf": 1, "leaf_oversubscription": 1, "nodes_per_pod": 2, "pod_oversubscription": 7}


@pytest.mark.parametrize("case", ["both replicas' groups", "unequal stages", "collectives of all ranks"])
@pytest.mark.parametrize("gpus,fabric", [(1, LEAVES), (2, RAILS), (1, PODS)], ids=["leaves", "rails", "pods"])
def test_oversubscribed_uplinks_are_shared(busbar, tmp_path, pcie, gpus, fabric, case):
    args = STEPS_ON_ONE_NIC[case]
    flat, cluster = pcie(gpus, gpus), pcie(gpus, gpus, fabric=fabric)
    shared, alone_us = (planned(busbar, *args, "--cluster", path)["predicted"]["step_us"] for path in (cluster, flat))
    run = busbar.json("proxy", *args, "-n", 2, "--warmup", 1, "--no-alone", tmp_path=tmp_path, ranks=4,
                      env={"EMU_CLUSTER": str(cluster), "EMU_DATA": "off"})
    assert run["step_us"]["p50"] == pytest.approx(shared, rel=1e-6, abs=2e-3) and shared > 1.1 * alone_us


@pytest.mark.parametrize("gpus,nics,more,ranks", [(2, 1, {}, 4), (1, 1, {"fabric": PODS}, 4), (2, 2, {"fabric": RAILS}, 4), (3, 3, {}, 4), (3, 2, {"fabric": RAILS}, 6)],
                         ids=["NIC", "pods", "rails", "partial node with the root", "NICs of one and of two GPUs"])
def test_collectives_on_shared_links_take_the_predicted_time(busbar, tmp_path, pcie, gpus, nics, more, ranks):
    cluster = pcie(gpus, nics, **more)
    args = ("all_reduce", "all_gather", "alltoall", "gather", "sendrecv", "hypercube", "-r", 3, "--sizes", "1K,64M")
    run = busbar.json("bench", *args, "-n", 2, "--repeats", 1, "-w", 1, "-c", 0, ranks=ranks, tmp_path=tmp_path,
                      env={"EMU_CLUSTER": str(cluster), "EMU_DATA": "off"})
    predicted = planned(busbar, *args, "--cluster", cluster, ranks=ranks)["results"]
    assert [key(r) for r in predicted] == [key(r) for r in run["results"]]
    for a, b in zip(run["results"], predicted):
        assert a["time_us"]["p50"] == pytest.approx(b["time_us"]["p50"], abs=2e-3), key(a)


@pytest.mark.parametrize("nvls,algorithm", [("1", "NVLS_TREE"), ("0", "RING")])
def test_nccl_algo_has_nccls_spelling(busbar, tmp_path, nvls, algorithm):
    """NCCL_ALGO spells NVLSTree what results call NVLS_TREE, which NCCL_NVLS_ENABLE=0 disables."""
    run = busbar.json("bench", "all_reduce", "--sizes", "64M", "-n", "2", "--repeats", 1, ranks=4, tmp_path=tmp_path,
                      env={**ENV, "EMU_NODES": "2", "NCCL_ALGO": "allreduce:NVLSTree,Ring", "NCCL_PROTO": "Simple", "NCCL_NVLS_ENABLE": nvls})
    assert {(r["algorithm"], r["protocol"]) for r in run["results"]} == {(algorithm, "SIMPLE")}


@pytest.mark.parametrize("allowed,dtype,chosen", [("Ring,Tree", "f8e4m3", "TREE"), ("Ring,Tree", "half", "RING"), ("Ring", "f8e4m3", "RING")])
def test_nccl_algo_leaves_a_ring_the_last_choice_for_sums_in_fp8(busbar, tmp_path, allowed, dtype, chosen):
    """updateCollCostTable in src/enqueue.cc of NCCL multiplies the time of a ring of more than 8 ranks after it has applied NCCL_ALGO."""
    run = busbar.json("bench", "all_reduce", "-g", 16, "--sizes", "1G", "-d", dtype, "-n", 1, "--repeats", 1, "-w", 1, "-c", 0, "--placement", "in_place",
                      "--show-choice", tmp_path=tmp_path, env={**ENV, "NCCL_ALGO": allowed})
    assert {r["algorithm"] for r in run["results"]} == {chosen}


def test_emulated_nccl_chooses_the_fastest_variant(busbar, tmp_path):
    run = busbar.json("bench", "all_reduce", "--sweep-algorithms", "--sizes", "1K,64M", "--placement", "out_of_place", ranks=4, env=ENV,
                      tmp_path=tmp_path)
    forced = {(r["algorithm"], r["protocol"]) for r in run["results"] if r["forced"]}
    assert ("NVLS", "SIMPLE") in forced and ("TREE", "LL128") in forced and ("NVLS_TREE", "SIMPLE") not in forced
    assert [c["nccl_choice"] for c in run["algorithms"]] == ["best", "best"]


# ---- kernels and collectives at the same time --------------------------------------------------------------------------


def gemm_us(sms):
    """Time of a GEMM of 4096 x 4096 x 4096 in bfloat16: waves of tiles of 256 x 128, or of 128 x 128 at 0.92 of the rate, whichever is
    faster, with 1.2 times the rate of a large GEMM, but not faster than this; and half of the time that writes the result."""
    flops = 0.675 * 989e6 / 132  # FLOPs per microsecond and SM
    waves = min(math.ceil(16 * 32 / sms) * 2 * 256 * 128 * 4096, math.ceil(32 * 32 / sms) * 2 * 128 * 128 * 4096 / 0.92)
    return max(2 * 4096**3 / (flops * sms), waves / (1.2 * flops)) + 0.5 * 2 * 4096**2 / (0.85 * 3350e3)


@pytest.mark.parametrize("max_ctas,occupied_sms", [(None, 16), (8, 8), (4, 4)])
def test_gemms_during_collectives_have_fewer_sms(busbar, tmp_path, max_ctas, occupied_sms):
    """Collectives occupy 16 of 132 SMs, or their maximum number of CTAs, while they run; afterwards the GEMMs use all SMs. With a
    quarter of the CTAs a transfer takes four times as long."""
    run = busbar.json("bench", "overlap", "--sizes", "64M", "--ctas", "default,4,8", "-n", 10,
                      "--gemms", 16, "--repeats", 3, tmp_path=tmp_path, ranks=2, env=ENV)
    rows = {row["max_ctas"]: row for row in run["results"]}
    row, default_row = rows[max_ctas], rows[None]
    gemm, coll, in_both = (row[key]["p50"] for key in ("compute_alone_us", "comm_alone_us", "compute_in_both_us"))
    assert gemm == pytest.approx(16 * gemm_us(132), rel=1e-5)
    transfer = 10 * 2 ** 26 / 370e3  # ten operations on a ring of two ranks
    assert coll - default_row["comm_alone_us"]["p50"] == pytest.approx((16 / occupied_sms - 1) * transfer, abs=0.01)
    assert row["comm_in_both_us"]["p50"] == pytest.approx(coll, rel=1e-6) and row["channels"] == occupied_sms
    assert in_both == pytest.approx(min(16 * gemm_us(132 - occupied_sms),
                                        coll + (16 - coll / gemm_us(132 - occupied_sms)) * gemm_us(132)), rel=1e-4)


@pytest.mark.parametrize("nodes", [1, 2])
def test_cta_limits_slow_sends_and_receives_down(busbar, tmp_path, nodes):
    """A channel moves a sixteenth of the rate within a node; one NIC (48.5 GB/s) needs three of the channels."""
    rate = 330 if nodes == 1 else 48.5
    for ctas in (1, 2, 4, 16):
        run = busbar.json("bench", "sendrecv", "alltoall", "--sizes", "1G", "--max-ctas", ctas, tmp_path=tmp_path, ranks=2,
                          env={**ENV, "EMU_NODES": str(nodes)})
        for row in run["results"]:
            assert row["channels"] == ctas
            assert row["busbw_gbps"] == pytest.approx(min(rate, ctas * 330 / 16), rel=0.05), (row["collective"], ctas)


# ---- several nodes, slow links, slow ranks: EMU_NODES, EMU_SLOW ---------------------------------------------------------

P2P = ("bench", "p2p", "--latency-sizes", "8", "--bandwidth-sizes", "16M", "-n", 2, "--repeats", 2)


def test_p2p_times_differ_inside_and_between_nodes(busbar, tmp_path):
    """Four ranks on two nodes with emulated-default: 4 us and 200 GB/s inside a node, 10 us and 25 GB/s between nodes."""
    run = busbar.json(*P2P, ranks=4, env={"EMU_NODES": "2", "EMU_DATA": "off"}, tmp_path=tmp_path)
    assert run["nodes"] == 2 and not run["shared_gpu"]
    assert [d["host"].rpartition("-")[2] for d in run["devices"]] == ["node0", "node0", "node1", "node1"]
    assert len({d["uuid"] for d in run["devices"]}) == 4
    for row in run["results"]:
        same_node = (row["from"] < 2) == (row["to"] < 2)
        expected = (4 if same_node else 10) + row["bytes"] / (200e3 if same_node else 25e3)
        assert row["time_us"]["p50"] == pytest.approx(expected, abs=2e-3), row


@pytest.mark.parametrize("ranks, per_process", [(2, 4), (4, 2), (0, 8)])
def test_forked_ranks_are_on_the_same_nodes_as_launched_ranks(busbar, ranks, per_process):
    """-g N forks N ranks per process of the launcher: 8 ranks on two nodes, as with mpirun -n 8."""
    def table(ranks, per_process):
        program = [busbar.build / "emulated" / "all_reduce_perf", "-g", per_process, "-b", "64M", "-e", "64M", "-c", "0", "-n", "2"]
        launcher = [busbar.mpirun, "-n", ranks] if ranks else []
        done = busbar.run_program(*launcher, *program, env={"EMU_NODES": "2", "EMU_CLUSTER": H100, "EMU_DATA": "off"})
        assert done.returncode == 0, done.stderr
        rows = [line.split() for line in done.stdout.splitlines()]
        return [row[8] for row in rows if row[1:2] == ["Rank"]], [row[5:8] for row in rows if row[:1] == ["67108864"]]

    hosts, times = table(ranks, per_process)
    assert [host.rpartition("-")[2] for host in hosts] == ["node0"] * 4 + ["node1"] * 4
    assert times and (hosts, times) == table(8, 1)


def test_p2p_lists_the_slow_link_first(busbar, tmp_path):
    """NIC 1 of node 1 belongs to rank 3, the second rank of the node. All its links to the other node have half of 25 GB/s."""
    env = {"EMU_NODES": "2", "EMU_SLOW": "link=node1-nic1:0.5", "EMU_DATA": "off"}
    text = busbar.run(*P2P, "--full", "--json", tmp_path / "r.json", ranks=4, env=env).stdout
    run = json.loads((tmp_path / "r.json").read_text())
    for row in run["results"]:
        slow = 3 in (row["from"], row["to"]) and {row["from"], row["to"]} != {2, 3}
        if row["metric"] == "bandwidth" and (row["from"] < 2) != (row["to"] < 2):
            one_way = row["bytes"] / (10 + row["bytes"] / (12.5e3 if slow else 25e3)) / 1e3
            assert row["gbps"] == pytest.approx((2 if row["direction"] == "both" else 1) * one_way, rel=1e-4)
    ranked = next(line for line in text.splitlines() if line.startswith("# slowest links, bandwidth, one direction"))
    assert all("3" in pair.split()[0] for pair in ranked.split("): ")[1].split(", ")[:4]), ranked


def test_slow_link_limits_a_ring(busbar, tmp_path):
    """all_reduce on 4 ranks of 2 nodes: 2 x 2 steps of 10 us, and 1.5 times the bytes at half of 25 GB/s."""
    run = busbar.json("bench", "all_reduce", "--sizes", "16M", "--placement", "in_place", "-n", 2, "--repeats", 1, "-c", 0, ranks=4,
                      env={"EMU_NODES": "2", "EMU_SLOW": "link=node0-nic0:0.5", "EMU_DATA": "off"}, tmp_path=tmp_path)
    assert run["results"][0]["time_us"]["p50"] == pytest.approx(40 + 1.5 * 2 ** 24 / 12.5e3, abs=2e-3)


def test_ranks_fill_the_nodes_of_the_profile(busbar, tmp_path):
    """Nine ranks need two nodes of eight GPUs, for the label as for the times."""
    run = busbar.json("bench", "all_reduce", "--sizes", "64M", "-n", 2, "--repeats", 1, "-c", 0, ranks=9, env={"EMU_CLUSTER": H100, "EMU_DATA": "off"}, tmp_path=tmp_path)
    assert run["nodes"] == 2 and run["ranks"] == 9
    one = busbar.run("bench", "all_reduce", "--sizes", "8", "-n", 2, "--repeats", 1, "-c", 0, ranks=9, env={"EMU_NODES": "0", "EMU_DATA": "off"})
    assert "# 9 ranks on 1 node: " in one.stdout


def test_emulated_nodes_have_oversubscribed_uplinks(busbar, tmp_path):
    """Two ranks on each of two nodes. Each node has a leaf switch with uplinks for both NICs, which carry half of each rank's alltoall.
    The uplinks of leaf 1 have a quarter of their rate. The plan gives the same time."""
    profile, args = json.loads((CLUSTERS / f"{H100}.json").read_text()), ("alltoall", "--sizes", "64M", "--placement", "out_of_place")
    cluster, slow = tmp_path / "leaves.json", "link=leaf1:0.25"
    cluster.write_text(json.dumps(profile | {"gpus_per_node": 2, "nics_per_node": 2,
                                             "fabric": {"nodes_per_leaf": 1, "leaf_oversubscription": 1}}))
    run = busbar.json("bench", *args, "-n", 2, "--repeats", 1, "-c", 0, ranks=4, tmp_path=tmp_path,
                      env={"EMU_NODES": "2", "EMU_CLUSTER": str(cluster), "EMU_DATA": "off", "EMU_SLOW": slow})
    transfer_us = 2 * 2 ** 26 / 2 / (profile["inter"]["gbps"] * 1e3 / 2)
    assert run["results"][0]["time_us"]["p50"] == pytest.approx(
        profile["inter"]["latency_us"] + 2 * profile["inter"]["message_us"] + transfer_us, abs=2e-3)
    offline = busbar.run("plan", *args, "--ranks", 4, "--cluster", cluster, "--slow", slow, "--json", "-", emulated=False)
    doc = json.loads(offline.stdout)
    assert doc["predicted"]["slow"] == [slow]
    assert doc["results"][0]["time_us"]["p50"] == pytest.approx(run["results"][0]["time_us"]["p50"], abs=1.1e-3)


def test_jobs_on_two_gpus_of_each_node_have_the_uplinks_of_all_nics(busbar, tmp_path):
    """Two ranks on each of four nodes, leaves of two nodes with 2 * 8 / 4 * 48.5 GB/s. Their 16 messages of 1/8 to the other leaf take
    less time than the 6 messages of a rank to other nodes over its NIC."""
    profile, args = json.loads((CLUSTERS / f"{H100}.json").read_text()), ("alltoall", "--sizes", "64M", "--placement", "out_of_place")
    cluster = tmp_path / "leaves.json"
    cluster.write_text(json.dumps(profile | {"fabric": {"nodes_per_leaf": 2, "leaf_oversubscription": 4}}))
    run = busbar.json("bench", *args, "-n", 2, "--repeats", 1, "-c", 0, ranks=8, tmp_path=tmp_path,
                      env={"EMU_NODES": "4", "EMU_CLUSTER": str(cluster), "EMU_DATA": "off"})
    far, offline = profile["inter"], busbar.run("plan", *args, "--ranks", 8, "--gpus-per-node", 2, "--cluster", cluster, "--json", "-", emulated=False)
    us = far["latency_us"] + far.get("group_us", 0) + 6 * far["message_us"] + 6 / 8 * 2 ** 26 / (far["gbps"] * 1e3)
    for doc in (run, json.loads(offline.stdout)):
        assert doc["results"][0]["time_us"]["p50"] == pytest.approx(us, abs=2e-3)


def test_slow_rank_lengthens_the_step(busbar, tmp_path):
    """The kernels of rank 1 take 1.5 times as long, and the breakdown describes rank 1, the slowest."""
    args = ("proxy", "data_parallel", "--model", "resnet50", "--compute", "timed", "-n", 2, "--warmup", 1, "--no-alone")
    even, slow = (busbar.json(*args, ranks=2, env={"EMU_DATA": "off", "EMU_SLOW": slow}, tmp_path=tmp_path)
                      for slow in ("", "rank=1:1.5"))
    assert slow["breakdown"]["rank"] == 1
    assert slow["breakdown"]["compute_us"] == pytest.approx(1.5 * even["breakdown"]["compute_us"], rel=1e-3)
    assert slow["step_us"]["p50"] - even["step_us"]["p50"] == pytest.approx(0.5 * even["breakdown"]["compute_us"], rel=1e-3)


@pytest.mark.parametrize("args,ranks,slow,tolerance", [
    (("gpt2_large", 4, 2, 2, "--compute", "timed"), 10, "link=node1-nic1:0.5", 1e-6),
    (("gpt2_large", 4, 2, 2, "--compute", "timed"), 10, "link=node0-to-node1:0.2", 1e-6),
    (("data_parallel", "--model", "resnet50", "--compute", "gemm", "--dtype", "half"), 2, "rank=1:1.5", 2e-3),
    (("gpt2_large", 8, 2, 8, "--compute", "gemm", "--dtype", "bfloat16"), 2, "rank=0:1.5", 1e-3)], ids=["link", "path", "rank", "pipeline"])
def test_plan_slow_equals_a_run_with_emu_slow(busbar, tmp_path, args, ranks, slow, tolerance):
    """`plan --slow` and EMU_SLOW accept the same values and give the same step, which is longer than without them."""
    run = busbar.json("proxy", *args, "-n", 2, "--warmup", 1, "--no-alone", tmp_path=tmp_path, ranks=ranks, env={**ENV, "EMU_SLOW": slow})
    steps = []
    for more in ((), ("--slow", slow)):
        done = busbar.run("plan", *args, "--ranks", ranks, "--cluster", H100, *more, "--json", "-", emulated=False)
        assert done.returncode == 0, done.stderr
        steps.append(json.loads(done.stdout)["predicted"]["step_us"])
    assert run["step_us"]["p50"] == pytest.approx(steps[1], rel=tolerance, abs=2e-3) and steps[1] > 1.05 * steps[0]


@pytest.fixture
def one_nic(tmp_path):
    """Nodes with two GPUs and one NIC."""
    path = tmp_path / "one_nic.json"
    path.write_text(json.dumps(json.loads((CLUSTERS / "a100-pcie-ib.json").read_text()) | {"gpus_per_node": 2, "nics_per_node": 1}))
    return path


def test_groups_share_a_slow_path(busbar, tmp_path, one_nic):
    """The two data-parallel groups share the path of the nodes, as they share the NIC: half of either costs the same, in a plan and in a run."""
    args = ("transformer", "--model", "gpt2_small", "--tp", 2, "--dp", 2, "--layers", 2)
    planned, run = {}, {}
    for slow in ("rank=0:1", "link=node0-node1:0.5", "link=node0-nic0:0.5", "link=node1-to-node0:0.3"):
        done = busbar.run("plan", *args, "--ranks", 4, "--cluster", one_nic, "--slow", slow, "--json", "-", emulated=False)
        assert done.returncode == 0, done.stderr
        planned[slow] = json.loads(done.stdout)["predicted"]
        run[slow] = busbar.json("proxy", *args, "--compute", "timed", "--no-alone", "-w", 1, "-n", 2, ranks=4, tmp_path=tmp_path,
                                env={**ENV, "EMU_CLUSTER": str(one_nic), "EMU_SLOW": slow})["step_us"]["p50"]
    even, path, nic, way = (planned[slow] for slow in planned)
    dp = [{g["name"]: g for g in step["groups"]}["dp"]["busbw_gbps"] for step in planned.values()]
    assert path["step_us"] == pytest.approx(nic["step_us"], rel=1e-6) and path["step_us"] > 1.5 * even["step_us"]
    assert dp[1] / dp[0] == pytest.approx(0.5, rel=0.01) and dp[3] / dp[0] == pytest.approx(0.3, rel=0.02)
    for slow in list(planned)[1:]:
        assert run[slow] - run["rank=0:1"] == pytest.approx(planned[slow]["step_us"] - even["step_us"], rel=1e-4), slow
    assert way["step_us"] > path["step_us"]


@pytest.mark.parametrize("link,way", [("node1-node3", "path between"), ("node1-to-node3", "path from")])
def test_pairs_of_gpus_share_a_slow_path(busbar, tmp_path, one_nic, link, way):
    """All GPU pairs of two nodes at once: the sum is half of the NIC's rate."""
    run = busbar.run("bench", "p2p", "--nodes", ranks=8, env={**ENV, "EMU_CLUSTER": str(one_nic), "EMU_NODES": "4", "EMU_SLOW": f"link={link}:0.5"})
    assert run.returncode == 5 and re.findall(r"^fail +pairs +(path \w+) ", run.stdout, re.M) == [way]
    assert re.search(r"^ +1 +24\.3 +- +24\.3 +12\.1$", run.stdout, re.M), run.stdout


@pytest.mark.parametrize("args,ranks,late,planted", [
    (("data_parallel", "--model", "resnet50", "--compute", "timed"), 4, ("--slow", "rank=1:1.5"), {"dp": 1}),
    (("data_parallel", "--model", "resnet50", "--compute", "timed"), 4, ("--delay", "rank=2:100us"), {"dp": 2}),
    (("gpt2_large", 8, 4, 4, "--compute", "timed"), 8, ("--slow", "rank=1:1.5,rank=4:1.1"), {"pp": 1}),
    (("transformer", "--model", "gpt2_small", "--layers", 4, "--pp", 2, "--tp", 2, "--micro-batches", 4, "--compute", "gemm", "--dtype",
      "half"), 8, ("--slow", "rank=5:1.5"), {"tp": 5}),
], ids=["slow", "delay", "chain", "gemm"])
def test_run_names_the_rank_that_the_others_wait_for(busbar, tmp_path, args, ranks, late, planted):
    """The longest wait of the planted rank's group is for this rank. Every row of the run and of the plan has the same ranks, and the
    same waiting times within 1 % (GEMMs: 3 %) of the step. A slow rank equals EMU_SLOW, with which the emulated GPU itself is slow."""
    common = ("proxy", *args, "-n", 2, "--warmup", 1, "--no-alone")
    run = busbar.json(*common, *late, tmp_path=tmp_path, ranks=ranks, env=ENV)
    done = busbar.run("plan", *args, "--ranks", ranks, "--cluster", H100, *late, "--json", "-", emulated=False)
    predicted = json.loads(done.stdout)["predicted"]
    assert run["step_us"]["p50"] == pytest.approx(predicted["step_us"], rel=0.01)
    assert len(run["waiting"]) == len(predicted["waiting"])
    for got, expected in zip(run["waiting"], predicted["waiting"]):
        assert [got[key] for key in ("role", "group", "ranks")] == [expected[key] for key in ("role", "group", "ranks")]
        for key in ("median_us", "most_us"):
            assert got[key] == pytest.approx(expected[key], rel=0.05, abs=0.01 * predicted["step_us"]), (key, got)
        assert got["median_us"] <= got["most_us"] <= run["step_us"]["max"] and got["waited_for_us"] <= got["most_us"] * 1.000001
    assert run["late_rank"] == list(planted.values())[0]
    for group, rank in planted.items():
        worst = max((row for row in run["waiting"] if row["group"] == group), key=lambda row: row["most_us"])
        assert worst["waited_for"] == rank != worst["most_rank"]
        assert worst["waited_for_us"] > 0.5 * worst["most_us"] > 0
    if late[0] == "--slow":
        same = busbar.json(*common, tmp_path=tmp_path, ranks=ranks, env={**ENV, "EMU_SLOW": late[1]})
        assert run["step_us"]["p50"] == pytest.approx(same["step_us"]["p50"], rel=0.01)
        assert same["late_rank"] == run["late_rank"]
        assert [row["waited_for"] for row in same["waiting"] if row["most_us"] > 50] == \
            [row["waited_for"] for row in run["waiting"] if row["most_us"] > 50]


@pytest.mark.parametrize("split,late", [("--pp", 3), ("--pp", 6), ("--tp", 5)])
def test_late_rank_of_a_pipeline_is_named(times_only, tmp_path, split, late):
    """Two replicas of four ranks: the late replica waits inside, the other one for its gradients, where kernels hide it with --tp."""
    run = times_only.json("proxy", "transformer", "--model", "gpt2_small", "--layers", 4, split, 4, "--micro-batches", 8, "--compute", "timed", "-g", 8,
                          "-n", 2, "-w", 1, "--no-alone", "--delay", f"rank={late}:20ms", tmp_path=tmp_path)
    assert run["late_rank"] == late


@pytest.mark.parametrize("model,split,late,costs", [
    ("gpt2_xl", "--pp 2", 0, True), ("gpt2_xl", "--pp 2", 12, False), ("gpt2_xl", "--pp 4", 12, False), ("gpt3_1_3b", "--pp 2 --tp 2", 12, False)])
def test_rank_that_is_late_by_a_part_of_the_bubble_is_named(times_only, tmp_path, model, split, late, costs):
    """5 ms are 3 % of the step, in which all ranks wait ten times as long in the bubble. The late rank is idle, which the others are not."""
    args = ("proxy", "transformer", "--model", model, *split.split(), "-g", 16, "-n", 1, "-w", 1, "--compute", "timed", "--no-alone")
    even, run = (times_only.json(*args, "--delay", f"rank={late}:{us}us", tmp_path=tmp_path) for us in (1, 5000))
    assert (even["late_rank"], run["late_rank"]) == (None, late)
    assert (run["step_us"]["p50"] - even["step_us"]["p50"] > 4000) == costs


def test_ranks_without_another_of_their_role_are_named_with_both_causes(busbar):
    """One rank per stage: a slow GPU and the stage with the vocabulary head look the same, and so do a late rank and a stage with gaps."""
    done = busbar.run("proxy", "transformer", "--model", "gpt2_small", "--pp", 4, "-n", 1, "-w", 1, "--compute", "timed", "--no-alone", "--delay", "rank=2:5ms",
                      ranks=4, env={"EMU_SLOW": "rank=1:1.5"})
    *_, slow, head, late = done.stdout.splitlines()
    assert re.fullmatch(r"# slow, or its role has more work: rank 1 \(\S+, GPU 1, \S+\), stage 1: kernels take \S+ ms, 1\.\d+ x the typical time", slow), slow
    assert head.startswith("# slow, or its role has more work: rank 3 (") and "last stage" in head
    assert re.fullmatch(r"# late, or its role has idle time: rank 2 \(\S+, GPU 2, \S+\), stage 2: idle 5\.0\d ms longer than the others", late), late


def test_proxy_counts_gpus_that_it_cannot_judge(busbar, tmp_path):
    """With one rank per stage of a pipeline, no rank has another rank with the same program to compare with."""
    args = ("proxy", "transformer", "--model", "gpt2_small", "--layers", 4, "--micro-batches", 4, "--pp", 4, "-n", 2, "-w", 1,
            "--scale-counts", 0.01, "--no-alone")
    done = busbar.run(*args, "--full", ranks=4, env={"EMU_DATA": "off", "EMU_SLOW": "rank=0:1.5"})
    assert ("\n# 4 of 4 ranks are not judged as slow or late: no other rank has the same role, so that a slow rank cannot be distinguished from a role with more work; "
            "to judge them: more ranks (replicas)\n") in done.stdout and done.stdout.count("not judged as slow") == 1


def test_delayed_rank_delays_the_step_once(busbar, tmp_path):
    """With --delay a step, its CUDA graph and a step with a start barrier take as much longer. The text names the rank."""
    args = ("proxy", "data_parallel", "--model", "resnet18", "--compute", "timed", "-n", 2, "--warmup", 1, "--no-alone", "--graph", "--start-barrier")
    even, late = (busbar.json(*args, *more, tmp_path=tmp_path, ranks=2, env=ENV) for more in ((), ("--delay", "rank=0:2ms")))
    for step in (lambda r: r["step_us"]["p50"], lambda r: r["graph"]["step_us"]["p50"], lambda r: r["start_barrier"]["step_us"]["p50"]):
        assert step(late) - step(even) == pytest.approx(2000, abs=20)
    text = busbar.run(*args, "--full", "--delay", "rank=0:2ms", ranks=2, env=ENV).stdout
    assert re.search(r"^# waiting for peers .*\n  replica +dp +2 +\S+ +\S+ +1 +0 ", text, re.M), text
    assert re.fullmatch(r"# late: rank 0 \(\S+, GPU 0, \S+\), replica: idle 2\.0\d ms longer than the other ranks of the role, which wait for it; its GPU has no work then, "
                        r"so check its host: .*", text.splitlines()[-1])
    for proxy, late, named in (("dlrm", "rank=3:1ms", ["slow: rank 2", "late: rank 3"]), ("dlrm", "rank=2:1ms", ["slow: rank 2", "late: rank 2"]),
                               ("data_parallel", "rank=3:300us", ["slow: rank 2"])):  # its first collective begins after the slow rank's kernels
        text = busbar.run("proxy", proxy, *(args[2:6] if proxy == args[1] else ()), "-n", 1, "-w", 1, "--no-alone", "--slow", "rank=2:1.5", "--delay",
                          late, "-g", 4, env=ENV).stdout
        assert re.findall(r"^# ((?:slow|late): rank \d)", text, re.M) == named, text


def verdicts(run, tmp_path, proxy, ranks, *args, slow="rank=0:1"):
    """Runs a proxy. Returns its lines of slow and late ranks and slow groups, and its JSON."""
    done = run("proxy", *proxy, "--compute", "timed", "-g", ranks, "-n", 1, "-w", 1, "--traced-steps", 1, "--no-alone", "--json", tmp_path / "v.json", *args,
               env={"EMU_SLOW": slow, "EMU_CLUSTER": H100})
    assert done.returncode == 0, done.stderr
    return re.findall(r"^# ((?:slow|late).*)", done.stdout, re.M), json.loads((tmp_path / "v.json").read_text())


DDP, TP8 = ("data_parallel", "--model", "gpt2_small"), ("transformer", "--model", "gpt3_1_3b", "--tp", 8, "--micro-batches", 2)
PP2, EP8 = ("transformer", "--model", "gpt3_1_3b", "--pp", 2, "--micro-batches", 4), ("transformer", "--model", "qwen3_30b_a3b", "--layers", 4, "--ep", 8)


@pytest.mark.parametrize("proxy,ranks", [(DDP, 8), (TP8, 16), (PP2, 16), (EP8, 16)], ids=["ddp", "tp", "pp", "ep"])
def test_delay_of_a_late_rank_is_its_own(times_only, tmp_path, proxy, ranks):
    """The time of the late rank's delay, not the sum of what other ranks wait in each bucket, group and replica. Its kernels are as fast as theirs."""
    for ms in (8, 20):
        (line,), run = verdicts(times_only.run, tmp_path, proxy, ranks, "--delay", f"rank=6:{ms}ms")
        assert line.startswith("late: rank 6 (") and float(re.search(r": idle (\S+) ms longer than the other ranks", line)[1]) == pytest.approx(ms, rel=0.02), line
        assert (run["late_rank"], run["late_cause"], run["slow_gpus"]) == (6, "idle", []) and run["late_us"] == pytest.approx(1000 * ms, rel=0.02)


@pytest.mark.parametrize("proxy,ranks", [(DDP, 8), (TP8, 16), (PP2, 16), (EP8, 16)], ids=["ddp", "tp", "pp", "ep"])
def test_slightly_slow_gpu_is_named(times_only, tmp_path, proxy, ranks):
    """From 2 % on it is a slow GPU. Below, it is late if the others wait for it, and its kernels are the cause."""
    for slow in (1.03, 1.08):
        (line,), run = verdicts(times_only.run, tmp_path, proxy, ranks, slow=f"rank=5:{slow}")
        assert re.match(rf"slow: rank 5 \(.*, {slow:.2f} x the typical time", line), line
        assert [gpu["rank"] for gpu in run["slow_gpus"]] == [5] and run["slow_gpus"][0]["slowdown"] == pytest.approx(slow, rel=0.005)
        assert run["late_rank"] in (None, 5) and run["late_cause"] in (None, "kernels")
    lines, run = verdicts(times_only.run, tmp_path, DDP, 8, slow="rank=5:1.01")
    assert re.match(r"late: rank 5 \(.*: kernels take \S+ us longer than those of the other ranks .*; check its GPU", lines[0]), lines
    assert run["slow_gpus"] == [] and (run["late_rank"], run["late_cause"]) == (5, "kernels")
    spread = ",".join(f"rank={r}:{1 + (r * 7 % 8) / 200}" for r in range(8))  # 1, 1.005, .. 1.035, in another order
    lines, run = verdicts(times_only.run, tmp_path, DDP, 8, slow=spread)
    assert (lines, run["slow_gpus"], run["late_rank"]) == ([], [], None)


def test_slow_node_is_named_instead_of_its_ranks(times_only, tmp_path):
    lines, run = verdicts(times_only.run, tmp_path, TP8, 16, slow="node1:0.7,rank=3:1.05")
    assert [gpu["rank"] for gpu in run["slow_gpus"]] == [3, *range(8, 16)]
    assert re.fullmatch(r"slow: all 8 ranks of \S+-node1: kernels take 1\.43 x the typical time .*", lines[0]), lines
    assert len(lines) == 2 and re.match(r"slow: rank 3 \(.* 1\.05 x ", lines[1]), lines
    lines, run = verdicts(times_only.run, tmp_path, TP8, 16, "--full", slow="node1:0.7")
    assert [re.match(r"slow: (all 8 ranks|rank \d+)", line)[1] for line in lines] == ["all 8 ranks", *(f"rank {r}" for r in range(8, 16))], lines


@pytest.mark.parametrize("proxy", [TP8, PP2, EP8], ids=["tp", "pp", "ep"])
def test_slow_gpu_late_rank_and_slow_nic_are_all_named(times_only, tmp_path, proxy):
    """NIC 3 of node 1 is that of rank 11, whose replica on node 0 is rank 3."""
    faults = {"rank=5:1.06": "slow: rank 5 (", "link=node1-nic3:0.4": r"slow communication: group \w+ of ranks 3, 11 ("}
    for slow in ("rank=5:1.06,link=node1-nic3:0.4", "rank=5:1.06", "link=node1-nic3:0.4"):
        lines, run = verdicts(times_only.run, tmp_path, proxy, 16, "--delay", "rank=6:8ms", slow=slow)
        expected = {faults[fault].replace("(", r"\(") for fault in slow.split(",")} | {r"late: rank 6 \(.* idle 8\.0. ms longer"}
        assert {e for e in expected for line in lines if re.match(e, line)} == expected, lines
        assert all(any(re.match(e, line) for e in expected) for line in lines), lines
        assert [gpu["rank"] for gpu in run["slow_gpus"]] == [5] * ("rank" in slow)


@pytest.mark.parametrize("slow", ["link=node1-nic1:0.25", "link=node0-node1:0.2", "link=node1-to-node0:0.2"])
def test_offline_collectives_with_slow_links_equal_a_run(busbar, tmp_path, slow):
    """Nodes with eight and four ranks and one NIC per two GPUs. One NIC of the second node has a quarter of its rate, or the path between
    the nodes is slow. `plan --slow` and a run with EMU_SLOW give the same time for each operation, and operations through this link take
    longer than without the slow link."""
    cluster, ranks = "l40s-pcie-ib", 12
    args = ("all_reduce", "all_gather", "alltoall", "gather", "broadcast", "sendrecv", "alltoallv", "--sizes", "1K,32M", "--placement", "out_of_place")
    run = busbar.json("bench", *args, "-n", 2, "--repeats", 1, "-w", 1, "-c", 0, ranks=ranks, tmp_path=tmp_path,
                      env={**ENV, "EMU_CLUSTER": cluster, "EMU_SLOW": slow})
    offline, even = (json.loads(busbar.run("plan", *args, "--ranks", ranks, "--cluster", cluster, *more, "--json", "-",
                                           emulated=False).stdout)
                      for more in (("--slow", slow), ()))
    assert (offline["predicted"]["cluster"], offline["predicted"]["slow"], even["predicted"]["slow"]) == (cluster, slow.split(","), [])
    assert [key(r) for r in offline["results"]] == [key(r) for r in run["results"]]
    slower = set()
    for a, b, c in zip(run["results"], offline["results"], even["results"]):
        assert b["time_us"]["p50"] == pytest.approx(a["time_us"]["p50"], abs=1.1e-3), key(a)
        if b["time_us"]["p50"] > 1.05 * c["time_us"]["p50"]:
            slower.add((a["collective"], a["bytes"] > 2 ** 20))
    assert slower >= {("all_gather", True), ("alltoall", True), ("alltoallv", True)} and all(large for _, large in slower)


@pytest.mark.parametrize("cluster,nodes", [("h100-sxm-ib", 2), ("emulated-default", 4), ("l40s-pcie-ib", 3)])
def test_group_calls_between_nodes_take_as_long_as_offline(busbar, tmp_path, cluster, nodes):
    """Each of several messages takes message_us, with GPUs that share NICs and without "sharing", too."""
    profile = json.loads((CLUSTERS / f"{cluster}.json").read_text())
    profile["inter"] |= {"group_us": 30, "message_us": 7}
    (tmp_path / "cluster.json").write_text(json.dumps(profile | {"gpus_per_node": 4} | ({"nics_per_node": 2} if "nccl" in profile else {})))
    args = ("alltoallv", "--sizes", "64K,1M", "--imbalance", 0.5)
    run = busbar.json("bench", *args, "-n", 2, "--repeats", 1, "-c", 0, ranks=4 * nodes, tmp_path=tmp_path,
                      env={**ENV, "EMU_NODES": str(nodes), "EMU_CLUSTER": str(tmp_path / "cluster.json")})
    plan = ("plan", *args, "--ranks", 4 * nodes, "--json", "-", "--cluster", tmp_path / "cluster.json")
    offline, without = (json.loads(busbar.run(*plan, *more, emulated=False).stdout)["results"]
                        for more in ((), ("--set", "inter.group_us=0", "--set", "inter.message_us=0")))
    for a, b, c in zip(run["results"], offline, without, strict=True):
        assert b["time_us"]["p50"] == pytest.approx(c["time_us"]["p50"] + 30 + 7 * 4 * (nodes - 1), abs=1.1e-3)
        assert a["time_us"]["p50"] == pytest.approx(b["time_us"]["p50"], abs=1.1e-3)


@pytest.mark.parametrize("variable,value,message", [
    ("EMU_SLOW", "rank=5",
     "'rank=5' is not valid, expected rank=R:TIMES, nodeN:PART, link=nodeN-nicM:PART, link=nodeN-nodeM:PART, link=nodeN-to-nodeM:PART or link=leafN:PART; TIMES"),
    ("EMU_SLOW", "link=leaf0:0.5", "link=leaf0 requires a profile with 'fabric', and 'emulated-default' has none"),
    ("EMU_SLOW", "link=node0-nic0:2", "'link=node0-nic0:2' is not valid, expected rank=R:TIMES"),
    ("EMU_SLOW", "rank=2:1.1", "there is no rank 2, expected 0 to 1"),
    ("EMU_SLOW", "link=node1-nic0:0.5", "there is no node 1, expected 0 to 0"),
    ("EMU_NODES", "two", "EMU_NODES=two: expected 0 to 1024"),
    ("EMU_FAULTS", "die", "unknown variable EMU_FAULTS=die; busbar help environment lists"),
])
def test_rejects_invalid_emulator_variables(busbar, variable, value, message):
    for mpirun in [None, ()][:1 + (variable == "EMU_NODES")]:
        done = busbar.run("bench", "p2p", ranks=2, mpirun=mpirun, env={variable: value})
        assert done.returncode == 2 and done.stderr.count(message) == 1 and "ended by" not in done.stderr, done.stderr


@pytest.mark.parametrize("args", [("--dp", "4"), ("--pp", "2", "--full")], ids=["dp", "pp"])
def test_proxy_names_the_slow_gpu_among_ranks_of_a_role(busbar, tmp_path, args):
    """The last line and the JSON name the rank, host and GPU with 1.5 times the kernel time of its role; a healthy job names no rank,
    although the stages of a pipeline compute for different times."""
    command = ("proxy", "transformer", "--model", "gpt2_small", "--layers", 4, "--micro-batches", 4, *args, "-n", 2, "-w", 1,
               "--scale-counts", 0.01, "--no-alone", "--json", tmp_path / "r.json")
    env = {"EMU_DATA": "off", "EMU_NODES": "2"}
    done = busbar.run(*command, ranks=4, env={**env, "EMU_SLOW": "rank=3:1.5"})
    (slow,) = json.loads((tmp_path / "r.json").read_text())["slow_gpus"]
    assert (slow["rank"], slow["gpu"]) == (3, 1) and slow["host"].endswith("node1") and slow["slowdown"] == pytest.approx(1.5, rel=0.01)
    last = done.stdout.splitlines()[-1]
    assert last.startswith(f"# slow: rank 3 ({slow['host']}, GPU 1, 0000:02:00.0), {slow['role']}: kernels take ") and ", 1.50 x " in last
    done = busbar.run(*command, ranks=4, env=env)
    result = json.loads((tmp_path / "r.json").read_text())
    assert result["slow_gpus"] == [] and result["late_rank"] is None
    assert not re.search(r"# (slow|late):|all wait for", done.stdout) and "\n# data not checked: EMU_DATA=off moves no data" in done.stdout


def test_proxy_names_a_slow_gpu_and_all_slow_groups(times_only, tmp_path):
    """Three of the eight groups that span the slow path are named, the others counted."""
    done = times_only.run("proxy", "transformer", "--model", "gpt2_small", "--layers", 4, "--pp", 2, "--micro-batches", 2, "-n", 1, "-w", 1, "--traced-steps", 1,
                          "--no-alone", "-g", 16, env={"EMU_NODES": "4", "EMU_CLUSTER": "h100-sxm-ib", "EMU_SLOW": "rank=6:1.5,link=node1-node3:0.2"})
    lines = [line for line in done.stdout.splitlines() if line.startswith("# slow")]
    assert [re.match(r"# slow: rank 6|# slow communication: (group embedding of ranks \d, \d+|5 more groups$)", line) is None for line in lines] == [False] * 5, lines


def test_slow_gpu_explains_the_transfers_of_its_group(times_only):
    """The transfers of rank 11's tensor parallel group take 1.11 x the time of the others, because its kernels are slow."""
    done = times_only.run("proxy", "transformer", "--model", "gpt3_1_3b", "--tp", 2, "--compute", "gemm", "-n", 1, "-w", 1, "--traced-steps", 1,
                          "--no-alone", "-g", 16, env={"EMU_NODES": "2", "EMU_CLUSTER": "h100-sxm-ib", "EMU_SLOW": "rank=11:1.3"})
    assert "# slow: rank 11 " in done.stdout and "slow communication" not in done.stdout, done.stdout


def test_proxy_names_the_group_with_a_slow_nic(busbar, tmp_path):
    """NIC 0 of node 1 is that of rank 2. Without another group of the same shape only a prediction shows that transfers are slow; all
    ranks then end together, so that the rank of the table is no culprit."""
    command = ("proxy", "transformer", "--model", "gpt2_small", "--layers", 2, "-n", 1, "-w", 1, "--traced-steps", 1, "--no-alone")
    env = {"EMU_DATA": "off", "EMU_NODES": "4", "EMU_CLUSTER": "h100-sxm-ib"}
    slow = {"EMU_SLOW": "link=node1-nic0:0.3"}
    done = busbar.run(*command, "--tp", 2, "--json", tmp_path / "r.json", ranks=8, env={**env, **slow})
    found = json.loads((tmp_path / "r.json").read_text())["slow_transfers"]
    assert {s["rank"] for s in found} == {0, 2, 4, 6} and {s["group"] for s in found} == {"dp"}
    line, last = done.stdout.splitlines()[-2:]
    assert re.fullmatch(r"# slow communication: group dp of ranks 0, 2, 4, 6 \((\S+node\d, ){3}\S+node3\): transfers take \S+ \wm?s, "
                        r"\S+ x the time of other groups \(\S+ \ws longer\)", line), line
    assert last == "# to find the link: busbar-emulated bench p2p"
    done = busbar.run(*command, "--tp", 2, "--json", tmp_path / "r.json", ranks=8, env=env)
    assert json.loads((tmp_path / "r.json").read_text())["slow_transfers"] == [] and "slow communication" not in done.stdout
    assert done.stdout.splitlines()[-1].startswith("# a node whose NICs are all slow would not be named: the compared groups span all nodes; ")
    not_judged = "# NICs not judged as slow or not: no other group has the shape of group dp, "
    assert not_judged not in done.stdout
    last = busbar.run(*command, ranks=4, env={**env, **slow}).stdout.splitlines()[-1]
    assert last.startswith(not_judged) and last.endswith("; to judge each NIC: busbar-emulated health; to compare communication with a prediction: --cluster NAME|FILE")
    args = (*command, "--cluster", "h100-sxm-ib")
    done = busbar.run(*args, ranks=4, env={**env, **slow})
    assert not_judged not in done.stdout
    assert "the slowest rank (step times within 1 %)" in done.stdout
    assert re.search(r"# communication takes [23]\.\d\d x the time predicted for h100-sxm-ib; to find the link: busbar-emulated bench p2p$", done.stdout)
    assert "# communication takes" not in busbar.run(*args, ranks=4, env=env).stdout
    done = busbar.run(*args, "--compute", "timed", ranks=4, env={**env, "EMU_SLOW": ",".join(f"rank={r}:1.5" for r in range(4))})
    assert done.stdout.endswith("# compute takes 1.50 x the time predicted for h100-sxm-ib; to test the GPUs: busbar-emulated bench compute\n"), done.stdout
    one_role = ("--layers", 4, "--pp", 4, "--micro-batches", 8, "--compute", "timed")  # rank 2 delays the others, which wait in messages
    done = busbar.run(*args, *one_role, ranks=4, env={**env, "EMU_NODES": "1", "EMU_SLOW": "rank=2:5"})
    assert done.stdout.endswith("h100-sxm-ib: a slow or late rank, or a slow link; to find it: busbar-emulated bench compute, busbar-emulated bench p2p\n"), done.stdout
    for ranks, has_others in ((5, False), (4, True)):  # on three nodes: 2, 2 and 1; 2, 1 and 1
        done = busbar.run(*args, "--json", tmp_path / "r.json", ranks=ranks, env={**env, "EMU_NODES": "3"})
        assert ("--cluster: the prediction assumes nodes of 2 consecutive ranks" in done.stderr) == has_others, done.stderr
        assert "# communication takes" not in done.stdout and "--cluster NAME|FILE" not in done.stdout, done.stdout
        assert (abs(json.loads((tmp_path / "r.json").read_text())["forecast"]["step"]["error"]) > 0.001) == has_others
    done = busbar.run(*args, ranks=4, env={**env, "NCCL_MAX_CTAS": "1"})
    assert re.search(r"# communication takes \d+\.\d\d x the time predicted for h100-sxm-ib; restricted by \$NCCL_MAX_CTAS=1; if it is as "
                     r"slow without that: busbar-emulated bench p2p$", done.stdout)


def test_proxy_names_the_role_that_computes_longest(busbar):
    """The last stage of gpt2_small has the vocabulary head, and all stages end together. A step of layer_parallel ends on rank 0, and with
    rank 2 three times as slow as the others, it waits for that rank."""
    args = ("-n", "2", "-w", "1", "--compute", "timed")
    done = busbar.run("proxy", "transformer", "--model", "gpt2_small", "--micro-batches", "8", "--pp", "4", *args, ranks=4)
    assert re.search("^# role .*\n  last stage +1 +3 ", done.stdout, re.M) and "most compute" not in done.stdout
    for slow, rank in (({}, 3), ({"EMU_SLOW": "rank=2:3"}, 2)):
        done = busbar.run("proxy", "layer_parallel", *args, ranks=4, env=slow)
        assert re.search("^# role .*\n  split 0 +1 +0 ", done.stdout, re.M)
        assert re.search(rf"^# most compute: rank {rank} \(split {rank}\) computes .* x the time of rank 0$", done.stdout, re.M)


def test_missing_library_is_named(busbar, tmp_path):
    """The wrapper names it; the system's library of the same name would report that there is no GPU."""
    (tmp_path / "busbar-emulated").write_text((busbar.build / "busbar-emulated").read_text())
    (tmp_path / "emulator").mkdir()
    for library in (busbar.build / "emulator").iterdir():
        if not library.name.startswith("libnccl"):
            (tmp_path / "emulator" / library.name).symlink_to(library)
    done = subprocess.run(["sh", tmp_path / "busbar-emulated", "bench", "all_reduce"], capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr == f"busbar: {tmp_path}/emulator/libnccl.so.2 is missing; try: install busbar again\n"
