"""busbar health: planted faults are named, healthy machines have no finding. tests/collectives/health plants faults in noise."""
import json
import os
import pathlib
import re
import signal
import subprocess
import time
import xml.etree.ElementTree as ET

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LOST = {"EMU_DATA": "off", "EMU_CLUSTER": "h100-sxm-ib", "EMU_NODES": "4", "EMU_FAULT": "die:rank=5,call=3,name=ncclCommSplit"}
ROOT_LOST = {**LOST, "EMU_FAULT": "die:rank=1,call=3,name=ncclCommSplit"}  # without the node of rank 0 the run does not go on


def health(busbar, tmp_path, *args, ranks, nodes, status=0, slow="", mpirun=None, **env):
    done = busbar.run("health", "--quick", *args, "--json", tmp_path / "r.json", ranks=ranks, mpirun=mpirun,
                      env={"EMU_DATA": "off", "EMU_CLUSTER": "h100-sxm-ib", **({"EMU_NODES": str(nodes)} if nodes else {}), "EMU_SLOW": slow, **env})
    assert done.returncode == status, done.stdout + done.stderr
    root = json.loads((tmp_path / "r.json").read_text())
    return root, {(f["level"], f["part"], f["node"], f["gpu"]) for f in root["findings"]}, done


@pytest.mark.parametrize("cluster", ["h100-sxm-ib", "a100-pcie-ib"])
def test_healthy_nodes_reach_the_expectation(busbar, tmp_path, cluster):
    root, found, done = health(busbar, tmp_path, ranks=8, nodes=4, EMU_CLUSTER=cluster)
    assert found == set() and [v["level"] for v in root["verdicts"]] == ["ok"] * 4 and len(done.stdout.splitlines()) <= 25
    tests = {test["test"]: test for test in root["tests"]}
    assert len(tests) == 11 and all(abs(t["median"] / t["expected"] - 1) < (0.02 if t["stage"] == "copies" else 0.01) for t in tests.values()), tests
    assert len(root["results"]) == 9 * 8 + 2 * 3 * 8 and done.stdout.splitlines()[-1] == (
        "# 4 nodes: 4 ok, 0 warn, 0 fail, 0 unknown; 2 of 8 GPUs of each node tested; pairs of nodes tested: 6 of 6, none slow")


def test_nodes_that_are_nvlink_domains_reach_the_expectation(busbar, tmp_path):
    """NICs connect two nodes, each of which is a full NVLink domain of the profile, as `plan` states."""
    profile = json.loads((ROOT / "profiles/clusters/gb300-nvl72.json").read_text())
    (tmp_path / "small.json").write_text(json.dumps({**profile, "name": "small", "gpus_per_node": 2, "nics_per_node": 2, "domain_gpus": 2, "host_gpus": 2}))
    root, found, done = health(busbar, tmp_path, ranks=4, nodes=None, EMU_CLUSTER=str(tmp_path / "small.json"))
    tests = {test["test"]: test for test in root["tests"]}
    plan = {n: busbar.json("plan", "all_reduce", "--ranks", n, "--gpus-per-node", n // 2, "--cluster", tmp_path / "small.json", "--sizes", "64M",
                           tmp_path=tmp_path, emulated=False)["results"][0]["busbw_gbps"] for n in (2, 4)}
    assert not found and [v["level"] for v in root["verdicts"]] == ["ok"] * 2 and root["expected_by"] == (
        "small (recognised): 2 GPUs and 2 NICs of 97 GB/s per NVLink domain")
    for name, n in (("all_reduce of GPU pairs", 2), ("all_reduce across halves", 2), ("all_reduce, rails at once", 2), ("all_reduce of all GPUs", 4)):
        assert abs(tests[name]["expected"] / plan[n] - 1) < 1e-6 and abs(tests[name]["median"] / plan[n] - 1) < 0.01
    assert plan[2] < 97 and tests["all_reduce of GPU pairs"]["domain_median"] is None and {v["domain"] for v in root["verdicts"]} == {None}


@pytest.mark.parametrize("ranks, gpus, per_domain", [(144, 4, 18), (128, 4, 16), (128, 64, 0), (64, 4, 0)])
def test_plan_states_what_pairs_in_an_nvlink_domain_reach(busbar, tmp_path, ranks, gpus, per_domain):
    """In one domain, or without domains of several nodes, all pairs have the same expectation."""
    plan = busbar.run("health", "--plan", "--ranks", ranks, "--gpus-per-node", gpus, "--expect", "gb200-nvl72", "--size", "64M", emulated=False)
    between, inside = (busbar.json("plan", "all_reduce", "--ranks", 2, "--gpus-per-node", n, "--cluster", "gb200-nvl72", "--sizes", "64M",
                                   tmp_path=tmp_path, emulated=False)["results"][0]["busbw_gbps"] for n in (1, 2))
    row = f"{inside if ranks == 64 else between:.1f} GB/s"
    assert plan.stderr == "" and all(re.search(rf"^ {stage} .* {row}", plan.stdout, re.M) for stage in ("pairs", "bisection")), plan.stdout
    assert (f"# expected of pairs in an NVLink domain, which is {per_domain} nodes: {inside:.1f} GB/s\n" in plan.stdout) == (per_domain > 0)


LOST_GPU = "CUDA finds 7 GPUs, expected 8: a GPU may be lost"


def test_missing_gpus_are_named(busbar, tmp_path):
    """A node with 7 of 8 GPUs or none fails in every output, with 8 ranks or with 7, whose GPUs are tested. In a run with 8 ranks nothing was drained."""
    def run(gpus, devices, *args, status=0, **env):
        env = {"EMU_DATA": "off", "EMU_CLUSTER": "h100-sxm-ib", "EMU_DEVICES": str(devices), **env}
        done = busbar.run("health", "--quick", "--drain", "-g", gpus, "--json", tmp_path / "r.json", "--prometheus", tmp_path / "m.prom",
                          "--junit", tmp_path / "r.xml", *args, mpirun=(), env=env)
        assert done.returncode == status, done.stderr
        return json.loads((tmp_path / "r.json").read_text()), done.stdout.splitlines(), done.stderr

    def fails(root, lines, error, tested=True, more="; see nvidia-smi -L, dmesg (Xid)", lost=LOST_GPU):
        assert root["status"] == "below threshold" and [v["level"] for v in root["verdicts"]] == ["fail"] and not root["shared_gpu"]
        assert [f["reason"] for f in root["findings"]] == [root["reason"].split(": ", 1)[1]] == [lost + more]
        assert f'scontrol update nodename={root["verdicts"][0]["slurm_node"]} state=drain reason="busbar: {lost}"' in lines and root["reason"] in error
        metrics, (failure,) = (tmp_path / "m.prom").read_text(), ET.parse(tmp_path / "r.xml").iter("failure")
        assert 'busbar_run_success{command="health",gpus="emulated"} 0' in metrics and re.search(r'check="node .*"\} 2', metrics) and lost in failure.get("message")
        assert bool(root["results"]) == tested and len(lines) <= 25
        return lines[-1]
    for gpus, env in ((4, {}), (3, {"CUDA_VISIBLE_DEVICES": "5,6,7"})):  # a job that was given a part of the node
        root, lines, _ = run(gpus, 8, **env)
        assert lines[-1] == f"# 1 node: 1 ok, 0 warn, 0 fail, 0 unknown; {gpus} of 8 GPUs of the node tested; no NIC, path or rail tested: one node" and not root["findings"]
    assert 'busbar_run_success{command="health",gpus="emulated"} 1' in (tmp_path / "m.prom").read_text()
    for gpus, devices, env, text in ((8, 8, {"CUDA_VISIBLE_DEVICES": "0,1,2"}, "8 ranks on this host but only 3 GPUs"),
                                     (8, 4, {"EMU_CLUSTER": "gh200-quad-ib", "EMU_NODES": "1"}, "but only 4 GPUs; start at most 4 per node"),
                                     (2, 1, {}, "but only 1 GPU; start at most 1 per node"), (9, 6, {"EMU_NODES": "1"}, "9 ranks on "),
                                     (1, 8, {"CUDA_VISIBLE_DEVICES": "9"}, "CUDA_VISIBLE_DEVICES has '9', which CUDA does not find on "),
                                     (3, 8, {"CUDA_VISIBLE_DEVICES": "0,1,2, GPU-77,3"}, "has 'GPU-77'")):  # mistakes of the call: they drained the node
        assert text in run(gpus, devices, status=2, **env)[2]  # a usage error changes no file
    assert 'busbar_run_success{command="health",gpus="emulated"} 1' in (tmp_path / "m.prom").read_text()
    last = fails(*run(7, 7, status=5))
    assert last == "# FAILED: 1 part; 1 node: 0 ok, 0 warn, 1 fail, 0 unknown; 7 of 8 GPUs of the node tested; no NIC, path or rail tested: one node"
    assert fails(*run(8, 7, status=5), tested=False, more="; see nvidia-smi -L, dmesg (Xid); to test the others: start 7 ranks") == "# ENDED EARLY in stage inventory"
    for gpus, args in ((8, ("--expect", "h100-sxm-ib")), (1, ())):  # the driver is down: exit status 1, and the next job started
        root, lines, error = run(gpus, 0, *args, status=5)
        assert fails(root, lines, error, tested=False, more="; the driver may be down; see nvidia-smi, dmesg (Xid)",
                     lost="CUDA finds no GPU: no CUDA-capable device is detected") == "# ENDED EARLY in stage inventory" and root["emulated"]
    fails(*run(1, 8, status=5, EMU_DRIVER="11000"), tested=False, more="; the driver may be down; see nvidia-smi, dmesg (Xid)",
          lost="CUDA finds no GPU: CUDA driver version is insufficient for CUDA runtime version")  # the line for scontrol ended with "vers"
    assert run(8, 0, status=1, CUDA_VISIBLE_DEVICES="")[2].endswith("no usable GPU on this host: no CUDA-capable device is detected\n")
    assert fails(*run(8, 7, status=5, CUDA_VISIBLE_DEVICES="0,1,2,3,4,5,6,7"), tested=False, more="; see nvidia-smi -L, dmesg (Xid); to test the others: start 7 ranks")
    root, lines, _ = run(6, 6, "--only", "inventory")  # nodes with 6 GPUs are built: the profile of GPUs with this name is no proof
    assert [(f["level"], f["reason"].split(":")[0]) for f in root["findings"]] == [("warn", "CUDA finds 6 GPUs, the recognised profile has 8")]
    assert not any("scontrol" in line for line in lines) and "expected 8" in run(8, 6, "--only", "inventory", status=5)[2]
    assert "expected 8" in run(6, 6, "--only", "inventory", "--expect", "h100-sxm-ib", status=5)[2]
    for args in ((), ("--expect", "h100-sxm-ib")):
        assert fails(*run(7, 7, "--only", "inventory", *args, status=5), tested=False).startswith("# FAILED: 1 part; only stage inventory: 1 node: ")
    assert run(7, 7, "--only", "inventory", "--expect", "b200-nothing", status=2)[2].startswith("busbar: unknown cluster")
    root, lines, error = run(1, 7, "--only", "inventory", status=5)  # GPU 0 is healthy
    assert fails(root, lines, error, tested=False).startswith("# FAILED: 1 part; ") and root["findings"][0]["gpu"] is None
    root, _, _ = run(4, 4, "--only", "inventory", "--expect", "h100-sxm-ib")  # nodes with 4 GPUs are built
    assert root["findings"] == []


@pytest.mark.parametrize("gpus, devices, status, text", [(2, 8, 0, "; 2 of 4 GPUs of the node tested; "), (4, 4, 0, " unknown; no NIC, "), (3, 3, 5, "; 3 of 4 GPUs of the node tested; ")])
def test_hosts_of_an_nvlink_domain_have_four_gpus(busbar, gpus, devices, status, text):
    done = busbar.run("health", "--quick", "-g", gpus, mpirun=(), env={"EMU_DATA": "off", "EMU_CLUSTER": "gb200-nvl72", "EMU_DEVICES": str(devices)})
    assert done.returncode == status and text in done.stdout.splitlines()[-1] and (status == 0 or "CUDA finds 3 GPUs, expected 4" in done.stderr), done.stdout + done.stderr


def test_baseline_of_more_gpus_is_compared(busbar, tmp_path):
    """It was refused. Nodes with 4 GPUs are built, but this one had 8."""
    env, good = {"EMU_DATA": "off", "EMU_CLUSTER": "h100-sxm-ib"}, tmp_path / "good.json"
    assert busbar.run("health", "--quick", "--save-baseline", good, "-g", 8, env=env).returncode == 0
    done = busbar.run("health", "--quick", "--expect", good, "-g", 1, "--nagios", mpirun=(), env={**env, "CUDA_VISIBLE_DEVICES": "5"})
    assert done.returncode == 0 and done.stdout.startswith("BUSBAR OK"), done.stdout  # hidden GPUs are no change of the node
    for devices, gpus in ((7, 7), (4, 4), (4, 8)):
        done = busbar.run("health", "--quick", "--expect", good, "-g", gpus, "--json", tmp_path / "r.json", env={**env, "EMU_DEVICES": str(devices)})
        root = json.loads((tmp_path / "r.json").read_text())
        assert done.returncode == 5 and f": CUDA finds {devices} GPUs, expected 8: " in done.stderr and len(root["findings"]) == 1
        assert (f"# baseline: 8 GPUs per node, this run has {gpus}; expected values only for single GPUs\n" in done.stdout) == (gpus < 8)
        expected = {test["stage"]: test["expected"] for test in root["tests"]}
        assert expected["gpu"] and expected["copies"] and bool(expected["node"]) == (gpus == 8)
    done = busbar.run("health", "--quick", "--expect", good, "-g", 4, "--only", "gpu", env={**env, "EMU_SLOW": "rank=0:1.3,rank=1:1.3,rank=2:1.3,rank=3:1.3"})
    assert done.returncode == 5 and "GEMM" in done.stderr and "of the expected" in done.stderr  # a part of a whole node


@pytest.mark.parametrize("devices", [{1: 1}, {1: 0, 3: 1}, {0: 0}])
def test_run_goes_on_without_nodes_that_lost_gpus(busbar, tmp_path, devices):
    """Without the node of rank 0 it does not, and names the command that does. devices: of some of the nodes; the driver of a node without one is down"""
    nodes, goes_on = max(*devices, 2) + 1, 0 not in devices
    program = [busbar.build / "busbar-emulated", "health", "--quick", "--drain", "--json", tmp_path / "r.json", "--junit", tmp_path / "r.xml"]
    parts = [(":", "-n", 2, *(("env", f"EMU_DEVICES={devices[n]}") if n in devices else ()), *program) for n in range(nodes)]
    done = busbar.run_program(busbar.mpirun, *sum(parts, ())[1:], env={"EMU_DATA": "off", "EMU_CLUSTER": "h100-sxm-ib", "EMU_NODES": str(nodes)})
    root = json.loads((tmp_path / "r.json").read_text())
    reasons = {n: "CUDA finds no GPU: no CUDA-capable device is detected" if count == 0 else "CUDA finds 1 GPU, expected 8: a GPU may be lost" for n, count in devices.items()}
    other = "ok" if goes_on else "unknown"
    assert done.returncode == 5 and not root.get("lost_ranks") and "is lost" not in done.stderr, done.stderr
    assert [(v["level"], v["reason"]) for v in root["verdicts"]] == [("fail", reasons[n]) if n in devices else (other, None) for n in range(nodes)]
    assert re.findall(r'(?m)^scontrol update nodename=\S+-node(\d) state=drain reason="busbar: (.*)"$', done.stdout) == [(str(n), reasons[n]) for n in devices]
    assert [(f["stage"], f["part"], f["node"], f["gpu"]) for f in root["findings"]] == [("inventory", "node", n, None) for n in devices] and not root["shared_gpu"]
    assert len(list(ET.parse(tmp_path / "r.xml").iter("failure"))) == len(devices) and "Emulated GPU\n" in done.stdout
    assert {row["node"] for row in root["results"]} == (set(range(nodes)) - set(devices) if goes_on else set())
    assert [device["uuid"] == device["name"] == "" for device in root["devices"]] == [devices.get(n) == 0 for n in range(nodes) for _ in range(2)]
    assert bool(re.search(r"(?m)^# continue: \S+ -n 4 .*-node1.*-node2.* health --quick ", done.stdout)) == (not goes_on)
    leaves = re.findall(r"-node(\d) leaves the run: (.*?); (?=\S+-node|the run goes on without (?:it|them)\n)", done.stderr)  # one line, or one each
    assert "--only pairs" not in done.stdout and sorted(leaves) == [(str(n), reason) for n, reason in reasons.items() if goes_on], done.stderr


def test_rank_without_the_gpus_of_its_node_is_named(busbar):
    """CUDA shows the GPUs of the node to rank 0 only: none is missing (was: "CUDA finds 8 GPUs, expected 2", and the advice to start 8 ranks)."""
    program = [busbar.build / "busbar-emulated", "health", "--quick"]
    done = busbar.run_program(busbar.mpirun, "-n", 1, *program, ":", "-n", 1, "env", "EMU_DEVICES=0", *program,
                              env={"EMU_DATA": "off", "EMU_CLUSTER": "h100-sxm-ib", "EMU_NODES": "1"})
    assert done.returncode == 5 and ": CUDA finds no GPU for rank 1: no CUDA-capable device is detected; see nvidia-smi, dmesg (Xid)\n" in done.stderr, done.stderr


def test_slow_gpu_and_slow_nic_fail_and_leave(busbar, tmp_path):
    root, found, done = health(busbar, tmp_path, "--drain", ranks=24, nodes=12, status=5, slow="rank=5:1.111,link=node4-nic0:0.5")
    assert found == {("fail", "gpu", 2, 1), ("fail", "nic", 4, 0)}
    assert {v["node"] for v in root["verdicts"] if v["level"] == "fail"} == {2, 4} and root["status"] == "below threshold"
    nodes = {test: {row["node"] for row in root["results"] if row["stage"] == test} for test in ("gpu", "node", "pairs", "rails", "whole")}
    assert len(nodes["gpu"]) == 12 and 2 not in nodes["node"] and 4 in nodes["pairs"] and nodes["rails"] == nodes["whole"] == (
        set(range(12)) - {2, 4})
    drained = re.findall(r'^scontrol update nodename=(\S+) state=drain reason="busbar: .+"$', done.stdout, re.M)
    assert [host.split("-node")[1] for host in drained] == ["2", "4"] and len(done.stdout.splitlines()) <= 25
    assert "NIC of GPU 0 (GPU 0000:01:00.0) of " in done.stderr and "of the expected" in done.stderr and "; and 1 more" in done.stderr
    assert re.search(r"^# pairs +all_reduce of GPU pairs: median 46.65 GB/s, lowest 23.78, expected 46.65", done.stdout, re.M), done.stdout
    assert done.stdout.splitlines()[-1].startswith("# FAILED: 2 parts; 12 nodes: 10 ok, 0 warn, 2 fail")
    assert "# failed nodes took no part in later stages, so their other parts are unknown\n" in done.stdout


def test_baseline_without_values_of_the_tests_is_refused(busbar, tmp_path):
    """GPUs of which all are slow passed, compared only with each other."""
    def expect(change, *args, nodes=2):
        (tmp_path / "base.json").write_text(json.dumps({**base, "tests": [entry for test in base["tests"] for entry in change(test)]}))
        return busbar.run("health", "--quick", "--expect", tmp_path / "base.json", *args, ranks=nodes, env={**env, "EMU_NODES": str(nodes)})

    env = {"EMU_DATA": "off", "EMU_CLUSTER": "h100-sxm-ib"}
    base, _, _ = health(busbar, tmp_path, ranks=2, nodes=2)
    env["EMU_SLOW"] = "rank=0:1.5,rank=1:1.5"
    for args, change, nodes in ((), lambda t: [], 2), ((), lambda t: [{**t, "test": "other"}], 2), ((), lambda t: [{**t, "median": None}], 2), (
            ("--only", "whole"), lambda t: [t], 3), (("--only", "gpu"), lambda t: [t] * (t["stage"] != "gpu"), 2):
        done = expect(change, *args, nodes=nodes)
        assert done.returncode == 2 and "has no value to compare with" in done.stderr, done.stderr
    done = expect(lambda t: [t] * (t["stage"] == "gpu"))
    assert done.returncode == 5 and "has no value of copy host to GPU and other tests for 2 nodes; these are only compared with each other\n" in done.stderr
    assert expect(lambda t: [], "--only", "inventory").returncode == 0
    done = expect(lambda t: [t], nodes=3)
    assert done.returncode == 5 and "no value" not in done.stderr  # those of all nodes are left out


@pytest.mark.parametrize("nodes, slow, faults", [(3, "", ""), (5, "", ""), (4, "link=node3-nic0:0.1", ""), (4, "", "die:rank=3,call=2,name=ncclAllReduce")])
def test_verified_data_is_right_if_nodes_take_no_part_in_a_measurement(busbar, nodes, slow, faults):
    """Of an odd number of nodes one has no partner; suspects are measured again with some nodes; a node is lost. Each then had other data."""
    done = busbar.run("health", "--from", "pairs", "--size", "64K", "-n", 1, ranks=nodes, env={
        "EMU_DATA": "on", "EMU_CLUSTER": "h100-sxm-ib", "EMU_NODES": str(nodes), "EMU_SLOW": slow, "EMU_FAULT": faults})
    assert "wrong data" not in done.stdout + done.stderr and done.returncode in ((5,) if slow or faults else (0,)), done.stderr


def test_bad_parts_of_32_nodes_are_named(busbar, tmp_path):
    root, found, _ = health(busbar, tmp_path, ranks=32, nodes=32, status=5, slow="rank=7:1.111,link=node12-nic0:0.5,link=node20-node21:0.6")
    assert found == {("fail", "gpu", 7, 0), ("fail", "nic", 12, 0), ("fail", "path", 20, 0)} and [v["level"] for v in root["verdicts"]].count("ok") == 30


NICS = "link=node{}-nic1:{}".format


@pytest.mark.parametrize("factor, nodes, gpus, slow, expected", [
    (0.9, 8, 2, "link=node1-node4:0.3", {("fail", "path", 1, None), ("warn", "all", None, None)}),
    (0.9, 8, 2, "link=node1-nic0:0.3", {("fail", "nic", 1, 0), ("warn", "all", None, None)}),
    (0.9, 4, 2, ",".join(NICS(n, 0.5) for n in range(4)), {("fail", "rail", None, 1), ("warn", "all", None, None)}),
    (1, 3, 1, "link=node1-nic0:0.3,link=node0-nic0:0.9", {("fail", "nic", 1, 0), ("warn", "all", None, None)}),
    (1, 4, 2, ",".join(NICS(n, 0.3 if n == 3 else 0.9) for n in range(4)), {("fail", "nic", 3, 1), ("fail", "rail", None, 1)}),
    (1, 4, 1, "link=node1-nic0:0.85,link=node3-to-node1:0.7", {("fail", "nic", 1, 0), ("fail", "path", 3, 0)}),
    (1, 4, 1, "link=node1-nic0:0.85,link=node3-node1:0.1", {("fail", "nic", 1, 0), ("fail", "path", 1, 0)}),
    (1, 3, 1, "link=node0-node2:0.85,link=node1-node0:0.5", {("warn", "nic", 0, 0), ("fail", "path", 0, 0)}),
    (1, 6, 1, "link=node1-nic0:0.9,link=node1-node3:0.3", {("fail", "nic", 1, 0), ("fail", "path", 1, 0)}),
    (1, 6, 1, "link=node1-node2:0.7,link=node2-node0:0.3,link=node0-node5:0.3", {("fail", "path", 0, 0), ("fail", "path", 1, 0)}),
    (1, 7, 1, "link=node1-node5:0.75,link=node0-node5:0.85,link=node1-to-node4:0.82", {("fail", "path", 0, 0), ("fail", "path", 1, 0)}),
])
def test_fault_is_named_next_to_another_one(busbar, tmp_path, factor, nodes, gpus, slow, expected):
    """In a cluster whose NICs all have 0.9 of their bandwidth, of a slow NIC, and of other slow paths. Each fault below 80 % fails, and so
    does an outlier: a NIC, or a rail, with half of at least ten values of pairs."""
    profile = json.loads((ROOT / "profiles/clusters/h100-sxm-ib.json").read_text())
    profile["inter"]["gbps"] *= factor
    (tmp_path / "slow.json").write_text(json.dumps({**profile, "name": "slow"}))
    _, found, done = health(busbar, tmp_path, "--from", "pairs", "--rounds", 16, "--expect", "h100-sxm-ib", ranks=nodes * gpus, nodes=nodes, status=5,
                            slow=slow, EMU_CLUSTER=str(tmp_path / "slow.json"))
    assert found == expected and "only while all pairs run" not in done.stdout, done.stdout


@pytest.mark.parametrize("gpus, nics, part", [(4, 8, 1), (5, 8, 0.8), (8, 8, 0.5), (4, 4, 0.5)])
def test_rails_at_once_share_the_uplinks_of_leaves(busbar, tmp_path, gpus, nics, part):
    """The uplinks of 2 x 8 NICs at 4:1 have the rate of 4 NICs: enough for a rail alone or 4 rails at once, half of it for 8. Those
    of 2 x 4 NICs have the rate of 2, the number of NICs that 4 of 8 GPUs share."""
    profile = json.loads((ROOT / "profiles/clusters/h100-sxm-ib.json").read_text())
    (tmp_path / "leaf.json").write_text(json.dumps({**profile, "nics_per_node": nics, "fabric": {"nodes_per_leaf": 2, "leaf_oversubscription": 4}}))
    root, found, done = health(busbar, tmp_path, "--only", "rails", "--expect", tmp_path / "leaf.json", ranks=4 * gpus, nodes=4,
                               EMU_CLUSTER=str(tmp_path / "leaf.json"))
    alone, at_once = (c for c in root["checks"] if c["check"].startswith("all_reduce, "))
    assert at_once["measured"] == pytest.approx(at_once["expected"], rel=0.05)
    assert not found and at_once["measured"] / alone["measured"] == pytest.approx(part, rel=0.05), root["checks"]


def test_low_tests_are_explained_by_the_nearest_finding(busbar, tmp_path):
    """Of a NIC or path with half of the bandwidth in a cluster whose NICs all have 0.85 of it, only the latter explains a median of 0.85."""
    profile = json.loads((ROOT / "profiles/clusters/h100-sxm-ib.json").read_text())
    profile["inter"]["gbps"] *= 0.85
    (tmp_path / "slow.json").write_text(json.dumps({**profile, "name": "slow"}))
    for slow, part in (("link=node1-node4:0.5", "path"), ("link=node2-nic0:0.45", "nic")):
        root, found, done = health(busbar, tmp_path, "--only", "pairs", "--expect", "h100-sxm-ib", ranks=6, nodes=6, status=5, slow=slow,
                                   EMU_CLUSTER=str(tmp_path / "slow.json"))
        assert {(level, of) for level, of, *_ in found} == {("fail", part), ("warn", "all")}
        assert re.search(r"^# pairs .*; explained by: the whole cluster$", done.stdout, re.M), done.stdout
        (check,) = [c for c in root["checks"] if c["check"] == "all_reduce of GPU pairs"]
        assert check["reason"].endswith("; explained by: the whole cluster"), check


def test_slow_bisection_may_be_an_untested_path(busbar, tmp_path):
    """With --quick, 2 of 10 pairs are not tested, among them the slow one."""
    _, found, done = health(busbar, tmp_path, ranks=5, nodes=5, status=5, slow="link=node1-node3:0.5")
    assert found == {("fail", "fabric", None, None)} and ": a common cause, or an untested path; try: --rounds 5" in done.stdout, done.stdout


def test_path_of_a_ring_is_measured_if_not_all_are(busbar, tmp_path):
    """The first round pairs nodes 4 and 5, the last round nodes 5 and 6, and node 15 with node 0. Of 17 nodes, no round pairs nodes 16 and
    0, and the reason names an untested path."""
    for link, nodes, expected in (("node4-node5", 16, ("path", 4)), ("node5-node6", 16, ("path", 5)), ("node15-node0", 16, ("path", 0)),
                                  ("node16-node0", 17, ("rail", None))):
        root, _, done = health(busbar, tmp_path, "--from", "pairs", ranks=nodes, nodes=nodes, status=5, slow=f"link={link}:0.5")
        assert expected in {(f["part"], f["node"]) for f in root["findings"]}
        assert (": a common cause, or an untested path; try: --rounds 17" in done.stdout) == (nodes == 17)


def test_number_of_tested_paths(busbar, tmp_path):
    """Five rounds of 16 nodes have 40 pairs, and 15 have all; a node that dies leaves fewer."""
    link = "link=node0-node8:0.5"
    root, found, done = health(busbar, tmp_path, "--from", "pairs", ranks=16, nodes=16, slow=link)
    assert not found and root["paths"] == {"tested": 40, "total": 120}
    assert done.stdout.splitlines()[-1].endswith(" 0 unknown; 1 of 8 GPUs of each node tested; pairs of nodes tested: 40 of 120, none slow; all: --rounds 15")
    done = busbar.run("health", "--only", "pairs", "-n", 1, "--rounds", 16, "--json", tmp_path / "r.json", ranks=16, env={
        "EMU_DATA": "off", "EMU_CLUSTER": "h100-sxm-ib", "EMU_NODES": "16", "EMU_SLOW": link})
    root = json.loads((tmp_path / "r.json").read_text())
    assert done.returncode == 5 and [(f["part"], f["node"], f["other_node"]) for f in root["findings"]] == [("path", 0, 8)]
    assert root["paths"] == {"tested": 120, "total": 120} and done.stdout.endswith("; pairs of nodes tested: 120 of 120; 15 rounds test all, --rounds 16 adds none\n")
    root, _, done = health(busbar, tmp_path, ranks=8, nodes=4, status=5, EMU_FAULT="die:rank=5,call=3,name=ncclAllReduce")
    assert root["paths"] == {"tested": 3, "total": 6} and re.search(r"; pairs of nodes tested: 3 of 6, none slow; paths of \S+ not tested, to test them: --only pairs\n$", done.stdout)


def test_each_of_an_odd_number_of_nodes_is_in_a_cut(busbar, tmp_path):
    root, found, _ = health(busbar, tmp_path, "--only", "bisection", ranks=6, nodes=3, slow="link=node2-nic0:0.3", status=5)
    assert found == {("fail", "fabric", None, None)} and {row["node"] for row in root["results"]} == {0, 1, 2}
    assert [check["nodes"] for check in root["checks"] if "nodes" in check] == [3] and root["paths"]["tested"] == 3


def test_line_of_the_bisection_has_its_lowest_value(busbar, tmp_path):
    """One of the 12 NICs has half of 48.5 GB/s, so the bytes of its pair take twice their time. The median does not show it."""
    for slow in ("link=node2-nic1:0.5", ""):
        _, _, done = health(busbar, tmp_path, "--only", "bisection", ranks=12, nodes=6, slow=slow, status=5 if slow else 0)
        median, lowest = re.search(r"# bisection .*: median (\S+) GB/s \(slowest cut: .*\)(?:, lowest (\S+))?, expected \1\n", done.stdout).groups()
        assert float(lowest) == pytest.approx(1 / (1 / float(median) + 1 / 48.5), rel=0.002) if slow else lowest is None, done.stdout


@pytest.mark.parametrize("stage, tested, end", [("bisection", 12, "1 of 8 GPUs of each node tested; pairs of nodes tested: 12 of 28, none slow; all: --only pairs --rounds 7"),
                                                ("inventory", 0, "pairs of nodes tested: 0 of 28")])
def test_last_line_of_one_stage_states_what_was_not_tested(busbar, tmp_path, stage, tested, end):
    """Three cuts of eight nodes have twelve pairs, not nodes 0 and 1. Each pair of the bisection is judged, as there is no stage pairs."""
    root, found, done = health(busbar, tmp_path, "--only", stage, ranks=8, nodes=8, slow="link=node0-node1:0.3")
    assert not found and root["paths"] == {"tested": tested, "total": 28}
    assert done.stdout.splitlines()[-1] == f"# only stage {stage}: 8 nodes: 8 ok, 0 warn, 0 fail, 0 unknown; {end}"


@pytest.mark.parametrize("command", [["bench", "rails"], ["health", "--only", "rails"], ["health", "--only", "whole"]])
def test_slow_path_is_no_common_cause_without_the_stage_pairs(busbar, command):
    done = busbar.run(*command, ranks=8, env={"EMU_DATA": "off", "EMU_CLUSTER": "h100-sxm-ib", "EMU_NODES": "4", "EMU_SLOW": "link=node1-node2:0.5"})
    assert ": a slow NIC or path, or a common cause; to find which: busbar-emulated health --only pairs\n" in done.stdout
    assert " 4 nodes: 0 ok, 0 warn, 0 fail, 4 unknown; " in done.stdout and "wrong profile" not in done.stdout


@pytest.mark.parametrize("link,ends,one_way,text", [("node2-node1", (1, 2), False, "between"), ("node1-to-node2", (1, 2), True, "from"),
                                                    ("node2-to-node1", (2, 1), True, "from")])
def test_slow_path_between_two_nodes_is_named(busbar, tmp_path, link, ends, one_way, text):
    """Of all GPUs, with its direction: with -g, and, of one way, with several processes."""
    for mpirun in [None, ()][:1 + (link == "node1-to-node2")]:
        root, _, done = health(busbar, tmp_path, ranks=8, nodes=4, status=5, slow=f"link={link}:0.5", mpirun=mpirun)
        f, = root["findings"]
        assert (f["level"], f["part"], f["node"], f["other_node"], f["gpu"], f["one_way"]) == ("fail", "path", *ends, None, one_way)
        assert f["value"] / f["expected"] == pytest.approx(0.5, abs=0.02) and [v["level"] for v in root["verdicts"]] == ["ok"] * 4
        assert re.search(f"^fail +pairs +path {text} \\S+-node{ends[0]} (and|to) \\S+-node{ends[1]}: ", done.stdout, re.M), done.stdout
        assert f"; explained by: path {text}" in done.stdout and {row["partner"] for row in root["results"] if row["attempt"] > 3} == set()


@pytest.fixture
def leaves(tmp_path):
    """Returns the path of a profile with nodes of 2 GPUs, by default 4 of them under a leaf switch."""
    def write(oversubscription, nodes=4, rails=False):
        profile = json.loads((ROOT / "profiles/clusters/h100-sxm-ib.json").read_text())
        profile.update(name="leaves", gpus_per_node=2, nics_per_node=2,
                       fabric={"nodes_per_leaf": nodes, "leaf_oversubscription": oversubscription, "rails": rails})
        (tmp_path / "leaves.json").write_text(json.dumps(profile))
        return tmp_path / "leaves.json"
    return write


@pytest.mark.parametrize("oversubscription,part,found", [(1, 0.25, {("fail", "leaf", 4, None)}), (4, 1, set()),
                                                         (2, 0.5, {("fail", "leaf", 4, None)})])
def test_leaf_switch_that_is_slow_while_all_pairs_run(busbar, tmp_path, leaves, oversubscription, part, found):
    """Each pair alone is fast. Oversubscription that the profile states is no fault."""
    root, seen, done = health(busbar, tmp_path, "--only", "pairs", ranks=24, nodes=12, status=5 if found else 0,
                              slow=f"link=leaf1:{part}", EMU_CLUSTER=str(leaves(oversubscription)))
    assert seen == found and [v["level"] for v in root["verdicts"]] == ["ok"] * 12
    if found:
        assert re.search("leaf switch of [^ ]+-node4 to [^ ]+-node7: .*: only in pairs with other nodes", done.stderr)
        assert root["findings"][0]["other_node"] == 7 and 0.2 < root["findings"][0]["value"] / root["findings"][0]["expected"] < 0.55


@pytest.mark.parametrize("rails,link,gpu,text", [(False, "leaf2:0.5", None, ""), (True, "leaf5:0.5", 1, r" \(GPU 1\)")])
def test_slow_leaf_of_two_oversubscribed_nodes_drains_no_node(busbar, tmp_path, leaves, rails, link, gpu, text):
    """A pair with another leaf is slow alone, too. With rails, leaf 5 has the second NICs of nodes 4 and 5."""
    root, seen, done = health(busbar, tmp_path, "--only", "pairs", "--drain", ranks=16, nodes=8, status=5, slow=f"link={link}",
                              EMU_CLUSTER=str(leaves(2, nodes=2, rails=rails)))
    assert seen == {("fail", "leaf", 4, gpu)} and "scontrol" not in done.stdout
    assert f'# no node to drain: what fails is a part of the network: {root["findings"][0]["name"]}\n' in done.stdout
    assert re.search(f"leaf switch of [^ ]+-node4 to [^ ]+-node5{text}: ", done.stderr)


def test_slow_leaf_of_two_is_of_no_host(busbar, tmp_path, leaves):
    """Pairs of two leaves do not show whose uplinks are slow: the name has both, a host only one."""
    root, seen, done = health(busbar, tmp_path, "--only", "pairs", "--prometheus", tmp_path / "m.prom", ranks=8, nodes=4, status=5,
                              slow="link=leaf1:0.5", EMU_CLUSTER=str(leaves(2, nodes=2)))
    (finding,) = root["findings"]
    assert seen == {("fail", "leaf", None, None)} and [finding[key] for key in ("host", "other_node", "other_host")] == [None] * 3
    assert re.fullmatch("leaf switch of [^ ]+-node0 to [^ ]+-node1, or of the other nodes", finding["name"])
    (line,) = [line for line in (tmp_path / "m.prom").read_text().splitlines() if line.startswith("busbar_finding_status")]
    assert 'part="leaf"} 2' in line, line


def test_values_of_oversubscribed_leaves_are_printed_with_their_expectation(busbar, tmp_path, leaves):
    root, _, done = health(busbar, tmp_path, ranks=16, nodes=8, EMU_CLUSTER=str(leaves(2, nodes=2)))
    tests = {t["stage"]: t for t in root["tests"]}
    for stage in ("pairs", "bisection"):
        assert abs(tests[stage]["median"] / tests[stage]["expected"] - 1) < 0.03 and f"{stage} " in done.stdout
        values = sorted(row["value"] for row in root["results"] if row["stage"] == stage)
        assert min(values) * 0.999 <= tests[stage]["median"] <= max(values)
    assert re.search(r"bisection .*: median 23\.\d+ GB/s \(slowest cut: .* half\), expected 23\.\d+ while all pairs share uplinks", done.stdout)
    assert re.search(r"pairs .*: median (46\.\d+) GB/s, expected \1\n", done.stdout)


@pytest.mark.parametrize("nodes, over", [(8, 1), (8, 3), (8, 4), (4, 4)])
def test_plan_states_what_loaded_uplinks_leave_to_a_pair(busbar, leaves, nodes, over):
    """A leaf of 4 nodes has uplinks for 4 / over NICs, which all its pairs share in the slowest cut. 4 nodes are in one leaf."""
    plan = busbar.run("health", "--plan", "--ranks", 2 * nodes, "--gpus-per-node", 2, "--expect", leaves(over), emulated=False).stdout
    pairs, bisection = (float(re.search(rf"(?m)^ {stage} .* (\S+) GB/s", plan)[1]) for stage in ("pairs", "bisection"))
    assert pairs == pytest.approx(48.3, abs=0.2) and bisection == pytest.approx(pairs / (over if nodes > 4 else 1), rel=0.005), plan


def test_values_of_pairs_have_their_own_expectation(busbar, tmp_path, leaves):
    """At 4:1, the 4 nodes of a leaf share the rate of one of them: the bytes of all pairs that leave it follow each other at the 48.5 GB/s of
    a NIC, after the latency of one. All pairs are healthy, so each value is what its pair is expected to reach."""
    root, found, _ = health(busbar, tmp_path, "--from", "pairs", ranks=24, nodes=12, EMU_CLUSTER=str(leaves(4)))
    assert not found and all(row["value"] == pytest.approx(row["expected"], rel=0.005) for row in root["results"])
    rows = [row for row in root["results"] if row["stage"] in ("pairs", "bisection")]
    alone, nic = max(row["expected"] for row in rows), 48.5
    assert {row["expected"] for row in rows if row["stage"] == "pairs"} == {alone}
    rows = [row for row in rows if row["stage"] == "bisection"]
    for at in range(0, len(rows), 24):  # a measurement: 2 GPUs of each node
        leaving = [sum(row["node"] // 4 == leaf and row["partner"] // 4 != leaf for row in rows[at : at + 24]) / 2 for leaf in range(3)]
        for row in rows[at : at + 24]:
            a, b = row["node"] // 4, row["partner"] // 4
            others = 0 if a == b else max(leaving[a], leaving[b]) - 1
            assert row["expected"] == pytest.approx(1 / (1 / alone + others / nic), rel=0.002), row


@pytest.mark.parametrize("rails, over, slow, part, found", [(False, 2, 1, 1, set()), (False, 2, 0.25, 0.5, {("fail", "leaf", 2, None)}),
                                                            (False, 8, 1, 0.5, set()), (True, 2, 1, 0.5, set())])
def test_uplinks_of_leaves_include_nics_of_gpus_that_the_job_does_not_use(busbar, tmp_path, rails, over, slow, part, found):
    """A leaf has 16 NICs, of which the job uses 4. At 2:1 its uplinks have the rate of 8 NICs, at 8:1 of 2; with a leaf per NIC,
    those of the NIC's own leaf have the rate of 1 of its 2 NICs."""
    profile = json.loads((ROOT / "profiles/clusters/h100-sxm-ib.json").read_text())
    (tmp_path / "leaf.json").write_text(json.dumps({**profile, "fabric": {"nodes_per_leaf": 2, "leaf_oversubscription": over, "rails": rails}}))
    root, seen, done = health(busbar, tmp_path, "--from", "pairs", "--expect", tmp_path / "leaf.json", ranks=12, nodes=6, status=5 if found else 0,
                              slow=f"link=leaf1:{slow}" if slow < 1 else "", EMU_CLUSTER=str(tmp_path / "leaf.json"))
    values = [row["value"] for row in root["results"] if row["stage"] in ("pairs", "bisection")]
    assert seen == found and min(values) / max(values) == pytest.approx(part, rel=0.02) and "wrong profile" not in done.stdout, done.stdout


@pytest.mark.parametrize("slow, found", [("", set()), ("link=leaf1:0.5", {("fail", "leaf", 2, None)})])
def test_baseline_has_the_oversubscription_of_leaves(busbar, tmp_path, leaves, slow, found):
    """Pairs in a leaf are twice as fast as others, in the baseline and later."""
    env = {"EMU_CLUSTER": str(leaves(2, nodes=2))}
    health(busbar, tmp_path, "--from", "pairs", ranks=16, nodes=8, **env)
    (tmp_path / "r.json").rename(tmp_path / "b.json")
    root, seen, done = health(busbar, tmp_path, "--from", "pairs", "--expect", tmp_path / "b.json", ranks=16, nodes=8, slow=slow, status=5 if slow else 0, **env)
    assert seen == found and "wrong baseline" not in done.stdout, done.stdout
    assert slow or all(row["value"] == pytest.approx(row["expected"], rel=0.005) for row in root["results"])


@pytest.mark.parametrize("stage, ranks, slow, found", [("all", 8, "", set()), ("bisection", 16, "link=leaf1:0.5", {("fail", "leaf", 2, None)})])
def test_pairs_without_value_in_a_baseline_of_oversubscribed_leaves(busbar, tmp_path, leaves, stage, ranks, slow, found):
    """The uplinks of a leaf suffice for 1 GPU per node, so all pairs are equally fast. Of 2, a pair in a leaf has 47 GB/s, others half."""
    env = {"EMU_CLUSTER": str(leaves(2, nodes=2))}
    health(busbar, tmp_path, "--only", stage, ranks=16, nodes=8, **env)
    (tmp_path / "r.json").rename(tmp_path / "b.json")
    _, seen, done = health(busbar, tmp_path, "--from", "copies", "--full", "--expect", tmp_path / "b.json", ranks=ranks, nodes=8, slow=slow, status=5 if slow else 0, **env)
    assert seen == found, done.stdout
    assert re.search(r"# pairs of nodes, slowest GPU in % of 4[67]\.\d+ GB/s", done.stdout) and ("# slow pair: " in done.stdout) == bool(slow), done.stdout


@pytest.mark.parametrize("slow, value", [("", 12.1), ("link=leaf1:0.5", 6.05)])
def test_bisection_is_the_cut_with_the_least_bandwidth(busbar, tmp_path, slow, value):
    """Two leaves of 4 nodes at 4:1: each pair of nodes of both halves has a quarter of a NIC of 48.5 GB/s. Quarters are in one leaf."""
    profile = json.loads((ROOT / "profiles/clusters/h100-sxm-ib.json").read_text())
    (tmp_path / "leaf.json").write_text(json.dumps({**profile, "gpus_per_node": 1, "nics_per_node": 1,
                                                    "fabric": {"nodes_per_leaf": 4, "leaf_oversubscription": 4}}))
    root, _, done = health(busbar, tmp_path, "--from", "pairs", "--full", ranks=8, nodes=None, slow=slow, status=5 if slow else 0,
                           EMU_CLUSTER=str(tmp_path / "leaf.json"))
    assert ("# slow pair: " in done.stdout) == bool(slow) and len(re.findall(r"(?m)^# +\d [+. ]{8}  ", done.stdout)) == (0 if slow else 8), done.stdout
    test = {t["stage"]: t for t in root["tests"]}["bisection"]
    assert test["median"] == pytest.approx(value, rel=0.05) and test["expected"] == pytest.approx(12.1, rel=0.05)
    lowest = min(row["value"] for row in root["results"] if row["stage"] == "pairs" and row["attempt"] == 1)
    assert (f", lowest {lowest:.4g}, expected " in done.stdout) == bool(slow), done.stdout  # the median, without the slow leaf


def fabric_of(tmp_path, gpus, **fabric):
    profile = json.loads((ROOT / "profiles/clusters/h100-sxm-ib.json").read_text())
    (tmp_path / "leaf.json").write_text(json.dumps({**profile, "gpus_per_node": gpus, "nics_per_node": gpus, "fabric": fabric}))
    return str(tmp_path / "leaf.json")


@pytest.mark.parametrize("gpus, nodes, leaf, over, rails, slow, found, args", [
    (1, 8, 4, 4, False, "link=node1-node6:0.3", {("path", 1)}, ()), (1, 8, 4, 4, False, "link=node1-to-node6:0.3", {("path", 1)}, ("--only", "pairs")),
    (1, 8, 2, 2, False, "link=node1-node6:0.6,link=node0-node4:0.6", {("path", 0), ("path", 1)}, ()),
    (2, 8, 4, 2, True, "link=node1-node6:0.6", {("path", 1)}, ()), (2, 4, 2, 2, False, "link=node1-node2:0.6", {("path", 1)}, ()),
    (1, 5, 2, 2, False, "link=node4-nic0:0.6", {("nic", 4)}, ()), (1, 6, 2, 3, False, "link=node2-nic0:0.3", {("nic", 2)}, ())])
def test_uplinks_of_oversubscribed_leaves_hide_no_fault(busbar, tmp_path, gpus, nodes, leaf, over, rails, slow, found, args):
    """A pair that shares uplinks with others is slow on a fast path, too. Two nodes at 3:1 have the uplinks of two thirds of a NIC."""
    cluster = fabric_of(tmp_path, gpus, nodes_per_leaf=leaf, leaf_oversubscription=over, rails=rails)
    root, _, done = health(busbar, tmp_path, *args, "--rounds", nodes - 1 + nodes % 2, ranks=gpus * nodes, nodes=nodes, status=5, slow=slow, EMU_CLUSTER=cluster)
    assert {(f["part"], f["node"]) for f in root["findings"] if f["level"] == "fail"} >= found, done.stdout
    assert {f["part"] for f in root["findings"]} <= {"nic", "path"} and "none slow" not in done.stdout
    healthy, _, done = health(busbar, tmp_path, *args, "--rounds", nodes - 1 + nodes % 2, ranks=gpus * nodes, nodes=nodes, EMU_CLUSTER=cluster)
    assert not healthy["findings"] and f"pairs of nodes tested: {nodes * (nodes - 1) // 2} of {nodes * (nodes - 1) // 2}, none slow" in done.stdout


@pytest.mark.parametrize("gpus, nodes", [(1, 5), (2, 3)])
def test_uplinks_of_a_leaf_with_one_node_may_be_the_cause(busbar, tmp_path, gpus, nodes):
    """No pair in the leaf separates the NICs of its only node from its uplinks."""
    args, env = ("--only", "pairs"), {"EMU_CLUSTER": fabric_of(tmp_path, gpus, nodes_per_leaf=2, leaf_oversubscription=2)}
    for slow, alone in ((f"link=leaf{nodes // 2}:0.25", True), ("link=node0-nic0:0.25,link=node0-nic1:0.25" if gpus == 2 else "link=node0-nic0:0.25", False)):
        _, _, done = health(busbar, tmp_path, *args, ranks=gpus * nodes, nodes=nodes, status=5, slow=slow, **env)
        text = "where no other node is tested" if nodes > 4 else "or of that of the other nodes"
        assert bool(re.search(f": its NICs, or the uplinks of its leaf switch,? {text}\n", done.stderr)) == alone, done.stderr


def test_slow_path_from_a_slow_leaf_is_named(busbar, tmp_path):
    """The leaf has the uplinks of one NIC, at half their rate. The path is slower than what they leave."""
    root, seen, _ = health(busbar, tmp_path, "--only", "pairs", "--rounds", 9, ranks=9, nodes=9, status=5, slow="link=leaf0:0.5,link=node1-node5:0.2",
                           EMU_CLUSTER=fabric_of(tmp_path, 1, nodes_per_leaf=3, leaf_oversubscription=3))
    assert seen == {("fail", "leaf", 0, None), ("fail", "path", 1, 0)}
    values = {f["part"]: f["value"] / f["expected"] for f in root["findings"]}
    assert values == {"leaf": pytest.approx(0.5, abs=0.03), "path": pytest.approx(0.2, abs=0.03)}


@pytest.mark.parametrize("gpus, nodes, leaf, over, slow, name, text", [
    (1, 6, 4, 2, "link=leaf0:0.4", "leaf switch of [^ ]+-node4 to [^ ]+-node5, or of the other nodes", "only in pairs with other nodes, whose paths are named only if they are much slower"),
    (1, 6, 4, 2, "link=leaf1:0.4", "leaf switch of [^ ]+-node4 to [^ ]+-node5, or of the other nodes", "only in pairs with other nodes, whose paths are named only if they are much slower"),
    (2, 5, 2, 2, "rank=4:1.67,link=leaf1:0.3", "[^ ]+-node3", "its NICs, or the uplinks of its leaf switch, where no other node is tested"),
    (1, 4, 2, 4, "link=node2-nic0:0.6", r"path between [^ ]+-node2 and [^ ]+-node3 \(GPU 0\)",
     "the path, or a NIC of either end, as uplinks limit their pairs with other leaves"),
    (1, 3, 4, 1, "rank=2:2,link=node1-nic0:0.6", r"path between [^ ]+-node0 and [^ ]+-node1 \(GPU 0\)",
     "the path, or a NIC of either end, because no other pair is tested")])
def test_causes_that_no_pair_separates_are_all_named(busbar, tmp_path, gpus, nodes, leaf, over, slow, name, text):
    """Pairs of two leaves use the uplinks of both. A node that failed before leaves the other node of its leaf alone. At 4:1, two nodes have the uplinks of half a NIC."""
    cluster = fabric_of(tmp_path, gpus, nodes_per_leaf=leaf, leaf_oversubscription=over)
    root, _, done = health(busbar, tmp_path, *([] if "rank=" in slow else ["--only", "pairs"]), "--rounds", nodes, ranks=gpus * nodes, nodes=nodes, status=5,
                           slow=slow, EMU_CLUSTER=cluster)
    found = [f for f in root["findings"] if f["stage"] == "pairs"]
    assert len(found) == 1 and re.fullmatch(name, found[0]["name"]) and found[0]["reason"].endswith(f": {text}"), found


@pytest.mark.parametrize("gpus, nodes, over, slow, found", [
    (1, 12, 4, "link=node0-nic0:0.72", {("fail", "nic", 0, 0)}), (1, 11, 3, "link=leaf2:0.4", {("fail", "leaf", 6, None)}),
    (2, 5, 4, "link=node3-node2:0.62", {("fail", "path", 2, None)})])
def test_slow_parts_of_leaves_of_three_nodes(busbar, tmp_path, gpus, nodes, over, slow, found):
    """At 4:1, uplinks leave 0.75 of a NIC to a pair alone: every rank divides by the same part, so that all make the same measurements. With
    --quick, node 8 has no partner in its leaf before it is measured again. The path has 0.83 of what its uplinks leave, and explains the rails."""
    root, seen, done = health(busbar, tmp_path, ranks=gpus * nodes, nodes=nodes, slow=slow, status=5,
                              EMU_CLUSTER=fabric_of(tmp_path, gpus, nodes_per_leaf=3, leaf_oversubscription=over))
    assert {f for f in seen if f[0] == "fail"} == found, done.stdout
    for f in root["findings"]:
        assert f["part"] != "path" or (f["value"] == pytest.approx(0.62 * 48.5, rel=0.06) and f["value"] / f["median"] == pytest.approx(0.83, abs=0.02))


@pytest.mark.parametrize("nodes, leaf, failed, cut", [(6, 3, (0, 1, 3), 2), (8, 4, (0, 1, 4, 5), 2), (12, 4, (0, 1, 2, 3, 4, 5, 8), 2), (6, 3, (0, 1, 2), 1)])
def test_uplinks_limit_rails_of_nodes_that_are_left_in_two_leaves(busbar, tmp_path, nodes, leaf, failed, cut):
    """A leaf has the uplinks of half a NIC: they halve the rail of few nodes, unless all of these are in one leaf."""
    cluster = fabric_of(tmp_path, 1, nodes_per_leaf=leaf, leaf_oversubscription=2 * leaf)
    root, seen, done = health(busbar, tmp_path, ranks=nodes, nodes=nodes, slow=",".join(f"rank={node}:1.5" for node in failed), status=5, EMU_CLUSTER=cluster)
    (rail,) = [test for test in root["tests"] if test["stage"] == "rails" and "alone" in test["test"]]
    assert {f[2] for f in seen} == set(failed) and rail["expected"] == pytest.approx(46.5 / cut, rel=0.05) and rail["median"] == pytest.approx(rail["expected"], rel=0.02), done.stdout


def test_nodes_are_unknown_if_the_bisection_fails_and_a_path_is_not_tested(busbar, tmp_path):
    """Either a common cause, or one of the two untested paths; with all paths tested, it is the path."""
    root, seen, done = health(busbar, tmp_path, ranks=5, nodes=5, slow="link=node1-node3:0.5", status=5)
    assert seen == {("fail", "fabric", None, None)} and {v["level"] for v in root["verdicts"]} == {"unknown"}
    assert "untested path" in done.stdout and {c["status"] for c in root["checks"] if c["check"] == "node"} == {"unknown"}
    root, seen, _ = health(busbar, tmp_path, "--rounds", 5, ranks=5, nodes=5, slow="link=node1-node3:0.5", status=5)
    assert seen == {("fail", "path", 1, 0)} and {v["level"] for v in root["verdicts"]} == {"ok"}


def test_pairs_that_share_uplinks_in_the_bisection_are_not_tested(busbar, tmp_path, leaves):
    """At 4:1 the slow path shares the uplinks of a leaf with others in its cut. Quarters are in one leaf: 8 nodes have 4 such pairs."""
    _, seen, done = health(busbar, tmp_path, "--only", "bisection", ranks=16, nodes=8, slow="link=node1-node5:0.3", EMU_CLUSTER=str(leaves(4)))
    assert not seen and "; pairs of nodes tested: 4 of 28, none slow; all: --only pairs --rounds 7\n" in done.stdout


def test_bench_p2p_of_nodes_names_the_leaf_switch(busbar, tmp_path, leaves):
    done = busbar.run("bench", "p2p", "--nodes", ranks=24, env={"EMU_DATA": "off", "EMU_CLUSTER": str(leaves(1)), "EMU_NODES": "12",
                                                                "EMU_SLOW": "link=leaf2:0.25"})
    assert done.returncode == 5 and re.search("leaf switch of [^ ]+-node8 to [^ ]+-node11: ", done.stderr), done.stderr


def test_expectation_is_that_of_the_nodes_that_are_left(busbar, tmp_path):
    root, found, done = health(busbar, tmp_path, ranks=12, nodes=6, status=5, slow="rank=2:1.4,rank=5:1.4,rank=7:1.4")
    tests = {test["test"]: test for test in root["tests"]}
    assert len(found) == 3 and ", 3 of 6 nodes" in done.stdout
    for name in ("all_reduce, rails at once", "all_reduce of all GPUs"):
        assert abs(tests[name]["median"] / tests[name]["expected"] - 1) < 0.01, tests[name]


def test_paths_of_a_slow_nic_are_slow(busbar, tmp_path):
    """The finding is about the NIC. A slow GPU leaves the paths of the other nodes fast."""
    for slow, text in (("link=node1-nic0:0.5", "; pairs of nodes tested: 3 of 3\n"), ("rank=1:1.4", "; pairs of nodes tested: 1 of 3, none slow; ")):
        _, found, done = health(busbar, tmp_path, ranks=3, nodes=3, status=5, slow=slow)
        assert len(found) == 1 and text in done.stdout, done.stdout


def test_untested_paths_of_failed_nodes_are_named(busbar, tmp_path):
    """The node of the slow GPU takes no part in the tests of paths, so its slow path is found only by the printed option."""
    slow = "rank=2:1.4,link=node1-node3:0.5"
    root, _, done = health(busbar, tmp_path, ranks=8, nodes=4, status=5, slow=slow)
    host = root["verdicts"][1]["host"]
    assert done.stdout.endswith(f"; pairs of nodes tested: 3 of 6, none slow; paths of {host} not tested, to test them: --only pairs\n")
    _, found, done = health(busbar, tmp_path, "--only", "pairs", ranks=8, nodes=4, status=5, slow=slow)
    assert any(part == "path" for _, part, *_ in found) and "not tested" not in done.stdout


def test_gpus_that_are_all_slow_are_named(busbar, tmp_path):
    slow = ",".join(f"rank={rank}:1.3" for rank in range(8))
    root, found, done = health(busbar, tmp_path, "--only", "gpu", ranks=8, nodes=4, status=5, slow=slow)
    assert found == {("fail", "all", None, None)} and {f["stage"] for f in root["findings"]} == {"gpu"}
    assert "the whole cluster: GEMM" in done.stderr and "of the expected" in done.stderr


def test_node_whose_gpus_are_all_slow_is_named_once(busbar, tmp_path):
    """Of several nodes; and of one, whose line for scontrol is printed."""
    for nodes, slow in ((3, "rank=4:1.3,rank=5:1.3,rank=6:1.3,rank=7:1.3"), (1, ",".join(f"rank={rank}:1.3" for rank in range(4)))):
        root, found, done = health(busbar, tmp_path, "--only", "gpu", "--drain", ranks=4 * nodes, nodes=nodes, status=5, slow=slow)
        assert found == {("fail", "node", nodes // 2, None)} and [v["level"] for v in root["verdicts"]].count("fail") == 1
        assert f'{root["verdicts"][nodes // 2]["host"]}: GEMM ' in done.stderr and ": all its GPUs" in done.stderr and re.search(
            r'(?m)^scontrol update nodename=\S+ state=drain reason="busbar: GEMM at 7\d %"$', done.stdout), done.stdout


def test_only_node_that_is_left_is_not_most_of_the_cluster(busbar, tmp_path):
    root, found, done = health(busbar, tmp_path, "--drain", ranks=8, nodes=2, status=5, slow="rank=6:1.5",
                               EMU_SLOW_LINKS=",".join(f"pcie{gpu}:0.5" for gpu in range(4)))
    assert found == {("fail", "gpu", 1, 2), ("fail", "node", 0, None)} and [v["level"] for v in root["verdicts"]] == ["fail"] * 2
    assert done.stdout.count("scontrol update") == 2 and "most of the cluster" not in done.stdout


def test_no_outlier_without_ten_peers(busbar, tmp_path):
    """A node that has failed adds no peers to those of the other two."""
    for nodes, slow in ((2, ""), (3, ",rank=2:1.5")):
        _, found, _ = health(busbar, tmp_path, ranks=4 * nodes, nodes=nodes, status=5 if slow else 0, slow="link=node1-nic3:0.95" + slow)
        assert found == ({("fail", "gpu", 0, 2)} if slow else set())


def test_median_of_the_faster_gpus_is_named_so(busbar, tmp_path):
    """The median of all 8 GPUs is that of the 6 slow ones."""
    for slow, text in (("node0:0.5,node1:0.5,node2:0.5", "median of the faster GPUs"), ("node0:0.5", "median")):
        root, found, done = health(busbar, tmp_path, "--only", "gpu", ranks=8, nodes=4, status=5, slow=slow)
        assert re.search(f"GEMM of bfloat16: {text} [0-9.]+ TFLOP/s, lowest 329 \\(GPU 0, 0000:01:00.0, \\S+-node0\\), expected", done.stdout) and len(found) == slow.count("node")
        assert all(("faster peers' median" in f["reason"]) == ("faster" in text) for f in root["findings"])


@pytest.mark.parametrize("ranks, text", [(1, "not judged: too few GPUs to compare with each other"), (2, "not judged: too few GPUs to compare with each other"),
                                         (3, "compared with the other GPUs")])
def test_rates_of_one_or_two_gpus_are_not_compared(busbar, tmp_path, ranks, text):
    """The profile has no rate of copies from the host."""
    _, _, done = health(busbar, tmp_path, "--only", "copies", ranks=ranks, nodes=1, EMU_CLUSTER="emulated-default")
    assert re.search(f"copy host to GPU: median .* GB/s, {text}\n", done.stdout), done.stdout


@pytest.mark.parametrize("ranks, hint", [(2, "health --only pairs"), (4, "bench p2p")])
def test_advice_about_a_rail_of_two_nodes_names_the_slow_end(busbar, tmp_path, ranks, hint):
    """Only links to the other NICs of the nodes separate the ends."""
    env = {"EMU_DATA": "off", "EMU_CLUSTER": "h100-sxm-ib", "EMU_NODES": "2", "EMU_SLOW": "link=node1-nic0:0.5"}
    done = busbar.run("bench", "rails", ranks=ranks, env=env)
    assert re.search(f"; to find which( end)?: busbar-emulated {hint}\n", done.stdout), done.stdout
    if ranks == 4:
        assert re.search(r"cause: rank 2 \([^)]*node1, GPU 0, \S+\) or its NIC: 4 of its 4 links between nodes \(one per direction\) are slow", busbar.run(*hint.split(), ranks=ranks, env=env).stdout)


def test_slow_copies_are_named(busbar, tmp_path):
    root, found, done = health(busbar, tmp_path, "--only", "copies", ranks=12, nodes=3, status=5, EMU_SLOW_LINKS="pcie1:0.7,nvlink6:0.5,nvlink8-9:0.5")
    assert found == {("fail", "gpu", 0, 1), ("fail", "gpu", 1, 2), ("fail", "gpu", 2, 0), ("fail", "gpu", 2, 1)} and {row["stage"] for row in root["results"]} == {"copies"}
    assert "GPU 2 (0000:03:00.0) of" in done.stderr and "copy GPU to GPU" in done.stderr
    assert re.search("copy to its slowest peer: median .* GB/s, lowest 191.1 \\(GPU \\d, \\S+, \\S+-node2\\), compared with the other GPUs$", done.stdout, re.M)
    assert all("copy to its slowest peer 191.1" in f["reason"] for f in root["findings"] if f["node"] == 2)
    assert {f["reason"].split(" 379.6: ")[1] for f in root["findings"] if f["node"] == 2} == {
        "GPU 0, GPU 1, or the link between them; to find which: busbar-emulated bench copy"}
    assert not any("link between" in f["reason"] for f in root["findings"] if f["node"] != 2)
    assert "\n# FAILED: 3 parts; " in done.stdout and done.stderr.endswith("; and 2 more\n")  # the link of two GPUs counts once
    _, found, done = health(busbar, tmp_path, "--only", "copies", ranks=2, nodes=1, EMU_FAULT="fail:name=cudaIpcOpenMemHandle")
    assert found == set() and "copy GPU to GPU: not measured" in done.stdout


@pytest.mark.parametrize("nics", [1, 2])
def test_nics_near_the_gpu_are_named(busbar, tmp_path, nics):
    for node in range(4):
        sys = tmp_path / str(node) / "sys"
        for gpu in range(2):
            switch = sys / f"devices/pci0000:{gpu}0/0000:{gpu}0:01.0"
            for folder, name, entry in [("bus/pci/devices", f"0000:0{gpu + 1}:00.0", "")] + [
                    ("class/infiniband", f"mlx5_{gpu * nics + nic}", "device") for nic in range(nics)]:
                (switch / name).mkdir(parents=True)
                (sys / folder / (name if entry else "")).mkdir(parents=True, exist_ok=True)
                (sys / folder / name / entry).symlink_to(switch / name)
                if entry:
                    (sys / folder / name / "ports/1").mkdir(parents=True)
                    (sys / folder / name / "ports/1/state").write_text("4: ACTIVE")
                    (sys / folder / name / "ports/1/rate").write_text("200 Gb/sec")
    root, found, done = health(busbar, tmp_path, "--only", "pairs", "--drain", ranks=8, nodes=4, status=5, slow="link=node2-nic1:0.5",
                               EMU_HOST_FILES=str(tmp_path))
    name = f"NIC of GPU 1 (GPU 0000:02:00.0; {'mlx5_1' if nics == 1 else 'one of mlx5_2, mlx5_3'})"
    assert found == {("fail", "nic", 2, 1)} and root["findings"][0]["name"].startswith(f"{name} of ") and f'reason="busbar: {name} at 51 %"' in done.stdout


def test_two_nodes_name_the_command_that_finds_the_end(busbar, tmp_path):
    """A path of two nodes may be either end: bench p2p measures the links to other NICs, and names rank 2."""
    slow = "link=node1-nic0:0.5"
    for nodes, part in ((2, "path"), (3, "nic")):
        root, _, _ = health(busbar, tmp_path, "--only", "pairs", ranks=2 * nodes, nodes=nodes, status=5, slow=slow)
        finding, = root["findings"]
        assert finding["part"] == part and finding["reason"].endswith("; to find which end: busbar-emulated bench p2p") == (nodes == 2)
    root, found, _ = health(busbar, tmp_path, "--quick", ranks=6, nodes=3, status=5, slow=f"{slow},rank=4:1.5")  # two of three nodes are left for the pairs
    assert found == {("fail", "gpu", 2, 0), ("fail", "path", 0, 0)} and [f["reason"].endswith("; to find which end: busbar-emulated bench p2p")
                                                                       for f in root["findings"] if f["part"] == "path"] == [True]
    done = busbar.run("bench", "p2p", "-n", 2, "--repeats", 2, ranks=4, env={"EMU_DATA": "off", "EMU_CLUSTER": "h100-sxm-ib", "EMU_NODES": "2", "EMU_SLOW": slow})
    assert re.search(r"^# cause: rank 2 \(\S+-node1, GPU 0, 0000:01:00.0\) or its NIC: ", done.stdout, re.M)


def test_numbers_of_gpus_are_explained(busbar, tmp_path):
    """GPU 2 of CUDA_VISIBLE_DEVICES is GPU 5 of nvidia-smi, whose PCI address is 6."""
    for visible, note in (("2,3,5,7", True), ("0,1,2,3", False)):
        _, _, done = health(busbar, tmp_path, "--only", "gpu", ranks=4, nodes=1, status=5, slow="rank=2:1.3", CUDA_VISIBLE_DEVICES=visible)
        assert ("GPU 2 (0000:06:00.0)" in done.stdout) == ("# GPUs are numbered in the order of the ranks of a node" in done.stdout) == note, done.stdout
    _, _, done = health(busbar, tmp_path, "--only", "gpu", ranks=4, nodes=1, CUDA_VISIBLE_DEVICES="2,3,5,7")
    assert "numbered" not in done.stdout


def test_advice_has_no_limit_that_the_default_includes(busbar, tmp_path):
    """A pair at 70 % is slow by the default of `bench copy`, 1.2."""
    root, _, _ = health(busbar, tmp_path, "--only", "copies", ranks=4, nodes=1, status=5, EMU_SLOW_LINKS="nvlink0-1:0.7")
    assert root["findings"][0]["reason"].endswith(": GPU 0, GPU 1, or the link between them; to find which: busbar-emulated bench copy")
    done = busbar.run("bench", "copy", ranks=4, env={"EMU_DATA": "off", "EMU_CLUSTER": "h100-sxm-ib", "EMU_SLOW_LINKS": "nvlink0-1:0.7"})
    assert "# SLOW: 0 GPUs, 1 pair; first: GPU 0 " in done.stdout, done.stdout


def test_advice_finds_what_is_slightly_slow(busbar, tmp_path):
    """The default of --slow finds neither; the command is the same on stdout and stderr, and names the program that runs."""
    for only, ranks, nodes, slow, env, cause in (("pairs", 12, 2, "link=node1-nic3:0.95", {}, r"# cause: rank 9 \("),
                                           ("copies", 4, 1, "", {"EMU_SLOW_LINKS": "nvlink0-1:0.9"}, r"# SLOW: 0 GPUs, 1 pair; first: GPU 0 \(\S+\) of \S+ with GPU 1 \(\S+\): ")):
        root, _, done = health(busbar, tmp_path, "--only", only, ranks=ranks, nodes=nodes, status=5 if nodes == 2 else 0, slow=slow, **env)
        advice = re.search(r": (busbar-emulated bench .*)$", root["findings"][0]["reason"])[1]
        assert advice in done.stdout and (nodes == 1 or advice in done.stderr), done.stderr
        emu = {"EMU_DATA": "off", "EMU_CLUSTER": "h100-sxm-ib", "EMU_NODES": str(nodes), "EMU_SLOW": slow, **env}
        command, at = advice.split()[1:], advice.split().index("--slow") - 1
        assert re.search("(?m)^" + cause, busbar.run(*command, ranks=ranks, env=emu).stdout), advice
        assert not re.search("(?m)^" + cause, busbar.run(*command[:at], ranks=ranks, env=emu).stdout)


def test_path_of_two_nodes_counts_once(busbar, tmp_path):
    """All GPUs are equally slow: the path, not one finding for each GPU. One of four GPUs: its NICs, of which the slowest of aws-p5's four counts."""
    for cluster, slow, expected in (("h100-sxm-ib", "link=node0-node1:0.5", None), ("h100-sxm-ib", "link=node1-nic2:0.5", 2), ("aws-p5", "link=node1-nic8:0.5", 2)):
        _, found, done = health(busbar, tmp_path, "--only", "pairs", ranks=8, nodes=2, status=5, slow=slow, EMU_CLUSTER=cluster)
        assert found == {("fail", "path", 0, expected)} and "\n# FAILED: 1 part outside the nodes; only stage pairs: 2 nodes: " in done.stdout and re.search(" 5[0-2] % of the expected", done.stdout)


def test_slow_path_next_to_a_slow_nic_is_that_of_all_gpus(busbar, tmp_path):
    """The NIC explains GPU 0, the path in one direction all others, not only the first."""
    root, found, _ = health(busbar, tmp_path, "--only", "pairs", ranks=12, nodes=4, status=5, slow="link=node0-to-node1:0.5,link=node0-nic0:0.4")
    assert found == {("fail", "nic", 0, 0), ("fail", "path", 0, None)} and [f["one_way"] for f in root["findings"] if f["part"] == "path"] == [True]


@pytest.mark.parametrize("nodes, slow, fails", [
    (4, "link=node0-node3:0.5,link=node0-node2:0.5,link=node1-nic1:0.6", {("nic", 1, 1), ("path", 0, None)}),
    (5, "link=node0-node3:0.5,link=node0-node2:0.5,link=node1-nic1:0.6,link=node0-node4:0.7", {("nic", 1, 1), ("path", 0, None)}),
    (5, "link=node0-node3:0.5,link=node0-node2:0.5,link=node1-nic1:0.6,link=node4-nic1:0.6", {("nic", 1, 1), ("nic", 4, 1), ("path", 0, None)})])
def test_nic_without_a_fast_partner_is_a_warning(busbar, tmp_path, nodes, slow, fails):
    """Node 0 reaches over fast paths only nodes whose second NICs are slow, as this NIC of its own may be. Its node is not drained."""
    root, found, done = health(busbar, tmp_path, "--only", "pairs", "--rounds", 4, "--drain", ranks=2 * nodes, nodes=nodes, status=5, slow=slow)
    assert found == {("fail", *part) for part in fails} | {("warn", "nic", 0, 1)} and len(root["findings"]) == 1 + slow.count("link")
    reasons = [f["reason"] for f in root["findings"] if f["level"] == "warn"]
    assert reasons[0].endswith(": not tested with a fast partner") and "of the expected" in reasons[0]
    assert re.findall(r"nodename=\S+node(\d)", done.stdout) == [str(node) for part, node, _ in sorted(fails) if part == "nic"]


@pytest.mark.parametrize("second", ["0.7", "0.5"])
def test_three_slow_paths_of_four_nodes_are_no_leaf_switch(busbar, tmp_path, second):
    """Nodes 2 and 3 would use the same uplinks as the slow pairs at the full rate."""
    root, found, _ = health(busbar, tmp_path, "--only", "pairs", ranks=8, nodes=4, status=5,
                            slow=f"link=node3-node1:{second},link=node2-node0:0.5,link=node1-node0:{second}")
    assert {f["part"] for f in root["findings"]} == {"path"} and {(f["node"], f["other_node"]) for f in root["findings"]} == {(1, 3), (0, 2), (0, 1)}


def test_soak_repeats_and_reports_drift(busbar, tmp_path):
    root, found, done = health(busbar, tmp_path, "--only", "inventory", "--soak", "300ms", ranks=4, nodes=2)
    soak = {row["test"]: row for row in root["soak"]}
    assert found == set() and set(soak) == {"GEMM", "all_reduce of all GPUs"} and root["results"] == []
    assert all(row["rounds"] >= 2 and row["worst_ratio"] == pytest.approx(1, rel=1e-3) for row in soak.values())
    assert re.search(r"^# estimated time on real GPUs: 0 s, .*; soak 0 s$", done.stdout, re.M) and re.search(
        r"^# soak   GEMM: .* %\); none below 99.5 % of the value of the first rounds$", done.stdout, re.M)
    root, _, done = health(busbar, tmp_path, "--from", "soak", "--soak", "10ms", ranks=2, nodes=1)
    assert "# expected: h100-sxm-ib (recognised): " in done.stdout
    assert root["tests"] == [] and len(root["soak"]) == 2
    plan = busbar.run("health", "--plan", "--thorough", "--ranks", 1024, "--expect", "h100-sxm-ib", emulated=False).stdout
    assert 600 < float(re.search(r"# estimated time: (\d+) s", plan)[1]) <= 15 * 60 and " soak " in plan
    for args in (("--only", "pairs", "--thorough"), ("--thorough", "--soak", "0")):
        plan = busbar.run("health", "--plan", "--ranks", 32, "--expect", "h100-sxm-ib", *args, emulated=False).stdout
        assert "pairs " in plan and "soak" not in plan
    for args in (("--size", "80G"), ("--size", "80G", "--only", "node")):  # a run is refused for the memory that the plan names
        plan = busbar.run("health", "--plan", "--ranks", 2, "--expect", "h100-sxm-ib", *args, emulated=False).stdout
        refusal = busbar.run("health", "-g", 2, *args, env={"EMU_DATA": "off", "EMU_CLUSTER": "h100-sxm-ib"}).stderr
        assert re.search(r"of GPU memory needed \((.*)\) but ", refusal)[1] == re.search(r"# GPU memory: (.*) per GPU, and NCCL's buffers\n", plan)[1]
    plan = busbar.run("health", "--plan", "--ranks", 8, "--expect", "h100-sxm-ib", "--only", "soak", "--soak", "1h", emulated=False).stdout
    assert plan.startswith("# 1 node of 8 GPUs; expected by h100-sxm-ib: ")
    root, _, _ = health(busbar, tmp_path, "--only", "gpu", "--soak", "300ms", ranks=2, nodes=1, status=5, slow="rank=0:1.4,rank=1:1.4")
    assert root["verdicts"][0]["level"] == "fail" and root["soak"] == []  # no node is left


def test_soak_finds_what_is_slow_from_its_first_round(busbar, tmp_path):
    """Two GPUs of six: by the expectation of the profile, without the stages gpu and whole."""
    root, found, done = health(busbar, tmp_path, "--only", "soak", "--soak", "10ms", ranks=6, nodes=3, status=5, slow="rank=3:1.3,link=node2-nic0:0.5")
    assert found == {("fail", "gpu", 1, 1), ("fail", "all", None, None)} and {row["worst_of"] for row in root["soak"]} == {"expected value"}
    assert root["soak"][0]["worst_ratio"] == pytest.approx(1 / 1.3, rel=1e-3)
    assert re.search(r"^fail .* GEMM 506.* TFLOP/s, 77 % of the expected value 658.*, after 0 s$", done.stdout, re.M), done.stdout


@pytest.mark.parametrize("nodes, slow, parts", [(3, 6, {"all"}), (3, 5, {"all"}), (3, 3, {"gpu", "node"}), (1, 6, {"node"})])
def test_soak_drains_no_more_nodes_than_stage_gpu(busbar, tmp_path, nodes, slow, parts):
    """If more than three quarters of the GPUs of several nodes are slow, the profile may be wrong."""
    slow = ",".join(f"rank={rank}:1.3" for rank in range(slow))
    for stage in ("gpu", "soak"):
        _, found, done = health(busbar, tmp_path, "--only", stage, "--soak", "10ms" if stage == "soak" else "0", "--drain", ranks=6, nodes=nodes, status=5, slow=slow)
        assert {part for _, part, _, _ in found} <= parts and done.stdout.count("scontrol update") == (0 if "all" in parts else (nodes + 1) // 2), done.stdout


def host_files(folder, nodes, odd):
    """Writes copies of /proc and /sys of each node; node `odd` has other settings."""
    for node in range(nodes):
        for path, text in (("proc/cmdline", f"ro {'' if node == odd else 'amd_iommu=on' + chr(27) + 'iommu=pt'} quiet"),
                           ("proc/sys/kernel/numa_balancing", str(int(node == odd))), ("sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE"),
                           ("sys/class/infiniband/mlx5_0/ports/1/rate", f"{400 - 200 * (node == odd)} Gb/sec"),
                           ("sys/class/infiniband/mlx5_0/ports/1/counters/link_downed", str(int(node == odd))),
                           ("sys/class/infiniband/mlx5_0/ports/1/counters/port_rcv_errors", "100"),
                           ("sys/class/infiniband/mlx5_1/ports/1/counters/port_rcv_errors", str(int(node == odd)))):
            (folder / str(node) / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / str(node) / path).write_text(text + "\n")


def switch_port(sys, gpu, acs):
    """Writes the configuration space of the port above a GPU, with ACS's control register."""
    device = sys / "devices/pci0000:00/0000:00:01.0/0000:11:00.0" / gpu
    device.mkdir(parents=True)
    (sys / "bus/pci/devices").mkdir(parents=True, exist_ok=True)
    (sys / "bus/pci/devices" / gpu).symlink_to(device)
    (device.parent / "config").write_bytes(bytes(256) + b"\x0d\x00\x01\x00\x00\x00" + bytes([acs, 0]) + bytes(4096 - 264))


def stub(busbar, **values):
    values = {"ANY": 1, "DRIVER": 580, "NVLINKS": 18, "LANES": 16, "ECC": 0, "REMAP_FAILED": 0, "POWER_LIMIT": 700000, **values}
    return {"EMU_NVML": str(busbar.build / "tests" / "nvml" / "libnvidia-ml.so.1"), **{f"NVML_STUB_{name}": str(value) for name, value in values.items()}}


def test_inventory_names_errors_and_differences(busbar, tmp_path):
    """Counters of NVML and files of a host, both planted: of GPU 1 of node 1 (rank 3), and of node 2."""
    host_files(tmp_path, 3, odd=2)
    switch_port(tmp_path / "1/sys", "0000:02:00.0", 0x1d)
    root, found, _ = health(busbar, tmp_path, "--only", "inventory", ranks=6, nodes=3, **stub(busbar))
    assert found == set() and {i["item"]: i["usual"] for i in root["inventory"]}["power limit"] == "700 W"
    planted = {"ECC": 5, "REMAP_FAILED": 1, "REMAP_PENDING": 1, "RECOVERIES": 7, "NVLINKS": 17, "LANES": 8, "DRIVER": 570, "REASONS": 64, "REPLAYS": 2,
               "CRC": 3, "PCIE_REPLAYS": 81, "CORRECTED": 20000001, "CORRECTED_EVER": 30000000, "SRAM": 10001, "SRAM_EVER": 10000}
    root, found, done = health(busbar, tmp_path, "--only", "inventory", ranks=6, nodes=3, status=5, EMU_HOST_FILES=str(tmp_path),
                               **stub(busbar, PCIE_REPLAYS=80, **{f"{name}_3": value for name, value in planted.items()}))
    gpu = {f["reason"] for f in root["findings"] if f["node"] == 1}
    assert gpu == {"GPU 1 (0000:02:00.0): " + text for text in (
        "uncorrected ECC errors since the driver was loaded: 5", "a memory row could not be remapped, replace the GPU; failures: 1",
        "a memory row is remapped at the next reset of the GPU; pending: 1", "recoveries of NVLinks: 7", "replays of NVLinks: 2",
        "CRC and ECC errors of NVLinks: 6", "replays of the PCIe link: 81, limit 80", "active NVLinks 17, most have 18",
        "corrected ECC errors since the driver was loaded: 20000001, limit 20000000",
        "corrected ECC errors in the life of the GPU: 30000000, limit 20000000",
        "corrected ECC errors of SRAM since the driver was loaded: 10001, limit 10000",
        "ACS redirects peer-to-peer transfers, disable it in the BIOS or by setpci; PCIe port 0000:11:00.0",
        "PCIe lanes 8, most have 16", "driver 570.65.06, most have 580.65.06", "clocks are lowered: hw_thermal")}
    assert {f["reason"] for f in root["findings"] if f["node"] == 2} == {
        "iommu parameters not set, most have amd_iommu=on iommu=pt", "numa_balancing 1, most have 0", "NICs 1 of 200 Gb/s, most have 1 of 400 Gb/s",
        "link failures of RDMA ports, all of the node: 1", "receive errors of RDMA ports, all of the node: 101, limit 100"}
    assert [v["level"] for v in root["verdicts"]] == ["ok", "fail", "warn"] and "a memory row could not be remapped" in done.stdout
    items = {item["item"]: item for item in root["inventory"]}
    assert items["PCIe lanes"] == {"item": "PCIe lanes", "level": "warn", "usual": "16", "grown": [], "counter": False, "others": [
        {"host": root["verdicts"][1]["host"], "gpu": 1, "value": "8"}]}
    levels = [item["level"] for item in root["inventory"]]
    assert items["failed row remapping"]["level"] == "fail" and items["NCCL"]["level"] == "ok" and items["CPU governor"]["level"] in ("ok", "unknown")
    assert f"# inventory: {levels.count('ok')} items ok, {levels.count('warn')} warn, 3 fail, {levels.count('unknown')} unknown; --full" in done.stdout


def test_unreadable_kernel_parameters_are_unknown(busbar, tmp_path):
    host_files(tmp_path, 4, odd=0)
    (tmp_path / "2/proc/cmdline").unlink()
    root, _, _ = health(busbar, tmp_path, "--only", "inventory", ranks=4, nodes=4, EMU_HOST_FILES=str(tmp_path))
    most = ", most often amd_iommu=on iommu=pt"
    assert {(f["node"], f["reason"].removeprefix("GPU 0 (0000:01:00.0): ")) for f in root["findings"] if "iommu" in f["reason"]} == {
        (0, "iommu parameters not set" + most), (2, "iommu parameters unknown" + most)}


def test_files_of_the_host_that_are_not_utf8(busbar, tmp_path):
    """All items and the finding are in the results."""
    for node, text in enumerate((b"always \xff [never]\n", b"x" * 59 + "\u00e9".encode() * 9)):
        file = tmp_path / str(node) / "sys/kernel/mm/transparent_hugepage/enabled"
        file.parent.mkdir(parents=True)
        file.write_bytes(text)
    root, found, done = health(busbar, tmp_path, "--only", "inventory", ranks=2, nodes=2, EMU_HOST_FILES=str(tmp_path))
    assert len(root["inventory"]) == 35 and found == {("warn", "all", None, None)}
    finding, = [f["reason"] for f in root["findings"] if "huge pages" not in f["reason"]]  # these hosts have no /sys/class/infiniband
    assert "; 2 findings about all hosts" in done.stdout.splitlines()[-1]
    assert finding == "no RDMA NICs (/sys/class/infiniband): NCCL needs a network plugin or uses TCP"
    item, = [item for item in root["inventory"] if item["item"] == "huge pages"]
    assert item["usual"] is None and [other["value"] for other in item["others"]] == ["always ? [never]", "x" * 59 + "?"]


@pytest.mark.parametrize("parameters, text", [
    ((1, 2), "iommu=pt1 ({0}), iommu=pt2 ({1})"), ((1, 2, 2, 1), "iommu=pt1 ({0} and 1 more), iommu=pt2 ({1} and 1 more)"),
    ((1, 2, 3), "iommu=pt1 ({0}), iommu=pt2 ({1})"), ((1, 2, 2), "iommu parameters iommu=pt1, most have iommu=pt2")])
def test_values_without_majority_blame_no_node(busbar, tmp_path, parameters, text):
    """Half of the nodes are not most nodes. Two GPUs per node: the nodes are counted."""
    for node, value in enumerate(parameters):
        (tmp_path / f"{node}/proc").mkdir(parents=True)
        (tmp_path / f"{node}/proc/cmdline").write_text(f"ro iommu=pt{value}\n")
    nodes = len(parameters)
    root, _, done = health(busbar, tmp_path, "--only", "inventory", ranks=2 * nodes, nodes=nodes, EMU_HOST_FILES=str(tmp_path))
    (finding,) = [f for f in root["findings"] if "iommu" in f["reason"]]
    hosts = [verdict["host"] for verdict in root["verdicts"]]
    if "most" in text:
        assert finding["node"] == 0 and finding["reason"] == text
        return
    assert finding["node"] is None and finding["reason"] == "iommu parameters differ: " + text.format(*hosts)
    assert {verdict["level"] for verdict in root["verdicts"]} == {"ok"} and "most have" not in done.stdout
    (item,) = [item for item in root["inventory"] if item["item"] == "iommu parameters"]
    assert item["level"] == "warn" and item["usual"] is None and len(item["others"]) == 2 * nodes
    base = (tmp_path / "r.json").rename(tmp_path / "base.json")
    again, _, _ = health(busbar, tmp_path, "--only", "inventory", "--expect", base, ranks=2 * nodes, nodes=nodes, EMU_HOST_FILES=str(tmp_path))
    assert f"{finding['reason']}, as in the baseline" in [f["reason"] for f in again["findings"]] and item in again["inventory"]


@pytest.mark.parametrize("nodes, slow, name, fast", [(6, 6, "", 1), (6, 5, "", 1), (9, 7, " on most nodes", 9)])
def test_slow_rail_counts_its_nodes(busbar, tmp_path, nodes, slow, name, fast):
    """One node has no fast partner, so it is not known to be fast; two are fast with each other. The line of the rails has the lowest."""
    _, _, done = health(busbar, tmp_path, "--rounds", 16, ranks=3 * nodes, nodes=nodes, status=5,
                        slow=",".join(f"link=node{n}-nic1:0.7" for n in range(slow)))
    assert re.search(f"(?m)^fail +pairs +rail of GPU 1{name}: ", done.stdout), done.stdout
    assert (": at most one of its tested NICs is healthy\n" in done.stdout) == (fast == 1)
    assert re.search(r"(?m)^# rails  all_reduce, a rail alone: median 4\d\.\d+ GB/s, lowest 3\d\.\d+, expected 4", done.stdout)
    assert "# gpu    GEMM of bfloat16: median" in done.stdout and "copy: median 2810 GB/s, expected" in done.stdout


@pytest.mark.parametrize("fast, name", [(0, "the whole cluster"), (1, "most of the cluster")])
def test_common_slowness_counts_its_gpus(busbar, tmp_path, fast, name):
    _, _, done = health(busbar, tmp_path, ranks=8, nodes=2, status=5, slow=",".join(f"rank={n}:1.3" for n in range(fast, 8)))
    assert re.search(f"(?m)^fail +gpu +{name}: GEMM ", done.stdout), done.stdout


@pytest.mark.parametrize("factor, status, level, metric", [(0.9, 0, "warn", 1), (0.7, 5, "unknown", 3)])
def test_nodes_without_a_finding_have_the_level_of_the_common_cause(busbar, tmp_path, factor, status, level, metric):
    """A cause of all that fails leaves each node unknown; one that is a warning is a warning about each."""
    root, found, done = health(busbar, tmp_path, "--only", "gpu", "--prometheus", tmp_path / "m.prom", ranks=6, nodes=3, status=status,
                               slow=",".join(f"node{node}:{factor}" for node in range(3)))
    (finding,) = root["findings"]
    assert finding["part"] == "all" and [v["level"] for v in root["verdicts"]] == [level] * 3
    assert f"3 nodes: 0 ok, {3 * (level == 'warn')} warn, 0 fail, {3 * (level == 'unknown')} unknown" in done.stdout.splitlines()[-1]
    node = next(check for check in root["checks"] if check["check"] == "node")
    assert node["status"] == level and node["reason"] == f"{node['host']}: {finding['name']}: {finding['reason']}"
    assert len(re.findall(rf'^busbar_check_status.*check="node .*\}} {metric}$', (tmp_path / "m.prom").read_text(), re.M)) == 3


@pytest.mark.parametrize("nics, warned, usual", [
    (["8 400", "7 400"], {1: "7 of 400 Gb/s"}, "expected 8"), (["7 400", "8 400", "7 400"], {0: "7 of 400 Gb/s", 2: "7 of 400 Gb/s"}, "expected 8"),
    (["8 400", "7 400 1 200"], {1: "7 of 400 Gb/s, 1 of 200 Gb/s"}, "expected 8"), (["4 400", "3 400"], {}, ""),
    (["10 400", "8 400", "10 400"], {1: "8 of 400 Gb/s"}, "most have 10")])
def test_nodes_with_fewer_nics_than_the_profile_are_named(busbar, tmp_path, nics, warned, usual):
    """Two nodes, or most nodes without a NIC, are no majority against the profile, which has 8 NICs; NICs for storage are more."""
    for node, ports in enumerate(nics):
        words = ports.split()
        for i, rate in enumerate(rate for n, rate in zip(words[::2], words[1::2]) for _ in range(int(n))):
            port = tmp_path / str(node) / f"sys/class/infiniband/mlx5_{i}/ports/1"
            port.mkdir(parents=True)
            (port / "state").write_text("4: ACTIVE\n")
            (port / "rate").write_text(f"{rate} Gb/sec\n")
    root, _, done = health(busbar, tmp_path, "--only", "inventory", "--expect", "h100-sxm-ib", ranks=2 * len(nics), nodes=len(nics), EMU_HOST_FILES=str(tmp_path))
    found = {f["node"]: f["reason"] for f in root["findings"] if f["reason"].startswith("NICs")}
    assert found == ({node: f"NICs {text}, {usual} of 400 Gb/s" for node, text in warned.items()} or {None: found.get(None)}), done.stdout
    assert [v["level"] for v in root["verdicts"]] == ["warn" if node in warned else "ok" for node in range(len(nics))]


def test_counters_that_grow_during_the_run_are_named(busbar, tmp_path):
    """Of a GPU (rank 3), of both GPUs of node 2, and of the RDMA ports of node 0: the run time of the process, in ns. --full lists nodes."""
    host_files(tmp_path, 3, odd=0)
    port = tmp_path / "0/sys/class/infiniband/mlx5_0/ports/1/counters/port_xmit_discards"
    port.symlink_to("/proc/self/schedstat")
    root, _, done = health(busbar, tmp_path, "--full", ranks=6, nodes=3, EMU_HOST_FILES=str(tmp_path),
                           **stub(busbar, REPLAYS=0, REPLAYS_3="0+1204", PCIE_REPLAYS=3, PCIE_REPLAYS_4="3+5", PCIE_REPLAYS_5="3+5", LANES_4=8))
    grown = {(f["level"], f["stage"], f["node"], f["gpu"], f["reason"]) for f in root["findings"] if " grew " in f["reason"] and f["node"]}
    assert grown == {("warn", "inventory", 1, 1, "GPU 1 (0000:02:00.0): NVLink replays grew by 1204 during the run"),
                     ("warn", "inventory", 2, None, "PCIe replays grew by 5 during the run")}
    items = {item["item"]: item["grown"] for item in root["inventory"]}
    assert [(g["gpu"], g["by"]) for g in items["NVLink replays"]] == [(1, 1204)] and {g["gpu"] for g in items["transmit discards"]} == {0, 1}
    assert any(re.fullmatch(r"(GPU \d \(\S+\): )?transmit discards grew by \d+ during the run", f["reason"]) for f in root["findings"])
    assert re.search(r"^# inventory PCIe lanes +warn +16\n#   \S+-node2 GPU 0: 8\n", done.stdout, re.M)
    assert re.search(r"^# inventory numa_balancing +warn +0\n#   \S+-node0: 1\n", done.stdout, re.M)


def test_inventory_is_compared_with_the_baseline(busbar, tmp_path):
    """Of the same nodes, and of nodes with other names. What one node did not know is a difference; what no node knew is none."""
    good = tmp_path / "good.json"
    host_files(tmp_path, 3, odd=2)
    quick = {"EMU_DATA": "off", "EMU_CLUSTER": "h100-sxm-ib", "EMU_NODES": "3", "EMU_HOST_FILES": str(tmp_path)}
    done = busbar.run("health", "--quick", "--only", "inventory", "--save-baseline", good, ranks=6, env={**quick, **stub(busbar, LANES_3=8)})
    assert done.returncode == 0 and "--save-baseline" in done.stderr
    root, _, _ = health(busbar, tmp_path, "--only", "inventory", "--expect", good, ranks=6, nodes=3, EMU_HOST_FILES=str(tmp_path),
                        **stub(busbar, LANES_3=8, REPLAYS=0))
    assert {f["reason"] for f in root["findings"]} == {"link failures of RDMA ports, all of the node: 1", "receive errors of RDMA ports, all of the node: 101, limit 100"}
    for names in (lambda text: text, lambda text: text.replace("-node", "-old")):
        good.write_text(names(good.read_text()))
        host_files(tmp_path, 3, odd=1)
        root, _, done = health(busbar, tmp_path, "--only", "inventory", "--expect", good, ranks=6, nodes=3, EMU_HOST_FILES=str(tmp_path),
                               **stub(busbar, LANES_3=8, DRIVER=565, POWER_LIMIT_4=500000))
        same = "-old" not in good.read_text()
        reasons = {(f["node"], f["reason"]) for f in root["findings"]}
        assert reasons >= {(None, "driver 565.65.06, baseline 580.65.06"), (2, "GPU 0 (0000:01:00.0): power limit 500 W, baseline 700 W"),
                           (1, "numa_balancing 1, baseline 0")}
        assert ((1, "GPU 1 (0000:02:00.0): PCIe lanes 8, baseline 16") in reasons) != same  # the baseline of the same node has 8
        assert ((2, "numa_balancing 0, baseline 1") in reasons) == same and len(reasons) == (10 if same else 8), reasons
        assert ((2, "iommu parameters amd_iommu=on iommu=pt, baseline not set") in reasons) == same
        assert "warn    inventory all nodes: driver 565" in done.stdout and {f["level"] for f in root["findings"]} == {"warn"}
        done = busbar.run("compare", good, tmp_path / "r.json", "--json", tmp_path / "c.json", "--full", emulated=False)
        changes = [d for d in json.loads((tmp_path / "c.json").read_text())["provenance"] if d["what"][0] not in "-$" and " of " in d["what"]]
        assert {f"{d['what'].split(' of ')[0]} {d['b']}, baseline {d['a']}" for d in changes} == {  # as --expect
            re.sub(r"^GPU .*\): ", "", reason) for _, reason in reasons if "baseline" in reason}, (changes, reasons)
        host = root["verdicts"][0]["host"]
        assert f"# differs: driver of {host} and 2 more: A 580.65.06, B 565.65.06\n" in done.stdout
        assert f"power limit of {host[:-1]}2 GPU 0: A 700 W, B 500 W\n" in done.stdout


def test_check_of_a_low_median_warns(busbar, tmp_path):
    root, _, _ = health(busbar, tmp_path, "--only", "gpu", "-g", 4, ranks=1, nodes=None, status=5, slow=",".join(f"rank={rank}:1.3" for rank in range(4)))
    checks = {check["check"]: (check["status"], check["reason"]) for check in root["checks"]}
    assert checks["GEMM"] == ("warn", "GEMM 506.2 TFLOP/s, 77 % of the expected 658.2") and checks["memory copy"] == ("ok", None), checks


def test_missing_nodes_of_the_baseline_are_named(busbar, tmp_path):
    good = tmp_path / "good.json"
    busbar.run("health", "--quick", "--only", "inventory", "--save-baseline", good, ranks=4, env={"EMU_DATA": "off", "EMU_CLUSTER": "h100-sxm-ib", "EMU_NODES": "4"})
    root, found, done = health(busbar, tmp_path, "--only", "inventory", "--expect", good, ranks=2, nodes=2)
    line = r"2 of the 4 nodes of the baseline are missing: \S+-node2, \S+-node3"
    assert "\n# baseline: 4 nodes, this run has 2\n" in done.stdout, done.stdout
    assert re.search(f"(?m)^warn +inventory all nodes: {line}$", done.stdout) and [host[-6:] for host in root["missing_hosts"]] == ["-node2", "-node3"]
    last = done.stdout.splitlines()[-1]
    assert re.search(r"0 fail, 0 unknown; missing nodes of the baseline: \S+-node2, \S+-node3; pairs of nodes tested: 0 of 1$", last) and "finding" not in last, last
    _, _, done = health(busbar, tmp_path, "--only", "inventory", "--expect", good, ranks=3, nodes=3)
    assert re.search(r"(?m)^warn +inventory all nodes: 1 of the 4 nodes of the baseline is missing: \S+-node3$", done.stdout), done.stdout
    good.write_text(good.read_text().replace("-node", "-old"))
    root, found, done = health(busbar, tmp_path, "--only", "inventory", "--expect", good, ranks=2, nodes=2)
    assert found == set() and root["missing_hosts"] == [] and "\n# baseline: 4 nodes, this run has 2 and no host of the baseline\n" in done.stdout
    _, _, done = health(busbar, tmp_path, "--only", "inventory", "--expect", good, ranks=4, nodes=4)
    assert "\n# baseline: 4 nodes, this run has 4 and no host of the baseline\n" in done.stdout


def test_estimate_with_a_baseline_of_other_nodes_uses_its_pairs(busbar, tmp_path):
    """The baseline has no value of rails on three nodes; a rail has at most the rate of its pairs, not an assumed 10 GB/s."""
    def estimate(nodes, *args):
        done = busbar.run("health", "--only", "all", *args, ranks=2 * nodes, env={"EMU_DATA": "off", "EMU_CLUSTER": "h100-sxm-ib", "EMU_NODES": str(nodes)})
        return float(re.search(r"# estimated time on real GPUs: (\d+) s", done.stdout)[1])

    estimate(4, "--save-baseline", tmp_path / "good.json")
    assert estimate(3, "--expect", tmp_path / "good.json") == pytest.approx(estimate(3, "--expect", "h100-sxm-ib"), rel=0.05)


def bench(busbar, tmp_path, *args, **env):
    done = busbar.run("bench", *args, "--json", tmp_path / "r.json", ranks=16,
                      env={"EMU_DATA": "off", "EMU_CLUSTER": "h100-sxm-ib", "EMU_NODES": "4", **env})
    assert (tmp_path / "r.json").exists(), (done.returncode, done.stderr, done.stdout)
    root = json.loads((tmp_path / "r.json").read_text())
    assert root["schema"] == "busbar.health/1" and len(done.stdout.splitlines()) <= 25
    return root, [(f["part"], f["node"], f["gpu"]) for f in root["findings"]], done


def test_bench_rails(busbar, tmp_path):
    root, found, done = bench(busbar, tmp_path, "rails", EMU_SLOW="link=node1-nic2:0.5")
    assert done.returncode == 5 and found == [("rail", None, 2)] and {row["stage"] for row in root["results"]} == {"rails"}
    assert re.search("^fail +rails +rail of GPU 2, or one NIC of it: .*; to find which: busbar-emulated health --only pairs$", done.stdout, re.M)
    assert re.search("^# expected: h100-sxm-ib[^:]*: 4 GPUs and 4 NICs of ", done.stdout, re.M)
    rows = {int(gpu): (float(alone), float(at_once)) for gpu, alone, at_once in re.findall(r"(?m)^ GPU (\d) +(\S+) +(\S+)$", done.stdout)}
    assert rows.keys() == {0, 1, 2, 3} and all(a == b == pytest.approx(48.1 if gpu != 2 else 24.1, abs=0.2) for gpu, (a, b) in rows.items())
    line = rf"GPU 2 with {rows[2][0]:.2f} GB/s, typical {rows[0][0]:.2f} GB/s"
    assert f"\n# slowest rail alone: {line}; at once: {line}\n" in done.stdout, done.stdout


def test_rails_that_share_nics_are_slower_at_once(busbar, tmp_path):
    """Two GPUs of each NIC: half of the rate at once, which is expected."""
    root, found, done = bench(busbar, tmp_path, "rails", EMU_CLUSTER="a100-pcie-ib")
    tests = {test["test"]: test for test in root["tests"]}
    alone, at_once = tests["all_reduce, a rail alone"], tests["all_reduce, rails at once"]
    assert done.returncode == 0 and found == [] and alone["median"] / at_once["median"] == pytest.approx(2, rel=0.05)
    assert all(test["median"] == pytest.approx(test["expected"], rel=0.02) for test in (alone, at_once))


def test_bench_p2p_of_nodes(busbar, tmp_path):
    root, found, done = bench(busbar, tmp_path, "p2p", "--nodes", EMU_SLOW="link=node1-nic2:0.5")
    assert done.returncode == 5 and found == [("nic", 1, 2)] and {row["stage"] for row in root["results"]} == {"pairs"}
    cells = {int(line.split()[0]): line.split()[1:] for line in done.stdout.splitlines() if re.match(r" +\d ", line)}
    for a in range(4):
        for b in range(4):
            expected = 4 * 48.3 - (24.1 if 1 in (a, b) else 0)
            assert cells[a][b] == "-" if a == b else float(cells[a][b]) == pytest.approx(expected, abs=1)
    assert {(row["node"], row["partner"]) for row in root["results"]} >= {(a, b) for a in range(4) for b in range(4) if a != b}


def test_reason_of_drain_names_all_failed_parts(busbar, tmp_path):
    """At most 255 characters, which Slurm's database keeps."""
    _, _, done = health(busbar, tmp_path, "--drain", ranks=8, nodes=4, status=5, slow="link=node2-nic0:0.5,link=node2-nic1:0.6")
    assert re.findall('reason="(.*)"', done.stdout) == ["busbar: NIC of GPU 0 (GPU 0000:01:00.0) at 51 %, NIC of GPU 1 (GPU 0000:02:00.0) at 61 %"]
    root, _, done = health(busbar, tmp_path, "--drain", "--only", "gpu", ranks=4, nodes=1, status=5, slow="rank=2:1.3", CUDA_VISIBLE_DEVICES="7,6,5,4")
    assert re.findall('reason="(.*)"', done.stdout) == ["busbar: GPU 2 (0000:06:00.0) GEMM at 77 %"]  # the physical GPU 5
    assert {(f["gpu"], f["pci"], f["uuid"]) for f in root["findings"]} == {(2, root["devices"][2]["pci"], root["devices"][2]["uuid"])}
    assert [row["pci"] for row in root["results"][:4]] == [f"0000:0{gpu + 1}:00.0" for gpu in (7, 6, 5, 4)]
    slow = ",".join(f"rank={rank}:1.25" for rank in range(17, 32))
    _, _, done = health(busbar, tmp_path, "--drain", "--only", "gpu", ranks=48, nodes=3, status=5, slow=slow, EMU_CLUSTER="gb200-nvl72")
    (reason,) = re.findall('reason="(.*)"', done.stdout)
    assert 200 < len(reason) <= 255 and re.fullmatch(r"busbar: (GPU \d+ \(\S+\) GEMM outlier at 80\.\d %, )+\d+ more", reason), reason


@pytest.mark.parametrize("test, slow", [("gpu", ",".join(f"rank={rank}:1.3" for rank in range(2, 4))),
                                        ("pairs", ",".join(f"link=node1-nic{nic}:0.5" for nic in range(2)))])
def test_node_whose_parts_are_all_slow_names_them(busbar, tmp_path, test, slow):
    root, found, _ = health(busbar, tmp_path, "--only", test, ranks=8, nodes=4, status=5, slow=slow)
    assert found == {("fail", "node", 1, None)} and root["findings"][0]["reason"].endswith(
        {"gpu": ": all its GPUs", "pairs": ": the NICs of all its GPUs"}[test])


def test_drain_names_what_fails_of_no_node(busbar, tmp_path):
    """A slow NIC drains its node; the rail, which fails as well, is in a comment, also with --quiet."""
    slow = ",".join(["link=node2-nic0:0.4", *(f"link=node{node}-nic1:0.7" for node in range(6))])
    root, _, done = health(busbar, tmp_path, "--only", "pairs", "--drain", ranks=12, nodes=6, status=5, slow=slow)
    (name,) = [f["name"] for f in root["findings"] if f["part"] == "rail"]
    lines = done.stdout.splitlines()
    at = lines.index(f"# no other node to drain: what fails is a part of the network: {name}")
    assert lines[at - 1].startswith("scontrol update nodename=") and "-node2 " in lines[at - 1]
    _, _, quiet = health(busbar, tmp_path, "--only", "pairs", "--drain", "--quiet", ranks=12, nodes=6, status=5, slow=slow)
    assert quiet.stdout.splitlines() == lines[at - 1:at + 1]


def test_emulated_gpus_with_data_are_tested_without_gemms(busbar):
    """GEMMs of 8192 rows on the CPU do not end; the stages from copies on do."""
    done = busbar.run("health", "--quick", "-T", 1, ranks=2, env={"EMU_CLUSTER": "h100-sxm-ib", "EMU_DATA": "on"})
    assert done.returncode == 4 and "GEMMs on the CPU, which takes very long; try: --from copies, or EMU_DATA=off\n" in done.stderr, done.stderr
    done = busbar.run("health", "--quick", "--from", "copies", ranks=2, env={"EMU_CLUSTER": "h100-sxm-ib", "EMU_DATA": "on"})
    assert done.returncode == 0 and "try: " not in done.stderr, done.stderr


def test_slow_rail_is_not_a_slow_node(busbar, tmp_path):
    slow = ",".join(f"link=node{node}-nic1:0.79" for node in range(4))
    root, found, _ = health(busbar, tmp_path, "--only", "pairs", ranks=8, nodes=4, status=5, slow=slow)
    assert found == {("fail", "rail", None, 1)} and [v["level"] for v in root["verdicts"]] == ["ok"] * 4
    assert {row["stage"] for row in root["results"]} == {"pairs"}


def test_nic_that_gpus_share_is_one_part(busbar, tmp_path):
    """The profile has four NICs for eight GPUs: GPU 0 and GPU 1 have the first one."""
    root, found, done = health(busbar, tmp_path, "--only", "pairs", ranks=12, nodes=3, status=5, slow="link=node1-nic0:0.5", EMU_CLUSTER="a100-pcie-ib")
    assert found == {("fail", "nic", 1, 0), ("fail", "nic", 1, 1)} and {f["nic"] for f in root["findings"]} == {"NIC 0"}
    assert done.stdout.splitlines()[-1].startswith("# FAILED: 1 part; ") and "; and 1 more" not in done.stderr


@pytest.mark.parametrize("factor", [0.95, 0.9])
def test_slightly_slow_nic_is_one_finding(busbar, tmp_path, factor):
    _, found, _ = health(busbar, tmp_path, ranks=8, nodes=4, status=5, slow=f"link=node1-nic0:{factor}")
    assert found == {("fail", "nic", 1, 0)}


def test_left_out_stages_and_a_wrong_profile_are_said(busbar, tmp_path):
    _, _, done = health(busbar, tmp_path, "--expect", "a100-sxm-ib", ranks=4, nodes=2)
    lines = [line.split()[1] for line in done.stdout.splitlines() if line.endswith("; warning: wrong profile?")]
    assert {"gpu", "copies", "node", "pairs"} <= set(lines), done.stdout
    assert f"; wrong profile or baseline? GEMM: 299 % of the expected, and {len(lines) - 1} more tests; " in done.stdout.splitlines()[-1]
    root, _, done = health(busbar, tmp_path, "--junit", tmp_path / "r.xml", ranks=6, nodes=3, status=5, slow="rank=2:1.4,rank=5:1.4,link=node0-nic0:0.5")
    assert re.search("pairs .*: not run, too few nodes are left", done.stdout)
    why = "no NIC, path or rail tested: too few nodes are left"  # so the first node, whose NIC is slow, is not ok
    assert [v["level"] for v in root["verdicts"]] == ["unknown", "fail", "fail"] and root["verdicts"][0]["reason"] == why
    assert done.stdout.endswith(f" 0 ok, 0 warn, 2 fail, 1 unknown; 2 of 8 GPUs of each node tested; pairs of nodes tested: 0 of 3; {why}, to test them: --only pairs\n")
    assert f'<skipped message="{root["verdicts"][0]["host"]}: {why}"/>' in (tmp_path / "r.xml").read_text()
    plugin = busbar.run("health", "--nagios", "-n", 2, ranks=4, env={"EMU_NODES": "2", "EMU_SLOW": "rank=2:1.4", "EMU_DATA": "off", "EMU_CLUSTER": "h100-sxm-ib"})
    assert plugin.returncode == 2 and re.search(rf" 1 fail, 1 unknown; GPU .*; \S+-node0: {why} \|", plugin.stdout), plugin.stdout


def test_one_node_that_fails_has_no_paths_and_no_later_stage(busbar, tmp_path):
    _, found, done = health(busbar, tmp_path, ranks=8, nodes=1, status=5, slow="rank=5:1.3")
    assert found == {("fail", "gpu", 0, 5)} and done.stdout.count("not run, the node failed an earlier test") == 5
    assert "access" not in done.stdout and done.stdout.splitlines()[-1] == (
        "# FAILED: 1 part; 1 node: 0 ok, 0 warn, 1 fail, 0 unknown; no NIC, path or rail tested: one node")


def test_wrong_data_of_a_copy_ends_the_run(busbar, tmp_path):
    """Of the last of 2 + 3 * 5 copies."""
    root, _, done = health(busbar, tmp_path, "--only", "copies", ranks=2, nodes=2, status=3, EMU_DATA="on", EMU_FAULT="corrupt:rank=1,call=17,name=cudaMemcpyAsync")
    assert re.search("wrong data: 1 of 16777216 elements of the copy host to GPU, GPU 0 \\(\\S+\\) of [^ ]+-node1$", done.stderr, re.M), done.stderr
    assert root["status"] == "wrong data" and "# stages not measured: copies" in done.stdout
    assert [(f["node"], f["gpu"], f["reason"]) for f in root["findings"]] == [(1, 0, "wrong data in copy host to GPU")]


def test_wrong_data_of_a_collective_ends_the_run(busbar, tmp_path):
    """Of the all_reduce after 2 + 5 timed ones, in the first round of pairs, of neighbours."""
    root, _, done = health(busbar, tmp_path, "--only", "pairs", "--size", "64K", ranks=4, nodes=4, status=3, EMU_DATA="on", EMU_FAULT="corrupt:rank=3,call=8,name=ncclAllReduce")
    assert re.search(r"wrong data: 1 of 16384 elements of all_reduce of GPU pairs, GPU 0 \(\S+\) of \S+-node3 with \S+-node2$", done.stderr, re.M), done.stderr
    assert root["status"] == "wrong data"
    health(busbar, tmp_path, "--size", "64K", "--from", "node", ranks=4, nodes=2, EMU_DATA="on")


def test_node_with_wrong_data_fails_in_every_output(busbar, tmp_path):
    junit, metrics, base = tmp_path / "r.xml", tmp_path / "r.prom", tmp_path / "b.json"
    args = ["health", "--quick", "--from=gpu", "--from", "node", "--size", "64K", "--drain"]
    env = {"EMU_DATA": "on", "EMU_NODES": "2", "EMU_FAULT": "corrupt:rank=3,call=8,name=ncclAllReduce"}
    done = busbar.run(*args, "--save-baseline", base, "--junit", junit, "--prometheus", metrics, ranks=4, mpirun=(), env=env)
    root = json.loads(base.read_text())
    assert done.returncode == 3 and f"--save-baseline {base}: the run ended in stage node, so the file is no baseline" in done.stderr
    assert [v["level"] for v in root["verdicts"]] == ["unknown", "fail"] and [c["status"] for c in root["checks"]] == ["unknown", "fail"]
    assert [(f["level"], f["stage"], f["part"], f["node"], f["gpu"]) for f in root["findings"]] == [("fail", "node", "gpu", 1, 1)]
    assert re.search(r"^fail +node +GPU 1 \(\S+\) of [^ ]+-node1: wrong data in all_reduce in the node$", done.stdout, re.M), done.stdout
    assert re.search(r'^scontrol .*-node1 state=drain reason="busbar: GPU 1 \(\S+\) wrong data in all_reduce in the node"$', done.stdout, re.M)
    assert re.search(r"^# continue: .* -n 2 .*-node0:2 busbar-emulated health --quick --size 64K .* --from node$", done.stdout, re.M), done.stdout
    assert [case.find("failure") is not None for case in ET.parse(junit).iter("testcase")] == [False, True, False]
    assert re.findall(r'busbar_check_status\{.*host="([^"]+)"\} 2', metrics.read_text()) == [root["verdicts"][1]["host"]]
    plugin = busbar.run(*(arg for arg in args if arg != "--drain"), "--nagios", ranks=4, env=env)
    assert plugin.returncode == 2 and re.match(r"BUSBAR CRITICAL - 2 checks .*; GPU 1 \(\S+\) of [^ ]+-node1: wrong data .*'checks failed'=1;", plugin.stdout)


def test_slow_nic_of_two_nodes_is_a_path(busbar, tmp_path):
    """It explains a slow job, whose check is not ok then."""
    root, found, done = health(busbar, tmp_path, "--from", "pairs", ranks=4, nodes=2, status=5, slow="link=node1-nic0:0.5")
    assert found == {("fail", "path", 0, 0)}
    path = r"explained by: path between [^ ]+-node0 and [^ ]+-node1 \(GPU 0\)"
    (check,) = [c for c in root["checks"] if c["check"] == "all_reduce of all GPUs"]
    assert check["status"] == "warn" and re.search(f" % of the expected .*; {path}$", check["reason"]), check
    assert re.search(f"^# whole .*, expected [0-9.]+; {path}$", done.stdout, re.M), done.stdout


def test_outlier_and_nodes_that_take_part_are_said(busbar, tmp_path):
    """Three nodes are left, of which a round of pairs has two."""
    _, found, done = health(busbar, tmp_path, "--drain", ranks=16, nodes=4, status=5, slow="rank=5:1.05")
    assert re.search(r"^fail +gpu +GPU 1 \(\S+\) of [^ ]+-node1: GEMM .*, 95 % of the peers' median [0-9.]+: an outlier$", done.stdout, re.M), done.stdout
    assert 'reason="busbar: GPU 1 (0000:02:00.0) GEMM outlier at 95 %"' in done.stdout
    _, found, alone = health(busbar, tmp_path, "--only", "gpu", ranks=8, nodes=1, mpirun=(), slow="rank=5:1.0638")  # too few peers for outliers
    assert not found and re.search(r"GEMM of bfloat16: median 658 TFLOP/s, lowest 618.5 \(GPU 5, 0000:06:00.0\), expected", alone.stdout), alone.stdout
    measured = re.findall("^# ([a-z]+) .*: median [^,]*(?:, lowest [^)]*[)])?(?:, expected [0-9.]+)?(, 3 of 4 nodes)?$", done.stdout, re.M)
    assert {(stage, part != "") for stage, part in measured} >= {("gpu", False), ("copies", True), ("node", True), ("pairs", True), ("whole", True)}


def test_unknown_machine_compares_nodes_with_each_other(busbar, tmp_path):
    """Emulated GPUs are always known, so the expectation is a profile without the network of this machine."""
    root, found, done = health(busbar, tmp_path, "--only", "whole", "--expect", "b200-sxm-ib", ranks=4, nodes=2, status=5,
                               slow="link=node1-nic0:0.1")
    assert found == {("fail", "all", None, None)} and root["expected_by"].startswith("b200-sxm-ib: 2 GPUs")
    assert "all nodes together: all_reduce of all GPUs" in done.stderr


@pytest.mark.parametrize("mpirun", [None, ()])
def test_run_goes_on_without_a_lost_node(busbar, tmp_path, mpirun):
    """Two nodes are lost one after another, while one GPU is slow. All outputs name them, and the last stage is measured."""
    path, junit, metrics = tmp_path / "r.json", tmp_path / "r.xml", tmp_path / "r.prom"
    done = busbar.run("health", "--quick", "--drain", "--json", path, "--junit", junit, "--prometheus", metrics, ranks=8, mpirun=mpirun,
                      env={**LOST, "EMU_SLOW": "rank=1:1.2", "EMU_FAULT": LOST["EMU_FAULT"] + ";die:rank=3,call=6,name=ncclCommSplit"})
    root = json.loads(path.read_text())
    assert done.returncode == 5 and root["status"] == "below threshold" and root["stage"] is None and sorted(root["lost_ranks"]) == [3, 5], done.stderr
    assert [v["level"] for v in root["verdicts"]] == ["warn", "fail", "fail", "ok"]
    assert [(f["level"], f["stage"], f["part"], f["node"], f["reason"]) for f in root["findings"][:2]] == [
        ("fail", "pairs", "node", 2, "rank 5 was lost in stage pairs"), ("fail", "bisection", "node", 1, "rank 3 was lost in stage bisection")]
    assert [(f["level"], f["stage"], f["node"], f["gpu"]) for f in root["findings"][2:]] == [("warn", "gpu", 0, 1)]
    nodes = {stage: {row["node"] for row in root["results"] if row["stage"] == stage} for stage in ("gpu", "node", "rails", "whole")}
    assert nodes == {"gpu": {0, 1, 2, 3}, "node": {0, 1, 2, 3}, "rails": {0, 3}, "whole": {0, 3}}
    assert len([row for row in root["results"] if row["stage"] in ("copies", "node")]) == 4 * 8  # none is repeated
    assert {row["node"] for row in root["results"] if row["stage"] in ("pairs", "bisection")} <= {0, 1, 3}  # none of an interrupted test remains
    tests = {t["test"]: t for t in root["tests"]}
    assert all(abs(t["median"] / t["expected"] - 1) < 0.02 for t in tests.values() if t["stage"] in ("node", "bisection", "rails", "whole")), tests
    assert {c["host"]: c["status"] for c in root["checks"] if c["host"]} == {v["host"]: v["level"] for v in root["verdicts"]}
    failures = {case.get("name")[-5:] for case in ET.parse(junit).iter("testcase") if case.find("failure") is not None}
    assert failures == {"node1", "node2"} and len(re.findall(r'busbar_check_status\{.*check="node .*"\} 2', metrics.read_text())) == 2
    drained = re.findall(r'^scontrol update nodename=\S+-(\S+) state=drain reason="busbar: (.*)"$', done.stdout, re.M)
    assert drained == [("node1", "rank 3 was lost in stage bisection"), ("node2", "rank 5 was lost in stage pairs")]
    lines = done.stdout.splitlines()
    assert [line.split(":")[0] for line in lines if line.startswith("# ") and "median" in line] == sorted(  # once each, in order
        {line.split(":")[0] for line in lines if line.startswith("# ") and "median" in line}, key=lambda name: list(tests).index(name.split(None, 2)[2].removesuffix(" of bfloat16")))
    assert "# continue" not in done.stdout and len(lines) <= 25
    assert done.stderr.count(" is lost; ") == 2 and "rank 5 (" in done.stderr and "killed by SIGKILL; the run goes on without its node" in done.stderr


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGINT, "fail:rank=3,name=ncclAllReduce,call=100", "stall:rank=2,call=100,name=cublasLtMatmul",
                                 "die:rank=0,call=100,name=cublasLtMatmul"])
def test_interrupted_soak_keeps_its_rounds(busbar, tmp_path, end):
    """What was measured before the end is in the report and in the file: the rounds that were saved, at least two."""
    path = tmp_path / "r.json"
    is_signal = not isinstance(end, str)
    timeout = 5 if str(end)[:5] == "stall" else 60  # only a stalled rank is to be waited for
    command = busbar.command("health", "--quick", "--only", "soak", "--soak", "1m", "--timeout", timeout, "--json", path, ranks=4)
    env = busbar.environment({**LOST, "EMU_NODES": "2", "EMU_FAULT": "" if is_signal else end})
    # timeout passes signals on; without it, SIGINT is ignored where it is ignored for the tests, as in a shell's background
    job = subprocess.Popen(["timeout", "100", *map(str, command)], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        while is_signal and job.poll() is None and not (path.exists() and len(re.findall(r'"rounds": (?:[3-9]|\d\d)', path.read_text())) == 2):
            time.sleep(0.05)
        if is_signal:
            job.send_signal(end)
        stdout, stderr = job.communicate(timeout=60)
    finally:
        job.kill()
    root = json.loads(path.read_text())
    assert root["stage"] == "soak" and root["status"] == ("interrupted" if is_signal else "below threshold" if end[0] == "f" else "timeout"), stderr
    assert [row["test"] for row in root["soak"]] == ["GEMM", "all_reduce of all GPUs"], stdout + stderr
    assert all(row["rounds"] >= (3 if is_signal else 2) and row["worst_ratio"] == pytest.approx(1, rel=1e-3) for row in root["soak"])
    levels = [v["level"] for v in root["verdicts"]]
    assert levels == (["ok", "ok"] if is_signal else ["fail", "ok"] if end[0] == "d" else ["ok", "fail"]), stdout
    assert len(re.findall(r"(?m)^# soak   .*: \d+ rounds in \d+ of 60 s, interrupted, median first ", stdout)) == 2, stdout
    assert stdout.endswith("\n# ENDED EARLY in stage soak\n")


def test_loss_in_the_soak(busbar, tmp_path):
    """In the third round: the first two are kept, however long the results of the first one took to write."""
    root, found, done = health(busbar, tmp_path, "--only", "inventory", "--soak", "2s", ranks=4, nodes=2, status=5,
                               EMU_FAULT="die:rank=2,call=40,name=cublasLtMatmul")
    assert found == {("fail", "node", 1, None)} and root["findings"][0]["stage"] == "soak"
    before, after = ([row for row in root["soak"] if row.get("before_loss", False) == lost] for lost in (True, False))
    assert len(before) == len(after) == 2 and all(row["rounds"] >= 2 for row in after) and before[0]["rounds"] >= 2
    assert len(re.findall(r"(?m)^# soak   .*: \d+ rounds in \d+ s, before a node was lost, median first ", done.stdout)) == 2


@pytest.mark.parametrize("recovery", [True])  # without it, the order in which Open MPI ends the others is not determined
def test_all_processes_of_a_node_are_killed(busbar, tmp_path, recovery):
    """The run goes on if the launcher lets the other processes live; otherwise it ends, and the lost node is named, too."""
    if not re.search(r"\(Open[^)]*\) 4", subprocess.run([busbar.mpirun, "--version"], capture_output=True, text=True).stdout):
        pytest.skip("the option is Open MPI 4's")
    path = tmp_path / "r.json"
    mpirun = ("--mca", "orte_enable_recovery", "1") if recovery else ()
    command = busbar.command("health", "--only", "gpu", "--soak", "2s", "--json", path, ranks=6, mpirun=mpirun)
    env = busbar.environment({**LOST, "EMU_NODES": "3", "EMU_FAULT": ""})
    job = subprocess.Popen([*map(str, command)], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        while job.poll() is None and not (path.exists() and '"stage": "soak"' in path.read_text()):
            time.sleep(0.05)
        children = pathlib.Path(f"/proc/{job.pid}/task/{job.pid}/children").read_text().split()
        node = [int(pid) for pid in children if re.search(rb"\0OMPI_COMM_WORLD_RANK=[23]\0", pathlib.Path(f"/proc/{pid}/environ").read_bytes())]
        for pid in node:  # at the same time: a process that ends 50 ms later is a second loss
            os.kill(pid, signal.SIGKILL)
        stdout, stderr = job.communicate(timeout=60)
    finally:
        job.kill()
    root = json.loads(path.read_text())
    assert [v["level"] for v in root["verdicts"]] == ["ok", "fail", "ok"] and sorted(root["lost_ranks"]) == [2, 3], stderr
    assert root["status"] == ("below threshold" if recovery else "timeout") and ("# continue: " in stdout) != recovery, stdout + stderr
    assert [(f["stage"], re.sub("rank [23]", "rank", f["reason"])) for f in root["findings"]] == [("soak", "rank and 1 more were lost in stage soak")]
    assert all(row["rounds"] >= 2 or row.get("before_loss") for row in root["soak"]) and bool(root["soak"]) == recovery


@pytest.mark.parametrize("lost", [False, True])
def test_slurm_gets_its_own_names_of_nodes(busbar, tmp_path, lost):
    """Of a node that is slow, or lost, whose ranks do not take part in the restarted run."""
    program = [busbar.build / "busbar-emulated", "health", "--quick", "--drain", "--only", "pairs", "--json", tmp_path / "r.json"]
    parts = [(":", "-n", 2, "env", f"SLURMD_NODENAME=rack7-gpu{node}", *program) for node in range(4)]
    env = {"EMU_FAULT": "die:rank=4,call=3,name=ncclCommSplit"} if lost else {"EMU_SLOW": "link=node2-nic0:0.5"}
    done = busbar.run_program(busbar.mpirun, *sum(parts, ())[1:], env={"EMU_DATA": "off", "EMU_CLUSTER": "h100-sxm-ib", "EMU_NODES": "4", **env})
    verdicts = json.loads((tmp_path / "r.json").read_text())["verdicts"]
    assert [(v["slurm_node"], v["host"][-6:], v["level"] == "fail") for v in verdicts] == [(f"rack7-gpu{n}", f"-node{n}", n == 2) for n in range(4)], done.stderr
    assert re.findall("(?m)^scontrol update nodename=(\\S+) ", done.stdout) == ["rack7-gpu2"], done.stdout + done.stderr


def test_restarted_ranks_have_the_same_records(busbar, tmp_path):
    """The names for Slurm, which all ranks find together, are lost in one rank (memory was short): the run ends, instead of waiting for it."""
    name, path = b"rack7-gpu", tmp_path / "r.json"
    program = [busbar.build / "busbar-emulated", "health", "--quick", "--only", "gpu", "--soak", "20s", "--timeout", "60", "--json", path]
    parts = [(":", "-n", "1", "env", f"SLURMD_NODENAME=rack7-gpu{node}", *map(str, program)) for node in range(3)]
    job = subprocess.Popen([busbar.mpirun, *sum(parts, ())[1:]], env=busbar.environment({**LOST, "EMU_NODES": "3", "EMU_FAULT": ""}),
                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        while job.poll() is None and not (path.exists() and '"stage": "soak"' in path.read_text()):
            time.sleep(0.05)
        supervisors = {}
        for pid in pathlib.Path(f"/proc/{job.pid}/task/{job.pid}/children").read_text().split():
            rank = re.search(rb"\0OMPI_COMM_WORLD_RANK=(\d)\0", pathlib.Path(f"/proc/{pid}/environ").read_bytes())
            if rank:
                supervisors[int(rank[1])] = pid
        journal, = (fd for fd in pathlib.Path(f"/proc/{supervisors[1]}/fd").iterdir() if "busbar-journal" in os.readlink(fd))
        records, at = journal.read_bytes(), 0
        while name not in records[at + 16 : at + 16 + int.from_bytes(records[at + 8 : at + 16], "little")]:
            at += 16 + int.from_bytes(records[at + 8 : at + 16], "little")
        with open(journal, "r+b") as file:
            file.seek(at)
            file.write((40).to_bytes(4, "little"))  # a kind that no record has
        child = pathlib.Path(f"/proc/{supervisors[2]}/task/{supervisors[2]}/children").read_text().split()[0]
        os.kill(int(child), signal.SIGKILL)
        stderr = job.communicate(timeout=30)[1]
    finally:
        job.kill()
    assert job.returncode == 1 and re.search(r"busbar: the records of rank 1 \(\S+\) are missing", stderr), stderr


@pytest.mark.parametrize("env,status,nodes", [({"EMU_FAULT": "", "EMU_SLOW": "link=node2-nic0:0.5"}, 5, ["2"]), ({}, 4, ["0"]), ({"EMU_FAULT": ""}, 0, [])])
def test_quiet_prints_only_the_lines_of_drain(busbar, env, status, nodes):
    """A prolog can execute what is printed; with --json - only the JSON is printed."""
    args = ("health", "--quick", "--quiet", "--drain")
    done = busbar.run(*args, ranks=8, env={**ROOT_LOST, **env})
    lines = [re.fullmatch(r'scontrol update nodename=\S+-node(\d) state=drain reason="busbar: .+"', line) for line in done.stdout.splitlines()]
    assert done.returncode == status and all(lines) and [line[1] for line in lines] == nodes, done.stdout + done.stderr
    done = busbar.run(*args[:-1], ranks=8, env={**ROOT_LOST, **env})
    assert done.returncode == status and done.stdout == ""
    assert json.loads(busbar.run(*args, "--json", "-", ranks=8, env={**ROOT_LOST, **env}).stdout)["verdicts"]


def test_lost_node_of_rank_0_fails_in_every_output(busbar, tmp_path):
    """The run ends; what the stages before measured is in the report and in the files, and all agree."""
    path, junit, metrics = tmp_path / "r.json", tmp_path / "r.xml", tmp_path / "r.prom"
    done = busbar.run("health", "--quick", "--drain", "--json", path, "--junit", junit, "--prometheus", metrics, ranks=8,
                      env={**ROOT_LOST, "EMU_SLOW": "rank=7:1.2"})
    root = json.loads(path.read_text())
    assert done.returncode == 4 and "rank 1" in done.stderr and "health all_reduce of GPU pairs" in done.stderr, done.stderr
    assert {row["stage"] for row in root["results"]} == {"gpu", "copies", "node", "pairs"} and root["status"] == "timeout"
    assert root["stage"] == "pairs" and root["lost_ranks"] == [1] and root["paths"] == {"tested": 2, "total": 6}
    assert [v["level"] for v in root["verdicts"]] == ["fail", "unknown", "unknown", "warn"]
    assert [(f["level"], f["stage"], f["node"]) for f in root["findings"]] == [("fail", "pairs", 0), ("warn", "gpu", 3)]
    assert {c["host"]: c["status"] for c in root["checks"] if c["host"]} == {v["host"]: v["level"] for v in root["verdicts"]}
    (failure,) = [case for case in ET.parse(junit).iter("testcase") if case.find("failure") is not None]
    assert failure.get("name").endswith("-node0") and "rank 1 was lost in stage pairs" in failure[0].get("message")
    assert re.findall(r'busbar_check_status\{.*host="([^"]+)"\} 2', metrics.read_text()) == [root["verdicts"][0]["host"]]
    lines = done.stdout.splitlines()
    assert any(line.startswith("# node   all_reduce in the node: median ") for line in lines) and len(lines) <= 25, done.stdout
    assert re.match("fail +pairs +[^ ]+-node0: rank 1 was lost in stage pairs$", lines[-7])
    assert re.match(r"warn +gpu +GPU 1 \(\S+\) of [^ ]+-node3: GEMM .* of the peers' median", lines[-6])
    assert re.match(r'scontrol update nodename=\S+-node0 state=drain reason="busbar: rank 1 was lost in stage pairs"$', lines[-5])
    assert lines[-4].startswith("# FAILED: 1 part; 4 nodes: 0 ok, 1 warn, 1 fail, 2 unknown; ")
    assert lines[-3:] == ["# stages partly measured: pairs", "# stages not measured: bisection, rails, whole", "# ENDED EARLY in stage pairs"]


@pytest.mark.parametrize("args, name, per_process", [*((("health", "--quick", "--only", "rails"), "health", n) for n in (0, 2, 22)),
                                                     (("bench", "p2p", "--nodes"), "bench p2p --nodes", 22)])
def test_unequal_nodes_get_a_start_that_works(busbar, args, name, per_process):
    """Emulated nodes of 8, 8 and 6 GPUs. The printed start has 6 on each, instead of 8, 8 and 2."""
    env, ranks, gpus = {"EMU_DATA": "off", "EMU_CLUSTER": "h100-sxm-ib"}, 22 // (per_process or 1), ["-g", per_process] if per_process else []
    done = busbar.run(*args, *gpus, ranks=0 if ranks == 1 else ranks, mpirun=None if ranks == 1 else (), env=env)
    (start,) = re.findall(f"^busbar: {name} requires the same number of ranks on every node, but \\S+-node0 has 8 and \\S+-node2 6; "
                          "try: (.+), or leave out \\S+-node2$", done.stderr, re.M)
    assert done.returncode == 2 and re.fullmatch(r"-g 18 and EMU_NODES=3|EMU_NODES=3 \S+ -n (18|9)", start), start
    ranks, gpus = (0, ["-g", 18]) if start.startswith("-g") else (int(start.split()[-1]), gpus)
    done = busbar.run(*args, *gpus, ranks=ranks, mpirun=None if ranks == 0 else (), env={**env, "EMU_NODES": re.search(r"EMU_NODES=(\d)", start)[1]})
    assert done.returncode == 0 and "# 18 ranks on 3 nodes" in done.stdout, done.stderr + done.stdout


def stand_in_for_ssh(tmp_path):
    """Environment in which Open MPI starts the daemons of all hosts on this one."""
    (tmp_path / "agent").write_text('#!/bin/sh\nshift\nexport OMPI_MCA_orte_tmpdir_base=$(mktemp -d)\nexec sh -c "$*"\n')
    (tmp_path / "agent").chmod(0o755)
    return {"OMPI_MCA_routed": "direct", "OMPI_MCA_plm_rsh_agent": str(tmp_path / "agent")}


def test_unequal_hosts_get_a_mapping_that_works(busbar, tmp_path):
    """Open MPI fills its first host: fewer ranks alone leave the hosts unequal."""
    if "(Open" not in subprocess.run([busbar.mpirun, "--version"], capture_output=True, text=True).stdout:
        pytest.skip("the list of hosts is tested with Open MPI")
    env, hosts = stand_in_for_ssh(tmp_path), ["--host", "one:2,two:2,three:1"]
    program = [busbar.build / "busbar-emulated", "health", "--quick", "--only", "rails"]
    done = busbar.run_program(busbar.mpirun, *hosts, "-n", 5, *program, env={**env, **LOST, "EMU_FAULT": "", "EMU_NODES": "3"})
    (start,) = re.findall("; try: (.+), or leave out", done.stderr)
    assert done.returncode == 2 and start.split()[1:] == ["-n", "3", "--map-by", "ppr:1:node"]
    done = busbar.run_program(busbar.mpirun, *hosts, *start.split()[1:], "--display-map", *program, env={**env, **LOST, "EMU_FAULT": "", "EMU_NODES": "3"})
    assert set(re.findall(r"Data for node: (\S+).*Num procs: (\d)", done.stdout)) == {("one", "1"), ("two", "1"), ("three", "1")}, done.stderr
    assert done.returncode == 0 and "# 3 ranks on 3 nodes" in done.stdout


@pytest.mark.parametrize("name, other", [("r.prom", "r.2.prom"), ("a.b/r", "a.b/r.2"), ("a.b/.prom", "a.b/.prom.2"), ("r.x.prom", "r.x.2.prom")])
def test_other_file_of_the_command_that_continues_keeps_its_ending(busbar, tmp_path, name, other):
    """The textfile collector of node_exporter reads *.prom, CI systems collect *.xml."""
    (tmp_path / "a.b").mkdir()
    done = busbar.run("health", "--quick", "--only", "pairs", "--prometheus", name, ranks=8, mpirun=(), env=ROOT_LOST, cwd=tmp_path)
    assert re.findall("^# continue: .* --prometheus (\\S+)", done.stdout, re.M) == [other], done.stdout


@pytest.mark.parametrize("options, printed", [((), ""), (("--bind-to", "none", "-x", "WORD=a b"), " --bind-to none -x 'WORD=a b'")])
def test_command_that_continues_without_the_lost_node(busbar, tmp_path, options, printed):
    """The line is executed as printed, with mpirun's own options; a stand-in for ssh starts Open MPI's daemons of the hosts here."""
    if "(Open" not in subprocess.run([busbar.mpirun, "--version"], capture_output=True, text=True).stdout:
        pytest.skip("the list of hosts is tested with Open MPI")
    (tmp_path / "busbar-emulated").symlink_to(busbar.build / "busbar-emulated")
    done = busbar.run("health", "--quick", "--json", tmp_path / "r.json", ranks=8, mpirun=options, env=ROOT_LOST)
    (line,) = re.findall("^# continue: (.*)$", done.stdout, re.M)
    assert re.fullmatch(r"\S+ -n 6 --host \S+-node1:2,\S+-node2:2,\S+-node3:2" + re.escape(printed) +
                        r" busbar-emulated health --quick --json \S+/r.2.json --from pairs", line)
    env = {**os.environ, **LOST, **stand_in_for_ssh(tmp_path), "EMU_FAULT": "", "EMU_NODES": "3", "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    rest = subprocess.run(["timeout", "90", "sh", "-c", line], env=env, capture_output=True, text=True)
    assert (tmp_path / "r.2.json").exists(), (line, rest)
    root = json.loads((tmp_path / "r.2.json").read_text())
    assert rest.returncode == 0 and root["status"] == "ok" and len(root["verdicts"]) == 3, rest.stderr
    assert {test["stage"] for test in root["tests"] if test["median"]} == {"pairs", "bisection", "rails", "whole"}


@pytest.mark.parametrize("options, printed", [(("-x", "HOME_OF=/opt/busbar"), " -x HOME_OF=/opt/busbar"), (("-x", "HF_TOKEN=hidden"), ""),
                                              (("-x", "SLURM_JWT=hidden"), ""), (("-x", "DB_PASS=hidden"), ""), (("-x", "NGC_KEY=hidden"), ""),
                                              (("-x", "NCCL_IB_PKEY=1"), " -x NCCL_IB_PKEY=1"), (("-wdir", "/"), " -wdir /"),
                                              (("-x", "COLOR=\x1b[31m"), "")])
def test_options_of_mpirun_that_name_busbar_or_are_not_printed(busbar, options, printed):
    """A value that looks like busbar's own name ended the options; secrets and escapes stay out of the output."""
    done = busbar.run("health", "--quick", ranks=8, mpirun=options, env=ROOT_LOST)
    (line,) = re.findall("^# continue: (.*)$", done.stdout, re.M)
    assert re.fullmatch(r"\S+ -n 6 -\S+ \S+" + re.escape(printed) + " busbar-emulated health --quick --from pairs", line)


def test_report_of_a_lost_node_without_files(busbar):
    """The same without --json, in the first stage, where the other nodes are unknown, and as a Nagios plugin."""
    text = busbar.run("health", "--quick", ranks=8, env=ROOT_LOST).stdout.splitlines()
    assert "fail" == text[-5].split()[0] and "0 ok, 0 warn, 1 fail, 3 unknown" in text[-4] and len(text) <= 25
    text = busbar.run("health", "--quick", ranks=8, env={**LOST, "EMU_FAULT": "die:rank=1,call=1,name=cublasLtMatmul"}).stdout
    assert "# stages not measured: gpu, copies, node, pairs, bisection, rails, whole\n" in text
    plugin = busbar.run("health", "--quick", "--nagios", ranks=8, env=ROOT_LOST)
    assert plugin.returncode == 2 and plugin.stdout.startswith("BUSBAR CRITICAL - rank 1 (") and "'checks failed'=1;" in plugin.stdout
    assert re.search(r"; [^ ]+-node0: rank 1 was lost in stage pairs \|", plugin.stdout)


def test_node_whose_call_fails_fails(busbar, tmp_path):
    """As a lost node does, in every output; the nodes without a measurement are unknown."""
    path, junit = tmp_path / "r.json", tmp_path / "r.xml"
    env = {**LOST, "EMU_FAULT": "fail:rank=5,call=3,name=cublasLtMatmul"}
    done = busbar.run("health", "--quick", "--drain", "--json", path, "--junit", junit, ranks=8, mpirun=(), env=env)
    root = json.loads(path.read_text())
    assert done.returncode == 5 and [v["level"] for v in root["verdicts"]] == ["unknown", "unknown", "fail", "unknown"], done.stderr
    assert {c["status"] for c in root["checks"]} == {"unknown", "fail"} and root["reason"].startswith("rank 5 (")
    assert re.search(r'(?m)^scontrol update nodename=\S+-node2 state=drain reason="busbar: rank 5 failed, GPU 1 \(\S+\): cublasLtMatmul: .+"$', done.stdout)
    assert re.search(r"(?m)^# continue: \S+ -n 6 ", done.stdout) and "<failure " in junit.read_text()
    plugin = busbar.run("health", "--quick", "--nagios", ranks=8, env=env)
    assert plugin.returncode == 2 and re.match(r"BUSBAR CRITICAL - .*; \S+-node2: rank 5 failed, GPU 1", plugin.stdout), plugin.stdout


def test_node_that_fails_before_the_first_test_fails_in_its_stage(busbar, tmp_path):
    """Memory is allocated after the inventory, which the command that continues does not repeat."""
    root, found, done = health(busbar, tmp_path, ranks=6, nodes=3, status=5, EMU_FAULT="fail:rank=3,call=2,name=cudaMalloc")
    assert {f["stage"] for f in root["findings"]} == {"gpu"} == {root["stage"]} and root["inventory"] and done.stdout.endswith("# ENDED EARLY in stage gpu\n")


@pytest.mark.parametrize("args,call,table", [
    (["rails"], 2, [" GPU 0         48.09         -", " GPU 1         48.09         -"]),
    (["p2p", "--nodes"], 3, ["#node       0       1       2       3", "    0       -    96.5    96.5       -"])])
def test_bench_keeps_the_table_of_a_lost_node(busbar, args, call, table):
    """The run goes on without it, but not without the node of rank 0."""
    for rank, node, status in ((1, 0, 4), (5, 2, 5)):
        done = busbar.run("bench", *args, ranks=8, env={**LOST, "EMU_FAULT": f"die:rank={rank},call={call},name=ncclCommSplit"})
        assert done.returncode == status, done.stderr
        assert status == 5 or set(table) < set(done.stdout.splitlines()), done.stdout
        assert re.search(f"^fail +[a-z]+ +[^ ]+-node{node}: rank {rank} was lost in stage ", done.stdout, re.M)
        assert ("; 4 nodes: 3 ok, 0 warn, 1 fail, 0 unknown; " in done.stdout) == (status == 5)


@pytest.mark.parametrize("call", ["cudaMalloc", "ncclCommInitRankConfig"])
def test_node_that_is_lost_before_the_first_test_fails(busbar, tmp_path, call):
    root, found, done = health(busbar, tmp_path, "--only", "pairs", "--drain", ranks=8, nodes=4, status=5,
                               EMU_FAULT=f"die:rank=6,call=1,name={call}")
    assert found == {("fail", "node", 3, None)} and [v["level"] for v in root["verdicts"]] == ["ok"] * 3 + ["fail"]
    assert re.search(r'(?m)^scontrol update nodename=\S+-node3 state=drain reason="busbar: rank 6 was lost in stage pairs"$', done.stdout)


def test_hang_after_a_loss_names_the_ranks_that_are_left(busbar, tmp_path):
    """Rank 2 dies; rank 7 hangs when the run goes on without the node of rank 2."""
    done = busbar.run("health", "--quick", "--only", "pairs", "--timeout", 5, "--drain", ranks=8, env={
        **LOST, "EMU_FAULT": "die:rank=2,call=3,name=ncclAllReduce;stall:rank=7,call=3,name=ncclAllReduce"})
    assert done.returncode == 4 and re.findall(r"(?m)^scontrol update nodename=\S+-(node\d) ", done.stdout) == ["node1", "node3"], done.stdout
    (line,) = [line for line in done.stderr.splitlines() if "timeout in" in line]
    assert "rank 7 (" in line and "-node1" not in line and " of 6 ranks " in line, line


def test_node_that_hangs_in_a_stage_fails(busbar, tmp_path):
    """Its partner, which waits for it alone, does not."""
    path = tmp_path / "r.json"
    done = busbar.run("health", "--quick", "--only", "pairs", "--timeout", 3, "--json", path, ranks=8,
                      env={**LOST, "EMU_FAULT": "stall:rank=5,call=9,name=ncclAllReduce"})
    root = json.loads(path.read_text())
    assert done.returncode == 4 and root["lost_ranks"] == [5], done.stderr
    assert [v["level"] for v in root["verdicts"]] == ["unknown", "unknown", "fail", "unknown"] and "-node2: rank 5 is hanging in stage pairs" in done.stdout


@pytest.mark.parametrize("nodes,link,failed,mpirun", [(4, "node0-node1", [0, 1], None), (4, "node2-node3", [2, 3], ()), (3, "node1-node2", [], None)])
def test_pair_that_hangs_fails_and_not_the_nodes_that_wait_for_it(busbar, tmp_path, nodes, link, failed, mpirun):
    """All ranks time out, those of other pairs in the next exchange, and so does a node without partner. If most ranks hang, which one blocks
    them is unknown."""
    done = busbar.run("health", "--only", "pairs", "--timeout", 2, "--drain", "--json", tmp_path / "r.json", ranks=nodes, mpirun=mpirun, env={
        "EMU_TIME": "real", "EMU_DATA": "off", "EMU_CLUSTER": "h100-sxm-ib", "EMU_NODES": str(nodes), "EMU_SLOW": f"link={link}:0.001"})
    root = json.loads((tmp_path / "r.json").read_text())
    assert done.returncode == 4 and root.get("lost_ranks", []) == failed, done.stderr
    assert [v["node"] for v in root["verdicts"] if v["level"] == "fail"] == failed and {v["level"] for v in root["verdicts"]} <= {"fail", "unknown"}
    assert re.findall(r"(?m)^scontrol update nodename=\S+-node(\d) ", done.stdout) == [str(node) for node in failed]
    assert (f"after 2 s: rank {failed[0]} (" if failed else "after 2 s: 2 of 3 ranks wait for all_reduce; rank 0 (") in done.stderr


def test_rail_that_hangs_drains_no_node(busbar, tmp_path):
    """It has a GPU of every node; which one blocks the others is unknown."""
    done = busbar.run("health", "--only", "rails", "--timeout", 2, "--drain", "--json", tmp_path / "r.json", ranks=8, env={
        "EMU_TIME": "real", "EMU_DATA": "off", "EMU_CLUSTER": "h100-sxm-ib", "EMU_NODES": "4", "EMU_SLOW": "link=node0-nic0:0.001"})
    root = json.loads((tmp_path / "r.json").read_text())
    assert done.returncode == 4 and "lost_ranks" not in root and {v["level"] for v in root["verdicts"]} == {"unknown"}, done.stderr
    assert "scontrol" not in done.stdout and re.search(r"rank 0 \(.*; 4 of 8 ranks wait for the start of a measurement\n", done.stderr)


@pytest.mark.parametrize("nodes,minutes", [(128, 5), (1024, 15)])
def test_planned_time(busbar, nodes, minutes):
    done = busbar.run("health", "--plan", "--ranks", 8 * nodes, "--expect", "h100-sxm-ib", emulated=False)
    assert done.returncode == 0 and float(re.search(r"# estimated time: (\d+) s", done.stdout)[1]) <= 60 * minutes


@pytest.mark.parametrize("option", ["json", "csv", "junit", "prometheus", "save-baseline", "nagios"])
def test_plan_writes_no_file(busbar, tmp_path, option):
    """It would be missing without a word."""
    file = () if option == "nagios" else (tmp_path / "x",)
    done = busbar.run("health", "--plan", "--ranks", 8, "--expect", "h100-sxm-ib", "--" + option, *file, emulated=False)
    assert done.returncode == (3 if option == "nagios" else 2) and f"--plan prints only a table; leave out --{option}" in done.stderr + done.stdout


def test_one_node(busbar, tmp_path):
    root, found, _ = health(busbar, tmp_path, ranks=2, nodes=1)
    assert found == set() and {test["stage"] for test in root["tests"]} == {"gpu", "copies", "node"}


def test_restricting_variables_are_named_beside_the_verdict(busbar, tmp_path):
    """Those that can lower the bandwidth; NCCL_IB_DISABLE=0 and NCCL_DEBUG cannot, nor can NCCL_MAX_P2P_NCHANNELS on emulated GPUs, which do not model it."""
    text = "restricted by $NCCL_PROTO=Simple, $NCCL_MAX_CTAS=32"
    env = {"NCCL_PROTO": "Simple", "NCCL_IB_DISABLE": "0", "NCCL_MAX_CTAS": "32", "NCCL_DEBUG": "WARN", "NCCL_MAX_P2P_NCHANNELS": "4"}
    root, _, done = health(busbar, tmp_path, "--only", "pairs", ranks=4, nodes=2, status=5, slow="link=node1-nic0:0.5", **env)
    assert root["restricted_by"] == text.removeprefix("restricted by ") and text in done.stdout and text in done.stderr
    root, _, done = health(busbar, tmp_path, "--only", "pairs", ranks=4, nodes=2, NCCL_P2P_DISABLE="0")
    assert root["restricted_by"] is None and "restricted" not in done.stdout
    for how, status, end in (("--drain", 5, '; restricted by \'NCCL_MAX_CTAS=1"\n'), ("--nagios", 2, "; restricted by $NCCL_MAX_CTAS=1 | ")):
        _, _, done = health(busbar, tmp_path, "--only", "node", how, ranks=2, nodes=1, status=status, NCCL_MAX_CTAS="1")
        assert end in done.stdout, done.stdout
    for option, restricted, text in (("--save-baseline", "8", "restricted by $NCCL_MAX_CTAS=8, so its values may be too low"), ("--expect", "8", None),
                                     ("--expect", "9", "measured with $NCCL_MAX_CTAS=8, which can lower the bandwidth, so it is a doubtful reference")):
        done = busbar.run("health", "--quick", "--only", "node", "--size", "64K", option, tmp_path / "base.json", ranks=2,
                          env={"EMU_DATA": "off", "NCCL_MAX_CTAS": restricted})
        assert text in done.stderr if text else "doubtful" not in done.stderr, done.stderr


def test_restricting_variables_are_named_by_gates_and_compare(busbar, tmp_path):
    env = {"EMU_DATA": "off", "NCCL_MAX_CTAS": "16"}
    for gate, status in ((["--min-busbw", "1"], 0), (["--min-busbw", "10000"], 5), (["--expect", "auto", "--min-of-expected", "200%"], 5)):
        done = busbar.run("bench", "all_reduce", "-b", "1M", "-e", "1M", *gate, "--json", tmp_path / "a.json", ranks=2, env=env)
        assert done.returncode == status and "# restricted by $NCCL_MAX_CTAS=16, which can lower" in done.stdout, done.stdout
        assert status == 0 or "restricted by $NCCL_MAX_CTAS=16" in done.stderr
    done = busbar.run("compare", tmp_path / "a.json", tmp_path / "a.json", emulated=False)
    lines = done.stdout.splitlines()
    assert lines[-2] == "# restricted: A by $NCCL_MAX_CTAS=16; B by $NCCL_MAX_CTAS=16" and "verdict" in lines[-1]


def test_earlier_result_is_the_expectation(busbar, tmp_path):
    good = tmp_path / "good.json"
    done = busbar.run("health", "--quick", "--save-baseline", good, ranks=4, env={"EMU_DATA": "off", "EMU_NODES": "2", "EMU_CLUSTER": "h100-sxm-ib"})
    assert done.returncode == 0 and "warning" not in done.stderr
    slow = ",".join(f"rank={rank}:1.3" for rank in range(4))
    root, found, done = health(busbar, tmp_path, "--expect", good, ranks=4, nodes=2, status=5, slow=slow)
    assert {(level, part) for level, part, _, _ in found} == {("fail", "all")} and root["expected_by"].startswith(str(good))
    assert root["findings"][0]["reason"].endswith(": a common cause, or a baseline of another machine")
    gemm = [t["median"] for t in json.loads(good.read_text())["tests"] if t["test"] == "GEMM"]
    assert [t["expected"] for t in root["tests"] if t["test"] == "GEMM"] == gemm
    root, _, done = health(busbar, tmp_path, "--expect", good, ranks=4, nodes=2, status=5, slow="rank=3:1.3")
    assert [t["expected"] for t in root["tests"] if t["stage"] in ("bisection", "rails", "whole")] == [None] * 4
    assert ("\n# failed nodes took no part in later stages, so their other parts are unknown; bisection, rails and whole on another "
            "number of nodes than in the baseline are not judged\n") in done.stdout
    done = busbar.run("health", "--quick", "--expect", tmp_path / "r.json", ranks=4, env={"EMU_DATA": "off", "EMU_NODES": "2"})
    assert "its status is 'below threshold', with " in done.stderr


def test_baseline_of_a_run_in_which_a_node_failed(busbar, tmp_path):
    """Later stages ran on two of three nodes, where the whole job is faster, so they are an expectation only for two nodes."""
    base, late, env = tmp_path / "base.json", ("bisection", "rails", "whole"), {"EMU_DATA": "off", "EMU_CLUSTER": "h100-sxm-ib"}
    done = busbar.run("health", "--quick", "--save-baseline", base, ranks=6, env={**env, "EMU_NODES": "3", "EMU_SLOW": "rank=3:1.3"})
    assert done.returncode == 5 and ("may be too low for --expect; --expect uses bisection, rails and whole only for runs on 2 nodes, "
                                     "because others failed") in done.stderr, done.stderr
    root, found, done = health(busbar, tmp_path, "--expect", base, ranks=6, nodes=3)
    assert found == set() and {t["expected"] for t in root["tests"] if t["stage"] in late} == {None}
    assert "\n# baseline: 2 nodes without failed ones, this run has 3; no expected values for bisection, rails and whole\n" in done.stdout
    medians = {t["test"]: t["median"] for t in json.loads(base.read_text())["tests"]}
    assert all(isinstance(t["expected"], float) for t in root["tests"] if t["stage"] not in late)
    for ranks, nodes, slow, status in ((4, 2, "", 0), (6, 3, "rank=5:1.3", 5)):  # two nodes; two of three
        root, found, done = health(busbar, tmp_path, "--expect", base, ranks=ranks, nodes=nodes, slow=slow, status=status)
        assert {t["test"]: t["expected"] for t in root["tests"] if t["stage"] in late} == {
            name: median for name, median in medians.items() if [t for t in root["tests"] if t["test"] == name and t["stage"] in late]}
        assert ("no expected values" in done.stdout) == (nodes == 3) and "another number of nodes" not in done.stdout


@pytest.mark.parametrize("other,advice", [(("--json", "-"), "--json FILE"), (("--csv", "-"), "--csv FILE"), (("--drain",), "one of them")])
def test_no_other_output_shares_stdout_with_the_line_of_a_plugin(busbar, other, advice):
    done = busbar.run("health", "--nagios", *other, ranks=2)
    assert done.stdout == f"BUSBAR UNKNOWN - {' '.join(other)} and --nagios both write to stdout; try: {advice}\n"


def test_unfit_baselines_are_refused(busbar, tmp_path):
    path = tmp_path / "r.json"
    health(busbar, tmp_path, "--only", "node", ranks=2, nodes=1)
    for args, ranks, text in ((("--quick",), 3, "has no value to compare with, of these tests"), ((), 2, ": collectives of 64 MiB, this run has 512 MiB; try: --size 64M\n"),
                              (("--json", tmp_path / "a", "--save-baseline", tmp_path / "b"), 2, "leave out --json"),
                              (("--save-baseline", path), 2, "names the same file")):
        done = busbar.run("health", "--expect", path, *args, ranks=ranks, env={"EMU_DATA": "off"})
        assert done.returncode == 2 and text in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr
    root = json.loads(path.read_text())
    tests = [{**test, "median": 0} for test in root["tests"]]
    for changed, text in (({"tests": None}, "ended before its verdicts"), ({"tests": tests}, "test 1 has the median 0, expected more than 0"),
                          ({"nodes": 2 ** 31, "ranks": 2 ** 32 + 2}, "GPUs per node")):
        path.write_text(json.dumps({**root, **changed}))
        done = busbar.run("health", "--quick", "--expect", path, ranks=2, env={"EMU_DATA": "off"})
        assert done.returncode == 2 and text in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr


@pytest.mark.parametrize("host", [None, 5, "\x1b[31mold"])
def test_baseline_with_invalid_hosts(busbar, tmp_path, host):
    """Neither ends the run nor reaches the terminal."""
    path = tmp_path / "good.json"
    busbar.run("health", "--quick", "--only", "inventory", "--save-baseline", path, ranks=2, env={"EMU_DATA": "off", "EMU_NODES": "2"})
    root = json.loads(path.read_text())
    root["verdicts"][1]["host"] = host
    path.write_text(json.dumps(root))
    root, _, done = health(busbar, tmp_path, "--only", "inventory", "--expect", path, ranks=2, nodes=2)
    assert len(root["missing_hosts"]) == (host is not None and host != 5) and "\x1b" not in done.stdout + done.stderr + str(root)


def test_compare_names_what_became_worse(busbar, tmp_path):
    files = []
    for name, slow in (("a", ""), ("b", "link=node1-nic0:0.5")):
        (tmp_path / name).mkdir()
        health(busbar, tmp_path / name, ranks=8, nodes=4, status=5 if slow else 0, slow=slow)
        files.append(tmp_path / name / "r.json")
    compare = busbar.run("compare", *files, "--threshold", 5, "--json", tmp_path / "c.json", emulated=False)
    root = json.loads((tmp_path / "c.json").read_text())
    slower = {row["collective"] for row in root["results"] if row["verdict"] == "slower"}
    hosts = [verdict["host"] for verdict in json.loads(files[0].read_text())["verdicts"]]
    for row in root["results"]:  # rates, not times
        is_gemm = row["collective"].startswith("GEMM")
        assert all(s["p50_us"] is None and (s["tflops"] is not None) == is_gemm == (s["busbw_gbps"] is None) for s in (row["a"], row["b"]))
        assert row["ratio"] == pytest.approx(row["a"]["tflops" if is_gemm else "busbw_gbps"] / row["b"]["tflops" if is_gemm else "busbw_gbps"])
    assert compare.returncode == 5 and len(compare.stdout.splitlines()) <= 25
    assert slower == {f"pairs {hosts[a]} GPU 0 (0000:01:00.0) > {hosts[b]}" for a in range(4) for b in range(4) if a != b and 1 in (a, b)}  # once each
    first = next(line for line in compare.stdout.splitlines() if line[0] != "#")
    assert re.search(r"^ +pairs \S+ GPU 0 \(0000:01:00.0\) > \S+ +46\.\d+ +23\.\d+ +1\.9\d+  slower by ratio$", first), first  # GB/s, the worst first
    assert re.search(r"rank 2 \(\S+-node1\) is in 6 of 6 slower rows", compare.stderr + compare.stdout)
    assert all("pairs" not in row["collective"] for row in root["only_a"] + root["only_b"]) and any(row["attempt"] == 3 for row in json.loads(files[1].read_text())["results"])
    same = busbar.run("compare", files[0], files[0], "--threshold", 5, emulated=False)
    assert same.returncode == 0 and "# verdict: not slower" in same.stdout
    for is_slow, n, end in ((lambda row: row["stage"] == "rails" and row["gpu"] == 1, 2, "slowest all_reduce, a rail alone, GPU 1: +25.0 % time)"),
                            (lambda row: row["stage"] == "whole", 1, "slowest whole: +25.0 % time)"),
                            (lambda row: row["stage"] == "node" and row["node"] == 2, 1, f"slowest node {hosts[2]}: +25.0 % time)"),
                            (lambda row: row["stage"] == "pairs" and row["gpu"] == 1 and 2 in (row["node"], row["partner"]), 6,
                             f" % time; rank 5 ({hosts[2]}) is in 6 of 6 slower rows)"),
                            (lambda row: row["stage"] == "whole" or row["stage"] == "pairs" and row["gpu"] == 1 and 2 in (row["node"], row["partner"]), 7,
                             f" % time; rank 5 ({hosts[2]}) is in 6 of 6 slower rows about nodes, 1 more is about rails or the job)")):
        slow = json.loads(files[0].read_text())
        slow["results"] = [{**row, "value": row["value"] * (0.8 if is_slow(row) else 1)} for row in slow["results"]]
        (tmp_path / "slow.json").write_text(json.dumps(slow))
        for more in ((), (files[0],)):  # the values of a group are equal: none of its nodes is the slowest
            last = busbar.run("compare", files[0], *more, tmp_path / "slow.json", emulated=False).stdout.splitlines()[-1]
            assert f"0 faster, {n} slower of 97 rows" in last and last.endswith(end), last
    reverse = busbar.run("compare", *reversed(files), emulated=False).stdout
    assert re.search(r"\n# A/B: (0\.\d+), .*\n(.*\n)*# verdict: .* slower of \d+ rows; mean A/B \1\)\n$", reverse), reverse
    other = tmp_path / "bench.json"
    busbar.run("bench", "all_reduce", "--sizes", "1K", "-n", 1, "--json", other, ranks=2)
    refused = busbar.run("compare", files[0], other, emulated=False)
    assert refused.returncode == 2 and "has results of health" in refused.stderr


def test_compare_leaves_out_tests_on_fewer_nodes(busbar, tmp_path):
    """Two of four nodes fail, so the all_reduce of all GPUs runs on two, where it is faster."""
    files, values = [], []
    for name, slow in (("a", ""), ("b", "rank=7:1.3,link=node2-nic1:0.5")):
        (tmp_path / name).mkdir()
        root, _, _ = health(busbar, tmp_path / name, "--prometheus", tmp_path / "m.prom", ranks=8, nodes=4, status=5 if slow else 0, slow=slow)
        text = (tmp_path / "m.prom").read_text()
        nodes = dict(re.findall(r'^busbar_check_nodes\{.*check="(.*)"\} (\d)$', text, re.M))
        assert nodes["GEMM"] == "4" and nodes["all_reduce of all GPUs"] == ("2" if slow else "4")
        values.append({row["node"]: row["value"] for row in root["results"] if row["stage"] == "whole"})
        files.append(tmp_path / name / "r.json")
    assert list(values[1]) == [0, 1] and values[1][0] > 1.1 * values[0][0]
    for pair, verdict, only_a in ((files, "slower (0 faster, ", True), (files[::-1], r"not slower \(\d+ faster, 0 slower", False)):
        done = busbar.run("compare", *pair, "--json", tmp_path / "c.json", emulated=False)
        root = json.loads((tmp_path / "c.json").read_text())
        counts = {"a": 4, "b": 2} if only_a else {"a": 2, "b": 4}
        assert root["not_compared"] == [{"test": name, "of": "nodes", **counts} for name in (
            "all_reduce across halves", "all_reduce, a rail alone", "all_reduce, rails at once", "all_reduce of all GPUs")]
        assert not [row for key in ("results", "only_a", "only_b") for row in root[key] if re.match("whole|bisection|.*rail", row["collective"])]
        assert re.search(r"^# not compared, because the number of nodes differs: all_reduce across halves \(A \d, B \d\);.* all_reduce of all GPUs \(", done.stdout, re.M)
        assert re.search("^# verdict: " + (re.escape(verdict) if only_a else verdict), done.stdout.splitlines()[-1]), done.stdout
        assert {c["status"] for c in root["checks"] if c["reason"].startswith("not compared: ")} == {"unknown"}


def test_compare_leaves_out_collectives_of_another_size(busbar, tmp_path):
    """Values of GPUs do not depend on --size; those of collectives do, so that they would be slower on the same nodes."""
    for name, args in (("a", ("--size", "512M")), ("b", ())):  # --quick: 64 MiB
        health(busbar, tmp_path, *args, ranks=4, nodes=2)
        (tmp_path / "r.json").rename(tmp_path / name)
    done = busbar.run("compare", "a", "b", "--json", "c.json", "--threshold", 3, emulated=False, cwd=tmp_path)
    root = json.loads((tmp_path / "c.json").read_text())
    assert done.returncode == 0 and {(e["of"], e["a"], e["b"]) for e in root["not_compared"]} == {("bytes", 512 << 20, 64 << 20)}
    assert {row["collective"].split()[0] for row in root["results"]} == {"GEMM", "memory", "copy"} and not root["only_a"] + root["only_b"]
    assert "\n# not compared, because the message size differs: all_reduce in the node (A 512 MiB, B 64 MiB); all_reduce of GPU pairs (" in done.stdout
    assert "not compared: bytes: A 512 MiB, B 64 MiB" in {check["reason"] for check in root["checks"]}


def test_last_of_several_files_is_compared_by_the_rule_of_two_files(busbar, tmp_path):
    """Three files of four nodes, and one of six: rails and the whole job are slower on more nodes."""
    names = [f"m{i}.json" for i in range(4)]
    for name, nodes in zip(names, (4, 4, 4, 6)):
        health(busbar, tmp_path, ranks=2 * nodes, nodes=nodes)
        (tmp_path / "r.json").rename(tmp_path / name)
    two = busbar.run("compare", names[0], names[3], "--json", "two.json", emulated=False, cwd=tmp_path)
    done = busbar.run("compare", *names, emulated=False, cwd=tmp_path)
    rows = len(json.loads((tmp_path / "two.json").read_text())["results"])
    assert "not compared, because the number of nodes differs" in two.stdout
    assert re.search(rf"^# m3.json: slower than all 3 files before it in 0 of {rows} rows \(", done.stdout, re.M), done.stdout


def test_compare_pairs_gpus_by_address_and_hosts_with_each_other(busbar, tmp_path):
    """GPU 1 is lost, so the slow GPU 3 has number 2. Files of one node each are compared even if the hosts differ."""
    def compare(*names):
        done = busbar.run("compare", *(tmp_path / name for name in names), "--json", tmp_path / "c.json", emulated=False)
        assert done.returncode == 0 and "no common row" not in done.stdout + done.stderr, done.stdout + done.stderr
        return json.loads((tmp_path / "c.json").read_text()), done.stdout, done.stdout.splitlines()[-1]

    def change(name, source, host=None, pci=True, slow=()):
        root = json.loads((tmp_path / source).read_text())
        for row in root["results"] + root["verdicts"] + root["devices"]:
            row["host"] = host or row["host"]
        root["results"] = [{**row, "pci": row["pci"] if pci else None, "value": row["value"] / (1.2 if row["gpu"] in slow else 1)} for row in root["results"]]
        (tmp_path / name).write_text(json.dumps(root))

    for name, ranks, slow, gpus in (("a", 4, "rank=3:1.06", "0,1,2,3"), ("b", 3, "rank=2:1.06", "0,2,3")):
        health(busbar, tmp_path, ranks=ranks, nodes=1, slow=slow, CUDA_VISIBLE_DEVICES=gpus)
        (tmp_path / "r.json").rename(tmp_path / name)
    change("c", "b", slow=[2])
    for files, address, host in (("ab", None, ""), ("ac", "0000:04:00.0", r" \S+")):
        root, text, last = compare(*files)
        rows = {row["collective"] for row in root["results"] if row["verdict"] != "no difference"}
        assert all(re.fullmatch(rf".*{host} GPU 3 \({address}\)", row) for row in rows) and bool(rows) == bool(address), rows
        assert {row["collective"][-20:] for row in root["only_a"]} == {"GPU 1 (0000:02:00.0)"} and not root["only_b"]
        assert root["not_compared"] == [{"test": "all_reduce in the node", "of": "GPUs per node", "a": 4, "b": 3}]
        assert "# GPUs are paired by PCI address; their numbers are those in A\n" in text
        assert "\n# not compared, because the number of GPUs per node differs: all_reduce in the node (A 4, B 3)\n" in text
    change("d", "b", pci=False)
    assert any(re.fullmatch(r"GEMM \S+ GPU 2", row["collective"]) and row["verdict"] == "slower" for row in compare("a", "d")[0]["results"])
    for name, host, slow in (("h1", "gpu01", ()), ("h2", "gpu02", ()), ("h3", "gpu03", (2,))):
        change(name, "a", host, slow=slow)
    _, text, last = compare("h1", "h3")
    assert "# different hosts: " in text and "# differs: host: A gpu01, B gpu03\n" in text and "GPU 2 (0000:03:00.0)" in last
    assert last.endswith("; A gpu01, B gpu03") and "rank 2 (gpu03) is in " in last, last
    _, text, last = compare("h1", "h2", "h3")
    assert "# different hosts: " in text and re.match(r"# worst verdict: slower \(\S+h3 of gpu03: 0 faster, [1-9]", last), last
    assert compare("h3", "h1", "h2")[2].endswith("h3 of gpu03, is slower than every other host")


def test_full_prints_the_matrix_of_pairs(busbar, tmp_path):
    root, _, done = health(busbar, tmp_path, "--full", "--only", "pairs", ranks=8, nodes=4, status=5, slow="link=node1-nic0:0.85")
    rows = re.findall(r"^# +(\d) ([+wF. ]{4})  (\S+)$", done.stdout, re.M)
    assert [(int(i), letters, host[-5:]) for i, letters, host in rows] == [
        (0, " w++", "node0"), (1, "w ww", "node1"), (2, "+w +", "node2"), (3, "+w+ ", "node3")]
    lowest = min(row["value"] for row in root["results"])
    assert f"{lowest:.4g} GB/s" in re.search(r"# slow pair: \S+node\d and \S+, (.+), \d+ %", done.stdout)[1]
    assert "slow pair" not in health(busbar, tmp_path, "--full", "--only", "pairs", ranks=8, nodes=4)[2].stdout


def test_many_faults_fit_in_25_lines(busbar, tmp_path):
    slow = ",".join(f"rank={rank}:1.3" for rank in range(1, 24, 2))
    root, found, done = health(busbar, tmp_path, ranks=24, nodes=12, status=5, slow=slow)
    assert len(done.stdout.splitlines()) <= 25 and len(root["findings"]) == 12 and "further findings: --full" in done.stdout
    assert re.search("(?m)^# 7 further findings: --full", done.stdout) and len(re.findall("(?m)^fail ", done.stdout)) == 5
    for only, slow, shown in (("gpu", slow, 12), ("gpu", ",".join(f"rank={rank}:1.3" for rank in range(1, 12, 2)), 6)):
        _, found, done = health(busbar, tmp_path, "--only", only, ranks=24, nodes=12, status=5, slow=slow)
        assert len(re.findall("(?m)^fail ", done.stdout)) == len(found) == shown and len(done.stdout.splitlines()) <= 25 and "further" not in done.stdout
    _, found, done = health(busbar, tmp_path, ranks=24, nodes=12, status=5, slow=slow)  # as many as the line about one more
    assert len(re.findall("(?m)^fail ", done.stdout)) == len(found) == 6 and len(done.stdout.splitlines()) <= 25


def test_rails_find_a_slow_nic_that_an_all_reduce_hides(busbar):
    """The collectives/README names this case."""
    env = {"EMU_DATA": "off", "EMU_CLUSTER": "h100-sxm-ib"}
    times = [[row["time_us"]["p50"] for row in json.loads(busbar.run("bench", "all_reduce", "-b", "1G", "-e", "1G", "-n", "2", "--json", "-", ranks=16,
                                                                     env={**env, "EMU_SLOW": slow}).stdout)["results"]]
             for slow in ("", "link=node1-nic3:0.85")]
    assert times[0] == pytest.approx(times[1], rel=1e-6) and len(times[0]) == 2
    done = busbar.run("bench", "rails", ranks=16, env={**env, "EMU_SLOW": "link=node1-nic3:0.85"})
    assert re.search("^(warn|fail) +rails +rail of GPU 3, or one NIC of it", done.stdout, re.M), done.stdout
