/* case_fields.c - see case_fields.h. */
#include "collectives/sweep/case_fields.h"

#include <math.h>
#include <string.h>

const int bb_case_widths[2] = {9, 7};

/* The counts of a matrix file are bytes. */
static size_t shown_count(const struct bb_case *c)
{
    const bool is_matrix = bb_colls[c->kind].flags & BB_COLL_VARIABLE_COUNTS && c->alltoallv_counts->bytes;

    return is_matrix && !c->alltoallv_counts->nccl_tests ? bb_case_bytes(c) / bb_dtypes[c->dtype].bytes : c->count;
}

struct bb_shown_case bb_show_case(const struct bb_case *c, bool in_place, const char *mode)
{
    return (struct bb_shown_case){.collective = bb_colls[c->kind].name,
                                  .dtype = bb_dtypes[c->dtype].name,
                                  .op = c->redop == BB_COPY ? NULL : bb_redops[c->redop].name,
                                  .redop = c->redop == BB_COPY ? "none" : bb_redops[c->redop].name,
                                  .placement = in_place ? "in_place" : "out_of_place",
                                  .mode = mode,
                                  .bytes = bb_case_bytes(c),
                                  .count = shown_count(c),
                                  .root = c->root,
                                  .algbw_gbps = NAN,
                                  .busbw_gbps = NAN,
                                  .factor = bb_case_bus_factor(c),
                                  .wrong = -1};
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

const struct bb_field bb_time_fields[] = {
    {"time_us", "time", "(us)", BB_WIDTH_TIME, BB_DIGITS_THAT_FIT, SHOWS(time_us)},
    {0},
};

const struct bb_field bb_metric_fields[] = {
    {"algbw_gbps", "algbw", "(GB/s)", BB_WIDTH_RATE, BB_DIGITS_THAT_FIT, SHOWS(algbw_gbps)},
    {"busbw_gbps", "busbw", "(GB/s)", BB_WIDTH_RATE, BB_DIGITS_THAT_FIT, SHOWS(busbw_gbps)},
    {"busbw_factor", SHOWS(factor)},
    {"wrong", "#wrong", "", 6, 0, SHOWS(wrong), .none = "N/A"},
    {0},
};

void bb_print_case_title(FILE *out, int coll, const char *mode)
{
    fprintf(out, "# %s%s%s%s: %s; busbw = algbw * %s\n", bb_colls[coll].name, mode ? " (" : "", mode ? mode : "",
            mode ? ")" : "", bb_colls[coll].help, bb_colls[coll].factor_text);
    if (bb_colls[coll].inplace == BB_INPLACE_NONE)
        fprintf(out, "# in place: N/A, because received data would overwrite data that are still to be sent\n");
}

/* Prints a title centered over the columns of one buffer placement. */
static void print_centred(FILE *out, const char *title, int width)
{
    int left = (width - (int)strlen(title)) / 2;

    fprintf(out, "%*s%s%*s", left, "", title, width - left - (int)strlen(title), "");
}

void bb_print_placements(FILE *out, const int widths[2], int more)
{
    const struct bb_line line = {.widths = widths};
    int each = bb_line_width(&line, bb_time_fields) + bb_line_width(&line, bb_metric_fields) + more;

    fprintf(out, "#%*s", bb_line_width(&line, bb_case_fields) - 3, "");
    print_centred(out, "out-of-place", each);
    print_centred(out, "in-place", each);
    fputc('\n', out);
}
