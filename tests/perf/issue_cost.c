/*
 * issue_cost.c - what the runner adds to NCCL on the host: the time to issue one operation of a step program, next to
 * the same CUDA and NCCL calls written as a plain loop, on the same ranks, in turn; and what traced steps add to that.
 *
 *   plain     the loop
 *   runner    bb_step_time.issue_us of a timed step
 *   traced    the same of a traced step, which records an event before and after everything
 *
 * All three on the runner's own communicators, which are blocking, and again on non-blocking ones, where each call goes
 * through a thread of NCCL and is polled until it is no longer in progress: what the runner would cost with those.
 *
 * Programs: all-reduces; groups of one send and one receive; a pipeline of groups, kernels and all-reduces that wait
 * for each other by event. A round runs some steps of each; its figure is their median on the slowest rank. A ratio is
 * that of one round. Nothing is asserted.
 *
 *   EMU_DATA=off mpirun -n 2 build/emulator/run build/tests/perf/issue_cost
 */
#include "bootstrap/base/clock.h"
#include "bootstrap/base/stats.h"
#include "bootstrap/cli/opts.h"
#include "cuda/data/kernels.h"
#include "cuda/device/check.h"
#include "cuda/device/device.h"
#include "proxies/run/step_issue.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

enum way { PLAIN, RUNNER, TRACED, WAYS }; /* traced: the runner's traced steps, with events around everything */
enum { COUNT = 1024, COMMS = 2, MAX_ROUNDS = 1000, MAX_STEPS = 1000 };
static const double KERNEL_US = 1;

struct options {
    struct bb_common common;
    int operations, rounds, steps, warmup;
};

struct rig {
    struct options options;
    struct bb_world world;
    struct bb_layout layout;
    struct bb_program program;
    struct bb_runner runner;
    struct bb_comm polled[COMMS];
    cudaEvent_t received, computed; /* of the plain pipeline */
    int dp, pp;                     /* communicators of the layout, and */
    int dp_stream, pp_stream;       /* their streams                    */
    int from, to;
};

/* What the plain loops use. */
struct bare {
    struct rig *rig;
    ncclComm_t dp, pp;
    cudaStream_t compute, dp_stream, pp_stream;
    void *from, *to;
    int next, before; /* ranks */
};

/* A step program and the same calls by hand. */
struct subject {
    const char *name;
    int (*build)(struct rig *);
    int (*bare)(const struct bare *);
};

/* ---- the programs ---- */

static struct bb_op blank(const struct rig *rig, enum bb_op_kind kind, int comm, int stream)
{
    return (struct bb_op){.kind = kind,
                          .coll = BB_ALL_REDUCE,
                          .dtype = BB_FLOAT,
                          .redop = BB_SUM,
                          .stream = stream,
                          .comm = comm,
                          .call = BB_NONE,
                          .count = comm == BB_NONE ? 0 : COUNT,
                          .src = kind == BB_OP_COMPUTE || kind == BB_OP_RECV ? BB_NONE : rig->from,
                          .dst = kind == BB_OP_COMPUTE || kind == BB_OP_SEND ? BB_NONE : rig->to,
                          .micro_batch = BB_NONE,
                          .layer = BB_NONE,
                          .what = "data"};
}

static int add_all_reduce(struct rig *rig, int wait)
{
    struct bb_op op = blank(rig, BB_OP_COLLECTIVE, rig->dp, rig->dp_stream);

    return bb_program_add(&rig->program, &op, &wait, 1);
}

/* Returns the receive. */
static int add_pair(struct rig *rig, int call, int wait)
{
    struct bb_op send = blank(rig, BB_OP_SEND, rig->pp, rig->pp_stream);
    struct bb_op recv = blank(rig, BB_OP_RECV, rig->pp, rig->pp_stream);

    send.call = recv.call = call;
    send.peer_kind = recv.peer_kind = BB_PEER_OFFSET;
    send.peer = 1;
    recv.peer = -1;
    if (bb_program_add(&rig->program, &send, &wait, 1) < 0)
        return -BB_EFAIL;
    return bb_program_add(&rig->program, &recv, NULL, 0);
}

static int add_kernel(struct rig *rig, int wait)
{
    struct bb_op op = blank(rig, BB_OP_COMPUTE, BB_NONE, 0);

    op.compute_us = KERNEL_US;
    return bb_program_add(&rig->program, &op, &wait, 1);
}

static int build_all_reduces(struct rig *rig)
{
    for (int i = 0; i < rig->options.operations; i++)
        if (add_all_reduce(rig, BB_NONE) < 0)
            return -BB_EFAIL;
    return 0;
}

static int build_pairs(struct rig *rig)
{
    for (int i = 0; i < rig->options.operations / 2; i++)
        if (add_pair(rig, i, BB_NONE) < 0)
            return -BB_EFAIL;
    return 0;
}

/* Per micro-batch: activations in and out, a kernel that waits for them, an all-reduce that waits for the kernel. */
static int build_pipeline(struct rig *rig)
{
    int kernel = BB_NONE;

    for (int i = 0; i < rig->options.operations / 4; i++) {
        kernel = add_kernel(rig, add_pair(rig, i, kernel));
        if (kernel < 0 || add_all_reduce(rig, kernel) < 0)
            return -BB_EFAIL;
    }
    return 0;
}

/* ---- the same calls in a plain loop ---- */

static bool settled(ncclComm_t comm, ncclResult_t result)
{
    while (result == ncclInProgress) {
        if (ncclCommGetAsyncError(comm, &result) != ncclSuccess)
            return false;
        if (result == ncclInProgress)
            sched_yield();
    }
    return result == ncclSuccess;
}

static bool reduced(const struct bare *b)
{
    return settled(b->dp, ncclAllReduce(b->from, b->to, COUNT, ncclFloat, ncclSum, b->dp, b->dp_stream));
}

static bool exchanged(const struct bare *b)
{
    bool ok = ncclGroupStart() == ncclSuccess;
    ncclResult_t sent = ncclSend(b->from, COUNT, ncclFloat, b->next, b->pp, b->pp_stream);
    ncclResult_t received = ncclRecv(b->to, COUNT, ncclFloat, b->before, b->pp, b->pp_stream);

    ok &= (sent == ncclSuccess || sent == ncclInProgress) && (received == ncclSuccess || received == ncclInProgress);
    return settled(b->pp, ncclGroupEnd()) && ok;
}

static int bare_all_reduces(const struct bare *b)
{
    for (int i = 0; i < b->rig->options.operations; i++)
        if (!reduced(b))
            return bb_err(BB_EFAIL, "ncclAllReduce number %d failed", i);
    return 0;
}

static int bare_pairs(const struct bare *b)
{
    for (int i = 0; i < b->rig->options.operations / 2; i++)
        if (!exchanged(b))
            return bb_err(BB_EFAIL, "exchange number %d failed", i);
    return 0;
}

static int bare_pipeline(const struct bare *b)
{
    const struct rig *rig = b->rig;
    int rc = 0;

    for (int i = 0; i < rig->options.operations / 4; i++) {
        if (i > 0)
            TRY(BB_CUDA(cudaStreamWaitEvent(b->pp_stream, rig->computed, 0)));
        TRY(exchanged(b) ? 0 : bb_err(BB_EFAIL, "exchange number %d failed", i));
        TRY(BB_CUDA(cudaEventRecord(rig->received, b->pp_stream)));
        TRY(BB_CUDA(cudaStreamWaitEvent(b->compute, rig->received, 0)));
        TRY(bb_spin(0, (int64_t)(KERNEL_US * 1e3), b->compute));
        TRY(BB_CUDA(cudaEventRecord(rig->computed, b->compute)));
        TRY(BB_CUDA(cudaStreamWaitEvent(b->dp_stream, rig->computed, 0)));
        TRY(reduced(b) ? 0 : bb_err(BB_EFAIL, "ncclAllReduce number %d failed", i));
    }
out:
    return rc;
}

static const struct subject subjects[] = {
    {"all_reduce", build_all_reduces, bare_all_reduces},
    {"send + recv", build_pairs, bare_pairs},
    {"pipeline", build_pipeline, bare_pipeline},
};
enum { SUBJECTS = sizeof subjects / sizeof *subjects };

/* ---- one step ---- */

/* As the runner begins its steps: barrier, then an all-reduce of one element. */
static int begin_together(struct bb_runner *r)
{
    int rc;

    TRY(bb_world_barrier(r->world, "the start of a plain step"));
    if (r->everyone.nccl)
        TRY(BB_NCCL(ncclAllReduce(r->beat, r->beat, 1, ncclFloat, ncclSum, r->everyone.nccl, r->join)));
    TRY(bb_comm_poll(&r->everyone, "the common start"));
    TRY(bb_runner_wait(r, r->join, "the common start"));
out:
    return rc;
}

static struct bare bare_of(struct rig *rig, bool blocking)
{
    struct bb_runner *r = &rig->runner;
    const struct bb_comm *comms = blocking ? r->comms : rig->polled;
    int n = rig->world.size, rank = rig->world.rank;

    return (struct bare){.rig = rig,
                         .dp = comms[rig->dp].nccl,
                         .pp = comms[rig->pp].nccl,
                         .compute = r->streams[0],
                         .dp_stream = r->streams[rig->dp_stream],
                         .pp_stream = r->streams[rig->pp_stream],
                         .from = bb_device_buffers_at(r->areas, rig->from),
                         .to = bb_device_buffers_at(r->areas, rig->to),
                         .next = (rank + 1) % n,
                         .before = (rank + n - 1) % n};
}

static int plain_step(struct rig *rig, const struct subject *s, bool blocking, double *issue_us)
{
    const struct bare b = bare_of(rig, blocking);
    double start_s;
    int rc;

    TRY(begin_together(&rig->runner));
    start_s = bb_now_s();
    rc = s->bare(&b);
    *issue_us = (bb_now_s() - start_s) * 1e6;
    TRY(rc);
    for (int i = 0; i < rig->program.n_streams; i++)
        TRY(bb_runner_wait(&rig->runner, rig->runner.streams[i], "a plain step"));
out:
    return rc;
}

/* For one step the runner's communicators are the polled ones: handles are exchanged, the structs stay in place. */
static void exchange_comms(struct rig *rig)
{
    for (int c = 0; c < COMMS; c++) {
        struct bb_comm *a = &rig->runner.comms[c], *b = &rig->polled[c];
        struct bb_comm kept = *a;

        a->nccl = b->nccl;
        a->blocking = b->blocking;
        b->nccl = kept.nccl;
        b->blocking = kept.blocking;
    }
}

static int runner_step(struct rig *rig, const struct subject *s, bool trace, bool blocking, double *issue_us)
{
    struct bb_step_time t = {0};
    int rc;

    if (!blocking)
        exchange_comms(rig);
    rc = bb_runner_step(&rig->runner, s->name, BB_ISSUE_ALL, trace, &t);
    if (!blocking)
        exchange_comms(rig);
    *issue_us = t.issue_us;
    return rc;
}

static int step(struct rig *rig, const struct subject *s, enum way way, bool blocking, double *issue_us)
{
    return way == PLAIN ? plain_step(rig, s, blocking, issue_us)
                        : runner_step(rig, s, way == TRACED, blocking, issue_us);
}

/* ---- rounds ---- */

/* *us: host time per operation, median of the round's steps, on the slowest rank. */
static int measure(struct rig *rig, const struct subject *s, enum way way, bool blocking, double *us)
{
    double samples[MAX_STEPS], ignored, own, all[64];
    struct bb_stats stats;
    int rc;

    for (int i = 0; i < rig->options.warmup; i++)
        TRY(step(rig, s, way, blocking, &ignored));
    for (int i = 0; i < rig->options.steps; i++)
        TRY(step(rig, s, way, blocking, &samples[i]));
    TRY(bb_stats_of(samples, (size_t)rig->options.steps, &stats));
    own = stats.p50 / (double)rig->program.n_ops;
    TRY(bb_world_allgather(&rig->world, &own, all, sizeof(own)));
    *us = 0;
    for (int i = 0; i < rig->world.size; i++)
        *us = all[i] > *us ? all[i] : *us;
out:
    return rc;
}

static int print_ratio(const double *a, const double *b, int n)
{
    double ratios[MAX_ROUNDS];
    struct bb_stats stats;
    int rc;

    for (int i = 0; i < n; i++)
        ratios[i] = a[i] / b[i];
    TRY(bb_stats_of(ratios, (size_t)n, &stats));
    printf("  %6.2f (%.2f - %.2f)", stats.p50, stats.min, stats.max);
out:
    return rc;
}

static int print_row(const struct rig *rig, const struct subject *s, bool blocking, double us[WAYS][MAX_ROUNDS])
{
    int n = rig->options.rounds, rc = 0;
    struct bb_stats stats;

    printf("%12s %12s %6zu %6zu", s->name, blocking ? "blocking" : "polled", rig->program.n_ops, rig->program.n_waits);
    for (int way = 0; way < WAYS; way++) {
        TRY(bb_stats_of(us[way], (size_t)n, &stats));
        printf(" %9.2f", stats.p50);
    }
    TRY(print_ratio(us[RUNNER], us[PLAIN], n));
    TRY(print_ratio(us[TRACED], us[RUNNER], n));
    printf("\n");
    fflush(stdout);
out:
    return rc;
}

/* Each round begins with another way, so that none always comes first. */
static int run_rounds(struct rig *rig, const struct subject *s, bool blocking)
{
    static double us[WAYS][MAX_ROUNDS];
    int rc = 0;

    for (int i = 0; i < rig->options.rounds; i++)
        for (int k = 0; k < WAYS; k++)
            TRY(measure(rig, s, (enum way)((i + k) % WAYS), blocking, &us[(i + k) % WAYS][i]));
    if (rig->world.rank == 0)
        TRY(print_row(rig, s, blocking, us));
out:
    return rc;
}

/* ---- a subject's life ---- */

static int make_polled(struct rig *rig)
{
    static const struct bb_comm_opts opts = {0};
    int members[64], rc = 0;

    for (int i = 0; i < rig->world.size; i++)
        members[i] = i;
    for (int c = 0; c < COMMS; c++)
        TRY(bb_comm_init(&rig->polled[c], &rig->world, c == rig->dp ? "dp polled" : "pp polled", members,
                         rig->world.size, &opts));
    TRY(BB_CUDA(cudaEventCreateWithFlags(&rig->received, cudaEventDisableTiming)));
    TRY(BB_CUDA(cudaEventCreateWithFlags(&rig->computed, cudaEventDisableTiming)));
out:
    return rc;
}

static int make_program(struct rig *rig, const struct subject *s)
{
    const struct bb_axis axis = {.name = "all", .size = rig->world.size};
    int group, rc;

    TRY(bb_layout_init(&rig->layout, rig->world.size, &axis, 1));
    group = bb_layout_add_group(&rig->layout, "all", 1);
    rig->dp = bb_layout_add_comm(&rig->layout, "dp", group);
    rig->pp = bb_layout_add_comm(&rig->layout, "pp", group);
    TRY(bb_program_init(&rig->program));
    rig->dp_stream = bb_program_add_stream(&rig->program, "dp", rig->dp);
    rig->pp_stream = bb_program_add_stream(&rig->program, "pp", rig->pp);
    rig->from = bb_program_add_buffer(&rig->program, "from", BB_USE_COMMUNICATION, COUNT, BB_FLOAT);
    rig->to = bb_program_add_buffer(&rig->program, "to", BB_USE_COMMUNICATION, COUNT, BB_FLOAT);
    TRY(s->build(rig) ? -BB_EFAIL : 0);
out:
    return rc;
}

/* The runner makes communicators that a program uses; the loops want both. */
static int complete_comms(struct rig *rig)
{
    static const struct bb_comm_opts opts = {.blocking = true};
    int members[64], rc = 0;

    for (int i = 0; i < rig->world.size; i++)
        members[i] = i;
    for (int c = 0; c < COMMS; c++)
        if (!rig->runner.comms[c].nccl)
            TRY(bb_comm_init(&rig->runner.comms[c], &rig->world, rig->layout.comms[c].name, members, rig->world.size,
                             &opts));
out:
    return rc;
}

static int release(struct rig *rig, int rc)
{
    for (int c = 0; c < COMMS; c++) {
        if (rc == 0 && rig->polled[c].nccl)
            rc = bb_comm_finalize(&rig->polled[c]);
        bb_comm_abort(&rig->polled[c]);
    }
    rc = bb_runner_release(&rig->runner, rc);
    if (rig->received)
        (void)cudaEventDestroy(rig->received);
    if (rig->computed)
        (void)cudaEventDestroy(rig->computed);
    rig->received = rig->computed = NULL;
    bb_program_release(&rig->program);
    bb_layout_release(&rig->layout);
    return rc;
}

static int run_subject(struct rig *rig, const struct subject *s)
{
    int rc;

    TRY(make_program(rig, s));
    TRY(bb_runner_init(&rig->runner, &rig->world, &rig->layout, &rig->program));
    TRY(complete_comms(rig));
    TRY(make_polled(rig));
    TRY(bb_runner_trace(&rig->runner));
    TRY(run_rounds(rig, s, false));
    TRY(run_rounds(rig, s, true));
out:
    return release(rig, rc);
}

/* ---- start and end ---- */

#define FIELD(name) offsetof(struct options, name)
static const struct bb_opt own_options[] = {
    OPT_INT('n', "operations", FIELD(operations), "256", "N", 4, 1e6,
            "operations of a step; fewer than what the driver queues"),
    OPT_INT(0, "rounds", FIELD(rounds), "9", "N", 1, MAX_ROUNDS, "rounds of all three, in turn"),
    OPT_INT(0, "steps", FIELD(steps), "15", "N", 1, MAX_STEPS, "steps of each in a round"),
    OPT_INT('w', "warmup", FIELD(warmup), "3", "N", 0, 1e6, "steps of each in front of them"),
    {0},
};
static const struct bb_opt_table tables[] = {
    {.title = "Options", .opts = own_options},
    {.title = "Common options", .opts = bb_common_options, .base = FIELD(common)},
    {0},
};
static const struct bb_opts set = {.usage = "mpirun -n 2 issue_cost [OPTION...]", .tables = tables};

static int prepare(struct rig *rig)
{
    struct bb_device_info device;
    int rc;

    TRY(bb_world_init(&rig->world, rig->options.common.timeout_s));
    TRY(rig->world.size <= 64 ? 0 : bb_err(BB_EUSAGE, "%d ranks: at most 64", rig->world.size));
    rc = bb_device_choose(0, rig->world.local_rank, rig->world.local_size, rig->options.common.share_gpu, &device);
    TRY(bb_world_agree(&rig->world, rc, "the choice of GPUs"));
    if (rig->options.common.share_gpu)
        TRY(bb_comms_share_gpu_env(rig->world.rank));
    if (rig->world.rank > 0)
        return 0;
    printf("# %s, %d ranks; host us per operation on the slowest rank; %d rounds of %d steps in turn\n", device.name,
           rig->world.size, rig->options.rounds, rig->options.steps);
    printf("%12s %12s %6s %6s %9s %9s %9s  %20s  %20s\n", "program", "communicator", "ops", "waits", "plain", "runner",
           "traced", "runner/plain", "traced/runner");
out:
    return rc;
}

int main(int argc, char **argv)
{
    static struct rig rig;
    struct bb_words words;
    int rc = bb_opts_parse(&set, &rig.options, argc, argv, &words, stdout);

    if (rc != 0)
        return bb_exit_code(rc);
    rc = prepare(&rig);
    for (int i = 0; rc == 0 && i < SUBJECTS; i++)
        rc = run_subject(&rig, &subjects[i]);
    return bb_exit_code(bb_world_release(&rig.world, rc));
}
