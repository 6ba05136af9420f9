/* registry.h - the table of proxies, and from the words of a command line to a step. */
#ifndef BB_PROXIES_REGISTRY_REGISTRY_H
#define BB_PROXIES_REGISTRY_REGISTRY_H

#include "proxies/author/proxy.h"

/* The options that are of no builder; offsets are those of struct bb_proxy_config. */
extern const struct bb_opt bb_proxy_options[];

/* The tables of the options that shape a step, for a struct bb_proxy_config that lies at `at`. What a proxy must take
 * (enum bb_proxy_feature) for an option to mean something stands in the option's row, or here for a whole table. */
#define BB_STEP_TABLES(at)                                                                                             \
    {.title = "The step", .opts = bb_proxy_options, .base = (at)},                                                     \
        BB_STEP_TABLE("A transformer", at, transformer, BB_FEATURE_TRANSFORMER),                                       \
        BB_STEP_TABLE("Data parallelism", at, sync, BB_FEATURE_SYNC),                                                  \
        BB_STEP_TABLE("Spatial parallelism and GEMS", at, tiles, BB_FEATURE_TILES),                                    \
        BB_STEP_TABLE("A scaling study", at, scaling, BB_FEATURE_SCALING)
#define BB_STEP_TABLE(text, at, part, bit)                                                                             \
    {                                                                                                                  \
        .title = text, .opts = bb_##part##_options, .base = (at) + offsetof(struct bb_proxy_config, part),             \
        .needs = bit                                                                                                   \
    }

extern const struct bb_proxy *const bb_proxies[];
extern const int bb_n_proxies;

bool bb_proxy_exists(const char *name);                  /* silent */
const char *bb_proxy_name_at(size_t i);                 /* NULL past the end */
const struct bb_proxy *bb_proxy_find(const char *name); /* NULL after an error line with the nearest name */

/*
 * bb_proxy_configure - what the words of a command line mean: the first is the proxy's name, the rest its positional
 * numbers. config holds the options already; a value given both ways is refused. Sets *proxy and config->proxy and
 * fills in the proxy's defaults. Returns 0, or -BB_EUSAGE after a line with the reason and the nearest valid value.
 */
int bb_proxy_configure(struct bb_proxy_config *config, const struct bb_positionals *positionals,
                       const struct bb_proxy **proxy) BB_MUST_CHECK;

/* bb_proxy_unsupported_option - the first option that was given and is none of a proxy that takes these bits (enum bb_proxy_feature); NULL:
 * none. */
const char *bb_proxy_unsupported_option(const struct bb_proxy_config *config, unsigned features);

/* bb_proxy_supports_compute - whether --compute may be this word. NULL: not given. */
bool bb_proxy_supports_compute(const struct bb_proxy *proxy, const char *compute);

/* bb_step_build - the builder's work for config->ranks ranks, and what every step must satisfy whatever its builder
 * did. Layouts that cannot be: said, -BB_EUSAGE. release is fine on a half-built one. */
int bb_step_build(struct bb_step *step, const struct bb_proxy *proxy,
                  const struct bb_proxy_config *config) BB_MUST_CHECK;

/* `busbar list proxies`, `models`, `clusters`: a line or two for every row. Return 0 or a negative error. */
int bb_list_proxies(FILE *out);
int bb_list_models(FILE *out);
int bb_list_clusters(FILE *out);

#endif
