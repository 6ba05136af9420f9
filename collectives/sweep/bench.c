/*
 * bench.c - runs `busbar bench COLLECTIVE`: initialization of ranks, GPUs, communicator and buffers, then all cases of
 * the sweep (collective, type, size, ...) with their output, then the teardown.
 */
#include "bootstrap/base/alloc.h"
#include "bootstrap/base/outfile.h"
#include "bootstrap/base/units.h"
#include "collectives/measure/bench_context.h"
#include "collectives/measure/timing.h"
#include "collectives/ops/device.h"
#include "collectives/session/registration.h"
#include "collectives/session/session.h"
#include "collectives/sweep/algorithms.h"
#include "collectives/sweep/bench_options.h"
#include "collectives/sweep/bench_report.h"
#include "collectives/sweep/busbw_reference.h"
#include "collectives/sweep/case_fields.h"
#include "collectives/sweep/groups.h"
#include "collectives/variants/variants.h"
#include "cuda/device/check.h"
#include "cuda/device/stream.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* State of one run of `busbar bench COLLECTIVE`. An all-zero or partly initialized struct may be passed to the
 * teardown. */
struct bench {
    struct bb_bench_options options;
    struct bb_sweep sweep;
    struct bb_session session;
    struct bb_comm comm;
    struct bb_native native;
    struct bb_mulsums mulsums;
    struct bb_iteration_events iteration_events;
    struct bb_registration registration;
    struct bb_device device; /* only used with --device */
    /* groups: [ranks] index of each rank's --split group (set of ranks with its own communicator); smallest,
     * largest: number of ranks in the smallest and in the largest group */
    int *groups, smallest, largest;
    struct bb_algorithms algorithms; /* only used with --sweep-algorithms */
    struct bb_variants variants;     /* only used with --sweep-variants */
    struct bb_bench_context ctx;
    double *delays_us; /* [ranks] artificial delay of each rank in microseconds (--delay); NULL: none */
    struct bb_report report;
    struct bb_busbw_reference reference; /* expected bus bandwidths; on rank 0 */
    bool below;                          /* at least one bus bandwidth is below its --min-busbw threshold */
    bool judged;                         /* at least one table was compared with the --min-busbw thresholds */
    bool wrong;    /* at least one result has wrong data; the sweep continues and the run ends with -BB_EDATA */
    double effort; /* expected duration of all rows of one mode and cycle, in the unit of row_effort */
};

/* ---- ranks and devices ---- */

static int members_of(const struct bench *b, int group)
{
    int n = 0;

    for (int r = 0; r < b->session.world.size; r++)
        n += b->groups[r] == group;
    return n;
}

static void make_groups(struct bench *b)
{
    BB_NEW(b->groups, b->session.world.size);
    for (int r = 0; b->sweep.is_split && r < b->session.world.size; r++)
        b->groups[r] = bb_split_group(&b->sweep.split, r);
    b->smallest = b->session.world.size;
    for (int r = 0; r < b->session.world.size; r++) {
        int n = members_of(b, b->groups[r]);
        b->smallest = n < b->smallest ? n : b->smallest;
        b->largest = n > b->largest ? n : b->largest;
    }
}

/* Validates the options whose validity depends on the number of ranks. */
static int check_ranks(const struct bench *b)
{
    const struct bb_sweep *s = &b->sweep;
    const struct bb_world *w = &b->session.world;

    for (int i = 0; i < s->n_colls; i++)
        if (bb_colls[s->colls[i]].flags & BB_COLL_ROOTED && s->root >= b->smallest)
            return BB_WORLD_ERR(w, BB_EUSAGE, "root %d (-r) of %s is not a rank: ranks are 0 to %d", s->root,
                                bb_colls[s->colls[i]].name, b->smallest - 1);
    if (b->options.sampling.delay && b->options.sampling.delayed_rank >= w->size)
        return BB_WORLD_ERR(w, BB_EUSAGE, "--delay: rank %d does not exist, ranks are 0 to %d",
                            b->options.sampling.delayed_rank, w->size - 1);
    if (s->alltoallv_counts.bytes &&
        (s->alltoallv_counts.n < b->largest || (!s->alltoallv_counts.nccl_tests && s->alltoallv_counts.n > b->largest)))
        return BB_WORLD_ERR(w, BB_EUSAGE, "matrix file %s is for %d ranks, but there are %d", b->options.matrix,
                            s->alltoallv_counts.n, b->largest);
    return 0;
}

/* Returns whether NCCL supports a data type. 8-bit floating-point types require NCCL 2.24; reductions of these types
 * also require compute capability 9.0. */
static bool type_is_supported(const struct bench *b, int dtype)
{
    bool reduces = false, capable = true;

    if (bb_dtypes[dtype].number_class != BB_FLOATING || bb_dtypes[dtype].bytes != 1)
        return true;
    for (int i = 0; i < b->sweep.n_colls; i++)
        reduces = reduces || bb_colls[b->sweep.colls[i]].flags & BB_COLL_REDUCES;
    for (int r = 0; r < b->session.world.size; r++)
        capable = capable && b->session.devices[r].cc_major >= 9;
    return b->session.nccl_runtime >= 22400 && (!reduces || capable);
}

static int drop_unsupported_types(struct bench *b)
{
    struct bb_sweep *s = &b->sweep;
    int kept = 0, asked = s->n_dtypes;

    for (int i = 0; i < asked; i++)
        if (type_is_supported(b, s->dtypes[i]))
            s->dtypes[kept++] = s->dtypes[i];
        else if (asked > 1 && b->session.world.rank == 0)
            bb_warn("%s is skipped: it requires NCCL 2.24 and, for reductions, compute capability 9.0",
                    bb_dtypes[s->dtypes[i]].name);
    s->n_dtypes = kept;
    if (kept > 0)
        return 0;
    return BB_WORLD_ERR(&b->session.world, BB_EUSAGE,
                        "%s requires NCCL 2.24 and, for reductions, compute capability 9.0",
                        bb_dtypes[s->dtypes[0]].name);
}

static struct bb_comm_opts comm_opts(const struct bb_bench_options *o)
{
    /* A call on a blocking communicator returns as soon as the operation is enqueued. With a non-blocking
     * communicator, passing the call to NCCL's helper thread would add to the time. */
    return (struct bb_comm_opts){.blocking = true,
                                 .min_ctas = o->min_ctas,
                                 .max_ctas = o->max_ctas,
                                 .cta_policy = o->cta_policy + 1,
                                 .nvlink_centric_sched = o->nvlink_centric_sched,
                                 .max_p2p_peers = o->max_p2p_peers};
}

static int make_comm(struct bench *b)
{
    const struct bb_comm_opts opts = comm_opts(&b->options);
    int *members, group = b->groups[b->session.world.rank], n = 0, rc;
    char name[BB_COMM_NAME] = "world";

    BB_NEW(members, b->session.world.size);
    for (int r = 0; r < b->session.world.size; r++)
        if (b->groups[r] == group)
            members[n++] = r;
    if (b->sweep.is_split)
        snprintf(name, sizeof name, "group %d", group);
    rc = bb_comm_init(&b->comm, &b->session.world, name, members, n, &opts);
    free(members);
    return rc;
}

/* Warns about communicator options that the running NCCL is too old for: ncclCommInitRankConfig ignores fields that
 * it does not know. */
static void warn_policy(const struct bench *b)
{
    const struct bb_bench_options *o = &b->options;
    const int runtime = b->session.nccl_runtime;
    const int oldest = b->session.nccl_header < runtime ? b->session.nccl_header : runtime;

    if (b->session.world.rank != 0)
        return;
    if (o->cta_policy >= 0 && oldest < 22700)
        bb_warn("CTA policy %d (-x) requires NCCL 2.27 and is ignored", o->cta_policy);
    if (o->max_p2p_peers > 0 && !o->fit_memory && runtime < 23000)
        bb_warn("--max-p2p-peers %d requires NCCL 2.30 and is ignored", o->max_p2p_peers);
    if (o->nvlink_centric_sched && !o->fit_memory && oldest < 22800)
        bb_warn("--nvlink-centric-sched requires NCCL 2.28 and is ignored");
}

/* With --sweep-algorithms, busbar forces algorithms as NCCL's tuner plugin and observes them as NCCL's profiler
 * plugin, so no other plugins may be configured. */
static int check_plugins(const struct bench *b, bool tuner_offered)
{
    const char *profiler = getenv("NCCL_PROFILER_PLUGIN"), *tuner = getenv("NCCL_TUNER_PLUGIN");
    bool other_profiler = profiler && strcmp(profiler, "STATIC_PLUGIN") != 0;

    if (!b->options.sampling.sweep_algorithms || (!other_profiler && tuner_offered))
        return 0;
    return BB_WORLD_ERR(&b->session.world, BB_EUSAGE,
                        "--sweep-algorithms cannot be combined with %s=%s, because busbar itself must be this plugin; "
                        "unset the variable",
                        other_profiler ? "NCCL_PROFILER_PLUGIN" : "NCCL_TUNER_PLUGIN",
                        other_profiler ? profiler : tuner);
}

static int setup_ranks(struct bench *b)
{
    const bool tuner_offered =
        b->options.sampling.sweep_algorithms && bb_tuner_enable(); /* calls setenv, so call while the process has one
                                                                      thread */
    char version[BB_NCCL_VERSION_TEXT];
    int rc;

    TRY(bb_comms_max_p2p_peers_env(b->options.max_p2p_peers));
    TRY(bb_session_begin(&b->session, &b->options.common, BB_SESSION_OBSERVED));
    make_groups(b);
    TRY(check_ranks(b));
    TRY(check_plugins(b, tuner_offered));
    TRY(bb_session_setup_gpus(&b->session, b->options.first_device));
    if (b->options.sampling.sweep_algorithms && b->session.nccl_runtime < 22700)
        TRY(BB_WORLD_ERR(
            &b->session.world, BB_EUSAGE,
            "--sweep-algorithms requires NCCL 2.27 or newer, which reports the algorithms; NCCL %s does not",
            bb_nccl_version_text(b->session.nccl_runtime, version)));
    if (b->options.write_tuner && b->session.world.rank == 0)
        rc = bb_outfile_check(b->options.write_tuner, "the tuner file"); /* before the measurements */
    TRY(bb_world_agree(&b->session.world, rc, "the tuner file"));
    TRY(drop_unsupported_types(b));
    warn_policy(b);
out:
    return rc;
}

/* ---- buffers, streams and start barrier ---- */

static size_t arena_bytes(const struct bench *b)
{
    const bool tight = b->options.fit_memory;
    size_t small = bb_sweep_arena_bytes(&b->sweep, b->smallest, tight),
           large = bb_sweep_arena_bytes(&b->sweep, b->largest, tight);

    return small > large ? small : large;
}

/* Kernels of --device may need memory after the arena, in the same window. */
static size_t window_bytes(const struct bench *b)
{
    const struct bb_bench_options *o = &b->options;

    return arena_bytes(b) + bb_device_scratch_bytes(bb_device_path_of(o->device), o->device_ctas, b->largest,
                                                    bb_sweep_largest(&b->sweep));
}

/* Returns an upper bound of the device memory that the buffer arena occupies, in bytes. The bound includes guard
 * zones around the arena, which registered arenas do not have. */
static size_t arena_device_bytes(const struct bench *b)
{
    const size_t n = b->options.n_variants > 0 ? (size_t)b->options.n_variants : 1;

    return n * bb_guarded_device_bytes(window_bytes(b), b->session.memory);
}

/* Returns the largest size that nccl-tests would run. nccl-tests allocates three buffers (two without verification)
 * in the memory of the smallest GPU, minus a reserve. */
static size_t nccl_tests_max_bytes(const struct bench *b)
{
    size_t memory = SIZE_MAX, reserve;

    for (int r = 0; r < b->session.world.size; r++)
        memory = b->session.devices[r].memory_bytes < memory ? b->session.devices[r].memory_bytes : memory;
    reserve = ((size_t)1 << 30) + bb_nccl_reserve_bytes(memory);
    return memory > reserve ? (memory - reserve) / (b->options.checks > 0 ? 3 : 2) : SIZE_MAX;
}

/* Reduces the largest size of the sweep (-e) until the buffers fit in GPU memory, as nccl-tests does. */
static int lower_max_bytes(struct bench *b)
{
    struct bb_sweep *s = &b->sweep;
    size_t asked = s->max_bytes, most = nccl_tests_max_bytes(b), available;
    int rc;

    TRY(bb_session_free_bytes(&b->session, &available));
    if (s->max_bytes > most && most >= s->min_bytes)
        s->max_bytes = most;
    while (arena_device_bytes(b) > available && s->max_bytes - s->max_bytes / 8 > s->min_bytes)
        s->max_bytes -= s->max_bytes / 8;
    b->options.max_bytes = s->max_bytes;
    if (s->max_bytes < asked && b->session.world.rank == 0)
        bb_warn("the last size is reduced from %zu to %zu bytes to fit in GPU memory", asked, s->max_bytes);
out:
    return rc;
}

/* Checks that the buffers fit in GPU memory. Called once before NCCL allocates memory for the communicator and once
 * afterwards. */
static int check_memory(struct bench *b)
{
    const int rc = b->options.fit_memory && b->sweep.sizes.n == 0 ? lower_max_bytes(b) : 0;

    return rc ? rc : bb_session_check_memory(&b->session, arena_device_bytes(b), "reduce the last size (-e)");
}

/* Selects the timing modes given by --mode, or without --mode the timing mode that -G and -z select. */
static void choose_modes(const struct bb_bench_options *o, struct bb_bench_context *ctx)
{
    const struct bb_mode *mode;

    if (!o->sampling.mode)
        ctx->modes[ctx->n_modes++] = o->graph_launches > 0 ? &bb_mode_graph
                                     : o->blocking         ? &bb_mode_blocked
                                                           : &bb_mode_stream;
    for (size_t i = 0; o->sampling.mode && (mode = bb_mode_at(i)); i++)
        if (strcmp(o->sampling.mode, "all") == 0 || strcmp(o->sampling.mode, mode->name) == 0)
            ctx->modes[ctx->n_modes++] = mode;
}

/* Decides whether to use a start barrier, which delays the timed operations until all ranks have enqueued them. With
 * CUDA_LAUNCH_BLOCKING, or if ranks share a GPU, the start barrier would open only after its timeout, so none is
 * used. */
static int choose_start_barrier(struct bench *b)
{
    const char *blocks = getenv("CUDA_LAUNCH_BLOCKING");
    bool uses_start_barrier = b->options.sampling.start_barrier && !b->ctx.host_clock && !b->session.shared_gpu &&
                              !(blocks && atoi(blocks)) && b->ctx.modes[0] == &bb_mode_stream;
    int rc = bb_world_bcast(&b->session.world, &uses_start_barrier, sizeof uses_start_barrier, 0);

    b->ctx.uses_start_barrier = uses_start_barrier;
    return rc;
}

static int make_samples(struct bench *b)
{
    const struct bb_sampling_options *o = &b->options.sampling;
    int highest, rc;

    choose_modes(&b->options, &b->ctx);
    b->ctx.auto_warmup = o->warmup && strcmp(o->warmup, "auto") == 0;
    b->ctx.policy = (struct bb_stopping){.confidence = o->confidence_fraction, .max_s = o->max_s};
    b->ctx.max_iterations = o->confidence_fraction > 0 ? (size_t)o->max_iterations : 0;
    b->ctx.start_barrier_limit_ns = (int64_t)(1e6 * o->start_barrier_limit_ms);
    TRY(choose_start_barrier(b));
    if (o->delay) {
        BB_NEW(b->delays_us, b->session.world.size);
        b->ctx.delays_us = b->delays_us;
        TRY(bb_sampling_parse_delays(o->delay, b->session.world.size, b->delays_us, &highest));
    }
    TRY(bb_measure_init(&b->ctx));
    bb_measure_mode(&b->ctx, b->ctx.modes[0]);
out:
    return rc;
}

static int make_stream(struct bench *b)
{
    struct bb_bench_context *ctx = &b->ctx;
    int rc;

    if (!b->options.null_stream) {
        TRY(BB_CUDA(cudaStreamCreateWithFlags(&ctx->stream, cudaStreamNonBlocking)));
        bb_nvtx_name_stream(&ctx->nvtx, ctx->stream, "bench");
    }
    TRY(BB_CUDA(cudaEventCreate(&ctx->start)));
    TRY(BB_CUDA(cudaEventCreate(&ctx->stop)));
out:
    return rc;
}

/* Allocates the buffers and fills them with pseudo-random data. */
static int make_arena(struct bench *b)
{
    const enum bb_registration_kind asked = (enum bb_registration_kind)b->options.registration;
    const struct bb_pattern noise = bb_pattern_of(&bb_dtypes[BB_UINT64], BB_COPY, b->session.world.size, 1);
    struct bb_guarded *arena = &b->ctx.arena;
    int rc;

    if (asked == BB_REGISTER_NONE)
        TRY(bb_guarded_init(arena, arena_bytes(b), b->session.memory, b->ctx.stream));
    else
        TRY(bb_registration_init(&b->registration, arena, window_bytes(b), asked, &b->comm));
    if (b->registration.why && b->options.device)
        return BB_WORLD_ERR(
            &b->session.world, BB_EUSAGE, "--device %s requires symmetric windows%s: %s", b->options.device,
            b->session.world.nodes > 1 && bb_device_path_of(b->options.device) < BB_DEVICE_GIN ? " in one NVLink domain"
                                                                                               : "",
            b->registration.why);
    if (b->registration.why && b->session.world.rank == 0)
        bb_warn("%s: %s; measured with%s registration",
                asked == BB_REGISTER_LOCAL ? "registration of buffers (-R 1)" : "symmetric windows (-R 2)",
                b->registration.why, b->registration.kind == BB_REGISTER_LOCAL ? " local" : "out");
    b->ctx.symmetric = b->registration.kind == BB_REGISTER_SYMMETRIC;
    b->ctx.copy_engines = b->ctx.symmetric && b->options.cta_policy == 2;
    TRY(bb_fill(arena->area, arena->bytes / 8, &noise, b->session.world.rank, 0, b->ctx.stream));
    TRY(bb_bench_context_wait(&b->ctx, "initializing the buffers"));
    arena->bytes = arena_bytes(b);
out:
    return rc;
}

/* With --device, the operations are busbar's own kernels instead of NCCL's. */
static int make_device(struct bench *b)
{
    const struct bb_bench_options *o = &b->options;
    int rc;

    if (!o->device)
        return 0;
    b->device = (struct bb_device){.path = bb_device_path_of(o->device),
                                   .ctas = o->device_ctas,
                                   .element_wise = o->element_wise,
                                   .window = b->registration.handle,
                                   .base = (const char *)b->ctx.arena.area,
                                   .scratch = b->ctx.arena.bytes};
    b->ctx.device_kernels = &b->device;
    TRY(bb_device_open(&b->device, &b->comm));
    if (b->device.why[0])
        rc = BB_WORLD_ERR(&b->session.world, BB_EUSAGE, "--device: %s", b->device.why);
out:
    return rc;
}

static int make_context(struct bench *b)
{
    const struct bb_bench_options *o = &b->options;
    struct bb_bench_context *ctx = &b->ctx;
    int rc;

    b->native = bb_native_find();
    *ctx = (struct bb_bench_context){.world = &b->session.world,
                                     .comm = &b->comm,
                                     .native = &b->native,
                                     .device = &b->session.device,
                                     .observer = &b->session.observer,
                                     .iterations = o->iterations,
                                     .repeats = o->repeats,
                                     .warmup = o->warmup,
                                     .checks = o->checks,
                                     .aggregate = o->aggregate,
                                     .blocking = (enum bb_blocking)o->blocking,
                                     .graph_launches = o->graph_launches,
                                     .host_time = o->host_time,
                                     .host_clock = strcmp(o->sampling.clock, "host") == 0,
                                     .both_clocks = strcmp(o->sampling.clock, "both") == 0,
                                     .estimates = !o->device && (!b->report.style->program || o->sampling.show_choice),
                                     .rank_aggregation = (enum bb_rank_aggregation)o->rank_aggregation,
                                     .groups = b->sweep.is_split ? b->groups : NULL,
                                     .mulsums = &b->mulsums};
    bb_nvtx_init(&ctx->nvtx);
    bb_nvtx_category(&ctx->nvtx, BB_NVTX_WORLD, b->comm.name);
    TRY(make_samples(b));
    if (o->per_iteration && !ctx->modes[0]->single) {
        TRY(bb_iteration_events_init(&b->iteration_events, o->iterations, o->skipped, b->session.world.size));
        ctx->iteration_events = &b->iteration_events;
    }
    TRY(make_stream(b));
    TRY(BB_CUDA(cudaMalloc((void **)&ctx->verdicts, 2 * sizeof *ctx->verdicts)));
    TRY(BB_CUDA(cudaMalloc(&ctx->sync_byte, 1)));
    for (int i = 0; i < b->sweep.n_redops; i++)
        if (b->sweep.redops[i] == BB_MULSUM)
            TRY(bb_mulsums_make(&b->mulsums, &b->comm, b->sweep.dtypes, b->sweep.n_dtypes));
    TRY(make_arena(b));
    TRY(make_device(b));
out:
    return rc;
}

/* ---- results and report ---- */

/* Opens the results file. Its format is the schema busbar.bench/1, or the JSON format of nccl-tests if the report
 * style has that format. With nccl-tests' format, an existing file is never overwritten. */
static int open_results(struct bench *b, int argc, char **argv)
{
    struct bb_results_head head = {.schema = "busbar.bench/1", .argc = argc, .argv = argv};
    int rc;

    if (b->report.style->json_root) {
        head.root = b->report.style->json_root(&b->report, argc, argv);
        head.fresh = true;
        return bb_session_open_results(&b->session, &head, NULL, NULL);
    }
    TRY(bb_session_open_results(&b->session, &head, &bb_bench_set, &b->options));
    TRY(bb_results_set(b->session.json, "registration", json_string(bb_registration_names[b->registration.kind])));
    if (b->ctx.groups)
        TRY(bb_results_set(b->session.json, "groups", bb_groups_json(&b->session.world, b->groups)));
out:
    return rc;
}

/* Returns the number of ranks of all groups, or of the first group, on a host. */
static int ranks_on(const struct bench *b, int node, bool all_groups)
{
    const struct bb_world *w = &b->session.world;
    int n = 0;

    for (int r = 0; r < w->size; r++)
        n += w->node_of[r] == node && (all_groups || b->groups[r] == b->groups[0]);
    return n;
}

/* Returns the largest number of ranks of all groups, or of the first group, on one host. */
static int ranks_per_node(const struct bench *b, bool all_groups)
{
    int most = 0;

    for (int node = 0; node < b->session.world.nodes; node++)
        most = ranks_on(b, node, all_groups) > most ? ranks_on(b, node, all_groups) : most;
    return most;
}

/* Returns whether more than one host has ranks of the first group, but fewer than another host. */
static bool has_unequal_nodes(const struct bench *b)
{
    const int most = ranks_per_node(b, false);
    int fewer = 0;

    for (int node = 0; node < b->session.world.nodes; node++)
        fewer += ranks_on(b, node, false) > 0 && ranks_on(b, node, false) < most;
    return fewer > 1;
}

/* Reads the expected bus bandwidths of --expect or --min-busbw FILE:PERCENT%, for all cases that the run measures. */
static int read_reference(struct bench *b)
{
    const struct bb_bench_options *o = &b->options;
    struct bb_machine_facts facts = bb_machine_facts_of(&b->session, b->largest, ranks_per_node(b, false));
    int rc;

    if (b->smallest != b->largest)
        return bb_err_job(BB_EUSAGE, "%s requires groups of equal size; try: another --split",
                          o->expect ? "--expect" : "--min-busbw FILE:PERCENT%");
    facts.concurrent = ranks_per_node(b, true);
    facts.unequal_nodes = has_unequal_nodes(b);
    b->reference.option = o->expect ? "--expect" : "--min-busbw";
    b->reference.path =
        o->expect ? bb_format("%s", o->expect) : bb_format("%.*s", o->busbw_thresholds.path_length, o->min_busbw);
    b->reference.fraction = o->busbw_thresholds.fraction;
    b->reference.aggregate = o->aggregate;
    b->reference.rank_aggregation = o->rank_aggregation;
    b->reference.host_clock = b->ctx.host_clock;
    TRY(bb_busbw_reference_load(&b->reference, &b->session.world, b->groups, o->expect ? o->forecast : NULL, &facts,
                                &b->sweep));
    b->reference.partial = o->expect && (!o->min_of_expected || b->reference.is_forecast);
    for (int m = 0; m < b->ctx.n_modes; m++) {
        bb_measure_mode(&b->ctx, b->ctx.modes[m]);
        for (int i = 0; i < b->sweep.n_colls; i++)
            if (bb_coll_possible((enum bb_coll_kind)b->sweep.colls[i], b->largest))
                TRY(bb_busbw_reference_add(&b->reference, &b->sweep, b->sweep.colls[i], bb_bench_context_mode(&b->ctx),
                                           b->largest));
    }
out:
    return rc;
}

/* Prepares the expected bus bandwidths and the thresholds, which rank 0 judges. */
static int make_thresholds(struct bench *b)
{
    const struct bb_bench_options *o = &b->options;
    const struct bb_busbw_thresholds *t = &o->busbw_thresholds;
    const bool reads = o->expect || t->path_length > 0, from_reference = reads && t->fraction > 0;
    int rc;

    bb_err_job_scope(1);
    rc = reads && b->session.world.rank == 0 ? read_reference(b) : 0;
    if (rc == 0 && o->min_of_expected && b->session.world.rank == 0 && b->reference.n == 0)
        rc = bb_err_job(BB_EUSAGE, "--min-of-expected: %s has no expected bus bandwidth of this run", o->expect);
    if (rc == 0 && o->min_of_expected && b->reference.other_nodes)
        rc = bb_err_job(BB_EUSAGE, "--min-of-expected: expected bus bandwidths are for nodes of equal numbers of "
                                   "ranks, which this job does not "
                                   "have; try: --expect FILE of an earlier run");
    bb_err_job_scope(0);
    if (reads)
        TRY(bb_world_agree(&b->session.world, rc, o->expect ? "reading --expect" : "reading --min-busbw"));
    b->report.expected = o->expect ? &b->reference : NULL;
    b->report.thresholds = from_reference ? b->reference.item : t->item;
    b->report.n_thresholds = from_reference ? b->reference.n : t->n;
    b->report.below = json_array();
    b->report.checks = json_array();
    BB_NEW(b->report.tallies, b->session.world.size * (b->report.n_thresholds + 1));
    BB_NEW(b->report.late, b->session.world.size);
out:
    return rc;
}

/* Opens the results file and prints the lines above the first table. */
static int open_report(struct bench *b, int argc, char **argv)
{
    int own = getpid(), rc;
    int *pids = bb_world_gather(&b->session.world, &own, sizeof own, &rc);

    TRY(rc);
    b->report.out = b->session.out;
    b->report.full = b->report.style->program || b->options.common.full;
    b->report.one_line =
        !b->report.full && !b->options.sampling.show_choice &&
        (b->sweep.n_colls * b->ctx.n_modes > 1 || b->options.cycles != 1 || b->options.sampling.sweep_algorithms);
    b->report.groups = b->groups;
    b->report.pids = pids;
    TRY(open_results(b, argc, argv));
    if (b->report.style->program && b->session.progress.has_thread)
        bb_progress_end(&b->session.progress); /* no progress, because nccl-tests prints none and parsers of its
                                                  output do not expect any */
    if (b->report.out)
        b->report.style->head(&b->report);
out:
    free(pids);
    return rc;
}

/* ---- sweep ---- */

static void report_wrong_data(const struct bench *b, const struct bb_case *c, const struct bb_metrics *f)
{
    const struct bb_choice *choice = &f->seen.choice;
    char what[128], how[48] = ""; /* how: with --sweep-algorithms, NCCL's algorithm and protocol */

    if (b->session.world.rank != 0 || f->wrong == 0)
        return;
    if (b->options.sampling.sweep_algorithms && choice->kind == BB_CHOICE_COLLECTIVE)
        snprintf(how, sizeof how, " by %s %s", choice->algorithm, choice->protocol);
    snprintf(what, sizeof what, "%s of %zu byte%s %s%s", bb_colls[c->kind].name, f->bytes, bb_plural(f->bytes),
             c->in_place ? "in place" : "out of place", how);
    bb_report_wrong_data(&b->session.world, f, c->dtype, what);
}

static int measure_placement(struct bench *b, struct bb_row *row, int placement)
{
    struct bb_case c = row->c;
    int rc;

    c.in_place = placement == BB_IN_PLACE;
    row->measured[placement] = row->wanted[placement] && (b->sweep.overlapping || bb_case_possible(&c));
    if (!row->measured[placement])
        return 0;
    rc = bb_measure(&b->ctx, &c, &row->metrics[placement]);
    if (rc == 0 && row->metrics[placement].wrong > 0) {
        bb_progress_clear(&b->session.progress);
        if (!b->sweep.is_split) /* else report_groups reports it */
            report_wrong_data(b, &c, &row->metrics[placement]);
        b->wrong = true;
    }
    return rc;
}

/* Gathers the rows of all --split groups (sets of ranks with their own communicator). Rank 0 reports one row per
 * group, in the order of the groups' first ranks. All ranks record whether any group received wrong data. */
static int report_groups(struct bench *b, const struct bb_row *row)
{
    int rc;
    struct bb_row *all = bb_world_gather(&b->session.world, row, sizeof *row, &rc);

    TRY(rc);
    for (int r = 0; r < b->session.world.size; r++) {
        all[r].c.alltoallv_counts = &b->sweep.alltoallv_counts;
        b->wrong = b->wrong || all[r].metrics[BB_OUT_OF_PLACE].wrong > 0 || all[r].metrics[BB_IN_PLACE].wrong > 0;
        if (!all[r].first)
            continue;
        for (int placement = 0; placement < BB_PLACEMENTS; placement++) {
            struct bb_case c = all[r].c;

            c.in_place = placement == BB_IN_PLACE;
            report_wrong_data(b, &c, &all[r].metrics[placement]);
        }
        TRY(bb_report_row(&b->report, &all[r]));
    }
out:
    free(all);
    return rc;
}

static int measure_placements(void *arg, struct bb_row *row)
{
    struct bench *b = arg;
    char size[BB_BYTES_TEXT];
    int rc;

    bb_progress_show(&b->session.progress, "%s %s", bb_colls[row->c.kind].name,
                     bb_format_bytes(bb_case_bytes(&row->c), size));
    TRY(measure_placement(b, row, BB_OUT_OF_PLACE));
    TRY(measure_placement(b, row, BB_IN_PLACE));
    bb_progress_clear(&b->session.progress);
out:
    return rc;
}

static int report_row(void *arg, struct bb_row *row)
{
    struct bench *b = arg;

    return b->sweep.is_split ? report_groups(b, row) : bb_report_row(&b->report, row);
}

/* Returns the estimated duration of a row for the progress line, in time units of one byte at 100 GB/s (10 ps): 2e6
 * units (20 us) plus one unit per byte of the message size; 100 units if the CPU moves the data of emulated GPUs, 0 if their
 * data does not move (EMU_DATA=off) and their time is virtual. */
static double row_effort(const struct bench *b, const struct bb_case *c)
{
    const struct bb_device_info *d = &b->session.device;
    const double byte = d->emulated && bb_session_moves_data(&b->session) ? 100 : d->virtual_time ? 0 : 1;

    return 2e6 + byte * (double)bb_case_bytes(c);
}

static int measure_variants(void *arg, const struct bb_case *c)
{
    struct bench *b = arg;
    struct bb_case in_place = *c;
    int rc;

    in_place.in_place = b->sweep.in_place;
    rc = bb_case_possible(&in_place) ? bb_variants_case(&b->variants, &in_place) : 0;
    b->wrong = b->wrong || b->variants.wrong;
    bb_progress_advance(&b->session.progress, row_effort(b, c));
    return rc;
}

static int measure_row(void *arg, const struct bb_case *c)
{
    struct bench *b = arg;
    struct bb_row row = {.c = *c,
                         .wanted = {[BB_OUT_OF_PLACE] = b->sweep.out_of_place, [BB_IN_PLACE] = b->sweep.in_place},
                         .group = b->groups[b->session.world.rank],
                         .first = b->comm.rank == 0};
    int rc;

    TRY(measure_placements(b, &row));
    TRY(report_row(b, &row));
    bb_progress_advance(&b->session.progress, row_effort(b, c));
    if (b->options.sampling.sweep_algorithms)
        TRY(bb_algorithms_row(&b->algorithms, &row));
out:
    return rc;
}

static bool is_possible_in_all_groups(const struct bench *b, int coll)
{
    for (int r = 0; r < b->session.world.size; r++)
        if (!bb_coll_possible((enum bb_coll_kind)coll, members_of(b, b->groups[r])))
            return false;
    return true;
}

/* With -M, records the free GPU memory at a point of the run. */
static int record_free_memory(struct bench *b, enum bb_memory_point point)
{
    return b->options.memory ? bb_device_free_bytes(&b->report.free_bytes[point], false) : 0;
}

/* Measures and reports all cases of one collective in one timing mode, which form one table. */
static int measure_table(struct bench *b, int coll)
{
    bool below;
    int rc;

    if (b->options.n_variants > 0) {
        if (b->report.out)
            bb_print_case_title(b->report.out, coll, NULL);
        return bb_sweep_each(&b->sweep, coll, b->comm.size, measure_variants, b);
    }
    bb_report_begin(&b->report, coll);
    TRY(bb_sweep_each(&b->sweep, coll, b->comm.size, measure_row, b));
    TRY(record_free_memory(b, BB_MEMORY_END));
    if (b->options.sampling.sweep_algorithms)
        TRY(bb_algorithms_table(&b->algorithms, b->report.out, b->session.json));
    b->report.gain = bb_algorithms_summary(&b->algorithms);
    below = b->session.world.rank == 0 && bb_report_end(&b->report);
    rc = bb_world_bcast(&b->session.world, &below, sizeof below, 0);
    b->below = b->below || below;
    b->judged = true;
out:
    return rc;
}

/* Measures all collectives in one timing mode, then in the next: from the first graph of a communicator on, NCCL orders
 * its other operations by additional events (NCCL_GRAPH_MIXING_SUPPORT), so the graph mode comes last. */
static int measure_collectives(struct bench *b)
{
    int rc = 0;

    for (int m = 0; m < b->ctx.n_modes; m++) {
        bb_measure_mode(&b->ctx, b->ctx.modes[m]);
        for (int i = 0; i < b->sweep.n_colls && rc == 0; i++)
            if (is_possible_in_all_groups(b, b->sweep.colls[i]))
                rc = measure_table(b, b->sweep.colls[i]);
            else if (m == 0)
                bb_report_skip(&b->report, b->sweep.colls[i]);
    }
    return rc;
}

static int count_case(void *arg, const struct bb_case *c)
{
    (void)c;
    ++*(int *)arg;
    return 0;
}

/* Creates the communicators and buffers of --sweep-variants, and prints the headings of its table. */
static int begin_variants(struct bench *b)
{
    const struct bb_bench_options *o = &b->options;
    const struct bb_comm_opts opts = comm_opts(o);
    struct bb_variants *v = &b->variants;
    int rc = 0;

    v->n = o->n_variants;
    v->with_gemm = o->with_gemm;
    for (int i = 0; i < v->n; i++)
        v->kind[i] = &bb_variant_kinds[o->variants[i]];
    for (int i = 0; i < b->sweep.n_colls && v->n > 0; i++)
        (void)bb_sweep_each(&b->sweep, b->sweep.colls[i], b->comm.size, count_case, &v->cases);
    if (v->n > 0)
        TRY(bb_variants_init(v, &b->session, &b->ctx, &opts, arena_bytes(b), o->gemm_mnk));
out:
    return rc;
}

static int add_effort(void *arg, const struct bb_case *c)
{
    struct bench *b = arg;

    b->effort += row_effort(b, c);
    return 0;
}

/* Warns of a listed size from which no element remains. Of a range, as in nccl-tests, this is usual. */
static void warn_of_empty(const struct bench *b)
{
    const struct bb_sweep *s = &b->sweep;

    for (int i = 0; i < s->sizes.n && b->session.world.rank == 0; i++)
        for (int c = 0; c < s->n_colls; c++)
            if (s->sizes.bytes[i] > 0 && bb_coll_count((enum bb_coll_kind)s->colls[c], s->sizes.bytes[i], b->comm.size,
                                                       bb_dtypes[s->dtypes[0]].bytes) == 0) {
                bb_warn(
                    "--sizes %s: %s of %zu byte%s sends nothing: sizes are rounded down, as in nccl-tests, to whole "
                    "elements (%s: %d byte%s)%s",
                    b->options.sizes, bb_colls[s->colls[c]].name, s->sizes.bytes[i], bb_plural(s->sizes.bytes[i]),
                    bb_dtypes[s->dtypes[0]].name, bb_dtypes[s->dtypes[0]].bytes,
                    bb_plural((unsigned)bb_dtypes[s->dtypes[0]].bytes),
                    bb_colls[s->colls[c]].flags & BB_COLL_SLICED ? ", and to 16 bytes per rank" : "");
                return;
            }
}

/* Sets the total duration of the run for the progress line, in the unit of row_effort. With -N 0 (unlimited
 * repetitions of the sweep) the total is 0, that is, unknown. */
static int start_progress(struct bench *b)
{
    int rc = 0;

    for (int i = 0; i < b->sweep.n_colls && rc == 0; i++)
        if (is_possible_in_all_groups(b, b->sweep.colls[i]))
            rc = bb_sweep_each(&b->sweep, b->sweep.colls[i], b->comm.size, add_effort, b);
    bb_progress_expect(&b->session.progress, b->effort * b->ctx.n_modes * b->options.cycles);
    return rc;
}

/* Runs the sweep as often as -N requests; with -N 0 until the process is interrupted. */
static int run_sweep(struct bench *b)
{
    int rc = start_progress(b);

    warn_of_empty(b);
    if (b->options.n_variants > 0)
        bb_variants_heading(&b->variants);
    b->algorithms = (struct bb_algorithms){.ctx = &b->ctx,
                                           .native = b->session.nccl_runtime >= 23100 ? &b->native : NULL,
                                           .measure = measure_placements,
                                           .report = report_row,
                                           .arg = b,
                                           .sharing = b->session.shared_gpu ? bb_session_sharing(&b->session) : NULL};
    if (b->options.write_tuner)
        b->algorithms.tuning = (struct bb_tuning){.ncclx = strcmp(b->options.tuner_format, "ncclx") == 0,
                                                  .min_gain = 1 + b->options.tuner_gain_percent / 100};
    for (int cycle = 0; rc == 0 && (b->options.cycles == 0 || cycle < b->options.cycles); cycle++) {
        b->report.cycle = b->algorithms.cycle = cycle;
        rc = measure_collectives(b);
    }
    if (rc == 0 && b->options.write_tuner)
        rc = bb_algorithms_write_tuner(&b->algorithms, b->options.write_tuner, b->session.nccl_runtime, b->report.out,
                                       b->session.json);
    bb_progress_clear(&b->session.progress);
    return rc == 0 && b->options.n_variants > 0 ? bb_variants_end(&b->variants) : rc;
}

/* ---- run and teardown ---- */

/* Checks that NCCL has loaded busbar's built-in tuner plugin. Call after the communicator has been created. */
static int check_tuner_attached(struct bench *b)
{
    bool missing = b->options.sampling.sweep_algorithms && b->comm.size > 1 && bb_tuner_attached() == 0;
    int rc = 0;

    if (missing)
        rc = bb_err(BB_EFAIL, "--sweep-algorithms: NCCL did not load the program's tuner plugin (for the reason, set "
                              "NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=INIT,TUNING)");
    return b->options.sampling.sweep_algorithms ? bb_world_agree(&b->session.world, rc, "tuner plugin") : 0;
}

/* Returns an error if --min-busbw is given but all collectives were skipped, so that no bus bandwidth could be
 * compared with a threshold. */
static int check_nothing_measured(const struct bench *b)
{
    if (b->judged || (b->options.busbw_thresholds.n == 0 && b->options.busbw_thresholds.fraction == 0))
        return 0;
    return BB_WORLD_ERR(&b->session.world, BB_EBELOW,
                        "%s: cannot check the bus bandwidth (--min-busbw): the collective was skipped",
                        bb_colls[b->sweep.colls[0]].name);
}

static int run_bench(struct bench *b, int argc, char **argv)
{
    int rc;

    TRY(setup_ranks(b));
    TRY(check_memory(b));
    TRY(record_free_memory(b, BB_MEMORY_START));
    TRY(make_comm(b));
    TRY(check_tuner_attached(b));
    TRY(record_free_memory(b, BB_MEMORY_INIT));
    TRY(check_memory(b));
    TRY(make_context(b));
    TRY(begin_variants(b));
    TRY(record_free_memory(b, BB_MEMORY_BUFFERS));
    TRY(make_thresholds(b));
    TRY(open_report(b, argc, argv));
    TRY(run_sweep(b));
    TRY(bb_report_close(&b->report));
    if (b->wrong && b->below && b->session.world.rank == 0) /* the last line is the reason for the exit status */
        (void)bb_err_job(BB_EDATA, "%s", bb_err_record()->text);
    rc = b->wrong ? -BB_EDATA : b->below ? -BB_EBELOW : check_nothing_measured(b);
out:
    return rc;
}

/* Releases the resources that all ranks must release together: communicator, buffer registration, buffers. */
static int release_shared(struct bench *b)
{
    struct bb_bench_context *ctx = &b->ctx;
    const int rc = bb_variants_release(&b->variants);

    bb_device_close(&b->device, &b->comm);
    bb_registration_release(&b->registration, &ctx->arena, &b->comm);
    bb_guarded_release(&ctx->arena);
    if (ctx->verdicts)
        (void)cudaFree(ctx->verdicts);
    if (ctx->sync_byte)
        (void)cudaFree(ctx->sync_byte);
    bb_event_destroy(ctx->stop);
    bb_event_destroy(ctx->start);
    bb_stream_destroy(ctx->stream);
    bb_nvtx_release(&ctx->nvtx);
    bb_measure_release(ctx);
    bb_iteration_events_release(&b->iteration_events);
    bb_mulsums_release(&b->mulsums, &b->comm);
    return rc ? rc : bb_comm_finalize(&b->comm);
}

int bb_bench_execute(const struct bb_bench_options *o, const struct bb_sweep *sweep,
                     const struct bb_report_style *style, int argc, char **argv)
{
    struct bench b = {.options = *o, .sweep = *sweep, .report = {.style = style}};
    int rc, end_rc = 0;

    b.report.session = &b.session;
    b.report.ctx = &b.ctx;
    b.report.options = &b.options;
    b.report.registration = &b.registration;
    rc = run_bench(&b, argc, argv);
    if (bb_session_ends_on_all_ranks(&b.session, rc))
        end_rc = release_shared(&b);
    rc = bb_session_release(&b.session, rc, end_rc);
    bb_busbw_reference_release(&b.reference);
    json_decref(b.report.below);
    json_decref(b.report.checks);
    free(b.report.tallies);
    free(b.report.late);
    free(b.report.ratios);
    free(b.groups);
    free(b.delays_us);
    bb_algorithms_release(&b.algorithms);
    bb_bench_release_sweep(&b.sweep);
    return rc;
}

int bb_bench_run(bb_forecast *forecast, int argc, char **argv)
{
    struct bb_bench_options options = {0}; /* zero-initialized, because some fields are not set by any option */
    struct bb_sweep sweep;
    int rc = bb_bench_parse(&options, &sweep, argc, argv, stdout);

    options.forecast = forecast;
    return rc ? rc : bb_bench_execute(&options, &sweep, &bb_report_bench, argc, argv);
}
