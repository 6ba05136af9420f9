/*
 * foreign_names.c - names of options and programs of other tools, with the name in busbar. Sources: MPI4DL
 * (src/torchgems/parser.py and benchmarks/), DNN-cpp-proxies, Megatron-LM (megatron/training/arguments.py), DeepSpeed,
 * PyTorch FSDP, Horovod's synthetic benchmark, torchrun.
 */
#include "proxies/form/models/profile.h"
#include "proxies/workloads/registry/registry.h"

#include <string.h>

const struct bb_foreign_name bb_foreign_options[] = {
    /* MPI4DL and GEMS */
    {"num-spatial-parts", "--spatial-parts", "--spatial-parts 4"},
    {"slice-method", "--slice", "--slice vertical"},
    {"split-size", "--splits", "--splits 5"},
    {"spatial-size", "--spatial-splits", "--spatial-splits 1"},
    {"parts", "--micro-batches", "--micro-batches 4"},
    {"batch-size", "--micro-batch-size times --micro-batches", "--micro-batch-size 8 --micro-batches 4"},
    {"num-filters", "--filters", "--filters 416"},
    {"times", "--replications, with twice the number", "--replications 4"},
    {"enable-master-comm-opt", "--comm-opt", "--comm-opt"},
    {"precision", "--dtype", "--dtype half"},
    {"enable-evaluation", NULL, "a step is a training step"},
    {"backend", NULL, "all measured traffic goes through NCCL"},
    {"app", NULL, "a step reads no data set"},
    {"datapath", NULL, "a step reads no data set"},
    {"num-classes", NULL, "the model file contains the number of classes"},
    {"num-workers", NULL, "a step reads no data set"},
    {"num-epochs", NULL, "a run consists of steps (proxy scaling: --epochs)"},
    {"learning-rate", NULL, "a step trains no weights"},
    {"learning-rate-decay", NULL, "a step trains no weights"},
    {"weight-decay", NULL, "a step trains no weights"},
    /* Megatron-LM */
    {"num-layers", "--layers", "--layers 24"},
    {"tensor-model-parallel-size", "--tp", "--tp 8"},
    {"pipeline-model-parallel-size", "--pp", "--pp 4"},
    {"context-parallel-size", "--cp", "--cp 2"},
    {"expert-model-parallel-size", "--ep", "--ep 8"},
    {"expert-tensor-parallel-size", "--etp", "--etp 1"},
    {"data-parallel-size", "--dp", "--dp 8"},
    {"num-virtual-stages-per-pipeline-rank", "--vpp", "--vpp 2"},
    {"num-layers-per-virtual-pipeline-stage", "--vpp, the number of chunks of a stage", "--vpp 2"},
    {"microbatch-group-size-per-virtual-pipeline-stage", "--microbatch-group-size", "--microbatch-group-size 4"},
    {"recompute-granularity", "--recompute", "--recompute full"},
    {"recompute-activations", "--recompute selective", "--recompute selective"},
    {"use-distributed-optimizer", "--dp-sync distributed", "--dp-sync distributed"},
    {"cp-comm-type", "--cp-comm", "--cp-comm ring"},
    {"moe-token-dispatcher-type", "--moe-dispatch", "--moe-dispatch alltoall"},
    {"moe-expert-capacity-factor", "--capacity-factor", "--capacity-factor 1.25"},
    {"bf16", "--dtype bfloat16", "--dtype bfloat16"},
    {"fp16", "--dtype half", "--dtype half"},
    {"fp8-format", "--fp8", "--fp8"},
    /* DeepSpeed, FSDP, Horovod, torchrun */
    {"zero", "--dp-sync zero1, zero2 or zero3", "--dp-sync zero3"},
    {"zero-stage", "--dp-sync zero1, zero2 or zero3", "--dp-sync zero3"},
    {"fsdp", "--dp-sync zero3", "--dp-sync zero3"},
    {"fp16-allreduce", "--grad-dtype half", "--grad-dtype half"},
    {"world-size", "--ranks of plan, and mpirun -n of proxy", "--ranks 64"},
    {"gpus", "--ranks of plan, and mpirun -n of proxy", "--ranks 64"},
    {"ranks", "mpirun -n", "mpirun -n 8 busbar proxy ..."}, /* --ranks of plan, given to proxy */
    {NULL, NULL, NULL},
};

const struct bb_foreign_name bb_foreign_programs[] = {
    /* DNN-cpp-proxies and its variants */
    {"gpt-2", "gpt2_large", "gpt2_large 48 4"},
    {"gpt2", "gpt2_large", "gpt2_large 48 4"},
    {"gpt-3", "gpt3", "gpt3 4"},
    {"gpt-3-moe", "gpt3_moe", "gpt3_moe 4"},
    {"bert", "bert_large", "bert_large 24 4"},
    /* MPI4DL and GEMS */
    {"mpi4dl", "spatial or gems", "spatial --model amoebanet_d"},
    {"now-dl", "spatial or gems", "spatial --model amoebanet_d"},
    {"amoebanet", "a model of spatial and gems", "spatial --model amoebanet_d"},
    {"amoebanet_run", "spatial", "spatial --model amoebanet_d"},
    {"benchmark_amoebanet_sp", "spatial", "spatial --model amoebanet_d"},
    {"resnet110", "a model of spatial and gems", "spatial --model resnet110_v2"},
    {"resnet_run", "spatial", "spatial --model resnet110_v2"},
    {"benchmark_resnet_sp", "spatial", "spatial --model resnet110_v2"},
    {"amoebanet_lp", "layer_parallel", "layer_parallel --model amoebanet_d"},
    {"benchmark_amoebanet_lp", "layer_parallel", "layer_parallel --model amoebanet_d"},
    {"resnet_lp", "layer_parallel", "layer_parallel --model resnet110_v2"},
    {"benchmark_resnet_lp", "layer_parallel", "layer_parallel --model resnet110_v2"},
    {"benchmark_sp_halo_exchange", "spatial", "spatial --compute none"},
    {"master_amoebanet_run", "gems", "gems MASTER --model amoebanet_d"},
    {"benchmark_amoebanet_gems", "gems", "gems MAST --model amoebanet_d"},
    {"benchmark_resnet_gems", "gems", "gems MAST --model resnet110_v2"},
    {"benchmark_amoebanet_gems_master", "gems", "gems MASTER --model amoebanet_d"},
    {"benchmark_amoebanet_gems_master_with_sp", "gems", "gems MASTER --model amoebanet_d --spatial-parts 2"},
    {"benchmark_resnet_gems_master", "gems", "gems MASTER --model resnet110_v2"},
    {"benchmark_resnet_gems_master_with_sp", "gems", "gems MASTER --model resnet110_v2 --spatial-parts 4"},
    {"mast", "gems MAST", "gems MAST"},
    {"gems-mast", "gems MAST", "gems MAST"},
    {"master", "gems MASTER", "gems MASTER"},
    {"gems-master", "gems MASTER", "gems MASTER"},
    {"comm-opt", "gems comm-opt", "gems comm-opt"},
    {"hybrid", "gems Hybrid", "gems Hybrid"},
    {"gems-hybrid", "gems Hybrid", "gems Hybrid"},
    /* Horovod */
    {"pytorch_synthetic_benchmark", "scaling", "scaling --format synthetic"},
    {NULL, NULL, NULL},
};

/* The proxy that accepts models of a family with --model. Models of other families have a proxy of the same name. */
static const struct {
    const char *family, *proxy;
} model_proxies[] = {{"transformer", "transformer"},
                     {"residual_network", "data_parallel"},
                     {"amoebanet", "spatial"},
                     {"preactivated_resnet", "spatial"}};

static int reject_model(const char *word)
{
    const char *model = NULL, *family;
    json_t *root;
    int rc;

    for (size_t i = 0; !model && (model = bb_model_name_at(i)); i++)
        model = strcmp(model, word) == 0 ? model : NULL;
    if (!model)
        return 0;
    TRY(bb_profile_load("models", model, &root));
    family = json_string_value(json_object_get(root, "family"));
    for (size_t i = 0; family && i < sizeof(model_proxies) / sizeof(model_proxies[0]); i++)
        if (strcmp(family, model_proxies[i].family) == 0)
            rc =
                bb_err(BB_EUSAGE, "%s is a model, not a proxy; try: %s --model %s", word, model_proxies[i].proxy, word);
    json_decref(root);
out:
    return rc;
}

int bb_reject_foreign_program(const char *word)
{
    const char *slash = strrchr(word, '/'), *base = slash ? slash + 1 : word;
    int rc = bb_reject_foreign(bb_foreign_programs, word, base, strcspn(base, "."), NULL);

    return rc ? rc : reject_model(word);
}
