/*
 * watchdog_thread.c - thread of the watchdog: receives messages, checks timeouts and ends the process. The thread holds
 * the watchdog's lock except while it sleeps in poll. No call under the lock blocks for more than a moment.
 */
#include "bootstrap/base/clock.h"
#include "bootstrap/start/exit_guard.h"
#include "bootstrap/start/hydra.h"
#include "bootstrap/start/signals.h"
#include "bootstrap/start/speaker.h"
#include "bootstrap/watchdog/watchdog_internal.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

/* Durations in seconds. */
static const double GATHER_S = 0.3; /* from the first HANG to the decision, to receive STATE and HANG of other ranks */
static const double GATHER_MORE_S = 0.7;  /* added to GATHER_S if some ranks have not answered ASK */
static const double GATHER_LOST_S = 0.05; /* from a lost rank to its report, to detect further lost ranks */
static const double SAY_S = 0.2;          /* time limit for saving the results before the error line is printed */
static const double STUCK_S = 0.3;   /* a main thread without a sign of life for this long after the results are saved
                                      is stuck */
static const double EXIT_S = 0.8;    /* from the decision to end the job to the end of the process */
static const double SIGNAL_S = 0.15; /* from a signal to its report. mpirun also sends a signal after a rank is lost;
                                        the delay leaves time to report the lost rank instead */
static const double SIGNAL_END_S = 0.2; /* maximum wait for END after rank 0 was informed of a signal */
static const double EXIT_END_S = 1; /* like SIGNAL_END_S, for an unexpected exit(), after which no launcher kills the
                                       ranks */
static const double SIGNAL_ALONE_S = 0.05; /* like SIGNAL_END_S, for a rank without a connection to rank 0 */
static const double SIGNAL_EXIT_S = 0.75; /* from a signal to the exit of the process; mpirun and srun kill after 1 s */
/* A signal that arrives less than this time after SIGCONT is timed from SIGCONT. prterun sends SIGCONT before it
 * ends the ranks, SIGTERM 0.25 s later, and SIGKILL at most 0.25 s after SIGTERM. */
static const double ANNOUNCED_S = 0.6;
static const double SIGNAL_LEAVING_S = 0.5; /* like SIGNAL_S, during orderly shutdown */
static const double ALONE_S = 0.7;          /* delay before a rank without a connection to rank 0 reports a hang */
static const double ASLEEP_S = 1.5;    /* a longer time between two iterations (normally 0.1 s) shows that the process
                                       was suspended */
static const double NEIGHBOUR_S = 0.1; /* from the loss of the next rank on this host (neighbours.h) to its report */
static const double VISITOR_S = 5;     /* time limit for the first message of a pending connection */

static struct bb_watchdog_msg state_msg(const struct bb_watchdog *watchdog, enum bb_watchdog_kind kind, int code)
{
    struct bb_watchdog_msg msg = bb_watchdog_msg(kind, (uint32_t)watchdog->rank, code);

    msg.seen = watchdog->mine;
    return msg;
}

/* ---- hooks, run on a separate thread so that a hanging file system or NCCL cannot keep the process alive ---- */

static void run_hooks(struct bb_watchdog *watchdog, enum bb_watchdog_when when)
{
    pthread_mutex_lock(&watchdog->hooks_lock);
    for (int i = watchdog->n_hooks - 1; i >= 0; i--)
        if (watchdog->hooks[i].when == when)
            watchdog->hooks[i].fn(watchdog->hooks[i].arg, watchdog->ending);
    pthread_mutex_unlock(&watchdog->hooks_lock);
}

static bool is_releasing(const struct bb_watchdog *watchdog)
{
    return watchdog->releasing;
}

/* Runs the hooks for BB_WATCHDOG_AT_ONCE and, if the main thread is stuck, those for BB_WATCHDOG_STUCK. A main
 * thread that still gives signs of life is not stuck, and it may be using resources that these hooks release, so
 * they are skipped. */
static void *hooks_thread(void *arg)
{
    struct bb_watchdog *watchdog = arg;
    unsigned moves;
    bool releasing;

    run_hooks(watchdog, BB_WATCHDOG_AT_ONCE);
    fflush(stdout); /* because _exit does not write buffered output */
    pthread_mutex_lock(&watchdog->lock);
    watchdog->saved = true;
    pthread_cond_broadcast(&watchdog->news);
    moves = atomic_load_explicit(&watchdog->moves, memory_order_relaxed);
    bb_watchdog_await(watchdog, is_releasing, STUCK_S);
    releasing = watchdog->releasing || moves != atomic_load_explicit(&watchdog->moves, memory_order_relaxed);
    pthread_mutex_unlock(&watchdog->lock);
    if (!releasing)
        run_hooks(watchdog, BB_WATCHDOG_STUCK);
    return NULL;
}

/* ---- messages ---- */

static void take_signal(struct bb_watchdog *watchdog, int signal, int rank, double now_s)
{
    if (watchdog->signal)
        return;
    watchdog->signal = signal;
    watchdog->signal_rank = rank;
    /* No other rank can have reported an exit() or a crash, so the report is not delayed. */
    watchdog->signal_s = signal == BB_EXIT_CALLED || bb_signal_is_crash(signal) ? now_s - SIGNAL_S : now_s;
}

/* Returns the exit code of an END or FAIL message. An unknown code is treated as BB_EFAIL. */
static int end_code_of(const struct bb_watchdog_msg *msg)
{
    return msg->code >= BB_EFAIL && msg->code <= BB_EBELOW ? msg->code : BB_EFAIL;
}

/* Handles FAIL. With a signal: the peer received this signal, and this rank reports it. Without a signal: the peer
 * has printed its own error, so the job ends with the peer's exit code. */
static void take_fail(struct bb_watchdog *watchdog, struct bb_peer *peer, const struct bb_watchdog_msg *msg)
{
    peer->done = true;
    if (msg->signal) {
        peer->seen = msg->seen;
        take_signal(watchdog, msg->signal, (int)(peer - watchdog->peers), bb_now_s());
        return;
    }
    if (watchdog->signal && !watchdog->slept)
        bb_watchdog_judge_signal(watchdog);
    bb_watchdog_end(watchdog, end_code_of(msg));
}

/* Rank 0, at the first HANG: requests the state of all ranks. A rank that does not even answer is more likely the
 * cause than a rank that waits. */
static void ask_all(struct bb_watchdog *watchdog)
{
    struct bb_watchdog_msg ask = bb_watchdog_msg(WATCHDOG_ASK, 0, 0);

    if (watchdog->judge_s > 0)
        return;
    watchdog->judge_s = bb_now_s() + GATHER_S;
    for (int r = 0; r < watchdog->n_peers; r++) {
        /* no answer is expected from rank 0 itself and from ranks without a connection */
        watchdog->peers[r].answered = r == 0 || watchdog->peers[r].link.fd < 0;
        bb_watchdog_send(&watchdog->peers[r].link, &ask, 0.01);
    }
}

static bool all_answered(const struct bb_watchdog *watchdog)
{
    for (int r = 0; r < watchdog->n_peers; r++)
        if (!watchdog->peers[r].answered)
            return false;
    return true;
}

static void handle_message(struct bb_watchdog *watchdog, struct bb_peer *peer, const struct bb_watchdog_msg *msg)
{
    switch (msg->kind) {
    case WATCHDOG_HANG:
        peer->hung = true;
        if (watchdog->rank == 0) /* only rank 0 decides about hangs */
            ask_all(watchdog);
        /* fall through */
    case WATCHDOG_STATE:
        peer->seen = msg->seen;
        peer->answered = true;
        break;
    case WATCHDOG_ASK:
        watchdog->changed = true;
        watchdog->sent_s = 0;
        break;
    case WATCHDOG_FAIL:
        take_fail(watchdog, peer, msg);
        break;
    case WATCHDOG_BYE:
        peer->done = true;
        watchdog->left = watchdog->left || watchdog->rank != 0; /* BYE from rank 0 means that all ranks have finished */
        pthread_cond_broadcast(&watchdog->news);
        break;
    case WATCHDOG_GONE:
        peer->gone_again = peer->gone;
        peer->gone = true;
        pthread_cond_broadcast(&watchdog->news);
        break;
    case WATCHDOG_END:
        watchdog->end_heard = true;
        watchdog->ended_by = msg->signal;
        bb_watchdog_end(watchdog, end_code_of(msg));
        break;
    }
}

static void take_loss(struct bb_watchdog *watchdog, struct bb_peer *peer)
{
    bb_watchdog_close(&peer->link);
    pthread_cond_broadcast(&watchdog->news);
    if (peer->gone || watchdog->ending || (peer->done && !watchdog->left))
        return;
    if (watchdog->rank != 0) {
        bb_watchdog_judge_server_lost(watchdog);
        return;
    }
    peer->lost = true;
    if (watchdog->lost_s == 0)
        watchdog->lost_s = bb_now_s() + GATHER_LOST_S;
}

static void read_peer(struct bb_watchdog *watchdog, struct bb_peer *peer)
{
    struct bb_watchdog_msg msg;
    int got;

    while (peer->link.fd >= 0 && (got = bb_watchdog_receive(&peer->link, &msg)) != 0) {
        if (got > 0)
            handle_message(watchdog, peer, &msg);
        else
            take_loss(watchdog, peer);
    }
}

static void seat_peer(struct bb_watchdog *watchdog, struct bb_watchdog_link *visitor, const struct bb_watchdog_msg *msg)
{
    struct bb_watchdog_msg hello = bb_watchdog_msg(WATCHDOG_HELLO, 0, 0);
    struct bb_peer *peer = &watchdog->peers[msg->rank];

    peer->link = *visitor;
    peer->joined = true;
    peer->seen = msg->seen;
    visitor->fd = -1;
    hello.seen = watchdog->mine;
    bb_watchdog_send(&peer->link, &hello, 0.1);
    if (watchdog->ending)
        bb_watchdog_tell_end(watchdog, peer);
}

static void answer_question(struct bb_watchdog *watchdog, struct bb_watchdog_link *visitor,
                            const struct bb_watchdog_msg *msg)
{
    struct bb_watchdog_msg end = bb_watchdog_msg(WATCHDOG_END, (uint32_t)watchdog->rank, BB_ETIMEOUT);

    bb_watchdog_asked(watchdog, msg);
    end.code = (int16_t)(watchdog->ending ? -watchdog->ending : BB_ETIMEOUT);
    bb_watchdog_send(visitor, &end, 0.1);
}

static bool is_free_seat(const struct bb_watchdog *watchdog, uint32_t rank)
{
    return watchdog->rank == 0 && rank > 0 && rank < (uint32_t)watchdog->n_peers && !watchdog->peers[rank].joined;
}

/* Reads the first message of a pending connection. A valid HELLO with the number of a rank that has not joined makes
 * the connection that rank's connection. A valid SPEAK is answered. In every other case the connection is closed. */
static void read_visitor(struct bb_watchdog *watchdog, struct bb_watchdog_link *visitor)
{
    struct bb_watchdog_msg msg;
    int got = bb_watchdog_receive(visitor, &msg);

    if (got == 0)
        return;
    if (got > 0)
        bb_watchdog_take_key(visitor, &watchdog->token, msg.nonce);
    if (got > 0 && bb_watchdog_verify(visitor, &msg)) {
        if (msg.kind == WATCHDOG_HELLO && is_free_seat(watchdog, msg.rank))
            seat_peer(watchdog, visitor, &msg);
        else if (msg.kind == WATCHDOG_SPEAK && watchdog->rank > 0)
            answer_question(watchdog, visitor, &msg);
    }
    bb_watchdog_close(visitor); /* no effect after a valid HELLO, because the connection then belongs to the peer (fd
                                   is -1) */
}

/* Returns a free slot for a pending connection. If there is none, closes the oldest pending connection, whose rank
 * will reconnect. */
static struct bb_watchdog_link *find_seat(struct bb_watchdog *watchdog)
{
    struct bb_watchdog_link *oldest = &watchdog->visitors[0];

    for (int i = 0; i < watchdog->n_visitors; i++) {
        if (watchdog->visitors[i].fd < 0)
            return &watchdog->visitors[i];
        if (watchdog->visitors[i].since_s < oldest->since_s)
            oldest = &watchdog->visitors[i];
    }
    bb_watchdog_close(oldest);
    return oldest;
}

static void accept_visitors(struct bb_watchdog *watchdog)
{
    struct bb_watchdog_link visitor;

    for (int i = 0; i < watchdog->n_listen; i++)
        while (bb_watchdog_accept(watchdog->listen_fds[i], &visitor))
            *find_seat(watchdog) = visitor;
}

static void read_visitors(struct bb_watchdog *watchdog)
{
    const double now_s = bb_now_s();

    accept_visitors(watchdog);
    for (int i = 0; i < watchdog->n_visitors; i++) {
        struct bb_watchdog_link *visitor = &watchdog->visitors[i];

        if (visitor->fd >= 0)
            read_visitor(watchdog, visitor);
        if (visitor->fd >= 0 && now_s > visitor->since_s + VISITOR_S)
            bb_watchdog_close(visitor);
    }
}

static void read_signal(struct bb_watchdog *watchdog)
{
    struct signalfd_siginfo info;

    while (read(watchdog->signal_fd, &info, sizeof(info)) == sizeof(info)) {
        const double now_s = bb_now_s();

        if (info.ssi_signo == SIGCONT) {
            watchdog->continued_s = now_s;
            continue;
        }
        if (info.ssi_signo == SIGALRM && info.ssi_code != SI_USER) /* sent by a timer of busbar (deadline.h) or of a
                                                                      library, not by a user */
            continue;
        if (info.ssi_signo == SIGTERM)
            watchdog->signal_sender = (pid_t)info.ssi_pid;
        take_signal(watchdog, (int)info.ssi_signo, watchdog->rank,
                    now_s < watchdog->continued_s + ANNOUNCED_S ? watchdog->continued_s : now_s);
    }
}

/* ---- timeouts ---- */

static void send_state(struct bb_watchdog *watchdog, double now_s)
{
    struct bb_watchdog_msg msg = state_msg(watchdog, WATCHDOG_STATE, 0);
    double every_s = watchdog->n_sent < BB_WATCHDOG_FIRST_NEWS
                         ? 0
                         : BB_WATCHDOG_STATE_S * (1 + watchdog->size / 256); /* longer with many ranks, to limit the
                                                                                CPU time of rank 0 */
    bool sent = true;

    if (!watchdog->changed || now_s - watchdog->sent_s < every_s)
        return;
    for (int i = 0; i < watchdog->n_peers; i++)
        if (watchdog->peers[i].link.fd >= 0)
            sent = bb_watchdog_send(&watchdog->peers[i].link, &msg, 0) == 0 && sent;
    watchdog->changed = !sent;
    watchdog->sent_s = now_s;
    watchdog->n_sent += sent;
}

/* Checks the timeout of the main thread, regardless of what the main thread executes (library code, busbar code, an
 * endless loop). Takes no lock that the main thread may hold for long. */
static void check_deadline(struct bb_watchdog *watchdog, double now_s)
{
    const unsigned moves = atomic_load_explicit(&watchdog->moves, memory_order_relaxed);

    if (moves != watchdog->moves_seen) {
        watchdog->moves_seen = moves;
        watchdog->due_s = now_s + watchdog->timeout_s;
    }
    if (now_s < watchdog->due_s || watchdog->hung)
        return;
    watchdog->hung = true;
    watchdog->hang_s = now_s;
}

static bool has_server(const struct bb_watchdog *watchdog)
{
    return watchdog->rank == 0 ? watchdog->n_peers > 0 : watchdog->n_peers > 0 && watchdog->peers[0].link.fd >= 0;
}

static void say_hang(struct bb_watchdog *watchdog, double now_s)
{
    struct bb_watchdog_msg msg = state_msg(watchdog, WATCHDOG_HANG, 0);

    if (!watchdog->hung || watchdog->ending)
        return;
    if (!has_server(watchdog) && (watchdog->rank > 0 || watchdog->launcher_rank > 0) &&
        now_s < watchdog->hang_s + ALONE_S)
        return;
    if (!has_server(watchdog) || now_s > watchdog->hang_s + bb_watchdog_answer_s(watchdog)) {
        bb_watchdog_judge_alone(watchdog);
    } else if (!watchdog->hang_said) {
        watchdog->hang_said = true;
        if (watchdog->rank == 0)
            handle_message(watchdog, &watchdog->peers[0], &msg);
        else
            bb_watchdog_send(&watchdog->peers[0].link, &msg, 0.5);
    }
}

static void say_fail(struct bb_watchdog *watchdog)
{
    struct bb_watchdog_msg msg = state_msg(watchdog, WATCHDOG_FAIL, watchdog->failing);

    if (!watchdog->failing || watchdog->fail_said || watchdog->ending)
        return;
    watchdog->fail_said = true;
    if (watchdog->rank == 0 || !has_server(watchdog) || bb_watchdog_send(&watchdog->peers[0].link, &msg, 0.5))
        bb_watchdog_end(watchdog, watchdog->failing);
}

static bool all_done(const struct bb_watchdog *watchdog)
{
    for (int r = 1; r < watchdog->n_peers; r++)
        if (watchdog->peers[r].joined && !watchdog->peers[r].done)
            return false;
    return true;
}

static void say_bye(struct bb_watchdog *watchdog)
{
    struct bb_watchdog_msg bye = bb_watchdog_msg(WATCHDOG_BYE, (uint32_t)watchdog->rank, 0);

    if (!watchdog->leaving || watchdog->bye_said || watchdog->ending || (watchdog->rank == 0 && !all_done(watchdog)))
        return;
    watchdog->bye_said = true;
    for (int i = watchdog->rank == 0; i < watchdog->n_peers; i++)
        bb_watchdog_send(&watchdog->peers[i].link, &bye, 0.5);
    watchdog->left = watchdog->left || watchdog->rank == 0 || !has_server(watchdog);
    pthread_cond_broadcast(&watchdog->news);
}

/* Returns whether other ranks may already have exited. No rank exits before rank 0 has sent GONE. */
static bool has_departed(const struct bb_watchdog *watchdog)
{
    return watchdog->gone_said && (watchdog->rank == 0 || watchdog->n_peers == 0 || watchdog->peers[0].gone);
}

/* Checks for a signal that ends the job. During orderly shutdown the signal is reported only if the shutdown takes
 * long, because mpirun sends a signal to the slower ranks when the first rank has exited with a nonzero status. */
static void check_signal(struct bb_watchdog *watchdog, double now_s)
{
    const double server_s = watchdog->signal == BB_EXIT_CALLED ? EXIT_END_S : SIGNAL_END_S;
    struct bb_watchdog_msg msg = state_msg(watchdog, WATCHDOG_FAIL, BB_EFAIL);
    const double due_s = watchdog->signal_s + (has_departed(watchdog) ? SIGNAL_LEAVING_S : SIGNAL_S);
    const bool first = watchdog->rank == 0 && (watchdog->size > 1 || watchdog->launcher_rank == 0);

    if (!watchdog->signal || now_s < due_s || watchdog->ending || (watchdog->told && watchdog->bye_said))
        return;
    if (!first && has_server(watchdog) && !watchdog->signal_told) {
        msg.signal = watchdog->signal;
        watchdog->signal_told = true;
        bb_watchdog_send(&watchdog->peers[0].link, &msg, 0.05);
    }
    if (first || now_s > due_s + (has_server(watchdog) ? server_s : SIGNAL_ALONE_S))
        bb_watchdog_judge_signal(watchdog);
}

/* Checks for an unexpected exit() and for a lost launcher. If mpirun was killed, or received a second signal, MPI
 * ends the ranks one second later without a message or results. */
static void check_ends(struct bb_watchdog *watchdog, double now_s)
{
    if (watchdog->exit_cause)
        take_signal(watchdog, watchdog->exit_cause, watchdog->rank, now_s);
    if (watchdog->launched && getppid() != watchdog->launcher)
        take_signal(watchdog, BB_LAUNCHER_LOST, watchdog->rank, now_s);
}

/* Before the ranks are connected: checks whether another rank of this host has reported an error, and whether the
 * next rank of this host is lost. */
static void check_neighbours(struct bb_watchdog *watchdog, double now_s)
{
    int code, lost;

    if (!watchdog->launched || watchdog->met || watchdog->attended || watchdog->spoke || watchdog->ending)
        return;
    if ((code = bb_speaker_heard()) > 0) {
        bb_watchdog_end(watchdog, code);
        return;
    }
    if ((lost = bb_neighbours_lost(&watchdog->neighbours)) < 0)
        return;
    if (watchdog->neighbour_s == 0 || watchdog->slept) /* after a suspension the delay starts again, because another
                                                          rank has probably reported the loss meanwhile */
        watchdog->neighbour_s = now_s + NEIGHBOUR_S;
    if (now_s >= watchdog->neighbour_s)
        bb_watchdog_judge_neighbour(watchdog, lost);
}

static void say_last_words(struct bb_watchdog *watchdog, double now_s)
{
    if (!watchdog->last_words[0] || !(watchdog->saved || watchdog->releasing || now_s > watchdog->ending_s + SAY_S))
        return;
    bb_watchdog_say_lost(watchdog, watchdog->last_words);
    watchdog->last_words[0] = '\0';
    pthread_cond_broadcast(&watchdog->news);
}

/* Ends the process. If the ranks are not connected yet, aborts the job through Hydra first; otherwise Hydra would
 * print its own message about the ranks that are still in MPI_Init. */
static void leave_process(struct bb_watchdog *watchdog)
{
    bb_watchdog_end_others(watchdog);
    if (!watchdog->met && watchdog->launched)
        bb_hydra_abort(bb_exit_code(watchdog->ending));
    bb_exit_by(watchdog->ended_by, bb_exit_code(watchdog->ending));
}

/* Continues the end of the job: starts the hooks, prints the deferred error line, and ends the process when its time
 * is over. If the main thread is already ending this rank, no hooks start, because the main thread itself saves the
 * results and aborts. On a rank that received a signal, the time is measured from the signal. On every other rank it
 * is measured from the message END. Rank 0 must save its results before any rank exits, because the launcher ends
 * the remaining ranks when the first one exits. */
static void check_end(struct bb_watchdog *watchdog, double now_s)
{
    const double signal_s = watchdog->signal ? watchdog->signal_s : watchdog->ending_s;

    if (!watchdog->ending)
        return;
    if (!watchdog->hooks_started && !watchdog->releasing)
        watchdog->hooks_started = pthread_create(&watchdog->hooks_thread, NULL, hooks_thread, watchdog) == 0;
    say_last_words(watchdog, now_s);
    (void)bb_speaker_answer(watchdog->speaker_fd, bb_exit_code(watchdog->ending), 0);
    if (now_s > watchdog->ending_s + (watchdog->keeps ? 3 : 1) * EXIT_S ||
        (watchdog->ended_by && !watchdog->keeps && now_s > signal_s + SIGNAL_EXIT_S))
        leave_process(watchdog);
}

/* Detects that the process was suspended, by mpirun (which sends SIGCONT to the ranks before it ends them) or by a
 * user. The suspended time does not count towards the timeout. */
static void check_sleep(struct bb_watchdog *watchdog, double now_s)
{
    const double asleep_s = now_s - watchdog->round_s;

    if (watchdog->round_s > 0 && asleep_s > ASLEEP_S) {
        watchdog->due_s += asleep_s;
        watchdog->slept = watchdog->launched;
        watchdog->woke_s = now_s;
    } else if (!watchdog->signal && now_s > watchdog->woke_s + ASLEEP_S) {
        watchdog->slept = false;
    }
}

static void check_all(struct bb_watchdog *watchdog)
{
    double now_s = bb_now_s();

    watchdog->round_s = now_s;
    if (watchdog->lost_s > 0 && now_s >= watchdog->lost_s && !watchdog->ending)
        bb_watchdog_judge_lost(watchdog);
    if (watchdog->judge_s > 0 && now_s >= watchdog->judge_s + (all_answered(watchdog) ? 0 : GATHER_MORE_S) &&
        !watchdog->ending)
        bb_watchdog_judge_hang(watchdog);
    check_neighbours(watchdog, now_s);
    check_deadline(watchdog, now_s);
    say_hang(watchdog, now_s);
    say_fail(watchdog);
    say_bye(watchdog);
    check_ends(watchdog, now_s);
    check_signal(watchdog, now_s);
    send_state(watchdog, now_s);
    check_end(watchdog, now_s);
}

/* ---- main loop of the thread ---- */

/* Sleeps until a message, a signal, a wake-up by the main thread or the next regular check. The lock is released
 * meanwhile. This is safe because connections are opened and closed only by this thread, by the main thread before
 * this thread uses them, or by the main thread right before it ends the process. */
static void sleep_until_news(struct bb_watchdog *watchdog, struct pollfd *polls)
{
    int n = 0, ms = watchdog->lost_s > 0 || watchdog->judge_s > 0 || watchdog->neighbour_s > 0 || watchdog->signal ||
                            watchdog->ending
                        ? 10
                        : 100;
    uint64_t pokes;

    polls[n++] = (struct pollfd){.fd = watchdog->poke_fd, .events = POLLIN};
    polls[n++] = (struct pollfd){.fd = watchdog->signal_fd, .events = POLLIN};
    for (int i = 0; i < watchdog->n_listen; i++)
        polls[n++] = (struct pollfd){.fd = watchdog->listen_fds[i], .events = POLLIN};
    for (int i = 0; i < watchdog->n_peers; i++)
        polls[n++] = (struct pollfd){.fd = watchdog->peers[i].link.fd, .events = POLLIN};
    for (int i = 0; i < watchdog->n_visitors; i++)
        polls[n++] = (struct pollfd){.fd = watchdog->visitors[i].fd, .events = POLLIN};
    pthread_mutex_unlock(&watchdog->lock);
    poll(polls, (nfds_t)n, ms);
    pthread_mutex_lock(&watchdog->lock);
    if (polls[0].revents && read(watchdog->poke_fd, &pokes, sizeof(pokes)) < 0)
        return;
}

static void read_all(struct bb_watchdog *watchdog)
{
    read_signal(watchdog);
    for (int i = 0; i < watchdog->n_peers; i++)
        read_peer(watchdog, &watchdog->peers[i]);
    if (watchdog->visitors)
        read_visitors(watchdog);
}

void *bb_watchdog_thread(void *arg)
{
    struct bb_watchdog *watchdog = arg;
    struct pollfd *polls = NULL;
    int capacity = 0, needed;

    pthread_mutex_lock(&watchdog->lock);
    while (!watchdog->stop) {
        needed = 2 + watchdog->n_listen + watchdog->n_peers + watchdog->n_visitors;
        if (capacity < needed) {
            struct pollfd *more = realloc(polls, (size_t)needed * sizeof(*polls));

            if (!more)
                break; /* out of memory: the run continues without a watchdog */
            polls = more;
            capacity = needed;
        }
        sleep_until_news(watchdog, polls);
        check_sleep(watchdog, bb_now_s());
        read_all(watchdog);
        check_all(watchdog);
    }
    pthread_mutex_unlock(&watchdog->lock);
    free(polls);
    return NULL;
}
