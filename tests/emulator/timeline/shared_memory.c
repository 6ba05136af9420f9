/* shared_memory.c - the memory of a timeline, which processes share, and its lock. See timeline.h. */
#include "state.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- elements ---- */

void tl_fail(struct emu_timeline *t, const char *format, ...)
{
    va_list args;

    if (t->b->failure[0] != '\0')
        return;
    va_start(args, format);
    vsnprintf(t->b->failure, sizeof(t->b->failure), format, args);
    va_end(args);
}

int tl_take(struct emu_timeline *t, struct tl_pool *pool, void *elements, size_t bytes, const char *what, int most)
{
    int at = pool->unused;
    char *element;

    if (at == 0 && pool->n + 1 >= most) {
        tl_fail(t, TL_FULL, what, most - 1);
        return 0;
    }
    if (at == 0)
        at = ++pool->n;
    element = (char *)elements + (size_t)at * bytes;
    if (at == pool->unused)
        memcpy(&pool->unused, element, sizeof(pool->unused));
    memset(element, 0, bytes);
    return at;
}

void tl_give_back(struct tl_pool *pool, void *elements, size_t bytes, int at)
{
    memcpy((char *)elements + (size_t)at * bytes, &pool->unused, sizeof(pool->unused));
    pool->unused = at;
}

/* ---- the lock ---- */

bool emu_timeline_lock(struct emu_timeline *t)
{
    if (pthread_mutex_lock(&t->b->lock) == EOWNERDEAD) {
        tl_fail(t, "a process died while it held the lock");
        t->b->owner_died = true;
        pthread_mutex_consistent(&t->b->lock);
    }
    t->flows.round = t->b->round;
    t->flows.update = t->b->update;
    if (t->b->failure[0] == '\0')
        return true;
    pthread_mutex_unlock(&t->b->lock);
    return false;
}

void emu_timeline_unlock(struct emu_timeline *t)
{
    tl_run_events(t);
    t->b->round = t->flows.round;
    t->b->update = t->flows.update;
    pthread_mutex_unlock(&t->b->lock);
}

const char *emu_timeline_failure(const struct emu_timeline *t, bool *owner_died)
{
    *owner_died = t->b->owner_died;
    return t->b->failure;
}

/* ---- open and close ---- */

/* Lays out one array after the previous ones; base NULL: only counts the bytes. */
#define LAY_OUT(array, n)                                                                                              \
    do {                                                                                                               \
        at = (at + 63) / 64 * 64;                                                                                      \
        (array) = base == NULL ? NULL : (void *)(base + at);                                                           \
        at += (size_t)(n) * sizeof(*(array));                                                                          \
    } while (0)

static size_t lay_out_arrays(struct emu_timeline *t, char *base)
{
    size_t at = 0;

    LAY_OUT(t->b, 1);
    LAY_OUT(t->hosts, TL_HOSTS);
    LAY_OUT(t->clocks, TL_HOSTS);
    LAY_OUT(t->bounds, TL_HOSTS);
    LAY_OUT(t->gpus, TL_GPUS);
    LAY_OUT(t->shared_resources, TL_SHARED_RESOURCES);
    LAY_OUT(t->lanes, TL_LANES);
    LAY_OUT(t->steps, TL_STEPS);
    LAY_OUT(t->moments, TL_MOMENTS);
    LAY_OUT(t->endpoints, TL_ENDPOINTS);
    LAY_OUT(t->calls, TL_CALLS);
    LAY_OUT(t->pairs, TL_PAIRS);
    LAY_OUT(t->owners, TL_FLOWS);
    LAY_OUT(t->events, TL_EVENTS);
    LAY_OUT(t->dirty, TL_GPUS);
    LAY_OUT(t->use_at, TL_RESOURCES);
    LAY_OUT(t->memory_of, TL_RESOURCES);
    LAY_OUT(t->flows.flows, TL_FLOWS);
    LAY_OUT(t->flows.resources, TL_RESOURCES);
    LAY_OUT(t->flows.residuals, TL_RESOURCES);
    LAY_OUT(t->flows.uses, TL_USES);
    LAY_OUT(t->flows.fresh, TL_FLOWS);
    LAY_OUT(t->flows.stale, TL_RESOURCES);
    LAY_OUT(t->flows.component, TL_FLOWS);
    LAY_OUT(t->flows.scarce, TL_RESOURCES);
    LAY_OUT(t->flows.changed, TL_FLOWS);
    return (at + 4095) / 4096 * 4096;
}

static void init_lock(pthread_mutex_t *lock)
{
    pthread_mutexattr_t attr;

    pthread_mutexattr_init(&attr);
    pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(lock, &attr);
    pthread_mutexattr_destroy(&attr);
}

struct emu_timeline *emu_timeline_open(const struct bb_cluster *machine, int fd)
{
    struct emu_timeline *t = calloc(1, sizeof(*t));
    const bool is_new = fd < 0;
    struct stat st;
    void *base;

    if (t == NULL)
        return NULL;
    t->machine = machine;
    t->bytes = lay_out_arrays(t, NULL);
    t->fd = is_new ? memfd_create(EMU_TIMELINE, MFD_CLOEXEC) : fd;
    if (t->fd < 0 || (is_new && ftruncate(t->fd, (off_t)t->bytes) != 0) || fstat(t->fd, &st) != 0 ||
        (size_t)st.st_size != t->bytes)
        goto failed;
    base = mmap(NULL, t->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, t->fd, 0);
    if (base == MAP_FAILED)
        goto failed;
    lay_out_arrays(t, base);
    if (is_new)
        init_lock(&t->b->lock);
    return t;
failed:
    if (t->fd >= 0)
        close(t->fd);
    free(t);
    return NULL;
}

int emu_timeline_descriptor(const struct emu_timeline *t)
{
    return t->fd;
}

void emu_timeline_close(struct emu_timeline *t)
{
    munmap(t->b, t->bytes);
    close(t->fd);
    free(t);
}
