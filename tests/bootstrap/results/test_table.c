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

struct formed {
    const char *role;
    int64_t step_ns;
    double idle_ns, bytes, hidden, parameters;
    int ranks;
};

#define FORMED(member) BB_SHOWS(struct formed, member)
static const struct bb_field formed_fields[] = {
    {"role", "role", "", 6, 0, FORMED(role), .form = BB_FORM_LEFT},
    {"step_us", "step", NULL, 8, 0, BB_SHOWS_NS(struct formed, step_ns)},
    {"idle_us", "idle", NULL, 8, 0, BB_SHOWS_NS(struct formed, idle_ns)},
    {"bytes", "payload", "", 8, 0, BB_SHOWS_WHOLE(struct formed, bytes), .form = BB_FORM_BYTES},
    {"hidden", "hidden", "", 6, 1, FORMED(hidden), .none = "- ", .form = BB_FORM_PERCENT},
    {NULL, "on ", " rank", 0, 0, FORMED(ranks), .form = BB_FORM_PLURAL},
    {"hidden_again", ", hidden ", "", 0, 0, FORMED(hidden), .form = BB_FORM_PERCENT},
    {"parameters", ", ", " parameters", 0, 0, BB_SHOWS_WHOLE(struct formed, parameters), .form = BB_FORM_THOUSANDS},
    {NULL, ", step ", "\n", 0, 0, BB_SHOWS_NS(struct formed, step_ns)},
    {0},
};
static const struct formed gpt = {"first", 1234500, 500, 2048, 0.725, 1234567, 2};
static const struct formed alone = {"one", -1, NAN, 0, NAN, 1, 1};

static void forms_show_times_bytes_percentages_and_counts(void **state)
{
    static const struct formed *const rows[] = {&gpt, &alone};
    const struct bb_time_unit ms = {"ms", 1000, 3};
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    struct bb_line line = {.out = out, .start = "# ", .gap = " ", .time = &ms};

    (void)state;
    bb_line_heading(&line, formed_fields, false);
    bb_line_end(&line);
    line.start = "  ";
    for (size_t i = 0; i < 2; i++) {
        bb_line_row(&line, formed_fields, rows[i]);
        bb_line_end(&line);
        bb_table_sentence(out, formed_fields, rows[i]);
    }
    line.time = NULL;
    bb_line_row(&line, formed_fields, &gpt);
    fclose(out);
    assert_string_equal(text, "# role    step ms  idle ms  payload hidden\n"
                              "  first     1.234    0.001    2 KiB  72.5%\n"
                              "on 2 ranks, hidden 72%, 1,234,567 parameters, step 1234.5 us\n"
                              "  one           -        -      0 B     -\n"
                              "on 1 rank, 1 parameters"
                              "  first  1234.5 us 0.500 us    2 KiB  72.5%");
    free(text);
}

static void times_in_ns_are_us_in_the_json_and_unknown_times_null(void **state)
{
    const struct formed rows[] = {gpt, alone};
    json_t *list = bb_table_list(formed_fields, rows, 2, sizeof(rows[0]));
    char *text = json_dumps(list, 0);

    (void)state;
    assert_string_equal(text,
                        "[{\"role\": \"first\", \"step_us\": 1234.5, \"idle_us\": 0.5, \"bytes\": 2048, \"hidden\": "
                        "0.72499999999999998, \"hidden_again\": 0.72499999999999998, \"parameters\": 1234567}, "
                        "{\"role\": \"one\", \"step_us\": null, \"idle_us\": null, \"bytes\": 0, \"hidden\": null, "
                        "\"hidden_again\": null, \"parameters\": 1}]");
    free(text);
    json_decref(list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_columns_align_with_the_heading),
        cmocka_unit_test(json_keys_are_in_field_order),
        cmocka_unit_test(forms_show_times_bytes_percentages_and_counts),
        cmocka_unit_test(times_in_ns_are_us_in_the_json_and_unknown_times_null),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
