/* step.c - the life of a step, and what every builder's step must satisfy before anybody uses it. */
#include "proxies/proxy.h"

#include "proxies/shrink.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

int bb_step_add_roles(struct bb_step *step, int n)
{
    step->roles = calloc((size_t)n, sizeof(*step->roles));
    step->role_of = calloc((size_t)step->layout.ranks, sizeof(*step->role_of));
    if (!step->roles || !step->role_of)
        return bb_err(BB_EFAIL, "out of memory for a step of %d ranks", step->layout.ranks);
    for (; step->n_roles < n; step->n_roles++)
        if (bb_program_init(&step->roles[step->n_roles].program))
            return -BB_EFAIL;
    return 0;
}

const char *bb_step_text(struct bb_step *step, const char *fmt, ...)
{
    struct bb_strings *s = &step->strings;
    char **bigger = realloc(s->text, sizeof(*bigger) * (size_t)(s->n + 1));
    va_list args;
    int length;

    if (bigger)
        s->text = bigger;
    va_start(args, fmt);
    length = bigger ? vasprintf(&s->text[s->n], fmt, args) : -1;
    va_end(args);
    if (length >= 0)
        return s->text[s->n++];
    bb_err(BB_EFAIL, "out of memory for a text");
    return NULL;
}

struct bb_work *bb_step_work(struct bb_step *step)
{
    struct bb_work **bigger = realloc(step->works, sizeof(*bigger) * (size_t)(step->n_works + 1));

    if (bigger) {
        step->works = bigger;
        step->works[step->n_works] = calloc(1, sizeof(**step->works));
        if (step->works[step->n_works])
            return step->works[step->n_works++];
    }
    bb_err(BB_EFAIL, "out of memory for a layer's work");
    return NULL;
}

/* A builder's slip in one operation: what would make the later parts read where nothing is. */
static const char *slip_of(const struct bb_layout *l, const struct bb_program *p, size_t i, int latest)
{
    const struct bb_op *op = &p->ops[i];

    if (op->stream < 0 || op->stream >= p->n_streams)
        return "has no such stream";
    if (bb_op_is_comm(op) != (op->comm != BB_NONE) || op->comm >= l->n_comms)
        return "has no such communicator";
    if (op->src >= p->n_buffers || op->dst >= p->n_buffers)
        return "has no such buffer";
    for (int w = 0; w < op->waits; w++)
        if (p->wait_list[op->first_wait + w] < 0 || (size_t)p->wait_list[op->first_wait + w] >= i)
            return "waits for a later operation";
    if (op->call != BB_NONE && op->call <= latest && p->ops[i - 1].call != op->call)
        return "stands apart from its group call, or its call has a smaller number than one before";
    return NULL;
}

static int check_form(const struct bb_step *step, const struct bb_role *role)
{
    int latest = BB_NONE; /* the largest call number so far */

    for (size_t i = 0; i < role->program.n_ops; i++) {
        const char *slip = slip_of(&step->layout, &role->program, i, latest);

        if (slip)
            return bb_err(BB_EFAIL, "%s: operation %zu of '%s' %s", step->proxy, i, role->name, slip);
        if (role->program.ops[i].call > latest)
            latest = role->program.ops[i].call;
    }
    return 0;
}

int bb_step_build(struct bb_step *step, const struct bb_proxy *proxy, const struct bb_proxy_config *config)
{
    int rc;

    *step = (struct bb_step){.proxy = proxy->name};
    TRY(proxy->build(config, step));
    for (int r = 0; r < step->n_roles; r++)
        TRY(check_form(step, &step->roles[r]));
    if (config->scale_counts > 0 && config->scale_counts != 1)
        TRY(bb_step_shrink(step, config->scale_counts));
out:
    if (rc)
        bb_step_release(step);
    return rc;
}

void bb_step_release(struct bb_step *step)
{
    for (int r = 0; r < step->n_roles; r++)
        bb_program_release(&step->roles[r].program);
    for (int t = 0; t < step->strings.n; t++)
        free(step->strings.text[t]);
    for (int w = 0; w < step->n_works; w++)
        free(step->works[w]);
    free(step->works);
    free(step->roles);
    free(step->role_of);
    free(step->strings.text);
    bb_layout_release(&step->layout);
    *step = (struct bb_step){0};
}
