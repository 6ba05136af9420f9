/* selection.c - parser for lists of indices such as "0,8-15"; see selection.h. */
#include "proxies/export/selection.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/base/units.h"
#include "bootstrap/cli/size_list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct parsing {
    struct bb_selection *selection;
    const char *option, *what;
};

static int reject_op(const struct parsing *p, const char *word)
{
    return bb_err(BB_EUSAGE, "--%s '%s' is not valid, expected %s from 0 to %d, for example 0,2 or 0-%d", p->option,
                  word, p->what, p->selection->n - 1, p->selection->n > 1 ? 1 : 0);
}

/* Parses one index such as "8" or one range such as "8-15", and marks it as selected. */
static int parse_range(void *arg, const char *word)
{
    const struct parsing *p = arg;
    const char *dash = strchr(word, '-');
    const int length = dash ? (int)(dash - word) : (int)strlen(word), most = p->selection->n - 1;
    char low_text[64];
    int low, high;

    snprintf(low_text, sizeof(low_text), "%.*s", length, word);
    if (bb_parse_int(low_text, 0, most, &low) != 0 || (dash && bb_parse_int(dash + 1, low, most, &high) != 0))
        return reject_op(p, word);
    high = dash ? high : low;
    for (int i = low; i <= high; i++)
        p->selection->chosen[i] = true;
    return 0;
}

int bb_selection_parse(struct bb_selection *s, const char *option, const char *what, const char *text, int n)
{
    struct parsing p = {s, option, what};
    int rc;

    s->n = n;
    BB_NEW(s->chosen, n);
    rc = bb_list_each(text, parse_range, &p);
    return rc;
}

void bb_selection_release(struct bb_selection *s)
{
    free(s->chosen);
    *s = (struct bb_selection){0};
}
