/* busbw_thresholds.c - see busbw_thresholds.h. */
#include "collectives/sweep/busbw_thresholds.h"

#include "bootstrap/cli/size_list.h"
#include "collectives/ops/coll.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const scope_words[] = {[BB_BUSBW_MEAN] = "mean", [BB_BUSBW_PEAK] = "peak"};
enum { SCOPE_WORDS = sizeof scope_words / sizeof *scope_words };

static int reject_threshold(const char *word, const char *scope_text)
{
    const char *suggestion = scope_text ? bb_nearest_word(scope_text, scope_words, SCOPE_WORDS) : NULL;

    return bb_err(
        BB_EUSAGE,
        "--min-busbw: '%s' is not valid, expected GB/s from 0 to 1e9, try: 300, 1G:300, all_reduce:1G:300, peak:300 or "
        "plan.json:90%%%s%s%s",
        word, suggestion ? ", did you mean '" : "", suggestion ? suggestion : "", suggestion ? "'" : "");
}

static int parse_scope(const char *scope_text, struct bb_busbw_threshold *threshold)
{
    for (int i = 0; i < SCOPE_WORDS; i++)
        if (strcmp(scope_text, scope_words[i]) == 0) {
            threshold->scope = (enum bb_busbw_scope)i;
            return 0;
        }
    threshold->scope = BB_BUSBW_SIZE;
    return bb_parse_bytes(scope_text, &threshold->bytes);
}

/* Returns what follows "all_reduce:", and sets the collective; without one, returns the word. */
static const char *skip_collective(const char *word, struct bb_busbw_threshold *threshold)
{
    const size_t length = strcspn(word, ":");
    char name[64];
    int kind;

    snprintf(name, sizeof name, "%.*s", (int)length, word);
    kind = word[length] ? bb_coll_find(name) : -1;
    threshold->coll = kind < 0 ? NULL : &bb_colls[kind];
    return kind < 0 ? word : word + length + 1;
}

/* Parses one threshold of the list, such as "peak:300". bb_list_next limits a threshold to 63 characters, so the
 * text before the colon fits into scope_text. */
static int add_threshold(struct bb_busbw_thresholds *f, const char *word)
{
    struct bb_busbw_threshold threshold = {.scope = BB_BUSBW_MEAN};
    const char *limit = skip_collective(word, &threshold), *colon = strchr(limit, ':');
    char scope_text[64] = "";

    if (colon)
        snprintf(scope_text, sizeof scope_text, "%.*s", (int)(colon - limit), limit);
    if (colon && parse_scope(scope_text, &threshold))
        return reject_threshold(word, scope_text);
    if (bb_parse_double(colon ? colon + 1 : limit, &threshold.gbps) || threshold.gbps < 0 || threshold.gbps > 1e9)
        return reject_threshold(word, NULL);
    if (f->n == BB_BUSBW_THRESHOLDS_MAX)
        return bb_err(BB_EUSAGE, "--min-busbw: '%s' exceeds the limit of %d thresholds", word, BB_BUSBW_THRESHOLDS_MAX);
    if (threshold.gbps > 0)
        f->item[f->n++] = threshold;
    return 0;
}

/* Parses FILE:PERCENT%. */
static int parse_reference(struct bb_busbw_thresholds *f, const char *text)
{
    const char *colon = strrchr(text, ':');
    struct bb_busbw_threshold of_size;
    char scope_text[64] = "";

    if (!colon || colon == text || bb_parse_percent(colon + 1, 1000, &f->fraction))
        return reject_threshold(text, NULL);
    snprintf(scope_text, sizeof scope_text, "%.*s", (int)(colon - text), text);
    if (parse_scope(scope_text, &of_size) == 0) /* "64M:90%": a percentage of what? */
        return reject_threshold(text, NULL);
    f->path_length = (int)(colon - text);
    return 0;
}

int bb_busbw_thresholds_parse(struct bb_busbw_thresholds *f, const char *text)
{
    char word[BB_LIST_WORD];
    int rc = 0;

    *f = (struct bb_busbw_thresholds){0};
    if (text && *text && text[strlen(text) - 1] == '%')
        return parse_reference(f, text);
    while (rc == 0 && bb_list_next(&text, word))
        rc = add_threshold(f, word);
    return rc;
}

void bb_busbw_tally_add(struct bb_busbw_tally *t, double busbw_gbps)
{
    if (!isfinite(busbw_gbps))
        return;
    t->sum += busbw_gbps;
    t->min = t->n && t->min < busbw_gbps ? t->min : busbw_gbps;
    t->max = t->n && t->max > busbw_gbps ? t->max : busbw_gbps;
    t->n++;
}

double bb_busbw_tally_mean(const struct bb_busbw_tally *t)
{
    return t->n ? t->sum / (double)t->n : NAN;
}

double bb_busbw_threshold_measured(const struct bb_busbw_threshold *f, const struct bb_busbw_tally *t)
{
    if (t->n == 0 || f->scope == BB_BUSBW_MEAN)
        return bb_busbw_tally_mean(t);
    return f->scope == BB_BUSBW_PEAK ? t->max : t->min;
}

const char *bb_busbw_threshold_text(const struct bb_busbw_threshold *f, char buf[BB_BYTES_TEXT])
{
    return f->scope == BB_BUSBW_SIZE ? bb_format_bytes(f->bytes, buf) : scope_words[f->scope];
}
