/*
 * test_gpu_gemm.c - GEMMs with cuBLASLt: row-major results computed by hand for each storage order of A and B, batches,
 * data types, graph capture, errors, and on emulated GPUs the duration. Exits with 77 (skipped) without a GPU.
 */
#include "cuda/compute/gemm.h"
#include "tests/cuda/work/element.h"

#include "cuda/work/memory_kernel.h"
#include "tests/check.h"
#include "tests/cuda/gpu.h"

#include <math.h>

enum { MAX_ELEMENTS = 64 };

static struct bb_device_info device; /* the GPU of all tests in this program */

static void *on_device(enum bb_dtype_id dtype, size_t n, const double *values)
{
    uint64_t raw[MAX_ELEMENTS];
    void *p = NULL;

    for (size_t i = 0; i < n; i++)
        bb_element_set(raw, dtype, i, values[i]);
    assert_int_equal(cudaMalloc(&p, n * bb_dtypes[dtype].bytes), cudaSuccess);
    assert_int_equal(cudaMemcpy(p, raw, n * bb_dtypes[dtype].bytes, cudaMemcpyHostToDevice), cudaSuccess);
    return p;
}

static void assert_gemm(const struct bb_gemm_shape *s, const double *a, const double *b, const double *expected)
{
    size_t each = bb_dtypes[s->dtype].bytes, n = bb_gemm_c_bytes(s) / each;
    void *da = on_device(s->dtype, bb_gemm_a_bytes(s) / each, a),
         *db = on_device(s->dtype, bb_gemm_b_bytes(s) / each, b);
    void *dc = on_device(s->dtype, n, (double[MAX_ELEMENTS]){0});
    uint64_t raw[MAX_ELEMENTS];
    struct bb_gemm_lib lib;
    struct bb_gemm g;

    assert_int_equal(bb_gemm_lib_init(&lib, 1 << 20), 0);
    assert_int_equal(bb_gemm_init(&g, &lib, s), 0);
    assert_int_equal(bb_gemm_run(&g, da, db, dc, NULL), 0);
    assert_int_equal(cudaMemcpy(raw, dc, n * each, cudaMemcpyDeviceToHost), cudaSuccess);
    for (size_t i = 0; i < n; i++)
        assert_true(bb_element_get(raw, s->dtype, i) == expected[i]);
    bb_gemm_release(&g);
    bb_gemm_lib_release(&lib);
    cudaFree(da);
    cudaFree(db);
    cudaFree(dc);
}

/* [1 2 3; 4 5 6] [1 2; 3 4; 5 6] = [22 28; 49 64], with A and B each stored normally and transposed. */
static void results_are_row_major(void **state)
{
    static const enum bb_dtype_id types[] = {BB_FLOAT, BB_HALF, BB_BFLOAT16};
    static const double a[2][6] = {{1, 2, 3, 4, 5, 6}, {1, 4, 2, 5, 3, 6}};
    static const double b[2][6] = {{1, 2, 3, 4, 5, 6}, {1, 3, 5, 2, 4, 6}};

    (void)state;
    for (int storage = 0; storage < 4; storage++)
        for (int t = 0; t < 3; t++) {
            struct bb_gemm_shape s = {2, 2, 3, 1, storage & 1, storage >> 1, types[t]};
            assert_gemm(&s, a[storage & 1], b[storage >> 1], (const double[]){22, 28, 49, 64});
        }
}

static void batches_are_contiguous(void **state)
{
    struct bb_gemm_shape s = {2, 1, 2, 2, false, false, BB_FLOAT};

    (void)state;
    assert_gemm(&s, (const double[]){1, 2, 3, 4, 5, 6, 7, 8}, (const double[]){1, 1, 2, -1},
                (const double[]){3, 7, 4, 6});
}

/* The backward GEMMs of C = A B^T for dC = [1 0; 0 1; 1 1]: dA = dC B and dB = A^T dC. */
static void backward_gemms_use_matrices_as_stored(void **state)
{
    struct bb_gemm_shape s = {3, 2, 2, 1, false, true, BB_FLOAT}, dgrad, wgrad;
    static const double a[] = {1, 2, 3, 4, 5, 6}, weights[] = {1, 2, 3, 4}, dc[] = {1, 0, 0, 1, 1, 1};

    (void)state;
    bb_gemm_backward(&s, &dgrad, &wgrad);
    assert_gemm(&dgrad, dc, weights, (const double[]){1, 2, 3, 4, 4, 6});
    assert_gemm(&wgrad, a, dc, (const double[]){6, 8, 8, 10});
}

/*
 * 2 * 512^3 FLOP at 100 TFLOP/s (float in the built-in profile of the emulated GPUs) take 2.684 us; small GEMMs take
 * the profile's minimum of 2 us.
 */
static void duration_follows_flops(void **state)
{
    static const struct {
        enum bb_dtype_id dtype;
        int64_t side;
        double us;
    } expected[] = {{BB_FLOAT, 512, 2.684}, {BB_BFLOAT16, 64, 2.0}};
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
        const int64_t side = expected[i].side;
        struct bb_gemm_shape s = {side, side, side, 1, false, false, expected[i].dtype};
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
        assert_true(ms * 1e3 >= expected[i].us - 0.001 && ms * 1e3 <= expected[i].us + 4); /* plus the launch time */
        bb_gemm_release(&g);
    }
    bb_gemm_lib_release(&lib);
    cudaFree(memory);
    cudaEventDestroy(start);
    cudaEventDestroy(stop);
}

static void gemms_can_be_captured(void **state)
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

static void rejects_unsupported_gemms(void **state)
{
    struct bb_gemm_shape integers = {2, 2, 2, 1, false, false, BB_INT32},
                         nothing = {2, 0, 2, 1, false, false, BB_FLOAT};
    struct bb_gemm_lib lib;
    struct bb_gemm g;

    (void)state;
    assert_int_equal(bb_gemm_lib_init(&lib, 0), 0);
    assert_int_equal(bb_gemm_init(&g, &lib, &integers), -BB_EUSAGE);
    assert_int_equal(bb_gemm_init(&g, &lib, &nothing), -BB_EUSAGE);
    assert_null(g.desc); /* all resources are released after an error */
    bb_gemm_lib_release(&lib);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_are_row_major),
        cmocka_unit_test(batches_are_contiguous),
        cmocka_unit_test(backward_gemms_use_matrices_as_stored),
        cmocka_unit_test(duration_follows_flops),
        cmocka_unit_test(gemms_can_be_captured),
        cmocka_unit_test(rejects_unsupported_gemms),
    };
    int rc = gpu_choose(&device);

    return rc ? rc : cmocka_run_group_tests(tests, NULL, NULL);
}
