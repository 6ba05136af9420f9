/* test_tiles.c - neighbours of tiles, halo messages per direction, and widths of fused halos. */
#include "layouts.h"

#include "proxies/workloads/spatial/split_layers.h"

/* ---- neighbours ---- */

/* {direction, tile}, ended by -1: the neighbours in a grid of 2 x 2, numbered as in MPI4DL. */
static const int two_by_two[4][4][2] = {{{5, 1}, {7, 2}, {8, 3}, {-1, -1}},
                                        {{3, 0}, {6, 2}, {7, 3}, {-1, -1}},
                                        {{1, 0}, {2, 1}, {5, 3}, {-1, -1}},
                                        {{0, 0}, {1, 1}, {3, 2}, {-1, -1}}};

static void neighbours_in_a_2x2_grid(void **state)
{
    const struct bb_slices s = {2, 2};

    (void)state;
    for (int tile = 0; tile < 4; tile++) {
        unsigned mask = 0;

        for (int i = 0; two_by_two[tile][i][0] >= 0; i++) {
            mask |= 1u << two_by_two[tile][i][0];
            assert_int_equal(tile + bb_tile_offset(&s, two_by_two[tile][i][0]), two_by_two[tile][i][1]);
        }
        assert_int_equal(bb_tile_neighbour_mask(&s, tile), mask);
    }
}

static void neighbours_of_middle_tiles_and_strips(void **state)
{
    (void)state;
    assert_int_equal(bb_tile_neighbour_mask(&(struct bb_slices){3, 3}, 4), 0x1ef);
    assert_int_equal(bb_tile_neighbour_mask(&(struct bb_slices){1, 4}, 0), 1u << 5);
    assert_int_equal(bb_tile_neighbour_mask(&(struct bb_slices){1, 4}, 2), 1u << 3 | 1u << 5);
    assert_int_equal(bb_tile_neighbour_mask(&(struct bb_slices){4, 1}, 2), 1u << 1 | 1u << 7);
}

static void neighbour_directions_are_symmetric(void **state)
{
    static const struct bb_slices grids[] = {{1, 8}, {8, 1}, {2, 2}, {4, 4}, {3, 5}};

    (void)state;
    for (size_t g = 0; g < ROWS(grids); g++)
        for (int tile = 0; tile < grids[g].rows * grids[g].cols; tile++)
            for (int d = 0; d < BB_DIRECTIONS; d++)
                if (bb_tile_neighbour_mask(&grids[g], tile) & 1u << d) {
                    int other = tile + bb_tile_offset(&grids[g], d);

                    assert_true(bb_tile_neighbour_mask(&grids[g], other) & 1u << (8 - d));
                    assert_int_equal(other + bb_tile_offset(&grids[g], 8 - d), tile);
                }
}

/* ---- messages ---- */

static size_t all_messages(const struct bb_halo *h, const struct bb_slices *s, int samples, size_t *elements)
{
    size_t n = 0;

    *elements = 0;
    for (int tile = 0; tile < s->rows * s->cols; tile++)
        for (int d = 0; d < BB_DIRECTIONS; d++) {
            size_t count = bb_tile_neighbour_mask(s, tile) & 1u << d ? bb_halo_count(h, s, samples, d) : 0;

            n += count > 0;
            *elements += count;
        }
    return n;
}

static void halo_totals_match_the_formula(void **state)
{
    const struct bb_halo h = {"halo", {5, 1, 64}, {1, 1}};
    size_t elements;

    (void)state;
    for (int q = 2; q <= 8; q *= 2) { /* 2 Q N C (hh w + h hw) + 4 (Q-1)^2 N C hh hw */
        size_t tile = 64 / (size_t)q, n = (size_t)q;

        assert_int_equal(all_messages(&h, &(struct bb_slices){q, q}, 3, &elements),
                         4 * n * (n - 1) + 4 * (n - 1) * (n - 1));
        assert_int_equal(elements, 2 * n * (n - 1) * 15 * 2 * tile + 4 * (n - 1) * (n - 1) * 15);
    }
    for (int p = 2; p <= 16; p *= 2) { /* 2 (P-1) N C H */
        assert_int_equal(all_messages(&h, &(struct bb_slices){1, p}, 3, &elements), 2 * (p - 1));
        assert_int_equal(elements, 2 * (p - 1) * 15 * 64);
        assert_int_equal(all_messages(&h, &(struct bb_slices){p, 1}, 3, &elements), 2 * (p - 1));
    }
}

/* A 1 x 7 kernel exchanges left and right, a 7 x 1 kernel up and down; strips without a cut in this dimension send
 * nothing. */
static void non_square_kernels_exchange_in_one_dimension(void **state)
{
    const struct bb_halo wide = {"1x7", {2, 1, 16}, {0, 3}}, tall = {"7x1", {2, 1, 16}, {3, 0}};
    size_t elements;

    (void)state;
    for (int d = 0; d < BB_DIRECTIONS; d++) {
        assert_true((bb_halo_count(&wide, &(struct bb_slices){2, 2}, 1, d) > 0) == (d == 3 || d == 5));
        assert_true((bb_halo_count(&tall, &(struct bb_slices){2, 2}, 1, d) > 0) == (d == 1 || d == 7));
    }
    assert_int_equal(bb_halo_count(&wide, &(struct bb_slices){2, 2}, 1, 3), 2 * 8 * 3);
    assert_int_equal(all_messages(&tall, &(struct bb_slices){1, 4}, 1, &elements), 0);
    assert_false(bb_halo_is_exchanged(tall.width, &(struct bb_slices){1, 4}));
    assert_true(bb_halo_is_exchanged(tall.width, &(struct bb_slices){4, 1}));
}

static void resolves_and_rejects_slices(void **state)
{
    struct bb_slices s;

    (void)state;
    assert_int_equal(bb_slices_init(&s, "spatial", NULL, 4), 0);
    assert_string_equal(bb_slices_name(&s), "square");
    assert_int_equal(bb_slices_init(&s, "spatial", NULL, 8), 0);
    assert_string_equal(bb_slices_name(&s), "vertical");
    assert_int_equal(bb_slices_init(&s, "spatial", "horizontal", 2), 0);
    assert_string_equal(bb_slices_name(&s), "horizontal");
    assert_int_equal(bb_slices_init(&s, "spatial", "square", 8), -BB_EUSAGE);
    assert_int_equal(bb_slices_init(&s, "spatial", NULL, 3), -BB_EUSAGE);
    assert_int_equal(bb_slices_init(&s, "spatial", NULL, 9), -BB_EUSAGE);
    assert_int_equal(bb_slices_init(&s, "spatial", NULL, 1), -BB_EUSAGE);
}

/* ---- segments ---- */

static void make_layers(struct bb_step *step, const struct bb_net *net, struct bb_proxy_config *c, int first, int n,
                        struct bb_split_layers *out)
{
    c->dtype = "float";
    c->compute = c->compute ? c->compute : "none";
    c->tflops = 100;
    *out = (struct bb_split_layers){.first = first, .n = n, .tiled = true, .slices = {2, 2}, .samples = 1};
    assert_int_equal(bb_split_layers_init(c, net, step, out), 0);
}

/* Blocks 0..11 have stride 1, block 12 has stride 2, the following ones 1: {first block, F, H}. */
static void fused_halo_widths_of_resnet_blocks(void **state)
{
    static const int rows[][3] = {{0, 1, 2},
                                  {3, 2, 4},
                                  {2, 5, 10}, /* 2 F */
                                  {12, 1, 3},
                                  {12, 2, 7},
                                  {12, 4, 15}, /* 4 F - 1 */
                                  {11, 2, 2 * 1 + 4 * 1 - 1},
                                  {9, 4, 2 * 3 + 4 * 1 - 1},
                                  {11, 4, 2 * 1 + 4 * 3 - 1}};
    struct bb_net net;
    struct bb_step step = {0};
    struct bb_split_layers got;

    (void)state;
    assert_int_equal(bb_net_load("resnet110_v2", &(struct bb_net_options){0}, &net), 0);
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct bb_proxy_config c = {.tiles = {.halo_d2 = true, .fused_layers = rows[i][1]}};

        make_layers(&step, &net, &c, 1 + rows[i][0], rows[i][1], &got);
        assert_int_equal(got.n_segments, rows[i][1]);
        assert_int_equal(got.segments[0].n_halos, 1);
        assert_int_equal(got.segments[0].halos[0].width[0], rows[i][2]);
        assert_int_equal(got.segments[0].halos[0].width[1], rows[i][2]);
        assert_int_equal(got.segments[0].halos[0].map.channels, net.layers[net.modules[1 + rows[i][0]].first].in);
        for (int s = 1; s < got.n_segments; s++)
            assert_int_equal(got.segments[s].n_halos, 0);
        bb_split_layers_release(&got);
    }
    bb_net_release(&net);
    bb_step_release(&step);
}

/* The rim around a tile is computed redundantly: the two 3x3 convolutions of a block run on 2 and 0 additional rows
 * and columns. */
static void fused_halos_add_redundant_flops(void **state)
{
    struct bb_proxy_config unfused = {.tiles = {.fused_layers = 1}},
                           fused = {.tiles = {.halo_d2 = true, .fused_layers = 1}};
    struct bb_net net;
    struct bb_step step = {0};
    struct bb_split_layers a, f;

    (void)state;
    assert_int_equal(bb_net_load("resnet110_v2", &(struct bb_net_options){.image = 64}, &net), 0);
    make_layers(&step, &net, &unfused, 2, 1, &a); /* 64 -> 16 -> 16 -> 64 channels on 32 x 32 */
    make_layers(&step, &net, &fused, 2, 1, &f);
    assert_true(a.flops[BB_FORWARD] == 2.0 * (9 * 64 * 16 + 9 * 16 * 16 + 16 * 64) * 32 * 32);
    assert_true(f.flops[BB_FORWARD] == 2.0 * (9 * 64 * 16 * 34 * 34 + (9 * 16 * 16 + 16 * 64) * 32 * 32));
    assert_true(a.flops[BB_BACKWARD] == 2 * a.flops[BB_FORWARD]);
    bb_split_layers_release(&a);
    bb_split_layers_release(&f);
    bb_net_release(&net);
    bb_step_release(&step);
}

static int halos_of(const struct bb_split_layers *c)
{
    int n = 0;

    for (int s = 0; s < c->n_segments; s++)
        n += c->segments[s].n_halos;
    return n;
}

/* A normal cell: 7 exchanges layer by layer; fused, one of width 3 for state 0 and one of width 2 for state 1, both
 * with c channels. Reduction cells are not fused. */
static void fused_halos_of_amoebanet_cells(void **state)
{
    struct bb_proxy_config unfused = {.tiles = {.fused_layers = 1}},
                           fused = {.tiles = {.halo_d2 = true, .fused_layers = 1}};
    struct bb_net net;
    struct bb_step step = {0};
    struct bb_split_layers got;

    (void)state;
    assert_int_equal(bb_net_load("amoebanet_d", &(struct bb_net_options){0}, &net), 0);
    make_layers(&step, &net, &unfused, 11, 1, &got);
    assert_int_equal(halos_of(&got), 7);
    bb_split_layers_release(&got);
    make_layers(&step, &net, &fused, 11, 1, &got);
    assert_int_equal(got.n_segments, 2);
    assert_int_equal(got.segments[0].n_halos, 0);
    assert_int_equal(got.segments[1].n_halos, 2);
    for (int h = 0; h < 2; h++) {
        assert_int_equal(got.segments[1].halos[h].map.channels, 832);
        assert_int_equal(got.segments[1].halos[h].map.side, 64);
        assert_int_equal(got.segments[1].halos[h].width[0], 3 - h);
    }
    bb_split_layers_release(&got);
    make_layers(&step, &net, &fused, 9, 1, &got);
    assert_int_equal(halos_of(&got), 6);
    bb_split_layers_release(&got);
    bb_net_release(&net);
    bb_step_release(&step);
}

static double square(double x)
{
    return x * x;
}

/* FLOPs of a fused normal cell on its tile of 32 x 32. Before the halos arrive: the convolutions of both inputs,
 * without a rim. After: every layer that reads a state, on the additional rows and columns that the layers after it
 * need. */
static void flops_of_a_fused_cell_before_and_after_its_halos(void **state)
{
    const double c = 832, quarter = c / 4, tile = 32;
    const double wide = c * quarter * square(tile + 6) + 7 * quarter * quarter * (tile + 6) * tile +
                        7 * quarter * quarter * square(tile) + c * quarter * square(tile); /* 1x1, 1x7, 7x1, 1x1 */
    struct bb_proxy_config fused = {.tiles = {.halo_d2 = true, .fused_layers = 1}};
    struct bb_net net;
    struct bb_step step = {0};
    struct bb_split_layers got;

    (void)state;
    assert_int_equal(bb_net_load("amoebanet_d", &(struct bb_net_options){0}, &net), 0);
    make_layers(&step, &net, &fused, 11, 1, &got);
    assert_true(got.segments[0].head.flops[BB_FORWARD] == 0);
    assert_true(got.segments[0].tail.flops[BB_FORWARD] ==
                2 * c * square(tile) * (net.modules[10].out[0].channels + net.modules[9].out[0].channels));
    assert_true(got.segments[1].tail.flops[BB_FORWARD] == 0);
    assert_true(got.segments[1].head.flops[BB_FORWARD] ==
                2 * (c * c * square(tile + 2) + 2 * wide + 2 * c * c * square(tile)));
    assert_string_equal(got.segments[0].tail.what, "conv of input 0");
    assert_string_equal(got.segments[1].head.what, "conv 1x1");
    bb_split_layers_release(&got);
    bb_net_release(&net);
    bb_step_release(&step);
}

/* The interior and the border of a tile have all of its FLOPs; the kernel lists have the FLOPs that are counted. */
static void interior_and_border_sum_to_the_tile(void **state)
{
    static const char *const models[] = {"resnet110_v2", "amoebanet_d", "cosmoflow"};
    struct bb_net net;
    struct bb_step step = {0};
    struct bb_split_layers got;

    (void)state;
    for (int m = 0; m < 3; m++) {
        struct bb_proxy_config c = {.compute = "gemm", .tiles = {.halo_overlap = true, .fused_layers = 1}};

        assert_int_equal(bb_net_load(models[m], &(struct bb_net_options){.image = 128}, &net), 0);
        make_layers(&step, &net, &c, 0, 4, &got);
        for (int s = 0; s < got.n_segments; s++) {
            const struct bb_segment *g = &got.segments[s];

            for (int direction = 0; direction < BB_PASS_DIRECTIONS; direction++) {
                assert_true(!g->head.kernels[direction] ||
                            bb_kernel_list_flops(g->head.kernels[direction]) == g->head.flops[direction]);
                assert_true(!g->tail.kernels[direction] ||
                            bb_kernel_list_flops(g->tail.kernels[direction]) == g->tail.flops[direction]);
            }
            assert_true(g->inner.flops[BB_FORWARD] + g->border.flops[BB_FORWARD] == g->head.flops[BB_FORWARD]);
            assert_true(g->n_halos == 0 || g->head.flops[BB_FORWARD] == 0 || g->border.flops[BB_FORWARD] > 0);
        }
        bb_split_layers_release(&got);
        bb_net_release(&net);
    }
    bb_step_release(&step);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(neighbours_in_a_2x2_grid),
        cmocka_unit_test(neighbours_of_middle_tiles_and_strips),
        cmocka_unit_test(neighbour_directions_are_symmetric),
        cmocka_unit_test(halo_totals_match_the_formula),
        cmocka_unit_test(non_square_kernels_exchange_in_one_dimension),
        cmocka_unit_test(resolves_and_rejects_slices),
        cmocka_unit_test(fused_halo_widths_of_resnet_blocks),
        cmocka_unit_test(fused_halos_add_redundant_flops),
        cmocka_unit_test(fused_halos_of_amoebanet_cells),
        cmocka_unit_test(flops_of_a_fused_cell_before_and_after_its_halos),
        cmocka_unit_test(interior_and_border_sum_to_the_tile),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
