/*
 * test_network.c - published networks: parameters, tensors, outputs and multiplications per stage (from torchvision's
 * tables and counted by hand), transformers (from the usual formulas), and invalid files.
 */
#include "tests/bootstrap/capture.h"
#include "tests/proxies/made.h"

#include "proxies/form/models/profile.h"
#include "proxies/workloads/replicas/network.h"

#include <math.h>
#include <unistd.h>

struct row {
    const char *model;
    double parameters;
    double stem, stage[4], head;
    double gmac, outputs;
    int tensors, layers;
};

static const struct row rows[] = {
    {"resnet18_cifar", 11173962, 1856, {147968, 525568, 2099712, 8393728}, 5130, 0.5554, 614400, 62, 21},
    {"resnet18", 11689512, 9536, {147968, 525568, 2099712, 8393728}, 513000, 1.8141, 2483712, 62, 21},
    {"resnet50", 25557032, 9536, {215808, 1219584, 7098368, 14964736}, 2049000, 4.0892, 11113984, 161, 54},
    {"resnet101", 44549160, 9536, {215808, 1219584, 26090496, 14964736}, 2049000, 7.8014, 16231936, 314, 105},
    {"resnet152", 60192808, 9536, {215808, 2339840, 40613888, 14964736}, 2049000, 11.5136, 22554112, 467, 156},
};

static double parameters_of(const struct bb_network *net, const char *prefix)
{
    double sum = 0;

    for (int u = 0; u < net->n; u++)
        for (int t = 0; t < net->units[u].n; t++)
            if (strncmp(net->units[u].name, prefix, strlen(prefix)) == 0)
                sum += (double)net->units[u].tensors[t].count;
    return sum;
}

static void networks_match_published_counts(void **state)
{
    static const char *const stages[] = {"stage1.", "stage2.", "stage3.", "stage4."};

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        const struct row *r = &rows[i];
        struct bb_network net;

        assert_int_equal(bb_network_load(&(struct bb_proxy_config){.model = r->model}, &net), 0);
        assert_true(net.parameters == r->parameters);
        assert_int_equal(net.n_tensors, r->tensors);
        assert_int_equal(net.n, r->layers);
        assert_true(parameters_of(&net, "stem") == r->stem);
        assert_true(parameters_of(&net, "head") == r->head);
        for (int s = 0; s < 4; s++)
            assert_true(parameters_of(&net, stages[s]) == r->stage[s]);
        assert_true(fabs(net.sample_flops / 2e9 - r->gmac) < 5e-5);
        assert_true(net.outputs == r->outputs);
        assert_true(net.images && net.has_kernels);
        bb_network_release(&net);
    }
}

/* The first block and another block of each stage of ResNet-50. */
static void blocks_match_published_counts(void **state)
{
    static const struct {
        const char *prefix;
        double parameters;
    } blocks[] = {{"stage1.block0", 75008},   {"stage1.block1", 70400},   {"stage2.block0", 379392},
                  {"stage2.block3", 280064},  {"stage3.block0", 1512448}, {"stage3.block5", 1117184},
                  {"stage4.block0", 6039552}, {"stage4.block2", 4462592}};
    struct bb_network net;

    (void)state;
    assert_int_equal(bb_network_load(&(struct bb_proxy_config){.model = "resnet50"}, &net), 0);
    for (size_t i = 0; i < ROWS(blocks); i++)
        assert_true(parameters_of(&net, blocks[i].prefix) == blocks[i].parameters);
    assert_string_equal(net.units[1].tensors[0].name, "stage1.block0.conv1.weight");
    /* PyTorch registers the projection after the convolutions */
    assert_string_equal(net.units[4].name, "stage1.block0.projection");
    bb_network_release(&net);
}

static void transformers_match_the_usual_formulas(void **state)
{
    struct bb_network net;
    double s = 1024, h = 1280;

    (void)state;
    assert_int_equal(bb_network_load(&(struct bb_proxy_config){.model = "gpt2_large"}, &net), 0);
    assert_true(net.parameters == 774030080);
    assert_int_equal(net.n, 38);
    assert_true(net.units[1].sample_flops == 24 * s * h * h + 4 * s * s * h);
    /* the tied head computes logits, but its only parameters are the norm */
    assert_true(net.units[37].sample_flops == 2 * s * h * 50257);
    assert_true(!net.images && net.has_kernels);
    bb_network_release(&net);
    assert_int_equal(bb_network_load(&(struct bb_proxy_config){.model = "bert_large"}, &net), 0);
    assert_true(net.parameters == 335141888);
    bb_network_release(&net);
    assert_int_equal(bb_network_load(&(struct bb_proxy_config){.model = "llama2_7b"}, &net), 0);
    assert_true(net.parameters == 6738415616);
    assert_true(!net.has_kernels);
    bb_network_release(&net);
}

/* The FLOPs of a layer equal the FLOPs of its kernel list. */
static void kernel_lists_have_the_flops_of_the_layer(void **state)
{
    static const char *const models[] = {"resnet18_cifar", "resnet50",    "gpt2_small", "bert_large",
                                         "resnet110_v2",   "amoebanet_d", "cosmoflow"};

    (void)state;
    for (size_t m = 0; m < ROWS(models); m++) {
        struct bb_network net;

        assert_int_equal(bb_network_load(&(struct bb_proxy_config){.model = models[m]}, &net), 0);
        for (int u = 0; u < net.n; u++) {
            struct bb_kernel_list *w = calloc(2, sizeof(*w));
            double forward = 3 * net.units[u].sample_flops, factor = u == 0 && net.images ? 1 : 2;

            assert_true(bb_network_add_kernels(&net, u, 3, BB_BFLOAT16, false, &w[0]));
            assert_true(bb_network_add_kernels(&net, u, 3, BB_BFLOAT16, true, &w[1]));
            assert_true(bb_kernel_list_flops(&w[0]) == forward);
            assert_true(bb_kernel_list_flops(&w[1]) == factor * forward);
            assert_true(w[0].n > 0 && w[1].n > 0 && !w[0].overflowed && !w[1].overflowed);
            free(w);
        }
        bb_network_release(&net);
    }
}

/* ---- networks for large images ---- */

static void networks_for_large_images_match_published_counts(void **state)
{
    /* convolutions, dense layers and batch norms: ResNet-110-v2 has 108 + 1 convolutions, 3 projections, a dense layer and
     * 109 - 1 + 1 batch norms; weights and biases of all, two tensors per norm */
    static const struct {
        struct bb_proxy_config config;
        double parameters, gmac;
        int layers, tensors;
    } models[] = {
        {{.model = "resnet110_v2"}, 9781802, 884.4, 113, 2 * 113 + 2 * 109},
        {{.model = "resnet110_v2", .tiles = {.image_size = 32}}, 7162922, 0.864, 113, 2 * 113 + 2 * 109},
        {{.model = "amoebanet_d"}, 312433690, 836.5, 280, 279 + 2 + 2 * 275},
        {{.model = "cosmoflow"}, 8907556, 0, 8, 16},
    };

    (void)state;
    for (size_t m = 0; m < ROWS(models); m++) {
        struct bb_network net;
        double sum = 0;

        assert_int_equal(bb_network_load(&models[m].config, &net), 0);
        assert_true(net.parameters == models[m].parameters && net.images && net.has_kernels);
        assert_true(models[m].gmac == 0 || fabs(net.sample_flops / 2e9 / models[m].gmac - 1) < 1e-3);
        assert_int_equal(net.n, models[m].layers);
        assert_int_equal(net.n_tensors, models[m].tensors);
        for (int u = 0; u < net.n; u++)
            for (int t = 0; t < net.units[u].n; t++)
                sum += (double)net.units[u].tensors[t].count;
        assert_true(sum == net.parameters);
        bb_network_release(&net);
    }
}

/* ---- invalid files ---- */

/* Loads a copy of resnet18_cifar with one text replaced. Returns the code of bb_network_load. */
static int load_changed(const char *from, const char *to)
{
    char path[] = "/tmp/busbar-network-XXXXXX.json", *at, *text, *changed;
    struct bb_network net;
    json_t *root;
    FILE *file;
    int rc;

    assert_int_equal(bb_profile_load("models", "resnet18_cifar", &root), 0);
    text = json_dumps(root, JSON_COMPACT | JSON_PRESERVE_ORDER);
    json_decref(root);
    at = strstr(text, from);
    assert_non_null(at);
    assert_true(asprintf(&changed, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from)) > 0);
    file = fdopen(mkstemps(path, 5), "w");
    fputs(changed, file);
    fclose(file);
    rc = bb_network_load(&(struct bb_proxy_config){.model = path}, &net);
    if (rc == 0)
        bb_network_release(&net);
    unlink(path);
    free(text);
    free(changed);
    return rc;
}

static void rejects_invalid_files(void **state)
{
    static const char *const changes[][2] = {
        {"\"width\":64", "\"width\":65"},
        {"\"width\":64", "\"width\":0"},
        {"\"classes\":10", "\"classes\":1.5"},
        {"\"basic\"", "\"plain\""},
        {"[2,2,2,2]", "[2,2,2]"},
        {"[2,2,2,2]", "[]"},
        {"[2,2,2,2]", "[2,2,2,100000]"},
        {"\"tensors\":62", "\"tensors\":63"},
        {"\"outputs\":614400", "\"outputs\":1"},
        {"\"image\":32", "\"image\":-32"},
        {"\"batch\":128", "\"batch\":0"},
        {"\"stem\":{", "\"stem_\":{"},
        {"\"kernel\":3", "\"kernel\":99"},
    };

    (void)state;
    assert_int_equal(load_changed("\"batch\":128", "\"batch\":64"), 0);
    bb_err_mute(true);
    for (size_t i = 0; i < ROWS(changes); i++)
        assert_int_equal(load_changed(changes[i][0], changes[i][1]), -BB_EUSAGE);
    bb_err_mute(false);
}

/* The largest accepted numbers. One more is rejected with a message about the limit. (Both values also fail the
 * check of the totals.) */
static void rejects_numbers_above_their_limits(void **state)
{
    static const struct {
        const char *from, *key;
        int limit_value;
    } rows[] = {{"\"image\":32", "image", 1 << 20},     {"\"width\":64", "width", 1 << 16},
                {"\"classes\":10", "classes", 1 << 24}, {"\"batch\":128", "batch", 1 << 20},
                {"\"kernel\":3", "stem.kernel", 99},    {"\"stride\":1", "stem.stride", 99},
                {"\"pool\":1", "stem.pool", 99}};
    struct capture captured;

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++)
        for (int excess = 0; excess < 2; excess++) {
            const char *last = strrchr(rows[i].key, '.'), *text;
            char to[64], limit[64];

            snprintf(to, sizeof(to), "\"%s\":%d", last ? last + 1 : rows[i].key, rows[i].limit_value + excess);
            snprintf(limit, sizeof(limit), "expected a whole number up to %d", rows[i].limit_value);
            capture_begin(&captured);
            (void)load_changed(rows[i].from, to);
            text = capture_end(&captured);
            assert_int_equal(strstr(text, limit) != NULL, excess);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(networks_match_published_counts),
        cmocka_unit_test(blocks_match_published_counts),
        cmocka_unit_test(transformers_match_the_usual_formulas),
        cmocka_unit_test(kernel_lists_have_the_flops_of_the_layer),
        cmocka_unit_test(networks_for_large_images_match_published_counts),
        cmocka_unit_test(rejects_invalid_files),
        cmocka_unit_test(rejects_numbers_above_their_limits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
