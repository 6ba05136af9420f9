/*
 * checks.c - argument checks as in NCCL: ncclInvalidArgument with a text, and the communicator stays usable.
 */
#include "comm.h"
#include "reduce.h"
#include "types.h"

#include "../engine.h"

#include <stdlib.h>
#include <string.h>

static bool needs_send(const struct en_task *t, int rank)
{
    return t->kind != EN_RECV && !(en_kind(t->kind)->only_root_sends && t->root != rank);
}

static ncclResult_t check_buffers(ncclComm_t comm, const struct en_task *t)
{
    const char *call = en_kind(t->kind)->call, *pointers = getenv("NCCL_CHECK_POINTERS");
    struct cudaPointerAttributes attributes;
    const void *used[2] = {needs_send(t, comm->rank) ? t->send : comm, en_receives(t, comm->rank) ? t->recv : comm};

    for (int i = 0; i < 2; i++) {
        const char *which = i == 0 ? "sendbuff" : "recvbuff";
        if (used[i] == NULL)
            return en_fail(NULL, ncclInvalidArgument, "%s : %s argument is NULL", call, which);
        if (pointers == NULL || atoi(pointers) == 0 || used[i] == comm)
            continue;
        if (cudaPointerGetAttributes(&attributes, used[i]) != cudaSuccess ||
            attributes.type == cudaMemoryTypeUnregistered)
            return en_fail(NULL, ncclInvalidArgument, "%s : %s is not a valid pointer", call, which);
    }
    return ncclSuccess;
}

static ncclResult_t check_op(ncclComm_t comm, const struct en_task *t, int given)
{
    const char *call = en_kind(t->kind)->call;

    if (given < 0 || given >= ncclNumOps + comm->redop_count)
        return en_fail(NULL, ncclInvalidArgument, "%s : invalid reduction operation %d", call, given);
    if (given < ncclNumOps)
        return ncclSuccess;
    const struct en_redop *op = &comm->redops[given - ncclNumOps];
    if (!op->used)
        return en_fail(NULL, ncclInvalidArgument, "%s : reduction operation %d was destroyed or never made", call,
                       given);
    if (op->dtype != t->dtype)
        return en_fail(NULL, ncclInvalidArgument,
                       "%s : data type %s is not the one that reduction operation %d was made for (%s)", call,
                       en_type(t->dtype)->name, given, en_type(op->dtype)->name);
    return ncclSuccess;
}

static ncclResult_t check_stream(ncclComm_t comm, const struct en_task *t)
{
    if (t->stream == NULL || t->stream == cudaStreamLegacy || t->stream == cudaStreamPerThread)
        return ncclSuccess;
    int device = emu_stream_device(t->stream);
    if (device != comm->device)
        return en_fail(NULL, ncclInvalidUsage, "%s : a stream of device %d with a communicator of device %d",
                       en_kind(t->kind)->call, device, comm->device);
    return ncclSuccess;
}

/* t->op is the caller's operator. */
ncclResult_t en_check_task(ncclComm_t comm, const struct en_task *t)
{
    const struct en_kind_row *kind = en_kind(t->kind);
    bool message = t->kind == EN_SEND || t->kind == EN_RECV;
    ncclResult_t rc = ncclSuccess;

    if (en_type(t->dtype) == NULL)
        return en_fail(NULL, ncclInvalidArgument, "%s : invalid type %d", kind->call, t->dtype);
    if ((kind->rooted || message) && (t->root < 0 || t->root >= comm->size))
        return en_fail(NULL, ncclInvalidArgument, "%s : invalid %s %d (it should be in the 0..%d range)", kind->call,
                       message ? "peer" : "root", t->root, comm->size - 1);
    if (t->count > SIZE_MAX / en_type(t->dtype)->bytes / (size_t)comm->size)
        return en_fail(NULL, ncclInvalidArgument, "%s : count %zu is too large", kind->call, t->count);
    if (kind->reduces)
        rc = check_op(comm, t, t->op);
    if (rc == ncclSuccess && t->count > 0)
        rc = check_buffers(comm, t);
    return rc == ncclSuccess ? check_stream(comm, t) : rc;
}

static const struct en_task *next_to_self(const struct en_task *tasks, int count, int rank, enum en_kind kind, int *at)
{
    while (++*at < count)
        if (tasks[*at].kind == kind && tasks[*at].root == rank)
            return &tasks[*at];
    return NULL;
}

/* Messages of a rank to itself must match inside one group. */
ncclResult_t en_check_self_messages(ncclComm_t comm, const struct en_task *tasks, int count)
{
    int send = -1, recv = -1;

    for (;;) {
        const struct en_task *s = next_to_self(tasks, count, comm->rank, EN_SEND, &send);
        const struct en_task *r = next_to_self(tasks, count, comm->rank, EN_RECV, &recv);
        if (s == NULL && r == NULL)
            return ncclSuccess;
        if (s == NULL || r == NULL)
            return en_fail(NULL, ncclInvalidUsage, "rank %d: %s itself without a matching %s in the same group",
                           comm->rank, s ? "sends to" : "receives from", s ? "recv" : "send");
        if (s->count != r->count || s->dtype != r->dtype)
            return en_fail(NULL, ncclInvalidUsage, "rank %d: sends count %zu %s to itself, receives count %zu %s",
                           comm->rank, s->count, en_type(s->dtype)->name, r->count, en_type(r->dtype)->name);
    }
}

static bool in_range(int value, int low, int high)
{
    return value == NCCL_CONFIG_UNDEF_INT || (value >= low && value <= high);
}

static void inherit(int *value, int from)
{
    if (*value == NCCL_CONFIG_UNDEF_INT)
        *value = from;
}

/* A variable takes precedence over the configuration of a communicator, as in NCCL. */
static void override_by(const char *variable, int *value)
{
    const char *text = getenv(variable);

    if (text && atoi(text) > 0)
        *value = atoi(text);
}

/* NCCL_MAX_NCHANNELS limits the channels in addition to the maximum of the configuration (NCCL src/init.cc, graph/connect.cc). */
static void limit_channels(int *max)
{
    int channels = NCCL_CONFIG_UNDEF_INT;

    override_by("NCCL_MAX_NCHANNELS", &channels);
    if (channels != NCCL_CONFIG_UNDEF_INT && (*max == NCCL_CONFIG_UNDEF_INT || channels < *max))
        *max = channels;
}

/* given: may have an older, shorter layout; NULL: all defaults, or the parent's values. */
ncclResult_t en_check_config(const ncclConfig_t *given, ncclConfig_t *config, const ncclConfig_t *inherited)
{
    static const ncclConfig_t initial = NCCL_CONFIG_INITIALIZER;
    const size_t shortest = offsetof(ncclConfig_t, blocking) + sizeof(int);
    const char *blocking = getenv("NCCL_COMM_BLOCKING");

    *config = initial;
    if (given != NULL) {
        if (given->magic != initial.magic || given->size < shortest || given->version < NCCL_VERSION(2, 14, 0))
            return en_fail(NULL, ncclInvalidArgument,
                           "ncclConfig_t argument not initialized via NCCL_CONFIG_INITIALIZER");
        memcpy(config, given, given->size < sizeof(*config) ? given->size : sizeof(*config));
    }
    if (!in_range(config->blocking, 0, 1))
        return en_fail(NULL, ncclInvalidArgument, "Invalid config blocking attribute value %d", config->blocking);
    if (!in_range(config->cgaClusterSize, 0, 8))
        return en_fail(NULL, ncclInvalidArgument, "Invalid config cgaClusterSize attribute value %d",
                       config->cgaClusterSize);
    if (!in_range(config->minCTAs, 1, INT_MAX) || !in_range(config->maxCTAs, 1, INT_MAX) ||
        (config->maxCTAs != NCCL_CONFIG_UNDEF_INT && config->minCTAs > config->maxCTAs))
        return en_fail(NULL, ncclInvalidArgument, "Invalid config min/max channels attribute value %d/%d",
                       config->minCTAs, config->maxCTAs);
    override_by("NCCL_MIN_CTAS", &config->minCTAs);
    override_by("NCCL_MAX_CTAS", &config->maxCTAs);
    limit_channels(&config->maxCTAs);
    if (blocking != NULL)
        config->blocking = atoi(blocking) != 0;
    inherit(&config->blocking, inherited ? inherited->blocking : 1);
    return ncclSuccess;
}
