/*
 * case_fields.h - the fields (size, count, type, ...) that describe a case in every table of measured or predicted
 * collectives. These fields are the first columns of nccl-tests' table and the first keys of a JSON result.
 */
#ifndef BB_COLLECTIVES_SWEEP_CASE_FIELDS_H
#define BB_COLLECTIVES_SWEEP_CASE_FIELDS_H

#include "bootstrap/results/table.h"
#include "collectives/measure/case.h"

/* The values of a case as they are printed. bb_case_fields requires this struct to be the first member of the struct
 * that describes a row. */
struct bb_shown_case {
    const char *collective, *dtype, *op, *redop, *placement, *mode;
    size_t bytes, count;
    int root;
};

extern const struct bb_field bb_case_fields[];

/* bb_show_case - return the printable form of a case. mode: the value of the key "mode" in the results. */
struct bb_shown_case bb_show_case(const struct bb_case *c, bool in_place, const char *mode);

#endif
