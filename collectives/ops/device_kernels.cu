/* device_kernels.cu - launches the kernels on NCCL's device API (device.h). */
#include "collectives/ops/device.h"

#include "bootstrap/base/alloc.h"

#include <stdlib.h>

#if NCCL_VERSION_CODE >= 22809 && __has_include(<nccl_device.h>)
#include "cuda/device/kernel_load.h"

#include <nccl_device.h>

#include "collectives/ops/device_kernels.cuh"

ncclResult_t bb_device_comm_new(ncclDevCommCreate_fn *create, ncclComm_t comm, int ctas, enum bb_device_path path,
                                void **out, int *lsa_ranks)
{
#ifdef NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER
    ncclDevCommRequirements requirements = NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER;
#else
    ncclDevCommRequirements requirements = {};
#endif
    const bool over_gin = path == BB_DEVICE_GIN || path == BB_DEVICE_HYBRID;
    const bool supported = BB_DEVICE_HAS_GIN || !over_gin;
    ncclDevComm *made = NULL;
    ncclResult_t result = ncclInvalidUsage;

    requirements.lsaBarrierCount = over_gin ? 0 : ctas;
    requirements.lsaMultimem = path == BB_DEVICE_MULTIMEM;
#if BB_DEVICE_HAS_GIN
    if (over_gin) {
        requirements.ginConnectionType = NCCL_GIN_CONNECTION_FULL;
        requirements.ginSignalCount = 2 * ctas;
        *(path == BB_DEVICE_GIN ? &requirements.worldGinBarrierCount : &requirements.barrierCount) = ctas;
    }
#endif
    if (supported) {
        BB_NEW(made, 1);
        result = create(comm, &requirements, made);
    }
    *lsa_ranks = result == ncclSuccess ? made->lsaSize : 0;
    *out = made;
    return result;
}

int bb_device_kernels_load(void)
{
    static const void *const kernels[] = {
        (const void *)bb_lsa_all_reduce_kernel,
        (const void *)bb_multimem_all_reduce_kernel,
        (const void *)bb_lsa_alltoall_kernel,
#if BB_DEVICE_HAS_GIN
        (const void *)bb_gin_all_reduce_kernel,
        (const void *)bb_gin_alltoall_kernel,
#endif
    };

    return bb_kernel_table_load(kernels, sizeof kernels / sizeof *kernels);
}

int bb_device_kernel_launch(const struct bb_device *d, enum bb_coll_kind kind, size_t send, size_t recv, size_t count,
                            int dtype, cudaStream_t stream)
{
    const ncclDevComm *comm = static_cast<const ncclDevComm *>(d->comm);
    const struct bb_device_args args = {*comm,
                                        static_cast<ncclWindow_t>(d->window),
                                        send,
                                        recv,
                                        d->scratch,
                                        count,
                                        dtype,
                                        bb_dtypes[dtype].bytes,
                                        d->path == BB_DEVICE_HYBRID,
                                        d->element_wise};
    void (*kernel)(struct bb_device_args) = kind == BB_ALLTOALL             ? bb_lsa_alltoall_kernel
                                            : d->path == BB_DEVICE_MULTIMEM ? bb_multimem_all_reduce_kernel
                                                                            : bb_lsa_all_reduce_kernel;

#if BB_DEVICE_HAS_GIN
    if (d->path == BB_DEVICE_GIN || d->path == BB_DEVICE_HYBRID)
        kernel = kind == BB_ALLTOALL ? bb_gin_alltoall_kernel : bb_gin_all_reduce_kernel;
#endif
    kernel<<<d->ctas, BB_DEVICE_THREADS, 0, stream>>>(args);
    return BB_CUDA(cudaGetLastError());
}
#else
ncclResult_t bb_device_comm_new(ncclDevCommCreate_fn *, ncclComm_t, int, enum bb_device_path, void **out,
                                int *lsa_ranks)
{
    *out = NULL;
    *lsa_ranks = 0;
    return ncclInvalidUsage;
}

int bb_device_kernels_load(void)
{
    return 0;
}

int bb_device_kernel_launch(const struct bb_device *, enum bb_coll_kind, size_t, size_t, size_t, int, cudaStream_t)
{
    return -BB_EFAIL;
}
#endif
