/*
 * overlap.h - how much communication was hidden: arithmetic on sets of time intervals. Pure; used by the prediction and
 * by the report of a run.
 *
 * All times are int64 nanoseconds on one rank's clock, from the start of a step of length T. C is the union of the
 * intervals in which the compute stream ran a kernel, M the union of those in which any communication ran, from its
 * arrival to its end (waiting for a peer is communication: the operation occupies its stream). Unions, never sums.
 *
 *   exposed = |M \ C|    idle = T - |C u M|    overlap_fraction = |M n C| / |M|
 */
#ifndef BB_PROXIES_TIMELINE_OVERLAP_H
#define BB_PROXIES_TIMELINE_OVERLAP_H

#include "bootstrap/base/err.h"

#include <stddef.h>
#include <stdint.h>

struct bb_span {
    int64_t begin_ns, end_ns;
};

/* A set of intervals, in any order and overlapping as they come. Starts as {0}. */
struct bb_spans {
    struct bb_span *at;
    size_t n;
};

/* bb_spans_add - an interval of no or negative length is left out. Returns 0 or -BB_EFAIL (no memory, said). */
int bb_spans_add(struct bb_spans *s, int64_t begin_ns, int64_t end_ns) BB_MUST_CHECK;
int bb_spans_add_all(struct bb_spans *s, const struct bb_spans *more) BB_MUST_CHECK;
void bb_spans_clear(struct bb_spans *s); /* empty, memory kept                 */
void bb_spans_release(struct bb_spans *s);

/* bb_spans_join - replace the intervals by their union: sorted, disjoint, not touching. The functions below do it
 * themselves, so their arguments are changed in form, not in meaning. */
void bb_spans_join(struct bb_spans *s);

int64_t bb_spans_common(struct bb_spans *a, struct bb_spans *b); /* |union a n union b|           */

struct bb_overlap {
    int64_t step_ns;         /* T                                                        */
    int64_t compute_ns;      /* |C|                                                      */
    int64_t comm_ns;         /* |M|                                                      */
    int64_t exposed_ns;      /* |M \ C|                                                  */
    int64_t idle_ns;         /* T - |C u M|                                              */
    double overlap_fraction; /* |M n C| / |M|, NaN without communication                 */
};

/* bb_overlap_of - the figures of one step. For one group, pass its own intervals as comm: then exposed is the group's
 * and idle says in how much of the step neither compute nor this group was busy. */
void bb_overlap_of(int64_t step_ns, struct bb_spans *compute, struct bb_spans *comm, struct bb_overlap *out);

/*
 * Why communication was exposed; the three add up to exposed_ns. An interval of communication waits for who comes last,
 * then its bytes move.
 *   transfer  bytes moved, and no kernel ran
 *   bubble    a message between stages was waited for, and neither a kernel nor a transfer ran
 *   waiting   the rest: nothing but waits for other peers
 */
struct bb_exposure {
    int64_t transfer_ns, bubble_ns, waiting_ns;
};

/* bb_exposure_of - comm: all of it; transfers, stages: those parts of comm in which bytes move, and the intervals of
 * messages between stages. 0 or -BB_EFAIL (no memory, said). */
int bb_exposure_of(struct bb_spans *compute, struct bb_spans *comm, struct bb_spans *transfers, struct bb_spans *stages,
                   struct bb_exposure *out) BB_MUST_CHECK;

/*
 * bb_overlap_efficiency - (Tc + Tm - Tb) / min(Tc, Tm) of three runs: compute alone, communication alone, both. 1: the
 * shorter is hidden whole; 0: one after the other; below 0: together is slower than that. NaN when Tc or Tm is 0 or
 * unknown. Tc of a pipeline is the compute of the slowest rank with its bubble, which no overlap can hide: without that
 * a step that is mostly bubble has an efficiency far below 0 that says nothing.
 */
double bb_overlap_efficiency(double compute_alone, double comm_alone, double both);

/* bb_overlap_efficiency_text - ", overlap efficiency 0.520" for people, "" when unknown. Returns buf. */
#define BB_EFFICIENCY_TEXT 64
const char *bb_overlap_efficiency_text(double efficiency, char buf[BB_EFFICIENCY_TEXT]);

#endif
