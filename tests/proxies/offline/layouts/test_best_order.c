/* test_best_order.c - inter-node bytes against a count of every message, and the ranking of axis orders. */
#include "tests/proxies/workloads/transformer/lines.h"

#include "proxies/offline/layouts/best_order.h"
#include "proxies/offline/layouts/internode.h"
#include "proxies/simulation/simulate/graph/rank_classes.h"

#include <math.h>

/* ---- reference: count of every message ---- */

struct node_bytes {
    double all, out[256];
};

static void add_transfer(struct node_bytes *c, int from, int to, int gpus, double bytes)
{
    if (from / gpus == to / gpus)
        return;
    c->all += bytes;
    c->out[from / gpus] += bytes;
}

/* Counts a collective once, at the first member of the group: a ring in rank order, or all pairs for an alltoall. */
static void add_collective(struct node_bytes *c, const struct bb_step *step, const struct bb_op *op, int rank, int gpus)
{
    const struct bb_layout *l = &step->layout;
    int group = l->comms[op->comm].group, n = l->groups[group].size, instance = bb_group_instance(l, group, rank);
    double payload = (double)bb_op_payload_bytes(op, n), part = payload * (n - 1) / n;

    if (bb_group_index(l, group, rank) != 0)
        return;
    for (int i = 0; i < n; i++) {
        int from = bb_group_member(l, group, instance, i);

        if (op->coll == BB_ALLTOALL)
            for (int j = 0; j < n; j++)
                add_transfer(c, from, bb_group_member(l, group, instance, j), gpus, payload / n);
        else
            add_transfer(c, from, bb_group_member(l, group, instance, (i + 1) % n), gpus,
                         op->coll == BB_ALL_REDUCE ? 2 * part : part);
    }
}

static void count_step(struct node_bytes *c, const struct bb_step *step, int gpus)
{
    const struct bb_layout *l = &step->layout;

    *c = (struct node_bytes){0};
    for (int rank = 0; rank < l->ranks; rank++) {
        const struct bb_program *p = bb_step_program(step, rank);

        for (size_t i = 0; i < p->n_ops; i++) {
            const struct bb_op *op = &p->ops[i];
            int group = op->comm == BB_NONE ? 0 : l->comms[op->comm].group;

            if (op->kind == BB_OP_COLLECTIVE)
                add_collective(c, step, op, rank, gpus);
            if (op->kind == BB_OP_SEND)
                add_transfer(c, rank,
                             bb_group_member(l, group, bb_group_instance(l, group, rank),
                                             bb_op_peer(op, bb_group_index(l, group, rank), l->groups[group].size)),
                             gpus, (double)bb_op_payload_bytes(op, l->groups[group].size));
        }
    }
}

static bool close_to(double a, double b)
{
    return fabs(a - b) <= 1e-9 * fmax(fabs(a), fabs(b));
}

static void internode_bytes_match_message_count(void **state)
{
    static const struct {
        int ranks;
        const char *line;
    } rows[] = {
        {16, "transformer --model gpt2_small --tp 2 --pp 2 --layers 4"},
        {36, "transformer --model gpt2_small --tp 3 --cp 2 --pp 2 --layers 4 --order dp-pp-cp-tp"},
        {64, "transformer --model llama3_8b --tp 4 --cp 2 --layers 2 --pp 2 --sequence-parallel --dp-sync zero3"},
        {32, "transformer --model mixtral_8x7b --ep 8 --layers 4 --pp 2 --seq-length 64"},
        {32, "transformer --model mixtral_8x7b --ep 4 --tp 2 --sequence-parallel --layers 4 --pp 2 --seq-length 64 "
             "--moe-imbalance 1 --order tp-dp-cp-ep-pp"},
        {32, "transformer --model mixtral_8x7b --ep 8 --layers 2 --seq-length 64 --moe-imbalance 1 --fp8-dispatch"},
        {24, "transformer --model gpt2_small --vpp 2 --pp 4 --micro-batches 8 --layers 8"},
        {32, "gpt3 --stages 4"},
        {64, "gpt3_moe --stages 4"},
        {16, "cosmoflow"},
        {12, "dlrm"},
        {10, "resnet50_ring"},
    };

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++)
        for (int gpus = 1; gpus <= 8; gpus += gpus < 4 ? 1 : 4) {
            struct bb_internode internode;
            struct node_bytes expected;
            struct bb_step step;
            double busiest = 0, groups = 0;

            assert_int_equal(lines_make(&step, rows[i].ranks, rows[i].line), 0);
            bb_internode_count(&step, gpus, &internode);
            assert_int_equal(bb_step_expand(&step), 0);
            count_step(&expected, &step, gpus);
            assert_int_equal(internode.nodes, (step.layout.ranks + gpus - 1) / gpus);
            assert_true(close_to(internode.bytes, expected.all));
            for (int node = 0; node < internode.nodes; node++)
                busiest = fmax(busiest, expected.out[node]);
            assert_true(close_to(internode.busiest, busiest));
            for (int g = 0; g < step.layout.n_groups; g++)
                groups += internode.group[g];
            assert_true(close_to(groups, internode.bytes));
            bb_step_release(&step);
        }
}

/* ---- expected values computed by hand ---- */

#define LINE "transformer --model gpt2_small --tp 2 --pp 2 --micro-batches 3 --seq-length 1024"

static struct bb_order_row *row_of(const struct bb_best_order *best, const char *order)
{
    for (int i = 0; i < best->n; i++)
        if (strcmp(best->rows[i].order, order) == 0)
            return &best->rows[i];
    return NULL;
}

static double of_group(const struct bb_best_order *best, const char *order, const char *group)
{
    for (int g = 0; g < best->n_groups; g++)
        if (strcmp(best->groups[g], group) == 0)
            return row_of(best, order)->group[g];
    return 0;
}

static void rank_line(const char *line, int ranks, int gpus, struct bb_best_order *best)
{
    const struct bb_proxy *proxy;
    struct bb_proxy_config config;

    assert_int_equal(lines_read(&config, &proxy, ranks, line), 0);
    assert_int_equal(bb_best_order(proxy, &config, gpus, best), 0);
}

/*
 * Two nodes of 4 GPUs.
 *   tp-dp-pp  All 4 pipelines cross the nodes, each with 3 messages in each direction. The tied embedding table of
 *             25,129 rows (half of 50,257) is all-reduced between the first and the last stage; both links of that ring
 *             of two cross the nodes.
 *   tp-pp-dp  Pipelines stay inside a node, and the gradients cross: rings of two with 2 x (1/2) S over each of 2
 *             links, for 2 stages x 2 tensor-parallel ranks.
 */
static void two_nodes_computed_by_hand(void **state)
{
    double message = 1024 * 768 * 2, table = 25129 * 768 * 4.0, layers = 6.0 * ((7087872 - 6 * 768) / 2 + 6 * 768);
    struct bb_best_order best;

    (void)state;
    rank_line(LINE, 8, 4, &best);
    assert_int_equal(best.n, 6);
    assert_int_equal(best.nodes, 2);
    assert_int_equal(best.invalid, 0);
    assert_true(of_group(&best, "tp-dp-pp", "pp") == 4 * 2 * 3 * message);
    assert_true(of_group(&best, "tp-dp-pp", "embedding") == 4 * 2 * table);
    assert_true(of_group(&best, "tp-dp-pp", "dp") == 0);
    assert_true(of_group(&best, "tp-pp-dp", "pp") == 0);
    assert_true(of_group(&best, "tp-pp-dp", "embedding") == 0);
    /* first stage: embedding table, positions, 6 layers; last stage: 6 layers, final norm, copy of the embedding
     * table */
    assert_true(of_group(&best, "tp-pp-dp", "dp") ==
                2 * 2 * (2 * layers * 4 + 2 * table + (1024 * 768 + 2 * 768) * 4.0));
    assert_true(row_of(&best, "tp-dp-pp")->requested);
    for (int i = 1; i < best.n; i++)
        assert_true(best.rows[i - 1].bytes <= best.rows[i].bytes);
    bb_best_order_release(&best);
}

/* Tensor parallelism has no inter-node bytes inside a node, and the most when it crosses nodes. */
static void tensor_parallelism_stays_inside_the_node(void **state)
{
    struct bb_best_order best;

    (void)state;
    rank_line("transformer --model llama3_405b --tp 8 --pp 16 --micro-batches 16", 2048, 8, &best);
    assert_int_equal(best.nodes, 256);
    assert_int_equal(strncmp(best.rows[0].order, "tp-", 3), 0);
    assert_int_not_equal(strncmp(best.rows[best.n - 1].order, "tp-", 3), 0);
    assert_true(best.rows[best.n - 1].bytes > 5 * best.rows[0].bytes);
    bb_best_order_release(&best);
}

/* With experts, orders whose pipelines differ between the dense and the expert grid are omitted. The requested order
 * is always included. */
static void omits_invalid_orders(void **state)
{
    struct bb_best_order best;
    int requested = 0;

    (void)state;
    rank_line("transformer --model mixtral_8x7b --tp 2 --cp 2 --ep 4 --pp 2 --sequence-parallel --seq-length "
              "64 --layers 2 --order pp-tp-cp-ep-dp",
              32, 8, &best);
    assert_int_equal(best.n + best.invalid, 120);
    assert_true(best.n >= 48 && best.invalid > 0);
    for (int i = 0; i < best.n; i++)
        requested += best.rows[i].requested;
    assert_int_equal(requested, 1);
    assert_true(row_of(&best, "pp-tp-cp-ep-dp")->requested);
    bb_best_order_release(&best);
}

/* An axis of one rank has no effect at any position: the requested order is found without that axis. */
static void axes_of_one_rank_are_ignored(void **state)
{
    static const char *const rows[][2] = {{LINE " --order cp-pp-tp-dp", "pp-tp-dp"},
                                          {LINE " --order dp-cp-tp-pp", "dp-tp-pp"},
                                          {LINE " --order pp-dp-tp-cp", "pp-dp-tp"}};

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct bb_best_order best;
        int requested = 0;

        rank_line(rows[i][0], 8, 4, &best);
        assert_int_equal(best.n, 6);
        for (int row = 0; row < best.n; row++)
            requested += best.rows[row].requested;
        assert_int_equal(requested, 1);
        assert_true(row_of(&best, rows[i][1])->requested);
        bb_best_order_release(&best);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(internode_bytes_match_message_count),
        cmocka_unit_test(two_nodes_computed_by_hand),
        cmocka_unit_test(tensor_parallelism_stays_inside_the_node),
        cmocka_unit_test(omits_invalid_orders),
        cmocka_unit_test(axes_of_one_rank_are_ignored),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
