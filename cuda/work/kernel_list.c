/* kernel_list.c - see kernel_list.h. */
#include "cuda/work/kernel_list.h"

#include "bootstrap/base/units.h"

#include <math.h>
#include <string.h>
#include <sys/param.h>

const struct bb_gemm_format bb_gemm_formats[BB_GEMM_PRECISIONS] = {[BB_GEMM_FP8] = {"fp8", 8, 1},
                                                                   [BB_GEMM_MXFP8] = {"mxfp8", 8, 1 + 1 / 32.0},
                                                                   [BB_GEMM_NVFP4] = {"nvfp4", 4, 0.5 + 1 / 16.0}};

enum bb_gemm_precision bb_gemm_precision_of(const char *name)
{
    int i = name ? BB_GEMM_PRECISIONS - 1 : BB_GEMM_DTYPE;

    while (i > BB_GEMM_DTYPE && strcmp(bb_gemm_formats[i].name, name) != 0)
        i--;
    return (enum bb_gemm_precision)i;
}

static struct bb_kernel_list_item *append_item(struct bb_kernel_list *w, const char *name)
{
    struct bb_kernel_list_item *item = &w->items[w->n < BB_KERNEL_LIST_ITEMS ? w->n : BB_KERNEL_LIST_ITEMS - 1];

    w->overflowed = w->overflowed || w->n == BB_KERNEL_LIST_ITEMS;
    w->n += w->n < BB_KERNEL_LIST_ITEMS;
    *item = (struct bb_kernel_list_item){.name = name};
    return item;
}

void bb_kernel_list_add_gemm(struct bb_kernel_list *w, const char *name, const struct bb_gemm_shape *gemm)
{
    append_item(w, name)->gemm = *gemm;
}

void bb_kernel_list_add_memory_kernel(struct bb_kernel_list *w, const char *name,
                                      const struct bb_memory_kernel *memory_kernel)
{
    struct bb_kernel_list_item *item = append_item(w, name);

    item->is_memory_kernel = true;
    item->memory_kernel = *memory_kernel;
}

void bb_kernel_list_host(struct bb_kernel_list *w, const char *name, enum bb_kernel_place place, uint64_t count,
                         enum bb_dtype_id dtype)
{
    const struct bb_memory_kernel kernel = {.kind = BB_MEMORY_KERNEL_COPY, .dtype = dtype, .rows = 1, .cols = count};

    bb_kernel_list_add_memory_kernel(w, name, &kernel);
    bb_kernel_list_last(w)->place = place;
}

struct bb_kernel_list_item *bb_kernel_list_last(struct bb_kernel_list *w)
{
    return &w->items[w->n > 0 ? w->n - 1 : 0];
}

/* Appends a memory-bound kernel over rows x cols elements. */
static void add_memory_kernel(struct bb_kernel_list *w, const char *name, enum bb_memory_kernel_kind kind,
                              enum bb_activation act, int64_t rows, int64_t cols, enum bb_dtype_id dtype)
{
    bb_kernel_list_add_memory_kernel(
        w, name,
        &(struct bb_memory_kernel){
            .kind = kind, .dtype = dtype, .act = act, .rows = (uint64_t)rows, .cols = (uint64_t)cols});
}

/* Appends one GEMM: the forward GEMM, or, if `backward`, the two GEMMs of the backward pass (dgrad and wgrad). */
static void add_gemm(struct bb_kernel_list *w, const char *name, const struct bb_gemm_shape *s, bool backward)
{
    struct bb_gemm_shape dgrad, wgrad;

    if (!backward) {
        bb_kernel_list_add_gemm(w, name, s);
        return;
    }
    bb_gemm_backward(s, &dgrad, &wgrad);
    bb_kernel_list_add_gemm(w, name, &dgrad);
    bb_kernel_list_add_gemm(w, name, &wgrad);
}

/* ---- transformer layers ---- */

static void add_bias(struct bb_kernel_list *w, const struct bb_gemm_shape *s, enum bb_activation act, bool backward)
{
    /* A bias without activation needs no kernel in the backward pass, because the gradient of the GEMM's output
     * equals the gradient of the biased output. */
    if (!backward)
        add_memory_kernel(w, "bias", BB_MEMORY_KERNEL_BIAS_ACT, act, s->m, s->n, s->dtype);
    else if (act != BB_ACT_NONE)
        add_memory_kernel(w, "activation", BB_MEMORY_KERNEL_BIAS_ACT_GRAD, act, s->m, s->n, s->dtype);
}

static void add_norm(struct bb_kernel_list *w, const struct bb_transformer *t, bool backward)
{
    add_memory_kernel(w, "norm", backward ? BB_MEMORY_KERNEL_LAYER_NORM_GRAD : BB_MEMORY_KERNEL_LAYER_NORM, BB_ACT_NONE,
                      t->batch * t->sequence, t->hidden, t->dtype);
}

bool bb_kernel_list_attention(struct bb_kernel_list *w, const struct bb_transformer *t, bool backward)
{
    static const enum bb_transformer_gemm order[2][4] = {
        {BB_GEMM_QKV, BB_GEMM_SCORES, BB_GEMM_CONTEXT, BB_GEMM_OUT},
        {BB_GEMM_OUT, BB_GEMM_CONTEXT, BB_GEMM_SCORES, BB_GEMM_QKV},
    };
    struct bb_gemm_shape gemms[BB_TRANSFORMER_GEMMS];

    if (!bb_transformer_gemms(t, gemms))
        return false;
    if (!backward)
        add_norm(w, t, backward);
    for (int i = 0; i < 4; i++) {
        enum bb_transformer_gemm g = order[backward][i];
        add_gemm(w, bb_transformer_gemm_names[g], &gemms[g], backward);
        if (g == BB_GEMM_QKV || g == BB_GEMM_OUT)
            add_bias(w, &gemms[g], BB_ACT_NONE, backward);
    }
    if (backward)
        add_norm(w, t, backward);
    return true;
}

bool bb_kernel_list_mlp(struct bb_kernel_list *w, const struct bb_transformer *t, bool backward)
{
    struct bb_gemm_shape gemms[BB_TRANSFORMER_GEMMS];

    if (!bb_transformer_gemms(t, gemms))
        return false;
    if (backward) {
        add_gemm(w, "down", &gemms[BB_GEMM_DOWN], true);
        add_bias(w, &gemms[BB_GEMM_UP], BB_ACT_GELU, true);
        add_gemm(w, "up", &gemms[BB_GEMM_UP], true);
        add_norm(w, t, true);
    } else {
        add_norm(w, t, false);
        add_gemm(w, "up", &gemms[BB_GEMM_UP], false);
        add_bias(w, &gemms[BB_GEMM_UP], BB_ACT_GELU, false);
        add_gemm(w, "down", &gemms[BB_GEMM_DOWN], false);
        add_bias(w, &gemms[BB_GEMM_DOWN], BB_ACT_NONE, false);
    }
    return true;
}

bool bb_kernel_list_transformer(struct bb_kernel_list *w, const struct bb_transformer *t, bool backward)
{
    if (!backward)
        return bb_kernel_list_attention(w, t, false) && bb_kernel_list_mlp(w, t, false);
    return bb_kernel_list_mlp(w, t, true) && bb_kernel_list_attention(w, t, true);
}

/* ---- other layers ---- */

static bool add_conv_gemm(struct bb_kernel_list *w, const char *name, const struct bb_conv *v, enum bb_conv_pass pass)
{
    struct bb_gemm_shape s;
    const bool valid = bb_conv_gemm(v, pass, &s);

    if (valid)
        bb_kernel_list_add_gemm(w, name, &s);
    return valid;
}

bool bb_kernel_list_conv(struct bb_kernel_list *w, const struct bb_conv *v, bool backward, bool of_data)
{
    int64_t out[3], positions;

    if (!bb_conv_out(v, out))
        return false;
    positions = out[0] * out[1] * out[2];
    if (!backward && add_conv_gemm(w, "convolution", v, BB_CONV_FORWARD)) {
        add_memory_kernel(w, "statistics", BB_MEMORY_KERNEL_BIAS_ACT, BB_ACT_NONE, (v->n * positions + 1) / 2, v->k,
                          v->dtype);
        add_memory_kernel(w, "norm", BB_MEMORY_KERNEL_CHANNEL_NORM, BB_ACT_NONE, v->n * v->k, positions, v->dtype);
        bb_kernel_list_last(w)->memory_kernel.channels = (uint64_t)v->k;
        add_memory_kernel(w, "activation", BB_MEMORY_KERNEL_BIAS_ACT, BB_ACT_RELU, v->n * positions, v->k, v->dtype);
        return true;
    }
    add_memory_kernel(w, "activation", BB_MEMORY_KERNEL_BIAS_ACT_GRAD, BB_ACT_RELU, v->n * positions, v->k, v->dtype);
    add_memory_kernel(w, "statistics", BB_MEMORY_KERNEL_BIAS_ACT, BB_ACT_NONE, v->n * positions, v->k, v->dtype);
    add_memory_kernel(w, "norm", BB_MEMORY_KERNEL_BIAS_ACT_GRAD, BB_ACT_NONE, v->n * positions, v->k, v->dtype);
    if (of_data && !add_conv_gemm(w, "gradient of data", v, BB_CONV_DATA))
        return false;
    return add_conv_gemm(w, "gradient of weights", v, BB_CONV_WEIGHTS);
}

bool bb_kernel_list_dense(struct bb_kernel_list *w, int64_t rows, int64_t in, int64_t out, enum bb_activation act,
                          enum bb_dtype_id dtype, bool backward)
{
    const struct bb_gemm_shape s = {rows, out, in, 1, false, true, dtype};

    if (rows < 1 || in < 1 || out < 1)
        return false;
    if (backward)
        add_bias(w, &s, act, true);
    add_gemm(w, "dense", &s, backward);
    if (!backward)
        add_bias(w, &s, act, false);
    return true;
}

bool bb_kernel_list_dense_first_backward(struct bb_kernel_list *w, int64_t rows, int64_t in, int64_t out,
                                         enum bb_activation act, enum bb_dtype_id dtype)
{
    const struct bb_gemm_shape s = {rows, out, in, 1, false, true, dtype};
    struct bb_gemm_shape dgrad, wgrad;

    if (rows < 1 || in < 1 || out < 1)
        return false;
    add_bias(w, &s, act, true);
    bb_gemm_backward(&s, &dgrad, &wgrad);
    bb_kernel_list_add_gemm(w, "dense", &wgrad);
    return true;
}

bool bb_kernel_list_interaction(struct bb_kernel_list *w, int64_t rows, int64_t vectors, int64_t features,
                                enum bb_dtype_id dtype, bool backward)
{
    const struct bb_gemm_shape s = {vectors, vectors, features, rows, false, true, dtype};

    if (rows < 1 || vectors < 1 || features < 1)
        return false;
    add_gemm(w, "interaction", &s, backward);
    return true;
}

/* Appends a kernel that computes `rows` rows of `cols` elements. Each is a copy or a sum of rows, selected by
 * indices, of an input with in_rows rows. */
static void add_gather(struct bb_kernel_list *w, const char *name, enum bb_memory_kernel_kind kind, uint64_t rows,
                       uint64_t cols, uint64_t in_rows, enum bb_dtype_id dtype)
{
    add_memory_kernel(w, name, kind, BB_ACT_NONE, (int64_t)rows, (int64_t)cols, dtype);
    bb_kernel_list_last(w)->memory_kernel.in_rows = in_rows;
}

void bb_kernel_list_embedding(struct bb_kernel_list *w, uint64_t tokens, uint64_t hidden, uint64_t vocabulary,
                              enum bb_dtype_id dtype)
{
    add_gather(w, "embedding", BB_MEMORY_KERNEL_EMBED, tokens, hidden, vocabulary, dtype);
}

void bb_kernel_list_permute(struct bb_kernel_list *w, uint64_t tokens, uint64_t hidden, int top_k,
                            enum bb_dtype_id dtype)
{
    add_gather(w, "permute", BB_MEMORY_KERNEL_PERMUTE, tokens * (uint64_t)top_k, hidden, tokens, dtype);
}

void bb_kernel_list_unpermute(struct bb_kernel_list *w, uint64_t tokens, uint64_t hidden, int top_k,
                              enum bb_dtype_id dtype)
{
    add_gather(w, "unpermute", BB_MEMORY_KERNEL_UNPERMUTE, tokens, hidden, tokens * (uint64_t)top_k, dtype);
    bb_kernel_list_last(w)->memory_kernel.top_k = top_k;
}

bool bb_kernel_list_halo_side(struct bb_kernel_list *w, uint64_t rows, const uint32_t interior[3],
                              const uint32_t halo[3], const int direction[3], bool received, bool backward,
                              enum bb_dtype_id dtype)
{
    static const char *const names[] = {[BB_MEMORY_KERNEL_PACK] = "halo pack",
                                        [BB_MEMORY_KERNEL_UNPACK] = "halo unpack",
                                        [BB_MEMORY_KERNEL_UNPACK_ADD] = "halo add"};
    enum bb_memory_kernel_kind kind = !received  ? BB_MEMORY_KERNEL_PACK
                                      : backward ? BB_MEMORY_KERNEL_UNPACK_ADD
                                                 : BB_MEMORY_KERNEL_UNPACK;
    struct bb_memory_kernel p = {.kind = kind, .dtype = dtype, .rows = rows};

    if (!bb_halo_box(interior, halo, direction, received != backward, &p.box))
        return false;
    bb_kernel_list_add_memory_kernel(w, names[kind], &p);
    return true;
}

void bb_kernel_list_accumulate(struct bb_kernel_list *w, uint64_t count, enum bb_dtype_id dtype)
{
    add_memory_kernel(w, "accumulate", BB_MEMORY_KERNEL_ACCUMULATE, BB_ACT_NONE, 1, (int64_t)count, dtype);
}

void bb_kernel_list_optimizer(struct bb_kernel_list *w, enum bb_memory_kernel_kind kind, uint64_t count,
                              enum bb_dtype_id dtype)
{
    add_memory_kernel(w, bb_memory_kernel_name(kind), kind, BB_ACT_NONE, 1, (int64_t)count, dtype);
    bb_kernel_list_last(w)->memory_kernel.optimizer =
        (struct bb_optimizer){.rate = 1e-6f, .beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-8f, .step = 1};
}

/* ---- FLOPs, bytes and memory of a kernel list ---- */

double bb_kernel_list_flops(const struct bb_kernel_list *w)
{
    double flops = 0;

    for (int i = 0; i < w->n; i++)
        flops += w->items[i].is_memory_kernel ? 0 : bb_gemm_flops(&w->items[i].gemm);
    return flops;
}

double bb_kernel_list_bytes(const struct bb_kernel_list *w)
{
    double bytes = 0;

    for (int i = 0; i < w->n; i++)
        bytes += (double)(w->items[i].is_memory_kernel ? bb_memory_kernel_bytes(&w->items[i].memory_kernel)
                                                       : bb_gemm_bytes(&w->items[i].gemm));
    return bytes;
}

static void memory_kernel_memory(const struct bb_memory_kernel *p, struct bb_kernel_list_memory *need)
{
    struct bb_memory_kernel_array arrays[BB_MEMORY_KERNEL_ARRAYS];
    int n = bb_memory_kernel_arrays(p, arrays);

    for (int i = 0; i < n; i++)
        if (arrays[i].content == BB_HOLDS_INDICES)
            need->index_count += arrays[i].count;
        else if (arrays[i].written)
            need->write_bytes += bb_round_up(arrays[i].bytes, BB_KERNEL_ALIGN);
        else
            need->read_bytes += bb_round_up(arrays[i].bytes, BB_KERNEL_ALIGN);
}

void bb_kernel_list_memory(const struct bb_kernel_list *w, struct bb_kernel_list_memory *m)
{
    for (int i = 0; i < w->n; i++) {
        const struct bb_kernel_list_item *item = &w->items[i];
        const struct bb_gemm_layout layout = bb_gemm_layout_of(&item->gemm);
        struct bb_kernel_list_memory need = {0};

        if (item->is_memory_kernel)
            memory_kernel_memory(&item->memory_kernel, &need);
        else
            need = (struct bb_kernel_list_memory){layout.c, layout.bytes - layout.c, 0};
        m->read_bytes = MAX(m->read_bytes, need.read_bytes);
        m->write_bytes = MAX(m->write_bytes, need.write_bytes);
        m->index_count = MAX(m->index_count, need.index_count);
    }
}

size_t bb_kernel_list_memory_bytes(const struct bb_kernel_list_memory *m)
{
    return m->read_bytes + m->write_bytes + m->index_count * sizeof(int32_t) + BB_GEMM_WORKSPACE;
}

/* ---- shrinking the kernels of a list to a fraction of their FLOPs and bytes ---- */

static int64_t shrink_extent(int64_t n, double factor)
{
    int64_t grain = n % 8 == 0 ? 8 : 1, some = llround((double)n * factor / (double)grain) * grain;

    return some > grain ? some : grain;
}

static uint64_t scale_count(uint64_t rows, double factor)
{
    uint64_t some = (uint64_t)((double)rows * factor);

    return some ? some : 1;
}

static void shrink_memory_kernel(struct bb_memory_kernel *p, double factor)
{
    uint64_t rows = scale_count(p->rows, factor);

    if (p->cols)
        p->cols = scale_count(p->cols, fmin(1, factor * (double)p->rows / (double)rows));
    p->rows = rows;
    if (p->channels > rows)
        p->channels = rows;
    if (p->in_rows)
        p->in_rows = scale_count(p->in_rows, factor);
}

void bb_kernel_list_scale(struct bb_kernel_list *w, double factor)
{
    const double edge = cbrt(factor);

    for (int i = 0; i < w->n; i++) {
        struct bb_gemm_shape *s = &w->items[i].gemm;

        if (w->items[i].is_memory_kernel) {
            shrink_memory_kernel(&w->items[i].memory_kernel, factor);
        } else {
            s->m = shrink_extent(s->m, edge);
            s->n = shrink_extent(s->n, edge);
            s->k = shrink_extent(s->k, edge);
        }
    }
}
