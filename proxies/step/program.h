/*
 * program.h - the step program: what one rank does in one training step, as data.
 *
 * Operations stand in host issue order. Those of one stream run in order; `waits` names earlier operations of other
 * streams. Sends and receives with one call number are issued between one ncclGroupStart and ncclGroupEnd. A program
 * knows nothing of CUDA, NCCL or MPI: it is built by pure functions from (model, layout, rank), can be printed,
 * compared, checked, counted, predicted and run.
 *
 * Ranks of one role share one program: peers and roots are ranks inside the communicator, so that what differs between
 * the ranks of a role (which instance of the group, which member of it) stands in the layout (layout.h), not here.
 */
#ifndef BB_PROXIES_STEP_PROGRAM_H
#define BB_PROXIES_STEP_PROGRAM_H

#include "bootstrap/base/err.h"
#include "collectives/ops/coll.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bb_kernel_list; /* cuda/work/kernel_list.h: matrix products and passes over memory */
struct bb_alltoallv;   /* alltoallv.h: who sends how much to whom                         */

/* BB_OP_ALLTOALLV is one operation for the sends and receives of an uneven exchange (alltoallv.h). */
enum bb_op_kind { BB_OP_COMPUTE, BB_OP_COLLECTIVE, BB_OP_SEND, BB_OP_RECV, BB_OP_ALLTOALLV };

enum bb_phase { BB_PHASE_FORWARD, BB_PHASE_BACKWARD, BB_PHASE_GRADIENTS, BB_PHASE_OPTIMIZER, BB_PHASES };

#define BB_NONE (-1)

/* What a peer is relative to: inside the communicator of n ranks, a rank i means peer p as it stands (ABSOLUTE) or
 * (i + p) mod n (OFFSET, p may be negative: neighbours of pipelines and rings, whose ranks then share one program). */
enum bb_peer_kind { BB_PEER_ABSOLUTE, BB_PEER_OFFSET };

struct bb_op {
    enum bb_op_kind kind;
    enum bb_coll_kind coll; /* for BB_OP_COLLECTIVE                                                            */
    enum bb_dtype_id dtype;
    enum bb_redop_id redop; /* for collectives that reduce                                                     */
    int stream;             /* index into bb_program.streams                                                   */
    int comm;               /* index into bb_layout.comms, BB_NONE for compute                                 */
    int call;               /* operations of one NCCL group call share it and stand side by side; BB_NONE: alone */
    int peer;               /* send, recv: the other rank; rooted collectives: the root (see peer_kind);
                               alltoallv: the own place in the communicator                                 */
    enum bb_peer_kind peer_kind;
    bool reversed;    /* alltoallv: each row goes back where the table has it from                                 */
    bool concurrent;  /* of one of two threads side by side (author/script.h): communication of the other is likely  */
    size_t count; /* elements, exactly the count argument of the NCCL call; alltoallv: of a row      */
    int src, dst; /* buffers (indices into bb_program.buffers), BB_NONE where there is none          */
    size_t src_offset, dst_offset; /* elements                                                                      */
    const struct bb_alltoallv *table; /* alltoallv: rows from each place to each; owned by the step                   */
    double compute_us; /* compute: time of the timed stand-in                                             */
    const struct bb_kernel_list
        *work;      /* compute: the real work instead of the stand-in, NULL: none; owned by the step   */
    double flops;   /* compute: floating-point operations of the real work, 0 where unknown            */
    int work_times; /* how often it is done, one after another                                         */
    enum bb_phase phase;
    int micro_batch, layer; /* BB_NONE where they don't apply                                                  */
    const char *what;       /* what it stands for: "activations", "gradients"; static or owned by the builder  */
    int first_wait, waits;  /* bb_program.wait_list[first_wait .. first_wait + waits): indices of operations   */
};

extern const char *const bb_phase_names[BB_PHASES]; /* "forward", "backward", "gradients", "optimizer"              */

enum bb_buffer_use {
    BB_USE_PARAMETERS,
    BB_USE_GRADIENTS,
    BB_USE_OPTIMIZER,
    BB_USE_ACTIVATIONS,
    BB_USE_COMMUNICATION,
    BB_USES
};

extern const char *const bb_use_names[BB_USES]; /* "parameters", "gradients", ...                               */

struct bb_buffer {
    const char *name;
    enum bb_buffer_use use;
    size_t count; /* elements                                                                        */
    enum bb_dtype_id dtype;
};

/* Streams: number 0 is always the compute stream; the others carry communication, one for each communicator. */
struct bb_stream_spec {
    const char *name; /* "compute", or the communicator's name                                           */
    int comm;         /* BB_NONE for compute                                                             */
};

#define BB_MAX_STREAMS 33
struct bb_buffer_access {
    int write;                /* the last operation that writes the buffer, BB_NONE                              */
    int last[BB_MAX_STREAMS]; /* of each stream, the last that reads or writes it, BB_NONE                       */
};

struct bb_program {
    struct bb_op *ops;
    size_t n_ops;
    int *previous_op;         /* [n_ops] the operation before it on its stream, BB_NONE                          */
    int last[BB_MAX_STREAMS]; /* the last of each stream so far, BB_NONE                                         */
    int *wait_list;
    size_t n_waits;
    struct bb_stream_spec *streams;
    int n_streams;
    struct bb_buffer *buffers;
    int n_buffers;
    struct bb_buffer_access
        *accesses; /* [n_buffers] who used it so far: see bb_program_add_dataflow                             */
};

/* A life: init gives an empty program with the compute stream; release frees all and is fine on a half-built one. */
int bb_program_init(struct bb_program *p) BB_MUST_CHECK;
void bb_program_release(struct bb_program *p);

/* bb_program_init_like - an empty program with the streams and buffers of p. */
int bb_program_init_like(struct bb_program *out, const struct bb_program *p) BB_MUST_CHECK;

int bb_program_add_stream(struct bb_program *p, const char *name, int comm); /* its index, or -BB_EFAIL              */
int bb_program_add_buffer(struct bb_program *p, const char *name, enum bb_buffer_use use, size_t count,
                          enum bb_dtype_id dtype); /* its index, or -BB_EFAIL              */

/* bb_program_add - append a copy of op (its wait fields are ignored) that waits for the n operations of waits[]
 * (earlier ones; left out are BB_NONE, those of its own stream, and those that follow from others not far back).
 * Returns its index, -BB_EFAIL without memory, or -BB_EUSAGE if the program is full (said). */
int bb_program_add(struct bb_program *p, const struct bb_op *op, const int *waits, int n);
bool bb_program_is_full(const struct bb_program *p); /* no step that can be run has so many operations */

/*
 * bb_program_add_dataflow - bb_program_add with the waits that its buffers demand on top of waits[]: it waits for whoever wrote
 * src, and for whoever reads or wrote dst, so that nothing is read before it is there or overwritten while in flight.
 * Whole buffers count, offsets don't: operations that may run side by side want buffers of their own.
 */
int bb_program_add_dataflow(struct bb_program *p, const struct bb_op *op, const int *waits, int n);

/* bb_program_last - the last operation so far on that stream, or BB_NONE. */
int bb_program_last(const struct bb_program *p, int stream);

/* bb_op_kind_name - "compute", "send", "recv", "alltoallv", or the collective's name. */
const char *bb_op_kind_name(enum bb_op_kind kind, enum bb_coll_kind coll);

/* bb_op_peer - rank inside the communicator of n ranks that the rank `index` means by its peer or root. */
int bb_op_peer(const struct bb_op *op, int index, int n);

/* bb_op_is_comm - whether the operation communicates (is no compute). */
static inline bool bb_op_is_comm(const struct bb_op *op)
{
    return op->kind != BB_OP_COMPUTE;
}

/*
 * bb_program_filter - *out = the compute operations of p alone, or (comm) its communication alone: what the second
 * overlap figure runs. An operation that waited for one that is gone waits for what that one waited for, so the order
 * of the rest stays. Streams and buffers are all kept. out is an own program, to be released.
 */
int bb_program_filter(const struct bb_program *p, bool comm, struct bb_program *out) BB_MUST_CHECK;

/* bb_op_payload_bytes - the payload of an operation as in the plan's `bytes`: all_reduce, broadcast, reduce, send, recv
 * count*e; all_gather, reduce_scatter, alltoall the full array, n*count*e; alltoallv the sum of its sends and receives.
 * 0 for compute. n: ranks of its communicator. */
size_t bb_op_payload_bytes(const struct bb_op *op, int n);

/* bb_program_bytes - memory of the buffers of one use. */
size_t bb_program_bytes(const struct bb_program *p, enum bb_buffer_use use);

/* bb_program_work_bytes - memory that running its real work takes beside the buffers (cuda/work/kernel_list.h); 0
 * without any. */
size_t bb_program_work_bytes(const struct bb_program *p);

#endif
