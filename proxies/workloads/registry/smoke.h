/*
 * smoke.h - find a small training step of every proxy for the available number of ranks, for the smoke test `busbar
 * proxy all --quick`.
 */
#ifndef BB_PROXIES_WORKLOADS_REGISTRY_SMOKE_H
#define BB_PROXIES_WORKLOADS_REGISTRY_SMOKE_H

#include "proxies/form/author/proxy.h"

#define BB_SMOKE_SCALE 0.001 /* default of --scale-counts in the smoke test */

/*
 * bb_smoke_fit - find the smallest valid configuration of a proxy for base->ranks ranks: the minimum number of stages,
 * one layer per stage and two micro-batches. If the proxy has no option for one of these numbers, its default is used.
 *   base     the user's options; --compute is ignored if the proxy does not support it
 *   config   out: the configuration
 *   step     out: the step, which the caller releases
 *   Returns  0; -BB_EUSAGE without printing an error line when no configuration is valid for these ranks; or another
 *            negative error
 */
int bb_smoke_fit(const struct bb_proxy *proxy, const struct bb_proxy_config *base, struct bb_proxy_config *config,
                 struct bb_step *step) BB_MUST_CHECK;

/*
 * bb_smoke_nearest_ranks - return the number of ranks nearest to base->ranks for which bb_smoke_fit succeeds; 0 if
 * bb_smoke_fit fails for all numbers tried: 1 to 2 * base->ranks + 256, except base->ranks itself.
 */
int bb_smoke_nearest_ranks(const struct bb_proxy *proxy, const struct bb_proxy_config *base);

/* bb_smoke_validate - reject options that not every proxy supports. Returns 0, or -BB_EUSAGE after printing an error
 * line. */
int bb_smoke_validate(const struct bb_proxy_config *config, const struct bb_positionals *line) BB_MUST_CHECK;

#endif
