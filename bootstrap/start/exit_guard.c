/* exit_guard.c - atexit handler and signal handlers that detect unexpected exits. */
#include "bootstrap/start/exit_guard.h"

#include "bootstrap/start/launcher.h"
#include "bootstrap/start/signals.h"

#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

/* The registered handler. It is global, because atexit handlers and signal handlers have no argument. */
static struct {
    bb_exited *volatile fn;
    void *volatile arg;
    pid_t process; /* process that called bb_exit_guard; in a child that a library forks, the inherited handlers do
                      nothing */
    bool registered;
} guard;

static void end_guarded(int cause)
{
    if (guard.fn && guard.process == getpid())
        guard.fn(guard.arg, cause);
}

static void handle_exit_called(void)
{
    end_guarded(BB_EXIT_CALLED);
}

void bb_exit_process(int status)
{
    for (;;)
        syscall(SYS_exit_group, status);
}

/* Raises the signal in this thread. kill() could deliver the signal to another thread, after this thread has
 * continued. */
static void raise_crash(int signal)
{
    sigset_t ours;

    sigemptyset(&ours);
    sigaddset(&ours, signal);
    (void)raise(signal);
    pthread_sigmask(SIG_UNBLOCK, &ours, NULL);
}

void bb_exit_by(int cause, int status)
{
    if (bb_signal_is_crash(cause))
        raise_crash(cause);
    bb_exit_process(status);
}

void bb_exit_called(int status)
{
    end_guarded(BB_EXIT_CALLED);
    bb_exit_process(status);
}

/* Reports a crash and ends the process. SA_RESETHAND has restored the default action, so a second crash, or raising
 * the same signal again in bb_exit_by, terminates the process. */
static void handle_crash(int signal)
{
    end_guarded(signal);
    bb_exit_by(signal, 128 + signal);
}

/* Installs the crash handlers, except for signals that already have a handler (of a sanitizer or debugger). */
static void take_crashes(void)
{
    struct sigaction ours, now;

    memset(&ours, 0, sizeof(ours));
    ours.sa_handler = handle_crash;
    ours.sa_flags = (int)SA_RESETHAND | SA_NODEFER;
    for (int signal = 1; signal < BB_SIGNALS_END; signal++)
        if (bb_signal_is_crash(signal) && sigaction(signal, NULL, &now) == 0 && now.sa_handler == SIG_DFL)
            sigaction(signal, &ours, NULL);
}

void bb_exit_guard(bb_exited *fn, void *arg)
{
    guard.fn = NULL;
    guard.arg = arg;
    guard.process = getpid();
    if (fn && !guard.registered) {
        guard.registered = atexit(handle_exit_called) == 0; /* if atexit() fails, an exit() of a library is not
                                                               detected */
        if (bb_launched_alone())
            take_crashes();
    }
    guard.fn = fn;
}
