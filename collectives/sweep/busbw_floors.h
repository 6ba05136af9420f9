/*
 * busbw_floors.h - what `--min-busbw` asks for: "300" of the mean over all rows, "peak:300" of the best row, "1G:300"
 * of the rows of a size, several between commas. Of several rows of a size (placements, types) the slowest counts.
 * Pure.
 */
#ifndef BB_COLLECTIVES_SWEEP_BUSBW_FLOORS_H
#define BB_COLLECTIVES_SWEEP_BUSBW_FLOORS_H

#include "bootstrap/base/err.h"
#include "bootstrap/base/units.h"

#include <stdbool.h>
#include <stddef.h>

enum bb_floor_of { BB_FLOOR_MEAN, BB_FLOOR_PEAK, BB_FLOOR_SIZE };

struct bb_floor {
    enum bb_floor_of of;
    size_t bytes; /* of a size */
    double gbps;  /* 1e9 bytes per second, above 0 */
};

enum { BB_FLOORS_MAX = 32 };
struct bb_floors {
    struct bb_floor floor[BB_FLOORS_MAX];
    int n;
};

/* bb_floors_parse - text NULL: none; a floor of 0 is none, too. Returns 0 or -BB_EUSAGE after one line. */
int bb_floors_parse(struct bb_floors *f, const char *text) BB_MUST_CHECK;

/* What the rows of a table had that a floor speaks of; zeroed is none. */
struct bb_floor_tally {
    size_t n;
    double sum, least, most; /* GB/s */
};

void bb_floor_add(struct bb_floor_tally *t, double busbw_gbps);

/* bb_floor_found - what is held against the floor; NaN where no row can be. */
double bb_floor_found(const struct bb_floor *f, const struct bb_floor_tally *t);

/* bb_floor_text - "mean", "peak", "1 GiB". Returns buf or a constant. */
const char *bb_floor_text(const struct bb_floor *f, char buf[BB_BYTES_TEXT]);

#endif
