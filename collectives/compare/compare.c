/* compare.c - see compare.h. */
#include "collectives/compare/compare.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/base/stats.h"
#include "bootstrap/base/units.h"
#include "bootstrap/cli/opts.h"
#include "bootstrap/cli/report_header.h"
#include "bootstrap/results/checks.h"
#include "bootstrap/results/flat_table.h"
#include "bootstrap/results/table.h"
#include "bootstrap/sweep/state.h"
#include "collectives/compare/culprit.h"
#include "collectives/compare/inventory_changes.h"
#include "collectives/compare/shortfall.h"
#include "collectives/compare/what_if.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const bb_verdict_names[BB_VERDICTS] = {
    [BB_FASTER] = "faster",
    [BB_SLOWER] = BB_NAME_SLOWER,
    [BB_SAME] = "no difference",
    [BB_INCONCLUSIVE] = BB_NAME_INCONCLUSIVE,
    [BB_WRONG_DATA] = BB_NAME_WRONG_DATA,
};

static bool has_intervals(const struct bb_timing *a, const struct bb_timing *b)
{
    return !isnan(a->low_us) && !isnan(b->low_us);
}

/* Returns whether one time is by the GPU's and the other by the host clock, which includes launches and the final wait. */
static bool has_two_clocks(const struct bb_timing *a, const struct bb_timing *b)
{
    return a->clock && b->clock && a->clock != b->clock;
}

enum bb_verdict bb_verdict_of(const struct bb_timing *a, const struct bb_timing *b, double threshold_percent)
{
    const double ratio = b->time_us / a->time_us, most = 1 + threshold_percent / 100;

    if (a->wrong > 0 || b->wrong > 0)
        return BB_WRONG_DATA;
    if (isnan(a->time_us) || isnan(b->time_us) || has_two_clocks(a, b))
        return BB_INCONCLUSIVE;
    if (has_intervals(a, b))
        return b->high_us < a->low_us ? BB_FASTER : b->low_us > a->high_us ? BB_SLOWER : BB_SAME;
    if (a->time_us == 0 && b->time_us == 0)
        return BB_SAME; /* predictions of 0 bytes */
    if (!isfinite(ratio) || ratio <= 0 || isnan(most))
        return BB_INCONCLUSIVE;
    return ratio > most ? BB_SLOWER : ratio < 1 / most ? BB_FASTER : BB_SAME;
}

/* Returns the p-value of equal medians, by McKean and Schrader: compare.h. Both rows have an interval. */
static double p_value(const struct bb_timing *a, const struct bb_timing *b)
{
    const double z95 = 1.959964, difference = fabs(b->time_us - a->time_us);
    const double error = hypot(a->high_us - a->low_us, b->high_us - b->low_us) / (2 * z95);

    return difference > 0 ? erfc(difference / error / sqrt(2)) : 1;
}

double bb_holm_limit(double *p, size_t n, double level)
{
    size_t i = 0;

    bb_sort_doubles(p, n);
    while (i < n && p[i] <= level / (double)(n - i))
        i++;
    return i > 0 ? p[i - 1] : -1;
}

/* ---- matching rows ---- */

static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

static bool same_measurement(const struct bb_timing *a, const struct bb_timing *b)
{
    return a->bytes == b->bytes && a->root == b->root && a->group == b->group && a->cycle == b->cycle &&
           same_text(a->key ? a->key : a->what, b->key ? b->key : b->what) && same_text(a->dtype, b->dtype) &&
           same_text(a->op, b->op) && same_text(a->placement, b->placement) && same_text(a->mode, b->mode) &&
           a->same_node == b->same_node;
}

/* Returns the tests whose sizes differ between two files, as in bb_match_rows. */
static json_t *tests_of_other_sizes(const struct bb_result_file *a, const struct bb_result_file *b)
{
    json_t *list = json_array(), *sizes;
    const char *test;

    json_object_foreach(a->test_sizes, test, sizes)
    {
        const json_t *others = json_object_get(b->test_sizes, test);

        for (int i = 0; i < BB_TEST_SIZES && others; i++) {
            json_t *of_a = json_object_get(sizes, bb_test_sizes[i].name),
                   *of_b = json_object_get(others, bb_test_sizes[i].name);

            if (json_equal(of_a, of_b))
                continue;
            json_array_append_new(list, json_pack("{s:s, s:s, s:O, s:O}", "test", test, "of", bb_test_sizes[i].name,
                                                  "a", of_a, "b", of_b));
            break;
        }
    }
    return list;
}

/* Returns the entry of the row's test in not_compared; NULL: the row is compared. */
static const json_t *uncompared(const json_t *not_compared, const struct bb_timing *row)
{
    const json_t *entry;
    size_t i;

    json_array_foreach(not_compared, i, entry)
    {
        if (row->test && strcmp(row->test, json_string_value(json_object_get(entry, "test"))) == 0)
            return entry;
    }
    return NULL;
}

/* The search for a match begins at the row of B after the previous match, because the rows of both files usually have the same
 * order. */
json_t *bb_match_rows(const struct bb_result_file *a, const struct bb_result_file *b, long *pair_a, long *pair_b)
{
    const bool same_model = bb_result_file_same_model(a, b); /* else rows of the same name are of other work */
    json_t *not_compared = tests_of_other_sizes(a, b);
    size_t next = 0;

    for (size_t j = 0; j < b->n; j++)
        pair_b[j] = -1;
    for (size_t i = 0; i < a->n; i++) {
        const bool has_match = same_model && !uncompared(not_compared, &a->rows[i]);

        pair_a[i] = -1;
        for (size_t step = 0; step < b->n && has_match && pair_a[i] < 0; step++) {
            size_t j = (next + step) % b->n;

            if (pair_b[j] < 0 && same_measurement(&a->rows[i], &b->rows[j])) {
                pair_a[i] = (long)j;
                pair_b[j] = (long)i;
            }
        }
        if (pair_a[i] >= 0)
            next = (size_t)pair_a[i] + 1;
    }
    return not_compared;
}

/* ---- comparison table: rows and header lines ---- */

/* ROWS_WORST: number of rows in the text table, without --full, if there are more than ROWS_ALL. */
enum { CHOICE = 24, VERDICT = 64, JOB = 96, CAUSES_SHOWN = 2, DIFFERS_SHOWN = 3, ROWS_ALL = 8, ROWS_WORST = 5 };
enum { DOUBT = 160 };

/* One row of the printed table: a matched pair of result rows, or a result row that only file A or only file B
 * contains. In the second case the time of the file without the row is NaN and the JSON object has only the fields
 * that identify the row. */
struct row {
    struct bb_timing key;
    const char *place; /* buffer placement, as printed in the table: "in" or "out" */
    double a_us, b_us, times;
    double a_rate, b_rate; /* of a result of health: GB/s, or TFLOP/s */
    const char *verdict_text;
    json_t *a, *b, *ratio, *verdict, *judged_by;
};

#define SHOWS(name) BB_SHOWS(struct row, name)
static const struct bb_field fields[] = {
    {"collective", "what", "", 21, 0, SHOWS(key.what)},
    {"bytes", "size", "(B)", 11, 0, SHOWS(key.bytes)},
    {"dtype", "type", "", 8, 0, SHOWS(key.dtype)},
    {"op", "redop", "", 6, 0, SHOWS(key.op)},
    {"root", "root", "", 4, 0, SHOWS(key.root)},
    {"placement", SHOWS(key.placement)},
    {NULL, "place", "", 5, 0, SHOWS(place)},
    {"mode", "mode", "", 6, 0, SHOWS(key.mode)},
    {"group", SHOWS(key.group)},
    {"cycle", SHOWS(key.cycle)},
    {NULL, "A", "(us)", 10, 2, SHOWS(a_us)},
    {NULL, "B", "(us)", 10, 2, SHOWS(b_us)},
    {NULL, "B/A", "", 6, 3, SHOWS(times)},
    {NULL, "verdict", "", 13, 0, SHOWS(verdict_text)},
    {"a", SHOWS(a)},
    {"b", SHOWS(b)},
    {"ratio", SHOWS(ratio)},
    {"verdict", SHOWS(verdict)},
    {"judged_by", SHOWS(judged_by)},
    {0},
};
/* The table of two results of health. */
static const struct bb_field health_fields[] = {
    {NULL, "what", "", 52, 0, SHOWS(key.what)},        {NULL, "A", "(GB/s)", 10, 2, SHOWS(a_rate)},
    {NULL, "B", "(GB/s)", 10, 2, SHOWS(b_rate)},       {NULL, "A/B", "", 6, 3, SHOWS(times)},
    {NULL, "verdict", "", 13, 0, SHOWS(verdict_text)}, {0}};

/* The table of two results of bench copy. */
static const struct bb_field copy_fields[] = {{NULL, "what", "", 44, 0, SHOWS(key.what)},
                                              {NULL, "size", "(B)", 11, 0, SHOWS(key.bytes)},
                                              {NULL, "A", "(us)", 10, 2, SHOWS(a_us)},
                                              {NULL, "B", "(us)", 10, 2, SHOWS(b_us)},
                                              {NULL, "B/A", "", 6, 3, SHOWS(times)},
                                              {NULL, "verdict", "", 13, 0, SHOWS(verdict_text)},
                                              {0}};

static struct row make_row(const struct bb_timing *key, double a_us, double b_us, const char *verdict)
{
    const char *place = !key->placement ? NULL : strcmp(key->placement, "in_place") == 0 ? "in" : "out";

    return (struct row){.key = *key,
                        .place = place,
                        .a_us = a_us,
                        .b_us = b_us,
                        .a_rate = 1e6 / a_us,
                        .b_rate = 1e6 / b_us,
                        .times = b_us / a_us,
                        .verdict_text = verdict};
}

/* Formats NCCL's choice as "RING/SIMPLE/8" (algorithm, protocol, channels). channels: whether both files contain the
 * number of channels; if false, formats "RING/SIMPLE". Returns "" if the choice is unknown. */
static const char *choice_text(const struct bb_timing *t, bool channels, char text[CHOICE])
{
    text[0] = '\0';
    if (t->algorithm && t->protocol && !channels)
        snprintf(text, CHOICE, "%.10s/%.7s", t->algorithm, t->protocol);
    else if (t->algorithm && t->protocol)
        snprintf(text, CHOICE, "%.10s/%.7s/%d", t->algorithm, t->protocol, (int)t->channels);
    return text;
}

/* Returns the basis of the verdict on a row: "intervals" (confidence intervals) or "ratio" (of the times); NULL for
 * inconclusive rows and rows with wrong data. */
static const char *judged_by(const struct bb_timing *a, const struct bb_timing *b, enum bb_verdict verdict)
{
    if (verdict == BB_INCONCLUSIVE || verdict == BB_WRONG_DATA)
        return NULL;
    return has_intervals(a, b) ? "intervals" : "ratio";
}

static bool is_emulated(const struct bb_result_file *t)
{
    return json_is_true(json_object_get(t->root, "emulated"));
}

/* Returns the exception to the times of a model: files of -C 1 have the host's time to enqueue. */
static const char *except_enqueue(const struct bb_result_file *t)
{
    return t->n > 0 && same_text(t->rows->mode, "host")
               ? " (except the host's time to enqueue, measured on that machine)"
               : "";
}

/* Prints a note for each reason to doubt the times of a file: a prediction, emulated GPUs, a shared GPU, or times
 * that are not those of the slowest rank. of: "A: " or "B: " */
static void print_doubts(FILE *out, const char *of, const struct bb_result_file *t, bool emulated)
{
    if (bb_result_file_predicted(t))
        fprintf(out, "# %spredicted for %s (modelled, not measured)\n", of, bb_result_file_predicted(t));
    if (emulated)
        bb_print_emulated_note(out, of, except_enqueue(t));
    if (json_is_true(json_object_get(t->root, "shared_gpu")))
        fprintf(out, "# %sseveral ranks shared a GPU: times are meaningless\n", of);
    if (t->uses_wall)
        fprintf(out, "# %swall_us, by the host clock (one sample), because the other file has no time by the GPU's\n",
                of);
    if (bb_result_file_is_nccl_tests(t))
        fprintf(out,
                "# %snccl-tests reports the mean over the ranks unless -a was given; busbar reports the slowest rank\n",
                of);
}

static bool without_intervals(const struct bb_result_file *t)
{
    for (size_t i = 0; i < t->n; i++)
        if (!isnan(t->rows[i].time_us) && isnan(t->rows[i].low_us))
            return true;
    return false;
}

/* ---- JSON of a table row ---- */

static json_t *row_json(const struct row *row)
{
    json_t *object = json_object();

    bb_table_json(object, fields, row);
    return object;
}

static json_t *side_json(const struct bb_timing *t, bool is_health)
{
    json_t *interval = isnan(t->low_us) ? json_null() : json_pack("[f, f]", t->low_us, t->high_us);
    bool channels = t->algorithm && t->channels >= 0;

    return json_pack("{s:o, s:o, s:o, s:s?, s:o, s:o, s:s?, s:s?, s:o}", "p50_us",
                     bb_json_real(is_health ? NAN : t->time_us), "busbw_gbps", bb_json_real(t->busbw_gbps), "tflops",
                     bb_json_real(t->tflops), "clock", bb_clock_names[t->clock], "ci95_us", interval, "wrong",
                     t->wrong >= 0 ? json_integer(t->wrong) : json_null(), "algorithm", t->algorithm, "protocol",
                     t->protocol, "channels", channels ? json_integer(t->channels) : json_null());
}

/* ---- counts over all matched rows ---- */

/* The comparison of two files: the files, the matches of their rows (see bb_match_rows), and the counts over all matched
 * rows. */
struct comparison {
    const struct bb_result_file *a, *b;
    long *pair_a, *pair_b;
    size_t verdicts[BB_VERDICTS];
    size_t two_clocks;    /* rows whose times are by two clocks */
    size_t without_ratio; /* rows with a time of 0 or without a time */
    size_t only_a, only_b, pairs;
    json_t *
        not_compared; /* {"test", "of", "a", "b"}: tests of health whose sizes (bb_test_sizes) differ; not in only_a, only_b */
    enum bb_verdict *verdict_of; /* [a->n] verdicts of the matched rows */
    json_t *differences;         /* bb_provenance_differences */
    bool full;                   /* the text has all rows and differences */
    size_t shown, hidden;        /* number of rows in the text table, including rows above least_shown, and not in it */
    double least_shown;          /* smallest severity of a matched row in the text table */
    struct bb_culprits culprits; /* of the matched rows */
    struct bb_ratios correct;    /* time of B / time of A in the rows with correct data */
    struct bb_ratios slower;     /* time of B / time of A in the rows in which B is slower */
    json_t *checks;              /* one per row of A */
    bool strict;                 /* of struct bb_regression_threshold */
    double holm_limit;           /* rows with a larger p-value have no difference */
    double threshold_percent;
    double judged_percent; /* threshold in percent for rows without a confidence interval: --threshold; without that
                              option BB_HEALTH_PERCENT, BB_EQUAL_PERCENT or BB_SHORTFALL_PERCENT */
    struct bb_shortfall shortfall;
};

/* Formats the verdict, followed by " by ratio" if the row of A or B has no confidence interval, and by a note if
 * --threshold allows it. If NCCL chose
 * different algorithms or protocols in A and B, appends both choices as a possible cause. */
static const char *verdict_text(const struct comparison *t, const struct bb_timing *a, const struct bb_timing *b,
                                enum bb_verdict verdict, char text[VERDICT])
{
    const char *by = judged_by(a, b, verdict);
    const bool channels = a->channels >= 0 && b->channels >= 0;
    char before[CHOICE], after[CHOICE];
    const bool is_within = verdict == BB_SLOWER && b->time_us <= a->time_us * (1 + t->threshold_percent / 100);
    int used = snprintf(text, VERDICT, "%s%s%s", bb_verdict_names[verdict],
                        by && strcmp(by, "ratio") == 0 ? " by ratio" : "", is_within ? " (within --threshold)" : "");

    choice_text(a, channels, before);
    choice_text(b, channels, after);
    if (*before && *after && strcmp(before, after) != 0)
        snprintf(text + used, (size_t)(VERDICT - used), ": %s, was %s", after, before);
    return text;
}

/* Prints the causes of slow links that the results of bench p2p contain, or the slow GPUs of bench overlap. */
static void print_causes(const struct bb_result_file *t, FILE *out)
{
    const json_t *causes = json_object_get(t->root, "causes"), *c;
    size_t i;

    if (!causes && t->n > 0 && isnan(t->rows->slowdown)) /* the rows of bench compute name the GPU */
        causes = json_object_get(t->root, "slow_gpus");

    json_array_foreach(causes, i, c)
    {
        char text[BB_SLOW_TEXT];

        if (i == CAUSES_SHOWN)
            break;
        fprintf(out, "# B: cause: %s\n", bb_result_slow_text(c, text));
    }
    if (json_array_size(causes) > CAUSES_SHOWN)
        fprintf(out, "# B: %zu causes, listed in the file\n", json_array_size(causes));
}

static const char *value_text(const char *value)
{
    return !value ? "not set" : *value ? value : "empty";
}

/* If one file is a plan and the other the run of a proxy, prints the value of --compute for which both have the same kernels. */
static void print_same_kernels(const struct comparison *t, FILE *out)
{
    const struct bb_result_file *run = bb_result_file_predicted(t->a) ? t->b : t->a;

    if (!bb_result_file_predicted(t->a) != !bb_result_file_predicted(t->b))
        fprintf(out, "# for the same kernels: plan --compute %s\n",
                json_string_value(json_object_get(json_object_get(run->root, "options"), "compute")));
}

static void print_differences(const struct comparison *t, FILE *out)
{
    const size_t n = json_array_size(t->differences);
    const json_t *d;
    size_t i;

    if (n == 0)
        fprintf(out, "# versions, options%s and environment: equal where both files record them\n",
                bb_result_file_is_health(t->a) ? ", inventory" : "");
    json_array_foreach(t->differences, i, d)
    {
        if (i == DIFFERS_SHOWN && n > DIFFERS_SHOWN + 1 && !t->full) {
            fprintf(out, "# differs: %zu more: --full, --json (provenance)\n", n - i);
            break;
        }
        const char *of_a = json_string_value(json_object_get(d, "a")),
                   *of_b = json_string_value(json_object_get(d, "b"));

        fprintf(out, "# differs: %s: A %s, B %s\n", json_string_value(json_object_get(d, "what")), value_text(of_a),
                value_text(of_b));
        if (strcmp(json_string_value(json_object_get(d, "what")), "compute") == 0)
            print_same_kernels(t, out);
    }
}

static const struct bb_field *table_fields(const struct comparison *t)
{
    const json_t *row = json_array_get(json_object_get(t->a->root, "results"), 0);

    return bb_result_file_is_health(t->a) ? health_fields : json_object_get(row, "engine") ? copy_fields : fields;
}

static struct bb_rule rule_of(const struct comparison *t)
{
    const struct bb_result_file *a = t->a, *b = t->b;

    return (struct bb_rule){.kind = isnan(t->judged_percent)      ? BB_RULE_NONE /* they are inconclusive */
                                    : bb_result_file_is_health(a) ? BB_RULE_HEALTH
                                    : bb_result_file_predicted(a) || bb_result_file_predicted(b) ? BB_RULE_PREDICTED
                                    : without_intervals(a) || without_intervals(b)               ? BB_RULE_FEW_SAMPLES
                                                                                                 : BB_RULE_NONE,
                            .percent = t->judged_percent,
                            .by = isnan(t->threshold_percent) ? "default, see --threshold" : "--threshold"};
}

const char *bb_rule_text(const struct bb_rule *rule, const char *verdict, const char *ratio, char text[BB_RULE_TEXT])
{
    static const char *const around[][3] = {
        [BB_RULE_HEALTH] = {"a row is ", "", ""},
        [BB_RULE_PREDICTED] = {"predictions have no interval, so a row is ", "", ""},
        [BB_RULE_FEW_SAMPLES] = {"rows with fewer than 6 samples (nccl-tests: one mean) have no interval: ",
                                 " by ratio", ", which may be due to chance"}};

    text[0] = '\0';
    if (rule->kind != BB_RULE_NONE)
        snprintf(text, BB_RULE_TEXT, "%s%s%s if %s exceeds 1 + %g %% (%s)%s", around[rule->kind][0], verdict,
                 around[rule->kind][1], ratio, rule->percent, rule->by, around[rule->kind][2]);
    return text;
}

/* Returns whether a GPU of health has another number in B than in A. */
static bool numbers_differ(const struct comparison *t)
{
    for (size_t i = 0; i < t->a->n && bb_result_file_is_health(t->a); i++)
        if (t->pair_a[i] >= 0 && !same_text(t->a->rows[i].what, t->b->rows[t->pair_a[i]].what))
            return true;
    return false;
}

static void print_head(const struct comparison *t, FILE *out)
{
    const struct bb_result_file *a = t->a, *b = t->b;
    const bool both = is_emulated(a) && is_emulated(b);
    const struct bb_rule by = rule_of(t);
    char rule[BB_RULE_TEXT];

    fprintf(out, "# A %s%s\n# B %s\n", a->path,
            bb_result_file_predicted(a) && !bb_result_file_predicted(b) ? " (the prediction is A in any order)" : "",
            b->path);
    if (a->host)
        fputs(BB_OTHER_HOSTS_NOTE, out);
    if (numbers_differ(t))
        fputs("# GPUs are paired by PCI address; their numbers are those in A\n", out);
    print_differences(t, out);
    if (both)
        bb_print_emulated_note(out, "", except_enqueue(a));
    print_doubts(out, "A: ", a, is_emulated(a) && !both);
    print_doubts(out, "B: ", b, is_emulated(b) && !both);
    if (!bb_result_file_is_health(a) && !bb_result_file_predicted(a) && !bb_result_file_predicted(b) &&
        (!bb_result_file_is_nccl_tests(a) || !bb_result_file_is_nccl_tests(b)))
        fprintf(out,
                "# times are medians; faster, slower: the 95 %% intervals do not overlap, and the difference passes "
                "Holm's test over all rows (level %g %%)\n",
                100 * BB_FALSE_VERDICTS);
    if (*bb_rule_text(&by, bb_verdict_names[BB_SLOWER], bb_result_file_is_health(a) ? "A/B" : "B/A", rule))
        fprintf(out, "# %s%s\n", bb_result_file_is_health(a) ? "values in GB/s, of GEMM in TFLOP/s; " : "", rule);
    print_causes(b, out);
    fprintf(out, "#\n");
    bb_table_heading(out, table_fields(t));
}

static void count_verdict(struct comparison *t, const struct bb_timing *a, const struct bb_timing *b,
                          enum bb_verdict verdict)
{
    double ratio = b->time_us / a->time_us;

    t->pairs++;
    t->verdicts[verdict]++;
    t->two_clocks += has_two_clocks(a, b);
    if (verdict != BB_WRONG_DATA && !has_two_clocks(a, b) && isfinite(ratio) && ratio > 0) {
        bb_ratios_add(&t->correct, a, ratio, NAN);
        bb_shortfall_add(&t->shortfall, a, b);
    } else if (verdict != BB_WRONG_DATA && !has_two_clocks(a, b))
        t->without_ratio++;
    if (verdict == BB_SLOWER)
        bb_ratios_add(&t->slower, a, ratio, t->threshold_percent);
    bb_culprits_add(&t->culprits, a, b, verdict == BB_SLOWER);
}

/* ---- verdict of the whole comparison ---- */

enum outcome {
    INCOMPLETE,
    OTHER_MODEL,
    MISFIT,
    NO_ROW,
    WRONG,
    MIXED,
    SLOWER,
    FAILED,
    INCONCLUSIVE,
    MISSING,
    NOT_SLOWER,
    OUTCOMES
};

/* The outcomes that cause exit status 5 with --strict, and with --threshold; the status of their check, if they do not. For the
 * outcome SLOWER, only the rows above the threshold determine the exit status. */
static const struct {
    const char *name;
    bool fails_strict, fails_threshold;
    enum bb_check_status status;
} outcomes[OUTCOMES] = {
    [INCOMPLETE] = {"run incomplete", true, true, BB_CHECK_UNKNOWN},
    [OTHER_MODEL] = {"different model", true, true, BB_CHECK_UNKNOWN},
    [MISFIT] = {"does not fit", true, false, BB_CHECK_WARN},
    [NO_ROW] = {"no common row", true, true, BB_CHECK_UNKNOWN},
    [WRONG] = {BB_NAME_WRONG_DATA, true, true, BB_CHECK_WARN},
    [MIXED] = {"mixed", false, false, BB_CHECK_WARN},
    [SLOWER] = {BB_NAME_SLOWER, false, false, BB_CHECK_WARN},
    [FAILED] = {"run failed", true, true, BB_CHECK_FAIL},
    [INCONCLUSIVE] = {BB_NAME_INCONCLUSIVE, true, false, BB_CHECK_UNKNOWN},
    [MISSING] = {"rows missing in B", true, false, BB_CHECK_OK},
    [NOT_SLOWER] = {BB_NAME_NOT_SLOWER, false, false, BB_CHECK_OK},
};

#define BELOW ", status 'below threshold'"

static enum outcome outcome_of(const struct comparison *t)
{
    const bool slower = isnan(t->threshold_percent) ? t->verdicts[BB_SLOWER] > 0 : t->slower.over > 0;
    const bool holds[OUTCOMES] = {
        [INCOMPLETE] = bb_incomplete_status(t->a->root) || bb_incomplete_status(t->b->root),
        [OTHER_MODEL] = !bb_result_file_same_model(t->a, t->b),
        [MISFIT] = json_is_false(bb_sweep_follow(t->b->root, "predicted.memory.fits")),
        [NO_ROW] = t->pairs == 0,
        [WRONG] = t->verdicts[BB_WRONG_DATA] > 0,
        [MIXED] = slower && t->verdicts[BB_FASTER] > 0,
        [SLOWER] = slower,
        [FAILED] = !isnan(t->threshold_percent) && bb_is_below_threshold(t->b->root),
        [INCONCLUSIVE] = t->verdicts[BB_INCONCLUSIVE] > 0,
        [MISSING] = t->only_a > 0,
        [NOT_SLOWER] = true,
    };
    int outcome = 0;

    while (!holds[outcome])
        outcome++;
    return (enum outcome)outcome;
}

/* Writes how the jobs differ in size to text: "ranks differ: A 4, B 2"; "" if they are equal or unknown. Returns text. */
static const char *job_text(const struct comparison *t, char text[JOB])
{
    const json_t *d;
    size_t i;

    *text = '\0';
    json_array_foreach(t->differences, i, d)
    {
        const char *what = json_string_value(json_object_get(d, "what"));
        const char *a = json_string_value(json_object_get(d, "a")), *b = json_string_value(json_object_get(d, "b"));

        if (!*text && (strcmp(what, "ranks") == 0 || strcmp(what, "nodes") == 0))
            snprintf(text, JOB, "%s differ: A %.24s, B %.24s", what, a, b);
    }
    return text;
}

/* Returns the option that rejects the outcome and writes the reason to text; NULL: accepted. */
static const char *rejected_by(const struct comparison *t, bool strict, char reason[BB_REJECTED_TEXT])
{
    const enum outcome outcome = outcome_of(t);
    const char *why = json_string_value(json_object_get(t->b->root, "reason"));

    snprintf(reason, BB_REJECTED_TEXT, "%s%s", outcomes[outcome].name,
             outcome == INCOMPLETE && bb_incomplete_status(t->a->root) ? " (of the first file)" : "");
    if (outcome == FAILED)
        snprintf(reason, BB_REJECTED_TEXT, "%s" BELOW "%s%.240s", outcomes[outcome].name, why ? ": " : "",
                 why ? why : "");
    if (!isnan(t->threshold_percent) && outcomes[outcome].fails_threshold)
        return "--threshold";
    if (strict && (outcomes[outcome].fails_strict || *job_text(t, reason)))
        return "--strict";
    return NULL;
}

/* ---- the rows ---- */

/* Returns the row of B that matches row i of A; NULL: none, or neither has a time, such as steps of bench comm that this
 * NCCL lacks. */
static const struct bb_timing *match_of(const struct comparison *t, size_t i)
{
    const struct bb_timing *a = &t->a->rows[i], *b = t->pair_a[i] < 0 ? NULL : &t->b->rows[t->pair_a[i]];

    return !b || (isnan(a->time_us) && isnan(b->time_us) && a->wrong <= 0 && b->wrong <= 0) ? NULL : b;
}

static enum bb_verdict judge(const struct comparison *t, const struct bb_timing *a, const struct bb_timing *b)
{
    enum bb_verdict verdict = bb_verdict_of(a, b, t->judged_percent);

    if ((verdict == BB_FASTER || verdict == BB_SLOWER) && has_intervals(a, b) && p_value(a, b) > t->holm_limit)
        verdict = BB_SAME;
    if (verdict == BB_SAME && b->time_us / a->time_us > 1 + t->threshold_percent / 100)
        verdict = BB_INCONCLUSIVE; /* too few or too different samples to exclude a slowdown above the threshold */
    return verdict;
}

/* Returns the order of the rows in a table of the worst: wrong data first, then slower rows, then the largest change. */
static double severity_of(const struct bb_timing *a, const struct bb_timing *b, enum bb_verdict verdict)
{
    const double change = fabs(log(b->time_us / a->time_us));

    return verdict == BB_WRONG_DATA ? INFINITY : (isfinite(change) ? change : 0) + (verdict == BB_SLOWER ? 1e3 : 0);
}

/* Sets the verdicts of the matched rows, their counts, and least_shown. */
static void judge_rows(struct comparison *t)
{
    double *severity;
    size_t n = 0;

    BB_NEW(t->verdict_of, t->a->n);
    BB_NEW(severity, t->a->n);
    for (size_t i = 0; i < t->a->n; i++) {
        const struct bb_timing *a = &t->a->rows[i], *b = match_of(t, i);

        if (!b)
            continue;
        t->verdict_of[i] = judge(t, a, b);
        count_verdict(t, a, b, t->verdict_of[i]);
        severity[n++] = severity_of(a, b, t->verdict_of[i]);
    }
    bb_sort_doubles(severity, n);
    t->full = t->full || n + t->only_a + t->only_b <= ROWS_ALL;
    t->least_shown = n > ROWS_WORST ? severity[n - ROWS_WORST] : -INFINITY;
    for (size_t i = 0; i < n; i++)
        t->shown += severity[i] > t->least_shown;
    free(severity);
}

/* Rows of health are rates, so that A/B is the ratio of times. */
static const char *ratio_name(const struct comparison *t)
{
    return bb_result_file_is_health(t->a) ? "A/B" : "B/A";
}

/* Adds a check of a row of A. b: NULL: B lacks the row. text: its verdict. */
static void add_check(struct comparison *t, const struct bb_timing *a, const struct bb_timing *b,
                      enum bb_verdict verdict, const char *text)
{
    const bool limited = !isnan(t->threshold_percent),
               over = b && b->time_us > a->time_us * (1 + t->threshold_percent / 100);
    const enum bb_check_status statuses[BB_VERDICTS] = {
        [BB_SLOWER] = limited && over ? BB_CHECK_FAIL : BB_CHECK_WARN,
        [BB_INCONCLUSIVE] = t->strict ? BB_CHECK_FAIL : BB_CHECK_UNKNOWN,
        [BB_WRONG_DATA] = limited || t->strict ? BB_CHECK_FAIL : BB_CHECK_WARN};
    const bool is_health = bb_result_file_is_health(t->a);
    const char *unit = !is_health ? "us" : isnan(a->tflops) ? "GB/s" : "TFLOP/s";
    const double measured = !b          ? NAN
                            : is_health ? 1e6 / b->time_us
                                        : b->time_us,
                 expected = is_health ? 1e6 / a->time_us : a->time_us;
    const double ratio = b ? b->time_us / a->time_us : NAN, most = 1 + t->threshold_percent / 100;
    char size[BB_TIMING_SIZE], name[256], reason[256], limit[48] = "";

    snprintf(name, sizeof name, "%s%s %s %s %s %s", a->what, bb_timing_size(a, size), a->dtype ? a->dtype : "-",
             a->op ? a->op : "-", a->placement ? a->placement : "-", a->mode ? a->mode : "-");
    if (is_health)
        snprintf(name, sizeof name, "%s", a->what);
    if (limited)
        snprintf(limit, sizeof limit, ", required at most %g", most);
    snprintf(reason, sizeof reason,
             isfinite(measured) && isfinite(expected) ? "%s (%s %.*f%s: A %.6g %s, B %.6g %s)" : "%s", text,
             ratio_name(t), bb_decimals_beside(ratio, most, 3), ratio, limit, expected, unit, measured, unit);
    bb_checks_add(t->checks, &(struct bb_check){.check = name,
                                                .status = statuses[verdict],
                                                .measured = measured,
                                                .expected = expected,
                                                .unit = unit,
                                                .reason = reason});
}

/* Returns `out` if the text table has a row of this severity; otherwise counts the row and returns NULL. */
static FILE *table_of(struct comparison *t, double severity, FILE *out)
{
    const bool tie = severity == t->least_shown;
    const bool shown = t->full || severity > t->least_shown || (tie && t->shown < ROWS_WORST);

    t->shown += shown && tie;
    t->hidden += !shown;
    return shown ? out : NULL;
}

struct ranked {
    size_t row; /* of A */
    double severity;
};

static int compare_ranked(const void *x, const void *y)
{
    const struct ranked *a = x, *b = y;

    if (a->severity != b->severity)
        return a->severity < b->severity ? 1 : -1;
    return a->row < b->row ? -1 : a->row > b->row;
}

/* Prints the matched rows: all in the order of A, or the worst, those first. */
static void print_common(struct comparison *t, FILE *out)
{
    char text[VERDICT];
    struct ranked *order;
    size_t n = 0;

    BB_NEW(order, t->a->n);
    for (size_t i = 0; i < t->a->n; i++)
        if (match_of(t, i))
            order[n++] = (struct ranked){i, severity_of(&t->a->rows[i], match_of(t, i), t->verdict_of[i])};
    if (!t->full || bb_result_file_is_health(t->a))
        qsort(order, n, sizeof *order, compare_ranked);
    for (size_t k = 0; k < n; k++) {
        const struct bb_timing *a = &t->a->rows[order[k].row], *b = match_of(t, order[k].row);
        const struct row row =
            make_row(a, a->time_us, b->time_us, verdict_text(t, a, b, t->verdict_of[order[k].row], text));

        bb_table_row(table_of(t, order[k].severity, out), table_fields(t), &row);
    }
    free(order);
}

static int put_common(struct comparison *t, struct bb_results *results)
{
    char text[VERDICT];
    struct row row;
    int rc = 0;

    for (size_t i = 0; i < t->a->n && rc == 0; i++) {
        const struct bb_timing *a = &t->a->rows[i], *b = match_of(t, i);
        const enum bb_verdict verdict = t->verdict_of[i];

        if (!b)
            continue;
        row = make_row(a, a->time_us, b->time_us, verdict_text(t, a, b, verdict, text));
        add_check(t, a, b, verdict, text);
        if (!results)
            continue;
        row.a = side_json(a, bb_result_file_is_health(t->a));
        row.b = side_json(b, bb_result_file_is_health(t->a));
        row.ratio = bb_json_real(row.times);
        row.verdict = json_string(bb_verdict_names[verdict]);
        row.judged_by = json_pack("s?", judged_by(a, b, verdict));
        rc = bb_results_row(results, row_json(&row));
    }
    return rc;
}

/* Writes one of the two sizes of an entry of not_compared, key "a" or "b", to text. Returns text. */
static const char *size_text(const json_t *entry, const char *key, char text[BB_BYTES_TEXT])
{
    const json_int_t size = json_integer_value(json_object_get(entry, key));

    if (strcmp(json_string_value(json_object_get(entry, "of")), "bytes") == 0)
        return bb_format_bytes((size_t)size, text);
    snprintf(text, BB_BYTES_TEXT, "%d", (int)size);
    return text;
}

/* Adds a check of a row that is not compared. */
static void add_uncompared_check(struct comparison *t, const struct bb_timing *a, const json_t *entry)
{
    char reason[JOB], of_a[BB_BYTES_TEXT], of_b[BB_BYTES_TEXT];

    snprintf(reason, sizeof reason, "not compared: %s: A %s, B %s", json_string_value(json_object_get(entry, "of")),
             size_text(entry, "a", of_a), size_text(entry, "b", of_b));
    bb_checks_add(
        t->checks,
        &(struct bb_check){
            .check = a->what, .status = BB_CHECK_UNKNOWN, .measured = NAN, .expected = NAN, .reason = reason});
}

/* Prints the rows without a match that one of the two files contains, and returns them as a JSON list.
 *   file  A or B  */
static json_t *put_unmatched(struct comparison *t, const struct bb_result_file *file, FILE *out)
{
    const bool is_a = file == t->a;
    const long *pair = is_a ? t->pair_a : t->pair_b;
    json_t *list = json_array();

    for (size_t i = 0; i < file->n; i++) {
        const double us = file->rows[i].time_us;
        const struct row row =
            make_row(&file->rows[i], is_a ? us : NAN, is_a ? NAN : us, is_a ? "only in A" : "only in B");

        if (pair[i] < 0 && is_a && uncompared(t->not_compared, &file->rows[i]))
            add_uncompared_check(t, &file->rows[i], uncompared(t->not_compared, &file->rows[i]));
        if (pair[i] >= 0 || uncompared(t->not_compared, &file->rows[i]))
            continue;
        bb_table_row(table_of(t, -INFINITY, out), table_fields(t), &row);
        if (is_a)
            add_check(t, &file->rows[i], NULL, BB_INCONCLUSIVE, "only in A");
        json_array_append_new(list, row_json(&row));
    }
    return list;
}

/* Writes the ranks and hosts of a group of bench --split in B to text: " (ranks 2-3 on node1)"; "": unknown. Returns text. */
static const char *members_text(const struct comparison *t, long long group, char text[BB_GROUP_TEXT + 3])
{
    const json_t *entry;
    char members[BB_GROUP_TEXT];
    size_t i;

    *text = '\0';
    json_array_foreach(json_object_get(t->b->root, "groups"), i, entry)
    {
        if (group >= 0 && group == json_integer_value(json_object_get(entry, "group")) &&
            json_is_array(json_object_get(entry, "hosts")))
            snprintf(text, BB_GROUP_TEXT + 3, " (%s)", bb_group_members_text(entry, members));
    }
    return text;
}

/* Writes the worst row and its ratio to text: "all_reduce group 1 (ranks 2-3 on node1) 64 MiB: +60.6 %", with more decimals
 * next to the threshold. */
static void worst_text(const struct comparison *t, const struct bb_ratios *ratios, char text[BB_WORST_TEXT])
{
    const struct bb_timing *worst = ratios->worst;
    const double percent = 100 * (ratios->worst_ratio - 1);
    char size[BB_TIMING_SIZE], members[BB_GROUP_TEXT + 3];

    snprintf(text, BB_WORST_TEXT, "%.100s%s%s: %+.*f %%", worst->what, members_text(t, worst->group, members),
             bb_timing_size(worst, size), bb_decimals_beside(percent, t->threshold_percent, 1), percent);
}

/* Writes "; rank 6 (node3) is in 18 of 18 slower rows", if slower rows have ranks or hosts in common. Rows of rails and of the
 * whole job have none, and are not counted. */
static const char *culprit_text(const struct comparison *t, char text[BB_CULPRIT_TEXT])
{
    const struct bb_culprit culprit = bb_culprits_find(&t->culprits);
    const size_t common = t->verdicts[BB_SLOWER] - t->culprits.rows;
    char others[80] = "";

    *text = '\0';
    if (common > 0 && !bb_result_file_is_health(t->b))
        snprintf(others, sizeof others, " with a known rank, %zu more %s none", common, common == 1 ? "has" : "have");
    else if (common > 0)
        snprintf(others, sizeof others, " about nodes, %zu more %s about rails or the job", common,
                 common == 1 ? "is" : "are");
    if (culprit.n > 0)
        snprintf(text, BB_CULPRIT_TEXT, "; %s %s in %lld of %zu slower rows%s", culprit.name,
                 culprit.n == 1 ? "is" : "are", culprit.rows, t->culprits.rows, others);
    return text;
}

/* Prints the variables that can lower the bandwidth, also if both files have them. */
static void print_restrictions(const struct comparison *t, FILE *out)
{
    char *a = bb_json_restrictions(json_object_get(t->a->root, "environment"), NULL),
         *b = bb_json_restrictions(json_object_get(t->b->root, "environment"), NULL);

    if (a || b)
        fprintf(out, "# restricted: A by %s; B by %s\n", a ? a : "nothing", b ? b : "nothing");
    free(a);
    free(b);
}

/* Prints the last line, which states how many rows the verdict is about: "mixed (4 faster, 3 slower of 20 rows)". */
static void print_verdict(const struct comparison *t, FILE *out)
{
    const enum outcome outcome = outcome_of(t);
    char worst[BB_WORST_TEXT], culprit[BB_CULPRIT_TEXT], job[JOB];

    fprintf(out, "# verdict: %s%s", outcomes[outcome].name, outcome == FAILED ? BELOW : "");
    if (!isnan(t->threshold_percent) && (outcome == SLOWER || outcome == NOT_SLOWER))
        fprintf(out, " by more than %g %%", t->threshold_percent);
    if (t->pairs > 0 && outcome >= WRONG) {
        fprintf(out, " (%zu faster, %zu slower of %zu row%s", t->verdicts[BB_FASTER], t->verdicts[BB_SLOWER], t->pairs,
                bb_plural(t->pairs));
        if (t->slower.over < t->slower.n && (t->slower.over > 0 || outcome == FAILED))
            fprintf(out, ", %zu by more than %g %%", t->slower.over, t->threshold_percent);
        if (t->slower.worst) {
            worst_text(t, &t->slower, worst);
            fprintf(out, "; slowest %s time%s", worst, culprit_text(t, culprit));
        } else if (t->verdicts[BB_FASTER] > 0) {
            fprintf(out, "; mean %s %.3f", ratio_name(t), bb_ratios_mean(&t->correct));
        }
        fputc(')', out);
    }
    if (t->a->host)
        fprintf(out, "; A %s, B %s", t->a->host, t->b->host);
    fprintf(out, "%s%s\n", *job_text(t, job) ? "; " : "", job);
}

/* Returns the larger number of samples per row of the two runs, at least 5. Four times as many halve an interval. */
static long long max_repeats(const struct comparison *t)
{
    long long most = 5;

    for (int i = 0; i < 2; i++) {
        const json_int_t n = json_integer_value(bb_sweep_follow((i ? t->b : t->a)->root, "options.repeats"));

        most = n > most ? n : most;
    }
    return most;
}

/* Writes why rows are inconclusive and what helps. Returns text. */
static const char *doubt_text(const struct comparison *t, char text[DOUBT])
{
    if (t->two_clocks)
        snprintf(text, DOUBT,
                 "the clocks differ, and the host clock includes launches and the final wait; try: busbar bench "
                 "--clock both, or --clock host");
    else if (!isnan(t->threshold_percent))
        snprintf(text, DOUBT, "the samples do not exclude a slowdown above %g %%; try: more samples (--repeats %lld)",
                 t->threshold_percent, 4 * max_repeats(t));
    else
        snprintf(text, DOUBT, "no time in A or in B, or steps without an interval (fewer than 6); try: --threshold");
    return text;
}

/* Prints the tests that are not compared: "# not compared, because the number of nodes differs: all_reduce of all GPUs (A 4, B 2)". */
static void print_uncompared(const struct comparison *t, FILE *out)
{
    const json_t *entry;
    size_t i;

    for (int size = 0; size < BB_TEST_SIZES; size++) {
        bool any = false;

        json_array_foreach(t->not_compared, i, entry)
        {
            char of_a[BB_BYTES_TEXT], of_b[BB_BYTES_TEXT];

            if (strcmp(json_string_value(json_object_get(entry, "of")), bb_test_sizes[size].name) != 0)
                continue;
            fprintf(out, any ? "; " : "# not compared, because the %s differs: ", bb_test_sizes[size].text);
            fprintf(out, "%s (A %s, B %s)", json_string_value(json_object_get(entry, "test")),
                    size_text(entry, "a", of_a), size_text(entry, "b", of_b));
            any = true;
        }
        fputs(any ? "\n" : "", out);
    }
}

static void print_summary(const struct comparison *t, FILE *out)
{
    const size_t *v = t->verdicts;
    char doubt[DOUBT];

    fprintf(out, "#\n# %zu faster, %zu slower, %zu without a difference, %zu inconclusive", v[BB_FASTER], v[BB_SLOWER],
            v[BB_SAME], v[BB_INCONCLUSIVE]);
    if (v[BB_WRONG_DATA])
        fprintf(out, ", %zu with wrong data", v[BB_WRONG_DATA]);
    fprintf(out, "; only in A %zu, only in B %zu\n", t->only_a, t->only_b);
    print_uncompared(t, out);
    if (t->hidden)
        fprintf(out, "# %zu more row%s: --full, --json, --csv\n", t->hidden, bb_plural(t->hidden));
    if (t->only_a && t->only_b && t->a->n && t->a->rows->same_node >= 0)
        fprintf(out, "# links that are inside a node in one file and between nodes in the other are not compared\n");
    if (t->correct.n)
        fprintf(out, "# %s: %.3f, geometric mean of %zu row%s", ratio_name(t), bb_ratios_mean(&t->correct),
                t->correct.n, bb_plural(t->correct.n));
    if (t->correct.n && t->without_ratio)
        fprintf(out, "; without %zu row%s whose time is 0 or unknown (0 bytes)", t->without_ratio,
                bb_plural(t->without_ratio));
    fputs(t->correct.n ? "\n" : "", out);
    bb_shortfall_print(&t->shortfall, out);
    if (t->verdicts[BB_INCONCLUSIVE])
        fprintf(out, "# inconclusive: %s\n", doubt_text(t, doubt));
    print_restrictions(t, out);
    print_verdict(t, out);
}

static json_t *summary_json(const struct comparison *t)
{
    const struct bb_culprit culprit = bb_culprits_find(&t->culprits);
    const size_t *v = t->verdicts;

    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:s?, s:o, s:s}", "faster",
                     (json_int_t)v[BB_FASTER], "slower", (json_int_t)v[BB_SLOWER], "no_difference",
                     (json_int_t)v[BB_SAME], "inconclusive", (json_int_t)v[BB_INCONCLUSIVE], "wrong_data",
                     (json_int_t)v[BB_WRONG_DATA], "only_a", (json_int_t)t->only_a, "only_b", (json_int_t)t->only_b,
                     "over_threshold", (json_int_t)t->slower.over, "worst_ratio",
                     bb_json_real(t->slower.worst ? t->slower.worst_ratio : NAN), "geometric_mean_ratio",
                     bb_json_real(bb_ratios_mean(&t->correct)), "against_prediction", bb_shortfall_json(&t->shortfall),
                     "culprit", culprit.n > 0 ? culprit.name : NULL, "culprit_rows",
                     culprit.n > 0 ? json_integer(culprit.rows) : json_null(), "verdict", outcomes[outcome_of(t)].name);
}

static int check_criteria(const struct comparison *t, bool strict)
{
    const struct bb_ratios *slower = &t->slower;
    char worst[BB_WORST_TEXT], culprit[BB_CULPRIT_TEXT], reason[BB_REJECTED_TEXT], wrong[64] = "", text[DOUBT];
    const char *option = rejected_by(t, strict, reason);
    const bool doubt = outcome_of(t) == INCONCLUSIVE;

    if (slower->over > 0) {
        worst_text(t, slower, worst);
        if (t->verdicts[BB_WRONG_DATA] > 0)
            snprintf(wrong, sizeof(wrong), "%zu with wrong data, ", t->verdicts[BB_WRONG_DATA]);
        return bb_err(BB_EBELOW, "%s%zu row%s slower by more than %g %%, worst: %s time%s", wrong, slower->over,
                      bb_plural(slower->over), t->threshold_percent, worst, culprit_text(t, culprit));
    }
    if (option && outcome_of(t) == FAILED)
        return bb_err(BB_EBELOW, "%s: %s: %s", option, t->b->path, reason);
    if (option)
        return bb_err(BB_EBELOW, "%s: %s (%zu common row%s, %zu inconclusive, %zu with wrong data, %zu only in A)%s%s",
                      option, reason, t->pairs, bb_plural(t->pairs), t->verdicts[BB_INCONCLUSIVE],
                      t->verdicts[BB_WRONG_DATA], t->only_a, doubt ? ": " : "", doubt ? doubt_text(t, text) : "");
    return 0;
}

/* Writes how the first rows of two files differ: "; A begins with all_reduce, B with latency 0>1 one". */
static void first_rows_text(const struct bb_timing *a, const struct bb_timing *b, char *text, size_t size)
{
    if (!same_text(a->what, b->what))
        snprintf(text, size, "; A begins with %.40s, B with %.40s", a->what, b->what);
    else if (a->mode && b->mode && strcmp(a->mode, b->mode) != 0)
        snprintf(text, size, "; A: mode %.16s, B: mode %.16s", a->mode, b->mode);
}

/* Warns about files of incomplete runs and if no row of A matches a row of B, independently of --strict. */
static void warn_of_gaps(const struct comparison *t)
{
    const struct bb_result_file *files[] = {t->a, t->b};
    json_int_t gemms[2];
    char hint[128] = "";

    for (int i = 0; i < 2; i++) {
        const json_t *first = json_array_get(json_object_get(files[i]->root, "results"), 0);

        bb_warn_if_incomplete(files[i]->path, files[i]->root, i == 0);
        gemms[i] = json_integer_value(json_object_get(first, "gemms"));
    }
    if (gemms[0] > 0 && gemms[1] > 0 && gemms[0] != gemms[1])
        snprintf(hint, sizeof(hint), "; try: --gemms %lld in both runs", (long long)gemms[0]);
    if (!bb_result_file_same_model(t->a, t->b))
        snprintf(hint, sizeof(hint), ": their models differ");
    if (!*hint && t->a->n > 0 && t->b->n > 0)
        first_rows_text(t->a->rows, t->b->rows, hint, sizeof(hint));
    if (t->pairs == 0)
        bb_warn("%s and %s have no common row%s", t->a->path, t->b->path, hint);
}

/* Sets holm_limit: compare.h. */
static void correct_for_rows(struct comparison *t)
{
    double *p;
    size_t n = 0;

    BB_NEW(p, t->a->n);
    for (size_t i = 0; i < t->a->n; i++) {
        const struct bb_timing *a = &t->a->rows[i], *b = t->pair_a[i] < 0 ? NULL : &t->b->rows[t->pair_a[i]];

        if (b && has_intervals(a, b))
            p[n++] = p_value(a, b);
    }
    t->holm_limit = bb_holm_limit(p, n, BB_FALSE_VERDICTS);
    free(p);
}

static void init_comparison(struct comparison *t, const struct bb_result_file *a, const struct bb_result_file *b,
                            double threshold_percent)
{
    json_t *left = bb_provenance_of(a), *right = bb_provenance_of(b), *others = bb_provenance_differences(left, right);

    *t = (struct comparison){.a = a,
                             .b = b,
                             .threshold_percent = threshold_percent,
                             .differences = bb_inventory_differences(a->root, b->root)};
    json_array_extend(t->differences, others);
    json_decref(left);
    json_decref(right);
    json_decref(others);
    BB_NEW(t->pair_a, a->n);
    BB_NEW(t->pair_b, b->n);
    t->not_compared = bb_match_rows(a, b, t->pair_a, t->pair_b);
    for (size_t i = 0; i < a->n; i++)
        t->only_a += t->pair_a[i] < 0 && !uncompared(t->not_compared, &a->rows[i]);
    for (size_t i = 0; i < b->n; i++)
        t->only_b += t->pair_b[i] < 0 && !uncompared(t->not_compared, &b->rows[i]);
    bb_shortfall_init(&t->shortfall, a, b, threshold_percent);
    t->judged_percent = t->shortfall.known ? t->shortfall.percent : threshold_percent;
    if (isnan(t->judged_percent) && bb_result_file_is_health(a))
        t->judged_percent = BB_HEALTH_PERCENT;
    if (isnan(t->judged_percent) && bb_result_file_predicted(a))
        t->judged_percent = BB_EQUAL_PERCENT;
    if (isnan(t->judged_percent) &&
        !bb_result_file_is_step(a)) /* a few steps: their times are random, print the reason */
        t->judged_percent = BB_SHORTFALL_PERCENT;
    correct_for_rows(t);
    judge_rows(t);
}

static void release_comparison(struct comparison *t)
{
    bb_shortfall_release(&t->shortfall);
    bb_culprits_release(&t->culprits);
    json_decref(t->checks);
    json_decref(t->not_compared);
    json_decref(t->differences);
    free(t->verdict_of);
    free(t->pair_a);
    free(t->pair_b);
}

/* Returns the mean bus bandwidth of the matched rows of B; NaN: none has one, or they are of the tests of health. */
static double mean_busbw(const struct comparison *t)
{
    double sum = 0;
    size_t n = 0;

    for (size_t i = 0; i < t->a->n && !bb_result_file_is_health(t->b); i++) {
        const struct bb_timing *b = match_of(t, i);

        if (b && !isnan(b->busbw_gbps)) {
            sum += b->busbw_gbps;
            n++;
        }
    }
    return n > 0 ? sum / (double)n : NAN;
}

void bb_compared_doubt(struct bb_compared *c, bool strict)
{
    c->row = BB_INCONCLUSIVE;
    c->verdict = outcomes[INCONCLUSIVE].name;
    c->order = INCONCLUSIVE;
    c->status = outcomes[INCONCLUSIVE].status;
    c->rejected_by = strict ? "--strict" : NULL;
    snprintf(c->reason, sizeof(c->reason), "%s", c->verdict);
}

struct bb_compared bb_compare_count(const struct bb_result_file *a, const struct bb_result_file *b,
                                    const struct bb_regression_threshold *threshold)
{
    struct bb_compared found;
    struct comparison t;
    enum outcome outcome;

    init_comparison(&t, a, b, threshold->threshold_percent);
    if (bb_result_file_is_step(a)) /* steps on different numbers of GPUs are compared by their GPU seconds */
        json_array_clear(t.differences);
    outcome = outcome_of(&t);
    found = (struct bb_compared){.rows = (long)t.pairs,
                                 .faster = (long)t.verdicts[BB_FASTER],
                                 .slower = (long)t.verdicts[BB_SLOWER],
                                 .ratio = bb_ratios_mean(&t.correct),
                                 .worst_ratio = t.correct.worst ? t.correct.worst_ratio : NAN,
                                 .busbw_gbps = mean_busbw(&t),
                                 .row = BB_VERDICTS,
                                 .verdict = outcomes[outcome].name,
                                 .status = outcomes[outcome].status,
                                 .order = (int)(outcome == MIXED ? SLOWER : outcome), /* their largest ratio decides */
                                 .over = t.slower.over};
    found.rejected_by = rejected_by(&t, threshold->strict, found.reason);
    found.rule = rule_of(&t);
    if (t.correct.worst)
        worst_text(&t, t.slower.worst ? &t.slower : &t.correct, found.worst);
    culprit_text(&t, found.culprit);
    if (outcome == OTHER_MODEL) {
        found.ratio = found.worst_ratio = NAN;
        found.over = 0;
    }
    for (int v = 0; v < BB_VERDICTS && t.pairs == 1 && outcome >= SLOWER && outcome != FAILED && outcome != MISSING;
         v++)
        if (t.verdicts[v] > 0) {
            found.row = (enum bb_verdict)v;
            found.verdict = bb_verdict_names[v];
            found.status = v == BB_SLOWER ? BB_CHECK_WARN : found.status; /* also within the threshold */
        }
    release_comparison(&t);
    return found;
}

int bb_compare(const struct bb_result_file *a, const struct bb_result_file *b,
               const struct bb_regression_threshold *threshold, bool full, FILE *out, struct bb_results *results)
{
    struct comparison t;
    json_t *only_a, *only_b;
    int rc;

    init_comparison(&t, a, b, threshold->threshold_percent);
    t.full = t.full || full;
    t.strict = threshold->strict;
    t.checks = json_array();
    if (out)
        print_head(&t, out);
    print_common(&t, out);
    TRY(put_common(&t, results));
    only_a = put_unmatched(&t, a, out);
    only_b = put_unmatched(&t, b, out);
    if (out)
        print_summary(&t, out);
    TRY(bb_results_set_all(results, json_pack("{s:o, s:o, s:O, s:o, s:O, s:O, s:{s:o, s:o}}", "only_a", only_a,
                                              "only_b", only_b, "not_compared", t.not_compared, "summary",
                                              summary_json(&t), "checks", t.checks, "provenance", t.differences,
                                              "files", "a", bb_result_run(a), "b", bb_result_run(b))));
    warn_of_gaps(&t);
    TRY(check_criteria(&t, threshold->strict));
out:
    release_comparison(&t);
    return rc;
}

/* ---- options and main function of the command ---- */

struct options {
    const char *json, *csv, *junit, *prometheus;
    double threshold_percent;
    bool quiet, strict, full;
};

#define FIELD(name) offsetof(struct options, name)
static const struct bb_opt rows[] = {
    OPT_DOUBLE(
        0, "threshold", FIELD(threshold_percent), "-1", "PERCENT", -1, 1e6,
        "exit with status 5 if a row of B (of any further file) is slower by more than PERCENT and its "
        "interval, if any, does not overlap that of A; also if a run is incomplete, data is wrong, or the files "
        "have no common row; -1 (default): never, and rows without interval are judged by 10 %, "
        "results of health by 3 %, and predictions by 0.5 % and by the mean error on published steps (not if only "
        "--set, --slow, --delay or --jitter differ)"),
    OPT_FLAG(0, "strict", FIELD(strict),
             "exit with status 5 also if a run is incomplete, the numbers of ranks or nodes or the models differ, a "
             "plan does not fit in GPU memory, the files have no common row, data is wrong, or a row is inconclusive "
             "or missing in B"),
    OPT_FLAG(0, "full", FIELD(full), "print all rows and differences; default: the answer in at most 25 lines"),
    OPT_OUTPUT_DASH(0, "json", FIELD(json), "write the comparison as JSON, - for stdout" BB_PRIVATE_HELP),
    OPT_OUTPUT_DASH(0, "csv", FIELD(csv), "write the rows as CSV, - for stdout" BB_CSV_HELP),
    OPT_OUTPUT(0, "junit", FIELD(junit), "write a check for each row as JUnit XML, for CI"),
    OPT_OUTPUT(0, "prometheus", FIELD(prometheus),
               "write the checks as Prometheus metrics, for the textfile collector of node_exporter"),
    OPT_FLAG(0, "quiet", FIELD(quiet), "print no table"),
    {0},
};

static const struct bb_opt_table tables[] = {{.title = "Options", .opts = rows}, {0}};

static const struct bb_opts set = {
    .usage = "busbar compare FILE FILE... [OPTION...]",
    .doc =
        "Is B faster or slower than A? Compares two result files row by row by the confidence intervals of the\n"
        "medians. Several files, or two steps (busbar plan PROXY, busbar proxy): a table with one line per file: the\n"
        "options that differ, step time, ratio to the first file, throughput, memory and exposed time by cause; of "
        "four or\n"
        "more, such as those of several nights, also the last one against the range of all files before it.\n"
        "Reads JSON of busbar bench, busbar proxy, busbar health, busbar plan --cluster (predictions) and nccl-tests,\n"
        "and nccl-tests' printed output. FILE - is stdin.",
    .exits = {BB_EXITS_OFFLINE, [5] = "a file is slower than --threshold allows, or failed, or --strict is not met"},
    .examples = "Fail if a row is slower by more than 5 % after an upgrade:\n"
                "  busbar compare before.json after.json --threshold 5 --strict\n"
                "Table of the predictions for several layouts:\n"
                "  busbar compare tp2.json tp4.json tp8.json\n",
    .tables = tables,
};

static bool any_is(const struct bb_result_file *files, int n, const char *key)
{
    for (int i = 0; i < n; i++)
        if (json_is_true(json_object_get(files[i].root, key)))
            return true;
    return false;
}

/* Returns whether the files are compared row by row: two files that are not both steps of the same kind (predicted or
 * measured). */
static bool by_rows(const struct bb_result_file *files, int n)
{
    return n == 2 && (!bb_result_file_is_step(&files[0]) || !bb_result_file_is_step(&files[1]) ||
                      !bb_result_file_predicted(&files[0]) != !bb_result_file_predicted(&files[1]));
}

static int compare_files(const struct options *o, struct bb_result_file *files, int n, int argc, char **argv)
{
    struct bb_results_head head = {.schema = "busbar.compare/1",
                                   .path = o->json,
                                   .csv = o->csv,
                                   .junit = o->junit,
                                   .prometheus = o->prometheus,
                                   .out = stdout,
                                   .argc = argc,
                                   .argv = argv,
                                   .emulated = any_is(files, n, "emulated"),
                                   .shared_gpu = any_is(files, n, "shared_gpu")};
    struct bb_regression_threshold threshold = {o->threshold_percent < 0 ? NAN : o->threshold_percent, o->strict};
    FILE *out = o->quiet || bb_results_on_stdout(o->json, o->csv) ? NULL : stdout;
    struct bb_results *results = NULL;
    int rc;

    TRY(bb_results_open(&results, &head, NULL));
    if (by_rows(files, n))
        TRY(bb_results_set_all(results, json_pack("{s:s, s:s}", "a", files[0].path, "b", files[1].path)));
    TRY(bb_results_set_all(results, json_pack("{s:n, s:n, s:o}", "ranks", "nodes", "threshold_percent",
                                              bb_json_real(threshold.threshold_percent))));
    if (out)
        bb_print_report_header(out, argc, argv);
    TRY(by_rows(files, n) ? bb_compare(&files[0], &files[1], &threshold, o->full, out, results)
                          : bb_what_if(files, n, &threshold, o->full, out, results));
out:
    return bb_results_close(results, rc);
}

/* Returns what the rows of a file are, by a key of its first row; NULL: unknown, or a file without rows. */
static const char *kind_of(const struct bb_result_file *f)
{
    static const struct {
        const char *key, *kind;
    } kinds[] = {{"from", "links of bench p2p"},
                 {"parts", "life cycles of communicators"},
                 {"link", "copies"},
                 {"gemms", "GEMMs concurrent with collectives"},
                 {"limited_by", "predicted kernels"},
                 {"m", "GEMMs and kernels"},
                 {"collective", "collectives"}};
    const json_t *row = json_array_get(json_object_get(f->root, "results"), 0);

    if (bb_result_file_is_health(f))
        return "results of health";
    for (size_t i = 0; row && i < sizeof kinds / sizeof *kinds; i++)
        if (json_object_get(row, kinds[i].key))
            return kinds[i].kind;
    return f->program ? "collectives" : row == NULL && f->n > 0 ? "a training step" : NULL;
}

/* Prints an error if two files have results of different kinds. */
static int check_kinds(const struct bb_result_file *files, int n)
{
    const char *first = NULL;

    for (int i = 0, first_file = 0; i < n; i++) {
        const char *kind = kind_of(&files[i]);

        if (first && kind && strcmp(first, kind) != 0)
            return bb_err(BB_EUSAGE, "nothing to compare: %s has %s, %s has %s; try: files of the same command",
                          files[first_file].path, first, files[i].path, kind);
        if (!first) {
            first = kind;
            first_file = i;
        }
    }
    return 0;
}

/* Of a prediction and a measurement, the prediction becomes A, so that "faster" and "slower" describe the measurement. */
static void put_prediction_first(struct bb_result_file *files)
{
    const struct bb_result_file measured = files[0];

    if (!bb_result_file_predicted(&files[0]) && bb_result_file_predicted(&files[1])) {
        files[0] = files[1];
        files[1] = measured;
    }
}

/* Loads the files and compares them. */
static int load_and_compare(const struct options *o, const struct bb_positionals *positionals, int argc, char **argv)
{
    struct bb_result_file files[BB_POSITIONALS_MAX] = {{0}};
    int rc, from_stdin = 0;

    if (o->threshold_percent < 0 && o->threshold_percent != -1)
        return bb_err(BB_EUSAGE,
                      "--threshold %g: expected a percentage of 0 or more, or -1 for no limit (for example "
                      "--threshold 5)",
                      o->threshold_percent);
    TRY(bb_results_validate(o->json, o->csv));
    TRY(bb_checks_validate(o->junit, o->prometheus));
    for (int i = 0; i < positionals->n; i++)
        from_stdin += strcmp(positionals->word[i], "-") == 0;
    if (from_stdin > 1)
        return bb_err(BB_EUSAGE, "'-' (stdin) is given %d times, expected at most once", from_stdin);
    for (int i = 0; i < positionals->n; i++)
        TRY(bb_result_file_load(&files[i], positionals->word[i]));
    if (positionals->n == 2)
        put_prediction_first(files);
    bb_result_files_align_clocks(files, positionals->n);
    bb_result_files_pair_gpus(files, positionals->n);
    TRY(check_kinds(files, positionals->n));
    TRY(compare_files(o, files, positionals->n, argc, argv));
out:
    for (int i = 0; i < positionals->n; i++)
        bb_result_file_release(&files[i]);
    return rc;
}

int bb_compare_main(int argc, char **argv)
{
    struct options options;
    struct bb_positionals positionals;
    int rc = bb_opts_parse(&set, &options, argc, argv, &positionals, stdout);

    if (rc != 0)
        return rc;
    if (positionals.n < 2)
        return bb_err(BB_EUSAGE, "%d file%s given, expected two or more: busbar compare A.json B.json", positionals.n,
                      bb_plural(positionals.n));
    return load_and_compare(&options, &positionals, argc, argv);
}
