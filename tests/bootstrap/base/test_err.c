/* test_err.c - each error is one whole line with the right prefix, whatever its length. */
#include "bootstrap/base/err.h"
#include "tests/bootstrap/capture.h"
#include "tests/check.h"

#include <fcntl.h>
#include <unistd.h>

static void prefixes_the_line_with_the_rank(void **state)
{
    struct capture captured;

    (void)state;
    capture_begin(&captured);
    assert_int_equal(bb_err(BB_EUSAGE, "unknown word '%s'", "x"), -2);
    bb_err_identify(3, "node17", -1);
    assert_int_equal(bb_err(BB_ETIMEOUT, "late"), -4);
    bb_err_identify(3, "node17", 1);
    assert_int_equal(bb_err_job(BB_EBELOW, "the whole job"), -5);
    bb_err_job_scope(1);
    assert_int_equal(bb_err(BB_EUSAGE, "of the step"), -2);
    bb_err_job_scope(0);
    bb_warn("slow by %d %%", 5);
    bb_err_identify(-1, "node17", 1);
    assert_int_equal(bb_err(BB_EFAIL, "last"), -1);
    capture_end(&captured);
    assert_string_equal(captured.text, "busbar: unknown word 'x'\n"
                                       "busbar: rank 3 (node17): late\n"
                                       "busbar: the whole job\n"
                                       "busbar: of the step\n"
                                       "busbar: warning: slow by 5 %\n"
                                       "busbar: last\n");
}

static void truncates_a_long_line(void **state)
{
    struct capture captured;
    char text[4000];

    (void)state;
    memset(text, 'a', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    capture_begin(&captured);
    assert_int_equal(bb_err(BB_EFAIL, "%s", text), -1);
    capture_end(&captured);
    assert_true(strlen(captured.text) < 2100 && strlen(captured.text) > 2000);
    assert_ptr_equal(strchr(captured.text, '\n'), captured.text + strlen(captured.text) - 1);
}

/* Characters of two and three bytes, from an even and an odd position, and words. */
static void truncates_a_long_line_between_characters(void **state)
{
    static const char *const parts[] = {"\xc3\xa4", "\xe2\x82\xac", "abcde "};

    (void)state;
    for (int i = 0; i < 12; i++) {
        const char *part = parts[i % 3];
        const size_t length = strlen(part);
        struct capture captured;
        char text[4000] = "", *end;

        snprintf(text, sizeof text, "%.*s", i / 3, "xyz");
        for (int n = 0; n < 1000; n++)
            strncat(text, part, sizeof text - strlen(text) - 1);
        capture_begin(&captured);
        (void)bb_err(BB_EFAIL, "%s", text);
        capture_end(&captured);
        end = captured.text + strlen(captured.text) - 1; /* the line feed */
        end += part[length - 1] == ' ';
        assert_memory_equal(end - length, part, length - (part[length - 1] == ' '));
    }
}

/* Control characters in user text are replaced, so the message stays on one line and cannot steer the terminal. */
static void replaces_control_characters(void **state)
{
    struct capture captured;

    (void)state;
    capture_begin(&captured);
    assert_int_equal(bb_err(BB_EUSAGE, "unknown model '%s'",
                            "a\nb\033[31mc\td\xc2\x9b"
                            "1m\xc3\xa9"),
                     -2);
    capture_end(&captured);
    assert_string_equal(captured.text, "busbar: unknown model 'a b [31mc d  1m\xc3\xa9'\n");
}

/* In speculative mode usage errors and warnings are suppressed; the first other failure is printed. */
static void speculative_mode_prints_only_the_first_failure(void **state)
{
    struct capture captured;

    (void)state;
    capture_begin(&captured);
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
    capture_end(&captured);
    assert_string_equal(captured.text, "busbar: no memory\n"
                                       "busbar: none at all\n"
                                       "busbar: another trial\n");
}

/* Held warnings follow no usage error, and precede other errors. */
static void held_warnings_are_dropped_by_a_usage_error(void **state)
{
    struct capture captured;

    (void)state;
    capture_begin(&captured);
    bb_warn_hold(1);
    bb_warn("9 ranks on 2 nodes");
    (void)bb_err(BB_EUSAGE, "no node 7");
    bb_warn("a second");
    bb_warn("a third");
    bb_warn("a second"); /* printed once */
    (void)bb_err(BB_EFAIL, "no file");
    bb_warn("at the end");
    bb_warn_hold(0);
    bb_warn("at once");
    capture_end(&captured);
    assert_string_equal(captured.text, "busbar: no node 7\n"
                                       "busbar: warning: a second\n"
                                       "busbar: warning: a third\n"
                                       "busbar: no file\n"
                                       "busbar: warning: at the end\n"
                                       "busbar: warning: at once\n");
}

/* The record keeps the first error, also one that is not printed; a result below a threshold gives way to other errors. */
static void record_keeps_the_error_that_explains_the_failure(void **state)
{
    struct bb_err_record record = {0};
    struct capture captured;

    (void)state;
    bb_err_record_in(&record);
    capture_begin(&captured);
    bb_warn("slow");
    assert_int_equal(record.code, 0);
    (void)bb_err_job(BB_EBELOW, "group 1 is below");
    (void)bb_err_job(BB_EBELOW, "group 2 is below");
    assert_string_equal(record.text, "group 1 is below");
    (void)bb_err_job(BB_EDATA, "wrong\tdata");
    (void)bb_err_job(BB_EFAIL, "teardown");
    assert_string_equal(record.text, "wrong data");
    assert_true(record.code == BB_EDATA && !record.muted);
    record = (struct bb_err_record){0};
    bb_err_mute(1);
    (void)bb_err(BB_EUSAGE, "unknown word");
    bb_err_mute(0);
    assert_true(record.muted && bb_err_record() == &record);
    assert_string_equal(record.text, "unknown word");
    record = (struct bb_err_record){0};
    bb_err_mute(BB_MUTE_WARNINGS); /* a tried configuration explains nothing */
    bb_err_speculative(1);
    (void)bb_err(BB_EUSAGE, "no layout of 3 ranks");
    bb_err_mute(1);
    (void)bb_err(BB_EUSAGE, "no layout of 5 ranks");
    bb_err_speculative(0);
    assert_int_equal(record.code, 0);
    (void)bb_err(BB_EUSAGE, "no such model, an internal attempt");
    bb_err_mute(0);
    (void)bb_err(BB_EBELOW, "does not fit");
    assert_string_equal(record.text, "does not fit");
    assert_true(record.code == BB_EBELOW && !record.muted);
    bb_err_record_in(NULL);
    capture_end(&captured);
}

/* Under busbar-emulated, commands in a message begin with its name. */
static void suggests_commands_of_the_started_program(void **state)
{
    struct capture captured;

    (void)state;
    setenv("EMU_TWINS", "x.so", 1);
    capture_begin(&captured);
    (void)bb_err(BB_EUSAGE, "try: busbar plan, or `busbar list models`; busbar itself, busbar planning and busbar");
    unsetenv("EMU_TWINS");
    (void)bb_err(BB_EUSAGE, "try: busbar plan");
    capture_end(&captured);
    assert_string_equal(captured.text, "busbar: try: busbar-emulated plan, or `busbar-emulated list models`; busbar "
                                       "itself, busbar planning and busbar\nbusbar: try: busbar plan\n");
}

/* bb_err_job_nonblocking prints its line when the pipe has space, and returns at once when the pipe is full. */
static void nonblocking_error_does_not_wait_for_a_reader(void **state)
{
    static const char full[1 << 16];
    char text[64] = "";
    int ends[2], saved = dup(STDERR_FILENO);

    (void)state;
    assert_int_equal(pipe(ends), 0);
    dup2(ends[1], STDERR_FILENO);
    bb_err_job_nonblocking(BB_EFAIL, "ended by %s", "SIGTERM");
    assert_int_equal(read(ends[0], text, sizeof(text) - 1), 25);
    assert_string_equal(text, "busbar: ended by SIGTERM\n");
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    while (write(ends[1], full, sizeof(full)) > 0)
        ;
    fcntl(ends[1], F_SETFL, 0);
    alarm(5); /* SIGALRM ends the test if the call blocks */
    bb_err_job_nonblocking(BB_EFAIL, "ended by SIGTERM");
    alarm(0);
    dup2(saved, STDERR_FILENO);
    for (int i = 0; i < 3; i++)
        close(((int[]){saved, ends[0], ends[1]})[i]);
}

static void maps_errors_to_exit_codes(void **state)
{
    (void)state;
    assert_int_equal(bb_exit_code(0), 0);
    assert_int_equal(bb_exit_code(1), 0); /* 1: help was printed */
    assert_int_equal(bb_exit_code(-BB_EFAIL), 1);
    assert_int_equal(bb_exit_code(-BB_EUSAGE), 2);
    assert_int_equal(bb_exit_code(-BB_EDATA), 3);
    assert_int_equal(bb_exit_code(-BB_ETIMEOUT), 4);
    assert_int_equal(bb_exit_code(-BB_EBELOW), 5);
}

static void names_the_call_that_failed(void **state)
{
    struct bb_err_record record = {0};

    (void)state;
    bb_err_record_in(&record);
    (void)bb_err_call("is_send ? ncclSend(buffer) : ncclRecv(buffer)", "system error", NULL, "a.c", 1);
    bb_err_record_in(NULL);
    assert_non_null(strstr(record.text, "ncclSend: system error (a.c:1)"));
    assert_null(strstr(record.text, "is_send"));
    assert_true(record.call);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prefixes_the_line_with_the_rank),
        cmocka_unit_test(truncates_a_long_line),
        cmocka_unit_test(truncates_a_long_line_between_characters),
        cmocka_unit_test(replaces_control_characters),
        cmocka_unit_test(speculative_mode_prints_only_the_first_failure),
        cmocka_unit_test(held_warnings_are_dropped_by_a_usage_error),
        cmocka_unit_test(maps_errors_to_exit_codes),
        cmocka_unit_test(names_the_call_that_failed),
        cmocka_unit_test(record_keeps_the_error_that_explains_the_failure),
        cmocka_unit_test(suggests_commands_of_the_started_program),
        cmocka_unit_test(nonblocking_error_does_not_wait_for_a_reader),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
