/* tuner_file.c - see tuner_file.h. */
#include "collectives/session/tuner_file.h"

#include "bootstrap/base/alloc.h"
#include "collectives/ops/coll.h"

#include <ctype.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

/* ---- measurements ---- */

static size_t bytes_in_file(const struct bb_tuning *t, size_t bytes)
{
    return t->ncclx && t->ranks > 0 ? bytes / (size_t)t->ranks : bytes;
}

struct bb_tuning_size *bb_tuning_find(const struct bb_tuning *t, int coll, size_t bytes)
{
    for (size_t i = 0; i < t->n; i++)
        if (t->sizes[i].coll == coll && t->sizes[i].bytes == bytes_in_file(t, bytes))
            return &t->sizes[i];
    return NULL;
}

void bb_tuning_add(struct bb_tuning *t, const struct bb_tuning_size *one)
{
    struct bb_tuning_size *size = bb_tuning_find(t, one->coll, one->bytes);

    if (!size) {
        BB_GROW(t->sizes, t->n);
        size = &t->sizes[t->n++];
        *size = *one;
        size->bytes = bytes_in_file(t, one->bytes);
    }
    for (int i = 0; i < BB_ALGORITHM_PROTOCOLS; i++)
        size->gains[i] = fmin(size->gains[i], one->gains[i]);
}

int bb_tuning_best(const struct bb_tuning *t, const struct bb_tuning_size *size)
{
    int best = 0;

    for (int i = 1; i < BB_ALGORITHM_PROTOCOLS; i++)
        best = size->gains[i] > size->gains[best] ? i : best;
    return size->gains[best] >= t->min_gain ? best : -1;
}

/* ---- lines ---- */

static int compare_sizes(const void *a, const void *b)
{
    const struct bb_tuning_size *x = a, *y = b;

    if (x->coll != y->coll)
        return x->coll < y->coll ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

static struct bb_tuning_rule gain_rule(const struct bb_tuning *t, size_t i)
{
    const struct bb_tuning_size *s = &t->sizes[i];
    const int pair = bb_tuning_best(t, s);

    if (pair < 0)
        return (struct bb_tuning_rule){.pair = -1};
    return (struct bb_tuning_rule){.coll = s->coll,
                                   .pair = pair,
                                   .channels = t->ncclx ? -1 : s->channels[pair],
                                   .min_bytes = s->bytes,
                                   .max_bytes = s->bytes,
                                   .registered = s->registered,
                                   .gain = s->gains[pair]};
}

/* NCCL's own choice for a size applies up to the next size, for the smallest and the largest size without limit. The
 * largest number is INT64_MAX, because spreadsheets and scripts may have no larger integers. */
static struct bb_tuning_rule own_rule(const struct bb_tuning *t, size_t i)
{
    const struct bb_tuning_size *s = &t->sizes[i];
    const bool first = i == 0 || s[-1].coll != s->coll, last = i + 1 == t->n || s[1].coll != s->coll;

    return (struct bb_tuning_rule){.coll = s->coll,
                                   .pair = s->own,
                                   .channels = s->own_channels,
                                   .min_bytes = first ? 0 : s->bytes,
                                   .max_bytes = last ? INT64_MAX : s[1].bytes - 1,
                                   .registered = -1};
}

/* Appends a line for each size, or extends the previous line. */
static void add_rules(const struct bb_tuning *t, struct bb_tuning_rule (*make)(const struct bb_tuning *t, size_t i),
                      struct bb_tuning_rule *rules, size_t *n)
{
    struct bb_tuning_rule *last = NULL;

    for (size_t i = 0; i < t->n; i++) {
        const struct bb_tuning_rule r = make(t, i);

        if (r.pair >= 0 && last && last->coll == r.coll && last->pair == r.pair && last->channels == r.channels &&
            last->registered == r.registered) {
            last->max_bytes = r.max_bytes;
            last->gain = fmin(last->gain, r.gain);
            continue;
        }
        last = NULL;
        if (r.pair >= 0) {
            last = &rules[(*n)++];
            *last = r;
        }
    }
}

struct bb_tuning_rule *bb_tuning_rules(struct bb_tuning *t, size_t *gains, size_t *n)
{
    struct bb_tuning_rule *rules;

    qsort(t->sizes, t->n, sizeof *t->sizes, compare_sizes);
    BB_NEW(rules, 2 * t->n);
    *n = 0;
    add_rules(t, gain_rule, rules, n);
    *gains = *n;
    if (!t->ncclx)
        add_rules(t, own_rule, rules, n);
    return rules;
}

/* ---- file ---- */

const char *bb_tuning_text(const char *name, bool is_collective, char text[BB_TUNING_TEXT])
{
    size_t n = 0;

    for (; *name && n + 1 < BB_TUNING_TEXT; name++)
        if (*name != '_' || !is_collective)
            text[n++] = (char)tolower((unsigned char)*name);
    text[n] = '\0';
    return text;
}

static void write_rule(const struct bb_tuning *t, const struct bb_tuning_rule *r, FILE *out)
{
    char coll[BB_TUNING_TEXT], algorithm[BB_TUNING_TEXT], protocol[BB_TUNING_TEXT];

    bb_tuning_text(bb_colls[r->coll].name, true, coll);
    bb_tuning_text(bb_algorithms[r->pair / BB_PROTOCOLS], false, algorithm);
    bb_tuning_text(bb_protocols[r->pair % BB_PROTOCOLS], false, protocol);
    if (t->ncclx)
        fprintf(out, "%s,[%zu,%zu],%s,%s,%d,%d,%d\n", coll, r->min_bytes, r->max_bytes, algorithm, protocol,
                r->channels, t->nodes, t->nodes > 0 ? t->ranks / t->nodes : t->ranks);
    else
        fprintf(out, "%s,%zu,%zu,%s,%s,%d,%d,%d,-1,%d\n", coll, r->min_bytes, r->max_bytes, algorithm, protocol,
                r->channels, t->nodes, t->ranks, r->registered);
}

void bb_tuning_write(const struct bb_tuning *t, const struct bb_tuning_rule *rules, size_t n, const char *note,
                     FILE *out)
{
    fprintf(out,
            "# %s, written by busbar " BUSBAR_VERSION " for a communicator of %d ranks, nodes: %d\n# %.200s\n# %s\n",
            t->ncclx ? "NCCLX tuner (NCCLX_TUNER_CONFIG_FILE)" : "NCCL's example tuner plugin (NCCL_TUNER_CONFIG_FILE)",
            t->ranks, t->nodes, note,
            t->ncclx ? "collective,bytes per rank,algorithm,protocol,channels,nodes,ranks per node"
                     : "collective,min bytes,max bytes,algorithm,protocol,channels,nodes,ranks,pipeline "
                       "operations,registered");
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && rules[i].gain <= 0 && rules[i - 1].gain > 0)
            fputs("# NCCL's own choices: the plugin runs an operation without a line with one channel\n", out);
        if (rules[i].gain > 0)
            fprintf(out, "# gain %.2f\n", rules[i].gain);
        write_rule(t, &rules[i], out);
    }
}
