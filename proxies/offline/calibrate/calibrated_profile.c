/* calibrated_profile.c - creates the calibrated profile: the JSON of the starting profile with the fitted values. */
#include "proxies/offline/calibrate/calibration_report.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/base/outfile.h"
#include "bootstrap/base/units.h"
#include "proxies/offline/calibrate/parameters/penalized_variants.h"

#include <stdlib.h>
#include <string.h>

enum { LONGEST = 48 }; /* maximum length of the calibrated profile's name in characters */

/* Prints for each fit the fitted parameters and the result files that contain its measurements: "launch_us,
 * kernel_us: compute.json (... rows, ...)". */
static void add_sources(const struct bb_calibration *c, FILE *out)
{
    const struct bb_measurements *e = c->measurements;

    for (const struct bb_calibration_fit *done = c->fits; done < c->fits + c->n_fits; done++) {
        const char *comma = "";

        for (int f = 0; f < c->n_parameters; f++)
            if (c->parameters[f].fit == done) {
                fprintf(out, "%s%s", comma, c->parameters[f].key);
                comma = ", ";
            }
        if (!*comma)
            continue;
        comma = ": ";
        for (size_t i = 0; i < e->n_files; i++)
            if (done->files >> (i % 64) & 1) {
                fprintf(out, "%s%s", comma, e->files[i].path);
                comma = ", ";
            }
        if (!done->fitted)
            fprintf(out, "%s%s. ", comma, done->name);
        else
            fprintf(out, " (%zu row%s, median error %.2g %%, worst %.2g %%). ", done->n_rows, bb_plural(done->n_rows),
                    done->median_percent, done->worst_percent);
    }
}

static json_t *source_of(const struct bb_calibration_report *r)
{
    const char *source = json_string_value(json_object_get(r->base_root, "source"));
    const struct bb_measurements *e = r->calibration->measurements;
    char *text = NULL;
    size_t size;
    FILE *out = bb_open_text(&text, &size);
    json_t *value;

    fprintf(out, "busbar calibrate %s, %s, %s. ", BUSBAR_VERSION, e->files[0].device,
            e->files[0].emulated ? "emulated, not a measurement of hardware" : "measured");
    add_sources(r->calibration, out);
    for (size_t f = 0; f < e->n_files; f++)
        fprintf(out, "%s: %s, %s, NCCL %s. ", e->files[f].path, e->files[f].what,
                *e->files[f].started ? e->files[f].started : "unknown date",
                *e->files[f].nccl ? e->files[f].nccl : "version unknown");
    fprintf(out, "All other parameters are those of %s: %s", r->calibration->base->name, source ? source : "no source");
    bb_close_text(out, &text);
    value = json_string(text);
    free(text);
    return value;
}

/* Stores the fitted values in the JSON of a profile. A key contains at most one dot, "tflops.float32" is the key
 * "float32" of the object "tflops", except for the parameters of NCCL variants, whose objects are in the list
 * "nccl". */
static void set_parameters(const struct bb_calibration *c, json_t *root)
{
    for (const struct bb_calibration_parameter *p = c->parameters; p < c->parameters + c->n_parameters; p++) {
        const char *dot = strrchr(p->key, '.');
        json_t *object = root;
        char part[32];

        if (!p->fit)
            continue;
        if (p->variant >= 0) {
            object = json_array_get(json_object_get(root, "nccl"), (size_t)p->variant);
        } else if (dot) {
            snprintf(part, sizeof(part), "%.*s", (int)(dot - p->key), p->key);
            object = json_object_get(root, part);
        }
        json_object_set_new(object, dot ? dot + 1 : p->key,
                            p->kind == BB_INTEGER ? json_integer((json_int_t)p->value) : json_real(p->value));
    }
}

/* Returns whether a fit determined the rate of the variant within a node, or between nodes. */
static bool is_fitted(const struct bb_calibration *c, int variant, bool inter)
{
    for (const struct bb_calibration_parameter *p = c->parameters; p < c->parameters + c->n_parameters; p++)
        if (p->fit && !p->scaled && p->variant == variant &&
            strcmp(strrchr(p->key, '.'), inter ? ".nic" : ".gbps") == 0)
            return true;
    return false;
}

/* Returns whether a fit determined a parameter with the measurements of the fit `done`. */
static bool is_determined(const struct bb_calibration *c, const struct bb_calibration_fit *done)
{
    for (const struct bb_calibration_parameter *p = c->parameters; p < c->parameters + c->n_parameters; p++)
        if (p->fit == done)
            return true;
    return false;
}

/* Returns whether the fit `name` has measurements within a node (inter false) or between nodes. Those of one size must
 * determine a parameter; with several sizes, the values of the starting profile are confirmed where they stay. */
static bool is_measured(const struct bb_calibration *c, const char *name, bool inter)
{
    const struct bb_measurement *first = NULL;

    for (const struct bb_calibration_row *row = c->rows; row < c->rows + c->n_rows; row++) {
        const struct bb_measurement *m = row->measurement;

        if (strcmp(row->fit->name, name) != 0 ||
            (m->kind == BB_MEASURED_MESSAGE ? !m->same_node : m->call.nodes > 1) != inter)
            continue;
        if (m->kind != BB_MEASURED_COLLECTIVE || is_determined(c, row->fit) ||
            (first && m->call.count != first->call.count))
            return true;
        first = m;
    }
    return false;
}

/* Sets the key `from` of a variant or link that was not measured, and removes it from one that was. */
static void name_origin(const struct bb_calibration *c, json_t *object, const char *key, bool measured, bool inter)
{
    if (measured)
        json_object_del(object, key);
    else if (!json_object_get(object, key))
        json_object_set_new(object, key,
                            c->scaled[inter] > 0 ? json_sprintf("%s, rates x %.3g as %s", c->base->name,
                                                                c->scaled[inter], c->scaled_as[inter])
                                                 : json_string(c->base->name));
}

/* Names the starting profile in the variants and links whose rates were not measured, within or between nodes, and adds
 * the sizes from which NCCL chooses a variant. */
static void name_origins(const struct bb_calibration *c, json_t *root)
{
    static const char *const keys[2] = {"from", "inter_from"};
    static const char *const links[2][2] = {{"intra", "messages within a node"}, {"inter", "messages between nodes"}};

    for (int variant = 0; variant < c->base->n_variants; variant++) {
        json_t *object = json_array_get(json_object_get(root, "nccl"), (size_t)variant);

        if (c->cluster.variants[variant].min_bytes > 0)
            json_object_set_new(object, "min_bytes", json_integer(c->cluster.variants[variant].min_bytes));
        for (int inter = 0; inter < 2; inter++)
            name_origin(c, object, keys[inter],
                        is_measured(c, c->variant_names[variant], inter) || is_fitted(c, variant, inter), inter);
    }
    for (int inter = 0; inter < 2 && c->base->n_variants > 0; inter++)
        name_origin(c, json_object_get(root, links[inter][0]), "from", is_measured(c, links[inter][1], inter), inter);
}

/* Returns n numbers as JSON: whole, or with four digits. */
static json_t *numbers(const double *values, int n, bool whole)
{
    json_t *list = json_array();

    for (int i = 0; i < n; i++) {
        char text[32];

        snprintf(text, sizeof(text), "%.4g", values[i]);
        json_array_append_new(list, whole ? json_integer((json_int_t)values[i]) : json_real(strtod(text, NULL)));
    }
    return list;
}

/* The variants that NCCL chose for the sizes of a curve, "" at sizes between the measured ones. */
static json_t *choices_of(const struct bb_calibration *c, const struct bb_measured_curve *curve)
{
    json_t *list = json_array();

    for (int i = 0; i < curve->n; i++)
        json_array_append_new(list, json_string(curve->variant[i] > 0 ? c->variant_names[curve->variant[i] - 1] : ""));
    return list;
}

/* The ratios of measured and predicted times by size (measured_curves.h). */
static json_t *curves_of(const struct bb_calibration *c)
{
    json_t *list = json_array();

    for (const struct bb_measured_curve *curve = c->cluster.measured;
         curve < c->cluster.measured + c->cluster.n_measured; curve++)
        if (curve->n > 0)
            json_array_append_new(
                list,
                json_pack("{s:s, s:i, s:i, s:I, s:I, s:o, s:o, s:o}", "collective", bb_colls[curve->kind].name, "ranks",
                          curve->ranks, "nodes", curve->nodes, "min_bytes", (json_int_t)curve->min_bytes, "max_bytes",
                          (json_int_t)curve->max_bytes, "bytes", numbers(curve->bytes, curve->n, true), "factor",
                          numbers(curve->factor, curve->n, false), "choice", choices_of(c, curve)));
    return list;
}

/* Returns the number of outliers among the measurements of which the sizes, or the collectives, were left out. */
static json_int_t count_outliers(const struct bb_calibration *c, enum bb_left_out_kind kind)
{
    json_int_t n = 0;

    for (const struct bb_calibration_row *row = c->rows; row < c->rows + c->n_rows; row++)
        n += row->outlier && (kind == BB_LEFT_OUT_COLLECTIVES ? bb_is_nccl_choice(row->measurement)
                                                              : row->measurement->kind == BB_MEASURED_COLLECTIVE ||
                                                                    row->measurement->kind == BB_MEASURED_MESSAGE);
    return n;
}

/* Sets the errors of the sizes and collectives that were left out. */
static void set_left_out(const struct bb_calibration *c, const struct bb_stats *left_out, json_t *root)
{
    static const char *const names[] = {[BB_LEFT_OUT_SIZES] = "size", [BB_LEFT_OUT_COLLECTIVES] = "collective"};
    json_t *section = json_object();

    for (int kind = 0; kind < BB_LEFT_OUT_KINDS; kind++) {
        const struct bb_stats *s = &left_out[kind];
        char key[40];

        snprintf(key, sizeof(key), "%s_rows", names[kind]);
        json_object_set_new(section, key, json_integer((json_int_t)s->n));
        snprintf(key, sizeof(key), "%s_median_percent", names[kind]);
        json_object_set_new(section, key, json_real(s->n > 0 ? s->p50 : 0));
        snprintf(key, sizeof(key), "%s_p90_percent", names[kind]);
        json_object_set_new(section, key, json_real(s->n > 0 ? s->p90 : 0));
        snprintf(key, sizeof(key), "%s_outliers", names[kind]);
        json_object_set_new(section, key, json_integer(count_outliers(c, (enum bb_left_out_kind)kind)));
    }
    json_object_set_new(root, "left_out", section);
}

/* Returns the name of the profile in a file: the file name without ".json", for example "mine" for "runs/mine.json"; "-": stdout. */
static json_t *name_of(const char *path)
{
    const char *name = bb_outfile_is_stdout(path) ? "calibrated.json" : bb_base_name(path);
    const int size = (int)(strlen(name) - strlen(".json"));

    return json_sprintf("%.*s", size < 1 ? 1 : size > LONGEST ? LONGEST : size, name);
}

json_t *bb_calibration_profile(const struct bb_calibration_report *r)
{
    const struct bb_measurement_file *first = &r->calibration->measurements->files[0];
    json_t *root = json_deep_copy(r->base_root);
    json_t *changes = json_pack("{s:o, s:o, s:o}", "name", name_of(r->profile), "description",
                                json_sprintf("%s, calibrated; parameters that were not measured are those of %s",
                                             first->device, r->calibration->base->name),
                                "source", source_of(r));
    json_t *doubtful = bb_calibration_doubtful(r->calibration);
    const int rc = json_object_update(root, changes);

    json_decref(changes);
    if (rc != 0) {
        json_decref(doubtful);
        json_decref(root);
        return NULL;
    }
    if (first->emulated)
        json_object_set_new(root, "emulated", json_true());
    json_object_del(root, "doubtful");
    if (doubtful)
        json_object_set_new(root, "doubtful", doubtful);
    set_parameters(r->calibration, root);
    name_origins(r->calibration, root);
    set_left_out(r->calibration, r->left_out, root);
    json_object_del(root, "measured");
    if (r->calibration->cluster.n_measured > 0)
        json_object_set_new(root, "measured", curves_of(r->calibration));
    return root;
}
