/*
 * test_siblings.c - four ranks in one process tree (forked by one probe process, or by two under mpirun): they
 * communicate, and when one of them fails the others end like ranks under mpirun, with a message that names the failed
 * rank.
 */
#include "bootstrap/base/clock.h"
#include "tests/check.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

struct outcome {
    char text[16384];
    int status;
    double took_s;
};

/* processes: number of processes under mpirun; 0: without mpirun */
static struct outcome run_probe(int processes, const char *mode, int rank, double timeout_s)
{
    struct outcome o = {0};
    double start_s = bb_now_s();
    char command[512], launcher[256] = "";
    FILE *pipe;

    if (processes)
        snprintf(launcher, sizeof(launcher), "%s %s %d", MPIEXEC, MPIEXEC_N, processes);
    snprintf(command, sizeof(command), "PROBE_SIBLINGS=%d timeout -k 5 40 %s %s %s %d %g 2>&1 </dev/null",
             processes ? 4 / processes : 4, launcher, PROBE, mode, rank, timeout_s);
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
    const char *expected; /* NULL: no output */
    int status;
} rows[] = {
    {0, "ok", -1, 30, NULL, 0},
    {2, "ok", -1, 30, NULL, 0},
    {0, "kill", 2, 30, "is lost; last seen: probe all_reduce 4 MiB", 4},
    {2, "kill", 3, 30, "rank 3 (", 4},
    {0, "fail", 1, 30, "injected failure", 3},
    {0, "fail", 0, 30, "injected failure", 3},
    {2, "fail", 3, 30, "injected failure", 3},
    {0, "stall", 2, 2, "1 of 4 ranks did not arrive: rank 2 (", 4},
    {2, "stall", 1, 4, "1 of 4 ranks did not arrive: rank 1 (", 4},
    {0, "term", 0, 30, "ended by SIGTERM", 1},
    {0, "late", 2, 30, "rank 2 of this process was ended by signal 9", 1},
    {0, "kill", 0, 30, "", 137}, /* rank 0 is the process itself; its forked ranks end with it */
};

static void forked_ranks_behave_like_mpi_ranks(void **state)
{
    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct outcome o = run_probe(rows[i].processes, rows[i].mode, rows[i].rank, rows[i].timeout_s);
        bool output_matches = rows[i].expected ? strstr(o.text, rows[i].expected) != NULL : o.text[0] == '\0';

        if (!output_matches || o.status != rows[i].status || o.took_s > rows[i].timeout_s + 8)
            fail_msg("row %zu: status %d, not %d, after %g s:\n%s", i, o.status, rows[i].status, o.took_s, o.text);
    }
}

/* An error that all ranks meet before they are connected is printed only by the first rank. */
static void first_rank_reports_early_errors(void **state)
{
    struct outcome o = run_probe(0, "early", -1, 30);

    (void)state;
    assert_string_equal(o.text, "busbar: injected before the ranks are connected\n");
    assert_int_equal(o.status, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(forked_ranks_behave_like_mpi_ranks),
                                       cmocka_unit_test(first_rank_reports_early_errors)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
