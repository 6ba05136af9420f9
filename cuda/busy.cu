/*
 * busy.cu - the timed stand-in for compute. One block per multiprocessor (each takes all the shared memory that a block
 * can have), and each keeps its own time: it moves memory whenever it is behind its rate and else looks at the clock.
 */
#include "cuda/busy_args.h"
#include "cuda/check.h"

static const int THREADS = 512;
static const int WORDS_AT_ONCE = 4; /* per thread: a portion is 32 KiB read and 32 KiB written */

static __device__ uint64_t gpu_clock_ns()
{
    uint64_t t;

    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
    return t;
}

/*
 * One portion of this block: read and written back unchanged, past the caches' memory (.cs: used once), so that it is
 * traffic to memory and not to the L2. Blocks take turns along the scratch area.
 */
static __device__ void move_portion(const struct bb_busy_args &a, uint64_t portion)
{
    const uint64_t portions = a.words / (THREADS * WORDS_AT_ONCE);
    const uint64_t first = (portion * gridDim.x + blockIdx.x) % portions * (THREADS * WORDS_AT_ONCE) + threadIdx.x;
    uint4 *scratch = static_cast<uint4 *>(a.scratch), v[WORDS_AT_ONCE];

    for (int i = 0; i < WORDS_AT_ONCE; i++)
        v[i] = __ldcs(scratch + first + i * THREADS);
    for (int i = 0; i < WORDS_AT_ONCE; i++)
        __stcs(scratch + first + i * THREADS, v[i]);
}

static __device__ void write_report(struct bb_busy_report *r, uint64_t start_ns, uint64_t portions)
{
    atomicMin(&r->start_ns, (unsigned long long)start_ns);
    atomicMax(&r->end_ns, (unsigned long long)gpu_clock_ns());
    atomicAdd(&r->bytes, portions * THREADS * WORDS_AT_ONCE * 2 * sizeof(uint4));
    atomicAdd(&r->blocks, 1ull);
}

/* Every thread of a block gets thread 0's time: they stay together in whether to move or to end. */
static __device__ int64_t elapsed_ns(uint64_t start_ns)
{
    __shared__ int64_t now;

    __syncthreads(); /* all have read the time before */
    if (threadIdx.x == 0)
        now = (int64_t)(gpu_clock_ns() - start_ns);
    __syncthreads();
    return now;
}

extern "C" __global__ void __launch_bounds__(THREADS) bb_busy_kernel(struct bb_busy_args a)
{
    const uint64_t start_ns = gpu_clock_ns();
    const double portion_bytes = 2.0 * THREADS * WORDS_AT_ONCE * sizeof(uint4);
    uint64_t portions = 0;

    for (int64_t t = elapsed_ns(start_ns); t < a.ns; t = elapsed_ns(start_ns))
        if (portions * portion_bytes < a.bytes_per_ns * t)
            move_portion(a, portions++);
    if (threadIdx.x == 0 && a.report)
        write_report(a.report, start_ns, portions);
}

/* Without traffic one thread watches the clock: nothing else to keep together. */
extern "C" __global__ void bb_hold_kernel(struct bb_busy_args a)
{
    const uint64_t start_ns = gpu_clock_ns();

    if (threadIdx.x != 0)
        return;
    while ((int64_t)(gpu_clock_ns() - start_ns) < a.ns)
        ;
    if (a.report)
        write_report(a.report, start_ns, 0);
}

extern "C" __global__ void bb_busy_clear_kernel(struct bb_busy_report *report)
{
    *report = {~0ull, 0, 0, 0};
}

/* ---- launchers ----------------------------------------------------------------------------------------------------
 */

/* What keeps a second block off a multiprocessor, less the static shared memory; 0 where it cannot be had. */
static int blocking_shared_bytes(const void *kernel, int device)
{
    int bytes, reserve = 64;

    if (cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) == cudaSuccess &&
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes - reserve) == cudaSuccess)
        return bytes - reserve;
    (void)cudaGetLastError();
    return 0;
}

static int blocks_of(const struct bb_busy *busy, int device, int *blocks)
{
    int sms, rc = BB_CUDA(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device));

    *blocks = busy->sms < 1 ? 1 : busy->sms > sms ? sms : busy->sms;
    return rc;
}

static int launch_hold(const struct bb_busy_args &args, int device, int blocks, cudaStream_t stream)
{
    static const int shared = blocking_shared_bytes((const void *)bb_hold_kernel, device); /* the same every time */

    bb_hold_kernel<<<blocks, 32, shared, stream>>>(args);
    return BB_CUDA(cudaGetLastError());
}

static int launch_busy(const struct bb_busy_args &args, int device, int blocks, cudaStream_t stream)
{
    static const int shared = blocking_shared_bytes((const void *)bb_busy_kernel, device);

    bb_busy_kernel<<<blocks, THREADS, shared, stream>>>(args);
    return BB_CUDA(cudaGetLastError());
}

int bb_busy_run(const struct bb_busy *busy, cudaStream_t stream)
{
    const uint64_t words = busy->scratch_bytes / sizeof(uint4), portion = THREADS * WORDS_AT_ONCE;
    const bool moves = busy->gbps > 0;
    int device, blocks, rc;

    if (moves && (!busy->scratch || words < portion))
        return bb_err(BB_EUSAGE, "%g GB/s of memory traffic need scratch memory of at least %zu bytes, not %zu",
                      busy->gbps, (size_t)portion * sizeof(uint4), busy->scratch_bytes);
    rc = BB_CUDA(cudaGetDevice(&device));
    if (rc == 0)
        rc = blocks_of(busy, device, &blocks);
    if (rc != 0)
        return rc;
    const struct bb_busy_args args = {busy->ns, busy->gbps / blocks, busy->scratch, words, busy->report};
    return moves ? launch_busy(args, device, blocks, stream) : launch_hold(args, device, blocks, stream);
}

int bb_busy_report_clear(struct bb_busy_report *report, cudaStream_t stream)
{
    bb_busy_clear_kernel<<<1, 1, 0, stream>>>(report);
    return BB_CUDA(cudaGetLastError());
}
