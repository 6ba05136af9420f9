/*
 * pipe_split.h - which layers the stages of a pipeline hold, and what is said when they do not divide.
 *
 * Stage r of p with v chunks holds the parts r, p + r, 2 p + r, ... of p v (schedule.h). All parts are alike where the
 * layers divide, or where they do with embedding and head as a layer each (bb_grid_layers). Else the first and the last
 * stage may be given a number of their own, and the rest divides over the other stages, as with Megatron-LM's
 * --decoder-first-pipeline-num-layers and --decoder-last-pipeline-num-layers (core/transformer/transformer_layer.py): a
 * number that is given divides by the chunks.
 */
#ifndef BB_PROXIES_TRANSFORMER_GRID_PIPE_SPLIT_H
#define BB_PROXIES_TRANSFORMER_GRID_PIPE_SPLIT_H

#include "bootstrap/base/err.h"

#include <stdbool.h>

struct bb_pipe_split {
    int layers, stages, chunks; /* chunks: of each stage                              */
    int first, last;            /* layers of these stages, 0: as many as the others have */
};

/* bb_pipe_split_is_valid - whether the stages get whole numbers of layers, at least one in each part. */
bool bb_pipe_split_is_valid(const struct bb_pipe_split *s);

/* bb_pipe_split_layers - the layers of one of stages x chunks parts: *first and the number. */
int bb_pipe_split_layers(const struct bb_pipe_split *s, int part, int *first);

/* bb_pipe_split_validate - 0 of a valid split, else -BB_EUSAGE with the numbers and what would divide. near: options of
 * the nearest layout that does, named first; "". A pipeline of one stage is left to the caller. */
int bb_pipe_split_validate(const struct bb_pipe_split *s, const char *suggestion, const char *who) BB_MUST_CHECK;

#endif
