/* test_units.c - which texts the parsers of sizes, numbers and times accept and reject, and that random text is
 * safe. */
#include "bootstrap/base/units.h"
#include "tests/check.h"

#include <limits.h>
#include <math.h>

static void parses_sizes(void **state)
{
    static const struct {
        const char *text;
        size_t bytes;
    } good[] = {
        {"0", 0},
        {"8", 8},
        {"4K", 4096},
        {"4k", 4096},
        {"128M", 134217728},
        {"1.5G", 1610612736},
        {"80GB", 85899345920},
        {"80gib", 85899345920},
        {"2T", 2199023255552},
        {".5K", 512},
        {"1.K", 1024},
        {"0.3K", 307},
        {"007", 7},
        {"9007199254740993", 9007199254740993},
        {"9223372036854775807", 9223372036854775807},
        {"8388607T", 9223370937343148032},
    };

    (void)state;
    for (size_t i = 0; i < ROWS(good); i++) {
        size_t bytes = 1234;

        if (bb_parse_bytes(good[i].text, &bytes) || bytes != good[i].bytes)
            fail_msg("'%s' is %zu, expected %zu", good[i].text, bytes, good[i].bytes);
    }
}

static void rejects_invalid_sizes(void **state)
{
    static const char *const bad[] = {
        "",         " ",
        "-1",       "+1",
        "-0",       "K",
        ".",        ".K",
        "1 K",      " 1",
        "1 ",       "1Kb/s",
        "1B",       "1KiBs",
        "1Q",       "1e3",
        "0x10",     "1,5K",
        "8.5",      "8.0",
        "nan",      "inf",
        "1..5K",    "1.5.5K",
        "1KK",      "0.0001K",
        "\xff",     "9223372036854775808",
        "8388608T", "99999999999999999999999999999999",
        "1E",       "1\n",
    };

    (void)state;
    for (size_t i = 0; i < ROWS(bad); i++) {
        size_t bytes = 1234;

        if (bb_parse_bytes(bad[i], &bytes) != -BB_EUSAGE || bytes != 1234)
            fail_msg("'%s' is taken as %zu", bad[i], bytes);
    }
}

static void parses_integers(void **state)
{
    static const char *const bad[] = {"",    "-",           "1.0", "1K", " 1",  "1 ", "+1",
                                      "0x1", "99999999999", "11",  "-6", "--1", "1-"};
    int value = 77;

    (void)state;
    assert_int_equal(bb_parse_int("-5", -5, 10, &value), 0);
    assert_int_equal(value, -5);
    assert_int_equal(bb_parse_int("010", -5, 10, &value), 0);
    assert_int_equal(value, 10);
    assert_int_equal(bb_parse_int("-2147483648", INT_MIN, INT_MAX, &value), 0);
    assert_int_equal(value, INT_MIN);
    value = 77;
    for (size_t i = 0; i < ROWS(bad); i++)
        if (bb_parse_int(bad[i], -5, 10, &value) != -BB_EUSAGE || value != 77)
            fail_msg("'%s' is taken as %d", bad[i], value);
}

static void parses_numbers(void **state)
{
    static const char *const bad[] = {"",   "-",   "nan", "inf", "-inf", "1e999", "0x1p3",
                                      "1f", "1,0", " 1",  "1 ",  "1e",   "e3",    "."};
    double value = 77;

    (void)state;
    assert_int_equal(bb_parse_double("-1.5e-3", &value), 0);
    assert_true(value == -1.5e-3);
    assert_int_equal(bb_parse_double("600", &value), 0);
    assert_true(value == 600);
    value = 77;
    for (size_t i = 0; i < ROWS(bad); i++)
        if (bb_parse_double(bad[i], &value) != -BB_EUSAGE || value != 77)
            fail_msg("'%s' is taken as %g", bad[i], value);
}

static void parses_counts(void **state)
{
    static const struct {
        const char *text;
        double count;
    } rows[] = {{"15T", 15e12}, {"300B", 300e9}, {"300g", 300e9}, {"1.5e13", 1.5e13}, {"2.5m", 2.5e6},
                {"7K", 7000},   {"1", 1},        {"1e3B", 1e12},  {"0.5", 0.5}};
    static const char *const bad[] = {"",   "T",     "15TB",   "15 T", "-1T", "0",
                                      "0B", "1e400", "9e307T", "15Q",  "0x5", "nan"};
    double count = 77;

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        assert_int_equal(bb_parse_count(rows[i].text, &count), 0);
        if (fabs(count - rows[i].count) > 1e-12 * rows[i].count)
            fail_msg("'%s' is taken as %g", rows[i].text, count);
    }
    count = 77;
    for (size_t i = 0; i < ROWS(bad); i++)
        if (bb_parse_count(bad[i], &count) != -BB_EUSAGE || count != 77)
            fail_msg("'%s' is taken as %g", bad[i], count);
}

static void parses_durations(void **state)
{
    static const struct {
        const char *text;
        double seconds;
    } rows[] = {{"40s", 40}, {"1.5h", 5400}, {"10m", 600}, {"2d", 172800}, {"3ms", 3e-3}, {"5us", 5e-6}, {"0s", 0}};
    static const char *const bad[] = {"", "5", "s", "5 s", "-5s", "1e3s", "5min", "1.2.3s", "5S", "infs"};
    double seconds = 77;

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        assert_int_equal(bb_parse_duration(rows[i].text, &seconds), 0);
        if (fabs(seconds - rows[i].seconds) > 1e-12 * rows[i].seconds)
            fail_msg("'%s' is taken as %g", rows[i].text, seconds);
    }
    seconds = 77;
    for (size_t i = 0; i < ROWS(bad); i++)
        if (bb_parse_duration(bad[i], &seconds) != -BB_EUSAGE || seconds != 77)
            fail_msg("'%s' is taken as %g", bad[i], seconds);
}

/* Random text never crashes the parser; accepted text is a number followed by at most one unit letter. */
static void random_text_does_not_crash_the_size_parser(void **state)
{
    static const char alphabet[] = "0123456789.KMGTkmgtBbei+- ex\xff";

    (void)state;
    srandom(20261120);
    for (int n = 0; n < 200000; n++) {
        char text[24];
        int length = (int)(random() % 8);
        size_t bytes;

        for (int i = 0; i < length; i++)
            text[i] = alphabet[random() % (long)(sizeof(alphabet) - 1)];
        text[length] = '\0';
        if (bb_parse_bytes(text, &bytes) == 0) {
            size_t digits = strspn(text, "0123456789.");

            assert_true(digits > 0 && strlen(text) - digits <= 3);
            assert_true(bytes < (size_t)INT64_MAX);
        }
    }
}

static void formats_sizes(void **state)
{
    static const struct {
        size_t bytes;
        const char *text;
    } cases[] = {
        {0, "0 B"},
        {1023, "1023 B"},
        {1024, "1 KiB"},
        {1536, "1.5 KiB"},
        {4096, "4 KiB"},
        {1048524, "1023.9 KiB"},
        {1048575, "1 MiB"},
        {78748876, "75.1 MiB"},
        {1073741824, "1 GiB"},
        {1099511627776, "1 TiB"},
        {SIZE_MAX, "16 EiB"},
    };

    (void)state;
    for (size_t i = 0; i < ROWS(cases); i++) {
        char buf[BB_BYTES_TEXT];

        assert_string_equal(bb_format_bytes(cases[i].bytes, buf), cases[i].text);
        assert_string_equal(bb_format_bytes_beside(cases[i].bytes, cases[i].bytes, buf), cases[i].text);
        assert_string_equal(bb_format_bytes_beside(cases[i].bytes, cases[i].bytes / 2 + 1, buf), cases[i].text);
    }
    for (size_t n = 1; n < 1u << 20; n = 3 * n + 1) { /* unequal by n bytes */
        char texts[2][BB_BYTES_TEXT];

        bb_format_bytes_beside((79ul << 30) + n, 79ul << 30, texts[0]);
        assert_string_not_equal(texts[0], bb_format_bytes(79ul << 30, texts[1]));
    }
}

static void suggests_the_nearest_word(void **state)
{
    static const char *const words[] = {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce",
                                        "sendrecv",   "sum"};
    static const struct {
        const char *word, *near;
    } cases[] = {
        {"allreduce", "all_reduce"},
        {"ALL_REDUCE", "all_reduce"},
        {"al_lreduce", "all_reduce"},
        {"all_gater", "all_gather"},
        {"broad", "broadcast"},
        {"redcue", "reduce"},
        {"sendrev", "sendrecv"},
        {"smu", "sum"},
        {"flibberty", NULL},
        {"", NULL},
        {"x", NULL},
        {"all_reduce", "all_reduce"},
    };
    static const char *const types[] = {"int32", "half", "float", "bfloat16"};
    char long_word[300];

    (void)state;
    assert_string_equal(bb_nearest_word("bf16", types, ROWS(types)), "bfloat16");
    assert_string_equal(bb_nearest_word("modle", (const char *const[]){"mode", "model"}, 2), "model");
    assert_string_equal(bb_nearest_word("FP16", types, ROWS(types)), "half");
    assert_string_equal(bb_nearest_word("int", types, ROWS(types)), "int32");
    assert_null(bb_nearest_word("bf16", words, ROWS(words))); /* no suggestion: the closest type is not in this list */
    for (size_t i = 0; i < ROWS(cases); i++) {
        const char *near = bb_nearest_word(cases[i].word, words, ROWS(words));

        if (cases[i].near ? !near || strcmp(near, cases[i].near) : near != NULL)
            fail_msg("'%s' is near '%s'", cases[i].word, near ? near : "nothing");
    }
    memset(long_word, 'a', sizeof(long_word) - 1);
    long_word[sizeof(long_word) - 1] = '\0';
    assert_null(bb_nearest_word(long_word, words, ROWS(words)));
    assert_null(bb_nearest_word("sum", words, 0));
}

static void formats_times(void **state)
{
    static const struct {
        double us;
        const char *text;
    } cases[] = {{0, "0.0 us"},          {0.25, "0.250 us"},       {9.9994, "9.999 us"},       {12.5, "12.5 us"},
                 {9999.94, "9999.9 us"}, {10000, "10.000 ms"},     {1887878.4, "1887.878 ms"}, {9999999, "9999.999 ms"},
                 {1e7, "10.000 s"},      {38523319.5, "38.523 s"}, {-12.34, "-12.3 us"},       {-20000, "-20.000 ms"}};
    char text[BB_TIME_TEXT];

    (void)state;
    for (size_t i = 0; i < ROWS(cases); i++)
        assert_string_equal(bb_format_time(cases[i].us, text), cases[i].text);
    assert_string_equal(bb_time_unit(9999).name, "us");
    assert_string_equal(bb_time_unit(10000).name, "ms");
    assert_true(bb_time_unit(1e7).us == 1e6);
}

static void names_differ_only_in_case_and_separators(void **state)
{
    static const struct {
        const char *name, *word;
        bool same;
    } rows[] = {{"llama3_70b", "LLaMA3-70B", true}, {"all_reduce", "allreduce", true}, {"a-b", "a.b_", true},
                {"all_reduce", "all_reduc", false}, {"gpt3", "gpt3x", false},          {"gpt3", "-", false}};

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_int_equal(bb_is_same_name(rows[i].name, rows[i].word, strlen(rows[i].word)), rows[i].same);
    assert_true(bb_is_same_name("tp", "tp=8", 2));
}

static void formats_thousands(void **state)
{
    static const struct {
        double number;
        const char *text;
    } rows[] = {{0, "0"}, {999, "999"}, {1000, "1,000"}, {-127, "-127"}, {-1234567, "-1,234,567"}};
    char text[BB_THOUSANDS_TEXT];

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_string_equal(bb_format_thousands(rows[i].number, text), rows[i].text);
}

static void shows_on_which_side_of_a_limit_a_value_is(void **state)
{
    (void)state;
    assert_int_equal(bb_decimals_beside(5.2, 5, 1), 1);
    assert_int_equal(bb_decimals_beside(5.04, 5, 1), 2);
    assert_int_equal(bb_decimals_beside(4.996, 5, 1), 1); /* 5.0 is not above 5 */
    assert_int_equal(bb_decimals_beside(5.04, NAN, 1), 1);
    assert_int_equal(bb_decimals_beside(5 + 1e-12, 5, 1), 9);
}

static void cuts_texts_at_words(void **state)
{
    static const struct {
        const char *text;
        size_t most, length;
    } rows[] = {{"a few words", 11, 11},
                {"a few words", 10, 5},
                {"a few words", 5, 5},
                {"oneword", 3, 3},
                {"a longword", 6, 6},
                {"\xc3\xa4\xc3\xb6", 3, 2},
                {"", 0, 0}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(bb_cut_length(rows[i].text, rows[i].most), rows[i].length);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_differ_only_in_case_and_separators),
        cmocka_unit_test(parses_sizes),
        cmocka_unit_test(rejects_invalid_sizes),
        cmocka_unit_test(parses_integers),
        cmocka_unit_test(parses_numbers),
        cmocka_unit_test(parses_counts),
        cmocka_unit_test(parses_durations),
        cmocka_unit_test(random_text_does_not_crash_the_size_parser),
        cmocka_unit_test(formats_times),
        cmocka_unit_test(formats_sizes),
        cmocka_unit_test(formats_thousands),
        cmocka_unit_test(shows_on_which_side_of_a_limit_a_value_is),
        cmocka_unit_test(suggests_the_nearest_word),
        cmocka_unit_test(cuts_texts_at_words),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
