/* sync_options.h - options of `busbar proxy` and `busbar plan`: how gradients and parameters are kept together. */
#ifndef BB_PROXIES_SYNC_SYNC_OPTIONS_H
#define BB_PROXIES_SYNC_SYNC_OPTIONS_H

#include "bootstrap/cli/opts.h"

/* 0, false and NULL: not given. Nothing has a default text, so that what a proxy does not know can be refused. */
struct bb_sync_options {
    const char *sync; /* a kind of sync.h: of data_parallel; the transformer has --dp-sync of its own */
    double bucket_mb, first_bucket_mb;
    const char *bucket_rule; /* ddp, megatron, deepspeed, single */
    bool pad_buckets;
    size_t fusion_threshold; /* bytes */
    double cycle_ms;
    const char *zero_reduce; /* rs, allreduce */
    bool hierarchical;
    const char *grad_dtype, *optimizer;
    bool overlap_param_gather, own_gather_comm, no_overlap, no_sync;
    int shard_size, servers;
};

extern const struct bb_opt bb_sync_options[];

#endif
