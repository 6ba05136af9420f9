/*
 * pairs.h - measurements of pairs of nodes, and the interfaces between the files that judge them: measurement
 * (pair_rounds.c), rails and NICs (pair_nics.c), leaves and fabrics (pair_uplinks.c), paths (pair_paths.c), the test
 * (pairs.c). For the files of this folder.
 */
#ifndef BB_COLLECTIVES_HEALTH_VERDICT_PAIRS_H
#define BB_COLLECTIVES_HEALTH_VERDICT_PAIRS_H

#include "collectives/health/verdict/at_once.h"
#include "collectives/health/verdict/findings.h"

/* The NICs with the same GPU index. */
struct bb_pairs_rail {
    struct bb_health_peers peers; /* their best values */
    double value;                 /* what a common cause leaves to them */
    enum bb_health_level common;  /* its level; OK: the rail is not slow */
    bool is_whole;                /* all are slow */
    bool at_once;                 /* the rail is slow only while all pairs run at once */
};

/* The measurements of pairs. */
struct bb_pairs {
    struct bb_health *h;
    int *node, n;     /* [n] the nodes that take part */
    int *order;       /* [n] the same, in the order of the circle method */
    int turns;        /* number of rounds of the circle method, each with one or several measurements */
    int rounds, kept; /* number of these measurements; kept: with those of suspects that follow them */
    int *partner;     /* [kept][nodes] */
    /* [kept][nodes * gpus] values / the share of its rate that a pair gets alone; those of pairs in one of several
     * NVLink domains as if NICs had connected them */
    double *values;
    double *best;    /* [nodes * gpus] best value of each GPU, likewise; NaN: none */
    bool *by_nics;   /* [nodes] NICs connected the pairs of the values in best */
    bool *untested;  /* [nodes * gpus] after all measurements: the NIC had no fast partner over a fast path */
    bool *excused;   /* [nodes * gpus] slow paths, and slow NICs of the partners, explain the low values of the NIC */
    int *again;      /* [nodes] partners of another measurement */
    int *load;       /* [tiers][nodes] number of its pairs that leave each leaf and each pod */
    double *retried; /* [nodes * gpus] values of that measurement */
    /* of the values of all pairs that NICs connect, if there are any: against them all parts are judged, so that a slow
     * NIC is not three paths */
    struct bb_health_peers all;
    struct bb_pairs_rail *rail; /* [gpus] */
    bool is_shared;             /* a slow pair was fast alone */
    bool most_slow;             /* most pairs are slow while all run */
    bool has_domains;           /* several NVLink domains take part */
    double between;             /* median of the pairs that NICs connect; NaN: none, or not measured yet */
    struct bb_at_once leaf;     /* whose uplinks are slow */
};

/* A pair that is slow although both ends are faster with others. */
struct bb_slow_pair {
    int a, b, gpu;  /* gpu: the slowest */
    int gpus, fast; /* number of slow GPUs that the ends do not explain; of fast ones */
    double values[BB_HEALTH_TRIES];
    int slow;     /* number of clearly slow values, if the first one is, and not all are; else 0 */
    bool is_path; /* the middle one of the values is slow, too */
    double left;  /* what the uplinks of the slow leaf leave to the pair, if it uses them; else infinity */
};

/* ---- the test (pairs.c) ---- */

bool bb_pairs_is_inside(const struct bb_pairs *p, int a, int b); /* in one of several NVLink domains */

/* bb_pairs_share - return the share of its rate that a pair of nodes gets from oversubscribed leaves and pods while the
 *   others run. Pairs in an NVLink domain do not use uplinks. partner: [nodes]; NULL: the pair is alone
 * bb_pairs_set_shares - set the lowest and the highest share of pairs. shares: [n], NaN: not measured */
double bb_pairs_share(const struct bb_pairs *p, const int *partner, int a, int b);
void bb_pairs_set_shares(struct bb_health *h, enum bb_health_test test, const double *shares, size_t n);

/* bb_pairs_nvlink_factor - return what is expected of a pair in an NVLink domain / of one that NICs connect, or, if
 *   that is not known, their median.
 * bb_pairs_scale - multiply the value, expectation and median of a finding.
 * bb_pairs_restore_values - give a finding about a pair in an NVLink domain its own values, in place of those that NICs
 *   would reach.
 * bb_pairs_is_of_best - return whether what connects a pair is what the best values of a node are from: NICs, or
 *   NVLink. */
double bb_pairs_nvlink_factor(const struct bb_pairs *p);
void bb_pairs_scale(struct bb_health_finding *f, double factor);
void bb_pairs_restore_values(const struct bb_pairs *p, bool inside, struct bb_health_finding *f);
bool bb_pairs_is_of_best(const struct bb_pairs *p, int node, int other);

/* bb_pairs_finding - return a finding about a value of pairs, of the NICs with this GPU index; gpu, node: -1: does not
 *   apply.
 * bb_pairs_has_finding - return whether there is a finding about a path of two nodes, or, b: -1, about another part of
 *   a node.
 * bb_pairs_reference - return what a pair of fast NICs reaches alone. */
struct bb_health_finding bb_pairs_finding(const struct bb_pairs *p, enum bb_health_part part, int node, int gpu,
                                          double value);
bool bb_pairs_has_finding(const struct bb_health *h, enum bb_health_part part, int a, int b);
double bb_pairs_reference(const struct bb_pairs *p, int gpu);

/* ---- measurement (pair_rounds.c): functions that return int return 0, or the first error of `measure` ---- */

/* bb_pairs_start - schedule this number of rounds of the circle method; p->h is set. A measurement has as many pairs
 *   of a round as uplinks carry with what each of them gets alone: under more load, a slow path does not show.
 *   The caller calls bb_pairs_end.
 * bb_pairs_count_rounds - return the number of measurements of this number of rounds. */
void bb_pairs_start(struct bb_pairs *p, int turns);
int bb_pairs_count_rounds(const struct bb_health *h, int turns);
void bb_pairs_end(struct bb_pairs *p);

/* bb_pairs_measure_rounds - measure all rounds.
 * bb_pairs_measure_alone - measure one pair of nodes, and nothing else at the same time. attempt: as of struct
 *   bb_health
 * bb_pairs_retry_suspects - measure each suspect with a node that is no suspect, a different one in each try. Suspects
 *   without one are left out.
 * bb_pairs_retry_alone - measure the suspects that are left again, one after another: several that are slow at once may
 *   share a slow link. */
int bb_pairs_measure_rounds(struct bb_pairs *p);
int bb_pairs_measure_alone(struct bb_pairs *p, int a, int b, int attempt);
int bb_pairs_retry_suspects(struct bb_pairs *p);
int bb_pairs_retry_alone(struct bb_pairs *p);

/* ---- rails and NICs (pair_nics.c) ---- */

/* bb_pairs_level - return the level of a NIC.
 * bb_pairs_is_suspect - return whether a NIC of a node has a level other than OK. */
enum bb_health_level bb_pairs_level(const struct bb_pairs *p, int node, int gpu);
bool bb_pairs_is_suspect(const struct bb_pairs *p, int node);

/* bb_pairs_find_rails - find slow rails. A typical pair alone shows whether the rail is slow, or what all pairs share.
 *   Returns 0, or an error of `measure`.
 * bb_pairs_add_rails - add the findings about slow rails. If all are slow, one finding is about all, and rails are
 *   judged by the others.
 * bb_pairs_find_nics - add the findings about NICs.
 * bb_pairs_find_unmeasured - add the findings about nodes without partner, which have no verdict between nodes. */
int bb_pairs_find_rails(struct bb_pairs *p);
void bb_pairs_add_rails(struct bb_pairs *p);
void bb_pairs_find_nics(struct bb_pairs *p);
void bb_pairs_find_unmeasured(struct bb_pairs *p);

/* ---- leaves and fabrics (pair_uplinks.c) ---- */

bool bb_pairs_leaves(const struct bb_at_once *leaf, int a,
                     int b); /* a pair of nodes uses the uplinks of the slow leaf */

/* bb_pairs_find_leaf - find the leaf whose nodes are fast with each other: of its pairs with other nodes at least three
 *   and three quarters are slow, of up to four all, they are two thirds of all slow ones, and three quarters of them
 *   are about as slow as the others of their round, which share the uplinks. If the leaves are not known, and many
 *   pairs of the other nodes are slow, it is one of several such leaves.
 * bb_pairs_add_leaf - add the finding about this leaf, by its slowest pair without a finding about its path.
 * bb_pairs_find_fabric - judge the fabric by the bandwidth of the slowest round. */
void bb_pairs_find_leaf(struct bb_pairs *p);
void bb_pairs_add_leaf(struct bb_pairs *p);
void bb_pairs_find_fabric(struct bb_pairs *p);

/* ---- paths (pair_paths.c): functions return 0, or the first error of `measure` ---- */

/* bb_pairs_find_slow - measure the slow pairs again, the slowest first. n: out: number of pairs[BB_HEALTH_ALONE_MAX]
 * bb_pairs_add_slow - add the findings about slow pairs: unsteady NICs and paths, or `once`: those that were slow only
 *   while all pairs ran, of NICs if most pairs were. */
int bb_pairs_find_slow(struct bb_pairs *p, struct bb_slow_pair pairs[BB_HEALTH_ALONE_MAX], int *n);
int bb_pairs_add_slow(struct bb_pairs *p, const struct bb_slow_pair *pairs, int n, bool once);

#endif
