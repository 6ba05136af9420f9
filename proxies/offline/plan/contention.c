/* contention.c - report the contention for shared hardware, the bottlenecks and the jitter of a prediction; see
 * contention.h. */
#include "proxies/offline/plan/contention.h"

#include "bootstrap/base/units.h"
#include "proxies/offline/plan/plan.h"

#include <math.h>

/* ---- contention and bottlenecks ---- */

void bb_contention_print(const struct bb_prediction *p, FILE *out)
{
    const struct bb_bottleneck *b = &p->bottleneck;
    char text[BB_TIME_TEXT], more[BB_TIME_TEXT];

    if (!p->cluster.has_sharing)
        return;
    fprintf(out, "  contention: compute +%s, communication +%s\n", bb_format_time(bb_us_of(b->compute_slowed_ns), text),
            bb_format_time(bb_us_of(b->comm_slowed_ns), more));
    fprintf(out, "  utilization of the busiest links: within a node %.1f%% of the step, NIC %.1f%%", 100 * p->link_busy,
            100 * p->nic_busy);
    for (int tier = 0; tier < BB_TIERS; tier++)
        if (bb_fabric_is_oversubscribed(&p->cluster, (enum bb_tier)tier))
            fprintf(out, ", %s %.1f%%", bb_limit_names[BB_LIMIT_LEAF + tier], 100 * p->uplink_busy[tier]);
    fputc('\n', out);
    for (int phase = 0; phase < BB_PHASES; phase++) {
        enum bb_limit most = bb_bottleneck_of(b, (enum bb_phase)phase);

        if (most != BB_LIMIT_NONE)
            fprintf(out, "  %s: %s-bound, %s\n", bb_phase_names[phase], bb_limit_names[most],
                    bb_format_time(bb_us_of(b->ns[phase][most]), text));
    }
}

static json_t *uplink_json(const struct bb_prediction *p, enum bb_tier tier)
{
    return bb_fabric_is_oversubscribed(&p->cluster, tier) ? json_real(p->uplink_busy[tier]) : json_null();
}

json_t *bb_contention_json(const struct bb_prediction *p)
{
    const struct bb_bottleneck *b = &p->bottleneck;

    if (!p->cluster.has_sharing)
        return json_null();
    return json_pack("{s:f, s:f, s:f, s:f, s:o, s:o}", "compute_slowed_us", bb_us_of(b->compute_slowed_ns),
                     "comm_slowed_us", bb_us_of(b->comm_slowed_ns), "link_busy", p->link_busy, "nic_busy", p->nic_busy,
                     "leaf_uplink_busy", uplink_json(p, BB_LEAF), "pod_uplink_busy", uplink_json(p, BB_POD));
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

static double us_at(const struct bb_jittered *j, int percent)
{
    return bb_us_of(bb_jittered_at(j, percent));
}

void bb_jittered_print(const struct bb_jittered *j, FILE *out)
{
    static const int percents[] = {5, 50, 95};
    char text[BB_TIME_TEXT];

    fprintf(out, "  step with jitter of %g%% (%d samples, seed %d):", 100 * j->deviation, j->samples, j->seed);
    for (size_t i = 0; i < sizeof(percents) / sizeof(percents[0]); i++)
        fprintf(out, " p%d %s,", percents[i], bb_format_time(us_at(j, percents[i]), text));
    fprintf(out, " max %s\n", bb_format_time(us_at(j, 100), text));
}

json_t *bb_jittered_json(const struct bb_jittered *j)
{
    double sum_ns = 0;

    for (int i = 0; i < j->samples; i++)
        sum_ns += (double)j->step_ns[i];
    return json_pack("{s:f, s:i, s:i, s:{s:f, s:f, s:f, s:f, s:f}}", "deviation", j->deviation, "seed", j->seed,
                     "samples", j->samples, "step_us", "p5", us_at(j, 5), "p50", us_at(j, 50), "p95", us_at(j, 95),
                     "max", us_at(j, 100), "mean", sum_ns / 1e3 / j->samples);
}
