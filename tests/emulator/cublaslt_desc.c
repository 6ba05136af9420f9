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

/* ---- matrix layouts ---- */

cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t layout, size_t size, cudaDataType type,
                                                 uint64_t rows, uint64_t cols, int64_t ld)
{
    if (!layout || size < sizeof(*layout))
        return CUBLAS_STATUS_INVALID_VALUE;
    memset(layout, 0, sizeof(*layout));
    *(struct lt_layout *)layout =
        (struct lt_layout){.type = type, .order = CUBLASLT_ORDER_COL, .batch = 1, .rows = rows, .cols = cols, .ld = ld};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType type, uint64_t rows,
                                          uint64_t cols, int64_t ld)
{
    if (!layout)
        return CUBLAS_STATUS_INVALID_VALUE;
    *layout = malloc(sizeof(**layout));
    if (!*layout)
        return CUBLAS_STATUS_ALLOC_FAILED;
    return cublasLtMatrixLayoutInit_internal(*layout, sizeof(**layout), type, rows, cols, ld);
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout)
{
    free(layout);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t id,
                                                const void *value, size_t bytes)
{
    return set(TABLE(layout_fields), layout, (int)id, value, bytes);
}

cublasStatus_t cublasLtMatrixLayoutGetAttribute(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t id,
                                                void *value, size_t bytes, size_t *written)
{
    return get(TABLE(layout_fields), layout, (int)id, value, bytes, written);
}

/* ---- operation descriptors ---- */

cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t desc, size_t size, cublasComputeType_t compute,
                                               cudaDataType_t scale)
{
    if (!desc || size < sizeof(*desc))
        return CUBLAS_STATUS_INVALID_VALUE;
    memset(desc, 0, sizeof(*desc));
    *(struct lt_desc *)desc = (struct lt_desc){.compute = (int)compute,
                                               .scale_type = (int)scale,
                                               .fill = CUBLAS_FILL_MODE_FULL,
                                               .epilogue = CUBLASLT_EPILOGUE_DEFAULT};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *desc, cublasComputeType_t compute, cudaDataType_t scale)
{
    if (!desc)
        return CUBLAS_STATUS_INVALID_VALUE;
    *desc = malloc(sizeof(**desc));
    if (!*desc)
        return CUBLAS_STATUS_ALLOC_FAILED;
    return cublasLtMatmulDescInit_internal(*desc, sizeof(**desc), compute, scale);
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc)
{
    free(desc);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t id,
                                              const void *value, size_t bytes)
{
    return set(TABLE(desc_fields), desc, (int)id, value, bytes);
}

cublasStatus_t cublasLtMatmulDescGetAttribute(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t id, void *value,
                                              size_t bytes, size_t *written)
{
    return get(TABLE(desc_fields), desc, (int)id, value, bytes, written);
}

/* ---- preferences ---- */

cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t preference, size_t size)
{
    if (!preference || size < sizeof(*preference))
        return CUBLAS_STATUS_INVALID_VALUE;
    memset(preference, 0, sizeof(*preference));
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference)
{
    if (!preference)
        return CUBLAS_STATUS_INVALID_VALUE;
    *preference = malloc(sizeof(**preference));
    if (!*preference)
        return CUBLAS_STATUS_ALLOC_FAILED;
    return cublasLtMatmulPreferenceInit_internal(*preference, sizeof(**preference));
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference)
{
    free(preference);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t id, const void *value,
                                                    size_t bytes)
{
    return set(TABLE(preference_fields), preference, (int)id, value, bytes);
}

cublasStatus_t cublasLtMatmulPreferenceGetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t id, void *value, size_t bytes,
                                                    size_t *written)
{
    return get(TABLE(preference_fields), preference, (int)id, value, bytes, written);
}
