/*
 * report_header.h - what every report for people has in common, written once: its first line, and the line of emulated GPUs.
 * Under nccl-tests' names the report is that program's.
 */
#ifndef BB_BOOTSTRAP_CLI_REPORT_HEADER_H
#define BB_BOOTSTRAP_CLI_REPORT_HEADER_H

#include <stdio.h>

/* bb_print_report_header - "# busbar 0.1.0  busbar plan gpt2_large --ranks 8". argv: from the name of the command on. */
void bb_print_report_header(FILE *out, int argc, char **argv);

/* bb_print_emulated_note - "# emulated GPUs: all times come from a model, none is a measurement of hardware". of: "A: ", whose
 * times they are; "" of all. but: what more there is to say of the model; "". */
void bb_print_emulated_note(FILE *out, const char *of, const char *but);

#endif
