/* registry.h - the table of proxies, and the functions that turn a command line into the step of a proxy. */
#ifndef BB_PROXIES_REGISTRY_REGISTRY_H
#define BB_PROXIES_REGISTRY_REGISTRY_H

#include "proxies/author/proxy.h"

/* The options shared by all builders. Their offsets are offsets in struct bb_proxy_config. */
extern const struct bb_opt bb_proxy_options[];

/* The option tables that describe a step, for a command whose options contain a struct bb_proxy_config at offset
 * `at`. A proxy accepts an option if it has the features in `needs` (enum bb_proxy_feature) of the option and of the
 * option's table. */
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

bool bb_proxy_exists(const char *name); /* returns whether a proxy has this name; prints no error line */
const char *bb_proxy_name_at(size_t i); /* returns NULL if i is out of range */
const struct bb_proxy *bb_proxy_find(const char *name); /* returns NULL after printing an error line with the nearest
                                                           name if there is no proxy of this name */

/*
 * bb_proxy_configure - select the proxy of a command line and complete its config.
 *   config       in: the parsed options; out: also the proxy, the positional arguments and the proxy's defaults
 *   positionals  the proxy's name, then its positional arguments
 *   proxy        out: the proxy
 *   Returns      0, or -BB_EUSAGE after printing an error line, also for a value given both as argument and as option
 */
int bb_proxy_configure(struct bb_proxy_config *config, const struct bb_positionals *positionals,
                       const struct bb_proxy **proxy) BB_MUST_CHECK;

/* bb_proxy_unsupported_option - return the name of the first given option that needs a feature not in `features`
 * (bits of enum bb_proxy_feature); NULL: no such option. */
const char *bb_proxy_unsupported_option(const struct bb_proxy_config *config, unsigned features);

/* bb_proxy_supports_compute - return whether the proxy supports this value of --compute. NULL (not given) is
 * supported. */
bool bb_proxy_supports_compute(const struct bb_proxy *proxy, const char *compute);

/*
 * bb_step_build - build the step for config->ranks ranks, validate its programs and apply --scale-counts.
 *   Returns  0, -BB_EFAIL, or -BB_EUSAGE after printing an error line for an invalid layout
 *   Owner    the caller releases the step with bb_step_release
 */
int bb_step_build(struct bb_step *step, const struct bb_proxy *proxy,
                  const struct bb_proxy_config *config) BB_MUST_CHECK;

/* Print `busbar list proxies`, `busbar list models` and `busbar list clusters`, with one or two lines per entry.
 * Return 0 or a negative error. */
int bb_list_proxies(FILE *out);
int bb_list_models(FILE *out);
int bb_list_clusters(FILE *out);

#endif
