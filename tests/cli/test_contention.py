"""plan on machines that share: nothing goes through a link faster than it, a product beside NCCL is slower than alone, slow parts cost
what they must, jitter is repeatable, and what is too large is refused with what would fit."""
import json
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
H100 = json.loads((ROOT / "profiles/clusters/h100-sxm-ib.json").read_text())
ZERO3 = "transformer --model llama3_8b --ranks 64 --tp 8 --dp-sync zero3"


@pytest.fixture
def predicted(busbar):
    def run(words, cluster="h100-sxm-ib"):
        done = busbar.run("plan", *words.split(), "--cluster", cluster, "--json", "-", emulated=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["predicted"]
    return run


@pytest.fixture
def apart(tmp_path):
    """The same machine without "sharing"."""
    path = tmp_path / "apart.json"
    path.write_text(json.dumps({key: value for key, value in H100.items() if key != "sharing"}))
    return path


@pytest.mark.parametrize("words", ["", " --own-gather-comm"])
def test_zero_3_stays_below_its_nic(predicted, apart, words):
    """One member of a node's eight GPUs in each group: a GPU's NIC is all that its gathers and scatters have."""
    group = {g["name"]: g for g in predicted(ZERO3 + words)["groups"]}["dp"]
    assert 0.5 * H100["inter"]["gbps"] < group["busbw_gbps"] <= H100["inter"]["gbps"]
    if words:  # by the law without sharing two at once had twice the NIC
        assert {g["name"]: g for g in predicted(ZERO3 + words, apart)["groups"]}["dp"]["busbw_gbps"] > H100["inter"]["gbps"]


def test_products_beside_nccl_are_slower(predicted, apart):
    shared, alone = predicted(ZERO3), predicted(ZERO3, apart)
    more = shared["breakdown"]["compute_us"] - alone["breakdown"]["compute_us"]
    assert more == pytest.approx(shared["sharing"]["compute_slowed_us"], rel=1e-3) and more > 0
    assert alone["sharing"] is None and alone["phases"] == []
    assert shared["breakdown"]["compute_us"] < 132 / (132 - 2 * 16) * alone["breakdown"]["compute_us"]


def test_links_are_busy_as_long_as_their_bytes_take(predicted):
    """An all-reduce of two GPUs sends each byte once in each direction; no link of the profile's is slower than 300 GB/s."""
    step = predicted("resnet50 --ranks 2")
    sent = next(g for g in step["groups"] if g["name"] == "world")["bytes"]
    assert 0 < step["sharing"]["nic_busy"] + step["sharing"]["link_busy"] <= 1
    assert step["sharing"]["nic_busy"] == 0
    assert step["sharing"]["link_busy"] * step["step_us"] * 1e3 <= sent / 300


def test_phases_say_where_their_time_goes(predicted):
    phases = {row["phase"]: row for row in predicted(ZERO3)["phases"]}
    assert phases["forward"]["bottleneck"] == "compute" and phases["optimizer"]["bottleneck"] == "memory"
    for row in phases.values():
        key = "nic_us" if row["bottleneck"] == "NIC" else f"{row['bottleneck']}_us"
        assert row["time"][key] == max(row["time"].values())


def test_a_slow_rank_costs_no_more_than_its_kernels(predicted):
    even, slow = predicted(ZERO3), predicted(ZERO3 + " --slow rank=5:1.2")
    assert slow["slow"] == ["rank=5:1.2"]
    assert 0 < slow["step_us"] - even["step_us"] < 0.21 * even["breakdown"]["compute_us"]
    assert slow["breakdown"]["rank"] == 5
    assert predicted(ZERO3 + " --slow rank=5:1")["step_us"] == pytest.approx(even["step_us"], rel=1e-6)


def test_a_slow_link_costs_those_that_use_it(predicted):
    one, half = (predicted(f"resnet50 --ranks 64 --slow link=node3-nic2:{part}") for part in (1, 0.25))
    assert 1.2 * one["step_us"] < half["step_us"] < 4.1 * one["step_us"]
    assert predicted("resnet50 --ranks 16 --slow link=node1-nic2:1")["step_us"] == predicted("resnet50 --ranks 16")["step_us"]


def test_jitter_is_repeatable_and_costs(busbar, predicted):
    words = "transformer --model llama3_8b --ranks 16 --tp 2 --jitter 3% --samples 10"
    first, again, other = (predicted(f"{words} --seed {seed}") for seed in (7, 7, 8))
    assert json.loads(busbar.run("plan", *words.split(), "--seed", 7, "--cluster", "h100-sxm-ib", "--json", "-").stdout)["options"]["seed"] == 7
    assert first["jitter"] == again["jitter"] and first["jitter"] != other["jitter"]
    steps = first["jitter"]["step_us"]
    assert first["step_us"] < steps["p5"] <= steps["p50"] <= steps["p95"] <= steps["max"] < 1.09 * first["step_us"]
    assert first["jitter"]["deviation"] == pytest.approx(0.03) and first["jitter"]["samples"] == 10


@pytest.mark.parametrize("words, said", [
    ("--slow rank=64:2", "there is no rank 64"),
    ("--slow link=node9-nic0:0.5", "there is no node 9"),
    ("--slow rank=5", "--slow"),
    ("--jitter 3", "try: --jitter 3%"),
    ("--jitter 3% --samples 100000", "try: --samples "),
    ("--samples 5", "--samples requires --jitter"),
])
def test_what_cannot_be_is_refused(busbar, words, said):
    done = busbar.run("plan", *ZERO3.split(), *words.split(), "--cluster", "h100-sxm-ib", emulated=False)
    assert done.returncode == 2 and said in done.stderr, done.stderr


def test_slow_links_need_a_machine_that_shares(busbar, apart):
    words = [*"plan resnet50 --ranks 16 --slow link=node1-nic2:0.5 --cluster".split(), apart]
    done = busbar.run(*words, emulated=False)
    assert done.returncode == 2 and "has no 'sharing'" in done.stderr
    done = busbar.run("plan", *ZERO3.split(), "--slow", "rank=5:2", emulated=False)
    assert done.returncode == 2 and "--slow requires --cluster" in done.stderr


# ---- leaves and pods ----------------------------------------------------------------------------------------------------

@pytest.fixture
def fabric(tmp_path):
    def write(**keys):
        path = tmp_path / "fabric.json"
        path.write_text(json.dumps({**H100, "name": "fabric", "fabric": keys}))
        return path
    return write


LARGE = "transformer --model llama3_405b --tp 8 --pp 16 --micro-batches 16"
PODS = {"nodes_per_leaf": 2, "leaf_oversubscription": 1, "nodes_per_pod": 32, "pod_oversubscription": 7}


def test_scarce_uplinks_cost_and_are_named(predicted, fabric):
    """ZeRO-3's groups stride over the nodes: leaves at 4:1 leave each GPU a quarter of its NIC, where two nodes of four are elsewhere."""
    even, leaves = predicted(ZERO3), predicted(ZERO3, fabric(nodes_per_leaf=1, leaf_oversubscription=4))
    assert even["sharing"]["leaf_uplink_busy"] is None and even["sharing"]["pod_uplink_busy"] is None
    group, alone = ({g["name"]: g for g in step["groups"]}["dp"] for step in (leaves, even))
    assert 0.8 * H100["inter"]["gbps"] / 4 < group["busbw_gbps"] <= H100["inter"]["gbps"] / 4 < alone["busbw_gbps"]
    assert leaves["sharing"]["leaf_uplink_busy"] > 3.9 * leaves["sharing"]["nic_busy"] and leaves["sharing"]["pod_uplink_busy"] is None
    assert {row["phase"]: row for row in leaves["phases"]}["forward"]["bottleneck"] == "leaf uplink"
    assert predicted(ZERO3, fabric(nodes_per_leaf=2, leaf_oversubscription=1))["step_us"] == even["step_us"]


def test_a_table_knows_of_pods(busbar, fabric):
    """Half of an alltoall's bytes leave its pod for the other one, through a seventh of its NICs; an all_reduce's for one node's of 32."""
    times = []
    for cluster in ("h100-sxm-ib", fabric(**PODS)):
        done = busbar.run("plan", "alltoall", "all_reduce", "-b", "4G", "-e", "4G", "--ranks", 512, "--cluster", cluster, "--json", "-", emulated=False)
        assert done.returncode == 0, done.stderr
        times.append({row["collective"]: row["time_us"]["p50"] for row in json.loads(done.stdout)["results"]})
    sent = 4 * 2 ** 30 / 512 * 256 * 256 / (32 * 8 * H100["inter"]["gbps"] / 7 * 1e3)
    assert times[1]["alltoall"] == pytest.approx(H100["inter"]["latency_us"] + sent, rel=1e-6) and times[1]["alltoall"] > 3 * times[0]["alltoall"]
    assert times[1]["all_reduce"] == times[0]["all_reduce"]


@pytest.mark.parametrize("rails", [False, True])
def test_exchanges_of_a_table_know_of_leaves(busbar, fabric, rails):
    """16 of 64 ranks on a leaf, at 4:1. One of them leaves it to the next rank; of a hypercube all, in the rounds of 16 and 32."""
    cluster = fabric(nodes_per_leaf=2, leaf_oversubscription=4, rails=rails)
    done = busbar.run("plan", "alltoall", "alltoallv", "hypercube", "sendrecv", "-b", "1G", "-e", "1G", "--imbalance", 0, "--ranks", 64,
                      "--cluster", cluster, "--json", "-", emulated=False)
    assert done.returncode == 0, done.stderr
    us = {(row["collective"], row["placement"]): row["time_us"]["p50"] for row in json.loads(done.stdout)["results"]}
    near, far, total = H100["intra"], H100["inter"], 2 ** 30
    uplinks = 2 * far["gbps"] * (1 if rails else 8) / 4
    assert us["sendrecv", "out_of_place"] == pytest.approx(
        far["latency_us"] + rails * near["latency_us"] + total / min(far["gbps"], uplinks) / 1e3, rel=1e-6)
    rounds = [(near["latency_us"], near["gbps"])] * 3 + [(far["latency_us"], far["gbps"])] + [(far["latency_us"], far["gbps"] / 4)] * 2
    assert us["hypercube", "in_place"] == pytest.approx(
        sum(latency + total / 64 * 2 ** i / rate / 1e3 for i, (latency, rate) in enumerate(rounds)), rel=1e-6)
    assert us["alltoallv", "out_of_place"] == pytest.approx(us["alltoall", "out_of_place"], rel=1e-6)
    assert us["alltoall", "out_of_place"] == pytest.approx(
        far["latency_us"] + rails * near["latency_us"] + total / 64 * 16 * 48 / (2 * 8 * far["gbps"] / 4) / 1e3, rel=1e-6)


@pytest.mark.parametrize("keys,said", [
    ({"nodes_per_leaf": 2}, "fabric: 'leaf_oversubscription' is missing"),
    ({**PODS, "nodes_per_pod": 5}, "'fabric.nodes_per_pod' is 5, expected a multiple of 'nodes_per_leaf', 2"),
    ({**PODS, "leaf_oversubscription": 0.5}, "fabric: 'leaf_oversubscription' is 0.5, expected 1 or more"),
    ({**PODS, "rail": True}, "'fabric.rail'"),
])
def test_a_fabric_that_is_none_is_refused(busbar, fabric, keys, said):
    done = busbar.run("plan", "resnet50", "--ranks", 64, "--cluster", fabric(**keys), emulated=False)
    assert done.returncode == 2 and said in done.stderr, done.stderr


def test_leaves_that_leave_nothing_alike_are_refused(busbar, fabric):
    """Leaves of three nodes begin everywhere in stages of 1,024: nearly each rank is a case of its own."""
    done = busbar.run("plan", *LARGE.split(), "--ranks", 131072, "--cluster", fabric(nodes_per_leaf=3, leaf_oversubscription=2), emulated=False)
    assert done.returncode == 2 and "at most 10000000 are supported; try: leaf and pod sizes that divide the nodes" in done.stderr, done.stderr
    done = busbar.run("plan", *LARGE.split(), "--ranks", 131072, "--cluster", fabric(nodes_per_leaf=4, leaf_oversubscription=2), emulated=False)
    assert done.returncode == 0, done.stderr
