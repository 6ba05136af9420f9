/* transformer_options.c - the rows (see step/config.h). */
#include "proxies/step/config.h"

#include "proxies/sync/sync.h"
#include "proxies/transformer/schedule.h"

#define MAX_RANKS  (1 << 24)
#define FIELD(name) offsetof(struct bb_transformer_options, name)

static const char *const context_choices[] = {"ring", "all_gather", "a2a", NULL};
static const char *const dispatch_choices[] = {"alltoall", "all_gather", "dedup", NULL};
static const char *const attention_choices[] = {"fused", "unfused", NULL};
static const char *const recompute_choices[] = {"none", "selective", "full", NULL};

const struct bb_opt bb_transformer_options[] = {
    OPT_INT(0, "tp", FIELD(tp), NULL, "T", 1, MAX_RANKS,
            "tensor-parallel ranks; of tp, pp and dp one may be left out and follows from the ranks (more: 1)"),
    OPT_INT(0, "pp", FIELD(pp), NULL, "P", 1, MAX_RANKS, "pipeline stages"),
    OPT_INT(0, "dp", FIELD(dp), NULL, "D", 1, MAX_RANKS, "data-parallel replicas"),
    OPT_INT(0, "cp", FIELD(cp), NULL, "C", 1, MAX_RANKS,
            "context-parallel ranks, among which each sample's tokens are divided"),
    OPT_INT(0, "ep", FIELD(ep), NULL, "E", 1, MAX_RANKS,
            "expert-parallel ranks, among which each layer's experts are divided (default: 1)"),
    OPT_INT(0, "etp", FIELD(etp), NULL, "T", 1, MAX_RANKS, "tensor-parallel ranks of one expert (default: 1)"),
    OPT_STRING(0, "order", FIELD(order), NULL, "AXES",
               "order of the axes among the ranks, the fastest first (default: tp-cp-ep-dp-pp)"),
    OPT_INT(0, "vpp", FIELD(vpp), NULL, "V", 1, 1e6,
            "chunks of layers on each stage (default: 2 with --schedule interleaved, else 1)"),
    OPT_INT(0, "decoder-first-pipeline-num-layers", FIELD(first_layers), NULL, "N", 1, 1e6,
            "layers of the first stage; the rest divides over the others (default: as many as these)"),
    OPT_INT(0, "decoder-last-pipeline-num-layers", FIELD(last_layers), NULL, "N", 1, 1e6,
            "layers of the last stage, likewise"),
    OPT_INT(0, "microbatch-group-size", FIELD(group), NULL, "G", 1, 1e6,
            "interleaved: micro-batches that go through a chunk before the next chunk (default: the stages)"),
    OPT_CHOICE(0, "schedule", FIELD(schedule), NULL, "HOW", bb_schedule_names,
             "order of the micro-batches in the pipeline (default: interleaved with --vpp from 2, else 1f1b)"),
    OPT_INT(0, "seq-length", FIELD(sequence), NULL, "S", 1, 1e9, "tokens of a sample (default: the model's)"),
    OPT_INT(0, "decoder-seq-length", FIELD(decoder_sequence), NULL, "S", 1, 1e9,
            "of a model with encoder and decoder: tokens of a sample in the decoder (default: as in the encoder)"),
    OPT_FLAG(0, "sequence-parallel", FIELD(sequence_parallel),
             "what lies between the divided products is divided among the tensor-parallel ranks too"),
    OPT_CHOICE(0, "cp-comm", FIELD(context), NULL, "HOW", context_choices,
             "how context-parallel ranks see each other's keys and values (default: ring)"),
    OPT_CHOICE(0, "moe-dispatch", FIELD(dispatch), NULL, "HOW", dispatch_choices,
             "how tokens come to their experts; dedup: to each node once, then inside it to their experts (default: "
             "alltoall)"),
    OPT_INT(0, "moe-node-limit", FIELD(node_limit), NULL, "M", 1, 1e6,
            "with --moe-dispatch dedup: each token goes to the experts of M nodes"),
    OPT_FLAG(
        0, "fp8-dispatch", FIELD(float8_dispatch),
        "tokens, and the gradients of their answers, go to the experts in 8 bits, with a scale for each 128 numbers"),
    OPT_DOUBLE(0, "capacity-factor", FIELD(capacity), NULL, "F", 0.001, 1e6,
               "each expert takes F times its share of the tokens, padded or cut (default: all that come to it)"),
    OPT_DOUBLE(0, "moe-imbalance", FIELD(imbalance), NULL, "Z", 0.001, 10,
               "without a capacity: the k-th most popular expert gets tokens as 1/k^Z (default: all alike)"),
    OPT_INT(0, "seed", FIELD(seed), NULL, "N", 1, 2147483647, "of which experts are popular (default: 1)"),
    OPT_CHOICE(0, "recompute", FIELD(recompute), NULL, "WHAT", recompute_choices,
             "activations that are computed again in the backward pass: none, selective (attention), full (default: "
             "none; of a forecast the least with which training holds in a GPU's memory)"),
    OPT_INT(
        0, "recompute-num-layers", FIELD(recompute_layers), NULL, "N", 1, 1e6,
        "with --recompute full: the first N layers of each chunk of a stage, as Megatron-LM's --recompute-method block "
        "does; of the others nothing is computed again (default: all layers)"),
    OPT_CHOICE(0, "attention", FIELD(attention), NULL, "HOW", attention_choices,
             "fused: softmax and dropout stay on the chip; unfused: all scores go through memory (default: fused; of a "
             "forecast what the cluster's profile says)"),
    OPT_FLAG(0, "fp8", FIELD(float8), "of a forecast (plan --cluster): products with weights in 8 bits"),
    OPT_CHOICE(0, "dp-sync", FIELD(sync), NULL, "HOW", bb_dp_sync_names,
             "how replicas are kept together: gradients summed in buckets (all_reduce) or fused (horovod), optimizer "
             "divided (zero1, distributed), gradients too (zero2), parameters too (zero3), these among the ranks of "
             "a node (hsdp) (default: all_reduce)"),
    {0},
};
