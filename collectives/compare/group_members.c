/* group_members.c - see group_members.h. */
#include "collectives/compare/group_members.h"

#include "bootstrap/base/units.h"

#include <stdio.h>

enum { HOSTS_SHOWN = 4, RANKS_SHOWN = 8 };

/* Prints the members: "rank 5", "ranks 2-3"; members with another distance, "ranks 0,2,4". */
static void print_ranks(FILE *out, const json_t *ranks)
{
    const size_t n = json_array_size(ranks);
    const json_int_t first = json_integer_value(json_array_get(ranks, 0)),
                     last = json_integer_value(json_array_get(ranks, n - 1));

    fprintf(out, "rank%s %lld", bb_plural(n), (long long)first);
    if (n > 1 && last - first == (json_int_t)n - 1) {
        fprintf(out, "-%lld", (long long)last);
        return;
    }
    for (size_t i = 1; i < n; i++)
        if (n <= RANKS_SHOWN || i < RANKS_SHOWN - 1)
            fprintf(out, ",%lld", (long long)json_integer_value(json_array_get(ranks, i)));
    if (n > RANKS_SHOWN)
        fprintf(out, ",..,%lld", (long long)last);
}

const char *bb_group_members_text(const json_t *entry, char text[BB_GROUP_TEXT])
{
    const json_t *hosts = json_object_get(entry, "hosts");
    const size_t n = json_array_size(hosts);
    FILE *out = fmemopen(text, BB_GROUP_TEXT, "w"); /* text beyond the capacity is dropped */

    text[0] = '\0';
    if (!out)
        return text;
    print_ranks(out, json_object_get(entry, "ranks"));
    for (size_t i = 0; i < n && i < HOSTS_SHOWN; i++) {
        const char *host = json_string_value(json_array_get(hosts, i));

        fprintf(out, "%s%s", i ? ", " : " on ", host ? host : "?"); /* of another program's file */
    }
    if (n > HOSTS_SHOWN)
        fprintf(out, ", .. (%zu hosts)", n);
    fclose(out);
    text[BB_GROUP_TEXT - 1] = '\0';
    return text;
}
