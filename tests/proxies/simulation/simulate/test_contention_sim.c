/*
 * test_contention_sim.c - concurrent operations share links, NICs, SMs and memory bandwidth. The expected times are
 * computed by hand for machines where a byte takes 1 ns within a node, so 250 floats take 1 us. Also slow parts and
 * jitter.
 */
#include "tests/proxies/simulation/simulate/predicted.h"

#include <math.h>

enum { US = 250 };

/* An all-reduce over two ranks moves its bytes once: 250 floats take 1 us. */
static const struct bb_cluster unperturbed = {.name = "even",
                                              .gpus_per_node = 4,
                                              .sm_count = 100,
                                              .memory_gbps = 1000,
                                              .intra = {.gbps = 1},
                                              .inter = {.gbps = 1},
                                              .has_sharing = true,
                                              .sharing = {20, 2, 0}};

static void predict_and_release(struct bb_step *step, const struct bb_cluster *cluster,
                                const struct bb_conditions *conditions)
{
    predict_keep_step(step, cluster, conditions);
    bb_step_release(step);
}

static void step_is(int rank, double us)
{
    double got = (double)p.classes[p.class_of[rank]].all.step_ns / 1e3;

    if (fabs(got - us) > 1e-3)
        fail_msg("rank %d: %.6g us, expected %.6g", rank, got, us);
}

/* ---- links ---- */

/* Two all-reduces on two communicators; the second begins after later_us of compute. */
static void make_two(struct bb_step *step, double first_us, double second_us, double later_us)
{
    made_init(step, 2, 2);
    for (int r = 0; r < 2; r++) {
        made_reduce(step, r, 0, (size_t)(first_us * US), BB_NONE);
        made_reduce(step, r, 1, (size_t)(second_us * US), made_compute(step, r, later_us, BB_NONE));
    }
}

static void two_collectives_share_a_link(void **state)
{
    struct bb_cluster alone = unperturbed;
    struct bb_step step;

    (void)state;
    make_two(&step, 10, 10, 0);
    predict(&step, &unperturbed);
    step_is(0, 20);
    make_two(&step, 4, 10, 0);
    predict(&step, &unperturbed);
    step_is(1, 14); /* both run at half rate until 8, then the second needs 6 more */
    make_two(&step, 10, 10, 4);
    predict(&step, &unperturbed);
    step_is(0, 20); /* at 4 the first has 6 left and ends at 16; then the second has 4 left */
    assert_int_equal(p.bottleneck.comm_slowed_ns, 6000 + 6000);
    make_two(&step, 10, 10, 25);
    predict(&step, &unperturbed);
    step_is(0, 35); /* the second begins after the first has ended */
    assert_int_equal(p.bottleneck.comm_slowed_ns, 0);
    alone.has_sharing = false;
    make_two(&step, 10, 10, 0);
    predict(&step, &alone);
    step_is(0, 10);
}

static void messages_share_one_direction(void **state)
{
    struct bb_step step;

    (void)state;
    made_init(&step, 3, 2); /* both messages into rank 0 */
    made_recv(&step, 0, 0, 1, 10 * US);
    made_recv(&step, 0, 1, 2, 10 * US);
    made_send(&step, 1, 0, 0, 10 * US);
    made_send(&step, 2, 1, 0, 10 * US);
    predict(&step, &unperturbed);
    for (int r = 0; r < 3; r++)
        step_is(r, 20);
    made_init(&step, 2, 2); /* one message in each direction */
    made_send(&step, 0, 0, 1, 10 * US);
    made_recv(&step, 0, 1, 1, 10 * US);
    made_recv(&step, 1, 0, 0, 10 * US);
    made_send(&step, 1, 1, 0, 10 * US);
    predict(&step, &unperturbed);
    step_is(0, 10);
}

/* Ranks 0 and 1 on one node, 2 and 3 on the other, each node with 1 or 2 NICs. */
static void two_gpus_share_a_nic(void **state)
{
    struct bb_cluster nodes = unperturbed;

    (void)state;
    nodes.gpus_per_node = 2;
    nodes.variants[0] = (struct bb_nccl_variant){BB_NCCL_RING, "Simple", 0, 0, 0, 1, 1, 0, 0, 0, 0, 0};
    nodes.n_variants = 1;
    for (int nics = 1; nics <= 2; nics++)
        for (int pairs = 1; pairs <= 2; pairs++) {
            struct bb_step step;

            nodes.nics_per_node = nics;
            made_init(&step, 4, 1);
            for (int r = 0; r < pairs; r++) {
                made_send(&step, r, 0, r + 2, 10 * US);
                made_recv(&step, r + 2, 0, r, 10 * US);
            }
            predict(&step, &nodes);
            step_is(0, nics == 1 && pairs == 2 ? 20 : 10);
        }
}

/* In one group call rank 0 sends to a rank on its node and to a rank on the other node, and copies to itself. The
 * reported bottleneck is the slowest of the three: its kind of link, or latency for a small message. */
static void group_calls_report_their_bottleneck(void **state)
{
    static const struct {
        double intra_us, inter_us, self_us;
        enum bb_limit limit;
    } rows[] = {{30, 10, 0, BB_LIMIT_LINK},  {10, 30, 0, BB_LIMIT_NIC},   {1, 2, 0, BB_LIMIT_LATENCY},
                {0, 1, 0, BB_LIMIT_LATENCY}, {0, 0, 30, BB_LIMIT_MEMORY}, {0, 10, 30, BB_LIMIT_MEMORY},
                {10, 30, 20, BB_LIMIT_NIC}};
    struct bb_cluster nodes = unperturbed;

    (void)state;
    nodes.gpus_per_node = 2;
    nodes.memory_gbps = 2; /* a copy to the same rank also takes 1 ns per byte */
    nodes.intra.latency_us = nodes.inter.latency_us = 5;
    nodes.variants[0] = (struct bb_nccl_variant){BB_NCCL_RING, "Simple", 0, 0, 0, 1, 1, 0, 0, 0, 0, 0};
    nodes.n_variants = 1;
    nodes.nics_per_node = 2;
    for (size_t i = 0; i < ROWS(rows); i++) {
        const double us[] = {rows[i].self_us, rows[i].intra_us, rows[i].inter_us};
        struct bb_step step;

        made_init(&step, 3, 1);
        for (int to = 0; to < 3; to++)
            if (us[to] > 0) {
                made_message(&step, 0, BB_OP_SEND, 0, to, (size_t)(us[to] * US), 0);
                made_message(&step, to, BB_OP_RECV, 0, 0, (size_t)(us[to] * US), 0);
            }
        predict(&step, &nodes);
        if (bb_bottleneck_of(&p.bottleneck, BB_PHASE_FORWARD) != rows[i].limit)
            fail_msg("row %zu: %s", i, bb_limit_names[bb_bottleneck_of(&p.bottleneck, BB_PHASE_FORWARD)]);
    }
}

/* Both GPUs of a node send to the same rank indices of the other node and form one class. */
static void ranks_of_one_class_share_their_nic(void **state)
{
    struct bb_cluster nodes = unperturbed;

    (void)state;
    nodes.gpus_per_node = 2;
    nodes.variants[0] = (struct bb_nccl_variant){BB_NCCL_RING, "Simple", 0, 0, 0, 1, 1, 0, 0, 0, 0, 0};
    nodes.n_variants = 1;
    for (nodes.nics_per_node = 1; nodes.nics_per_node <= 2; nodes.nics_per_node++) {
        struct bb_step step;

        made_init(&step, 4, 1);
        made_share(&step);
        for (int receives = 0; receives < 2; receives++) {
            struct bb_op op = made_op(receives ? BB_OP_RECV : BB_OP_SEND, 0);

            op.peer_kind = BB_PEER_OFFSET;
            op.peer = receives ? -2 : 2;
            op.count = 10 * US;
            op.call = 0;
            made_add(&step, 0, &op, BB_NONE);
        }
        predict(&step, &nodes);
        assert_int_equal(p.n_classes, 1);
        step_is(0, nodes.nics_per_node == 1 ? 20 : 10);
    }
}

/* Compares with LogGP: 2(P-1) times L + (k-1) G; each rank concurrently sends to the next rank and receives from the
 * previous rank. */
static void ring_of_messages_matches_loggp(void **state)
{
    enum { P = 1024, BYTES = 262144 - 1 };
    struct bb_cluster c = unperturbed;
    struct bb_step step;
    double expected = 2.0 * (P - 1) * (500 + BYTES);

    (void)state;
    c.gpus_per_node = 1;
    c.inter.latency_us = 0.5;
    made_init(&step, P, 1);
    made_share(&step);
    for (int k = 0; k < 2 * (P - 1); k++)
        for (int receives = 0; receives < 2; receives++) {
            struct bb_op op = made_op(receives ? BB_OP_RECV : BB_OP_SEND, 0);

            op.dtype = BB_INT8;
            op.peer_kind = BB_PEER_OFFSET;
            op.peer = receives ? -1 : 1;
            op.count = BYTES;
            op.call = k;
            made_add(&step, 0, &op, BB_NONE);
        }
    predict(&step, &c);
    assert_int_equal(p.n_classes, 1);
    assert_true(fabs((double)p.classes[0].all.step_ns / expected - 1) < 1e-4);
    assert_true(expected == 537367578);
}

static void no_effect_without_concurrent_operations(void **state)
{
    static const char *const lines[] = {"resnet50", "resnet50_ring"}; /* proxies without concurrent operations */
    struct bb_cluster contended, uncontended;

    (void)state;
    assert_int_equal(bb_cluster_load("h100-sxm-ib", &contended), 0);
    assert_true(contended.has_sharing);
    uncontended = contended;
    uncontended.has_sharing = false;
    for (size_t i = 0; i < ROWS(lines); i++) {
        struct bb_step step;
        int64_t step_ns;

        assert_int_equal(MADE_LINE(&step, lines[i], .ranks = 16), 0);
        predict(&step, &uncontended);
        step_ns = p.step_ns;
        assert_int_equal(MADE_LINE(&step, lines[i], .ranks = 16), 0);
        predict(&step, &contended);
        assert_int_equal(p.step_ns, step_ns);
    }
}

/* ---- SMs and memory ---- */

/* A GEMM or memory-bound kernel concurrent with an all-reduce of reduce_us (0: none), on both of two ranks. */
static void make_concurrent(struct bb_step *step, const struct bb_kernel_list_item *item, double reduce_us)
{
    struct bb_kernel_list *work;

    made_init(step, 2, 1);
    work = bb_step_add_kernel_list(step);
    assert_non_null(work);
    work->items[work->n++] = *item;
    for (int r = 0; r < 2; r++) {
        struct bb_op op = made_op(BB_OP_COMPUTE, BB_NONE);

        if (reduce_us > 0)
            made_reduce(step, r, 0, (size_t)(reduce_us * US), BB_NONE);
        op.work = work;
        op.work_times = 1;
        made_add(step, r, &op, BB_NONE);
    }
}

static struct bb_cluster with_achieved_rates(void)
{
    struct bb_cluster c = unperturbed;

    c.has_achieved = true;
    c.tflops_float16 = 10;
    c.achieved = (struct bb_achieved){1, 1, 1, 1, 1, true};
    return c;
}

/* 100 tiles of 256 x 128 are one wave on 100 SMs. On the 80 SMs that NCCL leaves, the fastest choice is three waves
 * of 200 tiles of half the size at 0.92 of the rate of a tile, which is 1.2 times that of the GEMM. Half of the time that
 * writes the result is added. */
static const double gemm_work_us = 2.0 * 2560 * 1280 * 100000 / 10e6, gemm_result_us = 0.5 * 2 * 2560 * 1280 / 1e6;
static const double alone_us = gemm_work_us + gemm_result_us;
static const double held_us = gemm_work_us * 3 * 0.5 / 0.92 / 1.2 + gemm_result_us;

static void gemm_concurrent_with_nccl_is_slower(void **state)
{
    const struct bb_kernel_list_item gemm = {.gemm = {.m = 2560, .n = 1280, .k = 100000, .batch = 1, .dtype = BB_HALF}};
    const struct bb_cluster c = with_achieved_rates();
    const double slower = held_us / alone_us, reduce = 10000;
    struct bb_step step;

    (void)state;
    make_concurrent(&step, &gemm, 0);
    predict(&step, &c);
    step_is(0, alone_us);
    make_concurrent(&step, &gemm, reduce);
    predict(&step, &c);
    step_is(0, alone_us + reduce - reduce / slower);
    make_concurrent(&step, &gemm, 10 * alone_us);
    predict(&step, &c);
    assert_true(fabs((double)p.classes[0].all.compute_ns / 1e3 - held_us) < 1e-3);
    assert_int_equal(bb_bottleneck_of(&p.bottleneck, BB_PHASE_FORWARD), BB_LIMIT_LINK);
}

/* With models_training, a GEMM marked as concurrent does without NCCL's SMs even while nothing communicates. */
static void training_gemm_reserves_nccl_sms(void **state)
{
    const struct bb_kernel_list_item gemm = {.gemm = {.m = 2560, .n = 1280, .k = 100000, .batch = 1, .dtype = BB_HALF}};
    struct bb_cluster c = with_achieved_rates();
    struct bb_step step;

    (void)state;
    for (int models_training = 0; models_training < 2; models_training++) {
        c.models_training = models_training;
        make_concurrent(&step, &gemm, 0);
        for (int r = 0; r < 2; r++)
            step.roles[r].program.ops[0].concurrent = true;
        predict(&step, &c);
        step_is(1, models_training ? held_us : alone_us);
    }
}

/* The memory moves 1000 bytes/ns. An all-reduce at 1 byte/ns in and 1 byte/ns out takes 2 x 100 of them if each of
 * its bytes is moved 100 times. */
static void memory_kernel_gets_the_bandwidth_that_nccl_leaves(void **state)
{
    struct bb_kernel_list_item memory_kernel = {.is_memory_kernel = true};
    struct bb_cluster c = with_achieved_rates();
    struct bb_step step;
    double alone;

    (void)state;
    c.sharing.memory_bytes = 100;
    memory_kernel.memory_kernel.kind = BB_MEMORY_KERNEL_SGD;
    memory_kernel.memory_kernel.dtype = BB_FLOAT;
    memory_kernel.memory_kernel.rows = 100;
    memory_kernel.memory_kernel.cols = 1000000;
    alone = (double)bb_memory_kernel_bytes(&memory_kernel.memory_kernel) / 1000 / 1e3;
    make_concurrent(&step, &memory_kernel, 0);
    predict(&step, &c);
    step_is(0, alone);
    assert_int_equal(bb_bottleneck_of(&p.bottleneck, BB_PHASE_FORWARD), BB_LIMIT_MEMORY);
    make_concurrent(&step, &memory_kernel, 100 * alone);
    predict(&step, &c);
    assert_true(fabs((double)p.classes[0].all.compute_ns / 1e3 / (alone / 0.8) - 1) < 1e-6);
}

/* ---- slow parts ---- */

static struct bb_conditions slow_parts(const char *text)
{
    struct bb_conditions conditions = {.jitter = 0};

    assert_int_equal(bb_slow_parse(&conditions.slow, "--slow", text), 0);
    return conditions;
}

/* All ranks have the same program: 10 us of compute, then an all-reduce over all ranks. */
static void make_equal_ranks(struct bb_step *step, int ranks)
{
    made_init(step, ranks, 1);
    made_share(step);
    made_reduce(step, 0, 0, 1000 * US, made_compute(step, 0, 10, BB_NONE));
}

static void slow_rank_gets_its_own_class(void **state)
{
    const struct bb_conditions slow = slow_parts("rank=5:1.5");
    struct bb_step step;
    int64_t before_ns;

    (void)state;
    make_equal_ranks(&step, 64);
    predict(&step, &unperturbed);
    assert_int_equal(p.n_classes, 1);
    before_ns = p.classes[0].all.step_ns;
    make_equal_ranks(&step, 64);
    predict_and_release(&step, &unperturbed, &slow);
    assert_int_equal(p.n_classes, 2);
    assert_int_equal(p.step_ns, before_ns + 5000);
    assert_int_equal(p.classes[p.class_of[5]].all.compute_ns, 15000);
    assert_int_equal(p.classes[p.class_of[6]].all.compute_ns, 10000);
}

static void slow_nic_slows_its_collective(void **state)
{
    const struct bb_conditions slow = slow_parts("link=node3-nic2:0.25");
    struct bb_cluster uncontended = unperturbed;
    struct bb_step step;
    double transfer;

    (void)state;
    make_equal_ranks(&step, 16);
    predict(&step, &unperturbed);
    transfer = (double)p.classes[0].all.step_ns / 1e3 - 10;
    make_equal_ranks(&step, 16);
    predict_and_release(&step, &unperturbed, &slow);
    step_is(0, 10 + 4 * transfer);
    assert_int_equal(p.n_classes, 2); /* the rank of that NIC, and all other ranks */
    uncontended.has_sharing = false;
    make_equal_ranks(&step, 16);
    bb_prediction_release(&p);
    assert_int_equal(bb_predict_under(&step, &uncontended, &slow, &p), -BB_EUSAGE);
    bb_step_release(&step);
}

/* An all-reduce of four ranks that takes 198 us alone, and three messages of 10 us from rank 0 to 1 and from 2 to 3, one per
 * 40 us of compute. Ranks 2 and 3 begin the messages late_us later. */
static void make_messages_during_a_collective(struct bb_step *step, double late_us)
{
    made_init(step, 4, 2);
    for (int r = 0; r < 4; r++) {
        made_reduce(step, r, 0, 198 * US * 4 / 6, BB_NONE); /* a ring moves 6/4 of the bytes */
        for (int i = 0; i < 3; i++) {
            struct bb_op op = made_op(r % 2 ? BB_OP_RECV : BB_OP_SEND, 1);

            op.peer = r ^ 1;
            op.count = 10 * US;
            made_add(step, r, &op, made_compute(step, r, 40 + (i == 0 && r > 1 ? late_us : 0), BB_NONE));
        }
    }
}

/* A collective is as slow as its slowest link. In step, each pair of messages halves the rate of the all-reduce once, for 20 us.
 * Out of step, it does so from the begin of the first message to the end of the second: three times later by d cost 3 d / 2. */
static void ranks_out_of_step_slow_a_collective_by_more_than_their_delay(void **state)
{
    static const double late_us[] = {0, 0.01, 4, 10};
    struct bb_step step;

    (void)state;
    for (size_t i = 0; i < ROWS(late_us); i++) {
        make_messages_during_a_collective(&step, late_us[i]);
        predict(&step, &unperturbed);
        step_is(0, 198 + 3 * 20 / 2 + 3 * late_us[i] / 2);
    }
}

/* ---- jitter ---- */

static void jitter_is_normal_and_reproducible(void **state)
{
    enum { SAMPLES = 2000 };
    struct bb_conditions conditions = {.jitter = 0.03, .seed = 7};
    struct bb_jittered first, again, other;
    double sum = 0, squares = 0;
    struct bb_step step;

    (void)state;
    made_init(&step, 1, 0);
    made_compute(&step, 0, 1000, BB_NONE);
    assert_int_equal(bb_predict_jitter(&step, &unperturbed, &conditions, SAMPLES, NULL, &first), 0);
    assert_int_equal(bb_predict_jitter(&step, &unperturbed, &conditions, SAMPLES, NULL, &again), 0);
    conditions.seed = 8;
    assert_int_equal(bb_predict_jitter(&step, &unperturbed, &conditions, SAMPLES, NULL, &other), 0);
    assert_memory_equal(first.step_ns, again.step_ns, SAMPLES * sizeof(*first.step_ns));
    assert_memory_not_equal(first.step_ns, other.step_ns, SAMPLES * sizeof(*first.step_ns));
    for (int i = 0; i < SAMPLES; i++) {
        double part = (double)first.step_ns[i] / 1e6 - 1;

        assert_true(i == 0 || first.step_ns[i] >= first.step_ns[i - 1]);
        assert_true(fabs(part) <= 0.09 + 1e-6);
        sum += part;
        squares += part * part;
    }
    assert_true(fabs(sum / SAMPLES) < 0.003);
    assert_true(fabs(sqrt(squares / SAMPLES) - 0.03) < 0.002);
    assert_true(fabs((double)bb_jittered_at(&first, 95) / 1e6 - (1 + 1.645 * 0.03)) < 0.005);
    bb_jittered_release(&first);
    bb_jittered_release(&again);
    bb_jittered_release(&other);
    conditions.jitter = 0.03;
    assert_int_equal(bb_predict_jitter(&step, &unperturbed, &conditions, 400000000, NULL, &first), -BB_EUSAGE);
    bb_step_release(&step);
}

/* The default number of samples is accepted by the limits on the run time, takes about 80 million operations, and is at most 100. */
static void default_samples_are_within_the_limit(void **state)
{
    const int samples = bb_jitter_default_samples(8e6);

    (void)state;
    assert_int_equal(bb_jitter_default_samples(8e5), 100);
    assert_int_equal(samples, 10);
    assert_int_equal(bb_predict_validate_jitter(512, 16, 8e6, samples), 0);
    assert_int_equal(bb_predict_validate_jitter(512, 16, 8e6, 38), -BB_EUSAGE);
}

/* Samples are independent: with a deviation below one nanosecond, all samples are equal. */
static void samples_are_independent(void **state)
{
    enum { SAMPLES = 5 };
    const struct bb_conditions conditions = {.jitter = 1e-9, .seed = 7};
    struct bb_jittered samples;

    (void)state;
    for (int messages = 0; messages < 2; messages++) {
        struct bb_step step;

        if (messages) {
            made_init(&step, 3, 2);
            for (int from = 1; from < 3; from++) {
                made_recv(&step, 0, from - 1, from, 10 * US);
                made_send(&step, from, from - 1, 0, 10 * US);
            }
        } else
            make_two(&step, 10, 10, 4);
        assert_int_equal(bb_predict_jitter(&step, &unperturbed, &conditions, SAMPLES, NULL, &samples), 0);
        for (int i = 0; i < SAMPLES; i++)
            assert_int_equal(samples.step_ns[i], 20000);
        bb_jittered_release(&samples);
        bb_step_release(&step);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_collectives_share_a_link),
        cmocka_unit_test(messages_share_one_direction),
        cmocka_unit_test(two_gpus_share_a_nic),
        cmocka_unit_test(group_calls_report_their_bottleneck),
        cmocka_unit_test(ranks_of_one_class_share_their_nic),
        cmocka_unit_test(ring_of_messages_matches_loggp),
        cmocka_unit_test(no_effect_without_concurrent_operations),
        cmocka_unit_test(gemm_concurrent_with_nccl_is_slower),
        cmocka_unit_test(training_gemm_reserves_nccl_sms),
        cmocka_unit_test(memory_kernel_gets_the_bandwidth_that_nccl_leaves),
        cmocka_unit_test(slow_rank_gets_its_own_class),
        cmocka_unit_test(slow_nic_slows_its_collective),
        cmocka_unit_test(ranks_out_of_step_slow_a_collective_by_more_than_their_delay),
        cmocka_unit_test(jitter_is_normal_and_reproducible),
        cmocka_unit_test(default_samples_are_within_the_limit),
        cmocka_unit_test(samples_are_independent),
    };

    return cmocka_run_group_tests(tests, NULL, release_prediction);
}
