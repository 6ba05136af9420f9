/* test_verdict.c - plants faults and noise in the measurements of health, and reads the verdicts. */
#include "collectives/health/verdict/verdict.h"
#include "tests/check.h"

#include <math.h>

enum { NODES = 64, GPUS = 8 };

/* A machine with planted faults: factors of the healthy values; a node of -1 means none. */
struct machine {
    struct bb_health h;
    double jitter;
    uint64_t state;
    int slow_gpu, slow_node, slow_nic, path_a, path_b, slow_rail; /* slow_gpu: of node 3; slow_nic: its node */
    bool one_way;                                                 /* the path is slow from path_b to path_a */
    double gpu;                                                   /* factor of slow_gpu */
    double nic;                                                   /* factor of slow NICs */
    int slow_gpus;                                                /* GPUs below this number, on all nodes */
    int slow_nics;                                                /* the same of nodes below this number */
    int slow_nodes;                                               /* nodes below this number: GEMM, all_reduce inside */
    double nodes;                                                 /* factor of those */
    double first_gpu;                                             /* of GPU 0 of node 0: GEMM; 0: as the others */
    double everything;                                            /* factor of all values except those of pairs */
    double pairs;                                                 /* factor of those */
    double cuts;                                                  /* of those across halves, in place of `pairs` */
    int leaf, leaf_nodes;                                         /* first node of a leaf switch with uplinks for */
    double uplinks;                                               /* this number of nodes; infinite: enough */
    int leaves;          /* number of nodes under each leaf, which has uplinks for */
    double leaf_uplinks; /* this number of nodes, the leaf above its own; 0: none */
    bool light;          /* uplinks must leave each pair what it gets alone */
    double spine;        /* number of pairs that the network carries at their full rate; infinite: enough */
    int domain;          /* number of consecutive nodes that NVLink connects; -n: every n-th node; 0: none */
    int lost;            /* this node is measured in no test from pairs on; 0: none */
    int measurements[BB_HEALTH_TESTS], expectations;
    int *met; /* [nodes][nodes] number of measurements of the stage pairs in which two nodes were partners; NULL: not
                 counted */
};

static const double healthy[BB_HEALTH_TESTS] = {700, 2900, 52, 52, 330, 330, 460, 48, 48, 47, 46, 350};

/* Returns a random number with mean 0 and standard deviation 1: the sum of twelve uniform ones (Irwin and Hall). */
static double noise(struct machine *m)
{
    double sum = -6;

    for (int i = 0; i < 12; i++) {
        m->state = m->state * 6364136223846793005u + 1442695040888963407u;
        sum += (double)(m->state >> 11) / (double)(1ull << 53);
    }
    return sum;
}

static bool is_in_domain(const struct machine *m, int a, int b)
{
    return m->domain < 0 ? a % -m->domain == b % -m->domain : m->domain > 0 && a / m->domain == b / m->domain;
}

/* Returns the share of its rate that a pair gets from the uplinks of nodes [first, end). */
static double share_of_leaf(const struct machine *m, const int *partner, int a, int first, int end, double uplinks)
{
    int leaving = 0;

    if ((a >= first && a < end) == (partner[a] >= first && partner[a] < end))
        return 1;
    for (int n = first; n < end && n < m->h.nodes; n++)
        leaving += partner[n] >= 0 && (partner[n] < first || partner[n] >= end) && !is_in_domain(m, n, partner[n]);
    return uplinks / leaving;
}

/* Returns the share of its rate that a pair gets from the uplinks of leaf switches and from the network. */
static double share(const struct machine *m, const int *partner, int a)
{
    double all = share_of_leaf(m, partner, a, m->leaf, m->leaf + m->leaf_nodes, m->uplinks);
    int pairs = 0;

    for (int n = 0; n < m->h.nodes; n++)
        pairs += partner[n] > n;
    for (int first = 0; m->leaves > 0 && first < m->h.nodes; first += m->leaves)
        if (first != m->leaf || m->leaf_nodes == 0)
            all = fmin(all, share_of_leaf(m, partner, a, first, first + m->leaves, m->leaf_uplinks));
    return fmin(fmin(1, all), m->spine / pairs);
}

#define NVLINK 13.0 /* rate of a pair in a domain / of one that NICs connect */

static double pair_factor(const struct machine *m, enum bb_health_test test, const int *partner, int a, int g)
{
    const int b = partner[a];
    const bool inside = is_in_domain(m, a, b);
    const double pairs = test == BB_HEALTH_BISECTION && m->cuts > 0 ? m->cuts : m->pairs;
    const double alone = pairs * (g == m->slow_rail ? 0.8 : 1);
    double factor = alone * share(m, partner, a);

    if (g == 1 && (a == m->slow_nic || b == m->slow_nic || a < m->slow_nics || b < m->slow_nics))
        factor = fmin(factor, pairs * m->nic);
    if (inside)
        factor = NVLINK;
    if (((a == m->path_a && b == m->path_b) || (b == m->path_a && a == m->path_b)) &&
        !(m->one_way && m->h.sender == m->path_a))
        factor = fmin(factor, 0.6 * (inside ? NVLINK : alone)); /* a loaded uplink hides a slow path */
    return factor;
}

/* Every GPU has its own noise in tests of GPUs; both ends of a pair, and all GPUs of a node, share theirs. */
static int measure(void *arg, enum bb_health_test test, const int *partner, double *values)
{
    struct machine *m = arg;
    double whole = 1 + m->jitter * noise(m), rails[GPUS];

    m->measurements[test]++;
    assert_true(m->lost == 0 || (partner[m->lost] < 0) == (test >= BB_HEALTH_PAIRS));
    for (int n = 0; n < m->h.nodes && m->met && test == BB_HEALTH_PAIRS; n++)
        if (partner[n] >= 0) {
            assert_true(partner[n] != n && partner[partner[n]] == n); /* one partner of each */
            m->met[n * m->h.nodes + partner[n]]++;
        }
    for (int n = 0; n < m->h.nodes && m->light && test == BB_HEALTH_PAIRS; n++)
        assert_true(partner[n] < 0 || share(m, partner, n) >= fmin(1, m->leaf_uplinks) - 1e-9);
    for (int g = 0; g < m->h.gpus; g++)
        rails[g] = (1 + m->jitter * noise(m)) * (g == m->slow_rail ? 0.8 : 1);
    for (int n = 0; n < m->h.nodes; n++) {
        const double node = 1 + m->jitter * noise(m);

        for (int g = 0; g < m->h.gpus; g++) {
            double *value = &values[n * m->h.gpus + g], own = 1 + m->jitter * noise(m);

            *value = NAN;
            if (partner[n] < 0)
                continue;
            if (test == BB_HEALTH_GEMM && g < m->slow_gpus)
                own *= 0.77;
            if (test == BB_HEALTH_GEMM && n == 0 && g == 0 && m->first_gpu > 0)
                own *= m->first_gpu;
            if (test == BB_HEALTH_GEMM && n == 3 && g == m->slow_gpu)
                own *= m->gpu;
            if (test == BB_HEALTH_GEMM && n < m->slow_nodes)
                own *= m->nodes;
            if (test == BB_HEALTH_NODE || test == BB_HEALTH_WHOLE)
                own = test == BB_HEALTH_WHOLE ? whole
                                              : node * (n == m->slow_node   ? 0.7
                                                        : n < m->slow_nodes ? m->nodes
                                                                            : 1);
            if (test == BB_HEALTH_RAILS || test == BB_HEALTH_RAILS_ALONE)
                own = rails[g];
            if (test == BB_HEALTH_PAIRS || test == BB_HEALTH_BISECTION)
                own = partner[n] < n ? values[partner[n] * m->h.gpus + g] / healthy[test]
                                     : own * pair_factor(m, test, partner, n, g);
            else
                own *= m->everything;
            *value = healthy[test] * own;
        }
    }
    return 0;
}

static struct machine machine_of(int nodes, double jitter, uint64_t seed)
{
    struct machine m = {.h = {.nodes = nodes, .gpus = GPUS, .measure = measure},
                        .jitter = jitter,
                        .state = seed * 0x9e3779b97f4a7c15u + 1,
                        .slow_gpu = -1,
                        .slow_node = -1,
                        .slow_nic = -1,
                        .path_a = -1,
                        .path_b = -1,
                        .slow_rail = -1,
                        .gpu = 0.9,
                        .nic = 0.5,
                        .everything = 1,
                        .pairs = 1,
                        .uplinks = INFINITY,
                        .spine = INFINITY};

    for (int test = 0; test < BB_HEALTH_TESTS; test++)
        m.h.expected[test] = test <= BB_HEALTH_SLOWEST_PEER ? NAN : healthy[test];
    return m;
}

static void run(struct machine *m)
{
    m->h.arg = m;
    assert_int_equal(bb_health_run(&m->h), 0);
}

/* Returns the finding on a part; NULL: there is none. */
static const struct bb_health_finding *find(const struct machine *m, enum bb_health_part part, int node, int gpu)
{
    for (size_t i = 0; i < m->h.n; i++)
        if (m->h.findings[i].part == part && m->h.findings[i].node == node && m->h.findings[i].gpu == gpu)
            return &m->h.findings[i];
    return NULL;
}

static bool has_path(const struct machine *m, int a, int b)
{
    for (size_t i = 0; i < m->h.n; i++)
        if (m->h.findings[i].part == BB_HEALTH_A_PATH && m->h.findings[i].node == a && m->h.findings[i].other == b)
            return true;
    return false;
}

static void test_healthy_nodes_have_no_finding(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < (FEW_INPUTS ? 4 : 20); seed++) {
        struct machine m = machine_of(seed % 2 ? 256 : NODES, seed % 2 ? 0.005 : 0.01, seed);

        run(&m);
        assert_int_equal(m.h.n, 0);
        bb_health_release(&m.h);
    }
}

/* All parts are at 93.5 or 94 % of the expectation, which is as expected, so what is below 93 % is noise. The typical
 * value of few parts may be, and one of 3,000 values is an outlier. */
static void test_noise_around_the_limit_names_no_part(void **state)
{
    static const int nodes[] = {4, 8, 16, 64};
    enum { RUNS = (FEW_INPUTS ? 3 : 10) * 2 * ROWS(nodes) };
    int named = 0;

    (void)state;
    for (uint64_t seed = 0; seed < RUNS; seed++) {
        struct machine m = machine_of(nodes[seed % ROWS(nodes)], 0.008, seed);

        m.pairs = m.everything = seed / ROWS(nodes) % 2 ? 0.935 : 0.94;
        for (int test = 0; test < BB_HEALTH_TESTS; test++)
            m.h.expected[test] = healthy[test];
        run(&m);
        for (size_t i = 0; i < m.h.n; i++) {
            named += m.h.findings[i].part != BB_HEALTH_ALL;
            assert_true(m.h.findings[i].level == BB_HEALTH_WARN);
        }
        bb_health_release(&m.h);
    }
    assert_true(named <= RUNS / 20);
}

/* The peers are just above the limit, and noisy; a part 6 % below them is slow. */
static void test_slow_nic_below_noise_around_the_limit_is_named(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 10; seed++) {
        struct machine m = machine_of(16, 0.008, seed);

        m.pairs = 0.945;
        m.slow_nic = 3;
        m.nic = 0.94;
        m.h.every_pair = true;
        run(&m);
        assert_true(find(&m, BB_HEALTH_A_NIC, 3, 1) != NULL);
        bb_health_release(&m.h);
    }
}

static void test_planted_faults_are_named_in_noise(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < (FEW_INPUTS ? 4 : 20); seed++) {
        struct machine m = machine_of(NODES, 0.01, seed);
        const struct bb_health_finding *f;

        m.slow_gpu = 5;
        m.slow_node = 7;
        m.slow_nic = 20;
        m.slow_rail = 6;
        m.path_a = 1;
        m.path_b = seed % 2 ? 2 : 16; /* of seven rounds, the last, or the second */
        run(&m);
        f = find(&m, BB_HEALTH_A_GPU, 3, 5);
        assert_true(f && f->level == BB_HEALTH_FAIL && f->test == BB_HEALTH_GEMM);
        f = find(&m, BB_HEALTH_A_NODE, 7, -1);
        assert_true(f && f->level == BB_HEALTH_FAIL && f->test == BB_HEALTH_NODE);
        f = find(&m, BB_HEALTH_A_NIC, 20, 1);
        assert_true(f && f->level == BB_HEALTH_FAIL && f->test == BB_HEALTH_PAIRS);
        assert_true(has_path(&m, 1, m.path_b));
        f = find(&m, BB_HEALTH_A_RAIL, -1, 6);
        assert_true(f && f->level >= BB_HEALTH_WARN);
        for (size_t i = 0; i < m.h.n; i++) {
            f = &m.h.findings[i];
            assert_true(f->node < 0 || f->node == 3 || f->node == 7 || f->node == 20 || f->node == 1);
            assert_true(f->part != BB_HEALTH_A_PATH || (f->node == 1 && f->other == m.path_b));
            assert_true(f->gpu < 0 || f->part != BB_HEALTH_A_RAIL || f->gpu == 6);
        }
        assert_int_equal(bb_health_node_level(&m.h, 3), BB_HEALTH_FAIL);
        assert_int_equal(bb_health_node_level(&m.h, 7), BB_HEALTH_FAIL);
        assert_int_equal(bb_health_node_level(&m.h, 20), BB_HEALTH_FAIL);
        assert_int_equal(bb_health_node_level(&m.h, 1), BB_HEALTH_OK);
        bb_health_release(&m.h);
    }
}

static void test_slow_path_is_not_a_slow_node(void **state)
{
    (void)state;
    for (int one_way = 0; one_way < 2; one_way++) {
        struct machine m = machine_of(8, 0.01, 1);
        const struct bb_health_finding *f;

        m.path_a = 2;
        m.path_b = 5;
        m.one_way = one_way;
        m.h.rounds = 7; /* every pair */
        run(&m);
        f = m.h.findings;
        assert_int_equal(m.h.n, 1);
        assert_int_equal(f->part, BB_HEALTH_A_PATH);
        assert_true(f->one_way == m.one_way && f->node == (one_way ? 5 : 2) && f->other == (one_way ? 2 : 5) &&
                    f->gpu == -1);
        assert_int_equal(m.measurements[BB_HEALTH_PAIRS], 7 + 2 + 2);
        bb_health_release(&m.h);
    }
}

/* The slow path of the other two nodes leaves their NICs with the index of the slow one no fast partner. */
static void test_slow_nic_and_slow_path_are_no_rail(void **state)
{
    static const double factors[] = {0.5, 0.6, 0.7};

    (void)state;
    for (size_t i = 0; i < ROWS(factors); i++) {
        struct machine m = machine_of(3, 0.003, i);
        const struct bb_health_finding *f;

        m.slow_nic = 2;
        m.nic = factors[i];
        m.path_a = 0;
        m.path_b = 1;
        run(&m);
        f = find(&m, BB_HEALTH_A_NIC, 2, 1);
        assert_true(f && f->level == BB_HEALTH_FAIL && !f->untested);
        assert_true(fabs(f->value / healthy[BB_HEALTH_PAIRS] - factors[i]) < 0.02);
        assert_true(has_path(&m, 0, 1));
        for (size_t k = 0; k < m.h.n; k++)
            assert_true(m.h.findings[k].part == BB_HEALTH_A_PATH || m.h.findings[k].node == 2 ||
                        m.h.findings[k].test > BB_HEALTH_PAIRS);
        bb_health_release(&m.h);
    }
}

/* A rail that is slower than a slow path stays a rail. */
static void test_slow_rail_with_slow_path_is_a_rail(void **state)
{
    struct machine m = machine_of(3, 0.003, 1);

    (void)state;
    m.slow_nics = 3;
    m.path_a = 0;
    m.path_b = 1;
    run(&m);
    assert_non_null(find(&m, BB_HEALTH_A_RAIL, -1, 1));
    assert_true(has_path(&m, 0, 1));
    bb_health_release(&m.h);
}

static void test_two_nodes_cannot_be_told_apart(void **state)
{
    struct machine m = machine_of(2, 0, 1);

    (void)state;
    m.slow_nic = 1;
    run(&m);
    assert_true(m.h.n >= 1);
    assert_true(m.h.findings[0].part == BB_HEALTH_A_PATH && m.h.findings[0].gpu == 1);
    assert_int_equal(bb_health_node_level(&m.h, 0), BB_HEALTH_OK);
    bb_health_release(&m.h);
}

static void test_slightly_slow_nic_of_few_nodes_is_no_path(void **state)
{
    static const int rows[][2] = {{4, 2}, {3, 2}, {6, 2}, {8, 2}};

    (void)state;
    for (size_t i = 0; i < ROWS(rows) * 5; i++) {
        struct machine m = machine_of(rows[i % ROWS(rows)][0], 0, 1);

        m.h.gpus = rows[i % ROWS(rows)][1];
        m.slow_nic = 1;
        m.nic = 0.96 - 0.01 * (double)(i / ROWS(rows));
        run(&m);
        assert_true(m.h.n == 1 && find(&m, BB_HEALTH_A_NIC, 1, 1) && m.h.findings[0].level == BB_HEALTH_FAIL);
        bb_health_release(&m.h);
    }
}

static void test_most_nics_of_a_rail_are_not_the_rail(void **state)
{
    struct machine m = machine_of(8, 0.01, 1);

    (void)state;
    m.slow_nics = 5;
    run(&m);
    for (int node = 0; node < 8; node++)
        assert_int_equal(bb_health_node_level(&m.h, node), node < 5 ? BB_HEALTH_FAIL : BB_HEALTH_OK);
    assert_int_equal(m.h.n, 5);
    bb_health_release(&m.h);
}

/* Three or two of the four GPUs of each node. The mean of a slow and a fast half was measured nowhere. */
static void test_slow_half_or_majority_of_gpus_is_named(void **state)
{
    (void)state;
    for (int i = 0; i < 12; i++) {
        const int nodes = 1 + 3 * (i / 4), slow = 2 + i / 2 % 2;
        struct machine m = machine_of(nodes, 0.005, 1);

        m.h.gpus = 4;
        m.slow_gpus = slow;
        m.h.expected[BB_HEALTH_GEMM] = i % 2 ? healthy[BB_HEALTH_GEMM] : NAN;
        run(&m);
        assert_int_equal(m.h.n, slow * nodes);
        for (int g = 0; g < 4; g++)
            assert_true((find(&m, BB_HEALTH_A_GPU, 0, g) != NULL) == (g < slow));
        assert_true(fabs(m.h.median[BB_HEALTH_GEMM] / healthy[BB_HEALTH_GEMM] - 1) < 0.01);
        assert_true(m.h.of_faster[BB_HEALTH_GEMM] && m.h.findings[0].of_faster);
        bb_health_release(&m.h);
    }
}

/* One of the four slow GPUs of eight is slower still: the widest gap is not the one between the halves. */
static void test_half_of_gpus_slow_by_different_amounts_is_named(void **state)
{
    (void)state;
    for (int known = 0; known <= 1; known++) {
        struct machine m = machine_of(4, 0, 1);

        m.h.gpus = 2;
        m.slow_nodes = 2;
        m.nodes = 0.77;
        m.first_gpu = 0.4;
        m.h.expected[BB_HEALTH_GEMM] = known ? healthy[BB_HEALTH_GEMM] : NAN;
        for (int test = 0; test < BB_HEALTH_TESTS; test++)
            m.h.skip[test] = test != BB_HEALTH_GEMM;
        run(&m);
        for (int node = 0; node < 4; node++)
            assert_int_equal(bb_health_node_level(&m.h, node), node < 2 ? BB_HEALTH_FAIL : BB_HEALTH_OK);
        assert_true(!find(&m, BB_HEALTH_ALL, -1, -1) && m.h.median[BB_HEALTH_GEMM] == healthy[BB_HEALTH_GEMM]);
        bb_health_release(&m.h);
    }
}

static void test_one_fast_gpu_is_no_slow_majority(void **state)
{
    (void)state;
    for (int known = 0; known <= 1; known++) {
        struct machine m = machine_of(4, 0.005, 1);

        m.slow_gpu = 5;
        m.gpu = 1.11;
        m.h.expected[BB_HEALTH_GEMM] = known ? healthy[BB_HEALTH_GEMM] : NAN;
        run(&m);
        assert_int_equal(m.h.n, 0);
        bb_health_release(&m.h);
    }
}

static void test_slow_rail_is_found_once(void **state)
{
    struct machine m = machine_of(16, 0.005, 1);

    (void)state;
    m.slow_rail = 6;
    m.h.expected[BB_HEALTH_RAILS] *= 0.95;
    run(&m);
    assert_true(m.h.n == 1 && m.h.findings[0].test == BB_HEALTH_PAIRS && find(&m, BB_HEALTH_A_RAIL, -1, 6));
    bb_health_release(&m.h);
}

static void test_common_cause_is_one_finding(void **state)
{
    struct machine m = machine_of(16, 0.01, 1);

    (void)state;
    m.everything = 0.7;
    run(&m);
    for (size_t i = 0; i < m.h.n; i++)
        assert_true(m.h.findings[i].node < 0);
    assert_true(find(&m, BB_HEALTH_ALL, -1, -1)->level == BB_HEALTH_FAIL);
    assert_int_equal(bb_health_node_level(&m.h, 0), BB_HEALTH_UNKNOWN); /* as slow as the others */
    bb_health_release(&m.h);
}

/* Faults of pairs, of the bisection and of rails and the job: a later one that is slower than an earlier one is another
 * fault, also of the same level. */
static void test_independent_slower_fault_is_a_finding(void **state)
{
    static const struct {
        double pairs, cuts, rails;
        int findings;
    } rows[] = {{0.5, 0.5, 0.5, 1},  {0.5, 0.55, 0.75, 1}, {0.79, 0.79, 0.5, 2}, {0.79, 0.4, 0.79, 2},
                {0.9, 0.9, 0.82, 2}, {0.79, 0.6, 0.3, 3},  {0.9, 0.9, 0.89, 1},  {1, 0.7, 0.5, 2}};

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct machine m = machine_of(8, 0.003, i);

        for (int test = 0; test < BB_HEALTH_PAIRS; test++)
            m.h.skip[test] = true;
        m.pairs = rows[i].pairs;
        m.cuts = rows[i].cuts;
        m.everything = rows[i].rails;
        run(&m);
        assert_int_equal(m.h.n, rows[i].findings);
        bb_health_release(&m.h);
    }
}

/* A slow path between two nodes, and a rail that is slower while its GPUs reduce over all nodes. */
static void test_slow_path_does_not_hide_a_slower_rail(void **state)
{
    (void)state;
    for (int slower = 0; slower < 2; slower++) {
        struct machine m = machine_of(8, 0.003, 1);
        const struct bb_health_finding *f;

        m.path_a = 2;
        m.path_b = 5;
        m.everything = slower ? 0.4 : 0.65;
        for (int test = 0; test < BB_HEALTH_TESTS; test++)
            m.h.skip[test] = test != BB_HEALTH_PAIRS && test != BB_HEALTH_RAILS;
        m.h.rounds = 7; /* every pair */
        run(&m);
        f = find(&m, BB_HEALTH_ALL, -1, -1);
        assert_true(has_path(&m, 2, 5) && (f != NULL) == slower && m.h.n == 1 + (size_t)slower);
        bb_health_release(&m.h);
    }
}

/* Two NVLink domains, of consecutive or of every second node: NICs connect the nodes of different ones only. */
static void test_pairs_in_an_nvlink_domain_have_their_own_expectation(void **state)
{
    static const int rows[][2] = {{12, 6}, {36, 18}, {36, -2}, {11, 6}, {4, 2}, {8, 4}};

    (void)state;
    for (size_t i = 0; i < 5 * ROWS(rows); i++) {
        const int nodes = rows[i / 5][0], domain = rows[i / 5][1], other = domain == -2 ? 2 : 1;
        struct machine m = machine_of(nodes, 0.003, i);
        int domain_of[36];

        for (int n = 0; n < nodes; n++)
            domain_of[n] = n % 2;
        m.domain = domain;
        m.h.domain_of = domain == -2 ? domain_of : NULL;
        m.h.domain_nodes = domain;
        m.h.inside = NVLINK * healthy[BB_HEALTH_PAIRS];
        m.h.every_pair = true;
        m.slow_nic = i % 5 == 1 ? 3 : -1;
        m.path_a = i % 5 == 2 || i % 5 == 4 ? 0 : -1;
        m.path_b = other;
        m.slow_rail = i % 5 == 3 ? 6 : -1;
        m.pairs = i % 5 == 4 ? 0.9 : 1; /* of all NICs: no cause of a slow path of NVLink */
        run(&m);
        if (i % 5 == 0)
            assert_true(m.h.n == 0 && fabs(m.h.median[BB_HEALTH_PAIRS] / 48 - 1) < 0.02 &&
                        fabs(m.h.inside_median / (48 * NVLINK) - 1) < 0.02 &&
                        fabs(m.h.median[BB_HEALTH_BISECTION] / 48 - 1) < 0.02);
        else if (i % 5 == 1)
            assert_true(m.h.n == 1 && find(&m, BB_HEALTH_A_NIC, 3, 1) && fabs(m.h.findings->value / 24 - 1) < 0.05);
        else if (i % 5 == 2)
            assert_true(nodes > 16 || (m.h.n == 1 && has_path(&m, 0, other) && m.h.findings->expected > 600 &&
                                       fabs(m.h.findings->value / (0.6 * 48 * NVLINK) - 1) < 0.05));
        else if (i % 5 == 3)
            assert_true(m.h.n >= 1 && find(&m, BB_HEALTH_A_RAIL, -1, 6));
        else
            assert_true(nodes > 16 || (has_path(&m, 0, other) && m.h.findings->level == BB_HEALTH_FAIL &&
                                       find(&m, BB_HEALTH_ALL, -1, -1)->level == BB_HEALTH_WARN));
        if (i % 5 == 2) /* of the pairs that NICs connect, as the median */
            assert_true(m.h.lowest[BB_HEALTH_PAIRS] > 0.95 * 48);
        bb_health_release(&m.h);
    }
}

/* Every third node is in one domain, so that pairs leave their leaf by NICs and by NVLink in the same round. */
static void test_pairs_in_an_nvlink_domain_use_no_uplinks(void **state)
{
    (void)state;
    for (int i = 0; i < 3 * 2; i++) {
        struct machine m = machine_of(16, 0.003, 1);
        int domain_of[16];

        for (int n = 0; n < 16; n++)
            domain_of[n] = n % 3;
        m.domain = -3;
        m.h.domain_of = domain_of;
        m.h.inside = NVLINK * healthy[BB_HEALTH_PAIRS];
        m.leaves = m.leaf_nodes = 4;
        m.leaf_uplinks = m.uplinks = 4.0 / (1 << i / 2);
        m.h.tiers[0] = (struct bb_health_tier){4, 1 << i / 2};
        m.slow_nic = i % 2 ? 5 : -1;
        m.nic = 0.6;
        m.h.every_pair = true;
        run(&m);
        assert_true(m.h.n == (m.slow_nic >= 0) && (!m.h.n || find(&m, BB_HEALTH_A_NIC, m.slow_nic, 1)));
        assert_true(fabs(m.h.median[BB_HEALTH_PAIRS] / (m.h.share[BB_HEALTH_PAIRS] * healthy[BB_HEALTH_PAIRS]) - 1) <
                    0.02);
        bb_health_release(&m.h);
    }
}

/* Without an expectation of them, only the pairs that NICs connect are judged; one domain has no NICs to judge. */
static void test_pairs_in_an_nvlink_domain_without_expectation(void **state)
{
    (void)state;
    for (int one = 0; one < 2; one++) {
        struct machine m = machine_of(8, 0.003, 1);

        m.domain = m.h.domain_nodes = one ? 8 : 4;
        m.h.every_pair = true;
        m.h.inside = NAN;
        m.h.expected[BB_HEALTH_PAIRS] = m.h.expected[BB_HEALTH_BISECTION] = NAN;
        run(&m);
        assert_int_equal(m.h.n, 0);
        assert_true(fabs(m.h.median[BB_HEALTH_PAIRS] / (one ? 48 * NVLINK : 48) - 1) < 0.02);
        bb_health_release(&m.h);
    }
}

/* With an expectation of the pairs in a domain only, as a baseline of one rack has it, these are judged by it. */
static void test_pairs_in_an_nvlink_domain_without_expectation_of_nics(void **state)
{
    (void)state;
    for (int slow = 0; slow < 3; slow++) {
        struct machine m = machine_of(8, 0.003, 1);

        m.domain = m.h.domain_nodes = 4;
        m.h.every_pair = true;
        m.h.inside = NVLINK * healthy[BB_HEALTH_PAIRS];
        m.h.expected[BB_HEALTH_PAIRS] = m.h.expected[BB_HEALTH_BISECTION] = NAN;
        m.path_a = slow == 1 ? 0 : -1;
        m.path_b = 1;
        m.slow_nic = slow == 2 ? 3 : -1;
        run(&m);
        assert_int_equal(m.h.n, slow > 0);
        assert_true(slow != 1 || (has_path(&m, 0, 1) && m.h.findings->value > 300));
        assert_true(slow != 2 || find(&m, BB_HEALTH_A_NIC, 3, 1));
        bb_health_release(&m.h);
    }
}

/* Leaves of several sizes at several places, whose uplinks carry this number of nodes. Nodes 16 to 19, and the last
 * two, are no partners of each other in the first rounds. */
static void test_leaf_that_is_slow_at_once_is_named(void **state)
{
    static const int rows[][4] = {{64, 0, 4, 1},   {64, 16, 4, 1}, {64, 40, 8, 2}, {64, 16, 16, 4}, {24, 12, 4, 1},
                                  {12, 4, 4, 1},   {12, 0, 4, 2},  {13, 0, 4, 1},  {16, 12, 4, 1},  {64, 62, 2, 1},
                                  {64, 16, 16, 8}, {64, 8, 8, 4},  {64, 0, 32, 8}, {24, 8, 8, 4},   {256, 32, 16, 4}};

    (void)state;
    for (uint64_t i = 0; i < 3 * ROWS(rows); i++) {
        const int *row = rows[i / 3];
        struct machine m = machine_of(row[0], 0.01, i);
        const struct bb_health_finding *f;

        m.leaf = row[1];
        m.leaf_nodes = row[2];
        m.uplinks = row[3];
        for (int test = 0; test < BB_HEALTH_PAIRS; test++)
            m.h.skip[test] = true;
        run(&m);
        f = find(&m, BB_HEALTH_A_LEAF, row[1], -1);
        assert_true(f && f->other == row[1] + row[2] - 1 && f->level == BB_HEALTH_FAIL && m.h.n == 1);
        assert_true(fabs(f->value / f->expected - (double)row[3] / row[2]) < 0.05); /* the worst round */
        bb_health_release(&m.h);
    }
}

static void test_oversubscribed_leaves_are_expected(void **state)
{
    struct machine m = machine_of(64, 0.01, 1);

    (void)state;
    m.leaf = 16;
    m.leaf_nodes = 8;
    m.uplinks = 4;
    m.h.tiers[0] = (struct bb_health_tier){8, 2};
    run(&m);
    assert_int_equal(m.h.n, 0);
    m.uplinks = 2;
    run(&m);
    assert_true(m.h.n == 1 && find(&m, BB_HEALTH_A_LEAF, 16, -1));
    bb_health_release(&m.h);
}

/* Leaves of 4 of 8 nodes at 4:1. The first half with the second uses the uplinks of 1 node, quarters do not. A path
 * between quarters at 0.6 is slower for its expectation, but not slower than 0.25. */
static void test_cut_with_the_lowest_value_counts_unless_one_is_slow(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 8; i++) {
        const bool is_slow = i % 2;
        struct machine m = machine_of(8, 0.005, i);

        m.leaves = 4;
        m.leaf_uplinks = 1;
        m.h.tiers[0] = (struct bb_health_tier){4, 4};
        m.path_a = is_slow ? 0 : -1;
        m.path_b = 2;
        m.h.skip[BB_HEALTH_PAIRS] = is_slow;
        run(&m);
        assert_int_equal(m.h.n, is_slow);
        assert_true(is_slow ? m.h.cut == 2 : m.h.cut < 2);
        assert_true(fabs(m.h.median[BB_HEALTH_BISECTION] / (is_slow ? 48 : 12) - 1) < 0.03);
        assert_true(m.h.share[BB_HEALTH_BISECTION] == (is_slow ? 1 : 0.25));
        assert_true(!is_slow || (fabs(m.h.findings->value / (0.6 * 48) - 1) < 0.03 && m.h.findings->expected == 48));
        assert_true(is_slow || (fabs(m.h.lowest[BB_HEALTH_PAIRS] / 48 - 1) < 0.03 &&
                                m.h.shares[BB_HEALTH_PAIRS][0] == 1 && m.h.shares[BB_HEALTH_PAIRS][1] == 1));
        bb_health_release(&m.h);
    }
}

/* Returns a machine with leaves of 2 or 4 nodes, whose uplinks carry all, half or a quarter of them. `known`: in its
 * profile */
static struct machine machine_of_leaves(int i, bool known)
{
    struct machine m = machine_of(8 << i % 2, 0.002, (uint64_t)i);
    const int over = 1 << i / 4 % 3;

    m.leaves = m.leaf_nodes = 2 << i / 2 % 2;
    m.leaf_uplinks = m.uplinks = (double)m.leaves / over;
    if (known)
        m.h.tiers[0] = (struct bb_health_tier){m.leaves, over};
    return m;
}

enum { LEAF_MACHINES = 2 * 2 * 3 };

static void test_slow_leaf_of_oversubscribed_ones_is_named(void **state)
{
    static const double parts[] = {1, 0.5, 0.25};

    (void)state;
    for (int i = 0; i < LEAF_MACHINES * 2 * (int)ROWS(parts) * 8; i += FEW_INPUTS ? 7 : 1) {
        const bool known = i / LEAF_MACHINES % 2;
        const double part = parts[i / LEAF_MACHINES / 2 % (int)ROWS(parts)];
        struct machine m = machine_of_leaves(i, known);
        const struct bb_health_finding *f;

        m.leaf = i / LEAF_MACHINES / 2 / (int)ROWS(parts) * m.leaves;
        m.uplinks *= part;
        if (m.leaf >= m.h.nodes)
            continue;
        run(&m);
        assert_int_equal(bb_health_active(&m.h), m.h.nodes);
        f = find(&m, BB_HEALTH_A_LEAF, 2 * m.leaves < m.h.nodes ? m.leaf : 0, -1);
        if (known)
            assert_true(m.h.n == (part < 1) && (!m.h.n || (f && f->other - f->node + 1 == m.leaves)));
        bb_health_release(&m.h);
    }
}

/* With leaves of three nodes at 3:1, 8 of the 18 pairs of a leaf are limited by three pairs of another leaf. */
static void test_slightly_slow_leaf_of_oversubscribed_ones_is_named(void **state)
{
    static const double parts[] = {0.5, 0.6, 0.7, 0.78, 0.85, 0.9, 1};

    (void)state;
    for (size_t i = 0; i < 3 * ROWS(parts); i++) {
        const double part = parts[i / 3];
        struct machine m = machine_of(9, 0.002, i);
        const struct bb_health_finding *f;

        m.h.every_pair = true;
        m.leaves = m.leaf_nodes = 3;
        m.leaf = (int)(3 * (i % 3));
        m.leaf_uplinks = 1;
        m.uplinks = part;
        m.h.tiers[0] = (struct bb_health_tier){3, 3};
        run(&m);
        f = find(&m, BB_HEALTH_A_LEAF, m.leaf, -1);
        assert_int_equal(m.h.n, part < 1);
        if (part < 1)
            assert_true(f && f->other == m.leaf + 2 && f->level == (part < 0.8 ? BB_HEALTH_FAIL : BB_HEALTH_WARN));
        bb_health_release(&m.h);
    }
}

/* Leaves of 4 of 12 or 16 nodes. One has half of the uplinks, at 4:1, or all are at 4:1, but at 2:1 in the profile. A
 * pair is expected to reach the uplinks of a leaf / the number of pairs that use them, and reaches half of that. */
static void test_value_of_slow_uplinks_is_that_of_their_pairs(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 2; i++) {
        struct machine m = machine_of(i == 0 ? 12 : 16, 0, i);
        const struct bb_health_finding *f;
        double pairs;

        m.leaves = 4;
        m.leaf_uplinks = 1;
        m.leaf_nodes = i == 0 ? 4 : 0;
        m.uplinks = i == 0 ? 0.5 : INFINITY;
        m.h.tiers[0] = (struct bb_health_tier){4, i == 0 ? 4 : 2};
        m.h.skip[BB_HEALTH_BISECTION] = true;
        run(&m);
        f = m.h.findings;
        assert_true(m.h.n == 1 && f->part == (i == 0 ? BB_HEALTH_A_LEAF : BB_HEALTH_FABRIC));
        pairs = (i == 0 ? 1 : 2) * 48 / f->expected;
        assert_true(fabs(pairs - round(pairs)) < 1e-6 && fabs(f->value / f->expected - 0.5) < 1e-6);
        bb_health_release(&m.h);
    }
}

/* All leaves are equal, and the profile has none: the common cause is one finding. */
static void test_unknown_oversubscribed_leaves_are_the_fabric(void **state)
{
    static const int rows[][3] = {{9, 3, 3}, {12, 3, 3}, {7, 2, 2}, {16, 4, 2}, {64, 8, 2}}; /* nodes, leaf, ratio */

    (void)state;
    for (size_t i = 0; i < 3 * ROWS(rows); i++) {
        const int *row = rows[i / 3];
        struct machine m = machine_of(row[0], 0.002, i);

        m.h.every_pair = true;
        m.leaves = row[1];
        m.leaf_uplinks = (double)row[1] / row[2];
        m.h.skip[BB_HEALTH_BISECTION] = true;
        run(&m);
        assert_int_equal(m.h.n, 1);
        assert_non_null(find(&m, BB_HEALTH_FABRIC, -1, -1));
        bb_health_release(&m.h);
    }
}

/* At 4:1, a leaf of two nodes hides a NIC at 0.6 from other leaves. */
static void test_slow_nic_behind_an_oversubscribed_leaf_is_named(void **state)
{
    (void)state;
    for (int i = 0; i < LEAF_MACHINES; i++) {
        struct machine m = machine_of_leaves(i, true);

        m.slow_nic = 5;
        m.nic = 0.6;
        run(&m);
        assert_true(m.h.n == 1 && (m.leaf_uplinks < 1 ? has_path(&m, 4, 5) : find(&m, BB_HEALTH_A_NIC, 5, 1) != NULL));
        bb_health_release(&m.h);
    }
}

/* Every path between leaves is measured, with as many pairs at once as the uplinks carry at their full rate, or, of two nodes at 4:1,
 * at half of it: then nothing can use more than 0.5 of the path. */
static void test_slow_path_between_oversubscribed_leaves_is_named(void **state)
{
    (void)state;
    for (int i = 0; i < LEAF_MACHINES * 4; i++) {
        struct machine m = machine_of_leaves(i, true);
        int met[16 * 16] = {0}, rounds;

        m.leaf_nodes = 0;
        m.light = m.h.every_pair = true;
        m.met = met;
        m.path_a = i % m.leaves;
        m.path_b = m.leaves + i * 5 % (m.h.nodes - m.leaves);
        rounds = bb_health_rounds(&m.h, BB_HEALTH_PAIRS);
        assert_true(rounds >= m.h.nodes - 1 && (m.leaf_uplinks < m.leaves || rounds == m.h.nodes - 1));
        run(&m);
        assert_true(m.leaf_uplinks < 1 ? m.h.n == 0 : m.h.n == 1 && has_path(&m, m.path_a, m.path_b));
        for (int k = 0; k < m.h.nodes * m.h.nodes; k++)
            assert_true((met[k] > 0) == (k / m.h.nodes != k % m.h.nodes));
        assert_true(m.leaf_uplinks >= 1 || m.measurements[BB_HEALTH_PAIRS] == rounds);
        bb_health_release(&m.h);
    }
}

/* Node 4 has no other node under its leaf. */
static void test_slow_nic_of_the_only_node_of_an_oversubscribed_leaf_is_named(void **state)
{
    struct machine m = machine_of(5, 0.002, 1);

    (void)state;
    m.leaves = 2;
    m.leaf_uplinks = 1;
    m.h.tiers[0] = (struct bb_health_tier){2, 2};
    m.light = m.h.every_pair = true;
    m.slow_nic = 4;
    m.nic = 0.6;
    run(&m);
    assert_true(m.h.n == 1 && find(&m, BB_HEALTH_A_NIC, 4, 1));
    bb_health_release(&m.h);
}

static void test_fabric_that_is_slow_at_once_is_named(void **state)
{
    static const double rows[][2] = {
        {0.5, BB_HEALTH_FAIL}, {0.75, BB_HEALTH_FAIL}, {0.9, BB_HEALTH_WARN}, {1, BB_HEALTH_OK}};

    (void)state;
    for (uint64_t i = 0; i < ROWS(rows) * 5; i++) {
        struct machine m = machine_of(NODES, 0.005, i);
        const struct bb_health_finding *f;

        m.spine = NODES / 2 * rows[i / 5][0];
        run(&m);
        f = find(&m, BB_HEALTH_FABRIC, -1, -1);
        assert_true(m.h.n == (rows[i / 5][1] != BB_HEALTH_OK) && (!f || f->level == rows[i / 5][1]));
        assert_true(!f || fabs(f->value / f->expected - rows[i / 5][0]) < 0.02);
        bb_health_release(&m.h);
    }
}

static void test_bisection_is_judged_without_pairs(void **state)
{
    static const int nodes[] = {2, 3, 6, 7, 64};

    (void)state;
    for (size_t i = 0; i < ROWS(nodes); i++)
        for (int part = 1; part < 3; part++) {
            struct machine m = machine_of(nodes[i], 0.005, i);

            m.h.skip[BB_HEALTH_PAIRS] = true;
            m.spine = nodes[i] / 2 * (part == 1 ? 0.6 : 1);
            run(&m);
            assert_int_equal(m.h.n, part == 1);
            assert_true(part > 1 ||
                        (m.h.findings[0].part == BB_HEALTH_FABRIC && m.h.findings[0].test == BB_HEALTH_BISECTION &&
                         fabs(m.h.findings[0].value / m.h.findings[0].expected - 0.6) < 0.02));
            assert_int_equal(m.measurements[BB_HEALTH_BISECTION], part == 1 ? 6 : 3);
            bb_health_release(&m.h);
        }
}

static void test_all_nics_slow_is_one_finding(void **state)
{
    struct machine m = machine_of(NODES, 0.01, 1);

    (void)state;
    m.pairs = 0.5;
    run(&m);
    assert_true(m.h.n == 1 && find(&m, BB_HEALTH_ALL, -1, -1)->test == BB_HEALTH_PAIRS);
    assert_int_equal(bb_health_node_level(&m.h, 0), BB_HEALTH_UNKNOWN); /* as slow as the others */
    bb_health_release(&m.h);
}

/* Of each node, also of an odd number, of which each cut leaves out one. */
static void test_slow_nic_is_found_by_bisection_alone(void **state)
{
    (void)state;
    for (int i = 0; i < 9 * 9; i++) {
        struct machine m = machine_of(2 + i / 9, 0.005, 1);
        const struct bb_health_finding *f;

        if (i % 9 >= m.h.nodes)
            continue;
        for (int test = 0; test < BB_HEALTH_TESTS; test++)
            m.h.skip[test] = test != BB_HEALTH_BISECTION;
        m.slow_nic = i % 9;
        run(&m);
        f = find(&m, BB_HEALTH_FABRIC, -1, -1);
        assert_true(m.h.n == 1 && f && f->level == BB_HEALTH_FAIL && fabs(f->value / f->expected - m.nic) < 0.02);
        bb_health_release(&m.h);
    }
}

static void test_texts_of_findings_have_no_control_characters(void **state)
{
    struct bb_health h = {0};
    struct bb_health_finding f = {.text = "missing: x\nscontrol update \033[31m"};

    (void)state;
    bb_health_add(&h, &f);
    assert_string_equal(h.findings[0].text, "missing: x scontrol update  [31m");
    bb_health_release(&h);
}

/* The rate of the emulated rails falls by 1 with each node. */
static int expect_again(void *arg)
{
    struct machine *m = arg;

    m->expectations++;
    m->h.expected[BB_HEALTH_RAILS] = 100 - bb_health_active(&m->h);
    m->h.expected[BB_HEALTH_NODE] = 1;
    m->h.inside = m->expectations;
    return 0;
}

static void test_expectation_is_of_the_nodes_that_take_part(void **state)
{
    struct machine m = machine_of(16, 0.005, 1);

    (void)state;
    m.h.expect = expect_again;
    m.slow_node = 7;
    m.slow_nic = 12;
    run(&m);
    assert_int_equal(m.expectations, 2);
    assert_true(m.h.expected[BB_HEALTH_RAILS] == 100 - 14 && find(&m, BB_HEALTH_ALL, -1, -1)->test == BB_HEALTH_RAILS);
    /* of finished tests, it is that with which they were judged */
    assert_true(m.h.expected[BB_HEALTH_NODE] == healthy[BB_HEALTH_NODE] && m.h.inside == 1);
    bb_health_release(&m.h);
}

static void test_failed_nodes_stay_in_their_domain(void **state)
{
    struct bb_health h = {.nodes = 4, .gpus = 1, .domain_nodes = 2};

    (void)state;
    for (int failed = 0; failed < 3; failed++) {
        assert_true(bb_health_is_inside(&h, 0, 1) && bb_health_is_inside(&h, 2, 3) && !bb_health_is_inside(&h, 1, 2));
        assert_true(bb_health_has_domains(&h) == (failed < 2));
        bb_health_add(
            &h, &(struct bb_health_finding){.part = BB_HEALTH_A_NODE, .level = BB_HEALTH_FAIL, .node = 2 + failed});
    }
    bb_health_release(&h);
}

/* From the test in which it was lost; in the test before, it takes part. Its loss is the worst finding. */
static void test_lost_node_takes_no_part_from_its_test_on(void **state)
{
    const struct bb_health_finding lost = {.test = BB_HEALTH_PAIRS,
                                           .part = BB_HEALTH_A_NODE,
                                           .level = BB_HEALTH_FAIL,
                                           .node = 9,
                                           .other = -1,
                                           .gpu = -1,
                                           .value = NAN,
                                           .text = "rank 72 was lost",
                                           .lost = true};
    struct machine m = machine_of(16, 0.005, 1);

    (void)state;
    m.h.lost = &lost;
    m.h.n_lost = 1;
    m.slow_nic = 12;
    m.lost = 9;
    run(&m);
    assert_true(m.h.n == 2 && m.h.findings[0].node == 9 && find(&m, BB_HEALTH_A_NIC, 12, 1));
    bb_health_release(&m.h);
}

/* Runs the tests with a node that is lost before the stage node. */
static void run_without(struct machine *m, int node)
{
    const struct bb_health_finding lost = {.test = BB_HEALTH_NODE,
                                           .part = BB_HEALTH_A_NODE,
                                           .level = BB_HEALTH_FAIL,
                                           .node = node,
                                           .other = -1,
                                           .gpu = -1,
                                           .value = NAN,
                                           .text = "rank 1 was lost",
                                           .lost = true};

    m->h.lost = &lost;
    m->h.n_lost = 1;
    run(m);
}

/* With equal peers, the score -3.5 is 3.5 * 0.5 % / 0.6745 = 2.59 % below their median. */
static void test_outliers_below_974_of_1000_warn(void **state)
{
    static const struct {
        double gpu;
        enum bb_health_level level;
    } rows[] = {{0.975, BB_HEALTH_OK}, {0.9738, BB_HEALTH_WARN}, {0.9702, BB_HEALTH_WARN}, {0.9698, BB_HEALTH_FAIL}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct machine m = machine_of(4, 0, 1);

        m.slow_gpu = 1;
        m.gpu = rows[i].gpu;
        run(&m);
        assert_int_equal(bb_health_node_level(&m.h, 3), rows[i].level);
        bb_health_release(&m.h);
    }
}

/* Slow nodes, from none to all of 1 to 6: the levels of the help's rule. At least three values have a median, ten have
 * outliers; a slow majority of at most three quarters is found by the profile, or by the gap to the faster nodes. */
static enum bb_health_level level_by_rule(int values, double slow_part, double factor, bool is_known)
{
    const bool has_peers = values >= 3 && slow_part < 1 && slow_part <= 0.75 &&
                           (slow_part <= 0.5 || factor < BB_HEALTH_WARNS || !is_known);

    if (slow_part == 0 || (!is_known && !has_peers))
        return BB_HEALTH_OK;
    if (factor < BB_HEALTH_FAILS || (has_peers && values >= 10 && factor < BB_HEALTH_OUTLIER))
        return BB_HEALTH_FAIL;
    return factor < BB_HEALTH_WARNS ? BB_HEALTH_WARN : BB_HEALTH_OK;
}

static void test_slow_nodes_have_the_levels_of_the_help(void **state)
{
    static const double factors[] = {0.79, 0.805, 0.86, 0.87, 0.88, 0.9, 0.925, 0.935, 0.94, 0.95};

    (void)state;
    for (int i = 0; i < 6 * 7 * 2 * 2 * (int)ROWS(factors); i++) {
        const int nodes = 1 + i % 6, slow = i / 6 % 7;
        const bool is_known = i / 42 % 2, is_gemm = i / 84 % 2;
        const double factor = factors[i / 168];
        struct machine m = machine_of(nodes, 0, 1);
        enum bb_health_level level = BB_HEALTH_OK, expected;

        if (slow > nodes)
            continue;
        m.slow_nodes = slow;
        m.nodes = factor;
        for (int test = 0; test < BB_HEALTH_TESTS; test++) {
            m.h.skip[test] = test != (is_gemm ? BB_HEALTH_GEMM : BB_HEALTH_NODE);
            m.h.expected[test] = is_known ? healthy[test] : NAN;
        }
        run(&m);
        for (size_t f = 0; f < m.h.n; f++) {
            level = m.h.findings[f].level > level ? m.h.findings[f].level : level;
            assert_true(m.h.findings[f].node < slow);
        }
        expected = level_by_rule(is_gemm ? nodes * GPUS : nodes, (double)slow / nodes, factor, is_known);
        if (level != expected)
            print_error("%d of %d nodes at %g, %s %s: %s, expected %s\n", slow, nodes, factor,
                        is_known ? "known" : "unknown", is_gemm ? "GEMM" : "all_reduce", bb_health_level_name(level),
                        bb_health_level_name(expected));
        assert_int_equal(level, expected);
        for (int node = 0; node < nodes && level != BB_HEALTH_OK && 4 * slow <= 3 * nodes; node++)
            assert_int_equal(bb_health_node_level(&m.h, node), node < slow ? level : BB_HEALTH_OK);
        bb_health_release(&m.h);
    }
}

static void test_percentages_show_the_side_of_a_limit(void **state)
{
    static const struct {
        double part;
        const char *text;
    } rows[] = {{0.512, "51 %"},     {0.966, "96.6 %"},     {0.971, "97.1 %"},
                {0.9698, "96.98 %"}, {0.96997, "96.997 %"}, {0.7996, "79.96 %"},
                {0.80, "80.0 %"},    {0.9404, "94 %"},      {0.929997, "92.9997 %"}};
    char text[BB_HEALTH_PERCENT_TEXT];

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_string_equal(bb_health_percent(rows[i].part, text), rows[i].text);
}

/* All GPUs at 94 % of the expectation, one a little slower: 92 % is below its limit, although it is no outlier of the
 * others. */
static void test_gpu_below_the_limit_of_the_expectation_warns(void **state)
{
    (void)state;
    for (int low = 0; low <= 1; low++) {
        struct machine m = machine_of(4, 0, 1);

        m.everything = 0.94;
        m.slow_gpu = 1;
        m.gpu = low ? 0.98 : 0.992;
        m.h.expected[BB_HEALTH_GEMM] = healthy[BB_HEALTH_GEMM];
        run(&m);
        assert_int_equal(bb_health_node_level(&m.h, 3), low ? BB_HEALTH_WARN : BB_HEALTH_OK);
        assert_true(!low || find(&m, BB_HEALTH_A_GPU, 3, 1)->expected == healthy[BB_HEALTH_GEMM]);
        bb_health_release(&m.h);
    }
}

/* Two nodes of four GPUs have eight values, too few for an outlier, also if a third node took no part. */
static void test_lost_node_is_no_peer(void **state)
{
    (void)state;
    for (int gpus = 4; gpus <= 5; gpus++) {
        struct machine m = machine_of(3, 0, 1);

        m.h.gpus = gpus;
        m.slow_nic = 1;
        m.nic = 0.95;
        run_without(&m, 2);
        assert_int_equal(m.h.n, gpus == 4 ? 1 : 2); /* the lost node; and the path, of ten values */
        bb_health_release(&m.h);
    }
}

static void test_only_node_that_is_left_is_named(void **state)
{
    struct machine m = machine_of(2, 0, 1);

    (void)state;
    m.slow_node = 0;
    run_without(&m, 1);
    assert_true(m.h.n == 2 && find(&m, BB_HEALTH_A_NODE, 0, -1));
    assert_int_equal(bb_health_node_level(&m.h, 0), BB_HEALTH_FAIL);
    bb_health_release(&m.h);
}

/* All GPUs at 0.77, and one at 0.9 of the others. */
static void test_all_gpus_slow_are_one_finding(void **state)
{
    struct machine m = machine_of(8, 0.005, 1);

    (void)state;
    m.slow_gpus = GPUS;
    m.slow_gpu = 5;
    m.h.expected[BB_HEALTH_GEMM] = healthy[BB_HEALTH_GEMM];
    run(&m);
    assert_true(m.h.n == 2 && find(&m, BB_HEALTH_ALL, -1, -1)->level == BB_HEALTH_FAIL);
    assert_true(find(&m, BB_HEALTH_A_GPU, 3, 5)->level == BB_HEALTH_FAIL &&
                isnan(find(&m, BB_HEALTH_A_GPU, 3, 5)->expected));
    bb_health_release(&m.h);

    m = machine_of(1, 0.005, 1); /* two GPUs are no reference */
    m.h.gpus = 2;
    m.slow_gpus = 2;
    m.h.expected[BB_HEALTH_GEMM] = healthy[BB_HEALTH_GEMM];
    run(&m);
    assert_true(m.h.n == 2 && find(&m, BB_HEALTH_A_GPU, 0, 0) && find(&m, BB_HEALTH_A_GPU, 0, 1));
    bb_health_release(&m.h);
}

/* All nodes at 0.9 of the expectation, one GPU at 0.84 of them, and one node at 0.7: both are below 0.8 of the
 * expectation. Of eight GPUs, none is an outlier. */
static void test_slow_part_of_a_slow_cluster_fails(void **state)
{
    struct machine m = machine_of(4, 0, 1);

    (void)state;
    m.h.gpus = 2;
    m.everything = 0.9;
    m.slow_gpu = 1;
    m.gpu = 0.84;
    m.slow_node = 1;
    m.h.expected[BB_HEALTH_GEMM] = healthy[BB_HEALTH_GEMM];
    for (int test = 0; test < BB_HEALTH_TESTS; test++)
        m.h.skip[test] = test != BB_HEALTH_GEMM && test != BB_HEALTH_NODE;
    run(&m);
    assert_true(m.h.n == 4 && find(&m, BB_HEALTH_A_GPU, 3, 1)->level == BB_HEALTH_FAIL &&
                find(&m, BB_HEALTH_A_NODE, 1, -1)->level == BB_HEALTH_FAIL);
    assert_int_equal(find(&m, BB_HEALTH_ALL, -1, -1)->level, BB_HEALTH_WARN);
    bb_health_release(&m.h);
}

static void test_rounds_are_logarithmic(void **state)
{
    static const int rows[][2] = {{2, 1}, {3, 3}, {4, 3}, {8, 4}, {64, 7}, {128, 8}, {1024, 11}};

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        const struct bb_health h = {.nodes = rows[i][0], .gpus = GPUS};

        assert_int_equal(bb_health_rounds(&h, BB_HEALTH_PAIRS), rows[i][1]);
    }
    for (int nodes = 15; nodes <= 17; nodes++) { /* every pair: 15 rounds for both 15 and 16 nodes */
        const struct bb_health h = {.nodes = nodes, .gpus = GPUS, .every_pair = true};

        assert_int_equal(bb_health_rounds(&h, BB_HEALTH_PAIRS), nodes <= 16 ? 15 : 6);
    }
}

/* Runs the stage pairs with this number of rounds, and returns the number of pairs that were measured. None is measured
 * twice. */
static int count_pairs(int nodes, int leaf, int rounds)
{
    struct machine m = machine_of(nodes, 0, 1);
    int pairs = 0, met[17 * 17] = {0};

    for (int test = 0; test < BB_HEALTH_TESTS; test++)
        m.h.skip[test] = test != BB_HEALTH_PAIRS;
    m.h.rounds = rounds;
    m.h.tiers[0] = (struct bb_health_tier){leaf, 1};
    m.met = met;
    run(&m);
    for (int i = 0; i < nodes * nodes; i++) {
        assert_true(met[i] <= 1);
        pairs += met[i];
    }
    /* the paths of a ring, except the one between the last and the first node of an odd number */
    for (int n = 0; n < nodes - nodes % 2 && rounds > 1 && (leaf == 0 || (leaf % 2 == 0 && nodes % leaf == 0)); n++)
        assert_int_equal(met[n * nodes + (n + 1) % nodes], 1);
    bb_health_release(&m.h);
    return pairs / 2;
}

static void test_no_round_repeats_a_pair(void **state)
{
    (void)state;
    for (int nodes = 2; nodes <= (FEW_INPUTS ? 9 : 17); nodes++) {
        const int most = nodes % 2 ? nodes : nodes - 1; /* of an odd number, each leaves one node out */

        for (int rounds = 1; rounds <= most + 2; rounds++)
            for (int leaf = 0; leaf <= 5; leaf += leaf == 0 ? 2 : 1)
                assert_int_equal(count_pairs(nodes, leaf, rounds), (rounds < most ? rounds : most) * (nodes / 2));
        assert_int_equal(count_pairs(nodes, 0, most), nodes * (nodes - 1) / 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_healthy_nodes_have_no_finding),
        cmocka_unit_test(test_noise_around_the_limit_names_no_part),
        cmocka_unit_test(test_slow_nic_below_noise_around_the_limit_is_named),
        cmocka_unit_test(test_planted_faults_are_named_in_noise),
        cmocka_unit_test(test_slow_path_is_not_a_slow_node),
        cmocka_unit_test(test_slow_nic_and_slow_path_are_no_rail),
        cmocka_unit_test(test_slow_rail_with_slow_path_is_a_rail),
        cmocka_unit_test(test_two_nodes_cannot_be_told_apart),
        cmocka_unit_test(test_slightly_slow_nic_of_few_nodes_is_no_path),
        cmocka_unit_test(test_most_nics_of_a_rail_are_not_the_rail),
        cmocka_unit_test(test_slow_half_or_majority_of_gpus_is_named),
        cmocka_unit_test(test_one_fast_gpu_is_no_slow_majority),
        cmocka_unit_test(test_slow_rail_is_found_once),
        cmocka_unit_test(test_common_cause_is_one_finding),
        cmocka_unit_test(test_independent_slower_fault_is_a_finding),
        cmocka_unit_test(test_slow_path_does_not_hide_a_slower_rail),
        cmocka_unit_test(test_pairs_in_an_nvlink_domain_have_their_own_expectation),
        cmocka_unit_test(test_pairs_in_an_nvlink_domain_use_no_uplinks),
        cmocka_unit_test(test_pairs_in_an_nvlink_domain_without_expectation),
        cmocka_unit_test(test_pairs_in_an_nvlink_domain_without_expectation_of_nics),
        cmocka_unit_test(test_leaf_that_is_slow_at_once_is_named),
        cmocka_unit_test(test_oversubscribed_leaves_are_expected),
        cmocka_unit_test(test_cut_with_the_lowest_value_counts_unless_one_is_slow),
        cmocka_unit_test(test_slow_leaf_of_oversubscribed_ones_is_named),
        cmocka_unit_test(test_slightly_slow_leaf_of_oversubscribed_ones_is_named),
        cmocka_unit_test(test_value_of_slow_uplinks_is_that_of_their_pairs),
        cmocka_unit_test(test_unknown_oversubscribed_leaves_are_the_fabric),
        cmocka_unit_test(test_slow_nic_behind_an_oversubscribed_leaf_is_named),
        cmocka_unit_test(test_slow_path_between_oversubscribed_leaves_is_named),
        cmocka_unit_test(test_slow_nic_of_the_only_node_of_an_oversubscribed_leaf_is_named),
        cmocka_unit_test(test_half_of_gpus_slow_by_different_amounts_is_named),
        cmocka_unit_test(test_fabric_that_is_slow_at_once_is_named),
        cmocka_unit_test(test_bisection_is_judged_without_pairs),
        cmocka_unit_test(test_all_nics_slow_is_one_finding),
        cmocka_unit_test(test_slow_nic_is_found_by_bisection_alone),
        cmocka_unit_test(test_texts_of_findings_have_no_control_characters),
        cmocka_unit_test(test_expectation_is_of_the_nodes_that_take_part),
        cmocka_unit_test(test_failed_nodes_stay_in_their_domain),
        cmocka_unit_test(test_lost_node_takes_no_part_from_its_test_on),
        cmocka_unit_test(test_outliers_below_974_of_1000_warn),
        cmocka_unit_test(test_slow_nodes_have_the_levels_of_the_help),
        cmocka_unit_test(test_percentages_show_the_side_of_a_limit),
        cmocka_unit_test(test_gpu_below_the_limit_of_the_expectation_warns),
        cmocka_unit_test(test_lost_node_is_no_peer),
        cmocka_unit_test(test_only_node_that_is_left_is_named),
        cmocka_unit_test(test_all_gpus_slow_are_one_finding),
        cmocka_unit_test(test_slow_part_of_a_slow_cluster_fails),
        cmocka_unit_test(test_rounds_are_logarithmic),
        cmocka_unit_test(test_no_round_repeats_a_pair),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
