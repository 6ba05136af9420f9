/*
 * test_speaker.c - the error reporter: on each host the first failing rank of a job claims the right to print, whatever
 * descriptors are open; each job has its own claim.
 */
#include "bootstrap/start/speaker.h"
#include "tests/check.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static void name_job(const char *space, const char *job, const char *step)
{
    const char *const names[] = {"PMIX_NAMESPACE", "SLURM_JOB_ID", "SLURM_STEP_ID"}, *const values[] = {space, job,
                                                                                                        step};
    char value[64];

    for (int i = 0; i < 3; i++) {
        /* unique to this test process */
        snprintf(value, sizeof(value), "%s-%ld", values[i] ? values[i] : "", (long)getpid());
        if (values[i])
            setenv(names[i], value, 1);
        else
            unsetenv(names[i]);
    }
}

/* Each job has one claim. The name of a Slurm job consists of job id and step id; neither is sufficient alone. */
static void one_reporter_per_job(void **state)
{
    static const struct {
        const char *space, *job, *step;
        bool free;
    } rows[] = {{"one", NULL, NULL, true}, {"one", NULL, NULL, false}, {"two", NULL, NULL, true},
                {"one", "7", "0", false},  {NULL, "7", "0", true},     {NULL, "7", "0", false},
                {NULL, "7", "1", true},    {NULL, "8", "1", true},     {NULL, "9", NULL, true},
                {NULL, NULL, "9", false},  {NULL, NULL, NULL, false}}; /* the last three rows: without a job name the
                                                                          parent process identifies the job */
    int fds[ROWS(rows)];

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        print_message("  row %zu\n", i);
        name_job(rows[i].space, rows[i].job, rows[i].step);
        fds[i] = bb_speaker_take(4);
        assert_int_equal(fds[i] >= 0, rows[i].free);
        bb_speaker_says(fds[i]);
    }
    for (size_t i = 0; i < ROWS(rows); i++)
        if (fds[i] >= 0)
            close(fds[i]);
    name_job("one", NULL, NULL);
    assert_int_equal(bb_speaker_take(4), -1); /* the helper process holds the claim a moment longer */
}

/* Each run that mpiexec.hydra starts within a Slurm step is a separate job, identified by its launcher's process. */
static void hydra_runs_of_one_slurm_step_are_separate_jobs(void **state)
{
    (void)state;
    name_job(NULL, "10", "0");
    setenv("MPI_LOCALNRANKS", "2", 1);
    assert_true(bb_speaker_take_of(1000001, 4) >= 0);
    assert_true(bb_speaker_take_of(1000002, 4) >= 0);
    assert_int_equal(bb_speaker_take_of(1000001, 4), -1);
    unsetenv("MPI_LOCALNRANKS");
}

/* Descriptor 0 is a valid socket: daemons and some launchers close standard input. */
static void works_without_standard_input(void **state)
{
    int saved = dup(STDIN_FILENO), first, second;

    (void)state;
    name_job("closed", NULL, NULL);
    close(STDIN_FILENO);
    first = bb_speaker_take(4);
    second = bb_speaker_take(4);
    close(first);
    if (saved >= 0)
        dup2(saved, STDIN_FILENO);
    assert_true(first >= 0);
    assert_int_equal(second, -1);
}

/*
 * A rank that asks receives the exit code of the reporter, also after the reporter has exited. A value outside the exit
 * codes is received as 0.
 */
static void other_ranks_receive_the_exit_code(void **state)
{
    static const struct {
        int sent, received;
    } rows[] = {{1, 1}, {4, 4}, {5, 5}, {6, 0}, {0, 0}};
    char job[16];
    int fd, received;

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        snprintf(job, sizeof(job), "code-%zu", i);
        name_job(job, NULL, NULL);
        assert_int_equal(bb_speaker_heard(), 0);
        fd = bb_speaker_take(rows[i].sent);
        assert_true(fd >= 0);
        assert_int_equal(bb_speaker_heard(), 0); /* the error is not printed yet */
        bb_speaker_says(fd);
        close(fd);
        received = bb_speaker_heard();
        for (int attempt = 0; attempt < 20 && received != rows[i].received; attempt++) /* a busy machine answers late */
            received = bb_speaker_heard();
        assert_int_equal(received, rows[i].received);
        assert_int_equal(bb_speaker_take(3), -1);
    }
}

/* A launcher may kill a rank between claim and output; then another rank can claim. */
static void claim_is_released_if_the_reporter_dies_before_printing(void **state)
{
    int fd;

    (void)state;
    name_job("unsaid", NULL, NULL);
    fd = bb_speaker_take(4);
    assert_true(fd >= 0);
    assert_int_equal(bb_speaker_take(4), -1);
    close(fd);
    for (int attempt = 0; attempt < 100 && (fd = bb_speaker_take(4)) < 0; attempt++)
        usleep(10000); /* until the helper process has exited, too */
    assert_true(fd >= 0);
    bb_speaker_says(fd);
    close(fd);
    assert_int_equal(bb_speaker_take(4), -1);
}

/* Exits with the code received from the reporter; 9: none was received. */
static int poll_for_exit_code(void)
{
    int received = 0;

    for (int attempt = 0; attempt < 2000 && received == 0; attempt++) {
        received = bb_speaker_heard();
        usleep(1000);
    }
    return received ? received : 9;
}

enum { NO_OTHER_USER = 77 };

/*
 * If fork() fails (ulimit -u; root is exempt from this limit) there is no helper process, and the reporter itself
 * answers the ranks that ask.
 */
static void reporter_answers_without_a_helper_process(void **state)
{
    const struct rlimit none = {0, 0};
    pid_t speaker, asker;
    int status;

    (void)state;
    name_job("no-keeper", NULL, NULL);
    speaker = fork();
    if (speaker == 0) {
        int fd;

        if (getuid() == 0 && setuid(65534))
            _exit(NO_OTHER_USER);
        asker = fork();
        if (asker == 0)
            _exit(poll_for_exit_code());
        setrlimit(RLIMIT_NPROC, &none);
        fd = bb_speaker_take(5);
        bb_speaker_says(fd);
        while (waitpid(asker, &status, WNOHANG) == 0)
            if (!bb_speaker_answer(fd, 5, 10))
                _exit(8);
        _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 7);
    }
    assert_int_equal(waitpid(speaker, &status, 0), speaker);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == NO_OTHER_USER)
        skip();
    assert_int_equal(WEXITSTATUS(status), 5);
}

/* If accept() fails with EMFILE, bb_speaker_answer still returns in time, however many ranks ask. */
static void answering_ends_in_time_after_emfile(void **state)
{
    pid_t speaker;
    int status;

    (void)state;
    name_job("no-files", NULL, NULL);
    speaker = fork();
    if (speaker == 0) {
        const pid_t asker = fork();
        const int next = asker == 0 ? -1 : dup(STDERR_FILENO);
        const struct rlimit one_more = {(rlim_t)next + 1, (rlim_t)next + 1};
        int fd;

        if (asker == 0)
            _exit(poll_for_exit_code());
        alarm(5);
        close(next);
        setrlimit(RLIMIT_NOFILE, &one_more);
        fd = bb_speaker_take(5);
        status = bb_speaker_answer(fd, 5, 200) ? 0 : 8;
        kill(asker, SIGKILL);
        waitpid(asker, NULL, 0);
        _exit(status);
    }
    assert_int_equal(waitpid(speaker, &status, 0), speaker);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static int n_fork_handlers;

static void count_fork_handler(void)
{
    n_fork_handlers++;
}

/* A blocked library may hold a lock that its pthread_atfork handler takes, so the helper starts without these
 * handlers. */
static void helper_starts_without_fork_handlers(void **state)
{
    int fd;

    (void)state;
    name_job("asked", NULL, NULL);
    assert_int_equal(pthread_atfork(count_fork_handler, NULL, NULL), 0);
    fd = bb_speaker_take(4);
    assert_true(fd >= 0);
    bb_speaker_says(fd);
    assert_int_equal(bb_speaker_take(4), -1); /* the helper process holds the claim */
    close(fd);
    assert_int_equal(n_fork_handlers, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_reporter_per_job),
        cmocka_unit_test(works_without_standard_input),
        cmocka_unit_test(hydra_runs_of_one_slurm_step_are_separate_jobs),
        cmocka_unit_test(other_ranks_receive_the_exit_code),
        cmocka_unit_test(claim_is_released_if_the_reporter_dies_before_printing),
        cmocka_unit_test(helper_starts_without_fork_handlers),
        cmocka_unit_test(reporter_answers_without_a_helper_process),
        cmocka_unit_test(answering_ends_in_time_after_emfile),
    };

    const pid_t child = fork(); /* a separate parent process, because other tests of ctest may hold the claim of
                                   ctest's children */
    int status = 1;

    if (child == 0)
        return cmocka_run_group_tests(tests, NULL, NULL);
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
