/* device.c - see device.h. */
#include "collectives/ops/device.h"

#include "collectives/ops/launch.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* Stores why the kernels cannot run. */
static void __attribute__((format(printf, 2, 3))) refuse(struct bb_device *d, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(d->why, sizeof d->why, format, args);
    va_end(args);
}

/* Compares the versions of NCCL's header and library where NCCL does not: a library 2.28 writes its own layout of the
 * structs, and no library knows the structs of a newer header. */
static int check_versions(struct bb_device *d)
{
    const int built = NCCL_VERSION_CODE;
    char header[BB_NCCL_VERSION_TEXT], runtime[BB_NCCL_VERSION_TEXT];
    int loaded, rc;

    TRY(BB_NCCL(ncclGetVersion(&loaded)));
    bb_nccl_version_text(built, header);
    bb_nccl_version_text(loaded, runtime);
    if (!bb_nccl_symbol("ncclDevCommCreate"))
        refuse(d, "NCCL %s has no device API (2.28.9 or newer)", runtime);
    else if (loaded < built || (loaded < 22900 && loaded != built))
        refuse(d,
               "kernels built with the header of NCCL %s do not run with NCCL %s; try: a build with the header of %s",
               header, runtime, runtime);
out:
    return rc;
}

static bool is_over_gin(const struct bb_device *d)
{
    return d->path == BB_DEVICE_GIN || d->path == BB_DEVICE_HYBRID;
}

/* Refuses what NCCL (2.29 or newer) reports as not supported on any rank. known: out: whether NCCL reports it. */
static int check_properties(struct bb_device *d, const struct bb_comm *comm, bool *known)
{
    static const char *const needs[] = {"device API", "multicast memory (multimem)", "GIN"};
    struct bb_nccl_properties p = BB_NCCL_PROPERTIES_INITIAL;
    ncclCommQueryProperties_fn *query;
    int lacks = -1, rc; /* index in needs; -1: nothing */

    *(void **)&query = bb_nccl_symbol("ncclCommQueryProperties");
    *known = query && query(comm->nccl, &p) == ncclSuccess;
    if (*known && !p.deviceApiSupport)
        lacks = 0;
    else if (*known && d->path == BB_DEVICE_MULTIMEM && !p.multimemSupport)
        lacks = 1;
    else if (*known && is_over_gin(d) && p.ginType == 0)
        lacks = 2;
    int *all = bb_world_gather(comm->world, &lacks, sizeof lacks, &rc);
    for (int r = 0; rc == 0 && !d->why[0] && r < comm->world->size; r++)
        if (all[r] >= 0)
            refuse(d, "NCCL reports no %s on rank %d (%s)", needs[all[r]], r, comm->world->hosts[r]);
    free(all);
    return rc;
}

/* NCCL decides whether the library, the GPUs and their links support what the kernels need. If NCCL reports its support
 * otherwise (known), an error ends the job at once: other ranks may wait for this rank in NCCL. */
static int create(struct bb_device *d, struct bb_comm *comm, bool known)
{
    const bool over_gin = is_over_gin(d);
    ncclDevCommCreate_fn *function;
    ncclResult_t result;
    int lsa_ranks, rc;

    *(void **)&function = bb_nccl_symbol("ncclDevCommCreate");
    result = bb_device_comm_new(function, comm->nccl, d->ctas, d->path, &d->comm, &lsa_ranks);
    if (d->comm && result != ncclSuccess) {
        free(d->comm);
        d->comm = NULL;
        if (known || (result != ncclInvalidUsage && result != ncclInvalidArgument))
            TRY(bb_nccl_at(result, "ncclDevCommCreate", __FILE__, __LINE__));
        refuse(d, "NCCL creates no communicator for %s kernels: %s", bb_device_paths[d->path - 1],
               ncclGetLastError(comm->nccl));
        return 0;
    }
    TRY(bb_comm_poll(comm, "ncclDevCommCreate"));
    if (!d->comm) {
        refuse(d, "built with an NCCL header that has no %s; try: a build with the header of NCCL 2.30.7",
               over_gin ? "GIN of this form" : "device API");
    } else if (!over_gin && lsa_ranks < comm->size) {
        refuse(d, "each GPU must be able to access the memory of all %d ranks (LSA team), but a team has only %d",
               comm->size, lsa_ranks);
    }
out:
    return rc;
}

int bb_device_open(struct bb_device *d, struct bb_comm *comm)
{
    bool known = false;
    int rc;

    TRY(check_versions(d));
    if (!d->why[0])
        TRY(check_properties(d, comm, &known));
    if (!d->why[0])
        TRY(BB_GUARDED(comm->world, "ncclDevCommCreate", create(d, comm, known)));
    rc = bb_world_agree(comm->world, d->why[0] ? 0 : bb_device_kernels_load(), "loading the kernels");
out:
    return rc;
}

const char *bb_device_properties(const struct bb_comm *comm, char text[BB_DEVICE_TEXT])
{
    static const char *const gin[] = {[0] = "no GIN", [2] = "GIN proxy", [3] = "GIN GDAKI", [4] = "GIN GPI"};
    struct bb_nccl_properties p = BB_NCCL_PROPERTIES_INITIAL;
    ncclCommQueryProperties_fn *query;

    *(void **)&query = bb_nccl_symbol("ncclCommQueryProperties");
    if (!query || query(comm->nccl, &p) != ncclSuccess)
        return NULL;
    if (!p.deviceApiSupport)
        return "not supported";
    snprintf(text, BB_DEVICE_TEXT, "%d LSA team%s, %s, %s", p.nLsaTeams, bb_plural(p.nLsaTeams),
             p.multimemSupport ? "multimem" : "no multimem",
             p.ginType >= 0 && p.ginType <= 4 && gin[p.ginType] ? gin[p.ginType] : "GIN");
    return text;
}

void bb_device_close(struct bb_device *d, struct bb_comm *comm)
{
    ncclDevCommDestroy_fn *destroy;

    *(void **)&destroy = bb_nccl_symbol("ncclDevCommDestroy");
    if (d->comm && destroy && comm->nccl)
        (void)destroy(comm->nccl, d->comm);
    free(d->comm);
    d->comm = NULL;
}

int bb_device_launch(const struct bb_device *d, const struct bb_call *c)
{
    return bb_device_kernel_launch(d, c->kind, (size_t)((const char *)c->send - d->base),
                                   (size_t)((const char *)c->recv - d->base), c->count, c->dtype, c->stream);
}
