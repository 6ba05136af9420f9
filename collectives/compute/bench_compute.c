/*
 * bench_compute.c - ranks, devices and memory of `busbar bench compute`. One rank without mpirun is enough;
 * with more, all measure at once and the slowest rank's figures are shown.
 */
#include "collectives/compute/compute_sections.h"
#include "cuda/data/buffers.h"

#include <stdlib.h>
#include <string.h>

/* ---- the run ---- */

static size_t most(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* The arena: what the largest case needs; the timed kernel's traffic wants more than a cache. */
static size_t arena_bytes(const struct bb_compute *b)
{
    struct bb_gemm_case gemms[BB_COMPUTE_GEMMS];
    struct bb_pass_case c;
    size_t bytes = b->options.bytes + (1 << 20);

    for (int t = 0; t < BB_COMPUTE_TYPES; t++) {
        int n = b->options.wanted[BB_COMPUTE_GEMM] && bb_compute_type_wanted(b, t)
                    ? bb_compute_gemms(bb_compute_types[t], b->options.quick, gemms)
                    : 0;
        for (int i = 0; i < n; i++)
            bytes = most(bytes, bb_gemm_case_bytes(&gemms[i].shape));
        for (int i = 0; b->options.wanted[BB_COMPUTE_PASSES] && bb_compute_type_wanted(b, t) &&
                        bb_compute_pass(i, bb_compute_types[t], b->options.bytes, &c);
             i++)
            bytes = most(bytes, bb_pass_case_bytes(&c.pass));
    }
    return bytes;
}

/* ---- start and end ---- */

static int choose_device(struct bb_compute *b)
{
    const struct bb_world *w = &b->world;
    int rc = bb_device_choose(w->local_rank, w->local_size, b->options.common.share_gpu, &b->device);

    TRY(bb_world_agree(&b->world, rc, "choice of GPUs"));
    bb_err_identify(w->rank, w->host, b->device.ordinal);
    b->devices = calloc((size_t)w->size, sizeof *b->devices);
    if (!b->devices)
        return bb_err(BB_EFAIL, "no memory for the devices of %d ranks", w->size);
    TRY(bb_world_allgather(&b->world, &b->device, b->devices, sizeof b->device));
    b->shared_gpu = bb_device_shared(b->devices, w->size);
out:
    return rc;
}

static int check_memory(struct bb_compute *b, size_t bytes)
{
    int rc = bb_memory_fits(bytes + BB_GEMM_WORKSPACE, "lower --size, name one type with -d, or use --quick");

    return bb_world_agree(&b->world, rc, "memory check");
}

static int open_results(struct bb_compute *b, int argc, char **argv)
{
    const struct bb_common *common = &b->options.common;
    struct bb_results_device *devices = calloc((size_t)b->world.size, sizeof *devices);
    struct bb_results_head head = {.schema = "busbar.bench/1", .path = common->json, .out = stdout, .argc = argc};
    int rc;

    if (!devices)
        return bb_err(BB_EFAIL, "no memory for the devices of %d ranks", b->world.size);
    for (int r = 0; r < b->world.size; r++) {
        const struct bb_device_info *d = &b->devices[r];
        devices[r].rank = r;
        snprintf(devices[r].host, sizeof devices[r].host, "%s", b->world.hosts[r]);
        snprintf(devices[r].name, sizeof devices[r].name, "%.*s", (int)sizeof devices[r].name - 1, d->name);
        snprintf(devices[r].uuid, sizeof devices[r].uuid, "%.*s", (int)sizeof devices[r].uuid - 1, d->uuid);
        snprintf(devices[r].pci, sizeof devices[r].pci, "%.*s", (int)sizeof devices[r].pci - 1, d->pci);
    }
    bb_cuda_versions(&head.cuda_runtime, &head.cuda_driver);
    head.argv = argv;
    head.devices = devices;
    head.n_devices = b->world.size;
    head.emulated = b->device.emulated;
    head.shared_gpu = b->shared_gpu;
    rc = bb_results_open(&b->json, &head, &b->world);
    free(devices);
    return rc;
}

static void print_head(const struct bb_compute *b)
{
    const struct bb_device_info *d = &b->device;

    if (!b->out)
        return;
    fprintf(b->out, "# busbar %s  bench compute: %d rank%s, %s, %d SMs%s\n", BUSBAR_VERSION, b->world.size,
            b->world.size == 1 ? "" : "s (the slowest counts)", d->name, d->sm_count,
            b->shared_gpu ? "; ranks share a GPU: times mean nothing" : "");
    fprintf(b->out, "# time: %d operations back to back between CUDA events, divided by %d; of %d samples the median\n",
            b->options.iterations, b->options.iterations, b->options.repeats);
    if (d->emulated)
        fprintf(b->out, "# emulated GPUs: all times come from a model, none is a measurement of hardware\n");
}

/* Emulated GPUs really multiply, on the CPU; whoever only wants the times is told how. */
static void warn_of_emulation(const struct bb_compute *b)
{
    const char *data = getenv("EMU_DATA");

    if (b->device.emulated && !b->options.quick && b->world.rank == 0 && !(data && strcmp(data, "off") == 0))
        bb_warn(
            "emulated GPUs compute on the CPU, which takes very long: give --quick, or EMU_DATA=off for times alone");
}

static int run(struct bb_compute *b, int argc, char **argv)
{
    const struct bb_bench_compute_options *o = &b->options;
    const bool to_stdout = o->common.json && strcmp(o->common.json, "-") == 0;
    int rc;

    TRY(bb_world_init(&b->world, o->common.timeout_s));
    TRY(choose_device(b));
    TRY(check_memory(b, arena_bytes(b)));
    TRY(bb_compute_context_init(&b->rig, &b->world, &b->device, arena_bytes(b), o->iterations, o->repeats, o->warmup));
    b->rig.candidates = o->candidates;
    b->out = b->world.rank == 0 && !o->common.quiet && !to_stdout ? stdout : NULL;
    bb_progress_init(&b->progress, b->world.rank, o->common.quiet);
    TRY(open_results(b, argc, argv));
    warn_of_emulation(b);
    print_head(b);
    TRY(bb_compute_run(b));
out:
    return rc;
}

/* Refusals and judgements are known to all ranks: they end in order, without an abort. */
static bool ends_together(int rc)
{
    return rc >= 0 || rc == -BB_EUSAGE || rc == -BB_EBELOW;
}

int bb_bench_compute_run(int argc, char **argv)
{
    struct bb_compute b = {0};
    int rc = bb_bench_compute_parse(&b.options, argc, argv), end_rc;

    if (rc != 0)
        return rc;
    rc = run(&b, argc, argv);
    rc = bb_results_close(b.json, rc);
    if (ends_together(rc))
        bb_compute_context_release(&b.rig);
    end_rc = bb_world_release(&b.world, ends_together(rc) ? 0 : rc);
    free(b.devices);
    return rc ? rc : end_rc;
}
