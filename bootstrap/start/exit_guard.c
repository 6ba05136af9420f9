/* exit_guard.c - see exit_guard.h. */
#include "bootstrap/start/exit_guard.h"

#include <stdbool.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

/* What a handler is told can only be kept for the whole process. */
static struct {
    bb_exited *volatile fn;
    void *volatile arg;
    pid_t process; /* a library's fork() has the handler, too */
    bool registered;
} guard;

static void end_guarded(void)
{
    if (guard.fn && guard.process == getpid())
        guard.fn(guard.arg);
}

void bb_exit_process(int status)
{
    for (;;)
        syscall(SYS_exit_group, status);
}

void bb_exit_called(int status)
{
    end_guarded();
    bb_exit_process(status);
}

void bb_exit_guard(bb_exited *fn, void *arg)
{
    guard.fn = NULL;
    guard.arg = arg;
    guard.process = getpid();
    if (fn && !guard.registered)
        guard.registered = atexit(end_guarded) == 0; /* else the end is the library's own */
    guard.fn = fn;
}
