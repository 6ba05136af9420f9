"""busbar compare: two result files against each other, from the command line."""
import json

import pytest


def row(bytes_, median, spread, **kw):
    interval = [median - spread, median + spread] if spread is not None else None
    return {"collective": "all_reduce", "bytes": bytes_, "dtype": "float", "op": "sum", "root": None, "placement": "out_of_place",
            "mode": "stream", "wrong": 0, "time_us": {"p50": median, "ci95": interval}, **kw}


def bench(*rows, **kw):
    return {"schema": "busbar.bench/1", "busbar": "0.1.0", "nccl": {"runtime": "2.28.9"}, "ranks": 4,
            "devices": [{"name": "H200"}] * 4, "environment": {}, "results": list(rows), "status": "ok", **kw}


@pytest.fixture
def compare(busbar, tmp_path):
    def run(a, b, *words):
        for name, content in (("a.json", a), ("b.json", b)):
            (tmp_path / name).write_text(content if isinstance(content, str) else json.dumps(content))
        return busbar.run("compare", "a.json", "b.json", *words, emulated=False, cwd=tmp_path)

    return run


def verdicts(done):
    """The last words of each row: from column 85 on."""
    return [" ".join(line.split()[10:]) for line in done.stdout.splitlines() if line.strip() and not line.startswith("#")]


A = bench(row(8, 10, 1), row(16, 10, 1), row(32, 10, 1), row(64, 10, None), row(128, 10, 1), row(256, 10, 1))
B = bench(row(8, 13, 1), row(16, 7, 1), row(32, 11, 1), row(64, 20, None), row(128, 20, 1, wrong=3), row(512, 10, 1),
          nccl={"runtime": "2.30.7"}, environment={"NCCL_ALGO": "Ring"}, devices=[{"name": "H100"}] * 4)


def test_every_verdict_and_its_reason(compare, golden):
    done = compare(A, B)
    assert done.returncode == 0 and done.stderr == ""
    assert verdicts(done) == ["slower", "faster", "no difference", "cannot tell", "wrong data", "only in A", "only in B"]
    golden("compare-table.txt", done.stdout)


def test_another_choice_stands_beside_the_verdict(compare):
    ring, tree = ({"algorithm": a, "protocol": p, "channels": n} for a, p, n in (("RING", "SIMPLE", 8), ("TREE", "LL", 2)))
    done = compare(bench(row(8, 10, 1, **ring), row(16, 10, 1, **ring), row(32, 10, 1)),
                   bench(row(8, 20, 1, **tree), row(16, 10, 1, **ring), row(32, 10, 1, **tree)))
    assert verdicts(done) == ["slower: TREE/LL/2, was RING/SIMPLE/8", "no difference", "no difference"]


@pytest.mark.parametrize("percent,status", [("29", 5), ("31", 0), ("0", 5)])
def test_threshold(compare, percent, status):
    done = compare(A, B, "--threshold", percent)
    assert done.returncode == status
    assert ("1 row slower by more than" in done.stderr and "8 B: +30.0 %" in done.stderr) == (status == 5)


def test_json(compare):
    done = compare(A, B, "--json", "-", "--threshold", "20")
    data = json.loads(done.stdout)
    assert done.returncode == 5 and data["schema"] == "busbar.compare/1" and data["status"] == "below threshold"
    assert [r["verdict"] for r in data["results"]] == ["slower", "faster", "no difference", "cannot tell", "wrong data"]
    assert data["results"][0]["ratio"] == 1.3 and data["results"][0]["b"]["ci95_us"] == [12, 14]
    assert data["results"][3]["a"]["ci95_us"] is None
    assert [r["bytes"] for r in data["only_a"]] == [256] and [r["bytes"] for r in data["only_b"]] == [512]
    assert {"what": "NCCL library", "a": "2.28.9", "b": "2.30.7"} in data["provenance"]
    assert {"what": "$NCCL_ALGO", "a": None, "b": "Ring"} in data["provenance"]
    assert data["summary"]["slower"] == 1 and data["summary"]["over_threshold"] == 1 and data["threshold_percent"] == 20


@pytest.mark.parametrize("a,words", [
    ("", ["a.json", "not JSON"]),
    ('{"schema": "busbar.bench/1", "results": [', ["a.json", "not JSON", "line 1"]),
    ("[]", ["a.json", "not a result file"]),
    ({"schema": "busbar.plan/1"}, ["a.json", "busbar.plan/1", "expected busbar.bench/1"]),
    (bench(row("many", 1, 1)), ["a.json", "results[0]", "'bytes'"]),
    (bench(row(8, 1, 0), row(8, -1, None)), ["a.json", "results[1]", "'p50'"]),
    (bench({**row(8, 1, 1), "time_us": {"p50": 1, "ci95": [2, 1]}}), ["a.json", "'ci95'", "interval"]),
])
def test_bad_files_are_one_line_and_exit_2(compare, a, words):
    done = compare(a, B)
    assert done.returncode == 2 and done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert all(word in line for word in words), line


@pytest.mark.parametrize("words", [[], ["a.json"], ["a.json", "b.json", "c.json"], ["--treshold", "1", "a.json", "b.json"],
                                   ["a.json", "b.json", "--threshold", "1%"], ["no.json", "no.json"]])
def test_bad_words_are_one_line_and_exit_2(busbar, tmp_path, words):
    for name in ("a.json", "b.json", "c.json"):
        (tmp_path / name).write_text(json.dumps(A))
    done = busbar.run("compare", *words, emulated=False, cwd=tmp_path)
    assert done.returncode == 2 and done.stdout == "" and len(done.stderr.splitlines()) == 1


def test_two_real_runs(busbar, tmp_path):
    """Emulated times are exact: twice the same run has no difference, a slower machine is slower in every row."""
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
