/*
 * compute_cases.h - tables of what `busbar bench compute` measures: GEMMs of real layers, memory-bound kernels, and
 * settings of the timed kernel (cuda/compute/busy.h), which runs for a given time in place of compute.
 */
#ifndef BB_COLLECTIVES_COMPUTE_COMPUTE_CASES_H
#define BB_COLLECTIVES_COMPUTE_COMPUTE_CASES_H

#include "cuda/work/memory_kernel.h"

#define BB_COMPUTE_NAME  32
#define BB_COMPUTE_GEMMS 32

struct bb_gemm_case {
    char name[BB_COMPUTE_NAME]; /* for example "gpt3/4 qkv": the QKV projection of a GPT-3 layer split over 4 GPUs */
    struct bb_gemm_shape shape;
};

/*
 * bb_compute_gemms - list the GEMMs to measure: square GEMMs, the layers of GPT-2 and GPT-3, and convolutions of
 * ResNet-50 and CosmoFlow.
 *   quick    true: only a few small GEMMs
 *   cases    [BB_COMPUTE_GEMMS] out
 *   Returns  the number of GEMMs
 */
int bb_compute_gemms(enum bb_dtype_id dtype, bool quick, struct bb_gemm_case cases[BB_COMPUTE_GEMMS]);

struct bb_memory_kernel_case {
    const char *name;
    struct bb_memory_kernel memory_kernel; /* description of the kernel; its device pointers are NULL */
};

/*
 * bb_compute_memory_kernel - get memory-bound kernel number i of the table. Kernel 0 is the copy.
 *   bytes    approximate bytes that the kernel moves; determines the number of rows of its operands
 *   c        out
 *   Returns  false when i is past the end of the table
 */
bool bb_compute_memory_kernel(int i, enum bb_dtype_id dtype, size_t bytes, struct bb_memory_kernel_case *c);

struct bb_timed_case {
    double requested_us;
    double sms;     /* SMs that the kernel occupies, as a fraction of the device's SMs; 0: one SM */
    double traffic; /* memory traffic as a fraction of the copy bandwidth */
};

/* bb_compute_timed - get setting i of the timed kernel. quick: use the short list of settings. Returns false when i
 * is past the last setting. */
bool bb_compute_timed(int i, bool quick, struct bb_timed_case *c);

#endif
