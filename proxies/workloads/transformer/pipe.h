/*
 * pipe.h - the sends and receives of a pipeline stage. They are issued before and after the slots of the stage's
 * schedule. A slot is the forward or backward of one model chunk for one micro-batch (schedule.h). The stages of a
 * pipeline share two communicators: the first carries activations to the next stage, the second carries the gradients
 * of activations to the previous stage. Both directions can therefore transfer concurrently. With two stages, the next
 * and the previous stage are the same rank; separate communicators prevent a receive from matching a send of the other
 * direction (NCCL point-to-point calls have no tags). With more than one chunk per stage, the last stage also sends
 * activations to the first stage.
 *
 * A stage issues its sends and receives between two slots in one NCCL group call, so that two stages that send to each
 * other do not wait for each other. All stages use the same order of messages, so that no deadlock occurs even if all
 * streams of a rank are serialized:
 *
 *   gpipe, 1f1b, zb-h1  Between two forwards or two backwards: a send, then a receive. Between a forward and a
 *                       backward: one group call with a send to and a receive from the same stage (Megatron-LM's
 *                       send_forward_recv_backward and send_backward_recv_forward).
 *   interleaved, zb-h2  After each forward: one group call with the send of its output and the receive of the next
 *                       activations. After each backward: the same with gradients. The data transfers during the
 *                       next slot (Megatron-LM's overlap_p2p_comm). The first receive of gradients is posted after
 *                       the last warm-up forward.
 *   dualpipe            As interleaved, but both directions of the pipeline have their own two communicators.
 *
 * A slot waits for its received data. A slot waits for an earlier send only when it reuses the send buffer.
 */
#ifndef BB_PROXIES_WORKLOADS_TRANSFORMER_PIPE_H
#define BB_PROXIES_WORKLOADS_TRANSFORMER_PIPE_H

#include "proxies/form/author/script.h"
#include "proxies/workloads/transformer/schedule.h"

#define BB_PIPE_FLOWS 4

/* A flow: all activations, or all gradients of activations, in one direction of the pipeline. Index 0: activations,
 * 1: gradients; dualpipe: indices 2 and 3 are activations and gradients of the second direction. */
struct bb_pipe_flow {
    struct bb_script_lane lane;
    int *recv, *recv_op, n_recv; /* recv: [n_recv] receive buffers, used in turn; recv_op: [n_recv] program index of
                                    the latest receive into each buffer */
    int send[2];
    int sent, posted, consumed; /* number of messages so far that this stage has sent (sent), has posted a receive
                                   for (posted), and has used as input of a forward or backward (consumed) */
    int slots_done; /* number of slots added so far in this direction of the pipeline: forwards for a flow of
                       activations, backwards for a flow of gradients */
    const struct bb_slot *
        *arrivals; /* [n_arrivals] the slot that uses each message that this stage receives, in the order
                                        of the receives */
    int n_arrivals;
};

struct bb_pipe {
    const struct bb_schedule *schedule; /* not owned; must outlive the pipe */
    struct bb_script *script;
    int stage;
    size_t count;    /* number of elements per message */
    int last_factor; /* factor of `count` between the last two virtual stages */
    struct bb_slot *slots;
    int n_slots;
    struct bb_pipe_flow flows[BB_PIPE_FLOWS];
};

/*
 * bb_pipe_comms - add the communicators "pp forward" and "pp backward" of the pipelines to the layout.
 *   group          index of the group "pp", each instance of which is one pipeline
 *   bidirectional  true: also add the two communicators of the second direction; false: set their indices to BB_NONE
 *   comms          out: index of the communicator of each flow (struct bb_pipe_flow)
 */
void bb_pipe_comms(struct bb_layout *layout, int group, bool bidirectional, int comms[BB_PIPE_FLOWS]);

/*
 * bb_pipe_open - list the slots of a stage (forwards and backwards, schedule.h), and create the streams and buffers for
 * its messages.
 *   comms    [BB_PIPE_FLOWS] from bb_pipe_comms; ignored with one stage
 *   count    number of elements per message
 *   last_factor  1, or the factor of count between the last two virtual stages (multi-token prediction: hidden states of
 *                several predictions)
 *   Owner    the caller releases the pipe with bb_pipe_close, which accepts a zeroed struct
 */
void bb_pipe_open(struct bb_pipe *pipe, const struct bb_schedule *schedule, struct bb_script *script,
                  const struct bb_layout *layout, const int comms[BB_PIPE_FLOWS], int stage, size_t count,
                  int last_factor);
void bb_pipe_close(struct bb_pipe *pipe);

/*
 * Call these functions for each slot t (forward or backward of one model chunk) from 0 to pipe->n_slots - 1, in this
 * order. t is an index into pipe->slots.
 *   bb_pipe_input      adds the wait for the input of the slot; returns the input buffer, or BB_NONE if the slot
 *                      receives nothing because the model begins (forward) or ends (backward) in this slot
 *   bb_pipe_output     returns the buffer for the output of the slot, or BB_NONE if the slot sends nothing
 *   bb_pipe_slot_done  adds the send of the output and the next receives
 * WEIGHTS slots (weight gradients) exchange no messages: call neither bb_pipe_input nor bb_pipe_output for them.
 */
int bb_pipe_input(struct bb_pipe *pipe, int t);
int bb_pipe_output(struct bb_pipe *pipe, int t);
void bb_pipe_slot_done(struct bb_pipe *pipe, int t);

#endif
