/*
 * issue_cost.c - host overhead of the step runner: the time to issue one operation of a step program, compared with the
 * same CUDA and NCCL calls in a plain loop on the same ranks, and with traced steps. The modes run alternately.
 *
 *   plain     the plain loop
 *   runner    bb_step_time.issue_us of a timed step
 *   traced    the same for a traced step, which records an event before and after each operation
 *
 * Each mode runs on the runner's blocking communicators, and on non-blocking ones. With the latter each call goes
 * through a helper thread of NCCL and is polled until it leaves ncclInProgress.
 *
 * Programs: all-reduces; groups of one send and one receive; a pipeline of groups, kernels and all-reduces that wait
 * for each other's events. A round runs several steps of each mode; its result is the median on the slowest rank.
 * Ratios are computed per round. Nothing is asserted.
 *
 *   EMU_DATA=off mpirun -n 2 build/emulator/run build/tests/perf/issue_cost
 */
#include "bootstrap/base/clock.h"
#include "bootstrap/base/stats.h"
#include "bootstrap/cli/opts.h"
#include "collectives/session/nccl_memory.h"
#include "cuda/compute/busy.h"
#include "cuda/device/check.h"
#include "cuda/device/device.h"
#include "proxies/runner/run/step_issue.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

enum mode { PLAIN, RUNNER, TRACED, MODES };
enum { COUNT = 1024, COMMS = 2, MAX_ROUNDS = 1000, MAX_STEPS = 1000 };
static const double KERNEL_US = 1;

struct options {
    struct bb_common common;
    int operations, rounds, steps, warmup;
};

struct bench {
    struct options options;
    struct bb_world world;
    struct bb_layout layout;
    struct bb_program program;
    struct bb_runner runner;
    struct bb_comm polled[COMMS];
    cudaEvent_t received, computed; /* used by the plain pipeline */
    int dp, pp;                     /* communicators of the layout */
    int dp_stream, pp_stream;       /* their streams */
    int from, to;
};

/* Arguments of the plain loops. */
struct plain_loop {
    struct bench *bench;
    ncclComm_t dp, pp;
    cudaStream_t compute, dp_stream, pp_stream;
    void *from, *to;
    int next, before; /* ranks */
};

/* A step program and the equivalent plain loop. */
struct workload {
    const char *name;
    int (*build)(struct bench *);
    int (*plain_loop)(const struct plain_loop *);
};

/* ---- the programs ---- */

static struct bb_op blank(const struct bench *bench, enum bb_op_kind kind, int comm, int stream)
{
    return (struct bb_op){.kind = kind,
                          .coll = BB_ALL_REDUCE,
                          .dtype = BB_FLOAT,
                          .redop = BB_SUM,
                          .stream = stream,
                          .comm = comm,
                          .call = BB_NONE,
                          .count = comm == BB_NONE ? 0 : COUNT,
                          .src = kind == BB_OP_COMPUTE || kind == BB_OP_RECV ? BB_NONE : bench->from,
                          .dst = kind == BB_OP_COMPUTE || kind == BB_OP_SEND ? BB_NONE : bench->to,
                          .micro_batch = BB_NONE,
                          .layer = BB_NONE,
                          .what = "data"};
}

static int add_all_reduce(struct bench *bench, int wait)
{
    struct bb_op op = blank(bench, BB_OP_COLLECTIVE, bench->dp, bench->dp_stream);

    return bb_program_add(&bench->program, &op, &wait, 1);
}

/* Returns the index of the receive. */
static int add_pair(struct bench *bench, int call, int wait)
{
    struct bb_op send = blank(bench, BB_OP_SEND, bench->pp, bench->pp_stream);
    struct bb_op recv = blank(bench, BB_OP_RECV, bench->pp, bench->pp_stream);

    send.call = recv.call = call;
    send.peer_kind = recv.peer_kind = BB_PEER_OFFSET;
    send.peer = 1;
    recv.peer = -1;
    if (bb_program_add(&bench->program, &send, &wait, 1) < 0)
        return -BB_EFAIL;
    return bb_program_add(&bench->program, &recv, NULL, 0);
}

static int add_kernel(struct bench *bench, int wait)
{
    struct bb_op op = blank(bench, BB_OP_COMPUTE, BB_NONE, 0);

    op.compute_us = KERNEL_US;
    return bb_program_add(&bench->program, &op, &wait, 1);
}

static int build_all_reduces(struct bench *bench)
{
    for (int i = 0; i < bench->options.operations; i++)
        if (add_all_reduce(bench, BB_NONE) < 0)
            return -BB_EFAIL;
    return 0;
}

static int build_pairs(struct bench *bench)
{
    for (int i = 0; i < bench->options.operations / 2; i++)
        if (add_pair(bench, i, BB_NONE) < 0)
            return -BB_EFAIL;
    return 0;
}

/* Per micro-batch: a send and a receive, a kernel that waits for them, an all-reduce that waits for the kernel. */
static int build_pipeline(struct bench *bench)
{
    int kernel = BB_NONE;

    for (int i = 0; i < bench->options.operations / 4; i++) {
        kernel = add_kernel(bench, add_pair(bench, i, kernel));
        if (kernel < 0 || add_all_reduce(bench, kernel) < 0)
            return -BB_EFAIL;
    }
    return 0;
}

/* ---- the same calls in a plain loop ---- */

static bool wait_until_done(ncclComm_t comm, ncclResult_t result)
{
    while (result == ncclInProgress) {
        if (ncclCommGetAsyncError(comm, &result) != ncclSuccess)
            return false;
        if (result == ncclInProgress)
            sched_yield();
    }
    return result == ncclSuccess;
}

static bool run_all_reduce(const struct plain_loop *b)
{
    return wait_until_done(b->dp, ncclAllReduce(b->from, b->to, COUNT, ncclFloat, ncclSum, b->dp, b->dp_stream));
}

static bool run_exchange(const struct plain_loop *b)
{
    bool ok = ncclGroupStart() == ncclSuccess;
    ncclResult_t sent = ncclSend(b->from, COUNT, ncclFloat, b->next, b->pp, b->pp_stream);
    ncclResult_t received = ncclRecv(b->to, COUNT, ncclFloat, b->before, b->pp, b->pp_stream);

    ok &= (sent == ncclSuccess || sent == ncclInProgress) && (received == ncclSuccess || received == ncclInProgress);
    return wait_until_done(b->pp, ncclGroupEnd()) && ok;
}

static int plain_all_reduces(const struct plain_loop *b)
{
    for (int i = 0; i < b->bench->options.operations; i++)
        if (!run_all_reduce(b))
            return bb_err(BB_EFAIL, "ncclAllReduce number %d failed", i);
    return 0;
}

static int plain_pairs(const struct plain_loop *b)
{
    for (int i = 0; i < b->bench->options.operations / 2; i++)
        if (!run_exchange(b))
            return bb_err(BB_EFAIL, "exchange number %d failed", i);
    return 0;
}

static int plain_pipeline(const struct plain_loop *b)
{
    const struct bench *bench = b->bench;
    int rc = 0;

    for (int i = 0; i < bench->options.operations / 4; i++) {
        if (i > 0)
            TRY(BB_CUDA(cudaStreamWaitEvent(b->pp_stream, bench->computed, 0)));
        TRY(run_exchange(b) ? 0 : bb_err(BB_EFAIL, "exchange number %d failed", i));
        TRY(BB_CUDA(cudaEventRecord(bench->received, b->pp_stream)));
        TRY(BB_CUDA(cudaStreamWaitEvent(b->compute, bench->received, 0)));
        TRY(bb_busy_run(&(struct bb_busy){.ns = (int64_t)(KERNEL_US * 1e3)}, b->compute));
        TRY(BB_CUDA(cudaEventRecord(bench->computed, b->compute)));
        TRY(BB_CUDA(cudaStreamWaitEvent(b->dp_stream, bench->computed, 0)));
        TRY(run_all_reduce(b) ? 0 : bb_err(BB_EFAIL, "ncclAllReduce number %d failed", i));
    }
out:
    return rc;
}

static const struct workload workloads[] = {
    {"all_reduce", build_all_reduces, plain_all_reduces},
    {"send + recv", build_pairs, plain_pairs},
    {"pipeline", build_pipeline, plain_pipeline},
};
enum { WORKLOADS = sizeof workloads / sizeof *workloads };

/* ---- one step ---- */

/* Starts a step like the runner: barrier, then an all-reduce of one element. */
static int begin_together(struct bb_runner *r)
{
    int rc;

    TRY(bb_world_barrier(r->world, "the start of a plain step"));
    if (r->all_ranks.nccl)
        TRY(BB_NCCL(
            ncclAllReduce(r->start_element, r->start_element, 1, ncclFloat, ncclSum, r->all_ranks.nccl, r->join)));
    TRY(bb_comm_poll(&r->all_ranks, "the common start"));
    TRY(bb_runner_wait(r, r->join, "the common start"));
out:
    return rc;
}

static struct plain_loop plain_loop_of(struct bench *bench, bool blocking)
{
    struct bb_runner *r = &bench->runner;
    const struct bb_comm *comms = blocking ? r->comms : bench->polled;
    int n = bench->world.size, rank = bench->world.rank;

    return (struct plain_loop){.bench = bench,
                               .dp = comms[bench->dp].nccl,
                               .pp = comms[bench->pp].nccl,
                               .compute = r->streams[0],
                               .dp_stream = r->streams[bench->dp_stream],
                               .pp_stream = r->streams[bench->pp_stream],
                               .from = bb_device_buffers_at(&r->areas, bench->from),
                               .to = bb_device_buffers_at(&r->areas, bench->to),
                               .next = (rank + 1) % n,
                               .before = (rank + n - 1) % n};
}

static int plain_step(struct bench *bench, const struct workload *s, bool blocking, double *issue_us)
{
    const struct plain_loop b = plain_loop_of(bench, blocking);
    double start_s;
    int rc;

    TRY(begin_together(&bench->runner));
    start_s = bb_now_s();
    rc = s->plain_loop(&b);
    *issue_us = (bb_now_s() - start_s) * 1e6;
    TRY(rc);
    for (int i = 0; i < bench->program.n_streams; i++)
        TRY(bb_runner_wait(&bench->runner, bench->runner.streams[i], "a plain step"));
out:
    return rc;
}

/* Swaps the NCCL handles of the runner's communicators with those of the polled ones; the structs stay in place. */
static void swap_comms(struct bench *bench)
{
    for (int c = 0; c < COMMS; c++) {
        struct bb_comm *a = &bench->runner.comms[c], *b = &bench->polled[c];
        struct bb_comm kept = *a;

        a->nccl = b->nccl;
        a->blocking = b->blocking;
        b->nccl = kept.nccl;
        b->blocking = kept.blocking;
    }
}

static int runner_step(struct bench *bench, const struct workload *s, bool trace, bool blocking, double *issue_us)
{
    struct bb_step_time t = {0};
    int rc;

    if (!blocking)
        swap_comms(bench);
    rc = bb_runner_step(&bench->runner, s->name, BB_ISSUE_ALL, trace, &t);
    if (!blocking)
        swap_comms(bench);
    *issue_us = t.issue_us;
    return rc;
}

static int step(struct bench *bench, const struct workload *s, enum mode mode, bool blocking, double *issue_us)
{
    return mode == PLAIN ? plain_step(bench, s, blocking, issue_us)
                         : runner_step(bench, s, mode == TRACED, blocking, issue_us);
}

/* ---- rounds ---- */

/* Sets *us to the host time per operation: median of the round's steps, on the slowest rank. */
static int measure(struct bench *bench, const struct workload *s, enum mode mode, bool blocking, double *us)
{
    double samples[MAX_STEPS], ignored, own, all[64];
    struct bb_stats stats;
    int rc;

    for (int i = 0; i < bench->options.warmup; i++)
        TRY(step(bench, s, mode, blocking, &ignored));
    for (int i = 0; i < bench->options.steps; i++)
        TRY(step(bench, s, mode, blocking, &samples[i]));
    bb_stats_compute(samples, (size_t)bench->options.steps, &stats);
    own = stats.p50 / (double)bench->program.n_ops;
    TRY(bb_world_allgather(&bench->world, &own, all, sizeof(own)));
    *us = 0;
    for (int i = 0; i < bench->world.size; i++)
        *us = all[i] > *us ? all[i] : *us;
out:
    return rc;
}

static void print_ratio(const double *a, const double *b, int n)
{
    double ratios[MAX_ROUNDS];
    struct bb_stats stats;

    for (int i = 0; i < n; i++)
        ratios[i] = a[i] / b[i];
    bb_stats_compute(ratios, (size_t)n, &stats);
    printf("  %6.2f (%.2f - %.2f)", stats.p50, stats.min, stats.max);
}

static void print_row(const struct bench *bench, const struct workload *s, bool blocking, double us[MODES][MAX_ROUNDS])
{
    int n = bench->options.rounds;
    struct bb_stats stats;

    printf("%12s %12s %6zu %6zu", s->name, blocking ? "blocking" : "polled", bench->program.n_ops,
           bench->program.n_waits);
    for (int mode = 0; mode < MODES; mode++) {
        bb_stats_compute(us[mode], (size_t)n, &stats);
        printf(" %9.2f", stats.p50);
    }
    print_ratio(us[RUNNER], us[PLAIN], n);
    print_ratio(us[TRACED], us[RUNNER], n);
    printf("\n");
    fflush(stdout);
}

/* Each round starts with a different mode, so that the order does not favour one. */
static int run_rounds(struct bench *bench, const struct workload *s, bool blocking)
{
    static double us[MODES][MAX_ROUNDS];
    int rc = 0;

    for (int i = 0; i < bench->options.rounds; i++)
        for (int k = 0; k < MODES; k++)
            TRY(measure(bench, s, (enum mode)((i + k) % MODES), blocking, &us[(i + k) % MODES][i]));
    if (bench->world.rank == 0)
        print_row(bench, s, blocking, us);
out:
    return rc;
}

/* ---- setup and teardown ---- */

static int make_polled(struct bench *bench)
{
    static const struct bb_comm_opts opts = {0};
    int members[64], rc = 0;

    for (int i = 0; i < bench->world.size; i++)
        members[i] = i;
    for (int c = 0; c < COMMS; c++)
        TRY(bb_comm_init(&bench->polled[c], &bench->world, c == bench->dp ? "dp polled" : "pp polled", members,
                         bench->world.size, &opts));
    TRY(BB_CUDA(cudaEventCreateWithFlags(&bench->received, cudaEventDisableTiming)));
    TRY(BB_CUDA(cudaEventCreateWithFlags(&bench->computed, cudaEventDisableTiming)));
out:
    return rc;
}

static int make_program(struct bench *bench, const struct workload *s)
{
    const struct bb_axis axis = {.name = "all", .size = bench->world.size};
    int group, rc;

    TRY(bb_layout_init(&bench->layout, bench->world.size, &axis, 1));
    group = bb_layout_add_group(&bench->layout, "all", 1);
    bench->dp = bb_layout_add_comm(&bench->layout, "dp", group);
    bench->pp = bb_layout_add_comm(&bench->layout, "pp", group);
    bb_program_init(&bench->program);
    bench->dp_stream = bb_program_add_stream(&bench->program, "dp", bench->dp);
    bench->pp_stream = bb_program_add_stream(&bench->program, "pp", bench->pp);
    bench->from = bb_program_add_buffer(&bench->program, "from", BB_USE_COMMUNICATION, COUNT, BB_FLOAT);
    bench->to = bb_program_add_buffer(&bench->program, "to", BB_USE_COMMUNICATION, COUNT, BB_FLOAT);
    TRY(s->build(bench) ? -BB_EFAIL : 0);
out:
    return rc;
}

/* The runner creates only the communicators that the program uses; the plain loops need both. */
static int complete_comms(struct bench *bench)
{
    static const struct bb_comm_opts opts = {.blocking = true};
    int members[64], rc = 0;

    for (int i = 0; i < bench->world.size; i++)
        members[i] = i;
    for (int c = 0; c < COMMS; c++)
        if (!bench->runner.comms[c].nccl)
            TRY(bb_comm_init(&bench->runner.comms[c], &bench->world, bench->layout.comms[c].name, members,
                             bench->world.size, &opts));
out:
    return rc;
}

static int release(struct bench *bench, int rc)
{
    for (int c = 0; c < COMMS; c++) {
        if (rc == 0 && bench->polled[c].nccl)
            rc = bb_comm_finalize(&bench->polled[c]);
        bb_comm_abort(&bench->polled[c]);
    }
    rc = bb_runner_release(&bench->runner, rc);
    if (bench->received)
        (void)cudaEventDestroy(bench->received);
    if (bench->computed)
        (void)cudaEventDestroy(bench->computed);
    bench->received = bench->computed = NULL;
    bb_program_release(&bench->program);
    bb_layout_release(&bench->layout);
    return rc;
}

static int run_workload(struct bench *bench, const struct workload *s)
{
    int rc;

    TRY(make_program(bench, s));
    TRY(bb_runner_init(&bench->runner, &bench->world, &bench->layout, &bench->program, bb_nccl_memory(NULL)));
    TRY(complete_comms(bench));
    TRY(make_polled(bench));
    TRY(bb_runner_trace(&bench->runner));
    TRY(run_rounds(bench, s, false));
    TRY(run_rounds(bench, s, true));
out:
    return release(bench, rc);
}

/* ---- options and main ---- */

#define FIELD(name) offsetof(struct options, name)
static const struct bb_opt own_options[] = {
    OPT_INT('n', "operations", FIELD(operations), "256", "N", 4, 1e6,
            "operations per step; must be below the depth of the launch queue"),
    OPT_INT(0, "rounds", FIELD(rounds), "9", "N", 1, MAX_ROUNDS, "rounds of all modes"),
    OPT_INT(0, "steps", FIELD(steps), "15", "N", 1, MAX_STEPS, "steps of each mode per round"),
    OPT_INT('w', "warmup", FIELD(warmup), "3", "N", 0, 1e6, "warm-up steps of each mode per round"),
    {0},
};
static const struct bb_opt_table tables[] = {
    {.title = "Options", .opts = own_options},
    {.title = "Common options", .opts = bb_common_options, .base = FIELD(common)},
    {0},
};
static const struct bb_opts set = {.usage = "mpirun -n 2 issue_cost [OPTION...]", .tables = tables};

static int prepare(struct bench *bench)
{
    struct bb_device_info device;
    int rc;

    TRY(bb_world_init(&bench->world, bench->options.common.timeout_s));
    TRY(bench->world.size <= 64 ? 0 : bb_err(BB_EUSAGE, "%d ranks are too many: at most 64", bench->world.size));
    rc = bb_device_choose(&bench->world, 0, bench->options.common.share_gpu, &device);
    TRY(bb_world_agree(&bench->world, rc, "the choice of GPUs"));
    if (bench->options.common.share_gpu)
        TRY(bb_comms_share_gpu_env(bench->world.rank, false));
    if (bench->world.rank > 0)
        return 0;
    printf("# %s, %d ranks; host us per operation on the slowest rank; %d rounds of %d steps per mode\n", device.name,
           bench->world.size, bench->options.rounds, bench->options.steps);
    printf("%12s %12s %6s %6s %9s %9s %9s  %20s  %20s\n", "program", "communicator", "ops", "waits", "plain", "runner",
           "traced", "runner/plain", "traced/runner");
out:
    return rc;
}

int main(int argc, char **argv)
{
    static struct bench bench;
    struct bb_positionals positionals;
    int rc = bb_opts_parse(&set, &bench.options, argc, argv, &positionals, stdout);

    if (rc != 0)
        return bb_exit_code(rc);
    rc = prepare(&bench);
    for (int i = 0; rc == 0 && i < WORKLOADS; i++)
        rc = run_workload(&bench, &workloads[i]);
    return bb_exit_code(bb_world_release(&bench.world, rc));
}
