/* compare.c - `busbar compare` with result files of busbar and nccl-tests. Two parts: file A and file B. */
#include "collectives/compare/compare.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size), *part[FUZZ_PARTS], *words[5] = {"compare"};

    fuzz_parts(text, part);
    words[1] = fuzz_file(0, part[0], strlen(part[0]));
    words[2] = *part[1] ? fuzz_file(1, part[1], strlen(part[1])) : words[1];
    (void)bb_compare_main(3, words);
    words[3] = "--json=/dev/null";
    (void)bb_compare_main(4, words);
    free(text);
    return 0;
}
