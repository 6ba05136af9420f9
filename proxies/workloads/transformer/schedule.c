/* schedule.c - the pipeline schedules: in which order each stage runs its slots, the forwards and backwards of its
 * model chunks (see schedule.h). */
#include "proxies/workloads/transformer/schedule.h"

#include <stddef.h>
#include <stdio.h>
#include <sys/param.h>

#define WORD(kind, word, row) word,
#define ROW(kind, word, row)  &row,

const char *const bb_schedule_names[BB_SCHEDULES + 1] = {BB_SCHEDULE_LIST(WORD) NULL};
static const struct bb_schedule_row *const rows[] = {BB_SCHEDULE_LIST(ROW)};

const struct bb_schedule_row *bb_schedule_row(const struct bb_schedule *s)
{
    return rows[s->kind];
}

bool bb_schedule_splits_backward(const struct bb_schedule *s)
{
    return rows[s->kind]->split;
}

bool bb_schedule_is_bidirectional(const struct bb_schedule *s)
{
    return rows[s->kind]->make_bidirectional != NULL;
}

bool bb_schedule_pairs_slots(const struct bb_schedule *s)
{
    return bb_schedule_is_bidirectional(s) || s->combined;
}

int bb_schedule_part(const struct bb_schedule *s, int stage, int chunk)
{
    int far = s->stages - 1 - stage, lower = stage < far ? stage : far;

    if (!bb_schedule_is_bidirectional(s))
        return chunk * s->stages + stage;
    return chunk == 0 ? lower : s->stages - 1 - lower;
}

int bb_schedule_parts(const struct bb_schedule *s)
{
    return s->stages * bb_schedule_parts_per_stage(s);
}

int bb_schedule_parts_per_stage(const struct bb_schedule *s)
{
    return bb_schedule_is_bidirectional(s) ? 1 : s->chunks;
}

int bb_schedule_direction(const struct bb_schedule *s, int stage, int chunk)
{
    return !bb_schedule_is_bidirectional(s) || bb_schedule_part(s, stage, chunk) == stage ? 1 : -1;
}

bool bb_schedule_is_last(const struct bb_schedule *s, int stage, const struct bb_slot *slot)
{
    bool half = bb_schedule_is_bidirectional(s) && bb_schedule_direction(s, stage, slot->chunk) > 0;

    return slot->micro_batch == (half ? s->micro_batches / 2 : s->micro_batches) - 1;
}

/* ---- properties of the schedules ---- */

const struct bb_schedule_row bb_schedule_gpipe = {.all_forwards_first = true};
const struct bb_schedule_row bb_schedule_1f1b = {.warm_up = 1};
const struct bb_schedule_row bb_schedule_interleaved = {.warm_up = 2, .chunked = true, .overlaps_p2p = true};
const struct bb_schedule_row bb_schedule_zb_h1 = {.warm_up = 1, .split = true, .deferred_weights = 1};
const struct bb_schedule_row bb_schedule_zb_h2 = {
    .warm_up = 2, .split = true, .deferred_weights = 2, .overlaps_p2p = true};

/* ---- validation ---- */

/* Returns the first number of stages, `stages` or more in steps, that divides the ranks; 0: none. */
static int possible_stages(int ranks, int stages, int step)
{
    while (stages <= ranks && ranks % stages != 0)
        stages += step;
    return stages <= ranks ? stages : 0;
}

static int validate_bidirectional(const struct bb_schedule *s, int ranks, const char *prefix)
{
    int p = s->stages, m = s->micro_batches, even = m < 2 * p ? 2 * p : m + 1;
    const int stages = p % 2 == 0 ? p : possible_stages(ranks, p + 1, 2);
    char option[32] = "";

    if (stages)
        snprintf(option, sizeof(option), "--pp %d, or ", stages);
    if (p % 2 != 0)
        return bb_err(
            BB_EUSAGE,
            "%s: schedule %s pairs stages from both ends and requires an even number of stages, not %d; try: %s"
            "--schedule zb-h1",
            prefix, bb_schedule_names[s->kind], p, option);
    if (m % 2 != 0 || m < 2 * p)
        return bb_err(BB_EUSAGE,
                      "%s: schedule %s feeds half of the micro-batches into each end and requires an even number, at "
                      "least %d for %d stages, not %d; try: --micro-batches %d",
                      prefix, bb_schedule_names[s->kind], 2 * p, p, m, even);
    return 0;
}

int bb_schedule_validate(const struct bb_schedule *s, int ranks, const char *prefix)
{
    int p = s->stages, m = s->micro_batches, g = s->group, stages;

    if (bb_schedule_is_bidirectional(s))
        return validate_bidirectional(s, ranks, prefix);
    if (!bb_schedule_row(s)->chunked && s->chunks == 1)
        return 0;
    if (!bb_schedule_row(s)->chunked)
        return bb_err(BB_EUSAGE,
                      "%s: schedule %s supports one chunk of layers per stage, not %d; try: --schedule interleaved, or "
                      "without --vpp",
                      prefix, bb_schedule_names[s->kind], s->chunks);
    stages = p < 2 ? possible_stages(ranks, 2, 1) : p;
    if (!stages)
        return bb_err(BB_EUSAGE,
                      "%s: schedule interleaved requires at least 2 stages, not 1; try: --schedule 1f1b --vpp 1",
                      prefix);
    if (p < 2 || s->chunks < 2)
        return bb_err(BB_EUSAGE,
                      "%s: schedule interleaved requires at least 2 stages and 2 chunks per stage, not %d and %d; try: "
                      "--schedule 1f1b --vpp 1, or --pp %d --vpp %d",
                      prefix, p, s->chunks, stages, s->chunks < 2 ? 2 : s->chunks);
    if (m < p)
        return bb_err(BB_EUSAGE,
                      "%s: schedule interleaved requires at least as many micro-batches as stages, not %d for %d "
                      "stages; try: --micro-batches %d",
                      prefix, m, p, p);
    if (g < p || g > m)
        return bb_err(BB_EUSAGE,
                      "%s: --microbatch-group-size %d is invalid for schedule interleaved, expected %d (stages) to %d "
                      "(micro-batches)",
                      prefix, g, p, m);
    if (m % g != 0 && m % g < p)
        return bb_err(
            BB_EUSAGE,
            "%s: schedule interleaved runs groups of %d micro-batches; %d micro-batches leave %d for the last group, "
            "fewer than the %d stages; try: --micro-batches %d or %d",
            prefix, g, m, m % g, p, m - m % g, m - m % g + p);
    return 0;
}

/* ---- order of the slots (forwards and backwards) of a stage ---- */

/* Returns the k-th forward of a stage (k from 0) as a slot of its schedule. The micro-batches form groups of g, of
 * which the last may be smaller; the stage processes a group with one model chunk before it continues with the next
 * chunk. */
static struct bb_slot forward_entry(const struct bb_schedule *s, int k)
{
    int g = bb_schedule_row(s)->chunked ? s->group : s->micro_batches;
    int first = k / (g * s->chunks) * g, size = MIN(g, s->micro_batches - first);
    int within = k - first * s->chunks;

    return (struct bb_slot){.kind = BB_SLOT_FORWARD, .micro_batch = first + within % size, .chunk = within / size};
}

int bb_schedule_max_slots(const struct bb_schedule *s)
{
    if (bb_schedule_is_bidirectional(s))
        return 2 * s->micro_batches + s->stages - 1;
    return (bb_schedule_splits_backward(s) ? 3 : 2) * s->micro_batches * s->chunks;
}

/* Returns the number of forwards that fill the pipeline before the steady state (alternating forwards and backwards).
 * The result may exceed the number of forwards of the stage. */
static int needed_warm_up(const struct bb_schedule *s, int stage)
{
    const struct bb_schedule_row *row = bb_schedule_row(s);

    if (row->all_forwards_first)
        return s->micro_batches;
    return row->warm_up * (s->stages - 1 - stage) + (s->chunks - 1) * s->group + s->combined;
}

int bb_schedule_warm_up(const struct bb_schedule *s, int stage)
{
    return MIN(s->micro_batches * s->chunks, needed_warm_up(s, stage));
}

/* Fills in the slots (forwards and backwards) of 1F1B and its variants: warm-up forwards, then alternately one
 * forward and one backward, then the remaining backwards. If the backward is split into B slots (gradients of
 * activations) and W slots (gradients of weights), a W slot follows each B slot whose index is at least
 * deferred_weights * stage; the remaining W slots are at the end. Returns the number of slots. */
static int make_1f1b(const struct bb_schedule *s, int stage, struct bb_slot *slots)
{
    const struct bb_schedule_row *row = bb_schedule_row(s);
    int all = s->micro_batches * s->chunks, warm_up = bb_schedule_warm_up(s, stage);
    int f = 0, w = 0, n = 0;

    while (f < warm_up)
        slots[n++] = forward_entry(s, f++);
    for (int b = 0; b < all; b++) {
        if (f < all) {
            slots[n] = forward_entry(s, f++);
            slots[n++].with_next = s->combined;
        }
        /* the backwards have the micro-batches in the order of the forwards, the model chunks in reverse order */
        slots[n] = forward_entry(s, b);
        slots[n].kind = BB_SLOT_BACKWARD;
        slots[n].chunk = s->chunks - 1 - slots[n].chunk;
        slots[n++].split = row->split;
        if (row->split && b >= row->deferred_weights * stage)
            slots[n++] = (struct bb_slot){.kind = BB_SLOT_WEIGHTS, .micro_batch = w++};
    }
    while (row->split && w < all)
        slots[n++] = (struct bb_slot){.kind = BB_SLOT_WEIGHTS, .micro_batch = w++};
    return n;
}

int bb_schedule_make(const struct bb_schedule *s, int stage, struct bb_slot *slots)
{
    return bb_schedule_is_bidirectional(s) ? bb_schedule_row(s)->make_bidirectional(s, stage, slots)
                                           : make_1f1b(s, stage, slots);
}

/* ---- activation memory ---- */

int bb_schedule_live(const struct bb_schedule *s, int stage)
{
    if (bb_schedule_is_bidirectional(s))
        return s->stages + 1;
    return MIN(s->micro_batches * s->chunks,
               needed_warm_up(s, stage) + 1 + bb_schedule_row(s)->deferred_weights * stage);
}
