/*
 * enqueue.h - operations of a case onto a context's stream: from slot to slot, alone or grouped, waited for or not.
 */
#ifndef BB_COLLECTIVES_MEASURE_ENQUEUE_H
#define BB_COLLECTIVES_MEASURE_ENQUEUE_H

#include "collectives/measure/bench_context.h"

/*
 * bb_issue - n iterations of bb_bench_context_aggregate operations, number `first` and on. ends_row: the very last operation goes
 * to the last slot, whose data are verified. Between iterations the host does what ctx->blocking says.
 */
int bb_issue(struct bb_bench_context *ctx, const struct bb_case *c, size_t first, size_t n,
             bool ends_row) BB_MUST_CHECK;

/* bb_case_launch - one operation of the case in slot number `slot` of the arena. */
int bb_case_launch(struct bb_bench_context *ctx, const struct bb_case *c, size_t slot) BB_MUST_CHECK;

/* bb_case_slots - slots of this case in this rank's arena, at least 2. */
size_t bb_case_slots(const struct bb_bench_context *ctx, const struct bb_case *c);

/* bb_bench_context_wait - until the stream is empty, under the deadline and with an eye on the communicator. */
int bb_bench_context_wait(struct bb_bench_context *ctx, const char *what) BB_MUST_CHECK;

#endif
