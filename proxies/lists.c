/* lists.c - `busbar list proxies`, `models`, `clusters`: what the tables and profiles say of themselves. */
#include "proxies/plan.h"

#include "proxies/model.h"
#include "proxies/profile.h"

#define MOST_NAMES 64

int bb_list_proxies(FILE *out)
{
    for (int i = 0; i < bb_n_proxies; i++) {
        const struct bb_proxy *p = &bb_proxies[i];

        fprintf(out, "  %-12s %s\n", p->name, p->help);
        if (p->positional)
            fprintf(out, "  %-12s %s %s\n", "", p->name, p->positional);
    }
    return 0;
}

int bb_list_models(FILE *out)
{
    const char *names[MOST_NAMES];
    size_t n = bb_profile_names("models", names, MOST_NAMES);
    struct bb_model model;

    for (size_t i = 0; i < n; i++) {
        int rc = bb_model_load(names[i], &model);

        if (rc)
            return rc;
        fprintf(out, "  %-12s %14.0f parameters with %d layers; %s\n", names[i],
                bb_model_parameters(&model, model.layers), model.layers, model.description);
        bb_model_release(&model);
    }
    return 0;
}

int bb_list_clusters(FILE *out)
{
    const char *names[MOST_NAMES], *description;
    size_t n = bb_profile_names("clusters", names, MOST_NAMES);
    json_t *root;
    int rc;

    for (size_t i = 0; i < n; i++) {
        rc = bb_profile_load("clusters", names[i], &root);
        if (rc)
            return rc;
        rc = bb_profile_string(root, "description", names[i], &description);
        if (rc == 0)
            fprintf(out, "  %-18s %s\n", names[i], description);
        json_decref(root);
        if (rc)
            return rc;
    }
    return 0;
}
