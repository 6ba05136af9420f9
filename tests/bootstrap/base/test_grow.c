/* test_grow.c - growable, zeroed and aligned arrays. */
#include "bootstrap/base/grow.h"
#include "tests/bootstrap/capture.h"
#include "tests/check.h"

#include <stdint.h>
#include <stdlib.h>

static void growing_keeps_the_elements(void **state)
{
    int *array = NULL;

    (void)state;
    for (int n = 0; n < 1000; n++) {
        assert_int_equal(BB_GROW(array, n), 0);
        array[n] = n;
    }
    for (int n = 0; n < 1000; n++)
        assert_int_equal(array[n], n);
    free(array);
}

static void new_array_is_zeroed(void **state)
{
    int *array = NULL, *none = NULL;

    (void)state;
    assert_int_equal(BB_NEW(array, 1000), 0);
    for (int n = 0; n < 1000; n++)
        assert_int_equal(array[n], 0);
    assert_int_equal(BB_NEW(none, 0), 0);
    assert_non_null(none);
    free(array);
    free(none);
}

static void aligned_array_starts_at_a_cache_line(void **state)
{
    (void)state;
    for (int n = 0; n < 200; n += 13) {
        int *array;

        assert_int_equal(BB_NEW_ALIGNED(array, n), 0);
        assert_int_equal((uintptr_t)array % 64, 0);
        for (int i = 0; i <= n; i++)
            assert_int_equal(array[i], 0);
        free(array);
    }
}

/* The number of bytes overflows size_t. */
static void rejects_an_overflowing_size(void **state)
{
    struct capture captured;
    uint64_t *array = NULL;
    const char *text;
    int rc;

    (void)state;
    capture_begin(&captured);
    rc = BB_NEW_ALIGNED(array, SIZE_MAX / sizeof *array);
    text = capture_end(&captured);
    free(array);
    assert_int_equal(rc, -BB_EFAIL);
    assert_non_null(strstr(text, "out of memory for"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(growing_keeps_the_elements), cmocka_unit_test(new_array_is_zeroed),
        cmocka_unit_test(aligned_array_starts_at_a_cache_line), cmocka_unit_test(rejects_an_overflowing_size)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
