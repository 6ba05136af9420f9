/* sampling_options.c - see sampling_options.h. */
#include "collectives/measure/sampling_options.h"

#include "bootstrap/base/units.h"
#include "bootstrap/cli/size_list.h"

#include <stdio.h>
#include <string.h>

const char *const bb_rank_aggregation_names[BB_AGGREGATE_COUNT] = {[BB_AGGREGATE_FIRST] = "time of the first rank",
                                                                   [BB_AGGREGATE_MEAN] = "mean time of all ranks",
                                                                   [BB_AGGREGATE_MIN] = "time of the fastest rank",
                                                                   [BB_AGGREGATE_MAX] = "time of the slowest rank"};

static const char *const clocks[] = {"both", "gpu", "host", NULL};
static const char *const warmups[] = {"fixed", "auto", NULL};

/* The timing modes (timing.h) that --mode accepts. */
static const char *const modes[] = {"all", "stream", "sync", "graph", NULL};

#define FIELD(name) offsetof(struct bb_sampling_options, name)
const struct bb_opt bb_sampling_option_rows[] = {
    OPT_CHOICE(0, "mode", FIELD(mode), NULL, "MODE", modes,
               "how operations are timed; all: one table per mode (default: stream, or graph with -G)"),
    OPT_CHOICE(
        0, "clock", FIELD(clock), "both", "CLOCK", clocks,
        "gpu: CUDA events; host: host clock as in nccl-tests, including launches and the final wait, without start "
        "barrier; both: gpu, plus one host-clock sample in the column wall"),
    OPT_INT(0, "start-barrier", FIELD(start_barrier), "1", "0|1", 0, 1,
            "stream mode: 1: operations start after all ranks have enqueued them; 0: operations start immediately"),
    OPT_DOUBLE(
        0, "start-barrier-limit", FIELD(start_barrier_limit_ms), "5000", "MS", 0.001, 1e6,
        "stream mode: timeout of the start barrier. After a timeout the row is flagged, and later rows run without "
        "start barrier"),
    OPT_STRING(
        0, "confidence", FIELD(confidence), NULL, "PERCENT",
        "sample until the 95 % confidence interval of the median is within +-PERCENT of the median, for example 1%"),
    OPT_INT(0, "max-iters", FIELD(max_iterations), "20000", "N", 1, 1e7,
            "--confidence: maximum number of timed iterations per row"),
    OPT_DOUBLE(0, "max-seconds", FIELD(max_s), "10", "SECONDS", 0, 1e6,
               "--confidence: maximum time for the samples of a row"),
    OPT_CHOICE(0, "warmup", FIELD(warmup), "fixed", "HOW", warmups,
               "fixed: -w operations; auto: then continue until the times of ten operations show no trend, at most 200 "
               "operations"),
    OPT_STRING(0, "shuffle", FIELD(shuffle), NULL, "SEED",
               "measure and print the sizes in a random order with this seed"),
    OPT_STRING(0, "delay", FIELD(delay), NULL, "RANK:US,...",
               "--mode sync: delay these ranks by the given microseconds before every operation"),
    OPT_FLAG(0, "show-choice", FIELD(show_choice),
             "add columns with NCCL's algorithm, protocol, channels and time estimate"),
    OPT_FLAG(0, "sweep-algorithms", FIELD(sweep_algorithms),
             "after each row, measure all other algorithms and protocols and compare them with NCCL's choice"),
    {0},
};

static int resolve_confidence(struct bb_sampling_options *o)
{
    o->confidence_fraction = 0;
    if (!o->confidence)
        return 0;
    if (bb_parse_percent(o->confidence, 100, &o->confidence_fraction))
        return bb_err(BB_EUSAGE,
                      "--confidence: '%s' is not valid, expected a percentage above 0 and at most 100, for example 1%%",
                      o->confidence);
    return 0;
}

static int resolve_seed(struct bb_sampling_options *o)
{
    int seed = 0;

    if (o->shuffle && bb_parse_int(o->shuffle, 0, 1 << 30, &seed))
        return bb_err(BB_EUSAGE, "--shuffle: '%s' is not valid, expected a whole number from 0 to %d", o->shuffle,
                      1 << 30);
    o->seed = (uint64_t)seed;
    return 0;
}

/* Parses one element RANK:US of the list in --delay, or rank=RANK:TIME as in `busbar proxy`. */
static int parse_delay(const char *word, int *rank, double *us)
{
    const char *number = strncmp(word, "rank=", 5) == 0 ? word + 5 : word, *colon = strchr(number, ':');
    char rank_text[16];
    double seconds;

    snprintf(rank_text, sizeof rank_text, "%.*s", colon ? (int)(colon - number) : 0, number);
    if (colon && bb_parse_duration(colon + 1, &seconds) == 0)
        *us = 1e6 * seconds;
    else if (!colon || number != word || bb_parse_double(colon + 1, us))
        colon = NULL;
    if (!colon || bb_parse_int(rank_text, 0, 1 << 30, rank) || *us < 0 || *us > 1e9)
        return bb_err(BB_EUSAGE, "--delay: '%s' is not valid, expected RANK:MICROSECONDS or rank=RANK:TIME, try: 1:100",
                      word);
    return 0;
}

int bb_sampling_parse_delays(const char *text, int ranks, double *us, int *highest)
{
    char word[BB_LIST_WORD];
    double delay_us;
    int rank;

    for (*highest = -1; bb_list_next(&text, word); *highest = rank > *highest ? rank : *highest) {
        if (parse_delay(word, &rank, &delay_us) != 0)
            return -BB_EUSAGE;
        if (rank < ranks)
            us[rank] = delay_us;
    }
    return 0;
}

int bb_sampling_resolve(struct bb_sampling_options *o)
{
    bool syncs = o->mode && (strcmp(o->mode, "sync") == 0 || strcmp(o->mode, "all") == 0);
    int rc;

    TRY(resolve_confidence(o));
    TRY(resolve_seed(o));
    if (o->delay && !syncs)
        return bb_err(BB_EUSAGE, "--delay %s requires --mode sync (or all)", o->delay);
    o->delayed_rank = -1;
    if (o->delay)
        TRY(bb_sampling_parse_delays(o->delay, 0, NULL, &o->delayed_rank));
out:
    return rc;
}
