/* memory_kernel_cases.c - see memory_kernel_cases.h. */
#include "memory_kernel_cases.h"

#include "tests/cuda/work/element.h"
#include "tests/cuda/work/memory_kernel_ref.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MARGIN = 64, CANARY = 0xa5 };

/*
 * Two copies of an array: [0] for the runner, [1] for the reference. Each allocation begins MARGIN bytes or more before
 * the data at `at`.
 */
struct array_pair {
    struct bb_memory_kernel_array array;
    unsigned char *allocation[2], *at[2];
    size_t bytes; /* size of each allocation */
};

struct fixture {
    struct bb_memory_kernel memory_kernel[2];
    struct array_pair arrays[BB_MEMORY_KERNEL_ARRAYS];
    int n;
    uint64_t seed;
};

static double random_unit(struct fixture *s)
{
    s->seed = s->seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(s->seed >> 11) * 0x1p-53;
}

static void fill_array(struct fixture *s, const struct array_pair *a)
{
    const struct bb_memory_kernel *p = &s->memory_kernel[0];

    for (size_t i = 0; i < a->array.count; i++) {
        double x = random_unit(s);
        if (a->array.content == BB_HOLDS_ELEMENTS)
            bb_element_set(a->at[0], p->dtype, i, 4 * x - 2);
        else if (a->array.content == BB_HOLDS_INDICES)
            ((int32_t *)a->at[0])[i] =
                p->kind != BB_MEMORY_KERNEL_EMBED && x < 0.1 ? -1 : (int32_t)(random_unit(s) * (double)p->in_rows);
        else
            ((float *)a->at[0])[i] = (float)(a->array.content == BB_HOLDS_SQUARES ? x : 4 * x - 2);
    }
}

static void make_array(struct fixture *s, struct array_pair *a, int misaligned)
{
    size_t each = a->array.bytes / a->array.count, shift = misaligned ? each : 0;

    a->bytes = (a->array.bytes + shift + 2 * MARGIN + 63) / 64 * 64;
    for (int i = 0; i < 2; i++) {
        a->allocation[i] = aligned_alloc(64, a->bytes);
        if (!a->allocation[i])
            abort();
        memset(a->allocation[i], CANARY, a->bytes);
        a->at[i] = a->allocation[i] + MARGIN + shift;
        bb_memory_kernel_set(&s->memory_kernel[i], &a->array, a->at[i]);
    }
    fill_array(s, a);
    memcpy(a->allocation[1], a->allocation[0], a->bytes);
}

static void fixture_init(struct fixture *s, const struct bb_memory_kernel *memory_kernel, int misaligned, uint64_t seed)
{
    struct bb_memory_kernel_array arrays[BB_MEMORY_KERNEL_ARRAYS];

    *s = (struct fixture){.memory_kernel = {*memory_kernel, *memory_kernel}, .seed = seed};
    s->n = bb_memory_kernel_arrays(memory_kernel, arrays);
    for (int i = 0; i < s->n; i++) {
        s->arrays[i].array = arrays[i];
        make_array(s, &s->arrays[i], misaligned);
    }
}

static void fixture_release(struct fixture *s)
{
    for (int i = 0; i < s->n; i++)
        for (int j = 0; j < 2; j++)
            free(s->arrays[i].allocation[j]);
}

/* ---- comparison ---- */

/* Moves are exact. Results of float arithmetic may differ by one rounding step from the reference, which uses
 * double. */
static double tolerance_of(const struct bb_memory_kernel *p, enum bb_memory_kernel_content content, double expected)
{
    double step = content != BB_HOLDS_ELEMENTS || p->dtype == BB_FLOAT ? 1e-5 : p->dtype == BB_HALF ? 0x1p-10 : 0x1p-7;
    double size = fabs(expected) > 0.1 ? fabs(expected) : 0.1;

    return p->kind < BB_MEMORY_KERNEL_UNPERMUTE || p->kind == BB_MEMORY_KERNEL_PACK ||
                   p->kind == BB_MEMORY_KERNEL_UNPACK
               ? 0
               : step * size * 1.01;
}

static double value_at(const struct bb_memory_kernel *p, const struct array_pair *a, int which, size_t i)
{
    if (a->array.content == BB_HOLDS_INDICES)
        return ((const int32_t *)a->at[which])[i];
    return bb_element_get(a->at[which], a->array.content == BB_HOLDS_ELEMENTS ? p->dtype : BB_FLOAT, i);
}

static int margins_are_equal(const struct array_pair *a)
{
    size_t before = (size_t)(a->at[0] - a->allocation[0]), after = before + a->array.bytes;

    return memcmp(a->allocation[0], a->allocation[1], before) == 0 &&
           memcmp(a->allocation[0] + after, a->allocation[1] + after, a->bytes - after) == 0;
}

static int array_differs(const struct fixture *s, const struct array_pair *a)
{
    const struct bb_memory_kernel *p = &s->memory_kernel[0];

    for (size_t i = 0; i < a->array.count; i++) {
        double got = value_at(p, a, 0, i), expected = value_at(p, a, 1, i);
        if (fabs(got - expected) <= tolerance_of(p, a->array.content, expected))
            continue;
        fprintf(stderr, "%s[%zu] is %.9g, not %.9g\n", a->array.name, i, got, expected);
        return 1;
    }
    if (margins_are_equal(a))
        return 0;
    fprintf(stderr, "bytes outside of %s were overwritten\n", a->array.name);
    return 1;
}

static int fixture_differs(const struct fixture *s)
{
    const struct bb_memory_kernel *p = &s->memory_kernel[0];

    for (int i = 0; i < s->n; i++)
        if (array_differs(s, &s->arrays[i])) {
            fprintf(stderr, "  in %s, %s, %llu x %llu\n", bb_memory_kernel_name(p->kind), bb_dtypes[p->dtype].name,
                    (unsigned long long)p->rows, (unsigned long long)p->cols);
            return 1;
        }
    return 0;
}

/* ---- cases ---- */

static void run_case(struct memory_kernel_totals *t, const struct bb_memory_kernel *memory_kernel, int misaligned,
                     memory_kernel_runner *run, void *arg)
{
    struct fixture s;

    if (t->rc != 0)
        return;
    fixture_init(&s, memory_kernel, misaligned, (uint64_t)t->cases + 1);
    t->rc = run(arg, &s.memory_kernel[0]);
    bb_memory_kernel_ref(&s.memory_kernel[1]);
    if (t->rc == 0 && fixture_differs(&s))
        t->failed++;
    t->cases++;
    fixture_release(&s);
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

static void each_shape(struct memory_kernel_totals *t, struct bb_memory_kernel p, int misaligned,
                       memory_kernel_runner *run, void *arg)
{
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes && !is_box(p.kind); i++) {
        p.rows = shapes[i].rows;
        p.cols = shapes[i].cols;
        p.channels = p.rows > 2 ? 3 : 1;
        run_case(t, &p, misaligned, run, arg);
    }
    for (size_t i = 0; i < sizeof boxes / sizeof *boxes && is_box(p.kind); i++) {
        p.rows = 5;
        p.box = boxes[i];
        run_case(t, &p, misaligned, run, arg);
    }
}

struct memory_kernel_totals memory_kernel_cases_each(memory_kernel_runner *run, void *arg)
{
    static const enum bb_dtype_id types[] = {BB_FLOAT, BB_HALF, BB_BFLOAT16};
    struct memory_kernel_totals t = {0};

    for (int kind = 0; kind < BB_MEMORY_KERNEL_KINDS; kind++)
        for (int type = 0; type < 3; type++)
            for (int misaligned = 0; misaligned < 2; misaligned++) {
                struct bb_memory_kernel p = {
                    .kind = (enum bb_memory_kernel_kind)kind, .dtype = types[type], .in_rows = 11, .top_k = 2};
                p.act = (enum bb_activation)(type % 3);
                p.optimizer = (struct bb_optimizer){0.01f, 0.9f, 0.99f, 1e-8f, 0.1f, 3};
                each_shape(&t, p, misaligned, run, arg);
            }
    return t;
}
