/*
 * comm_steps.h - measures the life cycle of a communicator step by step, in host time: init, first use, registration,
 * split, shrink, destroy. A barrier precedes each step. On a rank, a step ends when the call has finished its work:
 * nonblocking calls are polled until they are complete, and operations end when the GPU has completed them.
 */
#ifndef BB_COLLECTIVES_COMM_COMM_STEPS_H
#define BB_COLLECTIVES_COMM_COMM_STEPS_H

#include "bootstrap/world/comms.h"
#include "collectives/session/profiler.h"
#include "cuda/device/nvtx.h"

#include <cuda_runtime_api.h>

struct bb_comm_life;

/* One timed step of the life cycle, such as init or destroy. Every rank of the communicator calls `run`, which
 * returns 0, a negative error code, or, if the step cannot run, a positive enum bb_comm_absent. */
struct bb_comm_step {
    const char *name, *help;
    int (*run)(struct bb_comm_life *life, struct bb_comm *comm);
    size_t comm;          /* offset in struct bb_comm_life of the communicator that is passed to `run` */
    const char *function; /* name of the NCCL function of the step, if some supported NCCL versions lack it;
                             otherwise NULL */
    int (*after)(struct bb_comm_life *life, struct bb_comm *comm); /* called after the step, untimed; NULL: none */
    bool minor;                                                    /* its row is printed only with --full */
};

enum { BB_COMM_STEPS = 20 };
extern const struct bb_comm_step bb_comm_steps[BB_COMM_STEPS];

/*
 * Reason why a step has no time.
 * BB_COMM_PRESENT (0): the step has a time. BB_COMM_LACKS: the NCCL library lacks the function of the step.
 * BB_COMM_NO_WINDOW: symmetric windows are not supported. BB_COMM_ALONE: the step needs at least 2 ranks.
 */
enum bb_comm_absent { BB_COMM_PRESENT, BB_COMM_LACKS, BB_COMM_NO_WINDOW, BB_COMM_ALONE, BB_COMM_ABSENCES };
extern const char *const bb_comm_absences[BB_COMM_ABSENCES];

/* State of one rank during a life cycle (init to destroy) of the communicators. */
struct bb_comm_life {
    struct bb_world *world;
    struct bb_comm_opts opts;
    int ranks;    /* size of the communicator; its members are the first ranks of the world */
    int parts;    /* number of communicators that ncclCommSplit creates from the timed one */
    size_t bytes; /* message size of each operation; `memory` has twice this size */
    cudaStream_t stream;
    struct bb_nvtx nvtx;
    /* comm: the timed communicator; part: the communicator of this rank that ncclCommSplit created from comm; rest:
     * the communicator that ncclCommShrink created from comm, without the last rank */
    struct bb_comm comm, part, rest;
    void *memory; /* 2 * bytes from ncclMemAlloc */
    void *handle, *window;
    const struct bb_comm_step *current_step;
    void *call; /* address of the NCCL function named by current_step->function; NULL: this NCCL lacks the function,
                   or the step names none */
    bool capture_choices; /* record the algorithm, protocol and channels that NCCL chooses (profiler plugin); true
                             only in warm-up life cycles */
    struct bb_choice choice[BB_COMM_STEPS]; /* [step] algorithm, protocol and channels that NCCL chose on this rank,
                                               from the last life cycle with capture_choices */
    double us[BB_COMM_STEPS];               /* [step] host time in us on this rank; NaN: the step has no time */
    int absent[BB_COMM_STEPS]; /* [step] reason why the step has no time (enum bb_comm_absent); 0: the step has a
                                  time */
};

/*
 * bb_comm_run_life - run one life cycle of a communicator (init to destroy). Collective over all ranks of the job;
 * ranks outside the communicator only take part in barriers and in the exchange of NCCL ids.
 *   life     in: world, opts, ranks, parts, bytes, stream, capture_choices; out: us, absent and choice of this rank
 *   Returns  0, or a negative error code after printing an error; the abort of the run then releases all NCCL objects
 */
int bb_comm_run_life(struct bb_comm_life *life) BB_MUST_CHECK;

#endif
