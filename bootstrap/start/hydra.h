/*
 * hydra.h - what mpiexec.hydra, the launcher of MPICH, MVAPICH and Intel MPI, needs. It knows each rank by a connection
 * (PMI_FD) and its output, and when one closes before MPI_Finalize it kills all ranks by SIGKILL at once: nobody would
 * be left to name the rank that was lost. So a small process holds them open for HOLD_MS after the rank is gone, and
 * the others end by themselves (watchdog/watchdog.h) meanwhile; where they do not, since they do not know each other
 * yet or were killed all the same (hydra does that while a rank prints), it names the rank itself. Does nothing under
 * other launchers.
 */
#ifndef BB_BOOTSTRAP_START_HYDRA_H
#define BB_BOOTSTRAP_START_HYDRA_H

#include <stdbool.h>

/* bb_hydra_started_us - this process is a rank that hydra started. */
bool bb_hydra_started_us(void);

/* bb_hydra_hold - start the holder; before there are threads. Without one a lost rank is not named, no more. */
void bb_hydra_hold(void);

/* bb_hydra_ending - the job is ending, and this rank knows it: it is not lost when it is gone. */
void bb_hydra_ending(void);

/* bb_hydra_abort - before MPI is up: the job ends with this exit code. Others would wait for this rank. */
void bb_hydra_abort(int code);

/* bb_hydra_let_go - this rank leaves in order: end the holder. */
void bb_hydra_let_go(void);

#endif
