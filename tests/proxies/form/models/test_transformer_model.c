/* test_transformer_model.c - evaluation of formulas, and models of profiles/models against numbers of the original
 * programs. */
#include "proxies/form/models/formula.h"
#include "proxies/form/models/profile.h"
#include "proxies/form/models/transformer_model.h"
#include "proxies/simulation/machine/cluster.h"
#include "tests/check.h"

#include <unistd.h>

static const struct bb_variable vars[] = {{"h", 1280}, {"V", 50257}, {"h2", 7}};

static void evaluates_formulas(void **state)
{
    static const struct {
        const char *text;
        double value;
    } rows[] = {
        {"12*h^2 + 13*h", 19677440},
        {"V*h+1024*h", 65639680},
        {"(1 + 2) * 3 - 4 / 2", 7},
        {"2*3^2", 18},
        {" h2 ", 7},
        {"10 - 4 - 3", 3},
        {"((2))", 2},
        {"100/10/5", 2},
    };

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        double value;

        assert_int_equal(bb_formula(rows[i].text, vars, 3, "test", &value), 0);
        assert_true(value == rows[i].value);
    }
}

static void rejects_invalid_formulas(void **state)
{
    static const char *const rows[] = {"", "2*", "(1", "1)", "x", "2 3", "h^", "*2", "1 + ", "hh", "2**3", "#"};
    double value;

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++)
        assert_int_equal(bb_formula(rows[i], vars, 3, "test", &value), -BB_EUSAGE);
}

struct expected {
    const char *name;
    size_t message, inner, first, last;
    /* the tensor sizes of the original programs, in their order */
    size_t tensors_inner[16], tensors_first[21], tensors_last[26];
};

static const struct expected models[] = {
    {"gpt2_large",
     808960,
     19677440,
     85317120,
     84008960,
     {1280, 4915200, 1638400, 1280, 6553600, 6553600, 1280, 3840, 1280, 1280, 5120, 1280},
     {64328960, 1310720, 1280, 4915200, 1638400, 1280, 6553600, 6553600, 1280, 3840, 1280, 1280, 5120, 1280},
     {1280, 4915200, 1638400, 1280, 6553600, 6553600, 1280, 64328960, 1280, 3840, 1280, 1280, 5120, 1280, 1280}},
    {"bert_large",
     1049600,
     12596224,
     44379136,
     45984572,
     {1048576, 1048576, 1048576, 1048576, 4194304, 4194304, 1024, 1024, 1024, 1024, 1024, 1024, 4096, 1024, 1024, 1024},
     {31254528, 524288, 2048, 1048576, 1048576, 1048576, 1048576, 4194304, 4194304, 1024, 1024,
      1024,     1024,   1024, 1024,    1024,    1024,    4096,    1024,    1024,    1024},
     {1048576, 1048576, 1048576, 1048576, 4194304, 4194304, 1048576, 1048576, 31254528, 2048, 1024, 1024, 1024,
      1024,    1024,    1024,    4096,    1024,    1024,    1024,    1024,    30522,    1024, 1024, 1024, 2}},
};

static void assert_tensors(const struct bb_model_layer *layer, const size_t *expected, int capacity)
{
    int n = 0;

    while (n < capacity && expected[n])
        n++;
    assert_int_equal(layer->n, n);
    for (int i = 0; i < n; i++)
        assert_int_equal(layer->tensors[i].count, expected[i]);
}

static void models_match_the_original_programs(void **state)
{
    (void)state;
    for (size_t i = 0; i < ROWS(models); i++) {
        const struct expected *e = &models[i];
        struct bb_model m;

        assert_int_equal(bb_model_load(e->name, &m), 0);
        assert_int_equal(m.message, e->message);
        assert_int_equal(m.layer[BB_LAYER_INNER].count, e->inner);
        assert_int_equal(m.layer[BB_LAYER_FIRST].count, e->first);
        assert_int_equal(m.layer[BB_LAYER_LAST].count, e->last);
        assert_tensors(&m.layer[BB_LAYER_INNER], e->tensors_inner, 16);
        assert_tensors(&m.layer[BB_LAYER_FIRST], e->tensors_first, 21);
        assert_tensors(&m.layer[BB_LAYER_LAST], e->tensors_last, 26);
        bb_model_release(&m);
    }
}

static void model_parameter_counts(void **state)
{
    static const struct {
        const char *name;
        int layers;
        double parameters;
    } rows[] = {{"gpt2_large", 36, 838359040},
                {"gpt2_large", 48, 1074488320},
                {"gpt2_large", 64, 1389327360},
                {"bert_large", 24, 367480636}};

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct bb_model m;

        assert_int_equal(bb_model_load(rows[i].name, &m), 0);
        assert_true(bb_model_parameters(&m, rows[i].layers) == rows[i].parameters);
        bb_model_release(&m);
    }
}

/* ---- files of the user ---- */

static char path[64];

static void write_file(const char *text)
{
    int fd;
    FILE *out;

    strcpy(path, "/tmp/busbar-test-XXXXXX.json");
    fd = mkstemps(path, 5);
    assert_true(fd >= 0);
    out = fdopen(fd, "w");
    fputs(text, out);
    fclose(out);
}

static const char *embedded(const char *kind, const char *name)
{
    for (const struct bb_profile_text *t = bb_profile_texts; t->kind; t++)
        if (strcmp(t->kind, kind) == 0 && strcmp(t->name, name) == 0)
            return t->text;
    fail_msg("no %s %s", kind, name);
    return NULL;
}

/* Loads a copy of gpt2_large with one text replaced. Returns the code of bb_model_load. */
static int load_changed(const char *from, const char *to)
{
    static char text[32768];
    const char *original = embedded("models", "gpt2_large"), *at = strstr(original, from);
    struct bb_model m;
    int rc;

    assert_non_null(at);
    snprintf(text, sizeof(text), "%.*s%s%s", (int)(at - original), original, to, at + strlen(from));
    write_file(text);
    rc = bb_model_load(path, &m);
    unlink(path);
    if (rc == 0)
        bb_model_release(&m);
    return rc;
}

static void rejects_inconsistent_models(void **state)
{
    (void)state;
    assert_int_equal(load_changed("\"name\"", "\"name\""), 0);
    assert_int_equal(load_changed("\"inner\": 19677440", "\"inner\": 19677441"), -BB_EUSAGE);
    assert_int_equal(load_changed("1074488320", "1074488321"), -BB_EUSAGE);
    assert_int_equal(load_changed("\"message\": 808960", "\"message\": 808961"), -BB_EUSAGE);
    assert_int_equal(load_changed("vocabulary*h", "vocabulary*g"), -BB_EUSAGE);
    assert_int_equal(load_changed("vocabulary*h", "vocabulary/h"), -BB_EUSAGE);
    assert_int_equal(load_changed("\"h\": 1280", "\"h\": 0"), -BB_EUSAGE);
    assert_int_equal(load_changed("\"sequence\": 632, ", ""), -BB_EUSAGE);
    assert_int_equal(load_changed("\"source\"", "\"sauce\""), -BB_EUSAGE);
    assert_int_equal(load_changed("{", "["), -BB_EUSAGE);
    assert_int_equal(load_changed("[\"norm1.weight\", \"h\"]", "[\"norm1.weight\"]"), -BB_EUSAGE);
}

static void rejects_unknown_names(void **state)
{
    struct bb_model m;
    struct bb_cluster c;

    (void)state;
    assert_int_equal(bb_model_load("gpt2_larg", &m), -BB_EUSAGE);
    assert_int_equal(bb_model_load("/nowhere/model.json", &m), -BB_EUSAGE);
    assert_int_equal(bb_cluster_load("h100", &c), -BB_EUSAGE);
    assert_int_equal(bb_cluster_load("./cluster.json", &c), -BB_EUSAGE);
}

static void shipped_clusters_load_and_incomplete_ones_fail(void **state)
{
    struct bb_cluster c;
    int n = 0;

    (void)state;
    for (const struct bb_profile_text *t = bb_profile_texts; t->kind; t++)
        if (strcmp(t->kind, "clusters") == 0) {
            assert_int_equal(bb_cluster_load(t->name, &c), 0);
            assert_string_equal(c.name, t->name);
            n++;
        }
    assert_true(n >= 2);
    write_file("{\"name\": \"x\", \"gpus_per_node\": 8}");
    assert_int_equal(bb_cluster_load(path, &c), -BB_EUSAGE);
    unlink(path);
    write_file("{\"name\": \"x\", \"gpu_per_node\": 8}");
    assert_int_equal(bb_cluster_load(path, &c), -BB_EUSAGE);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(evaluates_formulas),
        cmocka_unit_test(rejects_invalid_formulas),
        cmocka_unit_test(models_match_the_original_programs),
        cmocka_unit_test(model_parameter_counts),
        cmocka_unit_test(rejects_inconsistent_models),
        cmocka_unit_test(rejects_unknown_names),
        cmocka_unit_test(shipped_clusters_load_and_incomplete_ones_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
