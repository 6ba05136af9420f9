/*
 * progress.h - one line on a terminal's stderr that is overwritten as the run goes on. Only rank 0, only on a terminal,
 * not with --quiet; a pipe sees nothing.
 */
#ifndef BB_BOOTSTRAP_BASE_PROGRESS_H
#define BB_BOOTSTRAP_BASE_PROGRESS_H

#include <stdbool.h>

struct bb_progress {
    bool on, shown;
    double last_s;
};

void bb_progress_init(struct bb_progress *p, int rank, bool quiet);

/* bb_progress_show - replace the line, at most ten times a second. */
void bb_progress_show(struct bb_progress *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* bb_progress_clear - take the line away; before any other output. */
void bb_progress_clear(struct bb_progress *p);

#endif
