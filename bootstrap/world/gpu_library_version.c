/* gpu_library_version.c - the GPU library says which busbar it belongs to. */
#include "bootstrap/start/gpu_library.h"

const char bb_gpu_library_version[] = BUSBAR_VERSION;
