/* plan_model.c - plans of a model file, limited to two layers where the proxy allows it, with all outputs. */
#include "proxies/plan_main.h"
#include "tests/fuzz/fuzz.h"

/* given: additional arguments of the proxy, terminated by NULL. */
static void plan(char *proxy, char *model, char *const *given)
{
    char *words[24] = {"plan",        proxy,   "--ranks", "8",         "--model", model,      "--cluster",
                       "h100-sxm-ib", "--ops", "--json",  "/dev/null", "--trace", "/dev/null"};
    int n = 13;

    for (; *given; given++)
        words[n++] = *given;
    (void)bb_plan_main(n, words);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *model = fuzz_file(0, data, size);

    plan("transformer", model, (char *[]){"--tp", "2", "--sequence-parallel", "--layers", "2", NULL});
    plan("data_parallel", model, (char *[]){"--micro-batches", "2", NULL});
    plan("spatial", model, (char *[]){"--splits", "5", NULL});
    return 0;
}
