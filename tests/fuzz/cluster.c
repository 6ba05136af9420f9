/* cluster.c - a cluster's profile (--cluster FILE), and times by it. */
#include "proxies/simulate/cluster.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct bb_op op = {.kind = BB_OP_COMPUTE};
    struct bb_cluster cluster;

    if (bb_cluster_load(fuzz_file(0, data, size), &cluster))
        return 0;
    (void)bb_cluster_issue_ns(&cluster, true);
    (void)bb_cluster_self_ns(&cluster, 1e6);
    (void)bb_cluster_message_ns(&cluster, true, 1e3);
    HOLDS(bb_cluster_compute_end_ns(&cluster, &op, 0, 0) >= 0);
    return 0;
}
