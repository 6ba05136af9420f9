/* report_header.c - see report_header.h. */
#include "bootstrap/cli/report_header.h"

#include "bootstrap/base/err.h"

#include <string.h>

void bb_print_report_header(FILE *out, int argc, char **argv)
{
    bb_warn_hold(0);
    fputs("# busbar " BUSBAR_VERSION "  busbar", out);
    for (int i = 0; i < argc; i++)
        fprintf(out, !*argv[i] || strpbrk(argv[i], " \t;&|<>()$*?") ? " '%s'" : " %s", argv[i]);
    fputc('\n', out);
}

void bb_print_emulated_note(FILE *out, const char *of, const char *but)
{
    fprintf(out, "# %semulated GPUs: all times come from a model%s, none is a measurement of hardware\n", of, but);
}
