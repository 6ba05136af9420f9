/* exit_guard.h - detect exit() and _exit() called by a library during a run, as MPI libraries do in MPI_Init: the
 * process would otherwise end without an error message and with the library's status, possibly 0. Also detect a
 * crash of a single-process run; in a run of several ranks the other ranks report the lost rank. */
#ifndef BB_BOOTSTRAP_START_EXIT_GUARD_H
#define BB_BOOTSTRAP_START_EXIT_GUARD_H

/*
 * bb_exit_guard - from now on treat exit()/_exit() as unexpected (a library called it), and report crashes.
 *   fn   called as fn(arg, cause) on the thread that exits or crashes; cause is BB_EXIT_CALLED or the number of the
 *        signal (signals.h). fn must end the process with bb_exit_by. It replaces the previous fn; NULL: an exit is
 *        expected.
 * A library that calls the exit system call directly is not detected.
 */
typedef void bb_exited(void *arg, int cause);
void bb_exit_guard(bb_exited *fn, void *arg);

/* bb_exit_called - replacement of the C library's _exit() in the program (busbar.c), because _exit() runs no atexit
 * handlers. */
_Noreturn void bb_exit_called(int status);

/* bb_exit_by - end the process with the status, or, for a crash, by raising the signal again (core dump, status 128
 * + signal). */
_Noreturn void bb_exit_by(int cause, int status);

/* bb_exit_process - busbar's own _exit(), always allowed. */
_Noreturn void bb_exit_process(int status);

#endif
