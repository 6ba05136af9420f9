/*
 * head.h - what every report for people has in common, written once: its first line, and the line of emulated GPUs.
 * Under nccl-tests' names the report is that program's.
 */
#ifndef BB_BOOTSTRAP_CLI_HEAD_H
#define BB_BOOTSTRAP_CLI_HEAD_H

#include <stdio.h>

/* bb_head_command - "# busbar 0.1.0  busbar plan gpt2_large --ranks 8". argv: from the name of the command on. */
void bb_head_command(FILE *out, int argc, char **argv);

/* bb_head_emulated - "# emulated GPUs: all times come from a model, none is a measurement of hardware". of: "A: ", whose
 * times they are; "" of all. but: what more there is to say of the model; "". */
void bb_head_emulated(FILE *out, const char *of, const char *but);

#endif
