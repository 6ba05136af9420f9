"""What people ask a plan before they buy, reserve or run: batches, a whole training, collectives on paper, the best layout."""
import json
import math

import pytest

H100 = "h100-sxm-ib"
LLAMA = ("transformer", "--model", "llama2_7b", "--ranks", 16, "--tp", 2, "--pp", 2)


@pytest.fixture
def plan(busbar, tmp_path):
    def run(*words):
        return busbar.json("plan", *words, tmp_path=tmp_path, emulated=False)

    return run


def refused(busbar, *words):
    done = busbar.run(*words, emulated=False)
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stdout == "" and len(done.stderr.strip().splitlines()) == 1
    return done.stderr


def without_options(doc):
    return {k: v for k, v in doc.items() if k != "options"}


# ---- batches and trainings ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words,b,samples_at_once", [
    (LLAMA, 1, 4), (LLAMA, 2, 8),
    (("data_parallel", "--model", "resnet50", "--ranks", 8), 32, 256),
    (("data_parallel", "--model", "resnet50", "--ranks", 8, "--sync", "ps_sharded", "--servers", 2), 32, 192),
    (("spatial", "--ranks", 10, "--splits", 2), 4, 8),
    (("gems", "--ranks", 4, "--splits", 2, "--replications", 4), 2, 16)])
def test_a_global_batch_is_so_many_micro_batches(busbar, plan, words, b, samples_at_once):
    words = (*words, "--micro-batch-size", b)
    for m in (4, 6):
        by_batch = plan(*words, "--global-batch-size", m * samples_at_once)
        assert without_options(by_batch) == without_options(plan(*words, "--micro-batches", m))
    line = refused(busbar, "plan", *words, "--global-batch-size", 5 * samples_at_once + 1)
    assert f"{5 * samples_at_once + 1} does not divide by {samples_at_once} samples" in line
    assert line.strip().endswith(f"nearest: {5 * samples_at_once} or {6 * samples_at_once}")
    if samples_at_once > 1:
        assert refused(busbar, "plan", *words, "--global-batch-size", 1).strip().endswith(f"nearest: {samples_at_once}")


def test_a_batch_that_cannot_be_told(busbar):
    assert "leave one out" in refused(busbar, "plan", *LLAMA, "--global-batch-size", 64, "--micro-batches", 4)
    assert "means nothing here" in refused(busbar, "plan", "gpt2_large", "--ranks", 4, "--global-batch-size", 64)
    assert "1000000 micro-batches" in refused(busbar, "plan", *LLAMA, "--global-batch-size", 8_000_000)


def test_a_whole_training(busbar, plan):
    words = (*LLAMA, "--global-batch-size", 64, "--cluster", H100)
    doc = plan(*words, "--tokens", "2T")
    per_step, step_s = 64 * 4096, doc["predicted"]["step_us"] / 1e6
    training = doc["predicted"].pop("training")
    assert without_options(doc) == without_options(plan(*words))
    assert training["tokens"] == 2e12 and training["steps"] == math.ceil(2e12 / per_step)
    assert training["days"] == pytest.approx(training["steps"] * step_s / 86400, rel=1e-9)
    assert training["gpu_hours"] == pytest.approx(training["days"] * 24 * 16, rel=1e-9)
    text = busbar.run("plan", *words, "--tokens", "2e12", emulated=False).stdout.splitlines()[-1]
    assert text.split(":")[0] == "  2T tokens" and f"{training['steps']} steps" in text
    assert f"{training['days']:.1f} days" in text
    one = plan(*words, "--tokens", 1)["predicted"]["training"]
    assert one["steps"] == 1 and one["days"] * 86400 == pytest.approx(step_s, rel=1e-9)


@pytest.mark.parametrize("text", ["many", "-3T", "0", "15TB", "1e30", ""])
def test_tokens_that_are_none(busbar, text):
    line = refused(busbar, "plan", *LLAMA, "--cluster", H100, "--tokens", text)
    assert f"--tokens: '{text}' is not valid" in line and "nearest: 15T" in line


def test_tokens_where_they_mean_nothing(busbar):
    assert "needs the cluster" in refused(busbar, "plan", *LLAMA, "--tokens", "15T")
    assert "not counted in tokens" in refused(busbar, "plan", "bert_large", "--ranks", 4, "--cluster", H100, "--tokens", "15T")
