/*
 * measure.h - time one case and verify what the timed operations delivered.
 */
#ifndef BB_COLLECTIVES_MEASURE_H
#define BB_COLLECTIVES_MEASURE_H

#include "bootstrap/comms.h"
#include "bootstrap/stats.h"
#include "collectives/case.h"
#include "collectives/launch.h"
#include "cuda/buffers.h"
#include "cuda/device.h"
#include "cuda/nvtx.h"

enum { BB_NVTX_WORLD = 1 }; /* category of a row's range: the communicator of all ranks */

struct bb_mode;

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
    uint64_t passes;     /* verified passes so far: each has its own data   */
    double *samples;     /* [repeats] this rank's, microseconds             */
    double *all_samples; /* [size * repeats] everybody's                    */
};

/* How operations are timed; figures of different modes are never mixed. samples: microseconds per operation. */
struct bb_mode {
    const char *name, *help;
    int (*time)(struct bb_rig *rig, const struct bb_case *c, double *samples);
};
extern const struct bb_mode bb_mode_stream;

/* The first wrong element of a row, for the message. */
struct bb_wrong {
    int rank;
    uint64_t index, got, want; /* got, want: bits of the element's type               */
    bool outside;              /* a byte outside of the receive area was overwritten  */
};

struct bb_figures {
    struct bb_stats time_us;  /* per operation; each sample is the slowest rank's              */
    size_t bytes;             /* payload                                                       */
    double algbw_gbps;        /* bytes / median time, 1e9 bytes per second; NaN when time is 0 */
    double busbw_gbps;        /* NaN with one rank                                             */
    double factor;            /* busbw / algbw                                                 */
    bool checked;             /* false: nothing was compared                                   */
    unsigned long long wrong; /* elements over all ranks and passes                            */
    struct bb_wrong first;    /* valid when wrong > 0                                          */
};

/* bb_measure - all ranks together; the figures are equal on all ranks. */
int bb_measure(struct bb_rig *rig, const struct bb_case *c, struct bb_figures *f) BB_MUST_CHECK;

/* bb_case_launch - one operation of the case in slot number `slot` of the arena. */
int bb_case_launch(struct bb_rig *rig, const struct bb_case *c, size_t slot) BB_MUST_CHECK;

/* bb_case_slots - slots of this case in the arena, at least 2. */
size_t bb_case_slots(const struct bb_rig *rig, const struct bb_case *c);

/* bb_rig_wait - until the stream is empty, under the deadline and with an eye on the communicator. */
int bb_rig_wait(struct bb_rig *rig, const char *what) BB_MUST_CHECK;

#endif
