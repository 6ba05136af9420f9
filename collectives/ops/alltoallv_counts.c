/* alltoallv_counts.c - the matrix of alltoallv counts: one count for each pair of ranks. */
#include "collectives/ops/alltoallv_counts.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/base/json_read.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { UNIT = 16, NUMBER_TEXT = 64, LARGEST_FILE = 1 << 28 };
static const double LARGEST = 1125899906842624.0; /* 1 PiB per count: the sum of 4096 counts cannot overflow */

/* ---- parser for matrix files ---- */

/* State of the parser: position in the text, and the counts read so far. */
struct reader {
    const char *next, *name;
    double scale;
    int row, column, columns; /* row, column: current position, from 0; columns: number of columns of the first row,
                                 0 until the first row ends */
    size_t *bytes, n;
};

static int reject_position(const struct reader *r, const char *what)
{
    return bb_err(BB_EUSAGE, "matrix file %s, row %d, column %d: %s", r->name, r->row + 1, r->column + 1, what);
}

static int read_number(struct reader *r)
{
    size_t length = strcspn(r->next, " \t\r\n\v\f");
    char text[NUMBER_TEXT], *end;
    double value;

    snprintf(text, sizeof text, "%.*s", (int)(length < NUMBER_TEXT ? length : NUMBER_TEXT - 1), r->next);
    value = strtod(text, &end);
    if (length >= NUMBER_TEXT || *end || !isfinite(value) || strspn(text, "0123456789.eE+-") != length) {
        char what[2 * NUMBER_TEXT + 64];
        snprintf(what, sizeof what,
                 "'%s' is not a number of bytes, expected decimal numbers separated by blanks or tabs, a line per row",
                 text);
        return reject_position(r, what);
    }
    if (value < 0 || value * r->scale > LARGEST)
        return reject_position(r, value < 0 ? "negative number of bytes" : "more than 1 PiB");
    if (r->columns == BB_ALLTOALLV_RANKS || (r->columns == 0 && r->column == BB_ALLTOALLV_RANKS))
        return reject_position(r, "more than 4096 columns");
    r->next += length;
    r->column++;
    BB_GROW(r->bytes, r->n);
    r->bytes[r->n++] = (size_t)(value * r->scale) / UNIT * UNIT;
    return 0;
}

/* Ends the current row of the matrix; a row without numbers is ignored. Called at each newline and at the end of the
 * text, because the last line may lack a newline. */
static int end_row(struct reader *r)
{
    if (r->column == 0)
        return 0;
    if (r->row == 0)
        r->columns = r->column;
    if (r->column != r->columns) {
        r->column--;
        return reject_position(r, "every row must have as many columns as the first row");
    }
    r->row++;
    r->column = 0;
    return 0;
}

static int read_matrix(struct reader *r)
{
    int rc = 0;

    while (*r->next && rc == 0) {
        if (*r->next == '\n')
            rc = end_row(r);
        if (isspace((unsigned char)*r->next))
            r->next++;
        else if (rc == 0)
            rc = read_number(r);
    }
    return rc ? rc : end_row(r);
}

int bb_alltoallv_counts_parse(struct bb_alltoallv_counts *t, const char *text, const char *name, double scale)
{
    struct reader r = {.next = text, .name = name, .scale = scale};
    int rc;

    TRY(read_matrix(&r));
    if (r.row == 0)
        rc = bb_err(BB_EUSAGE, "matrix file %s is empty", name);
    else if (r.row != r.columns)
        rc = bb_err(BB_EUSAGE, "matrix file %s has %d row%s and %d column%s, but must be square", name, r.row,
                    bb_plural(r.row), r.columns, bb_plural(r.columns));
    if (rc == 0) {
        t->bytes = r.bytes;
        t->n = r.row;
        return 0;
    }
out:
    free(r.bytes);
    return rc;
}

static int report(const char *path, const char *problem)
{
    return bb_err(errno == ENOMEM ? BB_EFAIL : BB_EUSAGE, "matrix file %s cannot be read: %s", path, problem);
}

int bb_alltoallv_counts_read(struct bb_alltoallv_counts *t, const char *path, double scale)
{
    const char *problem;
    FILE *file = bb_input_open(path, &problem);
    char *text = NULL;
    size_t length, capacity = 0;
    int rc = 0;

    if (!file)
        return report(path, problem);
    errno = 0;
    length = (size_t)getdelim(&text, &capacity, '\0', file);
    if (ferror(file) || errno == ENOMEM)
        rc = report(path, strerror(errno));
    else if (length == (size_t)-1)
        rc = bb_alltoallv_counts_parse(t, "", path, scale);
    else if (length > LARGEST_FILE || strlen(text) != length)
        rc = bb_err(BB_EUSAGE, "matrix file %s cannot be read: not a text file", path);
    else
        rc = bb_alltoallv_counts_parse(t, text, path, scale);
    free(text);
    fclose(file);
    return rc;
}

void bb_alltoallv_counts_release(struct bb_alltoallv_counts *t)
{
    free(t->bytes);
    t->bytes = NULL;
}

/* ---- counts of a pair of ranks and sums of counts ---- */

static size_t generated_count(double imbalance, size_t total, int ranks, int from, int to)
{
    double n = ranks, distance = (to - from + ranks) % ranks;
    double even = (double)total / n, weighted = distance * (double)total / (n * (n - 1) / 2);

    if (ranks == 1)
        return total / UNIT * UNIT;
    return (size_t)((1 - imbalance) * even + imbalance * weighted) / UNIT * UNIT;
}

size_t bb_alltoallv_counts_count(const struct bb_alltoallv_counts *t, size_t base, size_t elem_bytes, int ranks,
                                 int from, int to)
{
    if (t->bytes)
        return t->bytes[(size_t)from * (size_t)t->n + (size_t)to] / elem_bytes;
    return generated_count(t->imbalance, base * (size_t)ranks * elem_bytes, ranks, from, to) / elem_bytes;
}

size_t bb_alltoallv_counts_before(const struct bb_alltoallv_counts *t, size_t base, size_t elem_bytes, int ranks,
                                  int from, int to)
{
    size_t sum = 0;

    for (int r = 0; r < to; r++)
        sum += bb_alltoallv_counts_count(t, base, elem_bytes, ranks, from, r);
    return sum;
}

size_t bb_alltoallv_counts_sent(const struct bb_alltoallv_counts *t, size_t base, size_t elem_bytes, int ranks,
                                int rank)
{
    return bb_alltoallv_counts_before(t, base, elem_bytes, ranks, rank, ranks);
}

size_t bb_alltoallv_counts_received(const struct bb_alltoallv_counts *t, size_t base, size_t elem_bytes, int ranks,
                                    int rank)
{
    size_t sum = 0;

    for (int r = 0; r < ranks; r++)
        sum += bb_alltoallv_counts_count(t, base, elem_bytes, ranks, r, rank);
    return sum;
}

size_t bb_alltoallv_counts_most(const struct bb_alltoallv_counts *t, size_t base, size_t elem_bytes, int ranks,
                                bool own)
{
    size_t most = 0;

    for (int r = 0; r < (t->bytes ? ranks : 1); r++) {
        size_t sent = bb_alltoallv_counts_sent(t, base, elem_bytes, ranks, r);
        size_t received = bb_alltoallv_counts_received(t, base, elem_bytes, ranks, r);
        size_t more = sent > received ? sent : received;

        more -= own ? 0 : bb_alltoallv_counts_count(t, base, elem_bytes, ranks, r, r);
        most = more > most ? more : most;
    }
    return most;
}
