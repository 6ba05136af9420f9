/* test_outfile.c - a file is replaced whole or not at all; devices, pipes and links stay what they are. */
#include "bootstrap/base/outfile.h"
#include "tests/check.h"

#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "/tmp/outfile-XXXXXX", path[64], temporary[64], name[64];

static int make_folder(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof(path), "%s/file", folder);
    snprintf(temporary, sizeof(temporary), "%s/file.tmp", folder);
    snprintf(name, sizeof(name), "%s/link", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(path);
    unlink(name);
    return rmdir(folder); /* fails when something was left behind */
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

static void test_whole_or_not(void **state)
{
    (void)state;
    assert_int_equal(write_text(path, "one", 0), 0);
    assert_string_equal(content(), "one");
    assert_int_equal(write_text(path, "two", -BB_EDATA), -BB_EDATA);
    assert_string_equal(content(), "one");
    assert_int_not_equal(access(temporary, F_OK), 0);
}

static void test_behind_a_link(void **state)
{
    struct stat s;

    (void)state;
    assert_int_equal(symlink(path, name), 0);
    assert_int_equal(write_text(name, "three", 0), 0);
    assert_string_equal(content(), "three");
    assert_int_equal(lstat(name, &s), 0);
    assert_true(S_ISLNK(s.st_mode));
}

static void test_devices_stay(void **state)
{
    struct stat s;

    (void)state;
    assert_int_equal(write_text("/dev/null", "x", 0), 0);
    assert_int_equal(write_text("/dev/full", "x", 0), -BB_EFAIL);
    assert_int_equal(stat("/dev/full", &s), 0);
    assert_true(S_ISCHR(s.st_mode));
}

static void test_refusals(void **state)
{
    struct bb_outfile f;

    (void)state;
    assert_int_equal(bb_outfile_open(&f, "/nowhere/at/all", "the test"), -BB_EUSAGE);
    assert_int_equal(bb_outfile_open(&f, folder, "the test"), -BB_EUSAGE);
    assert_int_equal(bb_outfile_open(&f, "", "the test"), -BB_EUSAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole_or_not),
        cmocka_unit_test(test_behind_a_link),
        cmocka_unit_test(test_devices_stay),
        cmocka_unit_test(test_refusals),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
