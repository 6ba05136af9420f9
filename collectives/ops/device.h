/*
 * device.h - collectives as busbar's own kernels on NCCL's device API (nccl_device.h): bench --device. The buffers are in
 * one symmetric window, and CTAs of all ranks meet at NCCL's barriers in device memory. The kernels work on any NCCL
 * library that accepts the structs of the header that busbar is built with (2.28.9 or newer); 2.19 lacks the functions,
 * which are therefore looked up at run time.
 */
#ifndef BB_COLLECTIVES_OPS_DEVICE_H
#define BB_COLLECTIVES_OPS_DEVICE_H

#include "bootstrap/base/err.h"
#include "bootstrap/world/nccl_newer.h"
#include "collectives/ops/coll.h"
#include "collectives/ops/device_support.h"

#include <cuda_runtime_api.h>
#include <nccl.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Kernels of one communicator. A zero-initialized struct is empty. */
struct bb_device {
    enum bb_device_path path;
    int ctas;
    bool element_wise; /* access elements one by one instead of 16 bytes at a time, as nccl-tests' -D 1 */
    void *window;      /* ncclWindow_t of the arena that contains all buffers */
    const char *base;  /* begin of the arena */
    size_t scratch;    /* offset of bb_device_scratch_bytes() in the window */
    void *comm;        /* ncclDevComm; owned */
    char why[160];     /* why the kernels cannot run; empty: they can */
};

struct bb_comm;
struct bb_call;

/*
 * bb_device_open - create the device communicator and load the kernels. Collective over the communicator.
 *   d        with path, ctas, element_wise, window and base set by the caller
 *   Returns  0, also if the header that busbar is built with, the NCCL library or the GPUs do not support it: d->why is
 *            then the reason, on all ranks
 * bb_device_close - destroy the device communicator. Call before the window is deregistered. Accepts an empty struct.
 */
int bb_device_open(struct bb_device *d, struct bb_comm *comm) BB_MUST_CHECK;
void bb_device_close(struct bb_device *d, struct bb_comm *comm);

/* bb_device_launch - enqueue a collective on the call's stream as one kernel. The call's kind, data type and operation
 * must be supported (bb_device_check). */
int bb_device_launch(const struct bb_device *d, const struct bb_call *call) BB_MUST_CHECK;

/*
 * bb_device_properties - write what NCCL (2.29 or newer) reports about the device API, such as "LSA team of all ranks,
 * multimem, GIN proxy".
 *   Returns  text, or NULL: this NCCL reports nothing
 */
enum { BB_DEVICE_TEXT = 80 };
const char *bb_device_properties(const struct bb_comm *comm, char text[BB_DEVICE_TEXT]);

/* ---- device_kernels.cu: the part in CUDA C++ ---- */

/*
 * bb_device_comm_new - allocate a device communicator and create it with NCCL's `create`, with a barrier per CTA.
 *   path       what the kernels use
 *   out        device communicator, which free() releases; NULL: the header does not support the path
 *   lsa_ranks  out: number of ranks whose memory this rank can access
 */
ncclResult_t bb_device_comm_new(ncclDevCommCreate_fn *create, ncclComm_t comm, int ctas, enum bb_device_path path,
                                void **out, int *lsa_ranks);

int bb_device_kernels_load(void) BB_MUST_CHECK;
int bb_device_kernel_launch(const struct bb_device *d, enum bb_coll_kind kind, size_t send, size_t recv, size_t count,
                            int dtype, cudaStream_t stream) BB_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
