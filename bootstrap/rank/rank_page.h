/*
 * rank_page.h - communication between a rank (busbar-rank) and its supervisor (busbar), its parent process: a page of
 * shared memory, and a socket. The page outlives the rank, so the supervisor knows the rank's last step even after
 * SIGKILL.
 */
#ifndef BB_BOOTSTRAP_RANK_RANK_PAGE_H
#define BB_BOOTSTRAP_RANK_RANK_PAGE_H

#include "bootstrap/base/err.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Progress of a rank, which messages print as "last seen". */
#define BB_SEEN_TEXT 128
struct bb_seen {
    uint32_t step;      /* number of steps recorded so far (bb_world_reached) */
    uint32_t called;    /* 1: the current wait is a blocking call (bb_world_guard) */
    uint32_t leaving;   /* 1: the rank's node leaves the run (bb_world_leave); the text is the reason */
    uint32_t exchanges; /* number of exchanges of all ranks that the rank has begun, plus those that it has ended */
    char text[BB_SEEN_TEXT]; /* text of the last recorded step */
    char wait[BB_SEEN_TEXT]; /* name of the current wait; "": the rank does not wait */
};

/* Memory that a rank shares with its supervisor. */
struct bb_rank_page {
    atomic_uint signs;    /* number of signs of life of the rank; written by the rank */
    atomic_int ending;    /* 0, or the negative code with which the job is ending early; written by the supervisor */
    atomic_bool mpi_used; /* the rank has called MPI_Init_thread; written by the rank */
    atomic_bool restarts; /* after the loss of a node, the run is restarted without it; written by the rank */
    atomic_uint version;  /* sequence lock of `seen`: odd while the rank writes `seen` */
    struct bb_seen seen;  /* progress of the rank; written by the rank */
    struct bb_err_record error; /* error of the rank; not printed (muted) before bb_world_init on ranks other than 0 */
};

/* Memory that the ranks of one supervisor share, for exchanges between them (bootstrap/world/exchange.c). The memory
 * file is sparse, so only the used part of `data` needs memory. */
enum { BB_SIBLINGS_BYTES = 64 << 20 };
struct bb_siblings_memory {
    atomic_uint entered;          /* how often a rank has entered an exchange, summed over all exchanges so far */
    atomic_uint gathered;         /* number of exchanges whose data of all ranks are in `data` */
    atomic_uint left;             /* how often a rank has left an exchange, summed over all exchanges so far */
    atomic_uint size;             /* number of ranks of the job; 0: not known yet */
    int first_rank;               /* lowest rank of this supervisor; valid once size is known */
    char data[BB_SIBLINGS_BYTES]; /* data of all ranks of the job, in the order of the ranks */
};

/* bb_rank_orphan_signal - return the signal that the kernel sends to a rank when its supervisor dies: SIGKILL, or with
 * a PMI connection (PMI_FD) a signal whose handler ends the rank after BB_RANK_ORPHAN_MS. During this time the other
 * supervisors report the loss; Hydra kills the job as soon as the last process has closed the PMI connection. */
enum { BB_RANK_ORPHAN_MS = 200 };
int bb_rank_orphan_signal(void);

/* bb_rank_page_write - store the progress of this rank. step: text of a new step; NULL: the step has not changed. wait:
 * name of the current wait; "": the rank does not wait. called: the wait is a blocking call. */
void bb_rank_page_write(struct bb_rank_page *page, const char *step, const char *wait, bool called);

/* bb_rank_page_leave - store that the node of this rank leaves the run, and why. */
void bb_rank_page_leave(struct bb_rank_page *page, const char *why);

/* bb_rank_page_count_exchange - the rank has begun or ended an exchange of all ranks (bootstrap/world/exchange.c). */
void bb_rank_page_count_exchange(struct bb_rank_page *page);

/* bb_rank_page_read - copy the progress of a rank. Returns even if the rank died while writing its progress; the copied
 * texts may then be incomplete. */
void bb_rank_page_read(const struct bb_rank_page *page, struct bb_seen *seen);

/* Messages on the socket, and their payload. All but ANSWER are sent by the rank. */
enum bb_rank_request {
    BB_RANK_ALIVE = 1, /* main() runs, so all libraries are loaded; payload: version of busbar-rank, char[] */
    BB_RANK_TIMEOUT,   /* time limit of every wait in seconds; payload: double */
    BB_RANK_WORLD,     /* the ranks of the job; payload: struct bb_rank_world and two arrays */
    BB_RANK_JOIN,      /* addresses of the servers; payload: struct bb_star_endpoint[BB_STAR_SERVERS] */
    BB_RANK_HANG,      /* a wait of the rank timed out; no payload */
    BB_RANK_GATHER,    /* an allgather of all ranks; payload: the data of the ranks of this supervisor */
    BB_RANK_FAIL,      /* the rank has printed its error and ends early with exit code `code`; no payload */
    BB_RANK_DONE,      /* the rank ends in order with exit code `code`, after MPI_Finalize; no payload */
    BB_RANK_ANSWER     /* from the supervisor: the answer to WORLD, with payload struct bb_star_endpoint (the addresses
                          at which the supervisor listens), to JOIN, without payload, or to GATHER, with the data of
                          all ranks */
};

/* Header of a message. */
struct bb_rank_header {
    uint32_t request; /* enum bb_rank_request, or enum bb_results_request on the sockets of serve.h */
    int32_t code;     /* exit code, or in an answer 0 or a negative error */
    uint32_t bytes;   /* size of the payload that follows */
};

#define BB_HOST_TEXT (HOST_NAME_MAX + 1)

/* Ranks of the job: rank of the sender, number of ranks, number of nodes. In the message, node_of[size] (int) and
 * hosts[size] (char[BB_HOST_TEXT]) follow. */
struct bb_rank_world {
    int rank, size, nodes;
};

/* bb_rank_send - send a message completely; waits while the socket is full. Returns 0 or errno. The caller may ignore
 * an error: it means that the other process has ended, which waitpid() or the end of the connection also shows. */
int bb_rank_send(int fd, enum bb_rank_request request, int code, const void *data, size_t bytes);

/* Receives messages from a socket; keeps the bytes of an incomplete message. */
struct bb_rank_receiver {
    int fd;
    char *data;            /* [capacity] bytes of the next message, owned */
    size_t have, capacity; /* have: number of bytes received so far */
};

/* bb_rank_receive - receive a message without blocking. Returns 1 if a message is complete: *header is its header, and
 * *payload points to its payload until the next call; 0 if the message is not complete yet; -1 if the other process has
 * closed the connection; -2 after invalid data. */
int bb_rank_receive(struct bb_rank_receiver *r, struct bb_rank_header *header, const void **payload);
void bb_rank_receiver_release(struct bb_rank_receiver *r);

#endif
