/* test_bench_options.c - the list of benchmark cases that a command line produces. */
#include "collectives/sweep/bench_options.h"
#include "tests/check.h"

enum { ARGS = 20, ROWS = 64 };

struct rows {
    struct bb_case c[ROWS];
    int n;
};

static int keep_case(void *arg, const struct bb_case *c)
{
    struct rows *rows = arg;

    assert_true(rows->n < ROWS);
    rows->c[rows->n++] = *c;
    return 0;
}

/* Parses "bench" followed by the arguments in `line`, which are separated by single spaces. */
static int parse(struct bb_sweep *sweep, const char *line)
{
    static char text[256];
    char *argv[ARGS] = {(char *)"bench"}, *remaining = text;
    struct bb_bench_options o;
    int argc = 1;

    snprintf(text, sizeof text, "%s", line);
    for (char *word; (word = strsep(&remaining, " "));)
        argv[argc++] = word;
    return bb_bench_parse(&o, sweep, argc, argv, stdout);
}

static void rows_of(const char *line, int ranks, struct rows *rows)
{
    struct bb_sweep s;

    rows->n = 0;
    assert_int_equal(parse(&s, line), 0);
    for (int i = 0; i < s.n_colls; i++)
        assert_int_equal(bb_sweep_each(&s, s.colls[i], ranks, keep_case, rows), 0);
    bb_bench_release_sweep(&s);
}

static void assert_counts(const struct rows *rows, int n, const size_t *counts)
{
    assert_int_equal(rows->n, n);
    for (int i = 0; i < n; i++)
        assert_int_equal(rows->c[i].count, counts[i]);
}

static void sizes_grow_by_factor_or_step(void **state)
{
    struct rows r;

    (void)state;
    rows_of("all_reduce -b 8 -e 64", 2, &r);
    assert_counts(&r, 4, (const size_t[]){2, 4, 8, 16});
    rows_of("all_reduce -b 8 -e 100 -f 3", 2, &r);
    assert_counts(&r, 3, (const size_t[]){2, 6, 18});
    rows_of("all_reduce -b 8 -e 24 -i 8", 2, &r);
    assert_counts(&r, 3, (const size_t[]){2, 4, 6});
    rows_of("all_reduce -b 8 -e 24 -i 8 -f 1", 2, &r);
    assert_counts(&r, 3, (const size_t[]){2, 4, 6});
    rows_of("all_reduce -b 8 -e 32 -i 8 -f 2", 2, &r);
    assert_counts(&r, 3, (const size_t[]){2, 4, 8});
    rows_of("all_reduce -b 1M -e 1M", 2, &r);
    assert_counts(&r, 1, (const size_t[]){262144});
    rows_of("all_reduce -b 1.5K -e 2K -d double", 2, &r);
    assert_counts(&r, 1, (const size_t[]){192});
    rows_of("all_reduce -b 4 -e 8 -f 1.1", 2, &r); /* grows by at least one byte: 4 5 6 7 8 */
    assert_counts(&r, 5, (const size_t[]){1, 1, 1, 1, 2});
    rows_of("all_gather -b 64 -e 128", 4, &r);
    assert_counts(&r, 2, (const size_t[]){4, 8});
}

static void combines_types_and_operations(void **state)
{
    struct rows r;

    (void)state;
    rows_of("all_reduce broadcast -b 8 -e 8 -o all", 2, &r);
    assert_int_equal(r.n, BB_REDOP_COUNT + 1); /* broadcast has no reduction operation */
    assert_int_equal(r.c[BB_REDOP_COUNT].redop, BB_COPY);
    assert_int_equal(r.c[BB_REDOP_COUNT].root, 0);
    assert_int_equal(r.c[0].root, -1);
    rows_of("reduce -b 8 -e 8 -d all -r 1", 2, &r);
    assert_int_equal(r.n, BB_DTYPE_COUNT);
    assert_int_equal(r.c[3].dtype, 3);
    assert_int_equal(r.c[3].root, 1);
    rows_of("all -b 64 -e 64", 2, &r);
    assert_int_equal(r.n, BB_COLL_KIND_COUNT);
}

/* Of three ranks, all_gather of 1 MiB moves and prints 1048560 bytes. */
static void accepts_limits_for_printed_sizes(void **state)
{
    struct rows r;

    (void)state;
    rows_of("all_gather -b 1M -e 1M --min-busbw 1048560:1", 3, &r);
    assert_int_equal(r.n, 1);
    rows_of("all_gather --sizes 2M,1M --min-busbw 1048560:1,2M:1", 3, &r);
    assert_int_equal(r.n, 2);
}

static void rejects_invalid_command_lines(void **state)
{
    static const char *const lines[] = {
        "allreduce",
        "-b 8",
        "all_reduce -d fp32",
        "all_reduce -o plus",
        "all_reduce -b -8",
        "all_reduce -b 8Q",
        "all_reduce -b 2M -e 1M",
        "all_reduce -b 1M -e 2M --min-busbw 4M:1",
        "all_reduce -b 1M -e 2M --min-busbw 2M:1,512K:1",
        "all_reduce --sizes 1M,2M --min-busbw 4M:1",
        "all_reduce -n 0",
        "broadcast -r -2",
        "broadcast -r any",
        "broadcast -r 1x",
        "all_reduce --sizes 8,",
        "all_reduce --sizes 8,,16",
        "all_reduce --sizes 8,1Q",
        "all_reduce --sizes 2000T",
        "all_reduce --sizes -8",
        "all_reduce --split XOR:3",
        "all_reduce --split MOD:0",
        "all_reduce --split AND:",
        "all_reduce --split AND:0x",
        "all_reduce --split AND:3z",
        "all_reduce --split AND:99999999999",
        "all_reduce -G 2 -z 1",
        "all_reduce -G 2 -y 1",
        "all_reduce -z 4",
        "all_reduce -a 4",
        "all_reduce -R 3",
        "all_reduce -x 3",
        "all_reduce -u -1",
        "all_reduce -m 0",
        "all_reduce --min-ctas 4 --max-ctas 2",
        "all_reduce --matrix /dev/null",
        "alltoallv -b 8 -e 8 --matrix /dev/null",
        "alltoallv -b 8 -e 8 --matrix /nowhere",
        "alltoallv -b 8 -e 16 --matrix /nowhere",
        "alltoallv --imbalance 1.5",
        "all_reduce all_reduce",
        "all_reduce --itters 3",
        "all_reduce -e 99999999999999999999",
        "all_reduce -e 2000T",
        "all_reduce -b 8 -e 16 -f 0.5",
        "all_reduce all",
        "all_reduce -n 3x",
    };
    struct bb_sweep s;

    (void)state;
    for (size_t i = 0; i < ROWS(lines); i++)
        assert_int_equal(parse(&s, lines[i]), -BB_EUSAGE);
}

static void accepts_explicit_sizes_and_roots(void **state)
{
    struct rows r;
    struct bb_sweep s;

    (void)state;
    rows_of("all_reduce --sizes 1K,8,3M", 2, &r);
    assert_counts(&r, 3, (const size_t[]){256, 2, 786432});
    rows_of("broadcast -b 8 -e 16 -r all", 3, &r);
    assert_int_equal(r.n, 6);
    for (int i = 0; i < 6; i++)
        assert_int_equal(r.c[i].root, i / 2);
    rows_of("reduce -b 8 -e 8 -r -1", 3, &r);
    assert_int_equal(r.n, 3);
    rows_of("all_reduce -b 8 -e 8 -r all", 3, &r);
    assert_int_equal(r.n, 1);
    assert_int_equal(parse(&s, "all_reduce --sizes 1K,8,3M"), 0);
    assert_int_equal(bb_sweep_largest(&s), 3 << 20);
}

/* The arena must have two slots for every case of the sweep. */
static void arena_suffices_for_all_cases(void **state)
{
    struct bb_sweep s;
    struct rows r;

    (void)state;
    assert_int_equal(parse(&s, "all -b 64 -e 70000 -f 3 -d all"), 0);
    for (int i = 0; i < s.n_colls; i++)
        for (int d = 0; d < BB_DTYPE_COUNT; d++) {
            struct bb_sweep one = s;
            one.dtypes[0] = d;
            one.n_dtypes = 1;
            r.n = 0;
            bb_sweep_each(&one, s.colls[i], 3, keep_case, &r);
            for (int k = 0; k < r.n; k++)
                for (int in_place = 0; in_place < 2; in_place++) {
                    r.c[k].in_place = in_place;
                    if (bb_case_possible(&r.c[k]))
                        assert_true(2 * bb_buffer_layout_of(&r.c[k], 2).slot_bytes <=
                                    bb_sweep_arena_bytes(&s, 3, false));
                    r.c[k].in_place = true; /* memory for two slots, even when memory is limited */
                    assert_true(2 * bb_buffer_layout_of(&r.c[k], 2).slot_bytes <= bb_sweep_arena_bytes(&s, 3, true));
                    r.c[k].in_place = false;
                }
        }
    bb_bench_release_sweep(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_grow_by_factor_or_step),     cmocka_unit_test(combines_types_and_operations),
        cmocka_unit_test(accepts_explicit_sizes_and_roots), cmocka_unit_test(rejects_invalid_command_lines),
        cmocka_unit_test(accepts_limits_for_printed_sizes), cmocka_unit_test(arena_suffices_for_all_cases),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
