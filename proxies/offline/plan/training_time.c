/* training_time.c - number of steps, days and GPU hours of a training run, and the effect of failures; see
 * training_time.h. */
#include "proxies/offline/plan/training_time.h"

#include "bootstrap/base/units.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct bb_training_time bb_training_time(double step_tokens, int ranks, double ns, double tokens)
{
    double steps = ceil(tokens / step_tokens), hours = steps * ns / 3600e9;

    return (struct bb_training_time){.tokens = tokens, .steps = steps, .days = hours / 24, .gpu_hours = hours * ranks};
}

/* ---- failures ---- */

static int parse_duration(const char *option, const char *text, double *seconds)
{
    if (!text || (bb_parse_duration(text, seconds) == 0 && *seconds <= 1e12))
        return 0;
    return bb_err(BB_EUSAGE,
                  "--%s: '%s' is not valid, expected a time with unit s, m (minutes), h or d (for example 40s)", option,
                  text);
}

int bb_failures_parse(const struct bb_failure_options *o, struct bb_failures *f)
{
    int rc;

    *f = (struct bb_failures){.repair_s = 86400, .spares = -1};
    TRY(parse_duration("mtbf-node", o->mtbf_node, &f->mtbf_node_s));
    TRY(parse_duration("checkpoint", o->checkpoint, &f->checkpoint_s));
    TRY(parse_duration("restart", o->restart, &f->restart_s));
    TRY(parse_duration("repair", o->repair, &f->repair_s));
    if (o->mtbf_node && (!o->checkpoint || !o->restart))
        return bb_err(BB_EUSAGE, "--mtbf-node requires --checkpoint and --restart (for example --checkpoint 40s "
                                 "--restart 10m)");
    if (o->mtbf_node && f->mtbf_node_s == 0)
        return bb_err(BB_EUSAGE, "--mtbf-node: '%s' is not valid, expected a time above 0 (for example 1500d)",
                      o->mtbf_node);
    if (o->spares && bb_parse_int(o->spares, 0, 1000000, &f->spares))
        return bb_err(BB_EUSAGE, "--spares: '%s' is not valid, expected a whole number from 0 to 1000000", o->spares);
    if (o->repair && !o->spares)
        return bb_err(BB_EUSAGE,
                      "--repair requires --spares N: without it, a failed node is replaced within --restart");
out:
    return rc;
}

/* Daly 2006, eq. 37. */
static double daly_interval_s(double checkpoint_s, double mtbf_s)
{
    const double part = checkpoint_s / (2 * mtbf_s);

    return part < 1 ? sqrt(2 * checkpoint_s * mtbf_s) * (1 + sqrt(part) / 3 + part / 9) - checkpoint_s : mtbf_s;
}

/* Returns the share of time in which more than `spares` nodes are in repair. load: mean number of nodes that would be
 * in repair if the job never waited. */
static double share_of_node_wait(double load, int spares)
{
    double blocked = 1;

    for (int n = 1; n <= spares + 1; n++)
        blocked = load * blocked / (n + load * blocked);
    return spares < 0 ? 0 : blocked;
}

/* Formats 5400 s as "1.5 h". */
static const char *duration_text(double seconds, char text[32])
{
    static const struct {
        const char *unit;
        double seconds;
    } units[] = {{"day", 86400}, {"h", 3600}, {"min", 60}, {"s", 0}};
    char number[BB_ROUNDED_TEXT];
    int unit = 0;

    while (seconds < units[unit].seconds)
        unit++;
    if (seconds >= 999.5 * units[0].seconds)
        bb_format_rounded(seconds / units[0].seconds, number);
    else
        snprintf(number, sizeof(number), "%.3g", seconds / fmax(units[unit].seconds, 1));
    snprintf(text, 32, "%.20s %s%s", number, units[unit].unit, unit == 0 && strcmp(number, "1") != 0 ? "s" : "");
    return text;
}

int bb_reliability(const struct bb_failures *f, int nodes, const struct bb_training_time *t,
                   struct bb_reliability *result)
{
    const double mtbf_s = f->mtbf_node_s / nodes, step_s = 86400 * t->days / t->steps;
    const double daly_s = daly_interval_s(f->checkpoint_s, mtbf_s);
    const double steps = fmin(t->steps, fmax(1, round(daly_s / step_s)));
    const double interval_s = steps * step_s, tries_s = interval_s + f->checkpoint_s;
    const double failures = expm1(tries_s / mtbf_s); /* expected number during one interval, without restarts */
    const double restarts_s = failures * mtbf_s * expm1(f->restart_s / mtbf_s);
    const double running_s = failures * mtbf_s + restarts_s;
    const double node_wait = share_of_node_wait(f->repair_s / mtbf_s, f->spares), running = 1 - node_wait;
    char texts[3][32];

    *result = (struct bb_reliability){.mtbf_s = mtbf_s,
                                      .daly_interval_s = daly_s,
                                      .interval_s = interval_s,
                                      .goodput = running * interval_s / running_s,
                                      .checkpoints = running * f->checkpoint_s / running_s,
                                      .lost_steps = running * (failures * mtbf_s - tries_s) / running_s,
                                      .restarts = running * restarts_s / running_s,
                                      .node_wait = node_wait};
    if (!(result->goodput >= 1e-3))
        return bb_err(BB_EUSAGE,
                      "--mtbf-node: with %d node%s, a failure every %s, checkpoints of %s, restarts of %s%s "
                      "leave less than 0.1 %% of the time for training",
                      nodes, bb_plural(nodes), duration_text(mtbf_s, texts[0]),
                      duration_text(f->checkpoint_s, texts[1]), duration_text(f->restart_s, texts[2]),
                      node_wait > 0 ? " and waits for repairs" : "");
    result->days = t->days / result->goodput;
    result->spares = f->spares;
    result->gpu_hours = t->gpu_hours / result->goodput * (nodes + fmax(0, f->spares)) / nodes;
    return 0;
}

/* ---- texts ---- */

/* Formats 15e12 as "15T" and 2.5e9 as "2.5B". */
static const char *count_text(double count, int digits, char text[32])
{
    static const char *const units[] = {"", "K", "M", "B", "T"};
    char number[16];
    int unit = 0;

    while (snprintf(number, sizeof(number), "%.*g", digits, count), unit < 4 && strtod(number, NULL) >= 1000) {
        count /= 1000;
        unit++;
    }
    snprintf(text, 32, "%s%s", number, units[unit]);
    return text;
}

static const char *days_text(double days, char text[32])
{
    char number[BB_ROUNDED_TEXT];

    if (days < 2)
        return duration_text(86400 * days, text);
    snprintf(text, 32, "%s days", bb_format_rounded(days, number));
    return text;
}

void bb_training_time_text(const struct bb_training_time *t, char *text, size_t size)
{
    const double count = t->epochs > 0 ? t->samples : t->tokens;
    char number[32], hours[32], steps[BB_THOUSANDS_TEXT], days[32], epochs[32] = "";

    if (t->epochs > 0)
        snprintf(epochs, sizeof epochs, "%.0f epoch%s of ", t->epochs, t->epochs == 1 ? "" : "s");
    snprintf(text, size, "%s%s %s%s: %s step%s, %s, %s GPU hours without failures, restarts and evaluation", epochs,
             count_text(count, 4, number), t->epochs > 0 ? "sample" : "token", count == 1 ? "" : "s",
             bb_format_thousands(t->steps, steps), t->steps == 1 ? "" : "s", days_text(t->days, days),
             count_text(t->gpu_hours, 3, hours));
}

void bb_reliability_text(const struct bb_training_time *t, char *failures, char *lost, size_t size)
{
    const struct bb_reliability *r = &t->with_failures;
    char mtbf[32], interval[32], hours[32], days[32], spares[32] = "";

    failures[0] = lost[0] = '\0';
    if (r->mtbf_s == 0)
        return;
    if (r->spares > 0)
        snprintf(spares, sizeof spares, " with %d spare node%s", r->spares, bb_plural(r->spares));
    snprintf(failures, size, "one every %s; with a checkpoint every %s: %s, %s GPU hours%s, goodput %.3g%%",
             duration_text(r->mtbf_s, mtbf), duration_text(r->interval_s, interval), days_text(r->days, days),
             count_text(r->gpu_hours, 3, hours), spares, 100 * r->goodput);
    snprintf(lost, size,
             "steps since the last checkpoint %.2f%%, checkpoints %.2f%%, restarts %.2f%%, waiting for nodes "
             "%.2f%%",
             100 * r->lost_steps, 100 * r->checkpoints, 100 * r->restarts, 100 * r->node_wait);
}

static json_t *reliability_json(const struct bb_reliability *r)
{
    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "mtbf_s", r->mtbf_s, "daly_interval_s",
                     r->daly_interval_s, "interval_s", r->interval_s, "goodput", r->goodput, "lost_steps",
                     r->lost_steps, "checkpoints", r->checkpoints, "restarts", r->restarts, "node_wait", r->node_wait,
                     "days", r->days, "gpu_hours", r->gpu_hours);
}

json_t *bb_training_time_json(const struct bb_training_time *t)
{
    json_t *json =
        json_pack("{s:I, s:f, s:f}", "steps", (json_int_t)t->steps, "days", t->days, "gpu_hours", t->gpu_hours);

    if (t->epochs > 0) {
        json_object_set_new(json, "epochs", json_integer((json_int_t)t->epochs));
        json_object_set_new(json, "samples", json_integer((json_int_t)t->samples));
    } else
        json_object_set_new(json, "tokens", json_real(t->tokens));
    if (t->with_failures.mtbf_s > 0)
        json_object_set_new(json, "with_failures", reliability_json(&t->with_failures));
    return json;
}

int bb_tokens_parse(const char *text, double *tokens)
{
    if (bb_parse_count(text, tokens) == 0 && *tokens <= 1e18)
        return 0;
    return bb_err(BB_EUSAGE,
                  "--tokens: '%s' is not valid, expected a number above 0 and up to 1e18, optionally with K, M, B or T "
                  "(powers of 1000), in one word (for example 15T)",
                  text);
}
