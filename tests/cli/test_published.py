"""Predictions compared with published results: every training step of reference_data/published.json on the shipped cluster profiles, with
the options of its row and no others.

pytest -s shows each error. Profiles must not be fitted to individual rows. The rows of later.json are held out for validation."""
import json
import statistics

import accuracy
import pytest
from accuracy import FOLDER, LATER, PUBLISHED

COLLECTIVES = json.loads((FOLDER / "collectives.json").read_text())
# Limits of the relative error: mean of all rows, and each row whose settings are fully known ("sure") and that does not use FP8.
MAX_MEAN, MAX_SURE = 0.10, 0.25
PREDICTED = {}  # predictions of rows that several tests read
pytestmark = pytest.mark.xdist_group("published")  # one worker, so that each row is planned once


def predicted(busbar, row, folder):
    key = json.dumps(row, sort_keys=True)
    if key not in PREDICTED:
        PREDICTED[key] = predict(busbar, row, folder)
    return PREDICTED[key]


def predict(busbar, row, folder):
    done = busbar.run(*accuracy.arguments(row, folder), emulated=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["predicted"]


def mean_of(errors):
    return sum(map(abs, errors)) / len(errors)


def errors_of(busbar, rows, folder):
    """Relative error of the predicted step time of each row, and the error band that the last forecast reports (model_error)."""
    errors = []
    for row in rows:
        forecast = predicted(busbar, row, folder)
        seconds = forecast["step_us"] / 1e6
        errors.append(seconds / row["step_s"] - 1)
        print(f"\n{row['id']:32} published {row['step_s']:8.3f} s, predicted {seconds:8.3f} s, {100 * errors[-1]:+6.1f} %", end="")
    print(f"\nmean {100 * mean_of(errors):.1f} %, {100 * sum(errors) / len(errors):+.1f} % signed")
    return errors, forecast["model_error"]


def later(group):
    return [row for row in LATER["steps"] if row["group"] == group]


def collective_errors(busbar, log):
    sizes = {int(size): us for size, us in log["us"].items()}
    done = busbar.run("plan", log["collective"], "--ranks", str(log["ranks"]), "--cluster", log["cluster"], "-b", str(min(sizes)),
                      "-e", str(max(sizes)), "-f", "2", *log.get("words", "").split(), "--json", "-", emulated=False)
    assert done.returncode == 0, done.stderr
    rows = [row for row in json.loads(done.stdout)["results"] if row["placement"] == "out_of_place" and row["bytes"] in sizes]
    assert len(rows) == len(sizes)
    return {row["bytes"]: row["time_us"]["p50"] / sizes[row["bytes"]] - 1 for row in rows}


def test_predictions_match_nccl_tests_logs(busbar):
    """Also what `bench --expect` would print for these logs: the median of the results of 1 MiB or more."""
    failures, of_expected = {}, []
    for log in COLLECTIVES["logs"]:
        errors = collective_errors(busbar, log)
        of_expected.append(statistics.median(1 + error for size, error in errors.items() if size >= 1 << 20))
        mean = mean_of(errors.values())
        print(f"\n{log['id']:42} mean {100 * mean:5.1f} %, worst {100 * max(errors.values(), key=abs):+6.1f} %", end="")
        if mean > log["most_mean"]:
            failures[log["id"]] = errors
    assert failures == {}
    assert len(of_expected) == 30 and sum(0.85 <= part <= 1.15 for part in of_expected) >= 29


def test_predictions_match_published_steps(busbar, tmp_path):
    errors, _ = errors_of(busbar, PUBLISHED["steps"], tmp_path)
    sure = {row["id"]: error for row, error in zip(PUBLISHED["steps"], errors) if row["sure"] and not row["fp8"]}
    assert {name: error for name, error in sure.items() if abs(error) > MAX_SURE} == {}
    assert mean_of(errors) <= MAX_MEAN


def test_error_of_each_kind_of_step_is_that_of_its_published_steps(busbar, tmp_path):
    """The forecast of each published step reports the error of all steps of its kind. The profiles are not fitted to later.json."""
    found, held_out, old = {}, [], []
    for row in PUBLISHED["steps"] + [row for group in ("Megatron", "FSDP of 2023", "torchtitan", "SimuMax") for row in later(group)]:
        (error,), band = errors_of(busbar, [row], tmp_path)
        if band:
            found.setdefault(tuple(band.items()), []).append(error)
            kind = dict(sharded="zero3" in row["words"] or "hsdp" in row["words"], blackwell="b200" in row["cluster"])
            assert band["kind"] == ("ZeRO-3/HSDP, " if kind["sharded"] else "without ZeRO-3/HSDP, ") + (
                "Blackwell" if kind["blackwell"] else "A100 and Hopper")
        if row.get("group") in ("Megatron", "FSDP of 2023"):
            (held_out if row["group"] == "Megatron" else old).append(error)
    assert len(found) == 4
    for band, errors in found.items():
        values = {"steps": len(errors), "mean": mean_of(errors), "max": max(map(abs, errors)), "signed": sum(errors) / len(errors)}
        assert {k: v for k, v in band if k != "kind"} == {k: pytest.approx(v, abs=0.006) for k, v in values.items()}, band
    assert mean_of(held_out) <= 0.06 and max(map(abs, held_out)) <= 0.15 and mean_of(old) <= 0.2


def test_the_fitting_half_of_the_published_steps_shares_no_model_of_a_publisher_with_the_testing_half():
    halves = {}
    for row in accuracy.STEPS:
        halves.setdefault((row["source"].split()[0].rstrip(",:"), row["model"]), set()).add(accuracy.half(row))
    assert len(accuracy.STEPS) == 181 and {len(of) for of in halves.values()} == {1}
    assert [sum(accuracy.half(row) == half for row in accuracy.STEPS) for half in ("fitting", "testing")] == [70, 111]
    assert accuracy.summary([0.1, -0.2, 0.05, -0.15, 0.5]) == "  5 rows, mean 20.0 %, bias  +6.0 %, 80 % within 20.0 %"


def test_small_experts_are_slower_than_predicted_without_cuda_graphs(busbar, tmp_path):
    """Dropless routing copies token counts to the host in each layer and launches the kernels one after another. The published steps took
    longer than predicted. Later steps of the same publisher with the same layouts and CUDA graphs match (next test)."""
    errors, band = errors_of(busbar, later("small experts"), tmp_path)
    assert band is None and max(errors) < 0.05 and 1 / (1 + min(errors)) < 2.15  # the values that busbar's report prints


def test_predictions_match_small_experts_with_cuda_graphs(busbar, tmp_path):
    errors, _ = errors_of(busbar, later("CUDA graphs"), tmp_path)
    assert mean_of(errors) <= 0.1 and max(map(abs, errors)) < 0.095  # the values that busbar's report prints


def test_predictions_match_host_bound_experts(busbar, tmp_path):
    """Sixteen experts per GPU and micro-batches of one sample: B200 is limited by the host, and the prediction matches. H100 with two
    samples is not limited by the host. Its recipe has no recomputation, which fits into memory, but the published step took 1.5 times the
    predicted time."""
    errors, _ = errors_of(busbar, later("dropped tokens"), tmp_path)
    assert mean_of(errors) <= 0.25 and abs(errors[0]) <= 0.15


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
