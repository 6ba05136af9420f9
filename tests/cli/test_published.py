"""Predictions compared with published results: every training step of reference_data (accuracy.py) on the shipped cluster profiles, with
the options of its row and no others. Profiles and rates of software must not be fitted to individual rows."""
import json
import pathlib
import re
import statistics

import accuracy
import calibration_accuracy
import collective_accuracy
import pytest
from accuracy import PUBLISHED

# Limits of the relative error: mean of all rows, and each row whose settings are fully known ("sure") and that does not use FP8.
MAX_MEAN, MAX_SURE = 0.10, 0.25


def mean_of(errors):
    return statistics.mean(map(abs, errors))


def text_of_errors(ranks, per_size, fitted):
    """Logs and the errors of their sizes as the text of a kind in published.def."""
    parts = [f"{100 * mean:.0f}% {name} ({collective_accuracy.too(bias)})" for name, _, mean, bias in collective_accuracy.by_size(per_size)]
    gpus = f"{min(ranks)} to {max(ranks)}" if len(set(ranks)) > 1 else ranks[0]
    text = f"{len(ranks)} log{'s' * (len(ranks) > 1)} of nccl-tests on {gpus} GPUs{', to which the profile was fitted' * fitted}: error {', '.join(parts)}"
    return text.replace("(", "(forecasts on average ", 1)


def test_predictions_match_nccl_tests_logs(busbar, golden):
    """Also what `bench --expect` would print for these logs: the median of the results of 1 MiB or more."""
    failures, of_expected, kinds = {}, {}, {}
    for log in collective_accuracy.LOGS:
        errors = collective_accuracy.errors_of(log, busbar.build / "busbar")
        of_expected[log["id"]] = [1 + error for size, error in errors.items() if size >= 1 << 20]
        mean = mean_of(errors.values())
        where = "ONE_NODE" if collective_accuracy.is_one_node(log) else "SEVERAL_NODES"
        name = (f'"{log["collective"]}", BB_{accuracy.generation(log).upper()}, {where}, "{collective_accuracy.transport(log)}"' +
                " one-process" * ("one-process" in log["cluster"]),
                bool(log.get("fitted")))
        kind = kinds.setdefault(name, [[]])
        kind[0].append(log["ranks"])
        kind += errors.items()
        print(f"\n{log['id']:42} mean {100 * mean:5.1f} %, worst {100 * max(errors.values(), key=abs):+6.1f} %", end="")
        if mean > log["most_mean"]:
            failures[log["id"]] = errors
    assert failures == {}
    for name in [name for name in kinds if "one-process" in name[0] or " with " in name[0]]:  # a kind is that of all profiles of a generation
        del kinds[name]
    kinds = {name: kind for name, kind in kinds.items() if not name[1] or (name[0], False) not in kinds}
    golden("../../../proxies/offline/bench_plan/published.def",
           "".join(f'{{{kind}, "{text_of_errors(ranks, errors, fitted)}"}},\n' for (kind, fitted), (ranks, *errors) in sorted(kinds.items())))
    for words, line in (("all_reduce --ranks 8 --cluster h100-sxm-ib", "Hopper on one node: 7 logs of nccl-tests on 4 to 8 GPUs: error "),
                        ("all_reduce --ranks 16 --cluster aws-p5", "Hopper on several nodes, efa-v2: 3 logs of nccl-tests on 16 to 128 GPUs: error "),
                        ("all_gather --ranks 64 --cluster h100-sxm-ib --set inter.gbps=24", "Hopper on several nodes, infiniband: no published timing of this kind (of the profile without --set)\n"),
                        ("all_gather --ranks 64 --cluster h100-sxm-ib", "Hopper on several nodes, infiniband: no published timing of this kind\n"),
                        ("all_gather --ranks 64 --cluster h100-sxm-ib --slow node1:0.5", "Hopper on several nodes, infiniband: no published timing of this kind (of plans without --slow)\n"),
                        ("all_reduce --ranks 8 --cluster h100-nvl-pcie-ib", "Hopper with PCIe on one node: no published timing of this kind\n"),
                        ("all_reduce --ranks 16 --cluster a100-pcie-ib", "Ampere with PCIe on several nodes, infiniband: no published timing of this kind\n"),
                        ("all_reduce --ranks 128 --cluster h100-sxm-sharp", "Hopper on several nodes, sharp: no published timing of this kind; NVLS with SHARP (a user of NCCL: 480 GB/s) is not modelled\n"),
                        ("all_gather --ranks 128 --cluster h100-sxm-sharp", "Hopper on several nodes, sharp: no published timing of this kind\n"),
                        ("all_reduce --ranks 64 --cluster aws-p5en", "Hopper on several nodes, efa-v3: no published timing of this kind\n")):
        assert f"# accuracy: {words.split()[0]}, {line}" in busbar.run("plan", *words.split(), emulated=False).stdout
    medians = [statistics.median(of_expected[log["id"]]) for log in collective_accuracy.LOGS[:30]]
    assert sum(0.85 <= part <= 1.15 for part in medians) >= 29


def test_errors_of_collectives_that_no_profile_was_fitted_to(busbar):
    """Mean error by transport and size: at most 25 % below 1 MiB, 15 % to 64 MiB and 10 % above, except where the text gives the reason."""
    old = "efa-v2 with aws-ofi-nccl 1.7.3"  # no profile describes it
    more = {(old, "to 64 MiB"): 0.45, (old, "above"): 0.35}  # profiles/transports/README.md
    kinds = {}
    for log in collective_accuracy.LOGS:
        if not log.get("fitted"):
            kinds.setdefault(collective_accuracy.transport(log), []).extend(collective_accuracy.errors_of(log, busbar.build / "busbar").items())
    assert set(kinds) == {"", "infiniband", "efa-v1", "efa-v1-2021", "efa-v2", old, "efa-v4", "tcpx", "tcpxo", "roce"}
    limits = dict(zip(("below 1 MiB", "to 64 MiB", "above"), (0.25, 0.15, 0.1)))
    assert {(kind, name): mean for kind, errors in kinds.items() for name, _, mean, _ in collective_accuracy.by_size(errors)
            if mean > more.get((kind, name), limits[name])} == {}


def test_calibrated_profiles_predict_rows_that_were_not_measured(busbar, monkeypatch):
    """4 % from half of the sizes is not reached: what is missing differs from machine to machine (correlation), and no interpolation finds it
    (profiles/clusters/README.md, Measured sizes)."""
    monkeypatch.setattr(calibration_accuracy, "PROGRAM", busbar.build / "busbar")
    logs = calibration_accuracy.published_logs()
    results = calibration_accuracy.run(logs)
    limits = dict(zip(results, (0.045, 0.055, 0.06), strict=True))
    assert {name: mean for name, of in results.items() if (mean := mean_of(row[2] for _, row in of)) > limits[name]} == {}
    assert max(abs(row[2]) for of in results.values() for _, row in of) <= 0.4
    correlation, pairs = calibration_accuracy.correlation(logs, results[calibration_accuracy.HALVES])
    assert abs(correlation) <= 0.15 and pairs > 200


QUICK = {False: 512, True: 64}  # passes of a prediction that takes at most about 0.2 s; of checking.json: fewer


def test_predictions_of_published_steps_have_the_written_errors(busbar, monkeypatch):
    """The quick half of them; `accuracy.py --write` writes all. A forecast reports its kind."""
    monkeypatch.setenv("BUSBAR_BUILD", str(busbar.build))
    quick = [(row, error) for row, error in accuracy.written_errors() if accuracy.passes(row) <= QUICK[accuracy.half(row) == "checking"]]
    predictions = accuracy.predict_all([row for row, _ in quick])
    assert len(quick) > 100
    for (row, error), prediction in zip(quick, predictions):
        assert (prediction is None) == (error is None), row["id"]
        of = prediction and prediction["model_error"] and prediction["model_error"]["kind"].replace("few experts (counted as dense)", "dense")
        assert not of or of == ", ".join(name for name in accuracy.kind(row) if name != "LoRA"), row["id"]
        assert not prediction or accuracy.error_of(row, prediction) == pytest.approx(error, abs=2e-5), row["id"]


def test_errors_of_published_steps_are_those_that_forecasts_of_their_kind_report():
    """Rates are chosen by the fitting half; the limits are those of the testing half."""
    errors = [(row, error) for row, error in accuracy.written_errors() if error is not None]
    assert len(errors) == 176 + 263
    sure = {row["id"]: error for row, error in errors if row.get("sure") and not row["fp8"]}
    assert {name: error for name, error in sure.items() if abs(error) > MAX_SURE} == {}
    assert mean_of(error for row, error in errors if row in PUBLISHED["steps"]) <= MAX_MEAN
    testing = [error for row, error in errors if accuracy.half(row) == "testing"]
    assert mean_of(testing) <= 0.08 and abs(statistics.mean(testing)) <= 0.04 and accuracy.share_within(errors) >= 0.8
    checking = [error for row, error in errors if accuracy.half(row) == "checking" and accuracy.kind(row)[0] == "megatron"
                and "Mamba" not in accuracy.kind(row)]
    assert mean_of(checking) <= 0.1 and abs(statistics.mean(checking)) <= 0.04 and accuracy.share_within(errors, "checking", accuracy.HALVES[:2]) >= 0.79
    readme = (accuracy.CLUSTERS / "README.md").read_text()
    assert [name for name, of in accuracy.checked(errors).items() if f"| {name} | {of[0]} | {of[1]:.1f} % | {of[2]:+.1f} % |" not in readme] == []
    shown = (f"half is {100 * mean_of(testing):.1f} %, with its sign {100 * statistics.mean(testing):+.1f} %.",
             f"\n{100 * accuracy.share_within(errors, 'checking', accuracy.HALVES[:2]):.0f} % of them are within the range")
    assert [text for text in shown if text not in readme] == []
    numbers = [list(map(float, re.findall(r"-?\d[.\d]*(?=[,}])", text))) for text in (accuracy.table(errors), accuracy.TABLE.read_text())]
    assert numbers[0] == pytest.approx(numbers[1], abs=0.0011)
    assert accuracy.penalties(errors) == accuracy.PENALTIES.read_text()


def test_forecasts_of_mamba_layers_have_errors_of_their_own(busbar):
    """Not those of the same software, GPUs and precision without such layers, also in --best-layout."""
    rows = {tuple(line[1:].split(", ")[:4]): line[1:-3].split(", ") for line in accuracy.TABLE.read_text().splitlines()}
    args = "plan transformer --model nemotron3_nano --ranks 16 --seq-length 8192 --ep 8 --global-batch-size 64 --dp-sync distributed --cluster".split()
    of = rows['"megatron"', "BB_BLACKWELL", "MAMBA", "8"]
    blackwell = f"megatron, Blackwell, Mamba, 8 bits ({of[5]} published steps): error {100 * float(of[6]):.0f}%, "
    assert blackwell in busbar.run(*args, "b200-sxm-ib", "--gemm-precision", "mxfp8", emulated=False).stdout
    done = busbar.run(*args, "b200-sxm-ib", *"--gemm-precision mxfp8 --best-layout --tp 1 --pp 1 --top 1".split(), emulated=False)
    assert f"# accuracy: {blackwell}" in done.stdout, done.stdout + done.stderr
    assert "Hopper, Mamba, 8 bits (3 published steps)" in busbar.run(*args, "h100-sxm-ib", "--fp8", emulated=False).stdout
    mamba = [line for key, line in rows.items() if key[2] == "MAMBA"]
    bands = [100 * float(line[8]) for line in mamba]
    text = (f"no published step of this kind: megatron, Hopper, Mamba, 16 bits; other kinds with Mamba ({sum(int(line[5]) for line in mamba)} published steps): "
            f"80% within {min(bands):.0f} to {max(bands):.0f}%, depending on the kind\n")
    assert text in busbar.run(*args, "h100-sxm-ib", emulated=False).stdout


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
    readme = pathlib.Path(__file__).parents[2] / "proxies/workloads/transformer/README.md"
    assert f"| as above | {seconds:.1f} s |" in readme.read_text()
