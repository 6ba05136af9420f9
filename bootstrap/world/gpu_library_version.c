/* gpu_library_version.c - the GPU half says which busbar it belongs to. */
#include "bootstrap/start/gpu_library.h"

const char bb_gpu_library_version[] = BUSBAR_VERSION;
