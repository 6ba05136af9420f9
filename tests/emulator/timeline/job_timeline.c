/*
 * job_timeline.c - the one timeline of a job's processes. Its first process makes it, and holds a socket's name that
 * tells the others which process that is; they open its memory there. Name and memory are gone when nobody holds them,
 * however the processes end.
 */
#include "internal.h"
#include "timeline.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { TRIES = 5000, BACKLOG = EMU_MAX_RANKS };

/* The launcher's name of the job, or the process that started its ranks: not a name that other jobs have. */
static socklen_t find_name(struct sockaddr_un *at)
{
    static const char *const names[] = {"PMIX_NAMESPACE", "PMI_JOBID", "SLURM_JOB_ID"};
    const char *job = NULL, *step = getenv("SLURM_STEP_ID");
    char parent[32];
    int n;

    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]) && !job; i++)
        job = getenv(names[i]);
    snprintf(parent, sizeof(parent), "parent %d", (int)getppid());
    *at = (struct sockaddr_un){.sun_family = AF_UNIX}; /* the name begins with a zero: it lies in no folder */
    n = snprintf(at->sun_path + 1, sizeof(at->sun_path) - 1, "emu-timeline %d %d %s %s", (int)getuid(),
                 emu_world_size(), job ? job : parent, step ? step : "");
    n = n < (int)sizeof(at->sun_path) - 1 ? n : (int)sizeof(at->sun_path) - 1;
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

/* The process that listens there, 0: none. */
static int find_maker(const struct sockaddr_un *at, socklen_t length)
{
    const int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct ucred maker = {0};
    socklen_t bytes = sizeof(maker);

    if (s < 0 || connect(s, (const struct sockaddr *)at, length) != 0 ||
        getsockopt(s, SOL_SOCKET, SO_PEERCRED, &maker, &bytes) != 0)
        maker.pid = 0;
    if (s >= 0)
        close(s);
    return (int)maker.pid;
}

/* The descriptor of its timeline, opened here, -1: it has none any more. */
static int open_memory(int pid)
{
    char folder[64], path[sizeof(folder) + 256], what[64];
    struct dirent *e;
    int fd = -1;
    DIR *dir;

    snprintf(folder, sizeof(folder), "/proc/%d/fd", pid);
    dir = opendir(folder);
    while (fd < 0 && dir && (e = readdir(dir))) {
        ssize_t n;

        snprintf(path, sizeof(path), "%s/%s", folder, e->d_name);
        n = readlink(path, what, sizeof(what) - 1);
        what[n > 0 ? n : 0] = '\0';
        if (strncmp(what, "/memfd:" EMU_TIMELINE, strlen("/memfd:" EMU_TIMELINE)) == 0)
            fd = open(path, O_RDWR | O_CLOEXEC);
    }
    if (dir)
        closedir(dir);
    return fd;
}

/* Whoever comes first binds the name, and listens when there is something to open. */
static struct emu_timeline *make(const struct sockaddr_un *at, socklen_t length)
{
    const int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct emu_timeline *t = NULL;

    if (s >= 0 && bind(s, (const struct sockaddr *)at, length) == 0)
        t = emu_timeline_open(&emu.machine, -1);
    if (t && listen(s, BACKLOG) == 0)
        return t; /* the socket stays as long as the process */
    if (s >= 0)
        close(s);
    return t;
}

struct emu_timeline *emu_timeline_of_job(uint64_t *name)
{
    struct sockaddr_un at;
    const socklen_t length = find_name(&at);
    struct emu_timeline *t = NULL;

    for (int i = 0; i < TRIES && !t; i++) {
        int maker, fd = -1;

        *name = (uint64_t)getpid();
        if ((t = make(&at, length)))
            break;
        maker = find_maker(&at, length);
        if (maker > 0)
            fd = open_memory(maker);
        if (fd >= 0)
            t = emu_timeline_open(&emu.machine, fd);
        *name = (uint64_t)maker;
        if (!t)
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return t;
}
