/*
 * names.h - emulated CUDA functions whose names or arguments differ between CUDA 12 and 13. They are declared without
 * the types of the CUDA headers.
 */
#ifndef EMU_NAMES_H
#define EMU_NAMES_H

#include <stddef.h>

#pragma GCC visibility push(hidden)

/* deps: out, address of the node array. edges: out, NULL. Returns a cudaError_t. */
int emu_capture_info(void *stream, int *status, unsigned long long *id, void **graph, void *deps, void *edges,
                     size_t *n);
int emu_capture_update(void *stream, void *deps, size_t n, unsigned flags);
int emu_graph_add_edges(void *graph, const void *from, const void *to, size_t n);
int emu_node_dependencies(void *node, void *deps, void *edges, size_t *n);
int emu_memory_hint(const char *function, const void *pointer, size_t bytes);

/* Implements a CUDA function that is not modelled: prints the function's name on stderr once and returns
 * cudaErrorNotSupported. */
int emu_refuse(const char *function);
int emu_unmodelled(void); /* stores cudaErrorNotSupported as the last error and returns it; in errors.c */

#pragma GCC visibility pop

#define UNMODELLED(function)                                                                                           \
    int function(void);                                                                                                \
    int function(void)                                                                                                 \
    {                                                                                                                  \
        return emu_refuse(#function);                                                                                  \
    }

#endif
