/* test_nodes.c - which ranks run on the same machine: host name and boot id must match. */
#include "bootstrap/world/nodes.h"
#include "tests/check.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_host_names_with_different_boot_ids_are_two_machines),
        cmocka_unit_test(compares_host_names_in_full_length),
        cmocka_unit_test(finds_the_name_of_this_machine),
        cmocka_unit_test(host_has_no_characters_of_a_shell),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
