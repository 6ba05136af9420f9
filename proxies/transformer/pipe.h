/*
 * pipe.h - the messages of a pipeline stage around the slots of its schedule (schedule.h). Two communicators of one
 * group: activations go to the next stage on the first, their gradients to the stage before on the second. So both
 * travel side by side and are never confused where both neighbours are the same rank (two stages; NCCL has no tags).
 * With more than one chunk the last stage sends on to the first. What a stage sends and receives at one point goes in
 * one group call, so that neighbours that do the same never wait for each other; even with all streams of a rank in one
 * queue the stages meet in one order:
 *
 *   gpipe, 1f1b, zb-h1  between two forwards or two backwards a send, then a receive; between a forward and a backward
 *                       one group call of both with the same neighbour (Megatron-LM's send_forward_recv_backward and
 *                       send_backward_recv_forward)
 *   interleaved, zb-h2  after each forward a group call of its send and the receive that belongs to the same round of
 *                       all stages, the same after each backward: what comes is on its way under the slot between
 *                       (Megatron-LM's overlap_p2p_comm). The first gradients are awaited from the last forward of the
 *                       warm-up on
 *   dualpipe            the same, in four flows: two directions have communicators of their own
 *
 * A slot waits for what it received, never for what it sent, until the buffer is needed again.
 */
#ifndef BB_PROXIES_TRANSFORMER_PIPE_H
#define BB_PROXIES_TRANSFORMER_PIPE_H

#include "proxies/author/script.h"
#include "proxies/transformer/schedule.h"

#define BB_PIPE_FLOWS 4

/* One flow: [0] activations, [1] gradients; of dualpipe [2] and [3] those of the second direction. */
struct bb_pipe_flow {
    struct bb_script_lane lane;
    int *recv, *recv_op, n_recv; /* buffers in turn, and the operation that fills each            */
    int send[2];
    int sent, posted, consumed; /* messages so far: sent; receives started; receives used            */
    int slots_done;          /* slots of this direction so far                                    */
    int *arrivals, n_arrivals; /* micro-batches that are received, in order                         */
};

struct bb_pipe {
    const struct bb_schedule *schedule; /* outlives it */
    struct bb_script *script;
    int stage;
    size_t count; /* elements of a message */
    struct bb_slot *slots;
    int n_slots;
    struct bb_pipe_flow flows[BB_PIPE_FLOWS];
};

/* bb_pipe_comms - adds "pp forward" and "pp backward" over the group to the layout; of dualpipe those of its second
 * direction, too, else BB_NONE. 0 or -BB_EFAIL. */
int bb_pipe_comms(struct bb_layout *layout, int group, bool bidirectional, int comms[BB_PIPE_FLOWS]) BB_MUST_CHECK;

/* bb_pipe_open - makes the stage's slots, streams and buffers. comms: as above, BB_NONE with one stage. 0 or -BB_EFAIL.
 * close is fine on a zeroed one. */
int bb_pipe_open(struct bb_pipe *pipe, const struct bb_schedule *schedule, struct bb_script *script,
                 const struct bb_layout *layout, const int comms[BB_PIPE_FLOWS], int stage, size_t count) BB_MUST_CHECK;
void bb_pipe_close(struct bb_pipe *pipe);

/* Around slot t, in order of t. input: waits for what it works on and returns its buffer, BB_NONE where the model
 * begins (or, backward, ends). output: the buffer for what goes on, BB_NONE: nothing does. slot_done: starts to send
 * it, and to receive what comes next. Slots of weights exchange nothing. */
int bb_pipe_input(struct bb_pipe *pipe, int t);
int bb_pipe_output(struct bb_pipe *pipe, int t);
void bb_pipe_slot_done(struct bb_pipe *pipe, int t);

#endif
