/* spatial.h - what the proxies `spatial` and `gems` have in common. */
#ifndef BB_PROXIES_SPATIAL_SPATIAL_H
#define BB_PROXIES_SPATIAL_SPATIAL_H

#include "proxies/author/proxy.h"

enum {
    BB_TAKES_TILED = BB_TAKES_TILES | BB_TAKES_MODEL | BB_TAKES_LAYERS | BB_TAKES_MICRO_BATCHES |
                     BB_TAKES_MICRO_BATCH_SIZE | BB_TAKES_TIMED | BB_TAKES_GEMM | BB_TAKES_TFLOPS | BB_TAKES_LAYER_US
};

#endif
