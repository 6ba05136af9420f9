/*
 * nodes.h - which ranks are on one machine. A name alone does not tell: clones and containers of different machines may
 * have the same one. NCCL asks the kernel's boot id as well, and so does this.
 */
#ifndef BB_BOOTSTRAP_WORLD_NODES_H
#define BB_BOOTSTRAP_WORLD_NODES_H

#include "bootstrap/world/world.h"

/* Plain data, so that ranks exchange it byte by byte. */
struct bb_machine {
    char host[BB_HOST_TEXT];
    char boot_id[40]; /* of the running kernel, "" where it does not tell */
};

/* bb_machine_find - the machine of this process; host "unknown" where it has no name. */
void bb_machine_find(struct bb_machine *machine);

/* bb_nodes_number - node_of[r] = the node of rank r, in the order of their first ranks; returns the number of nodes. */
int bb_nodes_number(const struct bb_machine *machines, int n, int *node_of);

#endif
