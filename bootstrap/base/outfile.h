/*
 * outfile.h - a file that is there whole or not at all: written under another name beside it and renamed at the end,
 * so that a run that dies leaves the older one as it was. Where the file system can, it gets the other name only then,
 * and nothing is left of a run that dies before, or is ended in a write that never returns. The other name cannot be
 * guessed and is nobody's yet (O_EXCL), so nothing that stands there already is written to, and two runs that write one
 * file do not meet: the last to end wins. File and folder are on the disk (fsync) when it has its name.
 *
 * A device or a pipe is written as it is, since a rename would replace it; so is whatever /dev and /proc name
 * (/dev/stdout). Any other link is replaced by the file; what it points to is never touched.
 */
#ifndef BB_BOOTSTRAP_BASE_OUTFILE_H
#define BB_BOOTSTRAP_BASE_OUTFILE_H

#include "bootstrap/base/err.h"

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

struct bb_outfile {
    FILE *out;              /* write here; a file can be read back, too */
    char *path, *temporary; /* temporary NULL: path is a device or a pipe, or the file has its name already */
    bool unnamed;           /* not even the temporary one yet */
};

/*
 * bb_outfile_open - `what` names the file in messages ("results"). A path that cannot be written is -BB_EFAIL, said.
 * On an error nothing is open. The mode is what the umask leaves of 0666, _open_private: 0600, for what holds values of
 * the environment.
 */
int bb_outfile_open(struct bb_outfile *f, const char *path, const char *what) BB_MUST_CHECK;
int bb_outfile_open_private(struct bb_outfile *f, const char *path, const char *what) BB_MUST_CHECK;

/* bb_outfile_create - the same, not said: 0, or errno. */
int bb_outfile_create(struct bb_outfile *f, const char *path, mode_t mode) BB_MUST_CHECK;

/* bb_outfile_publish - what is written so far takes its place, and the file stays open; _name: the folder need not be on the
 * disk yet. 0, or errno, not said. */
int bb_outfile_publish(struct bb_outfile *f) BB_MUST_CHECK;
int bb_outfile_publish_unsynced(struct bb_outfile *f) BB_MUST_CHECK;

/* bb_outfile_sync_folder - the name of a file is on the disk, too, where its folder can be opened. */
void bb_outfile_sync_folder(const char *path);

/* bb_outfile_is_current - a file that was placed is still the one of that name: not removed, not replaced. */
bool bb_outfile_is_current(const struct bb_outfile *f);

/* bb_outfile_close - rc 0: the file is complete and takes its place, unless something could not be written
 * (-BB_EFAIL, said). Otherwise it is dropped. Returns rc or the error. */
int bb_outfile_close(struct bb_outfile *f, const char *what, int rc);

/* bb_outfile_check - can a file be written there? Asked before an hour of running: 0 or -BB_EUSAGE (said). */
int bb_outfile_check(const char *path, const char *what) BB_MUST_CHECK;

/* bb_outfile_is_stream - path is written as it is. */
bool bb_outfile_is_stream(const char *path);

/* bb_outfile_error - what is written to a stream so far is there: 0, or errno of a write that failed, now or before. */
int bb_outfile_error(FILE *out);

/* bb_outfile_sync - on the disk, where a disk is behind it: 0 or errno. */
int bb_outfile_sync(int fd);

#endif
