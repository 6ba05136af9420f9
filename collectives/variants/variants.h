/*
 * variants.h - option --sweep-variants: measures each case as plain collective and in other ways (variant_kinds.h), each
 * with a communicator and buffers of its own, and ranks them; with --with-gemm also concurrent with GEMMs. Each case has
 * two rounds, the second in reverse order, and the faster measurement of a variant counts, so that a change of the
 * GPU's clock favors no variant. A variant for which NCCL ran the kernel of another variant has no rank, but a reason.
 */
#ifndef BB_COLLECTIVES_VARIANTS_VARIANTS_H
#define BB_COLLECTIVES_VARIANTS_VARIANTS_H

#include "collectives/ops/device.h"
#include "collectives/overlap/overlap_measure.h"
#include "collectives/session/registration.h"
#include "collectives/variants/variant_kinds.h"

/* Cases in which each variant alone is the fastest (the others are ties), and the largest gain. */
struct bb_variant_tally {
    int cases, wins[BB_VARIANTS];
    int best;      /* variant of the largest gain; only if gain > 0 */
    unsigned tied; /* bits of the variants that are as fast as `best` */
    double gain;   /* time of plain / time of the variant */
    const char *collective;
    size_t bytes;
};

struct bb_variants {
    struct bb_session *session;
    struct bb_bench_context *ctx; /* its communicator and buffers are those of plain, except during a measurement */
    const struct bb_variant_kind *kind[BB_VARIANTS];
    int n;                             /* 0: option not given */
    const char *reasons[BB_VARIANTS];  /* why this run cannot measure the variant; NULL: it can */
    struct bb_comm comms[BB_VARIANTS]; /* [0], of plain, is not used here; ctx has it */
    struct bb_registration registrations[BB_VARIANTS];
    struct bb_guarded arenas[BB_VARIANTS];
    struct bb_device devices[BB_VARIANTS]; /* own kernels; only of kinds with `device` */
    struct bb_comm *plain_comm;
    int cases;  /* number of cases of the run */
    bool brief; /* print only the fastest variant of each case */
    bool with_gemm;
    struct bb_bench_overlap_options gemm;
    struct bb_overlap_context overlap;
    struct bb_variant_tally alone, concurrent;
    int unranked[BB_VARIANTS]; /* cases without a rank, and the reason of the last one */
    char why[BB_VARIANTS][160];
    bool wrong; /* a variant received wrong data */
};

/*
 * bb_variants_init    - create the communicators and buffers. Collective over all ranks. n, kind and with_gemm are set.
 *   ctx          initialized for plain collectives; borrowed until bb_variants_release
 *   opts         options of the communicators
 *   arena_bytes  size of the buffers of a variant
 *   gemm         dimensions of the GEMM
 * bb_variants_release - release everything. Accepts a zeroed struct. Returns the first error of a communicator.
 */
int bb_variants_init(struct bb_variants *v, struct bb_session *session, struct bb_bench_context *ctx,
                     const struct bb_comm_opts *opts, size_t arena_bytes, const int64_t gemm[3]) BB_MUST_CHECK;
int bb_variants_release(struct bb_variants *v);

/* bb_variants_heading - print the column headings. Without --full, long tables are brief. */
void bb_variants_heading(struct bb_variants *v);

/* bb_variants_case - measure a case in all variants, print the rows and write the results. Collective over all ranks. */
int bb_variants_case(struct bb_variants *v, const struct bb_case *c) BB_MUST_CHECK;

/* bb_variants_end - print the variants without a rank and the verdict, and write the verdict to the results. */
int bb_variants_end(struct bb_variants *v) BB_MUST_CHECK;

#endif
