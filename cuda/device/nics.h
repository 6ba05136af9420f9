/*
 * nics.h - reads the RDMA ports of this host from sysfs.
 */
#ifndef BB_CUDA_DEVICE_NICS_H
#define BB_CUDA_DEVICE_NICS_H

#include <stddef.h>

struct bb_nics {
    int n;         /* number of active ports with the highest rate; 0: unknown */
    double gbit_s; /* the rate of each, in Gb/s */
};

/* bb_nics_read - count the active ports in `folder`, a copy of /sys/class/infiniband (NULL: that folder). Ports with a lower
 * rate than the fastest active port are not counted: they are for storage or management. */
struct bb_nics bb_nics_read(const char *folder);

/* bb_nics_text - describe the active ports in `folder`, with those of a lower rate: "7 of 400 Gb/s, 1 of 200 Gb/s". */
void bb_nics_text(const char *folder, char *text, size_t size);

/* bb_nics_counter - sum a counter, a file in the folder `counters` of each port, over the ports in `folder`; -1: unknown. */
long long bb_nics_counter(const char *folder, const char *name);

/* bb_nics_near - write the names of the NICs whose PCI path has the most in common with that of a GPU, "mlx5_4, mlx5_5": those with
 * the fastest active ports. "": unknown.
 *   root  folder of /sys: "", or a copy
 *   pci   PCI address of the GPU */
enum { BB_NICS_TEXT = 56 };
void bb_nics_near(const char *root, const char *pci, char text[BB_NICS_TEXT]);

#endif
