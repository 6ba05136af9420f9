/*
 * tuner.h - forces NCCL to use a given algorithm and protocol. NCCL reads the environment variables NCCL_ALGO and
 * NCCL_PROTO only once per process, but calls a tuner plugin before each collective. The program itself is such a
 * plugin: it exports ncclTunerPlugin_v6, _v5 and _v4. With NCCL_TUNER_PLUGIN=STATIC_PLUGIN, NCCL looks up these symbols
 * in the program. The plugin changes NCCL's cost table only while an algorithm and a protocol are forced. profiler.h
 * reports the algorithm and protocol that NCCL ran.
 *
 *   bb_tuner_enable();                         before the first NCCL call
 *   ... create communicators ...
 *   bb_tuner_begin_recording();                NCCL's own choice
 *   run one operation
 *   bb_tuner_end_recording(&costs);
 *   bb_tuner_force(&wanted);                   algorithm and protocol, which must be the same on all ranks
 *   run operations
 *   bb_tuner_force(NULL);
 */
#ifndef BB_COLLECTIVES_SESSION_TUNER_H
#define BB_COLLECTIVES_SESSION_TUNER_H

#include <stdbool.h>
#include <stddef.h>

enum { BB_ALGORITHMS = 7, BB_PROTOCOLS = 3, BB_ALGORITHM_PROTOCOLS = BB_ALGORITHMS * BB_PROTOCOLS };

/* Names of NCCL's algorithms and protocols, as NCCL passes them to profiler plugins; indexed by NCCL's enum values. */
extern const char *const bb_algorithms[BB_ALGORITHMS], *const bb_protocols[BB_PROTOCOLS];

struct bb_algorithm_protocol {
    int algorithm, protocol; /* indices into bb_algorithms and bb_protocols; -1: unknown */
};

/* bb_algorithm_protocol_of - return the algorithm/protocol pair with these NCCL names. The index of an unknown name
 * is -1. */
struct bb_algorithm_protocol bb_algorithm_protocol_of(const char *algorithm, const char *protocol);

/* NCCL's cost table for one collective. Plain data without pointers. */
struct bb_tuner_costs {
    bool known;                            /* false: NCCL did not call the tuner, and `us` is undefined */
    float us[BB_ALGORITHMS][BB_PROTOCOLS]; /* [algorithm][protocol] NCCL's estimate of the time in us; negative: NCCL
                                              does not offer the algorithm/protocol pair */
    size_t bytes;     /* size by which a tuner selects its rule; differs from the size in the report with -m */
    bool registered;  /* NCCL reports both buffers as registered */
    int ranks, nodes; /* of the latest communicator, as NCCL counts them */
};

/* bb_tuner_enable - set NCCL_TUNER_PLUGIN=STATIC_PLUGIN. Returns false and changes nothing if the variable names
 * another plugin. Call while the process has one thread. */
bool bb_tuner_enable(void);

/* bb_tuner_attached - return the number of communicators that use the plugin. */
int bb_tuner_attached(void);

/* bb_tuner_force - force an algorithm/protocol pair for all following collectives for which NCCL offers the pair;
 * other collectives run NCCL's own choice. NULL: end the forcing. */
void bb_tuner_force(const struct bb_algorithm_protocol *wanted);

/*
 * bb_tuner_begin_recording - start recording the cost table of each collective.
 * bb_tuner_end_recording   - stop recording.
 *                              costs  out: the cost table of the latest collective
 */
void bb_tuner_begin_recording(void);
void bb_tuner_end_recording(struct bb_tuner_costs *costs);

#endif
