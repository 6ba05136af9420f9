/* shortfall.c - see shortfall.h. */
#include "collectives/compare/shortfall.h"

#include "bootstrap/base/units.h"
#include "bootstrap/results/results.h"

#include <math.h>

void bb_shortfall_init(struct bb_shortfall *s, const struct bb_result_file *a, const struct bb_result_file *b,
                       double threshold_percent)
{
    const char *of_a = bb_result_file_predicted(a), *of_b = bb_result_file_predicted(b);

    *s = (struct bb_shortfall){.known = !of_a != !of_b,
                               .a_is_measured = !of_a,
                               .cluster = of_a ? of_a : of_b,
                               .percent = isnan(threshold_percent) ? BB_SHORTFALL_PERCENT : threshold_percent};
}

void bb_shortfall_add(struct bb_shortfall *s, const struct bb_timing *a, const struct bb_timing *b)
{
    const struct bb_timing *measured = s->a_is_measured ? a : b;
    double ratio = measured->time_us / (s->a_is_measured ? b : a)->time_us;

    if (!s->known || !isfinite(ratio) || ratio <= 0)
        return;
    s->rows++;
    s->behind += ratio > 1 + s->percent / 100;
    s->log_sum += log(ratio);
    if (s->worst && ratio <= s->worst_ratio)
        return;
    s->worst = measured;
    s->worst_ratio = ratio;
}

static double mean_ratio(const struct bb_shortfall *s)
{
    return s->rows ? exp(s->log_sum / (double)s->rows) : NAN;
}

void bb_shortfall_print(const struct bb_shortfall *s, FILE *out)
{
    char bytes[BB_BYTES_TEXT];

    if (!s->known || s->rows == 0)
        return;
    fprintf(out, "# measured is %.3f x predicted (%s), geometric mean; ", mean_ratio(s), s->cluster);
    if (s->behind == 0)
        fprintf(out, "no row is behind by more than %g %%\n", s->percent);
    else
        fprintf(out, "%zu of %zu row%s behind by more than %g %%, most of all %s %s: %.3f x\n", s->behind, s->rows,
                s->rows == 1 ? "" : "s", s->percent, s->worst->what,
                s->worst->bytes < 0 ? "step" : bb_format_bytes((size_t)s->worst->bytes, bytes), s->worst_ratio);
}

json_t *bb_shortfall_json(const struct bb_shortfall *s)
{
    if (!s->known)
        return json_null();
    return json_pack("{s:s, s:s, s:f, s:I, s:I, s:o, s:o}", "cluster", s->cluster, "measured",
                     s->a_is_measured ? "a" : "b", "threshold_percent", s->percent, "rows", (json_int_t)s->rows,
                     "behind", (json_int_t)s->behind, "worst_ratio", bb_json_real(s->worst ? s->worst_ratio : NAN),
                     "geometric_mean_ratio", bb_json_real(mean_ratio(s)));
}
