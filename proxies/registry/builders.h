/* builders.h - the builders behind the rows of registry.c; everybody else goes through proxy.h. */
#ifndef BB_PROXIES_REGISTRY_BUILDERS_H
#define BB_PROXIES_REGISTRY_BUILDERS_H

#include "proxies/registry/proxy.h"

#define BB_MOST_LAYERS 1000000 /* of layers, stages, micro-batches */

/* ---- what builders share (args.c) ----------------------------------------------------------------------------- */

/* A positional number: a count from 1. given: the option of the same meaning, 0 unless it was used as well. Returns 0,
 * or -BB_EUSAGE after a line. */
int bb_words_number(const struct bb_proxy_config *config, const char *word, const char *what, int given, int *value);

/* "44" or "44 or 48": the multiples of step around value, at least one of it. Returns text. */
#define BB_MULTIPLES_TEXT 64
const char *bb_multiples(int value, int step, char text[BB_MULTIPLES_TEXT]);

/* bb_refuse_ranks - -BB_EUSAGE after a line with the nearest valid numbers unless step divides the ranks, else 0. */
int bb_refuse_ranks(const struct bb_proxy_config *config, int step, const char *why);

/* bb_world_layout - a layout with the one group "world". Returns the group, or a negative error. */
int bb_world_layout(struct bb_layout *layout, int ranks);

/* ---- the builders ---------------------------------------------------------------------------------------------- */

/* pipeline.c: gpt2_large, bert_large */
int bb_pipeline_words(struct bb_proxy_config *config, const char *const *words, int n);
int bb_pipeline_defaults(struct bb_proxy_config *config);
int bb_pipeline_build(const struct bb_proxy_config *config, struct bb_step *step);

/* data_parallel.c: resnet50, resnet50_ring, resnet152, resnet152_scal */
int bb_data_parallel_build(const struct bb_proxy_config *config, struct bb_step *step);

/* cosmoflow.c, dlrm.c */
int bb_cosmoflow_build(const struct bb_proxy_config *config, struct bb_step *step);
int bb_dlrm_build(const struct bb_proxy_config *config, struct bb_step *step);

/* gpt3.c: gpt3, gpt3_moe, and one_pipe_step of both */
int bb_gpt3_words(struct bb_proxy_config *config, const char *const *words, int n);
int bb_gpt3_defaults(struct bb_proxy_config *config);
int bb_gpt3_build(const struct bb_proxy_config *config, struct bb_step *step);

/* transformer/builder.c: transformer */
int bb_transformer_defaults(struct bb_proxy_config *config);
int bb_transformer_build(const struct bb_proxy_config *config, struct bb_step *step);

/* sync/replicas.c: data_parallel */
int bb_replicas_defaults(struct bb_proxy_config *config);
int bb_replicas_build(const struct bb_proxy_config *config, struct bb_step *step);

/* scaling/builder.c: scaling */
int bb_scaling_defaults(struct bb_proxy_config *config);
int bb_scaling_build(const struct bb_proxy_config *config, struct bb_step *step);

#endif
