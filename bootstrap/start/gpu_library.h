/*
 * gpu_library.h - the way from the offline tools to the GPU library of busbar.
 *
 * The program itself needs no CUDA, NCCL, cuBLASLt or MPI: plan, list, compare, sweep and every help run without them,
 * at once and anywhere. What touches a GPU is one shared object, libbusbar-gpu.so, which brings those libraries along
 * and is loaded by `bench` and `proxy` alone, after their words were found to be right. It uses the functions of the
 * offline tools from the program that loads it, so there is one of everything. Its functions are found by name.
 *
 * It is looked for beside the program, then in ../lib/busbar of the program's folder (installed). Libraries are found
 * where they were at build time, unless LD_LIBRARY_PATH (a module, the emulated GPUs) says otherwise.
 */
#ifndef BB_BOOTSTRAP_START_GPU_LIBRARY_H
#define BB_BOOTSTRAP_START_GPU_LIBRARY_H

#include "bootstrap/base/err.h"

/*
 * bb_gpu_library_run - load the GPU library and call its `entry` with these words; it stays loaded. command is the name of what
 * wants it, for messages; loading it and all until bb_world_init may take timeout_s. Returns what the entry returns; -BB_EFAIL after one line that names what is missing and how
 * to get it.
 */
int bb_gpu_library_run(const char *command, const char *entry, double timeout_s, int argc, char **argv) BB_MUST_CHECK;

/* In the GPU library: the version that it was built as. */
extern const char bb_gpu_library_version[];

#endif
