/*
 * program.h - the step program: the operations of one rank in one training step, as data.
 *
 * Operations are stored in the order in which the host issues them. Operations of one stream execute in order; `waits`
 * lists earlier operations of other streams that must complete first (CUDA events). Sends and receives with the same
 * call number are issued between one ncclGroupStart and one ncclGroupEnd. A program does not depend on CUDA, NCCL or
 * MPI: pure functions build it from (model, layout, rank), and it can be printed, compared, checked, counted, predicted
 * and run.
 *
 * All ranks of a role share one program. Peers and roots are therefore ranks inside the communicator; the layout
 * (layout.h) holds what differs between the ranks of a role, such as the instance of each group.
 */
#ifndef BB_PROXIES_STEP_PROGRAM_H
#define BB_PROXIES_STEP_PROGRAM_H

#include "bootstrap/base/err.h"
#include "collectives/ops/coll.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bb_kernel_list; /* cuda/work/kernel_list.h: GEMMs and memory-bound kernels */
struct bb_alltoallv;   /* alltoallv.h: number of rows from each rank to each rank */

/* BB_OP_ALLTOALLV is one operation that stands for all sends and receives of an alltoallv (alltoallv.h). */
enum bb_op_kind { BB_OP_COMPUTE, BB_OP_COLLECTIVE, BB_OP_SEND, BB_OP_RECV, BB_OP_ALLTOALLV };

enum bb_phase { BB_PHASE_FORWARD, BB_PHASE_BACKWARD, BB_PHASE_GRADIENTS, BB_PHASE_OPTIMIZER, BB_PHASES };

#define BB_NONE (-1)

/* How `peer` is encoded, for rank i of a communicator of n ranks. ABSOLUTE: the peer is rank p. OFFSET: the peer is
 * rank (i + p) mod n, where p may be negative; with OFFSET all ranks of a pipeline or ring can share one program. */
enum bb_peer_kind { BB_PEER_ABSOLUTE, BB_PEER_OFFSET };

struct bb_op {
    enum bb_op_kind kind;
    enum bb_coll_kind coll; /* BB_OP_COLLECTIVE only */
    enum bb_dtype_id dtype;
    enum bb_redop_id redop; /* collectives that reduce */
    int stream;             /* index into bb_program.streams */
    int comm;               /* index into bb_layout.comms, BB_NONE for compute */
    int call; /* operations of one NCCL group call have the same number and are adjacent; BB_NONE: not grouped */
    int peer; /* send, recv: the other rank; rooted collectives: the root (encoded as peer_kind); alltoallv: this
                 rank's index in the communicator */
    enum bb_peer_kind peer_kind;
    bool reversed;   /* alltoallv: send every row back to the rank that it came from (combine after dispatch) */
    bool concurrent; /* belongs to one of two concurrent threads (author/script.h), so the other thread probably
                        communicates */
    size_t count;    /* elements, equal to the count argument of the NCCL call; alltoallv: elements per row */
    int src, dst;    /* buffers (indices into bb_program.buffers), BB_NONE when unused */
    size_t src_offset, dst_offset;    /* elements */
    const struct bb_alltoallv *table; /* alltoallv: rows from each rank to each rank; owned by the step */
    double compute_us;                /* compute: duration of the timed kernel */
    const struct bb_kernel_list
        *work;      /* compute: real kernels to execute in place of the timed kernel, NULL: none; owned by the step */
    double flops;   /* compute: floating-point operations of the kernels, 0 when unknown */
    int work_times; /* how many times `work` is executed, one after another */
    enum bb_phase phase;
    int micro_batch, layer; /* BB_NONE where not applicable */
    const char *what;       /* label for reports: "activations", "gradients"; static, or owned by the builder */
    int first_wait, waits;  /* bb_program.wait_list[first_wait .. first_wait + waits): indices of operations to wait
                              for */
};

extern const char *const bb_phase_names[BB_PHASES]; /* "forward", "backward", "gradients", "optimizer" */

enum bb_buffer_use {
    BB_USE_PARAMETERS,
    BB_USE_GRADIENTS,
    BB_USE_OPTIMIZER,
    BB_USE_ACTIVATIONS,
    BB_USE_COMMUNICATION,
    BB_USES
};

extern const char *const bb_use_names[BB_USES]; /* "parameters", "gradients", ... */

struct bb_buffer {
    const char *name;
    enum bb_buffer_use use;
    size_t count; /* elements */
    enum bb_dtype_id dtype;
};

/* Stream 0 is always the compute stream. Every other stream carries the communication of one communicator. */
struct bb_stream_spec {
    const char *name; /* "compute", or the communicator's name */
    int comm;         /* BB_NONE for the compute stream */
};

#define BB_MAX_STREAMS 33
struct bb_buffer_access {
    int write;                /* the last operation that writes the buffer, BB_NONE: none yet */
    int last[BB_MAX_STREAMS]; /* per stream, the last operation that reads or writes the buffer, BB_NONE: none yet */
};

struct bb_program {
    struct bb_op *ops;
    size_t n_ops;
    int *previous_op;         /* [n_ops] the previous operation on the same stream, BB_NONE: none */
    int last[BB_MAX_STREAMS]; /* per stream, the last operation so far, BB_NONE: none */
    int *wait_list;
    size_t n_waits;
    struct bb_stream_spec *streams;
    int n_streams;
    struct bb_buffer *buffers;
    int n_buffers;
    struct bb_buffer_access *accesses; /* [n_buffers] accesses so far, for bb_program_add_dataflow */
};

/* bb_program_init makes an empty program with the compute stream. bb_program_release frees a program, also a
 * partially built one. */
int bb_program_init(struct bb_program *p) BB_MUST_CHECK;
void bb_program_release(struct bb_program *p);

/* bb_program_init_like - make an empty program with the streams and buffers of p. */
int bb_program_init_like(struct bb_program *out, const struct bb_program *p) BB_MUST_CHECK;

int bb_program_add_stream(struct bb_program *p, const char *name, int comm); /* returns its index, or -BB_EFAIL */
int bb_program_add_buffer(struct bb_program *p, const char *name, enum bb_buffer_use use, size_t count,
                          enum bb_dtype_id dtype); /* returns its index, or -BB_EFAIL */

/*
 * bb_program_add - append a copy of op that waits for given operations.
 *   op       its wait fields are ignored
 *   waits    [n] indices of earlier operations or BB_NONE. Redundant waits are dropped: operations of the same stream,
 *            and operations that recent waits already imply.
 *   Returns  its index, -BB_EFAIL when out of memory, or -BB_EUSAGE, after an error line, when the program is full
 */
int bb_program_add(struct bb_program *p, const struct bb_op *op, const int *waits, int n);
bool bb_program_is_full(const struct bb_program *p); /* true: the program has reached the maximum number of
                                                        operations of one rank */

/*
 * bb_program_add_dataflow - bb_program_add, plus the waits for data dependencies through buffers.
 *
 * The operation waits for the last writer of src (read after write), and for all readers and the writer of dst (write
 * after read, write after write). Dependencies are tracked per buffer, not per offset: operations that may run
 * concurrently need separate buffers.
 */
int bb_program_add_dataflow(struct bb_program *p, const struct bb_op *op, const int *waits, int n);

/* bb_program_last - return the last operation so far on a stream, or BB_NONE. */
int bb_program_last(const struct bb_program *p, int stream);

/* bb_op_kind_name - return "compute", "send", "recv", "alltoallv", or the name of the collective. */
const char *bb_op_kind_name(enum bb_op_kind kind, enum bb_coll_kind coll);

/* bb_op_peer - return the peer or root of an operation as a rank inside the communicator, for the rank `index` of n
 * ranks. */
int bb_op_peer(const struct bb_op *op, int index, int n);

/* bb_op_is_comm - return whether the operation communicates, that is, whether it is not compute. */
static inline bool bb_op_is_comm(const struct bb_op *op)
{
    return op->kind != BB_OP_COMPUTE;
}

/*
 * bb_program_filter - copy only the compute operations of a program, or only its communication.
 *   comm     true: keep communication; false: keep compute
 *   out      out: the copy, with all streams and buffers of p; the caller releases it
 *
 * A run times both copies to measure the slowdown under overlap. An operation that waited for a removed operation waits
 * for the dependencies of the removed operation instead, so the order of the kept operations is unchanged.
 */
int bb_program_filter(const struct bb_program *p, bool comm, struct bb_program *out) BB_MUST_CHECK;

/*
 * bb_op_payload_bytes - return the payload of an operation in bytes, as in the column `bytes` of the plan.
 *   n        ranks of the operation's communicator
 *
 * all_reduce, broadcast, reduce, send, recv: count * element size. all_gather, reduce_scatter, alltoall: the whole
 * array, n * count * element size. alltoallv: its sends plus its receives. Compute: 0.
 */
size_t bb_op_payload_bytes(const struct bb_op *op, int n);

/* bb_program_bytes - return the memory of all buffers with the given use, in bytes. */
size_t bb_program_bytes(const struct bb_program *p, enum bb_buffer_use use);

/* bb_program_work_bytes - return the memory that real kernels need in addition to the buffers
 * (cuda/work/kernel_list.h), in bytes; 0 without real kernels. */
size_t bb_program_work_bytes(const struct bb_program *p);

#endif
