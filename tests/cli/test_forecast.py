"""plan transformer --cluster as a forecast of training: sources of the rates, guessed options, memory, FP8 and attention. Expected
values are published results, or relations between two plans."""
import json

import pytest
from conftest import ROOT

PROFILES = ROOT / "profiles" / "clusters"
LLAMA = "--model llama3_8b --ranks 8 --cp 2 --seq-length 8192 --micro-batches 4 --dp-sync distributed --grad-dtype bfloat16"
GPT_22B = {"model_type": "gpt2", "vocab_size": 51200, "n_positions": 2048, "n_embd": 6144, "n_layer": 48, "n_head": 64}


def plan(busbar, args, *more):
    done = busbar.run("plan", "transformer", *args.split(), *more, "--json", "-", emulated=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def rejection(busbar, args, status=2):
    done = busbar.run(*args.split(), emulated=False)
    assert done.returncode == status, done.stderr
    (line,) = done.stderr.splitlines()
    return line


def test_cluster_gives_a_forecast_of_training(busbar):
    forecast, gemm, given = (plan(busbar, f"{LLAMA} --cluster h100-sxm-ib {more}") for more in ("", "--compute gemm", "--tflops 300"))
    source = {"rates": "machine", "tflops": 989, "efficiency": pytest.approx(0.66), "nominal": False, "attention": "fused", "fp8": False,
                "guessed": []}
    assert forecast["predicted"]["compute"] == {**source, "host": "eager"}
    # The proxy run: unfused attention without a mask, and gradients accumulated by separate kernels.
    assert gemm["predicted"]["compute"] == {**source, "host": None, "attention": None} and gemm["predicted"]["model_error"] is None
    assert gemm["predicted"]["step_us"] > 1.02 * forecast["predicted"]["step_us"]
    assert given["predicted"]["compute"]["rates"] == "given" and given["predicted"]["compute"]["tflops"] == 300
    assert given["predicted"]["step_us"] > 1.5 * forecast["predicted"]["step_us"] and given["predicted"]["model_error"] is None
    assert plan(busbar, f"{LLAMA} --cluster h100-sxm-ib --compute timed")["predicted"]["compute"]["rates"] == "proxy"
    nominal = plan(busbar, f"{LLAMA} --cluster emulated-default")["predicted"]
    assert nominal["compute"]["nominal"] and nominal["model_error"] is None
    text = busbar.run("plan", "transformer", *LLAMA.split(), "--cluster", "h100-sxm-ib", emulated=False).stdout
    assert "653 of 989 TFLOP/s" in text and "attention fused" in text and "published steps" in text


def test_short_kernels_are_bound_by_the_host(busbar):
    args = "--model gpt2_small --ranks 1 --seq-length 128 --micro-batches 4 --cluster h100-sxm-ib"
    eager, proxy, graph = (plan(busbar, f"{args} {more}")["predicted"] for more in ("", "--compute gemm", "--graph"))
    issued = [p["breakdown"]["issue_us"] for p in (eager, proxy, graph)]
    assert issued[0] > 3 * issued[1] > issued[2] == 0  # 9 us per launch instead of 2.5 us; training accumulates some gradients inside GEMMs
    assert eager["step_us"] > 2 * graph["step_us"] and eager["step_us"] < 1.2 * issued[0]
    text, graph_text = (busbar.run("plan", "transformer", *args.split(), *more, emulated=False).stdout for more in ((), ("--graph",)))
    assert "host-bound: the host needs " in text and "--graph" in text
    assert "; launched as CUDA graphs\n" in graph_text and "as CUDA graphs" not in text and "host-bound" not in graph_text


def test_model_error_is_given_only_where_it_was_validated(busbar):
    """With eight experts per GPU, published steps took longer than forecast, except with CUDA graphs; with one expert per GPU they did
    not."""
    args = "--model mixtral_8x7b --layers 2 --ranks 8 --seq-length 1024 --cluster h100-sxm-ib"
    bands = [plan(busbar, f"{args} {more}")["predicted"]["model_error"] for more in ("", "--graph", "--ep 8")]
    assert bands[0] is None and bands[1] == bands[2] == {"mean": 0.06, "max": 0.15}
    text = busbar.run("plan", "transformer", *args.split(), emulated=False).stdout
    assert "took up to 2.1 times as long" in text and "CUDA graphs (--graph): max 9%" in text and "mean 6%" not in text


def test_each_expert_has_separate_launches(busbar, tmp_path):
    """The up and down projections of an expert, forward and two gradients each, are six GEMMs; FP8 adds four casts."""
    model = tmp_path / "experts.json"

    def issued_us(experts, more):
        model.write_text(json.dumps({"model_type": "mixtral", "vocab_size": 1000, "hidden_size": 256, "intermediate_size": 512,
                                     "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 4,
                                     "num_local_experts": experts, "num_experts_per_tok": 2, "max_position_embeddings": 512}))
        predicted = plan(busbar, f"--model {model} --ranks 1 --cluster b200-sxm-ib --micro-batches 2 {more}")["predicted"]
        return predicted["breakdown"]["issue_us"]

    assert issued_us(8, "") - issued_us(4, "") == pytest.approx(3 * 2 * 4 * 6 * 33.5)
    assert issued_us(8, "--fp8") - issued_us(4, "--fp8") == pytest.approx(3 * 2 * 4 * (6 * 33.5 + 4 * 9))


def test_groups_name_their_nccl_variant(busbar):
    """Large inter-node reductions use the ring, those of a whole node use NVLS, those of two ranks on a node use the ring. Pipeline
    messages are not collectives."""
    args = "--model llama3_8b --ranks 64 --tp 8 --pp 2 --micro-batches 2 --seq-length 8192 --cluster h100-sxm-ib"
    variants = {g["name"]: (g["algorithm"], g["protocol"]) for g in plan(busbar, args)["predicted"]["groups"]}
    assert variants["dp"] == ("ring", "Simple") and variants["tp"] == ("nvls", "Simple") and variants["pp"] == (None, None)
    pairs = plan(busbar, args.replace("--tp 8", "--tp 2"))["predicted"]["groups"]
    assert {g["algorithm"] for g in pairs if g["name"] in ("tp", "dp")} == {"ring"}
    simple = plan(busbar, args.replace("h100-sxm-ib", "emulated-default"))["predicted"]["groups"]
    assert {group["algorithm"] for group in simple} == {None}
    text = busbar.run("plan", "transformer", *args.split(), emulated=False).stdout
    assert "largest collective" in text and "  ring Simple\n" in text


def test_sequence_parallelism_is_faster(busbar, tmp_path):
    """Korthikanti et al. 2022, table 4: a layer of the 22B model takes 19.6 ms forward and backward, with sequence parallelism 19.0
    ms."""
    model = tmp_path / "22b.json"
    model.write_text(json.dumps(GPT_22B))

    def layer_ms(args):
        steps = [plan(busbar, f"--model {model} --layers {n} --ranks 8 --tp 8 --micro-batch-size 4 --cluster a100-sxm-ib {args}")
                 for n in (2, 3)]
        return (steps[1]["predicted"]["step_us"] - steps[0]["predicted"]["step_us"]) / 1e3

    plain, divided = layer_ms(""), layer_ms("--sequence-parallel")
    assert plain == pytest.approx(19.6, rel=0.10) and divided == pytest.approx(19.0, rel=0.10) and divided < plain


def test_unfused_attention_costs_time_and_memory(busbar):
    args = "--model gpt3_1_3b --ranks 8 --cluster a100-sxm-ib"
    default, fused, unfused = (plan(busbar, f"{args} {more}") for more in ("", "--attention fused", "--attention unfused"))
    assert default["predicted"]["step_us"] == unfused["predicted"]["step_us"] > fused["predicted"]["step_us"]
    assert default["predicted"]["compute"]["guessed"] == ["--attention unfused"] and unfused["predicted"]["compute"]["guessed"] == []
    needed = [result["predicted"]["memory"]["needed_bytes"] for result in (fused, unfused)]
    # 24 layers of 16 heads: scores, softmax and dropout mask, 5 bytes for each of 2048 x 2048 elements
    assert needed[1] - needed[0] == 24 * 16 * 2048 * 2048 * 5
    assert plan(busbar, f"{args.replace('a100', 'h100')}")["predicted"]["compute"]["attention"] == "fused"


def test_guesses_the_minimum_recomputation_that_fits(busbar):
    """The guess is the smallest number of recomputed layers per chunk that fits: with one layer less training does not fit."""
    args = f"{LLAMA} --cluster h100-sxm-ib --gpu-memory 50G"  # 60.2 GiB, 41 without activations
    guessed = plan(busbar, args)["predicted"]
    (guess,) = guessed["compute"]["guessed"]
    assert guess.startswith("--recompute full --recompute-num-layers ")
    layers = int(guess.split()[-1])
    same, fewer, full, none = (plan(busbar, f"{args} --recompute {more}")["predicted"]
                               for more in (f"full --recompute-num-layers {layers}", f"full --recompute-num-layers {layers - 1}", "full",
                                            "none"))
    assert none["step_us"] < fewer["step_us"] < guessed["step_us"] == same["step_us"] < full["step_us"]
    assert same["memory"] == guessed["memory"] and guessed["memory"]["fits"] and not fewer["memory"]["fits"]
    assert none["memory"]["available_bytes"] == 50 * 2**30 and none["memory"]["of"] == "training"
    text = busbar.run("plan", "transformer", *args.split(), emulated=False).stdout
    assert f"guessed: {guess}; without it, training needs 60.2 GiB" in text and "of 50 GiB per GPU: fits" in text
    hopeless = plan(busbar, f"{args.replace('50G', '20G')}")["predicted"]
    assert hopeless["compute"]["guessed"] == [] and not hopeless["memory"]["fits"]
    without_cluster = plan(busbar, f"{LLAMA} --gpu-memory 50G")["memory"]  # the memory of the same step; absent without --gpu-memory
    assert {**without_cluster, "buffers_bytes": none["memory"]["buffers_bytes"]} == none["memory"] and "memory" not in plan(busbar, LLAMA)
    for needed, guess in ((none, []), (same, [guess])):  # exact to the byte
        exact = plan(busbar, args.replace("50G", str(needed["memory"]["needed_bytes"])))["predicted"]
        assert exact["compute"]["guessed"] == guess and exact["memory"]["fits"] and exact["step_us"] == needed["step_us"]


def test_guesses_the_precision_aware_optimizer_before_recomputation(busbar):
    """It takes no time: 2 bytes per parameter instead of 4, for an eighth of the parameters on each of 8 ranks."""
    args = f"{LLAMA} --cluster h100-sxm-ib --gpu-memory 59G"
    guessed, none = (plan(busbar, f"{args} {more}")["predicted"] for more in ("", "--recompute none"))
    (sgd,) = plan(busbar, f"{args.replace('59G', '55G')} --optimizer sgd")["predicted"]["compute"]["guessed"]
    assert sgd.startswith("--recompute ")  # SGD has no precision-aware variant
    assert guessed["compute"]["guessed"] == ["--use-precision-aware-optimizer"] and guessed["step_us"] == none["step_us"]
    assert none["memory"]["needed_bytes"] - guessed["memory"]["needed_bytes"] == pytest.approx(2 * 8030261248 / 8, abs=8)


@pytest.mark.parametrize("args,recomputed", [
    ("--layers 4", []), ("--layers 4 --recompute full --recompute-num-layers 3", [0, 1, 2]), ("--layers 4 --recompute full", [0, 1, 2, 3]),
    ("--layers 8 --pp 2 --vpp 2 --recompute full --recompute-num-layers 1", [0, 2, 4, 6])])
def test_recomputed_layers_take_additional_time(busbar, args, recomputed):
    """Each layer takes 2 ms per micro-batch in the backward pass, and 1 ms more if it is recomputed (the first layers of each
    chunk)."""
    result = plan(busbar, f"--model llama2_7b {args} --ranks {2 if '--pp' in args else 1} --seq-length 64 --micro-batches 2 "
                        "--forward-us 1000 --backward-us 2000", "--ops")
    backward = {}
    for op in [op for role in result["roles"] for op in role["program"]]:
        if op["kind"] == "compute" and op["phase"] == "backward" and op["layer"] is not None:
            backward[op["layer"]] = backward.get(op["layer"], 0) + op["compute_us"]
    assert backward == {layer: pytest.approx(2 * (3000 if layer in recomputed else 2000)) for layer in range(int(args.split()[1]))}


@pytest.mark.parametrize("more,status", [("--gpu-memory 57G", 5), ("--gpu-memory 70G", 0), ("--gpu-memory 57G --recompute full", 0),
                                         ("--cluster h100-sxm-ib", 0), ("--cluster a100-40gb-sxm-ib", 5)])
def test_must_fit_sets_the_exit_status(busbar, more, status, tmp_path):
    path = tmp_path / "plan.json"
    done = busbar.run("plan", "transformer", *LLAMA.split(), *more.split(), "--must-fit", "--json", path, emulated=False)
    plan = json.loads(path.read_text())
    assert done.returncode == status and plan["status"] == ("below threshold" if status else "ok")
    assert plan.get("reason", "") in done.stderr and ("reason" in plan) == bool(status)
    assert ("DOES NOT FIT" in done.stdout) == bool(status) and ("--must-fit: training needs 60.2 GiB" in done.stderr) == bool(status)


def test_fp8_gemms(busbar):
    args = f"{LLAMA} --cluster h100-sxm-ib"
    bf16, fp8 = (plan(busbar, f"{args} {more}")["predicted"] for more in ("", "--fp8"))
    assert fp8["compute"]["fp8"] and bf16["step_us"] / 1.6 < fp8["step_us"] < bf16["step_us"] / 1.2


@pytest.mark.parametrize("change,fragments", [
    (lambda c: c["nccl"][0].pop("inter_us"), ["inter_us", "missing"]),
    (lambda c: c["nccl"][0].update(algorithm="rink"), ["rink", "ring"]),
    (lambda c: c["nccl"][0].update(nic=1e30), ["'nic' is 1e+30, expected at most 100"]),
])
def test_rejects_invalid_rows_of_nccl_in_profiles(busbar, tmp_path, change, fragments):
    profile = json.loads((PROFILES / "h100-sxm-ib.json").read_text())
    change(profile)
    path = tmp_path / "gap.json"
    path.write_text(json.dumps(profile))
    line = rejection(busbar, f"plan transformer {LLAMA} --cluster {path}")
    assert all(fragment in line for fragment in fragments), line


@pytest.mark.parametrize("change,message", [
    (lambda c: c["intra"].update(gbps=330e3), "'intra.gbps' is 330000, existing GPUs have 0.5 to 10000; expected unit: 1e9 bytes/s"),
    (lambda c: c["nccl"][2].update(gbps=0.37), "'nccl.ring.Simple.gbps' is 0.37"),
    (lambda c: None, ""),
])
def test_warns_about_unlikely_units(busbar, tmp_path, change, message):
    """tests/proxies/simulation/machine tests each value separately."""
    profile = json.loads((PROFILES / "h100-sxm-ib.json").read_text())
    change(profile)
    path = tmp_path / "units.json"
    path.write_text(json.dumps(profile))
    done = busbar.run("plan", "all_reduce", "--ranks", 8, "--sizes", "1M", "--cluster", path, emulated=False)
    assert done.returncode == 0 and [message in line and "warning" in line for line in done.stderr.splitlines()] == [True] * bool(message)


@pytest.mark.parametrize("name", sorted(path.stem for path in PROFILES.glob("*.json")))
def test_every_shipped_profile_predicts_and_has_sources(busbar, name):
    predicted = plan(busbar, f"--model gpt2_small --layers 2 --ranks 144 --tp 2 --cluster {name}")["predicted"]
    assert predicted["step_us"] > 0 and predicted["cluster"] == name
    source = json.loads((PROFILES / f"{name}.json").read_text())["source"]
    assert "assumed" in source or "no machine" in source
