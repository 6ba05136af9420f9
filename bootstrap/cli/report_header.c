/* report_header.c - see report_header.h. */
#include "bootstrap/cli/report_header.h"

#include "bootstrap/base/err.h"
#include "bootstrap/base/units.h"

#include <stdlib.h>
#include <string.h>

void bb_print_report_header(FILE *out, int argc, char **argv)
{
    bb_warn_hold(0);
    fputs("# busbar " BUSBAR_VERSION "  busbar", out);
    for (int i = 0; i < argc; i++) {
        char *word = bb_visible_text(argv[i]);

        fprintf(out, !*word || strpbrk(word, " ;&|<>()$*?") ? " '%s'" : " %s", word);
        free(word);
    }
    fputc('\n', out);
}

void bb_print_emulated_note(FILE *out, const char *of, const char *but)
{
    fprintf(out, "# %semulated GPUs: all times come from a model%s, none is a measurement of hardware\n", of, but);
}
