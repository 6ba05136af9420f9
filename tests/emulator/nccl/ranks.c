/*
 * ranks.c - ranks as forked processes. See ranks.h. CUDA and NCCL are not used before the fork.
 */
#include "ranks.h"

#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { RANKS_MAX = 16, LIMIT_S = 50 };

struct job {
    int size, flags;
    rank_fn *fn;
    const void *arg;
    int id_pipe[2];  /* rank 0 distributes the unique id */
    int err_pipe[2]; /* stderr of all ranks, if requested */
    pid_t pids[RANKS_MAX];
};

static int share_id(const struct job *job, struct rank *r)
{
    if (r->rank > 0)
        return read(job->id_pipe[0], &r->id, sizeof(r->id)) == sizeof(r->id) ? 0 : 1;
    CHECK_EQ(ncclGetUniqueId(&r->id), ncclSuccess);
    for (int i = 1; i < r->size; i++)
        CHECK_EQ(write(job->id_pipe[1], &r->id, sizeof(r->id)), sizeof(r->id));
    return 0;
}

static int be_rank(const struct job *job, int rank)
{
    struct rank rank_state = {.rank = rank, .size = job->size, .arg = job->arg}, *r = &rank_state;

    CHECK_EQ(cudaSetDevice(job->flags & RANKS_ONE_DEVICE ? 0 : rank), cudaSuccess);
    CHECK_EQ(cudaStreamCreateWithFlags(&r->stream, cudaStreamNonBlocking), cudaSuccess);
    CHECK_EQ(share_id(job, r), 0);
    if (!(job->flags & RANKS_NO_COMM))
        CHECK_EQ(ncclCommInitRank(&r->comm, r->size, r->id, rank), ncclSuccess);
    CHECK_EQ(job->fn(r), 0);
    if (r->comm != NULL && job->flags & RANKS_ABORT)
        CHECK_EQ(ncclCommAbort(r->comm), ncclSuccess);
    else if (r->comm != NULL)
        CHECK_EQ(ncclCommDestroy(r->comm), ncclSuccess);
    return 0;
}

static void set_number(const char *name, int number)
{
    char text[16];

    snprintf(text, sizeof(text), "%d", number);
    setenv(name, text, 1);
}

static void start_rank(struct job *job, int rank, bool wants_stderr)
{
    fflush(stdout);
    job->pids[rank] = fork();
    assert_true(job->pids[rank] >= 0);
    if (job->pids[rank] > 0)
        return;
    set_number("OMPI_COMM_WORLD_RANK", rank);
    set_number("OMPI_COMM_WORLD_SIZE", job->size);
    if (job->flags & RANKS_OF_JOBS)
        set_number("SLURM_STEP_ID", rank);
    setenv("EMU_QUIET", "1", 0);
    if (wants_stderr)
        dup2(job->err_pipe[1], STDERR_FILENO);
    close(job->err_pipe[0]);
    close(job->err_pipe[1]);
    exit(be_rank(job, rank));
}

/* Reads until all ranks have closed their end, or until the time limit. */
static bool read_errors(const struct job *job, struct output *out)
{
    struct pollfd poll_fd = {.fd = job->err_pipe[0], .events = POLLIN};
    time_t end = time(NULL) + LIMIT_S;
    char chunk[512];
    size_t at = 0;

    while (time(NULL) < end) {
        if (poll(&poll_fd, 1, 500) < 1)
            continue;
        ssize_t n = read(job->err_pipe[0], chunk, sizeof(chunk));
        if (n <= 0)
            return true;
        size_t keep = out == NULL ? 0 : (size_t)n < sizeof(out->text) - 1 - at ? (size_t)n : sizeof(out->text) - 1 - at;
        if (keep > 0)
            memcpy(out->text + at, chunk, keep);
        at += keep;
    }
    return false;
}

/* Records a rank that has ended. Returns whether it failed. */
static bool reap(struct job *job, int rank, int wait_flags)
{
    int status;

    if (job->pids[rank] == 0 || waitpid(job->pids[rank], &status, wait_flags) == 0)
        return false;
    job->pids[rank] = 0;
    return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

static int running(const struct job *job)
{
    int n = 0;

    for (int i = 0; i < job->size; i++)
        n += job->pids[i] != 0;
    return n;
}

/* Returns the number of failed ranks. Kills ranks that exceed the time limit, or run 2 s longer than a failed one. */
static int collect(struct job *job)
{
    int failed = 0;
    time_t end = time(NULL) + LIMIT_S;

    while (running(job) > 0 && time(NULL) < end) {
        for (int i = 0; i < job->size; i++)
            if (reap(job, i, WNOHANG)) {
                failed++;
                end = time(NULL) + 2;
            }
        usleep(500);
    }
    for (int i = 0; i < job->size; i++) {
        if (job->pids[i] == 0)
            continue;
        print_error("rank %d does not end\n", i);
        kill(job->pids[i], SIGKILL);
        failed += reap(job, i, 0);
    }
    return failed;
}

void run_ranks(int size, rank_fn *fn, const void *arg, int flags, struct output *out)
{
    struct job job = {.size = size, .flags = flags, .fn = fn, .arg = arg};

    assert_in_range(size, 1, RANKS_MAX);
    assert_int_equal(pipe(job.id_pipe), 0);
    assert_int_equal(pipe(job.err_pipe), 0);
    if (out != NULL)
        *out = (struct output){0};
    for (int i = 0; i < size; i++)
        start_rank(&job, i, out != NULL);
    close(job.err_pipe[1]);
    if (out != NULL)
        read_errors(&job, out);
    int failed = collect(&job);
    close(job.err_pipe[0]);
    close(job.id_pipe[0]);
    close(job.id_pipe[1]);
    assert_int_equal(failed, 0);
}

void *device_buffer(size_t bytes)
{
    void *p = NULL;

    if (cudaMalloc(&p, bytes ? bytes : 1) != cudaSuccess || cudaMemset(p, 0, bytes ? bytes : 1) != cudaSuccess)
        return NULL;
    return cudaDeviceSynchronize() == cudaSuccess ? p : NULL;
}

int wait_for(ncclComm_t comm, ncclResult_t *state)
{
    time_t end = time(NULL) + 20;

    do
        if (ncclCommGetAsyncError(comm, state) != ncclSuccess)
            return 1;
    while (*state == ncclInProgress && time(NULL) < end);
    return *state == ncclInProgress;
}

double stream_us(cudaStream_t stream, cudaEvent_t from)
{
    cudaEvent_t to;
    float ms = -1;

    if (cudaEventCreate(&to) != cudaSuccess || cudaEventRecord(to, stream) != cudaSuccess ||
        cudaEventSynchronize(to) != cudaSuccess || cudaEventElapsedTime(&ms, from, to) != cudaSuccess)
        return -1;
    cudaEventDestroy(to);
    cudaEventDestroy(from);
    return (double)ms * 1e3;
}

int use_profile(const char *text)
{
    char path[] = "/tmp/emu-nccl-test-XXXXXX";
    int fd = mkstemp(path);
    ssize_t length = (ssize_t)strlen(text);

    if (fd < 0 || write(fd, text, (size_t)length) != length)
        return 1;
    close(fd);
    return setenv("EMU_CLUSTER", path, 1) != 0;
}

int drop_profile(void **state)
{
    (void)state;
    return unlink(getenv("EMU_CLUSTER")) != 0;
}
