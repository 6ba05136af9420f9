/*
 * test_layer.c - every memory-bound kernel on emulated GPUs against results computed by hand; its bytes and its
 * modelled duration. (test_layer_kernels and test_gpu_layer compare the GPU's kernels with the same reference.)
 */
#include "cuda/compute/layer_memory_kernels.h"
#include "cuda/device/check.h"
#include "tests/check.h"
#include "tests/cuda/work/element.h"

#include <math.h>

enum { MAX_ELEMENTS = 64 };

static void *on_device(size_t bytes, const void *from)
{
    void *p = NULL;

    assert_int_equal(cudaMalloc(&p, bytes), cudaSuccess);
    assert_int_equal(cudaMemcpy(p, from, bytes, cudaMemcpyHostToDevice), cudaSuccess);
    return p;
}

static void *elements(enum bb_dtype_id dtype, size_t n, const double *values)
{
    uint64_t raw[MAX_ELEMENTS];

    for (size_t i = 0; i < n; i++)
        bb_element_set(raw, dtype, i, values[i]);
    return on_device(n * bb_dtypes[dtype].bytes, raw);
}

#define ELEMENTS(dtype, ...) elements(dtype, sizeof((double[]){__VA_ARGS__}) / sizeof(double), (double[]){__VA_ARGS__})
#define FLOATS(...)          ELEMENTS(BB_FLOAT, __VA_ARGS__)
#define INDICES(...)         on_device(sizeof((int32_t[]){__VA_ARGS__}), (int32_t[]){__VA_ARGS__})

static void run(const struct bb_memory_kernel *p)
{
    assert_int_equal(bb_memory_kernel_run(p, NULL), 0);
    assert_int_equal(cudaDeviceSynchronize(), cudaSuccess);
}

static void assert_elements(const void *device, enum bb_dtype_id dtype, size_t n, const double *expected,
                            double tolerance)
{
    uint64_t raw[MAX_ELEMENTS];

    assert_int_equal(cudaMemcpy(raw, device, n * bb_dtypes[dtype].bytes, cudaMemcpyDeviceToHost), cudaSuccess);
    for (size_t i = 0; i < n; i++)
        if (!(fabs(bb_element_get(raw, dtype, i) - expected[i]) <= tolerance))
            fail_msg("element %zu is %.9g, not %.9g", i, bb_element_get(raw, dtype, i), expected[i]);
}
#define ASSERT(device, dtype, tolerance, ...)                                                                          \
    assert_elements(device, dtype, sizeof((double[]){__VA_ARGS__}) / sizeof(double), (double[]){__VA_ARGS__}, tolerance)

static const enum bb_dtype_id types[] = {BB_FLOAT, BB_HALF, BB_BFLOAT16};
#define EACH_TYPE(t) for (const enum bb_dtype_id *t = types; t < types + 3; t++)

/* Bit patterns from the definitions of the formats: ties round to even, subnormal numbers, overflow. */
static void encodes_16_bit_formats(void **state)
{
    static const struct {
        enum bb_dtype_id dtype;
        double value;
        uint16_t bits;
    } cases[] = {
        {BB_HALF, 1, 0x3c00},
        {BB_HALF, -2, 0xc000},
        {BB_HALF, 65504, 0x7bff},
        {BB_HALF, 65519, 0x7bff},
        {BB_HALF, 65520, 0x7c00},
        {BB_HALF, 1.0 / 3, 0x3555},
        {BB_HALF, 0x1p-24, 0x0001},
        {BB_HALF, 0x1p-14, 0x0400},
        {BB_HALF, 0x1.ff8p-15, 0x03ff},
        {BB_HALF, 0x1p-25, 0x0000},
        {BB_HALF, 0x1.8p-24, 0x0002},
        {BB_HALF, 1 + 0x1p-11, 0x3c00},
        {BB_HALF, 1 + 3 * 0x1p-11, 0x3c02},
        {BB_HALF, 0x1.ffep0, 0x4000},
        {BB_HALF, -0.0, 0x8000},
        {BB_BFLOAT16, 1, 0x3f80},
        {BB_BFLOAT16, 1.0 / 3, 0x3eab},
        {BB_BFLOAT16, -2, 0xc000},
        {BB_BFLOAT16, 1 + 0x1p-8, 0x3f80},
        {BB_BFLOAT16, 1 + 3 * 0x1p-8, 0x3f82},
    };

    (void)state;
    for (size_t i = 0; i < ROWS(cases); i++) {
        uint16_t bits;
        bb_element_set(&bits, cases[i].dtype, 0, cases[i].value);
        if (bits != cases[i].bits)
            fail_msg("%s %a is 0x%04x, not 0x%04x", bb_dtypes[cases[i].dtype].name, cases[i].value, bits,
                     cases[i].bits);
    }
    for (unsigned bits = 0; bits < 0x7c00; bits++) { /* all finite positive numbers survive decoding and encoding */
        uint16_t half = (uint16_t)bits, back;
        bb_element_set(&back, BB_HALF, 0, bb_element_get(&half, BB_HALF, 0));
        assert_int_equal(back, half);
    }
}

static void embedding_gathers_rows_by_token(void **state)
{
    (void)state;
    EACH_TYPE(t)
    {
        struct bb_memory_kernel p = {.kind = BB_MEMORY_KERNEL_EMBED, .dtype = *t, .rows = 3, .cols = 3, .in_rows = 4};
        p.in = ELEMENTS(*t, 0, 1, 2, 10, 11, 12, 20, 21, 22, 30, 31, 32);
        p.out = ELEMENTS(*t, 9, 9, 9, 9, 9, 9, 9, 9, 9);
        p.index = INDICES(2, 0, 3);
        run(&p);
        ASSERT(p.out, *t, 0, 20, 21, 22, 0, 1, 2, 30, 31, 32);
    }
}

static void permutes_and_unpermutes_tokens(void **state)
{
    (void)state;
    EACH_TYPE(t)
    {
        struct bb_memory_kernel p = {.kind = BB_MEMORY_KERNEL_PERMUTE, .dtype = *t, .rows = 3, .cols = 2, .in_rows = 2};
        struct bb_memory_kernel u = {
            .kind = BB_MEMORY_KERNEL_UNPERMUTE, .dtype = *t, .rows = 2, .cols = 2, .in_rows = 3, .top_k = 2};
        p.in = ELEMENTS(*t, 1, 2, 3, 4);
        p.out = ELEMENTS(*t, 9, 9, 9, 9, 9, 9);
        p.index = INDICES(1, -1, 0);
        run(&p);
        ASSERT(p.out, *t, 0, 3, 4, 0, 0, 1, 2);
        u.in = p.out;
        u.out = ELEMENTS(*t, 9, 9, 9, 9);
        u.index = INDICES(2, 0, 0, -1); /* token 1 has only one expert; the other one was full */
        u.gate = FLOATS(0.25, 0.75, 0.5, 0.5);
        run(&u);
        ASSERT(u.out, *t, 0, 0.25 * 1 + 0.75 * 3, 0.25 * 2 + 0.75 * 4, 1.5, 2);
    }
}

/* Two channels of a 3 x 4 tile with numbered cells; the box is the two right columns of the upper two rows. */
static void packs_and_unpacks_halos(void **state)
{
    struct bb_box box = {{1, 3, 4}, {0, 0, 2}, {1, 2, 2}};

    (void)state;
    EACH_TYPE(t)
    {
        struct bb_memory_kernel p = {.kind = BB_MEMORY_KERNEL_PACK, .dtype = *t, .rows = 2, .box = box};
        p.in = ELEMENTS(*t, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31);
        p.out = ELEMENTS(*t, 0, 0, 0, 0, 0, 0, 0, 0);
        run(&p);
        ASSERT(p.out, *t, 0, 2, 3, 6, 7, 22, 23, 26, 27);
        struct bb_memory_kernel add = {.kind = BB_MEMORY_KERNEL_UNPACK_ADD, .dtype = *t, .rows = 2, .box = box};
        add.in = p.out;
        add.out = (void *)(uintptr_t)p.in;
        run(&add);
        ASSERT(p.in, *t, 0, 0, 1, 4, 6, 4, 5, 12, 14, 8, 9, 10, 11, 20, 21, 44, 46, 24, 25, 52, 54, 28, 29, 30, 31);
        add.kind = BB_MEMORY_KERNEL_UNPACK;
        run(&add);
        ASSERT(p.in, *t, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31);
    }
}

static void packs_a_halo_corner_of_a_cube(void **state)
{
    /* In a 2 x 2 x 2 cube the cell at depth 1, height 0, width 1 has number 5. */
    struct bb_memory_kernel p = {
        .kind = BB_MEMORY_KERNEL_PACK, .dtype = BB_HALF, .rows = 1, .box = {{2, 2, 2}, {1, 0, 1}, {1, 1, 1}}};

    (void)state;
    p.in = ELEMENTS(BB_HALF, 0, 1, 2, 3, 4, 5, 6, 7);
    p.out = ELEMENTS(BB_HALF, 9);
    run(&p);
    ASSERT(p.out, BB_HALF, 0, 5);
}

static void bias_and_activation(void **state)
{
    (void)state;
    EACH_TYPE(t)
    {
        struct bb_memory_kernel p = {
            .kind = BB_MEMORY_KERNEL_BIAS_ACT, .dtype = *t, .rows = 2, .cols = 2, .act = BB_ACT_RELU};
        p.in = ELEMENTS(*t, -1, 2, 3, -4);
        p.out = ELEMENTS(*t, 9, 9, 9, 9);
        p.shift = ELEMENTS(*t, 0.5, -1);
        run(&p);
        ASSERT(p.out, *t, 0, 0, 1, 3.5, 0);
        p.act = BB_ACT_NONE;
        run(&p);
        ASSERT(p.out, *t, 0, -0.5, 1, 3.5, -5);
        p.act = BB_ACT_GELU; /* GELU of -0.5, 1, 3.5, -5, computed with the tanh approximation */
        run(&p);
        ASSERT(p.out, *t, *t == BB_FLOAT ? 1e-6 : 0.01, -0.154285990, 0.841191991, 3.4993838, -2.292e-7);
    }
}

static void channel_norm(void **state)
{
    (void)state;
    EACH_TYPE(t)
    { /* two samples, each of two channels with two cells */
        struct bb_memory_kernel p = {
            .kind = BB_MEMORY_KERNEL_CHANNEL_NORM, .dtype = *t, .rows = 4, .cols = 2, .channels = 2};
        p.in = ELEMENTS(*t, 1, 2, 3, 4, 5, 6, 7, 8);
        p.out = ELEMENTS(*t, 0, 0, 0, 0, 0, 0, 0, 0);
        p.scale = ELEMENTS(*t, 2, -1);
        p.shift = ELEMENTS(*t, 1, 4);
        run(&p);
        ASSERT(p.out, *t, 0, 3, 5, 1, 0, 11, 13, -3, -4);
        p.act = BB_ACT_RELU;
        run(&p);
        ASSERT(p.out, *t, 0, 3, 5, 1, 0, 11, 13, 0, 0);
    }
}

/* The first row has mean 2.5 and variance 1.25. The second row is constant: variance 0, so only epsilon remains. */
static void layer_norm(void **state)
{
    const double unit = 0.5 / sqrt(1.25 + 1e-5);

    (void)state;
    EACH_TYPE(t)
    {
        struct bb_memory_kernel p = {.kind = BB_MEMORY_KERNEL_LAYER_NORM, .dtype = *t, .rows = 2, .cols = 4};
        p.in = ELEMENTS(*t, 1, 2, 3, 4, 7, 7, 7, 7);
        p.out = ELEMENTS(*t, 0, 0, 0, 0, 0, 0, 0, 0);
        p.scale = ELEMENTS(*t, 1, 2, 1, 1);
        p.shift = ELEMENTS(*t, 0, 0, 0, 10);
        run(&p);
        ASSERT(p.out, *t,
               *t == BB_FLOAT  ? 1e-6
               : *t == BB_HALF ? 0.004
                               : 0.032,
               -3 * unit, -2 * unit, unit, 10 + 3 * unit, 0, 0, 0, 10);
    }
}

/* Derivatives of ReLU, of no activation, and of GELU at 0 (0.5) and 1 (1.0829640838). */
static void activation_gradients(void **state)
{
    (void)state;
    EACH_TYPE(t)
    {
        struct bb_memory_kernel p = {
            .kind = BB_MEMORY_KERNEL_BIAS_ACT_GRAD, .dtype = *t, .rows = 2, .cols = 2, .act = BB_ACT_RELU};
        p.in = ELEMENTS(*t, 2, 3, 4, 5);
        p.out = ELEMENTS(*t, 9, 9, 9, 9);
        p.saved = ELEMENTS(*t, -1, 2, 0.5, 1);
        p.shift = ELEMENTS(*t, 0.5, -1);
        run(&p);
        ASSERT(p.out, *t, 0, 0, 3, 4, 0);
        p.act = BB_ACT_NONE;
        run(&p);
        ASSERT(p.out, *t, 0, 2, 3, 4, 5);
        p.act = BB_ACT_GELU; /* derivatives at -0.5, 1, 1, 0 */
        run(&p);
        ASSERT(p.out, *t, *t == BB_FLOAT ? 2e-6 : 0.03, 2 * 0.1326301, 3 * 1.0829640838, 4 * 1.0829640838, 2.5);
    }
}

/* Loss = sum of w_i y_i with y = layer norm of x; the test compares the gradient with central differences in each
 * x_i. */
static double norm_loss(const double x[4], const double scale[4], const double w[4])
{
    double mean = (x[0] + x[1] + x[2] + x[3]) / 4, variance = 0, loss = 0;

    for (int i = 0; i < 4; i++)
        variance += (x[i] - mean) * (x[i] - mean) / 4;
    for (int i = 0; i < 4; i++)
        loss += w[i] * scale[i] * (x[i] - mean) / sqrt(variance + 1e-5);
    return loss;
}

static void layer_norm_gradient_matches_differences(void **state)
{
    const double x[4] = {1, 2, -3, 0.5}, scale[4] = {1, 2, 0.5, -1}, w[4] = {0.5, -1, 2, 0.25}, h = 1e-5;
    double expected[4];

    (void)state;
    for (int i = 0; i < 4; i++) {
        double plus[4], minus[4];
        memcpy(plus, x, sizeof plus);
        memcpy(minus, x, sizeof minus);
        plus[i] += h;
        minus[i] -= h;
        expected[i] = (norm_loss(plus, scale, w) - norm_loss(minus, scale, w)) / (2 * h);
    }
    EACH_TYPE(t)
    {
        struct bb_memory_kernel p = {.kind = BB_MEMORY_KERNEL_LAYER_NORM_GRAD, .dtype = *t, .rows = 1, .cols = 4};
        p.in = elements(*t, 4, w);
        p.saved = elements(*t, 4, x);
        p.scale = elements(*t, 4, scale);
        p.out = ELEMENTS(*t, 9, 9, 9, 9);
        run(&p);
        assert_elements(p.out, *t, 4, expected, *t == BB_FLOAT ? 1e-6 : 0.01);
    }
}

static void gradients_accumulate_in_float(void **state)
{
    (void)state;
    EACH_TYPE(t)
    {
        struct bb_memory_kernel p = {.kind = BB_MEMORY_KERNEL_ACCUMULATE, .dtype = *t, .rows = 1, .cols = 3};
        p.in = ELEMENTS(*t, 0.5, -2, 0x1p-10);
        p.master = FLOATS(1, 2, 4096); /* 4096 + 2^-10 is representable in float, not in half */
        run(&p);
        run(&p);
        ASSERT(p.master, BB_FLOAT, 0, 2, -2, 4096 + 0x1p-9);
    }
}

/* v = 0.9 * 0.2 + 0.5 + decay * 1, p = 1 - 0.1 v. */
static void sgd_with_momentum(void **state)
{
    (void)state;
    EACH_TYPE(t)
    {
        struct bb_memory_kernel p = {.kind = BB_MEMORY_KERNEL_SGD, .dtype = *t, .rows = 1, .cols = 1};
        float *const master = FLOATS(1);
        p.optimizer = (struct bb_optimizer){.rate = 0.1f, .beta1 = 0.9f};
        p.in = ELEMENTS(*t, 0.5);
        p.out = ELEMENTS(*t, 1);
        p.first = FLOATS(0.2);
        p.master = *t == BB_FLOAT ? NULL : master;
        run(&p);
        ASSERT(p.first, BB_FLOAT, 1e-7, 0.68);
        ASSERT(*t == BB_FLOAT ? p.out : master, BB_FLOAT, 1e-7, 0.932);
        ASSERT(p.out, *t, *t == BB_FLOAT ? 1e-7 : 0.002, 0.932);
        p.optimizer.decay = 0.5f; /* v = 0.9 * 0.68 + 0.5 + 0.5 * 0.932 = 1.578 */
        run(&p);
        ASSERT(p.first, BB_FLOAT, 1e-6, 1.578);
        ASSERT(*t == BB_FLOAT ? p.out : master, BB_FLOAT, 1e-6, 0.932 - 0.1578);
    }
}

/*
 * First step: both corrected moments equal the gradient's, so p moves by the learning rate. Second step with the
 * opposite gradient: m = 0.9 * 0.05 - 0.05 = -0.005, corrected / 0.19; v = 0.00049975, corrected / 0.001999 = 0.25.
 */
static void adam_with_bias_correction(void **state)
{
    (void)state;
    EACH_TYPE(t)
    {
        struct bb_memory_kernel p = {.kind = BB_MEMORY_KERNEL_ADAM, .dtype = *t, .rows = 1, .cols = 1};
        float *const master = FLOATS(1);
        const void *parameter;
        p.optimizer = (struct bb_optimizer){.rate = 0.1f, .beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-8f, .step = 1};
        p.in = ELEMENTS(*t, 0.5);
        p.out = ELEMENTS(*t, 1);
        p.first = FLOATS(0);
        p.second = FLOATS(0);
        p.master = *t == BB_FLOAT ? NULL : master;
        parameter = *t == BB_FLOAT ? p.out : master;
        run(&p);
        ASSERT(parameter, BB_FLOAT, 1e-6, 0.9);
        p.in = ELEMENTS(*t, -0.5);
        p.optimizer.step = 2;
        run(&p);
        ASSERT(parameter, BB_FLOAT, 1e-6, 0.9 + 0.1 * 0.005 / 0.19 / 0.5);
        ASSERT(p.out, *t, *t == BB_FLOAT ? 1e-6 : 0.004, 0.9 + 0.1 * 0.005 / 0.19 / 0.5);
        p.optimizer.decay = 1; /* with a zero gradient only decay remains: a tenth of the parameter */
        p.in = ELEMENTS(*t, 0);
        p.first = FLOATS(0);
        p.second = FLOATS(0);
        run(&p);
        ASSERT(parameter, BB_FLOAT, 1e-6, 0.9 * (0.9 + 0.1 * 0.005 / 0.19 / 0.5));
    }
}

static void bytes_match_formulas(void **state)
{
    static const struct {
        enum bb_memory_kernel_kind kind;
        size_t in_float, in_half;
    } expected[] = {
        {BB_MEMORY_KERNEL_COPY, 2 * 24 * 4, 2 * 24 * 2},
        {BB_MEMORY_KERNEL_EMBED, 2 * 24 * 4 + 6 * 4, 2 * 24 * 2 + 6 * 4},
        {BB_MEMORY_KERNEL_UNPERMUTE, 3 * 24 * 4 + 6 * 2 * 8, 3 * 24 * 2 + 6 * 2 * 8},
        {BB_MEMORY_KERNEL_PACK, 2 * 6 * 12 * 4, 2 * 6 * 12 * 2},
        {BB_MEMORY_KERNEL_UNPACK_ADD, 3 * 6 * 12 * 4, 3 * 6 * 12 * 2},
        {BB_MEMORY_KERNEL_BIAS_ACT, 2 * 24 * 4 + 4 * 4, 2 * 24 * 2 + 4 * 2},
        {BB_MEMORY_KERNEL_CHANNEL_NORM, 2 * 24 * 4 + 2 * 3 * 4, 2 * 24 * 2 + 2 * 3 * 2},
        {BB_MEMORY_KERNEL_LAYER_NORM, 2 * 24 * 4 + 2 * 4 * 4, 2 * 24 * 2 + 2 * 4 * 2},
        {BB_MEMORY_KERNEL_BIAS_ACT_GRAD, 3 * 24 * 4 + 4 * 4, 3 * 24 * 2 + 4 * 2},
        {BB_MEMORY_KERNEL_LAYER_NORM_GRAD, 3 * 24 * 4 + 4 * 4, 3 * 24 * 2 + 4 * 2},
        {BB_MEMORY_KERNEL_ACCUMULATE, 24 * 12, 24 * 10},
        {BB_MEMORY_KERNEL_SGD, 24 * 20, 24 * 20},
        {BB_MEMORY_KERNEL_ADAM, 24 * 28, 24 * 28},
    };

    (void)state;
    for (size_t i = 0; i < ROWS(expected); i++) {
        struct bb_memory_kernel p = {.kind = expected[i].kind,
                                     .dtype = BB_FLOAT,
                                     .rows = 6,
                                     .cols = 4,
                                     .channels = 3,
                                     .top_k = 2,
                                     .in_rows = 9,
                                     .box = {{4, 4, 4}, {0, 0, 0}, {1, 3, 4}}};
        assert_int_equal(bb_memory_kernel_bytes(&p), expected[i].in_float);
        p.dtype = BB_HALF;
        assert_int_equal(bb_memory_kernel_bytes(&p), expected[i].in_half);
    }
}

/* Accumulating 1,000,000 half-precision gradients moves 10 MB: 5 us at the built-in profile's 2000 GB/s. */
static void duration_follows_bytes(void **state)
{
    struct bb_memory_kernel p = {.kind = BB_MEMORY_KERNEL_ACCUMULATE, .dtype = BB_HALF, .rows = 1000, .cols = 1000};
    cudaEvent_t start, stop;
    float ms;

    (void)state;
    assert_int_equal(cudaMalloc((void **)(uintptr_t)&p.in, 2000000), cudaSuccess);
    assert_int_equal(cudaMalloc((void **)&p.master, 4000000), cudaSuccess);
    assert_int_equal(cudaEventCreate(&start), cudaSuccess);
    assert_int_equal(cudaEventCreate(&stop), cudaSuccess);
    run(&p);
    assert_int_equal(cudaEventRecord(start, NULL), cudaSuccess);
    for (int i = 0; i < 10; i++)
        assert_int_equal(bb_memory_kernel_run(&p, NULL), 0);
    assert_int_equal(cudaEventRecord(stop, NULL), cudaSuccess);
    assert_int_equal(cudaEventSynchronize(stop), cudaSuccess);
    assert_int_equal(cudaEventElapsedTime(&ms, start, stop), cudaSuccess);
    assert_true(fabs(ms - 10 * 0.005) < 0.0021); /* plus one launch before the first kernel starts */
    cudaEventDestroy(start);
    cudaEventDestroy(stop);
    cudaFree((void *)(uintptr_t)p.in);
    cudaFree(p.master);
}

static void rejects_other_types_and_accepts_empty_kernels(void **state)
{
    struct bb_memory_kernel p = {.kind = BB_MEMORY_KERNEL_COPY, .dtype = BB_DOUBLE, .rows = 1, .cols = 1};

    (void)state;
    assert_int_equal(bb_memory_kernel_run(&p, NULL), -BB_EUSAGE);
    p.dtype = BB_FLOAT;
    p.rows = 0;
    run(&p); /* no memory access: the pointers are NULL */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(encodes_16_bit_formats),
        cmocka_unit_test(embedding_gathers_rows_by_token),
        cmocka_unit_test(permutes_and_unpermutes_tokens),
        cmocka_unit_test(packs_and_unpacks_halos),
        cmocka_unit_test(packs_a_halo_corner_of_a_cube),
        cmocka_unit_test(bias_and_activation),
        cmocka_unit_test(channel_norm),
        cmocka_unit_test(layer_norm),
        cmocka_unit_test(activation_gradients),
        cmocka_unit_test(layer_norm_gradient_matches_differences),
        cmocka_unit_test(gradients_accumulate_in_float),
        cmocka_unit_test(sgd_with_momentum),
        cmocka_unit_test(adam_with_bias_correction),
        cmocka_unit_test(bytes_match_formulas),
        cmocka_unit_test(duration_follows_bytes),
        cmocka_unit_test(rejects_other_types_and_accepts_empty_kernels),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
