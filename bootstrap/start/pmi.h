/*
 * pmi.h - ends the job through the PMI connection (PMI_FD) of Hydra (MPICH, MVAPICH, Intel MPI) or of Slurm's PMI-2.
 * Hydra does not end a job on several nodes when a rank exits with a code, and Slurm's PMI-2 plugin never ends the
 * other ranks; the PMI command "abort" does, and its code becomes the exit status of mpiexec.
 */
#ifndef BB_BOOTSTRAP_START_PMI_H
#define BB_BOOTSTRAP_START_PMI_H

#include <stdbool.h>

/* bb_pmi_connected - returns whether the launcher gave this process a PMI connection. */
bool bb_pmi_connected(void);

/* bb_pmi_abort - end the job with this exit code. The launcher kills all processes of the job at once, so this must be
 * the last act. initialized: the rank has called MPI_Init. */
void bb_pmi_abort(int code, bool initialized);

#endif
