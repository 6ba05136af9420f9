/* siblings.c - forks the additional ranks of a launched process. */
#include "bootstrap/start/siblings.h"

#include "bootstrap/start/launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* Environment variable that lists the sockets of a rank. Its value is "place count fd": index of the rank in its
 * process, number of ranks in the process, and the socket to place 0, the launched process (-1 on place 0). On place
 * 0, "fd:pid" (socket and process id) follows for each forked rank. */
static const char VARIABLE[] = "BUSBAR_SIBLINGS";

enum { EACH_TEXT = 32 };

/* ---- forking the ranks ---- */

/* Removes a CPU binding to fewer than `count` CPUs. mpirun binds a process to one core, which all ranks of the
 * process would otherwise share. Requests all CPUs; the kernel limits the mask to the allowed ones. */
static void widen_binding(int count)
{
    cpu_set_t cores;

    if (sched_getaffinity(0, sizeof(cores), &cores) || CPU_COUNT(&cores) >= count)
        return;
    memset(&cores, 0xff, sizeof(cores));
    (void)sched_setaffinity(0, sizeof(cores), &cores);
}

static void set_number(const char *variable, int number)
{
    char text[16];

    snprintf(text, sizeof(text), "%d", number);
    (void)setenv(variable, text, 1);
}

/* Sets the variables from which libraries and tools read the rank. A forked rank closes the PMI connection, because
 * the launcher does not know the forked ranks. */
static void name_rank(int rank, int local_rank, int count)
{
    const char *connection = getenv("PMI_FD");

    if (connection && local_rank > 0)
        close(atoi(connection));
    unsetenv("PMI_FD");
    set_number("OMPI_COMM_WORLD_RANK", rank);
    set_number("OMPI_COMM_WORLD_LOCAL_RANK", local_rank);
    set_number("OMPI_COMM_WORLD_LOCAL_SIZE", count);
}

/* Sets up a forked rank. Runs in the child process. */
static int become_sibling(int place, int count, int first_rank, int fd, pid_t parent)
{
    char text[EACH_TEXT];
    int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1); /* the parent process exited before prctl() */
    if (nothing >= 0)
        dup2(nothing, STDIN_FILENO);
    bb_err_mute(1); /* this rank prints no errors until the ranks are connected */
    name_rank(first_rank + place, place, count);
    snprintf(text, sizeof(text), "%d %d %d", place, count, fd);
    return setenv(VARIABLE, text, 1) ? bb_err(BB_EFAIL, "setenv: %s", strerror(errno)) : 0;
}

/* Forks one rank. *fd: out, this process's end of a socket between parent and child. *pid: out, process id of the
 * child, set in the parent. Returns 1 in the child, 0 in the parent, or a negative error. */
static int fork_sibling(int *fd, pid_t *pid)
{
    int ends[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends))
        return bb_err(BB_EFAIL, "cannot fork a rank of this process: %s", strerror(errno));
    *pid = fork();
    if (*pid < 0)
        return bb_err(BB_EFAIL, "cannot fork a rank of this process: %s", strerror(errno));
    close(ends[*pid > 0]);
    *fd = ends[*pid == 0];
    return *pid == 0;
}

int bb_siblings_start(int count)
{
    const int first_rank = bb_launcher_rank() * count;
    const pid_t self = getpid();
    char *text = malloc((size_t)(count + 1) * EACH_TEXT);
    size_t at;

    if (!text)
        return bb_err(BB_EFAIL, "out of memory for %d ranks", count);
    widen_binding(count);
    at = (size_t)sprintf(text, "0 %d -1", count);
    for (int place = 1; place < count; place++) {
        pid_t pid = 0;
        int fd = -1, child = fork_sibling(&fd, &pid);

        if (child) {
            free(text);
            return child < 0 ? child : become_sibling(place, count, first_rank, fd, self);
        }
        at += (size_t)sprintf(text + at, " %d:%d", fd, (int)pid);
    }
    if (bb_launched_alone())
        name_rank(0, 0, count);
    if (setenv(VARIABLE, text, 1))
        return bb_err(BB_EFAIL, "setenv: %s", strerror(errno));
    free(text);
    return 0;
}

/* ---- reading the environment variable ---- */

static int read_siblings(struct bb_siblings *s, const char *text)
{
    int used = 0, pid;

    if (sscanf(text, "%d %d %d%n", &s->place, &s->count, &s->fds[0], &used) != 3 || s->place < 0 ||
        s->place >= s->count)
        return -BB_EFAIL;
    for (int i = 1; s->place == 0 && i < s->count; i++) {
        text += used;
        if (sscanf(text, " %d:%d%n", &s->fds[i], &pid, &used) != 2)
            return -BB_EFAIL;
        s->pids[i] = pid;
    }
    return 0;
}

int bb_siblings_take(struct bb_siblings **siblings)
{
    const char *text = getenv(VARIABLE);
    int place, count, rc;
    struct bb_siblings *s;

    *siblings = NULL;
    if (!text || sscanf(text, "%d %d", &place, &count) != 2 || count < 1 || count > BB_SIBLINGS_MAX)
        return 0;
    s = calloc(1, sizeof(*s));
    if (!s || !(s->fds = calloc((size_t)count, sizeof(*s->fds))) ||
        !(s->pids = calloc((size_t)count, sizeof(*s->pids)))) {
        bb_siblings_release(s);
        return bb_err(BB_EFAIL, "out of memory for %d ranks of a process", count);
    }
    for (int i = 0; i < count; i++)
        s->fds[i] = -1; /* so that bb_siblings_release closes only the sockets that were read from the variable */
    rc = read_siblings(s, text);
    unsetenv(VARIABLE);
    *siblings = s;
    return rc ? bb_err((enum bb_error) - rc, "%s is not valid", VARIABLE) : 0;
}

/* ---- waiting for the forked ranks ---- */

/* Converts the wait status of a forked rank to an error code. Prints an error only if a signal ended the rank,
 * because a rank that failed in another way has printed its own error. place: index of the rank in its process. */
static int error_of(int place, int status)
{
    if (WIFSIGNALED(status))
        return bb_err(BB_EFAIL, "rank %d of this process was ended by signal %d (%s)", place, WTERMSIG(status),
                      strsignal(WTERMSIG(status)));
    return WEXITSTATUS(status) <= BB_EBELOW ? -WEXITSTATUS(status) : -BB_EFAIL;
}

int bb_siblings_end(struct bb_siblings *siblings)
{
    int rc = 0;

    for (int i = 1; siblings->place == 0 && i < siblings->count; i++) {
        int status = 0;

        if (waitpid(siblings->pids[i], &status, 0) > 0 && rc == 0)
            rc = error_of(i, status);
    }
    return rc;
}

void bb_siblings_release(struct bb_siblings *siblings)
{
    if (!siblings)
        return;
    for (int i = 0; siblings->fds && i < (siblings->place == 0 ? siblings->count : 1); i++)
        if (siblings->fds[i] >= 0)
            close(siblings->fds[i]);
    free(siblings->fds);
    free(siblings->pids);
    free(siblings);
}
