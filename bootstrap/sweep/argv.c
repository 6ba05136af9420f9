/* argv.c - argument vectors and shell quoting. */
#include "bootstrap/sweep/argv.h"

#include "bootstrap/base/alloc.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* Appends a heap-allocated word, which the vector then owns. word NULL: the allocation of the word failed. */
static void add_owned(struct bb_argv *a, char *word)
{
    if (!word && !a->failed)
        bb_err(BB_EFAIL, "out of memory for argument %zu of a command line", a->n + 1);
    if (!word) {
        a->failed = true;
        return;
    }
    BB_GROW(a->word, a->n + 1);
    a->word[a->n++] = word;
    a->word[a->n] = NULL;
}

void bb_argv_add(struct bb_argv *a, const char *fmt, ...)
{
    char *word = NULL;
    va_list args;

    va_start(args, fmt);
    if (vasprintf(&word, fmt, args) < 0)
        word = NULL;
    va_end(args);
    add_owned(a, word);
}

void bb_argv_add_all(struct bb_argv *a, const struct bb_argv *other)
{
    a->failed |= other->failed;
    for (size_t i = 0; i < other->n; i++)
        add_owned(a, strdup(other->word[i]));
}

void bb_argv_add_split(struct bb_argv *a, const char *text)
{
    static const char blanks[] = " \t\n";

    for (text += strspn(text, blanks); *text; text += strspn(text, blanks)) {
        size_t length = strcspn(text, blanks);

        add_owned(a, strndup(text, length));
        text += length;
    }
}

int bb_argv_result(const struct bb_argv *a)
{
    return a->failed ? -BB_EFAIL : 0;
}

void bb_argv_release(struct bb_argv *a)
{
    for (size_t i = 0; i < a->n; i++)
        free(a->word[i]);
    free(a->word);
    *a = (struct bb_argv){0};
}

void bb_quote(const char *word, FILE *out)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+./:,@%=";

    if (*word && *word != '=' && word[strspn(word, plain)] == '\0') {
        fputs(word, out);
        return;
    }
    fputc('\'', out);
    for (; *word; word++)
        if (*word == '\'')
            fputs("'\\''", out);
        else
            fputc(*word, out);
    fputc('\'', out);
}

void bb_quote_all(const struct bb_argv *a, FILE *out)
{
    for (size_t i = 0; i < a->n; i++) {
        if (i)
            fputc(' ', out);
        bb_quote(a->word[i], out);
    }
}
