/* launcher.c - see launcher.h. */
#include "bootstrap/start/launcher.h"

#include <stddef.h>
#include <stdlib.h>

int bb_launcher_rank(void)
{
    static const char *const ranks[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "PMI_ID", "SLURM_PROCID"};

    for (size_t i = 0; i < sizeof(ranks) / sizeof(*ranks); i++)
        if (getenv(ranks[i]))
            return atoi(getenv(ranks[i]));
    return 0;
}
