/* test_replicas.c - steps of `data_parallel`: replicas with batches of different sizes, and synchronized batch norm. */
#include "tests/proxies/workloads/spatial/layouts.h"

#include <math.h>

/* Time of the layers; the optimizer takes the same time with any batch. */
static double compute_us(const struct bb_step *step, int rank)
{
    const struct bb_program *p = bb_step_program(step, rank);
    double us = 0;

    for (size_t i = 0; i < p->n_ops; i++)
        us += p->ops[i].phase <= BB_PHASE_BACKWARD ? p->ops[i].compute_us : 0;
    return us;
}

/* ---- batches of different sizes ---- */

/* Each kind of synchronization reduces the same buckets on all ranks (VALID_LINE checks this), and the list is repeated
 * over the workers. */
static void replicas_compute_their_own_batches(void **state)
{
    static const char *const kinds[] = {"all_reduce", "horovod", "zero2", "zero3", "distributed", "ps"};
    struct bb_step step;

    (void)state;
    for (size_t k = 0; k < ROWS(kinds); k++) {
        VALID_LINE(&step, "data_parallel", .ranks = 4, .micro_batches = 2, .micro_batch_size = 32,
                   .micro_batch_sizes = "32,16", .sync = {.sync = kinds[k]});
        assert_true(step.samples == 2 * (32 + 16 + 32 + 16));
        assert_true(fabs(compute_us(&step, 0) / compute_us(&step, 1) - 2) < 1e-9);
        assert_true(compute_us(&step, 0) == compute_us(&step, 2) && compute_us(&step, 1) == compute_us(&step, 3));
        assert_non_null(strstr(step.summary, "2 x 32,16 samples, gradients weighted by samples"));
        bb_step_release(&step);
    }
}

static void batches_combine_with_nodes_and_servers(void **state)
{
    struct bb_step step;

    (void)state;
    VALID_LINE(&step, "data_parallel", .ranks = 6, .gpus_per_node = 3, .micro_batch_sizes = "4,2,4",
               .sync = {.sync = "all_reduce", .hierarchical = true});
    assert_int_equal(step.n_roles, 4);
    assert_true(step.role_of[0] == step.role_of[3] && step.role_of[2] == step.role_of[5]);
    assert_true(step.role_of[0] != step.role_of[2] && compute_us(&step, 0) == compute_us(&step, 2));
    assert_true(fabs(compute_us(&step, 0) / compute_us(&step, 4) - 2) < 1e-9);
    bb_step_release(&step);
    VALID_LINE(&step, "data_parallel", .ranks = 6, .micro_batch_sizes = "4,2",
               .sync = {.sync = "ps_sharded", .servers = 2});
    assert_true(step.samples == 12 && step.role_of[2] == step.role_of[4] && step.role_of[3] == step.role_of[5]);
    assert_true(fabs(compute_us(&step, 2) / compute_us(&step, 3) - 2) < 1e-9);
    bb_step_release(&step);
}

static void equal_batches_share_a_role(void **state)
{
    struct bb_step step;

    (void)state;
    VALID_LINE(&step, "data_parallel", .ranks = 4, .micro_batch_sizes = "8,8", .global_batch = 64);
    assert_int_equal(step.n_roles, 1);
    assert_null(strstr(step.summary, "weighted"));
    assert_true(step.samples == 64);
    bb_step_release(&step);
}

/* ---- synchronized batch norm ---- */

/* ResNet-50's 53 batch norms by channels: 7 x 64, 8 x 128, 16 x 256, 11 x 512, 7 x 1024, 4 x 2048. PyTorch's
 * SyncBatchNorm gathers 2 C + 1 values in forward and reduces 2 C in backward. */
static void batch_norms_of_resnet50_exchange_statistics(void **state)
{
    const size_t channels = 7 * 64 + 8 * 128 + 16 * 256 + 11 * 512 + 7 * 1024 + 4 * 2048;
    struct bb_step step;

    (void)state;
    VALID_LINE(&step, "data_parallel", .ranks = 4, .micro_batches = 3, .dtype = "bfloat16", .sync = {.sync_bn = true});
    assert_sum(sum_of(&step, 2, BB_OP_COLLECTIVE, "dp", BB_PHASE_FORWARD), 3 * 53, 3 * (2 * channels + 53));
    assert_sum(sum_of(&step, 2, BB_OP_COLLECTIVE, "dp", BB_PHASE_BACKWARD), 3 * 53, 3 * 2 * channels);
    assert_int_equal(sum_of(&step, 2, BB_OP_COLLECTIVE, "dp", BB_PHASE_GRADIENTS).elements, 25557032);
    bb_step_release(&step);
}

/* The forward of a layer precedes the exchange, and its backward follows; every kernel waits for the exchange before. */
static void layers_wait_for_batch_norms(void **state)
{
    const struct bb_program *p;
    struct bb_step step;
    int forward = 0;

    (void)state;
    VALID_LINE(&step, "data_parallel", .ranks = 2, .model = "resnet18_cifar", .sync = {.sync_bn = true});
    p = bb_step_program(&step, 1);
    for (size_t i = 1; i < p->n_ops; i++) {
        const struct bb_op *op = &p->ops[i], *before = &p->ops[i - 1];

        if (op->kind != BB_OP_COLLECTIVE || op->phase == BB_PHASE_GRADIENTS)
            continue;
        assert_int_equal(op->coll, op->phase == BB_PHASE_FORWARD ? BB_ALL_GATHER : BB_ALL_REDUCE);
        assert_int_equal(op->dtype, BB_FLOAT);
        assert_int_equal((op->phase == BB_PHASE_FORWARD ? before : op + 1)->layer, op->layer);
        assert_true((op + 1)->kind == BB_OP_COMPUTE && (op + 1)->waits > 0);
        forward += op->phase == BB_PHASE_FORWARD;
    }
    assert_int_equal(forward, 20);
    bb_step_release(&step);
}

/* AmoebaNet-D has 275 batch norms (test_network.c); with one rank nothing is exchanged. */
static void batch_norms_of_other_networks(void **state)
{
    struct bb_step step;

    (void)state;
    VALID_LINE(&step, "data_parallel", .ranks = 2, .model = "amoebanet_d", .sync = {.sync_bn = true, .sync = "zero1"});
    assert_int_equal(sum_of(&step, 0, BB_OP_COLLECTIVE, "dp", BB_PHASE_FORWARD).calls, 275);
    bb_step_release(&step);
    VALID_LINE(&step, "data_parallel", .ranks = 2, .model = "resnet110_v2", .sync = {.sync_bn = true});
    assert_int_equal(sum_of(&step, 0, BB_OP_COLLECTIVE, "dp", BB_PHASE_BACKWARD).calls, 109);
    bb_step_release(&step);
    VALID_LINE(&step, "data_parallel", .ranks = 1, .sync = {.sync_bn = true});
    assert_int_equal(sum_of(&step, 0, BB_OP_COLLECTIVE, "dp", BB_PHASES).calls, 0);
    bb_step_release(&step);
}

static void rejects_invalid_options(void **state)
{
    static const struct bb_proxy_config rows[] = {
        {.ranks = 3, .micro_batch_sizes = "32,16"},
        {.ranks = 4, .micro_batch_sizes = "32,16", .global_batch = 100},
        {.ranks = 4, .model = "gpt2_small", .sync = {.sync_bn = true}},
        {.ranks = 4, .sync = {.sync_bn = true, .sync = "ps_p2p"}},
        {.ranks = 4, .tiles = {.image_size = 64}},
    };
    struct bb_step step;

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++)
        if (made_line_with(&step, "data_parallel", rows[i]) != -BB_EUSAGE)
            fail_msg("row %zu is not rejected", i);
    assert_int_equal(MADE_LINE(&step, "transformer", .ranks = 2, .model = "gpt2_small", .micro_batch_sizes = "2,1"),
                     -BB_EUSAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replicas_compute_their_own_batches),
        cmocka_unit_test(batches_combine_with_nodes_and_servers),
        cmocka_unit_test(equal_batches_share_a_role),
        cmocka_unit_test(batch_norms_of_resnet50_exchange_statistics),
        cmocka_unit_test(layers_wait_for_batch_norms),
        cmocka_unit_test(batch_norms_of_other_networks),
        cmocka_unit_test(rejects_invalid_options),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
