"""`busbar report`: one page of charts from any mix of results. The values are compared with values computed by hand; the page is
tested in a headless Chromium (skipped if none is installed)."""
import importlib
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys

import pytest

from chromium import Chromium, find_chromium


ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "profiles" / "report"))
health, measured, page, charts, findings, result_files, steps, tables, timeline, units = map(
    importlib.import_module, ("health", "measured", "page", "charts", "findings", "result_files", "steps", "tables", "timeline", "units"))
NO_DATA = {"EMU_DATA": "off"}
STEP = ("gpt2_large", 4, 2, 2, "--compute", "timed")


def has_plotly(busbar):
    own = busbar.build / "python" / "bin" / "python3"
    python = str(own) if own.exists() else "python3"
    return shutil.which(python) and subprocess.run([python, "-c", "import plotly"], capture_output=True).returncode == 0


@pytest.fixture(scope="module")
def plotly(busbar):
    if not has_plotly(busbar):
        pytest.skip("plotly is not installed: sh bootstrap/setup.sh installs it")


@pytest.fixture(scope="module")
def samples(busbar, tmp_path_factory):
    """{kind: file} of small results, written by busbar except for p2p."""
    folder = tmp_path_factory.mktemp("samples")

    def run(name, *args, **kw):
        done = busbar.run(*args, "--json", folder / f"{name}.json", **kw)
        assert done.returncode == 0, done.stderr
    run("collectives", "bench", "all_reduce", "-b", "8K", "-e", "8M", "-f", 32, "-n", 2, ranks=2, env=NO_DATA)
    run("copy", "bench", "copy", "--size", "1M", ranks=2, env=NO_DATA)
    run("proxy", "proxy", *STEP, "--steps", 2, "--trace", folder / "trace.json", ranks=4, env=NO_DATA)
    run("plan", "plan", *STEP, "--ranks", 4, "--cluster", "h100-sxm-ib", emulated=False)
    run("compare", "compare", folder / "collectives.json", folder / "collectives.json", "--threshold", 5, emulated=False)
    run("calibration", "calibrate", folder / "collectives.json", "-o", folder / "mine.json", emulated=False)
    (folder / "mine.json").unlink()
    (folder / "study.json").write_text(
        '{"name": "stages", "command": "plan gpt2_large", "ranks": [4, 8, 16], "columns": ["predicted.step_us"],'
        ' "options": {"layers": 8, "stages": [2, 4], "cluster": "h100-sxm-ib"},'
        ' "charts": [{"x": "ranks", "y": "predicted.step_us", "lines": ["stages"]}]}')
    run("sweep", "sweep", folder / "study.json", "-o", folder / "sweep.d", emulated=False)
    (folder / "p2p.json").write_text(json.dumps(P2P))
    return {path.stem: path for path in folder.glob("*.json") if path.stem != "study"}


def link(i, j, value):
    return {"level": "pair", "metric": "bandwidth", "direction": "one", "bytes": 1 << 20, "node": 0, "host": "a", "from": i, "to": j,
            "same_node": True, "value": value, "median": 400.0}


# All links have 400 GB/s except two: one is slow by the criterion of --slow, the other is only the next slowest.
P2P = {"schema": "busbar.bench/1", "command": ["bench", "p2p"], "status": "ok", "ranks": 3, "results": [{"metric": "bandwidth"}],
       "matrices": [{"metric": "bandwidth", "direction": "one", "bytes": 1 << 20, "unit": "GB/s",
                     "values": [[None, 400., 400.], [50., None, 400.], [400., 390., None]]}],
       "slow_links": [link(1, 0, 50.)], "slowest_links": [link(1, 0, 50.), link(2, 1, 390.)], "bimodal": []}


def report(busbar, *files, output, **kw):
    return busbar.run("report", *files, "-o", output, emulated=False, **kw)


def page_of(busbar, output, *files):
    done = report(busbar, *files, output=output)
    assert done.returncode == 0 and done.stdout == f"# page: {output}\n" and done.stderr == "", done.stderr
    return output.read_text()


# ---- the command ----------------------------------------------------------------------------------------------------------


@pytest.mark.smoke
def test_one_page_of_every_kind(busbar, samples, tmp_path, plotly):
    text = page_of(busbar, tmp_path / "r.html", *samples.values())
    headings = re.findall(r"<h2[^>]*>([^<]*)</h2>", text)
    assert headings == ["Findings", "Collectives", "Links", "Copies", "Steps", "Traffic and memory", "Scaling", "Comparisons", "Calibrations",
                        "Studies", "Files"]
    assert "default-src 'none'" in text and not re.search(r"<(?:script|link|img)[^>]+(?:src|href)=\"(?!data:)", text)
    assert list(tmp_path.iterdir()) == [tmp_path / "r.html"]


def test_copies_are_a_chart_of_their_rates(busbar, samples, tmp_path, plotly):
    text = page_of(busbar, tmp_path / "r.html", samples["copy"])
    rows = json.loads(samples["copy"].read_text())["results"]
    assert f"Copies between memories (copy.json) ({len(rows)} rows)" in text and "?: algorithm" not in text and "?: time over" not in text
    assert "host to gpu, copy engine, pinned memory" in text and "peer both, copy engine, device memory, all at once" in text


def test_name_of_the_page_is_printed_unless_quiet_or_a_device(busbar, samples, tmp_path, plotly):
    """test_one_page_of_every_kind checks the name."""
    assert busbar.run("report", samples["p2p"], "-o", tmp_path / "r.html", "--quiet", emulated=False).stdout == ""
    text = busbar.run("report", "--help", emulated=False).stdout
    assert not [schema for schema in result_files.SCHEMAS if schema.removeprefix("busbar.")[:4] not in text], text  # "prox": proxy, proxies
    assert "# page" not in report(busbar, samples["p2p"], output="/dev/stdout").stdout
    with open("/dev/full", "w") as full:
        done = subprocess.run([busbar.build / "busbar", "report", samples["p2p"], "-o", tmp_path / "r.html"], stdout=full,
                              stderr=subprocess.PIPE, text=True, timeout=20, check=False)
    assert (done.returncode, done.stderr) == (1, "busbar: report: cannot write to stdout: No space left on device\n")


@pytest.mark.parametrize("name", ["plot.png", "a.b/r.json", "r.pdf"])
def test_page_is_not_written_under_the_name_of_another_format(busbar, samples, tmp_path, name):
    (tmp_path / "a.b").mkdir()
    done = report(busbar, samples["p2p"], output=tmp_path / name)
    html = str(tmp_path / name).rsplit(".", 1)[0] + ".html"
    assert (done.returncode, done.stderr) == (2, f"busbar: -o {tmp_path / name}: the page is HTML, expected a name with .html; try: -o {html}\n")
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize("name,content,message", [
    ("gone.json", None, "cannot be read: No such file"),
    ("text.json", "hello", "not a result file: neither a JSON object nor nccl-tests output"),
    ("cut.json", '{"schema": "busbar.bench/1", "results": [', "is not valid JSON"),
    ("latin.json", b'{"schema": "\xe9"}', "is not valid JSON: not UTF-8"),
    ("deep.json", '{"a": ' + "[" * 100000, "is not valid JSON"),
    ("list.json", "[1]", "not a result file: neither a JSON object nor nccl-tests output"),
    ("twice.json", '{"schema": "busbar.bench/1", "ranks": 1, "ranks": 2}', "key 'ranks' is given twice"),
    ("other.json", '{"a": 1}', "it has no key 'schema'"),
    ("new.json", '{"schema": "busbar.bench/2"}', "has the unknown schema 'busbar.bench/2'; did you mean 'busbar.bench/1'?"),
    ("escape.json", '{"schema": "\\u001b[31m\\u009b"}', "has the unknown schema ' [31m '"),
    ("half.json", '{"schema": "busbar.bench/1"}', "'results' is not a list"),
    ("nan.json", '{"schema": "busbar.bench/1", "results": [{"busbw_gbps": NaN}]}', "is not valid JSON: NaN is not a number"),
    ("minus.json", '{"schema": "busbar.bench/1", "results": [{"time_us": {"p50": -1}}]}', "results[0].time_us is -1"),
    ("huge.json", '{"schema": "busbar.bench/1", "results": [{"bytes": 8, "time_us": 1e999}]}', "results[0].time_us is inf"),
])
def test_reject_invalid_files_and_keep_the_old_page(busbar, tmp_path, plotly, name, content, message):
    page, file = tmp_path / "page.html", tmp_path / name
    page.write_text("old")
    if content is not None:
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    done = report(busbar, file, output=page)
    assert done.returncode == 2 and done.stdout == "" and len(done.stderr.splitlines()) == 1, done.stderr
    assert name in done.stderr and message in done.stderr
    assert page.read_text() == "old" and len(list(tmp_path.iterdir())) == 1 + (content is not None)


def test_missing_script_python_or_plotly_is_one_error_line(busbar, samples, tmp_path):
    """Runs a copy of the program in another folder, because the build folder may contain a Python with plotly."""
    (tmp_path / "bin").mkdir()
    program = shutil.copy(busbar.build / "busbar", tmp_path / "bin" / "busbar")
    command = [program, "report", samples["p2p"], "-o", tmp_path / "r.html"]
    done = busbar.run_program(*command)
    missing = f"report needs its script report/report.py, which is neither in {tmp_path}/bin nor in its ../share/busbar/profiles: "
    assert done.returncode == 1 and missing in done.stderr
    (tmp_path / "bin" / "report").symlink_to(ROOT / "profiles" / "report")
    done = busbar.run_program("env", "PATH=/nowhere", *command)
    assert done.returncode == 1 and "report needs Python 3" in done.stderr
    bare = tmp_path / "python3"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S -s -E "$@"\n')  # without packages
    bare.chmod(0o755)
    done = busbar.run_program("env", f"PATH={tmp_path}:/usr/bin:/bin", *command)
    assert done.returncode == 1 and "needs the Python package plotly" in done.stderr
    assert len(done.stderr.splitlines()) == 1 and not (tmp_path / "r.html").exists()


# ---- contents of the charts ----------------------------------------------------------------------------------------------


def result(kind, **data):
    return result_files.Result(f"/x/{kind}.json", kind, data)


def row(size, median, **more):
    return {"collective": "all_reduce", "bytes": size, "dtype": "float", "op": "sum", "placement": "out_of_place", "mode": "stream",
            "time_us": {"p50": median, "ci95": [median * .8, median * 1.25]}, "busbw_gbps": size / median / 1e3 * 1.5,
            "algorithm": "RING", "protocol": "LL", "channels": 4, "model_us": 2 * median, **more}


def test_bandwidth_chart_with_intervals_bands_and_prediction():
    rows = [row(1024, 10), row(4096, 20), row(16384, 40, algorithm="TREE")]
    bandwidth, time = list(measured.over_size([result("collectives", results=rows)]))
    (line,) = bandwidth.traces
    assert line["x"] == [1024, 4096, 16384] and line["y"] == pytest.approx([.1536, .3072, .6144])
    # 1.25 times the time is 0.8 times the bandwidth, and vice versa
    assert line["error_y"]["arrayminus"] == pytest.approx([.2 * y for y in line["y"]])
    assert line["error_y"]["array"] == pytest.approx([.25 * y for y in line["y"]])
    assert [(s["x0"], s["x1"]) for s in bandwidth.layout["shapes"]] == [(1024 / 1.5, 8192), (8192, 16384 * 1.5)]
    assert [a["text"] for a in bandwidth.layout["annotations"]] == ["RING LL", "TREE LL"]
    assert time.traces[0]["y"] == [10, 20, 40] and time.traces[1]["y"] == [20, 40, 80] and time.traces[1]["line"]["dash"] == "dash"
    assert "RING LL" in line["hovertext"][0] and "1 KiB" in line["hovertext"][0]


def test_a_plan_of_a_collective_is_the_predicted_line():
    rows = [row(1024, 10, model_us=None), row(4096, 20, model_us=None)]
    predicted = {**result("a", results=rows).data, "schema": "busbar.plan/1", "predicted": {"cluster": "c"}}
    assert result_files.kind_of(predicted) == "collectives"
    assert result_files.Result("/x/plan.json", "collectives", predicted).type == "plan COLLECTIVE"
    both = [result("collectives", results=rows), result_files.Result("/x/plan.json", "collectives", predicted)]
    bandwidth, time = list(measured.over_size(both))
    assert [t["line"]["dash"] for t in bandwidth.traces] == [t["line"]["dash"] for t in time.traces] == ["solid", "dash"]
    assert bandwidth.stamps == ["plan.json: predicted for c"] and bandwidth.notes == []


def test_links_are_marked_and_ranked():
    (chart,) = measured.links([result("p2p", **P2P)])
    (frame,) = chart.layout["shapes"]  # row 1, column 0
    assert (frame["x0"], frame["x1"], frame["y0"], frame["y1"]) == (-.5, .5, .5, 1.5)
    assert [r[:4] + r[7:] for r in chart.rows] == [[1, "pair", 1, 0, .125, True], [2, "pair", 2, 1, .975, False]]
    assert chart.traces[0]["hovertext"][1][0] == "rank 1 to rank 0<br>50 GB/s<br>0.125 of the median of its class<br>slow"
    assert "Red frames: 1 pair." in chart.about


def test_links_are_scaled_by_the_median_of_their_class():
    """Two nodes with two ranks: 400 GB/s within a node, 50 GB/s between nodes, but 25 GB/s from and to rank 3."""
    hosts = ["a", "a", "b", "b"]
    values = [[None if i == j else 400. if hosts[i] == hosts[j] else 25. if 3 in (i, j) else 50. for j in range(4)] for i in range(4)]
    rows = [{"metric": "bandwidth", "from": i, "to": j, "same_node": hosts[i] == hosts[j]} for i in range(4) for j in range(4) if i != j]
    slow = [{**link(3, None, 25.), "level": "rank"}, {**link(None, None, 37.5), "level": "node", "node": 1, "host": "b"},
            link(0, 3, 25.), link(0, 1, 1.)]
    (chart,) = measured.links([result("p2p", results=rows, slow_links=slow, matrices=[{**P2P["matrices"][0], "values": values}],
                                      devices=[{"rank": rank, "host": host} for rank, host in enumerate(hosts)])])
    assert chart.traces[0]["z"][0][1] == 1 and chart.traces[0]["z"][0][2:] == [50 / 37.5, 25 / 37.5]
    assert chart.layout["xaxis"]["ticktext"] == ["a 0", "1", "b 2", "3"]
    assert "Red frames: links of rank 3, links of node 1 (b), 1 pair." in chart.about
    frames = [(s["x0"] + .5, s["x1"] - .5, s["y0"] + .5, s["y1"] - .5) for s in chart.layout["shapes"]]
    assert frames == [(0, 3, 3, 3), (3, 3, 0, 3), (0, 3, 2, 3), (2, 3, 0, 3), (1, 1, 0, 0)]


def test_in_place_times_that_equal_those_out_of_place_are_one_line():
    rows = [row(1024, 10), row(1024, 10.05, placement="in_place"), row(4096, 20), row(4096, 20, placement="in_place")]
    bandwidth, _ = list(measured.over_size([result("collectives", results=rows)]))
    assert [t["name"] for t in bandwidth.traces] == ["out of place"] and "In place: the same within 1 %." in bandwidth.about
    assert len(bandwidth.rows) == 4
    rows[3]["time_us"] = {"p50": 21, "ci95": None}
    bandwidth, _ = list(measured.over_size([result("collectives", results=rows)]))
    assert [t["name"] for t in bandwidth.traces] == ["out of place", "in place"]


BREAKDOWN = {"rank": 3, "role": "last", "step_us": 100., "compute_us": 70., "comm_us": 50., "exposed_us": 25.,
             "exposed_transfer_us": 10., "bubble_us": 8., "exposed_waiting_us": 7., "idle_us": 5.}
LOST = {"total_us": 36., "exposed_us": 25., "slowdown_us": 6., "idle_us": 5., "transfer_us": 10., "bubble_us": 8., "waiting_us": 7.}


def test_waterfall_leads_from_compute_alone_to_the_step():
    (chart,) = steps.waterfalls([result("proxy", proxy="p", breakdown=BREAKDOWN, overlap={"lost_to_comm": LOST})])
    trace = chart.traces[0]
    assert trace["x"] == ["compute alone", "hidden communication", "slower kernels", "exposed transfer", "bubble",
                          "waiting for peers", "idle", "step"]
    assert trace["y"] == [64, 25, 6, 10, 8, 7, 5, 100] and trace["base"] == [0, 39, 64, 70, 80, 88, 95, 0]
    (planned,) = steps.waterfalls([result("plan", proxy="p", predicted={"cluster": "c", "breakdown": BREAKDOWN})])
    assert planned.traces[0]["y"] == [70, 25, 10, 8, 7, 5, 100] and planned.stamps == ["predicted for c"]


def test_kernels_faster_than_alone_are_host_time_hidden_by_communication():
    lost = {**LOST, "slowdown_us": -2., "total_us": 28.}
    (chart,) = steps.waterfalls([result("proxy", proxy="p", breakdown=BREAKDOWN, overlap={"lost_to_comm": lost})])
    trace = chart.traces[0]
    assert trace["x"][2] == "host time hidden by communication" and trace["y"][2] == -2 and "slower kernels" not in trace["x"]


def test_stages_in_lock_step_have_no_bubble():
    """gpt2_large and bert_large write null: neither the waterfall nor the bars by role name a bubble."""
    roles = [{**BREAKDOWN, "role": role, "bubble_us": None, "exposed_waiting_us": 15.} for role in ("first stage", "last stage")]
    shown = result("proxy", proxy="p", breakdown=roles[0], breakdown_by_role=roles)
    (waterfall,), (bars,) = steps.waterfalls([shown]), steps.by_role([shown])
    assert "bubble" not in waterfall.traces[0]["x"] and sum(waterfall.traces[0]["y"][2:5]) == 30
    assert [trace["name"] for trace in bars.traces] == ["compute", "exposed transfer", "waiting for peers", "idle"]


def test_waiting_names_the_late_rank():
    def row(role, most_us, waited_for):
        return {"role": role, "group": "dp", "ranks": 3, "median_us": most_us / 2, "most_us": most_us, "most_rank": 0,
                "waited_for": waited_for, "waited_for_us": most_us}
    table = [row("first", 4., 2), row("second", 40., 2), row("hardly", 0.01, 1), row("late", 0., None)]
    for shown in result("proxy", proxy="p", breakdown=BREAKDOWN, waiting=table), \
            result("plan", proxy="p", predicted={"cluster": "c", "breakdown": BREAKDOWN, "waiting": table}):
        (chart,) = steps.waiting([shown])
        assert [line[0] for line in chart.rows] == ["second", "first"] and chart.traces[0]["x"] == [40, 4]
        assert chart.about.startswith("Rank 0 waits 40 us in dp, mostly for rank 2.")
    assert list(steps.waiting([result("proxy", proxy="p", breakdown=BREAKDOWN, waiting=[])])) == []
    predicted = [{key: value for key, value in line.items() if "waited_for" not in key} for line in table]
    (chart,) = steps.waiting([result("plan", proxy="p", predicted={"cluster": "c", "breakdown": BREAKDOWN, "waiting": predicted})])
    assert chart.about.startswith("Rank 0 waits 40 us in dp. A rank waits")


def test_no_chart_for_missing_data():
    assert list(steps.waterfalls([result("proxy", proxy="p", breakdown=None)])) == []
    bare = row(8, 1, algorithm=None, protocol=None, model_us=None, time_us={"p50": 1, "ci95": None})
    assert [chart.notes for chart in measured.over_size([result("collectives", results=[bare])])] == [[], []]


LAYOUTS = [{"tp": 2, "cp": 4, "ep": 1, "pp": 4, "dp": 16, "vpp": 5, "schedule": "interleaved", "micro_batch_size": 1, "recompute": "none",
            "dp_sync": "zero1", "memory_bytes": 7 << 30, "tflops_per_gpu": 400., "step_us": 100., "compute_us": 80., "exposed_transfer_us": 5.,
            "bubble_us": 12., "exposed_waiting_us": 3., "idle_us": 0.}, {"tp": 1, "step_us": 110., "compute_us": 110.}]


def test_best_layouts_are_bars_by_cause():
    (chart,) = steps.layouts([result("plan", proxy="p", best_layout={"layouts": LAYOUTS})])
    assert [trace["y"] for trace in chart.traces][0] == ["1. tp 2, cp 4, pp 4, dp 16,<br>interleaved 5, zero1", "2. one rank"]
    assert {trace["name"]: trace["x"] for trace in chart.traces}["bubble"] == [12, 0]
    assert chart.columns[0] == "layout" and "rank" not in chart.columns


def said(kind, **data):
    return " ".join(findings.of(result(kind, **data)))


def test_reads_a_result_from_a_pipe(busbar, samples, plotly, tmp_path):
    output, pipe = tmp_path / "page.html", tmp_path / "pipe"
    os.mkfifo(pipe)
    done = report(busbar, pipe, output=output)
    assert done.returncode == 2 and done.stderr == f"busbar: {pipe}: is a pipe to which no process writes\n"
    with subprocess.Popen(["cp", samples["plan"], pipe]):
        assert "A step takes" in page_of(busbar, output, pipe)


def test_variants_have_one_chart_and_a_finding():
    """--sweep-variants: the variant graph is of another mode."""
    rows = [row(1024, 10, variant="plain"), row(1024, 8, variant="symmetric", forced=True), row(1024, 9, variant="graph", mode="graph", forced=True)]
    best = {"alone": {"best": "symmetric", "gain": 1.25, "collective": "all_reduce", "bytes": 1024}}
    run = result("collectives", results=rows, variants=best)
    (chart,) = measured.algorithms([run])
    assert chart.title.startswith("all_reduce") and ": variants (" in chart.title and "Thick" not in chart.about and len(chart.traces) == 3
    assert "The fastest variant is symmetric: 1.25 times as fast as plain at all_reduce 1 KiB." in findings.of(run)


def test_findings_of_a_plan():
    roles = [{"name": "first stage", "ranks": [0, 1]}, {"name": "last stage", "ranks": [2, 3]}]
    predicted = {"cluster": "c", "step_us": 100., "breakdown": {**BREAKDOWN, "role": None}, "model_flop_utilisation": .46, "tflops_per_gpu": 454.94,
                 "model_flop_utilisation_causal": .4,
                 "memory": {"of": "training", "fits": False, "needed_bytes": 90 << 30, "available_bytes": 80 << 30},
                 "groups": [{"name": "tp", "exposed_us": 20.}, {"name": "dp", "exposed_us": 5.}]}
    reason = "needs 90.0 GiB of 80.0 GiB per GPU"
    first, *others = findings.of(result("plan", proxy="p", ranks=4, roles=roles, predicted=predicted, status="does not fit", reason=reason))
    assert first == f"DOES NOT FIT: {reason}."
    assert others == ["A step would take 100 us on 4 ranks, if training fitted: 454.9 TFLOP/s per GPU, MFU 46 % of 989 TFLOP/s with attention in full "
                      "(Megatron-LM paper), 40 % with causal attention (newer Megatron-LM).",
                      "25 % of the step is exposed communication, the largest part exposed transfer (10 us, 40 % of it); most of it in group tp (20 us). "
                      "The slowest rank is 3, last stage."]
    for us, text in ((13., "mostly exposed transfer (13 us); the largest part in group dp (5 us, 20 % of it). "), (9., "the largest part exposed transfer (9 us, 36 % of it); ")):
        assert f"exposed communication, {text}" in said("plan", proxy="p", predicted={
            **predicted, "breakdown": {**BREAKDOWN, "exposed_transfer_us": us}, "groups": [{"name": "dp", "exposed_us": 5.}]})
    faults = {"matched": True, "deadlock_free": True, "safe_serialised": False, "faults": ["rank 0 waits"]}  # of a serialised execution
    assert "invalid" not in said("plan", proxy="p", checks=faults)
    assert "The step is invalid: rank 0 waits." in said("plan", proxy="p", checks={**faults, "deadlock_free": False})
    text = said("plan", proxy="p", best_layout={"layouts": LAYOUTS, "available_bytes": 8 << 30})
    assert "The best layout is tp 2, cp 4, pp 4, dp 16, interleaved 5, zero1: 100 us per step" in text
    assert "(--slow, --delay): node7:0.5. They cost 20 us of the step." in said(
        "plan", proxy="p", predicted={**predicted, "slow": ["node7:0.5"], "slow_cost_us": 20.})
    varied = {"deviation": .03, "seed": 7, "samples": 100, "step_us": {"p5": 190., "p50": 200., "p95": 220., "max": 250., "mean": 201.}}
    sentence = ("With 3 % jitter of kernel times (100 samples, seed 7) the median of the step time is 200 us; p5 -5.00 %, p95 +10.00 %, max +25.00 % of it. "
                "The other values are without jitter.")
    assert sentence in said("plan", proxy="p", predicted={**predicted, "jitter": varied})
    assert "Training takes this median, the other values are without jitter." in said(
        "plan", proxy="p", predicted={**predicted, "jitter": {**varied, "step_us": {"p50": 200.}}, "training": {"tokens": 1e12, "days": 1., "gpu_hours": 1.}})
    assert "The experts have unequal load (--moe-imbalance 0.8)." in said("plan", proxy="p", predicted=predicted, options={"moe_imbalance": 0.8})
    assert "100 us per step (with jitter 120 us, the median)" in said("plan", proxy="p", best_layout={
        "layouts": [{**LAYOUTS[0], "p50_step_us": 120.}], "available_bytes": 8 << 30})
    injected = said("collectives", schema="busbar.plan/1", predicted={"slow": ["node1:0.5"], "jitter": {"deviation": .03, "seed": 1, "samples": 100}})
    assert "Predicted with slow parts (--slow): node1:0.5." in injected
    assert "medians of 100 samples in which the time that each rank contributes varies by 3 % (--jitter, seed 1)." in injected
    failures = {"days": 27.7, "gpu_hours": 5318., "goodput": .993, "mtbf_s": 15.625 * 86400, "interval_s": 10368., "lost_steps": .003,
                "checkpoints": .0038, "restarts": .0002, "node_wait": 0.}
    text_of = said("plan", proxy="p", predicted={**predicted, "compute": {"software": "torch", "added": "--recompute full"},
                                                 "training": {"tokens": 1e12, "days": 27.5, "gpu_hours": 5280., "with_failures": failures}})
    assert "Compute is predicted with the rates of the training software torch; added so that training fits: --recompute full." in text_of
    assert "1T tokens take 27.5 days and 5.28K GPU hours without failures." in text_of
    assert "5 epochs of 50K samples take 2 days and 96 GPU hours without failures." in said(
        "plan", proxy="p", predicted={**predicted, "training": {"epochs": 5, "samples": 50000, "days": 2., "gpu_hours": 96.}})
    assert ("With a failure every 15.6 days and the best checkpoint interval, 2.88 h, training takes 27.7 days and 5.32K GPU hours: "
            "goodput 99.3 %, lost steps 0.3 %, checkpoints 0.38 %, restarts 0.02 %, waiting for nodes 0 %.") in text_of
    plans = [result("plan", predicted={"training": {"with_failures": {**failures, "goodput": goodput}}}) for goodput in (.9, .8)]
    chart, = steps.trainings([*plans, result("plan", predicted={})])
    assert [trace["x"] for trace in chart.traces][:2] == [[pytest.approx(27.7 * .9), pytest.approx(27.7 * .8)],
                                                          [pytest.approx(.0831), pytest.approx(.0831)]]
    assert chart.rows[0][1:4] == [27.7, 5318., .9] and "2.88 h of training between two checkpoints" in chart.about
    waits = [{"group": group, "most_us": us, "most_rank": 3} for group, us in (("tp_pp", 50.), ("dp", 5.))]
    text_of = said("plan", proxy="p", predicted={**predicted, "waiting": waits})
    assert "Rank 3 waits 5 us in dp." in text_of and "tp_pp" not in text_of  # the pipeline bubble
    assert "takes 10 % longer" in text and "largest loss of the best layout is bubble: 12 us" in text
    assert "largest loss of the best layout is waiting for launches by the host: 20 us" in said(
        "plan", proxy="p", best_layout={"layouts": [{**LAYOUTS[0], "launch_wait_us": 20.}], "available_bytes": 8 << 30})
    text = said("plan", proxy="p", best_layout={"layouts": [{**LAYOUTS[0], "step_us": 2 * LAYOUTS[1]["step_us"]}, LAYOUTS[1]], "available_bytes": 8 << 30})
    assert "The second, one rank, takes 50 % less, but has a larger penalty." in text


def test_best_order_is_that_of_the_plan_if_no_other_sends_less():
    orders = [{"order": order, "requested": order == "dp-tp", "inter_node_bytes": size} for order, size in (("tp-dp", 1024), ("dp-tp", 1024), ("tp-pp", 2048))]
    assert said("plan", proxy="p", best_order={"orders": orders}) == (
        "The order dp-tp, that of the plan, sends the fewest bytes between nodes: 1 KiB per step; others with as many: 1.")
    assert said("plan", proxy="p", best_order={"orders": [orders[0], orders[2]]}) == "The order tp-dp sends the fewest bytes between nodes: 1 KiB per step."


def test_one_cta_limit_is_not_the_fastest():
    rows = [{"collective": "all_reduce", "bytes": 1024, "min_ctas": None, "max_ctas": ctas, "overlap_efficiency": 0.5, "compute_slowdown": 1.1} for ctas in (4, 8)]
    best = [{"bytes": 1024, "min_ctas": None, "max_ctas": 4, "tied": []}]
    assert "is fastest with CTAs 4" in said("overlap", best=best, results=rows) and "fastest" not in said("overlap", best=best, results=rows[:1])


def test_a_result_slower_than_another_is_a_finding():
    """Ratios of 4 and 1: geometric mean 2. Rows of other sizes and ranks, forced rows, and results with wrong data are left out."""
    def bench(name, *times, ranks=8, **more):
        one = result("collectives", ranks=ranks, results=[row(1024 << i, us) for i, us in enumerate(times)], **more)
        one.name = name
        return one
    a, b = bench("a.json", 10., 100.), bench("b.json", 40., 100., 7.)
    b.rows.append(row(1024, 1., forced=True))
    sentence = "b.json takes 2 times as long as a.json in 2 equal rows (geometric mean), 4 times at all_reduce 1 KiB."
    assert list(findings.relative([a, b])) == list(findings.relative([b, a])) == [sentence]
    assert f"<strong>{sentence}</strong>" in page.findings_html([a, b])
    for other in bench("c.json", 40., 100., ranks=4), bench("c.json", 40., status="wrong data"), bench("c.json", 10.5, 105.):
        assert list(findings.relative([a, other])) == []
    fast, slow, larger = (result(kind, proxy="p", ranks=4, samples=samples, step_us=us)
                          for kind, samples, us in (("plan", 8, 10.), ("proxy", 8., 19.8), ("proxy", 16, 30.)))
    assert list(findings.relative([fast, slow, larger])) == ["proxy.json takes 1.98 times as long as plan.json."]
    assert list(findings.relative([fast, result("proxy", proxy="p", ranks=4, samples=8, step_us="x"), result("proxy", proxy=["p"], step_us=9.)])) == []


@pytest.mark.parametrize("data,first", [
    ({"status": "below threshold", "reason": "mean is 24 GB/s, below 45 GB/s"}, "FAILED: mean is 24 GB/s, below 45 GB/s."),
    ({"status": "wrong data", "reason": "wrong data: rank 1, element 128"}, "WRONG DATA: rank 1, element 128."),
    ({"status": "timeout", "reason": "rank 1 is lost"}, "FAILED: rank 1 is lost."),
    ({"status": "running"}, "INCOMPLETE: the run has not ended, or all its processes were killed."),
    ({}, "WRONG DATA: 1 of 2 rows have wrong data, the first at 2 MiB."),  # nccl-tests writes no status
], ids=str)
def test_a_failed_result_has_its_reason_and_no_other_sentence(data, first):
    rows = [row(1 << 20, 100.), row(2 << 20, 100., wrong=None if data else 3)]
    failed, passed = result("collectives", results=rows, **data), result("plan", status="ok")
    assert findings.of(failed) == [first] and failed.problems
    status = failed.failure
    html = page.findings_html([passed, failed])
    assert f"1 of 2 results failed: collectives.json ({status})." in html and "reaches" not in html
    assert html.index("<strong>") < html.index("<h3>collectives.json") and list(findings.total([failed])) == []
    assert list(findings.total([passed, passed])) == ["None of 2 results failed."]


def test_findings_name_what_is_slow():
    rows = [row(1 << 20, 100., group=group, busbw_gbps=rate) for group, rate in enumerate((48., 24., 48.))]
    text = said("collectives", results=rows, status="below threshold", reason="24 GB/s is below 45 GB/s",
                groups=[{"group": 1, "ranks": [2, 3], "hosts": ["n2", "n3"]}])
    assert text.startswith("FAILED: 24 GB/s is below 45 GB/s. Group 1 (n2, n3; ranks 2, 3) is slow: 24 GB/s at 1 MiB, 50 % of the 48 GB/s")
    causes = [{**link(3, None, 25.), "level": "rank", "slow": 6, "links": 6}, {**link(0, 1, 1.), "slow": 1, "links": 1}]
    text = said("p2p", results=[{}], causes=causes * 2)
    assert text == ("Slow: rank 3 (a), 6 of 6 links within the node, bandwidth 25 GB/s instead of 400 GB/s at 1 MiB. "
                    "Slow: rank 0 (a) to rank 1, 1 of 1 links within the node, bandwidth 1 GB/s instead of 400 GB/s at 1 MiB.")
    classes = [{**causes[0], "level": "class", "same_node": same} for same in (True, False)]
    assert re.findall("links (.*?), bandwidth", said("p2p", results=[{}], causes=classes)) == ["within the node", "between nodes"]
    assert said("p2p", results=[{}], causes=[{**causes[1], "median": None}]).endswith("within the node, bandwidth 1 GB/s at 1 MiB.")
    gpu = {"rank": 1, "gpu": 1, "host": "b", "worst_slowdown": 1.5, "results": 3, "of": 4}
    assert "Slow: GPU 1 (01:00.0) of b (rank 1), in 3 of 4 results, up to 1.5 times the typical time" in said(
        "compute", slow_gpus=[gpu], devices=[{"rank": 1, "pci": "01:00.0"}])
    judged = [{"nccl_choice": verdict} for verdict in ("unknown", "best")]
    assert said("collectives", results=rows, algorithms=judged).endswith("NCCL's choice is not the fastest in 0 of 1 cases.")


def test_health_shows_the_worst_node_first_and_the_slow_pairs():
    def value(node, gpu, partner, gbps):
        return {"stage": "pairs", "test": "pairs", "node": node, "host": "abc"[node], "gpu": gpu, "partner": partner, "value": gbps, "unit": "GB/s"}
    rows = [value(a, gpu, b, 20. if gpu and 2 in (a, b) else 40.) for a in range(3) for b in range(3) if a != b for gpu in (0, 1)]
    nic = {"level": "fail", "stage": "pairs", "part": "nic", "node": 2, "other_node": None, "host": "c", "gpu": 1, "name": "NIC of GPU 1 of c", "reason": "pairs 20 GB/s"}
    levels = [{"node": node, "host": host, "level": level} for node, host, level in ((0, "a", "ok"), (1, "b", "ok"), (2, "c", "fail"))]
    data = {"results": rows, "tests": [{"test": "pairs", "expected": 40., "median": 40., "unit": "GB/s"}], "verdicts": levels, "findings": [nic],
            "status": "below threshold", "reason": "pairs 20 GB/s", "expected_by": "x"}
    (nodes,), (pairs,) = (list(make([result("health", **data)])) for make in (health.nodes, health.pairs))
    assert nodes.rows == [["c", "fail", "NIC of GPU 1 of c: pairs 20 GB/s", "50 %"], ["a", "ok", "-", "100 %"], ["b", "ok", "-", "100 %"]]
    assert pairs.traces[0]["z"] == [[None, 1, .5], [1, None, .5], [.5, .5, None]] and "2 pairs are below 93 %" in pairs.about
    assert [row[:3] for row in pairs.rows] == [["a", "c", 20.], ["b", "c", 20.]]
    assert said("health", **data) == ("FAILED: pairs 20 GB/s. 3 nodes: 2 ok, 0 warn, 1 fail, 0 unknown; expected by x. "
                                      "fail, stage pairs: NIC of GPU 1 of c: pairs 20 GB/s.")
    assert "share of the expected 40 GB/s" in pairs.about and pairs.columns[3:] == ["expected (GB/s)", "share"] and pairs.rows[0][3:] == [40., "50 %"]
    leaf = [{**row, "expected": 20. if 2 in (row["node"], row["partner"]) else 40.} for row in rows]  # c is in another leaf
    (nodes,), (pairs,) = (list(make([result("health", **{**data, "results": leaf})])) for make in (health.nodes, health.pairs))
    assert pairs.traces[0]["z"] == [[None, 1, 1], [1, None, 1], [1, 1, None]] and not pairs.rows and [row[-1] for row in nodes.rows] == ["100 %"] * 3
    assert "the expected 20 to 40 GB/s (by the load of the uplinks) that" in pairs.about and "100 % of the expected 20 GB/s" in pairs.traces[0]["hovertext"][0][2]
    domains = {**data, "tests": [{**data["tests"][0], "domain_expected": 80., "domain_median": 80.}], "verdicts": [
        {**level, "domain": 0 if level["node"] < 2 else 2} for level in levels]}  # NVLink connects a and b
    (nodes,), (pairs,) = (list(make([result("health", **domains)])) for make in (health.nodes, health.pairs))
    assert pairs.traces[0]["z"] == [[None, .5, .5], [.5, None, .5], [.5, .5, None]] and "40 GB/s (80 GB/s in an NVLink domain)" in pairs.about
    assert [row[-1] for row in nodes.rows] == ["50 %"] * 3
    data["tests"][0]["expected"] = None
    (pairs,) = health.pairs([result("health", **data)])
    assert "share of the median 40 GB/s" in pairs.about and said("health", verdicts=levels[:1]).startswith("1 node: 1 ok")
    assert list(health.nodes([result("health", status="running")])) == list(health.pairs([result("health")])) == []


def test_comparison_shows_the_rows_above_the_threshold():
    rows = [{"collective": "all_reduce", "bytes": size, "ratio": ratio, "verdict": "inconclusive"} for size, ratio in ((1024, 1.2), (2048, 1.))]
    data = {"results": rows, "threshold_percent": 5., "summary": {"verdict": "slower"}}
    data |= {"status": "below threshold", "reason": "1 row slower by more than 5 %"}
    text = said("compare", **data)
    assert text.startswith("FAILED: 1 row slower by more than 5 %. Verdict: slower; on average B takes ")
    assert text.endswith(" B is slower in: all_reduce 1 KiB (1.2 times the time of A).")
    assert said("compare", results=rows, summary={"verdict": "wrong data"}) == "Verdict: wrong data."
    (chart,) = tables.comparisons([result("compare", **data)])
    assert [(t["name"], t["x"], t.get("text")) for t in chart.traces] == [
        ("above the threshold", [1024], ["all_reduce 1 KiB"]), ("inconclusive", [2048], [""])]


def test_comparison_of_several_steps_is_bars_by_cause():
    rows = [{"file": "a.json", "step_us": 20., "compute_us": 20., "ratio": 1., "fits": False},
            {"file": "b.json", "step_us": 10., "compute_us": 10., "ratio": .5},
            {"file": "c.json", "step_us": 15., "compute_us": 15., "ratio": 1.5},
            {"file": "d.json", "step_us": 30., "compute_us": 30., "ratio": None, "verdict": "different model"}]
    many = result("compare", results=rows)
    assert findings.of(many) == ["b.json: 10 us per step; 0.5 times the step time of a.json.",
                                 "c.json: 15 us per step; 1.5 times the GPU seconds of a.json for equal work.",
                                 "a.json: 20 us per step; the others are compared with this file. DOES NOT FIT in memory.",
                                 "d.json: 30 us per step; different model."]
    rows = [{"file": "a.json", "ratio": 1.}, {"file": "b.json", "ratio": .9, "rows": 8, "faster": 5, "slower": 1}]
    assert findings.of(result("compare", results=rows))[1] == (
        "b.json: 5 rows faster and 1 slower of 8, on average 0.9 times the time of a.json (geometric mean).")
    ((_, (chart,)),) = charts.make_all([many])
    assert chart.traces[0]["y"] == ["b.json", "c.json", "a.json", "d.json"] and chart.traces[0]["x"] == [10, 15, 20, 30]


def test_a_study_of_sizes_names_the_best_combination_of_each_size():
    times = {None: {1024: 5., 2048: 7., 4096: 9.}, "Ring": {1024: 6., 2048: 8., 4096: 8.5}}
    study = result("sweep", columns=["NCCL_ALGO", "bytes", "time_us"], axes={"NCCL_ALGO": [None, "Ring"]},
                   rows=[[algo, size, time] for algo, of_size in times.items() for size, time in of_size.items()])
    assert findings.of(study) == ["shortest time: 1 KiB to 2 KiB NCCL_ALGO -; 4 KiB NCCL_ALGO Ring."]


def test_settings_that_are_not_given_are_a_dash():
    combinations = [{"settings": {"gemm-precision": None}, "state": "failed", "stderr": ["busbar: no memory"]}]
    study = result("sweep", columns=["gemm-precision", "step_us"], axes={"gemm-precision": [None, "fp8"]}, rows=[[None, 5e6], ["fp8", 4e6]],
                   combinations=combinations)
    found = ["Failed: gemm-precision -: no memory.", "step_us: from 4000 ms (gemm-precision fp8) to 5000 ms (gemm-precision -)."]
    assert findings.of(study) == found
    study.data["combinations"].append({**combinations[0], "settings": {"ranks": 8, "gemm-precision": "fp8"}})
    assert findings.of(study)[0] == "Failed: gemm-precision -; ranks 8, gemm-precision fp8: no memory."
    study.data["combinations"].pop()
    study.data.update(columns=["options.ep", "options.set", *study.data["columns"]], rows=[[8 * (i + 1), "a", *row] for i, row in enumerate(study.data["rows"])])
    assert findings.of(study) == found  # what was given is no finding


def test_a_study_is_drawn_over_its_first_axis_that_varies():
    (chart,) = tables.sweeps([result("sweep", columns=["batch", "ranks", "step_us"], axes={"batch": [8], "ranks": [1, 2]},
                                     rows=[[8, 1, 5.], [8, 2, 4.]])])
    assert (chart.chooser["x"], chart.chooser["y"]) == ("ranks", "step_us")
    assert findings.of(chart.sources[0]) == ["step_us: from 4 us (ranks 2) to 5 us (ranks 1)."]


def test_timeline_colors_exposed_communication():
    def slice_(tid, begin, end, cat):
        return {"ph": "X", "name": cat, "pid": 0, "tid": tid, "ts": begin, "dur": end - begin, "cat": cat, "args": {}}
    names = [{"ph": "M", "name": "thread_name", "pid": 0, "tid": t, "args": {"name": n}} for t, n in ((1, "compute"), (2, "dp"))]
    events = names + [slice_(0, 0, 60, "step"), slice_(1, 10, 20, "compute"), slice_(1, 18, 30, "compute"), slice_(2, 5, 50, "dp")]
    chart = timeline.timeline(result("trace", otherData={"proxy": "p", "times": "measured"}, traceEvents=events))
    strokes = {t["name"]: [s[:3] for s in t["strokes"]] for t in chart.traces}
    assert strokes == {"compute": [[10, 20, 0], [18, 30, 0]], "hidden communication": [[10, 30, 1]],
                       "exposed communication": [[5, 10, 1], [30, 50, 1]]}
    assert chart.rows[1][4] == 25 and chart.stamps == []


def test_memory_over_time_of_the_rank_with_the_highest_peak():
    def events(rank, *activations):
        args = [{"parameters": 1 << 30, "activations": a << 30} for a in activations]
        return [{"ph": "C", "name": "training memory", "pid": rank, "tid": 0, "ts": 10 * i, "args": a} for i, a in enumerate(args)]
    step = [{"ph": "X", "name": "step", "pid": rank, "tid": 0, "ts": 0, "dur": 40, "cat": "step"} for rank in (0, 1)]
    (chart,) = timeline.memories(result("trace", otherData={"proxy": "p"}, traceEvents=[*step, *events(0, 0, 2, 0), *events(1, 0, 3, 1)]))
    assert [(t["name"], t["x"], t["y"]) for t in chart.traces] == [
        ("parameters", [0, 10, 20, 40], [1, 1, 1, 1]), ("activations", [0, 10, 20, 40], [0, 3, 1, 1]),
        ("total of rank 0", [0, 10, 20, 40], [1, 3, 1, 1])]
    assert [row[:2] for row in chart.rows] == [[0, 3 << 30], [1, 4 << 30]]
    assert not list(timeline.memories(result("trace", otherData={"proxy": "p"}, traceEvents=step)))


def test_a_large_trace_shows_the_slowest_rank_and_one_of_each_role():
    tracks = {}
    for rank in range(64):
        tracks[rank] = timeline.Track()
        tracks[rank].name, tracks[rank].step_us = f"rank {rank} (node0 gpu 0, stage {rank // 32})", 100 + (rank == 41)
    assert timeline.choose(tracks) == [0, 41]  # of stage 1 the slowest


def test_scaling_chart_has_ideal_line():
    def run(ranks, rate):
        return result("proxy", proxy="p", ranks=ranks, samples_per_s=rate, options={"tp": 1, "json": f"{ranks}.json"})
    other = result("proxy", proxy="p", ranks=16, samples_per_s=1., options={"tp": 2})
    (chart,) = steps.scaling([run(8, 600.), run(2, 200.), run(4, 380.), other])
    measured_line, ideal = chart.traces
    assert (measured_line["x"], measured_line["y"], ideal["y"]) == ([2, 4, 8], [200, 380, 600], [200, 400, 800])
    assert [r[3:] for r in chart.rows] == [[1, 1], [1.9, .95], [3, .75]]


def test_charts_of_a_study_by_its_columns():
    study = {"charts": [{"x": "ranks", "y": "time_us.p50", "lines": ["algo", "n"], "for_each": ["net"]},
                        {"x": "algo", "y": "time_us"}, {"x": "ranks", "y": "no result has it"}]}
    rows = [[net, algo, 3, ranks, t] for net, algo, ranks, t in (
        ("ib", "Ring", 4, 8.), ("ib", "Ring", 2, 5.), ("ib", "Ring", 2, 7.), ("ib", "Ring", 2, 6.), ("ib", None, 2, 4.),
        ("eth", "Ring", 2, 9.), ("eth", "Tree", 2, None))]
    charts_of = list(tables.study_charts([result("sweep", name="s", about="why?", study=study, rows=rows,
                                                 columns=["net", "algo", "n", "ranks", "time_us"])]))
    assert [c.title for c in charts_of] == ["time_us over ranks, net ib (s)", "time_us over ranks, net eth (s)", "time_us over algo (s)"]
    ring, free = charts_of[0].traces  # the repeats on two ranks have the median 6; the error bar goes from 5 to 7
    assert (ring["name"], ring["x"], ring["y"]) == ("Ring, n 3", [2, 4], [6, 8])
    assert (ring["error_y"]["arrayminus"], ring["error_y"]["array"]) == ([1, 0], [1, 0])
    assert (free["name"], free["y"], "error_y" in free) == ("algo not set, n 3", [4], False)
    assert charts_of[1].notes == charts_of[0].notes == ["1 row has no value for this chart"]
    assert charts_of[2].traces[0]["type"] == "bar" and charts_of[2].traces[0]["x"] == ["Ring"]


def test_memory_chart_names_roles_that_do_not_fit():
    gib = 1 << 30
    roles = [{"name": "first", "training_memory_bytes": {"parameters": 30 * gib, "optimizer": 60 * gib, "total": 90 * gib}},
             {"name": "last", "training_memory_bytes": {"parameters": 30 * gib, "optimizer": 30 * gib, "total": 60 * gib}}]
    (chart,) = steps.memory([result("plan", proxy="p", roles=roles, predicted={"memory": {"available_bytes": 80 * gib}})])
    assert [t["x"] for t in chart.traces] == [[30, 30], [60, 30]] and "Does not fit: first." in chart.about
    assert chart.layout["shapes"][0]["x0"] == 80


def test_charts_of_emulated_or_predicted_results_are_stamped(samples):
    results = [result_files.read(path) for kind, path in samples.items() if kind != "p2p"]
    for _, made in charts.make_all(results):
        for chart in made:
            stamps = " ".join(a["text"] for a in (chart.figure() or {"layout": {"annotations": []}})["layout"]["annotations"])
            assert chart.figure() is None or "emulated" in stamps or "predicted" in stamps, chart.title
    measured_one = result("collectives", results=[row(8, 1)], emulated=False, status="timeout")
    assert list(measured.over_size([measured_one]))[0].stamps == ["status of the run: timeout"]


def test_json_of_nccl_tests(busbar, tmp_path):
    done = busbar.run_program(busbar.build / "emulated" / "all_reduce_perf", "-b", "1K", "-e", "4K", "-f", 4, "-g", 2, "-n", 2,
                              "-J", tmp_path / "n.json")
    assert done.returncode == 0, done.stderr
    bandwidth, time = list(measured.over_size([result_files.read(tmp_path / "n.json")]))
    wanted = [r["out_of_place"]["time"] for r in json.loads((tmp_path / "n.json").read_text())["results"]]
    assert time.traces[0]["y"] == wanted and bandwidth.stamps == ["emulated GPUs: modelled times"]
    assert bandwidth.title.startswith("all_reduce")


def test_times_to_enqueue_have_no_bandwidth():
    """-C 1 of nccl-tests."""
    side = {"cpu_time": 5.0, "alg_bw": 800.0, "bus_bw": 1200.0, "nwrong": 0}
    (found,) = result_files.from_nccl_tests({"args": ["all_reduce_perf"], "results": [{"size": 4 << 20, "in_place": side}]})["results"]
    assert found["mode"] == "host" and found["busbw_gbps"] is found["algbw_gbps"] is None and found["time_us"]["p50"] == 5


def test_printed_output_of_nccl_tests(busbar, tmp_path, plotly):
    done = busbar.run_program(busbar.build / "emulated" / "all_reduce_perf", "-b", "1K", "-e", "4K", "-f", 4, "-g", 2, "-n", 2)
    (tmp_path / "n.log").write_text(done.stdout)
    text = page_of(busbar, tmp_path / "r.html", tmp_path / "n.log")
    assert "<h3>n.log <small>bench</small></h3>" in text and "all_reduce float sum: time over size (stream)" in text
    out_of_place = done.stdout.splitlines()[[line.split()[:1] for line in done.stdout.splitlines()].index(["4096"])].split()[5]
    assert f'["out of place",4096,{float(out_of_place)},' in text


def test_printed_output_of_old_nccl_tests(busbar, tmp_path, plotly):
    """Output before 2.16.7 has neither versions nor the operation, which is stated before the file."""
    done = busbar.run_program(busbar.build / "emulated" / "all_reduce_perf", "-b", "1K", "-e", "4K", "-f", 4, "-g", 2, "-n", 2)
    (tmp_path / "all_reduce.log").write_text("".join(line for line in done.stdout.splitlines(True) if "version" not in line and "Collective test" not in line))
    assert "try: all_reduce=" in busbar.run("report", tmp_path / "all_reduce.log", "-o", tmp_path / "r.html").stderr
    text = page_of(busbar, tmp_path / "r.html", f"all_reduce={tmp_path / 'all_reduce.log'}")
    assert "<h3>all_reduce.log <small>bench</small></h3>" in text and "all_reduce float sum: time over size (stream)" in text


def test_units_of_numbers():
    assert [units.time_text(v) for v in (1.234567, 9999, 10000, 1e7, None)] == ["1.235 us", "9999 us", "10 ms", "10 s", "-"]
    assert [units.bytes_text(v) for v in (0, 1023, 1024, 2 ** 30 - 64, 80e9)] == ["0 B", "1023 B", "1 KiB", "1 GiB", "74.51 GiB"]


def mutants(data, n, seed):
    """The data with one value replaced by a value of another type, again and again; the value is restored."""
    paths = []

    def walk(value, path):
        paths.append(path)
        for key in (value if isinstance(value, dict) else range(min(len(value), 2)) if isinstance(value, list) else ()):
            walk(value[key], path + (key,))
    walk(data, ())
    dice = random.Random(seed)
    for path in dice.sample(paths[1:], min(n, len(paths) - 1)):
        at = data
        for key in path[:-1]:
            at = at[key]
        value, at[path[-1]] = at[path[-1]], dice.choice([None, "x", -1, 1e308, [], {}, [[1]], {"a": None}, True, 0])
        yield path, data
        at[path[-1]] = value


def test_no_file_ends_in_a_traceback(samples, tmp_path, monkeypatch):
    """A changed file results in a page or in a one-line error about the file."""
    monkeypatch.setattr(page, "find_plotly", lambda: "")
    rejected = 0
    for kind, path in samples.items():
        for where, mutant in mutants(json.loads(path.read_text()), 60, kind):
            (tmp_path / "m.json").write_text(json.dumps(mutant))
            try:
                results = [result_files.read(tmp_path / "m.json")]
                page.make_page(results, charts.make_all(results), "t")
            except result_files.Unreadable as error:
                rejected += 1
                assert "\n" not in str(error)
            except Exception as error:  # name the changed value
                raise AssertionError(f"{kind}: {where}") from error
    assert rejected > 10


def test_files_with_the_same_name_get_distinct_names():
    both = [result_files.Result(path, "collectives", {}) for path in ("/runs/a/r.json", "/runs/b/r.json", "/runs/c.json")]
    result_files.make_names_unique(both)
    assert [r.name for r in both] == ["a/r.json", "b/r.json", "c.json"]


# ---- in a browser ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser():
    if not find_chromium():
        pytest.skip("Chromium is not installed")
    with Chromium() as one:
        yield one


@pytest.fixture
def opened(busbar, samples, browser, tmp_path, plotly):
    """opened(kind...) opens the page of these results in the browser."""

    def open_page(*kinds):
        page_of(busbar, tmp_path / "r.html", *(samples[kind] for kind in kinds))
        browser.media()
        browser.open(tmp_path / "r.html")
        return browser
    return open_page


def test_all_charts_draw_without_errors_or_requests(opened, browser, samples):
    opened(*samples)
    browser.draw_all()
    n = browser.script("document.querySelectorAll('.plot').length")
    assert n >= 14 and browser.script("document.querySelectorAll('.plot .main-svg').length") >= n
    for scheme in ("light", "dark"):
        browser.media(scheme=scheme)
        colors = browser.script("[getComputedStyle(document.querySelector('.plot .xtick text')).fill, "
                                "getComputedStyle(document.body).backgroundColor]")
        bright = [sum(map(int, re.findall(r"\d+", color)[:3])) > 380 for color in colors]  # text, paper
        assert bright == [scheme == "dark", scheme == "light"]
    assert browser.errors == [] and browser.requests == []


def test_accessible_names(opened, browser):
    opened("collectives")
    assert "all_reduce float sum: bus bandwidth over size (stream)" in browser.names("figure")
    assert sum("arrow keys" in name for name in browser.names("group")) == 2
    for role in ("figure", "region", "button", "link", "navigation"):
        assert all(browser.names(role)), role


def test_arrow_keys_select_values(opened, browser):
    opened("p2p")
    browser.script("document.querySelector('.plot').focus()")
    browser.press("ArrowRight")
    assert browser.script("document.getElementById('announcement').textContent").endswith("rank 0: itself")
    browser.press("ArrowRight")
    assert browser.script("document.getElementById('announcement').textContent").endswith("rank 0 to rank 1, 400 GB/s, 1 of the median of its class")
    browser.press("ArrowLeft"), browser.press("ArrowLeft")
    assert browser.script("document.getElementById('announcement').textContent").endswith("rank 2: itself")
    assert browser.errors == []


def test_sort_and_filter_a_study(opened, browser):
    opened("sweep")
    browser.draw_all()
    rows = "[...document.querySelectorAll('details.values[open] tbody tr')].map(r => [...r.cells].map(c => c.textContent))"
    heads = browser.script("[...document.querySelectorAll('details.values[open] thead th')].map(h => h.textContent)")
    ranks, step = heads.index("ranks"), heads.index("predicted.step_us")
    assert len(browser.script(rows)) == 6
    press = f"document.querySelectorAll('details.values[open] thead button')[{step}].click()"
    for sign in (1, -1):
        browser.script(press)
        times = [float(r[step].replace(",", "")) for r in browser.script(rows)]
        assert times == sorted(times, reverse=sign < 0) and len(set(times)) > 2
    browser.script("{ const i = document.querySelector('details.values[open] input'); i.value = 'ranks>=8, stages=2'; "
                   "i.dispatchEvent(new Event('input')); }")
    assert sorted(r[ranks] for r in browser.script(rows)) == ["16", "8"]
    assert browser.script("document.querySelector('.chooser').parentElement.querySelector('.plot').data.flatMap(t => t.x).length") == 2
    assert browser.errors == []


def test_the_work_to_open_a_study_is_linear_in_its_rows(browser, tmp_path, monkeypatch):
    """Counts how often the blocks of page.js run (V8's precise coverage), with a plotly that draws nothing: each further
    row costs the same."""
    plotly = "const Plotly = {newPlot(plot, data) { plot.data = data; }, react() {}};"
    monkeypatch.setattr(page, "find_plotly", lambda: plotly)

    def work(n):
        study = result("sweep", name="made up", columns=["ranks", "stages", "step_us", "state"],
                       axes={"ranks": [], "stages": []}, rows=[[2 ** (i % 10), 1 + i % 7, 1e3 + i * 7919 % 10000, "complete"] for i in range(n)])
        text = page.make_page([study], charts.make_all([study]), "t")
        # V8 does not count in scripts that it has compiled before: the comment makes this one new.
        (tmp_path / "r.html").write_text(text.replace('"use strict";', f'"use strict"; // {n} rows', 1))
        browser.open(tmp_path / "r.html")
        browser.draw_all()
        scripts = browser.call("Profiler.takePreciseCoverage")["result"]
        assert browser.script("plots()[0].data.flatMap(trace => trace.x).length") == n and browser.errors == []
        assert browser.script("document.querySelectorAll('details tbody tr').length") == 200
        functions = [function for script in scripts for function in script["functions"]]
        return sum(block["count"] for function in functions for block in function["ranges"])
    browser.call("Profiler.enable")
    browser.call("Profiler.startPreciseCoverage", callCount=True, detailed=True)
    few, some, many = map(work, (300, 600, 1200))
    browser.call("Profiler.disable")
    assert 0 < 1.95 * (some - few) < many - some < 2.05 * (some - few), (few, some, many)


def test_narrow_page_cuts_nothing_off(opened, browser, samples):
    opened(*samples)
    browser.call("Emulation.setDeviceMetricsOverride", width=420, height=900, deviceScaleFactor=1, mobile=True)
    try:
        browser.draw_all()
        browser.script("document.querySelectorAll('details').forEach(d => d.open = true)")
        assert browser.script("document.documentElement.scrollWidth") <= 420
        assert browser.script("[...document.querySelectorAll('figure, .card')].every(f => f.getBoundingClientRect().right <= 420 && "
                              "[...f.querySelectorAll('.main-svg, .scroll, p, li')].every(e => e.getBoundingClientRect().right <= 420))")
    finally:
        browser.call("Emulation.clearDeviceMetricsOverride")


def test_print_contains_every_chart(opened, browser, tmp_path):
    opened("proxy", "trace", "plan")
    browser.script("""addEventListener("beforeprint", () => {  // runs after the listener of the page
        const bottom = element => element.getBoundingClientRect().bottom;
        window.boxes = plots().map(p => [bottom(p), bottom(p.querySelector(".main-svg"))]);
    })""")
    browser.pdf(tmp_path / "r.pdf")
    drawn, boxes = browser.script("[plots().every(p => p.dataset.drawn), boxes]")
    assert drawn and len(boxes) > 10 and all(box >= svg - 1 for box, svg in boxes)  # no chart overflows its box
    assert (tmp_path / "r.pdf").read_bytes().count(b"/Type /Page\n") >= 3 and browser.errors == []


def test_charts_are_complete_on_a_narrow_page(browser, tmp_path, plotly):
    """Nine lines with a stamp of each file, and ten layouts with long names: plots keep their height, and all names are
    left of their bars."""
    many = [result("collectives", results=[row(8, 1), row(16, 1.5)], status=f"status {i}") for i in range(9)]
    for i, one in enumerate(many):
        one.name = f"measured-on-monday-{i}.json"
    many.append(result("plan", proxy="p", best_layout={"layouts": [{**LAYOUTS[0], "dp": 16 + i} for i in range(10)]}))
    (tmp_path / "r.html").write_text(page.make_page(many, charts.make_all(many), "t"))
    browser.call("Emulation.setDeviceMetricsOverride", width=420, height=900, deviceScaleFactor=1, mobile=True)
    try:
        browser.open(tmp_path / "r.html")
        browser.draw_all()
        plots = browser.script("""plots().map(plot => {
            const area = plot.querySelector(".nsewdrag").getBoundingClientRect(), box = plot.getBoundingClientRect();
            const names = [...plot.querySelectorAll(".ytick text")].filter(n => getComputedStyle(n).display !== "none");
            const inside = name => name.left >= box.left && name.right <= area.left;
            return [area.height, area.width, names.length, names.every(name => inside(name.getBoundingClientRect()))];
        })""")
        assert browser.errors == [] and len(plots) == 3 and plots[2][2] == 10
        assert all(height > 150 and width > 200 and inside for height, width, _, inside in plots), plots
    finally:
        browser.call("Emulation.clearDeviceMetricsOverride")


def test_texts_of_a_file_are_escaped(busbar, browser, tmp_path, plotly):
    evil = "</script><img src=x onerror=document.title='bad'><b>"
    rows = [row(1024, 1.0, collective=evil, algorithm=evil), row(2048, 2.0, collective=evil)]
    (tmp_path / "e.json").write_text(json.dumps({"schema": "busbar.bench/1", "command": ["bench", evil], "started": evil,
                                                 "status": evil, "results": rows}))
    page_of(busbar, tmp_path / "r.html", tmp_path / "e.json")
    browser.media()
    browser.open(tmp_path / "r.html")
    browser.draw_all()
    browser.script("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert browser.script("document.title") == "busbar: e.json"
    assert browser.script("document.querySelectorAll('img').length") == 0 and browser.errors == [] and browser.requests == []
