/*
 * cases.h - the cases of a run, in order: collectives, types, operations, sizes. Pure.
 */
#ifndef BB_COLLECTIVES_SWEEP_CASES_H
#define BB_COLLECTIVES_SWEEP_CASES_H

#include "bootstrap/base/err.h"
#include "bootstrap/cli/size_list.h"
#include "collectives/measure/case.h"

/* Ranks in groups that run the same sweep side by side: a rule that gives each its group (split.c). */
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

struct bb_sweep {
    int colls[BB_COLL_KIND_COUNT], n_colls; /* enum bb_coll_kind */
    int dtypes[BB_DTYPE_COUNT], n_dtypes;   /* enum bb_dtype_id  */
    int redops[BB_REDOP_COUNT], n_redops;   /* enum bb_redop_id  */
    int root;                               /* -1: every rank in turn                          */
    size_t min_bytes, max_bytes;
    size_t step_bytes; /* used when factor is 0                          */
    double factor;     /* > 1: the next size is this many times the last */
    bool out_of_place, in_place;
    bool overlapping;      /* in place also what would overwrite its input: timed, never verified */
    struct bb_sizes sizes; /* in place of the range, unless there are none                        */
    bool is_split;         /* into groups, by `split`                                             */
    struct bb_split split;
    bool shuffled; /* sizes in an order that depends on `seed` alone */
    uint64_t seed;
    size_t unalign;                      /* elements by which buffers are moved                 */
    struct bb_alltoallv_counts *amounts; /* of BB_COLL_VARIABLE_COUNTS; owned by who made the sweep      */
};

/* bb_sweep_largest - the largest size of the run. */
size_t bb_sweep_largest(const struct bb_sweep *s);

/*
 * bb_sweep_each - call fn for every row, sizes innermost: an out-of-place case whose in-place twin is the same row.
 * Operations without reduction run once per type, not once per operation. Stops at the first result that is not 0 and
 * returns it.
 */
typedef int bb_sweep_fn(void *arg, const struct bb_case *c);
int bb_sweep_each(const struct bb_sweep *s, int coll, int ranks, bb_sweep_fn *fn, void *arg);

/* bb_sweep_slot_bytes - a slot that is large enough for every case of the run. */
size_t bb_sweep_slot_bytes(const struct bb_sweep *s, int ranks);

/*
 * bb_sweep_arena_bytes - memory for the slots of every case: two of the largest, one that the iterations walk through
 * and one for the last. tight: of the largest out of place only one, in which the last iteration follows the others.
 */
size_t bb_sweep_arena_bytes(const struct bb_sweep *s, int ranks, bool tight);

#endif
