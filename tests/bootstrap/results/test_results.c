/* test_results.c - the results file: its form, and that it is whole after every row, whatever happens. */
#include "bootstrap/results/results.h"
#include "tests/bootstrap/capture.h"
#include "tests/check.h"

#include <malloc.h>
#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char *command[] = {"busbar", "bench", "all_reduce"};
static const struct bb_results_device device = {
    .rank = 0, .host = "node17", .name = "Emulated GPU", .uuid = "GPU-0", .pci = "0000:01:00.0"};

static struct bb_results_head head_for(const char *path)
{
    return (struct bb_results_head){.schema = "busbar.bench/1",
                                    .path = path,
                                    .out = stdout,
                                    .argc = 3,
                                    .argv = command,
                                    .nccl_header = 22809,
                                    .nccl_runtime = 22304,
                                    .cuda_runtime = 13000,
                                    .devices = &device,
                                    .n_devices = 1,
                                    .emulated = true};
}

static char folder[] = "/tmp/bb_results_XXXXXX";

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    char line[64];

    (void)state;
    snprintf(line, sizeof(line), "rm -r %s", folder);
    return system(line);
}

/* A file that does not exist yet. */
static const char *fresh(void)
{
    static char path[96];
    static int n;

    snprintf(path, sizeof(path), "%s/%d.json", folder, n++);
    return path;
}

static json_t *load(const char *path)
{
    json_error_t error;
    json_t *root = json_load_file(path, 0, &error);

    if (!root)
        fail_msg("%s: line %d: %s", path, error.line, error.text);
    return root;
}

static void expect_status(const char *path, size_t rows, const char *status)
{
    json_t *root = load(path);

    assert_int_equal(json_array_size(json_object_get(root, "results")), rows);
    assert_string_equal(json_string_value(json_object_get(root, "status")), status);
    json_decref(root);
}

static void test_head(void **state)
{
    const char *path = fresh();
    struct bb_results_head head = head_for(path);
    struct bb_results *res;
    char *text;
    json_t *root, *back;

    (void)state;
    setenv("NCCL_PROTO", "Simple", 1);
    setenv("SECRET_TOKEN", "x", 1);
    setenv("SLURM_JOB_ID", "17", 1);
    setenv("SLURM_JOB_ID_SECRET", "x", 1);
    assert_int_equal(bb_results_open(&res, &head, NULL), 0);
    assert_int_equal(bb_results_set(res, "extra", json_pack("{s:i}", "a", 1)), 0);
    assert_int_equal(bb_results_close(res, 0), 0);
    root = load(path);
    text = json_dumps(json_object_get(root, "nccl"), JSON_COMPACT);
    assert_string_equal(text, "{\"header\":\"2.28.9\",\"runtime\":\"2.23.4\"}");
    free(text);
    text = json_dumps(json_object_get(root, "cuda"), JSON_COMPACT);
    assert_string_equal(text, "{\"runtime\":\"13.0\",\"driver\":null}");
    free(text);
    back = json_object_get(root, "environment");
    assert_string_equal(json_string_value(json_object_get(back, "NCCL_PROTO")), "Simple");
    assert_string_equal(json_string_value(json_object_get(back, "SLURM_JOB_ID")), "17");
    assert_null(json_object_get(back, "SECRET_TOKEN"));
    assert_null(json_object_get(back, "SLURM_JOB_ID_SECRET"));
    assert_null(json_object_get(back, "PATH"));
    text = json_dumps(json_object_get(root, "devices"), JSON_COMPACT);
    assert_string_equal(text, "[{\"rank\":0,\"host\":\"node17\",\"name\":\"Emulated GPU\",\"uuid\":\"GPU-0\",\"pci\":"
                              "\"0000:01:00.0\"}]");
    free(text);
    assert_true(json_is_true(json_object_get(root, "emulated")) && json_is_false(json_object_get(root, "shared_gpu")));
    assert_int_equal(json_integer_value(json_object_get(root, "ranks")), 1);
    assert_int_equal(json_array_size(json_object_get(root, "command")), 3);
    assert_int_equal(strlen(json_string_value(json_object_get(root, "started"))), 20);
    json_decref(root);
}

static void test_status(void **state)
{
    static const char *const status[] = {"ok", "failed", "failed", "wrong data", "timeout", "below threshold"};
    struct bb_results *res;

    (void)state;
    for (int code = 0; code <= 5; code++) {
        const char *path = fresh();
        struct bb_results_head head = head_for(path);

        assert_int_equal(bb_results_open(&res, &head, NULL), 0);
        expect_status(path, 0, "running");
        assert_int_equal(bb_results_close(res, -code), -code);
        expect_status(path, 0, status[code]);
    }
}

/* Adds n rows to results of its own, and dies by SIGKILL the moment that the last one is added. */
static void die_after(const char *path, int n)
{
    struct bb_results_head head = head_for(path);
    struct bb_results *res;
    pid_t child = fork();
    int status;

    if (child == 0) {
        if (bb_results_open(&res, &head, NULL) || bb_results_set(res, "options", json_pack("{s:b}", "quiet", 1)))
            _exit(1);
        for (int i = 0; i < n; i++)
            if (bb_results_row(res, json_pack("{s:i}", "row", i)))
                _exit(1);
        raise(SIGKILL);
    }
    waitpid(child, &status, 0);
    assert_true(WIFSIGNALED(status));
}

static void test_a_killed_run_loses_no_row(void **state)
{
    static const int counts[] = {0, 1, 2, 17, 500};

    (void)state;
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        const char *path = fresh();

        die_after(path, counts[i]);
        expect_status(path, (size_t)counts[i], "running");
    }
}

static char *text_of(const char *path)
{
    static char text[1 << 16];
    FILE *in = fopen(path, "r");

    assert_non_null(in);
    text[fread(text, 1, sizeof(text) - 1, in)] = '\0';
    fclose(in);
    return text;
}

/* However it was written, the file is what jansson makes of the whole: the published form. */
static void test_form(void **state)
{
    const char *path = fresh();
    struct bb_results_head head = head_for(path);
    struct bb_results *res;
    json_t *root;
    char *whole;

    (void)state;
    assert_int_equal(bb_results_open(&res, &head, NULL), 0);
    for (int i = 0; i < 9; i++) {
        /* a tail that grows, and shrinks by more than a row; and a key of the head that changes between rows */
        assert_int_equal(bb_results_set(res, "note", json_sprintf("%*s", i % 2 ? 1 : 700, "x")), 0);
        if (i % 3 == 2)
            assert_int_equal(bb_results_set(res, "ranks", json_integer(i)), 0);
        assert_int_equal(bb_results_row(res, json_pack("{s:i, s:[f, n], s:{}}", "row", i, "x", 0.1, "none")), 0);
        json_decref(load(path));
    }
    assert_int_equal(bb_results_set(res, "note", json_string("end")), 0);
    assert_int_equal(bb_results_close(res, 0), 0);
    root = load(path);
    whole = json_dumps(root, JSON_INDENT(1) | JSON_REAL_PRECISION(12));
    assert_int_equal(strlen(text_of(path)), strlen(whole) + 1);
    assert_memory_equal(text_of(path), whole, strlen(whole));
    assert_int_equal(json_integer_value(json_object_get(root, "ranks")), 8);
    assert_int_equal(json_array_size(json_object_get(root, "results")), 9);
    free(whole);
    json_decref(root);
}

/* Bytes given to write calls so far, by this process. */
static long long written_bytes(void)
{
    FILE *io = fopen("/proc/self/io", "r");
    long long bytes = -1;
    char line[128];

    if (!io)
        skip();
    while (fgets(line, sizeof(line), io))
        sscanf(line, "wchar: %lld", &bytes);
    fclose(io);
    return bytes;
}

/* Row 100,000 costs what row 100 cost: as many bytes written, and no memory. */
static void test_rows_cost_the_same(void **state)
{
    enum { ROWS = 100000, SOME = 100 };
    struct bb_results_head head = head_for(fresh());
    struct bb_results *res;
    long long start, first = 0, last;
    size_t memory = 0;

    (void)state;
    assert_int_equal(bb_results_open(&res, &head, NULL), 0);
    start = written_bytes();
    for (int i = 0; i < ROWS; i++) {
        assert_int_equal(bb_results_row(res, json_pack("{s:i}", "row", 100000 + i)), 0);
        if (i == SOME - 1) {
            first = written_bytes() - start;
            memory = mallinfo2().uordblks;
        }
        if (i == ROWS - SOME - 1)
            start = written_bytes();
    }
    last = written_bytes() - start;
    assert_true(first > 0 && last <= first + SOME && last >= first - SOME);
    assert_true(mallinfo2().uordblks < memory + 100000);
    assert_int_equal(bb_results_close(res, 0), 0);
    expect_status(head.path, ROWS, "ok");
}

/* A disk that is full for a while: said once, the file stays whole, and the rows come when there is room again. */
static void test_full_for_a_while(void **state)
{
    const char *path = fresh();
    struct bb_results_head head = head_for(path);
    struct rlimit all, few;
    struct bb_results *res;
    struct capture said;
    const char *text;

    (void)state;
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &all);
    assert_int_equal(bb_results_open(&res, &head, NULL), 0);
    assert_int_equal(bb_results_row(res, json_pack("{s:i}", "row", 0)), 0);
    capture_begin(&said);
    few = (struct rlimit){.rlim_cur = strlen(text_of(path)) + 7, .rlim_max = all.rlim_max};
    setrlimit(RLIMIT_FSIZE, &few);
    for (int i = 1; i < 5; i++) {
        assert_int_equal(bb_results_row(res, json_pack("{s:s}", "row", "as long as a row may well be")), 0);
        expect_status(path, 1, "running");
    }
    setrlimit(RLIMIT_FSIZE, &all);
    text = capture_end(&said);
    assert_non_null(strstr(text, "File too large"));
    assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
    assert_int_equal(bb_results_close(res, 0), 0);
    expect_status(path, 5, "ok");
}

static void test_removed_folder(void **state)
{
    char inner[80] = "", path[112] = "";
    struct bb_results_head head = head_for(path);
    struct bb_results *res;
    struct capture said;
    const char *text;

    (void)state;
    snprintf(inner, sizeof(inner), "%s/inner", folder);
    snprintf(path, sizeof(path), "%s/x.json", inner);
    for (int back = 0; back <= 1; back++) {
        assert_int_equal(mkdir(inner, 0777), 0);
        assert_int_equal(bb_results_open(&res, &head, NULL), 0);
        assert_int_equal(bb_results_row(res, json_pack("{s:i}", "row", 0)), 0);
        assert_int_equal(unlink(path) | rmdir(inner), 0);
        capture_begin(&said);
        for (int i = 1; i < 4; i++)
            assert_int_equal(bb_results_row(res, json_pack("{s:i}", "row", i)), 0);
        if (back)
            assert_int_equal(mkdir(inner, 0777), 0);
        assert_int_equal(bb_results_close(res, 0), back ? 0 : -BB_EFAIL);
        text = capture_end(&said);
        assert_non_null(strstr(text, "No such file or directory"));
        assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
    }
    expect_status(path, 4, "ok");
}

static int ended;

static void take_end(int rc)
{
    ended = rc;
}

/* So that what ends the process after that ends it with the exit status that the file tells. */
static void test_what_became_of_the_run_is_told(void **state)
{
    struct bb_results *res;

    (void)state;
    for (int code = 0; code <= 5; code++) {
        struct bb_results_head head = head_for(fresh());

        assert_int_equal(bb_results_open(&res, &head, NULL), 0);
        ended = 99;
        bb_results_at_end(res, take_end);
        assert_int_equal(bb_results_close(res, -code), -code);
        assert_int_equal(ended, -code);
    }
}

/* Both end with a whole file of their own; the last to end has the name. */
static void test_two_runs_of_one_file(void **state)
{
    const char *path = fresh();
    struct bb_results_head head = head_for(path);
    struct bb_results *one, *two;

    (void)state;
    assert_int_equal(bb_results_open(&one, &head, NULL), 0);
    assert_int_equal(bb_results_row(one, json_pack("{s:i}", "row", 1)), 0);
    assert_int_equal(bb_results_open(&two, &head, NULL), 0);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(bb_results_row(one, json_pack("{s:i}", "row", i)), 0);
        assert_int_equal(bb_results_row(two, json_pack("{s:i}", "row", i)), 0);
        expect_status(path, (size_t)i + 1, "running");
    }
    assert_int_equal(bb_results_close(two, 0), 0);
    expect_status(path, 5, "ok");
    ended = 99;
    bb_results_at_end(one, take_end);
    assert_int_equal(bb_results_close(one, 0), 0);
    expect_status(path, 6, "ok");
    assert_int_equal(ended, 0);
}

static void test_links_and_modes(void **state)
{
    char target[96];
    const char *path = fresh();
    struct bb_results_head head = head_for(path);
    struct bb_results *res;
    struct stat info;

    (void)state;
    snprintf(target, sizeof(target), "%s/precious", folder);
    fclose(fopen(target, "w"));
    assert_int_equal(symlink(target, path), 0);
    assert_int_equal(bb_results_open(&res, &head, NULL), 0);
    assert_int_equal(bb_results_close(res, 0), 0);
    assert_int_equal(lstat(path, &info), 0);
    assert_true(S_ISREG(info.st_mode));
    assert_int_equal(info.st_mode & 0777, 0600); /* an environment is inside */
    assert_int_equal(stat(target, &info), 0);
    assert_int_equal(info.st_size, 0);
}

static void test_targets(void **state)
{
    struct bb_results_head head = head_for("/nowhere/at/all.json");
    struct bb_results *res;
    struct capture said;
    char text[8192] = "";
    struct stat info;

    (void)state;
    capture_begin(&said);
    assert_int_equal(bb_results_open(&res, &head, NULL), -BB_EUSAGE);
    assert_non_null(strstr(capture_end(&said), "/nowhere/at/all.json"));
    head.path = "/tmp";
    capture_begin(&said);
    assert_int_equal(bb_results_open(&res, &head, NULL), -BB_EUSAGE);
    assert_non_null(strstr(capture_end(&said), "is a directory"));
    head.path = "/dev/null"; /* is written to, not replaced */
    assert_int_equal(bb_results_open(&res, &head, NULL), 0);
    assert_int_equal(bb_results_close(res, 0), 0);
    assert_int_equal(stat("/dev/null", &info), 0);
    assert_true(S_ISCHR(info.st_mode));
    head.path = "-";
    head.out = fmemopen(text, sizeof(text), "w");
    head.no_rows = true;
    assert_int_equal(bb_results_open(&res, &head, NULL), 0);
    assert_int_equal(bb_results_close(res, 0), 0);
    fclose(head.out);
    assert_memory_equal(text, "{\n \"schema\": \"busbar.bench/1\",", 30);
    assert_null(strstr(text, "\"results\""));
}

static void test_full_disk(void **state)
{
    struct bb_results_head head = head_for("/dev/full");
    struct bb_results *res;
    struct capture said;

    (void)state;
    assert_int_equal(bb_results_open(&res, &head, NULL), 0);
    assert_int_equal(bb_results_row(res, json_pack("{s:i}", "row", 1)), 0);
    capture_begin(&said);
    assert_int_equal(bb_results_close(res, 0), -BB_EFAIL);
    assert_non_null(strstr(capture_end(&said), "No space left"));
}

/* The rows as a table, on a stream that takes none. */
static void test_full_stream(void **state)
{
    struct bb_results_head head = head_for(NULL);
    struct bb_results *res;
    struct capture said;

    (void)state;
    head.csv = "-";
    head.out = fopen("/dev/full", "w");
    assert_non_null(head.out);
    assert_int_equal(bb_results_open(&res, &head, NULL), 0);
    assert_int_equal(bb_results_row(res, json_pack("{s:i}", "row", 1)), 0);
    capture_begin(&said);
    assert_int_equal(bb_results_close(res, 0), -BB_EFAIL);
    assert_string_equal(capture_end(&said), "busbar: cannot write the table to stdout: No space left on device\n");
    fclose(head.out);
}

/* Then the run has failed, and the file beside the table says so. */
static void test_a_table_that_cannot_be_written(void **state)
{
    const char *path = fresh();
    struct bb_results_head head = head_for(path);
    struct bb_results *res;
    struct capture said;

    (void)state;
    head.csv = "/dev/full";
    assert_int_equal(bb_results_open(&res, &head, NULL), 0);
    assert_int_equal(bb_results_row(res, json_pack("{s:i}", "row", 1)), 0);
    bb_results_at_end(res, take_end);
    capture_begin(&said);
    assert_int_equal(bb_results_close(res, 0), -BB_EFAIL);
    assert_non_null(strstr(capture_end(&said), "No space left"));
    expect_status(path, 1, "failed");
    assert_int_equal(ended, -BB_EFAIL);
}

static void test_nothing_wanted(void **state)
{
    struct bb_results_head head = head_for(NULL);
    struct bb_world other = {.rank = 1, .size = 2};
    struct bb_results *res;

    (void)state;
    assert_int_equal(bb_results_open(&res, &head, NULL), 0);
    assert_null(res);
    head.path = "/nowhere";
    assert_int_equal(bb_results_open(&res, &head, &other), 0);
    assert_null(res);
    assert_int_equal(bb_results_row(res, json_integer(1)), 0);
    assert_int_equal(bb_results_set(res, "x", json_integer(1)), 0);
    assert_int_equal(bb_results_close(res, -3), -3);
}

static void test_stats(void **state)
{
    struct bb_stats s = {
        .n = 7, .min = 1, .p50 = 2.5, .p90 = 3, .p99 = NAN, .max = 4, .mean = INFINITY, .ci95 = {1, 4}};
    json_t *json = bb_json_stats(&s);
    char *text = json_dumps(json, JSON_COMPACT);

    (void)state;
    assert_string_equal(
        text, "{\"min\":1.0,\"p50\":2.5,\"p90\":3.0,\"p99\":null,\"max\":4.0,\"mean\":null,\"ci95\":[1.0,4.0]}");
    free(text);
    json_decref(json);
    s.ci95[0] = NAN;
    json = bb_json_stats(&s);
    assert_true(json_is_null(json_object_get(json, "ci95")));
    json_decref(json);
}

static void test_options(void **state)
{
    static const struct bb_opt_table tables[] = {{.opts = bb_common_options}, {0}};
    static const struct bb_opts set = {.usage = "x", .tables = tables};
    struct bb_common cfg = {.timeout_s = 2.5, .share_gpu = true};
    json_t *json = bb_json_options(&set, &cfg);
    char *text = json_dumps(json, JSON_COMPACT);

    (void)state;
    assert_string_equal(text, "{\"json\":null,\"csv\":null,\"timeout\":2.5,\"share_gpu\":true,\"quiet\":false}");
    free(text);
    json_decref(json);
}

/* Rows go into the results[] of another program's schema, which gets no status; the tree is ours to release. */
static void test_foreign_schema(void **state)
{
    struct bb_results *res;
    struct bb_results_head head = head_for(fresh());
    json_t *root;

    (void)state;
    head.root = json_pack("{s:i, s:[], s:s}", "version", 3, "results", "end", "none");
    assert_int_equal(bb_results_open(&res, &head, NULL), 0);
    assert_string_equal(bb_results_path(res), head.path);
    assert_int_equal(bb_results_row(res, json_pack("{s:i}", "size", 8)), 0);
    assert_int_equal(bb_results_close(res, -BB_EDATA), -BB_EDATA);
    root = json_load_file(head.path, 0, NULL);
    assert_int_equal(json_object_size(root), 3);
    assert_int_equal(json_array_size(json_object_get(root, "results")), 1);
    json_decref(root);
    head.root = json_object(); /* not wanted: released */
    head.path = NULL;
    assert_int_equal(bb_results_open(&res, &head, NULL), 0);
    assert_null(bb_results_path(res));
}

/* No status is there to be corrected. */
static void test_a_foreign_file_that_cannot_be_written(void **state)
{
    char inner[80] = "", path[112] = "";
    struct bb_results *res;
    struct bb_results_head head = head_for(path);
    struct capture said;

    (void)state;
    snprintf(inner, sizeof(inner), "%s/foreign", folder);
    snprintf(path, sizeof(path), "%s/x.json", inner);
    assert_int_equal(mkdir(inner, 0777), 0);
    head.root = json_pack("{s:i, s:[]}", "version", 3, "results");
    assert_int_equal(bb_results_open(&res, &head, NULL), 0);
    assert_int_equal(unlink(path) | rmdir(inner), 0);
    capture_begin(&said);
    assert_int_equal(bb_results_close(res, 0), -BB_EFAIL);
    assert_non_null(strstr(capture_end(&said), "No such file or directory"));
}

static void test_no_file_is_replaced(void **state)
{
    static const char *const expected[] = {"", ".0", ".1"};
    struct bb_results_head head = head_for(fresh());
    struct bb_results *res;
    char name[128];

    (void)state;
    head.fresh = true;
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof(name), "%s%s", head.path, expected[i]);
        assert_int_equal(bb_results_open(&res, &head, NULL), 0);
        assert_string_equal(bb_results_path(res), name);
        assert_int_equal(bb_results_close(res, 0), 0);
        assert_int_equal(access(name, F_OK), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_head),
        cmocka_unit_test(test_status),
        cmocka_unit_test(test_a_killed_run_loses_no_row),
        cmocka_unit_test(test_form),
        cmocka_unit_test(test_rows_cost_the_same),
        cmocka_unit_test(test_full_for_a_while),
        cmocka_unit_test(test_removed_folder),
        cmocka_unit_test(test_two_runs_of_one_file),
        cmocka_unit_test(test_links_and_modes),
        cmocka_unit_test(test_targets),
        cmocka_unit_test(test_full_disk),
        cmocka_unit_test(test_full_stream),
        cmocka_unit_test(test_a_table_that_cannot_be_written),
        cmocka_unit_test(test_what_became_of_the_run_is_told),
        cmocka_unit_test(test_nothing_wanted),
        cmocka_unit_test(test_foreign_schema),
        cmocka_unit_test(test_a_foreign_file_that_cannot_be_written),
        cmocka_unit_test(test_no_file_is_replaced),
        cmocka_unit_test(test_stats),
        cmocka_unit_test(test_options),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
