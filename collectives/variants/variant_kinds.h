/* variant_kinds.h - the ways in which one collective can run (variants), which --sweep-variants compares. */
#ifndef BB_COLLECTIVES_VARIANTS_VARIANT_KINDS_H
#define BB_COLLECTIVES_VARIANTS_VARIANT_KINDS_H

#include "bootstrap/base/err.h"

#include <stdbool.h>

struct bb_variant_kind {
    const char *name;
    int registration;     /* enum bb_registration_kind */
    int cta_policy;       /* as option -x; -1: NCCL's choice */
    bool graph;           /* launched as CUDA graph */
    bool replaces_kernel; /* NCCL reports no algorithm and protocol, because another kernel or copies run */
    const char *ran;      /* text for what ran if NCCL reports neither a kernel nor copies */
    bool device;          /* busbar's own kernel on NCCL's device API (LSA) */
};
enum { BB_VARIANTS = 6 };
extern const struct bb_variant_kind bb_variant_kinds[BB_VARIANTS];

/*
 * bb_variants_parse - parse a comma-separated list of variants. The first must be plain, the reference of the others.
 *   list     out: [*n] indices into bb_variant_kinds
 *   Returns  0, or -BB_EUSAGE after printing one error line
 */
int bb_variants_parse(const char *text, int list[BB_VARIANTS], int *n) BB_MUST_CHECK;

#endif
