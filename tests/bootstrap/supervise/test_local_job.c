/* test_local_job.c - signals between the supervisors of one host. The supervisors are children of this process. */
#include "bootstrap/supervise/local_job.h"
#include "tests/check.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NOBODY = 65534, PATIENCE_MS = 5000, NOTHING = 9 };

/* How a process differs from a supervisor of the job. */
enum difference { NONE, OTHER_USER, NOT_BLOCKED, OTHER_PROGRAM };

struct process {
    pid_t pid;
    int commands, results; /* pipes to and from the process */
};

struct answer {
    int valid, kind, value;
};

/* Runs a supervisor: each byte of `commands` is a command. 't': send ENDED with code 4 to the others; 'c': count the
 * supervisors; 'r': wait for a signal and write its meaning to `results`; 'p': the same without waiting; 'q': exit. */
static void run_supervisor(int commands, int results)
{
    sigset_t ours;
    int fd;
    char command;

    sigemptyset(&ours);
    sigaddset(&ours, bb_local_signal());
    fd = signalfd(-1, &ours, SFD_CLOEXEC);
    while (read(commands, &command, 1) == 1 && command != 'q') {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        struct answer answer = {.valid = NOTHING};
        struct signalfd_siginfo info;
        enum bb_local_kind kind = 0;

        if (command == 't')
            (void)bb_local_tell(getppid(), BB_LOCAL_ENDED, 4);
        else if (command == 'c')
            answer.value = 1 + bb_local_tell(getppid(), BB_LOCAL_NOTHING, 0);
        else if (poll(&p, 1, command == 'r' ? PATIENCE_MS : 0) > 0 && read(fd, &info, sizeof(info)) == sizeof(info))
            answer.valid = bb_local_read(&info, &kind, &answer.value);
        answer.kind = (int)kind;
        if (write(results, &answer, sizeof(answer)) != sizeof(answer))
            break;
    }
    _exit(0);
}

static struct process start_process(enum difference difference)
{
    int commands[2], results[2];
    struct answer ready = {0};
    sigset_t ours;
    pid_t pid;

    assert_int_equal(pipe(commands), 0);
    assert_int_equal(pipe(results), 0);
    if ((pid = fork()) == 0) {
        close(commands[1]);
        close(results[0]);
        sigemptyset(&ours);
        sigaddset(&ours, bb_local_signal());
        sigprocmask(difference == NOT_BLOCKED ? SIG_UNBLOCK : SIG_BLOCK, &ours, NULL);
        if ((difference == OTHER_USER && setuid(NOBODY)) || write(results[1], &ready, sizeof(ready)) < 0)
            _exit(NOTHING);
        if (difference == OTHER_PROGRAM) {
            dup2(commands[0], STDIN_FILENO);
            execlp("sh", "sh", "-c", "read line; exit 0", (char *)NULL);
            _exit(NOTHING);
        }
        run_supervisor(commands[0], results[1]);
    }
    close(commands[0]);
    close(results[1]);
    assert_int_equal(read(results[0], &ready, sizeof(ready)), sizeof(ready));
    return (struct process){pid, commands[1], results[0]};
}

static struct answer order(const struct process *p, char command)
{
    struct answer answer = {0};

    assert_int_equal(write(p->commands, &command, 1), 1);
    assert_int_equal(read(p->results, &answer, sizeof(answer)), sizeof(answer));
    return answer;
}

/* Ends the process. Returns its wait status. */
static int end_process(const struct process *p)
{
    int status;

    assert_int_equal(write(p->commands, "q", 1), 1);
    close(p->commands);
    assert_int_equal(waitpid(p->pid, &status, 0), p->pid);
    close(p->results);
    return status;
}

static void supervisors_of_a_job_inform_each_other(void **state)
{
    struct process a = start_process(NONE), b = start_process(NONE);
    struct answer got;

    (void)state;
    assert_int_equal(order(&a, 'c').value, 2);
    (void)order(&a, 't');
    got = order(&b, 'r');
    assert_true(got.valid);
    assert_int_equal(got.kind, BB_LOCAL_ENDED);
    assert_int_equal(got.value, 4);
    assert_int_equal(order(&a, 'p').valid, NOTHING); /* the sender receives nothing */
    (void)bb_local_tell(getpid(), BB_LOCAL_CLAIM, 70000);
    got = order(&b, 'r');
    assert_true(got.valid);
    assert_int_equal(got.kind, BB_LOCAL_CLAIM);
    assert_int_equal(got.value, 70000);
    assert_int_equal(end_process(&a), 0);
    assert_int_equal(end_process(&b), 0);
}

/* The default action of the signal ends a process, and other programs and users must not receive it. */
static void other_processes_receive_no_signal(void **state)
{
    static const enum difference differences[] = {NOT_BLOCKED, OTHER_PROGRAM, OTHER_USER};
    const size_t n = getuid() == 0 ? ROWS(differences) : ROWS(differences) - 1;

    (void)state;
    for (size_t i = 0; i < n; i++) {
        struct process supervisor = start_process(NONE), other = start_process(differences[i]);
        char path[64], line[128];
        FILE *status;

        usleep(differences[i] == OTHER_PROGRAM ? 200000 : 0); /* until the process has executed the program */
        (void)order(&supervisor, 't');
        assert_int_equal(order(&supervisor, 'c').value, 1);
        snprintf(path, sizeof(path), "/proc/%ld/status", (long)other.pid);
        assert_non_null(status = fopen(path, "r"));
        while (fgets(line, sizeof(line), status))
            if (strncmp(line, "ShdPnd:", 7) == 0)
                assert_int_equal(strtoull(line + 7, NULL, 16), 0);
        fclose(status);
        assert_int_equal(end_process(&other), 0);
        assert_int_equal(end_process(&supervisor), 0);
    }
}

/* A supervisor with another parent process belongs to another job. */
static void other_jobs_receive_no_signal(void **state)
{
    struct process a = start_process(NONE);
    int status;
    pid_t launcher;

    (void)state;
    if ((launcher = fork()) == 0) {
        struct process b = start_process(NONE);

        _exit(order(&b, 'c').value);
    }
    assert_int_equal(waitpid(launcher, &status, 0), launcher);
    assert_int_equal(WEXITSTATUS(status), 1);
    assert_int_equal(order(&a, 'p').valid, NOTHING);
    assert_int_equal(end_process(&a), 0);
}

/* kill() instead of sigqueue() is no message of a supervisor. */
static void plain_signals_are_ignored(void **state)
{
    struct process p = start_process(NONE);

    (void)state;
    assert_int_equal(kill(p.pid, bb_local_signal()), 0);
    assert_false(order(&p, 'r').valid);
    assert_int_equal(end_process(&p), 0);
}

static void signals_of_another_user_are_ignored(void **state)
{
    const union sigval value = {.sival_int = BB_LOCAL_ENDED << 24 | 4};
    struct process p;

    (void)state;
    if (getuid() != 0)
        skip();
    p = start_process(OTHER_USER);
    assert_int_equal(sigqueue(p.pid, bb_local_signal(), value), 0);
    assert_false(order(&p, 'r').valid);
    assert_int_equal(end_process(&p), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(supervisors_of_a_job_inform_each_other), cmocka_unit_test(other_processes_receive_no_signal),
        cmocka_unit_test(other_jobs_receive_no_signal),           cmocka_unit_test(plain_signals_are_ignored),
        cmocka_unit_test(signals_of_another_user_are_ignored),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
