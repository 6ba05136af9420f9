/* speaker.h - chooses the error reporter: the one rank per host that reports why the job fails when the ranks cannot
 * communicate, which is the case before MPI_Init and after the loss of several ranks. */
#ifndef BB_BOOTSTRAP_START_SPEAKER_H
#define BB_BOOTSTRAP_START_SPEAKER_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * bb_speaker_take - claim the reporter lock, which is the right to report the failure on this host. The lock is an
 * abstract socket.
 *   code     exit code with which the job ends
 *   Returns  the lock's file descriptor, or -1 if another rank is the reporter
 *
 * The lock is released if the reporter dies before it prints. After the reporter has printed (bb_speaker_says), a
 * helper process keeps the lock for a moment and sends `code` to ranks that connect to the socket. A socket that
 * belongs to another user is ignored.
 */
int bb_speaker_take(int code);

/* bb_speaker_take_of - like bb_speaker_take, for a process that is not a child of the launcher. launcher: process id
 * of the launcher. */
int bb_speaker_take_of(pid_t launcher, int code);

/* bb_speaker_says - mark the error as reported. Call it after printing the error; under Hydra call it before
 * printing, because Hydra kills the rank as soon as the rank prints. fd: returned by bb_speaker_take, or -1. */
void bb_speaker_says(int fd);

/*
 * bb_speaker_answer - send the exit code to connecting ranks from this process, for the case that the helper process
 * could not be created (ulimit -u).
 *   fd       returned by bb_speaker_take, or -1
 *   for_ms   duration in milliseconds; 0: answer only pending connections
 *   Returns  true after answering; false, immediately, if the helper process exists
 */
bool bb_speaker_answer(int fd, int code, int for_ms);

/* bb_speaker_heard - returns the exit code with which the job ends if a rank of this host has reported a failure,
 * else 0. */
int bb_speaker_heard(void);

#endif
