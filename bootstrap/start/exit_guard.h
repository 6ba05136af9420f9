/* exit_guard.h - detect exit() and _exit() called by a library during a run. For example, an MPI library may call
 * exit() in MPI_Init. Without this guard the process would then end without an error message and with the library's
 * status, which may be 0. In a single-process run the guard also detects a crash of the process. In a run with
 * several ranks it does not, because the other ranks report the lost rank. */
#ifndef BB_BOOTSTRAP_START_EXIT_GUARD_H
#define BB_BOOTSTRAP_START_EXIT_GUARD_H

/*
 * bb_exit_guard - from now on treat exit() and _exit() as unexpected (called by a library), and report crashes.
 *   fn   called as fn(arg, cause) on the thread that exits or crashes. cause is BB_EXIT_CALLED, or the number of the
 *        signal (signals.h). fn must end the process with bb_exit_by. fn replaces the previous handler. NULL: from now
 *        on an exit is expected and not reported.
 * An exit by a direct system call (exit_group) is not detected.
 */
typedef void bb_exited(void *arg, int cause);
void bb_exit_guard(bb_exited *fn, void *arg);

/* bb_exit_called - called by the program's own definition of _exit() (busbar.c), which overrides that of the C
 * library. The override is needed because _exit() runs no atexit handlers. */
_Noreturn void bb_exit_called(int status);

/* bb_exit_by - end the process because of `cause`: after a crash by raising the same signal again (core dump, status
 * 128 + signal), otherwise with `status`. */
_Noreturn void bb_exit_by(int cause, int status);

/* bb_exit_process - end the process immediately, without running the exit guard. */
_Noreturn void bb_exit_process(int status);

#endif
