/*
 * script.h - the authoring interface of step programs. A builder writes the program of a role as one thread of a
 * message-passing program: calls that start an operation, and waits for started operations.
 *
 * A started operation runs on the stream of its communicator and depends on every operation that the thread has waited
 * for before. Until the thread waits for it, later operations may overlap it. A kernel is waited for at once, so the
 * next operation depends on it. The only other dependencies are those through buffers: no buffer is read before it is
 * written or overwritten while it is in use (bb_program_add_dataflow).
 *
 * Errors are sticky: after the first failure (out of memory, program full) later calls do nothing, and bb_script_result
 * returns the error.
 */
#ifndef BB_PROXIES_AUTHOR_SCRIPT_H
#define BB_PROXIES_AUTHOR_SCRIPT_H

#include "proxies/step/config.h"
#include "proxies/step/step.h"

struct bb_script_fork; /* two concurrent threads while they are written (script_fork.c) */

struct bb_script {
    struct bb_program *program;
    struct bb_script_fork *fork; /* NULL until the first bb_script_fork */
    enum bb_dtype_id dtype;
    bool timed;                  /* false: kernels are omitted */
    enum bb_redop_id redop;      /* reduction of the following collectives; BB_SUM initially */
    enum bb_peer_kind peer_kind; /* encoding of peers of the following sends and receives; BB_PEER_OFFSET initially */
    size_t offset;               /* buffer offset of the following sends and receives, in elements */
    int call;                    /* number of the open group call, BB_NONE: none */
    enum bb_phase phase;         /* label of the following operations */
    int micro_batch, layer;      /* labels of the following operations; BB_NONE where not applicable */
    int after[BB_MAX_STREAMS], n_after; /* operations that the thread has waited for, without those that others
                                           imply: at most one per stream */
    int newest;                         /* the latest operation, if nothing was waited for after it; else BB_NONE */
    bool failed;
    bool real; /* --compute gemm: bb_script_real_work writes kernels, bb_script_compute writes nothing */
};

/* A lane: a communicator and the stream on which its operations run. */
struct bb_script_lane {
    int stream, comm;
};

/* Data of an alltoallv (proxies/step/alltoallv.h): `width` elements per row of the table, sent in the opposite
 * direction when `reversed` is set. `rank` is this rank's index in the lane's communicator. */
struct bb_script_rows {
    const struct bb_alltoallv *table;
    int rank;
    size_t width;
    bool reversed;
};

/*
 * bb_script_init - start to write an empty program, with the element type and the kind of compute of the config.
 * bb_script_result - return 0, or the error of the first failed call (already reported).
 * bb_script_lane - add a stream for a communicator of the layout.
 * bb_script_buffer - add a buffer of `count` elements of s->dtype; returns its index.
 */
void bb_script_init(struct bb_script *s, struct bb_program *program, const struct bb_proxy_config *config);
int bb_script_result(const struct bb_script *s) BB_MUST_CHECK;

struct bb_script_lane bb_script_lane(struct bb_script *s, const struct bb_layout *layout, int comm);
int bb_script_buffer(struct bb_script *s, const char *name, enum bb_buffer_use use, size_t count);

/* Execute a timed kernel of `us` microseconds that represents `flops` operations; reads src and writes dst (BB_NONE:
 * no buffer). */
void bb_script_compute(struct bb_script *s, const char *what, double us, double flops, int src, int dst);

/* bb_script_work - execute a kernel list `times` times, for every kind of compute. bb_script_real_work does so only
 * with --compute gemm. */
void bb_script_work(struct bb_script *s, const char *what, const struct bb_kernel_list *work, int times, int src,
                    int dst);
void bb_script_real_work(struct bb_script *s, const char *what, const struct bb_kernel_list *work, int times, int src,
                         int dst);

/*
 * The calls below start one operation and return its index. `what` must outlive the program. Reductions use s->redop.
 * `to` and `from` are encoded as s->peer_kind: by default relative to this rank's index in the communicator.
 */
int bb_script_collective(struct bb_script *s, struct bb_script_lane lane, const char *what, enum bb_coll_kind kind,
                         size_t count, int src, int dst);
int bb_script_send(struct bb_script *s, struct bb_script_lane lane, const char *what, int to, size_t count, int src);
int bb_script_recv(struct bb_script *s, struct bb_script_lane lane, const char *what, int from, size_t count, int dst);

/* Start an alltoallv with every other rank of the lane; the element type is that of src. */
int bb_script_alltoallv(struct bb_script *s, struct bb_script_lane lane, const char *what,
                        const struct bb_script_rows *rows, int src, int dst);

/* For operations that the calls above do not cover: bb_script_op makes an operation of the lane with the script's
 * labels, the caller fills in the rest, and bb_script_start starts it. */
struct bb_op bb_script_op(const struct bb_script *s, struct bb_script_lane lane, const char *what);
int bb_script_start(struct bb_script *s, const struct bb_op *op);

/*
 * bb_script_group_start, bb_script_group_end - make all calls in between one NCCL group call, for messages that must
 * progress together. Counts, peers and communicators may differ. Operations of the group are waited for after its end.
 * Groups do not nest.
 */
void bb_script_group_start(struct bb_script *s);
void bb_script_group_end(struct bb_script *s);

/* bb_script_wait - wait for an operation; BB_NONE: return at once. */
void bb_script_wait(struct bb_script *s, int op);

/* bb_script_new_thread - start a new logical thread that has waited only for `op`. */
void bb_script_new_thread(struct bb_script *s, int op);

/*
 * bb_script_fork - write two concurrent threads of one rank, which do not depend on each other before the join. Calls
 * after bb_script_fork belong to the first thread, calls after bb_script_fork_second to the second thread.
 * bb_script_join - interleave both threads into one issue order and wait for both. When a kernel would wait for a
 * message of its own thread, the other thread continues, so one thread communicates while the other computes.
 * bb_script_release - free the memory of forks.
 *
 * The threads need separate buffers. Forks do not nest.
 */
void bb_script_fork(struct bb_script *s);
void bb_script_fork_second(struct bb_script *s);
void bb_script_join(struct bb_script *s);
void bb_script_release(struct bb_script *s);

/* bb_script_newest_op - return the operation started last, so that the caller can set more of its fields; NULL: none
 * was started, or the script has failed. */
struct bb_op *bb_script_newest_op(struct bb_script *s);

/* ---- shared by several proxies ---- */

/* bb_script_all_reduce - start the all-reduce of `count` gradients; adds the buffers. */
int bb_script_all_reduce(struct bb_script *s, struct bb_script_lane lane, const char *what, size_t count);

/*
 * bb_script_exchange - send one message to each of n ranks and receive one from each of n ranks, in one group call,
 * since every rank sends before it receives. For halos and rings. Adds the buffers.
 *   to, from [n] peers, encoded as s->peer_kind
 *   count    elements of each message
 *   Returns  the index of the last operation
 */
int bb_script_exchange(struct bb_script *s, struct bb_script_lane lane, const char *what, const int *to,
                       const int *from, int n, size_t count);

/* bb_script_text - return `text`, a string of the step. NULL (out of memory) makes the script fail. */
const char *bb_script_text(struct bb_script *s, const char *text);

/* bb_script_rooted_collective - bb_script_collective with rank `root` of the communicator as root. */
int bb_script_rooted_collective(struct bb_script *s, struct bb_script_lane lane, const char *what,
                                enum bb_coll_kind kind, int root, size_t count, int src, int dst);

/* bb_script_memory_kernel - execute a memory-bound kernel over `count` elements, or an optimizer over `count`
 * parameters, as real work, `times` times. */
struct bb_script_memory_kernel {
    enum bb_memory_kernel_kind kind;
    size_t count;
    int times, src, dst;
};
void bb_script_memory_kernel(struct bb_script *s, struct bb_step *step, const char *what,
                             const struct bb_script_memory_kernel *how);

/*
 * Work of a training step outside its layers, only with --compute gemm.
 * bb_script_accumulate - start the accumulation of a micro-batch's gradients. Only the next kernel waits for it.
 *   work     made with bb_kernel_list_accumulate
 * bb_script_optimizer - execute the optimizer's kernel (SGD or Adam) over `count` parameters, after the operations that
 * the thread has waited for.
 */
void bb_script_accumulate(struct bb_script *s, const struct bb_kernel_list *work);
void bb_script_optimizer(struct bb_script *s, struct bb_step *step, enum bb_memory_kernel_kind optimizer,
                         const char *what, size_t count);

#endif
