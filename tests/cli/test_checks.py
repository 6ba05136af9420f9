"""--junit, --prometheus and health --nagios: one list of checks ("checks" in the JSON) in the formats of other programs. The files are read
by readers of their own: Python's XML parser with the element rules of Jenkins' schema, a strict reader of Prometheus' text format (and the
official one if it is installed), and the grammar of the plugin guidelines."""
import json
import re
import stat
import xml.etree.ElementTree

import pytest

# https://github.com/jenkinsci/xunit-plugin: junit-10.xsd. Element: required attributes, allowed attributes, allowed children.
JUNIT = {
    "testsuites": ({"name"}, {"name", "tests", "failures", "errors", "time", "disabled"}, {"testsuite"}),
    "testsuite": ({"name", "tests"}, {"name", "tests", "failures", "errors", "skipped", "time", "timestamp", "hostname", "id", "package"},
                  {"properties", "testcase", "system-out", "system-err"}),
    "properties": (set(), set(), {"property"}),
    "property": ({"name", "value"}, {"name", "value"}, set()),
    "testcase": ({"name", "classname"}, {"name", "classname", "time", "status"}, {"skipped", "error", "failure", "system-out", "system-err"}),
    "skipped": (set(), {"message", "type"}, set()), "failure": (set(), {"message", "type"}, set()),
    "error": (set(), {"message", "type"}, set()), "system-out": (set(), set(), set()),
}
SAMPLE = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*)\{((?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\[\\"n])*",?)*)\} (-?[0-9.]+(?:e[+-]\d+)?)')
PERFDATA = re.compile(r"'([^'=]+)'=(-?[0-9.]+)(us|ms|s|%|B|KB|MB|TB|c)?(?:;[0-9.:~@-]*){0,2}(?:;[0-9.-]*){0,2}")


def read_junit(path):
    """Returns {name of a case: (element of its result or None, text)}."""
    root = xml.etree.ElementTree.parse(path).getroot()
    for element in root.iter():
        required, allowed, children = JUNIT[element.tag]
        assert required <= set(element.keys()) <= allowed, element.attrib
        assert {child.tag for child in element} <= children
    suite, = root
    cases = suite.findall("testcase")
    results = [case[0].tag if len(case) else None for case in cases]
    assert len({case.get("name") for case in cases}) == len(cases) == int(suite.get("tests")) == int(root.get("tests"))
    for tag, count in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        assert results.count(tag) == int(suite.get(count))
    return {case.get("name"): (result, "".join(child.get("message") or child.text or "" for child in case))
            for case, result in zip(cases, results)}


def subject(labels):
    return labels.get("check") or ("collective" in labels and (labels["collective"], labels["placement"], labels["bytes"])) or None


def read_prometheus(path):
    """Returns {(metric, check, for bus bandwidths (collective, placement, bytes), or None): value}. Each metric has its HELP and TYPE line before its samples, which are unique and together."""
    text, found, described, seen = path.read_text(), {}, None, set()
    assert text.endswith("\n") and stat.S_IMODE(path.stat().st_mode) & 0o044 == 0o044  # node_exporter runs as another user
    lines = text.splitlines()
    for i, line in enumerate(lines):
        if line.startswith("# HELP "):
            described = line.split(" ", 3)[2]
            assert described not in seen and re.fullmatch(r"busbar_[a-z_]+", described) and lines[i + 1] == f"# TYPE {described} gauge"
            assert not re.search("_(us|gbps|percent|count|sum|bucket)$", described)  # base units; suffixes of other types
            seen.add(described)
        elif not line.startswith("# TYPE "):
            name, labels, value = SAMPLE.fullmatch(line).groups()
            labels = dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels))
            assert name == described and labels.get("gpus", "emulated") == "emulated" and subject(labels) not in [s for n, s in found if n == name]
            found[name, subject(labels)] = float(value)
    try:
        from prometheus_client.parser import text_string_to_metric_families as official
        assert {(s.name, subject(s.labels)): s.value for m in official(text) for s in m.samples} == found
    except ImportError:
        pass
    return found


def read_nagios(line):
    state, text, data = re.fullmatch(r"BUSBAR (OK|WARNING|CRITICAL|UNKNOWN) - ([^|]+) \| (.+)\n", line).groups()
    assert len(line) < 4096
    values = PERFDATA.findall(data)
    assert re.sub(PERFDATA, "", data).strip() == "" and len(values) >= 2
    return state, text, {name: float(value) for name, value, _ in values}


def run(busbar, tmp_path, *args, status=0, ranks=2, **env):
    files = tmp_path / "r.json", tmp_path / "r.xml", tmp_path / "r.prom"
    done = busbar.run(*args, "--json", files[0], "--junit", files[1], "--prometheus", files[2], ranks=ranks,
                      env={"EMU_DATA": "off", "EMU_CLUSTER": "h100-sxm-ib", **env})
    assert done.returncode == status, done.stderr
    root, cases, metrics = json.loads(files[0].read_text()), read_junit(files[1]), read_prometheus(files[2])
    names = {"ok": None, "warn": "system-out", "fail": "failure", "unknown": "skipped"}
    assert len(root["checks"]) + 1 == len(cases) and [names[c["status"]] for c in root["checks"]] == [r for r, _ in cases.values()][:-1]
    assert any(result in ("failure", "error") for result, _ in cases.values()) == (status != 0)
    assert metrics["busbar_run_success", None] == (status == 0)
    statuses, findings = ["ok", "warn", "fail", "unknown"], root.get("findings", [])
    assert [v for (name, _), v in metrics.items() if name == "busbar_check_status"] == [
        max(map(statuses.index, [c["status"], *(f["level"] for f in findings if f["test"] == c["check"])])) for c in root["checks"]]
    return root, cases, metrics


ROW = ("collective", "mode", "dtype", "op", "root", "placement", "variant", "group", "bytes")
SLOW = {"EMU_NODES": "2", "EMU_SLOW": "link=node1-nic0:0.5"}
BENCH = ("bench", "all_reduce", "--sizes", "16M", "-n", 2, "--repeats", 2, "-w", 1, "--placement", "in_place")


def test_gates_of_bench(busbar, tmp_path):
    root, cases, metrics = run(busbar, tmp_path, *BENCH, "--expect", "auto", "--min-of-expected", "90%", ranks=4, status=5, **SLOW)
    name = "all_reduce stream: bus bandwidth, lowest against its limit"
    check = next(c for c in root["checks"] if c["check"] == name)
    assert cases[name][0] == "failure" and "below the required" in cases[name][1] and cases["run"][0] is None
    assert metrics["busbar_check_measured_bytes_per_second", name] == pytest.approx(1e9 * root["results"][0]["busbw_gbps"])
    assert metrics["busbar_check_expected_bytes_per_second", name] == pytest.approx(1e9 * check["expected"])
    assert metrics["busbar_busbw_bytes_per_second", ("all_reduce", "in_place", str(16 << 20))] == pytest.approx(1e9 * root["results"][0]["busbw_gbps"])
    run(busbar, tmp_path, *BENCH, "--min-busbw", "1", ranks=2)
    done = busbar.run("bench", "all_gather", "all_reduce", "--sizes", "1M,4M", "-n", 2, "--repeats", 2, "-N", 2, "--prometheus", tmp_path / "no_limit.prom", ranks=2,
                      env={"EMU_DATA": "off"})
    assert done.returncode == 0 and {s for n, s in read_prometheus(tmp_path / "no_limit.prom") if n == "busbar_busbw_bytes_per_second"} == {
        (collective, placement, size) for collective in ("all_gather", "all_reduce") for placement in ("in_place", "out_of_place") for size in ("1048576", "4194304")}
    _, cases, _ = run(busbar, tmp_path, *BENCH, "--expect", "auto", ranks=4, **SLOW)  # without a limit: a warning
    assert cases["lowest result / expected bus bandwidth"][0] == "system-out"


@pytest.mark.parametrize("ranks,args", [
    (3, "broadcast reduce -r all"), (2, "all_reduce -d all -o sum"), (2, "reduce_scatter -d half -o all"), (2, "all_gather --mode all"),
    (4, "all_gather --split MOD:2"), (2, "all_reduce --sweep-variants plain,graph"), (2, "broadcast -r all -N 2"),
    (2, "all_reduce --sweep-algorithms")])
def test_each_row_of_a_collective_has_a_sample_of_its_own(busbar, tmp_path, ranks, args):
    """Its value is that of the row, of repetitions the highest. Algorithms that --sweep-algorithms forces have none."""
    root = busbar.json("bench", *args.split(), "--sizes", "64K,1M", "-n", 2, "--repeats", 2, "-w", 1, "--prometheus", tmp_path / "r.prom",
                       tmp_path=tmp_path, ranks=ranks, env={"EMU_DATA": "off"})
    rows = {}
    for row in root["results"]:
        if "algorithms" not in args or not row["forced"]:
            rows.setdefault(tuple((k, v) for k, v in row.items() if k in ROW and v is not None), []).append(row["busbw_gbps"])
    assert len(rows) > 2 and {len(of) for of in rows.values()} == {2 if "-N 2" in args else 1}
    lines = [line.split("{")[1] for line in (tmp_path / "r.prom").read_text().splitlines() if line.startswith("busbar_busbw_bytes_per_second{")]
    found = [dict(re.findall(r'(\w+)="([^"]*)"', line)) for line in lines]
    assert [{k: v for k, v in labels.items() if k in ROW} for labels in found] == [{k: str(v) for k, v in row} for row in rows]
    assert [float(line.split()[-1]) for line in lines] == pytest.approx([1e9 * max(of) for of in rows.values()])


def test_slow_links_and_slow_gpus(busbar, tmp_path):
    p2p = ("bench", "p2p", "-n", 2, "--repeats", 2, "-w", 1)
    _, cases, _ = run(busbar, tmp_path, *p2p, "--max-slow", 0, ranks=6, status=5, EMU_NODES="3", EMU_SLOW="link=node1-nic0:0.5")
    assert any(name.endswith("--max-slow") and result == "failure" for name, (result, _) in cases.items())
    compute = ("bench", "compute", "gemm", "-d", "float")
    _, cases, _ = run(busbar, tmp_path, *compute, ranks=4, EMU_SLOW="rank=2:1.3")
    assert cases["slow ranks"][0] == "system-out" and "rank 2" in cases["slow ranks"][1]
    run(busbar, tmp_path, *compute, "--max-slow", 0, ranks=4, EMU_SLOW="rank=2:1.3", status=5)


def test_lost_rank_is_an_error_of_the_run(busbar, tmp_path):
    _, cases, _ = lost(busbar, tmp_path)
    assert cases == {"run": ("error", cases["run"][1])} and "rank 1" in cases["run"][1]


def lost(busbar, tmp_path):
    files = tmp_path / "r.xml", tmp_path / "r.prom"
    done = busbar.run(*BENCH, "--junit", files[0], "--prometheus", files[1], ranks=2, env={"EMU_FAULT": "die:rank=1,call=2,name=ncclAllReduce"})
    assert done.returncode == 4, done.stderr
    return done, read_junit(files[0]), read_prometheus(files[1])


def test_compare_and_sweep(busbar, tmp_path):
    for name, env in (("a", {}), ("b", {"EMU_SLOW": "rank=1:1.3"})):
        busbar.run("bench", "compute", "gemm", "-d", "float", "--json", tmp_path / f"{name}.json", ranks=2,
                   env={"EMU_DATA": "off", **env})
    files = tmp_path / "a.json", tmp_path / "b.json"
    _, cases, metrics = run(busbar, tmp_path, "compare", *files, "--threshold", 5, ranks=0, status=5)
    assert {result for result, _ in cases.values()} == {None, "failure"} and any(name == "busbar_check_measured_seconds" for name, _ in metrics)
    assert set(re.findall('command="([^"]*)"', (tmp_path / "r.prom").read_text())) == {"compare"}  # no file names
    run(busbar, tmp_path, "compare", *files, ranks=0)
    busbar.run("plan", "all_reduce", "--ranks", 8, "--cluster", "h100-sxm-ib", "--sizes", "1M", "--json", tmp_path / "plan.json", emulated=False)
    done = busbar.run("compare", tmp_path / "plan.json", tmp_path / "plan.json", "--junit", tmp_path / "plan.xml", emulated=False)
    assert done.returncode == 0 and '"gpus"' not in (tmp_path / "plan.xml").read_text()  # no GPU ran
    study = tmp_path / "s.json"
    study.write_text(json.dumps({"command": "plan all_reduce", "ranks": [8], "options": {"cluster": "h100-sxm-ib", "sizes": ["1M", "2M"]}}))
    _, cases, _ = run(busbar, tmp_path, "sweep", study, "-o", tmp_path / "d", "--gather", ranks=0, status=1)
    assert {name: result for name, (result, _) in cases.items()} == {"sizes=1M ranks=8": "skipped", "sizes=2M ranks=8": "skipped", "run": "error"}
    _, cases, metrics = run(busbar, tmp_path, "sweep", study, "-o", tmp_path / "d", ranks=0)  # plans are predictions: no GPUs
    assert [result for result, _ in cases.values()] == [None] * 3


def test_each_node_has_a_status_with_its_host(busbar, tmp_path):
    """Healthy nodes, too: a node without a sample would be missing, not healthy."""
    root, _, _ = run(busbar, tmp_path, "health", "--only", "pairs", ranks=4, status=5, EMU_NODES="4", EMU_SLOW="link=node1-nic0:0.5")
    samples = re.findall(r'^busbar_check_status\{.*host="([^"]+)"\} (\d)$', (tmp_path / "r.prom").read_text(), re.M)
    assert [int(status) for _, status in samples] == [0, 2, 0, 0] and [host for host, _ in samples] == [v["host"] for v in root["verdicts"]]
    root, _, metrics = run(busbar, tmp_path, "health", "--only", "gpu", ranks=4, status=5, EMU_SLOW="rank=2:1.3")  # GEMM was 0
    samples = re.findall(r'^busbar_finding_status\{.*check="(.+)",part="gpu",host="(.+)",gpu="(.+)"\} 2$', (tmp_path / "r.prom").read_text(), re.M)
    assert metrics["busbar_check_status", "GEMM"] == 2 and metrics["busbar_check_status", "memory copy"] == 0
    assert samples == [(f["test"], f["host"], f["pci"]) for f in root["findings"]] == [("GEMM", root["verdicts"][0]["host"], "0000:03:00.0")]


@pytest.mark.parametrize("slow, labels", [
    (",".join(f"link=node{node}-nic{nic}:0.5" for node in range(4) for nic in (0, 1)), {'check="all_reduce of GPU pairs",part="all"'}),
    (",".join(f"link=node{node}-nic1:0.5" for node in range(4)), {'check="all_reduce of GPU pairs",part="rail",gpu_index="1"'})])
def test_parts_of_no_node_have_a_status_without_host(busbar, tmp_path, slow, labels):
    run(busbar, tmp_path, "health", "--quick", "--only", "pairs", ranks=8, status=5, EMU_NODES="4", EMU_SLOW=slow)
    assert set(re.findall(r'^busbar_finding_status\{.*?,(check=.*)\} 2$', (tmp_path / "r.prom").read_text(), re.M)) == labels


def test_slow_path_is_labelled_with_both_ends(busbar, tmp_path):
    """The slow end of the only two nodes is unknown: neither has a status that drains it."""
    root, _, _ = run(busbar, tmp_path, "health", "--only", "pairs", ranks=4, status=5, EMU_NODES="2", EMU_SLOW="link=node1-nic0:0.5")
    text, hosts = (tmp_path / "r.prom").read_text(), [v["host"] for v in root["verdicts"]]
    assert re.findall(r'^busbar_finding_status\{.*,part="path",host="(.+)",peer="(.+)"\} 2$', text, re.M) == [tuple(hosts)]
    assert [(f["host"], f["other_host"]) for f in root["findings"]] == [tuple(hosts)]
    assert re.findall(r'^busbar_check_status\{.*host="[^"]+"\} (\d)$', text, re.M) == ["0", "0"]


def test_nagios_line_and_status(busbar, tmp_path):
    for slow, status, state in (("", 0, "OK"), ("rank=2:1.1", 1, "WARNING"), ("link=node1-nic0:0.5", 2, "CRITICAL")):
        done = busbar.run("health", "--quick", "--nagios", "--json", tmp_path / "n.json", ranks=8,
                          env={"EMU_DATA": "off", "EMU_CLUSTER": "h100-sxm-ib", "EMU_NODES": "4", "EMU_SLOW": slow})
        root = json.loads((tmp_path / "n.json").read_text())
        found, text, values = read_nagios(done.stdout)
        assert (done.returncode, found) == (status, state), done.stdout + done.stderr
        assert root["status"] == ("below threshold" if status == 2 else "ok") and "(emulated GPUs)" in text
        worst = [c["reason"] for c in root["checks"] if c["status"] in ("warn", "fail")]
        assert all(reason in text for reason in worst[:3])
        pairs = next(t for t in root["tests"] if t["stage"] == "pairs")
        assert values["all_reduce of GPU pairs (GB/s)"] == pytest.approx(pairs["median"], rel=1e-5)


def test_nagios_reports_failed_runs_as_unknown(busbar):
    for args, env in ((("--only", "foo"), {}), (("--expect", "nowhere"), {}), (("--only", "pairs"), {}),
                      (("--only", "inventory", "--json", "/dev/full"), {}), (("--only", "inventory", "--prometheus", "/dev/full"), {})):
        done = busbar.run("health", "--quick", "--nagios", *args, ranks=2, env={"EMU_DATA": "off", **env})
        assert done.returncode == 3 and re.match(r"BUSBAR UNKNOWN - .+\n\Z", done.stdout), (done.stdout, done.stderr)
        assert done.stderr.split(": ", 1)[1].strip() in done.stdout  # Nagios does not show stderr


@pytest.mark.parametrize("full", [("junit",), ("csv", "junit"), ("prometheus", "json"), ("csv",)])
def test_other_outputs_are_written_after_a_full_disk(busbar, tmp_path, full):
    """Each file that cannot be written is named; those that are written later know of it."""
    study = tmp_path / "study.json"
    study.write_text(json.dumps({"command": "bench all_reduce", "ranks": 2, "options": {"sizes": "1M", "repeats": 1}}))
    texts = {"json": "the results", "csv": "the table", "junit": "the JUnit report", "prometheus": "the metrics"}
    for command in (BENCH, ("sweep", study, "--output", tmp_path / "s")):
        files = {name: "/dev/full" if name in full else tmp_path / f"{command[0]}.{name}" for name in texts}
        done = busbar.run(*command, *(word for name, path in files.items() for word in (f"--{name}", path)),
                          ranks=2 if command is BENCH else 0, mpirun=(), env={"EMU_DATA": "off"})
        assert done.returncode == 1, done.stderr
        assert done.stderr.count("cannot write ") == done.stderr.count("No space left on device") == len(full), done.stderr
        assert command is not BENCH or all(f"cannot write {texts[name]}: /dev/full" in done.stderr for name in full)
        assert all(path.stat().st_size > 0 for path in files.values() if path != "/dev/full")
        if "prometheus" not in full:
            assert read_prometheus(files["prometheus"])["busbar_run_success", None] == 0


def test_names_are_escaped_and_unique(busbar, tmp_path):
    folder = tmp_path / 'a "b" <&\\'
    folder.mkdir()
    path = folder / "x.json"
    done = busbar.run(*BENCH, "--json", path, ranks=2, env={"EMU_DATA": "off"})
    assert done.returncode == 0, done.stderr
    root = json.loads(path.read_text())
    root["results"] *= 2  # equal rows
    path.write_text(json.dumps(root))
    _, cases, _ = run(busbar, tmp_path, "compare", path, path, ranks=0)
    assert len(cases) == 3 and any(name.endswith(" (2)") for name in cases)


def test_outputs_are_not_overwritten(busbar, tmp_path):
    same = tmp_path / "same"
    for args in (("--junit", same, "--prometheus", same), ("--json", same, "--junit", same), ("--junit", "-"), ("--prometheus", tmp_path)):
        done = busbar.run("bench", "all_reduce", "-n", 1, *args, ranks=1)
        assert done.returncode == 2 and len(done.stderr.splitlines()) == 1 and not same.exists(), done.stderr
