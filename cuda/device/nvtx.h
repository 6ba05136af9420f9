/*
 * nvtx.h - what a profiler shows of busbar: domain "busbar", nested ranges, names of streams, events and threads.
 *
 * A range is described once (its text is registered with the tool, so that opening it later costs no formatting) and
 * may be opened any number of times. Its category is the group or class that it belongs to, its payload the bytes that
 * it moves. Ranges are per host thread and close in reverse order. Without a tool (no NVTX injection library) every
 * call here is one test of a pointer.
 *
 * Nobody else in busbar calls NVTX.
 */
#ifndef BB_CUDA_DEVICE_NVTX_H
#define BB_CUDA_DEVICE_NVTX_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

/* The domain: one per process is enough; all zero is valid and silent. */
struct bb_nvtx {
    struct nvtxDomainRegistration_st *domain;
};

/* A described range. All zero is valid: opening it does nothing that a tool would show a name for. */
struct bb_range {
    struct nvtxStringRegistration_st *name; /* owned by the domain                     */
    uint32_t category;                      /* 0: none                                 */
    uint64_t bytes;                         /* payload; 0: none                        */
};

void bb_nvtx_init(struct bb_nvtx *n);
void bb_nvtx_release(struct bb_nvtx *n);

/* Is anyone looking? False makes all the other calls return at once. */
static inline bool bb_nvtx_enabled(const struct bb_nvtx *n)
{
    return n->domain;
}

/* bb_nvtx_category - names category id (1 and above) of the domain, e.g. the group "dp". */
void bb_nvtx_category(const struct bb_nvtx *n, uint32_t id, const char *name);

/* bb_range_init - describes a range: the text as a person would say it, e.g. "all_reduce dp 75.1 MiB". */
void bb_range_init(const struct bb_nvtx *n, struct bb_range *r, uint32_t category, uint64_t bytes, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

void bb_range_push(const struct bb_nvtx *n, const struct bb_range *r);
void bb_range_pop(const struct bb_nvtx *n);

/* Names that a tool shows beside its rows. */
void bb_nvtx_name_stream(const struct bb_nvtx *n, cudaStream_t stream, const char *name);
void bb_nvtx_name_event(const struct bb_nvtx *n, cudaEvent_t event, const char *name);
void bb_nvtx_name_thread(const struct bb_nvtx *n, const char *name); /* the calling thread */

#endif
