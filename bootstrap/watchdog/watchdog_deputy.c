/*
 * watchdog_deputy.c - backup reporters (deputies): chooses the rank that reports an error when rank 0 cannot. A rank
 * that wants to report sends SPEAK to each backup reporter with a lower rank number, one after the other. The first one
 * that answers prints the error line, and the requesting rank prints nothing. If none answers, or before the ranks are
 * connected, the requesting rank claims the reporter lock of its host (bootstrap/start/speaker.h) and prints the line
 * itself.
 */
#include "bootstrap/base/clock.h"
#include "bootstrap/start/hydra.h"
#include "bootstrap/start/speaker.h"
#include "bootstrap/watchdog/watchdog_internal.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>

static const double ASK_S[] = {0.1, 0.4}; /* time limits in seconds for a backup reporter: [0] to accept the
                                             connection, [1] to answer */
static const double LINGER_S = 0.5;       /* seconds for which this process keeps the reporter lock, because other ranks
                                       notice the error later */
static const double AWAIT_S = 0.2; /* seconds to wait until the owner of the reporter lock has printed its line */
enum { LOOK_MS = 5 };

void bb_watchdog_choose_deputies(struct bb_watchdog_deputies *deputies, int size, const int *node_of)
{
    enum { OF_FIRST_NODE = 2, OF_OTHERS = 2 };

    memset(deputies, 0, sizeof(*deputies));
    for (int r = 1; r < size && deputies->n < BB_WATCHDOG_DEPUTIES; r++) {
        const bool first_of_node = node_of[r] > node_of[r - 1] && node_of[r] <= OF_OTHERS;

        if (r <= OF_FIRST_NODE || first_of_node)
            deputies->rank[deputies->n++] = r;
    }
}

void bb_watchdog_know_deputies(struct bb_watchdog *watchdog, const struct bb_watchdog_deputies *deputies)
{
    pthread_mutex_lock(&watchdog->lock);
    watchdog->deputies = *deputies;
    pthread_mutex_unlock(&watchdog->lock);
}

static bool has_lost_server(const struct bb_watchdog *watchdog)
{
    return watchdog->attended && watchdog->peers[0].link.fd < 0;
}

/* Sends SPEAK to backup reporter i. Returns whether the backup reporter answered; in that case the backup reporter
 * prints the error line instead of this rank. */
static bool ask_deputy(const struct bb_watchdog *watchdog, int i)
{
    struct bb_watchdog_endpoint at = watchdog->deputies.at[i];
    struct bb_watchdog_msg question = bb_watchdog_msg(WATCHDOG_SPEAK, (uint32_t)watchdog->rank, 0), answer;
    struct bb_watchdog_link link = {.fd = -1};

    at.token = watchdog->token;
    question.seen = watchdog->mine;
    question.signal = watchdog->signal;
    question.code = has_lost_server(watchdog) ? BB_ETIMEOUT : 0;
    if (bb_watchdog_dial(&at, &question, ASK_S, &link, &answer))
        return false;
    bb_watchdog_close(&link);
    return answer.kind == WATCHDOG_END;
}

/* Returns whether this is rank 0 and all other ranks are connected. Rank 0 then needs no reporter lock, unless it
 * was suspended, because ranks that resumed before it may already have reported. */
static bool is_heard_by_all(const struct bb_watchdog *watchdog)
{
    for (int r = 1; r < watchdog->n_peers; r++)
        if (!watchdog->peers[r].joined)
            return false;
    return watchdog->rank == 0 && watchdog->n_peers > 1;
}

bool bb_watchdog_keep_word(struct bb_watchdog *watchdog, int code)
{
    if (!bb_hydra_started_us())
        return true;
    if (watchdog->speaker_fd < 0)
        watchdog->speaker_fd = bb_speaker_take(code);
    return watchdog->speaker_fd >= 0;
}

/* Claims the reporter lock. prterun kills all ranks as soon as one has exited, so if another rank owns the lock,
 * this rank waits until that rank has printed its line. If the owner dies before it has printed, this rank takes
 * over the lock. Returns the lock's descriptor, or -1 if another rank has reported. */
static int take_word(int code)
{
    const double end_s = bb_now_s() + AWAIT_S;
    int lock_fd;

    while ((lock_fd = bb_speaker_take(code)) < 0 && bb_speaker_heard() == 0 && bb_now_s() < end_s)
        poll(NULL, 0, LOOK_MS);
    return lock_fd;
}

bool bb_watchdog_speaks(struct bb_watchdog *watchdog, int code)
{
    bool ours;

    if ((watchdog->size == 1 && !watchdog->launched) || (is_heard_by_all(watchdog) && !watchdog->slept))
        return bb_watchdog_keep_word(watchdog, code);
    for (int i = 0; i < watchdog->deputies.n && watchdog->deputies.rank[i] < watchdog->rank; i++)
        if (ask_deputy(watchdog, i))
            return false;
    watchdog->speaker_fd = take_word(code);
    ours = watchdog->speaker_fd >= 0;
    watchdog->spoke = ours;
    return ours;
}

/* Prints the error line and marks the error as reported. Under Hydra the error is marked before it is printed,
 * because Hydra kills all ranks as soon as a rank prints. Other launchers kill the ranks only after one has exited. */
static void put_line(const struct bb_watchdog *watchdog, enum bb_error code, const char *line)
{
    const bool before = bb_hydra_started_us();

    if (before)
        bb_speaker_says(watchdog->speaker_fd);
    if (code == BB_ETIMEOUT) /* timeouts and lost ranks concern the whole job, so the line does not begin with this
                                rank */
        bb_err_job_nonblocking(code, "%s", line);
    else
        bb_err_nonblocking(code, "%s", line);
    if (!before)
        bb_speaker_says(watchdog->speaker_fd);
}

bool bb_watchdog_say(struct bb_watchdog *watchdog, enum bb_error code, const char *line)
{
    const bool ours = bb_watchdog_speaks(watchdog, (int)code);

    if (ours)
        put_line(watchdog, code, line);
    return ours;
}

void bb_watchdog_say_lost(struct bb_watchdog *watchdog, const char *line)
{
    if (watchdog->launched && watchdog->speaker_fd < 0)
        watchdog->speaker_fd = bb_speaker_take(bb_exit_code(watchdog->ending));
    if (!watchdog->launched || watchdog->speaker_fd >= 0)
        put_line(watchdog, BB_ETIMEOUT, line);
}

void bb_watchdog_asked(struct bb_watchdog *watchdog, const struct bb_watchdog_msg *msg)
{
    if (watchdog->ending)
        return;
    if (msg->signal) {
        watchdog->signal = watchdog->signal ? watchdog->signal : msg->signal;
        bb_watchdog_judge_signal(watchdog);
    } else if (msg->code || has_lost_server(watchdog)) {
        bb_watchdog_judge_server_lost(watchdog);
    } else {
        if (!watchdog->mine.wait[0])
            memcpy(watchdog->mine.wait, msg->seen.wait, sizeof(msg->seen.wait));
        bb_watchdog_judge_alone(watchdog);
    }
}

static bool never(const struct bb_watchdog *watchdog)
{
    (void)watchdog;
    return false;
}

void bb_watchdog_linger(struct bb_watchdog *watchdog)
{
    const double left_s = watchdog->ending_s + LINGER_S - bb_now_s();

    if (watchdog->spoke && left_s > 0)
        bb_watchdog_await(watchdog, never, left_s);
}
