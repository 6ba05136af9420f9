/* list_proxies.c - the rows of `busbar list proxies`, `busbar list models`, `busbar list architectures` and `busbar list clusters`. */
#include "proxies/form/models/profile.h"
#include "proxies/workloads/registry/registry.h"
#include "proxies/workloads/transformer/arch/arch_types.h"

#include <string.h>

#define MAX_NAMES 128

json_t *bb_list_proxies(void)
{
    json_t *rows = json_array();

    for (int i = 0; i < bb_n_proxies; i++) {
        const struct bb_proxy *p = bb_proxies[i];

        json_array_append_new(
            rows, json_pack("{s:s, s:s, s:s?}", "name", p->name, "description", p->help, "arguments", p->positional));
    }
    return rows;
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

/* Returns the proxy that accepts a model with --model, or the proxy of the model's own name. */
static const char *proxy_of(const json_t *model, const char *name)
{
    static const struct {
        const char *family, *proxy;
    } rows[] = {{"transformer", "transformer"},
                {"residual_network", "data_parallel"},
                {"amoebanet", "spatial"},
                {"preactivated_resnet", "spatial"}};
    const char *family = json_string_value(json_object_get(model, "family"));

    for (size_t i = 0; family && i < sizeof(rows) / sizeof(rows[0]); i++)
        if (strcmp(family, rows[i].family) == 0)
            return rows[i].proxy;
    return name;
}

const char *bb_model_proxy(const char *model)
{
    const char *proxy = NULL;
    json_t *root;

    if (bb_profile_load("models", model, &root) == 0)
        proxy = proxy_of(root, model);
    json_decref(root);
    return proxy;
}

static void append_model(json_t *rows, const json_t *root, const char *name, const char *description)
{
    /* the object "transformer" describes the model for the proxy `transformer`, if that model differs from the
     * published mini-application of the same name */
    const json_t *second = json_object_get(root, "transformer");
    json_t *row = json_pack("{s:s, s:s, s:I, s:s}", "name", name, "proxy", proxy_of(root, name), "parameters",
                            (json_int_t)parameters_of(root), "description", description);

    json_array_append_new(rows, row);
    if (!second)
        return;
    row = json_copy(row);
    json_object_set_new(row, "parameters", json_integer((json_int_t)parameters_of(second)));
    json_object_set(row, "description", json_object_get(second, "description"));
    json_object_set_new(row, "proxy", json_string("transformer"));
    json_array_append_new(rows, row);
}

static void append_cluster(json_t *rows, const json_t *root, const char *name, const char *description)
{
    (void)root;
    json_array_append_new(rows, json_pack("{s:s, s:s}", "name", name, "description", description));
}

static json_t *list_profiles(const char *kind, void (*append)(json_t *, const json_t *, const char *, const char *))
{
    const char *names[MAX_NAMES], *description;
    size_t n = bb_profile_names(kind, names, MAX_NAMES);
    json_t *rows = json_array(), *root = NULL;
    int rc = 0;

    for (size_t i = 0; i < n; i++, root = NULL) {
        TRY(bb_profile_load(kind, names[i], &root));
        TRY(bb_json_text_at(root, "description", names[i], &description));
        append(rows, root, names[i], description);
        json_decref(root);
    }
    return rows;
out:
    json_decref(root);
    json_decref(rows);
    return NULL;
}

json_t *bb_list_models(void)
{
    return list_profiles("models", append_model);
}

json_t *bb_list_architectures(void)
{
    json_t *rows = json_array();

    for (const struct bb_arch_type *type = bb_arch_types; type->name; type++)
        if (!type->unsupported)
            json_array_append_new(rows, json_pack("{s:s, s:s}", "name", type->name, "description", type->architecture));
    return rows;
}

json_t *bb_list_clusters(void)
{
    return list_profiles("clusters", append_cluster);
}
