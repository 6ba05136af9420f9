/*
 * layouts.h - helpers for tests of `spatial` and `gems`: builds valid steps from options, and counts the operations of
 * a rank's program.
 */
#ifndef BB_TESTS_SPATIAL_LAYOUTS_H
#define BB_TESTS_SPATIAL_LAYOUTS_H

#include "proxies/simulation/simulate/step_check.h"
#include "tests/proxies/made.h"

static inline void make_valid(struct bb_step *step, const char *name, struct bb_proxy_config config)
{
    struct bb_checks checks;

    assert_int_equal(made_line_with(step, name, config), 0);
    assert_int_equal(bb_step_check(step, &checks), 0);
    assert_int_equal(bb_checks_report(step->proxy, &checks), 0);
    assert_true(checks.matched && checks.deadlock_free && checks.safe_serialised);
    bb_checks_release(&checks);
}

#define VALID_LINE(step, name, ...) make_valid(step, name, (struct bb_proxy_config){__VA_ARGS__})

struct sum {
    size_t calls, elements;
};

/* Operations of one kind of a rank on one group; phase BB_PHASES: all phases. */
static inline struct sum sum_of(const struct bb_step *step, int rank, enum bb_op_kind kind, const char *group,
                                enum bb_phase phase)
{
    const struct bb_program *p = bb_step_program(step, rank);
    struct sum sum = {0, 0};

    for (size_t i = 0; i < p->n_ops; i++) {
        const struct bb_op *op = &p->ops[i];

        if (op->kind != kind || (phase != BB_PHASES && op->phase != phase) ||
            strcmp(step->layout.groups[step->layout.comms[op->comm].group].name, group) != 0)
            continue;
        sum.calls++;
        sum.elements += op->count;
    }
    return sum;
}

static inline struct sum sum_of_all(const struct bb_step *step, enum bb_op_kind kind, const char *group,
                                    enum bb_phase phase)
{
    struct sum all = {0, 0};

    for (int r = 0; r < step->layout.ranks; r++) {
        struct sum one = sum_of(step, r, kind, group, phase);

        all.calls += one.calls;
        all.elements += one.elements;
    }
    return all;
}

static inline void assert_sum(struct sum sum, size_t calls, size_t elements)
{
    assert_int_equal(sum.calls, calls);
    assert_int_equal(sum.elements, elements);
}

#endif
