/* baseline.c - reads the baseline of a scaling study, a previous run, from its results file (see scaling.h). */
#include "proxies/replicas/scaling.h"

#include <stdlib.h>
#include <string.h>

static int report_mismatch(const char *path, const char *what, const json_t *there, const json_t *here)
{
    char *is = json_dumps(there, JSON_ENCODE_ANY), *expected = json_dumps(here, JSON_ENCODE_ANY);
    int rc =
        bb_err(BB_EUSAGE, "scaling: --baseline %s belongs to a different study: its '%s' is %s, but this run has %s",
               path, what, is ? is : "missing", expected ? expected : "missing");

    free(is);
    free(expected);
    return rc;
}

/* Checks that this run and the baseline run have equal parameters (model, batch size, ...) of the study. own: the
 * JSON object `scaling` of this run; root: the complete results of the baseline run. */
static int check_same(const char *path, const json_t *own, const json_t *root)
{
    static const char *const keys[] = {"model", "mode",    "format", "batch",  "images",
                                       "dtype", "compute", "sync",   "tflops", "scale_counts"};
    const json_t *scaling = json_object_get(root, "scaling");

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        json_t *here = json_object_get(own, keys[i]), *there = json_object_get(scaling, keys[i]);

        if (!there || !json_equal(here, there))
            return report_mismatch(path, keys[i], there, here);
    }
    return 0;
}

static int read_rates(struct bb_scaling_baseline *b, const json_t *root)
{
    const json_t *rate = json_object_get(json_object_get(root, "scaling"), "images_per_s");
    const json_t *step = json_object_get(json_object_get(root, "step_us"), "p50");
    const json_t *ranks = json_object_get(root, "ranks");
    const char *status = json_string_value(json_object_get(root, "status"));

    b->rate = json_number_value(rate);
    b->step_us = json_number_value(step);
    b->ranks = (int)json_integer_value(ranks);
    b->emulated = json_is_true(json_object_get(root, "emulated"));
    if (status && strcmp(status, "ok") != 0)
        return bb_err(BB_EUSAGE, "scaling: --baseline %s has status '%.40s', expected a finished run (status 'ok')",
                      b->path, status);
    if (!(b->rate > 0) || !(b->step_us > 0) || b->ranks < 1)
        return bb_err(
            BB_EUSAGE,
            "scaling: --baseline %s has no throughput; try: the --json file of a finished 'busbar proxy scaling'",
            b->path);
    return 0;
}

int bb_scaling_baseline_load(const struct bb_proxy_config *c, const struct bb_scaling *s, struct bb_scaling_baseline *b)
{
    const struct bb_scaling_measured nothing = {0};
    const struct bb_scaling_baseline none = {0};
    const struct bb_scaling_report report = {.config = c, .scaling = s, .measured = &nothing, .baseline = &none};
    json_t *root = NULL, *own = NULL;
    json_error_t error;
    int rc;

    *b = (struct bb_scaling_baseline){.path = c->scaling.baseline};
    if (!b->path)
        return 0;
    root = json_load_file(b->path, 0, &error);
    own = bb_scaling_json(&report);
    TRY(root ? 0 : bb_err(BB_EUSAGE, "scaling: --baseline %s: %s", b->path, error.text));
    if (!json_is_object(json_object_get(root, "scaling")))
        rc = bb_err(BB_EUSAGE,
                    "scaling: --baseline %s is not the result of a scaling study; try: the --json file of 'busbar "
                    "proxy scaling'",
                    b->path);
    TRY(rc);
    TRY(check_same(b->path, own, root));
    TRY(read_rates(b, root));
out:
    json_decref(root);
    json_decref(own);
    return rc;
}
