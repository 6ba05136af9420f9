/*
 * measure.h - time one case and verify what the timed operations delivered.
 */
#ifndef BB_COLLECTIVES_MEASURE_H
#define BB_COLLECTIVES_MEASURE_H

#include "bootstrap/comms.h"
#include "bootstrap/stats.h"
#include "collectives/case.h"
#include "collectives/launch.h"
#include "collectives/marks.h"
#include "collectives/observe.h"
#include "cuda/buffers.h"
#include "cuda/device.h"
#include "cuda/nvtx.h"

enum { BB_NVTX_WORLD = 1 }; /* category of a row's range: the communicator of all ranks */

struct bb_mode;

/* Numbered as nccl-tests' option -z. */
enum bb_blocking {
    BB_BLOCK_NONE,
    BB_BLOCK_BARRIER, /* wait for each iteration, then for the other ranks               */
    BB_BLOCK_WAIT,    /* wait for each iteration                                         */
    BB_BLOCK_APART,   /* wait and barrier, the barrier not in the time                   */
    BB_BLOCK_COUNT
};

/* Numbered as nccl-tests' option -a. */
enum bb_across { BB_ACROSS_FIRST, BB_ACROSS_MEAN, BB_ACROSS_MIN, BB_ACROSS_MAX, BB_ACROSS_COUNT };
extern const char *const bb_across_names[BB_ACROSS_COUNT];

/* What a rank measures with. Made by bb_bench_main. */
struct bb_rig {
    struct bb_world *world;
    struct bb_comm *comm;
    const struct bb_native *native;
    const struct bb_device_info *device;
    const struct bb_mode *mode;
    struct bb_nvtx nvtx;
    cudaStream_t stream;
    cudaEvent_t start, stop;
    struct bb_buffer arena;      /* slots, case.h                                   */
    struct bb_verdict *verdicts; /* [2] device memory: data, guard zones            */
    int iterations, repeats, warmup, checks;
    int aggregate;             /* operations of an iteration, in one group; 0 as 1                     */
    enum bb_blocking blocking; /* what the host does between iterations                                */
    int graph_launches;        /* of a sample in mode graph                                            */
    bool host_time;            /* samples are the host's time to enqueue, not the time to completion   */
    enum bb_across across;     /* how a sample of all ranks comes from those of each                   */
    const int *groups;         /* [size] group of each world rank; NULL: all are in one. comm is that of this rank's */
    const struct bb_mulsums *mulsums;
    struct bb_marks *marks; /* of the iterations of each row's last sample, NULL: none                     */
    const struct bb_observer *observer; /* of NCCL's choices and the GPU's state, NULL: none                        */
    uint64_t passes;                    /* verified passes so far: each has its own data   */
    double *samples;                    /* [repeats] this rank's, microseconds             */
    double *all_samples;                /* [size * repeats] everybody's                    */
};

/* How operations are timed; figures of different modes are never mixed. samples: microseconds per operation. */
struct bb_mode {
    const char *name, *help;
    int (*time)(struct bb_rig *rig, const struct bb_case *c, double *samples);
};
extern const struct bb_mode bb_mode_stream, bb_mode_blocked, bb_mode_graph;

/* The first wrong element of a row, for the message. */
struct bb_wrong {
    int rank;
    uint64_t index, got, want; /* got, want: bits of the element's type               */
    bool outside;              /* a byte outside of the receive area was overwritten  */
};

struct bb_figures {
    struct bb_stats time_us; /* per operation; each sample is that of the group (bb_across)   */
    size_t bytes;            /* payload                                                       */
    double algbw_gbps;       /* what counts of bytes / median time, 1e9 bytes per second; NaN when time is 0 */
    double busbw_gbps;       /* NaN with one rank                                             */
    double factor;           /* busbw / algbw                                                 */
    struct bb_mark_figures iterations; /* with marks                                              */
    struct bb_observed seen;
    bool checked;             /* false: nothing was compared                                   */
    unsigned long long wrong; /* elements over all ranks and passes                            */
    struct bb_wrong first;    /* valid when wrong > 0                                          */
};

/* bb_measure - all ranks together; the figures are equal on all ranks. */
int bb_measure(struct bb_rig *rig, const struct bb_case *c, struct bb_figures *f) BB_MUST_CHECK;

/* bb_rig_mode - what the figures are called: the mode's name, or host. */
const char *bb_rig_mode(const struct bb_rig *rig);

/* bb_rig_method - how they are measured, as a phrase: "operations back to back on one stream ...". */
const char *bb_rig_method(const struct bb_rig *rig);

/* bb_rig_aggregate - operations of one iteration, at least 1. */
size_t bb_rig_aggregate(const struct bb_rig *rig);

#endif
