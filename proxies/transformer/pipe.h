/*
 * pipe.h - the messages of a pipeline stage before and after the slots of its schedule (schedule.h). One group of ranks
 * has two communicators: activations go to the next stage on the first, their gradients go to the previous stage on the
 * second. So both directions transfer concurrently, and messages are never confused when both neighbours are the same
 * rank (two stages; NCCL point-to-point calls have no tags). With more than one chunk the last stage sends to the
 * first.
 *
 * A stage issues the sends and receives of one point of the schedule in one NCCL group call, so that neighbours at
 * the same point do not wait for each other. The order of the messages is the same on all stages and therefore
 * deadlock-free even if all streams of a rank are serialised:
 *
 *   gpipe, 1f1b, zb-h1  between two forwards or two backwards: a send, then a receive. Between a forward and a
 *   backward:
 *                       one group call with a send to and a receive from the same neighbour (Megatron-LM's
 *                       send_forward_recv_backward and send_backward_recv_forward)
 *   interleaved, zb-h2  after each forward: one group call with its send and the receive of the same round of all
 *   stages;
 *                       likewise after each backward. The received data transfers during the next slot (Megatron-LM's
 *                       overlap_p2p_comm). The first gradients are received from the last warm-up forward on
 *   dualpipe            likewise, with four flows: each of the two directions has its own two communicators
 *
 * A slot waits for its received data. A slot waits for an earlier send only when it reuses the send buffer.
 */
#ifndef BB_PROXIES_TRANSFORMER_PIPE_H
#define BB_PROXIES_TRANSFORMER_PIPE_H

#include "proxies/author/script.h"
#include "proxies/transformer/schedule.h"

#define BB_PIPE_FLOWS 4

/* One flow of messages. Index 0: activations, 1: gradients; dualpipe: 2 and 3 are the same for the second direction. */
struct bb_pipe_flow {
    struct bb_script_lane lane;
    int *recv, *recv_op, n_recv; /* ring of n_recv buffers, and the operation that fills each one */
    int send[2];
    int sent, posted, consumed; /* messages so far: sends issued, receives posted, received messages consumed */
    int slots_done;             /* slots of this flow so far */
    int *arrivals, n_arrivals;  /* micro-batches of the messages that this flow receives, in order */
};

struct bb_pipe {
    const struct bb_schedule *schedule; /* not owned; must outlive the pipe */
    struct bb_script *script;
    int stage;
    size_t count; /* elements per message */
    struct bb_slot *slots;
    int n_slots;
    struct bb_pipe_flow flows[BB_PIPE_FLOWS];
};

/*
 * bb_pipe_comms - add the communicators "pp forward" and "pp backward" over `group` to the layout.
 *   bidirectional  also add the two communicators of the second direction; otherwise they are BB_NONE
 *   comms          out: communicators of the flows
 *   Returns        0 or -BB_EFAIL
 */
int bb_pipe_comms(struct bb_layout *layout, int group, bool bidirectional, int comms[BB_PIPE_FLOWS]) BB_MUST_CHECK;

/*
 * bb_pipe_open - make the slots, streams and buffers of a stage.
 *   comms    [BB_PIPE_FLOWS] from bb_pipe_comms; ignored with one stage
 *   count    elements per message
 *   Returns  0 or -BB_EFAIL
 *   Owner    the caller releases the pipe with bb_pipe_close, which accepts a zeroed struct
 */
int bb_pipe_open(struct bb_pipe *pipe, const struct bb_schedule *schedule, struct bb_script *script,
                 const struct bb_layout *layout, const int comms[BB_PIPE_FLOWS], int stage, size_t count) BB_MUST_CHECK;
void bb_pipe_close(struct bb_pipe *pipe);

/*
 * Call these for each slot t, in order of t.
 *   bb_pipe_input      wait for the input of the slot; returns its buffer, or BB_NONE where the model begins (forward)
 *                      or ends (backward)
 *   bb_pipe_output     returns the buffer for the output of the slot, or BB_NONE if the slot sends nothing
 *   bb_pipe_slot_done  issue the send of the output and the next receives
 * WEIGHTS slots exchange no messages: call neither bb_pipe_input nor bb_pipe_output for them.
 */
int bb_pipe_input(struct bb_pipe *pipe, int t);
int bb_pipe_output(struct bb_pipe *pipe, int t);
void bb_pipe_slot_done(struct bb_pipe *pipe, int t);

#endif
