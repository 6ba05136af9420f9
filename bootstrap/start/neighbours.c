/* neighbours.c - the ranks of one host monitor each other through abstract Unix sockets (local_name.h). */
#include "bootstrap/start/neighbours.h"

#include "bootstrap/start/launcher.h"
#include "bootstrap/start/local_name.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PATIENCE_MS = 3000, LOOK_MS = 20 };

static struct bb_local_name name_of(int rank)
{
    char prefix[32];

    snprintf(prefix, sizeof(prefix), "rank-%d-of-", rank);
    return bb_local_name(prefix, getppid());
}

static int find_place(const struct bb_neighbours *all, int rank)
{
    for (int i = 0; i < all->n; i++)
        if (all->ranks[i] == rank)
            return i;
    return -1;
}

void bb_neighbours_begin(struct bb_neighbours *all)
{
    const int rank = bb_launcher_rank();
    struct bb_local_name name;

    all->next = -1;
    atomic_init(&all->own, -1);
    all->n = bb_launcher_local_ranks(all->ranks, BB_NEIGHBOURS_MAX);
    all->place = find_place(all, rank);
    if (all->n < 2 || all->place < 0) {
        all->n = 0;
        return;
    }
    name = name_of(rank);
    atomic_store(&all->own, bb_local_listen(&name));
}

static bool is_there(int rank, pid_t *pid)
{
    const struct bb_local_name name = name_of(rank);
    int fd = bb_local_connect(&name, pid);

    if (fd >= 0)
        close(fd);
    return fd >= 0 || errno == EAGAIN; /* EAGAIN: the rank exists, but its queue of pending connections is full */
}

static int next_of(const struct bb_neighbours *all, int step)
{
    return all->ranks[(all->place + step) % all->n];
}

int bb_neighbours_lost(struct bb_neighbours *all)
{
    struct pollfd end = {.events = 0}; /* no events requested, so poll reports only that the next rank closed the
                                          connection (POLLHUP) */

    if (all->n == 0)
        return -1;
    if (all->next < 0) {
        const struct bb_local_name name = name_of(next_of(all, 1));

        all->next = bb_local_connect(&name, NULL);
    }
    end.fd = all->next;
    return all->next >= 0 && poll(&end, 1, 0) > 0 ? next_of(all, 1) : -1;
}

int bb_neighbours_missing(const struct bb_neighbours *all, int *more)
{
    int first = -1, n = 0;

    for (int i = 0; i < all->n; i++)
        if (i != all->place && !is_there(all->ranks[i], NULL) && n++ == 0)
            first = all->ranks[i];
    *more = n > 1 ? n - 1 : 0;
    return first;
}

/* Ends a rank of this host. Returns true if the rank had to be killed with SIGKILL. */
static bool end_rank(int rank)
{
    pid_t pid = 0;

    if (!is_there(rank, &pid) || pid <= 0)
        return false;
    kill(pid, SIGCONT);
    for (int waited_ms = 0; waited_ms < PATIENCE_MS; waited_ms += LOOK_MS) {
        poll(NULL, 0, LOOK_MS);
        if (!is_there(rank, NULL))
            return false;
    }
    kill(pid, SIGKILL);
    return true;
}

void bb_neighbours_end(struct bb_neighbours *all)
{
    bb_neighbours_release(all); /* Remove this rank's own name first. Otherwise all ranks would wait for each other
                                   in a cycle. */
    for (int step = 1; step < all->n; step++)
        if (!end_rank(next_of(all, step)))
            return;
}

void bb_neighbours_release(struct bb_neighbours *all)
{
    const int own = all->n > 0 ? atomic_exchange(&all->own, -1) : -1;

    if (own >= 0)
        close(own);
    if (all->n > 0 && all->next >= 0) {
        close(all->next);
        all->next = -1;
    }
}
