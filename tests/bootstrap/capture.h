/* capture.h - captures the stderr output of a piece of code, for tests of messages. */
#ifndef BB_TESTS_BOOTSTRAP_CAPTURE_H
#define BB_TESTS_BOOTSTRAP_CAPTURE_H

#include <stdio.h>
#include <unistd.h>

struct capture {
    int saved;
    FILE *file;
    char text[4096];
};

static inline void capture_begin(struct capture *c)
{
    fflush(stderr);
    c->file = tmpfile();
    c->saved = dup(STDERR_FILENO);
    dup2(fileno(c->file), STDERR_FILENO);
}

/* Restores stderr and returns the output since capture_begin. */
static inline const char *capture_end(struct capture *c)
{
    size_t n;

    fflush(stderr);
    dup2(c->saved, STDERR_FILENO);
    close(c->saved);
    rewind(c->file);
    n = fread(c->text, 1, sizeof(c->text) - 1, c->file);
    c->text[n] = '\0';
    fclose(c->file);
    return c->text;
}

#endif
