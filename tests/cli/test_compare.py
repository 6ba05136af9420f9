"""busbar compare: comparison of two result files."""
import csv
import io
import json
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def row(bytes_, median, half_width, **kw):
    interval = [median - half_width, median + half_width] if half_width is not None else None
    return {"collective": "all_reduce", "bytes": bytes_, "dtype": "float", "op": "sum", "root": None, "placement": "out_of_place",
            "mode": "stream", "wrong": 0, "time_us": {"p50": median, "ci95": interval}, **kw}


def bench(*rows, **kw):
    return {"schema": "busbar.bench/1", "busbar": "0.1.0", "nccl": {"runtime": "2.28.9"}, "ranks": 4,
            "devices": [{"name": "H200"}] * 4, "environment": {}, "results": list(rows), "status": "ok", **kw}


@pytest.fixture
def compare(busbar, tmp_path):
    def run(a, b, *args):
        for name, content in (("a.json", a), ("b.json", b)):
            (tmp_path / name).write_text(content if isinstance(content, str) else json.dumps(content))
        return busbar.run("compare", "a.json", "b.json", *args, emulated=False, cwd=tmp_path)

    return run


def verdicts(done):
    """Returns the verdict of each row: the columns from 85 on."""
    return [" ".join(line.split()[10:]) for line in done.stdout.splitlines() if line.strip() and not line.startswith("#")]


A = bench(row(8, 10, 1), row(16, 10, 1), row(32, 10, 1), row(64, 10, None), row(128, 10, 1), row(256, 10, 1))
B = bench(row(8, 13, 1), row(16, 7, 1), row(32, 11, 1), row(64, 20, None), row(128, 20, 1, wrong=3), row(512, 10, 1),
          nccl={"runtime": "2.30.7"}, environment={"NCCL_ALGO": "Ring"}, devices=[{"name": "H100"}] * 4)


def test_verdict_of_each_row(compare, golden):
    done = compare(A, B)
    assert done.returncode == 0 and done.stderr == ""
    assert verdicts(done) == ["slower", "faster", "no difference", "slower by ratio", "wrong data", "only in A", "only in B"]
    golden("compare-table.txt", done.stdout)


def sampled(random, medians):
    """Rows of 20 samples with 2 % of noise: median, and the 6th and 15th sample as interval (binomial, 95.9 %)."""
    rows = []
    for i, us in enumerate(medians):
        x = sorted(random.gauss(us, 0.02 * us) for _ in range(20))
        rows.append(row(8 << i % 27, (x[9] + x[10]) / 2, 0, cycle=i // 27))
        rows[-1]["time_us"]["ci95"] = [x[5], x[14]]
    return bench(*rows)


def test_equal_systems_rarely_differ_and_a_regression_is_found(compare):
    """Without Holm's test, 22 % of such comparisons have a row that differs."""
    import random
    seeds = [random.Random(seed) for seed in range(20)]
    same = [compare(sampled(r, [100] * 100), sampled(r, [100] * 100)).stdout.splitlines()[-1] for r in seeds]
    assert same.count("# verdict: not slower (0 faster, 0 slower of 100 rows)") >= 19, same
    for r in seeds:
        last = compare(sampled(r, [100] * 20), sampled(r, [105] + [100] * 19)).stdout.splitlines()[-1]
        assert re.match(r"# verdict: slower \(0 faster, 1 slower of 20 rows; slowest all_reduce 8 B: \+[3-7]\.\d % time\)", last), last


def test_faster_rows_are_shown_and_in_the_verdict(compare):
    a, b = bench(*(row(8 << i, 100, 1) for i in range(20))), bench(*(row(8 << i, 50 if i > 15 else 100, 1) for i in range(20)))
    done = compare(a, b)
    assert done.stdout.splitlines()[-1] == f"# verdict: not slower (4 faster, 0 slower of 20 rows; mean B/A {0.5 ** (4 / 20):.3f})"
    assert verdicts(done).count("faster") == 4


def test_last_line_of_a_mixed_result(busbar, compare, tmp_path):
    a, b = bench(*(row(8 << i, 100, 1) for i in range(20))), bench(*(row(8 << i, 90 if i < 4 else 110 + i if i < 7 else 100, 1) for i in range(20)))
    last = "mixed (4 faster, 3 slower of 20 rows; slowest all_reduce 512 B: +16.0 % time)"
    assert compare(a, b).stdout.splitlines()[-1] == f"# verdict: {last}"
    assert compare(a, b, "--threshold", "20%").stdout.splitlines()[-1] == (
        f"# verdict: not slower by more than 20 % ({last.partition('(')[2]}")
    assert [x for x in verdicts(compare(a, b, "--threshold", "15.5", "--full")) if "slower" in x] == ["slower (within --threshold)"] * 2 + ["slower"]
    assert json.loads(compare(a, b, "--json", "-").stdout)["summary"]["verdict"] == "mixed"
    done = busbar.run("compare", "a.json", "a.json", "b.json", emulated=False, cwd=tmp_path)
    assert done.stdout.splitlines()[-1] == f"# worst verdict: mixed (b.json: {last.partition('(')[2]}"


def test_worst_of_slower_and_mixed_is_that_with_the_larger_ratio(busbar, tmp_path):
    for name, times in (("a", (100, 100)), ("mixed", (90, 140)), ("slower", (300, 300)), ("slightly", (120, 120))):
        (tmp_path / f"{name}.json").write_text(json.dumps(bench(*(row(8 << i, time, 1) for i, time in enumerate(times)))))
    for files, worst in ((("mixed", "slower"), "slower (slower.json"), (("slower", "mixed"), "slower (slower.json"),
                         (("mixed", "slightly"), "mixed (mixed.json")):
        done = busbar.run("compare", "a.json", *(f"{file}.json" for file in files), emulated=False, cwd=tmp_path)
        assert done.stdout.splitlines()[-1].startswith(f"# worst verdict: {worst}: "), done.stdout


def test_verdict_shows_a_changed_nccl_variant(compare):
    ring, tree = ({"algorithm": a, "protocol": p, "channels": n} for a, p, n in (("RING", "SIMPLE", 8), ("TREE", "LL", 2)))
    done = compare(bench(row(8, 10, 1, **ring), row(16, 10, 1, **ring), row(32, 10, 1)),
                   bench(row(8, 20, 1, **tree), row(16, 10, 1, **ring), row(32, 10, 1, **tree)))
    assert verdicts(done) == ["slower: TREE/LL/2, was RING/SIMPLE/8", "no difference", "no difference"]


@pytest.mark.parametrize("percent,status", [("29", 5), ("31", 0), ("0", 5)])
def test_threshold_sets_the_exit_status(compare, percent, status):
    """Without the rows of one sample and of wrong data: the slower row is 30 % slower."""
    a, b = ({**t, "results": [r for r in t["results"] if r["bytes"] not in (64, 128)]} for t in (A, B))
    done = compare(a, b, "--threshold", percent)
    assert done.returncode == status
    assert ("1 row slower by more than" in done.stderr and "8 B: +30.0 %" in done.stderr) == (status == 5)


def test_noise_does_not_make_a_slowdown_disappear(compare):
    """One late sample makes the interval of A wide: 30 % more is not significant, and not excluded either."""
    noisy, slower = bench(row(8, 10, 4)), bench(row(8, 13, 0.1))
    done = compare(noisy, slower, "--threshold", "5")
    assert done.returncode == 0 and verdicts(done) == ["inconclusive"] and "verdict: inconclusive" in done.stdout.splitlines()[-1]
    assert "do not exclude a slowdown above 5 %" in done.stdout and compare(noisy, slower, "--threshold", "5", "--strict").returncode == 5
    assert verdicts(compare(noisy, bench(row(8, 10.4, 0.1)), "--threshold", "5")) == ["no difference"]


ONE, SAME_AS_ONE = bench(row(8, 10, 1), row(16, 20, 1)), bench(row(8, 10, 1), row(16, 20, 1))


def wrong_row(bytes_):
    return row(bytes_, 10, 1, wrong=1)


# Files A and B, the verdict of the comparison, and the exit status with --strict.
INCOMPLETE = [
    (ONE, SAME_AS_ONE, "not slower", 0),
    (ONE, {**SAME_AS_ONE, "status": "timeout"}, "run incomplete", 5),
    ({**ONE, "status": "running"}, SAME_AS_ONE, "run incomplete", 5),
    (ONE, {**SAME_AS_ONE, "status": "below threshold", "reason": "node1: rank 3 was lost"}, "not slower", 0),
    (ONE, bench(row(32, 1, 1)), "no common row", 5),
    (ONE, bench(), "no common row", 5),
    (bench(), bench(), "no common row", 5),
    (ONE, bench(row(8, 10, 1), wrong_row(16)), "wrong data", 5),
    (ONE, bench(row(8, 20, 1), row(16, 20, 1)), "slower", 0),
    (ONE, bench(row(8, 10, None), row(16, 20, 1)), "not slower", 0),
    # 0 bytes, the share of one rank of 8 bytes, take no time in predictions
    (bench(row(0, 0, None), row(8, 10, 1)), bench(row(0, 0, None), row(8, 10, 1)), "not slower", 0),
    (bench(row(0, 5, None), row(8, 10, 1)), bench(row(0, 0, None), row(8, 10, 1)), "inconclusive", 5),
    (ONE, bench(row(8, 0, None), row(16, 20, 1)), "inconclusive", 5),  # a dead timer
    (ONE, bench(row(8, 10, 1)), "rows missing in B", 5),
    (bench(row(8, 10, 1)), SAME_AS_ONE, "not slower", 0),
]


@pytest.mark.parametrize("a,b,verdict,strict", INCOMPLETE)
def test_strict_fails_incomplete_comparisons(compare, a, b, verdict, strict):
    done = compare(a, b)
    assert done.returncode == 0 and done.stdout.splitlines()[-1].partition(" (")[0] == f"# verdict: {verdict}"
    assert bool(done.stderr) == (verdict in ("run incomplete", "no common row"))
    done = compare(a, b, "--strict", "--json", "-")
    assert done.returncode == strict and json.loads(done.stdout)["summary"]["verdict"] == verdict
    assert (f"--strict: {verdict}" in done.stderr) == (strict == 5)
    done = compare(a, b, "--threshold", "200")
    fails = verdict in ("run incomplete", "no common row", "wrong data")
    if b["status"] == "below threshold":
        assert done.returncode == 5 and done.stdout.splitlines()[-1].startswith("# verdict: run failed, status 'below threshold' (")
        assert done.stderr == "busbar: --threshold: b.json: run failed, status 'below threshold': node1: rank 3 was lost\n"
        done = compare(b, a, "--threshold", "200")
        assert "a.json: the run ended with status 'below threshold', so it is a doubtful reference: node1: rank 3 was lost" in done.stderr
    assert done.returncode == (5 if fails else 0) and (f"busbar: --threshold: {verdict} (" in done.stderr) == fails


def test_the_mean_names_the_rows_without_a_ratio_and_predictions_are_judged_by_ratio(busbar, tmp_path):
    for name in ("h100-sxm-ib", "h200-sxm-ib"):  # 16 bytes on 8 ranks: a slice of 0 bytes
        busbar.run("plan", "all_gather", "--ranks", 8, "--sizes", "16,1M", "--cluster", name, "--json", f"{name}.json", emulated=False, cwd=tmp_path)
    done = busbar.run("compare", "h100-sxm-ib.json", "h200-sxm-ib.json", emulated=False, cwd=tmp_path)
    assert re.search(r"\n# B/A: \d\.\d+, geometric mean of 2 rows; without 2 rows whose time is 0 or unknown \(0 bytes\)\n", done.stdout), done.stdout
    assert "# predictions have no interval, so a row is slower" in done.stdout and "Holm" not in done.stdout


@pytest.mark.parametrize("key, other", [("ranks", 2), ("nodes", 3)])
def test_jobs_of_other_size_are_named(busbar, compare, tmp_path, key, other):
    one = {**ONE, "nodes": 1}
    done = compare(one, {**one, key: other}, "--threshold", "5")
    differ = f"{key} differ: A {one[key]}, B {other}"
    assert done.returncode == 0 and done.stdout.splitlines()[-1] == f"# verdict: not slower by more than 5 % (0 faster, 0 slower of 2 rows); {differ}"
    done = compare(one, {**one, key: other}, "--strict")
    assert done.returncode == 5 and done.stderr.startswith(f"busbar: --strict: {differ} (2 common rows")
    done = busbar.run("compare", "a.json", "a.json", "b.json", "--strict", emulated=False, cwd=tmp_path)
    assert done.returncode == 5 and done.stderr == f"busbar: --strict: b.json: {differ}\n"


def links(us, per_node, hosts=True, ranks=8):
    """The links of 8 ranks. us(a, b): time of a link."""
    devices = [{"name": "H100", "host": f"node{r // per_node}"} for r in range(ranks)]
    rows = [{"metric": "bandwidth", "from": a, "to": b, "direction": "one", "bytes": 1 << 25, "same_node": a // per_node == b // per_node,
             "time_us": {"p50": us(a, b), "ci95": [us(a, b)] * 2}} for a in range(ranks) for b in range(ranks) if a != b]
    return bench(*rows, ranks=ranks, nodes=ranks // per_node, devices=devices if hosts else [], causes=[])


@pytest.mark.parametrize("args", [(), ("--threshold", "5"), ("--quiet",)])
def test_results_of_different_kinds_are_an_invalid_input(busbar, compare, tmp_path, args):
    """Collectives, links and a step have no common row; two results of one kind may have none, for example of other sizes."""
    step = {"schema": "busbar.proxy/1", "proxy": "gpt3", "status": "ok", "ranks": 4, "options": {}, "step_us": {"p50": 9., "ci95": None}}
    for a, b, kinds in ((bench(row(32, 1, 1)), links(lambda a, b: 9., 4), ("collectives", "links of bench p2p")),
                        (links(lambda a, b: 9., 4), bench(row(32, 1, 1)), ("links of bench p2p", "collectives")),
                        (bench(row(32, 1, 1)), step, ("collectives", "a training step"))):
        done = compare(a, b, *args)
        assert done.returncode == 2
        assert done.stderr == f"busbar: nothing to compare: a.json has {kinds[0]}, b.json has {kinds[1]}; try: files of the same command\n"
        done = busbar.run("compare", "a.json", "a.json", "b.json", *args, emulated=False, cwd=tmp_path)
        assert done.returncode == 2 and not done.stdout
        assert done.stderr == f"busbar: nothing to compare: a.json has {kinds[0]}, b.json has {kinds[1]}; try: files of the same command\n"
    assert compare(bench(row(32, 1, 1)), bench(row(64, 1, 1)), *args).returncode == (5 if "--threshold" in args else 0)


def test_a_proxy_that_lost_a_rank_is_an_incomplete_run(compare):
    """Its file has no step_us; compare rejected it with exit status 2."""
    ok = {"schema": "busbar.proxy/1", "proxy": "gpt3", "status": "ok", "ranks": 4, "options": {}, "step_us": {"p50": 9., "ci95": None}}
    lost = {"schema": "busbar.proxy/1", "proxy": "gpt3", "status": "timeout", "reason": "rank 2 (vm) is lost", "ranks": 4, "options": {}}
    for a, b, of_first in ((ok, lost, ""), (lost, ok, " (of the first file)")):
        done = compare(a, b, "--threshold", "5")
        assert done.returncode == 5 and done.stdout.splitlines()[-1] == f"# verdict: run incomplete{of_first} (b.json)"
        assert ".json: the run ended with status 'timeout'; rows may be missing: rank 2 (vm) is lost\n" in done.stderr
    assert compare(ok, {**lost, "status": "ok"}).returncode == 2  # a file that lacks its result


def test_links_of_other_classes_are_not_compared(compare):
    """4 and 7 are on one node in A and on two in B: 24 links of A are inside a node and 8 of B, which A has, too."""
    def us(per_node):
        return lambda a, b: 10 if a // per_node == b // per_node else 64
    done = compare(links(us(4), 4), links(us(2), 2), "--threshold", "5")
    assert done.returncode == 0 and "only in A 16, only in B 16" in done.stdout and "# links that are inside a node in one file and" in done.stdout
    assert done.stdout.splitlines()[-1] == "# verdict: rows missing in B (0 faster, 0 slower of 40 rows); nodes differ: A 2, B 4"


@pytest.mark.parametrize("slow, per_node, culprit", [
    (lambda a, b: 6 in (a, b) and a // 2 != b // 2, 2, "rank 6 (node3) is in 24 of 24 slower rows"),
    (lambda a, b: 3 in (a // 2, b // 2) and a // 2 != b // 2, 2, "node node3 is in 48 of 48 slower rows"),
    (lambda a, b: a // 2 != b // 2 and (6 in (a, b) or 1 in (a, b)), 2, "rank 1 (node0), rank 6 (node3) are in 44 of 44 slower rows"),
    (lambda a, b: {a // 2, b // 2} in ({0, 1}, {2, 3}), 2, "path between node0 and node1, path between node2 and node3 are in 32 of 32 slower rows"),
    (lambda a, b: {a, b} == {1, 6}, 2, None), (lambda a, b: a // 4 != b // 4, 2, None), (lambda a, b: 3 in (a, b), 8, "rank 3 (node0) is in 28 of 28 slower rows")])
def test_slower_links_name_the_rank_or_node_that_they_share(compare, slow, per_node, culprit):
    both = (links(lambda a, b: 64, per_node), links(lambda a, b: 71 if slow(a, b) else 64, per_node))
    for file in both:
        file["results"] += [{**r, "direction": "both"} for r in file["results"]]
    done = compare(*both, "--threshold", "5", "--json", "-")
    summary = json.loads(done.stdout)["summary"]
    assert done.returncode == 5 and (culprit or "slower rows") in done.stderr if culprit else "slower rows" not in done.stderr
    assert (summary["culprit"], summary["culprit_rows"]) == ((re.split(" (?:is|are) in ", culprit)[0], summary["slower"]) if culprit else (None, None))
    assert (culprit or ": +10.9 % time)") in compare(*both).stdout.splitlines()[-1]


@pytest.mark.parametrize("slowdown, known, culprit", [
    (1.07, 9, "; rank 1 (node0) is in 9 of 9 slower rows)"), (1.01, 9, ": +7.0 % time)"),
    (1.07, 8, "; rank 1 (node0) is in 8 of 8 slower rows with a known rank, 1 more has none)")])
def test_slower_kernels_name_the_gpu_if_the_others_are_not_slower(compare, slowdown, known, culprit):
    def kernels(us, slowdown):
        rows = [{"section": "gemm", "name": "square", "dtype": "half", "m": n, "n": n, "k": n, "batch": 1, "slowest_rank": 1, "slowdown": slowdown if n <= known else None,
                 "time_us": {"p50": us, "ci95": [us, us]}} for n in range(1, 10)]
        return bench(*rows, devices=[{"name": "H100", "host": "node0"}] * 4)
    assert compare(kernels(100, 1.0), kernels(107, slowdown)).stdout.splitlines()[-1].endswith(culprit)


def test_many_rows_fit_in_25_lines(compare):
    """The table has the worst rows, those first; --full has all rows and differences."""
    a, b = (bench(*[row(8 << i % 30, 100 + (k and i), 0.1, cycle=i // 30) for i in range(156)], emulated=True, options={f"o{i}": k for i in range(9)})
            for k in (0, 1))
    b["results"][7] = row(8 << 7, 100, 1, cycle=0, wrong=2)
    b["results"].append(row(8, 1, 1, cycle=9))
    done = compare(a, b)
    assert done.returncode == 0 and len(done.stdout.splitlines()) <= 25, done.stdout
    assert verdicts(done) == ["wrong data"] + ["slower"] * 4 and "# 152 more rows: --full, --json, --csv\n" in done.stdout
    assert [line.split()[-2] for line in done.stdout.splitlines() if line.endswith("slower")] == ["2.550", "2.540", "2.530", "2.520"]
    assert len(re.findall("# differs: --o", done.stdout)) == 3 and "# differs: 6 more: --full" in done.stdout
    full = compare(a, b, "--full").stdout
    assert len(re.findall("# differs: --o", full)) == 9 and full.count(" all_reduce ") == 157 + 1 and "more" not in full


def test_csv_rows_identify_both_runs(compare):
    a, b = ({**ONE, "nodes": n, "started": f"2026-01-0{n}T00:00:00Z", "nccl": {"runtime": f"2.3{n}.0"}, "devices": [{"host": f"h{n}"}],
             "command": ["bench", "all_reduce"]} for n in (1, 2))
    for r in csv.DictReader(io.StringIO(compare(a, b, "--csv", "-").stdout)):
        for side, n in (("a", "1"), ("b", "2")):
            assert {key: r[f"files.{side}.{key}"] for key in ("file", "nccl.runtime", "ranks", "nodes", "host", "started", "command")} == {
                "file": f"{side}.json", "nccl.runtime": f"2.3{n}.0", "ranks": "4", "nodes": n, "host": f"h{n}",
                "started": f"2026-01-0{n}T00:00:00Z", "command": "bench all_reduce"}
    nccl = json.loads(compare(nccl_tests(10), a, "--json", "-").stdout)["files"]["a"]
    assert nccl["nccl"]["runtime"] == "2.28.9"


def test_prints_no_control_characters_of_files(compare):
    """Escape sequences in a file color or retitle a terminal: ESC, BEL, DEL and C1 (as UTF-8) become blanks, also in keys."""
    escapes = "\x1b]0;title\x07\x1b[31m\x7f\x9b1mX"
    evil = bench({**row(8, 10, 1), "collective": escapes})
    evil.update(status=escapes, environment={escapes: escapes}, nccl={escapes: escapes}, options={escapes: 1}, devices=[{"name": escapes}])
    done = compare(evil, bench({**row(8, 20, 1), "collective": escapes}), "--csv", "-")
    text = done.stdout + done.stderr
    assert "title" in text and not [c for c in text if c != "\n" and (ord(c) < 32 or 0x7f <= ord(c) < 0xa0)], done.stdout


def test_csv_prefixes_formulas(compare):
    done = compare(bench({**row(8, 10, 1), "collective": "=HYPERLINK(1)"}), bench({**row(8, 10, 1), "collective": "=HYPERLINK(1)"}),
                   "--csv", "-")
    assert "'=HYPERLINK(1)" in done.stdout and ",=H" not in done.stdout and "\n=H" not in done.stdout


def nccl_tests(*times):
    return {"version": 3, "args": ["all_reduce_perf"], "env": [], "nccl_version": 22809, "config": {"devices": []},
            "results": [{"size": 8 << i, "type": "float", "redop": "sum", "root": -1, "out_of_place": {"time": t, "nwrong": 0}}
                        for i, t in enumerate(times)]}


@pytest.mark.parametrize("args,status,rows", [
    ((), 0, ["slower by ratio", "no difference by ratio", "faster by ratio"]),  # by 10 %
    (("--strict",), 0, ["slower by ratio", "no difference by ratio", "faster by ratio"]),
    (("--threshold", "5"), 5, ["slower by ratio", "no difference by ratio", "faster by ratio"]),
    (("--threshold", "60", "--strict"), 0, ["no difference by ratio"] * 3),
])
def test_rows_with_one_sample_are_judged_by_ratio(compare, args, status, rows):
    """A file of nccl-tests whose first row is 54 % slower."""
    done = compare(nccl_tests(10, 20, 30), nccl_tests(15.4, 20.5, 20), *args)
    assert done.returncode == status and verdicts(done) == rows
    assert "rows with fewer than 6 samples (nccl-tests: one mean) have no interval" in done.stdout and "times are medians" not in done.stdout
    # (1.54 * 1.025 * 2/3) ** (1/3) = 1.01712
    assert "# B/A: 1.017, geometric mean of 3 rows\n" in done.stdout


def test_times_to_enqueue_are_not_compared_with_times_of_operations(compare):
    by_cpu = nccl_tests(10)
    by_cpu["results"][0]["out_of_place"]["cpu_time"] = by_cpu["results"][0]["out_of_place"].pop("time")
    for a, b, modes in ((nccl_tests(10), by_cpu, "A: mode stream, B: mode host"), (by_cpu, nccl_tests(10), "A: mode host, B: mode stream")):
        done = compare(a, b, "--threshold", "5")
        assert done.returncode == 5 and f"have no common row; {modes}\n" in done.stderr
    done = compare({**by_cpu, "emulated": True}, {**by_cpu, "emulated": True}, "--threshold", "5")
    assert verdicts(done) == ["no difference by ratio"] and "come from a model (except the host's time to enqueue, " in done.stdout
    done = compare(nccl_tests(10), {**nccl_tests(10), "args": ["all_gather_perf"]})
    assert "have no common row; A begins with all_reduce, B with all_gather\n" in done.stderr


def test_times_of_nccl_tests_are_compared_with_wall_times(busbar, tmp_path):
    """With virtual time, one sample by the host clock is exact, so programs of both kinds measure the same."""
    env = {"EMU_DATA": "off"}
    sizes = ("-b", "64K", "-e", "4M", "-f", "64", "-g", "2")
    done = busbar.run_program(busbar.build / "emulated" / "all_reduce_perf", *sizes, "-J", "n.json", cwd=tmp_path, env=env)
    (tmp_path / "n.log").write_text(done.stdout)
    for clock in ("both", "gpu"):
        assert busbar.run("bench", "all_reduce", *sizes, "--clock", clock, "--json", f"{clock}.json", cwd=tmp_path, env=env).returncode == 0
    for files in (("both.json", "n.json"), ("n.log", "both.json")):
        done = busbar.run("compare", *files, "--threshold", "1", "--json", "c.json", emulated=False, cwd=tmp_path)
        assert done.returncode == 0 and f"# {'BA'[files[0] == 'both.json']}: wall_us, by the host clock" in done.stdout
        rows = json.loads((tmp_path / "c.json").read_text())["results"]
        assert [(r["verdict"], r["a"]["clock"], r["b"]["clock"]) for r in rows] == [("no difference", "host", "host")] * 4
        assert [r["ratio"] for r in rows] == pytest.approx([1] * 4, abs=1e-3)
    done = busbar.run("compare", "gpu.json", "n.json", "--threshold", "1", emulated=False, cwd=tmp_path)
    assert done.returncode == 0 and "# verdict: inconclusive (0 faster, 0 slower of 4 rows)\n" in done.stdout
    assert "# differs: clock: A gpu, B host\n" in done.stdout and "# inconclusive: the clocks differ" in done.stdout
    assert "geometric mean" not in done.stdout


def test_an_environment_that_is_not_recorded_is_not_empty(compare):
    done = compare({**nccl_tests(10), "env": ["EMU_CLUSTER=h100", "HOME=/", "EMU_TWINS=/x"]}, bench(environment={"EMU_CLUSTER": "h100"}))
    assert "EMU_" not in done.stdout and "environment" not in done.stdout.partition("# differs")[2].partition("\n#")[0]
    log = nccl_tests(10)
    del log["env"]
    done = compare(log, bench(environment={"NCCL_ALGO": "Ring"}))
    assert "# differs: environment: A not recorded, B recorded\n" in done.stdout and "not set" not in done.stdout


def test_advice_exceeds_the_samples_of_the_run(compare):
    a, b = (bench(row(8, us, 2), options={"repeats": 20}) for us in (10, 11))
    assert "try: more samples (--repeats 80)" in compare(a, b, "--threshold", "5").stdout


def test_an_inconclusive_comparison_that_strict_rejects_names_the_samples(compare):
    a, b = (bench(row(8, us, 2), options={"repeats": 20}) for us in (10, 11))
    done = compare(a, b, "--threshold", "5", "--strict", "--quiet")
    assert done.returncode == 5 and done.stderr.endswith("; try: more samples (--repeats 80)\n"), done.stderr


@pytest.mark.parametrize("percent, valid", [("-1", True), ("0", True), ("-0.5", False), ("-2", False)])
def test_a_threshold_is_minus_1_or_at_least_0(compare, percent, valid):
    done = compare(bench(row(8, 10, 1)), bench(row(8, 10, 1)), f"--threshold={percent}")
    assert (done.returncode == 0) == valid and (done.returncode == 2) == (not valid), done.stderr


def test_a_slower_group_is_named_with_its_ranks_and_hosts(compare):
    groups = [{"group": g, "ranks": [2 * g, 2 * g + 1], "hosts": [f"node{g}"]} for g in (0, 1)]
    a, b = (bench(row(64 << 20, 10, 0.1, group=0), row(64 << 20, us, 0.1, group=1), groups=groups) for us in (10, 16))
    done = compare(a, b, "--threshold", "5")
    what = "all_reduce group 1 (ranks 2-3 on node1) 64 MiB: +60.0 %"
    assert done.returncode == 5 and what in done.stdout.splitlines()[-1] and what in done.stderr, done.stderr
    for hosts in ([f"ip-10-0-113-{n}.eu-west-1.compute.internal" for n in range(101, 105)], ["node1", None]):
        b["groups"][1]["hosts"] = hosts
        assert f'(ranks 2-3 on {", ".join(host or "?" for host in hosts)}) 64 MiB: ' in compare(a, b, "--threshold", "5").stderr


def test_rows_above_the_threshold_are_counted(compare):
    overlap = [{"collective": "all_reduce", "bytes": 8, "gemms": 1, "collectives": 1, "max_ctas": i} for i in range(4)]
    files = [bench(*({**r, "both_us": {"p50": us, "ci95": None}} for r, us in zip(overlap, times, strict=True)),
                   slow_gpus=[{"rank": 1, "host": "vm", "gpu": 1, "slowdown": 1.2}] * (times[0] > 100))
             for times in ((100,) * 4, (120, 119, 106, 102))]
    done = compare(*files, "--threshold", "1")
    assert "(0 faster, 4 slower of 4 rows; slowest" in done.stdout
    assert "# B: cause: rank 1 (vm): GPU 1, kernels take up to 1.20 x the typical time\n" in done.stdout
    for f, half in ((files[0], 0.5), (files[1], 0.5)):
        for r in f["results"]:
            r["both_us"]["ci95"] = [r["both_us"]["p50"] - half, r["both_us"]["p50"] + half]
    done = compare(*files, "--threshold", "10")
    assert "(0 faster, 4 slower of 4 rows, 2 by more than 10 %; slowest" in done.stdout and "2 rows slower by more than 10 %" in done.stderr


def test_steps_without_cuda_graph_do_not_differ_by_the_option(busbar, tmp_path):
    for name, graph in (("a", None), ("b", {"step_us": {"p50": 50.0}})):
        run = step_of("first stage", ROLES, measured=True)
        run["step_us"]["ci95"] = [99.0, 101.0]
        (tmp_path / f"{name}.json").write_text(json.dumps({**run, "graph": graph, "options": {"graph": bool(graph)}}))
    done = busbar.run("compare", "a.json", "b.json", emulated=False, cwd=tmp_path)
    assert "--graph" not in done.stdout and "no difference" in done.stdout
    assert "# b.json: the step above is the one without CUDA graph; with CUDA graph: 0.500 x the step of a.json\n" in done.stdout


def test_ranks_of_nccl_tests_files_are_their_devices(compare):
    one, two = nccl_tests(10), nccl_tests(10)
    one["config"]["devices"], two["config"]["devices"] = [{"rank": 0}], [{"rank": 0}, {"rank": 1}]
    provenance = json.loads(compare(one, two, "--json", "-").stdout)["provenance"]
    assert {"what": "ranks", "a": "1", "b": "2"} in provenance
    provenance = json.loads(compare(nccl_tests(10), two, "--json", "-").stdout)["provenance"]
    assert "ranks" not in [entry["what"] for entry in provenance]  # without devices the number of ranks is unknown


def test_differences_exclude_per_rank_environment(compare):
    noise = {"OMPI_COMM_WORLD_LOCAL_SIZE": "2", "PMI_SIZE": "4", "SLURM_STEP_ID": "7", "EMU_TWINS": "/x", "EMU_QUIET": "1",
             "BUSBAR_RANK": "4242 3 4 -1 9", "BUSBAR_SIBLINGS": "0 4 7"}
    done = compare(ONE, bench(*SAME_AS_ONE["results"], environment={**noise, "EMU_CLUSTER": "c.json", "NCCL_ALGO": "Ring"}))
    assert [line.split()[2] for line in done.stdout.splitlines() if "differs" in line] == ["$EMU_CLUSTER:", "$NCCL_ALGO:"]


def test_differences_tell_empty_from_unset(compare):
    done = compare(bench(*SAME_AS_ONE["results"], environment={"EMU_SLOW": ""}), SAME_AS_ONE)
    assert "# differs: $EMU_SLOW: A empty, B not set\n" in done.stdout


def test_table_of_files_names_the_empty_value_of_the_first(busbar, tmp_path):
    for name, value in (("a", ""), ("b", "rank=1:1.2"), ("c", "rank=1:1.3")):
        (tmp_path / f"{name}.json").write_text(json.dumps(bench(*SAME_AS_ONE["results"], environment={"EMU_SLOW": value})))
    done = busbar.run("compare", "a.json", "b.json", "c.json", emulated=False, cwd=tmp_path)
    assert re.findall(r"(\w)\.json .*\$EMU_SLOW (.*)", done.stdout) == [("a", "empty"), ("b", "rank=1:1.2"), ("c", "rank=1:1.3")], done.stdout


def test_compares_runs_of_bench_compute(compare):
    """The GEMMs of one name and type differ by their shape only."""
    def kernel(n, us, **kw):
        return {"section": "gemm", "name": "square", "dtype": "half", "m": n, "n": n, "k": n, "batch": 1,
                "time_us": {"p50": us, "ci95": [us - 1, us + 1]}, **kw}
    timed = {"section": "timed", "sms": 8, "requested_us": 50.0, "time_us": {"p50": 50, "ci95": [49, 51]}}
    done = compare(bench(kernel(512, 10), kernel(1024, 20), timed), bench(kernel(1024, 30), kernel(512, 10), timed), "--json", "-")
    assert [(r["collective"], r["verdict"]) for r in json.loads(done.stdout)["results"]] == [
        ("gemm 512x512x512/1", "no difference"), ("gemm 1024x1024x1024/1", "slower"), ("timed 8 SMs 50 us", "no difference")]
    done = compare(bench(kernel(512, 10)), bench(kernel(512, 20)))
    assert done.stdout.endswith("; slowest gemm 512x512x512/1: +100.0 % time)\n")


def test_links_are_summarized_with_their_causes(compare):
    cause = {"level": "rank", "from": 2, "to": None, "host": "node1", "metric": "bandwidth", "value": 17.7, "median": 27.87}
    done = compare(links(lambda a, b: 10, 4), {**links(lambda a, b: 20, 4), "causes": [cause]})
    assert "# B: cause: rank 2 (node1): bandwidth 17.70 GB/s, other links 27.87\n" in done.stdout
    for other, text in (({"level": "class", "from": None, "host": None, "same_node": False, "median": None}, "all links between nodes: bandwidth 17.70 GB/s"),
                        ({"level": "one_way_path", "from": None, "node": 1, "other_node": 3}, "path from node 1 (node1) to node 3: bandwidth 17.70 GB/s, other links 27.87"),
                        ({"level": "pair", "to": 3, "median": None}, "pair 2 to 3 (node1): bandwidth 17.70 GB/s")):
        text_of = compare(links(lambda a, b: 10, 4), {**links(lambda a, b: 20, 4), "causes": [{**cause, **other}]}).stdout
        assert f"# B: cause: {text}\n" in text_of, text_of
    assert len(verdicts(done)) == 5 and "# 51 more rows: --full, --json, --csv\n" in done.stdout and len(done.stdout.splitlines()) <= 25


def test_json_contains_the_comparison(compare):
    done = compare(A, B, "--json", "-", "--threshold", "20")
    data = json.loads(done.stdout)
    assert done.returncode == 5 and data["schema"] == "busbar.compare/1" and data["status"] == "below threshold"
    assert done.stderr.startswith("busbar: 1 with wrong data, 2 rows slower by more than 20 %, worst: ") and data["reason"] in done.stderr
    assert [r["verdict"] for r in data["results"]] == ["slower", "faster", "no difference", "slower", "wrong data"]
    assert [r["judged_by"] for r in data["results"]] == ["intervals"] * 3 + ["ratio", None]
    assert data["results"][0]["ratio"] == 1.3 and data["results"][0]["b"]["ci95_us"] == [12, 14]
    assert data["results"][3]["a"]["ci95_us"] is None
    assert [r["bytes"] for r in data["only_a"]] == [256] and [r["bytes"] for r in data["only_b"]] == [512]
    assert {"what": "NCCL library", "a": "2.28.9", "b": "2.30.7"} in data["provenance"]
    assert {"what": "$NCCL_ALGO", "a": None, "b": "Ring"} in data["provenance"]
    assert data["summary"]["slower"] == 2 and data["summary"]["over_threshold"] == 2 and data["summary"]["worst_ratio"] == 2
    # four rows have correct data: (1.3 * 0.7 * 1.1 * 2) ** (1/4)
    assert data["summary"]["geometric_mean_ratio"] == pytest.approx(1.18950, abs=1e-5) and data["threshold_percent"] == 20


def test_nccl_tests_text_equals_its_json_file(busbar, tmp_path):
    program = busbar.build / "emulated" / "all_reduce_perf"
    done = busbar.run_program(program, "-b", "1K", "-e", "4M", "-f", "64", "-g", "2", "-J", "a.json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (tmp_path / "a.log").write_text(done.stdout.replace("# Collective test starting: all_reduce_perf\n", ""))
    done = busbar.run("compare", "a.json", "all_reduce=a.log", "--json", "d.json", "--threshold", "1", emulated=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    data = json.loads((tmp_path / "d.json").read_text())
    assert data["summary"]["no_difference"] == len(data["results"]) == 6 and data["summary"]["only_a"] == 0
    assert busbar.run("compare", "a.json", "a.log", emulated=False, cwd=tmp_path).returncode == 2


def test_compares_runs_on_emulated_gpus(busbar, tmp_path):
    """Emulated times are exact: a repeated run has no difference, and a slower machine is slower in every row."""
    common = ("bench", "all_reduce", "broadcast", "-b", "1K", "-e", "4K", "-f", "2", "--json")
    for name, env in (("a", {}), ("b", {}), ("c", {"NCCL_MAX_NCHANNELS": "1"})):
        assert busbar.run(*common, tmp_path / f"{name}.json", ranks=2, env=env).returncode == 0
    done = busbar.run("compare", "a.json", "b.json", "--threshold", "0", emulated=False, cwd=tmp_path)
    assert done.returncode == 0 and set(verdicts(done)) == {"no difference"} and "emulated GPUs" in done.stdout
    changed = json.loads((tmp_path / "b.json").read_text())
    for result in changed["results"]:
        result["time_us"]["p50"] *= 1.1
        result["time_us"]["ci95"] = [1.1 * x for x in result["time_us"]["ci95"]]
    (tmp_path / "b.json").write_text(json.dumps(changed))
    done = busbar.run("compare", "a.json", "b.json", "--threshold", "9", emulated=False, cwd=tmp_path)
    assert done.returncode == 5 and set(verdicts(done)) == {"slower"}
    done = busbar.run("compare", "a.json", "c.json", emulated=False, cwd=tmp_path)
    assert "differs: $NCCL_MAX_NCHANNELS: A not set, B 1" in done.stdout


def test_an_option_that_sets_a_variable_is_one_difference(compare):
    """--ras sets NCCL_RAS_ENABLE, which is a recorded condition; -g 2 is one way to start two ranks."""
    a = {**bench(row(8, 10, 1)), "options": {"ras": True, "gpus": 2}, "environment": {"NCCL_RAS_ENABLE": "1"}}
    b = {**bench(row(8, 10, 1)), "options": {"ras": False, "gpus": 1}, "environment": {}}
    assert re.findall("# differs: .*", compare(a, b).stdout) == ["# differs: $NCCL_RAS_ENABLE: A 1, B not set"]


def test_compares_variants_without_channels(compare):
    """A prediction contains algorithm and protocol; a measurement also contains channels. The verdict is that of the measurement in
    both orders."""
    measured = bench(row(8, 10, 1, algorithm="RING", protocol="SIMPLE", channels=8),
                     row(16, 10, 1, algorithm="TREE", protocol="LL", channels=2))
    predicted = {"schema": "busbar.plan/1", "ranks": 4, "predicted": {"cluster": "x"},
             "results": [row(b, 9, None, algorithm="TREE", protocol="LL", channels=None) for b in (8, 16)]}
    for files in ((measured, predicted), (predicted, measured)):
        done = compare(*files)
        assert verdicts(done) == ["slower by ratio: RING/SIMPLE, was TREE/LL", "slower by ratio"]
        assert done.stdout.splitlines()[-1].startswith("# verdict: slower (")


# ---- several files -------------------------------------------------------------------------------------------------------------


def step_plan(step_us, cluster="h100", fits=True, **options):
    return {"schema": "busbar.plan/1", "proxy": "transformer", "ranks": 8, "nodes": 1, "options": {"cluster": cluster, "fp8": False, **options},
            "predicted": {"cluster": cluster, "step_us": step_us, "tokens_per_s": 1e9 / step_us, "model_flop_utilisation": 0.5,
                          "model_flop_utilisation_causal": 0.4,
                          "memory": {"needed_bytes": 2 << 30, "fits": fits},
                          "breakdown": {"compute_us": step_us / 2, "exposed_transfer_us": step_us / 4, "bubble_us": step_us / 8,
                                        "exposed_waiting_us": step_us / 8, "idle_us": 0.0}}}


PLANS = {"a": step_plan(1000.0, tp=1, pp=None), "b": step_plan(1288.0, tp=2, pp=None), "c": step_plan(800.0, "h800", tp=4, pp=2, fits=False)}


@pytest.fixture
def compare_plans(busbar, tmp_path):
    def run(names, *args):
        for name, plan in PLANS.items():
            (tmp_path / f"{name}.json").write_text(json.dumps(plan))
        return busbar.run("compare", *[f"{name}.json" for name in names], *args, emulated=False, cwd=tmp_path)

    return run


def test_plans_are_a_table_of_what_ifs(compare_plans, golden):
    done = compare_plans("abc")
    assert done.returncode == 0 and done.stderr == "" and len(done.stdout.splitlines()) <= 25
    golden("compare-plans.txt", done.stdout)
    data = json.loads(compare_plans("abc", "--json", "-").stdout)
    assert [row["ratio"] for row in data["results"]] == pytest.approx([1, 1.288, 0.8])
    assert [row["verdict"] for row in data["results"]] == [None, "slower", "does not fit"]
    assert [row["verdict"] for row in json.loads(compare_plans("cc", "--json", "-").stdout)["results"]] == ["does not fit"] * 2
    assert all((row["model_flop_utilisation"], row["model_flop_utilisation_causal"]) == (0.5, 0.4) for row in data["results"])
    assert [row["differs"] for row in data["results"]] == [
        {"predicted for": "h100", "tp": "1", "pp": "1"}, {"predicted for": "h100", "tp": "2", "pp": "1"},
        {"predicted for": "h800", "tp": "4", "pp": "2"}]
    assert [row["exposed_transfer_us"] for row in data["results"]] == [250, 322, 200]
    assert [row["options"]["tp"] for row in data["results"]] == [1, 2, 4]


def test_plans_differ_by_options_that_change_the_prediction(compare_plans):
    """Options of the output are no conditions; null is the recorded value of a plan without --layers and --etp."""
    PLANS["d"], PLANS["e"] = step_plan(1000.0, layers=None, etp=None, full=False), step_plan(1000.0, layers=12, etp=8, full=True)
    (a, b) = json.loads(compare_plans("de", "--json", "-").stdout)["results"]
    assert a["differs"] == {"layers": None, "etp": None} and b["differs"] == {"layers": "12", "etp": "8"}


def test_an_edited_profile_is_a_difference(busbar, tmp_path):
    """The checksum depends on the values, not on the layout of the file."""
    profile = json.loads((ROOT / "profiles/clusters/h100-sxm-ib.json").read_text())
    model = json.loads((ROOT / "profiles/models/gpt2_small.json").read_text())

    def plan(name, indent, **changes):
        (tmp_path / "c.json").write_text(json.dumps({**profile, **changes}, indent=indent))
        (tmp_path / "m.json").write_text(json.dumps(model, indent=indent))
        assert busbar.run("plan", "transformer", "--model", "m.json", "--ranks", "8", "--cluster", "./c.json", "--quiet", "--json", name,
                          emulated=False, cwd=tmp_path).returncode == 0
        return json.loads((tmp_path / name).read_text())["profiles"]

    a, b, c = plan("a.json", 1), plan("b.json", 4), plan("c1.json", 4, sm_count=profile["sm_count"] - 1)
    assert a == b and a["cluster"] != c["cluster"] and a["model"] == c["model"]
    done = busbar.run("compare", "a.json", "b.json", "c1.json", emulated=False, cwd=tmp_path).stdout.splitlines()
    assert [f"contents of ./c.json {a['cluster']}" in line for line in done if ".json   " in line] == [True, False, False], done
    assert f"contents of ./c.json {c['cluster']}" in next(line for line in done if line.startswith(" c1.json")), done


@pytest.mark.parametrize("errors, args, verdict", [
    ((0.17, 0.05), (), "inconclusive"), ((0.05, 0.17), ("--strict",), "inconclusive"), ((0.05, 0.05), (), "slower"), ((None, None), (), "slower"),
    ((0.17, 0.05), ("--threshold", "20"), "no difference"), ((0.17, 0.05), ("--threshold", "1"), "slower")])
def test_a_difference_below_the_model_error_is_no_verdict(busbar, tmp_path, errors, args, verdict):
    for name, us, error in zip("ab", (1000., 1100.), errors):
        plan = step_plan(us, dp_sync="zero3" if name == "a" else "distributed", recompute=None)
        plan["predicted"]["model_error"] = error and {"mean": error}
        (tmp_path / f"{name}.json").write_text(json.dumps(plan))
    for files, percent in (("ab", "+10.0"), ("ba", "-9.1")):
        done = busbar.run("compare", *(f"{f}.json" for f in files), *args, emulated=False, cwd=tmp_path)
        last = f"# verdict: inconclusive: {files[1]}.json ({percent} %) within the model error of 17.0 % (mean error on published steps); --threshold judges by the ratio"
        assert (done.stdout.splitlines()[-1] == last) == (verdict == "inconclusive") and ("fastest" in done.stdout) == (
            files == "ba" and verdict == "slower"), done.stdout
        assert done.returncode == (5 if "--strict" in args or (files == "ab" and "1" in args) else 0)
        assert ("--strict: " + files[1] + ".json: inconclusive" in done.stderr) == ("--strict" in args)
    done = busbar.run("compare", "a.json", "b.json", *args, "--json", "-", emulated=False, cwd=tmp_path)
    assert [(r["verdict"], r["model_error"]) for r in json.loads(done.stdout)["results"]] == [(None, errors[0]), (verdict, errors[1])]


@pytest.mark.parametrize("penalties, args, verdict", [((0., 0.12), (), "inconclusive"), ((0.12, 0.), (), "inconclusive"), ((0.08, 0.09), (), "slower"),
                                                      ((0., 0.12), ("--threshold", "1"), "slower")])
def test_a_difference_below_the_penalty_of_a_best_layout_is_no_verdict(busbar, tmp_path, penalties, args, verdict):
    """The model error is smaller than the difference."""
    for name, us, penalty in zip("ab", (1000., 1100.), penalties):
        plan = step_plan(us, dp_sync="zero3" if name == "a" else "distributed", recompute=None)
        plan["predicted"]["model_error"] = {"mean": 0.03}
        plan["best_layout"] = {"layouts": [{"penalty": penalty}]}
        (tmp_path / f"{name}.json").write_text(json.dumps(plan))
    done = busbar.run("compare", "a.json", "b.json", *args, emulated=False, cwd=tmp_path)
    last = "# verdict: inconclusive: b.json (+10.0 %) within the penalty of 12.0 % that --best-layout adds to such a step before it compares layouts; --threshold judges by the ratio"
    assert (done.stdout.splitlines()[-1] == last) == (verdict == "inconclusive"), done.stdout
    done = busbar.run("compare", "a.json", "b.json", *args, "--json", "-", emulated=False, cwd=tmp_path)
    assert [(r["verdict"], r["penalty"]) for r in json.loads(done.stdout)["results"]] == [(None, penalties[0]), (verdict, penalties[1])]


def test_plans_that_differ_by_values_of_the_profile_share_their_error(busbar, tmp_path):
    """All differences are below the error of 3 %: an option of the layout is inconclusive; values of the profile, slow parts and jitter are not."""
    args = "--model gpt3_1_3b --layers 4 --ranks 16 --tp 4 --micro-batches 2 --dp-sync distributed --cluster h100-sxm-ib --quiet"
    verdicts = {"base": None, "jitter --jitter 3% --samples 3": "slower", "nic --set inter.gbps=46": "slower", "slow --slow node1:0.99": "slower",
                "sequence --sequence-parallel": "inconclusive", "two --set inter.gbps=46 --set intra.gbps=430": "faster",
                "sequence_nic --sequence-parallel --set inter.gbps=48": "inconclusive"}
    for words in verdicts:
        name, *more = words.split()
        assert busbar.run("plan", "transformer", *args.split(), *more, "--json", f"{name}.json", emulated=False, cwd=tmp_path).returncode == 0
    done = busbar.run("compare", *(f"{words.split()[0]}.json" for words in verdicts), "--json", "-", emulated=False, cwd=tmp_path)
    rows = json.loads(done.stdout)["results"]
    rule = " (default, see --threshold) and, unless only --set, --slow, --delay or --jitter differ, the model error\n"
    assert rule in busbar.run("compare", "base.json", "two.json", emulated=False, cwd=tmp_path).stdout
    plan = json.loads((tmp_path / "jitter.json").read_text())["predicted"]
    assert rows[1]["step_us"] == plan["jitter"]["step_us"]["p50"] and rows[1]["tokens_per_s"] * rows[1]["step_us"] == pytest.approx(
        plan["tokens_per_s"] * plan["step_us"])
    assert [row["verdict"] for row in rows] == list(verdicts.values()) and all(abs(row["ratio"] - 1) < 0.03 for row in rows[1:]), [(r["verdict"], r["ratio"], r["model_error"]) for r in rows]


def test_the_peak_of_the_mfu_with_gemms_of_fewer_bits_is_named(busbar, tmp_path):
    args = "transformer --model llama2_7b --layers 4 --ranks 8 --seq-length 4096 --micro-batches 4 --cluster gb300-nvl72"
    for name, more in (("bf16", ""), ("nvfp4", "--gemm-precision nvfp4"), ("fp8", "--fp8")):
        busbar.run("plan", *args.split(), *more.split(), "--json", f"{name}.json", emulated=False, cwd=tmp_path)
    compared = [busbar.run("compare", *(f"{name}.json" for name in names), emulated=False, cwd=tmp_path).stdout
                for names in (("bf16", "nvfp4"), ("bf16", "fp8", "nvfp4"), ("bf16", "bf16"))]
    assert "\n# MFU: of the peak of 8- or 4-bit GEMMs: nvfp4.json\n" in compared[0]
    assert "\n# MFU: of the peak of 8- or 4-bit GEMMs: fp8.json, nvfp4.json\n" in compared[1] and "# MFU" not in compared[2]


def test_few_differences_are_all_shown(compare_plans):
    """Six options are not cut, and an option that was not given has no trailing blank; of more, --full shows all."""
    long = {f"option_{k}_with_a_long_name": "value" for k in range(6)}
    PLANS["f"], PLANS["g"] = step_plan(1000.0, recompute="full", **dict.fromkeys(long)), step_plan(1000.0, recompute=None, **long)
    assert compare_plans("fg").stdout.count("-with-a-long-name") == 5 and ", 1 more\n" in compare_plans("fg").stdout
    assert "--recompute none, " in compare_plans("fg").stdout
    full = compare_plans("fg", "--full").stdout
    assert full.count("-with-a-long-name") == 6 and " more" not in full


def test_csv_of_plans_has_their_options(compare_plans):
    rows = list(csv.DictReader(io.StringIO(compare_plans("abc", "--csv", "-").stdout)))
    assert {r["busbar"] for r in rows} == {""}  # of the file, which has no version
    assert [(r["file"], r["ranks"], r["options.tp"], r["options.cluster"], r["step_us"]) for r in rows] == [
        ("a.json", "8", "1", "h100", "1000"), ("b.json", "8", "2", "h100", "1288"), ("c.json", "8", "4", "h800", "800")]


def test_different_models_have_no_ratio(busbar, tmp_path):
    """The rows have the same name, but are steps of other models. The prediction is A, although it is given last."""
    (tmp_path / "run.json").write_text(json.dumps({"schema": "busbar.proxy/1", "proxy": "transformer", "ranks": 4, "nodes": 1, "parameters": 124e6,
                                                   "step_us": {"p50": 1e4}, "status": "ok", "options": {"model": "gpt2_small"}}))
    assert busbar.run("plan", "transformer", "--model", "gpt2_xl", "--ranks", 4, "--cluster", "h100-sxm-ib", "--json", tmp_path / "plan.json",
                      emulated=False).returncode == 0
    done = busbar.run("compare", "run.json", "plan.json", "--threshold", 5, emulated=False, cwd=tmp_path)
    assert "# A plan.json (the prediction is A in any order)\n# B run.json\n" in done.stdout
    assert "# verdict: different model" in done.stdout and "faster by ratio" not in done.stdout and "# B/A: " not in done.stdout
    assert done.returncode == 5 and "plan.json and run.json have no common row: their models differ" in done.stderr


@pytest.mark.parametrize("files,threshold,status,verdict", [
    ("ab", (), 0, "slower"), ("ab", ("--strict",), 0, "slower"), ("aa", ("--strict", "--threshold", "0"), 0, "no difference"),
    ("ab", ("--threshold", "28"), 5, "slower"), ("ab", ("--threshold", "29"), 0, "no difference"), ("ba", ("--threshold", "0"), 0, "faster"),
    ("cab", ("--threshold", "30"), 5, "no difference")])
def test_predictions_are_judged_by_ratio(compare_plans, files, threshold, status, verdict):
    """Times: a 1000 us, b 1288 us, c 800 us; a/c = 1.25, b/c = 1.61."""
    done = compare_plans(files, *threshold, "--json", "-")
    assert done.returncode == status
    assert json.loads(done.stdout)["results"][1]["verdict"] == verdict
    assert ("slower than in" in done.stderr) == (status == 5)


def test_plans_of_collectives_are_exact(compare):
    def predicted(time):
        rows = [row(8, 10, None), row(16, time, None)]
        return {"schema": "busbar.plan/1", "ranks": 4, "predicted": {"cluster": "x"}, "results": rows}

    assert verdicts(compare(predicted(10), predicted(10.5), "--strict")) == ["no difference by ratio", "slower by ratio"]
    assert verdicts(compare(predicted(10), predicted(10.5), "--threshold", 6)) == ["no difference by ratio"] * 2


def test_runs_of_a_proxy_are_judged_by_their_intervals(busbar, tmp_path):
    for name, low, high in (("a", 90, 110), ("b", 105, 115), ("c", 111, 130)):
        (tmp_path / f"{name}.json").write_text(json.dumps({
            "schema": "busbar.proxy/1", "proxy": "gpt3", "status": "ok", "ranks": 4, "step_us": {"p50": (low + high) / 2, "ci95": [low, high]},
            "environment": {"NCCL_ALGO": "Ring"} if name == "c" else {}, "options": {"dtype": "float"}, "emulated": name != "c"}))
    done = busbar.run("compare", "a.json", "b.json", "c.json", "--json", "-", emulated=False, cwd=tmp_path)
    results = json.loads(done.stdout)["results"]
    assert [r["verdict"] for r in results] == [None, "no difference", "slower"]
    assert [r["differs"] for r in results] == [{"$NCCL_ALGO": None, "emulated": "yes"}] * 2 + [{"$NCCL_ALGO": "Ring", "emulated": "no"}]
    for names, note in (("ab", "# emulated GPUs: "), ("ac", "# some files: emulated GPUs: ")):
        text = busbar.run("compare", *(f"{name}.json" for name in names), emulated=False, cwd=tmp_path).stdout
        assert f"{note}all times come from a model, none is a measurement of hardware\n" in text


@pytest.mark.parametrize("args,rule,verdict", [((), "10 % (default, see --threshold)", "no difference"), (("--threshold", 5), "5 % (--threshold)", "slower")])
def test_several_files_without_intervals_are_judged_by_the_printed_rule(busbar, tmp_path, args, rule, verdict):
    """A prediction, and measurements that take 6.3 and 20 % longer."""
    predicted = {"schema": "busbar.plan/1", "ranks": 4, "predicted": {"cluster": "x"}, "results": [row(8, 100, None)]}
    for name, tree in (("a", predicted), ("b", bench(row(8, 106.3, None))), ("c", bench(row(8, 120, None)))):
        (tmp_path / f"{name}.json").write_text(json.dumps(tree))
    done = busbar.run("compare", "a.json", "b.json", "c.json", *args, "--json", "compared.json", emulated=False, cwd=tmp_path)
    assert done.stdout.count(f"\n# predictions have no interval, so a row is slower if the ratio exceeds 1 + {rule}\n") == 1
    assert [of["verdict"] for of in json.loads((tmp_path / "compared.json").read_text())["results"]] == [None, verdict, "slower"]


def test_several_bench_files_are_judged_by_their_rows(busbar, tmp_path):
    for name, times in (("a", (10, 10)), ("b", (20, 10)), ("c", (5, 10))):
        (tmp_path / f"{name}.json").write_text(json.dumps(bench(*[row(8 << i, time, 1, busbw_gbps=100 / time) for i, time in enumerate(times)])))
    done = busbar.run("compare", "a.json", "b.json", "c.json", "--json", "-", "--threshold", 50, emulated=False, cwd=tmp_path)
    assert done.returncode == 5 and "b.json: 1 row slower than in a.json by more than 50 %, worst: all_reduce 8 B: +100.0 % time" in done.stderr
    (tmp_path / "d.json").write_text(json.dumps(bench(row(8, 16, 1), row(16, 10, 1))))
    of_both = busbar.run("compare", "a.json", "d.json", "b.json", "--threshold", 50, emulated=False, cwd=tmp_path).stderr
    assert "b.json: 1 row" in of_both and ", worst: all_reduce 8 B: +100.0 % time; and 1 more file\n" in of_both
    (tmp_path / "w.json").write_text(json.dumps(bench(row(8, 20, 1), row(16, 10, 1, wrong=1))))
    (tmp_path / "r.json").write_text(json.dumps(bench(row(8, 20, 1)) | {"status": "running"}))
    for files, text in [(("a", "w", "b"), "+100.0 % time; and 1 more file; w.json: wrong data\n"), (("r", "a", "b"), "a.json: run incomplete (of the first file)\n")]:
        assert busbar.run("compare", *(f"{f}.json" for f in files), "--threshold", 50, emulated=False, cwd=tmp_path).stderr.endswith(text)
    results = json.loads(done.stdout)["results"]
    assert [(r["rows"], r["faster"], r["slower"], r["verdict"]) for r in results] == [
        (2, 0, 0, None), (2, 0, 1, "slower"), (2, 1, 0, "not slower")]
    assert [r["ratio"] for r in results] == pytest.approx([1, 2 ** 0.5, 0.5 ** 0.5]) and [r["busbw_gbps"] for r in results] == [10, 7.5, 15]
    assert json.loads(done.stdout)["checks"][0]["reason"] == "slower: all_reduce 8 B: +100.0 % time, required at most +50 %"
    for threshold, status, verdict in ((-1, 0, "slower"), (50, 5, "slower"), (150, 0, "not slower")):
        done = busbar.run("compare", "a.json", "c.json", "b.json", "--threshold", threshold, emulated=False, cwd=tmp_path)
        assert done.returncode == status
        more = f" by more than {threshold} %" if threshold > 0 else ""
        within = ", within --threshold" if verdict == "not slower" else ""
        assert re.search(rf"# worst verdict: {verdict}{more} \(b.json: 0 faster, 1 slower of 2 rows; slowest all_reduce 8 B: \+100.0 % time{within}\)\n$", done.stdout)


@pytest.mark.parametrize("first, how", [(15, ", in 1 by more than those files differ; slowest: all_reduce 8 B, +25.0 %"),
                                         (13, " (by chance about 1, if nothing has changed); slowest: all_reduce 8 B, +8.3 %")])
def test_last_of_several_files_is_compared_with_the_range_of_the_others(busbar, tmp_path, first, how):
    """Row 1 is slower than in each other file, row 2 faster, row 3 in the range, and row 4 is not in all files. The first file is an outlier."""
    times = {"mon": (10, 10, 30), "tue": (12, 11, 10, 5), "wed": (11, 12, 11, 5), "thu": (first, 9, 20, 9)}
    for name, of_rows in times.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(bench(*[row(8 << i, time, 0.1) for i, time in enumerate(of_rows)])))
    done = busbar.run("compare", *(f"{name}.json" for name in times), emulated=False, cwd=tmp_path)
    assert (f"\n# thu.json: slower than all 3 files before it in 1 of 3 rows{how} time over the slowest of them, "
            "which is 20.0 % over the fastest; faster than all of them in 1\n") in done.stdout
    assert "files before it" not in busbar.run("compare", "mon.json", "tue.json", "wed.json", emulated=False, cwd=tmp_path).stdout


@pytest.mark.parametrize("args, verdict, status", [((), "slower", 0), (("--threshold", "5"), "slower", 5)])
def test_several_nccl_tests_files_have_a_verdict(busbar, tmp_path, args, verdict, status):
    for name, time in (("mon", 10), ("tue", 10), ("wed", 16.06)):
        (tmp_path / f"{name}.json").write_text(json.dumps(nccl_tests(10, time)))
    done = busbar.run("compare", "mon.json", "tue.json", "wed.json", *args, emulated=False, cwd=tmp_path)
    assert done.returncode == status and "try: --threshold PERCENT" not in done.stdout
    more = " by more than 5 %" if args else ""
    assert re.search(rf"# worst verdict: {verdict}{more} \(wed.json: 0 faster, \d slower of 2 rows; slowest all_reduce 16 B: \+60.6 % time\)\n$", done.stdout)


@pytest.mark.parametrize("status, verdict", [("ok", "slower"), ("below threshold", "run failed, status 'below threshold'")])
def test_slowdown_of_one_row_that_threshold_allows(busbar, tmp_path, status, verdict):
    """The last line does not claim that the row is slower by more than the threshold, and a limit of the run's own is no slowdown."""
    for name, time in (("a", 123456), ("b", 148147.2)):
        (tmp_path / f"{name}.json").write_text(json.dumps(bench(row(8, time, 0.1)) | ({"status": status, "reason": "x: 1 GB/s"} if name == "b" else {})))
    done = busbar.run("compare", "a.json", "a.json", "b.json", "--threshold", 30, emulated=False, cwd=tmp_path)
    assert done.stdout.splitlines()[-1] == f"# worst verdict: {verdict} (b.json: all_reduce 8 B: +20.0 % time, within --threshold)"
    done = busbar.run("compare", "a.json", "b.json", "--threshold", 30, "--junit", "j.xml", emulated=False, cwd=tmp_path)
    none = "" if status == "ok" else ", 0 by more than 30 %"
    assert done.stdout.endswith(f" (0 faster, 1 slower of 1 row{none}; slowest all_reduce 8 B: +20.0 % time)\n")
    assert "warning: slower (within --threshold) (B/A 1.200, required at most 1.3: A 123456 us, B 148147 us)<" in (tmp_path / "j.xml").read_text()
    assert done.returncode == (0 if status == "ok" else 5)


ROLES = {"first stage": (0, 40., 60.), "last stage": (4, 70., 30.)}


def of_role(role, rank, compute_us, waiting_us):
    return {"rank": rank, "role": role, "compute_us": compute_us, "exposed_transfer_us": 0., "bubble_us": 0., "exposed_waiting_us": waiting_us,
            "idle_us": 0., "groups": [{"name": "dp", "busy_us": waiting_us}]}


def step_of(slowest, roles, step_us=100., measured=False):
    """A plan or a run whose slowest rank has the role `slowest`."""
    listed = [of_role(role, *values) for role, values in roles.items()]
    (one,) = (role for role in listed if role["role"] == slowest)
    step = {"breakdown": one, "breakdown_by_role": listed, "groups": one["groups"]}
    head = {"proxy": "gpt3", "status": "ok", "ranks": 8, "options": {}}
    if measured:
        return {"schema": "busbar.proxy/1", **head, **step, "step_us": {"p50": step_us, "ci95": None}}
    return {"schema": "busbar.plan/1", **head, "predicted": {"cluster": "h100", "step_us": step_us, **step}}


def test_waits_for_launches_are_a_part_of_compute(busbar, tmp_path):
    """The kernels of A and B are equal; only A waits for its host. The wait is known of the slowest rank of all roles only."""
    for name, slowest, roles, waits in (("a", "whole", {"whole": (0, 80., 20.)}, 40.), ("b", "whole", {"whole": (0, 40., 60.)}, 0.5),
                                        ("c", "last stage", ROLES, 30.), ("d", "first stage", ROLES, 30.)):
        plan = step_of(slowest, roles)
        plan["predicted"]["sharing"] = {"launch_wait_us": waits}
        (tmp_path / f"{name}.json").write_text(json.dumps(plan))
    for names, expected in (("ab", [40, 0.5]), ("bb", [0.5, 0.5]), ("cd", [30, None])):
        files = [f"{name}.json" for name in names]
        done = busbar.run("compare", *files, "--json", "-", emulated=False, cwd=tmp_path)
        assert [row["launch_wait_us"] for row in json.loads(done.stdout)["results"]] == expected
        text = busbar.run("compare", *files, emulated=False, cwd=tmp_path).stdout
        assert ("; launches: part of compute in which kernels wait for the host to launch them\n" in text) == (names != "bb")
        assert ("compute  launches  transfer" in text) == (names != "bb")
        assert names != "ab" or re.search(r"^ a.json .* 80\.0 +40\.0 +0\.0", text, re.M), text


def test_parts_of_a_step_are_of_the_same_role(busbar, tmp_path):
    """The slowest rank is of the last stage in A and of the first stage in B. Compute of the last stage is equal in both."""
    for name, data in (("a", step_of("last stage", ROLES)), ("b", step_of("first stage", {**ROLES, "first stage": (1, 80., 20.)}, 120.)),
                       ("c", step_of("whole model", {"whole model": (2, 90., 10.)}))):
        (tmp_path / f"{name}.json").write_text(json.dumps(data))
    done = busbar.run("compare", "a.json", "b.json", "c.json", "--json", "-", emulated=False, cwd=tmp_path)
    assert [(row["rank"], row["role"], row["compute_us"]) for row in json.loads(done.stdout)["results"]] == [
        (4, "last stage", 70), (4, "last stage", 70), (2, "whole model", 90)]
    text = busbar.run("compare", "a.json", "c.json", emulated=False, cwd=tmp_path).stdout
    assert "compute to idle: of the slowest rank, whose role differs (--csv)" in text
    text = busbar.run("compare", "a.json", "b.json", emulated=False, cwd=tmp_path).stdout
    assert "compute to idle: of the slowest rank of role last stage" in text and "differs between the files" in text
    (tmp_path / "run.json").write_text(json.dumps(step_of("first stage", {**ROLES, "first stage": (1, 80., 20.)}, 120., measured=True)))
    done = busbar.run("compare", "a.json", "run.json", "--json", "-", emulated=False, cwd=tmp_path)
    parts = {part["name"]: (part["measured_us"], part["predicted_us"]) for part in json.loads(done.stdout)["summary"]["against_prediction"]["parts"]}
    assert parts["compute"] == (80, 40) and parts["dp"] == (20, 60)


@pytest.mark.parametrize("step_us, verdict", [(100.4, "no difference"), (99.6, "no difference"), (100.64, "slower"), (99.4, "faster")])
def test_plans_within_half_a_percent_have_no_difference(busbar, tmp_path, step_us, verdict):
    for name, us in (("a", 100.), ("b", step_us)):
        (tmp_path / f"{name}.json").write_text(json.dumps(step_of("last stage", ROLES, us)))
    done = busbar.run("compare", "a.json", "b.json", emulated=False, cwd=tmp_path)
    assert f"  {verdict}  " in done.stdout and ("fastest" in done.stdout) == (verdict == "faster")
    done = busbar.run("compare", "a.json", "b.json", "--threshold", 0.62, emulated=False, cwd=tmp_path)
    assert done.returncode == (5 if step_us == 100.64 else 0) and ("slower than in a.json by more than 0.62 %, worst: gpt3 step: +0.64 % time" in done.stderr) == bool(done.returncode)


def test_an_inconclusive_step_has_its_reason(busbar, tmp_path):
    for name, us in (("a", 100.), ("b", 118.)):
        (tmp_path / f"{name}.json").write_text(json.dumps(step_of("last stage", ROLES, us, measured=True)))
    done = busbar.run("compare", "a.json", "b.json", emulated=False, cwd=tmp_path)
    assert "\n# inconclusive: fewer than 6 steps or samples have no confidence interval; try: --threshold PERCENT" in done.stdout
    assert "inconclusive" not in busbar.run("compare", "a.json", "b.json", "--threshold", 5, emulated=False, cwd=tmp_path).stdout
    for name, us in (("a", 100.), ("b", 118.)):  # the intervals overlap
        step = step_of("last stage", ROLES, us, measured=True)
        step["step_us"] |= {"ci95": [us - 20, us + 20]}
        (tmp_path / f"{name}.json").write_text(json.dumps(step))
    done = busbar.run("compare", "a.json", "b.json", "--threshold", 5, emulated=False, cwd=tmp_path)
    assert "\n# inconclusive: the samples do not exclude a slowdown above 5 %; try: 4 times as many (-n)\n" in done.stdout, done.stdout


def test_reads_one_file_from_stdin(busbar, tmp_path):
    (tmp_path / "a.json").write_text(json.dumps(PLANS["a"]))
    command = [str(word) for word in busbar.command("compare", "a.json", "-", "--json", "-", emulated=False)]
    done = subprocess.run(command, input=json.dumps(PLANS["b"]), cwd=tmp_path, env=busbar.environment({}), capture_output=True, text=True,
                          timeout=60)
    assert done.returncode == 0 and json.loads(done.stdout)["results"][1]["ratio"] == pytest.approx(1.288)


def test_many_files_fit_in_25_lines(busbar, tmp_path):
    names = [f"p{i}.json" for i in range(30)]
    for i, name in enumerate(names):
        (tmp_path / name).write_text(json.dumps(step_plan(1000.0 + i, fits=i != 3, **{f"option_{k}": i for k in range(9)})))
    done = busbar.run("compare", *names, emulated=False, cwd=tmp_path)
    assert done.returncode == 0 and len(done.stdout.splitlines()) <= 25
    assert len(re.findall(r"^ p\d+\.json", busbar.run("compare", *names, "--full", emulated=False, cwd=tmp_path).stdout, re.M)) == 30
    assert "# 16 more files: --full, --json, --csv" in done.stdout and "DOES NOT FIT in GPU memory: p3.json" in done.stdout


SMALL = ("transformer", "--model", "llama3_8b", "--ranks", "8", "--tp", "2", "--global-batch-size", "8")
MADE = {
    "base": SMALL, "batch": (*SMALL, "--global-batch-size", "16"), "ranks": (*SMALL, "--ranks", "16"),
    "model": (*SMALL, "--model", "qwen2_7b"), "slow": (*SMALL, "--slow", "node0:0.5"), "b200": (*SMALL, "--cluster", "b200-sxm-ib"),
    "fp8": (*SMALL, "--fp8"), "length": (*SMALL, "--seq-length", "8192"), "half": (*SMALL, "--seq-length", "4096"), "misfit": (*SMALL, "--tp", "1"), "images": ("resnet152", "--ranks", "8"),
    "images_twice": ("resnet152", "--ranks", "16"), "zero3": (*SMALL, "--dp-sync", "zero3"),
    "plain": (*SMALL, "--software", "megatron-plain")}


@pytest.fixture
def compare_made(busbar, tmp_path):
    def run(names, *args):
        for name in names:
            done = busbar.run("plan", "--cluster", "h100-sxm-ib", *MADE[name], "--quiet", "--json", f"{name}.json", emulated=False, cwd=tmp_path)
            assert done.returncode == 0, done.stderr
        files = {name: json.loads((tmp_path / f"{name}.json").read_text()) for name in names}
        return files, busbar.run("compare", *[f"{name}.json" for name in names], *args, emulated=False, cwd=tmp_path)

    return run


@pytest.mark.parametrize("names, measure", [
    (("base", "batch"), "time per token"), (("batch", "base"), "time per token"), (("base", "fp8"), "time"),
    (("base", "ranks"), "GPU seconds per step"), (("images", "images_twice"), "GPU seconds per sample")])
def test_steps_of_different_work_are_judged_by_throughput(compare_made, names, measure):
    files, done = compare_made(names, "--threshold", "1")
    rate = [(file["predicted"]["tokens_per_s"] or file["samples"] / file["predicted"]["step_us"]) / file["ranks"] for file in files.values()]
    assert f"{measure} / {measure} of {names[0]}.json" in done.stdout
    line = next(line for line in done.stdout.splitlines() if line.startswith(f" {names[1]}.json")).split()
    assert float(line[2]) == pytest.approx(rate[0] / rate[1], abs=6e-4)
    assert done.returncode == (5 if rate[0] > 1.01 * rate[1] else 0) and (measure in done.stderr) == (done.returncode == 5)
    gpus = len({file["ranks"] for file in files.values()}) > 1
    assert (f"# {'most efficient' if gpus else 'fastest'}: {names[1]}.json" in done.stdout) == (rate[1] > rate[0])
    assert not gpus or not re.search("faster|slower", done.stdout)
    assert re.search(rf"^# verdict: .*step: \S+ % {measure}\)$", done.stdout, re.M), done.stdout


def test_software_and_recomputation_that_busbar_assumes_are_differences(compare_made):
    """--dp-sync zero3 has the rates of torch, and fits without the recomputation that busbar adds to the first plan."""
    files, done = compare_made(("base", "zero3"))
    base, zero3 = (file["predicted"]["compute"] for file in files.values())
    assert (base["software"], zero3["software"], zero3["added"]) == ("megatron", "torch", None)
    assert all(file["options"]["software"] is file["options"]["recompute"] is None for file in files.values())
    added = re.findall(r"--(\S+) (\S+)", base["added"])
    lines = {line.split()[0]: line for line in done.stdout.splitlines() if line.startswith(" ")}
    assert len(added) == 2 and all(f"--{name} {value}" in lines["base.json"] and f"no --{name}" in lines["zero3.json"] for name, value in added)
    assert "--software megatron" in lines["base.json"] and "--software torch" in lines["zero3.json"]
    assert "# rates of different software: by default, base.json: megatron, zero3.json: torch; for equal rates, give all plans the same --software\n" in done.stdout
    assert "software" not in compare_made(("base", "batch"))[1].stdout
    assert "by default" not in compare_made(("base", "batch", "plain"))[1].stdout  # the defaults are equal


@pytest.mark.parametrize("name, verdict", [("model", "different model"), ("misfit", "does not fit")])
def test_no_verdict_for_different_models_and_misfits(compare_made, name, verdict):
    done = compare_made(("base", name))[1]
    assert done.returncode == 0 and done.stderr == "" and verdict in done.stdout and "fastest" not in done.stdout
    assert name != "model" or done.stdout.endswith("\n# verdict: different model (model.json)\n")
    compared = json.loads(compare_made(("base", name), "--json", "-")[1].stdout)
    assert [(c["status"], c["reason"]) for c in compared["checks"]] == [("unknown" if name == "model" else "warn", verdict)]
    done = compare_made(("base", name), "--strict", "--threshold", "1000")[1]
    assert done.returncode == 5 and done.stderr == f"busbar: --{'threshold' if name == 'model' else 'strict'}: {name}.json: {verdict}\n"


def test_names_the_first_file_if_it_matches_no_other(compare_made):
    """The first file has another model than all others: it is the cause, not the verdicts of the others."""
    assert compare_made(("model", "base", "batch"))[1].stdout.splitlines()[-1] == (
        "# nothing compared: the first file, model.json, has no row in common with the others; try: another first file")
    assert "nothing compared" not in compare_made(("base", "model", "batch"))[1].stdout


def test_each_line_names_what_differs_from_the_first_file(compare_made):
    done = compare_made(("base", "slow", "b200", "fp8", "batch"))[1]
    lines = {line.split()[0]: line for line in done.stdout.splitlines() if line.startswith(" ")}
    for name, text in (("slow", "--slow node0:0.5"), ("b200", "predicted for b200-sxm-ib, --recompute none, no --recompute-num-layers"),
                       ("fp8", "--recompute-num-layers 24, --fp8 yes"), ("batch", "--global-batch-size 16")):
        assert lines[f"{name}.json"].endswith(f"  {text}"), lines


def test_a_default_length_is_shown_as_the_length_of_the_model(compare_made):
    """llama3_8b has 8192 positions."""
    done = compare_made(("base", "length", "half"), "--json", "-")[1]
    assert [row["differs"]["seq-length"] for row in json.loads(done.stdout)["results"]] == ["8192", "8192", "4096"]


def test_steps_that_nccl_lacks_are_no_rows_of_comm(compare):
    steps = [{"step": step, "ranks": 2, "parts": 2, "bytes": 64, "time_us": us and {"p50": us, "ci95": [us, us]}}
             for step, us in (("init", 9), ("window_register", None))]
    done = compare(bench(*steps), bench(*steps), "--strict")
    assert done.returncode == 0 and [v.endswith(" 1.000 no difference") for v in verdicts(done)] == [True] and "0 inconclusive; only in A 0" in done.stdout


def test_different_work_of_overlap_is_not_compared(compare):
    """bench overlap chooses the numbers of GEMMs and collectives; a sample with more of them takes longer."""
    def sample(gemms, us):
        return {"collective": "all_reduce", "bytes": 64, "dtype": "float", "op": "sum", "root": None, "max_ctas": None, "gemms": gemms,
                "collectives": 10, "both_us": {"p50": us, "ci95": [us, us]}}
    done = compare(bench(sample(1, 5), sample(2, 10)), bench(sample(2, 11)))
    assert "only in A 1, only in B 0" in done.stdout and "# 0 faster, 1 slower" in done.stdout and "10 all_reduce+2 gemm default" in done.stdout
    assert "have no common row; try: --gemms 3 in both runs\n" in compare(bench(sample(3, 5)), bench(sample(2, 5))).stderr


def test_rows_of_split_runs_and_of_communicators_are_told_apart(compare):
    row = {"collective": "all_reduce", "bytes": 64, "group": 1, "time_us": {"p50": 1, "ci95": [1, 1]}}
    step = {"step": "init", "ranks": 4, "parts": 2, "bytes": 64, "time_us": {"p50": 1, "ci95": [1, 1]}}
    out = compare(bench(row, {**row, "group": 0}, step), bench(row, {**row, "group": 0}, step)).stdout
    assert all(name in out for name in ("all_reduce group 0 ", "all_reduce group 1 ", "init, 4 ranks, 2 parts ")), out


def test_plans_with_given_and_own_compute_times_differ(busbar, tmp_path):
    """119.8 is the default of --tflops, so both plans have the same options, but only the second computes by that rate."""
    for name, args in (("a", ()), ("b", ("--tflops", "119.8"))):
        done = busbar.run("plan", "data_parallel", "--model", "resnet50", "--ranks", 8, "--cluster", "h100-sxm-ib", *args, "--quiet", "--json", f"{name}.json",
                          emulated=False, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    done = busbar.run("compare", "a.json", "b.json", "--json", "c.json", emulated=False, cwd=tmp_path)
    assert "compute rates" in done.stdout and "given" in done.stdout and "proxy" in done.stdout, done.stdout


def test_a_forecast_records_no_rate_that_it_does_not_use(busbar, tmp_path):
    """The command of the recorded options gives the same plan; with --tflops 119.8 it would have the kernels of a proxy."""
    steps = []
    for args, compute, tflops in (((), None, None), (("--tflops", 119.8), "timed", 119.8), (("--compute", "gemm"), "gemm", None)):
        path = tmp_path / "r.json"
        done = busbar.run("plan", "transformer", "--model", "llama3_8b", "--ranks", 8, "--tp", 8, "--cluster", "h100-sxm-ib", *args,
                          "--quiet", "--json", path, emulated=False)
        plan = json.loads(path.read_text())
        assert done.returncode == 0 and (plan["options"]["compute"], plan["options"]["tflops"]) == (compute, tflops), done.stderr
        steps.append(plan["predicted"]["step_us"])
    assert len(set(steps)) == 3


def test_file_of_zero_bytes_is_refused(busbar):
    """It has no end of line, so that reading it as nccl-tests output would not end."""
    done = busbar.run("compare", "/dev/zero", "/dev/zero", emulated=False, timeout=20)
    assert done.returncode == 2 and done.stderr == "busbar: /dev/zero: begins with a zero byte, expected JSON or nccl-tests output\n"


def test_reference_that_missed_its_threshold_is_a_warning(compare):
    row = {"collective": "all_reduce", "bytes": 64, "time_us": {"p50": 1, "ci95": [1, 1]}}
    missed, good = {**bench(row), "status": "below threshold"}, bench(row)
    assert "a.json: the run ended with status 'below threshold', so it is a doubtful reference" in compare(missed, good).stderr
    assert compare(good, missed).stderr == ""


def test_the_last_line_is_a_verdict_on_all_plans(busbar, tmp_path):
    for name, us in zip("abc", (1000., 1050., 1420.)):
        plan = step_plan(us, dp_sync="zero3" if name == "a" else "distributed", recompute=None)
        plan["predicted"]["model_error"] = {"mean": 0.17}
        (tmp_path / f"{name}.json").write_text(json.dumps(plan))
    three = busbar.run("compare", "a.json", "b.json", "c.json", emulated=False, cwd=tmp_path).stdout.splitlines()
    assert three[-2].startswith("# inconclusive: b.json (+5.0 %)") and three[-1].startswith("# worst verdict: slower (c.json: transformer step"), three
    three = busbar.run("compare", "a.json", "b.json", "a.json", emulated=False, cwd=tmp_path).stdout.splitlines()
    assert three[-1].startswith("# worst verdict: inconclusive (b.json: "), three
    (tmp_path / "b.json").write_text((tmp_path / "b.json").read_text().replace("1050.0", "950.0"))
    three = busbar.run("compare", "a.json", "b.json", "a.json", emulated=False, cwd=tmp_path).stdout.splitlines()
    assert three[-1].startswith("# worst verdict: inconclusive (b.json: "), three
    three = busbar.run("compare", "c.json", "a.json", "b.json", emulated=False, cwd=tmp_path).stdout.splitlines()
    assert three[-1] == "# verdict: all faster; least: b.json (transformer step: -26.1 % time per token)", three
    two = busbar.run("compare", "a.json", "c.json", "--threshold", "1", emulated=False, cwd=tmp_path)
    assert two.returncode == 5 and two.stdout.splitlines()[-1].startswith("# verdict: slower by more than 1 % (c.json: transformer step"), two.stdout


def test_a_best_layout_differs_from_the_plan_of_its_command_in_no_condition(busbar, tmp_path):
    """The times of both are those of training with the tokens of the model's context; a search has no role of the slowest rank."""
    search, same, short, other = (tmp_path / f"{name}.json" for name in ("search", "same", "short", "other"))
    args = "--model llama3_8b --layers 4 --ranks 8 --global-batch-size 8 --cluster h100-sxm-ib --quiet"
    assert busbar.run("plan", "transformer", *args.split(), "--best-layout", "--top", 1, "--json", search, emulated=False).returncode == 0
    command = json.loads(search.read_text())["best_layout"]["layouts"][0]["command"].split()
    assert busbar.run(*command[1:], "--quiet", "--json", same, emulated=False).returncode == 0
    given = re.sub(r" --(tp|pp|cp|ep) 1\b| --dp \d+| --recompute none", "", " ".join(command[1:]))
    assert len(given.split()) < len(command) - 6 and busbar.run(*given.split(), "--quiet", "--json", short, emulated=False).returncode == 0
    assert "environment: equal where" in busbar.run("compare", search, short, emulated=False).stdout
    assert busbar.run("plan", "transformer", *args.split(), "--tp", 8, "--json", other, emulated=False).returncode == 0
    for files in ((search, same), (same, search), (search, other), (other, search)):
        text = busbar.run("compare", *files, emulated=False).stdout
        assert "kernels of the proxy" not in text and "--seq-length" not in text and "whose role differs" not in text


def test_a_trace_of_a_profiler_is_refused_with_what_to_do(busbar, tmp_path):
    (tmp_path / "kineto.json").write_text('{"schemaVersion": 1, "traceEvents": [{"ph": "X", "name": "ncclDevKernel"}]}')
    done = busbar.run("compare", "kineto.json", "kineto.json", emulated=False, cwd=tmp_path)
    assert done.returncode == 2 and done.stderr == ("busbar: kineto.json: busbar reads no traces of profilers; try: busbar plan or proxy with the options of this run and "
                                                    "--json FILE, and compare its step time with the trace\n")


@pytest.mark.parametrize("first,either", [(1, True), (8, False)])
def test_the_verdict_names_a_first_plan_that_does_not_fit_either(busbar, tmp_path, first, either):
    for name, tp in (("a", first), ("b", 1)):
        busbar.run("plan", "transformer", *f"--model llama3_8b --ranks 8 --cluster h100-sxm-ib --tp {tp} --recompute full --json {name}.json".split(), emulated=False, cwd=tmp_path)
    last = busbar.run("compare", "a.json", "b.json", emulated=False, cwd=tmp_path).stdout.splitlines()[-1]
    assert last.startswith("# verdict: does not fit (b.json") and last.endswith("; the first file does not fit either)") == either, last
