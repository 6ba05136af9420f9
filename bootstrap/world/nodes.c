/* nodes.c - determines which ranks are on the same machine. */
#include "bootstrap/world/nodes.h"

#include "bootstrap/base/alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void read_boot_id(char text[40])
{
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");

    if (file && !fgets(text, 40, file))
        text[0] = '\0';
    text[strcspn(text, "\n")] = '\0';
    if (file)
        fclose(file);
}

void bb_machine_clean_host(char *host)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";

    while (host[strspn(host, allowed)])
        host[strspn(host, allowed)] = '_';
}

void bb_machine_find(struct bb_machine *machine)
{
    memset(machine, 0, sizeof(*machine));
    if (gethostname(machine->host, sizeof(machine->host)))
        snprintf(machine->host, sizeof(machine->host), "unknown");
    machine->host[sizeof(machine->host) - 1] = '\0';
    bb_machine_clean_host(machine->host);
    read_boot_id(machine->boot_id);
}

int bb_nodes_number(const struct bb_machine *machines, int n, int *node_of)
{
    int nodes = 0;

    for (int r = 0; r < n; r++) {
        int first = 0;

        while (strcmp(machines[first].host, machines[r].host) != 0 ||
               strcmp(machines[first].boot_id, machines[r].boot_id) != 0)
            first++;
        node_of[r] = first == r ? nodes++ : node_of[first];
    }
    return nodes;
}

static bool are_known_and_distinct(const char (*names)[BB_HOST_TEXT], int n)
{
    for (int i = 0; i < n; i++)
        for (int k = 0; k <= i; k++)
            if (!*names[i] || (k < i && strcmp(names[i], names[k]) == 0))
                return false;
    return true;
}

void bb_nodes_name_for_slurm(const char (*given)[BB_HOST_TEXT], char (*names)[BB_HOST_TEXT], int n)
{
    const size_t bytes = (size_t)n * sizeof *names;
    char(*shorter)[BB_HOST_TEXT];

    BB_NEW(shorter, n);
    memcpy(shorter, names, bytes);
    for (int i = 0; i < n; i++)
        if (shorter[i][strspn(shorter[i], "0123456789.")]) /* no IPv4 address */
            shorter[i][strcspn(shorter[i], ".")] = '\0';
    if (are_known_and_distinct(given, n))
        memcpy(names, given, bytes);
    else if (are_known_and_distinct((const char(*)[BB_HOST_TEXT])shorter, n))
        memcpy(names, shorter, bytes);
    free(shorter);
}
