/*
 * kernel_list.h - the computation of a layer as a list of GEMMs and memory-bound kernels. A compute operation of a
 * training step refers to one kernel list. No CUDA: plans derive FLOPs, bytes and memory from the list without a GPU;
 * kernel_runner.h runs the list on the GPU.
 */
#ifndef BB_CUDA_WORK_KERNEL_LIST_H
#define BB_CUDA_WORK_KERNEL_LIST_H

#include "cuda/work/memory_kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How training frameworks fuse a kernel of the list (a GEMM or a memory-bound kernel) with other kernels. Busbar
 * runs each as a separate kernel; a forecast (proxies/simulation/machine/cluster.h) predicts the fused kernels of training. */
enum bb_kernel_fusion {
    BB_KERNEL_SEPARATE,
    BB_KERNEL_IN_ATTENTION,          /* GEMM inside the fused attention kernel, forward */
    BB_KERNEL_IN_ATTENTION_BACKWARD, /* GEMM inside the fused attention kernel, backward; the fused kernel of
                                        training recomputes the attention scores */
    BB_KERNEL_IN_GEMM                /* memory-bound kernel that training fuses into the preceding GEMM */
};

/* Where a kernel of training runs, only in forecasts: on the GPU; a copy between GPU and host memory; Adam on the host. */
enum bb_kernel_place { BB_ON_GPU, BB_ON_HOST_LINK, BB_ON_HOST };

/* Types of the operands of GEMMs with weights in training, with the scales that Transformer Engine stores: MXFP8 has one
 * byte per 32 elements, NVFP4 one per 16. bb_gemm_formats: value of --gemm-precision, bits of an element, bytes of an
 * element with its part of the scales; the first row is empty. */
enum bb_gemm_precision { BB_GEMM_DTYPE, BB_GEMM_FP8, BB_GEMM_MXFP8, BB_GEMM_NVFP4, BB_GEMM_PRECISIONS };
extern const struct bb_gemm_format {
    const char *name;
    int bits;
    double bytes;
} bb_gemm_formats[BB_GEMM_PRECISIONS];
/* bb_gemm_precision_of - returns the precision with this name; NULL: BB_GEMM_DTYPE. */
enum bb_gemm_precision bb_gemm_precision_of(const char *name);

struct bb_kernel_list_item {
    const char *name;                 /* name of the kernel, such as "qkv"; static string */
    bool is_memory_kernel;            /* true: a memory-bound kernel; false: a GEMM */
    enum bb_gemm_precision precision; /* of the operands in training */
    enum bb_kernel_place place;
    enum bb_kernel_fusion fusion;
    double share;    /* GEMM of fused attention: fraction of the attention scores that the mask keeps, 0 to 1 (causal:
                     about 0.5) */
    double gathered; /* GEMM of fused attention: number of keys that an index lists for each query and that all heads
                       share; 0: keys that follow one another */
    int experts;     /* number of MoE experts; training launches this GEMM once per expert, one after another. 0:
                    training launches it once */
    bool dropless;   /* the router decides how many rows the experts have, in each micro-batch anew */
    bool routed;     /* the kernel is on the way of the tokens to the experts and back, or a kernel of the experts */
    bool captured;   /* training launches this kernel and neighbours that are captured, too, as one CUDA graph */
    bool scan;       /* a kernel of the scan of Mamba 2: in Triton, with any training framework */
    struct bb_gemm_shape gemm;
    struct bb_memory_kernel memory_kernel; /* shape of a memory-bound kernel; all device pointers are NULL */
};

#define BB_KERNEL_LIST_ITEMS 640 /* maximum length; the longest list, the forward pass of ResNet-152, has 622 kernels */
struct bb_kernel_list {
    int n;
    bool overflowed; /* true: the list was full, so a new kernel replaced the last one, which is a programming error;
                        bb_kernel_runner_init rejects the list */
    struct bb_kernel_list_item items[BB_KERNEL_LIST_ITEMS];
};

/* bb_kernel_list_clear - empties a list. Its items need no initial values. */
static inline void bb_kernel_list_clear(struct bb_kernel_list *w)
{
    w->n = 0;
    w->overflowed = false;
}

/* bb_kernel_list_add_gemm and bb_kernel_list_add_memory_kernel append a kernel to the list. A zero-initialized list
 * is empty. */
void bb_kernel_list_add_gemm(struct bb_kernel_list *w, const char *name, const struct bb_gemm_shape *gemm);
void bb_kernel_list_add_memory_kernel(struct bb_kernel_list *w, const char *name,
                                      const struct bb_memory_kernel *memory_kernel);

/* bb_kernel_list_last - return the kernel added last, so that the caller can set its other fields. The list must not be
 * empty. */
struct bb_kernel_list_item *bb_kernel_list_last(struct bb_kernel_list *w);

/* ---- layers: append the forward kernels or, if `backward`, the kernels that compute the gradients of data and
 * weights; return false for an invalid shape ---- */

/*
 * bb_kernel_list_transformer - append a transformer layer: norm, qkv, scores, context, out, norm, up, activation and
 * down, with biases. With ffn = 4 h, the forward pass has batch * (24 s h^2 + 4 s^2 h) / tensor_parallel FLOPs and the
 * backward pass twice that number. The softmax between scores and context is omitted, because attention kernels compute
 * it on chip.
 */
bool bb_kernel_list_transformer(struct bb_kernel_list *w, const struct bb_transformer *t, bool backward);
/* bb_kernel_list_attention and bb_kernel_list_mlp append one half of a transformer layer. attention: from the first
 * norm to the output projection `out`; mlp: from the second norm to `down`. */
bool bb_kernel_list_attention(struct bb_kernel_list *w, const struct bb_transformer *t, bool backward);
bool bb_kernel_list_mlp(struct bb_kernel_list *w, const struct bb_transformer *t, bool backward);

/*
 * bb_kernel_list_conv - append a convolution with batch norm and activation, as PyTorch runs them: kernels of their own.
 *   With A the size of the output: the statistics read A, the norm and the activation read and write A. Backward: the
 *   activation reads gradient and output and writes A, the sums of the norm read gradient and input, the gradient reads
 *   both again and writes A. A kernel that only reads is represented by one that reads and writes as many bytes.
 *   of_data  backward: whether to include the gradient of the input; false for the first layer, which does not need one
 */
bool bb_kernel_list_conv(struct bb_kernel_list *w, const struct bb_conv *v, bool backward, bool of_data);

/* bb_kernel_list_dense - append a dense layer with bias and activation; input [rows][in], output [rows][out]. */
bool bb_kernel_list_dense(struct bb_kernel_list *w, int64_t rows, int64_t in, int64_t out, enum bb_activation act,
                          enum bb_dtype_id dtype, bool backward);
/* bb_kernel_list_dense_first_backward - append the backward pass of a network's first dense layer: only the gradient
 * of the weights, because the network's input needs no gradient. */
bool bb_kernel_list_dense_first_backward(struct bb_kernel_list *w, int64_t rows, int64_t in, int64_t out,
                                         enum bb_activation act, enum bb_dtype_id dtype);

/*
 * bb_kernel_list_interaction - append the feature interaction of a recommendation model: for each of `rows` samples,
 * the dot products of all pairs of `vectors` vectors with `features` elements. One GEMM per sample multiplies the
 * matrix of vectors by its transpose: 2 rows vectors^2 features FLOPs in total.
 */
bool bb_kernel_list_interaction(struct bb_kernel_list *w, int64_t rows, int64_t vectors, int64_t features,
                                enum bb_dtype_id dtype, bool backward);

/*
 * The three functions append a gather of rows of `hidden` elements.
 *   embedding  output row t: the embedding table's row for token t
 *   permute    tokens * top_k output rows, one per pair of a token and its MoE expert: each a copy of the token
 *   unpermute  output row t: the weighted sum of token t's top_k expert outputs
 */
void bb_kernel_list_embedding(struct bb_kernel_list *w, uint64_t tokens, uint64_t hidden, uint64_t vocabulary,
                              enum bb_dtype_id dtype);
void bb_kernel_list_permute(struct bb_kernel_list *w, uint64_t tokens, uint64_t hidden, int top_k,
                            enum bb_dtype_id dtype);
void bb_kernel_list_unpermute(struct bb_kernel_list *w, uint64_t tokens, uint64_t hidden, int top_k,
                              enum bb_dtype_id dtype);

/*
 * bb_kernel_list_halo_side - append the kernel that packs or unpacks the halo exchanged with one neighbor; see
 * bb_halo_box. Forward: packs the border cells of the interior, and unpacks received cells into the halo. Backward:
 * packs the gradients of the halo, and adds received gradients to the border cells of the interior.
 *   rows      samples * channels
 *   received  true: unpack the message from the neighbor; false: pack the message to the neighbor
 *   Returns   false if no data is exchanged in this direction
 */
bool bb_kernel_list_halo_side(struct bb_kernel_list *w, uint64_t rows, const uint32_t interior[3],
                              const uint32_t halo[3], const int direction[3], bool received, bool backward,
                              enum bb_dtype_id dtype);

/*
 * bb_kernel_list_accumulate - append a kernel that adds `count` gradients to their float sums.
 * bb_kernel_list_optimizer  - append a kernel that updates `count` parameters.
 *                               kind  BB_MEMORY_KERNEL_SGD or BB_MEMORY_KERNEL_ADAM
 */
void bb_kernel_list_accumulate(struct bb_kernel_list *w, uint64_t count, enum bb_dtype_id dtype);
void bb_kernel_list_optimizer(struct bb_kernel_list *w, enum bb_memory_kernel_kind kind, uint64_t count,
                              enum bb_dtype_id dtype);

/* bb_kernel_list_host - append a copy of `count` elements over the host link, or Adam of `count` parameters on the host. */
void bb_kernel_list_host(struct bb_kernel_list *w, const char *name, enum bb_kernel_place place, uint64_t count,
                         enum bb_dtype_id dtype);

/* ---- FLOPs, bytes and memory of a kernel list ---- */

double bb_kernel_list_flops(const struct bb_kernel_list *w); /* FLOPs of all GEMMs of the list */
double bb_kernel_list_bytes(const struct bb_kernel_list *w); /* minimum bytes that all kernels of the list read and
                                                                write */

/* Device memory in bytes that a kernel runner (kernel_runner.h) needs for its lists, which share three areas:
 * operands that kernels read, operands that kernels write, and indices. */
struct bb_kernel_list_memory {
    size_t read_bytes, write_bytes, index_count;
};
void bb_kernel_list_memory(const struct bb_kernel_list *w,
                           struct bb_kernel_list_memory *m); /* raises each field of *m to what this list needs,
                                                                unless it is already larger */
size_t bb_kernel_list_memory_bytes(const struct bb_kernel_list_memory *m); /* sum of the areas and the GEMM workspace */

/*
 * bb_kernel_list_scale - shrink every kernel to about `factor` (0 to 1) of its FLOPs or bytes, for machines that cannot
 * run the full size. m, n and k of a GEMM are multiplied by the cube root of `factor`, which multiplies the FLOPs by
 * `factor`; a dimension that is a multiple of 8 stays a positive multiple of 8, as tensor cores require. A memory-bound
 * kernel keeps `factor` of its rows (at least one), and fewer columns if one row is more than `factor` of its elements.
 * Halo boxes keep their size.
 */
void bb_kernel_list_scale(struct bb_kernel_list *w, double factor);

#ifdef __cplusplus
}
#endif
#endif
