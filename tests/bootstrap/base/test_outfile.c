/*
 * test_outfile.c - a file is replaced completely or not at all; a symbolic link is replaced, not followed. All tests
 * run twice: with the real file system, and as on a file system without O_TMPFILE (NFS).
 */
#include "bootstrap/base/outfile.h"
#include "tests/check.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static char folder[32], path[64], name[64];
static bool no_tmpfile; /* true: simulate a file system without O_TMPFILE */

/* Replaces open() of the C library. */
int open(const char *file, int flags, ...)
{
    va_list args;
    int mode;

    va_start(args, flags);
    mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(args, int) : 0;
    va_end(args);
    if (no_tmpfile && (flags & O_TMPFILE) == O_TMPFILE) {
        errno = EOPNOTSUPP;
        return -1;
    }
    return (int)syscall(SYS_openat, AT_FDCWD, file, flags, mode);
}

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/outfile-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof(path), "%s/file", folder);
    snprintf(name, sizeof(name), "%s/link", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(path);
    unlink(name);
    return rmdir(folder); /* fails when a test left a file in the folder */
}

static bool supports_unnamed_files(void)
{
    const int fd = open(folder, O_TMPFILE | O_RDWR, 0600);

    return fd >= 0 && close(fd) == 0;
}

static int count_files(void)
{
    DIR *all = opendir(folder);
    struct dirent *one;
    int n = 0;

    assert_non_null(all);
    while ((one = readdir(all)) != NULL)
        n += one->d_name[0] != '.';
    closedir(all);
    return n;
}

static const char *content(void)
{
    static char text[64];
    FILE *in = fopen(path, "r");

    assert_non_null(in);
    text[fread(text, 1, sizeof(text) - 1, in)] = '\0';
    fclose(in);
    return text;
}

static int write_text(const char *where, const char *text, int rc)
{
    struct bb_outfile f;

    assert_int_equal(bb_outfile_open(&f, where, "the test"), 0);
    fputs(text, f.out);
    return bb_outfile_close(&f, "the test", rc);
}

static void replaces_the_file_completely_or_not_at_all(void **state)
{
    (void)state;
    assert_int_equal(write_text(path, "one", 0), 0);
    assert_string_equal(content(), "one");
    assert_int_equal(write_text(path, "two", -BB_EDATA), -BB_EDATA);
    assert_string_equal(content(), "one");
    assert_int_equal(count_files(), 1);
}

/* The symbolic link itself is replaced; its target is not written. */
static void replaces_a_link_not_its_target(void **state)
{
    struct stat s;

    (void)state;
    assert_int_equal(write_text(path, "one", 0), 0);
    assert_int_equal(symlink(path, name), 0);
    assert_int_equal(write_text(name, "three", 0), 0);
    assert_string_equal(content(), "one");
    assert_int_equal(lstat(name, &s), 0);
    assert_true(S_ISREG(s.st_mode));
    unlink(name);
}

/* Two concurrent writers of one file use separate temporary files until they close. */
static void two_writers_use_separate_temporary_files(void **state)
{
    struct bb_outfile first, second;

    (void)state;
    assert_int_equal(bb_outfile_open(&first, path, "the test"), 0);
    assert_int_equal(bb_outfile_open(&second, path, "the test"), 0);
    assert_string_not_equal(first.temporary, second.temporary);
    fputs("first", first.out);
    fputs("second", second.out);
    assert_int_equal(bb_outfile_close(&second, "the test", 0), 0);
    assert_string_equal(content(), "second");
    assert_int_equal(bb_outfile_close(&first, "the test", 0), 0);
    assert_string_equal(content(), "first");
    assert_int_equal(count_files(), 1);
}

static unsigned mode_of(const char *file)
{
    struct stat s;

    assert_int_equal(stat(file, &s), 0);
    return s.st_mode & 0777;
}

static void applies_umask_or_private_mode(void **state)
{
    mode_t before = umask(027);
    struct bb_outfile f;

    (void)state;
    assert_int_equal(write_text(path, "x", 0), 0);
    assert_int_equal(mode_of(path), 0640);
    assert_int_equal(bb_outfile_open_private(&f, path, "the test"), 0);
    assert_int_equal(bb_outfile_close(&f, "the test", 0), 0);
    assert_int_equal(mode_of(path), 0600);
    umask(before);
}

static void publishes_before_close(void **state)
{
    struct bb_outfile f;

    (void)state;
    assert_int_equal(bb_outfile_open(&f, path, "the test"), 0);
    fputs("placed", f.out);
    assert_int_equal(bb_outfile_publish(&f), 0);
    assert_string_equal(content(), "placed");
    assert_true(bb_outfile_is_current(&f));
    fputs(" more", f.out);
    assert_int_equal(bb_outfile_publish(&f), 0); /* the file already has its name */
    assert_string_equal(content(), "placed more");
    assert_int_equal(write_text(path, "another", 0), 0);
    assert_false(bb_outfile_is_current(&f));
    assert_int_equal(bb_outfile_close(&f, "the test", -BB_EFAIL), -BB_EFAIL);
    assert_string_equal(content(), "another");
}

/* A writer that fails leaves the old content. Its temporary file is unnamed with O_TMPFILE; otherwise close removes
 * it. */
static void failed_writer_keeps_the_old_file(void **state)
{
    struct bb_outfile f;

    (void)state;
    assert_int_equal(write_text(path, "old", 0), 0);
    assert_int_equal(bb_outfile_open(&f, path, "the test"), 0);
    assert_int_equal(f.unnamed, supports_unnamed_files());
    fputs("new", f.out);
    assert_int_equal(fflush(f.out), 0);
    assert_int_equal(count_files(), f.unnamed ? 1 : 2);
    assert_int_equal(bb_outfile_close(&f, "the test", -BB_EFAIL), -BB_EFAIL);
    assert_int_equal(count_files(), 1);
    assert_string_equal(content(), "old");
}

/* Descriptor 0 is a valid output file: daemons and some launchers close standard input. */
static void works_without_standard_input(void **state)
{
    struct bb_outfile f;
    int saved = dup(STDIN_FILENO), files;

    (void)state;
    unlink(path);
    files = count_files();
    close(STDIN_FILENO);
    assert_int_equal(bb_outfile_open(&f, path, "the test"), 0);
    assert_int_equal(fileno(f.out), 0);
    assert_int_equal(count_files(), files + !f.unnamed);
    assert_int_equal(bb_outfile_close(&f, "the test", 0), 0);
    if (saved >= 0)
        dup2(saved, STDIN_FILENO);
    assert_int_equal(count_files(), files + 1);
}

static void writes_to_devices_in_place(void **state)
{
    struct stat s;

    (void)state;
    assert_int_equal(write_text("/dev/null", "x", 0), 0);
    assert_int_equal(write_text("/dev/full", "x", 0), -BB_EFAIL);
    assert_int_equal(stat("/dev/full", &s), 0);
    assert_true(S_ISCHR(s.st_mode));
}

/* /dev/shm is a world-writable folder: a link there may belong to another user. */
static void replaces_a_link_in_dev_shm(void **state)
{
    const char *link = "/dev/shm/busbar-outfile-link";
    char text[8] = "";
    FILE *f;

    (void)state;
    assert_int_equal(write_text(path, "mine", 0), 0);
    (void)unlink(link);
    assert_int_equal(symlink(path, link), 0);
    assert_false(bb_outfile_is_stream(link));
    assert_int_equal(write_text(link, "x", 0), 0);
    assert_int_equal(unlink(link), 0);
    f = fopen(path, "r");
    assert_non_null(f);
    assert_string_equal(fgets(text, sizeof(text), f), "mine");
    fclose(f);
}

static void recognizes_the_same_file(void **state)
{
    char other[80];

    (void)state;
    unlink(path);
    snprintf(other, sizeof(other), "%s/./file", folder);
    assert_true(bb_outfile_replaces(path, path));
    assert_true(bb_outfile_replaces(path, other)); /* neither exists */
    assert_int_equal(write_text(path, "x", 0), 0);
    assert_true(bb_outfile_replaces(path, other));
    assert_int_equal(symlink(path, name), 0);
    assert_true(bb_outfile_replaces(path, name));
    assert_false(bb_outfile_replaces(name, path)); /* the link is replaced, not the file */
    unlink(name);
    assert_false(bb_outfile_replaces(path, name));
    assert_false(bb_outfile_replaces("/dev/null", "/dev/null"));
}

static void rejects_invalid_paths(void **state)
{
    static const char *const bad[] = {"/nowhere/at/all", folder, ""};
    struct bb_outfile f;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(bb_outfile_open(&f, bad[i], "the test"), -BB_EFAIL);
        assert_int_equal(bb_outfile_check(bad[i], "the test"), -BB_EUSAGE); /* the check before the run reports a
                                                                               usage error */
    }
    assert_int_equal(bb_outfile_check("/dev/null", "the test"), 0);
    assert_true(bb_outfile_is_stream("/dev/stdout"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replaces_the_file_completely_or_not_at_all),
        cmocka_unit_test(replaces_a_link_not_its_target),
        cmocka_unit_test(two_writers_use_separate_temporary_files),
        cmocka_unit_test(applies_umask_or_private_mode),
        cmocka_unit_test(publishes_before_close),
        cmocka_unit_test(failed_writer_keeps_the_old_file),
        cmocka_unit_test(works_without_standard_input),
        cmocka_unit_test(writes_to_devices_in_place),
        cmocka_unit_test(replaces_a_link_in_dev_shm),
        cmocka_unit_test(recognizes_the_same_file),
        cmocka_unit_test(rejects_invalid_paths),
    };

    int failed = cmocka_run_group_tests(tests, make_folder, remove_folder);

    no_tmpfile = true;
    return failed + cmocka_run_group_tests(tests, make_folder, remove_folder);
}
