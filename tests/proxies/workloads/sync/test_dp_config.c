/*
 * test_dp_config.c - defaults of the data-parallel options, which are those of the frameworks (DDP: 1 and 25 MiB;
 * Horovod: 128 MiB, 1 ms; DeepSpeed: 5e8 elements), and the memory formulas of the ZeRO paper.
 */
#include "proxies/workloads/sync/sync.h"
#include "tests/check.h"

#define MIB 1048576.0

static struct bb_dp_config resolved(enum bb_sync_kind kind, struct bb_sync_options options)
{
    const struct bb_proxy_config config = {.proxy = "test", .sync = options};
    struct bb_dp_config got;

    assert_int_equal(bb_sync_resolve(&config, kind, BB_BFLOAT16, BB_FLOAT, &got), 0);
    return got;
}

static void default_bucket_rules(void **state)
{
    static const struct {
        enum bb_sync_kind kind;
        struct bb_sync_options options;
        enum bb_bucket_kind rule;
        double first_bytes, cap_bytes, threshold_bytes, cycle_us, elements;
        size_t pad;
    } rows[] = {
        {BB_SYNC_ALL_REDUCE, {0}, BB_BUCKETS_DDP, MIB, 25 * MIB, 128 * MIB, 1000, 0, 0},
        {BB_SYNC_ALL_REDUCE, {.bucket_mb = 4}, BB_BUCKETS_DDP, 4 * MIB, 4 * MIB, 128 * MIB, 1000, 0, 0},
        {BB_SYNC_ALL_REDUCE, {.first_bucket_mb = 3}, BB_BUCKETS_DDP, 3 * MIB, 25 * MIB, 128 * MIB, 1000, 0, 0},
        {BB_SYNC_ZERO1,
         {.bucket_mb = 4, .first_bucket_mb = 0.5},
         BB_BUCKETS_DDP,
         MIB / 2,
         4 * MIB,
         128 * MIB,
         1000,
         0,
         0},
        {BB_SYNC_ZERO1, {.bucket_rule = "deepspeed"}, BB_BUCKETS_DEEPSPEED, MIB, 25 * MIB, 128 * MIB, 1000, 5e8, 0},
        {BB_SYNC_ZERO2,
         {.bucket_rule = "single", .pad_buckets = true},
         BB_BUCKETS_SINGLE,
         MIB,
         25 * MIB,
         128 * MIB,
         1000,
         0,
         65536},
        {BB_SYNC_HOROVOD,
         {.fusion_threshold = 4096, .cycle_ms = 0.25},
         BB_BUCKETS_FUSION,
         MIB,
         25 * MIB,
         4096,
         250,
         0,
         0},
        {BB_SYNC_HOROVOD, {0}, BB_BUCKETS_FUSION, MIB, 25 * MIB, 128 * MIB, 1000, 0, 0},
        {BB_SYNC_DISTRIBUTED, {0}, BB_BUCKETS_MEGATRON, MIB, 25 * MIB, 128 * MIB, 1000, 0, 0},
        {BB_SYNC_DISTRIBUTED, {.bucket_rule = "ddp"}, BB_BUCKETS_DDP, MIB, 25 * MIB, 128 * MIB, 1000, 0, 0},
        {BB_SYNC_DISTRIBUTED, {.bucket_mb = 2}, BB_BUCKETS_DDP, 2 * MIB, 2 * MIB, 128 * MIB, 1000, 0, 0},
        {BB_SYNC_DISTRIBUTED, {.first_bucket_mb = 2}, BB_BUCKETS_DDP, 2 * MIB, 25 * MIB, 128 * MIB, 1000, 0, 0},
    };

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        const struct bb_bucket_rule rule = resolved(rows[i].kind, rows[i].options).rule;

        print_message("  row %zu\n", i);
        assert_int_equal(rule.kind, rows[i].rule);
        assert_true(rule.first_bytes == rows[i].first_bytes && rule.cap_bytes == rows[i].cap_bytes);
        assert_true(rule.threshold_bytes == rows[i].threshold_bytes && rule.cycle_us == rows[i].cycle_us);
        assert_true(rule.elements == rows[i].elements && rule.pad == rows[i].pad);
    }
}

static void resolves_types_and_optimizers(void **state)
{
    struct bb_dp_config got = resolved(BB_SYNC_ZERO1, (struct bb_sync_options){.zero_reduce = "allreduce"});

    (void)state;
    assert_true(got.params == BB_BFLOAT16 && got.grads == BB_FLOAT && got.optimizer == BB_MEMORY_KERNEL_ADAM &&
                got.reduce_whole);
    got = resolved(BB_SYNC_ZERO1,
                   (struct bb_sync_options){.zero_reduce = "rs", .grad_dtype = "half", .optimizer = "sgd"});
    assert_true(got.params == BB_BFLOAT16 && got.grads == BB_HALF && got.optimizer == BB_MEMORY_KERNEL_SGD &&
                !got.reduce_whole);
    got = resolved(BB_SYNC_HSDP, (struct bb_sync_options){.shard_size = 4, .optimizer = "adam"});
    assert_true(got.options.shard_size == 4 && got.optimizer == BB_MEMORY_KERNEL_ADAM && !got.reduce_whole &&
                !got.options.no_sync);
}

/* Bytes of a million parameters on 8 ranks. With 16-bit parameters Adam needs 4 (float copy) + 8 (moments) bytes per
 * parameter, SGD 4 + 4, adam-8bit 4 + 2 + 8 / 256 (scales), adam-bf16 0 + 4; Megatron-LM's distributed optimizer also needs 4 for a float copy of 16-bit gradients. */
static void memory_matches_the_zero_paper(void **state)
{
    static const struct {
        enum bb_sync_kind kind;
        enum bb_dtype_id params, grads;
        const char *optimizer;
        bool no_sync;
        double parameters, gradients, optimized;
    } rows[] = {
        {BB_SYNC_ALL_REDUCE, BB_HALF, BB_HALF, NULL, false, 2e6, 2e6, 12e6},
        {BB_SYNC_ALL_REDUCE, BB_FLOAT, BB_FLOAT, NULL, false, 4e6, 4e6, 8e6},
        {BB_SYNC_ALL_REDUCE, BB_HALF, BB_FLOAT, "sgd", false, 2e6, 4e6, 8e6},
        {BB_SYNC_ALL_REDUCE, BB_FLOAT, BB_FLOAT, "sgd", false, 4e6, 4e6, 4e6},
        {BB_SYNC_HOROVOD, BB_HALF, BB_HALF, NULL, false, 2e6, 2e6, 12e6},
        {BB_SYNC_ZERO1, BB_HALF, BB_HALF, NULL, false, 2e6, 2e6, 12e6 / 8},
        {BB_SYNC_ZERO2, BB_HALF, BB_HALF, NULL, false, 2e6, 2e6 / 8, 12e6 / 8},
        {BB_SYNC_ZERO2, BB_HALF, BB_HALF, NULL, true, 2e6, 2e6, 12e6 / 8},
        {BB_SYNC_ZERO3, BB_HALF, BB_HALF, NULL, false, 2e6 / 8, 2e6 / 8, 12e6 / 8},
        {BB_SYNC_HSDP, BB_HALF, BB_HALF, NULL, false, 2e6 / 8, 2e6 / 8, 12e6 / 8},
        {BB_SYNC_HSDP, BB_HALF, BB_HALF, NULL, true, 2e6 / 8, 2e6, 12e6 / 8},
        {BB_SYNC_DISTRIBUTED, BB_HALF, BB_FLOAT, NULL, false, 2e6, 4e6, 12e6 / 8},
        {BB_SYNC_DISTRIBUTED, BB_HALF, BB_HALF, NULL, false, 2e6, 2e6, 12e6 / 8},
        {BB_SYNC_PS, BB_FLOAT, BB_FLOAT, NULL, false, 4e6, 4e6, 8e6},
        {BB_SYNC_ALL_REDUCE, BB_BFLOAT16, BB_BFLOAT16, "adam-bf16", false, 2e6, 2e6, 4e6},
        {BB_SYNC_ZERO3, BB_BFLOAT16, BB_BFLOAT16, "adam-bf16", false, 2e6 / 8, 2e6 / 8, 4e6 / 8},
        {BB_SYNC_HSDP, BB_BFLOAT16, BB_FLOAT, "adam-bf16", false, 2e6 / 8, 4e6 / 8, 4e6 / 8},
        {BB_SYNC_ZERO1, BB_HALF, BB_HALF, "adam-8bit", false, 2e6, 2e6, 6031250. / 8},
        {BB_SYNC_ALL_REDUCE, BB_FLOAT, BB_FLOAT, "adam-8bit", false, 4e6, 4e6, 2031250},
    };
    const struct bb_sync_comms comms = {.n = 8};

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        const struct bb_proxy_config config = {.proxy = "test",
                                               .sync = {.optimizer = rows[i].optimizer, .no_sync = rows[i].no_sync}};
        double bytes[BB_USES] = {[BB_USE_GRADIENTS] = 100};
        struct bb_dp_config policy;

        print_message("  row %zu\n", i);
        assert_int_equal(bb_sync_resolve(&config, rows[i].kind, rows[i].params, rows[i].grads, &policy), 0);
        bb_sync_memory(&policy, &comms, 1e6, bytes);
        assert_true(bytes[BB_USE_PARAMETERS] == rows[i].parameters);
        assert_true(bytes[BB_USE_GRADIENTS] == 100 + rows[i].gradients); /* bb_sync_memory adds to the array */
        assert_true(bytes[BB_USE_OPTIMIZER] == rows[i].optimized);
        assert_true(bytes[BB_USE_ACTIVATIONS] == 0 && bytes[BB_USE_COMMUNICATION] == 0);
    }
}

/* Bytes moved for a parameter with a bfloat16 gradient: adam 2 + 2 + 3 x 8 = 28, adam-bf16 2 + 3 x 4 = 14, adam-8bit
 * 2 + 2 + 8 + 2 x 2.03125 = 16.0625. The kernel moves 28 per parameter. */
static void updates_move_the_bytes_of_the_states(void **state)
{
    static const struct {
        const char *optimizer;
        size_t count;
    } rows[] = {{NULL, 448000}, {"adam", 448000}, {"sgd", 448000}, {"adam-bf16", 224000}, {"adam-8bit", 257000}};

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        const struct bb_dp_config p = resolved(BB_SYNC_ZERO3, (struct bb_sync_options){.optimizer = rows[i].optimizer});

        assert_int_equal(bb_sync_update_count(&p, 448000), rows[i].count);
    }
}

/* Each option is accepted for the synchronization kinds that use it and rejected for all others. */
static void options_are_rejected_for_other_kinds(void **state)
{
    static const struct {
        struct bb_sync_options options;
        const char *kinds; /* y or n for each kind, in the order of the enum */
    } rows[] = {
        {{.bucket_rule = "ddp"}, "ynyynnyyyy"},
        {{.bucket_mb = 1}, "ynyynnyyyy"},
        {{.first_bucket_mb = 1}, "ynyynnyyyy"},
        {{.pad_buckets = true}, "ynyynnyyyy"},
        {{.fusion_threshold = 1}, "nynnnnnnnn"},
        {{.cycle_ms = 1}, "nynnnnnnnn"},
        {{.zero_reduce = "rs"}, "nnyynnnnnn"},
        {{.precision_aware = true}, "nnnnnnynnn"},
        {{.precision_aware = true, .optimizer = "adam"}, "nnnnnnynnn"},
        {{.precision_aware = true, .optimizer = "sgd"}, "nnnnnnnnnn"},
        {{.optimizer = "adam-8bit"}, "yyyyyynyyy"},
        {{.optimizer = "adam-bf16"}, "nnnnnnnnnn"}, /* of float parameters */
        {{.hierarchical = true}, "yynnnnnnnn"},
        {{.shard_size = 2}, "nnnnnyynnn"},
        {{.servers = 2}, "nnnnnnnnny"},
        {{.overlap_param_gather = true}, "nnnnnnynnn"},
        {{.own_gather_comm = true}, "nnnnyynnnn"},
        {{.float8_gather = true}, "nnnnyyynnn"},
        {{.no_overlap = true}, "yyynnnyyyy"},
        {{.no_sync = true}, "nnnyyynnnn"},
    };

    (void)state;
    bb_err_mute(true);
    for (size_t i = 0; i < ROWS(rows); i++)
        for (int kind = 0; kind < BB_SYNC_KINDS; kind++) {
            const struct bb_proxy_config config = {.proxy = "test", .sync = rows[i].options};
            struct bb_dp_config policy;

            assert_int_equal(bb_sync_resolve(&config, (enum bb_sync_kind)kind, BB_FLOAT, BB_FLOAT, &policy),
                             rows[i].kinds[kind] == 'y' ? 0 : -BB_EUSAGE);
        }
    bb_err_mute(false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(default_bucket_rules),
        cmocka_unit_test(resolves_types_and_optimizers),
        cmocka_unit_test(memory_matches_the_zero_paper),
        cmocka_unit_test(updates_move_the_bytes_of_the_states),
        cmocka_unit_test(options_are_rejected_for_other_kinds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
