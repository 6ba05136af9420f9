/*
 * nvtx_recorder.c - an NVTX tool: a shared object that an unmodified program loads because NVTX_INJECTION64_PATH names
 * it. It writes one line per event, with fields separated by tabs:
 *
 *     push   depth domain category bytes name      depth 0: outermost of this thread; category "-": none
 *     pop    depth domain                          depth of the range that ends
 *     stream|event|thread  name
 *     string text                                  a registration of a string
 *     profiler start|stop                          cudaProfilerStart and cudaProfilerStop, if the object is also in
 *                                                  LD_PRELOAD
 *
 * Every process writes the file $NVTX_RECORD.<pid>. Without that variable nothing is recorded.
 */
#include <dlfcn.h>
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtCudaRt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_CATEGORIES 256

/* Returned as handles and kept until the process ends, in lists, so that a leak checker finds references to them. */
struct nvtxDomainRegistration_st {
    struct nvtxDomainRegistration_st *next;
    char *name;
    char *categories[MAX_CATEGORIES];
};
struct nvtxStringRegistration_st {
    struct nvtxStringRegistration_st *next;
    char *text;
};

static FILE *record;
static nvtxDomainHandle_t domains;
static nvtxStringHandle_t strings;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local int depth;

static nvtxDomainHandle_t on_domain(const char *name)
{
    nvtxDomainHandle_t d = calloc(1, sizeof(*d));

    if (!d)
        return NULL;
    d->name = strdup(name);
    pthread_mutex_lock(&lock);
    d->next = domains;
    domains = d;
    pthread_mutex_unlock(&lock);
    return d;
}

static void on_category(nvtxDomainHandle_t d, uint32_t id, const char *name)
{
    if (id < MAX_CATEGORIES)
        d->categories[id] = strdup(name);
}

static nvtxStringHandle_t on_string(nvtxDomainHandle_t d, const char *text)
{
    nvtxStringHandle_t s = calloc(1, sizeof(*s));

    (void)d;
    if (!s)
        return NULL;
    s->text = strdup(text);
    pthread_mutex_lock(&lock);
    fprintf(record, "string\t%s\n", text);
    s->next = strings;
    strings = s;
    pthread_mutex_unlock(&lock);
    return s;
}

static const char *message_of(const nvtxEventAttributes_t *a)
{
    if (a->messageType == NVTX_MESSAGE_TYPE_ASCII)
        return a->message.ascii;
    if (a->messageType == NVTX_MESSAGE_TYPE_REGISTERED && a->message.registered)
        return a->message.registered->text;
    return "-";
}

static int on_push(nvtxDomainHandle_t d, const nvtxEventAttributes_t *a)
{
    const char *category =
        a->category < MAX_CATEGORIES && d->categories[a->category] ? d->categories[a->category] : "-";
    unsigned long long bytes = a->payloadType == NVTX_PAYLOAD_TYPE_UNSIGNED_INT64 ? a->payload.ullValue : 0;

    pthread_mutex_lock(&lock);
    fprintf(record, "push\t%d\t%s\t%s\t%llu\t%s\n", depth, d->name, category, bytes, message_of(a));
    fflush(record);
    pthread_mutex_unlock(&lock);
    return depth++;
}

static int on_pop(nvtxDomainHandle_t d)
{
    depth--;
    pthread_mutex_lock(&lock);
    fprintf(record, "pop\t%d\t%s\n", depth, d->name);
    fflush(record);
    pthread_mutex_unlock(&lock);
    return depth;
}

static void write_name(const char *kind, const char *name)
{
    pthread_mutex_lock(&lock);
    fprintf(record, "%s\t%s\n", kind, name);
    fflush(record);
    pthread_mutex_unlock(&lock);
}

static void on_stream(cudaStream_t stream, const char *name)
{
    (void)stream;
    write_name("stream", name);
}

static void on_event(cudaEvent_t event, const char *name)
{
    (void)event;
    write_name("event", name);
}

static void on_thread(uint32_t id, const char *name)
{
    (void)id;
    write_name("thread", name);
}

struct hook {
    NvtxCallbackModule module;
    unsigned id;
    NvtxFunctionPointer function;
};
#define HOOK(m, i, f)                                                                                                  \
    {                                                                                                                  \
        NVTX_CB_MODULE_##m, (unsigned)NVTX_CBID_##i, (NvtxFunctionPointer)(f)                                          \
    }
static const struct hook hooks[] = {
    HOOK(CORE2, CORE2_DomainCreateA, on_domain),         HOOK(CORE2, CORE2_DomainNameCategoryA, on_category),
    HOOK(CORE2, CORE2_DomainRegisterStringA, on_string), HOOK(CORE2, CORE2_DomainRangePushEx, on_push),
    HOOK(CORE2, CORE2_DomainRangePop, on_pop),           HOOK(CORE, CORE_NameOsThreadA, on_thread),
    HOOK(CUDART, CUDART_NameCudaStreamA, on_stream),     HOOK(CUDART, CUDART_NameCudaEventA, on_event),
};

static int open_record(void)
{
    const char *prefix = getenv("NVTX_RECORD");
    char path[512];

    if (!prefix)
        return 0;
    snprintf(path, sizeof(path), "%s.%d", prefix, (int)getpid());
    record = fopen(path, "w");
    return record != NULL;
}

static cudaError_t profiler_call(const char *name, const char *what)
{
    cudaError_t (*real)(void);

    *(void **)&real = dlsym(RTLD_NEXT, name);
    if (record)
        write_name("profiler", what);
    return real();
}

__attribute__((visibility("default"))) cudaError_t cudaProfilerStart(void)
{
    return profiler_call(__func__, "start");
}

__attribute__((visibility("default"))) cudaError_t cudaProfilerStop(void)
{
    return profiler_call(__func__, "stop");
}

/* The entry point that NVTX calls. Returns 1 if the tool is loaded, 0 to disable NVTX. */
__attribute__((visibility("default"))) int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table)
{
    const NvtxExportTableCallbacks *callbacks = get_table(NVTX_ETID_CALLBACKS);
    NvtxFunctionTable table;
    unsigned size;

    if (!callbacks || !open_record())
        return 0;
    for (size_t i = 0; i < sizeof(hooks) / sizeof(hooks[0]); i++)
        if (callbacks->GetModuleFunctionTable(hooks[i].module, &table, &size) && hooks[i].id < size)
            *table[hooks[i].id] = hooks[i].function;
    return 1;
}
