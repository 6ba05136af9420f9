/*
 * tuner.h - making NCCL use an algorithm and a protocol that are not its own choice. NCCL_ALGO and NCCL_PROTO are read
 * once and hold for good; a tuner plugin is asked before each collective. So the program itself is one: it exports
 * ncclTunerPlugin_v6, _v5 and _v4, which NCCL finds when NCCL_TUNER_PLUGIN says STATIC_PLUGIN. Without a wish
 * it changes nothing, and NCCL chooses as it does alone. What really ran is for profiler.h to tell.
 *
 *   bb_tuner_enable();                          before the first NCCL call
 *   ... communicators are made ...
 *   bb_tuner_begin_recording(); one operation; bb_tuner_end_recording(&costs);
 *   bb_tuner_force(&wanted); operations; bb_tuner_force(NULL);
 *
 * All ranks must wish for the same.
 */
#ifndef BB_COLLECTIVES_SESSION_TUNER_H
#define BB_COLLECTIVES_SESSION_TUNER_H

#include <stdbool.h>

enum { BB_ALGORITHMS = 7, BB_PROTOCOLS = 3, BB_COMBINATIONS = BB_ALGORITHMS * BB_PROTOCOLS };

/* NCCL's words and numbers, as its profiler tells them. */
extern const char *const bb_algorithms[BB_ALGORITHMS], *const bb_protocols[BB_PROTOCOLS];

struct bb_combination {
    int algorithm, protocol; /* -1: unknown */
};

/* bb_combination_of - of two of NCCL's words; -1 for a word that is unknown. */
struct bb_combination bb_combination_of(const char *algorithm, const char *protocol);

/* NCCL's estimates for a collective, plain data. */
struct bb_tuner_costs {
    bool known;                            /* NCCL asked                                  */
    float us[BB_ALGORITHMS][BB_PROTOCOLS]; /* below 0: it does not offer that combination */
};

/* bb_tuner_enable - set NCCL_TUNER_PLUGIN; false, and nothing set, when the user has a plugin of his own. */
bool bb_tuner_enable(void);

/* bb_tuner_attached - NCCL has taken the plugin up, for as many communicators as it returns. */
int bb_tuner_attached(void);

/* bb_tuner_force - from now on; what NCCL does not offer is not forced. NULL: NCCL's own choice. */
void bb_tuner_force(const struct bb_combination *wanted);

/* Between the two calls the estimates for the latest collective are noted. */
void bb_tuner_begin_recording(void);
void bb_tuner_end_recording(struct bb_tuner_costs *costs);

#endif
