/* split.c - the rules of --split. The syntax is that of nccl-tests' variable NCCL_TESTS_SPLIT. */
#include "collectives/sweep/cases.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const struct rule {
    const char *word, *sign;
} rules[BB_SPLIT_COUNT] = {[BB_SPLIT_AND] = {"AND", "&"},
                           [BB_SPLIT_OR] = {"OR", "|"},
                           [BB_SPLIT_MOD] = {"MOD", "%"},
                           [BB_SPLIT_DIV] = {"DIV", "/"}};

/* Returns the part of `text` after the rule's name or sign (such as "MOD" or "%") and the separator; NULL if the
 * text begins with neither the name nor the sign. */
static const char *skip_rule(const struct rule *rule, const char *text)
{
    size_t length = strncasecmp(text, rule->word, strlen(rule->word)) == 0 ? strlen(rule->word)
                    : strncmp(text, rule->sign, 1) == 0                    ? 1
                                                                           : 0;

    if (length == 0)
        return NULL;
    return text + length + strspn(text + length, ": ");
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
    const char *number;

    for (int i = 0; i < BB_SPLIT_COUNT; i++) {
        number = skip_rule(&rules[i], text);
        if (!number)
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
