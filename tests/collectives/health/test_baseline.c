/* test_baseline.c - the medians of an earlier result as expectations of a run on other nodes and NVLink domains. */
#include "collectives/health/health_options.h"
#include "tests/bootstrap/capture.h"
#include "tests/check.h"

#include <math.h>
#include <string.h>

enum { GPUS = 4 };

#define NICS   48.0  /* median of pairs that NICs connect */
#define NVLINK 600.0 /* of pairs that NVLink connects */
#define CUT    47.0

/* Returns a result of a run on nodes in domains of `per_domain` nodes; 0: each node is one. A result states no domain
 * if there is only one. */
static json_t *make_baseline(int nodes, int per_domain)
{
    const bool several = per_domain > 0 && per_domain < nodes;
    json_t *verdicts = json_array(), *inside = several ? json_real(NVLINK) : json_null();

    for (int node = 0; node < nodes; node++)
        json_array_append_new(
            verdicts,
            json_pack("{s:o}", "domain", several ? json_integer(node / per_domain * per_domain) : json_null()));
    return json_pack("{s:s, s:{s:s}, s:i, s:i, s:[], s:s, s:o, s:[{s:s, s:i}], s:[{s:s, s:f, s:o}, {s:s, s:f}]}",
                     "schema", "busbar.health/1", "options", "only", "all", "nodes", nodes, "ranks", nodes * GPUS,
                     "findings", "status", "ok", "verdicts", verdicts, "checks", "check",
                     bb_health_tests[BB_HEALTH_BISECTION].name, "nodes", nodes, "tests", "test",
                     bb_health_tests[BB_HEALTH_PAIRS].name, "median", per_domain >= nodes ? NVLINK : NICS,
                     "domain_median", inside, "test", bb_health_tests[BB_HEALTH_BISECTION].name, "median", CUT);
}

static bool is_equal(double a, double b)
{
    return a == b || (isnan(a) && isnan(b));
}

static void test_medians_are_those_of_the_same_connection(void **state)
{
    static const struct {
        int nodes, per_domain;         /* of the baseline */
        int run_nodes, run_per_domain; /* of the run */
        double pairs, inside, bisection;
    } rows[] = {
        {8, 0, 8, 0, NICS, NAN, CUT},          /* without domains of several nodes */
        {8, 0, 16, 0, NICS, NAN, NAN},         /* more nodes */
        {18, 18, 18, 18, NVLINK, NVLINK, CUT}, /* the same rack */
        {36, 18, 36, 18, NICS, NVLINK, CUT},   /* the same two racks */
        {18, 18, 36, 18, NAN, NVLINK, NAN},    /* one rack, then two */
        {36, 18, 18, 18, NVLINK, NVLINK, NAN}, /* two racks, then one */
        {18, 18, 18, 9, NAN, NVLINK, NAN},     /* as many nodes, of other racks */
        {18, 9, 18, 18, NVLINK, NVLINK, NAN},  /* and the other way round */
    };

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        const struct bb_health_options options = {.only = "all", .expect = "baseline.json"};
        const struct bb_machine_facts facts = {.gpu = ""};
        json_t *baseline = make_baseline(rows[i].nodes, rows[i].per_domain);
        struct bb_health h = {.nodes = rows[i].run_nodes, .gpus = GPUS};
        char source[BB_HEALTH_SOURCE];
        int domain_of[36];

        for (int node = 0; node < h.nodes && rows[i].run_per_domain > 0; node++)
            domain_of[node] = node / rows[i].run_per_domain;
        h.domain_of = rows[i].run_per_domain > 0 ? domain_of : NULL;
        assert_int_equal(bb_health_expect(&h, &options, baseline, NULL, &facts, source), 0);
        assert_true(is_equal(h.expected[BB_HEALTH_PAIRS], rows[i].pairs));
        assert_true(is_equal(h.inside, rows[i].inside));
        assert_true(is_equal(h.expected[BB_HEALTH_BISECTION], rows[i].bisection));
        json_decref(baseline);
    }
}

/* JSON tools write 2.0 as 2. */
static void test_integer_oversubscription_of_leaves(void **state)
{
    const struct bb_health_options options = {.only = "all", .expect = "baseline.json"};
    const struct bb_machine_facts facts = {.gpu = ""};
    json_t *baseline = make_baseline(8, 0);
    struct bb_health h = {.nodes = 8, .gpus = GPUS};
    char source[BB_HEALTH_SOURCE];

    (void)state;
    json_object_set_new(baseline, "tiers", json_pack("[{s:i, s:i}]", "nodes", 4, "oversubscription", 2));
    assert_int_equal(bb_health_expect(&h, &options, baseline, NULL, &facts, source), 0);
    assert_true(h.tiers[0].nodes == 4 && h.tiers[0].oversubscription == 2);
    json_decref(baseline);
}

/* An earlier version wrote no number of nodes: the bisection is not compared, and a warning names it. */
static void test_tests_without_a_number_of_nodes_are_named(void **state)
{
    (void)state;
    for (int stated = 0; stated < 2; stated++) {
        const struct bb_health_options options = {.only = "all", .expect = "baseline.json"};
        const struct bb_machine_facts facts = {.gpu = ""};
        json_t *baseline = make_baseline(8, 0), *check = json_array_get(json_object_get(baseline, "checks"), 0);
        struct bb_health h = {.nodes = 8, .gpus = GPUS};
        char source[BB_HEALTH_SOURCE];
        struct capture capture;
        const char *text;

        for (int test = 0; test < BB_HEALTH_TESTS; test++)
            h.skip[test] = test != BB_HEALTH_PAIRS && test != BB_HEALTH_BISECTION;
        if (!stated)
            json_object_del(check, "nodes");
        capture_begin(&capture);
        assert_int_equal(bb_health_expect(&h, &options, baseline, NULL, &facts, source), 0);
        text = capture_end(&capture);
        assert_true(isnan(h.expected[BB_HEALTH_BISECTION]) == !stated);
        assert_true((strstr(text, "has no value of all_reduce across halves for 8 nodes; these are only") == NULL) ==
                    stated);
        json_decref(baseline);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_medians_are_those_of_the_same_connection),
                                       cmocka_unit_test(test_integer_oversubscription_of_leaves),
                                       cmocka_unit_test(test_tests_without_a_number_of_nodes_are_named)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
