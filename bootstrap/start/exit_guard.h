/* exit_guard.h - exit() or _exit() that a library calls amid a run, as MPI's do in MPI_Init: the process would end
 * without a word of ours, with the library's status, maybe 0. */
#ifndef BB_BOOTSTRAP_START_EXIT_GUARD_H
#define BB_BOOTSTRAP_START_EXIT_GUARD_H

/*
 * bb_exit_guard - from here on an exit() or _exit() of this process is somebody else's: fn(arg) is called on the thread
 * that came to it, and is to end the process by bb_exit_process. Replaces the one before; NULL: an exit is in order.
 * What a library asks of the kernel itself is not seen.
 */
typedef void bb_exited(void *arg);
void bb_exit_guard(bb_exited *fn, void *arg);

/* bb_exit_called - what the program has in place of the C library's _exit(), which knows no handlers (busbar.c). */
_Noreturn void bb_exit_called(int status);

/* bb_exit_process - _exit() of our own, at any time. */
_Noreturn void bb_exit_process(int status);

#endif
