"""`busbar proxy transformer` and `busbar plan transformer` on emulated GPUs: traffic, times, data, rejected layouts, and model files."""
import json
import re
import shlex

import pytest
from test_proxy import NO_DATA, NOMINAL, assert_same_breakdown, planned, recorded, traffic_by_rank

FEW = ("--warmup", 0, "--steps", 1, "--traced-steps", 1, "--no-alone")
SHORT = "--seq-length 64"
LAYOUTS = {  # 8 ranks each
    "tp_sp_pp_dp": f"--model gpt2_small --layers 4 --tp 2 --pp 2 --dp 2 --micro-batches 4 --sequence-parallel {SHORT}",
    "interleaved_cp": f"--model llama3_8b --layers 4 --pp 2 --vpp 2 --cp 2 --micro-batches 4 --dp-sync zero1 {SHORT}",
    "zero_bubble_2": f"--model gpt2_small --layers 4 --pp 2 --tp 2 --micro-batches 6 --schedule zb-h2 {SHORT}",
    "zero_bubble": f"--model gpt2_small --layers 4 --pp 4 --schedule zb-h1 --micro-batches 6 {SHORT}",
    "sharded_experts": "--model mixtral_8x7b --layers 2 --tp 2 --ep 2 --sequence-parallel --dp-sync zero3 "
                       f"--micro-batches 2 {SHORT}",
    "uneven_experts": "--model mixtral_8x7b --layers 2 --pp 2 --ep 4 --moe-imbalance 0.7 --schedule gpipe "
                      f"--micro-batches 2 {SHORT}",
    "heads_to_heads": "--model llama3_8b --layers 2 --pp 2 --cp 4 --cp-comm a2a --recompute full --dp-sync distributed "
                      f"--micro-batches 2 {SHORT}",
}


@pytest.mark.parametrize("args", LAYOUTS.values(), ids=LAYOUTS)
def test_run_matches_plan_and_predicted_time(busbar, tmp_path, args):
    """The executed traffic equals the plan, and the step takes the predicted time."""
    cluster = NOMINAL
    env = {**NO_DATA, "EMU_CLUSTER": str(cluster), "NCCL_RECORD": str(tmp_path / "calls"),
           "LD_PRELOAD": str(busbar.build / "tests" / "nccl_recorder.so")}
    plan = planned(busbar, "transformer", args.split(), 8, "--compute", "timed", "--cluster", cluster)
    assert all(plan["checks"][key] for key in ("matched", "deadlock_free", "safe_serialised"))
    run = busbar.json("proxy", "transformer", *args.split(), *FEW, ranks=8, env=env, tmp_path=tmp_path)
    assert run["step_us"]["p50"] == pytest.approx(plan["predicted"]["step_us"], abs=1)
    for role in plan["roles"]:
        role["compute_us"] = pytest.approx(role["compute_us"], abs=1e-3)  # the JSON of a run has fewer digits
    assert run["roles"] == plan["roles"]
    assert_same_breakdown(run, plan["predicted"])
    expected = traffic_by_rank(plan["roles"])
    for rank in range(8):
        calls, steps = recorded(tmp_path / "calls", rank, 8)
        assert steps == 2 and calls == {key: n * steps for key, n in expected[rank].items()}


@pytest.mark.parametrize("args", LAYOUTS.values(), ids=LAYOUTS)
def test_data_check_passes(busbar, tmp_path, args):
    run = busbar.json("proxy", "transformer", *args.split(), *FEW, "--check", "--scale-counts", 1e-4, ranks=8,
                      tmp_path=tmp_path)
    assert run["check"] == {"enabled": True, "wrong": 0, "flags": []}


@pytest.mark.smoke
def test_plan_lists_groups_and_stages(busbar):
    plan = planned(busbar, "transformer", "--model gpt2_small --tp 2 --pp 4 --dp 2 --sequence-parallel".split(), 16)
    groups = {g["name"]: g for g in plan["groups"]}
    assert {"tp", "dp", "pp", "embedding"} <= set(groups)
    assert groups["tp"]["members"][:2] == [[0, 1], [2, 3]] and groups["dp"]["members"][:2] == [[0, 2], [1, 3]]
    assert groups["pp"]["members"][0] == [0, 4, 8, 12] and groups["embedding"]["members"][0] == [0, 12]
    assert [role["name"] for role in plan["roles"]] == ["first stage", "stage 1", "stage 2", "last stage"]
    assert [role["ranks"] for role in plan["roles"]] == [list(range(4 * s, 4 * s + 4)) for s in range(4)]


@pytest.mark.parametrize("order,dp,pp", [("tp-cp-ep-dp-pp", [0, 2], [0, 4]), ("tp-cp-ep-pp-dp", [0, 4], [0, 2])])
def test_axis_order_places_the_groups(busbar, order, dp, pp):
    plan = planned(busbar, "transformer", f"--model gpt2_small --tp 2 --pp 2 --order {order}".split(), 8)
    groups = {g["name"]: g["members"][0] for g in plan["groups"]}
    assert groups["tp"] == [0, 1] and groups["dp"] == dp and groups["pp"] == pp


def test_zero3_gathers_tied_embedding_before_the_head_uses_it(busbar):
    """With zero3 and one stage the embedding table is gathered twice: for the forward pass, and before the head's gradients for the whole
    backward pass."""
    plan = planned(busbar, "transformer", "--model gpt2_small --layers 2 --dp-sync zero3".split(), 4, "--ops")
    program = plan["roles"][0]["program"]
    table = [op["index"] for op in program if op["what"] == "parameters of embedding"]
    head = next(op["index"] for op in program if op["what"] == "head gradients")
    logits = next(op["index"] for op in program if op["what"] == "logits")
    assert len(table) == 2 and table[0] < logits < table[1] < head


def test_ops_splits_roles_with_different_operation_order(busbar):
    """Stages with equal traffic in a different order share a role. With --ops each such stage has a separate role."""
    args = "--model gpt2_small --layers 12 --pp 6 --schedule zb-h1 --micro-batches 4".split()
    merged_roles, separate_roles = (planned(busbar, "transformer", args, 6, *more)["roles"] for more in ((), ("--ops",)))
    assert any(role["ranks"] == [1, 2] for role in merged_roles) or len(merged_roles) < 6
    assert [role["ranks"] for role in separate_roles] == [[rank] for rank in range(6)]
    orders = [[(op["phase"], op["micro_batch"], op["what"]) for op in role["program"]] for role in separate_roles]
    assert orders[1] != orders[2]


def test_derives_the_missing_axis_from_ranks(busbar):
    sizes = {}
    for given in ("--tp 2 --pp 2", "--tp 2 --dp 4", "--pp 2 --dp 4", "--tp 2 --pp 2 --dp 4"):
        plan = planned(busbar, "transformer", f"--model gpt2_small {given}".split(), 16)
        sizes[given] = {g["name"]: g["size"] for g in plan["groups"] if g["name"] in ("tp", "pp", "dp")}
    assert all(s == {"tp": 2, "pp": 2, "dp": 4} for s in sizes.values())


def test_reads_a_published_config_json(busbar, tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "intermediate_size": 11008,
        "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 32, "vocab_size": 32000,
        "max_position_embeddings": 4096, "rms_norm_eps": 1e-5, "hidden_act": "silu", "tie_word_embeddings": False}))
    done = busbar.run("plan", "transformer", "--model", path, "--ranks", 8, "--tp", 8)
    assert done.returncode == 0, done.stderr
    assert "6,738,415,616 parameters" in done.stdout


def bubble(busbar, args, m, p):
    """Idle time of the pipeline relative to the ideal step time. Communication is negligible."""
    plan = planned(busbar, "transformer",
                   f"--model gpt2_small --layers {2 * p} --pp {p} --micro-batches {m} {args} --forward-us 100000".split(), p,
                   "--cluster", NOMINAL)
    step = plan["predicted"]["step_us"]
    compute = max(role["compute_us"] for role in plan["roles"][1:-1])
    return (step - compute) / compute


def test_bubbles_match_the_formulas(busbar):
    """Layers take 100 ms, so that embedding, head and messages are negligible."""
    p, m = 4, 8
    assert bubble(busbar, "--schedule 1f1b", m, p) == pytest.approx((p - 1) / m, rel=0.05)
    assert bubble(busbar, "--schedule gpipe", m, p) == pytest.approx((p - 1) / m, rel=0.05)
    assert bubble(busbar, "--vpp 2", m, p) == pytest.approx((p - 1) / m / 2, rel=0.05)
    # Attention scores have no weight gradients, so the gradients of activations take longer than those of weights, and the bubble is a
    # bit larger than (p - 1) / m / 3.
    assert (p - 1) / m / 3 < bubble(busbar, "--schedule zb-h1", m, p) < (p - 1) / m / 2


F, B, W = 4, 8, 4  # ms per stage and micro-batch: forward, backward, and the part of backward that computes weight gradients


@pytest.mark.parametrize("schedule,closed_ms", [
    ("gpipe", 3 * (F + B)), ("1f1b", 3 * (F + B)), ("interleaved --vpp 2", 3 * (F + B) / 2), ("interleaved --vpp 4", 3 * (F + B) / 4),
    ("zb-h1", 3 * (F + B - 2 * W)),
    ("zb-h2", 3 * F),  # a stage has no bubble between its first and last slot; the gradient norm joins starts that differ by 3 F
    ("dualpipe", F + B + B - 3 * W)])  # (p / 2 - 1)(F&B + B - 3 W)
def test_every_stage_has_the_bubble_of_the_closed_form(busbar, tmp_path, schedule, closed_ms):
    """Without communication cost, plan and proxy give each of 4 stages the bubble of the paper, within 0.1 % of the step. A short sequence
    makes attention scores, which have no weight gradients, negligible."""
    tiny = tmp_path / "config.json"
    tiny.write_text(json.dumps({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 1024, "intermediate_size": 4096,
        "num_attention_heads": 16, "num_hidden_layers": 16, "num_key_value_heads": 16, "vocab_size": 8,
        "max_position_embeddings": 2048, "rms_norm_eps": 1e-5, "hidden_act": "silu", "tie_word_embeddings": False}))
    fast = tmp_path / "fast.json"
    fast.write_text(json.dumps(json.loads(NOMINAL.read_text()) | {tier: {"latency_us": 0.001, "gbps": 1e6} for tier in ("intra", "inter")}))
    args = (f"--model {tiny} --pp 4 --micro-batches 12 --forward-us 1000 --backward-us 2000 --compute timed --seq-length 16 "
            f"--schedule {schedule}").split()
    plan = planned(busbar, "transformer", args, 4, "--cluster", fast)["predicted"]
    run = busbar.json("proxy", "transformer", *args, "--warmup", 0, "--steps", 1, "--traced-steps", 1, ranks=4,
                      env={**NO_DATA, "EMU_CLUSTER": str(fast)}, tmp_path=tmp_path)
    for step in (plan, run):
        assert len(step["breakdown_by_role"]) > 1
        for role in step["breakdown_by_role"]:
            assert role["bubble_us"] == pytest.approx(1e3 * closed_ms, abs=1e-3 * role["step_us"]), role["role"]
            assert role["exposed_waiting_us"] < 1e-3 * role["step_us"]
    assert plan["overlap_efficiency"] is None and run["overlap"]["overlap_efficiency"] is None


def test_dualpipe_overlaps_the_expert_exchange(busbar):
    """Eight experts on eight ranks: with 1f1b the token exchange is exposed between GEMMs; with dualpipe it overlaps with the GEMMs of the
    other direction. Both have the same traffic per rank. With dualpipe a rank holds two stages and reduces gradients over the replicas of
    both."""
    args = "--model mixtral_8x7b --layers 8 --ep 8 --pp 4 --micro-batches 32 --seq-length 4096 --compute gemm --gpus-per-node 8"
    plans = {s: planned(busbar, "transformer", f"{args} --schedule {s}".split(), 32, "--cluster", NOMINAL)
             for s in ("1f1b", "dualpipe")}
    steps = {name: plan["predicted"]["step_us"] for name, plan in plans.items()}
    middle_role = {name: plan["roles"][1] for name, plan in plans.items()}
    exchanged = {name: sum(t["bytes"] for t in role["traffic"] if t["kind"] == "alltoall") for name, role in middle_role.items()}
    assert exchanged["dualpipe"] == exchanged["1f1b"]
    assert steps["dualpipe"] < 0.9 * steps["1f1b"]
    hidden = {name: next(row for row in plan["predicted"]["breakdown_by_role"] if row["role"] == "stage 1")
              for name, plan in plans.items()}
    assert hidden["1f1b"]["overlap_fraction"] < 0.2 < 0.4 < hidden["dualpipe"]["overlap_fraction"]
    assert {t["group"]: t["group_size"] for t in middle_role["dualpipe"]["traffic"] if "bidirectional" in t["group"]} == {
        "dp bidirectional": 16, "edp bidirectional": 2}


FIRST, LAST = "--decoder-first-pipeline-num-layers", "--decoder-last-pipeline-num-layers"


def test_llama_405b_with_16_stages(busbar):
    """126 layers are not divisible by 16 stages. Embedding and head count as one layer each, as in the training of Llama 3 405B."""
    args = "--model llama3_405b --tp 8 --pp 16 --dp 128".split()
    for vpp in ((), ("--vpp", 2), ("--vpp", 4)):
        plan = planned(busbar, "transformer", [*args, *vpp], 16384)
        assert len(plan["roles"]) >= 3 and plan["checks"]["safe_serialised"]
        assert sum(len(role["ranks"]) for role in plan["roles"]) == 16384


def test_deepseek_v3_with_16_stages(busbar):
    """61 layers are split into 3, 14 x 4 and 2. The first three layers are dense and form the first stage, so that stage has no token
    exchange."""
    args = f"--model deepseek_v3 --pp 16 --ep 64 --dp-sync zero1 --micro-batches 32 {FIRST} 3 {LAST} 2".split()
    plan = planned(busbar, "transformer", args, 2048)
    assert plan["checks"]["safe_serialised"] and len(plan["roles"]) == 16
    calls = [sum(op["calls"] for op in role["traffic"] if op["group"] == "ep" and op["dtype"] == "bfloat16") for role in plan["roles"]]
    assert calls == [0] + 14 * [32 * 4 * 4] + [32 * 4 * 2]


def test_a_layout_of_the_pipeline_is_the_same_step_as_numbers_of_layers(busbar):
    """The 61 layers of DeepSeek-V3 as 3, 14 x 4 and 2, in both words; and 126 + 2 layers on 16 x 8, which only a layout can say."""
    both = ["--pipeline-layout", "Et*3|(t*4|)*14tt,L"], [FIRST, "3", LAST, "2"]
    args = "--model deepseek_v3 --pp 16 --ep 64 --dp-sync zero1 --micro-batches 32 --cluster h100-sxm-ib --recompute full".split()
    plans = [planned(busbar, "transformer", [*args, *words], 2048) for words in both]
    assert plans[0]["roles"] == plans[1]["roles"] and plans[0]["predicted"]["step_us"] == plans[1]["predicted"]["step_us"]
    alone = planned(busbar, "transformer", "--model llama3_405b --tp 8 --pp 16 --dp 1 --pipeline-layout E|(t|)*126,L".split(), 128)
    sent = sum(op["calls"] * len(role["ranks"]) for role in alone["roles"] for op in role["traffic"]
               if op["group"] == "pp" and op["kind"] == "send")
    assert sent == 8 * 127 * 2 * 16  # tp, boundaries of 128 virtual stages, directions, micro-batches


def test_a_stage_without_modules_takes_no_time(busbar):
    """Megatron-LM allows E||t|L: a stage of its own that only passes the hidden state on, and computes and stores nothing."""
    args = "--model llama3_8b --dp 1 --micro-batches 1 --cluster h100-sxm-ib --recompute none --pp".split()
    empty, without = (planned(busbar, "transformer", [*args, pp, "--pipeline-layout", layout], pp)
                      for pp, layout in ((4, "Et*16||t*16|L"), (3, "Et*16|t*16|L")))
    assert [role["flops"] for role in empty["roles"]] == [without["roles"][0]["flops"], 0, *(role["flops"] for role in without["roles"][1:])]
    assert sum(op["bytes"] for op in empty["roles"][1]["traffic"] if op["kind"] == "send") == 2 * 2 * 8192 * 4096
    two_transfers = empty["predicted"]["step_us"] - without["predicted"]["step_us"]
    assert 0 < two_transfers < 0.01 * without["predicted"]["step_us"]


@pytest.mark.parametrize("layout, advice", [("Et*16|t*16L", "without --vpp"), ("Et*5|(t*5|)*4t*7L", "--vpp 3"), ("Et*10|t*11|t*11L", None)])
def test_advice_for_the_number_of_virtual_stages_is_accepted(busbar, layout, advice):
    options = {"--vpp": "2", "--pipeline-layout": layout}
    args = "plan transformer --model llama3_8b --ranks 8 --pp 2 --micro-batches 8 --recompute full --cluster h100-sxm-ib".split()
    done = busbar.run(*args, *sum(options.items(), ()), emulated=False)
    tried = re.search("; try: (.*)\n$", done.stderr)[1]
    assert done.returncode == 2 and (tried == advice or (advice is None and tried.startswith("--pipeline-layout 'E")))
    if tried == "without --vpp":
        del options["--vpp"]
    else:
        options.update([shlex.split(tried)])
    assert busbar.run(*args, *sum(options.items(), ()), emulated=False).returncode == 0


@pytest.mark.parametrize("args, given, advice", [
    ("--model mixtral_8x7b --ranks 6", {"--ep": "4", "--etp": "1"}, ["--ep 2"]), ("--model qwen3_30b_a3b --ranks 3", {"--ep": "16"}, ["--ep 1"]),
    ("--model llama3_8b --ranks 1", {"--vpp": "3"}, ["--schedule 1f1b --vpp 1"]), ("--model llama3_8b --ranks 4 --dp 4", {"--vpp": "2"}, ["--schedule 1f1b --vpp 1"]),
    ("--model llama3_70b --layers 81 --ranks 6 --tp 2", {"--vpp": "3"}, ["--schedule 1f1b --vpp 1", "--pp 3 --vpp 3"]),
    ("--model mixtral_8x7b --ranks 3", {"--schedule": "dualpipe"}, ["--schedule zb-h1"]),
    ("--model mixtral_8x7b --ranks 12 --micro-batches 12", {"--schedule": "dualpipe", "--pp": "3"}, ["--pp 4", "--schedule zb-h1"])])
def test_advice_divides_ranks_experts_and_stages(busbar, args, given, advice):
    done = busbar.run("plan", "transformer", *args.split(), *sum(given.items(), ()), emulated=False)
    assert done.returncode == 2 and re.search("; try: (.*)\n$", done.stderr)[1].split(", or ") == advice
    for tried in advice[:1]:  # the layers may not divide among the stages of the others
        words = tried.split()
        options = {**given, **dict(zip(words[::2], words[1::2]))}
        done = busbar.run("plan", "transformer", *args.split(), *sum(options.items(), ()), emulated=False)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("args, reason", [("--ranks 8 --recompute-num-layers 5 --recompute-modules mlp", "recompute-num-layers does not apply: it excludes --recompute-modules"),
                                          ("--ranks 1 --tp-comm-overlap", "tp-comm-overlap does not apply: tp is 1")])
def test_options_that_nothing_makes_apply_are_left_out(busbar, args, reason):
    done = busbar.run("plan", "transformer", "--model", "llama3_8b", *args.split(), emulated=False)
    assert (done.returncode, done.stderr) == (2, f"busbar: transformer: --{reason}; leave it out\n")


def test_one_rank_and_one_layer_are_singular(busbar):
    args = ("plan", "transformer", "--model", "llama3_8b", "--layers", 1, "--ranks", 1, "--full", "--recompute", "full")
    assert "\nchecks of 1 rank (1 class of equivalent ranks)\n" in busbar.run(*args, emulated=False).stdout
    assert "more than the 1 layer of the largest" in busbar.run(*args, "--recompute-num-layers", 2, emulated=False).stderr


def test_advice_for_a_layout_without_stages_divides_the_ranks(busbar):
    """12 virtual stages, as 4 stages of 3 on 64 ranks."""
    args = "plan transformer --model llama3_8b --ranks 64 --micro-batches 16 --pipeline-layout Et*2|(t*3|)*10L".split()
    done = busbar.run(*args, emulated=False)
    assert done.returncode == 2 and done.stderr.endswith("; try: --pp 4\n")
    assert busbar.run(*args, "--pp", 4, emulated=False).returncode == 0
    for vpp, advice in ((4, "; try: --pipeline-layout 'Et|t*2|(t|)*29L'\n"), (5, " add 28, which may be empty, as in 'E||t|L'\n")):
        more = busbar.run(*args, "--pp", 8, "--vpp", vpp, emulated=False)
        assert more.returncode == 2 and more.stderr.endswith(advice), more.stderr


def test_deepseek_v3_with_multi_token_prediction(busbar):
    """DeepSeek-V3's module has 11.5e9 parameters of its own (README_WEIGHTS.md). By hand, FLOPs per token forward: 2 x (projection, attention,
    9 experts and router, head) and the scores. On a virtual stage of its own it sends both hidden states, and holds the table of the embedding."""
    args = "--model deepseek_v3 --pp 16 --ep 64 --dp-sync distributed --micro-batches 16 --pipeline-layout".split()
    without, plan = (planned(busbar, "transformer", [*args, layout, *more], 1024)
                     for layout, more in (("Et*3|(tt|)*28,t|t|L", ()), ("Et*3|(tt|)*29,m|L", ("--mtp-num-layers", 1))))
    assert plan["parameters"] - without["parameters"] == pytest.approx(11.5e9, rel=0.01)
    flops = [sum(role["flops"] * len(role["ranks"]) for role in p["roles"]) for p in (without, plan)]
    h, n, tokens = 7168, 4096, 16 * 64 * 4096
    mla = h * 1536 + 1536 * 128 * 192 + h * 576 + 512 * 128 * 256 + 128 * 128 * h
    forward = 2 * (2 * h * h + mla + 9 * 3 * h * 2048 + h * 256 + h * 129280) + 2 * n * 128 * (192 + 128)
    assert flops[1] - flops[0] == pytest.approx(3 * forward * tokens, rel=1e-9)
    stage, last = plan["roles"][-2:]
    assert [t["calls"] for t in stage["traffic"] if t["group"] == "pp" and t["count"] == 2 * n * h] == [16, 16]
    assert [t["count"] for t in stage["traffic"] if t["group"] == "embedding"] == [129280 * h]
    assert not [t for t in last["traffic"] if t["group"] == "embedding"]


NANO = {"model_type": "nemotron_h", "hidden_size": 2688, "num_attention_heads": 32, "num_key_value_heads": 2, "mamba_num_heads": 64,
        "vocab_size": 131072, "n_routed_experts": 128, "num_experts_per_tok": 6, "moe_intermediate_size": 1856,
        "moe_shared_expert_intermediate_size": 3712, "hybrid_override_pattern": "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME"}
SUPER = {**NANO, "hidden_size": 4096, "mamba_num_heads": 128, "n_routed_experts": 512, "num_experts_per_tok": 22,
         "moe_intermediate_size": 2688, "moe_shared_expert_intermediate_size": 5376, "moe_latent_size": 1024,
         "hybrid_override_pattern": "MEMEMEM*EMEMEMEM*EMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEM*EMEMEMEME"}
ULTRA = {**SUPER, "hidden_size": 8192, "num_attention_heads": 64, "mamba_num_heads": 256, "moe_intermediate_size": 5120,
         "moe_shared_expert_intermediate_size": 10240, "moe_latent_size": 2048,
         "hybrid_override_pattern": "MEMEMEM*EMEMEM*EMEMEMEM*EMEMEMEM*EMEMEM*EMEMEMEM*EMEMEMEM*EMEMEM*EMEMEMEM*EMEMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME"}


@pytest.mark.parametrize("config, mtp, tflops, tokens", [(NANO, 0, 905, 40960), (NANO, 2, 807, 28672), (SUPER, 2, 831, 9856), (ULTRA, 2, 1281, 3552)],
                         ids=["Nano", "Lightning", "Super", "Ultra"])
def test_hybrids_have_the_flops_that_megatron_bridge_counts(busbar, tmp_path, config, mtp, tflops, tokens):
    """NVIDIA-NeMo/Megatron-Bridge, docs/performance-summary.md (GB300 and, of Lightning, GB200): TFLOP/s and tokens/s of a GPU. Its counter
    (training/utils/flop_utils.py) has causal attention, a scan of 7 FLOPs per element of the state, and scans of twice the hidden width: in Nano
    and Lightning 5376, where the model has 4096 channels."""
    path = tmp_path / "model.json"
    path.write_text(json.dumps(config))
    more = ("--mtp-num-layers", mtp) if mtp else ()
    plan = planned(busbar, "transformer", (), 8, "--model", path, "--seq-length", 8192, "--ep", 8, *more, "--cluster", "gb300-nvl72")
    causal = plan["predicted"]["model_flop_utilisation_causal"] / plan["predicted"]["model_flop_utilisation"]
    hidden, channels = config["hidden_size"], config["mamba_num_heads"] * 64
    scans = config["hybrid_override_pattern"].count("M")
    more_channels = 3 * scans * (6 * hidden + 7 * 128) * (2 * hidden - channels)
    assert plan["roles"][0]["flops"] * causal / 8192 + more_channels == pytest.approx(tflops * 1e12 / tokens, rel=0.02)


@pytest.mark.parametrize("cluster, tflops", [("a100-sxm-ib", 102.5), ("h200-sxm-ib", 239.2), ("gb200-nvl72", 360.4)])
def test_training_of_mamba_2_takes_the_published_time(busbar, tmp_path, cluster, tflops):
    """state-spaces/mamba, issue 904: 48 layers of width 2048, 4 samples of 4096 tokens in 16 bits, as 6 FLOPs per parameter and token."""
    path = tmp_path / "model.json"
    path.write_text(json.dumps({"model_type": "mamba2", "hidden_size": 2048, "num_hidden_layers": 48, "num_heads": 64, "n_groups": 1,
                                "vocab_size": 50288, "tie_word_embeddings": True}))
    args = "--global-batch-size 4 --micro-batch-size 4 --seq-length 4096 --software torch --cluster".split()
    plan = planned(busbar, "transformer", (), 1, "--model", path, *args, cluster)
    assert plan["predicted"]["step_us"] == pytest.approx(6 * plan["parameters"] * 16384 / tflops / 1e6, rel=0.02)


def test_runs_multi_token_prediction(busbar, tmp_path):
    run = busbar.json("proxy", "transformer", "--model", "mixtral_8x7b", *"--layers 4 --tp 2 --sequence-parallel --ep 2 --pp 2 --seq-length 64".split(),
                      *"--mtp-num-layers 1 --pipeline-layout Et|t|ttm|L".split(), *FEW, "--check", "--scale-counts", 1e-4, ranks=4, tmp_path=tmp_path)
    assert run["check"] == {"enabled": True, "wrong": 0, "flags": []}


V4 = {"model_type": "deepseek_v4", "vocab_size": 1024, "hidden_size": 128, "moe_intermediate_size": 64, "num_hidden_layers": 4,
      "num_attention_heads": 8, "head_dim": 32, "qk_rope_head_dim": 8, "q_lora_rank": 64, "o_lora_rank": 16, "o_groups": 4,
      "n_routed_experts": 8, "num_experts_per_tok": 2, "sliding_window": 32, "num_hash_layers": 1, "index_head_dim": 16,
      "index_n_heads": 4, "index_topk": 16, "compress_ratios": [0, 4, 128, 4, 0]}


def test_deepseek_v4_flops_per_token(busbar):
    """Published by Megatron-Bridge (26.08): 748 TFLOP/s at 8,224 tokens per second on GB300, 706 at 7,776 on GB200. Its counter
    (flop_utils.py, dsv4_hybrid), per token and GEMM of 2 FLOPs in 3 passes, and what busbar counts in addition: masked keys of the
    indexer's selection and of 128 tokens; the projection of all four streams in MTP; the router; not the norms."""
    h, s, heads, layers = 4096, 4096, 64, 44
    sparse, heavy, window = 21, 20, 3
    projections = layers * (1024 * (h + heads * 512 + 1) + h * 512 + 512 + heads * 512 * 1024 + 8 * 1024 * h)
    keys = (window + heavy + sparse) * 128 + sparse * 512 * (1 - 512 * 4 / (2 * s)) + heavy * s / 128 / 2
    compressors = sparse * h * 1024 * 2 + heavy * h * 512 * 2 + sparse * (h * 256 * 2 + 1024 * 64 * 128 + h * 64 + 64 * 128 * s / 4)
    counted = 6 * (projections + keys * heads * 512 * 2 + compressors + layers * 7 * 3 * h * 2048 + 3 * h + 2 * h * h + 2 * h * 129280)
    more = sparse * 512 * 512 * 4 / (2 * s) + heavy * s / 128 / 2
    more = 6 * (more * heads * 512 * 2 + 3 * h * h + layers * h * 256 - 3 * h - layers * (1024 + 512))
    plan = planned(busbar, "transformer", "--model deepseek_v4_flash --ep 64 --mtp-num-layers 1".split(), 64)
    flops = plan["roles"][0]["flops"] / s
    assert counted == pytest.approx(748e12 / 8224, rel=0.005) and counted == pytest.approx(706e12 / 7776, rel=0.005)
    assert flops == pytest.approx(counted + more, rel=1e-9) and flops == pytest.approx(counted, rel=0.02)
    done = busbar.run("plan", "transformer", "--model", "deepseek_v4_flash", "--ep", 64, "--ranks", 64, "--cluster", "gb200-nvl72", emulated=False)
    assert "none of these published steps was predicted with hyper-connections" in done.stdout
    done = busbar.run("plan", "transformer", "--model", "deepseek_v4_flash", "--ranks", 128, "--cluster", "gb200-nvl72", "--best-layout",
                      *"--global-batch-size 256 --ep 32 --pp 1 --tp 1 --dp-sync zero3 --software megatron --top 1".split(), emulated=False)
    assert "none of these published steps was predicted with hyper-connections" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("layout", ["--tp 2 --sequence-parallel --dp-sync distributed", "--ep 2 --moe-imbalance 0.5", "--pp 2 --micro-batches 4",
                                    "--ep 2 --pp 2 --micro-batches 2 --mtp-num-layers 1 --recompute full"])
def test_runs_deepseek_v4(busbar, tmp_path, layout):
    """The executed traffic equals the plan. Between pipeline stages, all four residual streams are sent. Hash-routed layers are balanced."""
    model = tmp_path / "config.json"
    model.write_text(json.dumps(V4))
    args = ["--model", model, "--seq-length", 256, *layout.split()]
    env = {**NO_DATA, "EMU_CLUSTER": str(NOMINAL), "NCCL_RECORD": str(tmp_path / "calls"),
           "LD_PRELOAD": str(busbar.build / "tests" / "nccl_recorder.so")}
    plan = planned(busbar, "transformer", args, 4, "--compute", "timed", "--cluster", NOMINAL)
    run = busbar.json("proxy", "transformer", *args, *FEW, ranks=4, env=env, tmp_path=tmp_path)
    assert run["step_us"]["p50"] == pytest.approx(plan["predicted"]["step_us"], abs=1)
    expected = traffic_by_rank(plan["roles"])
    for rank in range(4):
        calls, steps = recorded(tmp_path / "calls", rank, 4)
        assert calls == {key: n * steps for key, n in expected[rank].items()}
    checked = busbar.json("proxy", "transformer", *args, *FEW, "--check", "--scale-counts", 0.01, ranks=4, tmp_path=tmp_path)
    assert checked["check"] == {"enabled": True, "wrong": 0, "flags": []}
    sends = {op["count"] for role in plan["roles"] for op in role["traffic"] if op["group"] == "pp" and op["kind"] == "send"}
    assert sends == ({4 * 256 * 128} if "--pp" in layout else set())
    if "imbalance" in layout:
        even = [op["count"] for role in plan["roles"] for op in role["traffic"] if op["group"] == "ep" and op["count"] == 256 * 128]
        assert even  # half of 256 x 2 copies of 128 elements


@pytest.mark.parametrize("layout, message", [("--cp 2", "no context parallelism"), ("--lora-rank 8", "compressed attention"),
                                             ("--tp 8 --sequence-parallel", "o_groups"),
                                             ("--tp 2 --sequence-parallel --mtp-num-layers 1", "only without tensor parallelism")])
def test_rejects_layouts_of_deepseek_v4(busbar, tmp_path, layout, message):
    model = tmp_path / "config.json"
    model.write_text(json.dumps(V4))
    done = busbar.run("plan", "transformer", "--model", model, "--ranks", 8, "--seq-length", 256, *layout.split(), emulated=False)
    assert done.returncode == 2 and message in done.stderr and done.stderr.count("\n") == 1, done.stderr


@pytest.mark.parametrize("args", [f"--pp 4 {FIRST} 2 {LAST} 4", f"--pp 4 {LAST} 3", "--pp 4 --pipeline-layout E|(tttt|)*2,ttttL",
                                  "--pp 2 --vpp 2 --pipeline-layout E||t*6|t*6L --dp-sync distributed", "--pp 4 --pipeline-layout Et*12|||L",
                                  f"--pp 2 --vpp 2 {FIRST} 4 --dp-sync zero1"])
def test_runs_stages_of_unequal_length(busbar, tmp_path, args):
    run = busbar.json("proxy", "transformer", "--model", "gpt2_small", *args.split(), *FEW, "--check", "--scale-counts", 1e-4,
                      ranks=8, tmp_path=tmp_path)
    assert run["check"] == {"enabled": True, "wrong": 0, "flags": []}
