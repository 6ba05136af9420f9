/* variant_kinds.c - see variant_kinds.h. */
#include "collectives/variants/variant_kinds.h"

#include "bootstrap/cli/opts.h"
#include "bootstrap/cli/size_list.h"

#include <string.h>

const struct bb_variant_kind bb_variant_kinds[BB_VARIANTS] = {
    {.name = "plain", .cta_policy = -1},
    {.name = "registered", .registration = 1, .cta_policy = -1},
    {.name = "symmetric", .registration = 2, .cta_policy = -1, .replaces_kernel = true, .ran = "symmetric kernel"},
    {.name = "zero-sm", .registration = 2, .cta_policy = 2, .replaces_kernel = true, .ran = "copies or symmetric"},
    {.name = "graph", .cta_policy = -1, .graph = true},
    {.name = "device", .registration = 2, .cta_policy = -1, .device = true},
};

static const char *name_at(size_t i)
{
    return i < BB_VARIANTS ? bb_variant_kinds[i].name : NULL;
}

static int add_variant(const char *word, int list[BB_VARIANTS], int *n)
{
    for (int k = 0; k < *n; k++)
        if (strcmp(bb_variant_kinds[list[k]].name, word) == 0)
            return bb_err(BB_EUSAGE, "--sweep-variants: variant %s is given twice", word);
    for (int i = 0; i < BB_VARIANTS; i++)
        if (strcmp(bb_variant_kinds[i].name, word) == 0) {
            list[(*n)++] = i;
            return 0;
        }
    return bb_reject_unknown_at("variant", word, name_at);
}

int bb_variants_parse(const char *text, int list[BB_VARIANTS], int *n)
{
    char word[BB_LIST_WORD];
    int rc = 0;

    for (*n = 0; rc == 0 && bb_list_next(&text, word);)
        rc = add_variant(word, list, n);
    if (rc == 0 && (*n < 2 || list[0] != 0))
        rc = bb_err(BB_EUSAGE, "--sweep-variants compares variants with plain, try: --sweep-variants plain,%s",
                    *n > 0 && list[0] != 0 ? bb_variant_kinds[list[0]].name : "registered,symmetric");
    return rc;
}
