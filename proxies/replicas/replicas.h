/* replicas.h - the proxy `data_parallel`: a full replica of the model on every rank. The proxy `scaling` uses the
 * same builder. */
#ifndef BB_PROXIES_REPLICAS_REPLICAS_H
#define BB_PROXIES_REPLICAS_REPLICAS_H

#include "bootstrap/base/err.h"
#include "proxies/author/proxy.h"

/* Defaults and builder of `data_parallel`, and the defaults of `scaling` (see struct bb_proxy in author/proxy.h). */
int bb_replicas_defaults(struct bb_proxy_config *config) BB_MUST_CHECK;
int bb_replicas_build(const struct bb_proxy_config *config, struct bb_step *step) BB_MUST_CHECK;
int bb_scaling_defaults(struct bb_proxy_config *config) BB_MUST_CHECK;

#endif
