/* watchdog.c - the watchdog as the main thread sees it: start, what it tells and asks, stop. */
#include "bootstrap/watchdog/watchdog.h"

#include "bootstrap/base/clock.h"
#include "bootstrap/watchdog/watchdog_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

static const double TELL_S = 0.5; /* for rank 0 to save its results */

static void copy_text(char *to, const char *from)
{
    snprintf(to, BB_WATCHDOG_TEXT, "%s", from);
}

static void wake_thread(struct bb_watchdog *roll)
{
    uint64_t one = 1;

    if (write(roll->poke_fd, &one, sizeof(one)) < 0)
        return; /* the counter is full: it is awake */
}

/* Waits for a flag of the roll under the lock, at most so long. */
void bb_watchdog_await(struct bb_watchdog *roll, bool (*flag)(const struct bb_watchdog *), double patience_s)
{
    double end_s = bb_now_s() + patience_s;
    struct timespec until = {.tv_sec = (time_t)end_s, .tv_nsec = (long)(1e9 * (end_s - (double)(time_t)end_s))};

    while (!flag(roll))
        if (pthread_cond_timedwait(&roll->news, &roll->lock, &until))
            return;
}

/* ---- start and stop ---- */

static void init_locks(struct bb_watchdog *roll)
{
    pthread_condattr_t attr;

    pthread_mutex_init(&roll->lock, NULL);
    pthread_mutex_init(&roll->hooks_lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&roll->news, &attr);
    pthread_condattr_destroy(&attr);
}

static void free_roll(struct bb_watchdog *roll)
{
    for (int i = 0; i < roll->n_peers; i++) {
        bb_watchdog_close(&roll->peers[i].link);
        if (roll->visitors)
            bb_watchdog_close(&roll->visitors[i]);
    }
    for (int i = 0; i < 3; i++) {
        int fd = (int[]){roll->poke_fd, roll->signal_fd, roll->listen_fd}[i];

        if (fd >= 0)
            close(fd);
    }
    pthread_sigmask(SIG_SETMASK, &roll->old_signals, NULL);
    free(roll->last_words);
    free(roll->peers);
    free(roll->visitors);
    free(roll);
}

int bb_watchdog_start(struct bb_watchdog **out, double timeout_s)
{
    struct bb_watchdog *roll = calloc(1, sizeof(*roll));
    sigset_t ours;

    *out = NULL;
    if (!roll)
        return bb_err(BB_EFAIL, "watchdog: no memory");
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
    if (roll->poke_fd < 0 || roll->signal_fd < 0 || pthread_create(&roll->thread, NULL, bb_watchdog_thread, roll)) {
        free_roll(roll);
        return bb_err(BB_EFAIL, "watchdog: no thread: %s", strerror(errno));
    }
    *out = roll;
    return 0;
}

void bb_watchdog_stop(struct bb_watchdog *roll)
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
    wake_thread(roll);
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

int bb_watchdog_serve(struct bb_watchdog *roll, int size, char (*hosts)[BB_HOST_TEXT], bool one_host,
                      struct bb_watchdog_endpoint *ticket)
{
    struct bb_peer *peers = new_peers(size);
    struct bb_watchdog_link *visitors = calloc((size_t)size, sizeof(*visitors));
    int fd = -1, rc;

    if (!peers || !visitors) {
        rc = bb_err(BB_EFAIL, "watchdog: no memory for %d ranks", size);
        goto out;
    }
    allow_files(size);
    TRY(bb_watchdog_listen(one_host, ticket, &fd));
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
    wake_thread(roll);
    return 0;
out:
    free(peers);
    free(visitors);
    return rc;
}

void bb_watchdog_join(struct bb_watchdog *roll, int rank, int size, char (*hosts)[BB_HOST_TEXT],
                      const struct bb_watchdog_endpoint *ticket)
{
    struct bb_peer *peer = new_peers(1);

    bool attended = peer && bb_watchdog_dial(ticket, (uint32_t)rank, &peer->link) == 0;

    if (!attended)
        bb_warn("watchdog: rank 0 (%s) cannot be reached: a hang will not be explained from here", hosts[0]);
    pthread_mutex_lock(&roll->lock);
    roll->attended = attended;
    roll->hosts = hosts;
    roll->rank = rank;
    roll->size = size;
    roll->peers = peer;
    roll->n_peers = peer != NULL;
    pthread_mutex_unlock(&roll->lock);
    wake_thread(roll);
}

/* ---- the main thread's side ---- */

void bb_watchdog_reached(struct bb_watchdog *roll, const char *step)
{
    bool news_due;

    pthread_mutex_lock(&roll->lock);
    roll->mine.step++;
    roll->changed = true;
    copy_text(roll->mine.text, step);
    roll->mine.wait[0] = '\0';
    news_due = bb_now_s() - roll->sent_s >= BB_WATCHDOG_STATE_S;
    pthread_mutex_unlock(&roll->lock);
    if (news_due)
        wake_thread(roll); /* steps that follow fast wait for the thread's next round */
}

void bb_watchdog_waiting(struct bb_watchdog *roll, const char *what)
{
    pthread_mutex_lock(&roll->lock);
    copy_text(roll->mine.wait, what ? what : "");
    roll->changed = true;
    pthread_mutex_unlock(&roll->lock);
}

void bb_watchdog_guard(struct bb_watchdog *roll, const char *what)
{
    pthread_mutex_lock(&roll->lock);
    roll->guard = what;
    roll->guard_end_s = bb_now_s() + roll->timeout_s;
    pthread_mutex_unlock(&roll->lock);
    bb_watchdog_waiting(roll, what);
}

int bb_watchdog_ending(const struct bb_watchdog *roll)
{
    return atomic_load_explicit(&roll->ending, memory_order_relaxed);
}

static bool is_ending(const struct bb_watchdog *roll)
{
    return roll->ending != 0;
}

static bool is_said(const struct bb_watchdog *roll)
{
    return roll->ending && !roll->last_words;
}

static bool is_dismissed(const struct bb_watchdog *roll)
{
    return roll->left || (roll->n_peers > 0 && roll->peers[0].link.fd < 0);
}

static bool is_over(const struct bb_watchdog *roll)
{
    return roll->left || roll->ending;
}

int bb_watchdog_expired(struct bb_watchdog *roll, const char *what)
{
    int rc;

    pthread_mutex_lock(&roll->lock);
    copy_text(roll->mine.wait, what);
    roll->hung = true;
    roll->hang_s = bb_now_s();
    wake_thread(roll);
    bb_watchdog_await(roll, is_ending, 2 * BB_WATCHDOG_ANSWER_S);
    rc = roll->ending ? roll->ending : -BB_ETIMEOUT;
    pthread_mutex_unlock(&roll->lock);
    return rc;
}

static bool all_joined(const struct bb_watchdog *roll)
{
    for (int r = 0; r < roll->n_peers; r++)
        if (!roll->peers[r].joined)
            return false;
    return roll->n_peers > 0;
}

/* rank 0, when its results are safe: now the others may leave too. */
static void dismiss_peers(struct bb_watchdog *roll)
{
    struct bb_watchdog_msg bye = bb_watchdog_msg(WATCHDOG_BYE, 0, 0);

    for (int r = 1; r < roll->n_peers; r++)
        bb_watchdog_send(&roll->peers[r].link, &bye, 0.01);
}

bool bb_watchdog_fail(struct bb_watchdog *roll, int code)
{
    bool told;

    pthread_mutex_lock(&roll->lock);
    roll->failing = code;
    roll->releasing = true;
    pthread_cond_broadcast(&roll->news);
    wake_thread(roll);
    if (roll->rank == 0) {
        bb_watchdog_await(roll, is_said, TELL_S);
        dismiss_peers(roll);
        told = all_joined(roll);
    } else {
        bb_watchdog_await(roll, is_dismissed, TELL_S);
        told = roll->end_heard || (roll->attended && roll->peers[0].link.fd < 0);
    }
    pthread_mutex_unlock(&roll->lock);
    return told;
}

void bb_watchdog_leave(struct bb_watchdog *roll)
{
    pthread_mutex_lock(&roll->lock);
    roll->leaving = true;
    wake_thread(roll);
    bb_watchdog_await(roll, is_over, roll->timeout_s);
    pthread_mutex_unlock(&roll->lock);
}

/* ---- hooks ---- */

int bb_watchdog_hook(struct bb_watchdog *roll, enum bb_watchdog_when when, bb_at_end *fn, void *arg)
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

void bb_watchdog_forget(struct bb_watchdog *roll, bb_at_end *fn, void *arg)
{
    int kept = 0;

    pthread_mutex_lock(&roll->hooks_lock);
    for (int i = 0; i < roll->n_hooks; i++)
        if (roll->hooks[i].fn != fn || roll->hooks[i].arg != arg)
            roll->hooks[kept++] = roll->hooks[i];
    roll->n_hooks = kept;
    pthread_mutex_unlock(&roll->hooks_lock);
}
