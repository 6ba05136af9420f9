/*
 * hydra.h - support for mpiexec.hydra, the launcher of MPICH, MVAPICH and Intel MPI. No effect under other launchers.
 *
 * Hydra knows each rank by a connection (PMI_FD) and by its output pipes. When one of them closes before MPI_Finalize,
 * Hydra sends SIGKILL to all ranks at once, so no rank could report the lost one. Therefore a helper process keeps them
 * open for HOLD_MS after the death of the rank; meanwhile the other ranks report the loss and exit
 * (watchdog/watchdog.h). If they do not, because the ranks are not connected yet or because Hydra killed them (Hydra
 * may do so while a rank prints), the helper process reports the lost rank itself.
 */
#ifndef BB_BOOTSTRAP_START_HYDRA_H
#define BB_BOOTSTRAP_START_HYDRA_H

#include <stdbool.h>

/* bb_hydra_started_us - returns whether Hydra started this process. */
bool bb_hydra_started_us(void);

/* bb_hydra_hold - start the helper process; call before the first thread. If it cannot be started, a lost rank is
 * not reported; nothing else changes. */
void bb_hydra_hold(void);

/* bb_hydra_ending - set the state "the job is ending": the helper process then does not report the death of this
 * rank. */
void bb_hydra_ending(void);

/* bb_hydra_abort - before MPI_Init: end the job with this exit code. Without it the other ranks would wait for this
 * rank. */
void bb_hydra_abort(int code);

/* bb_hydra_let_go - orderly exit of this rank: end the helper process. */
void bb_hydra_let_go(void);

#endif
