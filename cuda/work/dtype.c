/* dtype.c - the tables of element types and reduction operations. */
#include "cuda/work/dtype.h"

#include <string.h>

const struct bb_dtype bb_dtypes[BB_DTYPE_COUNT] = {
    [BB_INT8] = {.name = "int8", .help = "8-bit integer", .bytes = 1, .number_class = BB_SIGNED},
    [BB_UINT8] = {.name = "uint8", .help = "8-bit unsigned integer", .bytes = 1, .number_class = BB_UNSIGNED},
    [BB_INT32] = {.name = "int32", .help = "32-bit integer", .bytes = 4, .number_class = BB_SIGNED},
    [BB_UINT32] = {.name = "uint32", .help = "32-bit unsigned integer", .bytes = 4, .number_class = BB_UNSIGNED},
    [BB_INT64] = {.name = "int64", .help = "64-bit integer", .bytes = 8, .number_class = BB_SIGNED},
    [BB_UINT64] = {.name = "uint64", .help = "64-bit unsigned integer", .bytes = 8, .number_class = BB_UNSIGNED},
    [BB_HALF] = {.name = "half",
                 .help = "16-bit floating point, 5 bits of exponent",
                 .bytes = 2,
                 .number_class = BB_FLOATING,
                 .exponent_bits = 5,
                 .fraction_bits = 10},
    [BB_FLOAT] = {.name = "float",
                  .help = "32-bit floating point",
                  .bytes = 4,
                  .number_class = BB_FLOATING,
                  .exponent_bits = 8,
                  .fraction_bits = 23},
    [BB_DOUBLE] = {.name = "double",
                   .help = "64-bit floating point",
                   .bytes = 8,
                   .number_class = BB_FLOATING,
                   .exponent_bits = 11,
                   .fraction_bits = 52},
    [BB_BFLOAT16] = {.name = "bfloat16",
                     .help = "16-bit floating point, 8 bits of exponent",
                     .bytes = 2,
                     .number_class = BB_FLOATING,
                     .exponent_bits = 8,
                     .fraction_bits = 7},
    [BB_F8E4M3] = {.name = "f8e4m3",
                   .help = "8-bit floating point, largest value 448, no infinity",
                   .bytes = 1,
                   .number_class = BB_FLOATING,
                   .exponent_bits = 4,
                   .fraction_bits = 3},
    [BB_F8E5M2] = {.name = "f8e5m2",
                   .help = "8-bit floating point, largest value 57344",
                   .bytes = 1,
                   .number_class = BB_FLOATING,
                   .exponent_bits = 5,
                   .fraction_bits = 2},
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
