/*
 * report_header.h - first lines of text reports. Reports printed under the names of nccl-tests' programs have the
 * header of nccl-tests instead.
 */
#ifndef BB_BOOTSTRAP_CLI_REPORT_HEADER_H
#define BB_BOOTSTRAP_CLI_REPORT_HEADER_H

#include <stdio.h>

/* bb_print_report_header - print "# busbar 0.1.0  busbar plan gpt2_large --ranks 8". argv begins with the command's
 * name. */
void bb_print_report_header(FILE *out, int argc, char **argv);

/*
 * bb_print_emulated_note - print "# emulated GPUs: all times come from a model, none is a measurement of hardware".
 *   of       "" if all times come from a model; "A: " if only the times of the result file A do
 *   but      text inserted after "a model", for example a restriction of the model; "": none
 */
void bb_print_emulated_note(FILE *out, const char *of, const char *but);

#endif
