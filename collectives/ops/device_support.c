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

/* Each CTA has a slot for each node, whose number of bytes is rounded up to 16, and one more for the alignment. */
size_t bb_device_scratch_bytes(enum bb_device_path path, int ctas, int ranks, size_t bytes)
{
    const bool over_gin = path == BB_DEVICE_GIN || path == BB_DEVICE_HYBRID;

    return over_gin ? bytes + 16 * ((size_t)ctas * (size_t)ranks + 1) : 0;
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
    if (kind == BB_ALL_REDUCE && redop != BB_SUM)
        return bb_err(BB_EUSAGE, "--device %s: the kernels only add; omit -o %s", path, bb_redops[redop].name);
    if (multimem && !adds_multimem(dtype))
        return bb_err(BB_EUSAGE, "--device multimem: multicast memory does not add %s; try: --device lsa",
                      bb_dtypes[dtype].name);
    return 0;
}
