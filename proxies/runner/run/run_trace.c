/* run_trace.c - collects the operation times of a traced step from all ranks for the trace file (see run_report.h). */
#include "proxies/runner/run/run_report.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/base/outfile.h"
#include "proxies/simulation/timeline/timeline.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/param.h>

#define CHUNK_BYTES ((size_t)16 << 20)

/* ---- operation times on this rank ---- */

/* Copies the times of each lane (operations that one host call launches on one stream) to each of its operations. */
static void copy_lane_times(const struct bb_runner *r, const struct bb_traced_step *trace, struct bb_timed_op *ops)
{
    for (int i = 0; i < r->n_lanes; i++) {
        const struct bb_batch *batch = &r->batches[r->lanes[i].batch];

        for (int k = batch->first; k < batch->first + batch->n; k++)
            if (r->program->ops[k].stream == r->lanes[i].stream)
                ops[k] = trace->lanes[i];
    }
}

/* ---- collecting the times of all ranks ---- */

struct scalars {
    int64_t step_ns;
    double start_sync_us;
};

static int gather_scalars(struct bb_runner *r, const struct bb_measured *m, struct bb_timeline *t)
{
    const struct scalars own = {m->last.step_ns, m->last.start_sync_us};
    int rc;
    struct scalars *all = bb_world_gather(r->world, &own, sizeof(own), &rc);

    if (!all)
        return rc;
    for (int i = 0; i < r->world->size; i++)
        t->clock_error_us = fmax(t->clock_error_us, all[i].start_sync_us);
    for (int i = 0; i < t->n; i++)
        t->step_ns[i] = all[t->ranks[i]].step_ns;
    free(all);
    return 0;
}

/* Gathers the operation times of all ranks in chunks of at most CHUNK_BYTES and stores those of the shown ranks. */
static int gather_ops(struct bb_runner *r, const struct bb_traced_step *trace, struct bb_timeline *t)
{
    size_t max = 0, ranks = (size_t)r->world->size, chunk = CHUNK_BYTES / sizeof(struct bb_timed_op) / ranks;
    struct bb_timed_op *own, *all;
    int rc = 0;

    for (int i = 0; i < t->step->n_roles; i++)
        max = MAX(max, t->step->roles[i].program.n_ops);
    chunk = MAX(1, MIN(chunk, max));
    BB_NEW(own, max + chunk);
    BB_NEW(all, chunk * ranks);
    copy_lane_times(r, trace, own);
    for (size_t first = 0; first < max; first += chunk) {
        TRY(bb_world_allgather(r->world, own + first, all, chunk * sizeof(*own)));
        for (int i = 0; i < t->n; i++) {
            const size_t n_ops = bb_step_program(t->step, t->ranks[i])->n_ops;

            for (size_t k = first; k < first + chunk && k < n_ops; k++)
                t->ops[i][k] = all[(size_t)t->ranks[i] * chunk + (k - first)];
        }
    }
out:
    free(own);
    free(all);
    return rc;
}

static int save_timeline(const struct bb_timeline *t, const char *path)
{
    struct bb_outfile file;
    int rc = bb_outfile_open(&file, path, "the trace");

    if (rc)
        return rc;
    bb_timeline_write(t, file.out);
    return bb_outfile_close(&file, "the trace", 0);
}

int bb_run_timeline_gather(struct bb_runner *r, const struct bb_step *step, const struct bb_measured *m,
                           struct bb_timeline *t)
{
    int slowest = bb_slowest_rank(m, step, BB_NONE), rc;

    bb_timeline_init(t, step, &slowest, 1);
    TRY(gather_scalars(r, m, t));
    TRY(gather_ops(r, &m->last, t));
out:
    return rc;
}

int bb_run_trace_save(struct bb_runner *r, const struct bb_step *step, const struct bb_measured *m,
                      const struct bb_device_info *devices, const char *path, struct bb_critical_path *critical,
                      int *unsaved)
{
    struct bb_timeline t = {0};
    int rc = bb_run_timeline_gather(r, step, m, &t);

    TRY(rc);
    t.source = devices[0].emulated ? "emulated: modelled, no measurement of hardware" : "measured";
    t.clock =
        "time zero of each rank is the end of a one-element all_reduce over all ranks, on this rank's GPU, before the "
        "step; no rank can finish the all_reduce before all ranks have started it, so the time zeros differ by at most "
        "the duration of the all_reduce";
    for (int i = 0; i < t.n; i++)
        snprintf(t.location[i], sizeof(t.location[i]), "%.40s gpu %d", r->world->hosts[t.ranks[i]],
                 devices[t.ranks[i]].ordinal);
    if (r->world->rank == 0)
        bb_critical_path_init(critical, &t, NULL);
    t.critical = critical;
    *unsaved = bb_world_agree(r->world, r->world->rank == 0 ? save_timeline(&t, path) : 0, "the trace");
out:
    bb_timeline_release(&t);
    return rc;
}
