/* busbw_floors.c - see busbw_floors.h. */
#include "collectives/sweep/busbw_floors.h"

#include "bootstrap/cli/size_list.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const floor_words[] = {[BB_FLOOR_MEAN] = "mean", [BB_FLOOR_PEAK] = "peak"};
enum { FLOOR_WORDS = sizeof floor_words / sizeof *floor_words };

static int refuse_floor(const char *word, const char *of)
{
    const char *near = of ? bb_nearest(of, floor_words, FLOOR_WORDS) : NULL;

    return bb_err(BB_EUSAGE,
                  "--min-busbw: '%s' is not valid, expected GB/s from 0 to 1e9, alone or as 1G:300 or peak:300%s%s%s",
                  word, near ? ", did you mean '" : "", near ? near : "", near ? "'" : "");
}

static int find_floor(const char *of, struct bb_floor *floor)
{
    for (int i = 0; i < FLOOR_WORDS; i++)
        if (strcmp(of, floor_words[i]) == 0) {
            floor->of = (enum bb_floor_of)i;
            return 0;
        }
    floor->of = BB_FLOOR_SIZE;
    return bb_parse_bytes(of, &floor->bytes);
}

/* Words are at most 63 characters: bb_list_each. */
static int add_floor(void *arg, const char *word)
{
    struct bb_floors *f = arg;
    struct bb_floor floor = {.of = BB_FLOOR_MEAN};
    const char *colon = strchr(word, ':');
    char of[64] = "";

    if (colon)
        snprintf(of, sizeof of, "%.*s", (int)(colon - word), word);
    if (colon && find_floor(of, &floor))
        return refuse_floor(word, of);
    if (bb_parse_double(colon ? colon + 1 : word, &floor.gbps) || floor.gbps < 0 || floor.gbps > 1e9)
        return refuse_floor(word, NULL);
    if (f->n == BB_FLOORS_MAX)
        return bb_err(BB_EUSAGE, "--min-busbw: '%s' is one too many, expected at most %d", word, BB_FLOORS_MAX);
    if (floor.gbps > 0)
        f->floor[f->n++] = floor;
    return 0;
}

int bb_floors_parse(struct bb_floors *f, const char *text)
{
    *f = (struct bb_floors){0};
    return text ? bb_list_each(text, add_floor, f) : 0;
}

void bb_floor_add(struct bb_floor_tally *t, double busbw_gbps)
{
    if (!isfinite(busbw_gbps))
        return;
    t->sum += busbw_gbps;
    t->least = t->n && t->least < busbw_gbps ? t->least : busbw_gbps;
    t->most = t->n && t->most > busbw_gbps ? t->most : busbw_gbps;
    t->n++;
}

double bb_floor_found(const struct bb_floor *f, const struct bb_floor_tally *t)
{
    if (t->n == 0)
        return NAN;
    return f->of == BB_FLOOR_MEAN ? t->sum / (double)t->n : f->of == BB_FLOOR_PEAK ? t->most : t->least;
}

const char *bb_floor_text(const struct bb_floor *f, char buf[BB_BYTES_TEXT])
{
    return f->of == BB_FLOOR_SIZE ? bb_format_bytes(f->bytes, buf) : floor_words[f->of];
}
