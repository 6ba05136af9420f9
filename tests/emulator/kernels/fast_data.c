/*
 * fast_data.c - fast twins of the kernels of test data (cuda/data/data_kernels.cuh) and of the start barrier: the same
 * functions of cuda/data/pattern.h in one loop. test_kernel_sources compares them with the kernels' sources.
 */
#include "twins.h"

#include "cuda/compute/start_barrier.h"
#include "cuda/data/kernel_args.h"

#include <time.h>

/* A wait polls after pauses of an eighth of its time so far, within these limits: on a machine with fewer cores than ranks, shorter pauses
 * take most of the CPU time of a job. */
enum { MIN_PAUSE_NS = 5000, MAX_PAUSE_NS = 500000 };

static void fill(struct emu_launch *l)
{
    const struct bb_fill_args *a = &EMU_ARG(l, 0, struct bb_fill_args);

    for (uint64_t i = 0; i < a->count; i++)
        bb_store(a->buf, a->pattern.bytes, i, bb_pattern_input(&a->pattern, a->rank, a->first + i));
}

static double fill_ns(const struct emu_launch *l, const struct emu_profile *p)
{
    const struct bb_fill_args *a = &EMU_ARG(l, 0, struct bb_fill_args);

    return emu_kernel_ns(p, (double)a->count * a->pattern.bytes, 0, 0);
}

static void add_wrong(struct bb_verdict *v, uint64_t i)
{
    v->wrong++;
    if (i < v->first)
        v->first = i;
}

static void check(struct emu_launch *l)
{
    const struct bb_check_args *a = &EMU_ARG(l, 0, struct bb_check_args);

    for (uint64_t i = 0; i < a->count; i++)
        if (bb_differs(&a->pattern, bb_load(a->buf, a->pattern.bytes, i), bb_expected(&a->pattern, &a->expect, i)))
            add_wrong(a->verdict, i);
    a->verdict->checked += a->count;
}

static double check_ns(const struct emu_launch *l, const struct emu_profile *p)
{
    const struct bb_check_args *a = &EMU_ARG(l, 0, struct bb_check_args);

    return emu_kernel_ns(p, (double)a->count * a->pattern.bytes, 0, 0);
}

static void check_bytes(struct emu_launch *l)
{
    const struct bb_check_bytes_args *a = &EMU_ARG(l, 0, struct bb_check_bytes_args);

    for (uint64_t i = 0; i < a->bytes; i++)
        if (((const unsigned char *)a->buf)[i] != a->value)
            add_wrong(a->verdict, i);
    a->verdict->checked += a->bytes;
}

static double check_bytes_ns(const struct emu_launch *l, const struct emu_profile *p)
{
    return emu_kernel_ns(p, (double)EMU_ARG(l, 0, struct bb_check_bytes_args).bytes, 0, 0);
}

static void verdict_clear(struct emu_launch *l)
{
    *EMU_ARG(l, 0, struct bb_verdict *) = (struct bb_verdict){.first = ~0ull};
}

static int64_t wall_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

void start_barrier_ends(struct emu_launch *l, bool expired)
{
    const int64_t limit_ns = EMU_ARG(l, 0, struct bb_start_barrier_args).limit_ns, opened_ns = emu_host_now_ns();

    if (expired)
        l->end_ns += limit_ns;
    else if (opened_ns > l->end_ns)
        l->end_ns = opened_ns;
}

static int64_t pause_ns(int64_t waited_ns)
{
    const int64_t ns = waited_ns / 8;

    return ns < MIN_PAUSE_NS ? MIN_PAUSE_NS : ns < MAX_PAUSE_NS ? ns : MAX_PAUSE_NS;
}

static void start_barrier(struct emu_launch *l)
{
    const struct bb_start_barrier_args *a = &EMU_ARG(l, 0, struct bb_start_barrier_args);
    const int64_t begin_ns = wall_ns();
    int64_t waited_ns = 0;
    bool expired = false;

    while (!expired && __atomic_load_n(&a->flags->opened, __ATOMIC_ACQUIRE) < a->number && !emu_stopping()) {
        waited_ns = wall_ns() - begin_ns;
        expired = waited_ns >= a->limit_ns;
        nanosleep(&(struct timespec){.tv_nsec = pause_ns(waited_ns)}, NULL);
    }
    if (expired)
        __atomic_store_n(&a->flags->expired, a->number, __ATOMIC_RELEASE);
    start_barrier_ends(l, expired);
}

static double start_barrier_ns(const struct emu_launch *l, const struct emu_profile *p)
{
    (void)l, (void)p;
    return 0;
}

static const struct emu_twin twins[] = {
    {.name = "bb_fill_kernel",
     .n_args = 1,
     .arg_bytes = {sizeof(struct bb_fill_args)},
     .run = fill,
     .lasts_ns = fill_ns},
    {.name = "bb_check_kernel",
     .n_args = 1,
     .arg_bytes = {sizeof(struct bb_check_args)},
     .run = check,
     .lasts_ns = check_ns},
    {.name = "bb_check_bytes_kernel",
     .n_args = 1,
     .arg_bytes = {sizeof(struct bb_check_bytes_args)},
     .run = check_bytes,
     .lasts_ns = check_bytes_ns},
    {.name = "bb_verdict_clear_kernel", .n_args = 1, .arg_bytes = {sizeof(void *)}, .run = verdict_clear},
    {.name = "bb_start_barrier_kernel",
     .n_args = 1,
     .arg_bytes = {sizeof(struct bb_start_barrier_args)},
     .run = start_barrier,
     .lasts_ns = start_barrier_ns,
     .waits = true,
     .always = true},
};

const struct emu_twin *fast_data_twins(size_t *n)
{
    *n = sizeof twins / sizeof *twins;
    return twins;
}
