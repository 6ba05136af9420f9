/* test_err.c - one whole line per error, whoever speaks, however long. */
#include "bootstrap/base/err.h"
#include "tests/bootstrap/capture.h"
#include "tests/check.h"

#include <fcntl.h>
#include <unistd.h>

static void test_speakers(void **state)
{
    struct capture said;

    (void)state;
    capture_begin(&said);
    assert_int_equal(bb_err(BB_EUSAGE, "unknown word '%s'", "x"), -2);
    bb_err_identify(3, "node17", -1);
    assert_int_equal(bb_err(BB_ETIMEOUT, "late"), -4);
    bb_err_identify(3, "node17", 1);
    assert_int_equal(bb_err_job(BB_EBELOW, "of all ranks"), -5);
    bb_warn("slow by %d %%", 5);
    bb_err_identify(-1, "node17", 1);
    assert_int_equal(bb_err(BB_EFAIL, "last"), -1);
    capture_end(&said);
    assert_string_equal(said.text, "busbar: unknown word 'x'\n"
                                   "busbar: rank 3 (node17): late\n"
                                   "busbar: of all ranks\n"
                                   "busbar: warning: slow by 5 %\n"
                                   "busbar: last\n");
}

static void test_long_line(void **state)
{
    struct capture said;
    char text[4000];

    (void)state;
    memset(text, 'a', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    capture_begin(&said);
    assert_int_equal(bb_err(BB_EFAIL, "%s", text), -1);
    capture_end(&said);
    assert_true(strlen(said.text) < 2100 && strlen(said.text) > 2000);
    assert_ptr_equal(strchr(said.text, '\n'), said.text + strlen(said.text) - 1);
}

/* A word from a file or a command line stays on the line and cannot steer the terminal. */
static void test_controls(void **state)
{
    struct capture said;

    (void)state;
    capture_begin(&said);
    assert_int_equal(bb_err(BB_EUSAGE, "unknown model '%s'", "a\nb\033[31mc\td"), -2);
    capture_end(&said);
    assert_string_equal(said.text, "busbar: unknown model 'a b [31mc d'\n");
}

/* What cannot be is not said while it is only tried; the first failure is. */
static void test_trials(void **state)
{
    struct capture said;

    (void)state;
    capture_begin(&said);
    bb_err_speculative(1);
    assert_int_equal(bb_err(BB_EUSAGE, "no such layout"), -2);
    bb_warn("odd");
    assert_int_equal(bb_err(BB_EFAIL, "no memory"), -1);
    assert_int_equal(bb_err(BB_EFAIL, "no memory again"), -1);
    bb_err_speculative(0);
    assert_int_equal(bb_err(BB_EUSAGE, "none at all"), -2);
    bb_err_speculative(1);
    assert_int_equal(bb_err(BB_EFAIL, "another trial"), -1);
    bb_err_speculative(0);
    bb_err_mute(1);
    bb_err_speculative(1);
    assert_int_equal(bb_err(BB_EFAIL, "of a rank that is mute"), -1);
    bb_err_speculative(0);
    bb_err_mute(0);
    capture_end(&said);
    assert_string_equal(said.text, "busbar: no memory\n"
                                   "busbar: none at all\n"
                                   "busbar: another trial\n");
}

/* A line at the end is said where there is room for it, and does not keep the process where nobody reads. */
static void test_full_pipe(void **state)
{
    static const char full[1 << 16];
    char text[64] = "";
    int ends[2], saved = dup(STDERR_FILENO);

    (void)state;
    assert_int_equal(pipe(ends), 0);
    dup2(ends[1], STDERR_FILENO);
    bb_err_nonblocking(BB_EFAIL, "ended by %s", "SIGTERM");
    assert_int_equal(read(ends[0], text, sizeof(text) - 1), 25);
    assert_string_equal(text, "busbar: ended by SIGTERM\n");
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    while (write(ends[1], full, sizeof(full)) > 0)
        ;
    fcntl(ends[1], F_SETFL, 0);
    alarm(5); /* of one that waits for a reader */
    bb_err_nonblocking(BB_EFAIL, "ended by SIGTERM");
    alarm(0);
    dup2(saved, STDERR_FILENO);
    for (int i = 0; i < 3; i++)
        close(((int[]){saved, ends[0], ends[1]})[i]);
}

static void test_exit_codes(void **state)
{
    (void)state;
    assert_int_equal(bb_exit_code(0), 0);
    assert_int_equal(bb_exit_code(1), 0); /* help was printed */
    assert_int_equal(bb_exit_code(-BB_EFAIL), 1);
    assert_int_equal(bb_exit_code(-BB_EUSAGE), 2);
    assert_int_equal(bb_exit_code(-BB_EDATA), 3);
    assert_int_equal(bb_exit_code(-BB_ETIMEOUT), 4);
    assert_int_equal(bb_exit_code(-BB_EBELOW), 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_speakers), cmocka_unit_test(test_long_line),  cmocka_unit_test(test_controls),
        cmocka_unit_test(test_trials),   cmocka_unit_test(test_exit_codes), cmocka_unit_test(test_full_pipe),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
