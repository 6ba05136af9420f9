"""bench --expect: recognises the machine, and compares each result with the prediction of its profile or with an earlier run."""
import json
import re

import pytest
from conftest import BUILD, ROOT

SIZES = ("--sizes", "64K,4M,16M", "-n", 2, "--repeats", 2, "-w", 1)


def bench(busbar, tmp_path, *args, ranks=2, status=0, **env):
    done = busbar.run("bench", "all_reduce", *SIZES, *args, "--json", tmp_path / "r.json", ranks=ranks, env={"EMU_DATA": "off", **env})
    assert done.returncode == status, done.stderr
    return json.loads((tmp_path / "r.json").read_text()), done


@pytest.mark.parametrize("cluster, nodes", [(cluster, None) for cluster in (
    "a100-sxm-ib", "a100-pcie-ib", "b200-sxm-ib", "gb200-nvl72", "h100-sxm-ib", "l40s-pcie-ib")] + [("gb200-nvl72", "2")])
def test_auto_recognises_each_emulated_machine(busbar, tmp_path, cluster, nodes):
    """NICs connect the nodes of EMU_NODES, also those of an NVLink domain."""
    root, done = bench(busbar, tmp_path, "--expect", "auto", EMU_CLUSTER=cluster, **({"EMU_NODES": nodes} if nodes else {}))
    assert root["expected"]["source"].startswith(f"{cluster} (recognised): ") and root["expected"]["results"] == 4
    assert all(abs(row["of_expected"] - 1) < 0.01 for row in root["results"]), root["results"]
    assert "# reached: 100 % of the expected bus bandwidth (median of 4 results of 1 MiB or more), lowest 100 % (" in done.stdout
    if nodes:
        step = busbar.json("proxy", "transformer", "--model", "gpt2_small", "--layers", 1, "--cluster", cluster, tmp_path=tmp_path, ranks=2,
                           env={"EMU_DATA": "off", "EMU_CLUSTER": cluster, "EMU_NODES": nodes})["forecast"]["step"]
        assert abs(step["error"]) < 0.01


@pytest.mark.smoke
def test_collective_without_reduction_reaches_the_expectation(busbar, tmp_path):
    """Under the sanitizers, too: its rows have no name of a reduction."""
    run = ("bench", "all_gather", "--sizes", "4M", "-n", 2, "--repeats", 2, "-c", 0, "--json", tmp_path / "r.json", "--expect")
    for expected in ("auto", tmp_path / "good.json"):
        done = busbar.run(*run, expected, ranks=2, env={"EMU_DATA": "off", "EMU_CLUSTER": "h100-sxm-ib"})
        assert done.returncode == 0, done.stderr
        root = json.loads((tmp_path / "r.json").read_text())
        assert [row["op"] for row in root["results"]] == [None] * 2 and all(abs(row["of_expected"] - 1) < 0.01 for row in root["results"])
        (tmp_path / "good.json").write_text(json.dumps({**root, "results": [{**row, "op": "sum"} for row in root["results"]]}))


def test_slow_nic_is_below_the_expectation(busbar, tmp_path):
    root, done = bench(busbar, tmp_path, "--expect", "auto", "--min-of-expected", "90%", ranks=4, status=5, EMU_CLUSTER="h100-sxm-ib",
                       EMU_NODES="2", EMU_SLOW="link=node1-nic0:0.5")
    row = next(r for r in root["results"] if r["bytes"] == 16 << 20)
    assert abs(row["of_expected"] - row["busbw_gbps"] / row["expected_busbw_gbps"]) < 1e-6 and row["of_expected"] < 0.8
    assert {limit["bytes"] for limit in root["below"]} == {4 << 20, 16 << 20}  # 64 KiB is not judged
    assert "(90 % of the expected " in done.stderr
    assert "# --min-of-expected: FAILED; " in done.stdout and root["status"] == "below threshold"


def test_results_below_the_expectation_are_in_the_last_line_without_a_limit(busbar, tmp_path):
    slow, fine = (bench(busbar, tmp_path, "--expect", "auto", ranks=4, EMU_CLUSTER="h100-sxm-ib", EMU_NODES="2", EMU_SLOW=nic)
                  for nic in ("link=node1-nic0:0.5", ""))
    (lowest,) = [check["measured"] for check in slow[0]["checks"] if check["check"].startswith("lowest result")]
    last = slow[1].stdout.splitlines()[-1]
    assert last.startswith(f"# SLOW: {100 * lowest:.0f} % of the expected bus bandwidth (") and "; to find the slow part, try: busbar-emulated health" in last
    assert "SLOW" not in fine[1].stdout
    tree = bench(busbar, tmp_path, "--expect", "auto", ranks=4, EMU_CLUSTER="h100-sxm-ib", EMU_NODES="2", NCCL_ALGO="Tree", NCCL_PROTO="LL")[1]
    assert re.search(r"^# SLOW: .*; restricted by \$NCCL_ALGO=Tree, \$NCCL_PROTO=LL; for exit status 5", tree.stdout.splitlines()[-1]) and "to find" not in tree.stdout


def test_lowest_result_of_several_groups_has_its_group(busbar, tmp_path):
    root, done = bench(busbar, tmp_path, "--expect", "auto", "--split", "DIV:2", ranks=4, EMU_CLUSTER="h100-sxm-ib", EMU_NODES="4", EMU_SLOW="link=node2-nic0:0.5")
    assert root["expected"]["lowest_result"].endswith("place, group 1") and f"({root['expected']['lowest_result']}); to find the slow part" in done.stdout
    root, done = bench(busbar, tmp_path, "--split", "DIV:2", ranks=3)  # rank 2 alone only copies memory
    shortest = min(row["time_us"]["p50"] for row in root["results"] if row["group"] == 0)
    assert f"; shortest time {shortest:.2f} us (all_reduce, 64 KiB)" in done.stdout, done.stdout


def test_bandwidth_far_above_the_expectation_doubts_the_profile(busbar, tmp_path):
    """The nodes have 2 ranks and 1 rank."""
    args = ("bench", "all_reduce", "--sizes", "1M", "-n", 1, "--placement", "in_place", "--expect")
    done = busbar.run(*args, "a100-pcie-ib", ranks=3, env={"EMU_DATA": "off", "EMU_CLUSTER": "h100-sxm-ib"})
    assert re.search(r"(?m)^# reached: \d{3} %.*; warning: wrong profile\?$", done.stdout), done.stdout
    done = busbar.run(*args, "auto", ranks=3, env={"EMU_DATA": "off", "EMU_CLUSTER": "h100-sxm-ib", "EMU_NODES": "2"})
    assert re.search(r"warning: \S+-node0 has 2 ranks, \S+-node1 has 1: ", done.stderr) and "wrong profile" not in done.stdout, done.stdout
    root, done = bench(busbar, tmp_path, "--expect", "auto", ranks=4, EMU_CLUSTER="h100-sxm-ib", EMU_NODES="3")  # 2, 1 and 1 ranks, predicted as 2 and 2
    assert root["expected"]["lowest"] < 0.6 and [c["status"] for c in root["checks"]] == ["unknown"] and "SLOW" not in done.stdout, done.stdout
    assert "per node; not judged: nodes of this job have other numbers of ranks\n" in done.stdout
    _, done = bench(busbar, tmp_path, "--expect", "auto", "--min-of-expected", "90%", ranks=4, status=2, EMU_CLUSTER="h100-sxm-ib", EMU_NODES="3")
    assert done.stderr.endswith("which this job does not have; try: --expect FILE of an earlier run\n"), done.stderr


def test_earlier_run_is_the_expectation(busbar, tmp_path):
    root, _ = bench(busbar, tmp_path)
    good = tmp_path / "good.json"
    good.write_text(json.dumps(root))
    root, done = bench(busbar, tmp_path, "--expect", good, "--min-of-expected", "99%", "--csv", tmp_path / "r.csv")
    assert root["expected"]["source"] == str(good) and root["expected"]["results"] == 4
    assert "warning" not in done.stderr
    assert all(abs(root["expected"][name] - 1) < 1e-6 for name in ("median", "lowest"))
    heading = next(line for line in done.stdout.splitlines() if line.endswith("reached"))
    assert heading.split()[-3:] == ["wall", "expected", "reached"] and "of_expected" in (tmp_path / "r.csv").read_text()
    good.write_text(json.dumps({**root, "status": "below threshold"}))
    _, done = bench(busbar, tmp_path, "--expect", good)
    assert done.stderr == f"busbar: warning: {good}: the run ended with status 'below threshold', so it is a doubtful reference\n"
    good.write_text(json.dumps({**root, "restricted_by": "$NCCL_ALGO=Tree"}))
    _, done = bench(busbar, tmp_path, "--expect", good)
    assert done.stderr == f"busbar: warning: {good}: measured with $NCCL_ALGO=Tree, which can lower the bandwidth, so it is a doubtful reference\n"
    done = busbar.run("bench", "all_reduce", *SIZES, "--expect", good, ranks=3, env={"EMU_DATA": "off"})
    assert done.returncode == 2 and f"--expect: {good} is for 2 ranks on 1 node, but this run has 3 ranks on 1 node" in done.stderr


@pytest.mark.parametrize("option,value,same,message", [("agg_iters", 4, ("-m", 4), "was measured with -m 4, this run has -m 1; try: -m 4"),
                                                       ("average", 2, ("-a", 2), "was measured with -a 2, this run has -a 3; try: -a 2"),
                                                       ("clock", "host", ("--clock", "host"), "was measured with --clock host; try: ")])
def test_expectation_with_other_times_than_those_of_the_run(busbar, tmp_path, option, value, same, message):
    root, _ = bench(busbar, tmp_path)
    (tmp_path / "good.json").write_text(json.dumps({**root, "options": {**root["options"], option: value}}))
    for limit in (("--expect", tmp_path / "good.json"), ("--min-busbw", f"{tmp_path}/good.json:50%")):
        done = busbar.run("bench", "all_reduce", *SIZES, *limit, ranks=2, env={"EMU_DATA": "off"})
        assert done.returncode == 2 and f"{limit[0]}: {tmp_path}/good.json {message}" in done.stderr and done.stderr.count("\n") == 1, done.stderr
    bench(busbar, tmp_path, "--expect", tmp_path / "good.json", *same)


@pytest.mark.parametrize("change,message", [
    (lambda root: root.update(shared_gpu=True), "shared a GPU, so its times are meaningless; expected one rank per GPU"),
    (lambda root: root["results"][0].update(wrong=3), "has no correct result of all_reduce 64 KiB, float, sum, out_of_place, mode stream")])
def test_expectation_with_meaningless_times_or_wrong_data_is_refused(busbar, tmp_path, change, message):
    root, _ = bench(busbar, tmp_path)
    change(root)
    (tmp_path / "bad.json").write_text(json.dumps(root))
    done = busbar.run("bench", "all_reduce", *SIZES, "--min-busbw", f"{tmp_path}/bad.json:50%", ranks=2, env={"EMU_DATA": "off"})
    assert done.returncode == 2 and done.stderr.endswith(f"{message}\n") and done.stderr.count("\n") == 1, done.stderr


def test_results_that_the_expectation_lacks_are_named(busbar, tmp_path):
    root, done = bench(busbar, tmp_path)
    assert '"-"' not in done.stdout
    (tmp_path / "good.json").write_text(json.dumps({**root, "results": [row for row in root["results"] if row["bytes"] != 4 << 20]}))
    root, done = bench(busbar, tmp_path, "--expect", tmp_path / "good.json")
    rows = [row for row in root["results"] if row["expected_busbw_gbps"] is None]
    assert {row["bytes"] for row in rows} == {4 << 20}
    assert f'# "-": {tmp_path}/good.json has no result of {len(rows)} of the rows, first of all_reduce 4 MiB, mode stream\n' in done.stdout, done.stdout
    done = busbar.run("bench", "all_reduce", *SIZES, "--mode", "all", "--expect", "auto", ranks=2, env={"EMU_DATA": "off"})
    assert re.search("^# not compared: .* has no result of 12 of the rows, first of all_reduce 64 KiB, mode sync$", done.stdout, re.M), done.stdout
    assert re.search(r"shortest time \d.* us \(all_reduce, 64 KiB, (stream|graph)\), highest .* \(all_reduce, 16 MiB, (stream|graph)\)$", done.stdout, re.M)


def test_own_profile_is_the_expectation(busbar, tmp_path):
    mine, profile = tmp_path / "mine.json", json.loads((ROOT / "profiles/clusters/h100-sxm-ib.json").read_text())
    profile["nccl"] = [{**variant, "gbps": 2 * variant["gbps"]} for variant in profile["nccl"]]
    mine.write_text(json.dumps(profile))
    root, _ = bench(busbar, tmp_path, "--expect", mine, EMU_CLUSTER="h100-sxm-ib")
    assert 0.5 < root["expected"]["median"] < 0.9
    mine.write_text(json.dumps({"name": "mine", "base": "h100-sxm-ib"}))
    root, _ = bench(busbar, tmp_path, "--expect", mine, EMU_CLUSTER="h100-sxm-ib")
    assert abs(root["expected"]["median"] - 1) < 0.05 and root["expected"]["source"].startswith("mine: ")


def test_results_below_1_mib_are_the_reason(busbar):
    done = busbar.run("bench", "all_reduce", "--sizes", "512K", "-n", 2, "--expect", "auto", "--min-of-expected", "50%", ranks=2, env={"EMU_DATA": "off"})
    assert done.returncode == 5 and "results below 1 MiB depend on latencies and are not compared; try: -b 1M\n" in done.stderr


def test_default_output_has_at_most_25_lines(busbar):
    done = busbar.run("bench", "all_reduce", "-n", 2, "--expect", "auto", "--min-of-expected", "50%", ranks=2, env={"EMU_DATA": "off"})
    assert done.returncode == 0 and len(done.stdout.splitlines()) <= 25, done.stdout


def test_names_of_nccl_tests_have_no_expectation(busbar):
    done = busbar.run_program(BUILD / "all_reduce_perf", "--expect", "auto")
    assert done.returncode == 2 and done.stderr == "busbar: unknown option '--expect'; --help lists all options\n"


def test_result_that_the_earlier_run_lacks_is_refused(busbar, tmp_path):
    bench(busbar, tmp_path)
    (tmp_path / "r.json").rename(tmp_path / "good.json")
    done = busbar.run("bench", "all_reduce", "--sizes", "4M,8M", "--expect", tmp_path / "good.json", "--min-of-expected", "90%", ranks=2, env={"EMU_DATA": "off"})
    assert done.returncode == 2 and "good.json has no result of all_reduce 8 MiB, float, sum, out_of_place" in done.stderr


@pytest.mark.parametrize("number,limit", [("100", "100"), ("-5", "GB/S (for example --min-busbw 300)"), ("0", "GB/S (for example --min-busbw 300)")])
def test_a_number_of_expect_leads_to_a_valid_limit(busbar, number, limit):
    done = busbar.run("bench", "all_reduce", "--expect", number, emulated=False)
    assert done.returncode == 2 and done.stderr == f"busbar: --expect: unknown cluster '{number}'; a required bus bandwidth is --min-busbw {limit}\n"
