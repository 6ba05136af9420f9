/* tiles.c - tile grids, neighbours and halo sizes (see tiles.h). */
#include "proxies/workloads/spatial/tiles.h"

#include <string.h>

/* below: the largest power of `base` (2, or 4 for a square grid) that is at most `parts`, and at least `base` */
static int report_invalid_parts(const char *proxy, int parts, int base, int below)
{
    if (parts == 1)
        return bb_err(BB_EUSAGE,
                      "%s: one part is the whole image, which has no halos; expected a power of two, at least "
                      "2",
                      proxy);
    if (base == 4)
        return bb_err(BB_EUSAGE,
                      "%s: %d tiles do not form a square grid with a power of two per side, "
                      "such as %d or %d",
                      proxy, parts, below, below * base);
    return bb_err(
        BB_EUSAGE,
        "%s: %d parts do not divide an image whose side is a power of two; expected a power of two, at least 2, "
        "such as %d or %d",
        proxy, parts, below, below * base);
}

int bb_slices_init(struct bb_slices *s, const char *proxy, const char *slice, int parts)
{
    int base = slice && strcmp(slice, "square") == 0 ? 4 : 2, below = base, root = 1;

    while (below <= parts / base)
        below *= base;
    if (parts != below)
        return report_invalid_parts(proxy, parts, base, below);
    while (root * root < parts)
        root *= 2;
    if (root * root == parts && (!slice || base == 4))
        *s = (struct bb_slices){root, root};
    else if (slice && strcmp(slice, "horizontal") == 0)
        *s = (struct bb_slices){parts, 1};
    else
        *s = (struct bb_slices){1, parts};
    return 0;
}

const char *bb_slices_name(const struct bb_slices *s)
{
    return s->rows == 1 ? "vertical" : s->cols == 1 ? "horizontal" : "square";
}

unsigned bb_tile_neighbour_mask(const struct bb_slices *s, int tile)
{
    unsigned mask = 0;

    for (int d = 0; d < BB_DIRECTIONS; d++) {
        int row = tile / s->cols + bb_direction_row(d), col = tile % s->cols + bb_direction_col(d);

        if (d != BB_CENTER && row >= 0 && row < s->rows && col >= 0 && col < s->cols)
            mask |= 1u << d;
    }
    return mask;
}

int bb_tile_offset(const struct bb_slices *s, int direction)
{
    return bb_direction_row(direction) * s->cols + bb_direction_col(direction);
}

size_t bb_halo_count(const struct bb_halo *h, const struct bb_slices *s, int samples, int direction)
{
    int rows = bb_direction_row(direction) ? h->width[0] : h->map.side / s->rows;
    int cols = bb_direction_col(direction) ? h->width[1] : h->map.side / s->cols;

    return direction == BB_CENTER
               ? 0
               : (size_t)samples * (size_t)h->map.channels * (size_t)h->map.depth * (size_t)rows * (size_t)cols;
}

bool bb_halo_is_exchanged(const int width[2], const struct bb_slices *s)
{
    return (width[0] > 0 && s->rows > 1) || (width[1] > 0 && s->cols > 1);
}
