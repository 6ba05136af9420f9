/* baseline.c - result file of an earlier scaling study (--baseline FILE). */
#include "proxies/workloads/registry/registry.h"
#include "proxies/workloads/replicas/scaling.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bb_scaling_baseline baseline;
    struct bb_proxy_config config = {0};
    struct bb_scaling scaling = {.ranks = 4, .batch = 32, .images = 1000, .rank_images = 250, .rounds = 1};

    config.model = "resnet18";
    config.dtype = "float";
    config.scaling.baseline = fuzz_file(0, data, size);
    if (bb_scaling_baseline_load(&config, &scaling, &baseline) == 0)
        HOLDS(baseline.ranks > 0 && baseline.rate > 0 && baseline.step_us > 0);
    return 0;
}
