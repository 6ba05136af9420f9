/*
 * kernel_list.h - what a layer computes, as a list of matrix products and memory-bound passes: one list is what a
 * compute operation of a step stands for. Pure: plans take FLOPs, bytes and memory from it; kernel_runner.h runs it.
 */
#ifndef BB_CUDA_WORK_KERNEL_LIST_H
#define BB_CUDA_WORK_KERNEL_LIST_H

#include "cuda/work/memory_kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What becomes of an item in training's own kernels. Busbar runs each by itself; a forecast
 * (proxies/machine/cluster.h) takes the kernels as training has them. */
enum bb_kernel_fusion {
    BB_KERNEL_SEPARATE,
    BB_KERNEL_IN_ATTENTION,          /* a product of fused attention, forward    */
    BB_KERNEL_IN_ATTENTION_BACKWARD, /* likewise, which makes the scores again   */
    BB_KERNEL_IN_GEMM             /* a pass that the product before it does   */
};

struct bb_kernel_list_item {
    const char *name; /* static */
    bool is_memory_kernel;     /* else a product */
    bool float8;      /* a product whose operands training casts to 8 bits */
    enum bb_kernel_fusion fusion;
    double share; /* of the attention's square, what its mask leaves; fused alone */
    int experts;  /* that training launches it for, one after another; 0: it is one kernel */
    struct bb_gemm_shape gemm;
    struct bb_memory_kernel memory_kernel; /* without pointers */
};

#define BB_KERNEL_LIST_ITEMS 512 /* the forward pass of ResNet-152 is 312 */
struct bb_kernel_list {
    int n;
    bool overflowed; /* something did not fit any more: a mistake of the builder, bb_kernel_runner_init refuses it */
    struct bb_kernel_list_item items[BB_KERNEL_LIST_ITEMS];
};

/* All zero is empty; append to it. */
void bb_kernel_list_add_gemm(struct bb_kernel_list *w, const char *name, const struct bb_gemm_shape *gemm);
void bb_kernel_list_add_memory_kernel(struct bb_kernel_list *w, const char *name, const struct bb_memory_kernel *memory_kernel);

/* bb_kernel_list_last - the item added last, to say more of it; one that is thrown away where the list is full. */
struct bb_kernel_list_item *bb_kernel_list_last(struct bb_kernel_list *w);

/* ---- layers; backward: the gradients of data and of weights. False where the numbers don't fit ---- */

/*
 * A transformer layer: norm, qkv, scores, context, out, norm, up, activation, down, with their biases. Forward
 * batch * (24 s h^2 + 4 s^2 h) / tensor_parallel FLOPs with ffn = 4 h, backward twice as many. The softmax between
 * scores and context is left out: attention kernels keep it on the chip.
 */
bool bb_kernel_list_transformer(struct bb_kernel_list *w, const struct bb_transformer *t, bool backward);
/* Its two halves alone: up to `out` with its norm, and from the second norm on. */
bool bb_kernel_list_attention(struct bb_kernel_list *w, const struct bb_transformer *t, bool backward);
bool bb_kernel_list_mlp(struct bb_kernel_list *w, const struct bb_transformer *t, bool backward);

/* A convolution with its batch norm and activation. of_data: false for the first layer, whose input has no gradient. */
bool bb_kernel_list_conv(struct bb_kernel_list *w, const struct bb_conv *v, bool backward, bool of_data);

/* rows x in -> rows x out with bias and activation. */
bool bb_kernel_list_dense(struct bb_kernel_list *w, int64_t rows, int64_t in, int64_t out, enum bb_activation act,
                          enum bb_dtype_id dtype, bool backward);
/* The backward pass of the first of several, whose input has no gradient: that of the weights alone. */
bool bb_kernel_list_dense_first_backward(struct bb_kernel_list *w, int64_t rows, int64_t in, int64_t out,
                                         enum bb_activation act, enum bb_dtype_id dtype);

/* The interaction of a recommendation model: for each of `rows` samples the dot products of all pairs of its `vectors`
 * vectors, as one product of the matrix of the vectors with its transpose: 2 rows vectors^2 features FLOPs. */
bool bb_kernel_list_interaction(struct bb_kernel_list *w, int64_t rows, int64_t vectors, int64_t features,
                                enum bb_dtype_id dtype, bool backward);

/* Rows of a table: tokens, or expert slots (permute; unpermute sums top_k of them). */
void bb_kernel_list_embedding(struct bb_kernel_list *w, uint64_t tokens, uint64_t hidden, uint64_t vocabulary,
                              enum bb_dtype_id dtype);
void bb_kernel_list_permute(struct bb_kernel_list *w, uint64_t tokens, uint64_t hidden, int top_k,
                            enum bb_dtype_id dtype);
void bb_kernel_list_unpermute(struct bb_kernel_list *w, uint64_t tokens, uint64_t hidden, int top_k,
                              enum bb_dtype_id dtype);

/* The halo of `rows` samples * channels that goes to (received: comes from) one neighbour; see bb_halo_box. Forward,
 * the rim of the interior is packed and what came unpacked into the margin; backward, the margin's gradients are
 * packed, and what came is added to the rim, whose cells they belong to. False when nothing is exchanged that way. */
bool bb_kernel_list_halo_side(struct bb_kernel_list *w, uint64_t rows, const uint32_t interior[3],
                              const uint32_t halo[3], const int direction[3], bool received, bool backward,
                              enum bb_dtype_id dtype);

/* count gradients added to float; count parameters updated (BB_MEMORY_KERNEL_SGD or BB_MEMORY_KERNEL_ADAM). */
void bb_kernel_list_accumulate(struct bb_kernel_list *w, uint64_t count, enum bb_dtype_id dtype);
void bb_kernel_list_optimizer(struct bb_kernel_list *w, enum bb_memory_kernel_kind kind, uint64_t count, enum bb_dtype_id dtype);

/* ---- figures ---- */

double
bb_kernel_list_flops(const struct bb_kernel_list *w); /* of the products                                            */
double
bb_kernel_list_bytes(const struct bb_kernel_list *w); /* moved at least, by products and passes                     */

/* Device memory that running it takes, in three parts that all lists of a worker share: operands that are read, those
 * that are written, and indices. */
struct bb_kernel_list_memory {
    size_t read_bytes, write_bytes, index_count;
};
void bb_kernel_list_memory(const struct bb_kernel_list *w,
                           struct bb_kernel_list_memory *m);               /* *m grows to what w needs, too */
size_t bb_kernel_list_memory_bytes(const struct bb_kernel_list_memory *m); /* all of it, with the products' workspace */

/*
 * bb_kernel_list_scale - about `factor` of the work, item by item, for machines that the whole is too much for. m, n
 * and k of a product times the cube root of factor, so its FLOPs times factor; what divides by 8 stays so (and at least
 * 8), as tensor cores want it. A pass has factor of its rows, at least one, and if that is not enough fewer columns;
 * the faces of a halo keep their size.
 */
void bb_kernel_list_scale(struct bb_kernel_list *w, double factor);

#ifdef __cplusplus
}
#endif
#endif
