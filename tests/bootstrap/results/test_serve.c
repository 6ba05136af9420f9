/*
 * test_serve.c - the process that writes the results, as the rank and the supervisor see it: which rows and which
 * status are in the file after the rank, the supervisor or the writer process has ended.
 */
#include "bootstrap/results/results.h"
#include "bootstrap/results/serve.h"
#include "tests/bootstrap/capture.h"
#include "tests/check.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[] = "/tmp/bb_serve_XXXXXX", path[64], csv[64];
static char printed[64], errors[64]; /* stdout and stderr of the writer process */
static char text[4096];

/* The writer process, and this end of its sockets. */
struct writer {
    pid_t pid;
    int rank_fd, control_fd;
    struct bb_rank_receiver rank, control;
};

static int make_folder(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof(path), "%s/x.json", folder);
    snprintf(csv, sizeof(csv), "%s/x.csv", folder);
    snprintf(printed, sizeof(printed), "%s/stdout", folder);
    snprintf(errors, sizeof(errors), "%s/stderr", folder);
    return 0;
}

static int remove_files(void **state)
{
    (void)state;
    unlink(path);
    unlink(csv);
    unlink(printed);
    unlink(errors);
    return 0;
}

static int remove_folder(void **state)
{
    return remove_files(state) | rmdir(folder);
}

static void start(struct writer *w)
{
    int rank[2], control[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, rank) | socketpair(AF_UNIX, SOCK_STREAM, 0, control), 0);
    fflush(stdout);
    w->pid = fork();
    if (w->pid == 0) {
        if (!freopen(printed, "w", stdout) || !freopen(errors, "w", stderr))
            _exit(99);
        close(rank[0]);
        close(control[0]);
        alarm(20);
        _exit(bb_exit_code(bb_results_serve(rank[1], control[1], NULL, NULL)));
    }
    close(rank[1]);
    close(control[1]);
    w->rank = (struct bb_rank_receiver){.fd = w->rank_fd = rank[0]};
    w->control = (struct bb_rank_receiver){.fd = w->control_fd = control[0]};
}

static void close_rank(struct writer *w)
{
    close(w->rank_fd);
    bb_rank_receiver_release(&w->rank);
}

/* Closes the supervisor's end and returns the exit status of the writer process. */
static int wait_for(struct writer *w)
{
    int status;

    close(w->control_fd);
    bb_rank_receiver_release(&w->control);
    assert_int_equal(waitpid(w->pid, &status, 0), w->pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Returns the code of the next answer to the supervisor; 99: the connection is closed. */
static int next_control_answer(struct writer *w)
{
    struct pollfd p = {.fd = w->control_fd, .events = POLLIN};
    char *path = NULL;
    int code = 99, n;

    while ((n = bb_results_finish_poll(&w->control, &path, &code)) == 0)
        assert_int_equal(poll(&p, 1, 10000), 1);
    free(path);
    return n > 0 ? code : 99;
}

/* Sends FINISH and returns the code of the answer. */
static int finish(struct writer *w, int rc, const char *ended_by, const char *phase, const char *reason)
{
    const struct bb_results_end end = {.ended_by = ended_by, .phase = phase, .reason = reason};

    assert_int_equal(bb_results_finish_send(w->control_fd, rc, &end), 0);
    return next_control_answer(w);
}

/* Ends a run with the return code `rc`, closes the connections and waits for the writer process. */
static void end_run(struct writer *w, int rc)
{
    assert_int_equal(finish(w, rc, NULL, NULL, NULL), 0);
    close_rank(w);
    assert_int_equal(wait_for(w), 0);
}

/* The world of rank 0, whose results go to the writer process. */
static struct bb_world world_of(const struct writer *w)
{
    return (struct bb_world){.size = 1, .nodes = 1, .timeout_s = 10, .supervised.results_fd = w->rank_fd};
}

static struct bb_results_head head_for(const char *json)
{
    static char *command[] = {"busbar", "bench"};

    return (struct bb_results_head){
        .schema = "busbar.bench/1", .path = json, .out = stdout, .argc = 2, .argv = command, .emulated = true};
}

static json_t *load(const char *file)
{
    json_error_t error;
    json_t *root = json_load_file(file, 0, &error);

    if (!root)
        fail_msg("%s: line %d: %s", file, error.line, error.text);
    return root;
}

/* A key whose expected value is NULL must be absent. */
static void expect_end(size_t rows, const char *status, const char *ended_by, const char *phase, const char *reason)
{
    const char *const expected[][2] = {
        {"status", status}, {"ended_by", ended_by}, {"phase", phase}, {"reason", reason}};
    json_t *root = load(path);

    assert_int_equal(json_array_size(json_object_get(root, "results")), rows);
    for (size_t i = 0; i < rows; i++)
        assert_int_equal(
            json_integer_value(json_object_get(json_array_get(json_object_get(root, "results"), i), "row")), i);
    for (size_t i = 0; i < ROWS(expected); i++) {
        const char *value = json_string_value(json_object_get(root, expected[i][0]));

        if (expected[i][1])
            assert_string_equal(value, expected[i][1]);
        else
            assert_null(value);
    }
    json_decref(root);
}

/* Opens the results remotely and adds the rows 0 to n - 1. */
static struct bb_results *open_with_rows(struct bb_world *world, int n)
{
    const struct bb_results_head head = head_for(path);
    struct bb_results *res;

    assert_int_equal(bb_results_open(&res, &head, world), 0);
    assert_non_null(res);
    for (int i = 0; i < n; i++)
        assert_int_equal(bb_results_row(res, json_pack("{s:i}", "row", i)), 0);
    return res;
}

static void write_results(struct bb_world *world)
{
    struct bb_results_head head = head_for(path);
    struct bb_results *res;

    head.csv = csv;
    assert_int_equal(bb_results_open(&res, &head, world), 0);
    assert_string_equal(bb_results_path(res), path);
    for (int i = 0; i < 3; i++)
        assert_int_equal(bb_results_row(res, json_pack("{s:i, s:f, s:f, s:{s:n}, s:[s, s]}", "row", i, "third", 1.0 / 3,
                                                       "whole", 2.0, "inner", "none", "flags", "a", "\n\"b")),
                         0);
    assert_int_equal(bb_results_set(res, "extra", json_pack("{s:I}", "big", (json_int_t)1 << 62)), 0);
    assert_int_equal(bb_results_set(res, "ranks", json_integer(7)), 0);
    assert_int_equal(bb_results_close(res, 0), 0);
}

static void read_text(const char *file, char *into, size_t capacity)
{
    FILE *in = fopen(file, "r");

    assert_non_null(in);
    into[fread(into, 1, capacity - 1, in)] = '\0';
    fclose(in);
}

/* Results written by the writer process equal those written by this process. */
/* Replaces the 20 characters after each occurrence of `before`, a start time, by the letter T. */
static void hide_start_times(char *text, const char *before)
{
    for (char *at = strstr(text, before); at; at = strstr(at, before)) {
        at += strlen(before);
        memset(at, 'T', strlen("2025-01-31T12:00:00Z"));
    }
}

static void remote_results_equal_local_results(void **state)
{
    char tables[2][1024], texts[2][8192];
    struct bb_world world;
    struct writer w;

    (void)state;
    for (int remote = 0; remote <= 1; remote++) {
        if (remote) {
            start(&w);
            world = world_of(&w);
        }
        write_results(remote ? &world : NULL);
        if (remote) {
            close_rank(&w);
            assert_int_equal(finish(&w, 0, NULL, "", NULL), 0);
            assert_int_equal(wait_for(&w), 0);
        }
        read_text(path, texts[remote], sizeof(texts[remote]));
        read_text(csv, tables[remote], sizeof(tables[remote]));
        assert_non_null(strstr(texts[remote], "\"started\": \""));
        hide_start_times(texts[remote], "\"started\": \"");
        hide_start_times(tables[remote], "busbar bench,");
    }
    assert_string_equal(texts[1], texts[0]);
    assert_string_equal(tables[1], tables[0]);
    assert_non_null(strstr(texts[0], "\"status\": \"ok\"\n}\n"));
    assert_non_null(strstr(texts[0], "\"big\": 4611686018427387904"));
#define RUN "busbar bench,TTTTTTTTTTTTTTTTTTTT,,7,1,0.1.0,,"
    assert_string_equal(tables[0], "row,third,whole,inner.none,flags,command,started,host,ranks,nodes,busbar,"
                                   "nccl.runtime,cuda.runtime,emulated,shared_gpu\n"
                                   "0,0.333333333333,2,,\"a \n\"\"b\"," RUN ",true,false\n"
                                   "1,0.333333333333,2,,\"a \n\"\"b\"," RUN ",true,false\n"
                                   "2,0.333333333333,2,,\"a \n\"\"b\"," RUN ",true,false\n");
#undef RUN
}

/* A row is in the file when bb_results_row returns; CLOSE leaves the status "running". */
static void rows_are_in_the_file_at_once(void **state)
{
    struct writer w;
    struct bb_world world;
    struct bb_results *res;

    (void)state;
    start(&w);
    world = world_of(&w);
    res = open_with_rows(&world, 0);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(bb_results_row(res, json_pack("{s:i}", "row", i)), 0);
        expect_end((size_t)i + 1, "running", NULL, NULL, NULL);
    }
    assert_int_equal(bb_results_close(res, 0), 0);
    expect_end(20, "running", NULL, NULL, NULL);
    end_run(&w, 0);
    expect_end(20, "ok", NULL, NULL, NULL);
}

#define UNKNOWN_REASON "a rank failed and printed the reason to stderr"

/* The supervisor determines the status, whatever the rank sent before. */
static void status_follows_the_supervisor(void **state)
{
    static const struct {
        int rc;
        const char *ended_by, *phase, *reason, *status;
    } rows[] = {
        {0, NULL, NULL, NULL, "ok"},
        {-BB_EFAIL, NULL, NULL, NULL, "failed"},
        {-BB_EUSAGE, NULL, NULL, "a line", "failed"},
        {-BB_EDATA, NULL, NULL, NULL, "wrong data"},
        {-BB_ETIMEOUT, NULL, "bench all_reduce 4 MiB", "timeout: the line", "timeout"},
        {-BB_EBELOW, NULL, NULL, NULL, "below threshold"},
        {-BB_EFAIL, "SIGTERM", "bench all_reduce 4 MiB", NULL, "interrupted"},
    };

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++)
        for (int closed = 0; closed <= 1; closed++) {
            struct writer w;
            struct bb_world world;
            struct bb_results *res;

            start(&w);
            world = world_of(&w);
            res = open_with_rows(&world, 2);
            if (closed)
                assert_int_equal(bb_results_close(res, 0), 0);
            assert_int_equal(finish(&w, rows[i].rc, rows[i].ended_by, rows[i].phase, rows[i].reason), 0);
            close_rank(&w);
            assert_int_equal(wait_for(&w), 0);
            expect_end(2, rows[i].status, rows[i].ended_by, rows[i].phase,
                       rows[i].rc && !rows[i].ended_by && !rows[i].reason ? UNKNOWN_REASON : rows[i].reason);
            if (!closed)
                assert_int_equal(bb_results_close(res, -BB_EFAIL), -BB_EFAIL);
        }
}

static void send_raw(int fd, int request, const char *json)
{
    assert_int_equal(bb_rank_send(fd, (enum bb_rank_request)request, 0, json, strlen(json)), 0);
}

static void send_open(int fd, const char *json)
{
    snprintf(text, sizeof(text), "{\"path\":\"%s\",\"csv\":null,\"root\":{\"schema\":\"x\",\"results\":[]}}", json);
    send_raw(fd, BB_RESULTS_OPEN, text);
}

/* The rank sends 100 rows without waiting for the answers and dies. All rows were sent, so all are in the file. */
static void rows_survive_the_death_of_the_rank(void **state)
{
    struct writer w;
    char row[32];

    (void)state;
    start(&w);
    kill(w.pid, SIGSTOP); /* the rows arrive before the writer process reads the first one */
    send_open(w.rank_fd, path);
    for (int i = 0; i < 100; i++) {
        snprintf(row, sizeof(row), "{\"row\":%d}", i);
        send_raw(w.rank_fd, BB_RESULTS_ROW, row);
    }
    send_raw(w.rank_fd, BB_RESULTS_SET, "{\"incomplete\":"); /* not valid JSON, as if the rank died while sending */
    close_rank(&w);
    kill(w.pid, SIGCONT);
    assert_int_equal(finish(&w, -BB_ETIMEOUT, NULL, "row 100", "rank 0 is lost"), 0);
    assert_int_equal(wait_for(&w), 0);
    expect_end(100, "timeout", NULL, "row 100", "rank 0 is lost");
}

/* The supervisor was killed: the writer process saves what the rank has sent, and ends. */
static void results_survive_the_death_of_the_supervisor(void **state)
{
    struct writer w;
    struct bb_world world;
    struct bb_results *res;

    (void)state;
    start(&w);
    world = world_of(&w);
    res = open_with_rows(&world, 3);
    assert_int_equal(wait_for(&w), 0);
    expect_end(3, "interrupted", "the loss of its supervisor", NULL, NULL);
    close_rank(&w);
    assert_int_equal(bb_results_close(res, -BB_EFAIL), -BB_EFAIL);
}

/* Returns the code of the next answer to the rank; 99: the connection is closed. */
static int next_answer(struct writer *w)
{
    struct pollfd p = {.fd = w->rank_fd, .events = POLLIN};
    struct bb_rank_header header;
    const void *payload;
    int n;

    while ((n = bb_rank_receive(&w->rank, &header, &payload)) == 0)
        assert_int_equal(poll(&p, 1, 10000), 1);
    if (n < 0)
        return 99;
    assert_int_equal(header.request, BB_RESULTS_ANSWER);
    return header.code;
}

/* Starts a writer process whose document is open. */
static void open_results(struct writer *w)
{
    start(w);
    send_open(w->rank_fd, path);
    assert_int_equal(next_answer(w), 0);
}

static void expect_answer(struct writer *w, int request, const char *json, int code)
{
    send_raw(w->rank_fd, request, json);
    assert_int_equal(next_answer(w), code);
}

static void invalid_requests_are_rejected(void **state)
{
    char other[128];
    struct writer w;

    (void)state;
    snprintf(other, sizeof(other), "{\"path\":\"%s.2\",\"root\":{\"results\":[]}}", path);
    start(&w);
    expect_answer(&w, BB_RESULTS_ROW, "{}", -BB_EFAIL);
    expect_answer(&w, BB_RESULTS_SET, "{}", -BB_EFAIL);
    expect_answer(&w, BB_RESULTS_CLOSE, "null", -BB_EFAIL);
    expect_answer(&w, BB_RESULTS_OPEN, "", -BB_EFAIL);
    expect_answer(&w, BB_RESULTS_OPEN, "[1]", -BB_EFAIL);
    expect_answer(&w, BB_RESULTS_OPEN, "{\"root\":7}", -BB_EFAIL);
    expect_answer(&w, BB_RESULTS_FINISH, "{}", -BB_EFAIL);
    expect_answer(&w, 0, "{}", -BB_EFAIL);
    send_open(w.rank_fd, path);
    assert_int_equal(next_answer(&w), 0);
    expect_answer(&w, BB_RESULTS_OPEN, other, -BB_EFAIL);
    expect_answer(&w, BB_RESULTS_ROW, "{", -BB_EFAIL);
    expect_answer(&w, BB_RESULTS_SET, "[\"a\", 1]", -BB_EFAIL);
    expect_answer(&w, BB_RESULTS_ROW, "{\"row\":0}", 0);
    send_raw(w.control_fd, BB_RESULTS_ROW, "{\"row\":1}");
    assert_int_equal(next_control_answer(&w), -BB_EFAIL);
    expect_answer(&w, BB_RESULTS_ROW, "{\"row\":1}", 0);
    end_run(&w, 0);
    expect_end(2, "ok", NULL, NULL, NULL);
}

/* After a header with an invalid length, the rank is disconnected; the rows before it are saved. */
static void invalid_length_ends_the_connection(void **state)
{
    const struct bb_rank_header header = {.request = BB_RESULTS_ROW, .bytes = UINT32_MAX};
    struct writer w;

    (void)state;
    open_results(&w);
    expect_answer(&w, BB_RESULTS_ROW, "{\"row\":0}", 0);
    assert_int_equal(write(w.rank_fd, &header, sizeof(header)), sizeof(header));
    assert_int_equal(next_answer(&w), 99);
    assert_int_equal(next_control_answer(&w), -BB_EFAIL);
    end_run(&w, -BB_EFAIL);
    expect_end(1, "failed", NULL, NULL, "results: invalid message of the rank");
}

/* A FINISH that is not valid JSON still sets the status. */
static void invalid_finish_sets_the_status(void **state)
{
    struct writer w;

    (void)state;
    open_results(&w);
    assert_int_equal(bb_rank_send(w.control_fd, (enum bb_rank_request)BB_RESULTS_FINISH, -BB_ETIMEOUT, "{", 1), 0);
    assert_int_equal(next_control_answer(&w), 0);
    close_rank(&w);
    assert_int_equal(wait_for(&w), 0);
    expect_end(0, "timeout", NULL, NULL, NULL);
}

/* A run without results, and a text that is not valid UTF-8. */
static void finish_without_results_succeeds(void **state)
{
    struct writer w;

    (void)state;
    start(&w);
    assert_int_equal(finish(&w, -BB_EFAIL, "SIGTERM", "\xff", "line"), 0);
    close_rank(&w);
    assert_int_equal(wait_for(&w), 0);
    assert_int_equal(access(path, F_OK), -1);
}

/* The path cannot be written: OPEN fails, and nothing is written at the end, not even the CSV. */
static void failed_open_writes_nothing(void **state)
{
    struct bb_results_head head = head_for("/nowhere/at/all.json");
    struct writer w;
    struct bb_world world;
    struct bb_results *res;

    (void)state;
    head.csv = csv;
    start(&w);
    world = world_of(&w);
    assert_int_equal(bb_results_open(&res, &head, &world), -BB_EUSAGE);
    assert_null(res);
    end_run(&w, -BB_EUSAGE);
    assert_int_equal(access(csv, F_OK), -1);
    read_text(errors, text, sizeof(text));
    assert_string_equal(text, "busbar: cannot write the results: /nowhere/at/all.json: No such file or directory\n");
}

/* The CSV cannot be written at the end: the answer to FINISH and the status of the JSON say so. */
static void failed_final_write_is_reported(void **state)
{
    struct bb_results_head head = head_for(path);
    struct writer w;
    struct bb_world world;
    struct bb_results *res;

    (void)state;
    head.csv = "/dev/full";
    start(&w);
    world = world_of(&w);
    assert_int_equal(bb_results_open(&res, &head, &world), 0);
    assert_int_equal(bb_results_row(res, json_pack("{s:i}", "row", 0)), 0);
    assert_int_equal(bb_results_close(res, 0), 0);
    assert_int_equal(finish(&w, 0, NULL, NULL, NULL), -BB_EFAIL);
    close_rank(&w);
    assert_int_equal(wait_for(&w), BB_EFAIL);
    expect_end(1, "failed", NULL, NULL, "cannot write the table: /dev/full: No space left on device");
    read_text(errors, text, sizeof(text));
    assert_string_equal(text, "busbar: cannot write the table: /dev/full: No space left on device\n");
}

/* The folder is gone at CLOSE: the rank gets the error; it is printed once, also after FINISH. */
static void failed_close_is_reported_once(void **state)
{
    char inner[64], file[80] = "";
    struct bb_results_head head = head_for(file);
    struct writer w;
    struct bb_world world;
    struct bb_results *res;

    (void)state;
    snprintf(inner, sizeof(inner), "%s/inner", folder);
    snprintf(file, sizeof(file), "%s/x.json", inner);
    assert_int_equal(mkdir(inner, 0700), 0);
    start(&w);
    world = world_of(&w);
    assert_int_equal(bb_results_open(&res, &head, &world), 0);
    assert_int_equal(unlink(file) | rmdir(inner), 0);
    assert_int_equal(bb_results_close(res, 0), -BB_EFAIL);
    end_run(&w, -BB_EFAIL);
    read_text(errors, text, sizeof(text));
    assert_non_null(strstr(text, "busbar: cannot write the results: "));
    assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
}

/* With "-", the JSON is written to the stdout of the writer process. */
static void dash_is_the_stdout_of_the_writer_process(void **state)
{
    struct bb_results_head head = head_for("-");
    struct writer w;
    struct bb_world world;
    struct bb_results *res;
    json_t *root;

    (void)state;
    start(&w);
    world = world_of(&w);
    assert_int_equal(bb_results_open(&res, &head, &world), 0);
    assert_null(bb_results_path(res));
    assert_int_equal(bb_results_row(res, json_pack("{s:i}", "row", 0)), 0);
    assert_int_equal(bb_results_close(res, 0), 0);
    end_run(&w, 0);
    root = load(printed);
    assert_string_equal(json_string_value(json_object_get(root, "status")), "ok");
    assert_int_equal(json_array_size(json_object_get(root, "results")), 1);
    json_decref(root);
}

/* A document of nccl-tests' schema has no status; `fresh` chooses another name, which the rank receives. */
static void foreign_schema_and_fresh_name_work_remotely(void **state)
{
    struct bb_results_head head = head_for(path);
    char expected[72];
    struct writer w;
    struct bb_world world;
    struct bb_results *res;
    json_t *root;

    (void)state;
    close(open(path, O_WRONLY | O_CREAT, 0600));
    snprintf(expected, sizeof(expected), "%s.0", path);
    head.fresh = true;
    head.root = json_pack("{s:i, s:[], s:s}", "version", 3, "results", "end", "none");
    start(&w);
    world = world_of(&w);
    assert_int_equal(bb_results_open(&res, &head, &world), 0);
    assert_string_equal(bb_results_path(res), expected);
    assert_int_equal(bb_results_row(res, json_pack("{s:i}", "size", 8)), 0);
    assert_int_equal(bb_results_close(res, 0), 0);
    assert_int_equal(finish(&w, -BB_EFAIL, "SIGTERM", "phase", "reason"), 0);
    close_rank(&w);
    assert_int_equal(wait_for(&w), 0);
    root = load(expected);
    assert_int_equal(json_object_size(root), 3);
    assert_int_equal(json_array_size(json_object_get(root, "results")), 1);
    json_decref(root);
    assert_int_equal(unlink(expected), 0);
}

/* The writer process was killed: the rank waits for the decision of its supervisor (here: its timeout), and the later
 * calls fail at once. */
static void rank_waits_for_its_supervisor_after_the_loss_of_the_writer_process(void **state)
{
    struct writer w;
    struct bb_world world;
    struct bb_results *res;
    struct capture captured;

    (void)state;
    start(&w);
    world = world_of(&w);
    res = open_with_rows(&world, 2);
    kill(w.pid, SIGKILL);
    assert_int_equal(wait_for(&w), -1);
    capture_begin(&captured);
    world.timeout_s = 0.2;
    assert_int_equal(bb_results_row(res, json_pack("{s:i}", "row", 2)), -BB_ETIMEOUT);
    assert_int_equal(bb_results_row(res, json_pack("{s:i}", "row", 3)), -BB_EFAIL);
    assert_int_equal(bb_results_close(res, 0), -BB_EFAIL);
    assert_string_equal(capture_end(&captured), "busbar: timeout: writing the results did not end within 0.2 s\n");
    close_rank(&w);
    expect_end(2, "running", NULL, NULL, NULL);
}

/* The writer process does not answer, as with a disk that hangs: the wait of the rank times out. */
static void writer_process_that_hangs_is_a_timeout(void **state)
{
    struct writer w;
    struct bb_world world;
    struct bb_results *res;
    struct capture captured;

    (void)state;
    start(&w);
    world = world_of(&w);
    world.timeout_s = 0.2;
    res = open_with_rows(&world, 1);
    kill(w.pid, SIGSTOP);
    capture_begin(&captured);
    assert_int_equal(bb_results_row(res, json_pack("{s:i}", "row", 1)), -BB_ETIMEOUT);
    assert_int_equal(bb_results_row(res, json_pack("{s:i}", "row", 2)), -BB_EFAIL); /* is not sent */
    assert_string_equal(capture_end(&captured), "busbar: timeout: writing the results did not end within 0.2 s\n");
    assert_int_equal(bb_results_close(res, -BB_ETIMEOUT), -BB_ETIMEOUT);
    kill(w.pid, SIGCONT);
    end_run(&w, -BB_ETIMEOUT);
    expect_end(2, "timeout", NULL, NULL, UNKNOWN_REASON);
}

/* The rank dies in the middle of a request; the process that takes its place opens the results again, and adds its rows. */
static void rank_that_is_started_again_continues_the_results(void **state)
{
    const struct bb_results_head head = head_for(path);
    struct bb_results *res;
    struct bb_world world;
    struct writer w;
    int ends[2], status;
    pid_t first;

    (void)state;
    start(&w);
    first = fork();
    if (first == 0) {
        world = world_of(&w);
        status = bb_results_open(&res, &head, &world) || bb_results_row(res, json_pack("{s:i}", "row", 0));
        _exit(status || write(w.rank_fd, "half", 4) != 4);
    }
    assert_true(waitpid(first, &status, 0) == first && status == 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    assert_int_equal(bb_results_pass_rank(w.control_fd, ends[1]), 0);
    close(ends[1]);
    close(w.rank_fd);
    w.rank = (struct bb_rank_receiver){.fd = w.rank_fd = ends[0]};
    world = world_of(&w);
    assert_int_equal(bb_results_open(&res, &head, &world), 0);
    assert_int_equal(bb_results_row(res, json_pack("{s:i}", "row", 0)), 0);
    assert_int_equal(bb_results_row(res, json_pack("{s:i}", "row", 1)), 0);
    assert_int_equal(bb_results_close(res, 0), 0);
    end_run(&w, 0);
    expect_end(2, "ok", NULL, NULL, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(remote_results_equal_local_results, remove_files),
        cmocka_unit_test_teardown(rows_are_in_the_file_at_once, remove_files),
        cmocka_unit_test_teardown(status_follows_the_supervisor, remove_files),
        cmocka_unit_test_teardown(rows_survive_the_death_of_the_rank, remove_files),
        cmocka_unit_test_teardown(rank_that_is_started_again_continues_the_results, remove_files),
        cmocka_unit_test_teardown(results_survive_the_death_of_the_supervisor, remove_files),
        cmocka_unit_test_teardown(invalid_requests_are_rejected, remove_files),
        cmocka_unit_test_teardown(invalid_length_ends_the_connection, remove_files),
        cmocka_unit_test_teardown(invalid_finish_sets_the_status, remove_files),
        cmocka_unit_test_teardown(finish_without_results_succeeds, remove_files),
        cmocka_unit_test_teardown(failed_open_writes_nothing, remove_files),
        cmocka_unit_test_teardown(failed_final_write_is_reported, remove_files),
        cmocka_unit_test_teardown(failed_close_is_reported_once, remove_files),
        cmocka_unit_test_teardown(dash_is_the_stdout_of_the_writer_process, remove_files),
        cmocka_unit_test_teardown(foreign_schema_and_fresh_name_work_remotely, remove_files),
        cmocka_unit_test_teardown(rank_waits_for_its_supervisor_after_the_loss_of_the_writer_process, remove_files),
        cmocka_unit_test_teardown(writer_process_that_hangs_is_a_timeout, remove_files),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
