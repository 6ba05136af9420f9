/*
 * outfile.h - atomic replacement of files: either the complete file appears or none.
 *
 * The data is written to a temporary file in the same folder, which is renamed over the target at the end. A run that
 * dies leaves the previous file unchanged. Where the file system supports O_TMPFILE, the temporary file has no name
 * until the end, so that a run that dies, or that is killed in a blocked write, leaves no temporary file. The temporary
 * name is random and the file is opened with O_EXCL, so that no existing file is overwritten and two runs with the same
 * target do not interfere: the file of the last run to finish remains. The file is synchronized to disk (fsync) before
 * the rename, and the folder after the rename.
 *
 * Devices, pipes and the links to open descriptors (/dev/stdout, /dev/fd/3) are written directly, because a rename
 * would replace them. Any other symbolic link is itself replaced by the new file; the file to which the link points is
 * unchanged.
 */
#ifndef BB_BOOTSTRAP_BASE_OUTFILE_H
#define BB_BOOTSTRAP_BASE_OUTFILE_H

#include "bootstrap/base/err.h"

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

struct bb_outfile {
    FILE *out;              /* stream for the data; also readable, unless the target is a device or pipe */
    char *path, *temporary; /* path: target; temporary: path of the temporary file, NULL for a device or pipe and
                               after bb_outfile_publish */
    bool unnamed;           /* true: the open file (O_TMPFILE) is not linked to the path `temporary` yet */
};

/*
 * bb_outfile_open - open a file for writing, with mode 0666 less the umask. bb_outfile_open_private - with mode 0600,
 * for files that contain values of environment variables.
 *   what     names the file in messages ("results")
 *   Returns  0, or -BB_EFAIL after printing one error line; then no file is open
 *   Owner    bb_outfile_close releases f
 */
int bb_outfile_open(struct bb_outfile *f, const char *path, const char *what) BB_MUST_CHECK;
int bb_outfile_open_private(struct bb_outfile *f, const char *path, const char *what) BB_MUST_CHECK;

/* bb_outfile_create - like bb_outfile_open, but with the given mode and without messages. Returns 0 or errno. */
int bb_outfile_create(struct bb_outfile *f, const char *path, mode_t mode) BB_MUST_CHECK;

/* bb_outfile_publish - flush and fsync the data, rename the file to its target and fsync the folder. The file stays
 * open. Returns 0 or errno; prints nothing. */
int bb_outfile_publish(struct bb_outfile *f) BB_MUST_CHECK;

/* bb_outfile_is_current - return whether the target path still names the published file; false after the file was
 * removed or replaced. */
bool bb_outfile_is_current(const struct bb_outfile *f);

/*
 * bb_outfile_close - publish the file if rc is 0, else discard it; then release f.
 *   rc       result of the code that wrote the data
 *   Returns  rc, or -BB_EFAIL after printing one error line if some data could not be written
 */
int bb_outfile_close(struct bb_outfile *f, const char *what, int rc);

/*
 * bb_outfile_check - check before a long run whether `path` can be written. An existing file stays unchanged. NULL (no
 * file) and "-" (stdout) need no check. Returns 0, or -BB_EUSAGE (-BB_EFAIL: out of memory) after printing one error line.
 */
int bb_outfile_check(const char *path, const char *what) BB_MUST_CHECK;

/* bb_outfile_remove_temporaries - remove the temporary files for the target `path` that the killed process `pid` left.
 * pid 0: that any process left, also for targets whose path is `path`, a dot and more text. */
void bb_outfile_remove_temporaries(const char *path, pid_t pid);

/* bb_outfile_replaces - return whether writing the file `path` would replace the file `other`, which may not exist yet:
 * both paths name the same entry of a folder, or `other` is a link to the file `path`. False for devices and pipes. */
bool bb_outfile_replaces(const char *path, const char *other);

/* bb_outfile_is_stream - true for paths that are written directly: devices, pipes, /dev/stdout, /dev/stderr, and the
 * links to this process's descriptors in /dev/fd and /proc/self/fd. */
bool bb_outfile_is_stream(const char *path);

/* bb_outfile_is_stdout - return whether a path is "-", which options that write files accept for stdout; false for NULL. */
bool bb_outfile_is_stdout(const char *path);

/* bb_outfile_error - flush `out`. Returns 0, or errno if this flush or an earlier write failed. */
int bb_outfile_error(FILE *out);

/* bb_outfile_sync - fsync a file. Returns 0 or errno; also 0 for files that do not support fsync. */
int bb_outfile_sync(int fd);

#endif
