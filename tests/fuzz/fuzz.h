/*
 * fuzz.h - helpers of the fuzz targets. A target is one file: a parser reads the input and accepts it or rejects it
 * with one line, under AddressSanitizer and UndefinedBehaviorSanitizer. run.sh lists the targets.
 *
 * Parts of an input are separated by '|'; command-line arguments are separated by line breaks.
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

/* Aborts, which libFuzzer reports as a finding, if the condition is false for any input. */
#define HOLDS(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition);                             \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

/* fuzz_text - the bytes as a string in an allocation of exactly that size, so that AddressSanitizer detects any read
 * beyond it. The caller frees it. */
static inline char *fuzz_text(const void *data, size_t size)
{
    char *text = malloc(size + 1);

    if (!text)
        exit(0);
    memcpy(text, data, size);
    text[size] = '\0';
    return text;
}

/* fuzz_parts - splits a text at each '|'; missing parts are empty strings. */
static inline void fuzz_parts(char *text, char *part[FUZZ_PARTS])
{
    for (int i = 0; i < FUZZ_PARTS; i++) {
        part[i] = text;
        text += strcspn(text, "|");
        if (*text)
            *text++ = '\0';
    }
}

/* fuzz_arguments - an argument vector of `first` and the lines of a text, as for main(). Returns the number of
 * arguments. */
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

/* fuzz_file - writes the bytes to an in-memory file. Returns its path, which is the same for the same number. */
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
