/* comm_options.c - see comm_options.h. */
#include "collectives/comm/comm_options.h"

#include "bootstrap/base/units.h"
#include "bootstrap/cli/size_list.h"
#include "collectives/ops/foreign_options.h"

#include <string.h>

#define FIELD(name) offsetof(struct bb_bench_comm_options, name)
static const struct bb_opt option_rows[] = {
    OPT_STRING(0, "ranks", FIELD(ranks), "doubling", "LIST",
               "number of ranks of each communicator, for example 2,4,6; doubling: 2, 4, 8 .. and all ranks"),
    OPT_SIZE(0, "size", FIELD(bytes), "1M", "BYTES", 1, 1ull << 40,
             "bytes of each operation; twice as much memory is registered"),
    OPT_INT(0, "repeats", FIELD(repeats), "6", "N", 1, 1e5, "life cycles (init to destroy) of each communicator"),
    OPT_INT('w', "warmup_lives", FIELD(warmup), "1", "N", 0, 1e5,
            "untimed life cycles before the timed ones; 0: the maximum includes the one-time costs of the process"),
    OPT_INT(0, "parts", FIELD(parts), "2", "N", 1, 1e6,
            "number of communicators that ncclCommSplit creates, each with consecutive ranks"),
    OPT_FLAG(0, "nonblocking", FIELD(nonblocking),
             "nonblocking communicators: calls return at once and are polled, at intervals of up to 1 ms"),
    {0},
};
static const struct bb_opt_table tables[] = {
    {.title = "Measurement", .opts = option_rows},
    {.title = "Common options", .opts = bb_common_options, .base = FIELD(common)},
    {0},
};

/* Parses the communicator sizes of --ranks into o->counts. list: sizes separated by commas; NULL: no sizes. Sizes above
 * the number of ranks of the job are rejected later (choose_counts in bench_comm.c). */
static int parse_counts(struct bb_bench_comm_options *o, const char *list)
{
    char word[BB_LIST_WORD];

    for (; bb_list_next(&list, word); o->n_counts++) {
        if (o->n_counts == BB_COMM_COUNTS)
            return bb_err(BB_EUSAGE, "--ranks has more than %d numbers", (int)BB_COMM_COUNTS);
        if (bb_parse_int(word, 1, 1 << 24, &o->counts[o->n_counts]) != 0)
            return bb_err(
                BB_EUSAGE,
                "invalid number of ranks '%s' in --ranks; expected 'doubling' or a list of numbers of at least 1",
                word);
    }
    return 0;
}

static int resolve_options(void *options, const struct bb_positionals *positionals)
{
    struct bb_bench_comm_options *o = options;

    if (positionals->n > 0)
        return bb_err(BB_EUSAGE, "unexpected argument '%s'; bench comm accepts only options", positionals->word[0]);
    return parse_counts(o, strcmp(o->ranks, "doubling") == 0 ? NULL : o->ranks);
}

const struct bb_opts bb_bench_comm_set = {
    .usage = "busbar bench comm [OPTION...]",
    .doc = "The cost of communicators, step by step: init, first operations, registration, split, shrink, destroy.\n"
           "A time is the slowest rank's host time, from a common start until the call has finished its work.",
    .foreign = bb_bench_foreign_options,
    .exits = {BB_EXITS_RANKS},
    .examples = "  mpirun -n 8 busbar bench comm\n",
    .tables = tables,
    .size = sizeof(struct bb_bench_comm_options),
    .resolve = resolve_options};
