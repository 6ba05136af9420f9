/* test_progress.c - what is said where stderr is a file: lines, at most so often, and how much time is left. */
#include "bootstrap/base/progress.h"
#include "tests/check.h"

#include <stdlib.h>
#include <unistd.h>

/* stderr goes to a file while `tell` speaks; returns what stood there. */
static const char *said(void (*tell)(struct bb_progress *), const char *period, int rank, bool quiet)
{
    static char text[4096];
    FILE *file = tmpfile();
    int before = dup(STDERR_FILENO);
    struct bb_progress p;
    size_t n;

    assert_non_null(file);
    fflush(stderr);
    assert_true(dup2(fileno(file), STDERR_FILENO) >= 0);
    setenv("BUSBAR_PROGRESS", period, 1);
    bb_progress_init(&p, rank, quiet);
    tell(&p);
    bb_progress_end(&p);
    bb_progress_show(&p, "after the end");
    fflush(stderr);
    dup2(before, STDERR_FILENO);
    close(before);
    rewind(file);
    n = fread(text, 1, sizeof text - 1, file);
    text[n] = '\0';
    fclose(file);
    return text;
}

static void tell_once(struct bb_progress *p)
{
    bb_progress_show(p, "row %d", 7);
    usleep(300000);
}

static void tell_and_clear(struct bb_progress *p)
{
    bb_progress_show(p, "row");
    bb_progress_clear(p);
    usleep(300000);
}

/* After 1.5 s a quarter is done: 4.5 s are left. */
static void tell_a_quarter(struct bb_progress *p)
{
    bb_progress_expect(p, 8);
    bb_progress_show(p, "row");
    usleep(1500000);
    bb_progress_advance(p, 2);
    usleep(100000);
}

/* A tenth of 1.6 s is left, which is not worth a word. */
static void tell_nearly_all(struct bb_progress *p)
{
    bb_progress_expect(p, 10);
    bb_progress_show(p, "row");
    usleep(1500000);
    bb_progress_advance(p, 9);
    usleep(100000);
}

static int lines_of(const char *text)
{
    int n = 0;

    for (; *text; text++)
        n += *text == '\n';
    return n;
}

/* One call, then silence of the run: the lines go on. A machine under load writes fewer. */
static void one_long_row_does_not_fall_silent(void **state)
{
    const char *text = said(tell_once, "0.05", 0, false);

    (void)state;
    assert_true(lines_of(text) >= 2 && lines_of(text) <= 6);
    assert_int_equal(strncmp(text, "# at 0 s: row 7\n", 16), 0);
    assert_null(strstr(text, "left"));
    assert_null(strstr(text, "after the end"));
    assert_null(strchr(text, '\r'));
}

static void who_is_not_asked_says_nothing(void **state)
{
    (void)state;
    assert_string_equal(said(tell_once, "0.05", 0, true), "");
    assert_string_equal(said(tell_once, "0.05", 1, false), "");
    assert_string_equal(said(tell_once, "0", 0, false), "");
    assert_string_equal(said(tell_once, "10", 0, false), ""); /* shorter than the time between lines */
    assert_string_equal(said(tell_and_clear, "0.05", 0, false), "");
}

static void a_bad_period_is_the_usual_one(void **state)
{
    const char *text = said(tell_once, "often", 0, false);

    (void)state;
    assert_non_null(strstr(text, "BUSBAR_PROGRESS='often' is invalid"));
    assert_int_equal(lines_of(text), 1);
}

static void the_time_left_follows_what_is_done(void **state)
{
    const char *text = said(tell_a_quarter, "0.05", 0, false), *last = strstr(text, "row, about ");
    int left = last ? atoi(last + strlen("row, about ")) : -1;

    (void)state;
    assert_non_null(last);
    assert_true(left >= 4 && left <= 9);
    assert_non_null(strstr(last, " s left\n"));
    assert_null(strstr(said(tell_nearly_all, "0.05", 0, false), "left"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_long_row_does_not_fall_silent),
        cmocka_unit_test(who_is_not_asked_says_nothing),
        cmocka_unit_test(a_bad_period_is_the_usual_one),
        cmocka_unit_test(the_time_left_follows_what_is_done),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
