/*
 * nvtx.h - annotations for profilers: the domain "busbar", nested ranges, and names of streams, events and threads. All
 * NVTX calls of busbar are in this module.
 *
 * bb_range_init describes a range once and registers the range's text with the profiler. The range can then be opened
 * any number of times without formatting. The text of a range that occurs once, for example a row or a step, is not
 * registered, because profilers keep registered texts until the process ends. The category of a range is the
 * communicator or group of the operation; the payload is the number of bytes. Ranges belong to a host thread and close
 * in reverse order. Without a profiler (no NVTX injection library) each call only tests a pointer.
 */
#ifndef BB_CUDA_DEVICE_NVTX_H
#define BB_CUDA_DEVICE_NVTX_H

#include "bootstrap/base/err.h"

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

/* The description of a range. A zero-initialized range has no name. */
struct bb_range {
    struct nvtxStringRegistration_st *name; /* the registered text of the range; owned by the NVTX domain */
    uint32_t category;                      /* number of the NVTX category; 0: none */
    uint64_t bytes;                         /* NVTX payload: bytes of the operation; 0: none */
};

/* The parts of the measurement of a row. */
enum bb_part { BB_PART_WARM_UP, BB_PART_SAMPLES, BB_PART_CHECK, BB_PARTS };

/* The NVTX domain; one per process. With a zero-initialized domain no ranges and names are recorded. */
struct bb_nvtx {
    struct nvtxDomainRegistration_st *domain;
    struct bb_range parts[BB_PARTS]; /* ranges of the parts */
};

void bb_nvtx_init(struct bb_nvtx *n);
void bb_nvtx_release(struct bb_nvtx *n);

/* bb_nvtx_enabled - returns whether a profiler is attached. If not, all other calls return at once. */
static inline bool bb_nvtx_enabled(const struct bb_nvtx *n)
{
    return n->domain;
}

/* bb_nvtx_category - set the name of category `id` (1 or above) in the domain, for example "dp" for the
 * data-parallel group. */
void bb_nvtx_category(const struct bb_nvtx *n, uint32_t id, const char *name);

/* bb_range_init - describe a range. The text appears in the profiler, for example "all_reduce dp 75.1 MiB". */
void bb_range_init(const struct bb_nvtx *n, struct bb_range *r, uint32_t category, uint64_t bytes, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

void bb_range_push(const struct bb_nvtx *n, const struct bb_range *r);
void bb_range_pop(const struct bb_nvtx *n);

/* bb_range_push_once - push a range that occurs once. The text is not registered. */
void bb_range_push_once(const struct bb_nvtx *n, uint32_t category, uint64_t bytes, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/*
 * bb_part_begin, bb_part_end - push and pop the range of a part of a measurement. The samples are also the range that
 * profilers capture on request, from cudaProfilerStart to cudaProfilerStop (nsys --capture-range=cudaProfilerApi).
 */
int bb_part_begin(const struct bb_nvtx *n, enum bb_part part) BB_MUST_CHECK;
int bb_part_end(const struct bb_nvtx *n, enum bb_part part) BB_MUST_CHECK;

/* bb_nvtx_name_stream, bb_nvtx_name_event and bb_nvtx_name_thread set the name that a profiler shows. */
void bb_nvtx_name_stream(const struct bb_nvtx *n, cudaStream_t stream, const char *name);
void bb_nvtx_name_event(const struct bb_nvtx *n, cudaEvent_t event, const char *name);
void bb_nvtx_name_thread(const struct bb_nvtx *n, const char *name); /* names the calling thread */

#endif
