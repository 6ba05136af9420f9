/*
 * argv.h - lists of words as exec takes them, and words as a shell reads them.
 */
#ifndef BB_BOOTSTRAP_SWEEP_ARGV_H
#define BB_BOOTSTRAP_SWEEP_ARGV_H

#include "bootstrap/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Zeroed is empty. word[n] is NULL once something was added. Words are owned. */
struct bb_argv {
    char **word;
    size_t n;
    bool failed; /* memory ran out at some point; later words are dropped */
};

/* bb_argv_add - one word, printed. bb_argv_add_all - copies of other's. bb_argv_add_split - the words of a text between
 * blanks. Failures are kept in `failed`, so that a caller asks once, with bb_argv_result. */
void bb_argv_add(struct bb_argv *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void bb_argv_add_all(struct bb_argv *a, const struct bb_argv *other);
void bb_argv_add_split(struct bb_argv *a, const char *text);
int bb_argv_result(const struct bb_argv *a) BB_MUST_CHECK; /* 0, or -BB_EFAIL (said) */
void bb_argv_release(struct bb_argv *a);

/* bb_quote - `word` so that any POSIX shell reads it as that one word, whatever is in it: as it is when it holds
 * nothing that a shell knows, else in single quotes. */
void bb_quote(const char *word, FILE *out);

/* bb_quote_all - the words with blanks between them. */
void bb_quote_all(const struct bb_argv *a, FILE *out);

#endif
