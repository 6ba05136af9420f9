/* watchdog_internal.h - internal interfaces of the watchdog: messages (watchdog_net.c), connecting
 * (watchdog_dial.c), addresses (watchdog_interfaces.c), error lines (watchdog_verdict.c), backup reporters
 * (watchdog_deputy.c), thread (watchdog_thread.c). */
#ifndef BB_BOOTSTRAP_WATCHDOG_WATCHDOG_INTERNAL_H
#define BB_BOOTSTRAP_WATCHDOG_WATCHDOG_INTERNAL_H

#include "bootstrap/start/neighbours.h"
#include "bootstrap/watchdog/watchdog.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

enum bb_watchdog_kind {
    WATCHDOG_CHALLENGE = 1,
    WATCHDOG_HELLO,
    WATCHDOG_SPEAK,
    WATCHDOG_STATE,
    WATCHDOG_HANG,
    WATCHDOG_ASK,
    WATCHDOG_FAIL,
    WATCHDOG_BYE,
    WATCHDOG_GONE,
    WATCHDOG_END
};

#define BB_WATCHDOG_TEXT    96
#define BB_WATCHDOG_LINE    1800
#define BB_WATCHDOG_STATE_S 0.1 /* minimum interval between two STATE messages of a rank */
#define BB_WATCHDOG_FIRST_NEWS                                                                                         \
    32 /* number of STATE messages sent without that interval, because the start has many
                                     short steps */

/* State of a rank: number and text of its last step, and what it waits for ("": nothing). */
struct bb_seen {
    uint32_t step;
    char text[BB_WATCHDOG_TEXT];
    char wait[BB_WATCHDOG_TEXT];
};

/* A message on the wire; all machines of a run have the same byte order. */
struct bb_watchdog_msg {
    uint32_t magic;
    uint16_t kind;
    int16_t code; /* FAIL, END: exit code; SPEAK: nonzero if rank 0 is lost */
    uint32_t rank;
    int32_t signal; /* signal that ended the sender or the job; 0: none */
    uint64_t nonce; /* in CHALLENGE, and in the first message that answers it */
    struct bb_seen seen;
    uint64_t tag; /* SipHash tag of all fields above */
};

/*
 * A connection and the received part of its next message. fd -1: not connected.
 *
 * Authentication: the accepting side sends CHALLENGE with a nonce; the connecting side's first message has its own
 * nonce. From both nonces and the run's token, which is never sent, both sides derive the key of the connection. The
 * tag of a message depends on the key, the direction and the sequence number, so messages cannot be forged, changed,
 * replayed or dropped unnoticed.
 */
struct bb_watchdog_link {
    int fd;
    bool called, keyed; /* called: this side accepted the connection; keyed: key is set */
    uint64_t nonce;     /* nonce of the accepting side */
    struct bb_siphash_key key;
    uint64_t sent, received; /* number of tagged messages: sequence numbers */
    double since_s;
    size_t have;
    struct bb_watchdog_msg in;
};

/* bb_watchdog_listen - open listening sockets and fill in ticket except for its token. fds: out, [*n] sockets. */
int bb_watchdog_listen(bool loopback, struct bb_watchdog_endpoint *ticket, int fds[BB_WATCHDOG_ADDRESSES],
                       int *n) BB_MUST_CHECK;
/* bb_watchdog_dial - connect and send `first`. *reply: out, the answer. patience_s: seconds for connecting, and for
 * the answer. */
int bb_watchdog_dial(const struct bb_watchdog_endpoint *ticket, const struct bb_watchdog_msg *first,
                     const double patience_s[2], struct bb_watchdog_link *link,
                     struct bb_watchdog_msg *reply) BB_MUST_CHECK;
/* Addresses of this host for other hosts, best first, without a port (watchdog_interfaces.c). */
void bb_watchdog_list_addresses(struct bb_watchdog_endpoint *ticket);
/* Rank of a network interface, smaller is better. socket_ifname: NCCL_SOCKET_IFNAME ("eth,ib", "=eth0", "^docker");
 * NULL: not set. */
int bb_watchdog_preference(const char *name, const char *socket_ifname, const char *default_route);
int bb_watchdog_accept(int listen_fd, struct bb_watchdog_link *link); /* returns 1: *link is a new pending
                                                                         connection, to which CHALLENGE was sent */
/* bb_watchdog_take_key - derive the key of this connection; nonce is that of the connecting side. */
void bb_watchdog_take_key(struct bb_watchdog_link *link, const struct bb_siphash_key *token, uint64_t nonce);
/* bb_watchdog_verify - returns whether a received message has the expected tag. */
bool bb_watchdog_verify(struct bb_watchdog_link *link, const struct bb_watchdog_msg *msg);
void bb_watchdog_watch_link(int fd); /* TCP keep-alive: detect a host that vanishes */
/* Send a message with its tag, completely or not at all. Returns 0; -1: the connection is closed, or not writable
 * within patience_s. */
int bb_watchdog_send(struct bb_watchdog_link *link, struct bb_watchdog_msg *msg, double patience_s);
/* Returns 1: *msg is complete; 0: not yet; -1: connection closed or invalid data. */
int bb_watchdog_receive(struct bb_watchdog_link *link, struct bb_watchdog_msg *msg);
void bb_watchdog_close(struct bb_watchdog_link *link);
struct bb_watchdog_msg bb_watchdog_msg(enum bb_watchdog_kind kind, uint32_t rank, int code);

/* State of a remote rank. Rank 0 has one per rank; other ranks have one, for rank 0. */
struct bb_peer {
    struct bb_watchdog_link link;
    struct bb_seen seen;
    bool joined, hung, done; /* done: peer sent BYE or FAIL; EOF is expected */
    bool lost, gone;         /* gone: peer sent GONE; the connection may close */
    bool gone_again;         /* this rank 0 has received GONE from all ranks and allows the peer to leave */
    bool answered;           /* has answered the ASK after the first hang */
};

struct bb_hook {
    enum bb_watchdog_when when;
    bb_at_end *fn;
    void *arg;
};
#define BB_HOOKS_MAX 64

struct bb_watchdog {
    pthread_t thread;
    pthread_mutex_t lock; /* protects everything below except the hooks */
    pthread_cond_t news;  /* signalled when ending or left changes */
    int poke_fd, signal_fd, listen_fds[BB_WATCHDOG_ADDRESSES], n_listen;
    sigset_t old_signals;
    bool attended;     /* this rank is not 0 and was connected to rank 0 */
    int rank, size;    /* 0 and 1 until this rank serves or joins */
    int launcher_rank; /* rank according to the launcher, used until then */
    struct bb_neighbours neighbours;
    bool met;           /* the ranks are connected */
    double neighbour_s; /* time at which the loss of the host's next rank is reported; 0: not lost */
    bool launched;      /* the job has other ranks, as far as known */
    char (*hosts)[BB_HOST_TEXT];
    double timeout_s;
    struct bb_siphash_key token;
    struct bb_watchdog_deputies deputies;

    struct bb_seen mine;
    bool changed; /* mine changed since it was last sent */
    double sent_s;
    int n_sent;
    _Atomic unsigned moves; /* signs of life of the main thread: incremented whenever it starts or ends something */
    unsigned moves_seen;
    double woke_s;  /* time at which this process resumed after a suspension */
    double round_s; /* time of the thread's last iteration */
    double due_s;   /* time at which the main thread's current activity counts as hung */

    bool hung, hang_said; /* a wait of this rank timed out; HANG was sent to rank 0 */
    double hang_s;
    double judge_s, lost_s, signal_s; /* times at which to evaluate hangs, losses, a signal; 0: none */
    int signal, signal_rank;          /* the first signal, and the rank that received it */
    pid_t launcher;                   /* parent process */
    bool signal_told;
    atomic_int exit_cause; /* cause of an unexpected exit (exit_guard.h); 0: none */
    double continued_s;    /* time of SIGCONT, which prterun sends before the signal that ends a rank; 0: never */
    pid_t signal_sender;   /* sender of the SIGTERM to this rank; 0: unknown */
    int ended_by;          /* signal that ends the job; 0: none */
    bool slept;            /* this process was suspended; peers have already reported */

    _Atomic int ending; /* 0, or the negative code with which the job ends */
    double ending_s;
    bool hooks_started, saved; /* saved: the hooks for BB_WATCHDOG_AT_ONCE have run */
    pthread_t hooks_thread;
    char last_words[BB_WATCHDOG_LINE]; /* final error line, deferred until results are saved (Hydra kills all ranks
                                          once it is printed) */
    int failing;                       /* exit code with which this rank ends */
    bool fail_said;
    bool end_heard; /* END was received from rank 0 */
    bool leaving, bye_said, left, gone_said, releasing, stop;
    bool keeps; /* the main thread waits for the other ranks to end, and then exits itself */
    bool told;  /* the cause of the nonzero exit status of an orderly end was printed */
    bool spoke; /* this rank printed the error line of the job */
    int speaker_fd;

    struct bb_peer *peers; /* rank 0: [size]; other ranks: [1] */
    int n_peers;
    struct bb_watchdog_link *visitors; /* rank 0 and backup reporters: pending connections that have not sent HELLO
                                          yet */
    int n_visitors;

    pthread_mutex_t hooks_lock;
    struct bb_hook hooks[BB_HOOKS_MAX];
    int n_hooks;
};

/* Time within which rank 0 must have decided about a hang: a second after it received HANG, longer with many ranks. */
static inline double bb_watchdog_answer_s(const struct bb_watchdog *watchdog)
{
    return 2 + watchdog->size / 512.0;
}

void *bb_watchdog_thread(void *watchdog);

/* bb_watchdog_await - wait for a flag of the watchdog, at most patience_s. The caller holds the lock. */
void bb_watchdog_await(struct bb_watchdog *watchdog, bool (*flag)(const struct bb_watchdog *), double patience_s);

/* The caller of all functions below holds the lock. */
/* End this rank; under a launcher that waits for all ranks (srun), also the stuck ranks of this host. */
void bb_watchdog_end_others(struct bb_watchdog *watchdog);
void bb_watchdog_end(struct bb_watchdog *watchdog, int code); /* end the job with this exit code: send END to all
                                                                 ranks */
void bb_watchdog_tell_end(struct bb_watchdog *watchdog, struct bb_peer *peer); /* send END to a peer that joins late */
void bb_watchdog_judge_hang(struct bb_watchdog *watchdog);        /* rank 0: report the ranks that did not arrive */
void bb_watchdog_judge_lost(struct bb_watchdog *watchdog);        /* rank 0: report the lost ranks */
void bb_watchdog_judge_alone(struct bb_watchdog *watchdog);       /* this rank hangs and rank 0 does not answer */
void bb_watchdog_judge_server_lost(struct bb_watchdog *watchdog); /* rank 0 is lost */
void bb_watchdog_judge_signal(struct bb_watchdog *watchdog);      /* a signal ends the job */
void bb_watchdog_judge_neighbour(struct bb_watchdog *watchdog,
                                 int rank); /* it is lost, before the ranks are connected */

/* bb_watchdog_speaks - returns whether this rank reports why the job ends with this exit code, in place of rank 0. */
bool bb_watchdog_speaks(struct bb_watchdog *watchdog, int code);
/* bb_watchdog_say - print the line if this rank is the reporter; returns whether it was printed. */
bool bb_watchdog_say(struct bb_watchdog *watchdog, enum bb_error code, const char *line);
/* bb_watchdog_keep_word - claim the reporter lock for the line of this rank; under Hydra this also informs the
 * helper process of a lost rank. Returns false if another process has already reported. */
bool bb_watchdog_keep_word(struct bb_watchdog *watchdog, int code);
/* bb_watchdog_say_lost - rank 0 reports lost ranks if the reporter lock is free, under any launcher: after a broken
 * connection the other rank may still exist and have reported this rank as lost. */
void bb_watchdog_say_lost(struct bb_watchdog *watchdog, const char *line);
/* bb_watchdog_asked - a backup reporter received SPEAK: rank 0 is lost (code set; this rank may not have noticed
 * yet) or does not answer. */
void bb_watchdog_asked(struct bb_watchdog *watchdog, const struct bb_watchdog_msg *msg);
/* bb_watchdog_linger - keep the reporter lock for a moment. The caller holds the lock of the watchdog. */
void bb_watchdog_linger(struct bb_watchdog *watchdog);

#endif
