/* test_event_queue.c - events are popped in the order of their times; events of equal time in the order in which
 * they were added. */
#include "tests/check.h"

#include "proxies/simulation/simulate/engine/event_queue.h"

#include <stdlib.h>

enum { MANY = 5000 };

static void add_event(struct bb_event_queue *a, double when_ns, int id)
{
    bb_event_queue_push(a, (struct bb_event){.when_ns = when_ns, .id = id});
}

static void events_of_equal_time_are_fifo(void **state)
{
    static const double when_ns[] = {3, 1, 3, 0, 1, 3, 0.5};
    static const int order[] = {3, 6, 1, 4, 0, 2, 5};
    struct bb_event entry;
    struct bb_event_queue a = {0};
    int n = 0;

    (void)state;
    for (int i = 0; i < 7; i++)
        add_event(&a, when_ns[i], i);
    do {
        while (bb_event_queue_pop(&a, &entry)) {
            assert_int_equal(entry.id, order[n++]);
            assert_true(entry.when_ns == a.now_ns);
        }
    } while (bb_event_queue_advance(&a));
    assert_int_equal(n, 7);
    add_event(&a, 2, 8); /* an event in the past is due now */
    add_event(&a, 3, 9);
    assert_true(bb_event_queue_pop(&a, &entry) && entry.id == 8);
    assert_true(bb_event_queue_pop(&a, &entry) && entry.id == 9 && !bb_event_queue_pop(&a, &entry));
    assert_false(bb_event_queue_advance(&a));
    bb_event_queue_release(&a);
}

/* Each event adds up to two later events; some of their times are equal to the last bit. */
static void time_is_monotone(void **state)
{
    static const double later_ns[] = {0, 1e-9, 0.25, 1, 4096, 3e5, 1e9 + 1.0 / 3};
    struct bb_event entry, before = {.id = -1};
    struct bb_event_queue a = {0};
    int n_added = 1, n_popped = 0;

    (void)state;
    srand(7);
    add_event(&a, 5, 0);
    do {
        for (; bb_event_queue_pop(&a, &entry); before = entry, n_popped++) {
            assert_true(entry.when_ns > before.when_ns || (entry.when_ns == before.when_ns && entry.id > before.id));
            for (int i = 0; i < 2 && n_added < MANY; i++, n_added++)
                add_event(&a, entry.when_ns + later_ns[rand() % 7], n_added);
        }
    } while (bb_event_queue_advance(&a));
    assert_int_equal(n_popped, MANY);
    bb_event_queue_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_of_equal_time_are_fifo),
        cmocka_unit_test(time_is_monotone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
