/*
 * foreign_names.c - names of options and programs of other tools, with the name in busbar. Sources: MPI4DL
 * (src/torchgems/parser.py and benchmarks/), DNN-cpp-proxies, Megatron-LM (megatron/training/arguments.py), NeMo,
 * DeepSpeed, torchtitan, nanotron, PyTorch FSDP, Hugging Face, Horovod's synthetic benchmark, torchrun.
 */
#include "proxies/form/models/profile.h"
#include "proxies/workloads/registry/registry.h"

#include <string.h>

const struct bb_foreign_name bb_foreign_options[] = {
    /* MPI4DL and GEMS */
    {"num-spatial-parts", "--spatial-parts", "--spatial-parts 4", NULL},
    {"slice-method", "--slice", "--slice vertical", NULL},
    {"split-size", "--splits", "--splits 5", NULL},
    {"spatial-size", "--spatial-splits", "--spatial-splits 1", NULL},
    {"parts", "--micro-batches", "--micro-batches 4", NULL},
    {"batch-size", "--global-batch-size", "--global-batch-size 256", NULL},
    {"num-filters", "--filters", "--filters 416", NULL},
    {"times", "--replications", "--replications 4", "*2"},
    {"enable-master-comm-opt", "--comm-opt", "--comm-opt", NULL},
    {"precision", "--dtype", "--dtype half",
     "bf16=bfloat16 bf16-mixed=bfloat16 16-mixed=half fp16=half fp32=float 32=float 16=half"},
    {"enable-evaluation", NULL, "a step is a training step", NULL},
    {"backend", NULL, "all measured traffic goes through NCCL", NULL},
    {"app", NULL, "a step reads no data set", NULL},
    {"datapath", NULL, "a step reads no data set", NULL},
    {"num-classes", NULL, "the model file contains the number of classes", NULL},
    {"num-workers", NULL, "a step reads no data set", NULL},
    {"num-epochs", NULL, "a run consists of steps (proxy scaling: --epochs)", NULL},
    {"learning-rate", NULL, "a step trains no weights", NULL},
    {"learning-rate-decay", NULL, "a step trains no weights", NULL},
    {"weight-decay", NULL, "a step trains no weights", NULL},
    /* Megatron-LM; NeMo spells these names with underscores */
    {"num-layers", "--layers", "--layers 24", NULL},
    {"tensor-model-parallel-size", "--tp", "--tp 8", NULL},
    {"pipeline-model-parallel-size", "--pp", "--pp 4", NULL},
    {"context-parallel-size", "--cp", "--cp 2", NULL},
    {"expert-model-parallel-size", "--ep", "--ep 8", NULL},
    {"expert-tensor-parallel-size", "--etp", "--etp 1", NULL},
    {"expert-tensor-model-parallel-size", "--etp", "--etp 1", NULL},
    {"data-parallel-size", "--dp", "--dp 8", NULL},
    {"num-virtual-stages-per-pipeline-rank", "--vpp", "--vpp 2", NULL},
    {"virtual-pipeline-model-parallel-size", "--vpp", "--vpp 2", NULL},
    {"num-layers-per-virtual-pipeline-stage", "--vpp (the layers of a stage divided by this number)", "--vpp 2", NULL},
    {"microbatch-group-size-per-virtual-pipeline-stage", "--microbatch-group-size", "--microbatch-group-size 4", NULL},
    {"num-layers-in-first-pipeline-stage", "--decoder-first-pipeline-num-layers",
     "--decoder-first-pipeline-num-layers 2", NULL},
    {"num-layers-in-last-pipeline-stage", "--decoder-last-pipeline-num-layers", "--decoder-last-pipeline-num-layers 2",
     NULL},
    {"recompute-granularity", "--recompute", "--recompute full", NULL},
    {"recompute-activations", "--recompute selective", "--recompute selective", NULL},
    {"recompute-method", NULL,
     "--recompute full recomputes all layers of a chunk, --recompute-num-layers N the first N (method block)", NULL},
    {"checkpoint-activations", "--recompute full", "--recompute full", NULL},
    {"use-distributed-optimizer", "--dp-sync distributed", "--dp-sync distributed", NULL},
    {"use-torch-fsdp2", "--dp-sync zero3", "--dp-sync zero3", NULL},
    {"use-megatron-fsdp", "--dp-sync zero3", "--dp-sync zero3", NULL},
    {"data-parallel-sharding-strategy", "--dp-sync", "--dp-sync zero3",
     "no_shard=all_reduce optim_grads_params=zero3 optim_grads=zero2 optim=zero1"},
    {"overlap-grad-reduce", NULL, "gradients are reduced during the backward pass unless --no-overlap is given", NULL},
    {"accumulate-allreduce-grads-in-fp32", "--grad-dtype float", "--grad-dtype float", NULL},
    {"grad-reduce-in-bf16", "--grad-dtype bfloat16", "--grad-dtype bfloat16", NULL},
    {"cp-comm-type", "--cp-comm", "--cp-comm ring", "p2p=ring allgather=all_gather"},
    {"moe-token-dispatcher-type", "--moe-dispatch", "--moe-dispatch alltoall", "allgather=all_gather flex=dedup"},
    {"moe-expert-capacity-factor", "--capacity-factor", "--capacity-factor 1.25", NULL},
    {"bf16", "--dtype bfloat16", "--dtype bfloat16", NULL},
    {"fp16", "--dtype half", "--dtype half", NULL},
    {"fp8-format", "--fp8", "--fp8", NULL},
    {"fp8-hybrid", "--fp8", "--fp8", NULL},
    {"fp8-e4m3", "--fp8", "--fp8", NULL},
    {"use-flash-attn", "--attention fused", "--attention fused", NULL},
    {"train-iters", "--steps of proxy, and --tokens of plan", "--tokens 15T", NULL},
    {"hidden-size", NULL, "the model file (--model, a config.json) contains the size", NULL},
    {"num-attention-heads", NULL, "the model file (--model, a config.json) contains the number", NULL},
    {"num-query-groups", NULL, "the model file (--model, a config.json) contains the number", NULL},
    {"ffn-hidden-size", NULL, "the model file (--model, a config.json) contains the size", NULL},
    {"vocab-size", NULL, "the model file (--model, a config.json) contains the size", NULL},
    {"num-experts", NULL, "the model file (--model, a config.json) contains the number", NULL},
    {"moe-router-topk", NULL, "the model file (--model, a config.json) contains the number", NULL},
    {"distributed-backend", NULL, "all measured traffic goes through NCCL", NULL},
    {"mfu", NULL, "plan with --cluster, and proxy with --peak-tflops, report the MFU", NULL},
    {"max-position-embeddings", "--seq-length", "--seq-length 8192", NULL},
    {"steps", "--tokens", "--tokens 15T", NULL}, /* --steps of proxy, given to plan */
    /* DeepSpeed */
    {"zero", "--dp-sync", "--dp-sync zero3", "0=all_reduce 1=zero1 2=zero2 3=zero3"},
    {"zero-stage", "--dp-sync", "--dp-sync zero3", "0=all_reduce 1=zero1 2=zero2 3=zero3"},
    {"stage", "--dp-sync", "--dp-sync zero3", "0=all_reduce 1=zero1 2=zero2 3=zero3"},
    {"pipe-parallel-size", "--pp", "--pp 4", NULL},
    {"model-parallel-size", "--tp", "--tp 8", NULL},
    {"autotp-size", "--tp", "--tp 8", NULL},
    {"ulysses-sequence-parallel-size", "--cp", "--cp 2 --cp-comm a2a", NULL},
    {"train-batch-size", "--global-batch-size", "--global-batch-size 512", NULL},
    {"train-micro-batch-size-per-gpu", "--micro-batch-size", "--micro-batch-size 1", NULL},
    {"gradient-accumulation-steps", "--micro-batches", "--micro-batches 8", NULL},
    {"gradient-checkpointing", "--recompute full", "--recompute full", NULL},
    {"deepspeed", "--dp-sync zero1, zero2 or zero3", "--dp-sync zero3", NULL},
    {"deepspeed-config", NULL, "give --dp-sync, --micro-batch-size and --global-batch-size", NULL},
    {"cpu-offload", NULL, "offload to host memory is not modelled", NULL},
    {"offload-optimizer", NULL, "offload to host memory is not modelled", NULL},
    {"ulysses", "--cp-comm a2a", "--cp 2 --cp-comm a2a", NULL},
    /* torchtitan, nanotron, FSDP, Horovod, Hugging Face */
    {"tensor-parallel-degree", "--tp", "--tp 8", NULL},
    {"pipeline-parallel-degree", "--pp", "--pp 4", NULL},
    {"context-parallel-degree", "--cp", "--cp 2", NULL},
    {"expert-parallel-degree", "--ep", "--ep 8", NULL},
    {"expert-tensor-parallel-degree", "--etp", "--etp 1", NULL},
    {"data-parallel-replicate-degree", "--dp", "--dp 8", NULL},
    {"data-parallel-shard-degree", "--dp-sync zero3, or hsdp with --shard-size,", "--dp-sync zero3", NULL},
    {"pipeline-parallel-schedule", "--schedule", "--schedule 1f1b",
     "1f1b=1f1b interleaved1f1b=interleaved dualpipev=dualpipe interleavedzerobubble=zb-h1"},
    {"pp-engine", "--schedule", "--schedule 1f1b", "afab=gpipe"},
    {"sequence-length", "--seq-length", "--seq-length 8192", NULL},
    {"seq-len", "--seq-length", "--seq-length 8192", NULL},
    {"max-seq-len", "--seq-length", "--seq-length 8192", NULL},
    {"local-batch-size", "--micro-batch-size", "--micro-batch-size 1", NULL},
    {"per-device-train-batch-size", "--micro-batch-size", "--micro-batch-size 1", NULL},
    {"batch-accumulation-per-replica", "--micro-batches", "--micro-batches 8", NULL},
    {"activation-checkpoint.mode", "--recompute", "--recompute full", NULL},
    {"recompute-layer", "--recompute full", "--recompute full", NULL},
    {"fsdp", "--dp-sync zero3", "--dp-sync zero3", NULL},
    {"hsdp", "--dp-sync hsdp", "--dp-sync hsdp", NULL},
    {"activation-checkpointing", "--recompute full", "--recompute full", NULL},
    {"bucket-cap-mb", "--bucket-mb", "--bucket-mb 25", NULL},
    {"ddp-bucket-size", "--bucket-mb", "--bucket-mb 25", NULL},
    {"tensor-parallel-size", "--tp", "--tp 8", NULL},
    {"tensor-parallel", "--tp", "--tp 8", NULL},
    {"pipeline-parallel-size", "--pp", "--pp 4", NULL},
    {"pipeline-parallel", "--pp", "--pp 4", NULL},
    {"seq", "--seq-length", "--seq-length 8192", NULL},
    {"seqlen", "--seq-length", "--seq-length 8192", NULL},
    {"ctx", "--seq-length", "--seq-length 8192", NULL},
    {"gbs", "--global-batch-size", "--global-batch-size 512", NULL},
    {"mbs", "--micro-batch-size", "--micro-batch-size 1", NULL},
    {"iters", "--steps of proxy, and --tokens of plan", "--tokens 15T", NULL},
    {"gpu", "--cluster", "--cluster h100-sxm-ib", NULL},
    {"config", "--model", "--model ./config.json", NULL},
    {"output", "--json", "--json plan.json", NULL},
    {"fp16-allreduce", "--grad-dtype half", "--grad-dtype half", NULL},
    {"tp-size", "--tp", "--tp 8", NULL},
    {"pp-size", "--pp", "--pp 4", NULL},
    {"cp-size", "--cp", "--cp 2", NULL},
    {"ep-size", "--ep", "--ep 8", NULL},
    {"dp-size", "--dp", "--dp 8", NULL},
    /* launchers */
    {"world-size", "--ranks", "--ranks 64", NULL},
    {"gpus", "--ranks", "--ranks 64", NULL},
    {"ngpus", "--ranks", "--ranks 64", NULL},
    {"num-gpus", "--ranks", "--ranks 64", NULL},
    {"nodes", "--ranks", "--ranks 64 (8 GPUs per node)", "*8"},
    {"nnodes", "--ranks", "--ranks 64 (8 GPUs per node)", "*8"},
    {"num-nodes", "--ranks", "--ranks 64 (8 GPUs per node)", "*8"},
    {"nproc-per-node", "--gpus-per-node", "--gpus-per-node 8", NULL},
    {"np", "--ranks", "--ranks 64", NULL},
    {"n", "--ranks", "--ranks 64", NULL},
    {"gpus-per-rank", NULL, "a rank is one GPU", NULL},
    {"ranks", "mpirun -n", "mpirun -n 8 busbar proxy ...", NULL}, /* --ranks of plan, given to proxy */
    {"tokens", NULL, "busbar plan has --tokens, for the time of a training run", NULL},
    {"best-layout", NULL, "busbar plan has --best-layout, which needs no GPU", NULL},
    {NULL, NULL, NULL, NULL},
};

const struct bb_foreign_name bb_foreign_programs[] = {
    /* DNN-cpp-proxies and its variants */
    {"gpt-2", "gpt2_large", "gpt2_large 48 4", NULL},
    {"gpt2", "gpt2_large", "gpt2_large 48 4", NULL},
    {"gpt-3", "gpt3", "gpt3 4", NULL},
    {"gpt-3-moe", "gpt3_moe", "gpt3_moe 4", NULL},
    {"bert", "bert_large", "bert_large 24 4", NULL},
    /* MPI4DL and GEMS */
    {"mpi4dl", "spatial or gems", "spatial --model amoebanet_d", NULL},
    {"now-dl", "spatial or gems", "spatial --model amoebanet_d", NULL},
    {"amoebanet", "a model of spatial and gems", "spatial --model amoebanet_d", NULL},
    {"amoebanet_run", "spatial", "spatial --model amoebanet_d", NULL},
    {"benchmark_amoebanet_sp", "spatial", "spatial --model amoebanet_d", NULL},
    {"resnet110", "a model of spatial and gems", "spatial --model resnet110_v2", NULL},
    {"resnet_run", "spatial", "spatial --model resnet110_v2", NULL},
    {"benchmark_resnet_sp", "spatial", "spatial --model resnet110_v2", NULL},
    {"amoebanet_lp", "layer_parallel", "layer_parallel --model amoebanet_d", NULL},
    {"benchmark_amoebanet_lp", "layer_parallel", "layer_parallel --model amoebanet_d", NULL},
    {"resnet_lp", "layer_parallel", "layer_parallel --model resnet110_v2", NULL},
    {"benchmark_resnet_lp", "layer_parallel", "layer_parallel --model resnet110_v2", NULL},
    {"benchmark_sp_halo_exchange", "spatial", "spatial --compute none", NULL},
    {"master_amoebanet_run", "gems", "gems MASTER --model amoebanet_d", NULL},
    {"benchmark_amoebanet_gems", "gems", "gems MAST --model amoebanet_d", NULL},
    {"benchmark_resnet_gems", "gems", "gems MAST --model resnet110_v2", NULL},
    {"benchmark_amoebanet_gems_master", "gems", "gems MASTER --model amoebanet_d", NULL},
    {"benchmark_amoebanet_gems_master_with_sp", "gems", "gems MASTER --model amoebanet_d --spatial-parts 2", NULL},
    {"benchmark_resnet_gems_master", "gems", "gems MASTER --model resnet110_v2", NULL},
    {"benchmark_resnet_gems_master_with_sp", "gems", "gems MASTER --model resnet110_v2 --spatial-parts 4", NULL},
    {"mast", "gems MAST", "gems MAST", NULL},
    {"gems-mast", "gems MAST", "gems MAST", NULL},
    {"master", "gems MASTER", "gems MASTER", NULL},
    {"gems-master", "gems MASTER", "gems MASTER", NULL},
    {"comm-opt", "gems comm-opt", "gems comm-opt", NULL},
    {"hybrid", "gems Hybrid", "gems Hybrid", NULL},
    {"gems-hybrid", "gems Hybrid", "gems Hybrid", NULL},
    /* Horovod */
    {"pytorch_synthetic_benchmark", "scaling", "scaling --format synthetic", NULL},
    {NULL, NULL, NULL, NULL},
};

/* The proxy that accepts models of a family with --model. Models of other families have a proxy of the same name. */
static const struct {
    const char *family, *proxy;
} model_proxies[] = {{"transformer", "transformer"},
                     {"residual_network", "data_parallel"},
                     {"amoebanet", "spatial"},
                     {"preactivated_resnet", "spatial"}};

const char *bb_model_proxy(const char *word)
{
    const char *model = NULL, *proxy = NULL, *family;
    json_t *root;

    for (size_t i = 0; !model && (model = bb_model_name_at(i)); i++)
        model = strcmp(model, word) == 0 ? model : NULL;
    if (!model || bb_profile_load("models", model, &root) != 0)
        return NULL;
    family = json_string_value(json_object_get(root, "family"));
    for (size_t i = 0; family && i < sizeof(model_proxies) / sizeof(model_proxies[0]); i++)
        if (strcmp(family, model_proxies[i].family) == 0)
            proxy = model_proxies[i].proxy;
    json_decref(root);
    return proxy;
}

int bb_reject_foreign_program(const char *word)
{
    const char *slash = strrchr(word, '/'), *base = slash ? slash + 1 : word;
    const struct bb_foreign_name *row = bb_foreign_find(bb_foreign_programs, base, strcspn(base, "."));

    return row ? bb_reject_foreign(row, word) : 0;
}
