/* test_summary.c - the command that continues after nodes of a Slurm job were lost. */
#include "collectives/health/summary.h"
#include "tests/check.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char results[] =
    "{'stage': 'pairs', 'ranks': 8, 'reason': 'rank 2 (b) is lost', 'lost_ranks': [2, 3], 'command': ['health', "
    "'--from', 'gpu', '--only', 'all', '--json=a b.json'],"
    "'options': {'gpus': 1, 'only': 'all'}, 'findings': [], 'checks': [], 'tests': [],"
    "'devices': [{'host': 'a'}, {'host': 'a'}, {'host': 'b'}, {'host': 'b'}],"
    "'verdicts': [{'node': 0, 'host': 'a', 'level': 'ok'}, {'node': 1, 'host': 'b', 'level': 'ok'},"
    "{'node': 2, 'host': 'c', 'level': 'fail'}, {'node': 3, 'host': 'd', 'level': 'warn'}]}";

/* Returns the report of a run that has ended early. */
static char *report(json_t *root)
{
    static char text[4096];
    FILE *file = tmpfile();
    const int out = dup(STDOUT_FILENO);

    fflush(stdout);
    dup2(fileno(file), STDOUT_FILENO);
    bb_health_end_early(root, NULL);
    dup2(out, STDOUT_FILENO);
    close(out);
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return text;
}

static void test_srun_excludes_failed_nodes(void **state)
{
    char json[sizeof results], *text;
    json_t *root;

    (void)state;
    strcpy(json, results);
    for (char *c = json; *c; c++)
        *c = *c == '\'' ? '"' : *c;
    root = json_loads(json, 0, NULL);
    unsetenv("OMPI_COMM_WORLD_SIZE");
    unsetenv("MPI_LOCALNRANKS");
    setenv("SLURM_PROCID", "0", 1);
    text = report(root);
    assert_int_equal(strncmp(text, "fail    pairs     b: rank 2 and 1 more were lost in stage pairs\n", 61), 0);
    assert_non_null(strstr(text,
                           "# continue: srun --exclude=b,c -N 2 -n 4 busbar health --only all '--json=a b.json.2' "
                           "--from pairs\n"));
    json_decref(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_srun_excludes_failed_nodes)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
