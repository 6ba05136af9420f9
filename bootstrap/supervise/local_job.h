/*
 * local_job.h - the supervisors of one job on one host, before they are connected over TCP or after they have lost the
 * server. They inform each other by queued real-time signals (sigqueue): the kernel delivers a signal only between
 * processes of the same user, and reports the sender, so no other user can take part, and no name in a file system or
 * socket namespace exists that another user could take first.
 *
 * The supervisors of a job on a host have the same parent process (the launcher's daemon) and the same program.
 */
#ifndef BB_BOOTSTRAP_SUPERVISE_LOCAL_JOB_H
#define BB_BOOTSTRAP_SUPERVISE_LOCAL_JOB_H

#include <signal.h>
#include <stdbool.h>
#include <sys/signalfd.h>
#include <sys/types.h>

/* Contents of the signal's value. NOTHING: no signal is sent. CLAIM: the sender, of this launcher rank, is about to print the error line. ENDED:
 * the job ends with this exit code, and the line is printed. */
enum bb_local_kind { BB_LOCAL_NOTHING, BB_LOCAL_CLAIM, BB_LOCAL_ENDED };

/* bb_local_signal - number of the real-time signal; every supervisor blocks it and reads it through its signalfd. */
int bb_local_signal(void);

/* bb_local_tell - send {kind, value} to all other supervisors with parent process `launcher`. Returns their number. */
int bb_local_tell(pid_t launcher, enum bb_local_kind kind, int value);

/* bb_local_read - decode a received signal. Returns whether a process of the same user sent it. */
bool bb_local_read(const struct signalfd_siginfo *info, enum bb_local_kind *kind, int *value);

#endif
