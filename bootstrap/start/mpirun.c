/* mpirun.c - launcher of the MPI library that busbar was built with. cmake/MpiLauncher.cmake sets BB_MPIRUN and
 * BB_MPI_IS_OPEN_MPI. */
#include "bootstrap/start/mpirun.h"

#include <stdlib.h>
#include <unistd.h>

#ifndef BB_MPIRUN
#define BB_MPIRUN "mpirun"
#endif
#ifndef BB_MPI_IS_OPEN_MPI
#define BB_MPI_IS_OPEN_MPI 1
#endif

const char *bb_mpirun(void)
{
    return BB_MPIRUN[0] == '/' && access(BB_MPIRUN, X_OK) == 0 ? BB_MPIRUN : "mpirun";
}

const char *bb_mpirun_hosts(void)
{
    return BB_MPI_IS_OPEN_MPI ? "--host" : "-hosts";
}

const char *bb_mpirun_export(void)
{
    return BB_MPI_IS_OPEN_MPI ? "-x" : NULL;
}

bool bb_mpirun_started_us(void)
{
    return getenv("OMPI_COMM_WORLD_SIZE") || getenv("MPI_LOCALNRANKS"); /* set by Open MPI and by Hydra, respectively */
}
