/*
 * alltoallv_counts.h - who sends how much to whom in an alltoallv: weighted by distance, or read from a file. Pure.
 *
 * Generated: of the total that a rank sends, rank i gives rank j a part that goes evenly from 1/n (spread 0) to
 * d / (1 + 2 + ... + n-1), d = (j - i) mod n (spread 1: nothing to itself, most to the farthest). Every rank sends and
 * receives the same total. From a file: bytes from row i to column j, times a scale. Each amount is rounded down to a
 * multiple of 16 bytes. Both rules are those of nccl-tests.
 */
#ifndef BB_COLLECTIVES_OPS_ALLTOALLV_COUNTS_H
#define BB_COLLECTIVES_OPS_ALLTOALLV_COUNTS_H

#include "bootstrap/base/err.h"

#include <stddef.h>

enum { BB_ALLTOALLV_RANKS = 4096 }; /* the largest matrix that is read */

struct bb_alltoallv_counts {
    double imbalance; /* 0 to 1, of the generated traffic          */
    size_t *bytes;    /* [n * n] from a file, NULL: generated      */
    int n;
};

/*
 * bb_alltoallv_counts_read - a square matrix of numbers >= 0, a row per line, blanks between; empty lines are skipped.
 * Returns 0 or -BB_EUSAGE after one line that names the file and the place in it.
 */
int bb_alltoallv_counts_read(struct bb_alltoallv_counts *t, const char *path, double scale) BB_MUST_CHECK;

/* bb_alltoallv_counts_parse - the same from text; `name` is for messages. */
int bb_alltoallv_counts_parse(struct bb_alltoallv_counts *t, const char *text, const char *name,
                              double scale) BB_MUST_CHECK;
void bb_alltoallv_counts_release(struct bb_alltoallv_counts *t);

/*
 * bb_alltoallv_counts_count - elements from rank `from` to rank `to` of `ranks`; base: elements per peer of an even
 * exchange.
 */
size_t bb_alltoallv_counts_count(const struct bb_alltoallv_counts *t, size_t base, size_t elem_bytes, int ranks,
                                 int from, int to);

/* bb_alltoallv_counts_before - elements that `from` sends to the ranks below `to`: where the slice for `to` begins. */
size_t bb_alltoallv_counts_before(const struct bb_alltoallv_counts *t, size_t base, size_t elem_bytes, int ranks,
                                  int from, int to);

/*
 * bb_alltoallv_counts_sent, bb_alltoallv_counts_received - elements of one rank; bb_alltoallv_counts_most - the larger
 * of both, of any rank.
 */
size_t bb_alltoallv_counts_sent(const struct bb_alltoallv_counts *t, size_t base, size_t elem_bytes, int ranks,
                                int rank);
size_t bb_alltoallv_counts_received(const struct bb_alltoallv_counts *t, size_t base, size_t elem_bytes, int ranks,
                                    int rank);
size_t bb_alltoallv_counts_most(const struct bb_alltoallv_counts *t, size_t base, size_t elem_bytes, int ranks);

#endif
