/*
 * test_profiler.c - plays NCCL: looks the plugin up in the program by name, as NCCL does with STATIC_PLUGIN, and calls
 * it in NCCL's order, from several threads. The layouts are written out here once more, as bytes, since a plugin that
 * agrees with its own header proves nothing.
 */
#include "collectives/session/profiler.h"
#include "collectives/session/profiler_plugin.h"
#include "tests/check.h"

#include <dlfcn.h>
#include <pthread.h>

enum { THREADS = 4, EVENTS = 20 };

static const struct bb_profiler_v5 *find_v5(void)
{
    void *self = dlopen(NULL, RTLD_NOW | RTLD_LOCAL);
    const struct bb_profiler_v5 *found = dlsym(self, "ncclProfiler_v5");

    assert_non_null(found);
    assert_non_null(dlsym(self, "ncclProfiler_v4"));
    assert_memory_equal(dlsym(self, "ncclProfiler_v6"), found, sizeof(*found));
    dlclose(self);
    return found;
}

/* Offsets on 64-bit machines, counted by hand from the documented order of the fields. */
static void layouts_are_nccls(void **state)
{
    (void)state;
    assert_int_equal(offsetof(struct bb_event_v5, parent), 8);
    assert_int_equal(offsetof(struct bb_event_v5, rank), 16);
    assert_int_equal(offsetof(struct bb_event_v5, coll), 24);
    assert_int_equal(offsetof(struct bb_event_v5, coll.function), 32);
    assert_int_equal(offsetof(struct bb_event_v5, coll.count), 56);
    assert_int_equal(offsetof(struct bb_event_v5, coll.root), 64);
    assert_int_equal(offsetof(struct bb_event_v5, coll.dtype), 72);
    assert_int_equal(offsetof(struct bb_event_v5, coll.channels), 80);
    assert_int_equal(offsetof(struct bb_event_v5, coll.warps), 81);
    assert_int_equal(offsetof(struct bb_event_v5, coll.algorithm), 88);
    assert_int_equal(offsetof(struct bb_event_v5, coll.protocol), 96);
    assert_int_equal(offsetof(struct bb_event_v5, p2p.peer), 56);
    assert_int_equal(offsetof(struct bb_event_v5, p2p.channels), 60);
    assert_int_equal(offsetof(struct bb_event_v4, parent), 8); /* after a type of one byte */
    assert_int_equal(offsetof(struct bb_event_v4, coll.algorithm), 88);
    assert_int_equal(offsetof(struct bb_event_v4, p2p.channels), 60);
    assert_int_equal(offsetof(struct bb_profiler_v5, finalize), 40);
}

static void tell_collective(void *context, const char *algorithm, const char *protocol, uint8_t channels)
{
    struct bb_event_v5 event = {.type = BB_EVENT_COLL};
    void *handle = &event;

    event.coll.algorithm = algorithm;
    event.coll.protocol = protocol;
    event.coll.channels = channels;
    event.coll.warps = 16;
    assert_int_equal(find_v5()->start(context, &handle, &event), ncclSuccess);
    assert_null(handle);
}

static void *attach(int *mask)
{
    void *context = NULL;

    assert_int_equal(find_v5()->init(&context, 7, mask, "world", 1, 4, 0, NULL), ncclSuccess);
    assert_non_null(context);
    return context;
}

static void only_a_pass_is_heard(void **state)
{
    struct bb_choice choice;
    int mask = 99;
    void *context;

    (void)state;
    assert_int_equal(bb_profiler_attached(), 0);
    bb_profiler_begin();
    bb_profiler_end(&choice);
    assert_int_equal(choice.kind, BB_CHOICE_NONE);
    context = attach(&mask);
    assert_int_equal(bb_profiler_attached(), 1);
    assert_int_equal(mask, 0);
    tell_collective(context, "TREE", "LL", 1); /* between passes: not for us */
    bb_profiler_begin();
    assert_int_equal(mask, 2 | 4);
    tell_collective(context, "RING", "SIMPLE", 8);
    tell_collective(context, "NVLS", "LL128", 24);
    bb_profiler_end(&choice);
    assert_int_equal(mask, 0);
    tell_collective(context, "TREE", "LL", 1);
    assert_int_equal(choice.kind, BB_CHOICE_COLLECTIVE);
    assert_string_equal(choice.algorithm, "NVLS");
    assert_string_equal(choice.protocol, "LL128");
    assert_int_equal(choice.channels, 24);
    assert_int_equal(choice.warps, 16);
    bb_profiler_begin(); /* an empty pass does not remember the last one */
    bb_profiler_end(&choice);
    assert_int_equal(choice.kind, BB_CHOICE_NONE);
    find_v5()->finalize(context);
    assert_int_equal(bb_profiler_attached(), 0);
}

static void a_new_communicator_joins_a_pass(void **state)
{
    struct bb_choice choice;
    int mask = 0, later = 0;
    void *one = attach(&mask), *two;

    (void)state;
    bb_profiler_begin();
    two = attach(&later);
    assert_int_equal(later, 6);
    bb_profiler_end(&choice);
    assert_int_equal(later, 0);
    find_v5()->finalize(one);
    find_v5()->finalize(two);
}

static void transfers_have_channels_only(void **state)
{
    struct bb_event_v5 event = {.type = BB_EVENT_P2P}, other = {.type = BB_EVENT_GROUP_API};
    struct bb_choice choice;
    int mask = 0;
    void *context = attach(&mask), *handle = &event;

    (void)state;
    bb_profiler_begin();
    for (int peer = 0; peer < 4; peer++) {
        event.p2p.peer = peer;
        event.p2p.channels = (uint8_t)(peer == 2 ? 16 : 4);
        find_v5()->start(context, &handle, &event);
    }
    find_v5()->start(context, &handle, &other); /* comes with the others, unasked */
    bb_profiler_end(&choice);
    assert_int_equal(choice.kind, BB_CHOICE_P2P);
    assert_int_equal(choice.channels, 16);
    assert_string_equal(choice.algorithm, "");
    find_v5()->finalize(context);
}

static void version_4_tells_the_same(void **state)
{
    const struct bb_profiler_v4 *v4 = dlsym(RTLD_DEFAULT, "ncclProfiler_v4");
    struct bb_event_v4 event = {.type = BB_EVENT_COLL};
    struct bb_choice choice;
    int mask = 5;
    void *context = NULL, *handle = &event;

    (void)state;
    event.coll.algorithm = "a word that is far too long for its field";
    event.coll.protocol = NULL;
    event.coll.channels = 2;
    assert_int_equal(v4->init(&context, &mask, NULL, 7, 1, 4, 0, NULL), ncclSuccess);
    bb_profiler_begin();
    v4->start(context, &handle, &event);
    assert_int_equal(v4->state(NULL, 22, NULL), ncclSuccess);
    assert_int_equal(v4->stop(NULL), ncclSuccess);
    bb_profiler_end(&choice);
    assert_string_equal(choice.algorithm, "a word that is far too ");
    assert_string_equal(choice.protocol, "");
    assert_int_equal(choice.channels, 2);
    v4->finalize(context);
}

struct teller {
    void *context;
    int number;
};

static const char *const algorithms[] = {"RING", "TREE", "NVLS", "COLLNET_DIRECT"};

/* An algorithm always with its own number of channels: a torn record would not fit together. */
static void *tell_many(void *arg)
{
    const struct teller *t = arg;

    for (int i = 0; i < EVENTS; i++)
        tell_collective(t->context, algorithms[t->number], "SIMPLE", (uint8_t)(10 + t->number));
    return NULL;
}

static void threads_do_not_mix(void **state)
{
    struct bb_choice choice;
    int mask = 0;
    void *context = attach(&mask);

    (void)state;
    for (int pass = 0; pass < 50; pass++) {
        pthread_t threads[THREADS];
        struct teller tellers[THREADS];
        int matching = 0;

        bb_profiler_begin();
        for (int i = 0; i < THREADS; i++) {
            tellers[i] = (struct teller){context, i};
            assert_int_equal(pthread_create(&threads[i], NULL, tell_many, &tellers[i]), 0);
        }
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
        bb_profiler_end(&choice);
        assert_int_equal(choice.kind, BB_CHOICE_COLLECTIVE);
        for (int i = 0; i < THREADS; i++)
            matching += strcmp(choice.algorithm, algorithms[i]) == 0 && choice.channels == 10 + i;
        assert_int_equal(matching, 1);
    }
    find_v5()->finalize(context);
}

static void too_many_events_are_no_danger(void **state)
{
    struct bb_choice choice;
    int mask = 0;
    void *context = attach(&mask);

    (void)state;
    bb_profiler_begin();
    for (int i = 0; i < 5000; i++)
        tell_collective(context, "RING", "LL", 3);
    bb_profiler_end(&choice);
    assert_string_equal(choice.algorithm, "RING");
    find_v5()->finalize(context);
}

static void a_users_own_plugin_stays(void **state)
{
    (void)state;
    setenv("NCCL_PROFILER_PLUGIN", "inspector", 1);
    assert_false(bb_profiler_enable());
    assert_string_equal(getenv("NCCL_PROFILER_PLUGIN"), "inspector");
    unsetenv("NCCL_PROFILER_PLUGIN");
    assert_true(bb_profiler_enable());
    assert_string_equal(getenv("NCCL_PROFILER_PLUGIN"), "STATIC_PLUGIN");
    assert_true(bb_profiler_enable());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layouts_are_nccls),
        cmocka_unit_test(only_a_pass_is_heard),
        cmocka_unit_test(a_new_communicator_joins_a_pass),
        cmocka_unit_test(transfers_have_channels_only),
        cmocka_unit_test(version_4_tells_the_same),
        cmocka_unit_test(threads_do_not_mix),
        cmocka_unit_test(too_many_events_are_no_danger),
        cmocka_unit_test(a_users_own_plugin_stays),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
