/* size_list.h - comma-separated lists as the value of one option: "8,1K,32M". */
#ifndef BB_BOOTSTRAP_CLI_SIZE_LIST_H
#define BB_BOOTSTRAP_CLI_SIZE_LIST_H

#include "bootstrap/base/err.h"

#include <stdbool.h>
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
 *   option   name of the option, for error messages
 *   Returns  0, or -BB_EUSAGE after printing one error line
 */
int bb_sizes_parse(struct bb_sizes *s, const char *option, const char *text, size_t min_bytes) BB_MUST_CHECK;

/* bb_sizes_max - the largest size; 0 for an empty list. */
size_t bb_sizes_max(const struct bb_sizes *s);

/*
 * bb_list_next - read the next item of a comma-separated list. An item may be an empty text.
 *   rest     in: the list, or the remaining items as set by the previous call; out: the remaining items, NULL after the
 *            last item
 *   word     out: the item. An item longer than 63 characters is truncated and ends in "...", so that the truncated
 *            text is not mistaken for a valid item
 *   Returns  false if there is no further item (*rest is NULL)
 */
enum { BB_LIST_WORD = 64 };
bool bb_list_next(const char **rest, char word[BB_LIST_WORD]);

#endif
