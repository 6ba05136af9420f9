/*
 * test_neighbours.c - ranks of one host as processes of this test: a lost rank is noticed, a missing rank is named, a
 * stopped rank is continued at the end, and a rank that does not exit is killed.
 */
#include "bootstrap/start/neighbours.h"
#include "bootstrap/watchdog/watchdog_internal.h"
#include "tests/check.h"

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PATIENCE_MS = 10000, STEP_MS = 10, EXIT_MS = 300 };

static void set_rank(int rank, int size)
{
    char text[16];

    snprintf(text, sizeof(text), "%d", rank);
    setenv("OMPI_COMM_WORLD_RANK", text, 1);
    snprintf(text, sizeof(text), "%d", size);
    setenv("OMPI_COMM_WORLD_SIZE", text, 1);
    setenv("OMPI_COMM_WORLD_LOCAL_SIZE", text, 1);
}

/* Starts a rank that runs until it is killed (stopped false), or stops itself and exits soon after SIGCONT (true). */
static pid_t start_rank(int rank, int size, bool stopped)
{
    int ready[2];
    char byte;
    pid_t pid;

    assert_int_equal(pipe(ready), 0);
    pid = fork();
    if (pid == 0) {
        static struct bb_neighbours all;

        set_rank(rank, size);
        bb_neighbours_begin(&all);
        if (write(ready[1], "", 1) != 1)
            _exit(9);
        if (stopped) {
            raise(SIGSTOP);
            poll(NULL, 0, EXIT_MS);
            _exit(7);
        }
        for (;;)
            pause();
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return pid;
}

static int wait_status(pid_t pid)
{
    int status;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

static int await_loss(struct bb_neighbours *all)
{
    int lost = -1;

    for (int ms = 0; lost < 0 && ms < PATIENCE_MS; ms += STEP_MS) {
        poll(NULL, 0, STEP_MS);
        lost = bb_neighbours_lost(all);
    }
    return lost;
}

static struct bb_neighbours own; /* each test releases this process's name */

static void notices_a_lost_rank(void **state)
{
    pid_t last, next;
    int n_more;

    (void)state;
    set_rank(1, 4);
    bb_neighbours_begin(&own);
    assert_int_equal(bb_neighbours_lost(&own), -1); /* the next rank does not exist yet */
    assert_int_equal(bb_neighbours_missing(&own, &n_more), 0);
    assert_int_equal(n_more, 2);
    next = start_rank(2, 4, false);
    last = start_rank(3, 4, false);
    assert_int_equal(bb_neighbours_lost(&own), -1);
    assert_int_equal(bb_neighbours_missing(&own, &n_more), 0);
    assert_int_equal(n_more, 0);
    kill(last, SIGKILL); /* this rank monitors only the next rank */
    assert_int_equal(wait_status(last), -SIGKILL);
    assert_int_equal(bb_neighbours_lost(&own), -1);
    kill(next, SIGKILL);
    assert_int_equal(wait_status(next), -SIGKILL);
    assert_int_equal(await_loss(&own), 2);
    assert_int_equal(bb_neighbours_missing(&own, &n_more), 0);
    assert_int_equal(n_more, 2);
    bb_neighbours_release(&own);
}

/*
 * The ranks form a ring: the next of the last is the first. The teardown continues a stopped rank, which then exits,
 * and reaches the rank after it, too. A rank that does not exit is killed.
 */
static void continues_stopped_and_kills_stuck_ranks(void **state)
{
    pid_t stopped, stuck;

    (void)state;
    stopped = start_rank(0, 3, true);
    assert_int_equal(waitpid(stopped, NULL, WUNTRACED), stopped);
    stuck = start_rank(1, 3, false);
    set_rank(2, 3);
    bb_neighbours_begin(&own);
    bb_neighbours_end(&own);
    assert_int_equal(wait_status(stopped), 7);
    assert_int_equal(waitpid(stuck, NULL, WNOHANG), 0);
    set_rank(0, 2);
    bb_neighbours_begin(&own);
    bb_neighbours_end(&own);
    assert_int_equal(wait_status(stuck), -SIGKILL);
}

static void set_slurm_rank(int rank, const char *ranks, const char *size)
{
    char text[16];

    unsetenv("OMPI_COMM_WORLD_RANK");
    unsetenv("OMPI_COMM_WORLD_SIZE");
    unsetenv("OMPI_COMM_WORLD_LOCAL_SIZE");
    snprintf(text, sizeof(text), "%d", rank);
    setenv("SLURM_PROCID", text, 1);
    setenv("SLURM_GTIDS", ranks, 1);
    setenv("SLURM_STEP_NUM_TASKS", size, 1);
}

static int connection_of(struct bb_watchdog *watchdog)
{
    int fd;

    pthread_mutex_lock(&watchdog->lock);
    fd = watchdog->neighbours.next;
    pthread_mutex_unlock(&watchdog->lock);
    return fd;
}

/*
 * The main thread tears down the next rank, which takes a while. Meanwhile the watchdog's thread, which checks that
 * rank ten times a second, neither reconnects to it nor reports its loss.
 */
static void watchdog_ignores_ranks_during_teardown(void **state)
{
    struct bb_watchdog *watchdog;
    pid_t next = start_rank(1, 2, true);

    (void)state;
    assert_int_equal(waitpid(next, NULL, WUNTRACED), next);
    set_slurm_rank(0, "0,1", "2");
    assert_int_equal(bb_watchdog_start(&watchdog, 20), 0);
    bb_watchdog_see_neighbours(watchdog);
    for (int ms = 0; connection_of(watchdog) < 0 && ms < PATIENCE_MS; ms += STEP_MS)
        poll(NULL, 0, STEP_MS);
    assert_true(connection_of(watchdog) >= 0);
    bb_watchdog_end_neighbours(watchdog);
    assert_int_equal(connection_of(watchdog), -1);
    assert_int_equal(wait_status(next), 7);
    assert_int_equal(bb_watchdog_ending(watchdog), 0);
    bb_watchdog_stop(watchdog);
    unsetenv("SLURM_PROCID");
    unsetenv("SLURM_GTIDS");
    unsetenv("SLURM_STEP_NUM_TASKS");
}

/* Starts a rank that waits for another. When its watchdog reports the loss of the next rank, the process exits. */
static pid_t start_watched_rank(int rank, int size)
{
    struct bb_watchdog *watchdog;
    pid_t pid = fork();

    if (pid != 0)
        return pid;
    set_rank(rank, size);
    alarm(PATIENCE_MS / 1000);
    if (bb_watchdog_start(&watchdog, 20) != 0 || !freopen("/dev/null", "w", stderr))
        _exit(9);
    bb_watchdog_see_neighbours(watchdog);
    while (connection_of(watchdog) < 0)
        poll(NULL, 0, STEP_MS);
    kill(getppid(), SIGUSR1);
    for (;;)
        pause();
}

static void rank_exits_after_reporting_a_loss(void **state)
{
    sigset_t seen;
    pid_t next, watched;

    (void)state;
    sigemptyset(&seen);
    sigaddset(&seen, SIGUSR1);
    sigprocmask(SIG_BLOCK, &seen, NULL);
    next = start_rank(1, 2, false);
    watched = start_watched_rank(0, 2);
    assert_int_equal(sigwaitinfo(&seen, NULL), SIGUSR1);
    kill(next, SIGKILL);
    assert_int_equal(wait_status(next), -SIGKILL);
    assert_int_equal(wait_status(watched), BB_ETIMEOUT);
    sigprocmask(SIG_UNBLOCK, &seen, NULL);
}

/* If the launcher's variables do not define the ranks of this host, no rank is monitored. */
static void monitors_no_rank_of_an_unknown_host(void **state)
{
    int n_more;

    (void)state;
    set_rank(0, 4);
    setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "2", 1);
    bb_neighbours_begin(&own);
    assert_int_equal(bb_neighbours_missing(&own, &n_more), -1);
    assert_int_equal(bb_neighbours_lost(&own), -1);
    bb_neighbours_end(&own);
    bb_neighbours_release(&own);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(notices_a_lost_rank),
        cmocka_unit_test(continues_stopped_and_kills_stuck_ranks),
        cmocka_unit_test(watchdog_ignores_ranks_during_teardown),
        cmocka_unit_test(rank_exits_after_reporting_a_loss),
        cmocka_unit_test(monitors_no_rank_of_an_unknown_host),
    };
    char job[32];

    snprintf(job, sizeof(job), "neighbours-%ld", (long)getpid());
    setenv("PMIX_NAMESPACE", job, 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
