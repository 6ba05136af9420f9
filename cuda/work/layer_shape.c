/* layer_shape.c - see layer_shape.h. */
#include "cuda/work/layer_shape.h"

#include "bootstrap/base/units.h"

static size_t elements_bytes(const struct bb_gemm_shape *s, int64_t rows, int64_t cols)
{
    return (size_t)s->batch * (size_t)rows * (size_t)cols * bb_dtypes[s->dtype].bytes;
}

double bb_gemm_flops(const struct bb_gemm_shape *s)
{
    return 2.0 * (double)s->m * (double)s->n * (double)s->k * (double)s->batch;
}

size_t bb_gemm_a_bytes(const struct bb_gemm_shape *s)
{
    return elements_bytes(s, s->m, s->k);
}

size_t bb_gemm_b_bytes(const struct bb_gemm_shape *s)
{
    return elements_bytes(s, s->k, s->n);
}

size_t bb_gemm_c_bytes(const struct bb_gemm_shape *s)
{
    return elements_bytes(s, s->m, s->n);
}

size_t bb_gemm_bytes(const struct bb_gemm_shape *s)
{
    return bb_gemm_a_bytes(s) + bb_gemm_b_bytes(s) + bb_gemm_c_bytes(s);
}

struct bb_gemm_layout bb_gemm_layout_of(const struct bb_gemm_shape *s)
{
    const size_t b = bb_round_up(bb_gemm_a_bytes(s), BB_KERNEL_ALIGN);
    const size_t c = b + bb_round_up(bb_gemm_b_bytes(s), BB_KERNEL_ALIGN);

    return (struct bb_gemm_layout){b, c, c + bb_round_up(bb_gemm_c_bytes(s), BB_KERNEL_ALIGN)};
}

void bb_gemm_backward(const struct bb_gemm_shape *s, struct bb_gemm_shape *dgrad, struct bb_gemm_shape *wgrad)
{
    *dgrad = *wgrad = *s;
    dgrad->n = s->k;
    dgrad->k = s->n;
    dgrad->trans_a = false;
    dgrad->trans_b = !s->trans_b;
    wgrad->m = s->k;
    wgrad->k = s->m;
    wgrad->trans_a = !s->trans_a;
    wgrad->trans_b = false;
}

const char *const bb_transformer_gemm_names[BB_TRANSFORMER_GEMMS] = {
    [BB_GEMM_QKV] = "qkv", [BB_GEMM_SCORES] = "scores", [BB_GEMM_CONTEXT] = "context",
    [BB_GEMM_OUT] = "out", [BB_GEMM_UP] = "up",         [BB_GEMM_DOWN] = "down",
};

bool bb_transformer_gemms(const struct bb_transformer *t, struct bb_gemm_shape gemms[BB_TRANSFORMER_GEMMS])
{
    int64_t tokens = t->batch * t->sequence, split = t->tensor_parallel;

    if (split < 1 || t->heads < 1 || t->hidden % t->heads || t->heads % split || t->ffn % split)
        return false;
    const int64_t h = t->hidden, head = h / t->heads, local = h / split, ffn = t->ffn / split;
    const int64_t pairs = t->batch * (t->heads / split);
    const struct bb_gemm_shape shapes[BB_TRANSFORMER_GEMMS] = {
        [BB_GEMM_QKV] = {tokens, 3 * local, h, 1, false, false, t->dtype},
        [BB_GEMM_SCORES] = {t->sequence, t->sequence, head, pairs, false, true, t->dtype},
        [BB_GEMM_CONTEXT] = {t->sequence, head, t->sequence, pairs, false, false, t->dtype},
        [BB_GEMM_OUT] = {tokens, h, local, 1, false, false, t->dtype},
        [BB_GEMM_UP] = {tokens, ffn, h, 1, false, false, t->dtype},
        [BB_GEMM_DOWN] = {tokens, h, ffn, 1, false, false, t->dtype},
    };

    for (int i = 0; i < BB_TRANSFORMER_GEMMS; i++)
        gemms[i] = shapes[i];
    return true;
}

struct bb_conv bb_conv_2d(int64_t images, int64_t in, int64_t out, int64_t edge, int64_t kernel, int64_t stride,
                          enum bb_dtype_id dtype)
{
    const int64_t pad = (kernel - 1) / 2;

    return (struct bb_conv){images, in, 1, edge, edge, out, 1, kernel, kernel, stride, pad, dtype};
}

bool bb_conv_out(const struct bb_conv *v, int64_t out[3])
{
    const int64_t in[3] = {v->d, v->h, v->w}, filter[3] = {v->t, v->r, v->s};
    bool flat = v->d == 1 && v->t == 1;

    if (v->n < 1 || v->c < 1 || v->k < 1 || v->stride < 1 || v->pad < 0)
        return false;
    for (int i = 0; i < 3; i++) {
        int64_t room = in[i] + 2 * (flat && i == 0 ? 0 : v->pad) - filter[i];
        if (in[i] < 1 || filter[i] < 1 || room < 0)
            return false;
        out[i] = room / v->stride + 1;
    }
    return true;
}

bool bb_conv_gemm(const struct bb_conv *v, enum bb_conv_pass pass, struct bb_gemm_shape *s)
{
    int64_t out[3];

    if (!bb_conv_out(v, out))
        return false;
    const int64_t positions = v->n * out[0] * out[1] * out[2], filter = v->c * v->t * v->r * v->s;

    if (pass == BB_CONV_FORWARD)
        *s = (struct bb_gemm_shape){positions, v->k, filter, 1, false, true, v->dtype};
    else if (pass == BB_CONV_DATA)
        *s = (struct bb_gemm_shape){positions, filter, v->k, 1, false, false, v->dtype};
    else
        *s = (struct bb_gemm_shape){v->k, filter, positions, 1, true, false, v->dtype};
    return true;
}

uint64_t bb_box_cells(const struct bb_box *b)
{
    return (uint64_t)b->extent[0] * b->extent[1] * b->extent[2];
}

/* Computes the box of bb_halo_box in one dimension: first cell (*at) and number of cells (*extent). interior: cells
 * without halo; direction: -1, 0 or 1; received: true for the cells to receive, false for the cells to send. */
static void halo_slab(uint32_t interior, uint32_t halo, int direction, bool received, uint32_t *at, uint32_t *extent)
{
    *extent = direction ? halo : interior;
    if (direction < 0)
        *at = received ? 0 : halo;
    else if (direction > 0)
        *at = received ? halo + interior : interior;
    else
        *at = halo;
}

bool bb_halo_box(const uint32_t interior[3], const uint32_t halo[3], const int direction[3], bool received,
                 struct bb_box *box)
{
    for (int i = 0; i < 3; i++) {
        if (interior[i] == 0 || (direction[i] && (halo[i] == 0 || halo[i] > interior[i])))
            return false;
        box->size[i] = interior[i] + 2 * halo[i];
        halo_slab(interior[i], halo[i], direction[i], received, &box->at[i], &box->extent[i]);
    }
    return direction[0] || direction[1] || direction[2];
}
