/*
 * script.h - the interface with which builders write step programs (see step/program.h). A builder writes the program
 * of a role (a set of ranks with the same program) like one thread of a message-passing program, with calls that start
 * an operation and calls that wait for started operations. "Thread" means this logical thread, not a thread of the
 * operating system.
 *
 * A communication operation runs on the stream of its communicator and starts after every operation that the thread has
 * waited for before. Until the thread waits for the operation, later operations may overlap it. The calls that start a
 * kernel also wait for the kernel, so the next operation depends on it. All other dependencies are derived from
 * buffers: a buffer is read only after it is written, and overwritten only when no earlier operation uses it
 * (bb_program_add_dataflow).
 *
 * Errors are sticky: the first operation that does not fit into the program prints an error line, later calls add no
 * operations, and bb_script_result returns the error.
 */
#ifndef BB_PROXIES_FORM_AUTHOR_SCRIPT_H
#define BB_PROXIES_FORM_AUTHOR_SCRIPT_H

#include "proxies/form/step/config.h"
#include "proxies/form/step/step.h"

/* Operations that a logical thread has waited for, at most one per stream. An operation is left out if another one in
 * this list depends on it. */
struct bb_script_waits {
    int ops[BB_MAX_STREAMS], n; /* program indices, or in a fork numbers of deferred operations (script_fork.h) */
};

struct bb_script_fork; /* state of a fork: two concurrent logical threads (script_fork.c) */

struct bb_script {
    struct bb_program *program;
    struct bb_script_fork *fork; /* operations stored between forks and joins (forks start two concurrent logical
                                    threads); NULL until the first bb_script_fork */
    enum bb_dtype_id dtype;
    double memory_gbps; /* rate of timed memory-bound kernels, 1e9 bytes/s */
    bool timed; /* true: --compute timed, for which bb_script_compute adds timed kernels; false: it adds nothing */
    enum bb_redop_id redop;      /* reduction operation of collectives that are started from now on; initially BB_SUM */
    enum bb_peer_kind peer_kind; /* how sends and receives that are started from now on encode the peer rank;
                                    initially BB_PEER_OFFSET */
    int call; /* number of the open NCCL group call, which new operations join; BB_NONE: no group call is open */
    enum bb_phase phase;    /* training phase (forward, backward, gradients, optimizer) of operations that are started
                            from now on */
    int micro_batch, layer; /* indices of the micro-batch and of the layer, as labels of operations that are started
                               from now on; BB_NONE: no label */
    struct bb_script_waits after;
    double stores; /* bytes of activations that the next compute operation stores (bb_script_store) */
    int compute;   /* index of the most recently started compute operation; BB_NONE: none */
    int newest;    /* index of the most recently started operation; BB_NONE if the logical thread has called
                   bb_script_wait since then */
    bool real;     /* true: --compute gemm, for which bb_script_real_work adds real kernels; false: it adds nothing */
};

/* A lane: a communicator (index into bb_layout.comms) and the stream (index into bb_program.streams) on which its
 * operations run. */
struct bb_script_lane {
    int stream, comm;
};

/* Arguments of bb_script_alltoallv. table: number of rows for each pair of ranks; rank: this rank's index in the
 * communicator; width: elements per row; reversed: true: senders and receivers of the table are swapped. */
struct bb_script_rows {
    const struct bb_alltoallv *table;
    int rank;
    size_t width;
    bool reversed;
};

/*
 * bb_script_init - attach a script to an empty program. config determines the element type and the kind of compute.
 * bb_script_result - return 0, or bb_program.rc, an error whose line is already printed.
 * bb_script_lane - return the lane of communicator `comm` of the layout; the first call adds its stream. With BB_NONE,
 * return a lane without a communicator: stream 0, the compute stream.
 * bb_script_buffer - add a buffer of `count` elements of type s->dtype; return its index in the program.
 */
void bb_script_init(struct bb_script *s, struct bb_program *program, const struct bb_proxy_config *config);
int bb_script_result(const struct bb_script *s) BB_MUST_CHECK;

struct bb_script_lane bb_script_lane(struct bb_script *s, const struct bb_layout *layout, int comm);
int bb_script_buffer(struct bb_script *s, const char *name, enum bb_buffer_use use, size_t count);

/* bb_script_compute - with --compute timed, add a timed kernel: it takes `us` microseconds, represents `flops`
 * floating-point operations, reads the buffer src and writes the buffer dst (BB_NONE: no buffer). With other values
 * of --compute, add nothing. */
void bb_script_compute(struct bb_script *s, const char *what, double us, double flops, int src, int dst);

/*
 * bb_script_store - the activations that the next compute operation stores in real training take `bytes` bytes.
 * bb_script_release_stored - `bytes` bytes of activations are released at the end of the latest compute operation.
 */
void bb_script_store(struct bb_script *s, double bytes);
void bb_script_release_stored(struct bb_script *s, double bytes);

/*
 * Both functions: add a compute operation that executes a list of real kernels `times` times.
 * bb_script_work       - with any value of --compute.
 * bb_script_real_work  - only with --compute gemm; with other values, add nothing.
 */
void bb_script_work(struct bb_script *s, const char *what, const struct bb_kernel_list *work, int times, int src,
                    int dst);
void bb_script_real_work(struct bb_script *s, const char *what, const struct bb_kernel_list *work, int times, int src,
                         int dst);

/* bb_script_host_copy - only with --compute gemm: start a list of copies between GPU and host memory on the stream
 * "host link" of the program, which the first call adds. Returns the operation's index, or BB_NONE. */
int bb_script_host_copy(struct bb_script *s, const char *what, const struct bb_kernel_list *work);

/*
 * The calls below start one operation and return its index. `what` is a label for reports and must outlive the program.
 * Reductions use s->redop. The peers `to` and `from` are encoded as s->peer_kind: by default as an offset from this
 * rank's index in the communicator.
 */
int bb_script_collective(struct bb_script *s, struct bb_script_lane lane, const char *what, enum bb_coll_kind kind,
                         size_t count, int src, int dst);
int bb_script_send(struct bb_script *s, struct bb_script_lane lane, const char *what, int to, size_t count, int src);
int bb_script_recv(struct bb_script *s, struct bb_script_lane lane, const char *what, int from, size_t count, int dst);

/* bb_script_alltoallv - start an alltoallv among all ranks of the communicator lane.comm. The element type is the
 * type of buffer src. */
int bb_script_alltoallv(struct bb_script *s, struct bb_script_lane lane, const char *what,
                        const struct bb_script_rows *rows, int src, int dst);

/*
 * For operations that no other function of this header can start:
 * bb_script_op     - return an operation on lane.comm and lane.stream with the script's phase, micro-batch and layer.
 * bb_script_start  - start the operation `op` from bb_script_op, after the caller has set its remaining fields.
 */
struct bb_op bb_script_op(const struct bb_script *s, struct bb_script_lane lane, const char *what);
int bb_script_start(struct bb_script *s, const struct bb_op *op);

/*
 * bb_script_group_start, bb_script_group_end - combine all communication that is started between these calls into one
 * NCCL group call, for messages that must progress together. Counts, peers and communicators may differ. Wait for
 * operations of a group call only after bb_script_group_end. Group calls do not nest.
 */
void bb_script_group_start(struct bb_script *s);
void bb_script_group_end(struct bb_script *s);

/* bb_script_wait - make the following operations depend on operation `op`. With BB_NONE, do nothing. */
void bb_script_wait(struct bb_script *s, int op);

/* bb_script_new_thread - start a new logical thread. Its operations depend only on operation `op` (BB_NONE: on
 * none), not on the operations that the previous thread waited for. */
void bb_script_new_thread(struct bb_script *s, int op);

/*
 * bb_script_fork - start two concurrent logical threads on this rank, which are independent of each other until the
 * join. Calls after bb_script_fork belong to the first thread, calls after bb_script_fork_second to the second thread.
 * bb_script_join - interleave the operations of both threads into one issue order and wait for both threads. When a
 * kernel would have to wait for communication that its own thread has started, the other thread continues, so that one
 * thread computes while the other communicates.
 * bb_script_release - free the memory of all forks.
 *
 * The threads need separate buffers. Forks do not nest.
 */
void bb_script_fork(struct bb_script *s);
void bb_script_fork_second(struct bb_script *s);
void bb_script_join(struct bb_script *s);
void bb_script_release(struct bb_script *s);

/* bb_script_newest_op - return the most recently started operation, so that the caller can change its fields; NULL
 * if no operation was started. */
struct bb_op *bb_script_newest_op(struct bb_script *s);

/* ---- patterns used by several proxies ---- */

/* bb_script_all_reduce - add a gradient buffer and a result buffer of `count` elements and start their all-reduce. */
int bb_script_all_reduce(struct bb_script *s, struct bb_script_lane lane, const char *what, size_t count);

/*
 * bb_script_exchange - send one message to each of n ranks and receive one message from each of n ranks, for halos and
 * rings. Adds the buffers for the messages. All messages are in one NCCL group call, because every rank sends before it
 * receives: as separate calls, the sends of all ranks could block each other forever.
 *   to, from [n] ranks to send to and to receive from, encoded as s->peer_kind
 *   count    elements of each message
 *   Returns  the program index of the operation added last
 */
int bb_script_exchange(struct bb_script *s, struct bb_script_lane lane, const char *what, const int *to,
                       const int *from, int n, size_t count);

/* Synchronized batch norm (PyTorch's SyncBatchNorm) in one program: the communicator, and the buffers with the values
 * of this rank and of all ranks, which all norm layers share. */
struct bb_script_norm {
    struct bb_script_lane lane; /* lane.comm is BB_NONE: no exchange */
    int own, all;
};

/*
 * bb_script_norm_open - add the stream and the buffers.
 *   comm      index of the communicator of the ranks that share their statistics; BB_NONE: no exchange
 *   ranks     number of its ranks
 *   channels  largest number of channels of a norm layer
 * bb_script_norm_exchange - add the exchange of a norm layer and wait for it; add nothing if channels is 0. The values
 * are float with any element type of the script.
 *   forward   all-gather of the mean and the inverse standard deviation of each channel, and the number of elements
 *   backward  all-reduce of two sums per channel: the output gradients, and their products with the normalized input
 */
void bb_script_norm_open(struct bb_script_norm *norm, struct bb_script *s, const struct bb_layout *layout, int comm,
                         int ranks, int channels);
void bb_script_norm_exchange(const struct bb_script_norm *norm, struct bb_script *s, int channels, bool backward);

/* bb_script_rooted_collective - start a collective with a root, for example a broadcast. root: rank of the root in
 * the communicator lane.comm. All else as in bb_script_collective. */
int bb_script_rooted_collective(struct bb_script *s, struct bb_script_lane lane, const char *what,
                                enum bb_coll_kind kind, int root, size_t count, int src, int dst);

/*
 * bb_script_memory_kernel - add an operation that executes a real (not timed) memory-bound kernel `times` times.
 *   count     number of elements or, for an optimizer kernel, number of parameters
 *   src, dst  indices of the buffers that the kernel reads and writes; BB_NONE: no buffer
 */
void bb_script_memory_kernel(struct bb_script *s, struct bb_step *step, const char *what,
                             enum bb_memory_kernel_kind kind, size_t count, int times, int src, int dst);

/*
 * Both functions: with --compute gemm, add a kernel of a training step that belongs to no layer. With other values of
 * --compute, add nothing.
 *
 * bb_script_accumulate - start to add the gradients of a micro-batch to the accumulated gradients. Of the operations
 * that follow, only the next kernel waits for this kernel.
 *   work     made with bb_kernel_list_accumulate
 * bb_script_optimizer - execute the kernel of the optimizer (SGD or Adam) over `count` parameters, after all operations
 * that the logical thread has waited for.
 */
void bb_script_accumulate(struct bb_script *s, const struct bb_kernel_list *work);
void bb_script_optimizer(struct bb_script *s, struct bb_step *step, enum bb_memory_kernel_kind optimizer,
                         const char *what, size_t count);

#endif
