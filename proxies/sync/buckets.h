/*
 * buckets.h - which gradients travel together. Pure lists over tensors in the order in which they arrive, which is the
 * reverse of their registration.
 *
 * PyTorch DDP (reducer.cpp): tensors are appended to the open bucket, which is closed once its bytes reach the limit;
 * so it may exceed the limit by its last tensor. The limit is first_bytes for the first bucket, cap_bytes from then on.
 * Megatron-LM (distributed_data_parallel): closed once it holds so many parameters, max(40e6, 1e6 * replicas), its end
 * padded to a multiple if wanted. DeepSpeed: so many elements, never exceeded but by a tensor alone.
 * Horovod (controller.cc, tensor fusion): what became ready in the same cycle is fused in order while the sum, each
 * tensor padded to 16 bytes, stays within the threshold; a tensor beyond it goes alone. Tensors behind one that does
 * not fit (another type) are still taken as long as the bytes that were passed over would fit as well.
 */
#ifndef BB_PROXIES_SYNC_BUCKETS_H
#define BB_PROXIES_SYNC_BUCKETS_H

#include "bootstrap/base/err.h"

#include <stdbool.h>
#include <stddef.h>

enum bb_bucket_kind { BB_BUCKETS_DDP, BB_BUCKETS_MEGATRON, BB_BUCKETS_DEEPSPEED, BB_BUCKETS_SINGLE, BB_BUCKETS_FUSION };

struct bb_bucket_rule {
    enum bb_bucket_kind kind;
    double first_bytes, cap_bytes; /* ddp                                                               */
    double elements;               /* megatron (0: by its formula), deepspeed                            */
    double threshold_bytes;        /* fusion                                                            */
    double cycle_us;               /* fusion: <= 0: endless                                              */
    size_t pad;                    /* elements: a bucket's count is rounded up to a multiple, 0: not     */
};

/* A tensor on arrival. */
struct bb_gradient_arrival {
    size_t count;
    double ready_us; /* fusion: when its gradient is there */
    int unit, type;  /* type: only equal ones go together         */
};

struct bb_sync_bucket {
    int first, n; /* members[first .. first + n) of the list */
    size_t count; /* elements, padding included              */
};

struct bb_buckets {
    int *members; /* indices into the arrivals, bucket after bucket */
    struct bb_sync_bucket *list;
    int n;
};

/* bb_buckets_make - the arrivals by the rule; bytes: of an element; replicas: for Megatron's cap. release is fine on a
 * zeroed one. Returns 0 or -BB_EFAIL (no memory). */
int bb_buckets_make(struct bb_buckets *b, const struct bb_bucket_rule *rule, const struct bb_gradient_arrival *arrivals,
                    int n, size_t element_bytes, int replicas) BB_MUST_CHECK;
void bb_buckets_release(struct bb_buckets *b);

/* bb_bucket_limit - elements at which the rule closes a bucket, the first being 0; INFINITY: never. */
double bb_bucket_limit(const struct bb_bucket_rule *rule, size_t element_bytes, int replicas, int bucket);

#endif
