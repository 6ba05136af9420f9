/* size_list.h - comma-separated lists as the value of one option: "8,1K,32M". */
#ifndef BB_BOOTSTRAP_CLI_SIZE_LIST_H
#define BB_BOOTSTRAP_CLI_SIZE_LIST_H

#include "bootstrap/base/err.h"

#include <stddef.h>

enum { BB_SIZES_MAX = 256 };

/* Largest size in a list, in bytes: 1 PiB, so that sums of buffer sizes cannot overflow. */
#define BB_SIZE_LARGEST ((size_t)1 << 50)

struct bb_sizes {
    size_t bytes[BB_SIZES_MAX]; /* the sizes in bytes, in the order of the list */
    int n;
};

/*
 * bb_sizes_parse - parse a list of sizes from min_bytes to BB_SIZE_LARGEST, optionally with K, M, G or T.
 *   option   names the option in messages
 *   Returns  0, or -BB_EUSAGE after printing one error line
 */
int bb_sizes_parse(struct bb_sizes *s, const char *option, const char *text, size_t min_bytes) BB_MUST_CHECK;

/* bb_sizes_max - the largest size; 0 for an empty list. */
size_t bb_sizes_max(const struct bb_sizes *s);

/*
 * bb_list_each - call fn for each item of a comma-separated list, including empty items, until fn returns non-zero.
 *   text     the list. An item longer than 63 characters is passed to fn truncated and with "..." at its end, so that
 *            fn does not mistake the truncated text for a valid item
 *   Returns  the result of the last call of fn
 */
typedef int bb_list_fn(void *arg, const char *word);
int bb_list_each(const char *text, bb_list_fn *fn, void *arg) BB_MUST_CHECK;

#endif
