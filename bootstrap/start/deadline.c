/* deadline.c - time limits of phases, implemented with a kernel timer and a signal handler. The code needs no thread
 * and no lock, because neither may be usable while libraries are loaded. */
#include "bootstrap/start/deadline.h"

#include "bootstrap/base/err.h"
#include "bootstrap/start/exit_guard.h"
#include "bootstrap/start/hydra.h"
#include "bootstrap/start/launcher.h"
#include "bootstrap/start/signals.h"
#include "bootstrap/start/speaker.h"

#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { LONGEST_S = 100000000, SPEAK_MS = 200, SPEAK_SIGNAL_MS = 60, LINGER_MS = 500 };

/* State of the current phase. It is global, because a signal handler has no argument. */
static struct {
    const char *volatile phase;
    volatile double timeout_s;
    volatile int late_code, code; /* exit codes: late_code after a timeout, code after a signal or an unexpected
                                     exit() */
    struct sigaction before[BB_SIGNALS_END];
} current;

static void pause_ms(long ms)
{
    const struct timespec pause = {.tv_nsec = 1000000 * ms};

    nanosleep(&pause, NULL);
}

/* Returns whether this rank prints the error line. One rank per host prints it, preferably rank 0: the other ranks,
 * which are muted before MPI_Init, pause before they claim the host's reporter lock (speaker.h). lock_fd: out,
 * descriptor of the lock; unchanged without a launcher. */
static bool may_speak(bool timed_out, int code, int *lock_fd)
{
    char host[256] = "";

    if (bb_launched_alone())
        return true;
    if (bb_err_is_mute())
        pause_ms(timed_out ? SPEAK_MS : SPEAK_SIGNAL_MS);
    bb_err_mute(0);
    (void)gethostname(host, sizeof(host) - 1);
    bb_err_identify(bb_launcher_rank(), host, -1);
    *lock_fd = bb_speaker_take(code);
    return *lock_fd >= 0;
}

static void say_line(int signal, bool timed_out, pid_t sender)
{
    if (timed_out) {
        bb_err_nonblocking(BB_ETIMEOUT, "timeout: %s did not end within %g s", current.phase, current.timeout_s);
        return;
    }
    bb_launcher_take_stderr(sender);
    bb_err_nonblocking(BB_EFAIL, "ended by %s; last seen: %s", bb_signal_name(signal), current.phase);
}

static _Noreturn void end_process(int signal, bool timed_out, pid_t sender)
{
    const int code = timed_out ? current.late_code : current.code;
    const bool before = bb_hydra_started_us();
    int lock_fd = -1;

    if (may_speak(timed_out, code, &lock_fd)) {
        if (before)
            bb_speaker_says(lock_fd);
        say_line(signal, timed_out, sender);
        if (!before)
            bb_speaker_says(lock_fd);
    }
    if (!bb_launched_alone() && !bb_speaker_answer(lock_fd, code, LINGER_MS))
        pause_ms(LINGER_MS); /* keep the reporter lock meanwhile, so that ranks that fail later do not report again */
    bb_exit_by(signal, code);
}

static void handle_signal(int signal, siginfo_t *info, void *context)
{
    (void)context;
    end_process(signal, signal == SIGALRM && info->si_code != SI_USER, info->si_pid);
}

static void handle_exit(void *arg, int cause)
{
    (void)arg;
    end_process(cause, false, 0);
}

/* Returns whether this module handles the signal. SIGALRM is handled even if it was ignored at start, because the
 * timer needs it. */
static bool is_taken(int signal)
{
    return signal == SIGALRM || bb_signal_is_taken(signal);
}

static void set_timer(double seconds)
{
    const double capped = seconds < LONGEST_S ? seconds : LONGEST_S;
    const struct itimerval timer = {
        .it_value = {.tv_sec = (time_t)capped, .tv_usec = (suseconds_t)(1e6 * (capped - (double)(time_t)capped))}};

    setitimer(ITIMER_REAL, &timer, NULL);
}

void bb_deadline_end(void)
{
    if (!current.phase)
        return;
    set_timer(0);
    for (int signal = 1; signal < BB_SIGNALS_END; signal++)
        if (is_taken(signal))
            sigaction(signal, &current.before[signal], NULL);
    current.phase = NULL;
}

void bb_deadline_begin(const char *phase, double timeout_s, bool signals)
{
    struct sigaction ours;

    memset(&ours, 0, sizeof(ours));
    ours.sa_sigaction = handle_signal;
    ours.sa_flags = SA_SIGINFO;
    bb_deadline_end();
    for (int signal = 1; signal < BB_SIGNALS_END; signal++)
        if (is_taken(signal))
            sigaction(signal, signals || signal == SIGALRM ? &ours : NULL, &current.before[signal]);
    current.phase = phase;
    current.timeout_s = timeout_s;
    current.late_code = BB_ETIMEOUT;
    current.code = BB_EFAIL;
    bb_exit_guard(signals ? handle_exit : NULL, NULL);
    set_timer(timeout_s);
}

void bb_deadline_begin_write(double timeout_s)
{
    bb_deadline_begin("writing the final results", timeout_s, false);
    bb_exit_guard(handle_exit, NULL);
}

void bb_deadline_written(int rc)
{
    current.late_code = current.code = bb_exit_code(rc);
}

void bb_deadline_begin_exit(double timeout_s, int rc)
{
    bb_deadline_begin("the exit of the process", timeout_s, false);
    current.late_code = bb_exit_code(rc);
}
