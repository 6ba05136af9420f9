/*
 * shm.h - the shared memory of one communicator: one region of POSIX shared memory per communicator. Ranks wait on
 * futexes, without busy waiting, and there are no locks, so a rank that dies never holds a lock.
 *
 * A region has a name in /dev/shm only until all its ranks have joined. Until then each joiner holds a shared flock on
 * it. A named region without a flock was left by dead processes; the next process that joins removes it.
 * Layout: head, members[n], pairs[n][n], staging[n][EN_BUFFERS], rings[n][n]. The kernel allocates a page when it is
 * first touched.
 */
#ifndef EMU_NCCL_SHM_H
#define EMU_NCCL_SHM_H

#include "../engine.h"
#include "proxies/simulation/machine/cluster.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    EN_CACHE_LINE = 128,
    EN_KEY_BYTES = 16,      /* the part of a unique id that names the region */
    EN_TEXT_BYTES = 512,    /* an error message */
    EN_BUFFERS = 4,         /* per rank: inputs of even and odd steps, results of even and odd steps */
    EN_WAIT_SLICE_MS = 100, /* longest wait without a check for process exit (also recovers lost wake-ups) */
};

/* The collective that a rank is about to run; all ranks compare it before any data is used. */
struct en_desc {
    int32_t kind, dtype, op, root;
    int32_t algorithm, protocol; /* of a collective */
    uint64_t count;
    uint64_t scalar;    /* factor of a pre-multiplied sum, raw bits of its data type */
    int64_t arrival_ns; /* virtual time at which this rank is ready */
    int64_t extra_ns;   /* contention loss on this rank's GPU, see ../contention.c */
};

/* Memory that a rank registers: its file in the rank's process, -1 if other processes cannot map it. */
struct en_shared {
    int32_t file;
    uint64_t offset, bytes;
};

/* State of one rank. Written by that rank only, except for the doorbell. Fields used in every step exist twice, for
 * even and odd steps. */
struct en_member {
    _Alignas(EN_CACHE_LINE) _Atomic uint32_t taken; /* 1: a process has joined as this rank */
    int32_t pid, world_rank, device, devices; /* devices: how many devices this process drives, as far as it knows */
    struct emu_location location;             /* inherited from a parent communicator; node -1: to be computed */
    uint64_t timeline;                        /* id of the timeline of its process; 0: its own */
    uint64_t host, bus;                       /* hash of the host's identity, and of the device's PCI bus id */
    int32_t split[2][2];                      /* colour and key of a split */
    struct en_shared shared[2];               /* of a registration */
    _Alignas(
        EN_CACHE_LINE) _Atomic uint32_t doorbell; /* incremented when a send or receive of this rank may progress */
    _Atomic uint32_t asleep;                      /* 1: the rank sleeps on its doorbell */
    _Alignas(EN_CACHE_LINE) struct en_desc desc[2];
};

/* One end of a message: what the sender (or the receiver) announces to the other end. */
struct en_post {
    _Atomic uint64_t turn; /* message number + 1, written after the fields below */
    uint64_t count;
    int32_t dtype;
    int64_t arrival_ns;
    struct bb_link_load load;   /* of this rank's group */
    _Atomic uint64_t done_turn; /* message number + 1, written after done_ns */
    double done_ns;             /* when this rank's links have moved its group's bytes, in ns after its arrival */
};

/* An ordered pair of ranks: announcements for even and odd messages, and a byte ring. head and tail never wrap. */
struct en_pair {
    _Alignas(EN_CACHE_LINE) struct en_post send[2];
    _Atomic uint64_t head; /* bytes written by the sender */
    _Alignas(EN_CACHE_LINE) struct en_post recv[2];
    _Atomic uint64_t tail; /* bytes read by the receiver */
};

struct en_barrier {
    _Alignas(EN_CACHE_LINE) _Atomic uint32_t arrived;
    _Atomic uint32_t generation;
};

struct en_head {
    char magic[8];
    uint32_t layout;
    int32_t members;
    uint64_t chunk_bytes; /* size of a staging buffer */
    uint64_t ring_bytes;  /* size of a pair's ring */
    uint64_t total_bytes;
    _Atomic uint32_t joined;
    _Atomic uint32_t error; /* 0 none, 1 being written, 2 error_text is valid */
    char error_text[EN_TEXT_BYTES];
    struct en_barrier data;    /* steps of collectives, on stream workers */
    struct en_barrier manage;  /* splits, on host threads */
    struct en_barrier connect; /* first collectives, on host threads */
};

struct en_region {
    _Atomic bool open; /* Set last: another thread that aborts the communicator ignores the region until it is set. */
    struct en_head *head; /* NULL: not open */
    struct en_member *members;
    struct en_pair *pairs;
    char *staging, *rings;
    int lock_fd; /* -1 once all ranks have joined */
    char path[64];
};

/* How a wait ended. */
enum en_end {
    EN_GO,       /* the awaited event happened */
    EN_ABORTED,  /* this rank's communicator was aborted or revoked */
    EN_BROKEN,   /* the communicator has an error, see error_text */
    EN_STOPPING, /* the process is exiting */
};

/* Conditions that end a wait early. */
struct en_watch {
    struct en_region *region;
    const _Atomic uint32_t *abort_flag;
};

/*
 * en_region_open - create the region of this key, or attach to it.
 *   found    out: number of ranks of an existing region
 *   Returns  0 or an errno value; EINVAL if the region exists for another number of ranks
 */
int en_region_open(struct en_region *r, const uint8_t key[EN_KEY_BYTES], int members, int *found);
void en_region_unlink(struct en_region *r); /* removes the name: all ranks have joined, or joining was aborted */
void en_region_close(struct en_region *r);
void en_sweep(void); /* removes the regions that dead processes left */

char *en_staging(const struct en_region *r, int rank, int buffer);
struct en_pair *en_pair(const struct en_region *r, int src, int dst);
char *en_ring(const struct en_region *r, int src, int dst);

/* Sleeps until *word differs from `seen`, or a condition of the watch holds. */
enum en_end en_wait(const struct en_watch *watch, _Atomic uint32_t *word, uint32_t seen);
void en_wake(_Atomic uint32_t *word);

/* A barrier in two calls, so that one thread can arrive for several ranks before it waits. */
uint32_t en_barrier_arrive(struct en_barrier *b, int members);
enum en_end en_barrier_wait(const struct en_watch *watch, struct en_barrier *b, uint32_t generation);

void en_ring_doorbell(struct en_member *m);
enum en_end en_sleep_on_doorbell(const struct en_watch *watch, struct en_member *m, uint32_t seen);

/* Marks the communicator broken for all its ranks and wakes them. The first message is kept. Returns whether this
 * call was the first. */
bool en_break(struct en_region *r, const char *text);
bool en_broken(const struct en_region *r);
void en_wake_all(struct en_region *r); /* makes all waits check their watch */

#endif
