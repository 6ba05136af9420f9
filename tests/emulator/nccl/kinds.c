/*
 * kinds.c - the table of operations, and their description in messages.
 */
#include "comm.h"
#include "ops.h"
#include "reduce.h"
#include "types.h"

#include <stdio.h>

static const struct en_kind_row kinds[EN_KINDS] = {
    [EN_ALL_REDUCE] = {.name = "all_reduce", .call = "AllReduce", .reduces = true},
    [EN_REDUCE] = {.name = "reduce", .call = "Reduce", .reduces = true, .rooted = true, .only_root_receives = true},
    [EN_BROADCAST] = {.name = "broadcast", .call = "Broadcast", .rooted = true, .only_root_sends = true},
    [EN_ALL_GATHER] = {.name = "all_gather", .call = "AllGather", .recv_many = true, .pays_per_block = true},
    [EN_REDUCE_SCATTER] =
        {.name = "reduce_scatter", .call = "ReduceScatter", .reduces = true, .send_many = true, .pays_per_block = true},
    [EN_ALLTOALL] =
        {.name = "alltoall", .call = "AlltoAll", .send_many = true, .recv_many = true, .pays_per_block = true},
    [EN_GATHER] = {.name = "gather",
                   .call = "Gather",
                   .rooted = true,
                   .recv_many = true,
                   .only_root_receives = true,
                   .pays_per_block = true},
    [EN_SCATTER] = {.name = "scatter",
                    .call = "Scatter",
                    .rooted = true,
                    .send_many = true,
                    .only_root_sends = true,
                    .pays_per_block = true},
    [EN_SEND] = {.name = "send", .call = "Send"},
    [EN_RECV] = {.name = "recv", .call = "Recv"},
};

const struct en_kind_row *en_kind(enum en_kind kind)
{
    return &kinds[kind];
}

void en_describe(char *text, size_t size, int kind, uint64_t count, int dtype, int op, int root)
{
    const struct en_kind_row *row = &kinds[kind];
    int at = snprintf(text, size, "%s count %llu %s", row->name, (unsigned long long)count, en_type(dtype)->name);

    if (row->reduces)
        at += snprintf(text + at, size - (size_t)at, " %s", en_op_name(op));
    if (row->rooted)
        snprintf(text + at, size - (size_t)at, " root %d", root);
}

bool en_has_algorithm(const struct en_task *task)
{
    return task->kind == EN_ALL_REDUCE || task->kind == EN_REDUCE || task->kind == EN_BROADCAST ||
           task->kind == EN_ALL_GATHER || task->kind == EN_REDUCE_SCATTER;
}

size_t en_element_bytes(const struct en_task *task)
{
    return en_type(task->dtype)->bytes;
}

bool en_receives(const struct en_task *task, int rank)
{
    if (task->kind == EN_SEND)
        return false;
    return !kinds[task->kind].only_root_receives || task->root == rank;
}

/* Flips a bit in the highest byte of the middle element: for every data type that is more than a rounding error. */
void en_corrupt(ncclComm_t comm, const struct en_task *task)
{
    size_t elements = task->count * (kinds[task->kind].recv_many ? (size_t)comm->size : 1);
    size_t bytes = en_type(task->dtype)->bytes;

    if (task->corrupt && elements > 0 && en_receives(task, comm->rank))
        ((unsigned char *)task->recv)[elements / 2 * bytes + bytes - 1] ^= bytes == 1 ? 2 : 1;
}
