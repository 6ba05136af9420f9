/*
 * smoke.h - every proxy in its smallest form for the ranks that there are: `busbar proxy all --quick`. Pure.
 */
#ifndef BB_PROXIES_REGISTRY_SMOKE_H
#define BB_PROXIES_REGISTRY_SMOKE_H

#include "proxies/author/proxy.h"

#define BB_SMOKE_SCALE 0.001 /* of all counts, unless the user says another */

/*
 * bb_smoke_fit - the smallest form of the proxy for base->ranks ranks: the fewest stages that they allow, a layer in
 * each, two micro-batches, where it takes such numbers. base holds the user's options; --compute is left out where the
 * proxy does not know it. 0 with *config and *step made, or -BB_EUSAGE when no form fits these ranks, without a word.
 */
int bb_smoke_fit(const struct bb_proxy *proxy, const struct bb_proxy_config *base, struct bb_proxy_config *config,
                 struct bb_step *step) BB_MUST_CHECK;

/* bb_smoke_nearest_ranks - the number of ranks next to base->ranks that the proxy has a form for; 0: none up to twice as many
 * and 256. */
int bb_smoke_nearest_ranks(const struct bb_proxy *proxy, const struct bb_proxy_config *base);

/* bb_smoke_validate - options that cannot hold for all proxies alike: said, -BB_EUSAGE; else 0. */
int bb_smoke_validate(const struct bb_proxy_config *config) BB_MUST_CHECK;

#endif
