/*
 * alltoallv_counts.h - the counts that each pair of ranks exchanges in alltoallv, generated or read from a file. No
 * CUDA.
 *
 * Generated: rank i sends rank j a fraction of its total. With imbalance 0 the fraction is 1/n; with imbalance 1 it is
 * d / (1 + 2 + ... + n-1), d = (j - i) mod n, which is 0 for the rank itself and largest for the most distant rank;
 * values between interpolate. Every rank sends and receives the same total.
 * From a file: row i, column j is the number of bytes from rank i to rank j, multiplied by a scale.
 * Each count is rounded down to a multiple of 16 bytes. Both rules are those of nccl-tests.
 */
#ifndef BB_COLLECTIVES_OPS_ALLTOALLV_COUNTS_H
#define BB_COLLECTIVES_OPS_ALLTOALLV_COUNTS_H

#include "bootstrap/base/err.h"

#include <stddef.h>

enum { BB_ALLTOALLV_RANKS = 4096 }; /* maximum number of ranks in a matrix file */

struct bb_alltoallv_counts {
    double imbalance; /* 0 to 1; for generated counts */
    size_t *bytes;    /* [n * n] read from a file, owned; NULL: generated counts */
    int n;
};

/*
 * bb_alltoallv_counts_read - read a square matrix of numbers >= 0 from a file: one row per line, separated by white
 * space; empty lines are skipped.
 *   scale    factor for all numbers
 *   Returns  0, or -BB_EUSAGE after printing one line with the file and the position
 */
int bb_alltoallv_counts_read(struct bb_alltoallv_counts *t, const char *path, double scale) BB_MUST_CHECK;

/* bb_alltoallv_counts_parse - as bb_alltoallv_counts_read, from a string; `name` appears in messages. */
int bb_alltoallv_counts_parse(struct bb_alltoallv_counts *t, const char *text, const char *name,
                              double scale) BB_MUST_CHECK;
void bb_alltoallv_counts_release(struct bb_alltoallv_counts *t);

/*
 * bb_alltoallv_counts_count - elements that rank `from` sends to rank `to`.
 *   base   elements per peer if all counts were equal; for generated counts
 *   ranks  size of the communicator
 */
size_t bb_alltoallv_counts_count(const struct bb_alltoallv_counts *t, size_t base, size_t elem_bytes, int ranks,
                                 int from, int to);

/* bb_alltoallv_counts_before - elements that `from` sends to the ranks below `to`, which is the offset of the slice
 * for `to`. */
size_t bb_alltoallv_counts_before(const struct bb_alltoallv_counts *t, size_t base, size_t elem_bytes, int ranks,
                                  int from, int to);

/*
 * bb_alltoallv_counts_sent, bb_alltoallv_counts_received - total elements of one rank. bb_alltoallv_counts_most - the
 * maximum of both totals over all ranks.
 */
size_t bb_alltoallv_counts_sent(const struct bb_alltoallv_counts *t, size_t base, size_t elem_bytes, int ranks,
                                int rank);
size_t bb_alltoallv_counts_received(const struct bb_alltoallv_counts *t, size_t base, size_t elem_bytes, int ranks,
                                    int rank);
size_t bb_alltoallv_counts_most(const struct bb_alltoallv_counts *t, size_t base, size_t elem_bytes, int ranks);

#endif
