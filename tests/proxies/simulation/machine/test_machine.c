/*
 * test_machine.c - durations of collectives (per NCCL algorithm and protocol), GEMMs (tiles and waves), and fused
 * attention. Expected numbers are closed forms computed independently of the model, and published measurements.
 */
#include "tests/check.h"

#include "proxies/simulation/machine/cluster.h"
#include "proxies/simulation/machine/fabric.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static double collective_us(const struct bb_cluster *c, enum bb_coll_kind kind, double payload, int n, int nodes,
                            const struct bb_nccl_variant **variant)
{
    bool sliced = bb_colls[kind].flags & BB_COLL_SLICED;
    const struct bb_collective call = {.kind = kind,
                                       .dtype = BB_INT8,
                                       .redop = BB_COPY,
                                       .count = (size_t)(sliced ? payload / n : payload),
                                       .ranks = n,
                                       .nodes = nodes};

    return (double)bb_cluster_collective_ns(c, &call, variant) / 1e3;
}

static void assert_near(double actual, double expected, double tolerance)
{
    if (fabs(actual / expected - 1) > tolerance)
        fail_msg("%.6g, expected %.6g within %g", actual, expected, tolerance);
}

/* LogGP model of a ring of 1024 ranks: 2 (P - 1) (L + (S / P - 1) G) with L = 500 ns and G = 1 ns per byte. */
static void ring_latency_matches_loggp(void **state)
{
    const struct bb_cluster c = {.gpus_per_node = 1,
                                 .nics_per_node = 1,
                                 .inter = {.gbps = 1},
                                 .variants = {{BB_NCCL_RING, "Simple", 0, 0.5, 0.5, 1, 1, 0, 0, 0, 0, 0}},
                                 .n_variants = 1};
    struct bb_cluster one_node = c;

    (void)state;
    one_node.gpus_per_node = 1024;
    assert_near(collective_us(&c, BB_ALL_REDUCE, 1 << 28, 1024, 1024, NULL), 537367.578, 1e-4);
    assert_near(collective_us(&one_node, BB_ALL_REDUCE, 1 << 28, 1024, 1, NULL), 537367.578, 1e-4);
    /* a ring has P - 1 latencies, not log P */
    assert_near(collective_us(&c, BB_ALL_REDUCE, 1024, 1024, 1024, NULL), 2 * 1023 * 0.501, 1e-4);
}

/* 16 ranks on two nodes of eight. The NICs of a node carry 800 bytes/us. */
static void each_algorithm_has_its_steps_and_bytes(void **state)
{
    static const struct {
        enum bb_nccl_algorithm algorithm;
        enum bb_coll_kind kind;
        int n, nodes;
        /* 16 kB take 10 us once, 1 us per step inside a node, 100 us per inter-node step; links carry 1000 bytes/us */
        double us;
    } rows[] = {
        {BB_NCCL_RING, BB_ALL_REDUCE, 16, 2, 10 + 28 + 200 + 1.875 * 16000 / 800},
        {BB_NCCL_RING, BB_ALL_GATHER, 16, 2, 10 + 14 + 100 + 0.9375 * 16000 / 800},
        {BB_NCCL_RING, BB_ALL_REDUCE, 8, 1, 10 + 14 + 1.75 * 16000 / 1000},
        {BB_NCCL_TREE, BB_ALL_REDUCE, 16, 2, 10 + 14 + 200 + 2 * 16000.0 / 1000}, /* inter-node: 16000 / 800 */
        {BB_NCCL_TREE, BB_ALL_REDUCE, 64, 8, 10 + 14 + 600 + 2 * 16000.0 / 800},
        {BB_NCCL_NVLS, BB_ALL_REDUCE, 8, 1, 10 + 1 + 1.75 * 16000 / 1000},
        {BB_NCCL_NVLS_TREE, BB_ALL_REDUCE, 32, 4, 10 + 1 + 400 + 2 * 16000.0 / 800},
        {BB_NCCL_PAT, BB_REDUCE_SCATTER, 8, 8, 10 + 300 + 0.875 * 16000 / 100},
        {BB_NCCL_RING, BB_BROADCAST, 8, 1, 10 + 7 + 16000.0 / 1000},
        /* inter-node: 16000 / 800 */
        {BB_NCCL_COLLNET_DIRECT, BB_ALL_REDUCE, 64, 8, 10 + 2 + 100 + 1.96875 * 16000 / 1000},
        {BB_NCCL_COLLNET_CHAIN, BB_ALL_REDUCE, 64, 8, 10 + 14 + 100 + 1.96875 * 16000 / 1000},
        /* a ring would take 1.75 x 16000 / 100 */
        {BB_NCCL_COLLNET_DIRECT, BB_ALL_REDUCE, 8, 8, 10 + 100 + 16000.0 / 100},
    };

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        const struct bb_cluster c = {.gpus_per_node = 8,
                                     .nics_per_node = 4, /* NICs of 0.2 bytes/ns, so 0.1 bytes/ns per GPU */
                                     .inter = {.gbps = 0.2},
                                     .variants = {{rows[i].algorithm, "", 10, 1, 100, 1, 1, 0, 0, 0, 0, 0}},
                                     .n_variants = 1};
        const struct bb_nccl_variant *variant;

        assert_near(collective_us(&c, rows[i].kind, 16000, rows[i].n, rows[i].nodes, &variant), rows[i].us, 1e-6);
        assert_ptr_equal(variant, &c.variants[0]);
    }
}

/* What NCCL's kernels compute for a reduction (hostToDevRedOp in src/enqueue.cc of NCCL 2.30): a scaled sum for averages and
 * for operators of ncclRedOpCreatePreMulSum. */
static const char *kernel_of(int redop)
{
    static const char *const kernels[] = {"sum", "product", "extreme", "extreme", "scaled", "scaled"};

    return kernels[redop];
}

/* The kernels of algorithms that do not support all (func_valid in src/device/generate.py; typeConvert and opConvert of the SHARP
 * plugin, for which CollNet replaces scaled sums by sums). */
static bool has_kernel(enum bb_nccl_algorithm algorithm, int dtype, int redop)
{
    static const struct {
        const char *types, *nvls, *sharp;
    } rows[] = {{"float double", "sum", "sum extreme scaled"}, /* before bfloat16, which contains float */
                {"int32 uint32 int64 uint64 half bfloat16", "sum extreme", "sum extreme scaled"},
                {"int8 uint8", "", "sum extreme scaled"},
                {"f8e4m3 f8e5m2", "", ""}};

    if (algorithm == BB_NCCL_RING || algorithm == BB_NCCL_TREE)
        return true;
    if (algorithm == BB_NCCL_PAT)
        return strcmp(kernel_of(redop), "scaled") != 0;
    for (size_t i = 0; i < ROWS(rows); i++)
        if (strstr(rows[i].types, bb_dtypes[dtype].name))
            return strstr(algorithm <= BB_NCCL_NVLS_TREE ? rows[i].nvls : rows[i].sharp, kernel_of(redop));
    fail_msg("no row for %s", bb_dtypes[dtype].name);
    return false;
}

/* Without reduction each algorithm takes every data type: all_gather with PAT. */
static void algorithms_support_the_data_types_and_reductions_of_nccl(void **state)
{
    const int n_cases = BB_NCCL_ALGORITHMS * BB_DTYPE_COUNT * BB_REDOP_COUNT;

    (void)state;
    for (int i = 0; i < n_cases; i++) {
        const enum bb_nccl_algorithm algorithm = (enum bb_nccl_algorithm)(i % BB_NCCL_ALGORITHMS);
        const bool is_pat = algorithm == BB_NCCL_PAT;
        const int nodes = is_pat ? 16 : algorithm == BB_NCCL_NVLS ? 1 : 2;
        const struct bb_cluster c = {.gpus_per_node = 16 / nodes,
                                     .nics_per_node = 1,
                                     .inter = {.gbps = 1},
                                     .variants = {{algorithm, "Simple", 1, 1, 1, 1, 1, 0, 0, 0, 0, 0}},
                                     .n_variants = 1};
        struct bb_collective call = {.kind = is_pat ? BB_REDUCE_SCATTER : BB_ALL_REDUCE,
                                     .dtype = (enum bb_dtype_id)(i / BB_NCCL_ALGORITHMS % BB_DTYPE_COUNT),
                                     .redop = i / BB_NCCL_ALGORITHMS / BB_DTYPE_COUNT,
                                     .count = 1024,
                                     .ranks = 16,
                                     .nodes = nodes};
        struct bb_cost cost;

        if (bb_cluster_variant_cost(&c, &call, c.variants, &cost) != has_kernel(algorithm, (int)call.dtype, call.redop))
            fail_msg("%s %s %s", bb_nccl_algorithms[algorithm], bb_dtypes[call.dtype].name, bb_redops[call.redop].name);
        call.kind = BB_ALL_GATHER;
        assert_true(!is_pat || bb_cluster_variant_cost(&c, &call, c.variants, &cost));
    }
}

/* A calibrated profile names NVLS, as measured with float, only for reductions that it has. */
static void measured_choices_are_named_where_supported(void **state)
{
    const struct bb_cluster c = {
        .gpus_per_node = 8,
        .nics_per_node = 1,
        .variants = {{BB_NCCL_RING, "Simple", 1, 1, 1, 10, 1, 0, 0, 0, 0, 0},
                     {BB_NCCL_NVLS, "Simple", 1, 1, 1, 1, 1, 0, 0, 0, 0, 0}},
        .n_variants = 2,
        .measured = {{BB_ALL_REDUCE, 8, 1, 1, 1024, 1 << 30, .bytes = {1024}, .factor = {1}, .variant = {2}}},
        .n_measured = 1};

    (void)state;
    for (int redop = 0; redop < BB_REDOP_COUNT; redop++) {
        const struct bb_collective call = {
            .kind = BB_ALL_REDUCE, .dtype = BB_FLOAT, .redop = redop, .count = 1 << 20, .ranks = 8, .nodes = 1};
        const struct bb_nccl_variant *variant;

        bb_cluster_collective_ns(&c, &call, &variant);
        assert_int_equal(variant->algorithm, redop == BB_SUM ? BB_NCCL_NVLS : BB_NCCL_RING);
    }
}

/* 1 GiB in FP8 is faster with the ring, with which more than 8 ranks round too often (updateCollCostTable in
 * src/enqueue.cc). */
static void large_rings_are_the_last_choice_for_fp8(void **state)
{
    static const struct {
        enum bb_dtype_id dtype;
        int ranks;
        enum bb_nccl_algorithm algorithm;
    } rows[] = {{BB_INT8, 9, BB_NCCL_RING}, {BB_F8E4M3, 8, BB_NCCL_RING}, {BB_F8E5M2, 9, BB_NCCL_TREE}};

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        const struct bb_cluster c = {.gpus_per_node = 16,
                                     .nics_per_node = 1,
                                     .variants = {{BB_NCCL_RING, "Simple", 1, 1, 1, 10, 1, 0, 0, 0, 0, 0},
                                                  {BB_NCCL_TREE, "Simple", 1, 1, 1, 1, 1, 0, 0, 0, 0, 0}},
                                     .n_variants = 2};
        struct bb_collective call = {
            .kind = BB_ALL_REDUCE, .dtype = rows[i].dtype, .count = 1 << 30, .ranks = rows[i].ranks, .nodes = 1};
        const struct bb_nccl_variant *variant;

        bb_cluster_collective_ns(&c, &call, &variant);
        assert_int_equal(variant->algorithm, rows[i].algorithm);
        call.kind = BB_BROADCAST;
        bb_cluster_collective_ns(&c, &call, &variant); /* no other algorithm */
        assert_int_equal(variant->algorithm, BB_NCCL_RING);
    }
}

/* With 2 GPUs a round consists of 32 chunks. Each round takes 5 us, and two more rounds fill the pipeline. 1000
 * bytes/us is the bus bandwidth of eight GPUs, whose links carry 9/8 of the array; the links of two GPUs carry 3/2. */
static void nvls_synchronizes_once_per_round(void **state)
{
    static const struct {
        double bytes, round;
    } rows[] = {{1000, 1000},        {3 << 19, 1 << 19},        {(2 << 20) - 4, 1 << 19},
                {2 << 20, 1 << 20},  {(16 << 20) - 4, 1 << 20}, {16 << 20, 2 << 20},
                {256 << 20, 4 << 20}};
    struct bb_cluster c = {.gpus_per_node = 8,
                           .nics_per_node = 8,
                           .variants = {{BB_NCCL_NVLS, "Simple", 10, 1, 0, 1, 1, 5, 0, 0, 0, 0}},
                           .n_variants = 1};

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++)
        assert_near(collective_us(&c, BB_ALL_REDUCE, rows[i].bytes, 2, 1, NULL),
                    10 + 1 + 5 * (ceil(rows[i].bytes / rows[i].round) + 2) +
                        7.0 / 3 * (rows[i].bytes + 2 * rows[i].round) / 1000,
                    1e-6);
    /* Blackwell's channels: 96 MiB are 8 rounds of 64 KiB for each of 8 GPUs; 2 rounds fill the pipeline */
    c.variants[0].channels = 24;
    assert_near(collective_us(&c, BB_ALL_REDUCE, 96 << 20, 8, 1, NULL), 11 + 5 * 10 + 1.75 * (120 << 20) / 1000, 1e-6);
    c.gpus_per_node = 72; /* at most 32 GPUs reduce one part: 96 MiB are 4 rounds of 32 KiB */
    assert_near(collective_us(&c, BB_ALL_REDUCE, 96 << 20, 72, 1, NULL),
                11 + 5 * 6 + 1.75 * (1 + 1 / 72.0) / 1.125 * (144 << 20) / 1000, 1e-6);
}

/* Two nodes of eight: rounds have 128 KiB from 64 MiB on and 64 KiB from 8 MiB on. With four nodes rounds have at
 * most 64 KiB. Two rounds per level of the tree fill the pipeline. The bottleneck is the NICs (400 bytes/us) or the links (1000 bytes/us). */
static void nvls_trees_synchronize_once_per_round(void **state)
{
    static const struct {
        double mib, round_mib;
        int nodes;
        double nic_gbps;
    } rows[] = {{64, 16, 2, 100}, {63, 8, 2, 100}, {8, 8, 2, 100}, {7, 4, 2, 100},
                {64, 8, 4, 100},  {16, 8, 4, 100}, {7, 4, 4, 100}, {64, 16, 2, 0.05}};

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        const double bytes = rows[i].mib * (1 << 20), round = rows[i].round_mib * (1 << 20);
        const double within = 1.75 * bytes / 1000,
                     between = (rows[i].nodes > 2 ? 2 : 1) * bytes / (8e3 * rows[i].nic_gbps);
        const double rounds = ceil(bytes / round), level = log2(rows[i].nodes);
        const struct bb_cluster c = {.gpus_per_node = 8,
                                     .nics_per_node = 8,
                                     .inter = {.gbps = rows[i].nic_gbps},
                                     .variants = {{BB_NCCL_NVLS_TREE, "Simple", 10, 1, 20, 1, 1, 5, 16, 0, 0, 0}},
                                     .n_variants = 1};

        assert_near(collective_us(&c, BB_ALL_REDUCE, bytes, 8 * rows[i].nodes, rows[i].nodes, NULL),
                    11 + 40 * level + fmax(within + 5 * rounds, between) +
                        2 * level * fmax(5 + within * round / bytes, between * round / bytes),
                    1e-6);
    }
}

/* NCCL's treeCorrectionFactor (src/graph/tuning.cc): 64 bytes, 64 KiB, 512 KiB, 32 MiB, and 256 MiB or more. */
static void trees_have_nccls_correction_factor(void **state)
{
    static const struct {
        const char *protocol;
        double bytes, tolerance;
    } rows[] = {{"LL", 64, 1},
                {"LL", 64 << 10, 0.6},
                {"LL", 512 << 10, 0.4},
                {"LL", 32 << 20, 1},
                {"LL128", 512 << 10, 0.6},
                {"LL128", 32 << 20, 0.9},
                {"Simple", 64, 0.9},
                {"Simple", 127, 0.9},
                {"Simple", 512 << 10, 0.5},
                {"Simple", 32 << 20, 0.7},
                {"Simple", 256 << 20, 0.9},
                {"Simple", 512 << 20, 1},
                {"Simple", 32, 1},
                {"unknown", 1 << 20, 1}};

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct bb_cluster c = {.gpus_per_node = 8,
                               .nics_per_node = 8,
                               .variants = {{BB_NCCL_TREE, "", 10, 1, 0, 1, 1, 0, 0, 0, 0, 0}},
                               .n_variants = 1};

        snprintf(c.variants[0].protocol, sizeof(c.variants[0].protocol), "%s", rows[i].protocol);
        assert_near(collective_us(&c, BB_ALL_REDUCE, rows[i].bytes, 8, 1, NULL),
                    24 + 2 * rows[i].bytes / 1000 / rows[i].tolerance, 1e-4);
    }
}

/* Ten channels and 1000 bytes/us: a slice is at most 1 MiB per channel. Between nodes the latency of Simple is 1.4
 * times as long from 64 bytes per rank and channel on. */
static void ring_time_includes_the_last_slice(void **state)
{
    const double mib = 1 << 20, slices = 10 * mib / 1000;
    const struct {
        enum bb_coll_kind kind;
        const char *protocol;
        double bytes;
        int n, nodes;
        double us;
    } rows[] = {{BB_ALL_GATHER, "Simple", 16e3, 2, 1, 11 + 80 + 4},
                {BB_ALL_REDUCE, "LL", 16e3, 8, 1, 24 + 280 + 1},
                {BB_REDUCE_SCATTER, "Simple", 1024 * mib, 8, 1, 17 + 896 * mib / 1000 + slices},
                {BB_BROADCAST, "Simple", 16e3, 8, 1, 17 + 160},
                {BB_ALL_REDUCE, "Simple", 4 * 10 * 64, 4, 2, 1.4 * (10 + 4 + 200) + 38.4 + 0.32},
                {BB_ALL_REDUCE, "Simple", 4 * 10 * 63, 4, 2, 10 + 4 + 200 + 37.8 + 0.315},
                {BB_ALL_REDUCE, "LL128", 4 * 10 * 64, 4, 2, 10 + 4 + 200 + 38.4 + 0.32},
                {BB_ALL_GATHER, "Simple", 16e3, 4, 2, 10 + 2 + 100 + 120 + 2},
                /* one GPU per node: no links inside a node */
                {BB_ALL_GATHER, "Simple", 16e3, 8, 8, 10 + 700 + 140}};

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct bb_cluster c = {.gpus_per_node = rows[i].nodes == 1 ? 8 : rows[i].n / rows[i].nodes,
                               .nics_per_node = 8,
                               .inter = {.gbps = rows[i].nodes == 8 ? 0.125 : 100},
                               .variants = {{BB_NCCL_RING, "", 10, 1, 100, 1, 1, 0, 10, 0, 0, 0}},
                               .n_variants = 1};

        snprintf(c.variants[0].protocol, sizeof(c.variants[0].protocol), "%s", rows[i].protocol);
        assert_near(collective_us(&c, rows[i].kind, rows[i].bytes, rows[i].n, rows[i].nodes, NULL), rows[i].us, 2e-5);
    }
}

/* 10 channels. NCCL uses one per 32 KiB with Simple, per 5 KiB with LL128, per 4 KiB with LL, of a ring with LL times the number
 * of ranks. Bytes per us: 1000. */
static void small_sizes_use_few_channels(void **state)
{
    static const struct {
        enum bb_nccl_algorithm algorithm;
        const char *protocol;
        double bytes, factor;
    } rows[] = {{BB_NCCL_RING, "Simple", 64 << 10, 5},   {BB_NCCL_RING, "Simple", (64 << 10) - 4, 10},
                {BB_NCCL_RING, "LL128", 50 << 10, 1},    {BB_NCCL_RING, "LL128", (50 << 10) - 4, 10.0 / 9},
                {BB_NCCL_RING, "LL", 8 * (20 << 10), 2}, {BB_NCCL_RING, "LL", 64, 10},
                {BB_NCCL_TREE, "LL", 20 << 10, 2 / 0.7}, {BB_NCCL_TREE, "Simple", 512 << 10, 1 / 0.5},
                {BB_NCCL_RING, "Simple", 512 << 20, 1}};

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct bb_cluster c = {.gpus_per_node = 8,
                               .nics_per_node = 8,
                               .variants = {{rows[i].algorithm, "", 0, 0, 0, 1, 1, 0, 10, 0, 0, 0}},
                               .n_variants = 1};
        /* a ring with channels also copies its last slice */
        const double slice = rows[i].algorithm == BB_NCCL_RING ? fmin(rows[i].bytes / 16, 10 << 20) : 0;
        const double bytes = rows[i].bytes * (rows[i].algorithm == BB_NCCL_TREE ? 2 : 7.0 / 4);

        snprintf(c.variants[0].protocol, sizeof(c.variants[0].protocol), "%s", rows[i].protocol);
        assert_near(collective_us(&c, BB_ALL_REDUCE, rows[i].bytes, 8, 1, NULL),
                    (bytes * rows[i].factor + slice) / 1000, 1e-3);
    }
}

/* 16 GPUs on two nodes, a NIC per GPU; at most two NICs are used: 800 bytes over 2 x 100 bytes/us. An alltoall has 8 messages to
 * the other node. */
static void transports_have_nics_and_messages(void **state)
{
    const struct bb_cluster c = {.gpus_per_node = 8,
                                 .nics_per_node = 8,
                                 .intra = {.latency_us = 3, .gbps = 10},
                                 .inter = {.latency_us = 6, .gbps = 0.1, .group_us = 50, .message_us = 2},
                                 .variants = {{BB_NCCL_RING, "", 10, 1, 100, 1, 1, 0, 0, 2, 0, 0}},
                                 .n_variants = 1};

    (void)state;
    assert_near(collective_us(&c, BB_BROADCAST, 800, 16, 2, NULL), 10 + 14 + 100 + 4, 1e-6);
    assert_near(collective_us(&c, BB_ALLTOALL, 16000, 16, 2, NULL), 6 + 50 + 8 * 2 + 80, 1e-6);
    assert_near(collective_us(&c, BB_ALLTOALL, 80000, 8, 1, NULL), 3 + 7, 1e-6);
    assert_near(collective_us(&c, BB_ALLTOALL, 200, 2, 2, NULL), 6 + 1, 1e-6);
}

/* The direction with more messages to other nodes counts. One message in each direction has no group call, as the alltoall of
 * two ranks. */
static void groups_have_a_time_per_message_to_other_nodes(void **state)
{
    const struct bb_cluster c = {.gpus_per_node = 2,
                                 .inter = {.latency_us = 6, .gbps = 1, .group_us = 50, .message_us = 2}};
    static const struct {
        int sends[2], receives[2];
        double us;
    } rows[] = {{{3, 1}, {2, 9}, 56}, {{0, 1}, {2, 0}, 54}, {{1, 1}, {0, 0}, 52}, {{1, 0}, {1, 0}, 0},
                {{1, 0}, {0, 1}, 0},  {{0, 7}, {0, 7}, 0},  {{0, 0}, {0, 0}, 0}};
    struct bb_link_load load = {.out = {0}};

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        memcpy(load.sends, rows[i].sends, sizeof(load.sends));
        memcpy(load.receives, rows[i].receives, sizeof(load.receives));
        assert_true(bb_cluster_group_ns(&c, bb_group_messages(&load)) == rows[i].us * 1e3);
    }
    load = (struct bb_link_load){.out = {0}};
    for (int peer = 0; peer < 6; peer++)
        bb_fabric_add_message(&c, &load, 0, peer, 100.0 * (peer < 5), true); /* the last one is empty */
    assert_int_equal(bb_group_messages(&load), 3);
}

static void alltoall_time_is_that_of_the_busiest_link(void **state)
{
    const struct bb_cluster c = {.gpus_per_node = 8,
                                 .nics_per_node = 8,
                                 .intra = {.latency_us = 3, .gbps = 10},
                                 .inter = {.latency_us = 6, .gbps = 1},
                                 .variants = {{0}},
                                 .n_variants = 1};
    const struct bb_link_load load = {.out = {600, 9000}, .in = {500, 100}};

    (void)state;
    /* 8 slices of 1000 bytes leave the node */
    assert_near(collective_us(&c, BB_ALLTOALL, 16000, 16, 2, NULL), 6 + 8.0, 1e-6);
    /* 7 slices of 10,000 bytes stay on the node */
    assert_near(collective_us(&c, BB_ALLTOALL, 80000, 8, 1, NULL), 3 + 7.0, 1e-6);
    /* the NVLink time; the NIC's 600 ns run concurrently */
    assert_near(bb_cluster_link_load_ns(&c, &load, 8), 900, 1e-9);
}

/* Nodes of four GPUs and two NICs, and six ranks: the second node has two ranks, which share one NIC. Slices have
 * 1000 bytes. */
static void ranks_share_the_nics_of_their_gpus(void **state)
{
    const struct bb_cluster c = {.gpus_per_node = 4,
                                 .nics_per_node = 2,
                                 .intra = {.gbps = 1000},
                                 .inter = {.gbps = 1},
                                 .variants = {{BB_NCCL_RING, "Simple", 0, 0, 0, 1000, 1, 0, 0, 0, 0, 0}},
                                 .n_variants = 1,
                                 .has_sharing = true};
    const int on_each[] = {0, 2, 4, 6, 8}, node_of_member[] = {1, 2, 3, 5};
    struct bb_node_placement placement = {0};

    (void)state;
    /* both ranks send 4 slices over the NIC */
    assert_near(collective_us(&c, BB_ALLTOALL, 6000, 6, 2, NULL), 2 * 4 * 1000 / 1e3, 1e-6);
    assert_near(collective_us(&c, BB_GATHER, 6000, 6, 2, NULL), 2 * 1000 / 1e3, 1e-6); /* the root uses its NIC alone */
    /* the ring enters through this NIC */
    assert_near(collective_us(&c, BB_ALL_GATHER, 6000, 6, 2, NULL), 5 * 1000 / 1e3, 1e-6);
    assert_near(collective_us(&c, BB_ALLTOALL, 8000, 8, 2, NULL), 2 * 4 * 1000 / 1e3, 1e-6);
    assert_near(collective_us(&c, BB_ALLTOALL, 5000, 5, 2, NULL), 4 * 1000 / 1e3, 1e-6); /* rank 4 uses its NIC alone */
    /* the ring uses that NIC alone, too */
    assert_near(collective_us(&c, BB_ALL_GATHER, 5000, 5, 2, NULL), 4 * 1000 / 1e3, 1e-6);
    bb_cluster_placement_of_ranks(&c, on_each, 5, &placement);
    assert_true(placement.min_members == 1 && placement.max_members == 2 && placement.max_members_per_nic == 1);
    bb_cluster_placement_of_ranks(&c, node_of_member, 4, &placement);
    assert_true(placement.min_members == 1 && placement.max_members == 3 && placement.max_members_per_nic == 2);
    assert_int_equal(placement.min_nics, 1); /* of the node of rank 5; ranks 1 to 3 use two */
    assert_near(placement.max_nic_pairs, 3, 1e-9);
}

/* Nodes of four GPUs and three NICs, of which GPUs 0 and 1 share one. Rings and trees use all NICs of the members
 * equally, an alltoall transfers the same bytes for each member. Slices have 3000 bytes. */
static void rings_use_all_nics_of_the_members(void **state)
{
    const struct bb_cluster c = {.gpus_per_node = 4,
                                 .nics_per_node = 3,
                                 .intra = {.gbps = 1000},
                                 .inter = {.gbps = 1},
                                 .variants = {{BB_NCCL_RING, "Simple", 0, 0, 0, 1000, 1, 0, 0, 0, 0, 0}},
                                 .n_variants = 1,
                                 .has_sharing = true};
    static const struct {
        int ranks[8], n, nics, on_nic; /* of the node with the fewest */
        struct bb_nic_members last;
    } rows[] = {{{0, 1, 2, 3, 4, 5, 6, 7}, 8, 3, 2, {4, 3, 1}},
                {{0, 1, 4, 5}, 4, 1, 2, {2, 1, 2}},
                {{0, 2, 4, 6}, 4, 2, 1, {2, 2, 1}},
                {{1, 5}, 2, 1, 1, {1, 1, 1}},
                {{0, 1, 2, 4, 5, 6}, 6, 2, 2, {3, 2, 1}},
                {{2, 3, 4, 5}, 4, 1, 2, {2, 1, 2}}};

    (void)state;
    assert_near(collective_us(&c, BB_ALL_GATHER, 24000, 8, 2, NULL), 7 * 3000 / 3e3, 1e-6);
    assert_near(collective_us(&c, BB_ALL_REDUCE, 24000, 8, 2, NULL), 2 * 7 * 3000 / 3e3, 1e-6);
    assert_near(collective_us(&c, BB_ALLTOALL, 24000, 8, 2, NULL), 2 * 4 * 3000 / 1e3, 1e-6);
    assert_near(collective_us(&c, BB_ALL_GATHER, 21000, 7, 2, NULL), 6 * 3000 / 2e3, 1e-6); /* ranks 4 to 6: two NICs */
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct bb_node_placement placement = {0};
        struct bb_nic_members last;

        bb_cluster_placement_of_ranks(&c, rows[i].ranks, rows[i].n, &placement);
        last = bb_cluster_nic_members(&c, rows[i].ranks, rows[i].n, rows[i].n - 1);
        if (placement.min_nics != rows[i].nics || placement.max_members_per_nic != rows[i].on_nic ||
            memcmp(&last, &rows[i].last, sizeof(last)) != 0)
            fail_msg("row %zu: %d NICs, %d members on one; %d, %d, %d", i, placement.min_nics,
                     placement.max_members_per_nic, last.on_node, last.nics, last.on_nic);
    }
}

/* Four GPUs share two NICs. A GPU that sends alone has one NIC; if its neighbour on the NIC sends too, each has
 * half. Without the contention model a GPU always has half a NIC. */
static void link_load_depends_on_concurrent_senders(void **state)
{
    struct bb_cluster c = {.gpus_per_node = 4,
                           .nics_per_node = 2,
                           .intra = {.gbps = 10},
                           .inter = {.gbps = 1},
                           .variants = {{0}},
                           .n_variants = 1,
                           .has_sharing = true};
    const struct bb_link_load load = {.out = {600}, .in = {500}};

    (void)state;
    assert_near(bb_cluster_link_load_ns(&c, &load, 1), 600, 1e-9);
    assert_near(bb_cluster_link_load_ns(&c, &load, 4), 1200, 1e-9);
    c.has_sharing = false;
    assert_near(bb_cluster_link_load_ns(&c, &load, 1), 1200, 1e-9);
}

/* Published nccl-tests results (see tests/cli/reference_data). Large sizes are predicted within 12 %, small and
 * mixed sizes within a factor of 2.2, because machines and NCCL versions differ. */
static void predictions_match_published_collectives(void **state)
{
    static const struct {
        const char *cluster;
        int nics; /* 0: the value of the profile */
        double nic_gbps;
        enum bb_coll_kind kind;
        double bytes;
        int n, nodes;
        double us, busbw, factor;
    } rows[] = {
        {"a100-sxm-ib", 0, 0, BB_ALL_REDUCE, 64, 8, 1, 32, 0, 2.2},
        {"a100-sxm-ib", 0, 0, BB_ALL_REDUCE, 1 << 20, 8, 1, 76.7, 0, 2.2},
        {"a100-sxm-ib", 0, 0, BB_ALL_REDUCE, 1 << 30, 8, 1, 8167, 0, 1.12},
        {"a100-40gb-sxm-ib", 4, 12.5, BB_ALL_REDUCE, 1 << 30, 16, 2, 35215, 0, 2.2},
        {"h100-sxm-ib", 0, 0, BB_ALL_REDUCE, 8, 8, 1, 13.7, 0, 1.12},
        {"h100-sxm-ib", 0, 0, BB_ALL_REDUCE, 1 << 20, 8, 1, 27.4, 0, 1.12},
        {"h100-sxm-ib", 0, 0, BB_ALL_REDUCE, 2 << 20, 8, 1, 42.2, 0, 1.05}, /* NVLS, one row per chunk size */
        {"h100-sxm-ib", 0, 0, BB_ALL_REDUCE, 4 << 20, 8, 1, 54.2, 0, 1.05},
        {"h100-sxm-ib", 0, 0, BB_ALL_REDUCE, 8 << 20, 8, 1, 83.0, 0, 1.05},
        {"h100-sxm-ib", 0, 0, BB_ALL_REDUCE, 32 << 20, 8, 1, 199.3, 0, 1.05},
        {"h100-sxm-ib", 0, 0, BB_ALL_REDUCE, 64 << 20, 8, 1, 324.7, 0, 1.05},
        {"h100-sxm-ib", 0, 0, BB_ALL_REDUCE, 512 << 20, 8, 1, 2151, 0, 1.05},
        {"h100-sxm-ib", 0, 0, BB_ALL_REDUCE, 1 << 30, 8, 1, 4029, 0, 1.05},
        {"h100-sxm-ib", 0, 0, BB_ALL_REDUCE, 16LL << 30, 8, 1, 62648, 0, 1.05},
        {"h100-sxm-ib", 0, 0, BB_ALL_REDUCE, 64 << 20, 2, 1, 223.4, 0, 1.2}, /* NCCL does not use NVLS for two GPUs */
        {"h100-sxm-ib", 0, 0, BB_ALL_REDUCE, 1 << 30, 2, 1, 2996, 0, 1.05},
        {"h800-sxm-ib", 0, 0, BB_ALL_REDUCE, 16LL << 30, 8, 1, 0, 215, 1.05},
        {"h100-sxm-ib", 0, 0, BB_ALL_GATHER, 16e9, 8, 1, 0, 370, 1.12},
        {"h100-sxm-ib", 0, 0, BB_ALL_REDUCE, 16e9, 32, 4, 0, 366, 1.12},
        {"h100-sxm-ib", 0, 0, BB_ALL_GATHER, 16e9, 256, 32, 0, 200, 2.2},
        {"h200-sxm-ib", 0, 0, BB_ALL_REDUCE, 16e9, 1984, 248, 0, 350, 1.12},
    };

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct bb_cluster c;
        double us, ratio;

        assert_int_equal(bb_cluster_load(rows[i].cluster, &c), 0);
        c.nics_per_node = rows[i].nics ? rows[i].nics : c.nics_per_node;
        c.inter.gbps = rows[i].nics ? rows[i].nic_gbps : c.inter.gbps;
        us = collective_us(&c, rows[i].kind, rows[i].bytes, rows[i].n, rows[i].nodes, NULL);
        ratio = rows[i].us > 0
                    ? us / rows[i].us
                    : bb_colls[rows[i].kind].bus_factor(rows[i].n) * rows[i].bytes / us / 1e3 / rows[i].busbw;
        if (ratio > rows[i].factor || ratio < 1 / rows[i].factor)
            fail_msg("row %zu: %.1f us, %.2f of the published time", i, us, ratio);
    }
}

static void algorithm_and_protocol_depend_on_size(void **state)
{
    const struct bb_nccl_variant *small, *middle, *large, *far;
    struct bb_cluster c;

    (void)state;
    assert_int_equal(bb_cluster_load("h100-sxm-ib", &c), 0);
    collective_us(&c, BB_ALL_REDUCE, 8, 8, 1, &small);
    collective_us(&c, BB_ALL_REDUCE, 4 << 20, 8, 1, &middle);
    collective_us(&c, BB_ALL_GATHER, 1 << 30, 8, 1, &large);
    collective_us(&c, BB_ALL_REDUCE, 8, 1024, 128, &far);
    assert_string_equal(small->protocol, "LL");
    assert_int_equal(middle->algorithm, BB_NCCL_NVLS);
    assert_int_equal(large->algorithm, BB_NCCL_RING);
    assert_string_equal(large->protocol, "Simple");
    assert_int_equal(far->algorithm, BB_NCCL_TREE); /* a ring would have 2046 steps */
}

/* ---- GEMMs and memory-bound kernels: 100 SMs of at most 100 FLOP/ns each, 50 % of 2000 bytes/ns ---- */

static const struct bb_cluster cluster = {
    .sm_count = 100,
    .tflops_bfloat16 = 20,
    .tflops_float8 = 40,
    .memory_gbps = 2000,
    .has_achieved = true,
    .models_training = true,
    .gradient_bytes = 4,
    .achieved = {.gemm = 0.5, .gemm_float8 = 0.5, .attention_forward = 0.5, .attention_backward = 0.25, .memory = 0.5}};

static struct bb_kernel_list_item gemm(int64_t m, int64_t n, int64_t k, int64_t batch)
{
    return (struct bb_kernel_list_item){.name = "", .gemm = {m, n, k, batch, false, false, BB_BFLOAT16}};
}

/* Waves of tiles, each on one SM at 1.2 times 100 FLOP/ns, and half of the time that writes the result. */
static double waves_ns(int waves, int rows, int columns, int k, double rate, double result_bytes)
{
    return waves * 2.0 * rows * columns * k / (120 * rate) + 0.5 * result_bytes / 1000;
}

static void gemms_run_in_waves_of_tiles(void **state)
{
    struct bb_kernel_list_item item = gemm(2560, 2560, 1000, 1);
    const double result = 2 * 2560.0 * 2560;

    (void)state;
    /* 10 x 20 tiles: two full waves, limited by the rate of all SMs */
    assert_near((double)bb_cluster_kernel_ns(&cluster, &item), 1000 * result / 10000 + 0.5 * result / 1000, 1e-5);
    /* 11 x 20 tiles of 256 x 128 would take three waves; 21 x 20 tiles of 128 x 128 take five shorter ones */
    item.gemm.m = 2561;
    assert_near((double)bb_cluster_kernel_ns(&cluster, &item), waves_ns(5, 128, 128, 1000, 0.92, 2 * 2561.0 * 2560),
                1e-5);
    item = gemm(64, 64, 1000, 1); /* one tile on one SM */
    assert_near((double)bb_cluster_kernel_ns(&cluster, &item), waves_ns(1, 64, 64, 1000, 0.6, 2 * 64.0 * 64), 1e-5);
    item = gemm(2560, 2560, 1000, 1);
    item.precision = BB_GEMM_FP8;
    assert_near((double)bb_cluster_kernel_ns(&cluster, &item), 1000 * result / 20000 + 0.5 * result / 1000, 1e-5);
    item = gemm(64, 1000000, 1, 1); /* memory-bound: 2 bytes per element of both operands and the result */
    assert_near((double)bb_cluster_kernel_ns(&cluster, &item), 2 * (64 + 1e6 + 64e6) / 1000, 1e-5);
}

/* Parts of k on idle SMs, whose results of 4 bytes are written and read. */
static void small_results_of_long_sums_are_divided_among_idle_sms(void **state)
{
    struct bb_kernel_list_item item = gemm(64, 64, 4096, 1);
    const double partial_ns = 8 * 64.0 * 64 / 1000, flops = 2 * 64.0 * 147 * 3211264;

    (void)state;
    /* one tile in 8 parts with k = 512 */
    assert_near((double)bb_cluster_kernel_ns(&cluster, &item),
                waves_ns(1, 64, 64, 512, 0.6, 2 * 64.0 * 64) + 8 * partial_ns, 1e-5);
    item.gemm.k = 2047; /* fewer than 4 parts */
    assert_near((double)bb_cluster_kernel_ns(&cluster, &item), waves_ns(1, 64, 64, 2047, 0.6, 2 * 64.0 * 64), 1e-5);
    item = gemm(64, 147, 3211264, 1); /* first convolution of ResNet-50: bound by FLOPs, not by memory */
    assert_in_range(bb_cluster_kernel_ns(&cluster, &item), (uintmax_t)(flops / 10000), (uintmax_t)(3 * flops / 10000));
}

/* A million floats at 50 GB/s; 3.9 parameters per ns on the host, for all 8 GPUs of a node. */
static void kernels_of_the_host_use_its_rates(void **state)
{
    static struct bb_kernel_list w;
    struct bb_cluster c = cluster;

    (void)state;
    c.gpus_per_node = 8;
    c.pcie_gbps = 50;
    bb_kernel_list_host(&w, "copy", BB_ON_HOST_LINK, 1000000, BB_FLOAT);
    bb_kernel_list_host(&w, "Adam", BB_ON_HOST, 3900000, BB_FLOAT);
    assert_int_equal(bb_cluster_kernel_ns(&c, &w.items[0]), 80000);
    assert_int_equal(bb_cluster_kernel_ns(&c, &w.items[1]), 8000000);
}

/* MXFP8 at the rate of FP8, NVFP4 at its own; operands of 0.5 + 1/16 bytes, a result of 2. */
static void block_scaled_gemms_use_their_rate_and_bytes(void **state)
{
    struct bb_kernel_list_item item = gemm(2560, 2560, 1000, 1);
    struct bb_cluster blackwell = cluster;
    const double result = 2 * 2560.0 * 2560;

    (void)state;
    blackwell.tflops_float4 = 80;
    item.precision = BB_GEMM_MXFP8;
    assert_near((double)bb_cluster_kernel_ns(&blackwell, &item), 1000 * result / 20000 + 0.5 * result / 1000, 1e-5);
    item.precision = BB_GEMM_NVFP4;
    assert_near((double)bb_cluster_kernel_ns(&blackwell, &item), 1000 * result / 40000 + 0.5 * result / 1000, 1e-5);
    item.gemm.m = 64;
    item.gemm.n = 1000000;
    item.gemm.k = 1;
    assert_near((double)bb_cluster_kernel_ns(&blackwell, &item), (0.5625 * (64 + 1e6) + 2 * 64e6) / 1000, 1e-5);
    assert_true(bb_cluster_low_precision_tflops(&cluster, BB_GEMM_MXFP8) == 0);
    assert_true(bb_cluster_low_precision_tflops(&cluster, BB_GEMM_FP8) == 40);
}

static void weight_gradients_and_experts_add_their_memory_traffic(void **state)
{
    struct bb_kernel_list_item item = gemm(2560, 2560, 1000, 1);
    struct bb_cluster proxy = cluster, blackwell = cluster; /* cluster: rates of Ampere */
    const double elements = 2560.0 * 2560, work = 2 * 1000 * elements / 10000;

    (void)state;
    blackwell.tflops_bfloat16 *= 100;
    blackwell.achieved.gemm /= 100;
    item.gemm.trans_a = true; /* reads and writes float gradients */
    assert_near((double)bb_cluster_kernel_ns(&cluster, &item), work + 0.5 * 8 * elements / 1000, 1e-5);
    proxy.models_training = false; /* a run of a proxy writes the result in its own type */
    assert_near((double)bb_cluster_kernel_ns(&proxy, &item), work + 0.5 * 2 * elements / 1000, 1e-5);
    item.experts = 1;
    assert_near((double)bb_cluster_kernel_ns(&cluster, &item), work + 0.5 * 8 * elements / 1000, 1e-5);
    item.experts = item.gemm.batch = 8; /* the waves are those of all experts together */
    assert_near((double)bb_cluster_kernel_ns(&cluster, &item), 8 * (work + 0.5 * 8 * elements / 1000), 1e-5);
    assert_near((double)bb_cluster_kernel_ns(&blackwell, &item), 8 * (work + 0.8 * 8 * elements / 1000), 1e-5);
    item.gemm.trans_a = false; /* reads the weights, 2 bytes per element */
    assert_near((double)bb_cluster_kernel_ns(&cluster, &item),
                8 * (work + 0.5 * 2 * 1000 * 2560 / 1000 + 0.5 * 2 * elements / 1000), 1e-5);
    item.precision = BB_GEMM_FP8;
    assert_near((double)bb_cluster_kernel_ns(&cluster, &item),
                8 * (work / 2 + 0.5 * 1000 * 2560 / 1000 + 0.5 * 2 * elements / 1000), 1e-5);
}

/* The 8 experts have 8,011 or 8,005 rows together, 1,001 on average. A proxy runs one GEMM. */
static void one_gemm_with_the_rows_of_experts_takes_the_time_of_a_gemm_per_expert(void **state)
{
    struct bb_kernel_list_item one = gemm(8011, 2560, 1000, 1), each = gemm(1001, 2560, 1000, 8), one_weights = one,
                               each_weights = each;
    struct bb_cluster proxy = cluster;
    int64_t before;

    (void)state;
    one_weights.gemm = (struct bb_gemm_shape){1000, 2560, 8005, 1, true, false, BB_BFLOAT16};
    each_weights.gemm = (struct bb_gemm_shape){1000, 2560, 1001, 8, true, false, BB_BFLOAT16};
    one.experts = each.experts = one_weights.experts = each_weights.experts = 8;
    assert_int_equal(bb_cluster_kernel_ns(&cluster, &one), bb_cluster_kernel_ns(&cluster, &each));
    assert_int_equal(bb_cluster_kernel_ns(&cluster, &one_weights), bb_cluster_kernel_ns(&cluster, &each_weights));
    proxy.models_training = false;
    before = bb_cluster_kernel_ns(&proxy, &one);
    one.experts = 0;
    assert_int_equal(bb_cluster_kernel_ns(&proxy, &one), before);
}

static void fused_attention_is_causal_and_recomputed(void **state)
{
    struct bb_kernel_list_item item = gemm(12800, 12800, 64, 1);
    struct bb_cluster proxy = cluster;
    const double pairs_ns = 2 * 12800.0 * 12800 * 64 / 10000;

    (void)state;
    item.fusion = BB_KERNEL_IN_ATTENTION;
    item.share = 1; /* 100 equal blocks of 128 positions fill the 100 SMs; 0.35 of a block and 16 us are added */
    assert_near((double)bb_cluster_kernel_ns(&cluster, &item), 1.35 * pairs_ns + 16e3, 1e-6);
    item.share = 0.5; /* causal mask: the longest block takes twice the average */
    assert_near((double)bb_cluster_kernel_ns(&cluster, &item), 2 * 0.5 * pairs_ns + 16e3, 1e-6);
    item.gemm.batch = 16;
    assert_near((double)bb_cluster_kernel_ns(&cluster, &item), (16 + 2 * 0.35) * 0.5 * pairs_ns + 16e3, 1e-6);
    item.gemm = (struct bb_gemm_shape){12800, 64, 12800, 16, false, false, BB_BFLOAT16};
    item.fusion = BB_KERNEL_IN_ATTENTION_BACKWARD;
    assert_near((double)bb_cluster_kernel_ns(&cluster, &item), 1.25 * 2 * (16 + 2 * 0.35) * 0.5 * pairs_ns, 1e-6);
    item.gemm.n = 192; /* heads of more than 128 dimensions */
    assert_near((double)bb_cluster_kernel_ns(&cluster, &item), 1.25 * 2 * (16 + 2 * 0.35) * 0.5 * pairs_ns * 3 / 0.85,
                1e-6);
    for (int i = 0; i < 3; i++) { /* heads of at most 64 dimensions, limited by exponentials on Hopper and Blackwell */
        struct bb_cluster generation = cluster;
        const double tflops[] = {312, 989, 2250}, rate[] = {1, 0.7, 0.5};

        item.gemm.n = 64;
        generation.tflops_bfloat16 = tflops[i];
        generation.achieved.attention_backward = 5 / tflops[i];
        assert_near((double)bb_cluster_kernel_ns(&generation, &item),
                    1.25 * 2 * (16 + 2 * 0.35) * 0.5 * pairs_ns / rate[i], 1e-6);
    }
    proxy.models_training = false; /* a proxy run launches this GEMM separately */
    item.gemm = (struct bb_gemm_shape){2560, 2560, 1000, 1, false, false, BB_BFLOAT16};
    assert_near((double)bb_cluster_kernel_ns(&proxy, &item), 2.0 * 2560 * 2560 * (1000.0 / 10000 + 0.5 / 1000), 1e-5);
}

/* Backward of 64 heads of 512 dimensions for 4,096 queries on B200: NVIDIA/cudnn-frontend, pull request 318. */
static void attention_to_listed_keys_takes_the_published_time(void **state)
{
    static const struct {
        int keys;
        double ms;
    } rows[] = {{128, 0.560}, {512, 1.233}, {1024, 2.155}, {2048, 4.019}};
    struct bb_cluster b200 = cluster;

    (void)state;
    b200.tflops_bfloat16 = 2250;
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct bb_kernel_list_item item = gemm(4096, rows[i].keys, 512, 64);

        item.share = 1;
        item.gathered = rows[i].keys;
        item.fusion = BB_KERNEL_IN_ATTENTION_BACKWARD;
        assert_near(4e-6 * (double)bb_cluster_kernel_ns(&b200, &item), rows[i].ms, 0.02);
        item.fusion = BB_KERNEL_IN_ATTENTION; /* 430 TFLOP/s */
        assert_near((double)bb_cluster_kernel_ns(&b200, &item), 2.0 * 4096 * rows[i].keys * 512 * 64 / 430e3, 0.01);
    }
}

static void memory_kernels_take_the_time_of_their_bytes(void **state)
{
    struct bb_kernel_list_item item = {
        .name = "",
        .is_memory_kernel = true,
        .memory_kernel = {.kind = BB_MEMORY_KERNEL_COPY, .dtype = BB_BFLOAT16, .rows = 1000, .cols = 1000}};
    struct bb_cluster nominal = cluster, proxy = cluster, eager = cluster;

    (void)state;
    assert_near((double)bb_cluster_kernel_ns(&cluster, &item), 4e6 / 1000, 1e-6);
    eager.eager = true;
    eager.routed_memory = 0.25;
    assert_near((double)bb_cluster_kernel_ns(&eager, &item), 4e6 / 1000, 1e-6);
    item.routed = true;
    assert_near((double)bb_cluster_kernel_ns(&eager, &item), 4e6 / 250, 1e-6);
    eager.eager = false;
    assert_near((double)bb_cluster_kernel_ns(&eager, &item), 4e6 / 250, 1e-6);
    eager.graphs_fuse_experts = true;
    assert_near((double)bb_cluster_kernel_ns(&eager, &item), 4e6 / 1000, 1e-6);
    assert_near((double)bb_cluster_kernel_ns(&cluster, &item), 4e6 / 1000, 1e-6);
    item.fusion = BB_KERNEL_IN_GEMM;
    assert_int_equal(bb_cluster_kernel_ns(&cluster, &item), 0);
    proxy.models_training = false;
    assert_near((double)bb_cluster_kernel_ns(&proxy, &item), 4e6 / 1000, 1e-6);
    nominal.has_achieved = false;
    assert_near((double)bb_cluster_kernel_ns(&nominal, &item), 4e6 / 2000, 1e-6);
    item = gemm(2561, 2560, 1000, 1);
    assert_near((double)bb_cluster_kernel_ns(&nominal, &item), 2 * 2561.0 * 2560 * 1000 / 20000, 1e-6);
}

/* Kernels of Mamba 2's scan pass their bytes through the SMs, also those of a GEMM, whose result is no weight gradient; with
 * half the SMs they take twice as long, with other memory as long. */
static void scans_take_the_time_of_the_sms(void **state)
{
    struct bb_kernel_list_item states = {
        .name = "",
        .scan = true,
        .is_memory_kernel = true,
        .memory_kernel = {.kind = BB_MEMORY_KERNEL_COPY, .dtype = BB_BFLOAT16, .rows = 1000, .cols = 1000}};
    struct bb_kernel_list_item update = gemm(1000, 2000, 100, 1);
    struct bb_cluster quick = cluster, proxy = cluster;
    bool by_memory = true;
    double ns;

    (void)state;
    update.scan = update.gemm.trans_a = true;
    quick.memory_gbps *= 10;
    ns = (double)bb_cluster_kernel_on_sms_ns(&cluster, &states, cluster.sm_count, &by_memory);
    assert_true(!by_memory && ns > 4e6 / 1000);
    assert_near((double)bb_cluster_kernel_on_sms_ns(&cluster, &states, cluster.sm_count / 2, &by_memory), 2 * ns, 1e-3);
    assert_near((double)bb_cluster_kernel_ns(&quick, &states), ns, 1e-3);
    assert_near((double)bb_cluster_kernel_ns(&cluster, &update), ns * (1000 * 100 + 100 * 2000 + 1000 * 2000) * 2 / 4e6,
                1e-3);
    proxy.models_training = false;
    assert_near((double)bb_cluster_kernel_ns(&proxy, &states), 4e6 / 1000, 1e-3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ring_latency_matches_loggp),
        cmocka_unit_test(each_algorithm_has_its_steps_and_bytes),
        cmocka_unit_test(groups_have_a_time_per_message_to_other_nodes),
        cmocka_unit_test(alltoall_time_is_that_of_the_busiest_link),
        cmocka_unit_test(ranks_share_the_nics_of_their_gpus),
        cmocka_unit_test(rings_use_all_nics_of_the_members),
        cmocka_unit_test(link_load_depends_on_concurrent_senders),
        cmocka_unit_test(predictions_match_published_collectives),
        cmocka_unit_test(algorithms_support_the_data_types_and_reductions_of_nccl),
        cmocka_unit_test(measured_choices_are_named_where_supported),
        cmocka_unit_test(large_rings_are_the_last_choice_for_fp8),
        cmocka_unit_test(nvls_synchronizes_once_per_round),
        cmocka_unit_test(nvls_trees_synchronize_once_per_round),
        cmocka_unit_test(trees_have_nccls_correction_factor),
        cmocka_unit_test(ring_time_includes_the_last_slice),
        cmocka_unit_test(small_sizes_use_few_channels),
        cmocka_unit_test(transports_have_nics_and_messages),
        cmocka_unit_test(algorithm_and_protocol_depend_on_size),
        cmocka_unit_test(gemms_run_in_waves_of_tiles),
        cmocka_unit_test(scans_take_the_time_of_the_sms),
        cmocka_unit_test(small_results_of_long_sums_are_divided_among_idle_sms),
        cmocka_unit_test(kernels_of_the_host_use_its_rates),
        cmocka_unit_test(block_scaled_gemms_use_their_rate_and_bytes),
        cmocka_unit_test(weight_gradients_and_experts_add_their_memory_traffic),
        cmocka_unit_test(one_gemm_with_the_rows_of_experts_takes_the_time_of_a_gemm_per_expert),
        cmocka_unit_test(fused_attention_is_causal_and_recomputed),
        cmocka_unit_test(attention_to_listed_keys_takes_the_published_time),
        cmocka_unit_test(memory_kernels_take_the_time_of_their_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
