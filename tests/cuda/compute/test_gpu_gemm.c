/*
 * test_gpu_gemm.c - matrix products through cuBLASLt: row-major results worked out by hand, for each way of storing A
 * and B, batches, types; capture into a graph; errors; on emulated GPUs also their time. 77 without any GPU.
 */
#include "cuda/compute/gemm.h"
#include "tests/cuda/work/element.h"

#include "cuda/work/memory_kernel.h"
#include "tests/check.h"
#include "tests/cuda/gpu.h"

#include <math.h>

enum { MOST = 64 };

static struct bb_device_info device; /* of the whole program */

static void *on_device(enum bb_dtype_id dtype, size_t n, const double *values)
{
    uint64_t raw[MOST];
    void *p = NULL;

    for (size_t i = 0; i < n; i++)
        bb_element_set(raw, dtype, i, values[i]);
    assert_int_equal(cudaMalloc(&p, n * bb_dtypes[dtype].bytes), cudaSuccess);
    assert_int_equal(cudaMemcpy(p, raw, n * bb_dtypes[dtype].bytes, cudaMemcpyHostToDevice), cudaSuccess);
    return p;
}

static void assert_gemm(const struct bb_gemm_shape *s, const double *a, const double *b, const double *want)
{
    size_t each = bb_dtypes[s->dtype].bytes, n = bb_gemm_c_bytes(s) / each;
    void *da = on_device(s->dtype, bb_gemm_a_bytes(s) / each, a),
         *db = on_device(s->dtype, bb_gemm_b_bytes(s) / each, b);
    void *dc = on_device(s->dtype, n, (double[MOST]){0});
    uint64_t raw[MOST];
    struct bb_gemm_lib lib;
    struct bb_gemm g;

    assert_int_equal(bb_gemm_lib_init(&lib, 1 << 20), 0);
    assert_int_equal(bb_gemm_init(&g, &lib, s), 0);
    assert_int_equal(bb_gemm_run(&g, da, db, dc, NULL), 0);
    assert_int_equal(cudaMemcpy(raw, dc, n * each, cudaMemcpyDeviceToHost), cudaSuccess);
    for (size_t i = 0; i < n; i++)
        assert_true(bb_element_get(raw, s->dtype, i) == want[i]);
    bb_gemm_release(&g);
    bb_gemm_lib_release(&lib);
    cudaFree(da);
    cudaFree(db);
    cudaFree(dc);
}

/* [1 2 3; 4 5 6] [1 2; 3 4; 5 6] = [22 28; 49 64], A and B stored either way. */
static void products_in_row_major(void **state)
{
    static const enum bb_dtype_id types[] = {BB_FLOAT, BB_HALF, BB_BFLOAT16};
    static const double a[2][6] = {{1, 2, 3, 4, 5, 6}, {1, 4, 2, 5, 3, 6}};
    static const double b[2][6] = {{1, 2, 3, 4, 5, 6}, {1, 3, 5, 2, 4, 6}};

    (void)state;
    for (int way = 0; way < 4; way++)
        for (int t = 0; t < 3; t++) {
            struct bb_gemm_shape s = {2, 2, 3, 1, way & 1, way >> 1, types[t]};
            assert_gemm(&s, a[way & 1], b[way >> 1], (const double[]){22, 28, 49, 64});
        }
}

static void batches_lie_one_behind_another(void **state)
{
    struct bb_gemm_shape s = {2, 1, 2, 2, false, false, BB_FLOAT};

    (void)state;
    assert_gemm(&s, (const double[]){1, 2, 3, 4, 5, 6, 7, 8}, (const double[]){1, 1, 2, -1},
                   (const double[]){3, 7, 4, 6});
}

/* The backward products of C = A B^T, with dC = [1 0; 0 1; 1 1]: what each yields is a plain product again. */
static void backward_products_take_matrices_as_stored(void **state)
{
    struct bb_gemm_shape s = {3, 2, 2, 1, false, true, BB_FLOAT}, dgrad, wgrad;
    static const double a[] = {1, 2, 3, 4, 5, 6}, weights[] = {1, 2, 3, 4}, dc[] = {1, 0, 0, 1, 1, 1};

    (void)state;
    bb_gemm_backward(&s, &dgrad, &wgrad);
    assert_gemm(&dgrad, dc, weights, (const double[]){1, 2, 3, 4, 4, 6});
    assert_gemm(&wgrad, a, dc, (const double[]){6, 8, 8, 10});
}

/* 2 * 512^3 FLOP at the built-in profile's 100 TFLOP/s in float: 2.684 us; small products take the least, 2 us. */
static void products_last_as_their_flops(void **state)
{
    static const struct {
        enum bb_dtype_id dtype;
        int64_t side;
        double us;
    } wants[] = {{BB_FLOAT, 512, 2.684}, {BB_BFLOAT16, 64, 2.0}};
    struct bb_gemm_lib lib;
    cudaEvent_t start, stop;
    void *memory;
    float ms;

    (void)state;
    if (!device.emulated)
        skip();
    assert_int_equal(bb_gemm_lib_init(&lib, BB_GEMM_WORKSPACE), 0);
    assert_int_equal(cudaMalloc(&memory, 3 << 20), cudaSuccess);
    assert_int_equal(cudaEventCreate(&start), cudaSuccess);
    assert_int_equal(cudaEventCreate(&stop), cudaSuccess);
    for (int i = 0; i < 2; i++) {
        const int64_t side = wants[i].side;
        struct bb_gemm_shape s = {side, side, side, 1, false, false, wants[i].dtype};
        struct bb_gemm g;
        int tried = 0;
        assert_int_equal(bb_gemm_init(&g, &lib, &s), 0);
        assert_int_equal(bb_gemm_tune(&g, 8, 1, memory, memory, (char *)memory + (2 << 20), NULL, &tried), 0);
        assert_int_equal(tried, 1);
        assert_int_equal(cudaEventRecord(start, NULL), cudaSuccess);
        assert_int_equal(bb_gemm_run(&g, memory, memory, (char *)memory + (2 << 20), NULL), 0);
        assert_int_equal(cudaEventRecord(stop, NULL), cudaSuccess);
        assert_int_equal(cudaEventSynchronize(stop), cudaSuccess);
        assert_int_equal(cudaEventElapsedTime(&ms, start, stop), cudaSuccess);
        assert_true(ms * 1e3 >= wants[i].us - 0.001 && ms * 1e3 <= wants[i].us + 4); /* and the time to issue it */
        bb_gemm_release(&g);
    }
    bb_gemm_lib_release(&lib);
    cudaFree(memory);
    cudaEventDestroy(start);
    cudaEventDestroy(stop);
}

static void products_go_into_graphs(void **state)
{
    struct bb_gemm_shape s = {1, 1, 2, 1, false, false, BB_FLOAT};
    void *a = on_device(BB_FLOAT, 2, (double[]){3, 4}), *c = on_device(BB_FLOAT, 1, (double[]){0});
    struct bb_gemm_lib lib;
    struct bb_gemm g;
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    float got;

    (void)state;
    assert_int_equal(bb_gemm_lib_init(&lib, 0), 0);
    assert_int_equal(bb_gemm_init(&g, &lib, &s), 0);
    assert_int_equal(cudaStreamCreate(&stream), cudaSuccess);
    assert_int_equal(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    assert_int_equal(bb_gemm_run(&g, a, a, c, stream), 0);
    assert_int_equal(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    assert_int_equal(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
    assert_int_equal(cudaGraphLaunch(exec, stream), cudaSuccess);
    assert_int_equal(cudaStreamSynchronize(stream), cudaSuccess);
    assert_int_equal(cudaMemcpy(&got, c, sizeof got, cudaMemcpyDeviceToHost), cudaSuccess);
    assert_true(got == 25);
    cudaGraphExecDestroy(exec);
    cudaGraphDestroy(graph);
    cudaStreamDestroy(stream);
    bb_gemm_release(&g);
    bb_gemm_lib_release(&lib);
    cudaFree(a);
    cudaFree(c);
}

static void what_cannot_be_done_is_said(void **state)
{
    struct bb_gemm_shape integers = {2, 2, 2, 1, false, false, BB_INT32},
                         nothing = {2, 0, 2, 1, false, false, BB_FLOAT};
    struct bb_gemm_lib lib;
    struct bb_gemm g;

    (void)state;
    assert_int_equal(bb_gemm_lib_init(&lib, 0), 0);
    assert_int_equal(bb_gemm_init(&g, &lib, &integers), -BB_EUSAGE);
    assert_int_equal(bb_gemm_init(&g, &lib, &nothing), -BB_EUSAGE);
    assert_null(g.desc); /* nothing is left behind */
    bb_gemm_lib_release(&lib);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_in_row_major),
        cmocka_unit_test(batches_lie_one_behind_another),
        cmocka_unit_test(backward_products_take_matrices_as_stored),
        cmocka_unit_test(products_last_as_their_flops),
        cmocka_unit_test(products_go_into_graphs),
        cmocka_unit_test(what_cannot_be_done_is_said),
    };
    int rc = gpu_choose(&device);

    return rc ? rc : cmocka_run_group_tests(tests, NULL, NULL);
}
