/* device_buffers.c - device memory for the buffers of a step program (see device_buffers.h). */
#include "proxies/runner/run/device_buffers.h"

#include "bootstrap/base/alloc.h"

#include <stdlib.h>

size_t bb_device_buffers_cost(const size_t *bytes, int n)
{
    size_t total = 0;

    for (int i = 0; i < n; i++)
        total += bb_guarded_bytes(bytes[i]);
    return total;
}

int bb_device_buffers_init(struct bb_device_buffers *m, const size_t *bytes, int n, const struct bb_allocator *from,
                           cudaStream_t stream)
{
    size_t at = 0, total = bb_device_buffers_cost(bytes, n);
    void *memory = NULL;
    int rc = 0;

    *m = (struct bb_device_buffers){.from = from};
    BB_NEW(m->areas, n);
    if (total > 0)
        TRY(from->alloc(&memory, total));
    m->memory = memory;
    for (; m->n < n; m->n++) {
        TRY(bb_guarded_place(&m->areas[m->n], m->memory + at, bytes[m->n], stream));
        at += bb_guarded_bytes(bytes[m->n]);
    }
out:
    if (rc)
        bb_device_buffers_release(m);
    return rc;
}

void bb_device_buffers_release(struct bb_device_buffers *m)
{
    if (m->memory)
        m->from->free(m->memory);
    free(m->areas);
    *m = (struct bb_device_buffers){0};
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
