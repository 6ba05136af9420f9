/* case.c - computes the buffer layout and the expected content of the receive buffers of a case (a collective with
 * its parameters) from the table of collectives. */
#include "collectives/measure/case.h"

#include <math.h>

static size_t round_up(size_t bytes)
{
    return (bytes + BB_SLOT_GUARD - 1) / BB_SLOT_GUARD * BB_SLOT_GUARD;
}

static size_t bytes_of(const struct bb_case *c, size_t elements)
{
    return elements * bb_dtypes[c->dtype].bytes;
}

static size_t most_bytes(const struct bb_case *c, bool own)
{
    return bytes_of(c,
                    bb_alltoallv_counts_most(c->alltoallv_counts, c->count, bb_dtypes[c->dtype].bytes, c->ranks, own));
}

size_t bb_case_bytes(const struct bb_case *c)
{
    if (bb_colls[c->kind].flags & BB_COLL_VARIABLE_COUNTS)
        return most_bytes(c, true);
    return bytes_of(c, bb_coll_payload_count(c->kind, c->count, c->ranks));
}

double bb_case_bus_factor(const struct bb_case *c)
{
    if (bb_colls[c->kind].flags & BB_COLL_VARIABLE_COUNTS && !c->alltoallv_counts->nccl_tests &&
        most_bytes(c, true) > 0)
        return (double)most_bytes(c, false) / (double)most_bytes(c, true);
    return bb_colls[c->kind].bus_factor(c->ranks);
}

bool bb_case_possible(const struct bb_case *c)
{
    return !c->in_place || bb_colls[c->kind].inplace != BB_INPLACE_NONE;
}

static void place_out_of_place(struct bb_buffer_layout *l)
{
    l->send_offset = l->before_bytes;
    l->before_offset = BB_SLOT_GUARD + round_up(l->before_bytes - BB_SLOT_GUARD + l->send_bytes);
    l->recv_offset = l->before_offset + l->before_bytes;
    l->after_offset = l->recv_offset + l->recv_bytes;
    l->slot_bytes = round_up(l->after_offset) + BB_SLOT_GUARD;
}

static void place_in_place(struct bb_buffer_layout *l, enum bb_coll_inplace rule, size_t slice_offset)
{
    size_t larger = l->send_bytes > l->recv_bytes ? l->send_bytes : l->recv_bytes;

    l->send_offset = l->before_bytes + (rule == BB_INPLACE_SEND_IN_RECV ? slice_offset : 0);
    l->recv_offset = l->before_bytes + (rule == BB_INPLACE_RECV_IN_SEND ? slice_offset : 0);
    l->before_offset = 0;
    l->after_offset = l->before_bytes + larger;
    l->slot_bytes = round_up(l->after_offset) + BB_SLOT_GUARD;
}

static size_t send_count(const struct bb_case *c, int rank)
{
    if (bb_colls[c->kind].flags & BB_COLL_VARIABLE_COUNTS)
        return bb_alltoallv_counts_sent(c->alltoallv_counts, c->count, bb_dtypes[c->dtype].bytes, c->ranks, rank);
    return bb_colls[c->kind].send_count(c->count, c->ranks);
}

static size_t recv_count(const struct bb_case *c, int rank)
{
    if (bb_colls[c->kind].flags & BB_COLL_VARIABLE_COUNTS)
        return bb_alltoallv_counts_received(c->alltoallv_counts, c->count, bb_dtypes[c->dtype].bytes, c->ranks, rank);
    return bb_colls[c->kind].recv_count(c->count, c->ranks);
}

struct bb_buffer_layout bb_buffer_layout_of(const struct bb_case *c, int rank)
{
    const struct bb_coll *coll = &bb_colls[c->kind];
    struct bb_buffer_layout l = {.send_bytes = bytes_of(c, send_count(c, rank)),
                                 .recv_bytes = bytes_of(c, recv_count(c, rank)),
                                 .before_bytes = BB_SLOT_GUARD + bytes_of(c, c->unalign)};

    if (c->in_place)
        place_in_place(&l, coll->inplace, bytes_of(c, c->count * (size_t)rank));
    else
        place_out_of_place(&l);
    l.after_bytes = l.slot_bytes - l.after_offset;
    return l;
}

size_t bb_slot_of(size_t iteration, size_t slots, bool very_last)
{
    return very_last || slots == 1 ? slots - 1 : iteration % (slots - 1);
}

bool bb_case_contributes(const struct bb_case *c, int rank)
{
    return bb_colls[c->kind].from != BB_FROM_ROOT || rank == c->root;
}

int bb_case_expected_parts(const struct bb_case *c)
{
    return bb_colls[c->kind].flags & BB_COLL_VARIABLE_COUNTS ? c->ranks : 1;
}

/* Returns the range of elements in the receive buffer of `rank` that receives the data of rank i, for collectives
 * whose counts differ between ranks (alltoallv). */
static struct bb_expected_part variable_count_part(const struct bb_case *c, int rank, int i)
{
    size_t bytes = bb_dtypes[c->dtype].bytes,
           count = bb_alltoallv_counts_count(c->alltoallv_counts, c->count, bytes, c->ranks, i, rank);
    struct bb_expected_part part = {.count = count, .expect = {.source = i, .block = count ? count : 1}};

    for (int r = 0; r < i; r++)
        part.offset += bb_alltoallv_counts_count(c->alltoallv_counts, c->count, bytes, c->ranks, r, rank);
    part.expect.first = bb_alltoallv_counts_before(c->alltoallv_counts, c->count, bytes, c->ranks, i, rank);
    return part;
}

struct bb_expected_part bb_case_expected_part(const struct bb_case *c, int rank, int i)
{
    struct bb_expected_part part = {0};

    if (bb_colls[c->kind].flags & BB_COLL_VARIABLE_COUNTS)
        return variable_count_part(c, rank, i);
    part.count = bb_coll_expect(c->kind, c->count, c->ranks, c->root, rank, &part.expect);
    return part;
}

bool bb_case_synchronizes_ranks(const struct bb_case *c)
{
    return !(bb_colls[c->kind].flags & (BB_COLL_ROOTED | BB_COLL_ROUNDS | BB_COLL_VARIABLE_COUNTS)) &&
           bb_colls[c->kind].from == BB_FROM_ALL && c->ranks > 1;
}

void bb_case_bandwidths(const struct bb_case *c, double time_us, double *algbw_gbps, double *busbw_gbps)
{
    double (*part)(int) = bb_colls[c->kind].alg_factor, counted = part ? part(c->ranks) : 1;

    *algbw_gbps = time_us > 0 ? counted * (double)bb_case_bytes(c) / time_us / 1e3 : NAN;
    *busbw_gbps = c->ranks > 1 ? *algbw_gbps * bb_case_bus_factor(c) : NAN;
}
