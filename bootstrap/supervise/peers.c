/*
 * peers.c - the other supervisors of the job. The supervisor of rank 0 is the server: it collects reports and decides
 * when the job ends. All supervisors are also connected to a backup server, which takes over if the server is lost or
 * does not answer.
 */
#include "bootstrap/base/alloc.h"
#include "bootstrap/base/clock.h"
#include "bootstrap/results/checks.h"
#include "bootstrap/supervise/supervisor.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

/* Time limits in seconds: [0] to connect to a server, which limits the delay of the start if a firewall drops packets;
 * [1] for the server's answer, which may take long because thousands of supervisors may connect at once. */
static const double JOIN_S[] = {2, 10};
static const double HELLO_S = 5;   /* time limit for the first message of an accepted connection */
static const double STATE_S = 0.1; /* interval in seconds between two STATE messages of a rank in a small job */
static const double SEND_S = 0.05; /* time limit for sending one message */
/* SPARE_LINKS: connections beyond one per rank that a server accepts, for those that have not sent HELLO yet.
 * RANKS_PER_STATE_S: with this many more ranks, the interval between STATE messages is longer by STATE_S. */
enum { SPARE_LINKS = 64, RANKS_PER_STATE_S = 256 };

/* Returns what this supervisor knows about a rank; NULL: nothing, because only servers know ranks other than 0. */

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

/* Raises the soft limit on open files to the hard limit if n + 512 files may exceed it: a server has one connection per
 * supervisor. */
static void allow_files(int n)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= (rlim_t)n + 512)
        return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

/* Allocates star.peers for n ranks and star.links for n_links connections. The ranks of this supervisor count as
 * connected from the start. */
static void open_table(struct bb_supervisor *s, int n, int n_links)
{
    BB_NEW(s->star.peers, n);
    BB_NEW(s->star.links, n_links);
    s->star.n_peers = n;
    s->star.n_links = n_links;
    for (int r = 0; r < n; r++)
        s->star.peers[r].joined = s->star.peers[r].answered = bb_ranks_find(s, r) != NULL;
    for (int i = 0; i < n_links; i++)
        s->star.links[i].fd = -1;
}

int bb_peers_world(struct bb_supervisor *s, struct bb_star_endpoint *at)
{
    const int backup = bb_star_backup(s->job.size, s->job.node_of, s->n_children);
    const bool serves = s->job.rank == 0 || bb_ranks_find(s, backup), listens = serves && s->job.size > s->n_children;

    memset(at, 0, sizeof(*at));
    open_table(s, serves ? s->job.size : 1, BB_STAR_SERVERS + (listens ? s->job.size + SPARE_LINKS : 0));
    if (s->job.rank == 0)
        s->role = BB_ROLE_SERVER;
    if (!listens)
        return 0;
    if (s->job.rank == 0 && getrandom(&at->token, sizeof(at->token), 0) != sizeof(at->token))
        return bb_err(BB_EFAIL, "supervisor: getrandom: %s", strerror(errno));
    s->star.token = at->token;
    allow_files(2 * s->job.size);
    return bb_star_listen(s->job.nodes == 1, at, s->star.listen_fds, &s->star.n_listen);
}

/* Starts to connect to server i, or to the next one if this supervisor is server i or there is no server i. After the
 * last server, raises JOINED, or UNREACHABLE if no connection was made. */
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
    s->star.self = s->job.rank == 0 ? 0 : s->star.n_peers > 1 ? 1 : -1;
    memcpy(s->star.endpoints, endpoints, sizeof(s->star.endpoints));
    s->star.token = endpoints[0].token;
    dial_from(s, 0);
}

/* Continues the attempt to connect to a server. Returns whether it has ended; the next attempt may then have begun. */
static bool step_dial(struct bb_supervisor *s)
{
    const int i = s->star.dialing, done = bb_star_dial_step(&s->star.dial, &s->star.links[i]);

    if (done == 0)
        return false;
    if (done > 0 && i == 0)
        s->star.peers[0].seen = s->star.dial.reply.seen;
    if (done > 0 && s->role == BB_ROLE_ALONE)
        s->role = BB_ROLE_MEMBER;
    dial_from(s, i + 1);
    return true;
}

/* ---- handling messages ---- */

static int valid_code(int code)
{
    return code >= BB_EFAIL && code <= BB_EWARN ? code : BB_EFAIL;
}

/* Stores a report about `rank`, and raises the event that belongs to the cause. */
static void take_report(struct bb_supervisor *s, int rank, enum bb_cause cause, int signal, int code)
{
    static const enum bb_event events[] = {[BB_CAUSE_HANG] = BB_EVENT_HANG,
                                           [BB_CAUSE_SIGNAL] = BB_EVENT_SIGNAL,
                                           [BB_CAUSE_LOST] = BB_EVENT_LOST,
                                           [BB_CAUSE_PRINTED] = BB_EVENT_FAILED};
    const bool restarts = s->role != BB_ROLE_ALONE && atomic_load(&s->children[0].page->restarts);
    struct bb_peer *peer = entry_of(s, rank);
    enum bb_event event;

    if (cause <= BB_CAUSE_NONE || cause > BB_CAUSE_PRINTED || (peer && peer->left))
        return;
    event = events[cause];
    if (peer) {
        peer->hung = peer->hung || cause == BB_CAUSE_HANG;
        peer->cause = cause > peer->cause ? cause : peer->cause;
    }
    if (cause == BB_CAUSE_PRINTED && restarts) /* the rank may have failed because another one is lost */
        event = BB_EVENT_SIGNAL;
    bb_supervisor_raise(s, event, (struct bb_trouble){cause, rank, signal, valid_code(code)});
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

struct bb_star_link *bb_peers_server(struct bb_supervisor *s)
{
    return &s->star.links[s->star.links[0].fd >= 0 && !s->star.fell_back ? 0 : 1];
}

/* Member: informs the server about the trouble of a rank (FAIL), or, if the cause is BB_CAUSE_NONE, that all processes
 * of the rank have ended (BYE). */
static void send_to_server(struct bb_supervisor *s, const struct bb_trouble *trouble)
{
    const enum bb_star_kind kind = trouble->cause == BB_CAUSE_NONE ? BB_STAR_BYE : BB_STAR_FAIL;
    const struct bb_child *child = bb_ranks_find(s, trouble->rank);
    struct bb_star_msg msg = bb_star_msg(kind, trouble->rank, trouble->code);

    msg.cause = (int16_t)trouble->cause;
    msg.signal = (int16_t)trouble->signal;
    if (child)
        bb_rank_page_read(child->page, &msg.seen);
    if (kind == BB_STAR_FAIL)
        memcpy(msg.error, s->printed, sizeof(msg.error));
    else if (child && child->code) /* all ranks end after this error, but another rank may write the results */
        memcpy(msg.error, child->page->error.text, sizeof(msg.error) - 1);
    (void)bb_star_send(bb_peers_server(s), &msg, SEND_S);
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
    s->star.peers[0].joined = true;
    s->star.peers[0].cause = cause;
    s->star.peers[0].answered = false;
}

/* Returns whether the supervisor of a rank is connected, as far as is known. After a hang, it has also answered ASK. */
static bool is_reachable(const struct bb_supervisor *s, const struct bb_peer *peer)
{
    return peer->joined && peer->cause != BB_CAUSE_LOST && (peer->answered || s->trouble.cause != BB_CAUSE_HANG);
}

bool bb_peers_cut_off(const struct bb_supervisor *s)
{
    const int *node_of = s->job.node_of, own = s->job.rank;
    bool others = false;

    if (own == 0 || s->job.nodes < 3 || s->role == BB_ROLE_MEMBER)
        return false;
    if (s->role == BB_ROLE_ALONE) /* the backup server does not answer either */
        return s->star.fell_back && node_of[own] != node_of[bb_star_backup(s->job.size, node_of, s->n_children)];
    for (int r = 0; r < s->star.n_peers; r++) {
        if (node_of[r] == node_of[0] || node_of[r] == node_of[own])
            continue;
        others = true;
        if (is_reachable(s, &s->star.peers[r]))
            return false;
    }
    return others;
}

/* Server: handles a message of another supervisor about one of its ranks. */
static void serve_message(struct bb_supervisor *s, const struct bb_star_link *link, const struct bb_star_msg *msg)
{
    const int rank = (int)msg->rank;
    const bool is_late = s->state == BB_STATE_RESTARTING && msg->kind == BB_STAR_FAIL &&
                         (msg->cause == BB_CAUSE_PRINTED || msg->cause == BB_CAUSE_HANG); /* sent before STOP arrived */
    struct bb_peer *peer;

    if (rank < link->rank || rank >= link->rank + link->count || is_late)
        return;
    if (!s->printed[0] && (msg->kind == BB_STAR_FAIL || msg->kind == BB_STAR_BYE))
        memcpy(s->printed, msg->error, sizeof(s->printed) - 1);
    if (msg->kind == BB_STAR_BYE) {
        take_bye(s, rank);
        return;
    }
    if (msg->kind == BB_STAR_READY || msg->kind == BB_STAR_DATA) {
        bb_restart_serve(s, link, msg);
        return;
    }
    peer = &s->star.peers[rank];
    peer->seen = msg->seen;
    peer->answered = true;
    peer->stopped = msg->kind == BB_STAR_STATE && msg->code;
    if (msg->kind != BB_STAR_FAIL)
        return;
    if (s->role != BB_ROLE_SERVER)
        take_over(s, BB_CAUSE_NONE); /* a supervisor reports to the backup server if the server does not answer */
    take_report(s, rank, (enum bb_cause)msg->cause, msg->signal, msg->code);
}

/* Handles a message from a server. */
static void obey_message(struct bb_supervisor *s, const struct bb_star_msg *msg)
{
    if (msg->kind == BB_STAR_STATE)
        s->star.peers[0].seen = msg->seen;
    else if (msg->kind == BB_STAR_ASK)
        bb_peers_send_states(s, 0);
    else if (msg->kind == BB_STAR_END)
        bb_supervisor_raise(
            s, BB_EVENT_END,
            (struct bb_trouble){(enum bb_cause)msg->cause, (int)msg->rank, msg->signal, valid_code(msg->code)});
    else if (msg->kind == BB_STAR_BYE)
        bb_supervisor_event(s, BB_EVENT_ALL_ENDED);
    else if (msg->kind >= BB_STAR_LEAVE)
        bb_restart_obey(s, msg);
}

/* Returns whether the message is a valid HELLO: the ranks that its sender supervises (msg->code ranks from msg->rank
 * on) exist, and no other supervisor has claimed them. */
static bool is_free_seat(const struct bb_supervisor *s, const struct bb_star_msg *msg)
{
    const int64_t end = (int64_t)msg->rank + msg->code;

    if (msg->kind != BB_STAR_HELLO || msg->code < 1 || end > s->star.n_peers)
        return false;
    for (int64_t r = msg->rank; r < end; r++)
        if (s->star.peers[r].joined)
            return false;
    return true;
}

/* Handles the first message of an accepted connection: after a valid HELLO, assigns the named ranks to the connection
 * and answers; otherwise, closes the connection. */
static void seat_peer(struct bb_supervisor *s, struct bb_star_link *link, const struct bb_star_msg *msg)
{
    struct bb_star_msg hello = bb_star_msg(BB_STAR_HELLO, 0, 0);

    if (!is_free_seat(s, msg)) {
        bb_star_close(link);
        return;
    }
    link->rank = (int)msg->rank;
    link->count = msg->code;
    for (int r = link->rank; r < link->rank + link->count; r++) {
        s->star.peers[r].joined = true;
        s->star.peers[r].seen = msg->seen;
    }
    bb_rank_page_read(s->children[0].page, &hello.seen);
    (void)bb_star_send(link, &hello, SEND_S);
    if (s->ending_s > 0)
        bb_peers_end(s);
}

/* Handles the loss of the connection to the server: raises SERVER_LOST. The backup server takes over before. */
static void lose_server(struct bb_supervisor *s)
{
    if (s->star.n_peers > 1)
        take_over(s, BB_CAUSE_LOST);
    bb_supervisor_raise(s, BB_EVENT_SERVER_LOST, (struct bb_trouble){.cause = BB_CAUSE_LOST, .code = BB_ETIMEOUT});
}

/* Handles a connection that the other side has closed. The server reports the ranks of the other side as lost, except
 * ranks that have ended: their supervisor may exit at any time. */
static void lose_link(struct bb_supervisor *s, struct bb_star_link *link)
{
    bb_star_close(link);
    if (link == &s->star.links[0])
        lose_server(s);
    for (int r = link->rank; r < link->rank + link->count; r++) {
        struct bb_peer *peer = &s->star.peers[r];

        peer->answered = peer->unsupervised = true;
        if (s->role == BB_ROLE_SERVER && !peer->ended && peer->cause == BB_CAUSE_NONE)
            take_report(s, r, BB_CAUSE_LOST, 0, BB_ETIMEOUT);
        if (!peer->ended)
            take_bye(s, r);
    }
}

static void read_link(struct bb_supervisor *s, struct bb_star_link *link)
{
    struct bb_star_msg msg;
    int got;

    while (link->fd >= 0 && (got = bb_star_receive(link, &msg)) != 0) {
        if (got < 0)
            lose_link(s, link);
        else if (!link->called)
            obey_message(s, &msg);
        else if (link->count == 0)
            seat_peer(s, link, &msg);
        else
            serve_message(s, link, &msg);
    }
}

/* Returns a free element of links[] for an accepted connection. If none is free, closes the oldest connection that has
 * not sent HELLO; its supervisor will reconnect. */
static struct bb_star_link *find_slot(struct bb_star *star)
{
    struct bb_star_link *oldest = NULL;

    for (int i = BB_STAR_SERVERS; i < star->n_links; i++) {
        struct bb_star_link *link = &star->links[i];

        if (link->fd < 0)
            return link;
        if (link->count == 0 && (!oldest || link->since_s < oldest->since_s))
            oldest = link;
    }
    bb_star_close(oldest);
    return oldest;
}

/* ---- the loop ---- */

void bb_peers_read(struct bb_supervisor *s, double now_s)
{
    struct bb_star *star = &s->star;
    struct bb_star_link accepted;

    for (int i = 0; i < star->n_listen; i++)
        while (bb_star_accept(star->listen_fds[i], &star->token, &accepted))
            *find_slot(star) = accepted;
    for (int i = 0; i < star->n_links; i++) {
        struct bb_star_link *link = &star->links[i];

        read_link(s, link);
        if (link->called && link->count == 0 && now_s > link->since_s + HELLO_S)
            bb_star_close(link);
    }
    while (star->dialing >= 0 && step_dial(s))
        ;
}

int bb_peers_polls(const struct bb_supervisor *s, struct pollfd *polls)
{
    const struct bb_star *star = &s->star;
    int n = 0;

    for (int i = 0; i < star->n_listen; i++)
        polls[n++] = (struct pollfd){.fd = star->listen_fds[i], .events = POLLIN};
    for (int i = 0; i < star->n_links; i++)
        polls[n++] = (struct pollfd){.fd = star->links[i].fd, .events = POLLIN};
    for (int i = 0; star->dialing >= 0 && i < star->dial.tried; i++)
        polls[n++] = (struct pollfd){.fd = star->dial.links[i].fd,
                                     .events = star->dial.states[i] == BB_CONNECTING ? POLLOUT : POLLIN};
    return n;
}

/* ---- sending ---- */

/* Sends a message to all supervisors that have connected to this one. On the backup server, this may repeat a message
 * that the server has sent; such a repetition has no effect. */
void bb_peers_send_all(struct bb_supervisor *s, struct bb_star_msg msg)
{
    for (int i = 0; i < s->star.n_links; i++)
        if (s->star.links[i].fd >= 0 && s->star.links[i].count > 0)
            (void)bb_star_send(&s->star.links[i], &msg, SEND_S);
}

void bb_peers_end(struct bb_supervisor *s)
{
    struct bb_star_msg end = bb_star_msg(BB_STAR_END, s->job.rank, s->code);

    end.cause = (int16_t)s->trouble.cause;
    end.signal = (int16_t)s->trouble.signal;
    bb_peers_send_all(s, end);
}

void bb_peers_dismiss(struct bb_supervisor *s)
{
    bb_peers_send_all(s, bb_star_msg(BB_STAR_BYE, s->job.rank, 0));
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
        s->star.peers[r].answered = bb_ranks_find(s, r) || !s->star.peers[r].joined || s->star.peers[r].left;
    bb_peers_send_all(s, bb_star_msg(BB_STAR_ASK, s->job.rank, 0));
}

/* Server: when timeout_s has passed since the first rank ended, reports the lowest rank that has not ended as hanging.
 * Such a rank (for example, suspended in MPI_Finalize) sends no report, and no other rank waits for it. */
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
    const double every_s = STATE_S * (1 + s->job.size / RANKS_PER_STATE_S); /* increases with the number of ranks, to
                                                                               limit the CPU time of the server */

    if (now_s > 0 && now_s < s->star.state_s + every_s)
        return;
    s->star.state_s = bb_now_s();
    if (s->role == BB_ROLE_SERVER)
        bb_peers_send_all(s, state_of(&s->children[0]));
    for (int i = 0; i < s->n_children && s->role == BB_ROLE_MEMBER; i++) {
        struct bb_star_msg state = state_of(&s->children[i]);

        (void)bb_star_send(bb_peers_server(s), &state, 0);
    }
}

void bb_peers_release(struct bb_supervisor *s)
{
    struct bb_star *star = &s->star;

    for (int i = 0; i < star->n_links; i++)
        bb_star_close(&star->links[i]);
    for (int i = 0; i < star->n_listen; i++)
        close(star->listen_fds[i]);
    if (star->dialing >= 0)
        bb_star_dial_end(&star->dial);
    bb_restart_drop_data(s);
    free(star->peers);
    free(star->links);
    json_decref(s->lost);
}
