/* device_support.h - which collectives the kernels of bench --device support. Needs neither CUDA nor NCCL. */
#ifndef BB_COLLECTIVES_OPS_DEVICE_SUPPORT_H
#define BB_COLLECTIVES_OPS_DEVICE_SUPPORT_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Threads of a CTA, and default number of CTAs, as in nccl-tests. */
enum { BB_DEVICE_THREADS = 512, BB_DEVICE_CTAS = 16 };

/* How a kernel accesses the memory of the other ranks: by loads and stores (LSA: load/store accessible), by multicast
 * memory, where the NVLink switch adds and distributes, by the network (GIN: GPU-initiated networking), or by loads and
 * stores within the node and by GIN between nodes. */
enum bb_device_path { BB_DEVICE_NONE, BB_DEVICE_LSA, BB_DEVICE_MULTIMEM, BB_DEVICE_GIN, BB_DEVICE_HYBRID };

extern const char *const bb_device_paths[]; /* names of the paths from BB_DEVICE_LSA on; ends with NULL */

/* bb_device_path_of - return the path with this name; BB_DEVICE_NONE if `name` is NULL. */
enum bb_device_path bb_device_path_of(const char *name);

/*
 * bb_device_check - check that a kernel exists for a collective with a data type and a reduction operation.
 *   path     name of the path
 *   Returns  0, or -BB_EUSAGE after printing one error line
 */
int bb_device_check(const char *path, int kind, int dtype, int redop);

/*
 * bb_device_scratch_bytes - return the size of the memory for partial sums that the kernels need in the window.
 *   bytes  size of the largest buffer
 *   ranks  of the communicator
 */
size_t bb_device_scratch_bytes(enum bb_device_path path, int ctas, int ranks, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
