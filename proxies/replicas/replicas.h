/* replicas.h - a model on every rank, kept equal: the builder of `data_parallel`, which `scaling` uses too. */
#ifndef BB_PROXIES_REPLICAS_REPLICAS_H
#define BB_PROXIES_REPLICAS_REPLICAS_H

#include "bootstrap/base/err.h"
#include "proxies/author/proxy.h"

int bb_replicas_defaults(struct bb_proxy_config *config) BB_MUST_CHECK;
int bb_replicas_build(const struct bb_proxy_config *config, struct bb_step *step) BB_MUST_CHECK;
int bb_scaling_defaults(struct bb_proxy_config *config) BB_MUST_CHECK;

#endif
