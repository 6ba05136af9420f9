/* test_grow.c - room for one more at every length. */
#include "bootstrap/base/grow.h"
#include "tests/bootstrap/capture.h"
#include "tests/check.h"

#include <stdint.h>
#include <stdlib.h>

static void elements_stay_while_the_array_grows(void **state)
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

static void a_new_array_is_zeroed(void **state)
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

static void a_new_array_begins_a_line(void **state)
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

/* Where the bytes cannot even be counted. */
static void too_many_lines_are_refused(void **state)
{
    struct capture said;
    uint64_t *array = NULL;
    const char *text;
    int rc;

    (void)state;
    capture_begin(&said);
    rc = BB_NEW_ALIGNED(array, SIZE_MAX / sizeof *array);
    text = capture_end(&said);
    free(array);
    assert_int_equal(rc, -BB_EFAIL);
    assert_non_null(strstr(text, "out of memory for"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elements_stay_while_the_array_grows), cmocka_unit_test(a_new_array_is_zeroed),
        cmocka_unit_test(a_new_array_begins_a_line), cmocka_unit_test(too_many_lines_are_refused)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
