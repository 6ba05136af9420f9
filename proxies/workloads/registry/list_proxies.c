/* list_proxies.c - `busbar list proxies`, `busbar list models` and `busbar list clusters`: names and descriptions. */
#include "proxies/form/models/profile.h"
#include "proxies/workloads/registry/registry.h"

#define MAX_NAMES 128

int bb_list_proxies(FILE *out)
{
    for (int i = 0; i < bb_n_proxies; i++) {
        const struct bb_proxy *p = bb_proxies[i];

        fprintf(out, "  %-22s %s\n", p->name, p->help);
        if (p->positional)
            fprintf(out, "  %-22s %s %s\n", "", p->name, p->positional);
    }
    return 0;
}

/*
 * Return the number of parameters stated in a model file. If "totals.parameters" is an object that maps numbers of
 * layers to numbers of parameters, return its value for the file's default number of layers.
 */
static double parameters_of(const json_t *root)
{
    const json_t *given = json_object_get(json_object_get(root, "totals"), "parameters");
    const json_t *defaults = json_object_get(root, "defaults"), *layers = json_object_get(defaults, "layers");
    char key[32];

    if (!json_is_object(given))
        return json_number_value(given);
    layers = layers ? layers : json_object_get(defaults, "stages");
    snprintf(key, sizeof(key), "%d", (int)json_integer_value(layers));
    return json_number_value(json_object_get(given, key));
}

static void print_model(const json_t *root, const char *name, const char *description, FILE *out)
{
    /* the object "transformer" describes the model for the proxy `transformer`, if that model differs from the
     * published mini-application of the same name */
    const json_t *second = json_object_get(root, "transformer");

    fprintf(out, "  %-12s %14.0f parameters; %s\n", name, parameters_of(root), description);
    if (second)
        fprintf(out, "  %-12s %14.0f parameters; for transformer: %s\n", name, parameters_of(second),
                json_string_value(json_object_get(second, "description")));
}

static void print_cluster(const json_t *root, const char *name, const char *description, FILE *out)
{
    (void)root;
    fprintf(out, "  %-18s %s\n", name, description);
}

static int list_profiles(const char *kind, void (*print)(const json_t *, const char *, const char *, FILE *), FILE *out)
{
    const char *names[MAX_NAMES], *description;
    size_t n = bb_profile_names(kind, names, MAX_NAMES);
    json_t *root;
    int rc = 0;

    for (size_t i = 0; i < n && rc == 0; i++) {
        rc = bb_profile_load(kind, names[i], &root);
        if (rc)
            return rc;
        rc = bb_json_text_at(root, "description", names[i], &description);
        if (rc == 0)
            print(root, names[i], description, out);
        json_decref(root);
    }
    return rc;
}

int bb_list_models(FILE *out)
{
    return list_profiles("models", print_model, out);
}

int bb_list_clusters(FILE *out)
{
    return list_profiles("clusters", print_cluster, out);
}
