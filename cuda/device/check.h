/*
 * check.h - converts a CUDA error to -BB_EFAIL after printing the function's name, CUDA's message and the source
 * location.
 *     TRY(BB_CUDA(cudaMalloc(&p, bytes)));
 */
#ifndef BB_CUDA_DEVICE_CHECK_H
#define BB_CUDA_DEVICE_CHECK_H

#include "bootstrap/base/err.h"

#include <cuda_runtime_api.h>

BB_MUST_CHECK static inline int bb_cuda_at(cudaError_t e, const char *call, const char *file, int line)
{
    if (e == cudaSuccess)
        return 0;
    return bb_err_call(call, cudaGetErrorString(e), cudaGetErrorName(e), file, line);
}
#define BB_CUDA(call) bb_cuda_at((call), #call, __FILE__, __LINE__)

#endif
