/* speaker.h - error reporter: one rank per host reports what happened to the job when the ranks cannot reach each
 * other, that is before MPI_Init or when too many ranks are lost. */
#ifndef BB_BOOTSTRAP_START_SPEAKER_H
#define BB_BOOTSTRAP_START_SPEAKER_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * bb_speaker_take - claim the right to report this host's failure (lock = abstract socket).
 *   code     exit code with which the job ends
 *   Returns  the lock fd, or -1 if another rank is the reporter
 *
 * The claim is released if the reporter dies before printing. After printing (bb_speaker_says), a helper process keeps
 * the claim for a moment and sends the code to ranks that connect. A socket owned by another user is ignored.
 */
int bb_speaker_take(int code);

/* bb_speaker_take_of - the same for a process that is not a child of the launcher; launcher is the launcher's
 * process id. */
int bb_speaker_take_of(pid_t launcher, int code);

/* bb_speaker_says - mark the error as reported. Call after printing it; under Hydra before, because Hydra kills the
 * writer as soon as it sees output. fd: as returned by bb_speaker_take, or -1. */
void bb_speaker_says(int fd);

/*
 * bb_speaker_answer - send the code to connecting ranks, in case the helper process could not be created (ulimit -u).
 *   fd       as returned by bb_speaker_take, or -1
 *   for_ms   milliseconds; 0: answer only pending connections
 *   Returns  true after answering; false immediately if the helper process exists
 */
bool bb_speaker_answer(int fd, int code, int for_ms);

/* bb_speaker_heard - returns the exit code with which the job ends if a rank of this host has reported a failure,
 * else 0. */
int bb_speaker_heard(void);

#endif
