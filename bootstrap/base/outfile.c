/* outfile.c - see outfile.h. */
#include "bootstrap/base/outfile.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/base/units.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TRIES = 100, PROC_TEXT = 32 };

static void free_paths(struct bb_outfile *f)
{
    free(f->path);
    free(f->temporary);
    *f = (struct bb_outfile){0};
}

void bb_outfile_remove_temporaries(const char *path, pid_t pid)
{
    char *pattern = pid ? bb_format("%s.%08x????????.tmp", path, (unsigned)pid) : bb_format("%s.*.tmp", path);
    glob_t found = {.gl_pathc = 0};

    if (glob(pattern, GLOB_NOSORT, NULL, &found) == 0)
        for (size_t i = 0; i < found.gl_pathc; i++)
            (void)unlink(found.gl_pathv[i]);
    globfree(&found);
    free(pattern);
}

/* Returns the st_mode (type and permissions) of a file, 0 if the file does not exist. Symbolic links are not
 * followed. */
static mode_t mode_of(const char *path)
{
    struct stat s;

    return lstat(path, &s) == 0 ? s.st_mode : 0;
}

bool bb_outfile_is_stdout(const char *path)
{
    return path && strcmp(path, "-") == 0;
}

bool bb_outfile_is_stream(const char *path)
{
    static const char *const own[] = {"/dev/stdout", "/dev/stderr", "/dev/fd/", "/proc/self/fd/"};
    const mode_t mode = mode_of(path);

    /* Another link, for example in the world-writable /dev/shm, may belong to somebody else. */
    for (size_t i = 0; S_ISLNK(mode) && i < sizeof(own) / sizeof(own[0]); i++)
        if (bb_begins_with(path, own[i]))
            return access(path, F_OK) == 0;
    if (S_ISLNK(mode))
        return false;
    return mode && !S_ISREG(mode) && !S_ISDIR(mode);
}

/* Returns the folder of `path`, "." for a plain file name; the caller frees the text. */
static char *parent_folder(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? bb_format("%.*s", (int)(slash - path) + 1, path) : bb_copy_text(".");
}

bool bb_outfile_replaces(const char *path, const char *other)
{
    char *folder = parent_folder(path), *other_folder = parent_folder(other);
    struct stat a, b;
    bool same = strcmp(bb_base_name(path), bb_base_name(other)) == 0 && stat(folder, &a) == 0 &&
                stat(other_folder, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;

    free(folder);
    free(other_folder);
    if (lstat(path, &a) != 0)
        return same;
    if (S_ISREG(a.st_mode) && stat(other, &b) == 0)
        same |= a.st_dev == b.st_dev && a.st_ino == b.st_ino;
    return same && !bb_outfile_is_stream(path);
}

/* Writes the path of an open file under /proc to `path`. Unnamed files have such a path, too. */
static void format_proc_path(int fd, char path[PROC_TEXT])
{
    snprintf(path, PROC_TEXT, "/proc/self/fd/%d", fd);
}

/* Opens an unnamed file (O_TMPFILE) in the folder of `path`; the kernel removes the file when the process exits.
 * Returns the descriptor, or -1 if unnamed files are not supported. */
static int open_unnamed(const char *path, mode_t mode)
{
    char *folder = parent_folder(path), proc_path[PROC_TEXT];
    int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, mode);

    free(folder);
    if (fd < 0)
        return -1;
    format_proc_path(fd, proc_path);
    if (access(proc_path, F_OK) == 0)
        return fd;
    close(fd); /* without /proc, the file could not be linked to a name later */
    return -1;
}

/* Sets *name to a temporary path next to `path`: path.PPPPPPPPRRRRRRRR.tmp, with the process id and a random number in
 * hexadecimal digits. Returns false with errno set. */
static bool choose_name(const char *path, char **name)
{
    unsigned number;

    if (getrandom(&number, sizeof(number), 0) != (ssize_t)sizeof(number))
        return false;
    free(*name);
    *name = bb_format("%s.%08x%08x.tmp", path, (unsigned)getpid(), number);
    return true;
}

/* Opens the temporary file, unnamed where possible. Returns the descriptor, or -1 with errno set. */
static int open_temporary(struct bb_outfile *f, const char *path, mode_t mode)
{
    int fd = -1;

    for (int i = 0; i < TRIES && fd < 0; i++) {
        if (!choose_name(path, &f->temporary))
            return -1;
        if (i == 0 && (fd = open_unnamed(path, mode)) >= 0) {
            f->unnamed = true;
            return fd;
        }
        fd = open(f->temporary, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
        if (fd < 0 && errno != EEXIST)
            break;
    }
    return fd;
}

static void drop_temporary(const struct bb_outfile *f)
{
    if (f->temporary && !f->unnamed)
        unlink(f->temporary);
}

/* Opens a device or a pipe. O_NONBLOCK makes open() of a FIFO without a reader fail with ENXIO instead of waiting for a
 * reader; the descriptor itself is blocking. A reader that starts at the same time may open the FIFO up to 1 s later.
 * Returns the descriptor, or -1 with errno set. */
static int open_stream(const char *path)
{
    enum { TRIES = 100, PAUSE_MS = 10 };
    const int flags = O_WRONLY | O_APPEND | O_NOCTTY | O_CLOEXEC | O_NONBLOCK;
    int fd = open(path, flags);

    for (int i = 0; fd < 0 && errno == ENXIO && i < TRIES; i++) {
        (void)poll(NULL, 0, PAUSE_MS);
        fd = open(path, flags);
    }
    if (fd >= 0)
        (void)fcntl(fd, F_SETFL, O_APPEND);
    return fd;
}

/* Opens the temporary file for `path`, or the device or pipe itself. Returns 0 or errno. */
static int open_target(struct bb_outfile *f, const char *path, mode_t mode)
{
    bool is_stream = bb_outfile_is_stream(path);
    int fd;

    *f = (struct bb_outfile){.path = bb_copy_text(path)};
    if (!*path)
        return ENOENT;
    if (S_ISDIR(mode_of(path)))
        return EISDIR;
    fd = is_stream ? open_stream(path) : open_temporary(f, path, mode);
    if (fd < 0)
        return errno;
    f->out = fdopen(fd, is_stream ? "w" : "w+");
    if (f->out)
        return 0;
    close(fd);
    drop_temporary(f);
    return ENOMEM;
}

int bb_outfile_create(struct bb_outfile *f, const char *path, mode_t mode)
{
    int error = open_target(f, path, mode);

    if (error)
        free_paths(f);
    return error;
}

static int report_open(const char *path, const char *what, enum bb_error code, int error)
{
    struct stat s;

    if (error == ENXIO && stat(path, &s) == 0 && S_ISFIFO(s.st_mode))
        return bb_err(BB_EUSAGE, "no process reads FIFO %s; try: start the reader first", path);
    if (error == ENOMEM) /* out of memory is not a usage error */
        code = BB_EFAIL;
    return bb_err(code, "cannot write %s: %s: %s", what, path, strerror(error));
}

static int open_or_report(struct bb_outfile *f, const char *path, const char *what, mode_t mode, enum bb_error code)
{
    int error = bb_outfile_create(f, path, mode);

    return error ? report_open(path, what, code, error) : 0;
}

int bb_outfile_open(struct bb_outfile *f, const char *path, const char *what)
{
    return open_or_report(f, path, what, 0666, BB_EFAIL);
}

int bb_outfile_open_private(struct bb_outfile *f, const char *path, const char *what)
{
    return open_or_report(f, path, what, 0600, BB_EFAIL);
}

int bb_outfile_sync(int fd)
{
    if (fsync(fd) == 0 || errno == EINVAL || errno == EROFS || errno == ENOTSUP)
        return 0;
    return errno;
}

/* fsyncs the folder of `path`. Errors are ignored: the file already has its new name, and only a power failure could
 * undo the rename. */
static void sync_folder(const char *path)
{
    char *folder = parent_folder(path);
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd >= 0) {
        (void)bb_outfile_sync(fd);
        close(fd);
    }
    free(folder);
}

static int link_temporary(struct bb_outfile *f)
{
    char proc_path[PROC_TEXT];

    format_proc_path(fileno(f->out), proc_path);
    if (linkat(AT_FDCWD, proc_path, AT_FDCWD, f->temporary, AT_SYMLINK_FOLLOW) != 0)
        return errno;
    f->unnamed = false;
    return 0;
}

/*
 * Returns 0, or the errno of a failed write. stdio does not store this errno, so one write(2) is repeated, which fails
 * for the same reason. If write(2) succeeds, the appended byte does no harm, because the file is discarded.
 */
int bb_outfile_error(FILE *out)
{
    if (fflush(out) != 0)
        return errno ? errno : EIO;
    if (!ferror(out))
        return 0;
    return write(fileno(out), "\n", 1) < 0 ? errno : EIO;
}

int bb_outfile_publish(struct bb_outfile *f)
{
    int error = bb_outfile_error(f->out);

    if (error || !f->temporary)
        return error;
    error = bb_outfile_sync(fileno(f->out));
    if (!error && f->unnamed)
        error = link_temporary(f);
    if (error)
        return error;
    if (rename(f->temporary, f->path) != 0)
        return errno;
    free(f->temporary);
    f->temporary = NULL;
    sync_folder(f->path);
    return 0;
}

bool bb_outfile_is_current(const struct bb_outfile *f)
{
    struct stat open_file, named_file;

    return fstat(fileno(f->out), &open_file) == 0 && lstat(f->path, &named_file) == 0 &&
           open_file.st_dev == named_file.st_dev && open_file.st_ino == named_file.st_ino;
}

int bb_outfile_close(struct bb_outfile *f, const char *what, int rc)
{
    int error = rc == 0 ? bb_outfile_publish(f) : 0;

    if (fclose(f->out) != 0 && error == 0)
        error = errno ? errno : EIO;
    if (rc == 0 && error)
        rc = bb_err(BB_EFAIL, "cannot write %s: %s: %s", what, f->path, strerror(error));
    if (rc)
        drop_temporary(f);
    free_paths(f);
    return rc;
}

int bb_outfile_check(const char *path, const char *what)
{
    struct bb_outfile file;
    struct stat s;
    int rc, error = 0;

    if (!path || bb_outfile_is_stdout(path))
        return 0;
    if (bb_outfile_is_stream(path) && access(path, W_OK) == 0)
        return 0; /* the check does not open a device or pipe, because closing a pipe would end the input of the
                     process that reads it */
    rc = open_or_report(&file, path, what, 0666, BB_EUSAGE);
    if (rc)
        return rc;
    if (file.temporary && lstat(file.temporary, &s) != 0 && errno != ENOENT)
        error = errno; /* the temporary file cannot get its name, for example ENAMETOOLONG */
    (void)bb_outfile_close(&file, what, -BB_EUSAGE);
    return error ? report_open(path, what, BB_EUSAGE, error) : 0;
}
