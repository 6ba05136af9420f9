/*
 * split.h - ranks in groups that run the same sweep side by side: a rule that gives each rank the number of its group.
 * Pure.
 */
#ifndef BB_COLLECTIVES_SWEEP_SPLIT_H
#define BB_COLLECTIVES_SWEEP_SPLIT_H

#include "bootstrap/base/err.h"

enum bb_split_rule { BB_SPLIT_AND, BB_SPLIT_OR, BB_SPLIT_MOD, BB_SPLIT_DIV, BB_SPLIT_COUNT };

struct bb_split {
    enum bb_split_rule rule;
    int number;
};

/*
 * bb_split_parse - "AND:0x3", "OR:1", "MOD:2", "DIV:0b100", in any case, with blanks or nothing for the colon; & | % /
 * are the same words. Returns 0 or -BB_EUSAGE after one line.
 */
int bb_split_parse(struct bb_split *s, const char *text) BB_MUST_CHECK;

/* bb_split_group - of a rank. */
int bb_split_group(const struct bb_split *s, int rank);

#endif
