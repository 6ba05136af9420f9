/* copy_options.c - see copy_options.h. */
#include "collectives/copy/copy_options.h"

#include "collectives/ops/foreign_options.h"

#include <math.h>
#include <stdio.h>

#define FIELD(name) offsetof(struct bb_bench_copy_options, name)
static const struct bb_opt option_rows[] = {
    OPT_SIZE(0, "size", FIELD(bytes), "64M", "BYTES", 16, 1ull << 36, "bytes of each copy; a multiple of 16"),
    OPT_ITERS(FIELD(iterations)),
    OPT_REPEATS(FIELD(repeats)),
    OPT_WARMUP(FIELD(warmup)),
    OPT_STRING(0, "expect", FIELD(expect), "auto", "NAME|FILE",
               "where the expected rates are from: auto (profile of this machine), a cluster profile, or none"),
    OPT_DOUBLE(0, "slow", FIELD(slow), "1.2", "FACTOR", 1.001, 100,
               "a GPU is slow if the typical GPU is FACTOR x as fast; a pair of GPUs, if both are FACTOR x as fast "
               "with others"),
    OPT_INT(0, "max-slow", FIELD(max_slow), "-1", "N", -1, 1e9,
            "exit with status 5 if more than N GPUs and pairs are slow; -1: never"),
    {0},
};
static const struct bb_opt_table tables[] = {
    {.title = "Measurement", .opts = option_rows},
    {.title = "Common options", .opts = bb_common_options, .base = FIELD(common)},
    {0},
};

static int resolve_options(void *options, const struct bb_positionals *positionals)
{
    const struct bb_bench_copy_options *o = options;

    if (positionals->n > 0)
        return bb_err(BB_EUSAGE, "unexpected argument '%s'; bench copy accepts only options", positionals->word[0]);
    if (o->bytes % 16 != 0)
        return bb_err(BB_EUSAGE, "--size %zu is not valid, expected a multiple of 16", o->bytes);
    return 0;
}

const struct bb_opts bb_bench_copy_set = {
    .usage = "busbar bench copy [OPTION...]",
    .doc = "Bandwidth of copies between each GPU and its host (pinned and pageable memory), and between every two GPUs "
           "of a\n"
           "node, by copy engine and by kernel, in one and in both directions. Names slow GPUs and slow pairs of GPUs. "
           "Only\n"
           "one GPU of a node, or one pair, copies at a time, except in the rows 'all GPUs'.",
    .foreign = bb_bench_foreign_options,
    .exits = {BB_EXITS_RANKS, [5] = "more slow GPUs and pairs than --max-slow"},
    .examples = "  mpirun -n 8 busbar bench copy --max-slow 0\n",
    .tables = tables,
    .size = sizeof(struct bb_bench_copy_options),
    .resolve = resolve_options};

static double number_at(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);

    return json_is_number(value) ? json_number_value(value) : NAN;
}

int bb_copy_expect(bb_forecast *forecast, const struct bb_machine_facts *facts, const char *name,
                   struct bb_copy_rates *rates, char source[BB_COPY_SOURCE])
{
    const struct bb_sweep any = bb_sweep_all_reduce(1024);
    json_t *root = NULL, *predicted;
    int rc;

    source[0] = '\0';
    TRY(forecast(facts, name, &any, &root));
    predicted = json_object_get(root, "predicted");
    *rates = (struct bb_copy_rates){number_at(predicted, "pcie_gbps"), number_at(predicted, "peer_gbps"),
                                    number_at(predicted, "peer_kernel_gbps")};
    if (root)
        snprintf(source, BB_COPY_SOURCE, "%s", json_string_value(json_object_get(predicted, "cluster")));
out:
    json_decref(root);
    return rc;
}
