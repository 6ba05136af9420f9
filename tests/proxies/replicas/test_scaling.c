/*
 * test_scaling.c - what a scaling study means on N ranks, its figures, and its programs: against numbers worked out by
 * hand and formulas written down again.
 */
#include "proxies/registry/registry.h"
#include "proxies/replicas/replicas.h"
#include "proxies/replicas/scaling.h"
#include "tests/bootstrap/capture.h"
#include "tests/check.h"

#include <math.h>

static struct bb_proxy_config config_of(int ranks)
{
    struct bb_proxy_config c = {.proxy = "scaling", .ranks = ranks, .dtype = "float", .compute = "timed"};

    assert_int_equal(bb_scaling_defaults(&c), 0);
    return c;
}

/* 50000 images, 128 on each rank: the numbers of steps of the study that this one follows. */
static void test_steps(void **state)
{
    static const int expected[][2] = {{1, 391}, {2, 196}, {4, 98}, {8, 49}, {16, 25}, {32, 13}, {64, 7}};

    (void)state;
    for (size_t i = 0; i < ROWS(expected); i++) {
        struct bb_proxy_config c = config_of(expected[i][0]);
        struct bb_scaling s;
        int images;

        assert_int_equal(bb_scaling_resolve(&c, &s), 0);
        images = (50000 + s.ranks - 1) / s.ranks;
        assert_int_equal(s.full_steps + (s.last_batch > 0), expected[i][1]);
        assert_int_equal(s.full_steps * 128 + s.last_batch, images);
        assert_int_equal(s.rank_images, images);
        assert_true(s.rounds == 3 && s.batch == 128 && s.run_steps == s.full_steps && !s.strong && !s.synthetic);
    }
}

static void test_strong(void **state)
{
    struct bb_proxy_config c = config_of(8);
    struct bb_scaling s;

    (void)state;
    c.scaling.mode = "strong";
    c.scaling.batch = 1024;
    c.scaling.images = 1025;
    assert_int_equal(bb_scaling_resolve(&c, &s), 0); /* 129 images of a rank, 128 at once */
    assert_true(s.batch == 128 && s.full_steps == 1 && s.last_batch == 1 && s.rank_images == 129);
    c.scaling.images = 100; /* fewer than a step takes */
    assert_int_equal(bb_scaling_resolve(&c, &s), 0);
    assert_true(s.batch == 13 && s.full_steps == 1 && s.last_batch == 0);
    c.scaling.images = 1 << 20;
    c.scaling.epoch_steps = 10;
    assert_int_equal(bb_scaling_resolve(&c, &s), 0);
    assert_true(s.full_steps == 1024 && s.run_steps == 10);
}

static void test_refused(void **state)
{
    static const struct {
        const char *mode, *format, *sync;
        int ranks, batch, epochs;
        const char *words[3];
    } bad[] = {
        {"strong", NULL, NULL, 3, 128, 0, {"128", "126 or 129", "2 or 4 ranks"}},
        {"strong", NULL, NULL, 12, 8, 0, {"--batch 12", "8 ranks"}},
        {NULL, "synthetic", NULL, 2, 0, 3, {"--epochs", "synthetic"}},
        {NULL, NULL, "ps_p2p", 4, 0, 0, {"ps_p2p", "try: --sync ps"}},
    };

    (void)state;
    for (size_t i = 0; i < ROWS(bad); i++) {
        struct bb_proxy_config c = config_of(bad[i].ranks);
        struct bb_scaling s;
        struct capture said;
        int rc;

        c.scaling.mode = bad[i].mode;
        c.scaling.format = bad[i].format;
        c.scaling.batch = bad[i].batch;
        c.scaling.epochs = bad[i].epochs;
        c.sync.sync = bad[i].sync ? bad[i].sync : c.sync.sync;
        capture_begin(&said);
        rc = bb_scaling_resolve(&c, &s);
        capture_end(&said);
        assert_int_equal(rc, -BB_EUSAGE);
        for (size_t w = 0; w < 3 && bad[i].words[w]; w++)
            if (!strstr(said.text, bad[i].words[w]))
                fail_msg("no \"%s\" in: %s", bad[i].words[w], said.text);
    }
}

/* ---- figures ---- */

/* 1000 images in 1 s on one rank; 250 each of 4 in 0.3 s, after a first epoch of 0.5 s. */
static void test_figures(void **state)
{
    double seconds[] = {0.5, 0.3, 0.3};
    const struct bb_scaling s = {.ranks = 4, .rank_images = 250, .rounds = 3};
    const struct bb_scaling_measured m = {.seconds = seconds, .rounds = 3};
    const struct bb_scaling_measured first = {.seconds = seconds, .rounds = 1};
    double rate = bb_scaling_steady_rate(&s, &m);

    (void)state;
    assert_true(fabs(rate - 1000 / 0.3) < 1e-9);
    assert_true(fabs(bb_scaling_steady_rate(&s, &first) - 2000) < 1e-9);
    assert_true(isnan(bb_scaling_steady_rate(&s, &(struct bb_scaling_measured){0})));
    /* E = N0 t(N0) / (N t(N)) */
    assert_true(fabs(bb_scaling_efficiency(rate, 4, 1000, 1) - 1 * 1.0 / (4 * 0.3)) < 1e-12);
    assert_true(fabs(bb_scaling_efficiency(600, 6, 250, 2) - 0.8) < 1e-12);
}

/* Amdahl's law with a serial fraction f gives it back. */
static void test_karp_flatt(void **state)
{
    (void)state;
    for (int n = 2; n <= 64; n *= 2)
        for (double f = 0; f <= 1; f += 0.125)
            assert_true(fabs(bb_karp_flatt(1 / (f + (1 - f) / n), n) - f) < 1e-12);
    assert_true(isnan(bb_karp_flatt(1, 1)));
}

/* 1.96 standard deviations of the population: of 2 and 4 around 3, that is 1. */
static void test_synthetic(void **state)
{
    struct bb_proxy_config c = config_of(2);
    double seconds[10];
    struct bb_scaling s;
    const struct bb_scaling_measured m = {.seconds = seconds, .rounds = 10};
    double mean, spread;

    (void)state;
    c.scaling.format = "synthetic";
    assert_int_equal(bb_scaling_resolve(&c, &s), 0);
    assert_true(s.batch == 32 && s.rank_images == 320 && s.rounds == 10 && s.full_steps == 10);
    for (int i = 0; i < 10; i++)
        seconds[i] = i % 2 ? 80 : 160; /* 320 images: 4 and 2 a second */
    bb_scaling_iteration_stats(&s, &m, &mean, &spread);
    assert_true(fabs(mean - 3) < 1e-12 && fabs(spread - 1.96) < 1e-12);
    assert_true(fabs(bb_scaling_steady_rate(&s, &m) - 6) < 1e-12);
}

static void test_lines(void **state)
{
    const struct bb_scaling s = {.ranks = 4, .rank_images = 12500, .rounds = 3},
                            t = {.synthetic = true, .rank_images = 320};
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    (void)state;
    bb_scaling_print_round(&s, 0, 12.344, out);
    bb_scaling_print_round(&t, 0, 2.5, out);
    fclose(out);
    assert_string_equal(text, "Epoch 1/3 | Time: 12.34s | Global Img/sec: 4050.55\nIter #0: 128.0 img/sec per GPU\n");
    free(text);
}

/* ---- programs ---- */

static double payload(const struct bb_step *step, enum bb_coll_kind kind, size_t *calls)
{
    const struct bb_program *p = &step->roles[0].program;
    double bytes = 0;

    *calls = 0;
    for (size_t i = 0; i < p->n_ops; i++)
        if (bb_op_is_comm(&p->ops[i])) {
            assert_true(p->ops[i].kind == BB_OP_COLLECTIVE && p->ops[i].coll == kind);
            bytes += (double)bb_op_payload_bytes(&p->ops[i], step->layout.ranks);
            ++*calls;
        }
    return bytes;
}

static double flops(const struct bb_step *step)
{
    double sum = 0;

    for (size_t i = 0; i < step->roles[0].program.n_ops; i++)
        sum += step->roles[0].program.ops[i].flops;
    return sum;
}

static void build(const struct bb_proxy_config *c, enum bb_scaling_part part, struct bb_step *step)
{
    struct bb_proxy_config config = *c;

    config.scaling.part = part;
    assert_int_equal(bb_step_build(step, bb_proxy_find("scaling"), &config), 0);
}

/* All gradients once, whatever the batch (fusion pads each tensor to 16 bytes, here the 10 biases of the last layer);
 * the short step computes as much less as it has fewer images. */
static void test_step(void **state)
{
    struct bb_proxy_config c = config_of(8);
    struct bb_step step, last;
    struct bb_scaling s;
    size_t calls;

    (void)state;
    assert_int_equal(bb_scaling_resolve(&c, &s), 0);
    build(&c, BB_SCALING_STEP, &step);
    build(&c, BB_SCALING_LAST, &last);
    assert_true(step.parameters == 11173962 && step.samples == 8 * 128 && last.samples == 8 * 106);
    assert_true(payload(&step, BB_ALL_REDUCE, &calls) == 44695848.0 + 8);
    assert_true(payload(&last, BB_ALL_REDUCE, &calls) == 44695848.0 + 8);
    assert_int_equal(s.last_batch, 106);
    assert_true(fabs(flops(&last) / flops(&step) - 106.0 / 128) < 1e-9);
    bb_step_release(&step);
    bb_step_release(&last);
}

/* 62 parameters and as many momenta; mean and variance of 20 batch norms with 4800 channels in all. */
static void test_broadcast(void **state)
{
    struct bb_proxy_config c = config_of(4);
    struct bb_step step;
    size_t calls;

    (void)state;
    build(&c, BB_SCALING_BROADCAST, &step);
    assert_true(payload(&step, BB_BROADCAST, &calls) == 2 * 44695848.0 + 2 * 4800 * 4);
    assert_int_equal(calls, 62 + 40 + 62);
    bb_step_release(&step);
    c.sync.optimizer = "adam";
    build(&c, BB_SCALING_BROADCAST, &step);
    assert_true(payload(&step, BB_BROADCAST, &calls) == 3 * 44695848.0 + 2 * 4800 * 4);
    bb_step_release(&step);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps),   cmocka_unit_test(test_strong),     cmocka_unit_test(test_refused),
        cmocka_unit_test(test_figures), cmocka_unit_test(test_karp_flatt), cmocka_unit_test(test_synthetic),
        cmocka_unit_test(test_lines),   cmocka_unit_test(test_step),       cmocka_unit_test(test_broadcast),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
