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


# ---- collectives on paper -----------------------------------------------------------------------------------------------

MACHINE = {"name": "three", "description": "-", "source": "-", "gpus_per_node": 3, "sm_count": 132, "clock_khz": 1000000, "launch_us": 1,
           "nccl_launch_us": 2, "kernel_us": 3, "memory_gbps": 1000, "memory_bytes": 8e10,
           "tflops": {"float32": 50, "float16": 900, "bfloat16": 900, "float64": 30}, "intra": {"latency_us": 2, "gbps": 100},
           "inter": {"latency_us": 5, "gbps": 10}}


@pytest.fixture
def machine(tmp_path):
    def write(name="machine.json", **changes):
        (tmp_path / name).write_text(json.dumps({**MACHINE, **changes}))
        return tmp_path / name

    return write


def key(row):
    return tuple(row[k] for k in ("collective", "bytes", "count", "dtype", "op", "root", "placement", "mode"))


@pytest.mark.parametrize("ranks,words", [(8, ()), (3, ("-d", "half", "-o", "max")), (1, ())])
def test_a_run_on_that_machine_prints_that_table(busbar, plan, machine, tmp_path, ranks, words):
    """All eleven, also over nodes of three GPUs: emulated GPUs with the same profile take the same times, the columns are bench's."""
    words = ("all", "-b", "256", "-e", "1M", "-f", "16", *words)
    run = busbar.run("bench", *words, "-n", 3, "--repeats", 2, "-c", 0, "--json", tmp_path / "run.json", ranks=ranks,
                     env={"EMU_CLUSTER": str(machine()), "EMU_DATA": "off"})
    assert run.returncode == 0, run.stderr
    paper = busbar.run("plan", *words, "--ranks", ranks, "--cluster", machine(), "--json", tmp_path / "plan.json", emulated=False)
    assert paper.returncode == 0, paper.stderr
    measured, predicted = (json.loads((tmp_path / f).read_text()) for f in ("run.json", "plan.json"))
    assert predicted["schema"] == "busbar.plan/1" and predicted["predicted"] == {"cluster": "three"}
    assert (predicted["ranks"], predicted["nodes"]) == (ranks, -(-ranks // 3))
    assert [key(r) for r in predicted["results"]] == [key(r) for r in measured["results"]]
    for a, b in zip(measured["results"], predicted["results"]):
        assert b["time_us"]["p50"] == pytest.approx(a["time_us"]["p50"], abs=1.1e-3), key(a)
        for rate in ("algbw_gbps", "busbw_gbps", "busbw_factor"):
            assert b[rate] == (a[rate] if a[rate] is None else pytest.approx(a[rate], rel=1e-3, abs=1e-9)), key(a)
        assert b["flags"] == ["predicted"] and b["wrong"] is None
    headings = [[line for line in done.stdout.splitlines() if line.startswith(("#       size", "#        (B)"))] for done in (run, paper)]
    assert headings[0] == headings[1] and len(headings[0]) >= 20
    assert "modelled, not measured" in paper.stdout


def test_compare_says_where_the_machine_falls_behind(busbar, machine, tmp_path):
    """The machine's links carry 80 of the 100 GB/s that were promised: large messages are behind, small ones are not."""
    real, promised = machine("real.json", intra={"latency_us": 2, "gbps": 80}), machine()
    words = ("all_reduce", "--sizes", "1K,16M", "--placement", "out_of_place")
    assert busbar.run("bench", *words, "-n", 3, "--repeats", 6, "-c", 0, "--json", tmp_path / "a.json", ranks=3,
                      env={"EMU_CLUSTER": str(real), "EMU_DATA": "off"}).returncode == 0
    assert busbar.run("plan", *words, "--ranks", 3, "--cluster", promised, "--json", tmp_path / "b.json", emulated=False).returncode == 0
    done = busbar.run("compare", "a.json", "b.json", "--json", "c.json", emulated=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    bytes_ = 16 << 20
    small, large = ((8 + 4 / 3 * n / 80e3) / (8 + 4 / 3 * n / 100e3) for n in (1024, bytes_))
    assert "# B: predicted for three: modelled, not measured" in done.stdout
    assert f"1 of 2 rows behind by more than 10 %, most of all all_reduce 16 MiB: {large:.3f} x" in done.stdout
    assert "differs: --" not in done.stdout and "differs: $" not in done.stdout
    against = json.loads((tmp_path / "c.json").read_text())["summary"]["against_prediction"]
    assert against["worst_ratio"] == pytest.approx(large, rel=1e-4)
    assert against["geometric_mean_ratio"] == pytest.approx(math.sqrt(small * large), rel=1e-4)
    assert (against["rows"], against["behind"], against["measured"], against["threshold_percent"]) == (2, 1, "a", 10)
    swapped = busbar.run("compare", "b.json", "a.json", "--threshold", 30, emulated=False, cwd=tmp_path)
    assert swapped.returncode == 0 and "no row is behind by more than 30 %" in swapped.stdout
    assert busbar.run("compare", "b.json", "a.json", "--threshold", 20, emulated=False, cwd=tmp_path).returncode == 5
    assert "geometric mean; " not in busbar.run("compare", "a.json", "a.json", emulated=False, cwd=tmp_path).stdout


@pytest.mark.parametrize("words,said", [
    (("all_reduc", "--ranks", 4), "did you mean 'all_reduce'?"),
    (("all_reduce", "--cluster", H100), "plan needs --ranks N"),
    (("all_reduce", "--ranks", 4), "nearest: --cluster h100-sxm-ib"),
    (("all_reduce", "--ranks", 4, "--cluster", H100, "--tp", 2), "--tp is of training steps"),
    (("all_reduce", "--ranks", 4, "--cluster", H100, "--dtype", "half"), "leave it out, or --datatype"),
    (("all_reduce", "--ranks", 4, "--cluster", H100, "--ops"), "--ops is of training steps"),
    (("reduce", "-r", 4, "--ranks", 4, "--cluster", H100), "root 4 (-r) of reduce is not a rank: ranks are 0 to 3"),
    (("all_reduce", "-b", "8K", "-e", "4K", "--ranks", 4, "--cluster", H100), "first size 8192"),
    (("alltoallv", "--ranks", 5000, "--cluster", H100), "nearest: --ranks 4096"),
    (("all_reduce", "-n", 5, "--ranks", 4, "--cluster", H100), "unknown option '-n'"),
    (("gpt2_large", "--ranks", 4, "-b", 16), "--minbytes is of collectives"),
    (("all_reduce", "--ranks", 4, "--cluster", "h100"), "h100")])
def test_collectives_that_cannot_be_planned(busbar, words, said):
    assert said in refused(busbar, "plan", *words)


def test_a_ring_of_a_million_ranks_is_quick(busbar, plan):
    """Ranks are folded: all that is between the ends is alike."""
    doc = plan("sendrecv", "all_gather", "--sizes", "1M", "--ranks", 1 << 24, "--cluster", H100)
    ring, gather = doc["results"][0], doc["results"][1]
    assert ring["time_us"]["p50"] == pytest.approx(5 + 1.048576e6 / 50e3, rel=0.2) and gather["bytes"] >= 0
