/* child.c - starts and ends the processes of a supervisor. */
#include "bootstrap/supervise/child.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/base/clock.h"
#include "bootstrap/results/serve.h"
#include "bootstrap/start/launcher.h"
#include "bootstrap/start/program_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define RANK_PROGRAM "busbar-rank"

/* STRAY_ROUNDS: number of iterations of 1 ms in bb_children_kill_strays; SIGKILL is sent after STRAY_GRACE of them. */
enum { NUMBER_TEXT = 12, POLL_MS = 5, STRAY_GRACE = 20, STRAY_ROUNDS = 1000 };

/* ---- the program ---- */

/* Advice for installing the libraries that busbar-rank needs. library: beginning of the library's file name. */
static const struct {
    const char *library, *advice;
} sources[] = {
    {"libmpi", "an MPI library (Open MPI or MPICH, the one that busbar was built with)"},
    {"libnccl", "NCCL (NVIDIA's package libnccl2, or the Python wheel nvidia-nccl-cu12 or -cu13)"},
    {"libcudart", "the CUDA runtime (the CUDA toolkit, or the Python wheel nvidia-cuda-runtime, -cu12 for CUDA 12)"},
    {"libcublasLt", "cuBLASLt (the CUDA toolkit, or the Python wheel nvidia-cublas, -cu12 for CUDA 12)"},
};

int bb_rank_program_missing(const char *command, const char *loader)
{
    static const char before[] = "error while loading shared libraries: ";
    const char *at = strstr(loader, before), *error = at ? at + strlen(before) : loader;
    /* error is "FILE: REASON", for example "libnccl.so.2: cannot open shared object file: No such file or directory" */
    const bool missing = strstr(error, ": cannot open shared object file: No such file") != NULL;
    const size_t path = strcspn(error, ":");
    const char *slash = memrchr(error, '/', path), *library = slash ? slash + 1 : error, *advice = NULL;
    char how[PATH_MAX + 64] = "is not found";

    for (size_t i = 0; i < sizeof(sources) / sizeof(*sources); i++)
        if (strncmp(library, sources[i].library, strlen(sources[i].library)) == 0)
            advice = sources[i].advice;
    if (!missing && !advice)
        return bb_err(BB_EFAIL, "%s needs busbar's program " RANK_PROGRAM ", which cannot be loaded: %s", command,
                      error);
    if (!missing)
        snprintf(how, sizeof(how), "cannot be loaded (%s)", error);
    return bb_err(BB_EFAIL,
                  "%s needs %.*s, which %s; install %s, or add its folder to LD_LIBRARY_PATH; "
                  "sh bootstrap/setup.sh installs all dependencies",
                  command, (int)(error + path - library), library, how, advice ? advice : "it");
}

int bb_rank_program_find(const char *command, char path[PATH_MAX])
{
    static const char *const subfolders[] = {"", "/../lib/busbar"};
    char folder[PATH_MAX];
    int rc = bb_program_folder(folder);

    if (rc)
        return rc;
    for (size_t i = 0; i < sizeof(subfolders) / sizeof(*subfolders); i++) {
        if (snprintf(path, PATH_MAX, "%s%s/" RANK_PROGRAM, folder, subfolders[i]) >= PATH_MAX)
            return bb_err(BB_EFAIL, "the path of busbar is too long: %s", folder);
        if (access(path, X_OK) == 0)
            return 0;
    }
    return bb_err(BB_EFAIL,
                  "%s needs busbar's program " RANK_PROGRAM ", which is neither in %s nor in its ../lib/busbar: build "
                  "without -DBUSBAR_GPU=OFF, or install busbar completely",
                  command, folder);
}

/* ---- starting the ranks ---- */

/* Descriptors that a rank inherits from the supervisor, in addition to those that the launcher opened. */
struct inherited {
    int page;         /* shared memory, struct bb_rank_page */
    int socket;       /* messages to the supervisor (rank_page.h) */
    int results;      /* requests to the process that writes the results */
    int stderr_fd;    /* write end of the pipe that replaces stderr while the rank loads its libraries */
    int journal;      /* records of the rank (journal.h) */
    int siblings;     /* memory shared by the ranks of this supervisor (struct bb_siblings_memory); -1: one rank */
    int place, count; /* index of the rank among these ranks, and their number */
};

static int failed(const char *call)
{
    return bb_err(BB_EFAIL, "cannot start a rank: %s: %s", call, strerror(errno));
}

/* Creates the shared page, the two sockets and the stderr pipe between a rank and its supervisor. */
static int open_channels(struct bb_child *child, struct inherited *rank)
{
    int ends[2], results[2], text[2];

    rank->page = memfd_create("busbar-rank", MFD_CLOEXEC);
    if (rank->page < 0 || ftruncate(rank->page, sizeof(*child->page)))
        return failed("memfd_create");
    child->page = mmap(NULL, sizeof(*child->page), PROT_READ | PROT_WRITE, MAP_SHARED, rank->page, 0);
    if (child->page == MAP_FAILED)
        return failed("mmap");
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, results) || pipe2(text, O_CLOEXEC | O_NONBLOCK))
        return failed("socketpair");
    if (child->journal_fd < 0)
        child->journal_fd = memfd_create("busbar-journal", MFD_CLOEXEC);
    rank->journal = child->journal_fd;
    rank->stderr_fd = text[1];
    child->stderr_fd = text[0];
    rank->socket = ends[1];
    child->socket = (struct bb_rank_receiver){.fd = ends[0]};
    rank->results = results[1];
    child->results_fd = results[0];
    return 0;
}

/* Creates the memory that the n ranks of this supervisor share. fd: out, -1 if n is 1. Returns 0, or -BB_EFAIL after an
 * error message. */
static int share_memory(int n, int *fd)
{
    *fd = n > 1 ? memfd_create("busbar-ranks", MFD_CLOEXEC) : -1;
    return n == 1 || (*fd >= 0 && ftruncate(*fd, sizeof(struct bb_siblings_memory)) == 0) ? 0 : failed("memfd_create");
}

static void set_number(const char *variable, int number)
{
    char text[NUMBER_TEXT];

    snprintf(text, sizeof(text), "%d", number);
    (void)setenv(variable, text, 1);
}

/* Sets the variables from which libraries and tools read the rank, for one of n > 1 ranks of this supervisor. place:
 * index among these ranks. All but the first of them close the PMI connection, because the launcher knows only one rank
 * per supervisor. */
static void name_sibling(int rank, int place, int n)
{
    const char *connection = getenv("PMI_FD");
    const bool alone = bb_launched_alone();

    if (connection && place > 0)
        close(atoi(connection));
    if (place > 0)
        unsetenv("PMI_FD");
    if (alone)
        set_number("OMPI_COMM_WORLD_LOCAL_SIZE", n);
    if (place == 0 && !alone)
        return;
    set_number("OMPI_COMM_WORLD_RANK", rank);
    set_number("OMPI_COMM_WORLD_LOCAL_RANK", place);
}

/* Removes a CPU binding to fewer than n CPUs, because all n ranks of this supervisor would share these CPUs. The mask
 * requests all CPUs; the kernel limits it to those that the process may use (cpuset). */
static void widen_binding(int n)
{
    cpu_set_t cores;

    if (sched_getaffinity(0, sizeof(cores), &cores) || CPU_COUNT(&cores) >= n)
        return;
    memset(&cores, 0xff, sizeof(cores));
    (void)sched_setaffinity(0, sizeof(cores), &cores);
}

/* Keeps the descriptors open across exec, with a copy of stderr, and stores their numbers in the variables that
 * bb_supervised_begin (rank.h) and bb_siblings_take (siblings.h) read. Returns 0 or errno. */
static int export_descriptors(const struct inherited *rank, int place, int n)
{
    const int kept[] = {rank->page, rank->socket, rank->results, rank->journal, rank->siblings};
    const int stderr_copy = fcntl(STDERR_FILENO, F_DUPFD, STDERR_FILENO + 1);
    char text[6 * NUMBER_TEXT], list[5 * NUMBER_TEXT];

    if (stderr_copy < 0)
        return errno;
    for (size_t i = 0; i < sizeof(kept) / sizeof(*kept); i++)
        if (kept[i] >= 0 && fcntl(kept[i], F_SETFD, 0) != 0) /* clears FD_CLOEXEC */
            return errno;
    snprintf(text, sizeof(text), "%d %d %d %d %d %d", (int)getppid(), kept[0], kept[1], kept[2], stderr_copy, kept[3]);
    snprintf(list, sizeof(list), "%d %d %d %d %d", place, n, rank->siblings, rank->place, rank->count);
    return setenv("BUSBAR_RANK", text, 1) || (n > 1 && setenv("BUSBAR_SIBLINGS", list, 1)) ? errno : 0;
}

/* Restores the signal mask, but ignores the signals with which launchers end a job: the supervisor reacts to them. */
static void shield_from_launcher(const sigset_t *mask)
{
    static const int shielded[] = {SIGTERM, SIGINT, SIGHUP};

    for (size_t i = 0; i < sizeof(shielded) / sizeof(*shielded); i++)
        (void)signal(shielded[i], SIG_IGN);
    sigprocmask(SIG_SETMASK, mask, NULL);
}

int bb_rank_program_execute(const struct bb_rank_program *program)
{
    char **argv;
    int error;

    BB_NEW(argv, program->argc + 2);
    argv[0] = (char *)(uintptr_t)program->path;
    argv[1] = (char *)(uintptr_t)program->entry;
    for (int i = 0; i < program->argc; i++)
        argv[2 + i] = program->argv[i];
    execv(program->path, argv);
    error = errno;
    free(argv);
    return error;
}

/* Turns the forked child process into the rank. place: index among the n ranks of this supervisor; supervisor: process
 * id of the parent. */
static _Noreturn void become_rank(const struct inherited *rank, const struct bb_child *child, int place, int n,
                                  const struct bb_rank_program *program, pid_t supervisor)
{
    int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC), error;

    prctl(PR_SET_PDEATHSIG, bb_rank_orphan_signal());
    if (getppid() != supervisor)
        _exit(BB_EFAIL);
    if (place > 0 && nothing >= 0)
        dup2(nothing, STDIN_FILENO);
    if (n > 1) {
        widen_binding(n);
        name_sibling(child->rank, place, n);
    }
    if ((error = export_descriptors(rank, place, n)) != 0)
        _exit(-bb_err(BB_EFAIL, "cannot start a rank: %s", strerror(error)));
    dup2(rank->stderr_fd, STDERR_FILENO);
    error = bb_rank_program_execute(program);
    dprintf(STDERR_FILENO, "error while loading shared libraries: %s: %s\n", program->path, strerror(error));
    _exit(127);
}

/* place: index among the n ranks of this supervisor at the start of the job, by which libraries know the rank; rank: has
 * place, number and memory of those that are left */
static int start_one(struct bb_child *child, int place, int n, struct inherited rank,
                     const struct bb_rank_program *program, const sigset_t *mask)
{
    const pid_t self = getpid();
    int rc = open_channels(child, &rank);

    if (rc)
        return rc;
    child->pid = fork();
    if (child->pid < 0)
        return failed("fork");
    if (child->pid == 0) {
        shield_from_launcher(mask);
        become_rank(&rank, child, place, n, program, self);
    }
    close(rank.page);
    close(rank.socket);
    close(rank.results);
    close(rank.stderr_fd);
    return 0;
}

/* Starts the ranks that are not on lost nodes. */
static int start_all(struct bb_child *children, int n, const struct bb_rank_program *program, const sigset_t *mask)
{
    struct inherited rank = {.count = 0};
    int rc;

    for (int i = 0; i < n; i++)
        rank.count += !children[i].left;
    rc = share_memory(rank.count, &rank.siblings);
    fflush(stdout);
    for (int i = 0; i < n && rc == 0; i++)
        if (!children[i].left) {
            rc = start_one(&children[i], i, n, rank, program, mask);
            rank.place++;
        }
    if (rank.siblings >= 0)
        close(rank.siblings);
    return rc;
}

int bb_children_start(struct bb_child *children, int n, int first, const struct bb_rank_program *program,
                      const sigset_t *mask)
{
    for (int i = 0; i < n; i++)
        children[i] = (struct bb_child){.rank = first + i, .stderr_fd = -1, .results_fd = -1, .journal_fd = -1};
    return start_all(children, n, program, mask);
}

int bb_children_restart(struct bb_child *children, int n, const struct bb_rank_program *program, const sigset_t *mask)
{
    for (int i = 0; i < n; i++) {
        struct bb_child next = {
            .rank = children[i].rank, .stderr_fd = -1, .results_fd = -1, .journal_fd = children[i].journal_fd};

        if (children[i].left)
            continue;
        children[i].journal_fd = -1;
        bb_child_release(&children[i]);
        children[i] = next;
    }
    return start_all(children, n, program, mask);
}

static bool is_loader_error(const char *line)
{
    static const char *const errors[] = {"error while loading shared libraries", "symbol lookup error",
                                         "' not found (required by"};

    for (size_t i = 0; i < sizeof(errors) / sizeof(*errors); i++)
        if (strstr(line, errors[i]))
            return true;
    return false;
}

/* Stores the first error line of the dynamic loader in child->loader and drops its further error lines; passes all
 * other text on to stderr. text: modified. */
static void sort_lines(struct bb_child *child, char *text)
{
    for (char *line = text, *end; *line; line = end) {
        const size_t length = strcspn(line, "\n");
        const char rest = line[length];

        end = line + length + (rest != '\0');
        line[length] = '\0';
        if (!child->alive && is_loader_error(line)) {
            if (!child->loader[0])
                snprintf(child->loader, sizeof(child->loader), "%.*s", (int)sizeof(child->loader) - 1, line);
            continue;
        }
        line[length] = rest;
        if (write(STDERR_FILENO, line, (size_t)(end - line)) < 0)
            return;
    }
}

void bb_child_read_stderr(struct bb_child *child)
{
    char text[4096];
    ssize_t n = 0;

    while (child->stderr_fd >= 0 && (n = read(child->stderr_fd, text, sizeof(text) - 1)) > 0) {
        text[n] = '\0';
        sort_lines(child, text);
    }
    if (child->stderr_fd >= 0 && n == 0) {
        close(child->stderr_fd);
        child->stderr_fd = -1;
    }
}

/* ---- the process that writes the results ---- */

/* Closes all descriptors except the standard streams and the sockets a and b (-1: none). The PMI connection must be
 * closed, because Hydra detects the end of a rank only when the last process has closed it. */
static void close_others(int a, int b)
{
    const long files = sysconf(_SC_OPEN_MAX);

    for (int fd = STDERR_FILENO + 1; fd < (files < 65536 ? files : 65536); fd++)
        if (fd != a && fd != b)
            close(fd);
}

pid_t bb_writer_start(int results_fd, const struct bb_rank_program *program, const sigset_t *mask, int *control_fd)
{
    int ends[2];
    pid_t pid;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
        return -1;
    pid = fork();
    if (pid == 0) {
        close_others(results_fd, ends[1]);
        shield_from_launcher(mask);
        _exit(bb_exit_code(bb_results_serve(results_fd, ends[1], program->opening, program->at_end)));
    }
    close(ends[1]);
    if (pid < 0)
        close(ends[0]);
    *control_fd = pid < 0 ? -1 : ends[0];
    return pid;
}

void bb_writer_rescue(pid_t writer, bool ended, const char *path, time_t began, int rc,
                      const struct bb_results_end *end, double limit_s)
{
    const double end_s = bb_now_s() + limit_s;
    pid_t pid;

    if (!ended)
        (void)kill(writer, SIGKILL);
    pid = fork();
    if (pid == 0) {
        close_others(-1, -1);
        (void)umask(077); /* results contain environment variables: the file stays private */
        bb_results_rescue(path, writer, began, rc, end);
        _exit(0);
    }
    while (pid > 0 && waitpid(pid, NULL, WNOHANG) == 0 && bb_now_s() < end_s)
        (void)poll(NULL, 0, POLL_MS);
}

/* ---- killing what is left ---- */

/* Sends a signal to all children of this process; signal 0: only counts them. Returns the number of children. */
static int signal_children(int signal)
{
    char path[64];
    FILE *file;
    long pid;
    int n = 0;

    snprintf(path, sizeof(path), "/proc/self/task/%ld/children", (long)getpid());
    file = fopen(path, "re");
    for (; file && fscanf(file, "%ld", &pid) == 1; n++)
        (void)kill((pid_t)pid, signal);
    if (file)
        fclose(file);
    return n;
}

void bb_children_kill_strays(void)
{
    for (int i = 0; i < STRAY_ROUNDS && signal_children(i < STRAY_GRACE ? 0 : SIGKILL) > 0; i++) {
        (void)poll(NULL, 0, 1);
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
    }
}

void bb_child_release(struct bb_child *child)
{
    if (child->page && child->page != MAP_FAILED)
        munmap(child->page, sizeof(*child->page));
    if (child->socket.fd > 0)
        close(child->socket.fd);
    if (child->stderr_fd >= 0)
        close(child->stderr_fd);
    if (child->results_fd >= 0)
        close(child->results_fd);
    if (child->journal_fd > 0)
        close(child->journal_fd);
    bb_rank_receiver_release(&child->socket);
}
