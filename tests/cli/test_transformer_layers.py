"""Layers of `busbar proxy transformer` on emulated GPUs: executed traffic equals the plan, data are correct, and invalid layouts are
rejected with one line."""
import collections
import json
import pathlib

import pytest

from test_proxy import FEW, NOMINAL, planned, traffic_by_rank

DENSE = {"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 8, "num_key_value_heads": 4,
         "num_hidden_layers": 2, "vocab_size": 101, "max_position_embeddings": 64}
EXPERTS = {**DENSE, "model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2}
LATENT = {**DENSE, "model_type": "deepseek_v3", "q_lora_rank": 32, "kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4,
          "v_head_dim": 8, "n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "n_shared_experts": 1,
          "first_k_dense_replace": 1, "num_hidden_layers": 4}
LINEAR = {"model_type": "qwen3_next", "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 4,
          "head_dim": 16, "linear_num_value_heads": 8, "linear_num_key_heads": 4, "linear_key_head_dim": 8,
          "linear_value_head_dim": 16, "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
          "shared_expert_intermediate_size": 32, "vocab_size": 101, "max_position_embeddings": 128}
MAMBA2 = {"model_type": "mamba2", "hidden_size": 64, "num_heads": 8, "head_dim": 16, "n_groups": 4, "state_size": 16,
          "chunk_size": 32, "num_hidden_layers": 4, "vocab_size": 101, "max_position_embeddings": 64}
HYBRID = {"model_type": "nemotron_h", "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 8, "num_key_value_heads": 4,
          "head_dim": 16, "hybrid_override_pattern": "ME*-", "mamba_num_heads": 8, "mamba_head_dim": 16, "n_groups": 4,
          "ssm_state_size": 16, "chunk_size": 32, "n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
          "moe_shared_expert_intermediate_size": 48, "moe_latent_size": 16, "vocab_size": 101, "max_position_embeddings": 64}
JAMBA = {**EXPERTS, "model_type": "jamba", "num_experts": 8, "attn_layer_period": 2, "attn_layer_offset": 1, "mamba_d_state": 4}
T5 = {"model_type": "t5", "d_model": 64, "d_kv": 8, "num_heads": 8, "d_ff": 128, "num_layers": 2, "vocab_size": 101,
      "n_positions": 64, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}
SPARSE = {**LATENT, "model_type": "deepseek_v32", "index_n_heads": 4, "index_head_dim": 8, "index_topk": 16}
LAYOUTS = {
    "tensor": (DENSE, ("--tp", 2, "--pp", 2, "--micro-batches", 2)),
    "sequence": (DENSE, ("--tp", 4, "--sequence-parallel", "--recompute", "full", "--recompute-num-layers", 1)),
    "overlapped sequence": (DENSE, ("--tp", 4, "--sequence-parallel", "--tp-comm-overlap", "--recompute", "selective")),
    "adapters": (DENSE, ("--tp", 2, "--sequence-parallel", "--lora-rank", 4, "--dp-sync", "distributed", "--micro-batches", 2)),
    "adapters with sharded frozen weights": ({**DENSE, "tie_word_embeddings": True}, ("--lora-rank", 4, "--dp-sync", "zero3", "--micro-batches", 2)),
    "adapters of attention": (DENSE, ("--tp", 2, "--pp", 2, "--lora-rank", 4, "--lora-targets", "attention", "--schedule", "zb-h1",
                                      "--micro-batches", 3)),
    "adapters of experts": (EXPERTS, ("--tp", 2, "--ep", 2, "--sequence-parallel", "--lora-rank", 4, "--micro-batches", 2)),
    "adapters of experts with sharded frozen weights": (EXPERTS, ("--ep", 2, "--lora-rank", 4, "--dp-sync", "zero3", "--micro-batches", 2,
                                                                  "--moe-imbalance", 1)),
    "adapters of latent attention": (LATENT, ("--tp", 2, "--pp", 2, "--ep", 2, "--sequence-parallel", "--lora-rank", 4, "--schedule", "zb-h1",
                                              "--micro-batches", 3, "--lora-targets", "attention")),
    "adapters of shared experts": (LATENT, ("--pp", 2, "--ep", 2, "--lora-rank", 4, "--dp-sync", "distributed", "--micro-batches", 3,
                                            "--schedule", "zb-h1")),
    "frozen experts with sharded weights": (EXPERTS, ("--ep", 2, "--lora-rank", 4, "--lora-targets", "attention", "--dp-sync", "zero3")),
    "combined forward and backward of adapters": (EXPERTS, ("--ep", 4, "--micro-batches", 3, "--overlap-moe-expert-parallel-comm",
                                                            "--lora-rank", 4, "--dp-sync", "distributed")),
    "latent attention": (LATENT, ("--tp", 2, "--ep", 2, "--sequence-parallel", "--recompute", "selective",
                                  "--recompute-modules", "mla_up_proj,layernorm")),
    "latent attention with an indexer": (SPARSE, ("--tp", 2, "--pp", 2, "--sequence-parallel", "--schedule", "zb-h1", "--micro-batches", 3)),
    "overlapped latent attention": ({**LATENT, "q_lora_rank": None}, ("--tp", 4, "--sequence-parallel", "--tp-comm-overlap",
                                                                       "--recompute", "full")),
    "split backward": (DENSE, ("--tp", 2, "--pp", 2, "--sequence-parallel", "--schedule", "zb-h1", "--micro-batches", 3)),
    "ring": (DENSE, ("--cp", 4)),
    "heads": (DENSE, ("--cp", 2, "--tp", 2, "--cp-comm", "a2a")),
    "gathered keys": (DENSE, ("--cp", 4, "--cp-comm", "all_gather", "--recompute", "selective")),
    "experts": (EXPERTS, ("--ep", 4, "--micro-batches", 2)),
    "divided experts": (EXPERTS, ("--tp", 2, "--dp", 2, "--ep", 2, "--etp", 2, "--sequence-parallel")),
    "combined forward and backward": (EXPERTS, ("--ep", 4, "--micro-batches", 3, "--overlap-moe-expert-parallel-comm", "--moe-imbalance", 1)),
    "combined interleaved": ({**EXPERTS, "num_hidden_layers": 4}, ("--pp", 2, "--ep", 2, "--vpp", 2, "--micro-batches", 4,
                                                                   "--overlap-moe-expert-parallel-comm", "--dp-sync", "distributed")),
    "imbalanced experts": (EXPERTS, ("--ep", 4, "--moe-imbalance", 1, "--seed", 3)),
    "expert capacity": (EXPERTS, ("--ep", 4, "--capacity-factor", 1.25)),
    "deduplicated dispatch": (EXPERTS, ("--ep", 4, "--gpus-per-node", 2, "--moe-dispatch", "dedup", "--moe-node-limit", 1,
                                        "--recompute", "full")),
    "dualpipe": ({**EXPERTS, "num_hidden_layers": 3}, ("--pp", 2, "--ep", 2, "--schedule", "dualpipe", "--micro-batches", 6,
                                                        "--decoder-first-pipeline-num-layers", 2, "--dp-sync", "zero1")),
    "fp8 dispatch": (EXPERTS, ("--ep", 4, "--fp8-dispatch", "--moe-imbalance", 1)),
    "deduplicated fp8 dispatch": (EXPERTS, ("--ep", 4, "--gpus-per-node", 2, "--moe-dispatch", "dedup", "--moe-node-limit", 2,
                                             "--fp8-dispatch")),
    "linear attention": (LINEAR, ("--tp", 2, "--ep", 2, "--sequence-parallel", "--recompute", "full")),
    "mamba2": (MAMBA2, ("--tp", 2, "--pp", 2, "--sequence-parallel", "--schedule", "zb-h1", "--micro-batches", 3)),
    "hybrid": (HYBRID, ("--tp", 2, "--ep", 2, "--sequence-parallel", "--micro-batches", 2)),
    "recomputed hybrid": (HYBRID, ("--tp", 2, "--ep", 2, "--sequence-parallel", "--recompute", "full", "--dp-sync", "distributed")),
    "hybrid pipeline": (HYBRID, ("--pp", 2, "--ep", 2, "--schedule", "zb-h1", "--micro-batches", 3, "--moe-imbalance", 1)),
    "hybrid with MTP": (HYBRID, ("--pp", 2, "--ep", 2, "--micro-batches", 2, "--mtp-num-layers", 2, "--moe-imbalance", 1,
                                  "--pipeline-layout", "Et*2|t*2,mmL", "--recompute", "selective", "--recompute-modules", "moe_act,mlp")),
    "latents of all ranks": (HYBRID, ("--ep", 4, "--moe-dispatch", "all_gather")),
    "latents with fp8 dispatch": (HYBRID, ("--ep", 4, "--gpus-per-node", 2, "--moe-dispatch", "dedup", "--moe-node-limit", 2,
                                           "--fp8-dispatch")),
    "selective scans": (JAMBA, ("--pp", 2, "--ep", 2, "--micro-batches", 2, "--schedule", "zb-h1")),
    "encoder and decoder": (T5, ("--tp", 2, "--decoder-seq-length", 32, "--micro-batches", 2, "--recompute", "selective")),
    "encoder and decoder with sequence parallelism": (T5, ("--tp", 2, "--sequence-parallel", "--decoder-seq-length", 96,
                                                           "--dp-sync", "zero3", "--recompute", "full")),
    "gathered tokens": (EXPERTS, ("--ep", 2, "--dp", 4, "--moe-dispatch", "all_gather")),
}


def write(tmp_path, config):
    path = tmp_path / "model.json"
    path.write_text(json.dumps(config))
    return ("--model", path)


def executed(prefix, rank):
    """NCCL calls of one rank without one-element calls, which include the barriers at the start of steps."""
    calls = collections.Counter()
    for line in pathlib.Path(f"{prefix}.{rank}").read_text().splitlines():
        function, size, _own, _peer, count, _dtype = line.split()
        if int(count) > 1:
            calls[function, int(size), int(count)] += 1
    return calls


@pytest.mark.parametrize("layout", LAYOUTS)
def test_executed_traffic_matches_the_plan(busbar, tmp_path, layout):
    config, options = LAYOUTS[layout]
    cluster = NOMINAL
    env = {"EMU_CLUSTER": str(cluster), "NCCL_RECORD": str(tmp_path / "calls"),
           "LD_PRELOAD": str(busbar.build / "tests" / "nccl_recorder.so"),
           "EMU_KERNELS": "source" if layout == "tensor" else "fast",  # layer norms computed from the kernel source take seconds
           "EMU_NODES": "2" if "--gpus-per-node" in options else "1"}
    options = (*write(tmp_path, config), *options, "--compute", "gemm")
    plan = planned(busbar, "transformer", (), 4, *options, "--cluster", cluster)
    traffic = traffic_by_rank(plan["roles"])
    run = busbar.json("proxy", "transformer", *options, *FEW, "--no-alone", "--check", ranks=4, env=env, tmp_path=tmp_path)
    assert run["check"] == {"enabled": True, "wrong": 0, "flags": []}
    assert run["step_us"]["p50"] == pytest.approx(plan["predicted"]["step_us"], abs=1)
    for rank in range(4):
        expected = {key: calls for key, calls in traffic[rank].items() if key[2] > 1}
        measured = executed(tmp_path / "calls", rank)
        assert set(measured) == set(expected)
        ratios = {measured[key] / expected[key] for key in expected}
        assert len(ratios) == 1, "every planned call must run the same number of times"


def test_seed_makes_steps_repeatable(busbar, tmp_path):
    model = write(tmp_path, EXPERTS)
    plans = [planned(busbar, "transformer", (), 8, *model, "--ep", 8, "--moe-imbalance", 1, "--seed", seed)["roles"]
             for seed in (1, 1, 2)]
    assert plans[0] == plans[1] != plans[2]
