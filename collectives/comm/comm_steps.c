/*
 * comm_steps.c - the steps in the order of a life. Before each there is a barrier, outside of the time, so that no rank
 * pays for another that came late to the step.
 */
#include "collectives/comm/comm_steps.h"

#include "bootstrap/base/clock.h"
#include "bootstrap/world/nccl_newer.h"
#include "cuda/device/check.h"
#include "cuda/device/stream.h"

#include <math.h>
#include <stdlib.h>

const char *const bb_comm_absences[BB_COMM_ABSENCES] = {
    [BB_COMM_LACKS] = "this NCCL lacks the function",
    [BB_COMM_NO_WINDOW] = "these GPUs or this NCCL do not support symmetric windows",
    [BB_COMM_ALONE] = "needs 2 ranks",
};

/* ---- the clock ---- */

static void begin_step(struct bb_comm_life *life, int step)
{
    bb_world_prompt(life->world, true);
    life->us[step] = -1e6 * bb_now_s();
}

static void end_step(struct bb_comm_life *life, int step)
{
    life->us[step] += 1e6 * bb_now_s();
    bb_world_prompt(life->world, false);
}

static int mark_absent(struct bb_comm_life *life, int step, enum bb_comm_absent why)
{
    life->us[step] = NAN;
    life->absent[step] = why;
    return 0;
}

/* A call that may block, watched; then what is left of it when it does not. */
#define WATCHED(life, step, call)                                                                                      \
    (bb_world_guard((life)->world, bb_comm_steps[step].name), end_guard((life)->world, BB_NCCL(call)))

static int end_guard(struct bb_world *w, int rc)
{
    bb_world_unguard(w);
    return rc;
}

/* ---- made, and used for the first time ---- */

static int init_comm(struct bb_comm_life *life, int step)
{
    bool member = life->world->rank < life->ranks;
    int rc;

    begin_step(life, step);
    rc = bb_comm_init(&life->comm, life->world, "life", NULL, member ? life->ranks : 0, &life->opts);
    end_step(life, step);
    return rc;
}

/* What init needs besides NCCL: the same exchange, for a group of nobody. */
static int exchange_id(struct bb_comm_life *life, int step)
{
    struct bb_comm nobody;
    int rc;

    begin_step(life, step);
    rc = bb_comm_init(&nobody, life->world, "nobody", NULL, 0, &life->opts);
    end_step(life, step);
    return rc;
}

static int wait_for_comm(struct bb_comm_life *life, struct bb_comm *comm, const char *what)
{
    int rc;

    TRY(bb_comm_poll(comm, what));
    TRY(bb_comm_wait(comm, life->stream, what));
out:
    return rc;
}

static int reduce_on(struct bb_comm_life *life, struct bb_comm *comm, int step)
{
    int rc;

    begin_step(life, step);
    TRY(WATCHED(life, step,
                ncclAllReduce(life->memory, life->memory, life->bytes, ncclInt8, ncclMax, comm->nccl, life->stream)));
    TRY(wait_for_comm(life, comm, "all_reduce"));
    end_step(life, step);
out:
    return rc;
}

static int reduce_whole(struct bb_comm_life *life, int step)
{
    return reduce_on(life, &life->comm, step);
}

static int reduce_part(struct bb_comm_life *life, int step)
{
    return reduce_on(life, &life->part, step);
}

/* Round the ring; send and receive areas are the halves of the memory. */
static int exchange_ring(struct bb_comm_life *life)
{
    const struct bb_comm *c = &life->comm;
    int rc;

    TRY(BB_NCCL(ncclGroupStart()));
    rc = BB_NCCL(ncclSend(life->memory, life->bytes, ncclInt8, (c->rank + 1) % c->size, c->nccl, life->stream));
    if (rc == 0)
        rc = BB_NCCL(ncclRecv((char *)life->memory + life->bytes, life->bytes, ncclInt8,
                              (c->rank + c->size - 1) % c->size, c->nccl, life->stream));
    if (rc == 0)
        rc = BB_NCCL(ncclGroupEnd());
    else
        (void)ncclGroupEnd();
out:
    return rc;
}

static int send_round_ring(struct bb_comm_life *life, int step)
{
    int rc;

    begin_step(life, step);
    bb_world_guard(life->world, "sends round the ring");
    rc = exchange_ring(life);
    bb_world_unguard(life->world);
    TRY(rc);
    TRY(wait_for_comm(life, &life->comm, "sends round the ring"));
    end_step(life, step);
out:
    return rc;
}

/* ---- memory ---- */

static int alloc_memory(struct bb_comm_life *life, int step)
{
    int rc;

    begin_step(life, step);
    TRY(WATCHED(life, step, ncclMemAlloc(&life->memory, 2 * life->bytes)));
    end_step(life, step);
    TRY(BB_CUDA(cudaMemsetAsync(life->memory, 0, 2 * life->bytes, life->stream)));
    TRY(bb_stream_wait(life->world, life->stream, "preparation of memory", NULL, NULL));
out:
    return rc;
}

static int free_memory(struct bb_comm_life *life, int step)
{
    int rc;

    begin_step(life, step);
    TRY(WATCHED(life, step, ncclMemFree(life->memory)));
    end_step(life, step);
    life->memory = NULL;
out:
    return rc;
}

static int register_memory(struct bb_comm_life *life, int step)
{
    ncclCommRegister_fn *call;
    int rc;

    *(void **)&call = bb_nccl_symbol("ncclCommRegister");
    if (!call)
        return mark_absent(life, step, BB_COMM_LACKS);
    begin_step(life, step);
    TRY(WATCHED(life, step, call(life->comm.nccl, life->memory, 2 * life->bytes, &life->handle)));
    TRY(bb_comm_poll(&life->comm, "registration"));
    end_step(life, step);
out:
    return rc;
}

static int open_window(struct bb_comm_life *life, int step)
{
    ncclCommWindowRegister_fn *call;
    int rc;

    *(void **)&call = bb_nccl_symbol("ncclCommWindowRegister");
    if (!call)
        return mark_absent(life, step, BB_COMM_LACKS);
    begin_step(life, step);
    TRY(WATCHED(life, step,
                call(life->comm.nccl, life->memory, 2 * life->bytes, &life->window, BB_NCCL_WIN_COLL_SYMMETRIC)));
    TRY(bb_comm_poll(&life->comm, "registration of a window"));
    end_step(life, step);
    if (!life->window)
        return mark_absent(life, step, BB_COMM_NO_WINDOW);
out:
    return rc;
}

static int release_handle(struct bb_comm_life *life, int step, const char *function, void **handle,
                          enum bb_comm_absent why)
{
    ncclCommDeregister_fn *call;
    int rc;

    *(void **)&call = bb_nccl_symbol(function);
    if (!call || !*handle)
        return mark_absent(life, step, call ? why : BB_COMM_LACKS);
    begin_step(life, step);
    TRY(WATCHED(life, step, call(life->comm.nccl, *handle)));
    TRY(bb_comm_poll(&life->comm, function));
    end_step(life, step);
    *handle = NULL;
out:
    return rc;
}

static int deregister_memory(struct bb_comm_life *life, int step)
{
    return release_handle(life, step, "ncclCommDeregister", &life->handle, BB_COMM_LACKS);
}

static int close_window(struct bb_comm_life *life, int step)
{
    return release_handle(life, step, "ncclCommWindowDeregister", &life->window, BB_COMM_NO_WINDOW);
}

/* ---- smaller ones ---- */

/* Neighbours stay together. */
static int split_comm(struct bb_comm_life *life, int step)
{
    int color = life->comm.rank * life->parts / life->ranks, rc;

    begin_step(life, step);
    TRY(bb_comm_split(&life->part, &life->comm, "part", color, life->comm.rank, &life->opts));
    end_step(life, step);
out:
    return rc;
}

static ncclConfig_t config_of(const struct bb_comm_life *life)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;

    config.blocking = life->opts.blocking;
    return config;
}

/* The last rank is left out, as one that failed would be; it has nothing to do. */
static int shrink_comm(struct bb_comm_life *life, int step)
{
    ncclConfig_t config = config_of(life);
    int last = life->ranks - 1, rc;
    ncclCommShrink_fn *call;

    *(void **)&call = bb_nccl_symbol("ncclCommShrink");
    if (!call || life->ranks < 2)
        return mark_absent(life, step, call ? BB_COMM_ALONE : BB_COMM_LACKS);
    if (life->comm.rank == last)
        return 0;
    life->rest = (struct bb_comm){
        .world = life->world, .rank = life->comm.rank, .size = last, .blocking = life->opts.blocking, .name = "rest"};
    begin_step(life, step);
    TRY(WATCHED(life, step, call(life->comm.nccl, &last, 1, &life->rest.nccl, &config, 0)));
    TRY(bb_comm_poll(&life->comm, "shrink"));
    TRY(bb_comm_poll(&life->rest, "init after shrink"));
    end_step(life, step);
out:
    return rc;
}

/* ---- the end ---- */

static int finalize_comm(struct bb_comm_life *life, struct bb_comm *comm, int step)
{
    int rc;

    begin_step(life, step);
    TRY(WATCHED(life, step, ncclCommFinalize(comm->nccl)));
    TRY(bb_comm_poll(comm, "finalize"));
    end_step(life, step);
out:
    return rc;
}

/* The handle is taken first, so that nobody aborts what is being destroyed. */
static int destroy_comm(struct bb_comm_life *life, struct bb_comm *comm, int step)
{
    ncclComm_t nccl = __atomic_exchange_n(&comm->nccl, NULL, __ATOMIC_ACQ_REL);
    int rc;

    begin_step(life, step);
    TRY(WATCHED(life, step, ncclCommDestroy(nccl)));
    end_step(life, step);
    bb_comm_abort(comm);
out:
    return rc;
}

static int finalize_part(struct bb_comm_life *life, int step)
{
    return finalize_comm(life, &life->part, step);
}

static int destroy_part(struct bb_comm_life *life, int step)
{
    return destroy_comm(life, &life->part, step);
}

/* Whoever is in the smaller one ends it, in one step: it is of no interest of its own. */
static int end_rest(struct bb_comm_life *life, int step)
{
    int rc = 0;

    if (life->absent[step - 1])
        return mark_absent(life, step, (enum bb_comm_absent)life->absent[step - 1]);
    if (!life->rest.nccl)
        return 0;
    begin_step(life, step);
    TRY(bb_comm_finalize(&life->rest));
    end_step(life, step);
out:
    return rc;
}

static int finalize_whole(struct bb_comm_life *life, int step)
{
    return finalize_comm(life, &life->comm, step);
}

static int destroy_whole(struct bb_comm_life *life, int step)
{
    return destroy_comm(life, &life->comm, step);
}

/* ---- the table ---- */

const struct bb_comm_step bb_comm_steps[BB_COMM_STEPS] = {
    {"exchange", "ids over MPI, which init contains", exchange_id},
    {"init", "ncclCommInitRankConfig, with the exchange", init_comm},
    {"mem_alloc", "ncclMemAlloc", alloc_memory},
    {"first_all_reduce", "connects", reduce_whole},
    {"all_reduce", "the same again", reduce_whole},
    {"first_sendrecv", "round the ring; connects", send_round_ring},
    {"sendrecv", "the same again", send_round_ring},
    {"register", "ncclCommRegister", register_memory},
    {"deregister", "ncclCommDeregister", deregister_memory},
    {"window_register", "ncclCommWindowRegister", open_window},
    {"window_deregister", "ncclCommWindowDeregister", close_window},
    {"split", "ncclCommSplit into parts", split_comm},
    {"first_all_reduce_part", "of a part; connects", reduce_part},
    {"finalize_part", "ncclCommFinalize of a part", finalize_part},
    {"destroy_part", "ncclCommDestroy of a part", destroy_part},
    {"shrink", "ncclCommShrink without the last rank", shrink_comm},
    {"end_shrunk", "finalize and destroy of what is left", end_rest},
    {"mem_free", "ncclMemFree", free_memory},
    {"finalize", "ncclCommFinalize", finalize_whole},
    {"destroy", "ncclCommDestroy", destroy_whole},
};

/* The first two are of the world: all ranks exchange ids, whoever is in the group. */
static bool takes_part(const struct bb_comm_life *life, int step)
{
    return step < 2 || life->world->rank < life->ranks;
}

static int run_step(struct bb_comm_life *life, int step)
{
    int rc;

    if (!life->listens)
        return bb_comm_steps[step].run(life, step);
    bb_profiler_begin();
    rc = bb_comm_steps[step].run(life, step);
    bb_profiler_end(&life->choice[step]);
    return rc;
}

int bb_comm_live(struct bb_comm_life *life)
{
    int rc = 0;

    for (int step = 0; step < BB_COMM_STEPS; step++) {
        life->us[step] = NAN;
        life->absent[step] = BB_COMM_PRESENT;
        TRY(bb_world_barrier(life->world, bb_comm_steps[step].name));
        if (takes_part(life, step))
            TRY(run_step(life, step));
        if (life->world->rank >= life->ranks)
            life->us[step] = NAN;
    }
out:
    return rc;
}
