/* hazards.c - see hazards.h. A hazard is off unless its environment variable is set. */
#include "hazards.h"

#include <stdlib.h>

int emu_env_number(const char *name, int most)
{
    const char *value = getenv(name);
    char *end;
    long n;

    if (!value || !*value)
        return 0;
    n = strtol(value, &end, 10);
    if (*end || n < 0 || n > most)
        emu_die("%s=%s: expected 0 to %d", name, value, most);
    return (int)n;
}

/* As the driver reads it: a value out of range becomes the nearest valid one, a value that is no number the default
 * 8. */
static int requested_connections(void)
{
    const char *value = getenv("CUDA_DEVICE_MAX_CONNECTIONS");
    int n = value ? atoi(value) : 0;

    return n <= 0 ? 8 : n > EMU_MAX_QUEUES ? EMU_MAX_QUEUES : n;
}

/* The clients of an MPS server share its connections; the first clients take theirs first. */
static cudaError_t start_result(void)
{
    const int driver = emu_env_number("EMU_DRIVER", 1000000), connections = emu_env_number("EMU_MPS_CONNECTIONS", 1000);

    if (driver > 0 && driver / 1000 < CUDART_VERSION / 1000)
        return cudaErrorInsufficientDriver;
    if (connections > 0 && (emu_world_rank() + 1) * requested_connections() > connections)
        return cudaErrorMpsMaxConnectionsReached;
    return cudaSuccess;
}

void emu_hazards_load(void)
{
    emu.start_result = start_result();
    emu.n_queues = emu_env_number("EMU_HARDWARE_QUEUES", 1) ? requested_connections() : 0;
    emu.launch_queue = emu_env_number("EMU_LAUNCH_QUEUE", 1000000);
    emu.poll_ns = emu_ns_of_us(emu_env_number("EMU_POLL_US", 1000000));
    for (int d = 0; d < EMU_MAX_DEVICES; d++)
        for (int i = 0; i < EMU_MAX_QUEUES; i++)
            pthread_cond_init(&emu.devices[d].queues[i].turn, NULL);
}

/* ---- hardware queues ---- */

static struct emu_queue *next_queue_locked(int device)
{
    struct emu_device *d = &emu.devices[device];

    return &d->queues[d->queues_given++ % (unsigned)emu.n_queues];
}

void emu_queue_assign_locked(struct CUstream_st *s)
{
    if (emu.n_queues > 0 && s->kind != EMU_STREAM_LANE)
        s->queue = next_queue_locked(s->device);
}

void emu_skip_streams(int device, int n)
{
    emu_init();
    emu_lock();
    for (int i = 0; i < n && emu.n_queues > 0 && device >= 0 && device < EMU_MAX_DEVICES; i++)
        (void)next_queue_locked(device);
    emu_unlock();
}

void emu_queue_take_locked(struct CUstream_st *s, struct emu_item *item)
{
    if (s->queue)
        item->position = s->queue->given++;
}

void emu_queue_await_locked(struct CUstream_st *s, const struct emu_item *item)
{
    if (!s->queue)
        return;
    while (s->queue->begun != item->position)
        pthread_cond_wait(&s->queue->turn, &emu.lock);
    if (s->clock_ns < s->queue->clock_ns)
        s->clock_ns = s->queue->clock_ns;
}

void emu_queue_begin_locked(struct CUstream_st *s, const struct emu_item *item)
{
    if (!s->queue)
        return;
    s->queue->begun = item->position + 1;
    s->queue->clock_ns = s->clock_ns;
    pthread_cond_broadcast(&s->queue->turn);
}

/* ---- launch queue ---- */

void emu_launch_queue_await_locked(struct CUstream_st *s, int entries)
{
    bool waited = false;

    if (emu.launch_queue == 0 || s->kind == EMU_STREAM_LANE)
        return;
    while (s->entries > 0 && s->entries + entries > emu.launch_queue) {
        emu_contention_host_waits_one_locked(s);
        pthread_cond_wait(&s->has_space, &emu.lock);
        waited = true;
    }
    if (waited)
        emu_host_reach_locked(s->clock_ns);
}

void emu_launch_queue_free_locked(struct CUstream_st *s, const struct emu_item *item)
{
    s->entries -= item->entries;
    pthread_cond_broadcast(&s->has_space);
}
