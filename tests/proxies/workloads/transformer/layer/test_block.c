/*
 * test_block.c - one transformer layer as operations: orders and overlap as in Megatron-LM, bytes by the formulas of
 * each parallelism and by published shapes, FLOPs, random layouts, which must give valid steps, and injected faults,
 * which the checks must find.
 */
#include "proxies/workloads/transformer/layer/routing.h"
#include "tests/proxies/workloads/transformer/layer_step.h"

#include <math.h>

/* ---- models ---- */

static struct bb_arch small(void)
{
    return (struct bb_arch){.name = "small",
                            .layers = 2,
                            .hidden = 16,
                            .heads = 4,
                            .kv_heads = 4,
                            .head_dim = 4,
                            .ffn = 64,
                            .vocab = 100,
                            .sequence = 8,
                            .layer_norm = true,
                            .qkv_bias = true,
                            .out_bias = true,
                            .mlp_bias = true,
                            .learned_positions = true,
                            .tied = true};
}

static struct bb_arch small_experts(void)
{
    struct bb_arch a = small();

    a.experts = 4;
    a.top_k = 2;
    a.expert_ffn = 32;
    a.moe_every = 1;
    return a;
}

static struct bb_arch published(const char *name)
{
    struct bb_arch a;

    assert_int_equal(bb_arch_load(name, &a), 0);
    return a;
}

/* ---- operations of a program ---- */

static void forward(struct bb_block *b, const struct layer_step *l)
{
    (void)l;
    bb_block_forward(b, 0, BB_NONE, BB_NONE);
}

static void backward(struct bb_block *b, const struct layer_step *l)
{
    (void)l;
    bb_block_backward(b, 0, BB_NONE, BB_NONE, true);
}

static void both(struct bb_block *b, const struct layer_step *l)
{
    forward(b, l);
    backward(b, l);
}

static void split(struct bb_block *b, const struct layer_step *l)
{
    (void)l;
    bb_block_backward(b, 0, BB_NONE, BB_NONE, false);
    bb_block_weights(b, 0);
}

static void embedding_and_head(struct bb_block *b, const struct layer_step *l)
{
    (void)l;
    bb_block_embedding_forward(b, BB_NONE);
    bb_block_head_forward(b, BB_NONE);
    bb_block_head_backward(b, BB_NONE, true);
    bb_block_embedding_backward(b, BB_NONE);
}

static void whole_step(struct bb_block *b, const struct layer_step *l)
{
    size_t replicated = bb_layers_replicated_elements(l->layers, BB_ARCH_HEAD);

    for (b->script->micro_batch = 0; b->script->micro_batch < 2; b->script->micro_batch++) {
        bb_block_embedding_forward(b, BB_NONE);
        for (int layer = 0; layer < l->arch.layers; layer++)
            bb_block_forward(b, layer, BB_NONE, BB_NONE);
        bb_block_head_forward(b, BB_NONE);
        bb_block_head_backward(b, BB_NONE, true);
        for (int layer = l->arch.layers - 1; layer >= 0; layer--)
            bb_block_backward(b, layer, BB_NONE, BB_NONE, true);
        bb_block_embedding_backward(b, BB_NONE);
    }
    b->script->micro_batch = BB_NONE;
    for (int layer = 0; layer < l->arch.layers; layer++)
        replicated += bb_layers_replicated_elements(l->layers, layer);
    bb_block_reduce_replicated(b, replicated);
    bb_block_reduce_tied(b, 1);
    bb_block_gradient_norm(b);
}

/* ---- golden orders ---- */

static void expect_order(struct layer_step l, layer_step_write *write, const char *order)
{
    assert_int_equal(layer_step_init(&l, write), 0);
    made_order_is(&l.step, 0, MADE_NAMES, order);
    assert_valid_layer_step(&l);
    layer_step_release(&l);
}

static struct layer_step tensor(bool sequence_parallel)
{
    return (struct layer_step){
        .arch = small(),
        .grid = {.ranks = 2, .tp = 2},
        .config = {
            .sequence = 8, .sequence_parallel = sequence_parallel, .dtype = BB_BFLOAT16, .grad_dtype = BB_FLOAT}};
}

static void order_with_tensor_parallelism(void **state)
{
    (void)state;
    expect_order(tensor(false), forward,
                 "F compute attention; F all_reduce tp 128 <0; F compute MLP <1; F all_reduce tp 128 <2");
    expect_order(tensor(false), backward,
                 "B compute MLP gradients; B all_reduce tp 128 <0; B compute MLP weights; "
                 "B compute attention gradients <1; B all_reduce tp 128 <3; B compute attention weights");
}

static void order_with_sequence_parallelism(void **state)
{
    (void)state;
    expect_order(tensor(true), forward,
                 "F all_gather tp 64; F compute attention <0; F reduce_scatter tp 64 <1; F all_gather tp 64; "
                 "F compute MLP <3; F reduce_scatter tp 64 <4");
    expect_order(tensor(true), backward,
                 "B all_gather tp 64; B compute MLP gradients <0; B all_gather tp 64 <1; "
                 "B compute MLP gradients; B reduce_scatter tp 64 <3; B compute MLP weights <2; "
                 "B all_gather tp 64 <5; B compute attention gradients <6; B all_gather tp 64 <7; "
                 "B compute attention gradients; B reduce_scatter tp 64 <9; B compute attention weights <8");
}

/* Half of the tokens (of two ranks) is computed during each collective, but for the gathers of the saved inputs and the sums
 * of gradients, which run during whole GEMMs. */
static void order_with_overlapped_tensor_parallelism(void **state)
{
    struct layer_step l = tensor(true);

    (void)state;
    l.config.tp_overlap = l.config.serial = true;
    expect_order(l, forward,
                 "F all_gather tp 64; F compute attention; F compute attention <0; F reduce_scatter tp 64 <2; "
                 "F compute attention; F all_gather tp 64 <4; F compute MLP <3; F compute MLP <5; "
                 "F reduce_scatter tp 64 <7; F compute MLP");
    expect_order(l, backward,
                 "B all_gather tp 64; B compute MLP gradients; B compute MLP gradients <0; B all_gather tp 64 <2; "
                 "B compute MLP gradients; B reduce_scatter tp 64 <4; B compute MLP weights <3; "
                 "B all_gather tp 64 <6; B compute attention gradients <5; B compute attention gradients <7; "
                 "B all_gather tp 64 <9; B compute attention gradients; B reduce_scatter tp 64 <11; "
                 "B compute attention weights <10");
}

/* Backward for data, then for weights: the gathers that the weights need are issued with the weights. */
static void order_with_split_backward(void **state)
{
    (void)state;
    expect_order(tensor(false), split,
                 "B compute MLP gradients; B all_reduce tp 128 <0; B compute attention gradients <1; "
                 "B all_reduce tp 128 <2; B compute MLP weights <3; B compute attention weights");
    expect_order(tensor(true), split,
                 "B all_gather tp 64; B compute MLP gradients <0; B reduce_scatter tp 64 <1; "
                 "B all_gather tp 64; B compute attention gradients <3; B reduce_scatter tp 64 <4; "
                 "B all_gather tp 64; B compute MLP weights <5; B compute MLP weights <6; "
                 "B all_gather tp 64 <8; B compute attention weights; B compute attention weights <9");
}

static void order_of_embedding_and_head(void **state)
{
    (void)state;
    expect_order(tensor(false), embedding_and_head,
                 "F all_reduce tp 128; F compute logits <0; F all_reduce tp 8 max <1; F all_reduce tp 8; "
                 "F all_reduce tp 8; B compute head gradients <4; B all_reduce tp 128 <5; B compute head weights");
    expect_order(tensor(true), embedding_and_head,
                 "F reduce_scatter tp 64; F all_gather tp 64; F compute logits <1; F all_reduce tp 8 max <2; "
                 "F all_reduce tp 8; F all_reduce tp 8; B all_gather tp 64; B compute head gradients <5; "
                 "B reduce_scatter tp 64 <7; B compute head weights <6; B all_gather tp 64 <9");
}

static struct layer_step context(enum bb_context_mode mode, int ranks)
{
    return (struct layer_step){.arch = small(),
                               .grid = {.ranks = ranks, .cp = ranks},
                               .config = {.sequence = 8 * ranks, .context = mode, .dtype = BB_BFLOAT16}};
}

/* Each hop overlaps with the attention of the previous block. Gradients follow the blocks by one hop; their last hop
 * overlaps with nothing. */
static void order_with_ring_attention(void **state)
{
    (void)state;
    expect_order(context(BB_CONTEXT_RING, 3), forward,
                 "F compute projections; F send cp 256 +1 <0; & F recv cp 256 -1; F compute attention block; "
                 "F send cp 256 +1 <3; & F recv cp 256 -1; F compute attention block <2; "
                 "F compute attention block <5; F compute attention; F compute MLP");
    expect_order(context(BB_CONTEXT_RING, 3), backward,
                 "B compute MLP gradients; B compute attention output; B send cp 256 +1 <1; "
                 "& B recv cp 256 -1; B compute attention block; B send cp 256 +1 <4; & B recv cp 256 -1; "
                 "B compute attention block <3; B send cp 256 +1 <7; & B recv cp 256 -1; "
                 "B compute attention block <6; B send cp 256 +1 <10; & B recv cp 256 -1; "
                 "B compute attention gradients <12");
}

static void orders_with_all_gather_and_all_to_all_attention(void **state)
{
    (void)state;
    expect_order(context(BB_CONTEXT_ALL_GATHER, 2), both,
                 "F compute projections; F all_gather cp 256 <0; F compute attention <1; F compute attention; "
                 "F compute MLP; B compute MLP gradients; B all_gather cp 256 <5; "
                 "B compute attention output; B compute attention <6; B reduce_scatter cp 256 <8; "
                 "B compute attention gradients <9");
    expect_order(context(BB_CONTEXT_ALL_TO_ALL, 2), both,
                 "F compute projections; F alltoall cp 64 <0; F alltoall cp 64; F alltoall cp 64; "
                 "F compute attention <3; F alltoall cp 64 <4; F compute attention <5; F compute MLP; "
                 "B compute MLP gradients; B compute attention output; B alltoall cp 64 <9; "
                 "B compute attention <10; B alltoall cp 64 <11; B alltoall cp 64; B alltoall cp 64; "
                 "B compute attention gradients <14");
}

static struct layer_step experts(int ranks, double imbalance)
{
    return (struct layer_step){.arch = small_experts(),
                               .grid = {.ranks = ranks, .dp = ranks, .ep = ranks},
                               .config = {.sequence = 16, .imbalance = imbalance, .dtype = BB_BFLOAT16}};
}

/* 16 tokens with 2 experts each on 2 ranks: 16 rows of 16 elements to each rank. The shared expert overlaps with
 * dispatch and combine. */
static void order_with_experts(void **state)
{
    struct layer_step l = experts(2, 0);

    (void)state;
    l.arch.shared_ffn = 32;
    expect_order(l, both,
                 "F compute attention; F compute router; F all_gather ep 4 <1; F alltoall ep 256; F alltoall ep 16; "
                 "F compute shared expert <2; F compute experts <4; F alltoall ep 256 <6; F compute shared expert; "
                 "B alltoall ep 256 <8; B compute shared expert gradient <7; B compute experts <9; "
                 "B alltoall ep 256 <11; B alltoall ep 16; B compute shared expert gradient; "
                 "B compute router gradient <13; B compute attention gradients");
}

/* ---- bytes ---- */

/* Minimum bytes that a rank sends in the operations of this communicator and type, and the payload of these calls. */
struct moved {
    double wire, payload;
    int calls;
};

static struct moved moved(const struct layer_step *l, int role, const char *comm, enum bb_dtype_id dtype)
{
    const struct bb_program *p = &l->step.roles[role].program;
    struct moved sum = {0};

    for (size_t i = 0; i < p->n_ops; i++) {
        const struct bb_op *op = &p->ops[i];
        double n, payload;

        if (op->comm == BB_NONE || strcmp(l->step.layout.comms[op->comm].name, comm) != 0 || op->dtype != dtype ||
            op->kind == BB_OP_RECV)
            continue;
        n = l->step.layout.groups[l->step.layout.comms[op->comm].group].size;
        payload = (double)bb_op_payload_bytes(op, (int)n);
        sum.wire += op->kind == BB_OP_SEND ? payload : payload * (op->coll == BB_ALL_REDUCE ? 2 : 1) * (n - 1) / n;
        sum.payload += payload;
        sum.calls++;
    }
    return sum;
}

static struct moved measure(struct layer_step l, layer_step_write *write, const char *comm, enum bb_dtype_id dtype)
{
    struct moved sum;

    assert_int_equal(layer_step_init(&l, write), 0);
    assert_int_equal(bb_step_expand(&l.step), 0);
    sum = moved(&l, 0, comm, dtype);
    assert_valid_layer_step(&l);
    layer_step_release(&l);
    return sum;
}

/* GPT-3 175B, 2048 tokens, 8 ranks: S = 50331648 bytes; 8 R S and 10 R S on the wire per layer and micro-batch, R =
 * (n-1)/n. */
static void tensor_parallel_bytes_match_the_formula(void **state)
{
    struct layer_step l = {.arch = published("gpt3_175b"),
                           .grid = {.ranks = 8, .tp = 8},
                           .config = {.sequence = 2048, .dtype = BB_BFLOAT16, .grad_dtype = BB_FLOAT}};
    struct moved m = measure(l, both, "tp", BB_BFLOAT16);

    (void)state;
    assert_int_equal(m.calls, 4);
    assert_true(m.payload == 4 * 50331648.0);
    assert_true(m.wire == 352321536);
    l.config.recompute = BB_RECOMPUTE_FULL;
    assert_true(measure(l, both, "tp", BB_BFLOAT16).wire == 352321536 * 1.5);
    l.config.recompute = BB_RECOMPUTE_NONE;
    l.config.sequence_parallel = true;
    m = measure(l, both, "tp", BB_BFLOAT16);
    assert_int_equal(m.calls, 10);
    assert_true(m.wire == 440401920);
    assert_true(measure(l, split, "tp", BB_BFLOAT16).wire == 440401920 * 0.6);
    l.config.tp_overlap = true;
    assert_true(measure(l, both, "tp", BB_BFLOAT16).wire == 440401920);
}

/* Layer norms 4h, biases after the row-parallel GEMMs 2h; a final norm of 2h; the tied embedding table. */
static void counts_replicated_parameters(void **state)
{
    struct layer_step l = {.arch = published("gpt3_175b"),
                           .grid = {.ranks = 8, .tp = 8},
                           .config = {.sequence = 2048, .dtype = BB_BFLOAT16, .grad_dtype = BB_FLOAT}};

    (void)state;
    assert_int_equal(layer_step_begin(&l), 0);
    assert_int_equal(bb_layers_replicated_elements(l.layers, 0), 0);
    bb_layers_free(l.layers);
    l.config.sequence_parallel = true;
    assert_int_equal(layer_step_begin(&l), 0);
    assert_int_equal(bb_layers_replicated_elements(l.layers, 5), 6 * 12288);
    assert_int_equal(bb_layers_replicated_elements(l.layers, BB_ARCH_HEAD), 2 * 12288);
    assert_int_equal(bb_layers_replicated_elements(l.layers, BB_ARCH_EMBEDDING), 0);
    assert_int_equal(bb_layers_boundary_elements(l.layers), 2048 * 12288 / 8);
    bb_layers_free(l.layers);
}

/* Embedding: one X; head: one X; cross entropy: three all-reduces of one float per token. */
static void bytes_of_embedding_and_head(void **state)
{
    struct layer_step l = tensor(false);
    double part = 0.5, x = 8 * 16 * 2;

    (void)state;
    assert_true(measure(l, embedding_and_head, "tp", BB_BFLOAT16).wire == 2 * 2 * part * x);
    assert_true(measure(l, embedding_and_head, "tp", BB_FLOAT).wire == 3 * 2 * part * 8 * 4);
    l.config.sequence_parallel = true;
    assert_true(measure(l, embedding_and_head, "tp", BB_BFLOAT16).wire == 5 * part * x);
}

/* LLaMA-3 8B on t x c ranks: a block has 2 b (s/c) (h kv / a) / t elements; forward sends c-1 blocks, backward 2
 * (c-1). */
static void context_parallel_bytes_match_the_formula(void **state)
{
    struct layer_step l = {.arch = published("llama3_8b"),
                           .grid = {.ranks = 8, .tp = 2, .cp = 4},
                           .config = {.sequence = 8192, .micro_batch_size = 2, .dtype = BB_BFLOAT16}};
    double block = 2.0 * 2 * (8192 / 4) * (4096 * 8 / 32) / 2 * 2, local = 2.0 * 2048 * 4096 / 2 * 2;
    struct moved m;

    (void)state;
    m = measure(l, forward, "cp", BB_BFLOAT16);
    assert_true(m.wire == 3 * block && m.calls == 3);
    m = measure(l, backward, "cp", BB_BFLOAT16);
    assert_true(m.wire == 2 * 3 * block && m.calls == 6);
    l.config.context = BB_CONTEXT_ALL_GATHER;
    assert_true(measure(l, both, "cp", BB_BFLOAT16).wire == 3 * 3 * block);
    l.config.context = BB_CONTEXT_ALL_TO_ALL;
    m = measure(l, both, "cp", BB_BFLOAT16);
    assert_int_equal(m.calls, 8);
    assert_true(m.wire == 2 * 0.75 * (2 * local + 2 * local / 4));
    assert_true(measure(l, both, "tp", BB_BFLOAT16).payload == 4 * 2.0 * 2048 * 4096 * 2);
}

/* Mixtral, 4096 tokens, 8 ranks: a token all-to-all has 67108864 bytes; one layer puts 234881024 + 57344 bytes on
 * the wire. */
static void expert_parallel_bytes_match_the_formula(void **state)
{
    struct layer_step l = {.arch = published("mixtral_8x7b"),
                           .grid = {.ranks = 8, .dp = 8, .ep = 8},
                           .config = {.sequence = 4096, .dtype = BB_BFLOAT16}};
    struct moved m = measure(l, both, "ep", BB_BFLOAT16);

    (void)state;
    assert_true(m.calls == 4 && m.payload == 4 * 67108864.0);
    assert_true(m.wire == 234881024);
    m = measure(l, both, "ep", BB_FLOAT);
    assert_true(m.calls == 2 && m.payload == 2 * 32768.0 && m.wire == 57344);
    m = measure(l, both, "ep", BB_INT32);
    assert_true(m.calls == 1 && m.payload == 8 * 8 * 4);
    l.config.capacity_factor = 1.25; /* ceil(1.25 * 1024) rows per expert, padded: counts are known without an
                                        exchange */
    assert_true(measure(l, both, "ep", BB_BFLOAT16).payload == 4 * 8 * 1280 * 4096 * 2.0);
    assert_int_equal(measure(l, both, "ep", BB_INT32).calls, 0);
    l.config.capacity_factor = 0;
    l.config.dispatch = BB_DISPATCH_ALL_GATHER;
    m = measure(l, both, "ep", BB_BFLOAT16);
    assert_true(m.calls == 4 && m.wire == 4 * 7 * 4096 * 4096 * 2.0);
}

/* Experts sharded over 2 ranks (etp): tokens of both ranks are gathered before them and results are reduced after
 * them, forward and backward. */
static void experts_sharded_by_etp_gather_and_reduce_tokens(void **state)
{
    struct layer_step l = {.arch = published("mixtral_8x7b"),
                           .grid = {.ranks = 8, .tp = 2, .dp = 4, .ep = 4, .etp = 2},
                           .config = {.sequence = 4096, .sequence_parallel = true, .dtype = BB_BFLOAT16}};
    double rows = 2048 * 2;
    struct moved m = measure(l, both, "etp", BB_BFLOAT16);

    (void)state;
    assert_int_equal(m.calls, 4);
    assert_true(m.wire == 4 * rows * 4096 * 2);
    assert_true(measure(l, both, "ep", BB_BFLOAT16).payload == 4 * rows * 4096 * 2);
    assert_true(measure(l, both, "tp", BB_BFLOAT16).calls == 5); /* only the attention's part */
}

/* ---- dropless ---- */

/* Every rank sends all its rows, receives match sends, and popular experts get more rows. */
static void dropless_routing_sends_all_rows(void **state)
{
    struct layer_step l = experts(4, 1.0);
    long total = 0;
    size_t max_received = 0, min_received = SIZE_MAX;

    (void)state;
    assert_int_equal(layer_step_init(&l, both), 0);
    assert_int_equal(bb_layers_programs_per_stage(l.layers), 4);
    assert_valid_layer_step(&l);
    assert_int_equal(bb_step_expand(&l.step), 0);
    assert_valid_layer_step(&l);
    for (int index = 0; index < 4; index++) {
        const struct bb_program *p = &l.step.roles[index].program;
        size_t received = 0;

        for (size_t i = 0; i < p->n_ops; i++)
            if (p->ops[i].kind == BB_OP_RECV && strcmp(p->ops[i].what, "dispatch") == 0)
                received += p->ops[i].count;
        max_received = received > max_received ? received : max_received;
        min_received = received < min_received ? received : min_received;
        total += (long)received;
    }
    assert_true(max_received > min_received);
    assert_true(total <= 4 * 16 * 2 * 16);
    layer_step_release(&l);
    l = experts(4, 0);
    assert_int_equal(layer_step_init(&l, both), 0);
    assert_int_equal(bb_layers_programs_per_stage(l.layers), 1);
    layer_step_release(&l);
}

/* Elements sent to or received from each peer, in operations with one name. */
static void counts_by_peer(const struct bb_program *p, enum bb_op_kind kind, const char *what, size_t counts[4])
{
    for (int peer = 0; peer < 4; peer++)
        counts[peer] = 0;
    for (size_t i = 0; i < p->n_ops; i++)
        if (p->ops[i].kind == kind && strcmp(p->ops[i].what, what) == 0)
            counts[p->ops[i].peer] += p->ops[i].count;
}

/* Return traffic mirrors the dispatch: each rank sends to each peer as many elements as it received from the peer,
 * and vice versa. */
/* Steps that share fractions and rows, in any order of ranks and tokens, have the rows of steps that compute their own. A
 * step with other experts, other popular experts or other layers computes its own. */
static void kept_shares_give_the_rows_of_each_step(void **state)
{
    const struct bb_routing_config base = {
        .tokens = 1000, .top_k = 2, .experts = 12, .layers = 3, .balanced = 1, .imbalance = 0.7, .seed = 5};
    struct bb_routing_config configs[] = {base, base, base, base, base, base, base};
    const int ranks[] = {2, 12, 3, 6, 4, 4, 2};
    struct bb_expert_shares *shares = bb_expert_shares_new();

    (void)state;
    configs[2].tokens = 77;
    configs[3].seed = 6;
    configs[4].experts = 16;
    configs[5].layers = 4;
    for (size_t i = 0; i < sizeof(configs) / sizeof(configs[0]); i++) {
        struct bb_routing own, kept;

        configs[i].ranks = ranks[i];
        bb_routing_init(&own, &configs[i], NULL);
        bb_routing_init(&kept, &configs[i], shares);
        assert_int_equal(kept.is_kept, i < 3 || i == 6);
        for (int layer = 0; layer < configs[i].layers; layer++)
            for (int to = 0; to < ranks[i]; to++) {
                long sum = 0;

                for (int from = 0; from < ranks[i]; from++) {
                    assert_int_equal(bb_routing_rows(&kept, layer, from, to), bb_routing_rows(&own, layer, from, to));
                    sum += bb_routing_rows(&own, layer, from, to);
                }
                assert_int_equal(bb_routing_received(&kept, layer, to), sum);
            }
        bb_routing_release(&own);
        bb_routing_release(&kept);
    }
    bb_expert_shares_free(shares);
}

static void return_traffic_mirrors_the_dispatch(void **state)
{
    static const char *const pairs[][2] = {{"dispatch", "combine"},
                                           {"combine gradients", "dispatch gradients"},
                                           {"dispatch", "dispatch gradients"},
                                           {"probabilities", "probability gradients"}};
    struct layer_step l = experts(4, 1.0);

    (void)state;
    assert_int_equal(layer_step_init(&l, both), 0);
    assert_int_equal(bb_step_expand(&l.step), 0);
    for (int index = 0; index < 4; index++)
        for (size_t i = 0; i < ROWS(pairs); i++) {
            const struct bb_program *p = &l.step.roles[index].program;
            size_t sent[4], received[4], sent_back[4], received_back[4];

            counts_by_peer(p, BB_OP_SEND, pairs[i][0], sent);
            counts_by_peer(p, BB_OP_RECV, pairs[i][0], received);
            counts_by_peer(p, BB_OP_SEND, pairs[i][1], sent_back);
            counts_by_peer(p, BB_OP_RECV, pairs[i][1], received_back);
            assert_true(sent[0] + sent[1] + sent[2] + sent[3] > 0);
            assert_memory_equal(sent, received_back, sizeof(sent));
            assert_memory_equal(received, sent_back, sizeof(sent));
        }
    layer_step_release(&l);
}

/* The same seed gives the same step, another seed another step. */
static void routing_depends_only_on_the_seed(void **state)
{
    struct layer_step l = experts(4, 1.0);
    struct moved first = measure(l, both, "ep", BB_BFLOAT16), second = measure(l, both, "ep", BB_BFLOAT16);

    (void)state;
    assert_true(first.wire == second.wire);
    l.config.seed = 7;
    assert_true(measure(l, both, "ep", BB_BFLOAT16).wire != first.wire);
}

/* A receive with a wrong count is found. */
static void finds_a_wrong_receive_count(void **state)
{
    struct layer_step l = experts(4, 1.0);
    struct bb_checks checks;
    struct bb_program *p;
    size_t i = 0;

    (void)state;
    assert_int_equal(layer_step_init(&l, forward), 0);
    assert_int_equal(bb_step_expand(&l.step), 0);
    p = &l.step.roles[2].program;
    while (p->ops[i].kind != BB_OP_RECV)
        i++;
    p->ops[i].count++;
    assert_int_equal(bb_step_check(&l.step, &checks), 0);
    assert_false(checks.matched);
    bb_checks_release(&checks);
    layer_step_release(&l);
}

/* A ring whose ranks send before they receive, without group calls, deadlocks. */
static void finds_an_ungrouped_ring_deadlock(void **state)
{
    struct layer_step l = context(BB_CONTEXT_RING, 3);
    struct bb_checks checks;
    struct bb_program *p;

    (void)state;
    assert_int_equal(layer_step_init(&l, forward), 0);
    p = &l.step.roles[0].program;
    for (size_t i = 0; i < p->n_ops; i++)
        p->ops[i].call = BB_NONE;
    assert_int_equal(bb_step_check(&l.step, &checks), 0);
    assert_false(checks.deadlock_free);
    bb_checks_release(&checks);
    layer_step_release(&l);
}

/* ---- compute ---- */

static double flops_of(const struct layer_step *l, enum bb_phase phase)
{
    const struct bb_program *p = &l->step.roles[0].program;
    double sum = 0;

    for (size_t i = 0; i < p->n_ops; i++)
        sum += p->ops[i].phase == phase ? p->ops[i].flops : 0;
    return sum;
}

/* Forward has the expected FLOPs, backward twice as many, for both compute modes, with and without a split backward. */
static void expect_flops(struct layer_step l, double expected)
{
    static const char *const computes[] = {"timed", "gemm"};

    for (int c = 0; c < 2; c++) {
        l.compute = computes[c];
        assert_int_equal(layer_step_init(&l, both), 0);
        assert_true(bb_layers_flops(l.layers, 0) == expected);
        assert_true(flops_of(&l, BB_PHASE_FORWARD) == expected);
        assert_true(flops_of(&l, BB_PHASE_BACKWARD) == 2 * expected);
        for (int i = 0; i < l.step.n_kernel_lists; i++)
            assert_false(l.step.kernel_lists[i]->overflowed);
        layer_step_release(&l);
        assert_int_equal(layer_step_init(&l, split), 0);
        assert_true(flops_of(&l, BB_PHASE_BACKWARD) == 2 * expected);
        layer_step_release(&l);
    }
}

static void layer_flops_match_the_formula(void **state)
{
    double n = 2048, h = 12288, matrices;
    struct layer_step l = {.arch = published("gpt3_175b"),
                           .grid = {.ranks = 8, .tp = 8},
                           .config = {.sequence = 2048, .dtype = BB_BFLOAT16, .grad_dtype = BB_FLOAT}};

    (void)state;
    expect_flops(l, (24 * n * h * h + 4 * n * n * h) / 8);
    l.config.sequence_parallel = true;
    expect_flops(l, (24 * n * h * h + 4 * n * n * h) / 8);
    l.config.tp_overlap = true;
    expect_flops(l, (24 * n * h * h + 4 * n * n * h) / 8);
    l = (struct layer_step){.arch = published("llama3_8b"),
                            .grid = {.ranks = 4, .cp = 4},
                            .config = {.sequence = 8192, .dtype = BB_BFLOAT16}};
    matrices = 218112000 - 2 * 4096;
    for (int mode = 0; mode < 3; mode++) {
        l.config.context = (enum bb_context_mode)mode;
        expect_flops(l, (2 * matrices * 8192 + 4.0 * 8192 * 8192 * 4096) / 4);
    }
}

/* The FLOPs of a layer with LoRA: weights and adapters run forward, the backward pass has no gradients of weights. n: tokens;
 * core: FLOPs of scores and context. */
static void assert_adapter_flops(struct layer_step *l, double n, double weights, double adapters, double core)
{
    const double forward = 2 * n * (weights + adapters) + core, backward = 2 * n * (weights + 2 * adapters) + 2 * core;

    assert_int_equal(layer_step_init(l, both), 0);
    assert_true(flops_of(l, BB_PHASE_FORWARD) == forward);
    assert_true(flops_of(l, BB_PHASE_BACKWARD) == backward);
    layer_step_release(l);
    assert_int_equal(layer_step_init(l, split), 0);
    assert_true(flops_of(l, BB_PHASE_BACKWARD) == backward);
    layer_step_release(l);
}

/* LoRA of rank 16 on LLaMA-3 8B: no gradients of the 218,112,000 - 2 h weights; both matrices of an adapter have them. */
static void frozen_weights_have_no_gradients(void **state)
{
    const double n = 8192, weights = 218112000 - 2 * 4096, core = 4 * n * n * 4096;

    (void)state;
    for (int i = 0; i < 8; i++) { /* from 4: query, key, value, gate and up have an adapter each */
        const int qkv = i < 4 ? 1 : 3, up = i < 4 ? 1 : 2;
        const double attention = 16 * (qkv * 4096 + 6144 + 4096 + 4096);
        const double mlp = 16 * (up * 4096 + 2 * 14336 + 14336 + 4096);
        struct layer_step l = {.arch = published("llama3_8b"),
                               .grid = {.ranks = 1},
                               .config = {.sequence = 8192, .dtype = BB_BFLOAT16, .grad_dtype = BB_FLOAT}};
        const double adapters = attention + (i % 2 ? 0 : mlp);

        l.arch.lora_rank = 16;
        l.arch.lora_attention = i % 2;
        l.arch.lora_split = i >= 4;
        l.compute = i % 4 < 2 ? "timed" : "gemm";
        assert_adapter_flops(&l, n, weights, adapters, core);
    }
}

/* LoRA of rank 16. Mixtral, by hand: with PEFT each weight of each expert has an adapter; in Megatron-LM gate and up have one
 * together, and all experts of a rank. A token passes two experts. The router is frozen. */
static void adapters_of_experts_have_gradients(void **state)
{
    const double n = 4096, weights = 41943040 + 8 * 4096 + 2 * 176160768.0, core = 4 * n * n * 4096;

    (void)state;
    for (int i = 0; i < 6; i++) {
        const bool split_up = i < 3;
        const double attention = 16 * ((split_up ? 3 : 1) * 4096 + 6144 + 2 * 4096);
        const double expert = 16 * ((split_up ? 2 : 1) * 4096 + 2 * 14336 + 14336 + 4096);
        const double adapters = attention + (i % 3 == 2 ? 0 : 2 * expert);
        struct layer_step l = {.arch = published("mixtral_8x7b"),
                               .grid = {.ranks = 2, .dp = 2, .ep = 2},
                               .config = {.sequence = 4096, .dtype = BB_BFLOAT16, .grad_dtype = BB_FLOAT}};

        l.arch.lora_rank = 16;
        l.arch.lora_split = split_up;
        l.arch.lora_experts = split_up ? 8 : 2;
        l.arch.lora_attention = i % 3 == 2;
        l.compute = i % 3 ? "gemm" : "timed";
        assert_adapter_flops(&l, n, weights, adapters, core);
    }
}

/* DeepSeek-V3: the five projections of latent attention have an adapter each; the indexer of DeepSeek-V3.2 has none. A token
 * passes eight experts and the shared one. */
static void adapters_of_latent_attention_have_gradients(void **state)
{
    const double n = 4096, latent = 187107328 - 1536 - 512, expert = 44040192, core = 2 * n * n * 128 * (192 + 128);
    const double index = 1536 * 8192 + 7168 * 192, scores = 2 * n * n * 64 * 128;
    const double attention = 7168 + 1536 + 7168 + 576 + 1536 + 128 * 192 + 512 + 128 * 256 + 128 * 128 + 7168;

    (void)state;
    for (int has_index = 0; has_index < 2; has_index++) {
        const double weights = latent + 256 * 7168 + 9 * expert + (has_index ? index : 0);
        const double adapters = 16 * (attention + 9 * (2 * 7168 + 3 * 2048 + 2048 + 7168.0 - 2048));
        const double outer = core + (has_index ? scores : 0);
        struct layer_step l = {.arch = published("deepseek_v3"),
                               .grid = {.ranks = 16, .dp = 16, .ep = 16},
                               .config = {.sequence = 4096, .dtype = BB_BFLOAT16, .grad_dtype = BB_FLOAT}};

        l.arch.dense_layers = 0;
        l.arch.lora_rank = 16;
        l.arch.lora_split = true;
        l.arch.lora_experts = 256;
        l.arch.index_heads = has_index ? 64 : 0;
        l.arch.index_dim = 128;
        l.compute = "gemm";
        assert_int_equal(layer_step_init(&l, both), 0);
        assert_true(flops_of(&l, BB_PHASE_FORWARD) == 2 * n * (weights + adapters) + outer);
        assert_true(flops_of(&l, BB_PHASE_BACKWARD) == 2 * n * (weights + 2 * adapters) + 2 * outer);
        layer_step_release(&l);
    }
}

/* Mistral 7B with a window in every layer, in every second layer, in no layer. DeepSeek-V3.2 selects 2048 keys by an
 * indexer that reads all keys. */
static void windowed_attention_flops_match_the_formula(void **state)
{
    double n = 8192, rest = 218112000 - 2 * 4096, keys = 4096;
    double latent = 187107328 - 1536 - 512, index = 1536 * 8192 + 7168 * 192, dense = 396361728;
    struct layer_step l = {.arch = published("mistral_7b"),
                           .grid = {.ranks = 2, .tp = 2},
                           .config = {.sequence = 8192, .dtype = BB_BFLOAT16, .sequence_parallel = true}};

    (void)state;
    expect_flops(l, (2 * rest * n + 4 * n * keys * 4096) / 2);
    l.arch.window_every = 2;
    expect_flops(l, (2 * rest * n + 4 * n * keys * 4096) / 2);
    l.arch.window_every = 1;
    expect_flops(l, (2 * rest * n + 4 * n * n * 4096) / 2);
    l.arch.window_every = 0;
    l.config.sequence_parallel = false;
    l.grid = (struct bb_grid){.ranks = 2, .cp = 2};
    l.config.context = BB_CONTEXT_ALL_GATHER;
    expect_flops(l, (2 * rest * n + 4 * n * keys * 4096) / 2);
    l = (struct layer_step){
        .arch = published("deepseek_v3"), .grid = {.ranks = 1}, .config = {.sequence = 8192, .dtype = BB_BFLOAT16}};
    l.arch.window = 2048;
    l.arch.index_heads = 64;
    l.arch.index_dim = 128;
    expect_flops(l, 2 * n * (latent + index + dense) + 2 * n * 2048 * 128 * (192 + 128) + 2 * n * n * 64 * 128);
}

static void expert_layer_flops_match_the_formula(void **state)
{
    double latent = 187107328 - 1536 - 512, expert = 44040192, n = 4096;
    struct layer_step l = {.arch = published("mixtral_8x7b"),
                           .grid = {.ranks = 8, .dp = 8, .ep = 8},
                           .config = {.sequence = 4096, .dtype = BB_BFLOAT16}};

    (void)state;
    expect_flops(l, 2 * n * (41943040 + 8 * 4096 + 2 * 176160768.0) + 4 * n * n * 4096);
    l.config.dispatch = BB_DISPATCH_ALL_GATHER;
    expect_flops(l, 2 * n * (41943040 + 8 * 4096 + 2 * 176160768.0) + 4 * n * n * 4096);
    l = (struct layer_step){.arch = published("deepseek_v3"),
                            .grid = {.ranks = 16, .dp = 16, .ep = 16},
                            .config = {.sequence = 4096, .dtype = BB_BFLOAT16}};
    expect_flops(l, 2 * n * (latent + 396361728) + 2 * n * n * 128 * (192 + 128)); /* the first layers are dense */
    assert_int_equal(layer_step_begin(&l), 0);
    assert_true(bb_layers_flops(l.layers, 3) ==
                2 * n * (latent + 256 * 7168 + 9 * expert) + 2 * n * n * 128 * (192 + 128));
    bb_layers_free(l.layers);
}

/* 6 P per token, where P are the parameters that a token passes (without input embedding, norms and biases), plus
 * the attention. */
static void step_flops_match_6p_per_token(void **state)
{
    static const char *const names[] = {"llama2_7b", "mixtral_8x7b"};
    static const enum bb_recompute recompute[] = {BB_RECOMPUTE_NONE, BB_RECOMPUTE_SELECTIVE, BB_RECOMPUTE_FULL};

    (void)state;
    for (int i = 0; i < 6; i++) {
        struct layer_step l = {.arch = published(names[i % 2]),
                               .grid = {.ranks = 1},
                               .config = {.sequence = 4096, .recompute = recompute[i / 2], .dtype = BB_BFLOAT16}};
        double h = 4096, s = 4096, active = bb_arch_active(&l.arch) - 32000 * h - 65 * h, samples = 2;

        assert_int_equal(layer_step_init(&l, whole_step), 0);
        assert_true(flops_of(&l, BB_PHASE_FORWARD) + flops_of(&l, BB_PHASE_BACKWARD) ==
                    samples * (6 * active * s + 12 * 32 * h * s * s));
        layer_step_release(&l);
    }
}

static double backward_us(struct layer_step l, enum bb_recompute recompute, double *forward_us)
{
    double us = 0;

    l.config.recompute = recompute;
    *forward_us = 0;
    assert_int_equal(layer_step_init(&l, both), 0);
    for (size_t i = 0; i < l.step.roles[0].program.n_ops; i++) {
        const struct bb_op *op = &l.step.roles[0].program.ops[i];

        *(op->phase == BB_PHASE_FORWARD ? forward_us : &us) += op->compute_us;
    }
    layer_step_release(&l);
    return us;
}

/* Recomputation adds the time of the whole layer, or 4 s^2 h at 100 TFLOP/s for the attention core. */
static void recomputation_adds_its_time(void **state)
{
    struct layer_step l = {
        .arch = published("llama2_7b"), .grid = {.ranks = 1}, .config = {.sequence = 4096, .dtype = BB_BFLOAT16}};
    double forward, core = 4.0 * 4096 * 4096 * 4096 / 1e8;

    (void)state;
    assert_true(fabs(backward_us(l, BB_RECOMPUTE_NONE, &forward) - 2 * forward) < 1e-6);
    assert_true(fabs(backward_us(l, BB_RECOMPUTE_SELECTIVE, &forward) - 2 * forward - core) < 1e-6);
    assert_true(fabs(backward_us(l, BB_RECOMPUTE_FULL, &forward) - 3 * forward) < 1e-6);
}

/* With sequence parallelism each tp rank has 1 / tp of the rows of the down projections (7168 to 1536 and 576), and nothing is
 * repeated but the projections and scores of an indexer. */
static void sequence_parallelism_divides_latent_projections(void **state)
{
    const double latent = 187107328 - 1536 - 512, index = 1536 * 8192 + 7168 * 192, n = 4096;
    const double divided = (2 * n * (latent + 396361728) + 2 * n * n * 128 * (192 + 128)) / 8;
    const double repeated = 2 * n * index + 2 * n * n * 64 * 128;
    struct layer_step l = {.arch = published("deepseek_v3"),
                           .grid = {.ranks = 8, .tp = 8},
                           .config = {.sequence = 4096, .dtype = BB_BFLOAT16, .sequence_parallel = true}};
    double forward;

    (void)state;
    expect_flops(l, divided);
    assert_true(fabs(backward_us(l, BB_RECOMPUTE_NONE, &forward) - 2 * divided / 1e8) < 1e-6);
    assert_true(fabs(forward - divided / 1e8) < 1e-6);
    l.arch.index_heads = 64;
    l.arch.index_dim = 128;
    assert_true(fabs(backward_us(l, BB_RECOMPUTE_NONE, &forward) - 2 * (divided + repeated) / 1e8) < 1e-6);
    assert_int_equal(layer_step_init(&l, both), 0);
    assert_true(flops_of(&l, BB_PHASE_FORWARD) == divided + repeated / 8);
    layer_step_release(&l);
}

/* Checkpointed operations: the GEMMs of the keys, of the attention output and of the second up projection (gated MLP). With tp the
 * sum after attention is repeated as an all-reduce, but not as a reduce-scatter, whose output is stored. */
static void checkpointed_operations_add_their_time(void **state)
{
    const double n = 4096, llama = 2 * n * 4096 * (1024 + 4096 + 14336), gpt = 2 * n * 768 * (768 + 768.0);
    struct layer_step l = {
        .arch = published("llama3_8b"), .grid = {.ranks = 1}, .config = {.sequence = 4096, .dtype = BB_BFLOAT16}};
    double forward_us;

    (void)state;
    assert_true(fabs(backward_us(l, BB_RECOMPUTE_OPS, &forward_us) - 2 * forward_us - llama / 1e8) < 1e-6);
    l.arch = published("gpt2_small");
    assert_true(fabs(backward_us(l, BB_RECOMPUTE_OPS, &forward_us) - 2 * forward_us - gpt / 1e8) < 1e-6);
    l.arch = published("llama3_8b");
    l.grid = (struct bb_grid){.ranks = 2, .tp = 2};
    for (int sharded = 0; sharded < 2; sharded++) {
        size_t sums[2];

        for (int i = 0; i < 2; i++) {
            l.config.recompute = i == 0 ? BB_RECOMPUTE_NONE : BB_RECOMPUTE_OPS;
            l.config.sequence_parallel = sharded;
            assert_int_equal(layer_step_init(&l, backward), 0);
            sums[i] = 0;
            for (size_t k = 0; k < l.step.roles[0].program.n_ops; k++) {
                const struct bb_op *op = &l.step.roles[0].program.ops[k];

                sums[i] += op->kind == BB_OP_COLLECTIVE && op->coll != BB_ALL_GATHER;
            }
            layer_step_release(&l);
        }
        assert_int_equal(sums[1] - sums[0], sharded ? 0 : 1);
    }
}

/* DeepSeek-V3 by hand: FLOPs of each module that Megatron-LM can recompute, for 4096 tokens: attention over 192 + 128
 * elements per head; up projections of latents of 1536 and 512; MLP of 18432; 8 + 1 experts of 2048 and a router. Norms and
 * activation functions have no FLOPs. */
static void recomputed_modules_add_their_time(void **state)
{
    const double n = 4096, expert = 3 * 7168 * 2048.0;
    const struct {
        int layers_with_mlp;
        unsigned modules;
        double flops;
    } cases[] = {
        {1, 1u << BB_MODULE_CORE, 2 * n * n * 128 * (192 + 128)},
        {1, 1u << BB_MODULE_LATENT_UP, 2 * n * 128 * (1536 * 192 + 512 * 256.0)},
        {1, 1u << BB_MODULE_MLP, 2 * n * 3 * 7168 * 18432},
        {0, 1u << BB_MODULE_MLP, 0},
        {0, 1u << BB_MODULE_NORM | 1u << BB_MODULE_EXPERT_ACTIVATION, 0},
        {0, 1u << BB_MODULE_SHARED_EXPERTS, 2 * n * expert},
        {0, 1u << BB_MODULE_MOE | 1u << BB_MODULE_CORE,
         2 * n * (256 * 7168 + 9 * expert) + 2 * n * n * 128 * (192 + 128)},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct layer_step l = {.arch = published("deepseek_v3"),
                               .grid = {.ranks = 8, .dp = 8, .ep = 8},
                               .config = {.sequence = 4096, .dtype = BB_BFLOAT16}};
        double forward;

        l.arch.dense_layers = cases[i].layers_with_mlp;
        l.config.recompute_modules = cases[i].modules;
        assert_true(fabs(backward_us(l, BB_RECOMPUTE_SELECTIVE, &forward) - 2 * forward - cases[i].flops / 1e8) < 1e-6);
    }
}

/* With a capacity factor of 2 the padded rows take time, but the model's FLOPs count only the needed rows. */
static void padded_capacity_takes_time_but_no_model_flops(void **state)
{
    struct layer_step l = {.arch = published("mixtral_8x7b"),
                           .grid = {.ranks = 8, .dp = 8, .ep = 8},
                           .config = {.sequence = 4096, .dtype = BB_BFLOAT16}};
    double plain, padded, needed, experts = 2.0 * 4096 * 2 * 176160768;

    (void)state;
    backward_us(l, BB_RECOMPUTE_NONE, &plain);
    l.config.capacity_factor = 2;
    backward_us(l, BB_RECOMPUTE_NONE, &padded);
    assert_true(fabs(padded - plain - experts / 1e8) < 1e-6);
    assert_int_equal(layer_step_init(&l, forward), 0);
    needed = flops_of(&l, BB_PHASE_FORWARD);
    assert_true(needed == bb_layers_flops(l.layers, 0));
    layer_step_release(&l);
}

/* With several micro-batches, gradients are accumulated for each: this rank's share of every layer, in float. */
static void accumulates_gradients_of_each_micro_batch(void **state)
{
    struct layer_step l = {.arch = published("llama2_7b"),
                           .grid = {.ranks = 4, .tp = 4},
                           .config = {.sequence = 4096, .accumulates = true, .dtype = BB_BFLOAT16},
                           .compute = "gemm"};
    double bytes = 0;

    (void)state;
    assert_int_equal(layer_step_init(&l, whole_step), 0);
    for (size_t i = 0; i < l.step.roles[0].program.n_ops; i++) {
        const struct bb_op *op = &l.step.roles[0].program.ops[i];

        bytes += op->kind == BB_OP_COMPUTE && strcmp(op->what, "accumulate gradients") == 0
                     ? bb_kernel_list_bytes(op->work)
                     : 0;
    }
    /* 2 micro-batches; reads 16 bits and a float, writes a float; norms are replicated; the embedding table is not
     * included */
    assert_true(bytes == 2 * 10 * ((6738415616.0 - 32000 * 4096 - 65 * 4096) / 4 + 65 * 4096));
    layer_step_release(&l);
}

/* Kernel times as given for a whole layer. */
static void given_layer_times_are_divided_among_kernels(void **state)
{
    struct layer_step steps[] = {tensor(true), {.arch = published("deepseek_v3"), .grid = {.ranks = 2, .tp = 2}}};

    (void)state;
    steps[1].config = (struct bb_layers_config){.sequence = 64, .dtype = BB_BFLOAT16, .sequence_parallel = true};
    for (int i = 0; i < 2; i++) {
        double forward_us, us;

        steps[i].config.forward_us = 120;
        steps[i].config.backward_us = 300;
        us = backward_us(steps[i], BB_RECOMPUTE_NONE, &forward_us);
        assert_true(fabs(forward_us - 120) < 1e-6 && fabs(us - 300) < 1e-6);
    }
}

/* ---- layouts ---- */

static int choose(unsigned *seed, const int *from, int n)
{
    *seed = *seed * 1664525u + 1013904223u;
    return from[(*seed >> 16) % (unsigned)n];
}

static struct layer_step random_layout(unsigned *seed)
{
    static const int sizes[] = {1, 1, 2, 4}, two[] = {0, 1}, three[] = {0, 1, 2};
    struct layer_step l = {.arch = choose(seed, two, 2) ? small_experts() : small()};

    l.arch.kv_heads = choose(seed, two, 2) ? 4 : 2;
    l.arch.gated = choose(seed, two, 2);
    l.arch.shared_ffn = choose(seed, two, 2) ? 32 : 0;
    l.arch.dense_layers = choose(seed, two, 2);
    l.arch.experts = l.arch.experts ? 8 : 0;
    l.grid.tp = choose(seed, sizes, 3);
    l.grid.cp = choose(seed, sizes, 4);
    l.grid.dp = choose(seed, sizes, 4);
    l.grid.ranks = l.grid.tp * l.grid.cp * l.grid.dp;
    if (l.arch.experts) {
        l.grid.etp = choose(seed, sizes, 3);
        l.grid.ep = choose(seed, sizes, 4);
    }
    l.config = (struct bb_layers_config){.sequence = 32,
                                         .micro_batch_size = 1 + choose(seed, two, 2),
                                         .sequence_parallel = l.arch.experts || choose(seed, two, 2),
                                         .tp_overlap = choose(seed, two, 2),
                                         .recompute = (enum bb_recompute)choose(seed, three, 3),
                                         .context = (enum bb_context_mode)choose(seed, three, 3),
                                         .dispatch = (enum bb_dispatch_mode)choose(seed, two, 2),
                                         .capacity_factor = choose(seed, three, 3) == 2 ? 1.1 : 0,
                                         .imbalance = choose(seed, three, 3),
                                         .seed = *seed,
                                         .accumulates = true,
                                         .dtype = BB_BFLOAT16,
                                         .grad_dtype = BB_FLOAT};
    l.compute = choose(seed, two, 2) ? "timed" : "gemm";
    return l;
}

/* Random layouts of two layers and two micro-batches: valid steps, and no kernel list overflows. Invalid layouts are
 * rejected. */
static void random_layouts_give_valid_steps(void **state)
{
    unsigned seed = 5;
    int built = 0;

    (void)state;
    for (int i = 0; i < 300; i++) {
        struct layer_step l = random_layout(&seed);

        if (layer_step_init(&l, whole_step) == 0) {
            assert_valid_layer_step(&l);
            built++;
        }
        layer_step_release(&l);
    }
    assert_in_range(built, 100, 300);
}

/* ---- rejected configurations ---- */

static void rejects_invalid_configurations(void **state)
{
    struct layer_step l = tensor(false), heads = context(BB_CONTEXT_ALL_TO_ALL, 8), same = experts(2, 0);
    struct layer_step ring = context(BB_CONTEXT_RING, 2);

    (void)state;
    l.arch.heads = 3;
    l.grid.tp = 2;
    assert_int_equal(layer_step_begin(&l), -BB_EUSAGE);
    heads.config.sequence = 64;
    assert_int_equal(layer_step_begin(&heads), -BB_EUSAGE);
    same.grid = (struct bb_grid){.ranks = 2, .tp = 2};
    assert_int_equal(layer_step_begin(&same), -BB_EUSAGE);
    ring.arch.window = ring.config.sequence - 1;
    assert_int_equal(layer_step_begin(&ring), -BB_EUSAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order_with_tensor_parallelism),
        cmocka_unit_test(order_with_sequence_parallelism),
        cmocka_unit_test(order_with_overlapped_tensor_parallelism),
        cmocka_unit_test(order_with_split_backward),
        cmocka_unit_test(order_of_embedding_and_head),
        cmocka_unit_test(order_with_ring_attention),
        cmocka_unit_test(orders_with_all_gather_and_all_to_all_attention),
        cmocka_unit_test(order_with_experts),
        cmocka_unit_test(tensor_parallel_bytes_match_the_formula),
        cmocka_unit_test(counts_replicated_parameters),
        cmocka_unit_test(bytes_of_embedding_and_head),
        cmocka_unit_test(context_parallel_bytes_match_the_formula),
        cmocka_unit_test(expert_parallel_bytes_match_the_formula),
        cmocka_unit_test(experts_sharded_by_etp_gather_and_reduce_tokens),
        cmocka_unit_test(dropless_routing_sends_all_rows),
        cmocka_unit_test(routing_depends_only_on_the_seed),
        cmocka_unit_test(kept_shares_give_the_rows_of_each_step),
        cmocka_unit_test(return_traffic_mirrors_the_dispatch),
        cmocka_unit_test(finds_a_wrong_receive_count),
        cmocka_unit_test(finds_an_ungrouped_ring_deadlock),
        cmocka_unit_test(layer_flops_match_the_formula),
        cmocka_unit_test(frozen_weights_have_no_gradients),
        cmocka_unit_test(adapters_of_experts_have_gradients),
        cmocka_unit_test(adapters_of_latent_attention_have_gradients),
        cmocka_unit_test(windowed_attention_flops_match_the_formula),
        cmocka_unit_test(expert_layer_flops_match_the_formula),
        cmocka_unit_test(step_flops_match_6p_per_token),
        cmocka_unit_test(accumulates_gradients_of_each_micro_batch),
        cmocka_unit_test(recomputation_adds_its_time),
        cmocka_unit_test(sequence_parallelism_divides_latent_projections),
        cmocka_unit_test(checkpointed_operations_add_their_time),
        cmocka_unit_test(recomputed_modules_add_their_time),
        cmocka_unit_test(padded_capacity_takes_time_but_no_model_flops),
        cmocka_unit_test(given_layer_times_are_divided_among_kernels),
        cmocka_unit_test(random_layouts_give_valid_steps),
        cmocka_unit_test(rejects_invalid_configurations),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
