/*
 * test_supervise.c - a supervisor and its ranks, without MPI. This program is executed again as the supervisor and as
 * the rank: test_supervise MODE ARG RANKS TIMEOUT. The rank behaves as MODE describes.
 */
#include "bootstrap/base/clock.h"
#include "bootstrap/start/launcher.h"
#include "tests/bootstrap/probe_main.h"
#include "tests/check.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

enum { PATIENCE_S = 20, OUTPUT = 4096 };
static const double SHORT_S = 1; /* time limit of jobs that hang */

/* ---- the rank ---- */

struct rank {
    struct bb_supervised supervised;
    int arg, number, size;
    double timeout_s;
};

/* bytes: of the answer: those of an endpoint after bb_supervised_world, none after bb_supervised_join. */
static int await_answer(struct rank *r, size_t bytes)
{
    struct bb_star_endpoint endpoint;
    int rc;

    while ((rc = bb_supervised_answer(&r->supervised, &endpoint, bytes)) == 0)
        usleep(1000);
    return rc;
}

/* Waits until both ranks of the supervisor run, as ranks do when they exchange their hosts. */
static void meet_sibling(void)
{
    const char *text = getenv("BUSBAR_SIBLINGS");
    struct bb_siblings_memory *shared;
    int place, count, fd;

    if (!text || sscanf(text, "%d %d %d", &place, &count, &fd) != 3)
        return;
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (shared == MAP_FAILED)
        _exit(9);
    atomic_fetch_add(&shared->entered, 1);
    while (atomic_load(&shared->entered) < (unsigned)count)
        usleep(1000);
}

/* Connects to the supervisor, and through it to the other ranks, as bb_world_init does. */
static void join_job(struct rank *r)
{
    const struct bb_star_endpoint endpoints[BB_STAR_SERVERS] = {{.n = 0}};
    int node_of[2] = {0, 0};
    char hosts[2][BB_HOST_TEXT] = {"h", "h"};

    meet_sibling();
    if (!bb_supervised_open(&r->supervised, r->timeout_s) ||
        bb_supervised_world(&r->supervised, r->number, r->size, 1, node_of, hosts, (size_t)r->size * sizeof(*hosts)) ||
        await_answer(r, sizeof(*endpoints)) < 0 || bb_supervised_join(&r->supervised, endpoints) ||
        await_answer(r, 0) < 0)
        _exit(9);
    bb_supervised_reached(&r->supervised, "a step");
}

static int end_in_order(struct rank *r)
{
    return r->arg;
}

static int exit_like_library(struct rank *r)
{
    exit(r->arg);
}

static int die_by_signal(struct rank *r)
{
    (void)signal(r->arg, SIG_DFL); /* sanitizers handle crashes */
    raise(r->arg);
    return 9;
}

static int fail_with_error(struct rank *r)
{
    bb_err((enum bb_error)r->arg, "injected failure");
    bb_supervised_fail(&r->supervised, r->arg);
}

static int hang(struct rank *r)
{
    while (!r || r->size)
        pause();
    return 9;
}

static int hang_in_wait(struct rank *r)
{
    bb_supervised_waiting(&r->supervised, "a wait", true);
    return hang(r);
}

static int expire(struct rank *r)
{
    return -bb_supervised_expired(&r->supervised, "a wait");
}

/* Gives signs of life for twice the time limit. */
static int work(struct rank *r)
{
    for (int i = 0; i < 20; i++) {
        bb_supervised_moved(&r->supervised);
        usleep((useconds_t)(1e5 * r->timeout_s));
    }
    return 0;
}

static int signal_supervisor(struct rank *r)
{
    kill(getppid(), r->arg);
    return hang(r);
}

/* Is suspended for longer than the time limit. */
static int suspend(struct rank *r)
{
    const pid_t self = getpid();

    if (fork() == 0) {
        usleep((useconds_t)(2.5e6 * r->timeout_s));
        kill(self, SIGCONT);
        _exit(0);
    }
    raise(SIGSTOP);
    return 0;
}

static void die_at_exit(void)
{
    raise(SIGKILL);
}

static int die_after_end(struct rank *r)
{
    (void)r;
    return atexit(die_at_exit) ? 9 : 0;
}

static void hang_at_exit(void)
{
    (void)hang(NULL);
}

static int hang_after_end(struct rank *r)
{
    (void)r;
    return atexit(hang_at_exit) ? 9 : 0;
}

/* Starts a process in its own session, or one that has a child, and ends before them; they keep stderr open. */
static int leave_processes(struct rank *r)
{
    if (fork() == 0) {
        (void)setsid();
        if (r->arg < 0)
            (void)fork();
        alarm(2 * PATIENCE_S); /* no process is left if the test fails */
        (void)hang(NULL);
    }
    usleep(100000);
    return r->arg > 0 ? die_by_signal(r) : 0;
}

static int die_as_rank_1(struct rank *r)
{
    return r->number == 1 ? die_by_signal(r) : hang(r);
}

static int fail_as_rank_1(struct rank *r)
{
    return r->number == 1 ? r->arg : 0;
}

/* Sends a request that does not exist, and one with too few bytes. */
static int send_invalid_requests(struct rank *r)
{
    if (bb_rank_send(r->supervised.socket.fd, (enum bb_rank_request)99, 0, "?", 1) ||
        bb_rank_send(r->supervised.socket.fd, BB_RANK_TIMEOUT, 0, "?", 1))
        return 9;
    return 0;
}

static const struct mode {
    const char *name;
    int (*run)(struct rank *r);
} modes[] = {{"end", end_in_order},
             {"exit", exit_like_library},
             {"die", die_by_signal},
             {"fail", fail_with_error},
             {"hang", hang},
             {"wait", hang_in_wait},
             {"expire", expire},
             {"work", work},
             {"signal", signal_supervisor},
             {"nohup", signal_supervisor},
             {"suspend", suspend},
             {"delayed-start", end_in_order},
             {"late-death", die_after_end},
             {"late-hang", hang_after_end},
             {"leave", leave_processes},
             {"die-1", die_as_rank_1},
             {"fail-1", fail_as_rank_1},
             {"invalid", send_invalid_requests},
             {"loud", end_in_order}};

/* Behaviour before main(), as of a program whose libraries are loaded. */
__attribute__((constructor)) static void load(int argc, char **argv)
{
    const char *mode = argc > 2 && getenv("BUSBAR_RANK") ? argv[2] : "";

    if (strcmp(mode, "loud") == 0)
        fprintf(stderr, "text of a library\n");
    if (strcmp(mode, "no-library") == 0) {
        fprintf(stderr,
                "%s: error while loading shared libraries: libnccl.so.2: cannot open shared object file: "
                "No such file or directory\n",
                argv[0]);
        _exit(127);
    }
    if (strcmp(mode, "delayed-start") == 0)
        sleep(3);
    if (strcmp(mode, "slow-library") == 0)
        (void)hang(NULL);
}

/* Delays the supervisor after it has started the rank, for longer than a normal iteration of its loop. */
static void delay_supervisor(void)
{
    sleep(2);
}

/* Modes that end before the rank is connected. */
static void act_early(const char *mode, struct rank *r)
{
    if (strcmp(mode, "early-die") == 0 && (r->arg < 0 || r->number == r->arg))
        raise(SIGKILL);
    if (strcmp(mode, "early-exit") == 0 && r->number == 1) {
        bb_err(BB_EDATA, "injected failure");
        bb_supervised_exit(BB_EDATA);
    }
    if (strncmp(mode, "early", 5) == 0)
        (void)hang(r);
}

static int run_rank(int argc, char **argv)
{
    struct rank r = {.arg = atoi(argv[2]), .number = bb_launcher_rank(), .size = atoi(argv[3])};
    int code = 9;

    (void)argc;
    r.timeout_s = atof(argv[4]);
    act_early(argv[1], &r);
    join_job(&r);
    for (size_t i = 0; i < ROWS(modes); i++)
        if (strcmp(modes[i].name, argv[1]) == 0)
            code = modes[i].run(&r);
    bb_supervised_close(&r.supervised);
    return code;
}

static int run_as_supervisor(int argc, char **argv)
{
    const struct rlimit no_core = {0, 0};
    struct bb_rank_program absent = {.command = "probe", .entry = "probe", .path = "/nonexistent/busbar-rank"};

    setrlimit(RLIMIT_CORE, &no_core);
    if (strcmp(argv[1], "nohup") == 0)
        (void)signal(SIGHUP, SIG_IGN);
    if (strcmp(argv[1], "delayed-start") == 0)
        pthread_atfork(NULL, delay_supervisor, NULL);
    if (strcmp(argv[1], "no-program") == 0)
        return bb_exit_code(bb_supervise_program(&absent, 5, 1));
    return supervise_self(argc, argv, atof(argv[4]), atoi(argv[3]));
}

/* ---- jobs ---- */

struct job {
    int status[4]; /* exit status of each supervisor; negative: signal */
    char text[OUTPUT];
    double took_s;
};

/* Starts a supervisor. rank: as a launcher of n supervisors sets it; -1: without a launcher. */
static pid_t start_supervisor(int rank, int n, const char *mode, int arg, int ranks, double timeout_s, int output)
{
    char texts[5][16];
    pid_t pid = fork();

    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    snprintf(texts[0], sizeof(texts[0]), "%d", arg);
    snprintf(texts[1], sizeof(texts[1]), "%d", ranks);
    snprintf(texts[2], sizeof(texts[2]), "%g", timeout_s);
    snprintf(texts[3], sizeof(texts[3]), "%d", rank);
    snprintf(texts[4], sizeof(texts[4]), "%d", n);
    if (rank >= 0) {
        setenv("OMPI_COMM_WORLD_RANK", texts[3], 1);
        setenv("OMPI_COMM_WORLD_SIZE", texts[4], 1);
    }
    execl("/proc/self/exe", "probe", mode, texts[0], texts[1], texts[2], (char *)NULL);
    _exit(127);
}

/* Reads until every process of the job has closed its output, for at most PATIENCE_S. */
static void read_output(struct job *job, int fd)
{
    const double end_s = bb_now_s() + PATIENCE_S;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    size_t used = 0;
    ssize_t n = 1;

    while (n > 0 && used + 1 < OUTPUT && bb_now_s() < end_s)
        if (poll(&p, 1, 100) > 0 && (n = read(fd, job->text + used, OUTPUT - 1 - used)) > 0)
            used += (size_t)n;
    if (n > 0)
        print_message("  processes are left\n");
    job->text[used] = '\0';
}

/* Replaces the name of this host by "h". */
static void shorten_host(char *text)
{
    char host[BB_HOST_TEXT + 2] = "(", *at;

    assert_int_equal(gethostname(host + 1, BB_HOST_TEXT), 0);
    strcat(host, ")");
    while ((at = strstr(text, host)) && strcmp(host, "(h)") != 0) {
        memmove(at + 3, at + strlen(host), strlen(at + strlen(host)) + 1);
        memcpy(at, "(h)", 3);
    }
}

/* Runs a job of n supervisors; n 0: one supervisor without a launcher. */
static struct job run_job(int n, const char *mode, int arg, int ranks, double timeout_s)
{
    struct job job = {.status = {0}};
    const double start_s = bb_now_s();
    pid_t pids[ROWS(job.status)];
    int ends[2];

    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    for (int i = 0; i < (n ? n : 1); i++)
        pids[i] = start_supervisor(n ? i : -1, n, mode, arg, ranks, timeout_s, ends[1]);
    close(ends[1]);
    read_output(&job, ends[0]);
    close(ends[0]);
    shorten_host(job.text);
    job.took_s = bb_now_s() - start_s;
    for (int i = 0; i < (n ? n : 1); i++) {
        int status;

        kill(pids[i], job.took_s >= PATIENCE_S ? SIGKILL : 0);
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        job.status[i] = WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
    }
    return job;
}

struct row {
    const char *mode;
    int arg, ranks, status;
    const char *text; /* complete output */
    double timeout_s; /* 0: PATIENCE_S */
};

static void run_rows(const struct row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct row *row = &rows[i];
        const struct job job = run_job(0, row->mode, row->arg, row->ranks ? row->ranks : 1,
                                       row->timeout_s > 0 ? row->timeout_s : PATIENCE_S);
        const double limit_s = row->timeout_s > 0 ? 2 * row->timeout_s + 2 : 3;

        if (job.status[0] != row->status || strcmp(job.text, row->text) != 0 || job.took_s > limit_s)
            fail_msg("%s %d: status %d, expected %d; %g s; output:\n%s", row->mode, row->arg, job.status[0],
                     row->status, job.took_s, job.text);
    }
}

#define SEEN    "; last seen: a step"
#define LIBRARY "busbar: ended by a library that called exit()" SEEN "\n"

static void passes_the_end_of_the_rank_on(void **state)
{
    static const struct row rows[] = {
        {"end", 0, 1, 0, "", 0},
        {"end", 3, 1, 3, "", 0},
        {"end", 0, 2, 0, "", 0},
        {"fail-1", 5, 2, 5, "", 0},
        {"fail", 3, 1, 3, "busbar: injected failure\n", 0},
        {"exit", 0, 1, 1, LIBRARY, 0},
        {"exit", 7, 1, 1, LIBRARY, 0},
        {"die", SIGKILL, 1, 4, "busbar: rank 0 (h) is lost" SEEN "; killed by SIGKILL\n", 0},
        {"die", SIGSEGV, 1, 4, "busbar: rank 0 (h) is lost" SEEN "; killed by SIGSEGV\n", 0},
        {"die", SIGABRT, 1, 4, "busbar: rank 0 (h) is lost" SEEN "; killed by SIGABRT\n", 0},
        {"die", SIGUSR1, 1, 1, "busbar: ended by SIGUSR1" SEEN "\n", 0},
        {"late-death", 0, 1, 0,
         "busbar: warning: rank 0 (h) was killed by SIGKILL while it exited; its results are complete\n", 0},
        {"loud", 0, 1, 0, "text of a library\n", 0},
        {"invalid", 0, 1, 0, "", 0},
    };

    (void)state;
    run_rows(rows, ROWS(rows));
}

/* The other rank ignores the end of the job and is killed. */
static void kills_the_other_ranks(void **state)
{
    static const struct row rows[] = {
        {"die-1", SIGKILL, 2, 4, "busbar: rank 1 (h) is lost" SEEN "; killed by SIGKILL\n", 0},
        {"die-1", SIGSEGV, 2, 4, "busbar: rank 1 (h) is lost" SEEN "; killed by SIGSEGV\n", 0},
    };

    (void)state;
    run_rows(rows, ROWS(rows));
}

static void reports_a_rank_without_sign_of_life(void **state)
{
    static const struct row rows[] = {
        {"hang", 0, 1, 4, "busbar: timeout: a step did not end within 1 s\n", SHORT_S},
        {"wait", 0, 1, 4, "busbar: timeout in a step: a wait did not end within 1 s\n", SHORT_S},
        {"expire", 0, 1, 4, "busbar: timeout in a step: a wait did not end within 1 s\n", SHORT_S},
        {"slow-library", 0, 1, 4, "busbar: timeout: loading the GPU libraries did not end within 1 s\n", SHORT_S},
        {"late-hang", 0, 1, 0, "busbar: timeout: rank 0 (h) has finished but did not exit within 1 s\n", SHORT_S},
        {"work", 0, 1, 0, "", SHORT_S},
    };

    (void)state;
    run_rows(rows, ROWS(rows));
}

/* The time limit does not run while the rank is stopped. */
static void suspended_rank_does_not_hang(void **state)
{
    const struct job job = run_job(0, "suspend", 0, 1, SHORT_S);

    (void)state;
    assert_string_equal(job.text, "");
    assert_int_equal(job.status[0], 0);
    assert_true(job.took_s > 2 * SHORT_S);
}

/* On a loaded machine the supervisor may be delayed before it looks at the rank for the first time. */
static void delayed_supervisor_sees_no_hang(void **state)
{
    const struct job job = run_job(0, "delayed-start", 0, 1, 60);

    (void)state;
    assert_string_equal(job.text, "");
    assert_int_equal(job.status[0], 0);
}

static void ends_the_job_after_a_signal(void **state)
{
    static const struct row rows[] = {
        {"signal", SIGTERM, 1, 1, "busbar: ended by SIGTERM" SEEN "\n", 0},
        {"signal", SIGINT, 1, 1, "busbar: ended by SIGINT" SEEN "\n", 0},
        {"signal", SIGHUP, 1, 1, "busbar: ended by SIGHUP" SEEN "\n", 0},
        {"signal", SIGUSR2, 1, 1, "busbar: ended by SIGUSR2" SEEN "\n", 0},
        {"signal", SIGKILL, 1, -SIGKILL, "", 0}, /* the kernel kills the rank, too */
        {"nohup", SIGHUP, 1, 4, "busbar: timeout: a step did not end within 1 s\n", SHORT_S},
    };

    (void)state;
    run_rows(rows, ROWS(rows));
}

static void reports_missing_programs_and_libraries(void **state)
{
    static const struct row rows[] = {
        {"no-library", 0, 1, 1,
         "busbar: probe needs libnccl.so.2, which is not found; install NCCL (NVIDIA's package libnccl2, or the Python "
         "wheel nvidia-nccl-cu12 or -cu13), or add its folder to LD_LIBRARY_PATH; sh bootstrap/setup.sh installs all "
         "dependencies\n",
         0},
        {"no-program", 0, 1, 1,
         "busbar: probe needs busbar's program busbar-rank, which cannot be loaded: /nonexistent/busbar-rank: No such "
         "file or directory\n",
         0},
    };

    (void)state;
    run_rows(rows, ROWS(rows));
}

/* The end of the job's output shows that no process is left. */
static void kills_processes_that_a_rank_leaves(void **state)
{
    static const struct row rows[] = {
        {"leave", 0, 1, 0, "", 0},
        {"leave", -1, 1, 0, "", 0},
        {"leave", SIGKILL, 1, 4, "busbar: rank 0 (h) is lost" SEEN "; killed by SIGKILL\n", 0},
    };

    (void)state;
    run_rows(rows, ROWS(rows));
}

/* Supervisors of one host that are not connected yet print one line together, and end with the same code. */
static void supervisors_of_a_host_print_one_line(void **state)
{
    static const struct {
        const char *mode;
        int arg, status;
        const char *text; /* part of the line */
    } rows[] = {{"early-die", 1, 4, "busbar: rank 1 ("},
                {"early-die", -1, 4, ") is lost; last seen: "},
                {"early-exit", 0, 3, "injected failure\n"}};

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        const struct job job = run_job(3, rows[i].mode, rows[i].arg, 1, PATIENCE_S);
        const char *end = strchr(job.text, '\n');

        if (!strstr(job.text, rows[i].text) || !end || end[1] != '\0')
            fail_msg("row %zu: output:\n%s", i, job.text);
        for (int r = 0; r < 3; r++)
            assert_int_equal(job.status[r], rows[i].status);
        assert_true(job.took_s < 4);
    }
}

int main(int argc, char **argv)
{
    static const char *const launched[] = {"OMPI_COMM_WORLD_SIZE",
                                           "OMPI_COMM_WORLD_RANK",
                                           "PMI_SIZE",
                                           "SLURM_STEP_NUM_TASKS",
                                           "PMIX_RANK",
                                           "PMI_RANK",
                                           "PMI_ID",
                                           "RANK"};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(passes_the_end_of_the_rank_on),          cmocka_unit_test(kills_the_other_ranks),
        cmocka_unit_test(reports_a_rank_without_sign_of_life),    cmocka_unit_test(suspended_rank_does_not_hang),
        cmocka_unit_test(delayed_supervisor_sees_no_hang),        cmocka_unit_test(ends_the_job_after_a_signal),
        cmocka_unit_test(reports_missing_programs_and_libraries), cmocka_unit_test(kills_processes_that_a_rank_leaves),
        cmocka_unit_test(supervisors_of_a_host_print_one_line),
    };

    if (getenv("BUSBAR_RANK"))
        return probe_main(argc, argv, 1, run_rank);
    if (argc > 4)
        return run_as_supervisor(argc, argv);
    for (size_t i = 0; i < ROWS(launched); i++)
        unsetenv(launched[i]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
