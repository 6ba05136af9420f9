/*
 * layer_kernels.cuh - the CUDA kernels of memory_kernel.h. Only layer_memory_kernels.cu launches them. The GPU emulator
 * compiles this same source for the CPU (tests/emulator/kernels).
 *
 * All kernels are memory-bound. Adjacent threads load or store adjacent groups of elements, of 16 bytes each if the
 * alignment allows it (bb_memory_kernel_prepare sets the width). Grid-stride loops make any grid size correct. The
 * argument of each kernel is struct bb_memory_kernel. Arithmetic is in float.
 */
#ifndef BB_CUDA_LAYER_KERNELS_CUH
#define BB_CUDA_LAYER_KERNELS_CUH

#include "cuda/work/memory_kernel.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#define BB_LAYER_THREADS 256 /* threads per block of all kernels */

static __device__ inline uint64_t first_thread()
{
    return (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
}

static __device__ inline uint64_t all_threads()
{
    return (uint64_t)gridDim.x * blockDim.x;
}

/* 64-bit division takes about 100 instructions, 32-bit division about 20. Most operands fit 32 bits. */
static __device__ inline uint64_t quotient(uint64_t a, uint64_t b)
{
    return (a | b) >> 32 ? a / b : (uint32_t)a / (uint32_t)b;
}

/* ---- conversion to float and back, wide loads and stores ---- */

static __device__ inline float widen(float x)
{
    return x;
}

static __device__ inline float widen(__half x)
{
    return __half2float(x);
}

static __device__ inline float widen(__nv_bfloat16 x)
{
    return __bfloat162float(x);
}

static __device__ inline void narrow(float x, float *to)
{
    *to = x;
}

static __device__ inline void narrow(float x, __half *to)
{
    *to = __float2half_rn(x);
}

static __device__ inline void narrow(float x, __nv_bfloat16 *to)
{
    *to = __float2bfloat16_rn(x);
}

/* The N elements that one memory access loads or stores. */
template <typename T, int N> struct alignas(sizeof(T) * N) word {
    T v[N];
};

template <typename T, int N> static __device__ inline void load(const void *array, uint64_t i, float to[N])
{
    const word<T, N> w = static_cast<const word<T, N> *>(array)[i];

    for (int j = 0; j < N; j++)
        to[j] = widen(w.v[j]);
}

template <typename T, int N> static __device__ inline void store(void *array, uint64_t i, const float from[N])
{
    word<T, N> w;

    for (int j = 0; j < N; j++)
        narrow(from[j], &w.v[j]);
    static_cast<word<T, N> *>(array)[i] = w;
}

/* ---- copies and gathers: words of 16, 8, 4 or 2 bytes, independent of the element type ---- */

template <typename U> static __device__ void copy_words(const struct bb_memory_kernel &p, uint64_t bytes)
{
    for (uint64_t i = first_thread(); i < bytes / sizeof(U); i += all_threads())
        static_cast<U *>(p.out)[i] = static_cast<const U *>(p.in)[i];
}

/* Copies rows: the blockDim.x threads with the same threadIdx.y copy one output row. */
template <typename U> static __device__ void gather_words(const struct bb_memory_kernel &p, uint64_t row_bytes)
{
    const uint64_t words = row_bytes / sizeof(U), rows_at_once = (uint64_t)gridDim.x * blockDim.y;

    for (uint64_t r = (uint64_t)blockIdx.x * blockDim.y + threadIdx.y; r < p.rows; r += rows_at_once) {
        const int32_t source = p.index[r];
        for (uint64_t c = threadIdx.x; c < words; c += blockDim.x)
            static_cast<U *>(p.out)[r * words + c] =
                source < 0 ? U{} : static_cast<const U *>(p.in)[(uint64_t)source * words + c];
    }
}

/* Index conversion for halo messages. i is the index of a word (the cells of one memory access) in the packed
 * message, which contains the box (struct bb_box) of each row, one after another. Returns the index of the same word
 * in the array of whole tiles. per_word: number of cells per word. */
static __device__ inline uint64_t tile_word(const struct bb_box &b, uint32_t per_word, uint64_t i)
{
    const uint32_t width = b.extent[2] / per_word;
    const uint64_t line = quotient(i, width), plane = quotient(line, b.extent[1]), row = quotient(plane, b.extent[0]);
    const uint64_t x = i - line * width, y = line - plane * b.extent[1], z = plane - row * b.extent[0];

    return ((row * b.size[0] + b.at[0] + z) * b.size[1] + b.at[1] + y) * (b.size[2] / per_word) + b.at[2] / per_word +
           x;
}

template <typename U> static __device__ void box_words(const struct bb_memory_kernel &p, uint32_t per_word)
{
    const uint64_t words = p.rows * (uint64_t)p.box.extent[0] * p.box.extent[1] * (p.box.extent[2] / per_word);

    for (uint64_t i = first_thread(); i < words; i += all_threads()) {
        const uint64_t tile = tile_word(p.box, per_word, i);
        const bool pack = p.kind == BB_MEMORY_KERNEL_PACK;
        static_cast<U *>(p.out)[pack ? i : tile] = static_cast<const U *>(p.in)[pack ? tile : i];
    }
}

template <typename T> static __device__ void box_add(const struct bb_memory_kernel &p)
{
    const uint64_t cells = p.rows * (uint64_t)p.box.extent[0] * p.box.extent[1] * p.box.extent[2];

    for (uint64_t i = first_thread(); i < cells; i += all_threads()) {
        const uint64_t tile = tile_word(p.box, 1, i);
        T *out = static_cast<T *>(p.out) + tile;
        narrow(widen(*out) + widen(static_cast<const T *>(p.in)[i]), out);
    }
}

/* ---- bias, scale and activation, forward and backward ---- */

/* The tanh approximation of GELU: 0.5 x (1 + tanh u) = x * sigmoid(2u), with u as computed below. The code uses x *
 * sigmoid(2u), which needs only one exponential and one division. */
static __device__ inline float gelu(float x)
{
    const float u = 0.7978845608f * (x + 0.044715f * x * x * x);

    return __fdividef(x, 1.0f + __expf(-2.0f * u));
}

static __device__ inline float activate(int act, float x)
{
    return act == BB_ACT_GELU ? gelu(x) : act == BB_ACT_RELU ? fmaxf(x, 0.0f) : x;
}

template <typename T, int N> static __device__ void affine_words(const struct bb_memory_kernel &p)
{
    const uint64_t row_words = p.cols / N, words = p.rows * row_words;
    const bool by_channel = p.kind == BB_MEMORY_KERNEL_CHANNEL_NORM;
    float x[N], shift[N], scale = 1.0f;

    for (uint64_t i = first_thread(); i < words; i += all_threads()) {
        const uint64_t row = quotient(i, row_words);
        load<T, N>(p.in, i, x);
        if (by_channel) {
            const uint64_t channel = row - quotient(row, p.channels) * p.channels;
            scale = widen(static_cast<const T *>(p.scale)[channel]);
            for (int j = 0; j < N; j++)
                shift[j] = widen(static_cast<const T *>(p.shift)[channel]);
        } else {
            load<T, N>(p.shift, i - row * row_words, shift);
        }
        for (int j = 0; j < N; j++)
            x[j] = activate(p.act, x[j] * scale + shift[j]);
        store<T, N>(p.out, i, x);
    }
}

/* Derivative of gelu: s + x * s', where s = sigmoid(2u) as in gelu. */
static __device__ inline float gelu_slope(float x)
{
    const float u = 0.7978845608f * (x + 0.044715f * x * x * x);
    const float s = __fdividef(1.0f, 1.0f + __expf(-2.0f * u));

    return s + 2.0f * x * s * (1.0f - s) * 0.7978845608f * (1.0f + 0.134145f * x * x);
}

static __device__ inline float slope(int act, float x)
{
    return act == BB_ACT_GELU ? gelu_slope(x) : act == BB_ACT_RELU && x <= 0.0f ? 0.0f : 1.0f;
}

template <typename T, int N> static __device__ void act_grad_words(const struct bb_memory_kernel &p)
{
    const uint64_t row_words = p.cols / N, words = p.rows * row_words;
    float g[N], x[N], shift[N];

    for (uint64_t i = first_thread(); i < words; i += all_threads()) {
        load<T, N>(p.in, i, g);
        load<T, N>(p.saved, i, x);
        load<T, N>(p.shift, i - quotient(i, row_words) * row_words, shift);
        for (int j = 0; j < N; j++)
            g[j] *= slope(p.act, x[j] + shift[j]);
        store<T, N>(p.out, i, g);
    }
}

/* ---- layer norm, forward and backward: one block per row ---- */

/* Shared memory of the layer norm kernels. Elements 0 to 31: one partial sum per warp. From element 32 on: a copy of
 * the row that the block normalizes, if p.cached. */
extern __shared__ __align__(16) float bb_layer_shared[];

/* Returns the sum of x over all threads of the block; every thread gets the sum. The order of additions is fixed, so
 * the result is reproducible. */
static __device__ inline float block_sum(float x)
{
    float total = 0;

    for (int lanes = 16; lanes > 0; lanes /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, lanes);
    if (threadIdx.x % 32 == 0)
        bb_layer_shared[threadIdx.x / 32] = x;
    __syncthreads();
    for (unsigned warp = 0; warp < blockDim.x / 32; warp++)
        total += bb_layer_shared[warp];
    __syncthreads(); /* the next call overwrites the partial sums, so wait until all threads have read them */
    return total;
}

template <typename T, int N> struct norm_row {
    const void *from; /* the row to normalize, in global memory, or its copy in shared memory */
    uint64_t words;

    __device__ float sum(void *copy) const
    {
        float x[N], total = 0;

        for (uint64_t i = threadIdx.x; i < words; i += blockDim.x) {
            load<T, N>(from, i, x);
            if (copy)
                store<T, N>(copy, i, x);
            for (int j = 0; j < N; j++)
                total += x[j];
        }
        return block_sum(total);
    }

    __device__ float squares(float mean) const
    {
        float x[N], total = 0;

        for (uint64_t i = threadIdx.x; i < words; i += blockDim.x) {
            load<T, N>(from, i, x);
            for (int j = 0; j < N; j++)
                total += (x[j] - mean) * (x[j] - mean);
        }
        return block_sum(total);
    }

    __device__ void write(const struct bb_memory_kernel &p, void *to, float mean, float factor) const
    {
        float x[N], scale[N], shift[N];

        for (uint64_t i = threadIdx.x; i < words; i += blockDim.x) {
            load<T, N>(from, i, x);
            load<T, N>(p.scale, i, scale);
            load<T, N>(p.shift, i, shift);
            for (int j = 0; j < N; j++)
                x[j] = (x[j] - mean) * factor * scale[j] + shift[j];
            store<T, N>(to, i, x);
        }
    }
};

/* Layer norm of each row. Each thread reads from the shared-memory copy only the elements that the thread itself
 * stored, so the copy needs no barrier. */
template <typename T, int N> static __device__ void layer_norm_rows(const struct bb_memory_kernel &p)
{
    void *copy = p.cached ? bb_layer_shared + 32 : NULL;

    for (uint64_t r = blockIdx.x; r < p.rows; r += gridDim.x) {
        norm_row<T, N> row = {static_cast<const T *>(p.in) + r * p.cols, p.cols / N};
        const float mean = row.sum(copy) / (float)p.cols;
        if (copy)
            row.from = copy;
        const float factor = rsqrtf(row.squares(mean) / (float)p.cols + BB_NORM_EPSILON);
        row.write(p, static_cast<T *>(p.out) + r * p.cols, mean, factor);
    }
}

/* State for one row of the layer norm gradient: its mean and factor = 1 / sqrt(variance + 1e-5). The kernel reads
 * `in` and `saved` several times; only the first read goes to memory, the later ones hit the cache. */
template <typename T, int N> struct norm_grad_row {
    const void *in, *saved;
    uint64_t words;
    float mean, factor;

    /* Loads the N elements of word i (one memory access) of the row: g = in * scale, and x = (saved - mean) *
     * factor, the normalized input of the forward kernel. */
    __device__ void load_word(const struct bb_memory_kernel &p, uint64_t i, float g[N], float x[N]) const
    {
        float scale[N];

        load<T, N>(in, i, g);
        load<T, N>(saved, i, x);
        load<T, N>(p.scale, i, scale);
        for (int j = 0; j < N; j++) {
            g[j] *= scale[j];
            x[j] = (x[j] - mean) * factor;
        }
    }

    __device__ void sums(const struct bb_memory_kernel &p, float *sum_g, float *sum_gx) const
    {
        float g[N], x[N], own_g = 0, own_gx = 0;

        for (uint64_t i = threadIdx.x; i < words; i += blockDim.x) {
            load_word(p, i, g, x);
            for (int j = 0; j < N; j++) {
                own_g += g[j];
                own_gx += g[j] * x[j];
            }
        }
        *sum_g = block_sum(own_g);
        *sum_gx = block_sum(own_gx);
    }

    __device__ void write(const struct bb_memory_kernel &p, void *to, float mean_g, float mean_gx) const
    {
        float g[N], x[N];

        for (uint64_t i = threadIdx.x; i < words; i += blockDim.x) {
            load_word(p, i, g, x);
            for (int j = 0; j < N; j++)
                g[j] = factor * (g[j] - mean_g - x[j] * mean_gx);
            store<T, N>(to, i, g);
        }
    }
};

template <typename T, int N> static __device__ void layer_norm_grad_rows(const struct bb_memory_kernel &p)
{
    const float cols = (float)p.cols;

    for (uint64_t r = blockIdx.x; r < p.rows; r += gridDim.x) {
        const T *saved = static_cast<const T *>(p.saved) + r * p.cols;
        const norm_row<T, N> x = {saved, p.cols / N};
        const float mean = x.sum(NULL) / cols, factor = rsqrtf(x.squares(mean) / cols + BB_NORM_EPSILON);
        const norm_grad_row<T, N> row = {static_cast<const T *>(p.in) + r * p.cols, saved, p.cols / N, mean, factor};
        float sum_g, sum_gx;
        row.sums(p, &sum_g, &sum_gx);
        row.write(p, static_cast<T *>(p.out) + r * p.cols, sum_g / cols, sum_gx / cols);
    }
}

/* ---- unpermute: weighted sum of the expert outputs of each token ---- */

template <typename T, int N>
static __device__ void expert_word(const struct bb_memory_kernel &p, uint64_t row, uint64_t row_words, uint64_t c)
{
    float x[N], sum[N] = {};

    for (int j = 0; j < p.top_k; j++) {
        const int32_t source = p.index[row * p.top_k + j];
        if (source < 0)
            continue;
        const float gate = p.gate[row * p.top_k + j];
        load<T, N>(p.in, (uint64_t)source * row_words + c, x);
        for (int k = 0; k < N; k++)
            sum[k] += gate * x[k];
    }
    store<T, N>(p.out, row * row_words + c, sum);
}

template <typename T, int N> static __device__ void unpermute_rows(const struct bb_memory_kernel &p)
{
    const uint64_t words = p.cols / N, rows_at_once = (uint64_t)gridDim.x * blockDim.y;

    for (uint64_t r = (uint64_t)blockIdx.x * blockDim.y + threadIdx.y; r < p.rows; r += rows_at_once)
        for (uint64_t c = threadIdx.x; c < words; c += blockDim.x)
            expert_word<T, N>(p, r, words, c);
}

/* ---- gradient accumulation and optimizers: N elements per memory access, then the remaining elements one by one
 * ---- */

template <typename T, int N> static __device__ void accumulate_word(const struct bb_memory_kernel &p, uint64_t i)
{
    float g[N], sum[N];

    load<T, N>(p.in, i, g);
    load<float, N>(p.master, i, sum);
    for (int j = 0; j < N; j++)
        sum[j] += g[j];
    store<float, N>(p.master, i, sum);
}

/* Returns the array of float parameters: p.out if the element type is float, otherwise the float copy p.master. */
template <typename T> static __device__ inline void *master_of(const struct bb_memory_kernel &p)
{
    return sizeof(T) == sizeof(float) ? p.out : p.master;
}

template <typename T, int N>
static __device__ void store_parameter(const struct bb_memory_kernel &p, uint64_t i, const float *x)
{
    store<float, N>(master_of<T>(p), i, x);
    if (sizeof(T) != sizeof(float))
        store<T, N>(p.out, i, x);
}

template <typename T, int N> static __device__ void sgd_word(const struct bb_memory_kernel &p, uint64_t i)
{
    const struct bb_optimizer &o = p.optimizer;
    float g[N], x[N], v[N];

    load<T, N>(p.in, i, g);
    load<float, N>(master_of<T>(p), i, x);
    load<float, N>(p.first, i, v);
    for (int j = 0; j < N; j++) {
        v[j] = o.beta1 * v[j] + g[j] + o.decay * x[j];
        x[j] -= o.rate * v[j];
    }
    store<float, N>(p.first, i, v);
    store_parameter<T, N>(p, i, x);
}

template <typename T, int N> static __device__ void adam_word(const struct bb_memory_kernel &p, uint64_t i)
{
    const struct bb_optimizer &o = p.optimizer;
    float g[N], x[N], m[N], v[N];

    load<T, N>(p.in, i, g);
    load<float, N>(master_of<T>(p), i, x);
    load<float, N>(p.first, i, m);
    load<float, N>(p.second, i, v);
    for (int j = 0; j < N; j++) {
        m[j] = o.beta1 * m[j] + (1.0f - o.beta1) * g[j];
        v[j] = o.beta2 * v[j] + (1.0f - o.beta2) * g[j] * g[j];
        x[j] -= o.rate * (m[j] * p.correct1 / (sqrtf(v[j] * p.correct2) + o.epsilon) + o.decay * x[j]);
    }
    store<float, N>(p.first, i, m);
    store<float, N>(p.second, i, v);
    store_parameter<T, N>(p, i, x);
}

template <typename T, int N> static __device__ void update_word(const struct bb_memory_kernel &p, uint64_t i)
{
    if (p.kind == BB_MEMORY_KERNEL_ACCUMULATE)
        accumulate_word<T, N>(p, i);
    else if (p.kind == BB_MEMORY_KERNEL_SGD)
        sgd_word<T, N>(p, i);
    else
        adam_word<T, N>(p, i);
}

template <typename T> static __device__ void update(const struct bb_memory_kernel &p)
{
    const uint64_t count = p.rows * p.cols, words = p.unit == 4 ? count / 4 : 0;

    for (uint64_t i = first_thread(); i < words; i += all_threads())
        update_word<T, 4>(p, i);
    for (uint64_t i = 4 * words + first_thread(); i < count; i += all_threads())
        update_word<T, 1>(p, i);
}

/* ---- __global__ entry points ---- */

#define BB_KERNEL extern "C" __global__ void __launch_bounds__(BB_LAYER_THREADS)

/* Calls `function` with the integer type that is p.unit bytes (16, 8, 4 or 2) wide. */
#define BB_WORDS(p, function, ...)                                                                                     \
    ((p).unit == 16  ? function<uint4>(__VA_ARGS__)                                                                    \
     : (p).unit == 8 ? function<uint2>(__VA_ARGS__)                                                                    \
     : (p).unit == 4 ? function<uint32_t>(__VA_ARGS__)                                                                 \
                     : function<uint16_t>(__VA_ARGS__))

static __device__ inline uint32_t element_bytes(const struct bb_memory_kernel &p)
{
    return p.dtype == BB_FLOAT ? 4 : 2;
}

BB_KERNEL bb_copy_kernel(struct bb_memory_kernel p)
{
    const uint64_t bytes = p.rows * p.cols * element_bytes(p);

    BB_WORDS(p, copy_words, p, bytes);
}

BB_KERNEL bb_gather_kernel(struct bb_memory_kernel p)
{
    const uint64_t row_bytes = p.cols * element_bytes(p);

    BB_WORDS(p, gather_words, p, row_bytes);
}

BB_KERNEL bb_box_kernel(struct bb_memory_kernel p)
{
    const uint32_t per_word = p.unit / element_bytes(p);

    BB_WORDS(p, box_words, p, per_word);
}

/* Defines one kernel per element type. A memory access has N elements (16 bytes), or one element if p.unit is 1. */
#define BB_TYPED_KERNELS(name, body)                                                                                   \
    BB_KERNEL bb_##name##_float_kernel(struct bb_memory_kernel p)                                                      \
    {                                                                                                                  \
        body(float, 4);                                                                                                \
    }                                                                                                                  \
    BB_KERNEL bb_##name##_half_kernel(struct bb_memory_kernel p)                                                       \
    {                                                                                                                  \
        body(__half, 8);                                                                                               \
    }                                                                                                                  \
    BB_KERNEL bb_##name##_bfloat16_kernel(struct bb_memory_kernel p)                                                   \
    {                                                                                                                  \
        body(__nv_bfloat16, 8);                                                                                        \
    }

#define BB_WIDE(function, T, N)  p.unit == 1 ? function<T, 1>(p) : function<T, N>(p)
#define BB_AFFINE(T, N)          BB_WIDE(affine_words, T, N)
#define BB_LAYER_NORM(T, N)      BB_WIDE(layer_norm_rows, T, N)
#define BB_ACT_GRAD(T, N)        BB_WIDE(act_grad_words, T, N)
#define BB_LAYER_NORM_GRAD(T, N) BB_WIDE(layer_norm_grad_rows, T, N)
#define BB_UNPERMUTE(T, N)       BB_WIDE(unpermute_rows, T, N)
#define BB_BOX_ADD(T, N)         box_add<T>(p)
#define BB_UPDATE(T, N)          update<T>(p)

BB_TYPED_KERNELS(affine, BB_AFFINE)
BB_TYPED_KERNELS(layer_norm, BB_LAYER_NORM)
BB_TYPED_KERNELS(act_grad, BB_ACT_GRAD)
BB_TYPED_KERNELS(layer_norm_grad, BB_LAYER_NORM_GRAD)
BB_TYPED_KERNELS(unpermute, BB_UNPERMUTE)
BB_TYPED_KERNELS(box_add, BB_BOX_ADD)
BB_TYPED_KERNELS(update, BB_UPDATE)

#endif
