/*
 * tuner_plugin.h - the interface between NCCL and its tuner plugins, as far as it is used here, versions 4 (NCCL 2.24
 * to 2.27), 5 (2.28) and 6 (2.30; newer ones still look for it). Written from the documented layout: order, width and
 * meaning of the fields are NCCL's, and fixed for a version. Both sides of it are played by tests.
 */
#ifndef BB_COLLECTIVES_SESSION_TUNER_PLUGIN_H
#define BB_COLLECTIVES_SESSION_TUNER_PLUGIN_H

#include <nccl.h>
#include <stddef.h>
#include <stdint.h>

/* NCCL's printer. Not used here. */
typedef void bb_tuner_log(int level, unsigned long flags, const char *file, int line, const char *format, ...);

/*
 * NCCL asks before each collective. costs: not pointers to rows but the first of algorithms * protocols floats, row by
 * row: estimated us, or -1 for what it will not do here. The cheapest entry that is left afterwards is what runs.
 */
typedef ncclResult_t bb_tuner_choose(void *context, int function, size_t bytes, int operations, float **costs,
                                     int algorithms, int protocols, int registered, int *channels);

struct bb_tuner_v4 {
    const char *name;
    ncclResult_t (*init)(size_t ranks, size_t nodes, bb_tuner_log *log, void **context);
    bb_tuner_choose *choose;
    ncclResult_t (*finalize)(void *context);
};

/* domains and constants may be read and changed; they are left alone here. */
struct bb_tuner_v5 {
    const char *name;
    ncclResult_t (*init)(void **context, uint64_t comm_id, size_t ranks, size_t nodes, bb_tuner_log *log, void *domains,
                         void *constants);
    bb_tuner_choose *choose;
    ncclResult_t (*finalize)(void *context);
};

/* chunk_bytes may change the size of a chunk; NULL: NCCL's own. */
struct bb_tuner_v6 {
    struct bb_tuner_v5 v5;
    ncclResult_t (*chunk_bytes)(void *context, int function, size_t bytes, int algorithm, int protocol, int channels,
                                size_t *chunk);
};

/* What NCCL looks up by name in the program. */
extern const struct bb_tuner_v4 ncclTunerPlugin_v4;
extern const struct bb_tuner_v5 ncclTunerPlugin_v5;
extern const struct bb_tuner_v6 ncclTunerPlugin_v6;

#endif
