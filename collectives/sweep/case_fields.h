/*
 * case_fields.h - the fields that describe a case in every table of collectives, measured or predicted: the first
 * columns of nccl-tests' table and the first keys of a result.
 */
#ifndef BB_COLLECTIVES_SWEEP_CASE_FIELDS_H
#define BB_COLLECTIVES_SWEEP_CASE_FIELDS_H

#include "bootstrap/results/table.h"
#include "collectives/measure/case.h"

/* The printable form of a case. Must be the first member of the struct that a row of a table describes. */
struct bb_shown_case {
    const char *collective, *dtype, *op, *redop, *placement, *mode;
    size_t bytes, count;
    int root;
};

extern const struct bb_field bb_case_fields[];

/* bb_show_case - return the printable form of a case. mode: as written to the results. */
struct bb_shown_case bb_show_case(const struct bb_case *c, bool in_place, const char *mode);

#endif
