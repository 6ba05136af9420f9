/*
 * test_pending.c - an exchange that was given up stays pending in MPI, which may still write to its memory: so that
 * memory must live on. MPI is played here: its operations never complete in time, and all of them do afterwards.
 */
#include "bootstrap/world/exchange.h"
#include "bootstrap/world/world.h"
#include "tests/check.h"

#include <malloc.h>
#include <mpi.h>

enum { RANKS = 2, BYTES = 4096, MOST = 4 };

/* What an operation that has begun writes to. */
static struct {
    char *to;
    size_t bytes;
} pending[MOST];
static int n_pending;

static int begin(void *to, size_t bytes, MPI_Request *request)
{
    assert_in_range(n_pending, 0, MOST - 1);
    pending[n_pending].to = to;
    pending[n_pending++].bytes = bytes;
    memset(request, 0, sizeof(*request));
    return MPI_SUCCESS;
}

int MPI_Iallgather(const void *send, int n, MPI_Datatype type, void *recv, int each, MPI_Datatype to, MPI_Comm comm,
                   MPI_Request *request)
{
    (void)send, (void)n, (void)type, (void)to, (void)comm;
    return begin(recv, (size_t)each * RANKS, request);
}

int MPI_Ibcast(void *data, int n, MPI_Datatype type, int root, MPI_Comm comm, MPI_Request *request)
{
    (void)type, (void)root, (void)comm;
    return begin(data, (size_t)n, request);
}

int MPI_Test(MPI_Request *request, int *done, MPI_Status *status)
{
    (void)request, (void)status;
    *done = 0;
    return MPI_SUCCESS;
}

/* Under AddressSanitizer memory that is gone is seen as it is written to; without it, as it is given to somebody else. */
static void complete_all(void)
{
    char *others[16 * MOST];

    for (int i = 0; i < 16 * MOST; i++) {
        others[i] = malloc(BYTES * (size_t)(1 + i % (RANKS + 1)));
        assert_non_null(others[i]);
        for (int j = 0; j < n_pending; j++)
            assert_true(others[i] + malloc_usable_size(others[i]) <= pending[j].to ||
                        others[i] >= pending[j].to + pending[j].bytes);
    }
    for (int j = 0; j < n_pending; j++)
        memset(pending[j].to, 0x5a, pending[j].bytes);
    for (int i = 0; i < 16 * MOST; i++)
        free(others[i]);
}

static void test_given_up(void **state)
{
    /* One each: a rank that gave up takes part in no later exchange. */
    struct bb_world gathers = {.size = RANKS, .timeout_s = 0.01}, spreads = gathers;
    char *mine = calloc(1, BYTES), *all = calloc(RANKS, BYTES);

    (void)state;
    assert_true(mine && all);
    assert_true(bb_world_allgather(&gathers, mine, all, BYTES) < 0);
    assert_true(bb_world_bcast(&spreads, mine, BYTES, 0) < 0);
    assert_int_equal(n_pending, 2);
    for (size_t i = 0; i < BYTES; i++)
        assert_int_equal(mine[i], 0); /* the caller's own memory is not MPI's */
    free(mine);
    free(all);
    complete_all();
    for (int j = 0; j < n_pending; j++)
        free(pending[j].to);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_given_up)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
