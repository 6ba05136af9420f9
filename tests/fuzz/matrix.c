/* matrix.c - alltoallv count matrix (--matrix FILE). Two parts: the file and the scale. */
#include "bootstrap/base/units.h"
#include "collectives/ops/alltoallv_counts.h"
#include "tests/fuzz/fuzz.h"

static void ask(const struct bb_alltoallv_counts *counts)
{
    for (int rank = 0; rank < counts->n; rank++)
        HOLDS(bb_alltoallv_counts_most(counts, 1, 16, counts->n, true) >=
              bb_alltoallv_counts_sent(counts, 1, 16, counts->n, rank));
}

/* Parses the scale like the option. */
static double scale_of(const char *text)
{
    double scale = 1;

    return bb_parse_double(text, &scale) == 0 && scale >= 0 && scale <= 1e12 ? scale : 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size), *part[FUZZ_PARTS];
    struct bb_alltoallv_counts counts = {0};

    fuzz_parts(text, part);
    if (bb_alltoallv_counts_parse(&counts, part[0], "fuzz", scale_of(part[1])) == 0)
        ask(&counts);
    bb_alltoallv_counts_release(&counts);
    free(text);
    return 0;
}
