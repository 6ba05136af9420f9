/*
 * star.h - TCP connections between the supervisors of a job: from each supervisor to that of rank 0 (the server), and
 * to a backup server. They need neither MPI nor NCCL, so they work while both hang.
 *
 * The supervisors exchange messages of a fixed size, each with an authentication tag:
 *
 *   CHALLENGE  first message of the side that accepted the connection; contains a nonce
 *   HELLO      first message of a supervisor to a server, and the server's answer
 *   STATE      progress of a rank: its last step and what it waits for. The server sends that of rank 0 to all.
 *   ASK        the server requests STATE of all ranks
 *   FAIL       a wait of the rank timed out, or the rank ends early; with the cause
 *   BYE        all processes of the rank have ended; from the server: those of all ranks have ended
 *   END        from the server: the job ends early with this exit code
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
    BB_STAR_END
};

/* Why a rank ends early, in order of precedence: a message about a lost rank explains more than one about the signal
 * that the launcher then sends to the others. */
enum bb_cause { BB_CAUSE_NONE, BB_CAUSE_HANG, BB_CAUSE_SIGNAL, BB_CAUSE_LOST, BB_CAUSE_PRINTED };

/* A message as transmitted. All machines of a job have the same byte order. */
struct bb_star_msg {
    uint32_t magic;
    uint16_t kind;
    int16_t code;   /* FAIL, END: exit code; HELLO: number of ranks of the sender; STATE: 1 if the rank is suspended */
    uint32_t rank;  /* rank that the message is about */
    int16_t cause;  /* enum bb_cause */
    int16_t signal; /* signal or other cause (signals.h) that ended the rank; 0: none */
    uint64_t nonce; /* CHALLENGE and first message of the connecting side: nonce of the sender */
    struct bb_seen seen;
    uint64_t tag; /* SipHash tag of all other fields; 0 in CHALLENGE */
};

/*
 * A connection, and the received bytes of its next message.
 *
 * Authentication: the side that accepts the connection sends CHALLENGE with a nonce, and the first message of the side
 * that connects contains another nonce. Both sides derive the key of the connection from both nonces and the job's
 * token, which is never sent. The tag of a message depends on the key, the direction and the sequence number, so a
 * message cannot be forged, changed, replayed or dropped unnoticed.
 */
struct bb_star_link {
    int fd;                             /* -1: not connected */
    bool called, keyed;                 /* called: this side accepted the connection; keyed: key is set */
    int rank, count;                    /* called: ranks of the other supervisor; count 0: it has not sent HELLO yet */
    const struct bb_siphash_key *token; /* called: token of the job */
    uint64_t nonce;                     /* nonce of the accepting side */
    struct bb_siphash_key key;
    uint64_t sent, received; /* number of tagged messages sent and received; used as sequence numbers */
    double since_s;          /* time at which the connection was accepted */
    size_t have;             /* bytes of `in` received so far */
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
/* bb_star_take_key - derive the key of this connection. nonce: nonce of the connecting side. */
void bb_star_take_key(struct bb_star_link *link, const struct bb_siphash_key *token, uint64_t nonce);
void bb_star_keep_alive(int fd); /* enables TCP keep-alive, which detects that a host has vanished */
/* bb_star_send - send a message with its tag, either completely or not at all. Returns 0, or -1 if the connection is
 * closed or does not become writable within patience_s seconds. */
int bb_star_send(struct bb_star_link *link, struct bb_star_msg *msg, double patience_s);
/* bb_star_receive - receive bytes of a message without blocking, and verify its tag: of each message of an accepted
 * connection, and of all but the first (CHALLENGE) of the connecting side. Returns 1 if *msg is a complete message, 0 if
 * the message is not complete yet, -1 if the connection is closed or received invalid data. */
int bb_star_receive(struct bb_star_link *link, struct bb_star_msg *msg);
void bb_star_close(struct bb_star_link *link);
struct bb_star_msg bb_star_msg(enum bb_star_kind kind, int rank, int code);

/* ---- connecting to a server, without blocking (star_dial.c) ---- */

enum bb_attempt { BB_CONNECTING, BB_CONNECTED, BB_TRY_AGAIN, BB_GIVEN_UP };

struct bb_star_dial {
    struct bb_star_endpoint to;
    struct bb_star_msg first, reply;
    double answer_s; /* time limit in seconds for the answer after the server has accepted the connection */
    struct bb_star_link links[BB_STAR_ADDRESSES];
    enum bb_attempt states[BB_STAR_ADDRESSES]; /* [tried] */
    int tried, refusals;                       /* tried: number of addresses tried so far */
    double next_s, end_s; /* next_s: time at which the next address is tried; end_s: time at which the whole attempt
                             fails */
    double again_s;       /* time of the next attempt to reconnect */
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
