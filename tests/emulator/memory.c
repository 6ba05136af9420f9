/*
 * memory.c - allocations, properties of pointers, and accounting of device memory. The machine allocates pages at the
 * first access, so a device may have more memory than the machine.
 */
#include "internal.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct block {
    char *base;
    size_t bytes;  /* requested size */
    size_t mapped; /* 0: memory of the program, as in cudaHostRegister */
    enum emu_space space;
    int device;
    unsigned flags;
    bool physical; /* from cuMemCreate, as ncclMemAlloc's memory */
    bool exported; /* other processes can map it, by cudaIpcGetMemHandle */
    int file;      /* physical or exported memory: a file without a name, which other processes can map */
    int peer;      /* memory of another process: 1 + the rank that exported it */
};

/* All blocks, sorted by address. */
static struct {
    pthread_mutex_t lock;
    struct block *list;
    size_t n, capacity;
} blocks = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Index of the first block that begins above the pointer. */
static size_t above(const void *pointer)
{
    size_t low = 0, high = blocks.n;

    while (low < high) {
        size_t middle = (low + high) / 2;

        if ((const char *)pointer < blocks.list[middle].base)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static struct block *block_of(const void *pointer)
{
    size_t i = above(pointer);

    if (i == 0 || (const char *)pointer >= blocks.list[i - 1].base + blocks.list[i - 1].bytes)
        return NULL;
    return &blocks.list[i - 1];
}

static void insert(struct block block)
{
    size_t at = above(block.base);

    if (blocks.n == blocks.capacity) {
        blocks.capacity = blocks.capacity ? 2 * blocks.capacity : 64;
        blocks.list = realloc(blocks.list, blocks.capacity * sizeof(*blocks.list));
        if (!blocks.list)
            emu_give_up("out of host memory");
    }
    for (size_t i = blocks.n++; i > at; i--)
        blocks.list[i] = blocks.list[i - 1];
    blocks.list[at] = block;
}

/* Removes the block that begins at base from the list. */
static bool take(const void *base, struct block *out)
{
    struct block *found;
    bool ok;

    pthread_mutex_lock(&blocks.lock);
    found = block_of(base);
    ok = found && found->base == base;
    if (ok) {
        *out = *found;
        for (size_t i = (size_t)(found - blocks.list); i + 1 < blocks.n; i++)
            blocks.list[i] = blocks.list[i + 1];
        blocks.n--;
    }
    pthread_mutex_unlock(&blocks.lock);
    return ok;
}

static bool find(const void *pointer, struct block *out)
{
    struct block *found;

    pthread_mutex_lock(&blocks.lock);
    found = block_of(pointer);
    if (found)
        *out = *found;
    pthread_mutex_unlock(&blocks.lock);
    return found != NULL;
}

enum emu_space emu_space_of(const void *pointer, int *device)
{
    struct block block;

    if (!find(pointer, &block))
        return EMU_PAGEABLE;
    if (device)
        *device = block.device;
    return block.space;
}

bool emu_inside_block(const void *pointer, size_t bytes)
{
    struct block block;

    return !find(pointer, &block) || bytes <= (size_t)(block.base + block.bytes - (const char *)pointer);
}

static bool charge_device(int device, size_t bytes)
{
    bool fits;

    emu_lock();
    fits = (double)emu.devices[device].used_bytes + (double)bytes <= emu.machine.memory_bytes;
    if (fits)
        emu.devices[device].used_bytes += bytes;
    emu_unlock();
    return fits;
}

static void refund_device(int device, size_t bytes)
{
    emu_lock();
    emu.devices[device].used_bytes -= bytes;
    emu_unlock();
}

static bool on_device(enum emu_space space)
{
    return space == EMU_DEVICE || space == EMU_MANAGED;
}

static void *map_pages(struct block *block)
{
    const int flags = MAP_NORESERVE | (block->physical ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS);

    block->file = block->physical ? memfd_create("emu-physical", MFD_CLOEXEC) : -1;
    if (block->physical && (block->file < 0 || ftruncate(block->file, (off_t)block->mapped)))
        return MAP_FAILED;
    return mmap(NULL, block->mapped, PROT_READ | PROT_WRITE, flags, block->file, 0);
}

/* Maps whole units of the machine's page size, or of the device's granularity. */
static cudaError_t map_block(void **out, struct block block, size_t unit)
{
    const enum emu_space space = block.space;
    const int device = block.device;
    const size_t bytes = block.bytes;
    void *base;

    *out = NULL;
    if (bytes == 0)
        return cudaSuccess;
    block.mapped = (bytes + unit - 1) / unit * unit;
    if (block.mapped < bytes || (on_device(space) && !charge_device(device, block.mapped)))
        return cudaErrorMemoryAllocation;
    base = map_pages(&block);
    if (base == MAP_FAILED) {
        if (block.file >= 0)
            close(block.file);
        if (on_device(space))
            refund_device(device, block.mapped);
        return cudaErrorMemoryAllocation;
    }
    block.base = base;
    pthread_mutex_lock(&blocks.lock);
    insert(block);
    pthread_mutex_unlock(&blocks.lock);
    *out = base;
    return cudaSuccess;
}

cudaError_t emu_alloc_device(void **out, size_t bytes, int device, enum emu_space space)
{
    return map_block(out, (struct block){.bytes = bytes, .space = space, .device = device}, 4096);
}

cudaError_t emu_alloc_physical(void **out, size_t bytes)
{
    const struct block block = {.bytes = bytes, .space = EMU_DEVICE, .device = emu_current_device(), .physical = true};
    cudaError_t rc;

    *out = NULL;
    TRY(emu_enter("cuMemCreate"));
    rc = map_block(out, block, emu_granularity());
out:
    return emu_report(rc);
}

bool emu_is_physical(const void *pointer)
{
    size_t offset;

    return emu_physical_file(pointer, 0, &offset) >= 0;
}

int emu_physical_file(const void *pointer, size_t bytes, size_t *offset)
{
    struct block block;

    if (!find(pointer, &block) || !block.physical)
        return -1;
    *offset = (size_t)((const char *)pointer - block.base);
    return bytes <= block.bytes - *offset ? block.file : -1;
}

int emu_peer_of(const void *pointer)
{
    struct block block;

    return find(pointer, &block) ? block.peer - 1 : -1;
}

void emu_adopt_block(void *base, size_t bytes, enum emu_space space)
{
    pthread_mutex_lock(&blocks.lock);
    insert((struct block){.base = base, .bytes = bytes, .space = space});
    pthread_mutex_unlock(&blocks.lock);
}

size_t emu_block_bytes(const void *base)
{
    struct block block;

    return find(base, &block) && block.base == base ? block.bytes : 0;
}

static void drop(const struct block *block)
{
    if (block->mapped)
        munmap(block->base, block->mapped);
    if (block->physical || block->exported)
        close(block->file);
    if (on_device(block->space) && !block->peer)
        refund_device(block->device, block->mapped);
}

void emu_free_block(void *base)
{
    struct block block;

    if (take(base, &block))
        drop(&block);
}

/* Device reset: frees all memory of the device. */
void emu_free_device_memory(int device)
{
    size_t kept = 0;

    pthread_mutex_lock(&blocks.lock);
    for (size_t i = 0; i < blocks.n; i++) {
        struct block *b = &blocks.list[i];

        if (b->device == device && on_device(b->space) && b->mapped)
            drop(b);
        else
            blocks.list[kept++] = *b;
    }
    blocks.n = kept;
    pthread_mutex_unlock(&blocks.lock);
}

/* ---- public functions ---- */

static cudaError_t allocate(const char *function, void **out, size_t bytes, enum emu_space space)
{
    cudaError_t rc;

    TRY(emu_enter(function));
    if (!out) {
        rc = cudaErrorInvalidValue;
        goto out;
    }
    TRY(emu_capture_unsafe());
    rc = emu_alloc_device(out, bytes, emu_current_device(), space);
out:
    return emu_report(rc);
}

cudaError_t cudaMalloc(void **out, size_t bytes)
{
    return allocate(__func__, out, bytes, EMU_DEVICE);
}

cudaError_t cudaMallocManaged(void **out, size_t bytes, unsigned int flags)
{
    if (bytes == 0 || (flags != cudaMemAttachGlobal && flags != cudaMemAttachHost))
        return emu_report(cudaErrorInvalidValue);
    return allocate(__func__, out, bytes, EMU_MANAGED);
}

cudaError_t cudaMallocHost(void **out, size_t bytes)
{
    return allocate(__func__, out, bytes, EMU_PINNED);
}

cudaError_t cudaHostAlloc(void **out, size_t bytes, unsigned int flags)
{
    if (flags & ~(unsigned)(cudaHostAllocPortable | cudaHostAllocMapped | cudaHostAllocWriteCombined))
        return emu_report(cudaErrorInvalidValue);
    return allocate(__func__, out, bytes, EMU_PINNED);
}

cudaError_t cudaMallocPitch(void **out, size_t *pitch, size_t width, size_t height)
{
    if (!pitch)
        return emu_report(cudaErrorInvalidValue);
    *pitch = (width + 511) & ~(size_t)511;
    return allocate(__func__, out, *pitch * height, EMU_DEVICE);
}

/* Freeing waits until the device is idle, because running work may use the memory. */
static cudaError_t release(const char *function, void *base, bool host)
{
    struct block block;
    cudaError_t rc;

    TRY(emu_enter(function));
    if (!base)
        goto out;
    TRY(emu_capture_unsafe());
    if (!find(base, &block) || block.base != base || (block.space == EMU_PINNED) != host || !block.mapped) {
        rc = cudaErrorInvalidValue;
        goto out;
    }
    emu_lock();
    rc = emu_drain_device_locked(block.device);
    emu_unlock();
    emu_free_block(base);
out:
    return emu_report(rc);
}

cudaError_t cudaFree(void *base)
{
    return release(__func__, base, false);
}

cudaError_t cudaFreeHost(void *base)
{
    return release(__func__, base, true);
}

cudaError_t cudaHostRegister(void *base, size_t bytes, unsigned int flags)
{
    struct block block = {.base = base, .bytes = bytes, .space = EMU_PINNED, .flags = flags};
    cudaError_t rc;

    TRY(emu_enter(__func__));
    block.device = emu_current_device();
    if (!base || bytes == 0) {
        rc = cudaErrorInvalidValue;
        goto out;
    }
    pthread_mutex_lock(&blocks.lock);
    if (block_of(base))
        rc = cudaErrorHostMemoryAlreadyRegistered;
    else
        insert(block);
    pthread_mutex_unlock(&blocks.lock);
out:
    return emu_report(rc);
}

cudaError_t cudaHostUnregister(void *base)
{
    struct block block;
    cudaError_t rc;

    TRY(emu_enter(__func__));
    if (!find(base, &block) || block.mapped || block.base != base)
        rc = cudaErrorHostMemoryNotRegistered;
    else
        take(base, &block);
out:
    return emu_report(rc);
}

cudaError_t cudaHostGetDevicePointer(void **out, void *host, unsigned int flags)
{
    struct block block;
    cudaError_t rc;

    TRY(emu_enter(__func__));
    if (!out || flags || !find(host, &block) || block.space == EMU_DEVICE)
        rc = cudaErrorInvalidValue;
    else
        *out = host;
out:
    return emu_report(rc);
}

cudaError_t cudaHostGetFlags(unsigned int *flags, void *host)
{
    struct block block;
    cudaError_t rc;

    TRY(emu_enter(__func__));
    if (!flags || !find(host, &block) || block.space != EMU_PINNED)
        rc = cudaErrorInvalidValue;
    else
        *flags = block.flags | cudaHostAllocMapped;
out:
    return emu_report(rc);
}

/* ---- memory of other processes ---- */

struct ipc_handle {
    int pid, file, rank;
    size_t mapped;
};
_Static_assert(sizeof(struct ipc_handle) <= sizeof(cudaIpcMemHandle_t), "the handle holds its description");

/* Moves the contents of a block into a file without a name, at the same address. */
static bool export_block(struct block *b)
{
    const int file = memfd_create("emu-ipc", MFD_CLOEXEC);
    void *at = MAP_FAILED;

    if (file >= 0 && ftruncate(file, (off_t)b->mapped) == 0 &&
        (!emu.moves_data || pwrite(file, b->base, b->mapped, 0) == (ssize_t)b->mapped))
        at = mmap(b->base, b->mapped, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, file, 0);
    if (at == MAP_FAILED) {
        if (file >= 0)
            close(file);
        return false;
    }
    b->exported = true;
    b->file = file;
    return true;
}

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *base)
{
    struct ipc_handle own = {.pid = (int)getpid(), .rank = emu_world_rank()};
    struct block *found;
    cudaError_t rc;

    TRY(emu_enter(__func__));
    emu_lock();
    rc = emu_drain_device_locked(emu_current_device());
    emu_unlock();
    TRY(rc);
    pthread_mutex_lock(&blocks.lock);
    found = block_of(base);
    if (!handle || !found || found->base != base || found->space != EMU_DEVICE || found->physical || found->peer)
        rc = cudaErrorInvalidValue;
    else if (!found->exported && !export_block(found))
        rc = cudaErrorMapBufferObjectFailed;
    if (rc == cudaSuccess) {
        own.file = found->file;
        own.mapped = found->mapped;
        memcpy(handle, &own, sizeof own);
    }
    pthread_mutex_unlock(&blocks.lock);
out:
    return emu_report(rc);
}

cudaError_t cudaIpcOpenMemHandle(void **out, cudaIpcMemHandle_t handle, unsigned int flags)
{
    struct block block = {.space = EMU_DEVICE};
    struct ipc_handle other;
    char path[64];
    int file = -1;
    cudaError_t rc;

    TRY(emu_enter(__func__));
    memcpy(&other, &handle, sizeof other);
    block.device = emu_current_device();
    block.bytes = block.mapped = other.mapped;
    block.peer = other.rank + 1;
    if (!out || flags != cudaIpcMemLazyEnablePeerAccess)
        rc = cudaErrorInvalidValue;
    else if (other.pid == (int)getpid())
        rc = cudaErrorDeviceUninitialized;
    TRY(rc);
    snprintf(path, sizeof path, "/proc/%d/fd/%d", other.pid, other.file);
    file = open(path, O_RDWR | O_CLOEXEC);
    block.base =
        file < 0 ? MAP_FAILED : mmap(NULL, block.mapped, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
    if (file >= 0)
        close(file);
    if (block.base == MAP_FAILED) {
        rc = cudaErrorMapBufferObjectFailed;
        goto out;
    }
    pthread_mutex_lock(&blocks.lock);
    insert(block);
    pthread_mutex_unlock(&blocks.lock);
    *out = block.base;
out:
    return emu_report(rc);
}

cudaError_t cudaIpcCloseMemHandle(void *base)
{
    cudaError_t rc;

    TRY(emu_enter(__func__));
    if (emu_peer_of(base) < 0 || emu_block_bytes(base) == 0) {
        rc = cudaErrorInvalidValue;
        goto out;
    }
    emu_lock();
    rc = emu_drain_device_locked(emu_current_device());
    emu_unlock();
    emu_free_block(base);
out:
    return emu_report(rc);
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
    cudaError_t rc;

    TRY(emu_enter(__func__));
    emu_lock();
    if (free_bytes)
        *free_bytes = (size_t)emu.machine.memory_bytes - emu.devices[emu_current_device()].used_bytes;
    if (total_bytes)
        *total_bytes = (size_t)emu.machine.memory_bytes;
    emu_unlock();
out:
    return emu_report(rc);
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *pointer)
{
    static const enum cudaMemoryType types[] = {[EMU_PAGEABLE] = cudaMemoryTypeUnregistered,
                                                [EMU_PINNED] = cudaMemoryTypeHost,
                                                [EMU_DEVICE] = cudaMemoryTypeDevice,
                                                [EMU_MANAGED] = cudaMemoryTypeManaged};
    struct block block = {.space = EMU_PAGEABLE};
    cudaError_t rc;

    TRY(emu_enter(__func__));
    if (!attributes) {
        rc = cudaErrorInvalidValue;
        goto out;
    }
    *attributes = (struct cudaPointerAttributes){.type = types[EMU_PAGEABLE], .device = cudaInvalidDeviceId};
    if (find(pointer, &block)) {
        attributes->type = types[block.space];
        attributes->device = block.device;
        attributes->devicePointer = (void *)pointer;
    }
    if (block.space != EMU_DEVICE)
        attributes->hostPointer = block.space == EMU_PAGEABLE ? NULL : (void *)pointer;
out:
    return emu_report(rc);
}
