/* nccl_tests.c - runs busbar under the name of an nccl-tests program, such as all_reduce_perf: prints the table and
 * footer of nccl-tests. */
#include "bootstrap/cli/report_header.h"
#include "collectives/nccl_tests/nccl_tests_json.h"
#include "collectives/nccl_tests/nccl_tests_options.h"
#include "collectives/sweep/bench_report.h"

#include <stdio.h>
#include <stdlib.h>

static void print_devices(const struct bb_report *r)
{
    fprintf(r->out, "#\n# Using devices\n");
    for (int i = 0; i < r->ctx->world->size; i++) {
        const struct bb_device_info *d = &r->session->devices[i];
        fprintf(r->out, "#  Rank %2d Group %2d Pid %6d on %10s device %2d [%.10s] %s\n", i, r->groups[i], r->pids[i],
                r->ctx->world->hosts[i], d->ordinal, d->pci, d->name);
    }
}

static void print_head(const struct bb_report *r)
{
    const struct bb_bench_options *o = r->options;
    const char *json = bb_results_path(r->session->json);

    fprintf(r->out, "# busbar version %s nccl-headers=%d nccl-library=%d\n", BUSBAR_VERSION, r->session->nccl_header,
            r->session->nccl_runtime);
    fprintf(r->out, "# Collective test starting: %s\n", r->style->program);
    fprintf(r->out, "# nThread %d nGpus %d minBytes %zu maxBytes %zu step: ", r->style->threads, r->style->gpus,
            o->min_bytes, o->max_bytes);
    if (o->factor > 1)
        fprintf(r->out, "%g(factor)", o->factor);
    else
        fprintf(r->out, "%zu(bytes)", o->step_bytes);
    fprintf(r->out, " warmup iters: %d iters: %d agg iters: %d validation: %d graph: %d unalign: %d\n", o->warmup,
            o->iterations, o->aggregate, o->checks, o->graph_launches, o->unalign);
    fprintf(r->out, "# time: %s (%s mode), %s\n", bb_bench_context_method(r->ctx), bb_bench_context_mode(r->ctx),
            bb_rank_aggregation_names[r->ctx->rank_aggregation]);
    if (r->style->gpus > 1)
        fprintf(r->out,
                "# -g %d: a process for each GPU; nccl-tests enqueues on %d GPUs from one thread, so its times below "
                "about 1 MiB are longer\n",
                r->style->gpus, r->style->gpus);
    if (o->blocking != BB_BLOCK_NONE) /* as nccl-tests, for readers of the log */
        fprintf(r->out, "# Blocking Enabled: wait for completion and barrier after each collective \n");
    if (o->checks == 0 || !bb_session_moves_data(r->session))
        fprintf(r->out, "# not verified (%s)\n", o->checks == 0 ? "-c 0" : "EMU_DATA=off");
    if (o->checks > 0 && !bb_session_moves_data(r->session))
        bb_warn("\"Out of bounds values : 0 OK\" is no result: EMU_DATA=off moves no data, so nothing is verified");
    bb_report_emulated_note(r);
    if (r->session->shared_gpu)
        fprintf(r->out, "# %s\n", bb_session_sharing_note(r->session));
    print_devices(r);
    if (json)
        fprintf(r->out, "# Writing JSON output to %s\n", json);
}

/* Prints the lines above a table row: for each placement (out of place, in place), the bytes that each rank sends
 * and receives, and each rank's bandwidths. */
static void print_summary(const struct bb_report *r, const struct bb_row *row)
{
    const struct bb_case *c = &row->c;
    size_t bytes = bb_dtypes[c->dtype].bytes;

    for (int placement = 0; placement < BB_PLACEMENTS; placement++) {
        double us = row->metrics[placement].time_us.p50;

        if (!row->measured[placement])
            continue;
        fprintf(r->out, "# NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY: mode=%s nranks=%d ",
                c->alltoallv_counts->bytes ? "matrix" : "generated", c->ranks);
        if (c->alltoallv_counts->bytes)
            fprintf(r->out, "matrix_dim=%d scale=%.3f", c->alltoallv_counts->n, r->options->matrix_scale);
        else
            fprintf(r->out, "total_bytes=%zu spread=%.3f", c->count * (size_t)c->ranks * bytes,
                    c->alltoallv_counts->imbalance);
        fprintf(r->out, " time_usec=%.2f\n", us);
        for (int rank = 0; rank < c->ranks; rank++) {
            size_t sent = bytes * bb_alltoallv_counts_sent(c->alltoallv_counts, c->count, bytes, c->ranks, rank);
            size_t received =
                bytes * bb_alltoallv_counts_received(c->alltoallv_counts, c->count, bytes, c->ranks, rank);
            double algbw = (double)(sent > received ? sent : received) / us / 1e3;
            fprintf(r->out, "#   rank=%d send_bytes=%zu recv_bytes=%zu alg_bw=%.2f bus_bw=%.2f\n", rank, sent, received,
                    algbw, algbw * (c->ranks - 1) / c->ranks);
        }
    }
}

int bb_nccl_tests_run(int argc, char **argv)
{
    const int kind = bb_nccl_tests_kind(argv[0]);
    const char *summary = getenv("NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY");
    char program[32];
    struct bb_nccl_tests_options o = {0}; /* zero-initialized, because some fields are not set by any option */
    const struct bb_positionals collective = {.word = {bb_colls[kind].name}, .n = 1};
    struct bb_report_style style = {.widths = (const int[]){7, 6},
                                    .program = program,
                                    .head = print_head,
                                    .before_row =
                                        kind == BB_ALLTOALLV && summary && atoi(summary) != 0 ? print_summary : NULL,
                                    .json_root = bb_nccl_tests_json_root,
                                    .json_row = bb_nccl_tests_json_row,
                                    .json_end = bb_nccl_tests_json_end};
    struct bb_sweep sweep;
    int rc;

    TRY(bb_nccl_tests_parse(&o, argc, argv));
    TRY(bb_bench_resolve(&o.bench, &sweep, &collective));
    snprintf(program, sizeof program, "%s" BB_NCCL_TESTS_SUFFIX, bb_colls[kind].name);
    style.threads = o.threads;
    style.gpus = o.gpus;
    sweep.overlapping = true; /* as in nccl-tests, in-place cases that overwrite their own input are timed but not
                                 verified */
    sweep.alltoallv_counts.nccl_tests = true;
    o.bench.fit_memory = true;
    rc = bb_bench_execute(&o.bench, &sweep, &style, argc, argv);
out:
    return rc;
}
