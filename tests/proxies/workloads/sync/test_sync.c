/*
 * test_sync.c - synchronization of data-parallel replicas: orders and dependencies written by hand for three layers;
 * bytes of data_parallel's plans against the formulas of each kind and numbers computed for published models; groups;
 * memory by formula; rejected options; random options, which must give valid steps.
 */
#include "proxies/simulation/simulate/step_check.h"
#include "proxies/workloads/sync/sync.h"
#include "tests/proxies/workloads/transformer/lines.h"

/* ---- three layers, orders written by hand ---- */

#define LAYERS 3
static const struct bb_tensor tensors[LAYERS][2] = {{{"a", 6}, {"b", 2}}, {{"a", 8}, {"b", 4}}, {{"a", 16}, {"b", 4}}};

/* A step of `ranks` ranks that computes three layers `micro_batches` times and synchronizes their gradients. */
struct three_layers {
    struct bb_step step;
    struct bb_dp_config policy;
    int ranks, gpus_per_node, micro_batches;
    bool last_local, wrong_order; /* wrong_order: gradients arrive in forward instead of backward order */
};

static void three_layers_init(struct three_layers *h, const struct bb_dp_config *policy, int ranks)
{
    *h = (struct three_layers){.policy = *policy, .ranks = ranks, .gpus_per_node = 2, .micro_batches = 1};
    if (policy->rule.kind == BB_BUCKETS_DDP)
        h->policy.rule = (struct bb_bucket_rule){.kind = BB_BUCKETS_DDP, .first_bytes = 40, .cap_bytes = 96};
    h->policy.params = h->policy.grads = BB_FLOAT;
}

static void three_layers_compute(struct bb_script *s, struct bb_sync *sync, int unit, bool forward, bool last)
{
    s->phase = forward ? BB_PHASE_FORWARD : BB_PHASE_BACKWARD;
    if (forward)
        bb_sync_before_forward(sync, unit);
    else
        bb_sync_before_backward(sync, unit);
    bb_script_compute(s, "layer", unit + 1, 0, BB_NONE, BB_NONE);
    if (forward)
        bb_sync_after_forward(sync, unit);
    else
        bb_sync_after_backward(sync, unit, last);
}

static void three_layers_build(struct three_layers *h)
{
    const struct bb_axis axis = {"dp", h->ranks};
    const struct bb_proxy_config config = {.dtype = "float", .compute = "timed"};
    struct bb_sync_unit units[LAYERS];
    struct bb_script script;
    struct bb_sync_spec spec = {.policy = &h->policy,
                                .step = &h->step,
                                .script = &script,
                                .units = units,
                                .n_units = LAYERS,
                                .holds_remainder = h->last_local};
    struct bb_sync *sync;

    h->step = (struct bb_step){.proxy = "hand"};
    assert_int_equal(bb_layout_init(&h->step.layout, h->ranks, &axis, 1), 0);
    assert_int_equal(bb_sync_add_comms(&h->step, &h->policy, bb_layout_add_group(&h->step.layout, "dp", 1),
                                       h->gpus_per_node, &spec.comms),
                     0);
    assert_int_equal(bb_step_add_roles(&h->step, 1), 0);
    h->step.roles[0].name = "hand";
    for (int u = 0; u < LAYERS; u++)
        units[u] = (struct bb_sync_unit){.name = "layer", .tensors = tensors[u], .n = 2, .backward_us = 10};
    bb_script_init(&script, &h->step.roles[0].program, &config);
    bb_sync_init(&sync, &spec);
    bb_sync_begin_step(sync);
    for (int m = 0; m < h->micro_batches; m++) {
        for (int u = 0; u < LAYERS; u++)
            three_layers_compute(&script, sync, u, true, false);
        for (int u = 0; u < LAYERS; u++)
            three_layers_compute(&script, sync, h->wrong_order ? u : LAYERS - 1 - u, false, m == h->micro_batches - 1);
    }
    bb_sync_finish_step(sync);
    assert_int_equal(bb_script_result(&script), 0);
    bb_sync_release(sync);
}

/* An operation as text: F2 and B2 are forward and backward of layer 2, O the optimizer, C a copy; "AR dp 18 <4" is a
 * collective with its communicator, count and waits. */
static void op_text(const struct three_layers *h, size_t i, char text[96])
{
    static const char *const names[BB_COLL_KIND_COUNT] = {[BB_ALL_REDUCE] = "AR",
                                                          [BB_ALL_GATHER] = "AG",
                                                          [BB_REDUCE_SCATTER] = "RS",
                                                          [BB_REDUCE] = "RD",
                                                          [BB_BROADCAST] = "BC"};
    const struct bb_program *p = &h->step.roles[0].program;
    const struct bb_op *op = &p->ops[i];
    int n;

    if (op->kind == BB_OP_COMPUTE && strcmp(op->what, "layer") == 0)
        n = snprintf(text, 96, "%c%g", op->phase == BB_PHASE_FORWARD ? 'F' : 'B', op->compute_us - 1);
    else if (op->kind == BB_OP_COMPUTE)
        n = snprintf(text, 96, "%c", op->phase == BB_PHASE_OPTIMIZER ? 'O' : 'C');
    else
        n = snprintf(text, 96, "%s %s %zu", names[op->coll], h->step.layout.comms[op->comm].name, op->count);
    for (int w = 0; w < op->waits; w++)
        n += snprintf(text + n, 96 - (size_t)n, " <%d", p->wait_list[op->first_wait + w]);
}

static void assert_three_layers(struct three_layers *h, const char *order)
{
    struct bb_checks checks;
    char text[96];

    for (size_t i = 0; i < h->step.roles[0].program.n_ops; i++) {
        op_text(h, i, text);
        made_next_is(&order, i, text);
    }
    assert_string_equal(order, "");
    assert_int_equal(bb_step_check(&h->step, &checks), 0);
    assert_true(checks.matched && checks.deadlock_free && checks.safe_serialised);
    bb_checks_release(&checks);
    bb_step_release(&h->step);
}

static const struct order {
    const char *order;
    int ranks;
    struct bb_dp_config policy;
    int micro_batches; /* 0 stands for 1 */
    bool wrong_order;
} orders[] = {
    /* Gradients arrive as 4, 16 (layer 2), 4, 8, 2, 6. The first bucket reaches its 40 bytes with the second tensor;
     * the second has 4 + 8 + 2 + 6 elements = 80 bytes and never reaches 96. */
    {"F0; F1; F2; B2; AR dp 20 <3; B1; B0; AR dp 20 <6; O <7", .ranks = 4, .policy = {.kind = BB_SYNC_ALL_REDUCE}},
    /* With a single bucket, and without overlap, the reductions follow the whole backward. */
    {"F0; F1; F2; B2; B1; B0; AR dp 40 <5; O <6", .ranks = 4,
     .policy = {.kind = BB_SYNC_ALL_REDUCE, .rule = {.kind = BB_BUCKETS_SINGLE}}},
    {"F0; F1; F2; B2; B1; B0; AR dp 20 <5; AR dp 20; O <7", .ranks = 4,
     .policy = {.kind = BB_SYNC_ALL_REDUCE, .options.no_overlap = true}},
    {"F0; F1; F2; B0; B1; B2; AR dp 20 <5; AR dp 20; O <7", .ranks = 4, .wrong_order = true,
     .policy = {.kind = BB_SYNC_ALL_REDUCE}},
    /* Only the last micro-batch reduces. */
    {"F0; F1; F2; B2; B1; B0; F0; F1; F2; B2; AR dp 20 <9; B1; B0; AR dp 20 <12; O <13", .ranks = 4, .micro_batches = 2,
     .policy = {.kind = BB_SYNC_ALL_REDUCE}},
    {"F0; F1; F2; B2; RS dp gradients 5 <3; B1; B0; RS dp gradients 5 <6; O <7; AG dp parameters 5 <8; "
     "AG dp parameters 5",
     .ranks = 4, .policy = {.kind = BB_SYNC_ZERO1}},
    /* DeepSpeed's default: whole buckets are all-reduced. Counts are padded to a multiple of the ranks. */
    {"F0; F1; F2; B2; AR dp gradients 21 <3; B1; B0; AR dp gradients 21 <6; O <7; AG dp parameters 7 <8; "
     "AG dp parameters 7",
     .ranks = 3, .policy = {.kind = BB_SYNC_ZERO1, .reduce_whole = true}},
    /* Every micro-batch reduces. */
    {"F0; F1; F2; B2; RS dp gradients 5 <3; B1; B0; RS dp gradients 5 <6; F0; F1; F2; B2 <4; RS dp gradients 5 <11; "
     "B1 <7; B0; RS dp gradients 5 <14; O <15; AG dp parameters 5 <16; AG dp parameters 5",
     .ranks = 4, .micro_batches = 2, .policy = {.kind = BB_SYNC_ZERO2}},
    /* FSDP: the next layer is gathered during the current one. In backward, the gather of layer u-1 is issued before
     * the reduce-scatter of layer u. A gather reuses the buffer of the layer before last. */
    {"AG dp 2; AG dp 3; F0 <0; AG dp 5 <2; F1 <1; F2 <3; AG dp 5 <5; AG dp 3; B2 <6; RS dp 5 <8; AG dp 2; B1 <7; "
     "RS dp 3 <11; B0 <10; RS dp 2 <13; O <14",
     .ranks = 4, .policy = {.kind = BB_SYNC_ZERO3}},
    /* With separate communicators, gathers are not serialized with reductions. */
    {"AG dp parameters 2; AG dp parameters 3; F0 <0; AG dp parameters 5 <2; F1 <1; F2 <3; AG dp parameters 5 <5; "
     "AG dp parameters 3; B2 <6; RS dp gradients 5 <8; AG dp parameters 2 <8; B1 <7; RS dp gradients 3 <11; "
     "B0 <10 <9; RS dp gradients 2 <13; O <14",
     .ranks = 4, .policy = {.kind = BB_SYNC_ZERO3, .options.own_gather_comm = true}},
    {"AG dp shard 4; AG dp shard 6; F0 <0; AG dp shard 10 <2; F1 <1; F2 <3; AG dp shard 10 <5; AG dp shard 6; B2 <6; "
     "RS dp shard 10 <8; AR dp replica 10 <9; AG dp shard 4; B1 <7; RS dp shard 6 <12; AR dp replica 6 <13; B0 <11; "
     "RS dp shard 4 <15; AR dp replica 4 <16; O <17",
     .ranks = 4, .policy = {.kind = BB_SYNC_HSDP}},
    /* The step begins with the gather of the parameters that the last step updated; a layer waits for the buckets
     * that contain it. */
    {"AG dp parameters 5; AG dp parameters 5; F0 <0; F1; F2 <1; B2; RS dp gradients 5 <5; B1; B0; "
     "RS dp gradients 5 <8; O <9",
     .ranks = 4, .policy = {.kind = BB_SYNC_DISTRIBUTED, .options.overlap_param_gather = true}},
    /* Tensors of 4, 16, ... elements are multiples of 16 bytes: no padding. Fused tensors are copied into and out of
     * the buffer. */
    {"F0; F1; F2; B2; C; AR dp 20 <4; B1; C; AR dp 12 <7; B0; C; AR dp 12 <10; C <11; C; C; O", .ranks = 4,
     .policy = {.kind = BB_SYNC_HOROVOD, .rule = {.kind = BB_BUCKETS_FUSION, .threshold_bytes = 1e6, .cycle_us = 10}}},
    /* 3 nodes of 2 ranks. Buckets of 20 elements are divisible by 2. */
    {"F0; F1; F2; B2; RS dp local 10 <3; AR dp cross 10 <4; AG dp local 10 <5; B1; B0; RS dp local 10 <8; "
     "AR dp cross 10 <9; AG dp local 10 <10; O <11",
     .ranks = 6, .policy = {.kind = BB_SYNC_ALL_REDUCE, .options.hierarchical = true}},
};

static void operation_orders_of_each_kind(void **state)
{
    (void)state;
    for (size_t i = 0; i < ROWS(orders); i++) {
        struct three_layers h;

        three_layers_init(&h, &orders[i].policy, orders[i].ranks);
        h.wrong_order = orders[i].wrong_order;
        h.micro_batches = orders[i].micro_batches ? orders[i].micro_batches : 1;
        three_layers_build(&h);
        assert_three_layers(&h, orders[i].order);
    }
}

static void single_replica_only_runs_the_optimizer(void **state)
{
    (void)state;
    for (int kind = 0; kind < BB_SYNC_PS; kind++) {
        struct three_layers h;

        three_layers_init(&h, &(struct bb_dp_config){.kind = (enum bb_sync_kind)kind}, 1);
        three_layers_build(&h);
        assert_three_layers(&h, "F0; F1; F2; B2; B1; B0; O");
    }
}

/* 2 nodes of 3 ranks: 20 = 3 * 6 + 2. The last rank of a node reduces the remaining two elements across nodes. */
static void hierarchical_all_reduce_with_a_remainder(void **state)
{
    static const char *const first[] = {"RS dp local 6 <3", "RD dp local 2", "AR dp cross 6 <5",
                                        "AG dp local 6 <6", "BC dp local 2", NULL};
    struct three_layers h;
    char text[96];

    (void)state;
    for (int last = 0; last < 2; last++) {
        three_layers_init(&h, &(struct bb_dp_config){.kind = BB_SYNC_ALL_REDUCE, .options.hierarchical = true}, 6);
        h.gpus_per_node = 3;
        h.last_local = last;
        three_layers_build(&h);
        for (int i = 0; i < 5; i++) {
            op_text(&h, (size_t)i + 4, text);
            assert_string_equal(text, last && i == 2 ? "AR dp cross 8 <5" : first[i]);
        }
        assert_int_equal(h.step.roles[0].program.ops[5].src_offset, 18);
        assert_int_equal(h.step.roles[0].program.ops[5].dst_offset, 6);
        assert_int_equal(h.step.roles[0].program.ops[8].src_offset, 6);
        assert_int_equal(h.step.roles[0].program.ops[8].dst_offset, 18);
        bb_step_release(&h.step);
    }
}

/* zero2 keeps full gradients in a few buffers. A bucket is refilled only after its reduction; bb_program_bytes
 * counts the buffers. */
static void zero2_reuses_gradient_buffers(void **state)
{
    struct three_layers h;
    size_t whole, freed;

    (void)state;
    three_layers_init(&h, &(struct bb_dp_config){.kind = BB_SYNC_ZERO1}, 2);
    h.policy.rule = (struct bb_bucket_rule){.kind = BB_BUCKETS_DDP, .first_bytes = 1, .cap_bytes = 1};
    three_layers_build(&h);
    whole = bb_program_bytes(&h.step.roles[0].program, BB_USE_GRADIENTS);
    bb_step_release(&h.step);
    h.policy.kind = BB_SYNC_ZERO2;
    three_layers_build(&h);
    freed = bb_program_bytes(&h.step.roles[0].program, BB_USE_GRADIENTS);
    bb_step_release(&h.step);
    assert_int_equal(whole, 4 * 40 + 4 * 20);
    assert_int_equal(freed, 4 * 3 * 16 + 4 * 20); /* a layer fills two buckets of at most 16 elements; a third is
                                                     being reduced */
}

/* ---- bytes ---- */

/* Minimum bytes that a rank sends on the groups of this name. */
static double wire_bytes(const struct bb_step *step, int rank, const char *group)
{
    const struct bb_traffic_role *role;
    struct bb_traffic t;
    double bytes = 0;

    bb_traffic_init(&t, step, false);
    role = made_role_of(&t, rank);
    for (int i = 0; i < role->n_rows; i++) {
        const struct bb_traffic_row *row = &role->rows[i];
        double n = row->group_size, part = row->coll == BB_ALL_REDUCE ? 2 * (n - 1) / n : (n - 1) / n;

        if (strcmp(step->layout.groups[row->group].name, group) == 0 && row->kind != BB_OP_RECV)
            bytes += (row->kind == BB_OP_SEND ? 1 : part) * (double)row->bytes;
    }
    bb_traffic_release(&t);
    return bytes;
}

static void assert_line_sends(const char *line, int ranks, int rank, const char *group, double bytes)
{
    struct bb_step step;

    assert_int_equal(lines_make(&step, ranks, line), 0);
    if (wire_bytes(&step, rank, group) != bytes)
        print_error("%s: %.0f, expected %.0f\n", line, wire_bytes(&step, rank, group), bytes);
    assert_true(wire_bytes(&step, rank, group) == bytes);
    bb_step_release(&step);
}

/* ResNet-50 in float on 8 ranks: 2 * 7/8 * 102228128. Hierarchical, 8 x 4: the same inside the node, 2 * 3/4 * S / 8
 * between nodes. */
static void all_reduce_bytes_of_published_models(void **state)
{
    (void)state;
    assert_line_sends("data_parallel --model resnet50", 8, 3, "dp", 178899224);
    assert_line_sends("data_parallel --model resnet50 --hierarchical --gpus-per-node 8", 32, 3, "dp local", 178899224);
    assert_line_sends("data_parallel --model resnet50 --hierarchical --gpus-per-node 8", 32, 3, "dp cross", 19167774);
    assert_line_sends("data_parallel --model resnet18_cifar", 2, 0, "dp", 44695848);
    assert_line_sends("data_parallel --model resnet18_cifar --grad-dtype half", 2, 0, "dp", 22347924);
}

/* LLaMA-2 7B in bfloat16 on 8 ranks, gathered twice and reduced once: 7/8 * 6738415616 * 6; the gather of one layer
 * has 404766720 bytes. */
static void zero3_bytes_of_a_published_model(void **state)
{
    const char *line = "data_parallel --model llama2_7b --dtype bfloat16 --sync zero3";
    const struct bb_program *p;
    struct bb_step step;
    int layers = 0;

    (void)state;
    assert_line_sends(line, 8, 0, "dp", 35376681984);
    assert_int_equal(lines_make(&step, 8, line), 0);
    p = bb_step_program(&step, 0);
    for (size_t i = 0; i < p->n_ops; i++)
        layers += p->ops[i].kind == BB_OP_COLLECTIVE && p->ops[i].coll == BB_ALL_GATHER &&
                  bb_op_payload_bytes(&p->ops[i], 8) == 404766720;
    assert_int_equal(layers, 2 * 32);
    bb_step_release(&step);
}

/* zero3: gathered layers alternate between two buffers, whatever operations are between them. */
static void gathered_layers_alternate_between_two_buffers(void **state)
{
    static const char *const lines[] = {"data_parallel --model resnet18_cifar --sync zero3",
                                        "data_parallel --model resnet18_cifar --sync zero3 --micro-batches 3",
                                        "data_parallel --model resnet50 --sync zero3",
                                        "data_parallel --model resnet101 --sync zero3",
                                        "data_parallel --model llama2_7b --sync zero3"};

    (void)state;
    for (size_t l = 0; l < ROWS(lines); l++) {
        int seen[2] = {BB_NONE, BB_NONE}, gathers = 0;
        const struct bb_program *p;
        struct bb_step step;

        assert_int_equal(lines_make(&step, 4, lines[l]), 0);
        p = bb_step_program(&step, 0);
        for (size_t i = 0; i < p->n_ops; i++) {
            const struct bb_op *op = &p->ops[i];

            if (op->kind != BB_OP_COLLECTIVE || op->coll != BB_ALL_GATHER)
                continue;
            if (gathers < 2)
                seen[gathers] = op->dst;
            assert_true(op->dst == seen[0] || op->dst == seen[1]);
            gathers++;
        }
        assert_true(gathers > 10 && seen[0] >= 0 && seen[1] >= 0 && seen[0] != seen[1]);
        bb_step_release(&step);
    }
}

/* R = (n-1)/n; all buckets of ResNet-50 are divisible by 8. */
static void bytes_match_the_formula_of_each_kind(void **state)
{
    double p = 25557032, r = 7 / 8.0, layer = 218112000, tables = 2 * 525336576.0 + 4096;

    (void)state;
    assert_line_sends("data_parallel --sync zero1", 8, 0, "dp", r * p * 8);
    assert_line_sends("data_parallel --sync zero1 --micro-batches 3", 8, 0, "dp", r * p * 8);
    assert_line_sends("data_parallel --sync zero1 --zero-reduce allreduce", 8, 0, "dp", r * p * 12);
    assert_line_sends("data_parallel --sync zero1 --dtype half --grad-dtype float", 8, 0, "dp", r * p * 6);
    assert_line_sends("data_parallel --sync zero2", 8, 0, "dp", r * p * 8);
    assert_line_sends("data_parallel --sync zero2 --micro-batches 3", 8, 0, "dp", r * p * (3 * 4 + 4));
    assert_line_sends("data_parallel --sync zero2 --micro-batches 3 --no-sync", 8, 0, "dp", r * p * 8);
    assert_line_sends("data_parallel --sync zero3", 8, 0, "dp", r * p * 12);
    assert_line_sends("data_parallel --sync zero3 --micro-batches 2", 8, 0, "dp", r * p * 24);
    assert_line_sends("data_parallel --sync zero3 --micro-batches 2 --no-sync", 8, 0, "dp", r * p * 20);
    assert_line_sends("data_parallel --sync zero3 --own-gather-comm", 8, 0, "dp", r * p * 12);
    assert_line_sends("data_parallel --sync zero3 --fp8-param-gather", 8, 0, "dp", r * p * 6);
    assert_line_sends("data_parallel --sync hsdp --gpus-per-node 8", 32, 5, "dp shard", r * p * 12);
    assert_line_sends("data_parallel --sync hsdp --gpus-per-node 8", 32, 5, "dp replica", 2 * 0.75 * p / 8 * 4);
    assert_line_sends("data_parallel --sync distributed", 8, 0, "dp", r * p * 8);
    assert_line_sends("data_parallel --sync distributed --overlap-param-gather", 8, 0, "dp", r * p * 8);
    assert_line_sends("data_parallel --sync distributed --fp8-param-gather", 8, 0, "dp", r * p * 5);
    /* the layer in 8 bits; embedding, head and last norm in 16; a float for the norm of the gradients */
    assert_line_sends("transformer --model llama3_8b --layers 1 --dp-sync zero3 --fp8-param-gather", 8, 0, "dp",
                      r * (2 * (layer + 2 * tables) + 4 * (layer + tables) + 2 * 4));
    assert_line_sends("transformer --model llama3_8b --layers 1 --dp-sync distributed --fp8-param-gather", 8, 0, "dp",
                      r * (layer + 2 * tables + 4 * (layer + tables) + 2 * 4));
    assert_line_sends("data_parallel --sync distributed --shard-size 8", 16, 0, "dp shard", r * p * 8);
    assert_line_sends("data_parallel --sync distributed --shard-size 8", 16, 0, "dp replica", p / 8 * 4);
    assert_line_sends("data_parallel --bucket-rule single", 8, 0, "dp", 2 * r * p * 4);
    assert_line_sends("data_parallel --bucket-mb 3 --first-bucket-mb 0.5", 8, 0, "dp", 2 * r * p * 4);
}

/* ---- memory ---- */

/* Bytes per parameter with d replicas. PyTorch DDP, SGD with momentum in float: 12. ZeRO paper, 16-bit Adam: 16, 4 +
 * 12/d, 2 + 14/d, 16/d. Megatron-LM's distributed optimizer: 6 + 12/d, 4 + 16/d, and 8 + 8/d in float. */
static void memory_matches_the_formula_of_each_kind(void **state)
{
    static const struct {
        enum bb_sync_kind kind;
        enum bb_dtype_id params, grads;
        enum bb_memory_kernel_kind optimizer;
        double whole, shared;
    } rows[] = {
        {BB_SYNC_ALL_REDUCE, BB_FLOAT, BB_FLOAT, BB_MEMORY_KERNEL_SGD, 12, 0},
        {BB_SYNC_ALL_REDUCE, BB_BFLOAT16, BB_BFLOAT16, BB_MEMORY_KERNEL_ADAM, 16, 0},
        {BB_SYNC_ZERO1, BB_BFLOAT16, BB_BFLOAT16, BB_MEMORY_KERNEL_ADAM, 4, 12},
        {BB_SYNC_ZERO2, BB_BFLOAT16, BB_BFLOAT16, BB_MEMORY_KERNEL_ADAM, 2, 14},
        {BB_SYNC_ZERO3, BB_BFLOAT16, BB_BFLOAT16, BB_MEMORY_KERNEL_ADAM, 0, 16},
        {BB_SYNC_ALL_REDUCE, BB_BFLOAT16, BB_FLOAT, BB_MEMORY_KERNEL_ADAM, 18, 0},
        {BB_SYNC_DISTRIBUTED, BB_BFLOAT16, BB_FLOAT, BB_MEMORY_KERNEL_ADAM, 6, 12},
        {BB_SYNC_DISTRIBUTED, BB_HALF, BB_HALF, BB_MEMORY_KERNEL_ADAM, 4, 16},
        {BB_SYNC_DISTRIBUTED, BB_FLOAT, BB_FLOAT, BB_MEMORY_KERNEL_ADAM, 8, 8},
    };
    const struct bb_sync_comms comms = {.n = 8};

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        const struct bb_dp_config p = {
            .kind = rows[i].kind, .params = rows[i].params, .grads = rows[i].grads, .optimizer = rows[i].optimizer};
        double bytes[BB_USES] = {0};

        bb_sync_memory(&p, &comms, 800, bytes);
        bb_sync_add_update_peak(bb_sync_update_peak_bytes(&p, &comms, 800), bytes); /* no activations */
        assert_true(bytes[BB_USE_PARAMETERS] + bytes[BB_USE_GRADIENTS] + bytes[BB_USE_OPTIMIZER] ==
                    800 * rows[i].whole + 100 * rows[i].shared);
    }
}

/* ---- rejected options ---- */

static void rejects_invalid_options(void **state)
{
    static const struct {
        int ranks;
        const char *line;
    } rows[] = {
        {8, "data_parallel --no-sync"},
        {8, "data_parallel --sync zero3 --bucket-mb 5"},
        {8, "data_parallel --sync horovod --bucket-rule ddp"},
        {8, "data_parallel --bucket-rule single --bucket-mb 5"},
        {8, "data_parallel --fusion-threshold 1M"},
        {8, "data_parallel --sync zero1 --hierarchical"},
        {8, "data_parallel --hierarchical --gpus-per-node 8"},
        {8, "data_parallel --hierarchical --gpus-per-node 1"},
        {8, "data_parallel --hierarchical --gpus-per-node 3"},
        {8, "data_parallel --sync hsdp --gpus-per-node 3"},
        {8, "data_parallel --sync hsdp --shard-size 3"},
        {8, "data_parallel --sync zero3 --shard-size 4"},
        {8, "data_parallel --sync zero3 --no-overlap"},
        {8, "data_parallel --overlap-param-gather"},
        {8, "data_parallel --servers 2"},
        {8, "data_parallel --sync ps_sharded --servers 8"},
        {8, "data_parallel --sync ps_sharded --servers 6"},
        {1, "data_parallel --sync ps_p2p"},
        {8, "data_parallel --model resnet5"},
        {8, "data_parallel --model dlrm"},
        {8, "data_parallel --model llama2_7b --compute gemm"},
        {8, "data_parallel --sync zero4"},
        {8, "data_parallel --layers 3"},
        {8, "data_parallel --dp-sync zero3"},
        {8, "gpt2_large --sync zero3"},
    };
    struct bb_step step;

    (void)state;
    bb_err_mute(true);
    for (size_t i = 0; i < ROWS(rows); i++)
        if (lines_make(&step, rows[i].ranks, rows[i].line) != -BB_EUSAGE)
            fail_msg("not rejected: %s", rows[i].line);
    bb_err_mute(false);
}

/* ---- random options ---- */

static uint32_t dice;

static int roll(int n)
{
    dice = dice * 1664525u + 1013904223u;
    return (int)((dice >> 8) % (uint32_t)n);
}

static const char *random_line(int *ranks)
{
    static const char *const models[] = {"resnet18_cifar", "resnet18", "gpt2_small"};
    static const char *const more[] = {"",
                                       "--bucket-mb 7",
                                       "--bucket-mb 0.01",
                                       "--bucket-rule megatron --pad-buckets",
                                       "--bucket-rule deepspeed",
                                       "--no-overlap",
                                       "--hierarchical --gpus-per-node 2",
                                       "--hierarchical --gpus-per-node 3",
                                       "--shard-size 2",
                                       "--shard-size 3",
                                       "--no-sync",
                                       "--own-gather-comm",
                                       "--zero-reduce allreduce",
                                       "--overlap-param-gather",
                                       "--servers 3",
                                       "--fusion-threshold 3M --cycle-ms 0.5"};
    static char line[400];

    *ranks = 1 + roll(9);
    snprintf(line, sizeof(line),
             "data_parallel --model %s --sync %s --micro-batches %d --compute %s --grad-dtype %s %s", models[roll(3)],
             bb_sync_names[roll(BB_SYNC_KINDS)], 1 + roll(3), roll(2) ? "timed" : "none",
             roll(2) ? "float" : "bfloat16", more[roll((int)ROWS(more))]);
    return line;
}

static void random_options_give_valid_steps(void **state)
{
    int made = 0, ranks;

    (void)state;
    dice = 2026;
    bb_err_mute(true);
    for (int i = 0; i < 500; i++) {
        const char *line = random_line(&ranks);
        struct bb_checks checks;
        struct bb_step step;
        int rc = lines_make(&step, ranks, line);

        assert_true(rc == 0 || rc == -BB_EUSAGE);
        if (rc)
            continue;
        made++;
        assert_int_equal(bb_step_check(&step, &checks), 0);
        if (!checks.matched || !checks.deadlock_free || !checks.safe_serialised)
            fail_msg("%d ranks: %s", ranks, line);
        bb_checks_release(&checks);
        bb_step_release(&step);
    }
    bb_err_mute(false);
    print_message("%d steps\n", made);
    assert_true(made > 80);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operation_orders_of_each_kind),

        cmocka_unit_test(single_replica_only_runs_the_optimizer),

        cmocka_unit_test(hierarchical_all_reduce_with_a_remainder),
        cmocka_unit_test(zero2_reuses_gradient_buffers),
        cmocka_unit_test(all_reduce_bytes_of_published_models),
        cmocka_unit_test(zero3_bytes_of_a_published_model),
        cmocka_unit_test(gathered_layers_alternate_between_two_buffers),
        cmocka_unit_test(bytes_match_the_formula_of_each_kind),
        cmocka_unit_test(memory_matches_the_formula_of_each_kind),
        cmocka_unit_test(rejects_invalid_options),
        cmocka_unit_test(random_options_give_valid_steps),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
