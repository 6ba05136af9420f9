/* test_results.c - the results file: its format, and that it is valid after every row, whatever happens. */
#include "bootstrap/results/results.h"
#include "tests/bootstrap/capture.h"
#include "tests/check.h"

#include <fcntl.h>
#include <malloc.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char *command[] = {"busbar", "bench", "all_reduce"};
static struct bb_results_head head_for(const char *path)
{
    static json_t *devices; /* shared by all heads, never freed */

    if (!devices)
        devices = json_pack("[{s:i, s:s, s:s, s:s, s:s}]", "rank", 0, "host", "node17", "name", "Emulated GPU", "uuid",
                            "GPU-0", "pci", "0000:01:00.0");
    return (struct bb_results_head){.schema = "busbar.bench/1",
                                    .path = path,
                                    .out = stdout,
                                    .argc = 3,
                                    .argv = command,
                                    .nccl_header = 22809,
                                    .nccl_runtime = 22304,
                                    .cuda_runtime = 13000,
                                    .nvidia_driver = "580.65.06",
                                    .devices = devices,
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

/* Returns the name of a file that does not exist yet. */
static const char *new_path(void)
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

static void header_has_versions_devices_and_environment(void **state)
{
    const char *path = new_path();
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
    assert_string_equal(text, "{\"runtime\":\"13.0\",\"driver\":null,\"nvidia_driver\":\"580.65.06\"}");
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

static void status_follows_the_exit_code(void **state)
{
    static const char *const status[] = {"ok", "failed", "failed", "wrong data", "timeout", "below threshold"};
    struct bb_results *res;

    (void)state;
    for (int code = 0; code <= 5; code++) {
        const char *path = new_path();
        struct bb_results_head head = head_for(path);

        assert_int_equal(bb_results_open(&res, &head, NULL), 0);
        expect_status(path, 0, "running");
        assert_int_equal(bb_results_close(res, -code), -code);
        expect_status(path, 0, status[code]);
    }
}

/* A child process adds n rows to its results and is killed by SIGKILL right after the last one. */
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

static void killed_run_loses_no_row(void **state)
{
    static const int counts[] = {0, 1, 2, 17, 500};

    (void)state;
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        const char *path = new_path();

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

/* The file always equals jansson's dump of the whole document, however it was written: the documented format. */
static void file_equals_a_dump_of_the_whole_document(void **state)
{
    const char *path = new_path();
    struct bb_results_head head = head_for(path);
    struct bb_results *res;
    json_t *root;
    char *whole;

    (void)state;
    assert_int_equal(bb_results_open(&res, &head, NULL), 0);
    for (int i = 0; i < 9; i++) {
        /* the part after the rows grows, and shrinks by more than a row; a header field changes between rows */
        assert_int_equal(bb_results_set(res, "note", json_sprintf("%*s", i % 2 ? 1 : 700, "x")), 0);
        if (i % 3 == 2)
            assert_int_equal(bb_results_set(res, "ranks", json_integer(i)), 0);
        assert_int_equal(bb_results_row(res, json_pack("{s:i, s:[f, n], s:{}}", "row", i, "x", 0.1, "none")), 0);
        root = load(path);
        assert_int_equal(json_integer_value(json_object_get(root, "ranks")), i < 2 ? 1 : (i + 1) / 3 * 3 - 1);
        json_decref(root);
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

/* Returns the number of bytes that this process has passed to write calls so far. */
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

/* Row 100,000 costs what row 100 cost: the same number of bytes written. Only the text of the rows stays in memory. */
static void cost_per_row_is_constant(void **state)
{
    enum { ROWS = 100000, SOME = 100 };
    struct bb_results_head head = head_for(new_path());
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
            memory = mallinfo2().uordblks + mallinfo2().hblkhd;
        }
        if (i == ROWS - SOME - 1)
            start = written_bytes();
    }
    last = written_bytes() - start;
    assert_true(first > 0 && last <= first + SOME && last >= first - SOME);
    assert_true(mallinfo2().uordblks + mallinfo2().hblkhd <
                memory + 2 * ROWS * strlen(",\n  {\n   \"row\": 100000\n  }"));
    assert_int_equal(bb_results_close(res, 0), 0);
    expect_status(head.path, ROWS, "ok");
}

/* The disk is full for a while: one warning, the file stays valid, and the missing rows follow when space is free. The
 * run succeeds. */
static void survives_a_temporarily_full_disk(void **state)
{
    const char *path = new_path();
    struct bb_results_head head = head_for(path);
    struct rlimit original, limited;
    struct bb_results *res;
    struct capture captured;
    const char *text;

    (void)state;
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &original);
    assert_int_equal(bb_results_open(&res, &head, NULL), 0);
    assert_int_equal(bb_results_row(res, json_pack("{s:i}", "row", 0)), 0);
    capture_begin(&captured);
    limited = (struct rlimit){.rlim_cur = strlen(text_of(path)) + 7, .rlim_max = original.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limited);
    for (int i = 1; i < 5; i++) {
        assert_int_equal(bb_results_row(res, json_pack("{s:s}", "row", "as long as a row may well be")), 0);
        expect_status(path, 1, "running");
    }
    setrlimit(RLIMIT_FSIZE, &original);
    text = capture_end(&captured);
    assert_non_null(strstr(text, "busbar: warning: results: "));
    assert_non_null(strstr(text, "File too large; retrying\n"));
    assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
    assert_int_equal(bb_results_close(res, 0), 0);
    expect_status(path, 5, "ok");
}

static void survives_a_removed_folder(void **state)
{
    char inner[80] = "", path[112] = "";
    struct bb_results_head head = head_for(path);
    struct bb_results *res;
    struct capture captured;
    const char *text;

    (void)state;
    snprintf(inner, sizeof(inner), "%s/inner", folder);
    snprintf(path, sizeof(path), "%s/x.json", inner);
    for (int back = 0; back <= 1; back++) {
        assert_int_equal(mkdir(inner, 0777), 0);
        assert_int_equal(bb_results_open(&res, &head, NULL), 0);
        assert_int_equal(bb_results_row(res, json_pack("{s:i}", "row", 0)), 0);
        assert_int_equal(unlink(path) | rmdir(inner), 0);
        capture_begin(&captured);
        for (int i = 1; i < 4; i++)
            assert_int_equal(bb_results_row(res, json_pack("{s:i}", "row", i)), 0);
        if (back)
            assert_int_equal(mkdir(inner, 0777), 0);
        assert_int_equal(bb_results_close(res, 0), back ? 0 : -BB_EFAIL);
        text = capture_end(&captured);
        assert_non_null(strstr(text, "No such file or directory; retrying\n"));
        assert_ptr_equal(strstr(text, "busbar: cannot write the results: "), back ? NULL : strchr(text, '\n') + 1);
        assert_int_equal(text[strlen(text) - 1], '\n');
    }
    expect_status(path, 4, "ok");
}

/* Each run writes its own complete file; the last run to close owns the name. */
static void concurrent_runs_write_separate_files(void **state)
{
    const char *path = new_path();
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
    assert_int_equal(bb_results_close(one, 0), 0);
    expect_status(path, 6, "ok");
}

static void replaces_links_with_a_private_file(void **state)
{
    char target[96];
    const char *path = new_path();
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
    assert_int_equal(info.st_mode & 0777, 0600); /* private, because the file contains environment variables */
    assert_int_equal(stat(target, &info), 0);
    assert_int_equal(info.st_size, 0);
}

static void accepts_devices_and_rejects_folders(void **state)
{
    struct bb_results_head head = head_for("/nowhere/at/all.json");
    struct bb_results *res;
    struct capture captured;
    char text[8192] = "";
    struct stat info;

    (void)state;
    capture_begin(&captured);
    assert_int_equal(bb_results_open(&res, &head, NULL), -BB_EUSAGE);
    assert_non_null(strstr(capture_end(&captured), "/nowhere/at/all.json"));
    head.path = "/tmp";
    capture_begin(&captured);
    assert_int_equal(bb_results_open(&res, &head, NULL), -BB_EUSAGE);
    assert_non_null(strstr(capture_end(&captured), "is a directory"));
    head.path = "/dev/null"; /* written in place, not replaced */
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

static void reports_a_full_disk(void **state)
{
    struct bb_results_head head = head_for("/dev/full");
    struct bb_results *res;
    struct capture captured;

    (void)state;
    assert_int_equal(bb_results_open(&res, &head, NULL), 0);
    assert_int_equal(bb_results_row(res, json_pack("{s:i}", "row", 1)), 0);
    capture_begin(&captured);
    assert_int_equal(bb_results_close(res, 0), -BB_EFAIL);
    assert_non_null(strstr(capture_end(&captured), "No space left"));
}

/* The CSV table cannot be written to the stream. */
static void reports_a_full_csv_stream(void **state)
{
    struct bb_results_head head = head_for(NULL);
    struct bb_results *res;
    struct capture captured;

    (void)state;
    head.csv = "-";
    head.out = fopen("/dev/full", "w");
    assert_non_null(head.out);
    assert_int_equal(bb_results_open(&res, &head, NULL), 0);
    assert_int_equal(bb_results_row(res, json_pack("{s:i}", "row", 1)), 0);
    capture_begin(&captured);
    assert_int_equal(bb_results_close(res, 0), -BB_EFAIL);
    assert_string_equal(capture_end(&captured), "busbar: cannot write the table to stdout: No space left on device\n");
    fclose(head.out);
}

/* An unwritable CSV table makes the run fail; the JSON file's status is "failed". */
static void csv_failure_sets_the_status_failed(void **state)
{
    const char *path = new_path();
    struct bb_results_head head = head_for(path);
    struct bb_results *res;
    struct capture captured;

    (void)state;
    head.csv = "/dev/full";
    assert_int_equal(bb_results_open(&res, &head, NULL), 0);
    assert_int_equal(bb_results_row(res, json_pack("{s:i}", "row", 1)), 0);
    capture_begin(&captured);
    assert_int_equal(bb_results_close(res, 0), -BB_EFAIL);
    assert_non_null(strstr(capture_end(&captured), "No space left"));
    expect_status(path, 1, "failed");
}

/* The temporary name is 21 characters longer than the name: a name that leaves no space for it is rejected at once. */
static void rejects_names_that_are_too_long(void **state)
{
    char path[320];
    struct bb_results *res;
    struct capture captured;
    const int longest = 255 - (int)strlen(".0123456789abcdef.tmp");

    (void)state;
    for (int json = 0; json <= 1; json++)
        for (int excess = 0; excess <= 1; excess++) {
            struct bb_results_head head = head_for(json ? path : NULL);

            head.csv = json ? NULL : path;
            snprintf(path, sizeof(path), "%s/%0*d", folder, longest + excess, json);
            capture_begin(&captured);
            assert_int_equal(bb_results_open(&res, &head, NULL), excess ? -BB_EUSAGE : 0);
            assert_int_equal(strstr(capture_end(&captured), "File name too long") != NULL, excess);
            if (!excess)
                assert_int_equal(bb_results_close(res, 0), 0);
            assert_int_equal(access(path, F_OK) == 0, !excess);
        }
}

/* A FIFO without a reader is an error, not a wait. */
static void fifo_without_reader_is_an_error(void **state)
{
    const char *path = new_path();
    char expected[160];
    struct bb_results *res;
    struct capture captured;

    (void)state;
    assert_int_equal(mkfifo(path, 0600), 0);
    snprintf(expected, sizeof(expected), "busbar: no process reads FIFO %s; try: start the reader first\n", path);
    for (int json = 0; json <= 1; json++) {
        struct bb_results_head head = head_for(json ? path : NULL);

        head.csv = json ? NULL : path;
        assert_int_equal(bb_results_open(&res, &head, NULL), 0);
        assert_int_equal(bb_results_row(res, json_pack("{s:i}", "row", 1)), 0);
        capture_begin(&captured);
        assert_int_equal(bb_results_close(res, 0), -BB_EUSAGE);
        assert_string_equal(capture_end(&captured), expected);
    }
}

/* Copies the FIFO to a file after a pause in which the FIFO becomes full. ready: a byte is written when the FIFO is
 * open. */
static void copy_fifo(const char *fifo, const char *copy, int ready)
{
    static char part[4096];
    int from = open(fifo, O_RDONLY | O_NONBLOCK), to = open(copy, O_WRONLY | O_CREAT, 0600);
    struct pollfd p = {.fd = from, .events = POLLIN};
    ssize_t n;

    if (write(ready, "", 1) != 1 || poll(&p, 1, 10000) != 1)
        _exit(1);
    usleep(100000);
    fcntl(from, F_SETFL, 0);
    while ((n = read(from, part, sizeof(part))) > 0)
        if (write(to, part, (size_t)n) != n)
            _exit(1);
    _exit(0);
}

/* The reader of a FIFO receives the whole document, even if it starts during the run and reads slowly. */
static void fifo_with_reader_receives_the_document(void **state)
{
    enum { LONG = 200000 }; /* a FIFO holds 65536 bytes */
    char copy[96];
    const char *path = new_path();
    struct bb_results_head head = head_for(path);
    struct bb_results *res;
    json_t *root;
    int ready[2], status;
    char byte;
    pid_t child;

    (void)state;
    snprintf(copy, sizeof(copy), "%s/copy", folder);
    assert_int_equal(mkfifo(path, 0600) | pipe(ready), 0);
    assert_int_equal(bb_results_open(&res, &head, NULL), 0);
    assert_int_equal(bb_results_row(res, json_sprintf("%*s", LONG, "x")), 0);
    child = fork();
    if (child == 0)
        copy_fifo(path, copy, ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(bb_results_close(res, -BB_EDATA), -BB_EDATA);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    root = load(copy);
    assert_string_equal(json_string_value(json_object_get(root, "status")), "wrong data");
    assert_int_equal(json_string_length(json_array_get(json_object_get(root, "results"), 0)), LONG);
    json_decref(root);
    close(ready[0]);
    close(ready[1]);
}

static void writes_nothing_without_a_path_or_on_other_ranks(void **state)
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

static void stats_use_null_for_unknown_values(void **state)
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

static void options_become_json(void **state)
{
    static const struct bb_opt_table tables[] = {{.opts = bb_common_options}, {0}};
    static const struct bb_opts set = {.usage = "x", .tables = tables};
    struct bb_common cfg = {.timeout_s = 2.5, .gpus = 8, .share_gpu = true};
    json_t *json = bb_json_options(&set, &cfg);
    char *text = json_dumps(json, JSON_COMPACT);

    (void)state;
    assert_string_equal(text,
                        "{\"json\":null,\"csv\":null,\"junit\":null,\"prometheus\":null,\"gpus\":8,\"timeout\":2.5,"
                        "\"share_gpu\":true,\"ras\":false,\"no_supervisor\":false,\"full\":false,\"quiet\":false}");
    free(text);
    json_decref(json);
}

/* Rows go into results[] of another program's schema. Such a file gets no status. bb_results owns the tree. */
static void adds_rows_to_a_foreign_schema(void **state)
{
    struct bb_results *res;
    struct bb_results_head head = head_for(new_path());
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
    head.root = json_object(); /* no file is written: the tree is released */
    head.path = NULL;
    assert_int_equal(bb_results_open(&res, &head, NULL), 0);
    assert_null(bb_results_path(res));
}

/* A foreign schema has no status that could be corrected. */
static void reports_an_unwritable_foreign_file(void **state)
{
    char inner[80] = "", path[112] = "";
    struct bb_results *res;
    struct bb_results_head head = head_for(path);
    struct capture captured;

    (void)state;
    snprintf(inner, sizeof(inner), "%s/foreign", folder);
    snprintf(path, sizeof(path), "%s/x.json", inner);
    assert_int_equal(mkdir(inner, 0777), 0);
    head.root = json_pack("{s:i, s:[]}", "version", 3, "results");
    assert_int_equal(bb_results_open(&res, &head, NULL), 0);
    assert_int_equal(unlink(path) | rmdir(inner), 0);
    capture_begin(&captured);
    assert_int_equal(bb_results_close(res, 0), -BB_EFAIL);
    assert_non_null(strstr(capture_end(&captured), "No such file or directory"));
}

static void fresh_mode_numbers_files_instead_of_replacing(void **state)
{
    static const char *const expected[] = {"", ".0", ".1"};
    struct bb_results_head head = head_for(new_path());
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

/* NCCL_ALGO may name operations (NCCL 2.24). A variable that restricts the network does not restrict the choice. */
static void restrictions_concern_an_operation(void **state)
{
    static const struct {
        const char *value;
        bool all_reduce;
    } rows[] = {{"Ring", true},
                {"^ring", true},
                {"AllReduce:ring", true},
                {"broadcast:tree;allreduce:ring", true},
                {"broadcast:tree", false},
                {"allreduces:ring", false},
                {"ring;reduce:tree", true}};

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        json_t *env = json_pack("{s:s, s:s}", "NCCL_ALGO", rows[i].value, "NCCL_P2P_DISABLE", "1");
        char *one = bb_json_restrictions(env, "all_reduce"), *all = bb_json_restrictions(env, NULL), wanted[80];

        snprintf(wanted, sizeof(wanted), "$NCCL_ALGO=%s", rows[i].value);
        if (rows[i].all_reduce)
            assert_string_equal(one, wanted);
        else
            assert_null(one);
        strcat(wanted, ", $NCCL_P2P_DISABLE=1");
        assert_string_equal(all, wanted);
        free(one);
        free(all);
        json_object_set_new(env, "EMU_TWINS", json_string("x.so")); /* emulated GPUs do not model NCCL_P2P_DISABLE */
        all = bb_json_restrictions(env, NULL);
        *strchr(wanted, ',') = '\0';
        assert_string_equal(all, wanted);
        free(all);
        json_decref(env);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(header_has_versions_devices_and_environment),
        cmocka_unit_test(status_follows_the_exit_code),
        cmocka_unit_test(killed_run_loses_no_row),
        cmocka_unit_test(file_equals_a_dump_of_the_whole_document),
        cmocka_unit_test(cost_per_row_is_constant),
        cmocka_unit_test(survives_a_temporarily_full_disk),
        cmocka_unit_test(survives_a_removed_folder),
        cmocka_unit_test(concurrent_runs_write_separate_files),
        cmocka_unit_test(replaces_links_with_a_private_file),
        cmocka_unit_test(accepts_devices_and_rejects_folders),
        cmocka_unit_test(reports_a_full_disk),
        cmocka_unit_test(reports_a_full_csv_stream),
        cmocka_unit_test(csv_failure_sets_the_status_failed),
        cmocka_unit_test(rejects_names_that_are_too_long),
        cmocka_unit_test(fifo_without_reader_is_an_error),
        cmocka_unit_test(fifo_with_reader_receives_the_document),
        cmocka_unit_test(writes_nothing_without_a_path_or_on_other_ranks),
        cmocka_unit_test(adds_rows_to_a_foreign_schema),
        cmocka_unit_test(reports_an_unwritable_foreign_file),
        cmocka_unit_test(fresh_mode_numbers_files_instead_of_replacing),
        cmocka_unit_test(stats_use_null_for_unknown_values),
        cmocka_unit_test(options_become_json),
        cmocka_unit_test(restrictions_concern_an_operation),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
