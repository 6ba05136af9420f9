/*
 * launch.c - kernels: registration by nvcc's host code, CPU twins, and launches.
 *
 * The argument sizes of a kernel come from its twin. A kernel without a twin is an error that names the kernel; with
 * EMU_UNKNOWN_KERNELS=pass it does nothing and takes kernel_us.
 */
#include "internal.h"
#include "twin.h"
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A registered kernel. Its address is the cudaKernel_t and the cudaFunction_t. */
struct CUkern_st {
    struct CUkern_st *next; /* same bucket */
    const void *host;       /* the host address that identifies the kernel in a launch */
    void **module;
    char *name;
    const struct emu_twin *twin;
    bool sought; /* the twin has been looked up */
    int max_dynamic_shared_bytes;
    uint64_t loaded; /* bit d: loaded on device d */
};

enum { BUCKETS = 1024 };
static struct {
    pthread_mutex_t lock;
    struct CUkern_st *buckets[BUCKETS];
} kernels = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct CUkern_st **bucket_of(const void *host)
{
    return &kernels.buckets[((uintptr_t)host >> 4) * 2654435761u % BUCKETS];
}

/* A handle is a host address, or a kernel itself (from __cudaGetKernel). */
static struct CUkern_st *kernel_at(const void *host)
{
    struct CUkern_st *kernel = NULL;

    pthread_mutex_lock(&kernels.lock);
    for (kernel = *bucket_of(host); kernel && kernel->host != host; kernel = kernel->next)
        ;
    pthread_mutex_unlock(&kernels.lock);
    return kernel;
}

static struct CUkern_st *kernel_of(const void *handle)
{
    struct CUkern_st *kernel = kernel_at(handle);

    if (kernel)
        return kernel;
    pthread_mutex_lock(&kernels.lock);
    for (int i = 0; i < BUCKETS && !kernel; i++)
        for (kernel = kernels.buckets[i]; kernel && kernel != handle; kernel = kernel->next)
            ;
    pthread_mutex_unlock(&kernels.lock);
    return kernel;
}

/* ---- registration ---- */

void **__cudaRegisterFatBinary(void *image)
{
    void **module = malloc(sizeof(*module));

    if (!module)
        emu_give_up("out of host memory");
    *module = image;
    return module;
}

void __cudaRegisterFatBinaryEnd(void **module)
{
    (void)module;
}

void __cudaUnregisterFatBinary(void **module)
{
    pthread_mutex_lock(&kernels.lock);
    for (int i = 0; i < BUCKETS; i++)
        for (struct CUkern_st **link = &kernels.buckets[i], *kernel; (kernel = *link);) {
            if (kernel->module != module) {
                link = &kernel->next;
                continue;
            }
            *link = kernel->next;
            free(kernel->name);
            free(kernel);
        }
    pthread_mutex_unlock(&kernels.lock);
    free(module);
}

char __cudaInitModule(void **module)
{
    (void)module;
    return 1;
}

void __cudaRegisterFunction(void **module, const char *host, char *device_fun, const char *name, int thread_limit,
                            uint3 *tid, uint3 *bid, dim3 *block, dim3 *grid, int *warp)
{
    struct CUkern_st *kernel = calloc(1, sizeof(*kernel)), **bucket = bucket_of(host);

    (void)device_fun, (void)thread_limit, (void)tid, (void)bid, (void)block, (void)grid, (void)warp;
    if (!kernel || !(kernel->name = strdup(name)))
        emu_give_up("out of host memory");
    kernel->host = host;
    kernel->module = module;
    pthread_mutex_lock(&kernels.lock);
    kernel->next = *bucket;
    *bucket = kernel;
    pthread_mutex_unlock(&kernels.lock);
}

/* ---- loading ---- */

/* With EMU_LAZY_LOADING=1 the first use of a kernel waits until the device is idle, as CUDA may do ("loading a
 * kernel might require context synchronization"). */
static void load(struct CUkern_st *kernel)
{
    const int device = emu_current_device();

    emu_lock();
    if (emu.loads_lazily && !(kernel->loaded >> device & 1))
        (void)emu_drain_device_locked(device);
    kernel->loaded |= 1ull << device;
    emu_unlock();
}

const char *emu_unloaded_kernel(int device)
{
    const char *name = NULL;

    emu_lock();
    pthread_mutex_lock(&kernels.lock);
    for (int i = 0; i < BUCKETS; i++)
        for (struct CUkern_st *kernel = kernels.buckets[i]; kernel; kernel = kernel->next)
            if (!(kernel->loaded >> device & 1))
                name = kernel->name;
    pthread_mutex_unlock(&kernels.lock);
    emu_unlock();
    return name;
}

/* ---- twins ---- */

struct twin_table {
    struct twin_table *next;
    const struct emu_twin *twins;
    size_t n;
};
static struct twin_table *twin_tables;
static pthread_once_t twins_once = PTHREAD_ONCE_INIT;

static void check_twin(const struct emu_twin *twin, const char *path)
{
    if (!twin->name || twin->n_args < 0 || twin->n_args > EMU_TWIN_ARGS)
        emu_die("EMU_TWINS: %s: a twin needs a name and at most %d arguments", path, EMU_TWIN_ARGS);
    for (int i = 0; i < twin->n_args; i++)
        if (twin->arg_bytes[i] == 0)
            emu_die("EMU_TWINS: %s: %s: argument %d has no size", path, twin->name, i);
}

static void load_twin_object(const char *path)
{
    const struct emu_twin *(*list)(size_t *);
    struct twin_table *table = calloc(1, sizeof(*table));
    void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);

    if (!object || !table)
        emu_die("EMU_TWINS: %s", dlerror());
    *(void **)&list = dlsym(object, "emu_twins");
    if (!list)
        emu_die("EMU_TWINS: %s: no function emu_twins", path);
    table->twins = list(&table->n);
    for (size_t i = 0; i < table->n; i++)
        check_twin(&table->twins[i], path);
    table->next = twin_tables;
    twin_tables = table;
}

static void load_twins(void)
{
    const char *value = getenv("EMU_TWINS");
    char *copy, *rest, *path;

    if (!value)
        return;
    rest = copy = strdup(value);
    while ((path = strsep(&rest, ":")))
        if (*path)
            load_twin_object(path);
    free(copy);
}

static const struct emu_twin *find_twin(const char *name)
{
    pthread_once(&twins_once, load_twins);
    for (struct twin_table *table = twin_tables; table; table = table->next)
        for (size_t i = 0; i < table->n; i++)
            if (strcmp(table->twins[i].name, name) == 0)
                return &table->twins[i];
    return NULL;
}

/* The twin of a kernel. Without a twin prints an error, once per kernel. */
static cudaError_t twin_of(struct CUkern_st *kernel, const struct emu_twin **out)
{
    bool first;

    pthread_mutex_lock(&kernels.lock);
    first = !kernel->sought;
    if (first)
        kernel->twin = find_twin(kernel->name);
    kernel->sought = true;
    *out = kernel->twin;
    pthread_mutex_unlock(&kernels.lock);
    if (*out || emu.passes_unknown)
        return cudaSuccess;
    if (first)
        fprintf(stderr, "emulated GPUs: kernel %s has no CPU twin (EMU_TWINS); EMU_UNKNOWN_KERNELS=pass skips it\n",
                kernel->name);
    return cudaErrorInvalidDeviceFunction;
}

/* ---- launches ---- */

struct launch {
    const struct emu_twin *twin; /* NULL: an unknown kernel with EMU_UNKNOWN_KERNELS=pass */
    struct emu_launch seen;
    struct emu_demand demand;
    void *args[EMU_TWIN_ARGS]; /* pointers into data */
    _Alignas(16) char data[];
};

/* Returns the rate of the slowest link to the memory that the arguments of a memory-bound kernel point to; 0: only memory of
 * the device. The pointers may be members of a struct. */
static double slowest_link(const struct launch *l)
{
    double slowest = 0;

    for (int i = 0; i < l->twin->n_args; i++)
        for (size_t at = 0; at + sizeof(void *) <= l->twin->arg_bytes[i]; at += sizeof(void *)) {
            void *pointer;
            double gbps;

            memcpy(&pointer, (char *)l->args[i] + at, sizeof pointer);
            gbps = emu_space_of(pointer, NULL) == EMU_PAGEABLE ? 0 : emu_link_gbps(pointer, true);
            if (gbps > 0 && (slowest == 0 || gbps < slowest))
                slowest = gbps;
        }
    return slowest;
}

/* A memory-bound kernel moves half of its bytes over a link. */
static int64_t alone_ns(const struct launch *l)
{
    double lasts = emu.machine.kernel_us * 1e3, link;

    if (l->twin && l->twin->lasts_ns)
        lasts = l->twin->lasts_ns(&l->seen, &emu.profile);
    if (l->twin && l->twin->by_memory && (link = slowest_link(l)) > 0)
        lasts = fmax(lasts, lasts * emu.profile.memory_gbps / 2 / link);
    return emu_slowed_ns(l->seen.device, llround(lasts));
}

static int64_t run_launch(void *arg, int64_t ready_ns)
{
    struct launch *l = arg;
    const int64_t slowed_ns = ready_ns + alone_ns(l) + l->demand.extra_ns;

    l->seen.start_ns = ready_ns;
    l->seen.end_ns = slowed_ns;
    if (l->twin && l->twin->run && (emu.moves_data || l->twin->always))
        l->twin->run(&l->seen);
    return l->seen.end_ns > slowed_ns ? l->seen.end_ns : slowed_ns;
}

static size_t aligned(size_t bytes)
{
    return (bytes + 15) & ~(size_t)15;
}

static struct launch *launch_new(const struct emu_twin *twin, void **args)
{
    size_t bytes = 0;
    struct launch *l;

    for (int i = 0; twin && i < twin->n_args; i++)
        bytes += aligned(twin->arg_bytes[i]);
    l = calloc(1, sizeof(*l) + bytes);
    if (!l)
        emu_give_up("out of host memory");
    l->twin = twin;
    l->seen.args = l->args;
    bytes = 0;
    for (int i = 0; twin && i < twin->n_args; i++) {
        l->args[i] = l->data + bytes;
        memcpy(l->args[i], args[i], twin->arg_bytes[i]);
        bytes += aligned(twin->arg_bytes[i]);
    }
    return l;
}

static bool shape_ok(dim3 grid, dim3 block)
{
    size_t threads = (size_t)block.x * block.y * block.z;

    return grid.x && grid.y && grid.z && grid.x <= 0x7fffffffu && grid.y <= 65535 && grid.z <= 65535 && threads &&
           block.x <= 1024 && block.y <= 1024 && block.z <= 64 && threads <= 1024;
}

static cudaError_t launch(struct CUkern_st *kernel, dim3 grid, dim3 block, void **args, size_t shared,
                          cudaStream_t stream)
{
    const struct emu_twin *twin;
    struct launch *l;
    cudaError_t rc;

    if (!kernel)
        return cudaErrorInvalidDeviceFunction;
    if (!shape_ok(grid, block) || shared > 232448)
        return cudaErrorInvalidConfiguration;
    if (emu_stream_device(stream) != emu_current_device())
        return cudaErrorInvalidResourceHandle;
    TRY(twin_of(kernel, &twin));
    if (twin && twin->n_args > 0 && !args)
        return cudaErrorInvalidValue;
    load(kernel);
    l = launch_new(twin, args);
    l->seen.grid = grid;
    l->seen.block = block;
    l->seen.shared_bytes = shared;
    l->seen.device = emu_current_device();
    l->demand = (struct emu_demand){
        .alone_ns = (double)alone_ns(l), .by_memory = twin && twin->by_memory, .waits = twin && twin->waits};
    rc = emu_enqueue(stream, &(struct emu_op){.name = twin ? twin->name : "kernel",
                                              .run = run_launch,
                                              .release = free,
                                              .arg = l,
                                              .demand = &l->demand,
                                              .host_ns = emu_ns_of_us(emu.machine.launch_us)});
    if (rc != cudaSuccess)
        free(l);
out:
    return rc;
}

cudaError_t cudaLaunchKernel(const void *func, dim3 grid, dim3 block, void **args, size_t shared, cudaStream_t stream)
{
    cudaError_t rc = emu_enter(__func__);

    return emu_report(rc ? rc : launch(kernel_of(func), grid, block, args, shared, stream));
}

cudaError_t cudaLaunchCooperativeKernel(const void *func, dim3 grid, dim3 block, void **args, size_t shared,
                                        cudaStream_t stream)
{
    cudaError_t rc = emu_enter(__func__);

    return emu_report(rc ? rc : launch(kernel_of(func), grid, block, args, shared, stream));
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *func, void **args)
{
    cudaError_t rc = emu_enter(__func__);

    if (!rc && !config)
        rc = cudaErrorInvalidValue;
    return emu_report(rc ? rc
                         : launch(kernel_of(func), config->gridDim, config->blockDim, args, config->dynamicSmemBytes,
                                  config->stream));
}

/* ---- functions that nvcc's host code calls; no C header declares them ---- */

cudaError_t __cudaGetKernel(cudaKernel_t *out, const void *host)
{
    *out = kernel_at(host);
    return *out ? cudaSuccess : cudaErrorInvalidDeviceFunction;
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **args, size_t shared,
                               cudaStream_t stream)
{
    cudaError_t rc = emu_enter("cudaLaunchKernel");

    return emu_report(rc ? rc : launch(kernel, grid, block, args, shared, stream));
}

cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3 grid, dim3 block, void **args, size_t shared,
                                    cudaStream_t stream)
{
    return __cudaLaunchKernel(kernel, grid, block, args, shared, emu_ptsz(stream));
}

/* ---- <<<>>>: the launch configuration is pushed before the arguments are evaluated, and popped in the stub ---- */

struct configuration {
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
};
static _Thread_local struct configuration pushed[16];
static _Thread_local int n_pushed;

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, struct CUstream_st *stream)
{
    if (n_pushed == 16)
        return 1;
    pushed[n_pushed++] = (struct configuration){grid, block, shared, stream};
    return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream)
{
    struct configuration *top;

    if (n_pushed == 0)
        return emu_report(cudaErrorMissingConfiguration);
    top = &pushed[--n_pushed];
    *grid = top->grid;
    *block = top->block;
    *shared = top->shared;
    *(cudaStream_t *)stream = top->stream;
    return cudaSuccess;
}

/* ---- attributes of kernels ---- */

static cudaError_t lookup(const char *function, const void *handle, const void *out, struct CUkern_st **kernel)
{
    cudaError_t rc = emu_enter(function);

    if (rc)
        return emu_report(rc);
    if (!out)
        return emu_report(cudaErrorInvalidValue);
    *kernel = kernel_of(handle);
    return emu_report(*kernel ? cudaSuccess : cudaErrorInvalidDeviceFunction);
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *func)
{
    struct CUkern_st *kernel = NULL;
    cudaError_t rc = lookup(__func__, func, attributes, &kernel);

    if (rc == cudaSuccess)
        load(kernel);
    if (rc == cudaSuccess)
        *attributes = (struct cudaFuncAttributes){.maxThreadsPerBlock = 1024,
                                                  .numRegs = 32,
                                                  .ptxVersion = 90,
                                                  .binaryVersion = 90,
                                                  .maxDynamicSharedSizeBytes = kernel->max_dynamic_shared_bytes};
    return rc;
}

cudaError_t cudaFuncSetAttribute(const void *func, enum cudaFuncAttribute attribute, int value)
{
    struct CUkern_st *kernel = NULL;
    cudaError_t rc = lookup(__func__, func, func, &kernel);

    if (rc != cudaSuccess)
        return rc;
    load(kernel);
    if (attribute == cudaFuncAttributeMaxDynamicSharedMemorySize) {
        if (value < 0 || value > 232448)
            return emu_report(cudaErrorInvalidValue);
        kernel->max_dynamic_shared_bytes = value;
    }
    return cudaSuccess;
}

cudaError_t cudaFuncSetCacheConfig(const void *func, enum cudaFuncCache config)
{
    struct CUkern_st *kernel = NULL;

    (void)config;
    return lookup(__func__, func, func, &kernel);
}

cudaError_t cudaFuncGetName(const char **name, const void *func)
{
    struct CUkern_st *kernel = NULL;
    cudaError_t rc = lookup(__func__, func, name, &kernel);

    if (rc == cudaSuccess)
        *name = kernel->name;
    return rc;
}

cudaError_t cudaGetKernel(cudaKernel_t *out, const void *func)
{
    return lookup(__func__, func, out, out);
}

cudaError_t cudaGetFuncBySymbol(cudaFunction_t *out, const void *func)
{
    return lookup(__func__, func, out, (struct CUkern_st **)out);
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *func, int threads,
                                                                   size_t shared, unsigned int flags)
{
    struct CUkern_st *kernel = NULL;
    cudaError_t rc = lookup(__func__, func, blocks, &kernel);
    int most;

    (void)flags;
    if (rc != cudaSuccess)
        return rc;
    if (threads < 1 || threads > 1024)
        return emu_report(cudaErrorInvalidValue);
    most = 2048 / ((threads + 31) / 32 * 32);
    if (shared > 0 && (size_t)most * shared > 233472)
        most = (int)(233472 / shared);
    *blocks = most < 32 ? most : 32;
    return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *func, int threads, size_t shared)
{
    return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, func, threads, shared, 0);
}

cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, const void *func, int blocks, int threads)
{
    struct CUkern_st *kernel = NULL;
    cudaError_t rc = lookup(__func__, func, bytes, &kernel);

    if (rc == cudaSuccess && (blocks < 1 || threads < 1 || threads > 1024))
        return emu_report(cudaErrorInvalidValue);
    if (rc == cudaSuccess)
        *bytes = 233472 / (size_t)blocks > 232448 ? 232448 : 233472 / (size_t)blocks;
    return rc;
}

cudaError_t cudaOccupancyMaxPotentialClusterSize(int *blocks, const void *func, const cudaLaunchConfig_t *config)
{
    struct CUkern_st *kernel = NULL;
    cudaError_t rc = lookup(__func__, func, blocks, &kernel);

    (void)config;
    if (rc == cudaSuccess)
        *blocks = 8;
    return rc;
}

cudaError_t cudaOccupancyMaxActiveClusters(int *clusters, const void *func, const cudaLaunchConfig_t *config)
{
    struct CUkern_st *kernel = NULL;
    cudaError_t rc = lookup(__func__, func, clusters, &kernel);

    (void)config;
    if (rc == cudaSuccess)
        *clusters = emu.machine.sm_count / 8;
    return rc;
}
