"""Names of options and programs of other tools are answered with busbar's name, and each answer is a valid command."""
import json
import os
import re
import shlex
import subprocess

import pytest
from conftest import ROOT

SOURCE = (ROOT / "proxies/workloads/registry/foreign_names.c").read_text().replace(" IN_FILE", ' "in the model file"')
ROWS = [re.findall(r'{"([^"]+)", (?:NULL|"([^"]+)"),\s+"([^"]+)",\s+(?:NULL|"([^"]+)")}', part) for part in SOURCE.split("bb_foreign_programs[] =", 1)]
OPTIONS, PROGRAMS = ROWS[0], [row[:3] for row in ROWS[1]]  # the first column has one or more names
RANKS = {"gpt2_large": 4, "gpt3": 16, "gpt3_moe": 64, "bert_large": 4}


def names_of(rows):
    return [name for row in rows for name in row[0].split()]


def refusal(busbar, *args):
    done = busbar.run("plan", *args, "--ranks", 4, emulated=False)
    assert done.returncode == 2 and done.stdout == "" and done.stderr.count("\n") == 1
    return done.stderr.removeprefix("busbar: ").rstrip("\n")


def test_the_tables_contain_the_names_of_mpi4dl():
    assert {"num-spatial-parts", "slice-method", "split-size", "spatial-size", "parts", "times", "enable-master-comm-opt"} <= set(
        names_of(OPTIONS))
    assert {"gpt-2", "gpt-3", "benchmark_amoebanet_sp", "benchmark_resnet_gems_master"} <= set(names_of(PROGRAMS))


@pytest.mark.parametrize("option,ours", [
    ("wandb-project", None), ("ckpt-format", None), ("no-masked-softmax-fusion", None), ("qk-layernorm", None), ("max-norm", None),
    ("delay-wgrad-compute", None), ("qlora", None), ("load-in-4bit", None), ("quantization", None), ("lora-alpha", None), ("offload", None), ("stage3-prefetch-bucket-size", None), ("offload-param", None),
    ("external-cuda-graph", "--graph"), ("parallelism.pipeline_parallel_microbatch_size", "--micro-batch-size"), ("model.flavor", "--model"),
    ("activations_checkpoint_num_layers", "--recompute-num-layers"), ("devices", "--gpus-per-node"), ("mtbf", "--mtbf-node (with a unit)"), ("mtbf-gpu", "--mtbf-node (with a unit)")])
def test_names_of_megatron_deepspeed_nemo_and_torchtitan(busbar, option, ours):
    line = refusal(busbar, "transformer", f"--{option}=5")
    assert line.startswith(f"--{option} is {ours} here" if ours else f"--{option} has no counterpart here: "), line


GUESSED = {  # name that users guess: part of the answer
    "--model": "arch model-name model-size model-type model-path params", "--layers": "n-layer num-hidden-layers", "--seq-length": "max-length block-size",
    "--tp": "tensor-parallelism tp-degree mp-size", "--pp": "pp-degree num-stages", "--cp": "cp-degree context-parallel", "--ep": "ep-degree expert-parallel-size",
    "--dp": "data-parallel dp-degree", "--vpp": "virtual-stages vp", "--micro-batches": "grad-accum gas gradient-accumulation accumulate-grad-batches",
    "--global-batch-size": "global-batch", "--micro-batch-size": "bs batch-size-per-gpu", "--recompute full": "remat", "--gemm-precision nvfp4": "precision=fp4",
    "--tokens": "num-tokens train-tokens dataset-size train-samples max-epochs num-steps iterations", "--fp8": "precision=fp8 dtype=fp8 mixed-precision=fp8",
    "--set fabric": "oversubscription leaf-size pods rails fabric", "--set inter.latency_us": "latency alpha", "--set inter.gbps": "ib-bandwidth",
    "--set nics_per_node": "nics nics-per-node", "--set intra.gbps": "nvlink nvlink-bandwidth", "--set transport": "interconnect", "--set memory_gbps": "memory-bandwidth",
    "--set achieved.gemm": "efficiency", "--tflops": "flops peak-flops", "--cluster": "gpu-type hardware machine", "--gpu-memory": "hbm vram",
    "--mtbf-node": "node-mtbf", "--checkpoint": "checkpoint-time", "--restart": "recovery-time", "best interval": "checkpoint-interval save-steps",
    "--slow": "straggler slow-node", "--trace": "timeline", "--best-layout": "auto-tune search", "NCCL chooses": "nvls sharp", "config.json": "d-model n-embd num-heads experts topk",
    "--gpus-per-node": "ppn gpus-per-host", "busbar bench has": "warmup-iters check expect min-busbw device cudagraph max-ctas", "--sizes": "size message-size bytes"}


@pytest.mark.parametrize("answer", GUESSED)
def test_names_that_users_guess_have_an_answer(busbar, answer):
    for name in GUESSED[answer].split():
        line = refusal(busbar, "transformer", f"--{name}")
        assert re.match(rf"--{name} (is .* here|has no counterpart here: )", line) and answer in line, line


def test_a_value_that_is_an_option_here_is_translated_in_a_line(busbar):
    """Section names precede options of configuration files; the option that has this value is not in the line."""
    for typed in ("--dtype fp8 --tp-size 2", "--training.dtype=fp8 --tp-size 2", "--trainer.precision fp8 --tp-size 2"):
        line, _ = translated(busbar, "plan", "transformer", *typed.split(), "--cluster", "h100-sxm-ib")
        defaults = " --dp-sync zero3 --recompute ops --software torch" * ("--training" in typed)  # of torchtitan
        assert line == f"plan transformer --fp8 --tp 2 --cluster h100-sxm-ib{defaults}"


def test_bench_says_who_sets_the_gpus_of_a_node(busbar):
    done = busbar.run("bench", "--gpus-per-node", 4, emulated=False)
    assert done.returncode == 2 and all(word in done.stderr for word in ("mpirun -N 8", "srun --ntasks-per-node 8", "EMU_CLUSTER", "EMU_NODES")), done.stderr


@pytest.mark.parametrize("rows", [OPTIONS, PROGRAMS], ids=["options", "programs"])
def test_every_name_has_one_row(rows):
    names = [re.sub("[_.-]", "", name) for name in names_of(rows)]
    assert len(names) > 40 and len(set(names)) == len(names)


def test_foreign_options_are_answered(busbar):
    for names, ours, text, _ in OPTIONS:
        if names in ("ranks", "tokens", "best-layout", "jitter", "mtbf-node", "gpu-memory", "dp-sync", "sync", "epochs", "format=json"):  # options of busbar that some commands or proxies lack
            continue
        for name in names.split():
            line = refusal(busbar, "spatial", f"--{name}")
            assert line == (f"--{name} has no counterpart here: {text}; leave it out" if not ours else f"--{name} is {ours} here; try: {text}"
                            if ours == text else f"--{name} is {ours} here (for example {text})")
        if ours:
            assert_options_exist(busbar, text)


def assert_options_exist(busbar, text):
    """An option that the proxy does not support, or an invalid layout, is another error."""
    done = busbar.run("plan", "transformer", *text.split(" (")[0].split(), "--ranks", 4, emulated=False)
    assert not re.search("unknown|not valid|requires a value", done.stderr), (text, done.stderr)


MEGATRON = """--model llama3_70b --world-size 64 --tensor-model-parallel-size 8 --pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 5
    --swiglu --group-query-attention --lr 1e-4 --train-samples=1000 --bf16 --use-distributed-optimizer --global-batch-size 128 --micro-batch-size 1
    --seq-length 8192 --sequence-parallel --recompute-granularity selective --lora --cluster h100-sxm-ib"""


def translated(busbar, *words, cwd=None):
    """The proposed command and the notes below it, except what --cluster would add: lists of (head, text)."""
    done = busbar.run(*words, emulated=False, cwd=cwd)
    first, *notes = [line for line in done.stderr.splitlines() if not line.startswith("  with --cluster, add: ")]
    assert done.returncode == 2 and done.stdout == ""
    notes = [("model.json", model[1]) if (model := re.fullmatch("  first write the model's file: echo '({.*})' >model.json", note)) else
             tuple(note.strip().split(": ", 1)) for note in notes]
    return re.fullmatch(r"busbar: options of another tool(?:; the command lacks those in \S+, which is not read)?; try: busbar (.*)", first)[1], notes


UNFUSED = ("added", "--loss unfused: Megatron-LM fuses the loss only with --cross-entropy-loss-fusion")
NO_OVERLAP = ("added", "--no-overlap: Megatron-LM overlaps reductions of gradients only with --overlap-grad-reduce")


def test_a_command_line_of_megatron_is_translated_at_once(busbar):
    """Llama 3 70B has 80 layers: 20 in a stage, so 5 in each of 4 chunks. What is proposed works when typed."""
    line, notes = translated(busbar, "plan", "transformer", *MEGATRON.split())
    assert line == ("plan transformer --model llama3_70b --ranks 64 --tp 8 --pp 4 --vpp 4 --tokens 8192000 --dtype bfloat16 --dp-sync distributed --global-batch-size 128 "
                    "--micro-batch-size 1 --seq-length 8192 --sequence-parallel --recompute selective --lora-rank 16 --cluster h100-sxm-ib "
                    "--no-overlap --loss unfused --software megatron")
    assert notes == [("left out", "--swiglu --group-query-attention: in the model file"),
                     ("left out", "--lr: without influence on the time and memory of a step"),
                     NO_OVERLAP, UNFUSED]
    assert busbar.run(*line.split(), "--quiet", emulated=False).returncode == 0
    assert translated(busbar, "plan", "transformer", *"--model llama3_70b --ranks 64 --pp 4 --num-layers-per-virtual-pipeline-stage 5".split()) == (
        "plan transformer --model llama3_70b --ranks 64 --pp 4 --vpp 4 --no-overlap --loss unfused", [NO_OVERLAP, UNFUSED])


@pytest.mark.parametrize("typed", ["--overlap-grad-reduce", "--overlap-grad-reduce --overlap-param-gather", "--use-megatron-fsdp"])
def test_megatron_overlaps_gradients_only_with_its_option(busbar, typed):
    line, notes = translated(busbar, "plan", "transformer", *MEGATRON.split(), *typed.split())
    assert "--no-overlap" not in line and line.endswith(" --software megatron") and NO_OVERLAP not in notes


def framework(busbar, typed, tmp_path):
    """The framework of the plan that the proposed command prints, and the same for the command with --cluster added by hand."""
    named = []
    for cluster in ("", " --cluster h100-sxm-ib"):
        done = busbar.run("plan", *shlex.split(typed + cluster), emulated=False)
        command = done.stderr.splitlines()[0].split("; try: busbar ")[1]
        for note in re.findall("  with --cluster, add: (--software .*)", done.stderr):
            command += f" {note}"
        if model := re.search("  first write the model's file: (.*)", done.stderr):
            subprocess.run(["sh", "-c", model[1]], cwd=tmp_path, check=True)
        command += "" if " --cluster" in command else " --cluster h100-sxm-ib"
        plan = busbar.run(*shlex.split(command), "--json", "-", "--quiet", emulated=False, cwd=tmp_path)
        assert plan.returncode == 0, (command, plan.stderr)
        named.append(json.loads(plan.stdout)["predicted"]["compute"]["software"])
    return named


SHARDING = ["", "--use-distributed-optimizer", "--use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather", "--overlap-grad-reduce", "--use-megatron-fsdp", "--use-torch-fsdp2",
            *(f"--use-megatron-fsdp --use-distributed-optimizer --data-parallel-sharding-strategy {how}" for how in ("no_shard", "optim", "optim_grads", "optim_grads_params")),
            *(f"{how} --num-distributed-optimizer-instances 2" for how in ("--use-distributed-optimizer", "--use-megatron-fsdp", "--use-torch-fsdp2")),
            *(f"--deepspeed --zero-stage {stage}" for stage in range(4))]


@pytest.mark.parametrize("launcher", ["torchrun --nproc-per-node 8 --nnodes 4 pretrain_gpt.py", "deepspeed --num_gpus 8 --num_nodes 4 pretrain_gpt.py"])
@pytest.mark.parametrize("sharding", SHARDING)
def test_lines_of_megatron_have_the_rates_of_megatron(busbar, tmp_path, launcher, sharding):
    """The kernels are those of Megatron-LM's model code with every sharding."""
    shape = "--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --vocab-size 128000 --max-position-embeddings 8192 --seq-length 8192"
    for others in ("", "--tensor-model-parallel-size 2 --sequence-parallel", "--lora-rank 16"):
        typed = f"{launcher} {shape} --micro-batch-size 1 --global-batch-size 64 --bf16 {sharding} {others}"
        assert framework(busbar, typed, tmp_path) == ["megatron", "megatron"], typed


@pytest.mark.parametrize("typed", [
    "deepspeed --num_gpus 8 train.py --deepspeed --zero-stage {stage} --train-micro-batch-size-per-gpu 1 --bf16", "accelerate launch --num_processes 8 train.py --mixed_precision bf16",
    "torchrun --nproc_per_node 8 --nnodes 1 run_clm.py --per_device_train_batch_size 1 --bf16 True --gradient_checkpointing True", "accelerate launch --num_processes 8 --use_fsdp train.py --bf16",
    "torchrun --nproc_per_node 8 --nnodes 1 train.py --parallelism.data_parallel_shard_degree 1 --parallelism.data_parallel_replicate_degree 8",
    "torchrun --nproc_per_node 8 --nnodes 1 train.py --training.seq_len 8192 --parallelism.tensor_parallel_degree 2"])
def test_lines_of_other_tools_have_the_rates_of_pytorch(busbar, tmp_path, typed):
    for stage in range(4 if "{" in typed else 1):
        assert framework(busbar, f"{typed.format(stage=stage)} --model llama3_8b", tmp_path) == ["torch", "torch"]
    assert framework(busbar, f"{typed.format(stage=1)} --torch_compile --model llama3_8b", tmp_path) == ["torch-compile", "torch-compile"]


@pytest.mark.parametrize("sharding", ["", "ddp.use_megatron_fsdp=true"])
def test_lines_of_nemo_have_the_rates_of_megatron(busbar, tmp_path, sharding):
    typed = f"trainer.devices=8 trainer.num_nodes=4 model.tensor_model_parallel_size=2 model.micro_batch_size=1 model.global_batch_size=64 {sharding} --model llama3_8b"
    assert framework(busbar, f"python megatron_gpt_pretraining.py {typed}", tmp_path) == ["megatron", "megatron"]


def test_the_strategy_of_megatron_fsdp_requires_it(busbar):
    """arguments.py: the strategy is an option of Megatron-FSDP, with which instances of the optimizer are replicas of the shards."""
    line = "transformer --model llama3_8b --ranks 32 --use-distributed-optimizer --data-parallel-sharding-strategy no_shard".split()
    assert "--dp-sync distributed" in translated(busbar, "plan", *line)[0]
    assert "--dp-sync all_reduce" in translated(busbar, "plan", *line, "--use-megatron-fsdp")[0]
    line = "transformer --model llama3_8b --ranks 32 --tensor-model-parallel-size 2 --use-megatron-fsdp --num-distributed-optimizer-instances 2".split()
    assert "--dp-sync hsdp" in translated(busbar, "plan", *line)[0] and "--shard-size 8" in translated(busbar, "plan", *line)[0]


@pytest.mark.parametrize("shards", ["", "--use-distributed-optimizer", "--zero-stage 0", "--zero-stage 1", "--zero-stage 2", "--zero-stage 3", "--deepspeed --zero-stage 3",
                                    "--dp-sync=zero3", "--data-parallel-sharding-strategy optim", "--data-parallel-sharding-strategy optim_grads",
                                    "--data-parallel-sharding-strategy optim_grads_params", "--use-megatron-fsdp", "--use-torch-fsdp2"])
@pytest.mark.parametrize("others", ["", "--software torch", "--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2", "--tensor-model-parallel-size 2",
                                    "--cross-entropy-loss-fusion"])
def test_what_a_line_of_megatron_gets_is_accepted(busbar, shards, others):
    """--no-overlap requires a mode that reduces gradients once, after the backward pass."""
    for cluster in ("", "--cluster a100-sxm-ib")[bool("--software" in others):]:
        line, notes = translated(busbar, "plan", "transformer", *f"--model llama3_8b --ranks 32 --bf16 --swiglu {shards} {others} {cluster}".split())
        done = busbar.run(*line.split(), "--quiet", emulated=False)
        assert done.returncode == 0 and not any(head == "by hand" for head, _ in notes), (line, done.stderr)
        assert ("--no-overlap" in line) == (not re.search("zero[23]", line)), line
        assert ("--loss fused" in line, "--loss unfused" in line) == ("fusion" in others, "fusion" not in others), line


GPT = "--num-layers 4 --hidden-size 512 --num-attention-heads 8 --vocab-size 50257 --max-position-embeddings 1024 --seq-length 256"
FEATHER = "--swiglu --normalization RMSNorm --disable-bias-linear"  # no biases
MATRICES = 8 * 512 * 512 + 5 * 512  # of the MLP, with biases
MLA = "--multi-latent-attention --qk-head-dim 96 --qk-pos-emb-head-dim 32 --v-head-dim 48 --disable-bias-linear"


def test_numbers_that_no_model_has_are_written_as_typed(busbar):
    """They are neither padded nor multiplied: the result could exceed 64 bits."""
    most = 2**63 - 1
    model = json.loads(translated(busbar, "plan", "transformer", *f"--hidden-size {most} --vocab-size {most} --tensor-model-parallel-size 2".split())[1][0][1])
    assert model["hidden_size"] == model["vocab_size"] == most and "intermediate_size" not in model


@pytest.mark.parametrize("typed,keys,of_layer,outside", [  # options, keys of the file, parameters more than those of GPT per layer and elsewhere
    ("", {"vocab_size": 50304, "learned_positions": True, "layer_norm": True, "tie_word_embeddings": True}, 0, 0),
    ("--vocab-size 50000", {"vocab_size": 50048}, 0, -256 * 512), ("--make-vocab-size-divisible-by 1000", {"vocab_size": 51000}, 0, 696 * 512),
    ("--tensor-model-parallel-size 4", {"vocab_size": 50688}, 0, 384 * 512), ("--max-position-embeddings 4096", {"max_position_embeddings": 4096}, 0, 3072 * 512),
    ("--position-embedding-type rope", {"learned_positions": False}, 0, -1024 * 512), ("--use-rotary-position-embeddings", {"learned_positions": False}, 0, -1024 * 512),
    ("--no-position-embedding", {"learned_positions": False}, 0, -1024 * 512), ("--position-embedding-type learned_absolute", {"learned_positions": True}, 0, 0),
    ("--untie-embeddings-and-output-weights", {"tie_word_embeddings": False}, 0, 50304 * 512),
    ("--normalization RMSNorm", {"layer_norm": False}, -2 * 512, -512), ("--ffn-hidden-size 1536", {"intermediate_size": 1536}, -2 * 512 * 512 - 512, 0),
    ("--swiglu", {"swiglu": True, "intermediate_size": 1344}, 3 * 512 * 1344 + 2 * 1344 + 512 - MATRICES, 0),
    ("--disable-bias-linear", {"add_bias_linear": False, "add_qkv_bias": False}, -(3 + 1 + 4 + 1) * 512, 0),
    ("--disable-bias-linear --add-qkv-bias", {"add_bias_linear": False, "add_qkv_bias": True}, -(1 + 4 + 1) * 512, 0),
    ("--kv-channels 128", {"head_dim": 128}, 4 * 512 * 512 + 3 * 512, 0), ("--qk-layernorm", {"qk_layernorm": True}, 2 * 2 * 64, 0),
    ("--qk-layernorm --normalization RMSNorm", {"qk_layernorm": True}, 2 * 64 - 2 * 512, -512),
    ("--num-query-groups 2 --group-query-attention", {"num_key_value_heads": 2}, -2 * (512 + 1) * 384, 0),
    ("--group-query-attention", {"num_key_value_heads": 1}, -2 * (512 + 1) * 448, 0),
    ("--num-experts 4", {"num_experts": 4, "num_experts_per_tok": 2}, 3 * MATRICES + 4 * 512, 0),
    (f"--num-experts 8 --moe-router-topk 3 --moe-ffn-hidden-size 768 {FEATHER}", {"num_experts_per_tok": 3, "moe_intermediate_size": 768},
     8 * 3 * 768 * 512 + 8 * 512 - MATRICES - 6 * 512, -512),
    (f"--num-experts 8 --moe-ffn-hidden-size 768 --moe-shared-expert-intermediate-size 1024 {FEATHER}", {"shared_expert_intermediate_size": 1024},
     3 * 512 * (8 * 768 + 1024) + 8 * 512 - MATRICES - 6 * 512, -512),
    (f"--num-experts 8 --moe-ffn-hidden-size 768 --moe-layer-freq ([0]*3+[1]*1) {FEATHER}", {"first_k_dense_replace": 3, "intermediate_size": 1344},
     3 * 512 * 1344 - MATRICES - 6 * 512, 3 * 512 * (8 * 768 - 1344) + 8 * 512 - 512),
    (f"--num-experts 8 --moe-ffn-hidden-size 768 --moe-layer-freq 2 {FEATHER}", {"moe_layer_freq": 2},
     3 * 512 * 1344 - MATRICES - 6 * 512, 2 * (3 * 512 * (8 * 768 - 1344) + 8 * 512) - 512),
    (MLA, {"kv_lora_rank": 32, "qk_nope_head_dim": 96, "qk_rope_head_dim": 32, "v_head_dim": 48, "add_qkv_bias": False},
     512 * 8 * (128 + 48) + 512 * (32 + 32) + 32 + 32 * 8 * (96 + 48) - 4 * 512 * 512 - 9 * 512, 0),
    (f"{MLA} --kv-lora-rank 64 --q-lora-rank 128", {"kv_lora_rank": 64, "q_lora_rank": 128},
     128 * 512 + 128 + 128 * 8 * 128 + 512 * (64 + 32) + 64 + 64 * 8 * (96 + 48) + 8 * 48 * 512 - 4 * 512 * 512 - 9 * 512, 0)])
def test_each_model_option_of_megatron_is_a_key_of_the_file(busbar, tmp_path, typed, keys, of_layer, outside):
    """GPT has 12 h^2 + 13 h parameters per layer, 2 h of the last norm, and h for each position and each row of the vocabulary, padded to
    a multiple of 128 tp. What is proposed works when typed."""
    line, notes = translated(busbar, "plan", "transformer", *GPT.split(), "--ranks", 8, *typed.split())
    model = json.loads(notes[0][1])
    assert notes[0][0] == "model.json" and notes[1:] == [NO_OVERLAP, UNFUSED]
    assert model == {**model, **keys, "model_type": "megatron_gpt", "num_hidden_layers": 4, "hidden_size": 512, "num_attention_heads": 8}
    (tmp_path / "model.json").write_text(notes[0][1])
    run = busbar.run(*line.split(), cwd=tmp_path, emulated=False)
    assert f" {4 * (12 * 512 ** 2 + 13 * 512 + of_layer) + 2 * 512 + (50304 + 1024) * 512 + outside:,} parameters" in run.stdout and not run.stderr


@pytest.mark.parametrize("typed,vocabulary,note", [
    ("--tokenizer-type HuggingFaceTokenizer --tokenizer-model m", None, "by hand: --tokenizer-type --tokenizer-model: the tokenizer has the vocabulary of the model; add --vocab-size N"),
    ("--tokenizer-type BertWordPieceLowerCase --vocab-file v", None, "by hand: --tokenizer-type --vocab-file: the tokenizer has the vocabulary of the model; add --vocab-size N"),
    ("--tokenizer-type HuggingFaceTokenizer --tokenizer-model m --vocab-size 128256", 128256, "left out: --tokenizer-type --tokenizer-model: without influence"),
    ("--tokenizer-type GPT2BPETokenizer --vocab-file v --merge-file m", 50304, "left out: --tokenizer-type --vocab-file --merge-file: without influence"),
    ("--vocab-file v --merge-file m --tensor-model-parallel-size 4", 50688, "left out: --vocab-file --merge-file: without influence")])
def test_the_tokenizer_has_the_vocabulary_of_the_model(busbar, typed, vocabulary, note):
    """Megatron-LM takes the number of tokens from the tokenizer and pads it to a multiple of 128 tp: GPT-2 has 50257."""
    _, notes = translated(busbar, "plan", *f"transformer --num-layers 4 --hidden-size 512 --num-attention-heads 8 {typed}".split())
    assert json.loads(notes[0][1]).get("vocab_size") == vocabulary and any(": ".join(each).startswith(note) for each in notes), notes


@pytest.mark.parametrize("typed,tokens", [
    ("--train-samples 585937500 --seq-length 4096", 585937500 * 4096), ("--train-iters 500000 --global-batch-size 1536 --seq-length 2048", 500000 * 1536 * 2048),
    ("--max_steps 1000 --per_device_train_batch_size 2 --gradient_accumulation_steps 4 --block_size 1024", 1000 * 2 * 4 * 8 * 1024)])
def test_the_length_of_a_run_is_computed_in_tokens(busbar, typed, tokens):
    for words in (typed.split(), [*typed.split(), "--cluster", "h100-sxm-ib"]):
        done = busbar.run("plan", "transformer", "--model", "llama3_8b", "--world-size", 8, *words, emulated=False)
        assert ("--tokens" in done.stderr.splitlines()[0]) == ("--cluster" in words) and f" --tokens {tokens}" in done.stderr


def test_options_that_are_left_out_have_no_false_reason(busbar):
    """These change the time of a step or the number of its ranks."""
    for option in "rampup-batch-size no-masked-softmax-fusion moe-permute-fusion deterministic-mode hostfile eval-iters lora-dropout".split():
        assert "without influence" not in refusal(busbar, "transformer", f"--{option}")
    line, _ = translated(busbar, "plan", *"transformer --model gpt3_1_3b --ranks 8 --bf16 --transformer-impl local --cluster h100-sxm-ib".split())
    assert line.endswith("--software megatron-plain --cluster h100-sxm-ib --no-overlap --loss unfused")


PUBLISHED = {  # options, parameters of the published weights
    "Mistral Nemo": ("--num-layers 40 --hidden-size 5120 --ffn-hidden-size 14336 --num-attention-heads 32 --kv-channels 128 --group-query-attention --num-query-groups 8 --vocab-size 131072",
                     12_247_782_400),
    "Mixtral 8x7B": ("--num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 --group-query-attention --num-query-groups 8 --vocab-size 32000 --num-experts 8",
                     46_702_792_704),
    "Qwen3 30B A3B": ("--num-layers 48 --hidden-size 2048 --ffn-hidden-size 6144 --num-attention-heads 32 --kv-channels 128 --group-query-attention --num-query-groups 4 --qk-layernorm "
                      "--num-experts 128 --moe-router-topk 8 --moe-ffn-hidden-size 768 --vocab-size 151936 --make-vocab-size-divisible-by 1187", 30_532_122_624),
    "DeepSeek V2 Lite": ("--num-layers 27 --hidden-size 2048 --ffn-hidden-size 10944 --num-attention-heads 16 --multi-latent-attention --kv-lora-rank 512 "
                         "--num-experts 64 --moe-router-topk 6 --moe-ffn-hidden-size 1408 --moe-shared-expert-intermediate-size 2816 "
                         "--moe-layer-freq ([0]+[1]*26) --vocab-size 102400", 15_706_484_224)}


@pytest.mark.parametrize("model", PUBLISHED)
def test_options_of_a_published_model_have_its_parameters(busbar, tmp_path, model):
    typed, parameters = PUBLISHED[model]
    line, notes = translated(busbar, "plan", "transformer", *typed.split(), *FEATHER.split(), "--untie-embeddings-and-output-weights", "--position-embedding-type",
                             "rope", "--ranks", 8)
    (tmp_path / "model.json").write_text(notes[0][1])
    assert f" {parameters:,} parameters" in busbar.run(*line.split(), cwd=tmp_path, emulated=False).stdout


def test_megatron_ignores_query_groups_without_group_query_attention(busbar):
    """As core_transformer_config_from_args does; NeMo has no other option of grouped queries."""
    for typed, heads in (("--num-query-groups 2", None), ("model.num_query_groups=2", 2)):
        _, notes = translated(busbar, "plan", "transformer", *GPT.split(), "--ranks", 8, *typed.split())
        assert json.loads(notes[0][1]).get("num_key_value_heads") == heads
        assert (("left out", "--num-query-groups: Megatron-LM ignores it without --group-query-attention") in notes) == (heads is None)


def test_a_value_that_the_file_of_the_model_cannot_contain_is_named(busbar):
    _, notes = translated(busbar, "plan", "transformer", *GPT.split(), "--ranks", 8, "--num-experts", 8, "--moe-layer-freq", "([0]*1+[1]*1)*2",
                          "--position-embedding-type", "relative")
    assert notes[1] == ("by hand", "--moe-layer-freq --position-embedding-type: not possible in the model file")


@pytest.mark.parametrize("experts,kind", [("", "llama"), (" --n-experts 8 --topk 2", "mixtral")])
def test_the_shape_of_a_model_of_another_tool_becomes_a_file(busbar, tmp_path, experts, kind):
    """32 layers of attention with 8 of 32 heads for keys and values, and an MLP or eight with a router."""
    line, notes = translated(busbar, "plan", "transformer", *"--n-layers 32 --dim 4096 --n-heads 32 --n-kv-heads 8 --intermediate-size 14336 --vocab-size 32000 --ranks 8".split(),
                             *experts.split())
    assert "--no-overlap" not in line and len(notes) == 1 and json.loads(notes[0][1])["model_type"] == kind
    (tmp_path / "model.json").write_text(notes[0][1])
    mlp = 3 * 4096 * 14336
    parameters = 32 * (2 * 4096 * (4096 + 1024) + (8 * (mlp + 4096) if experts else mlp) + 2 * 4096) + 2 * 32000 * 4096 + 4096
    assert f" {parameters:,} parameters" in busbar.run(*line.split(), cwd=tmp_path, emulated=False).stdout


@pytest.mark.parametrize("command,typed,line,note", [
    ("plan", "transformer --model llama3_8b --world-size 8 --fp8-format hybrid", "transformer --model llama3_8b --ranks 8 --fp8 --cluster h100-sxm-ib",
     ("added", "--cluster h100-sxm-ib, an example (busbar list clusters), which --fp8 requires")),
    ("plan", "transformer --model llama3_8b --world-size 8 --fp8-format e4m3 --fp8-recipe mxfp8 --cluster b200-sxm-ib",
     "transformer --model llama3_8b --ranks 8 --fp8 --gemm-precision mxfp8 --cluster b200-sxm-ib", None),
    ("plan", "transformer --model llama3_8b --bf16 True --gpus 8", "transformer --model llama3_8b --dtype bfloat16 --ranks 8", None),
    ("plan", "transformer --model llama3_8b --bf16 False --gpus 8", "transformer --model llama3_8b --ranks 8", ("left out", "--bf16: switched off")),
    ("plan", "--bf16 transformer --model llama3_8b --gpus 8", "--dtype bfloat16 transformer --model llama3_8b --ranks 8", None),
    ("proxy", "transformer --model llama3_8b --world-size 8 --tp-size 2", "transformer --model llama3_8b --tp 2",
     ("by hand", "--world-size is mpirun -n here (for example mpirun -n 8 busbar proxy ...)"))])
def test_a_translated_line_has_only_options_of_the_command(busbar, command, typed, line, note):
    """The values of switches of other tools are not words of the line, and mpirun sets the ranks of a proxy."""
    assert translated(busbar, command, *typed.split()) == (f"{command} {line}", [note] if note else [])


SHARDS = "--world-size 64 --parallelism.tensor_parallel_degree 8"
LATE = " --no-overlap --loss unfused"  # any option that only Megatron-LM has
FSDP = " --dp-sync zero3"  # torchtitan's default
OPS = ("added", "--recompute ops: torchtitan's default of activation_checkpoint.mode; a configuration may have another")
ADDED_FSDP = ("added", "--dp-sync zero3: torchtitan shards over all other ranks without data_parallel_shard_degree")
STATES = "--use-precision-aware-optimizer has 4 bytes per state; states of 16 bits are modelled only without --dp-sync distributed: --optimizer adam-bf16"


@pytest.mark.parametrize("typed,line,notes", [
    ("--bf16 --pipeline-model-parallel-layout=Et*8|t*24L", "--dtype bfloat16 --pipeline-layout 'Et*8|t*24L'" + LATE, []),
    ("--bf16 --fsdp full_shard", "--dtype bfloat16 --dp-sync zero3", []), ("--bf16 --fsdp", "--dtype bfloat16 --dp-sync zero3", []),
    (f"{SHARDS} --parallelism.data_parallel_shard_degree 4 --parallelism.data_parallel_replicate_degree 2",
     "--ranks 64 --tp 8 --dp-sync hsdp --dp 8 --shard-size 4", []),
    (f"{SHARDS} --parallelism.data_parallel_shard_degree -1 --parallelism.data_parallel_replicate_degree 2",
     "--ranks 64 --tp 8 --dp-sync hsdp --dp 8 --shard-size 4", []),
    (f"{SHARDS} --parallelism.data_parallel_shard_degree -1", "--ranks 64 --tp 8 --dp-sync zero3", []),
    (f"{SHARDS} --parallelism.data_parallel_shard_degree 1 --parallelism.data_parallel_replicate_degree 8", "--ranks 64 --tp 8 --dp 8", []),
    (f"{SHARDS} --parallelism.enable_async_tensor_parallel", "--ranks 64 --tp 8 --tp-comm-overlap --sequence-parallel" + FSDP, [ADDED_FSDP]),
    ("--bf16 --data-path a b c --hierarchical-context-parallel-sizes 2 8", "--dtype bfloat16",
     [("left out", "--data-path: a step reads no data set"), ("left out", "--hierarchical-context-parallel-sizes: not modelled")]),
    ("--tp-size 2 model.context_parallel_size=2 trainer.devices=8", "--tp 2 --cp 2 --gpus-per-node 8", []),
    ("--world-size 64 --tp-size 8 --num-distributed-optimizer-instances 2", "--ranks 64 --tp 8 --shard-size 4 --dp-sync distributed" + LATE, []),
    ("--training.global_batch_size 512 --micro_batch_size=2 model.seq_length=4096 model.sequence_parallel=False", "--global-batch-size 512 --micro-batch-size 2 --seq-length 4096" + FSDP,
     [("left out", "model.sequence_parallel: switched off"), ADDED_FSDP]),
    ("--nnodes 8 --nproc_per_node 4", "--ranks 32 --gpus-per-node 4", []),
    ("--num_gpus 4 --num_nodes 2", "--ranks 8", []), ("--world-size 64 --nnodes 8", "--ranks 64", []), ("--bf16 --ddp-bucket-size 40000000", "--dtype bfloat16 --bucket-mb 152.6", []),
    ("--bf16 --comm.trace_buf_size 9 --tp-size 2", "--dtype bfloat16 --tp 2", [("not known", "--comm.trace_buf_size")]),
    ("--float8.enable_float8_linear --quantize.linear.float8.enable_fsdp_float8_all_gather --cluster h100-sxm-ib", "--fp8 --fp8-param-gather --cluster h100-sxm-ib --dp-sync zero3 --software torch", [ADDED_FSDP]),
    ("--compile.enable --tp-size 2 --cluster h100-sxm-ib", "--software torch-compile --tp 2 --cluster h100-sxm-ib", []),
    ("--bf16 --moe-token-dispatcher-type flex", "--dtype bfloat16" + LATE,
     [("left out", "--moe-token-dispatcher-type: --moe-dispatch dedup requires experts on several nodes")]),
    ("--expert-model-parallel-size 16 --moe-token-dispatcher-type flex", "--ep 16 --moe-dispatch dedup" + LATE, []),
    ("--expert-model-parallel-size 64 --moe-token-dispatcher-type flex --moe-router-group-topk 4", "--ep 64 --moe-dispatch dedup --moe-node-limit 4" + LATE,
     [("left out", "--moe-router-group-topk: the limit of nodes per token is --moe-node-limit with --moe-dispatch dedup")]),
    ("--bf16 --exp-avg-dtype fp32 --exp-avg-sq-dtype fp32", "--dtype bfloat16", [("left out", f"--exp-avg-dtype --exp-avg-sq-dtype: {STATES}")]),
    ("--tp-size 2 --cuda-graph-impl transformer_engine --cuda-graph-scope attn moe_router --cluster h100-sxm-ib", "--tp 2 --cuda-graph-modules attn,moe_router --cluster h100-sxm-ib", []),
    ("--tp-size 2 --external-cuda-graph --cuda-graph-modules attn mlp --cluster h100-sxm-ib", "--tp 2 --cuda-graph-modules attn,mlp --cluster h100-sxm-ib", []),
    ("--tp-size 2 --cuda-graph-impl local --cuda-graph-scope full_iteration --cluster h100-sxm-ib", "--tp 2 --graph --cluster h100-sxm-ib", []),
    ("--tp-size 2 --cuda-graph-impl none --cuda-graph-scope attn", "--tp 2", [("left out", "--cuda-graph-impl --cuda-graph-scope: switched off")]),
    ("--enable-cuda-graph --external-cuda-graph --bf16", "--graph --dtype bfloat16 --cluster h100-sxm-ib",
     [("added", "--cluster h100-sxm-ib, an example (busbar list clusters), which --graph requires")]),
    ("--use-distributed-optimizer --overlap-grad-reduce --use-megatron-fsdp", "--dp-sync zero3 --loss unfused",
     [("left out", "--overlap-grad-reduce: gradients are reduced during the backward pass unless --no-overlap is given"), UNFUSED]),
    ("--recompute-granularity full --recompute-method uniform --recompute-num-layers 4", "--recompute full" + LATE,
     [("left out", "--recompute-method: --recompute full alone is method uniform"),
      ("left out", "--recompute-num-layers: method uniform recomputes all layers, in units of this number")]),
    ("--recompute-granularity full --recompute-method block --recompute-num-layers 4", "--recompute full --recompute-num-layers 4" + LATE,
     [("left out", "--recompute-method: --recompute full recomputes all layers (method uniform), with --recompute-num-layers N the first N of each chunk "
                   "(method block)")]),
    ("--recompute full --recompute-method uniform --recompute-num-layers 4", "--recompute full" + LATE,
     [("left out", "--recompute-method: --recompute full alone is method uniform"),
      ("left out", "--recompute-num-layers: method uniform recomputes all layers, in units of this number")])])
def test_each_option_of_a_line_is_translated_or_has_its_reason(busbar, typed, line, notes):
    proposed, given = translated(busbar, "plan", "transformer", *typed.split())
    assert (proposed.replace(" --recompute ops", ""), [note for note in given if note != OPS]) == (f"plan transformer {line}", notes + [NO_OVERLAP, UNFUSED] * line.endswith(LATE))


ONE_GPU = """--num-layers 24 --hidden-size 1024 --num-attention-heads 16 --seq-length 1024 --max-position-embeddings 1024 --micro-batch-size 8
    --global-batch-size 64 --fp16 --lr 1e-4 --cluster h100-sxm-ib --ranks 1"""


@pytest.mark.parametrize("removed,typed,added", [("", "", " --no-overlap --loss unfused --software megatron"), ("", "--train-iters 500000", " --no-overlap --loss unfused --software megatron"),
                                                 ("--max-position-embeddings 1024", "--train-iters 500000", " --no-overlap --loss unfused --software megatron"),
                                                 ("--max-position-embeddings 1024", "", ""), ("", "--overlap-grad-reduce", " --loss unfused --software megatron"), ("", "--overlap-grad-reduce --cross-entropy-loss-fusion", " --loss fused --software megatron"),
                                                 ("", "--cross-entropy-loss-fusion --cross-entropy-fusion-impl te", " --loss fused --no-overlap --software megatron")])
def test_any_option_that_only_megatron_has_marks_its_script(busbar, removed, typed, added):
    line, _ = translated(busbar, "plan", "transformer", *ONE_GPU.replace(removed, "").split(), *typed.split())
    assert re.sub(" --model model.json| --tokens [0-9]+", "", line).endswith(f"--ranks 1{added}")


SCRIPTS = {  # options of public launch scripts; the checkpoint and data options are a selection
    "Megatron GPT-3 175B": """--num-layers 96 --hidden-size 12288 --num-attention-heads 96 --seq-length 2048 --max-position-embeddings 2048
        --attention-backend auto --micro-batch-size 1 --global-batch-size 1536 --rampup-batch-size 16 16 5859375 --train-iters 500000 --weight-decay 0.1
        --adam-beta1 0.9 --adam-beta2 0.95 --init-method-std 0.006 --clip-grad 1.0 --fp16 --lr 6.0e-5 --lr-decay-style cosine --min-lr 6.0e-6
        --lr-warmup-fraction .001 --lr-decay-iters 430000 --tensor-model-parallel-size 8 --pipeline-model-parallel-size 16 --data-path a b
        --vocab-file v.json --merge-file m.txt --split 949,50,1 --log-interval 100 --save-interval 10000 --eval-interval 1000 --save c --load c
        --eval-iters 10 --tensorboard-dir t --world-size 1024""",
    "Megatron DeepSeek-V3": """--model deepseek_v3 --nnodes 128 --nproc-per-node 8 --distributed-timeout-minutes 60 --tensor-model-parallel-size 1
        --pipeline-model-parallel-size 8 --expert-model-parallel-size 64 --expert-tensor-parallel-size 1 --context-parallel-size 1
        --pipeline-model-parallel-layout Et*3|(tt|)*29m|L --mtp-num-layers 1 --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather --use-mcore-models
        --sequence-parallel --use-flash-attn --micro-batch-size 1 --global-batch-size 8192 --train-samples 585937500 --transformer-impl transformer_engine
        --seq-length 4096 --tokenizer-type HuggingFaceTokenizer --data-cache-path c --swiglu --untie-embeddings-and-output-weights --multi-latent-attention
        --q-lora-rank 1536 --kv-lora-rank 512 --moe-layer-freq ([0]*3+[1]*58) --moe-router-num-groups 8 --moe-router-group-topk 4
        --moe-token-dispatcher-type flex --moe-flex-dispatcher-backend deepep --moe-grouped-gemm --moe-router-load-balancing-type seq_aux_loss
        --bf16 --enable-cuda-graph --fp8-format e4m3 --fp8-recipe mxfp8 --use-precision-aware-optimizer --main-grads-dtype fp32 --main-params-dtype fp32 --exp-avg-dtype bf16 --exp-avg-sq-dtype bf16
        --recompute-granularity selective --recompute-modules mla_up_proj moe_act""",
    "torchtitan Llama 3 70B": """--model llama3_70b --nproc_per_node=8 --nnodes=32 --training.local_batch_size 8 --training.seq_len 8192 --training.steps 1000
        --parallelism.data_parallel_replicate_degree 1 --parallelism.data_parallel_shard_degree -1 --parallelism.tensor_parallel_degree 8
        --parallelism.enable_async_tensor_parallel --parallelism.pipeline_parallel_degree 1 --activation_checkpoint.mode full --compile.enable
        --optimizer.lr 1.5e-4 --training.dataset c4 --checkpoint.interval 500""",
    "accelerate FSDP": """--model llama3_8b --num_processes 16 --num_machines 2 --mixed_precision bf16 --use_fsdp --fsdp_sharding_strategy FULL_SHARD
        --fsdp_state_dict_type SHARDED_STATE_DICT --per_device_train_batch_size 1 --gradient_accumulation_steps 4 --gradient_checkpointing True
        --num_train_epochs 3 --learning_rate 2e-5 --max_seq_length 4096 --logging_steps 5 --optim adamw_torch --output_dir out""",
    "DeepSpeed": """--model llama3_8b --num_gpus 8 --num_nodes 2 --master_port 29500 --hostfile h --deepspeed --deepspeed_config ds.json --zero_stage 3
        --per_device_train_batch_size 4 --gradient_accumulation_steps 2 --bf16 --offload_optimizer --gradient_checkpointing --max_seq_len 4096""",
}


@pytest.mark.parametrize("script", SCRIPTS)
def test_launch_scripts_become_a_command_that_runs(busbar, tmp_path, script):
    """Each option of the script is in the command, or in one note with its reason."""
    words = SCRIPTS[script].split()
    line, notes = translated(busbar, "plan", "transformer", *words)
    if notes[0][0] == "model.json":
        (tmp_path / "model.json").write_text(notes.pop(0)[1])
    done = busbar.run(*shlex.split(line), emulated=False, cwd=tmp_path)
    assert done.returncode == 0 and "parameters" in done.stdout, (line, done.stderr)
    options = re.findall(r" (--[\w-]+)", line)
    assert len(set(options)) == len(options), line
    noted = [name for head, text in notes for name in re.match(r"((?:--\S+ ?)*)", text)[1].replace(":", "").split() if head != "added"]
    assert len(noted) <= len(set(noted)) + 2 and {head for head, _ in notes} <= {"left out", "by hand", "not known", "added"}, notes
    assert len(notes) <= 12


@pytest.mark.parametrize("option", ["--replay", "--kineto", "--import-trace"])
def test_options_that_read_a_trace_name_what_is_written(busbar, option):
    """Neither plan nor proxy reads a recorded trace; "did you mean --delay" would be wrong."""
    assert refusal(busbar, "transformer", option, "t.json").startswith(f"{option} has no counterpart here: a recorded trace is not read; ")
    assert "a recorded trace is not read" in busbar.run("proxy", "transformer", option, "t.json", emulated=False).stderr


@pytest.mark.parametrize("typed,ours,note", [
    ("--parallelism.context_parallel_degree 2", "--model llama3_8b --cp 2 --cluster h100-sxm-ib --dp-sync zero3 --cp-comm all_gather --software torch",
     ("added", "--cp-comm all_gather: torchtitan's default of context_parallel_rotate_method")),
    ("--parallelism.context_parallel_degree 2 --parallelism.context_parallel_rotate_method alltoall",
     "--model llama3_8b --cp 2 --cp-comm ring --cluster h100-sxm-ib --dp-sync zero3 --software torch", ADDED_FSDP),
    ("--compile.enable", "--model llama3_8b --software torch-compile --cluster h100-sxm-ib --dp-sync zero3", ADDED_FSDP),
    ("--parallelism.data_parallel_shard_degree 1 --parallelism.data_parallel_replicate_degree 16 --float8.enable_fsdp_float8_all_gather",
     "--model llama3_8b --dp 16 --fp8 --cluster h100-sxm-ib --software torch",
     ("left out", "--float8.enable_fsdp_float8_all_gather: parameters are gathered only with --dp-sync zero3, hsdp or distributed")),
    ("--float8.enable_fsdp_float8_all_gather", "--model llama3_8b --fp8-param-gather --fp8 --cluster h100-sxm-ib --dp-sync zero3 --software torch", ADDED_FSDP),
    ("--job.config_file tt.toml", "--model llama3_8b --cluster h100-sxm-ib --dp-sync zero3 --software torch",
     ("left out", "--job.config_file: the file is not read; give its values, for example: --model.name llama3 --model.flavor 8B --training.seq_len 8192 "
                  "--training.local_batch_size 1 --parallelism.tensor_parallel_degree 8")),
    ("--model.flavor 0.6B --model.name qwen3", "--cluster h100-sxm-ib --dp-sync zero3 --software torch",
     ("by hand", "--model.flavor --model.name: busbar list models has no qwen3_0_6b; give --model config.json"))])
def test_a_line_of_torchtitan_has_its_defaults(busbar, typed, ours, note):
    name = "" if "qwen" in typed else "--model.name llama3 --model.flavor 8B "
    line, notes = translated(busbar, "plan", *f"transformer --ranks 16 --training.seq_len 8192 {name}{typed} --cluster h100-sxm-ib".split())
    assert line.replace(" --recompute ops", "") == f"plan transformer --ranks 16 --seq-length 8192 {ours}" and note in notes and OPS in notes
    assert "qwen" in typed or busbar.run(*line.split(), "--quiet", emulated=False).returncode == 0


@pytest.mark.parametrize("typed,recompute", [  # of the 32 layers of Llama 3 8B
    ("mode full", "full"), ("mode none", "none"), ("mode selective", "ops"), ("mode selective --activation_checkpoint.selective_ac_option op", "ops"),
    ("selective_ac_option op", "ops"), ("selective_ac_option 1", "full"), ("selective_ac_option 2", "full --recompute-num-layers 16"),
    ("mode selective --activation_checkpoint.selective_ac_option 3", "full --recompute-num-layers 10"), ("selective_ac_option 40", "none"),
    ("mode full --activation_checkpoint.selective_ac_option 2", "full"), ("mode none --activation_checkpoint.selective_ac_option 2", "none"),
    ("selective_ac_option 2 --parallelism.pipeline_parallel_degree 4", "full --recompute-num-layers 4")])
def test_recomputation_of_torchtitan_is_of_operations_or_of_every_nth_layer(busbar, typed, recompute):
    """activation_checkpoint.py of torchtitan until 2026-02: of the layers of a rank, those whose number is a multiple of the option."""
    line, notes = translated(busbar, "plan", *f"transformer --ranks 32 --model.name llama3 --model.flavor 8B --training.seq_len 8192 --activation_checkpoint.{typed}".split())
    assert re.search(f" --recompute {recompute}( --|$)", f"{line} --") and OPS not in notes and not any(head == "by hand" for head, _ in notes), (line, notes)
    assert ("--recompute-num-layers" in line) == ("num-layers" in recompute)
    assert busbar.run(*line.split(), "--quiet", emulated=False).returncode == 0


def test_every_nth_layer_of_an_unknown_model_is_left_to_the_user(busbar):
    _, notes = translated(busbar, "plan", *"transformer --ranks 32 --training.seq_len 8192 --activation_checkpoint.selective_ac_option 2".split())
    assert ("by hand", "--activation_checkpoint.selective_ac_option is --recompute full --recompute-num-layers N here: N layers of a chunk") in notes


def test_a_configuration_of_torchtitan_is_a_model(busbar):
    launch = "torchrun --nproc_per_node 8 -m torchtitan.train --module llama3 --config".split()
    assert " --model llama3_70b " in translated(busbar, "plan", *launch, "llama3_70b")[0]
    assert ("by hand", "--config: busbar list models has no llama3_9b; give --model config.json") in translated(busbar, "plan", *launch, "llama3_9b")[1]


def test_micro_batches_of_torchtitan_exist_in_a_pipeline(busbar):
    """The batch of a rank is split into micro-batches of 1 sample, or of the given size, only for a pipeline."""
    line = "transformer --model llama3_8b --ranks 16 --training.seq_len 8192 --training.local_batch_size 8"
    for others, ours in (("", "--micro-batch-size 8"), ("--parallelism.pipeline_parallel_degree 2", "--micro-batch-size 1 --micro-batches 8"),
                         ("--parallelism.pipeline_parallel_degree 2 --parallelism.pipeline_parallel_microbatch_size 4", "--micro-batch-size 4 --micro-batches 2")):
        proposed, _ = translated(busbar, "plan", *line.split(), *others.split())
        assert set(re.findall(r"--micro-batch\S+ [0-9]+", proposed)) == set(re.findall(r"--\S+ [0-9]+", ours))


def test_a_line_of_megatron_without_loss_fusion_has_float_copies_of_the_logits(busbar):
    """GPT-2 has 50257 tokens: a micro-batch of 8 x 1024 positions has 4 bytes more for each logit."""
    memory = []
    for fusion in ("", "--cross-entropy-loss-fusion"):
        line, _ = translated(busbar, "plan", *f"transformer --model gpt2_small --ranks 8 --bf16 --micro-batch-size 8 --seq-length 1024 --swiglu {fusion}".split())
        memory.append(json.loads(busbar.run(*line.split(), "--json", "-", emulated=False).stdout)["roles"][0]["training_memory_bytes"]["total"])
    logits = 8 * 1024 * 50257
    assert memory[0] - memory[1] == 4 * logits, memory


LAUNCHED = [  # line of another tool, begin of the proposed command, what the user did not give
    ("torchrun --nproc_per_node 8 --nnodes 1 pretrain_gpt.py --tensor-model-parallel-size 8 --num-layers 40 --hidden-size 5120 --num-attention-heads 40 "
     "--seq-length 2048 --micro-batch-size 4 --vocab-size 50257", "transformer --gpus-per-node 8 --ranks 8 --tp 8", None),
    ("CUDA_DEVICE_MAX_CONNECTIONS=1 torchrun --nproc-per-node=8 --nnodes=4 --rdzv_backend c10d pretrain_gpt.py --model llama3_8b --bf16",
     "transformer --gpus-per-node 8 --ranks 32", None),
    ("python pretrain_gpt.py --tensor-model-parallel-size 8 --bf16", "transformer --tp 8", "--model is missing"),
    ("srun -N 4 python pretrain_gpt.py --tensor-model-parallel-size 8 --model llama3_8b --bf16", "transformer --ranks 32 --tp 8", None),
    ("srun -N 4 -n 16 --ntasks-per-node 4 python pretrain_gpt.py --tensor-model-parallel-size 4 --model llama3_8b", "transformer --ranks 16 --gpus-per-node 4 --tp 4", None),
    ("mpirun -np 16 -N 8 python train.py --tp-size 2 --model llama3_8b", "transformer --ranks 16 --gpus-per-node 8 --tp 2", None),
    ("srun -N4 -n16 --ntasks-per-node 4 python pretrain_gpt.py --tensor-model-parallel-size 4 --model llama3_8b", "transformer --ranks 16 --gpus-per-node 4 --tp 4", None),
    ("srun -N4 pretrain_gpt.py --tensor-model-parallel-size 8 --model llama3_8b", "transformer --ranks 32 --tp 8", None),
    ("torchrun --nproc_per_node 8 train.py --model.name deepseek_v3 --model.flavor 671B --parallelism.expert_parallel_degree 8",
     "transformer --gpus-per-node 8 --model deepseek_v3 --ep 8 --dp-sync zero3 --ranks 8", None),
    ("python -m torch.distributed.run --nproc_per_node 4 pretrain_gpt.py --tensor-model-parallel-size 4 --model llama3_8b --overlap-grad-reduce",
     "transformer --gpus-per-node 4 --tp 4 --model llama3_8b --loss unfused --ranks 4", None),
    ("torchrun --nproc_per_node 8 train.py --model.name llama3 --model.flavor 8B --parallelism.data_parallel_replicate_degree 2",
     "transformer --gpus-per-node 8 --model llama3_8b --dp-sync hsdp --dp 8 --shard-size 4 --recompute ops --ranks 8", None),
    ("accelerate launch train.py --num_processes 8 --bf16", "transformer --ranks 8 --dtype bfloat16", "--model is missing"),
    ("accelerate launch --num_processes 8 --use_fsdp train.py --model llama3_8b", "transformer --ranks 8 --dp-sync zero3", None),
    ("deepspeed --num_gpus 8 train.py --deepspeed --zero-stage 3 --model llama3_8b", "transformer --ranks 8 --dp-sync zero3", None),
    ("torchrun --nproc_per_node 8 run_clm.py --model_name_or_path llama3_8b --bf16 --per_device_train_batch_size 2 --block_size 1024",
     "transformer --gpus-per-node 8 --model llama3_8b", None),
    ("transformer torchrun --nproc_per_node 8 --nnodes 2 -m torchtitan.train --model llama3_8b --training.seq_len 8192", "transformer --gpus-per-node 8 --ranks 16", None),
    ("megatron --tp-size 2 --gpus 8 --model llama3_8b", "transformer --tp 2 --ranks 8", None), ("--tp-size 2 --gpus 8 --model llama3_8b", "transformer --tp 2 --ranks 8", None),
    ("bash pretrain.sh --tp-size 2 --gpus 8 --model llama3_8b", "transformer --tp 2 --ranks 8", None),
    ("python benchmark_amoebanet_sp.py --num-spatial-parts 4 --parts 2 --model amoebanet_d --gpus 8", "spatial --spatial-parts 4 --micro-batches 2", None)]


@pytest.mark.parametrize("typed,begin,missing", LAUNCHED)
def test_launcher_and_script_become_the_proxy(busbar, tmp_path, typed, begin, missing):
    """The proposed command runs, or lacks only what the line lacks."""
    line, notes = translated(busbar, "plan", *typed.split())
    assert f"{line} ".startswith(f"plan {begin} ") and not any("busbar bench" in text for _, text in notes), (line, notes)
    if notes and notes[0][0] == "model.json":
        (tmp_path / "model.json").write_text(notes[0][1])
    done = busbar.run(*shlex.split(line), emulated=False, cwd=tmp_path)
    assert missing in done.stderr if missing else done.returncode == 0, done.stderr


BERT = "torchrun --nproc_per_node 8 --nnodes 2 pretrain_bert.py --num-layers 24 --hidden-size 1024 --num-attention-heads 16 --seq-length 512 --max-position-embeddings 512 --micro-batch-size 4 --vocab-size 30522 --fp16"


def test_attention_of_bert_has_no_causal_mask(busbar, tmp_path):
    """A mask hides half of the 4 s^2 h FLOPs of a layer's scores and context; a step has three times those of forward."""
    flops = []
    for script in ("pretrain_bert.py", "pretrain_gpt.py"):
        line, notes = translated(busbar, "plan", *BERT.replace("pretrain_bert.py", script).split(), "--cluster", "a100-sxm-ib")
        assert json.loads(notes[0][1]).get("bidirectional", False) == ("bert" in script) == any("no causal mask; its two small heads" in text for _, text in notes)
        (tmp_path / "model.json").write_text(notes[0][1])
        plan = json.loads(busbar.run(*line.split(), "--json", "-", emulated=False, cwd=tmp_path).stdout)
        predicted = plan["predicted"]
        masked = predicted["model_flop_utilisation_causal"] and predicted["model_flop_utilisation"] - predicted["model_flop_utilisation_causal"]
        flops.append(masked and masked * predicted["compute"]["tflops"] * predicted["step_us"] * 1e6 / 4)  # a GPU has 4 samples
    assert flops == [None, pytest.approx(3 * 24 * 2 * 512 ** 2 * 1024, rel=1e-3)]


@pytest.mark.parametrize("script", ["pretrain_t5.py", "pretrain_hybrid.py", "pretrain_mamba.py"])
def test_scripts_of_models_that_options_do_not_describe_are_rejected(busbar, script):
    line = refusal(busbar, *BERT.replace("pretrain_bert.py", script).split())
    assert line.startswith(f"{script}: ") and "--model config.json" in line


@pytest.mark.parametrize("layers,typed,stages", [  # layers of Llama 3 8B, options, layers of each stage: Megatron-LM counts embedding or head as a layer
    (32, "--pipeline-model-parallel-size 2 BOTH", [16, 16]), (30, "--pipeline-model-parallel-size 4 BOTH", [7, 8, 8, 7]),
    (30, "--pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 4 BOTH", [7, 8, 8, 7]), (31, "--pipeline-model-parallel-size 4 EMBEDDING", [7, 8, 8, 8]),
    (31, "--pipeline-model-parallel-size 4 LOSS", [8, 8, 8, 7]), (31, "--pipeline-model-parallel-size 2 LOSS", [16, 15]),
    (31, "--pipeline-model-parallel-size 4 --num-virtual-stages-per-pipeline-rank 2 LOSS", [8, 8, 8, 7]), (31, "--pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 2 EMBEDDING", [7, 8, 8, 8]),
    (32, "EMBEDDING", [32])])
def test_embedding_and_head_count_as_layers_of_the_pipeline(busbar, layers, typed, stages):
    embedding, loss = "--account-for-embedding-in-pipeline-split", "--account-for-loss-in-pipeline-split"
    typed = typed.replace("BOTH", f"{embedding} {loss}").replace("EMBEDDING", embedding).replace("LOSS", loss)
    line, notes = translated(busbar, "plan", *f"torchrun --nproc_per_node 8 --nnodes 1 pretrain_gpt.py --model llama3_8b --num-layers {layers} {typed}".split())
    assert not any(head == "by hand" for head, _ in notes), notes
    plan = json.loads(busbar.run(*shlex.split(line), "--dtype", "bfloat16", "--json", "-", emulated=False).stdout)
    layer, table = 218112000, 128256 * 4096  # parameters of a layer: 2 h^2 + 2 h h/4 + 3 h 14336 + 2 h; embedding; head with the norm
    for at, role in enumerate(plan["roles"]):
        assert role["training_memory_bytes"]["parameters"] == 2 * (layer * stages[at] + table * (at == 0) + (table + 4096) * (at == len(stages) - 1))
    assert len(plan["roles"]) == len(stages)


SETTINGS = "give its values, for example: --model config.json --ranks 8 --dtype bfloat16 --dp-sync zero3 --micro-batch-size 1 --micro-batches 8 --seq-length 4096"


@pytest.mark.parametrize("typed,files,programs", [
    ("torchrun --nproc_per_node 8 src/train.py x.yaml", "x.yaml", "torchrun src/train.py"), ("llamafactory-cli train x.yaml", "x.yaml", "llamafactory-cli train"),
    ("axolotl train x.yml", "x.yml", "axolotl train"), ("accelerate launch -m axolotl.cli.train x.yaml", "x.yaml", "accelerate launch"),
    ("python deepy.py train.py -d configs a.yml b.yml", "a.yml b.yml", "python deepy.py train.py"), ("./deepy.py train.py configs/a.yml", "configs/a.yml", "./deepy.py train.py"),
    ("accelerate launch --num_processes 8 --num_machines 1 train.py recipe.toml --bf16", "recipe.toml", "accelerate launch train.py")])
def test_files_of_settings_are_not_read(busbar, tmp_path, typed, files, programs):
    done = busbar.run("plan", *typed.split(), emulated=False)
    first, *notes = done.stderr.splitlines()
    assert done.returncode == 2 and first.startswith(f"busbar: options of another tool; the command lacks those in {files.split()[0]}, which is not read; try: busbar plan transformer"), first
    assert f"  not read: {files}: {SETTINGS}" in notes and any(note.startswith(f"  left out: {programs}: ") for note in notes), notes
    assert not any("datatype" in note for note in notes)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama", "num_hidden_layers": 4, "max_position_embeddings": 4096}))
    example = SETTINGS.split("example: ")[1].replace(" --ranks 8", " --ranks 8" * (" --ranks" not in first)).replace(" --dtype bfloat16", " --dtype bfloat16" * (" --dtype" not in first))
    assert busbar.run(*first.split("; try: busbar ")[1].split(), *example.split(), "--quiet", emulated=False, cwd=tmp_path).returncode == 0


@pytest.mark.parametrize("typed", ["torchrun --nproc_per_node 8 --nnodes 2 pretrain_gpt.py --tensor-model-parallel-size 2 --seed 1234 --bf16", "torchrun --nproc_per_node 8 train.py --training.seed 42 --training.seq_len 8192",
                                   "torchrun --nproc_per_node 8 run_clm.py --seed 42 --bf16 --per_device_train_batch_size 1", "deepspeed --num_gpus 8 train.py --deepspeed --zero_stage 3 --seed=1234"])
def test_the_seed_of_another_tool_is_left_out(busbar, typed):
    """busbar's own seed is one of random durations."""
    line, notes = translated(busbar, "plan", *typed.split(), "--model", "llama3_8b")
    assert "seed" not in line and any(head == "left out" and "seed: without influence" in text for head, text in notes), notes
    assert busbar.run(*line.split(), "--quiet", emulated=False).returncode == 0
    assert "--seed 7" in translated(busbar, "plan", *"transformer --model llama3_8b --world-size 8 --tp-size 2 --seed 7 --jitter 3% --cluster h100-sxm-ib".split())[0]


@pytest.mark.parametrize("name", """vocab-file merge-file transformer-impl rampup-batch-size use-mcore-models no-load-optim max-position-embeddings save
                                    split save-interval weight-decay""".split())
def test_options_without_influence_are_left_out(busbar, name):
    assert refusal(busbar, "transformer", "--seq-length", 4096, f"--{name}", 8192).endswith("; leave it out")


def test_a_launch_script_runs_with_the_translation(busbar, tmp_path):
    """A script is not read. With the replaced word, it prints the translated command of its torchrun."""
    for words in ("bash pretrain.sh", "./pretrain.sh", "sh pretrain.sh"):
        assert refusal(busbar, *words.split()).endswith(": a script is not read; in it, replace torchrun by busbar plan torchrun, and run it")
    (tmp_path / "pretrain.sh").write_text('ARGS="--nproc-per-node 8"\nbusbar plan torchrun $ARGS pretrain_gpt.py --tensor-model-parallel-size 8 --model llama3_8b --bf16\n'.replace("busbar", str(busbar.build / "busbar"), 1))
    done = subprocess.run(["sh", "pretrain.sh"], cwd=tmp_path, capture_output=True, text=True)
    assert "try: busbar plan transformer --gpus-per-node 8 --tp 8 --model llama3_8b --dtype bfloat16" in done.stderr


@pytest.mark.parametrize("program,launches", [("torchrun", True), ("deepspeed", True), ("megatron", False)])
def test_help_of_a_launcher_is_that_of_its_proxy(busbar, program, launches):
    done = busbar.run("plan", program, "--help", emulated=False)
    assert done.returncode == 0 and "busbar plan transformer" in done.stdout and (f"replace {program} by busbar plan {program}" in done.stdout) == launches
    assert "replace torchrun by busbar plan torchrun" in busbar.run("plan", "--help", emulated=False).stdout


FILE = {"zero_optimization": {"stage": 3, "overlap_comm": True}, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 4, "bf16": {"enabled": True},
        "optimizer": {"type": "AdamW"}, "gradient_clipping": 1.0}


@pytest.mark.parametrize("keys,typed,ours", [  # keys of the file, options of the line, options of the command on 16 ranks
    ({}, "", "--dp-sync zero3 --micro-batch-size 2 --micro-batches 4 --dtype bfloat16 --optimizer adam"), ({}, "--per_device_train_batch_size 1", "--micro-batch-size 1 --micro-batches 4"),
    ({"train_batch_size": 128}, "", "--global-batch-size 128 --micro-batch-size 2"),
    ({"train_batch_size": 128.0, "train_micro_batch_size_per_gpu": 2e0}, "", "--global-batch-size 128 --micro-batch-size 2"),
    ({"train_batch_size": 128, "train_micro_batch_size_per_gpu": "auto"}, "", "--global-batch-size 128 --micro-batch-size 2"),
    ({"zero_optimization": {"stage": 1}, "bf16": {"enabled": False}, "fp16": {"enabled": True}}, "", "--dp-sync zero1 --dtype half --micro-batches 4"),
    ({"gradient_accumulation_steps": "auto", "optimizer": {"type": "SGD"}}, "", "--optimizer sgd --micro-batch-size 2"),
    ({}, "", "--grad-dtype bfloat16 --micro-batches 4"), ({"communication_data_type": "fp32"}, "", "--grad-dtype float --micro-batches 4"),  # communication_data_type() of engine.py
    ({"zero_optimization": {"stage": 3, "mics_shard_size": 8}}, "", "--dp-sync hsdp --shard-size 8 --micro-batches 4"),
    ({"zero_optimization": {"stage": 1}, "tensor_parallel": {"autotp_size": 4}}, "", "--tp 4 --dp-sync zero1 --micro-batches 4"),
    ({"communication_data_type": "fp16"}, "", "--grad-dtype half --micro-batches 4"),
    ({"zero_optimization": {"stage": 1}, "bf16": {"enabled": False}, "fp16": {"enabled": True}}, "", "--grad-dtype half --micro-batches 4")])
@pytest.mark.parametrize("option", ["--deepspeed --deepspeed_config ds.json", "--deepspeed ds.json", "--deepspeed_config=ds.json", "--use_deepspeed --deepspeed_config_file ds.json"])
def test_the_file_of_deepspeed_is_read(busbar, tmp_path, keys, typed, ours, option):
    (tmp_path / "ds.json").write_text(json.dumps({**FILE, **keys}))
    done = busbar.run("plan", *f"deepspeed --num_gpus 8 --num_nodes 2 train.py --model llama3_8b {option} {typed}".split(), emulated=False, cwd=tmp_path)
    line = done.stderr.splitlines()[0].split("; try: busbar ")[1]
    assert "not read" not in done.stderr and set(re.findall(r"--\S+ \S+", ours)) <= set(re.findall(r"--\S+ [^-]\S*", line)), done.stderr
    assert ("--micro-batches" in line) == ("--micro-batches" in ours)
    assert busbar.run(*line.split(), "--quiet", emulated=False).returncode == 0


@pytest.mark.parametrize("typed,samples", [
    ("--deepspeed_config ds.json", 64), ("--deepspeed_config ds.json --global-batch-size 128", 128), ("--global-batch-size 64 --global-batch-size 128", 128)])
def test_tokens_are_those_of_the_last_batch(busbar, tmp_path, typed, samples):
    """As in every option parser, the last value holds, and options hold before a file."""
    (tmp_path / "ds.json").write_text(json.dumps({"train_batch_size": 64}))
    words = f"deepspeed --num_gpus 8 --num_nodes 1 train.py {typed} --train-iters 100 --model llama3_8b --cluster h100-sxm-ib --seq-length 4096"
    done = busbar.run("plan", *words.split(), emulated=False, cwd=tmp_path)
    assert f"--tokens {samples * 4096 * 100} " in done.stderr.splitlines()[0] + " ", done.stderr


def test_what_is_read_of_the_file_of_deepspeed_is_named(busbar, tmp_path):
    (tmp_path / "ds.json").write_text(json.dumps({**FILE, "data_types": {"grad_accum_dtype": "fp32"}}))
    done = busbar.run("plan", *"deepspeed --num_gpus 8 train.py --model llama3_8b --deepspeed ds.json".split(), emulated=False, cwd=tmp_path)
    assert ("read: --deepspeed: stage=3 train_micro_batch_size_per_gpu=2 gradient_accumulation_steps=4 bf16=true optim=AdamW" in done.stderr
            and "left out: --deepspeed" not in done.stderr and "left out: grad_accum_dtype: sums of gradients in another type" in done.stderr), done.stderr


@pytest.mark.parametrize("typed,ours", [("--fsdp_activation_checkpointing true", "--recompute full"), ("--quantize.linear.mx.recipe_name mxfp8_cublas", "--gemm-precision mxfp8"),
                                        ("--use_peft", "--lora-rank 16"), ("--model.converters float8", "--fp8"), ("--model.converters=quantize.linear.float8", "--fp8"), ("--do_train --packing true --fsdp_auto_wrap_policy TRANSFORMER_BASED_WRAP", "--dtype bfloat16")])
def test_options_of_training_scripts_are_known(busbar, typed, ours):
    done = busbar.run("plan", *f"torchrun --nnodes 1 --nproc-per-node 8 train.py --model llama3_8b --bf16 {typed}".split(), emulated=False)
    assert ours in done.stderr.splitlines()[0] and "not known" not in done.stderr, done.stderr


def test_no_offload_is_advised_that_zero3_refuses(busbar, tmp_path):
    (tmp_path / "ds.json").write_text(json.dumps({**FILE, "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}}}))
    done = busbar.run("plan", *"deepspeed --num_gpus 8 train.py --model llama3_8b --deepspeed ds.json".split(), emulated=False, cwd=tmp_path)
    assert "offload_optimizer: not modelled; --optimizer-cpu-offload requires --dp-sync distributed" in done.stderr and "similar" not in done.stderr


@pytest.mark.parametrize("zero,overlaps,note", [  # DeepSpeed's default of overlap_comm is true for stage 3 alone
    ({"stage": 1}, False, "added: --no-overlap"), ({"stage": 1, "overlap_comm": True}, True, None), ({"stage": 2}, True, "not modelled: overlap_comm false"),
    ({"stage": 3}, True, None), ({"stage": 3, "overlap_comm": False}, True, "not modelled: overlap_comm false"), ({"stage": 3, "reduce_bucket_size": 5e8, "reduce_scatter": True}, True, None),
    ({"stage": 3, "reduce_scatter": False, "unheard_of": 1}, True, "not read: reduce_scatter unheard_of"), ({"stage": 3, "zero_quantized_weights": True}, True, "ZeRO++")])
def test_other_keys_of_the_file_of_deepspeed_are_not_lost(busbar, tmp_path, zero, overlaps, note):
    (tmp_path / "ds.json").write_text(json.dumps({**FILE, "zero_optimization": zero}))
    done = busbar.run("plan", *"deepspeed --num_gpus 8 train.py --model llama3_8b --deepspeed ds.json".split(), emulated=False, cwd=tmp_path)
    line = done.stderr.splitlines()[0].split("; try: busbar ")[1]
    assert ("--no-overlap" not in line) == overlaps and busbar.run(*line.split(), "--quiet", emulated=False).returncode == 0, done.stderr
    assert note in done.stderr if note else not re.search("not read|not modelled|--no-overlap", done.stderr), done.stderr


SHARDED = " --zero-reduce allreduce --bucket-rule deepspeed --no-overlap"
IN_FLOAT = {"data_types": {"grad_accum_dtype": "fp32"}}
MEGATRON_GPT = "pretrain_gpt.py --num-layers 24 --hidden-size 2048 --num-attention-heads 16 --vocab-size 50257 --max-position-embeddings 2048 --train-iters 9"


@pytest.mark.parametrize("keys,typed,stage", [  # keys of the file, program and options, the stage that the command has
    ({"zero_optimization": {"stage": 0}}, MEGATRON_GPT, "sharded"), ({"zero_optimization": None}, MEGATRON_GPT, "sharded"),
    ({"zero_optimization": {"stage": 0}}, f"{MEGATRON_GPT} --pipeline-model-parallel-size 2", "sharded"),
    ({"zero_optimization": {"stage": 0}}, f"{MEGATRON_GPT} --no-pipeline-parallel", "all_reduce"),
    ({"zero_optimization": {"stage": 0}}, "train.py --model llama3_8b", "all_reduce"), ({"zero_optimization": {"stage": 0}, **IN_FLOAT}, "train.py --model llama3_8b", "sharded"),
    ({"zero_optimization": {"stage": 1}, **IN_FLOAT}, "train.py --model llama3_8b", "sharded"), ({"zero_optimization": {"stage": 1}}, "train.py --model llama3_8b", "zero1"),
    ({"zero_optimization": {"stage": 1, "offload_optimizer": {"device": "cpu"}}, **IN_FLOAT}, "train.py --model llama3_8b", "zero1"),
    ({"zero_optimization": {"stage": 2}, **IN_FLOAT}, "train.py --model llama3_8b", "zero2"),
    ({"zero_optimization": {"stage": 0}, "bf16": {"enabled": False}, "fp16": {"enabled": True}}, MEGATRON_GPT, "all_reduce")])
def test_the_bf16_optimizer_of_deepspeed_shards_without_zero(busbar, tmp_path, keys, typed, stage):
    """_do_optimizer_sanity_check of DeepSpeed 0.19: BF16_Optimizer in a pipeline of stage 0, and of stage 1 with sums in float; before 0.17.6 also of stage 0."""
    (tmp_path / "ds.json").write_text(json.dumps({key: value for key, value in {**FILE, **keys}.items() if value is not None}))
    line, notes = translated(busbar, "plan", *f"deepspeed --num_gpus 8 --num_nodes 2 {typed} --deepspeed --deepspeed_config ds.json".split(), cwd=tmp_path)
    for head, text in notes:
        if head == "model.json":
            (tmp_path / "model.json").write_text(text)
    assert (SHARDED in line) == (stage == "sharded") and f"--dp-sync {'zero1' if stage == 'sharded' else stage} " in f"{line} --dp-sync all_reduce ", line
    assert line.count("--no-overlap") <= 1 and any("before 0.17.6" in text for _, text in notes) == (stage == "all_reduce" and "--dtype bfloat16" in line), notes
    plan = json.loads(busbar.run(*line.split(), "--json", "-", emulated=False, cwd=tmp_path).stdout)
    role, dp = plan["roles"][0], 16 // (2 if "--pipeline-model" in typed else 1)
    # Adam: float parameters and two states of the shard, 12 bytes per parameter, whose 16-bit value has 2 bytes
    whole = 6 * role["training_memory_bytes"]["parameters"]
    assert role["training_memory_bytes"]["optimizer"] == pytest.approx(whole / (1 if stage == "all_reduce" else dp), rel=1e-3)


def test_a_file_that_is_not_read_is_named_before_the_command(busbar, tmp_path):
    (tmp_path / "broken.json").write_text("{")
    for words in ("deepspeed --num_gpus 8 train.py --bf16 --deepspeed_config FILE", "torchrun --nproc_per_node 8 train.py --training.seq_len 8192 --job.config_file FILE"):
        for name in ("broken.json", "missing.json"):
            done = busbar.run("plan", *words.replace("FILE", name).split(), "--model", "llama3_8b", emulated=False, cwd=tmp_path)
            assert done.stderr.startswith(f"busbar: options of another tool; the command lacks those in {name}, which is not read; try: busbar plan ")
            assert "give its values, for example: --" in done.stderr


def test_a_fraction_in_the_file_of_deepspeed_is_named(busbar, tmp_path):
    (tmp_path / "ds.json").write_text(json.dumps({**FILE, "train_batch_size": 64.5}))
    done = busbar.run("plan", *"deepspeed --num_gpus 8 train.py --model llama3_8b --deepspeed ds.json".split(), emulated=False, cwd=tmp_path)
    assert "  not read: train_batch_size: expected an integer\n" in done.stderr and "--micro-batch-size 2" in done.stderr, done.stderr


def test_reductions_of_one_bit_are_named_as_not_modelled(busbar, tmp_path):
    (tmp_path / "ds.json").write_text(json.dumps({**FILE, "optimizer": {"type": "OneBitAdam"}}))
    done = busbar.run("plan", *"deepspeed --num_gpus 8 train.py --model llama3_8b --deepspeed ds.json".split(), emulated=False, cwd=tmp_path)
    assert "  left out: optim: the compressed reductions of 1-bit Adam are not modelled; " in done.stderr and "--optimizer" not in done.stderr.splitlines()[0], done.stderr


def test_a_pipe_without_writer_as_the_file_of_deepspeed_is_not_read(busbar, tmp_path):
    os.mkfifo(tmp_path / "ds.json")
    done = busbar.run("plan", *"deepspeed --num_gpus 8 train.py --model llama3_8b --deepspeed ds.json".split(), emulated=False, cwd=tmp_path, timeout=20)
    assert done.returncode == 2 and "the command lacks those in ds.json, which is not read" in done.stderr, done.stderr


@pytest.mark.parametrize("words,shell", [("sbatch x.sh", "sbatch"), ("sbatch -N 4 --ntasks-per-node 8 x.sh", "sbatch"), ("sh -x x.sh", "sh"),
                                         ("srun -N 4 bash -c 'torchrun --nproc_per_node 8 train.py --bf16'", "bash")])
def test_options_of_a_shell_are_no_options_of_training(busbar, words, shell):
    done = busbar.run("plan", *shlex.split(words), emulated=False)
    assert done.returncode == 2 and done.stderr == f"busbar: {shell}: a script is not read; in it, replace torchrun by busbar plan torchrun, and run it\n"


@pytest.mark.parametrize("value,is_known", [("op", True), ("2", True), ("0", False), ("-1", False), ("abc", False)])
def test_only_valid_options_of_selective_recomputation_are_translated(busbar, value, is_known):
    """torchtitan: "op", or the N of every n-th layer."""
    done = busbar.run("plan", "transformer", *f"--model llama3_8b --ranks 8 --activation_checkpoint.mode selective --activation_checkpoint.selective_ac_option {value}".split(), emulated=False)
    assert ("selective_ac_option: expected op, or N of 1 or more for every n-th layer" not in done.stderr) == is_known, done.stderr


def test_values_are_converted(busbar):
    """Each value of a conversion table leads to a value of busbar's option."""
    for names, ours, _, values in OPTIONS:
        name = names.split()[0]
        if not ours:  # keys of a model's file
            continue
        for value, converted in re.findall(r"(\S+)=(\S+)", values):
            assert refusal(busbar, "transformer", f"--{name}", value.upper()) == f"--{name} is {ours} here; try: {ours} {converted}"
            assert_options_exist(busbar, f"{ours} {converted}")


@pytest.mark.parametrize("typed,answer", [
    ("--tensor-model-parallel-size 8", "--tp 8"), ("--pipeline-model-parallel-size=4", "--pp 4"), ("--zero 3", "--dp-sync zero3"),
    ("--recompute-granularity selective", "--recompute selective"), ("--nodes 8", "--ranks 64 (if a node has 8 GPUs); with --ranks, leave it out"), ("--gpus 64", "--ranks 64"),
    ("--ddp-bucket-size 40000000", "--bucket-mb 152.6 (MiB, with 4 bytes per parameter)"),
    ("--hybrid-shard", "--dp-sync hsdp"), ("--tensor_model_parallel_size 8", "--tp 8"), ("--parallelism.tensor_parallel_degree 8", "--tp 8"), ("--fp8-format hybrid", "--fp8"),
    ("--use-distributed-optimizer", "--dp-sync distributed"), ("--checkpoint-activations", "--recompute full"), ("--dp-size 4", "--dp 4"),
    ("--num-virtual-stages-per-pipeline-rank 3", "--vpp 3"), ("--activation_checkpoint.mode full", "--recompute full"),
    ("--activation_checkpoint.mode selective", "--recompute ops"),
    ("--moe-expert-capacity-factor 1.5", "--capacity-factor 1.5"), ("model.context_parallel_size=2", "--cp 2"),
    ("--micro-batch 2", "--micro-batch-size 2"), ("--strategy ddp", "--dp-sync all_reduce"), ("--sharding-strategy FULL_SHARD", "--dp-sync zero3"),
    ("--deepspeed-stage 2", "--dp-sync zero2"), ("--amp", "--dtype bfloat16"), ("--list-models", "busbar list models"),
    ("--framework pytorch", "--software torch"), ("--context-length 8192", "--seq-length 8192"), ("--reduce-dtype float32", "--grad-dtype float"),
    ("--flash-attention", "--attention fused"), ("--compile", "--software torch-compile"), ("--attention-backend flash", "--attention fused"),
    ("--num-microbatches 8", "--micro-batches 8"), ("--peft lora", "--lora-rank 16"), ("--adapter lora", "--lora-rank 16"), ("-g 16", "--ranks 16"), ("--lora", "--lora-rank 16"),
    ("--target-modules all-linear", "--lora-targets all"), ("--cutoff_len 2048", "--seq-length 2048"), ("--flash-attn", "--attention fused")])
def test_names_of_training_frameworks_keep_their_values(busbar, typed, answer):
    assert refusal(busbar, "transformer", *typed.split()).endswith(f"; try: {answer}")


@pytest.mark.parametrize("typed,answer", [
    ("--steps 1000", "is --steps (proxy) or --tokens N (plan of a step; that of a collective has no iterations) here (for example --tokens 15T)"),
    ("--warmup 5", "a plan predicts one step or operation; busbar proxy and busbar bench have a warm-up"), ("--memory 40G", "is --gpu-memory here"),
    ("--batch-size 64", "is --micro-batch-size (per GPU, as in PyTorch) or --global-batch-size here"), ("--epochs 2", "; scaling has it, plan transformer has --tokens"),
    ("--format json", "--format=json is --json FILE (-: stdout) here (for example --json -)"),
    ("--fsdp", "is --dp-sync here (for example --dp-sync zero3)"), ("--ddp", "DDP is the default"), ("--dp-sync ddp", "did you mean 'all_reduce'?"),
    ("--model gpt2", "did you mean 'gpt2_small'?"), ("--cluster a100", "did you mean 'a100-sxm-ib'?")])
def test_names_of_another_meaning_have_no_number_of_the_user(busbar, typed, answer):
    assert answer in refusal(busbar, "transformer", *(() if "--model" in typed else ("--model", "gpt2_small")), *typed.split())


@pytest.mark.parametrize("proxy", ["resnet152", "dlrm"])
def test_proxies_without_sync_name_those_that_have_a_choice(busbar, proxy):
    line = refusal(busbar, proxy, "--sync", "zero3")
    assert line.endswith(": this proxy does not support --sync; data_parallel has it (data_parallel --model resnet50 --sync zero3), transformer has --dp-sync")
    assert busbar.run("plan", *re.search(r"\((.*)\)", line)[1].split(), "--ranks", 4, emulated=False).returncode == 0


def test_proxies_with_a_fixed_batch_name_it(busbar):
    assert refusal(busbar, "dlrm", "--micro-batch-size", 4) == "dlrm: this proxy does not support --micro-batch-size; the proxy sets its own batch"


def test_data_parallel_names_its_own_option(busbar):
    assert refusal(busbar, "data_parallel", "--dp-sync", "zero3").endswith("--dp-sync; data_parallel has --sync")


@pytest.mark.parametrize("typed,answer", [("-o mean", "avg"), ("--dtype half", "--datatype"), ("-J x", "--json"), ("--output x", "--json"),
                                          ("--format json", "--json"), ("--ngpus 4", "--gpus 4"), ("--ranks 4", "--gpus 4"),
                                          ("--nproc_per_node=4", "--gpus 4"), ("--nproc-per-node 4", "--gpus 4")])
def test_options_of_bench_are_answered(busbar, typed, answer):
    done = busbar.run("bench", "all_reduce", *typed.split())
    assert done.returncode == 2 and re.search(rf"did you mean '{answer}'|(try:|example) {answer}( |$)", done.stderr)


def test_the_suggestion_has_the_number_of_the_user(busbar):
    assert refusal(busbar, "spatial", "--split-size", "3").endswith("is --splits here; try: --splits 3")
    assert refusal(busbar, "spatial", "--num-spatial-parts=8,4").endswith("try: --spatial-parts 8,4")
    assert refusal(busbar, "gems", "--times", "3").endswith("try: --replications 6")  # 3 passes there are 6 here
    assert refusal(busbar, "gems", "--enable-master-comm-opt", "3").endswith("try: --comm-opt")
    assert refusal(busbar, "spatial", "--slice-method", "1").endswith("(for example --slice vertical)")


def test_foreign_programs_are_answered(busbar):
    for names, ours, text in PROGRAMS:
        for name in names.split():
            assert refusal(busbar, f"./{name}.py") == (f"./{name}.py is {ours} here; try: {text}" if ours else f"./{name}.py: {text}")
        if not ours:
            continue
        ranks = RANKS.get(text.split()[0], 8)
        done = busbar.run("plan", *text.split(), "--ranks", ranks, emulated=False)
        assert done.returncode == 0, (text, done.stderr)


@pytest.mark.parametrize("command,typed,answer", [
    ("proxy gpt3", "--best-layout", "busbar-emulated plan has --best-layout"), ("proxy gpt3", "--tokens=15T", "busbar-emulated plan has --tokens"),
    ("bench all_reduce", "--nnodes 2", "mpirun or srun those of several"), ("bench all_reduce", "-t 1 -g 2", "-g N alone sets the number of ranks"), ("bench p2p", "--ranks=8", "--gpus 8"),
    ("bench compute", "--cluster h100-sxm-ib", "busbar-emulated plan all_reduce --ranks 64 --cluster h100-sxm-ib"),
    ("bench all_reduce", "--tp 8", "busbar-emulated proxy and busbar-emulated plan have this option"),
    ("bench all_reduce", "--model gpt3", "plan have this option")])
def test_options_of_other_commands_lead_to_them(busbar, command, typed, answer):
    done = busbar.run(*command.split(), *typed.split())
    assert done.returncode == 2 and answer in done.stderr and done.stderr.count("\n") == 1


def test_number_of_ranks_of_a_run_comes_from_mpirun(busbar):
    for option in ("--ranks=16", "--world-size=16", "--nodes=2"):
        done = busbar.run("proxy", "gpt3", option)
        assert done.returncode == 2 and done.stderr == f"busbar: {option.split('=')[0]} is mpirun -n here; try: mpirun -n 16 busbar-emulated proxy ...\n"


@pytest.mark.parametrize("model,proxy", [("llama3_70b", "transformer"), ("resnet18", "data_parallel"), ("amoebanet_d", "spatial"),
                                         ("resnet110_v2", "spatial")])
def test_model_in_place_of_a_proxy(busbar, model, proxy):
    assert refusal(busbar, model) == f"{model} is a model; try: busbar plan {proxy} --model {model} --ranks 4"


@pytest.mark.parametrize("typed,answer", [
    ("plan H100-SXM-IB", "busbar plan all_reduce --cluster h100-sxm-ib --ranks 8"), ("Plan gpt2_large --ranks 4", "busbar plan gpt2_large --ranks 4"),
    ("plan --ranks 64 llama3_70b", "busbar plan transformer --model llama3_70b --ranks 64"), ("proxy llama3_8b", "busbar proxy transformer --model llama3_8b"),
    ("llama3_8b", "busbar plan transformer --model llama3_8b --ranks 8"), ("bench gpt3", "busbar proxy gpt3"), ("plan p2p", "busbar bench p2p"),
    ("h100-sxm-ib", "busbar plan all_reduce --cluster h100-sxm-ib --ranks 8"), ("proxy all_reduce -e 1G", "busbar bench all_reduce -e 1G"),
    ("bench plan", "busbar plan"), ("list gpt3", "busbar proxy gpt3"), ("models", "busbar list models"), ("plan clusters", "busbar list clusters"),
    ("result.json", "busbar report result.json -o page.html"), ("plan config.json --ranks 2", "busbar plan transformer --model config.json --ranks 2")])
def test_names_at_the_wrong_place_lead_to_their_command(busbar, tmp_path, typed, answer):
    for name in ("result.json", "config.json"):
        (tmp_path / name).write_text("{}")
    done = busbar.run(*typed.split(), emulated=False, cwd=tmp_path)
    assert done.returncode == 2 and re.fullmatch(r"busbar: \S+ is a \w+; try: (.*)\n", done.stderr)[1] == answer
    if "json" not in typed and answer.startswith("busbar plan") and "--ranks" in answer:
        assert busbar.run(*answer.split()[1:], emulated=False).returncode == 0


def test_blanks_in_an_argument_of_a_misplaced_name_cause_no_other_error(busbar):
    done = busbar.run("bench", "gpt3", "--json", "a b.json", emulated=False)
    assert done.returncode == 2 and done.stderr == "busbar: gpt3 is a proxy; try: busbar proxy gpt3 --json 'a b.json'\n"


@pytest.mark.parametrize("typed", [
    "plan llama3-8b --gpus 8 --cluster h100", "plan llama3_8b --nodes 2", "plan llama3-8b --ranks 8 --zero 3 --cluster a100",
    "plan transformer --model llama3_8b --fsdp --ranks 8", "plan gpt3_1_3b --tensor-model-parallel-size 4 --gpus 8", "plan mixtral --gpus 8",
    "plan megatron --gpus=4", "plan transformr --model llama3_8b --ranks 8", "plan transformer --model llama3-8 --ranks 8 --deepspeed-stage 2",
    "plan resnet18 --world-size 4", "plan data_parallel --ranks 8 --global-batch-size 64", "llama3_8b --num_gpus 8", "plan allreduce --gpus 8 --cluster h100",
    "plan transformer --model llama3_8b --ranks 8 --format json", "plan --ranks 8 llama3_8b --gbs 64"])
def test_what_is_printed_can_be_typed_until_the_command_runs(busbar, typed):
    """At most four lines lead to a command that runs. A whole command runs as it is printed."""
    words = typed.split()
    for _ in range(5):
        done = busbar.run(*words, emulated=False)
        if done.returncode == 0:
            return
        assert done.returncode == 2 and all(line.startswith("  ") for line in done.stderr.splitlines()[1:])
        if command := re.search(r"try: busbar (.+)", done.stderr):
            assert busbar.run(*command[1].split(), emulated=False).returncode == 0, done.stderr
            return
        if near := re.search(r"'(\S+)', did you mean '(\S+)'", done.stderr):
            words = [near[2] if word == near[1] else word for word in words]
        elif option := re.search(r"(--\S+?)(=\S*)? is --.* here(?:; try: | \(for example )([^;()]+)", done.stderr):
            at = next(i for i, word in enumerate(words) if word.split("=")[0] == option[1])
            has_value = "=" not in words[at] and not words[at + 1].startswith("--")
            words[at:at + 1 + has_value] = option[3].split()
        elif program := re.search(r"^busbar: (\S+) is .* here; try: ([a-z].+)", done.stderr):
            words[words.index(program[1]):words.index(program[1]) + 1] = program[2].split()
        else:
            words += re.search(r"; try: .*(--micro-batch-size \d+)", done.stderr)[1].split()
    raise AssertionError(done.stderr)


def test_files_may_have_the_names_of_commands(busbar, tmp_path):
    (tmp_path / "plan").write_text("{}")
    assert "plan is a command" not in busbar.run("compare", "plan", "plan", emulated=False, cwd=tmp_path).stderr


@pytest.mark.parametrize("command, typed, ours", [
    ("all_reduce", "--warmup 1", "--warmup_iters 1"), ("all_reduce", "--warmup=8", "--warmup_iters 8"), ("comm", "--warmup 1", "--warmup_lives 1"),
    ("copy", "--warmup 1", "--warmup_iters 1"), ("all_reduce", "--iterations 5", "--iters 5"), ("comm", "--iterations 5", "--repeats 5"),
    ("all_reduce", "--samples 9", "--repeats 9"), ("all_reduce", "--size 1M", "--sizes 1M"), ("p2p", "--size 1M", "--bandwidth-sizes 1M"),
    ("overlap", "-b 8", "--sizes 8"), ("all_reduce", "--dtype fp16", "--datatype half"), ("all_reduce", "--verify 1", "--check 1"),
    ("all_reduce", "--no-check", "--check 0"), ("all_reduce", "--graph 3", "--cudagraph 3"), ("all_reduce", "--in-place", "--placement in_place")])
def test_options_that_users_of_nccl_tests_type_lead_to_the_option_of_the_mode(busbar, command, typed, ours):
    done = busbar.run("bench", command, *typed.split(), emulated=False)
    assert done.returncode == 2 and done.stderr.startswith(f"busbar: {typed.split()[0]}") and done.stderr.endswith(f" here; try: {ours}\n")
    assert not re.search("unknown|not valid", busbar.run("bench", command, *ours.split(), emulated=False).stderr)


@pytest.mark.parametrize("typed, text", [("-p 1", "-p has no counterpart here: ranks are processes, which always initialize in parallel; leave it out"),
                                         ("-J f.json", "-J is --json here (for example --json results.json)"),
                                         ("-D 2", "-D is --device here (for example --device lsa)"),
                                         ("--warmup maybe", "unknown value for --warmup: 'maybe', expected one of: fixed auto")])
def test_letters_of_nccl_tests_that_bench_lacks_are_answered(busbar, typed, text):
    assert busbar.run("bench", "all_reduce", *typed.split(), emulated=False).stderr == f"busbar: {text}\n"


def test_degrees_of_a_line_may_be_too_large(busbar):
    """The product of these two is 0 in 32 bits."""
    line = "--parallelism.tensor_parallel_degree 65536 --parallelism.pipeline_parallel_degree 65536 --parallelism.data_parallel_replicate_degree 2"
    done = busbar.run("plan", "transformer", "--ranks", 64, *line.split(), emulated=False)
    assert done.returncode == 2 and "--tp 65536 --pp 65536 --dp-sync hsdp" in done.stderr


@pytest.mark.parametrize("args, message", [
    ("bench all_reduce -np 2", "-np is --gpus here; try: --gpus 2"),
    ("proxy gpt2_large -np 4", "-np is mpirun -n here; try: mpirun -n 4 busbar proxy ..."),
    ("bench all_reduce --plot a.png", "--plot has no counterpart here: busbar report draws charts: --json a.json, then busbar report a.json -o page.html; leave it out"),
    ("plot a.json", "plot: busbar report draws charts; try: busbar report a.json -o page.html"),
    ("plan step.goal", "step.goal: busbar reads no files of steps; the steps are those of busbar list proxies, or of a model: plan transformer --model config.json"),
    ("plan step.json --ranks 8", "step.json is a result, and busbar reads no files of steps; try: busbar report step.json -o page.html")])
def test_charts_files_of_steps_and_the_number_of_ranks_of_mpirun(busbar, tmp_path, args, message):
    (tmp_path / "step.json").write_text('{"schema": "busbar.plan/1"}')
    done = busbar.run(*args.split(), emulated=False, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (2, f"busbar: {message}\n")
