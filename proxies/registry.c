/* registry.c - the table of proxies: a new one is a row here and a builder. */
#include "proxies/builders.h"

#include <string.h>

const struct bb_proxy bb_proxies[] = {
    {.name = "gpt2_large",
     .help = "GPT-2-like transformer: pipeline stages in lock step, data-parallel gradients",
     .positional = "[LAYERS STAGES [MICRO_BATCHES]]",
     .positional_words = bb_pipeline_words,
     .defaults = bb_pipeline_defaults,
     .build = bb_pipeline_build,
     .model = "gpt2_large"},
    {.name = "bert_large",
     .help = "BERT-large: pipeline stages in lock step, data-parallel gradients",
     .positional = "[LAYERS STAGES [MICRO_BATCHES]]",
     .positional_words = bb_pipeline_words,
     .defaults = bb_pipeline_defaults,
     .build = bb_pipeline_build,
     .model = "bert_large"},
};
const int bb_n_proxies = sizeof(bb_proxies) / sizeof(bb_proxies[0]);

const struct bb_proxy *bb_proxy_find(const char *name)
{
    const char *names[sizeof(bb_proxies) / sizeof(bb_proxies[0])];

    for (int i = 0; i < bb_n_proxies; i++) {
        if (strcmp(bb_proxies[i].name, name) == 0)
            return &bb_proxies[i];
        names[i] = bb_proxies[i].name;
    }
    bb_refuse_word("proxy", name, names, (size_t)bb_n_proxies);
    return NULL;
}

int bb_proxy_configure(struct bb_proxy_config *config, const struct bb_words *words, const struct bb_proxy **proxy)
{
    int rc;

    if (words->n < 1)
        return bb_err(BB_EUSAGE, "no proxy named; 'busbar list proxies' shows them");
    *proxy = bb_proxy_find(words->word[0]);
    if (!*proxy)
        return -BB_EUSAGE;
    config->proxy = (*proxy)->name;
    if (words->n > 1 && !(*proxy)->positional_words)
        return bb_err(BB_EUSAGE, "%s takes no numbers, but '%s' is given", config->proxy, words->word[1]);
    if (words->n > 1)
        TRY((*proxy)->positional_words(config, words->word + 1, words->n - 1));
    rc = (*proxy)->defaults ? (*proxy)->defaults(config) : 0;
out:
    return rc;
}
