/*
 * test_late_environment.c - a variable that is set late is visible to getenv, and the array environ, which other
 * threads may be reading, is not moved.
 */
#include "bootstrap/world/late_environment.h"
#include "tests/check.h"

#include <stdlib.h>

extern char **environ;

static int count_variables(void)
{
    int n = 0;

    while (environ[n])
        n++;
    return n;
}

static void overwrites_a_reserved_slot(void **state)
{
    char **table, *first;
    int n;

    (void)state;
    assert_int_equal(setenv("NCCL_PROTO", "LL", 1), 0);
    assert_int_equal(bb_late_environment_reserve(), 0);
    assert_int_equal(bb_late_environment_reserve(), 0); /* a second call has no effect */
    table = environ;
    first = environ[0];
    n = count_variables();
    assert_int_equal(bb_late_environment_set("NCCL_HOSTID", "busbar-7-1234"), 0);
    assert_int_equal(bb_late_environment_set("NCCL_PROTO", "Simple"), 0);
    assert_string_equal(getenv("NCCL_HOSTID"), "busbar-7-1234");
    assert_string_equal(getenv("NCCL_PROTO"), "LL"); /* a variable set by the user keeps its value */
    assert_ptr_equal(environ, table);
    assert_ptr_equal(environ[0], first);
    assert_int_equal(count_variables(), n);
}

/* Only a reserved slot is overwritten. */
static void keeps_existing_variables(void **state)
{
    char *before[1024];
    int n = count_variables(), changed = 0;

    (void)state;
    assert_true(n < (int)ROWS(before));
    for (int i = 0; i < n; i++)
        before[i] = strdup(environ[i]);
    assert_int_equal(bb_late_environment_set("NCCL_LATE", "1"), 0);
    for (int i = 0; i < n; i++) {
        if (strcmp(environ[i], before[i]) != 0) {
            assert_memory_equal(before[i], "_BUSBAR_LATE_", strlen("_BUSBAR_LATE_"));
            assert_string_equal(environ[i], "NCCL_LATE=1");
            changed++;
        }
        free(before[i]);
    }
    assert_int_equal(changed, 1);
}

/* Without a suitable slot (value too long, or all slots used) the variable is set with setenv. */
static void uses_setenv_without_a_suitable_slot(void **state)
{
    char longest[BB_LATE_VARIABLE_BYTES], name[16];

    (void)state;
    memset(longest, 'x', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = 0;
    assert_int_equal(bb_late_environment_set("NCCL_LONG", longest), 0);
    assert_string_equal(getenv("NCCL_LONG"), longest);
    for (int i = 0; i < BB_LATE_VARIABLES + 2; i++) {
        snprintf(name, sizeof(name), "LATE_%d", i);
        assert_int_equal(bb_late_environment_set(name, "1"), 0);
        assert_string_equal(getenv(name), "1");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(overwrites_a_reserved_slot),
                                       cmocka_unit_test(keeps_existing_variables),
                                       cmocka_unit_test(uses_setenv_without_a_suitable_slot)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
