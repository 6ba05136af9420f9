/* signals.h - the signals that end a run with one line and saved results, wherever they meet it. */
#ifndef BB_BOOTSTRAP_START_SIGNALS_H
#define BB_BOOTSTRAP_START_SIGNALS_H

#include <stdbool.h>

/* None of the kernel's: who started the run is gone, and what it read of it with it; exit_guard.h. */
enum { BB_LAUNCHER_LOST = 1000, BB_EXIT_CALLED };

/* The numbers of signals are below it. */
enum { BB_SIGNALS_END = 65 };

/* bb_signal_name - "SIGTERM", "the loss of its launcher"; "" for one that is nobody's here. Safe in a handler. */
const char *bb_signal_name(int signal);

/* bb_signal_is_crash - one that a process brings upon itself. */
bool bb_signal_is_crash(int signal);

/* bb_signal_is_taken - one that ends a run, and is not ignored from outside (SIGHUP under nohup). Safe in a handler. */
bool bb_signal_is_taken(int signal);

#endif
