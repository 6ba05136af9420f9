/* device_gin.h - the proxy of NCCL's GIN (GPU-initiated networking): a thread of each rank reads the requests that kernels
 * put into queues, copies the data to the other ranks and adds to their signals. For NCCL headers 2.30.7 to 2.32. */
#ifndef EMU_NCCL_DEVICE_GIN_H
#define EMU_NCCL_DEVICE_GIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Memory of all ranks of a communicator: rank r's begins at base + r * stride. */
struct en_gin_memory {
    char *base;
    size_t stride, bytes;
};

/* signals: requested by the program. world_barriers, hybrid_barriers: number of barriers over all ranks, and of those
 * that meet within a node first. late_ns: an adverse network, which delays requests by this time, or twice as long to ranks with an
 * odd number, and completes the last ones first, except those that a strong signal requires; 0: a network in order. */
struct en_gin_setup {
    int rank, ranks, node_ranks;
    int signals, world_barriers, hybrid_barriers;
    struct en_gin_memory memory; /* for the signals, en_gin_bytes on each rank, zeroed */
    int64_t late_ns;
};

struct en_gin;

/* en_gin_bytes - return the size of a rank's memory for signals. en_gin_new - start the proxy; NULL: out of memory, or the
 * NCCL header has no GIN. en_gin_free - end it; accepts NULL. en_gin_write - write the fields of a ncclDevComm. */
size_t en_gin_bytes(const struct en_gin_setup *setup);
struct en_gin *en_gin_new(const struct en_gin_setup *setup);
void en_gin_free(struct en_gin *gin);
void en_gin_write(const struct en_gin *gin, void *device_comm);
bool en_has_gin(void);

#ifdef __cplusplus
}
#endif
#endif
