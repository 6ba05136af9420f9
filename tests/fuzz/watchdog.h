/*
 * watchdog.h - a watchdog without its thread, for the targets that send data to it through a socket. The target
 * includes the source file of the thread, so that it can call its functions one by one, and replaces the functions of
 * the reporter.
 */
#ifndef BB_TESTS_FUZZ_WATCHDOG_H
#define BB_TESTS_FUZZ_WATCHDOG_H

#include "bootstrap/start/speaker.h"
#include "bootstrap/watchdog/watchdog_thread.c"
#include "tests/fuzz/fuzz.h"

enum { RANKS = 4, VISITORS = 3 };

static const struct bb_siphash_key token = {.k = {0x0123456789abcdef, 0xfedcba9876543210}};
static char hosts[RANKS][BB_HOST_TEXT] = {"alpha", "beta", "gamma", "delta"};

static bool reporter_taken; /* another rank has claimed the reporter lock and has printed the error */

/* The real function forks a process that holds the reporter lock. */
int bb_speaker_take_of(pid_t launcher, int code)
{
    (void)launcher;
    (void)code;
    reporter_taken = true;
    return -1;
}

int bb_speaker_take(int code)
{
    return bb_speaker_take_of(0, code);
}

void bb_speaker_says(int fd)
{
    (void)fd;
}

bool bb_speaker_answer(int fd, int code, int for_ms)
{
    (void)fd;
    (void)code;
    (void)for_ms;
    return false;
}

int bb_speaker_heard(void)
{
    return reporter_taken ? BB_EFAIL : 0;
}

struct fuzz_watchdog {
    struct bb_watchdog watchdog;
    struct bb_peer *peers;                                      /* [n_peers] */
    struct bb_watchdog_link visitors[VISITORS], callers[RANKS]; /* callers: the other ends of the connections */
};

static inline void connect_link(struct bb_watchdog_link *ours, struct bb_watchdog_link *theirs)
{
    int ends[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends))
        exit(0);
    *ours = (struct bb_watchdog_link){.fd = ends[0], .called = true, .nonce = 77, .since_s = bb_now_s()};
    *theirs = (struct bb_watchdog_link){.fd = ends[1], .nonce = 77};
}

/* Rank 0 serves RANKS ranks; any other rank has one connection, to rank 0. */
static inline void start_watchdog(struct fuzz_watchdog *d, int rank)
{
    const int n_peers = rank == 0 ? RANKS : 1;

    reporter_taken = false;
    memset(d, 0, sizeof(*d));
    d->peers = calloc((size_t)n_peers, sizeof(*d->peers));
    if (!d->peers)
        exit(0);
    d->watchdog = (struct bb_watchdog){.rank = rank,
                                       .size = RANKS,
                                       .hosts = hosts,
                                       .timeout_s = 5,
                                       .token = token,
                                       .speaker_fd = -1,
                                       .poke_fd = -1,
                                       .signal_fd = -1,
                                       .launched = true,
                                       .launcher_rank = rank,
                                       .launcher = getppid(),
                                       .attended = rank > 0,
                                       .peers = d->peers,
                                       .n_peers = n_peers,
                                       .visitors = d->visitors,
                                       .n_visitors = VISITORS};
    pthread_mutex_init(&d->watchdog.lock, NULL);
    pthread_cond_init(&d->watchdog.news, NULL);
    for (int i = 0; i < n_peers; i++)
        d->peers[i].link.fd = -1;
    for (int i = 0; i < RANKS; i++)
        d->callers[i].fd = -1;
    for (int i = 0; i < VISITORS; i++)
        d->visitors[i].fd = -1;
    d->peers[0].joined = true;
}

/* Sets the same key on both ends of a connection. */
static inline void share_key(struct bb_watchdog_link *ours, struct bb_watchdog_link *theirs)
{
    bb_watchdog_take_key(ours, &token, 99);
    bb_watchdog_take_key(theirs, &token, 99);
}

static inline void stop_watchdog(struct fuzz_watchdog *d)
{
    for (int i = 0; i < d->watchdog.n_peers; i++)
        bb_watchdog_close(&d->peers[i].link);
    for (int i = 0; i < RANKS; i++)
        bb_watchdog_close(&d->callers[i]);
    for (int i = 0; i < VISITORS; i++)
        bb_watchdog_close(&d->visitors[i]);
    free(d->peers);
}

/* Received texts, from which all error messages are built, are terminated. */
static inline void check_texts(const struct fuzz_watchdog *d)
{
    for (int i = 0; i < d->watchdog.n_peers; i++)
        HOLDS(memchr(d->peers[i].seen.text, '\0', BB_WATCHDOG_TEXT) &&
              memchr(d->peers[i].seen.wait, '\0', BB_WATCHDOG_TEXT));
}

#endif
