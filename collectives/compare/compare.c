/* compare.c - see compare.h. */
#include "collectives/compare/compare.h"

#include "bootstrap/base/units.h"
#include "bootstrap/cli/opts.h"
#include "bootstrap/results/table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const bb_verdict_names[BB_VERDICTS] = {
    [BB_FASTER] = "faster",           [BB_SLOWER] = "slower",         [BB_SAME] = "no difference",
    [BB_CANNOT_TELL] = "cannot tell", [BB_WRONG_DATA] = "wrong data",
};

enum bb_verdict bb_verdict_of(const struct bb_timing *a, const struct bb_timing *b)
{
    if (a->wrong > 0 || b->wrong > 0)
        return BB_WRONG_DATA;
    if (isnan(a->low_us) || isnan(b->low_us) || isnan(a->time_us) || isnan(b->time_us))
        return BB_CANNOT_TELL;
    return b->high_us < a->low_us ? BB_FASTER : b->low_us > a->high_us ? BB_SLOWER : BB_SAME;
}

/* ---- what belongs together ---- */

static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

static bool belong_together(const struct bb_timing *a, const struct bb_timing *b)
{
    return a->bytes == b->bytes && a->root == b->root && a->group == b->group && a->cycle == b->cycle &&
           same_text(a->what, b->what) && same_text(a->dtype, b->dtype) && same_text(a->op, b->op) &&
           same_text(a->placement, b->placement) && same_text(a->mode, b->mode);
}

/* Files have mostly the same order, so the search goes on where the last one ended. */
size_t bb_pairs_of(const struct bb_result_file *a, const struct bb_result_file *b, long *out, char *left)
{
    size_t next = 0, n_left = 0;

    memset(left, 1, b->n);
    for (size_t i = 0; i < a->n; i++) {
        out[i] = -1;
        for (size_t step = 0; step < b->n && out[i] < 0; step++) {
            size_t j = (next + step) % b->n;

            if (left[j] && belong_together(&a->rows[i], &b->rows[j]))
                out[i] = (long)j;
        }
        if (out[i] >= 0) {
            left[out[i]] = 0;
            next = (size_t)out[i] + 1;
        }
    }
    for (size_t j = 0; j < b->n; j++)
        n_left += (size_t)left[j];
    return n_left;
}

/* ---- text ---- */

enum { CHOICE = 24, VERDICT = 64 };

/* A row: of both files, or of one of them, whose other time is NaN and whose results are the key alone. */
struct row {
    struct bb_timing key;
    const char *place; /* short for placement */
    double a_us, b_us, times;
    const char *said;
    json_t *a, *b, *ratio, *verdict;
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
    {NULL, "verdict", "", 13, 0, SHOWS(said)},
    {"a", SHOWS(a)},
    {"b", SHOWS(b)},
    {"ratio", SHOWS(ratio)},
    {"verdict", SHOWS(verdict)},
    {0},
};

static struct row make_row(const struct bb_timing *key, double a_us, double b_us, const char *said)
{
    const char *place = !key->placement ? NULL : strcmp(key->placement, "in_place") == 0 ? "in" : "out";

    return (struct row){.key = *key, .place = place, .a_us = a_us, .b_us = b_us, .times = b_us / a_us, .said = said};
}

/* "RING/SIMPLE/8", "" where nothing is known. */
static const char *choice_text(const struct bb_timing *t, char text[CHOICE])
{
    text[0] = '\0';
    if (t->algorithm && t->protocol)
        snprintf(text, CHOICE, "%.10s/%.7s/%d", t->algorithm, t->protocol, (int)t->channels);
    return text;
}

/* The verdict, and behind it what may be the reason: another choice of NCCL's. */
static const char *verdict_text(const struct bb_timing *a, const struct bb_timing *b, enum bb_verdict verdict,
                                char text[VERDICT])
{
    char before[CHOICE], after[CHOICE];

    choice_text(a, before);
    choice_text(b, after);
    if (*before && *after && strcmp(before, after) != 0)
        snprintf(text, VERDICT, "%s: %s, was %s", bb_verdict_names[verdict], after, before);
    else
        snprintf(text, VERDICT, "%s", bb_verdict_names[verdict]);
    return text;
}

static void print_differences(FILE *out, const json_t *differences)
{
    json_t *d;
    size_t i;

    if (json_array_size(differences) == 0)
        fprintf(out, "# made under the same conditions, as far as the files tell\n");
    json_array_foreach(differences, i, d)
    {
        const char *a = json_string_value(json_object_get(d, "a")), *b = json_string_value(json_object_get(d, "b"));

        fprintf(out, "# differs: %s: A %s, B %s\n", json_string_value(json_object_get(d, "what")), a ? a : "not set",
                b ? b : "not set");
    }
}

/* Times that are no measurements of hardware are marked. */
static void print_doubts(FILE *out, const char *name, const struct bb_result_file *t)
{
    if (json_is_true(json_object_get(t->root, "emulated")))
        fprintf(out, "# %s: emulated GPUs: all times come from a model, none is a measurement of hardware\n", name);
    if (json_is_true(json_object_get(t->root, "shared_gpu")))
        fprintf(out, "# %s: several ranks shared a GPU: times mean nothing\n", name);
    if (bb_result_file_foreign(t))
        fprintf(out, "# %s: nccl-tests: the mean over ranks unless -a was given; busbar's are those of the slowest\n",
                name);
}

static void print_head(FILE *out, const struct bb_result_file *a, const struct bb_result_file *b,
                       const json_t *differences)
{
    fprintf(out, "# A %s\n# B %s\n", a->path, b->path);
    print_differences(out, differences);
    print_doubts(out, "A", a);
    print_doubts(out, "B", b);
    fprintf(out, "# times are medians; the verdict comes from their 95 %% intervals, which must not touch\n#\n");
    bb_table_heading(out, fields);
}

/* ---- JSON ---- */

static json_t *row_json(const struct row *row)
{
    json_t *object = json_object();

    if (bb_table_json(object, fields, row) == 0)
        return object;
    json_decref(object);
    return NULL;
}

static json_t *side_json(const struct bb_timing *t)
{
    json_t *interval = isnan(t->low_us) ? json_null() : json_pack("[f, f]", t->low_us, t->high_us);
    bool channels = t->algorithm && t->channels >= 0;

    return json_pack("{s:o, s:o, s:o, s:s?, s:s?, s:o}", "p50_us", bb_json_real(t->time_us), "ci95_us", interval,
                     "wrong", t->wrong >= 0 ? json_integer(t->wrong) : json_null(), "algorithm", t->algorithm,
                     "protocol", t->protocol, "channels", channels ? json_integer(t->channels) : json_null());
}

/* ---- the whole ---- */

struct tally {
    size_t verdicts[BB_VERDICTS];
    size_t only_a, only_b;
    size_t over; /* slower by more than the threshold */
    const struct bb_timing *worst;
    double worst_ratio;
};

static void count_verdict(struct tally *tally, const struct bb_timing *a, const struct bb_timing *b,
                          enum bb_verdict verdict, double threshold_percent)
{
    double ratio = b->time_us / a->time_us;

    tally->verdicts[verdict]++;
    if (verdict != BB_SLOWER)
        return;
    tally->over += ratio > 1 + threshold_percent / 100;
    if (!tally->worst || ratio > tally->worst_ratio) {
        tally->worst = a;
        tally->worst_ratio = ratio;
    }
}

struct sides {
    const struct bb_result_file *a, *b;
    long *pair;
    char *left;
};

static int put_pairs(const struct sides *s, double threshold_percent, FILE *out, struct bb_results *results,
                     struct tally *tally)
{
    char text[VERDICT];
    struct row row;
    int rc = 0;

    for (size_t i = 0; i < s->a->n && rc == 0; i++) {
        const struct bb_timing *a = &s->a->rows[i], *b = s->pair[i] < 0 ? NULL : &s->b->rows[s->pair[i]];
        enum bb_verdict verdict = b ? bb_verdict_of(a, b) : BB_CANNOT_TELL;

        if (!b)
            continue;
        count_verdict(tally, a, b, verdict, threshold_percent);
        row = make_row(a, a->time_us, b->time_us, verdict_text(a, b, verdict, text));
        bb_table_row(out, fields, &row);
        if (!results)
            continue;
        row.a = side_json(a);
        row.b = side_json(b);
        row.ratio = bb_json_real(row.times);
        row.verdict = json_string(bb_verdict_names[verdict]);
        rc = bb_results_row(results, row_json(&row));
    }
    return rc;
}

static int put_single(const struct sides *s, FILE *out, struct bb_results *results, struct tally *tally)
{
    json_t *only_a = json_array(), *only_b = json_array();
    struct row row;
    int rc;

    for (size_t i = 0; i < s->a->n; i++) {
        if (s->pair[i] >= 0)
            continue;
        tally->only_a++;
        row = make_row(&s->a->rows[i], s->a->rows[i].time_us, NAN, "only in A");
        bb_table_row(out, fields, &row);
        json_array_append_new(only_a, row_json(&row));
    }
    for (size_t j = 0; j < s->b->n; j++) {
        if (!s->left[j])
            continue;
        row = make_row(&s->b->rows[j], NAN, s->b->rows[j].time_us, "only in B");
        bb_table_row(out, fields, &row);
        json_array_append_new(only_b, row_json(&row));
    }
    rc = bb_results_set(results, "only_a", only_a);
    if (rc != 0) {
        json_decref(only_b);
        return rc;
    }
    return bb_results_set(results, "only_b", only_b);
}

static int put_summary(const struct tally *t, FILE *out, struct bb_results *results)
{
    const size_t *v = t->verdicts;

    if (out) {
        fprintf(out, "#\n# %zu faster, %zu slower, %zu without a difference, %zu cannot tell", v[BB_FASTER],
                v[BB_SLOWER], v[BB_SAME], v[BB_CANNOT_TELL]);
        if (v[BB_WRONG_DATA])
            fprintf(out, ", %zu with wrong data", v[BB_WRONG_DATA]);
        fprintf(out, "; only in A %zu, only in B %zu\n", t->only_a, t->only_b);
        if (v[BB_CANNOT_TELL])
            fprintf(out, "# cannot tell: no interval; busbar gives one from 6 samples on (--repeats), nccl-tests with "
                         "-I 1\n");
    }
    return bb_results_set(results, "summary",
                          json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "faster", (json_int_t)v[BB_FASTER],
                                    "slower", (json_int_t)v[BB_SLOWER], "no_difference", (json_int_t)v[BB_SAME],
                                    "cannot_tell", (json_int_t)v[BB_CANNOT_TELL], "wrong_data",
                                    (json_int_t)v[BB_WRONG_DATA], "only_a", (json_int_t)t->only_a, "only_b",
                                    (json_int_t)t->only_b, "over_threshold", (json_int_t)t->over, "worst_ratio",
                                    bb_json_real(t->worst ? t->worst_ratio : NAN)));
}

static int judge_threshold(const struct tally *t, double threshold_percent)
{
    char bytes[BB_BYTES_TEXT];
    const struct bb_timing *worst = t->worst;

    if (isnan(threshold_percent) || t->over == 0)
        return 0;
    return bb_err(BB_EBELOW, "%zu row%s slower by more than %g %%, most of all %s %s: %+.1f %%", t->over,
                  t->over == 1 ? "" : "s", threshold_percent, worst->what,
                  worst->bytes < 0 ? "step" : bb_format_bytes((size_t)worst->bytes, bytes), 100 * (t->worst_ratio - 1));
}

static json_t *differences_of(const struct bb_result_file *a, const struct bb_result_file *b)
{
    json_t *left = bb_provenance_of(a), *right = bb_provenance_of(b), *list = bb_provenance_differences(left, right);

    json_decref(left);
    json_decref(right);
    return list;
}

int bb_compare(const struct bb_result_file *a, const struct bb_result_file *b, double threshold_percent, FILE *out,
               struct bb_results *results)
{
    struct sides s = {.a = a, .b = b, .pair = calloc(a->n + 1, sizeof(long)), .left = calloc(b->n + 1, 1)};
    json_t *differences = differences_of(a, b);
    struct tally tally = {0};
    int rc = s.pair && s.left && differences ? 0 : bb_err(BB_EFAIL, "no memory to compare %zu rows", a->n);

    TRY(rc);
    tally.only_b = bb_pairs_of(a, b, s.pair, s.left);
    if (out)
        print_head(out, a, b, differences);
    TRY(put_pairs(&s, threshold_percent, out, results, &tally));
    TRY(put_single(&s, out, results, &tally));
    TRY(put_summary(&tally, out, results));
    TRY(bb_results_set(results, "provenance", json_incref(differences)));
    if (a->n > 0 && tally.only_a == a->n)
        bb_warn("no row of %s is in %s", a->path, b->path);
    rc = judge_threshold(&tally, threshold_percent);
out:
    json_decref(differences);
    free(s.pair);
    free(s.left);
    return rc;
}

/* ---- the command ---- */

struct options {
    const char *json;
    double threshold_percent;
    bool quiet;
};

#define FIELD(name) offsetof(struct options, name)
static const struct bb_opt rows[] = {
    OPT_DOUBLE(0, "threshold", FIELD(threshold_percent), "-1", "PERCENT", -1, 1e6,
               "exit 5 when a row got slower by more, with intervals that do not touch; -1: never"),
    OPT_STRING(0, "json", FIELD(json), NULL, "FILE", "write the comparison as JSON, - for stdout"),
    OPT_FLAG(0, "quiet", FIELD(quiet), "no table"),
    {0},
};

static const struct bb_opt_table tables[] = {{.title = "Options", .opts = rows}, {0}};

static const struct bb_opts set = {
    .usage = "busbar compare A.json B.json [OPTION...]",
    .doc = "Is B faster or slower than A? Row by row, from the confidence intervals of the medians. Reads the JSON\n"
           "of busbar bench, busbar proxy and nccl-tests.",
    .tables = tables,
};

static int open_results(struct bb_results **results, const struct options *o, int argc, char **argv)
{
    struct bb_results_head head = {
        .schema = "busbar.compare/1", .path = o->json, .out = stdout, .argc = argc, .argv = argv};

    return bb_results_open(results, &head, NULL);
}

static int compare_files(const struct options *o, const char *const paths[2], int argc, char **argv)
{
    struct bb_result_file side[2] = {{0}, {0}};
    struct bb_results *results = NULL;
    bool silent = o->quiet || (o->json && strcmp(o->json, "-") == 0);
    double threshold = o->threshold_percent < 0 ? NAN : o->threshold_percent;
    int rc;

    TRY(bb_result_file_load(&side[0], paths[0]));
    TRY(bb_result_file_load(&side[1], paths[1]));
    TRY(open_results(&results, o, argc, argv));
    TRY(bb_results_set(results, "a", json_string(paths[0])));
    TRY(bb_results_set(results, "b", json_string(paths[1])));
    TRY(bb_results_set(results, "threshold_percent", bb_json_real(threshold)));
    TRY(bb_compare(&side[0], &side[1], threshold, silent ? NULL : stdout, results));
out:
    rc = bb_results_close(results, rc);
    bb_result_file_release(&side[0]);
    bb_result_file_release(&side[1]);
    return rc;
}

int bb_compare_main(int argc, char **argv)
{
    struct options options;
    struct bb_words words;
    int rc = bb_opts_parse(&set, &options, argc, argv, &words, stdout);

    if (rc != 0)
        return rc;
    if (words.n != 2)
        return bb_err(BB_EUSAGE, "%d file%s given, expected two: busbar compare A.json B.json", words.n,
                      words.n == 1 ? "" : "s");
    return compare_files(&options, words.word, argc, argv);
}
