/* residual.c - reads a ResNet (see residual.h). Tensors are created in the order of the forward pass and then
 * reversed. */
#include "proxies/form/models/residual.h"

#include "bootstrap/base/alloc.h"
#include "proxies/form/models/model_file.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_STAGES 8
#define MAX_BLOCKS 1000

/* State while a ResNet is read from its model file. */
struct builder {
    struct bb_model_file *file;
    struct bb_residual *model;
    const json_t *tensors, *flops, *layers; /* objects "tensors", "sample_flops" and "layers" of the file; `layers`
                                               is NULL if the file lacks this object */
    double layer_flops;
    bool projection_first;
};

/* ---- layers with weights ---- */

static struct bb_conv conv_of(const struct bb_residual_layer *l, int64_t images, enum bb_dtype_id dtype)
{
    return bb_conv_2d(images, l->in, l->out, l->edge, l->kernel, l->stride, dtype);
}

/* Returns the FLOP of a layer's forward pass for one image, or a negative number if the convolution is invalid. */
static double flops_of(const struct bb_residual_layer *l)
{
    const struct bb_conv conv = conv_of(l, 1, BB_FLOAT);
    struct bb_gemm_shape s;

    if (l->kernel == 0)
        return 2.0 * l->in * l->out;
    return bb_conv_gemm(&conv, BB_CONV_FORWARD, &s) ? bb_gemm_flops(&s) : -1;
}

/* Reads one layer of `unit` (the stem, a projection, a block or the head) from `list`: ["tensor", in, out] is a
 * dense layer; ["tensor", in, out, kernel, edge, stride] is a convolution on images with an edge of `edge` pixels.
 * "tensor" must be a tensor of the same unit. first: index of the unit's first tensor in model->tensors. prefix:
 * text with which the names of the unit's tensors begin. */
static int read_layer(struct builder *b, const json_t *list, const char *unit, const char *prefix, int first)
{
    struct bb_residual_layer l = {0};
    int *const fields[] = {&l.in, &l.out, &l.kernel, &l.edge, &l.stride}, rc = 0;
    size_t n = json_array_size(list), weights, start = strlen(prefix) + 1, value;
    const char *name = json_string_value(json_array_get(list, 0));

    for (size_t i = 1; i < n && i < 6 && rc == 0; i++) {
        const char *formula = json_string_value(json_array_get(list, i));

        rc = formula ? bb_model_file_count(b->file, formula, &value) : -BB_EUSAGE;
        *fields[i - 1] = rc ? 0 : (int)value;
    }
    for (l.tensor = first; name && l.tensor < b->model->n_tensors; l.tensor++)
        if (strcmp(b->model->tensors[l.tensor].name + start, name) == 0)
            break;
    weights = (size_t)l.in * (size_t)l.out * (size_t)(l.kernel ? l.kernel * l.kernel : 1);
    if (rc || !name || (n != 3 && n != 6) || l.tensor == b->model->n_tensors ||
        b->model->tensors[l.tensor].count != weights || flops_of(&l) < 0)
        return bb_err(BB_EUSAGE,
                      "%s: a layer of '%s' must be [\"tensor\", in, out] or [\"tensor\", in, out, kernel, "
                      "edge, stride] with as many weights as its tensor",
                      b->file->where, unit);
    BB_GROW(b->model->layers, b->model->n_layers);
    b->model->layers[b->model->n_layers++] = l;
    b->layer_flops += flops_of(&l);
    return 0;
}

static bool add_layer(const struct bb_residual_layer *l, int64_t images, enum bb_dtype_id dtype, bool backward,
                      bool of_data, struct bb_kernel_list *w)
{
    const struct bb_conv conv = conv_of(l, images, dtype);

    if (l->kernel == 0)
        return bb_kernel_list_dense(w, images, l->in, l->out, BB_ACT_NONE, dtype, backward);
    return bb_kernel_list_conv(w, &conv, backward, of_data);
}

bool bb_residual_forward(const struct bb_residual *m, int64_t images, enum bb_dtype_id dtype, struct bb_kernel_list *w)
{
    for (int i = 0; i < m->n_layers; i++)
        if (!add_layer(&m->layers[i], images, dtype, false, true, w))
            return false;
    return m->n_layers > 0;
}

bool bb_residual_backward(const struct bb_residual *m, int first, int n, int64_t images, enum bb_dtype_id dtype,
                          struct bb_kernel_list *w)
{
    for (int t = first; t < first + n; t++)
        for (int i = 0; i < m->n_layers; i++)
            if (m->layers[i].tensor == t && !add_layer(&m->layers[i], images, dtype, true, i > 0, w))
                return false;
    return true;
}

/* ---- tensors ---- */

/* Creates the tensors and layers of `unit` (the stem, a projection, a block or the head). unit: its key in the file;
 * prefix: text with which the names of its tensors begin. */
static int create_unit(struct builder *b, const char *unit, const char *prefix)
{
    struct bb_residual *m = b->model;
    const json_t *list;
    const char *name;
    double flops;
    size_t count;
    int n, rc, n_before = m->n_tensors;

    TRY(bb_model_file_number_at(b->file, b->flops, unit, &flops));
    m->sample_flops += flops;
    TRY(bb_json_list_at(b->tensors, unit, b->file->where, -64, &list, &n));
    for (int i = 0; i < n; i++) {
        TRY(bb_model_file_named_in(b->file, list, unit, i, &name, &count));
        BB_GROW(m->tensors, m->n_tensors);
        m->tensors[m->n_tensors++] = (struct bb_tensor){.name = bb_format("%s.%s", prefix, name), .count = count};
        m->parameters += (double)count;
    }
    if (!b->layers)
        return 0;
    TRY(bb_json_list_at(b->layers, unit, b->file->where, -64, &list, &n));
    for (int i = 0; i < n; i++)
        TRY(read_layer(b, json_array_get(list, (size_t)i), unit, prefix, n_before));
out:
    return rc;
}

static int create_block(struct builder *b, int stage, int block)
{
    char convolutions[64], projection[64];
    int rc;

    snprintf(convolutions, sizeof(convolutions), "stage%d.block%d", stage, block);
    snprintf(projection, sizeof(projection), "stage%d.block%d.projection", stage, block);
    if (block == 0 && b->projection_first)
        TRY(create_unit(b, "projection", projection));
    TRY(create_unit(b, "block", convolutions));
    if (block == 0 && !b->projection_first)
        TRY(create_unit(b, "projection", projection));
out:
    return rc;
}

static int create_stages(struct builder *b)
{
    double blocks[MAX_STAGES];
    const json_t *list;
    int stages, width, image, rc;

    TRY(bb_model_file_shape(b->file, "width", &width));
    TRY(bb_model_file_shape(b->file, "image", &image));
    TRY(bb_json_list_at(b->file->root, "blocks", b->file->where, -MAX_STAGES, &list, &stages));
    TRY(bb_json_numbers_at(b->file->root, "blocks", b->file->where, stages, blocks));
    TRY(bb_model_file_set(b->file, "in", width));
    for (int s = 0; s < stages; s++, width *= 2) {
        double edge = image / 4 >> s; /* edge length in pixels of the stage's output images; halved by every stage
                                         except the first */

        TRY(bb_model_file_set(b->file, "w", width));
        TRY(bb_model_file_set(b->file, "edge", edge));
        TRY(bb_model_file_set(b->file, "edge_in", s > 0 ? 2 * edge : edge));
        for (int block = 0; block < blocks[s] && block < MAX_BLOCKS; block++) {
            TRY(create_block(b, s + 1, block));
            TRY(bb_model_file_set(b->file, "in", 4.0 * width));
            TRY(bb_model_file_set(b->file, "edge_in", edge));
        }
    }
out:
    return rc;
}

static int create_all(struct builder *b)
{
    const json_t *root = b->file->root;
    const char *projection;
    json_t *tensors, *flops;
    int rc;

    TRY(bb_json_text_at(root, "projection", b->file->where, &projection));
    b->projection_first = strcmp(projection, "before") == 0;
    if (!b->projection_first && strcmp(projection, "after") != 0)
        return bb_err(BB_EUSAGE, "%s: projection is '%s', expected 'before' or 'after'", b->file->where, projection);
    TRY(bb_json_object_at(root, "tensors", b->file->where, &tensors));
    TRY(bb_json_object_at(root, "sample_flops", b->file->where, &flops));
    b->tensors = tensors;
    b->flops = flops;
    b->layers = json_object_get(root, "layers");
    TRY(create_unit(b, "stem", "stem"));
    TRY(create_stages(b));
    TRY(create_unit(b, "head", "head"));
    if (b->layers)
        TRY(bb_json_check_total(b->file->where, "sample_flops", b->layer_flops, b->model->sample_flops));
out:
    return rc;
}

static void reverse_tensors(struct bb_residual *m)
{
    for (int i = 0, j = m->n_tensors - 1; i < j; i++, j--) {
        struct bb_tensor swap = m->tensors[i];

        m->tensors[i] = m->tensors[j];
        m->tensors[j] = swap;
    }
    for (int l = 0; l < m->n_layers; l++)
        m->layers[l].tensor = m->n_tensors - 1 - m->layers[l].tensor;
}

/* Reads the gradient buckets. Checks that each bucket begins at the tensor after the previous bucket, and that the
 * buckets together contain all tensors. */
static int read_buckets(const struct bb_model_file *file, struct bb_residual *m)
{
    const json_t *list;
    int first, last, next = 0, rc;

    TRY(bb_json_list_at(file->root, "buckets", file->where, -BB_RESIDUAL_BUCKETS, &list, &m->n_buckets));
    for (int b = 0; b < m->n_buckets; b++) {
        struct bb_bucket *bucket = &m->buckets[b];

        if (json_unpack(json_array_get(list, (size_t)b), "[ii]", &first, &last) || first != next || last < first ||
            last >= m->n_tensors)
            return bb_err(
                BB_EUSAGE,
                "%s: bucket %d must be [FIRST, LAST], the indices of its first and last tensor, with FIRST %d "
                "and LAST from %d to %d",
                file->where, b, next, next, m->n_tensors - 1);
        *bucket = (struct bb_bucket){.first = first, .n = last - first + 1};
        for (; next <= last; next++)
            bucket->count += m->tensors[next].count;
    }
    if (next != m->n_tensors)
        rc = bb_err(BB_EUSAGE, "%s: the buckets contain %d of %d tensors", file->where, next, m->n_tensors);
out:
    return rc;
}

static const struct bb_json_field batch_fields[] = {
    BB_FIELD("batch", BB_JSON_NUMBER, offsetof(struct bb_local_batch, samples), .min = 1),
    BB_FIELD("forward_us", BB_JSON_NUMBER, offsetof(struct bb_local_batch, forward_us)),
    BB_FIELD("bucket_backward_us", BB_JSON_NUMBER, offsetof(struct bb_local_batch, bucket_backward_us)),
    {0}};

static int read_batches(const struct bb_model_file *file, struct bb_residual *m)
{
    double global;
    const json_t *list;
    int rc = 0;

    if (json_object_get(json_object_get(file->root, "shape"), "batch"))
        TRY(bb_model_file_shape(file, "batch", &m->batch));
    if (!json_object_get(file->root, "local_batches"))
        return 0;
    TRY(bb_json_number_at(file->root, "global_batch", file->where, 1, &global));
    m->global_batch = (int)global;
    TRY(bb_json_list_at(file->root, "local_batches", file->where, -BB_RESIDUAL_BATCHES, &list, &m->n_batches));
    for (int b = 0; b < m->n_batches; b++)
        TRY(bb_json_read(json_array_get(list, (size_t)b), file->where, batch_fields, &m->batches[b]));
out:
    return rc;
}

static int check_totals(const struct bb_model_file *file, const struct bb_residual *m)
{
    struct {
        double parameters, tensors;
        size_t buckets[BB_RESIDUAL_BUCKETS];
    } made = {m->parameters, m->n_tensors, {0}};
    const struct bb_json_field fields[] = {
        BB_FIELD("totals.parameters", BB_JSON_TOTAL, 0),
        BB_FIELD("totals.tensors", BB_JSON_TOTAL, sizeof(double)),
        BB_FIELD("totals.buckets", BB_JSON_COUNT_TOTALS, 2 * sizeof(double), .n = m->n_buckets),
        {0}};

    for (int b = 0; b < m->n_buckets; b++)
        made.buckets[b] = m->buckets[b].count;
    return bb_json_read(file->root, file->where, fields, &made);
}

int bb_residual_load(const char *name_or_path, struct bb_residual *m)
{
    struct bb_model_file file;
    struct builder b = {.file = &file, .model = m};
    int rc;

    *m = (struct bb_residual){0};
    TRY(bb_model_file_open(&file, name_or_path, "residual_network"));
    TRY(create_all(&b));
    reverse_tensors(m);
    TRY(read_buckets(&file, m));
    TRY(read_batches(&file, m));
    TRY(check_totals(&file, m));
out:
    bb_model_file_close(&file);
    if (rc)
        bb_residual_release(m);
    return rc;
}

void bb_residual_release(struct bb_residual *m)
{
    for (int t = 0; t < m->n_tensors; t++)
        free((char *)m->tensors[t].name);
    free(m->tensors);
    free(m->layers);
    *m = (struct bb_residual){0};
}
