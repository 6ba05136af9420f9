/* data_check.c - runs each operation of a program once with known data (see data_check.h). */
#include "proxies/runner/run/data_check.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/base/units.h"
#include "cuda/data/kernels.h"
#include "cuda/device/check.h"
#include "cuda/device/stream.h"
#include "proxies/runner/run/step_issue.h"

#include <stdlib.h>
#include <string.h>

static const unsigned char POISON = 0xa5;
static const int MAX_LINES = 5; /* maximum number of wrong operations printed per rank */

/* ---- test data and expected data of an operation ---- */

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
    struct bb_verdict *device, *host; /* [n_ops] results of the comparisons, in device memory and in host memory; those
                                         of compute operations stay zero (no wrong elements) */
    bool concurrent;
    cudaEvent_t *ends; /* concurrent check: [n_lanes] CUDA event recorded after the data of a lane (the operations
                          that one host call launches on one stream) are compared */
    int *last_user;    /* concurrent check: [n_buffers] index of the lane (operations that one host call launches on one
                          stream) that used the buffer most recently; BB_NONE: none yet */
    uint64_t collectives[BB_MAX_COMMS]; /* number of collectives checked so far on each communicator */
    struct bb_data_finding found;
    int lines;
};

/* Returns the stream on which the data of an operation are written and compared. */
static cudaStream_t check_stream(const struct check *c, const struct bb_op *op)
{
    return c->concurrent ? c->r->streams[op->stream] : c->r->join;
}

/* For a rooted collective, the number of elements in the source is the same on all ranks, also on ranks that send
 * nothing. */
static int fill_source(struct check *c, const struct bb_op *op, const struct bb_comm *comm)
{
    struct bb_pattern p = pattern_of(op, comm->size, c->collectives[op->comm]);
    size_t count = op->kind == BB_OP_SEND ? op->count : 0;

    if (op->kind == BB_OP_COLLECTIVE)
        count = bb_colls[op->coll].send_count(op->count, comm->size);
    return count ? bb_fill(bb_runner_src(c->r, op), count, &p, comm->rank, 0, check_stream(c, op)) : 0;
}

/* Poisons the destinations, and then fills the sources, of all operations that are launched together (single
 * operation or group call). */
static int write_test_data(struct check *c, const struct bb_batch *batch)
{
    const struct bb_op *ops = &c->r->program->ops[batch->first];
    int rc = 0;

    for (int i = 0; i < batch->n; i++) { /* all destinations first, because the source of an in-place operation is
                                            inside its destination */
        const struct bb_comm *comm = &c->r->comms[ops[i].comm];
        struct bb_expect e;
        const size_t bytes = expect_op(&ops[i], comm->rank, comm->size, &e) * bb_dtypes[ops[i].dtype].bytes;

        if (bytes)
            TRY(BB_CUDA(cudaMemsetAsync(bb_runner_dst(c->r, &ops[i]), POISON, bytes, check_stream(c, &ops[i]))));
    }
    for (int i = 0; i < batch->n; i++)
        TRY(fill_source(c, &ops[i], &c->r->comms[ops[i].comm]));
out:
    return rc;
}

/* Compares the destinations of all operations that are launched together, and stores the results in c->device. */
static int compare_batch(struct check *c, const struct bb_batch *batch)
{
    int rc = 0;

    for (int i = batch->first; i < batch->first + batch->n; i++) {
        const struct bb_op *op = &c->r->program->ops[i];
        const struct bb_comm *comm = &c->r->comms[op->comm];
        const struct bb_pattern p = pattern_of(op, comm->size, c->collectives[op->comm]);
        struct bb_expect e;
        const size_t count = expect_op(op, comm->rank, comm->size, &e);

        TRY(bb_verdict_clear(&c->device[i], check_stream(c, op)));
        if (count)
            TRY(bb_check(bb_runner_dst(c->r, op), count, &p, &e, &c->device[i], check_stream(c, op)));
        c->found.expected += count;
        c->collectives[op->comm] += op->kind == BB_OP_COLLECTIVE;
    }
out:
    return rc;
}

/* Copies the results of operations first .. first + n - 1 of the program to the host and adds the number of wrong
 * elements to c->found.wrong. Prints an error for each operation with wrong data (up to MAX_LINES per rank). */
static int report_wrong(struct check *c, int first, size_t n)
{
    char name[BB_OP_NAME];
    int rc;

    TRY(BB_CUDA(
        cudaMemcpyAsync(&c->host[first], &c->device[first], n * sizeof(*c->host), cudaMemcpyDeviceToHost, c->r->join)));
    TRY(bb_runner_wait(c->r, c->r->join, "the data check"));
    for (int i = first; i < first + (int)n; i++) {
        const struct bb_op *op = &c->r->program->ops[i];

        c->found.compared += c->host[i].checked;
        if (c->host[i].wrong == 0)
            continue;
        c->found.wrong += c->host[i].wrong;
        bb_op_name(c->r->layout, op, name);
        if (!c->found.first[0])
            snprintf(c->found.first, sizeof(c->found.first), "%s", name);
        if (c->lines++ < MAX_LINES)
            bb_err(BB_EDATA, "operation %d, %s (%s): %llu wrong element%s, the first at index %llu", i, name,
                   op->what ? op->what : "-", c->host[i].wrong, bb_plural(c->host[i].wrong), c->host[i].first);
    }
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
    TRY(compare_batch(c, batch));
    TRY(report_wrong(c, batch->first, (size_t)batch->n));
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

static int start_batch(struct check *c, const struct bb_batch *batch)
{
    const struct bb_lane *lanes = c->r->lanes;
    int rc = 0;

    for (int i = batch->first; i < batch->first + batch->n; i++) {
        const struct bb_op *op = &c->r->program->ops[i];
        int lane = batch->lane;

        while (lanes[lane].stream != op->stream)
            lane++;
        TRY(wait_for_user(c, op, op->src, lane));
        TRY(wait_for_user(c, op, op->dst, lane));
    }
    TRY(write_test_data(c, batch));
    TRY(bb_runner_batch(c->r, batch));
    TRY(compare_batch(c, batch));
    for (int i = batch->lane; i < batch->lane + batch->lanes; i++)
        TRY(BB_CUDA(cudaEventRecord(c->ends[i], c->r->streams[lanes[i].stream])));
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

/* Writes and compares data once without running the operation. CUDA loads a kernel at its first launch, which may
 * synchronize with the GPU. If this happened during the check, the host could block on a receive whose peer waits for
 * this rank. */
static int load_kernels(struct check *c, const struct bb_batch *batch)
{
    int rc;

    TRY(write_test_data(c, batch));
    TRY(compare_batch(c, batch));
    TRY(wait_for_all(c)); /* operations may share buffers, so the data of one launch are compared before the next
                             launch's data are written */
out:
    return rc;
}

/* ---- check of the whole program ---- */

static int each_batch(struct check *c, int (*visit)(struct check *c, const struct bb_batch *batch))
{
    int rc = 0;

    for (int i = 0; i < c->r->n_batches; i++)
        if (bb_op_is_comm(&c->r->program->ops[c->r->batches[i].first]))
            TRY(visit(c, &c->r->batches[i]));
out:
    return rc;
}

static int check_concurrently(struct check *c)
{
    int rc = 0;

    for (int i = 0; i < c->r->n_lanes; i++)
        TRY(BB_CUDA(cudaEventCreateWithFlags(&c->ends[i], cudaEventDisableTiming)));
    for (int b = 0; b < c->r->program->n_buffers; b++)
        c->last_user[b] = BB_NONE;
    TRY(each_batch(c, load_kernels));
    memset(c->collectives, 0, sizeof(c->collectives));
    c->found.expected = 0;
    TRY(bb_world_barrier(c->r->world, "the data check"));
    TRY(each_batch(c, start_batch));
    TRY(wait_for_all(c));
    TRY(report_wrong(c, 0, c->r->program->n_ops));
out:
    return rc;
}

static int check_guards(struct check *c)
{
    int rc;

    TRY(bb_verdict_clear(c->device, c->r->join));
    TRY(bb_device_buffers_check_guards(&c->r->areas, c->device, c->r->join));
    TRY(BB_CUDA(cudaMemcpyAsync(c->host, c->device, sizeof(*c->host), cudaMemcpyDeviceToHost, c->r->join)));
    TRY(bb_runner_wait(c->r, c->r->join, "the check of guard zones"));
    if (c->host->wrong)
        bb_err(BB_EDATA, "%llu byte%s overwritten outside the program's buffers", c->host->wrong,
               bb_plural(c->host->wrong));
    c->found.wrong += c->host->wrong;
out:
    return rc;
}

int bb_data_check(struct bb_runner *r, bool concurrent, struct bb_data_finding *found)
{
    struct check c = {.r = r, .concurrent = concurrent};
    const size_t bytes = (r->program->n_ops + 1) * sizeof(*c.device); /* + 1: the guard zones of an empty program */
    int rc;

    BB_NEW(c.host, r->program->n_ops);
    BB_NEW(c.ends, r->n_lanes);
    BB_NEW(c.last_user, r->program->n_buffers);
    TRY(BB_CUDA(cudaMalloc((void **)&c.device, bytes)));
    TRY(BB_CUDA(cudaMemsetAsync(c.device, 0, bytes, r->join)));
    TRY(bb_runner_wait(r, r->join, "the preparation of the data check")); /* the host waits until the results are
                                                                            zeroed, because streams write them later */
    bb_world_reached(r->world, "the data check");
    TRY(concurrent ? check_concurrently(&c) : each_batch(&c, check_batch));
    TRY(check_guards(&c));
    *found = c.found;
out:
    for (int i = 0; i < r->n_lanes; i++)
        bb_event_destroy(c.ends[i]);
    if (c.device)
        (void)cudaFree(c.device);
    free(c.host);
    free(c.ends);
    free(c.last_user);
    return rc;
}
