/*
 * child.c - runs a scenario in a forked process. The parent never calls CUDA, so each child starts CUDA itself.
 */
#include "child.h"
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* Scenarios do not free their objects; leaks of the emulator itself are still reported. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:events.c\nleak:capture_fork\nleak:cudaGraphCreate\nleak:cudaGraphInstantiate\n"
           "leak:cudaStreamEndCapture\nleak:cudaStreamBeginCapture\nleak:__cudaRegisterFatBinary\n"
           "leak:cublasLtCreate\nleak:cublasLtMatmulDescCreate\nleak:cublasLtMatrixLayoutCreate\n"
           "leak:cublasLtMatmulPreferenceCreate\n";
}

const char *__lsan_default_options(void);
const char *__lsan_default_options(void)
{
    return "print_suppressions=0";
}

static _Noreturn void live(int (*scenario)(void), const char *const *settings, int err)
{
    dup2(err, STDERR_FILENO);
    setenv("EMU_CLUSTER", TEST_PROFILE, 1);
    setenv("EMU_QUIET", "1", 1);
    for (; settings && *settings; settings++)
        putenv((char *)(uintptr_t)*settings);
    alarm(45); /* below the limit of ctest; a loaded machine runs sanitized kernels slowly */
    exit(scenario());
}

static void read_all(int from, char *text, size_t capacity)
{
    size_t n = 0;
    ssize_t got;

    while (n + 1 < capacity && (got = read(from, text + n, capacity - 1 - n)) > 0)
        n += (size_t)got;
    text[n] = '\0';
}

void child_run(struct child *child, int (*scenario)(void), const char *const *settings)
{
    int ends[2], status;
    pid_t pid;

    fflush(NULL);
    assert_int_equal(pipe(ends), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        live(scenario, settings, ends[1]);
    close(ends[1]);
    read_all(ends[0], child->err, sizeof(child->err));
    close(ends[0]);
    waitpid(pid, &status, 0);
    if (WIFEXITED(status))
        child->status = WEXITSTATUS(status);
    else
        child->status = WTERMSIG(status) == SIGALRM ? CHILD_HUNG : CHILD_SIGNAL + WTERMSIG(status);
}

void child_pass(int (*scenario)(void), const char *const *settings)
{
    struct child child;

    child_run(&child, scenario, settings);
    if (child.status != 0)
        print_error("%s", child.err);
    assert_int_equal(child.status, 0);
}
