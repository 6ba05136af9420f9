/* test_neighbours.c - ranks of one host that are processes of this test: who is gone is seen, who is not there is named,
 * who is stopped is continued, who stays is killed. */
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

enum { PATIENCE_MS = 10000, STEP_MS = 10, LEAVE_MS = 300 };

static void be_rank(int rank, int size)
{
    char text[16];

    snprintf(text, sizeof(text), "%d", rank);
    setenv("OMPI_COMM_WORLD_RANK", text, 1);
    snprintf(text, sizeof(text), "%d", size);
    setenv("OMPI_COMM_WORLD_SIZE", text, 1);
    setenv("OMPI_COMM_WORLD_LOCAL_SIZE", text, 1);
}

/* A rank that is there until it is ended, or that ends by itself soon after it is continued. */
static pid_t start_rank(int rank, int size, bool stopped)
{
    int ready[2];
    char byte;
    pid_t pid;

    assert_int_equal(pipe(ready), 0);
    pid = fork();
    if (pid == 0) {
        static struct bb_neighbours all;

        be_rank(rank, size);
        bb_neighbours_begin(&all);
        if (write(ready[1], "", 1) != 1)
            _exit(9);
        if (stopped) {
            raise(SIGSTOP);
            poll(NULL, 0, LEAVE_MS);
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

static int status_of(pid_t pid)
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

static struct bb_neighbours own; /* names of this process's rank are given back by each test */

static void test_a_rank_that_is_gone(void **state)
{
    pid_t last, next;
    int more;

    (void)state;
    be_rank(1, 4);
    bb_neighbours_begin(&own);
    assert_int_equal(bb_neighbours_lost(&own), -1); /* it has not come yet */
    assert_int_equal(bb_neighbours_missing(&own, &more), 0);
    assert_int_equal(more, 2);
    next = start_rank(2, 4, false);
    last = start_rank(3, 4, false);
    assert_int_equal(bb_neighbours_lost(&own), -1);
    assert_int_equal(bb_neighbours_missing(&own, &more), 0);
    assert_int_equal(more, 0);
    kill(last, SIGKILL); /* none of this rank's business */
    assert_int_equal(status_of(last), -SIGKILL);
    assert_int_equal(bb_neighbours_lost(&own), -1);
    kill(next, SIGKILL);
    assert_int_equal(status_of(next), -SIGKILL);
    assert_int_equal(await_loss(&own), 2);
    assert_int_equal(bb_neighbours_missing(&own, &more), 0);
    assert_int_equal(more, 2);
    bb_neighbours_release(&own);
}

/* The last one's next is the first. One that is stopped ends by itself; of one that does not, the next is asked, too. */
static void test_ranks_that_stay(void **state)
{
    pid_t stopped, stuck;

    (void)state;
    stopped = start_rank(0, 3, true);
    assert_int_equal(waitpid(stopped, NULL, WUNTRACED), stopped);
    stuck = start_rank(1, 3, false);
    be_rank(2, 3);
    bb_neighbours_begin(&own);
    bb_neighbours_end(&own);
    assert_int_equal(status_of(stopped), 7);
    assert_int_equal(waitpid(stuck, NULL, WNOHANG), 0);
    be_rank(0, 2);
    bb_neighbours_begin(&own);
    bb_neighbours_end(&own);
    assert_int_equal(status_of(stuck), -SIGKILL);
}

static void be_slurm_rank(int rank, const char *ranks, const char *size)
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

/* While the main thread ends the next rank, which takes its time, the watchdog's thread, which looks at it ten times a
 * second, neither calls it again nor tells of its loss. */
static void test_the_watchdog_looks_away(void **state)
{
    struct bb_watchdog *watchdog;
    pid_t next = start_rank(1, 2, true);

    (void)state;
    assert_int_equal(waitpid(next, NULL, WUNTRACED), next);
    be_slurm_rank(0, "0,1", "2");
    assert_int_equal(bb_watchdog_start(&watchdog, 20), 0);
    bb_watchdog_see_neighbours(watchdog);
    for (int ms = 0; connection_of(watchdog) < 0 && ms < PATIENCE_MS; ms += STEP_MS)
        poll(NULL, 0, STEP_MS);
    assert_true(connection_of(watchdog) >= 0);
    bb_watchdog_end_neighbours(watchdog);
    assert_int_equal(connection_of(watchdog), -1);
    assert_int_equal(status_of(next), 7);
    assert_int_equal(bb_watchdog_ending(watchdog), 0);
    bb_watchdog_stop(watchdog);
    unsetenv("SLURM_PROCID");
    unsetenv("SLURM_GTIDS");
    unsetenv("SLURM_STEP_NUM_TASKS");
}

/* A rank that waits for another, and whose watchdog says that the next one is lost: with that the run ends. */
static pid_t start_watched_rank(int rank, int size)
{
    struct bb_watchdog *watchdog;
    pid_t pid = fork();

    if (pid != 0)
        return pid;
    be_rank(rank, size);
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

static void test_who_said_it_ends(void **state)
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
    assert_int_equal(status_of(next), -SIGKILL);
    assert_int_equal(status_of(watched), BB_ETIMEOUT);
    sigprocmask(SIG_UNBLOCK, &seen, NULL);
}

/* Where the launcher does not tell who is on this host, nobody is looked at. */
static void test_unknown_ranks(void **state)
{
    int more;

    (void)state;
    be_rank(0, 4);
    setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "2", 1);
    bb_neighbours_begin(&own);
    assert_int_equal(bb_neighbours_missing(&own, &more), -1);
    assert_int_equal(bb_neighbours_lost(&own), -1);
    bb_neighbours_end(&own);
    bb_neighbours_release(&own);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_rank_that_is_gone),     cmocka_unit_test(test_ranks_that_stay),
        cmocka_unit_test(test_the_watchdog_looks_away), cmocka_unit_test(test_who_said_it_ends),
        cmocka_unit_test(test_unknown_ranks),
    };
    char job[32];

    snprintf(job, sizeof(job), "neighbours-%ld", (long)getpid());
    setenv("PMIX_NAMESPACE", job, 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
