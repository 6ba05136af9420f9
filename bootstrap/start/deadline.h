/*
 * deadline.h - time limits and signal handling for the phases of a process in which the watchdog (bootstrap/watchdog)
 * does not run: while libraries are loaded, and during shutdown. A signal that ends the process, or a phase that takes
 * too long, prints one line with the name of the phase.
 */
#ifndef BB_BOOTSTRAP_START_DEADLINE_H
#define BB_BOOTSTRAP_START_DEADLINE_H

#include <stdbool.h>

/*
 * bb_deadline_begin - start a phase; replaces the phase before.
 *   part       name of the phase for messages ("the loading of the GPU's libraries"); not copied
 *   timeout_s  seconds; at the timeout the process prints one line and exits with status 4
 *   signals    true: a signal of signals.h, or an exit() called by a library, prints one line and exits with status 1.
 *              Not used during shutdown: mpirun signals the ranks that exit last.
 * Of the ranks on a host one prints the line (speaker.h).
 */
void bb_deadline_begin(const char *phase, double timeout_s, bool signals);

/*
 * bb_deadline_begin_write - start the phase of the last write of the results: no signals, but an exit() of a library is
 * caught.
 * bb_deadline_written - the results now contain the status of the run; from here on any end of the process uses the
 * exit status for rc.
 */
void bb_deadline_begin_write(double timeout_s);
void bb_deadline_written(int rc);

/* bb_deadline_begin_exit - shutdown phase of a finished run: if it exceeds the timeout, print one line and exit with
 * the run's own status (rc), which the results contain. */
void bb_deadline_begin_exit(double timeout_s, int rc);

/* bb_deadline_end - end the phase, stop the timer and restore the signal handlers. */
void bb_deadline_end(void);

#endif
