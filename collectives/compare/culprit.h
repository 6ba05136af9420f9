/*
 * culprit.h - finds the rank or the host that most slower rows have in common: of bench p2p the ends of the links, of bench
 * compute the slowest rank, if it explains the slowdown.
 */
#ifndef BB_COLLECTIVES_COMPARE_CULPRIT_H
#define BB_COLLECTIVES_COMPARE_CULPRIT_H

#include "collectives/compare/result_reader.h"

/* A zero-initialized struct is empty. */
struct bb_culprits {
    json_t *rows_of[2]; /* number of slower rows, by rank and by host: "rank 6 (node3)": 18; owned */
    size_t rows;        /* slower rows with known ranks or hosts */
};

/* The rank or host of at least half of two or more slower rows, unless another one has as many. */
struct bb_culprit {
    const char *name; /* "rank 6 (node3)", "node node3"; NULL: none; borrowed from struct bb_culprits */
    long long rows;   /* slower rows with it */
};

enum { BB_CULPRIT_TEXT = 320 };

/* bb_culprits_add - add the row b, which is slower than the row a. */
void bb_culprits_add(struct bb_culprits *c, const struct bb_timing *a, const struct bb_timing *b);

/* bb_culprits_find - return the culprit: a host only if it has more slower rows than each rank. */
struct bb_culprit bb_culprits_find(const struct bb_culprits *c);

void bb_culprits_release(struct bb_culprits *c);

#endif
