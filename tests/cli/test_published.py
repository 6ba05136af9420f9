"""Predictions compared with published results: every training step of reference_data (accuracy.py) on the shipped cluster profiles, with
the options of its row and no others. Profiles and rates of software must not be fitted to individual rows."""
import json
import re
import statistics

import accuracy
import pytest
from accuracy import FOLDER, PUBLISHED

COLLECTIVES = json.loads((FOLDER / "collectives.json").read_text())
# Limits of the relative error: mean of all rows, and each row whose settings are fully known ("sure") and that does not use FP8.
MAX_MEAN, MAX_SURE = 0.10, 0.25
pytestmark = pytest.mark.xdist_group("published")  # one worker, so that each row is planned once


def mean_of(errors):
    return statistics.mean(map(abs, errors))


def collective_errors(busbar, log):
    sizes = {int(size): us for size, us in log["us"].items()}
    done = busbar.run("plan", log["collective"], "--ranks", str(log["ranks"]), "--cluster", log["cluster"], "-b", str(min(sizes)),
                      "-e", str(max(sizes)), "-f", "2", *log.get("words", "").split(), "--json", "-", emulated=False)
    assert done.returncode == 0, done.stderr
    rows = [row for row in json.loads(done.stdout)["results"] if row["placement"] == "out_of_place" and row["bytes"] in sizes]
    assert len(rows) == len(sizes)
    return {row["bytes"]: row["time_us"]["p50"] / sizes[row["bytes"]] - 1 for row in rows}


def text_of_errors(logs, per_size):
    """Logs and the errors of their sizes as the text of a kind in published.def."""
    parts = []
    for name, low, high in (("below 1 MiB", 0, 1 << 20), ("to 64 MiB", 1 << 20, (64 << 20) + 1), ("above", (64 << 20) + 1, 1 << 60)):
        its = [error for size, error in per_size if low <= size < high]
        parts += [f"{100 * mean_of(its):.0f}% {name} (bias {100 * statistics.mean(its):+.0f}%)"] if its else []
    return f"{logs} log{'s' * (logs > 1)} of nccl-tests: error {', '.join(parts)}"


def test_predictions_match_nccl_tests_logs(busbar, golden):
    """Also what `bench --expect` would print for these logs: the median of the results of 1 MiB or more."""
    failures, of_expected, kinds = {}, [], {}
    for log in COLLECTIVES["logs"]:
        errors = collective_errors(busbar, log)
        of_expected.append(statistics.median(1 + error for size, error in errors.items() if size >= 1 << 20))
        mean = mean_of(errors.values())
        where = "ONE_NODE" if log["ranks"] <= 8 or "--gpus-per-node 72" in log.get("words", "") else "SEVERAL_NODES"
        kind = kinds.setdefault(f'"{log["collective"]}", BB_{accuracy.GENERATIONS[log["cluster"][0]].upper()}, {where}', [0])
        kind[0] += 1
        kind += errors.items()
        print(f"\n{log['id']:42} mean {100 * mean:5.1f} %, worst {100 * max(errors.values(), key=abs):+6.1f} %", end="")
        if mean > log["most_mean"]:
            failures[log["id"]] = errors
    assert failures == {}
    golden("../../../proxies/offline/bench_plan/published.def",
           "".join(f'{{{kind}, "{text_of_errors(logs, errors)}"}},\n' for kind, (logs, *errors) in sorted(kinds.items())))
    for words, line in (("all_reduce --ranks 8", ' one node: 7 logs of nccl-tests: error '), ("alltoall --ranks 64", " several nodes: no published measurement of this kind\n")):
        assert f"# accuracy: {words.split()[0]}, Hopper on{line}" in busbar.run("plan", *words.split(), "--cluster", "h100-sxm-ib", emulated=False).stdout
    assert len(of_expected) == 30 and sum(0.85 <= part <= 1.15 for part in of_expected) >= 29


QUICK = 1000  # passes of a prediction that takes at most about 0.2 s


def test_predictions_of_published_steps_have_the_written_errors(busbar, monkeypatch):
    """The quick two thirds of them; `accuracy.py --write` writes all. A forecast reports its kind."""
    monkeypatch.setenv("BUSBAR_BUILD", str(busbar.build))
    quick = [(row, error) for row, error in accuracy.written_errors() if accuracy.passes(row) <= QUICK]
    predictions = accuracy.predict_all([row for row, _ in quick])
    assert len(quick) > 100
    for (row, error), prediction in zip(quick, predictions):
        assert (prediction is None) == (error is None), row["id"]
        assert not prediction or prediction["model_error"]["kind"].replace("few experts (counted as dense)", "dense") == ", ".join(accuracy.kind(row)), row["id"]
        assert not prediction or accuracy.error_of(row, prediction) == pytest.approx(error, abs=2e-5), row["id"]


def test_errors_of_published_steps_are_those_that_forecasts_of_their_kind_report():
    """Rates are chosen by the fitting half; the limits are those of the testing half."""
    errors = [(row, error) for row, error in accuracy.written_errors() if error is not None]
    assert len(errors) == 176
    sure = {row["id"]: error for row, error in errors if row.get("sure") and not row["fp8"]}
    assert {name: error for name, error in sure.items() if abs(error) > MAX_SURE} == {}
    assert mean_of(error for row, error in errors if row in PUBLISHED["steps"]) <= MAX_MEAN
    testing = [error for row, error in errors if accuracy.half(row) == "testing"]
    assert mean_of(testing) <= 0.105 and abs(statistics.mean(testing)) <= 0.04 and accuracy.share_within(errors) >= 0.8
    numbers = [list(map(float, re.findall(r"-?\d[.\d]*(?=[,}])", text))) for text in (accuracy.table(errors), accuracy.TABLE.read_text())]
    assert numbers[0] == pytest.approx(numbers[1], abs=0.0011)


def test_the_fitting_half_of_the_published_steps_shares_no_model_of_a_publisher_with_the_testing_half():
    halves = {}
    for row in accuracy.STEPS:
        halves.setdefault((row["source"].split()[0].rstrip(",:"), row["model"]), set()).add(accuracy.half(row))
    assert len(accuracy.STEPS) == 181 and {len(of) for of in halves.values()} == {1}
    assert [sum(accuracy.half(row) == half for row in accuracy.STEPS) for half in ("fitting", "testing")] == [70, 111]
    assert accuracy.summary([0.1, -0.2, 0.05, -0.15, 0.5]) == "  5 rows, mean 20.0 %, bias  +6.0 %, 80 % within 20.0 %"


def test_prediction_matches_deepseek_v3_report(busbar):
    """The DeepSeek-V3 technical report: 180,000 H800 hours per 10^12 tokens, in steps of 15,360 samples of 4,096 tokens on 2,048 GPUs.
    GEMMs and dispatch are in FP8, the schedule is DualPipe, and each token goes to at most four nodes, once to each. The report recomputes
    norms, up-projections and activations. No option of busbar matches this: it is more than `selective` and far less than `full`."""
    tokens, gpus = 15360 * 4096, 2048
    published = tokens / 1e12 * 180000 * 3600 / gpus
    args = (f"--ranks {gpus} --pp 16 --ep 64 --dp-sync zero1 --global-batch-size 15360 --fp8 --schedule dualpipe --moe-dispatch dedup "
            "--fp8-dispatch --moe-node-limit 4 --recompute selective --decoder-first-pipeline-num-layers 3 "
            "--decoder-last-pipeline-num-layers 2")
    done = busbar.run("plan", "transformer", "--model", "deepseek_v3", *args.split(), "--cluster", "h800-sxm-ib", "--json", "-",
                      emulated=False, timeout=300)
    assert done.returncode == 0, done.stderr
    seconds = json.loads(done.stdout)["predicted"]["step_us"] / 1e6
    print(f"\ndeepseek_v3 2048 H800: published {published:.1f} s, predicted {seconds:.1f} s, {100 * (seconds / published - 1):+.1f} %")
    assert abs(seconds / published - 1) <= MAX_SURE
