/* registry.c - the list of all proxies. To add a proxy, write a file with its build function and its struct
 * bb_proxy, and add the name of the struct to the list. */
#include "proxies/workloads/registry/registry.h"

#include "bootstrap/base/units.h"
#include "proxies/form/models/profile.h"

#include <ctype.h>
#include <string.h>

#define PROXIES(X)                                                                                                     \
    X(gpt2_large)                                                                                                      \
    X(bert_large)                                                                                                      \
    X(resnet50)                                                                                                        \
    X(resnet50_ring)                                                                                                   \
    X(resnet152)                                                                                                       \
    X(resnet152_scal)                                                                                                  \
    X(cosmoflow)                                                                                                       \
    X(dlrm)                                                                                                            \
    X(gpt3)                                                                                                            \
    X(gpt3_one_pipe_step)                                                                                              \
    X(gpt3_moe)                                                                                                        \
    X(gpt3_moe_one_pipe_step)                                                                                          \
    X(transformer)                                                                                                     \
    X(data_parallel)                                                                                                   \
    X(scaling)                                                                                                         \
    X(layer_parallel)                                                                                                  \
    X(spatial)                                                                                                         \
    X(gems)

#define DECLARE(name) extern const struct bb_proxy bb_##name##_proxy;
#define ROW(name)     &bb_##name##_proxy,
PROXIES(DECLARE)

const struct bb_proxy *const bb_proxies[] = {PROXIES(ROW)};
const int bb_n_proxies = sizeof(bb_proxies) / sizeof(bb_proxies[0]);

static const struct bb_proxy *find_proxy(const char *name)
{
    for (int i = 0; i < bb_n_proxies; i++)
        if (strcmp(bb_proxies[i]->name, name) == 0)
            return bb_proxies[i];
    return NULL;
}

bool bb_proxy_exists(const char *name)
{
    return find_proxy(name) != NULL;
}

const char *bb_proxy_name_at(size_t i)
{
    return i < (size_t)bb_n_proxies ? bb_proxies[i]->name : NULL;
}

bool bb_proxy_find_subject(const char *word, struct bb_opt_subject *subject)
{
    const struct bb_proxy *p = find_proxy(word);

    if (p)
        *subject = (struct bb_opt_subject){p->name, p->help, p->positional, p->features | BB_FEATURE_STEP};
    return p != NULL;
}

const struct bb_proxy *bb_proxy_find(const char *name)
{
    const struct bb_proxy *p = find_proxy(name);

    if (!p && bb_reject_foreign_program(name, "") == 0 && bb_model_reject_hub(name) == 0)
        bb_reject_unknown_at("proxy", name, bb_proxy_name_at);
    return p;
}

bool bb_proxy_supports_compute(const struct bb_proxy *p, const char *compute)
{
    if (!compute || strcmp(compute, "none") == 0)
        return true;
    return p->features & (strcmp(compute, "gemm") == 0 ? BB_FEATURE_GEMM : BB_FEATURE_TIMED);
}

/* Resets options that say what is true for a proxy without these options: sizes of 1 along an axis of parallelism that
 * the proxy does not have, so that one command line fits all proxies of a study. */
static void ignore_ones(struct bb_proxy_config *c, unsigned features)
{
    const struct {
        int *value;
        unsigned contradicts; /* features of proxies with this axis, whose size is above 1 */
    } options[] = {
        {&c->micro_batches, 0},
        {&c->transformer.tp, BB_FEATURE_OWN_AXES},
        {&c->transformer.pp, BB_FEATURE_STAGES},
        {&c->transformer.cp, 0},
        {&c->transformer.ep, BB_FEATURE_OWN_AXES},
        {&c->transformer.etp, BB_FEATURE_OWN_AXES},
        {&c->transformer.vpp, 0},
        {&c->tiles.fused_layers, 0},
        {&c->tiles.local_dp, 0},
    };

    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (*options[i].value == 1 && !(options[i].contradicts & features))
            *options[i].value = 0;
}

const char *bb_proxy_unsupported_option(const struct bb_proxy_config *c, const struct bb_positionals *line,
                                        unsigned features)
{
    static const struct bb_opt_table tables[] = {BB_STEP_TABLES(0), {0}};
    struct bb_proxy_config given = *c;

    ignore_ones(&given, features);
    return bb_opts_find_unsupported(tables, &given, line, features);
}

/* Returns the option of this proxy that sets the same as `unsupported`, without dashes; NULL: none. */
static const char *find_equivalent(const struct bb_proxy *p, const char *unsupported)
{
    static const struct {
        const char *option, *equivalent;
        unsigned feature;
    } pairs[] = {{"batch", "micro-batch-size", BB_FEATURE_MICRO_BATCH_SIZE},
                 {"micro-batch-size", "batch", BB_FEATURE_SCALING}};

    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (unsupported && strcmp(unsupported, pairs[i].option) == 0 && p->features & pairs[i].feature)
            return pairs[i].equivalent;
    return NULL;
}

/* Reject options, and a value of --compute, that the proxy does not support: print an error line and return
 * -BB_EUSAGE. */
static int validate_features(const struct bb_proxy *p, const struct bb_proxy_config *c,
                             const struct bb_positionals *line)
{
    const char *unsupported = bb_proxy_unsupported_option(c, line, p->features | BB_FEATURE_STEP);
    const struct bb_foreign_name *similar =
        unsupported ? bb_foreign_find(bb_foreign_options, unsupported, strlen(unsupported)) : NULL;
    const char *equivalent = find_equivalent(p, unsupported);
    const char *hint = similar                                                       ? similar->text
                       : unsupported && strcmp(unsupported, "micro-batch-size") == 0 ? "the proxy sets its own batch"
                                                                                     : NULL;

    if (!bb_proxy_supports_compute(p, c->compute))
        return bb_err(BB_EUSAGE, "%s: this proxy does not support --compute %s, expected none%s%s", p->name, c->compute,
                      p->features & BB_FEATURE_TIMED ? " or timed" : "",
                      p->features & BB_FEATURE_GEMM ? " or gemm" : "");
    if (equivalent)
        return bb_err(BB_EUSAGE, "%s: --%s is --%s here", p->name, unsupported, equivalent);
    if (unsupported)
        return bb_err(BB_EUSAGE, "%s: this proxy does not support --%s%s%s", p->name, unsupported, hint ? "; " : "",
                      hint ? hint : "");
    return 0;
}

/* Reject --forward-us, --backward-us and --tflops without timed kernels, to which alone they apply. */
static int validate_times(const struct bb_proxy_config *c)
{
    const char *option = c->forward_us > 0    ? "--forward-us"
                         : c->backward_us > 0 ? "--backward-us"
                         : c->tflops > 0      ? "--tflops"
                                              : NULL;

    if (!option || strcmp(c->compute, "timed") == 0)
        return 0;
    return bb_err(BB_EUSAGE, "%s: %s sets the duration of timed kernels, but --compute is %s; try: --compute timed",
                  c->proxy, option, c->compute);
}

/* Reject --global-batch-size together with --micro-batches: the global batch size determines the number of
 * micro-batches. */
static int validate_batch(const struct bb_proxy_config *c)
{
    if (!c->global_batch || !c->micro_batches)
        return 0;
    return bb_err(BB_EUSAGE,
                  "%s: --global-batch-size %d determines the number of micro-batches, but --micro-batches %d is also "
                  "given; leave one out",
                  c->proxy, c->global_batch, c->micro_batches);
}

/* Reject a list in --micro-batch-size, which requires a proxy whose replicas may have batches of different sizes. */
static int validate_batch_list(const struct bb_proxy *p, const struct bb_proxy_config *c)
{
    if (!c->micro_batch_sizes || (p->features & BB_FEATURE_IMAGES))
        return 0;
    return bb_err(BB_EUSAGE,
                  "%s: --micro-batch-size %s: this proxy requires one size for all replicas; try: "
                  "--micro-batch-size %d",
                  c->proxy, c->micro_batch_sizes, c->micro_batch_size);
}

/* Rejects an argument of a proxy without positional ones: the name of a model, or the unit of the number before it
 * ("--tokens 1 B"), among others. */
static int reject_positional(const struct bb_proxy *p, const char *word)
{
    const bool takes_model = p->features & BB_FEATURE_MODEL;
    const char *model = takes_model ? bb_model_of_hub(word) : NULL;

    for (size_t i = 0; takes_model && !model && bb_model_name_at(i); i++)
        model = bb_is_same_name(bb_model_name_at(i), word, strlen(word)) ? bb_model_name_at(i) : NULL;
    if (model)
        return bb_err(BB_EUSAGE, "%s: unexpected argument '%s'; try: %s --model %s", p->name, word, p->name, model);
    return bb_err(BB_EUSAGE, "%s: unexpected argument '%s'; %s", p->name, word,
                  word[0] && !word[1] && isalpha((unsigned char)word[0])
                      ? "a unit follows its number without a blank, as in 1B"
                      : "this proxy has no positional arguments");
}

int bb_proxy_configure(struct bb_proxy_config *config, const struct bb_positionals *positionals,
                       const struct bb_proxy **proxy)
{
    int rc;

    if (positionals->n < 1)
        return bb_err(BB_EUSAGE, "no proxy given%s; 'busbar list proxies' lists the proxies",
                      config->model ? " (--model of a language model: transformer)" : "");
    *proxy = bb_proxy_find(positionals->word[0]);
    if (!*proxy)
        return -BB_EUSAGE;
    config->proxy = (*proxy)->name;
    config->variant = (*proxy)->variant;
    if (positionals->n > 1 && !(*proxy)->parse_positionals)
        return reject_positional(*proxy, positionals->word[1]);
    if (positionals->n > 1)
        TRY((*proxy)->parse_positionals(config, positionals->word + 1, positionals->n - 1));
    TRY(validate_features(*proxy, config, positionals));
    TRY(validate_batch(config));
    TRY(validate_batch_list(*proxy, config));
    config->dtype = config->dtype ? config->dtype : (*proxy)->dtype ? (*proxy)->dtype : "float";
    config->compute = config->compute ? config->compute : (*proxy)->compute;
    TRY(validate_times(config));
    rc = (*proxy)->defaults ? (*proxy)->defaults(config) : 0;
out:
    return rc;
}
