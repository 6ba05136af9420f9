/*
 * test_deadline.c - deadlines, signals, crashes and unexpected exits in the phases before the watchdog starts and after
 * it stops. Each case runs in a child process; the test checks the child's exit status and output.
 */
#include "bootstrap/base/err.h"
#include "bootstrap/start/deadline.h"
#include "bootstrap/start/exit_guard.h"
#include "bootstrap/start/signals.h"
#include "tests/check.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CONTINUED = 77, LONG_S = 20 };
static const double SHORT_S = 0.05;

/* An action of a child process. Its end: exit status (negative: terminating signal) and stderr output. */
typedef void child_action(int arg);
struct end {
    int status;
    char text[512];
};

static struct end run_child(child_action *fn, int arg)
{
    const struct rlimit no_core = {0, 0};
    struct end end = {0};
    size_t used = 0;
    ssize_t n;
    int ends[2], status;
    pid_t child;

    assert_int_equal(pipe(ends), 0);
    fflush(stdout);
    child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        setrlimit(RLIMIT_CORE, &no_core);
        for (int number = 1; number < BB_SIGNALS_END; number++) /* undo SIG_IGN and handlers inherited from nohup, a
                                                                   background shell job or a sanitizer */
            signal(number, SIG_DFL);
        fn(arg);
        bb_exit_process(CONTINUED);
    }
    close(ends[1]);
    while (used + 1 < sizeof(end.text) && (n = read(ends[0], end.text + used, sizeof(end.text) - 1 - used)) > 0)
        used += (size_t)n;
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    end.status = WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
    return end;
}

static void expect(child_action *fn, int arg, int status, const char *output)
{
    const struct end end = run_child(fn, arg);

    if (end.status != status || strcmp(end.text, output) != 0)
        fail_msg("%d: status %d, expected %d; output: %s", arg, end.status, status, end.text);
}

static void wait_s(double seconds)
{
    const struct timespec pause = {.tv_sec = (time_t)seconds,
                                   .tv_nsec = (long)(1e9 * (seconds - (double)(time_t)seconds))};

    nanosleep(&pause, NULL);
}

static void exceed_the_deadline(int signals)
{
    bb_deadline_begin("the loading", SHORT_S, signals);
    wait_s(LONG_S);
}

static void exceed_the_exit_deadline(int rc)
{
    bb_deadline_begin_exit(SHORT_S, rc);
    wait_s(LONG_S);
}

static void end_in_time(int part_of_1000)
{
    bb_deadline_begin("the loading", 1e-3 * part_of_1000, true);
    bb_deadline_end();
    wait_s(2 * SHORT_S);
}

static void deadline_ends_a_slow_phase(void **state)
{
    (void)state;
    for (int signals = 0; signals < 2; signals++)
        expect(exceed_the_deadline, signals, BB_ETIMEOUT, "busbar: timeout: the loading did not end within 0.05 s\n");
    expect(exceed_the_exit_deadline, 0, 0, "busbar: timeout: the exit of the process did not end within 0.05 s\n");
    expect(exceed_the_exit_deadline, -BB_EDATA, BB_EDATA,
           "busbar: timeout: the exit of the process did not end within 0.05 s\n");
    expect(end_in_time, 50, CONTINUED, "");
}

/* The signal is sent to the process, as schedulers and terminals send it. */
static void receive_signal(int signal)
{
    bb_deadline_begin("the loading", LONG_S, true);
    kill(getpid(), signal);
    wait_s(LONG_S);
}

static void receive_signal_during_exit(int signal)
{
    bb_deadline_begin_exit(LONG_S, 0);
    kill(getpid(), signal);
    wait_s(LONG_S);
}

static void receive_signal_after_deadline(int signal)
{
    bb_deadline_begin("the loading", LONG_S, true);
    bb_deadline_end();
    kill(getpid(), signal);
    wait_s(LONG_S);
}

static void receive_ignored_signal(int number)
{
    signal(number, SIG_IGN);
    bb_deadline_begin("the loading", LONG_S, true);
    kill(getpid(), number);
    bb_deadline_end();
    kill(getpid(), number);
}

static void signals_are_reported_only_before_the_exit(void **state)
{
    static const struct {
        int number;
        const char *output;
    } handled[] = {{SIGTERM, "busbar: ended by SIGTERM; last seen: the loading\n"},
                   {SIGINT, "busbar: ended by SIGINT; last seen: the loading\n"},
                   {SIGHUP, "busbar: ended by SIGHUP; last seen: the loading\n"},
                   {SIGUSR1, "busbar: ended by SIGUSR1; last seen: the loading\n"},
                   {SIGUSR2, "busbar: ended by SIGUSR2; last seen: the loading\n"},
                   {SIGQUIT, "busbar: ended by SIGQUIT; last seen: the loading\n"},
                   {SIGXCPU, "busbar: ended by SIGXCPU; last seen: the loading\n"},
                   {SIGALRM, "busbar: ended by SIGALRM; last seen: the loading\n"}};

    (void)state;
    for (size_t i = 0; i < ROWS(handled); i++) {
        expect(receive_signal, handled[i].number, BB_EFAIL, handled[i].output);
        expect(receive_signal_after_deadline, handled[i].number, -handled[i].number, "");
        expect(receive_ignored_signal, handled[i].number, handled[i].number == SIGALRM ? BB_EFAIL : CONTINUED,
               handled[i].number == SIGALRM ? handled[i].output : "");
        if (handled[i].number != SIGALRM) /* SIGALRM belongs to the deadline's timer */
            expect(receive_signal_during_exit, handled[i].number, -handled[i].number, "");
    }
    expect(receive_signal, SIGKILL, -SIGKILL, "");
}

static void crash(int number)
{
    bb_deadline_begin("the loading", LONG_S, true);
    raise(number);
}

static void crash_during_exit(int number)
{
    bb_deadline_begin("the loading", LONG_S, true);
    bb_deadline_begin_exit(LONG_S, 0);
    raise(number);
}

static void crash_with_ignored_signal(int number)
{
    signal(number, SIG_IGN);
    bb_deadline_begin("the loading", LONG_S, true);
    raise(number);
}

static void crashes_are_reported_and_keep_their_signal(void **state)
{
    static const struct {
        int number;
        const char *output;
    } crashes[] = {{SIGSEGV, "busbar: ended by SIGSEGV; last seen: the loading\n"},
                   {SIGBUS, "busbar: ended by SIGBUS; last seen: the loading\n"},
                   {SIGFPE, "busbar: ended by SIGFPE; last seen: the loading\n"},
                   {SIGILL, "busbar: ended by SIGILL; last seen: the loading\n"},
                   {SIGABRT, "busbar: ended by SIGABRT; last seen: the loading\n"},
                   {SIGSYS, "busbar: ended by SIGSYS; last seen: the loading\n"}};

    (void)state;
    for (size_t i = 0; i < ROWS(crashes); i++) {
        expect(crash, crashes[i].number, -crashes[i].number, crashes[i].output);
        expect(crash_during_exit, crashes[i].number, -crashes[i].number, "");
        expect(crash_with_ignored_signal, crashes[i].number, CONTINUED, "");
    }
}

/* A library calls exit() (call 0) or _exit() (call 1). busbar.c replaces _exit(), which calls bb_exit_called(). */
static void exit_like_library(int call)
{
    bb_deadline_begin("the loading", LONG_S, true);
    if (call)
        bb_exit_called(0);
    exit(0);
}

static void exit_in_order(int status)
{
    bb_deadline_begin("the loading", LONG_S, true);
    bb_deadline_begin_exit(LONG_S, 0);
    exit(status);
}

/* A child process that a library forks inherits the exit handler. */
static void fork_child_of_library(int status)
{
    int child_status = 0;
    pid_t child;

    bb_deadline_begin("the loading", LONG_S, true);
    child = fork();
    if (child == 0)
        exit(status);
    waitpid(child, &child_status, 0);
    bb_exit_process(WEXITSTATUS(child_status));
}

static void exits_by_libraries_are_reported(void **state)
{
    (void)state;
    for (int call = 0; call < 2; call++)
        expect(exit_like_library, call, BB_EFAIL,
               "busbar: ended by a library that called exit(); last seen: the loading\n");
    expect(exit_in_order, 3, 3, "");
    expect(fork_child_of_library, 5, 5, "");
    assert_string_equal(bb_signal_name(BB_LAUNCHER_LOST), "the loss of its launcher");
}

int main(void)
{
    static const char *const launched[] = {
        "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS", "PMIX_RANK", "PMI_RANK", "PMI_ID", "RANK"};
    const struct CMUnitTest tests[] = {cmocka_unit_test(deadline_ends_a_slow_phase),
                                       cmocka_unit_test(signals_are_reported_only_before_the_exit),
                                       cmocka_unit_test(crashes_are_reported_and_keep_their_signal),
                                       cmocka_unit_test(exits_by_libraries_are_reported)};

    for (size_t i = 0; i < ROWS(launched); i++)
        unsetenv(launched[i]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
