/*
 * kernel_time.c - duration of a GEMM or a memory-bound kernel (definition: profiles/clusters/README.md).
 *
 * A GEMM is divided into tiles. Each SM computes one tile at a time, so the duration is a whole number of waves, of
 * which the last is rarely full (wave quantization). Like cuBLAS, the model uses the fastest of several tile sizes;
 * smaller tiles read more operand bytes per result. The duration is at least the time that memory needs to transfer the
 * operands.
 */
#include "proxies/simulation/machine/cluster.h"

#include <math.h>

/* Tile sizes of a GEMM: rows and columns of the result tile, and the tile's rate as a fraction of that of the best
 * tile. The sizes are those of NVIDIA's "Matrix Multiplication Background" guide; the rates are guesses from the
 * operand bytes that a tile reads per result element. */
static const struct tile {
    int rows, cols;
    double rate;
} tiles[] = {{256, 128, 1},   {128, 256, 1},   {128, 128, 0.92}, {256, 64, 0.85},
             {64, 256, 0.85}, {128, 64, 0.75}, {64, 128, 0.75},  {64, 64, 0.6}};

static double waves_of(int sms, double blocks)
{
    return ceil(blocks / sms);
}

/* Returns the rate of large GEMMs on all SMs, in FLOP per ns. */
static double gemm_rate(const struct bb_cluster *c, const struct bb_kernel_list_item *item)
{
    const double peak = bb_cluster_low_precision_tflops(c, item->precision);

    if (peak > 0)
        return peak * c->achieved.gemm_float8 * 1e3;
    return bb_cluster_tflops(c, item->gemm.dtype) * c->achieved.gemm * 1e3;
}

static double tiled_ns(const struct bb_cluster *c, const struct bb_kernel_list_item *item, int sms)
{
    const struct bb_gemm_shape *g = &item->gemm;
    double best = INFINITY, of_sm = gemm_rate(c, item) / c->sm_count;

    for (size_t i = 0; i < sizeof(tiles) / sizeof(tiles[0]); i++) {
        const struct tile *t = &tiles[i];
        const double blocks = ceil((double)g->m / t->rows) * ceil((double)g->n / t->cols) * (double)g->batch;
        const double ns = waves_of(sms, blocks) * 2.0 * t->rows * t->cols * (double)g->k / (of_sm * t->rate);

        if (ns < best) /* not fmin: gcc 12 for Arm crashes on a loop with fmin */
            best = ns;
    }
    return best;
}

/* Returns the bytes of an element of an operand. */
static double operand_bytes(const struct bb_kernel_list_item *item)
{
    return item->precision ? bb_gemm_formats[item->precision].bytes : (double)bb_dtypes[item->gemm.dtype].bytes;
}

/* Returns the bytes that a GEMM reads and writes; the result has the data type of the step. */
static double gemm_bytes(const struct bb_kernel_list_item *item)
{
    const double result = (double)bb_gemm_c_bytes(&item->gemm), operands = (double)bb_gemm_bytes(&item->gemm) - result;

    return operands * operand_bytes(item) / (double)bb_dtypes[item->gemm.dtype].bytes + result;
}

/* Returns the time in ns by which memory traffic lengthens the GEMMs of several experts, which run one after another and
 * are too short to overlap it: the weights are read once; a weight gradient is read and written in float. Measured on
 * A100 and B200 (MooreThreads/SimuMax, configs/system, group_matmul). */
static double expert_memory_ns(const struct bb_kernel_list_item *item, double rate)
{
    const struct bb_gemm_shape *g = &item->gemm;
    const double weights = g->trans_a ? (double)(g->m * g->n) * 8 : (double)(g->k * g->n) * operand_bytes(item);

    return weights * (double)g->batch / rate;
}

/* Returns the duration of fused attention as in FlashAttention: each thread block computes 128 queries (in the
 * backward pass: 128 keys) of one head and one sample. `item` describes the attention as a batched GEMM: one of m, n
 * and k is the head dimension, the other two are sequence lengths. The backward pass is described by four GEMMs but
 * executes five, because it recomputes the scores; this is the factor 1.25. */
static double attention_ns(const struct bb_cluster *c, const struct bb_kernel_list_item *item, int sms)
{
    const struct bb_gemm_shape *g = &item->gemm;
    bool backward = item->fusion == BB_KERNEL_IN_ATTENTION_BACKWARD;
    double blocks = ceil(fmax((double)g->m, (double)g->n) / 128) * (double)g->batch, part;

    part = backward ? c->achieved.attention_backward : c->achieved.attention_forward;
    return bb_gemm_flops(g) * item->share * (backward ? 1.25 : 1) / (bb_cluster_tflops(c, g->dtype) * part * 1e3) *
           waves_of(sms, blocks) * c->sm_count / blocks;
}

/* Two lower bounds of a kernel's duration, in ns. work: time of the arithmetic on the SMs that are available;
 * memory: time of the memory traffic. */
struct bounds {
    double work, memory;
};

static struct bounds bounds_of(const struct bb_cluster *c, const struct bb_kernel_list_item *item, int sms)
{
    double rate = c->memory_gbps * (c->has_achieved ? c->achieved.memory : 1);

    if (item->is_memory_kernel)
        return (struct bounds){0, (double)bb_memory_kernel_bytes(&item->memory_kernel) / rate};
    if (!c->has_achieved)
        return (struct bounds){
            bb_gemm_flops(&item->gemm) / bb_cluster_tflops(c, item->gemm.dtype) / 1e3 * c->sm_count / sms, 0};
    if (c->models_training && item->fusion != BB_KERNEL_SEPARATE)
        return (struct bounds){attention_ns(c, item, sms), 0};
    if (c->models_training && item->experts > 1)
        return (struct bounds){tiled_ns(c, item, sms) + expert_memory_ns(item, rate), gemm_bytes(item) / rate};
    return (struct bounds){tiled_ns(c, item, sms), gemm_bytes(item) / rate};
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

int64_t bb_cluster_kernel_on_sms_ns(const struct bb_cluster *c, const struct bb_kernel_list_item *item, int sms,
                                    bool *by_memory)
{
    struct bounds bounds;

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
