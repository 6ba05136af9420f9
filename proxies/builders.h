/* builders.h - the builders behind the rows of registry.c; everybody else goes through proxy.h. */
#ifndef BB_PROXIES_BUILDERS_H
#define BB_PROXIES_BUILDERS_H

#include "proxies/proxy.h"

#define BB_MOST_LAYERS 1000000 /* of layers, stages, micro-batches */

/* pipeline.c: gpt2_large, bert_large */
int bb_pipeline_words(struct bb_proxy_config *config, const char *const *words, int n);
int bb_pipeline_defaults(struct bb_proxy_config *config);
int bb_pipeline_build(const struct bb_proxy_config *config, struct bb_step *step);

#endif
