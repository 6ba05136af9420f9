/*
 * bench_compute.c - ranks, devices and memory of `busbar bench compute`. One rank without mpirun is enough;
 * with more, all measure at once and the slowest rank's figures are shown.
 */
#include "collectives/compute/compute_sections.h"
#include "cuda/data/buffers.h"

#include <stdlib.h>
#include <string.h>

/* ---- the run ---- */

static size_t larger_of(size_t a, size_t b)
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
            bytes = larger_of(bytes, bb_gemm_case_bytes(&gemms[i].shape));
        for (int i = 0; b->options.wanted[BB_COMPUTE_PASSES] && bb_compute_type_wanted(b, t) &&
                        bb_compute_pass(i, bb_compute_types[t], b->options.bytes, &c);
             i++)
            bytes = larger_of(bytes, bb_pass_case_bytes(&c.pass));
    }
    return bytes;
}

/* ---- start and end ---- */

static void print_head(const struct bb_compute *b)
{
    const struct bb_session *s = &b->session;
    const struct bb_device_info *d = &s->device;

    if (!s->out)
        return;
    fprintf(s->out, "# busbar %s  bench compute: %d rank%s, %s, %d SMs%s\n", BUSBAR_VERSION, s->world.size,
            s->world.size == 1 ? "" : "s (the slowest counts)", d->name, d->sm_count,
            s->shared_gpu ? "; ranks share a GPU: times mean nothing" : "");
    fprintf(s->out, "# time: %d operations back to back between CUDA events, divided by %d; of %d samples the median\n",
            b->options.iterations, b->options.iterations, b->options.repeats);
    if (d->emulated)
        fprintf(s->out, "# emulated GPUs: all times come from a model, none is a measurement of hardware\n");
}

/* Emulated GPUs really multiply, on the CPU; whoever only wants the times is told how. */
static void warn_of_emulation(const struct bb_compute *b)
{
    const char *data = getenv("EMU_DATA");

    if (b->session.device.emulated && !b->options.quick && b->session.world.rank == 0 &&
        !(data && strcmp(data, "off") == 0))
        bb_warn(
            "emulated GPUs compute on the CPU, which takes very long: give --quick, or EMU_DATA=off for times alone");
}

static int run_compute(struct bb_compute *b, int argc, char **argv)
{
    const struct bb_results_head head = {.schema = "busbar.bench/1", .argc = argc, .argv = argv};
    const struct bb_bench_compute_options *o = &b->options;
    struct bb_session *s = &b->session;
    int rc;

    TRY(bb_session_begin(s, &o->common));
    TRY(bb_session_gpus(s, BB_SESSION_GPUS, 0));
    TRY(bb_session_memory(s, arena_bytes(b) + BB_GEMM_WORKSPACE,
                          "lower --size, name one type with -d, or use --quick"));
    TRY(bb_compute_context_init(&b->ctx, &s->world, &s->device, arena_bytes(b), o->iterations, o->repeats, o->warmup));
    b->ctx.candidates = o->candidates;
    TRY(bb_session_open(s, &head, NULL, NULL));
    warn_of_emulation(b);
    print_head(b);
    TRY(bb_compute_run(b));
out:
    return rc;
}

int bb_bench_compute_run(int argc, char **argv)
{
    struct bb_compute b = {0};
    int rc = bb_opts_read(&bb_bench_compute_set, &b.options, argc - 1, argv + 1);

    if (rc != 0)
        return rc;
    rc = bb_session_close(&b.session, run_compute(&b, argc, argv));
    if (bb_session_in_order(&b.session, rc))
        bb_compute_context_release(&b.ctx);
    return bb_session_release(&b.session, rc, 0);
}
