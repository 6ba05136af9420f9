/*
 * test_pipeline.c - the pipelines gpt2_large and bert_large: orders written by hand from the description of the
 * published mini-application, its recorded bytes per rank, memory, and invalid layouts.
 */
#include "tests/proxies/made.h"

#include "proxies/offline/plan/traffic.h"

/* ---- golden orders ---- */

/* Only the gradient reductions wait for another stream, namely for the last exchange. */
static void orders_without_compute(void **state)
{
    static const char first[] = "F0 send +1; F1 send +1; F2 send +1; B0 recv +1; B1 recv +1; "
                                "B2 recv +1; G all_reduce 85317120 <5; G all_reduce 19677440";
    static const char middle[] = "F0 send +1; & F0 recv -1; F1 send +1; & F1 recv -1; F2 send +1; & F2 recv -1; "
                                 "B0 send -1; & B0 recv +1; B1 send -1; & B1 recv +1; B2 send -1; & B2 recv +1; "
                                 "G all_reduce 19677440 <11; G all_reduce 19677440";
    static const char last[] = "F0 recv -1; F1 recv -1; F2 recv -1; B0 send -1; B1 send -1; "
                               "B2 send -1; G all_reduce 19677440 <5; G all_reduce 84008960";
    const struct bb_proxy_config config = {.ranks = 8, .layers = 8, .stages = 4, .micro_batches = 3};
    struct bb_step step;

    (void)state;
    assert_int_equal(made_line_with(&step, "gpt2_large", config), 0);
    made_order_is(&step, 0, MADE_KINDS, first);
    made_order_is(&step, 1, MADE_KINDS, middle);
    made_order_is(&step, 2, MADE_KINDS, middle);
    made_order_is(&step, 3, MADE_KINDS, last);
    made_order_is(&step, 4, MADE_KINDS, first);
    bb_step_release(&step);
}

/* Two pairs of buffers: the third message of a stage waits until the first has left its buffer. */
static void orders_with_compute(void **state)
{
    const struct bb_proxy_config config = {
        .ranks = 3, .layers = 6, .stages = 3, .micro_batches = 3, .compute = "timed"};
    struct bb_step step;

    (void)state;
    assert_int_equal(made_line_with(&step, "gpt2_large", config), 0);
    made_order_is(&step, 0, MADE_KINDS,
                  "F0 compute; F0 send +1 <0; F1 compute; F1 send +1 <2; F2 compute <1; F2 send +1 <4; "
                  "B0 recv +1; B0 compute <6; B1 recv +1; B1 compute <8; B2 recv +1 <7; B2 compute <10");
    made_order_is(&step, 1, MADE_KINDS,
                  "F0 send +1; & F0 recv -1; F0 compute <1; F1 send +1 <2; & F1 recv -1; F1 compute <4; "
                  "...");
    made_order_is(&step, 2, MADE_KINDS,
                  "F0 recv -1; F0 compute <0; F1 recv -1; F1 compute <2; F2 recv -1 <1; F2 compute <4; "
                  "B0 compute; B0 send -1 <6; B1 compute; B1 send -1 <8; B2 compute <7; B2 send -1 <10");
    assert_int_equal(bb_step_program(&step, 1)->n_ops, 18);
    bb_step_release(&step);
}

/* Two operations on one buffer, at least one of which writes, must be ordered. */
static void operations_on_one_buffer_are_ordered(void **state)
{
    struct bb_step step;

    (void)state;
    for (int stages = 2; stages < 6; stages++) {
        assert_int_equal(MADE_LINE(&step, "bert_large", .ranks = 2 * stages, .layers = 2 * stages, .stages = stages,
                                   .micro_batches = 5, .compute = "timed"),
                         0);
        for (int r = 0; r < step.n_roles; r++) {
            const struct bb_program *p = &step.roles[r].program;
            int n = (int)p->n_ops;
            bool *after = calloc((size_t)(n * n), sizeof(bool)); /* [i][j]: i comes after j */

            for (int i = 0; i < n; i++)
                for (int j = 0; j < i; j++) {
                    bool direct = p->ops[j].stream == p->ops[i].stream;

                    for (int w = 0; w < p->ops[i].waits; w++)
                        direct |= p->wait_list[p->ops[i].first_wait + w] == j;
                    for (int k = 0; direct && k <= j; k++)
                        after[i * n + k] |= k == j || after[j * n + k];
                }
            for (int i = 0; i < n; i++)
                for (int j = 0; j < i; j++) {
                    const struct bb_op *a = &p->ops[i], *b = &p->ops[j];
                    bool conflict = (a->dst != BB_NONE && (a->dst == b->dst || a->dst == b->src)) ||
                                    (b->dst != BB_NONE && b->dst == a->src);

                    if (conflict && !after[i * n + j])
                        fail_msg("operations %d and %d of %s are not ordered but use one buffer", j, i,
                                 step.roles[r].name);
                }
            free(after);
        }
        bb_step_release(&step);
    }
}

/* ---- bytes and memory ---- */

struct recorded {
    const char *proxy;
    int layers, stages, ranks;
    size_t first, middle, last; /* bytes of all gradients per rank */
    size_t message;             /* bytes of one message */
};

static const struct recorded records[] = {
    {"gpt2_large", 48, 4, 8, 1207075840, 944517120, 1201843200, 3235840},
    {"gpt2_large", 64, 8, 16, 892236800, 629678080, 887004160, 3235840},
    {"bert_large", 24, 4, 8, 429441024, 302309376, 435862768, 4198400},
};

static void count(const struct bb_program *p, int ranks_dp, size_t *gradients, size_t *sent, size_t *received)
{
    *gradients = *sent = *received = 0;
    for (size_t i = 0; i < p->n_ops; i++) {
        size_t bytes = bb_op_payload_bytes(&p->ops[i], ranks_dp);

        *(p->ops[i].kind == BB_OP_SEND ? sent : p->ops[i].kind == BB_OP_RECV ? received : gradients) += bytes;
    }
}

static void assert_rank_bytes(const struct bb_step *step, int rank, size_t gradients, size_t messages, size_t message)
{
    size_t g, sent, received;

    count(bb_step_program(step, rank), 2, &g, &sent, &received);
    assert_int_equal(g, gradients);
    assert_int_equal(sent, messages * message);
    assert_int_equal(received, messages * message);
}

static void bytes_match_the_recorded_ones(void **state)
{
    (void)state;
    for (size_t i = 0; i < ROWS(records); i++)
        for (int per_tensor = 0; per_tensor < 2; per_tensor++) {
            const struct recorded *r = &records[i];
            struct bb_step step;

            assert_int_equal(MADE_LINE(&step, r->proxy, .ranks = r->ranks, .layers = r->layers, .stages = r->stages,
                                       .per_tensor = per_tensor),
                             0);
            assert_rank_bytes(&step, 0, r->first, 8, r->message);
            for (int s = 1; s < r->stages - 1; s++)
                assert_rank_bytes(&step, r->ranks - r->stages + s, r->middle, 16, r->message);
            assert_rank_bytes(&step, r->stages - 1, r->last, 8, r->message);
            bb_step_release(&step);
        }
}

static void per_tensor_reduces_each_tensor(void **state)
{
    const struct bb_program *p;
    struct bb_step step;

    (void)state;
    assert_int_equal(MADE_LINE(&step, "gpt2_large", .ranks = 8, .per_tensor = true), 0);
    p = bb_step_program(&step, 0);
    assert_int_equal(p->n_ops, 16 + 14 + 11 * 12);
    assert_int_equal(p->ops[16].count, 64328960);
    assert_int_equal(p->ops[17].count, 1310720);
    assert_string_equal(p->ops[16].what, "embedding.token");
    p = bb_step_program(&step, 7);
    assert_int_equal(p->n_ops, 16 + 11 * 12 + 15);
    assert_int_equal(p->ops[p->n_ops - 1].count, 1280);
    assert_int_equal(p->ops[p->n_ops - 8].count, 64328960);
    bb_step_release(&step);
}

/* The pipeline has two buffers (two pairs with compute); each gradient has a reduced copy. */
static void buffer_bytes_match_the_formula(void **state)
{
    struct bb_step step;

    (void)state;
    assert_int_equal(MADE_LINE(&step, "gpt2_large", .ranks = 8), 0);
    assert_int_equal(bb_program_bytes(bb_step_program(&step, 1), BB_USE_GRADIENTS), 944517120);
    assert_int_equal(bb_program_bytes(bb_step_program(&step, 1), BB_USE_COMMUNICATION), 944517120 + 2 * 3235840);
    bb_step_release(&step);
    assert_int_equal(MADE_LINE(&step, "gpt2_large", .ranks = 4, .compute = "timed", .dtype = "half"), 0);
    assert_int_equal(bb_program_bytes(bb_step_program(&step, 1), BB_USE_GRADIENTS), 0); /* one replica: no all-reduce */
    assert_int_equal(bb_program_bytes(bb_step_program(&step, 1), BB_USE_COMMUNICATION), 4 * 3235840 / 2);
    bb_step_release(&step);
}

static void groups_match_the_recorded_ones(void **state)
{
    struct bb_step step;

    (void)state;
    assert_int_equal(MADE_LINE(&step, "gpt2_large", .ranks = 12), 0);
    assert_string_equal(step.layout.groups[0].name, "pp");
    assert_string_equal(step.layout.groups[1].name, "dp");
    for (int r = 0; r < 12; r++) {
        assert_int_equal(bb_group_index(&step.layout, 0, r), r % 4);
        assert_int_equal(bb_group_instance(&step.layout, 0, r), r / 4);
        assert_int_equal(bb_group_index(&step.layout, 1, r), r / 4);
        assert_int_equal(bb_group_instance(&step.layout, 1, r), r % 4);
    }
    assert_true(step.samples == 3 * 8);
    bb_step_release(&step);
}

static void compute_times_follow_from_flops(void **state)
{
    const double flops = 24.0 * 632 * 1280 * 1280 + 4.0 * 632 * 632 * 1280; /* one layer */
    const struct bb_op *op;
    struct bb_step step;

    (void)state;
    assert_int_equal(MADE_LINE(&step, "gpt2_large", .ranks = 4, .compute = "timed", .tflops = 100), 0);
    op = &bb_step_program(&step, 0)->ops[0];
    assert_true(op->compute_us > 12 * flops / 1e8 - 1e-6 && op->compute_us < 12 * flops / 1e8 + 1e-6);
    assert_true(op->flops == 12 * flops);
    bb_step_release(&step);
    assert_int_equal(
        MADE_LINE(&step, "bert_large", .ranks = 4, .compute = "timed", .forward_us = 10, .backward_us = 15), 0);
    assert_true(bb_step_program(&step, 3)->ops[1].compute_us == 60);
    assert_true(bb_step_program(&step, 3)->ops[16].compute_us == 90);
    bb_step_release(&step);
}

/* ---- rejected options ---- */

static void rejects_invalid_layouts(void **state)
{
    static const struct {
        int ranks, layers, stages;
    } rows[] = {{8, 50, 4}, {8, 48, 1}, {8, 3, 4}, {6, 48, 4}, {1, 48, 4}, {3, 48, 4}, {8, 1, 1}};
    struct bb_step step;

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++)
        assert_int_equal(
            MADE_LINE(&step, "gpt2_large", .ranks = rows[i].ranks, .layers = rows[i].layers, .stages = rows[i].stages),
            -BB_EUSAGE);
}

static void accepts_only_two_or_three_numbers(void **state)
{
    static const char *const good[] = {"gpt2_large", "gpt2_large 64 8", "gpt2_large 64 8 2"};
    static const char *const bad[] = {
        "gpt2_large 64",     "gpt2_large 64 8 2 1",      "gpt2_large 64 x", "gpt2_large 0 8",
        "gpt2_large 64.0 8", "gpt2_large 99999999999 8", "gpt2_lage",       ""};
    const struct bb_proxy_config named = {.ranks = 8, .layers = 48};
    struct bb_step step;

    (void)state;
    for (size_t i = 0; i < ROWS(good); i++) {
        assert_int_equal(MADE_LINE(&step, good[i], .ranks = 8), 0);
        bb_step_release(&step);
    }
    for (size_t i = 0; i < ROWS(bad); i++)
        assert_int_equal(MADE_LINE(&step, bad[i], .ranks = 8), -BB_EUSAGE);
    assert_int_equal(made_line_with(&step, "gpt2_large 64 8", named), -BB_EUSAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(orders_without_compute),
        cmocka_unit_test(orders_with_compute),
        cmocka_unit_test(operations_on_one_buffer_are_ordered),
        cmocka_unit_test(bytes_match_the_recorded_ones),
        cmocka_unit_test(per_tensor_reduces_each_tensor),
        cmocka_unit_test(buffer_bytes_match_the_formula),
        cmocka_unit_test(groups_match_the_recorded_ones),
        cmocka_unit_test(compute_times_follow_from_flops),
        cmocka_unit_test(rejects_invalid_layouts),
        cmocka_unit_test(accepts_only_two_or_three_numbers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
