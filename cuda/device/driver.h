/*
 * driver.h - the few functions of the CUDA driver that the runtime has no word for. The driver is not linked: each is
 * asked for at run time, and where it is missing (an old driver) the answer is the one named here.
 */
#ifndef BB_CUDA_DEVICE_DRIVER_H
#define BB_CUDA_DEVICE_DRIVER_H

#include <stdbool.h>
#include <stddef.h>

/*
 * bb_driver_uuid - of device number `ordinal`; of a MIG instance its own, where the runtime's properties may have that
 * of the GPU it is a part of. False, and uuid untouched: the driver does not tell.
 */
bool bb_driver_uuid(int ordinal, unsigned char uuid[16]);

/* bb_driver_granularity - bytes that memory of cuMemCreate comes in, as NCCL asks for it: of the first GPU, since those
 * of a machine do not differ; 2 MiB where the driver does not tell. */
size_t bb_driver_granularity(void);

/* bb_driver_is_mapped - whether memory is of cuMemCreate, which NCCL can register, and not of cudaMalloc. */
bool bb_driver_is_mapped(void *memory);

#endif
