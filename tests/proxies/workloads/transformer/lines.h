/* lines.h - steps from command lines, for tests: lines_make(&step, 16, "transformer --model gpt2_small --tp 2"). */
#ifndef BB_TESTS_LINES_H
#define BB_TESTS_LINES_H

#include "proxies/form/step/config.h"
#include "proxies/workloads/registry/registry.h"
#include "tests/proxies/made.h"

#define LINES_WORDS 64

static const struct bb_opt_table lines_tables[] = {
    {.title = "The step", .opts = bb_proxy_options},
    {.title = "A transformer", .opts = bb_transformer_options, .base = offsetof(struct bb_proxy_config, transformer)},
    {.title = "Data parallelism", .opts = bb_sync_options, .base = offsetof(struct bb_proxy_config, sync)},
    {0},
};
static const struct bb_opts lines_set = {.usage = "test", .tables = lines_tables};

/* Parses the line for a job of `ranks` ranks. Returns 0 or the error. Arguments contain no blanks; config points
 * into a static text that the next call overwrites. */
static inline int lines_read(struct bb_proxy_config *config, const struct bb_proxy **proxy, int ranks, const char *line)
{
    static char text[1024];
    char *argv[LINES_WORDS + 1] = {"test"};
    struct bb_positionals positionals;
    int argc = 1, rc;

    snprintf(text, sizeof(text), "%s", line);
    for (char *word = strtok(text, " "); word && argc < LINES_WORDS; word = strtok(NULL, " "))
        argv[argc++] = word;
    *config = (struct bb_proxy_config){0};
    TRY(bb_opts_parse(&lines_set, config, argc, argv, &positionals, stdout));
    config->ranks = ranks;
    rc = bb_proxy_configure(config, &positionals, proxy);
out:
    return rc;
}

/* Builds the step of the line for `ranks` ranks. Returns 0 or the error. */
static inline int lines_make(struct bb_step *step, int ranks, const char *line)
{
    struct bb_proxy_config config;
    const struct bb_proxy *proxy;
    int rc = lines_read(&config, &proxy, ranks, line);

    *step = (struct bb_step){0};
    return rc ? rc : bb_step_build(step, proxy, &config);
}

#endif
