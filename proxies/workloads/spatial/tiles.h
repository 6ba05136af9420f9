/*
 * tiles.h - images divided into tiles, the neighbours of a tile, and the halos that neighbours exchange. The numbering
 * and the messages are those of MPI4DL's spatial parallelism. The functions have no side effects except error messages.
 *
 * Vertical strips are numbered along the width, horizontal strips along the height, square tiles (a Q x Q grid) row by
 * row. A direction d is a number from 0 to 8, the position in a 3 x 3 grid numbered row by row: 0 is up-left, 4 the
 * tile itself, 8 down-right. A message sent in direction d is received from direction 8 - d. Corners are sent directly
 * to the diagonal neighbour.
 */
#ifndef BB_PROXIES_WORKLOADS_SPATIAL_TILES_H
#define BB_PROXIES_WORKLOADS_SPATIAL_TILES_H

#include "proxies/workloads/spatial/net/net.h"

#define BB_DIRECTIONS 9
#define BB_CENTER     4

struct bb_slices {
    int rows, cols;
};

/*
 * bb_slices_init - divides an image into a grid of tiles.
 *   slice    "vertical", "horizontal" or "square"; NULL: square if parts is a square number, otherwise vertical
 *   parts    number of tiles, a power of two from 2; square: a power of four
 *   Returns  0, or -BB_EUSAGE after printing an error message with the nearest valid number
 */
int bb_slices_init(struct bb_slices *s, const char *proxy, const char *slice, int parts) BB_MUST_CHECK;
const char *bb_slices_name(const struct bb_slices *s); /* returns "vertical", "horizontal" or "square" */

static inline int bb_direction_row(int d)
{
    return d / 3 - 1;
}

static inline int bb_direction_col(int d)
{
    return d % 3 - 1;
}

/* bb_tile_neighbour_mask - returns a mask in which bit d is set if the tile has a neighbour in direction d (0 to 8). */
unsigned bb_tile_neighbour_mask(const struct bb_slices *s, int tile);
int bb_tile_offset(const struct bb_slices *s, int direction);

/* Halo of a map (tensor between layers), that is, the elements that a tile receives from its neighbours: width[0]
 * rows above and below each tile, width[1] columns to the left and right of each tile. */
struct bb_halo {
    const char *what;
    struct bb_map map; /* shape of the whole map (tensor), which is divided into tiles */
    int width[2];
};

/* bb_halo_count - returns the number of elements of the message that a tile sends in `direction` (0 to 8) for
 * `samples` samples; 0 for BB_CENTER, or if the halo has width 0 in this direction. */
size_t bb_halo_count(const struct bb_halo *h, const struct bb_slices *s, int samples, int direction);

/* bb_halo_is_exchanged - returns whether tiles send each other messages for a halo of width[0] rows and width[1]
 * columns. Strips have neighbours in one dimension only. */
bool bb_halo_is_exchanged(const int width[2], const struct bb_slices *s);

#endif
