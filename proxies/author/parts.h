/*
 * parts.h - what builders are made of: pieces of a step that several parallelisms share. Each appends operations to one
 * rank's program; waits follow from the buffers (bb_program_flow). All return 0 or -BB_EFAIL.
 */
#ifndef BB_PROXIES_AUTHOR_PARTS_H
#define BB_PROXIES_AUTHOR_PARTS_H

#include "proxies/step/program.h"

/* Where a part's operations go and what they are called. */
struct bb_part {
    struct bb_program *program;
    int stream, comm; /* compute: 0, BB_NONE */
    enum bb_dtype_id dtype;
    enum bb_phase phase;
    int micro_batch, layer;
    const char *what;
};

/* bb_part_op - an operation of the part that is still to be told what it does: alone, without peer and buffers. */
struct bb_op bb_part_op(const struct bb_part *part);

/* bb_part_compute - a kernel that takes us microseconds (and stands for that many FLOPs), reads buffer src and writes
 * dst (either may be BB_NONE). */
int bb_part_compute(const struct bb_part *part, double us, double flops, int src, int dst) BB_MUST_CHECK;

/* bb_part_work - the same with real work, done so many times. */
int bb_part_work(const struct bb_part *part, const struct bb_kernel_list *work, int times, int src,
                 int dst) BB_MUST_CHECK;

/* bb_part_work_after - the same without buffers, after the n operations of after[]. */
int bb_part_work_after(const struct bb_part *part, const struct bb_kernel_list *work, int times, const int *after,
                       int n) BB_MUST_CHECK;

/*
 * bb_part_exchange - one message to the rank `to` places further in the communicator and one from `from` places further
 * (0: none; negative: before), in one group call when there are two, since a send alone would block the receive.
 */
struct bb_exchange {
    int to, from;
    size_t count; /* elements of each message */
    int src, dst; /* buffers                  */
};
int bb_part_exchange(const struct bb_part *part, const struct bb_exchange *exchange) BB_MUST_CHECK;

/*
 * bb_part_all_reduce - one all-reduce (sum, out of place, with buffers of its own) of count elements after the n
 * operations of after[].
 */
int bb_part_all_reduce(const struct bb_part *part, size_t count, const int *after, int n) BB_MUST_CHECK;

#endif
