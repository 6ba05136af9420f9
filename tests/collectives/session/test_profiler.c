/*
 * test_profiler.c - calls the profiler plugin like NCCL: looks up the plugin's symbol in the program, as NCCL does for
 * STATIC_PLUGIN, and calls its functions in NCCL's order from several threads. Structure layouts are checked against
 * literal offsets, because agreement with the plugin's own header proves nothing.
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
static void layouts_match_nccl(void **state)
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
    assert_int_equal(offsetof(struct bb_event_v5, coll.kernel), 112);
    assert_int_equal(offsetof(struct bb_event_v5, coll.symmetric), 120);
    assert_int_equal(offsetof(struct bb_event_v5, p2p.peer), 56);
    assert_int_equal(offsetof(struct bb_event_v5, p2p.channels), 60);
    assert_int_equal(offsetof(struct bb_event_v4, parent), 8); /* after a type of one byte */
    assert_int_equal(offsetof(struct bb_event_v4, coll.algorithm), 88);
    assert_int_equal(offsetof(struct bb_event_v4, p2p.channels), 60);
    assert_int_equal(offsetof(struct bb_profiler_v5, finalize), 40);
}

static void start_collective_event(void *context, const char *algorithm, const char *protocol, uint8_t channels)
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

/* Event type of version 6: bit 12. */
static void start_copies_event(void *context)
{
    struct bb_event_v5 event = {.type = 1 << 12};
    void *handle = &event;

    assert_int_equal(find_v5()->start(context, &handle, &event), ncclSuccess);
    assert_null(handle);
}

/* Only version 7 has the kernel's name. */
static void start_symmetric_event(void *context)
{
    struct bb_event_v5 event = {.type = BB_EVENT_COLL};
    const struct bb_profiler_v5 *v7 = dlsym(RTLD_DEFAULT, "ncclProfiler_v7");
    void *handle = &event;

    event.coll.kernel = "AllGather_LSA";
    event.coll.symmetric = true;
    assert_non_null(v7);
    assert_int_equal(v7->start(context, &handle, &event), ncclSuccess);
    assert_null(handle);
}

static void *attach(int *mask)
{
    void *context = NULL;

    assert_int_equal(find_v5()->init(&context, 7, mask, "world", 1, 4, 0, NULL), ncclSuccess);
    assert_non_null(context);
    return context;
}

static void records_only_between_begin_and_end(void **state)
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
    start_collective_event(context, "TREE", "LL", 1); /* not recording: ignored */
    bb_profiler_begin();
    assert_int_equal(mask, 2 | 4 | 1 << 12);
    start_collective_event(context, "RING", "SIMPLE", 8);
    start_collective_event(context, "NVLS", "LL128", 24);
    bb_profiler_end(&choice);
    assert_int_equal(mask, 0);
    start_collective_event(context, "TREE", "LL", 1);
    assert_int_equal(choice.kind, BB_CHOICE_COLLECTIVE);
    assert_string_equal(choice.algorithm, "NVLS");
    assert_string_equal(choice.protocol, "LL128");
    assert_int_equal(choice.channels, 24);
    assert_int_equal(choice.warps, 16);
    bb_profiler_begin();
    start_copies_event(context);
    bb_profiler_end(&choice);
    assert_true(choice.kind == BB_CHOICE_NONE && choice.copies);
    bb_profiler_begin();
    start_symmetric_event(context);
    bb_profiler_end(&choice);
    assert_true(choice.kind == BB_CHOICE_NONE && choice.symmetric);
    assert_string_equal(choice.algorithm, "AllGather_LSA");
    bb_profiler_begin(); /* an empty recording does not contain the previous choice */
    bb_profiler_end(&choice);
    assert_true(choice.kind == BB_CHOICE_NONE && !choice.copies && !choice.symmetric);
    find_v5()->finalize(context);
    assert_int_equal(bb_profiler_attached(), 0);
}

static void new_communicator_joins_a_recording(void **state)
{
    struct bb_choice choice;
    int mask = 0, later = 0;
    void *one = attach(&mask), *two;

    (void)state;
    bb_profiler_begin();
    two = attach(&later);
    assert_int_equal(later, 2 | 4 | 1 << 12);
    bb_profiler_end(&choice);
    assert_int_equal(later, 0);
    find_v5()->finalize(one);
    find_v5()->finalize(two);
}

static void p2p_events_have_only_channels(void **state)
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
    find_v5()->start(context, &handle, &other); /* NCCL also delivers events that were not requested */
    bb_profiler_end(&choice);
    assert_int_equal(choice.kind, BB_CHOICE_P2P);
    assert_int_equal(choice.channels, 16);
    assert_string_equal(choice.algorithm, "");
    find_v5()->finalize(context);
}

static void version_4_records_the_same(void **state)
{
    const struct bb_profiler_v4 *v4 = dlsym(RTLD_DEFAULT, "ncclProfiler_v4");
    struct bb_event_v4 event = {.type = BB_EVENT_COLL};
    struct bb_choice choice;
    int mask = 5;
    void *context = NULL, *handle = &event;

    (void)state;
    event.coll.algorithm = "a text that is far too long for its field";
    event.coll.protocol = NULL;
    event.coll.channels = 2;
    assert_int_equal(v4->init(&context, &mask, NULL, 7, 1, 4, 0, NULL), ncclSuccess);
    bb_profiler_begin();
    v4->start(context, &handle, &event);
    assert_int_equal(v4->state(NULL, 22, NULL), ncclSuccess);
    assert_int_equal(v4->stop(NULL), ncclSuccess);
    bb_profiler_end(&choice);
    assert_string_equal(choice.algorithm, "a text that is far too ");
    assert_string_equal(choice.protocol, "");
    assert_int_equal(choice.channels, 2);
    v4->finalize(context);
}

struct event_thread {
    void *context;
    int number;
};

static const char *const algorithms[] = {"RING", "TREE", "NVLS", "COLLNET_DIRECT"};

/* Each algorithm has its own number of channels, so a torn record would be detected. */
static void *start_many_events(void *arg)
{
    const struct event_thread *t = arg;

    for (int i = 0; i < EVENTS; i++)
        start_collective_event(t->context, algorithms[t->number], "SIMPLE", (uint8_t)(10 + t->number));
    return NULL;
}

static void concurrent_events_are_not_torn(void **state)
{
    struct bb_choice choice;
    int mask = 0;
    void *context = attach(&mask);

    (void)state;
    for (int recording = 0; recording < 50; recording++) {
        pthread_t threads[THREADS];
        struct event_thread event_threads[THREADS];
        int matching = 0;

        bb_profiler_begin();
        for (int i = 0; i < THREADS; i++) {
            event_threads[i] = (struct event_thread){context, i};
            assert_int_equal(pthread_create(&threads[i], NULL, start_many_events, &event_threads[i]), 0);
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

static void too_many_events_do_not_overflow(void **state)
{
    struct bb_choice choice;
    int mask = 0;
    void *context = attach(&mask);

    (void)state;
    bb_profiler_begin();
    for (int i = 0; i < 5000; i++)
        start_collective_event(context, "RING", "LL", 3);
    bb_profiler_end(&choice);
    assert_string_equal(choice.algorithm, "RING");
    find_v5()->finalize(context);
}

static void keeps_the_plugin_of_the_user(void **state)
{
    (void)state;
    setenv("NCCL_PROFILER_PLUGIN", "inspector", 1);
    assert_non_null(bb_profiler_enable());
    assert_string_equal(getenv("NCCL_PROFILER_PLUGIN"), "inspector");
    unsetenv("NCCL_PROFILER_PLUGIN");
    assert_null(bb_profiler_enable());
    assert_string_equal(getenv("NCCL_PROFILER_PLUGIN"), "STATIC_PLUGIN");
    assert_null(bb_profiler_enable());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layouts_match_nccl),
        cmocka_unit_test(records_only_between_begin_and_end),
        cmocka_unit_test(new_communicator_joins_a_recording),
        cmocka_unit_test(p2p_events_have_only_channels),
        cmocka_unit_test(version_4_records_the_same),
        cmocka_unit_test(concurrent_events_are_not_torn),
        cmocka_unit_test(too_many_events_do_not_overflow),
        cmocka_unit_test(keeps_the_plugin_of_the_user),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
