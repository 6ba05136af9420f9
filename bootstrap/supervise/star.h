/*
 * star.h - TCP connections between the supervisors of a job: from each supervisor to the supervisor of rank 0 (the
 * server), and to a backup server. The connections need neither MPI nor NCCL, so they work while both hang.
 *
 * The supervisors exchange messages of a fixed size, each with an authentication tag:
 *
 *   CHALLENGE  first message from the side that accepted the connection; contains a nonce
 *   HELLO      first message from a supervisor to a server, and the server's answer
 *   STATE      progress of a rank: its last step and what it waits for. The server sends the state of rank 0 to all.
 *   ASK        from the server: request for a STATE of each rank
 *   FAIL       a wait of the rank timed out, or the rank ends early; contains the cause
 *   LEAVE      from the server: the rank is on a lost node, and the run goes on without it (restart.c)
 *   STOP       from the server: the ranks are to be killed, so that they can be started again
 *   READY      the ranks of this supervisor have ended after STOP
 *   START      from the server: the ranks are to be started again
 *   DATA       a part of the data of an allgather (BB_RANK_GATHER), or from the server of its result
 *   BYE        all processes of the rank have ended; from the server: all processes of all ranks have ended
 *   END        from the server: the job ends early; contains the exit code and the cause
 */
#ifndef BB_BOOTSTRAP_SUPERVISE_STAR_H
#define BB_BOOTSTRAP_SUPERVISE_STAR_H

#include "bootstrap/rank/endpoint.h"
#include "bootstrap/rank/rank_page.h"

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

enum bb_star_kind {
    BB_STAR_CHALLENGE = 1,
    BB_STAR_HELLO,
    BB_STAR_STATE,
    BB_STAR_ASK,
    BB_STAR_FAIL,
    BB_STAR_BYE,
    BB_STAR_END,
    BB_STAR_LEAVE,
    BB_STAR_STOP,
    BB_STAR_READY,
    BB_STAR_START,
    BB_STAR_DATA
};

/* What is wrong with a rank, in ascending order of precedence: a lost rank (killed, crashed, or its host has failed)
 * explains more than the signal that the launcher then sends to the other ranks. PRINTED: the rank has printed its
 * error. */
enum bb_cause { BB_CAUSE_NONE, BB_CAUSE_HANG, BB_CAUSE_SIGNAL, BB_CAUSE_LOST, BB_CAUSE_PRINTED };

/* A message as transmitted. All machines of a job have the same byte order. */
struct bb_star_msg {
    uint32_t magic;
    uint16_t kind;  /* enum bb_star_kind */
    int16_t code;   /* FAIL, END: exit code; HELLO: number of ranks of the sender; STATE: 1 if the rank is suspended;
                       DATA: number of bytes in `error` */
    uint32_t rank;  /* FAIL, STATE, BYE, LEAVE: rank that the message is about; otherwise first rank of the sender */
    int16_t cause;  /* enum bb_cause; DATA: 1 in the last part */
    int16_t signal; /* signal or other cause (signals.h) that ended the rank; 0: none */
    uint64_t nonce; /* CHALLENGE, and HELLO of the connecting side: nonce of the sender */
    struct bb_seen seen;       /* HELLO, STATE, FAIL, BYE: progress of the rank */
    char error[BB_ERROR_TEXT]; /* FAIL, BYE: error line that the rank has printed; "": none; DATA: bytes */
    uint64_t tag;              /* SipHash tag of all other fields; 0 in CHALLENGE */
};

/*
 * A connection, and the received bytes of its next message.
 *
 * Authentication: the side that accepts the connection sends CHALLENGE with a nonce, and the first message of the side
 * that connects contains another nonce. Both sides derive the key of the connection from both nonces and the job's
 * token, which is never sent over these connections. The tag of a message depends on the key, the direction and the
 * sequence number, so a message cannot be forged, changed, replayed or dropped unnoticed.
 */
struct bb_star_link {
    int fd;                             /* -1: not connected */
    bool called, keyed;                 /* called: this side accepted the connection; keyed: `key` is set */
    int rank, count;                    /* first rank and number of ranks of the supervisor that connected; used only
                                           if `called`; count 0: that supervisor has not sent HELLO yet */
    const struct bb_siphash_key *token; /* token of the job; used only if `called` */
    uint64_t nonce;                     /* nonce of the accepting side */
    struct bb_siphash_key key;          /* key of the connection, for the tags */
    uint64_t sent, received;            /* number of tagged messages sent and received; used as sequence numbers */
    double since_s;                     /* time at which the connection was accepted */
    size_t have;                        /* bytes of `in` received so far */
    struct bb_star_msg in;
};

/* bb_star_listen - open listening sockets on the addresses of this host, or on loopback only. at: out, the addresses;
 * its token is unchanged. fds: out, [*n] sockets. Returns 0, or -BB_EFAIL after printing one error line. */
int bb_star_listen(bool loopback, struct bb_star_endpoint *at, int fds[BB_STAR_ADDRESSES], int *n) BB_MUST_CHECK;
/* bb_star_list_addresses - store the addresses at which other hosts can reach this host, without a port, the
 * preferred one first. */
void bb_star_list_addresses(struct bb_star_endpoint *at);
/* bb_star_preference - returns the preference of the network interface `name`; lower is better. socket_ifname: value
 * of NCCL_SOCKET_IFNAME ("eth,ib", "=eth0", "^docker"), NULL if not set. */
int bb_star_preference(const char *name, const char *socket_ifname);
/* bb_star_accept - accept a connection and send CHALLENGE. token: token of the job; it must outlive the connection.
 * Returns 1, or 0 if no connection was accepted. */
int bb_star_accept(int listen_fd, const struct bb_siphash_key *token, struct bb_star_link *link);
/* bb_star_take_key - derive and store the key of this connection. nonce: nonce of the connecting side. */
void bb_star_take_key(struct bb_star_link *link, const struct bb_siphash_key *token, uint64_t nonce);
void bb_star_keep_alive(int fd); /* enable TCP keep-alive, which detects that a host has vanished */
/* bb_star_send - send a message with its tag. Returns 0, or -1 if the message is not sent because the connection is
 * closed or does not become writable within patience_s seconds. A connection on which only a part of the message could
 * be sent is shut down. */
int bb_star_send(struct bb_star_link *link, struct bb_star_msg *msg, double patience_s);
/* bb_star_receive - receive a message without blocking, and verify the tag of every message except CHALLENGE. Returns 1
 * if *msg is a complete message, 0 if the message is not complete yet, -1 if the connection is closed or received
 * invalid data. */
int bb_star_receive(struct bb_star_link *link, struct bb_star_msg *msg);
void bb_star_close(struct bb_star_link *link);
/* bb_star_msg - return a message in which all other fields are 0. */
struct bb_star_msg bb_star_msg(enum bb_star_kind kind, int rank, int code);

/* ---- connecting to a server, without blocking (star_dial.c) ---- */

/* State of the connection to one address. CONNECTED: connect() has succeeded; TRY_AGAIN: the server closed the
 * connection, so this side reconnects. */
enum bb_attempt { BB_CONNECTING, BB_CONNECTED, BB_TRY_AGAIN, BB_GIVEN_UP };

/* An attempt to connect to a server through any of its addresses. */
struct bb_star_dial {
    struct bb_star_endpoint to;      /* addresses of the server */
    struct bb_star_msg first, reply; /* first: HELLO of this side; reply: message received last */
    double answer_s; /* time limit in seconds for the answer after the server has accepted the connection */
    struct bb_star_link links[BB_STAR_ADDRESSES]; /* connection to each address of `to` */
    enum bb_attempt states[BB_STAR_ADDRESSES];    /* [tried] state of each connection */
    int tried;                                    /* number of addresses tried so far */
    int refusals;                                 /* number of accepted connections that the server has closed */
    double next_s;                                /* time at which the next address is tried */
    double end_s;                                 /* time at which the whole attempt fails */
    double again_s;                               /* time at which addresses in state TRY_AGAIN are tried again */
};

/* bb_star_dial_begin - start to connect to one of the addresses of `to` and to send `first`. patience_s: [0] time
 * limit in seconds for the connection, [1] for the answer. */
void bb_star_dial_begin(struct bb_star_dial *d, const struct bb_star_endpoint *to, const struct bb_star_msg *first,
                        const double patience_s[2]);
/* bb_star_dial_step - continue. Returns 0 while the attempt continues; 1 when the server has answered: link is then the
 * connection and d->reply the answer; -1 when the attempt has failed. */
int bb_star_dial_step(struct bb_star_dial *d, struct bb_star_link *link);
/* bb_star_dial_end - close the connections of an abandoned attempt. */
void bb_star_dial_end(struct bb_star_dial *d);

#endif
