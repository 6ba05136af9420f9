/* study.c - study files (busbar sweep FILE): combinations, their command lines, and the files of an array job. */
#include "bootstrap/base/environment.h"
#include "bootstrap/sweep/expand.h"
#include "collectives/bench_main.h"
#include "proxies/plan_main.h"
#include "proxies/proxy_main.h"
#include "tests/fuzz/fuzz.h"

static const struct bb_study_command commands[] = {{.name = "bench", .launched = true, .check = bb_bench_check},
                                                   {.name = "proxy", .launched = true, .check = bb_proxy_check},
                                                   {.name = "plan", .check = bb_plan_check}};
static const struct bb_expand_plan plan = {.commands = commands, .n_commands = 3, .max_combinations = 200};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[BB_SETTING_TEXT];
    struct bb_sweep_runs runs = {0};
    struct bb_study study = {0};
    FILE *shell = fopen("/dev/null", "w");

    if (bb_study_load(&study, fuzz_file(0, data, size)) == 0 && bb_expand(&runs, &study, &plan) == 0)
        for (size_t i = 0; i < runs.n; i++) {
            HOLDS(strlen(runs.one[i].id) > 0);
            (void)bb_settings_text(&runs.one[i], text, sizeof text);
            bb_quote_all(&runs.one[i].words, shell);
            for (size_t j = 0; j < runs.one[i].environment.n; j++)
                (void)bb_environment_suggest(runs.one[i].environment.word[j]);
        }
    bb_sweep_runs_release(&runs);
    bb_study_release(&study);
    fclose(shell);
    return 0;
}
