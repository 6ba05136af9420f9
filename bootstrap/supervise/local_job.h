/*
 * local_job.h - communication between the supervisors of one job on one host, before they are connected over TCP or
 * after they have lost the server. They send each other queued real-time signals (sigqueue). The kernel reports the
 * user of the sender, so signals of other users are ignored; and in contrast to a file or a socket, a signal needs no
 * name that another user could take first.
 *
 * The supervisors of a job on a host have the same parent process (the launcher's daemon) and the same program.
 */
#ifndef BB_BOOTSTRAP_SUPERVISE_LOCAL_JOB_H
#define BB_BOOTSTRAP_SUPERVISE_LOCAL_JOB_H

#include <signal.h>
#include <stdbool.h>
#include <sys/signalfd.h>
#include <sys/types.h>

/* Kinds of signals, and the value that each of them carries. */
enum bb_local_kind {
    BB_LOCAL_NOTHING, /* no signal is sent; bb_local_tell only counts the supervisors */
    BB_LOCAL_CLAIM,   /* the sender is about to print the error line; value: its rank */
    BB_LOCAL_ENDED    /* the error line is printed and the job ends; value: exit code of the job */
};

/* bb_local_signal - return the number of the real-time signal, which every supervisor blocks and reads through its
 * signalfd. */
int bb_local_signal(void);

/* bb_local_tell - send {kind, value} to all other supervisors of the job on this host. launcher: parent process of
 * these supervisors. Returns the number of supervisors reached. */
int bb_local_tell(pid_t launcher, enum bb_local_kind kind, int value);

/* bb_local_read - decode a received signal. Returns whether a process of the same user sent it. */
bool bb_local_read(const struct signalfd_siginfo *info, enum bb_local_kind *kind, int *value);

/* bb_local_is_suspended - return whether a signal (SIGSTOP, SIGTSTP) has suspended the process. */
bool bb_local_is_suspended(pid_t pid);

#endif
