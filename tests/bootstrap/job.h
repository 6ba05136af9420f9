/*
 * job.h - a job of four ranks that is started under mpirun and looked at from outside: what it says, how each rank
 * ends, what it leaves. A shell around each rank records its exit status, since mpirun only reports the first.
 * Hydra (HYDRA) cannot be told to leave ranks alone: whom it killed has no status.
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
    int status[RANKS]; /* -1: none was recorded */
    int mpirun;        /* its exit status */
    json_t *results;   /* NULL: no file */
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
 * MPI's own start counts as a phase. Where a busy machine takes longer for it than a job has, it is tried again, and said:
 * a few times in a test program, since a start that has become slow is slow each time.
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

/* mpirun leaves the ranks alone, as srun does: what they do is their own. */
static inline void start(struct job *job, const char *mode, int rank, double timeout_s)
{
    start_as(job, MPIEXEC_LEAVE, mode, rank, timeout_s);
}

static inline void expect_text(const struct job *job, const char *text)
{
    if (!strstr(job->err, text))
        fail_msg("not said: %s\n--- but:\n%s", text, job->err);
}

/* All ranks but `except` end with `status`. */
static inline void expect_status(const struct job *job, int status, int except)
{
    for (int r = 0; r < RANKS; r++)
        if (r != except && job->status[r] != status && !(HYDRA && status && job->status[r] == -1))
            fail_msg("rank %d ends with %d, not %d\n--- and says:\n%s", r, job->status[r], status, job->err);
}

static inline void expect_results(const struct job *job, const char *status)
{
    assert_non_null(job->results);
    assert_int_equal(json_array_size(json_object_get(job->results, "results")), 1);
    assert_string_equal(json_string_value(json_object_get(job->results, "status")), status);
}

static inline int times_said(const struct job *job, const char *text)
{
    int n = 0;

    for (const char *at = job->err; (at = strstr(at, text)); at++)
        n++;
    return n;
}

#endif
