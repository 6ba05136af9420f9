/*
 * case_fields.h - the fields (size, count, type, ...) that describe a case in every table of measured or predicted
 * collectives. These fields are the first columns of nccl-tests' table and the first keys of a JSON result.
 */
#ifndef BB_COLLECTIVES_SWEEP_CASE_FIELDS_H
#define BB_COLLECTIVES_SWEEP_CASE_FIELDS_H

#include "bootstrap/results/table.h"
#include "collectives/measure/case.h"

/* The collective and its parameters (size, count, type, ...), formatted for output. bb_case_fields requires this
 * struct to be the first member of the struct that describes a row. */
struct bb_shown_case {
    const char *collective, *dtype, *op, *redop, *placement, *mode;
    size_t bytes, count;
    int root;
};

extern const struct bb_field bb_case_fields[];

/* bb_show_case - return collective and parameters of the case, formatted for output. mode: the value of the key
 * "mode" in the results. */
struct bb_shown_case bb_show_case(const struct bb_case *c, bool in_place, const char *mode);

#endif
