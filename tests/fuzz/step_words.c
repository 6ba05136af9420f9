/* step_words.c - arguments of `busbar proxy` and `busbar plan`, one per line. */
#include "proxies/plan_main.h"
#include "proxies/proxy_main.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size), *word[FUZZ_ARGUMENTS + 1], name[] = "proxy";
    int n = fuzz_arguments(name, text, word);

    (void)bb_proxy_check(n, word);
    (void)bb_plan_check(n, word);
    free(text);
    return 0;
}
