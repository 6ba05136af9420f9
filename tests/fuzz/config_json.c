/* config_json.c - a published config.json of a transformer (--model FILE), and the tensors derived from it. */
#include "proxies/workloads/transformer/arch/arch.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bb_arch arch;

    if (bb_arch_load(fuzz_file(0, data, size), &arch))
        return 0;
    HOLDS(arch.layers > 0 && bb_arch_parameters(&arch) > 0);
    HOLDS(bb_arch_active(&arch) <= bb_arch_parameters(&arch));
    for (int layer = 0; layer < arch.layers && layer < 4; layer++)
        (void)bb_arch_layer_share(&arch, layer, 2, 1, 2);
    return 0;
}
