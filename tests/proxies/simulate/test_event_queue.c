/* test_event_queue.c - moments come in their order, those of one moment in the order in which they were told. */
#include "tests/check.h"

#include "proxies/simulate/event_queue.h"

#include <stdlib.h>

enum { MANY = 5000 };

static void add_moment(struct bb_event_queue *a, double when_ns, int id)
{
    assert_int_equal(bb_event_queue_push(a, (struct bb_event){.when_ns = when_ns, .id = id}), 0);
}

static void one_moment_is_a_queue(void **state)
{
    static const double when_ns[] = {3, 1, 3, 0, 1, 3, 0.5};
    static const int order[] = {3, 6, 1, 4, 0, 2, 5};
    struct bb_event entry;
    struct bb_event_queue a = {0};
    int n = 0;

    (void)state;
    for (int i = 0; i < 7; i++)
        add_moment(&a, when_ns[i], i);
    do {
        while (bb_event_queue_pop(&a, &entry)) {
            assert_int_equal(entry.id, order[n++]);
            assert_true(entry.when_ns == a.now_ns);
        }
    } while (bb_event_queue_advance(&a) > 0);
    assert_int_equal(n, 7);
    add_moment(&a, 2, 8); /* what is past is due now */
    add_moment(&a, 3, 9);
    assert_true(bb_event_queue_pop(&a, &entry) && entry.id == 8);
    assert_true(bb_event_queue_pop(&a, &entry) && entry.id == 9 && !bb_event_queue_pop(&a, &entry));
    assert_int_equal(bb_event_queue_advance(&a), 0);
    bb_event_queue_release(&a);
}

/* Every moment calls for one or two more a little later, of which some meet to the last bit. */
static void time_never_goes_back(void **state)
{
    static const double later_ns[] = {0, 1e-9, 0.25, 1, 4096, 3e5, 1e9 + 1.0 / 3};
    struct bb_event entry, before = {.id = -1};
    struct bb_event_queue a = {0};
    int told = 1, taken = 0;

    (void)state;
    srand(7);
    add_moment(&a, 5, 0);
    do {
        for (; bb_event_queue_pop(&a, &entry); before = entry, taken++) {
            assert_true(entry.when_ns > before.when_ns || (entry.when_ns == before.when_ns && entry.id > before.id));
            for (int i = 0; i < 2 && told < MANY; i++, told++)
                add_moment(&a, entry.when_ns + later_ns[rand() % 7], told);
        }
    } while (bb_event_queue_advance(&a) > 0);
    assert_int_equal(taken, MANY);
    bb_event_queue_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_moment_is_a_queue),
        cmocka_unit_test(time_never_goes_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
