/* overlap_options.h - options of `busbar bench overlap`, which measures a GEMM and a collective alone and
 * concurrently. */
#ifndef BB_COLLECTIVES_OVERLAP_OVERLAP_OPTIONS_H
#define BB_COLLECTIVES_OVERLAP_OVERLAP_OPTIONS_H

#include "bootstrap/cli/opts.h"
#include "bootstrap/cli/size_list.h"
#include "collectives/ops/coll.h"
#include "collectives/overlap/overlap_metrics.h"
#include "cuda/work/layer_shape.h"

struct bb_bench_overlap_options {
    struct bb_common common;
    const char *collective, *dtype, *size_list, *cta_list, *mnk;
    int collectives, gemms, gemm_sms, repeats, warmup;
    enum bb_coll_kind kind; /* parsed from the string `collective`; the fields after `kind` are parsed from the
                               strings dtype, size_list, cta_list and mnk */
    struct bb_sizes sizes;
    struct bb_cta_limit limits[BB_CTA_LIMITS];
    int n_limits;
    struct bb_gemm_shape gemm_shape;
};

/* bb_bench_overlap_set - the options of `busbar bench overlap`, for bb_opts_read with argv[0] = "overlap". */
extern const struct bb_opts bb_bench_overlap_set;

/* bb_bench_overlap_run - run the benchmark; defined in busbar-rank. Returns 0, a positive value if help was
 * printed, or a negative error code. */
int bb_bench_overlap_run(int argc, char **argv);

#endif
