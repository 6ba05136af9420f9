/* environment.c - launcher variables and the variable that passes sockets to forked ranks. Lines NAME=VALUE with the
 * names below. */
#include "bootstrap/base/environment.h"
#include "bootstrap/start/launcher.h"
#include "bootstrap/world/siblings.h"
#include "tests/fuzz/fuzz.h"

static const char *const variables[] = {"OMPI_COMM_WORLD_RANK",
                                        "PMI_RANK",
                                        "PMIX_RANK",
                                        "SLURM_PROCID",
                                        "OMPI_COMM_WORLD_SIZE",
                                        "PMI_SIZE",
                                        "SLURM_NTASKS",
                                        "SLURM_STEP_NUM_TASKS",
                                        "OMPI_COMM_WORLD_LOCAL_SIZE",
                                        "MPI_LOCALNRANKS",
                                        "SLURM_STEP_ID",
                                        "BUSBAR_SIBLINGS",
                                        "SLURM_STEP_TASKS_PER_NODE",
                                        "SLURM_NODEID",
                                        "SLURM_NTASKS_PER_NODE",
                                        "PMI_LOCAL_SIZE"};
enum { N_VARIABLES = sizeof variables / sizeof *variables };

static void set_variable(char *line)
{
    char *value = strchr(line, '=');

    if (!value)
        return;
    *value++ = '\0';
    HOLDS(*bb_environment_value(line, "set"));
    (void)bb_environment_is_recorded(line);
    for (int i = 0; i < N_VARIABLES; i++)
        if (strcmp(line, variables[i]) == 0)
            setenv(line, value, 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size), *line[FUZZ_ARGUMENTS + 1];
    struct bb_siblings *siblings;
    int n = fuzz_arguments("", text, line);

    for (int i = 0; i < N_VARIABLES; i++)
        unsetenv(variables[i]);
    for (int i = 1; i < n; i++)
        set_variable(line[i]);
    (void)bb_launcher_rank();
    (void)bb_launcher_local_size();
    (void)bb_launched_alone();
    (void)bb_launcher_claim();
    (void)!bb_siblings_take(&siblings);
    bb_siblings_release(siblings);
    free(text);
    return 0;
}
