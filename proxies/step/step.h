/*
 * step.h - a step of training on all ranks: the layout, one program per role, and which role each rank has. It knows
 * neither its builder nor what becomes of it.
 */
#ifndef BB_PROXIES_STEP_STEP_H
#define BB_PROXIES_STEP_STEP_H

#include "cuda/work/kernel_list.h"
#include "proxies/step/alltoallv.h"
#include "proxies/step/layout.h"
#include "proxies/step/program.h"

/* A step is held whole: so many operations of all its programs together take some 8 GiB, and as much again predicted. */
#define BB_MAX_OPERATIONS 40000000

/* What a builder makes: the layout, one program per role, and which role each rank has. */
struct bb_role {
    const char *name; /* "first stage", "middle stage", ...; owned by the step                     */
    struct bb_program program;
    double training_bytes[BB_USES]; /* what real training holds on such a rank, by formula; all 0: no formula */
};

struct bb_step {
    const char *proxy;
    const char *summary; /* one line: "48 layers in 4 stages of 12, 8 micro-batches, ..."; owned by the step */
    struct bb_layout layout;
    struct bb_role *roles;
    int n_roles;
    int *role_of;      /* [layout.ranks]                                                            */
    double parameters; /* of the whole model, for the report                                        */
    double samples;    /* per step, over all ranks; 0 when unknown                                  */
    double tokens;     /* in them; 0: they have none                                                */
    struct bb_strings {
        char **text;
        int n;
    } strings; /* texts that programs point to                                              */
    struct bb_kernel_list **kernel_lists; /* what compute operations point to */
    int n_kernel_lists;
    struct bb_alltoallv **tables; /* what alltoallv operations point to */
    int n_tables;
};

/* bb_op_peer_rank - the world rank that the operation means by its peer or root on that rank; BB_NONE on one that is in
 * no instance of its group. */
int bb_op_peer_rank(const struct bb_layout *l, const struct bb_op *op, int rank);

/* bb_step_training_bytes - of the rank that training takes most on, by formula; 0: no formula. */
double bb_step_training_bytes(const struct bb_step *step);

/* bb_step_release - fine on a zeroed or half-built one. */
void bb_step_release(struct bb_step *step);

/* For builders: room for n roles with empty programs; a text that lives as long as the step, NULL without memory. */
int bb_step_add_roles(struct bb_step *step, int n) BB_MUST_CHECK;
const char *bb_step_text(struct bb_step *step, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

struct bb_kernel_list *
bb_step_add_kernel_list(struct bb_step *step); /* empty, lives as long as the step; NULL without memory (said) */

/* bb_step_copy_kernel_list - a copy that has room for its items alone: for steps of thousands of lists; nothing may be appended. */
struct bb_kernel_list *bb_step_copy_kernel_list(struct bb_step *step, const struct bb_kernel_list *made);

/* bb_step_add_alltoallv_table - the numbers of an uneven exchange among n places, all 0, to be filled; lives as long as the step; NULL
 * without memory (said). */
struct bb_alltoallv *bb_step_add_alltoallv_table(struct bb_step *step, int n);

/* bb_step_expand - every alltoallv of the step as its messages: for who runs, draws or exports single messages. Returns
 * 0, -BB_EFAIL, or -BB_EUSAGE (said) for a step of too many. */
int bb_step_expand(struct bb_step *step) BB_MUST_CHECK;

/*
 * bb_step_scale_counts - a step of the same form with smaller messages, so that it fits where the whole does not: every
 * count times factor (0 to 1), rounded down, at least 1; buffers and offsets likewise, as large as their operations
 * need. Real work likewise (bb_kernel_list_scale); times of timed compute, parameters and samples stay. The summary says
 * it. Of messages alone: an alltoallv is expanded first. Returns 0 or -BB_EFAIL.
 */
int bb_step_scale_counts(struct bb_step *step, double factor) BB_MUST_CHECK;

static inline const struct bb_program *bb_step_program(const struct bb_step *step, int rank)
{
    return &step->roles[step->role_of[rank]].program;
}

#endif
