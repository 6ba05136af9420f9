/* test_size_list.c - lists of sizes: order, units, limits and rejected items. */
#include "bootstrap/cli/size_list.h"
#include "tests/bootstrap/capture.h"
#include "tests/check.h"

static void parses_sizes_in_order(void **state)
{
    static const struct {
        const char *text;
        size_t min, bytes[3];
        int n;
        size_t max;
    } rows[] = {{"8", 1, {8}, 1, 8},
                {"32M,8,1K", 8, {32 << 20, 8, 1024}, 3, 32 << 20},
                {"8,1.5K", 1, {8, 1536}, 2, 1536},
                {"0", 0, {0}, 1, 0},
                {"5,5", 5, {5, 5}, 2, 5},
                {"1024T", 0, {(size_t)1 << 50}, 1, (size_t)1 << 50}};
    struct bb_sizes s = {.n = 7};

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        assert_int_equal(bb_sizes_parse(&s, "--sizes", rows[i].text, rows[i].min), 0);
        assert_int_equal(s.n, rows[i].n);
        assert_memory_equal(s.bytes, rows[i].bytes, sizeof(size_t) * (size_t)s.n);
        assert_true(bb_sizes_max(&s) == rows[i].max);
    }
    s.n = 0;
    assert_true(bb_sizes_max(&s) == 0);
}

/* The error is one line with the rejected item, the option and the accepted range. */
static void rejects_invalid_sizes(void **state)
{
    static const char *const rows[][2] = {
        {"8,x", "'x'"},
        {"", "''"},
        {"8,", "''"},
        {",8", "''"},
        {"7", "'7'"},
        {"1025T", "'1025T'"},
        {"8 K,1", "'8 K'"},
        {"-1", "'-1'"},
        {"1111111111111111111111111111111111111111111111111111111111111111",
         "'111111111111111111111111111111111111111111111111111111111111...'"},
    };
    struct capture captured;
    struct bb_sizes s;

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        char expected[200];

        snprintf(expected, sizeof(expected), "busbar: %s in --sizes is not a size; expected bytes from 8 to 1024T",
                 rows[i][1]);
        capture_begin(&captured);
        assert_int_equal(bb_sizes_parse(&s, "--sizes", rows[i][0], 8), -BB_EUSAGE);
        assert_non_null(strstr(capture_end(&captured), expected));
    }
}

static void rejects_more_than_256_sizes(void **state)
{
    char text[2 * 257 + 1] = "1";
    struct capture captured;
    struct bb_sizes s;

    (void)state;
    for (int n = 1; n < 256; n++)
        strcat(text, ",1");
    assert_int_equal(bb_sizes_parse(&s, "--sizes", text, 1), 0);
    assert_int_equal(s.n, 256);
    strcat(text, ",1");
    capture_begin(&captured);
    assert_int_equal(bb_sizes_parse(&s, "--sizes", text, 1), -BB_EUSAGE);
    assert_string_equal(capture_end(&captured), "busbar: --sizes has more than 256 sizes\n");
}

/* Reads every item, including empty ones. No list has no items. */
static void reads_items_in_order(void **state)
{
    const char *rest = "a,,b c,";
    char all[100] = "", word[BB_LIST_WORD];

    (void)state;
    while (bb_list_next(&rest, word))
        sprintf(all + strlen(all), "<%s>", word);
    assert_string_equal(all, "<a><><b c><>");
    assert_false(bb_list_next(&rest, word));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parses_sizes_in_order),
        cmocka_unit_test(rejects_invalid_sizes),
        cmocka_unit_test(rejects_more_than_256_sizes),
        cmocka_unit_test(reads_items_in_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
