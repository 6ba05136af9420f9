/* launcher.c - reads the environment variables of launchers. */
#include "bootstrap/start/launcher.h"

#include "bootstrap/start/unknown_launcher.h"

#include <ctype.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Returns the value of the first variable in the list that is set, or 0 if none is set. */
static int first_set(const char *const *variables, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (getenv(variables[i]))
            return atoi(getenv(variables[i]));
    return 0;
}

static bool any_set(const char *const *variables, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (getenv(variables[i]))
            return true;
    return false;
}

int bb_launcher_rank(void)
{
    static const char *const ranks[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "PMI_ID", "SLURM_PROCID"};

    return first_set(ranks, sizeof(ranks) / sizeof(*ranks));
}

/* Parses a non-negative number at *list and advances *list. Returns the number, or -1 if there is none. */
static int read_count(const char **list)
{
    char *end;
    long n = isdigit((unsigned char)**list) ? strtol(*list, &end, 10) : -1;

    if (n < 0 || n > INT_MAX)
        return -1;
    *list = end;
    return (int)n;
}

/* Returns the number of tasks on node `node` from Slurm's list of tasks per node, for example "8(x2),4", or 0 if the
 * list does not contain the node. */
static int slurm_tasks_of(const char *list, int node)
{
    int tasks, times;

    while (node >= 0 && (tasks = read_count(&list)) >= 0) {
        times = 1;
        if (strncmp(list, "(x", 2) == 0) {
            list += 2;
            times = read_count(&list);
            list += *list == ')';
        }
        if (node < times)
            return tasks;
        if (times < 0)
            break;
        node -= times;
        list += *list == ',';
    }
    return 0;
}

int bb_launcher_local_size(void)
{
    static const char *const sizes[] = {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "MV2_COMM_WORLD_LOCAL_SIZE",
                                        "PMI_LOCAL_SIZE"};
    static const char *const of_slurm[] = {"SLURM_NTASKS_PER_NODE"};
    const char *list = getenv("SLURM_STEP_TASKS_PER_NODE"), *node = getenv("SLURM_NODEID");
    int size = first_set(sizes, sizeof(sizes) / sizeof(*sizes));

    if (size == 0 && list && node)
        size = slurm_tasks_of(list, atoi(node));
    return size ? size : first_set(of_slurm, 1);
}

/* Variables with the size of the whole job. */
static const char *const total_sizes[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"};

bool bb_launched_alone(void)
{
    static const char *const ranks[] = {
        "PMIX_RANK",   "PMI_RANK",    "PMI_ID",         "MPI_LOCALNRANKS", "MV2_COMM_WORLD_RANK", "MP_CHILD",
        "PALS_RANKID", "ALPS_APP_PE", "FLUX_TASK_RANK", "MPIRUN_RANK",     "JSM_NAMESPACE_RANK"};
    bool sized = false;

    for (size_t i = 0; i < sizeof(total_sizes) / sizeof(*total_sizes); i++) {
        if (getenv(total_sizes[i]) && atoi(getenv(total_sizes[i])) > 1)
            return false;
        sized = sized || getenv(total_sizes[i]);
    }
    return !bb_unknown_launcher() && (sized || !any_set(ranks, sizeof(ranks) / sizeof(*ranks)));
}

/* ---- redirecting stderr to the launcher's stderr ---- */

enum { PATH_TEXT = 64, LAUNCHER_FILES_MAX = 256 };

static bool is_prterun(pid_t pid)
{
    char path[PATH_TEXT], name[16] = "";
    int fd;

    snprintf(path, sizeof(path), "/proc/%ld/comm", (long)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    if (read(fd, name, sizeof(name) - 1) < 0)
        name[0] = '\0';
    close(fd);
    return strcmp(name, "prterun\n") == 0;
}

/* Returns whether process `pid`, the launcher, reads this process's stderr, that is, has the same pipe open. This is
 * false if a wrapper script has redirected stderr. */
static bool reads_our_stderr(pid_t pid)
{
    char path[PATH_TEXT];
    struct stat ours, its;

    if (fstat(STDERR_FILENO, &ours) || !S_ISFIFO(ours.st_mode))
        return false;
    for (int fd = 0; fd < LAUNCHER_FILES_MAX; fd++) {
        snprintf(path, sizeof(path), "/proc/%ld/fd/%d", (long)pid, fd);
        if (stat(path, &its) == 0 && its.st_ino == ours.st_ino && its.st_dev == ours.st_dev)
            return true;
    }
    return false;
}

/* Opens the stderr of process `pid`. A duplicated descriptor (pidfd_getfd) shares the file offset, so that the lines
 * of several processes do not overwrite each other. If duplicating is not permitted, opens the file in append mode. */
static int open_stderr_of(pid_t pid)
{
    char path[PATH_TEXT];
    int fd = -1;

#ifdef SYS_pidfd_getfd
    const int process = (int)syscall(SYS_pidfd_open, pid, 0);

    if (process >= 0) {
        fd = (int)syscall(SYS_pidfd_getfd, process, STDERR_FILENO, 0);
        close(process);
    }
#endif
    snprintf(path, sizeof(path), "/proc/%ld/fd/%d", (long)pid, STDERR_FILENO);
    return fd >= 0 ? fd : open(path, O_WRONLY | O_APPEND | O_NOCTTY | O_CLOEXEC);
}

void bb_launcher_take_stderr(pid_t sender)
{
    int fd;

    if (sender <= 0 || !is_prterun(sender) || !reads_our_stderr(sender))
        return;
    fd = open_stderr_of(sender);
    if (fd < 0)
        return;
    dup2(fd, STDERR_FILENO);
    close(fd);
}
