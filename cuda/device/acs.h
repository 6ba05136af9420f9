/*
 * acs.h - reads from sysfs whether PCIe switches redirect peer-to-peer transfers of a GPU (Access Control Services, PCI Express
 * Base Specification, "ACS Extended Capability"). A redirected transfer between a GPU and a NIC, or between two GPUs, takes the
 * way through the root complex.
 */
#ifndef BB_CUDA_DEVICE_ACS_H
#define BB_CUDA_DEVICE_ACS_H

enum { BB_PCI_ADDRESS = 16 };

/*
 * bb_acs_redirects - look for a port of a PCIe switch that redirects peer-to-peer transfers, on the paths from the root port to
 * the GPU and to the RDMA devices under the same root port.
 *   root     folder of /sys: "", or that of a copy
 *   pci      address of the GPU: "0000:1b:00.0"
 *   port     out: address of the first such port; "": none
 *   Returns  1 if there is one, 0 if not, -1: unknown. Linux shows the capability only to root
 */
int bb_acs_redirects(const char *root, const char *pci, char port[BB_PCI_ADDRESS]);

#endif
