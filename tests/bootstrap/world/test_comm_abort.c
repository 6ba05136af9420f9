/*
 * test_comm_abort.c - the abort hook does not abort a communicator during the main thread's ncclCommGetAsyncError. This
 * file replaces the NCCL functions.
 */
#include "bootstrap/base/clock.h"
#include "bootstrap/world/comms.h"
#include "tests/check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

static _Atomic int in_nccl_call, aborts, aborted_in_nccl_call;
static _Atomic bool call_blocks; /* the call blocks for a long time */

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *state)
{
    (void)comm;
    in_nccl_call = 1;
    for (int i = 0; i < 50 || (call_blocks && i < 500); i++)
        usleep(1000);
    in_nccl_call = 0;
    *state = ncclSuccess;
    return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    (void)comm;
    aborts++;
    aborted_in_nccl_call += in_nccl_call;
    return ncclSuccess;
}

static void *check(void *comm)
{
    return bb_comm_check(comm) == 0 ? comm : NULL;
}

/* Aborts while another thread is inside ncclCommGetAsyncError. Returns the seconds that the abort took. */
static double abort_during_check(struct bb_comm *comm)
{
    pthread_t thread;
    double start_s;
    void *passed;

    pthread_create(&thread, NULL, check, comm);
    while (!in_nccl_call)
        usleep(100);
    start_s = bb_now_s();
    bb_comm_abort(comm);
    start_s = bb_now_s() - start_s;
    pthread_join(thread, &passed);
    assert_ptr_equal(passed, comm);
    return start_s;
}

static void abort_waits_for_the_nccl_call(void **state)
{
    struct bb_comm comm = {.nccl = (ncclComm_t)&comm, .name = "test"};

    (void)state;
    call_blocks = false;
    abort_during_check(&comm);
    assert_int_equal(aborts, 1);
    assert_int_equal(aborted_in_nccl_call, 0);
    assert_null(comm.nccl);
    assert_int_equal(bb_comm_check(&comm), 0); /* aborted: NCCL is not called */
    assert_int_equal(aborts, 1);
}

/* With a blocked call the communicator is not aborted; the process exits soon in any case. */
static void blocked_nccl_call_prevents_the_abort(void **state)
{
    struct bb_comm comm = {.nccl = (ncclComm_t)&comm, .name = "test"};

    (void)state;
    call_blocks = true;
    aborts = 0;
    assert_true(abort_during_check(&comm) < 0.45);
    assert_int_equal(aborts, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(abort_waits_for_the_nccl_call),
        cmocka_unit_test(blocked_nccl_call_prevents_the_abort),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
