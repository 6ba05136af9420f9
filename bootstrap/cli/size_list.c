/* size_list.c - see size_list.h. */
#include "bootstrap/cli/size_list.h"

#include "bootstrap/base/units.h"

#include <stdio.h>
#include <string.h>

bool bb_list_next(const char **rest, char word[BB_LIST_WORD])
{
    size_t n;

    if (!*rest)
        return false;
    n = strcspn(*rest, ",");
    if (snprintf(word, BB_LIST_WORD, "%.*s", (int)n, *rest) >= BB_LIST_WORD)
        memcpy(word + BB_LIST_WORD - 4, "...", 4);
    *rest = (*rest)[n] ? *rest + n + 1 : NULL;
    return true;
}

int bb_sizes_parse(struct bb_sizes *s, const char *option, const char *text, size_t min_bytes)
{
    char word[BB_LIST_WORD];
    size_t bytes;

    for (s->n = 0; bb_list_next(&text, word); s->bytes[s->n++] = bytes) {
        if (s->n == BB_SIZES_MAX)
            return bb_err(BB_EUSAGE, "%s has more than %d sizes", option, BB_SIZES_MAX);
        if (bb_parse_bytes(word, &bytes) != 0 || bytes < min_bytes || bytes > BB_SIZE_LARGEST)
            return bb_err(BB_EUSAGE,
                          "'%s' in %s is not a size; expected bytes from %zu to 1024T, such as 8, 64K or 1.5M%s", word,
                          option, min_bytes, strchr(word, '-') > word ? " (a range: -b 1M -e 1G)" : "");
    }
    return 0;
}

size_t bb_sizes_max(const struct bb_sizes *s)
{
    size_t largest = 0;

    for (int i = 0; i < s->n; i++)
        largest = s->bytes[i] > largest ? s->bytes[i] : largest;
    return largest;
}
