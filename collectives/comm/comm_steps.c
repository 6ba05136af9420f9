/*
 * comm_steps.c - the steps of a communicator's life cycle (init to destroy), in order. An untimed barrier precedes each
 * step, so that no rank's time includes waiting for a late rank.
 */
#include "collectives/comm/comm_steps.h"

#include "bootstrap/base/clock.h"
#include "bootstrap/world/nccl_newer.h"
#include "collectives/session/registration.h"
#include "cuda/device/check.h"
#include "cuda/device/stream.h"

#include <math.h>
#include <stddef.h>

/* Returned by a step's `run` function if only this rank skips the step. Positive values below NOT_HERE are those of
 * enum bb_comm_absent: all ranks skip the step, and the step has no time. */
enum { NOT_HERE = BB_COMM_ABSENCES };

const char *const bb_comm_absences[BB_COMM_ABSENCES] = {
    [BB_COMM_LACKS] = "this NCCL version lacks the function",
    [BB_COMM_NO_WINDOW] = "the GPUs or this NCCL version do not support symmetric windows",
    [BB_COMM_ALONE] = "needs at least 2 ranks",
};

/* Makes an NCCL call that may block. The supervisor monitors the call and ends the run if the call exceeds the
 * timeout. */
#define WATCHED(life, call) BB_GUARDED((life)->world, (life)->current_step->name, BB_NCCL(call))

/* ---- init and first use ---- */

static int init_comm(struct bb_comm_life *life, struct bb_comm *comm)
{
    bool member = life->world->rank < life->ranks;

    return bb_comm_init(comm, life->world, "life", NULL, member ? life->ranks : 0, &life->opts);
}

/* Exchanges the NCCL ids over MPI as bb_comm_init does, but creates no communicator. The time of this step is the
 * share of bb_comm_init that is spent outside NCCL. */
static int exchange_id(struct bb_comm_life *life, struct bb_comm *comm)
{
    struct bb_comm empty;

    (void)comm;
    return bb_comm_init(&empty, life->world, "empty", NULL, 0, &life->opts);
}

static int wait_for_comm(struct bb_comm_life *life, struct bb_comm *comm, const char *what)
{
    int rc;

    TRY(bb_comm_poll(comm, what));
    TRY(bb_comm_wait(comm, life->stream, what));
out:
    return rc;
}

static int reduce_all(struct bb_comm_life *life, struct bb_comm *comm)
{
    int rc;

    TRY(WATCHED(life,
                ncclAllReduce(life->memory, life->memory, life->bytes, ncclInt8, ncclMax, comm->nccl, life->stream)));
    TRY(wait_for_comm(life, comm, "all_reduce"));
out:
    return rc;
}

/* Sends the first half of life->memory to the next rank and receives from the previous rank into the second half. */
static int send_round_ring(struct bb_comm_life *life, struct bb_comm *comm)
{
    int next = (comm->rank + 1) % comm->size, before = (comm->rank + comm->size - 1) % comm->size, rc;

    TRY(BB_GUARDED(life->world, "ring send and receive",
                   bb_comm_sendrecv(comm, life->memory, next, (char *)life->memory + life->bytes, before, life->bytes,
                                    ncclInt8, life->stream)));
    TRY(wait_for_comm(life, comm, "ring send and receive"));
out:
    return rc;
}

/* ---- memory: allocation and registration ---- */

static int alloc_memory(struct bb_comm_life *life, struct bb_comm *comm)
{
    (void)comm;
    return WATCHED(life, ncclMemAlloc(&life->memory, 2 * life->bytes));
}

static int clear_memory(struct bb_comm_life *life, struct bb_comm *comm)
{
    int rc;

    (void)comm;
    TRY(BB_CUDA(cudaMemsetAsync(life->memory, 0, 2 * life->bytes, life->stream)));
    TRY(bb_stream_wait(life->world, life->stream, "initialization of the memory", NULL, NULL));
out:
    return rc;
}

static int free_memory(struct bb_comm_life *life, struct bb_comm *comm)
{
    void *memory = life->memory;

    (void)comm;
    life->memory = NULL;
    return WATCHED(life, ncclMemFree(memory));
}

static int register_memory(struct bb_comm_life *life, struct bb_comm *comm)
{
    ncclCommRegister_fn *call;
    int rc;

    *(void **)&call = life->call;
    TRY(WATCHED(life, call(comm->nccl, life->memory, 2 * life->bytes, &life->handle)));
    TRY(bb_comm_poll(comm, "registration"));
out:
    return rc;
}

static int open_window(struct bb_comm_life *life, struct bb_comm *comm)
{
    ncclCommWindowRegister_fn *call;
    int rc;

    *(void **)&call = life->call;
    TRY(WATCHED(life, call(comm->nccl, life->memory, 2 * life->bytes, &life->window, BB_NCCL_WIN_COLL_SYMMETRIC)));
    TRY(bb_comm_poll(comm, "registration of a window"));
    rc = bb_window_is_symmetric(life->world, life->ranks, life->window) ? 0 : BB_COMM_NO_WINDOW;
out:
    return rc;
}

static int release_handle(struct bb_comm_life *life, struct bb_comm *comm, void **handle, enum bb_comm_absent why)
{
    ncclCommDeregister_fn *call;
    int rc;

    *(void **)&call = life->call;
    if (!*handle)
        return (int)why;
    TRY(WATCHED(life, call(comm->nccl, *handle)));
    TRY(bb_comm_poll(comm, life->current_step->function));
    *handle = NULL;
out:
    return rc;
}

static int deregister_memory(struct bb_comm_life *life, struct bb_comm *comm)
{
    return release_handle(life, comm, &life->handle, BB_COMM_LACKS);
}

static int close_window(struct bb_comm_life *life, struct bb_comm *comm)
{
    bool symmetric = bb_window_is_symmetric(life->world, life->ranks, life->window);
    int rc = release_handle(life, comm, &life->window, BB_COMM_NO_WINDOW);

    return rc == 0 && !symmetric ? BB_COMM_NO_WINDOW : rc;
}

/* ---- split and shrink ---- */

/* Calls ncclCommSplit, which divides the communicator into life->parts smaller communicators of consecutive ranks. */
static int split_comm(struct bb_comm_life *life, struct bb_comm *comm)
{
    int color = comm->rank * life->parts / life->ranks;

    return bb_comm_split(&life->part, comm, "part", color, comm->rank, &life->opts);
}

/* Calls ncclCommShrink to exclude the last rank, as after a failure of that rank. The last rank does not call the
 * function. */
static int shrink_comm(struct bb_comm_life *life, struct bb_comm *comm)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    int last = life->ranks - 1, rc;
    ncclCommShrink_fn *call;

    *(void **)&call = life->call;
    if (life->ranks < 2 || comm->rank == last)
        return life->ranks < 2 ? (int)BB_COMM_ALONE : (int)NOT_HERE;
    config.blocking = life->opts.blocking;
    life->rest = (struct bb_comm){
        .world = life->world, .rank = comm->rank, .size = last, .blocking = life->opts.blocking, .name = "rest"};
    TRY(WATCHED(life, call(comm->nccl, &last, 1, (ncclComm_t *)&life->rest.nccl, &config, 0)));
    TRY(bb_comm_poll(comm, "shrink"));
    TRY(bb_comm_poll(&life->rest, "init after shrink"));
out:
    return rc;
}

/* ---- finalize and destroy ---- */

static int finalize_comm(struct bb_comm_life *life, struct bb_comm *comm)
{
    int rc;

    TRY(WATCHED(life, ncclCommFinalize(comm->nccl)));
    TRY(bb_comm_poll(comm, "finalize"));
out:
    return rc;
}

static int destroy_comm(struct bb_comm_life *life, struct bb_comm *comm)
{
    ncclComm_t nccl = comm->nccl;

    comm->nccl = NULL;
    return WATCHED(life, ncclCommDestroy(nccl));
}

static int release_comm(struct bb_comm_life *life, struct bb_comm *comm)
{
    (void)life;
    bb_comm_abort(comm);
    return 0;
}

/* Finalizes and destroys the communicator that ncclCommShrink created, in one step, on its members. If all ranks
 * skipped the step "shrink", this step is skipped too and returns the reason recorded for "shrink". */
static int end_rest(struct bb_comm_life *life, struct bb_comm *comm)
{
    const int why = life->absent[life->current_step - bb_comm_steps - 1];

    if (why)
        return why;
    return comm->nccl ? bb_comm_finalize(comm) : NOT_HERE;
}

/* ---- the table of steps and their timing ---- */

#define OF(member) .comm = offsetof(struct bb_comm_life, member)
const struct bb_comm_step bb_comm_steps[BB_COMM_STEPS] = {
    {"exchange", "exchange of NCCL ids over MPI, which is also part of init", exchange_id, OF(comm)},
    {"init", "ncclCommInitRankConfig, including the exchange of ids", init_comm, OF(comm)},
    {"mem_alloc", "ncclMemAlloc", alloc_memory, OF(comm), .after = clear_memory},
    {"first_all_reduce", "includes connection setup", reduce_all, OF(comm)},
    {"all_reduce", "repeated; connections exist", reduce_all, OF(comm)},
    {"first_sendrecv", "to the next rank; includes connection setup", send_round_ring, OF(comm)},
    {"sendrecv", "repeated; connections exist", send_round_ring, OF(comm)},
    {"register", "ncclCommRegister", register_memory, OF(comm), .function = "ncclCommRegister"},
    {"deregister", "ncclCommDeregister", deregister_memory, OF(comm), .function = "ncclCommDeregister", .minor = true},
    {"window_register", "ncclCommWindowRegister", open_window, OF(comm), .function = "ncclCommWindowRegister"},
    {"window_deregister", "ncclCommWindowDeregister", close_window, OF(comm), .function = "ncclCommWindowDeregister"},
    {"split", "ncclCommSplit into --parts communicators", split_comm, OF(comm)},
    {"first_all_reduce_part", "on a split communicator; includes connection setup", reduce_all, OF(part)},
    {"finalize_part", "ncclCommFinalize of a split communicator", finalize_comm, OF(part)},
    {"destroy_part", "ncclCommDestroy of a split communicator", destroy_comm, OF(part), .after = release_comm},
    {"shrink", "ncclCommShrink without the last rank", shrink_comm, OF(comm), .function = "ncclCommShrink"},
    {"destroy_shrunk", "ncclCommFinalize and ncclCommDestroy of the shrunk communicator", end_rest, OF(rest)},
    {"mem_free", "ncclMemFree", free_memory, OF(comm), .minor = true},
    {"finalize", "ncclCommFinalize", finalize_comm, OF(comm)},
    {"destroy", "ncclCommDestroy", destroy_comm, OF(comm), .after = release_comm},
};

/* Runs a step, measures its host time, and records NCCL's choice if requested. us[step] stays NaN if the step was
 * skipped. */
static int time_step(struct bb_comm_life *life, int step)
{
    struct bb_comm *comm = (struct bb_comm *)((char *)life + bb_comm_steps[step].comm);
    double begin_s;
    int rc = BB_COMM_LACKS;

    if (life->capture_choices)
        bb_profiler_begin();
    life->current_step = &bb_comm_steps[step];
    life->call = life->current_step->function ? bb_nccl_symbol(life->current_step->function) : NULL;
    bb_range_push_once(&life->nvtx, 0, life->bytes, "%s", life->current_step->name);
    bb_world_prompt(life->world, true);
    begin_s = bb_now_s();
    if (!life->current_step->function || life->call)
        rc = life->current_step->run(life, comm);
    if (rc == 0)
        life->us[step] = 1e6 * (bb_now_s() - begin_s);
    bb_world_prompt(life->world, false);
    bb_range_pop(&life->nvtx);
    if (rc == 0 && life->current_step->after)
        rc = life->current_step->after(life, comm);
    if (rc > 0 && rc != NOT_HERE)
        life->absent[step] = rc;
    if (life->capture_choices)
        bb_profiler_end(&life->choice[step]);
    return rc > 0 ? 0 : rc;
}

int bb_comm_run_life(struct bb_comm_life *life)
{
    const bool member = life->world->rank < life->ranks;
    int rc = 0;

    for (int step = 0; step < BB_COMM_STEPS; step++) {
        life->us[step] = NAN;
        life->absent[step] = BB_COMM_PRESENT;
        if (step == 2) /* creating the communicators has set its own */
            bb_world_reached(life->world, "bench comm: %d ranks, after init", life->ranks);
        TRY(bb_world_barrier(life->world, bb_comm_steps[step].name));
        /* the first two steps exchange ids over MPI, so they run on all ranks of the job */
        if (step < 2 || member)
            TRY(time_step(life, step));
        if (!member)
            life->us[step] = NAN;
    }
out:
    return rc;
}
