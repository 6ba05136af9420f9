/*
 * registration.c - registers the buffer arena. NCCL's registration functions are looked up at run time, because busbar
 * also runs with NCCL versions that lack them. Window handles are stored as void pointers, because older NCCL headers
 * lack the type ncclWindow_t.
 */
#include "collectives/session/registration.h"

#include "bootstrap/world/nccl_newer.h"

#include <stdlib.h>

const char *const bb_registration_names[BB_REGISTER_COUNT] = {
    [BB_REGISTER_NONE] = "none", [BB_REGISTER_LOCAL] = "local", [BB_REGISTER_SYMMETRIC] = "symmetric"};

static bool is_disabled(const char *variable)
{
    const char *value = getenv(variable);

    return value && atoi(value) == 0;
}

static bool reaches_all_gpus(void)
{
    int own = 0, n = 0, can = cudaGetDevice(&own) == cudaSuccess && cudaGetDeviceCount(&n) == cudaSuccess;

    for (int d = 0; d < n && can; d++)
        if (d != own && cudaDeviceCanAccessPeer(&can, own, d) != cudaSuccess)
            can = 0;
    return can;
}

bool bb_window_is_symmetric(const struct bb_world *w, int ranks, const void *window)
{
    int version = 0;

    if (!window || (ncclGetVersion(&version) == ncclSuccess && version >= 22900))
        return window;
    for (int r = 0; r < ranks; r++)
        if (w->node_of[r] != w->node)
            return false;
    return !is_disabled("NCCL_WIN_ENABLE") && !is_disabled("NCCL_CUMEM_ENABLE") && reaches_all_gpus();
}

/* Whether the communicator has ranks on other nodes, and NCCL does not report a network with GIN between them. */
static bool lacks_gin(const struct bb_comm *comm)
{
    struct bb_nccl_properties p = BB_NCCL_PROPERTIES_INITIAL;
    ncclCommQueryProperties_fn *query;
    int on_node = 0;

    for (int r = 0; r < comm->world->size; r++)
        on_node += comm->world->node_of[r] == comm->world->node;
    *(void **)&query = bb_nccl_symbol("ncclCommQueryProperties");
    return comm->size > on_node && (!query || query(comm->nccl, &p) != ncclSuccess || p.ginType == 0);
}

/* What windows require and a rank lacks, the first reason first. */
enum { NO_HANDLE, NOT_SYMMETRIC, DISABLED, NO_CUMEM, NO_GIN, LACKS };

static const char *why_no_windows(unsigned lacks)
{
    static const char *const reasons[LACKS] = {
        [DISABLED] = "NCCL_WIN_ENABLE=0 disables them",
        [NO_CUMEM] = "NCCL_CUMEM_ENABLE=0 disables them",
        [NO_GIN] = "the ranks are on several nodes, and NCCL reports no network with GIN",
    };

    for (int i = DISABLED; i < LACKS; i++)
        if (lacks & 1u << i)
            return reasons[i];
    return "not supported by these GPUs or this NCCL";
}

/* Sets r->kind, which is equal on all ranks, from NCCL's handle. */
static int check_handle(struct bb_registration *r, enum bb_registration_kind asked, struct bb_comm *comm)
{
    const struct bb_world *w = comm->world;
    unsigned lacks = !r->handle << NO_HANDLE | !bb_window_is_symmetric(w, w->size, r->handle) << NOT_SYMMETRIC |
                     is_disabled("NCCL_WIN_ENABLE") << DISABLED | is_disabled("NCCL_CUMEM_ENABLE") << NO_CUMEM |
                     lacks_gin(comm) << NO_GIN;
    int rc;

    TRY(bb_world_any(comm->world, &lacks));
    r->kind = lacks & 1 << NO_HANDLE ? BB_REGISTER_NONE : lacks & 1 << NOT_SYMMETRIC ? BB_REGISTER_LOCAL : asked;
    if (r->kind != asked)
        r->why =
            asked == BB_REGISTER_LOCAL ? "NCCL does not register buffers (NCCL_LOCAL_REGISTER)" : why_no_windows(lacks);
out:
    return rc;
}

/* Registers r->memory. If NCCL or the GPUs do not support it, sets r->why and leaves r->kind at BB_REGISTER_NONE. */
static int register_memory(struct bb_registration *r, size_t bytes, enum bb_registration_kind asked,
                           struct bb_comm *comm)
{
    const bool symmetric = asked == BB_REGISTER_SYMMETRIC;
    ncclCommWindowRegister_fn *window;
    ncclCommRegister_fn *local;
    int rc;

    *(void **)&window = bb_nccl_symbol("ncclCommWindowRegister");
    *(void **)&local = bb_nccl_symbol("ncclCommRegister");
    if (symmetric ? !window : !local) {
        r->why =
            symmetric ? "this NCCL lacks ncclCommWindowRegister (2.27)" : "this NCCL lacks ncclCommRegister (2.19)";
        return 0;
    }
    if (symmetric)
        TRY(BB_GUARDED(comm->world, "registration of a symmetric window",
                       bb_nccl_at(window(comm->nccl, r->memory, bytes, &r->handle, BB_NCCL_WIN_COLL_SYMMETRIC),
                                  "ncclCommWindowRegister", __FILE__, __LINE__)));
    else
        TRY(bb_nccl_at(local(comm->nccl, r->memory, bytes, &r->handle), "ncclCommRegister", __FILE__, __LINE__));
    TRY(bb_comm_poll(comm, "registration"));
    r->window = symmetric;
    TRY(check_handle(r, asked, comm));
out:
    return rc;
}

int bb_registration_init(struct bb_registration *r, struct bb_guarded *arena, size_t bytes,
                         enum bb_registration_kind asked, struct bb_comm *comm)
{
    int rc;

    *r = (struct bb_registration){0};
    TRY(BB_NCCL(ncclMemAlloc(&r->memory, bytes)));
    arena->area = r->memory;
    arena->bytes = bytes;
    TRY(register_memory(r, bytes, asked, comm));
out:
    return rc;
}

void bb_registration_release(struct bb_registration *r, struct bb_guarded *arena, struct bb_comm *comm)
{
    ncclCommDeregister_fn *call;

    *(void **)&call = bb_nccl_symbol(r->window ? "ncclCommWindowDeregister" : "ncclCommDeregister");
    if (r->handle && call && comm->nccl)
        (void)call(comm->nccl, r->handle);
    if (r->memory) {
        (void)ncclMemFree(r->memory);
        *arena = (struct bb_guarded){0};
    }
    *r = (struct bb_registration){0};
}
