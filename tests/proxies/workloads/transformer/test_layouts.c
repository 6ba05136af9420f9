/*
 * test_layouts.c - transformers in random layouts: each layout that is built passes all checks; each other layout is
 * rejected with -BB_EUSAGE.
 */
#include "tests/proxies/workloads/transformer/lines.h"

#include "proxies/offline/plan/traffic.h"
#include "proxies/simulation/simulate/step_check.h"

enum { LAYOUTS = FEW_INPUTS ? 120 : 1000 };

/* xorshift: the same layouts on every machine. */
static unsigned dice;

static int roll(int n)
{
    dice ^= dice << 13;
    dice ^= dice >> 17;
    dice ^= dice << 5;
    return (int)(dice % (unsigned)n);
}

#define PICK(list) list[roll((int)ROWS(list))]

struct pick {
    const char *model;
    int tp, cp, pp, dp, ep, vpp, m, layers, first, last;
    bool experts;
};

static size_t add(char *line, size_t at, const char *option, int value)
{
    return at + (size_t)snprintf(line + at, 1024 - at, " --%s %d", option, value);
}

static size_t add_argument(char *line, size_t at, const char *option, const char *argument)
{
    return *argument ? at + (size_t)snprintf(line + at, 1024 - at, " --%s %s", option, argument) : at;
}

/* Sizes that usually fit each other; the other options are drawn independently. */
static struct pick pick_layout(void)
{
    static const char *const models[] = {"gpt2_small", "llama3_8b", "mixtral_8x7b", "deepseek_v3", "gpt2_xl"};
    static const int widths[] = {1, 1, 2, 4}, stages[] = {1, 2, 3, 4}, replicas[] = {1, 2, 3, 4}, each[] = {1, 2};
    struct pick p = {
        PICK(models), PICK(widths), PICK(widths), PICK(stages), PICK(replicas), 1, 1, 1 + roll(9), 0, 0, 0, 0};

    p.experts = strcmp(p.model, "mixtral_8x7b") == 0 || strcmp(p.model, "deepseek_v3") == 0;
    if (p.experts && roll(3))
        p.ep = PICK(widths);
    if (p.pp > 1 && roll(3) == 0) {
        p.vpp = 2 + roll(2);
        p.m = p.pp * (1 + roll(3));
    }
    p.layers = p.pp * p.vpp * PICK(each);
    return p;
}

/* The first and last stage get different numbers of layers. Drawn separately, so that the sequence of the other
 * draws does not change. */
static void pick_ends(struct pick *p)
{
    int between = (p->pp - 2) * p->vpp * (1 + roll(2));

    p->first = p->vpp * (1 + roll(3));
    p->last = p->vpp * (1 + roll(3));
    p->layers = p->first + between + p->last;
}

static void write_line(const struct pick *p, char line[1024])
{
    static const char *const schedules[] = {"", "gpipe", "1f1b", "zb-h1", "zb-h2"};
    static const char *const syncs[] = {"", "all_reduce", "horovod", "zero1", "zero2", "zero3", "hsdp", "distributed"};
    static const char *const orders[] = {"", "", "tp-cp-ep-pp-dp", "dp-tp-cp-ep-pp", "cp-tp-ep-dp-pp"};
    static const char *const contexts[] = {"ring", "all_gather", "a2a"}, *const recomputes[] = {
                                                                             "", "selective", "full",
                                                                             "full --recompute-num-layers 1"};
    size_t at = (size_t)snprintf(line, 1024, "transformer --model %s", p->model);

    at = add(line, at, "tp", p->tp);
    at = add(line, at, "cp", p->cp);
    at = add(line, at, "pp", p->pp);
    at = add(line, at, "layers", p->layers);
    at = add(line, at, "seq-length", 64);
    at = add(line, at, "micro-batches", p->m);
    at = add(line, at, "micro-batch-size", 1 + roll(2));
    if (p->vpp > 1)
        at = add(line, at, "vpp", p->vpp);
    else
        at = add_argument(line, at, "schedule", PICK(schedules));
    if (p->first > 0)
        at = add(line, at, "decoder-first-pipeline-num-layers", p->first);
    if (p->last > 0)
        at = add(line, at, "decoder-last-pipeline-num-layers", p->last);
    if (p->tp > 1 && (p->experts || roll(2)))
        at += (size_t)snprintf(line + at, 1024 - at, " --sequence-parallel");
    if (p->cp > 1)
        at = add_argument(line, at, "cp-comm", PICK(contexts));
    at = add_argument(line, at, "recompute", PICK(recomputes));
    at = add_argument(line, at, "dp-sync", PICK(syncs));
    at = add_argument(line, at, "order", PICK(orders));
    if (!p->experts)
        return;
    at = add(line, at, "ep", p->ep);
    if (roll(2))
        at = add(line, at, "etp", 1);
    if (roll(3) == 0)
        at = add_argument(line, at, "moe-dispatch", "all_gather");
    else if (roll(2))
        at = add_argument(line, at, "capacity-factor", "1.25");
    else if (roll(2))
        add_argument(line, at, "moe-imbalance", "0.8");
}

static void assert_valid(const struct bb_step *step, const char *line)
{
    struct bb_traffic traffic;
    struct bb_checks checks;

    assert_int_equal(bb_step_check(step, &checks), 0);
    if (!checks.matched || !checks.deadlock_free || !checks.safe_serialised)
        print_error("%d ranks: %s\n  %s\n", step->layout.ranks, line,
                    checks.mismatches.n   ? checks.mismatches.text[0]
                    : checks.deadlock.n   ? checks.deadlock.text[0]
                    : checks.serialised.n ? checks.serialised.text[0]
                                          : "?");
    assert_true(checks.matched && checks.deadlock_free && checks.safe_serialised);
    bb_checks_release(&checks);
    bb_traffic_init(&traffic, step, false);
    bb_traffic_release(&traffic);
}

/* Builds and checks n random layouts; returns how many were valid. */
static int try_layouts(int n, bool ends)
{
    int built = 0;

    for (int i = 0; i < n; i++) {
        struct pick p = pick_layout();
        struct bb_step step;
        char line[1024];
        int rc;

        if (ends && p.pp > 1)
            pick_ends(&p);
        write_line(&p, line);
        bb_err_mute(true);
        rc = lines_make(&step, p.tp * p.cp * p.pp * p.dp, line);
        bb_err_mute(false);
        if (rc != 0 && rc != -BB_EUSAGE)
            print_error("%d: %s\n", rc, line);
        assert_true(rc == 0 || rc == -BB_EUSAGE);
        if (rc)
            continue;
        built++;
        assert_valid(&step, line);
        bb_step_release(&step);
    }
    print_message("%d of %d layouts built\n", built, n);
    return built;
}

static void random_layouts_are_valid_or_rejected(void **state)
{
    (void)state;
    dice = 20261121;
    assert_true(try_layouts(LAYOUTS, false) > LAYOUTS / 2);
}

static void stages_of_unequal_length_are_valid_or_rejected(void **state)
{
    (void)state;
    dice = 20261122;
    assert_true(try_layouts(LAYOUTS / 4, true) > LAYOUTS / 8);
}

static int count_reductions(const char *line)
{
    struct bb_step step;
    int n = 0;

    assert_int_equal(lines_make(&step, 2, line), 0);
    for (size_t i = 0; i < step.roles[0].program.n_ops; i++) {
        const struct bb_op *op = &step.roles[0].program.ops[i];

        n += op->kind == BB_OP_COLLECTIVE && op->coll == BB_ALL_REDUCE && op->count > 1;
    }
    bb_step_release(&step);
    return n;
}

/* Gradients arrive at 0 us (the head), 100 (layer 2), 200, 300 (layer 0 and the embedding); each Horovod cycle
 * reduces the gradients that arrived during the cycle. */
static void horovod_cycles_follow_the_layer_times(void **state)
{
    static const struct {
        const char *cycle_ms;
        int count_reductions;
    } rows[] = {{"0.09", 4}, {"0.15", 3}, {"0.19", 2}, {"0.25", 2}, {"0.29", 2}, {"0.31", 1}};

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        char line[300];

        snprintf(line, sizeof(line),
                 "transformer --model gpt2_small --layers 3 --dp-sync horovod --fusion-threshold 64G "
                 "--compute timed --forward-us 50 --backward-us 100 --micro-batches 1 --cycle-ms %s",
                 rows[i].cycle_ms);
        print_message("  %s ms\n", rows[i].cycle_ms);
        assert_int_equal(count_reductions(line), rows[i].count_reductions);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_layouts_are_valid_or_rejected),
        cmocka_unit_test(stages_of_unequal_length_are_valid_or_rejected),
        cmocka_unit_test(horovod_cycles_follow_the_layer_times),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
