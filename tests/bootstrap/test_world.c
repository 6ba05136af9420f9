/*
 * test_world.c - what a job does when a rank misbehaves: started for real under mpirun, seen from outside. Each rank's
 * own exit status is recorded by a shell around it, since mpirun only reports the first.
 */
#include "bootstrap/clock.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { RANKS = 4 };

struct job {
    char dir[64];
    char err[16384];   /* stderr of all ranks and of mpirun */
    int status[RANKS]; /* -1: none was recorded */
    int mpirun;        /* its exit status */
    json_t *results;   /* NULL: no file */
    double took_s;
};

static void read_status(struct job *job)
{
    for (int r = 0; r < RANKS; r++) {
        char path[128];
        FILE *file;

        job->status[r] = -1;
        snprintf(path, sizeof(path), "%s/status.%d", job->dir, r);
        file = fopen(path, "r");
        if (!file)
            continue;
        if (fscanf(file, "%d", &job->status[r]) != 1)
            job->status[r] = -1;
        fclose(file);
    }
}

static void start_as(struct job *job, const char *launcher, const char *mode, int rank, double timeout_s)
{
    char command[2048], path[128];
    double start_s = bb_now_s();
    size_t used;
    FILE *pipe;

    memset(job, 0, sizeof(*job));
    strcpy(job->dir, "/tmp/bb_world_XXXXXX");
    assert_non_null(mkdtemp(job->dir));
    setenv("JOB", job->dir, 1);
    snprintf(path, sizeof(path), "%s/results.json", job->dir);
    setenv("PROBE_JSON", path, 1);
    snprintf(command, sizeof(command),
             "timeout -k 5 40 %s %s %s %d sh -c 'trap : TERM; \"$0\" \"$@\"; s=$?; echo $s "
             ">$JOB/status.$OMPI_COMM_WORLD_RANK; exit $s' "
             "%s %s %d %g 2>&1 </dev/null",
             MPIEXEC, launcher, MPIEXEC_N, RANKS, PROBE, mode, rank, timeout_s);
    pipe = popen(command, "r");
    assert_non_null(pipe);
    used = fread(job->err, 1, sizeof(job->err) - 1, pipe);
    job->err[used] = '\0';
    job->mpirun = WEXITSTATUS(pclose(pipe));
    job->took_s = bb_now_s() - start_s;
    read_status(job);
    job->results = json_load_file(path, 0, NULL);
}

/* mpirun leaves the ranks alone, as srun does: what they do is their own. */
static void start(struct job *job, const char *mode, int rank, double timeout_s)
{
    start_as(job, "--enable-recovery", mode, rank, timeout_s);
}

static void clear(struct job *job)
{
    char command[128];

    json_decref(job->results);
    snprintf(command, sizeof(command), "rm -r %s", job->dir);
    assert_int_equal(system(command), 0);
}

static void expect_text(const struct job *job, const char *text)
{
    if (!strstr(job->err, text))
        fail_msg("not said: %s\n--- but:\n%s", text, job->err);
}

/* All ranks but `except` end with `status`. */
static void expect_status(const struct job *job, int status, int except)
{
    for (int r = 0; r < RANKS; r++)
        if (r != except && job->status[r] != status)
            fail_msg("rank %d ends with %d, not %d\n--- and says:\n%s", r, job->status[r], status, job->err);
}

static void expect_results(const struct job *job, const char *status)
{
    assert_non_null(job->results);
    assert_int_equal(json_array_size(json_object_get(job->results, "results")), 1);
    assert_string_equal(json_string_value(json_object_get(job->results, "status")), status);
}

static int times_said(const struct job *job, const char *text)
{
    int n = 0;

    for (const char *at = job->err; (at = strstr(at, text)); at++)
        n++;
    return n;
}

static void test_orderly(void **state)
{
    struct job job;

    (void)state;
    start(&job, "ok", -1, 30);
    expect_status(&job, 0, -1);
    assert_string_equal(job.err, "");
    assert_int_equal(job.mpirun, 0);
    expect_results(&job, "ok");
    clear(&job);
}

static void test_rank_killed(void **state)
{
    struct job job;

    (void)state;
    start(&job, "kill", 2, 30);
    expect_text(&job, "rank 2 (");
    expect_text(&job, ") is lost; last seen: probe all_reduce 4 MiB");
    assert_int_equal(times_said(&job, "is lost"), 1);
    expect_status(&job, 4, 2);
    expect_results(&job, "timeout");
    clear(&job);
}

static void test_first_rank_killed(void **state)
{
    struct job job;

    (void)state;
    start(&job, "kill", 0, 30);
    expect_text(&job, "rank 0 (");
    expect_text(&job, ") is lost; last seen: ");
    assert_int_equal(times_said(&job, "is lost"), RANKS - 1);
    expect_status(&job, 4, 0);
    expect_results(&job, "running");
    clear(&job);
}

/* An exit without a goodbye is a loss, whatever its status. */
static void test_rank_exits(void **state)
{
    struct job job;

    (void)state;
    start(&job, "exit", 3, 30);
    expect_text(&job, "rank 3 (");
    expect_text(&job, ") is lost; last seen: probe all_reduce 4 MiB");
    expect_status(&job, 4, 3);
    clear(&job);
}

static void test_rank_stalls(void **state)
{
    struct job job;

    (void)state;
    start(&job, "stall", 2, 2);
    expect_text(&job, "timeout: the second barrier did not end within 2 s; 1 of 4 ranks did not arrive: rank 2 (");
    expect_text(&job, "), last seen: probe all_reduce 4 MiB");
    assert_int_equal(times_said(&job, "timeout:"), 1);
    expect_status(&job, 4, -1);
    expect_results(&job, "timeout");
    clear(&job);
}

static void test_first_rank_stalls(void **state)
{
    struct job job;

    (void)state;
    start(&job, "stall", 0, 2);
    expect_text(&job, "1 of 4 ranks did not arrive: rank 0 (");
    expect_status(&job, 4, -1);
    clear(&job);
}

/* Even the thread of rank 0 does not answer: each other rank speaks for itself. */
static void test_first_rank_stopped(void **state)
{
    struct job job;

    (void)state;
    start(&job, "stop", 0, 2);
    expect_text(&job, "timeout: the second barrier did not end within 2 s; last seen: probe all_reduce 4 MiB");
    expect_text(&job, "rank 0 (");
    expect_text(&job, ") does not answer");
    clear(&job);
}

static void test_guarded_call_hangs(void **state)
{
    struct job job;

    (void)state;
    start(&job, "guard", 1, 2);
    expect_text(&job, "all 4 ranks arrived, but wait for something else: rank 1 (");
    expect_text(&job, "waiting for a call that hangs");
    expect_status(&job, 4, -1);
    clear(&job);
}

static void test_operation_hangs(void **state)
{
    struct job job;

    (void)state;
    start(&job, "operation", -1, 2);
    expect_text(&job, "timeout: an operation without end did not end within 2 s; last seen: probe all_reduce 4 MiB");
    expect_text(&job, "; all 4 ranks arrived\n");
    expect_status(&job, 4, -1);
    clear(&job);
}

static void test_rank_fails(void **state)
{
    struct job job;

    (void)state;
    start(&job, "fail", 1, 30);
    expect_text(&job, "): planted failure");
    assert_int_equal(times_said(&job, "planted failure"), 1);
    assert_int_equal(times_said(&job, "is lost"), 0);
    expect_status(&job, 3, -1);
    expect_results(&job, "wrong data");
    clear(&job);
}

/* With an ordinary mpirun, which kills all when the first one is gone, nothing is lost either. */
static void test_mpirun_reports(void **state)
{
    static const struct {
        const char *mode, *said, *status;
        int exit;
    } cases[] = {
        {"fail", "planted failure", "wrong data", 3},
        {"stall", "did not arrive: rank 1 (", "timeout", 4},
        {"kill", "is lost; last seen: probe all_reduce 4 MiB", "timeout", 137},
    };
    struct job job;

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        start_as(&job, "", cases[i].mode, 1, 2);
        expect_text(&job, cases[i].said);
        expect_results(&job, cases[i].status);
        assert_int_equal(job.mpirun, cases[i].exit);
        clear(&job);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_orderly),
        cmocka_unit_test(test_rank_killed),
        cmocka_unit_test(test_first_rank_killed),
        cmocka_unit_test(test_rank_exits),
        cmocka_unit_test(test_rank_stalls),
        cmocka_unit_test(test_first_rank_stalls),
        cmocka_unit_test(test_first_rank_stopped),
        cmocka_unit_test(test_guarded_call_hangs),
        cmocka_unit_test(test_operation_hangs),
        cmocka_unit_test(test_rank_fails),
        cmocka_unit_test(test_mpirun_reports),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
