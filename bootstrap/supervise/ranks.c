/* ranks.c - the ranks of this supervisor: their messages, their signs of life, and their end. */
#include "bootstrap/base/alloc.h"
#include "bootstrap/base/clock.h"
#include "bootstrap/base/environment.h"
#include "bootstrap/start/signals.h"
#include "bootstrap/supervise/supervisor.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct bb_child *bb_ranks_find(const struct bb_supervisor *s, int rank)
{
    const int i = rank - s->job.rank;

    return i >= 0 && i < s->n_children ? &s->children[i] : NULL;
}

bool bb_ranks_gone(const struct bb_supervisor *s)
{
    return s->counts.ended == s->n_children;
}

/* ---- messages ---- */

static void take_alive(struct bb_supervisor *s, struct bb_child *child, const char *version, size_t bytes)
{
    if (bytes != sizeof(BUSBAR_VERSION) || memcmp(version, BUSBAR_VERSION, bytes) != 0) {
        snprintf(child->loader, sizeof(child->loader),
                 "it is not the program of busbar " BUSBAR_VERSION "; install both together");
        if (child->pid > 0)
            (void)kill(child->pid, SIGKILL);
        return;
    }
    s->counts.alive += !child->alive;
    child->alive = true;
    bb_child_read_stderr(child);
    if (s->counts.alive == s->n_children)
        bb_supervisor_event(s, BB_EVENT_ALIVE);
    if (s->counts.alive == s->n_children && s->restart.at_s > 0) /* the supervisors are connected */
        bb_supervisor_event(s, BB_EVENT_JOINED);
}

/* Stores the ranks of the job from a BB_RANK_WORLD message. Returns 0, or -BB_EFAIL if the message is invalid. */
static int store_world(struct bb_supervisor *s, const struct bb_child *child, const char *data, size_t bytes)
{
    struct bb_rank_world world;
    size_t nodes_bytes, hosts_bytes;

    if (bytes < sizeof(world))
        return -BB_EFAIL;
    memcpy(&world, data, sizeof(world));
    nodes_bytes = (size_t)world.size * sizeof(*s->job.node_of);
    hosts_bytes = (size_t)world.size * sizeof(*s->job.hosts);
    if (world.size < s->n_children || world.nodes < 1 || world.rank < child - s->children ||
        world.rank - (child - s->children) > world.size - s->n_children ||
        bytes != sizeof(world) + nodes_bytes + hosts_bytes)
        return -BB_EFAIL;
    BB_NEW(s->job.node_of, world.size);
    BB_NEW(s->job.hosts, world.size);
    memcpy(s->job.node_of, data + sizeof(world), nodes_bytes);
    memcpy(s->job.hosts, data + sizeof(world) + nodes_bytes, hosts_bytes);
    for (int r = 0; r < world.size; r++)
        s->job.hosts[r][BB_HOST_TEXT - 1] = '\0';
    s->job.rank = world.rank - (int)(child - s->children);
    s->job.size = world.size;
    s->job.nodes = world.nodes;
    for (int i = 0; i < s->n_children; i++)
        s->children[i].rank = s->job.rank + i;
    return 0;
}

/* Handles BB_RANK_WORLD. The first such message is stored, and the supervisor then listens if it is a server; every
 * message is answered with the addresses at which this supervisor listens. */
static void take_world(struct bb_supervisor *s, struct bb_child *child, const char *data, size_t bytes)
{
    int rc = 0;

    if (s->job.nodes == 0) {
        rc = store_world(s, child, data, bytes);
        rc = rc ? rc : bb_peers_world(s, &s->star.own);
    }
    (void)bb_rank_send(child->socket.fd, BB_RANK_ANSWER, rc, &s->star.own, sizeof(s->star.own));
}

/* Handles BB_RANK_JOIN. The first such message starts the connection to the servers; bb_ranks_answer answers all. */
static void take_join(struct bb_supervisor *s, struct bb_child *child, const char *data, size_t bytes)
{
    const bool first = !s->joining;
    struct bb_star_endpoint endpoints[BB_STAR_SERVERS];

    if (bytes != sizeof(endpoints) || s->job.nodes == 0)
        return;
    memcpy(endpoints, data, bytes);
    for (int i = 0; i < BB_STAR_SERVERS; i++)
        if (endpoints[i].n < 0 || endpoints[i].n > BB_STAR_ADDRESSES)
            return;
    child->joined = true;
    s->joining = true;
    if (first)
        bb_peers_join(s, endpoints);
    if (s->state != BB_STATE_STARTING)
        bb_ranks_answer(s);
}

void bb_ranks_answer(struct bb_supervisor *s)
{
    for (int i = 0; i < s->n_children; i++)
        if (s->children[i].joined)
            (void)bb_rank_send(s->children[i].socket.fd, BB_RANK_ANSWER, 0, NULL, 0);
    for (int i = 0; i < s->n_children; i++)
        s->children[i].joined = false;
}

/* Reports a rank that ends after an error. If the rank did not print the error, because before bb_world_init only rank
 * 0 prints errors, the error becomes the text of this supervisor's error line. */
static void report_failure(struct bb_supervisor *s, struct bb_child *child, int code)
{
    const bool muted = child->page->error.muted && s->role == BB_ROLE_ALONE;

    if (!s->printed[0])
        memcpy(s->printed, child->page->error.text, sizeof(s->printed) - 1);
    if (muted)
        snprintf(child->loader, sizeof(child->loader), "%s", s->printed);
    bb_peers_report(s, child->rank, muted ? BB_CAUSE_SIGNAL : BB_CAUSE_PRINTED, 0, code);
}

static void restart_timeout(const struct bb_supervisor *s, struct bb_child *child)
{
    child->due_s = bb_now_s() + s->timeout_s;
}

static void report_hang(struct bb_supervisor *s, struct bb_child *child)
{
    child->due_s = INFINITY;
    bb_peers_report(s, child->rank, BB_CAUSE_HANG, 0, BB_ETIMEOUT);
}

static void take_message(struct bb_supervisor *s, struct bb_child *child, const struct bb_rank_header *header,
                         const void *data)
{
    const enum bb_rank_request request = (enum bb_rank_request)header->request;

    if (child->stopping)
        return;
    if (request == BB_RANK_TIMEOUT && header->bytes == sizeof(s->timeout_s))
        memcpy(&s->timeout_s, data, sizeof(s->timeout_s));
    restart_timeout(s, child);
    if (request == BB_RANK_ALIVE) {
        take_alive(s, child, data, header->bytes);
    } else if (request == BB_RANK_WORLD) {
        take_world(s, child, data, header->bytes);
    } else if (request == BB_RANK_JOIN) {
        take_join(s, child, data, header->bytes);
    } else if (request == BB_RANK_GATHER) {
        bb_restart_gather(s, data, header->bytes);
    } else if (request == BB_RANK_HANG) {
        report_hang(s, child);
    } else if (request == BB_RANK_FAIL) {
        child->failed = true;
        report_failure(s, child, header->code);
    } else if (request == BB_RANK_DONE) {
        child->done = true;
        child->code = header->code;
    }
}

static void read_child(struct bb_supervisor *s, struct bb_child *child)
{
    struct bb_rank_header header;
    const void *data;
    int got = 0;

    while (child->socket.fd >= 0 && (got = bb_rank_receive(&child->socket, &header, &data)) > 0)
        take_message(s, child, &header, data);
    if (got < 0) {
        close(child->socket.fd);
        child->socket.fd = -1;
    }
    bb_child_read_stderr(child);
}

void bb_ranks_read(struct bb_supervisor *s)
{
    for (int i = 0; i < s->n_children; i++)
        read_child(s, &s->children[i]);
}

/* ---- the end of processes ---- */

/* Reports the unexpected end of a process: of a rank that has not sent BB_RANK_DONE, or of the process that writes the
 * results. printed: with an exit status other than 0, the process has printed its own error. The emulated GPUs print an
 * error about an invalid variable EMU_... before they exit with status 2. */
static void report_end(struct bb_supervisor *s, const struct bb_child *child, int status, bool printed)
{
    const int signal = WIFSIGNALED(status) ? WTERMSIG(status) : BB_EXIT_CALLED;
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;

    if (((printed && code) || (code == BB_EUSAGE && bb_environment_is_emulated())) && !child->loader[0])
        bb_peers_report(s, child->rank, BB_CAUSE_PRINTED, 0, code);
    else if (child->loader[0] || bb_signal_name(signal)[0])
        bb_peers_report(s, child->rank, BB_CAUSE_SIGNAL, signal, BB_EFAIL);
    else
        bb_peers_report(s, child->rank, BB_CAUSE_LOST, signal, BB_ETIMEOUT);
}

/* All ranks of this supervisor have ended in order. The exit code is the first one other than 0 that a rank sent. */
static void finish_ranks(struct bb_supervisor *s)
{
    for (int i = 0; i < s->n_children && s->code == 0; i++)
        s->code = s->children[i].code;
    if (s->code && s->role == BB_ROLE_ALONE && s->launched)
        report_failure(s, &s->children[0], s->code);
    else
        bb_supervisor_event(s, BB_EVENT_DONE);
}

static void take_end(struct bb_supervisor *s, struct bb_child *child, int status)
{
    read_child(s, child);
    child->pid = 0;
    s->counts.ended++;
    s->counts.done += child->done;
    if (!child->done && !child->failed && !child->stopping)
        report_end(s, child, status, !child->alive);
    else if (child->done && !child->stopping && WIFSIGNALED(status) && child->due_s < INFINITY && s->ending_s == 0)
        bb_warn("rank %d (%s) was killed by SIG%s while it exited; its results are complete", child->rank, s->job.host,
                bb_signal_abbreviation(WTERMSIG(status)));
    if (s->counts.done == s->n_children)
        finish_ranks(s);
    if (bb_ranks_gone(s))
        bb_supervisor_event(s, BB_EVENT_GONE);
}

static void take_status(struct bb_supervisor *s, struct bb_child *child, int status)
{
    if (WIFSTOPPED(status)) {
        child->stopped = true;
    } else if (WIFCONTINUED(status)) {
        child->stopped = false;
        restart_timeout(s, child);
    } else {
        take_end(s, child, status);
    }
}

/* Handles the end of the process that writes the results, which is an error unless that process has written the final
 * results or the job is ending early. */
static void take_writer_end(struct bb_supervisor *s, int status)
{
    s->writer.ended = true;
    if ((!bb_supervisor_poll_writer(s) || s->writer.code) && s->ending_s == 0)
        report_end(s, &s->children[0], status, true);
}

void bb_ranks_reap(struct bb_supervisor *s)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED | WCONTINUED)) > 0) {
        if (pid == s->writer.pid && !WIFSTOPPED(status) && !WIFCONTINUED(status))
            take_writer_end(s, status);
        for (int i = 0; i < s->n_children; i++)
            if (s->children[i].pid == pid)
                take_status(s, &s->children[i], status);
    }
}

/* ---- signs of life ---- */

static void check_child(struct bb_supervisor *s, struct bb_child *child, double now_s)
{
    const unsigned signs = atomic_load_explicit(&child->page->signs, memory_order_relaxed);

    if (child->due_s == 0 || signs != child->signs || child->stopped)
        child->due_s = now_s + s->timeout_s;
    child->signs = signs;
    if (child->pid == 0 || child->stopping || now_s < child->due_s)
        return;
    if (!child->done) {
        report_hang(s, child);
        return;
    }
    /* The rank has ended in order but does not exit: a library hangs in its exit handler. The results are complete, so
     * the rank is killed, and the exit code of the job does not change. */
    child->due_s = INFINITY;
    bb_err_job_nonblocking(BB_ETIMEOUT, "timeout: rank %d (%s) has finished but did not exit within %g s", child->rank,
                           s->job.host, s->timeout_s);
    (void)kill(child->pid, SIGKILL);
}

void bb_ranks_check(struct bb_supervisor *s)
{
    const double now_s = bb_now_s();

    for (int i = 0; i < s->n_children && s->ending_s == 0; i++)
        check_child(s, &s->children[i], now_s);
}

/* ---- ending the ranks ---- */

void bb_ranks_end(struct bb_supervisor *s)
{
    for (int i = 0; i < s->n_children; i++)
        atomic_store(&s->children[i].page->ending, -s->code);
}

void bb_ranks_kill(struct bb_supervisor *s)
{
    for (int i = 0; i < s->n_children; i++)
        if (s->children[i].pid > 0)
            (void)kill(s->children[i].pid, SIGKILL);
}
