/* base_profile.c - see base_profile.h. */
#include "proxies/calibrate/base_profile.h"

#include <stddef.h>
#include <string.h>

/* The device name of a GPU contains both texts; the first matching row is used. */
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
                  "no shipped profile has GPUs '%s' and could provide the parameters that were not measured; try: "
                  "--from CLUSTER with a similar one (busbar list clusters)",
                  device);
}
