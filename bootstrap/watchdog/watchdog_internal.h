/* watchdog_internal.h - the inside of the watchdog: messages and links (watchdog_net.c), addresses
 * (watchdog_interfaces.c), verdicts
 * (watchdog_verdict.c), the thread (watchdog.c). */
#ifndef BB_BOOTSTRAP_WATCHDOG_WATCHDOG_INTERNAL_H
#define BB_BOOTSTRAP_WATCHDOG_WATCHDOG_INTERNAL_H

#include "bootstrap/watchdog/watchdog.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

enum bb_watchdog_kind {
    WATCHDOG_HELLO = 1,
    WATCHDOG_STATE,
    WATCHDOG_HANG,
    WATCHDOG_ASK,
    WATCHDOG_FAIL,
    WATCHDOG_BYE,
    WATCHDOG_END
};

#define BB_WATCHDOG_TEXT     96
#define BB_WATCHDOG_STATE_S  0.1 /* least time between two news of a rank's steps */
#define BB_WATCHDOG_ANSWER_S 3.0 /* when a rank hangs, rank 0 must have judged by then */

/* What is known of a rank: number and text of its last step, what it waits for ("" nothing). */
struct bb_seen {
    uint32_t step;
    char text[BB_WATCHDOG_TEXT];
    char wait[BB_WATCHDOG_TEXT];
};

/* One message; the machines of a run have one byte order. */
struct bb_watchdog_msg {
    uint32_t magic;
    uint16_t kind;
    int16_t code; /* exit code of FAIL and END */
    uint32_t rank;
    uint64_t token;
    struct bb_seen seen;
};

/* A connection and what has come of its next message. fd -1: none. */
struct bb_watchdog_link {
    int fd;
    size_t have;
    struct bb_watchdog_msg in;
};

int bb_watchdog_listen(bool loopback, struct bb_watchdog_endpoint *ticket, int *fd) BB_MUST_CHECK;
int bb_watchdog_dial(const struct bb_watchdog_endpoint *ticket, uint32_t rank,
                     struct bb_watchdog_link *link) BB_MUST_CHECK;
/* The addresses of this host for other hosts, best first, without a port: watchdog_interfaces.c. */
void bb_watchdog_list_addresses(struct bb_watchdog_endpoint *ticket);
/* The smaller, the better is the interface. socket_ifname: NCCL_SOCKET_IFNAME ("eth,ib", "=eth0", "^docker"), NULL. */
int bb_watchdog_preference(const char *name, const char *socket_ifname, const char *default_route);
int bb_watchdog_accept(int listen_fd);
/* 0; -1: gone, or not taken within patience_s. A message is sent whole or not at all. */
int bb_watchdog_send(struct bb_watchdog_link *link, const struct bb_watchdog_msg *msg, double patience_s);
/* 1: *msg is one; 0: nothing (more) yet; -1: closed, or nonsense came. */
int bb_watchdog_receive(struct bb_watchdog_link *link, struct bb_watchdog_msg *msg);
void bb_watchdog_close(struct bb_watchdog_link *link);
struct bb_watchdog_msg bb_watchdog_msg(enum bb_watchdog_kind kind, uint32_t rank, int code);

/* Rank 0 has one per rank; the others have one, for rank 0. */
struct bb_peer {
    struct bb_watchdog_link link;
    struct bb_seen seen;
    bool joined, hung, done; /* done: said BYE or FAIL, its end of the connection may close */
    bool lost;
    bool answered; /* since rank 0 asked all, at the first hang */
};

struct bb_hook {
    enum bb_watchdog_when when;
    bb_at_end *fn;
    void *arg;
};
#define BB_HOOKS_MAX 64

struct bb_watchdog {
    pthread_t thread;
    pthread_mutex_t lock; /* everything below, but the hooks */
    pthread_cond_t news;  /* ending or left has changed */
    int poke_fd, signal_fd, listen_fd;
    sigset_t old_signals;
    bool attended; /* this rank, not 0, was connected to rank 0 */
    int rank, size;
    char (*hosts)[BB_HOST_TEXT];
    double timeout_s;
    uint64_t token;

    struct bb_seen mine;
    bool changed; /* mine, since it was last sent */
    double sent_s;
    const char *guard;
    double guard_end_s;

    bool hung, hang_said; /* a wait of this rank ran out; rank 0 knows */
    double hang_s;
    double judge_s, lost_s, signal_s; /* when to look at hangs, losses, a signal; 0: none */
    int signal;

    _Atomic int ending; /* 0, or the negative code with which the job ends */
    double ending_s;
    bool hooks_started, saved; /* saved: what runs at once has run */
    pthread_t hooks_thread;
    char *last_words; /* to be said when the results are safe: hydra kills all soon after */
    int failing;      /* exit code with which this rank ends */
    bool fail_said;
    bool end_heard; /* from rank 0 */
    bool leaving, bye_said, left, releasing, stop;

    struct bb_peer *peers; /* rank 0: [size], the others: [1] */
    int n_peers;
    struct bb_watchdog_link *visitors; /* rank 0: [n_peers] connections that have not said HELLO yet */

    pthread_mutex_t hooks_lock;
    struct bb_hook hooks[BB_HOOKS_MAX];
    int n_hooks;
};

void *bb_watchdog_thread(void *watchdog);

/* bb_watchdog_await - with the lock held: wait for a flag of the watchdog, at most so long. */
void bb_watchdog_await(struct bb_watchdog *watchdog, bool (*flag)(const struct bb_watchdog *), double patience_s);

/* All with the lock held. */
void bb_watchdog_end(struct bb_watchdog *watchdog, int code); /* the job ends with this exit code: tell everybody */
void bb_watchdog_judge_hang(struct bb_watchdog *watchdog);    /* rank 0: name the ranks that did not arrive */
void bb_watchdog_judge_lost(struct bb_watchdog *watchdog);    /* rank 0: name the ranks that are lost */
void bb_watchdog_judge_alone(struct bb_watchdog *watchdog);   /* this rank hangs, and rank 0 is not there to judge */
void bb_watchdog_judge_server_lost(struct bb_watchdog *watchdog); /* rank 0 is the lost one */

#endif
