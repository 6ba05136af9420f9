/* test_expectation.c - recognises machines by the names that CUDA reports and by their NICs. */
#include "proxies/offline/bench_plan/expectation.h"
#include "tests/check.h"

/* profile: "" if the machine is unknown. gbps: rate per NIC of the recognised machine. */
static const struct row {
    const char *gpu, *profile;
    int ranks_per_node;
    struct bb_nics nics;
    int gpus_per_node, nics_per_node;
    double gbps;
} rows[] = {
    {"NVIDIA H100 80GB HBM3", "h100-sxm-ib", 8, {0, 0}, 8, 8, 48.5},
    {"NVIDIA H100 80GB HBM3", "h100-sxm-ib", 8, {10, 400}, 8, 8, 48.5}, /* two ports for storage */
    {"NVIDIA H100 80GB HBM3", "h100-sxm-ib", 8, {4, 200}, 8, 4, 24.25},
    {"NVIDIA H100 80GB HBM3", "h100-sxm-ib", 4, {8, 400}, 4, 4, 48.5},
    {"NVIDIA A100-SXM4-80GB", "a100-sxm-ib", 8, {8, 200}, 8, 8, 24.3},
    {"NVIDIA A100-SXM4-40GB", "a100-40gb-sxm-ib", 8, {0, 0}, 8, 8, 24.3},
    {"NVIDIA A100 80GB PCIe", "a100-pcie-ib", 8, {0, 0}, 8, 4, 24.3},
    {"NVIDIA H200", "h200-sxm-ib", 8, {0, 0}, 8, 8, 48.5},
    {"NVIDIA B200", "b200-sxm-ib", 8, {8, 400}, 8, 8, 48.5},
    {"NVIDIA GB200", "gb200-nvl72", 4, {4, 400}, 64, 64, 48.5}, /* an NVLink domain of several hosts */
    {"NVIDIA L40S", "l40s-pcie-ib", 8, {0, 0}, 8, 4, 24.3},
    {"NVIDIA GB300", "gb300-nvl72", 4, {4, 800}, 64, 64, 97},
    {"NVIDIA B300 SXM6 AC", "b300-sxm-ib", 8, {8, 800}, 8, 8, 97},
    {"NVIDIA H100 NVL", "h100-nvl-pcie-ib", 8, {0, 0}, 8, 4, 24.3},
    {"NVIDIA H100 PCIe", "h100-pcie-ib", 8, {0, 0}, 8, 4, 24.3},
    {"NVIDIA GH200 120GB", "gh200-quad-ib", 4, {4, 200}, 4, 4, 24.3},
    {"NVIDIA H200 NVL", "", 8, {0, 0}, 0, 0, 0},
    {"NVIDIA GH200 480GB", "gh200-quad-ib", 1, {1, 200}, 1, 1, 24.3},
    {"Tesla V100-SXM2-32GB", "", 8, {0, 0}, 0, 0, 0},
};

static void test_machine_is_recognised_by_gpu_and_nics(void **state)
{
    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        const struct bb_machine_facts facts = {.gpu = rows[i].gpu,
                                               .nics = rows[i].nics,
                                               .ranks = 2 * rows[i].ranks_per_node,
                                               .ranks_per_node = rows[i].ranks_per_node};
        char text[BB_MACHINE_TEXT] = "";
        struct bb_cluster cluster;
        struct bb_machine_nodes nodes;

        assert_int_equal(bb_expectation_machine(&facts, "auto", &cluster, &nodes, text), 0);
        assert_int_equal(cluster.gpus_per_node, rows[i].gpus_per_node);
        if (cluster.gpus_per_node == 0)
            continue;
        assert_memory_equal(text, rows[i].profile, strlen(rows[i].profile));
        assert_int_equal(cluster.nics_per_node, rows[i].nics_per_node);
        assert_true(cluster.inter.gbps == rows[i].gbps);
    }
}

/* Without a section `nccl`, a collective has the rate of one NIC, as in the profile of emulated GPUs. */
static void test_a_profile_without_nccl_states_one_nic_per_collective(void **state)
{
    static const struct {
        const char *profile;
        bool one;
    } rows[] = {{"emulated-default", true}, {"h100-sxm-ib", false}};

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        const struct bb_machine_facts facts = {.gpu = "", .ranks = 16, .ranks_per_node = 8, .concurrent = 8};
        char text[BB_MACHINE_TEXT];
        struct bb_cluster cluster;
        struct bb_machine_nodes nodes;

        assert_int_equal(bb_expectation_machine(&facts, rows[i].profile, &cluster, &nodes, text), 0);
        assert_true((strstr(text, "GB/s per node, of which a collective uses one") != NULL) == rows[i].one);
    }
}

/* Eight GPUs share four NICs of 24.3 GB/s; eight GPUs with a NIC each share none. */
static void test_concurrent_groups_share_nics(void **state)
{
    static const struct {
        const char *profile;
        int ranks_per_node, concurrent;
        double gbps;
    } jobs[] = {{"a100-pcie-ib", 1, 1, 24.3},
                {"a100-pcie-ib", 1, 8, 24.3 / 2},
                {"a100-pcie-ib", 8, 8, 24.3},
                {"h100-sxm-ib", 1, 8, 48.5},
                {"h100-sxm-ib", 2, 8, 48.5}};

    (void)state;
    for (size_t i = 0; i < ROWS(jobs); i++) {
        const struct bb_machine_facts facts = {
            .gpu = "", .ranks = 16, .ranks_per_node = jobs[i].ranks_per_node, .concurrent = jobs[i].concurrent};
        char text[BB_MACHINE_TEXT];
        struct bb_cluster cluster;
        struct bb_machine_nodes nodes;

        assert_int_equal(bb_expectation_machine(&facts, jobs[i].profile, &cluster, &nodes, text), 0);
        assert_true(cluster.inter.gbps == jobs[i].gbps);
    }
}

/* Of a GB200, a host has 4 GPUs, and an NVLink domain 72, of which jobs of a power of two use 64. An emulated node is a domain. */
static void test_nodes_of_an_nvlink_domain(void **state)
{
    static const struct {
        const char *profile;
        bool emulated;
        int ranks, node_ranks, domain_nodes; /* domain_nodes: given */
        int of_domain, gpus_per_node, gpus;
    } jobs[] = {{"gb200-nvl72", false, 144, 4, 0, 18, 18, 4}, {"gb200-nvl72", false, 128, 4, 0, 16, 16, 4},
                {"gb200-nvl72", false, 128, 4, 1, 16, 1, 4},  {"gb200-nvl72", false, 128, 4, 2, 16, 2, 4},
                {"gb200-nvl72", false, 2048, 64, 0, 1, 1, 0}, {"gb200-nvl72", false, 256, 8, 0, 8, 8, 0},
                {"gb200-nvl72", true, 128, 64, 0, 1, 1, 0},   {"gb200-nvl72", true, 4, 2, 0, 1, 1, 4},
                {"h100-sxm-ib", false, 64, 8, 0, 1, 1, 8}};

    (void)state;
    for (size_t i = 0; i < ROWS(jobs); i++) {
        const struct bb_machine_facts facts = {.gpu = "",
                                               .emulated = jobs[i].emulated,
                                               .ranks = 2,
                                               .ranks_per_node = 1,
                                               .concurrent = jobs[i].node_ranks,
                                               .job_ranks = jobs[i].ranks,
                                               .job_ranks_per_node = jobs[i].node_ranks,
                                               .domain_nodes = jobs[i].domain_nodes};
        char text[BB_MACHINE_TEXT];
        struct bb_machine_nodes nodes;
        struct bb_cluster cluster;

        assert_int_equal(bb_expectation_machine(&facts, jobs[i].profile, &cluster, &nodes, text), 0);
        assert_int_equal(nodes.of_domain, jobs[i].of_domain);
        assert_int_equal(cluster.gpus_per_node, jobs[i].gpus_per_node);
        assert_int_equal(nodes.gpus, jobs[i].gpus);
        assert_true((strstr(text, "per NVLink domain") != NULL) == (strcmp(jobs[i].profile, "gb200-nvl72") == 0));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_machine_is_recognised_by_gpu_and_nics),
                                       cmocka_unit_test(test_a_profile_without_nccl_states_one_nic_per_collective),
                                       cmocka_unit_test(test_concurrent_groups_share_nics),
                                       cmocka_unit_test(test_nodes_of_an_nvlink_domain)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
