"""busbar proxy scaling: output lines that scripts grep, efficiencies relative to a baseline run, and the same study with busbar sweep."""
import json
import re
import statistics

import pytest


SMALL = ("--images", 700, "--batch", 64, "--no-alone", "--traced-steps", 0, "-n", 2, "--warmup", 1)
EPOCH = re.compile(r"^Epoch (\d+)/(\d+) \| Time: (\d+\.\d\d)s \| Global Img/sec: (\d+\.\d\d)$", re.M)


def run(busbar, path, *args, ranks, status=0):
    """Runs proxy scaling. Returns the finished process and the parsed results (None if the run is expected to fail)."""
    done = busbar.run("proxy", "scaling", *args, "--json", path, ranks=ranks if ranks > 1 else 0)
    assert done.returncode == status, done.stderr
    return done, json.loads(path.read_text()) if status == 0 else None


@pytest.fixture(scope="module")
def one(busbar, tmp_path_factory):
    path = tmp_path_factory.mktemp("scaling") / "one.json"
    return path, run(busbar, path, *SMALL, ranks=1)


@pytest.mark.parametrize("ranks", [2, 4])
def test_weak_scaling_relative_to_one_rank(busbar, tmp_path, one, ranks):
    base_path, (_, base) = one
    done, data = run(busbar, tmp_path / "n.json", "--full", *SMALL[:4], "--traced-steps", 0, "-n", 2, "--baseline", base_path, ranks=ranks)
    s = data["scaling"]
    images = -(-700 // ranks)
    assert (s["rank_images"], s["steps_per_epoch"], s["last_batch"]) == (images, -(-images // 64), images % 64)
    lines = EPOCH.findall(done.stdout)
    assert [(a, b) for a, b, _, _ in lines] == [("1", "3"), ("2", "3"), ("3", "3")]
    assert done.stdout.count("Global Img/sec") == 3 and "emulated GPUs: " in "".join(done.stdout.splitlines()[:3])
    for line, epoch in zip(lines, s["epochs"]):
        assert epoch["images_per_s"] == pytest.approx(images / epoch["time_s"] * ranks)
        assert float(line[3]) == pytest.approx(epoch["images_per_s"], abs=0.006) and line[2] == f"{epoch['time_s']:.2f}"
    # Modelled times repeat exactly: an epoch consists of the full steps and one short step.
    full = data["step_us"]["p50"] * (images // 64)
    assert full < 1e6 * s["epochs"][1]["time_s"] < full + data["step_us"]["p50"]
    x, x0 = s["images_per_s"], base["scaling"]["images_per_s"]
    assert x == pytest.approx(statistics.mean(e["images_per_s"] for e in s["epochs"][1:]))
    b = s["baseline"]
    assert (b["ranks"], b["images_per_s"]) == (1, x0)
    assert b["speedup"] == pytest.approx(x / x0) and b["efficiency"] == pytest.approx(x / ranks / x0)
    assert b["step_efficiency"] == pytest.approx(base["step_us"]["p50"] / data["step_us"]["p50"])
    assert b["ideal_images_per_s"] == pytest.approx(x0 * ranks)
    assert b["karp_flatt"] is None and "Karp" not in done.stdout  # assumes a fixed problem size
    assert s["communication_share"] == pytest.approx(1 - data["overlap"]["compute_alone_us"] / data["step_us"]["p50"])
    # not the exposed time: also slower kernels
    assert f" per rank; lost to communication: {100 * s['communication_share']:.1f}% of a full step\n" in done.stdout
    # Each copy of the gradients (44,695,848 bytes) into and out of the fusion buffer reads and writes them, at the 2039 GB/s of an A100.
    assert data["overlap"]["compute_alone_us"] - base["step_us"]["p50"] == pytest.approx(4 * 44695848 / 2039e3, rel=0.01)
    longer = (data["overlap"]["compute_alone_us"] - base["step_us"]["p50"]) / data["step_us"]["p50"]
    assert (f"weak scaling efficiency E_w {b['efficiency']:.4f} (of full steps only: {b['step_efficiency']:.4f}); "
            f"compute longer by {100 * longer:.1f}% of a full step; ideal: ") in done.stdout
    assert b["step_efficiency"] == pytest.approx(1 - s["communication_share"] - longer, rel=1e-6)
    assert (s["broadcast"]["calls"], s["broadcast"]["bytes"]) == (164, 89430096) and s["broadcast"]["time_us"] > 0


def test_default_report_has_25_lines_with_a_forecast(busbar):
    args = ("proxy", "scaling", "-n", 2, "--epoch-steps", 49, "--cluster", "h100-sxm-ib")
    default, full = (busbar.run(*args, *more, ranks=8).stdout for more in ((), ("--full",)))
    assert len(default.splitlines()) <= 25 and default.splitlines()[-1].startswith("# from epoch 2 on: "), default
    for line in "# first broadcast of rank 0's state: ", "# weak scaling; epochs: every step runs":
        assert line in full and line not in default


@pytest.mark.parametrize("more,last", [(("--format", "synthetic"), "Total img/sec on 4 GPU(s): "), (("--epochs", 8), "Epoch 8/8 | "), (("--epoch-steps", 49), "Epoch 3/3 | ")])
def test_default_report_has_25_lines_with_a_forecast_and_a_baseline(busbar, tmp_path, more, last):
    run(busbar, tmp_path / "one.json", *more, "-n", 2, ranks=1)
    done, _ = run(busbar, tmp_path / "n.json", *more, "-n", 2, "--cluster", "h100-sxm-ib", "--baseline", tmp_path / "one.json", ranks=4)
    lines = done.stdout.splitlines()
    assert len(lines) <= 25 and lines[-1].startswith("# baseline: 1 rank, "), done.stdout
    assert [line.startswith(last) for line in lines].count(True) == 1 and len(re.findall("^(Iter|Epoch) ", done.stdout, re.M)) == ("Epoch" in last)


@pytest.mark.parametrize("few,many", [(2, 4), (1, 2)])
def test_strong_scaling(busbar, tmp_path, few, many):
    args = ("--mode", "strong", *SMALL, "--epochs", 1)
    _, base = run(busbar, tmp_path / "few.json", *args, ranks=few)
    done, data = run(busbar, tmp_path / "many.json", *args, "--baseline", tmp_path / "few.json", ranks=many)
    assert (base["scaling"]["rank_batch"], data["scaling"]["rank_batch"]) == (64 // few, 64 // many)
    b, t0, t = data["scaling"]["baseline"], base["scaling"]["epochs"][0]["time_s"], data["scaling"]["epochs"][0]["time_s"]
    assert b["efficiency"] == pytest.approx(few * t0 / (many * t)) and "E_s" in done.stdout
    karp_flatt = pytest.approx((t / t0 - 1 / many) / (1 - 1 / many))
    assert b["karp_flatt"] == (karp_flatt if few == 1 else None) and ("Karp" in done.stdout) == (few == 1)
    assert data["scaling"]["communication_share"] is None  # not measured (--no-alone)


@pytest.mark.parametrize("args,lines", [(SMALL, ["Global Img/sec: n/a", "from epoch 2 on: n/a img/sec"]),
                                        (("--model", "gpt2_small", *SMALL), ["Global Samples/s: n/a", "from epoch 2 on: n/a samples/s"]),
                                        (("--format", "synthetic", "--full", *SMALL[4:]), ["Img/sec per GPU: n/a +-n/a", "Iter #9: n/a"])])
def test_rates_of_steps_that_take_no_time(busbar, tmp_path, args, lines):
    """One rank without compute has neither kernels nor communication."""
    done, data = run(busbar, tmp_path / "none.json", *args, "--compute", "none", ranks=1)
    assert all(line in done.stdout for line in lines) and not ("samples/s" in lines[1] and "img/sec" in done.stdout.lower())
    assert not re.search(r"\b(inf|nan)\b", done.stdout)
    rounds = data["scaling"].get("epochs") or data["scaling"]["iterations"]
    assert [r["images_per_s"] for r in rounds] == [None] * len(rounds) and len(rounds) >= 3
    assert data["scaling"]["images_per_s"] is None


def test_partial_epoch_is_extrapolated_to_a_full_epoch(busbar, tmp_path, one):
    _, (_, whole) = one
    done, part = run(busbar, tmp_path / "part.json", *SMALL, "--epoch-steps", 3, ranks=1)
    assert [e["time_s"] for e in part["scaling"]["epochs"]] == pytest.approx([e["time_s"] for e in whole["scaling"]["epochs"]])
    assert (part["scaling"]["full_steps_run"], whole["scaling"]["full_steps_run"]) == (3, 10)
    assert "3 of 10 full steps run" in done.stdout


def test_times_of_more_steps_than_one_exchange(busbar, tmp_path):
    """The ranks exchange their step times every 1024 steps: an epoch of 1025 equal steps is 1025 times one step."""
    small = ("--images", 2050, "--batch", 2, "--epochs", 1, *SMALL[4:])
    _, data = run(busbar, tmp_path / "long.json", *small, ranks=1)
    assert data["scaling"]["full_steps_run"] == 1025
    assert data["scaling"]["epochs"][0]["time_s"] == pytest.approx(1025 * data["step_us"]["p50"] / 1e6)


@pytest.mark.smoke
def test_synthetic_format_matches_synthetic_benchmark(busbar, tmp_path):
    done, data = run(busbar, tmp_path / "s.json", "--format", "synthetic", "--full", *SMALL[2:], ranks=2)
    lines = re.findall(r"^Iter #(\d+): (\d+\.\d) img/sec per GPU$", done.stdout, re.M)
    assert [i for i, _ in lines] == [str(i) for i in range(10)]
    rates = [i["images_per_s"] / 2 for i in data["scaling"]["iterations"]]
    assert [r for _, r in lines] == [f"{r:.1f}" for r in rates]
    mean, half_width = statistics.mean(rates), 1.96 * statistics.pstdev(rates)
    per_gpu, total = f"{mean:.1f} +-{half_width:.1f}", f"{2 * mean:.1f} +-{2 * half_width:.1f}"
    assert f"\nImg/sec per GPU: {per_gpu}\nTotal img/sec on 2 GPU(s): {total}\n" in done.stdout
    assert rates[0] == pytest.approx(640 / (10 * data["step_us"]["p50"] / 1e6)) and "Epoch" not in done.stdout
    assert data["warmup_steps"] == 10


@pytest.mark.parametrize("args,field", [(("--batch", "32"), "batch"), (("--images", "701"), "images"), (("--mode", "strong"), "mode"),
                                        (("--sync", "all_reduce"), "sync"), (("--dtype", "half"), "dtype"),
                                        (("--grad-dtype", "half"), "grad_dtype"), (("--optimizer", "adam"), "optimizer")])
def test_rejects_baseline_of_another_configuration(busbar, one, args, field):
    done = busbar.run("proxy", "scaling", *SMALL, *args, "--baseline", one[0])
    assert done.returncode == 2 and f"its '{field}' is" in done.stderr and done.stdout == ""


def test_rejects_failed_or_real_gpu_baseline(busbar, tmp_path, one):
    for change, message in (({"status": "running"}, "'running'"), ({"emulated": False}, "was measured on real GPUs"),
                            ({"shared_gpu": True}, "shared a GPU, so its times are meaningless")):
        other = {**json.loads(one[0].read_text()), **change}
        (tmp_path / "other.json").write_text(json.dumps(other))
        done = busbar.run("proxy", "scaling", *SMALL, "--baseline", tmp_path / "other.json")
        assert done.returncode == 2 and message in done.stderr


def test_plan_of_scaling_proxy(busbar, tmp_path):
    data = busbar.json("plan", "scaling", "--ranks", 64, "--mode", "strong", "--batch", 4096, "--sync", "all_reduce",
                       tmp_path=tmp_path, emulated=False)
    (role,) = data["roles"]
    assert sum(t["bytes"] for t in role["traffic"]) == 44695848


def test_plan_predicts_the_duration_of_the_epochs(busbar, tmp_path):
    """20,019 images per rank are 156 steps of 128 images and one of 51, whose times the plans of data_parallel have."""
    def predicted(*args):
        return busbar.json("plan", *args, "--ranks", 64, "--model", "resnet50", "--cluster", "h100-sxm-ib", tmp_path=tmp_path, emulated=False)["predicted"]

    full, last = (predicted("data_parallel", "--sync", "horovod", "--micro-batch-size", n)["step_us"] for n in (128, 51))
    training = predicted("scaling", "--epochs", 5, "--images", 1281167)["training"]
    assert (training["steps"], training["epochs"], training["samples"]) == (785, 5, 1281167) and "tokens" not in training
    assert training["days"] * 86400e6 == pytest.approx(5 * (156 * full + last), rel=1e-6)
    assert training["gpu_hours"] == pytest.approx(64 * 24 * training["days"])
    assert "training" not in predicted("scaling", "--format", "synthetic")


def test_sweep_runs_the_scaling_study(busbar, tmp_path):
    study = {"command": "proxy scaling", "ranks": [1, 2],
             "options": {"images": 300, "no-alone": True, "epochs": 1, "traced-steps": 0, "steps": 2},
             "choices": {"mode": {"weak": {"options": {"mode": "weak", "batch": 64}},
                                  "strong": {"options": {"mode": "strong", "batch": 128}}}},
             "columns": ["scaling.images_per_s", {"name": "E", "value": "scaling.images_per_s_per_rank", "relative_to": {"ranks": 1}}]}
    (tmp_path / "scaling.json").write_text(json.dumps(study))
    done = busbar.run("sweep", "scaling.json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "scaling.sweep" / "sweep.json").read_text())["rows"]
    rate = {(mode, ranks): x for mode, ranks, x, _, _ in rows}
    assert len(rate) == 4
    for mode, ranks, x, efficiency, state in rows:
        assert state == "ok" and efficiency == pytest.approx(x / ranks / rate[mode, 1])
