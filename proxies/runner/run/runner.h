/*
 * runner.h - runs a step program on this rank's GPU with real streams, events, buffers and communicators.
 *
 * One host thread issues all operations of a step in program order, which is the same relative order on every rank. The
 * host waits only at the end of the step. All ranks start a step together with a common start: a host barrier, then an
 * all_reduce of one element over all ranks (two in traced steps). The end of the all_reduce is time zero of the step on
 * each GPU. The common start is not part of the step time.
 *
 * A launch batch (struct bb_batch) contains the operations that one host call launches together: a single operation, or
 * the operations of one NCCL group call. A lane (struct bb_lane) is the operations of a launch batch on one stream.
 * Traced steps record a CUDA event before and after every lane; timed steps record none.
 */
#ifndef BB_PROXIES_RUNNER_RUN_RUNNER_H
#define BB_PROXIES_RUNNER_RUN_RUNNER_H

#include "bootstrap/world/comms.h"
#include "collectives/ops/launch.h"
#include "cuda/compute/busy.h"
#include "cuda/compute/kernel_runner.h"
#include "cuda/compute/start_barrier.h"
#include "cuda/device/nvtx.h"
#include "proxies/runner/run/device_buffers.h"
#include "proxies/simulation/machine/slow.h"
#include "proxies/simulation/timeline/op_names.h"

#include <cuda_runtime_api.h>

struct bb_batch {
    int first, n;          /* the operations launched together: program.ops[first .. first + n) */
    int lane, lanes;       /* its lanes (the operations on each stream): runner.lanes[lane .. lane + lanes) */
    int section;           /* index of the section of the program: consecutive launches of the same training phase and
                              micro-batch */
    char what[64];         /* name of the operation or group call, for the message if the call hangs */
    struct bb_range range; /* NVTX range of the group call, if n > 1 */
};

struct bb_lane {
    int batch, stream;
    int comm;               /* communicator (index in layout.comms); BB_NONE: compute */
    cudaEvent_t begin, end; /* events recorded before and after the operations in traced steps; created by
                               bb_runner_trace, NULL before */
};

struct bb_runner {
    struct bb_world *world;
    const struct bb_layout *layout;
    const struct bb_program *program;
    struct bb_comm comms[BB_MAX_COMMS]; /* [layout.n_comms] not initialized if this rank is not a member or if no
                                           rank uses the communicator */
    char requirements[112];   /* text: environment variables that the step requires; appended to the step's name in
                                      timeout messages */
    struct bb_comm all_ranks; /* communicator of all ranks for the all_reduce that synchronizes them before a step;
                                      not initialized if there is only one rank */
    const struct bb_allocator *memory; /* allocator of the device buffers */
    struct bb_device_buffers areas;
    const struct bb_kernel_list **kernel_lists; /* distinct kernel lists of the program; a kernel list is the GEMMs
                                                   and memory-bound kernels of a compute operation */
    int n_kernel_lists;
    struct bb_kernel_runner worker; /* executes the kernel lists; not initialized if the program has none */
    float *start_element; /* device memory: the element of the all_reduce that synchronizes all ranks before a step */
    cudaStream_t *streams, join; /* streams: [program.n_streams]; join: stream on which the step begins and ends */
    cudaEvent_t *done; /* [program.n_ops] event recorded after each operation; NULL: no other stream waits for the
                          operation */
    cudaEvent_t *last; /* [program.n_streams] event recorded after the final operation of each stream in a step */
    cudaEvent_t fork;  /* event on `join` at the begin of a captured step or of a step with a start barrier; all
                          streams of the program wait for it */
    /* events on `join`. ready: before the second of the two all_reduces that synchronize all ranks before a traced
     * step; begin: after the last of these all_reduces, time zero of the step; end: end of the step */
    cudaEvent_t ready, begin, end;
    cudaEvent_t first; /* event that the host records as soon as it has observed the event `begin`; the time between
                          `begin` and `first` is the host's reaction time */
    struct bb_start_barrier start_barrier; /* created by bb_step_measure */
    cudaGraphExec_t graph;                 /* the whole step as a CUDA graph; created by bb_runner_capture */
    struct bb_batch *batches;
    struct bb_lane *lanes;
    int n_batches, n_lanes;
    struct bb_native native;
    struct bb_busy busy; /* parameters of timed kernels (kernels that run for a given time); the runner owns the
                            scratch memory that they read and write */
    /* injected slowness (bb_runner_set_slow). slowdown: factor on the duration of this rank's kernels; list_ns:
     * [n_kernel_lists] duration of each kernel list, NULL unless slowdown > 1; delay_ns: time by which all streams
     * start late in each step */
    double slowdown;
    int64_t *list_ns, delay_ns;
    struct bb_nvtx nvtx;
    struct bb_range *op_ranges, *section_ranges; /* NVTX ranges: [n_ops] of the operations, [n_sections] of the
                                                    sections (same training phase and micro-batch) */
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

/* bb_runner_set_busy - sets the number of SMs that each timed kernel (a kernel that runs for a given time)
 * occupies, and its memory traffic in 1e9 bytes per second. Default: one SM, no traffic. Neither value changes the
 * duration of the kernel. */
int bb_runner_set_busy(struct bb_runner *r, int sms, double gbps) BB_MUST_CHECK;

/*
 * bb_runner_set_slow - makes this rank slow in all later steps, as listed in `slow` (--slow rank=, --delay). A timed
 * kernel runs for the factor times its duration. After a kernel list, a timed kernel without memory traffic runs for
 * (factor - 1) times the duration of the list alone, which this function measures. A delayed rank starts each step with
 * a kernel that all its streams wait for. Call after bb_runner_set_busy.
 */
int bb_runner_set_slow(struct bb_runner *r, const struct bb_slow *slow) BB_MUST_CHECK;

/* bb_runner_trace - creates the CUDA events of traced steps, before and after the operations of each host call on
 * each stream. Events that exist already are kept. */
int bb_runner_trace(struct bb_runner *r) BB_MUST_CHECK;

/* bb_runner_wait, bb_runner_wait_event - wait until a stream or an event has completed, at most for the timeout of
 * the run. what: name of the operation in error messages. Return 0 or an error code. */
int bb_runner_wait(struct bb_runner *r, cudaStream_t stream, const char *what) BB_MUST_CHECK;
int bb_runner_wait_event(struct bb_runner *r, cudaEvent_t event, const char *what) BB_MUST_CHECK;

/* bb_runner_peer - returns the operation's root or peer, as a rank of its communicator. */
int bb_runner_peer(const struct bb_runner *r, const struct bb_op *op);

/* bb_runner_src, bb_runner_dst - return the device address of an operation's source or destination; NULL if the
 * operation has none. */
void *bb_runner_src(const struct bb_runner *r, const struct bb_op *op);
void *bb_runner_dst(const struct bb_runner *r, const struct bb_op *op);

#endif
