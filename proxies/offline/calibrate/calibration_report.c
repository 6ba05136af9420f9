/* calibration_report.c - writes the text and the JSON of a calibration (see calibration_report.h). */
#include "proxies/offline/calibrate/calibration_report.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/base/units.h"
#include "bootstrap/cli/report_header.h"
#include "bootstrap/results/results.h"
#include "bootstrap/results/table.h"
#include "proxies/offline/calibrate/parameters/penalized_variants.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_OUTLIERS_SHOWN = 3 }; /* maximum number of outliers that are printed individually; the others are counted */

/* ---- columns of the tables of fits and parameters ---- */

static json_t *fit_name(const void *parameter)
{
    const struct bb_calibration_fit *fit = ((const struct bb_calibration_parameter *)parameter)->fit;

    return fit && *fit->name ? json_string(fit->name) : json_null();
}

/* Returns the index of the first fit. The number of GPUs per node, which is not fitted, is the first element of c->fits. */
static int first_fit(const struct bb_calibration *c)
{
    return c->n_fits > 0 && c->fits[0].n_rows == 0;
}

#define PARAMETER(name) BB_SHOWS(struct bb_calibration_parameter, name)
#define FIT(name)       BB_SHOWS(struct bb_calibration_fit, name)
#define MEASURED(name)  BB_SHOWS(struct bb_measurement_file, name)
static const struct bb_field fit_fields[] = {
    {"name", "fit", "", 31, 0, FIT(name)},
    {"rows", "rows", "", 8, 0, FIT(n_rows)},
    {"outliers", "outliers", "", 8, 0, FIT(n_outliers)},
    {"median_error_percent", "median", "error %", 9, 2, FIT(median_percent)},
    {"worst_error_percent", "worst", "error %", 9, 2, FIT(worst_percent)},
    {"fitted", NULL, NULL, 0, 0, FIT(fitted)},
    {0},
};

static const struct bb_field parameter_fields[] = {
    {"key", "parameter", "", 31, 0, PARAMETER(key)},
    {"nominal", "nominal", "", 12, 5, PARAMETER(nominal), .form = BB_FORM_GENERAL},
    {"value", "calibrated", "", 12, 5, PARAMETER(value), .form = BB_FORM_GENERAL},
    {"uncertainty_percent", "+-", "%", 8, 1, PARAMETER(uncertainty_percent)},
    {"from", "fitted to", "", 31, 0, .value = fit_name},
    {"correlated", NULL, NULL, 0, 0, PARAMETER(correlated)},
    {"scaled", NULL, NULL, 0, 0, PARAMETER(scaled)},
    {0},
};

static const struct bb_field file_fields[] = {
    {"file", "#   ", ": ", 0, 0, MEASURED(path)},
    {"what", "", ", ", 0, 0, MEASURED(what)},
    BB_NAMED(struct bb_measurement_file, started),
    BB_NAMED(struct bb_measurement_file, nccl),
    {"ranks", "", " rank", 0, 0, MEASURED(ranks), .form = BB_FORM_PLURAL},
    {"nodes", " on ", " node", 0, 0, MEASURED(nodes), .form = BB_FORM_PLURAL},
    {"rows", ", ", " rows used", 0, 0, MEASURED(n_rows)},
    {"unused_rows", ", ", " unused", 0, 0, MEASURED(n_unused)},
    {NULL, "", "", 0, 0, MEASURED(unused)},
    BB_NAMED(struct bb_measurement_file, slow),
    {0},
};

/* A measurement with its fitted time. */
struct residual {
    const char *fit, *file;
    char row[120];
    double measured_us, fitted_us;
    bool outlier;
};

static struct residual residual_of(const struct bb_calibration *c, const struct bb_calibration_row *row)
{
    struct residual r = {.fit = row->fit->name,
                         .file = c->measurements->files[row->measurement->file].path,
                         .measured_us = row->measurement->time_us,
                         .fitted_us = row->fitted_us,
                         .outlier = row->outlier};

    bb_measurement_text(row->measurement, r.row, sizeof(r.row));
    return r;
}

#define RESIDUAL(name) BB_SHOWS(struct residual, name)
static const struct bb_field residual_fields[] = {
    BB_NAMED(struct residual, fit),
    {"row", "# outlier: ", " in ", 0, 0, RESIDUAL(row)},
    {"file", "", ": ", 0, 0, RESIDUAL(file)},
    {"measured_us", "measured ", "", 0, 0, RESIDUAL(measured_us), .form = BB_FORM_TIME},
    {"fitted_us", ", fitted ", "\n", 0, 0, RESIDUAL(fitted_us), .form = BB_FORM_TIME},
    BB_NAMED(struct residual, outlier),
    {0},
};

/* ---- how well the profile describes the measurements ---- */

/* A fit does not hold if more than this part of its times differ from the measured times by more than FAR_PERCENT. Fits to
 * published logs of healthy machines have a median error of 3 %. */
#define MAX_FAR     0.1
#define FAR_PERCENT 20

struct accuracy {
    size_t outliers;               /* rows that a fit ignored */
    struct bb_stats fitted, other; /* errors in percent, without outliers: times that a fit used; all other times */
    struct bb_stats left_out[BB_LEFT_OUT_KINDS]; /* errors in percent, of bb_cross_validate */
    const char *doubtful; /* the fit with the largest part of FAR times, of those that do not hold; NULL: none */
    double share;         /* part of its times that are far, 0 to 1 */
    double far[2];        /* smallest and largest size in bytes of these */
    const struct bb_calibration_row *worst; /* the row of this fit with the largest error */
};

static double bytes_of(const struct bb_measurement *m)
{
    return m->bytes > 0 ? m->bytes
                        : (double)bb_coll_payload_count(m->call.kind, m->call.count, m->call.ranks) *
                              (double)bb_dtypes[m->call.dtype].bytes;
}

static double error_of(const struct bb_calibration_row *row)
{
    return 100 * fabs(row->fitted_us / row->measurement->time_us - 1);
}

/* Computes the errors of the measurements that a fit used, or of those that no fit used. A measurement of several fits
 * counts in the last one, in which the model selects the variant, as in a prediction. */
static void summarize(const struct bb_calibration *c, bool fitted, struct bb_stats *stats)
{
    const struct bb_measurement *first = c->measurements->rows;
    const struct bb_calibration_row **last;
    double *errors;
    size_t n = 0;
    bool *used;

    BB_NEW(errors, c->n_rows);
    BB_NEW(used, c->measurements->n_rows);
    BB_NEW(last, c->measurements->n_rows);
    for (const struct bb_calibration_row *row = c->rows; row < c->rows + c->n_rows; row++) {
        used[row->measurement - first] |= row->fit->fitted;
        last[row->measurement - first] = row;
    }
    for (const struct bb_calibration_row *row = c->rows; row < c->rows + c->n_rows; row++)
        if (!row->outlier && row == last[row->measurement - first] && used[row->measurement - first] == fitted)
            errors[n++] = error_of(row);
    bb_stats_compute(errors, n, stats);
    free(errors);
    free(used);
    free(last);
}

/* Returns whether both are of the same fit, and of the same collective on the same ranks. */
static bool is_same_operation(const struct bb_calibration_row *a, const struct bb_calibration_row *b)
{
    const struct bb_measurement *x = a->measurement, *y = b->measurement;

    return a->fit == b->fit && x->kind == y->kind &&
           (x->kind != BB_MEASURED_COLLECTIVE || (x->call.kind == y->call.kind && x->call.ranks == y->call.ranks));
}

/* Finds a collective of sends and receives for which the model is wrong at many sizes. */
static void find_wrong_collective(const struct bb_calibration *c, struct accuracy *a)
{
    const struct bb_calibration_row *first = NULL;
    size_t far = 0, n = 0;

    for (const struct bb_calibration_row *row = c->rows; row < c->rows + c->n_rows; row++) {
        const struct bb_measurement *m = row->measurement;

        if (!first && row->systematic && error_of(row) > FAR_PERCENT &&
            !(bb_colls[m->call.kind].flags & BB_COLL_ESTIMATED)) {
            first = a->worst = row;
            a->far[0] = a->far[1] = bytes_of(m);
        }
    }
    for (const struct bb_calibration_row *row = c->rows; first && row < c->rows + c->n_rows; row++) {
        if (!is_same_operation(row, first))
            continue;
        n++;
        if (error_of(row) <= FAR_PERCENT)
            continue;
        far++;
        a->far[0] = fmin(a->far[0], bytes_of(row->measurement));
        a->far[1] = fmax(a->far[1], bytes_of(row->measurement));
        a->worst = error_of(row) > error_of(a->worst) ? row : a->worst;
    }
    if (!first)
        return;
    a->doubtful = bb_colls[first->measurement->call.kind].name;
    a->share = (double)far / (double)n;
}

static struct accuracy accuracy_of(const struct bb_calibration *c, const struct bb_stats *left_out)
{
    struct accuracy a = {.share = MAX_FAR};
    const struct bb_calibration_row *row = c->rows;

    for (int kind = 0; left_out && kind < BB_LEFT_OUT_KINDS; kind++)
        a.left_out[kind] = left_out[kind];

    for (; row < c->rows + c->n_rows; row++)
        a.outliers += row->outlier;
    row = c->rows;
    summarize(c, true, &a.fitted);
    summarize(c, false, &a.other);
    while (row < c->rows + c->n_rows) {
        const struct bb_calibration_row *worst = row, *begin = row;
        double sizes[2] = {INFINITY, 0};
        size_t far = 0;

        for (; row < c->rows + c->n_rows && row->fit == begin->fit; row++) {
            if (error_of(row) > FAR_PERCENT) {
                far++;
                sizes[0] = fmin(sizes[0], bytes_of(row->measurement));
                sizes[1] = fmax(sizes[1], bytes_of(row->measurement));
            }
            worst = error_of(row) > error_of(worst) ? row : worst;
        }
        if ((double)far > a.share * (double)(row - begin)) {
            a.doubtful = begin->fit->name;
            memcpy(a.far, sizes, sizeof(sizes));
            a.share = (double)far / (double)(row - begin);
            a.worst = worst;
        }
    }
    if (!a.doubtful)
        find_wrong_collective(c, &a);
    return a;
}

/* Writes a range of sizes: "4 KiB to 1 MiB", or "4 KiB". */
static const char *range_text(const double sizes[2], char text[2 * BB_BYTES_TEXT + 8])
{
    char most[BB_BYTES_TEXT];

    bb_format_bytes((size_t)sizes[0], text);
    if (sizes[1] > sizes[0])
        snprintf(text + strlen(text), BB_BYTES_TEXT + 8, " to %s", bb_format_bytes((size_t)sizes[1], most));
    return text;
}

/* Returns the fit that does not hold, and its sizes: "ring LL, sizes 4 KiB to 1 MiB". */
static json_t *doubtful_text(const void *accuracy)
{
    const struct accuracy *a = accuracy;
    char range[2 * BB_BYTES_TEXT + 8];

    if (!a->doubtful || a->far[1] < 1)
        return a->doubtful ? json_string(a->doubtful) : json_null();
    return json_sprintf("%s, size%s %s", a->doubtful, a->far[1] > a->far[0] ? "s" : "", range_text(a->far, range));
}

static json_t *any_outliers(const void *accuracy)
{
    const struct accuracy *a = accuracy;

    return a->outliers > 0 ? json_integer((json_int_t)a->outliers) : json_null();
}

#define ACCURACY(name) BB_SHOWS(struct accuracy, name)
static const struct bb_field accuracy_fields[] = {
    {"doubtful_fit", NULL, NULL, 0, 0, ACCURACY(doubtful)},
    {NULL, "DOES NOT HOLD for ", "; ", 0, 0, .value = doubtful_text},
    {"left_out_rows", NULL, NULL, 0, 0, ACCURACY(left_out[BB_LEFT_OUT_SIZES].n)},
    {"left_out_median_percent", "at sizes that were not measured, expect a median error of ", " %", 0, 2,
     ACCURACY(left_out[BB_LEFT_OUT_SIZES].p50)},
    {"left_out_worst_percent", ", worst ", " % (every other size was left out of the fit); ", 0, 2,
     ACCURACY(left_out[BB_LEFT_OUT_SIZES].max)},
    {"left_out_collective_rows", NULL, NULL, 0, 0, ACCURACY(left_out[BB_LEFT_OUT_COLLECTIVES].n)},
    {"left_out_collective_median_percent",
     "for other collectives on these ranks, but not alltoall, gather and scatter: median ", " %", 0, 2,
     ACCURACY(left_out[BB_LEFT_OUT_COLLECTIVES].p50)},
    {"left_out_collective_worst_percent", ", worst ", " % (each one was left out); ", 0, 2,
     ACCURACY(left_out[BB_LEFT_OUT_COLLECTIVES].max)},
    {"fitted_rows", NULL, NULL, 0, 0, ACCURACY(fitted.n)},
    {"fitted_median_percent", "the measured times themselves: median ", " %", 0, 2, ACCURACY(fitted.p50)},
    {"fitted_worst_percent", ", worst ", " %", 0, 2, ACCURACY(fitted.max)},
    {"outliers", NULL, NULL, 0, 0, ACCURACY(outliers)},
    {NULL, " without ", " outlier", 0, 0, .value = any_outliers, .form = BB_FORM_PLURAL},
    {"other_rows", NULL, NULL, 0, 0, ACCURACY(other.n)},
    {"other_median_percent", "; measured times to which nothing was fitted: median ", " %", 0, 2, ACCURACY(other.p50)},
    {"other_worst_percent", ", worst ", " %", 0, 2, ACCURACY(other.max)},
    {0},
};

/* Prints the numbers of nodes of the collectives if they are too few to predict other numbers of nodes. */
static void print_node_counts(const struct bb_measurements *e, FILE *out)
{
    char both[24] = "";
    int min = 0, max = 0;
    bool has_messages = false; /* between nodes */

    for (size_t i = 0; i < e->n_rows; i++)
        has_messages |= e->rows[i].kind == BB_MEASURED_MESSAGE && !e->rows[i].same_node;
    for (size_t i = 0; i < e->n_rows; i++)
        if (e->rows[i].kind == BB_MEASURED_COLLECTIVE) {
            min = min == 0 || e->rows[i].call.nodes < min ? e->rows[i].call.nodes : min;
            max = e->rows[i].call.nodes > max ? e->rows[i].call.nodes : max;
        }
    for (size_t i = 0; i < e->n_rows; i++)
        if (e->rows[i].kind == BB_MEASURED_COLLECTIVE && e->rows[i].call.nodes != min && e->rows[i].call.nodes != max)
            return;
    if (min < max)
        snprintf(both, sizeof(both), "%d and ", min);
    if (max == 1)
        fprintf(out, "; collectives were measured on 1 node only: parameters between nodes are %s",
                has_messages ? "fitted to messages" : "those of the starting profile");
    else if (max > 1)
        fprintf(out,
                "; measured on %s%d nodes only: forecasts for other numbers of nodes may be far off, %s "
                "would determine the latency per step",
                both, max, min < max ? "a third number of nodes" : "two other numbers of nodes");
}

/* Prints the accuracy, and the measurement and the slow part for which the profile does not hold. */
static void print_accuracy(const struct bb_calibration_report *r, FILE *out)
{
    const struct bb_calibration *c = r->calibration;
    struct accuracy a = accuracy_of(c, r->left_out);
    const struct bb_measurements *e = c->measurements;

    fputs("# accuracy: ", out);
    for (int kind = 0; kind < BB_LEFT_OUT_KINDS; kind++)
        if (a.doubtful &&
            a.left_out[kind].p50 < a.fitted.p50) /* no expectation: the fit to fewer rows was another one */
            a.left_out[kind] = (struct bb_stats){.p50 = NAN, .max = NAN};
    bb_table_sentence(out, accuracy_fields, &a);
    for (int inter = 0; inter < 2; inter++)
        if (c->scaled[inter] > 0)
            fprintf(out,
                    "; rates %s that were not measured are those of %s x %.3g, as %s; to measure them: bench "
                    "--sweep-algorithms, bench p2p",
                    inter ? "between nodes" : "within a node", c->base->name, c->scaled[inter], c->scaled_as[inter]);
    for (size_t f = 0; f < e->n_files; f++)
        if (e->files[f].slow[0])
            fprintf(out, "; slow when measured: %s in %s", e->files[f].slow, e->files[f].path);
    print_node_counts(e, out);
    if (a.doubtful && r->selected_by)
        fputs("; another starting profile may hold, try: --from NAME (busbar list clusters)", out);
    fputc('\n', out);
}

json_t *bb_calibration_doubtful(const struct bb_calibration *c)
{
    const struct accuracy a = accuracy_of(c, NULL);

    return a.doubtful ? doubtful_text(&a) : NULL;
}

void bb_calibration_warn(const struct bb_calibration_report *r)
{
    const struct bb_calibration *c = r->calibration;
    const struct accuracy a = accuracy_of(c, NULL);
    struct residual worst;
    char measured[BB_TIME_TEXT], fitted[BB_TIME_TEXT];

    if (r->better.name && !r->selected_by)
        bb_warn("the times between nodes differ by %.1f %% from %s, by %.1f %% from %s, which is the better starting "
                "profile; try: --from %s",
                r->better.percent_of_the_other, r->selected, r->better.percent, r->better.name, r->better.name);
    if (!a.doubtful)
        return;
    worst = residual_of(c, a.worst);
    bb_warn(
        "%s: %.0f %% of the times differ by more than %d %% from the fit, most of all %s in %s: measured %s, fitted %s",
        a.doubtful, 100 * a.share, FAR_PERCENT, worst.row, worst.file, bb_format_time(worst.measured_us, measured),
        bb_format_time(worst.fitted_us, fitted));
}

/* ---- text output ---- */

/* A list of words separated by commas, printed in lines that begin with "#   ". Zeroed except for `out` and `title`:
 * empty. */
struct list {
    FILE *out;
    const char *title; /* printed before the first word */
    int column;
};

static void list_word(struct list *l, const char *word)
{
    const int width = (int)strlen(word) + 2;

    if (l->column == 0)
        fputs(l->title, l->out);
    if (l->column == 0 || l->column + width > 110)
        l->column = fprintf(l->out, "%s#  ", l->column ? ",\n" : "");
    else
        fputc(',', l->out);
    fprintf(l->out, " %s", word);
    l->column += width;
}

static void end_list(const struct list *l)
{
    if (l->column > 0)
        fputc('\n', l->out);
}

static void print_head(const struct bb_calibration_report *r, FILE *out)
{
    const struct bb_measurements *e = r->calibration->measurements;

    bb_print_report_header(out, r->argc, r->argv);
    fprintf(out, "# %s: %zu row%s from %zu file%s\n", e->files[0].device, e->n_rows, bb_plural(e->n_rows), e->n_files,
            bb_plural(e->n_files));
    for (size_t f = 0; f < e->n_files; f++) {
        bb_table_sentence(out, file_fields, &e->files[f]);
        fputc('\n', out);
    }
    fprintf(out, "# starting profile: %s%s%s", r->calibration->base->name, r->selected_by ? ", selected by " : "",
            r->selected_by ? r->selected_by : "");
    if (r->better.name && r->selected_by)
        fprintf(out, " and the times between nodes, which differ from it by %.1f %% (from %s by %.1f %%)",
                r->better.percent, r->selected, r->better.percent_of_the_other);
    fputc('\n', out);
    if (e->files[0].emulated)
        bb_print_emulated_note(out, "", "");
}

/* Lists the outliers of an operation, if `first` is the first of them. */
static void list_outliers(const struct bb_calibration *c, const struct bb_calibration_row *first, struct list *names)
{
    const struct bb_measurement *m = first->measurement;
    char ranks[32] = "", range[2 * BB_BYTES_TEXT + 8] = "", text[192];
    double sizes[2] = {INFINITY, 0};
    size_t n = 0;

    for (const struct bb_calibration_row *row = c->rows; first->outlier && row < c->rows + c->n_rows; row++) {
        if (!row->outlier || !is_same_operation(row, first))
            continue;
        if (row < first)
            return;
        sizes[0] = fmin(sizes[0], bytes_of(row->measurement));
        sizes[1] = fmax(sizes[1], bytes_of(row->measurement));
        n++;
    }
    if (n == 0)
        return;
    if (m->kind == BB_MEASURED_COLLECTIVE)
        snprintf(ranks, sizeof(ranks), " on %d ranks", m->call.ranks);
    if (sizes[1] >= 1)
        range_text(sizes, range);
    snprintf(text, sizeof(text), "%zu %s%s%s%s", n, *ranks ? bb_colls[m->call.kind].name : first->fit->name,
             *range ? " of " : "", range, ranks);
    list_word(names, text);
}

static void print_outliers(const struct bb_calibration *c, FILE *out)
{
    struct list names = {.out = out, .title = "# all outliers, which no fit used:\n"};
    const struct bb_calibration_row *end = c->rows + c->n_rows;
    size_t all = 0;

    for (const struct bb_calibration_row *row = c->rows; row < end; row++) {
        if (row->outlier && all++ < MAX_OUTLIERS_SHOWN) {
            const struct residual shown = residual_of(c, row);

            bb_table_sentence(out, residual_fields, &shown);
        }
    }
    for (const struct bb_calibration_row *row = c->rows; row < end && all > MAX_OUTLIERS_SHOWN; row++)
        list_outliers(c, row, &names);
    end_list(&names);
}

/* Returns whether a file records which variant NCCL chose; tables of nccl-tests do not. */
static bool knows_choice(const struct bb_measurements *e)
{
    for (const struct bb_measurement *row = e->rows; row < e->rows + e->n_rows; row++)
        if (bb_is_nccl_choice(row) && *row->algorithm)
            return true;
    return false;
}

static void print_remarks(const struct bb_calibration *c, FILE *out)
{
    struct list correlated = {
        .out = out,
        .title = "#\n# the measurements determine only a combination of these parameters; how they share it is that of "
                 "the starting profile:\n"};
    struct list penalized = {
        .out = out,
        .title =
            knows_choice(c->measurements)
                ? "#\n# penalized: NCCL did not choose these variants although the cost model predicted that they are "
                  "faster; the new profile makes them slower, or does not use them at small sizes:\n"
                : "#\n# penalized: the files do not record what NCCL chose; its choices are assumed from the starting "
                  "profile and from the times, so the new profile makes these variants slower, or does not use them at "
                  "small sizes:\n"};

    for (int f = 0; f < c->n_parameters; f++)
        if (c->parameters[f].correlated)
            list_word(&correlated, c->parameters[f].key);
    end_list(&correlated);
    for (int w = 0; w < c->base->n_variants; w++)
        if (c->penalized_variants[w]) {
            const int bytes = c->cluster.variants[w].min_bytes;
            char size[BB_BYTES_TEXT], text[BB_BYTES_TEXT + 64];

            snprintf(text, sizeof(text), "%s%s%s%s", c->variant_names[w], bytes ? " (not used below " : " (slower)",
                     bytes ? bb_format_bytes((size_t)bytes, size) : "", bytes ? ")" : "");
            list_word(&penalized, text);
        }
    end_list(&penalized);
}

/* Prints a hint if runs on several nodes had fewer ranks per node than gpus_per_node. The cost model divides a
 * node's NICs among its GPUs, so a wrong gpus_per_node changes the inter-node rates. */
static void print_small_nodes(const struct bb_calibration *c, FILE *out)
{
    const struct bb_measurements *e = c->measurements;
    int max = 0;

    for (size_t f = 0; f < e->n_files; f++)
        if (e->files[f].nodes > 1 && e->files[f].ranks / e->files[f].nodes > max)
            max = e->files[f].ranks / e->files[f].nodes;
    if (max > 0 && max < c->cluster.gpus_per_node)
        fprintf(out,
                "#\n# gpus_per_node is %d, but runs on several nodes had at most %d ranks per node; if this is the "
                "size of a node, try: --gpus-per-node %d\n",
                c->cluster.gpus_per_node, max, max);
}

/* Lists the parameters that keep the values of the starting profile. For an NCCL variant without any fitted
 * parameter, the list contains only the name of the variant: "nccl.pat.Simple". */
static void print_nominal(const struct bb_calibration *c, FILE *out)
{
    struct list list = {.out = out, .title = ""};
    bool is_fitted[BB_NCCL_VARIANTS] = {false}, is_listed[BB_NCCL_VARIANTS] = {false};
    char text[64];

    for (int f = 0; f < c->n_parameters; f++)
        if (c->parameters[f].variant >= 0)
            is_fitted[c->parameters[f].variant] |= c->parameters[f].fit != NULL;
    fprintf(out, "#\n# parameters that the measurements do not determine, with the values of %s:\n", c->base->name);
    for (int f = 0; f < c->n_parameters; f++) {
        const char *key = c->parameters[f].key;
        const int variant = c->parameters[f].variant;

        if (variant < 0 || is_fitted[variant]) {
            if (!c->parameters[f].fit)
                list_word(&list, key);
        } else if (!is_listed[variant]) {
            is_listed[variant] = true;
            snprintf(text, sizeof(text), "%.*s", (int)(strrchr(key, '.') - key), key);
            list_word(&list, text);
        }
    }
    end_list(&list);
}

void bb_calibration_print(const struct bb_calibration_report *r, FILE *out)
{
    const struct bb_calibration *c = r->calibration;
    char *profile = bb_visible_text(r->profile);
    json_t *next = bb_next_measurements(c), *text;
    size_t k;

    print_head(r, out);
    fputs("#\n", out);
    bb_table_heading(out, fit_fields);
    for (int i = first_fit(c); i < c->n_fits; i++)
        bb_table_row(out, fit_fields, &c->fits[i]);
    print_outliers(c, out);
    fputs("#\n", out);
    bb_table_heading(out, parameter_fields);
    for (int f = 0; f < c->n_parameters; f++)
        if (c->parameters[f].fit)
            bb_table_row(out, parameter_fields, &c->parameters[f]);
    print_remarks(c, out);
    print_small_nodes(c, out);
    print_nominal(c, out);
    json_array_foreach(next, k, text)
    {
        fprintf(out, "%s%s", k == 0 ? "# to determine the rest, measure also: " : "; ", json_string_value(text));
    }
    fputs(k > 0 ? "\n" : "", out);
    json_decref(next);
    fprintf(out, "# profile: %s\n", profile);
    free(profile);
    print_accuracy(r, out);
}

/* ---- JSON output ---- */

static json_t *residuals_json(const struct bb_calibration *c)
{
    json_t *list = json_array();

    for (const struct bb_calibration_row *row = c->rows; row < c->rows + c->n_rows; row++) {
        const struct residual shown = residual_of(c, row);

        json_array_append_new(list, bb_table_object(residual_fields, &shown));
    }
    return list;
}

/* Returns the JSON list of the names of the NCCL variants that were made slower in the profile (see
 * penalized_variants.h). */
static json_t *penalized_json(const struct bb_calibration *c)
{
    json_t *list = json_array();

    for (int i = 0; i < c->base->n_variants; i++)
        if (c->penalized_variants[i])
            json_array_append_new(list, json_string(c->variant_names[i]));
    return list;
}

json_t *bb_calibration_json(const struct bb_calibration_report *r)
{
    const struct bb_calibration *c = r->calibration;
    const struct bb_measurement_file *first = &c->measurements->files[0];
    const struct accuracy accuracy = accuracy_of(c, r->left_out);
    json_t *command = bb_json_words(r->argc, r->argv), *root;

    /* The command line contains all paths, so if it is valid UTF-8, all texts of the document are. */
    if (json_array_size(command) != (size_t)r->argc) {
        json_decref(command);
        return NULL;
    }
    root = json_pack(
        "{s:s, s:s, s:o, s:s, s:s, s:s?, s:s, s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "schema",
        "busbar.calibration/1", "busbar", BUSBAR_VERSION, "command", command, "profile", r->profile, "from",
        c->base->name, "better_from", r->selected_by ? NULL : r->better.name, "device", first->device, "emulated",
        first->emulated, "files",
        bb_table_list(file_fields, c->measurements->files, c->measurements->n_files, sizeof(*first)), "fits",
        bb_table_list(fit_fields, c->fits + first_fit(c), (size_t)(c->n_fits - first_fit(c)), sizeof(*c->fits)),
        "results", residuals_json(c), "parameters",
        bb_table_list(parameter_fields, c->parameters, (size_t)c->n_parameters, sizeof(*c->parameters)),
        "penalized_variants", penalized_json(c), "next_measurements", bb_next_measurements(c), "accuracy",
        bb_table_object(accuracy_fields, &accuracy));
    bb_results_set_end(root, 0, NULL);
    return root;
}
