/* test_siphash.c - test vectors of the reference implementation: key 00 01 .. 0f, input 00 01 02 .. of n bytes. */
#include "bootstrap/rank/siphash.h"
#include "tests/check.h"

static void matches_the_reference_vectors(void **state)
{
    static const struct {
        size_t bytes;
        uint64_t hash;
    } rows[] = {{0, 0x726fdb47dd0e0e31}, {1, 0x74f839c593dc67fd},  {7, 0xab0200f58b01d137},
                {8, 0x93f5f5799a932462}, {15, 0xa129ca6149be45e5}, {63, 0x958a324ceb064572}};
    const struct bb_siphash_key key = {{0x0706050403020100, 0x0f0e0d0c0b0a0908}};
    uint8_t input[64];

    (void)state;
    for (size_t i = 0; i < sizeof(input); i++)
        input[i] = (uint8_t)i;
    for (size_t i = 0; i < ROWS(rows); i++)
        assert_int_equal(bb_siphash(&key, input, rows[i].bytes), rows[i].hash);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(matches_the_reference_vectors)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
