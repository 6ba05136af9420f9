"""Models of transformer as a black box: published files, what cannot be, the memory that training would take, and the best
order of the axes against bytes counted here from the groups and the traffic of each order's own plan."""
import json
import pathlib
import re

import pytest

PAGE = pathlib.Path(__file__).resolve().parents[2] / "proxies" / "transformer" / "README.md"

LLAMA_3_8B = {  # the fields of meta-llama/Meta-Llama-3-8B that matter, and some that don't
    "architectures": ["LlamaForCausalLM"], "attention_bias": False, "bos_token_id": 128000, "hidden_act": "silu",
    "hidden_size": 4096, "intermediate_size": 14336, "max_position_embeddings": 8192, "model_type": "llama",
    "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8, "pretraining_tp": 1,
    "rms_norm_eps": 1e-05, "rope_scaling": None, "rope_theta": 500000.0, "tie_word_embeddings": False,
    "torch_dtype": "bfloat16", "use_cache": True, "vocab_size": 128256,
}


@pytest.fixture
def plan(busbar, tmp_path):
    def run(*words):
        return busbar.json("plan", "transformer", *words, tmp_path=tmp_path, emulated=False)

    return run


def refused(busbar, *words):
    done = busbar.run("plan", *words, emulated=False)
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1
    return done.stderr


# ---- models -----------------------------------------------------------------------------------------------------------

def test_models_are_listed_with_their_parameters(busbar):
    text = busbar.run("list", "models", emulated=False).stdout
    rows = re.findall(r"^  (\w+) +(\d+) parameters; (.+)$", text, re.M)
    parameters = {name: int(count) for name, count, _ in rows}
    assert parameters["llama3_405b"] == 405853388800
    assert parameters["deepseek_v3"] == 671026419200
    assert parameters["gpt3_175b"] == 174604259328
    assert parameters["mixtral_8x7b"] == 46702792704
    assert [int(count) for name, count, _ in rows if name == "gpt2_large"] == [1074488320, 774030080]
    assert sum("for transformer" in text for _, _, text in rows) == 2


def test_a_published_file_is_a_model(busbar, plan, tmp_path):
    folder = tmp_path / "Meta-Llama-3-8B"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(LLAMA_3_8B))
    words = ["--ranks", 16, "--tp", 4, "--pp", 2]
    assert plan("--model", folder / "config.json", *words)["roles"] == plan("--model", "llama3_8b", *words)["roles"]
    text = busbar.run("plan", "transformer", "--model", folder / "config.json", *words, emulated=False).stdout
    assert "8,030,261,248 parameters" in text and "# Meta-Llama-3-8B, 32 layers" in text


GEMMA_3_4B = {  # google/gemma-3-4b-pt: words beside pictures
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
def test_a_folder_is_the_model_in_it(busbar, tmp_path, end):
    folder = folder_of(tmp_path, "Meta-Llama-3-8B", LLAMA_3_8B)
    for proxy, name in (("transformer", "# Meta-Llama-3-8B, 32 layers"), ("data_parallel", f"# {folder}{end} by")):
        done = busbar.run("plan", proxy, "--model", f"{folder}{end}", "--ranks", 4, emulated=False)
        assert done.returncode == 0, done.stderr
        assert "8,030,261,248 parameters" in done.stdout and name in done.stdout


def test_folders_that_hold_no_model_are_refused(busbar, tmp_path):
    assert "is a folder without a config.json" in refused(busbar, "transformer", "--model", tmp_path, "--ranks", 2)
    (tmp_path / "config.json").write_text("{")
    assert "config.json: line 1" in refused(busbar, "transformer", "--model", tmp_path, "--ranks", 2)
    assert "is a folder, expected a file" in refused(busbar, "transformer", "--model", "gpt2_small", "--ranks", 2, "--cluster",
                                                     tmp_path)


def test_of_words_and_pictures_the_words_are_read(busbar, tmp_path):
    folder = folder_of(tmp_path, "gemma-3-4b-pt", GEMMA_3_4B)
    done = busbar.run("plan", "transformer", "--model", folder, "--ranks", 2, "--tp", 2, "--seq-length", 8192, emulated=False)
    assert "3,880,263,168 parameters" in done.stdout, done.stderr  # 34 x 94382592 + 262208 x 2560 + 2560, by hand
    other = {**GEMMA_3_4B, "text_config": {**GEMMA_3_4B["text_config"], "model_type": "gemma9_text"}}
    line = refused(busbar, "transformer", "--model", folder_of(tmp_path, "gemma9", other), "--ranks", 2)
    assert "unknown architecture 'gemma9_text', did you mean 'gemma3_text'?" in line


def attention_us(busbar, folder, *words):
    """Microseconds of each layer's attention, forward."""
    done = busbar.run("plan", "transformer", "--model", folder, "--ranks", 1, "--tflops", 1000, "--ops", "--json", "-", *words, emulated=False)
    assert done.returncode == 0, done.stderr
    (role,) = json.loads(done.stdout)["roles"]
    return [op["compute_us"] for op in role["program"] if (op["phase"], op["what"]) == ("forward", "attention")]


def test_layers_with_a_window_take_less(busbar, tmp_path):
    folder = folder_of(tmp_path, "gemma-3-4b-pt", GEMMA_3_4B)
    near, far = 2 * 8192 * (15728640 + 2 * 2048 * 1024) / 1e9, 2 * 8192 * (15728640 + 2 * 2048 * 8192) / 1e9
    times = attention_us(busbar, folder, "--seq-length", 8192, "--layers", 7)
    assert times == pytest.approx([near] * 5 + [far, near], rel=1e-5)
    line = refused(busbar, "transformer", "--model", folder, "--ranks", 2, "--cp", 2, "--seq-length", 8192)
    assert "8192 keys" in line and "look at 1024; nearest: --cp-comm all_gather" in line
    assert len(attention_us(busbar, folder, "--seq-length", 1024, "--layers", 7)) == 7


def test_layers_with_a_scan_take_no_square(busbar, tmp_path):
    """Three of four layers of Qwen3-Next: projections to queries, keys, values, gate and two numbers a head, and back; 64
    tokens at once, 32 heads of 128 x 128: three products with the state, and in the chunk scores of queries and of keys,
    corrections of both, context."""
    folder = folder_of(tmp_path, "Qwen3-Next", {"model_type": "qwen3_next"})
    scan = 2 * 4096 * (2048 * (12288 + 64) + 4096 * 2048) + 4096 * 32 * 2 * (3 * 128 * 128 + 64 * (2 * 128 + 256 + 128))
    full = 2 * 4096 * (2048 * (8192 + 1024) + 4096 * 2048) + 4 * 4096 * 4096 * 4096
    times = attention_us(busbar, folder, "--seq-length", 4096, "--layers", 5)
    assert times == pytest.approx([scan / 1e9] * 3 + [full / 1e9, scan / 1e9], abs=0.05)
    computed = busbar.json("plan", "transformer", "--model", folder, "--ranks", 1, "--layers", 2, "--cluster", "h100-sxm-ib",
                           tmp_path=tmp_path, emulated=False)["predicted"]["compute"]
    assert computed["attention"] is None
    line = refused(busbar, "transformer", "--model", folder, "--ranks", 2, "--cp", 2)
    assert "1 chain of states from token to token does not divide by cp 2; nearest: --cp 1" in line


def test_layers_of_a_scan_alone_have_one_half(busbar, tmp_path):
    """Mamba-Codestral-7B, 8 groups of keys, 128 heads of 128 x 64, 256 tokens at once: scores for each group, values of
    the chunk, into the state and out of it."""
    folder = folder_of(tmp_path, "Mamba-Codestral", {"model_type": "mamba2"})
    core = 1024 * (8 * 2 * 256 * 128 + 128 * 2 * (256 * 64 + 2 * 128 * 64))
    times = attention_us(busbar, folder, "--seq-length", 1024, "--layers", 2)
    assert times == pytest.approx([(2 * 1024 * 4096 * (18560 + 8192) + core) / 1e9] * 2, abs=0.05)
    text = busbar.run("plan", "transformer", "--model", folder, "--ranks", 2, "--tp", 2, "--ops", "--layers", 2,
                      emulated=False).stdout
    assert "487,719,680 parameters" in text and "perceptron" not in text
    done = busbar.run("plan", "transformer", "--model", folder, "--ranks", 8, "--cluster", "h100-sxm-ib", "--json", "-", emulated=False)
    compute = json.loads(done.stdout)["predicted"]["compute"]
    assert compute["attention"] is None and compute["guessed"] == []
    assert "nearest: --tp 8" in refused(busbar, "transformer", "--model", folder, "--ranks", 16, "--tp", 16)


T5_BASE = {  # google-t5/t5-base, what matters of it
    "architectures": ["T5ForConditionalGeneration"], "d_ff": 3072, "d_kv": 64, "d_model": 768, "decoder_start_token_id": 0,
    "dropout_rate": 0.1, "is_encoder_decoder": True, "model_type": "t5", "n_positions": 512, "num_heads": 12, "num_layers": 12,
    "relative_attention_num_buckets": 32, "vocab_size": 32128}


def test_encoder_and_decoder_have_samples_of_their_own(busbar, plan, tmp_path):
    """512 tokens into the encoder, 128 out of the decoder; keys and values of all 512 in each layer of the decoder. What
    tp = 2 sums, forward: both embeddings, two sums a layer of the encoder, three of the decoder; backward two (attention,
    perceptron) and four (queries, and the encoder's output), and the head's."""
    folder, h = folder_of(tmp_path, "t5-base", T5_BASE), 768
    words = ("--model", folder, "--ranks", 4, "--tp", 2, "--seq-length", 512, "--decoder-seq-length", 128, "--compute", "gemm")
    enc, dec, sums = 512, 128, {}
    encoder = 2 * enc * (4 * h * h + 2 * h * 3072) + 4 * enc * enc * h
    decoder = 2 * dec * (4 * h * h + 2 * h * h + 2 * h * 3072) + 2 * enc * 2 * h * h + 4 * dec * dec * h + 4 * dec * enc * h
    text = busbar.run("plan", "transformer", *words, emulated=False).stdout
    assert "222,903,552 parameters, 2 samples per step (1,280 tokens)" in text
    told = int(re.search(r"model FLOPs: ([0-9,]+)", text).group(1).replace(",", ""))  # of one rank of two
    assert told == 3 * (12 * (encoder + decoder) + 2 * dec * h * 32128) / 2
    for row in plan(*words)["roles"][0]["traffic"]:
        if row["kind"] == "all_reduce" and row["group"] == "tp" and row["dtype"] == "bfloat16":
            sums[row["count"]] = row["calls"]
    assert sums == {enc * h: 1 + 12 * 4 + 12, dec * h: 1 + 12 * 3 + 12 * 3 + 1}


def test_what_two_stacks_gather_in_pieces(plan, tmp_path):
    """Of 512 and of 128 tokens, half of them on each rank. A half of a layer: gathered once forward and twice backward, summed
    once each way; of the encoder's output each layer of the decoder gathers twice and sums once; embeddings the other way
    round, the head as one half without its sum forward and its gradients gathered."""
    words = ("--ranks", 2, "--tp", 2, "--sequence-parallel", "--seq-length", 512, "--decoder-seq-length", 128)
    traffic = plan("--model", folder_of(tmp_path, "t5-base", T5_BASE), *words)["roles"][0]["traffic"]
    calls = {(t["kind"], t["count"]): t["calls"] for t in traffic if t["kind"] in ("all_gather", "reduce_scatter")}
    enc, dec = 512 * 768 // 2, 128 * 768 // 2
    assert calls == {("all_gather", enc): 12 * 2 * 3 + 12 * 2 + 1, ("reduce_scatter", enc): 12 * 2 * 2 + 12 + 1,
                     ("all_gather", dec): 12 * 3 * 3 + 1 + 2, ("reduce_scatter", dec): 12 * 3 * 2 + 1 + 1}


@pytest.mark.parametrize("words, said", [
    (("--pp", 2), "1 pair of encoder and decoder does not divide by pp 2; nearest: --pp 1"),
    (("--cp", 2), "1 pair of encoder and decoder does not divide by cp 2; nearest: --cp 1"),
    (("--tp", 4, "--sequence-parallel", "--decoder-seq-length", 114), "114 tokens of the decoder do not divide by tp 4; nearest: "
                                                                      "--decoder-seq-length 116"),
    (("--layers", 1), "1 layers, expected 2 to 10000"),
])
def test_what_an_encoder_and_its_decoder_cannot_be(busbar, tmp_path, words, said):
    assert said in refused(busbar, "transformer", "--model", folder_of(tmp_path, "t5-base", T5_BASE), "--ranks", 4, *words)


def test_a_slip_in_the_perceptron_is_said(busbar, tmp_path):
    folder = folder_of(tmp_path, "slip", {**T5_BASE, "feed_forward_proj": "gated-gelo"})
    line = refused(busbar, "transformer", "--model", folder, "--ranks", 2)
    assert "perceptron (feed_forward_proj) 'gated-gelo', did you mean 'gated-gelu'?" in line


def test_one_stack_has_no_decoder(busbar):
    line = refused(busbar, "transformer", "--model", "gpt2_small", "--ranks", 2, "--decoder-seq-length", 64)
    assert "--decoder-seq-length means nothing here: the model has no encoder" in line


def test_the_page_names_every_architecture(busbar, tmp_path):
    known = re.search(r"\(known: ([^)]*)\)", refused(busbar, "transformer", "--model", folder_of(tmp_path, "none", {
        "model_type": "zzzzzzzz"}), "--ranks", 2)).group(1).split(", ")
    page = PAGE.read_text()
    listed = re.search(r"Known are the `model_type`s (.*?):", page, re.S).group(1)
    assert re.split(r", and |,\s+| and\s+", listed) == known


def test_a_slip_in_the_activation_is_said(busbar, tmp_path):
    folder = folder_of(tmp_path, "slip", {**LLAMA_3_8B, "hidden_act": "sillu"})
    assert "activation (hidden_act) 'sillu', did you mean 'silu'?" in refused(busbar, "transformer", "--model", folder,
                                                                              "--ranks", 2)


def test_names_of_the_seeds_are_the_published_models_too(busbar):
    done = busbar.run("plan", "transformer", "--model", "gpt2_large", "--ranks", 2, emulated=False)
    assert "774,030,080 parameters" in done.stdout
    assert "did you mean 'gpt3_125m'?" in refused(busbar, "transformer", "--model", "gpt3", "--ranks", 2)


@pytest.mark.parametrize("change, words", [
    ({"model_type": "rwkv", "architectures": ["RwkvForCausalLM"]}, ["unknown architecture 'rwkv'", "known: gpt2"]),
    ({"model_type": "lama", "architectures": None}, ["unknown architecture 'lama', did you mean 'llama'?"]),
    ({"model_type": "mamba", "architectures": ["MambaForCausalLM"]}, ["mamba cannot be counted", "scans of a state"]),
    ({"model_type": "mamba2", "architectures": None, "hidden_size": 4100},
     ["num_heads 128 of head_dim 64 do not make expand 2 x hidden_size 4100"]),
    ({"model_type": "jamba", "architectures": None}, ["jamba cannot be counted", "scans of a state"]),
    ({"model_type": "qwen3_next", "architectures": None, "linear_num_key_heads": 5},
     ["heads of the state 32 does not divide by its groups 5"]),
    ({"model_type": "qwen2"}, ["model_type 'qwen2'", "architectures 'LlamaForCausalLM'", "are two models"]),
    ({"layer_types": ["linear_attention"] * 32}, ["'layer_types' has 'linear_attention' of layer 0", "full_attention"]),
    ({"model_type": "qwen3", "architectures": None, "use_sliding_window": True}, ["'use_sliding_window' must be false"]),
    ({"model_type": None, "architectures": None, "vocab_size": None, "hidden_size": None},
     ["fields are missing: model_type, hidden_size, vocab_size"]),
    ({"hidden_size": 4100}, ["hidden size 4100", "attention heads 32", "nearest: 4096"]),
    ({"num_key_value_heads": 5}, ["num_attention_heads 32", "num_key_value_heads 5", "nearest: 30"]),
    ({"num_hidden_layers": -3}, ["'num_hidden_layers' is -3", "1 to 10000"]),
    ({"num_hidden_layers": "32"}, ["'num_hidden_layers' is \"32\""]),
    ({"vocab_size": 10**15}, ["'vocab_size' is 1000000000000000"]),
    ({"tie_word_embeddings": "no"}, ["'tie_word_embeddings' must be true or false"]),
])
def test_files_that_cannot_be_are_refused(busbar, tmp_path, change, words):
    config = {key: value for key, value in {**LLAMA_3_8B, **change}.items() if key not in change or change[key] is not None}
    path = tmp_path / "odd.json"
    path.write_text(json.dumps(config))
    line = refused(busbar, "transformer", "--model", path, "--ranks", 2)
    for word in [str(path), *words]:
        assert word in line, line


@pytest.mark.parametrize("words, said", [
    (["--model", "gpt2_xl", "--ranks", 16, "--tp", 4], ["25 attention heads", "tp 4", "nearest: --tp 1\n"]),
    (["--model", "llama2_70b", "--ranks", 16, "--tp", 16], ["8 key and value heads", "tp 16", "--tp 8"]),
    (["--model", "gpt2_small", "--ranks", 10, "--tp", 4], ["10 ranks do not divide", "tp 4", "nearest: --tp 2, or 8 ranks"]),
    (["--model", "gpt2_small", "--ranks", 8, "--tp", 2, "--pp", 2, "--dp", 3], ["8 ranks", "tp 2 x dp 3 x pp 2"]),
    (["--model", "gpt2_small", "--ranks", 8, "--dp", 2], ["leaves both tp and pp open", "nearest: --pp 4\n"]),
    (["--model", "gpt2_small", "--ranks", 8, "--ep", 2], ["no experts", "--ep 1"]),
    (["--model", "gpt2_small", "--ranks", 26, "--pp", 13], ["12 layers", "pp 13", "nearest: --pp 2\n"]),
    (["--model", "gpt2_small", "--ranks", 8, "--seq-length", 2048], ["2048 tokens", "1024 positions"]),
    (["--model", "gpt2_small", "--ranks", 8, "--order", "tp-dd"], ["'dd' in the order 'tp-dd'", "tp-cp-ep-dp-pp"]),
    (["--model", "gpt2_small", "--ranks", 8, "--order", "dp-dp"], ["dp stands twice"]),
    (["--model", "gpt2_small", "--ranks", 8, "--order", "tp-pp"], ["dp has 8 ranks", "nearest: tp-pp-dp"]),
    (["--model", "mixtral_8x7b", "--ranks", 32, "--ep", 3], ["32 ranks of a stage", "ep 3", "--ep 4"]),
    (["--model", "mixtral_8x7b", "--ranks", 64, "--ep", 16], ["8 experts", "ep 16", "--ep 8"]),
    (["--model", "mixtral_8x7b", "--ranks", 32, "--tp", 2, "--ep", 8, "--pp", 2, "--order", "tp-ep-pp-dp"],
     ["2 ranks apart", "8; nearest: --order tp-ep-dp-pp"]),
])
def test_layouts_that_cannot_be_are_refused(busbar, words, said):
    line = refused(busbar, "transformer", *words)
    for word in said:
        assert word in line, line


# ---- memory -----------------------------------------------------------------------------------------------------------

def test_training_memory_stands_beside_the_buffers(busbar, plan):
    roles = plan("--model", "llama2_7b", "--ranks", 8, "--dp-sync", "zero1", "--grad-dtype", "bfloat16")["roles"]
    memory = roles[0]["training_memory_bytes"]
    parameters = 6738415616
    assert memory["parameters"] == 2 * parameters
    assert memory["gradients"] == 2 * parameters
    assert memory["optimizer"] == 12 * parameters // 8
    assert memory["total"] == sum(value for key, value in memory.items() if key != "total")
    assert roles[0]["memory_bytes"]["total"] != memory["total"]
    text = busbar.run("plan", "transformer", "--model", "llama2_7b", "--ranks", 8, emulated=False).stdout
    assert "  buffers: " in text and "  training needs: " in text
    assert max(map(len, text.splitlines())) <= 100


def test_proxies_without_a_formula_say_nothing(busbar, tmp_path):
    roles = busbar.json("plan", "gpt2_large", "--ranks", 8, tmp_path=tmp_path, emulated=False)["roles"]
    assert "training_memory_bytes" not in roles[0]
    assert "training needs" not in busbar.run("plan", "gpt2_large", "--ranks", 8, emulated=False).stdout


# ---- the best order ---------------------------------------------------------------------------------------------------

def crossing_bytes(plan, gpus):
    """Bytes that leave a node, from a plan's groups and the traffic of each rank."""
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


@pytest.mark.parametrize("ranks, gpus, words", [
    (16, 4, ["--model", "gpt2_small", "--tp", 2, "--pp", 2, "--micro-batches", 4]),
    (16, 8, ["--model", "llama3_8b", "--tp", 4, "--cp", 2, "--layers", 4, "--dp-sync", "zero3"]),
    (16, 2, ["--model", "mixtral_8x7b", "--ep", 8, "--pp", 2, "--layers", 2, "--seq-length", 64]),
])
def test_the_best_order_is_the_one_with_the_fewest_bytes(plan, ranks, gpus, words):
    words = [*words, "--ranks", ranks, "--gpus-per-node", gpus]
    best = plan(*words, "--best-order")["best_order"]
    assert best["nodes"] == ranks // gpus
    counted = [order["inter_node_bytes"] for order in best["orders"]]
    assert counted == sorted(counted)
    for order in best["orders"]:
        one = plan(*words, "--order", order["order"])
        assert crossing_bytes(one, gpus) == pytest.approx(order["inter_node_bytes"], abs=1)
        assert sum(order["groups"].values()) == pytest.approx(order["inter_node_bytes"], abs=8)
    assert sum(order["requested"] for order in best["orders"]) == 1


def test_the_table_of_orders(busbar):
    done = busbar.run("plan", "transformer", "--model", "mixtral_8x7b", "--ranks", 64, "--tp", 2, "--cp", 2, "--pp", 4, "--ep", 4,
                      "--layers", 4, "--seq-length", 64, "--sequence-parallel", "--cluster", "h100-sxm-ib", "--best-order",
                      emulated=False)
    assert done.returncode == 0, done.stderr
    table = done.stdout[done.stdout.index("\norders of the axes"):]
    assert "inter-node bytes per step, 8 nodes of 8 GPUs" in table
    assert len(re.findall(r"^  \* [a-z-]+ ", table, re.M)) == 1
    assert max(map(len, table.splitlines())) <= 100


@pytest.mark.parametrize("words, said", [
    (["transformer", "--model", "gpt2_small", "--ranks", 8, "--best-order"], "--gpus-per-node N or --cluster NAME"),
    (["gpt2_large", "--ranks", 8, "--best-order"], "gpt2_large: --best-order applies only to transformer"),
])
def test_best_order_needs_nodes_and_axes(busbar, words, said):
    assert said in refused(busbar, *words)
