/* verdict.c - composes and prints the one error line of a job: hanging ranks, lost ranks, signals. */
#include "bootstrap/base/units.h"
#include "bootstrap/start/launcher.h"
#include "bootstrap/start/signals.h"
#include "bootstrap/supervise/local_job.h"
#include "bootstrap/supervise/ras.h"
#include "bootstrap/supervise/supervisor.h"

#include <stdio.h>
#include <string.h>

enum { NAMED_MAX = 8 }; /* maximum number of ranks that a message names */

static const char *host_of(const struct bb_supervisor *s, int rank)
{
    return s->job.hosts && rank < s->job.size ? s->job.hosts[rank] : s->job.host;
}

/* Returns what is known about the progress of a rank. */
static struct bb_seen seen_of(const struct bb_supervisor *s, int rank)
{
    const struct bb_child *child = bb_ranks_find(s, rank);
    struct bb_seen seen = {0};

    if (child)
        bb_rank_page_read(child->page, &seen);
    else if (rank < s->star.n_peers)
        seen = s->star.peers[rank].seen;
    if (child && !child->alive)
        snprintf(seen.text, BB_SEEN_TEXT, "loading the GPU libraries");
    return seen;
}

/* Adds the last step of a rank and what the rank waits for. */
static void add_seen(FILE *line, const struct bb_seen *seen)
{
    fprintf(line, "last seen: %s", seen->text[0] ? seen->text : "start");
    if (seen->wait[0] && strcmp(seen->wait, seen->text) != 0)
        fprintf(line, ", waiting for %s", seen->wait);
}

/* Returns what a hanging rank waits for, or its last step if it has no current wait. */
static const char *hung_at(const struct bb_seen *seen)
{
    return seen->wait[0] ? seen->wait : seen->text;
}

/* Adds "rank R (HOST)" and its progress. verb: "", or what the rank did not do; NULL: it hangs elsewhere than most ranks. */
static void add_rank(FILE *line, const struct bb_supervisor *s, int rank, const char *verb)
{
    const struct bb_peer *peer = &s->star.peers[rank];
    const struct bb_seen *seen = &peer->seen;

    fprintf(line, "rank %d (%s)%s", rank, host_of(s, rank), verb ? verb : "");
    if (!verb) {
        fprintf(line, " %s %s", seen->called ? "did not return from" : "waits for", hung_at(seen));
        return;
    }
    if (!peer->joined) {
        fprintf(line, ", never connected");
        return;
    }
    fprintf(line, ", ");
    add_seen(line, seen);
    if (peer->stopped)
        fprintf(line, ", suspended");
    if (!peer->answered && s->trouble.cause == BB_CAUSE_HANG)
        fprintf(line, ", does not answer");
}

static void add_lost(struct bb_supervisor *s, int rank)
{
    if (!s->lost)
        s->lost = json_array();
    json_array_append_new(s->lost, json_integer(rank));
}

/* Adds the marked ranks to the line, those in a blocking call first, because the others may wait for them: up to NAMED_MAX
 * ranks with their details, then the number of further ranks. */
static void add_ranks(FILE *line, struct bb_supervisor *s, const bool *marked, const char *verb)
{
    bool called = false; /* in a hang, ranks that wait for one in a blocking call are not lost */
    int n = 0;

    for (int i = 0; i < 2 * s->job.size; i++) {
        const int r = i % s->job.size;

        if (!marked[r] || (s->star.peers[r].seen.called != 0) != (i < s->job.size))
            continue;
        called |= i < s->job.size;
        if (i < s->job.size || !called || s->trouble.cause == BB_CAUSE_LOST)
            add_lost(s, r);
        if (n++ < NAMED_MAX) {
            fprintf(line, "%s", n > 1 ? "; " : "");
            add_rank(line, s, r, verb);
        }
    }
    if (n > NAMED_MAX)
        fprintf(line, "; and %d more", n - NAMED_MAX);
}

/* ---- hanging ranks ---- */

/* Returns whether a rank with progress x is ahead of a rank with progress y: x is in a later step, or both are in the
 * same step and only x is already waiting. */
static bool is_ahead(const struct bb_seen *x, const struct bb_seen *y)
{
    return x->step != y->step ? x->step > y->step : x->wait[0] && !y->wait[0];
}

/* Returns the hanging rank that is ahead of all other hanging ranks. */
static const struct bb_peer *farthest_hung(const struct bb_supervisor *s)
{
    const struct bb_peer *far = NULL;

    for (int r = 0; r < s->star.n_peers; r++)
        if (s->star.peers[r].hung && (!far || is_ahead(&s->star.peers[r].seen, &far->seen)))
            far = &s->star.peers[r];
    return far ? far : &s->star.peers[0];
}

/* Returns whether a rank has arrived at `far`, the step and wait of the hanging rank that is ahead of all others. A
 * rank without a current wait is normally the rank that the others wait for, so it has not arrived. If `far` has no
 * current wait either, all ranks hang in the same call. */
static bool has_arrived(const struct bb_peer *peer, const struct bb_seen *far)
{
    if (peer->ended || peer->stopped)
        return peer->ended;
    return peer->joined && peer->answered && peer->seen.step >= far->step &&
           (peer->seen.wait[0] || (peer->hung && !far->wait[0]));
}

/* Adds the beginning of a timeout message, for example "timeout in bench all_reduce 4 MiB: the barrier did not end
 * within 600 s". */
static void add_timeout(FILE *line, const struct bb_supervisor *s, const struct bb_seen *seen)
{
    const bool waits = seen->wait[0] && strcmp(seen->wait, seen->text) != 0;

    fprintf(line, "timeout%s%s: %s did not end within %g s", waits ? " in " : "", waits ? seen->text : "",
            hung_at(seen), s->timeout_s);
}

/* Marks the ranks that have not arrived at `far`, the hanging rank that is ahead of all others. marked: out, [size].
 * Returns their number. */
static int mark_missing(const struct bb_supervisor *s, const struct bb_peer *far, bool *marked)
{
    int n = 0;

    for (int r = 0; r < s->job.size; r++)
        n += marked[r] = !has_arrived(&s->star.peers[r], &far->seen);
    return n;
}

/* Returns the number of ranks without those of lost nodes, without which the run went on. */
static int count_ranks(const struct bb_supervisor *s)
{
    int n = 0;

    for (int r = 0; r < s->job.size; r++)
        n += !s->star.peers[r].left;
    return n;
}

/* Marks the ranks in the same wait as `seen`. marked: in and out, [size]. Returns their number. */
static int mark_wait(const struct bb_supervisor *s, const struct bb_seen *seen, bool *marked)
{
    int n = 0;

    for (int r = 0; r < s->job.size; r++) {
        const struct bb_seen *own = &s->star.peers[r].seen;
        const bool same =
            !s->star.peers[r].left && own->called == seen->called && strcmp(hung_at(own), hung_at(seen)) == 0;

        marked[r] |= same;
        n += same;
    }
    return n;
}

/* Returns the wait that most ranks are in; of two with equally many ranks, the one that is not a blocking call. n: out,
 * number of ranks in this wait. */
static const struct bb_seen *most_common_wait(const struct bb_supervisor *s, int *n)
{
    const struct bb_seen *most = NULL;
    bool counted[s->job.size];

    *n = 0;
    memset(counted, 0, sizeof(counted));
    for (int r = 0; r < s->job.size; r++) {
        const struct bb_seen *seen = &s->star.peers[r].seen;
        const int here = counted[r] || s->star.peers[r].left ? 0 : mark_wait(s, seen, counted);

        if (here > 0 && (here > *n || (here == *n && most && most->called && !seen->called))) {
            most = seen;
            *n = here;
        }
    }
    return most;
}

/* All ranks take part in the same exchanges in the same order, so those in fewer exchanges are the ones that the others wait
 * for: a pair whose all_reduce hangs, while the other pairs wait for the next exchange. Marks the former if they are at most
 * half of the ranks. marked: out, [size]. Returns their number, or 0. farthest: out, progress of one of the others. */
static int mark_behind(const struct bb_supervisor *s, bool *marked, const struct bb_seen **farthest)
{
    int n = 0;

    *farthest = NULL;
    for (int r = 0; r < s->job.size; r++) {
        const struct bb_peer *peer = &s->star.peers[r];

        if (!peer->left && (!*farthest || peer->seen.exchanges > (*farthest)->exchanges))
            *farthest = &peer->seen;
    }
    for (int r = 0; r < s->job.size; r++) {
        const struct bb_peer *peer = &s->star.peers[r];

        n += marked[r] = !peer->left && peer->seen.exchanges < (*farthest)->exchanges;
    }
    return 2 * n <= count_ranks(s) ? n : 0;
}

/* Forgets that the marked ranks are lost if they are on more than half of the nodes and none is in a blocking call: a rail that
 * hangs has a rank on every node, and which one blocks it is unknown. */
static void forget_common(struct bb_supervisor *s, const bool *marked)
{
    bool called = false, has_marked[s->job.nodes];
    int n = 0;

    memset(has_marked, 0, sizeof has_marked);
    for (int r = 0; r < s->job.size; r++) {
        called |= marked[r] && s->star.peers[r].seen.called;
        n += marked[r] && !has_marked[s->job.node_of[r]];
        has_marked[s->job.node_of[r]] |= marked[r];
    }
    if (called || s->job.nodes == 1 || 2 * n <= s->job.nodes)
        return;
    json_decref(s->lost);
    s->lost = NULL;
}

/* Returns whether only the ranks in `wait`, which are most of the ranks, are in a blocking call, or all others are in a later
 * exchange. others: [size] the ranks that are not in `wait`. */
static bool is_for_these(const struct bb_supervisor *s, const struct bb_seen *wait, const bool *others)
{
    bool called = false, all_ahead = true;

    for (int r = 0; r < s->job.size; r++) {
        const struct bb_seen *seen = &s->star.peers[r].seen;

        called |= others[r] && seen->called;
        all_ahead &= !others[r] || seen->exchanges > wait->exchanges;
    }
    return (wait->called || all_ahead) && !called;
}

/* Adds that n ranks hang, and what the others wait for. Either one of the n ranks blocks the others, or another rank did not
 * come to the call, so no rank is reported as lost. */
static void add_call(FILE *line, const struct bb_supervisor *s, int n, const struct bb_seen *wait, const bool *others)
{
    fprintf(line, "%d of %d ranks %s %s", n, count_ranks(s), wait->called ? "did not return from" : "wait for",
            hung_at(wait));
    for (int r = 0, named = 0; r < s->job.size && named < NAMED_MAX; r++)
        if (others[r]) {
            fprintf(line, "; ");
            add_rank(line, s, r, NULL);
            named++;
        }
}

/* The line names the ranks that the others may wait for first: the ranks that did not arrive, or else those that hang
 * elsewhere than most ranks. */
static void compose_server_hang(FILE *line, struct bb_supervisor *s)
{
    const struct bb_peer *far;
    const struct bb_seen *wait, *farthest;
    const int ranks = count_ranks(s);
    bool marked[s->job.size];
    int missing, waiting, behind;

    bb_peers_own_seen(s);
    far = farthest_hung(s);
    wait = most_common_wait(s, &waiting);
    missing = mark_missing(s, far, marked);
    if (ranks == 1 || (missing == 0 && waiting == ranks)) {
        add_timeout(line, s, &far->seen);
        if (ranks > 1)
            fprintf(line,
                    far->seen.called ? "; all %d ranks are in this call; which of them blocks it is unknown"
                                     : "; all %d ranks wait for it",
                    ranks);
        return;
    }
    fprintf(line, "timeout in %s after %g s: ", far->seen.text[0] ? far->seen.text : "start", s->timeout_s);
    if (missing > 0) {
        waiting = ranks - missing;
        wait = &far->seen;
        add_ranks(line, s, marked, " did not arrive");
    } else if ((behind = mark_behind(s, marked, &farthest)) > 0) {
        waiting = ranks - behind;
        wait = farthest;
        add_ranks(line, s, marked, NULL);
        forget_common(s, marked);
    } else {
        memset(marked, 0, sizeof marked);
        (void)mark_wait(s, wait, marked);
        for (int r = 0; r < s->job.size; r++)
            marked[r] = !marked[r] && !s->star.peers[r].left;
        if (is_for_these(s, wait, marked)) {
            add_call(line, s, waiting, wait, marked);
            return;
        }
        add_ranks(line, s, marked, NULL);
    }
    fprintf(line, "; %d of %d ranks wait for %s", waiting, ranks, hung_at(wait));
}

/* Adds how many ranks of this host have a process, if some have none. Used for a hang before the supervisors are
 * connected. */
static void add_absent(FILE *line, const struct bb_supervisor *s)
{
    const int here = bb_launcher_local_size();
    const int present = s->launched ? 1 + bb_local_tell(s->launcher, BB_LOCAL_NOTHING, 0) : here;

    if (here > present)
        fprintf(line, "; only %d of the %d ranks of %s have a process", present, here, s->job.host);
}

static void compose_hang(FILE *line, struct bb_supervisor *s)
{
    const struct bb_seen seen = seen_of(s, s->trouble.rank);

    if (s->role == BB_ROLE_SERVER) {
        compose_server_hang(line, s);
        return;
    }
    add_timeout(line, s, &seen);
    if (s->job.size > 1 && s->star.fell_back)
        fprintf(line, "; rank 0 (%s) does not answer rank %d (%s)", host_of(s, 0), s->job.rank,
                host_of(s, s->job.rank));
    else
        add_absent(line, s);
}

/* ---- lost ranks and signals ---- */

/* Composes the line if all lost ranks have ended because their nodes leave the run, and otherwise returns false. lost: [size], n */
static bool compose_leaving(FILE *line, struct bb_supervisor *s, const bool *lost, int n)
{
    int named = 0;

    if (n == 0)
        return false;
    bb_peers_own_seen(s);
    for (int r = 0; r < s->job.size; r++)
        if (lost[r] && !s->star.peers[r].seen.leaving)
            return false;
    for (int r = 0; r < s->job.size; r++) {
        if (!lost[r])
            continue;
        add_lost(s, r);
        if (named++ < NAMED_MAX)
            fprintf(line, "%s%s leaves the run: %s", named > 1 ? "; " : "", host_of(s, r), s->star.peers[r].seen.text);
    }
    if (named > NAMED_MAX)
        fprintf(line, "; and %d more", named - NAMED_MAX);
    return true;
}

static void compose_lost(FILE *line, struct bb_supervisor *s)
{
    const int n_ranks = s->role == BB_ROLE_SERVER ? s->job.size : 0;
    const struct bb_seen seen = seen_of(s, s->trouble.rank);
    const int signal = s->trouble.signal;
    bool lost[n_ranks + 1], is_new = false;
    int n = 0;

    for (int r = 0; r < n_ranks; r++)
        is_new |= s->star.peers[r].cause == BB_CAUSE_LOST && !s->star.peers[r].left;
    for (int r = 0; r < n_ranks; r++) /* those of earlier losses only if the job ends because of them */
        n += lost[r] = s->star.peers[r].cause == BB_CAUSE_LOST && (!is_new || !s->star.peers[r].left);
    if (compose_leaving(line, s, lost, n))
        return;
    if (n > 1) {
        fprintf(line, "%d ranks are lost: ", n);
        add_ranks(line, s, lost, "");
        return;
    }
    add_lost(s, s->trouble.rank);
    fprintf(line, "rank %d (%s) is lost; ", s->trouble.rank, host_of(s, s->trouble.rank));
    add_seen(line, &seen);
    if (signal > 0 && signal < BB_SIGNALS_END)
        fprintf(line, "; killed by SIG%s", bb_signal_abbreviation(signal));
}

static void compose_signal(FILE *line, struct bb_supervisor *s)
{
    const struct bb_seen seen = seen_of(s, s->trouble.rank);

    if (s->launched || s->job.size > 1)
        fprintf(line, "rank %d (%s) was ", s->trouble.rank, host_of(s, s->trouble.rank));
    fprintf(line, "ended by %s; ", bb_signal_name(s->trouble.signal));
    add_seen(line, &seen);
    if (s->trouble.signal == BB_EXIT_CALLED && s->job.nodes == 0 && getenv("SLURM_STEP_ID"))
        fprintf(line, "; if MPI cannot start: srun --mpi=pmix (`srun --mpi=list` lists all)");
}

void bb_verdict_compose(struct bb_supervisor *s)
{
    static void (*const composers[BB_CAUSE_PRINTED + 1])(FILE *, struct bb_supervisor *) = {
        [BB_CAUSE_HANG] = compose_hang, [BB_CAUSE_SIGNAL] = compose_signal, [BB_CAUSE_LOST] = compose_lost};
    const struct bb_child *child = bb_ranks_find(s, s->trouble.rank);
    FILE *line = fmemopen(s->line, BB_VERDICT_LINE, "w"); /* text beyond the capacity is dropped */

    if (!line)
        return;
    if (child && child->loader[0])
        fputs(child->loader, line);
    else if (composers[s->trouble.cause])
        composers[s->trouble.cause](line, s);
    fclose(line);
    s->line[BB_VERDICT_LINE - 1] = '\0';
    if (s->trouble.cause == BB_CAUSE_HANG)
        bb_ras_ask(s->ras, BB_RAS_TEXT);
}

static void print_ras(const struct bb_supervisor *s)
{
    const char *line = s->ras;

    for (size_t n; *line; line += n + (line[n] == '\n')) {
        n = strcspn(line, "\n");
        if (n > 0)
            bb_err_job_nonblocking(BB_ETIMEOUT, "NCCL RAS: %.*s", (int)n, line);
    }
}

void bb_verdict_print(const struct bb_supervisor *s)
{
    const struct bb_child *child = bb_ranks_find(s, s->trouble.rank);

    bb_launcher_take_stderr(s->signal_sender ? s->signal_sender : s->launcher);
    if (child && child->loader[0] && !child->page->error.muted)
        (void)bb_rank_program_missing(s->program.command, child->loader);
    else if (s->line[0])
        bb_err_job_nonblocking((enum bb_error)s->code, "%s", s->line);
    print_ras(s);
}

void bb_verdict_phase(const struct bb_supervisor *s, char phase[BB_VERDICT_LINE])
{
    const struct bb_seen seen = seen_of(s, s->job.rank);

    snprintf(phase, BB_VERDICT_LINE, "%s%s%s", seen.text, seen.wait[0] ? ", waiting for " : "", seen.wait);
}
