/*
 * bench_main.c - the part of `busbar bench` that requires neither MPI nor a GPU: selects the subcommand, prints help
 * and validates the arguments. The rank (busbar_rank.c) parses the same arguments again and runs the benchmark.
 */
#include "collectives/bench_main.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/supervise/supervise.h"
#include "collectives/comm/comm_options.h"
#include "collectives/compute/compute_options.h"
#include "collectives/copy/copy_options.h"
#include "collectives/health/health_options.h"
#include "collectives/health/summary.h"
#include "collectives/overlap/overlap_options.h"
#include "collectives/p2p/p2p_options.h"
#include "collectives/sweep/bench_options.h"

#include <stdlib.h>
#include <string.h>

/* Subcommands of `busbar bench` that are not collectives, such as `busbar bench compute`. To add a subcommand, add
 * an element to this table and a folder with its code. */
struct subcommand {
    const char *name;
    const char *run; /* name of the function that runs the subcommand (busbar_rank.c) */
    const struct bb_opts *options;
    const char *schema; /* of the results; NULL: busbar.bench/1 */
    const char *flag;   /* the row applies to commands with this argument, and precedes that without; NULL: to all */
};

static const struct subcommand subcommands[] = {
    {"compute", "bb_bench_compute_run", &bb_bench_compute_set, NULL, NULL},
    {"copy", "bb_bench_copy_run", &bb_bench_copy_set, NULL, NULL},
    {"rails", "bb_bench_rails_run", &bb_bench_rails_set, "busbar.health/1", NULL},
    {"p2p", "bb_bench_nodes_run", &bb_bench_nodes_set, "busbar.health/1", "--nodes"},
    {"p2p", "bb_bench_p2p_run", &bb_bench_p2p_set, NULL, NULL},
    {"comm", "bb_bench_comm_run", &bb_bench_comm_set, NULL, NULL},
    {"overlap", "bb_bench_overlap_run", &bb_bench_overlap_set, NULL, NULL},
};

/* Time limit in seconds for loading the libraries of busbar-rank before the subcommand has parsed its arguments, which
 * include the time limit -T. */
enum { LOADING_S = 600 };

static bool has_flag(int argc, char **argv, const char *flag)
{
    for (int i = 2; i < argc && flag; i++)
        if (strcmp(argv[i], flag) == 0)
            return true;
    return !flag;
}

static const struct subcommand *find_subcommand(int argc, char **argv)
{
    for (size_t i = 0; argc > 1 && i < sizeof subcommands / sizeof *subcommands; i++)
        if (strcmp(subcommands[i].name, argv[1]) == 0 && has_flag(argc, argv, subcommands[i].flag))
            return &subcommands[i];
    return NULL;
}

const char *bb_bench_subcommand_at(size_t i)
{
    for (size_t row = 0; row < sizeof subcommands / sizeof *subcommands; row++)
        if (!subcommands[row].flag && i-- == 0)
            return subcommands[row].name;
    return NULL;
}

/* Parses the arguments of a collective. common: out, the common options, whose texts point into argv. */
static int check_arguments(int argc, char **argv, struct bb_common *common)
{
    struct bb_bench_options options = {0}; /* zero-initialized, because some fields are not set by any option */
    struct bb_sweep sweep = {0};
    int rc = bb_bench_parse(&options, &sweep, argc, argv, stdout);

    *common = options.common;
    bb_bench_release_sweep(&sweep);
    return rc;
}

/* Parses the arguments of a subcommand. common: as for check_arguments. */
static int check_subcommand(const struct bb_opts *set, int argc, char **argv, struct bb_common *common)
{
    char *cfg;
    int rc;

    BB_NEW(cfg, set->size);
    rc = bb_opts_read(set, cfg, argc, argv);
    for (const struct bb_opt_table *t = set->tables; t->opts; t++)
        if (t->opts == bb_common_options)
            memcpy(common, cfg + t->base, sizeof(*common));
    free(cfg);
    common->timeout_s = LOADING_S;
    return rc;
}

/* Shell completion of the first argument of `busbar bench`: prints the subcommands that begin with `text`. The
 * option parser then prints the collectives that begin with `text`. */
static void complete_subcommands(const char *text)
{
    const char *name;

    for (size_t i = 0; text && text[0] != '-' && (name = bb_bench_subcommand_at(i)); i++)
        bb_opts_print_candidate(name, text, "", stdout);
}

int bb_bench_main(int argc, char **argv)
{
    const struct subcommand *subcommand = find_subcommand(argc, argv);
    struct bb_results_head results = {.schema = "busbar.bench/1"};
    struct bb_common common;
    int rc;

    if (argc == 2)
        complete_subcommands(bb_opts_completion_prefix(argc, argv));
    rc = subcommand ? check_subcommand(subcommand->options, argc - 1, argv + 1, &common)
                    : check_arguments(argc, argv, &common);
    if (rc)
        return rc;
    if (subcommand && subcommand->schema) {
        results.schema = subcommand->schema;
        results.at_end = bb_health_end_early;
    }
    bb_results_set_targets(&results, &common);
    return bb_supervise("bench", subcommand ? subcommand->run : "bb_bench_run", common.timeout_s, common.gpus, &results,
                        argc, argv);
}

int bb_bench_check(int argc, char **argv)
{
    struct bb_common common;
    const struct subcommand *subcommand = find_subcommand(argc, argv);

    if (subcommand)
        return bb_opts_check(subcommand->options, argc - 1, argv + 1);
    if (bb_opts_check(&bb_bench_set, argc, argv) != 0)
        return -BB_EUSAGE;
    return check_arguments(argc, argv, &common);
}
