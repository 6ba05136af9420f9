/*
 * hydra.h - support for mpiexec.hydra, the launcher of MPICH, MVAPICH and Intel MPI. No effect under other launchers.
 *
 * Hydra monitors each rank through a connection (PMI_FD) and through the rank's output pipes. When the connection or a
 * pipe closes before MPI_Finalize, Hydra sends SIGKILL to all ranks at once, so no rank could report which rank was
 * lost. Therefore each rank forks a helper process, which keeps the connection and the pipes open for 1.5 s (HOLD_MS)
 * after the rank has died. During that time the other ranks report the loss and exit (watchdog/watchdog.h). The helper
 * process reports the lost rank itself if the other ranks cannot, either because they are not connected yet or because
 * Hydra has killed them (which Hydra may do while a rank prints).
 */
#ifndef BB_BOOTSTRAP_START_HYDRA_H
#define BB_BOOTSTRAP_START_HYDRA_H

#include <stdbool.h>

/* bb_hydra_started_us - returns whether Hydra started this process. */
bool bb_hydra_started_us(void);

/* bb_hydra_hold - start the helper process that keeps this rank's PMI connection open; call before any thread is
 * created. If the helper process cannot be started, Hydra may kill all ranks before the lost rank is reported. */
void bb_hydra_hold(void);

/* bb_hydra_ending - inform the helper process that the job is ending, so that it does not report the death of this
 * rank. */
void bb_hydra_ending(void);

/* bb_hydra_abort - before MPI_Init: end the job with exit code `code`. Without this call the other ranks would wait
 * for this rank. */
void bb_hydra_abort(int code);

/* bb_hydra_let_go - at an orderly exit of this rank: end the helper process. */
void bb_hydra_let_go(void);

#endif
