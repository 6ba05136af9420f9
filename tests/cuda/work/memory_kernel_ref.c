/* memory_kernel_ref.c - see memory_kernel_ref.h. */
#include "tests/cuda/work/memory_kernel_ref.h"

#include "tests/cuda/work/element.h"

#include <math.h>
#include <string.h>

static double in_at(const struct bb_memory_kernel *p, size_t i)
{
    return bb_element_get(p->in, p->dtype, i);
}

static void out_to(const struct bb_memory_kernel *p, size_t i, double value)
{
    bb_element_set(p->out, p->dtype, i, value);
}

/* ---- moves ---- */

static void ref_copy(const struct bb_memory_kernel *p)
{
    memcpy(p->out, p->in, (size_t)(p->rows * p->cols) * bb_dtypes[p->dtype].bytes);
}

static void ref_gather(const struct bb_memory_kernel *p)
{
    size_t row_bytes = (size_t)p->cols * bb_dtypes[p->dtype].bytes;

    for (size_t r = 0; r < p->rows; r++) {
        char *to = (char *)p->out + r * row_bytes;
        if (p->index[r] < 0)
            memset(to, 0, row_bytes);
        else
            memcpy(to, (const char *)p->in + (size_t)p->index[r] * row_bytes, row_bytes);
    }
}

static double expert_sum(const struct bb_memory_kernel *p, size_t row, size_t col)
{
    size_t first = row * (size_t)p->top_k;
    double sum = 0;

    for (size_t j = first; j < first + (size_t)p->top_k; j++)
        if (p->index[j] >= 0)
            sum += (double)p->gate[j] * in_at(p, (size_t)p->index[j] * p->cols + col);
    return sum;
}

static void ref_unpermute(const struct bb_memory_kernel *p)
{
    for (size_t r = 0; r < p->rows; r++)
        for (size_t c = 0; c < p->cols; c++)
            out_to(p, r * p->cols + c, expert_sum(p, r, c));
}

/* Index in the tile of cell number `cell` of a row's box. */
static size_t tile_index(const struct bb_memory_kernel *p, size_t row, size_t cell)
{
    const struct bb_box *b = &p->box;
    size_t x = cell % b->extent[2], y = cell / b->extent[2] % b->extent[1], z = cell / b->extent[2] / b->extent[1];

    return ((row * b->size[0] + b->at[0] + z) * b->size[1] + b->at[1] + y) * b->size[2] + b->at[2] + x;
}

static void ref_box(const struct bb_memory_kernel *p)
{
    size_t cells = (size_t)bb_box_cells(&p->box), e = bb_dtypes[p->dtype].bytes;

    for (size_t i = 0; i < p->rows * cells; i++) {
        size_t tile = tile_index(p, i / cells, i % cells);
        if (p->kind == BB_MEMORY_KERNEL_PACK)
            memcpy((char *)p->out + i * e, (const char *)p->in + tile * e, e);
        else if (p->kind == BB_MEMORY_KERNEL_UNPACK)
            memcpy((char *)p->out + tile * e, (const char *)p->in + i * e, e);
        else
            out_to(p, tile, bb_element_get(p->out, p->dtype, tile) + in_at(p, i));
    }
}

/* ---- activations and norms ---- */

static double apply_activation(enum bb_activation act, double x)
{
    switch (act) {
    case BB_ACT_RELU:
        return x > 0 ? x : 0;
    case BB_ACT_GELU:
        return 0.5 * x * (1 + tanh(sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
    default:
        return x;
    }
}

static void ref_affine(const struct bb_memory_kernel *p)
{
    for (size_t r = 0; r < p->rows; r++)
        for (size_t c = 0; c < p->cols; c++) {
            bool by_channel = p->kind == BB_MEMORY_KERNEL_CHANNEL_NORM;
            size_t k = by_channel ? r % p->channels : c;
            double scale = by_channel ? bb_element_get(p->scale, p->dtype, k) : 1;
            double x = in_at(p, r * p->cols + c) * scale + bb_element_get(p->shift, p->dtype, k);
            out_to(p, r * p->cols + c, apply_activation(p->act, x));
        }
}

static double activation_slope(enum bb_activation act, double x)
{
    const double k = sqrt(2 / 3.14159265358979323846), t = tanh(k * (x + 0.044715 * x * x * x));

    switch (act) {
    case BB_ACT_RELU:
        return x > 0 ? 1 : 0;
    case BB_ACT_GELU:
        return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * k * (1 + 3 * 0.044715 * x * x);
    default:
        return 1;
    }
}

static void ref_bias_act_grad(const struct bb_memory_kernel *p)
{
    for (size_t i = 0; i < p->rows * p->cols; i++) {
        double x = bb_element_get(p->saved, p->dtype, i) + bb_element_get(p->shift, p->dtype, i % p->cols);
        out_to(p, i, in_at(p, i) * activation_slope(p->act, x));
    }
}

/* Mean of a row, and 1 / sqrt(variance + epsilon). */
static void row_moments(const struct bb_memory_kernel *p, const void *array, size_t row, double *mean, double *factor)
{
    double sum = 0, squares = 0;

    for (size_t c = 0; c < p->cols; c++)
        sum += bb_element_get(array, p->dtype, row * p->cols + c);
    *mean = sum / (double)p->cols;
    for (size_t c = 0; c < p->cols; c++) {
        double distance = bb_element_get(array, p->dtype, row * p->cols + c) - *mean;
        squares += distance * distance;
    }
    *factor = 1 / sqrt(squares / (double)p->cols + (double)BB_NORM_EPSILON);
}

static void ref_layer_norm_grad(const struct bb_memory_kernel *p)
{
    for (size_t r = 0; r < p->rows; r++) {
        double mean, factor, sum_g = 0, sum_gx = 0;
        row_moments(p, p->saved, r, &mean, &factor);
        for (size_t c = 0; c < p->cols; c++) {
            double g = in_at(p, r * p->cols + c) * bb_element_get(p->scale, p->dtype, c);
            sum_g += g;
            sum_gx += g * (bb_element_get(p->saved, p->dtype, r * p->cols + c) - mean) * factor;
        }
        for (size_t c = 0; c < p->cols; c++) {
            double g = in_at(p, r * p->cols + c) * bb_element_get(p->scale, p->dtype, c);
            double x = (bb_element_get(p->saved, p->dtype, r * p->cols + c) - mean) * factor;
            out_to(p, r * p->cols + c, factor * (g - (sum_g + x * sum_gx) / (double)p->cols));
        }
    }
}

static void ref_layer_norm(const struct bb_memory_kernel *p)
{
    for (size_t r = 0; r < p->rows; r++) {
        double mean, factor;
        row_moments(p, p->in, r, &mean, &factor);
        for (size_t c = 0; c < p->cols; c++)
            out_to(p, r * p->cols + c,
                   (in_at(p, r * p->cols + c) - mean) * factor * bb_element_get(p->scale, p->dtype, c) +
                       bb_element_get(p->shift, p->dtype, c));
    }
}

/* ---- gradients and optimizers ---- */

static void ref_accumulate(const struct bb_memory_kernel *p)
{
    for (size_t i = 0; i < p->rows * p->cols; i++)
        p->master[i] = (float)(p->master[i] + in_at(p, i));
}

/* The parameter in float: the parameter itself, or its float copy. */
static float *master_of(const struct bb_memory_kernel *p)
{
    return p->dtype == BB_FLOAT ? (float *)p->out : p->master;
}

static void ref_sgd(const struct bb_memory_kernel *p)
{
    const struct bb_optimizer *o = &p->optimizer;
    float *master = master_of(p);

    for (size_t i = 0; i < p->rows * p->cols; i++) {
        p->first[i] = (float)((double)o->beta1 * p->first[i] + in_at(p, i) + (double)o->decay * master[i]);
        master[i] = (float)(master[i] - (double)o->rate * p->first[i]);
        out_to(p, i, master[i]);
    }
}

static void ref_adam(const struct bb_memory_kernel *p)
{
    const struct bb_optimizer *o = &p->optimizer;
    double correct1 = 1 / (1 - pow(o->beta1, o->step)), correct2 = 1 / (1 - pow(o->beta2, o->step));
    float *master = master_of(p);

    for (size_t i = 0; i < p->rows * p->cols; i++) {
        double g = in_at(p, i), step;
        p->first[i] = (float)((double)o->beta1 * p->first[i] + (1 - (double)o->beta1) * g);
        p->second[i] = (float)((double)o->beta2 * p->second[i] + (1 - (double)o->beta2) * g * g);
        step = p->first[i] * correct1 / (sqrt(p->second[i] * correct2) + (double)o->epsilon);
        master[i] = (float)(master[i] - (double)o->rate * (step + (double)o->decay * master[i]));
        out_to(p, i, master[i]);
    }
}

void bb_memory_kernel_ref(const struct bb_memory_kernel *p)
{
    static void (*const refs[BB_MEMORY_KERNEL_KINDS])(const struct bb_memory_kernel *) = {
        [BB_MEMORY_KERNEL_COPY] = ref_copy,
        [BB_MEMORY_KERNEL_EMBED] = ref_gather,
        [BB_MEMORY_KERNEL_PERMUTE] = ref_gather,
        [BB_MEMORY_KERNEL_UNPERMUTE] = ref_unpermute,
        [BB_MEMORY_KERNEL_PACK] = ref_box,
        [BB_MEMORY_KERNEL_UNPACK] = ref_box,
        [BB_MEMORY_KERNEL_UNPACK_ADD] = ref_box,
        [BB_MEMORY_KERNEL_BIAS_ACT] = ref_affine,
        [BB_MEMORY_KERNEL_CHANNEL_NORM] = ref_affine,
        [BB_MEMORY_KERNEL_LAYER_NORM] = ref_layer_norm,
        [BB_MEMORY_KERNEL_ACCUMULATE] = ref_accumulate,
        [BB_MEMORY_KERNEL_SGD] = ref_sgd,
        [BB_MEMORY_KERNEL_ADAM] = ref_adam,
        [BB_MEMORY_KERNEL_BIAS_ACT_GRAD] = ref_bias_act_grad,
        [BB_MEMORY_KERNEL_LAYER_NORM_GRAD] = ref_layer_norm_grad,
    };

    refs[p->kind](p);
}
