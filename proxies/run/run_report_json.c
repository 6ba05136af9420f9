/* run_report_json.c - the fields of busbar.proxy/1 that a run adds to those of its plan (run_report.h). */
#include "proxies/run/run_report.h"

#include <math.h>

static json_t *breakdown_json(const struct bb_run_report *r, int rank)
{
    const struct bb_rank_breakdown *f = &r->measured->traced[rank];

    return json_pack("{s:i, s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "rank", rank, "role",
                     r->step->roles[r->step->role_of[rank]].name, "step_us", bb_json_real(f->step_us), "compute_us",
                     bb_json_real(f->compute_us), "comm_us", bb_json_real(f->comm_us), "exposed_us",
                     bb_json_real(f->exposed_us), "idle_us", bb_json_real(f->idle_us), "overlap_fraction",
                     bb_json_real(bb_hidden_fraction(f)));
}

/* What group g did on a rank; NULL when it did nothing there. */
static json_t *group_json(const struct bb_run_report *r, int rank, int group, const struct bb_group_work *work)
{
    const struct bb_group_breakdown *g = &r->measured->traced[rank].groups[group];

    if (work[group].calls == 0)
        return NULL;
    return json_pack("{s:s, s:I, s:I, s:o, s:o, s:o, s:o, s:o}", "name", r->step->layout.groups[group].name, "calls",
                     (json_int_t)work[group].calls, "bytes", (json_int_t)work[group].bytes, "busy_us",
                     bb_json_real(g->busy_us), "exposed_us", bb_json_real(g->exposed_us), "transfer_us",
                     bb_json_real(g->transfer_us), "waiting_us", bb_json_real(g->waiting_us), "busbw_gbps",
                     bb_json_real(bb_run_report_busbw(r, rank, group, work)));
}

static json_t *groups_json(const struct bb_run_report *r, int rank)
{
    struct bb_group_work work[BB_MAX_GROUPS];
    json_t *list = json_array(), *one;

    bb_group_works(&r->step->layout, bb_step_program(r->step, rank), work);
    for (int g = 0; g < r->step->layout.n_groups; g++)
        if ((one = group_json(r, rank, g, work)))
            json_array_append_new(list, one);
    return list;
}

static json_t *roles_json(const struct bb_run_report *r)
{
    json_t *list = json_array();

    for (int i = 0; i < r->step->n_roles; i++) {
        int rank = bb_run_report_slowest(r, i);
        json_t *row = rank == BB_NONE ? NULL : breakdown_json(r, rank);

        if (!row)
            continue;
        json_object_set_new(row, "groups", groups_json(r, rank));
        json_array_append_new(list, row);
    }
    return list;
}

/* Adds the figures of the slowest rank to the plan's groups of the same name; null for a group it has no traffic in. */
static void merge_groups(const struct bb_run_report *r, int rank, json_t *groups)
{
    static const char *const keys[] = {"calls",       "bytes",      "busy_us",   "exposed_us",
                                       "transfer_us", "waiting_us", "busbw_gbps"};
    json_t *figures = groups_json(r, rank), *planned, *one;
    size_t i, k;

    json_array_foreach(groups, i, planned)
    {
        json_array_foreach(figures, k, one)
        {
            if (json_equal(json_object_get(planned, "name"), json_object_get(one, "name")))
                json_object_update_missing(planned, one);
        }
        for (k = 0; k < sizeof(keys) / sizeof(keys[0]); k++)
            if (!json_object_get(planned, keys[k]))
                json_object_set_new(planned, keys[k], json_null());
    }
    json_decref(figures);
}

static json_t *overlap_json(const struct bb_run_report *r, int rank)
{
    const struct bb_measured *m = r->measured;
    struct bb_cost c = bb_run_report_cost(r, rank);

    if (!m->alone)
        return json_null();
    return json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:{s:o, s:o, s:o, s:o}}", "compute_alone_us", bb_json_real(m->compute_alone_us),
        "comm_alone_us", bb_json_real(m->comm_alone_us), "both_us", bb_json_real(m->step.p50), "overlap_efficiency",
        bb_json_real(bb_overlap_efficiency(m->compute_alone_us, m->comm_alone_us, m->step.p50)), "compute_slowdown",
        bb_json_real(c.compute_slowdown), "comm_slowdown", bb_json_real(c.comm_slowdown), "lost_to_comm", "total_us",
        bb_json_real(c.total_us), "exposed_us", bb_json_real(c.exposed_us), "slowdown_us", bb_json_real(c.slowdown_us),
        "waiting_us", bb_json_real(c.waiting_us));
}

static json_t *graph_json(const struct bb_measured *m)
{
    if (!m->graphed)
        return json_null();
    return json_pack("{s:o, s:o, s:o, s:o}", "step_us", bb_json_stats(&m->graph_step), "issue_us",
                     bb_json_stats(&m->graph_issue), "capture_ms", bb_json_real(m->capture_ms), "step_ratio",
                     bb_json_real(m->graph_step.p50 / m->step.p50));
}

json_t *bb_run_report_row(const struct bb_run_report *r, const char *proxy)
{
    json_t *row = json_pack("{s:s, s:b}", "proxy", proxy, "fits", r->step != NULL);
    int rank;

    if (!row || !r->step)
        return row;
    rank = bb_run_report_slowest(r, BB_NONE);
    json_object_set_new(row, "summary", json_string(r->step->summary ? r->step->summary : ""));
    json_object_set_new(row, "step_us", bb_json_stats(&r->measured->step));
    json_object_set_new(row, "graph", graph_json(r->measured));
    json_object_set_new(row, "breakdown", rank == BB_NONE ? json_null() : breakdown_json(r, rank));
    json_object_set_new(row, "wrong", r->checked ? json_integer((json_int_t)r->wrong) : json_null());
    return row;
}

static int set_traced(const struct bb_run_report *r, struct bb_results *res, json_t *groups)
{
    int rank = bb_run_report_slowest(r, BB_NONE), rc;

    if (rank == BB_NONE) {
        json_decref(groups);
        TRY(bb_results_set(res, "breakdown", json_null()));
        return bb_results_set(res, "breakdown_by_role", json_null());
    }
    merge_groups(r, rank, groups);
    TRY(bb_results_set(res, "groups", groups));
    TRY(bb_results_set(res, "breakdown", breakdown_json(r, rank)));
    TRY(bb_results_set(res, "breakdown_by_role", roles_json(r)));
out:
    return rc;
}

int bb_run_report_json(const struct bb_run_report *r, struct bb_results *res, json_t *groups)
{
    const struct bb_measured *m = r->measured;
    int rc;

    TRY(bb_results_set(res, "warmup_steps", json_integer(r->plan->warmup)));
    TRY(bb_results_set(res, "steps", json_integer(m->steps)));
    TRY(bb_results_set(res, "traced_steps", json_integer(m->traced_steps)));
    TRY(bb_results_set(res, "step_us", bb_json_stats(&m->step)));
    TRY(bb_results_set(res, "issue_us", bb_json_stats(&m->issue)));
    TRY(bb_results_set(res, "communicators", json_string("blocking")));
    TRY(bb_results_set(res, "traced_step_us", m->traced ? bb_json_stats(&m->traced_step) : json_null()));
    TRY(bb_results_set(res, "traced_issue_us", m->traced ? bb_json_stats(&m->traced_issue) : json_null()));
    TRY(bb_results_set(res, "graph", graph_json(m)));
    TRY(bb_results_set(res, "samples_per_s",
                       bb_json_real(r->step->samples > 0 ? r->step->samples / (m->step.p50 / 1e6) : NAN)));
    TRY(bb_results_set(res, "tokens_per_s",
                       bb_json_real(r->step->tokens > 0 ? r->step->tokens / (m->step.p50 / 1e6) : NAN)));
    TRY(bb_results_set(res, "model_flops", bb_json_real(bb_run_report_flops(r))));
    TRY(bb_results_set(res, "peak_tflops", bb_json_real(r->peak_tflops > 0 ? r->peak_tflops : NAN)));
    TRY(bb_results_set(res, "model_flop_utilisation", bb_json_real(bb_run_report_utilisation(r, m->step.p50))));
    TRY(set_traced(r, res, groups));
    TRY(bb_results_set(res, "overlap", overlap_json(r, bb_run_report_slowest(r, BB_NONE))));
    TRY(bb_results_set(res, "check",
                       json_pack("{s:b, s:o}", "enabled", r->checked, "wrong",
                                 r->checked ? json_integer((json_int_t)r->wrong) : json_null())));
out:
    return rc;
}
