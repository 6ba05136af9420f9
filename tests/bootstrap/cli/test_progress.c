/* test_progress.c - progress lines when stderr is a file: their minimum interval, and the estimated time left. */
#include "bootstrap/cli/progress.h"
#include "tests/check.h"

#include <stdlib.h>
#include <unistd.h>

/* Redirects stderr to a file while `report` runs, and returns the file's content. */
static const char *output_of(void (*report)(struct bb_progress *), const char *period, int rank, bool quiet)
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
    report(&p);
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

static void report_once(struct bb_progress *p)
{
    bb_progress_show(p, "row %d", 7);
    usleep(300000);
}

static void report_and_clear(struct bb_progress *p)
{
    bb_progress_show(p, "row");
    bb_progress_clear(p);
    usleep(300000);
}

/* A quarter is done after 1.5 s, so 4.5 s are left. */
static void report_a_quarter(struct bb_progress *p)
{
    bb_progress_expect(p, 8);
    bb_progress_show(p, "row");
    usleep(1500000);
    bb_progress_advance(p, 2);
    usleep(100000);
}

/* A twentieth is done: too little for an estimate. */
static void report_a_twentieth(struct bb_progress *p)
{
    bb_progress_expect(p, 20);
    bb_progress_show(p, "row");
    usleep(200000);
    bb_progress_advance(p, 1);
    usleep(200000);
}

/* A tenth of 1.6 s is left: too little for an estimate. */
static void report_nearly_all(struct bb_progress *p)
{
    bb_progress_expect(p, 10);
    bb_progress_show(p, "row");
    usleep(1500000);
    bb_progress_advance(p, 9);
    usleep(100000);
}

static int count_lines(const char *text)
{
    int n = 0;

    for (; *text; text++)
        n += *text == '\n';
    return n;
}

/* After a single call further lines appear by themselves. A loaded machine prints fewer lines than expected. */
static void repeats_the_line_during_a_long_row(void **state)
{
    const char *text = output_of(report_once, "0.05", 0, false);

    (void)state;
    assert_true(count_lines(text) >= 2 && count_lines(text) <= 6);
    assert_int_equal(strncmp(text, "# at 0 s: row 7\n", 16), 0);
    assert_null(strstr(text, "left"));
    assert_null(strstr(text, "after the end"));
    assert_null(strchr(text, '\r'));
}

static void prints_nothing_when_quiet_or_not_rank_0(void **state)
{
    (void)state;
    assert_string_equal(output_of(report_once, "0.05", 0, true), "");
    assert_string_equal(output_of(report_once, "0.05", 1, false), "");
    assert_string_equal(output_of(report_once, "0", 0, false), "");
    assert_string_equal(output_of(report_once, "10", 0, false), ""); /* the run ends before the first period */
    assert_string_equal(output_of(report_and_clear, "0.05", 0, false), "");
}

static void warns_and_uses_the_default_for_an_invalid_period(void **state)
{
    const char *text = output_of(report_once, "often", 0, false);

    (void)state;
    assert_non_null(strstr(text, "BUSBAR_PROGRESS='often' is invalid"));
    assert_int_equal(count_lines(text), 1);
}

static void estimates_the_time_left_from_the_work_done(void **state)
{
    const char *text = output_of(report_a_quarter, "0.05", 0, false), *last = strstr(text, "row, about ");
    int left = last ? atoi(last + strlen("row, about ")) : -1;

    (void)state;
    assert_non_null(last);
    assert_true(left >= 4 && left <= 9);
    assert_non_null(strstr(last, " s left\n"));
    assert_null(strstr(output_of(report_a_twentieth, "0.05", 0, false), "left"));
    assert_null(strstr(output_of(report_nearly_all, "0.05", 0, false), "left"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(repeats_the_line_during_a_long_row),
        cmocka_unit_test(prints_nothing_when_quiet_or_not_rank_0),
        cmocka_unit_test(warns_and_uses_the_default_for_an_invalid_period),
        cmocka_unit_test(estimates_the_time_left_from_the_work_done),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
