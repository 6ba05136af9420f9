/* nics.c - see nics.h. */
#include "cuda/device/nics.h"

#include "bootstrap/base/alloc.h"

#include <glob.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Reads the first line of a file of a port: "4: ACTIVE", or "400 Gb/sec (4X NDR)". Returns "" if there is none. */
static const char *read_line(const char *port, const char *name, char line[64])
{
    char *path = bb_format("%s/%s", port, name);
    FILE *file = fopen(path, "re");

    if (!file || !fgets(line, 64, file))
        line[0] = '\0';
    if (file)
        fclose(file);
    free(path);
    return line;
}

/* Counts the active ports with the highest rate below a limit. pattern: of the folders of ports; freed */
static struct bb_nics read_ports(char *pattern, double below)
{
    struct bb_nics nics = {0};
    char line[64];
    glob_t ports = {0};

    if (glob(pattern, 0, NULL, &ports) == 0)
        for (size_t i = 0; i < ports.gl_pathc; i++) {
            const bool active = strstr(read_line(ports.gl_pathv[i], "state", line), "ACTIVE");
            const double gbit_s = active ? strtod(read_line(ports.gl_pathv[i], "rate", line), NULL) : 0;

            if (gbit_s > nics.gbit_s && gbit_s < below)
                nics = (struct bb_nics){.gbit_s = gbit_s};
            nics.n += active && gbit_s == nics.gbit_s;
        }
    globfree(&ports);
    free(pattern);
    return nics;
}

static struct bb_nics read_folder(const char *folder, double below)
{
    return read_ports(bb_format("%s/*/ports/*", folder ? folder : "/sys/class/infiniband"), below);
}

struct bb_nics bb_nics_read(const char *folder)
{
    return read_folder(folder, INFINITY);
}

void bb_nics_text(const char *folder, char *text, size_t size)
{
    struct bb_nics nics = bb_nics_read(folder);
    size_t used = (size_t)snprintf(text, size, "%d of %g Gb/s", nics.n, nics.gbit_s);

    for (nics = read_folder(folder, nics.gbit_s); nics.gbit_s > 0 && used < size;
         nics = read_folder(folder, nics.gbit_s))
        used += (size_t)snprintf(text + used, size - used, ", %d of %g Gb/s", nics.n, nics.gbit_s);
}

long long bb_nics_counter(const char *folder, const char *name)
{
    char *pattern = bb_format("%s/*/ports/*/counters", folder), line[64];
    long long sum = -1;
    glob_t ports = {0};

    if (glob(pattern, 0, NULL, &ports) == 0)
        for (size_t i = 0; i < ports.gl_pathc; i++)
            if (*read_line(ports.gl_pathv[i], name, line))
                sum = (sum < 0 ? 0 : sum) + strtoll(line, NULL, 10);
    globfree(&ports);
    free(pattern);
    return sum;
}

/* Returns the number of folders that two paths have in common. */
static int count_common(const char *a, const char *b)
{
    int n = 0;

    for (; *a == *b; a++, b++) {
        n += *a == '/';
        if (!*a)
            break;
    }
    return n;
}

/* Returns whether a device has an active port with this rate. */
static bool has_port(const char *device, double gbit_s)
{
    const struct bb_nics ports = read_ports(bb_format("%s/ports/*", device), INFINITY);

    return ports.n > 0 && ports.gbit_s == gbit_s;
}

void bb_nics_near(const char *root, const char *pci, char text[BB_NICS_TEXT])
{
    char *all = bb_format("%s/sys/class/infiniband", root), *pattern = bb_format("%s/*", all);
    char *link = bb_format("%s/sys/bus/pci/devices/%s", root, pci), *gpu = realpath(link, NULL);
    const double gbit_s = bb_nics_read(all).gbit_s;
    glob_t nics = {0};
    int most = 0;

    text[0] = '\0';
    if (gpu && glob(pattern, 0, NULL, &nics) == 0)
        for (size_t i = 0; i < nics.gl_pathc; i++) {
            char *device = bb_format("%s/device", nics.gl_pathv[i]), *path = realpath(device, NULL);
            const int common = path && has_port(nics.gl_pathv[i], gbit_s) ? count_common(gpu, path) : 0;
            const char *name = strrchr(nics.gl_pathv[i], '/') + 1;
            const size_t used = common > most ? 0 : strlen(text);

            if (common > 0 && common >= most && used + strlen(name) + strlen(", ") < BB_NICS_TEXT)
                snprintf(text + used, BB_NICS_TEXT - used, "%s%s", used ? ", " : "", name);
            most = common > most ? common : most;
            free(device);
            free(path);
        }
    globfree(&nics);
    free(gpu);
    free(link);
    free(pattern);
    free(all);
}
