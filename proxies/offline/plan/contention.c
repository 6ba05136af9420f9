/* contention.c - report the contention for shared hardware, the bottlenecks and the jitter of a prediction; see
 * contention.h. */
#include "proxies/offline/plan/contention.h"

#include "bootstrap/results/results.h"
#include "bootstrap/results/table.h"
#include "proxies/offline/plan/plan.h"

#include <math.h>

/* ---- contention and bottlenecks ---- */

static json_t *uplink_json(const void *prediction, enum bb_tier tier)
{
    const struct bb_prediction *p = prediction;

    return bb_fabric_is_oversubscribed(&p->cluster, tier) ? json_real(p->uplink_busy[tier]) : json_null();
}

static json_t *leaf_json(const void *prediction)
{
    return uplink_json(prediction, BB_LEAF);
}

static json_t *pod_json(const void *prediction)
{
    return uplink_json(prediction, BB_POD);
}

static json_t *nic_bytes_json(const void *prediction)
{
    return json_integer(llround(((const struct bb_prediction *)prediction)->nic_bytes));
}

#define SHOWS(name)    BB_SHOWS(struct bb_prediction, name)
#define SHOWS_NS(name) BB_SHOWS_NS(struct bb_prediction, name)
static const struct bb_field contention_fields[] = {
    {"compute_slowed_us", "  contention: compute +", "", 0, 0, SHOWS_NS(bottleneck.compute_slowed_ns)},
    {"comm_slowed_us", ", communication +", "\n", 0, 0, SHOWS_NS(bottleneck.comm_slowed_ns)},
    {"launch_wait_us", SHOWS_NS(bottleneck.launch_ns)},
    {"link_busy", "  utilization of the busiest links: within a node ", " of the step", 0, 1, SHOWS(link_busy),
     .form = BB_FORM_PERCENT},
    {"nic_busy", ", NIC ", "", 0, 1, SHOWS(nic_busy), .form = BB_FORM_PERCENT},
    {"nic_bytes", " (", " of data in one direction)", 0, 0, .value = nic_bytes_json, .form = BB_FORM_BYTES},
    {"leaf_uplink_busy", ", leaf uplink ", "", 0, 1, .value = leaf_json, .form = BB_FORM_PERCENT},
    {"pod_uplink_busy", ", pod uplink ", "", 0, 1, .value = pod_json, .form = BB_FORM_PERCENT},
    {0},
};

void bb_contention_print(const struct bb_prediction *p, FILE *out)
{
    const struct bb_bottleneck *b = &p->bottleneck;
    const struct bb_time_unit unit = bb_rounded_time_unit(bb_us_of(p->step_ns));
    char text[BB_ROUNDED_TEXT];

    if (!p->cluster.has_sharing)
        return;
    bb_line_sentence(&(struct bb_line){.out = out, .time = &unit}, contention_fields, p);
    fputc('\n', out);
    for (int phase = 0; phase < BB_PHASES; phase++) {
        enum bb_limit most = bb_bottleneck_of(b, (enum bb_phase)phase);

        if (most != BB_LIMIT_NONE)
            fprintf(out, "  %s: %s-bound, %s %s\n", bb_phase_names[phase], bb_limit_names[most],
                    bb_format_rounded(bb_us_of(b->ns[phase][most]) / unit.us, text), unit.name);
    }
}

json_t *bb_contention_json(const struct bb_prediction *p)
{
    return p->cluster.has_sharing ? bb_table_object(contention_fields, p) : json_null();
}

static json_t *times_of(const int64_t *ns)
{
    json_t *times = json_object();

    for (int limit = BB_LIMIT_NONE + 1; limit < BB_LIMITS; limit++) {
        char key[32];

        snprintf(key, sizeof(key), "%s_us", bb_limit_keys[limit]);
        json_object_set_new(times, key, json_real(bb_us_of(ns[limit])));
    }
    return times;
}

json_t *bb_phases_json(const struct bb_prediction *p)
{
    json_t *list = json_array();

    for (int phase = 0; phase < BB_PHASES; phase++) {
        enum bb_limit most = bb_bottleneck_of(&p->bottleneck, (enum bb_phase)phase);

        if (most != BB_LIMIT_NONE)
            json_array_append_new(list, json_pack("{s:s, s:s, s:o}", "phase", bb_phase_names[phase], "bottleneck",
                                                  bb_limit_names[most], "time", times_of(p->bottleneck.ns[phase])));
    }
    return list;
}

/* ---- step time with jitter ---- */

/* The percentiles of the step time that the text and the JSON contain. */
static const struct {
    const char *name;
    int percent;
} percentiles[] = {{"p5", 5}, {"p50", 50}, {"p95", 95}, {"max", 100}};
enum { PERCENTILES = sizeof(percentiles) / sizeof(percentiles[0]) };

void bb_jittered_text(const struct bb_jittered *j, char *text, size_t size)
{
    const double p50_ns = bb_jittered_at(j, 50);
    char time[BB_ROUNDED_TEXT];
    int n = snprintf(text, size, "step with %g%% (%d sample%s, seed %d):", 100 * j->deviation, j->samples,
                     bb_plural(j->samples), j->seed);

    n += snprintf(text + n, size - (size_t)n, " p50 %s", bb_format_rounded_time(p50_ns / 1e3, time));
    for (int i = 0; i < PERCENTILES; i++)
        if (percentiles[i].percent != 50 && !isnan(bb_jittered_at(j, percentiles[i].percent)))
            n += snprintf(text + n, size - (size_t)n, ", %s %+.2f%%", percentiles[i].name,
                          100 * (bb_jittered_at(j, percentiles[i].percent) / p50_ns - 1));
    snprintf(text + n, size - (size_t)n,
             " of p50; the line training and busbar compare use the p50, the other lines are without jitter");
}

json_t *bb_jittered_json(const struct bb_jittered *j)
{
    json_t *step_us = json_object();
    double sum_ns = 0;

    for (int i = 0; i < PERCENTILES; i++)
        json_object_set_new(step_us, percentiles[i].name,
                            bb_json_real(bb_jittered_at(j, percentiles[i].percent) / 1e3));
    for (int i = 0; i < j->samples; i++)
        sum_ns += (double)j->step_ns[i];
    json_object_set_new(step_us, "mean", json_real(sum_ns / 1e3 / j->samples));
    return json_pack("{s:f, s:i, s:i, s:o}", "deviation", j->deviation, "seed", j->seed, "samples", j->samples,
                     "step_us", step_us);
}
