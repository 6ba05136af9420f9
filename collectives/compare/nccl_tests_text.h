/*
 * nccl_tests_text.h - parses nccl-tests' printed output into the JSON tree that nccl-tests writes with -J (version 3),
 * so that result_reader.c handles both. The tree contains the settings, the device of every rank, and one result per
 * table row. Columns are identified by the table heading, which differs between versions. Lines of other programs are
 * skipped.
 */
#ifndef BB_COLLECTIVES_COMPARE_NCCL_TESTS_TEXT_H
#define BB_COLLECTIVES_COMPARE_NCCL_TESTS_TEXT_H

#include "bootstrap/base/err.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* The output to parse; all pointers are borrowed. */
struct bb_nccl_tests_output {
    const char *path; /* file name for error messages */
    FILE *file;
    int lines; /* number of lines that the caller has already read from the stream; error messages count them */
    const char *operation; /* operation, for example "all_reduce", stated by the user for versions of nccl-tests that
                              do not print it; NULL: the output must contain the operation */
    int ranks, nodes;      /* stated by the user for output whose list of devices is incomplete; 0: not stated */
    bool several;          /* accept several runs one after the other, as a script prints them; false: an error */
};

/*
 * bb_nccl_tests_text_read - parse the output.
 *   runs     out: new reference to a list with the tree of each run; NULL after an error
 *   Returns  0; -BB_EFAIL after a read error; -BB_EUSAGE after printing an error with the position: no table, no
 *            devices, several runs without p->several, a truncated row, or an operation other than p->operation
 */
int bb_nccl_tests_text_read(const struct bb_nccl_tests_output *p, json_t **runs) BB_MUST_CHECK;

#endif
