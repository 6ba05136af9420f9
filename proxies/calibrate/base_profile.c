/* base_profile.c - see base_profile.h. */
#include "proxies/calibrate/base_profile.h"

#include <stddef.h>
#include <string.h>

/* Shipped profiles. A profile matches if the device name of the GPUs contains the texts `word` and `second` (an
 * empty text always matches). The first matching profile of the table is used. */
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
                  "no shipped profile is for GPUs '%s', so the parameters that were not measured are unknown; try: "
                  "--from NAME with a similar cluster (see busbar list clusters)",
                  device);
}
