/* verdict.c - see verdict.h. */
#include "collectives/health/verdict/verdict.h"

#include "collectives/health/verdict/findings.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const struct bb_health_test_row bb_health_tests[BB_HEALTH_TESTS] = {
    [BB_HEALTH_GEMM] = {"gpu", "GEMM", "TFLOP/s", BB_HEALTH_A_GPU},
    [BB_HEALTH_MEMORY] = {"gpu", "memory copy", "GB/s", BB_HEALTH_A_GPU},
    [BB_HEALTH_TO_GPU] = {"copies", "copy host to GPU", "GB/s", BB_HEALTH_A_GPU},
    [BB_HEALTH_FROM_GPU] = {"copies", "copy GPU to host", "GB/s", BB_HEALTH_A_GPU},
    [BB_HEALTH_PEERS] = {"copies", "copy GPU to GPU", "GB/s", BB_HEALTH_A_GPU},
    [BB_HEALTH_SLOWEST_PEER] = {"copies", "copy to its slowest peer", "GB/s", BB_HEALTH_A_GPU},
    [BB_HEALTH_NODE] = {"node", "all_reduce in the node", "GB/s", BB_HEALTH_A_NODE},
    [BB_HEALTH_PAIRS] = {"pairs", "all_reduce of GPU pairs", "GB/s", BB_HEALTH_A_NIC},
    [BB_HEALTH_BISECTION] = {"bisection", "all_reduce across halves", "GB/s", BB_HEALTH_FABRIC},
    [BB_HEALTH_RAILS_ALONE] = {"rails", "all_reduce, a rail alone", "GB/s", BB_HEALTH_A_RAIL},
    [BB_HEALTH_RAILS] = {"rails", "all_reduce, rails at once", "GB/s", BB_HEALTH_A_RAIL},
    [BB_HEALTH_WHOLE] = {"whole", "all_reduce of all GPUs", "GB/s", BB_HEALTH_ALL},
};
const enum bb_check_status bb_health_statuses[] = {[BB_HEALTH_OK] = BB_CHECK_OK,
                                                   [BB_HEALTH_UNKNOWN] = BB_CHECK_UNKNOWN,
                                                   [BB_HEALTH_WARN] = BB_CHECK_WARN,
                                                   [BB_HEALTH_FAIL] = BB_CHECK_FAIL};
const char *const bb_health_parts[] = {"gpu", "node", "nic", "path", "rail", "leaf", "fabric", "all", NULL};

/* Adds the findings about nodes that were lost in this test. */
static void add_lost(struct bb_health *h, int test)
{
    for (size_t i = 0; i < h->n_lost; i++)
        if ((int)h->lost[i].test == test)
            bb_health_add(h, &h->lost[i]);
}

/* Sets the expectations of this test and of later ones. */
static int expect_rest(struct bb_health *h, int test)
{
    const struct bb_health before = *h;
    int rc;

    TRY(h->expect(h->arg));
    memcpy(h->expected, before.expected, (size_t)test * sizeof *h->expected);
    if (test > BB_HEALTH_PAIRS)
        h->inside = before.inside;
out:
    return rc;
}

int bb_health_run(struct bb_health *h)
{
    int rc = 0, before = h->nodes;

    h->sender = -1;
    h->inside_median = NAN;
    for (int test = 0; test < BB_HEALTH_TESTS; test++) {
        h->median[test] = NAN;
        h->share[test] = 1;
    }
    for (int test = 0; test < BB_HEALTH_TESTS && rc == 0; test++) {
        int active;

        h->stage = bb_health_tests[test].stage;
        add_lost(h, test);
        active = bb_health_active(h);
        if (active > 0 && active < before && h->expect)
            TRY(expect_rest(h, test));
        before = active;
        if (h->skip[test] || active == 0 || (test == BB_HEALTH_NODE && h->gpus < 2) ||
            (test == BB_HEALTH_SLOWEST_PEER && h->gpus < 3) || (test >= BB_HEALTH_PAIRS && active < 2))
            continue;
        rc = test == BB_HEALTH_PAIRS       ? bb_health_test_pairs(h)
             : test == BB_HEALTH_BISECTION ? bb_health_test_bisection(h)
                                           : bb_health_test_units(h, (enum bb_health_test)test);
    }
    add_lost(h, BB_HEALTH_TESTS);
    bb_health_sort(h);
out:
    h->stage = NULL;
    return rc;
}

void bb_health_release(struct bb_health *h)
{
    for (int test = 0; test < BB_HEALTH_TESTS; test++)
        free(h->reached[test].values);
    free(h->findings);
}
