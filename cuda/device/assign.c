/*
 * assign.c - see assign.h. Bipartite matching by augmenting paths. A rank is assigned the first free GPU that is
 * visible to it. If no visible GPU is free, a rank that has one of these GPUs is moved to another GPU, if possible.
 */
#include "cuda/device/assign.h"

#include "bootstrap/base/alloc.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct visible_gpu {
    const unsigned char *uuid;
    int rank, slot;
};

struct matching {
    const struct bb_visible *ranks;
    int first, *ordinal;
    struct visible_gpu *visible_gpus; /* every pair of a rank and a GPU visible to it, sorted by UUID */
    int *gpu;   /* [rank * BB_VISIBLE_MAX + device number] index of the GPU with this device number on this rank, among
                 all GPUs of the job in UUID order */
    int *owner; /* [n_gpus] rank to which each GPU is assigned; -1: free */
    bool *visited; /* [n_gpus] whether the current search for an augmenting path has visited the GPU */
    int n_gpus;
};

static int compare_visible_gpus(const void *a, const void *b)
{
    return memcmp(((const struct visible_gpu *)a)->uuid, ((const struct visible_gpu *)b)->uuid, BB_UUID_BYTES);
}

static void number_gpus(struct matching *m, int n)
{
    int seen = 0;

    for (int r = 0; r < n; r++)
        for (int s = 0; s < m->ranks[r].n; s++)
            m->visible_gpus[seen++] = (struct visible_gpu){m->ranks[r].uuid[s], r, s};
    qsort(m->visible_gpus, (size_t)seen, sizeof(*m->visible_gpus), compare_visible_gpus);
    for (int i = 0; i < seen; i++) {
        if (i == 0 || compare_visible_gpus(&m->visible_gpus[i - 1], &m->visible_gpus[i]) != 0)
            m->owner[m->n_gpus++] = -1;
        m->gpu[m->visible_gpus[i].rank * BB_VISIBLE_MAX + m->visible_gpus[i].slot] = m->n_gpus - 1;
    }
}

static int gpu_at(const struct matching *m, int rank, int slot)
{
    return m->gpu[rank * BB_VISIBLE_MAX + slot];
}

static bool assign_gpu(struct matching *m, int rank, int slot)
{
    m->owner[gpu_at(m, rank, slot)] = rank;
    m->ordinal[rank] = slot;
    return true;
}

static bool take_free_gpu(struct matching *m, int rank)
{
    for (int s = m->first; s < m->ranks[rank].n; s++)
        if (m->owner[gpu_at(m, rank, s)] < 0)
            return assign_gpu(m, rank, s);
    return false;
}

static bool take_gpu_of_other(struct matching *m, int rank)
{
    for (int s = m->first; s < m->ranks[rank].n; s++) {
        int gpu = gpu_at(m, rank, s);

        if (m->visited[gpu])
            continue;
        m->visited[gpu] = true;
        if (take_free_gpu(m, m->owner[gpu]) || take_gpu_of_other(m, m->owner[gpu]))
            return assign_gpu(m, rank, s);
    }
    return false;
}

static void match_all(struct matching *m, int n, struct bb_assigned *assigned)
{
    *assigned = (struct bb_assigned){-1, -1};
    for (int r = 0; r < n; r++) {
        if (take_free_gpu(m, r))
            continue;
        memset(m->visited, 0, (size_t)m->n_gpus * sizeof(*m->visited));
        if (take_gpu_of_other(m, r) || assigned->unassigned >= 0)
            continue;
        assigned->unassigned = r;
        assigned->owner = m->ranks[r].n > m->first ? m->owner[gpu_at(m, r, m->first)] : -1;
    }
}

void bb_devices_assign(const struct bb_visible *ranks, int n, int first, int *ordinal, struct bb_assigned *assigned)
{
    const size_t most = (size_t)n * BB_VISIBLE_MAX;
    struct matching m = {.ranks = ranks, .first = first, .ordinal = ordinal};

    BB_NEW(m.visible_gpus, most);
    BB_NEW(m.gpu, most);
    BB_NEW(m.owner, most);
    BB_NEW(m.visited, most);
    number_gpus(&m, n);
    match_all(&m, n, assigned);
    free(m.visible_gpus);
    free(m.gpu);
    free(m.owner);
    free(m.visited);
}
