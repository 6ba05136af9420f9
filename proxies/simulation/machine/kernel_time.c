/*
 * kernel_time.c - duration of a GEMM or a memory-bound kernel (definition: profiles/clusters/README.md).
 *
 * A GEMM is divided into tiles. Each SM computes one tile at a time, so the duration is a whole number of waves, of
 * which the last is rarely full (wave quantization). Like cuBLAS, the model uses the fastest of several tile sizes;
 * smaller tiles read more operand bytes per result. If the tiles leave SMs idle, k is divided among them (split-K, as in
 * cuBLAS and cuDNN), and the partial results pass through memory. Power limits the clocks of a GEMM that keeps all SMs busy; idle SMs
 * leave that power to the others. Half of the time that writes the result is not hidden. The constants were chosen by
 * the fitting half of measured kernels on A100 and B200 (MooreThreads/SimuMax, configs/system; tests/cli/kernel_accuracy.py).
 */
#include "proxies/simulation/machine/software.h"

#include <math.h>

/* Tile sizes of a GEMM: rows and columns of the result tile, and the tile's rate as a fraction of that of the best
 * tile. The sizes are those of NVIDIA's "Matrix Multiplication Background" guide; the rates are guesses from the
 * operand bytes that a tile reads per result element. */
static const struct tile {
    int rows, cols;
    double rate;
} tiles[] = {{256, 128, 1},   {128, 256, 1},   {128, 128, 0.92}, {256, 64, 0.85},
             {64, 256, 0.85}, {128, 64, 0.75}, {64, 128, 0.75},  {64, 64, 0.6}};

/* Least k of a part of a tile: 8 k-tiles (CUTLASS, tile_scheduler_params.h: min_iters_per_sk_unit_) of 64 elements. */
#define SPLIT_K 512.0
/* Least number of parts: on B200, four of five GEMMs of the fitting half that could have 2 or 3 were not faster. */
#define SPLIT_PARTS 4
/* Rate of a tile relative to that of a large GEMM, whose clocks the power limits. */
#define TILE_RATE 1.2
/* Part of the time of writing the result of a GEMM that no arithmetic hides. */
#define EXPOSED_RESULT 0.5
/* Part of the traffic of the weights of several experts, or of their gradients, that no arithmetic hides, by generation: their
 * GEMMs are short. On A100, whose arithmetic is slower relative to its memory, as of any GEMM; Hopper: as Blackwell, a guess. */
static const double exposed_weights[BB_GPU_GENERATIONS] = {EXPOSED_RESULT, 0.8, 0.8};
/* Part of the longest thread block of attention that runs while other SMs are idle. */
#define ATTENTION_TAIL 0.35
/* Time of the small kernels of a call of fused attention in the forward pass, for each of its two GEMMs. */
#define ATTENTION_FORWARD_NS 16e3
/* Rate of attention with heads of more than 128 dimensions, and by generation of at most 64, relative to 128: softmax has
 * as many exponentials as with 128 dimensions for half the FLOPs, and tensor cores became faster than the units for
 * exponentials. Hopper: 0.69 to 0.84 in the FlashAttention-3 paper (figures 5 and 6, cuDNN and FlashAttention-3), 0.6 on
 * H200 with cuDNN 9.19; Blackwell: 0.42 to 0.54 on GB200 and GB300 (NVIDIA/cudnn-frontend, sdpa_benchmark_training: gpt_oss
 * against llama3.1, 16,384 tokens, with 9/8 for the partial tiles of a window of 1,024). */
#define LARGE_HEAD_RATE 0.85
static const double small_head_rate[BB_GPU_GENERATIONS] = {1, 0.7, 0.5};
/* GB/s of an SM in the kernels of Mamba 2's scan, which are in Triton and no faster with more memory bandwidth, by generation:
 * about 5 bytes per clock. So that training of 48 layers of Mamba 2 takes as long as on A100, H200 and GB200 (state-spaces/mamba,
 * issue 904: 102.5, 239.2 and 360.4 TFLOP/s, as 6 FLOPs per parameter and token). */
static const double scan_sm_gbps[BB_GPU_GENERATIONS] = {6, 10, 10.8};
/* Attention to keys that an index lists (DeepSeek-V4), of the peak rate: all 64 heads of a query are one tile, so that a key
 * is read from cache for 64 rows, and its gradient is added with atomic operations; the backward pass reads and writes
 * the queries as long as for GATHERED_KEYS keys. B200: forward with 2,048 keys 366 to 437 of 2,250 TFLOP/s in 12 of 15 cases
 * (NVIDIA/cudnn-frontend, benchmark/sparse_attention_training/results); backward of 4,096 queries 0.56, 1.23, 2.16 and 4.02 ms
 * with 128, 512, 1,024 and 2,048 keys (pull request 318). */
static const double gathered_rate[2] = {0.19, 0.33};
#define GATHERED_KEYS 183

/* Returns the rate of large GEMMs on all SMs, in FLOP per ns. */
static double gemm_rate(const struct bb_cluster *c, const struct bb_kernel_list_item *item)
{
    const double peak = bb_cluster_low_precision_tflops(c, item->precision);

    if (peak > 0)
        return peak * c->achieved.gemm_float8 * 1e3;
    return bb_cluster_tflops(c, item->gemm.dtype) * c->achieved.gemm * 1e3;
}

/* Returns the duration of `blocks` tiles that take tile_ns each. k is divided into as many parts as keep idle SMs busy and
 * repay their partial results, which are written and read as float. */
static double waves_ns(const struct bb_cluster *c, const struct bb_gemm_shape *g, double blocks, double tile_ns,
                       int sms)
{
    const double partial_ns = 8.0 * (double)(g->m * g->n * g->batch) / (c->memory_gbps * c->achieved.memory);
    const double parts = floor(fmin(fmin(sms / blocks, (double)g->k / SPLIT_K), sqrt(tile_ns / partial_ns)));

    return parts < SPLIT_PARTS ? ceil(blocks / sms) * tile_ns : tile_ns / parts + parts * partial_ns;
}

static double tiled_ns(const struct bb_cluster *c, const struct bb_kernel_list_item *item, int sms)
{
    const struct bb_gemm_shape *g = &item->gemm;
    const double rate = gemm_rate(c, item) / c->sm_count;
    double best = INFINITY;

    for (size_t i = 0; i < sizeof(tiles) / sizeof(tiles[0]); i++) {
        const struct tile *t = &tiles[i];
        const double blocks = ceil((double)g->m / t->rows) * ceil((double)g->n / t->cols) * (double)g->batch;
        const double tile_ns = 2.0 * t->rows * t->cols * (double)g->k / (rate * TILE_RATE * t->rate);
        const double ns = waves_ns(c, g, blocks, tile_ns, sms);

        if (ns < best) /* not fmin: gcc 12 for Arm crashes on a loop with fmin */
            best = ns;
    }
    return fmax(best, bb_gemm_flops(g) / (rate * sms));
}

/* Returns the bytes of operands that are `bytes` in the data type of the step. */
static double operand_bytes(const struct bb_kernel_list_item *item, size_t bytes)
{
    return item->precision ? (double)bytes * bb_gemm_formats[item->precision].bytes / bb_dtypes[item->gemm.dtype].bytes
                           : (double)bytes;
}

/* Returns the bytes by which a GEMM changes its result, in the data type of the step; in training a weight gradient is
 * read and written. */
static double result_bytes(const struct bb_cluster *c, const struct bb_kernel_list_item *item)
{
    const struct bb_gemm_shape *g = &item->gemm;

    return c->models_training && g->trans_a && !item->scan ? (double)(g->m * g->n * g->batch) * 2 * c->gradient_bytes
                                                           : (double)bb_gemm_c_bytes(g);
}

/* Returns the bytes that a GEMM reads and writes. */
static double gemm_bytes(const struct bb_cluster *c, const struct bb_kernel_list_item *item)
{
    const struct bb_gemm_shape *g = &item->gemm;

    return operand_bytes(item, bb_gemm_a_bytes(g) + bb_gemm_b_bytes(g)) + result_bytes(c, item);
}

/* Returns the bytes of a GEMM whose traffic no arithmetic hides. */
static double exposed_bytes(const struct bb_cluster *c, const struct bb_kernel_list_item *item)
{
    const double result = result_bytes(c, item), weights = exposed_weights[bb_cluster_generation(c)];

    if (!c->models_training || item->experts <= 1)
        return result * EXPOSED_RESULT;
    return item->gemm.trans_a ? result * weights
                              : result * EXPOSED_RESULT + operand_bytes(item, bb_gemm_b_bytes(&item->gemm)) * weights;
}

/* Returns the duration of fused attention as in FlashAttention: each thread block computes 128 queries (in the
 * backward pass: 128 keys) of one head and one sample; with a causal mask the longest block takes twice the average.
 * `item` describes the attention as a batched GEMM: one of m, n and k is the head dimension, the other two are sequence
 * lengths. The backward pass is described by four GEMMs but executes five, because it recomputes the scores; this is the
 * factor 1.25. */
static double attention_ns(const struct bb_cluster *c, const struct bb_kernel_list_item *item, int sms)
{
    const struct bb_gemm_shape *g = &item->gemm;
    const bool backward = item->fusion == BB_KERNEL_IN_ATTENTION_BACKWARD;
    const double blocks = ceil(fmax((double)g->m, (double)g->n) / 128) * (double)g->batch;
    const double head = fmin(fmin((double)g->m, (double)g->n), (double)g->k);
    const double part = (backward ? c->achieved.attention_backward : c->achieved.attention_forward) *
                        (head > 128  ? LARGE_HEAD_RATE
                         : head > 64 ? 1
                                     : small_head_rate[bb_cluster_generation(c)]);
    const double ns = bb_gemm_flops(g) * item->share * (backward ? 1.25 : 1) /
                      (bb_cluster_tflops(c, g->dtype) * part * 1e3) * c->sm_count / sms;
    const double gathered = bb_gemm_flops(g) * item->share *
                            (backward ? 1.25 * (1 + GATHERED_KEYS / item->gathered) : 1) /
                            (bb_cluster_tflops(c, g->dtype) * gathered_rate[backward] * 1e3) * c->sm_count / sms;
    const double longest = ns * sms / blocks * fmin(2, 1 / item->share);

    if (item->gathered > 0)
        return gathered;
    return fmax(ns + ATTENTION_TAIL * longest, longest) + (backward ? 0 : ATTENTION_FORWARD_NS);
}

/* Two lower bounds of a kernel's duration, in ns. work: time of the arithmetic on the SMs that are available;
 * memory: time of the memory traffic. */
struct bounds {
    double work, memory;
};

/* Returns the duration of a kernel of Mamba 2's scan, whose traffic passes through the SMs. */
static double scan_ns(const struct bb_cluster *c, const struct bb_kernel_list_item *item, int sms)
{
    const double bytes =
        item->is_memory_kernel ? (double)bb_memory_kernel_bytes(&item->memory_kernel) : gemm_bytes(c, item);

    return bytes / (sms * scan_sm_gbps[bb_cluster_generation(c)]);
}

static struct bounds bounds_of(const struct bb_cluster *c, const struct bb_kernel_list_item *item, int sms)
{
    double rate = c->memory_gbps * (c->has_achieved ? c->achieved.memory : 1);

    if (item->is_memory_kernel && item->routed && c->models_training && c->routed_memory > 0 &&
        (c->eager || !c->graphs_fuse_experts))
        rate *= c->routed_memory;
    if (item->scan && c->models_training)
        return (struct bounds){scan_ns(c, item, sms), 0};
    if (item->is_memory_kernel)
        return (struct bounds){0, (double)bb_memory_kernel_bytes(&item->memory_kernel) / rate};
    if (!c->has_achieved)
        return (struct bounds){
            bb_gemm_flops(&item->gemm) / bb_cluster_tflops(c, item->gemm.dtype) / 1e3 * c->sm_count / sms, 0};
    if (c->models_training && item->fusion != BB_KERNEL_SEPARATE)
        return (struct bounds){attention_ns(c, item, sms), 0};
    return (struct bounds){tiled_ns(c, item, sms) + exposed_bytes(c, item) / rate, gemm_bytes(c, item) / rate};
}

/* Parameters that Adam updates per ns on the host of a node: 10 billion in 2.57 s (Ren et al. 2021, ZeRO-Offload, table 4,
 * two Xeon 8168), divided among the GPUs of the node. */
#define HOST_ADAM_PER_NS 3.9

static double host_ns(const struct bb_cluster *c, const struct bb_kernel_list_item *item)
{
    const double count = (double)item->memory_kernel.cols;

    return item->place == BB_ON_HOST ? count * c->gpus_per_node / HOST_ADAM_PER_NS
                                     : count * (double)bb_dtypes[item->memory_kernel.dtype].bytes / c->pcie_gbps;
}

/* In training, a GEMM with the rows of all experts is a GEMM per expert: returns the shape of as many GEMMs with the mean
 * number of rows, which a weight gradient sums over. */
static struct bb_gemm_shape shape_of_experts(const struct bb_kernel_list_item *item)
{
    struct bb_gemm_shape g = item->gemm;
    int64_t *rows = g.trans_a ? &g.k : &g.m;

    *rows = (*rows * 2 + item->experts) / (2 * item->experts);
    g.batch = item->experts;
    return g;
}

int64_t bb_cluster_kernel_on_sms_ns(const struct bb_cluster *c, const struct bb_kernel_list_item *item, int sms,
                                    bool *by_memory)
{
    struct bb_kernel_list_item split;
    struct bounds bounds;

    if (c->models_training && !item->is_memory_kernel && item->gemm.batch == 1 && item->experts > 1) {
        split = *item;
        split.gemm = shape_of_experts(item);
        item = &split;
    }

    *by_memory = item->place != BB_ON_GPU;
    if (item->place)
        return llround(fmax(c->kernel_us * 1e3, host_ns(c, item)));
    if (c->has_achieved && c->models_training && item->fusion == BB_KERNEL_IN_GEMM)
        return 0;
    bounds = bounds_of(c, item, sms);
    *by_memory = bounds.memory >= bounds.work && bounds.memory > c->kernel_us * 1e3;
    return llround(fmax(c->kernel_us * 1e3, fmax(bounds.work, bounds.memory)));
}

int64_t bb_cluster_kernel_ns(const struct bb_cluster *c, const struct bb_kernel_list_item *item)
{
    bool by_memory;

    return bb_cluster_kernel_on_sms_ns(c, item, c->sm_count, &by_memory);
}
