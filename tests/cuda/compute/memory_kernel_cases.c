/* memory_kernel_cases.c - see memory_kernel_cases.h. */
#include "memory_kernel_cases.h"

#include "tests/cuda/work/element.h"
#include "tests/cuda/work/memory_kernel_ref.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MARGIN = 64, CANARY = 0xa5 };

/* One array twice: for the runner and for the reference. The memory begins MARGIN bytes before `at`. */
struct twofold {
    struct bb_memory_kernel_array what;
    unsigned char *memory[2], *at[2];
    size_t bytes; /* of a memory */
};

struct scene {
    struct bb_memory_kernel memory_kernel[2];
    struct twofold arrays[BB_MEMORY_KERNEL_ARRAYS];
    int n;
    uint64_t seed;
};

static double chance(struct scene *s)
{
    s->seed = s->seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(s->seed >> 11) * 0x1p-53;
}

static void fill_array(struct scene *s, const struct twofold *a)
{
    const struct bb_memory_kernel *p = &s->memory_kernel[0];

    for (size_t i = 0; i < a->what.count; i++) {
        double x = chance(s);
        if (a->what.content == BB_HOLDS_ELEMENTS)
            bb_element_set(a->at[0], p->dtype, i, 4 * x - 2);
        else if (a->what.content == BB_HOLDS_INDICES)
            ((int32_t *)a->at[0])[i] =
                p->kind != BB_MEMORY_KERNEL_EMBED && x < 0.1 ? -1 : (int32_t)(chance(s) * (double)p->in_rows);
        else
            ((float *)a->at[0])[i] = (float)(a->what.content == BB_HOLDS_SQUARES ? x : 4 * x - 2);
    }
}

static void make_array(struct scene *s, struct twofold *a, int misaligned)
{
    size_t each = a->what.bytes / a->what.count, shift = misaligned ? each : 0;

    a->bytes = (a->what.bytes + shift + 2 * MARGIN + 63) / 64 * 64;
    for (int i = 0; i < 2; i++) {
        a->memory[i] = aligned_alloc(64, a->bytes);
        if (!a->memory[i])
            abort();
        memset(a->memory[i], CANARY, a->bytes);
        a->at[i] = a->memory[i] + MARGIN + shift;
        bb_memory_kernel_set(&s->memory_kernel[i], &a->what, a->at[i]);
    }
    fill_array(s, a);
    memcpy(a->memory[1], a->memory[0], a->bytes);
}

static void scene_init(struct scene *s, const struct bb_memory_kernel *memory_kernel, int misaligned, uint64_t seed)
{
    struct bb_memory_kernel_array arrays[BB_MEMORY_KERNEL_ARRAYS];

    *s = (struct scene){.memory_kernel = {*memory_kernel, *memory_kernel}, .seed = seed};
    s->n = bb_memory_kernel_arrays(memory_kernel, arrays);
    for (int i = 0; i < s->n; i++) {
        s->arrays[i].what = arrays[i];
        make_array(s, &s->arrays[i], misaligned);
    }
}

static void scene_release(struct scene *s)
{
    for (int i = 0; i < s->n; i++)
        for (int j = 0; j < 2; j++)
            free(s->arrays[i].memory[j]);
}

/* ---- comparison ---- */

/* Moves are exact; arithmetic in float may end one step beside the reference, which computes in double. */
static double tolerance_of(const struct bb_memory_kernel *p, enum bb_memory_kernel_content content, double want)
{
    double step = content != BB_HOLDS_ELEMENTS || p->dtype == BB_FLOAT ? 1e-5 : p->dtype == BB_HALF ? 0x1p-10 : 0x1p-7;
    double size = fabs(want) > 0.1 ? fabs(want) : 0.1;

    return p->kind < BB_MEMORY_KERNEL_UNPERMUTE || p->kind == BB_MEMORY_KERNEL_PACK || p->kind == BB_MEMORY_KERNEL_UNPACK ? 0 : step * size * 1.01;
}

static double value_at(const struct bb_memory_kernel *p, const struct twofold *a, int which, size_t i)
{
    if (a->what.content == BB_HOLDS_INDICES)
        return ((const int32_t *)a->at[which])[i];
    return bb_element_get(a->at[which], a->what.content == BB_HOLDS_ELEMENTS ? p->dtype : BB_FLOAT, i);
}

static int same_outside(const struct twofold *a)
{
    size_t before = (size_t)(a->at[0] - a->memory[0]), after = before + a->what.bytes;

    return memcmp(a->memory[0], a->memory[1], before) == 0 &&
           memcmp(a->memory[0] + after, a->memory[1] + after, a->bytes - after) == 0;
}

static int array_differs(const struct scene *s, const struct twofold *a)
{
    const struct bb_memory_kernel *p = &s->memory_kernel[0];

    for (size_t i = 0; i < a->what.count; i++) {
        double got = value_at(p, a, 0, i), want = value_at(p, a, 1, i);
        if (fabs(got - want) <= tolerance_of(p, a->what.content, want))
            continue;
        fprintf(stderr, "%s[%zu] is %.9g, not %.9g\n", a->what.name, i, got, want);
        return 1;
    }
    if (same_outside(a))
        return 0;
    fprintf(stderr, "bytes outside of %s were overwritten\n", a->what.name);
    return 1;
}

static int scene_differs(const struct scene *s)
{
    const struct bb_memory_kernel *p = &s->memory_kernel[0];

    for (int i = 0; i < s->n; i++)
        if (array_differs(s, &s->arrays[i])) {
            fprintf(stderr, "  in %s, %s, %llu x %llu\n", bb_memory_kernels[p->kind].name, bb_dtypes[p->dtype].name,
                    (unsigned long long)p->rows, (unsigned long long)p->cols);
            return 1;
        }
    return 0;
}

/* ---- cases ---- */

static void try_memory_kernel(struct memory_kernel_totals *t, const struct bb_memory_kernel *memory_kernel, int misaligned, memory_kernel_runner *run, void *arg)
{
    struct scene s;

    if (t->rc != 0)
        return;
    scene_init(&s, memory_kernel, misaligned, (uint64_t)t->cases + 1);
    t->rc = run(arg, &s.memory_kernel[0]);
    bb_memory_kernel_ref(&s.memory_kernel[1]);
    if (t->rc == 0 && scene_differs(&s))
        t->failed++;
    t->cases++;
    scene_release(&s);
}

static const struct {
    uint64_t rows, cols;
} shapes[] = {{1, 1}, {3, 5}, {7, 64}, {33, 40}, {4, 1280}, {2, 2056}, {1, 12400}};

static const struct bb_box boxes[] = {
    {{1, 6, 8}, {0, 0, 2}, {1, 6, 2}}, {{1, 8, 16}, {0, 0, 0}, {1, 2, 16}}, {{4, 5, 6}, {1, 1, 1}, {2, 3, 4}},
    {{3, 3, 3}, {2, 2, 2}, {1, 1, 1}}, {{1, 8, 32}, {0, 2, 8}, {1, 4, 16}}, {{1, 5, 7}, {0, 4, 0}, {1, 1, 7}},
};

static int is_box(enum bb_memory_kernel_kind kind)
{
    return kind == BB_MEMORY_KERNEL_PACK || kind == BB_MEMORY_KERNEL_UNPACK || kind == BB_MEMORY_KERNEL_UNPACK_ADD;
}

static void each_shape(struct memory_kernel_totals *t, struct bb_memory_kernel p, int misaligned, memory_kernel_runner *run, void *arg)
{
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes && !is_box(p.kind); i++) {
        p.rows = shapes[i].rows;
        p.cols = shapes[i].cols;
        p.channels = p.rows > 2 ? 3 : 1;
        try_memory_kernel(t, &p, misaligned, run, arg);
    }
    for (size_t i = 0; i < sizeof boxes / sizeof *boxes && is_box(p.kind); i++) {
        p.rows = 5;
        p.box = boxes[i];
        try_memory_kernel(t, &p, misaligned, run, arg);
    }
}

struct memory_kernel_totals memory_kernel_cases_each(memory_kernel_runner *run, void *arg)
{
    static const enum bb_dtype_id types[] = {BB_FLOAT, BB_HALF, BB_BFLOAT16};
    struct memory_kernel_totals t = {0};

    for (int kind = 0; kind < BB_MEMORY_KERNEL_KINDS; kind++)
        for (int type = 0; type < 3; type++)
            for (int misaligned = 0; misaligned < 2; misaligned++) {
                struct bb_memory_kernel p = {.kind = (enum bb_memory_kernel_kind)kind, .dtype = types[type], .in_rows = 11, .top_k = 2};
                p.act = (enum bb_activation)(type % 3);
                p.optimizer = (struct bb_optimizer){0.01f, 0.9f, 0.99f, 1e-8f, 0.1f, 3};
                each_shape(&t, p, misaligned, run, arg);
            }
    return t;
}
