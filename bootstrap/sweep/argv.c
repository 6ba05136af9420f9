/* argv.c - argument vectors and shell quoting. */
#include "bootstrap/sweep/argv.h"

#include "bootstrap/base/alloc.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* Appends a heap-allocated word, which the vector then owns. */
static void add_owned(struct bb_argv *a, char *word)
{
    BB_GROW(a->word, a->n + 1);
    a->word[a->n++] = word;
    a->word[a->n] = NULL;
}

void bb_argv_add(struct bb_argv *a, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    add_owned(a, bb_vformat(fmt, args));
    va_end(args);
}

void bb_argv_add_all(struct bb_argv *a, const struct bb_argv *other)
{
    for (size_t i = 0; i < other->n; i++)
        add_owned(a, bb_copy_text(other->word[i]));
}

void bb_argv_add_split(struct bb_argv *a, const char *text)
{
    static const char blanks[] = " \t\n";

    for (text += strspn(text, blanks); *text; text += strspn(text, blanks)) {
        size_t length = strcspn(text, blanks);

        bb_argv_add(a, "%.*s", (int)length, text);
        text += length;
    }
}

void bb_argv_release(struct bb_argv *a)
{
    for (size_t i = 0; i < a->n; i++)
        free(a->word[i]);
    free(a->word);
    *a = (struct bb_argv){0};
}

char *bb_replace(const char *text, const char *mark, const char *value)
{
    const char *at = strstr(text, mark);
    char *rest, *replaced;

    if (!at)
        return bb_copy_text(text);
    rest = bb_replace(at + strlen(mark), mark, value);
    replaced = bb_format("%.*s%s%s", (int)(at - text), text, value, rest);
    free(rest);
    return replaced;
}

void bb_argv_replace(struct bb_argv *a, const char *mark, const char *value)
{
    for (size_t i = 0; i < a->n; i++) {
        char *word = a->word[i];

        a->word[i] = bb_replace(word, mark, value);
        free(word);
    }
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
