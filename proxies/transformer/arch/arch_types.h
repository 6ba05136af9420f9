/*
 * arch_types.h - what each published architecture says of itself, as rows (arch_types.c). Internal to arch_load.c.
 *
 * A new architecture is one row: its model_type and class, the names of its numbers and switches with what its
 * configuration class takes for those that a file leaves out, and what is true of all its models.
 */
#ifndef BB_PROXIES_TRANSFORMER_ARCH_ARCH_TYPES_H
#define BB_PROXIES_TRANSFORMER_ARCH_ARCH_TYPES_H

#include "proxies/transformer/arch/arch.h"

#define BB_ARCH_MAX_LAYERS 10000
#define BB_ARCH_MAX_KEYS        3

struct bb_arch_number {
    const char *keys[BB_ARCH_MAX_KEYS]; /* its name, and others that it goes by                                        */
    size_t offset;                  /* of an int of struct bb_arch                                                 */
    int value;     /* when the file leaves it out or says null; 0: follows from others (see settle), or none       */
    int min, max; /* min 0: 0 is a value                                                                          */
};

struct bb_arch_flag {
    const char *key;
    size_t offset; /* of a bool of struct bb_arch */
    bool value;
};

struct bb_arch_fixed { /* a switch that must stand as all its known models have it */
    const char *key;
    bool value;
    const char *why; /* what cannot be counted otherwise */
};

struct bb_arch_type {
    const char *name, *architecture;      /* "llama"; "Llama" of "LlamaForCausalLM"                                */
    const struct bb_arch_number *numbers; /* lists end with an empty row                                           */
    const struct bb_arch_flag *flags;
    const struct bb_arch_fixed *fixed; /* NULL: none                                                               */
    const char *unsupported;               /* known, but not to be counted: why; NULL: can be                          */
    struct bb_arch base;               /* what is true of all of them                                              */
};

extern const struct bb_arch_type bb_arch_types[]; /* ends with an empty row */

#endif
