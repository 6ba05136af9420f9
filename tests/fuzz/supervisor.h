/*
 * supervisor.h - a supervisor without processes and without its loop, for the targets that send data to it. Tokens and
 * nonces are random, because libFuzzer records the operands of comparisons: with constant ones it would copy a valid
 * authentication tag into the next input.
 */
#ifndef BB_TESTS_FUZZ_SUPERVISOR_H
#define BB_TESTS_FUZZ_SUPERVISOR_H

#include "bootstrap/base/alloc.h"
#include "bootstrap/base/clock.h"
#include "bootstrap/supervise/supervisor.h"
#include "tests/fuzz/fuzz.h"

#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>

/* NO_PROCESS: a process id above the kernel's maximum, so kill() has no effect. */
enum { RANKS = 4, LINKS = BB_STAR_SERVERS + RANKS + 1, NO_PROCESS = INT_MAX };

struct fuzz_supervisor {
    struct bb_supervisor s;
    struct bb_child child;
    struct bb_rank_page page;
    struct sockaddr_un at; /* address at which the supervisor listens; at_bytes 0: it does not listen */
    socklen_t at_bytes;
};

static inline void fuzz_random(void *data, size_t bytes)
{
    if (getrandom(data, bytes, 0) != (ssize_t)bytes)
        exit(0);
}

/* Starts a supervisor of one rank in a job of `size` ranks; 1: the other ranks are not known. */
static inline void start_supervisor(struct fuzz_supervisor *f, int rank, int size)
{
    memset(f, 0, sizeof(*f));
    f->child = (struct bb_child){
        .pid = NO_PROCESS, .rank = rank, .page = &f->page, .socket.fd = -1, .stderr_fd = -1, .results_fd = -1};
    f->s = (struct bb_supervisor){.state = BB_STATE_LOADING,
                                  .role = BB_ROLE_ALONE,
                                  .program = {.command = "bench"},
                                  .job = {.rank = rank, .size = size, .host = "alpha"},
                                  .children = &f->child,
                                  .n_children = 1,
                                  .timeout_s = 5,
                                  .launcher = getppid(),
                                  .writer.control.fd = -1,
                                  .star = {.dialing = -1, .self = -1}};
    fuzz_random(&f->s.star.token, sizeof(f->s.star.token));
}

/* Prepares the table of ranks and the connections, as bb_peers_world does. */
static inline void open_star(struct fuzz_supervisor *f)
{
    BB_NEW(f->s.star.peers, f->s.job.size);
    BB_NEW(f->s.star.links, LINKS);
    f->s.star.n_peers = 1;
    f->s.star.n_links = LINKS;
    for (int i = 0; i < LINKS; i++)
        f->s.star.links[i].fd = -1;
}

/* Makes the supervisor a server, which listens on a local socket. */
static inline void start_server(struct fuzz_supervisor *f)
{
    struct bb_star *star = &f->s.star;

    star->n_peers = f->s.job.size;
    star->listen_fds[0] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    f->at.sun_family = AF_UNIX;
    f->at_bytes = sizeof(f->at);
    if (bind(star->listen_fds[0], (struct sockaddr *)&f->at, sizeof(f->at.sun_family)) ||
        listen(star->listen_fds[0], RANKS) || getsockname(star->listen_fds[0], (struct sockaddr *)&f->at, &f->at_bytes))
        exit(0);
    star->n_listen = 1;
    for (int r = 0; r < star->n_peers; r++)
        star->peers[r].joined = star->peers[r].answered = r == f->s.job.rank;
}

/* Connects to the server and receives its challenge. */
static inline void connect_link(struct fuzz_supervisor *f, struct bb_star_link *link)
{
    struct bb_star_msg challenge;

    *link = (struct bb_star_link){.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
    if (link->fd < 0 || connect(link->fd, (struct sockaddr *)&f->at, f->at_bytes))
        exit(0);
    bb_peers_read(&f->s, bb_now_s());
    HOLDS(bb_star_receive(link, &challenge) == 1 && challenge.kind == BB_STAR_CHALLENGE);
    link->nonce = challenge.nonce;
}

/* Received texts, from which all error lines are composed, are terminated. */
static inline void check_texts(const struct fuzz_supervisor *f)
{
    for (int i = 0; i < f->s.star.n_peers; i++)
        HOLDS(memchr(f->s.star.peers[i].seen.text, '\0', BB_SEEN_TEXT) &&
              memchr(f->s.star.peers[i].seen.wait, '\0', BB_SEEN_TEXT));
}

static inline void stop_supervisor(struct fuzz_supervisor *f)
{
    bb_peers_release(&f->s);
    bb_rank_receiver_release(&f->child.socket);
    free(f->s.job.hosts);
    free(f->s.job.node_of);
}

#endif
