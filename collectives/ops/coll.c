/*
 * coll.c - the table of collectives: a new one is a row here, a launcher in launch.c, and what arrives in
 * measure/case.c. Counts, factors and rounding are those of nccl-tests, so that figures compare.
 */
#include "collectives/ops/coll.h"

#include <string.h>

static size_t whole(size_t count, int n)
{
    (void)n;
    return count;
}

static size_t all_slices(size_t count, int n)
{
    return count * (size_t)n;
}

/* Reduce-scatter and all-gather, each moving (n-1)/n of the buffer through every link. */
static double factor_2n1_n(int n)
{
    return 2.0 * (n - 1) / n;
}

static double factor_n1_n(int n)
{
    return (double)(n - 1) / n;
}

static double factor_1(int n)
{
    (void)n;
    return 1.0;
}

const struct bb_coll bb_colls[BB_COLL_KIND_COUNT] = {
    [BB_ALL_REDUCE] = {.name = "all_reduce",
                       .help = "every rank ends with the reduction of all buffers",
                       .send_count = whole,
                       .recv_count = whole,
                       .bus_factor = factor_2n1_n,
                       .factor_text = "2(n-1)/n",
                       .flags = BB_COLL_REDUCES,
                       .inplace = BB_INPLACE_SAME},
    [BB_ALL_GATHER] = {.name = "all_gather",
                       .help = "every rank ends with all ranks' slices in rank order",
                       .send_count = whole,
                       .recv_count = all_slices,
                       .bus_factor = factor_n1_n,
                       .factor_text = "(n-1)/n",
                       .flags = BB_COLL_SLICED,
                       .inplace = BB_INPLACE_SEND_IN_RECV},
    [BB_REDUCE_SCATTER] = {.name = "reduce_scatter",
                           .help = "rank r ends with slice r of the reduction",
                           .send_count = all_slices,
                           .recv_count = whole,
                           .bus_factor = factor_n1_n,
                           .factor_text = "(n-1)/n",
                           .flags = BB_COLL_REDUCES | BB_COLL_SLICED,
                           .inplace = BB_INPLACE_RECV_IN_SEND},
    [BB_BROADCAST] = {.name = "broadcast",
                      .help = "every rank ends with the root's buffer",
                      .send_count = whole,
                      .recv_count = whole,
                      .bus_factor = factor_1,
                      .factor_text = "1",
                      .flags = BB_COLL_ROOTED,
                      .inplace = BB_INPLACE_SAME},
    [BB_REDUCE] = {.name = "reduce",
                   .help = "the root ends with the reduction of all buffers",
                   .send_count = whole,
                   .recv_count = whole,
                   .bus_factor = factor_1,
                   .factor_text = "1",
                   .flags = BB_COLL_REDUCES | BB_COLL_ROOTED,
                   .inplace = BB_INPLACE_SAME},
    [BB_ALLTOALL] = {.name = "alltoall",
                     .help = "rank r ends with slice r of every rank in rank order",
                     .send_count = all_slices,
                     .recv_count = all_slices,
                     .bus_factor = factor_n1_n,
                     .factor_text = "(n-1)/n",
                     .flags = BB_COLL_SLICED,
                     .inplace = BB_INPLACE_NONE},
    [BB_GATHER] = {.name = "gather",
                   .help = "the root ends with all ranks' slices in rank order",
                   .send_count = whole,
                   .recv_count = all_slices,
                   .bus_factor = factor_n1_n,
                   .factor_text = "(n-1)/n",
                   .flags = BB_COLL_ROOTED | BB_COLL_SLICED,
                   .inplace = BB_INPLACE_SEND_IN_RECV},
    [BB_SCATTER] = {.name = "scatter",
                    .help = "rank r ends with slice r of the root",
                    .send_count = all_slices,
                    .recv_count = whole,
                    .bus_factor = factor_n1_n,
                    .factor_text = "(n-1)/n",
                    .flags = BB_COLL_ROOTED | BB_COLL_SLICED,
                    .inplace = BB_INPLACE_RECV_IN_SEND},
    [BB_SENDRECV] = {.name = "sendrecv",
                     .help = "every rank sends to the next rank and receives from the one before",
                     .send_count = whole,
                     .recv_count = whole,
                     .bus_factor = factor_1,
                     .factor_text = "1",
                     .flags = 0,
                     .inplace = BB_INPLACE_NONE},
    [BB_ALLTOALLV] = {.name = "alltoallv",
                      .help = "every rank sends each rank a slice of its own size",
                      .send_count = all_slices,
                      .recv_count = all_slices,
                      .bus_factor = factor_n1_n,
                      .factor_text = "(n-1)/n",
                      .flags = BB_COLL_SLICED | BB_COLL_UNEVEN,
                      .inplace = BB_INPLACE_NONE},
    [BB_HYPERCUBE] = {.name = "hypercube",
                      .help = "all_gather by exchanges along the edges of a hypercube",
                      .send_count = whole,
                      .recv_count = all_slices,
                      .bus_factor = factor_1,
                      .factor_text = "1, algbw = (n-1)/n size / time",
                      .alg_factor = factor_n1_n,
                      .flags = BB_COLL_SLICED | BB_COLL_ROUNDS,
                      .inplace = BB_INPLACE_SEND_IN_RECV},
};

int bb_coll_find(const char *name)
{
    for (int i = 0; i < BB_COLL_KIND_COUNT; i++)
        if (strcmp(bb_colls[i].name, name) == 0)
            return i;
    return -1;
}

const char *bb_coll_name_at(size_t i)
{
    return i < BB_COLL_KIND_COUNT ? bb_colls[i].name : NULL;
}

size_t bb_coll_count(enum bb_coll_kind kind, size_t bytes, int n, size_t elem_bytes)
{
    size_t elements = bytes / elem_bytes;

    if (!(bb_colls[kind].flags & BB_COLL_SLICED))
        return elements;
    return elements / (size_t)n & ~(16 / elem_bytes - 1);
}

bool bb_coll_possible(enum bb_coll_kind kind, int n)
{
    return !(bb_colls[kind].flags & BB_COLL_ROUNDS) || (n & (n - 1)) == 0;
}

size_t bb_coll_payload_count(enum bb_coll_kind kind, size_t count, int n)
{
    size_t send = bb_colls[kind].send_count(count, n), recv = bb_colls[kind].recv_count(count, n);

    return send > recv ? send : recv;
}
