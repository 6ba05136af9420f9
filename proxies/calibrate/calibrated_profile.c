/* calibrated_profile.c - creates the calibrated profile: the JSON of the starting profile with the fitted values. */
#include "proxies/calibrate/calibration_report.h"

#include "bootstrap/base/alloc.h"

#include <stdlib.h>
#include <string.h>

enum { LONGEST = 48 }; /* maximum length of the calibrated profile's name in characters */

/* Prints for each fit the fitted parameters and the result files that contain its measurements: "launch_us,
 * kernel_us: compute.json (... rows, ...)". */
static void add_sources(const struct bb_calibration_report *r, FILE *out)
{
    const struct bb_calibration *c = r->calibration;

    for (const struct bb_calibration_fit *done = c->fits; done < c->fits + c->n_fits; done++) {
        const char *comma = "";
        bool any = false;

        for (int f = 0; f < c->n_parameters; f++)
            if (c->parameters[f].fit == done) {
                fprintf(out, "%s%s", any ? ", " : "", c->parameters[f].key);
                any = true;
            }
        if (!any)
            continue;
        fputs(": ", out);
        for (size_t i = 0; i < r->measurements->n_files; i++)
            if (done->files >> (i % 64) & 1) {
                fprintf(out, "%s%s", comma, r->measurements->files[i].path);
                comma = ", ";
            }
        if (!done->fitted)
            fprintf(out, "%s%s. ", comma, done->name);
        else
            fprintf(out, " (%zu rows, median error %.2g %%, worst %.2g %%). ", done->n_rows, done->median_percent,
                    done->worst_percent);
    }
}

static void add_files(const struct bb_measurements *e, FILE *out)
{
    for (size_t f = 0; f < e->n_files; f++)
        fprintf(out, "%s: %s, %s, NCCL %s. ", e->files[f].path, e->files[f].what,
                *e->files[f].started ? e->files[f].started : "unknown date",
                *e->files[f].nccl ? e->files[f].nccl : "version unknown");
}

static json_t *source_of(const struct bb_calibration_report *r)
{
    const char *source = json_string_value(json_object_get(r->base_root, "source"));
    char *text = NULL;
    size_t size;
    FILE *out = bb_open_text(&text, &size);
    json_t *value;

    fprintf(out, "busbar calibrate %s, %s, %s. ", BUSBAR_VERSION, r->measurements->files[0].device,
            r->measurements->files[0].emulated ? "emulated, not a measurement of hardware" : "measured");
    add_sources(r, out);
    add_files(r->measurements, out);
    fprintf(out, "All other parameters are those of %s: %s", r->base->name, source ? source : "no source");
    fclose(out);
    value = json_string(text);
    free(text);
    return value;
}

/* Sets the number with this key in the JSON of a profile. The key may contain one dot: "tflops.float32" is the key
 * "float32" of the object "tflops". */
static void set_number(json_t *root, const char *key, json_t *number)
{
    const char *dot = strchr(key, '.');
    char object[32];

    snprintf(object, sizeof(object), "%.*s", dot ? (int)(dot - key) : 0, key);
    json_object_set_new(dot ? json_object_get(root, object) : root, dot ? dot + 1 : key, number);
}

static void set_parameters(const struct bb_calibration *c, json_t *root)
{
    for (int f = 0; f < c->n_parameters; f++) {
        const struct bb_calibration_parameter *parameter = &c->parameters[f];
        json_t *number, *variant = json_array_get(json_object_get(root, "nccl"), (size_t)parameter->variant);

        if (!parameter->fit)
            continue;
        number = parameter->is_integer ? json_integer((json_int_t)parameter->value) : json_real(parameter->value);
        if (parameter->variant >= 0)
            json_object_set_new(variant, strrchr(parameter->key, '.') + 1, number);
        else
            set_number(root, parameter->key, number);
    }
}

/* Returns the name of the profile in a file: the file name without ".json", for example "mine" for "runs/mine.json". */
static json_t *name_of(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    const int size = (int)(strlen(name) - strlen(".json"));

    return json_sprintf("%.*s", size < 1 ? 1 : size > LONGEST ? LONGEST : size, name);
}

json_t *bb_calibration_profile(const struct bb_calibration_report *r)
{
    const struct bb_measurement_file *first = &r->measurements->files[0];
    json_t *root = json_deep_copy(r->base_root);
    json_t *changes = json_pack(
        "{s:o, s:o, s:o}", "name", name_of(r->profile), "description",
        json_sprintf("%s, calibrated; parameters that were not measured are those of %s", first->device, r->base->name),
        "source", source_of(r));
    const int rc = json_object_update(root, changes);

    json_decref(changes);
    if (rc != 0) {
        json_decref(root);
        return NULL;
    }
    if (first->emulated)
        json_object_set_new(root, "emulated", json_true());
    set_parameters(r->calibration, root);
    return root;
}
