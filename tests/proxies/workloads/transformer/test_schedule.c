/*
 * test_schedule.c - orders of the pipeline schedules against golden texts, and their bubbles and memory in a simulation
 * of this test. The simulation knows only dependencies: a slot begins when its stage is free and its input is
 * available.
 */
#include "tests/check.h"
#include "tests/proxies/workloads/transformer/bubble.h"

#include <stdbool.h>

#define MAX_SLOTS 1024

/* "F0 B0"; with several chunks "F0.1"; "&": overlapped with the next slot. */
static void write_order(const struct bb_schedule *s, int stage, char *text, size_t capacity)
{
    struct bb_slot slots[MAX_SLOTS];
    int n_slots = bb_schedule_make(s, stage, slots);
    size_t n = 0;

    assert_true(n_slots <= bb_schedule_max_slots(s));
    for (int t = 0; t < n_slots; t++) {
        n += (size_t)snprintf(text + n, capacity - n, "%s%c%d", t ? " " : "", "FBW"[slots[t].kind],
                              slots[t].micro_batch);
        if (s->chunks > 1)
            n += (size_t)snprintf(text + n, capacity - n, ".%d", slots[t].chunk);
        if (slots[t].with_next)
            n += (size_t)snprintf(text + n, capacity - n, "&");
    }
}

struct golden {
    struct bb_schedule schedule;
    int stage;
    const char *order;
};

#define EIGHT_F "F0.0 F1.0 F2.0 F3.0 F0.1 F1.1 F2.1 F3.1"
#define EIGHT_B "B0.1 B1.1 B2.1 B3.1 B0.0 B1.0 B2.0 B3.0"

static const struct golden goldens[] = {
    {{BB_GPIPE, 4, 3, 1, 0, false}, 1, "F0 F1 F2 B0 B1 B2"},
    {{BB_1F1B, 4, 6, 1, 0, false}, 0, "F0 F1 F2 F3 B0 F4 B1 F5 B2 B3 B4 B5"},
    {{BB_1F1B, 4, 6, 1, 0, false}, 1, "F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 B4 B5"},
    {{BB_1F1B, 4, 6, 1, 0, false}, 2, "F0 F1 B0 F2 B1 F3 B2 F4 B3 F5 B4 B5"},
    {{BB_1F1B, 4, 6, 1, 0, false}, 3, "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5"},
    {{BB_1F1B, 4, 2, 1, 0, false}, 0, "F0 F1 B0 B1"},
    {{BB_INTERLEAVED, 2, 4, 2, 2, false},
     0,
     "F0.0 F1.0 F0.1 F1.1 F2.0 B0.1 F3.0 B1.1 F2.1 B0.0 F3.1 B1.0 B2.1 B3.1 B2.0 B3.0"},
    {{BB_INTERLEAVED, 2, 4, 2, 2, false},
     1,
     "F0.0 F1.0 F0.1 B0.1 F1.1 B1.1 F2.0 B0.0 F3.0 B1.0 F2.1 B2.1 F3.1 B3.1 B2.0 B3.0"},
    {{BB_INTERLEAVED, 4, 4, 2, 4, false}, 0, EIGHT_F " " EIGHT_B},
    {{BB_INTERLEAVED, 4, 4, 2, 4, false}, 1, EIGHT_F " " EIGHT_B},
    {{BB_INTERLEAVED, 4, 4, 2, 4, false},
     3,
     "F0.0 F1.0 F2.0 F3.0 F0.1 B0.1 F1.1 B1.1 F2.1 B2.1 F3.1 B3.1 B0.0 B1.0 B2.0 B3.0"},
    /* Megatron-LM's combined_1f1b.py: one forward more before the first pair of a forward and a backward */
    {{BB_1F1B, 1, 4, 1, 0, true}, 0, "F0 F1& B0 F2& B1 F3& B2 B3"},
    {{BB_INTERLEAVED, 2, 4, 2, 2, true},
     0,
     "F0.0 F1.0 F0.1 F1.1 F2.0 F3.0& B0.1 F2.1& B1.1 F3.1& B0.0 B1.0 B2.1 B3.1 B2.0 B3.0"},
    {{BB_INTERLEAVED, 2, 4, 2, 2, true},
     1,
     "F0.0 F1.0 F0.1 F1.1& B0.1 F2.0& B1.1 F3.0& B0.0 F2.1& B1.0 F3.1& B2.1 B3.1 B2.0 B3.0"},
    {{BB_ZB_H1, 4, 6, 1, 0, false}, 0, "F0 F1 F2 F3 B0 W0 F4 B1 W1 F5 B2 W2 B3 W3 B4 W4 B5 W5"},
    {{BB_ZB_H1, 4, 6, 1, 0, false}, 2, "F0 F1 B0 F2 B1 F3 B2 W0 F4 B3 W1 F5 B4 W2 B5 W3 W4 W5"},
    {{BB_ZB_H1, 4, 6, 1, 0, false}, 3, "F0 B0 F1 B1 F2 B2 F3 B3 W0 F4 B4 W1 F5 B5 W2 W3 W4 W5"},
    /* computed by hand from the rules of Qi et al. 2023: a backward as soon as its input is available, then a
     * forward, then weights, with at most 2 p - 1 forwards whose weights are pending */
    {{BB_ZB_H2, 3, 6, 1, 0, false}, 0, "F0 F1 F2 F3 F4 B0 W0 F5 B1 W1 B2 W2 B3 W3 B4 W4 B5 W5"},
    {{BB_ZB_H2, 3, 6, 1, 0, false}, 1, "F0 F1 F2 B0 F3 B1 F4 B2 W0 F5 B3 W1 B4 W2 B5 W3 W4 W5"},
    {{BB_ZB_H2, 3, 6, 1, 0, false}, 2, "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 W0 F5 B5 W1 W2 W3 W4 W5"},
    /* deepseek-ai/DualPipe for 4 stages and 8 micro-batches, computed by hand from its eight steps */
    {{BB_DUALPIPE, 4, 8, 2, 4, false},
     0,
     "F0.0 F1.0 F2.0 F4.1 B4.1 W4.1 F5.1 F3.0& B5.1 F6.1& B0.0 B6.1 F7.1& B1.0 B7.1 B2.0 W2.0 B3.0 W3.0"},
    {{BB_DUALPIPE, 4, 8, 2, 4, false},
     1,
     "F0.0 F4.1 F1.0 F5.1 F2.0 B4.1 F6.1& B0.0 F3.0& B5.1 F7.1& B1.0 B6.1 B2.0 B7.1 B3.0 W7.1 W3.0"},
    {{BB_DUALPIPE, 4, 8, 2, 4, false},
     3,
     "F4.0 F5.0 F6.0 F0.1 B0.1 W0.1 F1.1 F7.0& B1.1 F2.1& B4.0 B2.1 F3.1& B5.0 B3.1 B6.0 W6.0 B7.0 W7.0"},
};

static void orders_match_the_golden_texts(void **state)
{
    char order[1024];

    (void)state;
    for (size_t g = 0; g < ROWS(goldens); g++) {
        write_order(&goldens[g].schedule, goldens[g].stage, order, sizeof(order));
        assert_string_equal(order, goldens[g].order);
    }
}

/* ---- simulation ---- */

#define MAX_STAGES        8
#define MAX_PARTS         32
#define MAX_MICRO_BATCHES 24

struct simulation {
    const struct bb_schedule *s;
    double forward, backward, weights;             /* time of one chunk and micro-batch */
    double ended[2][MAX_PARTS][MAX_MICRO_BATCHES]; /* end of F and B of each part of the model; negative: pending */
    struct bb_slot slots[MAX_STAGES][MAX_SLOTS];
    bool splits;
    double first[MAX_STAGES]; /* begin of each stage */
    int at[MAX_STAGES], n_live[MAX_STAGES], max_live[MAX_STAGES];
    double free[MAX_STAGES];
};

/* Time at which the slot's input is available; negative: pending. */
static double ready(const struct simulation *m, int stage, const struct bb_slot *t)
{
    int part = t->chunk * m->s->stages + stage, parts = m->s->stages * m->s->chunks;

    if (t->kind == BB_SLOT_FORWARD)
        return part == 0 ? 0 : m->ended[0][part - 1][t->micro_batch];
    if (t->kind == BB_SLOT_WEIGHTS)
        return m->ended[1][part][t->micro_batch];
    return part == parts - 1 ? m->ended[0][part][t->micro_batch] : m->ended[1][part + 1][t->micro_batch];
}

static bool try_slot(struct simulation *m, int stage)
{
    const struct bb_slot *t = &m->slots[stage][m->at[stage]];
    const double slot_time[] = {m->forward, m->backward, m->weights};
    double start_time = ready(m, stage, t);

    if (start_time < 0)
        return false;
    start_time = start_time > m->free[stage] ? start_time : m->free[stage];
    if (m->at[stage] == 0)
        m->first[stage] = start_time;
    m->free[stage] = start_time + slot_time[t->kind];
    if (t->kind != BB_SLOT_WEIGHTS)
        m->ended[t->kind][t->chunk * m->s->stages + stage][t->micro_batch] = m->free[stage];
    m->n_live[stage] += (t->kind == BB_SLOT_FORWARD) - (t->kind == (m->splits ? BB_SLOT_WEIGHTS : BB_SLOT_BACKWARD));
    if (m->n_live[stage] > m->max_live[stage])
        m->max_live[stage] = m->n_live[stage];
    m->at[stage]++;
    return true;
}

/* Time of the whole step; negative if it does not end. */
static double simulate(struct simulation *m)
{
    int n = bb_schedule_max_slots(m->s), remaining = n * m->s->stages;
    double end_time = 0;

    assert_true(n <= MAX_SLOTS && m->s->stages * m->s->chunks <= MAX_PARTS && m->s->micro_batches <= MAX_MICRO_BATCHES);
    for (int k = 0; k < 2 * MAX_PARTS * MAX_MICRO_BATCHES; k++)
        (&m->ended[0][0][0])[k] = -1;
    m->splits = bb_schedule_splits_backward(m->s);
    for (int r = 0; r < m->s->stages; r++)
        bb_schedule_make(m->s, r, m->slots[r]);
    for (bool moved = true; moved;) {
        moved = false;
        for (int r = 0; r < m->s->stages; r++)
            while (m->at[r] < n && try_slot(m, r)) {
                moved = true;
                remaining--;
            }
    }
    for (int r = 0; r < m->s->stages; r++)
        end_time = m->free[r] > end_time ? m->free[r] : end_time;
    return remaining ? -1 : end_time;
}

/* f, b, w: forward, backward and weights time of one whole stage. */
static void check_schedule(struct bb_schedule s, double f, double b, double w)
{
    struct simulation *m = calloc(1, sizeof(*m));
    double ideal = s.micro_batches * (f + b + w), time;

    assert_non_null(m);
    assert_int_equal(bb_schedule_validate(&s, 8, "test"), 0);
    *m = (struct simulation){.s = &s, .forward = f / s.chunks, .backward = b / s.chunks, .weights = w / s.chunks};
    time = simulate(m);
    assert_true(time > 0);
    assert_float_equal((time - ideal) / ideal, bubble_of(&s), 1e-9);
    for (int r = 0; r < s.stages; r++)
        assert_int_equal(m->max_live[r], bb_schedule_live(&s, r));
    for (int r = 0; r < s.stages && s.kind == BB_ZB_H2; r++)
        assert_float_equal(m->free[r] - m->first[r], ideal, 1e-9);
    free(m);
}

static const int stage_counts[] = {2, 3, 4, 8}, micro_batch_counts[] = {1, 2, 3, 4, 8, 17};

static void flat_schedules_match_their_bubble_formula(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 6; j++) {
            int p = stage_counts[i], m = micro_batch_counts[j];

            check_schedule((struct bb_schedule){BB_GPIPE, p, m, 1, 0, false}, 1, 2, 0);
            check_schedule((struct bb_schedule){BB_1F1B, p, m, 1, 0, false}, 1, 2, 0);
            check_schedule((struct bb_schedule){BB_1F1B, p, m, 1, 0, false}, 3, 1, 0);
            if (m >= p) /* zb-h1 fills the bubble only with p micro-batches or more */
                check_schedule((struct bb_schedule){BB_ZB_H1, p, m, 1, 0, false}, 1, 1, 1);
            if (m >= 2 * p - 1)
                check_schedule((struct bb_schedule){BB_ZB_H2, p, m, 1, 0, false}, 1, 1, 1);
        }
}

static void interleaved_schedules_match_their_bubble_formula(void **state)
{
    static const int more[] = {0, 1, 2};

    (void)state;
    for (int i = 0; i < 4; i++)
        for (int v = 2; v <= 4; v++)
            for (int k = 0; k < 3; k++) {
                int p = stage_counts[i], m = p << more[k];

                if (m <= MAX_MICRO_BATCHES && p * v <= MAX_PARTS)
                    check_schedule((struct bb_schedule){BB_INTERLEAVED, p, m, v, p, false}, 1, 2, 0);
            }
}

/* ---- dualpipe: micro-batches from both ends, a forward and a backward overlapped in one slot ---- */

struct dualpipe_simulation {
    struct bb_schedule s;
    double forward, backward, weights, both; /* backward includes the weights; both: an overlapped pair */
    struct bb_slot slots[MAX_STAGES][MAX_SLOTS];
    double ended[2][MAX_STAGES]
                [2 * MAX_MICRO_BATCHES]; /* end of F and B of each part; the micro-batch index implies the
                                                     direction */
    int n[MAX_STAGES], at[MAX_STAGES], n_live[MAX_STAGES];
    double free[MAX_STAGES];
};

static double ready_dualpipe(const struct dualpipe_simulation *m, int stage, const struct bb_slot *t)
{
    int part = bb_schedule_part(&m->s, stage, t->chunk);

    if (t->kind == BB_SLOT_FORWARD)
        return part == 0 ? 0 : m->ended[0][part - 1][t->micro_batch];
    if (t->kind == BB_SLOT_WEIGHTS)
        return m->ended[1][part][t->micro_batch];
    return part == m->s.stages - 1 ? m->ended[0][part][t->micro_batch] : m->ended[1][part + 1][t->micro_batch];
}

static double slot_time(const struct dualpipe_simulation *m, const struct bb_slot *t)
{
    const double each[] = {m->forward, m->backward - (t->split ? m->weights : 0), m->weights};

    return t->with_next ? m->both : each[t->kind];
}

static bool try_dualpipe_slot(struct dualpipe_simulation *m, int stage)
{
    const struct bb_slot *t = &m->slots[stage][m->at[stage]];
    int n = t->with_next ? 2 : 1;
    double start_time = m->free[stage];

    for (int i = 0; i < n; i++) {
        double ready_time = ready_dualpipe(m, stage, &t[i]);

        if (ready_time < 0)
            return false;
        start_time = ready_time > start_time ? ready_time : start_time;
    }
    m->free[stage] = start_time + slot_time(m, t);
    m->at[stage] += n;
    for (int i = 0; i < n; i++) {
        bool ends = t[i].kind == BB_SLOT_WEIGHTS || (t[i].kind == BB_SLOT_BACKWARD && !t[i].split);

        if (t[i].kind != BB_SLOT_WEIGHTS)
            m->ended[t[i].kind][bb_schedule_part(&m->s, stage, t[i].chunk)][t[i].micro_batch] = m->free[stage];
        m->n_live[stage] += (t[i].kind == BB_SLOT_FORWARD) - ends;
        assert_true(m->n_live[stage] <= bb_schedule_live(&m->s, stage));
    }
    return true;
}

/* The bubble of the DualPipe paper is (p / 2 - 1) (F&B + B - 3 W), with at most p + 1 live micro-batches. */
static void check_dualpipe(int p, int m, double f, double b, double w, double both)
{
    struct dualpipe_simulation *d = calloc(1, sizeof(*d));
    double ideal, end_time = 0;
    int pairs = 0;

    assert_non_null(d);
    *d = (struct dualpipe_simulation){
        .s = {BB_DUALPIPE, p, m, 2, p, false}, .forward = f, .backward = b, .weights = w, .both = both};
    assert_int_equal(bb_schedule_validate(&d->s, 8, "test"), 0);
    for (int k = 0; k < 2 * MAX_STAGES * 2 * MAX_MICRO_BATCHES; k++)
        (&d->ended[0][0][0])[k] = -1;
    for (int r = 0; r < p; r++)
        d->n[r] = bb_schedule_make(&d->s, r, d->slots[r]);
    for (bool moved = true; moved;) {
        moved = false;
        for (int r = 0; r < p; r++)
            while (d->at[r] < d->n[r] && try_dualpipe_slot(d, r))
                moved = true;
    }
    for (int r = 0; r < p; r++) {
        assert_int_equal(d->at[r], d->n[r]);
        assert_int_equal(d->n_live[r], 0);
        end_time = d->free[r] > end_time ? d->free[r] : end_time;
    }
    for (int t = 0; t < d->n[0]; t++)
        pairs += d->slots[0][t].with_next;
    ideal = pairs * both + (m - pairs) * (f + b); /* first stage */
    assert_float_equal(end_time - ideal, (p / 2 - 1) * (both + b - 3 * w), 1e-9);
    free(d);
}

static void dualpipe_matches_its_bubble_formula(void **state)
{
    (void)state;
    for (int p = 2; p <= 8; p += 2)
        for (int m = 2 * p; m <= 2 * MAX_MICRO_BATCHES; m += 2) {
            check_dualpipe(p, m, 1, 2, 1, 3);
            check_dualpipe(p, m, 2, 4, 2, 6);
        }
}

/* Wider groups of micro-batches and a shorter last group: the order still ends and contains each slot once. */
static void interleaved_with_wide_groups_ends(void **state)
{
    static const int cases[][3] = {{2, 6, 3}, {2, 8, 4}, {4, 12, 6}, {4, 14, 5}, {3, 11, 4}, {8, 24, 16}};

    (void)state;
    for (size_t c = 0; c < ROWS(cases); c++) {
        struct bb_schedule s = {BB_INTERLEAVED, cases[c][0], cases[c][1], 2, cases[c][2], false};
        struct simulation *m = calloc(1, sizeof(*m));

        assert_non_null(m);
        assert_int_equal(bb_schedule_validate(&s, 8, "test"), 0);
        *m = (struct simulation){.s = &s, .forward = 1, .backward = 2};
        assert_true(simulate(m) > 0);
        for (int r = 0; r < s.stages; r++)
            assert_int_equal(m->max_live[r], bb_schedule_live(&s, r));
        free(m);
    }
}

static void rejects_invalid_schedules(void **state)
{
    static const struct bb_schedule bad[] = {
        {BB_1F1B, 4, 4, 2, 0, false},        {BB_ZB_H1, 4, 4, 2, 0, false},       {BB_ZB_H2, 4, 4, 2, 0, false},
        {BB_INTERLEAVED, 1, 4, 2, 1, false}, {BB_INTERLEAVED, 4, 4, 1, 4, false}, {BB_INTERLEAVED, 4, 3, 2, 3, false},
        {BB_INTERLEAVED, 4, 8, 2, 3, false}, {BB_DUALPIPE, 3, 8, 2, 3, false},    {BB_DUALPIPE, 4, 6, 2, 4, false},
        {BB_DUALPIPE, 4, 9, 2, 4, false},    {BB_INTERLEAVED, 4, 6, 2, 4, false}, {BB_INTERLEAVED, 4, 8, 2, 9, false},
    };

    (void)state;
    for (size_t i = 0; i < ROWS(bad); i++)
        assert_int_equal(bb_schedule_validate(&bad[i], 8, "test"), -BB_EUSAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(orders_match_the_golden_texts),
        cmocka_unit_test(flat_schedules_match_their_bubble_formula),
        cmocka_unit_test(interleaved_schedules_match_their_bubble_formula),
        cmocka_unit_test(dualpipe_matches_its_bubble_formula),
        cmocka_unit_test(interleaved_with_wide_groups_ends),
        cmocka_unit_test(rejects_invalid_schedules),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
