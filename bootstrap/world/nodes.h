/*
 * nodes.h - determine which ranks are on the same machine. The host name is not sufficient, because cloned machines and
 * containers on different machines may have the same name. Like NCCL, busbar also compares the kernel's boot id.
 */
#ifndef BB_BOOTSTRAP_WORLD_NODES_H
#define BB_BOOTSTRAP_WORLD_NODES_H

#include "bootstrap/world/world.h"

/* Identity of a machine. The struct contains no pointers, because the ranks exchange it as bytes. */
struct bb_machine {
    char host[BB_HOST_TEXT];
    char boot_id[40]; /* boot id of the running kernel; "" if unknown */
};

/* bb_machine_find - store the host name and the boot id of this machine. The host name is "unknown" if the system
 * has none.
 * bb_machine_clean_host - replace characters that are not allowed in host names by '_': the name becomes a part of command
 * lines that the user executes (health --drain), of terminals, and of files in several formats. */
void bb_machine_find(struct bb_machine *machine);
void bb_machine_clean_host(char *host);

/* bb_nodes_number - number the machines of n ranks in the order of their lowest ranks. node_of: [n] out, node of
 * each rank. Returns the number of nodes. */
int bb_nodes_number(const struct bb_machine *machines, int n, int *node_of);

/*
 * bb_nodes_name_for_slurm - find the names by which scontrol and srun know n nodes: NodeName of slurm.conf, which may differ from
 * the host name. Names are used only if all of them are known and no two are equal, as they are if a launcher has copied the
 * environment of one node to all: first those of Slurm, then the host names without domain, or else the host names.
 *   given  [n] value of $SLURMD_NODENAME on each node; "": not set
 *   names  [n] in: host names; out. An IPv4 address remains whole.
 */
void bb_nodes_name_for_slurm(const char (*given)[BB_HOST_TEXT], char (*names)[BB_HOST_TEXT], int n);

#endif
