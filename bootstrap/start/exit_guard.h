/* exit_guard.h - exit() or _exit() that a library calls amid a run, as MPI's do in MPI_Init: the process would end without
 * a word of ours, with the library's status, maybe 0. And the crash of a process that is alone; of several ranks the
 * others name the one that is lost. */
#ifndef BB_BOOTSTRAP_START_EXIT_GUARD_H
#define BB_BOOTSTRAP_START_EXIT_GUARD_H

/*
 * bb_exit_guard - from here on an exit() or _exit() of this process is somebody else's, and a crash is told:
 * fn(arg, cause) is called on the thread that came to it, cause BB_EXIT_CALLED or the signal (signals.h), and is to end
 * the process by bb_exit_by. Replaces the one before; NULL: an exit is in order. What a library asks of the kernel itself
 * is not seen.
 */
typedef void bb_exited(void *arg, int cause);
void bb_exit_guard(bb_exited *fn, void *arg);

/* bb_exit_called - what the program has in place of the C library's _exit(), which knows no handlers (busbar.c). */
_Noreturn void bb_exit_called(int status);

/* bb_exit_by - with the status, or by the signal of a crash, as it would have ended (a core, 128 and its number). */
_Noreturn void bb_exit_by(int cause, int status);

/* bb_exit_process - _exit() of our own, at any time. */
_Noreturn void bb_exit_process(int status);

#endif
