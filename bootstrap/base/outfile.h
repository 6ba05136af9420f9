/*
 * outfile.h - a file that is there whole or not at all: written under another name beside it and renamed at the end, so
 * that a run that dies leaves the older one as it was. A device or a pipe is written as it is, since a rename would
 * replace it; behind links the file itself is replaced, not the link.
 */
#ifndef BB_BOOTSTRAP_BASE_OUTFILE_H
#define BB_BOOTSTRAP_BASE_OUTFILE_H

#include "bootstrap/base/err.h"

#include <stdio.h>

struct bb_outfile {
    FILE *out;              /* write here                                    */
    char *path, *temporary; /* temporary NULL: path is a device or a pipe    */
};

/* bb_outfile_open - `what` names the file in messages ("results"). A path that cannot be written is -BB_EUSAGE. On an
 * error nothing is open. */
int bb_outfile_open(struct bb_outfile *f, const char *path, const char *what) BB_MUST_CHECK;

/* bb_outfile_close - rc 0: the file is complete and takes its place, unless something could not be written
 * (-BB_EFAIL, said). Otherwise it is dropped. Returns rc or the error. */
int bb_outfile_close(struct bb_outfile *f, const char *what, int rc);

/* bb_outfile_check - can a file be written there? Asked before an hour of running: 0 or -BB_EUSAGE (said). */
int bb_outfile_check(const char *path, const char *what) BB_MUST_CHECK;

#endif
