/* sampling_options.c - see sampling_options.h. */
#include "collectives/sweep/sampling_options.h"

#include "bootstrap/base/units.h"

#include <stdio.h>
#include <string.h>

const char *const bb_across_names[BB_ACROSS_COUNT] = {[BB_ACROSS_FIRST] = "the first rank",
                                                      [BB_ACROSS_MEAN] = "the mean over ranks",
                                                      [BB_ACROSS_MIN] = "the fastest rank",
                                                      [BB_ACROSS_MAX] = "the slowest rank"};

static const char *const warmups[] = {"fixed", "auto", NULL};

/* Those of timing.h that are chosen by name. */
static const char *const modes[] = {"all", "stream", "sync", "graph", NULL};

#define FIELD(name) .offset = offsetof(struct bb_sampling_options, name)
const struct bb_opt bb_sampling_option_rows[] = {
    {.name = "mode",
     .kind = BB_OPT_WORD,
     FIELD(mode),
     .arg = "MODE",
     .help = "how operations are timed; all: each way, a table each. Without it stream, graph with -G",
     .words = modes},
    {.name = "gate",
     .kind = BB_OPT_INT,
     FIELD(gate),
     .def = "1",
     .arg = "0|1",
     .help = "stream: 1: operations start when all are enqueued; 0: at once",
     .max = 1},
    {.name = "gate-limit",
     .kind = BB_OPT_DOUBLE,
     FIELD(gate_ms),
     .def = "5000",
     .arg = "MS",
     .help = "stream: the gate opens by itself after so long; the row is flagged, later ones go without",
     .min = 0.001,
     .max = 1e6},
    {.name = "confidence",
     .kind = BB_OPT_STRING,
     FIELD(confidence),
     .arg = "PERCENT",
     .help = "sample until the median's 95 % interval is within +-PERCENT of it, as 1%"},
    {.name = "max-iters",
     .kind = BB_OPT_INT,
     FIELD(max_iterations),
     .def = "20000",
     .arg = "N",
     .help = "--confidence: timed iterations of a row at most",
     .min = 1,
     .max = 1e7},
    {.name = "max-seconds",
     .kind = BB_OPT_DOUBLE,
     FIELD(max_s),
     .def = "10",
     .arg = "SECONDS",
     .help = "--confidence: time for a row's samples at most",
     .max = 1e6},
    {.name = "warmup",
     .kind = BB_OPT_WORD,
     FIELD(warmup),
     .def = "fixed",
     .arg = "HOW",
     .help = "fixed: -w operations; auto: then on until ten in a row show no trend, 200 at most",
     .words = warmups},
    {.name = "shuffle",
     .kind = BB_OPT_STRING,
     FIELD(shuffle),
     .arg = "SEED",
     .help = "measure, and print, the sizes in an order that depends on this number alone"},
    {.name = "delay",
     .kind = BB_OPT_STRING,
     FIELD(delay),
     .arg = "RANK:US,...",
     .help = "--mode sync: these ranks come so many microseconds late to every operation"},
    {.name = "show-choice",
     .kind = BB_OPT_FLAG,
     FIELD(show_choice),
     .help = "columns: algorithm, protocol and channels that NCCL chose, and its own estimate of the time"},
    {.name = "sweep-algorithms",
     .kind = BB_OPT_FLAG,
     FIELD(sweep_algorithms),
     .help = "after each row one for every other algorithm and protocol; was NCCL's choice the best?"},
    {0},
};

static int settle_confidence(struct bb_sampling_options *o)
{
    char number[32];
    size_t length;

    o->confidence_part = 0;
    if (!o->confidence)
        return 0;
    length = strcspn(o->confidence, "%");
    snprintf(number, sizeof number, "%.*s", (int)(length < sizeof number ? length : sizeof number - 1), o->confidence);
    if ((o->confidence[length] && o->confidence[length + 1]) || length >= sizeof number ||
        bb_parse_double(number, &o->confidence_part) || !(o->confidence_part > 0 && o->confidence_part <= 100))
        return bb_err(BB_EUSAGE, "--confidence: '%s' is not valid, expected a percentage above 0, as 1%%",
                      o->confidence);
    o->confidence_part /= 100;
    return 0;
}

static int settle_seed(struct bb_sampling_options *o)
{
    int seed = 0;

    if (o->shuffle && bb_parse_int(o->shuffle, 0, 1 << 30, &seed))
        return bb_err(BB_EUSAGE, "--shuffle: '%s' is not valid, expected a whole number from 0 to %d", o->shuffle,
                      1 << 30);
    o->seed = (uint64_t)seed;
    return 0;
}

/* One of the list: RANK:US. */
static int one_delay(const char *word, int ranks, double *us, int *highest)
{
    const char *colon = strchr(word, ':');
    char rank_text[16];
    double value;
    int rank;

    snprintf(rank_text, sizeof rank_text, "%.*s", colon ? (int)(colon - word) : 0, word);
    if (!colon || bb_parse_int(rank_text, 0, 1 << 30, &rank) || bb_parse_double(colon + 1, &value) || value < 0 ||
        value > 1e9)
        return bb_err(BB_EUSAGE, "--delay: '%s' is not valid, expected RANK:MICROSECONDS, as 1:100", word);
    if (rank < ranks)
        us[rank] = value;
    *highest = rank > *highest ? rank : *highest;
    return 0;
}

int bb_sampling_delays(const char *text, int ranks, double *us, int *highest)
{
    char word[64];
    int rc = 0;

    *highest = -1;
    while (text && rc == 0) {
        const char *comma = strchr(text, ',');
        size_t length = comma ? (size_t)(comma - text) : strlen(text);

        if (length >= sizeof word)
            return bb_err(BB_EUSAGE, "--delay: '%s' is too long for RANK:MICROSECONDS", text);
        snprintf(word, sizeof word, "%.*s", (int)length, text);
        rc = one_delay(word, ranks, us, highest);
        text = comma ? comma + 1 : NULL;
    }
    return rc;
}

int bb_sampling_settle(struct bb_sampling_options *o)
{
    bool syncs = o->mode && (strcmp(o->mode, "sync") == 0 || strcmp(o->mode, "all") == 0);
    int rc;

    TRY(settle_confidence(o));
    TRY(settle_seed(o));
    if (o->delay && !syncs)
        return bb_err(BB_EUSAGE, "--delay %s: only --mode sync (or all) tells waiting from transfer", o->delay);
    o->delayed_rank = -1;
    if (o->delay)
        TRY(bb_sampling_delays(o->delay, 0, NULL, &o->delayed_rank));
out:
    return rc;
}
