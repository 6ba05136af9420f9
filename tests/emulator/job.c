/* job.c - the rank and size of this process in its job, from the environment that launchers set, and its emulated
 * node. */
#include "internal.h"
#include <stdio.h>
#include <stdlib.h>

int emu_rank_from(const char *const *names, int n, int fallback)
{
    for (int i = 0; i < n; i++) {
        const char *value = getenv(names[i]);
        char *end;
        long number;

        if (!value || !*value)
            continue;
        number = strtol(value, &end, 10);
        if (!*end && number >= 0 && number <= 1 << 30)
            return (int)number;
    }
    return fallback;
}

/* Returns the number of ranks per process of the launcher, if that process has forked further ranks (-g and -t of
 * busbar), else 1. place: out, index of this rank among them. */
static int siblings(int *place)
{
    const char *text = getenv("BUSBAR_SIBLINGS");
    int n = 1;

    *place = 0;
    return text && sscanf(text, "%d %d", place, &n) == 2 && n > 0 ? n : 1;
}

int emu_world_rank(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"};
    int place;
    const int n = siblings(&place), rank = emu_rank_from(names, 4, 0);

    return place == 0 ? rank * n : rank; /* the first rank keeps the launcher's variables, the others have their own */
}

int emu_world_size(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"};

    int place;

    return emu_rank_from(names, 3, 1) * siblings(&place);
}

int emu_nodes(void)
{
    static const char *const names[] = {"EMU_NODES"};

    return emu_rank_from(names, 1, 0);
}

int emu_node_of(int at, int all)
{
    return at < all ? (int)((int64_t)at * emu_nodes() / all) : emu_nodes() - 1;
}
