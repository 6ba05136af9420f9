/*
 * script.h - the authoring interface of step programs. A builder writes a role's program as if it were one thread of a
 * message-passing program: calls that start an operation, and waits for operations that were started.
 *
 * A call depends on every operation that the thread waited for before it. An operation that was started and not yet
 * waited for runs on, on the stream of its communicator. A kernel is waited for at once. Besides these dependencies
 * there are only those of buffers: none is read before it is written, or overwritten while it is in use
 * (bb_program_add_dataflow).
 *
 * The first failure (no memory) sticks: later calls do nothing, bb_script_result tells.
 */
#ifndef BB_PROXIES_AUTHOR_SCRIPT_H
#define BB_PROXIES_AUTHOR_SCRIPT_H

#include "proxies/step/config.h"
#include "proxies/step/step.h"

struct bb_script_fork; /* two threads while they are written (script_fork.c) */

struct bb_script {
    struct bb_program *program;
    struct bb_script_fork *fork; /* NULL until the first bb_script_fork */
    enum bb_dtype_id dtype;
    bool timed;                         /* false: kernels are left out                              */
    enum bb_redop_id redop;             /* of reductions that come next: BB_SUM unless set          */
    enum bb_peer_kind peer_kind;        /* of sends and receives: BB_PEER_OFFSET unless set         */
    size_t offset;                      /* of sends and receives: elements into their buffer        */
    int call;                           /* the group call that is open, BB_NONE: none               */
    enum bb_phase phase;                /* labels of what comes next                                */
    int micro_batch, layer;             /* BB_NONE where they don't apply                           */
    int after[BB_MAX_STREAMS], n_after; /* what the thread has waited for, less what follows from the rest */
    int newest;                         /* the last operation, if nothing was waited for since      */
    bool failed;
    bool real; /* real work: bb_script_real_work writes it, bb_script_compute nothing */
};

/* A communicator and the stream that its operations run on. */
struct bb_script_lane {
    int stream, comm;
};

/* What an uneven exchange moves (proxies/step/alltoallv.h): `width` elements for each row of the table, back: the other
 * way round; `own` is the rank's place in the lane. */
struct bb_script_rows {
    const struct bb_alltoallv *table;
    int rank;
    size_t width;
    bool reversed;
};

/* bb_script_init - begin to write into an empty program, with the type and the compute of the config. */
void bb_script_init(struct bb_script *s, struct bb_program *program, const struct bb_proxy_config *config);
int bb_script_result(const struct bb_script *s) BB_MUST_CHECK;

struct bb_script_lane bb_script_lane(struct bb_script *s, const struct bb_layout *layout, int comm);
int bb_script_buffer(struct bb_script *s, const char *name, enum bb_buffer_use use, size_t count);

/* A kernel of so many microseconds that stands for so many FLOPs; reads src and writes dst (BB_NONE: nothing). */
void bb_script_compute(struct bb_script *s, const char *what, double us, double flops, int src, int dst);

/* A kernel that does that real work, so many times, whatever the config's compute is; bb_script_real_work: only where it is
 * real work. */
void bb_script_work(struct bb_script *s, const char *what, const struct bb_kernel_list *work, int times, int src,
                    int dst);
void bb_script_real_work(struct bb_script *s, const char *what, const struct bb_kernel_list *work, int times, int src,
                         int dst);

/* Calls that start one operation and return it; `what` outlives the program. Reductions are s->redop; to and
 * from are places in the communicator, relative to one's own unless s->peer_kind says otherwise. */
int bb_script_collective(struct bb_script *s, struct bb_script_lane lane, const char *what, enum bb_coll_kind kind,
                         size_t count, int src, int dst);
int bb_script_send(struct bb_script *s, struct bb_script_lane lane, const char *what, int to, size_t count, int src);
int bb_script_recv(struct bb_script *s, struct bb_script_lane lane, const char *what, int from, size_t count, int dst);

/* To and from every other place of the lane; of the source's type. */
int bb_script_alltoallv(struct bb_script *s, struct bb_script_lane lane, const char *what,
                        const struct bb_script_rows *rows, int src, int dst);

/* What those calls do not say: an operation of the lane with the script's labels, to be filled in; and its start. */
struct bb_op bb_script_op(const struct bb_script *s, struct bb_script_lane lane, const char *what);
int bb_script_start(struct bb_script *s, const struct bb_op *op);

/* Between these, all calls are one NCCL group call: messages that must progress together, with counts, peers and
 * communicators of their own. What is started inside is waited for after the end only. Groups do not nest. */
void bb_script_group_start(struct bb_script *s);
void bb_script_group_end(struct bb_script *s);

/* bb_script_wait - the thread waits for that operation; BB_NONE: for nothing. */
void bb_script_wait(struct bb_script *s, int op);

/* bb_script_new_thread - what comes next is done by another thread, which has waited for nothing but that operation. */
void bb_script_new_thread(struct bb_script *s, int op);

/*
 * Two threads of one rank, which know nothing of each other until they end: what is written between bb_script_fork and
 * bb_script_fork_second is done by the first, up to bb_script_join by the second, each in its own order. The join takes
 * turns: a kernel that would wait for a message of its thread lets the other thread go on, so that one communicates
 * while the other computes. Both want buffers of their own. Forks do not nest; bb_script_release frees what they need.
 */
void bb_script_fork(struct bb_script *s);
void bb_script_fork_second(struct bb_script *s);
void bb_script_join(struct bb_script *s);
void bb_script_release(struct bb_script *s);

/* bb_script_newest_op - the operation that was started last, to say more of it; NULL: none was, or it failed. */
struct bb_op *bb_script_newest_op(struct bb_script *s);

/* ---- what several proxies do ---- */

/* bb_script_all_reduce - start the all-reduce of so many gradients, in buffers of its own. */
int bb_script_all_reduce(struct bb_script *s, struct bb_script_lane lane, const char *what, size_t count);

/* bb_script_exchange - messages of one size to the n ranks to[] and from the n ranks from[], all in one group call, since
 * every rank sends before it receives: halos, rings. Buffers of their own. Returns the last of them. */
int bb_script_exchange(struct bb_script *s, struct bb_script_lane lane, const char *what, const int *to,
                       const int *from, int n, size_t count);

/* bb_script_text - a text of the step; without memory for it (NULL) the script has failed. */
const char *bb_script_text(struct bb_script *s, const char *text);

/* bb_script_rooted_collective - bb_script_collective with that member of the communicator as root. */
int bb_script_rooted_collective(struct bb_script *s, struct bb_script_lane lane, const char *what,
                                enum bb_coll_kind kind, int root, size_t count, int src, int dst);

/* bb_script_memory_kernel - a pass over `count` elements, or an optimizer over so many parameters, as real work, `times` one
 * after another. */
struct bb_script_memory_kernel {
    enum bb_memory_kernel_kind kind;
    size_t count;
    int times, src, dst;
};
void bb_script_memory_kernel(struct bb_script *s, struct bb_step *step, const char *what,
                             const struct bb_script_memory_kernel *how);

/*
 * What training does beside its layers, in a step of real work: bb_script_accumulate starts to add the gradients of a
 * micro-batch to those before (work: made with bb_kernel_list_accumulate), which nothing but the next kernel waits for;
 * bb_script_optimizer is the optimizer's pass (BB_MEMORY_KERNEL_SGD, BB_MEMORY_KERNEL_ADAM) over so many parameters, once the thread has
 * waited for their gradients. Both are empty without real work.
 */
void bb_script_accumulate(struct bb_script *s, const struct bb_kernel_list *work);
void bb_script_optimizer(struct bb_script *s, struct bb_step *step, enum bb_memory_kernel_kind optimizer,
                         const char *what, size_t count);

#endif
