/* coll.c - functions on the table of collectives. Counts, bus bandwidth factors and rounding are the same as in
 * nccl-tests. */
#include "collectives/ops/coll.h"

#include "cuda/data/pattern.h"

#include <string.h>

static size_t count_once(size_t count, int n)
{
    (void)n;
    return count;
}

static size_t n_times_count(size_t count, int n)
{
    return count * (size_t)n;
}

/* Reduce-scatter followed by all-gather: each sends (n-1)/n of the buffer through every link, in total 2(n-1)/n. */
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

#define COLL(kind, word, ...) [kind] = {.name = #word, __VA_ARGS__},
const struct bb_coll bb_colls[BB_COLL_KIND_COUNT] = {
#include "collectives/ops/colls.def"
};

int bb_coll_find(const char *name)
{
    for (int i = 0; i < BB_COLL_KIND_COUNT; i++)
        if (strcmp(bb_colls[i].name, name) == 0)
            return i;
    return -1;
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

/* Returns the rank whose data `rank` receives. If `rank` receives the data of all ranks, returns 0, the first of
 * them. */
static int first_source(enum bb_coll_kind kind, int n, int root, int rank)
{
    switch (bb_colls[kind].from) {
    case BB_FROM_ROOT:
        return root;
    case BB_FROM_PREVIOUS:
        return (rank + n - 1) % n;
    case BB_FROM_ALL:
        break;
    }
    return 0;
}

size_t bb_coll_expect(enum bb_coll_kind kind, size_t count, int n, int root, int rank, struct bb_expect *e)
{
    const struct bb_coll *coll = &bb_colls[kind];
    bool to_root = coll->flags & BB_COLL_ROOTED && coll->from != BB_FROM_ROOT;
    bool slice_for_each = coll->send_count == n_times_count;

    *e = (struct bb_expect){.reduced = (coll->flags & BB_COLL_REDUCES) != 0,
                            .source = first_source(kind, n, root, rank),
                            .block = count,
                            .first = slice_for_each ? (uint64_t)rank * count : 0};
    return to_root && rank != root ? 0 : coll->recv_count(count, n);
}
