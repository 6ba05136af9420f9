/*
 * watchdog_thread.c - the thread of the watchdog: takes messages, sees what time brings, ends the process. It holds
 * the lock except while it sleeps in poll; nothing under the lock blocks for more than a moment.
 */
#include "bootstrap/base/clock.h"
#include "bootstrap/watchdog/watchdog_internal.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

static const double GATHER_S = 0.3;      /* after the first hang: the others' states and hangs come in */
static const double GATHER_MORE_S = 0.7; /* ... if some have not answered by then */
static const double GATHER_LOST_S = 0.05;
static const double SAY_S = 0.2; /* after the end was decided */
static const double STUCK_S = 0.3;
static const double EXIT_S = 0.8;

static struct bb_watchdog_msg state_msg(const struct bb_watchdog *roll, enum bb_watchdog_kind kind, int code)
{
    struct bb_watchdog_msg msg = bb_watchdog_msg(kind, (uint32_t)roll->rank, code);

    msg.seen = roll->mine;
    return msg;
}

/* ---- hooks: run by a thread of their own, so that a file system or NCCL that hangs cannot keep the process ---- */

static void run_hooks(struct bb_watchdog *roll, enum bb_watchdog_when when)
{
    pthread_mutex_lock(&roll->hooks_lock);
    for (int i = roll->n_hooks - 1; i >= 0; i--)
        if (roll->hooks[i].when == when)
            roll->hooks[i].fn(roll->hooks[i].arg, roll->ending);
    pthread_mutex_unlock(&roll->hooks_lock);
}

static bool is_releasing(const struct bb_watchdog *roll)
{
    return roll->releasing;
}

static void *hooks_thread(void *arg)
{
    struct bb_watchdog *roll = arg;
    bool releasing;

    run_hooks(roll, BB_WATCHDOG_AT_ONCE);
    fflush(stdout); /* what was printed so far: _exit would lose it */
    pthread_mutex_lock(&roll->lock);
    roll->saved = true;
    bb_watchdog_await(roll, is_releasing, STUCK_S);
    releasing = roll->releasing;
    pthread_mutex_unlock(&roll->lock);
    if (!releasing)
        run_hooks(roll, BB_WATCHDOG_STUCK);
    return NULL;
}

/* ---- messages ---- */

static void take_fail(struct bb_watchdog *roll, struct bb_peer *peer, int code)
{
    int rank = (int)(peer - roll->peers);

    peer->done = true;
    if (!roll->ending && !roll->failing && !roll->signal)
        bb_err((enum bb_error)code, "rank %d (%s) failed, the job ends with exit code %d", rank, roll->hosts[rank],
               code);
    bb_watchdog_end(roll, code);
}

/* rank 0, at the first hang: whoever does not answer is worse off than those who wait. */
static void ask_all(struct bb_watchdog *roll)
{
    struct bb_watchdog_msg ask = bb_watchdog_msg(WATCHDOG_ASK, 0, 0);

    if (roll->judge_s > 0)
        return;
    roll->judge_s = bb_now_s() + GATHER_S;
    for (int r = 0; r < roll->n_peers; r++) {
        roll->peers[r].answered = r == 0 || roll->peers[r].link.fd < 0; /* nothing is to come from there */
        bb_watchdog_send(&roll->peers[r].link, &ask, 0.01);
    }
}

static bool all_answered(const struct bb_watchdog *roll)
{
    for (int r = 0; r < roll->n_peers; r++)
        if (!roll->peers[r].answered)
            return false;
    return true;
}

static void handle_message(struct bb_watchdog *roll, struct bb_peer *peer, const struct bb_watchdog_msg *msg)
{
    switch (msg->kind) {
    case WATCHDOG_HANG:
        peer->hung = true;
        ask_all(roll);
        /* fall through */
    case WATCHDOG_STATE:
        peer->seen = msg->seen;
        peer->answered = true;
        break;
    case WATCHDOG_ASK:
        roll->changed = true;
        roll->sent_s = 0;
        break;
    case WATCHDOG_FAIL:
        take_fail(roll, peer, msg->code);
        break;
    case WATCHDOG_BYE:
        peer->done = true;
        roll->left = roll->left || roll->rank != 0; /* rank 0's BYE is for all */
        pthread_cond_broadcast(&roll->news);
        break;
    case WATCHDOG_END:
        roll->end_heard = true;
        bb_watchdog_end(roll, msg->code);
        break;
    }
}

static void take_loss(struct bb_watchdog *roll, struct bb_peer *peer)
{
    bb_watchdog_close(&peer->link);
    pthread_cond_broadcast(&roll->news);
    if (peer->done || roll->ending || roll->left)
        return;
    if (roll->rank != 0) {
        bb_watchdog_judge_server_lost(roll);
        return;
    }
    peer->lost = true;
    if (roll->lost_s == 0)
        roll->lost_s = bb_now_s() + GATHER_LOST_S;
}

static void read_peer(struct bb_watchdog *roll, struct bb_peer *peer)
{
    struct bb_watchdog_msg msg;
    int got;

    while (peer->link.fd >= 0 && (got = bb_watchdog_receive(&peer->link, &msg)) != 0) {
        if (got > 0)
            handle_message(roll, peer, &msg);
        else
            take_loss(roll, peer);
    }
}

/* A visitor that knows the token and a free rank becomes that rank's peer; any other is shown the door. */
static void read_visitor(struct bb_watchdog *roll, struct bb_watchdog_link *visitor)
{
    struct bb_watchdog_msg msg, hello = bb_watchdog_msg(WATCHDOG_HELLO, 0, 0);
    int got = bb_watchdog_receive(visitor, &msg);
    struct bb_peer *peer;

    if (got == 0)
        return;
    if (got < 0 || msg.kind != WATCHDOG_HELLO || msg.token != roll->token || msg.rank == 0 ||
        msg.rank >= (uint32_t)roll->size || roll->peers[msg.rank].joined) {
        bb_watchdog_close(visitor);
        return;
    }
    peer = &roll->peers[msg.rank];
    peer->link = *visitor;
    peer->joined = true;
    visitor->fd = -1;
    hello.token = roll->token;
    bb_watchdog_send(&peer->link, &hello, 0.1);
}

static void accept_visitors(struct bb_watchdog *roll)
{
    int fd;

    while ((fd = bb_watchdog_accept(roll->listen_fd)) >= 0) {
        int i = 0;

        while (i < roll->n_peers && roll->visitors[i].fd >= 0)
            i++;
        if (i == roll->n_peers)
            close(fd);
        else
            roll->visitors[i] = (struct bb_watchdog_link){.fd = fd};
    }
}

static void read_signal(struct bb_watchdog *roll)
{
    struct signalfd_siginfo info;

    if (read(roll->signal_fd, &info, sizeof(info)) != sizeof(info) || roll->signal)
        return;
    roll->signal = (int)info.ssi_signo;
    roll->signal_s = bb_now_s() + GATHER_S; /* mpirun sends it when a rank dies: its loss may not be known yet */
}

/* ---- what time brings ---- */

static void send_state(struct bb_watchdog *roll, double now_s)
{
    struct bb_watchdog_msg msg = state_msg(roll, WATCHDOG_STATE, 0);
    double every_s = BB_WATCHDOG_STATE_S * (1 + roll->size / 256); /* keeps rank 0's share of a core small */
    bool sent = true;

    if (!roll->changed || now_s - roll->sent_s < every_s)
        return;
    for (int i = 0; i < roll->n_peers; i++)
        if (roll->peers[i].link.fd >= 0)
            sent = bb_watchdog_send(&roll->peers[i].link, &msg, 0) == 0 && sent;
    roll->changed = !sent;
    roll->sent_s = now_s;
}

static void check_guard(struct bb_watchdog *roll, double now_s)
{
    if (!roll->guard || now_s < roll->guard_end_s || roll->hung)
        return;
    roll->hung = true;
    roll->hang_s = now_s;
}

static bool has_server(const struct bb_watchdog *roll)
{
    return roll->rank == 0 ? roll->n_peers > 0 : roll->n_peers > 0 && roll->peers[0].link.fd >= 0;
}

static void say_hang(struct bb_watchdog *roll, double now_s)
{
    struct bb_watchdog_msg msg = state_msg(roll, WATCHDOG_HANG, 0);

    if (!roll->hung || roll->ending)
        return;
    if (!has_server(roll) || now_s > roll->hang_s + BB_WATCHDOG_ANSWER_S) {
        bb_watchdog_judge_alone(roll);
    } else if (!roll->hang_said) {
        roll->hang_said = true;
        if (roll->rank == 0)
            handle_message(roll, &roll->peers[0], &msg);
        else
            bb_watchdog_send(&roll->peers[0].link, &msg, 0.5);
    }
}

static void say_fail(struct bb_watchdog *roll)
{
    struct bb_watchdog_msg msg = state_msg(roll, WATCHDOG_FAIL, roll->failing);

    if (!roll->failing || roll->fail_said || roll->ending)
        return;
    roll->fail_said = true;
    if (roll->rank == 0 || !has_server(roll) || bb_watchdog_send(&roll->peers[0].link, &msg, 0.5))
        bb_watchdog_end(roll, roll->failing);
}

static bool all_done(const struct bb_watchdog *roll)
{
    for (int r = 1; r < roll->n_peers; r++)
        if (roll->peers[r].joined && !roll->peers[r].done)
            return false;
    return true;
}

static void say_bye(struct bb_watchdog *roll)
{
    struct bb_watchdog_msg bye = bb_watchdog_msg(WATCHDOG_BYE, (uint32_t)roll->rank, 0);

    if (!roll->leaving || roll->bye_said || roll->ending || (roll->rank == 0 && !all_done(roll)))
        return;
    roll->bye_said = true;
    for (int i = roll->rank == 0; i < roll->n_peers; i++)
        bb_watchdog_send(&roll->peers[i].link, &bye, 0.5);
    roll->left = roll->left || roll->rank == 0 || !has_server(roll);
    pthread_cond_broadcast(&roll->news);
}

/* On the way out in order a signal changes nothing: mpirun sends one to the slower ranks as soon as the first of a job
 * that was refused has left with its exit status. */
static void check_signal(struct bb_watchdog *roll, double now_s)
{
    if (!roll->signal || now_s < roll->signal_s || roll->ending || roll->bye_said)
        return;
    if (roll->rank == 0)
        bb_err(BB_EFAIL, "ended by %s", strsignal(roll->signal));
    bb_watchdog_end(roll, BB_EFAIL);
}

static void say_last_words(struct bb_watchdog *roll, double now_s)
{
    if (!roll->last_words || !(roll->saved || roll->releasing || now_s > roll->ending_s + SAY_S))
        return;
    bb_err(BB_ETIMEOUT, "%s", roll->last_words);
    free(roll->last_words);
    roll->last_words = NULL;
    pthread_cond_broadcast(&roll->news);
}

/* A main thread that is on its way out saves and aborts by itself. */
static void check_end(struct bb_watchdog *roll, double now_s)
{
    if (!roll->ending)
        return;
    if (!roll->hooks_started && !roll->releasing)
        roll->hooks_started = pthread_create(&roll->hooks_thread, NULL, hooks_thread, roll) == 0;
    say_last_words(roll, now_s);
    if (now_s > roll->ending_s + EXIT_S)
        _exit(bb_exit_code(roll->ending));
}

static void check_all(struct bb_watchdog *roll)
{
    double now_s = bb_now_s();

    if (roll->lost_s > 0 && now_s >= roll->lost_s && !roll->ending)
        bb_watchdog_judge_lost(roll);
    if (roll->judge_s > 0 && now_s >= roll->judge_s + (all_answered(roll) ? 0 : GATHER_MORE_S) && !roll->ending)
        bb_watchdog_judge_hang(roll);
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
static void sleep_until_news(struct bb_watchdog *roll, struct pollfd *polls)
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

static void read_all(struct bb_watchdog *roll)
{
    read_signal(roll);
    for (int i = 0; i < roll->n_peers; i++)
        read_peer(roll, &roll->peers[i]);
    if (!roll->visitors)
        return;
    accept_visitors(roll);
    for (int i = 0; i < roll->n_peers; i++)
        if (roll->visitors[i].fd >= 0)
            read_visitor(roll, &roll->visitors[i]);
}

void *bb_watchdog_thread(void *arg)
{
    struct bb_watchdog *roll = arg;
    struct pollfd *polls = NULL;
    int room = 0;

    pthread_mutex_lock(&roll->lock);
    while (!roll->stop) {
        if (!polls || room < roll->n_peers) {
            struct pollfd *more = realloc(polls, (size_t)(3 + 2 * roll->n_peers) * sizeof(*polls));

            if (!more)
                break; /* the run goes on without a watchdog */
            polls = more;
            room = roll->n_peers;
        }
        sleep_until_news(roll, polls);
        read_all(roll);
        check_all(roll);
    }
    pthread_mutex_unlock(&roll->lock);
    free(polls);
    return NULL;
}
