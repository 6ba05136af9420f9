/* test_json_read.c - reads JSON fields by a table and reports invalid fields. */
#include "bootstrap/base/json_read.h"

#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

struct link {
    int lanes;
    double gbps, times[2], total;
    const char *name;
    size_t counts[2];
};

#define AT(member) offsetof(struct link, member)

static const struct bb_json_field fields[] = {BB_FIELD("lanes", BB_JSON_WHOLE, AT(lanes), .min = 1, .max = 16),
                                              BB_FIELD("intra.gbps", BB_JSON_NUMBER, AT(gbps)),
                                              BB_FIELD("intra.times", BB_JSON_NUMBERS, AT(times), .n = 2),
                                              BB_FIELD("name", BB_JSON_TEXT, AT(name)),
                                              BB_FIELD("about", BB_JSON_ANY, 0),
                                              BB_FIELD("totals.sum", BB_JSON_TOTAL, AT(total)),
                                              BB_FIELD("totals.counts", BB_JSON_COUNT_TOTALS, AT(counts), .n = 2),
                                              {0}};

#define GOOD                                                                                                           \
    "{'lanes': 4, 'name': 'x', 'intra': {'gbps': 2.5, 'times': [1, 2]}, 'totals': {'sum': 7, 'counts': [8, 9]}, "      \
    "'about': {'any': 1}, '_c': 1}"

/* Reads GOOD with `from` replaced by `to`. In both texts ' stands for ". */
static int read_changed(const char *from, const char *to, struct link *link)
{
    const char *at = strstr(GOOD, from);
    char text[512];
    json_t *root;
    int rc;

    *link = (struct link){.total = 7, .counts = {8, 9}};
    assert_non_null(at);
    snprintf(text, sizeof(text), "%.*s%s%s", (int)(at - GOOD), GOOD, to, at + strlen(from));
    for (char *c = text; *c; c++)
        *c = *c == '\'' ? '"' : *c;
    root = json_loads(text, 0, NULL);
    assert_non_null(root);
    rc = bb_json_read(root, "file", fields, link);
    if (rc == 0)
        rc = bb_json_reject_unknown(root, "file", fields, "");
    json_decref(root);
    return rc;
}

static void stores_fields_at_their_offsets(void **state)
{
    struct link link;

    (void)state;
    assert_int_equal(read_changed("'x'", "'y'", &link), 0);
    assert_int_equal(link.lanes, 4);
    assert_true(link.gbps == 2.5 && link.times[0] == 1 && link.times[1] == 2);
}

static void rejects_invalid_fields(void **state)
{
    static const char *const changes[][2] = {{"'lanes': 4", "'lanes': 17"},
                                             {"'lanes': 4", "'lanes': 0"},
                                             {"'lanes': 4", "'lanes': 1.5"},
                                             {"'lanes': 4", "'lane': 4"},
                                             {"2.5", "'a'"},
                                             {"[1, 2]", "[1]"},
                                             {"[1, 2]", "[1, -2]"},
                                             {"'sum': 7", "'sum': 8"},
                                             {"[8, 9]", "[8, 8]"},
                                             {"'intra'", "'inter'"},
                                             {"'_c'", "'c'"},
                                             {"'x'", "3"}};
    struct link link;

    (void)state;
    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++)
        assert_int_equal(read_changed(changes[i][0], changes[i][1], &link), -BB_EUSAGE);
}

/* Boundary values are accepted: numbers and totals from 0, whole numbers from the row's minimum to its maximum. */
static void accepts_boundary_values(void **state)
{
    static const char *const changes[][2] = {
        {"'lanes': 4", "'lanes': 1"}, {"'lanes': 4", "'lanes': 16"}, {"2.5", "0"}, {"[1, 2]", "[0, 0]"}};
    const struct bb_json_field total = BB_FIELD("sum", BB_JSON_TOTAL, 0);
    double computed_total = 0;
    struct link link;

    (void)state;
    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++)
        assert_int_equal(read_changed(changes[i][0], changes[i][1], &link), 0);
    for (int given = -1; given <= 1; given++) {
        json_t *object = json_pack("{s:i}", "sum", given);

        assert_int_equal(bb_json_read_field(object, "file", &total, &computed_total), given == 0 ? 0 : -BB_EUSAGE);
        json_decref(object);
    }
}

static int load_text(const char *text, json_t **root)
{
    char path[] = "json_read.XXXXXX";
    int file = mkstemp(path), rc;

    assert_int_equal(write(file, text, strlen(text)), (ssize_t)strlen(text));
    close(file);
    rc = bb_json_load(path, root);
    unlink(path);
    return rc;
}

static void loads_and_rejects_files(void **state)
{
    json_t *root;

    (void)state;
    assert_int_equal(load_text("{\"a\": 1}", &root), 0);
    assert_int_equal(json_integer_value(json_object_get(root, "a")), 1);
    json_decref(root);
    assert_int_equal(load_text("{\"a\": 1, \"a\": 2}", &root), -BB_EUSAGE);
    assert_null(root);
    assert_int_equal(load_text("{\"a\": 1", &root), -BB_EUSAGE);
    assert_int_equal(load_text("\xef\xbb\xbf{\"a\": 2}", &root), 0); /* the byte order mark of UTF-8 */
    json_decref(root);
    assert_int_equal(load_text("\xef\xbb{}", &root), -BB_EUSAGE);
    assert_int_equal(load_text("\xff\xfe{", &root), -BB_EUSAGE);
    assert_int_equal(bb_json_load("/nowhere/x.json", &root), -BB_EUSAGE);
    assert_null(root);
}

/* Starts a process that opens the pipe `path`, waits for `before_ms` and writes JSON. */
static void write_later(const char *path, int before_ms)
{
    if (fork() == 0) {
        const int fd = open(path, O_WRONLY);

        (void)poll(NULL, 0, before_ms);
        _exit(write(fd, "{\"a\": 1}", 8) != 8);
    }
}

/* A FIFO is read if a process writes to it, even if the data comes late; without a writer it is an error, after 2 s. */
static void reads_pipes_but_does_not_wait_for_a_writer_without_end(void **state)
{
    char folder[] = "json_read.XXXXXX", path[64], name[32];
    int ends[2], late_ms[] = {0, 300, 2500};
    json_t *root;

    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/fifo", folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    for (size_t i = 0; i < sizeof(late_ms) / sizeof(*late_ms); i++) {
        write_later(path, late_ms[i]);
        assert_int_equal(bb_json_load(path, &root), 0);
        assert_int_equal(json_integer_value(json_object_get(root, "a")), 1);
        json_decref(root);
        (void)wait(NULL);
    }
    assert_int_equal(bb_json_load(path, &root), -BB_EUSAGE);
    unlink(path);
    rmdir(folder);
    assert_int_equal(pipe(ends), 0); /* as <(COMMAND) whose process has ended */
    assert_int_equal(write(ends[1], "{}", 2), 2);
    close(ends[1]);
    snprintf(name, sizeof(name), "/dev/fd/%d", ends[0]);
    assert_int_equal(bb_json_load(name, &root), 0);
    json_decref(root);
    close(ends[0]);
    assert_int_equal(bb_json_load("/", &root), -BB_EUSAGE);
}

static void blanks_control_characters(void **state)
{
    json_t *root;

    (void)state;
    assert_int_equal(
        load_text("{\"a\\u001b\": [\"\\u0007x\\u007f\", {\"k\": \"\\u0080\\u009f\\u00a0\\u00e9\"}], \"n\": 1}", &root),
        0);
    bb_json_blank(root);
    assert_int_equal(json_object_size(root), 2);
    assert_string_equal(json_string_value(json_array_get(json_object_get(root, "a "), 0)), " x ");
    assert_string_equal(json_string_value(json_object_get(json_array_get(json_object_get(root, "a "), 1), "k")),
                        "    \xc2\xa0\xc3\xa9");
    json_decref(root);
    bb_json_blank(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(stores_fields_at_their_offsets),
                                       cmocka_unit_test(rejects_invalid_fields),
                                       cmocka_unit_test(accepts_boundary_values),
                                       cmocka_unit_test(loads_and_rejects_files),
                                       cmocka_unit_test(reads_pipes_but_does_not_wait_for_a_writer_without_end),
                                       cmocka_unit_test(blanks_control_characters)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
