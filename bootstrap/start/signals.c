/* signals.c - table of the signals that end a run. */
#include "bootstrap/start/signals.h"

#include <signal.h>
#include <stddef.h>
#include <string.h>

/* Signals that users, terminals and schedulers send to end a run (schedulers send SIGTERM, SIGUSR1, SIGUSR2 or SIGXCPU
 * at a time limit), and the other causes of an early end (signals.h). */
static const struct {
    int number;
    const char *name;
} signals[] = {{SIGTERM, "SIGTERM"},
               {SIGINT, "SIGINT"},
               {SIGHUP, "SIGHUP"},
               {SIGUSR1, "SIGUSR1"},
               {SIGUSR2, "SIGUSR2"},
               {SIGQUIT, "SIGQUIT"},
               {SIGXCPU, "SIGXCPU"},
               {SIGALRM, "SIGALRM"},
               {BB_LAUNCHER_LOST, "the loss of its launcher"},
               {BB_EXIT_CALLED, "a library that called exit()"}};

const char *bb_signal_name(int signal)
{
    for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++)
        if (signals[i].number == signal)
            return signals[i].name;
    return "";
}

const char *bb_signal_abbreviation(int signal)
{
    const char *name = sigabbrev_np(signal);

    return name ? name : "?";
}

bool bb_signal_is_taken(int signal)
{
    struct sigaction now;

    return signal < BB_SIGNALS_END && bb_signal_name(signal)[0] &&
           (sigaction(signal, NULL, &now) || now.sa_handler != SIG_IGN);
}
