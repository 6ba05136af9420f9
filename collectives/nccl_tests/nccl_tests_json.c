/* nccl_tests_json.c - see nccl_tests_json.h. The JSON keys are those of nccl-tests. */
#include "collectives/nccl_tests/nccl_tests_json.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/base/stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_VERSION = 3 };

/* Returns the string that nccl-tests writes for a boolean. */
static json_t *bool_word(bool value)
{
    return json_string(value ? "true" : "false");
}

static json_t *stamp_json(void)
{
    char text[BB_STAMP_TEXT];

    bb_report_stamp(text);
    return json_string(text);
}

/* ---- beginning of the document ---- */

/* Returns the environment variables as a list of strings "NAME=value". */
static json_t *environment_json(void)
{
    json_t *object = bb_json_environment(), *list = json_array(), *value;
    const char *name;

    json_object_foreach(object, name, value)
        json_array_append_new(list, json_sprintf("%s=%s", name, json_string_value(value)));
    json_decref(object);
    return list;
}

static json_t *devices_json(const struct bb_report *r)
{
    json_t *list = json_array();
    char pci[16];

    for (int i = 0; i < r->ctx->world->size; i++) {
        const struct bb_device_info *d = &r->session->devices[i];
        snprintf(pci, sizeof pci, "%.10s", d->pci);
        json_array_append_new(list, json_pack("{s:i, s:i, s:i, s:s, s:i, s:s, s:s}", "rank", i, "group", r->groups[i],
                                              "pid", r->pids[i], "hostname", r->ctx->world->hosts[i], "device",
                                              d->ordinal, "device_hex", pci, "device_info", d->name));
    }
    return list;
}

static void add_step(json_t *config, const struct bb_bench_options *o)
{
    bool whole = o->factor == floor(o->factor);

    if (o->factor > 1)
        json_object_set_new(config, "step_factor", whole ? json_integer((json_int_t)o->factor) : json_real(o->factor));
    else
        json_object_set_new(config, "step_bytes", json_integer((json_int_t)o->step_bytes));
}

static json_t *config_json(const struct bb_report *r)
{
    const struct bb_bench_options *o = r->options;
    json_t *config = json_pack("{s:i, s:i, s:I, s:I}", "nthreads", r->style->threads, "ngpus", r->style->gpus,
                               "minimum_bytes", (json_int_t)o->min_bytes, "maximum_bytes", (json_int_t)o->max_bytes);

    add_step(config, o);
    json_object_set_new(config, "warmup_iters", json_integer(o->warmup));
    json_object_set_new(config, "iterations", json_integer(o->iterations));
    json_object_set_new(config, "aggregated_iterations", json_integer(o->aggregate));
    json_object_set_new(config, "validation", json_integer(o->checks));
    json_object_set_new(config, "graph", json_integer(o->graph_launches));
    json_object_set_new(config, "blocking_collectives", bool_word(o->blocking != 0));
    json_object_set_new(config, "per_iter_timing", bool_word(o->per_iteration != 0));
    json_object_set_new(config, "per_iter_skip", json_integer(o->skipped));
    json_object_set_new(config, "parallel_init", bool_word(false));
    json_object_set_new(config, "devices", devices_json(r));
    return config;
}

/* Adds the keys "emulated", "shared_gpu" and "process_per_gpu" if they apply. nccl-tests lacks these keys, but readers
 * must know whether the times are meaningful and comparable. */
static json_t *add_flags(const struct bb_report *r, json_t *root)
{
    if (r->ctx->device->emulated)
        json_object_set_new(root, "emulated", json_true());
    if (r->session->shared_gpu)
        json_object_set_new(root, "shared_gpu", json_true());
    if (r->style->gpus > 1)
        json_object_set_new(root, "process_per_gpu", json_true());
    return root;
}

json_t *bb_nccl_tests_json_root(const struct bb_report *r, int argc, char **argv)
{
    json_t *root = json_pack("{s:i, s:o, s:o, s:o, s:i, s:o, s:o}", "version", FILE_VERSION, "start_time", stamp_json(),
                             "args", bb_json_words(argc, argv), "env", environment_json(), "nccl_version",
                             r->session->nccl_runtime, "config", config_json(r), "results", json_array());

    return add_flags(r, root);
}

/* ---- results: one per table row ---- */

static json_t *number_json(double value)
{
    return json_real(isfinite(value) ? value : 0);
}

static json_t *result_json(const struct bb_report *r, const struct bb_row *row, int placement)
{
    const struct bb_metrics *f = &row->metrics[placement];

    if (!row->measured[placement])
        return json_null();
    return json_pack("{s:o, s:o, s:o, s:o}", r->ctx->host_time ? "cpu_time" : "time", number_json(f->time_us.p50),
                     "alg_bw", number_json(f->algbw_gbps), "bus_bw", number_json(f->busbw_gbps), "nwrong",
                     f->checked ? json_real((double)f->wrong) : json_null());
}

static json_t *times_json(const double *us, int n)
{
    json_t *list = json_array();

    for (int i = 0; i < n; i++)
        json_array_append_new(list, number_json(us[i]));
    return list;
}

/* Returns a percentile by the nearest-rank method, with which nccl-tests computes the 95th and 99th percentiles. */
static double nearest_rank(const double *us, int n, size_t percent)
{
    double *sorted, value;

    BB_NEW(sorted, n);
    memcpy(sorted, us, (size_t)n * sizeof *us);
    bb_sort_doubles(sorted, (size_t)n);
    value = bb_nearest_rank(sorted, (size_t)n, percent);
    free(sorted);
    return value;
}

static json_t *ranks_json(const struct bb_report *r, const double *all_us)
{
    const struct bb_iteration_events *m = r->ctx->iteration_events;
    json_t *list = json_array();

    for (int rank = 0; rank < r->ctx->world->size; rank++)
        json_array_append_new(list, times_json(all_us + (size_t)rank * (size_t)m->n + m->skip, m->n - m->skip));
    return list;
}

static json_t *iterations_json(const struct bb_report *r, const struct bb_row *row, int placement)
{
    const struct bb_iteration_events *m = r->ctx->iteration_events;
    const struct bb_iteration_metrics *f = &row->metrics[placement].iterations;
    const double *us = m->us[placement] + m->skip;
    int n = m->n - m->skip;
    json_t *object =
        json_pack("{s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "skipped_iterations", m->skip, "min_us",
                  number_json(f->us.min), "max_us", number_json(f->us.max), "avg_us", number_json(f->us.mean), "p50_us",
                  number_json(f->us.p50), "p95_us", number_json(nearest_rank(us, n, 95)), "p99_us",
                  number_json(nearest_rank(us, n, 99)), "stdev_us", number_json(f->variation * f->us.mean), "cv_pct",
                  number_json(100 * f->variation), "times_us", times_json(us, n));

    if (r->ctx->world->size > 1)
        json_object_set_new(object, "per_process_max_times_us", ranks_json(r, m->all_us[placement]));
    return object;
}

json_t *bb_nccl_tests_json_row(const struct bb_report *r, const struct bb_row *row)
{
    static const char *const names[BB_PLACEMENTS] = {"out_of_place", "in_place"};
    static const char *const each[BB_PLACEMENTS] = {"out_of_place_per_iter", "in_place_per_iter"};
    json_t *object = json_pack("{s:I, s:I, s:s, s:s, s:o}", "size", (json_int_t)bb_case_bytes(&row->c), "count",
                               (json_int_t)row->c.count, "type", bb_dtypes[row->c.dtype].name, "redop",
                               bb_report_redop(r, row), "root", json_sprintf("%6d", row->c.root));

    for (int placement = 0; placement < BB_PLACEMENTS; placement++) {
        json_object_set_new(object, names[placement], result_json(r, row, placement));
        if (r->ctx->iteration_events && row->measured[placement])
            json_object_set_new(object, each[placement], iterations_json(r, row, placement));
    }
    json_object_set_new(object, "actual_iterations", json_integer(r->ctx->iterations));
    json_object_set_new(object, "experiment_name", json_string(""));
    return object;
}

/* ---- end of the document ---- */

int bb_nccl_tests_json_end(const struct bb_report *r)
{
    const double mean = bb_busbw_tally_mean(&r->counts.busbw);
    const char *verdict = bb_report_mean_verdict(r);

    return bb_results_set_all(r->session->json,
                              json_pack("{s:{s:I, s:o}, s:{s:o, s:o}, s:[s], s:o}", "out_of_bounds", "count",
                                        (json_int_t)r->counts.wrong, "okay", bool_word(r->counts.wrong == 0),
                                        "average_bus_bandwidth", "bandwidth", number_json(mean), "okay",
                                        verdict ? bool_word(strcmp(verdict, "OK") == 0) : json_string("unchecked"),
                                        "errors", "", "end_time", stamp_json()));
}
