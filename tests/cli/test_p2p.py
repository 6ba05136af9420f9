"""`busbar bench p2p`: one row per pair, times equal the formulas of the cost model, slow links, wrong data, and rejected input."""
import json
import pathlib
import re

import pytest

LAT_US, GBPS = {"intra": 4, "inter": 10}, {"intra": 200, "inter": 25}  # the built-in cluster profile
PROFILE = {
    "name": "one-far", "description": "the last of 5 ranks is on a node of its own", "source": "chosen", "gpus_per_node": 4,
    "launch_us": 2, "nccl_launch_us": 3, "kernel_us": 2, "memory_gbps": 2000, "memory_bytes": 80e9,
    "tflops": {"float32": 100, "float16": 400, "bfloat16": 400, "float64": 50}, "sm_count": 100, "clock_khz": 1000000,
    "intra": {"latency_us": 4, "gbps": 200}, "inter": {"latency_us": 10, "gbps": 25}}


@pytest.fixture
def one_far(tmp_path):
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps(PROFILE))
    return {"EMU_CLUSTER": str(path), "EMU_NODES": "0"}


def message_us(kind, size):
    return LAT_US[kind] + size / GBPS[kind] / 1e3


def check_row(row, kind):
    expected = message_us(kind, row["bytes"])
    assert row["time_us"]["p50"] == pytest.approx(expected, rel=1e-3)
    if row["metric"] == "latency":
        assert row["latency_us"] == pytest.approx(expected, rel=1e-3) and row["gbps"] is None
    else:
        directions = 2 if row["direction"] == "both" else 1
        assert row["gbps"] == pytest.approx(directions * row["bytes"] / expected / 1e3, rel=1e-3)
    assert row["wrong"] == 0


def test_short_messages_are_not_timed_by_their_launches(busbar, tmp_path):
    """A message of 8 bytes takes 4 us, the host 30 us to issue it. Rank 1 issues no earlier than rank 0."""
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps(PROFILE | {"nccl_launch_us": 30}))
    for iterations in (20, 200):  # more messages than the launch queue holds
        rows = busbar.json("bench", "p2p", "--bandwidth-sizes", "8", "-n", iterations, "--repeats", 2, tmp_path=tmp_path, ranks=2,
                           env={"EMU_CLUSTER": str(path), "EMU_NODES": "0", "EMU_LAUNCH_QUEUE": "512"})["results"]
        assert [row["time_us"]["p50"] for row in rows] == pytest.approx([4] * 5, abs=0.001)


@pytest.mark.smoke
@pytest.mark.parametrize("ranks, rounds", [(4, 3), (3, 3)])
def test_measures_every_pair_in_rounds_of_disjoint_pairs(busbar, tmp_path, ranks, rounds):
    result = busbar.json("bench", "p2p", "--latency-sizes", "8,64", "--bandwidth-sizes", "64K", tmp_path=tmp_path, ranks=ranks)
    pairs = ranks * (ranks - 1) // 2
    assert result["schema"] == "busbar.bench/1" and result["emulated"] and result["rounds"] == rounds
    rows = result["results"]
    assert len(rows) == pairs * (2 * 2 + 2 + 1)  # 2 latency directions x 2 sizes, bandwidth each way, bandwidth both ways
    for row in rows:
        check_row(row, "intra")
    kinds = {(r["metric"], r["direction"], r["bytes"]) for r in rows}
    assert len(kinds) == 6
    for kind in kinds:
        links = [(r["from"], r["to"], r["round"]) for r in rows if (r["metric"], r["direction"], r["bytes"]) == kind]
        directed = kind[:2] == ("bandwidth", "one")
        assert len({(a, b) for a, b, _ in links}) == len(links) == pairs * (2 if directed else 1)
        for number in range(rounds):
            concurrent_pairs = {tuple(sorted((a, b))) for a, b, r in links if r == number}
            ranks_busy = [r for sorted_pair in concurrent_pairs for r in sorted_pair]
            assert len(ranks_busy) == len(set(ranks_busy)) == ranks - ranks % 2
    for matrix in result["matrices"]:
        for a in range(ranks):
            assert matrix["values"][a][a] is None
            assert all(matrix["values"][a][b] > 0 for b in range(ranks) if b != a)


def test_runs_without_options(busbar):
    done = busbar.run("bench", "p2p", "--full", ranks=2, env={"EMU_DATA": "off"})
    assert done.returncode == 0 and "# inside a node: min " in done.stdout, done.stderr
    assert "# one pair at a time\n" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("# one pair of ranks: there are no other links to compare it with; try: --min-gbps ")
    done = busbar.run("bench", "p2p", "--metrics", "latency", "--share-gpu", ranks=2, env={"EMU_DATA": "off", "EMU_DEVICES": "1"})
    assert done.returncode == 0 and done.stdout.splitlines()[-1] == "# not judged: ranks share a GPU"


def test_schedule_one_measures_one_pair_per_round(busbar, tmp_path):
    result = busbar.json("bench", "p2p", "--schedule", "one", "--metrics", "latency", "--direction", "one",
                         tmp_path=tmp_path, ranks=4)
    assert result["rounds"] == 6
    assert [(r["round"], r["from"], r["to"]) for r in result["results"]] == [
        (0, 0, 1), (1, 0, 2), (2, 0, 3), (3, 1, 2), (4, 1, 3), (5, 2, 3)]


def test_reports_slow_links(busbar, tmp_path, one_far):
    args = ("bench", "p2p", "--full", "--bandwidth-sizes", "1000000", "-n", 2, "--repeats", 2)
    text = busbar.run(*args, "--json", tmp_path / "r.json", ranks=5, env=one_far).stdout
    result = json.loads((tmp_path / "r.json").read_text())
    for row in result["results"]:
        check_row(row, "inter" if 4 in (row["from"], row["to"]) else "intra")
    slow = [s for s in result["slow_links"] if (s["metric"], s["direction"]) == ("bandwidth", "one")]
    pairs = [(s["from"], s["to"]) for s in slow if s["level"] == "pair"]
    assert sorted(pairs) == sorted([(r, 4) for r in range(4)] + [(4, r) for r in range(4)])
    assert [s["from"] for s in slow if s["level"] == "rank"] == [4]
    assert all(s["value"] == pytest.approx(1000 / message_us("inter", 1e6), rel=1e-3) for s in slow)
    assert all(s["median"] == pytest.approx(1000 / message_us("intra", 1e6), rel=1e-3) for s in slow)
    assert "slow: rank 0" in text and "slow: all links inside a node of rank 4" in text and "# 20 slow links (--slow 0.8) in 4 matrices (for bandwidth in one direction, a pair of ranks has two links); 1 rank whose links between nodes, or inside the node, are all slow\n" in text
    text = busbar.run(*args, "--slow", "0.1", "--metrics", "bandwidth", "-c", 0, ranks=5, env=one_far).stdout
    assert "# no slow link (--slow 0.1)" in text  # links at 0.2 x the median are above the threshold of 0.1


@pytest.mark.parametrize("fault, causes", [("", []), ("node1:0.5", [2, 3])])
def test_a_faster_minority_makes_no_other_link_slow(busbar, tmp_path, fault, causes):
    """The cluster model has nodes of 2 GPUs, but busbar sees one host: pairs with NVLink among GPUs with PCIe."""
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps({**PROFILE, "gpus_per_node": 2}))
    done = busbar.run("bench", "p2p", "--full", "--bandwidth-sizes", "1000000", "--metrics", "bandwidth", "--direction", "one", "--max-slow", 0,
                      "-c", 0, "-n", 2, "--repeats", 2, "--json", tmp_path / "r.json", ranks=8, env={"EMU_CLUSTER": str(path), "EMU_NODES": "0", "EMU_SLOW": fault})
    result = json.loads((tmp_path / "r.json").read_text())
    assert [(c["level"], c["from"], c["slow"], c["links"]) for c in result["causes"]] == [("rank", r, 12, 12) for r in causes]
    assert {s["from"] for s in result["slow_links"] if s["level"] == "rank"} <= set(causes)
    (bimodal,) = result["bimodal"]
    if not causes:
        fast, slow = (1000 / message_us(kind, 1e6) for kind in ("intra", "inter"))
        assert bimodal["links"] == [48, 8] and bimodal["medians"] == pytest.approx([slow, fast], rel=1e-3) and bimodal["same_node"]
        assert bimodal["compared_with"] == "slower" and "links are compared with the slower ones: less than half" in done.stdout
    assert done.returncode == (5 if causes else 0) and ("24 of 56 links inside a node are slow; --max-slow allows 0" in done.stderr) == bool(causes)


@pytest.mark.parametrize("nodes, slow, causes", [
    (4, "link=node2-nic0:0.5", [("rank", 4, 2)]),
    (4, "link=node2-nic0:0.5,link=node2-nic1:0.5", [("node", None, 2)]),
    (8, "link=node2-nic0:0.5,link=node5-nic0:0.6", [("rank", 2, 2), ("rank", 5, 5)]),
    (8, "node1:0.6,node2:0.6,node5:0.6,node6:0.6", [("rank", r, r) for r in (1, 2, 5, 6)]),  # half of the nodes
    (4, "link=node1-nic0:0.6,link=node3-nic1:0.4", [("rank", 2, 1), ("rank", 7, 3)]),  # node 1 has a fast NIC, too
    (4, "link=node1-node3:0.5", [("path", None, 1)]),
    (4, "link=node3-to-node1:0.5,link=node2-nic0:0.7", [("rank", 4, 2), ("one_way_path", None, 3)]),
    (4, "", [])])
def test_names_the_cause_of_slow_links_first_and_last(busbar, tmp_path, nodes, slow, causes):
    """NIC 0 of node 2 belongs to the first rank of the node."""
    path = tmp_path / "r.json"
    done = busbar.run("bench", "p2p", "--full", "--metrics", "bandwidth", "--direction", "one", "-n", 2, "--repeats", 2, "--max-slow", 0,
                      "--json", path, ranks=8, env={"EMU_NODES": str(nodes), "EMU_CLUSTER": "h100-sxm-ib", "EMU_DATA": "off", "EMU_SLOW": slow})
    run = json.loads(path.read_text())
    assert [(c["level"], c["from"], c["node"]) for c in run["causes"]] == causes and all(c["slow"] == c["links"] for c in run["causes"])
    lines = [line for line in done.stdout.splitlines() if line.startswith("# cause: ")]
    assert len(lines) == 2 * len(causes) and done.returncode == (5 if causes else 0)
    if causes:
        first = run["causes"][0]
        name = (f"path between {first['host']} and {first['host'][:-1]}{first['other_node']}: " if first["level"] == "path" else
                f"rank {first['from']} ({first['host']}, GPU {first['from'] % (8 // nodes)}, {first['pci']}) or its NIC: " if first["level"] == "rank" else
                f"node {first['node']} ({first['host']}): ")
        assert lines[0].startswith(f"# cause: {name}") and done.stdout.splitlines()[-1] == lines[-1] == lines[len(causes) - 1]
        assert done.stdout.index(lines[0]) < done.stdout.index("# bandwidth, one direction")
        assert f"busbar: {name}" in done.stderr and run["reason"].startswith(name)


def test_finds_a_slow_path_of_gpus_that_share_a_nic(busbar, tmp_path):
    """Two GPUs share a NIC: in a round of concurrent pairs each has half of it, as over the slow path alone."""
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps(json.loads((pathlib.Path(__file__).resolve().parents[2] / "profiles/clusters/a100-pcie-ib.json").read_text()) | {"gpus_per_node": 2, "nics_per_node": 1}))
    args = ("bench", "p2p", "--metrics", "bandwidth", "--direction", "one", "-n", 2, "--repeats", 2)
    env = {"EMU_NODES": "4", "EMU_CLUSTER": str(path), "EMU_DATA": "off", "EMU_SLOW": "link=node1-node3:0.5"}
    for schedule in "rounds", "one":
        done = busbar.run(*args, "--schedule", schedule, ranks=8, env=env)
        assert re.search(r"^# cause: path between \S+node1 and \S+node3: ", done.stdout, re.M), done.stdout


@pytest.mark.parametrize("slow, ranks, value", [("link=leaf1:0.3", range(6, 12), 28.7), ("link=node4-nic0:0.5", [8], 24), ("", [], None)])
def test_judges_links_that_share_uplinks_by_those_alone(busbar, tmp_path, slow, ranks, value):
    """9 nodes of 2 GPUs at 3 leaf switches with 6 x 50 / 3 = 100 GB/s to the spine, with leaf1 at 0.3 of that. In a round most links have a
    third of their rate. A link to another leaf of the ranks 6 to 11 is slow, or any link of rank 8."""
    cluster, path = tmp_path / "c.json", tmp_path / "r.json"
    cluster.write_text(json.dumps({"base": "h100-sxm-ib", "name": "c", "gpus_per_node": 2, "nics_per_node": 2,
                                   "fabric": {"nodes_per_leaf": 3, "leaf_oversubscription": 3, "rails": False}}))
    done = busbar.run("bench", "p2p", "--metrics", "bandwidth", "--direction", "one", "-n", 1, "--repeats", 1, "--max-slow", 0, "--json", path, ranks=18,
                      env={"EMU_NODES": "9", "EMU_CLUSTER": str(cluster), "EMU_DATA": "off", "EMU_SLOW": slow})
    assert done.returncode == (5 if slow else 0) and "not judged" not in done.stdout, done.stdout + done.stderr
    def is_slow(a, b):
        return a // 2 != b // 2 and (a in ranks or b in ranks) and (len(ranks) == 1 or a // 6 != b // 6)
    pairs = {(s["from"], s["to"]): s["value"] for s in json.loads(path.read_text())["slow_links"] if s["level"] == "pair"}
    assert set(pairs) == {(a, b) for a in range(18) for b in range(18) if is_slow(a, b)}
    assert all(v == pytest.approx(value, rel=0.02) for v in pairs.values())


def test_max_slow_fails_if_links_are_not_judged(busbar, tmp_path):
    """24 nodes with a NIC each, two at a leaf switch with uplinks for one: of each rank, 44 of 46 links share uplinks."""
    cluster, path = tmp_path / "c.json", tmp_path / "r.json"
    cluster.write_text(json.dumps({"base": "h100-sxm-ib", "name": "c", "gpus_per_node": 1, "nics_per_node": 1,
                                   "fabric": {"nodes_per_leaf": 2, "leaf_oversubscription": 2, "rails": False}}))
    args = ("bench", "p2p", "--metrics", "bandwidth", "--direction", "one", "-n", 1, "--repeats", 1, "--json", path)
    env = {"EMU_NODES": "24", "EMU_CLUSTER": str(cluster), "EMU_DATA": "off"}
    done = busbar.run(*args, "--max-slow", 0, ranks=24, env=env)
    assert done.returncode == 5, done.stdout
    left = int(re.search(r"--max-slow cannot be checked: (\d+) links not judged, which share NICs or uplinks with other pairs; try: --schedule one", done.stderr)[1])
    run = json.loads(path.read_text())
    assert left == sum(v is None for row in run["matrices"][0]["values"] for v in row) - 24 and 0 < left < 24 * 23
    assert f": {left} links not judged, " in done.stdout and run["checks"][0]["status"] == "fail"


def test_min_gbps_fails_if_all_links_are_equally_slow(busbar, tmp_path):
    path = tmp_path / "r.json"
    args = ("bench", "p2p", "--metrics", "bandwidth", "--direction", "one", "-n", 2, "--repeats", 2, "--json", path)
    env = {"EMU_NODES": "2", "EMU_CLUSTER": "h100-sxm-ib", "EMU_DATA": "off"}
    done = busbar.run(*args, "--min-gbps", 45, ranks=4, env=env)
    assert done.returncode == 0 and json.loads(path.read_text())["options"]["min_gbps"] == 45
    done = busbar.run(*args, "--min-gbps", 45, ranks=4, env={**env, "EMU_SLOW": "node1:0.6"})
    assert done.returncode == 5 and "all 8 links between nodes are slow: 28.7" in done.stderr
    assert "8 of 8 links between nodes are below 45 GB/s (--min-gbps)" in done.stderr
    (cause,) = json.loads(path.read_text())["causes"]
    assert (cause["level"], cause["from"], cause["node"], cause["host"], cause["slow"]) == ("class", None, None, None, 8)
    done = busbar.run(*args, "--min-gbps", 500, ranks=4, env=env)  # within nodes, too: two causes
    assert re.findall(r"^# cause: all (\d) links (\S+)", done.stdout, re.M) == [("4", "inside"), ("8", "between")]
    assert re.search(r"^# 12 slow links \(--slow 0.8, --min-gbps 500\); 4 ranks.* whose links between nodes, or inside the node, are all slow$", done.stdout, re.M)


def test_min_gbps_applies_to_each_direction(busbar):
    """At half rate the sum of both directions is about 48 GB/s."""
    env = {"EMU_NODES": "2", "EMU_CLUSTER": "h100-sxm-ib", "EMU_DATA": "off"}
    args = ("bench", "p2p", "--metrics", "bandwidth", "--direction", "both", "-n", 2, "--repeats", 2, "--min-gbps", 45)
    assert busbar.run(*args, ranks=2, env=env).returncode == 0
    done = busbar.run(*args, ranks=2, env={**env, "EMU_SLOW": "node1:0.5"})
    assert done.returncode == 5 and "1 of 1 links between nodes are below 90 GB/s (both directions: 2 x --min-gbps)" in done.stderr
    assert re.search(r": the link between nodes is slow: 4\d\.\d\d GB/s; ", done.stderr) and "nan" not in done.stdout + done.stderr  # no others


@pytest.mark.parametrize("fault, causes", [("", []), ("link=node1-nic0:0.5", [4, 5])])
def test_pairs_that_share_a_nic_are_measured_again_alone(busbar, tmp_path, fault, causes):
    """Two GPUs share each NIC, so in some rounds links between the nodes have half of their rate. NIC 0 belongs to the first two GPUs of
    its node. The rows keep the rate of the round."""
    done = busbar.run("bench", "p2p", "--metrics", "bandwidth", "--direction", "one", "--max-slow", 0, "--json", tmp_path / "r.json", ranks=8,
                      env={"EMU_CLUSTER": "l40s-pcie-ib", "EMU_NODES": "2", "EMU_DATA": "off", "EMU_SLOW": fault})
    assert done.returncode == (5 if causes else 0), done.stderr
    result = json.loads((tmp_path / "r.json").read_text())
    assert [(c["level"], c["from"]) for c in result["causes"]] == [("rank", r) for r in causes]
    assert re.search(r"\d of \d+ slow links are not slow alone.*; normal if GPUs share a NIC or the fabric is oversubscribed, else suspect its uplinks\n", done.stdout)
    values, far = result["matrices"][0]["values"], [(a, b) for a in range(4) for b in range(4, 8)]
    assert [pair for pair in far if values[pair[0]][pair[1]] < 20] == [pair for pair in far if pair[1] in causes]
    assert min(row["gbps"] for row in result["results"] if (row["from"], row["to"]) in far and row["to"] not in causes) < 13


def test_a_limit_of_bandwidth_is_refused_with_latency_alone(busbar):
    """The limit was accepted, and a NIC at half of its rate passed it."""
    args = ("bench", "p2p", "--metrics", "latency", "-n", 2, "--repeats", 2)
    env = {"EMU_NODES": "2", "EMU_CLUSTER": "h200-sxm-ib", "EMU_DATA": "off", "EMU_SLOW": "link=node1-nic0:0.5"}
    done = busbar.run(*args, "--min-gbps", 45, ranks=4, env=env)
    assert done.returncode == 2 and "--min-gbps 45 is a limit of the bandwidth" in done.stderr
    assert "; try: --metrics all and --min-gbps with " in busbar.run(*args, ranks=4, env=env).stdout
    assert busbar.run(*args, "--metrics", "all", "--min-gbps", 45, ranks=4, env=env).returncode == 5


@pytest.mark.parametrize("nodes, args, hint", [(2, (), "one of the two nodes is"), (2, ("--min-gbps", 20), None),
                                               (4, (), "all nodes but one are")])
def test_slow_nodes_may_need_an_absolute_limit(busbar, nodes, args, hint):
    done = busbar.run("bench", "p2p", "--metrics", "bandwidth", "--direction", "one", "-n", 2, "--repeats", 2, "--max-slow", 0, *args, ranks=4,
                      env={"EMU_NODES": str(nodes), "EMU_CLUSTER": "h100-sxm-ib", "EMU_DATA": "off", "EMU_SLOW": "" if args else ",".join(f"node{n}:0.5" for n in range(1, nodes))})
    last = done.stdout.splitlines()[-1]
    assert done.returncode == 0 and ("links are compared with each other" in last) == ("try: --min-gbps" in last) == bool(hint) and (hint or "") in last


def test_two_faults_count_each_link_once(busbar, tmp_path):
    """Ranks 6 and 7 are on node 3: 2 x 6 links, each way. Rank 2 has 4 further links, each way; 16 links are healthy."""
    path = tmp_path / "r.json"
    done = busbar.run("bench", "p2p", "--full", "--metrics", "bandwidth", "--direction", "one", "-n", 2, "--repeats", 2, "--max-slow", 0, "--json", path, "--csv",
                      tmp_path / "r.csv", ranks=8, env={"EMU_NODES": "4", "EMU_CLUSTER": "h100-sxm-ib", "EMU_DATA": "off",
                                                        "EMU_SLOW": "link=node1-nic0:0.7,node3:0.4"})
    run = json.loads(path.read_text())
    assert [(c["level"], c["node"], c["slow"], c["links"], c["explained"]) for c in run["causes"]] == [
        ("node", 3, 24, 24, 24), ("rank", 1, 12, 12, 8)]
    values = sorted(r["gbps"] for r in run["results"])[::-1][8:]  # without the intra-node links
    assert [c["value"] for c in run["causes"]] == pytest.approx([values[-1], values[16]]) and values[16] > 1.5 * values[-1]
    assert "32 of 48 links between nodes are slow" in done.stderr and " 12 of its 12 links between nodes (one per direction) are slow, 8 of them without a cause named above: " in done.stdout
    assert f": 32 links at {values[-1]:.2f} to {values[16]:.2f}, 16 links at {values[0]:.2f} GB/s; links are compared" in done.stdout
    assert len(re.findall("# slow: rank ", done.stdout)) == 8
    hosts = [device["host"] for device in run["devices"]]
    assert all((r["from_host"], r["to_host"]) == (hosts[r["from"]], hosts[r["to"]]) for r in run["results"]) and len(set(hosts)) == 4
    assert ",from_host,to_host," in (tmp_path / "r.csv").read_text()


def test_lists_the_slowest_links_in_order(busbar, tmp_path, one_far):
    args = ("bench", "p2p", "--full", "--bandwidth-sizes", "1000000", "--metrics", "bandwidth", "--direction", "one")
    done = busbar.run(*args, "-c", 0, "--max-slow", "0", "--json", tmp_path / "r.json", ranks=5, env=one_far)
    result = json.loads((tmp_path / "r.json").read_text())
    assert [(s["from"], s["to"]) for s in result["slowest_links"]] == [(0, 4), (1, 4), (2, 4), (3, 4), (4, 0)]
    assert done.returncode == 5 and "8 of 20 links inside a node are slow" in done.stderr
    assert "# slowest links, bandwidth, one direction, 976.6 KiB (GB/s): 0>4 " in done.stdout


def test_table_is_a_matrix(busbar):
    done = busbar.run("bench", "p2p", "--full", "--bandwidth-sizes", "2000000", "--metrics", "bandwidth", "--direction",
                      "both", "-c", 0, ranks=3)
    assert done.returncode == 0 and done.stderr == ""
    rows = [line.split() for line in done.stdout.splitlines() if not line.startswith("#")]
    both = f"{2 * 2000 / message_us('intra', 2000000):.2f}"
    assert rows == [["0", "-", both, both], ["1", both, "-", both], ["2", both, both, "-"]]
    assert "none is a measurement of hardware" in done.stdout


# One byte of a message that rank 1 receives is corrupt. Rank 1 receives a warm-up message, a synchronizing message and two timed messages.
# Only the last timed message is verified.
@pytest.mark.parametrize("call, wrong", [(4, False), (5, True)])
@pytest.mark.parametrize("size", ["1000", "1001"])
def test_corrupt_byte_of_the_last_timed_message_is_detected(busbar, tmp_path, call, wrong, size):
    path = tmp_path / "r.json"
    done = busbar.run("bench", "p2p", "--bandwidth-sizes", size, "--metrics", "bandwidth", "--direction", "one", "-n", "2",
                      "--repeats", "1", "-w", "1", "--json", path, ranks=2,
                      env={"EMU_FAULT": f"corrupt:rank=1,call={call},name=ncclRecv"})
    assert done.returncode == (3 if wrong else 0)
    result = json.loads(path.read_text())
    assert result["status"] == ("wrong data" if wrong else "ok")
    assert [(r["from"], r["wrong"]) for r in result["results"]] == [(0, int(wrong)), (1, 0)]
    assert bool(re.search(r"from rank 0 \(\S+\) to rank 1 \(", done.stderr)) == wrong
    assert bool(re.fullmatch(r"# WRONG DATA: 1 result, first from rank 0 \(\S+\) to rank 1 \(\S+\)", done.stdout.splitlines()[-1])) == wrong


def test_wrong_data_of_a_link_that_is_measured_again_is_reported(busbar):
    """Rank 0 receives five messages in each of three rounds: two in each of two ping-pongs, and one that is timed. Of the links
    that show the load of the class, 0 to 1 and 0 to 2 have two messages to rank 0, and 2 to 0 has three. The links with rank 1 are slow:
    then 0 to 1 has two again, and message 27 is the last one from rank 1 alone."""
    done = busbar.run("bench", "p2p", "--metrics", "bandwidth", "--direction", "one", "--bandwidth-sizes", "1M", "-w", 0, "-n", 1,
                      "--repeats", 1, ranks=4, env={"EMU_NODES": "4", "EMU_CLUSTER": "h100-sxm-ib", "EMU_SLOW": "link=node1-nic0:0.3",
                                                    "EMU_FAULT": "corrupt:rank=0,call=27,name=ncclRecv"})
    assert done.returncode == 3 and re.search(r"wrong data: 1 element of 1 MiB from rank 1 \(\S+\) to rank 0 ", done.stderr), done.stderr


def test_wrong_is_null_without_verification(busbar, tmp_path):
    for args, env in ((("-c", "0"), {}), ((), {"EMU_DATA": "off"})):
        result = busbar.json("bench", "p2p", "--bandwidth-sizes", "64K", *args, tmp_path=tmp_path, ranks=2, env=env)
        assert {row["wrong"] for row in result["results"]} == {None}


def test_stalled_rank_times_out(busbar):
    """Ranks 0 and 3 are the other pair. The line names the rank that does not return first, then the other end of the pair."""
    done = busbar.run("bench", "p2p", "--timeout", "2", ranks=4, env={"EMU_FAULT": "stall:rank=1,call=3,name=ncclSend"})
    assert done.returncode == 4
    assert re.search(r" after 2 s: rank 1 \(\S+\) did not return from messages with rank (\d); rank \1 \(\S+\) waits for messages with "
                     r"rank 1; 2 of 4 ranks wait for an exchange \(allgather\)\n$", done.stderr), done.stderr


def test_failed_call_ends_the_run(busbar):
    done = busbar.run("bench", "p2p", ranks=2, env={"EMU_FAULT": "fail:rank=0,call=2,name=ncclSend"})
    assert done.returncode == 1 and "ncclSend" in done.stderr


def test_help_needs_no_gpu(busbar):
    done = busbar.run("bench", "p2p", "--help", emulated=False)
    assert done.returncode == 0 and "--schedule" in done.stdout
