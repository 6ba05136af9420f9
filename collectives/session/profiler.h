/*
 * profiler.h - records NCCL's choice for an operation: algorithm, protocol and number of channels.
 *
 * NCCL reports its choice only to profiler plugins. The program itself is such a plugin: it exports ncclProfiler_v7,
 * _v6, _v5 and _v4. With NCCL_PROFILER_PLUGIN=STATIC_PLUGIN, NCCL 2.27 and newer looks up these symbols in the program.
 * Events are enabled only between bb_profiler_begin and bb_profiler_end, and only untimed operations run in between.
 * During timed operations the event mask is 0, so the only cost is NCCL's test of the mask.
 *
 *   bb_profiler_enable();                        before the first NCCL call
 *   ... create communicators ...
 *   bb_profiler_begin();
 *   run one operation and wait for its completion
 *   bb_profiler_end(&choice);
 */
#ifndef BB_COLLECTIVES_SESSION_PROFILER_H
#define BB_COLLECTIVES_SESSION_PROFILER_H

#include "bootstrap/base/err.h"

#include <stdbool.h>

enum bb_choice_kind {
    BB_CHOICE_NONE, /* NCCL reported no kernel: single rank, symmetric kernels, copy engines, or NCCL before 2.27 */
    BB_CHOICE_COLLECTIVE, /* one collective kernel: algorithm and protocol are known */
    BB_CHOICE_P2P,        /* sends and receives: only the channels are known; there is no algorithm or protocol */
};

/* NCCL's choice for one operation. Plain data without pointers, so that ranks can exchange the struct. */
struct bb_choice {
    enum bb_choice_kind kind;
    char algorithm[24]; /* NCCL's name: "RING", "TREE", "NVLS", ...; "" for sends and receives */
    char protocol[16];  /* NCCL's names: "LL", "LL128", "SIMPLE"; "" for sends and receives */
    int channels;   /* number of channels of the last collective; for sends and receives the largest number that a send
                     or receive used */
    int warps;      /* warps per channel; 0 for sends and receives */
    bool copies;    /* with BB_CHOICE_NONE: NCCL reported a collective by copy engines (NCCL 2.30) */
    bool symmetric; /* with BB_CHOICE_NONE: NCCL reported a kernel on symmetric windows (NCCL 2.32), `algorithm` is its
                       name */
};

/*
 * bb_profiler_enable - set NCCL_PROFILER_PLUGIN=STATIC_PLUGIN, unless the variable names another plugin. Call before the
 * first NCCL call and while the process has one thread.
 *   Returns  NULL, or a warning: the profiler cannot be used, or it displaces libnccl-profiler.so, which NCCL would load
 *            if the variable were not set
 */
const char *bb_profiler_enable(void);

/* bb_profiler_attached - return the number of communicators that report events to the plugin. */
int bb_profiler_attached(void);

/*
 * bb_profiler_begin - start recording events. Calls must not be nested.
 * bb_profiler_end   - stop recording.
 *                       choice  out: NCCL's choice for the last collective, otherwise for the send or receive with the
 *                               most channels; BB_CHOICE_NONE if NCCL did not load the plugin
 */
void bb_profiler_begin(void);
void bb_profiler_end(struct bb_choice *choice);

#endif
