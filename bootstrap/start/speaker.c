/* speaker.c - error reporter of a host. The reporter lock is an abstract socket, which a helper process keeps open
 * for a moment after the report. */
#include "bootstrap/start/speaker.h"

#include "bootstrap/base/clock.h"
#include "bootstrap/base/err.h"
#include "bootstrap/start/local_name.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { HOLD_MS = 1500, LONGEST_MS = 3000, ANSWER_MS = 50, FILES_MAX = 4096 };

/* Like fork(), but does not acquire the locks of malloc, stdio and the pthread_atfork handlers, because a stuck thread
 * may hold one of these locks. The child may only make system calls. */
static pid_t fork_bare(void)
{
    return (pid_t)syscall(SYS_clone, (unsigned long)SIGCHLD, NULL, NULL, NULL, NULL);
}

/* Accepts a connection from another rank and sends `code`, the job's exit code. Returns false if accept() failed
 * (for example with EMFILE). */
static bool answer_one(int lock_fd, char code)
{
    const int asker = accept4(lock_fd, NULL, NULL, SOCK_CLOEXEC);

    if (asker < 0)
        return false;
    (void)send(asker, &code, 1, MSG_NOSIGNAL);
    close(asker);
    return true;
}

/* Sends `code` to connecting ranks for for_ms milliseconds, or until the reporter exits. death_pipe: pipe that
 * reaches EOF when the reporter exits; -1: no pipe. */
static void answer(int lock_fd, int death_pipe, char code, int for_ms)
{
    const double end_s = bb_now_s() + 1e-3 * for_ms;
    struct pollfd polls[] = {{.fd = death_pipe, .events = POLLIN}, {.fd = lock_fd, .events = POLLIN}};
    int left_ms = for_ms;
    bool answered = true;

    while ((answered || left_ms > 0) && poll(polls, 2, left_ms) >= 0 && !polls[0].revents) {
        answered = polls[1].revents && answer_one(lock_fd, code);
        left_ms = end_s > bb_now_s() ? (int)(1e3 * (end_s - bb_now_s())) + 1 : 0;
    }
}

bool bb_speaker_answer(int fd, int code, int for_ms)
{
    int listens = 0;
    socklen_t length = sizeof(listens);

    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) || !listens)
        return false;
    answer(fd, -1, (char)code, for_ms);
    return true;
}

/* Waits until the reporter has sent a byte through death_pipe, which means that it has printed its error line.
 * Returns false if the reporter exited before. */
static bool await_line(int death_pipe)
{
    struct pollfd line = {.fd = death_pipe, .events = POLLIN};
    char said;

    return poll(&line, 1, LONGEST_MS) <= 0 || read(death_pipe, &said, 1) == 1;
}

/* Code of the helper process: keeps the reporter lock until the reporter exits, and HOLD_MS longer. */
static void keep_word(int lock_fd, int death_pipe, char code)
{
    for (int fd = 0; fd < FILES_MAX; fd++)
        if (fd != lock_fd && fd != death_pipe)
            close(fd);
    if (!await_line(death_pipe))
        _exit(0);
    answer(lock_fd, death_pipe, code, LONGEST_MS);
    answer(lock_fd, -1, code, HOLD_MS);
    _exit(0);
}

/* Runs in a forked child: starts the helper process in a new session. Returns whether the helper process was
 * started. */
static bool start_keeper(int lock_fd, const int ends[2], char code)
{
    pid_t helper;

    close(ends[1]);
    setsid(); /* leave the rank's process group, which Hydra may kill as soon as the reporter continues */
    helper = fork_bare();
    if (helper == 0)
        keep_word(lock_fd, ends[0], code);
    return helper > 0;
}

/*
 * Passes the lock to a helper process. Launchers end the other ranks when the first rank exits, and those ranks must
 * find the lock taken although the reporter no longer exists. Returns the descriptor that represents the lock in this
 * process: the pipe to the helper process, or the socket itself if the helper process could not be created.
 */
static int hold_word(int lock_fd, char code)
{
    int ends[2], status = 1;
    pid_t child;

    if (pipe2(ends, O_CLOEXEC))
        return lock_fd;
    child = fork_bare();
    if (child == 0)
        _exit(start_keeper(lock_fd, ends, code) ? 0 : 1);
    close(ends[0]);
    if (child > 0 && waitpid(child, &status, 0) == child && status == 0) {
        close(lock_fd);
        return ends[1];
    }
    close(ends[1]);
    return lock_fd;
}

void bb_speaker_says(int fd)
{
    if (write(fd, "", 1) < 0)
        return; /* there is no helper process to notify */
}

int bb_speaker_take(int code)
{
    return bb_speaker_take_of(getppid(), code);
}

/* Returns whether a rank of this user owns the socket name. A socket of another user must not suppress the report. */
static int is_ours(const struct bb_local_name *name)
{
    const int fd = bb_local_connect(name, NULL);

    if (fd < 0)
        return errno != EACCES;
    close(fd);
    return 1;
}

int bb_speaker_take_of(pid_t launcher, int code)
{
    const struct bb_local_name name = bb_local_name("", launcher);
    const int fd = bb_local_listen(&name);

    if (fd < 0 && errno == EADDRINUSE && is_ours(&name))
        return -1;
    if (fd < 0)
        return open("/dev/null", O_RDONLY | O_CLOEXEC); /* the lock cannot be created; reporting twice is better than
                                                           not reporting */
    return hold_word(fd, (char)code);
}

int bb_speaker_heard(void)
{
    const struct bb_local_name name = bb_local_name("", getppid());
    struct pollfd reply = {.fd = bb_local_connect(&name, NULL), .events = POLLIN};
    char code = 0;

    if (reply.fd < 0)
        return 0;
    if (poll(&reply, 1, ANSWER_MS) <= 0 || recv(reply.fd, &code, 1, MSG_DONTWAIT) != 1 || code > BB_EBELOW)
        code = 0;
    close(reply.fd);
    return code > 0 ? code : 0;
}
