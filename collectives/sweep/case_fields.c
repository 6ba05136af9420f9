/* case_fields.c - see case_fields.h. */
#include "collectives/sweep/case_fields.h"

struct bb_shown_case bb_show_case(const struct bb_case *c, bool in_place, const char *mode)
{
    return (struct bb_shown_case){.collective = bb_colls[c->kind].name,
                                  .dtype = bb_dtypes[c->dtype].name,
                                  .op = c->redop == BB_COPY ? NULL : bb_redops[c->redop].name,
                                  .redop = c->redop == BB_COPY ? "none" : bb_redops[c->redop].name,
                                  .placement = in_place ? "in_place" : "out_of_place",
                                  .mode = mode,
                                  .bytes = bb_case_bytes(c),
                                  .count = c->count,
                                  .root = c->root};
}

#define SHOWS(name) BB_SHOWS(struct bb_shown_case, name)
#define JSON(name)  BB_NAMED(struct bb_shown_case, name)
const struct bb_field bb_case_fields[] = {
    JSON(collective),
    {"bytes", "size", "(B)", 12, 0, SHOWS(bytes)},
    {"count", "count", "(elements)", 12, 0, SHOWS(count)},
    {"dtype", "type", "", 8, 0, SHOWS(dtype)},
    {NULL, "redop", "", 6, 0, SHOWS(redop)},
    JSON(op),
    {"root", "root", "", 6, 0, SHOWS(root), .none = "-1"},
    JSON(placement),
    JSON(mode),
    {0},
};
