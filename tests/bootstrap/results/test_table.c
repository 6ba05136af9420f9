/* test_table.c - one list of fields produces heading, text row and JSON; JSON null and "-" mean "not applicable". */
#include "bootstrap/results/table.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

struct row {
    const char *name;
    char word[8];
    int root;
    size_t bytes;
    bool checked;
    double rate;
    struct bb_stats time_us;
    json_t *extra;
};

static json_t *twice(const void *row)
{
    return json_integer(2 * ((const struct row *)row)->root);
}

#define SHOWS(member) BB_SHOWS(struct row, member)
static const struct bb_field fields[] = {
    {"name", "name", "", 6, 0, SHOWS(name)},
    {NULL, "word", "", 5, 0, SHOWS(word)},
    {"root", "root", "(rank)", 6, 0, SHOWS(root), .none = "N/A"},
    {"bytes", "size", "(B)", 6, 0, SHOWS(bytes)},
    BB_NAMED(struct row, checked),
    {"rate", "rate", "(GB/s)", -1, BB_DIGITS_THAT_FIT, SHOWS(rate)},
    {"time_us", "time", "(us)", 6, 1, SHOWS(time_us)},
    {"twice", .value = twice},
    BB_NAMED(struct row, extra),
    {.key = "later"},
    {0},
};
static const struct row full = {"one", "abc", 3, 64, true, 1234.5, {.n = 1, .p50 = 2.25}, NULL};
static const struct row empty = {.root = -1, .rate = NAN};

static char *text_of(const struct row *row, bool units)
{
    static const int widths[] = {6};
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    struct bb_line line = {.out = out, .widths = widths};

    if (row)
        bb_line_row(&line, fields, row);
    else
        bb_line_heading(&line, fields, units);
    bb_line_end(&line);
    fclose(out);
    return text;
}

static void check_text(const struct row *row, bool units, const char *expected)
{
    char *text = text_of(row, units);

    assert_string_equal(text, expected);
    free(text);
}

static void text_columns_align_with_the_heading(void **state)
{
    (void)state;
    check_text(NULL, false, "# name   word    root    size    rate    time\n");
    check_text(NULL, true, "#              (rank)     (B)  (GB/s)    (us)\n");
    check_text(&full, false, "   one    abc       3      64  1234.5     2.2\n");
    check_text(&empty, false, "     -      -     N/A       0       -       -\n");
}

static void check_json(const struct row *row, const char *expected)
{
    json_t *object = json_object();
    char *text;

    bb_table_json(object, fields, row);
    json_object_del(object, "time_us");
    text = json_dumps(object, 0);
    assert_string_equal(text, expected);
    free(text);
    json_decref(object);
}

static void json_keys_are_in_field_order(void **state)
{
    struct row row = full;

    (void)state;
    check_json(&full,
               "{\"name\": \"one\", \"root\": 3, \"bytes\": 64, \"checked\": true, \"rate\": 1234.5, \"twice\": 6, "
               "\"later\": null}");
    check_json(&empty, "{\"name\": null, \"root\": null, \"bytes\": 0, \"checked\": false, \"rate\": null, \"twice\": "
                       "-2, \"later\": null}");
    row.extra = json_array();
    check_json(&row,
               "{\"name\": \"one\", \"root\": 3, \"bytes\": 64, \"checked\": true, \"rate\": 1234.5, \"twice\": 6, "
               "\"extra\": [], \"later\": null}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_columns_align_with_the_heading),
        cmocka_unit_test(json_keys_are_in_field_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
