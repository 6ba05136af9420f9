/* speaker.h - one rank of a host says what happened to the job when the ranks cannot reach each other: before MPI is up,
 * or when too many are lost. */
#ifndef BB_BOOTSTRAP_START_SPEAKER_H
#define BB_BOOTSTRAP_START_SPEAKER_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * bb_speaker_take - take the word for this job on this host, which ends with this exit code: a descriptor that holds it
 * until it is closed, -1 when another rank has it. Once it is said (bb_speaker_says) a process of its own keeps it for a
 * moment more, and tells the code to those that ask; the word of one that is gone before that is free again. One that
 * another user holds does not silence us.
 */
int bb_speaker_take(int code);

/* bb_speaker_take_of - the same for a process that is none of the launcher's own. */
int bb_speaker_take_of(pid_t launcher, int code);

/* bb_speaker_says - nobody else needs to write the line: after it, but under hydra, which wakes by it and kills its writer
 * at once, right before. fd: as it was taken, or -1. */
void bb_speaker_says(int fd);

/* bb_speaker_answer - after it is said, where no process could be made that keeps the word (ulimit -u): tell the code to
 * those that ask, for so long (0: who asks now); false, at once, where there is one. fd: as it was taken, or -1. */
bool bb_speaker_answer(int fd, int code, int for_ms);

/* bb_speaker_heard - the exit code with which the job ends, if a rank of this host has said why; else 0. */
int bb_speaker_heard(void);

#endif
