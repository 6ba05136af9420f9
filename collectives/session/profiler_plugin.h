/*
 * profiler_plugin.h - the part of NCCL's profiler plugin interface that busbar uses: versions 4 (NCCL 2.27), 5 (2.28),
 * 6 (2.30) and 7 (2.32). Written from NCCL's documentation. NCCL defines the
 * order, width and meaning of the fields, which are fixed for each version. Tests call the plugin as NCCL does.
 */
#ifndef BB_COLLECTIVES_SESSION_PROFILER_PLUGIN_H
#define BB_COLLECTIVES_SESSION_PROFILER_PLUGIN_H

#include <nccl.h>
#include <stdbool.h>
#include <stdint.h>

/* Event types; each is one bit of the event mask. NCCL defines more types. */
enum {
    BB_EVENT_COLL = 2,
    BB_EVENT_P2P = 4,
    BB_EVENT_GROUP_API = 256,
    BB_EVENT_COPIES = 4096, /* a collective by copy engines; version 6 */
};

/* NCCL's descriptions of a collective and of a send or receive: the leading fields, which all versions
 * have in common, and some of version 7. NCCL's structs have more fields. NCCL owns them. */
struct bb_event_coll {
    uint64_t sequence;
    const char *function;
    const void *send;
    void *receive;
    size_t count;
    int root;
    const char *dtype;
    uint8_t channels, warps;
    const char *algorithm, *protocol;
    void *group;        /* from version 5 on, as in the following fields: only read in version 7 */
    const char *kernel; /* version 7: name of the kernel */
    bool symmetric;     /* version 7: a kernel on symmetric windows, which older versions do not report */
};

struct bb_event_p2p {
    const char *function;
    void *buffer;
    const char *dtype;
    size_t count;
    int peer;
    uint8_t channels;
};

/* The argument of `start`. NCCL's unions are larger, because they have members for event types that busbar does not
 * use. */
struct bb_event_v4 {
    uint8_t type;
    void *parent;
    int rank;
    union {
        struct bb_event_coll coll;
        struct bb_event_p2p p2p;
    };
};

struct bb_event_v5 {
    uint64_t type;
    void *parent;
    int rank;
    union {
        struct bb_event_coll coll;
        struct bb_event_p2p p2p;
    };
};

/* NCCL's log function. busbar does not call it. */
typedef void bb_profiler_log(int level, unsigned long flags, const char *file, int line, const char *format, ...);

/* Arguments with which NCCL reports a state change of an event. busbar ignores them. */
union bb_event_state {
    uint64_t number;
    void *data;
};

struct bb_profiler_v4 {
    const char *name;
    ncclResult_t (*init)(void **context, int *mask, const char *comm_name, uint64_t comm_id, int nodes, int ranks,
                         int rank, bb_profiler_log *log);
    ncclResult_t (*start)(void *context, void **handle, struct bb_event_v4 *event);
    ncclResult_t (*stop)(void *handle);
    ncclResult_t (*state)(void *handle, int state, union bb_event_state *arguments);
    ncclResult_t (*finalize)(void *context);
};

struct bb_profiler_v5 {
    const char *name;
    ncclResult_t (*init)(void **context, uint64_t comm_id, int *mask, const char *comm_name, int nodes, int ranks,
                         int rank, bb_profiler_log *log);
    ncclResult_t (*start)(void *context, void **handle, struct bb_event_v5 *event);
    ncclResult_t (*stop)(void *handle);
    ncclResult_t (*state)(void *handle, int state, union bb_event_state *arguments);
    ncclResult_t (*finalize)(void *context);
};

/* NCCL looks up these symbols by name in the program. */
extern const struct bb_profiler_v4 ncclProfiler_v4;
extern const struct bb_profiler_v5 ncclProfiler_v5;
extern const struct bb_profiler_v5 ncclProfiler_v6; /* version 6 has the layout of version 5; it adds event
                                                       types */
extern const struct bb_profiler_v5 ncclProfiler_v7;

#endif
