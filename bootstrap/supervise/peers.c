/*
 * peers.c - the other supervisors of the job. The supervisor of rank 0 is the server: it collects reports and decides
 * when the job ends. All supervisors are also connected to a backup server, which takes over if the server is lost or
 * does not answer.
 */
#include "bootstrap/base/clock.h"
#include "bootstrap/supervise/supervisor.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

/* Time limits in seconds: [0] to connect to the server, which limits the delay of the start if a firewall drops
 * packets; [1] for its answer: thousands of supervisors may connect at once. */
static const double JOIN_S[] = {2, 10};
static const double VISITOR_S = 5; /* time limit for the first message of an accepted connection */
static const double STATE_S = 0.1; /* minimum interval between two STATE messages of a rank */
static const double SEND_S = 0.05; /* time limit for sending one message */
enum { SPARE_VISITORS = 64, RANKS_PER_STATE_S = 256 };

static struct bb_peer *entry_of(struct bb_supervisor *s, int rank)
{
    return rank < s->star.n_peers ? &s->star.peers[rank] : NULL;
}

void bb_peers_own_seen(struct bb_supervisor *s)
{
    for (int i = 0; i < s->n_children; i++) {
        struct bb_peer *peer = entry_of(s, s->children[i].rank);

        if (!peer)
            continue;
        bb_rank_page_read(s->children[i].page, &peer->seen);
        peer->stopped = s->children[i].stopped;
    }
}

/* ---- listening and joining ---- */

/* Raises the soft limit on open files, because the server has one connection per supervisor. */
static void allow_files(int n)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= (rlim_t)n + 512)
        return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

static int open_door(struct bb_supervisor *s, struct bb_star_endpoint *at)
{
    struct bb_star *star = &s->star;
    const int n = s->job.size + SPARE_VISITORS;

    allow_files(2 * s->job.size);
    star->visitors = calloc((size_t)n, sizeof(*star->visitors));
    if (!star->visitors)
        return bb_err(BB_EFAIL, "supervisor: out of memory for %d ranks", s->job.size);
    star->n_visitors = n;
    for (int i = 0; i < n; i++)
        star->visitors[i].fd = -1;
    return bb_star_listen(s->job.nodes == 1, at, star->listen_fds, &star->n_listen);
}

/* Prepares the table of all ranks. The ranks of this supervisor are connected from the start. */
static int open_table(struct bb_supervisor *s)
{
    s->star.peers = calloc((size_t)s->job.size, sizeof(*s->star.peers));
    if (!s->star.peers)
        return bb_err(BB_EFAIL, "supervisor: out of memory for %d ranks", s->job.size);
    s->star.n_peers = s->job.size;
    for (int r = 0; r < s->job.size; r++) {
        s->star.peers[r].link.fd = -1;
        s->star.peers[r].joined = s->star.peers[r].answered = bb_ranks_find(s, r) != NULL;
    }
    return 0;
}

int bb_peers_world(struct bb_supervisor *s, struct bb_star_endpoint *at)
{
    const int backup = bb_star_backup(s->job.size, s->job.node_of, s->n_children);
    int rc = 0;

    memset(at, 0, sizeof(*at));
    if (s->job.rank != 0 && !bb_ranks_find(s, backup))
        return 0;
    TRY(open_table(s));
    if (s->job.rank == 0)
        s->role = BB_ROLE_SERVER;
    if (s->job.size == s->n_children)
        return 0;
    if (s->job.rank == 0 && getrandom(&at->token, sizeof(at->token), 0) != sizeof(at->token))
        return bb_err(BB_EFAIL, "supervisor: getrandom: %s", strerror(errno));
    TRY(open_door(s, at));
    s->star.token = at->token;
out:
    return rc;
}

/* Starts to connect to the next server from server i on. When all are tried, the supervisor is connected, or no server
 * can be reached. */
static void dial_from(struct bb_supervisor *s, int i)
{
    struct bb_star_msg hello = bb_star_msg(BB_STAR_HELLO, s->job.rank, s->n_children);

    while (i < BB_STAR_SERVERS && (s->star.endpoints[i].n == 0 || i == s->star.self))
        i++;
    s->star.dialing = i < BB_STAR_SERVERS ? i : -1;
    if (s->star.dialing < 0) {
        bb_supervisor_event(s, s->role != BB_ROLE_ALONE ? BB_EVENT_JOINED : BB_EVENT_UNREACHABLE);
        return;
    }
    bb_rank_page_read(s->children[0].page, &hello.seen);
    s->star.endpoints[i].token = s->star.token;
    bb_star_dial_begin(&s->star.dial, &s->star.endpoints[i], &hello, JOIN_S);
}

void bb_peers_join(struct bb_supervisor *s, const struct bb_star_endpoint *endpoints)
{
    s->star.self = s->job.rank == 0 ? 0 : s->star.peers ? 1 : -1;
    memcpy(s->star.endpoints, endpoints, sizeof(s->star.endpoints));
    s->star.token = endpoints[0].token;
    dial_from(s, 0);
}

static void step_dial(struct bb_supervisor *s)
{
    const int i = s->star.dialing, done = bb_star_dial_step(&s->star.dial, &s->star.servers[i]);

    if (done == 0)
        return;
    if (done > 0 && i == 0)
        s->star.first_seen = s->star.dial.reply.seen;
    if (done > 0 && s->role == BB_ROLE_ALONE)
        s->role = BB_ROLE_MEMBER;
    dial_from(s, i + 1);
}

/* ---- handling messages ---- */

static int valid_code(int code)
{
    return code >= BB_EFAIL && code <= BB_EBELOW ? code : BB_EFAIL;
}

/* Handles a report about `rank`. */
static void take_report(struct bb_supervisor *s, int rank, enum bb_cause cause, int signal, int code)
{
    static const enum bb_event events[] = {[BB_CAUSE_HANG] = BB_EVENT_HANG,
                                           [BB_CAUSE_SIGNAL] = BB_EVENT_SIGNAL,
                                           [BB_CAUSE_LOST] = BB_EVENT_LOST,
                                           [BB_CAUSE_PRINTED] = BB_EVENT_FAILED};
    struct bb_peer *peer = entry_of(s, rank);

    if (cause <= BB_CAUSE_NONE || cause > BB_CAUSE_PRINTED)
        return;
    if (peer) {
        peer->hung = peer->hung || cause == BB_CAUSE_HANG;
        peer->cause = cause > peer->cause ? cause : peer->cause;
    }
    bb_supervisor_raise(
        s, &(struct bb_report){.event = events[cause], .rank = rank, .signal = signal, .code = valid_code(code)});
}

static bool all_ended(const struct bb_supervisor *s)
{
    for (int r = 0; r < s->star.n_peers; r++)
        if (!s->star.peers[r].ended && s->star.peers[r].joined)
            return false;
    return true;
}

/* Server: records that all processes of a rank have ended. */
static void take_bye(struct bb_supervisor *s, int rank)
{
    struct bb_peer *peer = entry_of(s, rank);

    if (peer)
        peer->ended = true;
    if (s->star.first_end_s == 0)
        s->star.first_end_s = bb_now_s();
    if (all_ended(s))
        bb_supervisor_event(s, BB_EVENT_ALL_ENDED);
}

/* Member: the server, or the backup server after the loss of the server. */
static struct bb_star_link *current_server(struct bb_supervisor *s)
{
    return &s->star.servers[s->star.servers[0].fd >= 0 && !s->star.fell_back ? 0 : 1];
}

/* Member: informs the server about the trouble of a rank; BB_CAUSE_NONE: all processes of the rank have ended. */
static void send_to_server(struct bb_supervisor *s, const struct bb_trouble *trouble)
{
    const enum bb_star_kind kind = trouble->cause == BB_CAUSE_NONE   ? BB_STAR_BYE
                                   : trouble->cause == BB_CAUSE_HANG ? BB_STAR_HANG
                                                                     : BB_STAR_FAIL;
    const struct bb_child *child = bb_ranks_find(s, trouble->rank);
    struct bb_star_msg msg = bb_star_msg(kind, trouble->rank, trouble->code);

    msg.cause = (int16_t)trouble->cause;
    msg.signal = (int16_t)trouble->signal;
    if (child)
        bb_rank_page_read(child->page, &msg.seen);
    (void)bb_star_send(current_server(s), &msg, SEND_S);
}

void bb_peers_report(struct bb_supervisor *s, int rank, enum bb_cause cause, int signal, int code)
{
    if (s->ending_s > 0)
        return;
    if (s->role == BB_ROLE_MEMBER)
        send_to_server(s, &(struct bb_trouble){cause, rank, signal, code});
    take_report(s, rank, cause, signal, code);
}

void bb_peers_bye(struct bb_supervisor *s)
{
    for (int i = 0; i < s->n_children; i++) {
        if (s->role == BB_ROLE_MEMBER)
            send_to_server(s, &(struct bb_trouble){.rank = s->children[i].rank});
        else if (s->role == BB_ROLE_SERVER)
            take_bye(s, s->children[i].rank);
    }
    if (s->role == BB_ROLE_ALONE && (s->ending_s == 0 || !s->launched))
        bb_supervisor_event(s, BB_EVENT_ALL_ENDED);
}

/* Backup server: becomes the server, because the server is lost (BB_CAUSE_LOST) or does not answer (BB_CAUSE_NONE). */
static void take_over(struct bb_supervisor *s, enum bb_cause cause)
{
    s->role = BB_ROLE_SERVER;
    s->star.peers[0].seen = s->star.first_seen;
    s->star.peers[0].joined = true;
    s->star.peers[0].cause = cause;
    s->star.peers[0].answered = false;
}

/* Server: handles a message of the supervisor whose first rank is `lead`. */
static void serve_message(struct bb_supervisor *s, int lead, const struct bb_star_msg *msg)
{
    const int rank = (int)msg->rank;
    struct bb_peer *peer = &s->star.peers[rank];

    if (rank < lead || rank >= lead + s->star.peers[lead].count)
        return;
    if (msg->kind == BB_STAR_BYE) {
        take_bye(s, rank);
        return;
    }
    peer->seen = msg->seen;
    peer->answered = true;
    peer->stopped = msg->kind == BB_STAR_STATE && msg->code;
    if (msg->kind != BB_STAR_HANG && msg->kind != BB_STAR_FAIL)
        return;
    if (s->role != BB_ROLE_SERVER)
        take_over(s, BB_CAUSE_NONE); /* a supervisor reports to the backup server if the server does not answer */
    take_report(s, rank, msg->kind == BB_STAR_HANG ? BB_CAUSE_HANG : (enum bb_cause)msg->cause, msg->signal, msg->code);
}

static void end_by_server(struct bb_supervisor *s, const struct bb_star_msg *msg)
{
    s->trouble.signal = msg->signal;
    s->trouble.cause = (enum bb_cause)msg->cause;
    bb_supervisor_raise(s, &(struct bb_report){.event = BB_EVENT_END, .code = valid_code(msg->code)});
}

/* Handles a message of a server. */
static void obey_message(struct bb_supervisor *s, const struct bb_star_msg *msg)
{
    if (msg->kind == BB_STAR_STATE)
        s->star.first_seen = msg->seen;
    else if (msg->kind == BB_STAR_ASK)
        bb_peers_send_states(s, 0);
    else if (msg->kind == BB_STAR_END)
        end_by_server(s, msg);
    else if (msg->kind == BB_STAR_BYE)
        bb_supervisor_event(s, BB_EVENT_ALL_ENDED);
}

/* The connection to a server is closed. The backup server takes over the role of the server. */
static void lose_server(struct bb_supervisor *s, int i)
{
    bb_star_close(&s->star.servers[i]);
    if (i != 0)
        return;
    if (s->star.peers)
        take_over(s, BB_CAUSE_LOST);
    bb_supervisor_event(s, BB_EVENT_SERVER_LOST);
}

static void read_server(struct bb_supervisor *s, int i)
{
    struct bb_star_msg msg;
    int got;

    while (s->star.servers[i].fd >= 0 && (got = bb_star_receive(&s->star.servers[i], &msg)) != 0) {
        if (got < 0)
            lose_server(s, i);
        else
            obey_message(s, &msg);
    }
}

/* The connection to the supervisor whose first rank is `lead` is closed. A supervisor that has reported the end of its
 * ranks may exit at any time. */
static void lose_peer(struct bb_supervisor *s, int lead)
{
    struct bb_peer *peer = &s->star.peers[lead];

    bb_star_close(&peer->link);
    for (int r = lead; r < lead + peer->count; r++) {
        const bool reported = s->star.peers[r].ended || s->star.peers[r].cause != BB_CAUSE_NONE;

        s->star.peers[r].answered = true;
        if (s->role == BB_ROLE_SERVER && !reported)
            take_report(s, r, BB_CAUSE_LOST, 0, BB_ETIMEOUT);
        if (!s->star.peers[r].ended)
            take_bye(s, r);
    }
}

static void read_peer(struct bb_supervisor *s, int i)
{
    struct bb_star_msg msg;
    int got;

    while (s->star.peers[i].link.fd >= 0 && (got = bb_star_receive(&s->star.peers[i].link, &msg)) != 0) {
        if (got < 0)
            lose_peer(s, i);
        else if (msg.rank < (uint32_t)s->star.n_peers)
            serve_message(s, i, &msg);
    }
}

/* ---- accepted connections ---- */

static void seat_peer(struct bb_supervisor *s, struct bb_star_link *visitor, const struct bb_star_msg *msg)
{
    struct bb_star_msg hello = bb_star_msg(BB_STAR_HELLO, 0, 0);
    struct bb_peer *lead = &s->star.peers[msg->rank];

    lead->link = *visitor;
    lead->count = msg->code;
    visitor->fd = -1;
    for (int i = 0; i < msg->code; i++) {
        lead[i].joined = true;
        lead[i].seen = msg->seen;
    }
    bb_rank_page_read(s->children[0].page, &hello.seen);
    (void)bb_star_send(&lead->link, &hello, SEND_S);
    if (s->ending_s > 0)
        bb_peers_end(s);
}

/* Returns whether the sender of HELLO may be the supervisor of the ranks that it names. */
static bool is_free_seat(const struct bb_supervisor *s, const struct bb_star_msg *msg)
{
    const int64_t end = (int64_t)msg->rank + msg->code;

    if (msg->code < 1 || end > s->star.n_peers)
        return false;
    for (int64_t r = msg->rank; r < end; r++)
        if (s->star.peers[r].joined)
            return false;
    return true;
}

/* Reads the first message of an accepted connection. A valid HELLO makes the connection that of a supervisor. In
 * every other case the connection is closed. */
static void read_visitor(struct bb_supervisor *s, struct bb_star_link *visitor)
{
    struct bb_star_msg msg;
    int got = bb_star_receive(visitor, &msg);

    if (got == 0)
        return;
    if (got > 0)
        bb_star_take_key(visitor, &s->star.token, msg.nonce);
    if (got > 0 && bb_star_verify(visitor, &msg) && msg.kind == BB_STAR_HELLO && is_free_seat(s, &msg))
        seat_peer(s, visitor, &msg);
    bb_star_close(visitor); /* does nothing after seat_peer(), which has moved the connection to the peer */
}

/* Returns a free slot for an accepted connection. If there is none, closes the oldest one, whose supervisor will
 * reconnect. */
static struct bb_star_link *find_slot(struct bb_star *star)
{
    struct bb_star_link *oldest = &star->visitors[0];

    for (int i = 0; i < star->n_visitors; i++) {
        if (star->visitors[i].fd < 0)
            return &star->visitors[i];
        if (star->visitors[i].since_s < oldest->since_s)
            oldest = &star->visitors[i];
    }
    bb_star_close(oldest);
    return oldest;
}

static void read_visitors(struct bb_supervisor *s, double now_s)
{
    struct bb_star *star = &s->star;
    struct bb_star_link visitor;

    for (int i = 0; i < star->n_listen; i++)
        while (bb_star_accept(star->listen_fds[i], &visitor))
            *find_slot(star) = visitor;
    for (int i = 0; i < star->n_visitors; i++) {
        if (star->visitors[i].fd >= 0)
            read_visitor(s, &star->visitors[i]);
        if (star->visitors[i].fd >= 0 && now_s > star->visitors[i].since_s + VISITOR_S)
            bb_star_close(&star->visitors[i]);
    }
}

/* ---- the loop ---- */

void bb_peers_read(struct bb_supervisor *s, double now_s)
{
    for (int i = 0; i < BB_STAR_SERVERS; i++)
        read_server(s, i);
    for (int i = 0; i < s->star.n_peers; i++)
        read_peer(s, i);
    if (s->star.visitors)
        read_visitors(s, now_s);
    if (s->star.dialing >= 0)
        step_dial(s);
}

int bb_peers_polls(const struct bb_supervisor *s, struct pollfd *polls)
{
    const struct bb_star *star = &s->star;
    int n = 0;

    for (int i = 0; i < star->n_listen; i++)
        polls[n++] = (struct pollfd){.fd = star->listen_fds[i], .events = POLLIN};
    for (int i = 0; i < BB_STAR_SERVERS; i++)
        polls[n++] = (struct pollfd){.fd = star->servers[i].fd, .events = POLLIN};
    for (int i = 0; i < star->n_peers; i++)
        polls[n++] = (struct pollfd){.fd = star->peers[i].link.fd, .events = POLLIN};
    for (int i = 0; i < star->n_visitors; i++)
        polls[n++] = (struct pollfd){.fd = star->visitors[i].fd, .events = POLLIN};
    return n;
}

/* ---- sending ---- */

/* Sends a message to all supervisors that are connected to this one; a backup server thus repeats the messages of the
 * server, which does no harm. */
static void send_to_all(struct bb_supervisor *s, struct bb_star_msg msg)
{
    for (int i = 0; i < s->star.n_peers; i++)
        if (s->star.peers[i].link.fd >= 0)
            (void)bb_star_send(&s->star.peers[i].link, &msg, SEND_S);
}

void bb_peers_end(struct bb_supervisor *s)
{
    struct bb_star_msg end = bb_star_msg(BB_STAR_END, s->job.rank, s->code);

    end.cause = (int16_t)s->trouble.cause;
    end.signal = (int16_t)s->trouble.signal;
    send_to_all(s, end);
}

void bb_peers_dismiss(struct bb_supervisor *s)
{
    send_to_all(s, bb_star_msg(BB_STAR_BYE, s->job.rank, 0));
}

void bb_peers_fall_back(struct bb_supervisor *s)
{
    struct bb_trouble trouble = s->trouble;

    trouble.rank = s->job.rank;
    s->star.fell_back = true;
    send_to_server(s, &trouble);
}

void bb_peers_ask_states(struct bb_supervisor *s)
{
    for (int r = 0; r < s->star.n_peers; r++)
        s->star.peers[r].answered = bb_ranks_find(s, r) || !s->star.peers[r].joined;
    send_to_all(s, bb_star_msg(BB_STAR_ASK, s->job.rank, 0));
}

/* A rank that is suspended in MPI_Finalize gives no sign of life, and no other rank waits for it. */
void bb_peers_check(struct bb_supervisor *s, double now_s)
{
    if (s->role != BB_ROLE_SERVER || s->star.first_end_s == 0 || now_s < s->star.first_end_s + s->timeout_s ||
        s->ending_s > 0)
        return;
    s->star.first_end_s = INFINITY;
    for (int r = 0; r < s->star.n_peers; r++)
        if (!s->star.peers[r].ended) {
            take_report(s, r, BB_CAUSE_HANG, 0, BB_ETIMEOUT);
            return;
        }
}

bool bb_peers_joined(const struct bb_supervisor *s)
{
    for (int r = 0; r < s->star.n_peers; r++)
        if (!s->star.peers[r].joined)
            return false;
    return true;
}

bool bb_peers_answered(const struct bb_supervisor *s)
{
    for (int r = 0; r < s->star.n_peers; r++)
        if (!s->star.peers[r].answered)
            return false;
    return true;
}

static struct bb_star_msg state_of(const struct bb_child *child)
{
    struct bb_star_msg state = bb_star_msg(BB_STAR_STATE, child->rank, child->stopped);

    bb_rank_page_read(child->page, &state.seen);
    return state;
}

void bb_peers_send_states(struct bb_supervisor *s, double now_s)
{
    const double every_s = STATE_S * (1 + s->job.size / RANKS_PER_STATE_S); /* longer with many ranks, to limit the CPU
                                                                               time of the server */

    if (now_s > 0 && now_s < s->star.state_s + every_s)
        return;
    s->star.state_s = bb_now_s();
    if (s->role == BB_ROLE_SERVER)
        send_to_all(s, state_of(&s->children[0]));
    for (int i = 0; i < s->n_children && s->role == BB_ROLE_MEMBER; i++) {
        struct bb_star_msg state = state_of(&s->children[i]);

        (void)bb_star_send(current_server(s), &state, 0);
    }
}

void bb_peers_release(struct bb_supervisor *s)
{
    struct bb_star *star = &s->star;

    for (int i = 0; i < BB_STAR_SERVERS; i++)
        bb_star_close(&star->servers[i]);
    for (int i = 0; i < star->n_peers; i++)
        bb_star_close(&star->peers[i].link);
    for (int i = 0; i < star->n_visitors; i++)
        bb_star_close(&star->visitors[i]);
    for (int i = 0; i < star->n_listen; i++)
        close(star->listen_fds[i]);
    if (star->dialing >= 0)
        bb_star_dial_end(&star->dial);
    free(star->peers);
    free(star->visitors);
}
