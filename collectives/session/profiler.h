/*
 * profiler.h - what NCCL chose for an operation: algorithm, protocol, channels. NCCL tells it to profiler plugins only,
 * so the program itself is one: it exports ncclProfiler_v6, _v5 and _v4, which NCCL (2.27 and newer) finds when
 * NCCL_PROFILER_PLUGIN says STATIC_PLUGIN. Events are asked for between begin and end alone: such a pass is never
 * timed, and in timed passes NCCL asks one flag and goes on.
 *
 *   bb_profiler_enable();                         before the first NCCL call
 *   ... communicators are made ...
 *   bb_profiler_begin();
 *   one operation, awaited
 *   bb_profiler_end(&choice);
 */
#ifndef BB_COLLECTIVES_SESSION_PROFILER_H
#define BB_COLLECTIVES_SESSION_PROFILER_H

#include "bootstrap/base/err.h"

#include <stdbool.h>

enum bb_choice_kind {
    BB_CHOICE_NONE,       /* nothing was told: one rank, symmetric or copy-engine kernels, an older NCCL */
    BB_CHOICE_COLLECTIVE, /* algorithm and protocol are known                                            */
    BB_CHOICE_P2P,  /* done by sends and receives, which have channels but neither                 */
};

/* Plain data, so that ranks can exchange it. */
struct bb_choice {
    enum bb_choice_kind kind;
    char algorithm[24]; /* NCCL's word: "RING", "TREE", "NVLS", ...; "" for transfers */
    char protocol[16];  /* "LL", "LL128", "SIMPLE"; "" for transfers                 */
    int channels;       /* of the last collective, or most of a transfer              */
    int warps;          /* per channel; 0 for transfers                               */
};

/*
 * bb_profiler_enable - set NCCL_PROFILER_PLUGIN, unless the user has a plugin of his own: then nothing is known here and
 * `false` comes back.
 */
bool bb_profiler_enable(void);

/* bb_profiler_attached - NCCL has taken the plugin up, for as many communicators as it returns. */
int bb_profiler_attached(void);

/* Passes do not nest. Without NCCL attached both do nothing, and the choice is BB_CHOICE_NONE. */
void bb_profiler_begin(void);
void bb_profiler_end(struct bb_choice *choice);

#endif
