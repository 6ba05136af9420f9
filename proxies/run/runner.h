/*
 * runner.h - runs a step program on this rank's GPU: real streams, events, buffers and communicators.
 *
 * Everything of a step is issued by one host thread in the program's order, which is the same relative order on every
 * rank; the host waits only at the end of the step. Each step begins together: after a barrier, an all-reduce of one
 * element over all ranks (traced steps: two), whose end is the step's time zero on each GPU. It is no part of the time
 * of a step.
 *
 * A batch is what is launched at once: a single operation, or the operations of one NCCL group. A lane is a batch's
 * share of one stream; traced steps put an event in front of and behind every lane, timed steps don't.
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
    int first, n;          /* operations ops[first .. first + n)                                        */
    int lane, lanes;       /* lanes[lane .. lane + lanes)                                               */
    int section;           /* the phase and micro-batch that it belongs to                              */
    struct bb_range range; /* of the whole batch, where n > 1                                       */
};

struct bb_lane {
    int batch, stream;
    int comm;               /* BB_NONE for compute                                               */
    cudaEvent_t begin, end; /* only after bb_runner_trace                                        */
};

struct bb_runner {
    struct bb_world *world;
    const struct bb_layout *layout;
    const struct bb_program *program;
    struct bb_comm comms[BB_MAX_COMMS]; /* empty where this rank is in no group of that name             */
    char guards[BB_MAX_COMMS][96];      /* what the host is in while it issues to one, for messages      */
    char requirements[80];                     /* what a step needs to end, behind its name in messages         */
    struct bb_comm all_ranks;            /* for the common start; empty with one rank                     */
    const struct bb_allocator *memory;  /* where those come from                                      */
    struct bb_device_buffers *areas;
    const struct bb_kernel_list **kernel_lists; /* the distinct ones of the program                                   */
    int n_kernel_lists;
    struct bb_kernel_runner worker; /* runs them; empty without any                                       */
    float *start_element;                    /* device: the element of the common start                       */
    cudaStream_t *streams, join;    /* [program.n_streams]; join begins and ends the step            */
    cudaEvent_t *done;              /* [program.n_ops] NULL where no other stream waits for it       */
    cudaEvent_t *last;              /* [program.n_streams] the stream's end of the step              */
    cudaEvent_t fork;               /* to all streams, in a capture                                     */
    cudaEvent_t ready, begin, end;  /* ready: in front of the common start, in traced steps               */
    cudaEvent_t first;              /* sent at once when the host knows of begin                          */
    struct bb_start_barrier
        start_barrier;     /* only after bb_runner_init_start_barrier                                        */
    cudaGraphExec_t graph; /* the whole step; only after bb_runner_capture                     */
    struct bb_batch *batches;
    struct bb_lane *lanes;
    int n_batches, n_lanes;
    struct bb_native native;
    struct bb_busy busy; /* timed compute; its scratch memory is owned */
    struct bb_nvtx nvtx;
    struct bb_range *op_ranges, *section_ranges; /* [n_ops], [sections]                                  */
    int n_sections;
};

/*
 * bb_runner_init - everything that a step needs; collective over the world. layout and program must outlive it. memory:
 * where the buffers come from (bb_nccl_memory). What does not fit is refused before anything is allocated (-BB_EUSAGE
 * on every rank). On failure r must be released.
 */
int bb_runner_init(struct bb_runner *r, struct bb_world *w, const struct bb_layout *layout,
                   const struct bb_program *program, const struct bb_allocator *memory) BB_MUST_CHECK;

/* bb_runner_release - rc < 0: communicators are aborted instead of finalised, CUDA's objects left to the process's end.
 * Fine on a half-made or zeroed one. Returns rc, or what failed while ending. */
int bb_runner_release(struct bb_runner *r, int rc);

/* bb_runner_set_busy - how many multiprocessors timed compute holds, and how much memory traffic (1e9 bytes per second) it
 * causes meanwhile. Without it: one, and none. The time of an operation stays exact. */
int bb_runner_set_busy(struct bb_runner *r, int sms, double gbps) BB_MUST_CHECK;

/* bb_runner_init_start_barrier - make the gate, for gated steps. It opens by itself after some seconds. */
int bb_runner_init_start_barrier(struct bb_runner *r) BB_MUST_CHECK;

/* bb_runner_trace - make the events of the lanes, for traced steps. */
int bb_runner_trace(struct bb_runner *r) BB_MUST_CHECK;

/* bb_runner_wait - wait for the end of what is on stream, under the deadline; `what` names it in messages. */
int bb_runner_wait(struct bb_runner *r, cudaStream_t stream, const char *what) BB_MUST_CHECK;
int bb_runner_wait_event(struct bb_runner *r, cudaEvent_t event, const char *what) BB_MUST_CHECK;

/* The other rank of an operation (root, peer) inside its communicator. */
int bb_runner_peer(const struct bb_runner *r, const struct bb_op *op);

/* Device addresses of an operation's operands; NULL where it has none. */
void *bb_runner_src(const struct bb_runner *r, const struct bb_op *op);
void *bb_runner_dst(const struct bb_runner *r, const struct bb_op *op);

#endif
