/* registry.h - the list of all proxies, and the functions that turn a command line into the training step of a
 * proxy. */
#ifndef BB_PROXIES_WORKLOADS_REGISTRY_REGISTRY_H
#define BB_PROXIES_WORKLOADS_REGISTRY_REGISTRY_H

#include "proxies/form/author/proxy.h"

#include <jansson.h>

/* The options that are not specific to one proxy or family of proxies. The offset of each option is an offset in
 * struct bb_proxy_config. */
extern const struct bb_opt bb_proxy_options[];

/*
 * The option tables that describe a training step. Macro parameter `at` is the offset of struct bb_proxy_config in the
 * options struct of the command. Each option, and each table, requires a set of proxy features (`needs`, bits of enum
 * bb_proxy_feature). A proxy accepts an option if it has all features that the option and its table require.
 */
#define BB_STEP_TABLES(at)                                                                                             \
    {.title = "The step", .opts = bb_proxy_options, .base = (at)},                                                     \
        BB_STEP_TABLE("A transformer", at, transformer, BB_FEATURE_TRANSFORMER),                                       \
        BB_STEP_TABLE("Data parallelism", at, sync, BB_FEATURE_SYNC),                                                  \
        BB_STEP_TABLE("Layer parallelism, spatial parallelism and GEMS", at, tiles, BB_FEATURE_TILES),                 \
        BB_STEP_TABLE("A scaling study", at, scaling, BB_FEATURE_SCALING)
#define BB_STEP_TABLE(text, at, part, bit)                                                                             \
    {                                                                                                                  \
        .title = text, .opts = bb_##part##_options, .base = (at) + offsetof(struct bb_proxy_config, part),             \
        .needs = bit                                                                                                   \
    }

/* Text for the help of commands that run or plan a step. */
#define BB_LOCK_STEP_NOTE                                                                                              \
    "The stages of gpt2_large and bert_large shift in lock step, as in the published programs: no stage waits for "    \
    "its\n"                                                                                                            \
    "input, so these steps have no pipeline bubble. The stages of gpt3 and transformer depend on each other."

extern const struct bb_proxy *const bb_proxies[];
extern const int bb_n_proxies;

/* Names of options and programs of other tools (foreign_names.c). */
extern const struct bb_foreign_name bb_foreign_options[], bb_foreign_programs[];

/* bb_reject_foreign_program - print an error with the proxy's name if `word`, without folder and extension, is the name
 * of another tool's program. command: what to type before the proxy's name. Returns -BB_EUSAGE after printing the error,
 * else 0. */
int bb_reject_foreign_program(const char *word, const char *command);

/* bb_model_proxy - return the name of the proxy that accepts a shipped model with --model, or that has the model's name;
 * NULL after printing an error if there is no such model. */
const char *bb_model_proxy(const char *model);

bool bb_proxy_exists(const char *name); /* returns whether a proxy has this name; prints no error line */
const char *bb_proxy_name_at(size_t i); /* returns the name of the i-th proxy; NULL after the last proxy */
const struct bb_proxy *bb_proxy_find(const char *name); /* returns NULL after printing an error line, with the
                                                           nearest name, if no proxy has this name */

/* bb_proxy_find_subject - bb_opts.find_subject of commands whose first argument is the name of a proxy. */
bool bb_proxy_find_subject(const char *word, struct bb_opt_subject *subject);

/*
 * bb_proxy_configure - select the proxy of a command line and complete its config.
 *   config       in: the parsed options; out: also the proxy, the positional arguments and the proxy's defaults
 *   positionals  in: the proxy's name, then the proxy's positional arguments
 *   proxy        out: the selected proxy
 *   Returns      0, or -BB_EUSAGE after printing an error line, for example if a value is given both as positional
 *                argument and as option
 */
int bb_proxy_configure(struct bb_proxy_config *config, const struct bb_positionals *positionals,
                       const struct bb_proxy **proxy) BB_MUST_CHECK;

/*
 * bb_proxy_unsupported_option - return the name of the first option in `config` or on the command line `line` that
 * requires a feature that is not in `features` (bits of enum bb_proxy_feature); NULL if there is no such option.
 */
const char *bb_proxy_unsupported_option(const struct bb_proxy_config *config, const struct bb_positionals *line,
                                        unsigned features);

/* bb_proxy_supports_compute - return whether the proxy supports this value of --compute; true for NULL (option not
 * given). */
bool bb_proxy_supports_compute(const struct bb_proxy *proxy, const char *compute);

/*
 * bb_step_build - build the proxy's step for config->ranks ranks, validate its programs and apply --scale-counts.
 *   step     out: the caller releases it with bb_step_release
 *   Returns  0, -BB_EFAIL, or -BB_EUSAGE after printing an error line for an invalid layout
 */
int bb_step_build(struct bb_step *step, const struct bb_proxy *proxy,
                  const struct bb_proxy_config *config) BB_MUST_CHECK;

/* Return the rows of `busbar list`: a new list of JSON objects with the fields of a proxy, a model, an architecture or a cluster; NULL
 * after printing an error line. */
json_t *bb_list_proxies(void);
json_t *bb_list_models(void);
json_t *bb_list_architectures(void);
json_t *bb_list_clusters(void);

#endif
