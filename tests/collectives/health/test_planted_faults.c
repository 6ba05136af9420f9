/*
 * test_planted_faults.c - plants faults of many kinds in the measurements of 64 nodes with 1 % noise, each with several
 * seeds, and compares what is named. The machine is a model of its own: each value is the healthy one times the factors
 * of the faults on which it depends.
 */
#include "collectives/health/verdict/verdict.h"
#include "tests/check.h"

#include <math.h>
#include <stdlib.h>

enum {
    NODES = 64,
    GPUS = 8,
    LEAF = 8,
    ALL_SEEDS = 20,
    SEEDS = FEW_INPUTS ? 4 : ALL_SEEDS,
    FAULTS = 4,
    EXPECTED = 4,
    ANY = -2,
    ALL = -1,
    NIC_TEST = BB_HEALTH_TESTS
};

/* SLOW: the values of a test. NIC, PATH: between nodes. UPLINK: the pairs of a leaf share this number of nodes' rates.
 * SPINE: pairs between two leaves. DIES: the rank of a node, in stage pairs. */
enum kind { NONE, SLOW, NIC, PATH, UPLINK, SPINE, DIES };

struct fault {
    enum kind kind;
    enum bb_health_test test; /* SLOW */
    int node, gpu;            /* of UPLINK and SPINE a leaf; gpu: ALL of the node, too */
    int other;                /* PATH, SPINE */
    double factor;
    double part; /* part of the measurements in which it is slow; 0: all */
};

struct finding {
    enum bb_health_part part;
    int node, gpu, other; /* ANY: not compared */
    enum bb_health_level level;
};

static const struct row {
    const char *what;
    struct fault faults[FAULTS];
    struct finding expected[EXPECTED];
    int sure; /* number of seeds of 20 in which all of `expected` are found; 0: 20 */
} rows[] = {
#define GPU(test, node, gpu, factor)                                                                                   \
    {                                                                                                                  \
        SLOW, test, node, gpu, -1, factor, 0                                                                           \
    }
    {.what = "nothing"},
    {"slow memory of a GPU", {GPU(BB_HEALTH_MEMORY, 5, 3, 0.85)}, {{BB_HEALTH_A_GPU, 5, 3, -1, BB_HEALTH_FAIL}}, 0},
    {"low clock limit of a GPU", {GPU(BB_HEALTH_GEMM, 63, 7, 0.93)}, {{BB_HEALTH_A_GPU, 63, 7, -1, BB_HEALTH_FAIL}}, 0},
    {"PCIe at half width",
     {GPU(BB_HEALTH_TO_GPU, 0, 0, 0.5), GPU(BB_HEALTH_FROM_GPU, 0, 0, 0.5)},
     {{BB_HEALTH_A_GPU, 0, 0, -1, BB_HEALTH_FAIL}},
     0},
    {"copies slow in one direction",
     {GPU(BB_HEALTH_FROM_GPU, 7, 2, 0.8)},
     {{BB_HEALTH_A_GPU, 7, 2, -1, BB_HEALTH_FAIL}},
     0},
    {"one of 18 NVLinks down",
     {GPU(BB_HEALTH_PEERS, 9, 4, 17 / 18.0), GPU(BB_HEALTH_NODE, 9, ALL, 17 / 18.0)},
     {{BB_HEALTH_A_GPU, 9, 4, -1, BB_HEALTH_FAIL}},
     19}, /* else the node, by its all_reduce */
    {"NVLink between two GPUs",
     {GPU(BB_HEALTH_SLOWEST_PEER, 9, 4, 0.5), GPU(BB_HEALTH_SLOWEST_PEER, 9, 5, 0.5)},
     {{BB_HEALTH_A_GPU, 9, 4, -1, BB_HEALTH_FAIL}, {BB_HEALTH_A_GPU, 9, 5, -1, BB_HEALTH_FAIL}},
     0},
    {"slow host memory of a node",
     {GPU(BB_HEALTH_TO_GPU, 11, ALL, 0.7), GPU(BB_HEALTH_FROM_GPU, 11, ALL, 0.7)},
     {{BB_HEALTH_A_NODE, 11, -1, -1, BB_HEALTH_FAIL}},
     0},
    {"two slow parts of a node",
     {GPU(BB_HEALTH_GEMM, 3, 1, 0.9), GPU(BB_HEALTH_MEMORY, 3, 6, 0.8)},
     {{BB_HEALTH_A_GPU, 3, 1, -1, BB_HEALTH_FAIL}, {BB_HEALTH_A_GPU, 3, 6, -1, BB_HEALTH_FAIL}},
     0},
    {"two NICs of a node",
     {{NIC, 0, 3, 1, -1, 0.5, 0}, {NIC, 0, 3, 6, -1, 0.8, 0}},
     {{BB_HEALTH_A_NIC, 3, 1, -1, BB_HEALTH_FAIL}, {BB_HEALTH_A_NIC, 3, 6, -1, BB_HEALTH_FAIL}},
     0},
    {"a NIC at 0.9", {{NIC, 0, 30, 7, -1, 0.9, 0}}, {{BB_HEALTH_A_NIC, 30, 7, -1, BB_HEALTH_FAIL}}, 0},
    {"two bad neighbours, partners in the first round",
     {{NIC, 0, 10, 2, -1, 0.6, 0}, {NIC, 0, 11, 2, -1, 0.6, 0}},
     {{BB_HEALTH_A_NIC, 10, 2, -1, BB_HEALTH_FAIL}, {BB_HEALTH_A_NIC, 11, 2, -1, BB_HEALTH_FAIL}},
     0},
    {"all NICs of a node", {{NIC, 0, 40, ALL, -1, 0.5, 0}}, {{BB_HEALTH_A_NODE, 40, -1, -1, BB_HEALTH_FAIL}}, 0},
    {"path between neighbours, or one of its directions",
     {{PATH, 0, 20, ALL, 21, 0.6, 0}},
     {{BB_HEALTH_A_PATH, 20, ANY, 21, BB_HEALTH_FAIL}},
     0},
    {"uplinks of a leaf", {{UPLINK, 0, 2, 0, -1, 4, 0}}, {{BB_HEALTH_A_LEAF, 16, -1, 23, BB_HEALTH_FAIL}}, 0},
    {"spine path between two leaves",
     {{SPINE, 0, 1, ALL, 5, 0.5, 0}},
     {{BB_HEALTH_A_PATH, ANY, ANY, ANY, BB_HEALTH_FAIL}},
     0},
    {"a GPU that is slow in a third of the measurements",
     {{SLOW, BB_HEALTH_GEMM, 8, 3, -1, 0.7, 0.34}},
     {{BB_HEALTH_A_GPU, 8, 3, -1, BB_HEALTH_WARN}},
     10}, /* else its first measurement is fast, and --soak is needed */
    {"a NIC that is slow in a third of the measurements",
     {{NIC, 0, 8, 3, -1, 0.6, 0.34}},
     {{BB_HEALTH_A_NIC, 8, 3, -1, BB_HEALTH_WARN}},
     12}, /* else the path to its only slow partner, or a slow rail */
    {"GPU at 0.9, NIC at 0.5, bad path, rail at 0.8",
     {GPU(BB_HEALTH_GEMM, 3, 5, 0.9),
      {NIC, 0, 20, 1, -1, 0.5, 0},
      {PATH, 0, 32, ALL, 33, 0.6, 0},
      {NIC, 0, ALL, 6, -1, 0.8, 0}},
     {{BB_HEALTH_A_GPU, 3, 5, -1, BB_HEALTH_FAIL},
      {BB_HEALTH_A_NIC, 20, 1, -1, BB_HEALTH_FAIL},
      {BB_HEALTH_A_PATH, 32, ANY, 33, BB_HEALTH_FAIL},
      {BB_HEALTH_A_RAIL, -1, 6, -1, BB_HEALTH_WARN}},
     0},
    {"GPU at 0.9, and a node that dies in stage pairs",
     {GPU(BB_HEALTH_GEMM, 3, 5, 0.9), {DIES, 0, 42, 0, -1, 0, 0}},
     {{BB_HEALTH_A_GPU, 3, 5, -1, BB_HEALTH_FAIL}},
     0},
#undef GPU
};

static const double healthy[BB_HEALTH_TESTS] = {700, 2900, 52, 52, 330, 330, 460, 48, 48, 47, 46, 350};

struct machine {
    struct bb_health h;
    const struct row *row;
    bool slow[FAULTS]; /* in this measurement */
    uint64_t state;
};

static double random_of(struct machine *m)
{
    m->state = m->state * 6364136223846793005u + 1442695040888963407u;
    return (double)(m->state >> 11) / (double)(1ull << 53);
}

/* Returns a random number with mean 1 and standard deviation 0.01: the sum of twelve uniform ones (Irwin and Hall). */
static double noise(struct machine *m)
{
    double sum = -6;

    for (int i = 0; i < 12; i++)
        sum += random_of(m);
    return 1 + 0.01 * sum;
}

static bool is_at(int planted, int i)
{
    return planted == ALL || planted == i;
}

/* Returns the factor of what a GPU measures alone, or with the GPUs of its node. */
static double own_factor(const struct machine *m, enum bb_health_test test, int node, int gpu)
{
    double factor = 1;

    for (int i = 0; i < FAULTS; i++) {
        const struct fault *f = &m->row->faults[i];

        if (f->kind == SLOW && m->slow[i] && f->test == test && is_at(f->node, node) && is_at(f->gpu, gpu))
            factor *= f->factor;
    }
    return factor;
}

/* Returns the number of pairs that leave a leaf. */
static int count_leaving(const int *partner, int leaf)
{
    int n = 0;

    for (int node = leaf * LEAF; node < (leaf + 1) * LEAF; node++)
        n += partner[node] >= 0 && partner[node] / LEAF != leaf;
    return n;
}

static double nic_factor(const struct machine *m, int node, int gpu)
{
    double factor = 1;

    for (int i = 0; i < FAULTS; i++) {
        const struct fault *f = &m->row->faults[i];

        if (f->kind == NIC && m->slow[i] && is_at(f->node, node) && is_at(f->gpu, gpu))
            factor = fmin(factor, f->factor);
    }
    return factor;
}

static double pair_factor(const struct machine *m, const int *partner, int a, int gpu)
{
    const int b = partner[a];
    double factor = fmin(nic_factor(m, a, gpu), nic_factor(m, b, gpu));

    for (int i = 0; i < FAULTS; i++) {
        const struct fault *f = &m->row->faults[i];
        const int leaf_a = a / LEAF, leaf_b = b / LEAF;

        if (f->kind == PATH && ((f->node == a && f->other == b) || (f->node == b && f->other == a)))
            factor = fmin(factor, f->factor);
        if (f->kind == SPINE &&
            ((f->node == leaf_a && f->other == leaf_b) || (f->node == leaf_b && f->other == leaf_a)))
            factor = fmin(factor, f->factor);
        if (f->kind == UPLINK && leaf_a != leaf_b && (leaf_a == f->node || leaf_b == f->node))
            factor = fmin(factor, f->factor / count_leaving(partner, f->node));
    }
    return factor;
}

/* Returns the lowest factor of the NICs of all nodes that take part; gpu: ALL: of all GPUs. */
static double job_factor(const struct machine *m, const int *partner, int gpu)
{
    double factor = 1;

    for (int node = 0; node < NODES; node++)
        for (int g = 0; g < GPUS; g++)
            if (partner[node] >= 0 && is_at(gpu, g))
                factor = fmin(factor, nic_factor(m, node, g));
    return factor;
}

static int measure(void *arg, enum bb_health_test test, const int *partner, double *values)
{
    struct machine *m = arg;
    double job = noise(m) * job_factor(m, partner, ALL), rails[GPUS];

    for (int i = 0; i < FAULTS; i++) {
        const struct fault *f = &m->row->faults[i];

        m->slow[i] = f->part == 0 || random_of(m) < f->part;
        if (f->kind == DIES && test == BB_HEALTH_PAIRS)
            return -BB_EFAIL;
    }
    for (int g = 0; g < GPUS; g++)
        rails[g] = noise(m) * job_factor(m, partner, g);
    for (int node = 0; node < NODES; node++) {
        const double shared = noise(m);

        for (int g = 0; g < GPUS; g++) {
            double *value = &values[node * GPUS + g];

            if (partner[node] < 0)
                *value = NAN;
            else if (test == BB_HEALTH_PAIRS || test == BB_HEALTH_BISECTION)
                *value = partner[node] < node ? values[partner[node] * GPUS + g]
                                              : healthy[test] * noise(m) * pair_factor(m, partner, node, g);
            else
                *value = healthy[test] * (test == BB_HEALTH_WHOLE         ? job
                                          : test >= BB_HEALTH_RAILS_ALONE ? rails[g]
                                          : test == BB_HEALTH_NODE        ? shared * own_factor(m, test, node, g)
                                                                          : noise(m) * own_factor(m, test, node, g));
        }
    }
    return 0;
}

static bool is_like(const struct finding *e, const struct bb_health_finding *f)
{
    return e->part == f->part && (e->node == ANY || e->node == f->node) && (e->gpu == ANY || e->gpu == f->gpu) &&
           (e->other == ANY || e->other == f->other);
}

/* Returns whether all expected findings are there; fails if one has another part or level. */
static bool compare(const struct row *row, const struct bb_health *h)
{
    bool all = true, *seen = calloc(h->n + 1, sizeof *seen);

    for (int i = 0; i < EXPECTED && row->expected[i].level != BB_HEALTH_OK; i++) {
        bool found = false;

        for (size_t k = 0; k < h->n; k++)
            if (is_like(&row->expected[i], &h->findings[k])) {
                found = true;
                seen[k] = h->findings[k].level >= row->expected[i].level;
            }
        all = all && found;
    }
    for (size_t k = 0; k < h->n; k++)
        if (!seen[k]) {
            const struct bb_health_finding *f = &h->findings[k];

            print_error("%s: %s %s of node %d GPU %d other %d: %g of %g\n", row->what, bb_health_level_name(f->level),
                        bb_health_parts[f->part], f->node, f->gpu, f->other, f->value, f->expected);
            all = false;
        }
    free(seen);
    return all;
}

static void test_planted_faults_are_named(void **state)
{
    int failed = 0;

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        int found = 0;

        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
            struct machine m = {.h = {.nodes = NODES, .gpus = GPUS, .measure = measure},
                                .row = &rows[i],
                                .state = seed * 0x9e3779b97f4a7c15u};
            int rc;

            m.h.arg = &m;
            for (int test = 0; test < BB_HEALTH_TESTS; test++)
                m.h.expected[test] = healthy[test];
            rc = bb_health_run(&m.h);
            assert_true(rc == 0 || rows[i].faults[1].kind == DIES);
            found += compare(&rows[i], &m.h);
            bb_health_release(&m.h);
        }
        print_message("%-50s %2d of %d\n", rows[i].what, found, SEEDS);
        failed += SEEDS - found > (rows[i].sure ? ALL_SEEDS - rows[i].sure : 0);
    }
    assert_int_equal(failed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_planted_faults_are_named)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
