/*
 * test_siblings.c - several ranks per supervisor (four without a launcher, or two under each of two supervisors of
 * mpirun): they communicate, and when one of them fails the others end like ranks under mpirun, with one error line
 * that names the failed rank.
 */
#include "bootstrap/base/clock.h"
#include "tests/check.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct outcome {
    char text[16384];
    int status;
    double took_s;
};

/* processes: number of supervisors under mpirun; 0: one, without mpirun. prefix: commands before the probe. */
static struct outcome run_probe(int processes, const char *prefix, const char *mode, int rank, double timeout_s)
{
    struct outcome o = {0};
    double start_s = bb_now_s();
    char command[512], launcher[256] = "";
    FILE *pipe;

    if (processes)
        snprintf(launcher, sizeof(launcher), "%s %s %d", MPIEXEC, MPIEXEC_N, processes);
    snprintf(command, sizeof(command), "PROBE_SIBLINGS=%d timeout -k 5 40 %s %s %s %s %d %g 2>&1 </dev/null",
             processes ? 4 / processes : 4, launcher, prefix, PROBE, mode, rank, timeout_s);
    pipe = popen(command, "r");
    assert_non_null(pipe);
    o.text[fread(o.text, 1, sizeof(o.text) - 1, pipe)] = '\0'; /* reads until EOF: all ranks have closed the pipe */
    o.status = WEXITSTATUS(pclose(pipe));
    o.took_s = bb_now_s() - start_s;
    return o;
}

static const struct {
    int processes;
    const char *mode;
    int rank;
    double timeout_s;
    const char *expected[2]; /* parts of the error line; none: no output */
    int status;
} rows[] = {
    {0, "ok", -1, 30, {NULL}, 0},
    {2, "ok", -1, 30, {NULL}, 0},
    {0, "kill", 0, 30, {"rank 0 (", ") is lost; last seen: probe all_reduce 4 MiB; killed by SIGKILL\n"}, 4},
    {0, "kill", 2, 30, {"rank 2 (", ") is lost; last seen: probe all_reduce 4 MiB; killed by SIGKILL\n"}, 4},
    {2, "kill", 3, 30, {"rank 3 (", ") is lost; last seen: probe all_reduce 4 MiB; killed by SIGKILL\n"}, 4},
    {0, "crash", 1, 30, {"rank 1 (", "; killed by SIGSEGV\n"}, 4},
    {0, "exit", 3, 30, {"rank 3 (", ") was ended by a library that called exit(); last seen: "}, 1},
    {0, "fail", 1, 30, {"rank 1 (", "): injected failure\n"}, 3},
    {0, "fail", 0, 30, {"rank 0 (", "): injected failure\n"}, 3},
    {2, "fail", 3, 30, {"rank 3 (", "): injected failure\n"}, 3},
    {0, "stall", 2, 2, {"after 2 s: rank 2 (", ") did not arrive, "}, 4},
    {2, "stall", 1, 4, {"after 4 s: rank 1 (", ") did not arrive, "}, 4},
    {0, "term", 0, 30, {"rank 0 (", ") was ended by SIGTERM; last seen: "}, 1},
    {2, "term", 2, 30, {"rank 2 (", ") was ended by SIGTERM; last seen: "}, 1},
    {0, "late", 2, 30, {"warning: rank 2 (", ") was killed by SIGKILL while it exited; its results are complete\n"}, 0},
};

static bool is_expected(const char *text, const char *const expected[2])
{
    const char *line = strstr(text, "busbar: ");

    if (!expected[0])
        return text[0] == '\0';
    for (int i = 0; i < 2 && expected[i]; i++)
        if (!strstr(text, expected[i]))
            return false;
    return line && !strstr(line + 1, "busbar: ");
}

static void siblings_end_like_ranks_of_mpirun(void **state)
{
    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct outcome o = run_probe(rows[i].processes, "", rows[i].mode, rows[i].rank, rows[i].timeout_s);

        if (!is_expected(o.text, rows[i].expected) || o.status != rows[i].status || o.took_s > rows[i].timeout_s + 8)
            fail_msg("row %zu: status %d, not %d, after %g s:\n%s", i, o.status, rows[i].status, o.took_s, o.text);
    }
}

/* An error that all ranks meet before they are connected is printed only by the first rank. */
static void first_rank_reports_early_errors(void **state)
{
    struct outcome o = run_probe(0, "", "early", -1, 30);

    (void)state;
    assert_string_equal(o.text, "busbar: injected before the ranks are connected\n");
    assert_int_equal(o.status, 1);
}

/* A launcher binds each process to a core, which the ranks of a supervisor must not share. */
static void removes_a_binding_to_fewer_cpus_than_ranks(void **state)
{
    struct outcome o;
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    char expected[64] = "";

    (void)state;
    if (n < 2)
        skip();
    o = run_probe(0, "taskset -c 0", "cpus", -1, 30);
    for (int i = 0; i < 4; i++)
        snprintf(expected + strlen(expected), sizeof(expected) - strlen(expected), "%ld CPUs\n", n);
    assert_string_equal(o.text, expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(siblings_end_like_ranks_of_mpirun),
                                       cmocka_unit_test(first_rank_reports_early_errors),
                                       cmocka_unit_test(removes_a_binding_to_fewer_cpus_than_ranks)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
