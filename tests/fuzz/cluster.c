/* cluster.c - cluster profiles (--cluster FILE): parsing, and predictions of collectives and steps. */
#include "proxies/simulation/machine/cluster.h"
#include "proxies/plan_main.h"
#include "tests/fuzz/fuzz.h"

enum { COLLECTIVES = 7 };

/* Predicts a collective, a collective with a slow link, a step, and a step with imbalanced experts. */
static void plan_with(char *path, char *collective)
{
    char *words[] = {"plan", collective, "--ranks", "24", "--cluster", path, "-b", "8", "-e", "512M", "-f", "4096"};
    char *slow[] = {"plan", "all_reduce", "--ranks", "24", "--cluster", path, "--slow", "link=node0-nic0:0.5"};
    char *step[] = {"plan", "dlrm", "--ranks", "12", "--cluster", path, "--compute", "gemm", "--scale-counts", "0.1"};
    char *uneven[] = {"plan", "transformer",     "--model", "mixtral_8x7b", "--layers", "1",         "--ep",
                      "4",    "--moe-imbalance", "1",       "--ranks",      "8",        "--cluster", path};

    (void)bb_plan_main(sizeof words / sizeof *words, words);
    (void)bb_plan_main(sizeof slow / sizeof *slow, slow);
    (void)bb_plan_main(sizeof step / sizeof *step, step);
    (void)bb_plan_main(sizeof uneven / sizeof *uneven, uneven);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char *const collectives[COLLECTIVES] = {"all_reduce", "all_gather", "reduce_scatter", "broadcast",
                                                   "reduce",     "alltoall",   "sendrecv"};
    char *path = fuzz_file(0, data, size);
    struct bb_cluster cluster;

    if (bb_cluster_load(path, &cluster))
        return 0;
    (void)bb_cluster_issue_ns(&cluster, true);
    HOLDS(bb_cluster_self_message_ns(&cluster, 1e6) >= 0);
    HOLDS(bb_cluster_message_ns(&cluster, true, 1e3) >= 0);
    plan_with(path, collectives[size % COLLECTIVES]);
    return 0;
}
