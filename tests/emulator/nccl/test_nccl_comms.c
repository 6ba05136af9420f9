/*
 * test_nccl_comms.c - communicators of the NCCL stand-in: init, configuration, split, shrink, non-blocking calls, abort
 * of hanging operations, argument checks, and leftovers in /dev/shm.
 */
#include "ranks.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* All ranks of a communicator add 1; the sum is its size. */
static int sum_is_size(struct rank *r, ncclComm_t comm)
{
    int *x = device_buffer(sizeof(*x)), one = 1, sum = 0, n = 0;
    ncclResult_t state;

    CHECK_EQ(ncclCommCount(comm, &n), ncclSuccess);
    CHECK_EQ(cudaMemcpy(x, &one, sizeof(one), cudaMemcpyHostToDevice), cudaSuccess);
    ncclResult_t rc = ncclAllReduce(x, x, 1, ncclInt, ncclSum, comm, r->stream);
    CHECK(rc == ncclSuccess || rc == ncclInProgress);
    CHECK_EQ(wait_for(comm, &state), 0);
    CHECK_EQ(state, ncclSuccess);
    CHECK_EQ(cudaStreamSynchronize(r->stream), cudaSuccess);
    CHECK_EQ(cudaMemcpy(&sum, x, sizeof(sum), cudaMemcpyDeviceToHost), cudaSuccess);
    CHECK_EQ(sum, n);
    return 0;
}

static int versions_and_texts(struct rank *r)
{
    int version = 0;

    CHECK_EQ(ncclGetVersion(&version), ncclSuccess);
    CHECK_EQ(version, NCCL_VERSION_CODE);
    CHECK_EQ(ncclGetVersion(NULL), ncclInvalidArgument);
    CHECK_EQ(pncclGetVersion(&version), ncclSuccess);
    CHECK(strcmp(ncclGetErrorString(ncclSuccess), "no error") == 0);
    CHECK(strstr(ncclGetErrorString(ncclInvalidUsage), "invalid usage") != NULL);
    CHECK(strcmp(ncclGetErrorString(ncclNumResults), "unknown result code") == 0);
    return 0;
}

static int bad_init(struct rank *r)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclUniqueId foreign = {{1, 2, 3}};
    ncclComm_t comm;

    CHECK_EQ(ncclGetUniqueId(NULL), ncclInvalidArgument);
    CHECK_EQ(ncclCommInitRank(NULL, 1, r->id, 0), ncclInvalidArgument);
    CHECK_EQ(ncclCommInitRank(&comm, 0, r->id, 0), ncclInvalidArgument);
    CHECK_EQ(ncclCommInitRank(&comm, 2, r->id, 2), ncclInvalidArgument);
    CHECK_EQ(ncclCommInitRank(&comm, 2, r->id, -1), ncclInvalidArgument);
    CHECK_EQ(ncclCommInitRank(&comm, 1, foreign, 0), ncclInvalidArgument);
    config.magic = 0;
    CHECK_EQ(ncclCommInitRankConfig(&comm, 1, r->id, 0, &config), ncclInvalidArgument);
    CHECK(strstr(ncclGetLastError(NULL), "NCCL_CONFIG_INITIALIZER") != NULL);
    config = (ncclConfig_t)NCCL_CONFIG_INITIALIZER;
    config.blocking = 7;
    CHECK_EQ(ncclCommInitRankConfig(&comm, 1, r->id, 0, &config), ncclInvalidArgument);
    config = (ncclConfig_t)NCCL_CONFIG_INITIALIZER;
    config.minCTAs = 8;
    config.maxCTAs = 4;
    CHECK_EQ(ncclCommInitRankConfig(&comm, 1, r->id, 0, &config), ncclInvalidArgument);
    config = (ncclConfig_t)NCCL_CONFIG_INITIALIZER;
    config.size = offsetof(ncclConfig_t, commName); /* an older, shorter layout */
    CHECK_EQ(ncclCommInitRankConfig(&comm, 1, r->id, 0, &config), ncclSuccess);
    CHECK_EQ(ncclCommDestroy(comm), ncclSuccess);
    CHECK_EQ(ncclCommDestroy(comm), ncclInvalidArgument); /* an invalid handle gives an error instead of a crash */
    CHECK_EQ(ncclCommDestroy(NULL), ncclSuccess);
    CHECK_EQ(ncclCommInitRankScalable(&comm, 1, 0, 1, &r->id, NULL), ncclSuccess);
    CHECK_EQ(ncclCommDestroy(comm), ncclSuccess);
    CHECK_EQ(ncclCommInitRankScalable(&comm, 1, 0, 2, &r->id, NULL), ncclInvalidArgument);
    return 0;
}

static int bad_arguments(struct rank *r)
{
    float *x = device_buffer(16 * sizeof(*x));
    int n;

    CHECK_EQ(ncclAllReduce(x, x, 1, ncclNumTypes, ncclSum, r->comm, r->stream), ncclInvalidArgument);
    CHECK_EQ(ncclAllReduce(x, x, 1, ncclFloat, (ncclRedOp_t)-1, r->comm, r->stream), ncclInvalidArgument);
    CHECK_EQ(ncclAllReduce(x, x, 1, ncclFloat, ncclNumOps, r->comm, r->stream), ncclInvalidArgument);
    CHECK_EQ(ncclAllReduce(NULL, x, 1, ncclFloat, ncclSum, r->comm, r->stream), ncclInvalidArgument);
    CHECK_EQ(ncclAllReduce(x, NULL, 1, ncclFloat, ncclSum, r->comm, r->stream), ncclInvalidArgument);
    CHECK_EQ(ncclAllReduce(x, x, 1, ncclFloat, ncclSum, NULL, r->stream), ncclInvalidArgument);
    CHECK_EQ(ncclAllReduce(x, x, SIZE_MAX / 2, ncclFloat, ncclSum, r->comm, r->stream), ncclInvalidArgument);
    CHECK_EQ(ncclReduce(x, x, 1, ncclFloat, ncclSum, r->size, r->comm, r->stream), ncclInvalidArgument);
    CHECK(strstr(ncclGetLastError(r->comm), "invalid root 2 (it should be in the 0..1 range)") != NULL);
    CHECK_EQ(ncclBroadcast(x, x, 1, ncclFloat, -1, r->comm, r->stream), ncclInvalidArgument);
    CHECK_EQ(ncclSend(x, 1, ncclFloat, r->size, r->comm, r->stream), ncclInvalidArgument);
    CHECK_EQ(ncclRecv(NULL, 1, ncclFloat, 1 - r->rank, r->comm, r->stream), ncclInvalidArgument);
    CHECK_EQ(ncclCommCount(r->comm, NULL), ncclInvalidArgument);
    CHECK_EQ(ncclCommCount(NULL, &n), ncclInvalidArgument);
    return sum_is_size(r, r->comm); /* the communicator is still usable */
}

static int registration(struct rank *r)
{
    void *p = NULL, *handle = NULL;
    ncclWindow_t window = (ncclWindow_t)&p;

    CHECK_EQ(ncclMemAlloc(&p, 1000), ncclSuccess);
    CHECK_EQ(cudaMemset(p, 0, 1000), cudaSuccess);
    CHECK_EQ(ncclCommRegister(r->comm, p, 1000, &handle), ncclSuccess);
    CHECK(handle != NULL);
    CHECK_EQ(ncclCommDeregister(r->comm, handle), ncclSuccess);
    CHECK_EQ(ncclCommDeregister(r->comm, NULL), ncclInvalidArgument);
    setenv("EMU_NCCL_WINDOW", "0", 1);
    CHECK_EQ(ncclCommWindowRegister(r->comm, p, 1000, &window, NCCL_WIN_COLL_SYMMETRIC), ncclSuccess);
    CHECK(window == NULL); /* NULL window: not supported */
    CHECK_EQ(ncclCommWindowDeregister(r->comm, window), ncclSuccess);
    CHECK_EQ(ncclMemFree(p), ncclSuccess);
    CHECK_EQ(ncclMemAlloc(NULL, 1), ncclInvalidArgument);
    return 0;
}

/* Split into even and odd ranks with reversed keys, without rank 0; then a split of the children. */
static int colours(struct rank *r)
{
    ncclComm_t child = r->comm, grandchild;
    int n, rank, color = r->rank == 0 ? NCCL_SPLIT_NOCOLOR : r->rank % 2;

    CHECK_EQ(ncclCommSplit(r->comm, color, -r->rank, &child, NULL), ncclSuccess);
    CHECK_EQ(child == NULL, r->rank == 0);
    if (child != NULL) {
        CHECK_EQ(ncclCommCount(child, &n), ncclSuccess);
        CHECK_EQ(ncclCommUserRank(child, &rank), ncclSuccess);
        CHECK_EQ(n, 2); /* {1, 3} and {2, 4} of 5 */
        CHECK_EQ(rank, r->rank <= 2 ? 1 : 0);
        CHECK_EQ(sum_is_size(r, child), 0);
        CHECK_EQ(ncclCommSplit(child, 0, 0, &grandchild, NULL), ncclSuccess);
        CHECK_EQ(sum_is_size(r, grandchild), 0);
        CHECK_EQ(ncclCommUserRank(grandchild, &n), ncclSuccess);
        CHECK_EQ(n, rank); /* equal keys: the parent's order */
        CHECK_EQ(ncclCommDestroy(grandchild), ncclSuccess);
        CHECK_EQ(ncclCommDestroy(child), ncclSuccess);
    }
    CHECK_EQ(ncclCommSplit(r->comm, -5, 0, &child, NULL), ncclInvalidArgument);
    CHECK_EQ(ncclCommSplit(r->comm, 0, 0, NULL, NULL), ncclInvalidArgument);
    return sum_is_size(r, r->comm);
}

/* Two splits of one communicator in one group. */
static int splits_in_a_group(struct rank *r)
{
    ncclComm_t rows, columns;

    CHECK_EQ(ncclGroupStart(), ncclSuccess);
    CHECK_EQ(ncclCommSplit(r->comm, r->rank / 2, r->rank, &rows, NULL), ncclSuccess);
    CHECK_EQ(ncclCommSplit(r->comm, r->rank % 2, r->rank, &columns, NULL), ncclSuccess);
    CHECK_EQ(ncclGroupEnd(), ncclSuccess);
    CHECK_EQ(sum_is_size(r, rows), 0);
    CHECK_EQ(sum_is_size(r, columns), 0);
    CHECK_EQ(ncclCommDestroy(rows), ncclSuccess);
    CHECK_EQ(ncclCommDestroy(columns), ncclSuccess);
    return 0;
}

/* The excluded rank does not call. With NCCL_SHRINK_ABORT the parent's hanging operation ends first. */
static int shrink(struct rank *r)
{
    int excluded[] = {1}, all[] = {0, 1, 2}, n, rank;
    int *x = device_buffer(sizeof(*x));
    ncclComm_t child;

    if (r->rank == 1)
        return 0;
    CHECK_EQ(ncclCommShrink(r->comm, all, 3, &child, NULL, NCCL_SHRINK_DEFAULT), ncclInvalidArgument);
    CHECK_EQ(ncclAllReduce(x, x, 1, ncclInt, ncclSum, r->comm, r->stream), ncclSuccess); /* rank 1 never calls */
    CHECK_EQ(ncclCommShrink(r->comm, excluded, 1, &child, NULL, NCCL_SHRINK_ABORT), ncclSuccess);
    CHECK_EQ(cudaStreamSynchronize(r->stream), cudaSuccess);
    CHECK_EQ(ncclCommCount(child, &n), ncclSuccess);
    CHECK_EQ(ncclCommUserRank(child, &rank), ncclSuccess);
    CHECK(n == 2 && rank == r->rank / 2);
    CHECK_EQ(sum_is_size(r, child), 0);
    CHECK_EQ(ncclAllReduce(x, x, 1, ncclInt, ncclSum, r->comm, r->stream), ncclInvalidUsage);
    CHECK_EQ(ncclCommDestroy(child), ncclSuccess);
    return 0;
}

static int revoke_and_split(struct rank *r)
{
    int *x = device_buffer(sizeof(*x));
    ncclComm_t child;

    if (r->rank == 0) /* hangs until the revocation */
        CHECK_EQ(ncclAllReduce(x, x, 1, ncclInt, ncclSum, r->comm, r->stream), ncclSuccess);
    CHECK_EQ(ncclCommRevoke(r->comm, 1), ncclInvalidArgument);
    CHECK_EQ(ncclCommRevoke(r->comm, NCCL_REVOKE_DEFAULT), ncclSuccess);
    CHECK_EQ(cudaStreamSynchronize(r->stream), cudaSuccess);
    CHECK_EQ(ncclAllReduce(x, x, 1, ncclInt, ncclSum, r->comm, r->stream), ncclInvalidUsage);
    CHECK_EQ(ncclCommFinalize(r->comm), ncclInvalidUsage);
    CHECK_EQ(ncclCommSplit(r->comm, 0, r->rank, &child, NULL), ncclSuccess);
    CHECK_EQ(sum_is_size(r, child), 0);
    CHECK_EQ(ncclCommDestroy(child), ncclSuccess);
    return 0;
}

static int nonblocking(struct rank *r)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclComm_t comm, child = NULL;
    ncclResult_t state;
    int n, *x = device_buffer(sizeof(*x));

    config.blocking = 0;
    CHECK_EQ(ncclCommInitRankConfig(&comm, r->size, r->id, r->rank, &config), ncclInProgress);
    CHECK_EQ(wait_for(comm, &state), 0);
    CHECK_EQ(state, ncclSuccess);
    CHECK_EQ(sum_is_size(r, comm), 0);
    CHECK_EQ(ncclCommSplit(comm, 0, r->rank, &child, NULL), ncclInProgress);
    CHECK(child != NULL);
    CHECK_EQ(wait_for(comm, &state), 0);
    CHECK_EQ(wait_for(child, &state), 0);
    CHECK_EQ(sum_is_size(r, child), 0);
    CHECK_EQ(ncclGroupStart(), ncclSuccess);
    CHECK_EQ(ncclAllReduce(x, x, 1, ncclInt, ncclSum, comm, r->stream), ncclSuccess);
    CHECK_EQ(ncclAllReduce(x, x, 1, ncclInt, ncclSum, child, r->stream), ncclSuccess);
    CHECK_EQ(ncclGroupEnd(), ncclInProgress);
    CHECK_EQ(wait_for(comm, &state), 0);
    CHECK_EQ(wait_for(child, &state), 0);
    CHECK_EQ(cudaStreamSynchronize(r->stream), cudaSuccess);
    CHECK_EQ(ncclCommFinalize(comm), ncclInProgress);
    CHECK_EQ(wait_for(comm, &state), 0);
    CHECK_EQ(state, ncclSuccess);
    CHECK_EQ(ncclAllReduce(x, x, 1, ncclInt, ncclSum, comm, r->stream), ncclInvalidUsage);
    CHECK_EQ(ncclCommCount(child, &n), ncclSuccess);
    CHECK_EQ(ncclCommDestroy(comm), ncclSuccess);
    CHECK_EQ(ncclCommDestroy(child), ncclSuccess);
    return 0;
}

/* A split inherits `blocking` from its parent; a group must not mix blocking and non-blocking communicators. */
static int mixed_blocking(struct rank *r)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    float *x = device_buffer(sizeof(*x));
    ncclComm_t other;

    config.blocking = 0;
    CHECK_EQ(ncclCommSplit(r->comm, 0, 0, &other, &config), ncclSuccess);
    CHECK_EQ(sum_is_size(r, other), 0);
    CHECK_EQ(ncclGroupStart(), ncclSuccess);
    CHECK_EQ(ncclAllReduce(x, x, 1, ncclFloat, ncclSum, r->comm, r->stream), ncclSuccess);
    CHECK_EQ(ncclAllReduce(x, x, 1, ncclFloat, ncclSum, other, r->stream), ncclSuccess);
    CHECK_EQ(ncclGroupEnd(), ncclInvalidArgument);
    CHECK_EQ(sum_is_size(r, r->comm), 0);
    CHECK_EQ(ncclCommDestroy(other), ncclSuccess);
    return 0;
}

/* Only rank 0 calls init: it hangs, other calls are rejected, and abort ends it. */
static int abort_of_init(struct rank *r)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclResult_t state;
    ncclComm_t comm;
    int n;

    config.blocking = 0;
    CHECK_EQ(ncclCommInitRankConfig(&comm, 2, r->id, 0, &config), ncclInProgress);
    CHECK_EQ(ncclCommCount(comm, &n), ncclInvalidArgument);
    CHECK_EQ(ncclCommFinalize(comm), ncclInvalidArgument);
    for (int i = 0; i < 20; i++) {
        CHECK_EQ(ncclCommGetAsyncError(comm, &state), ncclSuccess);
        CHECK_EQ(state, ncclInProgress);
    }
    CHECK_EQ(ncclCommAbort(comm), ncclSuccess);
    CHECK_EQ(ncclCommAbort(comm), ncclInvalidArgument);
    return 0;
}

/* The peer never calls: the stream hangs until the abort, and works afterwards. */
static int abort_of_operation(struct rank *r)
{
    float *x = device_buffer(sizeof(*x));
    ncclResult_t state;
    ncclComm_t pair;

    CHECK_EQ(ncclCommSplit(r->comm, 0, 0, &pair, NULL), ncclSuccess);
    if (r->rank == 0) {
        CHECK_EQ(ncclAllReduce(x, x, 1, ncclFloat, ncclSum, pair, r->stream), ncclSuccess);
        CHECK_EQ(ncclRecv(x, 1, ncclFloat, 1, pair, r->stream), ncclSuccess);
        CHECK_EQ(cudaStreamQuery(r->stream), cudaErrorNotReady);
        CHECK_EQ(ncclCommGetAsyncError(pair, &state), ncclSuccess);
        CHECK_EQ(state, ncclSuccess);
    }
    CHECK_EQ(ncclCommAbort(pair), ncclSuccess);
    CHECK_EQ(cudaStreamSynchronize(r->stream), cudaSuccess);
    return sum_is_size(r, r->comm);
}

/* The process ends while an operation hangs and another one is queued. */
static int exit_while_hanging(struct rank *r)
{
    float *x = device_buffer(sizeof(*x));

    CHECK_EQ(ncclAllReduce(x, x, 1, ncclFloat, ncclSum, r->comm, r->stream), ncclSuccess);
    if (r->rank == 0)
        CHECK_EQ(ncclRecv(x, 1, ncclFloat, 1, r->comm, r->stream), ncclSuccess);
    r->comm = NULL; /* keeps the harness from destroying it */
    return 0;
}

static int same_device(struct rank *r)
{
    ncclComm_t comm = NULL;
    char id[16];

    CHECK_EQ(ncclCommInitRank(&comm, r->size, r->id, r->rank), ncclInvalidUsage);
    CHECK(comm == NULL);
    CHECK(strstr(ncclGetLastError(NULL), "Duplicate GPU detected : rank 0 and rank 1") != NULL);
    snprintf(id, sizeof(id), "r%d", r->rank);
    setenv("NCCL_HOSTID", id, 1);
    CHECK_EQ(ncclCommInitRank(&comm, r->size, r->id, r->rank), ncclSuccess);
    CHECK_EQ(sum_is_size(r, comm), 0);
    CHECK_EQ(ncclCommDestroy(comm), ncclSuccess);
    return 0;
}

static int size_mismatch(struct rank *r)
{
    ncclComm_t comm = NULL;

    CHECK_EQ(ncclCommInitRank(&comm, 2 + r->rank, r->id, r->rank), ncclInvalidUsage);
    CHECK(comm == NULL);
    return 0;
}

static int same_rank_twice(struct rank *r)
{
    ncclComm_t comm = NULL;

    CHECK_EQ(ncclCommInitRank(&comm, 3, r->id, 0), ncclInvalidUsage);
    CHECK(comm == NULL);
    CHECK(strstr(ncclGetLastError(NULL), "two ranks joined one communicator as rank 0") != NULL);
    return 0;
}

static int simulate(struct rank *r)
{
    ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
    float *x = device_buffer(sizeof(*x));

    CHECK_EQ(ncclGroupStart(), ncclSuccess);
    CHECK_EQ(ncclAllReduce(x, x, 1, ncclFloat, ncclSum, r->comm, r->stream), ncclSuccess);
    CHECK_EQ(ncclGroupSimulateEnd(&info), ncclSuccess);
    CHECK(info.estimatedTime > 0);
    CHECK_EQ(cudaStreamQuery(r->stream), cudaSuccess); /* nothing was launched */
    info.magic = 0;
    CHECK_EQ(ncclGroupStart(), ncclSuccess);
    CHECK_EQ(ncclGroupSimulateEnd(&info), ncclInvalidArgument);
    return 0;
}

/* ---- leftovers ---- */

static int regions_left(void)
{
    DIR *dir = opendir("/dev/shm");
    int n = 0;

    for (struct dirent *e = readdir(dir); e != NULL; e = readdir(dir))
        n += strncmp(e->d_name, "emu-nccl-00000000", 17) == 0;
    closedir(dir);
    return n;
}

static int nothing(struct rank *r)
{
    return r->rank;
}

/* A file that looks like a region and has no lock: the first unique id of the next process removes it. */
static void stale_regions_are_swept(void **state)
{
    int fd = open("/dev/shm/emu-nccl-00000000000000000000000000000000", O_RDWR | O_CREAT, 0600);

    (void)state;
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(regions_left(), 1);
    run_ranks(1, nothing, NULL, RANKS_NO_COMM, NULL);
    assert_int_equal(regions_left(), 0);
}

#define AT(name, size, fn, flags)                                                                                      \
    static void name(void **state)                                                                                     \
    {                                                                                                                  \
        (void)state;                                                                                                   \
        run_ranks(size, fn, NULL, flags, NULL);                                                                        \
    }
AT(versions, 1, versions_and_texts, RANKS_NO_COMM)
AT(init_refuses, 1, bad_init, RANKS_NO_COMM)
AT(operations_refuse, 2, bad_arguments, 0)
AT(registration_does_nothing, 2, registration, 0)
AT(split_into_colours, 5, colours, 0)
AT(two_splits_in_a_group, 4, splits_in_a_group, 0)
AT(shrink_without_a_rank, 3, shrink, RANKS_ABORT)
AT(revoke_then_split, 2, revoke_and_split, RANKS_ABORT)
AT(nonblocking_life, 3, nonblocking, RANKS_NO_COMM)
AT(blocking_is_not_mixed, 2, mixed_blocking, 0)
AT(abort_ends_init, 1, abort_of_init, RANKS_NO_COMM)
AT(abort_ends_operations, 2, abort_of_operation, 0)
AT(exit_does_not_hang, 3, exit_while_hanging, 0)
AT(one_gpu_twice, 2, same_device, RANKS_NO_COMM | RANKS_ONE_DEVICE)
AT(different_sizes, 2, size_mismatch, RANKS_NO_COMM)
AT(one_rank_twice, 2, same_rank_twice, RANKS_NO_COMM)
AT(simulated_group, 2, simulate, 0)

static bool dies_in_ftruncate;

/* The stand-in sets the size of a region with this function. */
__attribute__((visibility("default"))) int ftruncate(int fd, off_t bytes)
{
    if (dies_in_ftruncate)
        raise(SIGKILL);
    return (int)syscall(SYS_ftruncate, fd, bytes);
}

static void begin_region(void)
{
    ncclUniqueId id;
    ncclComm_t comm;

    dies_in_ftruncate = ncclGetUniqueId(&id) == ncclSuccess;
    ncclCommInitRank(&comm, 2, id, 0);
    _exit(1);
}

/* A process that dies while it creates a region leaves no name in /dev/shm. */
static void incomplete_region_has_no_name(void **state)
{
    char of_child[32];
    struct dirent *e;
    int status;
    const pid_t child = fork();
    DIR *dir;

    (void)state;
    if (child == 0)
        begin_region();
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    snprintf(of_child, sizeof(of_child), "-%d-", (int)child);
    assert_non_null(dir = opendir("/dev/shm"));
    while ((e = readdir(dir)))
        assert_null(strstr(e->d_name, of_child));
    closedir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(versions),
        cmocka_unit_test(init_refuses),
        cmocka_unit_test(operations_refuse),
        cmocka_unit_test(registration_does_nothing),
        cmocka_unit_test(split_into_colours),
        cmocka_unit_test(two_splits_in_a_group),
        cmocka_unit_test(shrink_without_a_rank),
        cmocka_unit_test(revoke_then_split),
        cmocka_unit_test(nonblocking_life),
        cmocka_unit_test(blocking_is_not_mixed),
        cmocka_unit_test(abort_ends_init),
        cmocka_unit_test(abort_ends_operations),
        cmocka_unit_test(exit_does_not_hang),
        cmocka_unit_test(one_gpu_twice),
        cmocka_unit_test(different_sizes),
        cmocka_unit_test(one_rank_twice),
        cmocka_unit_test(simulated_group),
        cmocka_unit_test(stale_regions_are_swept),
        cmocka_unit_test(incomplete_region_has_no_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
