/*
 * units.h - text to numbers and back, and the nearest known word. Pure, and silent: only the caller knows where a text
 * came from and what would have been right, so the caller prints (bb_opts_parse does for options).
 */
#ifndef BB_BOOTSTRAP_BASE_UNITS_H
#define BB_BOOTSTRAP_BASE_UNITS_H

#include "bootstrap/base/err.h"

#include <stddef.h>

/*
 * bb_parse_bytes - "8", "128M", "1.5g": a decimal number >= 0, then nothing or one of K M G T (1024^1..4, either case).
 * Refused: no digits, a sign, anything after the unit, a value that is not whole bytes or not below 2^63.
 * *bytes is set only on success. Returns 0 or -BB_EUSAGE.
 */
int bb_parse_bytes(const char *text, size_t *bytes) BB_MUST_CHECK;

/* bb_parse_count - "15T", "1.5e13", "300B": a decimal number above 0 of things that are counted, then nothing or one of
 * K M B T (1000^1..4, either case; G is B). Returns 0 or -BB_EUSAGE. */
int bb_parse_count(const char *text, double *count) BB_MUST_CHECK;

/* bb_parse_int - a whole decimal number within [min, max], nothing after it. Returns 0 or -BB_EUSAGE. */
int bb_parse_int(const char *text, int min, int max, int *value) BB_MUST_CHECK;

/* bb_parse_double - a finite decimal number, nothing after it (no hex, inf, nan). Returns 0 or -BB_EUSAGE. */
int bb_parse_double(const char *text, double *value) BB_MUST_CHECK;

/* bb_format_bytes - for people: "512 B", "4 KiB", "75.1 MiB" (at most one decimal, none when it is 0). Returns buf. */
#define BB_BYTES_TEXT 24
const char *bb_format_bytes(size_t bytes, char buf[BB_BYTES_TEXT]);

/* Times for people: us below 10 ms, then ms, then s; columns and rows of a table by the largest of them.
 * bb_format_time - "2.241 us", "9999.9 us", "12.346 ms", "60.120 s". Returns buf. */
struct bb_time_unit {
    const char *name;
    double us;    /* it has     */
    int decimals; /* to show    */
};
struct bb_time_unit bb_time_unit(double largest_us);
#define BB_TIME_TEXT 32
const char *bb_format_time(double us, char buf[BB_TIME_TEXT]);

/* bb_round_up - the next multiple of `to`; n itself where it is one. */
static inline size_t bb_round_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

/*
 * bb_nearest_word - the word of words[n] that is nearest to `word`: fewest insertions, deletions, replacements and swaps of
 * neighbours, case aside; a prefix counts as near, and what other tools call it ("bf16"). NULL when none is near enough
 * to be meant. Returns one of words[].
 */
const char *bb_nearest_word(const char *word, const char *const *candidates, size_t n);

#endif
