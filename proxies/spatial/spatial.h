/* spatial.h - the builders behind the rows `spatial` and `gems`. */
#ifndef BB_PROXIES_SPATIAL_SPATIAL_H
#define BB_PROXIES_SPATIAL_SPATIAL_H

#include "proxies/registry/proxy.h"

int bb_spatial_build(const struct bb_proxy_config *config, struct bb_step *step);
int bb_gems_build(const struct bb_proxy_config *config, struct bb_step *step);

#endif
