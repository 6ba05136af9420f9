/* step.c - allocation and release of a step: roles, strings, kernel lists and alltoallv tables. */
#include "proxies/form/step/step.h"

#include "bootstrap/base/alloc.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

int bb_op_peer_rank(const struct bb_layout *l, const struct bb_op *op, int rank)
{
    int group = l->comms[op->comm].group, instance = bb_group_instance(l, group, rank);
    int peer = bb_op_peer(op, bb_group_index(l, group, rank), l->groups[group].size);

    return instance == BB_NONE ? BB_NONE : bb_group_member(l, group, instance, peer);
}

double bb_step_training_bytes(const struct bb_step *step)
{
    double most = 0;

    for (int r = 0; r < step->n_roles; r++) {
        double sum = 0;

        for (int use = 0; use < BB_USES; use++)
            sum += step->roles[r].training_bytes[use];
        most = sum > most ? sum : most;
    }
    return most;
}

static bool launches(const struct bb_step *step, bool comm)
{
    for (int r = 0; r < step->n_roles; r++)
        for (size_t i = 0; i < step->roles[r].program.n_ops; i++) {
            const struct bb_op *op = &step->roles[r].program.ops[i];

            if (bb_op_is_comm(op) == comm && (comm || bb_op_launches(op)))
                return true;
        }
    return false;
}

bool bb_step_computes(const struct bb_step *step)
{
    return launches(step, false);
}

bool bb_step_has_both(const struct bb_step *step)
{
    return launches(step, true) && launches(step, false);
}

double bb_step_operations(const struct bb_step *step)
{
    double ops = 0;

    for (int rank = 0; rank < step->layout.ranks; rank++)
        ops += (double)bb_step_program(step, rank)->n_ops;
    return ops;
}

double bb_step_flops(const struct bb_step *step)
{
    double *of_role, sum = 0;

    BB_NEW(of_role, step->n_roles);
    for (int r = 0; r < step->n_roles; r++)
        for (size_t i = 0; i < step->roles[r].program.n_ops; i++)
            of_role[r] += step->roles[r].program.ops[i].flops;
    for (int rank = 0; rank < step->layout.ranks; rank++)
        sum += of_role[step->role_of[rank]];
    free(of_role);
    return sum;
}

double bb_step_causal_share(const struct bb_step *step)
{
    const double flops = bb_step_flops(step);

    return step->masked_flops > 0 && flops > step->masked_flops ? 1 - step->masked_flops / flops : NAN;
}

const char *bb_step_flops_note(const struct bb_step *step)
{
    return step->trained_parameters > 0 && step->trained_parameters < step->parameters
               ? "LoRA: 4 FLOPs instead of 6 per frozen weight and token (no weight gradients)"
               : NULL;
}

int bb_step_add_roles(struct bb_step *step, int n)
{
    BB_NEW(step->roles, n);
    BB_NEW(step->role_of, step->layout.ranks);
    for (; step->n_roles < n; step->n_roles++)
        bb_program_init(&step->roles[step->n_roles].program);
    return step->layout.rc;
}

const char *bb_step_text(struct bb_step *step, const char *fmt, ...)
{
    struct bb_strings *s = &step->strings;
    va_list args;

    BB_GROW(s->text, s->n);
    va_start(args, fmt);
    s->text[s->n] = bb_vformat(fmt, args);
    va_end(args);
    return s->text[s->n++];
}

struct bb_kernel_list *bb_step_add_kernel_list(struct bb_step *step)
{
    BB_GROW(step->kernel_lists, step->n_kernel_lists);
    BB_NEW(step->kernel_lists[step->n_kernel_lists], 1);
    return step->kernel_lists[step->n_kernel_lists++];
}

struct bb_kernel_list *bb_step_copy_kernel_list(struct bb_step *step, const struct bb_kernel_list *made)
{
    const size_t bytes = offsetof(struct bb_kernel_list, items) + (size_t)made->n * sizeof(made->items[0]);
    struct bb_kernel_list *work = bb_resize(NULL, bytes, 1);

    BB_GROW(step->kernel_lists, step->n_kernel_lists);
    memcpy(work, made, bytes);
    step->kernel_lists[step->n_kernel_lists++] = work;
    return work;
}

struct bb_alltoallv *bb_step_add_alltoallv_table(struct bb_step *step, int n)
{
    struct bb_alltoallv *table;

    BB_GROW(step->tables, step->n_tables);
    BB_NEW(table, 1);
    step->tables[step->n_tables++] = table;
    table->n = n;
    BB_NEW(table->rows, (size_t)n * (size_t)n);
    return table;
}

/* Reject a step that would have more than BB_MAX_OPERATIONS after bb_step_expand, before memory for them is
 * allocated. */
static int check_message_count(const struct bb_step *step)
{
    size_t n = 0;

    for (int r = 0; r < step->n_roles; r++)
        for (size_t i = 0; i < step->roles[r].program.n_ops; i++) {
            const struct bb_op *op = &step->roles[r].program.ops[i];

            n += op->kind == BB_OP_ALLTOALLV ? 2 * (size_t)bb_alltoallv_peers(op) : 1;
        }
    if (n <= BB_MAX_OPERATIONS)
        return 0;
    return bb_err(BB_EUSAGE,
                  "%s: %d programs have %zu operations, counting every send and receive of an alltoallv; at most %d "
                  "are supported; "
                  "try: fewer --micro-batches, or a plan without --trace, --export and --scale-counts",
                  step->proxy, step->n_roles, n, BB_MAX_OPERATIONS);
}

int bb_step_expand(struct bb_step *step)
{
    int rc;

    TRY(check_message_count(step));
    for (int r = 0; r < step->n_roles; r++) {
        struct bb_program *p = &step->roles[r].program, messages;
        bool expands = false;

        for (size_t i = 0; i < p->n_ops; i++)
            expands |= p->ops[i].kind == BB_OP_ALLTOALLV;
        if (!expands)
            continue;
        bb_program_expand(p, &messages);
        bb_program_release(p);
        *p = messages;
        TRY(p->rc);
    }
out:
    return rc;
}

void bb_step_release(struct bb_step *step)
{
    for (int r = 0; r < step->n_roles; r++)
        bb_program_release(&step->roles[r].program);
    for (int t = 0; t < step->strings.n; t++)
        free(step->strings.text[t]);
    for (int w = 0; w < step->n_kernel_lists; w++)
        free(step->kernel_lists[w]);
    for (int t = 0; t < step->n_tables; t++) {
        free(step->tables[t]->rows);
        free(step->tables[t]);
    }
    free(step->tables);
    free(step->kernel_lists);
    free(step->roles);
    free(step->role_of);
    free(step->strings.text);
    bb_layout_release(&step->layout);
    *step = (struct bb_step){0};
}
