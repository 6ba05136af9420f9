/*
 * fuzz.h - what the fuzz targets share. A target is one file: bytes go in, a parser reads them, and whatever it makes of
 * them is refused with one line or taken, under AddressSanitizer and UndefinedBehaviorSanitizer. run.sh has the list.
 *
 * An input of several parts has '|' between them, words stand on lines of their own.
 */
#ifndef BB_TESTS_FUZZ_FUZZ_H
#define BB_TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FUZZ_PARTS = 6, FUZZ_ARGUMENTS = 24, FUZZ_FILES = 4 };

/* What must hold whatever came in. */
#define HOLDS(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition);                             \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

/* fuzz_text - the bytes as a text of exactly that size, so that a step beyond it is seen; the caller frees it. */
static inline char *fuzz_text(const void *data, size_t size)
{
    char *text = malloc(size + 1);

    if (!text)
        exit(0);
    memcpy(text, data, size);
    text[size] = '\0';
    return text;
}

/* fuzz_parts - cuts a text at each '|', and fills up with empty ones. */
static inline void fuzz_parts(char *text, char *part[FUZZ_PARTS])
{
    for (int i = 0; i < FUZZ_PARTS; i++) {
        part[i] = text;
        text += strcspn(text, "|");
        if (*text)
            *text++ = '\0';
    }
}

/* fuzz_words - `first` and the lines of a text, as main() gets them. Returns their number. */
static inline int fuzz_arguments(char *first, char *text, char *word[FUZZ_ARGUMENTS + 1])
{
    int n = 0;

    word[n++] = first;
    while (*text && n < FUZZ_ARGUMENTS) {
        word[n++] = text;
        text += strcspn(text, "\n");
        if (*text)
            *text++ = '\0';
    }
    word[n] = NULL;
    return n;
}

/* fuzz_file - a file in memory with these bytes. Returns its path, the same for the same number. */
static inline char *fuzz_file(int number, const void *data, size_t size)
{
    static int files[FUZZ_FILES];
    static char paths[FUZZ_FILES][32];

    if (files[number] == 0) {
        files[number] = memfd_create("fuzzed", 0);
        snprintf(paths[number], sizeof(paths[number]), "/proc/self/fd/%d", files[number]);
    }
    if (ftruncate(files[number], 0) || pwrite(files[number], data, size, 0) != (ssize_t)size)
        exit(0);
    return paths[number];
}

#endif
