/* sync.c - skeleton: one all-reduce of everything after the backward (see sync.h). */
#include "proxies/sync/sync.h"

#include <stdlib.h>
#include <string.h>

const char *const bb_sync_words[BB_SYNC_KINDS + 1] = {
    "all_reduce", "horovod", "zero1", "zero2", "zero3", "hsdp", "distributed", "ps", "ps_p2p", "ps_sharded", NULL,
};
const char *const bb_dp_sync_words[BB_SYNC_PS + 1] = {
    "all_reduce", "horovod", "zero1", "zero2", "zero3", "hsdp", "distributed", NULL,
};

struct bb_sync {
    struct bb_sync_spec spec;
    struct bb_script_lane lane;
};

enum bb_sync_kind bb_sync_find(const char *word)
{
    int kind = BB_SYNC_ALL_REDUCE;

    while (word && strcmp(bb_sync_words[kind], word) != 0)
        kind++;
    return (enum bb_sync_kind)kind;
}

int bb_sync_settle(const struct bb_proxy_config *c, enum bb_sync_kind kind, enum bb_dtype_id params,
                   enum bb_dtype_id grads, struct bb_sync_policy *p)
{
    (void)c;
    *p = (struct bb_sync_policy){.kind = kind, .params = params, .grads = grads};
    return 0;
}

int bb_sync_layout(struct bb_step *step, const struct bb_sync_policy *p, int group, int gpus_per_node,
                   struct bb_sync_comms *comms)
{
    struct bb_layout *l = &step->layout;

    (void)p;
    (void)gpus_per_node;
    *comms = (struct bb_sync_comms){.gradients = BB_NONE,
                                    .parameters = BB_NONE,
                                    .replicas = BB_NONE,
                                    .local = BB_NONE,
                                    .cross = BB_NONE,
                                    .n = 1,
                                    .n_replicas = 1,
                                    .n_local = 1,
                                    .n_cross = 1};
    if (group == BB_NONE || l->groups[group].size < 2)
        return 0;
    comms->n = l->groups[group].size;
    comms->gradients = bb_layout_add_comm(l, l->groups[group].name, group);
    return comms->gradients < 0 ? -BB_EFAIL : 0;
}

int bb_sync_init(struct bb_sync **s, const struct bb_sync_spec *spec)
{
    *s = calloc(1, sizeof(**s));
    if (!*s)
        return bb_err(BB_EFAIL, "out of memory for gradients");
    (*s)->spec = *spec;
    if (spec->comms.gradients != BB_NONE)
        (*s)->lane = bb_script_lane(spec->script, &spec->step->layout, spec->comms.gradients);
    return 0;
}

void bb_sync_release(struct bb_sync *s)
{
    free(s);
}

void bb_sync_begin(struct bb_sync *s)
{
    (void)s;
}

void bb_sync_forward(struct bb_sync *s, int unit)
{
    (void)s;
    (void)unit;
}

void bb_sync_forwarded(struct bb_sync *s, int unit)
{
    (void)s;
    (void)unit;
}

void bb_sync_backward(struct bb_sync *s, int unit)
{
    (void)s;
    (void)unit;
}

void bb_sync_backwarded(struct bb_sync *s, int unit, bool last)
{
    (void)s;
    (void)unit;
    (void)last;
}

void bb_sync_reduced(struct bb_sync *s)
{
    size_t count = 0;

    for (int u = 0; u < s->spec.n_units; u++)
        for (int t = 0; t < s->spec.units[u].n; t++)
            count += s->spec.units[u].tensors[t].count;
    if (s->spec.comms.gradients != BB_NONE && count)
        bb_script_wait(s->spec.script, bb_script_reduce(s->spec.script, s->lane, "gradients", count));
}

void bb_sync_finish(struct bb_sync *s)
{
    bb_sync_reduced(s);
}

void bb_sync_memory(const struct bb_sync_policy *p, const struct bb_sync_comms *comms, double parameters,
                    double bytes[BB_USES])
{
    (void)comms;
    bytes[BB_USE_PARAMETERS] += parameters * bb_dtypes[p->params].bytes;
    bytes[BB_USE_GRADIENTS] += parameters * bb_dtypes[p->grads].bytes;
    bytes[BB_USE_OPTIMIZER] += parameters * 12;
}
