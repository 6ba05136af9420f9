/* mpirun.c - launcher of the MPI library that busbar was built with. cmake/MpiLauncher.cmake sets BB_MPIRUN and
 * BB_MPI_IS_OPEN_MPI. */
#include "bootstrap/start/mpirun.h"

#include <stddef.h>
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

/* Sets environment variables of Open MPI 4 and 5 that allow oversubscription and running as root. Other MPI
 * libraries need no variables for this. bootstrap/mpi.sh sets the same variables. */
void bb_mpirun_allow_ranks(void)
{
    static const char *const settings[][2] = {
        {"OMPI_MCA_rmaps_base_oversubscribe", "1"},
        {"OMPI_MCA_hwloc_base_binding_policy", "none"},
        {"PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"},
        {"PRTE_MCA_hwloc_default_binding_policy", "none"},
        {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
        {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
    };

    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        (void)setenv(settings[i][0], settings[i][1], 0);
}

bool bb_mpirun_started_us(void)
{
    return getenv("OMPI_COMM_WORLD_SIZE") || getenv("MPI_LOCALNRANKS"); /* set by Open MPI and by Hydra, respectively */
}
