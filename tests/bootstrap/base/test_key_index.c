/* test_key_index.c - keys are numbered in the order of their first insertion, for any number of keys. */
#include "bootstrap/base/key_index.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define MANY 5000

static void numbers_keys_in_order_of_insertion(void **state)
{
    struct bb_key_index x = {.key_bytes = 3 * sizeof(int)};

    (void)state;
    assert_int_equal(bb_key_index_find(&x, (const int[]){0, 0, 0}), -1);
    for (int twice = 0; twice < 2; twice++)
        for (int i = 0; i < MANY; i++)
            assert_int_equal(bb_key_index_add(&x, (const int[]){i % 7, -i, i * i}), i);
    assert_int_equal(x.n, MANY);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(bb_key_index_find(&x, (const int[]){i % 7, -i, i * i}), i);
    assert_int_equal(bb_key_index_find(&x, (const int[]){1, 1, 1}), -1);
    bb_key_index_release(&x);
}

static void clear_restarts_the_numbering(void **state)
{
    struct bb_key_index x = {.key_bytes = sizeof(uint64_t)};
    uint64_t first = 3, second = 4;

    (void)state;
    assert_int_equal(bb_key_index_add(&x, &first), 0);
    bb_key_index_clear(&x);
    assert_int_equal(bb_key_index_find(&x, &first), -1);
    assert_int_equal(bb_key_index_add(&x, &second), 0);
    assert_int_equal(bb_key_index_add(&x, &first), 1);
    bb_key_index_release(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(numbers_keys_in_order_of_insertion),
                                       cmocka_unit_test(clear_restarts_the_numbering)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
