/*
 * pipe_layout.h - the modules of each virtual pipeline stage as text, in the syntax of Megatron-LM's
 * --pipeline-model-parallel-layout (core/transformer/pipeline_parallel_layer_layout.py): E is the embedding, t a layer, m a
 * layer of multi-token prediction, L the head with the loss, and | ends a virtual stage. X*3 repeats a character, (tt|)*3 a group; commas have no meaning.
 * A virtual stage may be empty. Virtual stage i is chunk i / p of pipeline stage i % p.
 */
#ifndef BB_PROXIES_WORKLOADS_TRANSFORMER_GRID_PIPE_LAYOUT_H
#define BB_PROXIES_WORKLOADS_TRANSFORMER_GRID_PIPE_LAYOUT_H

#include "bootstrap/base/err.h"

#include <stdbool.h>

#define BB_PIPE_LAYOUT_TEXT 128

/* The numbers of modules of one virtual stage; first: index of its first layer. */
struct bb_pipe_part {
    int embeddings, first, layers, mtp_layers, losses;
};

/*
 * bb_pipe_layout_part - read what virtual stage `index` holds.
 *   part     out; zeroed if there is no such virtual stage; NULL: not wanted
 *   Returns  the number of virtual stages; with `part`, of those up to the one after it; 0: the text is not a layout
 */
int bb_pipe_layout_part(const char *layout, int index, struct bb_pipe_part *part);

/*
 * bb_pipe_layout_validate - check the layout of a split against its layers, stages and chunks, and against `mtp_layers`
 * layers of multi-token prediction.
 *   who      proxy name, printed before the message
 *   Returns  0, or -BB_EUSAGE after printing one error line
 */
struct bb_pipe_split;
int bb_pipe_layout_validate(const struct bb_pipe_split *split, int mtp_layers, const char *who) BB_MUST_CHECK;

/*
 * bb_pipe_layout_suggest - format a layout of any number of layers in which the virtual stages differ by at most one module.
 *   Returns  whether there is one: each virtual stage has a module; with MTP the last one has a layer, too
 */
bool bb_pipe_layout_suggest(const struct bb_pipe_split *split, int mtp_layers, char text[BB_PIPE_LAYOUT_TEXT]);

#endif
