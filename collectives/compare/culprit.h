/*
 * culprit.h - finds what slower rows have in common: the causes of the slower links of bench p2p (bb_link_outliers_causes), or the
 * rank or host with most of the other rows: of health a node, of bench compute the slowest rank, if it explains the slowdown.
 */
#ifndef BB_COLLECTIVES_COMPARE_CULPRIT_H
#define BB_COLLECTIVES_COMPARE_CULPRIT_H

#include "collectives/compare/result_reader.h"

/* A zero-initialized struct is empty. */
struct bb_culprits {
    json_t *rows_of[2]; /* number of slower rows that are no links, by rank and by host: "rank 6 (node3)": 18; owned */
    size_t rows;        /* slower rows with known ranks or hosts */
    struct bb_culprit_link {
        const struct bb_timing *row;
        bool slower;
    } * links; /* [n_links] rows of two ranks; owned */
    size_t n_links;
};

/* What at least half of two or more slower rows have in common. */
enum { BB_CULPRIT_NAMES = 3, BB_CULPRIT_NAME = 512, BB_CULPRIT_TEXT = BB_CULPRIT_NAME + 160 };
struct bb_culprit {
    char name
        [BB_CULPRIT_NAME]; /* "rank 6 (node3)", "node node3", also several: "rank 6 (node3), node node0"; "": none */
    int n;                 /* number of ranks, nodes and paths in the name */
    long long rows;        /* slower rows with them */
};

/* bb_culprits_add - add the row b, which matches the row a. */
void bb_culprits_add(struct bb_culprits *c, const struct bb_timing *a, const struct bb_timing *b, bool slower);

/* bb_culprits_find - return the culprits. A host of rows that are no links only if it has more slower rows than each rank. */
struct bb_culprit bb_culprits_find(const struct bb_culprits *c);

void bb_culprits_release(struct bb_culprits *c);

#endif
