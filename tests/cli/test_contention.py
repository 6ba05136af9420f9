"""busbar plan with contention ("sharing" in the cluster file): no link exceeds its bandwidth, GEMMs are slower while NCCL runs, slow
parts cost the expected time, jitter is repeatable, and too large jobs are rejected with an alternative."""
import json
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
H100 = json.loads((ROOT / "profiles/clusters/h100-sxm-ib.json").read_text())
ZERO3 = "transformer --model llama3_8b --ranks 64 --tp 8 --dp-sync zero3"


@pytest.fixture
def predicted(busbar):
    def run(args, cluster="h100-sxm-ib"):
        done = busbar.run("plan", *args.split(), "--cluster", cluster, "--json", "-", emulated=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["predicted"]
    return run


@pytest.fixture
def no_sharing(tmp_path):
    """The same cluster without "sharing"."""
    path = tmp_path / "no_sharing.json"
    path.write_text(json.dumps({key: value for key, value in H100.items() if key != "sharing"}))
    return path


@pytest.mark.parametrize("args", ["", " --own-gather-comm"])
def test_zero3_bandwidth_stays_below_the_nic(predicted, no_sharing, args):
    """Each data-parallel group has one GPU per node, so its all-gathers and reduce-scatters are limited by the bandwidth of one NIC,
    and each of its 8 GPUs sends 7/8 of the bytes over its NIC."""
    step = predicted(ZERO3 + args)
    group = {g["name"]: g for g in step["groups"]}["dp"]
    assert step["sharing"]["nic_bytes"] == pytest.approx(7 / 8 * group["bytes"], rel=1e-6)
    assert 0.5 * H100["inter"]["gbps"] < group["busbw_gbps"] <= H100["inter"]["gbps"]
    if args:  # without "sharing" two concurrent collectives exceed the NIC's bandwidth
        assert {g["name"]: g for g in predicted(ZERO3 + args, no_sharing)["groups"]}["dp"]["busbw_gbps"] > H100["inter"]["gbps"]


def test_gemms_concurrent_with_nccl_are_slower(predicted, no_sharing):
    shared, separate = predicted(ZERO3), predicted(ZERO3, no_sharing)
    more = shared["breakdown"]["compute_us"] - separate["breakdown"]["compute_us"]
    assert more == pytest.approx(shared["sharing"]["compute_slowed_us"], rel=1e-3) and more > 0
    assert separate["sharing"] is None and separate["phases"] == []
    assert shared["breakdown"]["compute_us"] < 132 / (132 - 2 * 16) * separate["breakdown"]["compute_us"]


def test_link_utilisation_matches_bytes_sent(predicted):
    """An all-reduce over two GPUs sends each byte once in each direction. No link of the profile has less than 300 GB/s."""
    step = predicted("resnet50 --ranks 2")
    sent = next(g for g in step["groups"] if g["name"] == "world")["bytes"]
    assert 0 < step["sharing"]["nic_busy"] + step["sharing"]["link_busy"] <= 1
    assert step["sharing"]["nic_busy"] == 0
    assert step["sharing"]["link_busy"] * step["step_us"] * 1e3 <= sent / 300


def test_phases_name_the_bottleneck(predicted):
    phases = {row["phase"]: row for row in predicted(ZERO3 + " --software megatron")["phases"]}
    assert phases["forward"]["bottleneck"] == "compute" and phases["optimizer"]["bottleneck"] == "memory"
    for row in phases.values():
        key = "nic_us" if row["bottleneck"] == "NIC" else f"{row['bottleneck']}_us"
        assert row["time"][key] == max(row["time"].values())


def test_slow_rank_costs_at_most_its_slower_kernels(predicted):
    undisturbed, slow = predicted(ZERO3), predicted(ZERO3 + " --slow rank=5:1.2")
    assert slow["slow"] == ["rank=5:1.2"]
    assert 0 < slow["step_us"] - undisturbed["step_us"] < 0.21 * undisturbed["breakdown"]["compute_us"]
    assert slow["breakdown"]["rank"] == 5
    assert predicted(ZERO3 + " --slow rank=5:1")["step_us"] == pytest.approx(undisturbed["step_us"], rel=1e-6)


LLAMA = ("transformer", "--model", "llama3_8b", "--ranks", 64, "--tp", 8, "--pp", 4, "--sequence-parallel", "--dp-sync", "distributed",
         "--global-batch-size", 64, "--seq-length", 8192)


@pytest.mark.parametrize("faults,names,least,most", [
    ("--slow link=node3-nic2:0.5", "node 3's NIC 2 (x0.5) costs ", 1e-4, 0.5),
    ("--slow node7:0.5", "node 7 (x0.5) costs ", 0.5, 1.1),
    ("--slow rank=21:1.05", "rank 21 (x1.05) costs ", 1e-4, 0.05),
    ("--slow rank=21:0.9", "rank 21 (x0.9) costs nothing: the step is not longer; a rank with a factor below 1 is faster, half its speed is rank=R:2", 0, 0),
    ("--slow link=node3-nic2:0.5,rank=21:1.5 --delay rank=9:5ms",
     "node 3's NIC 2 (x0.5), rank 21 (x1.5) and rank 9 (5.00 ms late) together cost ", 0.05, 0.6),
    ("--slow link=node1-node4:0.5", "the path of nodes 1 and 4 (x0.5): the step does not use this link", 0, 0)])
def test_plan_names_the_injected_faults_and_their_cost(busbar, faults, names, least, most):
    """The cost is the difference of two plans, with and without the faults. No healthy rank is named in the default output."""
    step, slow = (json.loads(busbar.run("plan", *LLAMA, "--cluster", "h100-sxm-ib", *more, "--json", "-", emulated=False).stdout)["predicted"]
                  for more in ((), faults.split()))
    cost = slow["step_us"] - step["step_us"]
    assert step["slow_cost_us"] is None and slow["slow_cost_us"] == pytest.approx(cost, abs=1e-3)
    assert least * step["step_us"] <= cost <= most * step["step_us"]
    text = busbar.run("plan", *LLAMA, "--cluster", "h100-sxm-ib", *faults.split(), emulated=False).stdout.splitlines()
    (at,) = (i for i, line in enumerate(text) if line.startswith("# injected: " + names))
    assert at <= 4 and len(text) <= 25 and not any("wait for rank" in line for line in text)
    assert cost == 0 or text[at].endswith(f" of the step, +{100 * cost / step['step_us']:.1f}%")


def test_equivalent_ranks_and_several_uplinks_have_sentences_in_the_plural(busbar):
    args = "plan transformer --model llama3_8b --layers 4 --ranks 32 --dp-sync distributed --cluster h100-sxm-ib"
    assert re.search(r"  step  .*; equal on all ranks\n", busbar.run(*args.split(), emulated=False).stdout)
    fabric = "--set fabric={\"nodes_per_leaf\":2,\"leaf_oversubscription\":1} --slow link=leaf0:0.1"
    assert re.search(r"# injected: leaf 0's uplinks \(x0.1\) cost [0-9.]+ m?s of the step", busbar.run(*args.split(), *fabric.split(), emulated=False).stdout)


@pytest.mark.parametrize("ranks,mib,levels,passes", [(16, 64, 1, 2), (32, 64, 2, 4), (64, 1024, 3, 4)])
def test_slow_nic_slows_the_rounds_of_nvls_trees_that_pass_it(busbar, ranks, mib, levels, passes):
    """The equation of profiles/clusters/README.md, with one NIC at half its rate: `passes` of the 2 x `levels` rounds that fill the pipeline."""
    (tree,) = (v for v in H100["nccl"] if v["algorithm"] == "nvls_tree")
    size, rate = mib << 20, 8 * 1e3 * H100["inter"]["gbps"] * tree["nic"]
    rounds = size / (16 * 8 * (128 << 10) / (1 if ranks == 16 else 2))
    link, nic = 14 / 9 * (1 + 1 / 8) * size / (1e3 * tree["gbps"]), (1 if ranks == 16 else 2) * size / rate
    fill = max(tree["chunk_us"] + link / rounds, nic / rounds)
    latency = tree["base_us"] + tree["intra_us"] + 2 * levels * tree["inter_us"]
    expected = latency + (2 * levels - passes) * fill + passes * 2 * nic / rounds + 2 * nic
    done = busbar.run("plan", "all_reduce", "--ranks", ranks, "--sizes", f"{mib}M", "--cluster", "h100-sxm-ib", "--slow", "link=node1-nic0:0.5", "--json", "-",
                      emulated=False)
    row = json.loads(done.stdout)["results"][0]
    assert row["algorithm"] == "NVLS_TREE" and row["time_us"]["p50"] == pytest.approx(expected, rel=1e-6)


def test_a_late_rank_costs_its_delay(predicted):
    """All ranks of a data-parallel step wait for the rank that starts 5 ms late, once."""
    assert predicted("resnet50 --ranks 16 --delay rank=3:5ms")["slow_cost_us"] == pytest.approx(5000, rel=0.01)


@pytest.mark.parametrize("part,direct", [("--delay rank=0:1ms", "1.01 ms"), ("--slow rank=0:1.0001", "119 us"), ("--slow link=node0-nic0:0.3", None)])
def test_a_cost_above_the_delay_is_explained(busbar, part, direct):
    """The late rank's groups use PCIe at other times than equal groups, which slows the gradient collectives that span them."""
    args = "plan transformer --model llama3_70b --ranks 16 --tp 4 --pp 1 --cluster l40s-pcie-ib --micro-batches 2 --seq-length 512 --dp-sync zero1"
    (line,) = re.findall(r"# injected: (.*)", busbar.run(*args.split(), *part.split(), emulated=False).stdout)
    reason = f": {direct} directly, the rest because ranks out of step use shared links at different times" if direct else ""
    assert re.search(r" costs [0-9.]+ m?s of the step, \+[0-9.]+%(.*)", line)[1] == reason


def test_generation_of_a_profile_does_not_depend_on_its_rate(predicted, busbar):
    """An H20 is a Hopper GPU with 148 TFLOP/s, less than an A100."""
    step = "transformer --model llama3_8b --layers 4 --ranks 8 --global-batch-size 16 --set tflops.bfloat16=148"
    gemm = H100["achieved"]["gemm"]
    for more, factor in (("", 0.95), (" --set generation=Hopper", 0.95), (" --set generation=Ampere", 1)):  # PyTorch's, software.c
        assert predicted(f"{step} --software torch{more}")["compute"]["efficiency"] == pytest.approx(factor * gemm)
    done = busbar.run("plan", *step.split(), "--cluster", "h100-sxm-ib", "--set", "generation=Ada", emulated=False)
    wrong = busbar.run("plan", *step.split(), "--cluster", "h100-sxm-ib", "--set", "inter.gbps=2x", emulated=False)
    assert wrong.returncode == 2 and wrong.stderr.endswith(" (rates: GB/s; 400 Gbit/s are 50); the profile has 48.5\n")
    assert done.returncode == 2 and done.stderr == "busbar: --set: h100-sxm-ib: 'generation' is \"Ada\", expected \"Ampere\", \"Hopper\" or \"Blackwell\"\n"


@pytest.mark.parametrize("keys,warns", [({"tflops": {"bfloat16": 2250}}, True), ({"tflops": {"bfloat16": 2250}, "generation": "Blackwell"}, False),
                                        ({"tflops": {"bfloat16": 800}}, False), ({"memory_gbps": 8000}, False)])
def test_a_profile_with_the_rate_of_another_generation_than_its_base_is_named(busbar, tmp_path, keys, warns):
    """B200 on the base of H100: without the key, the rates of --software are those of Hopper."""
    (tmp_path / "mine.json").write_text(json.dumps({"name": "mine", "base": "h100-sxm-ib", **keys}))
    done = busbar.run("plan", "all_reduce", "--ranks", 8, "--cluster", "./mine.json", emulated=False, cwd=tmp_path)
    line = ("busbar: warning: ./mine.json: 'generation', which selects the rates of --software, is Hopper as in the base h100-sxm-ib, although "
            "'tflops.bfloat16' is 2250 instead of 989; to confirm or change 'generation', add "
            '"generation": "Ampere", "Hopper" or "Blackwell"\n')
    assert done.returncode == 0 and done.stderr == (line if warns else "")
    for change, applies in (("transport=roce", True), ("generation=Blackwell", False)):
        done = busbar.run("plan", "all_reduce", "--ranks", 8, "--cluster", "./mine.json", "--set", change, emulated=False, cwd=tmp_path)
        assert done.stderr == (line if warns and applies else "")


def test_a_faster_nic_does_not_lengthen_a_step_of_pytorch(predicted):
    """NCCL's memory bandwidth does not depend on the kernels of the software, which in PyTorch reach 45 % of the profile's bandwidth on Hopper."""
    step = "transformer --model llama3_70b --layers 4 --ranks 16 --cp 2 --micro-batches 4 --seq-length 1024 --dp-sync hsdp"
    steps = [predicted(f"{step} --set inter.gbps={gbps}", "h800-sxm-ib")["step_us"] for gbps in (48.5, 60, 97)]
    assert steps == sorted(steps, reverse=True)


def test_slow_link_slows_only_its_users(predicted):
    one, half = (predicted(f"resnet50 --ranks 64 --slow link=node3-nic2:{part}") for part in (1, 0.25))
    assert 1.2 * one["step_us"] < half["step_us"] < 4.1 * one["step_us"]
    assert predicted("resnet50 --ranks 16 --slow link=node1-nic2:1")["step_us"] == predicted("resnet50 --ranks 16")["step_us"]


@pytest.mark.parametrize("args", [ZERO3, "transformer --model llama3_8b --ranks 64 --tp 8 --pp 4 --micro-batches 4 --dp-sync distributed"])
def test_time_of_slow_nics_themselves_is_no_contention(predicted, args):
    """Slow NICs take longer without any other traffic, too: all NICs slow by --slow and in the profile, and one of them."""
    slow = predicted(args + " --slow " + ",".join(f"link=node{node}-nic{nic}:0.5" for node in range(8) for nic in range(8)))
    profile = predicted(f"{args} --set inter.gbps={H100['inter']['gbps'] / 2}")
    one = predicted(f"{args} --slow link=node3-nic2:0.5")
    assert slow["step_us"] == pytest.approx(profile["step_us"], rel=0.02)
    assert slow["sharing"]["comm_slowed_us"] == pytest.approx(profile["sharing"]["comm_slowed_us"], abs=0.02 * slow["step_us"])
    assert one["sharing"]["comm_slowed_us"] < 0.1 * one["step_us"]


def test_jitter_is_repeatable_and_lengthens_the_step(busbar, predicted):
    args = "transformer --model llama3_8b --ranks 16 --tp 2 --jitter 3% --samples 20 --tokens 1T"
    first, again, other = (predicted(f"{args} --seed {seed}") for seed in (7, 7, 8))
    done = busbar.run("plan", *args.split(), "--seed", 7, "--cluster", "h100-sxm-ib", "--json", "-")
    assert json.loads(done.stdout)["options"]["seed"] == 7
    assert first["jitter"] == again["jitter"] and first["jitter"] != other["jitter"]
    steps = first["jitter"]["step_us"]
    assert first["step_us"] < steps["p5"] <= steps["p50"] <= steps["p95"] <= steps["max"] < 1.09 * first["step_us"]
    text = busbar.run("plan", *args.split(), "--seed", 7, "--cluster", "h100-sxm-ib").stdout
    assert all(f", {name} {100 * (steps[name] / steps['p50'] - 1):+.2f}%" in text for name in ("p5", "p95", "max"))
    assert first["jitter"]["deviation"] == pytest.approx(0.03) and first["jitter"]["samples"] == 20
    assert first["training"]["days"] == pytest.approx(first["training"]["steps"] * steps["p50"] / 86400e6)
    assert first["graph_step_us"] == predicted("transformer --model llama3_8b --ranks 16 --tp 2")["graph_step_us"]  # without jitter, as step_us


@pytest.mark.parametrize("samples, text", [(1, "(1 sample, seed 1)"), (2, "(2 samples, seed 1)"), (19, "(19 samples, seed 1)")])
def test_few_samples_have_no_outer_percentiles(busbar, samples, text):
    args = ("plan", "transformer", "--model", "llama3_8b", "--ranks", 4, "--cluster", "h100-sxm-ib", "--jitter", "3%", "--samples", samples)
    line = next(line for line in busbar.run(*args, emulated=False).stdout.splitlines() if line.startswith("  jitter"))
    assert text in line and "max +" in line and "p5 " not in line and "p95" not in line
    steps = json.loads(busbar.run(*args, "--json", "-", emulated=False).stdout)["predicted"]["jitter"]["step_us"]
    assert steps["p5"] is None and steps["p95"] is None and steps["p50"] <= steps["max"]


# ---- leaf and pod uplinks -----------------------------------------------------------------------------------------------

@pytest.fixture
def fabric(tmp_path):
    def write(**keys):
        path = tmp_path / "fabric.json"
        path.write_text(json.dumps({**H100, "name": "fabric", "fabric": keys}))
        return path
    return write


LARGE = "transformer --model llama3_405b --tp 8 --pp 16 --micro-batches 16"
PODS = {"nodes_per_leaf": 2, "leaf_oversubscription": 1, "nodes_per_pod": 32, "pod_oversubscription": 7}


def test_oversubscribed_leaf_uplinks_are_the_bottleneck(predicted, fabric):
    """ZeRO-3's groups span all nodes, and each leaf has one node. With 4:1 oversubscription each GPU has a quarter of its NIC bandwidth."""
    undisturbed, leaves = predicted(ZERO3), predicted(ZERO3, fabric(nodes_per_leaf=1, leaf_oversubscription=4))
    assert undisturbed["sharing"]["leaf_uplink_busy"] is None and undisturbed["sharing"]["pod_uplink_busy"] is None
    group, separate = ({g["name"]: g for g in step["groups"]}["dp"] for step in (leaves, undisturbed))
    assert 0.8 * H100["inter"]["gbps"] / 4 < group["busbw_gbps"] <= H100["inter"]["gbps"] / 4 < separate["busbw_gbps"]
    assert leaves["sharing"]["leaf_uplink_busy"] > 3.9 * leaves["sharing"]["nic_busy"] and leaves["sharing"]["pod_uplink_busy"] is None
    assert {row["phase"]: row for row in leaves["phases"]}["forward"]["bottleneck"] == "leaf uplink"
    assert predicted(ZERO3, fabric(nodes_per_leaf=2, leaf_oversubscription=1))["step_us"] == undisturbed["step_us"]


@pytest.mark.parametrize("ratio, changes, ending", [(1, False, "gradients: NIC, optimizer: memory"), (2, False, "leaf uplinks are busy [0-9.]+% of the step: no bottleneck; assumes that each leaf switch connects 4 consecutive nodes .*"),
                                                    (16, True, "leaf uplinks are busy [0-9.]+% of the step; assumes that each leaf switch connects 4 consecutive nodes .*")])
def test_plan_says_whether_leaf_uplinks_are_the_bottleneck(busbar, predicted, ratio, changes, ending):
    leaves = f"{ZERO3} --set fabric.nodes_per_leaf=4 --set fabric.leaf_oversubscription={ratio}"
    assert (predicted(leaves)["step_us"] > 1.01 * predicted(ZERO3)["step_us"]) == changes
    text = busbar.run("plan", *leaves.split(), "--cluster", "h100-sxm-ib", emulated=False).stdout
    assert re.search(f"^  bottleneck .*{ending}$", text, re.M), text


def test_rails_change_no_step_with_the_same_bytes_per_uplink(predicted):
    """Each data-parallel group has one GPU per node, and eight of them share a leaf of eight nodes; with rails each has a leaf with an
    eighth of the uplinks. NCCL's choice of PAT or ring knows neither."""
    args = ("transformer --model gpt3_13b --ranks 256 --tp 8 --dp-sync distributed --global-batch-size 256 --set fabric.nodes_per_leaf=8 "
            "--set fabric.leaf_oversubscription=8")
    assert predicted(f"{args} --set fabric.rails=true")["step_us"] == pytest.approx(predicted(args)["step_us"], rel=1e-3)


def test_collective_table_models_pod_uplinks(busbar, fabric):
    """Half of the bytes of an alltoall cross the pod uplinks, which have 1/7 of the NIC bandwidth. The ring of an
    all_reduce leaves a pod from only one of its 32 nodes, so its time does not change."""
    times = []
    for cluster in ("h100-sxm-ib", fabric(**PODS)):
        done = busbar.run("plan", "alltoall", "all_reduce", "-b", "4G", "-e", "4G", "--ranks", 512, "--cluster", cluster, "--json", "-",
                          emulated=False)
        assert done.returncode == 0, done.stderr
        times.append({row["collective"]: row["time_us"]["p50"] for row in json.loads(done.stdout)["results"]})
    sent = 4 * 2 ** 30 / 512 * 256 * 256 / (32 * 8 * H100["inter"]["gbps"] / 7 * 1e3)
    assert times[1]["alltoall"] == pytest.approx(H100["inter"]["latency_us"] + 504 * H100["inter"]["message_us"] + sent, rel=1e-6)
    assert times[1]["alltoall"] > 3 * times[0]["alltoall"]
    assert times[1]["all_reduce"] == times[0]["all_reduce"]


@pytest.mark.parametrize("rails", [False, True])
def test_collective_table_models_leaf_uplinks(busbar, fabric, rails):
    """16 of 64 ranks are on each leaf, with 4:1 oversubscription. In a sendrecv one rank of a leaf sends over the uplink. In a hypercube
    all ranks do so in the rounds with distance 16 and 32."""
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
        far["latency_us"] + 56 * far["message_us"] + rails * near["latency_us"] + total / 64 * 16 * 48 / (2 * 8 * far["gbps"] / 4) / 1e3, rel=1e-6)


def test_rejects_leaves_that_give_too_many_rank_classes(busbar, fabric):
    """Leaves of three nodes start at different positions inside the stages of 512 ranks, so there are thousands of equivalence classes."""
    args = ["plan", *LARGE.split(), "--ranks", 65536, "--cluster"]
    done = busbar.run(*args, fabric(nodes_per_leaf=3, leaf_oversubscription=2), emulated=False)
    assert done.returncode == 2, done.stderr
    assert "at most 10000000 are supported; try: leaf and pod sizes that divide the number of nodes" in done.stderr, done.stderr
    done = busbar.run(*args, fabric(nodes_per_leaf=4, leaf_oversubscription=2), emulated=False)
    assert done.returncode == 0, done.stderr
