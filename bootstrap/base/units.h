/*
 * units.h - parsing and formatting of numbers, prefixes of texts, and spelling suggestions. The functions print
 * nothing: the caller, for example bb_opts_parse, knows where the text comes from and prints the error.
 */
#ifndef BB_BOOTSTRAP_BASE_UNITS_H
#define BB_BOOTSTRAP_BASE_UNITS_H

#include "bootstrap/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/*
 * bb_parse_bytes - a size: "8", "128M", "1.5g", "80GB", "80GiB". A decimal number >= 0, optionally followed by K, M, G or
 * T (powers of 1024), and then by B or iB, in upper or lower case.
 *   bytes    out: set only on success; a fraction of a byte is truncated ("1.3K" is 1331)
 *   Returns  0, or -BB_EUSAGE for no digits, a sign, a fraction without a unit, text after the unit, a positive size
 *            below 1 byte, or 2^63 bytes and more
 */
int bb_parse_bytes(const char *text, size_t *bytes) BB_MUST_CHECK;

/*
 * bb_parse_count - a positive count, such as tokens: "15T", "1.5e13", "300B". A decimal number, optionally followed by
 * K, M, B or T in upper or lower case (powers of 1000; G means B). Returns 0 or -BB_EUSAGE.
 */
int bb_parse_count(const char *text, double *count) BB_MUST_CHECK;

/* bb_parse_duration - a time: "40s", "1.5h". A decimal number >= 0 and one of us, ms, s, m (minutes), h and d (days).
 * seconds: out, set only on success. Returns 0 or -BB_EUSAGE. */
int bb_parse_duration(const char *text, double *seconds) BB_MUST_CHECK;

/* bb_parse_int - parse a decimal integer from min to max; any other text is invalid. Returns 0 or -BB_EUSAGE. */
int bb_parse_int(const char *text, int min, int max, int *value) BB_MUST_CHECK;

/* bb_parse_double - parse a finite decimal number; any other text is invalid, including hexadecimal numbers, inf and
 * nan. Returns 0 or -BB_EUSAGE. */
int bb_parse_double(const char *text, double *value) BB_MUST_CHECK;

/* bb_parse_percent - parse a percentage above 0 and up to `most`, "90%" or "90", to the fraction 0.9; below 1 only with
 * "%", because "0.9" may mean 90 %. Returns 0 or -BB_EUSAGE. */
int bb_parse_percent(const char *text, double most, double *fraction) BB_MUST_CHECK;

/*
 * bb_format_bytes - "512 B", "4 KiB", "75.1 MiB": at most one decimal, none if that decimal is 0. Returns buf.
 * bb_format_bytes_beside - likewise, with the decimals that an unequal number of bytes, a limit, requires: "79.14 GiB" next to
 * "79.1 GiB". Returns buf.
 */
#define BB_BYTES_TEXT 24
const char *bb_format_bytes(size_t bytes, char buf[BB_BYTES_TEXT]);
const char *bb_format_bytes_beside(size_t bytes, size_t other, char buf[BB_BYTES_TEXT]);

/*
 * Reports print times in us below 10 ms, in ms below 10 s, and otherwise in s.
 * bb_time_unit - return the unit for all times of a table column, chosen by the largest time of the column.
 * bb_format_time - format a single time in the unit chosen by this time: "2.241 us", "9999.9 us", "12.346 ms",
 * "60.120 s". Returns buf.
 */
struct bb_time_unit {
    const char *name;
    double us;    /* length of the unit in microseconds, for example 1000 for "ms" */
    int decimals; /* number of digits after the decimal point; -1: three significant digits (bb_format_rounded) */
};
struct bb_time_unit bb_time_unit(double largest_us);
#define BB_TIME_TEXT 32
const char *bb_format_time(double us, char buf[BB_TIME_TEXT]);

/*
 * Predictions have an error of a few percent, so reports print three significant digits and at most three decimals.
 * bb_rounded_time_unit - like bb_time_unit, for predicted times: us below 1 ms, ms below 1 s, and otherwise s.
 * bb_format_rounded - "0", "0.024", "17.2", "519", "488,000". Returns text.
 * bb_format_rounded_time - "17.2 s". Returns text.
 */
#define BB_ROUNDED_TEXT 40
struct bb_time_unit bb_rounded_time_unit(double largest_us);
const char *bb_format_rounded(double number, char text[BB_ROUNDED_TEXT]);
const char *bb_format_rounded_time(double us, char text[BB_ROUNDED_TEXT]);

/* bb_format_thousands - format 1234567 as "1,234,567". Returns text. */
#define BB_THOUSANDS_TEXT 40
const char *bb_format_thousands(double number, char text[BB_THOUSANDS_TEXT]);

/* bb_decimals_beside - return the number of decimals, from `decimals` to 9, whose text of the value is above the limit if the
 * value is, and not above it otherwise: 1 for 5.04 and the limit 5 would be 5.0, so it is 2. */
int bb_decimals_beside(double value, double limit, int decimals);

/* bb_has_controls - return whether a text contains control characters: C0, DEL, or C1 in UTF-8 (0xc2 0x80 to 0x9f). A
 * terminal would obey them. allowed: C0 characters that are accepted, such as "\n". bb_blank_controls - replace control
 * characters by blanks. Returns whether there were any. bb_visible_text - return a copy without control characters, owned
 * by the caller. */
bool bb_has_controls(const char *text, const char *allowed);
bool bb_blank_controls(char *text);
char *bb_visible_text(const char *text) BB_MUST_CHECK;

/* bb_cut_length - return the length of the beginning of a text that has at most `most` bytes: the whole text, or up to the end of
 * a word, in a text without blanks of a UTF-8 character. */
size_t bb_cut_length(const char *text, size_t most);

/* bb_is_same_name - return whether name and word[length] differ only in case and in the separators '_', '-' and '.':
 * "LLaMA3-70B" is llama3_70b, "allreduce" all_reduce. */
bool bb_is_same_name(const char *name, const char *word, size_t length);

/* bb_begins_with - return whether `text` begins with `prefix`. */
static inline bool bb_begins_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* bb_base_name - return the part of a path after its last slash. */
static inline const char *bb_base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

/* bb_round_up - the smallest multiple of `to` that is at least n. */
static inline size_t bb_round_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

/*
 * bb_nearest_word - the candidate that the user most probably meant, for "did you mean": the candidate with the
 * smallest edit distance (insertions, deletions, replacements, transpositions; ignoring case). A prefix of a candidate
 * has distance 1. Names of other tools select busbar's name: "bf16" selects "bfloat16". Returns one of candidates[n],
 * or NULL if none is close enough.
 */
const char *bb_nearest_word(const char *word, const char *const *candidates, size_t n);

#endif
