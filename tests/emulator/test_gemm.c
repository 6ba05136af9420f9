/*
 * test_gemm.c - cuBLASLt: GEMMs against sums in double, for every type, transposition and order; conversion of every
 * half and bfloat16; times; and unsupported cases.
 */
#include "child.h"
#include "engine.h"
#include <cublasLt.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { M = 7, N = 5, K = 11, BATCH = 2, LD = 16, AREA = LD * LD };

/* Values that every type represents exactly: quarters from -4 to 4. */
static double quarter(unsigned *seed)
{
    *seed = *seed * 1103515245u + 12345u;
    return (double)(*seed >> 16 & 31) / 4 - 4;
}

/* Stores 16-bit types by truncation, which is exact for these values. */
static void put(void *to, cudaDataType type, size_t i, double value)
{
    float f = (float)value;
    uint32_t bits;

    memcpy(&bits, &f, 4);
    if (type == CUDA_R_64F)
        ((double *)to)[i] = value;
    else if (type == CUDA_R_32F)
        ((float *)to)[i] = f;
    else if (type == CUDA_R_16BF)
        ((uint16_t *)to)[i] = (uint16_t)(bits >> 16);
    else
        ((uint16_t *)to)[i] =
            f == 0 ? 0 : (uint16_t)((bits >> 16 & 0x8000) | ((bits >> 23 & 255) - 112) << 10 | (bits >> 13 & 1023));
}

static double get(const void *from, cudaDataType type, size_t i)
{
    uint16_t half;

    if (type == CUDA_R_64F)
        return ((const double *)from)[i];
    if (type == CUDA_R_32F)
        return ((const float *)from)[i];
    half = ((const uint16_t *)from)[i];
    if (type == CUDA_R_16BF) {
        uint32_t bits = (uint32_t)half << 16;
        float f;

        memcpy(&f, &bits, 4);
        return f;
    }
    return (half & 0x8000 ? -1 : 1) *
           (half & 0x7c00 ? ldexp(1024 + (half & 1023), (half >> 10 & 31) - 25) : ldexp(half & 1023, -24));
}

struct matrix {
    cublasLtMatrixLayout_t layout;
    double values[BATCH][AREA]; /* [row * LD + col], as the operation sees it after transposition */
    void *device;
};

struct variant {
    cudaDataType type, out;
    cublasComputeType_t compute;
    bool transa, transb;
    int order; /* of A and D */
};

static size_t at(int order, size_t row, size_t col)
{
    return order == CUBLASLT_ORDER_ROW ? row * LD + col : row + col * LD;
}

static int make(struct matrix *x, cudaDataType type, size_t rows, size_t cols, bool transposed, int order,
                unsigned *seed)
{
    int batch = BATCH;
    int64_t stride = AREA;

    OK(cublasLtMatrixLayoutCreate(&x->layout, type, transposed ? cols : rows, transposed ? rows : cols, LD));
    OK(cublasLtMatrixLayoutSetAttribute(x->layout, CUBLASLT_MATRIX_LAYOUT_ORDER, &order, sizeof(order)));
    OK(cublasLtMatrixLayoutSetAttribute(x->layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof(batch)));
    OK(cublasLtMatrixLayoutSetAttribute(x->layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride,
                                        sizeof(stride)));
    OK(cudaMalloc(&x->device, BATCH * AREA * sizeof(double)));
    for (int b = 0; b < BATCH; b++)
        for (size_t r = 0; r < rows; r++)
            for (size_t c = 0; c < cols; c++) {
                double value = quarter(seed);

                x->values[b][r * LD + c] = value;
                put(x->device, type, (size_t)b * AREA + (transposed ? at(order, c, r) : at(order, r, c)), value);
            }
    return 0;
}

static double expected(const struct matrix *a, const struct matrix *b, const struct matrix *c, int batch, size_t i,
                       size_t j)
{
    double sum = 0;

    for (size_t k = 0; k < K; k++)
        sum += a->values[batch][i * LD + k] * b->values[batch][k * LD + j];
    return 0.5 * sum + 2 * c->values[batch][i * LD + j];
}

static int multiply(cublasLtHandle_t handle, const struct variant *v)
{
    static struct matrix a, b, c, d;
    cudaDataType scale = v->type == CUDA_R_64F ? CUDA_R_64F : CUDA_R_32F;
    cublasOperation_t ta = v->transa ? CUBLAS_OP_T : CUBLAS_OP_N, tb = v->transb ? CUBLAS_OP_T : CUBLAS_OP_N;
    double alpha, beta, tolerance = v->out == CUDA_R_16BF ? 0x1p-7 : v->out == CUDA_R_16F ? 0x1p-10 : 0;
    cublasLtMatmulDesc_t desc;
    unsigned seed = 1;

    put(&alpha, scale, 0, 0.5);
    put(&beta, scale, 0, 2);
    OK(make(&a, v->type, M, K, v->transa, v->order, &seed));
    OK(make(&b, v->type, K, N, v->transb, CUBLASLT_ORDER_COL, &seed));
    OK(make(&c, v->out, M, N, false, CUBLASLT_ORDER_COL, &seed));
    OK(make(&d, v->out, M, N, false, v->order, &seed));
    OK(cublasLtMatmulDescCreate(&desc, v->compute, scale));
    OK(cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_TRANSA, &ta, sizeof(ta)));
    OK(cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_TRANSB, &tb, sizeof(tb)));
    OK(cublasLtMatmul(handle, desc, &alpha, a.device, a.layout, b.device, b.layout, &beta, c.device, c.layout, d.device,
                      d.layout, NULL, NULL, 0, 0));
    OK(cudaDeviceSynchronize());
    for (int n = 0; n < BATCH; n++)
        for (size_t i = 0; i < M; i++)
            for (size_t j = 0; j < N; j++) {
                double want = expected(&a, &b, &c, n, i, j), got = get(d.device, v->out, n * AREA + at(v->order, i, j));

                EXPECT(fabs(got - want) <= fabs(want) * tolerance);
            }
    OK(cudaFree(a.device) | cudaFree(b.device) | cudaFree(c.device) | cudaFree(d.device));
    OK(cublasLtMatmulDescDestroy(desc));
    OK(cublasLtMatrixLayoutDestroy(a.layout) | cublasLtMatrixLayoutDestroy(b.layout));
    OK(cublasLtMatrixLayoutDestroy(c.layout) | cublasLtMatrixLayoutDestroy(d.layout));
    return 0;
}

static int products(void)
{
    static const struct variant types[] = {
        {.type = CUDA_R_32F, .out = CUDA_R_32F, .compute = CUBLAS_COMPUTE_32F},
        {.type = CUDA_R_32F, .out = CUDA_R_32F, .compute = CUBLAS_COMPUTE_32F_FAST_TF32},
        {.type = CUDA_R_16F, .out = CUDA_R_16F, .compute = CUBLAS_COMPUTE_32F},
        {.type = CUDA_R_16BF, .out = CUDA_R_16BF, .compute = CUBLAS_COMPUTE_32F},
        {.type = CUDA_R_16F, .out = CUDA_R_32F, .compute = CUBLAS_COMPUTE_32F},
        {.type = CUDA_R_16BF, .out = CUDA_R_32F, .compute = CUBLAS_COMPUTE_32F},
        {.type = CUDA_R_64F, .out = CUDA_R_64F, .compute = CUBLAS_COMPUTE_64F},
    };
    cublasLtHandle_t handle;

    OK(cublasLtCreate(&handle));
    for (size_t t = 0; t < sizeof(types) / sizeof(types[0]); t++)
        for (int bits = 0; bits < 8; bits++) {
            struct variant v = types[t];

            v.transa = bits & 1, v.transb = bits & 2;
            v.order = bits & 4 ? CUBLASLT_ORDER_ROW : CUBLASLT_ORDER_COL;
            OK(multiply(handle, &v));
        }
    OK(cublasLtDestroy(handle));
    return 0;
}

struct call {
    cublasLtHandle_t handle;
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t a, b, c;
    void *x, *y, *z;
};

/* All matrices are 256 x 256. */
static int begin(struct call *call, cudaDataType type, cudaDataType out)
{
    OK(cublasLtCreate(&call->handle));
    OK(cublasLtMatmulDescCreate(&call->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    OK(cublasLtMatrixLayoutCreate(&call->a, type, 256, 256, 256));
    OK(cublasLtMatrixLayoutCreate(&call->b, type, 256, 256, 256));
    OK(cublasLtMatrixLayoutCreate(&call->c, out, 256, 256, 256));
    OK(cudaMalloc(&call->x, 65536 * 4));
    OK(cudaMalloc(&call->y, 65536 * 4));
    OK(cudaMalloc(&call->z, 65536 * 4));
    return 0;
}

static cublasStatus_t run(struct call *call, float alpha, float beta, cudaStream_t stream)
{
    return cublasLtMatmul(call->handle, call->desc, &alpha, call->x, call->a, call->y, call->b, &beta, call->z, call->c,
                          call->z, call->c, NULL, NULL, 0, stream);
}

/* Every finite bit pattern of a 16-bit type, times the identity, stays unchanged. */
static int every_value(cudaDataType type, uint16_t exponent)
{
    struct call call;
    uint16_t *x, *y, *z;

    OK(begin(&call, type, type));
    x = call.x, y = call.y, z = call.z;
    for (int i = 0; i < 65536; i++)
        x[i] = (i & exponent) == exponent ? 0 : (uint16_t)i;
    for (size_t i = 0; i < 256; i++)
        put(y, type, i * 257, 1);
    OK(run(&call, 1, 0, 0));
    OK(cudaDeviceSynchronize());
    for (int i = 0; i < 65536; i++)
        if (x[i] != z[i] && (x[i] | z[i]) != 0x8000) /* a sum of zeros may lose the sign */
            EXPECT(x[i] == z[i]);
    return 0;
}

static int every_half(void)
{
    return every_value(CUDA_R_16F, 0x7c00);
}

static int every_bfloat(void)
{
    return every_value(CUDA_R_16BF, 0x7f80);
}

/* Rounding to nearest even, overflow to infinity, subnormals. */
static int rounding(void)
{
    static const struct {
        float factor;
        uint16_t half;
    } cases[] = {{1 + 0x1p-11f, 0x3c00}, {1 + 0x3p-11f, 0x3c02}, {1 + 0x1.1p-11f, 0x3c01},
                 {65519, 0x7bff},        {65520, 0x7c00},        {-1e9f, 0xfc00},
                 {0x1p-24f, 1},          {0x1p-25f, 0},          {0x1.8p-25f, 1},
                 {0x1.ffcp-15f, 0x0400}, {-0x1p-14f, 0x8400}};
    struct call call;

    OK(begin(&call, CUDA_R_16F, CUDA_R_16F));
    put(call.x, CUDA_R_16F, 0, 1);
    put(call.y, CUDA_R_16F, 0, 1);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        OK(run(&call, cases[i].factor, 0, 0));
        OK(cudaDeviceSynchronize());
        EXPECT(((uint16_t *)call.z)[0] == cases[i].half);
    }
    return 0;
}

/* 2 * 256^3 operations at 2 TFLOP/s for half, 1 for float: 16777 and 33554 ns. */
static int times(void)
{
    cublasLtMatmulHeuristicResult_t result;
    cublasLtMatmulPreference_t preference;
    struct call call;
    int found;

    OK(begin(&call, CUDA_R_16F, CUDA_R_32F));
    OK(run(&call, 1, 0, 0));
    OK(cudaDeviceSynchronize());
    EXPECT(emu_host_now_ns() == 1000 + 16777);
    OK(cublasLtMatmulPreferenceCreate(&preference));
    OK(cublasLtMatmulAlgoGetHeuristic(call.handle, call.desc, call.a, call.b, call.c, call.c, preference, 1, &result,
                                      &found));
    EXPECT(found == 1 && result.state == CUBLAS_STATUS_SUCCESS && result.workspaceSize == 0);
    OK(cudaFree(call.x) | cudaFree(call.y) | cudaFree(call.z));
    OK(begin(&call, CUDA_R_32F, CUDA_R_32F));
    OK(run(&call, 1, 0, 0));
    OK(cudaDeviceSynchronize());
    EXPECT(emu_host_now_ns() == 17777 + 1000 + 33554);
    EXPECT(cublasLtGetVersion() == CUBLAS_VERSION);
    EXPECT(strcmp(cublasLtGetStatusName(CUBLAS_STATUS_NOT_SUPPORTED), "CUBLAS_STATUS_NOT_SUPPORTED") == 0);
    return 0;
}

static int refused(void)
{
    cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    struct call call;
    uint64_t rows = 255;
    size_t written;

    OK(begin(&call, CUDA_R_16F, CUDA_R_16F));
    EXPECT_RC(cublasLtMatrixLayoutSetAttribute(call.a, CUBLASLT_MATRIX_LAYOUT_ROWS, &rows, 4),
              CUBLAS_STATUS_INVALID_VALUE);
    OK(cublasLtMatrixLayoutSetAttribute(call.b, CUBLASLT_MATRIX_LAYOUT_ROWS, &rows, 8));
    EXPECT_RC(run(&call, 1, 0, 0), CUBLAS_STATUS_INVALID_VALUE); /* k does not match */
    rows = 256;
    OK(cublasLtMatrixLayoutSetAttribute(call.b, CUBLASLT_MATRIX_LAYOUT_ROWS, &rows, 8));
    OK(cublasLtMatrixLayoutGetAttribute(call.b, CUBLASLT_MATRIX_LAYOUT_ROWS, NULL, 0, &written));
    EXPECT(written == 8);
    OK(run(&call, 1, 0, 0));
    OK(cublasLtMatmulDescSetAttribute(call.desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof(epilogue)));
    EXPECT_RC(run(&call, 1, 0, 0), CUBLAS_STATUS_NOT_SUPPORTED);
    call.handle = NULL;
    EXPECT_RC(run(&call, 1, 0, 0), CUBLAS_STATUS_NOT_INITIALIZED);
    return 0;
}

#define SCENARIO(name)                                                                                                 \
    static void test_##name(void **state)                                                                              \
    {                                                                                                                  \
        (void)state;                                                                                                   \
        child_pass(name, NULL);                                                                                        \
    }
SCENARIO(products)
SCENARIO(every_half)
SCENARIO(every_bfloat)
SCENARIO(rounding)
SCENARIO(times)
SCENARIO(refused)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products), cmocka_unit_test(test_every_half), cmocka_unit_test(test_every_bfloat),
        cmocka_unit_test(test_rounding), cmocka_unit_test(test_times),      cmocka_unit_test(test_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
