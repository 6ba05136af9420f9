/* slow.c - see slow.h. */
#include "proxies/machine/slow.h"

#include <stdio.h>
#include <string.h>

#define SLOWEST 1e6

static int refuse(const char *word, const char *expected)
{
    return bb_err(BB_EUSAGE, "--slow: '%s': expected %s", word, expected);
}

static int parse_rank(const char *word, struct bb_slow *slow)
{
    struct bb_slow_rank *r = &slow->ranks[slow->n_ranks++];
    int end = 0;

    if (sscanf(word, "rank=%d:%lf%n", &r->rank, &r->times, &end) < 2 || word[end] || r->rank < 0)
        return refuse(word, "rank=5:1.1, a rank and how many times as long its kernels last");
    return r->times > 1 / SLOWEST && r->times < SLOWEST ? 0 : refuse(word, "a factor from 1e-6 to 1e6");
}

static int parse_link(const char *word, struct bb_slow *slow)
{
    struct bb_slow_link *l = &slow->links[slow->n_links++];
    int end = 0;

    if (sscanf(word, "link=node%d-nic%d:%lf%n", &l->node, &l->nic, &l->part, &end) < 3 || word[end] || l->node < 0 ||
        l->nic < 0)
        return refuse(word, "link=node3-nic2:0.5, a NIC and the part of its rate that it has");
    return l->part > 1 / SLOWEST && l->part <= 1 ? 0 : refuse(word, "a part from 1e-6 to 1");
}

static int parse_word(const char *word, struct bb_slow *slow)
{
    if (slow->n_ranks == BB_SLOW_MOST || slow->n_links == BB_SLOW_MOST)
        return refuse(word, "at most 64 ranks and 64 links");
    if (strncmp(word, "rank=", 5) == 0)
        return parse_rank(word, slow);
    if (strncmp(word, "link=", 5) == 0)
        return parse_link(word, slow);
    return refuse(word, "rank=5:1.1 or link=node3-nic2:0.5");
}

int bb_slow_parse(const char *text, struct bb_slow *slow)
{
    char word[64];
    size_t length;
    int rc = 0;

    *slow = (struct bb_slow){.n_ranks = 0};
    for (const char *at = text; at && *at && !rc; at += length + (at[length] == ',')) {
        length = strcspn(at, ",");
        if (length >= sizeof(word))
            return refuse(at, "rank=5:1.1 or link=node3-nic2:0.5");
        snprintf(word, sizeof(word), "%.*s", (int)length, at);
        rc = parse_word(word, slow);
    }
    return rc;
}

/* Without "nccl" each GPU has a NIC of its own. */
static int nics_per_node(const struct bb_cluster *c)
{
    return c->nics_per_node > 0 ? c->nics_per_node : c->gpus_per_node;
}

int bb_slow_refuse_beyond(const struct bb_slow *slow, const struct bb_cluster *c, int ranks)
{
    const int nodes = (ranks + c->gpus_per_node - 1) / c->gpus_per_node, nics = nics_per_node(c);

    for (int i = 0; i < slow->n_ranks; i++)
        if (slow->ranks[i].rank >= ranks)
            return bb_err(BB_EUSAGE, "--slow: there is no rank %d, the last of %d is %d", slow->ranks[i].rank, ranks,
                          ranks - 1);
    for (int i = 0; i < slow->n_links; i++) {
        const struct bb_slow_link *l = &slow->links[i];

        if (l->node >= nodes || l->nic >= nics)
            return bb_err(BB_EUSAGE, "--slow: there is no node%d-nic%d, the last of %d nodes is node%d-nic%d", l->node,
                          l->nic, nodes, nodes - 1, nics - 1);
    }
    return 0;
}

double bb_slow_times(const struct bb_slow *slow, int rank)
{
    double times = 1;

    for (int i = 0; i < slow->n_ranks; i++)
        if (slow->ranks[i].rank == rank)
            times *= slow->ranks[i].times;
    return times;
}

double bb_slow_part(const struct bb_slow *slow, int node, int nic)
{
    double part = 1;

    for (int i = 0; i < slow->n_links; i++)
        if (slow->links[i].node == node && slow->links[i].nic == nic)
            part *= slow->links[i].part;
    return part;
}

int bb_slow_nic_of(const struct bb_cluster *c, int rank)
{
    const int gpu = rank % c->gpus_per_node, nics = nics_per_node(c);

    return rank / c->gpus_per_node * nics + (int)((long long)gpu * nics / c->gpus_per_node);
}

double bb_slow_nics_gbps(const struct bb_slow *slow, const struct bb_cluster *c, int rank)
{
    const int nics = nics_per_node(c), node = rank / c->gpus_per_node, first = bb_slow_nic_of(c, rank) - node * nics;
    const int last = (int)((long long)(rank % c->gpus_per_node + 1) * nics / c->gpus_per_node);
    double gbps = c->inter.gbps * bb_slow_part(slow, node, first);

    for (int nic = first + 1; nic < last; nic++)
        gbps += c->inter.gbps * bb_slow_part(slow, node, nic);
    return gbps;
}
