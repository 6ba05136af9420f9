/*
 * names.h - calls whose names or arguments changed between CUDA 12 and 13, in a form that needs no header of CUDA.
 */
#ifndef EMU_NAMES_H
#define EMU_NAMES_H

#include <stddef.h>

#pragma GCC visibility push(hidden)

/* deps: where to put the address of the array of nodes; edges: where to put NULL. Returns a cudaError_t. */
int emu_capture_info(void *stream, int *status, unsigned long long *id, void **graph, void *deps, void *edges,
                     size_t *n);
int emu_capture_update(void *stream, void *deps, size_t n, unsigned flags);
int emu_graph_add_edges(void *graph, const void *from, const void *to, size_t n);
int emu_node_dependencies(void *node, void *deps, void *edges, size_t *n);
int emu_memory_hint(const char *function, const void *pointer, size_t bytes);

/* A call that is not modelled: says which on stderr, cudaErrorNotSupported. */
int emu_refuse(const char *function);
int emu_unmodelled(void); /* errors.c: remembers and returns that error */

#pragma GCC visibility pop

#define UNMODELLED(function)                                                                                           \
    int function(void);                                                                                                \
    int function(void)                                                                                                 \
    {                                                                                                                  \
        return emu_refuse(#function);                                                                                  \
    }

#endif
