/*
 * arch_types.h - the table of supported architectures (arch_types.c). Internal to arch_load.c.
 *
 * To support a new architecture, add one struct bb_arch_type to the table: its model_type and class name, the keys of
 * its numbers and flags with the defaults of its configuration class, and the properties that all models of the
 * architecture share.
 */
#ifndef BB_PROXIES_WORKLOADS_TRANSFORMER_ARCH_ARCH_TYPES_H
#define BB_PROXIES_WORKLOADS_TRANSFORMER_ARCH_ARCH_TYPES_H

#include "proxies/workloads/transformer/arch/arch.h"

#define BB_ARCH_MAX_LAYERS 10000
#define BB_ARCH_MAX_KEYS   3

struct bb_arch_number {
    const char *keys[BB_ARCH_MAX_KEYS]; /* key in config.json, then alternative keys */
    size_t offset;                      /* offset in struct bb_arch of the int that receives the number */
    int value;    /* default for a missing or null key; 0: no default, or resolve_arch derives the value from other
                  fields */
    int min, max; /* range of accepted values; if min is 0, an explicit null means 0 */
};

struct bb_arch_flag {
    const char *key;
    size_t offset; /* offset in struct bb_arch of the bool that receives the flag */
    bool value;
};

struct bb_arch_fixed { /* a flag of which only one value is supported */
    const char *key;
    bool value;
    const char *why; /* why the opposite value is not supported, printed in the error message */
};

struct bb_arch_type {
    const char *name, *architecture;      /* model_type, for example "llama"; class name, for example "Llama" for
                                        "LlamaForCausalLM" */
    const struct bb_arch_number *numbers; /* numbers, flags and fixed: arrays that end with an all-zero element */
    const struct bb_arch_flag *flags;
    const struct bb_arch_fixed *fixed; /* NULL: none */
    const char *unsupported; /* why this known architecture is not supported, printed in the error message; NULL: it
                                is supported */
    struct bb_arch base;     /* field values that all models of the architecture share */
};

extern const struct bb_arch_type bb_arch_types[]; /* ends with an all-zero element */

#endif
