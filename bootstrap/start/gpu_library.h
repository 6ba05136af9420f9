/*
 * gpu_library.h - load the GPU library into the offline tools.
 *
 * The program `busbar` links neither CUDA, NCCL, cuBLASLt nor MPI, so plan, list, compare, sweep and every help text
 * run on any machine and start at once. All code that uses a GPU is in the shared object libbusbar-gpu.so, which links
 * those libraries. Only `bench` and `proxy` load it, after they have validated their arguments. The shared object calls
 * the functions of the offline tools in the program that loads it, so no function is linked twice. The program finds
 * the entry points of the shared object by name.
 *
 * The program searches for libbusbar-gpu.so in its own folder, then in ../lib/busbar relative to that folder (an
 * installed busbar). The dynamic linker finds the dependencies of libbusbar-gpu.so at their build-time paths, unless
 * LD_LIBRARY_PATH contains other versions (set by an environment module, or for the emulated GPUs).
 */
#ifndef BB_BOOTSTRAP_START_GPU_LIBRARY_H
#define BB_BOOTSTRAP_START_GPU_LIBRARY_H

#include "bootstrap/base/err.h"

/*
 * bb_gpu_library_run - load the GPU library and call one of its entry points. The library stays loaded.
 *   command    command that needs the library, for messages
 *   entry      name of the entry point, which is called with argc and argv
 *   timeout_s  time limit in seconds for loading the library, and the same limit again from then until bb_world_init
 *   Returns    the return value of the entry point, or -BB_EFAIL after printing one error line that names the missing
 *              library and how to install it
 */
int bb_gpu_library_run(const char *command, const char *entry, double timeout_s, int argc, char **argv) BB_MUST_CHECK;

/* Version of busbar that the GPU library was built from. Defined in the GPU library. */
extern const char bb_gpu_library_version[];

#endif
