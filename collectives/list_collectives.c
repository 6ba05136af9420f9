/* list_collectives.c - prints the tables of `busbar list`. The caller checks the stream for write errors. */
#include "collectives/bench_main.h"
#include "collectives/ops/coll.h"

int bb_list_collectives(FILE *out)
{
    for (int i = 0; i < BB_COLL_KIND_COUNT; i++)
        fprintf(out, "%-15s %s (busbw = algbw * %s)\n", bb_colls[i].name, bb_colls[i].help, bb_colls[i].factor_text);
    return 0;
}

int bb_list_dtypes(FILE *out)
{
    for (int i = 0; i < BB_DTYPE_COUNT; i++)
        fprintf(out, "%-15s %s\n", bb_dtypes[i].name, bb_dtypes[i].help);
    return 0;
}

int bb_list_ops(FILE *out)
{
    for (int i = 0; i < BB_REDOP_COUNT; i++)
        fprintf(out, "%-15s %s\n", bb_redops[i].name, bb_redops[i].help);
    return 0;
}
