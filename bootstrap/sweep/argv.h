/*
 * argv.h - argument vectors for exec(3), and shell quoting.
 */
#ifndef BB_BOOTSTRAP_SWEEP_ARGV_H
#define BB_BOOTSTRAP_SWEEP_ARGV_H

#include "bootstrap/base/err.h"

#include <stddef.h>
#include <stdio.h>

/* Argument vector; owns its words. A zero-initialized struct is empty. As exec(3) requires, word[n] is NULL once a
 * word was added. */
struct bb_argv {
    char **word;
    size_t n;
};

/*
 * bb_argv_add - append one formatted word.
 * bb_argv_add_all - append copies of all words of `other`.
 * bb_argv_add_split - append the blank-separated words of `text`.
 */
void bb_argv_add(struct bb_argv *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void bb_argv_add_all(struct bb_argv *a, const struct bb_argv *other);
void bb_argv_add_split(struct bb_argv *a, const char *text);
void bb_argv_release(struct bb_argv *a);

/* bb_argv_replace - replace `mark`, for example "{id}", by `value` in every word, as bb_replace does. */
void bb_argv_replace(struct bb_argv *a, const char *mark, const char *value);

/* bb_replace - return a copy of `text` with each `mark` replaced by `value`, owned by the caller. */
char *bb_replace(const char *text, const char *mark, const char *value) BB_MUST_CHECK;

/* bb_quote - print word quoted for a POSIX shell: unchanged if it contains no special characters, else in single
 * quotes. */
void bb_quote(const char *word, FILE *out);

/* bb_quote_all - print all words, quoted and separated by blanks. */
void bb_quote_all(const struct bb_argv *a, FILE *out);

#endif
