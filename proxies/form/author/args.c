/* args.c - numeric positional arguments, rank and batch counts, and steps in which all ranks run the same program
 * (see args.h). */
#include "proxies/form/author/args.h"

#include "bootstrap/base/units.h"
#include "bootstrap/cli/size_list.h"
#include "proxies/form/step/config.h"
#include "proxies/form/step/step.h"

#include <stdio.h>
#include <string.h>

int bb_args_number(const struct bb_proxy_config *c, const char *word, const char *what, int given, int *value)
{
    if (given)
        return bb_err(BB_EUSAGE, "%s: %s are given twice, as the argument '%s' and as an option; try: remove one",
                      c->proxy, what, word);
    if (bb_parse_int(word, 1, BB_MAX_LAYERS, value))
        return bb_err(BB_EUSAGE, "%s: '%s' is not a valid number of %s, expected 1 to %d", c->proxy, word, what,
                      BB_MAX_LAYERS);
    return 0;
}

int bb_args_index(const char *word, const char *const *words, int usual)
{
    int i = word ? 0 : usual;

    while (word && strcmp(words[i], word) != 0)
        i++;
    return i;
}

const char *bb_multiples(long long value, long long step, char text[BB_MULTIPLES_TEXT])
{
    long long below = value / step * step;

    if (below == 0)
        snprintf(text, BB_MULTIPLES_TEXT, "%lld", step);
    else
        snprintf(text, BB_MULTIPLES_TEXT, "%lld or %lld", below, below + step);
    return text;
}

int bb_args_micro_batches(const struct bb_proxy_config *c, int usual, long long samples, const char *made_of,
                          const char *instead, int *m)
{
    long long n = c->global_batch;
    char near[BB_MULTIPLES_TEXT];

    *m = c->micro_batches ? c->micro_batches : usual;
    if (!n)
        return 0;
    if (samples < 1)
        return bb_err(BB_EUSAGE, "%s: --global-batch-size %lld is not supported: no rank processes samples (%s)",
                      c->proxy, n, made_of);
    if (n > samples * BB_MAX_LAYERS)
        return bb_err(BB_EUSAGE,
                      "%s: --global-batch-size %lld needs more than %d micro-batches of %lld samples (%s); try: a "
                      "smaller --global-batch-size",
                      c->proxy, n, BB_MAX_LAYERS, samples, made_of);
    if (n % samples)
        return bb_err(BB_EUSAGE, "%s: --global-batch-size %lld is not a multiple of %lld samples (%s); try: %s%s",
                      c->proxy, n, samples, made_of, bb_multiples(n, samples, near), instead);
    *m = (int)(n / samples);
    return 0;
}

/* Appends a size to the list, and to the different sizes unless an equal size is already there. */
static void add_batch(struct bb_batches *b, int size)
{
    int i = 0;

    while (i < b->n_sizes && b->sizes[i] != size)
        i++;
    b->sizes[i] = size;
    b->n_sizes += i == b->n_sizes;
    b->index[b->n] = i;
    b->size[b->n++] = size;
    b->samples += size;
    b->max = size > b->max ? size : b->max;
}

int bb_args_batches(const struct bb_proxy_config *c, int usual, int replicas, struct bb_batches *b)
{
    const char *rest = c->micro_batch_sizes;
    char word[BB_LIST_WORD];
    int size;

    *b = (struct bb_batches){0};
    while (rest && b->n < BB_BATCHES_MAX && bb_list_next(&rest, word) &&
           bb_parse_int(word, 1, BB_MAX_LAYERS, &size) == 0)
        add_batch(b, size);
    if (rest)
        return bb_err(BB_EUSAGE, "%s: --micro-batch-size has more than %d numbers; try: a list that repeats", c->proxy,
                      BB_BATCHES_MAX);
    if (!b->n)
        add_batch(b, c->micro_batch_size ? c->micro_batch_size : usual);
    if (replicas % b->n)
        return bb_err(BB_EUSAGE,
                      "%s: --micro-batch-size %s has %d numbers, which do not divide the %d replica%s; try: "
                      "--micro-batch-size %d",
                      c->proxy, c->micro_batch_sizes, b->n, replicas, bb_plural(replicas), b->size[0]);
    b->samples *= replicas / b->n;
    return 0;
}

const char *bb_batches_text(struct bb_step *step, const struct bb_batches *b)
{
    const char *text = bb_step_text(step, "%d", b->size[0]);

    for (int i = 1; i < b->n; i++)
        text = bb_step_text(step, "%s,%d", text, b->size[i]);
    return text;
}

const char *bb_batches_weights(const struct bb_batches *b)
{
    return b->n_sizes > 1 ? ", gradients weighted by samples" : "";
}

int bb_args_check_ranks(const struct bb_proxy_config *c, int step, const char *why)
{
    char near[BB_MULTIPLES_TEXT];

    if (c->ranks % step == 0)
        return 0;
    return bb_err(BB_EUSAGE, "%s: %d %s not a multiple of %d (%s); possible: %s ranks", c->proxy, c->ranks,
                  c->ranks == 1 ? "rank is" : "ranks are", step, why, bb_multiples(c->ranks, step, near));
}

int bb_world_role(const struct bb_proxy_config *c, struct bb_step *step, const char *name, struct bb_script *script)
{
    const struct bb_axis axis = {"world", c->ranks};
    int rc;

    TRY(bb_layout_init(&step->layout, c->ranks, &axis, 1));
    bb_layout_add_group(&step->layout, "world", 1u << 0);
    TRY(bb_step_add_roles(step, 1));
    step->roles[0].name = name;
    bb_script_init(script, &step->roles[0].program, c);
out:
    return rc;
}

struct bb_script_lane bb_world_lane(struct bb_step *step, struct bb_script *script, const char *name)
{
    return bb_script_lane(script, &step->layout, bb_layout_add_comm(&step->layout, name, 0));
}
