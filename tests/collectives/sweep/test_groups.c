/* test_groups.c - the text of a group of ranks (--split). */
#include "collectives/sweep/groups.h"
#include "tests/check.h"

/* --split MOD:2: up to 8 ranks of a group are listed, of more the first ones and the last. */
static void groups_list_their_ranks(void **state)
{
    static const struct {
        int ranks;
        const char *text;
    } rows[] = {{2, "group 1 (rank 1 on h)"},
                {4, "group 1 (ranks 1,3 on h)"},
                {16, "group 1 (ranks 1,3,5,7,9,11,13,15 on h)"},
                {18, "group 1 (ranks 1,3,5,7,9,11,13,..,17 on h)"}};
    char hosts[18][BB_HOST_TEXT], text[BB_GROUP_TEXT];
    int groups[18], node_of[18] = {0};

    (void)state;
    for (int r = 0; r < 18; r++) {
        groups[r] = r % 2;
        strcpy(hosts[r], "h");
    }
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        const struct bb_world w = {.size = rows[i].ranks, .hosts = hosts, .node_of = node_of};

        assert_string_equal(bb_group_text(&w, groups, 1, text), rows[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_list_their_ranks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
