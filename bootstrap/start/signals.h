/* signals.h - the signals that end a run with one line and saved results. */
#ifndef BB_BOOTSTRAP_START_SIGNALS_H
#define BB_BOOTSTRAP_START_SIGNALS_H

#include <stdbool.h>

/* Causes that are not signals: the launcher and the reader of the output are gone; a library called exit()
 * (exit_guard.h). */
enum { BB_LAUNCHER_LOST = 1000, BB_EXIT_CALLED };

/* Upper bound of signal numbers. */
enum { BB_SIGNALS_END = 65 };

/* bb_signal_name - for example "SIGTERM" or "the loss of its launcher"; "" for signals that are not handled.
 * Async-signal-safe. */
const char *bb_signal_name(int signal);

/* bb_signal_is_crash - returns whether a process causes the signal by its own error, such as SIGSEGV. */
bool bb_signal_is_crash(int signal);

/* bb_signal_is_taken - returns whether the signal ends a run and was not ignored at start (SIGHUP under nohup).
 * Async-signal-safe. */
bool bb_signal_is_taken(int signal);

#endif
