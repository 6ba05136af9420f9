/*
 * rank_page.h - communication between a rank (busbar-rank) and its supervisor (busbar), its parent process: a page of
 * shared memory, and a socket. The page survives the death of the rank, so the supervisor knows the rank's last step
 * even after SIGKILL.
 */
#ifndef BB_BOOTSTRAP_RANK_RANK_PAGE_H
#define BB_BOOTSTRAP_RANK_RANK_PAGE_H

#include "bootstrap/base/err.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Progress of a rank: number and text of the last step that it recorded (bb_world_reached), and the name of its
 * current wait ("": the rank does not wait). */
#define BB_SEEN_TEXT 96
struct bb_seen {
    uint32_t step;
    char text[BB_SEEN_TEXT];
    char wait[BB_SEEN_TEXT];
};

struct bb_rank_page {
    atomic_uint signs;    /* number of signs of life of the rank; written by the rank */
    atomic_int ending;    /* 0, or the negative code with which the job is ending; written by the supervisor */
    atomic_bool mpi_used; /* the rank has called MPI_Init; written by the rank */
    atomic_uint version;  /* sequence lock of `seen`: odd while the rank writes it */
    struct bb_seen seen;  /* written by the rank */
    char muted[512];      /* first error that the rank did not print because only rank 0 prints errors then; "": none */
};

/* Memory that the ranks of one supervisor share, for exchanges between them (bootstrap/world/exchange.c). The memory
 * file is sparse, so only the used part of `data` needs memory. */
enum { BB_SIBLINGS_BYTES = 64 << 20 };
struct bb_siblings_memory {
    atomic_uint entered, gathered, left; /* progress of the exchanges */
    atomic_uint size;                    /* number of ranks of the job; 0: not known yet */
    int first_rank;                      /* rank of the first rank of this supervisor; valid once size is known */
    char data[BB_SIBLINGS_BYTES];        /* data of all ranks of the job, in the order of the ranks */
};

/* bb_rank_orphan_signal - return the signal that the kernel sends to a rank when its supervisor dies. Hydra and Slurm's
 * PMI-2 end the job as soon as the last process closes the PMI connection, so with such a connection the rank continues
 * for BB_RANK_ORPHAN_MS, in which the other supervisors report the loss. */
enum { BB_RANK_ORPHAN_MS = 200 };
int bb_rank_orphan_signal(void);

/* bb_rank_page_write - store the progress of this rank. step: NULL: unchanged, else the step number increases by one.
 * wait: "" if the rank does not wait. */
void bb_rank_page_write(struct bb_rank_page *page, const char *step, const char *wait);

/* bb_rank_page_read - copy the progress of a rank, also of one that died while writing it. */
void bb_rank_page_read(const struct bb_rank_page *page, struct bb_seen *seen);

/* Messages on the socket: a header, followed by `bytes` bytes. */
enum bb_rank_request {
    BB_RANK_ALIVE = 1, /* main() runs, so all libraries are loaded; text: version of busbar-rank */
    BB_RANK_TIMEOUT,   /* double: time limit of every wait in seconds */
    BB_RANK_WORLD,     /* struct bb_rank_world: the ranks of the job; answered by an endpoint */
    BB_RANK_JOIN,      /* endpoints of the servers; answered when the rank is connected */
    BB_RANK_HANG,      /* a wait of the rank timed out */
    BB_RANK_FAIL,      /* the rank has printed its error and ends early with exit code `code` */
    BB_RANK_DONE,      /* the rank ends in order with exit code `code`, after MPI_Finalize */
    BB_RANK_ANSWER     /* from the supervisor */
};

struct bb_rank_header {
    uint32_t request;
    int32_t code;
    uint32_t bytes;
};

#define BB_HOST_TEXT (HOST_NAME_MAX + 1)

/* Ranks of the job. Followed by node_of[size] (int) and hosts[size] (char[BB_HOST_TEXT]). */
struct bb_rank_world {
    int rank, size, nodes;
};

/* bb_rank_send - send a message completely; waits while the socket is full. Returns 0 or errno, which may be ignored:
 * the end of the other process is detected in other ways. */
int bb_rank_send(int fd, enum bb_rank_request request, int code, const void *data, size_t bytes);

/* A receiver of messages. */
struct bb_rank_receiver {
    int fd;
    char *data; /* [capacity] bytes of the next message, owned */
    size_t have, capacity;
};

/* bb_rank_receive - receive without blocking. Returns 1 if a message is complete: *header describes it and *payload
 * points to its bytes until the next call; 0 if it is not complete yet; -1 at the end of the connection; -2 after
 * invalid data. */
int bb_rank_receive(struct bb_rank_receiver *r, struct bb_rank_header *header, const void **payload);
void bb_rank_receiver_release(struct bb_rank_receiver *r);

#endif
