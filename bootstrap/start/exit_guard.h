/* exit_guard.h - exit() that a library calls amid a run, as MPI's do in MPI_Init: the process would end without a word, with
 * the library's status, maybe 0. */
#ifndef BB_BOOTSTRAP_START_EXIT_GUARD_H
#define BB_BOOTSTRAP_START_EXIT_GUARD_H

/*
 * bb_exit_guard - from here on an exit() of this process is somebody else's: fn(arg) is called on the thread that came to
 * it, and is to end the process by _exit. Replaces the one before; NULL: an exit() is in order. _exit() is not seen.
 */
typedef void bb_exited(void *arg);
void bb_exit_guard(bb_exited *fn, void *arg);

#endif
