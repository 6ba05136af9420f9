/* watchdog_internal.h - the inside of the watchdog: messages (watchdog_net.c), who is called and how (watchdog_dial.c),
 * addresses (watchdog_interfaces.c), verdicts (watchdog_verdict.c), who speaks for all when rank 0 cannot
 * (watchdog_deputy.c), the thread (watchdog_thread.c). */
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

#define BB_WATCHDOG_TEXT       96
#define BB_WATCHDOG_LINE       1800
#define BB_WATCHDOG_STATE_S    0.1 /* least time between two news of a rank's steps */
#define BB_WATCHDOG_FIRST_NEWS 32  /* news that are sent without a wait: the start is all short steps */

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
    int16_t code; /* exit code of FAIL and END; SPEAK: not 0 where rank 0 is lost */
    uint32_t rank;
    int32_t signal; /* that ended the speaker or the job; 0: none */
    uint64_t nonce; /* of CHALLENGE, and of the first message that answers it */
    struct bb_seen seen;
    uint64_t tag; /* of all before it, last */
};

/*
 * A connection and what has come of its next message. fd -1: none. Who takes a call says CHALLENGE with a number of its
 * own; the caller's first message has another one. From the two and the run's token, which is never sent, both have the
 * key of this connection; each message has a tag of it, its direction and its number, so that none can be forged,
 * changed, repeated or left out.
 */
struct bb_watchdog_link {
    int fd;
    bool called, keyed; /* called: this side took the call; keyed: key is set */
    uint64_t nonce;     /* of the side that took the call */
    struct bb_siphash_key key;
    uint64_t sent, received; /* messages with a tag */
    double since_s;
    size_t have;
    struct bb_watchdog_msg in;
};

/* bb_watchdog_listen - sockets at the addresses of the ticket, which it fills but for its token; fds [*n]. */
int bb_watchdog_listen(bool loopback, struct bb_watchdog_endpoint *ticket, int fds[BB_WATCHDOG_ADDRESSES],
                       int *n) BB_MUST_CHECK;
/* bb_watchdog_dial - call, say `first`; *reply is what comes back. patience_s: for connecting, then for the answer. */
int bb_watchdog_dial(const struct bb_watchdog_endpoint *ticket, const struct bb_watchdog_msg *first,
                     const double patience_s[2], struct bb_watchdog_link *link,
                     struct bb_watchdog_msg *reply) BB_MUST_CHECK;
/* The addresses of this host for other hosts, best first, without a port: watchdog_interfaces.c. */
void bb_watchdog_list_addresses(struct bb_watchdog_endpoint *ticket);
/* The smaller, the better is the interface. socket_ifname: NCCL_SOCKET_IFNAME ("eth,ib", "=eth0", "^docker"), NULL. */
int bb_watchdog_preference(const char *name, const char *socket_ifname, const char *default_route);
int bb_watchdog_accept(int listen_fd, struct bb_watchdog_link *link); /* 1: *link is a visitor, challenged */
/* bb_watchdog_take_key - the key of this connection, by the caller's number. */
void bb_watchdog_take_key(struct bb_watchdog_link *link, const struct bb_siphash_key *token, uint64_t nonce);
/* bb_watchdog_verify - whether a message that came has the tag that is due. */
bool bb_watchdog_verify(struct bb_watchdog_link *link, const struct bb_watchdog_msg *msg);
void bb_watchdog_watch_link(int fd); /* notice a host that vanishes */
/* 0; -1: gone, or not taken within patience_s. A message is sent whole or not at all, with its tag. */
int bb_watchdog_send(struct bb_watchdog_link *link, struct bb_watchdog_msg *msg, double patience_s);
/* 1: *msg is one; 0: nothing (more) yet; -1: closed, or nonsense came. */
int bb_watchdog_receive(struct bb_watchdog_link *link, struct bb_watchdog_msg *msg);
void bb_watchdog_close(struct bb_watchdog_link *link);
struct bb_watchdog_msg bb_watchdog_msg(enum bb_watchdog_kind kind, uint32_t rank, int code);

/* Rank 0 has one per rank; the others have one, for rank 0. */
struct bb_peer {
    struct bb_watchdog_link link;
    struct bb_seen seen;
    bool joined, hung, done; /* done: said BYE or FAIL, its end of the connection may close */
    bool lost, gone;         /* gone: said GONE, its connection closes in order */
    bool gone_again;         /* rank 0 has told all, and now lets them leave */
    bool answered;           /* since rank 0 asked all, at the first hang */
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
    int poke_fd, signal_fd, listen_fds[BB_WATCHDOG_ADDRESSES], n_listen;
    sigset_t old_signals;
    bool attended;     /* this rank, not 0, was connected to rank 0 */
    int rank, size;    /* 0 and 1 until this rank serves or joins */
    int launcher_rank; /* what the launcher says, meanwhile */
    struct bb_neighbours neighbours;
    bool met;           /* the ranks know each other */
    double neighbour_s; /* when the loss of the next of this host is told; 0: it is none */
    bool launched;      /* with others, as far as is known */
    char (*hosts)[BB_HOST_TEXT];
    double timeout_s;
    struct bb_siphash_key token;
    struct bb_watchdog_deputies deputies;

    struct bb_seen mine;
    bool changed; /* mine, since it was last sent */
    double sent_s;
    int n_sent;
    _Atomic unsigned moves; /* signs of life of the main thread: whatever it begins or ends */
    unsigned moves_seen;
    double woke_s;  /* after it was stopped */
    double round_s; /* the thread's last one */
    double due_s;   /* when what the main thread does now is held to hang */

    bool hung, hang_said; /* a wait of this rank ran out; rank 0 knows */
    double hang_s;
    double judge_s, lost_s, signal_s; /* when to look at hangs, losses, a signal; 0: none */
    int signal, signal_rank;          /* the first that came, and to whom */
    pid_t launcher;                   /* whose child this process is */
    bool signal_told;
    atomic_int exit_cause; /* exit_guard.h; 0: none */
    double continued_s;    /* when SIGCONT came, which the signal that ends a rank may follow; 0: never */
    pid_t signal_sender;   /* of SIGTERM, to this rank; 0: unknown */
    int ended_by;          /* the signal that ends the job, 0: none */
    bool slept;            /* this process was stopped for a while: the others have said what there was to say */

    _Atomic int ending; /* 0, or the negative code with which the job ends */
    double ending_s;
    bool hooks_started, saved; /* saved: what runs at once has run */
    pthread_t hooks_thread;
    char last_words[BB_WATCHDOG_LINE]; /* to be said when the results are safe: hydra kills all soon after */
    int failing;                       /* exit code with which this rank ends */
    bool fail_said;
    bool end_heard; /* from rank 0 */
    bool leaving, bye_said, left, gone_said, releasing, stop;
    bool keeps; /* the main thread waits for the others' ends, and leaves by itself */
    bool told;  /* why the run ends in order, with a status that is not 0 */
    bool spoke; /* this rank said the line of the job */
    int speaker_fd;

    struct bb_peer *peers; /* rank 0: [size], the others: [1] */
    int n_peers;
    struct bb_watchdog_link *visitors; /* rank 0, deputies: connections that have not said HELLO yet */
    int n_visitors;

    pthread_mutex_t hooks_lock;
    struct bb_hook hooks[BB_HOOKS_MAX];
    int n_hooks;
};

/* When a rank hangs, rank 0 must have judged by then: a second after it heard of it, more among many ranks. */
static inline double bb_watchdog_answer_s(const struct bb_watchdog *watchdog)
{
    return 2 + watchdog->size / 512.0;
}

void *bb_watchdog_thread(void *watchdog);

/* bb_watchdog_await - with the lock held: wait for a flag of the watchdog, at most so long. */
void bb_watchdog_await(struct bb_watchdog *watchdog, bool (*flag)(const struct bb_watchdog *), double patience_s);

/* All with the lock held. */
/* This rank ends; under a launcher that waits for all so do the others of this host that are stuck. */
void bb_watchdog_end_others(struct bb_watchdog *watchdog);
void bb_watchdog_end(struct bb_watchdog *watchdog, int code); /* the job ends with this exit code: tell everybody */
void bb_watchdog_tell_end(struct bb_watchdog *watchdog, struct bb_peer *peer); /* it is: to one who comes late */
void bb_watchdog_judge_hang(struct bb_watchdog *watchdog);  /* rank 0: name the ranks that did not arrive */
void bb_watchdog_judge_lost(struct bb_watchdog *watchdog);  /* rank 0: name the ranks that are lost */
void bb_watchdog_judge_alone(struct bb_watchdog *watchdog); /* this rank hangs, and rank 0 is not there to judge */
void bb_watchdog_judge_server_lost(struct bb_watchdog *watchdog); /* rank 0 is the lost one */
void bb_watchdog_judge_signal(struct bb_watchdog *watchdog);      /* a signal ends the job */
void bb_watchdog_judge_neighbour(struct bb_watchdog *watchdog,
                                 int rank); /* it is lost, before the ranks know each other */

/* bb_watchdog_speaks - whether this rank is the one to say why the job ends with this exit code, now that rank 0 does
 * not. */
bool bb_watchdog_speaks(struct bb_watchdog *watchdog, int code);
/* bb_watchdog_say - says the line if this rank is the one; whether it was. */
bool bb_watchdog_say(struct bb_watchdog *watchdog, enum bb_error code, const char *line);
/* bb_watchdog_keep_word - this rank says the line: under hydra, what holds a lost rank's place shall know; false where
 * that has said it. */
bool bb_watchdog_keep_word(struct bb_watchdog *watchdog, int code);
/* bb_watchdog_say_lost - rank 0 says who is lost, under whatever launcher if the word is free: where a connection broke,
 * that rank may be there, and have said that this one is lost. */
void bb_watchdog_say_lost(struct bb_watchdog *watchdog, const char *line);
/* bb_watchdog_asked - a deputy is told that rank 0 is lost (code set: the deputy may not have noticed yet) or does not
 * answer. */
void bb_watchdog_asked(struct bb_watchdog *watchdog, const struct bb_watchdog_msg *msg);
/* bb_watchdog_linger - keep what makes this rank the one that spoke for a moment, with the lock held. */
void bb_watchdog_linger(struct bb_watchdog *watchdog);

#endif
