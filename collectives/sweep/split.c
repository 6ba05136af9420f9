/* split.c - the rules of --split. The syntax is that of nccl-tests' variable NCCL_TESTS_SPLIT. */
#include "collectives/sweep/cases.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const struct {
    const char *word, *sign;
} rules[BB_SPLIT_COUNT] = {[BB_SPLIT_AND] = {"AND", "&"},
                           [BB_SPLIT_OR] = {"OR", "|"},
                           [BB_SPLIT_MOD] = {"MOD", "%"},
                           [BB_SPLIT_DIV] = {"DIV", "/"}};

/* Returns the length of the word if the text begins with it, in upper or lower case, else 0. */
static size_t match_word(const char *text, const char *word)
{
    return strncasecmp(text, word, strlen(word)) == 0 ? strlen(word) : 0;
}

/* Parses a decimal, hexadecimal (0x) or binary (0b) number. Returns 0 or -BB_EUSAGE. */
static int parse_number(const char *text, int *number)
{
    int base = strncasecmp(text, "0x", 2) == 0 ? 16 : strncasecmp(text, "0b", 2) == 0 ? 2 : 10;
    const char *digits = base == 10 ? text : text + 2;
    char *end;
    long value;

    errno = 0;
    value = strtol(digits, &end, base);
    if (!strchr("0123456789abcdefABCDEF", *digits) || !*digits || end == digits || *end || errno || value > INT_MAX)
        return -BB_EUSAGE;
    *number = (int)value;
    return 0;
}

int bb_split_parse(struct bb_split *s, const char *text)
{
    for (int i = 0; i < BB_SPLIT_COUNT; i++) {
        size_t length = match_word(text, rules[i].word) + match_word(text, rules[i].sign);
        const char *number = text + length + strspn(text + length, ": ");

        if (length == 0)
            continue;
        *s = (struct bb_split){.rule = (enum bb_split_rule)i};
        if (parse_number(number, &s->number))
            return bb_err(BB_EUSAGE, "--split: '%s' in '%s' is not a number, try: 3, 0x3 or 0b11", number, text);
        if (s->number == 0 && (i == BB_SPLIT_MOD || i == BB_SPLIT_DIV))
            return bb_err(BB_EUSAGE, "--split: '%s' divides by zero", text);
        return 0;
    }
    return bb_err(BB_EUSAGE, "--split: '%s' is not valid, expected AND, OR, MOD or DIV and a number, try: MOD:2", text);
}

int bb_split_group(const struct bb_split *s, int rank)
{
    switch (s->rule) {
    case BB_SPLIT_AND:
        return rank & s->number;
    case BB_SPLIT_OR:
        return rank | s->number;
    case BB_SPLIT_MOD:
        return rank % s->number;
    default:
        return rank / s->number;
    }
}
