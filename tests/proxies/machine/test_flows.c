/*
 * test_flows.c - rates of flows that share resources, against closed forms: one link, a dumbbell, rates that change in
 * the middle, own bounds; and what holds of any set of flows: nothing is lost, no resource is overdrawn, every flow has
 * a reason for not being faster, and the order in which they are told does not matter.
 */
#include "tests/check.h"

#include "proxies/machine/flows.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>

#define MOST 64

static int reckoned; /* what flows have counted before */

/* Bytes over links, at most `most` bytes/ns by itself. */
struct transfer {
    double start_ns, bytes, most;
    int links[4], n_links;
    double end_ns;
};

static double least(double a, double b)
{
    return a < b ? a : b;
}

static void add_transfer(struct bb_flows *f, int i, const struct transfer *t, const double *rates)
{
    double alone = t->most;

    for (int l = 0; l < t->n_links; l++)
        alone = least(alone, rates[t->links[l]]);
    f->flows[i].first_use = 4 * i;
    f->flows[i].n_uses = t->n_links;
    f->flows[i].bytes_per_ns = alone;
    for (int l = 0; l < t->n_links; l++)
        f->uses[4 * i + l] = (struct bb_flow_use){.resource = t->links[l], .weight = alone};
}

static void check_conserved(const struct bb_flows *f, int n_links)
{
    for (int l = 0; l < n_links; l++)
        assert_true(bb_flows_used(f, l) <= f->resources[l].capacity * (1 + 1e-6));
}

/* A flow that is not at full rate is on a link that is full, and no flow of that link moves more bytes. */
static void check_fair(const struct bb_flows *f)
{
    for (int i = 0; i < f->n_flows; i++) {
        const struct bb_flow *w = &f->flows[i];
        bool has_reason = !w->active || w->rate > 1 - 1e-6;

        for (int u = w->first_use; u < w->first_use + w->n_uses && !has_reason; u++) {
            int link = f->uses[u].resource;
            bool fastest = bb_flows_used(f, link) > f->resources[link].capacity * (1 - 1e-6);

            for (int v = f->resources[link].first; v >= 0 && fastest; v = f->uses[v].next)
                fastest = f->flows[f->uses[v].flow].rate * f->flows[f->uses[v].flow].bytes_per_ns <=
                          w->rate * w->bytes_per_ns * (1 + 1e-6);
            has_reason = fastest;
        }
        assert_true(has_reason);
    }
}

/* Drives the flows to their ends: the next moment is the next start or the next end. */
static void drive(struct transfer *t, int n, const double *rates, int n_links)
{
    struct bb_flows f;
    double now = 0;
    int left = n;

    assert_int_equal(bb_flows_init(&f, n, n_links, 4 * n), 0);
    f.round = f.update = reckoned;
    for (int l = 0; l < n_links; l++)
        f.resources[l].capacity = rates[l];
    for (int i = 0; i < n; i++) {
        add_transfer(&f, i, &t[i], rates);
        t[i].end_ns = -1;
    }
    while (left > 0) {
        double next = INFINITY;

        for (int i = 0; i < n; i++)
            if (t[i].end_ns < 0)
                next = least(next, f.flows[i].active ? bb_flow_end_ns(&f.flows[i]) : t[i].start_ns);
        now = next;
        for (int i = 0; i < n; i++)
            if (t[i].end_ns < 0 && f.flows[i].active && bb_flow_end_ns(&f.flows[i]) <= now + 1e-9) {
                bb_flows_stop(&f, i, now);
                t[i].end_ns = now;
                left--;
            } else if (t[i].end_ns < 0 && !f.flows[i].active && t[i].start_ns <= now)
                bb_flows_start(&f, i, now, t[i].bytes / f.flows[i].bytes_per_ns);
        bb_flows_update_rates(&f, now);
        check_conserved(&f, n_links);
        check_fair(&f);
    }
    bb_flows_release(&f);
}

static void ends_at(const struct transfer *t, double expected)
{
    if (fabs(t->end_ns - expected) > 1e-6 * expected)
        fail_msg("ends at %.9g, expected %.9g", t->end_ns, expected);
}

static void alone_a_flow_has_its_bound(void **state)
{
    struct transfer t[] = {{0, 100, 99, {0}, 1, 0}, {0, 100, 5, {1}, 1, 0}, {7, 100, 99, {0, 1}, 2, 0}};

    (void)state;
    drive(t, 1, (double[]){20}, 1);
    ends_at(&t[0], 5);
    drive(&t[1], 1, (double[]){1, 20}, 2);
    ends_at(&t[1], 20);
    drive(&t[2], 1, (double[]){20, 10}, 2);
    ends_at(&t[2], 17);
}

/* Both at 5 until the first has its 50 at 10; then the other's 100 - 50 go at 10. */
static void two_flows_halve_a_link_until_one_ends(void **state)
{
    struct transfer t[] = {{0, 50, 99, {0}, 1, 0}, {0, 100, 99, {0}, 1, 0}};

    (void)state;
    drive(t, 2, (double[]){10}, 1);
    ends_at(&t[0], 10);
    ends_at(&t[1], 15);
}

/* One comes in the middle of the other: 40 alone, then 5 each. */
static void a_flow_that_comes_later_takes_its_half(void **state)
{
    struct transfer t[] = {{0, 100, 99, {0}, 1, 0}, {4, 30, 99, {0}, 1, 0}};

    (void)state;
    drive(t, 2, (double[]){10}, 1);
    ends_at(&t[1], 10);
    ends_at(&t[0], 13); /* 40 + 30 at 10, and 30 alone */
}

static void what_a_bounded_flow_leaves_goes_to_the_others(void **state)
{
    struct transfer t[] = {{0, 20, 2, {0}, 1, 0}, {0, 40, 99, {0}, 1, 0}, {0, 40, 99, {0}, 1, 0}};

    (void)state;
    drive(t, 3, (double[]){10}, 1);
    ends_at(&t[0], 10);
    ends_at(&t[1], 10);
    ends_at(&t[2], 10);
}

/* Links of 10 and 4, one flow on each and one over both: 8, 2 and 2; in bytes, not in parts of what each has alone. */
static void a_dumbbell_is_max_min_fair(void **state)
{
    struct transfer t[] = {{0, 80, 99, {0}, 1, 0}, {0, 20, 99, {1}, 1, 0}, {0, 20, 99, {0, 1}, 2, 0}};
    struct transfer five[] = {{0, 20, 99, {0}, 1, 0},
                              {0, 20, 99, {0}, 1, 0},
                              {0, 20, 99, {0}, 1, 0},
                              {0, 20, 99, {0}, 1, 0},
                              {0, 20, 99, {0, 1}, 2, 0}};

    (void)state;
    drive(t, 3, (double[]){10, 4}, 2);
    for (int i = 0; i < 3; i++)
        ends_at(&t[i], 10);
    drive(five, 5, (double[]){10, 4}, 2);
    for (int i = 0; i < 5; i++)
        ends_at(&five[i], 10);
}

static double pick(unsigned *seed, double from, double to)
{
    *seed = *seed * 1664525u + 1013904223u;
    return from + (to - from) * (double)(*seed >> 8) / (1 << 24);
}

/* Any flows: drive() checks what must hold; told backwards they end at the same times. */
static void any_flows_are_fair_in_any_order(void **state)
{
    struct transfer t[MOST], back[MOST];
    double rates[8];

    (void)state;
    for (unsigned trial = 1; trial <= 40; trial++) {
        unsigned seed = trial;
        int n = (int)pick(&seed, 2, MOST);

        for (int l = 0; l < 8; l++)
            rates[l] = pick(&seed, 1, 50);
        for (int i = 0; i < n; i++) {
            t[i] = (struct transfer){.start_ns = floor(pick(&seed, 0, 20)), .bytes = pick(&seed, 1, 500), .n_links = 2};
            t[i].most = pick(&seed, 1, 60);
            t[i].links[0] = (int)pick(&seed, 0, 4);
            t[i].links[1] = 4 + (int)pick(&seed, 0, 4);
            back[n - 1 - i] = t[i];
        }
        drive(t, n, rates, 8);
        drive(back, n, rates, 8);
        for (int i = 0; i < n; i++)
            ends_at(&back[n - 1 - i], t[i].end_ns);
    }
}

/* The counts of reckonings end in the midst of it, after so many more. */
static void counts_that_end_begin_again(void **state)
{
    for (int more = 0; more < 40; more += 13) {
        reckoned = INT_MAX - more;
        any_flows_are_fair_in_any_order(state);
    }
    reckoned = 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alone_a_flow_has_its_bound),
        cmocka_unit_test(two_flows_halve_a_link_until_one_ends),
        cmocka_unit_test(a_flow_that_comes_later_takes_its_half),
        cmocka_unit_test(what_a_bounded_flow_leaves_goes_to_the_others),
        cmocka_unit_test(a_dumbbell_is_max_min_fair),
        cmocka_unit_test(any_flows_are_fair_in_any_order),
        cmocka_unit_test(counts_that_end_begin_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
