/* stage_units.c - lists the modules (layers, embedding, head) of a pipeline stage, and groups the tensors of each
 * module into units for the data-parallel synchronization (see training.h). */
#include "proxies/workloads/transformer/training.h"

#include "bootstrap/base/alloc.h"

#include <stdlib.h>

bool bb_stage_holds_tied_embedding(const struct bb_training *t, int stage)
{
    return t->grid.table_stage > 0 && t->arch.lora_rank == 0 && (stage == 0 || stage == t->grid.table_stage);
}

/* ---- modules ---- */

static void add_module(struct bb_modules *p, int layer, int chunk, bool recomputed)
{
    p->list[p->n++] = (struct bb_transformer_module){
        .layer = layer, .chunk = chunk, .recomputed = recomputed, .unit = {BB_NONE, BB_NONE}};
}

static void list_modules(struct bb_modules *p, const struct bb_training *t, int stage)
{
    const struct bb_schedule *s = &t->schedule;
    int chunks = s->chunks, parts = bb_schedule_parts(s), first;

    BB_NEW(p->list, t->arch.layers + t->arch.mtp + 2);
    BB_NEW(p->first, chunks);
    for (int c = 0; c < chunks; c++) {
        int part = bb_schedule_part(s, stage, c), n = bb_pipe_split_layers(&t->split, part, &first);

        p->first[c] = p->n;
        if (part == 0)
            add_module(p, BB_ARCH_EMBEDDING, c, false);
        for (int l = first; l < first + n; l++)
            add_module(p, l, c, bb_layers_is_recomputed(&t->layers_config, first, l));
        for (int k = 0; k < t->arch.mtp && part == bb_pipe_split_mtp_part(&t->split); k++)
            add_module(p, BB_ARCH_MTP, c, bb_layers_is_recomputed(&t->layers_config, first, first + n + k));
        if (part == parts - 1)
            add_module(p, BB_ARCH_HEAD, c, false);
    }
    p->first[chunks] = p->n;
}

/* ---- tensors ---- */

/* Returns the backward time of a layer for one micro-batch in microseconds. Horovod's tensor fusion depends on this
 * time, because Horovod fuses the gradients that become ready within one cycle time. */
static double backward_us(const struct bb_training *t, int layer)
{
    const struct bb_layers_config *layers_config = &t->layers_config;

    if (layer < 0)
        return 0;
    if (layers_config->backward_us > 0 || layers_config->forward_us > 0)
        return layers_config->backward_us > 0 ? layers_config->backward_us : 2 * layers_config->forward_us;
    return 2 * bb_layers_flops(t->layers, layer) / layers_config->tflops / 1e6;
}

/* Adds the tensors of one kind (dense or expert) of a module as one unit of the data-parallel synchronization
 * (struct bb_sync_unit in sync/sync.h), with `frozen` parameters that are gathered. Adds no unit if the module has neither. */
static void add_unit(struct bb_modules *p, const struct bb_training *t, struct bb_transformer_module *module,
                     enum bb_parameter_kind kind, const struct bb_arch_tensor *tensors, int n, size_t frozen,
                     struct bb_tensor **at)
{
    bool expert = kind == BB_EXPERT;
    struct bb_sync_unit *unit = &p->units[kind][p->n_units[kind]];

    *unit = (struct bb_sync_unit){.name = module->layer == BB_ARCH_EMBEDDING ? "embedding"
                                          : module->layer == BB_ARCH_HEAD    ? "head"
                                          : module->layer == BB_ARCH_MTP     ? "multi-token prediction"
                                                                             : "layer",
                                  .tensors = *at,
                                  .tied = module->layer == BB_ARCH_EMBEDDING && t->grid.pp == 1 &&
                                          (t->arch.tied || t->arch.encoder_layers > 0),
                                  .unquantized = t->policy.options.float8_gather &&
                                                 (module->layer == BB_ARCH_EMBEDDING || module->layer == BB_ARCH_HEAD ||
                                                  t->layers_config.precision > BB_GEMM_FP8),
                                  .chunk = module->chunk,
                                  .frozen = frozen,
                                  .backward_us = backward_us(t, module->layer)};
    for (int i = 0; i < n; i++)
        if (tensors[i].expert == expert) {
            size_t count = bb_arch_tensor_share(&tensors[i], expert ? t->grid.etp : t->grid.tp, t->grid.ep);

            *(*at)++ = (struct bb_tensor){.name = tensors[i].name, .count = count};
            unit->n++;
        }
    if (unit->n == 0 && frozen > 0)
        unit->n++, *(*at)++ = (struct bb_tensor){.name = "frozen"};
    if (unit->n > 0)
        module->unit[kind] = p->n_units[kind]++;
}

static void list_units(struct bb_modules *p, const struct bb_training *t, int stage)
{
    struct bb_arch_tensor tensors[BB_ARCH_TENSORS + 1], table[BB_ARCH_TENSORS];
    const struct bb_arch trained = bb_arch_trained(&t->arch);
    const bool is_frozen = trained.adapters_only && bb_sync_gathers_parameters(t->policy.kind);
    struct bb_tensor *at;

    BB_NEW(p->tensors, p->n * (BB_ARCH_TENSORS + 1));
    BB_NEW(p->units[BB_DENSE], p->n);
    BB_NEW(p->units[BB_EXPERT], p->n);
    at = p->tensors;
    for (int i = 0; i < p->n; i++) {
        int n = bb_arch_tensors(&trained, p->list[i].layer, tensors);
        struct bb_arch_rank_parameters held = {0};

        if (is_frozen)
            held = bb_arch_layer_share(&t->arch, p->list[i].layer, t->grid.tp, t->grid.etp, t->grid.ep);

        /* The head (tied embeddings) or the first layer of multi-token prediction includes the stage's copy of the embedding
         * table, which put_embedding (arch.c) lists first. */
        if (stage > 0 && stage == t->grid.table_stage &&
            p->list[i].layer == (t->arch.tied ? BB_ARCH_HEAD : BB_ARCH_MTP) &&
            (i == 0 || p->list[i - 1].layer != BB_ARCH_MTP || t->arch.tied)) {
            bb_arch_tensors(&t->arch, BB_ARCH_EMBEDDING, table);
            held.dense += bb_arch_tensor_share(&table[0], t->grid.tp, 1) * is_frozen;
            if (!trained.adapters_only)
                tensors[n++] = table[0];
        }
        add_unit(p, t, &p->list[i], BB_DENSE, tensors, n, held.dense, &at);
        add_unit(p, t, &p->list[i], BB_EXPERT, tensors, n, held.expert, &at);
        p->replicated += bb_layers_replicated_elements(t->layers, p->list[i].layer);
    }
}

void bb_modules_make(struct bb_modules *p, const struct bb_training *t, int stage)
{
    *p = (struct bb_modules){0};
    list_modules(p, t, stage);
    list_units(p, t, stage);
}

void bb_modules_release(struct bb_modules *p)
{
    for (int s = 0; s < BB_PARAMETER_KINDS; s++)
        free(p->units[s]);
    free(p->list);
    free(p->first);
    free(p->tensors);
    *p = (struct bb_modules){0};
}
