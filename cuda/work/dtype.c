/* dtype.c - the tables of element types and reduction operations. */
#include "cuda/work/dtype.h"

#include <string.h>

/* Columns: name, help, bytes, class, and the widths of exponent and fraction in bits (0 for integers). */
const struct bb_dtype bb_dtypes[BB_DTYPE_COUNT] = {
    [BB_INT8] = {"int8", "8-bit integer", 1, BB_SIGNED, 0, 0},
    [BB_UINT8] = {"uint8", "8-bit unsigned integer", 1, BB_UNSIGNED, 0, 0},
    [BB_INT32] = {"int32", "32-bit integer", 4, BB_SIGNED, 0, 0},
    [BB_UINT32] = {"uint32", "32-bit unsigned integer", 4, BB_UNSIGNED, 0, 0},
    [BB_INT64] = {"int64", "64-bit integer", 8, BB_SIGNED, 0, 0},
    [BB_UINT64] = {"uint64", "64-bit unsigned integer", 8, BB_UNSIGNED, 0, 0},
    [BB_HALF] = {"half", "16-bit floating point, 5 bits of exponent", 2, BB_FLOATING, 5, 10},
    [BB_FLOAT] = {"float", "32-bit floating point", 4, BB_FLOATING, 8, 23},
    [BB_DOUBLE] = {"double", "64-bit floating point", 8, BB_FLOATING, 11, 52},
    [BB_BFLOAT16] = {"bfloat16", "16-bit floating point, 8 bits of exponent", 2, BB_FLOATING, 8, 7},
    [BB_F8E4M3] = {"f8e4m3", "8-bit floating point, largest value 448, no infinity", 1, BB_FLOATING, 4, 3},
    [BB_F8E5M2] = {"f8e5m2", "8-bit floating point, largest value 57344", 1, BB_FLOATING, 5, 2},
};

const struct bb_redop bb_redops[BB_REDOP_COUNT] = {
    [BB_SUM] = {.name = "sum", .help = "sum over the ranks"},
    [BB_PROD] = {.name = "prod", .help = "product over the ranks"},
    [BB_MAX] = {.name = "max", .help = "maximum over the ranks"},
    [BB_MIN] = {.name = "min", .help = "minimum over the ranks"},
    [BB_AVG] = {.name = "avg", .help = "average over the ranks"},
    [BB_MULSUM] = {.name = "mulsum",
                   .help = "sum over the ranks, with odd ranks counted twice (NCCL's pre-multiplied sum)"},
};

int bb_dtype_find(const char *name)
{
    for (int i = 0; i < BB_DTYPE_COUNT; i++)
        if (strcmp(bb_dtypes[i].name, name) == 0)
            return i;
    return -1;
}

int bb_redop_find(const char *name)
{
    for (int i = 0; i < BB_REDOP_COUNT; i++)
        if (strcmp(bb_redops[i].name, name) == 0)
            return i;
    return -1;
}

const char *bb_dtype_name_at(size_t i)
{
    return i < BB_DTYPE_COUNT ? bb_dtypes[i].name : NULL;
}

const char *bb_redop_name_at(size_t i)
{
    return i < BB_REDOP_COUNT ? bb_redops[i].name : NULL;
}
