/* unknown_launcher.c - detects launchers by the usual names of their variables. */
#include "bootstrap/start/unknown_launcher.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Suffixes of the variables for the rank and for the number of ranks. The prefix is specific to the launcher and may
 * be empty. Examples: RANK and WORLD_SIZE, HOROVOD_RANK and HOROVOD_SIZE, MPI_RANKID and MPI_NRANKS. */
static const char *const rank_ends[] = {"WORLD_RANK", "RANKID", "RANK", "PROCID", "TASKID"};
static const char *const size_ends[] = {"WORLD_SIZE", "NRANKS", "SIZE", "NTASKS", "NPROCS", "NUM_TASKS"};
enum { N_RANK_ENDS = sizeof(rank_ends) / sizeof(*rank_ends), N_SIZE_ENDS = sizeof(size_ends) / sizeof(*size_ends) };

/* A variable with one of these suffixes and a number as its value. text: the variable as "NAME=value"; prefix:
 * length of the prefix in bytes. */
struct number {
    const char *text;
    size_t prefix;
    long value;
};

static bool read_number(const char *variable, const char *const *ends, size_t n, struct number *number)
{
    const size_t name = strcspn(variable, "=");
    char *end = NULL;

    for (size_t i = 0; i < n; i++) {
        const size_t length = strlen(ends[i]);

        if (length > name || strncmp(variable + name - length, ends[i], length) != 0 || variable[name] != '=')
            continue;
        *number = (struct number){variable, name - length, strtol(variable + name + 1, &end, 10)};
        return variable[name + 1] != '\0' && *end == '\0' && number->value >= 0;
    }
    return false;
}

/* Returns whether the variable belongs to a launcher that launcher.c handles, to busbar or to the GPU emulator. */
static bool is_known(const char *variable)
{
    static const char *const prefixes[] = {"OMPI_", "PMIX_", "PMI_", "MPI_LOCAL", "MV2_", "SLURM_", "BUSBAR_", "EMU_"};

    for (size_t i = 0; i < sizeof(prefixes) / sizeof(*prefixes); i++)
        if (strncmp(variable, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    return false;
}

bool bb_unknown_launcher(void)
{
    struct number rank;

    for (char **variable = environ; variable && *variable; variable++)
        if (!is_known(*variable) && read_number(*variable, rank_ends, N_RANK_ENDS, &rank))
            return true;
    return false;
}

static bool has_rank_of(const struct number *size)
{
    struct number rank;

    for (char **variable = environ; variable && *variable; variable++)
        if (read_number(*variable, rank_ends, N_RANK_ENDS, &rank) && rank.value < size->value &&
            rank.prefix == size->prefix && strncmp(rank.text, size->text, size->prefix) == 0)
            return true;
    return false;
}

const char *bb_launcher_claim(void)
{
    struct number size;

    for (char **variable = environ; variable && *variable; variable++)
        if (read_number(*variable, size_ends, N_SIZE_ENDS, &size) && size.value > 1 && has_rank_of(&size))
            return *variable;
    return NULL;
}
