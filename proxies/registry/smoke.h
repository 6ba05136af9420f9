/*
 * smoke.h - the smallest step of every proxy for the available ranks, for `busbar proxy all --quick`.
 */
#ifndef BB_PROXIES_REGISTRY_SMOKE_H
#define BB_PROXIES_REGISTRY_SMOKE_H

#include "proxies/author/proxy.h"

#define BB_SMOKE_SCALE 0.001 /* default of --scale-counts in such steps */

/*
 * bb_smoke_fit - find the smallest configuration of a proxy for base->ranks ranks: the fewest stages that fit, one
 * layer per stage, two micro-batches, as far as the proxy supports these options.
 *   base     the user's options; --compute is dropped if the proxy does not support it
 *   config   out
 *   step     out: the step, which the caller releases
 *   Returns  0, or -BB_EUSAGE, without an error line, when no configuration fits these ranks
 */
int bb_smoke_fit(const struct bb_proxy *proxy, const struct bb_proxy_config *base, struct bb_proxy_config *config,
                 struct bb_step *step) BB_MUST_CHECK;

/* bb_smoke_nearest_ranks - return the number of ranks nearest to base->ranks for which the proxy has a
 * configuration, searching a distance of base->ranks + 256; 0: none. */
int bb_smoke_nearest_ranks(const struct bb_proxy *proxy, const struct bb_proxy_config *base);

/* bb_smoke_validate - reject options that not every proxy supports: -BB_EUSAGE after an error line, else 0. */
int bb_smoke_validate(const struct bb_proxy_config *config) BB_MUST_CHECK;

#endif
