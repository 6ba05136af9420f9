/* test_nodes.c - which ranks run on the same machine: host name and boot id must match. */
#include "bootstrap/world/nodes.h"
#include "tests/check.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void equal_host_names_with_different_boot_ids_are_two_machines(void **state)
{
    const struct bb_machine machines[] = {{"node", "boot-1"},  {"node", "boot-2"}, {"node", "boot-1"},
                                          {"other", "boot-1"}, {"node", "boot-2"}, {"node", ""}};
    const int expected[] = {0, 1, 0, 2, 1, 3};
    int node_of[6];

    (void)state;
    assert_int_equal(bb_nodes_number(machines, 6, node_of), 4);
    assert_memory_equal(node_of, expected, sizeof(expected));
}

/* Machines differ if only the last character of the longest host name that Linux allows differs. */
static void compares_host_names_in_full_length(void **state)
{
    struct bb_machine machines[2] = {{"", "boot"}, {"", "boot"}};
    int node_of[2];

    (void)state;
    memset(machines[0].host, 'a', HOST_NAME_MAX);
    memset(machines[1].host, 'a', HOST_NAME_MAX);
    machines[1].host[HOST_NAME_MAX - 1] = 'b';
    assert_int_equal(bb_nodes_number(machines, 2, node_of), 2);
}

static void finds_the_name_of_this_machine(void **state)
{
    struct bb_machine machine;
    char name[HOST_NAME_MAX + 1];

    (void)state;
    assert_int_equal(gethostname(name, sizeof(name)), 0);
    bb_machine_find(&machine);
    assert_string_equal(machine.host, name);
    assert_int_equal(strlen(machine.boot_id), 36);
}

static void host_has_no_characters_of_a_shell(void **state)
{
    char host[] = "a;b$(x)`id`\n\xff[1]-n_0.De";

    (void)state;
    bb_machine_clean_host(host);
    assert_string_equal(host, "a_b__x__id____1_-n_0.De");
}

/* A node that Slurm calls n1 has the host name gpu1.example.com; mpiexec of MPICH may copy n1 to all nodes. */
static void name_for_slurm_is_that_of_its_daemon_or_without_domain(void **state)
{
    static const struct {
        const char *given[2], *hosts[2], *names[2];
    } cases[] = {
        {{"n1", "n2"}, {"gpu1.example.com", "gpu2.example.com"}, {"n1", "n2"}},
        {{"", ""}, {"gpu1.example.com", "gpu2"}, {"gpu1", "gpu2"}},
        {{"n1", "n1"}, {"gpu1.example.com", "gpu2.example.com"}, {"gpu1", "gpu2"}},
        {{"n1", ""}, {"gpu1", "gpu2"}, {"gpu1", "gpu2"}},
        {{"", ""}, {"gpu1.rack1", "gpu1.rack2"}, {"gpu1.rack1", "gpu1.rack2"}},
        {{"", ""}, {"10.0.0.1", "10.0.0.2"}, {"10.0.0.1", "10.0.0.2"}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char given[2][BB_HOST_TEXT] = {""}, names[2][BB_HOST_TEXT];

        for (int k = 0; k < 2; k++) {
            snprintf(given[k], sizeof given[k], "%s", cases[i].given[k]);
            snprintf(names[k], sizeof names[k], "%s", cases[i].hosts[k]);
        }
        bb_nodes_name_for_slurm((const char(*)[BB_HOST_TEXT])given, names, 2);
        for (int k = 0; k < 2; k++)
            assert_string_equal(names[k], cases[i].names[k]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_host_names_with_different_boot_ids_are_two_machines),
        cmocka_unit_test(compares_host_names_in_full_length),
        cmocka_unit_test(finds_the_name_of_this_machine),
        cmocka_unit_test(host_has_no_characters_of_a_shell),
        cmocka_unit_test(name_for_slurm_is_that_of_its_daemon_or_without_domain),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
