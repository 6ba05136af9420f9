/*
 * cublaslt.c - the stand-in for cuBLASLt: handles, descriptors, heuristics and GEMM, computed on the CPU for float,
 * half, bfloat16 and double.
 *
 * A GEMM takes max(kernel_us, 2*m*n*k*batch / tflops of A's type), on fewer SMs (SM_COUNT_TARGET) longer. Sums are in
 * float, or in double for double. Epilogues, scale pointers and layouts other than column and row order return CUBLAS_STATUS_NOT_SUPPORTED.
 */
#include "cublaslt.h"
#include "proxies/simulation/machine/cluster.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(struct lt_layout) <= sizeof(cublasLtMatrixLayoutOpaque_t), "fits the opaque layout");
_Static_assert(sizeof(struct lt_desc) <= sizeof(cublasLtMatmulDescOpaque_t), "fits the opaque descriptor");
_Static_assert(sizeof(struct lt_preference) <= sizeof(cublasLtMatmulPreferenceOpaque_t), "fits the opaque preference");

/* ---- handles and versions ---- */

struct cublasLtContext {
    int unused;
};

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
    if (!handle)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (emu_fault(__func__))
        return CUBLAS_STATUS_ALLOC_FAILED;
    *handle = calloc(1, sizeof(struct cublasLtContext));
    return *handle ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    if (!handle)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    free(handle);
    return CUBLAS_STATUS_SUCCESS;
}

size_t cublasLtGetVersion(void)
{
    return CUBLAS_VERSION;
}

size_t cublasLtGetCudartVersion(void)
{
    return CUDART_VERSION;
}

cublasStatus_t cublasLtGetProperty(libraryPropertyType type, int *value)
{
    static const int parts[] = {
        [MAJOR_VERSION] = CUBLAS_VER_MAJOR, [MINOR_VERSION] = CUBLAS_VER_MINOR, [PATCH_LEVEL] = CUBLAS_VER_PATCH};

    if (!value || (unsigned)type > PATCH_LEVEL)
        return CUBLAS_STATUS_INVALID_VALUE;
    *value = parts[type];
    return CUBLAS_STATUS_SUCCESS;
}

static const struct {
    cublasStatus_t status;
    const char *name, *text;
} statuses[] = {
    {CUBLAS_STATUS_SUCCESS, "CUBLAS_STATUS_SUCCESS", "the operation completed successfully"},
    {CUBLAS_STATUS_NOT_INITIALIZED, "CUBLAS_STATUS_NOT_INITIALIZED", "the library was not initialized"},
    {CUBLAS_STATUS_ALLOC_FAILED, "CUBLAS_STATUS_ALLOC_FAILED", "the resource allocation failed"},
    {CUBLAS_STATUS_INVALID_VALUE, "CUBLAS_STATUS_INVALID_VALUE", "an invalid value was used as an argument"},
    {CUBLAS_STATUS_ARCH_MISMATCH, "CUBLAS_STATUS_ARCH_MISMATCH", "an absent device architectural feature is required"},
    {CUBLAS_STATUS_MAPPING_ERROR, "CUBLAS_STATUS_MAPPING_ERROR", "an access to GPU memory space failed"},
    {CUBLAS_STATUS_EXECUTION_FAILED, "CUBLAS_STATUS_EXECUTION_FAILED", "the GPU program failed to execute"},
    {CUBLAS_STATUS_INTERNAL_ERROR, "CUBLAS_STATUS_INTERNAL_ERROR", "an internal operation failed"},
    {CUBLAS_STATUS_NOT_SUPPORTED, "CUBLAS_STATUS_NOT_SUPPORTED", "the functionality requested is not supported"},
    {CUBLAS_STATUS_LICENSE_ERROR, "CUBLAS_STATUS_LICENSE_ERROR", "an error was detected when checking the license"},
};

const char *cublasLtGetStatusName(cublasStatus_t status)
{
    for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++)
        if (statuses[i].status == status)
            return statuses[i].name;
    return "unknown status";
}

const char *cublasLtGetStatusString(cublasStatus_t status)
{
    for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++)
        if (statuses[i].status == status)
            return statuses[i].text;
    return "unknown status";
}

/* ---- heuristic: there is one algorithm, or EMU_GEMM_ALGORITHMS ---- */

static int algorithms(void)
{
    const int n = emu_env_number("EMU_GEMM_ALGORITHMS", 64);

    return n > 0 ? n : 1;
}

/* Duration relative to the fastest algorithm, which is another one on each rank. */
static double slowness(int algorithm)
{
    const int n = algorithms();

    return 1 + 0.2 * ((algorithm - emu_world_rank() % n + n) % n);
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int asked,
                                              cublasLtMatmulHeuristicResult_t results[], int *n)
{
    struct lt_problem problem;
    cublasStatus_t status;

    if (!handle)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!preference || !results || !n || asked < 1)
        return CUBLAS_STATUS_INVALID_VALUE;
    *n = 0;
    status = lt_problem_check(&problem, desc, a, b, c, d);
    if (status != CUBLAS_STATUS_SUCCESS)
        return status;
    for (; *n < asked && *n < algorithms(); ++*n)
        results[*n] = (cublasLtMatmulHeuristicResult_t){.algo.data = {LT_ALGO, (uint64_t)*n}, .wavesCount = 1};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
                                       cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t *algo, cublasLtMatmulHeuristicResult_t *result)
{
    struct lt_problem problem;
    cublasStatus_t status;

    if (!handle || !algo || !result)
        return handle ? CUBLAS_STATUS_INVALID_VALUE : CUBLAS_STATUS_NOT_INITIALIZED;
    status = algo->data[0] == LT_ALGO ? lt_problem_check(&problem, desc, a, b, c, d) : CUBLAS_STATUS_NOT_SUPPORTED;
    memset(result, 0, sizeof(*result));
    result->algo = *algo;
    result->state = status;
    return status;
}

/* ---- GEMM ---- */

struct matmul {
    struct lt_problem problem;
    const void *a, *b, *c;
    void *d;
    double alpha, beta;
    const void *alpha_at, *beta_at; /* device pointers; NULL when the host passed the values */
    int device, sms;                /* sms: CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET; 0: all */
    bool tf32;
    double slowness;
    struct bb_kernel_list_item item;
    struct emu_demand demand;
};

static enum bb_dtype_id dtype_of(cudaDataType type)
{
    return type == CUDA_R_16F ? BB_HALF : type == CUDA_R_16BF ? BB_BFLOAT16 : type == CUDA_R_64F ? BB_DOUBLE : BB_FLOAT;
}

static int64_t matmul_ns(const struct matmul *mm)
{
    const int64_t ns = bb_cluster_kernel_ns(emu_machine(), &mm->item);
    const int all = emu_machine()->sm_count;

    return emu_slowed_ns(mm->device,
                         (int64_t)(mm->slowness * (double)(mm->sms > 0 && mm->sms < all ? ns * all / mm->sms : ns)));
}

/* TF32 has half the rate of bfloat16, as on the GPUs since the A100. */
static void describe(struct matmul *mm, cudaStream_t stream)
{
    const struct lt_problem *p = &mm->problem;

    mm->device = emu_stream_device(stream);
    mm->item.gemm = (struct bb_gemm_shape){
        .m = (int64_t)p->m, .n = (int64_t)p->n, .k = (int64_t)p->k, .batch = p->batch, .dtype = dtype_of(p->a.type)};
    if (mm->tf32) {
        mm->item.gemm.dtype = BB_BFLOAT16;
        mm->item.gemm.batch *= 2;
    }
    mm->demand = (struct emu_demand){.alone_ns = (double)matmul_ns(mm), .gemm = &mm->item};
}

static double scalar_at(const void *at, cudaDataType type)
{
    return type == CUDA_R_64F ? *(const double *)at : (double)*(const float *)at;
}

static int64_t run_matmul(void *arg, int64_t ready_ns)
{
    struct matmul *mm = arg;

    if (emu_moves_data()) {
        if (mm->alpha_at) {
            mm->alpha = scalar_at(mm->alpha_at, mm->problem.scale_type);
            mm->beta = scalar_at(mm->beta_at, mm->problem.scale_type);
        }
        if (!lt_compute(&mm->problem, mm->alpha, mm->a, mm->b, mm->beta, mm->c, mm->d))
            return EMU_FAILED;
    }
    return ready_ns + matmul_ns(mm) + mm->demand.extra_ns;
}

static cublasStatus_t put(const struct matmul *mm, cudaStream_t stream)
{
    struct matmul *copy = malloc(sizeof(*copy));
    cudaError_t rc;

    if (!copy)
        return CUBLAS_STATUS_ALLOC_FAILED;
    *copy = *mm;
    describe(copy, stream);
    rc = emu_enqueue(stream, &(struct emu_op){.name = "matmul",
                                              .run = run_matmul,
                                              .release = free,
                                              .arg = copy,
                                              .demand = &copy->demand,
                                              .host_ns = bb_cluster_issue_ns(emu_machine(), true)});
    if (rc == cudaSuccess)
        return CUBLAS_STATUS_SUCCESS;
    free(copy);
    return rc == cudaErrorInvalidResourceHandle ? CUBLAS_STATUS_INVALID_VALUE : CUBLAS_STATUS_EXECUTION_FAILED;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha, const void *a,
                              cublasLtMatrixLayout_t a_layout, const void *b, cublasLtMatrixLayout_t b_layout,
                              const void *beta, const void *c, cublasLtMatrixLayout_t c_layout, void *d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t *algo, void *workspace,
                              size_t workspace_bytes, cudaStream_t stream)
{
    struct matmul mm = {.a = a, .b = b, .c = c, .d = d};
    cublasStatus_t status;

    (void)workspace, (void)workspace_bytes;
    if (!handle)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    if (emu_fault(__func__))
        return CUBLAS_STATUS_EXECUTION_FAILED;
    if (!alpha || !a || !b || !beta || !d || (algo && algo->data[0] != LT_ALGO))
        return CUBLAS_STATUS_INVALID_VALUE;
    status = lt_problem_check(&mm.problem, desc, a_layout, b_layout, c_layout, d_layout);
    if (status != CUBLAS_STATUS_SUCCESS)
        return status;
    mm.sms = ((const struct lt_desc *)desc)->sms;
    mm.tf32 = ((const struct lt_desc *)desc)->compute == CUBLAS_COMPUTE_32F_FAST_TF32;
    mm.slowness = slowness(algo ? (int)algo->data[1] : 0);
    if (mm.problem.device_scalars) {
        mm.alpha_at = alpha;
        mm.beta_at = beta;
    } else {
        mm.alpha = scalar_at(alpha, mm.problem.scale_type);
        mm.beta = scalar_at(beta, mm.problem.scale_type);
        if (mm.beta != 0 && !c)
            return CUBLAS_STATUS_INVALID_VALUE;
    }
    return put(&mm, stream);
}

/* ---- logging: accepted, without effect ---- */

cublasStatus_t cublasLtLoggerSetLevel(int level)
{
    return level >= 0 && level <= 5 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtLoggerSetMask(int mask)
{
    (void)mask;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtLoggerSetCallback(cublasLtLoggerCallback_t callback)
{
    (void)callback;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtLoggerForceDisable(void)
{
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtHeuristicsCacheSetCapacity(size_t capacity)
{
    (void)capacity;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtHeuristicsCacheGetCapacity(size_t *capacity)
{
    if (!capacity)
        return CUBLAS_STATUS_INVALID_VALUE;
    *capacity = 0;
    return CUBLAS_STATUS_SUCCESS;
}

unsigned cublasLtDisableCpuInstructionsSetMask(unsigned mask)
{
    return mask;
}
