/* test_deadline.c - parts of a process's life before and after the watchdog's: each of these processes is a child of
 * this test, and what becomes of it and what it says is looked at. */
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

enum { WENT_ON = 77, LONG_S = 20 };
static const double SHORT_S = 0.05;

/* What a child does, and how it ends: its exit status, or less than 0 by a signal. */
typedef void deed(int arg);
struct end {
    int status;
    char text[512];
};

static struct end end_of(deed *fn, int arg)
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
        for (int number = 1; number < BB_SIGNALS_END; number++) /* of nohup, a shell's &, a sanitizer */
            signal(number, SIG_DFL);
        fn(arg);
        bb_exit_process(WENT_ON);
    }
    close(ends[1]);
    while (used + 1 < sizeof(end.text) && (n = read(ends[0], end.text + used, sizeof(end.text) - 1 - used)) > 0)
        used += (size_t)n;
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    end.status = WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
    return end;
}

static void expect(deed *fn, int arg, int status, const char *words)
{
    const struct end end = end_of(fn, arg);

    if (end.status != status || strcmp(end.text, words) != 0)
        fail_msg("%d: status %d, expected %d; said: %s", arg, end.status, status, end.text);
}

static void wait_s(double seconds)
{
    const struct timespec pause = {.tv_sec = (time_t)seconds,
                                   .tv_nsec = (long)(1e9 * (seconds - (double)(time_t)seconds))};

    nanosleep(&pause, NULL);
}

static void take_too_long(int signals)
{
    bb_deadline_begin("the loading", SHORT_S, signals);
    wait_s(LONG_S);
}

static void leave_too_slowly(int rc)
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

static void parts_have_their_time(void **state)
{
    (void)state;
    for (int signals = 0; signals < 2; signals++)
        expect(take_too_long, signals, BB_ETIMEOUT, "busbar: timeout: the loading did not end within 0.05 s\n");
    expect(leave_too_slowly, 0, 0, "busbar: timeout: the exit of the process did not end within 0.05 s\n");
    expect(leave_too_slowly, -BB_EDATA, BB_EDATA,
           "busbar: timeout: the exit of the process did not end within 0.05 s\n");
    expect(end_in_time, 50, WENT_ON, "");
}

/* As others send it, to the process. */
static void be_told(int signal)
{
    bb_deadline_begin("the loading", LONG_S, true);
    kill(getpid(), signal);
    wait_s(LONG_S);
}

static void be_told_on_the_way_out(int signal)
{
    bb_deadline_begin_exit(LONG_S, 0);
    kill(getpid(), signal);
    wait_s(LONG_S);
}

static void be_told_after_it(int signal)
{
    bb_deadline_begin("the loading", LONG_S, true);
    bb_deadline_end();
    kill(getpid(), signal);
    wait_s(LONG_S);
}

static void be_told_what_is_ignored(int number)
{
    signal(number, SIG_IGN);
    bb_deadline_begin("the loading", LONG_S, true);
    kill(getpid(), number);
    bb_deadline_end();
    kill(getpid(), number);
}

static void signals_are_said_before_a_run_alone(void **state)
{
    static const struct {
        int number;
        const char *words;
    } told[] = {{SIGTERM, "busbar: ended by SIGTERM; last seen: the loading\n"},
                {SIGINT, "busbar: ended by SIGINT; last seen: the loading\n"},
                {SIGHUP, "busbar: ended by SIGHUP; last seen: the loading\n"},
                {SIGUSR1, "busbar: ended by SIGUSR1; last seen: the loading\n"},
                {SIGUSR2, "busbar: ended by SIGUSR2; last seen: the loading\n"},
                {SIGQUIT, "busbar: ended by SIGQUIT; last seen: the loading\n"},
                {SIGXCPU, "busbar: ended by SIGXCPU; last seen: the loading\n"},
                {SIGALRM, "busbar: ended by SIGALRM; last seen: the loading\n"}};

    (void)state;
    for (size_t i = 0; i < ROWS(told); i++) {
        expect(be_told, told[i].number, BB_EFAIL, told[i].words);
        expect(be_told_after_it, told[i].number, -told[i].number, "");
        expect(be_told_what_is_ignored, told[i].number, told[i].number == SIGALRM ? BB_EFAIL : WENT_ON,
               told[i].number == SIGALRM ? told[i].words : "");
        if (told[i].number != SIGALRM) /* which is the timer's */
            expect(be_told_on_the_way_out, told[i].number, -told[i].number, "");
    }
    expect(be_told, SIGKILL, -SIGKILL, "");
}

static void crash(int number)
{
    bb_deadline_begin("the loading", LONG_S, true);
    raise(number);
}

static void crash_on_the_way_out(int number)
{
    bb_deadline_begin("the loading", LONG_S, true);
    bb_deadline_begin_exit(LONG_S, 0);
    raise(number);
}

static void crash_with_a_handler(int number)
{
    signal(number, SIG_IGN);
    bb_deadline_begin("the loading", LONG_S, true);
    raise(number);
}

static void crashes_are_said_and_end_it_as_such(void **state)
{
    static const struct {
        int number;
        const char *words;
    } crashes[] = {{SIGSEGV, "busbar: ended by SIGSEGV; last seen: the loading\n"},
                   {SIGBUS, "busbar: ended by SIGBUS; last seen: the loading\n"},
                   {SIGFPE, "busbar: ended by SIGFPE; last seen: the loading\n"},
                   {SIGILL, "busbar: ended by SIGILL; last seen: the loading\n"},
                   {SIGABRT, "busbar: ended by SIGABRT; last seen: the loading\n"},
                   {SIGSYS, "busbar: ended by SIGSYS; last seen: the loading\n"}};

    (void)state;
    for (size_t i = 0; i < ROWS(crashes); i++) {
        expect(crash, crashes[i].number, -crashes[i].number, crashes[i].words);
        expect(crash_on_the_way_out, crashes[i].number, -crashes[i].number, "");
        expect(crash_with_a_handler, crashes[i].number, WENT_ON, "");
    }
}

/* exit() or _exit() of a library; the latter is the program's own (busbar.c). */
static void be_left(int way)
{
    bb_deadline_begin("the loading", LONG_S, true);
    if (way)
        bb_exit_called(0);
    exit(0);
}

static void leave_in_order(int status)
{
    bb_deadline_begin("the loading", LONG_S, true);
    bb_deadline_begin_exit(LONG_S, 0);
    exit(status);
}

/* A library's own child has the handler, too. */
static void have_a_child(int status)
{
    int its = 0;
    pid_t child;

    bb_deadline_begin("the loading", LONG_S, true);
    child = fork();
    if (child == 0)
        exit(status);
    waitpid(child, &its, 0);
    bb_exit_process(WEXITSTATUS(its));
}

static void exits_of_others_are_said(void **state)
{
    (void)state;
    for (int way = 0; way < 2; way++)
        expect(be_left, way, BB_EFAIL, "busbar: ended by a library that called exit(); last seen: the loading\n");
    expect(leave_in_order, 3, 3, "");
    expect(have_a_child, 5, 5, "");
    assert_string_equal(bb_signal_name(BB_LAUNCHER_LOST), "the loss of its launcher");
}

int main(void)
{
    static const char *const launched[] = {
        "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS", "PMIX_RANK", "PMI_RANK", "PMI_ID", "RANK"};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_have_their_time), cmocka_unit_test(signals_are_said_before_a_run_alone),
        cmocka_unit_test(crashes_are_said_and_end_it_as_such), cmocka_unit_test(exits_of_others_are_said)};

    for (size_t i = 0; i < ROWS(launched); i++)
        unsetenv(launched[i]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
