/* signals.h - the signals that end a run. A supervisor that receives one of them, or whose rank is ended by one, prints
 * one error line and saves the results before it exits. */
#ifndef BB_BOOTSTRAP_START_SIGNALS_H
#define BB_BOOTSTRAP_START_SIGNALS_H

#include <stdbool.h>

/* Causes of an early end other than signals, with values above all signal numbers. BB_LAUNCHER_LOST: the launcher
 * has exited, so no process reads the ranks' output any more. BB_EXIT_CALLED: a library called exit(). */
enum { BB_LAUNCHER_LOST = 1000, BB_EXIT_CALLED };

/* One more than the largest signal number that is handled. */
enum { BB_SIGNALS_END = 65 };

/* bb_signal_name - returns the name of a signal or cause for messages, for example "SIGTERM" or "the loss of its
 * launcher", or "" for a signal that busbar does not handle. */
const char *bb_signal_name(int signal);

/* bb_signal_abbreviation - returns the name of any signal without "SIG", for example "KILL"; "?" if it has none. */
const char *bb_signal_abbreviation(int signal);

/* bb_signal_is_taken - returns whether busbar handles the signal: it ends a run, and was not ignored at start
 * (nohup ignores SIGHUP). */
bool bb_signal_is_taken(int signal);

#endif
