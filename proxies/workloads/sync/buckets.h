/*
 * buckets.h - gradient bucketing: which gradients are communicated in one operation. The functions have no side
 * effects. Their input is the list of gradient tensors in the order in which backward computes them, which is the
 * reverse of the order in which the model registers its parameters.
 *
 * PyTorch DDP (reducer.cpp): tensors are appended to the open bucket, which is closed once its size reaches a limit.
 * The last tensor may therefore make the bucket larger than the limit. The limit is first_bytes for the first bucket
 * and cap_bytes for the other buckets.
 *
 * Megatron-LM (distributed_data_parallel): a bucket is closed once it has max(40e6, 1e6 * replicas) parameters. If
 * requested, the end of the bucket is padded to a multiple of `pad` elements.
 *
 * DeepSpeed: a bucket has at most `elements` elements; a larger tensor has a bucket of its own.
 *
 * Horovod (controller.cc, tensor fusion): tensors that become ready in the same cycle are fused in order while the sum
 * of their sizes, each padded to 16 bytes, is within the threshold. A larger tensor is sent alone. A tensor that cannot
 * be fused (another type, or too large for the rest of the threshold) is skipped. The search continues while the bytes
 * of fused and skipped tensors together are within the threshold.
 */
#ifndef BB_PROXIES_WORKLOADS_SYNC_BUCKETS_H
#define BB_PROXIES_WORKLOADS_SYNC_BUCKETS_H

#include <stddef.h>

enum bb_bucket_kind { BB_BUCKETS_DDP, BB_BUCKETS_MEGATRON, BB_BUCKETS_DEEPSPEED, BB_BUCKETS_SINGLE, BB_BUCKETS_FUSION };

struct bb_bucket_rule {
    enum bb_bucket_kind kind;
    double first_bytes, cap_bytes; /* DDP: size in bytes at which the first bucket (first_bytes) and every later
                                      bucket (cap_bytes) is closed */
    double elements;        /* limit in elements. DeepSpeed: maximum size of a bucket, always set; Megatron-LM: size at
                        which a bucket is closed, 0 selects max(40e6, 1e6 * replicas); other rules: unused */
    double threshold_bytes; /* Horovod: maximum total size in bytes of the tensors that are fused into one bucket */
    double cycle_us; /* Horovod: cycle time in microseconds (HOROVOD_CYCLE_TIME); <= 0: all gradients become ready in
                        one cycle */
    size_t pad;      /* bucket sizes are rounded up to a multiple of this many elements; 0: no padding */
};

/* One gradient tensor and when its gradients become ready. Arrays of this struct are in the order in which the
 * backward pass completes the gradients. */
struct bb_gradient_arrival {
    size_t count;
    double ready_us; /* Horovod: time in microseconds from the start of the backward pass until the gradient is ready */
    int unit, type;  /* unit: index of the unit (layer, see sync.h) that the tensor belongs to; type: only tensors
                       with equal `type` may share a bucket */
};

struct bb_sync_bucket {
    int first, n; /* the bucket's tensors are members[first .. first + n) in struct bb_buckets */
    size_t count; /* number of gradient elements in the bucket, including padding */
};

struct bb_buckets {
    int *members; /* indices into `arrivals` of bb_buckets_make, sorted by bucket */
    struct bb_sync_bucket *list;
    int n;
};

/*
 * bb_buckets_make - assign gradient tensors to buckets.
 *   b              out: the buckets; the caller releases them with bb_buckets_release, which accepts a zeroed struct
 *   rule           bucketing rule and its limits
 *   arrivals       [n] tensors in the order in which their gradients become ready
 *   element_bytes  bytes of one gradient element
 *   replicas       number of data-parallel replicas, for Megatron-LM's limit
 */
void bb_buckets_make(struct bb_buckets *b, const struct bb_bucket_rule *rule,
                     const struct bb_gradient_arrival *arrivals, int n, size_t element_bytes, int replicas);
void bb_buckets_release(struct bb_buckets *b);

/*
 * bb_bucket_limit - return the number of elements at which the rule closes a bucket; INFINITY if the rule has no limit.
 *   bucket  index of the bucket; matters only with DDP's rule, where bucket 0 has a smaller limit (first_bytes)
 */
double bb_bucket_limit(const struct bb_bucket_rule *rule, size_t element_bytes, int replicas, int bucket);

#endif
