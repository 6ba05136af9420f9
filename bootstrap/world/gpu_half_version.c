/* gpu_half_version.c - the GPU half says which busbar it belongs to. */
#include "bootstrap/start/gpu_half.h"

const char bb_gpu_half_version[] = BUSBAR_VERSION;
