/*
 * bench.c - the microbenchmark from its first line to its last: ranks, GPUs, communicator, memory, sweep, report,
 * and the same in reverse.
 */
#include "bootstrap/base/progress.h"
#include "collectives/bench_main.h"
#include "collectives/measure/enqueue.h"
#include "collectives/measure/timing.h"
#include "collectives/session/registration.h"
#include "collectives/sweep/algorithms.h"
#include "collectives/sweep/bench_options.h"
#include "collectives/sweep/bench_report.h"
#include "cuda/device/check.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Everything that a run holds; zeroed is empty, so one release fits every state. */
struct bench {
    struct bb_bench_options options;
    struct bb_sweep sweep;
    struct bb_world world;
    struct bb_device_info device, *devices; /* own, everybody's [size] */
    struct bb_comm comm;
    struct bb_native native;
    struct bb_mulsums mulsums;
    struct bb_iteration_events marks;
    struct bb_registration registration;
    int *groups, smallest, largest; /* group of each world rank; ranks of the smallest and the largest group */
    struct bb_report_memory memory;
    struct bb_telemetry observer;
    struct bb_algorithms algorithms; /* of --sweep-algorithms */
    struct bb_bench_context rig;
    double *delays_us; /* [size] of each rank, or NULL */
    struct bb_report report;
    struct bb_progress progress;
    int nccl_header, nccl_runtime;
    bool below;    /* some bus bandwidth was below the threshold                       */
    bool wrong;    /* some data were wrong: the run goes on, its exit status tells    */
    bool together; /* the run ends early, all ranks know it, and end in order          */
};

/* A result that is the same on every rank: if it ends the run, nobody has to be told. */
static int all_know(struct bench *b, int rc)
{
    b->together = rc != 0;
    return rc;
}

/* ---- ranks and devices ---- */

static int members_of(const struct bench *b, int group)
{
    int n = 0;

    for (int r = 0; r < b->world.size; r++)
        n += b->groups[r] == group;
    return n;
}

static int make_groups(struct bench *b)
{
    b->groups = calloc((size_t)b->world.size, sizeof *b->groups);
    if (!b->groups)
        return bb_err(BB_EFAIL, "no memory for the groups of %d ranks", b->world.size);
    for (int r = 0; b->sweep.is_split && r < b->world.size; r++)
        b->groups[r] = bb_split_group(&b->sweep.split, r);
    b->smallest = b->world.size;
    for (int r = 0; r < b->world.size; r++) {
        int n = members_of(b, b->groups[r]);
        b->smallest = n < b->smallest ? n : b->smallest;
        b->largest = n > b->largest ? n : b->largest;
    }
    return 0;
}

/* What the options mean with this many ranks. Every rank comes to the same answer, rank 0 says it. */
static int check_ranks(const struct bench *b)
{
    const struct bb_sweep *s = &b->sweep;
    bool speaks = b->world.rank == 0;

    for (int i = 0; i < s->n_colls; i++)
        if (bb_colls[s->colls[i]].flags & BB_COLL_ROOTED && s->root >= b->smallest)
            return speaks ? bb_err(BB_EUSAGE, "root %d (-r) of %s is not a rank: ranks are 0 to %d", s->root,
                                   bb_colls[s->colls[i]].name, b->smallest - 1)
                          : -BB_EUSAGE;
    if (b->options.figures.delay && b->options.figures.delayed_rank >= b->world.size)
        return speaks ? bb_err(BB_EUSAGE, "rank %d (--delay) is not a rank: ranks are 0 to %d",
                               b->options.figures.delayed_rank, b->world.size - 1)
                      : -BB_EUSAGE;
    if (s->amounts && s->amounts->bytes && s->amounts->n < b->largest)
        return speaks ? bb_err(BB_EUSAGE, "matrix file %s is for %d ranks, but there are %d", b->options.matrix,
                               s->amounts->n, b->largest)
                      : -BB_EUSAGE;
    return 0;
}

/* The first rank of a host speaks for it. */
static int choose_device(struct bench *b)
{
    const struct bb_world *w = &b->world;
    int rc = bb_device_choose_from(b->options.first_device, w->local_rank, w->local_size, b->options.common.share_gpu,
                                   &b->device);

    rc = all_know(b, bb_world_agree(&b->world, rc, "choice of GPUs"));
    if (rc != 0)
        return rc;
    bb_err_identify(w->rank, w->host, b->device.ordinal);
    b->devices = calloc((size_t)w->size, sizeof *b->devices);
    if (!b->devices)
        return bb_err(BB_EFAIL, "no memory for the devices of %d ranks", w->size);
    return bb_world_allgather(&b->world, &b->device, b->devices, sizeof b->device);
}

static int oldest_capability(const struct bench *b)
{
    int oldest = 1 << 30;

    for (int r = 0; r < b->world.size; r++) {
        int capability = b->devices[r].cc_major * 10 + b->devices[r].cc_minor;
        oldest = capability < oldest ? capability : oldest;
    }
    return oldest;
}

/* 8-bit floating point needs NCCL 2.24, and its reductions compute capability 9.0. */
static bool type_is_supported(const struct bench *b, int dtype)
{
    bool reduces = false;

    if (bb_dtypes[dtype].number_class != BB_FLOATING || bb_dtypes[dtype].bytes != 1)
        return true;
    for (int i = 0; i < b->sweep.n_colls; i++)
        reduces = reduces || bb_colls[b->sweep.colls[i]].flags & BB_COLL_REDUCES;
    return b->nccl_runtime >= 22400 && (!reduces || oldest_capability(b) >= 90);
}

static int drop_unsupported_types(struct bench *b)
{
    struct bb_sweep *s = &b->sweep;
    int kept = 0, asked = s->n_dtypes;

    for (int i = 0; i < asked; i++)
        if (type_is_supported(b, s->dtypes[i]))
            s->dtypes[kept++] = s->dtypes[i];
        else if (asked > 1 && b->world.rank == 0)
            bb_warn("%s is left out: it needs NCCL 2.24 and, to reduce, compute capability 9.0",
                    bb_dtypes[s->dtypes[i]].name);
    s->n_dtypes = kept;
    if (kept > 0)
        return 0;
    return b->world.rank ? -BB_EUSAGE
                         : bb_err(BB_EUSAGE, "%s needs NCCL 2.24 and, to reduce, compute capability 9.0",
                                  bb_dtypes[s->dtypes[0]].name);
}

static int make_comm(struct bench *b)
{
    const struct bb_bench_options *o = &b->options;
    /* Blocking: calls return when enqueued, without the helper thread's hop in the time. */
    const struct bb_comm_opts opts = {
        .blocking = true, .min_ctas = o->min_ctas, .max_ctas = o->max_ctas, .cta_policy = o->cta_policy + 1};
    int *members = malloc((size_t)b->world.size * sizeof *members), group = b->groups[b->world.rank], n = 0, rc;
    char name[BB_COMM_NAME] = "world";

    if (!members)
        return bb_err(BB_EFAIL, "no memory for the members of a group of %d", b->world.size);
    for (int r = 0; r < b->world.size; r++)
        if (b->groups[r] == group)
            members[n++] = r;
    if (b->sweep.is_split)
        snprintf(name, sizeof name, "group %d", group);
    rc = bb_comm_init(&b->comm, &b->world, name, members, n, &opts);
    free(members);
    return rc;
}

/* The communicator takes an unknown field without a word when the library is older. */
static void warn_policy(const struct bench *b)
{
    if (b->options.cta_policy >= 0 && (b->nccl_runtime < 22700 || b->nccl_header < 22700) && b->world.rank == 0)
        bb_warn("CTA policy %d (-x) needs NCCL 2.27; measured without", b->options.cta_policy);
}

/* The sweep forces algorithms as a tuner and sees them as a profiler: both have to be this program. */
static int offer_tuner(const struct bench *b)
{
    const char *profiler = getenv("NCCL_PROFILER_PLUGIN"), *tuner = getenv("NCCL_TUNER_PLUGIN");
    bool theirs = profiler && strcmp(profiler, "STATIC_PLUGIN") != 0;

    if (!b->options.figures.sweep_algorithms || (!theirs && bb_tuner_offer()))
        return 0;
    return b->world.rank
               ? -BB_EUSAGE
               : bb_err(BB_EUSAGE,
                        "--sweep-algorithms: %s=%s is in the way, the program has to be that plugin: unset it",
                        theirs ? "NCCL_PROFILER_PLUGIN" : "NCCL_TUNER_PLUGIN", theirs ? profiler : tuner);
}

/* Before 2.27 NCCL tells no plugin what it ran. */
static int check_sweep(const struct bench *b)
{
    char text[BB_NCCL_VERSION_TEXT];

    if (!b->options.figures.sweep_algorithms || b->nccl_runtime >= 22700)
        return 0;
    return b->world.rank
               ? -BB_EUSAGE
               : bb_err(BB_EUSAGE, "--sweep-algorithms: NCCL %s does not tell what it ran, expected 2.27 or newer",
                        bb_nccl_version_text(b->nccl_runtime, text));
}

static int setup_ranks(struct bench *b)
{
    int rc;

    TRY(bb_world_init(&b->world, b->options.common.timeout_s));
    TRY(make_groups(b));
    TRY(all_know(b, check_ranks(b)));
    TRY(all_know(b, offer_tuner(b)));
    if (!bb_profiler_offer() && b->world.rank == 0)
        bb_warn("NCCL's choices stay unknown: NCCL_PROFILER_PLUGIN names another plugin");
    TRY(bb_nccl_version(&b->nccl_header, &b->nccl_runtime));
    TRY(all_know(b, check_sweep(b)));
    TRY(choose_device(b));
    TRY(all_know(b, drop_unsupported_types(b)));
    b->report.shared_gpu = bb_device_shared(b->devices, b->world.size);
    if (b->report.shared_gpu)
        TRY(bb_comms_share_gpu_env(b->world.rank));
    warn_policy(b);
out:
    return rc;
}

/* ---- memory and stream ---- */

/* Two slots of the largest row: one that the iterations walk through, one for the last iteration. */
static size_t arena_bytes(const struct bench *b)
{
    size_t small = bb_sweep_slot_bytes(&b->sweep, b->smallest), large = bb_sweep_slot_bytes(&b->sweep, b->largest);

    return 2 * (small > large ? small : large);
}

/* As nccl-tests does. Returns what is needed then. */
static size_t fit_memory(struct bench *b, size_t need, size_t available)
{
    struct bb_sweep *s = &b->sweep;
    size_t asked = s->max_bytes;

    while (b->options.fit_memory && s->sizes.n == 0 && need > available &&
           s->max_bytes - s->max_bytes / 8 > s->min_bytes) {
        s->max_bytes -= s->max_bytes / 8;
        need = bb_guarded_cost(arena_bytes(b));
    }
    b->options.max_bytes = s->max_bytes;
    if (s->max_bytes < asked && b->world.rank == 0)
        bb_warn("the last size is lowered from %zu to %zu bytes, which fit into the GPUs' memory", asked, s->max_bytes);
    return need;
}

/* The fullest GPU decides for all, and rank 0 says so. Asked before NCCL takes its share, and after. */
static int check_memory(struct bench *b)
{
    size_t need = bb_guarded_cost(arena_bytes(b)), available, *of_ranks = calloc((size_t)b->world.size, sizeof need);
    int rc;

    if (!of_ranks)
        return bb_err(BB_EFAIL, "no memory for the sizes of %d ranks", b->world.size);
    TRY(bb_device_free_bytes(&available));
    TRY(bb_world_allgather(&b->world, &available, of_ranks, sizeof available));
    for (int r = 0; r < b->world.size; r++)
        available = of_ranks[r] < available ? of_ranks[r] : available;
    need = fit_memory(b, need, available);
    if (need > available)
        rc = all_know(b, b->world.rank ? -BB_EUSAGE : bb_memory_refuse(need, available, "lower the last size (-e)"));
out:
    free(of_ranks);
    return rc;
}

static int fill_arena(struct bb_bench_context *rig)
{
    struct bb_pattern noise = bb_pattern_of(&bb_dtypes[BB_UINT64], BB_COPY, rig->world->size, 1);

    return bb_fill(rig->arena.area, rig->arena.bytes / 8, &noise, rig->world->rank, 0, rig->stream);
}

/* One, as -G and -z say, or what --mode names. */
static void choose_modes(const struct bb_bench_options *o, struct bb_bench_context *rig)
{
    const struct bb_mode *mode;

    if (!o->figures.mode)
        rig->modes[rig->n_modes++] = o->graph_launches > 0 ? &bb_mode_graph
                                     : o->blocking         ? &bb_mode_blocked
                                                           : &bb_mode_stream;
    for (size_t i = 0; o->figures.mode && (mode = bb_mode_at(i)); i++)
        if (strcmp(o->figures.mode, "all") == 0 || strcmp(o->figures.mode, mode->name) == 0)
            rig->modes[rig->n_modes++] = mode;
}

/* Behind a closed gate a launch that blocks, or another rank's operation on the same GPU, would wait for the limit. */
static int choose_gate(struct bench *b)
{
    const char *blocks = getenv("CUDA_LAUNCH_BLOCKING");
    bool gated = b->options.figures.gate && !b->report.shared_gpu && !(blocks && atoi(blocks)) &&
                 b->rig.modes[0] == &bb_mode_stream;
    int rc = bb_world_bcast(&b->world, &gated, sizeof gated, 0);

    b->rig.gated = gated;
    return rc;
}

static int make_delays(struct bench *b)
{
    int highest;

    if (!b->options.figures.delay)
        return 0;
    b->delays_us = calloc((size_t)b->world.size, sizeof *b->delays_us);
    if (!b->delays_us)
        return bb_err(BB_EFAIL, "no memory for the delays of %d ranks", b->world.size);
    b->rig.delays_us = b->delays_us;
    return bb_sampling_delays(b->options.figures.delay, b->world.size, b->delays_us, &highest);
}

static int make_samples(struct bench *b)
{
    const struct bb_sampling_options *o = &b->options.figures;
    int rc;

    choose_modes(&b->options, &b->rig);
    b->rig.auto_warmup = o->warmup && strcmp(o->warmup, "auto") == 0;
    b->rig.policy = (struct bb_stopping){.confidence = o->confidence_part, .max_s = o->max_s};
    b->rig.max_iterations = o->confidence_part > 0 ? (size_t)o->max_iterations : 0;
    b->rig.gate_limit_ns = (int64_t)(1e6 * o->gate_ms);
    TRY(choose_gate(b));
    TRY(make_delays(b));
    TRY(bb_measure_init(&b->rig));
    bb_measure_mode(&b->rig, b->rig.modes[0]);
out:
    return rc;
}

static struct bb_bench_context rig_of(struct bench *b)
{
    const struct bb_bench_options *o = &b->options;

    return (struct bb_bench_context){.world = &b->world,
                                     .comm = &b->comm,
                                     .native = &b->native,
                                     .device = &b->device,
                                     .iterations = o->iterations,
                                     .repeats = o->repeats,
                                     .warmup = o->warmup,
                                     .checks = o->checks,
                                     .aggregate = o->aggregate,
                                     .blocking = (enum bb_blocking)o->blocking,
                                     .graph_launches = o->graph_launches,
                                     .host_time = o->host_time,
                                     .across = (enum bb_across)o->across,
                                     .groups = b->sweep.is_split ? b->groups : NULL,
                                     .mulsums = &b->mulsums};
}

static int make_stream(struct bench *b)
{
    struct bb_bench_context *rig = &b->rig;
    int rc;

    if (!b->options.null_stream) {
        TRY(BB_CUDA(cudaStreamCreateWithFlags(&rig->stream, cudaStreamNonBlocking)));
        bb_nvtx_name_stream(&rig->nvtx, rig->stream, "bench");
    }
    TRY(BB_CUDA(cudaEventCreate(&rig->start)));
    TRY(BB_CUDA(cudaEventCreate(&rig->stop)));
out:
    return rc;
}

static int make_arena(struct bench *b)
{
    enum bb_registration_kind asked = (enum bb_registration_kind)b->options.registration;
    int rc;

    if (asked == BB_REGISTER_NONE)
        TRY(bb_guarded_init(&b->rig.arena, arena_bytes(b), b->rig.stream));
    else
        TRY(bb_registration_init(&b->registration, &b->rig.arena, arena_bytes(b), asked, &b->comm));
    TRY(fill_arena(&b->rig));
    TRY(bb_bench_context_wait(&b->rig, "preparation of buffers"));
out:
    return rc;
}

static int make_rig(struct bench *b)
{
    struct bb_bench_context *rig = &b->rig;
    int rc;

    b->native = bb_native_find();
    *rig = rig_of(b);
    bb_nvtx_init(&rig->nvtx);
    bb_nvtx_category(&rig->nvtx, BB_NVTX_WORLD, b->comm.name);
    TRY(bb_telemetry_open(&b->observer, &b->world, &b->device));
    rig->observer = &b->observer;
    b->algorithms = (struct bb_algorithms){.world = &b->world, .rig = rig, .shared_gpu = b->report.shared_gpu};
    TRY(make_samples(b));
    if (b->options.per_iteration) {
        TRY(bb_iteration_events_init(&b->marks, b->options.iterations, b->options.skipped, b->world.size));
        rig->marks = &b->marks;
    }
    TRY(make_stream(b));
    TRY(BB_CUDA(cudaMalloc((void **)&rig->verdicts, 2 * sizeof *rig->verdicts)));
    TRY(BB_CUDA(cudaMalloc(&rig->meeting, 1)));
    for (int i = 0; i < b->sweep.n_redops; i++)
        if (b->sweep.redops[i] == BB_MULSUM)
            TRY(bb_mulsums_make(&b->mulsums, &b->comm, b->sweep.dtypes, b->sweep.n_dtypes));
    TRY(make_arena(b));
out:
    return rc;
}

static void release_rig(struct bb_bench_context *rig)
{
    bb_guarded_release(&rig->arena);
    if (rig->verdicts)
        (void)cudaFree(rig->verdicts);
    if (rig->meeting)
        (void)cudaFree(rig->meeting);
    if (rig->stop)
        (void)cudaEventDestroy(rig->stop);
    if (rig->start)
        (void)cudaEventDestroy(rig->start);
    if (rig->stream)
        (void)cudaStreamDestroy(rig->stream);
    bb_nvtx_release(&rig->nvtx);
    bb_measure_release(rig);
    *rig = (struct bb_bench_context){0};
}

/* ---- report ---- */

static struct bb_results_device *device_rows(const struct bench *b)
{
    struct bb_results_device *rows = calloc((size_t)b->world.size, sizeof *rows);

    for (int r = 0; rows && r < b->world.size; r++) {
        rows[r].rank = r;
        snprintf(rows[r].host, sizeof rows[r].host, "%s", b->world.hosts[r]);
        snprintf(rows[r].name, sizeof rows[r].name, "%.*s", (int)sizeof rows[r].name - 1, b->devices[r].name);
        snprintf(rows[r].uuid, sizeof rows[r].uuid, "%.*s", (int)sizeof rows[r].uuid - 1, b->devices[r].uuid);
        snprintf(rows[r].pci, sizeof rows[r].pci, "%.*s", (int)sizeof rows[r].pci - 1, b->devices[r].pci);
    }
    return rows;
}

static int gather_pids(struct bench *b, int *pids)
{
    int own = getpid();

    return bb_world_allgather(&b->world, &own, pids, sizeof own);
}

/* What busbar's own schema has at its top besides the head. */
static int describe_run(struct bench *b)
{
    struct bb_results *json = b->report.json;
    int rc;

    TRY(bb_results_set(json, "options", bb_json_options(&bb_bench_set, &b->options)));
    TRY(bb_telemetry_stamp(&b->observer, json));
    TRY(bb_results_set(json, "registration", json_string(bb_registration_names[b->registration.kind])));
out:
    return rc;
}

static int open_report(struct bench *b, int argc, char **argv)
{
    const struct bb_common *common = &b->options.common;
    bool table = b->world.rank == 0 && !common->quiet && !(common->json && strcmp(common->json, "-") == 0);
    struct bb_report_head text = {
        .options = &b->options, .nccl_header = b->nccl_header, .nccl_runtime = b->nccl_runtime};
    struct bb_results_device *devices = device_rows(b);
    int *pids = calloc((size_t)b->world.size, sizeof *pids);
    struct bb_results_head json;
    int rc;

    if (!devices || !pids)
        return bb_err(BB_EFAIL, "no memory for the devices of %d ranks", b->world.size);
    bb_cuda_versions(&text.cuda_runtime, &text.cuda_driver);
    text.devices = devices;
    text.groups = b->groups;
    text.gpus = b->devices;
    TRY(gather_pids(b, pids));
    text.pids = pids;
    json = (struct bb_results_head){.schema = "busbar.bench/1",
                                    .path = common->json,
                                    .out = stdout,
                                    .argc = argc,
                                    .argv = argv,
                                    .nccl_header = text.nccl_header,
                                    .nccl_runtime = text.nccl_runtime,
                                    .cuda_runtime = text.cuda_runtime,
                                    .cuda_driver = text.cuda_driver,
                                    .devices = devices,
                                    .n_devices = b->world.size,
                                    .emulated = b->device.emulated,
                                    .shared_gpu = b->report.shared_gpu};
    b->report.rig = &b->rig;
    b->report.options = &b->options;
    b->report.memory = &b->memory;
    b->report.registration = &b->registration;
    b->report.out = table ? stdout : NULL;
    bb_progress_init(&b->progress, b->world.rank, common->quiet);
    if (b->report.style->json_root) {
        json.root = b->report.style->json_root(&b->report, &text, argc, argv);
        json.fresh = true;
    }
    rc = bb_results_open(&b->report.json, &json, &b->world);
    TRY(all_know(b, bb_world_agree(&b->world, rc, "opening the results")));
    if (b->report.json && !b->report.style->json_root)
        TRY(describe_run(b));
    bb_report_head(&b->report, &text);
out:
    free(devices);
    free(pids);
    return rc;
}

/* ---- the sweep ---- */

/* Which algorithm it was, where several are measured: " by TREE LL". */
static const char *algorithm_text(const struct bench *b, const struct bb_choice *choice, char text[48])
{
    text[0] = '\0';
    if (b->options.figures.sweep_algorithms && choice->kind == BB_CHOICE_COLLECTIVE)
        snprintf(text, 48, " by %s %s", choice->algorithm, choice->protocol);
    return text;
}

static void say_wrong(const struct bench *b, const struct bb_case *c, const struct bb_figures *f)
{
    int digits = 2 * bb_dtypes[c->dtype].bytes;
    const struct bb_wrong *w = &f->first;
    char what[128], how[48];

    if (b->comm.rank != 0)
        return;
    snprintf(what, sizeof what, "%s of %zu bytes %s%s", bb_colls[c->kind].name, f->bytes,
             c->in_place ? "in place" : "out of place", algorithm_text(b, &f->seen.choice, how));
    if (w->outside)
        bb_err(BB_EDATA, "wrong data: %s: %llu bytes outside of the receive area of rank %d overwritten", what,
               f->wrong, w->rank);
    else
        bb_err(BB_EDATA, "wrong data: %s: %llu wrong, first on rank %d element %llu: 0x%0*llx is not 0x%0*llx", what,
               f->wrong, w->rank, (unsigned long long)w->index, digits, (unsigned long long)w->got, digits,
               (unsigned long long)w->want);
}

static int measure_placement(struct bench *b, struct bb_row *row, int place)
{
    struct bb_case c = row->c;
    int rc;

    c.in_place = place == BB_IN_PLACE;
    row->measured[place] = row->wanted[place] && (b->sweep.overlapping || bb_case_possible(&c));
    if (!row->measured[place])
        return 0;
    rc = bb_measure(&b->rig, &c, &row->figures[place]);
    if (rc == 0 && row->figures[place].wrong > 0) {
        bb_progress_clear(&b->progress);
        say_wrong(b, &c, &row->figures[place]);
    }
    return rc;
}

static bool is_wrong(const struct bb_row *row)
{
    return row->figures[BB_OUT_OF_PLACE].wrong > 0 || row->figures[BB_IN_PLACE].wrong > 0;
}

/* The rows of all groups, in the order of their first ranks, reported by rank 0 and known by all. */
static int report_groups(struct bench *b, const struct bb_row *row)
{
    struct bb_row *all = calloc((size_t)b->world.size, sizeof *all);
    int rc;

    if (!all)
        return bb_err(BB_EFAIL, "no memory for the rows of %d ranks", b->world.size);
    TRY(bb_world_allgather(&b->world, row, all, sizeof *row));
    for (int r = 0; r < b->world.size; r++) {
        all[r].c.amounts = b->sweep.amounts;
        b->wrong = b->wrong || is_wrong(&all[r]);
        if (all[r].first)
            TRY(bb_report_row(&b->report, &all[r]));
    }
out:
    free(all);
    return rc;
}

static int measure_placements(void *arg, struct bb_row *row)
{
    struct bench *b = arg;
    int rc;

    bb_progress_show(&b->progress, "%s %zu bytes", bb_colls[row->c.kind].name, bb_case_bytes(&row->c));
    TRY(measure_placement(b, row, BB_OUT_OF_PLACE));
    TRY(measure_placement(b, row, BB_IN_PLACE));
    bb_progress_clear(&b->progress);
    b->wrong = b->wrong || is_wrong(row);
out:
    return rc;
}

static int report_row(void *arg, struct bb_row *row)
{
    struct bench *b = arg;

    return b->sweep.is_split ? report_groups(b, row) : bb_report_row(&b->report, row);
}

static int measure_row(void *arg, const struct bb_case *c)
{
    struct bench *b = arg;
    const struct bb_row_calls calls = {.measure = measure_placements, .report = report_row, .arg = b};
    struct bb_row row = {.c = *c,
                         .wanted = {[BB_OUT_OF_PLACE] = b->sweep.out_of_place, [BB_IN_PLACE] = b->sweep.in_place},
                         .group = b->groups[b->world.rank],
                         .first = b->comm.rank == 0};
    int rc;

    TRY(measure_placements(b, &row));
    TRY(report_row(b, &row));
    if (b->options.figures.sweep_algorithms)
        TRY(bb_algorithms_row(&b->algorithms, &row, &calls));
out:
    return rc;
}

static bool all_groups_can(const struct bench *b, int coll)
{
    for (int r = 0; r < b->world.size; r++)
        if (!bb_coll_possible((enum bb_coll_kind)coll, members_of(b, b->groups[r])))
            return false;
    return true;
}

/* A table: one collective in one mode. */
static int measure_table(struct bench *b, int coll)
{
    bool below;
    int rc = 0;

    bb_report_begin(&b->report, coll);
    rc = bb_sweep_each(&b->sweep, coll, b->comm.size, measure_row, b);
    if (rc == 0 && b->options.memory)
        rc = bb_device_free_bytes(&b->memory.free_at_end);
    if (rc != 0)
        return rc;
    if (b->options.figures.sweep_algorithms)
        TRY(bb_algorithms_table(&b->algorithms, b->report.out, b->report.json));
    below = b->world.rank == 0 && bb_report_end(&b->report, coll);
    rc = bb_world_bcast(&b->world, &below, sizeof below, 0);
    b->below = b->below || below;
out:
    return rc;
}

static int measure_collective(struct bench *b, int coll)
{
    int rc = 0;

    if (!all_groups_can(b, coll)) {
        bb_report_skip(&b->report, coll);
        return 0;
    }
    for (int i = 0; i < b->rig.n_modes && rc == 0; i++) {
        bb_measure_mode(&b->rig, b->rig.modes[i]);
        rc = measure_table(b, coll);
    }
    return rc;
}

/* cycles 0: until somebody ends it. */
static int run_sweep(struct bench *b)
{
    int rc = 0;

    for (int cycle = 0; rc == 0 && (b->options.cycles == 0 || cycle < b->options.cycles); cycle++) {
        b->report.cycle = b->algorithms.cycle = cycle;
        for (int i = 0; i < b->sweep.n_colls && rc == 0; i++)
            rc = measure_collective(b, b->sweep.colls[i]);
    }
    bb_progress_clear(&b->progress);
    return rc;
}

/* ---- start and end ---- */

/* How much memory each step takes, for the report. */
static int note_free(struct bench *b, size_t *free_bytes)
{
    return b->options.memory ? bb_device_free_bytes(free_bytes) : 0;
}

/* NCCL has made its communicator: now it is known whose tuner it took. */
static int check_tuner(struct bench *b)
{
    bool missing = b->options.figures.sweep_algorithms && b->comm.size > 1 && bb_tuner_attached() == 0;
    int rc = 0;

    if (missing)
        rc = bb_err(BB_EFAIL, "--sweep-algorithms: NCCL did not take up the program's tuner plugin (NCCL_DEBUG=INFO, "
                              "NCCL_DEBUG_SUBSYS=INIT,TUNING tells why)");
    return b->options.figures.sweep_algorithms ? all_know(b, bb_world_agree(&b->world, rc, "tuner plugin")) : 0;
}

static int run(struct bench *b, int argc, char **argv)
{
    int rc;

    TRY(setup_ranks(b));
    TRY(check_memory(b));
    TRY(note_free(b, &b->memory.free_at_start));
    TRY(make_comm(b));
    TRY(check_tuner(b));
    TRY(note_free(b, &b->memory.free_after_init));
    TRY(check_memory(b));
    TRY(make_rig(b));
    TRY(note_free(b, &b->memory.free_after_buffers));
    TRY(open_report(b, argc, argv));
    TRY(run_sweep(b));
    TRY(bb_report_close(&b->report));
    rc = all_know(b, b->wrong ? -BB_EDATA : b->below ? -BB_EBELOW : 0);
out:
    return rc;
}

/* The end that all ranks come to: what they share is taken down in order. */
static int end_in_order(struct bench *b)
{
    bb_registration_release(&b->registration, &b->rig.arena, &b->comm);
    release_rig(&b->rig);
    bb_iteration_events_release(&b->marks);
    bb_mulsums_release(&b->mulsums, &b->comm);
    return bb_comm_finalize(&b->comm);
}

int bb_bench_execute(const struct bb_bench_options *o, const struct bb_sweep *sweep,
                     const struct bb_report_style *style, int argc, char **argv)
{
    struct bench b = {.options = *o, .sweep = *sweep, .report = {.style = style}};
    int rc, end_rc;

    rc = run(&b, argc, argv);
    rc = bb_results_close(b.report.json, rc);
    if (rc == 0 || b.together) {
        end_rc = end_in_order(&b);
        end_rc = bb_world_release(&b.world, end_rc);
    } else {
        end_rc = bb_world_release(&b.world, rc);
    }
    bb_telemetry_release(&b.observer);
    free(b.devices);
    free(b.groups);
    free(b.delays_us);
    bb_algorithms_release(&b.algorithms);
    bb_bench_release_sweep(&b.sweep);
    return rc ? rc : end_rc;
}

int bb_bench_run(int argc, char **argv)
{
    struct bb_bench_options options = {0}; /* what no option fills, too */
    struct bb_sweep sweep;
    int rc = bb_bench_parse(&options, &sweep, argc, argv, stdout);

    return rc ? rc : bb_bench_execute(&options, &sweep, &bb_report_bench, argc, argv);
}
