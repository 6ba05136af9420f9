/*
 * restart.c - restart of the run without lost nodes, for commands that go on from the records of their ranks (journal.h).
 *
 * After a loss, the server sends LEAVE for each rank of the lost nodes, and STOP. Every supervisor kills its ranks, because
 * MPI and NCCL calls with lost ranks do not return, and answers READY. The server then sends START, and the supervisors
 * start their ranks again, except those on the lost nodes. These ranks use no MPI: the supervisors gather their data.
 * In all messages the ranks keep their numbers. If the launcher reacts to the loss by ending the job, the run ends, and
 * the error line names the lost rank.
 */
#include "bootstrap/base/alloc.h"
#include "bootstrap/base/clock.h"
#include "bootstrap/base/units.h"
#include "bootstrap/rank/journal.h"
#include "bootstrap/results/serve.h"
#include "bootstrap/start/launcher.h"
#include "bootstrap/supervise/supervisor.h"

#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <sys/socket.h>
#include <unistd.h>

static const double DATA_S = 10; /* time limit in seconds for sending a part of the data */

/* ---- which ranks are left ---- */

/* Returns whether a rank is lost: known to be, or its supervisor does not answer after the error of another rank. */
static bool is_lost(const struct bb_supervisor *s, int rank)
{
    const struct bb_peer *peer = &s->star.peers[rank];
    const bool is_silent = s->trouble.cause == BB_CAUSE_PRINTED && !peer->answered;

    return (peer->cause == BB_CAUSE_LOST || is_silent) && !peer->left;
}

bool bb_restart_is_possible(const struct bb_supervisor *s)
{
    const struct bb_rank_page *page = s->children[0].page;
    const bool ends_with_rank = atomic_load(&page->mpi_used) && bb_launcher_ends_with_rank();
    int lost = 0;

    if (s->role != BB_ROLE_SERVER || s->job.rank > 0 || s->signalled || ends_with_rank ||
        !atomic_load(&page->restarts) || !bb_peers_joined(s))
        return false;
    for (int r = 0; r < s->job.size; r++)
        if (is_lost(s, r)) {
            lost++;
            if (s->job.node_of[r] == s->job.node_of[0] ||
                (s->star.peers[r].unsupervised && bb_launcher_ends_with_process()))
                return false;
        }
    return lost > 0;
}

/* Removes a rank from the run. */
static void leave(struct bb_supervisor *s, int rank)
{
    struct bb_child *child = bb_ranks_find(s, rank);

    if (child)
        child->left = true;
    if (rank < s->star.n_peers)
        s->star.peers[rank].left = s->star.peers[rank].ended = true;
    s->restart.n_left++;
    s->restart.n_before += rank < s->job.rank;
}

/* Returns the first rank of this supervisor that is left; NULL: none is. */
static const struct bb_child *first_rank(const struct bb_supervisor *s)
{
    for (int i = 0; i < s->n_children; i++)
        if (!s->children[i].left)
            return &s->children[i];
    return NULL;
}

/* Server: removes all ranks of the nodes with lost ranks, and prepares for the reports of the others. */
static void leave_lost_nodes(struct bb_supervisor *s)
{
    bool lost[s->job.nodes];

    memset(lost, 0, sizeof lost);
    for (int r = 0; r < s->job.size; r++)
        if (is_lost(s, r))
            lost[s->job.node_of[r]] = true;
    for (int r = 0; r < s->job.size; r++) {
        struct bb_peer *peer = &s->star.peers[r];

        if (peer->left)
            continue;
        peer->hung = peer->stopped = peer->ready = peer->ended = false;
        if (lost[s->job.node_of[r]]) {
            leave(s, r);
            bb_peers_send_all(s, bb_star_msg(BB_STAR_LEAVE, r, 0));
        } else {
            peer->cause = BB_CAUSE_NONE;
        }
    }
    s->star.first_end_s = 0;
}

/* Server: records that the supervisor of n ranks has sent what all are to send. Returns whether this was the last one, and
 * then clears the records. */
static bool is_last(struct bb_supervisor *s, int first, int n)
{
    for (int r = first; r < first + n; r++)
        s->star.peers[r].ready = true;
    for (int r = 0; r < s->job.size; r++)
        if (!s->star.peers[r].left && !s->star.peers[r].ready)
            return false;
    for (int r = 0; r < s->job.size; r++)
        s->star.peers[r].ready = false;
    return true;
}

/* ---- stop and start ---- */

/* Server: prints the loss, and sends the other supervisors the ranks that leave. */
static void announce(struct bb_supervisor *s)
{
    int first = -1, several;

    for (int r = 0; r < s->job.size; r++)
        if (is_lost(s, r)) {
            s->star.peers[r].cause = BB_CAUSE_LOST;
            first = first < 0 ? r : first;
        }
    if (s->trouble.cause != BB_CAUSE_LOST)
        s->trouble = (struct bb_trouble){BB_CAUSE_LOST, first, 0, BB_ETIMEOUT};
    bb_verdict_compose(s);
    several = json_array_size(s->lost) > 1;
    if (s->star.peers[s->trouble.rank].seen.leaving)
        bb_warn("%s; the run goes on without %s", s->line, several ? "them" : "it");
    else
        bb_warn("%s; the run goes on without %s", s->line, several ? "their nodes" : "its node");
    s->line[0] = s->printed[0] = '\0';
    json_decref(s->lost);
    s->lost = NULL;
    s->restart.loss = s->trouble;
    leave_lost_nodes(s);
    bb_peers_send_all(s, bb_star_msg(BB_STAR_STOP, s->job.rank, 0));
}

static void drop(struct bb_block *block)
{
    free(block->data);
    *block = (struct bb_block){0};
}

void bb_restart_drop_data(struct bb_supervisor *s)
{
    drop(&s->star.gathered);
    for (int r = 0; r < s->star.n_peers; r++)
        drop(&s->star.peers[r].block);
}

void bb_stop_ranks(struct bb_supervisor *s)
{
    if (s->role == BB_ROLE_SERVER)
        announce(s);
    s->restart.at_s = bb_now_s();
    s->trouble = (struct bb_trouble){BB_CAUSE_NONE, 0, 0, 0};
    bb_restart_drop_data(s);
    for (int i = 0; i < s->n_children; i++)
        s->children[i].stopping = true;
    bb_ranks_kill(s);
    s->due_s = s->role == BB_ROLE_SERVER ? s->restart.at_s + s->timeout_s : 0;
    if (bb_ranks_gone(s))
        bb_supervisor_event(s, BB_EVENT_GONE);
}

/* Server: the ranks of this supervisor or of another one have ended. */
static void take_ready(struct bb_supervisor *s, int first, int n)
{
    if (!is_last(s, first, n))
        return;
    bb_peers_send_all(s, bb_star_msg(BB_STAR_START, s->job.rank, 0));
    bb_supervisor_event(s, BB_EVENT_START);
}

void bb_ranks_stopped(struct bb_supervisor *s)
{
    struct bb_star_msg ready = bb_star_msg(BB_STAR_READY, s->job.rank, 0);

    if (!first_rank(s))
        s->code = BB_EBELOW; /* as that of the ranks that go on */
    else if (s->role == BB_ROLE_SERVER)
        take_ready(s, s->job.rank, s->n_children);
    else
        (void)bb_star_send(bb_peers_server(s), &ready, DATA_S);
}

void bb_start_ranks(struct bb_supervisor *s)
{
    const int world[2] = {s->job.rank - s->restart.n_before, s->job.size - s->restart.n_left};
    struct bb_child *first = &s->children[0];
    int n = 0;

    /* No rank writes records now. */
    for (int i = 0; i < s->n_children; i++) {
        struct bb_journal records = bb_journal_load(s->children[i].journal_fd); /* removes an incomplete one */

        bb_journal_release(&records);
        bb_journal_append(s->children[i].journal_fd, BB_JOURNAL_WORLD, 0, world, sizeof world);
        n += s->children[i].left;
    }
    for (int r = 0; r < s->star.n_peers; r++)
        if (s->star.peers[r].left && s->star.peers[r].cause == BB_CAUSE_LOST)
            bb_journal_append(first->journal_fd, BB_JOURNAL_LOST, r, NULL, 0);
    s->counts.alive = s->counts.done = s->counts.ended = n;
    if (bb_children_restart(s->children, s->n_children, &s->program, &s->mask))
        _exit(BB_EFAIL); /* some ranks have no page or socket; for the other supervisors this node is lost */
    for (int i = 0; i < s->n_children; i++)
        atomic_store(&s->children[i].page->restarts, true);
    if (s->writer.control.fd >= 0 && first->results_fd >= 0) {
        (void)!bb_results_pass_rank(s->writer.control.fd, first->results_fd);
        close(first->results_fd);
        first->results_fd = -1;
    }
}

/* ---- exchange of data between the ranks that were started again ---- */

static void append(struct bb_block *block, const void *data, size_t bytes)
{
    block->data = bb_resize(block->data, block->bytes + bytes + 1, 1);
    if (bytes > 0)
        memcpy(block->data + block->bytes, data, bytes);
    block->bytes += bytes;
}

/* A connection that does not take the data is closed, so its ranks count as lost. */
static void send_data(struct bb_supervisor *s, struct bb_star_link *link, const char *data, size_t bytes)
{
    size_t at = 0;

    do {
        const size_t n = MIN(bytes - at, (size_t)BB_ERROR_TEXT);
        struct bb_star_msg msg = bb_star_msg(BB_STAR_DATA, s->job.rank, (int)n);

        memcpy(msg.error, data + at, n);
        at += n;
        msg.cause = at == bytes;
        if (bb_star_send(link, &msg, DATA_S)) {
            (void)shutdown(link->fd, SHUT_RDWR);
            return;
        }
    } while (at < bytes);
}

/* Sends the data of all ranks to the first rank of this supervisor that is left. */
static void answer_rank(struct bb_supervisor *s, const struct bb_block *all)
{
    const struct bb_child *child = first_rank(s);

    if (child)
        (void)bb_rank_send(child->socket.fd, BB_RANK_ANSWER, 0, all->data, all->bytes);
}

/* Server: the data of this supervisor or of another one have arrived. */
static void take_data(struct bb_supervisor *s, int first, int n)
{
    struct bb_block all = {.bytes = 0};

    if (!is_last(s, first, n))
        return;
    for (int r = 0; r < s->job.size; r++)
        append(&all, s->star.peers[r].block.data, s->star.peers[r].block.bytes);
    bb_restart_drop_data(s);
    for (int i = BB_STAR_SERVERS; i < s->star.n_links; i++)
        if (s->star.links[i].fd >= 0 && s->star.links[i].count > 0)
            send_data(s, &s->star.links[i], all.data, all.bytes);
    answer_rank(s, &all);
    drop(&all);
}

void bb_restart_gather(struct bb_supervisor *s, const void *data, size_t bytes)
{
    if (!s->star.links) /* the rank has joined no job */
        return;
    if (s->role != BB_ROLE_SERVER) {
        send_data(s, bb_peers_server(s), data, bytes);
        return;
    }
    append(&s->star.peers[s->job.rank].block, data, bytes);
    take_data(s, s->job.rank, s->n_children);
}

/* ---- messages ---- */

/* Appends the bytes of a DATA message. Returns whether they are the last ones. */
static bool take_part(struct bb_block *block, const struct bb_star_msg *msg)
{
    append(block, msg->error, msg->code < 0 ? 0 : MIN((size_t)msg->code, (size_t)BB_ERROR_TEXT));
    return msg->cause == 1;
}

void bb_restart_serve(struct bb_supervisor *s, const struct bb_star_link *link, const struct bb_star_msg *msg)
{
    struct bb_block *block = &s->star.peers[link->rank].block;
    const bool stops = s->state == BB_STATE_RESTARTING; /* then DATA are of ranks that were killed */

    if (msg->kind == BB_STAR_READY && stops)
        take_ready(s, link->rank, link->count);
    else if (msg->kind == BB_STAR_DATA && !stops && take_part(block, msg))
        take_data(s, link->rank, link->count);
}

void bb_restart_obey(struct bb_supervisor *s, const struct bb_star_msg *msg)
{
    if (msg->kind == BB_STAR_LEAVE) {
        leave(s, (int)msg->rank);
    } else if (msg->kind == BB_STAR_STOP) {
        bb_supervisor_event(s, BB_EVENT_RESTART);
    } else if (msg->kind == BB_STAR_START && first_rank(s)) {
        bb_supervisor_event(s, BB_EVENT_START);
    } else if (msg->kind == BB_STAR_DATA && take_part(&s->star.gathered, msg)) {
        answer_rank(s, &s->star.gathered);
        drop(&s->star.gathered);
    }
}
