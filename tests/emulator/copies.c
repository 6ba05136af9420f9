/*
 * copies.c - memcpy and memset. memory.c knows the kind of each pointer, so a wrong direction or a copy beyond the end
 * of a block is an error instead of a silent overrun.
 */
#include "internal.h"
#include <stdlib.h>
#include <string.h>

enum { STAGED_BYTES = 65536 }; /* pageable sources up to this size are copied during the call, as the driver does */

struct copy {
    char *to;
    const char *from; /* NULL: memset with `value` */
    size_t to_pitch, from_pitch, width, height;
    int value;
    int64_t lasts_ns;
    struct emu_demand demand;
    void *staged;
    bool corrupt; /* the first byte is wrong */
};

static int64_t run_copy(void *arg, int64_t ready_ns)
{
    const struct copy *c = arg;
    const char *from = c->staged ? c->staged : c->from;
    size_t from_pitch = c->staged ? c->width : c->from_pitch;

    for (size_t y = 0; y < c->height && emu_moves_data(); y++)
        if (from)
            memmove(c->to + y * c->to_pitch, from + y * from_pitch, c->width);
        else
            memset(c->to + y * c->to_pitch, c->value, c->width);
    if (c->corrupt && emu_moves_data())
        c->to[0] ^= 1;
    return ready_ns + c->lasts_ns;
}

static void release_copy(void *arg)
{
    struct copy *c = arg;

    free(c->staged);
    free(c);
}

static size_t span(size_t pitch, size_t width, size_t height)
{
    return width && height ? pitch * (height - 1) + width : 0;
}

static bool is_gpu(enum emu_space space)
{
    return space == EMU_DEVICE || space == EMU_MANAGED;
}

static int64_t copy_ns(const struct copy *c, bool to_gpu, bool from_gpu)
{
    const double times = c->from && to_gpu && from_gpu ? 2 : 1, to = emu_link_gbps(c->to, false);
    const double link = to > 0 ? to : c->from ? emu_link_gbps(c->from, false) : 0;
    const double gbps = link > 0 && c->from ? link : emu.profile.memory_gbps / times;

    return emu_ns_of_us(emu.machine.kernel_us + (double)c->width * (double)c->height / gbps / 1e3);
}

static void stage(struct copy *c)
{
    c->staged = malloc(c->width * c->height);
    if (!c->staged)
        emu_give_up("out of host memory");
    for (size_t y = 0; y < c->height && emu.moves_data; y++)
        memcpy((char *)c->staged + y * c->width, c->from + y * c->from_pitch, c->width);
}

static cudaError_t put(const struct copy *c, cudaStream_t stream, const char *name, bool sync)
{
    struct emu_op op = {
        .name = name, .run = run_copy, .release = release_copy, .host_ns = emu_ns_of_us(emu.machine.launch_us)};
    struct copy *copy = malloc(sizeof(*copy));
    cudaError_t rc;

    if (!copy)
        emu_give_up("out of host memory");
    *copy = *c;
    copy->demand = (struct emu_demand){.alone_ns = (double)c->lasts_ns};
    op.arg = copy;
    op.demand = &copy->demand;
    if (sync)
        return emu_run_sync(stream, &op);
    rc = emu_enqueue(stream, &op);
    if (rc != cudaSuccess)
        release_copy(copy);
    return rc;
}

/* Whether the pointer fits the copy direction on this side. Unregistered host memory fits any. */
static bool side_ok(enum emu_space space, enum cudaMemcpyKind kind, enum cudaMemcpyKind gpu_kind)
{
    if (kind == cudaMemcpyDefault)
        return true;
    if (kind == cudaMemcpyDeviceToDevice || kind == gpu_kind)
        return space != EMU_PAGEABLE;
    return space != EMU_DEVICE;
}

/* A copy with pageable memory is synchronous, except for staged sources. Copies between GPU memories never block the
 * host. */
static cudaError_t copy_2d(struct copy c, enum cudaMemcpyKind kind, cudaStream_t stream, bool async)
{
    enum emu_space to = emu_space_of(c.to, NULL), from = emu_space_of(c.from, NULL);
    bool capturing, sync = !async;

    if (kind > cudaMemcpyDefault)
        return cudaErrorInvalidMemcpyDirection;
    if (c.width == 0 || c.height == 0)
        return cudaSuccess;
    if (!c.to || !c.from || c.width > c.to_pitch || c.width > c.from_pitch ||
        !side_ok(to, kind, cudaMemcpyHostToDevice) || !side_ok(from, kind, cudaMemcpyDeviceToHost) ||
        !emu_inside_block(c.to, span(c.to_pitch, c.width, c.height)) ||
        !emu_inside_block(c.from, span(c.from_pitch, c.width, c.height)))
        return cudaErrorInvalidValue;
    c.lasts_ns = copy_ns(&c, is_gpu(to), is_gpu(from));
    c.corrupt = async && emu_fault_corrupts("cudaMemcpyAsync");
    capturing = emu_capturing(stream);
    if (async && !capturing && from == EMU_PAGEABLE && c.width * c.height <= STAGED_BYTES)
        stage(&c);
    else if (async && !capturing)
        sync = to == EMU_PAGEABLE || from == EMU_PAGEABLE;
    if (is_gpu(to) && is_gpu(from))
        sync = false;
    return put(&c, stream, "memcpy", sync);
}

static cudaError_t fill(void *to, int value, size_t pitch, size_t width, size_t height, cudaStream_t stream)
{
    struct copy c = {.to = to, .to_pitch = pitch, .width = width, .height = height, .value = value};

    if (width == 0 || height == 0)
        return cudaSuccess;
    if (emu_space_of(to, NULL) == EMU_PAGEABLE || width > pitch || !emu_inside_block(to, span(pitch, width, height)))
        return cudaErrorInvalidValue;
    c.lasts_ns = copy_ns(&c, true, false);
    return put(&c, stream, "memset", emu_space_of(to, NULL) == EMU_PINNED && !emu_capturing(stream));
}

static struct copy line(void *to, const void *from, size_t bytes)
{
    return (struct copy){.to = to, .from = from, .to_pitch = bytes, .from_pitch = bytes, .width = bytes, .height = 1};
}

cudaError_t emu_copy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream,
                     bool async)
{
    return copy_2d(line(to, from, bytes), kind, stream, async);
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    cudaError_t rc = emu_enter(__func__);

    return emu_report(rc ? rc : copy_2d(line(to, from, bytes), kind, NULL, false));
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    cudaError_t rc = emu_enter(__func__);

    return emu_report(rc ? rc : copy_2d(line(to, from, bytes), kind, stream, true));
}

cudaError_t cudaMemcpyPeer(void *to, int to_device, const void *from, int from_device, size_t bytes)
{
    cudaError_t rc = emu_enter(__func__);

    if (!rc && (to_device < 0 || to_device >= emu.n_devices || from_device < 0 || from_device >= emu.n_devices))
        rc = cudaErrorInvalidDevice;
    return emu_report(rc ? rc : copy_2d(line(to, from, bytes), cudaMemcpyDeviceToDevice, NULL, false));
}

cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device, size_t bytes,
                                cudaStream_t stream)
{
    cudaError_t rc = emu_enter(__func__);

    if (!rc && (to_device < 0 || to_device >= emu.n_devices || from_device < 0 || from_device >= emu.n_devices))
        rc = cudaErrorInvalidDevice;
    return emu_report(rc ? rc : copy_2d(line(to, from, bytes), cudaMemcpyDeviceToDevice, stream, true));
}

cudaError_t cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
                         enum cudaMemcpyKind kind)
{
    struct copy c = {
        .to = to, .from = from, .to_pitch = to_pitch, .from_pitch = from_pitch, .width = width, .height = height};
    cudaError_t rc = emu_enter(__func__);

    return emu_report(rc ? rc : copy_2d(c, kind, NULL, false));
}

cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                              size_t height, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    struct copy c = {
        .to = to, .from = from, .to_pitch = to_pitch, .from_pitch = from_pitch, .width = width, .height = height};
    cudaError_t rc = emu_enter(__func__);

    return emu_report(rc ? rc : copy_2d(c, kind, stream, true));
}

cudaError_t cudaMemset(void *to, int value, size_t bytes)
{
    cudaError_t rc = emu_enter(__func__);

    return emu_report(rc ? rc : fill(to, value, bytes, bytes, 1, NULL));
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream)
{
    cudaError_t rc = emu_enter(__func__);

    return emu_report(rc ? rc : fill(to, value, bytes, bytes, 1, stream));
}

cudaError_t cudaMemset2D(void *to, size_t pitch, int value, size_t width, size_t height)
{
    cudaError_t rc = emu_enter(__func__);

    return emu_report(rc ? rc : fill(to, value, pitch, width, height, NULL));
}

cudaError_t cudaMemset2DAsync(void *to, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream)
{
    cudaError_t rc = emu_enter(__func__);

    return emu_report(rc ? rc : fill(to, value, pitch, width, height, stream));
}
