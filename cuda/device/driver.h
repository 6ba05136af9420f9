/*
 * driver.h - functions of the CUDA driver API without a runtime equivalent. The driver is not linked; functions are
 * looked up at run time. If an old driver lacks a function, the documented default is returned.
 */
#ifndef BB_CUDA_DEVICE_DRIVER_H
#define BB_CUDA_DEVICE_DRIVER_H

#include <stdbool.h>
#include <stddef.h>

/*
 * bb_driver_uuid - UUID of device `ordinal`. For a MIG instance, the UUID of the instance; the runtime's properties may
 * contain the UUID of its GPU. Returns false, with uuid unchanged, if the driver lacks the function.
 */
bool bb_driver_uuid(int ordinal, unsigned char uuid[16]);

/* bb_driver_granularity - allocation granularity of cuMemCreate in bytes, for memory as NCCL requests it. Queried
 * for GPU 0, since the GPUs of a machine do not differ. Default: 2 MiB. */
size_t bb_driver_granularity(void);

/* bb_driver_is_mapped - whether `memory` was allocated by cuMemCreate, so that NCCL can register it, instead of
 * cudaMalloc. */
bool bb_driver_is_mapped(void *memory);

#endif
