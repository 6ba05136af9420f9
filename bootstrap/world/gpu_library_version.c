/* gpu_library_version.c - the version of the GPU library; must be equal to the program's. */
#include "bootstrap/start/gpu_library.h"

const char bb_gpu_library_version[] = BUSBAR_VERSION;
