/* calibration_report.c - see calibration_report.h: the text and the JSON. */
#include "proxies/calibrate/calibration_report.h"

#include "bootstrap/results/results.h"
#include "bootstrap/results/table.h"

#include <string.h>

/* ---- rows ---- */

struct figure_row {
    const char *key, *from;
    double nominal, value;
    bool together;
    char nominal_text[16], value_text[16];
};

struct fit_row {
    const char *name;
    long long rows, outliers;
    double median_percent, worst_percent;
    bool fitted;
};

#define FIGURE(name) BB_SHOWS(struct figure_row, name)
#define FIT(name)    BB_SHOWS(struct fit_row, name)
static const struct bb_field fit_fields[] = {
    {"name", "rows of", "", 31, 0, FIT(name)},
    {"rows", "rows", "", 8, 0, FIT(rows)},
    {"outliers", "left out", "", 8, 0, FIT(outliers)},
    {"median_error_percent", "median", "error %", 9, 2, FIT(median_percent)},
    {"worst_error_percent", "worst", "error %", 9, 2, FIT(worst_percent)},
    {"fitted", NULL, NULL, 0, 0, FIT(fitted)},
    {0},
};

static const struct bb_field figure_fields[] = {
    {"key", "figure", "", 31, 0, FIGURE(key)},
    {"nominal", FIGURE(nominal)},
    {"value", FIGURE(value)},
    {NULL, "nominal", "", 12, 0, FIGURE(nominal_text)},
    {NULL, "calibrated", "", 12, 0, FIGURE(value_text)},
    {"from", "told by rows of", "", 31, 0, FIGURE(from)},
    {"together", NULL, NULL, 0, 0, FIGURE(together)},
    {0},
};

static struct fit_row fit_row_of(const struct bb_calibration_fit *fit)
{
    return (struct fit_row){fit->name,
                            (long long)fit->n_rows,
                            (long long)fit->n_outliers,
                            100 * fit->median_error,
                            100 * fit->worst_error,
                            !fit->only_judged};
}

static struct figure_row figure_row_of(const struct bb_calibration *c, int f)
{
    const struct bb_calibration_figure *figure = &c->figures[f];

    struct figure_row row = {.key = figure->key,
                             .from = figure->fit >= 0 ? c->fits[figure->fit].name : NULL,
                             .nominal = figure->nominal,
                             .value = figure->value,
                             .together = figure->together};

    snprintf(row.nominal_text, sizeof(row.nominal_text), "%.5g", figure->nominal);
    snprintf(row.value_text, sizeof(row.value_text), "%.5g", figure->value);
    return row;
}

/* ---- text ---- */

/* Words behind one another, in lines that begin with "#   ". */
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
    const struct bb_evidence *e = r->evidence;

    fprintf(out, "# busbar %s  busbar", BUSBAR_VERSION);
    for (int i = 0; i < r->argc; i++)
        fprintf(out, " %s", r->argv[i]);
    fprintf(out, "\n# %s: %zu rows of %zu file%s\n", e->files[0].device, e->n_rows, e->n_files,
            e->n_files == 1 ? "" : "s");
    for (size_t f = 0; f < e->n_files; f++)
        fprintf(out, "#   %s: %s, %d rank%s on %d node%s, %zu rows, %zu of no use here\n", e->files[f].path,
                e->files[f].what, e->files[f].ranks, e->files[f].ranks == 1 ? "" : "s", e->files[f].nodes,
                e->files[f].nodes == 1 ? "" : "s", e->files[f].n_rows, e->files[f].n_useless);
    fprintf(out, "# starts from %s%s\n", r->base->name, r->by_device ? ", which has this GPU" : "");
    if (e->files[0].emulated)
        fputs("# EMULATED GPUs: times are modelled, none is a measurement of hardware\n", out);
}

static void print_outliers(const struct bb_calibration_report *r, FILE *out)
{
    const struct bb_calibration *c = r->calibration;
    char text[120];

    for (int i = 0; i < c->n_outliers; i++) {
        const struct bb_evidence_row *row = &r->evidence->rows[c->outliers[i].row];

        bb_evidence_text(row, text, sizeof(text));
        fprintf(out, "# left out: %s in %s: %.2f us, fitted %.2f us\n", text, r->evidence->files[row->file].path,
                c->outliers[i].measured_us, c->outliers[i].fitted_us);
    }
}

static void print_remarks(const struct bb_calibration_report *r, FILE *out)
{
    const struct bb_calibration *c = r->calibration;
    struct list list = {.out = out};
    char text[64];

    for (int f = 0; f < c->n_figures; f++)
        if (c->figures[f].together && c->figures[f].fit >= 0) {
            if (list.column == 0)
                fputs("#\n# told only together with others, each moved by its nominal part:\n", out);
            list_word(&list, c->figures[f].key);
        }
    end_list(&list);
    for (int w = 0; w < r->base->n_ways; w++)
        if (c->held_back[w]) {
            if (list.column == 0)
                fputs("#\n# held back, since NCCL took none of them where they would have been quicker:\n", out);
            snprintf(text, sizeof(text), "%s %s", bb_nccl_algorithms[r->base->ways[w].algorithm],
                     r->base->ways[w].protocol);
            list_word(&list, text);
        }
    end_list(&list);
}

/* "nccl.pat.Simple" for the first of its figures; NULL: it has been said. */
static const char *whole_way(const struct bb_calibration *c, int f, char *text, size_t size)
{
    if (f > 0 && c->figures[f - 1].way == c->figures[f].way)
        return NULL;
    snprintf(text, size, "%.*s", (int)(strrchr(c->figures[f].key, '.') - c->figures[f].key), c->figures[f].key);
    return text;
}

static bool is_told_in_part(const struct bb_calibration *c, int way)
{
    for (int f = 0; f < c->n_figures; f++)
        if (c->figures[f].way == way && c->figures[f].fit >= 0)
            return true;
    return false;
}

static void print_nominal(const struct bb_calibration_report *r, FILE *out)
{
    const struct bb_calibration *c = r->calibration;
    struct list list = {.out = out};
    char text[64];

    fprintf(out, "#\n# nominal, as in %s, since no row tells:\n", r->base->name);
    for (int f = 0; f < c->n_figures; f++)
        if (c->figures[f].fit < 0) {
            const int way = c->figures[f].way;
            const char *word =
                way < 0 || is_told_in_part(c, way) ? c->figures[f].key : whole_way(c, f, text, sizeof(text));

            if (word)
                list_word(&list, word);
        }
    end_list(&list);
}

void bb_calibration_print(const struct bb_calibration_report *r, FILE *out)
{
    const struct bb_calibration *c = r->calibration;

    print_head(r, out);
    fputs("#\n", out);
    bb_table_heading(out, fit_fields);
    for (int i = 0; i < c->n_fits; i++) {
        struct fit_row row = fit_row_of(&c->fits[i]);

        bb_table_row(out, fit_fields, &row);
    }
    print_outliers(r, out);
    fputs("#\n", out);
    bb_table_heading(out, figure_fields);
    for (int f = 0; f < c->n_figures; f++) {
        struct figure_row row = figure_row_of(c, f);

        if (c->figures[f].fit >= 0)
            bb_table_row(out, figure_fields, &row);
    }
    print_remarks(r, out);
    print_nominal(r, out);
    fprintf(out, "# profile: %s\n", r->profile);
}

/* ---- JSON ---- */

static json_t *rows_json(const struct bb_calibration *c)
{
    json_t *rows = json_array();

    for (int i = 0; i < c->n_fits; i++) {
        struct fit_row row = fit_row_of(&c->fits[i]);
        json_t *object = json_object();

        if (bb_table_json(object, fit_fields, &row) != 0 || json_array_append_new(rows, object) != 0)
            return NULL;
    }
    return rows;
}

static json_t *figures_json(const struct bb_calibration *c)
{
    json_t *rows = json_array();

    for (int f = 0; f < c->n_figures; f++) {
        struct figure_row row = figure_row_of(c, f);
        json_t *object = json_object();

        if (bb_table_json(object, figure_fields, &row) != 0 || json_array_append_new(rows, object) != 0)
            return NULL;
    }
    return rows;
}

static json_t *files_json(const struct bb_evidence *e)
{
    json_t *files = json_array();

    for (size_t f = 0; f < e->n_files; f++)
        json_array_append_new(files, json_pack("{s:s, s:s, s:s, s:s, s:i, s:i, s:I, s:I}", "file", e->files[f].path,
                                               "what", e->files[f].what, "started", e->files[f].started, "nccl",
                                               e->files[f].nccl, "ranks", e->files[f].ranks, "nodes", e->files[f].nodes,
                                               "rows", (json_int_t)e->files[f].n_rows, "useless_rows",
                                               (json_int_t)e->files[f].n_useless));
    return files;
}

static json_t *outliers_json(const struct bb_calibration_report *r)
{
    const struct bb_calibration *c = r->calibration;
    json_t *list = json_array();
    char text[120];

    for (int i = 0; i < c->n_outliers; i++) {
        const struct bb_evidence_row *row = &r->evidence->rows[c->outliers[i].row];

        bb_evidence_text(row, text, sizeof(text));
        json_array_append_new(list, json_pack("{s:s, s:s, s:f, s:f}", "row", text, "file",
                                              r->evidence->files[row->file].path, "measured_us",
                                              c->outliers[i].measured_us, "fitted_us", c->outliers[i].fitted_us));
    }
    return list;
}

static json_t *held_back_json(const struct bb_calibration_report *r)
{
    json_t *list = json_array();

    for (int w = 0; w < r->base->n_ways; w++)
        if (r->calibration->held_back[w])
            json_array_append_new(
                list, json_sprintf("%s %s", bb_nccl_algorithms[r->base->ways[w].algorithm], r->base->ways[w].protocol));
    return list;
}

json_t *bb_calibration_json(const struct bb_calibration_report *r)
{
    const struct bb_evidence *e = r->evidence;

    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:b, s:o, s:o, s:o, s:o, s:o}", "schema", "busbar.calibration/1",
                     "busbar", BUSBAR_VERSION, "profile", r->profile, "from", r->base->name, "device",
                     e->files[0].device, "emulated", e->files[0].emulated, "files", files_json(e), "fits",
                     rows_json(r->calibration), "outliers", outliers_json(r), "figures", figures_json(r->calibration),
                     "held_back", held_back_json(r));
}
