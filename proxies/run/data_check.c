/* data_check.c - runs each operation of a program once with known data (see data_check.h). */
#include "proxies/run/data_check.h"

#include "bootstrap/base/alloc.h"
#include "cuda/data/kernels.h"
#include "cuda/device/check.h"
#include "proxies/run/step_issue.h"

#include <stdlib.h>

static const unsigned char POISON = 0xa5;
static const int MAX_LINES = 5; /* maximum number of wrong operations printed per rank */

/* ---- test data and expected data of an operation ---- */

/* Returns the number of elements in the source of an operation; 0: the operation has no source (compute, receive).
 * For a rooted collective, the number is the same on all ranks, also on ranks that send nothing. n: number of ranks
 * of the operation's communicator. */
static size_t source_count(const struct bb_op *op, int n)
{
    if (op->kind == BB_OP_SEND)
        return op->count;
    return op->kind == BB_OP_COLLECTIVE ? bb_colls[op->coll].send_count(op->count, n) : 0;
}

/* Stores in *e the data that the destination must contain after the operation (struct bb_expect, pattern.h). rank:
 * this rank in the communicator; n: number of ranks of the communicator. Returns the number of elements that the
 * operation receives, or 0. */
static size_t expect_op(const struct bb_op *op, int rank, int n, struct bb_expect *e)
{
    int other = op->kind == BB_OP_COMPUTE ? BB_NONE : bb_op_peer(op, rank, n);

    if (op->kind == BB_OP_COLLECTIVE)
        return bb_coll_expect(op->coll, op->count, n, other, rank, e);
    *e = (struct bb_expect){.block = op->count, .source = op->kind == BB_OP_RECV ? other : 0};
    return op->kind == BB_OP_RECV ? op->count : 0;
}

/* Returns the test data pattern (pattern.h) of an operation; it is the same on all ranks of the communicator. All
 * messages of a communicator have one pattern, because sender and receiver have no common message number. Each
 * collective has a different pattern. n: number of ranks of the communicator; number: sequence number of the
 * collective on its communicator. */
static struct bb_pattern pattern_of(const struct bb_op *op, int n, uint64_t number)
{
    bool reduces = op->kind == BB_OP_COLLECTIVE && (bb_colls[op->coll].flags & BB_COLL_REDUCES);
    uint64_t seed = ((uint64_t)op->comm + 1) << 32 | (op->kind == BB_OP_COLLECTIVE ? number + 1 : 0);

    return bb_pattern_of(&bb_dtypes[op->dtype], reduces ? (int)op->redop : BB_COPY, n, seed);
}

/* ---- check of the operations that are launched together ---- */

struct check {
    struct bb_runner *r;
    /* [n] results of the comparisons, in device memory and in host memory: one per operation that is launched
     * together (single operation or group call); in the concurrent check one per operation of the program */
    struct bb_verdict *device, *host;
    int n;
    bool concurrent;
    cudaEvent_t *ends; /* concurrent check: [n_lanes] CUDA event recorded after the data of a lane (the operations
                          that one host call launches on one stream) are compared */
    int *last_user;    /* concurrent check: [n_buffers] index of the lane (operations that one host call launches on one
                          stream) that used the buffer most recently; BB_NONE: none yet */
    uint64_t collectives[BB_MAX_COMMS]; /* number of collectives checked so far on each communicator */
    unsigned long long wrong;
    int lines;
};

/* Returns the stream on which the data of an operation are written and compared. */
static cudaStream_t check_stream(const struct check *c, const struct bb_op *op)
{
    return c->concurrent ? c->r->streams[op->stream] : c->r->join;
}

static int poison_destination(struct check *c, const struct bb_op *op, const struct bb_comm *comm)
{
    struct bb_expect e;
    size_t bytes = expect_op(op, comm->rank, comm->size, &e) * bb_dtypes[op->dtype].bytes;

    return bytes ? BB_CUDA(cudaMemsetAsync(bb_runner_dst(c->r, op), POISON, bytes, check_stream(c, op))) : 0;
}

static int fill_source(struct check *c, const struct bb_op *op, const struct bb_comm *comm)
{
    struct bb_pattern p = pattern_of(op, comm->size, c->collectives[op->comm]);
    size_t count = source_count(op, comm->size);

    return count ? bb_fill(bb_runner_src(c->r, op), count, &p, comm->rank, 0, check_stream(c, op)) : 0;
}

static int compare_destination(struct check *c, const struct bb_op *op, const struct bb_comm *comm,
                               struct bb_verdict *verdict)
{
    struct bb_pattern p = pattern_of(op, comm->size, c->collectives[op->comm]);
    struct bb_expect e;
    size_t count = expect_op(op, comm->rank, comm->size, &e);
    int rc;

    TRY(bb_verdict_clear(verdict, check_stream(c, op)));
    if (count)
        TRY(bb_check(bb_runner_dst(c->r, op), count, &p, &e, verdict, check_stream(c, op)));
out:
    return rc;
}

/* Poisons the destinations, and then fills the sources, of all operations that are launched together (single
 * operation or group call). */
static int write_test_data(struct check *c, const struct bb_batch *batch)
{
    const struct bb_op *ops = &c->r->program->ops[batch->first];
    int rc = 0;

    for (int i = 0; i < batch->n; i++) /* all destinations first, because the source of an in-place operation is
                                          inside its destination */
        TRY(poison_destination(c, &ops[i], &c->r->comms[ops[i].comm]));
    for (int i = 0; i < batch->n; i++)
        TRY(fill_source(c, &ops[i], &c->r->comms[ops[i].comm]));
out:
    return rc;
}

/* Adds the number of wrong elements of operations first .. first + n - 1 of the program to c->wrong, and prints an
 * error for each operation with wrong data (up to MAX_LINES per rank). verdicts[i]: result of the comparison for
 * operation first + i. */
static void report_wrong(struct check *c, int first, int n, const struct bb_verdict *verdicts)
{
    char name[BB_OP_NAME];

    for (int i = 0; i < n; i++) {
        const struct bb_op *op = &c->r->program->ops[first + i];

        if (verdicts[i].wrong == 0)
            continue;
        c->wrong += verdicts[i].wrong;
        if (c->lines++ < MAX_LINES)
            bb_err(BB_EDATA, "operation %d, %s (%s): %llu elements wrong, the first at index %llu", first + i,
                   bb_op_name(c->r->layout, op, name), op->what ? op->what : "-", verdicts[i].wrong, verdicts[i].first);
    }
}

static int compare_batch(struct check *c, const struct bb_batch *batch, struct bb_verdict *verdicts)
{
    const struct bb_op *ops = &c->r->program->ops[batch->first];
    int rc = 0;

    for (int i = 0; i < batch->n; i++) {
        TRY(compare_destination(c, &ops[i], &c->r->comms[ops[i].comm], &verdicts[i]));
        c->collectives[ops[i].comm] += ops[i].kind == BB_OP_COLLECTIVE;
    }
out:
    return rc;
}

static int compare_and_report(struct check *c, const struct bb_batch *batch)
{
    int rc;

    TRY(compare_batch(c, batch, c->device));
    TRY(BB_CUDA(
        cudaMemcpyAsync(c->host, c->device, (size_t)batch->n * sizeof(*c->host), cudaMemcpyDeviceToHost, c->r->join)));
    TRY(bb_runner_wait(c->r, c->r->join, "the data check"));
    report_wrong(c, batch->first, batch->n, c->host);
out:
    return rc;
}

static int check_batch(struct check *c, const struct bb_batch *batch)
{
    char what[BB_OP_NAME];
    int rc;

    bb_op_name(c->r->layout, &c->r->program->ops[batch->first], what);
    TRY(write_test_data(c, batch));
    TRY(bb_runner_wait(c->r, c->r->join, "the writing of test data"));
    TRY(bb_runner_batch(c->r, batch));
    for (int i = 0; i < batch->lanes; i++)
        TRY(bb_runner_wait(c->r, c->r->streams[c->r->lanes[batch->lane + i].stream], what));
    TRY(compare_and_report(c, batch));
out:
    return rc;
}

/* ---- concurrent check ---- */

/* Makes the stream of `op` wait until the operations that used the buffer before have been compared. Then stores
 * `lane`, the lane of `op` (operations that one host call launches on one stream, runner.h), as the latest user of
 * the buffer. */
static int wait_for_user(struct check *c, const struct bb_op *op, int buffer, int lane)
{
    int before = buffer == BB_NONE ? BB_NONE : c->last_user[buffer];

    if (buffer != BB_NONE)
        c->last_user[buffer] = lane;
    if (before == BB_NONE || before == lane || c->r->lanes[before].stream == op->stream)
        return 0;
    return BB_CUDA(cudaStreamWaitEvent(c->r->streams[op->stream], c->ends[before], 0));
}

static int lane_of(const struct bb_runner *r, const struct bb_batch *batch, const struct bb_op *op)
{
    int lane = batch->lane;

    while (r->lanes[lane].stream != op->stream)
        lane++;
    return lane;
}

static int start_batch(struct check *c, const struct bb_batch *batch)
{
    const struct bb_op *ops = &c->r->program->ops[batch->first];
    int rc = 0;

    for (int i = 0; i < batch->n; i++) {
        int lane = lane_of(c->r, batch, &ops[i]);

        TRY(wait_for_user(c, &ops[i], ops[i].src, lane));
        TRY(wait_for_user(c, &ops[i], ops[i].dst, lane));
    }
    TRY(write_test_data(c, batch));
    TRY(bb_runner_batch(c->r, batch));
    TRY(compare_batch(c, batch, &c->device[batch->first]));
    for (int i = batch->lane; i < batch->lane + batch->lanes; i++)
        TRY(BB_CUDA(cudaEventRecord(c->ends[i], c->r->streams[c->r->lanes[i].stream])));
out:
    return rc;
}

static int wait_for_all(struct check *c)
{
    int rc = 0;

    for (int s = 0; s < c->r->program->n_streams; s++)
        TRY(bb_runner_wait(c->r, c->r->streams[s], "the concurrent data check"));
out:
    return rc;
}

/* Runs each kernel of the check once. CUDA loads a kernel at its first launch, which may synchronize with the GPU.
 * If this happened during the check, the host could block on a receive whose peer waits for this rank. */
static int load_kernels(struct check *c)
{
    int rc = 0;

    for (int i = 0; i < c->r->n_batches; i++) {
        const struct bb_batch *batch = &c->r->batches[i];

        if (!bb_op_is_comm(&c->r->program->ops[batch->first]))
            continue;
        TRY(write_test_data(c, batch));
        TRY(compare_batch(c, batch, &c->device[batch->first]));
        TRY(wait_for_all(c)); /* operations may share buffers, so the data of one launch are compared before the next
                                 launch's data are written */
    }
    for (int i = 0; i < BB_MAX_COMMS; i++)
        c->collectives[i] = 0;
    TRY(bb_world_barrier(c->r->world, "the data check"));
out:
    return rc;
}

static int start_all(struct check *c)
{
    const struct bb_program *p = c->r->program;
    int rc;

    TRY(load_kernels(c));
    for (int i = 0; i < c->r->n_batches; i++)
        if (bb_op_is_comm(&p->ops[c->r->batches[i].first]))
            TRY(start_batch(c, &c->r->batches[i]));
    TRY(wait_for_all(c));
    TRY(BB_CUDA(cudaMemcpy(c->host, c->device, (size_t)c->n * sizeof(*c->host), cudaMemcpyDeviceToHost)));
    report_wrong(c, 0, (int)p->n_ops, c->host);
out:
    return rc;
}

/* ---- check of the whole program ---- */

static int check_guards(struct check *c)
{
    int rc;

    TRY(bb_verdict_clear(c->device, c->r->join));
    TRY(bb_device_buffers_check_guards(c->r->areas, c->device, c->r->join));
    TRY(BB_CUDA(cudaMemcpyAsync(c->host, c->device, sizeof(*c->host), cudaMemcpyDeviceToHost, c->r->join)));
    TRY(bb_runner_wait(c->r, c->r->join, "the check of guard zones"));
    if (c->host->wrong)
        bb_err(BB_EDATA, "%llu bytes overwritten outside the program's buffers", c->host->wrong);
    c->wrong += c->host->wrong;
out:
    return rc;
}

static int check_init(struct check *c, struct bb_runner *r, bool concurrent)
{
    *c = (struct check){.r = r, .n = 1, .concurrent = concurrent};
    for (int i = 0; i < r->n_batches; i++)
        c->n = r->batches[i].n > c->n ? r->batches[i].n : c->n;
    if (concurrent && c->n < (int)r->program->n_ops)
        c->n = (int)r->program->n_ops;
    BB_NEW(c->host, c->n);
    BB_NEW(c->ends, r->n_lanes);
    BB_NEW(c->last_user, r->program->n_buffers);
    for (int b = 0; b < r->program->n_buffers; b++)
        c->last_user[b] = BB_NONE;
    return BB_CUDA(cudaMalloc((void **)&c->device, (size_t)c->n * sizeof(*c->device)));
}

/* Zeroes the results of the comparisons and creates the CUDA events of a concurrent check. For compute operations
 * the results stay zero (no wrong elements). */
static int prepare_concurrent(struct check *c)
{
    int rc;

    TRY(BB_CUDA(cudaMemsetAsync(c->device, 0, (size_t)c->n * sizeof(*c->device), c->r->join)));
    TRY(bb_runner_wait(c->r, c->r->join,
                       "the preparation of the data check")); /* the host waits until the results are zeroed, because
                                                                 streams write them later */
    for (int i = 0; i < c->r->n_lanes; i++)
        TRY(BB_CUDA(cudaEventCreateWithFlags(&c->ends[i], cudaEventDisableTiming)));
out:
    return rc;
}

static void check_release(struct check *c)
{
    for (int i = 0; i < c->r->n_lanes; i++)
        if (c->ends[i])
            (void)cudaEventDestroy(c->ends[i]);
    if (c->device)
        (void)cudaFree(c->device);
    free(c->host);
    free(c->ends);
    free(c->last_user);
}

int bb_data_check(struct bb_runner *r, unsigned long long *wrong)
{
    struct check c;
    int rc;

    TRY(check_init(&c, r, false));
    bb_world_reached(r->world, "the data check");
    for (int i = 0; i < r->n_batches; i++)
        if (bb_op_is_comm(&r->program->ops[r->batches[i].first]))
            TRY(check_batch(&c, &r->batches[i]));
    TRY(check_guards(&c));
    *wrong = c.wrong;
out:
    check_release(&c);
    return rc;
}

int bb_data_check_concurrent(struct bb_runner *r, unsigned long long *wrong)
{
    struct check c;
    int rc;

    TRY(check_init(&c, r, true));
    TRY(prepare_concurrent(&c));
    bb_world_reached(r->world, "the data check");
    TRY(start_all(&c));
    TRY(check_guards(&c));
    *wrong = c.wrong;
out:
    check_release(&c);
    return rc;
}
