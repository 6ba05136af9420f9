/*
 * step.h - one training step on all ranks: a layout (ranks, groups, communicators), one program (list of operations,
 * program.h) per role, and the role of each rank.
 *
 * A role is a set of ranks that execute the same program, for example "first stage". The code in proxies/workloads/seeds,
 * transformer, replicas and spatial builds a step; the plan, the simulator, the exports and the run read the step.
 */
#ifndef BB_PROXIES_FORM_STEP_STEP_H
#define BB_PROXIES_FORM_STEP_STEP_H

#include "cuda/work/kernel_list.h"
#include "proxies/form/step/alltoallv.h"
#include "proxies/form/step/layout.h"
#include "proxies/form/step/program.h"

/* Maximum number of operations in all programs of a step together. A step of this size needs about 8 GiB of memory,
 * and its prediction 8 GiB more. */
#define BB_MAX_OPERATIONS 40000000

/* A role: a set of ranks that execute the same program. */
struct bb_role {
    const char *name; /* "first stage", "middle stage", ...; owned by the step */
    struct bb_program program;
    /* [BB_USES] bytes of GPU memory that real training allocates on each rank of this role, indexed by enum
     * bb_buffer_use. Computed with formulas of the proxy; all 0 when the proxy has no formulas */
    double training_bytes[BB_USES];
};

struct bb_step {
    const char *proxy;
    const char *summary; /* for example "48 layers in 4 stages of 12, 8 micro-batches, ..."; owned by the step */
    struct bb_layout layout;
    struct bb_role *roles;
    int n_roles;
    int *role_of;      /* [layout.ranks] role of each rank, as an index into roles */
    bool lock_step;    /* true: a pipeline stage sends without waiting for its input, as gpt2_large and bert_large do;
                          waiting for another stage is then no pipeline bubble */
    double parameters; /* number of parameters of the whole model; used only in reports */
    double trained_parameters; /* parameters with gradients; 0: all */
    double samples;            /* samples per training step over all ranks; 0: unknown */
    double tokens;             /* tokens per training step over all ranks; 0: samples do not consist of tokens */
    double masked_flops;       /* part of bb_step_flops that a causal mask of attention hides; 0: no causal attention */
    double host_bytes;         /* maximum bytes of activations of a rank in host memory; 0: none is copied there */
    double host_optimizer_bytes; /* the same of its optimizer */
    bool
        unfused_attention; /* transformer: the training memory counts attention scores, which unfused attention stores */
    struct bb_strings {
        char **text;
        int n;
    } strings;                            /* strings to which the step's programs point; owned by the step */
    struct bb_kernel_list **kernel_lists; /* [n_kernel_lists] kernel lists to which compute operations point; owned
                                             by the step */
    int n_kernel_lists;
    struct bb_alltoallv **tables; /* [n_tables] row counts per pair of ranks, to which alltoallv operations point;
                                     owned by the step */
    int n_tables;
};

/*
 * bb_op_peer_rank - convert the peer or root of an operation to a world rank.
 *   rank     world rank that executes the operation
 *   Returns  the world rank, or BB_NONE if `rank` belongs to no instance of the operation's group
 */
int bb_op_peer_rank(const struct bb_layout *l, const struct bb_op *op, int rank);

/* bb_step_training_bytes - return the bytes of GPU memory that real training needs on the rank that needs most; 0
 * when the proxy has no formula for them. */
double bb_step_training_bytes(const struct bb_step *step);

/* bb_step_computes - return whether the step launches compute (bb_op_launches).
 * bb_step_has_both - return whether the step launches both communication and compute. */
bool bb_step_computes(const struct bb_step *step);
bool bb_step_has_both(const struct bb_step *step);

/* bb_step_operations - return the number of operations of one step, summed over all ranks. */
double bb_step_operations(const struct bb_step *step);

/*
 * bb_step_flops - return the FLOPs of one step, summed over all ranks. Attention counts in full, as in Megatron-LM, even
 *     if a causal mask hides half of its scores.
 * bb_step_causal_share - return the part of these FLOPs that remains when only the scores that a causal mask leaves are
 *     counted, 0 to 1; NaN for a step without causal attention or without FLOPs.
 * bb_step_flops_note - return which FLOPs of training do not exist in this step; NULL: none.
 */
double bb_step_flops(const struct bb_step *step);
double bb_step_causal_share(const struct bb_step *step);
const char *bb_step_flops_note(const struct bb_step *step);

/* bb_step_release - free a step. Accepts a zeroed or partially built step. */
void bb_step_release(struct bb_step *step);

/*
 * The functions below are for builders. The step owns the objects that they return.
 *
 * bb_step_add_roles - allocate n roles with empty programs. Call after the layout is complete.
 *   Returns  0, or bb_layout.rc: the error of an earlier call that added a group or a communicator and printed a line
 * bb_step_text - format a string that lives as long as the step.
 * bb_step_add_kernel_list - add an empty kernel list.
 */
int bb_step_add_roles(struct bb_step *step, int n) BB_MUST_CHECK;
const char *bb_step_text(struct bb_step *step, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
struct bb_kernel_list *bb_step_add_kernel_list(struct bb_step *step);

/*
 * bb_step_copy_kernel_list - copy the kernel list `made` into the step, with an array of exactly its length. This saves
 * memory in steps with thousands of lists. Nothing may be appended to the copy.
 */
struct bb_kernel_list *bb_step_copy_kernel_list(struct bb_step *step, const struct bb_kernel_list *made);

/*
 * bb_step_add_alltoallv_table - allocate a table with the number of rows that each of n ranks sends to each other rank
 * in an alltoallv. All numbers are 0; the code that builds the step sets them.
 */
struct bb_alltoallv *bb_step_add_alltoallv_table(struct bb_step *step, int n);

/*
 * bb_step_expand - replace every alltoallv of the step by its sends and receives, for code that executes, draws or
 * exports individual messages.
 *   Returns  0, or -BB_EUSAGE after printing an error line when the step would have more than BB_MAX_OPERATIONS
 */
int bb_step_expand(struct bb_step *step) BB_MUST_CHECK;

/*
 * bb_step_scale_counts - shrink the messages of a step so that a machine with less memory can run the step.
 *   factor   above 0, at most 1
 *
 * Every count is multiplied by factor and rounded down, to at least 1. Buffers and offsets shrink with the counts but
 * stay large enough for their operations. Kernel lists shrink too (bb_kernel_list_scale). The durations of timed
 * kernels, the number of parameters and the number of samples do not change. The factor is appended to the summary. The
 * step must not contain an alltoallv; call bb_step_expand first.
 */
void bb_step_scale_counts(struct bb_step *step, double factor);

static inline const struct bb_program *bb_step_program(const struct bb_step *step, int rank)
{
    return &step->roles[step->role_of[rank]].program;
}

#endif
