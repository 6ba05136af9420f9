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

/* Sets r->kind, which is equal on all ranks, from NCCL's handle. */
static int check_handle(struct bb_registration *r, enum bb_registration_kind asked, struct bb_comm *comm)
{
    const struct bb_world *w = comm->world;
    unsigned lacks = (r->handle ? 0 : 1) | (bb_window_is_symmetric(w, w->size, r->handle) ? 0 : 2);
    int rc;

    TRY(bb_world_any(comm->world, &lacks));
    r->kind = lacks & 1 ? BB_REGISTER_NONE : lacks & 2 ? BB_REGISTER_LOCAL : asked;
    if (r->kind != asked)
        r->why = asked == BB_REGISTER_LOCAL ? "NCCL does not register buffers (NCCL_LOCAL_REGISTER)"
                 : w->nodes > 1             ? "the ranks are on several nodes"
                                            : "not supported by these GPUs or this NCCL";
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
