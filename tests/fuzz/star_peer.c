/*
 * star_peer.c - messages of supervisors that know the token: any kind, number, signal and text, in any order. The first
 * byte selects the receiver: the server, the backup server or another supervisor; the second selects which ranks send
 * HELLO at the start. Each message is a header of 14 bytes followed by its two texts.
 */
#include "bootstrap/results/checks.h"
#include "tests/fuzz/supervisor.h"

struct head {
    uint8_t from, kind, text, wait; /* text, wait: lengths of the two texts in bytes */
    int16_t code, cause, signal;
    uint16_t rank;
    uint16_t step;
};

/* Kinds that are no messages: the sender closes its connection; an own rank hangs; the ranks have ended; the time limit
 * of the state has passed. */
enum { HEAD = 14, KINDS = 16, OWN_HANG = 12, OWN_END, TIMER, CLOSES };

struct job {
    struct fuzz_supervisor f;
    struct bb_star_link callers[RANKS], servers[BB_STAR_SERVERS]; /* other ends of the connections; fd -1: none */
};

/* Decodes a message. Returns the number of bytes that it used. */
static size_t read_message(struct head *h, struct bb_star_msg *msg, const uint8_t *data, size_t size)
{
    uint8_t bytes[HEAD + 2 * BB_SEEN_TEXT] = {0};

    memcpy(bytes, data, size < sizeof(bytes) ? size : sizeof(bytes));
    *h = (struct head){.from = bytes[0],
                       .kind = bytes[1] % KINDS,
                       .text = bytes[2] % (BB_SEEN_TEXT + 1),
                       .wait = bytes[3] % (BB_SEEN_TEXT + 1)};
    memcpy(&h->code, bytes + 4, 2);
    memcpy(&h->cause, bytes + 6, 2);
    memcpy(&h->signal, bytes + 8, 2);
    memcpy(&h->rank, bytes + 10, 2);
    memcpy(&h->step, bytes + 12, 2);
    *msg = bb_star_msg(h->kind, h->rank, h->code);
    msg->cause = h->cause;
    msg->signal = h->signal;
    msg->seen.step = h->step;
    memcpy(msg->seen.text, bytes + HEAD, h->text);
    memcpy(msg->seen.wait, bytes + HEAD + h->text, h->wait);
    return HEAD + (size_t)h->text + h->wait;
}

static void drain(struct bb_star_link *link)
{
    char ignored[4096];

    while (link->fd >= 0 && recv(link->fd, ignored, sizeof(ignored), MSG_DONTWAIT) > 0)
        continue;
}

/* Sends a message to the server as a connected supervisor, or as the first message of a new connection. */
static void send_as_caller(struct job *j, struct bb_star_link *caller, struct bb_star_msg *msg)
{
    if (caller->fd < 0) {
        connect_link(&j->f, caller);
        fuzz_random(&msg->nonce, sizeof(msg->nonce));
        bb_star_take_key(caller, &j->f.s.star.token, msg->nonce);
    }
    if (bb_star_send(caller, msg, 0))
        bb_star_close(caller); /* the supervisor has closed the connection */
}

static void send_message(struct job *j, const struct head *h, struct bb_star_msg *msg)
{
    struct bb_star_link *caller = &j->callers[h->from % RANKS], *server = &j->servers[h->from >> 2 & 1];
    const bool by_server = j->f.s.star.n_peers == 1 || (h->from & 0x80);

    if (h->kind == CLOSES)
        bb_star_close(by_server ? server : caller);
    else if (by_server)
        (void)bb_star_send(server, msg, 0);
    else
        send_as_caller(j, caller, msg);
}

static void act(struct job *j, const struct head *h, struct bb_star_msg *msg)
{
    struct bb_supervisor *s = &j->f.s;

    if (h->kind == OWN_HANG && s->ending_s == 0) {
        bb_peers_report(s, s->job.rank, BB_CAUSE_HANG, 0, BB_ETIMEOUT);
    } else if (h->kind == OWN_END) {
        j->f.child.pid = 0;
        bb_supervisor_event(s, s->state == BB_STATE_ENDING ? BB_EVENT_GONE : BB_EVENT_DONE);
    } else if (h->kind == TIMER) {
        bb_supervisor_event(s, BB_EVENT_TIMER);
    } else {
        send_message(j, h, msg);
    }
    bb_peers_read(s, bb_now_s());
    bb_peers_send_states(s, bb_now_s());
    for (int i = 0; i < RANKS; i++)
        drain(&j->callers[i]);
    for (int i = 0; i < BB_STAR_SERVERS; i++)
        drain(&j->servers[i]);
}

/* Connects the supervisor to a server. */
static void connect_server(struct job *j, int i)
{
    struct bb_star_link *ours = &j->f.s.star.links[i], *theirs = &j->servers[i];
    uint64_t nonces[2];
    int ends[2];

    fuzz_random(nonces, sizeof(nonces));
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends))
        exit(0);
    *ours = (struct bb_star_link){.fd = ends[0], .nonce = nonces[0]};
    *theirs = (struct bb_star_link){.fd = ends[1], .nonce = nonces[0], .called = true};
    bb_star_take_key(ours, &j->f.s.star.token, nonces[1]);
    bb_star_take_key(theirs, &j->f.s.star.token, nonces[1]);
}

static void start_job(struct job *j, int rank, uint8_t joined)
{
    struct bb_supervisor *s = &j->f.s;

    start_supervisor(&j->f, rank, RANKS);
    open_star(&j->f);
    s->state = BB_STATE_RUNNING;
    s->role = rank == 0 ? BB_ROLE_SERVER : BB_ROLE_MEMBER;
    s->job.nodes = 1;
    j->f.child.alive = true;
    for (int i = 0; i < RANKS; i++)
        j->callers[i] = (struct bb_star_link){.fd = -1};
    for (int i = 0; i < BB_STAR_SERVERS; i++)
        j->servers[i] = (struct bb_star_link){.fd = -1};
    for (int i = 0; i < BB_STAR_SERVERS && rank > 0; i++)
        if (i != rank)
            connect_server(j, i);
    if (rank < BB_STAR_SERVERS)
        start_server(&j->f);
    for (int r = 0; r < RANKS && rank < BB_STAR_SERVERS; r++) {
        struct bb_star_msg hello = bb_star_msg(BB_STAR_HELLO, r, 1);

        if (joined >> r & 1)
            act(j, &(struct head){.from = (uint8_t)r, .kind = BB_STAR_HELLO}, &hello);
        HOLDS(!(joined >> r & 1) || s->star.peers[r].joined);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bb_star_msg msg;
    struct head h;
    struct job j;

    if (size < 2)
        return 0;
    start_job(&j, data[0] % 3, data[1]);
    for (size_t at = 2; at < size && j.f.s.state != BB_STATE_OVER;) {
        at += read_message(&h, &msg, data + at, size - at);
        act(&j, &h, &msg);
        check_texts(&j.f);
    }
    for (int i = 0; i < BB_STATES && j.f.s.state != BB_STATE_OVER; i++) /* all time limits pass */
        act(&j, &(struct head){.kind = TIMER}, &msg);
    HOLDS(j.f.s.ending_s == 0 || (j.f.s.code >= BB_EFAIL && j.f.s.code <= BB_EWARN));
    HOLDS(strlen(j.f.s.line) < BB_VERDICT_LINE);
    for (int i = 0; i < RANKS; i++)
        bb_star_close(&j.callers[i]);
    for (int i = 0; i < BB_STAR_SERVERS; i++)
        bb_star_close(&j.servers[i]);
    stop_supervisor(&j.f);
    return 0;
}
