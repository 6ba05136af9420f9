/* watchdog_internal.h - interfaces between the files of the watchdog: messages and authentication (watchdog_net.c),
 * connecting (watchdog_dial.c), network addresses (watchdog_interfaces.c), error lines (watchdog_verdict.c), backup
 * reporters (watchdog_deputy.c), and the watchdog's thread (watchdog_thread.c). */
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
#define BB_WATCHDOG_STATE_S 0.1 /* seconds; minimum interval between two STATE messages of a rank */
/* Number of STATE messages that a rank sends at the start of the run without the minimum interval
 * BB_WATCHDOG_STATE_S, because the first steps of a run are short. */
#define BB_WATCHDOG_FIRST_NEWS 32

/* Progress of a rank: number and text of the last step that it recorded (bb_world_reached in world.h), and the name
 * of its current wait ("": the rank does not wait). */
struct bb_seen {
    uint32_t step;
    char text[BB_WATCHDOG_TEXT];
    char wait[BB_WATCHDOG_TEXT];
};

/* A message as transmitted. All machines of a run have the same byte order. */
struct bb_watchdog_msg {
    uint32_t magic;
    uint16_t kind;
    int16_t code; /* in FAIL and END: exit code; in SPEAK: nonzero if rank 0 is lost */
    uint32_t rank;
    int32_t signal; /* signal or other cause (signals.h) that ends the sender or the job; 0: none */
    uint64_t nonce; /* in CHALLENGE: nonce of the accepting side; in the reply to CHALLENGE: nonce of the connecting
                       side */
    struct bb_seen seen;
    uint64_t tag; /* SipHash tag of all other fields; 0 in CHALLENGE */
};

/*
 * A TCP connection between two ranks, and the received bytes of its next message.
 *
 * Authentication: the side that accepts the connection sends CHALLENGE with a nonce, and the first message of the side
 * that connects contains another nonce. Both sides derive the key of the connection from both nonces and the run's
 * token, which is never sent. The tag of a message depends on the key, the direction and the sequence number, so a
 * message cannot be forged, changed, replayed or dropped unnoticed.
 */
struct bb_watchdog_link {
    int fd;             /* -1: not connected */
    bool called, keyed; /* called: this side accepted the connection; keyed: key is set */
    uint64_t nonce;     /* nonce of the accepting side */
    struct bb_siphash_key key;
    uint64_t sent, received; /* number of tagged messages sent and received; used as sequence numbers */
    double since_s;          /* time (bb_now_s) at which the connection was accepted */
    size_t have;             /* bytes of `in` received so far */
    struct bb_watchdog_msg in;
};

/* bb_watchdog_listen - open listening sockets on the addresses of this host, or on loopback only. fds: out, [*n]
 * sockets. ticket: out, the addresses; the token is unchanged. Returns 0, or -BB_EFAIL after printing one error
 * line. */
int bb_watchdog_listen(bool loopback, struct bb_watchdog_endpoint *ticket, int fds[BB_WATCHDOG_ADDRESSES],
                       int *n) BB_MUST_CHECK;
/* bb_watchdog_dial - connect to one of the ticket's addresses, send `first` and wait for the answer. patience_s: [0]
 * time limit in seconds for the connection, [1] for the answer. link: out, the connection. reply: out, the answer.
 * Returns 0 or -BB_EFAIL; prints nothing. */
int bb_watchdog_dial(const struct bb_watchdog_endpoint *ticket, const struct bb_watchdog_msg *first,
                     const double patience_s[2], struct bb_watchdog_link *link,
                     struct bb_watchdog_msg *reply) BB_MUST_CHECK;
/* bb_watchdog_list_addresses - store the addresses at which other hosts can reach this host, without a port, the
 * preferred address first (watchdog_interfaces.c). */
void bb_watchdog_list_addresses(struct bb_watchdog_endpoint *ticket);
/* bb_watchdog_preference - returns the preference of the network interface `name`; lower is better. socket_ifname:
 * value of NCCL_SOCKET_IFNAME ("eth,ib", "=eth0", "^docker"), NULL if not set. default_route: interface of the
 * default route. */
int bb_watchdog_preference(const char *name, const char *socket_ifname, const char *default_route);
/* bb_watchdog_accept - accept a connection and send CHALLENGE. link: out, the connection, which is pending until its
 * first message arrives. Returns 1, or 0 if no connection was accepted. */
int bb_watchdog_accept(int listen_fd, struct bb_watchdog_link *link);
/* bb_watchdog_take_key - derive the key of this connection. token: the run's secret. nonce: nonce of the connecting
 * side. */
void bb_watchdog_take_key(struct bb_watchdog_link *link, const struct bb_siphash_key *token, uint64_t nonce);
/* bb_watchdog_verify - returns whether the received message has the expected tag, and advances the sequence number. */
bool bb_watchdog_verify(struct bb_watchdog_link *link, const struct bb_watchdog_msg *msg);
void bb_watchdog_watch_link(int fd); /* enables TCP keep-alive, which detects that a host has vanished */
/* bb_watchdog_send - send a message with its tag, either completely or not at all. Returns 0, or -1 if the
 * connection is closed or does not become writable within patience_s seconds. */
int bb_watchdog_send(struct bb_watchdog_link *link, struct bb_watchdog_msg *msg, double patience_s);
/* bb_watchdog_receive - receive bytes of a message without blocking. Returns 1 if *msg is a complete message, 0 if
 * the message is not complete yet, -1 if the connection is closed or received invalid data. */
int bb_watchdog_receive(struct bb_watchdog_link *link, struct bb_watchdog_msg *msg);
void bb_watchdog_close(struct bb_watchdog_link *link);
struct bb_watchdog_msg bb_watchdog_msg(enum bb_watchdog_kind kind, uint32_t rank, int code);

/* A remote rank. Rank 0 has one entry per rank; every other rank has a single entry, for rank 0. */
struct bb_peer {
    struct bb_watchdog_link link;
    struct bb_seen seen;
    bool joined, hung, done; /* joined: peer sent HELLO; hung: peer sent HANG; done: peer sent BYE or FAIL, so EOF is
                                expected */
    bool lost, gone; /* lost: connection closed without GONE or FAIL; gone: peer sent GONE, so EOF is expected */
    bool gone_again; /* rank 0 sends GONE twice in succession; true after the second: this rank may exit */
    bool answered;   /* peer has answered the ASK that follows the first HANG */
};

struct bb_hook {
    enum bb_watchdog_when when;
    bb_at_end *fn;
    void *arg;
};
#define BB_HOOKS_MAX 64

struct bb_watchdog {
    pthread_t thread;
    pthread_mutex_t lock; /* protects all following fields except the hooks */
    pthread_cond_t news;  /* signaled when a field changes on which the main thread may be waiting */
    int poke_fd, signal_fd, listen_fds[BB_WATCHDOG_ADDRESSES], n_listen;
    sigset_t old_signals;
    bool attended;     /* this rank is not rank 0 and is, or was, connected to rank 0 */
    int rank, size;    /* rank number and number of ranks of the run; 0 and 1 until bb_watchdog_serve or
                       bb_watchdog_join */
    int launcher_rank; /* rank as set by the launcher; used until `rank` is known */
    struct bb_neighbours neighbours;
    bool met; /* the ranks have connected to rank 0 (a rank that cannot connect prints a warning), or the run has
                 only one rank */
    double neighbour_s; /* time at which to report the loss of the next rank on this host; 0: not lost */
    bool launched;      /* false: this is certainly the only rank of the job */
    char (*hosts)[BB_HOST_TEXT];
    double timeout_s;
    struct bb_siphash_key token;
    struct bb_watchdog_deputies deputies;

    struct bb_seen mine;
    bool changed; /* `mine`, the progress of this rank, has changed since it was last sent */
    double sent_s;
    int n_sent;
    _Atomic unsigned moves; /* counter that the main thread increments as a sign of life */
    unsigned moves_seen;
    double woke_s;  /* time at which this process resumed after it was suspended */
    double round_s; /* time of the last iteration of the watchdog's thread */
    double due_s;   /* time at which the main thread counts as hanging, unless it gives a sign of life before */

    bool hung, hang_said;    /* hung: a wait of this rank timed out; hang_said: HANG was sent to rank 0 */
    double hang_s;           /* time at which the wait of this rank timed out */
    double judge_s, lost_s;  /* judge_s: time at which rank 0 decides about hanging ranks; lost_s: time at which lost
                               ranks are reported; 0: no such time is set */
    double signal_s;         /* time at which `signal` arrived */
    int signal, signal_rank; /* signal: the first signal or other cause (signals.h), 0: none; signal_rank: the rank
                                that received it */
    pid_t launcher;          /* parent process at the start */
    bool signal_told;
    atomic_int exit_cause; /* cause of an unexpected exit or crash (exit_guard.h); 0: none */
    double continued_s; /* time of the last SIGCONT, which prterun sends before it ends a rank with SIGTERM; 0: never */
    pid_t signal_sender; /* process that sent SIGTERM to this rank; 0: unknown */
    int ended_by;        /* signal or other cause (signals.h) that ends the job; 0: none */
    bool slept;          /* this process was suspended recently, so other ranks may have reported an error meanwhile */

    _Atomic int ending; /* 0, or the negative code with which the job is ending */
    double ending_s;
    bool hooks_started, saved; /* hooks_started: hooks_thread was created; saved: the hooks for BB_WATCHDOG_AT_ONCE
                                  have run */
    pthread_t hooks_thread;
    char last_words[BB_WATCHDOG_LINE]; /* error line about lost ranks, printed only after the results are saved,
                                          because Hydra kills all ranks once a rank prints; "": none */
    int failing;                       /* exit code with which this rank ends; 0: this rank has not failed */
    bool fail_said;
    bool end_heard; /* END was received from rank 0 */
    bool leaving, bye_said, left, gone_said, releasing, stop;
    bool keeps; /* the main thread waits for the other ranks to end and then ends this process; the watchdog's thread
                   gives it more time */
    bool told;  /* an orderly run ends with a nonzero exit status, and the cause was printed */
    bool spoke; /* this rank has printed the error line */
    int speaker_fd;

    struct bb_peer *peers; /* rank 0: [size] all ranks; other ranks: [1] rank 0 */
    int n_peers;
    struct bb_watchdog_link *visitors; /* [n_visitors] slots for accepted connections that have not sent HELLO or
                                          SPEAK yet; rank 0 and backup reporters only */
    int n_visitors;

    pthread_mutex_t hooks_lock;
    struct bb_hook hooks[BB_HOOKS_MAX];
    int n_hooks;
};

/* Returns the time in seconds after which a rank that sent HANG assumes that rank 0 does not answer. Rank 0 decides
 * about one second after HANG, later with many ranks. */
static inline double bb_watchdog_answer_s(const struct bb_watchdog *watchdog)
{
    return 2 + watchdog->size / 512.0;
}

void *bb_watchdog_thread(void *watchdog);

/* bb_watchdog_await - wait until flag(watchdog) is true, at most patience_s seconds. The caller holds the watchdog's
 * lock. */
void bb_watchdog_await(struct bb_watchdog *watchdog, bool (*flag)(const struct bb_watchdog *), double patience_s);

/* For each function below, the caller holds the watchdog's lock. */
/* bb_watchdog_end_others - under srun, which waits for all ranks: close all connections and end the stuck ranks of this
 * host. No effect under other launchers. */
void bb_watchdog_end_others(struct bb_watchdog *watchdog);
void bb_watchdog_end(struct bb_watchdog *watchdog, int code); /* ends the job with this exit code, and sends END to
                                                                 all ranks */
void bb_watchdog_tell_end(struct bb_watchdog *watchdog, struct bb_peer *peer); /* sends END to one peer */
void bb_watchdog_judge_hang(struct bb_watchdog *watchdog);  /* rank 0: reports a hang and the ranks that did not
                                                              arrive at the step */
void bb_watchdog_judge_lost(struct bb_watchdog *watchdog);  /* rank 0: reports the lost ranks */
void bb_watchdog_judge_alone(struct bb_watchdog *watchdog); /* reports that this rank hangs and that rank 0 does not
                                                               answer */
void bb_watchdog_judge_server_lost(struct bb_watchdog *watchdog); /* reports that rank 0 is lost */
void bb_watchdog_judge_signal(struct bb_watchdog *watchdog);      /* reports the signal that ends the job */
void bb_watchdog_judge_neighbour(struct bb_watchdog *watchdog,
                                 int rank); /* reports the loss of `rank`, a rank of this host, before the ranks are
                                               connected */

/* bb_watchdog_speaks - returns whether this rank reports the error with this exit code. If rank 0 cannot report, the
 * function first asks the backup reporters with lower ranks, and returns false if one of them answers. */
bool bb_watchdog_speaks(struct bb_watchdog *watchdog, int code);
/* bb_watchdog_say - print the error line if this rank is the reporter. Returns whether the line was printed. */
bool bb_watchdog_say(struct bb_watchdog *watchdog, enum bb_error code, const char *line);
/* bb_watchdog_keep_word - under Hydra: claim the reporter lock for the line of this rank, so that the helper process
 * of a lost rank does not report too. Returns false if another process has already reported. No effect under other
 * launchers. */
bool bb_watchdog_keep_word(struct bb_watchdog *watchdog, int code);
/* bb_watchdog_say_lost - rank 0: report lost ranks if this rank can claim the reporter lock, which is needed under
 * every launcher: a rank that only lost its connection may still exist and may have reported rank 0 as lost. */
void bb_watchdog_say_lost(struct bb_watchdog *watchdog, const char *line);
/* bb_watchdog_asked - backup reporter: handle SPEAK. The sender reports that rank 0 is lost (msg->code nonzero; this
 * rank may not have noticed the loss yet), that rank 0 does not answer, or that a signal ends the job. */
void bb_watchdog_asked(struct bb_watchdog *watchdog, const struct bb_watchdog_msg *msg);
/* bb_watchdog_linger - if this rank has reported, keep the reporter lock until 0.5 s after the job started to end. */
void bb_watchdog_linger(struct bb_watchdog *watchdog);

#endif
