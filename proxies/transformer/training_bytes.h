/* training_bytes.h - whether a layout can be, and what training would hold, without writing its programs: for who looks
 * at thousands of them. */
#ifndef BB_PROXIES_TRANSFORMER_TRAINING_BYTES_H
#define BB_PROXIES_TRANSFORMER_TRAINING_BYTES_H

#include "proxies/step/config.h"
#include "proxies/transformer/arch/arch.h"

/* bb_training_load_arch - the model of config, with --layers. 0, or -BB_EUSAGE (said). */
int bb_training_load_arch(const struct bb_proxy_config *config, struct bb_arch *arch) BB_MUST_CHECK;

/* bb_training_bytes - *most = bytes of the rank that holds most, as the roles of the built step say (training_bytes).
 * config has its defaults (bb_proxy_configure); arch is its model. -BB_EUSAGE (said): there is no such layout. */
int bb_training_bytes(const struct bb_proxy_config *config, const struct bb_arch *arch, double *most) BB_MUST_CHECK;

/* bb_training_min_recompute_layers - *layers = the fewest layers of a chunk that are computed again (--recompute full
 * --recompute-num-layers) with which that rank holds no more than gpu_bytes, fewer than all; 0: there are none, and
 * *bytes are those with all. What config says of recomputation is not looked at. */
int bb_training_min_recompute_layers(const struct bb_proxy_config *config, const struct bb_arch *arch, double gpu_bytes,
                              int *layers, double *bytes) BB_MUST_CHECK;

#endif
