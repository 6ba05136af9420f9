/* test_flat_table.c - JSON rows as CSV: which fields become columns, their order, and how cells are written. */
#include "bootstrap/results/flat_table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

/* Compares the CSV of `rows` (JSON texts, ended by NULL) of `document`, NULL for none, with `csv`. */
static void expect(const char *csv, const char *document, const char *const *rows)
{
    json_t *root = document ? json_loads(document, 0, NULL) : NULL, *list = json_array();
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    for (; *rows; rows++) {
        json_t *row = json_loads(*rows, 0, NULL);

        assert_non_null(row);
        json_array_append_new(list, row);
    }
    bb_flat_table_write(list, root, out);
    fclose(out);
    assert_string_equal(text, csv);
    free(text);
    json_decref(root);
    json_decref(list);
}

#define ROWS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void scalars_become_columns_named_by_path(void **state)
{
    (void)state;
    expect("name,time_us.p50,ok,none\nring,1.5,true,\ntree,2,false,\n", NULL,
           ROWS("{\"name\": \"ring\", \"time_us\": {\"p50\": 1.5}, \"ok\": true, \"none\": null}",
                "{\"name\": \"tree\", \"time_us\": {\"p50\": 2}, \"ok\": false, \"none\": null}"));
}

static void columns_are_the_union_of_all_rows(void **state)
{
    (void)state;
    expect("a,b\n1,\n2,3\n", NULL, ROWS("{\"a\": 1}", "{\"b\": 3, \"a\": 2}"));
}

static void null_object_adds_no_column(void **state)
{
    (void)state;
    expect("skewed,skew.x\n1,\n,4\n", NULL, ROWS("{\"skew\": null, \"skewed\": 1}", "{\"skew\": {\"x\": 4}}"));
    expect("skew\n\n", NULL, ROWS("{\"skew\": null}"));
}

static void intervals_become_two_columns(void **state)
{
    (void)state;
    expect("t.ci95.low,t.ci95.high,a.ci95_us.low,a.ci95_us.high\n1,2,,\n,,3,4\n", NULL,
           ROWS("{\"t\": {\"ci95\": [1, 2]}, \"a\": {\"ci95_us\": null}}",
                "{\"t\": {\"ci95\": null}, \"a\": {\"ci95_us\": [3, 4]}}"));
}

static void lists_of_strings_are_joined(void **state)
{
    (void)state;
    expect("flags,none,x\nemulated noisy,,1\n", NULL,
           ROWS("{\"flags\": [\"emulated\", \"noisy\"], \"none\": [], \"times\": [1, 2], \"rows\": [{}], \"x\": 1}"));
}

static void omits_the_environment(void **state)
{
    (void)state;
    expect("options.n,a.environment,x\n1,2,1\n", NULL,
           ROWS("{\"options\": {\"n\": 1}, \"environment\": {\"A\": \"b\"}, \"a\": {\"environment\": 2}, \"x\": 1}"));
}

/* The columns do not depend on which values the document has; a field of the row takes precedence. */
static void rows_identify_their_run(void **state)
{
#define IDENTITY "command,started,host,ranks,nodes,busbar,nccl.runtime,cuda.runtime,emulated,shared_gpu"

    (void)state;
    expect(
        "x," IDENTITY
        ",options.tp,options.set\n1,bench all_reduce,2026-01-31T12:00:00Z,a,8,2,0.1.0,2.28.9,13.0,false,,4,a=1 b=2\n",
        "{\"busbar\": \"0.1.0\", \"ranks\": 8, \"nodes\": 2, \"nccl\": {\"header\": \"2.27.1\", \"runtime\": "
        "\"2.28.9\"}, \"cuda\": {\"runtime\": \"13.0\"}, \"command\": [\"bench\", \"all_reduce\"], \"started\": "
        "\"2026-01-31T12:00:00Z\", \"devices\": [{\"host\": \"a\"}, {\"host\": \"b\"}], \"emulated\": false, "
        "\"options\": {\"tp\": 4, \"set\": [\"a=1\", \"b=2\"]}}",
        ROWS("{\"x\": 1}"));
    expect("ranks,command,started,host,nodes,busbar,nccl.runtime,cuda.runtime,emulated,shared_gpu\n2,,,,,,,,,\n4,,,,,,,"
           ",,\n",
           "{\"ranks\": 8}", ROWS("{\"ranks\": 2}", "{\"ranks\": 4}"));
}

static void quotes_cells_when_necessary(void **state)
{
    (void)state;
    expect("\"a,b\"\n\"say \"\"no\"\"\"\n\"two\nlines\"\nplain text\n", NULL,
           ROWS("{\"a,b\": \"say \\\"no\\\"\"}", "{\"a,b\": \"two\\nlines\"}", "{\"a,b\": \"plain text\"}"));
}

static void numbers_keep_twelve_digits(void **state)
{
    (void)state;
    expect("x\n123456789012\n9007199254740993\n0.1\n1e-09\n", NULL,
           ROWS("{\"x\": 123456789012.0}", "{\"x\": 9007199254740993}", "{\"x\": 0.1}", "{\"x\": 1e-9}"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scalars_become_columns_named_by_path),
        cmocka_unit_test(columns_are_the_union_of_all_rows),
        cmocka_unit_test(null_object_adds_no_column),
        cmocka_unit_test(intervals_become_two_columns),
        cmocka_unit_test(lists_of_strings_are_joined),
        cmocka_unit_test(omits_the_environment),
        cmocka_unit_test(rows_identify_their_run),
        cmocka_unit_test(quotes_cells_when_necessary),
        cmocka_unit_test(numbers_keep_twelve_digits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
