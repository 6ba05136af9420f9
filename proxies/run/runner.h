/*
 * runner.h - runs a step program on this rank's GPU with real streams, events, buffers and communicators.
 *
 * One host thread issues all operations of a step in program order, which is the same relative order on every rank. The
 * host waits only at the end of the step. All ranks start a step together with a common start: a host barrier, then an
 * all_reduce of one element over all ranks (two in traced steps). The end of the all_reduce is time zero of the step on
 * each GPU. The common start is not part of the step time.
 *
 * A launch batch (struct bb_batch) contains the operations that are launched together: a single operation, or the
 * operations of one NCCL group call. A lane is the part of a launch batch that runs on one stream. Traced steps record
 * an event before and after every lane; timed steps record none.
 */
#ifndef BB_PROXIES_RUN_RUNNER_H
#define BB_PROXIES_RUN_RUNNER_H

#include "bootstrap/world/comms.h"
#include "collectives/ops/launch.h"
#include "cuda/compute/busy.h"
#include "cuda/compute/kernel_runner.h"
#include "cuda/compute/start_barrier.h"
#include "cuda/device/nvtx.h"
#include "proxies/run/device_buffers.h"
#include "proxies/timeline/op_names.h"

#include <cuda_runtime_api.h>

struct bb_batch {
    int first, n;          /* the operations of the launch batch: program.ops[first .. first + n) */
    int lane, lanes;       /* the lanes of the launch batch: runner.lanes[lane .. lane + lanes) */
    int section;           /* index of the section, a sequence of launch batches of the same phase and micro-batch */
    struct bb_range range; /* NVTX range of the launch batch, if n > 1 */
};

struct bb_lane {
    int batch, stream;
    int comm;               /* communicator; BB_NONE: compute */
    cudaEvent_t begin, end; /* created by bb_runner_trace; NULL before */
};

struct bb_runner {
    struct bb_world *world;
    const struct bb_layout *layout;
    const struct bb_program *program;
    struct bb_comm comms[BB_MAX_COMMS]; /* [communicator of the layout] not initialized if this rank is not a member
                                           or no rank uses the communicator */
    char guards[BB_MAX_COMMS][96]; /* [communicator of the layout] description for the error message if an NCCL call
                                      on the communicator exceeds the timeout */
    char requirements[80];    /* environment variables that the step requires; appended to the step's name in timeout
                              messages */
    struct bb_comm all_ranks; /* communicator for the common start; not initialized with one rank */
    const struct bb_allocator *memory; /* allocator of the buffers */
    struct bb_device_buffers *areas;
    const struct bb_kernel_list **kernel_lists; /* the distinct kernel lists (GEMMs and memory-bound kernels of a
                                                   compute operation) of the program */
    int n_kernel_lists;
    struct bb_kernel_runner worker; /* runs the kernel lists; not initialized if there are none */
    float *start_element;           /* device memory: the element that the all_reduce of the common start reduces */
    cudaStream_t *streams, join;    /* streams: [program.n_streams]; join: stream on which the step begins and ends */
    cudaEvent_t *done; /* [program.n_ops] event recorded after each operation; NULL: no other stream waits for the
                          operation */
    cudaEvent_t *last; /* [program.n_streams] event recorded after the final operation of each stream in a step */
    cudaEvent_t fork;  /* event on `join` at the begin of a captured step or of a step with a start barrier; all other
                         streams wait for the event */
    cudaEvent_t ready, begin, end; /* events on `join`. ready: before the final all_reduce of the common start, only
                                      in traced steps; begin, end: begin and end of the step */
    cudaEvent_t first; /* event that the host records as soon as it has observed the event `begin`; the time between
                          both events is the host's reaction time */
    struct bb_start_barrier start_barrier; /* created by bb_runner_init_start_barrier */
    cudaGraphExec_t graph;                 /* the whole step as a CUDA graph; created by bb_runner_capture */
    struct bb_batch *batches;
    struct bb_lane *lanes;
    int n_batches, n_lanes;
    struct bb_native native;
    struct bb_busy busy; /* parameters of timed compute kernels; the runner owns the scratch memory that they read
                            and write */
    struct bb_nvtx nvtx;
    struct bb_range *op_ranges, *section_ranges; /* NVTX ranges: [n_ops] and [n_sections] */
    int n_sections;
};

/*
 * bb_runner_init - creates all objects that a step needs. All ranks call this together.
 *   layout, program  must outlive the runner
 *   memory           allocator of the buffers (bb_nccl_memory)
 *   Returns          0; -BB_EUSAGE on every rank, before any allocation, if a rank has too little GPU memory; or
 *                    another error code
 *   Owner            the caller releases r with bb_runner_release, also after an error
 */
int bb_runner_init(struct bb_runner *r, struct bb_world *w, const struct bb_layout *layout,
                   const struct bb_program *program, const struct bb_allocator *memory) BB_MUST_CHECK;

/* bb_runner_release - releases all objects; also accepts a zeroed or partly initialized r. rc: result of the run. If
 * rc < 0, communicators are aborted instead of finalized, and CUDA objects are not released before the process ends.
 * Returns rc, or the first error of the release. */
int bb_runner_release(struct bb_runner *r, int rc);

/* bb_runner_set_busy - sets the number of SMs that timed compute occupies, and its memory traffic in 1e9 bytes per
 * second. Default: one SM, no traffic. Neither value changes the duration of an operation. */
int bb_runner_set_busy(struct bb_runner *r, int sms, double gbps) BB_MUST_CHECK;

/* bb_runner_init_start_barrier - creates the start barrier for steps with BB_ISSUE_START_BARRIER. The barrier has a
 * time limit of two seconds, after which it opens automatically. */
int bb_runner_init_start_barrier(struct bb_runner *r) BB_MUST_CHECK;

/* bb_runner_trace - creates the events that traced steps record before and after each lane; existing events are
 * kept. */
int bb_runner_trace(struct bb_runner *r) BB_MUST_CHECK;

/* bb_runner_wait, bb_runner_wait_event - wait for a stream or an event, with the timeout of the run. what: name of
 * the operation in error messages. Return 0 or an error code. */
int bb_runner_wait(struct bb_runner *r, cudaStream_t stream, const char *what) BB_MUST_CHECK;
int bb_runner_wait_event(struct bb_runner *r, cudaEvent_t event, const char *what) BB_MUST_CHECK;

/* bb_runner_peer - returns the operation's root or peer, as a rank of its communicator. */
int bb_runner_peer(const struct bb_runner *r, const struct bb_op *op);

/* bb_runner_src, bb_runner_dst - return the device address of an operation's source or destination; NULL if the
 * operation has none. */
void *bb_runner_src(const struct bb_runner *r, const struct bb_op *op);
void *bb_runner_dst(const struct bb_runner *r, const struct bb_op *op);

#endif
