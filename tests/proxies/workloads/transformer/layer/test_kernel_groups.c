/*
 * test_kernel_groups.c - GEMMs of a layer by the algebra of Y = X W, with X rows x in and W in x out, all row-major:
 * dX = dY W^T reads W as stored, therefore transposed; dW = X^T dY reads X transposed.
 */
#include "proxies/workloads/transformer/layer/layer_kernels.h"
#include "tests/check.h"

static const struct bb_layer_sizes sizes = {.dtype = BB_BFLOAT16,
                                            .hidden = 96,
                                            .tokens = 40,
                                            .local_tokens = 20,
                                            .batch = 2,
                                            .queries = 20,
                                            .keys = 60,
                                            .block_keys = 30,
                                            .heads = 6,
                                            .kv_heads = 3,
                                            .attention_heads = 5,
                                            .key_dim = 16,
                                            .value_dim = 8,
                                            .ffn = 144,
                                            .vocab = 1000,
                                            .experts = 12,
                                            .local_experts = 4,
                                            .expert_ffn = 56,
                                            .shared_ffn = 72,
                                            .top_k = 2,
                                            .gated = true};

/* The GEMMs of one pass as "m x n x k x batch", with A' and B' for transposed operands. */
static void assert_gemms(enum bb_kernels_kind kind, enum bb_kernels_pass pass, int64_t rows, const char *expected)
{
    static struct bb_kernel_list list;
    struct bb_kernel_groups groups = {.rows = rows};
    char text[400] = "";
    double flops = 0;

    list = (struct bb_kernel_list){0};
    bb_kernel_groups_add(&groups, kind, pass);
    bb_kernel_groups_append(&sizes, &groups, &list);
    for (int i = 0; i < list.n; i++) {
        const struct bb_gemm_shape *g = &list.items[i].gemm;
        size_t length = strlen(text);

        if (list.items[i].is_memory_kernel)
            continue;
        assert_int_equal(g->dtype, BB_BFLOAT16);
        flops += 2.0 * (double)(g->m * g->n * g->k * g->batch);
        snprintf(text + length, sizeof(text) - length, "%s%s %lldx%lldx%lldx%lld%s%s", length ? ", " : "",
                 list.items[i].name, (long long)g->m, (long long)g->n, (long long)g->k, (long long)g->batch,
                 g->trans_a ? " A'" : "", g->trans_b ? " B'" : "");
    }
    assert_string_equal(text, expected);
    assert_true(bb_kernel_groups_flops(&sizes, &groups) == flops);
}

static void gemms_transpose_operands_as_stored(void **state)
{
    static const struct {
        enum bb_kernels_kind kind;
        const char *forward, *data, *weights;
    } rows[] = {
        {BB_KERNELS_QKV, "qkv 40x168x96x1", "qkv 40x96x168x1 B'", "qkv 96x168x40x1 A'"},
        {BB_KERNELS_OUT, "out 40x96x48x1", "out 40x48x96x1 B'", "out 48x96x40x1 A'"},
        {BB_KERNELS_UP, "up 40x288x96x1", "up 40x96x288x1 B'", "up 96x288x40x1 A'"},
        {BB_KERNELS_DOWN, "down 40x96x144x1", "down 40x144x96x1 B'", "down 144x96x40x1 A'"},
        {BB_KERNELS_SHARED_UP, "up 40x144x96x1", "up 40x96x144x1 B'", "up 96x144x40x1 A'"},
        {BB_KERNELS_SHARED_DOWN, "down 40x96x72x1", "down 40x72x96x1 B'", "down 72x96x40x1 A'"},
        {BB_KERNELS_ROUTER, "router 20x12x96x1", "router 20x96x12x1 B'", "router 96x12x20x1 A'"},
        {BB_KERNELS_HEAD, "logits 40x1000x96x1", "logits 40x96x1000x1 B'", "logits 96x1000x40x1 A'"},
        {BB_KERNELS_EXPERTS, "up 8x112x96x4, down 8x96x56x4", "down 8x56x96x4 B', up 8x96x112x4 B'",
         "down 56x96x8x4 A', up 96x112x8x4 A'"},
        {BB_KERNELS_NORM, "", "", ""},
        {BB_KERNELS_PERMUTE, "", "", ""},
    };

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        assert_gemms(rows[i].kind, BB_KERNELS_FORWARD, 32, rows[i].forward);
        assert_gemms(rows[i].kind, BB_KERNELS_DATA, 32, rows[i].data);
        assert_gemms(rows[i].kind, BB_KERNELS_WEIGHTS, 32, rows[i].weights);
    }
}

/* If the experts cannot share the rows evenly, all rows are one GEMM; without rows there is no GEMM. */
static void uneven_expert_rows_are_one_gemm(void **state)
{
    (void)state;
    assert_gemms(BB_KERNELS_EXPERTS, BB_KERNELS_FORWARD, 33, "up 33x112x96x1, down 33x96x56x1");
    assert_gemms(BB_KERNELS_EXPERTS, BB_KERNELS_FORWARD, 1, "up 1x112x96x1, down 1x96x56x1");
    assert_gemms(BB_KERNELS_EXPERTS, BB_KERNELS_DATA, 0, "");
}

/* Each expert that has rows has its own GEMMs in training, whether or not all have equally many. */
static void experts_of_a_gemm_are_those_with_rows(void **state)
{
    static const struct {
        int64_t rows;
        int experts;
    } cases[] = {{32, 4}, {33, 4}, {3, 3}, {1, 1}};
    static struct bb_kernel_list list;

    (void)state;
    for (size_t i = 0; i < ROWS(cases); i++) {
        struct bb_kernel_groups groups = {.rows = cases[i].rows};

        list = (struct bb_kernel_list){0};
        bb_kernel_groups_add(&groups, BB_KERNELS_EXPERTS, BB_KERNELS_FORWARD);
        bb_kernel_groups_add_backward(&groups, BB_KERNELS_EXPERTS, true);
        bb_kernel_groups_append(&sizes, &groups, &list);
        for (int j = 0; j < list.n; j++)
            assert_int_equal(list.items[j].experts, list.items[j].is_memory_kernel ? 0 : cases[i].experts);
    }
}

/* Scores = Q K^T, context = scores V, per sample and head: there are no weights, and both operands have a gradient.
 * The gradient of K, stored as n x k, is dScores^T Q: Q^T dScores in the layout in which K is read. */
static void router_decides_rows_of_experts_without_capacity(void **state)
{
    static const enum bb_kernels_kind kinds[] = {BB_KERNELS_NORM,    BB_KERNELS_ROUTER,    BB_KERNELS_PERMUTE,
                                                 BB_KERNELS_EXPERTS, BB_KERNELS_UNPERMUTE, BB_KERNELS_SHARED_UP};
    static struct bb_kernel_list list;
    struct bb_layer_sizes dropless = sizes;

    (void)state;
    dropless.dropless = true;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        struct bb_kernel_groups groups = {.rows = 32};

        list = (struct bb_kernel_list){0};
        bb_kernel_groups_add(&groups, kinds[i], BB_KERNELS_FORWARD);
        bb_kernel_groups_append(&sizes, &groups, &list);
        bb_kernel_groups_append(&dropless, &groups, &list);
        for (int j = 0; j < list.n; j++) {
            assert_int_equal(list.items[j].routed, i >= 2 && i <= 4);
            assert_int_equal(list.items[j].dropless, j >= list.n / 2 && i >= 2 && i <= 4);
        }
    }
}

/* Megatron-LM's graph of the router contains the shared experts and the norm before it; that of Mamba no attention. */
static void graphs_capture_the_kernels_of_their_modules(void **state)
{
    static const struct {
        enum bb_kernels_kind kind;
        const char *captured; /* of attn, mlp, moe, moe_router, moe_preprocess, mamba */
    } cases[] = {{BB_KERNELS_QKV, "ynnnnn"},     {BB_KERNELS_OUT, "ynnnnn"},       {BB_KERNELS_UP, "nynnnn"},
                 {BB_KERNELS_ROUTER, "nnyynn"},  {BB_KERNELS_SHARED_UP, "nnyynn"}, {BB_KERNELS_PERMUTE, "nnynyn"},
                 {BB_KERNELS_EXPERTS, "nnynnn"}, {BB_KERNELS_NORM, "yyyyyy"},      {BB_KERNELS_HEAD, "nnnnnn"}};
    static struct bb_kernel_list list;

    (void)state;
    for (size_t i = 0; i < ROWS(cases) * BB_GRAPH_MODULES; i++) {
        struct bb_kernel_groups groups = {.rows = 32};
        struct bb_layer_sizes with = sizes;
        const int module = i % BB_GRAPH_MODULES;
        const char captured = cases[i / BB_GRAPH_MODULES].captured[module];

        with.graph_modules = 1u << module;
        list = (struct bb_kernel_list){0};
        bb_kernel_groups_add(&groups, BB_KERNELS_NORM, BB_KERNELS_FORWARD);
        bb_kernel_groups_add(&groups, cases[i / BB_GRAPH_MODULES].kind, BB_KERNELS_FORWARD);
        bb_kernel_groups_append(&with, &groups, &list);
        for (int j = 0; j < list.n; j++)
            assert_int_equal(list.items[j].captured, captured == 'y');
        with.chunk = 4; /* a scan layer */
        bb_kernel_groups_append(&with, &groups, &list);
        if (cases[i / BB_GRAPH_MODULES].kind == BB_KERNELS_OUT)
            assert_int_equal(bb_kernel_list_last(&list)->captured, module == BB_GRAPH_MAMBA);
    }
}

static void attention_has_gradients_of_both_operands(void **state)
{
    (void)state;
    assert_gemms(BB_KERNELS_CORE, BB_KERNELS_FORWARD, 0, "scores 20x60x16x10 B', context 20x8x60x10");
    assert_gemms(BB_KERNELS_CORE_BLOCK, BB_KERNELS_FORWARD, 0, "scores 20x30x16x10 B', context 20x8x30x10");
    assert_gemms(BB_KERNELS_CORE, BB_KERNELS_WEIGHTS, 0, "");
    assert_gemms(BB_KERNELS_CORE, BB_KERNELS_DATA, 0,
                 "context 20x60x8x10 B', context 60x8x20x10 A', scores 20x16x60x10, scores 16x60x20x10 A'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gemms_transpose_operands_as_stored),
        cmocka_unit_test(uneven_expert_rows_are_one_gemm),
        cmocka_unit_test(experts_of_a_gemm_are_those_with_rows),
        cmocka_unit_test(router_decides_rows_of_experts_without_capacity),
        cmocka_unit_test(graphs_capture_the_kernels_of_their_modules),
        cmocka_unit_test(attention_has_gradients_of_both_operands),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
