/* size_list.h - lists in the text of one option: "8,1K,32M". Pure. */
#ifndef BB_BOOTSTRAP_CLI_SIZE_LIST_H
#define BB_BOOTSTRAP_CLI_SIZE_LIST_H

#include "bootstrap/base/err.h"

#include <stddef.h>

enum { BB_SIZES_MAX = 256 };

#define BB_SIZE_LARGEST ((size_t)1 << 50) /* 1 PiB: sums of buffers cannot overflow */

struct bb_sizes {
    size_t bytes[BB_SIZES_MAX]; /* in the order given */
    int n;
};

/* bb_sizes_parse - sizes from `least` bytes to BB_SIZE_LARGEST, with K M G T. option names the option in the message.
 * Returns 0 or -BB_EUSAGE after one line. */
int bb_sizes_parse(struct bb_sizes *s, const char *option, const char *text, size_t min_bytes) BB_MUST_CHECK;

/* bb_sizes_max - 0 for an empty list. */
size_t bb_sizes_max(const struct bb_sizes *s);

/* bb_list_each - call fn with each word between commas; empty words too. Stops at the first result that is not 0. A
 * word longer than 63 characters is cut and ends in "...", so that no part of it is taken for the whole. */
typedef int bb_list_fn(void *arg, const char *word);
int bb_list_each(const char *text, bb_list_fn *fn, void *arg) BB_MUST_CHECK;

#endif
