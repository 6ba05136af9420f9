/*
 * pipe_split.h - division of the layers of a model among pipeline stages, and error messages for invalid divisions.
 *
 * With p stages and v model chunks per stage there are p v virtual stages, and stage r holds the virtual stages r, p +
 * r, 2 p + r, ... (schedule.h). All virtual stages have the same number of layers if p v divides the number of layers,
 * or the number of layers plus 2, where embedding and head count as one layer each (bb_grid_layers). Otherwise the
 * first and the last stage may have their own number of layers, and the other stages share the rest evenly, as with
 * Megatron-LM's --decoder-first-pipeline-num-layers and --decoder-last-pipeline-num-layers
 * (core/transformer/transformer_layer.py). The number of layers of the first or last stage must be divisible by v.
 */
#ifndef BB_PROXIES_WORKLOADS_TRANSFORMER_GRID_PIPE_SPLIT_H
#define BB_PROXIES_WORKLOADS_TRANSFORMER_GRID_PIPE_SPLIT_H

#include "bootstrap/base/err.h"

#include <stdbool.h>

struct bb_pipe_split {
    int layers, stages, chunks; /* numbers of layers of the model, of pipeline stages, and of model chunks (virtual
                                   stages) per pipeline stage */
    int first, last; /* number of layers of the first and of the last stage; 0: the same number as the other stages */
    const char *layout; /* the layers of each virtual stage (pipe_layout.h), instead of first and last; NULL: none */
};

/* bb_pipe_split_is_valid - returns whether each virtual stage (one model chunk of one pipeline stage) gets a whole
 * number of layers, at least one; with a layout, whether it has as many virtual stages. */
bool bb_pipe_split_is_valid(const struct bb_pipe_split *s);

/* bb_pipe_split_layers - returns the number of layers of the virtual stage with index `part` (0 to stages x chunks -
 * 1). *first: index of its first layer. */
int bb_pipe_split_layers(const struct bb_pipe_split *s, int part, int *first);

/* bb_pipe_split_mtp_part - returns the index of the virtual stage with the layers of multi-token prediction, if the model has
 * any: the last, or the one before. */
int bb_pipe_split_mtp_part(const struct bb_pipe_split *s);

/* bb_pipe_split_chunks - returns the number of model chunks per stage, at least 2, that makes the division valid and is
 * closest to the requested number; 0 if no number is valid. */
int bb_pipe_split_chunks(const struct bb_pipe_split *s);

/* bb_pipe_split_nearest - finds the valid division that is closest to an invalid one, in which the first and the last stage
 * have their own numbers of layers.
 *   nearest  out
 *   Returns  whether there is one */
bool bb_pipe_split_nearest(const struct bb_pipe_split *s, struct bb_pipe_split *nearest);

/* bb_pipe_split_longest - returns the number of layers of the longest stage, where embedding and head count as one layer
 * each, and `mtp_layers` layers of multi-token prediction on the last stage. Requires numbers of layers of both ends. */
int bb_pipe_split_longest(const struct bb_pipe_split *s, int mtp_layers);

/*
 * bb_pipe_split_validate - print an error if the division of the layers is invalid. Requires at least two stages.
 *   mtp_layers  of multi-token prediction
 *   grid        options for another grid, which the message suggests last (bb_grid_suggest); "": none
 *   who         proxy name, printed before the message
 *   Returns     0, or -BB_EUSAGE after printing one error line with the numbers and valid values
 */
int bb_pipe_split_validate(const struct bb_pipe_split *s, int mtp_layers, const char *grid,
                           const char *who) BB_MUST_CHECK;

#endif
