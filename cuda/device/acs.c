/* acs.c - see acs.h. */
#include "cuda/device/acs.h"

#include "bootstrap/base/alloc.h"

#include <glob.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Offsets in the configuration space, and values, of the PCI Express Base Specification (names as in linux/pci_regs.h). */
enum { CONFIG_BYTES = 4096, EXTENDED = 0x100, ACS_ID = 0x0d, ACS_CONTROL = 6, ACS_REDIRECTS = 0x0c };

static unsigned read_bytes(const unsigned char *config, unsigned at, unsigned n)
{
    unsigned value = 0;

    for (unsigned i = 0; i < n; i++)
        value |= (unsigned)config[at + i] << 8 * i;
    return value;
}

/* Returns 1 if the port in folder `port` redirects requests or completions, 0 if not, -1: unknown. */
static int redirects(const char *port)
{
    unsigned char config[CONFIG_BYTES] = {0};
    char *path = bb_format("%s/config", port);
    FILE *file = fopen(path, "re");
    const size_t n = file ? fread(config, 1, sizeof config, file) : 0;

    free(path);
    if (file)
        fclose(file);
    if (n < CONFIG_BYTES)
        return -1;
    for (unsigned at = EXTENDED, left = (CONFIG_BYTES - EXTENDED) / 8; at >= EXTENDED && left > 0; left--) {
        const unsigned header = read_bytes(config, at, 4), next = header >> 20 & 0xffc;

        if ((header & 0xffff) == ACS_ID && at + ACS_CONTROL + 2 <= CONFIG_BYTES)
            return (read_bytes(config, at + ACS_CONTROL, 2) & ACS_REDIRECTS) != 0;
        at = next;
    }
    return 0;
}

/* Returns the end of the path of the root port of a device: "/sys/devices/pci0000:15/0000:15:01.0". NULL: there is none. */
static char *end_of_root_port(char *device)
{
    char *slash = strstr(device, "/devices/pci");

    for (int i = 0; i < 3 && slash; i++)
        slash = strchr(slash + 1, '/');
    return slash;
}

/* Looks for a port between the root port and the device that redirects, until one is found. *found: as bb_acs_redirects */
static void look_at_ports(char *device, int *found, char port[BB_PCI_ADDRESS])
{
    char *slash = end_of_root_port(device), *next;

    for (; slash && *found < 1 && (next = strchr(slash + 1, '/')); slash = next) {
        int here;

        *next = '\0';
        here = redirects(device);
        if (here > 0)
            snprintf(port, BB_PCI_ADDRESS, "%.15s", slash + 1);
        *found = here != 0 ? here : *found;
        *next = '/';
    }
}

static bool has_same_root_port(char *gpu, char *device)
{
    const char *end = end_of_root_port(gpu);

    return end && strncmp(gpu, device, (size_t)(end - gpu) + 1) == 0;
}

int bb_acs_redirects(const char *root, const char *pci, char port[BB_PCI_ADDRESS])
{
    char *link = bb_format("%s/sys/bus/pci/devices/%s", root, pci), *gpu = realpath(link, NULL);
    char *pattern = bb_format("%s/sys/class/infiniband/*/device", root);
    glob_t nics = {0};
    int found = gpu ? 0 : -1;

    port[0] = '\0';
    if (gpu)
        look_at_ports(gpu, &found, port);
    if (gpu && glob(pattern, 0, NULL, &nics) == 0)
        for (size_t i = 0; i < nics.gl_pathc; i++) {
            char *nic = realpath(nics.gl_pathv[i], NULL);

            if (nic && has_same_root_port(gpu, nic))
                look_at_ports(nic, &found, port);
            free(nic);
        }
    globfree(&nics);
    free(pattern);
    free(gpu);
    free(link);
    return found;
}
