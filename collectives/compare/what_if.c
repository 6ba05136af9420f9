/* what_if.c - the table of several result files: see what_if.h. */
#include "collectives/compare/what_if.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/cli/report_header.h"
#include "bootstrap/results/checks.h"
#include "bootstrap/results/table.h"
#include "bootstrap/sweep/state.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Conditions in the text table: all up to DIFFERS_FEW, and further ones up to a width of DIFFERS_WIDTH. */
enum { FILES_SHOWN = 14, DIFFERS_FEW = 6, DIFFERS_WIDTH = 70, MEASURE = 40 };

/* One line of the table: a file, and its comparison with the first file. */
struct line {
    const char *file, *what, *cluster, *role;
    long long ranks, nodes, rank; /* rank, role: whose times parts_us has */
    struct bb_compared compared;
    double step_us, tokens_per_s, samples_per_s, tflops_per_gpu, utilisation, causal, memory_bytes, gpu_hours;
    double model_error; /* mean error of predictions of this kind, as a fraction; NaN: unknown */
    double penalty;     /* of the best layout (--best-layout), as a fraction; NaN: another file */
    bool within_error;  /* verdict "inconclusive": the model error or a penalty is larger than the difference */
    double parts_us[5]; /* compute, exposed transfer, bubble, exposed waiting, idle (part_keys) */
    double launch_us; /* plans: part of compute in which kernels wait for their launches; NaN: unknown for this rank */
    const json_t *fits; /* whether training fits in GPU memory; NULL: unknown; borrowed */
    json_t *options, *differs;
};

#define SHOWS(name)       BB_SHOWS(struct line, name)
#define SHOWS_WHOLE(name) BB_SHOWS_WHOLE(struct line, name)
#define TIME              .form = BB_FORM_TIME
static json_t *fits_json(const void *row)
{
    const struct line *line = row;

    return line->fits ? json_incref((json_t *)line->fits) : json_null();
}

static const struct bb_field identity_fields[] = {{"file", SHOWS(file)},       {"proxy", SHOWS(what)},
                                                  {"cluster", SHOWS(cluster)}, {"ranks", SHOWS(ranks)},
                                                  {"nodes", SHOWS(nodes)},     {0}};
static const struct bb_field step_fields[] = {
    {"step_us", "step", NULL, 9, 0, SHOWS(step_us), TIME},
    {"ratio", "ratio", "", 6, 3, SHOWS(compared.ratio)},
    {"tokens_per_s", "tokens/s", "", 9, 0, SHOWS(tokens_per_s)},
    {"samples_per_s", SHOWS(samples_per_s)},
    {"tflops_per_gpu", SHOWS(tflops_per_gpu)},
    {"model_flop_utilisation", "MFU", "(full)", 6, 1, SHOWS(utilisation), .form = BB_FORM_PERCENT},
    {"model_flop_utilisation_causal", SHOWS(causal)},
    {"memory_bytes", "memory", "(GPU)", 8, 0, SHOWS_WHOLE(memory_bytes), .form = BB_FORM_BYTES},
    {"fits", .value = fits_json},
    {"gpu_hours", "GPU h", "", 9, 0, SHOWS(gpu_hours)},
    {"rank", "rank", "", 5, 0, SHOWS(rank)},
    {"role", SHOWS(role)},
    {"compute_us", "compute", "", 8, 0, SHOWS(parts_us[0]), TIME},
    {"launch_wait_us", "launches", "", 8, 0, SHOWS(launch_us), TIME},
    {"exposed_transfer_us", "transfer", "", 8, 0, SHOWS(parts_us[1]), TIME},
    {"bubble_us", "bubble", "", 8, 0, SHOWS(parts_us[2]), TIME},
    {"exposed_waiting_us", "waiting", "", 8, 0, SHOWS(parts_us[3]), TIME},
    {"idle_us", "idle", "", 8, 0, SHOWS(parts_us[4]), TIME},
    {"verdict", "verdict", "", 14, 0, SHOWS(compared.verdict), .form = BB_FORM_LEFT},
    {"model_error", SHOWS(model_error)},
    {"penalty", "penalty", "", 7, 1, SHOWS(penalty), .form = BB_FORM_PERCENT},
    {0},
};
static const struct bb_field row_fields[] = {
    {"rows", "rows", "", 5, 0, SHOWS(compared.rows)},
    {"busbw_gbps", "busbw", "(GB/s)", 7, 2, SHOWS(compared.busbw_gbps)},
    {"ratio", "ratio", "(mean)", 7, 3, SHOWS(compared.ratio)},
    {"worst_ratio", "ratio", "(worst)", 7, 3, SHOWS(compared.worst_ratio)},
    {"faster", "faster", "", 6, 0, SHOWS(compared.faster)},
    {"slower", "slower", "", 6, 0, SHOWS(compared.slower)},
    {"verdict", "verdict", "", 13, 0, SHOWS(compared.verdict), .form = BB_FORM_LEFT},
    {0},
};
static const struct bb_field condition_fields[] = {{"options", SHOWS(options)}, {"differs", SHOWS(differs)}, {0}};

/* Where the values of a step are in its result file: in a plan, in the result of --best-layout, and in a run. */
static const struct {
    size_t offset;
    const char *paths[3];
} values[] = {
    {offsetof(struct line, tokens_per_s), {"predicted.tokens_per_s", "tokens_per_s"}},
    {offsetof(struct line, samples_per_s), {"samples_per_s", "predicted.samples_per_s"}},
    {offsetof(struct line, tflops_per_gpu), {"predicted.tflops_per_gpu", "best_layout.layouts.0.tflops_per_gpu"}},
    {offsetof(struct line, utilisation),
     {"predicted.model_flop_utilisation", "model_flop_utilisation", "best_layout.layouts.0.model_flop_utilisation"}},
    {offsetof(struct line, causal),
     {"predicted.model_flop_utilisation_causal", "model_flop_utilisation_causal",
      "best_layout.layouts.0.model_flop_utilisation_causal"}},
    {offsetof(struct line, memory_bytes), {"predicted.memory.needed_bytes", "best_layout.layouts.0.memory_bytes"}},
    {offsetof(struct line, gpu_hours), {"predicted.training.gpu_hours"}},
    {offsetof(struct line, model_error), {"predicted.model_error.mean"}},
    {offsetof(struct line, penalty), {"best_layout.layouts.0.penalty"}},
};

static const char *const part_keys[] = {"compute_us", "exposed_transfer_us", "bubble_us", "exposed_waiting_us",
                                        "idle_us"};
enum { PARTS = sizeof(part_keys) / sizeof(part_keys[0]) };

static double value_at(const json_t *root, const char *const paths[3])
{
    for (int i = 0; i < 3 && paths[i]; i++) {
        const json_t *value = bb_sweep_follow(root, paths[i]);

        if (json_is_number(value))
            return json_number_value(value);
    }
    return NAN;
}

static long long count_at(const json_t *root, const char *key)
{
    const json_t *value = json_object_get(root, key);

    return json_is_integer(value) ? json_integer_value(value) : -1;
}

/* Reads the parts of the step of the slowest rank of a role; role NULL or not in the file: of all ranks. */
static void read_parts(struct line *line, const json_t *root, const char *role)
{
    const json_t *predicted = json_object_get(root, "predicted");
    const json_t *breakdown = bb_result_breakdown(predicted ? predicted : root, &role);

    if (!breakdown)
        breakdown = bb_sweep_follow(root, "best_layout.layouts.0");
    line->role = role;
    line->rank = count_at(breakdown, "rank");
    for (int i = 0; i < PARTS; i++)
        line->parts_us[i] = value_at(breakdown, (const char *const[3]){part_keys[i]});
    line->launch_us = json_equal(json_object_get(breakdown, "rank"), bb_sweep_follow(predicted, "breakdown.rank"))
                          ? value_at(predicted, (const char *const[3]){"sharing.launch_wait_us"})
                          : NAN;
}

static struct line make_line(const struct bb_result_file *file, const char *role)
{
    struct line line = {.file = file->path,
                        .what = json_string_value(json_object_get(file->root, "proxy")),
                        .cluster = bb_result_file_predicted(file),
                        .ranks = count_at(file->root, "ranks"),
                        .nodes = count_at(file->root, "nodes"),
                        .step_us = bb_result_file_is_step(file) ? file->rows->time_us : NAN,
                        .fits = bb_sweep_follow(file->root, "predicted.memory.fits"),
                        .options = json_incref(json_object_get(file->root, "options")),
                        .differs = json_object()};

    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
        *(double *)(void *)((char *)&line + values[i].offset) = value_at(file->root, values[i].paths);
    if (bb_result_jittered_us(file->root)) { /* rates of the step with jitter; parts_us: without */
        const double faster = value_at(file->root, (const char *const[3]){"predicted.step_us"}) / line.step_us;

        line.tokens_per_s *= faster;
        line.tflops_per_gpu *= faster;
        line.utilisation *= faster;
        line.causal *= faster;
    }
    read_parts(&line, file->root, role);
    if (isnan(line.samples_per_s))
        line.samples_per_s = value_at(file->root, (const char *const[3]){"samples"}) / (line.step_us / 1e6);
    return line;
}

/* ---- the work of a step ---- */

/* The files with their lines and conditions. */
struct table {
    const struct bb_result_file *files;
    int n;
    struct line *lines;       /* [n] */
    json_t *differs;          /* list of the names of the conditions that differ */
    bool steps, full;         /* steps: each file has one row, a step; full: the text has all files and conditions */
    const char *work;         /* "token" or "sample" if the work per step differs; else NULL */
    bool per_gpu;             /* the number of ranks differs */
    double threshold_percent; /* NaN: none */
};

/* Returns the tokens or samples per step; NaN: unknown. */
static double work_of(const struct line *line, bool tokens)
{
    return line->step_us * (tokens ? line->tokens_per_s : line->samples_per_s);
}

/* Verdicts on GPU seconds, of a step on another number of GPUs. */
static const char *const efficiencies[BB_VERDICTS] = {
    [BB_FASTER] = "more efficient", [BB_SLOWER] = "less efficient", [BB_SAME] = "as efficient"};

/* Compares a file with the first one. The times of steps are compared per unit of work and multiplied by the number of
 * ranks, so that the ratio is that of the step times if work and ranks are equal. Sets what differs in t. */
static struct bb_compared compare_line(struct table *t, int i, const struct bb_regression_threshold *threshold)
{
    const struct line *a = &t->lines[0], *b = &t->lines[i];
    const bool tokens = !isnan(work_of(a, true)) && !isnan(work_of(b, true));
    struct bb_result_file file = t->files[i];
    struct bb_compared compared;
    struct bb_timing row;
    double factor = work_of(a, tokens) / work_of(b, tokens);

    if (!t->steps || !bb_result_file_same_model(&t->files[0], &file))
        return bb_compare_count(&t->files[0], &file, threshold);
    if (isnan(factor) || fabs(factor - 1) < 1e-3)
        factor = 1;
    if (factor != 1)
        t->work = tokens ? "token" : "sample";
    if (a->ranks > 0 && b->ranks > 0 && a->ranks != b->ranks) {
        t->per_gpu = true;
        factor *= (double)b->ranks / (double)a->ranks;
    }
    row = *file.rows;
    row.time_us *= factor;
    row.low_us *= factor;
    row.high_us *= factor;
    file.rows = &row;
    compared = bb_compare_count(&t->files[0], &file, threshold);
    if (a->ranks != b->ranks && compared.row < BB_VERDICTS && efficiencies[compared.row])
        compared.verdict = efficiencies[compared.row];
    return compared;
}

/* Returns the larger penalty of a file and the first file; 0: neither has one. */
static double penalty_of(const struct table *t, int i)
{
    return fmax(0, fmax(t->lines[0].penalty, t->lines[i].penalty));
}

/* Returns the larger model error, or penalty, of a file and the first file; 0: unknown. */
static double error_of(const struct table *t, int i)
{
    return fmax(penalty_of(t, i), fmax(t->lines[0].model_error, t->lines[i].model_error));
}

static const json_t *option_of(const struct table *t, int i, const char *name)
{
    return json_object_get(json_object_get(t->files[i].root, "options"), name);
}

/* Returns whether a file and the first one differ only by values of the same cluster profile (--set), by injected slow parts, or
 * by jitter: the model's error is then common to both. */
static bool shares_error(const struct table *t, int i)
{
    json_t *first = bb_provenance_of(&t->files[0]), *own = bb_provenance_of(&t->files[i]);
    json_t *list = bb_provenance_differences(first, own);
    static const char *const shared[] = {"predicted for", "--slow", "--delay", "--jitter", "--seed", "--samples", NULL};
    bool shares = json_equal(option_of(t, 0, "cluster"), option_of(t, i, "cluster"));
    const json_t *difference;
    size_t k;

    json_array_foreach(list, k, difference)
    {
        const char *what = json_string_value(json_object_get(difference, "what"));
        const char *const *of = shared;

        while (*of && strcmp(what, *of) != 0)
            of++;
        shares &= *of != NULL;
    }
    json_decref(first);
    json_decref(own);
    json_decref(list);
    return shares;
}

/* Without a threshold, a difference of two predictions below the model error or a penalty is no verdict, unless they share
 * it. */
static void doubt_line(struct table *t, int i, const struct bb_regression_threshold *threshold)
{
    struct bb_compared *c = &t->lines[i].compared;
    const double difference = fmax(c->ratio, 1 / c->ratio) - 1;

    if (c->row > BB_SLOWER || !isnan(threshold->threshold_percent) || !(difference <= error_of(t, i)) ||
        shares_error(t, i))
        return;
    t->lines[i].within_error = true;
    bb_compared_doubt(c, threshold->strict);
}

/* Writes what the ratio compares: "time", "time per token", "GPU seconds per step". */
static const char *measure_of(const struct table *t, char text[MEASURE])
{
    const char *work = t->work ? t->work : t->per_gpu ? "step" : NULL;

    snprintf(text, MEASURE, "%s%s%s", t->per_gpu ? "GPU seconds" : "time", work ? " per " : "", work ? work : "");
    return text;
}

/* ---- the table ---- */

/* Stores the conditions that differ from those of the first file, by name. */
static void find_differences(struct table *t)
{
    json_t *first = bb_provenance_of(&t->files[0]), *names = json_object(), *difference, *value;
    const char *name;
    size_t k;

    t->differs = json_array();
    for (int i = 1; i < t->n; i++) {
        json_t *own = bb_provenance_of(&t->files[i]), *list = bb_provenance_differences(first, own);

        json_array_foreach(list, k, difference)
        {
            json_object_set(names, json_string_value(json_object_get(difference, "what")), json_null());
        }
        json_decref(own);
        json_decref(list);
    }
    json_object_foreach(names, name, value)
    {
        json_array_append_new(t->differs, json_string(name));
    }
    for (int i = 0; i < t->n; i++) {
        json_t *own = bb_provenance_of(&t->files[i]);

        json_object_foreach(names, name, value)
        {
            json_t *text = json_object_get(own, name);

            json_object_set(t->lines[i].differs, name + strspn(name, "-"), text ? text : json_null());
        }
        json_decref(own);
    }
    json_decref(first);
    json_decref(names);
}

/* Returns what differs between the files, with the values of one of them: "--schedule interleaved, --vpp 5". For all files
 * except the first: only what differs from the first file. What is left out is counted: "3 more". */
static char *differences_of(const struct table *t, int file)
{
    char *text = bb_format("%s", "");
    const json_t *name;
    int shown = 0, more = 0;
    size_t i;

    json_array_foreach(t->differs, i, name)
    {
        const char *what = json_string_value(name), *key = what + strspn(what, "-");
        const char *value = json_string_value(json_object_get(t->lines[file].differs, key));
        const char *first = json_string_value(json_object_get(t->lines[0].differs, key));
        char *longer;

        if (file > 0 ? value == first || (value && first && strcmp(value, first) == 0) : !value)
            continue;
        longer = bb_format("%s%s%s%s%s%s", text, *text ? ", " : "", value ? "" : "no ", what, value ? " " : "",
                           !value   ? ""
                           : *value ? value
                                    : "empty");
        more += !t->full && shown++ >= DIFFERS_FEW && strlen(longer) > DIFFERS_WIDTH;
        free(more ? longer : text);
        text = more ? text : longer;
    }
    if (more) {
        char *longer = bb_format("%s%s%d more", text, *text ? ", " : "", more);

        free(text);
        text = longer;
    }
    return text;
}

/* Returns whether kernels of a file wait noticeably for their launches: for at least 1 % of the step. */
static bool has_launch_waits(const struct table *t)
{
    for (int i = 0; i < t->n; i++)
        if (t->lines[i].launch_us >= 0.01 * t->lines[i].step_us)
            return true;
    return false;
}

/* Copies the fields of the text table: without the columns in which no file has a value, and without small waits. */
static void select_fields(const struct table *t, const struct bb_field *from, struct bb_field *to)
{
    for (; from->key; from++) {
        bool has_value = false;

        for (int i = 0; i < t->n && from->width; i++) {
            json_t *object = json_object();
            const struct bb_field one[] = {*from, {0}};

            bb_table_json(object, one, &t->lines[i]);
            has_value |= !json_is_null(json_object_get(object, from->key));
            json_decref(object);
        }
        if (has_value && (strcmp(from->key, "launch_wait_us") != 0 || has_launch_waits(t)))
            *to++ = *from;
    }
    *to = (struct bb_field){0};
}

static const struct bb_field file_field = {.head = "file", .unit = "", .width = 4, SHOWS(file), .form = BB_FORM_LEFT};

static void print_table(const struct table *t, FILE *out)
{
    struct bb_field file[] = {file_field, {0}};
    static const struct bb_field differs[] = {
        {.head = "differs between the files", .unit = "", .width = 7, .member = BB_MEMBER_TEXT, .form = BB_FORM_LEFT},
        {0}};
    struct bb_field fields[sizeof(step_fields) / sizeof(step_fields[0])];
    struct bb_time_unit unit;
    struct bb_line line = {.out = out, .time = &unit};
    double longest = 0;

    if (json_array_size(t->differs) == 0)
        fputs("# versions, options and environment: equal where all files record them\n", out);
    for (int i = 0; i < t->n; i++) {
        longest = fmax(longest, isnan(t->lines[i].step_us) ? 0 : t->lines[i].step_us);
        file->width = (int)strlen(t->lines[i].file) > file->width ? (int)strlen(t->lines[i].file) : file->width;
    }
    file->width++;
    unit = bb_time_unit(longest);
    select_fields(t, t->steps ? step_fields : row_fields, fields);
    fputs("#\n", out);
    for (int units = 0; units < 2; units++) {
        bb_line_heading(&line, file, units);
        bb_line_heading(&line, fields, units);
        bb_line_heading(&line, differs, units);
        bb_line_end(&line);
    }
    for (int i = 0; i < t->n && (i < FILES_SHOWN || t->full); i++) {
        char *text = differences_of(t, i);

        bb_line_row(&line, file, &t->lines[i]);
        bb_line_row(&line, fields, &t->lines[i]);
        bb_line_row(&line, differs, &text);
        bb_line_end(&line);
        free(text);
    }
}

/* Names the files with GEMMs of 8 or 4 bits, whose MFU has another peak. */
static void print_peak(const struct table *t, FILE *out)
{
    bool any = false;

    for (int i = 0; i < t->n; i++) {
        const json_t *precision = bb_sweep_follow(t->files[i].root, "predicted.compute.gemm_precision");

        if (isnan(t->lines[i].utilisation) ||
            !json_is_string(precision ? precision : option_of(t, i, "gemm_precision")))
            continue;
        fprintf(out, "%s%s", any ? ", " : "# MFU: of the peak of 8- or 4-bit GEMMs: ", t->files[i].path);
        any = true;
    }
    fputs(any ? "\n" : "", out);
}

static void print_misfits(const struct table *t, FILE *out)
{
    bool any = false;

    for (int i = 0; i < t->n; i++)
        if (json_is_false(t->lines[i].fits)) {
            fprintf(out, "%s%s", any ? ", " : "# training DOES NOT FIT in GPU memory: ", t->files[i].path);
            any = true;
        }
    fputs(any ? "\n" : "", out);
}

/* Returns whether files of one node each are of three or more hosts, of which the others are faster than that of the first file. */
static bool is_first_slowest(const struct table *t)
{
    for (int i = 1; i < t->n; i++)
        if (strcmp(t->lines[i].compared.verdict, BB_NAME_NOT_SLOWER) != 0 || t->lines[i].compared.rejected_by ||
            t->lines[i].compared.faster == 0 || t->lines[i].compared.slower > 0)
            return false;
    return t->n > 2 && t->files[0].host;
}

/* Returns whether the only row of each of several files is faster than that of the first file, or of each more efficient. */
static bool are_faster(const struct table *t)
{
    for (int i = 1; i < t->n; i++)
        if (t->lines[i].compared.rejected_by || t->lines[i].compared.row != BB_FASTER ||
            (t->lines[i].ranks == t->lines[0].ranks) != (t->lines[1].ranks == t->lines[0].ranks))
            return false;
    return t->n > 2;
}

/* Prints the worst verdict, and the file and its row with the largest ratio among those with this verdict. */
static void print_verdict(const struct table *t, FILE *out)
{
    const struct bb_compared *c;
    long rows = t->lines[1].compared.rows;
    char measure[MEASURE];
    const char *text, *host;
    int worst = 1;

    for (int i = 2; i < t->n; i++) {
        const struct bb_compared *so_far = &t->lines[worst].compared;

        c = &t->lines[i].compared;
        rows += c->rows;
        if (c->order < so_far->order || (c->order == so_far->order && c->worst_ratio > so_far->worst_ratio))
            worst = i;
    }
    if (rows == 0 && t->n > 2) {
        fprintf(out, "# nothing compared: the first file, %s, has no row in common with the others; try: %s\n",
                t->files[0].path,
                bb_result_file_is_health(t->files) ? "files of the same nodes, or one node per file"
                                                   : "another first file");
        return;
    }
    if (is_first_slowest(t)) {
        fprintf(out, "# worst verdict: the first file, %s of %s, is slower than every other host\n", t->files[0].path,
                t->files[0].host);
        return;
    }
    c = &t->lines[worst].compared;
    if (are_faster(t)) {
        fprintf(out, "# verdict: all %s; least: %s (%s %s)\n", c->verdict, t->files[worst].path, c->worst,
                measure_of(t, measure));
        return;
    }
    host = t->files[worst].host;
    text = bb_begins_with(c->reason, c->verdict) ? c->reason : c->verdict; /* without the error line of the run */
    fprintf(out, "# %sverdict: %.*s", t->n > 2 ? "worst " : "", (int)strcspn(text, ":"), text);
    if (strcmp(c->verdict, c->over > 0 ? BB_NAME_SLOWER : BB_NAME_NOT_SLOWER) == 0 && !isnan(t->threshold_percent))
        fprintf(out, " by more than %g %%", t->threshold_percent);
    fprintf(out, " (%s%s%s", t->files[worst].path, host ? " of " : "", host ? host : "");
    if (c->rows > 1)
        fprintf(out, ": %ld faster, %ld slower of %ld rows; slowest", c->faster, c->slower, c->rows);
    else if (*c->worst)
        fprintf(out, ":");
    if (*c->worst)
        fprintf(out, " %s %s%s", c->worst, measure_of(t, measure), c->culprit);
    if (c->slower > 0 && c->over == 0 && !isnan(t->threshold_percent))
        fputs(", within --threshold", out);
    if (json_is_false(t->lines[worst].fits) && json_is_false(t->lines[0].fits))
        fputs("; the first file does not fit either", out);
    fputs(")\n", out);
}

/* Prints the files whose difference from the first file is below the model error or a penalty; as the verdict, if they are
 * all. */
static void print_doubts(const struct table *t, bool all, FILE *out)
{
    const char *separator = all ? "# verdict: inconclusive: " : "# inconclusive: ";
    double error = 0, penalty = 0;

    for (int i = 1; i < t->n; i++)
        if (t->lines[i].within_error) {
            fprintf(out, "%s%s (%+.1f %%)", separator, t->files[i].path, 100 * (t->lines[i].compared.ratio - 1));
            error = fmax(error, error_of(t, i));
            penalty = fmax(penalty, penalty_of(t, i));
            separator = ", ";
        }
    if (error > 0 && error == penalty)
        fprintf(out,
                " within the penalty of %.1f %% that --best-layout adds to such a step before it compares layouts; "
                "--threshold judges by the ratio\n",
                100 * penalty);
    else if (error > 0)
        fprintf(out,
                " within the model error of %.1f %% (mean error on published steps); --threshold judges by the ratio\n",
                100 * error);
}

/* Writes of which role the parts of the step are: " of role last stage" if all files have them of one role; and whether they lack
 * jitter that the step has. */
static void print_role(const struct table *t, FILE *out)
{
    const char *role = t->lines[0].role;
    bool is_known = role, differs = false, jittered = bb_result_jittered_us(t->files[0].root);

    for (int i = 1; i < t->n; i++) {
        is_known &= t->lines[i].role != NULL;
        jittered |= bb_result_jittered_us(t->files[i].root) != NULL;
        differs |= is_known && strcmp(role, t->lines[i].role) != 0;
    }
    if (is_known)
        fprintf(out, "%s%s", differs ? ", whose role differs (--csv)" : " of role ", differs ? "" : role);
    fputs(jittered ? ", without jitter; step: with jitter its median" : "", out);
}

/* Names the files whose --software is the default, which depends on --dp-sync, if this default differs between them. */
static void print_software(const struct table *t, FILE *out)
{
    const char *first = NULL;
    bool differs = false;
    size_t bytes;
    char *text;
    FILE *list = bb_open_text(&text, &bytes);

    for (int i = 0; i < t->n; i++) {
        const char *software = json_string_value(json_object_get(t->lines[i].differs, "software"));

        if (!software || !json_is_null(json_object_get(t->lines[i].options, "software")))
            continue;
        differs |= first && strcmp(first, software) != 0;
        fprintf(list, ", %s: %s", t->files[i].path, software);
        first = software;
    }
    bb_close_text(list, &text);
    if (differs)
        fprintf(out,
                "# rates of different software: by default%s; for equal rates, give all plans the same --software\n",
                text);
    free(text);
}

/* Prints that times are those of emulated GPUs, or of ranks that share a GPU. */
static void print_unreal(const struct table *t, FILE *out)
{
    int emulated = 0, shared = 0;

    for (int i = 0; i < t->n; i++) {
        emulated += json_is_true(json_object_get(t->files[i].root, "emulated"));
        shared += json_is_true(json_object_get(t->files[i].root, "shared_gpu"));
    }
    if (emulated > 0)
        bb_print_emulated_note(out, emulated < t->n ? "some files: " : "", "");
    if (shared > 0)
        fprintf(out, "# %sranks share a GPU: times are meaningless\n", shared < t->n ? "some files: " : "");
}

/* Prints by which ratio files without intervals are judged. */
static void print_rules(const struct table *t, FILE *out)
{
    char printed[BB_RULE_TEXT] = "", rule[BB_RULE_TEXT];

    for (int i = 1; i < t->n; i++) {
        bb_rule_text(&t->lines[i].compared.rule, (t->per_gpu ? efficiencies : bb_verdict_names)[BB_SLOWER], "the ratio",
                     rule);
        if (!*rule || t->lines[i].compared.rows == 0 || strcmp(rule, printed) == 0)
            continue;
        fprintf(out, "# %s%s\n", rule,
                isnan(t->threshold_percent) && error_of(t, i) > 0
                    ? " and, unless only --set, --slow, --delay or --jitter differ, the model error"
                    : "");
        memcpy(printed, rule, sizeof rule);
    }
}

/* The range of a row's times in the files before the last one; infinite: not in all of them. */
struct range {
    double low, high;
};

/* Returns the range of each row of the last file, owned by the caller. */
static struct range *ranges_before_last(const struct table *t)
{
    const struct bb_result_file *last = &t->files[t->n - 1];
    struct range *ranges;
    long *of_last, *of_file;

    BB_NEW(ranges, last->n);
    BB_NEW(of_last, last->n);
    for (size_t r = 0; r < last->n; r++)
        ranges[r] = (struct range){INFINITY, -INFINITY};
    for (const struct bb_result_file *f = t->files; f < last; f++) {
        BB_NEW(of_file, f->n);
        json_decref(bb_match_rows(last, f, of_last, of_file));
        for (size_t r = 0; r < last->n; r++) {
            const double us = of_last[r] < 0 ? NAN : f->rows[of_last[r]].time_us;

            ranges[r].low = fmin(ranges[r].low, isnan(us) ? 0 : us);
            ranges[r].high = fmax(ranges[r].high, isnan(us) ? INFINITY : us);
        }
        free(of_file);
    }
    free(of_last);
    return ranges;
}

/* Prints in how many rows the last file, such as that of the last night, is outside of the range of all files before it. The first
 * file, with which the table compares, may be an outlier. Of n equal files, the last one is the slowest of a row in 1 / n, which
 * excuses no row that exceeds the range by more than the range itself. */
static void print_last(const struct table *t, FILE *out)
{
    const struct bb_result_file *last = &t->files[t->n - 1];
    struct range *ranges = ranges_before_last(t);
    size_t rows = 0, slower = 0, beyond = 0, faster = 0;
    const struct bb_timing *worst = NULL;
    double spread = 0, ratio = 1;
    char size[BB_TIMING_SIZE];

    for (size_t r = 0; r < last->n; r++) {
        const double us = last->rows[r].time_us;

        if (!isfinite(ranges[r].high) || !(ranges[r].low > 0) || isnan(us))
            continue;
        rows++;
        slower += us > ranges[r].high;
        beyond += us / ranges[r].high > ranges[r].high / ranges[r].low;
        faster += us < ranges[r].low;
        if (us / ranges[r].high > ratio) {
            ratio = us / ranges[r].high;
            spread = ranges[r].high / ranges[r].low - 1;
            worst = &last->rows[r];
        }
    }
    if (rows > 0) {
        fprintf(out, "# %s: slower than all %d files before it in %zu of %zu rows", last->path, t->n - 1, slower, rows);
        if (beyond > 0)
            fprintf(out, ", in %zu by more than those files differ", beyond);
        else
            fprintf(out, " (by chance about %.0f, if nothing has changed)", (double)rows / t->n);
        if (worst)
            fprintf(out, "; slowest: %s%s, +%.1f %% time over the slowest of them, which is %.1f %% over the fastest",
                    worst->what, bb_timing_size(worst, size), 100 * (ratio - 1), 100 * spread);
        fprintf(out, "; faster than all of them in %zu\n", faster);
    }
    free(ranges);
}

static void print_notes(const struct table *t, FILE *out)
{
    bool predicted = false, measured = false, inconclusive = false, doubted = true;
    char text[MEASURE];
    const char *measure = measure_of(t, text);
    int best = 0;

    for (int i = 0; i < t->n; i++) {
        *(bb_result_file_predicted(&t->files[i]) ? &predicted : &measured) = true;
        doubted &= i == 0 || t->lines[i].within_error;
        inconclusive |= i > 0 && !t->lines[i].within_error &&
                        strcmp(t->lines[i].compared.verdict, bb_verdict_names[BB_INCONCLUSIVE]) == 0;
        if (!json_is_false(t->lines[i].fits) && t->lines[i].compared.faster > 0 && !t->lines[i].within_error &&
            t->lines[i].compared.ratio < t->lines[best].compared.ratio)
            best = i;
    }
    fputs("#\n", out);
    if (t->n > FILES_SHOWN && !t->full)
        fprintf(out, "# %d more file%s: --full, --json, --csv\n", t->n - FILES_SHOWN, bb_plural(t->n - FILES_SHOWN));
    fprintf(out, "# ratio%s: %s / %s of %s", t->work || t->per_gpu ? " and verdict" : "", measure, measure,
            t->files[0].path);
    if (t->steps) {
        fputs("; compute to idle: of the slowest rank", out);
        print_role(t, out);
        if (has_launch_waits(t))
            fputs("; launches: part of compute in which kernels wait for the host to launch them", out);
    }
    if (!t->steps && !isnan(t->lines[0].compared.busbw_gbps))
        fputs("; busbw: mean of the rows", out);
    fputc('\n', out);
    print_rules(t, out);
    if (t->n > 3 && !t->steps && !t->files->host && !predicted)
        print_last(t, out);
    if (t->files->host)
        fputs(BB_OTHER_HOSTS_NOTE, out);
    if (best > 0)
        fprintf(out, "# %s: %s, %.3f x the %s of %s\n", t->per_gpu ? "most efficient" : "fastest", t->files[best].path,
                t->lines[best].compared.ratio, measure, t->files[0].path);
    if (inconclusive && !isnan(t->threshold_percent))
        fprintf(out, "# inconclusive: the samples do not exclude a slowdown above %g %%; try: 4 times as many (%s)\n",
                t->threshold_percent, t->steps ? "-n" : "--repeats");
    else if (inconclusive)
        fputs("# inconclusive: fewer than 6 steps or samples have no confidence interval; try: --threshold PERCENT, or "
              "more of them (-n 20)\n",
              out);
    for (int i = 0; i < t->n; i++) {
        const json_t *graph = bb_sweep_follow(t->files[i].root, "graph.step_us.p50");

        if (json_is_number(graph) && !bb_result_file_predicted(&t->files[i]))
            fprintf(out, "# %s: the step above is the one without CUDA graph; with CUDA graph: %.3f x the step of %s\n",
                    t->files[i].path, json_number_value(graph) / t->lines[0].step_us, t->files[0].path);
    }
    print_peak(t, out);
    print_misfits(t, out);
    print_software(t, out);
    if (predicted)
        fprintf(out, "# %spredicted (modelled, not measured)\n", measured ? "some times are " : "times are ");
    print_unreal(t, out);
    print_doubts(t, doubted, out);
    if (!doubted)
        print_verdict(t, out);
}

/* ---- the comparison ---- */

/* Writes the reason of a check, with the measured and the required ratio of the slowest row. */
static const char *reason_of(const struct table *t, const struct bb_compared *c, char text[BB_REJECTED_TEXT])
{
    char measure[MEASURE], limit[48] = "";

    if (c->rejected_by && c->over == 0)
        return c->reason;
    if (c->over > 0)
        snprintf(limit, sizeof limit, ", required at most %+g %%", t->threshold_percent);
    snprintf(text, BB_REJECTED_TEXT, *c->worst && c->slower > 0 ? "%s: %s %s%s" : "%s", c->verdict, c->worst,
             measure_of(t, measure), limit);
    return text;
}

/* Returns a check for each file but the first. */
static json_t *checks_json(const struct table *t)
{
    json_t *list = json_array();

    for (int i = 1; i < t->n; i++) {
        const struct bb_compared *c = &t->lines[i].compared;
        const bool fails = c->over > 0 || c->rejected_by;
        char reason[BB_REJECTED_TEXT];

        bb_checks_add(list, &(struct bb_check){.check = t->files[i].path,
                                               .status = fails ? BB_CHECK_FAIL : c->status,
                                               .measured = c->ratio,
                                               .expected = 1,
                                               .unit = "ratio",
                                               .reason = reason_of(t, c, reason)});
    }
    return list;
}

static json_t *line_json(const struct bb_result_file *file, const struct line *line, bool steps)
{
    json_t *object = json_object(), *run = bb_result_run(file);

    bb_table_json(object, identity_fields, line);
    bb_table_json(object, steps ? step_fields : row_fields, line);
    bb_table_json(object, condition_fields, line);
    (void)!json_object_update_missing(object, run);
    json_decref(run);
    return object;
}

static int check_criteria(const struct table *t, const struct bb_regression_threshold *threshold)
{
    char measure[MEASURE], more[32] = "";
    int worst = 0, over = 0, rejected = 0;

    for (int i = 1; i < t->n; i++) {
        const struct bb_compared *c = &t->lines[i].compared;

        rejected = c->rejected_by && !rejected ? i : rejected;
        over += c->over > 0;
        if (c->over > 0 && (worst == 0 || c->worst_ratio > t->lines[worst].compared.worst_ratio))
            worst = i;
    }
    if (over > 1)
        snprintf(more, sizeof more, "; and %d more file%s", over - 1, bb_plural(over - 1));
    if (over > 0) {
        const struct bb_compared *c = &t->lines[worst].compared;

        return bb_err(BB_EBELOW, "%s: %zu row%s slower than in %s by more than %g %%, worst: %s %s%s%s%s%s%s%s",
                      t->files[worst].path, c->over, bb_plural(c->over), t->files[0].path, threshold->threshold_percent,
                      c->worst, measure_of(t, measure), c->culprit, more, rejected ? "; " : "",
                      rejected ? t->files[rejected].path : "", rejected ? ": " : "",
                      rejected ? t->lines[rejected].compared.reason : "");
    }
    if (rejected)
        return bb_err(BB_EBELOW, "%s: %s: %s", t->lines[rejected].compared.rejected_by, t->files[rejected].path,
                      t->lines[rejected].compared.reason);
    return 0;
}

int bb_what_if(const struct bb_result_file *files, int n, const struct bb_regression_threshold *threshold, bool full,
               FILE *out, struct bb_results *results)
{
    struct table t = {
        .files = files, .n = n, .steps = true, .full = full, .threshold_percent = threshold->threshold_percent};
    int rc = 0;

    BB_NEW(t.lines, n);
    for (int i = 0; i < n; i++) {
        t.lines[i] = make_line(&files[i], i > 0 ? t.lines[0].role : NULL);
        t.steps = t.steps && bb_result_file_is_step(&files[i]);
    }
    for (int i = 0; i < n; i++) {
        t.lines[i].compared = compare_line(&t, i, threshold);
        doubt_line(&t, i, threshold);
        if (i == 0)
            t.lines[i].compared.verdict = json_is_false(t.lines[i].fits) ? bb_sweep_misfit : NULL;
    }
    find_differences(&t);
    if (out) {
        print_table(&t, out);
        print_notes(&t, out);
    }
    for (int i = 0; i < n; i++) {
        bb_warn_if_incomplete(files[i].path, files[i].root, i == 0);
        rc = rc ? rc : bb_results_row(results, line_json(&files[i], &t.lines[i], t.steps));
    }
    rc = rc ? rc : bb_results_set(results, "checks", checks_json(&t));
    rc = rc ? rc : check_criteria(&t, threshold);
    json_decref(t.differs);
    free(t.lines);
    return rc;
}
