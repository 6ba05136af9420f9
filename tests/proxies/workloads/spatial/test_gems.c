/* test_gems.c - steps of `gems`: orders, gradient reductions of pairs, makespans, and the variant without
 * all-reduce. */
#include "layouts.h"

#include "proxies/simulation/simulate/predict.h"

static const size_t split[4] = {97184, 620416, 1675520, 7388682}; /* parameters per split: ResNet-110-v2 at 1024^2, S
                                                                     = 4 */
static const size_t boundary[3] = {64UL << 20, 128UL << 18, 256UL << 16};

/* ---- gradients and messages ---- */

static void pairs_reduce_the_gradients_of_both_splits(void **state)
{
    struct bb_step step;

    (void)state;
    VALID_LINE(&step, "gems", .ranks = 4);
    for (int r = 0; r < 4; r++) {
        const struct bb_program *p = bb_step_program(&step, r);
        const struct bb_op *lower = &p->ops[p->n_ops - 2], *upper = &p->ops[p->n_ops - 1];

        assert_sum(sum_of(&step, r, BB_OP_COLLECTIVE, "pair", BB_PHASE_GRADIENTS), 2, split[r] + split[3 - r]);
        assert_int_equal(lower->count, split[r < 2 ? r : 3 - r]);
        assert_int_equal(upper->count, split[r < 2 ? 3 - r : r]);
        assert_true(step.roles[step.role_of[r]].training_bytes[BB_USE_PARAMETERS] ==
                    4.0 * (double)(split[r] + split[3 - r]));
    }
    assert_int_equal(split[0] + split[3], 7485866);
    assert_int_equal(split[1] + split[2], 2295936);
    assert_sum(sum_of_all(&step, BB_OP_SEND, "lp", BB_PHASES), 2 * 2 * 3,
               2 * 2 * (boundary[0] + boundary[1] + boundary[2]));
    bb_step_release(&step);
}

static double training_of(const struct bb_step *step, int rank, enum bb_buffer_use use)
{
    return step->roles[step->role_of[rank]].training_bytes[use];
}

/* For each weight of both splits, parameters, gradients and momentum take 12 bytes. Activations are those of the
 * larger split only, and equal to those of a pipeline without tiles. */
static void memory_of_two_splits_and_activations_of_one(void **state)
{
    struct bb_step step, once;

    (void)state;
    VALID_LINE(&step, "gems", .ranks = 4, .micro_batches = 2);
    VALID_LINE(&once, "gems", .ranks = 4);
    for (int r = 0; r < 4; r++) {
        assert_true(training_of(&step, r, BB_USE_PARAMETERS) + training_of(&step, r, BB_USE_GRADIENTS) +
                        training_of(&step, r, BB_USE_OPTIMIZER) ==
                    12.0 * (double)(split[r] + split[3 - r]));
        assert_true(training_of(&step, r, BB_USE_ACTIVATIONS) == training_of(&step, 3 - r, BB_USE_ACTIVATIONS));
        assert_true(training_of(&step, r, BB_USE_ACTIVATIONS) == 2 * training_of(&once, r, BB_USE_ACTIVATIONS));
    }
    /* split 0: conv 0, and 8 blocks of 16, 16 and 64 channels, the first with a projection, on 1024 x 1024; batch norms
     * of conv 0 (16 channels) and of the blocks' inputs: 16 + 16 in the first block, 64 + 16 + 16 in the others */
    assert_true(training_of(&once, 0, BB_USE_ACTIVATIONS) == 4.0 * (16 + 8 * 96 + 64 + 16 + 32 + 7 * 96) * 1024 * 1024);
    bb_step_release(&step);
    bb_step_release(&once);
}

static void odd_number_of_splits_keeps_the_middle_local(void **state)
{
    static const size_t five[5] = {71520, 167872, 836864, 1793536, 6912010};
    struct bb_step step;

    (void)state;
    VALID_LINE(&step, "gems", .ranks = 5, .tiles = {.splits = 5, .replications = 4});
    for (int r = 0; r < 5; r++) {
        struct sum pair = sum_of(&step, r, BB_OP_COLLECTIVE, "pair", BB_PHASES);

        assert_sum(pair, r == 2 ? 0 : 2, r == 2 ? 0 : five[r] + five[4 - r]); /* both replicas of the middle split
                                                                                 are on one rank */
    }
    bb_step_release(&step);
    VALID_LINE(&step, "gems", .ranks = 10, .tiles = {.splits = 5});
    assert_sum(sum_of(&step, 7, BB_OP_COLLECTIVE, "middle", BB_PHASES), 1, five[2]);
    bb_step_release(&step);
}

/* With copies of the four ranks, a pair's group has the two ranks of every copy. */
static void pair_groups_span_all_copies(void **state)
{
    struct bb_step step;
    int group = 0;

    (void)state;
    VALID_LINE(&step, "gems", .ranks = 12, .tiles = {.splits = 4});
    while (strcmp(step.layout.groups[group].name, "pair") != 0)
        group++;
    assert_int_equal(step.layout.groups[group].size, 6);
    for (int r = 0; r < 12; r++) {
        assert_int_equal(bb_group_instance(&step.layout, group, r), r % 4 < 2 ? r % 4 : 3 - r % 4);
        assert_sum(sum_of(&step, r, BB_OP_COLLECTIVE, "pair", BB_PHASES), 2, split[r % 4] + split[3 - r % 4]);
    }
    assert_true(step.samples == 6);
    bb_step_release(&step);
}

/* ---- order ---- */

/* Operations as text: kernels by phase (F, B, G, O), receives '<', sends '>', collectives '+'. */
static void order_of(const struct bb_step *step, int rank, char *text)
{
    const struct bb_program *p = bb_step_program(step, rank);
    char before = 0;

    for (size_t i = 0; i < p->n_ops; i++) {
        const struct bb_op *op = &p->ops[i];
        bool kernel = op->kind == BB_OP_COMPUTE;

        char letter = kernel ? "FBGO"[op->phase] : 0;

        if (kernel && before == letter)
            continue;
        before = letter;
        if (kernel)
            *text++ = letter;
        else
            *text++ = op->kind == BB_OP_COLLECTIVE ? '+' : op->kind == BB_OP_SEND ? '>' : '<';
    }
    *text = '\0';
}

static void replicas_alternate_forward_and_backward(void **state)
{
    static const char *const mast[4] = {"F><B<FB>++", "<F><B><F><B>++", "<F><B><F><B>++", "<FB>F><B++"};
    struct bb_step step;
    char text[200];

    (void)state;
    VALID_LINE(&step, "gems", .ranks = 4, .model = "cosmoflow");
    for (int r = 0; r < 4; r++) {
        order_of(&step, r, text);
        assert_string_equal(text, mast[r]);
    }
    bb_step_release(&step);
    VALID_LINE(&step, "gems", .ranks = 4, .model = "cosmoflow", .micro_batches = 2, .tiles = {.replications = 4});
    order_of(&step, 1, text);
    assert_string_equal(text, "<F><F><B><B><F><F><B><B><F><F><B><B><F><F><B><B>++");
    bb_step_release(&step);
}

/* ---- makespan ---- */

/* A cluster on which only compute takes time. */
static const struct bb_cluster free_network = {.name = "free",
                                               .gpus_per_node = 64,
                                               .sm_count = 100,
                                               .clock_khz = 1000000,
                                               .memory_gbps = 1e12,
                                               .memory_bytes = 80e9,
                                               .tflops_float32 = 1,
                                               .tflops_float16 = 1,
                                               .tflops_bfloat16 = 1,
                                               .tflops_float64 = 1,
                                               .intra = {.gbps = 1e12},
                                               .inter = {.gbps = 1e12}};

static int64_t predicted_ns(struct bb_proxy_config c)
{
    struct bb_prediction p;
    struct bb_step step;
    int64_t ns;

    make_valid(&step, "gems", c);
    assert_int_equal(bb_predict(&step, &free_network, &p), 0);
    ns = p.step_ns;
    bb_prediction_release(&p);
    bb_step_release(&step);
    return ns;
}

/* Each kernel time is rounded to ns, so the sum may be off by the number of kernels. */
static void assert_makespan(int splits, int eta, double f, double b, bool comm_opt, double units)
{
    int64_t ns =
        predicted_ns((struct bb_proxy_config){.ranks = splits,
                                              .forward_us = 1000 * f,
                                              .backward_us = 1000 * b,
                                              .tiles = {.splits = splits, .replications = eta, .comm_opt = comm_opt}});

    assert_true(ns > (int64_t)(units * 1e6) - 2000 && ns < (int64_t)(units * 1e6) + 2000);
}

static void makespans_match_the_formula(void **state)
{
    static const double times[][2] = {{1, 2}, {2, 1}, {1, 1}, {1, 3}};

    (void)state;
    assert_makespan(4, 2, 1, 2, false, 21);
    assert_makespan(4, 4, 1, 2, false, 39);
    for (int s = 4; s <= 5; s++)
        for (int eta = 2; eta <= 6; eta += 2)
            for (size_t t = 0; t < ROWS(times); t++) {
                double f = times[t][0], b = times[t][1], longer = f > b ? f : b, shorter = f > b ? b : f;

                assert_makespan(s, eta, f, b, false, eta * s * longer + s * shorter + (eta - 1) * shorter);
                assert_makespan(s, eta, f, b, true, eta * s * longer + s * shorter + (eta - 1) * shorter);
            }
}

/* ---- without all-reduce ---- */

static void comm_opt_trades_parameters_and_gradients(void **state)
{
    struct bb_step even, odd;

    (void)state;
    VALID_LINE(&even, "gems", .ranks = 4, .tiles = {.comm_opt = true, .replications = 4});
    VALID_LINE(&odd, "gems", .ranks = 4, .tiles = {.comm_opt = true, .replications = 4, .odd_step = true});
    for (int r = 0; r < 4; r++) {
        assert_sum(sum_of(&even, r, BB_OP_SEND, "pair", BB_PHASES), 2, 2 * split[r]);
        assert_sum(sum_of(&even, r, BB_OP_RECV, "pair", BB_PHASES), 2, 2 * split[3 - r]);
        assert_sum(sum_of(&even, r, BB_OP_COLLECTIVE, "pair", BB_PHASES), 0, 0);
        assert_sum(sum_of(&odd, 3 - r, BB_OP_SEND, "pair", BB_PHASES), 2, 2 * split[r]);
    }
    bb_step_release(&even);
    bb_step_release(&odd);
}

/* The trade of parameters follows the forward pass; on the last split it surrounds forward and backward, and on the
 * first split it follows the arrival of the gradients. */
static void comm_opt_trades_in_the_bubble(void **state)
{
    static const char *const even[4] = {"F>><<B<F><B>", "<F>><<B><F>><<B>", "<F>><<B><F>><<B>", "<<FB>>F>><<B"};
    struct bb_step step;
    char text[200];

    (void)state;
    VALID_LINE(&step, "gems", .ranks = 4, .model = "cosmoflow", .tiles = {.comm_opt = true});
    for (int r = 0; r < 4; r++) {
        order_of(&step, r, text);
        assert_string_equal(text, even[r]);
    }
    bb_step_release(&step);
}

/* ---- with tiles ---- */

/* P = 4, S = 5: 8 ranks; the tiles of one replica are on ranks 0 to 3, those of the other on ranks 7 to 4. */
static void both_replicas_have_tiles(void **state)
{
    static const size_t five[5] = {71520, 167872, 836864, 1793536, 6912010};
    struct bb_step step;
    int group = 0;

    (void)state;
    VALID_LINE(&step, "gems", .ranks = 8, .tiles = {.spatial_parts = "4", .splits = 5});
    while (strcmp(step.layout.groups[group].name, "halo") != 0)
        group++;
    for (int r = 0; r < 8; r++) {
        int mp_rank = r < 4 ? 7 - r : r; /* after the tiles */

        assert_int_equal(bb_group_instance(&step.layout, group, r), r / 4);
        assert_sum(sum_of(&step, r, BB_OP_COLLECTIVE, "spatial", BB_PHASES), 1, five[0]);
        assert_sum(sum_of(&step, r, BB_OP_COLLECTIVE, "pair", BB_PHASES), 1, five[mp_rank - 3]);
        assert_int_equal(sum_of(&step, r, BB_OP_SEND, "halo", BB_PHASES).calls, 13 * 3);
    }
    assert_sum(sum_of(&step, 4, BB_OP_RECV, "join", BB_PHASE_FORWARD), 4, 64UL << 20);
    assert_sum(sum_of(&step, 3, BB_OP_RECV, "join inverse", BB_PHASE_FORWARD), 4, 64UL << 20);
    bb_step_release(&step);
}

static void rejects_invalid_options(void **state)
{
    const struct bb_proxy_config rows[] = {
        {.ranks = 4, .tiles = {.replications = 3}},
        {.ranks = 4, .tiles = {.replications = 1, .comm_opt = true}},
        {.ranks = 4, .tiles = {.splits = 3}},
        {.ranks = 1},
        {.ranks = 5, .tiles = {.spatial_parts = "4", .splits = 2}},
        {.ranks = 7, .tiles = {.spatial_parts = "4", .splits = 4}},
        {.ranks = 4, .tiles = {.odd_step = true}},
        {.ranks = 4, .tiles = {.local_dp = 2}},
        {.ranks = 4, .tiles = {.slice = "vertical"}},
        {.ranks = 4, .tiles = {.spatial_splits = 2}},
        {.ranks = 39, .tiles = {.splits = 39}},
    };
    struct bb_step step;

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++)
        if (made_line_with(&step, "gems", rows[i]) != -BB_EUSAGE)
            fail_msg("row %zu is not rejected", i);
}

/* ---- random layouts ---- */

static unsigned random_below(unsigned *seed, unsigned n)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (*seed >> 8) % n;
}

static void random_layouts_are_valid(void **state)
{
    static const char *const parts[] = {NULL, "2", "2,2", "4", "4,2"}, *const computes[] = {"none", "timed", "gemm"};
    static const int tiles[] = {0, 2, 4, 4, 6}, spatial[] = {0, 1, 2, 1, 2};
    unsigned seed = 11;

    (void)state;
    for (int i = 0; i < 60; i++) {
        unsigned p = random_below(&seed, 5);
        int min_splits = p ? spatial[p] + tiles[p] : 2, splits = min_splits + (int)random_below(&seed, 4);
        int mp = tiles[p] + splits - spatial[p], copies = 1 + (int)random_below(&seed, 3);
        struct bb_proxy_config c = {.ranks = mp * copies,
                                    .micro_batches = 1 + (int)random_below(&seed, 3),
                                    .compute = computes[random_below(&seed, 3)]};
        struct bb_step step;

        c.tiles = (struct bb_tiles_options){.spatial_parts = parts[p],
                                            .splits = splits,
                                            .replications = 2 * (1 + (int)random_below(&seed, 3)),
                                            .comm_opt = random_below(&seed, 2)};
        c.tiles.odd_step = c.tiles.comm_opt && random_below(&seed, 2);
        make_valid(&step, "gems", c);
        assert_sum(sum_of_all(&step, BB_OP_SEND, "lp", BB_PHASES), sum_of_all(&step, BB_OP_RECV, "lp", BB_PHASES).calls,
                   sum_of_all(&step, BB_OP_RECV, "lp", BB_PHASES).elements);
        bb_step_release(&step);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_reduce_the_gradients_of_both_splits),
        cmocka_unit_test(memory_of_two_splits_and_activations_of_one),
        cmocka_unit_test(odd_number_of_splits_keeps_the_middle_local),
        cmocka_unit_test(pair_groups_span_all_copies),
        cmocka_unit_test(replicas_alternate_forward_and_backward),
        cmocka_unit_test(makespans_match_the_formula),
        cmocka_unit_test(comm_opt_trades_parameters_and_gradients),
        cmocka_unit_test(comm_opt_trades_in_the_bubble),
        cmocka_unit_test(both_replicas_have_tiles),
        cmocka_unit_test(rejects_invalid_options),
        cmocka_unit_test(random_layouts_are_valid),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
