/* test_launcher.c - what the environment of a launcher says of the job. */
#include "bootstrap/start/launcher.h"
#include "tests/check.h"

#include <stdlib.h>

static const char *const variables[] = {"OMPI_COMM_WORLD_SIZE",
                                        "OMPI_COMM_WORLD_LOCAL_SIZE",
                                        "PMI_SIZE",
                                        "PMI_RANK",
                                        "PMI_ID",
                                        "PMIX_RANK",
                                        "MPI_LOCALNRANKS",
                                        "SLURM_STEP_NUM_TASKS",
                                        "SLURM_NTASKS",
                                        "SLURM_NODEID",
                                        "SLURM_STEP_TASKS_PER_NODE",
                                        "PMI_LOCAL_SIZE",
                                        "SLURM_NTASKS_PER_NODE"};

static const struct {
    const char *set[3][2];
    bool alone;
    int local_size;
} rows[] = {
    {{{0}}, true, 0},
    {{{"OMPI_COMM_WORLD_SIZE", "8"}, {"PMIX_RANK", "0"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}}, false, 4},
    {{{"OMPI_COMM_WORLD_SIZE", "1"}, {"PMIX_RANK", "0"}}, true, 0},
    {{{"SLURM_STEP_NUM_TASKS", "1"}, {"PMIX_RANK", "0"}, {"SLURM_NTASKS", "8"}}, true, 0}, /* the shell of salloc */
    {{{"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_NTASKS_PER_NODE", "2"}}, false, 2},
    {{{"SLURM_STEP_NUM_TASKS", "1"}, {"OMPI_COMM_WORLD_SIZE", "4"}}, false, 0}, /* mpirun in that shell */
    {{{"SLURM_STEP_NUM_TASKS", "20"}, {"SLURM_STEP_TASKS_PER_NODE", "8(x2),4"}, {"SLURM_NODEID", "1"}}, false, 8},
    {{{"SLURM_STEP_NUM_TASKS", "20"}, {"SLURM_STEP_TASKS_PER_NODE", "8(x2),4"}, {"SLURM_NODEID", "2"}}, false, 4},
    {{{"SLURM_STEP_NUM_TASKS", "20"}, {"SLURM_STEP_TASKS_PER_NODE", "8(x2),4"}, {"SLURM_NODEID", "3"}}, false, 0},
    {{{"SLURM_STEP_NUM_TASKS", "3"}, {"SLURM_STEP_TASKS_PER_NODE", "3"}, {"SLURM_NODEID", "0"}}, false, 3},
    {{{"PMI_SIZE", "6"}, {"PMI_LOCAL_SIZE", "3"}}, false, 3},
    {{{"MPI_LOCALNRANKS", "1"}, {"PMI_SIZE", "2"}}, false, 1}, /* hydra, a process on each of two hosts */
    {{{"PMIX_RANK", "0"}}, false, 0},                          /* the number is not told */
};

static void alone_or_in_a_job(void **state)
{
    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        for (size_t v = 0; v < ROWS(variables); v++)
            unsetenv(variables[v]);
        for (int v = 0; v < 3 && rows[i].set[v][0]; v++)
            setenv(rows[i].set[v][0], rows[i].set[v][1], 1);
        if (bb_launched_alone() != rows[i].alone || bb_launcher_local_size() != rows[i].local_size)
            fail_msg("row %zu: alone %d, local size %d", i, bb_launched_alone(), bb_launcher_local_size());
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(alone_or_in_a_job)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
