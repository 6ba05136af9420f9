/* test_options.c - the options of a step have long names alone, each name once:
 * letters belong to bench and to a run. */
#include "proxies/registry/registry.h"
#include "proxies/step/config.h"
#include "tests/check.h"

static const struct bb_opt *const tables[] = {bb_proxy_options, bb_transformer_options, bb_sync_options,
                                              bb_tiles_options, bb_scaling_options};

static void names_and_no_letters(void **state)
{
    const char *names[200];
    int n = 0;

    (void)state;
    for (size_t t = 0; t < ROWS(tables); t++)
        for (const struct bb_opt *o = tables[t]; o->name; o++) {
            print_message("  --%s\n", o->name);
            assert_int_equal(o->letter, 0);
            assert_true(o->help && *o->help);
            for (int i = 0; i < n; i++)
                assert_string_not_equal(names[i], o->name);
            assert_true(n < (int)ROWS(names));
            names[n++] = o->name;
        }
    assert_true(n > 60);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(names_and_no_letters)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
