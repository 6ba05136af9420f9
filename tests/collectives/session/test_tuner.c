/*
 * test_tuner.c - calls the tuner plugin like NCCL: looks up the plugin's symbol in the program, as NCCL does for
 * STATIC_PLUGIN, passes a cost table and checks the changes. Structure layouts are checked against literal offsets,
 * because agreement with the plugin's own header proves nothing.
 */
#include "collectives/session/tuner.h"
#include "collectives/session/tuner_plugin.h"
#include "tests/check.h"

#include <dlfcn.h>

static const void *find(const char *name)
{
    void *self = dlopen(NULL, RTLD_NOW | RTLD_LOCAL);
    const void *found = dlsym(self, name);

    assert_non_null(found);
    dlclose(self);
    return found;
}

static void layouts_match_nccl(void **state)
{
    const struct bb_tuner_v5 *v5 = find("ncclTunerPlugin_v5");
    const struct bb_tuner_v4 *v4 = find("ncclTunerPlugin_v4");
    const unsigned char *v6 = find("ncclTunerPlugin_v6");

    (void)state;
    assert_int_equal(sizeof(struct bb_tuner_v6), 40);
    assert_memory_equal(v6, v5, 32); /* followed by a function pointer that may be NULL */
    assert_memory_equal(v6 + 32, (const char[8]){0}, 8);
    assert_int_equal(offsetof(struct bb_tuner_v5, init), 8);
    assert_int_equal(offsetof(struct bb_tuner_v5, choose), 16);
    assert_int_equal(offsetof(struct bb_tuner_v5, finalize), 24);
    assert_int_equal(sizeof(struct bb_tuner_v4), 32);
    assert_string_equal(v5->name, "busbar");
    assert_string_equal(v4->name, "busbar");
}

static void attach(void **context)
{
    const struct bb_tuner_v5 *v5 = find("ncclTunerPlugin_v5");

    assert_int_equal(v5->init(context, 7, 4, 1, NULL, NULL, NULL), ncclSuccess);
}

/* Passes a cost table of NCCL's size to the plugin. Cost -1: NCCL does not offer the algorithm/protocol pair. */
static void choose(float *costs, int algorithms, int protocols)
{
    const struct bb_tuner_v5 *v5 = find("ncclTunerPlugin_v5");
    int channels = 99;

    assert_int_equal(v5->choose(NULL, 4, 1024, 1, (float **)(void *)costs, algorithms, protocols, 0, &channels),
                     ncclSuccess);
    assert_int_equal(channels, 99);
}

static void keeps_costs_without_a_request(void **state)
{
    float costs[7][3] = {[1] = {5, 6, 7}, [4] = {-1, -1, 3}}, before[7][3];

    (void)state;
    memcpy(before, costs, sizeof(costs));
    bb_tuner_force(NULL);
    choose(*costs, 7, 3);
    assert_memory_equal(before, costs, sizeof(costs));
}

static void request_disables_other_pairs(void **state)
{
    const struct bb_algorithm_protocol wanted = bb_algorithm_protocol_of("NVLS", "SIMPLE");
    float costs[7][3] = {[1] = {5, 6, 7}, [4] = {-1, -1, 3}};

    (void)state;
    assert_int_equal(wanted.algorithm, 4);
    assert_int_equal(wanted.protocol, 2);
    bb_tuner_force(&wanted);
    choose(*costs, 7, 3);
    for (int i = 0; i < 21; i++)
        assert_true(costs[i / 3][i % 3] == (i == 14 ? 3 : -1));
    bb_tuner_force(NULL);
}

/* If the requested algorithm/protocol pair is unavailable, or not in the table of an older NCCL, NCCL decides. */
static void ignores_an_unavailable_request(void **state)
{
    const struct bb_algorithm_protocol pat = bb_algorithm_protocol_of("PAT", "SIMPLE"),
                                       unknown = bb_algorithm_protocol_of("PAT", "MAGIC");
    float costs[7][3] = {[1] = {5, 6, 7}, [6] = {-1, -1, -1}}, small[2][3] = {{1, 2, 3}, {4, 5, 6}}, before[7][3];

    (void)state;
    memcpy(before, costs, sizeof(costs));
    bb_tuner_force(&pat);
    choose(*costs, 7, 3);
    assert_memory_equal(before, costs, sizeof(costs));
    choose(*small, 2, 3);
    assert_true(small[0][0] == 1 && small[1][2] == 6);
    assert_int_equal(unknown.protocol, -1);
    bb_tuner_force(&unknown);
    choose(*costs, 7, 3);
    assert_memory_equal(before, costs, sizeof(costs));
    bb_tuner_force(NULL);
}

static void records_costs_between_begin_and_end(void **state)
{
    float costs[7][3] = {[1] = {5, 6, 7}, [4] = {-1, -1, 3}}, small[2][3] = {{1, 2, 3}, {4, 5, 6}};
    struct bb_tuner_costs recorded;

    (void)state;
    choose(*costs, 7, 3);
    bb_tuner_begin_recording();
    bb_tuner_end_recording(&recorded);
    assert_false(recorded.known); /* costs before begin are not recorded */
    bb_tuner_begin_recording();
    choose(*costs, 7, 3);
    bb_tuner_end_recording(&recorded);
    assert_true(recorded.known && recorded.us[1][2] == 7 && recorded.us[4][0] == -1);
    assert_true(recorded.bytes == 1024 && !recorded.registered);
    bb_tuner_begin_recording();
    choose(*small, 2, 3);
    bb_tuner_end_recording(&recorded);
    assert_true(recorded.us[1][0] == 4 && recorded.us[2][0] == -1 && recorded.us[6][2] == -1);
}

/* A cost table of 8 algorithms and 4 protocols has longer rows; known algorithm/protocol pairs keep their indices. */
static void accepts_a_larger_table(void **state)
{
    const struct bb_algorithm_protocol wanted = {1, 2};
    float costs[8][4] = {{1, 2, 3, 4}, {5, 6, 7, 8}};
    struct bb_tuner_costs recorded;

    (void)state;
    bb_tuner_force(&wanted);
    bb_tuner_begin_recording();
    choose(*costs, 8, 4);
    bb_tuner_end_recording(&recorded);
    bb_tuner_force(NULL);
    assert_true(recorded.us[0][0] == 1 && recorded.us[1][2] == 7);
    for (int i = 0; i < 32; i++)
        assert_true(costs[i / 4][i % 4] == (i == 6 ? 7 : -1));
}

static void counts_attached_plugins_of_both_versions(void **state)
{
    const struct bb_tuner_v4 *v4 = find("ncclTunerPlugin_v4");
    void *a = NULL, *b = NULL;
    float costs[7][3] = {{1}};
    struct bb_tuner_costs recorded;

    (void)state;
    attach(&a);
    assert_int_equal(v4->init(4, 1, NULL, &b), ncclSuccess);
    assert_non_null(a);
    assert_non_null(b);
    bb_tuner_begin_recording();
    choose(*costs, 7, 3);
    bb_tuner_end_recording(&recorded);
    assert_true(recorded.ranks == 4 && recorded.nodes == 1);
    assert_int_equal(bb_tuner_attached(), 2);
    assert_int_equal(v4->finalize(b), ncclSuccess);
    assert_int_equal(((const struct bb_tuner_v5 *)find("ncclTunerPlugin_v5"))->finalize(a), ncclSuccess);
    assert_int_equal(bb_tuner_attached(), 0);
}

static void keeps_the_plugin_of_the_user(void **state)
{
    (void)state;
    setenv("NCCL_TUNER_PLUGIN", "libnccl-tuner-mine.so", 1);
    assert_false(bb_tuner_enable());
    assert_string_equal(getenv("NCCL_TUNER_PLUGIN"), "libnccl-tuner-mine.so");
    unsetenv("NCCL_TUNER_PLUGIN");
    assert_true(bb_tuner_enable());
    assert_string_equal(getenv("NCCL_TUNER_PLUGIN"), "STATIC_PLUGIN");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layouts_match_nccl),
        cmocka_unit_test(keeps_costs_without_a_request),
        cmocka_unit_test(request_disables_other_pairs),
        cmocka_unit_test(ignores_an_unavailable_request),
        cmocka_unit_test(records_costs_between_begin_and_end),
        cmocka_unit_test(accepts_a_larger_table),
        cmocka_unit_test(counts_attached_plugins_of_both_versions),
        cmocka_unit_test(keeps_the_plugin_of_the_user),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
