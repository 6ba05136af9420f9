/*
 * findings.h - what all tests of verdict.h use: findings, the nodes that take part, NVLink domains; and the kinds of
 * tests. For the files of this folder.
 */
#ifndef BB_COLLECTIVES_HEALTH_VERDICT_FINDINGS_H
#define BB_COLLECTIVES_HEALTH_VERDICT_FINDINGS_H

#include "collectives/health/verdict/rule.h"

/* BB_HEALTH_ALONE_MAX: number of nodes, and of paths, that are measured again alone, because each takes measurements of
 * its own */
enum { BB_HEALTH_TRIES = 3, BB_HEALTH_ALONE_MAX = 16 };

/* bb_health_is_of_node - return whether a finding is about a node or a part of it.
 * bb_health_is_same_domain - return whether two nodes are in the same NVLink domain.
 * bb_health_count_values - return the number of GPUs of all nodes. */
bool bb_health_is_of_node(const struct bb_health_finding *f);
bool bb_health_is_same_domain(const struct bb_health *h, int a, int b);
size_t bb_health_count_values(const struct bb_health *h);

/* bb_health_finding_of - return a finding about a value, which applies to no node and GPU. */
struct bb_health_finding bb_health_finding_of(const struct bb_health *h, enum bb_health_test test,
                                              const struct bb_health_peers *p, double value);

/* bb_health_judge_by_peers - judge the value of a finding by its peers, too, and only by them if their typical value is
 * slow: `common` is the level of the finding about that, which explains a value that is as low as those of the peers,
 * or has no worse level. */
void bb_health_judge_by_peers(struct bb_health_finding *f, const struct bb_health_peers *p,
                              enum bb_health_level common);

/* bb_health_common_value - return what a common cause leaves to values: the typical one, or, if that is slow, the
 * lowest of those near it with a worse level, as a finding has the level of the worst value that it explains. */
double bb_health_common_value(const double *values, size_t n, double expected, const struct bb_health_peers *p);

/* bb_health_add_of_gpus - add findings about GPUs, or their NICs, in the order of the nodes. All GPUs of a node, if
 * there are several nodes, are one finding about the node, or about the path of the only two nodes. */
void bb_health_add_of_gpus(struct bb_health *h, const struct bb_health_finding *found, size_t n);

/* bb_health_is_explained - return whether an earlier finding between nodes explains a slow bisection, rail or job: it
 * has no better level, with what it shares with all its peers. A part that is slow only for some time, which was a
 * warning, gets the level of what it slows down. */
bool bb_health_is_explained(struct bb_health *h, const struct bb_health_finding *f);

/* Make a test and add its findings. Each returns 0, or the first error of `measure`.
 * bb_health_test_units - one whose values are judged one by one (units.c).
 * bb_health_test_pairs - BB_HEALTH_PAIRS (pairs.c).
 * bb_health_test_bisection - BB_HEALTH_BISECTION (bisection.c): judge the cut that counts, without the stage pairs its
 *   slowest pair; each is measured once more if one is slow. */
int bb_health_test_units(struct bb_health *h, enum bb_health_test test);
int bb_health_test_pairs(struct bb_health *h);
int bb_health_test_bisection(struct bb_health *h);

#endif
