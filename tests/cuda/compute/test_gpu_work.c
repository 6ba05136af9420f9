/*
 * test_gpu_work.c - layers as lists of GEMMs and memory-bound kernels: FLOPs, bytes and memory against formulas, and
 * execution of the lists; on emulated GPUs also their duration against the profile. Exits with 77 (skipped) without a
 * GPU.
 */
#include "cuda/compute/kernel_runner.h"
#include "tests/check.h"
#include "tests/cuda/gpu.h"

#include <math.h>

static struct bb_device_info device; /* the GPU of all tests in this program */

static const struct bb_transformer gpt3 = {12288, 49152, 96, 2048, 1, 4, BB_HALF};
static const struct bb_transformer tiny = {64, 256, 4, 16, 2, 1, BB_FLOAT};

static int count_of(const struct bb_kernel_list *w, enum bb_memory_kernel_kind kind)
{
    int count = 0;

    for (int i = 0; i < w->n; i++)
        count += w->items[i].is_memory_kernel && w->items[i].memory_kernel.kind == kind;
    return count;
}

static void transformer_flops_match_formulas(void **state)
{
    const double s = 2048, h = 12288, forward = (24 * s * h * h + 4 * s * s * h) / 4;
    static struct bb_kernel_list forward_list, backward_list, attention, mlp;

    (void)state;
    assert_true(bb_kernel_list_transformer(&forward_list, &gpt3, false) &&
                bb_kernel_list_transformer(&backward_list, &gpt3, true));
    assert_true(bb_kernel_list_flops(&forward_list) == forward && bb_kernel_list_flops(&backward_list) == 2 * forward);
    assert_int_equal(count_of(&forward_list, BB_MEMORY_KERNEL_LAYER_NORM), 2);
    assert_int_equal(count_of(&forward_list, BB_MEMORY_KERNEL_BIAS_ACT), 4);
    assert_int_equal(count_of(&backward_list, BB_MEMORY_KERNEL_LAYER_NORM_GRAD), 2);
    assert_int_equal(count_of(&backward_list, BB_MEMORY_KERNEL_BIAS_ACT_GRAD), 1);
    assert_true(bb_kernel_list_attention(&attention, &gpt3, false) && bb_kernel_list_mlp(&mlp, &gpt3, false));
    assert_true(bb_kernel_list_flops(&attention) == (8 * s * h * h + 4 * s * s * h) / 4);
    assert_true(bb_kernel_list_flops(&mlp) == 16 * s * h * h / 4);
}

static void convolution_and_dense_flops_match_formulas(void **state)
{
    const struct bb_conv v = {2, 3, 1, 8, 8,       16, 1,
                              3, 3, 1, 1, BB_FLOAT}; /* 2 * 64 output positions, 27
                                                                              multiplications per sum */
    const double gemm = 2.0 * 128 * 16 * 27;
    static struct bb_kernel_list forward_list, first, backward_list, dense, back;

    (void)state;
    assert_true(bb_kernel_list_conv(&forward_list, &v, false, true) && bb_kernel_list_flops(&forward_list) == gemm);
    assert_true(bb_kernel_list_conv(&first, &v, true, false) && bb_kernel_list_flops(&first) == gemm);
    assert_true(bb_kernel_list_conv(&backward_list, &v, true, true) &&
                bb_kernel_list_flops(&backward_list) == 2 * gemm);
    assert_true(bb_kernel_list_dense(&dense, 8, 32, 4, BB_ACT_RELU, BB_HALF, false) &&
                bb_kernel_list_flops(&dense) == 2 * 8 * 32 * 4);
    assert_true(bb_kernel_list_dense(&back, 8, 32, 4, BB_ACT_RELU, BB_HALF, true) &&
                bb_kernel_list_flops(&back) == 4 * 8 * 32 * 4);
    /* GEMM operands 8x32, 32x4, 8x4; then input, output and bias of the activation; 2 bytes per element */
    assert_true(bb_kernel_list_bytes(&dense) == 2 * (256 + 128 + 32 + 32 + 32 + 4));
}

/* Adds the halo sides of all neighbour tiles; corners: the neighbours at edges and corners, too. */
static void add_halos(struct bb_kernel_list *w, uint64_t rows, const uint32_t interior[3], const uint32_t halo[3],
                      bool corners, bool received, bool backward, enum bb_dtype_id dtype)
{
    for (int d = 0; d < 27; d++) {
        const int direction[3] = {d / 9 - 1, d / 3 % 3 - 1, d % 3 - 1};
        int away = (direction[0] != 0) + (direction[1] != 0) + (direction[2] != 0);

        if (corners || away == 1)
            (void)bb_kernel_list_halo_side(w, rows, interior, halo, direction, received, backward, dtype);
    }
}

/*
 * Duration of a list on emulated GPUs with this profile: each GEMM takes max(kernel_us, FLOPs / tflops), each
 * memory-bound kernel max(kernel_us, bytes / memory_gbps); each is rounded to ns.
 */
static int64_t modelled_ns(const struct bb_kernel_list *w, double kernel_us, double memory_gbps, double tflops)
{
    int64_t ns = 0;

    for (int i = 0; i < w->n; i++) {
        const struct bb_kernel_list_item *item = &w->items[i];
        double lasts = item->is_memory_kernel ? (double)bb_memory_kernel_bytes(&item->memory_kernel) / memory_gbps
                                              : bb_gemm_flops(&item->gemm) / tflops / 1e3;

        ns += llround(fmax(kernel_us * 1e3, lasts));
    }
    return ns;
}

/* A flat tile has 4 faces and 4 corners; a cube has 6 faces, 12 edges and 8 corners. */
static void halos_cover_all_neighbours(void **state)
{
    const uint32_t flat[3] = {1, 8, 8}, no_depth[3] = {0, 1, 1}, cube[3] = {4, 4, 4}, all[3] = {1, 1, 1};
    static struct bb_kernel_list faces, corners, pack, unpack;

    (void)state;
    add_halos(&faces, 3, flat, no_depth, false, false, false, BB_FLOAT);
    add_halos(&corners, 3, flat, no_depth, true, false, false, BB_FLOAT);
    assert_true(faces.n == 4 && corners.n == 8);
    assert_true(bb_kernel_list_bytes(&faces) == 2 * 4 * 3 * 4 * 8);
    assert_true(bb_kernel_list_bytes(&corners) == 2 * 4 * 3 * (4 * 8 + 4));
    add_halos(&pack, 1, cube, all, true, false, true, BB_HALF);
    add_halos(&unpack, 1, cube, all, true, true, true, BB_HALF);
    assert_true(pack.n == 26 && unpack.n == 26 && count_of(&unpack, BB_MEMORY_KERNEL_UNPACK_ADD) == 26);
    assert_int_equal(pack.items[0].memory_kernel.box.at[0], 0);   /* backward: sends the margin ... */
    assert_int_equal(unpack.items[0].memory_kernel.box.at[0], 1); /* ... and adds to the rim of the interior */
}

static void optimizer_bytes_match_formulas(void **state)
{
    static struct bb_kernel_list w;

    (void)state;
    bb_kernel_list_accumulate(&w, 1000, BB_BFLOAT16);
    bb_kernel_list_optimizer(&w, BB_MEMORY_KERNEL_SGD, 1000, BB_BFLOAT16);
    bb_kernel_list_optimizer(&w, BB_MEMORY_KERNEL_ADAM, 1000, BB_BFLOAT16);
    assert_true(bb_kernel_list_bytes(&w) == 1000 * (10 + 20 + 28) && bb_kernel_list_flops(&w) == 0);
}

static void time_and_memory_follow_the_items(void **state)
{
    const struct bb_gemm_shape s = {1000, 1000, 1000, 1, false, false, BB_FLOAT};
    static struct bb_kernel_list w, overflowed;
    struct bb_kernel_list_memory m = {.read_bytes = 1};

    (void)state;
    bb_kernel_list_add_gemm(&w, "gemm", &s);                  /* 2e9 FLOP at 100 TFLOP/s: 20 us */
    bb_kernel_list_embedding(&w, 1000, 1000, 5000, BB_FLOAT); /* 8.004 MB at 2000 GB/s: 4.002 us */
    bb_kernel_list_accumulate(&w, 10, BB_HALF);               /* few bytes: the minimum of 2 us */
    assert_int_equal(modelled_ns(&w, 2, 2000, 100), 20000 + 4002 + 2000);
    bb_kernel_list_memory(&w, &m);
    assert_int_equal(m.read_bytes, 20000000 / 256 * 256 + (20000000 % 256 ? 256 : 0)); /* the embedding table */
    assert_int_equal(m.write_bytes, (4000000 + 255) / 256 * 256);
    assert_int_equal(m.index_count, 1000);
    for (int i = 0; i <= BB_KERNEL_LIST_ITEMS; i++)
        bb_kernel_list_accumulate(&overflowed, 1, BB_HALF);
    assert_true(overflowed.overflowed && overflowed.n == BB_KERNEL_LIST_ITEMS);
}

/* Lists with every kind of layer, so that every kind of item is executed. */
static void make_layers(struct bb_kernel_list *forward, struct bb_kernel_list *backward)
{
    const struct bb_conv v = {2, 3, 1, 8, 8, 16, 1, 3, 3, 1, 1, BB_HALF};
    const uint32_t interior[3] = {1, 8, 8}, halo[3] = {0, 1, 2};

    bb_kernel_list_embedding(forward, 32, 64, 100, BB_FLOAT);
    assert_true(bb_kernel_list_transformer(forward, &tiny, false) && bb_kernel_list_transformer(backward, &tiny, true));
    assert_true(bb_kernel_list_conv(forward, &v, false, true) && bb_kernel_list_conv(backward, &v, true, true));
    assert_true(bb_kernel_list_dense(backward, 8, 32, 4, BB_ACT_RELU, BB_BFLOAT16, true));
    bb_kernel_list_permute(forward, 20, 64, 2, BB_HALF);
    bb_kernel_list_unpermute(forward, 20, 64, 2, BB_HALF);
    add_halos(forward, 6, interior, halo, false, false, false, BB_HALF);
    add_halos(forward, 6, interior, halo, false, true, false, BB_HALF);
    add_halos(backward, 6, interior, halo, false, true, true, BB_HALF);
    bb_kernel_list_accumulate(backward, 1001, BB_HALF);
    bb_kernel_list_optimizer(backward, BB_MEMORY_KERNEL_SGD, 999, BB_FLOAT);
    bb_kernel_list_optimizer(backward, BB_MEMORY_KERNEL_ADAM, 1001, BB_BFLOAT16);
    assert_false(forward->overflowed || backward->overflowed);
}

struct timing {
    cudaStream_t stream;
    cudaEvent_t start, stop;
};

static double run_us(const struct bb_kernel_runner *runner, int i, const struct timing *t)
{
    float ms;

    assert_int_equal(cudaEventRecord(t->start, t->stream), cudaSuccess);
    assert_int_equal(bb_kernel_runner_run(runner, i, t->stream), 0);
    assert_int_equal(cudaEventRecord(t->stop, t->stream), cudaSuccess);
    assert_int_equal(cudaEventSynchronize(t->stop), cudaSuccess);
    assert_int_equal(cudaEventElapsedTime(&ms, t->start, t->stop), cudaSuccess);
    return ms * 1e3;
}

/* On emulated GPUs all items of these small layers take the minimum of 2 us; the first is launched 2 us before it
 * starts. */
static void layers_run_in_the_modelled_time(void **state)
{
    static struct bb_kernel_list forward, backward;
    const struct bb_kernel_list *const lists[] = {&forward, &backward};
    struct bb_kernel_runner runner;
    struct timing t;

    (void)state;
    make_layers(&forward, &backward);
    assert_int_equal(cudaStreamCreate(&t.stream), cudaSuccess);
    assert_int_equal(cudaEventCreate(&t.start), cudaSuccess);
    assert_int_equal(cudaEventCreate(&t.stop), cudaSuccess);
    assert_int_equal(bb_kernel_runner_init(&runner, lists, 2, 2, t.stream), 0);
    for (int i = 0; i < 2; i++) {
        double us = run_us(&runner, i, &t), expected_us = (double)modelled_ns(lists[i], 2, 2000, 100) / 1e3;
        if (device.emulated && !(us >= expected_us - 0.001 && us <= expected_us + 2.001))
            fail_msg("list %d took %g us, not %g us", i, us, expected_us);
        assert_true(us > 0);
    }
    bb_kernel_runner_release(&runner);
    cudaEventDestroy(t.start);
    cudaEventDestroy(t.stop);
    cudaStreamDestroy(t.stream);
}

static void rejects_invalid_lists(void **state)
{
    static struct bb_kernel_list overflowed, integers;
    const struct bb_kernel_list *const first[] = {&overflowed}, *const second[] = {&integers};
    struct bb_kernel_runner runner;

    (void)state;
    overflowed.overflowed = true;
    assert_int_equal(bb_kernel_runner_init(&runner, first, 1, 1, NULL), -BB_EFAIL);
    bb_kernel_list_add_gemm(&integers, "gemm", &(struct bb_gemm_shape){4, 4, 4, 1, false, false, BB_INT8});
    assert_int_equal(bb_kernel_runner_init(&runner, second, 1, 1, NULL), -BB_EUSAGE);
    assert_null(runner.read); /* all resources are released after an error */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(transformer_flops_match_formulas),
        cmocka_unit_test(convolution_and_dense_flops_match_formulas),
        cmocka_unit_test(halos_cover_all_neighbours),
        cmocka_unit_test(optimizer_bytes_match_formulas),
        cmocka_unit_test(time_and_memory_follow_the_items),
        cmocka_unit_test(layers_run_in_the_modelled_time),
        cmocka_unit_test(rejects_invalid_lists),
    };
    int rc = gpu_choose(&device);

    return rc ? rc : cmocka_run_group_tests(tests, NULL, NULL);
}
