/*
 * job_timeline.c - the timeline that all processes of a job share. The first process creates it and listens on an
 * abstract Unix socket; a thread sends the memory file to each process that connects. Socket name and memory disappear
 * when no process holds them, however the processes end.
 */
#include "internal.h"
#include "timeline.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { TIMEOUT_MS = 5000 };

static uint64_t hash_of(const char *text)
{
    uint64_t h = 0xcbf29ce484222325u; /* offset basis of FNV-1a */

    for (; *text; text++)
        h = (h ^ (unsigned char)*text) * 0x100000001b3u;
    return h;
}

/* A hash of the job's identity: the launcher's job name, or else the parent process of the ranks. Distinct from
 * other jobs. */
static uint64_t name_job(void)
{
    static const char *const names[] = {"PMIX_NAMESPACE", "PMI_JOBID", "SLURM_JOB_ID"};
    const char *job = NULL, *step = getenv("SLURM_STEP_ID");
    char parent[32], text[4096];

    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]) && !job; i++)
        job = getenv(names[i]);
    snprintf(parent, sizeof(parent), "parent %d", (int)getppid());
    snprintf(text, sizeof(text), "%d %d %s %s", (int)getuid(), emu_world_size(), step ? step : "", job ? job : parent);
    return hash_of(text);
}

static socklen_t find_name(struct sockaddr_un *at)
{
    int n;

    *at = (struct sockaddr_un){.sun_family = AF_UNIX}; /* abstract address: starts with a zero byte, not a path */
    n = snprintf(at->sun_path + 1, sizeof(at->sun_path) - 1, "emu-timeline %016llx", (unsigned long long)name_job());
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

/* ---- sending the memory file (SCM_RIGHTS) ---- */

struct fd_message {
    int maker; /* pid of the creator, as it sees itself */
    struct iovec what;
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
    struct msghdr message;
};

static void init_fd_message(struct fd_message *h, int maker)
{
    memset(h, 0, sizeof(*h));
    h->maker = maker;
    h->what = (struct iovec){&h->maker, sizeof(h->maker)};
    h->message.msg_iov = &h->what;
    h->message.msg_iovlen = 1;
    h->message.msg_control = h->control;
    h->message.msg_controllen = sizeof(h->control);
}

static void send_descriptor(int to, int fd)
{
    struct fd_message h;
    struct cmsghdr *c;

    init_fd_message(&h, (int)getpid());
    c = CMSG_FIRSTHDR(&h.message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(fd));
    memcpy(CMSG_DATA(c), &fd, sizeof(fd));
    sendmsg(to, &h.message, MSG_NOSIGNAL);
}

/* Returns the descriptor; -1 if the creator has ended, or if it lives in another PID namespace (its death could not
 * be detected). */
static int receive_descriptor(int from, int *maker)
{
    struct fd_message h;
    struct cmsghdr *c;
    struct ucred seen;
    socklen_t bytes = sizeof(seen);
    int fd = -1;

    init_fd_message(&h, 0);
    if (recvmsg(from, &h.message, MSG_CMSG_CLOEXEC) != (ssize_t)sizeof(h.maker))
        return -1;
    c = CMSG_FIRSTHDR(&h.message);
    if (c && c->cmsg_type == SCM_RIGHTS)
        memcpy(&fd, CMSG_DATA(c), sizeof(fd));
    *maker = h.maker;
    if (fd >= 0 && getsockopt(from, SOL_SOCKET, SO_PEERCRED, &seen, &bytes) == 0 && seen.pid == h.maker)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

struct server {
    int socket, memory;
};

static void *serve_clients(void *arg)
{
    const struct server server = *(struct server *)arg;
    int client;

    free(arg);
    while ((client = accept4(server.socket, NULL, NULL, SOCK_CLOEXEC)) >= 0 || errno == EINTR || errno == ECONNABORTED)
        if (client >= 0) {
            send_descriptor(client, server.memory);
            close(client);
        }
    return NULL;
}

/* Serves until the process ends. The thread blocks all signals, which are for the program's threads. */
static int start_server(int s, int memory)
{
    struct server *server = malloc(sizeof(*server));
    sigset_t all, before;
    pthread_t thread;
    int rc;

    if (!server)
        return -1;
    *server = (struct server){s, memory};
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&thread, NULL, serve_clients, server);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc != 0) {
        free(server);
        return -1;
    }
    return pthread_detach(thread);
}

/* ---- finding the timeline ---- */

/* The first process binds the name. It listens only when there is a timeline to send. */
static struct emu_timeline *make(const struct sockaddr_un *at, socklen_t length)
{
    const int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct emu_timeline *t = NULL;

    if (s >= 0 && bind(s, (const struct sockaddr *)at, length) == 0)
        t = emu_timeline_open(&emu.machine, -1);
    if (t && listen(s, EMU_MAX_RANKS) == 0 && start_server(s, emu_timeline_descriptor(t)) == 0)
        return t;
    if (t)
        emu_timeline_close(t);
    if (s >= 0)
        close(s);
    return NULL;
}

static struct emu_timeline *join(const struct sockaddr_un *at, socklen_t length, int *maker)
{
    const struct timeval patience = {.tv_sec = TIMEOUT_MS / 1000};
    const int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int fd = -1;

    if (s < 0)
        return NULL;
    setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    setsockopt(s, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)); /* also limits connect() */
    if (connect(s, (const struct sockaddr *)at, length) == 0)
        fd = receive_descriptor(s, maker);
    close(s);
    return fd >= 0 ? emu_timeline_open(&emu.machine, fd) : NULL;
}

/* If this rank was on the timeline and has left, the timeline belongs to a job that is ending; the caller then
 * retries. */
static enum emu_rank_claim claim_rank(struct emu_timeline *t, int *host)
{
    enum emu_rank_claim claim;

    if (!emu_timeline_lock(t))
        return EMU_RANK_LEFT;
    claim = emu_timeline_add_host(t, (int)getpid(), emu_world_rank(), host);
    emu_timeline_unlock(t);
    return claim;
}

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

struct emu_timeline *emu_timeline_of_job(uint64_t *name, int *host)
{
    const int64_t until_ms = now_ms() + TIMEOUT_MS;
    struct sockaddr_un at;
    const socklen_t length = find_name(&at);

    do {
        int maker = (int)getpid();
        struct emu_timeline *t = make(&at, length);
        enum emu_rank_claim claim = EMU_RANK_LEFT;

        if (!t)
            t = join(&at, length, &maker);
        if (t)
            claim = claim_rank(t, host);
        *name = (uint64_t)maker;
        if (claim == EMU_RANK_CLAIMED)
            return t;
        if (t)
            emu_timeline_close(t);
        *name = 0;
        if (claim == EMU_RANK_TAKEN)
            emu_die("two processes claim rank %d of %d, but profile '%s' has NICs or uplinks that GPUs share, which "
                    "requires one process per rank: run without -g and -t",
                    emu_world_rank(), emu_world_size(), emu.machine.name);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    } while (now_ms() < until_ms);
    fprintf(stderr, "emulated GPUs: the processes of the job cannot find each other; assuming that GPUs on one NIC or "
                    "leaf do the same at the same time\n");
    return NULL;
}
