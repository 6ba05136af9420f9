/*
 * test_layer_shape.c - FLOPs, convolutions as implicit GEMMs, and halo boxes against published numbers and cases
 * computed by hand.
 */
#include "cuda/work/layer_shape.h"
#include "tests/check.h"

static void gemm_counts_flops_and_bytes(void **state)
{
    struct bb_gemm_shape s = {3, 5, 7, 2, false, true, BB_HALF};

    (void)state;
    assert_true(bb_gemm_flops(&s) == 2.0 * 3 * 5 * 7 * 2);
    assert_int_equal(bb_gemm_a_bytes(&s), 3 * 7 * 2 * 2);
    assert_int_equal(bb_gemm_b_bytes(&s), 7 * 5 * 2 * 2);
    assert_int_equal(bb_gemm_c_bytes(&s), 3 * 5 * 2 * 2);
    assert_int_equal(bb_gemm_bytes(&s), (21 + 35 + 15) * 4);
}

static void backward_gemms_have_the_forward_flops(void **state)
{
    struct bb_gemm_shape s = {3, 5, 7, 2, false, true, BB_FLOAT}, dgrad, wgrad;

    (void)state;
    bb_gemm_backward(&s, &dgrad, &wgrad);
    /* dA is 3 x 7 from dC 3 x 5 and B stored 5 x 7; dB is 7 x 5 from A stored 3 x 7 and dC 3 x 5. */
    assert_true(dgrad.m == 3 && dgrad.n == 7 && dgrad.k == 5 && !dgrad.trans_a && !dgrad.trans_b);
    assert_true(wgrad.m == 7 && wgrad.n == 5 && wgrad.k == 3 && wgrad.trans_a && !wgrad.trans_b);
    assert_true(bb_gemm_flops(&dgrad) == bb_gemm_flops(&s) && bb_gemm_flops(&wgrad) == bb_gemm_flops(&s));
}

static double layer_flops(const struct bb_transformer *t)
{
    struct bb_gemm_shape gemms[BB_TRANSFORMER_GEMMS];
    double sum = 0;

    assert_true(bb_transformer_gemms(t, gemms));
    for (int i = 0; i < BB_TRANSFORMER_GEMMS; i++)
        sum += bb_gemm_flops(&gemms[i]);
    return sum;
}

/* GPT-3 175B: 24 s h^2 + 4 s^2 h = 7.628e12 FLOP per layer. */
static void transformer_layer_flops_match_the_formula(void **state)
{
    struct bb_transformer gpt3 = {12288, 49152, 96, 2048, 1, 1, BB_BFLOAT16}, quarter = gpt3, odd = gpt3;
    double s = 2048, h = 12288, total = 24 * s * h * h + 4 * s * s * h;

    (void)state;
    quarter.tensor_parallel = 4;
    odd.tensor_parallel = 5;
    assert_true(layer_flops(&gpt3) == total);
    assert_true(total > 7.627e12 && total < 7.629e12);
    assert_true(layer_flops(&quarter) == total / 4);
    assert_false(bb_transformer_gemms(&odd, (struct bb_gemm_shape[BB_TRANSFORMER_GEMMS]){{0}}));
}

/* First convolution of ResNet-50: 224 -> 112 pixels, 118,013,952 multiply-adds per image. */
static void convolution_equals_its_implicit_gemm(void **state)
{
    struct bb_conv conv1 = {1, 3, 1, 224, 224, 64, 1, 7, 7, 2, 3, BB_FLOAT};
    struct bb_gemm_shape s;
    int64_t out[3];

    (void)state;
    assert_true(bb_conv_out(&conv1, out));
    assert_true(out[0] == 1 && out[1] == 112 && out[2] == 112);
    for (int pass = BB_CONV_FORWARD; pass <= BB_CONV_WEIGHTS; pass++) {
        assert_true(bb_conv_gemm(&conv1, (enum bb_conv_pass)pass, &s));
        assert_true(bb_gemm_flops(&s) == 2.0 * 118013952);
    }
    assert_true(bb_conv_gemm(&conv1, BB_CONV_FORWARD, &s) && s.m == 112 * 112 && s.n == 64 && s.k == 3 * 7 * 7);
    assert_true(bb_conv_gemm(&conv1, BB_CONV_DATA, &s) && s.m == 112 * 112 && s.n == 147 && s.k == 64);
    assert_true(bb_conv_gemm(&conv1, BB_CONV_WEIGHTS, &s) && s.m == 64 && s.n == 147 && s.k == 112 * 112);
}

/* The five layers of CosmoFlow: their times in the original program have the ratio 4 : 8 : 4 : 2 : 1. */
static void cosmoflow_layers_have_the_published_ratio(void **state)
{
    static const double ratio[] = {4, 8, 4, 2, 1};
    double unit = 0;

    (void)state;
    for (int l = 4; l >= 0; l--) {
        int64_t side = 128 >> l, channels = l ? 16 << l : 4;
        struct bb_conv v = {8, channels, side, side, side, 32 << l, 3, 3, 3, 1, 1, BB_FLOAT};
        struct bb_gemm_shape s;
        assert_true(bb_conv_gemm(&v, BB_CONV_FORWARD, &s));
        unit = l == 4 ? bb_gemm_flops(&s) : unit;
        assert_true(bb_gemm_flops(&s) == ratio[l] * unit);
    }
}

static void rejects_invalid_convolutions(void **state)
{
    struct bb_conv window_too_large = {1, 1, 1, 4, 4, 1, 1, 7, 7, 1, 1, BB_FLOAT},
                   zero_stride = {1, 1, 1, 4, 4, 1, 1, 3, 3, 0, 1, BB_FLOAT};
    struct bb_gemm_shape s;

    (void)state;
    assert_false(bb_conv_gemm(&window_too_large, BB_CONV_FORWARD, &s));
    assert_false(bb_conv_gemm(&zero_stride, BB_CONV_FORWARD, &s));
    window_too_large.pad = 2; /* output size 4 + 4 - 7 + 1 = 2 */
    assert_true(bb_conv_gemm(&window_too_large, BB_CONV_FORWARD, &s) && s.m == 4);
}

static bool in_box(const struct bb_box *b, uint32_t z, uint32_t y, uint32_t x)
{
    const uint32_t cell[3] = {z, y, x};

    for (int i = 0; i < 3; i++)
        if (cell[i] < b->at[i] || cell[i] >= b->at[i] + b->extent[i])
            return false;
    return true;
}

/* The boxes of received faces, edges and corners cover each margin cell once and no interior cell. */
static void received_boxes_cover_the_margins_once(void **state)
{
    static const struct {
        uint32_t interior[3], halo[3];
    } tiles[] = {{{1, 4, 5}, {0, 1, 2}}, {{3, 4, 5}, {1, 2, 1}}, {{2, 2, 2}, {2, 0, 1}}};

    (void)state;
    for (size_t t = 0; t < ROWS(tiles); t++) {
        const uint32_t *in = tiles[t].interior, *halo = tiles[t].halo;
        uint32_t size[3] = {in[0] + 2 * halo[0], in[1] + 2 * halo[1], in[2] + 2 * halo[2]};
        for (uint32_t cell = 0; cell < size[0] * size[1] * size[2]; cell++) {
            uint32_t x = cell % size[2], y = cell / size[2] % size[1], z = cell / size[2] / size[1];
            bool inside = z >= halo[0] && z < halo[0] + in[0] && y >= halo[1] && y < halo[1] + in[1] && x >= halo[2] &&
                          x < halo[2] + in[2];
            int covered = 0;
            for (int d = 0; d < 27; d++) {
                struct bb_box box;
                const int direction[3] = {d / 9 - 1, d / 3 % 3 - 1, d % 3 - 1};
                covered += bb_halo_box(in, halo, direction, true, &box) && in_box(&box, z, y, x);
            }
            assert_int_equal(covered, inside ? 0 : 1);
        }
    }
}

/* The sent box is at the right edge of the interior, the received box beyond that edge; both have the same size. */
static void sent_and_received_boxes_match(void **state)
{
    const uint32_t interior[3] = {1, 6, 8}, halo[3] = {0, 2, 3};
    const int right[3] = {0, 0, 1}, corner[3] = {0, -1, 1}, nowhere[3] = {0, 0, 0}, depth[3] = {1, 0, 0};
    struct bb_box out, in;

    (void)state;
    assert_true(bb_halo_box(interior, halo, right, false, &out) && bb_halo_box(interior, halo, right, true, &in));
    assert_true(out.at[2] == 8 && out.extent[2] == 3 && out.at[1] == 2 && out.extent[1] == 6);
    assert_true(in.at[2] == 11 && in.extent[2] == 3 && in.size[2] == 14);
    assert_int_equal(bb_box_cells(&out), 18);
    assert_true(bb_halo_box(interior, halo, corner, false, &out));
    assert_true(out.at[1] == 2 && out.extent[1] == 2 && out.at[2] == 8 && out.extent[2] == 3);
    assert_false(bb_halo_box(interior, halo, nowhere, false, &out));
    assert_false(bb_halo_box(interior, halo, depth, false, &out));
    /* the interior is thinner than the halo */
    assert_false(bb_halo_box((const uint32_t[3]){1, 1, 8}, halo, corner, false, &out));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gemm_counts_flops_and_bytes),
        cmocka_unit_test(backward_gemms_have_the_forward_flops),
        cmocka_unit_test(transformer_layer_flops_match_the_formula),
        cmocka_unit_test(convolution_equals_its_implicit_gemm),
        cmocka_unit_test(cosmoflow_layers_have_the_published_ratio),
        cmocka_unit_test(rejects_invalid_convolutions),
        cmocka_unit_test(received_boxes_cover_the_margins_once),
        cmocka_unit_test(sent_and_received_boxes_match),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
