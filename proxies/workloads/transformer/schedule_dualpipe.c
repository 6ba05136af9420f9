/*
 * schedule_dualpipe.c - the slots (forwards and backwards of model chunks) of DualPipe (deepseek-ai/DualPipe,
 * dualpipe.py).
 *
 * Let p be the number of stages, r the index of this stage, m the number of micro-batches, q = min(r, p - 1 - r) and
 * H = p / 2. "near" (chunk 0) is the direction whose micro-batches reach this stage first, "far" (chunk 1) is the
 * opposite direction. F: forward; B: backward; W: the deferred weight gradients of a split B; &: concurrently. The
 * algorithm has 8 steps. Each line below contains a step, the slots of this step, and how often the step is repeated:
 *
 *   1  F near                          2 (H - q - 1)
 *   2  F near, F far                   q + 1
 *   3  B far, W far, F far             H - q - 1
 *   4  F near & B far, F far & B near  m / 2 - p + q + 1
 *   5  B far, F far & B near           H - q - 1
 *   6  B far, B near                   q + 1; the later half of these B slots is split
 *   7  W, B near (split)               H - q - 1
 *   8  W                               q + 1
 */
#include "proxies/workloads/transformer/schedule.h"

enum { NEAR, FAR };

struct slot_writer {
    struct bb_slot *slots;
    int n, next_deferred; /* n: number of slots so far; next_deferred: all split backwards before this index in
                             `slots` already have their WEIGHTS slot (weight gradients) */
    int first[2];         /* index of the first micro-batch that enters in direction NEAR and in direction FAR */
    int forwards[2], backwards[2];
};

static void add_forward(struct slot_writer *m, int chunk, bool with_next)
{
    m->slots[m->n++] = (struct bb_slot){.kind = BB_SLOT_FORWARD,
                                        .micro_batch = m->first[chunk] + m->forwards[chunk]++,
                                        .chunk = chunk,
                                        .with_next = with_next};
}

static void add_backward(struct slot_writer *m, int chunk, bool split)
{
    m->slots[m->n++] = (struct bb_slot){.kind = BB_SLOT_BACKWARD,
                                        .micro_batch = m->first[chunk] + m->backwards[chunk]++,
                                        .chunk = chunk,
                                        .split = split};
}

static void add_pair(struct slot_writer *m, int forward, int backward)
{
    add_forward(m, forward, true);
    add_backward(m, backward, false);
}

/* Adds the weight gradients (WEIGHTS slot) of the oldest split backward that has no WEIGHTS slot yet. */
static void add_weights(struct slot_writer *m)
{
    const struct bb_slot *backward;

    while (!m->slots[m->next_deferred].split)
        m->next_deferred++;
    backward = &m->slots[m->next_deferred++];
    m->slots[m->n++] =
        (struct bb_slot){.kind = BB_SLOT_WEIGHTS, .micro_batch = backward->micro_batch, .chunk = backward->chunk};
}

/* The comments name the steps of the table at the top of this file. */
static int make_slots(const struct bb_schedule *s, int stage, struct bb_slot *slots)
{
    int p = s->stages, far = p - 1 - stage, q = stage < far ? stage : far, half = p / 2,
        half_batches = s->micro_batches / 2;
    int first_near = stage < half ? 0 : half_batches;
    struct slot_writer m = {.slots = slots, .first = {[NEAR] = first_near, [FAR] = half_batches - first_near}};
    bool split = false;

    for (int i = 0; i < 2 * (half - q - 1); i++) /* step 1 */
        add_forward(&m, NEAR, false);
    for (int i = 0; i < q + 1; i++) { /* step 2 */
        add_forward(&m, NEAR, false);
        add_forward(&m, FAR, false);
    }
    for (int i = 0; i < half - q - 1; i++) { /* step 3 */
        add_backward(&m, FAR, true);
        add_weights(&m);
        add_forward(&m, FAR, false);
    }
    for (int i = 0; i < half_batches - p + q + 1; i++) { /* step 4 */
        /* the two middle stages begin with a separate forward and backward, which reduces idle time */
        bool separate = i == 0 && q == half - 1;

        add_forward(&m, NEAR, !separate);
        add_backward(&m, FAR, false);
        add_pair(&m, FAR, NEAR);
    }
    for (int i = 0; i < half - q - 1; i++) { /* step 5 */
        add_backward(&m, FAR, false);
        add_pair(&m, FAR, NEAR);
    }
    for (int i = 0; i < q + 1; i++) { /* step 6 */
        split |= i == (q + 1) / 2 && q % 2 == 1;
        add_backward(&m, FAR, split);
        split |= i == (q + 1) / 2 && q % 2 == 0;
        add_backward(&m, NEAR, split);
    }
    for (int i = 0; i < half - q - 1; i++) { /* step 7 */
        add_weights(&m);
        add_backward(&m, NEAR, true);
    }
    for (int i = 0; i < q + 1; i++) /* step 8 */
        add_weights(&m);
    return m.n;
}

const struct bb_schedule_row bb_schedule_dualpipe = {
    .split = true, .overlaps_p2p = true, .make_bidirectional = make_slots};
