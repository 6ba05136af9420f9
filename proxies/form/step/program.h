/*
 * program.h - the step program: the operations of one rank in one training step, as data.
 *
 * Operations are stored in the order in which the host issues them. Operations of one stream execute in order. The wait
 * list of an operation names earlier operations of other streams that must complete first (CUDA events). Sends and
 * receives with the same call number are issued between one ncclGroupStart and ncclGroupEnd. Programs are independent
 * of CUDA, NCCL and MPI: pure functions of (model, layout, rank) build them. A program can be printed, checked,
 * simulated, exported and executed.
 *
 * All ranks of a role (a set of ranks, see step.h) share one program. Peers and roots are therefore given as ranks in
 * the communicator. The layout (layout.h) contains what differs between the ranks of a role, such as the other members
 * of each group.
 */
#ifndef BB_PROXIES_FORM_STEP_PROGRAM_H
#define BB_PROXIES_FORM_STEP_PROGRAM_H

#include "bootstrap/base/err.h"
#include "collectives/ops/coll.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bb_kernel_list; /* cuda/work/kernel_list.h: GEMMs and memory-bound kernels */
struct bb_alltoallv;   /* alltoallv.h: number of rows that each rank sends to each other rank */

/* BB_OP_ALLTOALLV represents all sends and receives of one all-to-all with variable counts (alltoallv.h). */
enum bb_op_kind { BB_OP_COMPUTE, BB_OP_COLLECTIVE, BB_OP_SEND, BB_OP_RECV, BB_OP_ALLTOALLV };

enum bb_phase { BB_PHASE_FORWARD, BB_PHASE_BACKWARD, BB_PHASE_GRADIENTS, BB_PHASE_OPTIMIZER, BB_PHASES };

#define BB_NONE (-1)

/* How `peer` of an operation is encoded, for rank i of a communicator of n ranks. ABSOLUTE: rank `peer`. OFFSET:
 * rank (i + peer) mod n, where peer may be negative. With OFFSET, all ranks of a pipeline or ring can share one
 * program. */
enum bb_peer_kind { BB_PEER_ABSOLUTE, BB_PEER_OFFSET };

struct bb_op {
    enum bb_op_kind kind;
    enum bb_coll_kind coll; /* kind of collective; only for BB_OP_COLLECTIVE */
    enum bb_dtype_id dtype;
    enum bb_redop_id redop; /* reduction operation, for collectives that reduce */
    int stream;             /* index into bb_program.streams of the stream that executes the operation */
    int comm;               /* index into bb_layout.comms of the communicator; BB_NONE for compute */
    int call; /* number of the NCCL group call (ncclGroupStart to ncclGroupEnd) that contains the operation, BB_NONE:
                 none. Operations of one group call are adjacent in the program */
    int peer; /* send: rank of the receiver; recv: rank of the sender; collective with a root: rank of the root; all
                 three encoded as peer_kind. alltoallv: this rank's own index in the communicator */
    enum bb_peer_kind peer_kind;
    bool reversed; /* alltoallv: return every row to the rank that sent it (the combine after a dispatch) */
    /* the operation was added between bb_script_fork and bb_script_join (author/script.h), where two independent
     * sequences of operations alternate, so compute and communication of this rank probably overlap at this point */
    bool concurrent;
    /* in training the host reads the result before it issues the next operation: it needs the number of tokens per expert */
    bool host_reads;
    size_t count; /* elements, equal to the count argument of the NCCL call; alltoallv: elements per row */
    int src, dst; /* indices into bb_program.buffers of the buffer that is read and the buffer that is written;
                     BB_NONE: no buffer */
    size_t src_offset, dst_offset;    /* offsets of the data in the buffers src and dst, in elements */
    const struct bb_alltoallv *table; /* alltoallv: number of rows that each rank sends to each other rank; owned by
                                         the step */
    double compute_us;                /* compute: duration of the timed kernel, in microseconds */
    /* compute: real kernels that run instead of the timed kernel; NULL: the timed kernel runs. Owned by the step */
    const struct bb_kernel_list *work;
    double flops;   /* compute: floating-point operations of the kernels; 0 when unknown */
    int work_times; /* compute with a kernel list in `work`: number of consecutive executions of the list */
    /* compute: bytes of activations that real training stores on this rank from the begin of the operation on, and
     * bytes that are released at the end of the operation */
    double stores, releases;
    enum bb_phase phase;
    int micro_batch, layer; /* index of the micro-batch and of the layer to which the operation belongs; BB_NONE
                               where not applicable */
    const char *what;       /* label for reports: "activations", "gradients"; must outlive the program */
    int first_wait, waits;  /* the operation waits for the operations with the indices bb_program.wait_list[first_wait
                              .. first_wait + waits) */
};

extern const char *const bb_phase_names[BB_PHASES]; /* names of the training phases: "forward", "backward",
                                                       "gradients", "optimizer" */

enum bb_buffer_use {
    BB_USE_PARAMETERS,
    BB_USE_GRADIENTS,
    BB_USE_OPTIMIZER,
    BB_USE_ACTIVATIONS,
    BB_USE_COMMUNICATION,
    BB_USES
};

extern const char *const bb_use_names[BB_USES]; /* names of the uses: "parameters", "gradients", ... */

struct bb_buffer {
    const char *name;
    enum bb_buffer_use use;
    size_t count; /* size of the buffer in elements of type dtype */
    enum bb_dtype_id dtype;
};

/* Stream 0 is always the compute stream. Every other stream carries the communication of one communicator. */
struct bb_stream_spec {
    const char *name; /* "compute", or the communicator's name */
    int comm;         /* index into bb_layout.comms of the communicator whose operations the stream executes; BB_NONE:
                 compute stream */
};

#define BB_MAX_STREAMS 33
struct bb_buffer_access {
    int write; /* index of the latest operation in the program that writes the buffer; BB_NONE: none yet */
    int last[BB_MAX_STREAMS]; /* for each stream, index of its latest operation in the program that reads or writes
                                 the buffer; BB_NONE: none yet */
};

struct bb_program {
    struct bb_op *ops;
    size_t n_ops;
    int *previous_op;         /* [n_ops] index of the previous operation on the same stream; BB_NONE: none */
    int last[BB_MAX_STREAMS]; /* for each stream, index of its latest operation in the program; BB_NONE: none yet */
    int *wait_list;
    size_t n_waits;
    struct bb_stream_spec *streams;
    int n_streams;
    struct bb_buffer *buffers;
    int n_buffers;
    struct bb_buffer_access *accesses; /* [n_buffers] latest operations that use each buffer; kept up to date by
                                          bb_program_add_dataflow */
    int rc; /* 0, or the error (-BB_EUSAGE, -BB_EFAIL) of the first operation or stream that did not fit into the
               program, whose error line is already printed */
};

/* bb_program_init - make an empty program with the compute stream. */
void bb_program_init(struct bb_program *p);
void bb_program_release(struct bb_program *p);

/* bb_program_init_like - make a program without operations, with the same streams and buffers as p. */
void bb_program_init_like(struct bb_program *out, const struct bb_program *p);

/* Both functions return the index of the new stream or buffer. If the program already has BB_MAX_STREAMS streams,
 * bb_program_add_stream prints an error line, sets p->rc and returns the index of the last stream. */
int bb_program_add_stream(struct bb_program *p, const char *name, int comm);
int bb_program_add_buffer(struct bb_program *p, const char *name, enum bb_buffer_use use, size_t count,
                          enum bb_dtype_id dtype);

/*
 * bb_program_add - append a copy of op that waits for the given operations.
 *   op       operation to copy; its fields first_wait and waits are ignored
 *   waits    [n] indices of earlier operations, or BB_NONE. Redundant waits are dropped: waits for operations of the
 *            same stream, and waits that follow from the remaining waits or from recent operations of op's stream.
 *   Returns  the operation's index, or BB_NONE when the program is full. The first operation that does not fit prints
 *            an error line and sets p->rc
 */
int bb_program_add(struct bb_program *p, const struct bb_op *op, const int *waits, int n);

/*
 * bb_program_add_dataflow - append a copy of op like bb_program_add, with additional waits that follow from the buffers
 * that op reads and writes.
 *
 * The operation waits for the last operation that wrote src (read after write), and for all operations that read or
 * wrote dst (write after read, write after write). Dependencies are tracked per buffer, not per offset: operations that
 * may run concurrently need separate buffers.
 */
int bb_program_add_dataflow(struct bb_program *p, const struct bb_op *op, const int *waits, int n);

/* bb_op_kind_name - return the name of a kind of operation for reports: "compute", "send", "recv", "alltoallv", or
 * for BB_OP_COLLECTIVE the name of the collective `coll`. */
const char *bb_op_kind_name(enum bb_op_kind kind, enum bb_coll_kind coll);

/* bb_op_peer - return the peer or root of an operation, as a rank in its communicator. index: rank in the
 * communicator of the rank that executes the operation. n: number of ranks of the communicator. */
int bb_op_peer(const struct bb_op *op, int index, int n);

/* bb_op_is_comm - return whether the operation communicates; true for all kinds of operations except compute. */
static inline bool bb_op_is_comm(const struct bb_op *op)
{
    return op->kind != BB_OP_COMPUTE;
}

/* bb_op_launches - returns whether the host launches a kernel or calls NCCL for the operation. It does not for a
 * compute operation of 0 us without kernels. */
static inline bool bb_op_launches(const struct bb_op *op)
{
    return bb_op_is_comm(op) || op->compute_us > 0 || op->work;
}

/*
 * bb_program_filter - copy either the compute operations or the communication operations of a program. A run times the
 * two copies separately to measure how much compute and communication slow each other down when they overlap.
 *   comm     true: copy communication; false: copy compute
 *   out      out: the copy, with all streams and buffers of p; the caller releases it. The copy has at most as many
 *            operations as p
 *
 * If an operation waits for an operation that is not copied, the copy waits for the dependencies of that operation
 * instead, so the order of the copied operations is unchanged.
 */
void bb_program_filter(const struct bb_program *p, bool comm, struct bb_program *out);

/*
 * bb_op_payload_bytes - return the payload of an operation in bytes, as shown in the column `bytes` of the plan.
 *   n        number of ranks of the operation's communicator
 *
 * all_reduce, broadcast, reduce, send, recv: count * element size. all_gather, reduce_scatter, alltoall: the whole
 * array, n * count * element size. alltoallv: the larger of the bytes sent and received. Compute: 0.
 */
size_t bb_op_payload_bytes(const struct bb_op *op, int n);

/* bb_program_bytes - return the total size in bytes of all buffers of the program that have the given use. */
size_t bb_program_bytes(const struct bb_program *p, enum bb_buffer_use use);

/* bb_program_work_bytes - return the bytes of GPU memory that the program's real kernels (cuda/work/kernel_list.h)
 * need in addition to the buffers; 0 if the program has no real kernels. */
size_t bb_program_work_bytes(const struct bb_program *p);

/* bb_program_memory - return the bytes of GPU memory that the program needs: all buffers and its real kernels. */
size_t bb_program_memory(const struct bb_program *p);

#endif
