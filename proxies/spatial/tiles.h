/*
 * tiles.h - images split into tiles, the neighbours of a tile, and the halos that neighbours exchange, with the
 * numbering and the messages of MPI4DL's spatial parallelism. Pure functions.
 *
 * P tiles: vertical strips are numbered along the width, horizontal strips along the height, square tiles (Q x Q) row
 * by row. A direction d is a cell of a 3 x 3 grid, row by row: 0 up-left, 4 the tile itself, 8 down-right. A message
 * sent in direction d is received from direction 8 - d. Corners are sent directly to the diagonal neighbour.
 */
#ifndef BB_PROXIES_SPATIAL_TILES_H
#define BB_PROXIES_SPATIAL_TILES_H

#include "proxies/spatial/net/net.h"

#define BB_DIRECTIONS 9
#define BB_CENTER     4

struct bb_slices {
    int rows, cols;
};

/*
 * bb_slices_init - split an image into a grid of tiles.
 *   slice    "vertical", "horizontal" or "square"; NULL: square if parts is a square number, else vertical
 *   parts    number of tiles, a power of two; other numbers would split a row or column of an image
 *   Returns  0, or -BB_EUSAGE after an error line with the nearest valid number
 */
int bb_slices_init(struct bb_slices *s, const char *proxy, const char *slice, int parts) BB_MUST_CHECK;
const char *bb_slices_name(const struct bb_slices *s); /* "vertical", "horizontal" or "square" */

static inline int bb_direction_row(int d)
{
    return d / 3 - 1;
}

static inline int bb_direction_col(int d)
{
    return d % 3 - 1;
}

/* bb_tile_neighbour_mask - bit d is set if a tile exists in direction d. bb_tile_offset - tile number of that
 * neighbour minus that of the tile. */
unsigned bb_tile_neighbour_mask(const struct bb_slices *s, int tile);
int bb_tile_offset(const struct bb_slices *s, int direction);

/* Halo of a map: width[0] rows above and below each tile, width[1] columns left and right of it. */
struct bb_halo {
    const char *what;
    struct bb_map map; /* the whole map, not one tile */
    int width[2];
};

/* bb_halo_count - elements of the message in a direction; 0 without a halo in that direction. */
size_t bb_halo_count(const struct bb_halo *h, const struct bb_slices *s, int samples, int direction);

/* bb_halo_is_exchanged - whether any tile has a neighbour across this halo. Strips are split in one dimension only. */
bool bb_halo_is_exchanged(const int width[2], const struct bb_slices *s);

#endif
