/* speaker.c - see speaker.h. */
#include "bootstrap/start/speaker.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { HOLD_MS = 1500, LONGEST_MS = 3000, FILES_MAX = 4096 };

/* What the ranks of a job on one host have in common, and other jobs there have not. */
static void name_job(char *name, size_t room, pid_t launcher)
{
    const char *space = getenv("PMIX_NAMESPACE"), *job = getenv("SLURM_JOB_ID"), *step = getenv("SLURM_STEP_ID");

    if (space)
        snprintf(name, room, "busbar-%u-%s", (unsigned)getuid(), space);
    else if (job && step)
        snprintf(name, room, "busbar-%u-%s.%s", (unsigned)getuid(), job, step);
    else
        snprintf(name, room, "busbar-%u-of-%ld", (unsigned)getuid(), (long)launcher);
}

/* Whether the one who has the name is of our own user. */
static int is_ours(const struct sockaddr_un *at, socklen_t length)
{
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct ucred peer = {.uid = getuid()};
    socklen_t size = sizeof(peer);

    if (fd >= 0 && connect(fd, (const struct sockaddr *)at, length) == 0)
        (void)getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size);
    if (fd >= 0)
        close(fd);
    return peer.uid == getuid();
}

/* Until the speaker is gone, and a moment more. */
static void keep_word(int word, int leash)
{
    struct pollfd speaker = {.fd = leash, .events = POLLIN};

    for (int fd = 0; fd < FILES_MAX; fd++)
        if (fd != word && fd != leash)
            close(fd);
    poll(&speaker, 1, LONGEST_MS);
    poll(NULL, 0, HOLD_MS);
    _exit(0);
}

/* Launchers end the other ranks when the first is gone: these shall find the word taken, so a small process has it on. */
static void hold_word(int word)
{
    int ends[2];
    pid_t child;

    if (pipe2(ends, O_CLOEXEC))
        return;
    child = fork();
    if (child == 0) {
        close(ends[1]);
        setsid(); /* before the speaker goes on: hydra kills a rank's whole group, perhaps at once */
        if (fork() == 0)
            keep_word(word, ends[0]);
        _exit(0);
    }
    close(ends[0]); /* the other end closes with this process */
    if (child > 0)
        waitpid(child, NULL, 0);
}

int bb_speaker_take(void)
{
    return bb_speaker_take_of(getppid());
}

int bb_speaker_take_of(pid_t launcher)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t length;

    name_job(at.sun_path + 1, sizeof(at.sun_path) - 1, launcher); /* a zero first: an abstract name */
    length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(at.sun_path + 1));
    if (fd < 0)
        return open("/dev/null", O_RDONLY | O_CLOEXEC); /* rather twice than not at all */
    if (bind(fd, (struct sockaddr *)&at, length) && errno == EADDRINUSE && is_ours(&at, length)) {
        close(fd);
        return -1;
    }
    (void)listen(fd, 1);
    hold_word(fd);
    return fd;
}
