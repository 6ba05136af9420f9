/* head.c - see head.h. */
#include "bootstrap/cli/head.h"

void bb_head_command(FILE *out, int argc, char **argv)
{
    fputs("# busbar " BUSBAR_VERSION "  busbar", out);
    for (int i = 0; i < argc; i++)
        fprintf(out, " %s", argv[i]);
    fputc('\n', out);
}

void bb_head_emulated(FILE *out, const char *of, const char *but)
{
    fprintf(out, "# %semulated GPUs: all times come from a model%s, none is a measurement of hardware\n", of, but);
}
