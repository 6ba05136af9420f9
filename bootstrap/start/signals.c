/* signals.c - table of the signals that end a run. */
#include "bootstrap/start/signals.h"

#include <signal.h>
#include <stddef.h>

/* A signal or cause that ends a run. The table lists first the signals from users, terminals and schedulers (which
 * send SIGTERM, SIGUSR1, SIGUSR2 or SIGXCPU at a time limit), then the other causes, then the crash signals. */
struct known_signal {
    int number;
    const char *name;
    bool crash;
};

static const struct known_signal signals[] = {{SIGTERM, "SIGTERM", false},
                                              {SIGINT, "SIGINT", false},
                                              {SIGHUP, "SIGHUP", false},
                                              {SIGUSR1, "SIGUSR1", false},
                                              {SIGUSR2, "SIGUSR2", false},
                                              {SIGQUIT, "SIGQUIT", false},
                                              {SIGXCPU, "SIGXCPU", false},
                                              {SIGALRM, "SIGALRM", false},
                                              {BB_LAUNCHER_LOST, "the loss of its launcher", false},
                                              {BB_EXIT_CALLED, "a library that called exit()", false},
                                              {SIGSEGV, "SIGSEGV", true},
                                              {SIGBUS, "SIGBUS", true},
                                              {SIGFPE, "SIGFPE", true},
                                              {SIGILL, "SIGILL", true},
                                              {SIGABRT, "SIGABRT", true},
                                              {SIGSYS, "SIGSYS", true}};

static struct known_signal find_signal(int number)
{
    for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++)
        if (signals[i].number == number)
            return signals[i];
    return (struct known_signal){number, "", false};
}

const char *bb_signal_name(int signal)
{
    return find_signal(signal).name;
}

bool bb_signal_is_crash(int signal)
{
    return find_signal(signal).crash;
}

bool bb_signal_is_taken(int signal)
{
    struct sigaction now;

    return signal < BB_SIGNALS_END && bb_signal_name(signal)[0] && !bb_signal_is_crash(signal) &&
           (sigaction(signal, NULL, &now) || now.sa_handler != SIG_IGN);
}
