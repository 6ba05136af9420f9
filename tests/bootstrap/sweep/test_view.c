/* test_view.c - filters and sorts table rows; each comparison has values below, at and above its limit. */
#include "bootstrap/sweep/view.h"
#include "tests/check.h"

#include <stdlib.h>

/* Columns: name (unique), bytes (number), algo (text), step_us (a time with statistics such as .p50). */
static const char table[] = "[[\"a\", 1, \"ring\", 10.5], [\"b\", 2, \"tree\", null], [\"c\", 1024, \"ring\", 7],"
                            " [\"d\", null, null, 7], [\"e\", 1024, \"auto\", 9]]";

/* Returns the names of the remaining rows in their order, stored in `text`, or "rejected". */
static const char *names_after(const struct bb_sweep_view *v, char text[16])
{
    struct bb_sweep_runs none = {.n = 0};
    struct bb_gathered g = {.combinations = &none,
                            .columns = json_loads("[\"name\", \"bytes\", \"algo\", \"step_us\"]", 0, NULL),
                            .rows = json_loads(table, 0, NULL)};
    int rc = bb_view_apply(v, &g);
    size_t n = rc == 0 ? json_array_size(g.rows) : 0;

    for (size_t r = 0; r < n; r++)
        text[r] = json_string_value(json_array_get(json_array_get(g.rows, r), 0))[0];
    text[n] = '\0';
    if (rc == 0)
        assert_int_equal(g.not_shown, 5 - n);
    json_decref(g.columns);
    json_decref(g.rows);
    free(g.left_out);
    return rc == 0 ? text : "rejected";
}

static void filters_rows_by_condition(void **state)
{
    static const char *const rows[][2] = {
        {"bytes<2", "a"},
        {"bytes<=2", "ab"},
        {"bytes>2", "ce"},
        {"bytes>=2", "bce"},
        {"bytes=2", "b"},
        {"bytes==2", "b"},
        {"bytes!=2", "ace"},
        {"bytes=1K", "ce"},
        {" bytes >= 1 K", "rejected"},
        {"bytes > 1,bytes < 1K", "b"},
        {"algo=ring", "ac"},
        {"algo = ring", "ac"},
        {"algo!=ring", "be"},
        {"algo=rin", ""},
        {"algo!=x", "abce"},
        {"algo=1", ""},
        {"algo<3", ""},
        {"algo>=3", ""},
        {"algo<ring", "rejected"},
        {"step_us<=9", "cde"},
        {"step_us.p50<=9", "cde"},
        {"step_us.max<=9", "rejected"},
        {"step<9", "rejected"},
        {"name=b,bytes=2", "b"},
        {"name=b,bytes=1", ""},
        {"bytes", "rejected"},
        {"=3", "rejected"},
        {"bytes<", "rejected"},
        {"bytes<x", "rejected"},
        {"bytes=x", ""},
        {"bytes!=x", "abce"},
    };
    char text[16];

    (void)state;
    bb_err_mute(true);
    for (size_t i = 0; i < ROWS(rows); i++) {
        print_message("  %s\n", rows[i][0]);
        assert_string_equal(names_after(&(struct bb_sweep_view){.where = rows[i][0]}, text), rows[i][1]);
    }
    bb_err_mute(false);
}

/* Sixteen conditions are accepted, seventeen are rejected. */
static void accepts_at_most_sixteen_conditions(void **state)
{
    char where[200] = "bytes>0", text[16];

    (void)state;
    for (int n = 1; n < 16; n++)
        strcat(where, ",bytes>0");
    assert_string_equal(names_after(&(struct bb_sweep_view){.where = where}, text), "abce");
    strcat(where, ",bytes>0");
    bb_err_mute(true);
    assert_string_equal(names_after(&(struct bb_sweep_view){.where = where}, text), "rejected");
    bb_err_mute(false);
}

/* Rows without a value come last, ascending and descending; equal rows keep their order. */
static void sorts_and_limits_rows(void **state)
{
    static const struct {
        struct bb_sweep_view view;
        const char *names;
    } rows[] = {
        {{NULL, NULL, 0}, "abcde"},           {{"bytes", NULL, 0}, "abced"}, {{"-bytes", NULL, 0}, "cebad"},
        {{"algo", NULL, 0}, "eacbd"},         {{"-algo", NULL, 0}, "baced"}, {{"step_us", NULL, 0}, "cdeab"},
        {{"-step_us.p50", NULL, 0}, "aecdb"}, {{"name", NULL, 2}, "ab"},     {{"-name", NULL, 1}, "e"},
        {{"step_us", "bytes>=1K", 0}, "ce"},  {{NULL, NULL, 5}, "abcde"},    {{NULL, NULL, 4}, "abcd"},
        {{NULL, NULL, 9}, "abcde"},
    };
    char text[16];

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        print_message("  %s %d\n", rows[i].view.sort ? rows[i].view.sort : "-", rows[i].view.top);
        assert_string_equal(names_after(&rows[i].view, text), rows[i].names);
    }
    bb_err_mute(true);
    assert_string_equal(names_after(&(struct bb_sweep_view){.sort = "nothing"}, text), "rejected");
    bb_err_mute(false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(filters_rows_by_condition),
        cmocka_unit_test(accepts_at_most_sixteen_conditions),
        cmocka_unit_test(sorts_and_limits_rows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
