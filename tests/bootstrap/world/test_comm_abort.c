/*
 * test_comm_abort.c - a communicator is not taken from under the main thread while it asks NCCL about it. NCCL's calls
 * are this program's own.
 */
#include "bootstrap/base/clock.h"
#include "bootstrap/world/comms.h"
#include "tests/check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

static _Atomic int inside, aborts, aborted_inside;
static _Atomic bool stays; /* the call does not come back */

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *state)
{
    (void)comm;
    inside = 1;
    for (int i = 0; i < 50 || (stays && i < 500); i++)
        usleep(1000);
    inside = 0;
    *state = ncclSuccess;
    return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    (void)comm;
    aborts++;
    aborted_inside += inside;
    return ncclSuccess;
}

static void *check(void *comm)
{
    return bb_comm_check(comm) == 0 ? comm : NULL;
}

/* Seconds that the abort took, begun while another thread is inside of the question. */
static double abort_while_asked(struct bb_comm *comm)
{
    pthread_t thread;
    double start_s;
    void *passed;

    pthread_create(&thread, NULL, check, comm);
    while (!inside)
        usleep(100);
    start_s = bb_now_s();
    bb_comm_abort(comm);
    start_s = bb_now_s() - start_s;
    pthread_join(thread, &passed);
    assert_ptr_equal(passed, comm);
    return start_s;
}

static void an_abort_waits_for_the_question(void **state)
{
    struct bb_comm comm = {.nccl = (ncclComm_t)&comm, .name = "test"};

    (void)state;
    stays = false;
    abort_while_asked(&comm);
    assert_int_equal(aborts, 1);
    assert_int_equal(aborted_inside, 0);
    assert_null(comm.nccl);
    assert_int_equal(bb_comm_check(&comm), 0); /* gone: nobody is asked */
    assert_int_equal(aborts, 1);
}

/* The process ends soon, with or without the abort. */
static void a_question_without_an_answer_keeps_it(void **state)
{
    struct bb_comm comm = {.nccl = (ncclComm_t)&comm, .name = "test"};

    (void)state;
    stays = true;
    aborts = 0;
    assert_true(abort_while_asked(&comm) < 0.45);
    assert_int_equal(aborts, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_abort_waits_for_the_question),
        cmocka_unit_test(a_question_without_an_answer_keeps_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
