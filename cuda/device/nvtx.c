/*
 * nvtx.c - see nvtx.h. NVTX 3 is header-only: the first call loads the profiler's library from NVTX_INJECTION64_PATH;
 * nothing is linked.
 */
#include "cuda/device/nvtx.h"

#include "cuda/device/check.h"

#include <cuda_profiler_api.h>
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtCudaRt.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { TEXT = 128 }; /* maximum length of a range's text, including the final 0 */

void bb_nvtx_init(struct bb_nvtx *n)
{
    static const char *const parts[BB_PARTS] = {"warm-up", "samples", "check"};

    n->domain = nvtxDomainCreateA("busbar"); /* NULL when no profiler is attached */
    for (int i = 0; i < BB_PARTS; i++)
        bb_range_init(n, &n->parts[i], 0, 0, "%s", parts[i]);
}

void bb_nvtx_release(struct bb_nvtx *n)
{
    if (n->domain)
        nvtxDomainDestroy(n->domain);
    n->domain = NULL;
}

void bb_nvtx_category(const struct bb_nvtx *n, uint32_t id, const char *name)
{
    if (n->domain)
        nvtxDomainNameCategoryA(n->domain, id, name);
}

void bb_range_init(const struct bb_nvtx *n, struct bb_range *r, uint32_t category, uint64_t bytes, const char *fmt, ...)
{
    char text[TEXT];
    va_list args;

    *r = (struct bb_range){.category = category, .bytes = bytes};
    if (!n->domain)
        return;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    r->name = nvtxDomainRegisterStringA(n->domain, text);
}

static void push(const struct bb_nvtx *n, uint32_t category, uint64_t bytes, int32_t type, nvtxMessageValue_t name)
{
    nvtxEventAttributes_t a = {.version = NVTX_VERSION,
                               .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
                               .category = category,
                               .messageType = type,
                               .message = name};
    if (bytes) {
        a.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
        a.payload.ullValue = bytes;
    }
    nvtxDomainRangePushEx(n->domain, &a);
}

void bb_range_push(const struct bb_nvtx *n, const struct bb_range *r)
{
    if (n->domain)
        push(n, r->category, r->bytes, NVTX_MESSAGE_TYPE_REGISTERED, (nvtxMessageValue_t){.registered = r->name});
}

void bb_range_push_once(const struct bb_nvtx *n, uint32_t category, uint64_t bytes, const char *fmt, ...)
{
    char text[TEXT];
    va_list args;

    if (!n->domain)
        return;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    push(n, category, bytes, NVTX_MESSAGE_TYPE_ASCII, (nvtxMessageValue_t){.ascii = text});
}

void bb_range_pop(const struct bb_nvtx *n)
{
    if (n->domain)
        nvtxDomainRangePop(n->domain);
}

int bb_part_begin(const struct bb_nvtx *n, enum bb_part part)
{
    bb_range_push(n, &n->parts[part]);
    return part == BB_PART_SAMPLES ? BB_CUDA(cudaProfilerStart()) : 0;
}

int bb_part_end(const struct bb_nvtx *n, enum bb_part part)
{
    int rc = part == BB_PART_SAMPLES ? BB_CUDA(cudaProfilerStop()) : 0;

    bb_range_pop(n);
    return rc;
}

void bb_nvtx_name_stream(const struct bb_nvtx *n, cudaStream_t stream, const char *name)
{
    if (n->domain)
        nvtxNameCudaStreamA(stream, name);
}

void bb_nvtx_name_event(const struct bb_nvtx *n, cudaEvent_t event, const char *name)
{
    if (n->domain)
        nvtxNameCudaEventA(event, name);
}

void bb_nvtx_name_thread(const struct bb_nvtx *n, const char *name)
{
    if (n->domain)
        nvtxNameOsThreadA((uint32_t)syscall(SYS_gettid), name);
}
