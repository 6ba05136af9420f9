/*
 * tuner.h - forces NCCL to use a given algorithm and protocol. NCCL reads NCCL_ALGO and NCCL_PROTO once per process,
 * but calls a tuner plugin before each collective. The program itself is such a plugin: it exports ncclTunerPlugin_v6,
 * _v5 and _v4, which NCCL looks up in the program when NCCL_TUNER_PLUGIN=STATIC_PLUGIN. Unless a combination is forced,
 * the plugin leaves NCCL's cost table unchanged. profiler.h reports which combination NCCL ran.
 *
 *   bb_tuner_enable();                         before the first NCCL call
 *   ... create communicators ...
 *   bb_tuner_begin_recording(); one operation; bb_tuner_end_recording(&costs);
 *   bb_tuner_force(&wanted); operations; bb_tuner_force(NULL);
 *
 * All ranks must force the same combination.
 */
#ifndef BB_COLLECTIVES_SESSION_TUNER_H
#define BB_COLLECTIVES_SESSION_TUNER_H

#include <stdbool.h>

enum { BB_ALGORITHMS = 7, BB_PROTOCOLS = 3, BB_COMBINATIONS = BB_ALGORITHMS * BB_PROTOCOLS };

/* NCCL's names, indexed by NCCL's numbers, as the profiler plugin receives them. */
extern const char *const bb_algorithms[BB_ALGORITHMS], *const bb_protocols[BB_PROTOCOLS];

struct bb_combination {
    int algorithm, protocol; /* index into bb_algorithms or bb_protocols; -1: unknown */
};

/* bb_combination_of - return the indices of NCCL's names of an algorithm and a protocol; -1 for an unknown name. */
struct bb_combination bb_combination_of(const char *algorithm, const char *protocol);

/* NCCL's cost table for one collective. Plain data. */
struct bb_tuner_costs {
    bool known;                            /* NCCL called the tuner */
    float us[BB_ALGORITHMS][BB_PROTOCOLS]; /* estimated time; negative: NCCL does not offer the combination */
};

/* bb_tuner_enable - set NCCL_TUNER_PLUGIN=STATIC_PLUGIN. Returns false, without a change, if the variable names
 * another plugin. Call before any other thread exists. */
bool bb_tuner_enable(void);

/* bb_tuner_attached - return the number of communicators that use the plugin. */
int bb_tuner_attached(void);

/* bb_tuner_force - force a combination for all following collectives that NCCL offers it for. NULL: restore NCCL's
 * own selection. */
void bb_tuner_force(const struct bb_combination *wanted);

/*
 * bb_tuner_begin_recording - record the cost table of each collective; the latest one is kept.
 * bb_tuner_end_recording   - stop recording and return the cost table (out: costs).
 */
void bb_tuner_begin_recording(void);
void bb_tuner_end_recording(struct bb_tuner_costs *costs);

#endif
