/*
 * shm.h - where the ranks of one communicator meet: one region of POSIX shared memory, waits on futexes, no busy
 * waiting and no locks, so that a rank that dies never takes the others' lock with it.
 *
 * A region lies under /dev/shm only until all its ranks have joined; each joiner holds a shared flock on it until then,
 * so that a region which nobody locks is one that dead processes left behind, and is swept by the next one that comes.
 * Layout: head, members[n], pairs[n][n], staging[n][EN_BUFFERS], rings[n][n]; pages are taken when they are first
 * touched.
 */
#ifndef EMU_NCCL_SHM_H
#define EMU_NCCL_SHM_H

#include "../engine.h"
#include "proxies/machine/cluster.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    EN_CACHE_LINE = 128,
    EN_KEY_BYTES = 16,      /* the part of a unique id that names the region                              */
    EN_TEXT_BYTES = 512,    /* an error message                                                           */
    EN_BUFFERS = 4,         /* per rank: inputs of even and odd steps, results of even and odd steps      */
    EN_WAIT_SLICE_MS = 100, /* a wait looks around at least this often (process teardown, lost wake-ups)  */
};

/* What a rank is about to do in a collective; compared by all ranks before any byte is used. */
struct en_desc {
    int32_t kind, dtype, op, root;
    int32_t algorithm, protocol; /* of a collective */
    uint64_t count;
    uint64_t scalar;    /* the factor of a pre-multiplied sum, as the raw bits of its data type */
    int64_t arrival_ns; /* virtual time at which this rank is ready                              */
    int64_t extra_ns;   /* that its links lose to what else runs on its GPU, see contention.c      */
};

/* One rank's own cell. Written by that rank alone, but for the bell. Two of what is exchanged in steps: even and odd.
 */
struct en_member {
    _Alignas(EN_CACHE_LINE) _Atomic uint32_t taken; /* 1: a rank sits here                                            */
    int32_t pid, world_rank, device, devices;       /* devices: how many this process drives, as far as it knows      */
    struct emu_location location;                   /* of a parent communicator; node -1: to be worked out           */
    uint64_t timeline;                              /* that its process is on, 0: its own                            */
    uint64_t host, bus;                             /* hash of the host's identity, of the device's PCI bus id        */
    int32_t split[2][2];                            /* colour and key of a split                                      */
    _Alignas(
        EN_CACHE_LINE) _Atomic uint32_t doorbell; /* counts news about sends and receives of this rank              */
    _Atomic uint32_t asleep;                      /* 1: the rank sleeps on its bell                                 */
    _Alignas(EN_CACHE_LINE) struct en_desc desc[2];
};

/* One side of one message: what the sender (or the receiver) announces to the other side. */
struct en_post {
    _Atomic uint64_t turn; /* message number + 1 once the rest is valid */
    uint64_t count;
    int32_t dtype;
    int64_t arrival_ns;
    struct bb_link_load load; /* of this rank's group                                            */
    _Atomic uint64_t done_turn; /* message number + 1 once done_ns is valid                       */
    double done_ns;           /* from its arrival on, when its links will have done all of it */
};

/* An ordered pair of ranks: announcements for even and odd messages, and a byte ring. head and tail never wrap. */
struct en_pair {
    _Alignas(EN_CACHE_LINE) struct en_post send[2];
    _Atomic uint64_t head; /* bytes written by the sender */
    _Alignas(EN_CACHE_LINE) struct en_post recv[2];
    _Atomic uint64_t tail; /* bytes read by the receiver  */
};

struct en_barrier {
    _Alignas(EN_CACHE_LINE) _Atomic uint32_t arrived;
    _Atomic uint32_t generation;
};

struct en_head {
    char magic[8];
    uint32_t layout;
    int32_t members;
    uint64_t chunk_bytes; /* one staging buffer */
    uint64_t ring_bytes;  /* one pair's ring    */
    uint64_t total_bytes;
    _Atomic uint32_t joined;
    _Atomic uint32_t error; /* 0 none, 1 being written, 2 error_text is valid */
    char error_text[EN_TEXT_BYTES];
    struct en_barrier data;    /* steps of collectives, on stream workers */
    struct en_barrier manage;  /* splits, on host threads                 */
    struct en_barrier connect; /* first collectives, on host threads       */
};

struct en_region {
    _Atomic bool
        open; /* all else stands: another thread that aborts looks at nothing before; then it has to wake nobody */
    struct en_head *head; /* NULL: not open */
    struct en_member *members;
    struct en_pair *pairs;
    char *staging, *rings;
    int lock_fd; /* -1 once all ranks have joined */
    char path[64];
};

/* How a wait ended. */
enum en_end {
    EN_GO,       /* what was waited for has come                    */
    EN_ABORTED,  /* this rank's communicator was aborted or revoked */
    EN_BROKEN,   /* an error of the communicator, see error_text    */
    EN_STOPPING, /* the process is going down                       */
};

/* What a waiter looks at besides the word it waits for. */
struct en_watch {
    struct en_region *region;
    const _Atomic uint32_t *abort_flag;
};

/* Creates the region of this key, or attaches to it. Returns 0 or an errno; EINVAL when it was made for another number
 * of ranks (its number is then in *found). */
int en_region_open(struct en_region *r, const uint8_t key[EN_KEY_BYTES], int members, int *found);
void en_region_unlink(struct en_region *r); /* all have joined, or nobody shall: it leaves /dev/shm */
void en_region_close(struct en_region *r);
void en_sweep(void); /* removes the regions that dead processes left         */

char *en_staging(const struct en_region *r, int rank, int buffer);
struct en_pair *en_pair(const struct en_region *r, int src, int dst);
char *en_ring(const struct en_region *r, int src, int dst);

/* Sleeps until *word is no longer `seen`, or the watch says otherwise. */
enum en_end en_wait(const struct en_watch *watch, _Atomic uint32_t *word, uint32_t seen);
void en_wake(_Atomic uint32_t *word);

/* A barrier in two halves, so that one thread can arrive for several ranks before it waits. */
uint32_t en_barrier_arrive(struct en_barrier *b, int members);
enum en_end en_barrier_wait(const struct en_watch *watch, struct en_barrier *b, uint32_t generation);

void en_ring_doorbell(struct en_member *m);
enum en_end en_sleep_on_doorbell(const struct en_watch *watch, struct en_member *m, uint32_t seen);

/* Marks the communicator broken for all its ranks and wakes them. The first message stays; true: this was the first. */
bool en_break(struct en_region *r, const char *text);
bool en_broken(const struct en_region *r);
void en_wake_all(struct en_region *r); /* so that waits look at their watch */

#endif
