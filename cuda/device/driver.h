/*
 * driver.h - functions of the CUDA driver API without a runtime equivalent. The driver library is not linked; its
 * functions are looked up at run time. If an old driver lacks a function, the wrapper returns the default stated below.
 */
#ifndef BB_CUDA_DEVICE_DRIVER_H
#define BB_CUDA_DEVICE_DRIVER_H

#include <stdbool.h>
#include <stddef.h>

/*
 * bb_driver_uuid - get the UUID of device `ordinal`. For a MIG instance this is the UUID of the instance, whereas the
 * runtime's properties may contain the UUID of the whole GPU. Returns false, with uuid unchanged, if the driver lacks
 * the function.
 */
bool bb_driver_uuid(int ordinal, unsigned char uuid[16]);

/* bb_driver_granularity - get the allocation granularity of cuMemCreate in bytes, for memory with the properties
 * that NCCL requests. Queries only GPU 0 and assumes that all GPUs of the machine are equal. Default: 2 MiB. */
size_t bb_driver_granularity(void);

/* bb_driver_multicast_granularity - get the granularity of multicast objects on GPU 0, to which NCCL before 2.26 rounds
 * ncclMemAlloc on GPUs with multicast (NVSwitch). 0: no multicast. */
size_t bb_driver_multicast_granularity(void);

/* bb_driver_is_mapped - returns whether `memory` was allocated with cuMemCreate rather than with cudaMalloc.
 * ncclMemAlloc uses cuMemCreate for memory that NCCL can register. Default: false. */
bool bb_driver_is_mapped(void *memory);

/* bb_driver_version - write the version of NVIDIA's driver, "580.65.06", from /proc of the folder `root`; "": unknown. */
#define BB_DRIVER_TEXT 32
void bb_driver_version(const char *root, char text[BB_DRIVER_TEXT]);

#endif
