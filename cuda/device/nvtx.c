/*
 * nvtx.c - see nvtx.h. NVTX 3 is header-only: the first call loads the profiler's library from NVTX_INJECTION64_PATH;
 * nothing is linked.
 */
#include "cuda/device/nvtx.h"

#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtCudaRt.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

void bb_nvtx_init(struct bb_nvtx *n)
{
    n->domain = nvtxDomainCreateA("busbar"); /* NULL when no profiler is attached */
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
    char text[128];
    va_list args;

    *r = (struct bb_range){.category = category, .bytes = bytes};
    if (!n->domain)
        return;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    r->name = nvtxDomainRegisterStringA(n->domain, text);
}

void bb_range_push(const struct bb_nvtx *n, const struct bb_range *r)
{
    if (!n->domain)
        return;
    nvtxEventAttributes_t a = {.version = NVTX_VERSION,
                               .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
                               .category = r->category,
                               .messageType = NVTX_MESSAGE_TYPE_REGISTERED,
                               .message = {.registered = r->name}};
    if (r->bytes) {
        a.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
        a.payload.ullValue = r->bytes;
    }
    nvtxDomainRangePushEx(n->domain, &a);
}

void bb_range_pop(const struct bb_nvtx *n)
{
    if (n->domain)
        nvtxDomainRangePop(n->domain);
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
