/*
 * nccl_tests_text.h - what nccl-tests prints, as the tree that it writes with -J (version 3), so that whoever reads one
 * reads the other: its settings, the device of every rank, and a result for each row of its table. Its columns are told
 * by their heading, which has grown from version to version; what other programs say in between is passed over.
 */
#ifndef BB_COLLECTIVES_COMPARE_NCCL_TESTS_TEXT_H
#define BB_COLLECTIVES_COMPARE_NCCL_TESTS_TEXT_H

#include "bootstrap/base/err.h"

#include <jansson.h>
#include <stdio.h>

/* Borrowed. */
struct bb_nccl_tests_output {
    const char *path; /* for messages */
    FILE *file;
    int lines;             /* that were read before */
    const char *operation; /* "all_reduce": what it is of where it does not say so; NULL: it has to, as newer ones do */
};

/*
 * bb_nccl_tests_text_read - refused with one line that names the place (-BB_EUSAGE): a text without a table or without
 * devices, several runs in one, a row cut short, an operation that is not the text's. -BB_EFAIL without memory. *root
 * is new, NULL after an error.
 */
int bb_nccl_tests_text_read(const struct bb_nccl_tests_output *p, json_t **root) BB_MUST_CHECK;

#endif
