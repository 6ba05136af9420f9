/* rank.c - a rank's connection to its supervisor. */
#include "bootstrap/rank/rank.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/base/clock.h"
#include "bootstrap/rank/journal.h"
#include "bootstrap/start/launcher.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const char VARIABLE[] = "BUSBAR_RANK"; /* set by the supervisor (child.c) */
static const double DECISION_S = 10; /* longest wait in seconds for the end of the job after a reported timeout */
enum { POLL_MS = 5 };

/* Content of the variable: process id of the supervisor, and the descriptors that the rank inherited from it. */
struct descriptors {
    int supervisor, page, socket, results, stderr_fd, journal;
};

/* Reads the descriptors from the environment. Returns false if this process has no supervisor. A process that the rank
 * starts inherits the variable but not the parent, so the variable does not apply to it. */
static bool read_descriptors(struct descriptors *d)
{
    const char *text = getenv(VARIABLE);

    return text &&
           sscanf(text, "%d %d %d %d %d %d", &d->supervisor, &d->page, &d->socket, &d->results, &d->stderr_fd,
                  &d->journal) == 6 &&
           d->supervisor == getppid();
}

static void close_on_exec(int fd)
{
    (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
}

static struct bb_rank_page *map_page(int fd)
{
    void *page = mmap(NULL, sizeof(struct bb_rank_page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    return page == MAP_FAILED ? NULL : page;
}

/* Handler of the signal that the kernel sends when the supervisor dies (bb_rank_orphan_signal). */
static void linger_and_exit(int signal)
{
    const struct timespec pause = {.tv_nsec = 1000000L * BB_RANK_ORPHAN_MS};

    (void)signal;
    nanosleep(&pause, NULL);
    _exit(BB_EFAIL);
}

void bb_supervised_begin(void)
{
    struct bb_rank_page *page;
    struct descriptors d;

    if (!read_descriptors(&d))
        return;
    if (bb_rank_orphan_signal() != SIGKILL)
        (void)signal(bb_rank_orphan_signal(), linger_and_exit);
    dup2(d.stderr_fd, STDERR_FILENO);
    close(d.stderr_fd);
    close_on_exec(d.page);
    close_on_exec(d.socket);
    close_on_exec(d.results);
    close_on_exec(d.journal);
    page = map_page(d.page);
    bb_err_mute(bb_launcher_rank() > 0); /* until bb_world_init, only rank 0 prints errors */
    bb_err_record_in(page ? &page->error : NULL);
    (void)bb_rank_send(d.socket, BB_RANK_ALIVE, 0, BUSBAR_VERSION, sizeof(BUSBAR_VERSION));
}

/* Sends a request with the exit code to the supervisor, if there is one. */
static void send_code(enum bb_rank_request request, int code)
{
    struct descriptors d;

    if (read_descriptors(&d))
        (void)bb_rank_send(d.socket, request, code, NULL, 0);
}

void bb_supervised_end(int code)
{
    send_code(BB_RANK_DONE, code);
}

void bb_supervised_exit(int code)
{
    send_code(BB_RANK_FAIL, code);
    _exit(code);
}

bool bb_supervised_open(struct bb_supervised *r, double timeout_s)
{
    struct descriptors d;

    *r = (struct bb_supervised){.socket.fd = -1, .results_fd = -1, .journal = -1};
    if (!read_descriptors(&d))
        return false;
    r->page = map_page(d.page);
    r->socket.fd = d.socket;
    r->results_fd = d.results;
    r->journal = d.journal;
    (void)bb_rank_send(d.socket, BB_RANK_TIMEOUT, 0, &timeout_s, sizeof(timeout_s));
    return r->page != NULL;
}

void bb_supervised_close(struct bb_supervised *r)
{
    if (r->page)
        munmap(r->page, sizeof(*r->page));
    r->page = NULL;
    bb_rank_receiver_release(&r->socket);
}

void bb_supervised_moved(struct bb_supervised *r)
{
    if (r->page)
        atomic_store_explicit(&r->page->signs, atomic_load_explicit(&r->page->signs, memory_order_relaxed) + 1,
                              memory_order_relaxed);
}

void bb_supervised_exchanges(struct bb_supervised *r)
{
    if (r->page)
        bb_rank_page_count_exchange(r->page);
}

static void write_progress(struct bb_supervised *r, const char *step, const char *wait, bool called)
{
    if (r->page)
        bb_rank_page_write(r->page, step, wait, called);
    bb_supervised_moved(r);
}

void bb_supervised_reached(struct bb_supervised *r, const char *step)
{
    write_progress(r, step, "", false);
}

void bb_supervised_waiting(struct bb_supervised *r, const char *what, bool called)
{
    write_progress(r, NULL, what ? what : "", called);
}

int bb_supervised_ending(const struct bb_supervised *r)
{
    return r->page ? atomic_load_explicit(&r->page->ending, memory_order_relaxed) : 0;
}

int bb_supervised_expired(struct bb_supervised *r, const char *what)
{
    const double end_s = bb_now_s() + DECISION_S;

    bb_rank_page_write(r->page, NULL, what, false);
    (void)bb_rank_send(r->socket.fd, BB_RANK_HANG, 0, NULL, 0);
    while (bb_supervised_ending(r) == 0 && bb_now_s() < end_s)
        (void)poll(NULL, 0, POLL_MS);
    return bb_supervised_ending(r) ? bb_supervised_ending(r) : -BB_ETIMEOUT;
}

void bb_supervised_fail(struct bb_supervised *r, int code)
{
    fflush(stdout);
    if (bb_supervised_ending(r) == 0)
        (void)bb_rank_send(r->socket.fd, BB_RANK_FAIL, code, NULL, 0);
    _exit(code);
}

static int send_request(struct bb_supervised *r, enum bb_rank_request request, const void *data, size_t bytes)
{
    const int error = bb_rank_send(r->socket.fd, request, 0, data, bytes);

    return error ? bb_err(BB_EFAIL, "cannot reach the supervisor of this rank: %s", strerror(error)) : 0;
}

int bb_supervised_world(struct bb_supervised *r, int rank, int size, int nodes, const int *node_of, const void *hosts,
                        size_t hosts_bytes)
{
    const struct bb_rank_world world = {rank, size, nodes};
    const size_t nodes_bytes = (size_t)size * sizeof(*node_of), bytes = sizeof(world) + nodes_bytes + hosts_bytes;
    char *data;
    int rc;

    BB_NEW(data, bytes);
    memcpy(data, &world, sizeof(world));
    memcpy(data + sizeof(world), node_of, nodes_bytes);
    memcpy(data + sizeof(world) + nodes_bytes, hosts, hosts_bytes);
    rc = send_request(r, BB_RANK_WORLD, data, bytes);
    free(data);
    return rc;
}

int bb_supervised_join(struct bb_supervised *r, const struct bb_star_endpoint *endpoints)
{
    return send_request(r, BB_RANK_JOIN, endpoints, BB_STAR_SERVERS * sizeof(*endpoints));
}

int bb_supervised_gather(struct bb_supervised *r, const void *data, size_t bytes)
{
    return send_request(r, BB_RANK_GATHER, data, bytes);
}

int bb_supervised_answer(struct bb_supervised *r, void *content, size_t bytes)
{
    struct bb_rank_header header;
    const void *data;
    int got = bb_rank_receive(&r->socket, &header, &data);

    if (got <= 0)
        return got ? -BB_EFAIL : 0;
    if (header.code < 0)
        return header.code;
    if (header.bytes != bytes)
        return bb_err(BB_EFAIL, "the supervisor sent %zu bytes instead of %zu", (size_t)header.bytes, bytes);
    if (bytes > 0)
        memcpy(content, data, bytes);
    return 1;
}

void bb_supervised_restarts(struct bb_supervised *r, bool restarts)
{
    if (r->page)
        atomic_store(&r->page->restarts, restarts);
}

bool bb_supervised_world_left(const struct bb_supervised *r, int *rank, int *size)
{
    struct bb_journal journal = bb_journal_load(r->journal);
    struct bb_journal_record record;
    int world[2] = {0, 0};

    while (bb_journal_next(&journal, &record))
        if (record.kind == BB_JOURNAL_WORLD && record.bytes == sizeof(world))
            memcpy(world, record.data, sizeof(world));
    bb_journal_release(&journal);
    if (world[1] == 0)
        return false;
    *rank = world[0];
    *size = world[1];
    return true;
}

int bb_star_backup(int size, const int *node_of, int first)
{
    for (int r = 1; r < size; r++)
        if (node_of[r] != node_of[0])
            return r;
    return first < size ? first : -1;
}
