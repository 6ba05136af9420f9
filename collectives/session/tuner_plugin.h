/*
 * tuner_plugin.h - the part of NCCL's tuner plugin interface that busbar uses: versions 4 (NCCL 2.24 to 2.27), 5 (2.28)
 * and 6 (2.30; newer NCCL versions still look for version 6). Written from NCCL's documentation. NCCL defines the
 * order, width and meaning of the fields, which are fixed for each version. Tests call the plugin as NCCL does.
 */
#ifndef BB_COLLECTIVES_SESSION_TUNER_PLUGIN_H
#define BB_COLLECTIVES_SESSION_TUNER_PLUGIN_H

#include <nccl.h>
#include <stddef.h>
#include <stdint.h>

/* NCCL's log function. busbar does not call it. */
typedef void bb_tuner_log(int level, unsigned long flags, const char *file, int line, const char *format, ...);

/*
 * NCCL calls this function before each collective, then runs the algorithm/protocol pair with the lowest cost.
 *   costs    in and out: declared as float **, but NCCL passes a flat array of algorithms * protocols floats, one row
 *            per algorithm: estimated time in us, or a negative value if NCCL does not offer the algorithm/protocol
 *            pair for this operation
 */
typedef ncclResult_t bb_tuner_choose(void *context, int function, size_t bytes, int operations, float **costs,
                                     int algorithms, int protocols, int registered, int *channels);

struct bb_tuner_v4 {
    const char *name;
    ncclResult_t (*init)(size_t ranks, size_t nodes, bb_tuner_log *log, void **context);
    bb_tuner_choose *choose;
    ncclResult_t (*finalize)(void *context);
};

/* Version 5. `domains`: NVLink domains of the ranks; `constants`: constants of NCCL's tuning model, which a plugin
 * may change. busbar ignores both. */
struct bb_tuner_v5 {
    const char *name;
    ncclResult_t (*init)(void **context, uint64_t comm_id, size_t ranks, size_t nodes, bb_tuner_log *log, void *domains,
                         void *constants);
    bb_tuner_choose *choose;
    ncclResult_t (*finalize)(void *context);
};

/* Version 6. A plugin may set `chunk_bytes`, a function that changes NCCL's chunk size; busbar leaves the pointer
 * NULL. */
struct bb_tuner_v6 {
    struct bb_tuner_v5 v5;
    ncclResult_t (*chunk_bytes)(void *context, int function, size_t bytes, int algorithm, int protocol, int channels,
                                size_t *chunk);
};

/* NCCL looks up these symbols by name in the program. */
extern const struct bb_tuner_v4 ncclTunerPlugin_v4;
extern const struct bb_tuner_v5 ncclTunerPlugin_v5;
extern const struct bb_tuner_v6 ncclTunerPlugin_v6;

#endif
