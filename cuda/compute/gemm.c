/*
 * gemm.c - GEMM plans for cuBLASLt. cuBLASLt is column-major. The memory of a row-major C = A B is the memory of a
 * column-major C^T = B^T A^T, so the plan exchanges A and B, and m and n, and keeps each matrix's transpose flag.
 */
#include "cuda/compute/gemm.h"

#include "bootstrap/base/alloc.h"
#include "cuda/compute/start_barrier.h"
#include "cuda/device/check.h"
#include "cuda/device/stream.h"

#include <float.h>
#include <stdlib.h>

static int lt_at(cublasStatus_t status, const char *call, const char *file, int line)
{
    if (status == CUBLAS_STATUS_SUCCESS)
        return 0;
    return bb_err_call(call, cublasLtGetStatusString(status), cublasLtGetStatusName(status), file, line);
}
#define LT(call) lt_at((call), #call, __FILE__, __LINE__)

int bb_gemm_lib_init(struct bb_gemm_lib *lib, size_t workspace_bytes)
{
    int rc;

    *lib = (struct bb_gemm_lib){0};
    TRY(LT(cublasLtCreate(&lib->handle)));
    if (workspace_bytes > 0)
        TRY(BB_CUDA(cudaMalloc(&lib->workspace, workspace_bytes)));
    lib->workspace_bytes = workspace_bytes;
    return 0;
out:
    bb_gemm_lib_release(lib);
    return rc;
}

void bb_gemm_lib_release(struct bb_gemm_lib *lib)
{
    if (lib->workspace)
        (void)cudaFree(lib->workspace);
    if (lib->handle)
        (void)cublasLtDestroy(lib->handle);
    *lib = (struct bb_gemm_lib){0};
}

/* ---- planning a GEMM ---- */

static int type_of(enum bb_dtype_id dtype, cudaDataType_t *type)
{
    static const struct {
        enum bb_dtype_id dtype;
        cudaDataType_t type;
    } types[] = {{BB_FLOAT, CUDA_R_32F}, {BB_HALF, CUDA_R_16F}, {BB_BFLOAT16, CUDA_R_16BF}};

    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].dtype == dtype) {
            *type = types[i].type;
            return 0;
        }
    return bb_err(BB_EUSAGE, "GEMM does not support %s: expected float, half or bfloat16", bb_dtypes[dtype].name);
}

/* Creates the layout of a row-major rows x cols matrix: a column-major cols x rows matrix whose leading dimension is
 * `cols`. */
static int make_layout(cublasLtMatrixLayout_t *layout, cudaDataType_t type, int64_t rows, int64_t cols, int64_t batch)
{
    int32_t count = (int32_t)batch;
    int64_t stride = rows * cols;
    int rc;

    TRY(LT(cublasLtMatrixLayoutCreate(layout, type, (uint64_t)cols, (uint64_t)rows, cols)));
    TRY(LT(cublasLtMatrixLayoutSetAttribute(*layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count)));
    TRY(LT(cublasLtMatrixLayoutSetAttribute(*layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride,
                                            sizeof stride)));
out:
    return rc;
}

/* Creates what the plan of a GEMM consists of: the layouts of the matrices, the operation, and the limit of the
 * workspace. */
static int make_plan(struct bb_gemm *g, cudaDataType_t type)
{
    const struct bb_gemm_shape *s = &g->shape;
    const int32_t trans_a = s->trans_b ? CUBLAS_OP_T : CUBLAS_OP_N, trans_b = s->trans_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    const uint64_t bytes = g->lib->workspace_bytes;
    int rc;

    TRY(make_layout(&g->a, type, s->trans_b ? s->n : s->k, s->trans_b ? s->k : s->n, s->batch));
    TRY(make_layout(&g->b, type, s->trans_a ? s->k : s->m, s->trans_a ? s->m : s->k, s->batch));
    TRY(make_layout(&g->c, type, s->m, s->n, s->batch));
    TRY(LT(cublasLtMatmulDescCreate(&g->desc, g->lib->tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
                                    CUDA_R_32F)));
    TRY(LT(cublasLtMatmulDescSetAttribute(g->desc, CUBLASLT_MATMUL_DESC_TRANSA, &trans_a, sizeof trans_a)));
    TRY(LT(cublasLtMatmulDescSetAttribute(g->desc, CUBLASLT_MATMUL_DESC_TRANSB, &trans_b, sizeof trans_b)));
    TRY(LT(cublasLtMatmulDescSetAttribute(g->desc, CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, &g->lib->sms,
                                          sizeof g->lib->sms)));
    TRY(LT(cublasLtMatmulPreferenceCreate(&g->preference)));
    TRY(LT(cublasLtMatmulPreferenceSetAttribute(g->preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes,
                                                sizeof bytes)));
out:
    return rc;
}

/*
 * Gets algorithms for a GEMM from the cuBLASLt heuristic, in the heuristic's order: the one that it expects to be
 * fastest is first.
 *   asked    maximum number of algorithms
 *   results  [asked] out
 *   n        out: number of algorithms stored
 *   Returns  0, or -BB_EFAIL, also if no algorithm supports the GEMM. This is not -BB_EUSAGE, because the GPU of
 *            another rank may support the GEMM
 */
static int candidates_of(const struct bb_gemm *g, int asked, cublasLtMatmulHeuristicResult_t *results, int *n)
{
    const struct bb_gemm_shape *s = &g->shape;
    cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(g->lib->handle, g->desc, g->a, g->b, g->c, g->c,
                                                           g->preference, asked, results, n);

    if (status == CUBLAS_STATUS_SUCCESS && *n > 0)
        return 0;
    if (status != CUBLAS_STATUS_SUCCESS && status != CUBLAS_STATUS_NOT_SUPPORTED)
        return lt_at(status, "cublasLtMatmulAlgoGetHeuristic", __FILE__, __LINE__);
    return bb_err(BB_EFAIL, "cuBLASLt has no algorithm for the GEMM %lld x %lld x %lld of type %s, batch %lld",
                  (long long)s->m, (long long)s->n, (long long)s->k, bb_dtypes[s->dtype].name, (long long)s->batch);
}

int bb_gemm_init(struct bb_gemm *g, const struct bb_gemm_lib *lib, const struct bb_gemm_shape *s)
{
    cublasLtMatmulHeuristicResult_t first;
    cudaDataType_t type = CUDA_R_32F;
    int n, rc;

    *g = (struct bb_gemm){.lib = lib, .shape = *s};
    if (s->m < 1 || s->n < 1 || s->k < 1 || s->batch < 1 || s->batch > INT32_MAX)
        return bb_err(BB_EUSAGE, "invalid GEMM %lld x %lld x %lld, batch %lld: each must be at least 1",
                      (long long)s->m, (long long)s->n, (long long)s->k, (long long)s->batch);
    TRY(type_of(s->dtype, &type));
    TRY(make_plan(g, type));
    TRY(candidates_of(g, 1, &first, &n));
    g->algo = first.algo;
    return 0;
out:
    bb_gemm_release(g);
    return rc;
}

void bb_gemm_release(struct bb_gemm *g)
{
    if (g->preference)
        (void)cublasLtMatmulPreferenceDestroy(g->preference);
    if (g->c)
        (void)cublasLtMatrixLayoutDestroy(g->c);
    if (g->b)
        (void)cublasLtMatrixLayoutDestroy(g->b);
    if (g->a)
        (void)cublasLtMatrixLayoutDestroy(g->a);
    if (g->desc)
        (void)cublasLtMatmulDescDestroy(g->desc);
    *g = (struct bb_gemm){0};
}

/* ---- running a GEMM ---- */

static cublasStatus_t enqueue_matmul(const struct bb_gemm *g, const cublasLtMatmulAlgo_t *algo, const void *a,
                                     const void *b, void *c, cudaStream_t stream)
{
    static const float one = 1, zero = 0;

    return cublasLtMatmul(g->lib->handle, g->desc, &one, b, g->a, a, g->b, &zero, c, g->c, c, g->c, algo,
                          g->lib->workspace, g->lib->workspace_bytes, stream);
}

int bb_gemm_run(const struct bb_gemm *g, const void *a, const void *b, void *c, cudaStream_t stream)
{
    return lt_at(enqueue_matmul(g, &g->algo, a, b, c, stream), "cublasLtMatmul", __FILE__, __LINE__);
}

/* ---- tuning: timing candidate algorithms ---- */

struct trial {
    const struct bb_gemm *g;
    const void *a, *b;
    void *c;
    cudaStream_t stream;
    cudaEvent_t start, stop;
    struct bb_start_barrier barrier;
    int repeats;
};

enum { START_BARRIER_LIMIT_NS = 1000000000 };

/* Sets *ms to the time of `repeats` GEMMs, after one warm-up GEMM, or to FLT_MAX if cuBLASLt does not support the
 * algorithm. */
static int time_algo(struct trial *t, const cublasLtMatmulAlgo_t *algo, float *ms)
{
    cublasStatus_t status = enqueue_matmul(t->g, algo, t->a, t->b, t->c, t->stream);
    double us;
    int rc;

    *ms = FLT_MAX;
    if (status == CUBLAS_STATUS_NOT_SUPPORTED)
        return 0;
    TRY(lt_at(status, "cublasLtMatmul", __FILE__, __LINE__));
    TRY(bb_start_barrier_close(&t->barrier, t->stream));
    TRY(BB_CUDA(cudaEventRecord(t->start, t->stream)));
    for (int i = 0; i < t->repeats; i++)
        TRY(lt_at(enqueue_matmul(t->g, algo, t->a, t->b, t->c, t->stream), "cublasLtMatmul", __FILE__, __LINE__));
    TRY(BB_CUDA(cudaEventRecord(t->stop, t->stream)));
    bb_start_barrier_open(&t->barrier);
    TRY(BB_CUDA(cudaEventSynchronize(t->stop)));
    TRY(bb_event_us(t->start, t->stop, &us));
    *ms = (float)(1e-3 * us);
out:
    return rc;
}

static int try_all(struct bb_gemm *g, struct trial *t, int candidates, int *tried)
{
    cublasLtMatmulHeuristicResult_t results[BB_GEMM_CANDIDATES];
    float best = FLT_MAX, ms;
    int n, rc;

    TRY(candidates_of(g, candidates < BB_GEMM_CANDIDATES ? candidates : BB_GEMM_CANDIDATES, results, &n));
    for (int i = 0; i < n; i++) {
        if (results[i].state != CUBLAS_STATUS_SUCCESS)
            continue;
        TRY(time_algo(t, &results[i].algo, &ms));
        *tried += ms < FLT_MAX;
        if (ms < best) {
            best = ms;
            g->algo = results[i].algo;
            g->choice = i;
        }
    }
out:
    return rc;
}

int bb_gemm_tune(struct bb_gemm *g, int candidates, int repeats, const void *a, const void *b, void *c,
                 cudaStream_t stream, int *tried)
{
    struct trial t = {.g = g, .a = a, .b = b, .c = c, .stream = stream, .repeats = repeats};
    int count = 0, rc;

    TRY(BB_CUDA(cudaEventCreate(&t.start)));
    TRY(BB_CUDA(cudaEventCreate(&t.stop)));
    TRY(bb_start_barrier_init(&t.barrier, START_BARRIER_LIMIT_NS));
    TRY(try_all(g, &t, candidates, &count));
out:
    bb_start_barrier_release(&t.barrier);
    bb_event_destroy(t.stop);
    bb_event_destroy(t.start);
    if (tried)
        *tried = count;
    return rc;
}

/* ---- agreement of the ranks on the algorithms ---- */

struct selection {
    struct bb_gemm_shape shape;
    int choice;
};

bool bb_gemm_same_shape(const struct bb_gemm_shape *a, const struct bb_gemm_shape *b)
{
    return a->m == b->m && a->n == b->n && a->k == b->k && a->batch == b->batch && a->trans_a == b->trans_a &&
           a->trans_b == b->trans_b && a->dtype == b->dtype;
}

/* Gives g the algorithm with this index. The heuristic of a different GPU or version may return fewer algorithms; g
 * then keeps its own. */
static int use_choice(struct bb_gemm *g, int choice)
{
    cublasLtMatmulHeuristicResult_t results[BB_GEMM_CANDIDATES];
    int n, rc;

    TRY(candidates_of(g, choice + 1, results, &n));
    if (choice < n && results[choice].state == CUBLAS_STATUS_SUCCESS) {
        g->algo = results[choice].algo;
        g->choice = choice;
    }
out:
    return rc;
}

/* Broadcasts the selections of rank `owner` and marks this rank's GEMMs of the same shapes as agreed. */
static int adopt_selections(struct bb_world *w, int owner, struct bb_gemm *gemms, int n, bool *agreed)
{
    struct selection *of_owner = NULL;
    int count = n, rc;

    TRY(bb_world_bcast(w, &count, sizeof count, owner));
    BB_NEW(of_owner, count);
    for (int i = 0; i < count && w->rank == owner; i++)
        of_owner[i] = (struct selection){gemms[i].shape, gemms[i].choice};
    TRY(bb_world_bcast(w, of_owner, (size_t)count * sizeof *of_owner, owner));
    for (int i = 0; i < n; i++)
        for (int j = 0; j < count && !agreed[i]; j++)
            if (bb_gemm_same_shape(&gemms[i].shape, &of_owner[j].shape)) {
                TRY(use_choice(&gemms[i], of_owner[j].choice));
                agreed[i] = true;
            }
out:
    free(of_owner);
    return rc;
}

static bool all_agreed(const bool *agreed, int n)
{
    for (int i = 0; i < n; i++)
        if (!agreed[i])
            return false;
    return true;
}

int bb_gemms_agree(struct bb_world *w, struct bb_gemm *gemms, int n)
{
    size_t owner = 0;
    bool *agreed;
    int rc = 0;

    BB_NEW(agreed, n);
    while (rc == 0 && owner < (size_t)w->size) {
        owner = (size_t)(all_agreed(agreed, n) ? w->size : w->rank);
        TRY(bb_world_min(w, &owner));
        if (owner < (size_t)w->size)
            rc = adopt_selections(w, (int)owner, gemms, n, agreed);
    }
out:
    free(agreed);
    return rc;
}
