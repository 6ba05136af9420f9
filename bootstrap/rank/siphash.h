/*
 * siphash.h - SipHash-2-4 (Aumasson, Bernstein 2012), a keyed hash of short messages. Used as a message authentication
 * code: without the key the hash of a message cannot be computed.
 */
#ifndef BB_BOOTSTRAP_RANK_SIPHASH_H
#define BB_BOOTSTRAP_RANK_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

/* The 16 bytes of the key as two little-endian numbers of 8 bytes. */
struct bb_siphash_key {
    uint64_t k[2];
};

uint64_t bb_siphash(const struct bb_siphash_key *key, const void *data, size_t bytes);

#endif
