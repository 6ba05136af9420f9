"""One machine for `plan` and for the emulated GPUs: what plan predicts for a shipped profile is what a run on GPUs of that
profile takes, to the nanosecond that events have. The model itself is held by closed forms (tests/proxies/machine)."""
import json

import pytest

H100 = "h100-sxm-ib"
ENV = {"EMU_CLUSTER": H100, "EMU_DATA": "off"}


def key(row):
    return tuple(row[k] for k in ("collective", "count", "dtype", "op", "root", "placement"))


@pytest.mark.parametrize("ranks,words", [(8, ("all",)), (12, ("all_reduce", "all_gather", "alltoall", "broadcast", "sendrecv"))])
def test_collectives_take_what_is_predicted(busbar, tmp_path, ranks, words):
    """Over sizes at which NCCL takes one way after another, on one node and on two."""
    words = (*words, "-b", "1K", "-e", "1G", "-f", "32")
    run = busbar.json("bench", *words, "-n", 2, "--repeats", 1, "-w", 1, "-c", 0, "--show-choice", ranks=ranks, env=ENV, tmp_path=tmp_path)
    done = busbar.run("plan", *words, "--ranks", ranks, "--cluster", H100, "--json", "-", emulated=False)
    assert done.returncode == 0, done.stderr
    predicted = json.loads(done.stdout)["results"]
    assert [key(r) for r in predicted] == [key(r) for r in run["results"]]
    for a, b in zip(run["results"], predicted):
        assert a["time_us"]["p50"] == pytest.approx(b["time_us"]["p50"], abs=1.1e-3), key(a)
        if b["algorithm"]:
            assert (a["algorithm"], a["protocol"]) == (b["algorithm"], b["protocol"]), key(a)
    protocols = {r["protocol"] for r in run["results"] if r["collective"] == "all_reduce"}
    assert protocols > {"LL"}  # else the sizes are too few to say anything


STEPS = [("gpt2_large", 4, 2, 3, "--compute", "timed"), ("dlrm", "--compute", "gemm", "--dtype", "bfloat16"),
         ("data_parallel", "--model", "resnet50", "--compute", "gemm", "--dtype", "half")]


@pytest.mark.parametrize("words", STEPS, ids=lambda words: words[0])
def test_a_step_takes_what_is_predicted(busbar, tmp_path, words):
    """Kernels by their time, products by their shape, passes by the bandwidth that is reached, messages, collectives."""
    doc = busbar.json("proxy", *words, "-n", 2, "--warmup", 1, "--no-alone", "--cluster", H100, tmp_path=tmp_path, ranks=4, env=ENV)
    forecast = doc["forecast"]
    assert forecast["cluster"] == H100 and forecast["step"]["measured_us"] > 100
    for pair in (forecast["step"], forecast["traced_step"], *forecast["rows"]):
        assert pair["predicted_us"] == pytest.approx(pair["measured_us"], rel=1e-6, abs=2e-3)


def test_what_the_machine_takes_is_the_quickest_of_all_ways(busbar, tmp_path):
    run = busbar.json("bench", "all_reduce", "--sweep-algorithms", "--sizes", "1K,64M", "--placement", "out_of_place", ranks=4, env=ENV,
                      tmp_path=tmp_path)
    forced = {(r["algorithm"], r["protocol"]) for r in run["results"] if r["forced"]}
    assert ("NVLS", "SIMPLE") in forced and ("TREE", "LL128") in forced and ("NVLS_TREE", "SIMPLE") not in forced
    assert [c["nccl_choice"] for c in run["algorithms"]] == ["best", "best"]


# ---- several nodes, slow links, slow ranks: EMU_NODES, EMU_SLOW ---------------------------------------------------------

P2P = ("bench", "p2p", "--latency-sizes", "8", "--bandwidth-sizes", "16M", "-n", 2, "--repeats", 2)


def test_pairs_are_within_nodes_and_between_them(busbar, tmp_path):
    """Four ranks on two nodes, by emulated-default: 4 us and 200 GB/s, 10 us and 25 GB/s."""
    run = busbar.json(*P2P, ranks=4, env={"EMU_NODES": "2"}, tmp_path=tmp_path)
    assert run["nodes"] == 2 and not run["shared_gpu"]
    assert [d["host"].rpartition("-")[2] for d in run["devices"]] == ["node0", "node0", "node1", "node1"]
    assert len({d["uuid"] for d in run["devices"]}) == 4
    for row in run["results"]:
        near = (row["from"] < 2) == (row["to"] < 2)
        expected = (4 if near else 10) + row["bytes"] / (200e3 if near else 25e3)
        assert row["time_us"]["p50"] == pytest.approx(expected, abs=2e-3), row


def test_the_slow_link_comes_first(busbar, tmp_path):
    """NIC 1 of node 1 is that of the node's second rank, 3: every link between it and the other node has half of 25 GB/s."""
    run = busbar.json(*P2P, ranks=4, env={"EMU_NODES": "2", "EMU_SLOW": "link=node1-nic1:0.5"}, tmp_path=tmp_path)
    for row in run["results"]:
        slow = 3 in (row["from"], row["to"]) and {row["from"], row["to"]} != {2, 3}
        if row["figure"] == "bandwidth" and (row["from"] < 2) != (row["to"] < 2):
            each = row["bytes"] / (10 + row["bytes"] / (12.5e3 if slow else 25e3)) / 1e3
            assert row["gbps"] == pytest.approx((2 if row["direction"] == "both" else 1) * each, rel=1e-4)
    text = busbar.run(*P2P, ranks=4, env={"EMU_NODES": "2", "EMU_SLOW": "link=node1-nic1:0.5"}).stdout
    ranked = next(line for line in text.splitlines() if line.startswith("# slowest links, bandwidth one"))
    assert all("3" in pair.split()[0] for pair in ranked.split("): ")[1].split(", ")[:4]), ranked


def test_a_slow_link_holds_up_a_ring(busbar, tmp_path):
    """all_reduce on 4 ranks of 2 nodes: 2 x 2 steps of 10 us, 1.5 of the bytes at half of 25 GB/s."""
    run = busbar.json("bench", "all_reduce", "--sizes", "16M", "--placement", "in_place", "-n", 2, "--repeats", 1, "-c", 0, ranks=4,
                      env={"EMU_NODES": "2", "EMU_SLOW": "link=node0-nic0:0.5", "EMU_DATA": "off"}, tmp_path=tmp_path)
    assert run["results"][0]["time_us"]["p50"] == pytest.approx(40 + 1.5 * 2 ** 24 / 12.5e3, abs=2e-3)


def test_a_slow_rank_shows_in_the_step(busbar, tmp_path):
    """Its kernels last half as long again; the report is of the slowest rank, and that is it."""
    words = ("proxy", "data_parallel", "--model", "resnet50", "--compute", "timed", "-n", 2, "--warmup", 1, "--no-alone")
    own, slow = (busbar.json(*words, ranks=2, env={"EMU_DATA": "off", "EMU_SLOW": slow}, tmp_path=tmp_path) for slow in ("", "rank=1:1.5"))
    assert slow["breakdown"]["rank"] == 1
    assert slow["breakdown"]["compute_us"] == pytest.approx(1.5 * own["breakdown"]["compute_us"], rel=1e-3)
    assert slow["step_us"]["p50"] - own["step_us"]["p50"] == pytest.approx(0.5 * own["breakdown"]["compute_us"], rel=1e-3)


@pytest.mark.parametrize("variable,value,said", [
    ("EMU_SLOW", "rank=5", "'rank=5' is not valid, expected rank=R:TIMES or link=nodeN-nicM:PART"),
    ("EMU_SLOW", "rank=2:1.1", "there is no rank 2, expected 0 to 1"),
    ("EMU_SLOW", "link=node1-nic0:0.5", "there is no node 1, expected 0 to 0"),
    ("EMU_NODES", "two", "EMU_NODES=two: expected 0 to 1024"),
])
def test_words_that_are_none(busbar, variable, value, said):
    done = busbar.run("bench", "p2p", ranks=2, env={variable: value})
    assert done.returncode == 2 and said in done.stderr
