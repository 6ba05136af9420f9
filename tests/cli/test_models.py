"""Models of proxy transformer: published config.json files, invalid files and layouts, training memory, and the best axis order.

The inter-node bytes of each axis order are computed here again from the groups and the traffic of that order's plan."""
import collections
import json
import pathlib
import re

import pytest

PAGE = pathlib.Path(__file__).resolve().parents[2] / "proxies/workloads/transformer/README.md"

LLAMA_3_8B = {  # config.json of meta-llama/Meta-Llama-3-8B: all fields that busbar reads, and some that it ignores
    "architectures": ["LlamaForCausalLM"], "attention_bias": False, "bos_token_id": 128000, "hidden_act": "silu",
    "hidden_size": 4096, "intermediate_size": 14336, "max_position_embeddings": 8192, "model_type": "llama",
    "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8, "pretraining_tp": 1,
    "rms_norm_eps": 1e-05, "rope_scaling": None, "rope_theta": 500000.0, "tie_word_embeddings": False,
    "torch_dtype": "bfloat16", "use_cache": True, "vocab_size": 128256,
}


@pytest.fixture
def plan(busbar, tmp_path):
    def run(*args):
        return busbar.json("plan", "transformer", *args, tmp_path=tmp_path, emulated=False)

    return run


def rejected(busbar, *args):
    done = busbar.run("plan", *args, emulated=False)
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1
    return done.stderr


# ---- models -----------------------------------------------------------------------------------------------------------

def test_list_models_prints_parameter_counts(busbar):
    text = busbar.run("list", "models", emulated=False).stdout
    rows = re.findall(r"^  (\w+) +(\w+) +(\d+) parameters ", text, re.M)
    parameters = {name: int(count) for name, _, count in rows}
    assert parameters["llama3_405b"] == 405853388800
    assert parameters["deepseek_v3"] == 671026419200
    assert parameters["gpt3_175b"] == 174604259328
    assert parameters["mixtral_8x7b"] == 46702792704
    assert {proxy: int(count) for name, proxy, count in rows if name == "gpt2_large"} == {"gpt2_large": 1074488320, "transformer": 774030080}


def test_reads_a_published_config_json(busbar, plan, tmp_path):
    folder = tmp_path / "Meta-Llama-3-8B"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(LLAMA_3_8B))
    args = ["--ranks", 16, "--tp", 4, "--pp", 2]
    assert plan("--model", folder / "config.json", *args)["roles"] == plan("--model", "llama3_8b", *args)["roles"]
    text = busbar.run("plan", "transformer", "--model", folder / "config.json", *args, emulated=False).stdout
    assert "8,030,261,248 parameters" in text and "# Meta-Llama-3-8B, 32 layers" in text


GEMMA_3_4B = {  # config.json of google/gemma-3-4b-pt: a language model and a vision model
    "architectures": ["Gemma3ForConditionalGeneration"], "boi_token_index": 255999, "mm_tokens_per_image": 256,
    "model_type": "gemma3",
    "text_config": {"hidden_size": 2560, "intermediate_size": 10240, "model_type": "gemma3_text", "num_hidden_layers": 34,
                    "rope_scaling": {"factor": 8.0, "rope_type": "linear"}, "sliding_window": 1024},
    "vision_config": {"hidden_size": 1152, "intermediate_size": 4304, "model_type": "siglip_vision_model"},
}


def folder_of(tmp_path, name, config):
    folder = tmp_path / name
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.parametrize("end", ["", "/", "/config.json"])
def test_reads_config_json_of_a_folder(busbar, tmp_path, end):
    folder = folder_of(tmp_path, "Meta-Llama-3-8B", LLAMA_3_8B)
    for proxy, name in (("transformer", "# Meta-Llama-3-8B, 32 layers"), ("data_parallel", f"# {folder}{end} with")):
        done = busbar.run("plan", proxy, "--model", f"{folder}{end}", "--ranks", 4, emulated=False)
        assert done.returncode == 0, done.stderr
        assert "8,030,261,248 parameters" in done.stdout and name in done.stdout


def test_rejects_folders_without_a_valid_config_json(busbar, tmp_path):
    assert "is a folder without a config.json" in rejected(busbar, "transformer", "--model", tmp_path, "--ranks", 2)
    (tmp_path / "config.json").write_text("{")
    assert "config.json: line 1" in rejected(busbar, "transformer", "--model", tmp_path, "--ranks", 2)
    assert "is a folder, expected a file" in rejected(busbar, "transformer", "--model", "gpt2_small", "--ranks", 2, "--cluster",
                                                      tmp_path)


def test_reads_the_language_part_of_a_multimodal_model(busbar, tmp_path):
    folder = folder_of(tmp_path, "gemma-3-4b-pt", GEMMA_3_4B)
    done = busbar.run("plan", "transformer", "--model", folder, "--ranks", 2, "--tp", 2, "--seq-length", 8192, emulated=False)
    assert "3,880,263,168 parameters" in done.stdout, done.stderr  # 34 x 94382592 + 262208 x 2560 + 2560, computed by hand
    left_out = "only the text part of the model is planned, without vision_config: its parameters"
    assert left_out in done.stderr
    # Qwen2.5-VL-7B in the layout of the first release: 28 layers, heads of 128; the model has 8,292,166,656 parameters with the vision part
    older = {"architectures": ["Qwen2_5_VLForConditionalGeneration"], "model_type": "qwen2_5_vl", "hidden_size": 3584, "intermediate_size": 18944,
             "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4, "vocab_size": 152064, "tie_word_embeddings": False,
             "vision_config": {"depth": 32, "hidden_size": 1280}}
    done = busbar.run("plan", "transformer", "--model", folder_of(tmp_path, "qwen", older), "--ranks", 2, "--seq-length", 8192, emulated=False)
    assert "7,615,616,512 parameters" in done.stdout and left_out in done.stderr and "unknown model_type" not in done.stderr
    other = {**GEMMA_3_4B, "text_config": {**GEMMA_3_4B["text_config"], "model_type": "gemma9_text"}}
    line = rejected(busbar, "transformer", "--model", folder_of(tmp_path, "gemma9", other), "--ranks", 2)
    assert "unknown architecture 'gemma9_text', did you mean 'gemma3_text'?" in line


def attention_us(busbar, folder, *args):
    """Forward time of each layer's attention in microseconds."""
    done = busbar.run("plan", "transformer", "--model", folder, "--ranks", 1, "--tflops", 1000, "--ops", "--json", "-", *args,
                      emulated=False)
    assert done.returncode == 0, done.stderr
    (role,) = json.loads(done.stdout)["roles"]
    return [op["compute_us"] for op in role["program"] if (op["phase"], op["what"]) == ("forward", "attention")]


def test_sliding_window_attention_takes_less_time(busbar, tmp_path):
    folder = folder_of(tmp_path, "gemma-3-4b-pt", GEMMA_3_4B)
    near, far = 2 * 8192 * (15728640 + 2 * 2048 * 1024) / 1e9, 2 * 8192 * (15728640 + 2 * 2048 * 8192) / 1e9
    times = attention_us(busbar, folder, "--seq-length", 8192, "--layers", 7)
    assert times == pytest.approx([near] * 5 + [far, near], rel=1e-5)
    line = rejected(busbar, "transformer", "--model", folder, "--ranks", 2, "--cp", 2, "--seq-length", 8192)
    assert "8192 keys" in line and "a window of 1024; try: --cp-comm all_gather" in line
    assert len(attention_us(busbar, folder, "--seq-length", 1024, "--layers", 7)) == 7


def test_linear_attention_is_linear_in_sequence_length(busbar, tmp_path):
    """Three of four layers of Qwen3-Next use linear attention, so their cost is linear in the sequence length.

    The projections are: queries, keys, values, gate and two numbers per head, and the output projection. A chunk has 64 tokens, and
    there are 32 heads with a state of 128 x 128. Each chunk has three GEMMs with the state. Inside the chunk there are the scores of
    queries and of keys, the corrections of both, and the context."""
    folder = folder_of(tmp_path, "Qwen3-Next", {"model_type": "qwen3_next", "vocab_size": 151936, "hidden_size": 2048, "num_hidden_layers": 48,
                                               "num_attention_heads": 16, "intermediate_size": 5632})
    scan = 2 * 4096 * (2048 * (12288 + 64) + 4096 * 2048) + 4096 * 32 * 2 * (3 * 128 * 128 + 64 * (2 * 128 + 256 + 128))
    full = 2 * 4096 * (2048 * (8192 + 1024) + 4096 * 2048) + 4 * 4096 * 4096 * 4096
    times = attention_us(busbar, folder, "--seq-length", 4096, "--layers", 5)
    assert times == pytest.approx([scan / 1e9] * 3 + [full / 1e9, scan / 1e9], abs=0.05)
    computed = busbar.json("plan", "transformer", "--model", folder, "--ranks", 1, "--layers", 2, "--cluster", "h100-sxm-ib",
                           tmp_path=tmp_path, emulated=False)["predicted"]["compute"]
    assert computed["attention"] is None
    line = rejected(busbar, "transformer", "--model", folder, "--ranks", 2, "--cp", 2)
    assert "state-space layers do not support cp 2; try: --cp 1" in line


def test_jamba_has_selective_scans_without_gemms(busbar, tmp_path):
    """Seven of eight layers of Jamba-v0.1 have a scan of 8192 channels, whose GEMMs are the projections to channels and gate, to 256 steps and
    16 keys and queries, of the steps to all channels, and back."""
    folder = folder_of(tmp_path, "Jamba", {"model_type": "jamba", "vocab_size": 65536, "hidden_size": 4096, "num_hidden_layers": 32,
                                           "num_attention_heads": 32, "intermediate_size": 14336})
    scan = 2 * 4096 * (4096 * 16384 + 8192 * 288 + 256 * 8192 + 8192 * 4096)
    full = 2 * 4096 * (4096 * (4096 + 2048) + 4096 * 4096) + 4 * 4096 * 4096 * 4096
    times = attention_us(busbar, folder, "--seq-length", 4096, "--layers", 6)
    assert times == pytest.approx([scan / 1e9] * 4 + [full / 1e9, scan / 1e9], abs=0.05)
    line = rejected(busbar, "transformer", "--model", folder, "--ranks", 2, "--tp", 2, "--sequence-parallel")
    assert "selective scans (Mamba 1) do not support tp 2; try: --tp 1" in line


def test_mamba2_layers_have_no_mlp(busbar, tmp_path):
    """Mamba-Codestral-7B has 8 groups of keys, 128 heads with a state of 128 x 64, and chunks of 256 tokens. Its GEMMs are the scores
    of each group, the values of the chunk, the state update and the state read. Such a layer has no MLP."""
    folder = folder_of(tmp_path, "Mamba-Codestral", {"model_type": "mamba2", "vocab_size": 32768, "hidden_size": 4096, "num_hidden_layers": 64})
    core = 1024 * (8 * 2 * 256 * 128 + 128 * 2 * (256 * 64 + 2 * 128 * 64))
    times = attention_us(busbar, folder, "--seq-length", 1024, "--layers", 2)
    assert times == pytest.approx([(2 * 1024 * 4096 * (18560 + 8192) + core) / 1e9] * 2, abs=0.05)
    text = busbar.run("plan", "transformer", "--model", folder, "--ranks", 2, "--tp", 2, "--ops", "--layers", 2,
                      emulated=False).stdout
    assert "487,719,680 parameters" in text and "MLP" not in text
    done = busbar.run("plan", "transformer", "--model", folder, "--ranks", 8, "--cluster", "h100-sxm-ib", "--json", "-", emulated=False)
    compute = json.loads(done.stdout)["predicted"]["compute"]
    assert compute["attention"] is None and compute["guessed"] == []
    assert "try: --tp 8" in rejected(busbar, "transformer", "--model", folder, "--ranks", 16, "--tp", 16)


T5_BASE = {  # config.json of google-t5/t5-base: the fields that busbar reads
    "architectures": ["T5ForConditionalGeneration"], "d_ff": 3072, "d_kv": 64, "d_model": 768, "decoder_start_token_id": 0,
    "dropout_rate": 0.1, "is_encoder_decoder": True, "model_type": "t5", "n_positions": 512, "num_heads": 12, "num_layers": 12,
    "relative_attention_num_buckets": 32, "vocab_size": 32128}


def test_encoder_and_decoder_have_separate_sequence_lengths(busbar, plan, tmp_path):
    """The encoder has 512 tokens, the decoder 128. Each decoder layer computes keys and values of all 512 encoder tokens.

    All-reduces with tp = 2, forward: one for each of the two embeddings, two per encoder layer, three per decoder layer. Backward: two
    per encoder layer (attention, MLP), four per decoder layer (also the queries of cross-attention and the gradient of the encoder
    output), and one for the head."""
    folder, h = folder_of(tmp_path, "t5-base", T5_BASE), 768
    args = ("--model", folder, "--ranks", 4, "--tp", 2, "--seq-length", 512, "--decoder-seq-length", 128, "--compute", "gemm")
    enc, dec, sums = 512, 128, {}
    encoder = 2 * enc * (4 * h * h + 2 * h * 3072) + 4 * enc * enc * h
    decoder = 2 * dec * (4 * h * h + 2 * h * h + 2 * h * 3072) + 2 * enc * 2 * h * h + 4 * dec * dec * h + 4 * dec * enc * h
    text = busbar.run("plan", "transformer", *args, "--full", emulated=False).stdout
    assert "222,903,552 parameters, 2 samples per step (1,280 tokens)" in text
    flops = int(re.search(r"model FLOPs: ([0-9,]+)", text).group(1).replace(",", ""))  # of one of the two tensor-parallel ranks
    assert flops == 3 * (12 * (encoder + decoder) + 2 * dec * h * 32128) / 2
    for row in plan(*args)["roles"][0]["traffic"]:
        if row["kind"] == "all_reduce" and row["group"] == "tp" and row["dtype"] == "bfloat16":
            sums[row["count"]] = row["calls"]
    assert sums == {enc * h: 1 + 12 * 4 + 12, dec * h: 1 + 12 * 3 + 12 * 3 + 1}


def test_sequence_parallel_traffic_of_encoder_and_decoder(plan, tmp_path):
    """Sequence parallelism: each rank has half of the 512 encoder tokens and half of the 128 decoder tokens.

    Each sublayer has one all-gather forward and two backward, and one reduce-scatter in each direction. Each decoder layer adds two
    all-gathers and one reduce-scatter of the encoder output. An embedding has a reduce-scatter forward and an all-gather backward. The
    head counts as one sublayer without its forward reduce-scatter, and its gradients are not gathered."""
    args = ("--ranks", 2, "--tp", 2, "--sequence-parallel", "--seq-length", 512, "--decoder-seq-length", 128)
    traffic = plan("--model", folder_of(tmp_path, "t5-base", T5_BASE), *args)["roles"][0]["traffic"]
    calls = {(t["kind"], t["count"]): t["calls"] for t in traffic if t["kind"] in ("all_gather", "reduce_scatter")}
    enc, dec = 512 * 768 // 2, 128 * 768 // 2
    assert calls == {("all_gather", enc): 12 * 2 * 3 + 12 * 2 + 1, ("reduce_scatter", enc): 12 * 2 * 2 + 12 + 1,
                     ("all_gather", dec): 12 * 3 * 3 + 1 + 2, ("reduce_scatter", dec): 12 * 3 * 2 + 1 + 1}


@pytest.mark.parametrize("args, expected", [
    (("--pp", 2), "encoder-decoder models do not support pp 2; try: --pp 1"),
    (("--cp", 2), "encoder-decoder models do not support cp 2; try: --cp 1"),
    (("--tp", 4, "--sequence-parallel", "--decoder-seq-length", 114), "decoder sequence length 114 is not divisible by tp 4; try: "
                                                                      "--decoder-seq-length 116"),
    (("--layers", 1), "1 layer, expected 2 to 10000"),
])
def test_rejects_invalid_encoder_decoder_layouts(busbar, tmp_path, args, expected):
    assert expected in rejected(busbar, "transformer", "--model", folder_of(tmp_path, "t5-base", T5_BASE), "--ranks", 4, *args)


def test_misspelled_feed_forward_proj_has_a_suggestion(busbar, tmp_path):
    folder = folder_of(tmp_path, "slip", {**T5_BASE, "feed_forward_proj": "gated-gelo"})
    line = rejected(busbar, "transformer", "--model", folder, "--ranks", 2)
    assert "MLP (feed_forward_proj) 'gated-gelo', did you mean 'gated-gelu'?" in line


def test_readme_lists_every_architecture(busbar, tmp_path):
    known = re.search(r"\(known: ([^)]*)\)", rejected(busbar, "transformer", "--model", folder_of(tmp_path, "none", {
        "model_type": "zzzzzzzz"}), "--ranks", 2)).group(1).split(", ")
    page = PAGE.read_text()
    listed = re.search(r"The known `model_type`s are (.*?)\. ", page, re.S).group(1)
    assert re.split(r", and |,\s+| and\s+", listed) == known


FALCON_7B = {"model_type": "falcon", "hidden_size": 4544, "num_hidden_layers": 32, "num_attention_heads": 71, "multi_query": True,
             "parallel_attn": True, "bias": False, "vocab_size": 65024}
FALCON_40B = {"model_type": "falcon", "hidden_size": 8192, "num_hidden_layers": 60, "num_attention_heads": 128, "num_kv_heads": 8,
              "new_decoder_architecture": True, "bias": False, "vocab_size": 65024}
NEOX_20B = {"model_type": "gpt_neox", "hidden_size": 6144, "intermediate_size": 24576, "num_hidden_layers": 44, "num_attention_heads": 64,
            "vocab_size": 50432}


def tp_calls(done):
    calls = collections.Counter()
    for row in json.loads(done.stdout)["roles"][0]["traffic"]:
        if row["group"] == "tp" and row["dtype"] == "bfloat16":
            calls[row["kind"]] += row["calls"]
    return dict(calls)


@pytest.mark.parametrize("config, sums", [
    (FALCON_40B, 1), ({**FALCON_40B, "num_ln_in_parallel_attn": 1}, 1), ({**FALCON_40B, "parallel_attn": False}, 2), (NEOX_20B, 1),
    ({**NEOX_20B, "use_parallel_residual": False}, 2)], ids=["two_norms", "one_norm", "sequential", "neox", "neox_sequential"])
@pytest.mark.parametrize("compute", ["timed", "gemm"])
def test_parallel_attention_and_mlp_share_one_sum_over_tp(busbar, tmp_path, config, sums, compute):
    """GPT-NeoX (megatron/model/transformer.py): x + attn(ln(x)) + mlp(ln(x)) has a single all-reduce. By hand, per layer: one sum
    forward and one backward; the embedding and the head's gradients add one each. With sequence parallelism, per layer and
    direction an all-gather before and a reduce-scatter after; backward gathers the input again for the weight gradients."""
    model = folder_of(tmp_path, "m", config)
    args = ("plan", "transformer", "--model", model, "--ranks", 8, "--tp", 8, "--compute", compute, "--json", "-")
    layers = config["num_hidden_layers"]
    assert tp_calls(busbar.run(*args, emulated=False)) == {"all_reduce": layers * 2 * sums + 2}
    assert tp_calls(busbar.run(*args, "--sequence-parallel", emulated=False)) == {
        "all_gather": layers * 3 * sums + 3, "reduce_scatter": layers * 2 * sums + 2}


@pytest.mark.parametrize("more", [(), ("--recompute", "full"), ("--recompute", "selective", "--recompute-modules", "mlp"), ("--sequence-parallel", "--tp-comm-overlap"),
                                  ("--pp", 2, "--schedule", "zb-h1", "--micro-batches", 4)], ids=str)
def test_parallel_layers_compute_as_sequential_layers(busbar, tmp_path, more):
    """The sums change, the model FLOPs and the GEMMs do not; less is communicated."""
    plans = []
    for name, config in (("parallel", NEOX_20B), ("sequential", {**NEOX_20B, "use_parallel_residual": False})):
        done = busbar.run("plan", "transformer", "--model", folder_of(tmp_path, name, config), "--ranks", 8, "--tp", 4, "--compute", "gemm",
                          "--cluster", "h100-sxm-ib", "--json", "-", *more, emulated=False)
        assert done.returncode == 0, done.stderr
        plans.append(json.loads(done.stdout))
    assert plans[0]["roles"][0]["flops"] == plans[1]["roles"][0]["flops"]
    tp = [next(g["bytes"] for g in p["predicted"]["groups"] if g["name"] == "tp") for p in plans]
    assert 0.39 * tp[1] < tp[0] < 0.7 * tp[1]  # 2 of 5 where the MLP is recomputed with its sum
    if "--tp-comm-overlap" not in more:  # two norms after one gather: the gather of the input precedes all GEMMs
        assert plans[0]["predicted"]["step_us"] < plans[1]["predicted"]["step_us"]


PROFILES = pathlib.Path(__file__).resolve().parents[2] / "profiles/models"
V3_2 = {"model_type": "deepseek_v32", "num_hidden_layers": 6}  # all other fields have the published values by default
V2_LITE = {"model_type": "deepseek_v2", "hidden_size": 2048, "num_hidden_layers": 6, "first_k_dense_replace": 1, "intermediate_size": 10944,
           "num_attention_heads": 16, "num_key_value_heads": 16, "q_lora_rank": None, "kv_lora_rank": 512, "qk_nope_head_dim": 128,
           "qk_rope_head_dim": 64, "v_head_dim": 128, "n_routed_experts": 64, "num_experts_per_tok": 6, "n_shared_experts": 2,
           "moe_intermediate_size": 1408, "vocab_size": 102400}
ODD = {**LLAMA_3_8B, "vocab_size": 50257}
DIVIDED = [("--tp", tp) for tp in (1, 2, 4, 8)] + [("--tp", 2, "--cp", 2, "--cp-comm", "a2a")] + [
    ("--tp", 1, "--cp", cp, "--cp-comm", mode) for cp in (2, 4, 8) for mode in ("ring", "a2a", "all_gather")]


@pytest.mark.parametrize("model, more", [(p.stem, ()) for p in sorted(PROFILES.glob("*.json")) if "model_type" in p.read_text()] + [
    (V3_2, ()), (V2_LITE, ()), (V2_LITE, ("--lora-rank", 8)), (ODD, ()), (ODD, ("--lora-rank", 8))],
    ids=lambda x: x if isinstance(x, str) else x.get("model_type") if isinstance(x, dict) else " ".join(map(str, x)))
def test_model_flops_do_not_depend_on_tp_and_cp(busbar, tmp_path, model, more):
    """What several ranks of tp or cp repeat (down projections of latents, indexer, adapters) counts once, and padding of the vocabulary
    does not: a step needs the same FLOPs however it is divided."""
    model = model if isinstance(model, str) else folder_of(tmp_path, "m", model)
    sums = []
    for layout in DIVIDED:
        if "--lora-rank" in more and layout[1] == 1:  # PyTorch: more adapters than Megatron-LM
            continue
        done = busbar.run("plan", "transformer", "--model", model, "--layers", 6, "--ranks", 8, "--global-batch-size", 8, "--seq-length", 512,
                          *layout, "--sequence-parallel", *more, "--json", "-", emulated=False)
        if done.returncode == 0:
            sums.append(sum(role["flops"] * len(role["ranks"]) for role in json.loads(done.stdout)["roles"]))
        else:
            assert re.search("not divisible by [tc]p|context parallelism|do not support cp|--cp-comm all_gather", done.stderr), done.stderr
    assert len(sums) > 1 and sums == pytest.approx([sums[0]] * len(sums), rel=1e-9)


def latent_calls(query, indexer, recomputed, quantized):
    """Calls over tp of two layers and one micro-batch by Megatron-LM (multi_latent_attention.py, dsa.py) and the linear layers of
    Transformer Engine: {(kind, elements per token, whether in 8 bits): calls}. query: width of what the up projection of queries reads."""
    calls = collections.Counter()
    for kind, width, in_layer, outside in (
            ("all_gather", 64, 1, 0),  # rotated part of the keys
            ("all_gather", 7168, indexer, 3),  # input of the indexer; input of the head, twice; gradient of the embedding
            ("all_gather", 1536, indexer, 0),
            ("reduce_scatter", 64, 1, 0), ("reduce_scatter", query, 1, 0), ("reduce_scatter", 512, 1, 0),
            ("reduce_scatter", 7168, 3, 2)):  # outputs of attention and MLP, gradient of the input of the MLP; embedding; head
        calls[kind, width, False] += 2 * in_layer + outside
    for width, times in (query, 2 + recomputed), (512, 2 + recomputed), (7168, 4):  # 7168: MLP, and gradients of both outputs
        calls["all_gather", width, quantized] += 2 * times
    return +calls


@pytest.mark.parametrize("fields, query, more", [
    ({"model_type": "deepseek_v3"}, 1536, ()), ({"model_type": "deepseek_v3", "q_lora_rank": None}, 7168, ()),
    ({"model_type": "deepseek_v32"}, 1536, ()), ({"model_type": "deepseek_v3"}, 1536, ("--fp8", "--cluster", "h100-sxm-ib")),
    ({"model_type": "deepseek_v3"}, 1536, ("--recompute", "selective", "--recompute-modules", "mla_up_proj"))], ids=str)
def test_sequence_parallel_latent_attention_gathers_latents(busbar, tmp_path, fields, query, more):
    """DeepSeek-V3: hidden 7168, latents 1536 and 512, rotation 64. With sequence parallelism the down projections read the tokens of a
    rank, and their outputs are gathered, not their input."""
    model = folder_of(tmp_path, "m", {**fields, "num_hidden_layers": 2, "first_k_dense_replace": 2})
    done = busbar.run("plan", "transformer", "--model", model, "--ranks", 4, "--tp", 4, "--sequence-parallel", "--global-batch-size", 1,
                      "--seq-length", 1024, *more, "--json", "-", emulated=False)
    assert done.returncode == 0, done.stderr
    calls = collections.Counter()
    for row in json.loads(done.stdout)["roles"][0]["traffic"]:
        if row["group"] == "tp" and row["kind"] != "all_reduce":
            calls[row["kind"], row["count"] / 256, row["dtype"] != "bfloat16"] += row["calls"]
    assert calls == latent_calls(query, fields["model_type"] == "deepseek_v32", "--recompute" in more, "--fp8" in more)


def test_misspelled_activation_has_a_suggestion(busbar, tmp_path):
    folder = folder_of(tmp_path, "slip", {**LLAMA_3_8B, "hidden_act": "sillu"})
    assert "activation (hidden_act) 'sillu', did you mean 'silu'?" in rejected(busbar, "transformer", "--model", folder,
                                                                               "--ranks", 2)


def test_transformer_reads_gpt2_large_as_the_published_model(busbar):
    done = busbar.run("plan", "transformer", "--model", "gpt2_large", "--ranks", 2, emulated=False)
    assert "774,030,080 parameters" in done.stdout
    assert "did you mean 'gpt3_13b'?" in rejected(busbar, "transformer", "--model", "gpt3", "--ranks", 2)


@pytest.mark.parametrize("change, messages", [
    ({"model_type": "rwkv", "architectures": ["RwkvForCausalLM"]}, ["unknown architecture 'rwkv'", "known: gpt2"]),
    ({"model_type": "dbrx", "architectures": None, "hidden_size": None, "d_model": 4096, "ffn_config": {"moe_num_experts": 16}},
     ["set model_type and add hidden_size, num_local_experts, num_experts_per_tok"]),
    ({"model_type": "vit", "architectures": None, "vocab_size": None, "image_size": 224},
     ["architecture 'vit' is not one of the supported text models (known: gpt2"]),
    ({"model_type": "whisper", "architectures": None, "num_mel_bins": 80}, ["'whisper' is not one of the supported text models"]),
    ({"model_type": "lama", "architectures": None}, ["unknown architecture 'lama', did you mean 'llama'?"]),
    ({"model_type": "mamba", "architectures": ["MambaForCausalLM"]}, ["model_type mamba is not supported", "scans of a state"]),
    ({"model_type": "mamba2", "architectures": None, "hidden_size": 4100},
     ["num_heads 128 x head_dim 64 is not equal to expand 2 x hidden_size 4100"]),
    ({"model_type": "jamba", "architectures": None, "expert_layer_offset": 2},
     ["attn_layer_offset 4 and expert_layer_offset 2 must be below the periods 8 and 2"]),
    ({"model_type": "nemotron_h", "architectures": None, "hybrid_override_pattern": "M-M|"},
     ["'hybrid_override_pattern' has '|' for layer 3, expected M (mamba), * (attention), - (mlp) or E (moe)"]),
    ({"model_type": "nemotron_h", "architectures": None, "layers_block_type": ["mamba", "mamba3"]},
     ["'layers_block_type' has 'mamba3' for layer 1"]),
    ({"model_type": "deepseek_v4", "architectures": None, "num_key_value_heads": 1, "compress_ratios": [8] * 32},
     ["'compress_ratios' is 8", "0, 4 or 128"]),
    ({"model_type": "qwen3_next", "architectures": None, "linear_num_key_heads": 5},
     ["state heads 32 is not divisible by state groups 5"]),
    ({"model_type": "qwen2"}, ["model_type 'qwen2'", "architectures 'LlamaForCausalLM'", "disagree"]),
    ({"layer_types": ["linear_attention"] * 32}, ["'layer_types' has 'linear_attention' for layer 0", "full_attention"]),
    ({"model_type": "qwen3", "architectures": None, "use_sliding_window": True}, ["'use_sliding_window' must be false"]),
    ({"model_type": None, "architectures": None, "vocab_size": None, "hidden_size": None},
     ["these fields are missing: model_type, hidden_size, vocab_size"]),
    ({"hidden_size": 4100}, ["hidden size 4100", "attention heads 32", "try: hidden size 4096"]),
    ({"num_key_value_heads": 5}, ["num_attention_heads 32", "num_key_value_heads 5", "try: num_attention_heads 30"]),
    ({"num_hidden_layers": -3}, ["'num_hidden_layers' is -3", "1 to 10000"]),
    ({"num_hidden_layers": "32"}, ["'num_hidden_layers' is \"32\""]),
    ({"vocab_size": 10**15}, ["'vocab_size' is 1000000000000000"]),
    ({"tie_word_embeddings": "no"}, ["'tie_word_embeddings' must be true or false"]),
])
def test_rejects_invalid_config_json(busbar, tmp_path, change, messages):
    config = {key: value for key, value in {**LLAMA_3_8B, **change}.items() if key not in change or change[key] is not None}
    path = tmp_path / "odd.json"
    path.write_text(json.dumps(config))
    line = rejected(busbar, "transformer", "--model", path, "--ranks", 2)
    for text_part in [str(path), *messages]:
        assert text_part in line, line


# ---- training memory --------------------------------------------------------------------------------------------------

def test_reports_training_memory_and_buffer_memory(busbar, plan):
    roles = plan("--model", "llama2_7b", "--ranks", 8, "--dp-sync", "zero1", "--grad-dtype", "bfloat16")["roles"]
    memory = roles[0]["training_memory_bytes"]
    parameters = 6738415616
    assert memory["parameters"] == 2 * parameters
    assert memory["gradients"] == 2 * parameters
    assert memory["optimizer"] == 12 * parameters // 8
    assert memory["total"] == sum(value for key, value in memory.items() if key != "total")
    assert roles[0]["memory_bytes"]["total"] != memory["total"]
    text = busbar.run("plan", "transformer", "--model", "llama2_7b", "--ranks", 8, "--full", emulated=False).stdout
    assert "  buffers of busbar proxy: " in text and "  training needs: " in text
    assert max(map(len, text.splitlines())) <= 100


def test_omits_training_memory_for_proxies_without_a_formula(busbar, tmp_path):
    roles = busbar.json("plan", "gpt2_large", "--ranks", 8, tmp_path=tmp_path, emulated=False)["roles"]
    assert "training_memory_bytes" not in roles[0]
    assert "training needs" not in busbar.run("plan", "gpt2_large", "--ranks", 8, emulated=False).stdout


# ---- best axis order --------------------------------------------------------------------------------------------------

def inter_node_bytes(plan, gpus):
    """Bytes of a step that leave a node, computed from the plan's groups and the traffic of each rank."""
    groups = {group["name"]: group["members"] for group in plan["groups"]}
    role_of = {rank: role for role in plan["roles"] for rank in role["ranks"]}
    total = 0.0
    for name, instances in groups.items():
        for members in instances:
            n = len(members)
            nodes = [rank // gpus for rank in members]
            for index, rank in enumerate(members):
                for row in role_of[rank]["traffic"]:
                    if row["group"] != name or row["kind"] == "recv":
                        continue
                    if row["kind"] == "send":
                        each = row["bytes"] / row["calls"]
                        total += sum(each * calls for offset, calls in row["peers"].items()
                                     if nodes[(index + int(offset)) % n] != nodes[index])
                    elif row["kind"] == "alltoall":
                        total += row["bytes"] / n * sum(node != nodes[index] for node in nodes)
                    elif nodes[index] != nodes[(index + 1) % n]:
                        total += row["bytes"] * (n - 1) / n * (2 if row["kind"] == "all_reduce" else 1)
    return total


@pytest.mark.parametrize("ranks, gpus, args", [
    (16, 4, ["--model", "gpt2_small", "--tp", 2, "--pp", 2, "--micro-batches", 4]),
    (16, 8, ["--model", "llama3_8b", "--tp", 4, "--cp", 2, "--layers", 4, "--dp-sync", "zero3"]),
    (16, 2, ["--model", "mixtral_8x7b", "--ep", 8, "--pp", 2, "--layers", 2, "--seq-length", 64]),
])
def test_best_order_minimises_inter_node_bytes(plan, ranks, gpus, args):
    args = [*args, "--ranks", ranks, "--gpus-per-node", gpus]
    best = plan(*args, "--best-order")["best_order"]
    assert best["nodes"] == ranks // gpus
    counted = [order["inter_node_bytes"] for order in best["orders"]]
    assert counted == sorted(counted)
    for order in best["orders"]:
        single_plan = plan(*args, "--order", order["order"])
        assert inter_node_bytes(single_plan, gpus) == pytest.approx(order["inter_node_bytes"], abs=1)
        assert sum(order["groups"].values()) == pytest.approx(order["inter_node_bytes"], abs=8)
    assert sum(order["requested"] for order in best["orders"]) == 1


def test_best_order_table_marks_one_order(busbar):
    done = busbar.run("plan", "transformer", "--model", "mixtral_8x7b", "--ranks", 64, "--tp", 2, "--cp", 2, "--pp", 4, "--ep", 4,
                      "--layers", 4, "--seq-length", 64, "--sequence-parallel", "--cluster", "h100-sxm-ib", "--best-order",
                      emulated=False)
    assert done.returncode == 0, done.stderr
    table = done.stdout[done.stdout.index("\norders of the axes"):]
    assert "inter-node bytes per step, 8 nodes of 8 GPUs" in table
    assert len(re.findall(r"^  \* [a-z-]+ ", table, re.M)) == 1
    assert max(map(len, table.splitlines())) <= 100


@pytest.mark.parametrize("config,warning", [
    ({"hiden_size": 2048, "hidden_size": None}, "not in the file, so the defaults of model_type llama are used: hidden_size 4096 (but the file has 'hiden_size')"),
    ({"num_attention_heads": None, "intermediate_size": None},
     "not in the file, so the defaults of model_type llama are used: num_attention_heads 32, intermediate_size 11008"),
    ({"model_type": "foobar", "architectures": ["LlamaForCausalLM"]}, "unknown model_type 'foobar', so architectures 'LlamaForCausalLM' is used"),
    ({"quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": True}},
     "'quantization_config' (bitsandbytes) is not used: all weights have the data type of --dtype"),
    ({}, None)])
def test_warns_once_of_missing_dimensions_unknown_types_and_quantized_weights(busbar, tmp_path, config, warning):
    """The defaults are those of transformers' LlamaConfig, the dimensions of LLaMA 7B. The assumed recomputation reads the file again."""
    complete = {"model_type": "llama", "hidden_size": 2048, "num_hidden_layers": 22, "num_attention_heads": 32, "vocab_size": 32000,
                "intermediate_size": 5632}
    (tmp_path / "config.json").write_text(json.dumps({key: value for key, value in {**complete, **config}.items() if value is not None}))
    done = busbar.run("plan", "transformer", "--model", str(tmp_path), "--ranks", 8, "--cluster", "h100-sxm-ib", "--gpu-memory", "70G",
                      "--micro-batch-size", 16, emulated=False)
    assert done.returncode == 0
    assert [line for line in done.stderr.splitlines() if "does not fit" not in line] == (
        [f"busbar: warning: {tmp_path}: {warning}"] if warning else [])
    if warning and config.get("model_type"):  # also on each rank of a run
        done = busbar.run("proxy", "transformer", "--model", str(tmp_path), "--scale-counts", "1e-4", "--steps", 1, "-g", 3)
        assert done.returncode == 0 and done.stderr.count(warning) == 1, done.stderr


def test_rejects_another_schema_of_models(busbar, tmp_path):
    model = json.loads((pathlib.Path(__file__).resolve().parents[2] / "profiles/models/gpt2_small.json").read_text())
    (tmp_path / "m.json").write_text(json.dumps({**model, "schema": "busbar.model/2"}))
    done = busbar.run("plan", "transformer", "--model", "m.json", "--ranks", 8, emulated=False, cwd=tmp_path)
    assert done.returncode == 2 and done.stderr == "busbar: m.json: schema is not supported, expected busbar.model/1\n", done.stderr
