/* signals.h - the signals that end a run. A process that receives one of them prints one error line and saves the
 * results before it exits. */
#ifndef BB_BOOTSTRAP_START_SIGNALS_H
#define BB_BOOTSTRAP_START_SIGNALS_H

#include <stdbool.h>

/* Causes of an early end other than signals, with values above all signal numbers. BB_LAUNCHER_LOST: the launcher
 * has exited, so no process reads the ranks' output any more. BB_EXIT_CALLED: a library called exit()
 * (exit_guard.h). */
enum { BB_LAUNCHER_LOST = 1000, BB_EXIT_CALLED };

/* One more than the largest signal number that is handled. */
enum { BB_SIGNALS_END = 65 };

/* bb_signal_name - returns the name of a signal or cause for messages, for example "SIGTERM" or "the loss of its
 * launcher", or "" for a signal that busbar does not handle. Async-signal-safe. */
const char *bb_signal_name(int signal);

/* bb_signal_is_crash - returns whether the signal results from a program error in the process, for example SIGSEGV. */
bool bb_signal_is_crash(int signal);

/* bb_signal_is_taken - returns whether busbar handles the signal: it ends a run, is not a crash, and was not ignored
 * at start (nohup ignores SIGHUP). Async-signal-safe. */
bool bb_signal_is_taken(int signal);

#endif
