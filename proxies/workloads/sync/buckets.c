/* buckets.c - assigns gradient tensors to buckets by the rules of DDP, Megatron-LM, DeepSpeed and Horovod (see
 * buckets.h). */
#include "proxies/workloads/sync/buckets.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/base/units.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#define FUSION_ALIGN_BYTES 16

/* State of bb_buckets_make. b: the buckets made so far; n: number of gradient tensors; n_members: number of elements
 * of b->members so far; assigned: [n] true for each tensor that already belongs to a bucket. */
struct bucket_builder {
    struct bb_buckets *b;
    const struct bb_bucket_rule *rule;
    const struct bb_gradient_arrival *arrivals;
    int n, n_members;
    size_t element_bytes;
    bool *assigned;
};

static void append_tensor(struct bucket_builder *f, struct bb_sync_bucket *bucket, int i)
{
    f->b->members[f->n_members++] = i;
    f->assigned[i] = true;
    bucket->n++;
    bucket->count += f->arrivals[i].count;
}

/* Begins a bucket with tensor i. */
static struct bb_sync_bucket *open_bucket(struct bucket_builder *f, int i)
{
    struct bb_sync_bucket *bucket = &f->b->list[f->b->n++];

    *bucket = (struct bb_sync_bucket){.first = f->n_members};
    append_tensor(f, bucket, i);
    return bucket;
}

/* ---- DDP, Megatron-LM and DeepSpeed: the size of a bucket decides when it is closed ---- */

double bb_bucket_limit(const struct bb_bucket_rule *r, size_t element_bytes, int replicas, int bucket)
{
    switch (r->kind) {
    case BB_BUCKETS_DDP:
        return (bucket == 0 ? r->first_bytes : r->cap_bytes) / (double)element_bytes;
    case BB_BUCKETS_MEGATRON:
        return r->elements > 0 ? r->elements : fmax(40e6, 1e6 * replicas);
    case BB_BUCKETS_DEEPSPEED:
        return r->elements;
    default:
        return INFINITY;
    }
}

static bool fits_bucket(const struct bucket_builder *f, const struct bb_sync_bucket *bucket, int i, double limit)
{
    double count = (double)bucket->count;

    if (i == f->n || f->arrivals[i].type != f->arrivals[i - 1].type)
        return false;
    if (f->rule->kind == BB_BUCKETS_DEEPSPEED)
        return count + (double)f->arrivals[i].count <= limit;
    return count < limit;
}

/* ---- Horovod: tensor fusion ---- */

static double cycle_of(const struct bucket_builder *f, int i)
{
    return f->rule->cycle_us > 0 ? floor(f->arrivals[i].ready_us / f->rule->cycle_us) : 0;
}

static size_t padded_count(const struct bucket_builder *f, int i)
{
    return bb_round_up(f->arrivals[i].count, FUSION_ALIGN_BYTES / f->element_bytes);
}

/*
 * Adds one bucket: the tensors that Horovod fuses into one all-reduce. The first is `oldest`, the index of the first
 * tensor that belongs to no bucket yet. Later tensors that become ready in the same Horovod cycle are added while the
 * bucket's size is within the fusion threshold.
 */
static void fuse_cycle(struct bucket_builder *f, int oldest)
{
    struct bb_sync_bucket *bucket = open_bucket(f, oldest);
    double limit = f->rule->threshold_bytes / (double)f->element_bytes;
    size_t count = padded_count(f, oldest), passed = 0;

    for (int i = oldest + 1; i < f->n && cycle_of(f, i) == cycle_of(f, oldest); i++) {
        size_t more = padded_count(f, i);

        if (f->assigned[i])
            continue;
        if (f->arrivals[i].type == f->arrivals[oldest].type && (double)(count + more) <= limit) {
            append_tensor(f, bucket, i);
            count += more;
        } else if ((double)(count + (passed += more)) > limit) {
            break;
        }
    }
    if (bucket->n > 1) /* a bucket with one tensor is sent without the fusion buffer and needs no padding */
        bucket->count = count;
}

void bb_buckets_make(struct bb_buckets *b, const struct bb_bucket_rule *rule,
                     const struct bb_gradient_arrival *arrivals, int n, size_t element_bytes, int replicas)
{
    struct bucket_builder f = {.b = b, .rule = rule, .arrivals = arrivals, .n = n, .element_bytes = element_bytes};
    *b = (struct bb_buckets){0};
    BB_NEW(f.assigned, n);
    BB_NEW(b->members, n);
    BB_NEW(b->list, n);
    for (int i = 0; i < n && rule->kind != BB_BUCKETS_FUSION;) {
        double limit = bb_bucket_limit(rule, element_bytes, replicas, b->n);
        struct bb_sync_bucket *bucket = open_bucket(&f, i++);

        while (fits_bucket(&f, bucket, i, limit))
            append_tensor(&f, bucket, i++);
    }
    for (int i = 0; i < n; i++) /* Horovod fuses the tensors that belong to no bucket yet */
        if (!f.assigned[i])
            fuse_cycle(&f, i);
    for (int i = 0; rule->pad && i < b->n; i++)
        b->list[i].count = bb_round_up(b->list[i].count, rule->pad);
    free(f.assigned);
}

void bb_buckets_release(struct bb_buckets *b)
{
    free(b->members);
    free(b->list);
    *b = (struct bb_buckets){0};
}
