/*
 * test_tuner.c - plays NCCL: looks the plugin up in the program by name, as NCCL does with STATIC_PLUGIN, hands it a
 * table of costs and looks what is left of it. Layouts are written out as bytes, since a plugin that agrees with its
 * own header proves nothing.
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

static void layouts_are_nccls(void **state)
{
    const struct bb_tuner_v5 *v5 = find("ncclTunerPlugin_v5");
    const struct bb_tuner_v4 *v4 = find("ncclTunerPlugin_v4");
    const unsigned char *v6 = find("ncclTunerPlugin_v6");

    (void)state;
    assert_int_equal(sizeof(struct bb_tuner_v6), 40);
    assert_memory_equal(v6, v5, 32); /* then a function that may be absent */
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

/* What is not offered is -1; sizes of the table are NCCL's. */
static void ask(float *costs, int algorithms, int protocols)
{
    const struct bb_tuner_v5 *v5 = find("ncclTunerPlugin_v5");
    int channels = 99;

    assert_int_equal(v5->choose(NULL, 4, 1024, 1, (float **)(void *)costs, algorithms, protocols, 0, &channels),
                     ncclSuccess);
    assert_int_equal(channels, 99);
}

static void without_a_wish_nothing_changes(void **state)
{
    float costs[7][3] = {[1] = {5, 6, 7}, [4] = {-1, -1, 3}}, before[7][3];

    (void)state;
    memcpy(before, costs, sizeof(costs));
    bb_tuner_force(NULL);
    ask(*costs, 7, 3);
    assert_memory_equal(before, costs, sizeof(costs));
}

static void a_wish_leaves_one_entry(void **state)
{
    const struct bb_combination wanted = bb_combination_of("NVLS", "SIMPLE");
    float costs[7][3] = {[1] = {5, 6, 7}, [4] = {-1, -1, 3}};

    (void)state;
    assert_int_equal(wanted.algorithm, 4);
    assert_int_equal(wanted.protocol, 2);
    bb_tuner_force(&wanted);
    ask(*costs, 7, 3);
    for (int i = 0; i < 21; i++)
        assert_true(costs[i / 3][i % 3] == (i == 14 ? 3 : -1));
    bb_tuner_force(NULL);
}

/* Not offered, or not even in the table of an NCCL with fewer algorithms: it chooses itself. */
static void a_wish_that_cannot_be_is_none(void **state)
{
    const struct bb_combination pat = bb_combination_of("PAT", "SIMPLE"), unknown = bb_combination_of("PAT", "MAGIC");
    float costs[7][3] = {[1] = {5, 6, 7}, [6] = {-1, -1, -1}}, few[2][3] = {{1, 2, 3}, {4, 5, 6}}, before[7][3];

    (void)state;
    memcpy(before, costs, sizeof(costs));
    bb_tuner_force(&pat);
    ask(*costs, 7, 3);
    assert_memory_equal(before, costs, sizeof(costs));
    ask(*few, 2, 3);
    assert_true(few[0][0] == 1 && few[1][2] == 6);
    assert_int_equal(unknown.protocol, -1);
    bb_tuner_force(&unknown);
    ask(*costs, 7, 3);
    assert_memory_equal(before, costs, sizeof(costs));
    bb_tuner_force(NULL);
}

static void estimates_are_recorded_between_begin_and_end(void **state)
{
    float costs[7][3] = {[1] = {5, 6, 7}, [4] = {-1, -1, 3}}, few[2][3] = {{1, 2, 3}, {4, 5, 6}};
    struct bb_tuner_costs recorded;

    (void)state;
    ask(*costs, 7, 3);
    bb_tuner_begin_recording();
    bb_tuner_end_recording(&recorded);
    assert_false(recorded.known); /* what came before is not remembered */
    bb_tuner_begin_recording();
    ask(*costs, 7, 3);
    bb_tuner_end_recording(&recorded);
    assert_true(recorded.known && recorded.us[1][2] == 7 && recorded.us[4][0] == -1);
    bb_tuner_begin_recording();
    ask(*few, 2, 3);
    bb_tuner_end_recording(&recorded);
    assert_true(recorded.us[1][0] == 4 && recorded.us[2][0] == -1 && recorded.us[6][2] == -1);
}

/* Eight algorithms and four protocols: the rows are longer, the names stay where they are. */
static void a_larger_table_keeps_its_rows_apart(void **state)
{
    const struct bb_combination wanted = {1, 2};
    float costs[8][4] = {{1, 2, 3, 4}, {5, 6, 7, 8}};
    struct bb_tuner_costs recorded;

    (void)state;
    bb_tuner_force(&wanted);
    bb_tuner_begin_recording();
    ask(*costs, 8, 4);
    bb_tuner_end_recording(&recorded);
    bb_tuner_force(NULL);
    assert_true(recorded.us[0][0] == 1 && recorded.us[1][2] == 7);
    for (int i = 0; i < 32; i++)
        assert_true(costs[i / 4][i % 4] == (i == 6 ? 7 : -1));
}

static void both_versions_come_and_go(void **state)
{
    const struct bb_tuner_v4 *v4 = find("ncclTunerPlugin_v4");
    void *a = NULL, *b = NULL;

    (void)state;
    attach(&a);
    assert_int_equal(v4->init(4, 1, NULL, &b), ncclSuccess);
    assert_non_null(a);
    assert_non_null(b);
    assert_int_equal(bb_tuner_attached(), 2);
    assert_int_equal(v4->finalize(b), ncclSuccess);
    assert_int_equal(((const struct bb_tuner_v5 *)find("ncclTunerPlugin_v5"))->finalize(a), ncclSuccess);
    assert_int_equal(bb_tuner_attached(), 0);
}

static void a_users_own_plugin_is_left_alone(void **state)
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
        cmocka_unit_test(layouts_are_nccls),
        cmocka_unit_test(without_a_wish_nothing_changes),
        cmocka_unit_test(a_wish_leaves_one_entry),
        cmocka_unit_test(a_wish_that_cannot_be_is_none),
        cmocka_unit_test(estimates_are_recorded_between_begin_and_end),
        cmocka_unit_test(a_larger_table_keeps_its_rows_apart),
        cmocka_unit_test(both_versions_come_and_go),
        cmocka_unit_test(a_users_own_plugin_is_left_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
