/* formula.c - formulas in model files. */
#include "proxies/form/models/formula.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct bb_variable variables[] = {{"h", 1600}, {"layers", 48}, {"v_2", 0}};
    char *text = fuzz_text(data, size);
    double value = 0;

    (void)bb_formula(text, variables, sizeof variables / sizeof *variables, "fuzz", &value);
    free(text);
    return 0;
}
