/*
 * cublaslt_desc.c - the descriptors of cuBLASLt. Attributes are fields of a struct in the opaque storage, found by
 * tables.
 */
#include "cublaslt.h"
#include <stdlib.h>
#include <string.h>

struct field {
    int id;
    size_t offset, bytes;
};
#define FIELD(id, type, member)                                                                                        \
    {                                                                                                                  \
        id, offsetof(type, member), sizeof(((type *)0)->member)                                                        \
    }

static const struct field layout_fields[] = {
    FIELD(CUBLASLT_MATRIX_LAYOUT_TYPE, struct lt_layout, type),
    FIELD(CUBLASLT_MATRIX_LAYOUT_ORDER, struct lt_layout, order),
    FIELD(CUBLASLT_MATRIX_LAYOUT_ROWS, struct lt_layout, rows),
    FIELD(CUBLASLT_MATRIX_LAYOUT_COLS, struct lt_layout, cols),
    FIELD(CUBLASLT_MATRIX_LAYOUT_LD, struct lt_layout, ld),
    FIELD(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, struct lt_layout, batch),
    FIELD(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, struct lt_layout, stride),
    FIELD(CUBLASLT_MATRIX_LAYOUT_PLANE_OFFSET, struct lt_layout, plane),
};

static const struct field desc_fields[] = {
    FIELD(CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, struct lt_desc, compute),
    FIELD(CUBLASLT_MATMUL_DESC_SCALE_TYPE, struct lt_desc, scale_type),
    FIELD(CUBLASLT_MATMUL_DESC_POINTER_MODE, struct lt_desc, pointer_mode),
    FIELD(CUBLASLT_MATMUL_DESC_TRANSA, struct lt_desc, transa),
    FIELD(CUBLASLT_MATMUL_DESC_TRANSB, struct lt_desc, transb),
    FIELD(CUBLASLT_MATMUL_DESC_TRANSC, struct lt_desc, transc),
    FIELD(CUBLASLT_MATMUL_DESC_FILL_MODE, struct lt_desc, fill),
    FIELD(CUBLASLT_MATMUL_DESC_EPILOGUE, struct lt_desc, epilogue),
    FIELD(CUBLASLT_MATMUL_DESC_BIAS_POINTER, struct lt_desc, bias),
    FIELD(CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, struct lt_desc, bias_stride),
    FIELD(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, struct lt_desc, scales[5]),
    FIELD(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, struct lt_desc, aux_ld),
    FIELD(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, struct lt_desc, aux_stride),
    FIELD(CUBLASLT_MATMUL_DESC_ALPHA_VECTOR_BATCH_STRIDE, struct lt_desc, alpha_stride),
    FIELD(CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, struct lt_desc, sms),
    FIELD(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, struct lt_desc, scales[0]),
    FIELD(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, struct lt_desc, scales[1]),
    FIELD(CUBLASLT_MATMUL_DESC_C_SCALE_POINTER, struct lt_desc, scales[2]),
    FIELD(CUBLASLT_MATMUL_DESC_D_SCALE_POINTER, struct lt_desc, scales[3]),
    FIELD(CUBLASLT_MATMUL_DESC_AMAX_D_POINTER, struct lt_desc, scales[4]),
    FIELD(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, struct lt_desc, aux_type),
    FIELD(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_SCALE_POINTER, struct lt_desc, scales[6]),
    FIELD(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_AMAX_POINTER, struct lt_desc, scales[7]),
    FIELD(CUBLASLT_MATMUL_DESC_FAST_ACCUM, struct lt_desc, fast_accum),
    FIELD(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, struct lt_desc, bias_type),
};

static const struct field preference_fields[] = {
    FIELD(CUBLASLT_MATMUL_PREF_SEARCH_MODE, struct lt_preference, search_mode),
    FIELD(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, struct lt_preference, max_workspace_bytes),
    FIELD(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, struct lt_preference, reduction_mask),
    FIELD(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, struct lt_preference, alignment[0]),
    FIELD(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, struct lt_preference, alignment[1]),
    FIELD(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, struct lt_preference, alignment[2]),
    FIELD(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, struct lt_preference, alignment[3]),
    FIELD(CUBLASLT_MATMUL_PREF_MAX_WAVES_COUNT, struct lt_preference, max_waves),
};

struct table {
    const struct field *fields;
    size_t n;
};
#define TABLE(fields) ((struct table){fields, sizeof(fields) / sizeof((fields)[0])})

static cublasStatus_t set(struct table table, void *object, int id, const void *value, size_t bytes)
{
    if (!object || !value)
        return CUBLAS_STATUS_INVALID_VALUE;
    for (size_t i = 0; i < table.n; i++)
        if (table.fields[i].id == id) {
            if (table.fields[i].bytes != bytes)
                return CUBLAS_STATUS_INVALID_VALUE;
            memcpy((char *)object + table.fields[i].offset, value, bytes);
            return CUBLAS_STATUS_SUCCESS;
        }
    return CUBLAS_STATUS_NOT_SUPPORTED;
}

static cublasStatus_t get(struct table table, const void *object, int id, void *value, size_t bytes, size_t *written)
{
    if (!object || (!value && bytes > 0) || (bytes == 0 && !written))
        return CUBLAS_STATUS_INVALID_VALUE;
    for (size_t i = 0; i < table.n; i++)
        if (table.fields[i].id == id) {
            if (written)
                *written = table.fields[i].bytes;
            if (bytes == 0)
                return CUBLAS_STATUS_SUCCESS;
            if (bytes < table.fields[i].bytes)
                return CUBLAS_STATUS_INVALID_VALUE;
            memcpy(value, (const char *)object + table.fields[i].offset, table.fields[i].bytes);
            return CUBLAS_STATUS_SUCCESS;
        }
    return CUBLAS_STATUS_NOT_SUPPORTED;
}

static cublasStatus_t init(void *object, size_t size, size_t required, const void *fields, size_t bytes)
{
    if (!object || size < required)
        return CUBLAS_STATUS_INVALID_VALUE;
    memset(object, 0, required);
    memcpy(object, fields, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

/* Defines the five functions of a descriptor. `parameters` are those of Create and begin with a comma; the last
 * arguments initialize the fields that are not zero. */
#define DESCRIPTOR(object, attribute, type_, table, parameters, ...)                                                   \
    cublasStatus_t object##Init_internal(object##_t at, size_t size UNWRAP parameters)                                 \
    {                                                                                                                  \
        return init(at, size, sizeof(*at), &(struct type_){__VA_ARGS__}, sizeof(struct type_));                        \
    }                                                                                                                  \
    cublasStatus_t object##Create(object##_t *out UNWRAP parameters)                                                   \
    {                                                                                                                  \
        if (!out)                                                                                                      \
            return CUBLAS_STATUS_INVALID_VALUE;                                                                        \
        *out = malloc(sizeof(**out));                                                                                  \
        if (!*out)                                                                                                     \
            return CUBLAS_STATUS_ALLOC_FAILED;                                                                         \
        return init(*out, sizeof(**out), sizeof(**out), &(struct type_){__VA_ARGS__}, sizeof(struct type_));           \
    }                                                                                                                  \
    cublasStatus_t object##Destroy(object##_t at)                                                                      \
    {                                                                                                                  \
        free(at);                                                                                                      \
        return CUBLAS_STATUS_SUCCESS;                                                                                  \
    }                                                                                                                  \
    cublasStatus_t object##SetAttribute(object##_t at, attribute##_t id, const void *value, size_t bytes)              \
    {                                                                                                                  \
        return set(TABLE(table), at, (int)id, value, bytes);                                                           \
    }                                                                                                                  \
    cublasStatus_t object##GetAttribute(object##_t at, attribute##_t id, void *value, size_t bytes, size_t *written)   \
    {                                                                                                                  \
        return get(TABLE(table), at, (int)id, value, bytes, written);                                                  \
    }
#define UNWRAP(...) __VA_ARGS__

DESCRIPTOR(cublasLtMatrixLayout, cublasLtMatrixLayoutAttribute, lt_layout, layout_fields,
           (, cudaDataType type, uint64_t rows, uint64_t cols, int64_t ld), .type = type, .order = CUBLASLT_ORDER_COL,
           .batch = 1, .rows = rows, .cols = cols, .ld = ld)

DESCRIPTOR(cublasLtMatmulDesc, cublasLtMatmulDescAttributes, lt_desc, desc_fields,
           (, cublasComputeType_t compute, cudaDataType_t scale), .compute = (int)compute, .scale_type = (int)scale,
           .fill = CUBLAS_FILL_MODE_FULL, .epilogue = CUBLASLT_EPILOGUE_DEFAULT)

DESCRIPTOR(cublasLtMatmulPreference, cublasLtMatmulPreferenceAttributes, lt_preference, preference_fields, (), 0)
