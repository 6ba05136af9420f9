/* shortfall.c - see shortfall.h. */
#include "collectives/compare/shortfall.h"

#include "bootstrap/base/units.h"
#include "bootstrap/results/results.h"

#include <math.h>
#include <string.h>

void bb_ratios_add(struct bb_ratios *r, const struct bb_timing *row, double ratio, double threshold_percent)
{
    r->n++;
    r->over += ratio > 1 + threshold_percent / 100;
    r->log_sum += log(ratio);
    if (!r->worst || ratio > r->worst_ratio) {
        r->worst = row;
        r->worst_ratio = ratio;
    }
}

double bb_ratios_mean(const struct bb_ratios *r)
{
    return r->n ? exp(r->log_sum / (double)r->n) : NAN;
}

/* ---- times of a training step: compute, communication, exposed, idle, and per process group ---- */

static void add_part(json_t *parts, const char *by, const char *name, const json_t *measured, const json_t *predicted)
{
    double ratio = json_number_value(measured) / json_number_value(predicted);

    if (json_is_number(measured) && json_is_number(predicted))
        json_array_append_new(parts, json_pack("{s:s, s:s, s:f, s:f, s:o}", "by", by, "name", name, "measured_us",
                                               json_number_value(measured), "predicted_us",
                                               json_number_value(predicted), "ratio", bb_json_real(ratio)));
}

/* Returns the process group (tensor parallel, data parallel, ..) with this name; NULL if the list has no such group. */
static const json_t *find_group(const json_t *groups, const char *name)
{
    for (size_t i = 0; name && i < json_array_size(groups); i++) {
        const json_t *group = json_array_get(groups, i);
        const char *own = json_string_value(json_object_get(group, "name"));

        if (own && strcmp(own, name) == 0)
            return group;
    }
    return NULL;
}

/*
 * Returns a JSON list with the measured and predicted times of a training step: compute, communication, exposed
 * (communication that no compute hides), idle, and, for each process group, the time in which it communicates.
 * All are of the role of the slowest measured rank. measured: a busbar.proxy/1 file; predicted: the field "predicted" of a
 * busbar.plan/1 file, which has the same keys.
 */
static json_t *list_parts(const json_t *measured, const json_t *predicted)
{
    static const char *const keys[][2] = {
        {"compute_us", "compute"}, {"comm_us", "communication"}, {"exposed_us", "exposed"}, {"idle_us", "idle"}};
    const char *role = NULL;
    const json_t *ours = bb_result_breakdown(measured, &role), *theirs = bb_result_breakdown(predicted, &role);
    const json_t *groups = json_object_get(measured, "groups"), *of_role = json_object_get(theirs, "groups");
    json_t *parts = json_array();

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        add_part(parts, "part", keys[i][1], json_object_get(ours, keys[i][0]), json_object_get(theirs, keys[i][0]));
    for (size_t i = 0; i < json_array_size(groups); i++) {
        const json_t *group = json_array_get(groups, i);
        const char *name = json_string_value(json_object_get(group, "name"));

        add_part(
            parts, "group", name ? name : "?", json_object_get(group, "busy_us"),
            json_object_get(find_group(of_role ? of_role : json_object_get(predicted, "groups"), name), "busy_us"));
    }
    return parts;
}

void bb_shortfall_init(struct bb_shortfall *s, const struct bb_result_file *a, const struct bb_result_file *b,
                       double threshold_percent)
{
    const char *of_a = bb_result_file_predicted(a), *of_b = bb_result_file_predicted(b);

    *s = (struct bb_shortfall){.known = !of_a != !of_b,
                               .a_is_measured = !of_a,
                               .cluster = of_a ? of_a : of_b,
                               .percent = isnan(threshold_percent) ? BB_SHORTFALL_PERCENT : threshold_percent};
    if (s->known)
        s->parts = list_parts((of_a ? b : a)->root, json_object_get((of_a ? a : b)->root, "predicted"));
}

void bb_shortfall_release(struct bb_shortfall *s)
{
    json_decref(s->parts);
    s->parts = NULL;
}

void bb_shortfall_add(struct bb_shortfall *s, const struct bb_timing *a, const struct bb_timing *b)
{
    const struct bb_timing *measured = s->a_is_measured ? a : b;
    double ratio = measured->time_us / (s->a_is_measured ? b : a)->time_us;

    if (s->known && isfinite(ratio) && ratio > 0)
        bb_ratios_add(&s->ratios, measured, ratio, s->percent);
}

/* Returns the longest of the times of a list of parts, in us. */
static double longest_part(const json_t *parts)
{
    double longest = 0;

    for (size_t i = 0; i < json_array_size(parts); i++)
        longest = fmax(longest, fmax(json_number_value(json_object_get(json_array_get(parts, i), "measured_us")),
                                     json_number_value(json_object_get(json_array_get(parts, i), "predicted_us"))));
    return longest;
}

static void print_parts(const struct bb_shortfall *s, FILE *out)
{
    const struct bb_time_unit unit = bb_time_unit(longest_part(s->parts));
    const char *by, *name;
    char ratio[32];
    double measured, predicted;
    json_t *part;
    size_t i;

    json_array_foreach(s->parts, i, part)
    {
        if (json_unpack(part, "{s:s, s:s, s:F, s:F}", "by", &by, "name", &name, "measured_us", &measured,
                        "predicted_us", &predicted) != 0)
            continue;
        snprintf(ratio, sizeof(ratio), "-");
        if (predicted > 0)
            snprintf(ratio, sizeof(ratio), "%.3f x", measured / predicted);
        fprintf(out, "#   %-5s %-24s %9.*f %s, predicted %9.*f %s: %s\n", by, name, unit.decimals, measured / unit.us,
                unit.name, unit.decimals, predicted / unit.us, unit.name, ratio);
    }
}

void bb_shortfall_print(const struct bb_shortfall *s, FILE *out)
{
    const struct bb_ratios *r = &s->ratios;
    char size[BB_TIMING_SIZE];

    if (!s->known || r->n == 0)
        return;
    fprintf(out, "# measured / predicted (%s): %.3f, geometric mean; ", s->cluster, bb_ratios_mean(r));
    if (r->over == 0)
        fprintf(out, "no row is slower than predicted by more than %g %%\n", s->percent);
    else
        fprintf(out, "%zu of %zu row%s slower than predicted by more than %g %%, worst: %s%s: %.*f x\n", r->over, r->n,
                bb_plural(r->n), s->percent, r->worst->what, bb_timing_size(r->worst, size),
                bb_decimals_beside(r->worst_ratio, 1 + s->percent / 100, 3), r->worst_ratio);
    print_parts(s, out);
}

json_t *bb_shortfall_json(const struct bb_shortfall *s)
{
    if (!s->known)
        return json_null();
    return json_pack("{s:s, s:s, s:f, s:I, s:I, s:o, s:o, s:O}", "cluster", s->cluster, "measured",
                     s->a_is_measured ? "a" : "b", "threshold_percent", s->percent, "rows", (json_int_t)s->ratios.n,
                     "slower_rows", (json_int_t)s->ratios.over, "worst_ratio",
                     bb_json_real(s->ratios.worst ? s->ratios.worst_ratio : NAN), "geometric_mean_ratio",
                     bb_json_real(bb_ratios_mean(&s->ratios)), "parts", s->parts);
}
