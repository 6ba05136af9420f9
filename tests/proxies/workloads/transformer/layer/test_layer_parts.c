/*
 * test_layer_parts.c - bytes of the memory-bound kernels of a layer, and how training fuses its kernels. The layer has
 * eight tokens of 16 elements, four of them local; 2 heads of 8, one key-value head; 2 bytes per element. Bytes follow
 * the table of cuda/work/memory_kernel.c: two or three arrays of rows x columns, and one or two of columns.
 */
#include "tests/check.h"

#include "proxies/workloads/transformer/layer/layer_kernels.h"

static const struct bb_layer_sizes sizes = {.dtype = BB_BFLOAT16,
                                            .hidden = 16,
                                            .tokens = 8,
                                            .local_tokens = 4,
                                            .batch = 1,
                                            .queries = 8,
                                            .keys = 8,
                                            .block_keys = 4,
                                            .sequence = 8,
                                            .heads = 2,
                                            .kv_heads = 1,
                                            .attention_heads = 2,
                                            .key_dim = 8,
                                            .value_dim = 8,
                                            .ffn = 32,
                                            .vocab = 64};

enum { TWO_LOCAL = 2 * 64 * 2 + 2 * 16, THREE_LOCAL = 3 * 64 * 2 + 2 * 16, NORM = 2 * 64 * 2 + 2 * 2 * 16 };
enum { TWO_FFN = 2 * 256 * 2 + 2 * 32, THREE_FFN = 3 * 256 * 2 + 2 * 32 };
enum { ROTATED = 2 * 192 * 2 + 2 * 24, TWO_SCORES = 2 * 128 * 2 + 2 * 8, THREE_SCORES = 3 * 128 * 2 + 2 * 8 };

/* The kernel list of one kind. */
static const struct bb_kernel_list *kernels_of(const struct bb_layer_sizes *s, enum bb_kernels_kind kind,
                                               enum bb_kernels_pass pass)
{
    static struct bb_kernel_list w;
    struct bb_kernel_groups c = {.rows = 100};

    w.n = 0;
    bb_kernel_groups_add(&c, kind, pass);
    bb_kernel_groups_append(s, &c, &w);
    return &w;
}

static size_t memory_kernel_bytes(const struct bb_layer_sizes *s, enum bb_kernels_kind kind, enum bb_kernels_pass pass)
{
    const struct bb_kernel_list *w = kernels_of(s, kind, pass);
    size_t bytes = 0;

    for (int i = 0; i < w->n; i++)
        bytes += w->items[i].is_memory_kernel ? bb_memory_kernel_bytes(&w->items[i].memory_kernel) : 0;
    return bytes;
}

static void memory_kernels_move_the_bytes_of_their_arrays(void **state)
{
    struct bb_layer_sizes llama = sizes, gpt = sizes;

    (void)state;
    llama.gated = llama.rotary = true;
    gpt.dropout = gpt.unfused = true;
    const struct {
        const struct bb_layer_sizes *sizes;
        enum bb_kernels_kind kind;
        size_t forward, data;
    } rows[] = {
        {&sizes, BB_KERNELS_NORM, THREE_LOCAL + NORM, THREE_LOCAL + THREE_LOCAL}, /* the residual's sum, and the norm */
        {&gpt, BB_KERNELS_NORM, THREE_LOCAL + NORM, 2 * THREE_LOCAL + TWO_LOCAL},
        {&sizes, BB_KERNELS_UP, TWO_FFN, 0},
        {&llama, BB_KERNELS_UP, THREE_FFN, 0}, /* reads gate and up, writes their product */
        {&sizes, BB_KERNELS_DOWN, 0, THREE_FFN},
        {&llama, BB_KERNELS_DOWN, 0, THREE_FFN + TWO_FFN}, /* reads three arrays, writes both gradients */
        {&sizes, BB_KERNELS_QKV, 0, 0},
        {&llama, BB_KERNELS_QKV, ROTATED, ROTATED}, /* queries and keys: three heads of 8 */
        {&sizes, BB_KERNELS_CORE, 0, 0},
        {&gpt, BB_KERNELS_CORE, 2 * TWO_SCORES, TWO_SCORES + THREE_SCORES}, /* softmax and dropout of 2 x 8 x 8 */
    };

    for (size_t i = 0; i < ROWS(rows); i++) {
        assert_int_equal(memory_kernel_bytes(rows[i].sizes, rows[i].kind, BB_KERNELS_FORWARD), rows[i].forward);
        assert_int_equal(memory_kernel_bytes(rows[i].sizes, rows[i].kind, BB_KERNELS_DATA), rows[i].data);
        assert_int_equal(memory_kernel_bytes(rows[i].sizes, rows[i].kind, BB_KERNELS_WEIGHTS), 0);
    }
}

/* Returns the number of launches of memory-bound kernels that are separate for each expert. */
static int launches_per_expert(const struct bb_layer_sizes *s, enum bb_kernels_pass pass)
{
    const struct bb_kernel_list *list = kernels_of(s, BB_KERNELS_EXPERTS, pass);
    int n = 0;

    for (int i = 0; i < list->n; i++)
        n += list->items[i].is_memory_kernel ? list->items[i].experts : 0;
    return n;
}

/* 100 rows of 16, gate and up of 32 each. Bytes per element that Megatron-LM's expressions read and write; a float
 * has 4. Forward: b * p 4, t + b * p 10, cat 8, to 16 bits 6. Backward: to float 6, gradient of t 6 and its split 4,
 * gradients of b and p a product and its sum each, 12 each. Clamp and cat: 4 each; backward 6 for the clamped
 * elements, and 4. */
static void expert_biases_add_float_traffic(void **state)
{
    struct bb_layer_sizes with = sizes, without;
    size_t forward, data;

    (void)state;
    with.gated = with.expert_bias = true;
    with.local_experts = 4;
    with.expert_ffn = 32;
    without = with;
    without.expert_bias = false;
    forward = memory_kernel_bytes(&with, BB_KERNELS_EXPERTS, BB_KERNELS_FORWARD) -
              memory_kernel_bytes(&without, BB_KERNELS_EXPERTS, BB_KERNELS_FORWARD);
    data = memory_kernel_bytes(&with, BB_KERNELS_EXPERTS, BB_KERNELS_DATA) -
           memory_kernel_bytes(&without, BB_KERNELS_EXPERTS, BB_KERNELS_DATA);
    assert_in_range(forward, 1600 * (4 + 10 + 8 + 6) + 6400 * (4 + 4), 1600 * 28 + 6400 * 8 + 1000);
    assert_in_range(data, 1600 * (6 + 6 + 4 + 12 + 12) + 6400 * (6 + 4), 1600 * 40 + 6400 * 10 + 1000);
    assert_int_equal(launches_per_expert(&with, BB_KERNELS_FORWARD), 4); /* the bias of each expert */
    assert_int_equal(launches_per_expert(&with, BB_KERNELS_DATA), 8);    /* gradients of b and p */
}

/* Two chunks of 4 tokens, 2 heads, states of 8 x 8: 256 elements. In 16-bit reads and writes, of which a kernel has two:
 * forward, written as float (one more), read as float and written (3); backward, 12, and the convolution of 32 channels. The
 * kernels between the projections are those of the scan; Gated DeltaNet and selective scans have others. */
static void scans_move_float_states(void **state)
{
    struct bb_layer_sizes s = sizes;
    const struct bb_kernel_list *w;

    (void)state;
    s.chunk = 4;
    s.unfused = true;
    assert_in_range(memory_kernel_bytes(&s, BB_KERNELS_CORE, BB_KERNELS_FORWARD), 256 * 2 * 4, 256 * 2 * 4 + 300);
    assert_in_range(memory_kernel_bytes(&s, BB_KERNELS_CORE, BB_KERNELS_DATA), 256 * 2 * 12 + 8 * 32 * 4,
                    256 * 2 * 12 + 8 * 32 * 4 + 400);
    w = kernels_of(&s, BB_KERNELS_CORE, BB_KERNELS_DATA);
    for (int i = 0; i < w->n; i++)
        assert_true(w->items[i].scan);
    assert_false(kernels_of(&s, BB_KERNELS_QKV, BB_KERNELS_FORWARD)->items[0].scan);
    s.delta = true;
    assert_int_equal(memory_kernel_bytes(&s, BB_KERNELS_CORE, BB_KERNELS_FORWARD), 0);
    s.delta = false;
    s.chunk = s.step_rank = 1;
    w = kernels_of(&s, BB_KERNELS_CORE, BB_KERNELS_FORWARD);
    assert_true(w->n > 0 && w->items[0].is_memory_kernel && !w->items[0].scan);
}

static void attention_gemms_are_fused(void **state)
{
    struct bb_layer_sizes s = sizes;
    const struct bb_kernel_list *w = kernels_of(&s, BB_KERNELS_CORE, BB_KERNELS_FORWARD);

    (void)state;
    assert_int_equal(w->n, 2);
    assert_int_equal(w->items[0].fusion, BB_KERNEL_IN_ATTENTION);
    assert_true(w->items[1].share == 1);
    s.causal = true;
    w = kernels_of(&s, BB_KERNELS_CORE, BB_KERNELS_DATA);
    assert_int_equal(w->n, 4);
    assert_int_equal(w->items[3].fusion, BB_KERNEL_IN_ATTENTION_BACKWARD);
    assert_true(w->items[3].share == 0.5);
    /* a ring in zigzag order */
    assert_true(kernels_of(&s, BB_KERNELS_CORE_BLOCK, BB_KERNELS_FORWARD)->items[0].share == 0.5);
    s.keys = 4; /* a window of 4 keys: 8 rows of 4, less a triangle of 4 x 4 */
    assert_true(kernels_of(&s, BB_KERNELS_CORE, BB_KERNELS_FORWARD)->items[0].share == 0.75);
    s.unfused = true;
    assert_int_equal(kernels_of(&s, BB_KERNELS_CORE, BB_KERNELS_FORWARD)->items[0].fusion, BB_KERNEL_SEPARATE);
    assert_int_equal(kernels_of(&s, BB_KERNELS_ACCUMULATE, BB_KERNELS_WEIGHTS)->items[0].fusion, BB_KERNEL_SEPARATE);
    s.fuses_sums = true; /* Megatron-LM */
    assert_int_equal(kernels_of(&s, BB_KERNELS_ACCUMULATE, BB_KERNELS_WEIGHTS)->items[0].fusion, BB_KERNEL_IN_GEMM);
}

static void fp8_applies_to_layer_weights_only(void **state)
{
    struct bb_layer_sizes s = sizes;

    (void)state;
    assert_false(kernels_of(&s, BB_KERNELS_QKV, BB_KERNELS_FORWARD)->items[0].precision);
    s.precision = BB_GEMM_FP8;
    assert_true(kernels_of(&s, BB_KERNELS_QKV, BB_KERNELS_WEIGHTS)->items[0].precision);
    assert_false(kernels_of(&s, BB_KERNELS_CORE, BB_KERNELS_FORWARD)->items[0].precision);
    assert_false(kernels_of(&s, BB_KERNELS_HEAD, BB_KERNELS_FORWARD)->items[0].precision);
    /* the input, transposed */
    assert_int_equal(memory_kernel_bytes(&s, BB_KERNELS_QKV, BB_KERNELS_FORWARD), 2 * 8 * 16);
    assert_int_equal(memory_kernel_bytes(&s, BB_KERNELS_QKV, BB_KERNELS_DATA),
                     2 * 2 * 8 * 32); /* read and written twice */
    assert_int_equal(memory_kernel_bytes(&s, BB_KERNELS_QKV, BB_KERNELS_WEIGHTS), 0);
}

/* Four streams of 16 elements for each of four tokens, instead of the residual: 21 vectors forward, 67 backward. */
static void hyper_connections_move_streams(void **state)
{
    struct bb_layer_sizes s = sizes;

    (void)state;
    s.streams = 4;
    assert_int_equal(memory_kernel_bytes(&s, BB_KERNELS_NORM, BB_KERNELS_FORWARD) -
                         memory_kernel_bytes(&sizes, BB_KERNELS_NORM, BB_KERNELS_FORWARD) + THREE_LOCAL,
                     (7 + 5 + 9) * 16 * 2 * 4);
    assert_int_equal(memory_kernel_bytes(&s, BB_KERNELS_NORM, BB_KERNELS_DATA) -
                         memory_kernel_bytes(&sizes, BB_KERNELS_NORM, BB_KERNELS_DATA) + THREE_LOCAL,
                     (18 + 9 + 24 + 16) * 16 * 2 * 4);
}

/* 100 rows of 16 elements, and of 32 between the two GEMMs. */
static void rows_of_several_experts_have_kernels_of_their_own(void **state)
{
    struct bb_layer_sizes one = sizes, several, sorted;

    (void)state;
    one.precision = BB_GEMM_FP8;
    one.local_experts = 1;
    one.expert_ffn = 32;
    several = one;
    several.local_experts = 4;
    sorted = several;
    sorted.sorts_rows = true;
    /* the casts of the inputs read 16 bits and write 8 bits twice, instead of 8 bits once each */
    assert_int_equal(memory_kernel_bytes(&several, BB_KERNELS_EXPERTS, BB_KERNELS_FORWARD) -
                         memory_kernel_bytes(&one, BB_KERNELS_EXPERTS, BB_KERNELS_FORWARD),
                     100 * (16 + 32) * 2);
    assert_int_equal(memory_kernel_bytes(&several, BB_KERNELS_EXPERTS, BB_KERNELS_DATA),
                     memory_kernel_bytes(&one, BB_KERNELS_EXPERTS, BB_KERNELS_DATA));
    for (int pass = BB_KERNELS_FORWARD; pass <= BB_KERNELS_WEIGHTS; pass++)
        assert_int_equal(memory_kernel_bytes(&sorted, BB_KERNELS_EXPERTS, pass) -
                             memory_kernel_bytes(&several, BB_KERNELS_EXPERTS, pass),
                         pass == BB_KERNELS_WEIGHTS ? 0 : 2 * 2 * 100 * 16 * 2); /* two copies of 2 bytes an element */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_kernels_move_the_bytes_of_their_arrays),
        cmocka_unit_test(expert_biases_add_float_traffic),
        cmocka_unit_test(scans_move_float_states),
        cmocka_unit_test(attention_gemms_are_fused),
        cmocka_unit_test(fp8_applies_to_layer_weights_only),
        cmocka_unit_test(hyper_connections_move_streams),
        cmocka_unit_test(rows_of_several_experts_have_kernels_of_their_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
