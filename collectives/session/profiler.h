/*
 * profiler.h - reads which algorithm, protocol and number of channels NCCL selects for an operation.
 *
 * NCCL passes its selection only to profiler plugins. The program itself is such a plugin: it exports ncclProfiler_v6,
 * _v5 and _v4, which NCCL 2.27 and newer looks up in the program when NCCL_PROFILER_PLUGIN=STATIC_PLUGIN. Events are
 * enabled only between bb_profiler_begin and bb_profiler_end, and operations in between are never timed. During timed
 * operations the event mask is 0, so NCCL only tests the mask.
 *
 *   bb_profiler_enable();                        before the first NCCL call
 *   ... create communicators ...
 *   bb_profiler_begin();
 *   one operation, and wait for its completion
 *   bb_profiler_end(&choice);
 */
#ifndef BB_COLLECTIVES_SESSION_PROFILER_H
#define BB_COLLECTIVES_SESSION_PROFILER_H

#include "bootstrap/base/err.h"

#include <stdbool.h>

enum bb_choice_kind {
    BB_CHOICE_NONE,       /* no event was recorded: one rank, symmetric or copy-engine kernels, or NCCL before 2.27 */
    BB_CHOICE_COLLECTIVE, /* a collective kernel: algorithm and protocol are known */
    BB_CHOICE_P2P,        /* sends and receives: channels are known; algorithm and protocol do not apply */
};

/* NCCL's selection for one operation. Plain data: ranks exchange the struct byte by byte. */
struct bb_choice {
    enum bb_choice_kind kind;
    char algorithm[24]; /* NCCL's name: "RING", "TREE", "NVLS", ...; "" for sends and receives */
    char protocol[16];  /* "LL", "LL128", "SIMPLE"; "" for sends and receives */
    int channels;       /* channels of the last collective, or the maximum over the sends and receives */
    int warps;          /* warps per channel; 0 for sends and receives */
};

/*
 * bb_profiler_enable - set NCCL_PROFILER_PLUGIN=STATIC_PLUGIN. Returns false if the variable names another plugin or
 * cannot be set: every selection is then BB_CHOICE_NONE. Call before any other thread exists.
 */
bool bb_profiler_enable(void);

/* bb_profiler_attached - return the number of communicators whose events the plugin receives. */
int bb_profiler_attached(void);

/*
 * bb_profiler_begin - start recording events. Calls do not nest.
 * bb_profiler_end   - stop recording and return the selection (out: choice): the last collective, or the send or
 *                   receive
 *                     with most channels. BB_CHOICE_NONE if NCCL did not load the plugin.
 */
void bb_profiler_begin(void);
void bb_profiler_end(struct bb_choice *choice);

#endif
