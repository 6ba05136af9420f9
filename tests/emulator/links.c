/*
 * links.c - rates of copies between a GPU and memory of the host (pcie_gbps of the profile) or of another GPU (peer_gbps,
 * for kernels at most intra.gbps).
 * $EMU_SLOW_LINKS is a list of slow links, separated by ',': pcieR:PART is the link of rank R to the host, nvlinkR:PART that to
 * other GPUs, and nvlinkR-S:PART that of one pair.
 */
#include "internal.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 32 };
static struct slow_link {
    bool pcie;
    int rank, other; /* other: -1: all */
    double part;
} slow_links[MOST];
static int n_slow;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static bool parse_link(const char *word, struct slow_link *link)
{
    int end = 0;

    *link = (struct slow_link){.pcie = true, .other = -1};
    if (sscanf(word, "pcie%d:%lf%n", &link->rank, &link->part, &end) < 2) {
        link->pcie = false;
        if (sscanf(word, "nvlink%d-%d:%lf%n", &link->rank, &link->other, &link->part, &end) < 3) {
            link->other = -1;
            if (sscanf(word, "nvlink%d:%lf%n", &link->rank, &link->part, &end) < 2)
                return false;
        }
    }
    return !word[end] && link->rank >= 0 && link->part > 0 && link->part <= 1;
}

static void load_links(void)
{
    const char *value = getenv("EMU_SLOW_LINKS");
    char *copy = strdup(value ? value : ""), *rest = copy, *word;

    while ((word = strsep(&rest, ",")))
        if (*word && (n_slow == MOST || !parse_link(word, &slow_links[n_slow++])))
            emu_die("EMU_SLOW_LINKS: '%s' is not valid, expected pcieR:PART, nvlinkR:PART or nvlinkR-S:PART", word);
    free(copy);
    for (int i = 0; i < n_slow; i++)
        if (slow_links[i].pcie && emu.machine.pcie_gbps <= 0)
            emu_die("EMU_SLOW_LINKS: pcie%d has no effect, the emulated cluster has no 'pcie_gbps'; try: "
                    "EMU_CLUSTER=h200-sxm-ib",
                    slow_links[i].rank);
}

static double slowed(double gbps, bool pcie, int rank, int other)
{
    double part = 1;

    pthread_once(&once, load_links);
    for (int i = 0; i < n_slow; i++) {
        const struct slow_link *l = &slow_links[i];
        const bool has = l->rank == rank || (!pcie && l->rank == other);

        if (l->pcie == pcie && has && (l->other < 0 || l->other == rank || l->other == other))
            part = fmin(part, l->part);
    }
    return gbps * part;
}

double emu_link_gbps(const void *pointer, bool by_kernel)
{
    const int rank = emu_world_size() > 1 ? emu_world_rank() : emu_current_device(), peer = emu_peer_of(pointer);
    const enum emu_space space = emu_space_of(pointer, NULL);

    if (peer >= 0)
        return slowed(bb_cluster_peer_gbps(&emu.machine, by_kernel), false, rank, peer);
    return space == EMU_DEVICE || space == EMU_MANAGED ? 0 : slowed(emu.machine.pcie_gbps, true, rank, -1);
}
