/*
 * test_pending.c - after a timeout an MPI operation stays pending, and MPI may still write to its buffer, so the buffer
 * must not be freed. This file replaces MPI: no operation completes before the timeout, and all complete afterwards.
 */
#include "bootstrap/world/exchange.h"
#include "bootstrap/world/world.h"
#include "tests/check.h"

#include <malloc.h>
#include <mpi.h>

enum { RANKS = 2, BYTES = 4096, MAX_PENDING = 4 };

/* Destination buffers of the started operations. */
static struct {
    char *to;
    size_t bytes;
} pending[MAX_PENDING];
static int n_pending;

static int begin(void *to, size_t bytes, MPI_Request *request)
{
    assert_in_range(n_pending, 0, MAX_PENDING - 1);
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

/*
 * Completes all operations. AddressSanitizer detects a write to a freed buffer; without it, malloc must not have reused
 * the buffers.
 */
static void complete_all(void)
{
    char *new_blocks[16 * MAX_PENDING];

    for (int i = 0; i < 16 * MAX_PENDING; i++) {
        new_blocks[i] = malloc(BYTES * (size_t)(1 + i % (RANKS + 1)));
        assert_non_null(new_blocks[i]);
        for (int j = 0; j < n_pending; j++)
            assert_true(new_blocks[i] + malloc_usable_size(new_blocks[i]) <= pending[j].to ||
                        new_blocks[i] >= pending[j].to + pending[j].bytes);
    }
    for (int j = 0; j < n_pending; j++)
        memset(pending[j].to, 0x5a, pending[j].bytes);
    for (int i = 0; i < 16 * MAX_PENDING; i++)
        free(new_blocks[i]);
}

static void keeps_buffers_of_operations_that_timed_out(void **state)
{
    /* one world per exchange: after a timeout a rank takes part in no further exchange */
    struct bb_world gathers = {.size = RANKS, .timeout_s = 0.01}, broadcasts = gathers;
    char *mine = calloc(1, BYTES), *all = calloc(RANKS, BYTES);

    (void)state;
    assert_true(mine && all);
    assert_true(bb_world_allgather(&gathers, mine, all, BYTES) < 0);
    assert_true(bb_world_bcast(&broadcasts, mine, BYTES, 0) < 0);
    assert_int_equal(n_pending, 2);
    for (size_t i = 0; i < BYTES; i++)
        assert_int_equal(mine[i], 0); /* the caller's memory is not passed to MPI */
    free(mine);
    free(all);
    complete_all();
    for (int j = 0; j < n_pending; j++)
        free(pending[j].to);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(keeps_buffers_of_operations_that_timed_out)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
