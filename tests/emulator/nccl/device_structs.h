/* device_structs.h - the structs of NCCL's device API, which only C++ can read: the stand-in passes their contents as
 * plain numbers. Every function returns false or NULL if the NCCL header of the build has no device API. */
#ifndef EMU_NCCL_DEVICE_STRUCTS_H
#define EMU_NCCL_DEVICE_STRUCTS_H

#include "device_gin.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Memory of the ranks of a node (the LSA team) in the address space of one of them: rank r's begins at flat + r * stride_4g
 * * 4 GiB. gin: the memory of all ranks of the communicator. */
struct en_lsa {
    char *flat;
    uint32_t stride_4g;
    uint32_t multicast_4k; /* offset from the begin of the multicast memory, in units of 4 KiB */
    int rank, ranks;       /* in the node */
    int world_rank, world_ranks;
    struct en_gin_memory gin;
};

/* Requirements of a device communicator. unsupported: the first one that the stand-in does not support, or NULL. */
struct en_requirements {
    int barriers; /* within a node */
    bool gin;     /* and with it, as in en_gin_setup: */
    int signals, world_barriers, hybrid_barriers;
    bool multimem;
    const char *unsupported;
};

bool en_has_device_structs(void);
void *en_new_window(const struct en_lsa *lsa, void *owner); /* a ncclWindow_t; free() releases it; borrows lsa->gin */
void *en_window_owner(void *window);
bool en_read_requirements(const void *requirements, struct en_requirements *out);
/* Size of the resource buffer: memory for the kernels of the emulator, and the barriers. */
size_t en_barrier_bytes(int barriers, int ranks);
enum { EN_KERNEL_BYTES = 128 };
void en_write_device_comm(void *out, const struct en_lsa *lsa, void *window, int barriers, void *multicast,
                          uint32_t *abort_flag);
void *en_device_comm_window(const void *device_comm); /* the `window` of en_write_device_comm */

#ifdef __cplusplus
}
#endif
#endif
