"""One machine for `plan` and for the emulated GPUs: what plan predicts for a shipped profile is what a run on GPUs of that
profile takes, to the nanosecond that events have. The model itself is held by closed forms (tests/proxies/machine)."""
import json

import pytest

H100 = "h100-sxm-ib"
ENV = {"EMU_CLUSTER": H100, "EMU_DATA": "off"}


def key(row):
    return tuple(row[k] for k in ("collective", "count", "dtype", "op", "root", "placement"))


@pytest.mark.parametrize("ranks,words", [(8, ("all",)), (12, ("all_reduce", "all_gather", "alltoall", "broadcast", "sendrecv"))])
def test_collectives_take_what_is_predicted(busbar, tmp_path, ranks, words):
    """Over sizes at which NCCL takes one way after another, on one node and on two."""
    words = (*words, "-b", "1K", "-e", "1G", "-f", "32")
    run = busbar.json("bench", *words, "-n", 2, "--repeats", 1, "-w", 1, "-c", 0, "--show-choice", ranks=ranks, env=ENV, tmp_path=tmp_path)
    done = busbar.run("plan", *words, "--ranks", ranks, "--cluster", H100, "--json", "-", emulated=False)
    assert done.returncode == 0, done.stderr
    predicted = json.loads(done.stdout)["results"]
    assert [key(r) for r in predicted] == [key(r) for r in run["results"]]
    for a, b in zip(run["results"], predicted):
        assert a["time_us"]["p50"] == pytest.approx(b["time_us"]["p50"], abs=1.1e-3), key(a)
        if b["algorithm"]:
            assert (a["algorithm"], a["protocol"]) == (b["algorithm"], b["protocol"]), key(a)
    protocols = {r["protocol"] for r in run["results"] if r["collective"] == "all_reduce"}
    assert protocols > {"LL"}  # else the sizes are too few to say anything


STEPS = [("gpt2_large", 4, 2, 3, "--compute", "timed"), ("dlrm", "--compute", "gemm", "--dtype", "bfloat16"),
         ("data_parallel", "--model", "resnet50", "--compute", "gemm", "--dtype", "half")]


@pytest.mark.parametrize("words", STEPS, ids=lambda words: words[0])
def test_a_step_takes_what_is_predicted(busbar, tmp_path, words):
    """Kernels by their time, products by their shape, passes by the bandwidth that is reached, messages, collectives."""
    doc = busbar.json("proxy", *words, "-n", 2, "--warmup", 1, "--no-alone", "--cluster", H100, tmp_path=tmp_path, ranks=4, env=ENV)
    forecast = doc["forecast"]
    assert forecast["cluster"] == H100 and forecast["step"]["measured_us"] > 100
    for pair in (forecast["step"], forecast["traced_step"], *forecast["rows"]):
        assert pair["predicted_us"] == pytest.approx(pair["measured_us"], rel=1e-6, abs=2e-3)


def test_what_the_machine_takes_is_the_quickest_of_all_ways(busbar, tmp_path):
    run = busbar.json("bench", "all_reduce", "--sweep-algorithms", "--sizes", "1K,64M", "--placement", "out_of_place", ranks=4, env=ENV,
                      tmp_path=tmp_path)
    forced = {(r["algorithm"], r["protocol"]) for r in run["results"] if r["forced"]}
    assert ("NVLS", "SIMPLE") in forced and ("TREE", "LL128") in forced and ("NVLS_TREE", "SIMPLE") not in forced
    assert [c["nccl_choice"] for c in run["algorithms"]] == ["best", "best"]
