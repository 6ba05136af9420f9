/* base_profile.c - see base_profile.h. */
#include "proxies/calibrate/base_profile.h"

#include <stddef.h>
#include <string.h>

/* What a GPU calls itself has both words in it; the first row that fits counts. */
static const struct {
    const char *word, *second, *profile;
} shipped[] = {
    {"Emulated GPU", "", "emulated-default"},
    {"GB200", "", "gb200-nvl72"},
    {"B200", "", "b200-sxm-ib"},
    {"H200", "", "h200-sxm-ib"},
    {"H800", "", "h800-sxm-ib"},
    {"H100", "HBM3", "h100-sxm-ib"},
    {"A100-SXM", "40GB", "a100-40gb-sxm-ib"},
    {"A100-SXM", "", "a100-sxm-ib"},
    {"A100", "PCI", "a100-pcie-ib"},
    {"L40S", "", "l40s-pcie-ib"},
};

int bb_base_profile(const char *from, const char *device, const char **name)
{
    *name = from;
    for (size_t i = 0; i < sizeof(shipped) / sizeof(shipped[0]) && !*name; i++)
        if (strstr(device, shipped[i].word) && strstr(device, shipped[i].second))
            *name = shipped[i].profile;
    if (*name)
        return 0;
    return bb_err(BB_EUSAGE,
                  "no shipped profile has GPUs '%s' to take the figures from that nobody measured; say which is like "
                  "it: --from CLUSTER (busbar list clusters)",
                  device);
}
