/* size_list.c - see size_list.h. */
#include "bootstrap/cli/size_list.h"

#include "bootstrap/base/units.h"

#include <stdio.h>
#include <string.h>

int bb_list_each(const char *text, bb_list_fn *fn, void *arg)
{
    char word[64];
    int rc;

    for (;; text++) {
        size_t n = strcspn(text, ",");

        if (snprintf(word, sizeof word, "%.*s", (int)n, text) >= (int)sizeof word)
            memcpy(word + sizeof word - 4, "...", 4);
        rc = fn(arg, word);
        text += n;
        if (rc != 0 || !*text)
            return rc;
    }
}

struct size_reader {
    struct bb_sizes *sizes;
    const char *option;
    size_t min_bytes;
};

static int add_size(void *arg, const char *word)
{
    const struct size_reader *p = arg;
    size_t bytes;

    if (p->sizes->n == BB_SIZES_MAX)
        return bb_err(BB_EUSAGE, "%s has more than %d sizes", p->option, BB_SIZES_MAX);
    if (bb_parse_bytes(word, &bytes) != 0 || bytes < p->min_bytes || bytes > BB_SIZE_LARGEST)
        return bb_err(BB_EUSAGE, "'%s' in %s is not a size; expected bytes from %zu to 1024T, such as 8, 64K or 1.5M",
                      word, p->option, p->min_bytes);
    p->sizes->bytes[p->sizes->n++] = bytes;
    return 0;
}

int bb_sizes_parse(struct bb_sizes *s, const char *option, const char *text, size_t min_bytes)
{
    struct size_reader p = {s, option, min_bytes};

    s->n = 0;
    return bb_list_each(text, add_size, &p);
}

size_t bb_sizes_max(const struct bb_sizes *s)
{
    size_t largest = 0;

    for (int i = 0; i < s->n; i++)
        largest = s->bytes[i] > largest ? s->bytes[i] : largest;
    return largest;
}
