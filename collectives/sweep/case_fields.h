/*
 * case_fields.h - what every table of collectives shows of a case before its figures, measured or predicted: the first
 * columns of nccl-tests, the first keys of a result.
 */
#ifndef BB_COLLECTIVES_SWEEP_CASE_FIELDS_H
#define BB_COLLECTIVES_SWEEP_CASE_FIELDS_H

#include "bootstrap/results/table.h"
#include "collectives/measure/case.h"

/* The first member of a row that shows it. */
struct bb_shown_case {
    const char *collective, *dtype, *op, *redop, *placement, *mode;
    size_t bytes, count;
    int root;
};

extern const struct bb_field bb_case_fields[];

/* bb_show_case - mode: as a result has it. */
struct bb_shown_case bb_show_case(const struct bb_case *c, bool in_place, const char *mode);

#endif
