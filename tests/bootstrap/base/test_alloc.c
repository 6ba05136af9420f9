/* test_alloc.c - growable, zeroed and aligned arrays, texts, and the end of a process without memory. */
#include "bootstrap/base/alloc.h"
#include "tests/bootstrap/capture.h"
#include "tests/check.h"

#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void growing_keeps_the_elements(void **state)
{
    int *array = NULL;

    (void)state;
    for (int n = 0; n < 1000; n++) {
        BB_GROW(array, n);
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
    BB_NEW(array, 1000);
    for (int n = 0; n < 1000; n++)
        assert_int_equal(array[n], 0);
    BB_NEW(none, 0);
    assert_non_null(none);
    free(array);
    free(none);
}

static void aligned_array_starts_at_a_cache_line(void **state)
{
    (void)state;
    for (int n = 0; n < 200; n += 13) {
        int *array;

        BB_NEW_ALIGNED(array, n);
        assert_int_equal((uintptr_t)array % 64, 0);
        for (int i = 0; i <= n; i++)
            assert_int_equal(array[i], 0);
        free(array);
    }
}

/* AddressSanitizer ends the process itself at such sizes, unless this option is set. */
const char *__asan_default_options(void);

const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}

static void end_with_status(int code)
{
    _exit(10 + code);
}

/* Sizes that no machine has, or whose number of bytes overflows size_t. */
static void allocate_too_much(int how)
{
    uint64_t *array = NULL;

    switch (how) {
    case 0:
        BB_NEW(array, SIZE_MAX / sizeof *array);
        break;
    case 1:
        BB_NEW_ALIGNED(array, SIZE_MAX / sizeof *array);
        break;
    case 2:
        BB_GROW(array, (SIZE_MAX >> 2) + 1);
        break;
    case 3:
        array = bb_resize(NULL, SIZE_MAX, sizeof *array);
        break;
    default:
        (void)!json_stringn_nocheck("", SIZE_MAX / 2);
        break;
    }
    free(array);
}

static void exhausted_memory_ends_the_process(void **state)
{
    (void)state;
    for (int how = 0; how < 5; how++)
        for (int guarded = 0; guarded <= 1; guarded++) {
            struct capture captured;
            const char *text;
            int status;
            pid_t child;

            capture_begin(&captured);
            child = fork();
            if (child == 0) {
                bb_memory_guard(guarded ? end_with_status : NULL);
                allocate_too_much(how);
                _exit(0);
            }
            assert_int_equal(waitpid(child, &status, 0), child);
            text = capture_end(&captured);
            assert_true(WIFEXITED(status));
            assert_int_equal(WEXITSTATUS(status), guarded ? 10 + BB_EFAIL : BB_EFAIL);
            text = strstr(text, "busbar: out of memory for"); /* after a warning of AddressSanitizer */
            assert_non_null(text);
            assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
        }
}

static void texts_are_copied_and_formatted(void **state)
{
    char *copy = bb_copy_text("two words"), *formatted = bb_format("%s: %d", copy, 7);

    (void)state;
    assert_string_equal(copy, "two words");
    assert_string_equal(formatted, "two words: 7");
    free(copy);
    free(formatted);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(growing_keeps_the_elements), cmocka_unit_test(new_array_is_zeroed),
        cmocka_unit_test(aligned_array_starts_at_a_cache_line), cmocka_unit_test(exhausted_memory_ends_the_process),
        cmocka_unit_test(texts_are_copied_and_formatted)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
