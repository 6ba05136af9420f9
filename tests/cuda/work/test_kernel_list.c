/*
 * test_kernel_list.c - the kernels of each layer: Y = X W with W stored as out x in (dense layers) or in x out
 * (transformers), dX = dY W^T, dW = X^T dY; invalid sizes add no kernel.
 */
#include "cuda/work/kernel_list.h"
#include "tests/check.h"

static const char *const activations[] = {[BB_ACT_NONE] = "", [BB_ACT_GELU] = " gelu", [BB_ACT_RELU] = " relu"};

static struct bb_kernel_list list;

/* Text of a list: "up 8x4x2x1 A'" (m x n x k x batch, A transposed) for a GEMM, "bias 8x4 gelu" for a memory-bound
 * kernel. */
static void assert_list(const char *expected)
{
    char text[1200] = "";

    for (int i = 0; i < list.n; i++) {
        const struct bb_kernel_list_item *item = &list.items[i];
        const struct bb_gemm_shape *g = &item->gemm;
        const struct bb_memory_kernel *p = &item->memory_kernel;
        size_t length = strlen(text);

        length += (size_t)snprintf(text + length, sizeof(text) - length, "%s%s", i ? ", " : "", item->name);
        if (item->is_memory_kernel)
            snprintf(text + length, sizeof(text) - length, " %llux%llu%s", (unsigned long long)p->rows,
                     (unsigned long long)p->cols, activations[p->act]);
        else
            snprintf(text + length, sizeof(text) - length, " %lldx%lldx%lldx%lld%s%s", (long long)g->m, (long long)g->n,
                     (long long)g->k, (long long)g->batch, g->trans_a ? " A'" : "", g->trans_b ? " B'" : "");
    }
    assert_string_equal(text, expected);
    list = (struct bb_kernel_list){0};
}

/* 2 samples of 16 tokens, 4 heads of size 8, on 2 GPUs: each has 2 heads and half of the MLP. */
static void transformer_layer(void **state)
{
    const struct bb_transformer t = {32, 128, 4, 16, 2, 2, BB_HALF};

    (void)state;
    assert_true(bb_kernel_list_transformer(&list, &t, false));
    assert_list(
        "norm 32x32, qkv 32x48x32x1, bias 32x48, scores 16x16x8x4 B', context 16x8x16x4, out 32x32x16x1, bias 32x32, "
        "norm 32x32, up 32x64x32x1, bias 32x64 gelu, down 32x32x64x1, bias 32x32");
    assert_true(bb_kernel_list_mlp(&list, &t, true));
    assert_list("down 32x64x32x1 B', down 64x32x32x1 A', activation 32x64 gelu, up 32x32x64x1 B', up 32x64x32x1 A', "
                "norm 32x32");
    assert_true(bb_kernel_list_attention(&list, &t, true));
    assert_list("out 32x16x32x1 B', out 16x32x32x1 A', context 16x16x8x4 B', context 16x8x16x4 A', scores 16x8x16x4, "
                "scores 8x16x16x4 A', qkv 32x32x48x1 B', qkv 32x48x32x1 A', norm 32x32");
}

static void dense_layers(void **state)
{
    (void)state;
    assert_true(bb_kernel_list_dense(&list, 8, 32, 4, BB_ACT_RELU, BB_FLOAT, false));
    assert_list("dense 8x4x32x1 B', bias 8x4 relu");
    assert_true(bb_kernel_list_dense(&list, 8, 32, 4, BB_ACT_RELU, BB_FLOAT, true));
    assert_list("activation 8x4 relu, dense 8x32x4x1, dense 32x4x8x1 A'"); /* dW is in x out, however W is stored */
    assert_true(bb_kernel_list_dense(&list, 8, 32, 4, BB_ACT_NONE, BB_FLOAT, true));
    assert_list("dense 8x32x4x1, dense 32x4x8x1 A'");
    assert_true(bb_kernel_list_dense_first_backward(&list, 8, 32, 4, BB_ACT_RELU, BB_FLOAT));
    assert_list("activation 8x4 relu, dense 32x4x8x1 A'");
    assert_true(bb_kernel_list_interaction(&list, 10, 5, 7, BB_FLOAT, false));
    assert_list("interaction 5x5x7x10 B'");
    assert_true(bb_kernel_list_interaction(&list, 10, 5, 7, BB_FLOAT, true));
    assert_list("interaction 5x7x5x10, interaction 7x5x5x10 A'");
}

static void rejects_invalid_sizes(void **state)
{
    const struct bb_transformer three_heads_of_32 = {32, 128, 3, 16, 2, 1, BB_HALF};
    const uint32_t tile[3] = {1, 6, 8}, halo[3] = {0, 2, 0};

    (void)state;
    for (int backward = 0; backward < 2; backward++) {
        assert_false(bb_kernel_list_transformer(&list, &three_heads_of_32, backward));
        assert_false(bb_kernel_list_attention(&list, &three_heads_of_32, backward));
        assert_false(bb_kernel_list_mlp(&list, &three_heads_of_32, backward));
        for (int i = 0; i < 3; i++) {
            assert_false(bb_kernel_list_dense(&list, i != 0, i != 1, i != 2, BB_ACT_RELU, BB_FLOAT, backward));
            assert_false(bb_kernel_list_dense_first_backward(&list, i != 0, i != 1, i != 2, BB_ACT_RELU, BB_FLOAT));
            assert_false(bb_kernel_list_interaction(&list, i != 0, i != 1, i != 2, BB_FLOAT, backward));
        }
        assert_false(
            bb_kernel_list_halo_side(&list, 3, tile, halo, (const int[3]){0, 0, 1}, backward, backward, BB_FLOAT));
        assert_false(
            bb_kernel_list_halo_side(&list, 3, tile, halo, (const int[3]){0, 0, 0}, backward, backward, BB_FLOAT));
    }
    assert_list("");
    assert_true(bb_kernel_list_dense(&list, 1, 1, 1, BB_ACT_NONE, BB_FLOAT, false));
    assert_true(bb_kernel_list_interaction(&list, 1, 1, 1, BB_FLOAT, false));
    assert_list("dense 1x1x1x1 B', bias 1x1, interaction 1x1x1x1 B'");
}

/*
 * Forward: the rim of the interior is sent, and the margin is received. Backward: the margin is sent, and the received
 * data are added to the rim.
 */
static void halo_sides(void **state)
{
    const uint32_t tile[3] = {1, 6, 8}, halo[3] = {0, 2, 0};
    const int below[3] = {0, 1, 0};
    static const struct {
        bool received, backward;
        const char *name;
        uint32_t from; /* first row of the box in the padded tile: 2 rows of margin, 6 of interior, 2 of margin */
    } rows[] = {{false, false, "halo pack", 6},
                {true, false, "halo unpack", 8},
                {false, true, "halo pack", 8},
                {true, true, "halo add", 6}};

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        assert_true(
            bb_kernel_list_halo_side(&list, 3, tile, halo, below, rows[i].received, rows[i].backward, BB_FLOAT));
        assert_int_equal(list.n, 1);
        assert_string_equal(list.items[0].name, rows[i].name);
        assert_int_equal(list.items[0].memory_kernel.rows, 3);
        assert_int_equal(list.items[0].memory_kernel.box.at[1], rows[i].from);
        assert_int_equal(list.items[0].memory_kernel.box.extent[1], 2);
        assert_int_equal(list.items[0].memory_kernel.box.extent[2], 8);
        list = (struct bb_kernel_list){0};
    }
}

static void embedding_and_permutation_rows(void **state)
{
    (void)state;
    bb_kernel_list_embedding(&list, 10, 16, 1000, BB_HALF);
    bb_kernel_list_permute(&list, 10, 16, 2, BB_HALF);
    bb_kernel_list_unpermute(&list, 10, 16, 2, BB_HALF);
    assert_int_equal(list.items[0].memory_kernel.in_rows, 1000);
    assert_int_equal(list.items[1].memory_kernel.in_rows, 10);
    assert_int_equal(list.items[2].memory_kernel.in_rows, 20);
    assert_int_equal(list.items[2].memory_kernel.top_k, 2);
    assert_list("embedding 10x16, permute 20x16, unpermute 10x16");
}

/*
 * An eighth of a GEMM's FLOPs is half of each dimension, rounded to a multiple of 8 where the dimension is one. A
 * memory-bound kernel gets an eighth of its rows; below one row, fewer columns.
 */
static void scales_a_list(void **state)
{
    (void)state;
    bb_kernel_list_add_gemm(&list, "a", &(struct bb_gemm_shape){64, 48, 6, 3, false, false, BB_HALF});
    bb_kernel_list_add_gemm(&list, "b", &(struct bb_gemm_shape){8, 1, 10, 1, false, false, BB_HALF});
    bb_kernel_list_add_memory_kernel(
        &list, "c", &(struct bb_memory_kernel){.kind = BB_MEMORY_KERNEL_LAYER_NORM, .rows = 80, .cols = 100});
    bb_kernel_list_add_memory_kernel(
        &list, "d", &(struct bb_memory_kernel){.kind = BB_MEMORY_KERNEL_LAYER_NORM, .rows = 2, .cols = 100});
    bb_kernel_list_permute(&list, 16, 32, 4, BB_HALF);
    bb_kernel_list_scale(&list, 1.0 / 8);
    assert_int_equal(list.items[4].memory_kernel.in_rows, 2);
    assert_list("a 32x24x3x3, b 8x1x5x1, c 10x100, d 1x25, permute 8x32");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(transformer_layer),
        cmocka_unit_test(dense_layers),
        cmocka_unit_test(rejects_invalid_sizes),
        cmocka_unit_test(halo_sides),
        cmocka_unit_test(embedding_and_permutation_rows),
        cmocka_unit_test(scales_a_list),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
