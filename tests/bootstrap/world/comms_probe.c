/*
 * comms_probe.c - the program that test_comms.c starts under mpirun: comms_probe MODE RANK TIMEOUT. Creates
 * communicators on emulated GPUs and runs collectives on them.
 */
#include "bootstrap/world/comms.h"
#include "tests/bootstrap/probe_main.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct bb_comm_opts nonblocking = {0}, blocking = {.blocking = true};

static int cuda(cudaError_t error, const char *call)
{
    return error == cudaSuccess ? 0 : bb_err(BB_EFAIL, "%s: %s", call, cudaGetErrorString(error));
}

/* Reduces (world rank + 1) over all members and compares the result with the expected sum. */
static int check_sum(struct bb_comm *c, int expected)
{
    int contribution = c->world->rank + 1, sum = 0, *device = NULL, rc;

    TRY(cuda(cudaMalloc((void **)&device, sizeof(int)), "cudaMalloc"));
    TRY(cuda(cudaMemcpy(device, &contribution, sizeof(int), cudaMemcpyHostToDevice), "cudaMemcpy"));
    TRY(BB_NCCL(ncclAllReduce(device, device, 1, ncclInt32, ncclSum, c->nccl, NULL)));
    TRY(bb_comm_poll(c, "all_reduce"));
    TRY(cuda(cudaMemcpy(&sum, device, sizeof(int), cudaMemcpyDeviceToHost), "cudaMemcpy"));
    TRY(bb_comm_check(c));
    if (sum != expected)
        rc = bb_err(BB_EDATA, "communicator %s: sum %d, expected %d", c->name, sum, expected);
out:
    cudaFree(device);
    return rc;
}

static int check_world(struct bb_world *w, const struct bb_comm_opts *opts)
{
    const int members[] = {3, 1, 0, 2}; /* the order of members differs from the order of ranks */
    struct bb_comm c;
    int rc;

    TRY(bb_comm_init(&c, w, "everyone", members, 4, opts));
    if (c.size != 4 || members[c.rank] != w->rank || c.blocking != opts->blocking || strcmp(c.name, "everyone") != 0)
        rc = bb_err(BB_EDATA, "rank %d of %d in %s", c.rank, c.size, c.name);
    TRY(rc);
    TRY(check_sum(&c, 1 + 2 + 3 + 4));
    TRY(bb_comm_finalize(&c));
    if (c.nccl || c.size)
        rc = bb_err(BB_EDATA, "not empty after finalize");
    bb_comm_abort(&c); /* has no effect on an empty communicator */
out:
    return rc;
}

/* Ranks 0 and 2 form a pair, rank 3 has a communicator of size 1, rank 1 has none. */
static int check_groups(struct bb_world *w)
{
    static const int members[4][2] = {{2, 0}, {0, 0}, {2, 0}, {3, 0}}, sizes[] = {2, 0, 2, 1}, sums[] = {4, 0, 4, 4};
    struct bb_comm c;
    int rc;

    TRY(bb_comm_init(&c, w, "pair", members[w->rank], sizes[w->rank], &nonblocking));
    if (c.size != sizes[w->rank] || !c.nccl != !c.size)
        rc = bb_err(BB_EDATA, "group of %d", c.size);
    TRY(rc);
    if (c.size > 0)
        TRY(check_sum(&c, sums[w->rank]));
    TRY(bb_comm_finalize(&c));
out:
    return rc;
}

static int check_split(struct bb_world *w)
{
    const int members[] = {0, 1, 2, 3};
    struct bb_comm all, half;
    int rc;

    TRY(bb_comm_init(&all, w, "everyone", members, 4, &nonblocking));
    TRY(bb_comm_split(&half, &all, "half", w->rank == 3 ? -1 : w->rank % 2, -w->rank, NULL));
    if (half.size != (int[]){2, 1, 2, 0}[w->rank] || half.rank != (int[]){1, 0, 0, 0}[w->rank])
        rc = bb_err(BB_EDATA, "half: rank %d of %d", half.rank, half.size);
    TRY(rc);
    if (half.size > 0)
        TRY(check_sum(&half, (int[]){4, 2, 4}[w->rank]));
    TRY(bb_comm_finalize(&half));
    TRY(bb_comm_finalize(&all));
out:
    return rc;
}

static int check_version(void)
{
    char text[BB_NCCL_VERSION_TEXT];
    int header, runtime, rc;

    TRY(bb_nccl_version(&header, &runtime));
    if (header < 21900 || runtime < 21900 || strcmp(bb_nccl_version_text(22809, text), "2.28.9") != 0)
        rc = bb_err(BB_EDATA, "versions %d %d %s", header, runtime, text);
    if (!bb_nccl_symbol("ncclAllReduce") || bb_nccl_symbol("ncclNoSuchThing"))
        rc = bb_err(BB_EDATA, "symbols");
out:
    return rc;
}

static int check_all(struct bb_world *w)
{
    int rc;

    TRY(check_version());
    TRY(check_world(w, &nonblocking));
    TRY(check_world(w, &blocking));
    TRY(check_groups(w));
    TRY(check_split(w));
out:
    return rc;
}

/* Rank 1 passes other members than the other ranks. The call fails on all ranks, and the world remains usable. */
static int check_mismatch(struct bb_world *w)
{
    const int members[] = {0, 1, 2, 3}, wrong[] = {0, 1, 2};
    struct bb_comm c;
    int rc = bb_comm_init(&c, w, "odd", w->rank == 1 ? wrong : members, w->rank == 1 ? 3 : 4, &nonblocking);

    if (rc != -BB_EFAIL || c.nccl)
        return bb_err(BB_EDATA, "a mismatch was accepted");
    return check_world(w, &nonblocking);
}

static int run(struct bb_world *w, const char *mode)
{
    int rc;

    if (strcmp(mode, "share") == 0)
        TRY(bb_comms_share_gpu_env(w->rank, false));
    TRY(cuda(cudaSetDevice(strcmp(mode, "share") == 0 ? 0 : w->local_rank), "cudaSetDevice"));
    bb_world_reached(w, "probe of communicators");
    usleep(250000); /* until the supervisor has sent this step to the server */
    if (strcmp(mode, "mismatch") == 0)
        return check_mismatch(w);
    if (strcmp(mode, "blocking") == 0)
        return check_world(w, &blocking);
    if (strcmp(mode, "all") == 0)
        return check_all(w);
    return check_world(w, &nonblocking);
out:
    return rc;
}

static int run_rank(int argc, char **argv)
{
    struct bb_world w;
    int rc = bb_world_init(&w, argc > 3 ? atof(argv[3]) : 60);

    rc = rc ? rc : run(&w, argc > 1 ? argv[1] : "all");
    return bb_exit_code(bb_world_release(&w, rc));
}

int main(int argc, char **argv)
{
    return probe_main(argc, argv, 1, run_rank);
}
