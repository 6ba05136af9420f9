/*
 * symbols.c - __device__, __constant__ and __managed__ variables. The host shadow of a variable is its device memory,
 * one for all devices of the process.
 */
#include "internal.h"
#include <stdlib.h>

void __cudaRegisterVar(void **module, char *host, char *device, const char *name, int external, size_t bytes,
                       int constant, int global)
{
    (void)module, (void)device, (void)name, (void)external, (void)constant, (void)global;
    emu_adopt_block(host, bytes, EMU_DEVICE);
}

void __cudaRegisterManagedVar(void **module, void **host, char *device, const char *name, int external, size_t bytes,
                              int constant, int global)
{
    (void)module, (void)device, (void)name, (void)external, (void)constant, (void)global;
    *host = calloc(1, bytes);
    if (!*host)
        emu_give_up("out of host memory");
    emu_adopt_block(*host, bytes, EMU_MANAGED);
}

void __cudaRegisterHostVar(void **module, const char *name, char *host, size_t bytes)
{
    (void)module, (void)name;
    emu_adopt_block(host, bytes, EMU_PINNED);
}

cudaError_t cudaGetSymbolAddress(void **out, const void *symbol)
{
    cudaError_t rc = emu_enter(__func__);

    if (!rc)
        rc = out && emu_space_of(symbol, NULL) != EMU_PAGEABLE ? cudaSuccess : cudaErrorInvalidSymbol;
    if (!rc)
        *out = (void *)symbol;
    return emu_report(rc);
}

cudaError_t cudaGetSymbolSize(size_t *bytes, const void *symbol)
{
    cudaError_t rc = emu_enter(__func__);

    if (!rc)
        rc = bytes && (*bytes = emu_block_bytes(symbol)) > 0 ? cudaSuccess : cudaErrorInvalidSymbol;
    return emu_report(rc);
}

/* The address of an offset in a variable, or an error. */
static cudaError_t locate(const char *function, const void *symbol, size_t offset, char **out)
{
    cudaError_t rc = emu_enter(function);

    if (!rc && emu_space_of(symbol, NULL) == EMU_PAGEABLE)
        rc = cudaErrorInvalidSymbol;
    *out = (char *)(uintptr_t)symbol + offset;
    return rc;
}

cudaError_t cudaMemcpyToSymbol(const void *symbol, const void *from, size_t bytes, size_t offset,
                               enum cudaMemcpyKind kind)
{
    char *to;
    cudaError_t rc = locate(__func__, symbol, offset, &to);

    return emu_report(rc ? rc : emu_copy(to, from, bytes, kind, NULL, false));
}

cudaError_t cudaMemcpyToSymbolAsync(const void *symbol, const void *from, size_t bytes, size_t offset,
                                    enum cudaMemcpyKind kind, cudaStream_t stream)
{
    char *to;
    cudaError_t rc = locate(__func__, symbol, offset, &to);

    return emu_report(rc ? rc : emu_copy(to, from, bytes, kind, stream, true));
}

cudaError_t cudaMemcpyFromSymbol(void *to, const void *symbol, size_t bytes, size_t offset, enum cudaMemcpyKind kind)
{
    char *from;
    cudaError_t rc = locate(__func__, symbol, offset, &from);

    return emu_report(rc ? rc : emu_copy(to, from, bytes, kind, NULL, false));
}

cudaError_t cudaMemcpyFromSymbolAsync(void *to, const void *symbol, size_t bytes, size_t offset,
                                      enum cudaMemcpyKind kind, cudaStream_t stream)
{
    char *from;
    cudaError_t rc = locate(__func__, symbol, offset, &from);

    return emu_report(rc ? rc : emu_copy(to, from, bytes, kind, stream, true));
}
