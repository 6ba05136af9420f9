/*
 * script.h - the interface with which builders write step programs. A builder writes the program of a role like one
 * thread of a message-passing program, with calls that start an operation and calls that wait for started operations.
 * "Thread" means this logical thread, not a thread of the operating system.
 *
 * A communication operation runs on the stream of its communicator and starts after every operation that the thread has
 * waited for before. Until the thread waits for the operation, later operations may overlap it. The calls that start a
 * kernel also wait for the kernel, so the next operation depends on it. All other dependencies are derived from
 * buffers: a buffer is read only after it is written, and overwritten only when no earlier operation uses it
 * (bb_program_add_dataflow).
 *
 * Errors are sticky: after the first failure (out of memory, program full), later calls do nothing and bb_script_result
 * returns the error.
 */
#ifndef BB_PROXIES_AUTHOR_SCRIPT_H
#define BB_PROXIES_AUTHOR_SCRIPT_H

#include "proxies/step/config.h"
#include "proxies/step/step.h"

struct bb_script_fork; /* state of a fork: two concurrent logical threads (script_fork.c) */

struct bb_script {
    struct bb_program *program;
    struct bb_script_fork *fork; /* state of forks; NULL until the first bb_script_fork */
    enum bb_dtype_id dtype;
    bool timed; /* --compute timed: bb_script_compute adds timed kernels; false: bb_script_compute adds nothing */
    enum bb_redop_id redop;      /* reduction operation of the following collectives; initially BB_SUM */
    enum bb_peer_kind peer_kind; /* encoding of the peers in the following sends and receives; initially
                                    BB_PEER_OFFSET */
    size_t offset;               /* offset in the buffer of the following sends and receives, in elements */
    int call;                    /* number of the open group call; BB_NONE: no call is open */
    enum bb_phase phase;         /* training phase of the following operations */
    int micro_batch, layer;      /* labels of the following operations; BB_NONE: not applicable */
    /* indices in the program of the operations that the logical thread has waited for, at most one per stream; an
     * operation is omitted if another operation in this list depends on it */
    int after[BB_MAX_STREAMS], n_after;
    int newest; /* index of the most recently started operation; BB_NONE if the logical thread has called
                   bb_script_wait since then */
    bool failed;
    bool real; /* --compute gemm: bb_script_real_work adds kernels; false: bb_script_real_work adds nothing */
};

/* A lane: a communicator and the stream on which its operations run. */
struct bb_script_lane {
    int stream, comm;
};

/* Arguments of bb_script_alltoallv: `table` contains the number of rows for each pair of ranks, `width` is the
 * number of elements per row, `reversed` swaps senders and receivers, and `rank` is this rank's index in the lane's
 * communicator. */
struct bb_script_rows {
    const struct bb_alltoallv *table;
    int rank;
    size_t width;
    bool reversed;
};

/*
 * bb_script_init - attach a script to an empty program; the config determines the element type and the kind of compute.
 * bb_script_result - return 0, or the error of the first failed call, whose error line is already printed.
 * bb_script_lane - add a stream for a communicator of the layout; return both as a lane.
 * bb_script_buffer - add a buffer of `count` elements of s->dtype; return its index.
 */
void bb_script_init(struct bb_script *s, struct bb_program *program, const struct bb_proxy_config *config);
int bb_script_result(const struct bb_script *s) BB_MUST_CHECK;

struct bb_script_lane bb_script_lane(struct bb_script *s, const struct bb_layout *layout, int comm);
int bb_script_buffer(struct bb_script *s, const char *name, enum bb_buffer_use use, size_t count);

/* bb_script_compute - add a timed kernel of `us` microseconds that represents `flops` floating-point operations,
 * reads the buffer src and writes the buffer dst (BB_NONE: no buffer). Only with --compute timed; otherwise nothing
 * is added. */
void bb_script_compute(struct bb_script *s, const char *what, double us, double flops, int src, int dst);

/*
 * bb_script_work       - add `times` executions of a kernel list, with any value of --compute.
 * bb_script_real_work  - the same, but only with --compute gemm; otherwise nothing is added.
 */
void bb_script_work(struct bb_script *s, const char *what, const struct bb_kernel_list *work, int times, int src,
                    int dst);
void bb_script_real_work(struct bb_script *s, const char *what, const struct bb_kernel_list *work, int times, int src,
                         int dst);

/*
 * The calls below start one operation and return its index. `what` is a label for reports and must outlive the program.
 * Reductions use s->redop. The peers `to` and `from` are encoded as s->peer_kind: by default as an offset from this
 * rank's index in the communicator.
 */
int bb_script_collective(struct bb_script *s, struct bb_script_lane lane, const char *what, enum bb_coll_kind kind,
                         size_t count, int src, int dst);
int bb_script_send(struct bb_script *s, struct bb_script_lane lane, const char *what, int to, size_t count, int src);
int bb_script_recv(struct bb_script *s, struct bb_script_lane lane, const char *what, int from, size_t count, int dst);

/* bb_script_alltoallv - start an alltoallv among all ranks of the lane. The element type is the type of buffer src. */
int bb_script_alltoallv(struct bb_script *s, struct bb_script_lane lane, const char *what,
                        const struct bb_script_rows *rows, int src, int dst);

/*
 * For operations that the calls above do not cover:
 * bb_script_op     - return an operation of the lane with the script's current phase, micro-batch and layer.
 * bb_script_start  - start this operation after the caller has set the remaining fields.
 */
struct bb_op bb_script_op(const struct bb_script *s, struct bb_script_lane lane, const char *what);
int bb_script_start(struct bb_script *s, const struct bb_op *op);

/*
 * bb_script_group_start, bb_script_group_end - combine all calls in between into one NCCL group call, for messages that
 * must progress together. Counts, peers and communicators may differ. Wait for operations of the group only after
 * bb_script_group_end. Groups do not nest.
 */
void bb_script_group_start(struct bb_script *s);
void bb_script_group_end(struct bb_script *s);

/* bb_script_wait - wait for an operation. With BB_NONE, do nothing. */
void bb_script_wait(struct bb_script *s, int op);

/* bb_script_new_thread - start a new logical thread that depends only on `op`. */
void bb_script_new_thread(struct bb_script *s, int op);

/*
 * bb_script_fork - start two concurrent logical threads on this rank, which are independent of each other until the
 * join. Calls after bb_script_fork belong to the first thread, calls after bb_script_fork_second to the second thread.
 * bb_script_join - interleave both threads into one issue order and wait for both. When a kernel would have to wait for
 * communication that its own thread has started, the other thread continues, so one thread computes while the other
 * communicates.
 * bb_script_release - free the memory of forks.
 *
 * The threads need separate buffers. Forks do not nest.
 */
void bb_script_fork(struct bb_script *s);
void bb_script_fork_second(struct bb_script *s);
void bb_script_join(struct bb_script *s);
void bb_script_release(struct bb_script *s);

/* bb_script_newest_op - return the operation that was started last, so that the caller can change its fields; NULL
 * if none was started or the script has failed. */
struct bb_op *bb_script_newest_op(struct bb_script *s);

/* ---- patterns used by several proxies ---- */

/* bb_script_all_reduce - add a gradient buffer and a result buffer of `count` elements and start their all-reduce. */
int bb_script_all_reduce(struct bb_script *s, struct bb_script_lane lane, const char *what, size_t count);

/*
 * bb_script_exchange - send one message to each of n ranks and receive one from each of n ranks, for halos and rings.
 * Adds the buffers for the messages. All messages are in one group call, because every rank sends before it receives:
 * as separate calls, the sends of all ranks could wait for each other forever.
 *   to, from [n] peers, encoded as s->peer_kind
 *   count    elements of each message
 *   Returns  the index of the last operation
 */
int bb_script_exchange(struct bb_script *s, struct bb_script_lane lane, const char *what, const int *to,
                       const int *from, int n, size_t count);

/* bb_script_text - return `text`. Callers pass the result of bb_step_text: if `text` is NULL (out of memory), the
 * script is marked as failed. */
const char *bb_script_text(struct bb_script *s, const char *text);

/* bb_script_rooted_collective - like bb_script_collective, with rank `root` of the communicator as root. */
int bb_script_rooted_collective(struct bb_script *s, struct bb_script_lane lane, const char *what,
                                enum bb_coll_kind kind, int root, size_t count, int src, int dst);

/* Parameters of bb_script_memory_kernel, which adds `times` executions of a real (not timed) memory-bound kernel.
 * count: number of elements or, for an optimizer kernel, number of parameters; src, dst: buffers. */
struct bb_script_memory_kernel {
    enum bb_memory_kernel_kind kind;
    size_t count;
    int times, src, dst;
};
void bb_script_memory_kernel(struct bb_script *s, struct bb_step *step, const char *what,
                             const struct bb_script_memory_kernel *how);

/*
 * Both functions: add a kernel of a training step that belongs to no layer, only with --compute gemm.
 *
 * bb_script_accumulate - start to add the gradients of a micro-batch to the accumulated gradients. Among later
 * operations, only the next kernel waits for this kernel.
 *   work     made with bb_kernel_list_accumulate
 * bb_script_optimizer - execute the kernel of the optimizer (SGD or Adam) over `count` parameters, after all operations
 * that the thread has waited for.
 */
void bb_script_accumulate(struct bb_script *s, const struct bb_kernel_list *work);
void bb_script_optimizer(struct bb_script *s, struct bb_step *step, enum bb_memory_kernel_kind optimizer,
                         const char *what, size_t count);

#endif
