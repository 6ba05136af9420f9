/*
 * overlap.h - computes how much communication is hidden by compute, with set operations on time intervals. The
 * prediction and the report of a run use the same functions.
 *
 * All times are int64 nanoseconds on one rank's clock, from the start of a step of length T. C is the union of the
 * intervals in which a kernel ran on the compute stream. M is the union of the intervals of all communication, each
 * from the arrival of the stream at the operation to the operation's end. Waiting for a peer counts as communication,
 * because the operation occupies its stream. Overlapping intervals are counted once. |X| is the total length of X, u
 * the union, n the intersection, \ the difference:
 *
 *   exposed = |M \ C|    idle = T - |C u M|    overlap_fraction = |M n C| / |M|
 */
#ifndef BB_PROXIES_SIMULATION_TIMELINE_OVERLAP_H
#define BB_PROXIES_SIMULATION_TIMELINE_OVERLAP_H

#include "proxies/form/step/layout.h"
#include "proxies/form/step/program.h"

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

struct bb_span {
    int64_t begin_ns, end_ns;
};

/* A set of intervals, in any order; they may overlap. Initial value: {0}. */
struct bb_spans {
    struct bb_span *at;
    size_t n;
};

/* bb_spans_add - adds an interval; ignores an interval of length 0 or less. */
void bb_spans_add(struct bb_spans *s, int64_t begin_ns, int64_t end_ns);
void bb_spans_add_all(struct bb_spans *s, const struct bb_spans *more);
void bb_spans_release(struct bb_spans *s);

/* bb_spans_join - replaces the intervals by their union, sorted and disjoint. The functions below call bb_spans_join
 * on their arguments. */
void bb_spans_join(struct bb_spans *s);

int64_t bb_spans_length(struct bb_spans *s); /* returns the length of the union */

struct bb_overlap {
    int64_t step_ns;         /* step time T */
    int64_t compute_ns;      /* total time during which a compute kernel runs: |C| */
    int64_t comm_ns;         /* total time during which communication is in progress: |M| */
    int64_t exposed_ns;      /* total time with communication but without a compute kernel: |M \ C| */
    int64_t idle_ns;         /* time with neither compute nor communication: T - |C u M| */
    double overlap_fraction; /* hidden fraction of the communication: |M n C| / |M|; NaN without communication */
};

/* bb_overlap_of - computes the overlap of communication with compute in one step. For the values of a single group,
 * pass only that group's intervals as comm: exposed_ns is then the group's communication without compute, and
 * idle_ns is the time with neither compute nor communication of this group. */
void bb_overlap_of(int64_t step_ns, struct bb_spans *compute, struct bb_spans *comm, struct bb_overlap *out);

/*
 * The exposed communication (during which no compute kernel runs) by cause; the three times add up to exposed_ns. A
 * communication operation first waits for the last rank to arrive, then transfers its data.
 *   transfer  data was transferred while no compute kernel ran
 *   bubble    neither a compute kernel nor a transfer ran while the rank waited for another pipeline stage: in a
 *             message between stages, or in a collective that spans stages while another stage of the same replica
 *             still executed forward or backward kernels
 *   waiting   all other waiting for peers
 */
struct bb_exposure {
    int64_t transfer_ns, bubble_ns, waiting_ns;
};

/*
 * bb_stage_imbalance - returns the part of a rank's pipeline bubble that equal stages would avoid: the work of the stage
 * of the same replica that has most, minus that of the rank, limited to the bubble. With 1F1B and m micro-batches the
 * bubble is m (t_max - t) plus the times of all other stages for one micro-batch, where t is the time of a stage for one
 * micro-batch.
 *   bubble   in the unit of work()
 *   work     returns the forward and backward work of a rank (bb_intervals.work); from: its first argument
 */
double bb_stage_imbalance(const struct bb_layout *l, int rank, double bubble,
                          double (*work)(const void *from, int rank), const void *from);

/*
 * bb_limiting_rank - returns the rank whose times explain the step: of those that end within 1 % of the last, the one
 * with the most compute and exposed transfer; of several, the first. BB_NONE if n is 0 or no rank is considered.
 *   n      number of ranks (or of classes of ranks)
 *   load   returns the times of the i-th rank, in any unit; a negative step excludes the rank. from: its first argument
 */
struct bb_rank_load {
    double step; /* step time of the rank */
    double busy; /* compute + exposed transfer; NaN: unknown */
};
int bb_limiting_rank(int n, struct bb_rank_load (*load)(const void *from, int i), const void *from);

/*
 * bb_overlap_efficiency - returns (Tc + Tm - Tb) / min(Tc, Tm), where Tc, Tm and Tb are the times of compute alone,
 * communication alone, and both together. 1: the shorter of Tc and Tm is fully hidden; 0: no overlap; below 0: both
 * together take longer than one after the other. NaN if Tc or Tm is 0, unknown or below 1 % of Tb: then overlap has
 * nothing to hide, and the quotient is noise. For a pipeline, Tc is the compute
 * time of the slowest rank plus its bubble, because no overlap can hide the bubble. Without the bubble in Tc, a step
 * that is mostly bubble would get a meaningless value far below 0.
 */
double bb_overlap_efficiency(double compute_alone, double comm_alone, double both);

/* bb_overlap_efficiency_text - returns the text of an efficiency for a field of a report: "0.520", "0.520 (the pipeline bubble
 * counts as compute)", or why it is NaN. bubble: length of the pipeline bubble, in any unit */
json_t *bb_overlap_efficiency_text(double efficiency, double bubble);

/* ---- intervals of the operations of one rank ---- */

/* Begin and end of one operation in ns from the start of the step. A communication operation waits for its last peer
 * during the first wait_ns of this interval. */
struct bb_timed_op {
    int64_t begin_ns, end_ns, wait_ns;
};

struct bb_intervals {
    struct bb_spans compute, comm;
    struct bb_spans groups[BB_MAX_GROUPS]; /* communication of each group (for example "tp") */
    struct bb_spans waits[BB_MAX_GROUPS];  /* waiting in the calls of each group */
    struct bb_spans transfers;             /* all communication without the waiting */
    struct bb_spans work;                  /* forward and backward kernels and transfers, without the waiting */
    struct bb_spans stages; /* messages between pipeline stages, including the waiting; waiting for another stage in
                               collectives that span stages */
    /* set by bb_intervals_set_pipeline: the groups whose instance contains a rank of another stage of the same replica,
     * and the time at which the last of these stages ends its forward and backward kernels */
    bool spans_stages[BB_MAX_GROUPS];
    int64_t pipeline_end_ns;
};

/* bb_pipeline_end - returns the later of end_ns and the end of the operation, if the operation is a forward or backward
 * kernel; otherwise end_ns. */
int64_t bb_pipeline_end(int64_t end_ns, const struct bb_op *op, const struct bb_timed_op *at);

/*
 * bb_intervals_set_pipeline - prepares the intervals of a rank for waiting in collectives that span pipeline stages.
 * Called before bb_intervals_add. No effect without messages between stages.
 *   end_ns    end of the last forward or backward kernel, per rank or per class of ranks (bb_pipeline_end)
 *   class_of  [layout.ranks] index of each rank in end_ns; NULL: end_ns has one element per rank
 */
void bb_intervals_set_pipeline(struct bb_intervals *s, const struct bb_layout *l, int rank, const int64_t *end_ns,
                               const int *class_of);

/* bb_intervals_add - adds the interval of an operation. comm: its communicator (index in layout.comms); BB_NONE:
 * compute. op: the operation, or the first of a group call.
 * bb_intervals_release - frees all intervals; also accepts a zeroed struct. */
void bb_intervals_add(struct bb_intervals *s, const struct bb_layout *l, const struct bb_op *op, int comm,
                      const struct bb_timed_op *at);
void bb_intervals_release(struct bb_intervals *s);

/*
 * bb_exposure_of - divides the exposed communication of a rank by cause.
 * bb_exposure_spans - the same as disjoint intervals. parts: out; the caller releases them
 */
enum bb_exposed { BB_EXPOSED_TRANSFER, BB_EXPOSED_BUBBLE, BB_EXPOSED_WAITING, BB_EXPOSURES };
struct bb_exposure bb_exposure_of(struct bb_intervals *s);
void bb_exposure_spans(struct bb_intervals *s, struct bb_spans parts[BB_EXPOSURES]);

#endif
