/*
 * alltoallv_counts.h - the counts of alltoallv, one for each pair of ranks, generated or read from a matrix file. The
 * module does not depend on CUDA.
 *
 * Generated counts: rank i sends rank j a fraction of the bytes that rank i sends in total. With imbalance 0 the
 * fraction is 1/n. With imbalance 1 the fraction is d / (1 + 2 + ... + n-1) with the rank distance d = (j - i) mod n: 0
 * for the rank itself, largest for d = n - 1. Imbalances between 0 and 1 interpolate linearly. Every rank sends and
 * receives the same total.
 *
 * Matrix file: the number in row i, column j is the number of bytes from rank i to rank j, before multiplication by a
 * scale.
 *
 * All counts are rounded down to a multiple of 16 bytes. Generation and file format are the same as in nccl-tests.
 */
#ifndef BB_COLLECTIVES_OPS_ALLTOALLV_COUNTS_H
#define BB_COLLECTIVES_OPS_ALLTOALLV_COUNTS_H

#include "bootstrap/base/err.h"

#include <stdbool.h>
#include <stddef.h>

enum { BB_ALLTOALLV_RANKS = 4096 }; /* maximum number of rows and columns of a matrix file */

struct bb_alltoallv_counts {
    double imbalance; /* 0 to 1: imbalance of generated counts; unused with a matrix file */
    size_t *bytes;    /* [n * n] bytes from the matrix file, owned; NULL: counts are generated */
    int n;
    bool nccl_tests; /* as in nccl-tests: busbw = algbw * (n-1)/n for any counts; a matrix may have more ranks
                           than the job, which uses the first ones */
};

/*
 * bb_alltoallv_counts_read - read a square matrix of numbers >= 0 from a file. A line of the file is a row of the
 * matrix; white space separates the numbers; empty lines are skipped.
 *   scale    factor that multiplies every number
 *   Returns  0, or -BB_EUSAGE after printing one error line with the file name and the position
 */
int bb_alltoallv_counts_read(struct bb_alltoallv_counts *t, const char *path, double scale) BB_MUST_CHECK;

/* bb_alltoallv_counts_parse - read the matrix from the string `text`, as bb_alltoallv_counts_read does from a file.
 * `name` is the file name for error messages. */
int bb_alltoallv_counts_parse(struct bb_alltoallv_counts *t, const char *text, const char *name,
                              double scale) BB_MUST_CHECK;
void bb_alltoallv_counts_release(struct bb_alltoallv_counts *t);

/*
 * bb_alltoallv_counts_count - return the number of elements that rank `from` sends to rank `to`.
 *   base   number of elements per pair of ranks if all counts were equal; used only for generated counts
 *   ranks  size of the communicator
 */
size_t bb_alltoallv_counts_count(const struct bb_alltoallv_counts *t, size_t base, size_t elem_bytes, int ranks,
                                 int from, int to);

/* bb_alltoallv_counts_before - return the offset, in elements, of the slice for rank `to` in the send buffer of rank
 * `from`: the sum of the counts for the ranks below `to`. */
size_t bb_alltoallv_counts_before(const struct bb_alltoallv_counts *t, size_t base, size_t elem_bytes, int ranks,
                                  int from, int to);

/*
 * bb_alltoallv_counts_sent     - return the number of elements that `rank` sends in total.
 * bb_alltoallv_counts_received - return the number of elements that `rank` receives in total.
 * bb_alltoallv_counts_most     - return the maximum of these totals over all ranks; own: with the elements that a rank
 *                                sends to itself.
 */
size_t bb_alltoallv_counts_sent(const struct bb_alltoallv_counts *t, size_t base, size_t elem_bytes, int ranks,
                                int rank);
size_t bb_alltoallv_counts_received(const struct bb_alltoallv_counts *t, size_t base, size_t elem_bytes, int ranks,
                                    int rank);
size_t bb_alltoallv_counts_most(const struct bb_alltoallv_counts *t, size_t base, size_t elem_bytes, int ranks,
                                bool own);

#endif
