/* replicas.h - builder of the proxy `data_parallel`, in which each rank trains a full replica of the model. The
 * proxy `scaling` builds its steps with the same functions. */
#ifndef BB_PROXIES_WORKLOADS_REPLICAS_REPLICAS_H
#define BB_PROXIES_WORKLOADS_REPLICAS_REPLICAS_H

#include "bootstrap/base/err.h"
#include "proxies/form/author/proxy.h"

/*
 * Functions of struct bb_proxy (author/proxy.h):
 *   bb_replicas_defaults  sets the default options of the proxy `data_parallel`
 *   bb_replicas_build     builds the training step of the proxy `data_parallel`
 *   bb_scaling_defaults   sets the default options of the proxy `scaling`
 */
int bb_replicas_defaults(struct bb_proxy_config *config) BB_MUST_CHECK;
int bb_replicas_build(const struct bb_proxy_config *config, struct bb_step *step) BB_MUST_CHECK;
int bb_scaling_defaults(struct bb_proxy_config *config) BB_MUST_CHECK;

#endif
