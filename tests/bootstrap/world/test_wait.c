/*
 * test_wait.c - during host-clock timing a wait yields but does not sleep. The kernel counts a sleep as a voluntary
 * context switch, but not a yield.
 */
#include "bootstrap/base/clock.h"
#include "bootstrap/world/world.h"
#include "tests/check.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PATIENCE_S = 10 };

static long count_sleeps(void)
{
    struct rusage used;

    assert_int_equal(getrusage(RUSAGE_THREAD, &used), 0);
    return used.ru_nvcsw;
}

struct wait {
    double end_s;
    long before, required; /* number of sleeps: at the start, and required; on a busy machine the wait continues until
                           they are reached */
};

static int is_over(void *arg)
{
    const struct wait *wait = arg;
    double now_s = bb_now_s();

    return now_s >= wait->end_s &&
           (count_sleeps() - wait->before >= wait->required || now_s >= wait->end_s + PATIENCE_S);
}

/* Returns the number of sleeps during a wait of `ms` milliseconds. */
static long sleeps_in(struct bb_world *w, double ms, long required)
{
    struct wait wait = {bb_now_s() + 1e-3 * ms, count_sleeps(), required};

    assert_int_equal(bb_world_wait(w, "the end", is_over, &wait), 0);
    return count_sleeps() - wait.before;
}

static void wait_sleeps_except_during_host_timing(void **state)
{
    struct bb_world w;

    (void)state;
    assert_int_equal(bb_world_alone(&w, 30), 0);
    assert_true(sleeps_in(&w, 20, 5) >= 5);
    bb_world_prompt(&w, true);
    assert_true(sleeps_in(&w, 20, 0) <= 1);
    assert_true(sleeps_in(&w, 1200, 5) >= 5); /* a long wait sleeps eventually */
    bb_world_prompt(&w, false);
    assert_true(sleeps_in(&w, 20, 5) >= 5);
    w.local_size = 100000;
    bb_world_prompt(&w, true);
    assert_true(sleeps_in(&w, 20, 5) >= 5);
    assert_int_equal(bb_world_release(&w, 0), 0);
}

/* In a child process: waits for `seconds` with a timeout of 1.2 s. Returns the exit code. */
static int wait_with_a_timeout(double seconds)
{
    struct wait wait = {.end_s = bb_now_s() + seconds};
    struct bb_world w;

    if (!freopen("/dev/null", "w", stderr) || bb_world_alone(&w, 1.2))
        return 9;
    return bb_exit_code(bb_world_release(&w, bb_world_wait(&w, "the end", is_over, &wait)));
}

/* Time during which a scheduler suspends the job does not count towards the timeout; the rest of the timeout still
 * applies. */
static void suspended_time_does_not_count(void **state)
{
    const struct timespec running = {.tv_nsec = 200000000}, stopped = {.tv_sec = 1, .tv_nsec = 900000000};
    static const struct {
        double wait_s;
        int status;
    } rows[] = {{2.4, 0}, {20, BB_ETIMEOUT}};
    pid_t child[ROWS(rows)];
    int status = 1;

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++)
        if ((child[i] = fork()) == 0)
            _exit(wait_with_a_timeout(rows[i].wait_s));
    nanosleep(&running, NULL);
    for (size_t i = 0; i < ROWS(rows); i++)
        kill(child[i], SIGSTOP);
    nanosleep(&stopped, NULL);
    for (size_t i = 0; i < ROWS(rows); i++)
        kill(child[i], SIGCONT);
    for (size_t i = 0; i < ROWS(rows); i++) {
        assert_int_equal(waitpid(child[i], &status, 0), child[i]);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), rows[i].status);
    }
}

/* Without a supervisor (plan, tests) reports of progress have no effect. */
static void reports_need_no_supervisor(void **state)
{
    struct bb_world w = {0};

    (void)state;
    bb_world_reached(&w, "step %d", 1);
    bb_world_guard(&w, "a call");
    assert_int_equal(bb_world_guarded(&w, -BB_EDATA), -BB_EDATA);
    assert_int_equal(bb_world_ending(&w), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(wait_sleeps_except_during_host_timing),
                                       cmocka_unit_test(suspended_time_does_not_count),
                                       cmocka_unit_test(reports_need_no_supervisor)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
