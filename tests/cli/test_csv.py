"""--csv of every command: the csv module of Python reads the table, and its values equal the JSON of the same run."""
import csv
import json
import signal
import subprocess

import pytest

NO_DATA = {"EMU_DATA": "off"}
RUNS = {  # arguments, ranks, a column that must have values
    "collectives": (("bench", "all_reduce", "broadcast", "--sizes", "8,1K", "-n", 2, "--mode", "all"), 2, "time_us.p50"),
    "p2p": (("bench", "p2p", "--bandwidth-sizes", "1M", "-n", 2, "--repeats", 2), 2, "gbps"),
    "comm": (("bench", "comm", "--repeats", 2), 2, "fastest_rank_us"),
    "overlap": (("bench", "overlap", "--sizes", "1M", "-n", 2, "--repeats", 2), 2, "lost_to_comm_us"),
    "compute": (("bench", "compute", "--quick", "-n", 1, "--repeats", 2), 0, "median_us"),
    "proxies": (("proxy", "all", "--quick"), 2, "breakdown.exposed_us"),
}


def read(path):
    with open(path, newline="") as file:
        rows = list(csv.reader(file))
    assert rows and all(len(row) == len(rows[0]) for row in rows) and len(set(rows[0])) == len(rows[0])
    return [dict(zip(rows[0], row)) for row in rows[1:]]


def flat(value, path=""):
    """The documented mapping from JSON fields to columns, implemented independently."""
    key = path.rsplit(".", 1)[-1]
    if key in ("ci95", "ci95_us"):
        low, high = value or (None, None)
        return {f"{path}.low": low, f"{path}.high": high}
    if isinstance(value, dict):
        fields = {k: v for k, v in value.items() if path or k != "environment"}
        return {k: v for inner in fields for k, v in flat(fields[inner], f"{path}.{inner}".lstrip(".")).items()}
    if isinstance(value, list):
        return {path: " ".join(value)} if all(isinstance(v, str) for v in value) else {}
    return {path: value}


def identity(doc):
    """The columns that identify the run of a document and its options."""
    first = (doc.get("devices") or [{}])[0]
    return {"command": " ".join(doc["command"]), "started": doc.get("started"), "host": first.get("host"), "ranks": doc["ranks"],
            "nodes": doc.get("nodes"), "busbar": doc["busbar"], "nccl.runtime": doc.get("nccl", {}).get("runtime"),
            "cuda.runtime": doc.get("cuda", {}).get("runtime"), "emulated": doc.get("emulated"), "shared_gpu": doc.get("shared_gpu"),
            **flat(doc.get("options", {}), "options"), **flat(doc.get("profiles", {}), "profiles"), **flat(doc.get("files", {}), "files")}


def same(text, value):
    if value is None:
        return text == ""
    if isinstance(value, bool):
        return text == ("true" if value else "false")
    return float(text) == pytest.approx(value, rel=1e-11) if isinstance(value, (int, float)) else text == value


def assert_rows(actual, expected):
    assert len(actual) == len(expected) > 0
    for cells, fields in zip(actual, expected):
        wrong = {k: (cells.get(k), v) for k,
                 v in fields.items() if not (k in cells and same(cells[k], v)) and (v is not None or k in cells)}
        assert wrong == {} and {k for k, v in cells.items() if v} <= set(fields)


@pytest.mark.parametrize("kind", RUNS)
def test_csv_has_the_rows_of_the_json_results(busbar, tmp_path, kind):
    args, ranks, column = RUNS[kind]
    done = busbar.run(*args, "--json", "r.json", "--csv", "r.csv", ranks=ranks, env=NO_DATA, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    result, rows = json.loads((tmp_path / "r.json").read_text()), read(tmp_path / "r.csv")
    assert_rows(rows, [{**identity(result), **flat(row)} for row in result["results"]])
    assert rows[0]["host"] and rows[0]["cuda.runtime"] and rows[0]["started"].endswith("Z")
    assert any(row[column] for row in rows)


def test_csv_of_a_run_without_rows_has_one_row(busbar, tmp_path):
    done = busbar.run("proxy", "gpt2_large", 4, 2, 2, "--compute", "timed", "--steps", 2, "--json", "r.json", "--csv", "r.csv", ranks=4,
                      env=NO_DATA, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    result, rows = json.loads((tmp_path / "r.json").read_text()), read(tmp_path / "r.csv")
    expected = {**identity(result), **flat(result)}
    assert_rows(rows, [expected])
    assert rows[0]["command"].startswith("proxy gpt2_large 4 2 2") and float(rows[0]["breakdown.exposed_us"]) > 0
    done = busbar.run("plan", "gpt2_large", 4, 2, 2, "--ranks", 4, "--cluster", "h100-sxm-ib", "--json", "p.json", "--csv", "p.csv",
                      emulated=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    plan = json.loads((tmp_path / "p.json").read_text())
    assert_rows(read(tmp_path / "p.csv"), [{**identity(plan), **flat(plan)}])
    assert plan["nodes"] == 1 and plan["command"][:2] == ["plan", "gpt2_large"]


def test_csv_of_a_collective_plan(busbar, tmp_path):
    done = busbar.run("plan", "all_reduce", "--ranks", 16, "--cluster", "h100-sxm-ib", "-b", "1K", "-e", "1M", "-f", 32, "--json", "p.json",
                      "--csv", "p.csv", emulated=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    rows = read(tmp_path / "p.csv")
    plan = json.loads((tmp_path / "p.json").read_text())
    assert_rows(rows, [{**identity(plan), **flat(row)} for row in plan["results"]])
    assert {(row["ranks"], row["nodes"], row["options.cluster"]) for row in rows} == {("16", "2", "h100-sxm-ib")}
    assert len(rows) == 6 and {row["flags"] for row in rows} == {"predicted"}


def test_csv_of_compare_and_sweep(busbar, tmp_path):
    for name in "ab":
        assert busbar.run("bench", "all_reduce", "--sizes", "1K,2K", "-n", 2, "--csv", f"{name}.csv", "--json", f"{name}.json", ranks=2,
                          cwd=tmp_path).returncode == 0
    done = busbar.run("compare", "a.json", "b.json", "--json", "c.json", "--csv", "c.csv", emulated=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    rows = read(tmp_path / "c.csv")
    compared = json.loads((tmp_path / "c.json").read_text())
    assert_rows(rows, [{**identity(compared), **flat(r)} for r in compared["results"]])
    assert {row["verdict"] for row in rows} == {"no difference"}
    (tmp_path / "s.json").write_text('{"command": "plan gpt2_large", "ranks": [4, 8], "options": {"layers": 8, "stages": 4, "cluster": "h100-sxm-ib"}}')
    done = busbar.run("sweep", "s.json", "-o", "s.d", "--csv", "s.csv", emulated=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    rows = read(tmp_path / "s.csv")
    assert [(row["ranks"], row["nodes"], row["busbar"] != "") for row in rows] == [("4", "1", True), ("8", "1", True)]
    assert all(row["command"].startswith("plan gpt2_large --") for row in rows)


def test_csv_columns_do_not_depend_on_the_options(busbar, tmp_path):
    """The CSV rows of many plans can be concatenated, and each row shows its options."""
    rows = []
    for tp, cluster in ((1, "h100-sxm-ib"), (2, "h100-sxm-ib"), (2, "a100-sxm-ib")):
        done = busbar.run("plan", "transformer", "--model", "gpt2_small", "--ranks", 8, "--tp", tp, "--cluster", cluster, "--csv", "p.csv",
                          emulated=False, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        rows += read(tmp_path / "p.csv")
    assert list(rows[0]) == list(rows[1]) == list(rows[2])
    assert [(r["options.model"], r["options.tp"], r["options.cluster"]) for r in rows] == [
        ("gpt2_small", "1", "h100-sxm-ib"), ("gpt2_small", "2", "h100-sxm-ib"), ("gpt2_small", "2", "a100-sxm-ib")]


def test_csv_without_json_and_on_stdout(busbar, tmp_path):
    done = busbar.run("bench", "all_reduce", "--sizes", "1K", "-n", 2, "--csv", "-", ranks=2, cwd=tmp_path)
    assert done.returncode == 0 and list(tmp_path.iterdir()) == []
    (tmp_path / "o.csv").write_text(done.stdout)
    assert {row["bytes"] for row in read(tmp_path / "o.csv")} == {"1024"}
    done = busbar.run("plan", "gpt2_large", 4, 2, 2, "--ranks", 4, "--csv", "-", emulated=False)
    assert done.returncode == 0 and len(done.stdout.splitlines()) == 2 and "checks.matched" in done.stdout


def test_csv_keeps_rows_of_an_incomplete_run(busbar, tmp_path):
    done = busbar.run("bench", "all_reduce", "--sizes", "1K,64K", "-n", 2, "--min-busbw", "99999", "--csv", "r.csv", ranks=2, cwd=tmp_path)
    assert done.returncode == 5 and len(read(tmp_path / "r.csv")) == 4
    done = busbar.run("bench", "all_reduce", "--sizes", "1K,2K,4K", "-n", 2, "-T", 3, "--csv", "t.csv", ranks=2, cwd=tmp_path,
                      env={"EMU_FAULT": "rank=1,call=60,do=stall"})
    if done.returncode == 4:  # the number of rows depends on the time of the fault
        assert all(row["bytes"] for row in read(tmp_path / "t.csv"))


def test_an_interrupted_run_keeps_an_earlier_file_and_warns(busbar, tmp_path):
    """The signal arrives after the first line of the report; the first operation hangs."""
    (tmp_path / "r.csv").write_text("earlier")
    command = busbar.command("bench", "all_reduce", "--csv", "r.csv", ranks=2)
    with subprocess.Popen(["timeout", "-k", "5", "60", *command], cwd=tmp_path, env=busbar.environment({"EMU_FAULT": "stall:rank=1,call=1,name=ncclAllReduce"}),
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        assert run.stdout.readline().startswith("# busbar ")
        run.send_signal(signal.SIGINT)
        _, stderr = run.communicate(timeout=80)
    assert "interrupted before its first result: r.csv still has the results of an earlier run" in stderr
    assert (tmp_path / "r.csv").read_text() == "earlier"
