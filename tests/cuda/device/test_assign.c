/* test_assign.c - assigns GPUs to ranks that see all, one, or some of the GPUs; a letter represents a GPU. */
#include "cuda/device/assign.h"
#include "tests/check.h"

#include <stdlib.h>
#include <string.h>

enum { RANKS_MAX = 16 };

/*
 * visible_gpus: the GPUs that each rank sees, in device order, for example "AB AB C". expected: the device number of
 * each rank. If no assignment exists: the rank without a GPU, and the rank that has its GPU.
 */
struct row {
    const char *visible_gpus, *expected;
    int first, unassigned, owner;
};

static const struct row rows[] = {
    {"ABCD ABCD ABCD ABCD", "0123", 0, -1, -1},
    {"A B C D", "0000", 0, -1, -1},
    {"AB AB CD CD", "0101", 0, -1, -1},
    {"AB A", "10", 0, -1, -1},      /* rank 0 has a choice and moves */
    {"ABC AB A", "210", 0, -1, -1}, /* and makes rank 1 move as well */
    {"BA AB", "00", 0, -1, -1},     /* the same device number, but different GPUs */
    {"ABCD ABCD", "23", 2, -1, -1},
    {"A A", "", 0, 1, 0},
    {"AB AB AB", "", 0, 2, 0},
    {"A B C B", "", 0, 3, 1},
    {"ABCD ABCD", "", 3, 1, 0},
    {"AB", "", 2, 0, -1},
};

static int read_visible_gpus(const char *text, struct bb_visible *ranks)
{
    int n = 0;

    memset(ranks, 0, RANKS_MAX * sizeof(*ranks));
    for (; *text; text++)
        if (*text == ' ')
            n++;
        else
            ranks[n].uuid[ranks[n].n++][BB_UUID_BYTES - 1] = (unsigned char)*text;
    return n + 1;
}

static void assigns_different_gpus(void **state)
{
    struct bb_visible *ranks = calloc(RANKS_MAX, sizeof(*ranks));
    struct bb_assigned assigned;
    int ordinal[RANKS_MAX];

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        int n = read_visible_gpus(rows[i].visible_gpus, ranks);

        bb_devices_assign(ranks, n, rows[i].first, ordinal, &assigned);
        assert_int_equal(assigned.unassigned, rows[i].unassigned);
        assert_int_equal(assigned.owner, rows[i].owner);
        for (int r = 0; rows[i].unassigned < 0 && r < n; r++)
            assert_int_equal(ordinal[r], rows[i].expected[r] - '0');
    }
    free(ranks);
}

/* 512 nodes of 8 GPUs, where each rank sees 8: device numbers follow the order of ranks, computed quickly. */
static void assigns_gpus_of_many_nodes(void **state)
{
    enum { NODES = 512, EACH = 8 };
    struct bb_visible *ranks = calloc(NODES * EACH, sizeof(*ranks));
    int *ordinal = calloc(NODES * EACH, sizeof(*ordinal));
    struct bb_assigned assigned;

    (void)state;
    for (int r = 0; r < NODES * EACH; r++)
        for (int s = 0; s < EACH; s++) {
            const int gpu = r / EACH * EACH + s;
            memcpy(ranks[r].uuid[ranks[r].n++], &gpu, sizeof(gpu));
        }
    bb_devices_assign(ranks, NODES * EACH, 0, ordinal, &assigned);
    assert_int_equal(assigned.unassigned, -1);
    for (int r = 0; r < NODES * EACH; r++)
        assert_int_equal(ordinal[r], r % EACH);
    free(ranks);
    free(ordinal);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(assigns_different_gpus),
                                       cmocka_unit_test(assigns_gpus_of_many_nodes)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
