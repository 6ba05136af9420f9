/* calibration_report.c - writes the text and the JSON of a calibration (see calibration_report.h). */
#include "proxies/calibrate/calibration_report.h"

#include "bootstrap/base/units.h"
#include "bootstrap/cli/report_header.h"
#include "bootstrap/results/results.h"
#include "bootstrap/results/table.h"

#include <string.h>

enum { MAX_OUTLIERS_SHOWN = 3 }; /* maximum number of outliers that are printed individually; the others are counted */

/* ---- columns of the tables of fits and parameters ---- */

/* Formats a number with five significant digits, the precision of a profile. */
static json_t *number_text(double value)
{
    return json_sprintf("%.5g", value);
}

static json_t *nominal_text(const void *parameter)
{
    return number_text(((const struct bb_calibration_parameter *)parameter)->nominal);
}

static json_t *value_text(const void *parameter)
{
    return number_text(((const struct bb_calibration_parameter *)parameter)->value);
}

static json_t *fit_name(const void *parameter)
{
    const struct bb_calibration_fit *fit = ((const struct bb_calibration_parameter *)parameter)->fit;

    return fit && *fit->name ? json_string(fit->name) : json_null();
}

#define PARAMETER(name) BB_SHOWS(struct bb_calibration_parameter, name)
#define FIT(name)       BB_SHOWS(struct bb_calibration_fit, name)
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
    {"nominal", PARAMETER(nominal)},
    {"value", PARAMETER(value)},
    {NULL, "nominal", "", 12, 0, .value = nominal_text},
    {NULL, "calibrated", "", 12, 0, .value = value_text},
    {"from", "fitted to", "", 31, 0, .value = fit_name},
    {"correlated", NULL, NULL, 0, 0, PARAMETER(correlated)},
    {0},
};

/* ---- text output ---- */

/* State while printing a list of words separated by commas, in lines that begin with "#   ". */
struct list {
    FILE *out;
    int column;
};

static void list_word(struct list *l, const char *word)
{
    const int width = (int)strlen(word) + 2;

    if (l->column == 0 || l->column + width > 110)
        l->column = fprintf(l->out, "%s#  ", l->column ? ",\n" : "");
    else
        fputc(',', l->out);
    fprintf(l->out, " %s", word);
    l->column += width;
}

static void end_list(struct list *l)
{
    if (l->column > 0)
        fputc('\n', l->out);
    l->column = 0;
}

static void print_head(const struct bb_calibration_report *r, FILE *out)
{
    const struct bb_measurements *e = r->measurements;

    bb_print_report_header(out, r->argc, r->argv);
    fprintf(out, "# %s: %zu rows from %zu file%s\n", e->files[0].device, e->n_rows, e->n_files,
            e->n_files == 1 ? "" : "s");
    for (size_t f = 0; f < e->n_files; f++)
        fprintf(out, "#   %s: %s, %d rank%s on %d node%s, %zu rows used, %zu unused\n", e->files[f].path,
                e->files[f].what, e->files[f].ranks, e->files[f].ranks == 1 ? "" : "s", e->files[f].nodes,
                e->files[f].nodes == 1 ? "" : "s", e->files[f].n_rows, e->files[f].n_unused);
    fprintf(out, "# starting profile: %s%s\n", r->base->name, r->by_device ? ", selected by the GPU" : "");
    if (e->files[0].emulated)
        bb_print_emulated_note(out, "", "");
}

static void print_outlier(const struct bb_calibration_report *r, const struct bb_calibration_row *o, FILE *out)
{
    const struct bb_measurement *row = &r->measurements->rows[o->row];
    char text[120], measured[BB_TIME_TEXT], fitted[BB_TIME_TEXT];

    bb_measurement_text(row, text, sizeof(text));
    fprintf(out, "# outlier: %s in %s: measured %s, fitted %s\n", text, r->measurements->files[row->file].path,
            bb_format_time(o->measured_us, measured), bb_format_time(o->fitted_us, fitted));
}

static void print_outliers(const struct bb_calibration_report *r, FILE *out)
{
    size_t all = 0;

    for (size_t i = 0; i < r->calibration->n_rows; i++)
        if (r->calibration->rows[i].outlier && all++ < MAX_OUTLIERS_SHOWN)
            print_outlier(r, &r->calibration->rows[i], out);
    if (all > MAX_OUTLIERS_SHOWN)
        fprintf(out, "# and %zu more outliers\n", all - MAX_OUTLIERS_SHOWN);
}

static void print_remarks(const struct bb_calibration_report *r, FILE *out)
{
    const struct bb_calibration *c = r->calibration;
    struct list list = {.out = out};
    char text[64];

    for (int f = 0; f < c->n_parameters; f++)
        if (c->parameters[f].correlated && c->parameters[f].fit) {
            if (list.column == 0)
                fputs("#\n# the measurements determine only a sum of these parameters; each of them was changed in "
                      "proportion to its nominal value:\n",
                      out);
            list_word(&list, c->parameters[f].key);
        }
    end_list(&list);
    for (int w = 0; w < r->base->n_variants; w++)
        if (c->penalized_variants[w]) {
            if (list.column == 0)
                fputs("#\n# penalized: NCCL never chose these variants although the cost model predicted that they are "
                      "faster; the new profile makes them slower:\n",
                      out);
            snprintf(text, sizeof(text), "%s %s", bb_nccl_algorithms[r->base->variants[w].algorithm],
                     r->base->variants[w].protocol);
            list_word(&list, text);
        }
    end_list(&list);
}

/* Returns the name of the NCCL variant (algorithm + protocol) in a parameter's key: "nccl.pat.Simple" for
 * "nccl.pat.Simple.gbps". */
static const char *variant_of(const struct bb_calibration_parameter *parameter, char *text, size_t size)
{
    snprintf(text, size, "%.*s", (int)(strrchr(parameter->key, '.') - parameter->key), parameter->key);
    return text;
}

static bool is_any_fitted(const struct bb_calibration *c, int variant)
{
    for (int f = 0; f < c->n_parameters; f++)
        if (c->parameters[f].variant == variant && c->parameters[f].fit)
            return true;
    return false;
}

/* Prints a hint if runs on several nodes had fewer ranks per node than gpus_per_node. The cost model divides a
 * node's NICs among its GPUs, so a wrong gpus_per_node changes the inter-node rates. */
static void print_small_nodes(const struct bb_calibration_report *r, FILE *out)
{
    const struct bb_measurements *e = r->measurements;
    int max = 0;

    for (size_t f = 0; f < e->n_files; f++)
        if (e->files[f].nodes > 1 && e->files[f].ranks / e->files[f].nodes > max)
            max = e->files[f].ranks / e->files[f].nodes;
    if (max > 0 && max < r->calibration->cluster.gpus_per_node)
        fprintf(out,
                "#\n# gpus_per_node is %d, but runs on several nodes had at most %d ranks per node; if this is the "
                "size of a "
                "node, try: --gpus-per-node %d\n",
                r->calibration->cluster.gpus_per_node, max, max);
}

/* Lists the parameters that keep the values of the starting profile. For an NCCL variant without any fitted
 * parameter, the list contains only the name of the variant. */
static void print_nominal(const struct bb_calibration_report *r, FILE *out)
{
    const struct bb_calibration *c = r->calibration;
    struct list list = {.out = out};
    int last_variant = -1; /* index of the variant whose name was listed last; -1: none */
    char text[64];

    fprintf(out, "#\n# parameters that the measurements do not determine, with the values of %s:\n", r->base->name);
    for (int f = 0; f < c->n_parameters; f++) {
        const struct bb_calibration_parameter *parameter = &c->parameters[f];
        const bool reference = parameter->variant >= 0 && !is_any_fitted(c, parameter->variant);

        if (parameter->fit || (reference && parameter->variant == last_variant))
            continue;
        list_word(&list, reference ? variant_of(parameter, text, sizeof(text)) : parameter->key);
        last_variant = reference ? parameter->variant : last_variant;
    }
    end_list(&list);
}

void bb_calibration_print(const struct bb_calibration_report *r, FILE *out)
{
    const struct bb_calibration *c = r->calibration;

    print_head(r, out);
    fputs("#\n", out);
    bb_table_heading(out, fit_fields);
    for (int i = 0; i < c->n_fits; i++)
        bb_table_row(out, fit_fields, &c->fits[i]);
    print_outliers(r, out);
    fputs("#\n", out);
    bb_table_heading(out, parameter_fields);
    for (int f = 0; f < c->n_parameters; f++)
        if (c->parameters[f].fit)
            bb_table_row(out, parameter_fields, &c->parameters[f]);
    print_remarks(r, out);
    print_small_nodes(r, out);
    print_nominal(r, out);
    fprintf(out, "# profile: %s\n", r->profile);
}

/* ---- JSON output ---- */

/* Type of a function that returns the JSON of the i-th element of a list; NULL if a text is not valid UTF-8. */
typedef json_t *element(const struct bb_calibration_report *r, int i);

/* Returns the JSON list of the elements at(r, 0) to at(r, n - 1); NULL if one of them is NULL. */
static json_t *list_of(const struct bb_calibration_report *r, int n, element *at)
{
    json_t *list = json_array();

    for (int i = 0; i < n; i++)
        if (json_array_append_new(list, at(r, i)) != 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

/* Returns a JSON list with one object per row. rows: array of n structs of `size` bytes each, which `fields`
 * describes. */
static json_t *table_json(const struct bb_field *fields, const void *rows, int n, size_t size)
{
    json_t *list = json_array();

    for (int i = 0; i < n; i++) {
        json_array_append_new(list, json_object());
        bb_table_json(json_array_get(list, (size_t)i), fields, (const char *)rows + (size_t)i * size);
    }
    return list;
}

static json_t *file_json(const struct bb_calibration_report *r, int i)
{
    const struct bb_measurement_file *f = &r->measurements->files[i];

    return json_pack("{s:s, s:s, s:s, s:s, s:i, s:i, s:I, s:I}", "file", f->path, "what", f->what, "started",
                     f->started, "nccl", f->nccl, "ranks", f->ranks, "nodes", f->nodes, "rows", (json_int_t)f->n_rows,
                     "unused_rows", (json_int_t)f->n_unused);
}

static json_t *residual_json(const struct bb_calibration_report *r, int i)
{
    const struct bb_calibration_row *of = &r->calibration->rows[i];
    const struct bb_measurement *row = &r->measurements->rows[of->row];
    char text[120];

    bb_measurement_text(row, text, sizeof(text));
    return json_pack("{s:s, s:s, s:s, s:f, s:f, s:b}", "fit", r->calibration->fits[of->fit].name, "row", text, "file",
                     r->measurements->files[row->file].path, "measured_us", of->measured_us, "fitted_us", of->fitted_us,
                     "outlier", of->outlier);
}

static json_t *word_json(const struct bb_calibration_report *r, int i)
{
    return json_string(r->argv[i]);
}

/* Returns the JSON list of the names of the NCCL variants that were made slower in the profile (see
 * penalized_variants.h). */
static json_t *penalized_json(const struct bb_calibration_report *r)
{
    json_t *list = json_array();

    for (int i = 0; i < r->base->n_variants; i++)
        if (r->calibration->penalized_variants[i])
            json_array_append_new(list, json_sprintf("%s %s", bb_nccl_algorithms[r->base->variants[i].algorithm],
                                                     r->base->variants[i].protocol));
    return list;
}

json_t *bb_calibration_json(const struct bb_calibration_report *r)
{
    const struct bb_calibration *c = r->calibration;
    const struct bb_measurements *e = r->measurements;

    return json_pack("{s:s, s:s, s:o, s:s, s:s, s:s, s:b, s:o, s:o, s:o, s:o, s:o}", "schema", "busbar.calibration/1",
                     "busbar", BUSBAR_VERSION, "command", list_of(r, r->argc, word_json), "profile", r->profile, "from",
                     r->base->name, "device", e->files[0].device, "emulated", e->files[0].emulated, "files",
                     list_of(r, (int)e->n_files, file_json), "fits",
                     table_json(fit_fields, c->fits, c->n_fits, sizeof(*c->fits)), "results",
                     list_of(r, (int)c->n_rows, residual_json), "parameters",
                     table_json(parameter_fields, c->parameters, c->n_parameters, sizeof(*c->parameters)),
                     "penalized_variants", penalized_json(r));
}
