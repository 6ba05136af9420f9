/*
 * tiles.h - images cut in tiles, who lies next to whom, and the halos that neighbours send each other: the numbering
 * and the messages of MPI4DL's spatial parallelism. Pure.
 *
 * P tiles: vertical strips lie side by side along the width, horizontal ones along the height, square ones in Q x Q,
 * row by row. Directions are the places of a 3 x 3 grid, 0 up and left, 4 here, 8 down and right; what one sends in
 * direction d comes to the other from direction 8 - d. Corners go straight to the diagonal neighbour.
 */
#ifndef BB_PROXIES_SPATIAL_TILES_H
#define BB_PROXIES_SPATIAL_TILES_H

#include "proxies/spatial/net/net.h"

#define BB_DIRECTIONS 9
#define BB_CENTER       4

struct bb_slices {
    int rows, cols;
};

/* bb_slices_make - "vertical", "horizontal" or "square"; NULL: square where parts is a square, else vertical. Parts
 * that are no power of two would cut rows in two: said with the nearest number, -BB_EUSAGE. */
int bb_slices_init(struct bb_slices *s, const char *proxy, const char *slice, int parts) BB_MUST_CHECK;
const char *bb_slices_name(const struct bb_slices *s); /* "vertical", ... */

static inline int bb_direction_row(int d)
{
    return d / 3 - 1;
}

static inline int bb_direction_col(int d)
{
    return d % 3 - 1;
}

/* bb_tile_neighbours - bit d: there is a tile in direction d. bb_tile_step: its number less one's own. */
unsigned bb_tile_neighbour_mask(const struct bb_slices *s, int tile);
int bb_tile_offset(const struct bb_slices *s, int direction);

/* Rows and columns around the tiles of a map that come from the neighbours, width[0] above and below, width[1] beside.
 */
struct bb_halo {
    const char *what;
    struct bb_map map; /* the whole one */
    int width[2];
};

/* bb_halo_count - elements that go in that direction; 0 where that needs no halo. */
size_t bb_halo_count(const struct bb_halo *h, const struct bb_slices *s, int samples, int direction);

/* bb_halo_any - whether tiles cut so exchange it at all: strips do not cut both ways. */
bool bb_halo_is_exchanged(const int width[2], const struct bb_slices *s);

#endif
