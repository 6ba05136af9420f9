/* outfile.c - files that are replaced in one go (outfile.h). */
#include "bootstrap/base/outfile.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void free_paths(struct bb_outfile *f)
{
    free(f->path);
    free(f->temporary);
    *f = (struct bb_outfile){0};
}

static int refuse_file(struct bb_outfile *f, const char *path, const char *what)
{
    int error = errno;

    free_paths(f);
    return bb_err(BB_EUSAGE, "cannot write %s: %s: %s", what, path, strerror(error));
}

int bb_outfile_open(struct bb_outfile *f, const char *path, const char *what)
{
    struct stat old;
    bool exists = stat(path, &old) == 0, special = exists && !S_ISREG(old.st_mode);

    *f = (struct bb_outfile){.path = exists ? realpath(path, NULL) : strdup(path)};
    errno = *path ? errno : ENOENT;
    if (!f->path || !*path)
        return refuse_file(f, path, what);
    if (!special && asprintf(&f->temporary, "%s.tmp", f->path) < 0) {
        f->temporary = NULL;
        return refuse_file(f, path, what);
    }
    f->out = fopen(special ? f->path : f->temporary, "w");
    return f->out ? 0 : refuse_file(f, path, what);
}

int bb_outfile_close(struct bb_outfile *f, const char *what, int rc)
{
    bool bad = ferror(f->out) != 0;

    errno = 0;
    bad |= fclose(f->out) != 0;
    if (rc == 0 && !bad && f->temporary)
        bad = rename(f->temporary, f->path) != 0;
    if (rc == 0 && bad)
        rc = bb_err(BB_EFAIL, "cannot write %s: %s: %s", what, f->path, errno ? strerror(errno) : "a write failed");
    if (rc && f->temporary)
        unlink(f->temporary);
    free_paths(f);
    return rc;
}

int bb_outfile_check(const char *path, const char *what)
{
    struct bb_outfile file;
    int rc = bb_outfile_open(&file, path, what);

    if (rc == 0)
        (void)bb_outfile_close(&file, what, -BB_EUSAGE);
    return rc;
}
