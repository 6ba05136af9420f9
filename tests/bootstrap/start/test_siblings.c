/*
 * test_siblings.c - four ranks of one process, or of two under mpirun: they exchange, and when one of them misbehaves
 * the others end as ranks under mpirun do, with its name.
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

/* processes 0: without mpirun. */
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
    o.text[fread(o.text, 1, sizeof(o.text) - 1, pipe)] = '\0'; /* to its end: no rank is left that has it open */
    o.status = WEXITSTATUS(pclose(pipe));
    o.took_s = bb_now_s() - start_s;
    return o;
}

static const struct {
    int processes;
    const char *mode;
    int rank;
    double timeout_s;
    const char *said; /* NULL: nothing */
    int status;
} rows[] = {
    {0, "ok", -1, 30, NULL, 0},
    {2, "ok", -1, 30, NULL, 0},
    {0, "kill", 2, 30, "is lost; last seen: probe all_reduce 4 MiB", 4},
    {2, "kill", 3, 30, "rank 3 (", 4},
    {0, "fail", 1, 30, "planted failure", 3},
    {0, "fail", 0, 30, "planted failure", 3},
    {2, "fail", 3, 30, "planted failure", 3},
    {0, "stall", 2, 2, "1 of 4 ranks did not arrive: rank 2 (", 4},
    {2, "stall", 1, 4, "1 of 4 ranks did not arrive: rank 1 (", 4},
    {0, "term", 0, 30, "ended by SIGTERM", 1},
    {0, "late", 2, 30, "rank 2 of this process was ended by signal 9", 1},
    {0, "kill", 0, 30, "", 137}, /* the process itself: its ranks go with it */
};

static void ranks_of_a_process_are_ranks(void **state)
{
    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct outcome o = run_probe(rows[i].processes, rows[i].mode, rows[i].rank, rows[i].timeout_s);
        bool said = rows[i].said ? strstr(o.text, rows[i].said) != NULL : o.text[0] == '\0';

        if (!said || o.status != rows[i].status || o.took_s > rows[i].timeout_s + 8)
            fail_msg("row %zu: status %d, not %d, after %g s:\n%s", i, o.status, rows[i].status, o.took_s, o.text);
    }
}

/* What all of them meet before they know each other, the first says. */
static void one_speaks_before_they_are_up(void **state)
{
    struct outcome o = run_probe(0, "early", -1, 30);

    (void)state;
    assert_string_equal(o.text, "busbar: planted before the ranks know each other\n");
    assert_int_equal(o.status, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(ranks_of_a_process_are_ranks),
                                       cmocka_unit_test(one_speaks_before_they_are_up)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
