/* test_speaker.c - one rank of a host has the word: the first of a job, whatever descriptors are open, for each job one. */
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
        snprintf(value, sizeof(value), "%s-%ld", values[i] ? values[i] : "", (long)getpid()); /* no other test's */
        if (values[i])
            setenv(names[i], value, 1);
        else
            unsetenv(names[i]);
    }
}

/* Every job once; of Slurm's, job and step make the name, and neither alone. */
static void a_word_for_each_job(void **state)
{
    static const struct {
        const char *space, *job, *step;
        bool free;
    } rows[] = {{"one", NULL, NULL, true}, {"one", NULL, NULL, false}, {"two", NULL, NULL, true},
                {"one", "7", "0", false},  {NULL, "7", "0", true},     {NULL, "7", "0", false},
                {NULL, "7", "1", true},    {NULL, "8", "1", true},     {NULL, "9", NULL, true},
                {NULL, NULL, "9", false},  {NULL, NULL, NULL, false}}; /* the last three: by the parent */
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
    assert_int_equal(bb_speaker_take(4), -1); /* somebody has it on for a moment */
}

/* Each run that mpiexec.hydra starts within a Slurm step is a job of its own, known by its launcher. */
static void jobs_of_one_step(void **state)
{
    (void)state;
    name_job(NULL, "10", "0");
    setenv("MPI_LOCALNRANKS", "2", 1);
    assert_true(bb_speaker_take_of(1000001, 4) >= 0);
    assert_true(bb_speaker_take_of(1000002, 4) >= 0);
    assert_int_equal(bb_speaker_take_of(1000001, 4), -1);
    unsetenv("MPI_LOCALNRANKS");
}

/* Descriptor 0 is as good as any: daemons and some launchers close their standard input. */
static void without_standard_input(void **state)
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

/* Who asks hears the exit code of the first, also when that one is gone; what is no code is none. */
static void what_others_hear(void **state)
{
    static const struct {
        int said, heard;
    } rows[] = {{1, 1}, {4, 4}, {5, 5}, {6, 0}, {0, 0}};
    char job[16];
    int fd, heard;

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        snprintf(job, sizeof(job), "heard-%zu", i);
        name_job(job, NULL, NULL);
        assert_int_equal(bb_speaker_heard(), 0);
        fd = bb_speaker_take(rows[i].said);
        assert_true(fd >= 0);
        assert_int_equal(bb_speaker_heard(), 0); /* not yet */
        bb_speaker_says(fd);
        close(fd);
        heard = bb_speaker_heard();
        for (int more = 0; more < 20 && heard != rows[i].heard; more++) /* a busy machine answers late */
            heard = bb_speaker_heard();
        assert_int_equal(heard, rows[i].heard);
        assert_int_equal(bb_speaker_take(3), -1);
    }
}

/* A launcher may kill a rank that has taken the word and not said anything: another one may. */
static void a_word_that_was_not_said(void **state)
{
    int fd;

    (void)state;
    name_job("unsaid", NULL, NULL);
    fd = bb_speaker_take(4);
    assert_true(fd >= 0);
    assert_int_equal(bb_speaker_take(4), -1);
    close(fd);
    for (int more = 0; more < 100 && (fd = bb_speaker_take(4)) < 0; more++)
        usleep(10000); /* until its keeper is gone, too */
    assert_true(fd >= 0);
    bb_speaker_says(fd);
    close(fd);
    assert_int_equal(bb_speaker_take(4), -1);
}

/* Once it hears a code, that is the exit status; 9: it hears none. */
static int ask_for_a_while(void)
{
    int heard = 0;

    for (int more = 0; more < 2000 && heard == 0; more++) {
        heard = bb_speaker_heard();
        usleep(1000);
    }
    return heard ? heard : 9;
}

enum { NO_OTHER_USER = 77 };

/* Where no process can be made (ulimit -u; root may make them all the same), who has the word tells those that ask. */
static void without_a_keeper(void **state)
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
            _exit(ask_for_a_while());
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

/* Nor does it answer for longer than it is to where it may open no more files, however many ask. */
static void without_files(void **state)
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
            _exit(ask_for_a_while());
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

static int n_asked;

static void ask_library(void)
{
    n_asked++;
}

/* A library that is stuck may hold the lock for which it has a fork() wait: nobody asks it. */
static void without_asking_libraries(void **state)
{
    int fd;

    (void)state;
    name_job("asked", NULL, NULL);
    assert_int_equal(pthread_atfork(ask_library, NULL, NULL), 0);
    fd = bb_speaker_take(4);
    assert_true(fd >= 0);
    bb_speaker_says(fd);
    assert_int_equal(bb_speaker_take(4), -1); /* it is kept by a process of its own */
    close(fd);
    assert_int_equal(n_asked, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_word_for_each_job),      cmocka_unit_test(without_standard_input),
        cmocka_unit_test(jobs_of_one_step),         cmocka_unit_test(what_others_hear),
        cmocka_unit_test(a_word_that_was_not_said), cmocka_unit_test(without_asking_libraries),
        cmocka_unit_test(without_a_keeper),         cmocka_unit_test(without_files),
    };

    const pid_t child = fork(); /* a parent of its own: beside other tests of ctest's the word may be taken */
    int status = 1;

    if (child == 0)
        return cmocka_run_group_tests(tests, NULL, NULL);
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
