/*
 * tuner_file.h - writes a configuration for tuner plugins, with the algorithm/protocol pairs that are faster than NCCL's
 * own choice. Two formats, both CSV in which the first matching line counts:
 *
 *   nccl    NCCL's example tuner plugin (plugins/tuner/example in NCCL's sources; NCCL_TUNER_CONFIG_FILE). The plugin runs
 *           an operation without a matching line with one channel, and a line without number of channels, too (the plugin
 *           of NCCL 2.30 sets the number before it searches). So each line has the number of channels, and the file ends
 *           with lines for NCCL's own choices, which cover all sizes of the measured collectives
 *   ncclx   the tuner of Meta's NCCLX (NCCLX_TUNER_CONFIG_FILE). Sizes are bytes / ranks; NCCL's own choices need no line
 *
 * Pure functions; only bb_tuning_write writes.
 */
#ifndef BB_COLLECTIVES_SESSION_TUNER_FILE_H
#define BB_COLLECTIVES_SESSION_TUNER_FILE_H

#include "collectives/session/tuner.h"

#include <stdio.h>

/* One size of a collective: NCCL's own choice, and the gains of the other pairs. */
struct bb_tuning_size {
    int coll;     /* enum bb_coll_kind */
    size_t bytes; /* as NCCL passes it to tuners; format ncclx: divided by the number of ranks */
    bool registered;
    int own, own_channels; /* NCCL's choice, algorithm * BB_PROTOCOLS + protocol; -1: unknown */
    /* [algorithm * BB_PROTOCOLS + protocol] time of NCCL's choice / time of the pair, the lowest of all measurements;
     * 0: a measurement does not show a significant gain */
    double gains[BB_ALGORITHM_PROTOCOLS];
    int channels[BB_ALGORITHM_PROTOCOLS];
};

/* A zero-initialized struct is empty. */
struct bb_tuning {
    bool ncclx;
    int ranks, nodes;
    double min_gain; /* lowest gain that is worth a line, such as 1.03 */
    struct bb_tuning_size *sizes;
    size_t n;
};

/* A line of the file. */
struct bb_tuning_rule {
    int coll, pair, channels; /* channels: -1: NCCL's choice */
    size_t min_bytes, max_bytes;
    int registered; /* 1: only registered buffers; 0: only other buffers; -1: all */
    double gain;    /* lowest gain of its sizes; 0: NCCL's own choice */
};

/*
 * bb_tuning_add  - add a measurement. A size that is already present keeps the lower gain of each pair. With format ncclx
 *                  the function divides the bytes.
 * bb_tuning_find - return the size to which a measurement was added; bytes as NCCL passes them.
 * bb_tuning_best - return the pair with the highest gain; -1: no gain is worth a line.
 */
void bb_tuning_add(struct bb_tuning *t, const struct bb_tuning_size *one);
struct bb_tuning_size *bb_tuning_find(const struct bb_tuning *t, int coll, size_t bytes);
int bb_tuning_best(const struct bb_tuning *t, const struct bb_tuning_size *size);

/*
 * bb_tuning_rules - derive the lines of the file: first the gains, then, with format nccl, NCCL's own choices. Sorts the
 * sizes. A line joins neighboring sizes with the same pair and number of channels.
 *   gains    out: number of lines with a gain
 *   n        out: number of lines
 *   Returns  [n] lines; the caller frees them
 */
struct bb_tuning_rule *bb_tuning_rules(struct bb_tuning *t, size_t *gains, size_t *n);

/* bb_tuning_text - write "allreduce", "tree" or "ll": a name of NCCL or busbar in lower case without underscores that
 * separate words of a collective. Returns `text`. */
enum { BB_TUNING_TEXT = 24 };
const char *bb_tuning_text(const char *name, bool is_collective, char text[BB_TUNING_TEXT]);

/* bb_tuning_write - write the file. Plugins read at most 255 characters per line. note: versions and GPUs, for a comment. */
void bb_tuning_write(const struct bb_tuning *t, const struct bb_tuning_rule *rules, size_t n, const char *note,
                     FILE *out);

#endif
