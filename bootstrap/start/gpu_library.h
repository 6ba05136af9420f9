/*
 * gpu_library.h - load the GPU library from the offline tools.
 *
 * The program itself needs no CUDA, NCCL, cuBLASLt or MPI, so plan, list, compare, sweep and every help text run on any
 * machine and start at once. Everything that uses a GPU is in one shared object, libbusbar-gpu.so, which depends on
 * those libraries. Only `bench` and `proxy` load it, after validating their arguments. It uses the functions of the
 * offline tools from the program that loads it, so no function exists twice. Its entry points are found by name.
 *
 * The library is searched next to the program, then in ../lib/busbar relative to the program's folder (installed). Its
 * dependencies are found at their build-time paths, unless LD_LIBRARY_PATH (a module, the emulated GPUs) overrides
 * them.
 */
#ifndef BB_BOOTSTRAP_START_GPU_LIBRARY_H
#define BB_BOOTSTRAP_START_GPU_LIBRARY_H

#include "bootstrap/base/err.h"

/*
 * bb_gpu_library_run - load the GPU library and call one of its entry points. The library stays loaded.
 *   command    command that needs the library, for messages
 *   entry      name of the entry point, called with argc and argv
 *   timeout_s  time limit in seconds for loading the library, and again for the time from then until bb_world_init
 *   Returns    what the entry point returns; -BB_EFAIL after one line that names what is missing and how to get it
 */
int bb_gpu_library_run(const char *command, const char *entry, double timeout_s, int argc, char **argv) BB_MUST_CHECK;

/* Defined in the GPU library: the version that it was built as. */
extern const char bb_gpu_library_version[];

#endif
