/* watchdog.c - functions of the watchdog that the main thread calls: start, signs of life (calls that restart the
 * timeout), hooks (functions called at an early end), end of the run, stop. */
#include "bootstrap/watchdog/watchdog.h"

#include "bootstrap/base/clock.h"
#include "bootstrap/start/exit_guard.h"
#include "bootstrap/start/launcher.h"
#include "bootstrap/start/signals.h"
#include "bootstrap/start/speaker.h"
#include "bootstrap/watchdog/watchdog_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

static const double TELL_S = 0.5;  /* seconds that a failing rank waits for rank 0 to save its results */
static const double CONNECT_S = 2; /* seconds to connect to rank 0; limits the delay of the start if a firewall drops
                                      packets */
static const double ANSWER_S = 10; /* seconds to wait for the answer of rank 0, to which thousands of ranks may
                                      connect at once */
enum { SPARE_VISITORS = 64 };      /* slots for pending connections, in addition to one slot per rank */
/* Milliseconds during which this rank sends its exit code to the other ranks of this host. mpirun needs up to a second
 * to end these ranks. */
enum { ANSWER_OTHERS_MS = 1000 };

static void copy_text(char *to, const char *from)
{
    snprintf(to, BB_WATCHDOG_TEXT, "%s", from);
}

static void wake_thread(struct bb_watchdog *watchdog)
{
    uint64_t one = 1;

    if (write(watchdog->poke_fd, &one, sizeof(one)) < 0)
        return; /* the eventfd's counter is full, so the thread is already being woken */
}

void bb_watchdog_await(struct bb_watchdog *watchdog, bool (*flag)(const struct bb_watchdog *), double patience_s)
{
    double end_s = bb_now_s() + patience_s;
    struct timespec until = {.tv_sec = (time_t)end_s, .tv_nsec = (long)(1e9 * (end_s - (double)(time_t)end_s))};

    while (!flag(watchdog))
        if (pthread_cond_timedwait(&watchdog->news, &watchdog->lock, &until))
            return;
}

/* ---- start and stop ---- */

static void init_locks(struct bb_watchdog *watchdog)
{
    pthread_condattr_t attr;

    pthread_mutex_init(&watchdog->lock, NULL);
    pthread_mutex_init(&watchdog->hooks_lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&watchdog->news, &attr);
    pthread_condattr_destroy(&attr);
}

/* Closes the connections to all peers. Ranks that wait for this rank to end then continue at once, although this
 * rank may need seconds to end other ranks. */
static void close_links(struct bb_watchdog *watchdog)
{
    for (int i = 0; i < watchdog->n_peers; i++)
        bb_watchdog_close(&watchdog->peers[i].link);
}

/* Handler of the exit guard (exit_guard.h), called when a library called exit() during the run or this process
 * crashed. Blocks this thread while the watchdog's thread reports the exit, saves the results and ends the process. */
static void await_end(void *arg, int cause)
{
    struct bb_watchdog *watchdog = arg;

    if (pthread_equal(pthread_self(), watchdog->thread))
        return; /* this is the watchdog's thread itself, which must not block */
    watchdog->exit_cause = cause;
    wake_thread(watchdog);
    for (;;)
        pause();
}

static void free_watchdog(struct bb_watchdog *watchdog)
{
    bb_neighbours_release(&watchdog->neighbours);
    close_links(watchdog);
    for (int i = 0; i < watchdog->n_visitors; i++)
        bb_watchdog_close(&watchdog->visitors[i]);
    for (int i = 0; i < watchdog->n_listen; i++)
        close(watchdog->listen_fds[i]);
    for (int i = 0; i < 3; i++) {
        int fd = (int[]){watchdog->poke_fd, watchdog->signal_fd, watchdog->speaker_fd}[i];

        if (fd >= 0)
            close(fd);
    }
    pthread_sigmask(SIG_SETMASK, &watchdog->old_signals, NULL);
    free(watchdog->peers);
    free(watchdog->visitors);
    free(watchdog);
}

static void block_signals(sigset_t *ours, sigset_t *old)
{
    sigemptyset(ours);
    for (int signal = 1; signal < BB_SIGNALS_END; signal++)
        if (bb_signal_is_taken(signal))
            sigaddset(ours, signal);
    sigaddset(ours, SIGCONT); /* to detect the end of a suspension; SIGCONT resumes the process even if it is blocked */
    pthread_sigmask(SIG_BLOCK, ours, old);
}

int bb_watchdog_start(struct bb_watchdog **out, double timeout_s)
{
    struct bb_watchdog *watchdog = calloc(1, sizeof(*watchdog));
    sigset_t ours;

    *out = NULL;
    if (!watchdog)
        return bb_err(BB_EFAIL, "watchdog: out of memory");
    init_locks(watchdog);
    block_signals(&ours, &watchdog->old_signals);
    watchdog->size = 1;
    watchdog->launcher_rank = bb_launcher_rank();
    watchdog->launcher = getppid();
    watchdog->launched = !bb_launched_alone();
    watchdog->timeout_s = timeout_s;
    watchdog->round_s = bb_now_s(); /* so that a suspension before the first iteration of the thread is detected too */
    watchdog->due_s = watchdog->round_s + timeout_s;
    watchdog->speaker_fd = -1;
    copy_text(watchdog->mine.text, "start");
    watchdog->poke_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    watchdog->signal_fd = signalfd(-1, &ours, SFD_CLOEXEC | SFD_NONBLOCK);
    if (watchdog->poke_fd < 0 || watchdog->signal_fd < 0 ||
        pthread_create(&watchdog->thread, NULL, bb_watchdog_thread, watchdog)) {
        free_watchdog(watchdog);
        return bb_err(BB_EFAIL, "watchdog: cannot create a thread: %s", strerror(errno));
    }
    bb_exit_guard(await_end, watchdog);
    *out = watchdog;
    return 0;
}

void bb_watchdog_see_neighbours(struct bb_watchdog *watchdog)
{
    pthread_mutex_lock(&watchdog->lock);
    bb_neighbours_begin(&watchdog->neighbours);
    pthread_mutex_unlock(&watchdog->lock);
}

void bb_watchdog_met(struct bb_watchdog *watchdog)
{
    pthread_mutex_lock(&watchdog->lock);
    watchdog->met = true;
    pthread_mutex_unlock(&watchdog->lock);
}

void bb_watchdog_end_others(struct bb_watchdog *watchdog)
{
    if (!bb_launcher_waits_for_all())
        return;
    close_links(watchdog);
    bb_neighbours_end(&watchdog->neighbours);
}

void bb_watchdog_end_neighbours(struct bb_watchdog *watchdog)
{
    if (!bb_launcher_waits_for_all())
        return;
    pthread_mutex_lock(&watchdog->lock);
    watchdog->met = true; /* Stop monitoring the peers first, because ending the ranks below takes seconds. */
    close_links(watchdog);
    bb_neighbours_release(&watchdog->neighbours);
    pthread_mutex_unlock(&watchdog->lock);
    bb_neighbours_end(&watchdog->neighbours);
}

void bb_watchdog_spoken(struct bb_watchdog *watchdog, int code)
{
    pthread_mutex_lock(&watchdog->lock);
    if (watchdog->launched && !watchdog->attended && watchdog->n_peers == 0 && !watchdog->spoke) {
        watchdog->speaker_fd = bb_speaker_take(code);
        bb_speaker_says(watchdog->speaker_fd);
        (void)bb_speaker_answer(watchdog->speaker_fd, code, ANSWER_OTHERS_MS);
        watchdog->spoke = true;
    }
    pthread_mutex_unlock(&watchdog->lock);
}

void bb_watchdog_told(struct bb_watchdog *watchdog)
{
    pthread_mutex_lock(&watchdog->lock);
    watchdog->told = true;
    pthread_mutex_unlock(&watchdog->lock);
}

/* Sends GONE: MPI_Finalize has returned, so from now on a closed connection is not a lost rank. Rank 0 sends GONE to
 * all ranks twice, and the other ranks exit only after the second. The reason: when a rank exits with an error,
 * mpirun kills the others at once. If ranks exited after the first GONE, mpirun could kill rank 0 before all ranks
 * have received it. */
static void say_gone(struct bb_watchdog *watchdog)
{
    struct bb_watchdog_msg gone = bb_watchdog_msg(WATCHDOG_GONE, (uint32_t)watchdog->rank, 0);

    if (!watchdog->left || watchdog->ending || watchdog->gone_said)
        return;
    watchdog->gone_said = true;
    for (int round = 0; round < (watchdog->rank == 0 ? 2 : 1); round++)
        for (int i = watchdog->rank == 0; i < watchdog->n_peers; i++)
            bb_watchdog_send(&watchdog->peers[i].link, &gone, 0.01);
}

void bb_watchdog_stop(struct bb_watchdog *watchdog)
{
    bool hooks;

    if (!watchdog)
        return;
    bb_exit_guard(NULL, NULL);
    pthread_mutex_lock(&watchdog->lock);
    watchdog->releasing = true;
    hooks = watchdog->hooks_started;
    pthread_cond_broadcast(&watchdog->news);
    pthread_mutex_unlock(&watchdog->lock);
    if (hooks)
        pthread_join(watchdog->hooks_thread, NULL); /* the watchdog's thread still runs here, so it can end the
                                                       process if a hook hangs */
    pthread_mutex_lock(&watchdog->lock);
    bb_watchdog_linger(watchdog);
    say_gone(watchdog);
    watchdog->stop = true;
    pthread_mutex_unlock(&watchdog->lock);
    wake_thread(watchdog);
    pthread_join(watchdog->thread, NULL);
    free_watchdog(watchdog);
}

static struct bb_peer *new_peers(int n)
{
    struct bb_peer *peers = calloc((size_t)n, sizeof(*peers));

    for (int i = 0; peers && i < n; i++)
        peers[i].link.fd = -1;
    return peers;
}

/* Raises the soft limit on open files, because there is one connection per rank. */
static void allow_files(int n)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= (rlim_t)n + 512)
        return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

/* Opens the listening sockets and allocates slots for pending connections (connections that have not sent HELLO or
 * SPEAK yet). at: out, the addresses. */
static int open_door(struct bb_watchdog *watchdog, int size, bool one_host, struct bb_watchdog_endpoint *at)
{
    const int n_visitors = size + SPARE_VISITORS;
    struct bb_watchdog_link *visitors = calloc((size_t)n_visitors, sizeof(*visitors));
    int fds[BB_WATCHDOG_ADDRESSES], n, rc;

    if (!visitors)
        return bb_err(BB_EFAIL, "watchdog: out of memory for %d ranks", size);
    TRY(bb_watchdog_listen(one_host, at, fds, &n));
    for (int i = 0; i < n_visitors; i++)
        visitors[i].fd = -1;
    pthread_mutex_lock(&watchdog->lock);
    watchdog->token = at->token;
    memcpy(watchdog->listen_fds, fds, sizeof(fds));
    watchdog->n_listen = n;
    watchdog->visitors = visitors;
    watchdog->n_visitors = n_visitors;
    pthread_mutex_unlock(&watchdog->lock);
    return 0;
out:
    free(visitors);
    return rc;
}

int bb_watchdog_serve(struct bb_watchdog *watchdog, int size, char (*hosts)[BB_HOST_TEXT], bool one_host,
                      struct bb_watchdog_endpoint *ticket)
{
    struct bb_peer *peers = new_peers(size);
    int rc;

    memset(ticket, 0, sizeof(*ticket));
    if (!peers)
        return bb_err(BB_EFAIL, "watchdog: out of memory for %d ranks", size);
    allow_files(2 * size);
    if (getrandom(&ticket->token, sizeof(ticket->token), 0) != sizeof(ticket->token)) {
        rc = bb_err(BB_EFAIL, "watchdog: getrandom: %s", strerror(errno));
        goto out;
    }
    TRY(open_door(watchdog, size, one_host, ticket));
    peers[0].joined = true;
    pthread_mutex_lock(&watchdog->lock);
    watchdog->hosts = hosts;
    watchdog->peers = peers;
    watchdog->n_peers = watchdog->size = size;
    pthread_mutex_unlock(&watchdog->lock);
    wake_thread(watchdog);
    return 0;
out:
    free(peers);
    return rc;
}

void bb_watchdog_deputise(struct bb_watchdog *watchdog, bool one_host, const struct bb_siphash_key *token,
                          struct bb_watchdog_endpoint *at)
{
    memset(at, 0, sizeof(*at));
    at->token = *token;
    allow_files(2 * watchdog->size);
    if (open_door(watchdog, watchdog->size, one_host, at))
        at->n = 0;
    wake_thread(watchdog);
}

void bb_watchdog_join(struct bb_watchdog *watchdog, int rank, int size, char (*hosts)[BB_HOST_TEXT],
                      const struct bb_watchdog_endpoint *ticket)
{
    struct bb_peer *peer = new_peers(1);

    static const double patience_s[] = {CONNECT_S, ANSWER_S};
    struct bb_watchdog_msg hello = bb_watchdog_msg(WATCHDOG_HELLO, (uint32_t)rank, 0), reply;
    bool attended;

    pthread_mutex_lock(&watchdog->lock);
    hello.seen = watchdog->mine;
    pthread_mutex_unlock(&watchdog->lock);
    attended = peer && bb_watchdog_dial(ticket, &hello, patience_s, &peer->link, &reply) == 0;

    if (!attended)
        bb_warn(
            "watchdog: rank 0 (%s) is unreachable from rank %d: the cause of a hang of rank %d will not be reported",
            hosts[0], rank, rank);
    pthread_mutex_lock(&watchdog->lock);
    watchdog->attended = attended;
    if (attended)
        peer->seen = reply.seen;
    watchdog->token = ticket->token;
    watchdog->hosts = hosts;
    watchdog->rank = rank;
    watchdog->size = size;
    watchdog->peers = peer;
    watchdog->n_peers = peer != NULL;
    pthread_mutex_unlock(&watchdog->lock);
    wake_thread(watchdog);
}

/* ---- signs of life ---- */

void bb_watchdog_moved(struct bb_watchdog *watchdog)
{
    atomic_store_explicit(&watchdog->moves, atomic_load_explicit(&watchdog->moves, memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

void bb_watchdog_reached(struct bb_watchdog *watchdog, const char *step)
{
    bool news_due;

    bb_watchdog_moved(watchdog);
    pthread_mutex_lock(&watchdog->lock);
    watchdog->mine.step++;
    watchdog->changed = true;
    copy_text(watchdog->mine.text, step);
    watchdog->mine.wait[0] = '\0';
    news_due = watchdog->n_sent < BB_WATCHDOG_FIRST_NEWS || bb_now_s() - watchdog->sent_s >= BB_WATCHDOG_STATE_S;
    pthread_mutex_unlock(&watchdog->lock);
    if (news_due)
        wake_thread(watchdog); /* this step is sent at once; without the wake-up the thread would send it in its next
                                  regular iteration */
}

void bb_watchdog_waiting(struct bb_watchdog *watchdog, const char *what)
{
    pthread_mutex_lock(&watchdog->lock);
    copy_text(watchdog->mine.wait, what ? what : "");
    watchdog->changed = true;
    pthread_mutex_unlock(&watchdog->lock);
    bb_watchdog_moved(watchdog);
}

void bb_watchdog_guard(struct bb_watchdog *watchdog, const char *what)
{
    bb_watchdog_waiting(watchdog, what);
}

int bb_watchdog_ending(const struct bb_watchdog *watchdog)
{
    return atomic_load_explicit(&watchdog->ending, memory_order_relaxed);
}

static bool is_ending(const struct bb_watchdog *watchdog)
{
    return watchdog->ending != 0;
}

/* Returns whether the error line was printed and the hooks have saved the results. */
static bool is_said(const struct bb_watchdog *watchdog)
{
    return watchdog->ending && !watchdog->last_words[0] && (watchdog->saved || !watchdog->hooks_started);
}

static bool is_dismissed(const struct bb_watchdog *watchdog)
{
    return watchdog->left || (watchdog->n_peers > 0 && watchdog->peers[0].link.fd < 0);
}

static bool is_over(const struct bb_watchdog *watchdog)
{
    return watchdog->left || watchdog->ending;
}

int bb_watchdog_expired(struct bb_watchdog *watchdog, const char *what)
{
    int rc;

    pthread_mutex_lock(&watchdog->lock);
    copy_text(watchdog->mine.wait, what);
    watchdog->hung = true;
    watchdog->hang_s = bb_now_s();
    wake_thread(watchdog);
    bb_watchdog_await(watchdog, is_ending, 2 * bb_watchdog_answer_s(watchdog));
    rc = watchdog->ending ? watchdog->ending : -BB_ETIMEOUT;
    pthread_mutex_unlock(&watchdog->lock);
    return rc;
}

static bool all_joined(const struct bb_watchdog *watchdog)
{
    for (int r = 0; r < watchdog->n_peers; r++)
        if (!watchdog->peers[r].joined)
            return false;
    return watchdog->n_peers > 0;
}

/* Rank 0, after its results are saved: sends BYE to the other ranks, so that they exit. */
static void dismiss_peers(struct bb_watchdog *watchdog)
{
    struct bb_watchdog_msg bye = bb_watchdog_msg(WATCHDOG_BYE, 0, 0);

    for (int r = 1; r < watchdog->n_peers; r++)
        bb_watchdog_send(&watchdog->peers[r].link, &bye, 0.01);
}

bool bb_watchdog_fail(struct bb_watchdog *watchdog, int code)
{
    bool told;

    pthread_mutex_lock(&watchdog->lock);
    watchdog->failing = code;
    watchdog->releasing = true;
    pthread_cond_broadcast(&watchdog->news);
    wake_thread(watchdog);
    if (watchdog->rank == 0) {
        bb_watchdog_await(watchdog, is_said, TELL_S);
        dismiss_peers(watchdog);
        told = all_joined(watchdog);
        bb_watchdog_linger(watchdog);
    } else {
        if (watchdog->bye_said)
            watchdog->left = false; /* ignore the earlier BYE of rank 0, which sends another one after it has saved
                                       its results */
        bb_watchdog_await(watchdog, is_dismissed, TELL_S);
        bb_watchdog_await(watchdog, is_ending, TELL_S); /* if rank 0 is lost, wait until the backup reporter has
                                                           decided */
        bb_watchdog_linger(watchdog);
        told = watchdog->end_heard || (watchdog->attended && watchdog->peers[0].link.fd < 0);
    }
    pthread_mutex_unlock(&watchdog->lock);
    return told;
}

static bool is_alone(const struct bb_watchdog *watchdog)
{
    for (int r = 1; r < watchdog->n_peers; r++)
        if (watchdog->peers[r].link.fd >= 0)
            return false;
    return true;
}

bool bb_watchdog_all_ended(struct bb_watchdog *watchdog)
{
    bool alone;

    pthread_mutex_lock(&watchdog->lock);
    watchdog->keeps = true;
    bb_watchdog_await(watchdog, is_alone, 2 * TELL_S);
    alone = is_alone(watchdog);
    pthread_mutex_unlock(&watchdog->lock);
    return alone;
}

void bb_watchdog_leave(struct bb_watchdog *watchdog)
{
    pthread_mutex_lock(&watchdog->lock);
    watchdog->leaving = true;
    wake_thread(watchdog);
    bb_watchdog_await(watchdog, is_over, watchdog->timeout_s);
    pthread_mutex_unlock(&watchdog->lock);
}

/* Returns whether the job is ending or all peers have sent GONE; rank 0 sends GONE twice. A peer that closes its
 * connection without GONE is lost, so it will be reported and the job will end. */
static bool is_departed(const struct bb_watchdog *watchdog)
{
    bool all = true;

    for (int i = watchdog->rank == 0; i < watchdog->n_peers; i++) {
        const struct bb_peer *peer = &watchdog->peers[i];
        const bool gone = peer->gone && (watchdog->rank == 0 || peer->gone_again || peer->link.fd < 0);

        all = all && (gone || !(watchdog->attended || peer->joined));
    }
    return all || watchdog->ending;
}

void bb_watchdog_depart(struct bb_watchdog *watchdog)
{
    pthread_mutex_lock(&watchdog->lock);
    if (watchdog->rank != 0)
        say_gone(watchdog);
    bb_watchdog_await(watchdog, is_departed, watchdog->timeout_s + 2 * bb_watchdog_answer_s(watchdog));
    say_gone(watchdog);
    pthread_mutex_unlock(&watchdog->lock);
}

const char *bb_watchdog_reason(struct bb_watchdog *watchdog, char phase[BB_WATCHDOG_REASON])
{
    const char *signal;

    pthread_mutex_lock(&watchdog->lock);
    signal = bb_signal_name(watchdog->ended_by);
    snprintf(phase, BB_WATCHDOG_REASON, "%s%s%s", watchdog->mine.text, watchdog->mine.wait[0] ? ", waiting for " : "",
             watchdog->mine.wait);
    pthread_mutex_unlock(&watchdog->lock);
    return signal;
}

/* ---- hooks ---- */

int bb_watchdog_hook(struct bb_watchdog *watchdog, enum bb_watchdog_when when, bb_at_end *fn, void *arg)
{
    int rc = 0;

    pthread_mutex_lock(&watchdog->hooks_lock);
    if (watchdog->n_hooks == BB_HOOKS_MAX)
        rc = bb_err(BB_EFAIL, "more than %d functions registered for an early end of the run", BB_HOOKS_MAX);
    else
        watchdog->hooks[watchdog->n_hooks++] = (struct bb_hook){when, fn, arg};
    pthread_mutex_unlock(&watchdog->hooks_lock);
    return rc;
}

void bb_watchdog_forget(struct bb_watchdog *watchdog, bb_at_end *fn, void *arg)
{
    int kept = 0;

    pthread_mutex_lock(&watchdog->hooks_lock);
    for (int i = 0; i < watchdog->n_hooks; i++)
        if (watchdog->hooks[i].fn != fn || watchdog->hooks[i].arg != arg)
            watchdog->hooks[kept++] = watchdog->hooks[i];
    watchdog->n_hooks = kept;
    pthread_mutex_unlock(&watchdog->hooks_lock);
}
