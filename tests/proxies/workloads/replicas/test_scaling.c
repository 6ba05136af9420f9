/*
 * test_scaling.c - scaling studies on N ranks: sizes, metrics and programs, against numbers computed by hand and
 * formulas written again here.
 */
#include "proxies/workloads/registry/registry.h"
#include "proxies/workloads/replicas/replicas.h"
#include "proxies/workloads/replicas/scaling.h"
#include "tests/bootstrap/capture.h"
#include "tests/check.h"

#include <math.h>

static struct bb_proxy_config config_of(int ranks)
{
    struct bb_proxy_config c = {.proxy = "scaling", .ranks = ranks, .dtype = "float", .compute = "timed"};

    assert_int_equal(bb_scaling_defaults(&c), 0);
    return c;
}

/* 50000 images with 128 per rank: the step counts of the original study. */
static void step_counts_match_the_original_study(void **state)
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

static void strong_scaling_divides_the_batch(void **state)
{
    struct bb_proxy_config c = config_of(8);
    struct bb_scaling s;

    (void)state;
    c.scaling.mode = "strong";
    c.scaling.batch = 1024;
    c.scaling.images = 1025;
    assert_int_equal(bb_scaling_resolve(&c, &s), 0); /* 129 images per rank in batches of 128 */
    assert_true(s.batch == 128 && s.full_steps == 1 && s.last_batch == 1 && s.rank_images == 129);
    c.scaling.images = 100; /* fewer images than the global batch */
    assert_int_equal(bb_scaling_resolve(&c, &s), 0);
    assert_true(s.batch == 13 && s.full_steps == 1 && s.last_batch == 0);
    c.scaling.images = 1 << 20;
    c.scaling.epoch_steps = 10;
    assert_int_equal(bb_scaling_resolve(&c, &s), 0);
    assert_true(s.full_steps == 1024 && s.run_steps == 10);
}

static void rejects_invalid_studies(void **state)
{
    static const struct {
        const char *mode, *format, *sync;
        int ranks, batch, epochs;
        const char *messages[3];
    } invalid[] = {
        {"strong", NULL, NULL, 3, 128, 0, {"128", "126 or 129", "2 or 4 ranks"}},
        {"strong", NULL, NULL, 12, 8, 0, {"--batch 12", "8 ranks"}},
        {NULL, "synthetic", NULL, 2, 0, 3, {"--epochs", "synthetic"}},
        {NULL, NULL, "ps_p2p", 4, 0, 0, {"ps_p2p", "try: --sync ps"}},
    };

    (void)state;
    for (size_t i = 0; i < ROWS(invalid); i++) {
        struct bb_proxy_config c = config_of(invalid[i].ranks);
        struct bb_scaling s;
        struct capture captured;
        int rc;

        c.scaling.mode = invalid[i].mode;
        c.scaling.format = invalid[i].format;
        c.scaling.batch = invalid[i].batch;
        c.scaling.epochs = invalid[i].epochs;
        c.sync.sync = invalid[i].sync ? invalid[i].sync : c.sync.sync;
        capture_begin(&captured);
        rc = bb_scaling_resolve(&c, &s);
        capture_end(&captured);
        assert_int_equal(rc, -BB_EUSAGE);
        for (size_t w = 0; w < 3 && invalid[i].messages[w]; w++)
            if (!strstr(captured.text, invalid[i].messages[w]))
                fail_msg("no \"%s\" in: %s", invalid[i].messages[w], captured.text);
    }
}

/* ---- metrics ---- */

/* One rank processes 1000 images in 1 s. Four ranks process 250 images each in 0.3 s, after a first epoch of 0.5 s. */
static void steady_rate_and_efficiency(void **state)
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

/* The Karp-Flatt metric of a speedup from Amdahl's law with serial fraction f is f. */
static void karp_flatt_recovers_the_serial_fraction(void **state)
{
    (void)state;
    for (int n = 2; n <= 64; n *= 2)
        for (double f = 0; f <= 1; f += 0.125)
            assert_true(fabs(bb_karp_flatt(1 / (f + (1 - f) / n), n) - f) < 1e-12);
    assert_true(isnan(bb_karp_flatt(1, 1)));
}

/* The half width is 1.96 population standard deviations; the rates 2 and 4 have mean 3 and standard deviation 1. */
static void synthetic_format_has_mean_and_confidence_interval(void **state)
{
    struct bb_proxy_config c = config_of(2);
    double seconds[10];
    struct bb_scaling s;
    const struct bb_scaling_measured m = {.seconds = seconds, .rounds = 10};
    double mean, half_width;

    (void)state;
    c.scaling.format = "synthetic";
    assert_int_equal(bb_scaling_resolve(&c, &s), 0);
    assert_true(s.batch == 32 && s.rank_images == 320 && s.rounds == 10 && s.full_steps == 10);
    for (int i = 0; i < 10; i++)
        seconds[i] = i % 2 ? 80 : 160; /* 320 images: 4 or 2 images per second */
    bb_scaling_iteration_stats(&s, &m, &mean, &half_width);
    assert_true(fabs(mean - 3) < 1e-12 && fabs(half_width - 1.96) < 1e-12);
    assert_true(fabs(bb_scaling_steady_rate(&s, &m) - 6) < 1e-12);
}

static void prints_epoch_and_iteration_lines(void **state)
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

/* All gradients are reduced once, with any batch size. Fusion pads each tensor to 16 bytes (here the 10 biases of
 * the last layer). The compute of the short step is proportional to its images. */
static void steps_reduce_all_gradients_once(void **state)
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

/* The broadcast sends 62 parameters, 62 momenta, and mean and variance of 20 batch norms with 4800 channels in
 * total. */
static void initial_broadcast_sends_the_whole_state(void **state)
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
        cmocka_unit_test(step_counts_match_the_original_study),
        cmocka_unit_test(strong_scaling_divides_the_batch),
        cmocka_unit_test(rejects_invalid_studies),
        cmocka_unit_test(steady_rate_and_efficiency),
        cmocka_unit_test(karp_flatt_recovers_the_serial_fraction),
        cmocka_unit_test(synthetic_format_has_mean_and_confidence_interval),
        cmocka_unit_test(prints_epoch_and_iteration_lines),
        cmocka_unit_test(steps_reduce_all_gradients_once),
        cmocka_unit_test(initial_broadcast_sends_the_whole_state),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
