"""`busbar plan transformer --cluster` as a forecast: whose rates, what is guessed, whether training would hold, what 8 bits and attention
cost. Expected is what was published, or what two plans must be to each other."""
import json

import pytest
from conftest import ROOT

PROFILES = ROOT / "profiles" / "clusters"
LLAMA = "--model llama3_8b --ranks 8 --cp 2 --seq-length 8192 --micro-batches 4 --dp-sync distributed --grad-dtype bfloat16"
GPT_22B = {"model_type": "gpt2", "vocab_size": 51200, "n_positions": 2048, "n_embd": 6144, "n_layer": 48, "n_head": 64}


def plan(busbar, words, *more):
    done = busbar.run("plan", "transformer", *words.split(), *more, "--json", "-", emulated=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def refused(busbar, words, status=2):
    done = busbar.run(*words.split(), emulated=False)
    assert done.returncode == status, done.stderr
    (line,) = done.stderr.splitlines()
    return line


def test_a_named_cluster_is_the_forecast(busbar):
    forecast, gemm, given = (plan(busbar, f"{LLAMA} --cluster h100-sxm-ib {more}") for more in ("", "--compute gemm", "--tflops 300"))
    rests_on = {"rates": "machine", "tflops": 989, "efficiency": pytest.approx(0.66), "nominal": False, "attention": "fused", "fp8": False,
                "guessed": []}
    assert forecast["predicted"]["compute"] == {**rests_on, "host": "eager"}
    # the proxy's own run: attention product by product without its mask, and sums of gradients in passes of their own
    assert gemm["predicted"]["compute"] == {**rests_on, "host": None, "attention": None} and gemm["predicted"]["model_error"] is None
    assert gemm["predicted"]["step_us"] > 1.02 * forecast["predicted"]["step_us"]
    assert given["predicted"]["compute"]["rates"] == "given" and given["predicted"]["compute"]["tflops"] == 300
    assert given["predicted"]["step_us"] > 1.5 * forecast["predicted"]["step_us"] and given["predicted"]["model_error"] is None
    assert plan(busbar, f"{LLAMA} --cluster h100-sxm-ib --compute timed")["predicted"]["compute"]["rates"] == "proxy"
    nominal = plan(busbar, f"{LLAMA} --cluster emulated-default")["predicted"]
    assert nominal["compute"]["nominal"] and nominal["model_error"] is None
    text = busbar.run("plan", "transformer", *LLAMA.split(), "--cluster", "h100-sxm-ib", emulated=False).stdout
    assert "653 of 989 TFLOP/s" in text and "attention fused" in text and "published steps" in text


def test_short_kernels_wait_for_their_host(busbar):
    words = "--model gpt2_small --ranks 1 --seq-length 128 --micro-batches 4 --cluster h100-sxm-ib"
    eager, proxy, graph = (plan(busbar, f"{words} {more}")["predicted"] for more in ("", "--compute gemm", "--graph"))
    issued = [p["breakdown"]["issue_us"] for p in (eager, proxy, graph)]
    assert issued[0] > 3 * issued[1] > issued[2] == 0  # 9 us for 2.5, but for sums that products do in passing
    assert eager["step_us"] > 2 * graph["step_us"] and eager["step_us"] < 1.2 * issued[0]
    text, of_graphs = (busbar.run("plan", "transformer", *words.split(), *more, emulated=False).stdout for more in ((), ("--graph",)))
    assert "host-bound: the host launches kernels for" in text and "--graph" in text
    assert "; launched as CUDA graphs\n" in of_graphs and "as CUDA graphs" not in text and "host-bound" not in of_graphs
    assert "--graph only applies to transformer forecasts" in refused(busbar, "plan transformer --model gpt2_small --ranks 1 --graph")
    assert "--graph only applies to transformer forecasts" in refused(busbar, f"plan transformer {words} --graph --compute gemm")


def test_a_band_is_claimed_where_it_holds(busbar):
    """Of eight experts on a GPU published steps took longer than forecast, but not in CUDA graphs; of one they did not."""
    words = "--model mixtral_8x7b --layers 2 --ranks 8 --seq-length 1024 --cluster h100-sxm-ib"
    bands = [plan(busbar, f"{words} {more}")["predicted"]["model_error"] for more in ("", "--graph", "--ep 8")]
    assert bands[0] is None and bands[1] == bands[2] == {"mean": 0.06, "max": 0.15}
    text = busbar.run("plan", "transformer", *words.split(), emulated=False).stdout
    assert "took up to 2.1 times as long" in text and "CUDA graphs (--graph): max 9%" in text and "mean 6%" not in text


def test_each_expert_is_launched_by_itself(busbar, tmp_path):
    """Up and down, forward and their two gradients each: six products of an expert, and in 8 bits four casts."""
    model = tmp_path / "experts.json"

    def issued_us(experts, more):
        model.write_text(json.dumps({"model_type": "mixtral", "vocab_size": 1000, "hidden_size": 256, "intermediate_size": 512,
                                     "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 4,
                                     "num_local_experts": experts, "num_experts_per_tok": 2, "max_position_embeddings": 512}))
        return plan(busbar, f"--model {model} --ranks 1 --cluster b200-sxm-ib --micro-batches 2 {more}")["predicted"]["breakdown"]["issue_us"]

    assert issued_us(8, "") - issued_us(4, "") == pytest.approx(3 * 2 * 4 * 6 * 33.5)
    assert issued_us(8, "--fp8") - issued_us(4, "--fp8") == pytest.approx(3 * 2 * 4 * (6 * 33.5 + 4 * 9))


def test_the_algorithm_is_told(busbar):
    """Large sums between nodes take the ring, a node's the switch, those of two on a node the ring again; keys between
    neighbours are no collective."""
    words = "--model llama3_8b --ranks 64 --tp 8 --pp 2 --micro-batches 2 --seq-length 8192 --cluster h100-sxm-ib"
    ways = {g["name"]: (g["algorithm"], g["protocol"]) for g in plan(busbar, words)["predicted"]["groups"]}
    assert ways["dp"] == ("ring", "Simple") and ways["tp"] == ("nvls", "Simple") and ways["pp"] == (None, None)
    pairs = plan(busbar, words.replace("--tp 8", "--tp 2"))["predicted"]["groups"]
    assert {g["algorithm"] for g in pairs if g["name"] in ("tp", "dp")} == {"ring"}
    simple = plan(busbar, words.replace("h100-sxm-ib", "emulated-default"))["predicted"]["groups"]
    assert {group["algorithm"] for group in simple} == {None}
    text = busbar.run("plan", "transformer", *words.split(), emulated=False).stdout
    assert "largest by" in text and "  ring Simple\n" in text


def test_sequence_parallelism_is_quicker(busbar, tmp_path):
    """Korthikanti et al. 2022, table 4: a layer of the 22B model, forward and backward, 19.6 ms; sequence parallel 19.0 ms."""
    model = tmp_path / "22b.json"
    model.write_text(json.dumps(GPT_22B))

    def layer_ms(words):
        steps = [plan(busbar, f"--model {model} --layers {n} --ranks 8 --tp 8 --micro-batch-size 4 --cluster a100-sxm-ib {words}")
                 for n in (2, 3)]
        return (steps[1]["predicted"]["step_us"] - steps[0]["predicted"]["step_us"]) / 1e3

    plain, divided = layer_ms(""), layer_ms("--sequence-parallel")
    assert plain == pytest.approx(19.6, rel=0.10) and divided == pytest.approx(19.0, rel=0.10) and divided < plain


def test_unfused_attention_costs_time_and_memory(busbar):
    words = "--model gpt3_1_3b --ranks 8 --cluster a100-sxm-ib"
    usual, fused, unfused = (plan(busbar, f"{words} {more}") for more in ("", "--attention fused", "--attention unfused"))
    assert usual["predicted"]["step_us"] == unfused["predicted"]["step_us"] > fused["predicted"]["step_us"]
    assert usual["predicted"]["compute"]["guessed"] == ["--attention unfused"] and unfused["predicted"]["compute"]["guessed"] == []
    held = [made["predicted"]["memory"]["needed_bytes"] for made in (fused, unfused)]
    # 24 layers of 16 heads: scores, their softmax and dropout's mask, 5 bytes for each of 2048 x 2048
    assert held[1] - held[0] == 24 * 16 * 2048 * 2048 * 5
    assert plan(busbar, f"{words.replace('a100', 'h100')}")["predicted"]["compute"]["attention"] == "fused"


def test_what_does_not_hold_is_computed_again(busbar):
    """Of each chunk the fewest layers with which it holds: with one less it does not."""
    words = f"{LLAMA} --cluster h100-sxm-ib --gpu-memory 50G"  # 60.2 GiB, 41 without activations
    guessed = plan(busbar, words)["predicted"]
    (guess,) = guessed["compute"]["guessed"]
    assert guess.startswith("--recompute full --recompute-num-layers ")
    layers = int(guess.split()[-1])
    same, fewer, full, none = (plan(busbar, f"{words} --recompute {more}")["predicted"]
                               for more in (f"full --recompute-num-layers {layers}", f"full --recompute-num-layers {layers - 1}", "full", "none"))
    assert none["step_us"] < fewer["step_us"] < guessed["step_us"] == same["step_us"] < full["step_us"]
    assert same["memory"] == guessed["memory"] and guessed["memory"]["fits"] and not fewer["memory"]["fits"]
    assert none["memory"]["available_bytes"] == 50 * 2**30 and none["memory"]["of"] == "training"
    text = busbar.run("plan", "transformer", *words.split(), emulated=False).stdout
    assert f"guessed: {guess}; without it, training needs 60.2 GiB" in text and "of 50 GiB per GPU: fits" in text
    hopeless = plan(busbar, f"{words.replace('50G', '20G')}")["predicted"]
    assert hopeless["compute"]["guessed"] == [] and not hopeless["memory"]["fits"]
    paper = plan(busbar, f"{LLAMA} --gpu-memory 50G")["memory"]  # of the very step, and of nothing where none is told
    assert {**paper, "buffers_bytes": none["memory"]["buffers_bytes"]} == none["memory"] and "memory" not in plan(busbar, LLAMA)
    for held, guess in ((none, []), (same, [guess])):  # to the byte
        exact = plan(busbar, words.replace("50G", str(held["memory"]["needed_bytes"])))["predicted"]
        assert exact["compute"]["guessed"] == guess and exact["memory"]["fits"] and exact["step_us"] == held["step_us"]


def test_an_optimizer_that_keeps_less_is_guessed_first(busbar):
    """It costs no time: 2 bytes of a parameter in place of 4, on each of 8 ranks an eighth."""
    words = f"{LLAMA} --cluster h100-sxm-ib --gpu-memory 59G"
    guessed, none = (plan(busbar, f"{words} {more}")["predicted"] for more in ("", "--recompute none"))
    (sgd,) = plan(busbar, f"{words.replace('59G', '55G')} --optimizer sgd")["predicted"]["compute"]["guessed"]
    assert sgd.startswith("--recompute ")  # there is no such SGD
    assert guessed["compute"]["guessed"] == ["--use-precision-aware-optimizer"] and guessed["step_us"] == none["step_us"]
    assert none["memory"]["needed_bytes"] - guessed["memory"]["needed_bytes"] == pytest.approx(2 * 8030261248 / 8, abs=8)


@pytest.mark.parametrize("words,again", [
    ("--layers 4", []), ("--layers 4 --recompute full --recompute-num-layers 3", [0, 1, 2]), ("--layers 4 --recompute full", [0, 1, 2, 3]),
    ("--layers 8 --pp 2 --vpp 2 --recompute full --recompute-num-layers 1", [0, 2, 4, 6])])
def test_layers_that_are_computed_again_take_their_time(busbar, words, again):
    """Of each layer and micro-batch 2 ms backward; 1 ms more for the first layers of each chunk."""
    made = plan(busbar, f"--model llama2_7b {words} --ranks {2 if '--pp' in words else 1} --seq-length 64 --micro-batches 2 "
                        "--forward-us 1000 --backward-us 2000", "--ops")
    backward = {}
    for op in [op for role in made["roles"] for op in role["program"]]:
        if op["kind"] == "compute" and op["phase"] == "backward" and op["layer"] is not None:
            backward[op["layer"]] = backward.get(op["layer"], 0) + op["compute_us"]
    assert backward == {layer: pytest.approx(2 * (3000 if layer in again else 2000)) for layer in range(int(words.split()[1]))}


@pytest.mark.parametrize("words,said", [
    ("--recompute full --recompute-num-layers 9", "--recompute-num-layers 9 is more than the 8 layers of the longest chunk; try: --recompute-num-layers 8"),
    ("--recompute selective --recompute-num-layers 2", "it requires --recompute full; leave it out"),
    ("--dp-sync distributed --optimizer sgd --use-precision-aware-optimizer", "--use-precision-aware-optimizer does not apply to sgd"),
    ("--dp-sync zero1 --use-precision-aware-optimizer", "--use-precision-aware-optimizer does not apply to zero1")])
def test_layers_that_cannot_be_counted(busbar, words, said):
    assert said in refused(busbar, f"plan transformer --model llama3_8b --ranks 4 --pp 4 {words}")


@pytest.mark.parametrize("more,status", [("--gpu-memory 57G", 5), ("--gpu-memory 70G", 0), ("--gpu-memory 57G --recompute full", 0),
                                         ("--cluster h100-sxm-ib", 0), ("--cluster a100-40gb-sxm-ib", 5)])
def test_must_fit_decides_the_exit(busbar, more, status):
    done = busbar.run("plan", "transformer", *LLAMA.split(), *more.split(), "--must-fit", emulated=False)
    assert done.returncode == status
    assert ("DOES NOT FIT" in done.stdout) == bool(status) and ("--must-fit: training needs 60.2 GiB" in done.stderr) == bool(status)


def test_products_in_eight_bits(busbar):
    words = f"{LLAMA} --cluster h100-sxm-ib"
    bf16, fp8 = (plan(busbar, f"{words} {more}")["predicted"] for more in ("", "--fp8"))
    assert fp8["compute"]["fp8"] and bf16["step_us"] / 1.6 < fp8["step_us"] < bf16["step_us"] / 1.2
    base = f"plan transformer {LLAMA} --fp8"
    assert "tflops.float8" in refused(busbar, f"{base} --cluster a100-sxm-ib")
    assert "--fp8 does not apply" in refused(busbar, f"{base} --cluster h100-sxm-ib --tflops 400")
    assert "--compute gemm predicts the proxy's own run" in refused(busbar, f"{base} --cluster h100-sxm-ib --compute gemm")
    assert "--fp8 only applies to forecasts" in refused(busbar, "proxy transformer --model gpt2_small --fp8")
    assert "--gpu-memory" in refused(busbar, f"plan transformer {LLAMA} --must-fit")


@pytest.mark.parametrize("change,words", [
    (lambda c: c["achieved"].pop("memory"), ["'memory'", "missing"]),
    (lambda c: c["achieved"].pop("fuses_dropout"), ["achieved.fuses_dropout", "missing"]),
    (lambda c: c["achieved"].update(gemn=1), ["achieved.gemn", "did you mean 'achieved.gemm'"]),
    (lambda c: c.pop("nics_per_node"), ["nics_per_node", "missing"]),
    (lambda c: c["nccl"][0].pop("inter_us"), ["inter_us", "missing"]),
    (lambda c: c["nccl"][0].update(algorithm="rink"), ["rink", "ring"]),
    (lambda c: c["host"].pop("expert_us"), ["host: 'expert_us'", "missing"]),
    (lambda c: c["host"].update(ops_us=1), ["host.ops_us", "did you mean 'host.op_us'"]),
    (lambda c: c["tflops"].pop("float8"), ["float8", "missing"]),
    (lambda c: c.update(nccl=[]), ["nccl", "expected 1 to 24"]),
    (lambda c: c["tflops"].update(bfloat16=0), ["tflops: 'bfloat16' is 0, expected 0.001 or more"]),
    (lambda c: c.update(kernel_us=1e30), ["'kernel_us' is 1e+30, expected 1e+07 at most"]),
    (lambda c: c["nccl"][0].update(nic=1e30), ["'nic' is 1e+30, expected 100 at most"]),
])
def test_a_profile_with_a_gap_is_refused(busbar, tmp_path, change, words):
    profile = json.loads((PROFILES / "h100-sxm-ib.json").read_text())
    change(profile)
    path = tmp_path / "gap.json"
    path.write_text(json.dumps(profile))
    line = refused(busbar, f"plan transformer {LLAMA} --cluster {path}")
    assert all(word in line for word in words), line


@pytest.mark.parametrize("change,words", [
    (lambda c: c["intra"].update(gbps=330e3), "'intra.gbps' is 330000, existing GPUs have 0.5 to 10000; expected unit: 1e9 bytes/s"),
    (lambda c: c["nccl"][2].update(gbps=0.37), "'nccl.ring.Simple.gbps' is 0.37"),
    (lambda c: None, ""),
])
def test_an_unlikely_unit_is_said(busbar, tmp_path, change, words):
    """Each figure by itself: tests/proxies/machine/test_number_units.c."""
    profile = json.loads((PROFILES / "h100-sxm-ib.json").read_text())
    change(profile)
    path = tmp_path / "units.json"
    path.write_text(json.dumps(profile))
    done = busbar.run("plan", "all_reduce", "--ranks", 8, "--sizes", "1M", "--cluster", path, emulated=False)
    assert done.returncode == 0 and [words in line and "warning" in line for line in done.stderr.splitlines()] == [True] * bool(words)


@pytest.mark.parametrize("name", sorted(path.stem for path in PROFILES.glob("*.json")))
def test_every_profile_predicts_and_says_its_sources(busbar, name):
    predicted = plan(busbar, f"--model gpt2_small --layers 2 --ranks 144 --tp 2 --cluster {name}")["predicted"]
    assert predicted["step_us"] > 0 and predicted["cluster"] == name
    source = json.loads((PROFILES / f"{name}.json").read_text())["source"]
    assert "assumed" in source or "no machine" in source
