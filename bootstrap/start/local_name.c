/* local_name.c - abstract Unix sockets of a job's ranks on one host. */
#include "bootstrap/start/local_name.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BACKLOG = 128 };

/* The identifier of the job is the PMIx namespace, else the Slurm job and step, else the launcher's process id.
 * Under Hydra the process id is always used: a sweep starts several jobs within one Slurm step, and only the
 * launcher's process id distinguishes them. */
struct bb_local_name bb_local_name(const char *prefix, pid_t launcher)
{
    const char *space = getenv("PMIX_NAMESPACE"), *job = getenv("SLURM_JOB_ID"), *step = getenv("SLURM_STEP_ID");
    struct bb_local_name name = {.at.sun_family = AF_UNIX};
    char *text = name.at.sun_path + 1; /* sun_path begins with a null byte, which makes the name abstract */
    const size_t capacity = sizeof(name.at.sun_path) - 1;

    if (space)
        snprintf(text, capacity, "busbar-%s%u-%s", prefix, (unsigned)getuid(), space);
    else if (job && step && !getenv("MPI_LOCALNRANKS"))
        snprintf(text, capacity, "busbar-%s%u-%s.%s", prefix, (unsigned)getuid(), job, step);
    else
        snprintf(text, capacity, "busbar-%s%u-of-%ld", prefix, (unsigned)getuid(), (long)launcher);
    name.length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(text));
    return name;
}

int bb_local_listen(const struct bb_local_name *name)
{
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd >= 0 && bind(fd, (const struct sockaddr *)&name->at, name->length)) {
        const int why = errno;

        close(fd);
        errno = why;
        return -1;
    }
    if (fd >= 0)
        (void)listen(fd, BACKLOG);
    return fd;
}

int bb_local_connect(const struct bb_local_name *name, pid_t *pid)
{
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct ucred peer = {.uid = (uid_t)-1};
    socklen_t size = sizeof(peer);

    if (fd < 0)
        return -1;
    if (connect(fd, (const struct sockaddr *)&name->at, name->length) ||
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size)) {
        const int why = errno;

        close(fd);
        errno = why;
        return -1;
    }
    if (peer.uid != getuid()) {
        close(fd);
        errno = EACCES;
        return -1;
    }
    if (pid)
        *pid = peer.pid;
    return fd;
}
