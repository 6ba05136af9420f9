/* slow.c - parses and prints the list of slow GPUs, nodes, NICs, paths and leaf uplinks, and of late ranks (see slow.h). */
#include "proxies/simulation/machine/slow.h"

#include "bootstrap/base/units.h"
#include "bootstrap/cli/size_list.h"
#include "proxies/simulation/machine/fabric.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double min_factor = 1e-3;
enum { MAX_NAMES = 4 }; /* in a sentence; BB_SLOW_NAMES_TEXT is large enough */

/* ---- parsing ---- */

static bool take_number(const char **at, int *number)
{
    char *end;
    long n = isdigit((unsigned char)**at) ? strtol(*at, &end, 10) : -1;

    if (n < 0 || n > 1000000000)
        return false;
    *at = end;
    *number = (int)n;
    return true;
}

/* Forms of an item of --slow, and last of --delay. In `location` and in `name`, its name in a sentence, '#' stands for a
 * number. max: the largest factor (the smallest is min_factor), or the longest delay in us. */
static const struct form {
    const char *location, *name;
    enum bb_slow_kind kind;
    double max;
} forms[] = {{"rank=#:", "rank #", BB_SLOW_RANK, 1e3},
             {"node#:", "node #", BB_SLOW_NODE, 1},
             {"link=node#-nic#:", "node #'s NIC #", BB_SLOW_NIC, 1},
             {"link=node#-node#:", "the path of nodes # and #", BB_SLOW_PATH, 1},
             {"link=node#-to-node#:", "the path from node # to #", BB_SLOW_WAY, 1},
             {"link=leaf#:", "leaf #'s uplinks", BB_SLOW_LEAF, 1},
             {"rank=#:", "rank #", BB_SLOW_DELAY, 1e6}};
enum { FORMS = sizeof(forms) / sizeof(forms[0]) };

static bool take_location(const char **at, const char *location, struct bb_slow_item *item)
{
    int *number = &item->number;

    for (; *location; location++)
        if (*location == '#') {
            if (!take_number(at, number))
                return false;
            number = &item->other;
        } else if (*(*at)++ != *location) {
            return false;
        }
    return true;
}

static bool is_path(const struct bb_slow_item *item)
{
    return item->kind == BB_SLOW_PATH || item->kind == BB_SLOW_WAY;
}

/* A delay may be "R:US", as `busbar bench` has it. */
static bool parse_item(const char *text, bool delay, struct bb_slow_item *item)
{
    const size_t skipped = delay && isdigit((unsigned char)*text) ? strlen("rank=") : 0;

    for (int i = 0; i < FORMS; i++) {
        const char *at = text;

        *item = (struct bb_slow_item){.kind = forms[i].kind};
        if ((item->kind == BB_SLOW_DELAY) != delay || !take_location(&at, forms[i].location + skipped, item))
            continue;
        if (delay && bb_parse_duration(at, &item->factor) == 0)
            item->factor *= 1e6;
        else if ((delay && !skipped) || bb_parse_double(at, &item->factor))
            return false;
        if (is_path(item) && item->number == item->other)
            return false;
        return item->factor >= (delay ? 0 : min_factor) && item->factor <= forms[i].max;
    }
    return false;
}

static bool is_same(const struct bb_slow_item *a, const struct bb_slow_item *b)
{
    return a->kind == b->kind && ((a->number == b->number && a->other == b->other) ||
                                  (a->kind == BB_SLOW_PATH && a->number == b->other && a->other == b->number));
}

static int reject_item(const char *what, const char *item, bool delays)
{
    char join = *what == '-' ? ' ' : '='; /* an option, or a variable of emulated GPUs */
    double factor;
    int number, nic;

    if (delays)
        return bb_err(BB_EUSAGE,
                      "%s: '%s' is not valid, expected rank=R:TIME, TIME from 0us to 1s (for example "
                      "rank=1:100us)",
                      what, item);
    if (sscanf(item, "rank%d:%lf", &number, &factor) == 2 && factor > 0)
        return bb_err(BB_EUSAGE, "%s: '%s' is not valid; to multiply the times of its kernels, try: %s%crank=%d:%g",
                      what, item, what, join, number, factor);
    if (sscanf(item, "node%d:%lf", &number, &factor) == 2 && factor > 1)
        return bb_err(BB_EUSAGE, "%s: '%s' is not valid; to give the part of its speed, try: %s%cnode%d:%.3g", what,
                      item, what, join, number, 1 / factor);
    /* init.cc, initTransportsRank: every rank takes the fewest channels of all ranks */
    if (sscanf(item, "link=node%d-nic%d:%lf", &number, &nic, &factor) == 3 && factor == 0)
        return bb_err(BB_EUSAGE,
                      "%s: '%s' is not valid, expected 0.001 to 1; NCCL takes the fewest channels of all nodes, so a "
                      "failed NIC is one NIC less in every node (key nics_per_node); of 8 NICs, try: --set "
                      "nics_per_node=7 without %s",
                      what, item, what);
    return bb_err(
        BB_EUSAGE,
        "%s: '%s' is not valid, expected rank=R:TIMES, nodeN:PART, link=nodeN-nicM:PART, link=nodeN-nodeM:PART, "
        "link=nodeN-to-nodeM:PART or link=leafN:PART; TIMES from 0.001 to 1000, PART from 0.001 to 1 (for example "
        "rank=5:1.1 or link=node3-nic2:0.5)",
        what, item);
}

static int parse_list(struct bb_slow *slow, const char *what, const char *text, bool delays)
{
    const char *rest = text;
    char word[BB_LIST_WORD];

    while (bb_list_next(&rest, word)) {
        struct bb_slow_item item;

        if (!parse_item(word, delays, &item))
            return reject_item(what, word, delays);
        for (int i = 0; i < slow->n; i++)
            if (is_same(&slow->items[i], &item))
                return bb_err(BB_EUSAGE, "%s: '%.*s' is given twice", what, (int)strcspn(word, ":"), word);
        if (slow->n == BB_SLOW_ITEMS)
            return bb_err(BB_EUSAGE, "%s: '%s' has too many items, expected at most %d", what, text, BB_SLOW_ITEMS);
        slow->items[slow->n++] = item;
    }
    return 0;
}

int bb_slow_parse(struct bb_slow *slow, const char *what, const char *text)
{
    return parse_list(slow, what, text, false);
}

int bb_slow_parse_delays(struct bb_slow *slow, const char *what, const char *text)
{
    return parse_list(slow, what, text, true);
}

static int check_number(const char *what, const char *name, int number, int end)
{
    return number < end ? 0 : bb_err(BB_EUSAGE, "%s: there is no %s %d, expected 0 to %d", what, name, number, end - 1);
}

static int check_hardware(const struct bb_slow_item *item, const char *what, const struct bb_cluster *c, int nodes)
{
    int rc;

    if (item->kind == BB_SLOW_LEAF) {
        if (c->fabric.nodes[BB_LEAF] == 0)
            return bb_err(BB_EUSAGE,
                          "%s: link=leaf%d requires a profile with 'fabric', and '%s' has none; try: "
                          "link=node0-nic0:%g",
                          what, item->number, c->name, item->factor);
        return check_number(what, "leaf", item->number, bb_fabric_leaves(c, nodes));
    }
    TRY(check_number(what, "node", item->number, nodes));
    if (item->kind == BB_SLOW_NIC)
        TRY(check_number(what, "NIC", item->other, bb_cluster_nics(c)));
    if (is_path(item))
        TRY(check_number(what, "node", item->other, nodes));
out:
    return rc;
}

int bb_slow_validate(const struct bb_slow *slow, const char *what, const struct bb_cluster *c, int ranks, int nodes)
{
    int rc = 0, paths = 0;

    for (int i = 0; i < slow->n; i++) {
        const struct bb_slow_item *item = &slow->items[i];

        paths += is_path(item);
        if (2 * paths > BB_SLOW_PATHS)
            return bb_err(BB_EUSAGE, "%s: too many slow paths, expected at most %d", what, BB_SLOW_PATHS / 2);
        if (item->kind == BB_SLOW_RANK || item->kind == BB_SLOW_DELAY)
            TRY(check_number(item->kind == BB_SLOW_RANK ? what : "--delay", "rank", item->number, ranks));
        else
            TRY(check_hardware(item, what, c, nodes));
    }
out:
    return rc;
}

/* ---- slowdown factors of ranks, NICs and leaf uplinks ---- */

/* Returns the factor of the listed item `named`; if the item is not listed, its value in `named`. */
static double find_factor(const struct bb_slow *slow, struct bb_slow_item named)
{
    for (int i = 0; i < slow->n; i++)
        if (is_same(&slow->items[i], &named))
            return slow->items[i].factor;
    return named.factor;
}

static double factor_of(const struct bb_slow *slow, struct bb_slow_item named)
{
    named.factor = 1;
    return find_factor(slow, named);
}

static double node_factor(const struct bb_slow *slow, int node)
{
    return factor_of(slow, (struct bb_slow_item){.kind = BB_SLOW_NODE, .number = node});
}

double bb_slow_compute_factor(const struct bb_slow *slow, int rank, int node)
{
    return factor_of(slow, (struct bb_slow_item){.kind = BB_SLOW_RANK, .number = rank}) / node_factor(slow, node);
}

int64_t bb_slow_delay_ns(const struct bb_slow *slow, int rank)
{
    return llround(1e3 * find_factor(slow, (struct bb_slow_item){.kind = BB_SLOW_DELAY, .number = rank}));
}

double bb_slow_nic_factor(const struct bb_slow *slow, const struct bb_cluster *c, int node, int gpu)
{
    double slowest = 1;
    int first, end;

    bb_cluster_gpu_nics(c, gpu, &first, &end);
    for (int nic = first; slow->n > 0 && nic < end; nic++)
        slowest =
            fmin(slowest, factor_of(slow, (struct bb_slow_item){.kind = BB_SLOW_NIC, .number = node, .other = nic}));
    return slow->n > 0 ? node_factor(slow, node) * slowest : 1;
}

double bb_slow_nics_gbps(const struct bb_slow *slow, const struct bb_cluster *c, int rank)
{
    return bb_cluster_nic_share_gbps(c, 1) *
           bb_slow_nic_factor(slow, c, rank / c->gpus_per_node, rank % c->gpus_per_node);
}

double bb_slow_leaf_factor(const struct bb_slow *slow, const struct bb_cluster *c, int rank)
{
    if (c->fabric.nodes[BB_LEAF] == 0)
        return 1;
    return factor_of(slow, (struct bb_slow_item){.kind = BB_SLOW_LEAF, .number = bb_fabric_switch(c, BB_LEAF, rank)});
}

void bb_slow_degrade_fabric(const struct bb_slow *slow, struct bb_cluster *c)
{
    struct bb_fabric *f = &c->fabric;

    f->n_slow_paths = 0;
    for (int i = 0; i < slow->n; i++) {
        const struct bb_slow_item *item = &slow->items[i];
        const int ways = item->kind == BB_SLOW_PATH ? 2 : item->kind == BB_SLOW_WAY;

        f->slow_leaf |= item->kind == BB_SLOW_LEAF;
        for (int way = 0; way < ways && f->n_slow_paths < BB_SLOW_PATHS; way++)
            f->slow_paths[f->n_slow_paths++] =
                (struct bb_slow_path){way ? item->other : item->number, way ? item->number : item->other, item->factor};
    }
}

/* ---- text and JSON output ---- */

/* Writes an item: as in --slow or --delay, or, named: its name in a sentence, such as "rank 5 (x1.1)". */
static void write_slow(const struct bb_slow_item *item, bool named, char text[64])
{
    const int numbers[] = {item->number, item->other};
    int used = 0, next = 0;
    char time[BB_ROUNDED_TEXT];

    for (int i = 0; i < FORMS; i++)
        for (const char *c = forms[i].kind != item->kind ? "" : named ? forms[i].name : forms[i].location; *c; c++)
            used += *c == '#' ? snprintf(text + used, 64 - (size_t)used, "%d", numbers[next++])
                              : snprintf(text + used, 64 - (size_t)used, "%c", *c);
    if (item->kind == BB_SLOW_DELAY && named)
        snprintf(text + used, 64 - (size_t)used, " (%s late)", bb_format_rounded_time(item->factor, time));
    else if (item->kind == BB_SLOW_DELAY)
        snprintf(text + used, 64 - (size_t)used, "%.9gus", item->factor);
    else
        snprintf(text + used, 64 - (size_t)used, named ? " (x%g)" : "%g", item->factor);
}

void bb_slow_names(const struct bb_slow *slow, char text[BB_SLOW_NAMES_TEXT])
{
    const int shown = slow->n > MAX_NAMES ? MAX_NAMES - 1 : slow->n;
    char name[64];
    int used = 0;

    for (int i = 0; i < shown; i++) {
        write_slow(&slow->items[i], true, name);
        used += sprintf(text + used, "%s%s", i == 0 ? "" : i == slow->n - 1 ? " and " : ", ", name);
    }
    if (shown < slow->n)
        sprintf(text + used, " and %d more", slow->n - shown);
}

bool bb_slow_has_fast_rank(const struct bb_slow *slow)
{
    for (int i = 0; i < slow->n; i++)
        if (slow->items[i].kind == BB_SLOW_RANK && slow->items[i].factor < 1)
            return true;
    return false;
}

void bb_slow_print(const struct bb_slow *slow, const char *prefix, FILE *out)
{
    char text[64];

    for (int i = 0; i < slow->n; i++) {
        write_slow(&slow->items[i], false, text);
        fprintf(out, "%s%s: %s\n", prefix, slow->items[i].kind == BB_SLOW_DELAY ? "delay" : "slow", text);
    }
}

json_t *bb_slow_json(const struct bb_slow *slow)
{
    json_t *list = json_array();
    char text[64];

    for (int i = 0; i < slow->n; i++) {
        write_slow(&slow->items[i], false, text);
        json_array_append_new(list, json_string(text));
    }
    return list;
}
