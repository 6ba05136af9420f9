/* stream.c - see stream.h. */
#include "cuda/device/stream.h"

#include "cuda/device/check.h"

#include <math.h>

struct poll {
    cudaStream_t stream;
    cudaEvent_t event; /* event to wait for; NULL: wait for the whole stream */
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

static int comm_health(void *arg)
{
    return bb_comm_check(arg);
}

int bb_comm_wait(struct bb_comm *c, cudaStream_t stream, const char *what)
{
    return bb_stream_wait(c->world, stream, what, comm_health, c);
}

int bb_event_difference_us(cudaEvent_t from, cudaEvent_t to, double *us)
{
    float ms = 0;
    int rc = BB_CUDA(cudaEventElapsedTime(&ms, from, to));

    *us = (double)ms * 1e3;
    if (rc || isfinite(ms))
        return rc;
    return bb_err(BB_EFAIL, "cudaEventElapsedTime: %g ms between two events, expected a finite number", (double)ms);
}

int bb_event_us(cudaEvent_t start, cudaEvent_t stop, double *us)
{
    int rc = bb_event_difference_us(start, stop, us);

    if (rc || *us >= 0)
        return rc;
    return bb_err(BB_EFAIL, "cudaEventElapsedTime: %g ms between an event and a later event, expected 0 or more",
                  1e-3 * *us);
}

int bb_fill_repeated(void *area, size_t bytes, const void *block, size_t block_bytes, cudaStream_t stream)
{
    size_t done = bytes < block_bytes ? bytes : block_bytes;
    int rc = BB_CUDA(cudaMemcpyAsync(area, block, done, cudaMemcpyHostToDevice, stream));

    while (done < bytes && rc == 0) {
        size_t more = bytes - done < done ? bytes - done : done;
        rc = BB_CUDA(cudaMemcpyAsync((char *)area + done, area, more, cudaMemcpyDeviceToDevice, stream));
        done += more;
    }
    return rc;
}

void bb_event_destroy(cudaEvent_t event)
{
    if (event)
        (void)cudaEventDestroy(event);
}

void bb_stream_destroy(cudaStream_t stream)
{
    if (stream)
        (void)cudaStreamDestroy(stream);
}
