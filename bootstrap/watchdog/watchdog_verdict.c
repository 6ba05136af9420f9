/* watchdog_verdict.c - composes the error line about hanging ranks, lost ranks and signals, and starts the end of
 * the job. */
#include "bootstrap/base/clock.h"
#include "bootstrap/start/hydra.h"
#include "bootstrap/start/launcher.h"
#include "bootstrap/start/signals.h"
#include "bootstrap/watchdog/watchdog_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { NAMED_MAX = 8 }; /* maximum number of ranks that a message names */

/* An error line that is composed in parts. Text beyond the capacity is dropped. */
struct line {
    char text[BB_WATCHDOG_LINE];
    size_t used;
};

__attribute__((format(printf, 2, 3))) static void append_text(struct line *line, const char *fmt, ...)
{
    va_list args;
    int n;

    va_start(args, fmt);
    n = vsnprintf(line->text + line->used, sizeof(line->text) - line->used, fmt, args);
    va_end(args);
    line->used += (size_t)n;
    if (line->used >= sizeof(line->text))
        line->used = sizeof(line->text) - 1;
}

static void add_seen(struct line *line, const struct bb_seen *seen)
{
    append_text(line, "last seen: %s", seen->text[0] ? seen->text : "start");
    if (seen->wait[0] && strcmp(seen->wait, seen->text) != 0)
        append_text(line, ", waiting for %s", seen->wait);
}

static void add_rank(struct line *line, const struct bb_watchdog *watchdog, int rank, const struct bb_peer *peer)
{
    append_text(line, "rank %d (%s)", rank, watchdog->hosts[rank]);
    if (!peer->joined)
        append_text(line, ", never connected");
    else {
        append_text(line, ", ");
        add_seen(line, &peer->seen);
        append_text(line, "%s", peer->answered || watchdog->judge_s == 0 ? "" : ", does not answer");
    }
}

/* Adds the marked ranks to the line: up to NAMED_MAX ranks with their details, then the number of further ranks. */
static void add_ranks(struct line *line, const struct bb_watchdog *watchdog, const bool *marked)
{
    int n = 0;

    for (int r = 0; r < watchdog->size; r++) {
        if (!marked[r])
            continue;
        if (n++ < NAMED_MAX) {
            append_text(line, "%s", n > 1 ? "; " : "");
            add_rank(line, watchdog, r, &watchdog->peers[r]);
        }
    }
    if (n > NAMED_MAX)
        append_text(line, "; and %d more", n - NAMED_MAX);
}

void bb_watchdog_tell_end(struct bb_watchdog *watchdog, struct bb_peer *peer)
{
    struct bb_watchdog_msg end = bb_watchdog_msg(watchdog->rank == 0 ? WATCHDOG_END : WATCHDOG_FAIL,
                                                 (uint32_t)watchdog->rank, -watchdog->ending);

    end.signal = watchdog->ended_by;
    end.seen = watchdog->mine;
    bb_watchdog_send(&peer->link, &end, 0.01);
}

void bb_watchdog_end(struct bb_watchdog *watchdog, int code)
{
    if (watchdog->ending)
        return;
    watchdog->ending = -code;
    watchdog->ending_s = bb_now_s();
    bb_hydra_ending();
    for (int i = watchdog->rank == 0; i < watchdog->n_peers; i++)
        bb_watchdog_tell_end(watchdog, &watchdog->peers[i]);
    pthread_cond_broadcast(&watchdog->news);
}

/* Returns whether a rank with progress x is ahead of a rank with progress y: x is in a later step
 * (bb_world_reached), or both are in the same step and only x is already waiting. */
static bool is_farther(const struct bb_seen *x, const struct bb_seen *y)
{
    return x->step != y->step ? x->step > y->step : x->wait[0] && !y->wait[0];
}

/* Returns the hanging rank that is ahead of all other hanging ranks. Ranks that have not reached the same step and
 * wait count as not arrived. */
static const struct bb_peer *farthest_hung(const struct bb_watchdog *watchdog)
{
    const struct bb_peer *far = NULL;

    for (int r = 0; r < watchdog->size; r++)
        if (watchdog->peers[r].hung && (!far || is_farther(&watchdog->peers[r].seen, &far->seen)))
            far = &watchdog->peers[r];
    return far;
}

/* Returns whether a rank has arrived at `far`, the step and wait of the hanging rank that is ahead of all others. A
 * rank without a current wait is normally the rank that the others wait for, so it has not arrived. If `far` has no
 * current wait either, all ranks hang in the same call. */
static bool has_arrived(const struct bb_peer *peer, const struct bb_seen *far)
{
    return peer->joined && peer->answered && peer->seen.step >= far->step &&
           (peer->seen.wait[0] || (peer->hung && !far->wait[0]));
}

static const char *hung_at(const struct bb_seen *seen)
{
    return seen->wait[0] ? seen->wait : seen->text;
}

/* Adds the beginning of a timeout message, for example "timeout in bench all_reduce 4 MiB: the barrier did not end
 * within 600 s". */
static void add_timeout(struct line *line, const struct bb_watchdog *watchdog, const struct bb_seen *seen)
{
    const bool waits = seen->wait[0] && strcmp(seen->wait, seen->text) != 0;

    append_text(line, "timeout%s%s: %s did not end within %g s", waits ? " in " : "", waits ? seen->text : "",
                hung_at(seen), watchdog->timeout_s);
}

/* Marks the ranks that have not arrived at the step and wait of `far`, the hanging rank that is ahead of all others.
 * Returns the number of marked ranks. */
static int mark_missing(const struct bb_watchdog *watchdog, const struct bb_peer *far, bool *marked)
{
    int n = 0;

    for (int r = 0; r < watchdog->size; r++)
        n += marked[r] = !has_arrived(&watchdog->peers[r], &far->seen);
    return n;
}

/* Marks the ranks whose wait differs from the wait of `far`, the hanging rank that is ahead of all others. Returns
 * the number of marked ranks. */
static int mark_elsewhere(const struct bb_watchdog *watchdog, const struct bb_peer *far, bool *marked)
{
    int n = 0;

    for (int r = 0; r < watchdog->size; r++)
        n += marked[r] = strcmp(hung_at(&watchdog->peers[r].seen), hung_at(&far->seen)) != 0;
    return n;
}

/* Divides the ranks into those in the same wait as `far`, the hanging rank that is ahead of all others, and those in
 * another wait. Adds the smaller of these two sets to the line, because it more likely contains the cause. */
static void add_apart(struct line *line, const struct bb_watchdog *watchdog, const struct bb_peer *far)
{
    bool marked[watchdog->size];
    int n = mark_elsewhere(watchdog, far, marked);

    if (n == 0)
        return;
    for (int r = 0; 2 * n > watchdog->size && r < watchdog->size; r++)
        marked[r] = !marked[r];
    append_text(line,
                2 * n > watchdog->size ? ", but only these wait for it: " : ", but these wait for something else: ");
    add_ranks(line, watchdog, marked);
}

void bb_watchdog_judge_hang(struct bb_watchdog *watchdog)
{
    struct line line = {.used = 0};
    bool marked[watchdog->size];
    const struct bb_peer *far;
    int n;

    watchdog->peers[0].seen = watchdog->mine;
    far = farthest_hung(watchdog);
    add_timeout(&line, watchdog, &far->seen);
    if ((n = mark_missing(watchdog, far, marked)) > 0 && watchdog->size > 1) {
        append_text(&line, "; %d of %d ranks did not arrive: ", n, watchdog->size);
        add_ranks(&line, watchdog, marked);
    } else {
        if (watchdog->size > 1)
            append_text(&line, "; all %d ranks arrived", watchdog->size);
        add_apart(&line, watchdog, far);
    }
    (void)bb_watchdog_say(watchdog, BB_ETIMEOUT, line.text);
    bb_watchdog_end(watchdog, BB_ETIMEOUT);
}

void bb_watchdog_judge_lost(struct bb_watchdog *watchdog)
{
    struct line line = {.used = 0};
    bool lost[watchdog->size];
    int n = 0;

    for (int r = 0; r < watchdog->size; r++)
        n += lost[r] = watchdog->peers[r].lost;
    if (n > 1)
        append_text(&line, "%d ranks are lost: ", n);
    for (int r = 0; n == 1 && r < watchdog->size; r++)
        if (lost[r]) {
            append_text(&line, "rank %d (%s) is lost; ", r, watchdog->hosts[r]);
            add_seen(&line, &watchdog->peers[r].seen);
        }
    if (n > 1)
        add_ranks(&line, watchdog, lost);
    memcpy(watchdog->last_words, line.text, sizeof(line.text));
    bb_watchdog_end(watchdog, BB_ETIMEOUT);
}

void bb_watchdog_judge_server_lost(struct bb_watchdog *watchdog)
{
    struct line line = {.used = 0};

    append_text(&line, "rank 0 (%s) is lost; ", watchdog->hosts[0]);
    add_seen(&line, &watchdog->peers[0].seen);
    (void)bb_watchdog_say(watchdog, BB_ETIMEOUT, line.text);
    bb_watchdog_end(watchdog, BB_ETIMEOUT);
}

static void add_here(struct line *line, int rank)
{
    char host[BB_HOST_TEXT] = "";

    (void)gethostname(host, sizeof(host) - 1);
    append_text(line, "rank %d (%s)", rank, host);
}

/* Adds the ranks of this host that have no process. Adds nothing after the ranks are connected. */
static void add_missing(struct line *line, const struct bb_watchdog *watchdog)
{
    int more, first = watchdog->met ? -1 : bb_neighbours_missing(&watchdog->neighbours, &more);

    if (first < 0)
        return;
    append_text(line, "; ");
    add_here(line, first);
    if (more > 0)
        append_text(line, " and %d more ranks of this host", more);
    append_text(line, more > 0 ? " are missing" : " is missing");
}

void bb_watchdog_judge_neighbour(struct bb_watchdog *watchdog, int rank)
{
    struct line line = {.used = 0};

    add_here(&line, rank);
    append_text(&line, " is lost; the other ranks were ");
    add_seen(&line, &watchdog->mine);
    bb_launcher_take_stderr(getppid());
    if (bb_watchdog_say(watchdog, BB_ETIMEOUT, line.text)) /* if it was not printed, another rank is the reporter,
                                                              and the exit code of that rank arrives soon */
        bb_watchdog_end(watchdog, BB_ETIMEOUT);
}

void bb_watchdog_judge_alone(struct bb_watchdog *watchdog)
{
    struct line line = {.used = 0};

    add_timeout(&line, watchdog, &watchdog->mine);
    if (watchdog->size > 1)
        append_text(&line, "; rank 0 (%s) does not answer rank %d (%s)", watchdog->hosts[0], watchdog->rank,
                    watchdog->hosts[watchdog->rank]);
    else
        add_missing(&line, watchdog);
    (void)bb_watchdog_say(watchdog, BB_ETIMEOUT, line.text);
    bb_watchdog_end(watchdog, BB_ETIMEOUT);
}

/* Returns whether the connections to all peers are open. In that case no rank has exited or reported an error, so a
 * suspension of this process also suspended all other ranks. */
static bool is_with_all(const struct bb_watchdog *watchdog)
{
    for (int i = watchdog->rank == 0; i < watchdog->n_peers; i++)
        if (watchdog->peers[i].link.fd < 0)
            return false;
    return watchdog->n_peers > (watchdog->rank == 0);
}

void bb_watchdog_judge_signal(struct bb_watchdog *watchdog)
{
    const int rank = watchdog->signal_rank;
    const bool ours = rank == watchdog->rank || !watchdog->peers || rank >= watchdog->n_peers;
    struct line line = {.used = 0};

    if (watchdog->ending)
        return;
    if (!ours)
        append_text(&line, "rank %d (%s) was ", rank, watchdog->hosts[rank]);
    append_text(&line, "ended by %s; ", bb_signal_name(watchdog->signal));
    add_seen(&line, ours ? &watchdog->mine : &watchdog->peers[rank].seen);
    watchdog->ended_by = watchdog->signal;
    bb_launcher_take_stderr(watchdog->signal_sender);
    if (!watchdog->slept || is_with_all(watchdog))
        (void)bb_watchdog_say(watchdog, BB_EFAIL, line.text);
    bb_watchdog_end(watchdog, BB_EFAIL);
}
