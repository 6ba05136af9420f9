/*
 * test_flows.c - rates of flows that share resources. Closed forms: one link, a dumbbell, rates that change during a
 * flow, and flows with their own maximum rate. Invariants for random sets of flows: no resource exceeds its capacity,
 * every flow is at its maximum rate or limited by a full resource (max-min fairness), and the result does not depend on
 * the order of the flows.
 */
#include "tests/check.h"

#include "proxies/simulation/machine/flows.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>

#define MAX_TRANSFERS 64

static int initial_counter; /* initial value of the round and update counters */

/* A transfer over links, with at most `max_rate` bytes/ns. */
struct transfer {
    double start_ns, bytes, max_rate;
    int links[4], n_links;
    double end_ns;
};

static double min_of(double a, double b)
{
    return a < b ? a : b;
}

static void add_transfer(struct bb_flows *f, int i, const struct transfer *t, const double *rates)
{
    double max_rate = t->max_rate;

    for (int l = 0; l < t->n_links; l++)
        max_rate = min_of(max_rate, rates[t->links[l]]);
    f->flows[i].first_use = 4 * i;
    f->flows[i].n_uses = t->n_links;
    f->flows[i].bytes_per_ns = max_rate;
    for (int l = 0; l < t->n_links; l++)
        f->uses[4 * i + l] = (struct bb_flow_use){.resource = t->links[l], .weight = max_rate};
}

static void check_conserved(const struct bb_flows *f, int n_links)
{
    for (int l = 0; l < n_links; l++)
        assert_true(bb_flows_used(f, l) <= f->resources[l].capacity * (1 + 1e-6));
}

/* Max-min fairness: a flow below its full rate uses a full link, and no other flow of that link moves more bytes per
 * ns. */
static void check_fair(const struct bb_flows *f)
{
    for (int i = 0; i < f->n_flows; i++) {
        const struct bb_flow *w = &f->flows[i];
        bool limited = !w->active || w->rate > 1 - 1e-6;

        for (int u = w->first_use; u < w->first_use + w->n_uses && !limited; u++) {
            int link = f->uses[u].resource;
            bool fastest = bb_flows_used(f, link) > f->resources[link].capacity * (1 - 1e-6);

            for (int v = f->resources[link].first; v >= 0 && fastest; v = f->uses[v].next)
                fastest = f->flows[f->uses[v].flow].rate * f->flows[f->uses[v].flow].bytes_per_ns <=
                          w->rate * w->bytes_per_ns * (1 + 1e-6);
            limited = fastest;
        }
        assert_true(limited);
    }
}

/* Runs the transfers to their ends. Time advances to the next start or the next end. */
static void drive(struct transfer *t, int n, const double *rates, int n_links)
{
    struct bb_flows f;
    double now = 0;
    int left = n;

    bb_flows_init(&f, n, n_links, 4 * n);
    f.round = f.update = initial_counter;
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
                next = min_of(next, f.flows[i].active ? bb_flow_end_ns(&f.flows[i]) : t[i].start_ns);
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

static void assert_ends_at(const struct transfer *t, double expected)
{
    if (fabs(t->end_ns - expected) > 1e-6 * expected)
        fail_msg("ends at %.9g, expected %.9g", t->end_ns, expected);
}

static void single_flow_has_its_maximum_rate(void **state)
{
    struct transfer t[] = {{0, 100, 99, {0}, 1, 0}, {0, 100, 5, {1}, 1, 0}, {7, 100, 99, {0, 1}, 2, 0}};

    (void)state;
    drive(t, 1, (double[]){20}, 1);
    assert_ends_at(&t[0], 5);
    drive(&t[1], 1, (double[]){1, 20}, 2);
    assert_ends_at(&t[1], 20);
    drive(&t[2], 1, (double[]){20, 10}, 2);
    assert_ends_at(&t[2], 17);
}

/* Both flows have 5 bytes/ns until the first has moved its 50 bytes at 10 ns. The other moves its remaining 50 bytes
 * at 10 bytes/ns. */
static void two_flows_share_a_link_until_one_ends(void **state)
{
    struct transfer t[] = {{0, 50, 99, {0}, 1, 0}, {0, 100, 99, {0}, 1, 0}};

    (void)state;
    drive(t, 2, (double[]){10}, 1);
    assert_ends_at(&t[0], 10);
    assert_ends_at(&t[1], 15);
}

/* The second flow starts during the first: 40 bytes alone, then 5 bytes/ns each. */
static void later_flow_takes_half_of_the_link(void **state)
{
    struct transfer t[] = {{0, 100, 99, {0}, 1, 0}, {4, 30, 99, {0}, 1, 0}};

    (void)state;
    drive(t, 2, (double[]){10}, 1);
    assert_ends_at(&t[1], 10);
    assert_ends_at(&t[0], 13); /* 40 + 30 bytes at 10 ns, then 30 bytes alone */
}

static void bandwidth_unused_by_a_limited_flow_goes_to_the_others(void **state)
{
    struct transfer t[] = {{0, 20, 2, {0}, 1, 0}, {0, 40, 99, {0}, 1, 0}, {0, 40, 99, {0}, 1, 0}};

    (void)state;
    drive(t, 3, (double[]){10}, 1);
    assert_ends_at(&t[0], 10);
    assert_ends_at(&t[1], 10);
    assert_ends_at(&t[2], 10);
}

/* Links of 10 and 4 bytes/ns, one flow on each link and one over both: rates 8, 2 and 2. Fairness is in bytes/ns,
 * not in fractions of each flow's maximum. */
static void dumbbell_rates_are_max_min_fair(void **state)
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
        assert_ends_at(&t[i], 10);
    drive(five, 5, (double[]){10, 4}, 2);
    for (int i = 0; i < 5; i++)
        assert_ends_at(&five[i], 10);
}

static double pick(unsigned *seed, double from, double to)
{
    *seed = *seed * 1664525u + 1013904223u;
    return from + (to - from) * (double)(*seed >> 8) / (1 << 24);
}

/* Link: 480 bytes/ns, NIC: 48. Alone, one flow fills the link and moves 36 bytes/ns through the NIC; the other one fills the
 * NIC, and 96 bytes/ns of the link. They need 1.75 times the NIC and 1.2 times the link, so each gets half of the NIC until the
 * first one ends after 100 x 36/24 ns. The other one has then had 75 of its 100 ns of work, and gets the whole NIC. */
static void flows_share_a_nic_by_the_bytes_through_it(void **state)
{
    struct bb_flows f;

    (void)state;
    bb_flows_init(&f, 2, 2, 4);
    f.resources[0].capacity = 480;
    f.resources[1].capacity = 48;
    f.resources[1].is_net = true;
    for (int i = 0; i < 2; i++) {
        const double link = i == 0 ? 480 : 96, nic = i == 0 ? 36 : 48;

        f.flows[i].first_use = 2 * i;
        f.flows[i].n_uses = 2;
        f.flows[i].bytes_per_ns = link;
        f.flows[i].net_bytes_per_ns = nic;
        f.uses[2 * i] = (struct bb_flow_use){.resource = 0, .weight = link};
        f.uses[2 * i + 1] = (struct bb_flow_use){.resource = 1, .weight = nic};
        bb_flows_start(&f, i, 0, 100);
    }
    bb_flows_update_rates(&f, 0);
    assert_ends_at(&(struct transfer){.end_ns = bb_flow_end_ns(&f.flows[0])}, 150);
    bb_flows_stop(&f, 0, 150);
    bb_flows_update_rates(&f, 150);
    assert_ends_at(&(struct transfer){.end_ns = bb_flow_end_ns(&f.flows[1])}, 175);
    bb_flows_release(&f);
}

/* Random flows. drive() checks the invariants. The same flows in reverse order end at the same times. */
static void random_flows_are_fair_in_any_order(void **state)
{
    struct transfer t[MAX_TRANSFERS], reversed[MAX_TRANSFERS];
    double rates[8];

    (void)state;
    for (unsigned trial = 1; trial <= 40; trial++) {
        unsigned seed = trial;
        int n = (int)pick(&seed, 2, MAX_TRANSFERS);

        for (int l = 0; l < 8; l++)
            rates[l] = pick(&seed, 1, 50);
        for (int i = 0; i < n; i++) {
            t[i] = (struct transfer){.start_ns = floor(pick(&seed, 0, 20)), .bytes = pick(&seed, 1, 500), .n_links = 2};
            t[i].max_rate = pick(&seed, 1, 60);
            t[i].links[0] = (int)pick(&seed, 0, 4);
            t[i].links[1] = 4 + (int)pick(&seed, 0, 4);
            reversed[n - 1 - i] = t[i];
        }
        drive(t, n, rates, 8);
        drive(reversed, n, rates, 8);
        for (int i = 0; i < n; i++)
            assert_ends_at(&reversed[n - 1 - i], t[i].end_ns);
    }
}

/* The update counters start just below INT_MAX and wrap around during the run. */
static void counters_wrap_around(void **state)
{
    for (int margin = 0; margin < 40; margin += 13) {
        initial_counter = INT_MAX - margin;
        random_flows_are_fair_in_any_order(state);
    }
    initial_counter = 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(single_flow_has_its_maximum_rate),
        cmocka_unit_test(two_flows_share_a_link_until_one_ends),
        cmocka_unit_test(later_flow_takes_half_of_the_link),
        cmocka_unit_test(bandwidth_unused_by_a_limited_flow_goes_to_the_others),
        cmocka_unit_test(dumbbell_rates_are_max_min_fair),
        cmocka_unit_test(flows_share_a_nic_by_the_bytes_through_it),
        cmocka_unit_test(random_flows_are_fair_in_any_order),
        cmocka_unit_test(counters_wrap_around),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
