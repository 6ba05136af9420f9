/* test_document.c - a results file whose disk fails or that another process damages: no row is lost. */
#include "bootstrap/results/document.h"
#include "tests/bootstrap/capture.h"
#include "tests/check.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static char folder[] = "/tmp/bb_document_XXXXXX", path[64], moved[64];
static char synced[4096]; /* content of the file at each fsync() */
static bool fail_fsync;

static const char *content(const char *file)
{
    static char text[4096];
    int fd = open(file, O_RDONLY);
    ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);

    text[n > 0 ? n : 0] = '\0';
    if (fd >= 0)
        close(fd);
    return text;
}

/* Replaces fsync() of the C library. */
int fsync(int fd)
{
    (void)fd;
    snprintf(synced + strlen(synced), sizeof(synced) - strlen(synced), "%s", content(path));
    errno = EIO;
    return fail_fsync ? -1 : 0;
}

static int make_folder(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof(path), "%s/x.json", folder);
    snprintf(moved, sizeof(moved), "%s.moved", folder);
    signal(SIGXFSZ, SIG_IGN);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder); /* fails if a test left another file */
}

/* Opens a document of the rows 0 to n - 1. */
static void open_with_rows(struct bb_document *d, int n)
{
    json_t *root = json_pack("{s:s, s:[], s:s, s:i}", "schema", "test/1", "results", "status", "running", "after", 7);

    assert_int_equal(bb_document_open(d, root, path), 0);
    for (int i = 0; i < n; i++)
        assert_int_equal(bb_document_add(d, json_pack("{s:i}", "row", i)), 0);
}

static void add_row(struct bb_document *d, int i)
{
    assert_int_equal(bb_document_add(d, json_pack("{s:i}", "row", i)), 0);
}

/* The file is valid and has the rows 0 to n - 1 and the status as its last field. */
static void check_file(const char *file, int n, const char *status)
{
    json_t *root = json_load_file(file, 0, NULL);
    const json_t *rows = json_object_get(root, "results");
    char end[64];

    assert_non_null(root);
    assert_int_equal(json_array_size(rows), n);
    for (int i = 0; i < n; i++)
        assert_int_equal(json_integer_value(json_object_get(json_array_get(rows, (size_t)i), "row")), i);
    assert_int_equal(json_integer_value(json_object_get(root, "after")), 7);
    snprintf(end, sizeof(end), "\"status\": \"%s\"\n}\n", status);
    assert_non_null(strstr(content(file), end));
    json_decref(root);
}

static int finish(struct bb_document *d, const char *status)
{
    int rc;

    bb_document_set_status(d, status);
    rc = bb_document_finish(d);
    bb_document_release(d);
    return rc;
}

static int lines_of(const char *text)
{
    int n = 0;

    for (; *text; text++)
        n += *text == '\n';
    return n;
}

/* Returns the only line of stderr since capture_begin(). */
static const char *only_line(struct capture *captured)
{
    const char *text = capture_end(captured);

    assert_int_equal(lines_of(text), 1);
    return text;
}

static void shortened_file_is_written_again_with_the_next_row(void **state)
{
    struct bb_document d;
    struct capture captured;
    char expected[200];

    (void)state;
    open_with_rows(&d, 3);
    capture_begin(&captured);
    for (int i = 3; i < 6; i++) {
        assert_int_equal(truncate(path, i == 3 ? 0 : 40), 0);
        add_row(&d, i);
        check_file(path, i + 1, "running");
    }
    assert_int_equal(finish(&d, "ok"), -BB_EFAIL);
    snprintf(expected, sizeof(expected),
             "busbar: results: %s was shortened by another process during the run; all rows were written again\n",
             path);
    assert_string_equal(only_line(&captured), expected);
    check_file(path, 6, "failed");
}

static void shortened_file_is_written_again_at_the_end(void **state)
{
    struct bb_document d;
    struct capture captured;

    (void)state;
    open_with_rows(&d, 3);
    assert_int_equal(truncate(path, 1), 0);
    capture_begin(&captured);
    assert_int_equal(finish(&d, "timeout"), 0);
    assert_non_null(strstr(only_line(&captured), "warning: results: "));
    check_file(path, 3, "timeout");
}

/* The file has its length, but the bytes of the rows are lost, as after `cp other FILE`. */
static void changed_file_is_written_again_at_the_end(void **state)
{
    struct bb_document d;
    struct capture captured;
    struct stat before;

    (void)state;
    open_with_rows(&d, 3);
    assert_int_equal(stat(path, &before), 0);
    assert_int_equal(truncate(path, 0), 0);
    assert_int_equal(truncate(path, before.st_size), 0);
    capture_begin(&captured);
    assert_int_equal(finish(&d, "ok"), -BB_EFAIL);
    assert_non_null(strstr(only_line(&captured), "was changed by another process during the run"));
    check_file(path, 3, "failed");
}

/* Text that another process appended is removed at the end. */
static void appended_text_is_removed_at_the_end(void **state)
{
    struct bb_document d;
    FILE *file;

    (void)state;
    open_with_rows(&d, 2);
    file = fopen(path, "a");
    assert_true(fputs("appended", file) >= 0 && fclose(file) == 0);
    assert_int_equal(finish(&d, "ok"), 0);
    check_file(path, 2, "ok");
    assert_null(strstr(content(path), "appended"));
}

static void replaced_file_is_replaced_at_the_end(void **state)
{
    struct bb_document d;
    char other[80];

    (void)state;
    snprintf(other, sizeof(other), "%s/other", folder);
    open_with_rows(&d, 2);
    fclose(fopen(other, "w"));
    assert_int_equal(rename(other, path), 0);
    add_row(&d, 2);
    assert_string_equal(content(path), "");
    assert_int_equal(finish(&d, "ok"), 0);
    check_file(path, 3, "ok");
}

/* The folder has another name, so the shortened file cannot be replaced: one warning, and one error at the end. */
static void damage_that_cannot_be_repaired_is_an_error(void **state)
{
    struct bb_document d;
    struct capture captured;
    char there[80], *text, *error;

    (void)state;
    open_with_rows(&d, 2);
    snprintf(there, sizeof(there), "%s/x.json", moved);
    assert_int_equal(rename(folder, moved), 0);
    assert_int_equal(truncate(there, 3), 0);
    capture_begin(&captured);
    for (int i = 2; i < 6; i++) {
        add_row(&d, i);
        usleep(20000); /* far more than 20 times the duration of the failed write, so the next row is a retry */
    }
    assert_int_equal(bb_document_sync(&d), -BB_EFAIL);
    assert_int_equal(finish(&d, "failed"), -BB_EFAIL); /* reported already */
    text = (char *)capture_end(&captured);
    assert_int_equal(lines_of(text), 2);
    assert_non_null(strstr(text, "busbar: warning: results: "));
    error = strstr(text, "\nbusbar: cannot write the results: ");
    assert_non_null(error);
    assert_non_null(strstr(error, "x.json: No such file or directory\n"));
    assert_int_equal(rename(moved, folder), 0);
}

/* The folder is back before the end: the rows were retried, only a warning was printed. */
static void repaired_disk_leaves_only_a_warning(void **state)
{
    struct bb_document d;
    struct capture captured;
    char expected[160];

    (void)state;
    open_with_rows(&d, 2);
    assert_int_equal(unlink(path) | rename(folder, moved), 0);
    capture_begin(&captured);
    for (int i = 2; i < 6; i++)
        add_row(&d, i);
    assert_int_equal(rename(moved, folder), 0);
    assert_int_equal(finish(&d, "ok"), 0);
    snprintf(expected, sizeof(expected), "busbar: warning: results: %s: No such file or directory; retrying\n", path);
    assert_string_equal(only_line(&captured), expected);
    check_file(path, 6, "ok");
}

/* The disk is full until the end: the file keeps all rows that fit, and the run fails. */
static void full_disk_keeps_the_saved_rows(void **state)
{
    struct rlimit before, limit;
    struct bb_document d;
    struct capture captured;
    char *text;

    (void)state;
    open_with_rows(&d, 20); /* the limit also applies to the captured stderr, which is shorter */
    getrlimit(RLIMIT_FSIZE, &before);
    limit = (struct rlimit){.rlim_cur = strlen(content(path)) + 7, .rlim_max = before.rlim_max};
    capture_begin(&captured);
    setrlimit(RLIMIT_FSIZE, &limit);
    for (int i = 20; i < 24; i++)
        add_row(&d, i);
    check_file(path, 20, "running");
    bb_document_set_status(&d, "ok");
    assert_int_equal(bb_document_finish(&d), -BB_EFAIL);
    setrlimit(RLIMIT_FSIZE, &before);
    text = (char *)capture_end(&captured);
    assert_int_equal(lines_of(text), 2);
    assert_non_null(strstr(text, "File too large; retrying\n"));
    assert_non_null(strstr(text, "\nbusbar: cannot write the results: "));
    check_file(path, 20, "failed");
    bb_document_release(&d);
}

/* The fields after the rows do not fit: the file keeps the rows and the status, and the reason if that fits. */
static void full_disk_keeps_the_rows_without_long_fields(void **state)
{
    static const struct {
        rlim_t room; /* bytes beyond the first file */
        const char *known, *reason;
    } cases[] = {{7, NULL, NULL}, {500, NULL, ": File too large"}, {500, "rank 2 is lost", "rank 2 is lost"}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rlimit before, limit;
        struct bb_document d;
        struct capture captured;
        char text[4000];
        const char *reason;
        json_t *root;

        memset(text, 'x', sizeof(text));
        (void)unlink(path);
        open_with_rows(&d, 20);
        getrlimit(RLIMIT_FSIZE, &before);
        limit = (struct rlimit){.rlim_cur = strlen(content(path)) + cases[i].room, .rlim_max = before.rlim_max};
        capture_begin(&captured);
        setrlimit(RLIMIT_FSIZE, &limit);
        assert_int_equal(bb_document_set(&d, "long", json_stringn(text, sizeof(text))), 0);
        root = json_load_file(path, 0, NULL);
        assert_string_equal(json_string_value(json_object_get(root, "status")), "running");
        json_decref(root);
        if (cases[i].known)
            json_object_set_new(d.root, "reason", json_string(cases[i].known));
        assert_int_equal(finish(&d, cases[i].known ? "failed" : "ok"), -BB_EFAIL);
        setrlimit(RLIMIT_FSIZE, &before);
        (void)capture_end(&captured);
        root = json_load_file(path, JSON_REJECT_DUPLICATES, NULL);
        assert_int_equal(json_array_size(json_object_get(root, "results")), 20);
        assert_string_equal(json_string_value(json_object_get(root, "status")), "failed");
        reason = json_string_value(json_object_get(root, "reason"));
        assert_true(cases[i].reason ? reason && strstr(reason, cases[i].reason) : !reason);
        json_decref(root);
    }
}

/* While the file is flushed, its status is never "ok"; the final file has it. */
static void status_ok_is_written_after_the_last_flush(void **state)
{
    struct bb_document d;

    (void)state;
    synced[0] = '\0';
    open_with_rows(&d, 1);
    assert_int_equal(finish(&d, "ok"), 0);
    assert_non_null(strstr(synced, "\"status\": \"running\""));
    assert_null(strstr(synced, "\"ok\""));
    check_file(path, 1, "ok");
}

static void failed_flush_sets_the_status_failed(void **state)
{
    struct bb_document d;
    struct capture captured;

    (void)state;
    open_with_rows(&d, 1);
    fail_fsync = true;
    capture_begin(&captured);
    assert_int_equal(finish(&d, "ok"), -BB_EFAIL);
    fail_fsync = false;
    assert_non_null(strstr(only_line(&captured), "cannot write the results"));
    check_file(path, 1, "failed");
}

/* The file of an earlier run has two rows. */
static void an_earlier_file_remains_until_the_first_row(void **state)
{
    struct bb_document d;

    (void)state;
    open_with_rows(&d, 2);
    bb_document_set_status(&d, "ok");
    assert_int_equal(bb_document_finish(&d), 0);
    bb_document_release(&d);
    open_with_rows(&d, 0);
    check_file(path, 2, "ok");
    add_row(&d, 0);
    check_file(path, 1, "running");
    bb_document_set_status(&d, "interrupted");
    assert_int_equal(bb_document_finish(&d), 0);
    bb_document_release(&d);
    check_file(path, 1, "interrupted");
    open_with_rows(&d, 0);
    bb_document_set_status(&d, "interrupted");
    assert_int_equal(bb_document_finish(&d), 0);
    bb_document_release(&d);
    check_file(path, 1, "interrupted");
    open_with_rows(&d, 0);
    bb_document_set_status(&d, "failed");
    assert_int_equal(bb_document_finish(&d), 0);
    bb_document_release(&d);
    check_file(path, 0, "failed");
}

/* A document without a file; a schema without rows rejects rows. */
static void document_without_file_is_printed(void **state)
{
    struct bb_document d;
    struct capture captured;
    char text[256] = "";
    FILE *out = fmemopen(text, sizeof(text), "w");

    (void)state;
    assert_int_equal(bb_document_open(&d, json_pack("{s:s, s:[]}", "schema", "x", "results"), NULL), 0);
    assert_int_equal(bb_document_set(&d, "sum", json_integer(3)), 0);
    assert_int_equal(bb_document_add(&d, json_pack("{s:[i]}", "list", 1)), 0);
    assert_int_equal(bb_document_add(&d, json_integer(2)), 0);
    bb_document_print(&d, out);
    fclose(out);
    assert_string_equal(text,
                        "{\n \"schema\": \"x\",\n \"results\": [\n  {\n   \"list\": [\n    1\n   ]\n  },\n  2\n ],\n"
                        " \"sum\": 3\n}\n");
    assert_int_equal(bb_document_sync(&d), 0);
    assert_int_equal(bb_document_finish(&d), 0);
    bb_document_release(&d);
    assert_int_equal(bb_document_open(&d, json_object(), NULL), 0);
    capture_begin(&captured);
    assert_int_equal(bb_document_add(&d, json_integer(2)), -BB_EFAIL);
    assert_int_equal(bb_document_add(&d, NULL), -BB_EFAIL);
    assert_int_equal(lines_of(capture_end(&captured)), 2);
    bb_document_release(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shortened_file_is_written_again_with_the_next_row),
        cmocka_unit_test(shortened_file_is_written_again_at_the_end),
        cmocka_unit_test(changed_file_is_written_again_at_the_end),
        cmocka_unit_test(appended_text_is_removed_at_the_end),
        cmocka_unit_test(replaced_file_is_replaced_at_the_end),
        cmocka_unit_test(damage_that_cannot_be_repaired_is_an_error),
        cmocka_unit_test(repaired_disk_leaves_only_a_warning),
        cmocka_unit_test(full_disk_keeps_the_saved_rows),
        cmocka_unit_test(full_disk_keeps_the_rows_without_long_fields),
        cmocka_unit_test(status_ok_is_written_after_the_last_flush),
        cmocka_unit_test(failed_flush_sets_the_status_failed),
        cmocka_unit_test(an_earlier_file_remains_until_the_first_row),
        cmocka_unit_test(document_without_file_is_printed),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
