/* memory.c - device memory for the buffers of a step program (memory.h). */
#include "proxies/memory.h"

#include "cuda/buffers.h"

#include <stdlib.h>

struct bb_memory {
    int n;
    struct bb_buffer areas[];
};

size_t bb_memory_cost(const size_t *bytes, int n)
{
    size_t total = 0;

    for (int i = 0; i < n; i++)
        total += bb_buffer_cost(bytes[i]);
    return total;
}

int bb_memory_refuse(const size_t *bytes, int n)
{
    return bb_memory_fits(bb_memory_cost(bytes, n), "more ranks, more stages or fewer layers need less");
}

int bb_memory_init(struct bb_memory **memory, const size_t *bytes, int n, cudaStream_t stream)
{
    struct bb_memory *m = calloc(1, sizeof(*m) + (size_t)n * sizeof(m->areas[0]));
    int rc;

    *memory = m;
    if (!m)
        return bb_err(BB_EFAIL, "no memory for %d buffers", n);
    for (; m->n < n; m->n++)
        TRY(bb_buffer_init(&m->areas[m->n], bytes[m->n], stream));
    return 0;
out:
    bb_memory_release(m);
    *memory = NULL;
    return rc;
}

void bb_memory_release(struct bb_memory *m)
{
    for (int i = 0; m && i < m->n; i++)
        bb_buffer_release(&m->areas[i]);
    free(m);
}

void *bb_memory_at(const struct bb_memory *m, int i)
{
    return i < 0 ? NULL : m->areas[i].area;
}

int bb_memory_check_guards(const struct bb_memory *m, struct bb_verdict *verdict, cudaStream_t stream)
{
    int rc = 0;

    for (int i = 0; i < m->n; i++)
        TRY(bb_buffer_check_guards(&m->areas[i], verdict, stream));
out:
    return rc;
}
