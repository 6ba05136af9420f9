/*
 * job.h - starts a job of four ranks under mpirun and collects its output, the exit status of each rank and its results
 * file. A shell around each supervisor records its exit status, because mpirun reports only the first one. Hydra
 * (HYDRA) kills the other ranks after a failure; a killed shell records no status.
 */
#ifndef BB_TESTS_BOOTSTRAP_JOB_H
#define BB_TESTS_BOOTSTRAP_JOB_H

#include "bootstrap/base/clock.h"
#include "tests/check.h"

#include <jansson.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS = 4, AGAIN_MAX = 3 };

struct job {
    char dir[64];
    char err[16384];   /* stderr of all ranks and of mpirun */
    int status[RANKS]; /* exit status of each supervisor; -1 when none was recorded */
    int mpirun;        /* exit status of mpirun */
    json_t *results;   /* NULL: there is no results file */
    double took_s;
};

static inline void read_status(struct job *job)
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

static inline void start_once(struct job *job, const char *launcher, const char *mode, int rank, double timeout_s)
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
             ">$JOB/status.${OMPI_COMM_WORLD_RANK:-$PMI_RANK}; exit $s' "
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

static inline void clear(struct job *job)
{
    char command[128];

    json_decref(job->results);
    unsetenv("PROBE_JSON");
    snprintf(command, sizeof(command), "rm -r %s", job->dir);
    assert_int_equal(system(command), 0);
}

/*
 * The start of MPI counts as a phase with a deadline. On a busy machine that start may take longer than the deadline
 * of the job. The job is then started again, with a message. A test program repeats at most AGAIN_MAX starts, because a
 * start that has become slow stays slow.
 */
static inline void start_as(struct job *job, const char *launcher, const char *mode, int rank, double timeout_s)
{
    static int n_again;

    start_once(job, launcher, mode, rank, timeout_s);
    while (strstr(job->err, "timeout in starting MPI")) {
        if (++n_again > AGAIN_MAX)
            fail_msg("the start of MPI took longer than %g s %d times", timeout_s, n_again);
        print_message("  %s %d: the start of MPI took longer than %g s, once more (%d of at most %d)\n", mode, rank,
                      timeout_s, n_again, AGAIN_MAX);
        clear(job);
        start_once(job, launcher, mode, rank, timeout_s);
    }
}

/* mpirun does not kill the other ranks after a failure, like srun; the supervisors have to end the job. */
static inline void start(struct job *job, const char *mode, int rank, double timeout_s)
{
    start_as(job, MPIEXEC_LEAVE, mode, rank, timeout_s);
}

/* Returns how often `text` occurs in the output. */
static inline int count_text(const struct job *job, const char *text)
{
    int n = 0;

    for (const char *at = job->err; (at = strstr(at, text)); at++)
        n++;
    return n;
}

static inline void expect_text(const struct job *job, const char *text)
{
    if (!strstr(job->err, text))
        fail_msg("missing from the output: %s\n--- output:\n%s", text, job->err);
}

/* All supervisors except that of rank `except` end with `status`. */
static inline void expect_status(const struct job *job, int status, int except)
{
    for (int r = 0; r < RANKS; r++)
        if (r != except && job->status[r] != status && !(HYDRA && status && job->status[r] == -1))
            fail_msg("rank %d ends with %d, not %d\n--- output:\n%s", r, job->status[r], status, job->err);
}

/* The job prints exactly one error line. */
static inline void expect_one_line(const struct job *job)
{
    if (count_text(job, "busbar: ") != 1)
        fail_msg("not one error line:\n%s", job->err);
}

static inline void expect_results(const struct job *job, const char *status)
{
    assert_non_null(job->results);
    assert_int_equal(json_array_size(json_object_get(job->results, "results")), 1);
    assert_string_equal(json_string_value(json_object_get(job->results, "status")), status);
}

#endif
