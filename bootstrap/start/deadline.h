/*
 * deadline.h - time limits and signal handling for the two phases of a process in which the watchdog
 * (bootstrap/watchdog) does not run: while libraries are loaded, and during shutdown. If a signal ends the process or a
 * phase exceeds its time limit, the process prints one error line with the name of the phase.
 */
#ifndef BB_BOOTSTRAP_START_DEADLINE_H
#define BB_BOOTSTRAP_START_DEADLINE_H

#include <stdbool.h>

/*
 * bb_deadline_begin - start a phase (loading of libraries, or shutdown), and end the previous phase if there is one.
 *   phase      name of the phase in messages ("loading the GPU libraries"); not copied
 *   timeout_s  time limit in seconds; when it expires, the process prints one error line and exits with status 4
 *   signals    true: a signal listed in signals.h, or an exit() called by a library, prints one error line and ends the
 *              process with status 1. Pass false during shutdown, because mpirun signals the ranks that exit last.
 * If several ranks of a host fail together, only one of them prints the line (speaker.h).
 */
void bb_deadline_begin(const char *phase, double timeout_s, bool signals);

/*
 * bb_deadline_begin_write - start the phase in which the final results are written. Signal handlers stay as they are.
 * If a library calls exit() in this phase, the process prints one error line and exits with status 1.
 * bb_deadline_written - record that the final results are written.
 *   rc  result of the run: 0 or a negative error code. The results contain the exit status for rc, so from now on the
 *       process exits with this status even if a library calls exit() or the time limit expires.
 */
void bb_deadline_begin_write(double timeout_s);
void bb_deadline_written(int rc);

/* bb_deadline_begin_exit - start the shutdown phase of a finished run. If the phase exceeds its time limit, the
 * process prints one error line and exits with the status for rc, which the results already contain. */
void bb_deadline_begin_exit(double timeout_s, int rc);

/* bb_deadline_end - end the current phase: stop the timer and restore the signal handlers that were set before the
 * phase. */
void bb_deadline_end(void);

#endif
