/* siphash.c - see siphash.h. */
#include "bootstrap/rank/siphash.h"

static uint64_t rotate_left(uint64_t x, int bits)
{
    return x << bits | x >> (64 - bits);
}

static void mix_rounds(uint64_t v[4], int rounds)
{
    for (int i = 0; i < rounds; i++) {
        v[0] += v[1];
        v[2] += v[3];
        v[1] = rotate_left(v[1], 13) ^ v[0];
        v[3] = rotate_left(v[3], 16) ^ v[2];
        v[0] = rotate_left(v[0], 32);
        v[2] += v[1];
        v[0] += v[3];
        v[1] = rotate_left(v[1], 17) ^ v[2];
        v[3] = rotate_left(v[3], 21) ^ v[0];
        v[2] = rotate_left(v[2], 32);
    }
}

static void absorb_word(uint64_t v[4], uint64_t word)
{
    v[3] ^= word;
    mix_rounds(v, 2);
    v[0] ^= word;
}

static uint64_t read_bytes(const uint8_t *from, size_t bytes)
{
    uint64_t word = 0;

    for (size_t i = 0; i < bytes; i++)
        word |= (uint64_t)from[i] << (8 * i);
    return word;
}

uint64_t bb_siphash(const struct bb_siphash_key *key, const void *data, size_t bytes)
{
    const uint8_t *at = data;
    const size_t tail = bytes % 8;
    uint64_t v[4] = {key->k[0] ^ 0x736f6d6570736575, key->k[1] ^ 0x646f72616e646f6d, key->k[0] ^ 0x6c7967656e657261,
                     key->k[1] ^ 0x7465646279746573};

    for (size_t i = 0; i + 8 <= bytes; i += 8)
        absorb_word(v, read_bytes(at + i, 8));
    absorb_word(v, (uint64_t)bytes << 56 | read_bytes(at + bytes - tail, tail));
    v[2] ^= 0xff;
    mix_rounds(v, 4);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}
