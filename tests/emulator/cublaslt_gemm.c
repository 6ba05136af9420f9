/*
 * cublaslt_gemm.c - checks whether a GEMM is modelled, and computes it.
 */
#include "cublaslt.h"
#include <stdlib.h>
#include <string.h>

/* ---- checks ---- */

static bool type_known(uint32_t type)
{
    return type == CUDA_R_32F || type == CUDA_R_16F || type == CUDA_R_16BF || type == CUDA_R_64F;
}

static size_t type_bytes(uint32_t type)
{
    return type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : 2;
}

static bool computes_in_float(int compute)
{
    return compute == CUBLAS_COMPUTE_32F || compute == CUBLAS_COMPUTE_32F_PEDANTIC ||
           compute == CUBLAS_COMPUTE_32F_FAST_16F || compute == CUBLAS_COMPUTE_32F_FAST_16BF ||
           compute == CUBLAS_COMPUTE_32F_FAST_TF32;
}

static bool computes_in_double(int compute)
{
    return compute == CUBLAS_COMPUTE_64F || compute == CUBLAS_COMPUTE_64F_PEDANTIC;
}

static bool is_plain(const struct lt_desc *desc)
{
    for (size_t i = 0; i < sizeof(desc->scales) / sizeof(desc->scales[0]); i++)
        if (desc->scales[i])
            return false;
    return desc->epilogue == CUBLASLT_EPILOGUE_DEFAULT && !desc->bias && desc->transc == CUBLAS_OP_N &&
           desc->fill == CUBLAS_FILL_MODE_FULL && desc->pointer_mode <= CUBLASLT_POINTER_MODE_DEVICE;
}

static bool types_fit(const struct lt_problem *p, const struct lt_desc *desc)
{
    if (p->a.type != p->b.type || p->c.type != p->d.type || !type_known(p->a.type) || !type_known(p->d.type))
        return false;
    if (computes_in_double(desc->compute))
        return p->a.type == CUDA_R_64F && p->d.type == CUDA_R_64F && desc->scale_type == CUDA_R_64F;
    if (!computes_in_float(desc->compute) || desc->scale_type != CUDA_R_32F || p->a.type == CUDA_R_64F)
        return false;
    return p->d.type == p->a.type || p->d.type == CUDA_R_32F;
}

static bool layout_ok(const struct lt_layout *l)
{
    uint64_t least = l->order == CUBLASLT_ORDER_COL ? l->rows : l->cols;

    return l->rows > 0 && l->cols > 0 && l->batch > 0 && l->ld > 0 && (uint64_t)l->ld >= least;
}

static bool order_known(const struct lt_layout *l)
{
    return l->order == CUBLASLT_ORDER_COL || l->order == CUBLASLT_ORDER_ROW;
}

static bool shapes_fit(const struct lt_problem *p)
{
    size_t b_rows = p->transb ? p->b.cols : p->b.rows;

    return b_rows == p->k && p->c.rows == p->m && p->c.cols == p->n && p->d.rows == p->m && p->d.cols == p->n &&
           p->a.batch == p->batch && p->b.batch == p->batch && p->c.batch == p->batch;
}

cublasStatus_t lt_problem_check(struct lt_problem *p, cublasLtMatmulDesc_t desc_at, cublasLtMatrixLayout_t a,
                                cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d)
{
    const struct lt_desc *desc = (const struct lt_desc *)desc_at;

    if (!desc || !a || !b || !c || !d)
        return CUBLAS_STATUS_INVALID_VALUE;
    *p = (struct lt_problem){.a = *(const struct lt_layout *)a,
                             .b = *(const struct lt_layout *)b,
                             .c = *(const struct lt_layout *)c,
                             .d = *(const struct lt_layout *)d,
                             .transa = desc->transa != CUBLAS_OP_N,
                             .transb = desc->transb != CUBLAS_OP_N,
                             .device_scalars = desc->pointer_mode == CUBLASLT_POINTER_MODE_DEVICE,
                             .scale_type = (cudaDataType)desc->scale_type};
    p->m = p->transa ? p->a.cols : p->a.rows;
    p->k = p->transa ? p->a.rows : p->a.cols;
    p->n = p->transb ? p->b.rows : p->b.cols;
    p->batch = p->d.batch;
    if (!layout_ok(&p->a) || !layout_ok(&p->b) || !layout_ok(&p->c) || !layout_ok(&p->d) || !shapes_fit(p))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (!is_plain(desc) || !types_fit(p, desc) || !order_known(&p->a) || !order_known(&p->b) || !order_known(&p->c) ||
        !order_known(&p->d))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    return CUBLAS_STATUS_SUCCESS;
}

/* ---- conversion of elements ---- */

static float float_of_bits(uint32_t bits)
{
    float value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

static uint32_t bits_of_float(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static float float_of_half(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 31, fraction = half & 1023;

    if (exponent == 31)
        return float_of_bits(sign | 0x7f800000 | fraction << 13);
    if (exponent == 0) /* zero and subnormals: fraction * 2^-24 */
        return (sign ? -1.0f : 1.0f) * (float)fraction * 0x1p-24f;
    return float_of_bits(sign | (exponent + 112) << 23 | fraction << 13);
}

/* bits >> n, rounded to nearest, ties to even. */
static uint32_t shift_rounded(uint32_t bits, int n)
{
    uint32_t half = 1u << (n - 1), rest = bits & ((1u << n) - 1);

    bits >>= n;
    return bits + (rest > half || (rest == half && (bits & 1)));
}

static uint16_t half_of_float(float value)
{
    uint32_t bits = bits_of_float(value), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;

    if (magnitude > 0x7f800000) /* NaN */
        return (uint16_t)(sign | 0x7e00);
    if (magnitude >= 0x477ff000) /* rounds beyond 65504, the largest half */
        return (uint16_t)(sign | 0x7c00);
    if (magnitude >= 0x38800000) /* normal: at least 2^-14 */
        return (uint16_t)(sign | shift_rounded(magnitude - (112u << 23), 13));
    if (magnitude < 0x33000000) /* below half of the smallest subnormal */
        return (uint16_t)sign;
    return (uint16_t)(sign | shift_rounded((magnitude & 0x7fffff) | 0x800000, 126 - (int)(magnitude >> 23)));
}

static uint16_t bfloat_of_float(float value)
{
    uint32_t bits = bits_of_float(value);

    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 64);
    return (uint16_t)shift_rounded(bits, 16);
}

static double load(const void *base, uint32_t type, size_t i)
{
    switch (type) {
    case CUDA_R_64F:
        return ((const double *)base)[i];
    case CUDA_R_32F:
        return ((const float *)base)[i];
    case CUDA_R_16F:
        return float_of_half(((const uint16_t *)base)[i]);
    default:
        return float_of_bits((uint32_t)((const uint16_t *)base)[i] << 16);
    }
}

static void store(void *base, uint32_t type, size_t i, double value)
{
    switch (type) {
    case CUDA_R_64F:
        ((double *)base)[i] = value;
        break;
    case CUDA_R_32F:
        ((float *)base)[i] = (float)value;
        break;
    case CUDA_R_16F:
        ((uint16_t *)base)[i] = half_of_float((float)value);
        break;
    default:
        ((uint16_t *)base)[i] = bfloat_of_float((float)value);
    }
}

/* ---- multiplication ---- */

static size_t index_of(const struct lt_layout *l, bool transposed, size_t row, size_t col)
{
    size_t r = transposed ? col : row, c = transposed ? row : col;

    return l->order == CUBLASLT_ORDER_COL ? r + c * (size_t)l->ld : r * (size_t)l->ld + c;
}

static const void *batch_at(const void *base, const struct lt_layout *l, int i)
{
    return (const char *)base + (size_t)i * (size_t)l->stride * type_bytes(l->type);
}

/* Products that are added, in the order of k, between a load and a store of a sum. */
#define FOUR 4

/* column[0..m) = op(A) * (column j of op(B)), summed over k in order; a is packed by columns. Separate functions for
 * float and double sums allow the compiler to vectorise. */
static void column_f32(const struct lt_problem *p, const float *a, const void *b, size_t j, float *column)
{
    size_t k = 0;

    memset(column, 0, p->m * sizeof(*column));
    for (; k + FOUR <= p->k; k += FOUR) {
        const float *a0 = a + k * p->m, *a1 = a0 + p->m, *a2 = a1 + p->m, *a3 = a2 + p->m;
        float f[FOUR];

        for (size_t n = 0; n < FOUR; n++)
            f[n] = (float)load(b, p->b.type, index_of(&p->b, p->transb, k + n, j));
        for (size_t i = 0; i < p->m; i++)
            column[i] = (((column[i] + a0[i] * f[0]) + a1[i] * f[1]) + a2[i] * f[2]) + a3[i] * f[3];
    }
    for (; k < p->k; k++) {
        float factor = (float)load(b, p->b.type, index_of(&p->b, p->transb, k, j));

        for (size_t i = 0; i < p->m; i++)
            column[i] += a[k * p->m + i] * factor;
    }
}

static void column_f64(const struct lt_problem *p, const double *a, const void *b, size_t j, double *column)
{
    size_t k = 0;

    memset(column, 0, p->m * sizeof(*column));
    for (; k + FOUR <= p->k; k += FOUR) {
        const double *a0 = a + k * p->m, *a1 = a0 + p->m, *a2 = a1 + p->m, *a3 = a2 + p->m;
        double f[FOUR];

        for (size_t n = 0; n < FOUR; n++)
            f[n] = load(b, p->b.type, index_of(&p->b, p->transb, k + n, j));
        for (size_t i = 0; i < p->m; i++)
            column[i] = (((column[i] + a0[i] * f[0]) + a1[i] * f[1]) + a2[i] * f[2]) + a3[i] * f[3];
    }
    for (; k < p->k; k++) {
        double factor = load(b, p->b.type, index_of(&p->b, p->transb, k, j));

        for (size_t i = 0; i < p->m; i++)
            column[i] += a[k * p->m + i] * factor;
    }
}

static void pack(const struct lt_problem *p, const void *a, bool wide, void *packed)
{
    for (size_t k = 0; k < p->k; k++)
        for (size_t i = 0; i < p->m; i++) {
            double value = load(a, p->a.type, index_of(&p->a, p->transa, i, k));

            if (wide)
                ((double *)packed)[i + k * p->m] = value;
            else
                ((float *)packed)[i + k * p->m] = (float)value;
        }
}

static void multiply(const struct lt_problem *p, double alpha, const void *packed, const void *b, double beta,
                     const void *c, void *d, void *column)
{
    bool wide = p->a.type == CUDA_R_64F;

    for (size_t j = 0; j < p->n && !emu_stopping(); j++) {
        if (wide)
            column_f64(p, packed, b, j, column);
        else
            column_f32(p, packed, b, j, column);
        for (size_t i = 0; i < p->m; i++) {
            double value = alpha * (wide ? ((double *)column)[i] : (double)((float *)column)[i]);

            if (beta != 0)
                value += beta * load(c, p->c.type, index_of(&p->c, false, i, j));
            store(d, p->d.type, index_of(&p->d, false, i, j), value);
        }
    }
}

bool lt_compute(const struct lt_problem *p, double alpha, const void *a, const void *b, double beta, const void *c,
                void *d)
{
    bool wide = p->a.type == CUDA_R_64F;
    size_t bytes = wide ? sizeof(double) : sizeof(float);
    void *packed = malloc(p->m * p->k * bytes), *column = malloc(p->m * bytes);

    for (int i = 0; packed && column && i < p->batch; i++) {
        pack(p, batch_at(a, &p->a, i), wide, packed);
        multiply(p, alpha, packed, batch_at(b, &p->b, i), beta, batch_at(c, &p->c, i),
                 (void *)(uintptr_t)batch_at(d, &p->d, i), column);
    }
    free(packed);
    free(column);
    return packed && column;
}
