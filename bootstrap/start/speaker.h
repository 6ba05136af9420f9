/* speaker.h - one rank of a host says what happened to the job when the ranks cannot reach each other: before MPI is up,
 * or when too many are lost. */
#ifndef BB_BOOTSTRAP_START_SPEAKER_H
#define BB_BOOTSTRAP_START_SPEAKER_H

#include <sys/types.h>

/*
 * bb_speaker_take - take the word for this job on this host: a descriptor that holds it until it is closed, -1 when
 * another rank has it. It is a name of the kernel's, nothing on disk; a process of its own keeps it for a moment more.
 * One that another user holds does not silence us.
 */
int bb_speaker_take(void);

/* bb_speaker_take_of - the same for a process that is none of the launcher's own. */
int bb_speaker_take_of(pid_t launcher);

#endif
