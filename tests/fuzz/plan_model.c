/* plan_model.c - whole plans of whatever model a file holds, with every output. */
#include "proxies/plan_main.h"
#include "tests/fuzz/fuzz.h"

static void plan(char *proxy, char *model, char *split)
{
    char *words[] = {"plan",  proxy,    "--ranks",        "8",       "--model",   model,
                     split,   "2",      "--scale-counts", "0.5",     "--cluster", "h100-sxm-ib",
                     "--ops", "--json", "/dev/null",      "--trace", "/dev/null", NULL};

    (void)bb_plan_main(sizeof words / sizeof *words - 1, words);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *model = fuzz_file(0, data, size);

    plan("transformer", model, "--tp");
    plan("data_parallel", model, "--micro-batches");
    plan("spatial", model, "--stages");
    return 0;
}
