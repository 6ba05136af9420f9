"""busbar bench copy: rates follow the emulated links, planted slow links are named, GPUs that cannot access each other are counted."""
import json
import re

import pytest

from conftest import ROOT

BYTES, KERNEL_US, PCIE, NVLINK, SMS = 64 << 20, 2, 52, 385, 330  # of h100-sxm-ib: pcie_gbps, peer_gbps, intra.gbps
PUBLISHED = {"a100-sxm-ib": (274.89, 276.76), "h100-sxm-ib": (371, 397.5), "h800-sxm-ib": (171.9, 176.2), "b300-sxm-ib": (764, 774.6),
             "gb200-nvl72": (770, 770), "gb300-nvl72": (768.6, 775.9), "gh200-quad-ib": (127, 133.3)}  # lowest and highest copy by copy engine of nvbandwidth


def copy(busbar, tmp_path, *args, ranks=4, status=0, **env):
    done = busbar.run("bench", "copy", "-n", "2", "--repeats", "2", *args, "--json", tmp_path / "r.json", ranks=ranks,
                      env={"EMU_DATA": "off", "EMU_CLUSTER": "h100-sxm-ib", **env})
    assert done.returncode == status, done.stdout + done.stderr
    root = json.loads((tmp_path / "r.json").read_text())
    return root, {(f["rank"], f["peer"]) for f in root["slow_copies"]}, done


def gbps(link, extra_us):
    return BYTES / (BYTES / link / 1e3 + extra_us) / 1e3


def test_one_gpu_is_not_judged(busbar, tmp_path):
    _, slow, done = copy(busbar, tmp_path, ranks=1, EMU_SLOW="rank=0:3")
    assert slow == set() and done.stdout.splitlines()[-1].startswith("# one GPU: not judged, there is no other GPU to compare it with"), done.stdout
    for ranks, link, text in ((1, "pcie0", "with; host to GPU reaches 50 % of the expected 52 GB/s"), (2, "nvlink1", "2 GPUs; GPU to GPU, write reaches 50 % of the expected 385 GB/s")):
        _, slow, done = copy(busbar, tmp_path, ranks=ranks, EMU_SLOW_LINKS=f"{link}:0.5")  # all GPUs are equally slow
        assert slow == set() and done.stdout.endswith(f"{text}\n"), done.stdout


def test_rates_are_those_of_the_links(busbar, tmp_path):
    root, slow, done = copy(busbar, tmp_path)
    rows = root["results"]
    assert slow == set() and done.stdout.splitlines()[-1] == "# no slow GPU and no slow pair among 4 GPUs" and len(done.stdout.splitlines()) <= 25
    assert len(rows) == 9 * 4 + 5 * 12 and {(r["rank"], r["peer"]) for r in rows if r["link"] == "peer"} == {
        (a, b) for a in range(4) for b in range(4) if a != b}
    for row in rows:
        kernel = row["engine"] == "kernel"
        one = gbps(PCIE if row["link"] == "host" else SMS if kernel else NVLINK, 0 if kernel else KERNEL_US)
        assert row["gbps"] == pytest.approx(2 * one if row["link"] == "host" and row["direction"] == "both" else one, rel=1e-2), row  # the launch of the first copy counts
        judged = row["memory"] != "pageable" and not (row["link"] == "host" and row["concurrent"])
        assert (row["expected_gbps"] is not None) == judged and (not judged or row["gbps"] == pytest.approx(row["expected_gbps"], rel=0.03))


@pytest.mark.parametrize("cluster", PUBLISHED)
def test_copies_of_healthy_gpus_are_expected(cluster):
    """Health warns below 93 % of the expected rate and fails below 80 %, so that links at 0.67 of their rate fail on any of these machines."""
    low, high = PUBLISHED[cluster]
    expected = json.loads((ROOT / "profiles/clusters" / f"{cluster}.json").read_text())["peer_gbps"]
    assert low > 0.93 * expected and 0.67 * high < 0.8 * expected


def test_slow_links_are_named(busbar, tmp_path):
    root, slow, done = copy(busbar, tmp_path, "--max-slow", "1", "--full", status=5, EMU_SLOW_LINKS="pcie1:0.5,nvlink0-3:0.7")
    assert slow == {(1, None), (0, 3)}
    assert done.stdout.splitlines()[-1].startswith("# SLOW: 1 GPU, 1 pair; first: GPU 1 (0000:02:00.0) of ") and " 50 % of the typical 51.87" in done.stdout
    assert re.search(r"^ host to GPU +4 +25\.\d+ +51\.\d+ +51\.\d+ +52\.00 +49\.9$", done.stdout, re.M), done.stdout  # reached: by the slowest
    assert [percent[:2] for percent in re.findall(r"^ host to GPU +[0-3] +\d\S+ +\d\S+ +(\d\S+) +\w", done.stdout, re.M)] == ["99", "49", "99", "99"], done.stdout
    assert "# NCCL " not in done.stdout
    assert "slow GPUs and pairs: 2, --max-slow allows 1; first: GPU 1 (0000:02:00.0) of " in done.stderr
    check, = root["checks"]
    assert (check["status"], check["measured"], check["expected"]) == ("fail", 2, 1) and f"busbar: {check['reason']}\n" in done.stderr


def test_slow_gpu_of_a_node_is_no_slow_pair(busbar, tmp_path):
    root, slow, done = copy(busbar, tmp_path, "--max-slow", "1", ranks=8, EMU_NODES="2", EMU_SLOW_LINKS="nvlink6:0.5,pcie6:0.6")
    assert [f["copy"] for f in root["slow_copies"]] == ["host to GPU", "GPU to GPU, write"] and done.stdout.count("# slow: GPU 2 ") == 2  # one GPU, both links
    assert done.stdout.splitlines()[-1].startswith("# SLOW: 1 GPU, 0 pairs; first: GPU 2 ")
    assert slow == {(6, None)} and root["slow_copies"][0]["host"].endswith("-node1") and root["slow_copies"][0]["gpu"] == 2
    assert {r["peer"] // 4 == r["rank"] // 4 for r in root["results"] if r["link"] == "peer"} == {True}


def test_gpus_without_access_are_counted(busbar, tmp_path):
    root, slow, done = copy(busbar, tmp_path, "--size", "1M", ranks=2, EMU_DATA="on", EMU_FAULT="fail:name=cudaIpcOpenMemHandle")
    assert slow == set() and {r["link"] for r in root["results"]} == {"host"}
    assert "# 1 pair of GPUs without access to each other's memory" in done.stdout
    root, _, _ = copy(busbar, tmp_path, "--size", "1M", "--expect", "none", ranks=2, EMU_DATA="on")
    assert len(root["results"]) == 9 * 2 + 5 * 2 and root["expected_by"] is None


@pytest.mark.parametrize("call,name", [(1, "host to GPU"), (2, "GPU to host"), (4, "host, both directions, sum"), (5, "host to GPU, pageable"),
                                       (6, "GPU to host, pageable"), (9, "GPU to GPU, write"), (11, "GPU to GPU, while both write")])
def test_wrong_data_are_found(busbar, call, name):
    """Of a copy by copy engine. The test above moves data, too, and ends with 0."""
    env = {"EMU_CLUSTER": "h100-sxm-ib", "EMU_FAULT": f"corrupt:rank=1,call={call},name=cudaMemcpyAsync"}
    done = busbar.run("bench", "copy", "-n", 1, "-w", 0, "--repeats", 1, "--size", "1M", ranks=2, env=env)
    assert done.returncode == 3 and f"elements of the copy {name}, GPU 1 (0000:02:00.0) of " in done.stderr, done.stderr


def test_compare_names_the_slower_gpu(busbar, tmp_path):
    for name, slow in (("a", ""), ("b", "pcie1:0.5")):
        copy(busbar, tmp_path, EMU_SLOW_LINKS=slow)
        (tmp_path / "r.json").rename(tmp_path / f"{name}.json")
    done = busbar.run("compare", tmp_path / "a.json", tmp_path / "b.json", "--threshold", "5", emulated=False)
    assert done.returncode == 5 and "rank 1 host to_gpu copy pinned" in done.stdout
    assert re.search(r"^# verdict: slower by more than 5 % .* rank 1 \(\S+\) is in 9 of 9 slower rows", done.stdout.splitlines()[-1]), done.stdout
