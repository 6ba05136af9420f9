/* device_buffers.c - device memory for the buffers of a step program (device_buffers.h). */
#include "proxies/run/device_buffers.h"

#include "cuda/data/buffers.h"

#include <stdlib.h>

struct bb_device_buffers {
    int n;
    struct bb_guarded areas[];
};

size_t bb_device_buffers_cost(const size_t *bytes, int n)
{
    size_t total = 0;

    for (int i = 0; i < n; i++)
        total += bb_guarded_cost(bytes[i]);
    return total;
}

int bb_device_buffers_init(struct bb_device_buffers **areas, const size_t *bytes, int n, cudaStream_t stream)
{
    struct bb_device_buffers *m = calloc(1, sizeof(*m) + (size_t)n * sizeof(m->areas[0]));
    int rc;

    *areas = m;
    if (!m)
        return bb_err(BB_EFAIL, "no memory for %d buffers", n);
    for (; m->n < n; m->n++)
        TRY(bb_guarded_init(&m->areas[m->n], bytes[m->n], stream));
    return 0;
out:
    bb_device_buffers_release(m);
    *areas = NULL;
    return rc;
}

void bb_device_buffers_release(struct bb_device_buffers *m)
{
    for (int i = 0; m && i < m->n; i++)
        bb_guarded_release(&m->areas[i]);
    free(m);
}

void *bb_device_buffers_at(const struct bb_device_buffers *m, int i)
{
    return i < 0 ? NULL : m->areas[i].area;
}

int bb_device_buffers_check_guards(const struct bb_device_buffers *m, struct bb_verdict *verdict, cudaStream_t stream)
{
    int rc = 0;

    for (int i = 0; i < m->n; i++)
        TRY(bb_guarded_check_guards(&m->areas[i], verdict, stream));
out:
    return rc;
}
