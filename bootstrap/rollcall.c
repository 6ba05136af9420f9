/*
 * rollcall.c - the thread of the roll call and what the main thread asks of it. The lock is held except while the
 * thread sleeps in poll, so each function sees the roll as it is; nothing under the lock blocks for more than a moment.
 */
#include "bootstrap/rollcall.h"

#include "bootstrap/clock.h"
#include "bootstrap/roll.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

static const double STATE_EVERY_S = 0.1; /* news of a rank's steps */
static const double GATHER_S = 0.3;      /* after the first hang: the others' states and hangs come in */
static const double GATHER_LOST_S = 0.05;
static const double ANSWER_S = 3;  /* rank 0 must have judged by then */
static const double STUCK_S = 0.3; /* after the end was decided */
static const double TELL_S = 0.5;
static const double EXIT_S = 0.8;

static void copy_text(char *to, const char *from)
{
    snprintf(to, BB_ROLL_TEXT, "%s", from);
}

static void poke(struct bb_rollcall *roll)
{
    uint64_t one = 1;

    if (write(roll->poke_fd, &one, sizeof(one)) < 0)
        return; /* the counter is full: it is awake */
}

static struct bb_roll_msg state_msg(const struct bb_rollcall *roll, enum bb_roll_kind kind, int code)
{
    struct bb_roll_msg msg = bb_roll_msg(kind, (uint32_t)roll->rank, code);

    msg.seen = roll->mine;
    return msg;
}

/* Waits for a flag of the roll under the lock, at most so long. */
static void await(struct bb_rollcall *roll, bool (*flag)(const struct bb_rollcall *), double patience_s)
{
    double end_s = bb_now_s() + patience_s;
    struct timespec until = {.tv_sec = (time_t)end_s, .tv_nsec = (long)(1e9 * (end_s - (double)(time_t)end_s))};

    while (!flag(roll))
        if (pthread_cond_timedwait(&roll->news, &roll->lock, &until))
            return;
}

/* ---- hooks: run by a thread of their own, so that a file system or NCCL that hangs cannot keep the process ---- */

static void run_hooks(struct bb_rollcall *roll, enum bb_roll_when when)
{
    pthread_mutex_lock(&roll->hooks_lock);
    for (int i = roll->n_hooks - 1; i >= 0; i--)
        if (roll->hooks[i].when == when)
            roll->hooks[i].fn(roll->hooks[i].arg, roll->ending);
    pthread_mutex_unlock(&roll->hooks_lock);
}

static bool is_releasing(const struct bb_rollcall *roll)
{
    return roll->releasing;
}

static void *hooks_thread(void *arg)
{
    struct bb_rollcall *roll = arg;
    bool releasing;

    run_hooks(roll, BB_ROLL_AT_ONCE);
    fflush(stdout); /* what was printed so far: _exit would lose it */
    pthread_mutex_lock(&roll->lock);
    await(roll, is_releasing, STUCK_S);
    releasing = roll->releasing;
    pthread_mutex_unlock(&roll->lock);
    if (!releasing)
        run_hooks(roll, BB_ROLL_STUCK);
    return NULL;
}

int bb_rollcall_hook(struct bb_rollcall *roll, enum bb_roll_when when, bb_at_end *fn, void *arg)
{
    int rc = 0;

    pthread_mutex_lock(&roll->hooks_lock);
    if (roll->n_hooks == BB_HOOKS_MAX)
        rc = bb_err(BB_EFAIL, "more than %d things to do at an early end", BB_HOOKS_MAX);
    else
        roll->hooks[roll->n_hooks++] = (struct bb_hook){when, fn, arg};
    pthread_mutex_unlock(&roll->hooks_lock);
    return rc;
}

void bb_rollcall_forget(struct bb_rollcall *roll, bb_at_end *fn, void *arg)
{
    int kept = 0;

    pthread_mutex_lock(&roll->hooks_lock);
    for (int i = 0; i < roll->n_hooks; i++)
        if (roll->hooks[i].fn != fn || roll->hooks[i].arg != arg)
            roll->hooks[kept++] = roll->hooks[i];
    roll->n_hooks = kept;
    pthread_mutex_unlock(&roll->hooks_lock);
}

/* ---- messages ---- */

static void take_fail(struct bb_rollcall *roll, struct bb_peer *peer, int code)
{
    int rank = (int)(peer - roll->peers);

    peer->done = true;
    if (!roll->ending && !roll->failing && !roll->signal)
        bb_err((enum bb_error)code, "rank %d (%s) failed, the job ends with exit code %d", rank, roll->hosts[rank],
               code);
    bb_roll_end(roll, code);
}

static void take(struct bb_rollcall *roll, struct bb_peer *peer, const struct bb_roll_msg *msg)
{
    switch (msg->kind) {
    case ROLL_HANG:
        peer->hung = true;
        if (roll->judge_s == 0)
            roll->judge_s = bb_now_s() + GATHER_S;
        /* fall through */
    case ROLL_STATE:
        peer->seen = msg->seen;
        break;
    case ROLL_FAIL:
        take_fail(roll, peer, msg->code);
        break;
    case ROLL_BYE:
        peer->done = true;
        roll->left = roll->left || roll->rank != 0; /* rank 0's BYE is for all */
        pthread_cond_broadcast(&roll->news);
        break;
    case ROLL_END:
        roll->end_heard = true;
        bb_roll_end(roll, msg->code);
        break;
    }
}

static void take_loss(struct bb_rollcall *roll, struct bb_peer *peer)
{
    bb_roll_close(&peer->link);
    pthread_cond_broadcast(&roll->news);
    if (peer->done || roll->ending || roll->left)
        return;
    if (roll->rank != 0) {
        bb_roll_judge_server_lost(roll);
        return;
    }
    peer->lost = true;
    if (roll->lost_s == 0)
        roll->lost_s = bb_now_s() + GATHER_LOST_S;
}

static void read_peer(struct bb_rollcall *roll, struct bb_peer *peer)
{
    struct bb_roll_msg msg;
    int got;

    while (peer->link.fd >= 0 && (got = bb_roll_receive(&peer->link, &msg)) != 0) {
        if (got > 0)
            take(roll, peer, &msg);
        else
            take_loss(roll, peer);
    }
}

/* A visitor that knows the token and a free rank becomes that rank's peer; any other is shown the door. */
static void read_visitor(struct bb_rollcall *roll, struct bb_roll_link *visitor)
{
    struct bb_roll_msg msg, hello = bb_roll_msg(ROLL_HELLO, 0, 0);
    int got = bb_roll_receive(visitor, &msg);
    struct bb_peer *peer;

    if (got == 0)
        return;
    if (got < 0 || msg.kind != ROLL_HELLO || msg.token != roll->token || msg.rank == 0 ||
        msg.rank >= (uint32_t)roll->size || roll->peers[msg.rank].joined) {
        bb_roll_close(visitor);
        return;
    }
    peer = &roll->peers[msg.rank];
    peer->link = *visitor;
    peer->joined = true;
    visitor->fd = -1;
    hello.token = roll->token;
    bb_roll_send(&peer->link, &hello, 0.1);
}

static void admit(struct bb_rollcall *roll)
{
    int fd;

    while ((fd = bb_roll_accept(roll->listen_fd)) >= 0) {
        int i = 0;

        while (i < roll->n_peers && roll->visitors[i].fd >= 0)
            i++;
        if (i == roll->n_peers)
            close(fd);
        else
            roll->visitors[i] = (struct bb_roll_link){.fd = fd};
    }
}

static void read_signal(struct bb_rollcall *roll)
{
    struct signalfd_siginfo info;

    if (read(roll->signal_fd, &info, sizeof(info)) != sizeof(info) || roll->signal)
        return;
    roll->signal = (int)info.ssi_signo;
    roll->signal_s = bb_now_s() + GATHER_S; /* mpirun sends it when a rank dies: its loss may not be known yet */
}

/* ---- what time brings ---- */

static void send_state(struct bb_rollcall *roll, double now_s)
{
    struct bb_roll_msg msg = state_msg(roll, ROLL_STATE, 0);
    double every_s = STATE_EVERY_S * (1 + roll->size / 256); /* keeps rank 0's share of a core small */
    bool sent = true;

    if (!roll->changed || now_s - roll->sent_s < every_s)
        return;
    for (int i = 0; i < roll->n_peers; i++)
        if (roll->peers[i].link.fd >= 0)
            sent = bb_roll_send(&roll->peers[i].link, &msg, 0) == 0 && sent;
    roll->changed = !sent;
    roll->sent_s = now_s;
}

static void check_guard(struct bb_rollcall *roll, double now_s)
{
    if (!roll->guard || now_s < roll->guard_end_s || roll->hung)
        return;
    roll->hung = true;
    roll->hang_s = now_s;
}

static bool has_server(const struct bb_rollcall *roll)
{
    return roll->rank == 0 ? roll->n_peers > 0 : roll->n_peers > 0 && roll->peers[0].link.fd >= 0;
}

static void say_hang(struct bb_rollcall *roll, double now_s)
{
    struct bb_roll_msg msg = state_msg(roll, ROLL_HANG, 0);

    if (!roll->hung || roll->ending)
        return;
    if (!has_server(roll) || now_s > roll->hang_s + ANSWER_S) {
        bb_roll_judge_alone(roll);
    } else if (!roll->hang_said) {
        roll->hang_said = true;
        if (roll->rank == 0)
            take(roll, &roll->peers[0], &msg);
        else
            bb_roll_send(&roll->peers[0].link, &msg, 0.5);
    }
}

static void say_fail(struct bb_rollcall *roll)
{
    struct bb_roll_msg msg = state_msg(roll, ROLL_FAIL, roll->failing);

    if (!roll->failing || roll->fail_said || roll->ending)
        return;
    roll->fail_said = true;
    if (roll->rank == 0 || !has_server(roll) || bb_roll_send(&roll->peers[0].link, &msg, 0.5))
        bb_roll_end(roll, roll->failing);
}

static bool all_done(const struct bb_rollcall *roll)
{
    for (int r = 1; r < roll->n_peers; r++)
        if (roll->peers[r].joined && !roll->peers[r].done)
            return false;
    return true;
}

static void say_bye(struct bb_rollcall *roll)
{
    struct bb_roll_msg bye = bb_roll_msg(ROLL_BYE, (uint32_t)roll->rank, 0);

    if (!roll->leaving || roll->bye_said || roll->ending || (roll->rank == 0 && !all_done(roll)))
        return;
    roll->bye_said = true;
    for (int i = roll->rank == 0; i < roll->n_peers; i++)
        bb_roll_send(&roll->peers[i].link, &bye, 0.5);
    roll->left = roll->left || roll->rank == 0 || !has_server(roll);
    pthread_cond_broadcast(&roll->news);
}

static void check_signal(struct bb_rollcall *roll, double now_s)
{
    if (!roll->signal || now_s < roll->signal_s || roll->ending)
        return;
    if (roll->rank == 0)
        bb_err(BB_EFAIL, "ended by %s", strsignal(roll->signal));
    bb_roll_end(roll, BB_EFAIL);
}

/* A main thread that is on its way out saves and aborts by itself. */
static void check_end(struct bb_rollcall *roll, double now_s)
{
    if (!roll->ending)
        return;
    if (!roll->hooks_started && !roll->releasing)
        roll->hooks_started = pthread_create(&roll->hooks_thread, NULL, hooks_thread, roll) == 0;
    if (now_s > roll->ending_s + EXIT_S)
        _exit(bb_exit_code(roll->ending));
}

static void look(struct bb_rollcall *roll)
{
    double now_s = bb_now_s();

    if (roll->lost_s > 0 && now_s >= roll->lost_s && !roll->ending)
        bb_roll_judge_lost(roll);
    if (roll->judge_s > 0 && now_s >= roll->judge_s && !roll->ending)
        bb_roll_judge_hang(roll);
    check_guard(roll, now_s);
    say_hang(roll, now_s);
    say_fail(roll);
    say_bye(roll);
    check_signal(roll, now_s);
    send_state(roll, now_s);
    check_end(roll, now_s);
}

/* ---- the thread ---- */

/* Waits for anything to come. Links are only opened and closed by this thread, or before it knows of them. */
static void sleep_until_news(struct bb_rollcall *roll, struct pollfd *polls)
{
    int n = 0, ms = roll->lost_s > 0 || roll->judge_s > 0 || roll->signal || roll->ending ? 10 : 100;
    uint64_t pokes;

    polls[n++] = (struct pollfd){.fd = roll->poke_fd, .events = POLLIN};
    polls[n++] = (struct pollfd){.fd = roll->signal_fd, .events = POLLIN};
    polls[n++] = (struct pollfd){.fd = roll->listen_fd, .events = POLLIN};
    for (int i = 0; i < roll->n_peers; i++)
        polls[n++] = (struct pollfd){.fd = roll->peers[i].link.fd, .events = POLLIN};
    for (int i = 0; roll->visitors && i < roll->n_peers; i++)
        polls[n++] = (struct pollfd){.fd = roll->visitors[i].fd, .events = POLLIN};
    pthread_mutex_unlock(&roll->lock);
    poll(polls, (nfds_t)n, ms);
    pthread_mutex_lock(&roll->lock);
    if (polls[0].revents && read(roll->poke_fd, &pokes, sizeof(pokes)) < 0)
        return;
}

static void read_all(struct bb_rollcall *roll)
{
    read_signal(roll);
    for (int i = 0; i < roll->n_peers; i++)
        read_peer(roll, &roll->peers[i]);
    if (!roll->visitors)
        return;
    admit(roll);
    for (int i = 0; i < roll->n_peers; i++)
        if (roll->visitors[i].fd >= 0)
            read_visitor(roll, &roll->visitors[i]);
}

static void *roll_thread(void *arg)
{
    struct bb_rollcall *roll = arg;
    struct pollfd *polls = NULL;
    int room = 0;

    pthread_mutex_lock(&roll->lock);
    while (!roll->stop) {
        if (!polls || room < roll->n_peers) {
            struct pollfd *more = realloc(polls, (size_t)(3 + 2 * roll->n_peers) * sizeof(*polls));

            if (!more)
                break; /* the run goes on without a roll call */
            polls = more;
            room = roll->n_peers;
        }
        sleep_until_news(roll, polls);
        read_all(roll);
        look(roll);
    }
    pthread_mutex_unlock(&roll->lock);
    free(polls);
    return NULL;
}

/* ---- start and stop ---- */

static void init_locks(struct bb_rollcall *roll)
{
    pthread_condattr_t attr;

    pthread_mutex_init(&roll->lock, NULL);
    pthread_mutex_init(&roll->hooks_lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&roll->news, &attr);
    pthread_condattr_destroy(&attr);
}

static void free_roll(struct bb_rollcall *roll)
{
    for (int i = 0; i < roll->n_peers; i++) {
        bb_roll_close(&roll->peers[i].link);
        if (roll->visitors)
            bb_roll_close(&roll->visitors[i]);
    }
    for (int i = 0; i < 3; i++) {
        int fd = (int[]){roll->poke_fd, roll->signal_fd, roll->listen_fd}[i];

        if (fd >= 0)
            close(fd);
    }
    pthread_sigmask(SIG_SETMASK, &roll->old_signals, NULL);
    free(roll->peers);
    free(roll->visitors);
    free(roll);
}

int bb_rollcall_start(struct bb_rollcall **out, double timeout_s)
{
    struct bb_rollcall *roll = calloc(1, sizeof(*roll));
    sigset_t ours;

    *out = NULL;
    if (!roll)
        return bb_err(BB_EFAIL, "roll call: no memory");
    init_locks(roll);
    sigemptyset(&ours);
    sigaddset(&ours, SIGTERM);
    sigaddset(&ours, SIGINT);
    pthread_sigmask(SIG_BLOCK, &ours, &roll->old_signals);
    roll->size = 1;
    roll->timeout_s = timeout_s;
    roll->listen_fd = -1;
    roll->poke_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    roll->signal_fd = signalfd(-1, &ours, SFD_CLOEXEC | SFD_NONBLOCK);
    if (roll->poke_fd < 0 || roll->signal_fd < 0 || pthread_create(&roll->thread, NULL, roll_thread, roll)) {
        free_roll(roll);
        return bb_err(BB_EFAIL, "roll call: no thread: %s", strerror(errno));
    }
    *out = roll;
    return 0;
}

void bb_rollcall_stop(struct bb_rollcall *roll)
{
    bool hooks;

    if (!roll)
        return;
    pthread_mutex_lock(&roll->lock);
    roll->releasing = true;
    hooks = roll->hooks_started;
    pthread_cond_broadcast(&roll->news);
    pthread_mutex_unlock(&roll->lock);
    if (hooks)
        pthread_join(roll->hooks_thread, NULL); /* while our thread still sees to it that this has an end */
    pthread_mutex_lock(&roll->lock);
    roll->stop = true;
    pthread_mutex_unlock(&roll->lock);
    poke(roll);
    pthread_join(roll->thread, NULL);
    free_roll(roll);
}

static struct bb_peer *new_peers(int n)
{
    struct bb_peer *peers = calloc((size_t)n, sizeof(*peers));

    for (int i = 0; peers && i < n; i++)
        peers[i].link.fd = -1;
    return peers;
}

/* One connection per rank may be more than the soft limit on open files. */
static void allow_files(int n)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= (rlim_t)n + 512)
        return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

int bb_rollcall_serve(struct bb_rollcall *roll, int size, char (*hosts)[BB_HOST_TEXT], bool one_host,
                      struct bb_roll_ticket *ticket)
{
    struct bb_peer *peers = new_peers(size);
    struct bb_roll_link *visitors = calloc((size_t)size, sizeof(*visitors));
    int fd = -1, rc;

    if (!peers || !visitors) {
        rc = bb_err(BB_EFAIL, "roll call: no memory for %d ranks", size);
        goto out;
    }
    allow_files(size);
    TRY(bb_roll_listen(one_host, ticket, &fd));
    for (int i = 0; i < size; i++)
        visitors[i].fd = -1;
    peers[0].joined = true;
    pthread_mutex_lock(&roll->lock);
    roll->hosts = hosts;
    roll->token = ticket->token;
    roll->listen_fd = fd;
    roll->peers = peers;
    roll->visitors = visitors;
    roll->n_peers = roll->size = size;
    pthread_mutex_unlock(&roll->lock);
    poke(roll);
    return 0;
out:
    free(peers);
    free(visitors);
    return rc;
}

void bb_rollcall_attend(struct bb_rollcall *roll, int rank, int size, char (*hosts)[BB_HOST_TEXT],
                        const struct bb_roll_ticket *ticket)
{
    struct bb_peer *peer = new_peers(1);

    bool attended = peer && bb_roll_dial(ticket, (uint32_t)rank, &peer->link) == 0;

    if (!attended)
        bb_warn("roll call: rank 0 (%s) cannot be reached: a hang will not be explained from here", hosts[0]);
    pthread_mutex_lock(&roll->lock);
    roll->attended = attended;
    roll->hosts = hosts;
    roll->rank = rank;
    roll->size = size;
    roll->peers = peer;
    roll->n_peers = peer != NULL;
    pthread_mutex_unlock(&roll->lock);
    poke(roll);
}

/* ---- the main thread's side ---- */

void bb_rollcall_reached(struct bb_rollcall *roll, const char *step)
{
    pthread_mutex_lock(&roll->lock);
    roll->mine.step++;
    roll->changed = true;
    copy_text(roll->mine.text, step);
    roll->mine.wait[0] = '\0';
    pthread_mutex_unlock(&roll->lock);
}

void bb_rollcall_waiting(struct bb_rollcall *roll, const char *what)
{
    pthread_mutex_lock(&roll->lock);
    copy_text(roll->mine.wait, what ? what : "");
    roll->changed = true;
    pthread_mutex_unlock(&roll->lock);
}

void bb_rollcall_guard(struct bb_rollcall *roll, const char *what)
{
    pthread_mutex_lock(&roll->lock);
    roll->guard = what;
    roll->guard_end_s = bb_now_s() + roll->timeout_s;
    pthread_mutex_unlock(&roll->lock);
    bb_rollcall_waiting(roll, what);
}

int bb_rollcall_ending(const struct bb_rollcall *roll)
{
    return atomic_load_explicit(&roll->ending, memory_order_relaxed);
}

static bool is_ending(const struct bb_rollcall *roll)
{
    return roll->ending != 0;
}

static bool is_dismissed(const struct bb_rollcall *roll)
{
    return roll->left || (roll->n_peers > 0 && roll->peers[0].link.fd < 0);
}

static bool is_over(const struct bb_rollcall *roll)
{
    return roll->left || roll->ending;
}

int bb_rollcall_expired(struct bb_rollcall *roll, const char *what)
{
    int rc;

    pthread_mutex_lock(&roll->lock);
    copy_text(roll->mine.wait, what);
    roll->hung = true;
    roll->hang_s = bb_now_s();
    poke(roll);
    await(roll, is_ending, 2 * ANSWER_S);
    rc = roll->ending ? roll->ending : -BB_ETIMEOUT;
    pthread_mutex_unlock(&roll->lock);
    return rc;
}

static bool all_joined(const struct bb_rollcall *roll)
{
    for (int r = 0; r < roll->n_peers; r++)
        if (!roll->peers[r].joined)
            return false;
    return roll->n_peers > 0;
}

/* rank 0, when its results are safe: now the others may leave too. */
static void dismiss(struct bb_rollcall *roll)
{
    struct bb_roll_msg bye = bb_roll_msg(ROLL_BYE, 0, 0);

    for (int r = 1; r < roll->n_peers; r++)
        bb_roll_send(&roll->peers[r].link, &bye, 0.01);
}

bool bb_rollcall_fail(struct bb_rollcall *roll, int code)
{
    bool told;

    pthread_mutex_lock(&roll->lock);
    roll->failing = code;
    roll->releasing = true;
    pthread_cond_broadcast(&roll->news);
    poke(roll);
    if (roll->rank == 0) {
        await(roll, is_ending, TELL_S);
        dismiss(roll);
        told = all_joined(roll);
    } else {
        await(roll, is_dismissed, TELL_S);
        told = roll->end_heard || (roll->attended && roll->peers[0].link.fd < 0);
    }
    pthread_mutex_unlock(&roll->lock);
    return told;
}

void bb_rollcall_leave(struct bb_rollcall *roll)
{
    pthread_mutex_lock(&roll->lock);
    roll->leaving = true;
    poke(roll);
    await(roll, is_over, roll->timeout_s);
    pthread_mutex_unlock(&roll->lock);
}
