/* test_options.c - options of a step have only long names, and each name is unique, because letters belong to bench
 * and to the options of a run. A failed attempt of bb_smoke_fit prints nothing. */
#include "proxies/form/step/config.h"
#include "proxies/workloads/registry/registry.h"
#include "proxies/workloads/registry/smoke.h"
#include "tests/bootstrap/capture.h"
#include "tests/check.h"

static const struct bb_opt *const tables[] = {bb_proxy_options, bb_transformer_options, bb_sync_options,
                                              bb_tiles_options, bb_scaling_options};

static void options_have_unique_long_names_only(void **state)
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

/* CosmoFlow needs four ranks per replica, so 3 ranks do not fit. */
static void failed_smoke_fit_is_silent(void **state)
{
    const struct bb_proxy_config requested = {.ranks = 3, .dtype = "float"};
    const struct bb_proxy *proxy = bb_proxy_find("cosmoflow");
    struct bb_proxy_config fitted;
    struct bb_step step = {0};
    struct capture captured;

    (void)state;
    assert_non_null(proxy);
    capture_begin(&captured);
    assert_int_equal(bb_smoke_fit(proxy, &requested, &fitted, &step), -BB_EUSAGE);
    assert_int_equal(bb_err(BB_EUSAGE, "printed"), -BB_EUSAGE);
    assert_string_equal(capture_end(&captured), "busbar: printed\n");
    bb_step_release(&step);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(options_have_unique_long_names_only),
                                       cmocka_unit_test(failed_smoke_fit_is_silent)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
