/*
 * multimem.cuh - reduction through multicast memory (PTX multimem, compute capability 9.0). When a kernel is compiled for
 * the CPU (tests/emulator), the including file defines BB_MULTIMEM_BARRIER and bb_multimem_reduce() itself.
 */
#ifndef BB_COLLECTIVES_OPS_MULTIMEM_CUH
#define BB_COLLECTIVES_OPS_MULTIMEM_CUH

#ifndef BB_MULTIMEM_BARRIER
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define BB_MULTIMEM_BARRIER true
#else
#define BB_MULTIMEM_BARRIER false
#endif

/* 16 bytes as the registers of PTX's types. */
union bb_multimem_pack {
    float f32[4];
    uint32_t u32[4];
    uint64_t u64[2];
    double f64[2];
};

/* Loads the sum of 16 bytes of elements of type T over all ranks. */
template <typename T> static __device__ union bb_multimem_pack multimem_sum(const void *p);

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define BB_LOAD_4(T, type, constraint, field)                                                                          \
    template <> __device__ inline union bb_multimem_pack multimem_sum<T>(const void *p) {                              \
        union bb_multimem_pack v;                                                                                      \
        asm volatile("multimem.ld_reduce.relaxed.sys.global.add" type " {%0, %1, %2, %3}, [%4];"                       \
                     : constraint(v.field[0]), constraint(v.field[1]), constraint(v.field[2]), constraint(v.field[3])  \
                     : "l"(p)                                                                                          \
                     : "memory");                                                                                      \
        return v;                                                                                                      \
    }
#define BB_LOAD_EACH(T, type, constraint, field)                                                                       \
    template <> __device__ inline union bb_multimem_pack multimem_sum<T>(const void *p) {                              \
        union bb_multimem_pack v;                                                                                      \
        for (size_t i = 0; i < 16 / sizeof(T); i++)                                                                    \
            asm volatile("multimem.ld_reduce.relaxed.sys.global.add" type " %0, [%1];"                                 \
                         : constraint(v.field[i])                                                                      \
                         : "l"(static_cast<const T *>(p) + i)                                                          \
                         : "memory");                                                                                  \
        return v;                                                                                                      \
    }
BB_LOAD_4(float, ".v4.f32", "=f", f32)
BB_LOAD_4(__half, ".acc::f32.v4.f16x2", "=r", u32)
BB_LOAD_4(__nv_bfloat16, ".acc::f32.v4.bf16x2", "=r", u32)
BB_LOAD_EACH(uint32_t, ".u32", "=r", u32)
BB_LOAD_EACH(uint64_t, ".u64", "=l", u64)
BB_LOAD_EACH(double, ".f64", "=d", f64)
#endif

/* Adds the 16 bytes at offset `from` of the window over all ranks, and stores the sum at offset `to` of all ranks. */
template <typename T>
static __device__ void bb_multimem_reduce(const ncclDevComm &comm, ncclWindow_t window, size_t from, size_t to)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    const union bb_multimem_pack v = multimem_sum<T>(ncclGetLsaMultimemPointer(window, from, comm));

    asm volatile("multimem.st.relaxed.sys.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(
                     ncclGetLsaMultimemPointer(window, to, comm)),
                 "f"(v.f32[0]), "f"(v.f32[1]), "f"(v.f32[2]), "f"(v.f32[3])
                 : "memory");
#else
    __trap(); /* NCCL creates no multicast memory on older GPUs */
#endif
}
#endif

#endif
