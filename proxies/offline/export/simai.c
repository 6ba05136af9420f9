/*
 * simai.c - writes a training step as SimAI's workload text, a format of ASTRA-sim 1.0 that the workload generator AICB
 * also writes. It lists the step of one rank as rows, and all ranks execute all rows. Each row has compute and
 * communication in three columns: forward pass, gradients of the inputs, and gradients of the weights. SimAI first
 * executes the forward column from the first row to the last, then the two gradient columns from the last row to the
 * first. Communication in the forward and input gradient columns is blocking; communication in the weight gradient
 * column is asynchronous.
 *
 * The file therefore contains the forward pass in order, and then the rest of the step in reverse order. Keywords and
 * their order are those of SimAI's Workload.cc. The rows are those of rank 0, because AICB writes the rows of the first
 * pipeline stage.
 */
#include "bootstrap/base/alloc.h"
#include "proxies/offline/export/export.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

enum column { FORWARD, INPUT, WEIGHT, COLUMNS };
enum side { TP, EP, DP, DP_EP, PP, SIDES };

/*
 * SimAI's parallel group (TP, DP, EP, ...) that corresponds to each communicator group of a step. In the file, a suffix
 * of the collective's name selects SimAI's group. A name without suffix means TP or, in the column of weight gradients,
 * DP.
 */
static const struct {
    const char *group;
    enum side side;
} sides[] = {{"tp", TP}, {"ep", EP}, {"dp", DP}, {"edp", DP_EP}, {"moe_ep", EP}, {"moe_dp", DP_EP}, {"pp", PP}};

static const char *const suffixes[SIDES] = {[TP] = "", [EP] = "_EP", [DP] = "", [DP_EP] = "_DP_EP"};

/* SimAI's names of the collectives; NULL: SimAI does not have the collective. */
static const char *const collective_names[BB_COLL_KIND_COUNT] = {[BB_ALL_REDUCE] = "ALLREDUCE",
                                                                 [BB_ALL_GATHER] = "ALLGATHER",
                                                                 [BB_REDUCE_SCATTER] = "REDUCESCATTER",
                                                                 [BB_ALLTOALL] = "ALLTOALL"};

static const size_t SMALL_BYTES = 64; /* A collective of fewer bytes, such as the sum of a norm or a flag, is omitted
                                         if no SimAI group corresponds to its communicator. */
/* Optimizer time in ns that is written in each row: the smallest possible value, because separate rows contain the
 * optimizer's kernels. */
enum { UPDATE_NS = 1 };

struct row {
    const struct bb_op *op; /* first operation of the row, whose name is the row's name */
    int64_t compute_ns[COLUMNS];
    /* For each column (forward, input gradients, weight gradients): word: name of the collective (NULL: no
     * communication); suffix: suffix of the name that selects SimAI's group. */
    const char *word[COLUMNS], *suffix[COLUMNS];
    size_t bytes[COLUMNS];
    /* index of the first field of the row that is still free. A row has six fields, which SimAI executes in order:
     * field 2 x column is the compute of a column, field 2 x column + 1 its communication. */
    int filled;
};

struct workload {
    const struct bb_export *e;
    int size[SIDES]; /* [SIDES] number of ranks in each of SimAI's groups */
    int micro_batches, virtual_stages;
    size_t message_bytes; /* size in bytes of each message between pipeline stages; 0: no message yet */
    struct row *rows[2];  /* rows[0]: forward pass; rows[1]: rest of the step */
    size_t n[2];
};

/* ---- SimAI's groups ---- */

/* Returns the number of ranks in the step's communicator group that corresponds to SimAI's group `side`; 1 if the
 * step has no such communicator group. */
static int size_of(const struct bb_layout *l, enum side side)
{
    for (size_t i = 0; i < sizeof(sides) / sizeof(sides[0]); i++)
        for (int g = 0; g < l->n_groups && sides[i].side == side; g++)
            if (strcmp(l->groups[g].name, sides[i].group) == 0)
                return l->groups[g].size;
    return 1;
}

static void set_sizes(struct workload *w)
{
    const struct bb_layout *l = &w->e->step->layout;

    w->size[TP] = size_of(l, TP);
    w->size[EP] = size_of(l, EP);
    w->size[PP] = size_of(l, PP);
    w->size[DP] = l->ranks / (w->size[TP] * w->size[PP]);
    w->size[DP_EP] = w->size[DP] / w->size[EP];
}

/*
 * Returns SimAI's group for the communicator of an operation; SIDES if there is none. SimAI computes the sizes of its
 * groups from the header of the file, so a communicator with a different number of ranks has no counterpart in SimAI.
 */
static enum side side_of(const struct workload *w, const struct bb_op *op)
{
    const struct bb_layout *l = &w->e->step->layout;
    const struct bb_group *group = &l->groups[l->comms[op->comm].group];

    for (size_t i = 0; i < sizeof(sides) / sizeof(sides[0]); i++)
        if (strcmp(group->name, sides[i].group) == 0 && group->size == w->size[sides[i].side])
            return sides[i].side;
    return SIDES;
}

static int reject_op(const struct workload *w, const struct bb_op *op)
{
    const struct bb_layout *l = &w->e->step->layout;

    return bb_err(
        BB_EUSAGE,
        "--export simai: SimAI has no %s over '%s' with %d ranks; it has all_reduce, all_gather, reduce_scatter and "
        "alltoall over tp (%d), ep (%d), dp (%d) and edp (%d), and messages over pp; try: --export chakra",
        bb_op_kind_name(op->kind, op->coll), l->groups[l->comms[op->comm].group].name,
        l->groups[l->comms[op->comm].group].size, w->size[TP], w->size[EP], w->size[DP], w->size[DP_EP]);
}

/* ---- rows of the file ---- */

/* Returns the row of the file to which an operation is added in field `slot` (see struct row, filled). This is the
 * last row of the forward pass or of the rest of the step, depending on the operation, if this field and all later
 * fields of that row are free; otherwise a new row. */
static struct row *row_with(struct workload *w, const struct bb_op *op, int slot)
{
    const int part = op->phase != BB_PHASE_FORWARD;
    struct row *row;

    if (w->n[part] > 0 && w->rows[part][w->n[part] - 1].filled <= slot) {
        row = &w->rows[part][w->n[part] - 1];
    } else {
        BB_GROW(w->rows[part], w->n[part]);
        row = &w->rows[part][w->n[part]++];
        *row = (struct row){.op = op};
    }
    row->filled = slot + 1;
    return row;
}

/*
 * Adds a compute operation. SimAI does not model the host, so the time of the operation is the longer of its kernel
 * time and its launch time.
 */
static void add_compute(struct workload *w, const struct bb_op *op)
{
    const enum column column = op->phase == BB_PHASE_FORWARD    ? FORWARD
                               : op->phase == BB_PHASE_BACKWARD ? INPUT
                                                                : WEIGHT;
    struct row *row = row_with(w, op, 2 * column);

    row->compute_ns[column] = MAX(bb_export_compute_ns(w->e, 0, op), bb_export_host_ns(w->e, op));
}

static int add_collective(struct workload *w, const struct bb_op *op)
{
    const int ranks = w->e->step->layout.groups[w->e->step->layout.comms[op->comm].group].size;
    const size_t bytes = bb_op_payload_bytes(op, ranks);
    const enum side side = side_of(w, op);
    const enum column column = side == DP || side == DP_EP ? WEIGHT : op->phase == BB_PHASE_FORWARD ? FORWARD : INPUT;
    const bool known = side != SIDES && side != PP;
    struct row *row;

    if (ranks == 1 || (!known && bytes < SMALL_BYTES))
        return 0;
    if (!known || !collective_names[op->coll])
        return reject_op(w, op);
    row = row_with(w, op, 2 * column + 1);
    row->word[column] = collective_names[op->coll];
    row->suffix[column] = suffixes[side];
    row->bytes[column] = bytes;
    return 0;
}

/* Rejects messages that SimAI cannot represent. The header of the file has one message size, so all messages must be
 * between pipeline stages and have equal sizes. */
static int check_message(struct workload *w, const struct bb_op *op)
{
    const size_t bytes = bb_op_payload_bytes(op, 2);

    if (side_of(w, op) != PP)
        return reject_op(w, op);
    if (w->message_bytes && bytes != w->message_bytes)
        return bb_err(
            BB_EUSAGE,
            "--export simai: messages between stages have %zu or %zu bytes, but SimAI supports only one size; "
            "try: --export chakra",
            w->message_bytes, bytes);
    if (bytes > INT_MAX)
        return bb_err(
            BB_EUSAGE,
            "--export simai: messages between stages have %zu bytes, but SimAI supports at most %d; try: --export "
            "chakra",
            bytes, INT_MAX);
    w->message_bytes = bytes;
    return 0;
}

static int add_ops(struct workload *w, const struct bb_program *p)
{
    int rc = 0;

    for (size_t i = 0; i < p->n_ops && rc == 0; i++)
        if (p->ops[i].kind == BB_OP_COMPUTE)
            add_compute(w, &p->ops[i]);
        else
            rc = p->ops[i].kind == BB_OP_COLLECTIVE ? add_collective(w, &p->ops[i]) : check_message(w, &p->ops[i]);
    return rc;
}

/*
 * Computes the number of virtual pipeline stages from the largest number of sends that a rank executes: with m
 * micro-batches and v virtual stages, a stage in the middle of the pipeline sends v * m messages in forward and v * m
 * in backward.
 */
static void count_messages(struct workload *w)
{
    int most = 0;

    w->micro_batches = bb_export_micro_batches(w->e->step);
    for (int r = 0; r < w->e->step->n_roles; r++) {
        const struct bb_program *p = &w->e->step->roles[r].program;
        int sends = 0;

        for (size_t i = 0; i < p->n_ops; i++)
            sends += p->ops[i].kind == BB_OP_SEND;
        most = sends > most ? sends : most;
    }
    w->virtual_stages = (most + 2 * w->micro_batches - 1) / (2 * w->micro_batches);
    w->virtual_stages = w->virtual_stages > 0 ? w->virtual_stages : 1;
}

/* ---- text of the file ---- */

static void print_row(const struct row *row, FILE *out)
{
    fputs(bb_phase_names[row->op->phase], out);
    if (row->op->layer != BB_NONE)
        fprintf(out, "_layer%d", row->op->layer);
    if (row->op->micro_batch != BB_NONE)
        fprintf(out, "_batch%d", row->op->micro_batch);
    fputs("\t-1", out);
    for (int c = 0; c < COLUMNS; c++)
        fprintf(out, "\t%lld\t%s%s\t%zu", (long long)row->compute_ns[c], row->word[c] ? row->word[c] : "NONE",
                row->word[c] ? row->suffix[c] : "", row->bytes[c]);
    fprintf(out, "\t%d\n", UPDATE_NS);
}

/* Prints the header. SimAI searches the header line for known keywords, so other text (the command line) may follow
 * the keywords. */
static void print_head(const struct workload *w, FILE *out)
{
    char head[512];

    bb_export_source_text(w->e, head, sizeof(head));
    fprintf(out,
            "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: %d ep: %d pp: %d vpp: %d ga: %d all_gpus: %d "
            "checkpoints: 0 checkpoint_initiates: 0",
            w->size[TP], w->size[EP], w->size[PP], w->virtual_stages, w->micro_batches, w->e->step->layout.ranks);
    if (w->size[PP] > 1)
        fprintf(out, " pp_comm: %zu", w->message_bytes);
    fprintf(out, " %s\n%zu\n", head, w->n[0] + w->n[1]);
}

int bb_export_simai(const struct bb_export *e, FILE *out)
{
    struct workload w = {.e = e};
    int rc;

    set_sizes(&w);
    count_messages(&w);
    TRY(add_ops(&w, bb_step_program(e->step, 0)));
    print_head(&w, out);
    for (size_t i = 0; i < w.n[0]; i++)
        print_row(&w.rows[0][i], out);
    for (size_t i = w.n[1]; i-- > 0;)
        print_row(&w.rows[1][i], out);
out:
    free(w.rows[0]);
    free(w.rows[1]);
    return rc;
}
