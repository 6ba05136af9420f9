/*
 * comm_steps.h - the steps in the life cycle of a communicator and their cost in host time: init, first use,
 * registration, split, shrink, destroy. A barrier precedes each step. A step ends on a rank when the call has finished
 * its work: nonblocking calls are polled, and operations end when the GPU has completed them.
 */
#ifndef BB_COLLECTIVES_COMM_COMM_STEPS_H
#define BB_COLLECTIVES_COMM_COMM_STEPS_H

#include "bootstrap/world/comms.h"
#include "collectives/session/profiler.h"

#include <cuda_runtime_api.h>

struct bb_comm_life;

/* A timed step, run on every rank of the communicator. Its function returns 0, a negative error, or a positive enum
 * bb_comm_absent. */
struct bb_comm_step {
    const char *name, *help;
    int (*run)(struct bb_comm_life *life, struct bb_comm *comm);
    size_t comm;          /* offset of the step's communicator in struct bb_comm_life */
    const char *function; /* NCCL function that older versions lack; NULL: all supported versions have it */
    int (*after)(struct bb_comm_life *life, struct bb_comm *comm); /* untimed work after the step; NULL: none */
};

enum { BB_COMM_STEPS = 20 };
extern const struct bb_comm_step bb_comm_steps[BB_COMM_STEPS];

/* Reason why a step has no time; 0: it has one. */
enum bb_comm_absent { BB_COMM_PRESENT, BB_COMM_LACKS, BB_COMM_NO_WINDOW, BB_COMM_ALONE, BB_COMM_ABSENCES };
extern const char *const bb_comm_absences[BB_COMM_ABSENCES];

/* State of one rank during a life cycle. */
struct bb_comm_life {
    struct bb_world *world;
    struct bb_comm_opts opts;
    int ranks;    /* the first `ranks` ranks of the world are members */
    int parts;    /* number of communicators made by the split */
    size_t bytes; /* bytes of each operation; `memory` has twice as many */
    cudaStream_t stream;
    struct bb_comm comm, part, rest; /* part: from split; rest: from shrink, without the last rank */
    void *memory;                    /* from ncclMemAlloc */
    void *handle, *window;
    const struct bb_comm_step *current_step;
    void *call;           /* address of the step's NCCL function */
    bool capture_choices; /* record NCCL's choices through the profiler plugin: only in warm-up life cycles */
    struct bb_choice choice[BB_COMM_STEPS]; /* NCCL's choices on this rank, from the last recording life cycle */
    double us[BB_COMM_STEPS];               /* times of this rank; NaN: none */
    int absent[BB_COMM_STEPS];              /* enum bb_comm_absent of each step */
};

/*
 * bb_comm_run_life - run one life cycle. Collective over the world; ranks from life->ranks on only take part in
 * barriers.
 *   life     out: us and absent of this rank
 *   Returns  0, or a negative error after printing one line; the abort then releases what exists
 */
int bb_comm_run_life(struct bb_comm_life *life) BB_MUST_CHECK;

#endif
