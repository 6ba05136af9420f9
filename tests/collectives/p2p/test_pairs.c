/* test_pairs.c - the pair schedule, lists of sizes, and detection of slow links. */
#include "bootstrap/cli/size_list.h"
#include "collectives/p2p/link_outliers.h"
#include "collectives/p2p/pair_schedule.h"
#include "collectives/sweep/cases.h"
#include "tests/check.h"

#include <math.h>
#include <stdlib.h>

enum { MAX_RANKS = 33 };

/* Every pair is scheduled exactly once, and each rank has at most one partner per round. */
static void check_schedule(const struct bb_pair_schedule *p, int rounds, int max_idle)
{
    int matched[MAX_RANKS][MAX_RANKS] = {{0}};

    assert_int_equal(bb_pair_schedule_rounds(p), rounds);
    for (int round = 0; round < rounds; round++) {
        int idle = 0;

        for (int r = 0; r < p->ranks; r++) {
            int partner = bb_pair_schedule_partner(p, round, r);

            assert_true(partner >= -1 && partner < p->ranks && partner != r);
            idle += partner < 0;
            if (partner >= 0) {
                assert_int_equal(bb_pair_schedule_partner(p, round, partner), r);
                matched[r][partner]++;
            }
        }
        assert_true(idle <= max_idle);
    }
    for (int a = 0; a < p->ranks; a++)
        for (int b = 0; b < p->ranks; b++)
            assert_int_equal(matched[a][b], a != b);
}

static void every_pair_is_scheduled_once(void **state)
{
    (void)state;
    for (int n = 2; n <= MAX_RANKS; n++) {
        const struct bb_pair_schedule parallel = {n, false}, serial = {n, true};

        check_schedule(&parallel, n % 2 ? n : n - 1, n % 2);
        check_schedule(&serial, n * (n - 1) / 2, n - 2);
    }
}

static void one_rank_has_no_rounds(void **state)
{
    (void)state;
    assert_int_equal(bb_pair_schedule_rounds(&(struct bb_pair_schedule){1, false}), 0);
    assert_int_equal(bb_pair_schedule_rounds(&(struct bb_pair_schedule){1, true}), 0);
}

static void parses_lists_of_sizes(void **state)
{
    static const char *const bad[] = {"", "8,", ",8", "8,,16", "8;16", "0", "-8", "8,x", "1.5", "8Q",
                                      "1025T",    /* the sum of such buffer sizes would wrap around to a small number */
                                      "5592406T", /* a third of 2^64 */
                                      /* 64 characters and a unit: truncated, the value would be one byte */
                                      "1.00000000000000000000000000000000000000000000000000000000000000K"};
    struct bb_sizes s;

    (void)state;
    assert_int_equal(bb_sizes_parse(&s, "--sizes", "1.5K,8,1M", 1), 0);
    assert_int_equal(s.n, 3);
    assert_int_equal(s.bytes[0], 1536);
    assert_int_equal(s.bytes[1], 8);
    assert_int_equal(bb_sizes_max(&s), 1 << 20);
    for (size_t i = 0; i < ROWS(bad); i++)
        assert_int_equal(bb_sizes_parse(&s, "--sizes", bad[i], 1), -BB_EUSAGE);
    assert_int_equal(bb_sizes_parse(&s, "--sizes", "0", 0), 0);
}

static void rejects_too_many_sizes(void **state)
{
    char text[2 * BB_SIZES_MAX + 2];
    struct bb_sizes s;

    (void)state;
    for (int i = 0; i <= BB_SIZES_MAX; i++)
        memcpy(text + 2 * (size_t)i, "8,", 2);
    text[2 * BB_SIZES_MAX + 1] = '\0';
    assert_int_equal(bb_sizes_parse(&s, "--sizes", text, 1), -BB_EUSAGE);
    text[2 * BB_SIZES_MAX - 1] = '\0';
    assert_int_equal(bb_sizes_parse(&s, "--sizes", text, 1), 0);
    assert_int_equal(s.n, BB_SIZES_MAX);
}

/* ---- slow links ---- */

enum { MAX_SEEN = 64, RANKS = 8 };

struct seen {
    struct bb_slow_link link[MAX_SEEN];
    int n;
};

static void keep_link(void *arg, const struct bb_slow_link *link)
{
    struct seen *seen = arg;

    assert_true(seen->n < MAX_SEEN);
    seen->link[seen->n++] = *link;
}

/* Fills bandwidths of 8 ranks, 2 per node: 100 within a node, 20 between nodes. */
static void fill_bandwidths(double *value, int *node_of)
{
    for (int a = 0; a < RANKS; a++) {
        node_of[a] = a / 2;
        for (int b = 0; b < RANKS; b++)
            value[a * RANKS + b] = a == b ? NAN : a / 2 == b / 2 ? 100 : 20;
    }
}

static void assert_link(const struct bb_slow_link *l, enum bb_link_level level, int from, int to, bool same,
                        double value, double median)
{
    assert_int_equal(l->level, level);
    assert_int_equal(l->from, from);
    assert_int_equal(l->to, to);
    assert_int_equal(l->same_node, same);
    assert_true(l->value == value);
    assert_true(l->median == median);
}

static void equal_links_are_not_slow(void **state)
{
    double value[RANKS * RANKS];
    int node_of[RANKS];
    struct seen seen = {.n = 0};
    const struct bb_link_outliers l = {RANKS, value, node_of, false, true, 0.8, 0, NULL};

    (void)state;
    fill_bandwidths(value, node_of);
    bb_link_outliers_slow(&l, keep_link, &seen);
    assert_int_equal(seen.n, 0); /* inter-node links are slower than intra-node links, but not slower than their own
                                    class */
    value[0 * RANKS + 1] = 81;
    bb_link_outliers_slow(&l, keep_link, &seen);
    assert_int_equal(seen.n, 0);
}

/* NVLink connects nodes 0 and 1, and nodes 2 and 3, at 90; the links of these domains are compared with each other. */
static void links_of_an_nvlink_domain_are_one_class(void **state)
{
    const int domain_of[RANKS] = {0, 0, 0, 0, 4, 4, 4, 4};
    double value[RANKS * RANKS];
    int node_of[RANKS];
    struct seen seen = {.n = 0};
    struct bb_link_outliers l = {RANKS, value, node_of, false, true, 0.8, 0, NULL};

    (void)state;
    fill_bandwidths(value, node_of);
    for (int i = 0; i < RANKS * RANKS; i++)
        if (i / RANKS / 4 == i % RANKS / 4 && value[i] == 20)
            value[i] = 90;
    value[3 * RANKS + 0] = 60;
    bb_link_outliers_slow(&l, keep_link, &seen);
    assert_int_equal(seen.n, 0); /* without domains the slow link is one of many between nodes, and faster than most */
    seen.n = 0;
    l.domain_of = domain_of;
    bb_link_outliers_slow(&l, keep_link, &seen);
    assert_int_equal(seen.n, 1);
    assert_link(&seen.link[0], BB_LINK_PAIR, 3, 0, true, 60, 90);
}

static void finds_one_slow_direction(void **state)
{
    double value[RANKS * RANKS];
    int node_of[RANKS];
    struct seen seen = {.n = 0};
    const struct bb_link_outliers l = {RANKS, value, node_of, false, true, 0.8, 0, NULL};

    (void)state;
    fill_bandwidths(value, node_of);
    value[5 * RANKS + 4] = 79;
    bb_link_outliers_slow(&l, keep_link, &seen);
    assert_int_equal(seen.n, 1);
    assert_link(&seen.link[0], BB_LINK_PAIR, 5, 4, true, 79, 100);
}

/*
 * Rank 3's inter-node links have half the rate: 12 directed pairs and the rank are slow. Its node is not: rank 2 is fast.
 */
static void finds_a_slow_rank(void **state)
{
    double value[RANKS * RANKS];
    int node_of[RANKS];
    struct seen seen = {.n = 0};
    const struct bb_link_outliers l = {RANKS, value, node_of, false, true, 0.8, 0, NULL};

    (void)state;
    fill_bandwidths(value, node_of);
    for (int r = 0; r < RANKS; r++)
        if (r / 2 != 1)
            value[3 * RANKS + r] = value[r * RANKS + 3] = 10;
    bb_link_outliers_slow(&l, keep_link, &seen);
    assert_int_equal(seen.n, 13);
    assert_link(&seen.link[0], BB_LINK_PAIR, 0, 3, false, 10, 20);
    assert_link(&seen.link[12], BB_LINK_RANK, 3, -1, false, 10, 20);
}

/* Latency: a higher value is slower, and each pair is reported once. */
static void finds_slow_latency(void **state)
{
    double value[RANKS * RANKS];
    int node_of[RANKS];
    struct seen seen = {.n = 0};
    const struct bb_link_outliers l = {RANKS, value, node_of, true, false, 0.5, 0, NULL};

    (void)state;
    fill_bandwidths(value, node_of);
    value[2 * RANKS + 7] = value[7 * RANKS + 2] = 41;
    value[2 * RANKS + 6] = value[6 * RANKS + 2] = 40; /* exactly the factor 2, not beyond */
    bb_link_outliers_slow(&l, keep_link, &seen);
    assert_int_equal(seen.n, 1);
    assert_link(&seen.link[0], BB_LINK_PAIR, 2, 7, false, 41, 20);
}

static void summarizes_each_link_class(void **state)
{
    double value[RANKS * RANKS];
    int node_of[RANKS];
    const struct bb_link_outliers l = {RANKS, value, node_of, true, true, 0.8, 0, NULL};
    struct bb_stats sum;

    (void)state;
    fill_bandwidths(value, node_of);
    value[1] = 60;
    bb_link_outliers_summary(&l, true, &sum);
    assert_int_equal(sum.n, 4);
    assert_true(sum.min == 60);
    assert_true(sum.p50 == 100);
    bb_link_outliers_summary(&l, false, &sum);
    assert_int_equal(sum.n, 24);
    memset(node_of, 0, sizeof node_of);
    bb_link_outliers_summary(&l, false, &sum);
    assert_int_equal(sum.n, 0);
    assert_true(isnan(sum.p50));
}

static void count_links(const struct bb_link_outliers *l, int *slow, int *all)
{
    int slow_of[2], all_of[2];

    bb_link_outliers_count(l, slow_of, all_of);
    *slow = slow_of[0] + slow_of[1];
    *all = all_of[0] + all_of[1];
}

/* 6 of 8 intra-node links have a ninth of the rate: the class median is itself slow, so modes of the class are
 * detected. */
static void detects_two_modes(void **state)
{
    double value[RANKS * RANKS];
    int node_of[RANKS], slow, all;
    const struct bb_link_outliers l = {RANKS, value, node_of, false, true, 0.8, 0, NULL};
    struct bb_link_modes modes;

    (void)state;
    fill_bandwidths(value, node_of);
    bb_link_outliers_modes(&l, true, &modes);
    assert_int_equal(modes.group[0].n, 0);
    for (int r = 0; r < 6; r += 2) /* 6 of 8 links */
        value[r * RANKS + r + 1] = value[(r + 1) * RANKS + r] = 11;
    bb_link_outliers_modes(&l, true, &modes);
    assert_int_equal(modes.group[0].n, 6);
    assert_int_equal(modes.group[1].n, 2);
    assert_true(modes.group[0].p50 == 11 && modes.group[1].p50 == 100);
    count_links(&l, &slow, &all);
    assert_int_equal(slow, 6);
    assert_int_equal(all, RANKS * (RANKS - 1));
    value[6 * RANKS + 7] = 11; /* a single fast link, so the others are slow */
    bb_link_outliers_modes(&l, true, &modes);
    assert_int_equal(modes.group[0].n, 7);
    value[7 * RANKS + 6] = 11; /* equally slow: cannot be decided */
    bb_link_outliers_modes(&l, true, &modes);
    assert_int_equal(modes.group[0].n, 0);
    bb_link_outliers_modes(&l, false, &modes);
    assert_int_equal(modes.group[0].n, 0);
}

static void modes_require_a_gap_beyond_the_factor(void **state)
{
    double value[RANKS * RANKS];
    int node_of[RANKS];
    struct bb_link_outliers l = {RANKS, value, node_of, true, false, 0.5, 0, NULL};
    struct bb_link_modes modes;

    (void)state;
    fill_bandwidths(value, node_of);
    value[0 * RANKS + 1] = value[1 * RANKS + 0] = value[2 * RANKS + 3] = value[3 * RANKS + 2] = 200;
    bb_link_outliers_modes(&l, true, &modes);
    assert_int_equal(modes.group[0].n, 0); /* exactly the factor 2 */
    value[0 * RANKS + 1] = value[1 * RANKS + 0] = value[2 * RANKS + 3] = value[3 * RANKS + 2] = 201;
    bb_link_outliers_modes(&l, true, &modes); /* latency: the slower mode has the higher values */
    assert_int_equal(modes.group[0].n, 2);
    assert_int_equal(modes.group[1].n, 2);
    assert_true(modes.group[0].p50 == 201 && modes.group[1].p50 == 100);
}

/* ---- planted faults, with noise ---- */

enum { MODELS = 20 };

/* Fills the links of 8 ranks, `per_node` on each node, with bandwidth 47.4, or 0.6 of it between nodes at a rank
 * in `slow` (a bit mask), times a uniform random factor of 1 - noise to 1. */
static void plant(double *value, int *node_of, int per_node, unsigned slow, double noise, unsigned *seed)
{
    for (int a = 0; a < RANKS; a++) {
        node_of[a] = a / per_node;
        for (int b = 0; b < RANKS; b++) {
            *seed = *seed * 1664525u + 1013904223u;
            value[a * RANKS + b] =
                a == b ? NAN : 47.4 * (a / per_node != b / per_node && (slow >> a | slow >> b) & 1 ? 0.6 : 1);
            value[a * RANKS + b] *= 1 - noise * (double)(*seed >> 8) / (1 << 24);
        }
    }
}

static bool keep_cause(void *arg, const struct bb_link_cause *cause)
{
    keep_link(arg, &cause->what);
    return true;
}

/* One row: ranks with slow links; expected number of slow links and causes. */
static const struct planted {
    int per_node;
    unsigned slow;
    double noise;
    int links, causes;
    enum bb_link_level level;
} planted[] = {
    {1, 0x00, 0.01, 0, 0, 0},
    {1, 0x00, 0.05, 0, 0, 0},
    {1, 0xff, 0.01, 0, 0, 0}, /* all equally slow */
    {1, 0x7f, 0.01, 0, 0, 0}, /* every link has a slow end */
    {1, 0x02, 0.01, 14, 1, BB_LINK_RANK},
    {1, 0x66, 0.01, 44, 4, BB_LINK_RANK}, /* half of the nodes */
    {1, 0x6e, 0.05, 50, 5, BB_LINK_RANK},
    {1, 0x7e, 0.05, 54, 6, BB_LINK_RANK}, /* only ranks 0 and 7 are healthy */
    {2, 0x3c, 0.01, 40, 2, BB_LINK_NODE}, /* two of four nodes */
    {2, 0x84, 0.01, 22, 2, BB_LINK_RANK}, /* one NIC on each of two nodes */
};

static void finds_planted_faults(void **state)
{
    (void)state;
    for (size_t i = 0; i < ROWS(planted) * MODELS; i++) {
        const struct planted *p = &planted[i / MODELS];
        double value[RANKS * RANKS];
        int node_of[RANKS], slow, all;
        struct seen seen = {.n = 0};
        struct bb_link_outliers l = {RANKS, value, node_of, false, true, 0.8, 0, NULL};
        unsigned seed = (unsigned)i;

        plant(value, node_of, p->per_node, p->slow, p->noise, &seed);
        count_links(&l, &slow, &all);
        assert_int_equal(all, RANKS * (RANKS - 1));
        assert_int_equal(slow, p->links);
        bb_link_outliers_causes(&l, keep_cause, &seen);
        assert_int_equal(seen.n, p->causes);
        for (int k = 0; k < seen.n; k++) {
            const int which = seen.link[k].from * (p->level == BB_LINK_NODE ? p->per_node : 1);

            assert_int_equal(seen.link[k].level, p->level);
            assert_true(p->slow >> which & 1);
        }
    }
}

/* Ranks 2 and 3 are on a leaf switch with slow uplinks. Their link and those of their pairs that measured alone are fast. */
static void a_slow_leaf_switch_is_explained_by_its_ranks(void **state)
{
    static const int fast[][2] = {{2, 3}, {0, 2}, {2, 7}, {1, 3}, {3, 6}};
    double value[RANKS * RANKS];
    int node_of[RANKS];
    struct seen seen = {.n = 0};
    const struct bb_link_outliers l = {RANKS, value, node_of, false, true, 0.8, 0, NULL};
    unsigned seed = 1;

    (void)state;
    plant(value, node_of, 1, 0x0c, 0.01, &seed);
    for (size_t i = 0; i < ROWS(fast); i++)
        value[fast[i][0] * RANKS + fast[i][1]] = value[fast[i][1] * RANKS + fast[i][0]] = 47;
    bb_link_outliers_causes(&l, keep_cause, &seen);
    assert_int_equal(seen.n, 2);
    assert_true(seen.link[0].level == BB_LINK_RANK && seen.link[0].from == 2);
    assert_true(seen.link[1].level == BB_LINK_RANK && seen.link[1].from == 3);
}

/* Nodes of two ranks. Node 1 has 0.7 of the rate with all others, node 3 this part of it, and the links of nodes 1 and 2 another
 * part: a path, if that is less than the nodes explain. */
static void a_slow_path_of_a_slow_node_is_a_cause(void **state)
{
    static const struct {
        double node3, path;
        int causes;
    } rows[] = {{1, 0.7, 1}, {1, 0.3, 2}, {0.5, 0.7, 2}, {0.4, 0.25, 3}};
    enum { LATENCY = 2 * ROWS(rows) };

    (void)state;
    for (size_t i = 0; i < 2 * LATENCY; i++) {
        const size_t row = i % ROWS(rows);
        const bool is_latency = i >= LATENCY, is_symmetric = i / ROWS(rows) % 2;
        double value[RANKS * RANKS];
        int node_of[RANKS];
        struct seen seen = {.n = 0};
        const struct bb_link_outliers l = {RANKS, value, node_of, is_symmetric, !is_latency, 0.8, 0, NULL};

        for (int a = 0; a < RANKS; a++) {
            node_of[a] = a / 2;
            for (int b = 0; b < RANKS; b++) {
                double part = a / 2 != b / 2 && (a / 2 == 1 || b / 2 == 1) ? 0.7 : 1;

                if (a / 2 != b / 2 && (a / 2 == 3 || b / 2 == 3))
                    part = fmin(part, rows[row].node3);
                if ((a / 2 == 1 && b / 2 == 2) || (a / 2 == 2 && b / 2 == 1))
                    part = rows[row].path;
                value[a * RANKS + b] = a == b ? NAN : is_latency ? 5 / part : 47 * part;
            }
        }
        bb_link_outliers_causes(&l, keep_cause, &seen);
        assert_int_equal(seen.n, rows[row].causes);
        for (int k = 0; k < seen.n; k++) {
            const struct bb_slow_link *cause = &seen.link[k];
            const bool is_node =
                cause->level == BB_LINK_NODE && (cause->from == 1 || (cause->from == 3 && rows[row].node3 < 1));

            assert_true(is_node ||
                        (rows[row].path < 0.7 && cause->level == BB_LINK_PATH && cause->from == 1 && cause->to == 2));
        }
    }
}

/* One host: NVLink connects ranks 0-1, 2-3, .. and PCIe the others. Only ranks with slow PCIe links are slow. */
static void a_faster_minority_is_no_reference(void **state)
{
    static const unsigned masks[] = {0x00, 0x20, 0x0c, 0x24};

    (void)state;
    for (size_t i = 0; i < ROWS(masks) * MODELS; i++) {
        const unsigned slow = masks[i / MODELS];
        double value[RANKS * RANKS];
        int node_of[RANKS], links, all, ranks = 0;
        struct seen seen = {.n = 0};
        struct bb_link_outliers l = {RANKS, value, node_of, false, true, 0.8, 0, NULL};
        struct bb_link_modes modes;
        unsigned seed = (unsigned)i;

        plant(value, node_of, 1, slow, 0.02, &seed);
        for (int r = 0; r < RANKS; r++) {
            value[r * RANKS + (r ^ 1)] *= 5;
            node_of[r] = 0;
            ranks += slow >> r & 1;
        }
        bb_link_outliers_modes(&l, true, &modes);
        assert_true(!modes.ordinary || ranks == 2);
        count_links(&l, &links, &all);
        assert_int_equal(all, RANKS * (RANKS - 1));
        bb_link_outliers_causes(&l, keep_cause, &seen);
        assert_int_equal(seen.n, ranks);
        for (int k = 0; k < seen.n; k++)
            assert_true(seen.link[k].level == BB_LINK_RANK && slow >> seen.link[k].from & 1);
        assert_int_equal(links, ranks == 0 ? 0 : ranks == 1 ? 12 : slow == 0x0c ? 24 : 22);
    }
}

/* All links are equally slow: only the absolute limit detects that, and no rank or node is the cause. */
static void an_absolute_limit_finds_equally_slow_links(void **state)
{
    double value[RANKS * RANKS];
    int node_of[RANKS], slow, all;
    struct seen seen = {.n = 0};
    struct bb_link_outliers l = {RANKS, value, node_of, false, true, 0.8, 45, NULL};
    unsigned seed = 1;

    (void)state;
    plant(value, node_of, 1, 0, 0.01, &seed);
    count_links(&l, &slow, &all);
    assert_int_equal(slow, 0);
    plant(value, node_of, 1, 0xff, 0.01, &seed);
    count_links(&l, &slow, &all);
    assert_int_equal(slow, all);
    bb_link_outliers_causes(&l, keep_cause, &seen);
    assert_int_equal(seen.n, 1);
    assert_int_equal(seen.link[0].level, BB_LINK_CLASS);
}

static void sorts_links_from_the_worst(void **state)
{
    double value[RANKS * RANKS];
    int node_of[RANKS], n;
    const struct bb_link_outliers l = {RANKS, value, node_of, false, true, 0.8, 0, NULL};
    struct bb_slow_link worst[3];

    (void)state;
    fill_bandwidths(value, node_of);
    n = bb_link_outliers_worst(&l, worst, 3);
    assert_int_equal(n, 0); /* inter-node links equal the median of their class */
    value[4 * RANKS + 5] = 90;
    value[0 * RANKS + 2] = 5;
    value[0 * RANKS + 3] = 19;
    value[7 * RANKS + 6] = 50;
    n = bb_link_outliers_worst(&l, worst, 3);
    assert_int_equal(n, 3);
    assert_link(&worst[0], BB_LINK_PAIR, 0, 2, false, 5, 20);
    assert_link(&worst[1], BB_LINK_PAIR, 7, 6, true, 50, 100);
    assert_link(&worst[2], BB_LINK_PAIR, 4, 5, true, 90, 100);
}

struct confirmed {
    double *value, alone_value;
    int slow_rank; /* if above 0, its links have half of alone_value */
    int alone, others, taken[RANKS];
};

/* Stores the value of a pair that is alone. */
static int confirm(void *arg, int from, int to, bool alone)
{
    struct confirmed *c = arg;
    double *cell = &c->value[from * RANKS + to];

    c->alone += alone;
    c->others += !alone;
    c->taken[from] += alone;
    c->taken[to] += alone;
    *cell = alone ? fmax(*cell,
                         c->alone_value * (c->slow_rank > 0 && (from == c->slow_rank || to == c->slow_rank) ? 0.5 : 1))
                  : NAN;
    return 0;
}

/* Each rank of a fully connected job has 14 slow links. At least two are chosen for each rank; the others are not judged. */
static void measures_the_slowest_links_of_each_rank(void **state)
{
    double value[RANKS * RANKS];
    int node_of[RANKS] = {0}, suspected, alone;
    const struct bb_link_outliers l = {RANKS, value, node_of, false, true, 0.8, 1000, NULL};
    struct confirmed c = {.value = value};

    (void)state;
    for (int i = 0; i < RANKS * RANKS; i++)
        value[i] = 100 - i % 13;
    assert_int_equal(bb_link_outliers_confirm(&l, 2, confirm, &c, &suspected, &alone), 0);
    assert_int_equal(suspected, RANKS * (RANKS - 1));
    assert_int_equal(c.alone, alone + 8); /* 8 links show whether the class is loaded */
    assert_int_equal(alone + c.others, suspected);
    assert_in_range(alone, RANKS, 2 * RANKS);
    for (int r = 0; r < RANKS; r++)
        assert_true(c.taken[r] >= 2);
    c = (struct confirmed){.value = value};
    for (int i = 0; i < RANKS * RANKS; i++)
        value[i] = 100 - i % 13;
    assert_int_equal(bb_link_outliers_confirm(&l, RANKS * RANKS, confirm, &c, &suspected, &alone), 0);
    assert_int_equal(alone, suspected);
}

/* Ranks 0 to 3 and 4 to 7 are on two leaf switches, whose uplink carries 28 GB/s: in a round, a link between them has half
 * or a quarter of it. The class is loaded, so all of these links are measured alone: 5 of the 8 links, at equal distances
 * among 56, that show the load, and then 32 - 5. */
static void links_are_slow_only_if_measured_alone(void **state)
{
    double value[RANKS * RANKS];
    int node_of[RANKS], slow, all, suspected, alone;
    const struct bb_link_outliers l = {RANKS, value, node_of, false, true, 0.8, 0, NULL};
    struct confirmed c = {.value = value, .alone_value = 28};

    (void)state;
    for (int a = 0; a < RANKS; a++) {
        node_of[a] = a;
        for (int b = 0; b < RANKS; b++)
            value[a * RANKS + b] = a == b ? NAN : a / 4 == b / 4 ? 35 : (a + b) % 2 ? 7 : 14;
    }
    assert_int_equal(bb_link_outliers_confirm(&l, RANKS, confirm, &c, &suspected, &alone), 0);
    assert_int_equal(alone, 32 - 5);
    assert_int_equal(suspected, 32 - 5);
    count_links(&l, &slow, &all);
    assert_int_equal(slow, 0);
    assert_int_equal(all, RANKS * (RANKS - 1));
}

/* In a round, all links have the value that those of a rank with half of the rate have alone. */
static void finds_a_slow_rank_that_is_no_slower_than_loaded_links(void **state)
{
    double value[RANKS * RANKS];
    int node_of[RANKS], slow, all, suspected, alone;
    const struct bb_link_outliers l = {RANKS, value, node_of, false, true, 0.8, 0, NULL};
    struct confirmed c = {.value = value, .alone_value = 48, .slow_rank = 5};
    struct seen seen = {.n = 0};

    (void)state;
    for (int i = 0; i < RANKS * RANKS; i++) {
        node_of[i / RANKS] = i / RANKS;
        value[i] = i / RANKS == i % RANKS ? NAN : 24;
    }
    assert_int_equal(bb_link_outliers_confirm(&l, RANKS * RANKS, confirm, &c, &suspected, &alone), 0);
    assert_int_equal(alone, suspected);
    count_links(&l, &slow, &all);
    assert_int_equal(slow, 2 * (RANKS - 1));
    bb_link_outliers_causes(&l, keep_cause, &seen);
    assert_int_equal(seen.n, 1);
    assert_true(seen.link[0].level == BB_LINK_RANK && seen.link[0].from == 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pair_is_scheduled_once),
        cmocka_unit_test(one_rank_has_no_rounds),
        cmocka_unit_test(parses_lists_of_sizes),
        cmocka_unit_test(rejects_too_many_sizes),
        cmocka_unit_test(equal_links_are_not_slow),
        cmocka_unit_test(finds_one_slow_direction),
        cmocka_unit_test(links_of_an_nvlink_domain_are_one_class),
        cmocka_unit_test(finds_a_slow_rank),
        cmocka_unit_test(finds_slow_latency),
        cmocka_unit_test(summarizes_each_link_class),
        cmocka_unit_test(detects_two_modes),
        cmocka_unit_test(modes_require_a_gap_beyond_the_factor),
        cmocka_unit_test(finds_planted_faults),
        cmocka_unit_test(a_faster_minority_is_no_reference),
        cmocka_unit_test(a_slow_leaf_switch_is_explained_by_its_ranks),
        cmocka_unit_test(a_slow_path_of_a_slow_node_is_a_cause),
        cmocka_unit_test(an_absolute_limit_finds_equally_slow_links),
        cmocka_unit_test(sorts_links_from_the_worst),
        cmocka_unit_test(measures_the_slowest_links_of_each_rank),
        cmocka_unit_test(links_are_slow_only_if_measured_alone),
        cmocka_unit_test(finds_a_slow_rank_that_is_no_slower_than_loaded_links),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
