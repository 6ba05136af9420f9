/*
 * test_memory_series.c - memory over the time of a step: the activations that the operations of a program store and
 * release have the peak of the memory formula, and GEMS stores the activations of one replica at a time.
 */
#include "proxies/simulation/timeline/memory_series.h"
#include "tests/proxies/made.h"

#include <math.h>

/* Returns the peak of the activations in the order of the program. end: out: bytes that are never released. */
static double program_peak(const struct bb_program *p, double *end)
{
    double held = 0, most = 0;

    for (size_t i = 0; i < p->n_ops; i++) {
        held += p->ops[i].stores;
        most = fmax(most, held);
        held -= p->ops[i].releases;
        assert_true(held > -1);
    }
    *end = held;
    return most;
}

static void assert_peaks(struct bb_step *step, double tolerance)
{
    for (int r = 0; r < step->n_roles; r++) {
        const double expected = step->roles[r].training_bytes[BB_USE_ACTIVATIONS];
        double end, peak = program_peak(&step->roles[r].program, &end);

        if (!(peak > 0 && fabs(peak / expected - 1) <= tolerance && fabs(end) < 1))
            fail_msg("%s, %s: peak %.0f, expected %.0f; %.0f not released", step->proxy, step->roles[r].name, peak,
                     expected, end);
    }
    bb_step_release(step);
}

#define GPT .model = "gpt2_small", .ranks = 8, .compute = "timed", .tflops = 100

/* Exact for one model chunk per stage. The formula for several chunks uses their mean. */
static void operations_store_the_peak_of_the_formula(void **state)
{
    struct bb_step step;

    (void)state;
    assert_int_equal(MADE_LINE(&step, "transformer", GPT, .micro_batches = 8, .transformer = {.pp = 4}), 0);
    assert_peaks(&step, 1e-9);
    assert_int_equal(
        MADE_LINE(&step, "transformer", GPT, .micro_batches = 8, .transformer = {.pp = 4, .recompute = "full"}), 0);
    assert_peaks(&step, 1e-9);
    assert_int_equal(MADE_LINE(&step, "transformer", GPT, .micro_batches = 4,
                               .transformer = {.pp = 2, .tp = 2, .schedule = "gpipe", .recompute = "selective"}),
                     0);
    assert_peaks(&step, 1e-9);
    assert_int_equal(MADE_LINE(&step, "transformer", GPT, .micro_batches = 8, .transformer = {.pp = 2, .vpp = 2}), 0);
    assert_peaks(&step, 0.2);
    assert_int_equal(MADE_LINE(&step, "data_parallel", .ranks = 2, .model = "resnet50", .micro_batches = 2), 0);
    assert_peaks(&step, 1e-9);
    assert_int_equal(MADE_LINE(&step, "data_parallel", .ranks = 2, .model = "bert_large"), 0);
    assert_peaks(&step, 1e-9);
    assert_int_equal(MADE_LINE(&step, "spatial", .ranks = 6, .micro_batches = 4, .tiles = {.splits = 3}), 0);
    assert_peaks(&step, 1e-9);
    assert_int_equal(MADE_LINE(&step, "gems", .ranks = 4, .micro_batches = 2, .tiles = {.splits = 4}), 0);
    assert_peaks(&step, 1e-9);
}

/* Returns the peak of the activations in pass `pass` of a GEMS step with one micro-batch per pass. */
static double pass_peak(const struct bb_program *p, int pass)
{
    double held = 0, most = 0;

    for (size_t i = 0; i < p->n_ops; i++) {
        if (p->ops[i].micro_batch != pass)
            continue;
        held += p->ops[i].stores;
        most = fmax(most, held);
        held -= p->ops[i].releases;
    }
    assert_true(fabs(held) < 1); /* the pass releases all that it stores before the next pass */
    return most;
}

/* MAST (SC 2020): rank r stores split r in the first pass and split S - 1 - r in the second, never both. */
static void gems_stores_one_replica_at_a_time(void **state)
{
    struct bb_step step;

    (void)state;
    assert_int_equal(MADE_LINE(&step, "gems", .ranks = 4, .tiles = {.splits = 4, .replications = 2}), 0);
    for (int r = 0; r < 4; r++) {
        const struct bb_role *role = &step.roles[step.role_of[r]], *mirror = &step.roles[step.role_of[3 - r]];
        const double first = pass_peak(&role->program, 0), second = pass_peak(&role->program, 1);

        assert_true(fabs(second / pass_peak(&mirror->program, 0) - 1) < 1e-9);
        assert_true(fabs(role->training_bytes[BB_USE_ACTIVATIONS] / fmax(first, second) - 1) < 1e-9);
    }
    bb_step_release(&step);
}

/* Two kernels, the second of which stores 100 bytes more, at the time when the first releases its 300. */
static void series_follows_the_times_and_is_scaled_to_the_peak(void **state)
{
    static const double activations[] = {0, 600, 200, 0};
    static const int64_t ns[] = {0, 10, 30, 50};
    struct bb_memory_series m;
    struct bb_timeline t;
    struct bb_step step;

    (void)state;
    made_init(&step, 1, 1);
    made_compute(&step, 0, 1, BB_NONE);
    made_compute(&step, 0, 1, BB_NONE);
    step.roles[0].program.ops[0].stores = step.roles[0].program.ops[0].releases = 300;
    step.roles[0].program.ops[1].stores = step.roles[0].program.ops[1].releases = 100;
    step.roles[0].training_bytes[BB_USE_ACTIVATIONS] = 600;
    step.roles[0].training_bytes[BB_USE_OPTIMIZER] = 7;
    bb_timeline_init(&t, &step, NULL, 0);
    t.ops[0][0] = (struct bb_timed_op){10, 30, 0};
    t.ops[0][1] = (struct bb_timed_op){30, 50, 0};
    bb_memory_series_init(&m, &t, 0);
    assert_string_equal(m.name, "training memory");
    assert_int_equal(m.n, 4);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(m.points[i].ns, ns[i]);
        assert_true(m.points[i].bytes[BB_USE_ACTIVATIONS] == activations[i]);
        assert_true(m.points[i].bytes[BB_USE_OPTIMIZER] == 7);
    }
    bb_memory_series_release(&m);
    bb_timeline_release(&t);
    bb_step_release(&step);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operations_store_the_peak_of_the_formula),
        cmocka_unit_test(gems_stores_one_replica_at_a_time),
        cmocka_unit_test(series_follows_the_times_and_is_scaled_to_the_peak),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
