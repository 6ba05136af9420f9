/* launch_runs.c - command lines of launchers, and runs with a time limit. */
#include "bootstrap/sweep/launch_runs.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/base/clock.h"
#include "bootstrap/base/environment.h"
#include "bootstrap/start/mpirun.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static const double TERM_S = 5; /* seconds from SIGTERM to SIGKILL */

/* ---- command line of a run ---- */

/* Returns the path of this program, or of busbar-emulated next to it if that started it. NULL: unknown. */
static char *this_program(void)
{
    char *path = realpath("/proc/self/exe", NULL);
    char *emulated = path && bb_environment_is_emulated() ? bb_format("%s-emulated", path) : NULL;

    if (!emulated || access(emulated, X_OK) != 0) {
        free(emulated);
        return path;
    }
    free(path);
    return emulated;
}

int bb_launch_runs_init(struct bb_launch_runs *s, const char *with, const char *hosts, const char *arguments,
                        const char *program)
{
    const json_t *launch = json_object_get(s->study->root, "launch"), *given = json_object_get(launch, "with");

    s->with = with;
    if (!s->with)
        s->with = given ? json_string_value(given) : "mpirun";
    if (!s->with)
        s->custom = given;
    s->hosts = hosts ? hosts : json_string_value(json_object_get(launch, "hosts"));
    if (!program)
        program = json_string_value(json_object_get(launch, "program"));
    if (arguments)
        bb_argv_add_split(&s->arguments, arguments);
    s->program = program ? bb_copy_text(program) : this_program();
    if (!s->program)
        return bb_err(BB_EFAIL, "cannot determine the path of this program: %s", strerror(errno));
    return 0;
}

void bb_launch_runs_release(struct bb_launch_runs *s)
{
    bb_argv_release(&s->arguments);
    free(s->program);
    *s = (struct bb_launch_runs){0};
}

/* Appends the command line of the launcher. In a custom launcher, {ranks} is replaced by the number of ranks. */
static void add_launcher(const struct bb_launch_runs *s, const struct bb_sweep_run *c, struct bb_argv *words)
{
    bool mpirun = s->with && strcmp(s->with, "mpirun") == 0;
    char ranks[16];

    snprintf(ranks, sizeof(ranks), "%d", c->ranks);
    for (size_t i = 0; i < json_array_size(s->custom); i++)
        bb_argv_add(words, "%s", json_string_value(json_array_get(s->custom, i)));
    bb_argv_replace(words, "{ranks}", ranks);
    if (s->with) {
        bb_argv_add(words, "%s", mpirun ? bb_mpirun() : s->with);
        bb_argv_add(words, "-n");
        bb_argv_add(words, "%s", ranks);
    }
    if (s->with && s->hosts) {
        bb_argv_add(words, "%s", mpirun ? bb_mpirun_hosts() : "--nodelist");
        bb_argv_add(words, "%s", s->hosts);
    }
    bb_argv_add_all(words, &s->arguments);
    bb_argv_add_all(words, &c->launch_arguments);
    for (size_t i = 0; mpirun && bb_mpirun_export() && i < c->environment.n; i++) {
        const char *variable = c->environment.word[i], *equals = strchr(variable, '=');

        if (!equals)
            continue;
        bb_argv_add(words, "%s", bb_mpirun_export());
        bb_argv_add(words, "%.*s", (int)(equals - variable), variable);
    }
}

/* Appends the words of the combination. {json} in the words of a program is the path of its result. */
static void add_program_words(const struct bb_launch_runs *s, const struct bb_sweep_run *c, struct bb_argv *words)
{
    char *path = bb_sweep_file(s->dir, c, ".json");
    struct bb_argv own = {0};

    bb_argv_add_all(&own, &c->words);
    if (c->writes_json)
        bb_argv_replace(&own, "{json}", path);
    bb_argv_add_all(words, &own);
    bb_argv_release(&own);
    free(path);
}

static bool has_launcher(const struct bb_launch_runs *s, const struct bb_sweep_run *c)
{
    return c->launched && !(s->with && strcmp(s->with, "none") == 0);
}

int bb_launch_runs_check(const struct bb_launch_runs *s, const struct bb_sweep_runs *combinations)
{
    for (size_t i = 0; i < combinations->n; i++) {
        const struct bb_sweep_run *c = &combinations->one[i];

        if (c->ranks > 1 && !has_launcher(s, c) && !(c->is_program && c->takes_ranks))
            return bb_err(BB_EUSAGE, "launcher none starts 1 rank, not %d; try: --launcher mpirun or --launcher srun",
                          c->ranks);
    }
    return 0;
}

struct bb_argv bb_launch_runs_argv(const struct bb_launch_runs *s, const struct bb_sweep_run *c, bool saves)
{
    struct bb_argv words = {0};

    if (has_launcher(s, c))
        add_launcher(s, c, &words);
    if (!c->is_program)
        bb_argv_add(&words, "%s", s->program);
    add_program_words(s, c, &words);
    if (saves && !c->is_program) {
        bb_argv_add(&words, "--json");
        bb_argv_add(&words, "%s/%s.json", s->dir, c->id);
    }
    return words;
}

/* ---- execution of a run ---- */

/* Opens the file ID + `ending` of a combination for stdout or stderr of the run; reports an error. The run inherits the
 * lock of the file (bb_sweep_await_previous). */
static int open_output(const char *dir, const struct bb_sweep_run *c, const char *ending)
{
    char *path = bb_sweep_file(dir, c, ending);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    if (fd < 0)
        bb_err(BB_EFAIL, "cannot write to %s: %s", path, strerror(errno));
    else
        (void)flock(fd, LOCK_EX | LOCK_NB);
    free(path);
    return fd;
}

/* Runs in the child process: starts a process group, sets the standard streams, the signal mask and the environment,
 * and executes the command. Does not return. */
static void exec_child(const struct bb_sweep_run *c, const struct bb_argv *words, int out, int err,
                       const sigset_t *mask, pid_t parent)
{
    int devnull = open("/dev/null", O_RDONLY | O_CLOEXEC);

    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        _exit(127);
    if (devnull < 0 || dup2(devnull, 0) < 0 || dup2(out, 1) < 0 || dup2(err, 2) < 0)
        _exit(127);
    sigprocmask(SIG_SETMASK, mask, NULL);
    for (size_t i = 0; i < c->environment.n; i++)
        if (strchr(c->environment.word[i], '='))
            putenv(c->environment.word[i]);
        else
            unsetenv(c->environment.word[i]);
    execvp(words->word[0], words->word);
    dprintf(2, "busbar: cannot start %s: %s\n", words->word[0], strerror(errno));
    _exit(127);
}

/*
 * Waits until the child process exits, which leads a process group of its own.
 *   limit_s  maximum duration of the run; 0: none
 *   signals  signals to receive with sigtimedwait(); the caller has blocked them
 *   ended    out: how the run ended
 */
static void wait_for_child(pid_t pid, double limit_s, const sigset_t *signals, void (*tick)(void *, double), void *arg,
                           struct bb_started *ended)
{
    const struct timespec fifth = {.tv_nsec = 200000000};
    const double start_s = bb_now_s();
    double kill_s = 0; /* time at which SIGKILL will be sent; 0 until SIGTERM is sent */
    bool out_of_time = false;
    int status = 0;

    while (waitpid(pid, &status, WNOHANG) == 0) {
        int signal_no = sigtimedwait(signals, NULL, &fifth);
        double now_s = bb_now_s();

        if (signal_no > 0 && signal_no != SIGCHLD)
            ended->stopped_by = signal_no;
        if (kill_s == 0 && !ended->stopped_by)
            out_of_time = limit_s > 0 && now_s - start_s > limit_s;
        if (kill_s == 0 && (ended->stopped_by || out_of_time)) {
            kill(-pid, SIGTERM);
            kill_s = now_s + TERM_S;
        }
        if (kill_s > 0 && now_s > kill_s)
            kill(-pid, SIGKILL);
        if (tick)
            tick(arg, now_s - start_s);
    }
    kill(-pid, SIGKILL); /* ends processes that the launcher left running */
    ended->exit_status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    if (out_of_time)
        ended->exit_status = 124;
}

static void block_signals(sigset_t *signals, sigset_t *before)
{
    static const int caught[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP};

    signal(SIGCHLD, SIG_DFL); /* if SIGCHLD were ignored (SIG_IGN), the kernel would reap the children and their exit
                                 status would be lost */
    sigemptyset(signals);
    for (size_t i = 0; i < sizeof(caught) / sizeof(caught[0]); i++) {
        struct sigaction now;

        /* signals that this process ignores, for example SIGHUP under nohup, stay ignored */
        if (sigaction(caught[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
            sigaddset(signals, caught[i]);
    }
    sigprocmask(SIG_BLOCK, signals, before);
}

int bb_launch_runs_run(const struct bb_launch_runs *s, const struct bb_sweep_run *c,
                       void (*tick)(void *arg, double seconds), void *arg, struct bb_started *ended)
{
    const double start_s = bb_now_s();
    int out_fd = open_output(s->dir, c, ".out"), err_fd = out_fd < 0 ? -1 : open_output(s->dir, c, ".err");
    int rc = err_fd < 0 ? -BB_EFAIL : 0;
    struct bb_argv words = bb_launch_runs_argv(s, c, true);
    sigset_t signals, before;
    pid_t parent = getpid(), pid;

    *ended = (struct bb_started){0};
    if (rc == 0) {
        block_signals(&signals, &before);
        pid = fork();
        if (pid == 0)
            exec_child(c, &words, out_fd, err_fd, &before, parent);
        /* the child calls setpgid(), too, so that the process group exists before either process needs it */
        if (pid > 0)
            setpgid(pid, pid);
        if (pid < 0)
            rc = bb_err(BB_EFAIL, "cannot start a process: %s", strerror(errno));
        else
            wait_for_child(pid, c->timeout_s, &signals, tick, arg, ended);
        sigprocmask(SIG_SETMASK, &before, NULL);
    }
    ended->seconds = bb_now_s() - start_s;
    bb_argv_release(&words);
    if (out_fd >= 0)
        close(out_fd);
    if (err_fd >= 0)
        close(err_fd);
    return rc;
}
