/* nics.c - see nics.h. */
#include "cuda/device/nics.h"

#include "bootstrap/base/alloc.h"

#include <glob.h>
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

struct bb_nics bb_nics_read(const char *folder)
{
    char *pattern = bb_format("%s/*/ports/*", folder ? folder : "/sys/class/infiniband"), line[64];
    struct bb_nics nics = {0};
    glob_t ports = {0};

    if (glob(pattern, 0, NULL, &ports) == 0)
        for (size_t i = 0; i < ports.gl_pathc; i++) {
            const bool active = strstr(read_line(ports.gl_pathv[i], "state", line), "ACTIVE");
            const double gbit_s = active ? strtod(read_line(ports.gl_pathv[i], "rate", line), NULL) : 0;

            if (gbit_s > nics.gbit_s)
                nics = (struct bb_nics){.gbit_s = gbit_s};
            nics.n += active && gbit_s == nics.gbit_s;
        }
    globfree(&ports);
    free(pattern);
    return nics;
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
