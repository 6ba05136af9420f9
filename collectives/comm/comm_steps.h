/*
 * comm_steps.h - what the life of a communicator costs, step by step, by the host's clock. One life: made, used for the
 * first time, registered with, split, shrunk, ended. Each step begins together on all ranks of the communicator and
 * ends on a rank when the call has done its work (polled when it does not block; operations when the GPU is done).
 */
#ifndef BB_COLLECTIVES_COMM_COMM_STEPS_H
#define BB_COLLECTIVES_COMM_COMM_STEPS_H

#include "bootstrap/world/comms.h"
#include "collectives/session/profiler.h"

#include <cuda_runtime_api.h>

struct bb_comm_life;

/* A step: run on every rank of the communicator, and timed. It returns 0, an error, or above 0 why nothing was done. */
struct bb_comm_step {
    const char *name, *help;
    int (*run)(struct bb_comm_life *life, struct bb_comm *comm);
    size_t comm;          /* which one: where it lies in the life                    */
    const char *function; /* of NCCL, that it may lack; NULL: all have what it takes */
    int (*after)(struct bb_comm_life *life, struct bb_comm *comm); /* not timed; NULL: nothing */
};

enum { BB_COMM_STEPS = 20 };
extern const struct bb_comm_step bb_comm_steps[BB_COMM_STEPS];

/* Why there is no figure; 0: there is one. */
enum bb_comm_absent { BB_COMM_PRESENT, BB_COMM_LACKS, BB_COMM_NO_WINDOW, BB_COMM_ALONE, BB_COMM_ABSENCES };
extern const char *const bb_comm_absences[BB_COMM_ABSENCES];

/* What a rank lives through. */
struct bb_comm_life {
    struct bb_world *world;
    struct bb_comm_opts opts;
    int ranks;    /* the first of the world are in the communicator */
    int parts;    /* of the split                                   */
    size_t bytes; /* of operations and registrations               */
    cudaStream_t stream;
    struct bb_comm comm, part, rest; /* rest: without its last rank */
    void *memory;                    /* of ncclMemAlloc              */
    void *handle, *window;
    const struct bb_comm_step *current_step;
    void *call;                             /* the function of the step                        */
    bool capture_choices;                           /* to what NCCL chooses: not in a life that counts */
    struct bb_choice choice[BB_COMM_STEPS]; /* of this rank, from the last life that listened  */
    double us[BB_COMM_STEPS];               /* of this rank; NaN: no figure */
    int absent[BB_COMM_STEPS];              /* enum bb_comm_absent          */
};

/*
 * bb_comm_run_life - one life, collective over the world; ranks beyond life->ranks only keep step. us and absent are of
 * this rank afterwards. On an error what is half made is left to the abort.
 */
int bb_comm_run_life(struct bb_comm_life *life) BB_MUST_CHECK;

#endif
