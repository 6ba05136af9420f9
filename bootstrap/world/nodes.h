/*
 * nodes.h - find out which ranks are on one machine. The host name alone is ambiguous: clones and containers on
 * different machines may share it. Like NCCL, busbar also compares the kernel's boot id.
 */
#ifndef BB_BOOTSTRAP_WORLD_NODES_H
#define BB_BOOTSTRAP_WORLD_NODES_H

#include "bootstrap/world/world.h"

/* Plain data, exchanged between ranks as bytes. */
struct bb_machine {
    char host[BB_HOST_TEXT];
    char boot_id[40]; /* of the running kernel; "" if unknown */
};

/* bb_machine_find - identify the machine of this process. host is "unknown" if there is no host name. */
void bb_machine_find(struct bb_machine *machine);

/* bb_nodes_number - number the machines in the order of their first ranks. node_of[r]: out, node of rank r. Returns
 * the number of nodes. */
int bb_nodes_number(const struct bb_machine *machines, int n, int *node_of);

#endif
