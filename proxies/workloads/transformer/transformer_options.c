/* transformer_options.c - the command-line options of the proxy `transformer` (see step/config.h). */
#include "proxies/form/step/config.h"

#include "proxies/workloads/sync/sync.h"

#define MAX_RANKS   (1 << 24)
#define FIELD(name) offsetof(struct bb_transformer_options, name)

static const char *const context_choices[] = {"ring", "all_gather", "a2a", NULL};
static const char *const dispatch_choices[] = {"alltoall", "all_gather", "dedup", NULL};
static const char *const attention_choices[] = {"fused", "unfused", NULL};
static const char *const lora_choices[] = {"all", "attention", NULL};
static const char *const precision_choices[] = {"fp8", "mxfp8", "nvfp4", NULL};
static const char *const recompute_choices[] = {"none", "selective", "ops", "full", NULL};

const struct bb_opt bb_transformer_options[] = {
    OPT_INT(0, "tp", FIELD(tp), NULL, "T", 1, MAX_RANKS,
            "tensor-parallel size; one of tp, pp and dp may be left out and follows from the number of ranks; without "
            "dp, tp and pp default to 1",
            .everyday = true),
    OPT_INT(0, "pp", FIELD(pp), NULL, "P", 1, MAX_RANKS, "pipeline-parallel size: number of pipeline stages",
            .everyday = true),
    OPT_INT(0, "dp", FIELD(dp), NULL, "D", 1, MAX_RANKS, "data-parallel size: number of replicas"),
    OPT_INT(0, "cp", FIELD(cp), NULL, "C", 1, MAX_RANKS,
            "context-parallel size: C ranks share the tokens of each sample", .everyday = true),
    OPT_INT(0, "ep", FIELD(ep), NULL, "E", 1, MAX_RANKS,
            "expert-parallel size: E ranks share the experts of each layer (default: 1; Megatron-LM: "
            "--expert-model-parallel-size)",
            .everyday = true),
    OPT_INT(0, "etp", FIELD(etp), NULL, "T", 1, MAX_RANKS,
            "tensor-parallel size of one expert (default: 1; Megatron-LM: --expert-tensor-parallel-size)"),
    OPT_STRING(0, "order", FIELD(order), NULL, "AXES",
               "order of the axes over the ranks, fastest-varying first (default: tp-cp-ep-dp-pp)"),
    OPT_INT(0, "vpp", FIELD(vpp), NULL, "V", 1, 1e6,
            "virtual pipeline stages (chunks of layers) per pipeline stage (default: 2 with --schedule interleaved, "
            "else 1; Megatron-LM: --num-layers-per-virtual-pipeline-stage, which gives the layers of a chunk instead)"),
    OPT_INT(0, "decoder-first-pipeline-num-layers", FIELD(first_layers), NULL, "N", 1, 1e6,
            "layers of the first stage; the other stages share the rest equally (default: equal stages)"),
    OPT_INT(0, "decoder-last-pipeline-num-layers", FIELD(last_layers), NULL, "N", 1, 1e6,
            "layers of the last stage; the other stages share the rest equally (default: equal stages)"),
    OPT_STRING(0, "pipeline-layout", FIELD(pipeline_layout), NULL, "TEXT",
               "the modules of each virtual stage as Megatron-LM's --pipeline-model-parallel-layout, such as "
               "\"Et*3|(tt|)*29,L\": E embedding, t layer, m layer of MTP, L loss, | next virtual stage; sets --vpp"),
    OPT_INT(0, "mtp-num-layers", FIELD(mtp_layers), NULL, "N", 1, 16,
            "layers of multi-token prediction (MTP), as Megatron-LM's: each a layer as the model's last (nemotron_h: "
            "attention and experts), a projection and a head"),
    OPT_INT(0, "lora-rank", FIELD(lora_rank), NULL, "N", 1, 65536,
            "train only adapters of this rank (LoRA) of the weights of attention, MLP and experts; all else is frozen, "
            "in 16 bits "
            "(no QLoRA): no gradients, optimizer states or traffic between replicas but the gathers of zero3 and hsdp"),
    OPT_CHOICE(
        0, "lora-targets", FIELD(lora_targets), NULL, "WHICH", lora_choices,
        "with --lora-rank: weights with adapters (default: all, those of attention, MLP and experts, not the router); "
        "counted as by PEFT, each weight of each expert, with another --software than those of PyTorch as by "
        "Megatron-LM: one adapter for all experts of a rank, and one for gate and up"),
    OPT_INT(0, "microbatch-group-size", FIELD(group), NULL, "G", 1, 1e6,
            "with --schedule interleaved: micro-batches that pass one chunk before the next chunk starts (default: "
            "number of stages; Megatron-LM: --microbatch-group-size-per-virtual-pipeline-stage)"),
    OPT_INT(0, "seq-length", FIELD(sequence), NULL, "TOKENS", 1, 1e9,
            "tokens per sample, e.g. 8192 or 128K (131072) (default: the model's maximum)", .everyday = true),
    OPT_INT(0, "decoder-seq-length", FIELD(decoder_sequence), NULL, "TOKENS", 1, 1e9,
            "encoder-decoder models: tokens per sample in the decoder (default: as in the encoder)"),
    OPT_FLAG(0, "sequence-parallel", FIELD(sequence_parallel),
             "Megatron sequence parallelism: shard norms and dropout along the sequence over the tensor-parallel "
             "ranks"),
    OPT_FLAG(
        0, "tp-comm-overlap", FIELD(tp_overlap),
        "with --sequence-parallel: collectives of tensor parallelism overlap the GEMMs of layers, chunk by chunk, as "
        "Megatron-LM's user buffers and asynchronous TP of PyTorch (default: only in the backward pass, during whole "
        "GEMMs)"),
    OPT_CHOICE(0, "cp-comm", FIELD(context), NULL, "MODE", context_choices,
               "how context-parallel ranks exchange keys and values: ring (Megatron-LM: --cp-comm-type p2p), "
               "all_gather, or a2a: all-to-all that exchanges tokens for heads (default: ring)"),
    OPT_CHOICE(0, "moe-dispatch", FIELD(dispatch), NULL, "MODE", dispatch_choices,
               "token routing to the experts: alltoall; all_gather; dedup: send each token once per node, then fan out "
               "inside the node (default: alltoall)"),
    OPT_INT(0, "moe-node-limit", FIELD(node_limit), NULL, "M", 1, 1e6,
            "with --moe-dispatch dedup: a token uses experts of at most M nodes (DeepSeek-V3: 4; default: no limit); a "
            "token is sent to the expected number of nodes with equal load"),
    OPT_FLAG(0, "fp8-dispatch", FIELD(float8_dispatch),
             "send tokens, and gradients of expert outputs, to the experts in FP8 with one scale per 128 elements"),
    OPT_FLAG(0, "overlap-moe-expert-parallel-comm", FIELD(moe_overlap),
             "with --ep: in the steady state, the forward of a micro-batch runs concurrently with the backward of "
             "another, so that one exchanges tokens while the other computes, as in Megatron-LM"),
    OPT_DOUBLE(0, "capacity-factor", FIELD(capacity), NULL, "F", 0.001, 1e6,
               "expert capacity: F times an equal share of the tokens; excess tokens are dropped, missing ones are "
               "padded (default: no limit; Megatron-LM: --moe-expert-capacity-factor); with plan --cluster, the "
               "equal shapes also cut the host time per expert GEMM to a third"),
    OPT_DOUBLE(0, "moe-imbalance", FIELD(imbalance), NULL, "Z", 0, 10,
               "without --capacity-factor: the k-th most popular expert gets tokens in proportion to 1/k^Z, a Zipf "
               "distribution (default: equal shares)"),
    OPT_INT(0, "seed", FIELD(seed), NULL, "N", 1, 2147483647,
            "with --moe-imbalance: random seed that selects the popular experts (default: 1)"),
    OPT_CHOICE(
        0, "recompute", FIELD(recompute), NULL, "MODE", recompute_choices,
        "activation recomputation (checkpointing; Megatron-LM: --recompute-granularity): none, selective "
        "(attention scores), ops (every second GEMM and memory-bound kernels, as torchtitan's selective option op), "
        "full (whole layers) (default: none; with plan --cluster, if training does not fit: the fastest of modules "
        "(software of PyTorch: ops) and layers with which it fits, of 32 or more experts also with unequal load)"),
    OPT_STRING(0, "recompute-modules", FIELD(recompute_modules), NULL, "LIST",
               "modules that --recompute selective recomputes, separated by commas (default: core_attn): core_attn, "
               "layernorm (before latent attention and experts), mla_up_proj, mlp, moe, moe_act, shared_experts"),
    OPT_INT(0, "recompute-num-layers", FIELD(recompute_layers), NULL, "N", 1, 1e6,
            "with --recompute full: recompute only the first N layers of each chunk, as with Megatron-LM's "
            "--recompute-method block (default: all layers)"),
    OPT_INT(
        0, "cpu-offloading-num-layers", FIELD(offload_layers), NULL, "N", 1, 1e6,
        "with plan --cluster, without pipeline and recomputation: activations of the first N layers are copied to host "
        "memory and back, as Megatron-LM's --cpu-offloading-num-layers"),
    OPT_CHOICE(0, "attention", FIELD(attention), NULL, "MODE", attention_choices,
               "fused: softmax and dropout stay on the chip; unfused: all attention scores go through memory (default: "
               "fused; of models with dropout, as GPT-2, the memory is that of unfused; with plan --cluster: from the "
               "cluster's profile)"),
    OPT_CHOICE(
        0, "loss", FIELD(loss), NULL, "MODE", attention_choices,
        "memory of the logits: fused: in the type of the parameters; unfused: with float copies (default: unfused for "
        "torch, torch-compile and torch-te, else fused; fused: Megatron-LM's --cross-entropy-loss-fusion, a loss that "
        "torch.compile includes)"),
    OPT_FLAG(0, "fp8", FIELD(float8), "with plan --cluster: FP8 GEMMs"),
    OPT_CHOICE(0, "gemm-precision", FIELD(precision), NULL, "TYPE", precision_choices,
               "with plan --cluster: GEMMs with weights in fp8 (as --fp8), or on Blackwell mxfp8 (one scale per 32 "
               "elements) or nvfp4 (one per 16), as Transformer Engine (Megatron-LM: --fp8-recipe, --fp4-format)"),
    OPT_CHOICE(
        0, "dp-sync", FIELD(sync), NULL, "MODE", bb_dp_sync_names,
        "data-parallel synchronization: all_reduce (gradients in DDP buckets), horovod (gradients with Horovod's "
        "tensor fusion), zero1 or distributed (sharded optimizer; distributed: Megatron-LM's), zero2 (also "
        "sharded gradients), zero3 (also sharded parameters: FSDP), hsdp (zero3 with shards within a node) "
        "(default: all_reduce)",
        .everyday = true),
    {0},
};
