/* deadline.c - see deadline.h. A timer of the kernel's and a handler: neither a thread nor a lock that could be missing
 * while libraries are loaded. */
#include "bootstrap/start/deadline.h"

#include "bootstrap/base/err.h"
#include "bootstrap/start/hydra.h"
#include "bootstrap/start/launcher.h"
#include "bootstrap/start/speaker.h"

#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { LONGEST_S = 100000000, SPEAK_MS = 200, SPEAK_SIGNAL_MS = 60, LINGER_MS = 500 };

static const int taken[] = {SIGALRM, SIGTERM, SIGINT, SIGUSR1};
enum { N_TAKEN = sizeof(taken) / sizeof(taken[0]) };

/* What a handler is told can only be kept for the whole process. */
static struct {
    const char *volatile part;
    volatile double timeout_s;
    struct sigaction before[N_TAKEN];
} current;

static void pause_ms(long ms)
{
    const struct timespec pause = {.tv_nsec = 1000000 * ms};

    nanosleep(&pause, NULL);
}

/* Of the ranks of a host one says it, the first if it can. *word: what bb_speaker_says takes. */
static bool may_speak(int signal, int code, int *word)
{
    char host[256] = "";

    if (bb_launched_alone())
        return true;
    if (bb_err_is_mute())
        pause_ms(signal == SIGALRM ? SPEAK_MS : SPEAK_SIGNAL_MS);
    bb_err_mute(0);
    (void)gethostname(host, sizeof(host) - 1);
    bb_err_identify(bb_launcher_rank(), host, -1);
    *word = bb_speaker_take(code);
    return *word >= 0;
}

static void say_line(int signal, pid_t sender)
{
    if (signal == SIGALRM) {
        bb_err(BB_ETIMEOUT, "timeout: %s did not end within %g s", current.part, current.timeout_s);
        return;
    }
    bb_launcher_take_stderr(sender);
    bb_err(BB_EFAIL, "ended by %s; last seen: %s",
           signal == SIGTERM  ? "SIGTERM"
           : signal == SIGINT ? "SIGINT"
                              : "SIGUSR1",
           current.part);
}

static void end_process(int signal, siginfo_t *info, void *context)
{
    const enum bb_error code = signal == SIGALRM ? BB_ETIMEOUT : BB_EFAIL;
    const bool before = bb_hydra_started_us();
    int word = -1;

    (void)context;
    if (may_speak(signal, (int)code, &word)) {
        if (before)
            bb_speaker_says(word);
        say_line(signal, info->si_pid);
        if (!before)
            bb_speaker_says(word);
    }
    if (!bb_launched_alone())
        pause_ms(LINGER_MS); /* those that come later find the word taken */
    _exit(code);
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
    if (!current.part)
        return;
    set_timer(0);
    for (int i = 0; i < N_TAKEN; i++)
        sigaction(taken[i], &current.before[i], NULL);
    current.part = NULL;
}

void bb_deadline_begin(const char *part, double timeout_s, bool signals)
{
    struct sigaction ours;

    memset(&ours, 0, sizeof(ours));
    ours.sa_sigaction = end_process;
    ours.sa_flags = SA_SIGINFO;
    bb_deadline_end();
    for (int i = 0; i < N_TAKEN; i++) {
        sigaction(taken[i], NULL, &current.before[i]);
        if (signals || taken[i] == SIGALRM)
            sigaction(taken[i], &ours, NULL);
    }
    current.part = part;
    current.timeout_s = timeout_s;
    set_timer(timeout_s);
}
