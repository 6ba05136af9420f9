/*
 * runner.h - runs a step program on this rank's GPU with real streams, events, buffers and communicators.
 *
 * One host thread issues all operations of a step in the program's order, which is the same relative order on every
 * rank. The host waits only at the end of the step. All ranks start a step together: after a host barrier, an
 * all_reduce of one element over all ranks (two in traced steps), whose end is time zero of the step on each GPU. This
 * start is not part of the step time.
 *
 * A batch is everything that is launched at once: a single operation, or the operations of one NCCL group call. A lane
 * is the part of a batch on one stream. Traced steps record an event before and after every lane; timed steps record
 * none.
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
    int first, n;          /* operations ops[first .. first + n) */
    int lane, lanes;       /* lanes[lane .. lane + lanes) */
    int section;           /* index of its phase and micro-batch */
    struct bb_range range; /* NVTX range of the whole batch, if n > 1 */
};

struct bb_lane {
    int batch, stream;
    int comm;               /* BB_NONE: compute */
    cudaEvent_t begin, end; /* only after bb_runner_trace */
};

struct bb_runner {
    struct bb_world *world;
    const struct bb_layout *layout;
    const struct bb_program *program;
    struct bb_comm comms[BB_MAX_COMMS]; /* empty where this rank is not a member */
    char guards[BB_MAX_COMMS][96];      /* description of a call on the communicator, for timeout messages */
    char requirements[80];              /* requirements of the step, appended to its name in timeout messages */
    struct bb_comm all_ranks;           /* for the common start; empty with one rank */
    const struct bb_allocator *memory;  /* allocator of the buffers */
    struct bb_device_buffers *areas;
    const struct bb_kernel_list **kernel_lists; /* distinct kernel lists of the program */
    int n_kernel_lists;
    struct bb_kernel_runner worker; /* runs the kernel lists; empty without any */
    float *start_element;           /* device: the element of the common start */
    cudaStream_t *streams, join;    /* [program.n_streams]; join: stream that begins and ends the step */
    cudaEvent_t *done;              /* [program.n_ops] NULL: no other stream waits for the operation */
    cudaEvent_t *last;              /* [program.n_streams] end of the step on each stream */
    cudaEvent_t fork;               /* makes all streams wait for join */
    cudaEvent_t ready, begin, end;  /* ready: before the common start, in traced steps; begin, end: of the step */
    cudaEvent_t first;              /* recorded as soon as the host has seen `begin` */
    struct bb_start_barrier start_barrier; /* only after bb_runner_init_start_barrier */
    cudaGraphExec_t graph;                 /* the whole step; only after bb_runner_capture */
    struct bb_batch *batches;
    struct bb_lane *lanes;
    int n_batches, n_lanes;
    struct bb_native native;
    struct bb_busy busy; /* timed compute; the runner owns its scratch memory */
    struct bb_nvtx nvtx;
    struct bb_range *op_ranges, *section_ranges; /* [n_ops], [sections] */
    int n_sections;
};

/*
 * bb_runner_init - creates everything that a step needs; collective over the world.
 *   layout, program  must outlive the runner
 *   memory           allocator of the buffers (bb_nccl_memory)
 *   Returns          0; -BB_EUSAGE on every rank, before any allocation, if the memory of a rank does not suffice; or
 *                    another error
 *   Owner            the caller releases r with bb_runner_release, also after an error
 */
int bb_runner_init(struct bb_runner *r, struct bb_world *w, const struct bb_layout *layout,
                   const struct bb_program *program, const struct bb_allocator *memory) BB_MUST_CHECK;

/* bb_runner_release - with rc < 0, communicators are aborted instead of finalised, and CUDA objects are left to the
 * end of the process. Accepts a zeroed or partly initialised r. Returns rc, or the first error of the release. */
int bb_runner_release(struct bb_runner *r, int rc);

/* bb_runner_set_busy - the number of SMs that timed compute occupies, and its memory traffic (1e9 bytes per second).
 * Default: one SM, no traffic. The duration of an operation stays exact. */
int bb_runner_set_busy(struct bb_runner *r, int sms, double gbps) BB_MUST_CHECK;

/* bb_runner_init_start_barrier - creates the start barrier for steps with BB_ISSUE_START_BARRIER. The barrier opens
 * by itself after two seconds. */
int bb_runner_init_start_barrier(struct bb_runner *r) BB_MUST_CHECK;

/* bb_runner_trace - creates the events of the lanes, for traced steps. */
int bb_runner_trace(struct bb_runner *r) BB_MUST_CHECK;

/* bb_runner_wait, bb_runner_wait_event - wait for a stream or event, with the run's timeout; `what` names the
 * operation in messages. */
int bb_runner_wait(struct bb_runner *r, cudaStream_t stream, const char *what) BB_MUST_CHECK;
int bb_runner_wait_event(struct bb_runner *r, cudaEvent_t event, const char *what) BB_MUST_CHECK;

/* bb_runner_peer - the operation's root or peer, as a rank of its communicator. */
int bb_runner_peer(const struct bb_runner *r, const struct bb_op *op);

/* Device addresses of an operation's source and destination; NULL: it has none. */
void *bb_runner_src(const struct bb_runner *r, const struct bb_op *op);
void *bb_runner_dst(const struct bb_runner *r, const struct bb_op *op);

#endif
