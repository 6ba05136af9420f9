/* test_net.c - networks layer by layer: parameters of every module, tensors between modules, halos and FLOPs against
 * independent counts. */
#include "proxies/workloads/spatial/net/net.h"
#include "tests/check.h"

#include <math.h>
#include <unistd.h>

static void load(struct bb_net *net, const char *word, struct bb_net_options options)
{
    assert_int_equal(bb_net_load(word, &options, net), 0);
}

static void assert_modules(const struct bb_net *net, int first, const size_t *parameters, int n)
{
    for (int m = 0; m < n; m++)
        assert_int_equal(net->modules[first + m].parameters, parameters[m]);
}

static void resnet_parameters_match_published_counts(void **state)
{
    static const struct {
        int image;
        double parameters, gmac;
    } rows[] = {{32, 7162922, 0.864}, {1024, 9781802, 884.4}, {2048, 17646122, 0}};
    struct bb_net net;

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        load(&net, "resnet110_v2", (struct bb_net_options){.image = rows[i].image});
        assert_int_equal(net.n_modules, 38);
        assert_true(net.parameters == rows[i].parameters);
        if (rows[i].gmac > 0)
            assert_true(fabs(net.forward_flops / 2e9 / rows[i].gmac - 1) < 1e-3);
        bb_net_release(&net);
    }
}

static void resnet_block_parameters(void **state)
{
    static const size_t first[3] = {6880, 90880, 361984}, other[3] = {12832, 119552, 476672};
    struct bb_net net;

    (void)state;
    load(&net, "resnet110_v2", (struct bb_net_options){0});
    assert_int_equal(net.modules[0].parameters, 480);
    for (int b = 0; b < 36; b++)
        assert_int_equal(net.modules[1 + b].parameters, b % 12 == 0 ? first[b / 12] : other[b / 12]);
    assert_int_equal(net.modules[37].parameters, 512 + 256 * 32 * 32 * 10 + 10);
    assert_true(net.modules[36].tiled && !net.modules[37].tiled);
    bb_net_release(&net);
}

static void resnet_depth_and_width_options(void **state)
{
    struct bb_net net;

    (void)state;
    load(&net, "resnet110_v2", (struct bb_net_options){.layers = 1001});
    assert_int_equal(net.n_modules, 1 + 3 * 111 + 1);
    bb_net_release(&net);
    assert_int_equal(bb_net_load("resnet110_v2", &(struct bb_net_options){.layers = 100}, &net), -BB_EUSAGE);
    bb_net_release(&net);
    assert_int_equal(bb_net_load("resnet110_v2", &(struct bb_net_options){.filters = 8}, &net), -BB_EUSAGE);
    bb_net_release(&net);
}

static void amoebanet_parameters_match_published_counts(void **state)
{
    static const size_t modules[] = {3016,     194584,   902928,   1780896,  2213536,  2386592,  2386592,  2386592,
                                     2386592,  5158816,  7455552,  8840000,  9532224,  9532224,  9532224,  9532224,
                                     20614464, 29793920, 35331712, 38100608, 38100608, 38100608, 38100608, 66570};
    struct bb_net net;

    (void)state;
    load(&net, "amoebanet_d", (struct bb_net_options){0});
    assert_int_equal(net.n_modules, 24);
    assert_modules(&net, 0, modules, 24);
    assert_true(net.parameters == 312433690);
    assert_true(fabs(net.forward_flops / 2e9 / 836.5 - 1) < 1e-3);
    bb_net_release(&net);
}

/* Published counts of other sizes have 1000 classes: their classifier has 990 more outputs than the profile with 10
 * classes. */
static void other_amoebanet_sizes_match_published_counts(void **state)
{
    static const struct {
        int layers, filters;
        double with_1000_classes;
    } rows[] = {
        {18, 208, 81505540}, {18, 416, 319024120}, {18, 544, 542734840}, {36, 544, 1055832376}, {72, 512, 1844858344}};
    struct bb_net net;

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        load(&net, "amoebanet_d", (struct bb_net_options){.layers = rows[i].layers, .filters = rows[i].filters});
        assert_true(net.parameters + 990.0 * (16 * rows[i].filters + 1) == rows[i].with_1000_classes);
        assert_int_equal(net.n_modules, rows[i].layers + 6);
        bb_net_release(&net);
    }
    assert_int_equal(bb_net_load("amoebanet_d", &(struct bb_net_options){.layers = 20}, &net), -BB_EUSAGE);
    bb_net_release(&net);
    assert_int_equal(bb_net_load("amoebanet_d", &(struct bb_net_options){.filters = 100}, &net), -BB_EUSAGE);
    bb_net_release(&net);
}

/* Module 11 is the second normal cell of the second row. */
static void amoebanet_cells_output_two_tensors(void **state)
{
    struct bb_net net;
    const struct bb_module *m;

    (void)state;
    load(&net, "amoebanet_d", (struct bb_net_options){0});
    m = &net.modules[11];
    assert_int_equal(m->n_out, 2);
    for (int t = 0; t < 2; t++) {
        assert_int_equal(m->out[t].channels, 3328);
        assert_int_equal(m->out[t].side, 64);
    }
    assert_int_equal(4 * (bb_map_elements(&m->out[0]) + bb_map_elements(&m->out[1])), 109051904);
    m = &net.modules[9]; /* a reduction cell also forwards its input, whose side is twice as long */
    assert_int_equal(m->out[0].channels, 2496);
    assert_int_equal(m->out[0].side, 64);
    assert_int_equal(m->out[1].channels, 1664);
    assert_int_equal(m->out[1].side, 128);
    assert_int_equal(net.modules[0].n_out, 1);
    bb_net_release(&net);
}

/* (halo height, halo width, channels, side) of each layer of a cell that exchanges halos. */
static int exchanges(const struct bb_net *net, int module, int found[8][4])
{
    const struct bb_module *m = &net->modules[module];
    int n = 0;

    for (int i = m->first; i < m->first + m->n; i++) {
        const struct bb_net_layer *l = &net->layers[i];

        if (l->halo[0] == 0 && l->halo[1] == 0)
            continue;
        found[n][0] = l->halo[0];
        found[n][1] = l->halo[1];
        found[n][2] = l->in;
        found[n++][3] = l->side;
    }
    return n;
}

/* Rows and columns around each layer's output in a fused normal cell that later layers need. State 0 arrives with a
 * rim of 3, state 1 with a rim of 2. A following 3x3 needs one more, a 1x7 three more columns, a 7x1 three more
 * rows. */
static void fused_cell_rims_by_layer(void **state)
{
    static const struct {
        const char *name;
        int rows, cols;
    } layers[] = {{"conv of input 0", 0, 0}, {"conv of input 1", 0, 0}, {"conv 1x1", 1, 1},    {"pool 3x3", 1, 1},
                  {"conv 1x1 down", 3, 3},   {"conv 1x7", 3, 0},        {"conv 7x1", 0, 0},    {"conv 1x1 up", 0, 0},
                  {"conv 1x1", 0, 0},        {"conv 1x1 down", 3, 3},   {"conv 1x7", 3, 0},    {"conv 7x1", 0, 0},
                  {"conv 1x1 up", 0, 0},     {"pool 3x3", 0, 0},        {"average 3x3", 0, 0}, {"conv 1x1", 0, 0}};
    const struct bb_module *m;
    struct bb_net net;

    (void)state;
    load(&net, "amoebanet_d", (struct bb_net_options){0});
    m = &net.modules[11];
    assert_int_equal(m->n, ROWS(layers));
    assert_int_equal(m->states_at, 2);
    for (int i = 0; i < m->n; i++) {
        const struct bb_net_layer *l = &net.layers[m->first + i];

        print_message("  %s\n", l->name);
        assert_string_equal(l->name, layers[i].name);
        assert_int_equal(l->fused_halo[0], layers[i].rows);
        assert_int_equal(l->fused_halo[1], layers[i].cols);
    }
    bb_net_release(&net);
}

static void amoebanet_cell_halos(void **state)
{
    static const int normal[7][4] = {{1, 1, 832, 64}, {0, 3, 208, 64}, {3, 0, 208, 64}, {0, 3, 208, 64},
                                     {3, 0, 208, 64}, {1, 1, 832, 64}, {1, 1, 832, 64}};
    static const int reduction[6][4] = {{1, 1, 832, 128}, {1, 1, 208, 128}, {0, 3, 208, 64},
                                        {3, 0, 208, 64},  {1, 1, 832, 64},  {1, 1, 832, 64}};
    static const int stem[1][4] = {{1, 1, 3, 1024}};
    int found[8][4];
    struct bb_net net;

    (void)state;
    load(&net, "amoebanet_d", (struct bb_net_options){0});
    assert_int_equal(exchanges(&net, 11, found), 7);
    assert_memory_equal(found, normal, sizeof(normal));
    assert_int_equal(exchanges(&net, 9, found), 6);
    assert_memory_equal(found, reduction, sizeof(reduction));
    assert_int_equal(exchanges(&net, 0, found), 1);
    assert_memory_equal(found, stem, sizeof(stem));
    bb_net_release(&net);
}

static void cosmoflow_matches_mlperf(void **state)
{
    static const size_t modules[] = {3488, 55360, 221312, 884992, 3539456, 4194432, 8256, 260};
    struct bb_net net;

    (void)state;
    load(&net, "cosmoflow", (struct bb_net_options){0});
    assert_int_equal(net.n_modules, 8);
    assert_modules(&net, 0, modules, 8);
    assert_true(net.parameters == 8907556);
    assert_true(fabs(net.forward_flops / 2e9 / 34.43 - 1) < 1e-3);
    assert_int_equal(bb_map_elements(&net.modules[4].out[0]), 32768);
    bb_net_release(&net);
}

/* Loads a user's profile with this family, shape and total. */
static int load_file(const char *family, const char *shape, double parameters, struct bb_net *net)
{
    char path[] = "/tmp/busbar_net_XXXXXX.json";
    int fd = mkstemps(path, 5), rc;
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");

    assert_non_null(file);
    fprintf(file,
            "{\"name\": \"own\", \"description\": \"d\", \"source\": \"s\", \"family\": \"%s\", \"shape\": {%s}, "
            "\"totals\": {\"parameters\": %.0f}}",
            family, shape, parameters);
    assert_int_equal(fclose(file), 0);
    rc = bb_net_load(path, &(struct bb_net_options){0}, net);
    unlink(path);
    return rc;
}

static void loads_user_profiles(void **state)
{
    static const char resnet[] = "\"depth\": 20, \"width\": 16, \"image\": 32, \"input_channels\": 3, \"classes\": 10";
    static const char amoebanet[] =
        "\"layers\": 18, \"filters\": 208, \"image\": 512, \"input_channels\": 3, \"classes\": 1000";
    const double blocks = 6880 + 12832 + 90880 + 119552 + 361984 + 476672;
    struct bb_net net;

    (void)state;
    assert_int_equal(load_file("preactivated_resnet", resnet, 480 + blocks + 3082, &net), 0);
    assert_int_equal(net.n_modules, 8);
    bb_net_release(&net);
    assert_int_equal(load_file("preactivated_resnet", resnet, 480 + blocks + 3083, &net), -BB_EUSAGE);
    bb_net_release(&net);
    assert_int_equal(load_file("amoebanet", amoebanet, 81505540, &net), 0);
    bb_net_release(&net);
    assert_int_equal(load_file("amoebanet", resnet, 81505540, &net), -BB_EUSAGE);
    bb_net_release(&net);
}

static void rejects_invalid_images_and_families(void **state)
{
    static const int images[] = {1, 16, 33, 1000, 1 << 21, -32};
    struct bb_net net;

    (void)state;
    for (size_t i = 0; i < ROWS(images); i++) {
        assert_int_equal(bb_net_load("resnet110_v2", &(struct bb_net_options){.image = images[i]}, &net), -BB_EUSAGE);
        bb_net_release(&net);
    }
    assert_int_equal(bb_net_load("gpt3", &(struct bb_net_options){0}, &net), -BB_EUSAGE);
    bb_net_release(&net);
    assert_int_equal(bb_net_load("resnet111_v2", &(struct bb_net_options){0}, &net), -BB_EUSAGE);
    bb_net_release(&net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resnet_parameters_match_published_counts),
        cmocka_unit_test(resnet_block_parameters),
        cmocka_unit_test(resnet_depth_and_width_options),
        cmocka_unit_test(amoebanet_parameters_match_published_counts),
        cmocka_unit_test(other_amoebanet_sizes_match_published_counts),
        cmocka_unit_test(amoebanet_cells_output_two_tensors),
        cmocka_unit_test(fused_cell_rims_by_layer),
        cmocka_unit_test(amoebanet_cell_halos),
        cmocka_unit_test(cosmoflow_matches_mlperf),
        cmocka_unit_test(loads_user_profiles),
        cmocka_unit_test(rejects_invalid_images_and_families),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
