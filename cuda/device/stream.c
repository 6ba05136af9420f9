/* stream.c - streams and events polled through bb_world_wait. */
#include "cuda/device/stream.h"

#include "cuda/device/check.h"

struct poll {
    cudaStream_t stream;
    cudaEvent_t event; /* NULL: the stream */
    bb_health *health;
    void *arg;
};

static int gpu_is_done(void *arg)
{
    const struct poll *p = arg;
    cudaError_t e = p->event ? cudaEventQuery(p->event) : cudaStreamQuery(p->stream);

    if (e == cudaSuccess)
        return 1;
    if (e != cudaErrorNotReady)
        return bb_cuda_at(e, p->event ? "cudaEventQuery" : "cudaStreamQuery", __FILE__, __LINE__);
    return p->health ? p->health(p->arg) : 0;
}

int bb_stream_wait(struct bb_world *w, cudaStream_t stream, const char *what, bb_health *health, void *arg)
{
    struct poll p = {.stream = stream, .health = health, .arg = arg};

    return bb_world_wait(w, what, gpu_is_done, &p);
}

int bb_event_wait(struct bb_world *w, cudaEvent_t event, const char *what, bb_health *health, void *arg)
{
    struct poll p = {.event = event, .health = health, .arg = arg};

    return bb_world_wait(w, what, gpu_is_done, &p);
}
