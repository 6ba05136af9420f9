/*
 * test_start_barrier_capacity.c - iterations that fit into the launch queues while the start barrier is closed,
 * computed by hand from the queue sizes.
 */
#include "collectives/measure/start_barrier_capacity.h"
#include "tests/check.h"

static const struct {
    enum bb_coll_kind kind;
    int ranks;
    size_t aggregate, capacity;
} cases[] = {
    {BB_ALL_REDUCE, 8, 1, 128},                                /* 512 / 4 */
    {BB_ALL_REDUCE, 100000, 1, 128},                           /* independent of the number of ranks */
    {BB_ALL_REDUCE, 8, 256, 28},                               /* 917504 / (128 x 256) = 28 */
    {BB_ALLTOALL, 8, 1, 128},                                  /* 917504 / (48 x 8) = 2389 */
    {BB_ALLTOALL, 8, 256, 9},                                  /* 917504 / (48 x 8 x 256) = 9.3 */
    {BB_ALLTOALL, 900, 1, 21},                                 /* 917504 / (48 x 900) = 21.2 */
    {BB_ALLTOALL, 20000, 1, 0},                                /* 960000 bytes: does not fit */
    {BB_SENDRECV, 8, 4, 128},        {BB_HYPERCUBE, 8, 1, 32}, /* 3 rounds and a copy: 512 / (4 x 4) */
    {BB_HYPERCUBE, 8, 2, 16},
};

static void capacity_follows_the_queue_sizes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        assert_int_equal(bb_start_barrier_capacity(cases[i].kind, cases[i].ranks, cases[i].aggregate, 917504, false),
                         cases[i].capacity);
    assert_int_equal(bb_start_barrier_capacity(BB_ALL_GATHER, 8, 1, 917504, true), 12); /* 512 / 40 */
}

/* NCCL ignores sizes that are no power of two and limits the size to 1 GiB (init.cc). 7/8 of the FIFO are usable. */
static void the_variable_sets_the_size_of_the_fifo(void **state)
{
    static const struct {
        const char *text;
        size_t capacity;
    } values[] = {{NULL, 917504}, {"", 917504},     {"many", 917504},   {"-8", 917504},           {"1000000", 917504},
                  {"0", 0},       {"65536", 57344}, {"0x10000", 57344}, {"2147483648", 939524096}};

    (void)state;
    for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++) {
        unsetenv("NCCL_WORK_FIFO_BYTES");
        if (values[i].text)
            setenv("NCCL_WORK_FIFO_BYTES", values[i].text, 1);
        assert_int_equal(bb_fifo_capacity(), values[i].capacity);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(capacity_follows_the_queue_sizes),
                                       cmocka_unit_test(the_variable_sets_the_size_of_the_fifo)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
