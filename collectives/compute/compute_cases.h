/*
 * compute_cases.h - what `busbar bench compute` measures: matrix products of real layers, memory-bound passes, and
 * settings of the timed stand-in. Pure tables.
 */
#ifndef BB_COLLECTIVES_COMPUTE_COMPUTE_CASES_H
#define BB_COLLECTIVES_COMPUTE_COMPUTE_CASES_H

#include "cuda/work/memory_kernel.h"

#define BB_COMPUTE_NAME  32
#define BB_COMPUTE_GEMMS 32

struct bb_gemm_case {
    char name[BB_COMPUTE_NAME]; /* "gpt3/4 qkv": of a layer split over 4 GPUs */
    struct bb_gemm_shape shape;
};

/* bb_compute_gemms - squares, the layers of GPT-2 and GPT-3, convolutions of ResNet-50 and CosmoFlow; quick: small
 * ones. Returns their number, at most BB_COMPUTE_GEMMS. */
int bb_compute_gemms(enum bb_dtype_id dtype, bool quick, struct bb_gemm_case cases[BB_COMPUTE_GEMMS]);

struct bb_memory_kernel_case {
    const char *name;
    struct bb_memory_kernel memory_kernel; /* without pointers */
};

/* bb_compute_memory_kernel - the i-th pass, with as many rows as move about `bytes`; false past the end. The first ones copy. */
bool bb_compute_memory_kernel(int i, enum bb_dtype_id dtype, size_t bytes, struct bb_memory_kernel_case *c);

struct bb_timed_case {
    double requested_us;
    double sms;     /* part of the device's multiprocessors, 0: one     */
    double traffic; /* part of the copy bandwidth                      */
};

/* bb_compute_timed - the i-th setting; false past the end. */
bool bb_compute_timed(int i, bool quick, struct bb_timed_case *c);

#endif
