/*
 * test_nvtx.c - the NVTX wrapper with the recorder as the tool: ranges arrive with domain, category, payload, name and
 * depth; a wrapper without a domain has no effect.
 */
#include "cuda/device/nvtx.h"
#include "tests/check.h"

#include <unistd.h>

/* Reads and removes the recorder's file of this process. */
static void read_record(char *text, size_t capacity)
{
    char path[512];
    FILE *f;

    snprintf(path, sizeof(path), "%s.%d", getenv("NVTX_RECORD"), (int)getpid());
    f = fopen(path, "r");
    assert_non_null(f);
    text[fread(text, 1, capacity - 1, f)] = '\0';
    fclose(f);
    remove(path);
}

static void records_ranges(void **state)
{
    char text[4096];
    struct bb_nvtx n;
    struct bb_range step, op;

    (void)state;
    bb_nvtx_init(&n);
    assert_true(bb_nvtx_enabled(&n));
    bb_nvtx_category(&n, 3, "dp");
    bb_range_init(&n, &step, 0, 0, "step %d", 7);
    bb_range_init(&n, &op, 3, 78709760, "all_reduce dp 75.1 MiB");
    for (int i = 0; i < 2; i++) {
        bb_range_push(&n, &step);
        bb_range_push(&n, &op);
        bb_range_pop(&n);
        bb_range_pop(&n);
    }
    bb_range_push_once(&n, 3, 8, "row %d", 1);
    assert_int_equal(bb_part_begin(&n, BB_PART_CHECK), 0);
    assert_int_equal(bb_part_end(&n, BB_PART_CHECK), 0);
    bb_range_pop(&n);
    bb_nvtx_name_thread(&n, "issue");
    bb_nvtx_release(&n);
    read_record(text, sizeof(text));
    const char *strings = "string\twarm-up\nstring\tsamples\nstring\tcheck\n"
                          "string\tstep 7\nstring\tall_reduce dp 75.1 MiB\n";
    const char *row = "push\t0\tbusbar\tdp\t8\trow 1\npush\t1\tbusbar\t-\t0\tcheck\n"
                      "pop\t1\tbusbar\npop\t0\tbusbar\n";
    const char *once = "push\t0\tbusbar\t-\t0\tstep 7\n"
                       "push\t1\tbusbar\tdp\t78709760\tall_reduce dp 75.1 MiB\n"
                       "pop\t1\tbusbar\npop\t0\tbusbar\n";
    char expected[1024];
    snprintf(expected, sizeof(expected), "%s%s%s%sthread\tissue\n", strings, once, once, row);
    assert_string_equal(text, expected);
}

static void zero_domain_has_no_effect(void **state)
{
    struct bb_nvtx n = {0};
    struct bb_range r;

    (void)state;
    assert_false(bb_nvtx_enabled(&n));
    bb_range_init(&n, &r, 1, 8, "not recorded");
    assert_null(r.name);
    bb_range_push(&n, &r);
    bb_range_push_once(&n, 1, 8, "not recorded");
    bb_range_pop(&n);
    bb_nvtx_release(&n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(zero_domain_has_no_effect),
        cmocka_unit_test(records_ranges),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
