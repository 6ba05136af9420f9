/*
 * cases.h - the sequence of cases of a run: collectives, types, operations, roots, sizes. Pure functions without I/O.
 */
#ifndef BB_COLLECTIVES_SWEEP_CASES_H
#define BB_COLLECTIVES_SWEEP_CASES_H

#include "bootstrap/base/err.h"
#include "bootstrap/cli/size_list.h"
#include "collectives/measure/case.h"

/* Rule of --split that maps a rank to its group; all groups run the same sweep concurrently (split.c). */
enum bb_split_rule { BB_SPLIT_AND, BB_SPLIT_OR, BB_SPLIT_MOD, BB_SPLIT_DIV, BB_SPLIT_COUNT };

struct bb_split {
    enum bb_split_rule rule;
    int number;
};

/*
 * bb_split_parse - parse a rule: "AND:0x3", "OR:1", "MOD:2", "DIV:0b100". Case is ignored; blanks or nothing may
 * replace the colon; & | % / are accepted for the names. Returns 0 or -BB_EUSAGE after printing one line.
 */
int bb_split_parse(struct bb_split *s, const char *text) BB_MUST_CHECK;

/* bb_split_group - return the group of a rank. */
int bb_split_group(const struct bb_split *s, int rank);

struct bb_sweep {
    int colls[BB_COLL_KIND_COUNT], n_colls; /* enum bb_coll_kind */
    int dtypes[BB_DTYPE_COUNT], n_dtypes;   /* enum bb_dtype_id */
    int redops[BB_REDOP_COUNT], n_redops;   /* enum bb_redop_id */
    int root;                               /* -1: all ranks, one after the other */
    size_t min_bytes, max_bytes;
    size_t step_bytes; /* increment between sizes, if factor is 0 */
    double factor;     /* ratio between sizes if > 1; 0: use step_bytes */
    bool out_of_place, in_place;
    bool overlapping;      /* also run cases in place that overwrite their own input: timed, never verified */
    struct bb_sizes sizes; /* explicit sizes, which replace the range; empty: use the range */
    bool is_split;         /* ranks are split into groups by `split` */
    struct bb_split split;
    bool shuffled; /* sizes in an order that depends only on `seed` */
    uint64_t seed;
    size_t unalign; /* offset of the buffers, in elements */
    /* Counts for alltoallv (BB_COLL_VARIABLE_COUNTS); NULL without alltoallv; owned by the creator of the sweep. */
    struct bb_alltoallv_counts *alltoallv_counts;
};

/* bb_sweep_largest - return the largest size of the run in bytes. */
size_t bb_sweep_largest(const struct bb_sweep *s);

/*
 * bb_sweep_each - call fn for each row, sizes in the innermost loop. A case is out of place; its in-place variant
 * belongs to the same row. Operations without reduction run once per type instead of once per reduction operation.
 * Stops at the first nonzero result of fn and returns it.
 */
typedef int bb_sweep_fn(void *arg, const struct bb_case *c);
int bb_sweep_each(const struct bb_sweep *s, int coll, int ranks, bb_sweep_fn *fn, void *arg);

/* bb_sweep_slot_bytes - return the size of a buffer slot that is large enough for every case of the run. */
size_t bb_sweep_slot_bytes(const struct bb_sweep *s, int ranks);

/*
 * bb_sweep_arena_bytes - return the memory for the buffer slots of every case: two slots of the largest case. The last
 * iteration, whose data are verified, has its own slot; the other iterations cycle through the remaining slots.
 *   tight    allow one slot for the largest out-of-place case: the last iteration then reuses the slot of the others
 */
size_t bb_sweep_arena_bytes(const struct bb_sweep *s, int ranks, bool tight);

#endif
