/* published.c - errors of predicted collectives and kernels; see published.h. */
#include "proxies/offline/bench_plan/published.h"

#include "bootstrap/base/units.h"
#include "proxies/simulation/machine/software.h"

#include <stdio.h>
#include <string.h>

enum where { KERNEL, ONE_NODE, SEVERAL_NODES };
static const char *const where_names[] = {"", " on one node", " on several nodes"};

/* Collectives: from tests/cli/test_published.py (--rewrite-golden writes them), the logs of tests/cli/reference_data. Kernels:
 * from tests/cli/kernel_accuracy.py (test_plan_compute.py --rewrite-golden writes them), half of 611 rates of SimuMax. */
static const struct {
    const char *what;
    enum bb_gpu_generation generation;
    enum where where;
    const char *transport; /* SEVERAL_NODES; otherwise "" */
    const char *error;
} kinds[] = {
#include "proxies/offline/bench_plan/kernels.def"
#include "proxies/offline/bench_plan/published.def"
};

bool bb_published_has_transport(const struct bb_cluster *c)
{
    const enum bb_gpu_generation generation = bb_cluster_generation(c);

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (kinds[i].where == SEVERAL_NODES && kinds[i].generation == generation &&
            strcmp(kinds[i].transport, c->transport) == 0)
            return true;
    return false;
}

void bb_published_text(const struct bb_cluster *c, const char *what, int nodes, char text[BB_PUBLISHED_TEXT])
{
    const enum where where = nodes > 1 ? SEVERAL_NODES : nodes == 1 ? ONE_NODE : KERNEL;
    const enum bb_gpu_generation generation = bb_cluster_generation(c);
    const char *const transport = where == SEVERAL_NODES ? c->transport : "";
    const bool differs = bb_cluster_is_ada(c) || (where != KERNEL && bb_cluster_has_pcie(c));
    const char *error =
        strcmp(transport, "sharp") == 0 && strcmp(what, "all_reduce") == 0
            ? "no published timing of this kind; NVLS with SHARP (a user of NCCL: 480 GB/s) is not modelled"
            : "no published timing of this kind";
    char gpus[BB_GPUS_TEXT];

    for (size_t i = 0; c->has_achieved && !differs && i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strcmp(kinds[i].what, what) == 0 && kinds[i].generation == generation && kinds[i].where == where &&
            strcmp(kinds[i].transport, transport) == 0)
            error = kinds[i].error;
    snprintf(text, BB_PUBLISHED_TEXT, "%s, %s%s%s%s: %s%s", what,
             c->has_achieved ? bb_cluster_gpus_text(c, gpus) : "GPUs without measured rates", where_names[where],
             *transport ? ", " : "", transport, error,
             c->is_own       ? " (of the shipped profiles; this one is a file of yours)"
             : c->is_changed ? " (of the profile without --set)"
                             : "");
}

/* Writes the error of what the calibration left out, `what`: "median error 3.4%, 90% within 8%, of sizes that .." */
#define ERROR_TEXT 160
static void describe_error(const struct bb_left_out *errors, const char *what, char text[ERROR_TEXT])
{
    char median[24], outliers[48] = "";

    snprintf(median, sizeof(median), errors->median_percent < 0.1 ? "below 0.1%%" : "%.2g%%", errors->median_percent);
    if (errors->outliers > 0)
        snprintf(outliers, sizeof(outliers), ", without %d outlier%s", errors->outliers,
                 bb_plural((size_t)errors->outliers));
    if (errors->p90_percent < 0.1)
        snprintf(text, ERROR_TEXT, "median error and 90%% of errors below 0.1%%, of %s that the calibration left out%s",
                 what, outliers);
    else
        snprintf(text, ERROR_TEXT, "median error %s, 90%% within %.2g%%, of %s that the calibration left out%s", median,
                 errors->p90_percent, what, outliers);
}

/* Writes which of the variants were not measured, whose error is unknown; empty: none. Returns whether others were. */
#define UNKNOWN_TEXT (2 * BB_UNMEASURED_TEXT + 64)
static bool describe_unmeasured(const struct bb_cluster *c, bool (*is_used)[2], char text[UNKNOWN_TEXT])
{
    char names[2][BB_UNMEASURED_TEXT];
    const bool any[2] = {bb_cluster_unmeasured(c, is_used, false, names[0]) != NULL,
                         bb_cluster_unmeasured(c, is_used, true, names[1]) != NULL};
    bool others = false;

    if (any[0] || any[1])
        snprintf(text, UNKNOWN_TEXT, "error unknown with %s%s%s, not measured", names[0], any[0] && any[1] ? ", " : "",
                 names[1]);
    for (int v = 0; v <= BB_NCCL_VARIANTS; v++)
        for (int inter = 0; inter < 2; inter++)
            others |= is_used[v][inter] && !*(v == BB_NCCL_VARIANTS ? c->link_from : c->variant_from[v])[inter];
    return others;
}

/* Returns whether three or more numbers of nodes were measured for a collective. Two numbers of nodes determine no latency
 * per step, so forecasts for other numbers of nodes may be far off, as `calibrate` reports. list: the numbers, "1 and 2". */
static bool measured_enough_nodes(const struct bb_cluster *c, enum bb_coll_kind kind, char list[32])
{
    int low = 0, high = 0;

    list[0] = '\0';
    for (int i = 0; i < c->n_measured; i++) {
        const int nodes = c->measured[i].nodes;

        if (c->measured[i].kind != kind || c->measured[i].max_bytes <= 0 || nodes == low || nodes == high)
            continue;
        if (high > low && low > 0)
            return true;
        low = low == 0 || nodes < low ? nodes : low;
        high = nodes > high ? nodes : high;
    }
    if (low > 0)
        snprintf(list, 32, low == high ? "%d" : "%d and %d", low, high);
    return false;
}

/* Writes on which ranks and sizes the calibration measured the collective, and what is extrapolated from them. Returns
 * whether its errors hold for `nodes`. */
static bool describe_range(const struct bb_cluster *c, enum bb_coll_kind kind, int nodes,
                           const struct bb_measured_curve *same, const size_t bytes[2], char *text, size_t size)
{
    char min[BB_BYTES_TEXT], max[BB_BYTES_TEXT], least[BB_BYTES_TEXT], most[BB_BYTES_TEXT], list[32];
    const struct bb_measured_curve *other = NULL;
    bool enough;
    int n;

    for (int i = 0; i < c->n_measured; i++)
        if (c->measured[i].kind == kind && c->measured[i].max_bytes > 0 && (!other || other->nodes != nodes))
            other = &c->measured[i];
    if (!same) {
        enough = measured_enough_nodes(c, kind, list) || (other && other->nodes == nodes);
        n = snprintf(text, size, "not measured on these ranks");
        if (other && enough)
            snprintf(text + n, size - (size_t)n, ", extrapolated from %d ranks on %d node%s", other->ranks,
                     other->nodes, bb_plural(other->nodes));
        else if (other)
            snprintf(text + n, size - (size_t)n, ", extrapolated from %s to %d node%s, may be far off", list, nodes,
                     bb_plural(nodes));
        return enough || !other;
    }
    n = snprintf(text, size, "measured from %s to %s", bb_format_bytes((size_t)same->min_bytes, min),
                 bb_format_bytes((size_t)same->max_bytes, max));
    if ((double)bytes[0] < same->min_bytes)
        n += snprintf(text + n, size - (size_t)n, ", extrapolated down to %s", bb_format_bytes(bytes[0], least));
    if ((double)bytes[1] > same->max_bytes)
        snprintf(text + n, size - (size_t)n, "%s up to %s",
                 (double)bytes[0] < same->min_bytes ? " and" : ", extrapolated", bb_format_bytes(bytes[1], most));
    return true;
}

void bb_collective_accuracy_text(const struct bb_cluster *c, enum bb_coll_kind kind, int ranks, size_t smallest,
                                 size_t largest, bool (*is_used)[2], char text[BB_PUBLISHED_TEXT])
{
    const int nodes = bb_cluster_nodes(c, ranks), found = bb_cluster_find_curve(c, kind, ranks, nodes);
    const bool measured = found < c->n_measured && c->measured[found].max_bytes > 0;
    const struct bb_left_out *errors = &c->left_out[measured ? BB_LEFT_OUT_SIZES : BB_LEFT_OUT_COLLECTIVES];
    const size_t bytes[2] = {smallest, largest};
    char range[120], error[ERROR_TEXT] = "error unknown", unknown[UNKNOWN_TEXT] = "";
    bool holds, others = true;

    if (!c->is_calibrated) {
        bb_published_text(c, bb_colls[kind].name, nodes, text);
        return;
    }
    holds = describe_range(c, kind, nodes, measured ? &c->measured[found] : NULL, bytes, range, sizeof(range));
    if (holds && errors->rows > 0 && (measured || bb_colls[kind].flags & BB_COLL_ESTIMATED)) {
        describe_error(errors, measured ? "sizes" : "collectives", error);
        others = describe_unmeasured(c, is_used, unknown);
    } else if (measured && errors->rows == 0) {
        snprintf(error, sizeof(error), "error unknown, because too few sizes were measured to leave some out");
    }
    snprintf(text, BB_PUBLISHED_TEXT, "%s, %s: %s%s%s", bb_colls[kind].name, range, unknown,
             unknown[0] && others ? "; otherwise " : "", unknown[0] && !others ? "" : error);
}
