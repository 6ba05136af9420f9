/* device_support.c - see device_support.h. */
#include "collectives/ops/device_support.h"

#include "bootstrap/base/err.h"
#include "collectives/ops/coll.h"

#include <string.h>

const char *const bb_device_paths[] = {"lsa", "multimem", "gin", "hybrid", NULL};

enum bb_device_path bb_device_path_of(const char *name)
{
    for (int i = 0; name && bb_device_paths[i]; i++)
        if (strcmp(name, bb_device_paths[i]) == 0)
            return (enum bb_device_path)(i + 1);
    return BB_DEVICE_NONE;
}

/* PTX multimem adds no 8-bit types before compute capability 10.0. */
static bool adds_multimem(int dtype)
{
    return bb_dtypes[dtype].bytes > 1;
}

int bb_device_check(const char *path, int kind, int dtype, int redop)
{
    const enum bb_device_path way = bb_device_path_of(path);
    const bool multimem = way == BB_DEVICE_MULTIMEM;

    if (kind != BB_ALL_REDUCE && kind != BB_ALLTOALL)
        return bb_err(BB_EUSAGE, "--device %s: no kernel for %s, expected all_reduce or alltoall", path,
                      bb_colls[kind].name);
    if (multimem && kind != BB_ALL_REDUCE)
        return bb_err(BB_EUSAGE, "--device multimem: no kernel for %s; try: --device lsa", bb_colls[kind].name);
    if (kind != BB_ALLTOALL && (way == BB_DEVICE_GIN || way == BB_DEVICE_HYBRID))
        return bb_err(BB_EUSAGE, "--device %s: no kernel for %s, expected alltoall", path, bb_colls[kind].name);
    if (kind == BB_ALL_REDUCE && redop != BB_SUM)
        return bb_err(BB_EUSAGE, "--device %s: the kernels only add; omit -o %s", path, bb_redops[redop].name);
    if (multimem && !adds_multimem(dtype))
        return bb_err(BB_EUSAGE, "--device multimem: multicast memory does not add %s; try: --device lsa",
                      bb_dtypes[dtype].name);
    return 0;
}
