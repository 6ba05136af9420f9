/* launcher.c - reads rank and size of the job from the environment variables of known launchers, and detects unknown
 * launchers by the usual names of such variables. */
#include "bootstrap/start/launcher.h"

#include "bootstrap/base/units.h"

#include <ctype.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Environment variables of the launchers, in the order in which they are read. The variables of several launchers can
 * be set at once, for example under mpirun in a job of Slurm. NULL: the launcher sets no such variable. */
static const struct {
    const char *prefix; /* variables with this prefix belong to the launcher */
    const char *rank, *size, *local_size;
    /* true: this launcher has started the process only if the variable `size` is set. Slurm also sets `rank` for a
     * shell in an allocation, and busbar's supervisor sets Open MPI's `rank` for the ranks that it starts (-g) */
    bool size_decides;
} launchers[] = {
    {"OMPI_", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", true},
    {"PMIX_", "PMIX_RANK", NULL, NULL, false},
    {"MPI_LOCAL", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", false}, /* Hydra: MPICH, Intel MPI */
    {"MV2_", "MV2_COMM_WORLD_RANK", NULL, "MV2_COMM_WORLD_LOCAL_SIZE", false},
    {"PMI_", "PMI_ID", NULL, "PMI_LOCAL_SIZE", false},
    {"ALPS_", "ALPS_APP_PE", NULL, NULL, false},
    {"MP_", "MP_CHILD", NULL, NULL, false}, /* IBM's POE */
    {"FLUX_", "FLUX_TASK_RANK", "FLUX_JOB_SIZE", NULL, true},
    {"SLURM_", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", NULL, true},
};
enum { N_LAUNCHERS = sizeof(launchers) / sizeof(*launchers) };

static const char *value_of(const char *variable)
{
    return variable ? getenv(variable) : NULL;
}

int bb_launcher_rank(void)
{
    for (int i = 0; i < N_LAUNCHERS; i++)
        if (value_of(launchers[i].rank))
            return atoi(value_of(launchers[i].rank));
    return 0;
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
    const char *list = getenv("SLURM_STEP_TASKS_PER_NODE"), *node = getenv("SLURM_NODEID");
    int size = 0;

    for (int i = 0; i < N_LAUNCHERS; i++)
        if (value_of(launchers[i].local_size))
            return atoi(value_of(launchers[i].local_size));
    if (list && node)
        size = slurm_tasks_of(list, atoi(node));
    return size || !getenv("SLURM_NTASKS_PER_NODE") ? size : atoi(getenv("SLURM_NTASKS_PER_NODE"));
}

/* ---- unknown launchers ---- */

/* Suffixes of the variables for the rank and for the number of ranks. The prefix is specific to the launcher and may
 * be empty. Examples: RANK and WORLD_SIZE, HOROVOD_RANK and HOROVOD_SIZE, MPI_RANKID and MPI_NRANKS. */
static const char *const rank_ends[] = {"WORLD_RANK", "RANKID", "RANK", "PROCID", "TASKID"};
static const char *const size_ends[] = {"WORLD_SIZE", "NRANKS", "SIZE", "NTASKS", "NPROCS", "NUM_TASKS"};
enum { N_RANK_ENDS = sizeof(rank_ends) / sizeof(*rank_ends), N_SIZE_ENDS = sizeof(size_ends) / sizeof(*size_ends) };

/* A variable whose name ends in one of rank_ends or size_ends, and whose value is a number. text: the variable as
 * "NAME=value"; prefix: number of bytes before that ending. */
struct number {
    const char *text;
    size_t prefix;
    long value;
};

static bool read_number(const char *variable, const char *const *ends, size_t n, struct number *number)
{
    const size_t name = strcspn(variable, "=");
    char *end = NULL;

    for (size_t i = 0; i < n; i++) {
        const size_t length = strlen(ends[i]);

        if (length > name || strncmp(variable + name - length, ends[i], length) != 0 || variable[name] != '=')
            continue;
        *number = (struct number){variable, name - length, strtol(variable + name + 1, &end, 10)};
        return variable[name + 1] != '\0' && *end == '\0' && number->value >= 0;
    }
    return false;
}

/* Returns whether the variable belongs to a launcher in launchers[], to busbar or to the GPU emulator. */
static bool is_known(const char *variable)
{
    for (int i = 0; i < N_LAUNCHERS; i++)
        if (bb_begins_with(variable, launchers[i].prefix))
            return true;
    return bb_begins_with(variable, "BUSBAR_") || bb_begins_with(variable, "EMU_");
}

/* Returns whether the environment has the rank variable that belongs to `size`: with the same prefix and a value below
 * the size. size NULL: returns whether a variable of no known launcher looks like a rank variable. */
static bool has_rank(const struct number *size)
{
    struct number rank;

    for (char **variable = environ; variable && *variable; variable++) {
        if (!read_number(*variable, rank_ends, N_RANK_ENDS, &rank))
            continue;
        if (!size && !is_known(*variable))
            return true;
        if (size && rank.value < size->value && rank.prefix == size->prefix &&
            strncmp(rank.text, size->text, size->prefix) == 0)
            return true;
    }
    return false;
}

/* Returns whether `entry` ("NAME=VALUE") is the variable `name`; false if name is NULL. */
static bool is_variable(const char *entry, const char *name)
{
    return name && bb_begins_with(entry, name) && entry[strlen(name)] == '=';
}

const char *bb_launcher_claim(void)
{
    struct number size;

    for (int i = 0; i < N_LAUNCHERS; i++)
        for (char **variable = environ; variable && *variable; variable++)
            if ((is_variable(*variable, launchers[i].size) || is_variable(*variable, launchers[i].local_size)) &&
                atoi(strchr(*variable, '=') + 1) > 1)
                return *variable;
    for (char **variable = environ; variable && *variable; variable++)
        if (read_number(*variable, size_ends, N_SIZE_ENDS, &size) && size.value > 1 && has_rank(&size))
            return *variable;
    return NULL;
}

bool bb_launched_alone(void)
{
    bool sized = false, ranked = false;

    for (int i = 0; i < N_LAUNCHERS; i++) {
        if (value_of(launchers[i].size) && atoi(value_of(launchers[i].size)) > 1)
            return false;
        if (value_of(launchers[i].local_size) && atoi(value_of(launchers[i].local_size)) > 1 &&
            !launchers[i].size_decides)
            return false;
        sized = sized || value_of(launchers[i].size);
        ranked = ranked || (value_of(launchers[i].rank) && !launchers[i].size_decides);
    }
    return !has_rank(NULL) && (sized || !ranked);
}

/* ---- ending the job ---- */

void bb_launcher_abort(int code, bool initialized)
{
    const struct timespec output_is_read = {.tv_nsec = 200000000}; /* Hydra reads no output of ranks after the abort */
    const char *connection = getenv("PMI_FD");

    if (!connection)
        return;
    nanosleep(&output_is_read, NULL);
    if (!initialized)
        dprintf(atoi(connection), "cmd=init pmi_version=1 pmi_subversion=1\n");
    dprintf(atoi(connection), "cmd=abort exitcode=%d\n", code);
}

bool bb_launcher_ends_with_rank(void)
{
    return getenv("SLURM_PROCID") && getenv("PMIX_RANK") && !getenv("OMPI_COMM_WORLD_SIZE");
}

bool bb_launcher_ends_with_process(void)
{
    return getenv("PMI_FD") != NULL;
}

/* ---- redirecting stderr to the launcher's stderr ---- */

enum { PATH_TEXT = 64, LAUNCHER_FILES_MAX = 256 };

size_t bb_process_read(pid_t pid, const char *name, char *text, size_t size)
{
    char path[PATH_TEXT];
    size_t length = 0;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%ld/%s", (long)pid, name);
    file = fopen(path, "re");
    if (file) {
        length = fread(text, 1, size - 1, file);
        fclose(file);
    }
    text[length] = '\0';
    return length;
}

bool bb_launcher_is_prterun(pid_t pid)
{
    char name[16];

    bb_process_read(pid, "comm", name, sizeof(name));
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
    const int process = (int)syscall(SYS_pidfd_open, pid, 0);
    const int fd = (int)syscall(SYS_pidfd_getfd, process, STDERR_FILENO, 0);
    char path[PATH_TEXT];

    if (process >= 0)
        close(process);
    snprintf(path, sizeof(path), "/proc/%ld/fd/%d", (long)pid, STDERR_FILENO);
    return fd >= 0 ? fd : open(path, O_WRONLY | O_APPEND | O_NOCTTY | O_CLOEXEC);
}

void bb_launcher_take_stderr(pid_t sender)
{
    int fd;

    if (sender <= 0 || !bb_launcher_is_prterun(sender) || !reads_our_stderr(sender))
        return;
    fd = open_stderr_of(sender);
    if (fd < 0)
        return;
    dup2(fd, STDERR_FILENO);
    close(fd);
}
