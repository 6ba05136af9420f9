/* model_file.c - model files: pipelines, residual networks, tiled networks, replicas. */
#include "proxies/form/models/residual.h"
#include "proxies/form/models/transformer_model.h"
#include "proxies/workloads/replicas/network.h"
#include "proxies/workloads/spatial/net/net.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct bb_net_options as_it_says = {0};
    const char *path = fuzz_file(0, data, size);
    struct bb_residual residual = {0};
    struct bb_network network = {0};
    struct bb_model model = {0};
    struct bb_net net = {0};

    (void)!bb_model_load(path, &model);
    bb_model_release(&model);
    (void)!bb_residual_load(path, &residual);
    bb_residual_release(&residual);
    (void)!bb_network_load(&(struct bb_proxy_config){.model = path}, &network);
    bb_network_release(&network);
    (void)!bb_net_load(path, &as_it_says, &net);
    bb_net_release(&net);
    return 0;
}
