/* gpu_library_version.c - version of the GPU library; must be equal to the version of the program. */
#include "bootstrap/start/gpu_library.h"

const char bb_gpu_library_version[] = BUSBAR_VERSION;
