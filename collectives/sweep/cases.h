/*
 * cases.h - the sequence of cases that a run measures, in nested loops over collectives, types, reduction operations,
 * roots and sizes. Pure functions without I/O.
 */
#ifndef BB_COLLECTIVES_SWEEP_CASES_H
#define BB_COLLECTIVES_SWEEP_CASES_H

#include "bootstrap/base/err.h"
#include "bootstrap/cli/size_list.h"
#include "collectives/measure/case.h"

/* Rule of --split that maps a rank to its group, a set of ranks with its own communicator. All groups run the same
 * sweep concurrently. */
enum bb_split_rule { BB_SPLIT_AND, BB_SPLIT_OR, BB_SPLIT_MOD, BB_SPLIT_DIV, BB_SPLIT_COUNT };

struct bb_split {
    enum bb_split_rule rule;
    int number;
};

/*
 * bb_split_parse - parse a rule such as "AND:0x3", "OR:1", "MOD:2" or "DIV:0b100". Upper and lower case are equal;
 * blanks may replace the colon, which may also be missing; the signs & | % / may replace the names. Returns 0, or
 * -BB_EUSAGE after printing one error line.
 */
int bb_split_parse(struct bb_split *s, const char *text) BB_MUST_CHECK;

/* bb_split_group - return the index of the group of `rank`. */
int bb_split_group(const struct bb_split *s, int rank);

struct bb_sweep {
    int colls[BB_COLL_KIND_COUNT], n_colls; /* enum bb_coll_kind */
    int dtypes[BB_DTYPE_COUNT], n_dtypes;   /* enum bb_dtype_id */
    int redops[BB_REDOP_COUNT], n_redops;   /* enum bb_redop_id */
    int root;                               /* root rank; -1: every rank in turn */
    size_t min_bytes, max_bytes;
    size_t step_bytes; /* increment from one message size to the next in bytes; used if factor is 0 */
    double factor;     /* ratio of each message size to the previous one, above 1; 0: use step_bytes */
    bool out_of_place, in_place;
    bool overlapping;      /* also run a collective in place if received data then overwrite data that are still to be
                         sent, as nccl-tests does; such runs are timed but never verified */
    struct bb_sizes sizes; /* message sizes of --sizes, which replace the range from -b to -e; empty: use the range */
    bool is_split;         /* true: --split divides the ranks into groups by the rule `split` */
    struct bb_split split;
    bool shuffled; /* message sizes are in a random order that depends only on `seed` */
    uint64_t seed;
    size_t unalign; /* number of elements by which the send and receive buffers are offset from their alignment */
    bool has_alltoallv;
    struct bb_alltoallv_counts alltoallv_counts; /* byte counts of alltoallv per pair of ranks; the cases of the sweep
                                                    point to this field */
};

/* bb_sweep_all_reduce - return the sweep of one all_reduce of floats in place. */
struct bb_sweep bb_sweep_all_reduce(size_t bytes);

/* bb_sweep_count_sizes - return the number of message sizes of the sweep, at most `limit` for a range. */
size_t bb_sweep_count_sizes(const struct bb_sweep *s, size_t limit);

/* bb_sweep_largest - return the largest message size of the sweep in bytes. */
size_t bb_sweep_largest(const struct bb_sweep *s);

/*
 * bb_sweep_each - call fn for each case of one collective; the sizes are in the innermost loop. The cases passed to fn
 * are out of place; the caller also measures each case in place. Collectives without reduction run once per data type,
 * not once per reduction operation. Stops at the first nonzero result of fn and returns that result.
 */
typedef int bb_sweep_fn(void *arg, const struct bb_case *c);
int bb_sweep_each(const struct bb_sweep *s, int coll, int ranks, bb_sweep_fn *fn, void *arg);

/*
 * bb_sweep_arena_bytes - return the size of an arena (the memory of all buffers) that is large enough for every case of
 * the sweep. In general the arena has two slots (the buffers of one operation each) of the largest case: one for the
 * last iteration, whose data are verified, and one that all other iterations share.
 *   tight    true: a single slot suffices for the largest out-of-place case, because all iterations of an out-of-place
 *            case may share the slot
 */
size_t bb_sweep_arena_bytes(const struct bb_sweep *s, int ranks, bool tight);

#endif
