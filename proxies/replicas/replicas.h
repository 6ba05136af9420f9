/* replicas.h - the proxy `data_parallel`: each rank trains a full replica of the model. The proxy `scaling` builds
 * its steps with the same functions. */
#ifndef BB_PROXIES_REPLICAS_REPLICAS_H
#define BB_PROXIES_REPLICAS_REPLICAS_H

#include "bootstrap/base/err.h"
#include "proxies/author/proxy.h"

/* Implement the functions of struct bb_proxy (author/proxy.h): defaults and builder of `data_parallel`, and defaults
 * of `scaling`. */
int bb_replicas_defaults(struct bb_proxy_config *config) BB_MUST_CHECK;
int bb_replicas_build(const struct bb_proxy_config *config, struct bb_step *step) BB_MUST_CHECK;
int bb_scaling_defaults(struct bb_proxy_config *config) BB_MUST_CHECK;

#endif
